# SPDX-License-Identifier: Apache-2.0
"""DLPack capsules that lie: each is refused with a BufferError that says why, or is a tensor that
can be read to its last element.

Capsules are made by hand, field by field.  GM_FUZZ_CAPSULES (20,000) is the number of random ones.
"""

import ctypes
import os
import random

import pytest

import gramme


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Plain(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


NEW = ctypes.pythonapi.PyCapsule_New
NEW.restype, NEW.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
ELEMENTS = 24
MEMORY = (ctypes.c_float * ELEMENTS)(*range(ELEMENTS))
NAMES = {Plain: b"dltensor", Versioned: b"dltensor_versioned"}
KEPT = []  # capsules borrow what they point to


def words(values):
    return None if values is None else (ctypes.c_int64 * max(len(values), 1))(*values)


def capsule(kind=Plain, shape=(2, 3), strides=None, **fields):
    """A capsule of ELEMENTS floats, with some fields of its tensor replaced; `managed`: some around
    it."""
    managed = kind(**fields.pop("managed", {"major": 1} if kind is Versioned else {}))
    tensor = managed.tensor
    tensor.data, tensor.device_type, tensor.code, tensor.bits, tensor.lanes = (
        ctypes.addressof(MEMORY),
        1,
        2,
        32,
        1,
    )
    tensor.ndim = len(shape or ())
    arrays = words(shape), words(strides)
    for name, array in zip(("shape", "strides"), arrays):
        if array is not None:
            setattr(tensor, name, array)
    for name, value in fields.items():
        setattr(tensor, name, value)
    KEPT.append((managed, arrays))
    return NEW(ctypes.addressof(managed), NAMES[kind], None)


LIES = {
    "elements without memory": ("no memory", {"data": None}),
    "dimensions without a shape": ("no shape", {"shape": None, "ndim": 1}),
    "many dimensions without a shape": ("no shape", {"shape": None, "ndim": 8}),
    "an offset past the end of memory": ("offset", {"byte_offset": 2**64 - 64}),
    "an offset that leads to no memory": ("offset", {"byte_offset": 2**62}),
    "an offset to where no program may read": ("offset", {"byte_offset": 2**63}),
    "an offset a little too far": ("offset", {"byte_offset": 2**47}),
    "elements where no memory is": ("end of memory", {"shape": (2**44,)}),
    "elements past the end of memory": ("offset", {"data": 2**64 - 16}),
    "an offset in the middle of an element": ("aligned", {"byte_offset": 2}),
    "memory that is not aligned": ("aligned", {"data": ctypes.addressof(MEMORY) + 1}),
    "a negative size": ("sizes", {"shape": (2, -3)}),
    "the least size": ("sizes", {"shape": (-(2**63),)}),
    "a negative size beside none": ("sizes", {"shape": (0, -1)}),
    "the largest size": ("sizes", {"shape": (2**63 - 1,)}),
    "sizes whose product is too large": ("sizes", {"shape": (2**32, 2**32), "strides": (0, 0)}),
    "sizes whose product is 0 after it wraps": ("sizes", {"shape": (2**32, 2**32)}),
    "a negative stride": ("strides", {"strides": (-3, 1)}),
    "a stride past the end of memory": ("strides|sizes", {"strides": (2**62, 1)}),
    "a stride whose reach wraps": (
        "strides|sizes",
        {"shape": (3, 3), "strides": (2**63 - 1, 2**63 - 1)},
    ),
    "bytes that wrap": ("strides|sizes", {"shape": (2**61, 2), "strides": (1, 2**61)}),
    "more dimensions than there can be": ("dimensions", {"ndim": 2**31 - 1}),
    "less dimensions than none": ("dimensions", {"ndim": -1}),
    "another device": ("device", {"device_type": 77}),
    "another device's number": ("device", {"device_type": 2, "device_id": 5}),
    "no device": ("device", {"device_type": 0}),
    "vectors": ("dtype", {"lanes": 4}),
    "no lanes": ("dtype", {"lanes": 0}),
    "no bits": ("dtype", {"bits": 0}),
    "an unknown code": ("dtype", {"code": 255}),
    "an integer of 7 bits": ("dtype", {"code": 0, "bits": 7}),
}


@pytest.mark.parametrize("kind", [Plain, Versioned])
@pytest.mark.parametrize("lie", LIES)
def test_a_capsule_that_lies_is_refused_with_the_reason(lie, kind):
    text, fields = LIES[lie]
    with pytest.raises(BufferError, match=text):
        gramme.from_dlpack(capsule(kind, **fields))


@pytest.mark.parametrize("kind", [Plain, Versioned])
def test_what_is_odd_and_no_lie_is_taken(kind):
    for shape, strides, fields, want in (
        ((2, 3), None, {}, [[0, 1, 2], [3, 4, 5]]),
        ((2, 2), (12, 3), {"byte_offset": 8}, [[2, 5], [14, 17]]),
        ((2, 3), (0, 0), {}, [[0] * 3] * 2),
        ((1, 2), (-7, 1), {}, [[0, 1]]),  # the stride of a size of 1 is never used
        ((0, 3), None, {"data": None}, []),
        ((0, 2**62), None, {"data": None}, []),
        ((3, 0), (5, 5), {"byte_offset": 3}, [[], [], []]),
        ((), None, {}, 0.0),
        (None, None, {"ndim": 0}, 0.0),
    ):
        assert gramme.from_dlpack(capsule(kind, shape, strides, **fields)).tolist() == want


def test_a_version_that_is_not_known_is_refused():
    with pytest.raises(BufferError, match="version 2.0"):
        gramme.from_dlpack(capsule(Versioned, managed={"major": 2}))


def test_a_refused_capsule_is_not_consumed():
    given = capsule(data=None)
    for _ in range(2):
        with pytest.raises(BufferError, match="no memory"):
            gramme.from_dlpack(given)


EDGES = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    24,
    25,
    255,
    2**31 - 1,
    2**31,
    2**32,
    2**61,
    2**62,
    2**63 - 1,
    -1,
    -2,
    -(2**31),
    -(2**62),
    -(2**63),
]


