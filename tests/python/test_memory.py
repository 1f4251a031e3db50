# SPDX-License-Identifier: Apache-2.0
"""Memory shared with numpy, buffers and DLPack."""

import gc
import sys

import numpy as np
import pytest

import gramme

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_]


@pytest.mark.parametrize("dtype", DTYPES)
def test_from_numpy_and_numpy_share_memory(dtype):
    a = np.arange(6).reshape(2, 3).astype(dtype)
    t = gramme.from_numpy(a)
    back = t.numpy()
    assert back.dtype == a.dtype and np.shares_memory(a, back)
    np.testing.assert_array_equal(back, a)
    a[0, 0] = 1
    assert t[0, 0].item() == 1


def test_strides_are_shared_too():
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    t = gramme.from_numpy(a[::2, 1:5:3])
    assert t.stride() == (12, 3)
    np.testing.assert_array_equal(t.numpy(), a[::2, 1:5:3])
    np.testing.assert_array_equal(gramme.from_numpy(a.T).numpy(), a.T)
    np.testing.assert_array_equal(np.asarray(gramme.tensor(a)[:, 2]), a[:, 2])


def test_negative_strides_are_copied_or_refused():
    a = np.arange(4, dtype=np.float32)[::-1]
    assert gramme.tensor(a).tolist() == [3.0, 2.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="copy"):
        gramme.from_numpy(a)


@pytest.mark.parametrize("dtype", ["complex64", "S3", ">f4", "M8[s]", "uint16", "float128"])
def test_foreign_dtypes_are_refused(dtype):
    with pytest.raises((TypeError, ValueError)):
        gramme.from_numpy(np.zeros(2, dtype))


def test_a_read_only_array_gives_a_tensor_that_refuses_writes():
    a = np.ones(3, np.float32)
    a.flags.writeable = False
    t = gramme.from_numpy(a)
    assert (t + 1).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError):
        t += 1
    with pytest.raises(RuntimeError):
        t[0] = 1
    assert a.tolist() == [1.0] * 3 and not t.numpy().flags.writeable


def test_the_array_lives_as_long_as_the_tensor():
    a = np.ones(1000, np.float32)
    t = gramme.from_numpy(a)
    count = sys.getrefcount(a)
    view = t[10:20]
    del t
    assert sys.getrefcount(a) == count
    del view
    gc.collect()
    assert sys.getrefcount(a) == count - 1


def test_the_tensor_lives_as_long_as_the_array(no_leak):
    a = gramme.ones(1000).numpy()
    gc.collect()
    assert a.sum() == 1000
    del a


def test_numpy_of_a_tensor_that_requires_grad_says_what_to_do():
    t = gramme.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        t.numpy()
    with pytest.raises(RuntimeError, match="detach"):
        np.asarray(t)
    assert t.detach().numpy().tolist() == t.numpy(force=True).tolist() == [1.0, 1.0]


def test_buffers():
    t = gramme.tensor([[1, 2], [3, 4]], dtype=gramme.int32)
    m = memoryview(t)
    assert (m.shape, m.format, m.tolist()) == ((2, 2), "i", [[1, 2], [3, 4]])
    assert memoryview(t.T).tolist() == [[1, 3], [2, 4]] and not memoryview(t.T).c_contiguous
    with pytest.raises(BufferError, match="contiguous"):
        gramme.frombuffer(t.T, dtype=gramme.int32)
    data = bytearray(16)
    u = gramme.frombuffer(data, dtype=gramme.float32, count=2, offset=8)
    u[1] = 1
    assert data[12:] == np.float32(1).tobytes() and u.shape == (2,)
    assert gramme.frombuffer(b"ab", dtype=gramme.uint8).tolist() == [97, 98]
    for bad in (
        {"offset": 20},
        {"count": 5},
        {"offset": -4},
        {"offset": 2, "count": 1},
        {"count": -2},
        {"offset": 3},
    ):
        with pytest.raises(ValueError):
            gramme.frombuffer(data, dtype=gramme.float32, **bad)


def test_empty_and_zero_dimensional_arrays():
    assert gramme.from_numpy(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert gramme.from_numpy(np.array(2.5)).item() == 2.5
    assert gramme.zeros(0, 3).numpy().shape == (0, 3) and gramme.tensor(1.0).numpy().shape == ()


@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_dlpack_with_numpy_shares_memory(dtype):
    a = np.arange(6).reshape(2, 3).astype(dtype)
    t = gramme.from_dlpack(a)
    assert np.shares_memory(t.numpy(), a)
    back = np.from_dlpack(gramme.tensor(a).T)
    np.testing.assert_array_equal(back, a.T)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_dlpack_with_ourselves(version, no_leak):
    t = gramme.arange(6).reshape(2, 3)
    u = gramme.from_dlpack(t.__dlpack__(max_version=version))
    assert u.data_ptr() == t.data_ptr() and u.tolist() == t.tolist()
    u[0, 0] = 9
    del t
    gc.collect()
    assert u[0, 0].item() == 9
    del u


def test_a_capsule_is_consumed_once_and_freed_if_never(no_leak):
    capsule = gramme.ones(5).__dlpack__()
    t = gramme.from_dlpack(capsule)
    with pytest.raises(ValueError, match="once"):
        gramme.from_dlpack(capsule)
    del capsule, t
    unused = gramme.ones(5).__dlpack__(max_version=(1, 0))
    del unused


def test_dlpack_refusals():
    with pytest.raises(BufferError, match="grad"):
        gramme.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="stream"):
        gramme.ones(1).__dlpack__(stream=1)
    with pytest.raises(TypeError, match="__dlpack__"):
        gramme.from_dlpack(3)
    assert gramme.ones(1).__dlpack_device__() == (1, 0)
    a = np.ones(2, np.float32)
    a.flags.writeable = False
    t = gramme.from_numpy(a)
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__()
    with pytest.raises(RuntimeError):
        gramme.from_dlpack(t.__dlpack__(max_version=(1, 0)))[0] = 1
    assert gramme.from_dlpack(t.__dlpack__(copy=True)).data_ptr() != t.data_ptr()


