# SPDX-License-Identifier: Apache-2.0
"""Construction, attributes, numbers, identity and text of tensors."""

import copy
import gc
import inspect
import sys
import weakref

import numpy as np
import pytest

import gramme


def test_tensor_of_nested_lists_has_their_shape_and_values():
    t = gramme.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert t.shape == (2, 3) and t.dtype is gramme.float32
    assert t.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.mark.parametrize(
    "data, dtype",
    [
        (1, gramme.int64),
        (1.5, gramme.float32),
        (True, gramme.bool),
        ([True, 2], gramme.int64),
        ([1, 2.5], gramme.float32),
        ([], gramme.float32),
        (np.float32(2), gramme.float32),
        (np.arange(3, dtype=np.int32), gramme.int32),
        (range(3), gramme.int64),
    ],
)
def test_dtype_is_inferred_from_data(data, dtype):
    assert gramme.tensor(data).dtype is dtype


def test_dtype_and_requires_grad_can_be_given():
    t = gramme.tensor([1, 2], dtype=gramme.float64, requires_grad=True)
    assert t.dtype is gramme.float64 and t.requires_grad and t.is_leaf


@pytest.mark.parametrize("data", [[[1, 2], [3]], [[1], 2], [1, [2]], [[1, 2], [3, [4]]]])
def test_uneven_lists_are_refused(data):
    with pytest.raises((ValueError, TypeError), match="uneven|number"):
        gramme.tensor(data)


def test_what_is_no_number_is_refused():
    with pytest.raises(TypeError, match="str"):
        gramme.tensor(["a"])
    with pytest.raises(OverflowError):
        gramme.tensor(2**70)


