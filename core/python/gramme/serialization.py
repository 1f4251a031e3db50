# SPDX-License-Identifier: Apache-2.0
"""save() and load(): tensors in files of the safetensors format.  Nothing in such a file is executed.  Also how tensors are pickled.

The format: 8 bytes little-endian n, n bytes of JSON {name: {dtype, shape, data_offsets}}, then the elements.
"""

import gramme
from gramme._core import Tensor

_NAMES = {
    gramme.float32: "F32",
    gramme.float64: "F64",
    gramme.float16: "F16",
    gramme.bfloat16: "BF16",
    gramme.float8_e4m3fn: "F8_E4M3",
    gramme.float8_e5m2: "F8_E5M2",
    gramme.int64: "I64",
    gramme.int32: "I32",
    gramme.int16: "I16",
    gramme.int8: "I8",
    gramme.uint8: "U8",
    gramme.bool: "BOOL",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_HEADER_MAX = 100_000_000


def save(tensors, path, metadata=None):
    """Writes a dict of name -> tensor.  metadata: a dict of strings to go with it."""
    import json

    header = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name!r} is a {type(tensor).__name__}, and only tensors can be saved")
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.detach().contiguous())


def _integer(value):
    return type(value) is int and value >= 0


def _entry(name, info, room):
    """(dtype, shape, first byte, byte count) of a header's entry; ValueError if it makes no sense."""
    try:
        dtype, shape, (first, last) = _DTYPES[info["dtype"]], info["shape"], info["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"the entry {name!r} is not one of a safetensors file, or its dtype is unknown: {info!r}") from None
    count = 1
    if not isinstance(shape, list) or not all(_integer(size) for size in shape):
        raise ValueError(f"the shape of {name!r} is no list of sizes: {shape!r}")
    for size in shape:
        count *= size
    if not (_integer(first) and _integer(last) and first <= last <= room and last - first == count * dtype.itemsize):
        raise ValueError(f"{name!r} of {count} elements does not lie at bytes {first} to {last} of the {room} in the file")
    return dtype, shape, first, last - first


def load(path):
    """Reads a safetensors file: a dict of name -> tensor.  ValueError if the file is damaged."""
    import json

    with open(path, "rb") as file:
        data = bytearray(file.read())
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, _HEADER_MAX):
        raise ValueError(f"{path} is no safetensors file: {len(data)} bytes, a header of {length}")
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError as error:
        raise ValueError(f"the header of {path} is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"the header of {path} is no JSON object")
    start = 8 + length
    result = {}
    for name, info in header.items():
        if name != "__metadata__":
            dtype, shape, first, size = _entry(name, info, len(data) - start)
            piece = data[start + first : start + first + size]
            result[name] = gramme.frombuffer(piece, dtype=dtype).reshape(shape)
    return result


# -- pickle and copy


def _rebuild(cls, dtype, shape, data, requires_grad):
    tensor = gramme.frombuffer(bytearray(data), dtype=dtype) if data else gramme.empty(0, dtype=dtype)
    return Tensor._make_subclass(cls, tensor.reshape(shape), requires_grad)


def _reduce(tensor):
    """What __reduce_ex__ returns: values, dtype, shape, requires_grad, and the attributes that a user set; each tensor has memory of its own."""
    if not tensor.is_leaf:
        raise RuntimeError("only tensors without history can be pickled: use detach() first")
    data = b"".join([tensor.detach().contiguous()]) if tensor.numel() else b""
    arguments = (type(tensor), tensor.dtype, tuple(tensor.shape), data, tensor.requires_grad)
    return (_rebuild, arguments, vars(tensor)) if vars(tensor) else (_rebuild, arguments)


def _copy(tensor):
    """What copy.copy() returns: another tensor over the same memory."""
    made = Tensor._make_subclass(type(tensor), tensor, tensor.requires_grad)
    vars(made).update(vars(tensor))
    return made
