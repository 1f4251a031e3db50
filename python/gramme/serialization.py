# SPDX-License-Identifier: Apache-2.0
"""save() and load(): tensors, and what is around them, in files of the safetensors format.  Nothing
in such a file is executed.  Also how tensors are pickled.

The format: 8 bytes little-endian n, n bytes of JSON {name: {dtype, shape, data_offsets}}, then the
elements.  The tensors lie one behind
another: where two overlap, or bytes belong to none, a file could say one thing to one reader and
another to the next, so it is refused.
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


class _View:
    """A tensor that is to be saved: where its memory begins and ends, and that of its storage."""

    def __init__(self, name, tensor):
        self.name, self.tensor, self.requires_grad = name, tensor.detach(), tensor.requires_grad
        self.dtype, self.shape, self.strides = (
            tensor.dtype,
            list(tensor.shape),
            list(tensor.stride()),
        )
        self.node = []  # filled in by _Writer.lay_out()
        reach = (
            sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
            if tensor.numel()
            else -1
        )
        self.first = tensor.data_ptr() if tensor.numel() else 0
        self.last = self.first + (reach + 1) * tensor.element_size()
        self.storage = (
            str(tensor.device),
            self.first - tensor.storage_offset() * tensor.element_size(),
        )

    def geometry(self):
        return self.dtype, self.shape, self.strides, self.first


class _Writer:
    """A safetensors file in the making: first the tensors that are to be in it, then its header,
    with each memory once.

    Tensors that reach into each other's memory are one entry, from the first byte that one of them
    has to the last; each is that entry, or a geometry over its elements.
    """

    def __init__(self):
        self.header, self.tensors, self.size = {}, [], 0
        self.devices = {}  # of those tensors that are not on the CPU: name -> device
        self.views = []

    def add(self, name, tensor):
        """A list that says where the elements are, [entry, requires_grad] or [entry, requires_grad,
        geometry], after lay_out()."""
        self.views.append(_View(name, tensor))
        return self.views[-1].node

    def put(self, name, tensor):
        """Makes an entry; its name."""
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
        return name

    def lay_out(self):
        """Makes the entries of all tensors that were added, in their order."""
        groups, ends = (
            {},
            {},
        )  # by storage: lists of views that overlap; where the last of them ends
        for view in sorted(self.views, key=lambda view: view.first):
            of_storage = groups.setdefault(view.storage, [])
            if view.last and of_storage and view.first < ends[view.storage]:
                of_storage[-1].append(view)
            else:
                of_storage.append([view])
            ends[view.storage] = max(ends.get(view.storage, 0), view.last)
        order = {id(view): i for i, view in enumerate(self.views)}
        merged = [
            sorted(group, key=lambda view: order[id(view)])
            for of_storage in groups.values()
            for group in of_storage
        ]
        for group in sorted(merged, key=lambda group: order[id(group[0])]):
            self._lay_out(group)

    def _lay_out(self, group):
        begin = group[0]
        if all(view.geometry() == begin.geometry() for view in group):
            name = self.put(begin.name, begin.tensor)
            for view in group:
                view.node[:] = [name, view.requires_grad]
            return
        step = max(view.dtype.itemsize for view in group)
        first = min(view.first for view in group)
        first -= (first - begin.storage[1]) % step
        least = min(group, key=lambda view: view.dtype.itemsize)
        size = least.dtype.itemsize
        count = (max(view.last for view in group) - first) // size
        elements = least.tensor.as_strided((count,), (1,), (first - begin.storage[1]) // size)
        if any(view.dtype is not least.dtype for view in group):
            elements = elements.view(gramme.uint8)
        name = self.put(begin.name, elements)
        for view in group:
            dtype = str(view.dtype).partition(".")[2]
            view.node[:] = [
                name,
                view.requires_grad,
                [dtype, view.shape, view.strides, (view.first - first) // view.dtype.itemsize],
            ]

    def write(self, file):
        import json

        text = json.dumps(self.header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in self.tensors:
            file.write(tensor)


def _is_flat(value):
    return type(value) is dict and all(
        isinstance(key, str) and isinstance(tensor, Tensor) for key, tensor in value.items()
    )


def _no_pickles(module):
    if module is not None:
        raise TypeError(
            f"files are not pickles, so that there is no use for {module!r}: leave pickle_module "
            "out"
        )


def save(obj, f, metadata=None, pickle_protocol=None, *, pickle_module=None):
    """Writes tensors, or lists, tuples, dicts, sets, numbers, strings, dtypes and None around them,
    to a path or a binary file.

    What occurs twice is one object again when it is loaded; tensors that share memory share it
    again, and what they share is in the file once.  A dict of name -> tensor is a plain safetensors
    file, where each tensor has elements of its own, and `metadata`, a dict of strings, goes with
    it.  pickle_protocol changes nothing.  Errors: TypeError, before anything is written, also for a
    pickle_module.
    """
    _no_pickles(pickle_module)
    import json

    writer = _Writer()
    metadata = dict(metadata or {})
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata of a safetensors file is strings: {key!r} is {value!r}")
    if _is_flat(obj):
        for name, tensor in obj.items():
            if name == "__metadata__":
                raise ValueError("a tensor cannot be named '__metadata__' in a safetensors file")
            writer.put(name, tensor)
    else:
        from gramme import saved_tree

        tree = saved_tree.encode(obj, writer.add)
        writer.lay_out()
        metadata[saved_tree.KEY] = json.dumps(tree, separators=(",", ":"))
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
    """(dtype, shape, first byte, byte count) of a header's entry; ValueError if it makes no
    sense."""
    try:
        dtype, shape, (first, last) = _DTYPES[info["dtype"]], info["shape"], info["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"the entry {name!r} is not one of a safetensors file, or its dtype is unknown: "
            f"{info!r}"
        ) from None
    count = 1
    if not isinstance(shape, list) or not all(_integer(size) for size in shape):
        raise ValueError(f"the shape of {name!r} is no list of sizes: {shape!r}")
    for size in shape:
        count *= size
    if not (
        _integer(first)
        and _integer(last)
        and first <= last <= room
        and last - first == count * dtype.itemsize
    ):
        raise ValueError(
            f"{name!r} of {count} elements does not lie at bytes {first} to {last} of the {room} "
            "in the file"
        )
    return dtype, shape, first, last - first


def _read_header(data, name):
    """(header, where the elements begin) of a safetensors file's bytes, read as strictly as the
    format says; ValueError."""
    import json

    length = int.from_bytes(data[:8], "little")
    if data[:4] == b"PK\x03\x04":
        raise ValueError(
            f"{name} is a zip archive, as torch.save writes them: convert it to safetensors where "
            "torch is"
        )
    if len(data) > 2 and data[0] == 0x80 and 2 <= data[1] <= 5:
        raise ValueError(
            f"{name} is a pickle, as torch.save wrote them before its version 1.6: a pickle can "
            "run any code, so it is not read; convert it to safetensors where torch is"
        )
    if len(data) < 8 or length > min(len(data) - 8, _HEADER_MAX):
        raise ValueError(f"{name} is no safetensors file: {len(data)} bytes, a header of {length}")

    def no_twins(pairs):
        made = dict(pairs)
        if len(made) != len(pairs):
            twins = sorted({key for key, _ in pairs if sum(other == key for other, _ in pairs) > 1})
            raise ValueError(f"{twins[0]!r} occurs twice")
        return made

    def no_number(text):
        raise ValueError(f"{text} is no JSON")

    text = bytes(data[8 : 8 + length])
    if text[:1] != b"{":
        raise ValueError(f"the header of {name} does not begin with {{")
    try:
        header = json.loads(
            text.decode("utf-8"), object_pairs_hook=no_twins, parse_constant=no_number
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"the header of {name} is not what a safetensors file has: {error}"
        ) from None
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(value, str) for value in metadata.values()
    ):
        raise ValueError(f"the __metadata__ of {name} is no JSON object of strings")
    return header, 8 + length


def _check_order(entries, room, name):
    """Each byte behind the header belongs to one tensor; ValueError.  entries: (first byte, behind
    the last, key)."""
    end, before = 0, None
    for first, last, key in sorted(entries):
        if first < end:
            raise ValueError(
                f"in {name}, the tensors {before!r} and {key!r} overlap: bytes {first} to {end} "
                "are of both"
            )
        if first > end:
            raise ValueError(
                f"in {name}, bytes {end} to {first}, before the tensor {key!r}, belong to no tensor"
            )
        end, before = last, key
    if end != room:
        raise ValueError(f"in {name}, {room - end} bytes behind the last tensor belong to none")


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
        raise RuntimeError(
            f"{name} holds tensors of device {str(place)!r}: load(..., map_location='cpu') reads "
            f"them on the CPU ({error})"
        ) from None


def _devices(metadata):
    """name -> device of a file's metadata; what is damaged says nothing."""
    import json

    try:
        found = json.loads(metadata[_DEVICES])
        return found if isinstance(found, dict) else {}
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}