def test_list_of_tensors_and_arrays():
    assert gramme.tensor([gramme.tensor(1.0), np.float64(2.0)]).tolist() == [1.0, 2.0]
    assert gramme.tensor([np.array([1.0, 2.0]), [3.0, 4.0]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_list_that_shrinks_while_it_is_read_is_an_error():
    class Shrink:
        shape = ()

        def __init__(self, owner):
            self.owner = owner

        def __index__(self):
            self.owner.clear()
            return 1

    data = [0]
    data += [Shrink(data), 2, 3]
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        gramme.tensor(data)


def test_tensor_copies_and_as_tensor_shares():
    t = gramme.tensor([1.0, 2.0])
    assert gramme.as_tensor(t) is t
    assert gramme.tensor(t).data_ptr() != t.data_ptr()
    a = np.zeros(3, np.float32)
    gramme.as_tensor(a)[0] = 5
    assert a[0] == 5


def test_size_is_a_tuple_and_prints_as_torch_does():
    shape = gramme.zeros(2, 3).shape
    assert isinstance(shape, tuple) and isinstance(shape, gramme.Size) and shape == (2, 3)
    assert repr(shape) == "gramme.Size([2, 3])" and shape.numel() == 6


def test_shape_questions():
    t = gramme.zeros(2, 3, 4)
    assert (t.dim(), t.ndim, t.numel(), len(t), t.size(1), t.size(-1), t.stride(), t.stride(0)) == (
        3,
        3,
        24,
        2,
        3,
        4,
        (12, 4, 1),
        12,
    )
    assert (
        t.element_size() == 4 and t.is_contiguous() and t.storage_offset() == 0 and t.nbytes == 96
    )
    assert not t.T.is_contiguous() and t.T.shape == (4, 3, 2) and t.mT.shape == (2, 4, 3)
    with pytest.raises(IndexError, match="3 dimensions"):
        t.size(3)
    with pytest.raises(TypeError):
        len(gramme.tensor(1))


def test_item_and_conversions_to_numbers():
    assert gramme.tensor([[2.5]]).item() == 2.5
    assert isinstance(gramme.tensor(3).item(), int) and gramme.tensor(True).item() is True
    assert (int(gramme.tensor(2.7)), float(gramme.tensor(2)), [10, 20, 30][gramme.tensor(1)]) == (
        2,
        2.0,
        20,
    )
    assert bool(gramme.tensor(0.0)) is False and bool(gramme.tensor([3]))
    assert f"{gramme.tensor(1.23456):.2f}" == "1.23"
    with pytest.raises(RuntimeError, match=r"\[2\]"):
        gramme.zeros(2).item()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(gramme.zeros(2))
    with pytest.raises(TypeError):
        [1, 2][gramme.tensor(1.0)]


def test_iteration_and_containment():
    assert [row.tolist() for row in gramme.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    a, b = gramme.tensor([1, 2])
    assert (a.item(), b.item()) == (1, 2)
    assert 2 in gramme.tensor([1, 2]) and 3 not in gramme.tensor([1, 2])
    with pytest.raises(TypeError, match="0-d"):
        iter(gramme.tensor(1))


def test_repr_looks_like_torchs():
    assert repr(gramme.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(gramme.tensor([1, 2])) == "tensor([1, 2])"
    assert "requires_grad=True" in repr(gramme.tensor([1.0], requires_grad=True))
    assert "grad_fn=<MulBackward0>" in repr(gramme.tensor([1.0], requires_grad=True) * 2)


def test_dtypes_are_singletons_with_aliases():
    assert (
        gramme.float is gramme.float32
        and gramme.double is gramme.float64
        and gramme.long is gramme.int64
    )
    assert (
        repr(gramme.float32) == "gramme.float32"
        and gramme.float64.itemsize == 8
        and gramme.int64.is_floating_point is False
    )
    assert copy.deepcopy(gramme.float32) is gramme.float32
    assert (
        gramme.half is gramme.float16
        and gramme.short is gramme.int16
        and gramme.bfloat16.itemsize == 2
    )


def test_device_is_the_cpu():
    assert str(gramme.zeros(1).device) == "cpu" and gramme.zeros(1).device == gramme.device("cpu")
    assert gramme.zeros(1, device="cpu").shape == (1,)
    for name in ("cuda:7", "mars"):
        with pytest.raises(RuntimeError, match=f"there is no device.*{name}"):
            gramme.zeros(1, device=name)


def test_identity_is_kept_while_python_holds_the_object():
    x = gramme.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is x.grad
    g = x.grad
    g.note = "kept"
    assert x.grad.note == "kept"
    assert {x: 1}[x] == 1 and hash(x) != hash(gramme.ones(3))


def test_attributes_weak_references_and_cycles():
    t = gramme.zeros(4)
    t.self = t
    r = weakref.ref(t)
    del t
    gc.collect()
    assert r() is None


def test_temporaries_are_freed_at_once(no_leak):
    t = gramme.zeros(1000)
    before = gramme._core.live_bytes()
    for _ in range(50):
        t = t + 1
    assert gramme._core.live_bytes() <= before + 2 * 4096
    assert sys.getrefcount(t) == 2
    del t


def test_subclasses_are_made_and_results_are_of_them():
    class Mine(gramme.Tensor):
        pass

    t = gramme.Tensor._make_subclass(Mine, gramme.ones(2))
    t.tag = 1
    assert isinstance(t, Mine) and type(t + 1) is Mine and t.__dict__ == {"tag": 1}


def test_deepcopy_keeps_class_attributes_and_requires_grad():
    p = gramme.nn.Parameter(gramme.ones(2))
    p.tag = [1]
    q, r = copy.deepcopy([p, p])
    assert (
        q is r
        and type(q) is gramme.nn.Parameter
        and q.requires_grad
        and q.tag == [1]
        and q.tag is not p.tag
    )
    assert q.data_ptr() != p.data_ptr()
    with pytest.raises(RuntimeError, match="history"):
        copy.deepcopy(p * 2)


def test_data_shares_memory_and_can_be_replaced():
    t = gramme.ones(2, requires_grad=True)
    t.data[0] = 5
    assert t.tolist() == [5.0, 1.0]
    t.data = gramme.zeros(3)
    assert t.shape == (3,) and t.requires_grad


def test_to_and_type():
    t = gramme.tensor([1, 2])
    assert (
        t.to(gramme.float64).dtype is gramme.float64
        and t.to("cpu") is t
        and t.to(gramme.zeros(1)).dtype is gramme.float32
    )
    assert t.to(dtype=gramme.int64, copy=True) is not t and t.type() == "gramme.LongTensor"


def test_too_much_memory_is_a_memory_error():
    with pytest.raises(MemoryError):
        gramme.zeros(10**13)
    assert gramme.zeros(2).tolist() == [0.0, 0.0]


def test_functions_have_signatures_and_docs():
    assert "dim" in inspect.signature(gramme.sum).parameters
    assert inspect.signature(gramme.Tensor.sum).parameters["keepdim"].default is False
    assert (
        gramme.sum.__name__ == "sum"
        and gramme.sum.__doc__.startswith("sum(")
        and gramme.Tensor.add_.__name__ == "add_"
    )


def test_every_function_has_a_signature_that_python_parses():
    for table in (gramme._core.functions, gramme._core.nn_functions):
        for name, function in table.items():
            assert inspect.signature(function).parameters is not None, name
            assert len(function.__doc__) > len(name) + 10, name


def test_calls_complain_in_python_words():
    with pytest.raises(TypeError):
        gramme.tanh()
    with pytest.raises(TypeError):
        gramme.tanh(gramme.zeros(2), nonsense=3)
    with pytest.raises(TypeError, match="object"):
        gramme.tanh(object())
    with pytest.raises(TypeError, match="Tensor"):
        gramme.Tensor.add_(3, 4)
    with pytest.raises(TypeError, match="from_numpy"):
        gramme.tanh(np.zeros(3))


def test_default_dtype_and_generator_state():
    gramme.set_default_dtype(gramme.float64)
    try:
        assert (
            gramme.tensor([1.0]).dtype is gramme.float64 and gramme.zeros(1).dtype is gramme.float64
        )
    finally:
        gramme.set_default_dtype(gramme.float32)
    with pytest.raises(TypeError):
        gramme.set_default_dtype(gramme.int64)
    gramme.manual_seed(7)
    state = gramme.get_rng_state()
    a = gramme.rand(5)
    gramme.set_rng_state(state)
    gramme.testing.assert_bits_equal(gramme.rand(5), a)
    assert gramme.initial_seed() == 7
