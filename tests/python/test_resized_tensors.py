# SPDX-License-Identifier: Apache-2.0
"""resize_, as_strided_ and `t.data = other`: a tensor that takes other elements, more of them, or
other memory; and the memory itself, untyped_storage."""

import numpy as np
import pytest

import gramme as G


def ramp(n=6, **options):
    return G.arange(float(n), **options)


# -- resize_


@pytest.mark.parametrize(
    "size, want",
    [
        ((2, 2), [[0, 1], [2, 3]]),
        ((3,), [0, 1, 2]),
        ((6,), [0, 1, 2, 3, 4, 5]),
        ((0,), []),
        ((3, 2), [[0, 1], [2, 3], [4, 5]]),
        ((), 0),
    ],
)
@pytest.mark.parametrize("compile", [False, True])
def test_a_tensor_is_resized_to_fewer_elements(size, want, compile):
    def fn(x):
        return x.resize_(size) * 1, x

    x = ramp().reshape(2, 3)
    y, same = (G.compile(fn, backend="eager") if compile else fn)(x)
    assert y.tolist() == x.tolist() == want and same is x and x.is_contiguous() and x._version == 1


def test_more_elements_than_the_memory_has_make_it_grow_under_all_views():
    x = ramp()
    view, plain = x[1:3], x.detach()
    assert x.resize_(12) is x and x.tolist() == [0, 1, 2, 3, 4, 5] + [0] * 6
    x[2] = 50
    assert view.tolist() == [1, 50] and plain.tolist() == [0, 1, 50, 3, 4, 5]
    assert (
        view.untyped_storage() == x.untyped_storage() == plain.untyped_storage()
        and view.untyped_storage().nbytes() == 48
    )
    tail = ramp()[2:]
    tail.resize_(2, 4)[1] = 7
    assert tail[0].tolist() == [2, 3, 4, 5] and tail.untyped_storage().nbytes() == 40


@pytest.mark.parametrize("n", [1, 500, 600, 5000])
def test_memory_grows_again_and_again_and_is_given_back(n):
    before = G._core.live_bytes()
    x = G.zeros(n)
    for k in range(1, 6):
        x.resize_(n * 2 * k).fill_(k)
        assert x.sum().item() == n * 2 * k * k
    del x
    assert G._core.live_bytes() == before


def test_the_layout_of_the_same_shape_stays_and_another_is_row_major():
    x = ramp().reshape(2, 3).t()
    assert x.resize_(3, 2).stride() == (1, 3) and x._version == 0
    assert (
        x.resize_(2, 3).stride() == (3, 1)
        and x._version == 1
        and x.tolist() == [[0, 1, 2], [3, 4, 5]]
    )
    wide = ramp(3).expand(2, 3)
    assert wide.resize_(1, 3).tolist() == [[0, 1, 2]] and wide.stride() == (3, 1)


@pytest.mark.parametrize(
    "make, size, words",
    [
        (lambda: ramp(requires_grad=True), (3,), "requires grad"),
        (lambda: ramp(requires_grad=True) * 2, (3,), "requires grad"),
        (lambda: ramp(), (-1,), "negative"),
        (
            lambda: G.from_numpy(np.arange(4.0)),
            (8,),
            "not resizable: its 32 bytes are another library's, and 64",
        ),
    ],
)
def test_what_cannot_be_resized_says_why(make, size, words):
    x = make()
    before = x.tolist()
    with pytest.raises(RuntimeError, match=words):
        x.resize_(size)
    assert x.tolist() == before
    foreign = G.from_numpy(np.arange(4.0))
    assert foreign.resize_(2).tolist() == [0, 1]


def test_a_compiled_function_sees_memory_that_has_moved():
    f = G.compile(lambda x: x * 2, backend="eager")
    x = ramp(4)
    view = x[:2]
    assert f(view).tolist() == [0, 2]
    x.resize_(4000)
    x[1] = 8
    assert f(view).tolist() == [0, 16] and f(x[:3]).tolist() == [0, 16, 4]


# -- as_strided_


def test_a_tensor_takes_other_elements_of_its_memory():
    x = ramp().reshape(2, 3)
    assert x.as_strided_((3,), (2,)) is x and x.tolist() == [0, 2, 4] and x._version == 1
    x = ramp()
    assert x.as_strided_((2, 2), (1, 1)).tolist() == [[0, 1], [1, 2]]
    with pytest.raises(RuntimeError, match="not inside of the memory"):
        x.as_strided_((3,), (4,))


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize(
    "size, stride, grad",
    [
        ((3,), (2,), [2, 0, 4, 0, 6, 0]),
        ((3,), (0,), [12, 0, 0, 0, 0, 0]),
        ((2, 1), (1, 1), [2, 4, 0, 0, 0, 0]),
    ],
)
def test_gradients_go_to_the_elements_that_were_taken(size, stride, grad, compile):
    def fn(a):
        b = a * 2
        b.as_strided_(size, stride)
        return (b.reshape(-1) * ramp(3)[: b.numel()].add(1)).sum()

    a = ramp(requires_grad=True)
    (G.compile(fn, backend="eager") if compile else fn)(a).backward()
    assert a.grad.tolist() == grad


def test_a_view_outside_of_what_it_was_taken_of_keeps_its_gradient_until_that_is_written_to():
    def after(write):
        a = ramp(requires_grad=True)
        b = a * 2
        view = b[1:3]
        b.as_strided_((3,), (2,))
        if write:
            b.mul_(3)
        view.sum().backward()
        return view.tolist(), a.grad.tolist()

    assert after(False) == ([2, 4], [0, 2, 2, 0, 0, 0])
    with pytest.raises(RuntimeError, match="took other elements in place.*take the view again"):
        after(True)
    a = ramp(requires_grad=True)
    b = a * 2
    view = b[1:3]
    b.as_strided_((3,), (2,))
    with pytest.raises(RuntimeError, match="no longer lies inside"):
        view.mul_(a[:2])