def load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None):
    """Reads what save() wrote, or a safetensors file, from a path or a binary file.

    map_location: the device of the tensors, a dict of devices that stand for others, or a function
    of a tensor of the CPU and the device where it was, which gives the tensor to take; None: where
    they were.  Nothing in a file is executed, whatever weights_only says.  mmap changes nothing.
    pickle_module: TypeError, as there are no pickles.
    Errors: ValueError if the file is damaged, of another kind, or not as strict as the format is:
    tensors that overlap, bytes that belong to none, a key that occurs twice; RuntimeError for a
    device that is not there.
    """
    _no_pickles(pickle_module)
    if hasattr(f, "read"):
        name, data = getattr(f, "name", "what was given"), bytearray(f.read())
    else:
        with open(f, "rb") as file:
            name, data = f, bytearray(file.read())
    header, start = _read_header(data, name)
    metadata = header.pop("__metadata__", {})
    entries = {key: _entry(key, info, len(data) - start) for key, info in header.items()}
    _check_order(
        [(first, first + size, key) for key, (_, _, first, size) in entries.items()],
        len(data) - start,
        name,
    )
    result, devices = {}, _devices(metadata)
    for key, (dtype, shape, first, size) in entries.items():
        piece = data[start + first : start + first + size]
        tensor = (
            gramme.frombuffer(piece, dtype=dtype)
            if size
            else gramme.empty(0, dtype=dtype, device="cpu")
        )
        result[key] = _placed(tensor.reshape(shape), devices.get(key, "cpu"), map_location, name)
    from gramme import saved_tree

    if saved_tree.KEY in metadata:
        return saved_tree.decode(metadata[saved_tree.KEY], result, name)
    return result


