# SPDX-License-Identifier: Apache-2.0
"""Operators, subscripts, promotion and broadcasting against numpy."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gramme

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARE = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
A = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
B = np.array([[2.0, 0.5, -3.0], [0.5, 1.0, 8.0]], np.float32)


def check(tensor, array):
    assert tensor.shape == array.shape
    np.testing.assert_array_equal(tensor.detach().numpy(), array)


@pytest.mark.parametrize("op", ARITHMETIC + COMPARE)
def test_binary_operators_agree_with_numpy(op):
    check(op(gramme.tensor(A), gramme.tensor(B)), op(A, B))


@pytest.mark.parametrize("op", ARITHMETIC + COMPARE)
def test_numbers_on_either_side(op):
    check(op(gramme.tensor(A), 2), op(A, np.float32(2)))
    check(op(2, gramme.tensor(A)), op(np.float32(2), A))
    check(op(gramme.tensor(A), np.float64(0.5)), op(A, np.float32(0.5)))


def test_unary_operators_and_power():
    t = gramme.tensor(A)
    check(-t, -A)
    check(+t, A)
    check(abs(t), abs(A))
    check(t**2, A**2)
    check(~gramme.tensor([True, False]), np.array([False, True]))
    check(gramme.tensor([7, -7]) // 2, np.array([3, -4]))
    check(gramme.tensor([7, -7]) % 3, np.array([1, 2]))


def test_bit_operators():
    a, b = np.array([1, 6, 12]), np.array([3, 5, 10])
    for op in (operator.and_, operator.or_, operator.xor):
        check(op(gramme.tensor(a), gramme.tensor(b)), op(a, b))


def test_matmul_operator():
    np.testing.assert_allclose((gramme.tensor(A) @ gramme.tensor(B).T).numpy(), A @ B.T, rtol=1e-6)


def test_arrays_beside_tensors_give_tensors():
    t = gramme.tensor(A)
    assert type(t + B) is gramme.Tensor and type(B + t) is gramme.Tensor
    check(B + t, A + B)


def test_strangers_are_refused_by_python_itself():
    with pytest.raises(TypeError, match="unsupported operand"):
        gramme.tensor(A) + "x"
    with pytest.raises(TypeError, match="not supported"):
        gramme.tensor(A) < []
    assert (gramme.tensor(A) == None) is False  # noqa: E711


def test_promotion_follows_torch():
    i, f, d, b = (
        gramme.tensor([1]),
        gramme.tensor([1.0]),
        gramme.tensor([1.0], dtype=gramme.float64),
        gramme.tensor([True]),
    )
    assert (
        (i + f).dtype is gramme.float32
        and (f + d).dtype is gramme.float64
        and (b + i).dtype is gramme.int64
    )
    assert (
        (i + 1.5).dtype is gramme.float32
        and (f + 1).dtype is gramme.float32
        and (i / i).dtype is gramme.float32
    )
    assert (i + gramme.tensor(1.0, dtype=gramme.float64)).dtype is gramme.float64
    assert (f + gramme.tensor(1.0, dtype=gramme.float64)).dtype is gramme.float32
    assert gramme.promote_types(gramme.uint8, gramme.int32) is gramme.int32


shapes = st.lists(st.integers(0, 3), max_size=3)


@settings(max_examples=100)
@given(shapes, shapes)
def test_broadcasting_is_numpys(a, b):
    x, y = np.ones(a, np.float32), np.full(b, 2, np.float32)
    try:
        want = x + y
    except ValueError:
        with pytest.raises(RuntimeError):
            gramme.tensor(x) + gramme.tensor(y)
        return
    check(gramme.tensor(x) + gramme.tensor(y), want)


def test_shape_errors_name_both_shapes():
    with pytest.raises(RuntimeError, match=r"\[2, 3\].*\[4\]"):
        gramme.zeros(2, 3) + gramme.zeros(4)
    with pytest.raises(RuntimeError, match=r"\[2, 3\].*\[2, 3\]"):
        gramme.zeros(2, 3) @ gramme.zeros(2, 3)


def test_inplace_operators_change_the_tensor_itself_and_its_version():
    t = gramme.tensor(A)
    same, version = t, t._version
    t += 1
    t *= gramme.tensor(B)
    t -= 0.5
    t /= 2
    assert t is same and t._version == version + 4
    check(t, ((A + 1) * B - np.float32(0.5)) / 2)


def test_inplace_through_views_reaches_the_base():
    t = gramme.zeros(2, 3)
    row = t[1]
    row += 5
    t[0, 1] = 7
    t.T[2] *= 2
    assert t.tolist() == [[0.0, 7.0, 0.0], [5.0, 5.0, 10.0]]
    assert row._base is t and row._version == t._version


def test_inplace_refuses_to_grow_or_change_dtype():
    t = gramme.zeros(3)
    with pytest.raises(RuntimeError, match=r"\[3\]"):
        t += gramme.zeros(2, 3)
    with pytest.raises(RuntimeError):
        i = gramme.tensor([1])
        i += 1.5


INDICES = [
    0, -1, slice(None), slice(1, None), slice(None, None, 2), slice(-2, None), (0, 1),
    (slice(None), 1), (..., 0),
    (None, 0), (slice(None), None), (slice(0, 1), slice(1, 3)), ([0, 1],), [1, 0],
    (slice(None), [2, 0]),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES + [([0, 1], [2, 0])], ids=repr)
def test_getitem_is_numpys(index):
    check(gramme.tensor(A)[index], A[index])


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_setitem_is_numpys(index):
    t, a = gramme.tensor(A), A.copy()
    t[index] = 9
    a[index] = 9
    check(t, a)


def test_masks_and_tensor_indices():
    t = gramme.tensor(A)
    check(t[t > 0], A[A > 0])
    check(t[gramme.tensor([1, 1])], A[[1, 1]])
    check(t[np.array([1, 0])], A[[1, 0]])
    t[t < 0] = 0
    check(t, np.where(A < 0, 0, A).astype(np.float32))


MASKS = [
    (slice(None), np.array([True, False, True])),
    (np.array([True, False]),),
    (..., np.array([False, True, True])),
    (np.array([True, True]), 1),
    A > 100,
]


@pytest.mark.parametrize("index", MASKS, ids=repr)
def test_masks_beside_other_indices(index):
    check(gramme.tensor(A)[index], A[index])


def test_masks_are_differentiated_and_take_vectors():
    x = gramme.tensor(A, requires_grad=True)
    (x[x > 0] * 2).sum().backward()
    check(x.grad, np.where(A > 0, 2, 0).astype(np.float32))
    t = gramme.zeros(3)
    t[gramme.tensor([True, False, True])] = gramme.tensor([5.0, 6.0])
    assert t.tolist() == [5.0, 0.0, 6.0]
    for mask in ([True, False, True], [[True, False, True]]):
        with pytest.raises(IndexError, match="mask"):
            gramme.tensor(A)[gramme.tensor(mask)]


def test_bad_subscripts():
    t = gramme.tensor(A)
    with pytest.raises(IndexError):
        t[2]
    with pytest.raises(IndexError):
        t[0, 0, 0]
    with pytest.raises((TypeError, IndexError)):
        t["x"]
    with pytest.raises(TypeError, match="deleted"):
        del t[0]
