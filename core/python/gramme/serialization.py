# SPDX-License-Identifier: Apache-2.0
"""save() and load(): tensors, and what is around them, in files of the safetensors format.  Nothing in such a file is executed.  Also how
tensors are pickled.

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
_DEVICES = "gramme.devices"  # in a file's metadata: where tensors were that are to be there again


class _Writer:
    """A safetensors file in the making: the entries of the header and the tensors behind it, each memory once."""

    def __init__(self):
        self.header, self.tensors, self.size = {}, [], 0
        self.devices = {}  # of those tensors that are not on the CPU: name -> device
        self._names = {}  # (memory, geometry) -> name

    def add(self, name, tensor):
        """Gives the name under which the tensor's elements are: that of an earlier one, if they are the same memory."""
        key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())) if tensor.numel() else None
        if key in self._names:
            return self._names[key]
        while name in self.header:
            name += "'"
        size = tensor.numel() * tensor.element_size()
        self.header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [self.size, self.size + size],
        }
        self.size += size
        self.tensors.append(tensor.detach().cpu().contiguous())
        if tensor.is_cuda:
            self.devices[name] = str(tensor.device)
        if key:
            self._names[key] = name
        return name

    def write(self, file):
        import json

        text = json.dumps(self.header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in self.tensors:
            file.write(tensor)


def _is_flat(value):
    return type(value) is dict and all(isinstance(key, str) and isinstance(tensor, Tensor) for key, tensor in value.items())


def save(obj, f, metadata=None):
    """Writes tensors, or lists, tuples, dicts, sets, numbers, strings, dtypes and None around them, to a path or a binary file.

    What occurs twice is one object again when it is loaded; tensors over the same elements share memory.  A dict of name -> tensor
    is a plain safetensors file, and `metadata`, a dict of strings, goes with it.  Errors: TypeError, before anything is written.
    """
    import json

    writer = _Writer()
    metadata = dict(metadata or {})
    if _is_flat(obj):
        for name, tensor in obj.items():
            if name == "__metadata__":
                raise ValueError("a tensor cannot be named '__metadata__' in a safetensors file")
            if writer.add(name, tensor) != name:  # readers of such files know no second name
                writer.add(name, tensor.detach().clone())
    else:
        from gramme import saved_tree

        metadata[saved_tree.KEY] = json.dumps(saved_tree.encode(obj, writer.add), separators=(",", ":"))
    if writer.devices:
        metadata[_DEVICES] = json.dumps(writer.devices, separators=(",", ":"))
    if metadata:
        writer.header = {"__metadata__": metadata, **writer.header}
    if hasattr(f, "write"):
        writer.write(f)
    else:
        _write_file(f, writer)


def _write_file(path, writer):
    """A file that is there keeps what it has until the new one is whole."""
    import os

    path = os.fspath(path)
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        with open(path, "wb") as file:
            writer.write(file)
        return
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            writer.write(file)
        if os.path.exists(path):
            os.chmod(part, os.stat(path).st_mode & 0o777)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


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


def _placed(tensor, saved, map_location, name):
    """The tensor where it shall be; saved: where it was."""
    place = saved if map_location is None else map_location
    if callable(place) and not isinstance(place, gramme.device):
        made = place(tensor, saved)
        return made if isinstance(made, Tensor) else _placed(tensor, saved, None, name)
    if isinstance(place, dict):
        place = place.get(saved, place.get(f"{saved}:0", saved))
    try:
        return tensor.to(place)
    except RuntimeError as error:
        raise RuntimeError(f"{name} holds tensors of device {str(place)!r}: load(..., map_location='cpu') reads them on the CPU ({error})") from None


def _devices(metadata):
    """name -> device of a file's metadata; what is damaged says nothing."""
    import json

    try:
        found = json.loads(metadata[_DEVICES])
        return found if isinstance(found, dict) else {}
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}


def load(f, map_location=None, *, weights_only=True):
    """Reads what save() wrote, or a safetensors file, from a path or a binary file.

    map_location: the device of the tensors, a dict of devices that stand for others, or a function of a tensor of the CPU and the device
    where it was, which gives the tensor to take; None: where they were.  Nothing in a file is executed, whatever weights_only says.
    Errors: ValueError if the file is damaged or of another kind; RuntimeError for a device that is not there.
    """
    import json

    if hasattr(f, "read"):
        name, data = getattr(f, "name", "what was given"), bytearray(f.read())
    else:
        with open(f, "rb") as file:
            name, data = f, bytearray(file.read())
    length = int.from_bytes(data[:8], "little")
    if data[:4] == b"PK\x03\x04":
        raise ValueError(f"{name} is a zip archive, as torch.save writes them: convert it to safetensors where torch is")
    if len(data) < 8 or length > min(len(data) - 8, _HEADER_MAX):
        raise ValueError(f"{name} is no safetensors file: {len(data)} bytes, a header of {length}")
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header of {name} is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"the header of {name} is no JSON object")
    start = 8 + length
    result, metadata = {}, header.get("__metadata__")
    devices = _devices(metadata)
    for key, info in header.items():
        if key != "__metadata__":
            dtype, shape, first, size = _entry(key, info, len(data) - start)
            piece = data[start + first : start + first + size]
            tensor = gramme.frombuffer(piece, dtype=dtype) if size else gramme.empty(0, dtype=dtype, device="cpu")
            result[key] = _placed(tensor.reshape(shape), devices.get(key, "cpu"), map_location, name)
    from gramme import saved_tree

    if isinstance(metadata, dict) and saved_tree.KEY in metadata:
        return saved_tree.decode(metadata[saved_tree.KEY], result, name)
    return result


# -- pickle and copy


def _rebuild(cls, dtype, shape, data, requires_grad, device="cpu"):
    tensor = gramme.frombuffer(bytearray(data), dtype=dtype) if data else gramme.empty(0, dtype=dtype, device="cpu")
    return Tensor._make_subclass(cls, tensor.reshape(shape).to(device), requires_grad)


def _reduce(tensor):
    """What __reduce_ex__ returns: values, dtype, shape, requires_grad, and the attributes that a user set; each tensor has memory of its own."""
    if not tensor.is_leaf:
        raise RuntimeError("only tensors without history can be pickled: use detach() first")
    data = b"".join([tensor.detach().cpu().contiguous()]) if tensor.numel() else b""
    arguments = (type(tensor), tensor.dtype, tuple(tensor.shape), data, tensor.requires_grad)
    if tensor.is_cuda:
        arguments += (str(tensor.device),)
    return (_rebuild, arguments, vars(tensor)) if vars(tensor) else (_rebuild, arguments)


def _copy(tensor):
    """What copy.copy() returns: another tensor over the same memory."""
    made = Tensor._make_subclass(type(tensor), tensor, tensor.requires_grad)
    vars(made).update(vars(tensor))
    return made