def test_files_round_trip_and_damage_is_found(tmp_path):
    path = tmp_path / "x.safetensors"
    tensors = {
        "a": gramme.randn(2, 3),
        "b.c": gramme.arange(4),
        "m": gramme.tensor([True, False]),
        "z": gramme.zeros(0, 2),
    }
    gramme.save(tensors, path, metadata={"format": "pt"})
    back = gramme.load(path)
    assert list(back) == list(tensors)
    for name in tensors:
        gramme.testing.assert_bits_equal(back[name], tensors[name])
    data = path.read_bytes()
    for damaged in (
        data[:-1],
        data[:20],
        b"",
        b"\xff" * 8 + data[8:],
        data.replace(b"[2,3]", b"[2,4]"),
        data.replace(b'"F32"', b'"F99"'),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError):
            gramme.load(path)


def test_a_checkpoint_of_a_training_run_is_what_it_was(tmp_path):
    """Nested states, tuples, numbers to the bit, tied weights, and a run that goes on from the file
    as if it had not stopped."""
    nn = gramme.nn

    def begin():
        gramme.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        return model, gramme.optim.Adam(model.parameters(), lr=0.1)

    def step(model, optimizer):
        loss = model(gramme.arange(6.0).reshape(2, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    model, optimizer = begin()
    step(model, optimizer)
    path = tmp_path / "run.gm"
    extra = {
        "epoch": 3,
        "best": (0.1, float("inf"), -0.0),
        "names": {"a", "b"},
        "big": 2**70,
        4: None,
        "raw": b"\x00\xff",
        "dtype": gramme.float16,
    }
    gramme.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), **extra}, path)
    step(model, optimizer)
    other, other_optimizer = begin()
    back = gramme.load(path)
    assert {key: back[key] for key in extra} == extra and str(back["best"][2]) == "-0.0"
    other.load_state_dict(back["model"])
    other_optimizer.load_state_dict(back["optimizer"])
    step(other, other_optimizer)
    for a, b in zip(model.parameters(), other.parameters()):
        gramme.testing.assert_bits_equal(a, b)


def test_what_is_saved_twice_is_one_object_again():
    import io

    weight = gramme.nn.Parameter(gramme.arange(4.0))
    shared = [1, weight]
    loop = [shared, shared, weight.detach()]
    loop.append(loop)
    file = io.BytesIO()
    gramme.save({"loop": loop, "a.b": gramme.ones(1), "a": {"b": gramme.zeros(2)}}, file)
    file.seek(0)
    back = gramme.load(file)
    a, b, view, inside = back["loop"]
    assert a is b and inside is back["loop"] and type(a[1]) is gramme.nn.Parameter
    assert view.data_ptr() == a[1].data_ptr() and not view.requires_grad
    assert back["a.b"].tolist() == [1.0] and back["a"]["b"].tolist() == [0.0, 0.0]
    assert len(file.getvalue()) < 1000  # the elements of the parameter are there once


def test_what_cannot_be_saved_is_named_and_the_old_file_stays(tmp_path):
    path = tmp_path / "x"
    gramme.save({"a": gramme.ones(2)}, path)
    before = path.read_bytes()
    with pytest.raises(
        TypeError, match=r"model\.1 is a Linear.*save obj\.model\.1\.state_dict\(\)"
    ):
        gramme.save({"model": [1, gramme.nn.Linear(1, 1)]}, path)
    deep = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(ValueError, match="levels deep"):
        gramme.save(deep, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    path.write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(ValueError, match="zip archive"):
        gramme.load(path)


def test_a_damaged_tree_is_an_error_and_builds_nothing_else(tmp_path):
    path = tmp_path / "x"
    gramme.save([gramme.ones(2), 1.5], path)
    data = path.read_bytes()
    for old, new in (
        (b"Tensor", b"Tenser"),
        (b"obj.0", b"obj.7"),
        (b"float", b"print"),
        (b"0x1.8", b"0xz.8"),
    ):
        assert old in data
        path.write_bytes(
            data.replace(old, new, 1)
            if old != b"obj.0"
            else data[: data.rindex(old)] + new + data[data.rindex(old) + 5 :]
        )
        with pytest.raises(ValueError):
            gramme.load(path)