def is_true(shape, strides, fields):
    """True if a capsule of these fields describes memory that is MEMORY's; None if nobody can tell,
    for an address of its own."""
    ndim, size = fields.get("ndim", len(shape or ())), fields.get("bits", 32) // 8
    if fields.get("data", True) is None:
        begin, room = None, 0
    else:
        begin, room = fields.get("byte_offset", 0), ELEMENTS * 4
    if not 0 <= ndim <= len(shape or ()) or (strides is not None and ndim > len(strides)):
        return False
    shape, reach, step = list((shape or ())[:ndim]), 0, 1
    if any(s < 0 for s in shape):
        return False
    if 0 in shape:
        return True
    for i in reversed(range(ndim)):
        stride = step if strides is None else strides[i]
        step *= shape[i]
        if shape[i] > 1 and stride < 0:
            return False
        reach += (shape[i] - 1) * stride
    return begin is not None and begin % size == 0 and begin + (reach + 1) * size <= room


def test_random_lies_are_refused_or_can_be_read():
    draw = random.Random(26)
    taken = 0
    for _ in range(int(os.environ.get("GM_FUZZ_CAPSULES", 20_000))):
        rank = draw.choice([0, 1, 1, 2, 2, 3, 4])

        def sizes(most):
            return tuple(
                draw.choice(EDGES) if draw.random() < 0.12 else draw.randint(0, most)
                for _ in range(rank)
            )

        shape = None if draw.random() < 0.03 else sizes(3)
        strides = None if shape is None or draw.random() < 0.5 else sizes(6)
        fields = {}
        if draw.random() < 0.1:
            fields["data"] = None
        if draw.random() < 0.15:
            fields["byte_offset"] = draw.choice(
                [1, 2, 4, 8, 40, 2**32, 2**63, 2**64 - 4, 2**64 - 1]
            )
        if draw.random() < 0.1:
            fields["ndim"] = draw.choice(
                [rank, 0, -1, -(2**31), 2**31 - 1, 65, 1 if shape is None else rank]
            )
        if draw.random() < 0.1:
            fields["bits"] = draw.choice([0, 1, 8, 16, 31, 32, 64, 128, 255])
        if draw.random() < 0.05:
            fields["lanes"] = draw.choice([0, 2, 65535])
        if draw.random() < 0.05:
            fields["device_type"] = draw.choice([0, 3, -1, 2**31 - 1])
        given = capsule(draw.choice([Plain, Versioned]), shape, strides, **fields)
        try:
            tensor = gramme.from_dlpack(given)
        except BufferError:
            continue
        finally:
            del KEPT[:-4]
        kept = KEPT[-1]
        if (
            is_true(shape, strides, fields) and tensor.numel() < 10_000
        ):  # other memory is not the test's to read
            assert tensor.numel() == len(tensor.reshape(-1).tolist())
            taken += 1
        assert fields.get("data", True) is not None or tensor.numel() == 0
        del tensor, kept
    assert taken > 100
