# SPDX-License-Identifier: Apache-2.0
"""Numbers beyond the largest of a floating dtype: an error where they are stored, infinity where
they are computed with."""

import math

import pytest

import gramme

F = gramme.nn.functional
INF = math.inf
LARGEST = {
    gramme.float16: 65504.0,
    gramme.bfloat16: 3.3895313892515355e38,
    gramme.float32: 3.4028234663852886e38,
}
TRUE_FALSE = gramme.tensor([True, False])


def ways(f):
    gramme._dynamo.reset()
    return [f] + [gramme.compile(f, backend=b) for b in ("eager", "tcc")]


def write(t, v):
    t = t.clone()
    t[0] = v
    return t


def write_at(t, v):
    t = t.clone()
    t[gramme.tensor([0])] = v
    return t


STORED = {
    "full": lambda t, v: gramme.full((2,), v, dtype=t.dtype),
    "full_like": lambda t, v: gramme.full_like(t, v),
    "new_full": lambda t, v: t.new_full((2,), v),
    "fill_": lambda t, v: t.clone().fill_(v),
    "a subscript": write,
    "a subscript of a tensor": write_at,
    "masked_fill": lambda t, v: t.masked_fill(TRUE_FALSE, v),
    "index_fill": lambda t, v: t.index_fill(0, gramme.tensor([0]), v),
    "scatter": lambda t, v: t.scatter(0, gramme.tensor([0]), v),
    "where": lambda t, v: gramme.where(TRUE_FALSE, v, t),
    "pad": lambda t, v: F.pad(t, (1, 0), value=v),
    "threshold": lambda t, v: F.threshold(t, 9.0, v),
    "clamp": lambda t, v: t.clamp(v, v),
    "clamp_": lambda t, v: t.clone().clamp_(v, v),
}


ROUNDED = ("where", "a subscript", "a subscript of a tensor")


@pytest.mark.parametrize("dtype", LARGEST, ids=str)
@pytest.mark.parametrize("name", STORED)
def test_a_stored_number_is_not_beyond_the_largest(name, dtype):
    t, most = gramme.tensor([1.0, 2.0], dtype=dtype), LARGEST[dtype]
    beyond = math.nextafter(most, INF)
    if name in ROUNDED and dtype is not gramme.float32:  # the number becomes a half first
        assert [f(t)[0].item() for f in ways(lambda t: STORED[name](t, 4 * most))] == [INF] * 3
        return
    for f in ways(lambda t: STORED[name](t, beyond)) + [lambda t: STORED[name](t, -beyond)]:
        with pytest.raises(
            RuntimeError,
            match=f"value cannot be converted to type {str(dtype)[7:]} without overflow",
        ):
            f(t)
    for number in (most, -most, INF, -INF, math.nan):
        got = STORED[name](t, number)[0].item()
        assert got == number or math.isnan(number) and math.isnan(got)
    assert STORED[name](t.double(), beyond)[0].item() == beyond


COMPUTED = {
    "a tensor of lists": (lambda t: gramme.tensor([1e40, 1.0]), [INF, 1]),
    "add": (lambda t: t + 1e40, [INF, INF]),
    "mul": (lambda t: t * -1e40, [-INF, -INF]),
    "div": (lambda t: t / 1e40, [0, 0]),
    "compare": (lambda t: t < 1e40, [1, 1]),
    "pow": (lambda t: t**1e40, [1, INF]),
    "a base": (lambda t: 1e40**t, [INF, INF]),
    "fmod": (lambda t: gramme.fmod(t, 1e40), [1, 2]),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_number_that_is_computed_with_may_be_beyond(name):
    f, want = COMPUTED[name]
    for g in ways(f):
        assert g(gramme.tensor([1.0, 2.0])).tolist() == want
