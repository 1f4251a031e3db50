# SPDX-License-Identifier: Apache-2.0
"""out= of another shape is resized, with a warning if it had elements; memory formats that a tensor
is asked about; handles of hooks."""

import warnings

import pytest

import gramme as G

CASES = {
    "to more elements": (lambda out: G.sigmoid(G.ones(2, 3), out=out), lambda: G.tensor(0.0), True),
    "to fewer": (lambda out: G.cosh(G.ones(2), out=out), lambda: G.zeros(5), True),
    "to as many": (lambda out: G.neg(G.ones(2, 3), out=out), lambda: G.zeros(6), True),
    "of the same shape": (lambda out: G.neg(G.ones(2, 3), out=out), lambda: G.zeros(2, 3), False),
    "without elements": (lambda out: G.neg(G.ones(2, 3), out=out), lambda: G.zeros(0), False),
    "of a reduction": (lambda out: G.sum(G.ones(2, 3), 0, out=out), lambda: G.zeros(2, 2), True),
    "another dtype": (
        lambda out: G.add(G.ones(2), G.ones(2), out=out),
        lambda: G.zeros(3, dtype=G.float64),
        True,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("compiled", [False, True])
def test_out_takes_the_shape_of_the_result(case, compiled):
    call, make, warns = CASES[case]
    run = G.compile(lambda out: call(out), backend="eager") if compiled else call
    out = make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(out)
    want = call(G.zeros(0, dtype=out.dtype))
    assert (
        result is out
        and out.shape == want.shape
        and out.dtype == want.dtype
        and out.tolist() == want.tolist()
    )
    assert (
        [w for w in caught if "was resized since it had shape" in str(w.message)] != []
        if warns
        else True
    )
    assert warns or not [
        w for w in caught if issubclass(w.category, UserWarning) and "resized" in str(w.message)
    ]


def test_an_out_that_shares_memory_shares_it_afterwards():
    base = G.zeros(6)
    view = base[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        G.add(G.ones(4), 1, out=view)
    assert view.tolist() == [2.0] * 4 and base.tolist() == [2.0] * 4 + [0.0] * 2


def test_the_values_are_those_before_the_resizing():
    x = G.tensor([1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        G.mul(x.reshape(2, 1), x, out=x)
    assert x.tolist() == [[1.0, 2.0], [2.0, 4.0]]


def test_a_tuple_of_outs_is_resized_one_by_one():
    values, indices = G.zeros(7), G.zeros(2, dtype=G.int64)
    with pytest.warns(UserWarning) as caught:
        G.sort(G.tensor([2.0, 1.0]), out=(values, indices))
    assert values.tolist() == [1.0, 2.0] and indices.tolist() == [1, 0] and len(caught) == 1


def test_frexp_writes_into_a_pair_of_tensors():
    x = G.tensor([3.0, -0.75, 0.0])
    mantissa, exponent = G.zeros(3), G.zeros(0, dtype=G.int32)
    result = G.frexp(x, out=(mantissa, exponent))
    assert result[0] is mantissa and result[1] is exponent
    assert (
        [t.tolist() for t in result]
        == [t.tolist() for t in G.frexp(x)]
        == [[0.75, -0.75, 0.0], [2, 0, 0]]
    )


def test_the_warning_may_be_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="required output shape"):
            G.sigmoid(G.ones(2, 3), out=G.zeros(2))


FORMATS = [
    ((2, 3, 4, 5), G.contiguous_format, True),
    ((2, 3, 4, 5), G.channels_last, False),
    ((2, 1, 4, 5), G.channels_last, True),
    ((3, 4), G.channels_last, False),
    ((2, 3, 4, 5, 6), G.channels_last_3d, False),
]


@pytest.mark.parametrize("shape, memory_format, want", FORMATS)
def test_a_tensor_says_whether_it_lies_in_a_memory_format(shape, memory_format, want):
    x = G.zeros(shape)
    assert x.is_contiguous(memory_format=memory_format) is want
    assert (
        G.compile(lambda x: x + x.is_contiguous(memory_format=memory_format), backend="eager")(x)
        .flatten()[0]
        .item()
        == want
    )


def test_channels_that_come_last_are_seen():
    x = G.zeros(2, 4, 5, 3).permute(0, 3, 1, 2)
    assert x.is_contiguous(memory_format=G.channels_last) and not x.is_contiguous()
    y = G.zeros(2, 4, 5, 6, 3).permute(0, 4, 1, 2, 3)
    assert y.is_contiguous(memory_format=G.channels_last_3d) and not y.is_contiguous(
        memory_format=G.channels_last
    )
    assert not x.is_contiguous(memory_format=G.preserve_format) and x.contiguous().is_contiguous(
        memory_format=G.preserve_format
    )
    with pytest.raises(RuntimeError, match="memory_format"):
        x.is_contiguous(memory_format="other")


def test_handles_of_hooks_of_tensors_are_removable_handles():
    def f(x):
        handle = x.register_hook(lambda g: g * 2)
        return isinstance(handle, G.utils.hooks.RemovableHandle)

    x = G.ones(2, requires_grad=True)
    assert f(x) is True and G.compile(f, backend="eager")(x) is True
    assert isinstance((x * 2).grad_fn.register_hook(lambda *a: None), G.utils.hooks.RemovableHandle)
    assert isinstance(
        x.register_post_accumulate_grad_hook(lambda t: None), G.utils.hooks.RemovableHandle
    )
