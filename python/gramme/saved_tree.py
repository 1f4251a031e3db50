# SPDX-License-Identifier: Apache-2.0
"""What stands around the tensors of a saved file: lists, dicts and plain values, as JSON in the
file's metadata.

None, True, False, small integers and strings are themselves; all else is [kind, what it is made
of].  Containers and tensors are numbered in the order in which they begin, so that ["same", n] can
stand where one occurs again, inside of itself, too.  A reader builds only the classes named here.
"""

import collections

import gramme
from gramme._core import Tensor
from gramme.nn.parameter import Parameter

KEY = "gramme.tree"
_DEEPEST = 100  # containers inside of each other
_SAVED = (
    "tensors, numbers, strings, bytes, None, dtypes, devices, and lists, tuples, dicts and sets of "
    "them"
)


class _Encoder:
    def __init__(self, add):
        self.add, self.numbers, self.alive = add, {}, []

    def encode(self, value, path, depth=0):
        kind = type(value)
        if value is None or kind in (bool, str) or (kind is int and abs(value) < 2**53):
            return value
        if kind is int:
            return ["int", str(value)]
        if kind is float:
            return ["float", value.hex()]
        if kind is complex:
            return ["complex", [value.real.hex(), value.imag.hex()]]
        if kind is bytes:
            return ["bytes", value.hex()]
        if kind is gramme.dtype:
            return ["dtype", str(value).partition(".")[2]]
        if kind is gramme.device:
            return ["device", str(value)]
        if id(value) in self.numbers:
            return ["same", self.numbers[id(value)]]
        if depth > _DEEPEST:
            raise ValueError(f"what is to be saved is more than {_DEEPEST} levels deep, at {path}")
        self.numbers[id(value)] = len(self.numbers)
        self.alive.append(value)  # so that no other gets its id
        if kind in (Tensor, Parameter):
            return [kind.__name__, self.add(path, value)]
        if kind in (list, tuple, gramme.Size, collections.deque, set, frozenset):
            values = sorted(value, key=repr) if kind in (set, frozenset) else value
            return [
                kind.__name__,
                [self.encode(one, f"{path}.{i}", depth + 1) for i, one in enumerate(values)],
            ]
        if kind in (dict, collections.OrderedDict):
            return [
                kind.__name__,
                [
                    [
                        self.encode(k, f"{path}.key", depth + 1),
                        self.encode(v, f"{path}.{k}", depth + 1),
                    ]
                    for k, v in value.items()
                ],
            ]
        what = "what it is made of"
        if hasattr(value, "state_dict"):
            what = (
                f"{path}.state_dict(), which load_state_dict(gramme.load(...)) of another "
                f"{kind.__name__} takes"
            )
        raise TypeError(f"{path} is a {kind.__name__}, and {_SAVED} can be saved: save {what}")


def encode(value, add):
    """What JSON can hold of a value; add(name, tensor) takes each tensor and gives the list that
    stands for it: [entry, requires_grad] or [entry, requires_grad, geometry].  The list may be
    filled in later."""
    return _Encoder(add).encode(value, "obj")


def _over(entry, dtype, shape, strides, offset):
    """A tensor over the elements of an entry, which are a row; dtype: its name."""
    dtype = gramme._core.dtypes[dtype]
    if dtype is not entry.dtype:  # the entry is bytes
        entry = entry[: entry.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
    return entry.as_strided(tuple(shape), tuple(strides), offset).detach()


class _Decoder:
    def __init__(self, tensors):
        self.tensors, self.used, self.numbered = tensors, set(), []

    def tensor(self, kind, payload):
        name, requires_grad, *geometry = payload
        tensor = self.tensors[name]
        if geometry:
            tensor = _over(tensor, *geometry[0])
        elif name in self.used:
            tensor = tensor.detach()  # the same memory
        self.used.add(name)
        return (
            Parameter(tensor, requires_grad=requires_grad)
            if kind == "Parameter"
            else tensor.requires_grad_(requires_grad)
        )

    def decode(self, node):
        if not isinstance(node, list):
            if node is None or isinstance(node, (bool, int, str)):
                return node
            raise ValueError(f"{node!r} stands in it")
        kind, payload = node
        if kind == "same":
            value = self.numbered[payload]
            if value is None:
                raise ValueError("something that cannot be changed is inside of itself")
            return value
        if kind in _PLAIN:
            return _PLAIN[kind](payload)
        number = len(self.numbered)
        self.numbered.append(None)
        if kind in _GROWING:  # there before its items are
            value, grow = _GROWING[kind]
            value = self.numbered[number] = value()
            for item in payload:
                grow(self, value, item)
            return value
        if kind in ("Tensor", "Parameter"):
            value = self.tensor(kind, payload)
        else:
            value = _FIXED[kind]([self.decode(item) for item in payload])
        self.numbered[number] = value
        return value

    def pair(self, value, item):
        key, own = item
        value[self.decode(key)] = self.decode(own)


_PLAIN = {
    "int": int,
    "float": float.fromhex,
    "complex": lambda parts: complex(*map(float.fromhex, parts)),
    "bytes": bytes.fromhex,
    "dtype": lambda name: gramme._core.dtypes[name],
    "device": gramme.device,
}
_FIXED = {"tuple": tuple, "Size": gramme.Size, "frozenset": frozenset}
_GROWING = {
    "list": (list, lambda decoder, value, item: value.append(decoder.decode(item))),
    "deque": (collections.deque, lambda decoder, value, item: value.append(decoder.decode(item))),
    "set": (set, lambda decoder, value, item: value.add(decoder.decode(item))),
    "dict": (dict, _Decoder.pair),
    "OrderedDict": (collections.OrderedDict, _Decoder.pair),
}


def decode(text, tensors, name):
    """The value of a tree, around the tensors of its file: name -> tensor.  ValueError if it is
    damaged."""
    import json

    try:
        return _Decoder(tensors).decode(json.loads(text))
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RuntimeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise ValueError(
            f"{name} does not hold what save() writes: {type(error).__name__}: {error}"
        ) from None