def test_writes_to_a_view_that_took_other_elements_reach_its_base():
    a = ramp(requires_grad=True)
    b = a * 2
    view = b[1:5]
    view.as_strided_((2,), (2,), 1)
    view.mul_(3)
    b.sum().backward()
    assert b.tolist() == [0, 6, 4, 18, 8, 10] and a.grad.tolist() == [2, 6, 2, 6, 2, 2]


@pytest.mark.parametrize("write", ["x.mul_(2)", "view.mul_(2)", "view.copy_(w)"])
def test_compiled_writes_beside_a_view_that_lies_outside_are_those_of_plain_python(write):
    scope = {}
    exec(f"def fn(x, view, w):\n    {write}\n    return x * 1, view * 1", scope)
    results = []
    for fn in (scope["fn"], G.compile(scope["fn"], backend="eager")):
        x = ramp(8)
        view = x[3:7]
        x.as_strided_((3,), (2,))
        y, v = fn(x, view, G.ones(4))
        results.append((y.tolist(), v.tolist(), x.tolist(), view.tolist()))
    assert results[0] == results[1]


# -- data


def test_a_view_that_is_given_other_data_leaves_its_base():
    a = G.ones(4)
    b = a[:2]
    b.data = G.zeros(3)
    assert b.tolist() == [0, 0, 0] and a.tolist() == [1, 1, 1, 1]
    b.add_(5)
    assert a.tolist() == [1, 1, 1, 1]


def test_a_history_stays_where_data_is_set():
    a = G.ones(4, requires_grad=True)
    c = a * 2
    view = c[:2]
    view.data = G.full((2,), 7.0)
    assert view.tolist() == [7, 7]
    (view * 3).sum().backward()
    assert a.grad.tolist() == [6, 6, 0, 0]
    a.grad = None
    d = a * 5
    d.data = G.zeros(4)
    assert d.tolist() == [0] * 4 and d.requires_grad and d.grad_fn is not None
    d.sum().backward()
    assert a.grad.tolist() == [5] * 4


def test_views_of_what_is_given_other_data_stay_in_the_old_memory():
    a = G.ones(4, requires_grad=True)
    c = a * 2
    view = c[:2]
    c.data = G.zeros(4)
    assert view.tolist() == [2, 2] and c.tolist() == [0] * 4
    view.sum().backward()
    assert a.grad.tolist() == [2, 2, 0, 0]


@pytest.mark.parametrize("data", [lambda: G.zeros(2), lambda: G.zeros(3, dtype=G.float64)])
def test_a_gradient_that_fits_no_more_is_an_error_of_the_backward(data):
    a = G.ones(3, requires_grad=True)
    b = a * 2
    b.data = data()
    assert b.shape == data().shape and b.dtype == data().dtype
    with pytest.raises(RuntimeError, match="data of a tensor with a history was set"):
        b.sum().backward()
    assert a.grad is None


def test_data_of_a_tensor_that_requires_grad_is_floating():
    for make in (lambda a: a, lambda a: a * 2):
        x = make(G.ones(3, requires_grad=True))
        with pytest.raises(RuntimeError, match="must be floating point"):
            x.data = G.zeros(3, dtype=G.int64)
    leaf = G.ones(3, requires_grad=True)
    leaf.data = G.zeros(2)
    leaf.sum().backward()
    assert leaf.grad.tolist() == [1, 1]


# -- untyped_storage


def test_a_storage_is_the_bytes_that_a_tensor_and_its_views_share():
    x = G.tensor([1, 2, 3], dtype=G.int16)
    s = x.untyped_storage()
    assert (
        isinstance(s, G.UntypedStorage)
        and len(s) == s.nbytes() == s.size() == 6
        and s.element_size() == 1
    )
    assert (
        s.tolist() == list(s) == [1, 0, 2, 0, 3, 0] and s[2] == 2 and s.data_ptr() == x.data_ptr()
    )
    assert (
        s == x[1:].untyped_storage()
        and x[1:].untyped_storage().data_ptr() == x.data_ptr()
        and hash(s) == hash(x.view(-1).untyped_storage())
    )
    assert (
        s != x.clone().untyped_storage()
        and repr(s) == "[gramme.UntypedStorage(device=cpu) of size 6]"
    )
    s[4] = 9
    assert x.tolist() == [1, 2, 9] and x._version == 1
    copy = s.clone()
    s.fill_(0)
    assert x.tolist() == [0, 0, 0] and copy.tolist() == [1, 0, 2, 0, 9, 0]
    s.copy_(copy)
    assert x.tolist() == [1, 2, 9] and s[1:3].tolist() == [0, 2]


def test_a_storage_grows_and_does_not_shrink():
    x = G.ones(2)
    s = x.untyped_storage()
    assert (
        s.resize_(4000) is s
        and x.tolist() == [1, 1]
        and s.nbytes() == 4000
        and s.data_ptr() == x.data_ptr()
    )
    with pytest.raises(RuntimeError, match="cannot be made smaller"):
        s.resize_(0)
    with pytest.raises(RuntimeError, match="cannot take"):
        s.copy_(G.ones(1).untyped_storage())
    with pytest.raises(TypeError, match="not int"):
        G.UntypedStorage(3)
