# SPDX-License-Identifier: Apache-2.0
"""A number that has become a size is checked as a plain one is: that an integer dtype holds it, and
that a divisor is not 0."""

import types

import pytest

import gramme as G
from stress import counted

BACK_ENDS = [b for b in ("eager", "tcc") if b in G.compiler.list_backends()]
MASK = [True, False]


def i8():
    return G.full((2,), 100, dtype=G.int8)


STORED = {
    "fill_": lambda n: i8().fill_(n),
    "full": lambda n: G.full((2,), n, dtype=G.int8),
    "full of bytes": lambda n: G.full((2,), -n, dtype=G.uint8),
    "full of 16 bits": lambda n: G.full((2,), n * 256, dtype=G.int16),
    "full of 32 bits": lambda n: G.full((2,), n * 2**24, dtype=G.int32),
    "full_like": lambda n: G.full_like(i8(), n),
    "new_full": lambda n: i8().new_full((2,), n),
    "masked_fill": lambda n: i8().masked_fill(G.tensor(MASK), n),
    "clamp": lambda n: i8().clamp(max=n),
    "clamp of bytes": lambda n: G.full((1,), 3, dtype=G.uint8).clamp(min=n - 5),
    "an element": lambda n: i8().index_fill(0, G.tensor([1]), n),
    "where": lambda n: G.where(G.tensor(MASK), i8(), n),
    "an expression": lambda n: G.full((2,), n * 3 - 2, dtype=G.int8),
}
DIVIDED = {
    "//": lambda x, n: x // n,
    "%": lambda x, n: x % n,
    "remainder": lambda x, n: G.remainder(x, n),
    "remainder_": lambda x, n: (x + 0).remainder_(n),
    "floor": lambda x, n: G.div(x, n, rounding_mode="floor"),
    "trunc": lambda x, n: G.div(x, n, rounding_mode="trunc"),
    "by an expression": lambda x, n: x // (n - 7),
    "the other way around": lambda x, n: n // x,
}


def outcome(f, *args):
    try:
        y = f(*args)
        return repr(y.tolist()), y.dtype  # as text: a NaN is not equal to itself
    except Exception as e:
        return type(e), str(e)


@pytest.mark.parametrize("backend", BACK_ENDS)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", STORED)
def test_a_size_that_an_integer_dtype_does_not_hold_raises(name, dynamic, backend):
    f = STORED[name]
    compiled = G.compile(f, backend=backend, dynamic=dynamic)
    for n in (5, 6, 300, 7, 127, 128, 1, 0, -3, 2**31, 2**40, 9):
        assert outcome(compiled, n) == outcome(f, n), n


@pytest.mark.parametrize("backend", BACK_ENDS)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", DIVIDED)
def test_a_divisor_that_is_a_size_and_0_raises(name, dynamic, backend):
    f = DIVIDED[name]
    compiled = G.compile(f, backend=backend, dynamic=dynamic)
    for dtype in (G.int64, G.int8, G.float32):
        x = G.tensor([5, -9], dtype=dtype)
        for n in (2, 3, 1, 0, -4, 7, 300, 11):
            assert outcome(compiled, x, n) == outcome(f, x, n), (dtype, n)
    assert outcome(compiled, x[:0], 0) == outcome(f, x[:0], 0)


@pytest.mark.parametrize("backend", BACK_ENDS)
@pytest.mark.parametrize(
    "kind, name",
    [(kind, name) for kind in (STORED, DIVIDED) for name in kind],
    ids=lambda o: "" if isinstance(o, dict) else o,
)
def test_so_does_a_number_that_only_the_run_knows(kind, name, backend):
    f, more = kind[name], [] if kind is STORED else [G.tensor([5, -9])]
    root = lambda t, *x: f(*x, t.item())
    compiled = G.compile(
        types.FunctionType(root.__code__.replace(), globals(), "root", None, root.__closure__),
        backend=backend,
    )
    with G._dynamo.config.patch(capture_scalar_outputs=True):
        for n in (5, 6, 300, 0, 127, 128, -3):
            assert outcome(compiled, G.tensor(n), *more) == outcome(f, *more, n), n


def test_a_divisor_that_no_size_can_be_is_a_number():
    x = G.tensor([5, -9])
    for n in (-(2**62), -(2**62) - 3, -(2**62) + 3, -(2**63), 2**63 - 1):
        for f in (lambda x: x // n, lambda x: x % n, lambda x: G.div(x, n, rounding_mode="trunc")):
            want = f(x)
            assert want.tolist() == G.compile(f, backend="eager")(x).tolist()
        assert (x // n).tolist() == [5 // n, -9 // n] and (x % n).tolist() == [5 % n, -9 % n]


def test_a_divisor_of_the_run_stays_in_the_graph():
    compiled = G.compile(lambda x, t: x // t.item() + 1, backend="eager", fullgraph=True)
    with G._dynamo.config.patch(capture_scalar_outputs=True):
        for n in (2, 3, -4):
            assert compiled(G.tensor([5, -9]), G.tensor(n)).tolist() == [5 // n + 1, -9 // n + 1]
        assert len(compiled.entries()) == counted(1)