# -- Types that a file may name: none is read from a file, so that these lists are kept for programs

_safe = []


def add_safe_globals(safe_globals):
    """Kept for get_safe_globals(): nothing in a file is looked up or executed, whatever is safe."""
    _safe.extend(safe_globals)


def get_safe_globals():
    """The types that add_safe_globals() was told of, and what safe_globals() adds for a while."""
    return list(_safe)


def clear_safe_globals():
    """get_safe_globals() is empty again."""
    _safe.clear()


class safe_globals:
    """A context in which get_safe_globals() has these types, too."""

    def __init__(self, safe_globals):
        self.safe_globals = list(safe_globals)

    def __enter__(self):
        self._before = get_safe_globals()
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exception):
        _safe[:] = self._before


# -- pickle and copy


def _rebuild(cls, dtype, shape, data, requires_grad, device="cpu"):
    tensor = (
        gramme.frombuffer(bytearray(data), dtype=dtype)
        if data
        else gramme.empty(0, dtype=dtype, device="cpu")
    )
    return Tensor._make_subclass(cls, tensor.reshape(shape).to(device), requires_grad)


def _reduce(tensor):
    """What __reduce_ex__ returns: values, dtype, shape, requires_grad, and the attributes that a
    user set; each tensor has memory of its own."""
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


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
