# SPDX-License-Identifier: Apache-2.0
"""Modules whose children, or parameters, are items.  The items stand in a tuple, so that a change of them is one of an attribute; or in a dict."""

from gramme._core import Tensor
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class _Named(Module):
    """Items are attributes, too, by their names."""

    def __getattr__(self, name):
        for own, value in self._members() if "_items" in self.__dict__ else ():
            if own == name:
                return value
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class _Items(_Named):
    def _members(self):
        return [(str(i), module) for i, module in enumerate(self._items)] + Module._members(self)

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)._of(self._items[index])
        return self._items[index]

    def __setitem__(self, index, module):
        items = list(self._items)
        items[index] = module
        self._items = tuple(items)

    def __delitem__(self, index):
        items = list(self._items)
        del items[index]
        self._items = tuple(items)

    def append(self, module):
        self._items += (module,)
        return self

    def extend(self, modules):
        self._items += tuple(modules)
        return self

    def insert(self, index, module):
        items = list(self._items)
        items.insert(index, module)
        self._items = tuple(items)

    def pop(self, index=-1):
        """Takes an item out and returns it."""
        items = list(self._items)
        item = items.pop(index)
        self._items = tuple(items)
        return item

    def __add__(self, other):
        return type(self)._of(self._items + tuple(other))

    def __iadd__(self, other):
        return self.extend(other)

    def _set_member(self, name, value):
        names = [name for name, _ in self._members()[: len(self._items)]]
        if name in names:
            self[names.index(name)] = value
        else:
            setattr(self, name, value)


class Sequential(_Items):
    """Sequential(*modules), or Sequential(dict of modules): each gets the result of the one before."""

    def __init__(self, *modules):
        super().__init__()
        self._names = None  # of the first items; the others' are their numbers
        if len(modules) == 1 and isinstance(modules[0], dict):
            self._names = list(modules[0])
            modules = modules[0].values()
        self._items = tuple(modules)

    @classmethod
    def _of(cls, items):
        return cls(*items)

    def _members(self):
        names = self._names or []
        items = [(names[i] if i < len(names) else str(i), module) for i, module in enumerate(self._items)]
        return items + Module._members(self)

    def forward(self, input):
        for module in self._items:
            input = module(input)
        return input


class ModuleList(_Items):
    """ModuleList(modules): a list that parameters() looks into."""

    def __init__(self, modules=()):
        super().__init__()
        self._items = tuple(modules)

    @classmethod
    def _of(cls, items):
        return cls(items)

    def _repr_of_children(self):
        """Equal children in a row are shown once, with their number."""
        runs = []  # first, last, text
        for i, module in enumerate(self._items):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        return [(f"{a}-{b}", f"{b - a + 1} x {text}") if b > a else (str(a), text) for a, b, text in runs]


class _Table(_Named):
    """Items with names."""

    def _members(self):
        return list(self._items.items()) + Module._members(self)

    def _set_member(self, name, value):
        if name in self._items:
            self[name] = value
        else:
            setattr(self, name, value)

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def __contains__(self, key):
        return key in self._items

    def __getitem__(self, key):
        return self._items[key]

    def __setitem__(self, key, module):
        self._items[key] = module

    def __delitem__(self, key):
        del self._items[key]

    def keys(self):
        return self._items.keys()

    def values(self):
        return self._items.values()

    def items(self):
        return self._items.items()

    def update(self, modules):
        for key, value in dict(modules).items():
            self[key] = value

    def pop(self, key):
        """Takes an item out and returns it."""
        return self._items.pop(key)

    def clear(self):
        self._items.clear()


class ModuleDict(_Table):
    """ModuleDict(modules): a dict that parameters() looks into."""

    def __init__(self, modules=()):
        super().__init__()
        self._items = dict(modules or ())


def _as_parameter(value):
    """A tensor as a Parameter; what is none stays what it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _shown(value):
    """What repr() shows of an item."""
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        return f"{kind} containing: [{value.dtype} of size {'x'.join([str(n) for n in value.shape])}]"
    return f"Object of type: {type(value).__name__}"


class ParameterList(_Items):
    """ParameterList(values): a list that parameters() looks into; tensors become Parameters, other values stay what they are."""

    def __init__(self, values=()):
        super().__init__()
        self._items = tuple([_as_parameter(value) for value in values or ()])

    @classmethod
    def _of(cls, items):
        return cls(items)

    def __setitem__(self, index, value):
        super().__setitem__(index, _as_parameter(value))

    def append(self, value):
        """Adds one at the end."""
        self._items += (_as_parameter(value),)
        return self

    def extend(self, values):
        """Adds several at the end."""
        self._items += tuple([_as_parameter(value) for value in values])
        return self

    def insert(self, index, value):
        super().insert(index, _as_parameter(value))

    def extra_repr(self):
        return "\n".join([f"  ({i}): {_shown(value)}" for i, value in enumerate(self._items)])


class ParameterDict(_Table):
    """ParameterDict(parameters): a dict that parameters() looks into; tensors become Parameters, other values stay what they are."""

    def __init__(self, parameters=()):
        super().__init__()
        self._items = {key: _as_parameter(value) for key, value in dict(parameters or ()).items()}

    def __setitem__(self, key, value):
        self._items[key] = _as_parameter(value)

    def get(self, key, default=None):
        """The item of a key, or the default."""
        return self._items.get(key, default)

    def setdefault(self, key, default=None):
        """The item of a key; if there is none, the default becomes it."""
        if key not in self._items:
            self[key] = default
        return self._items[key]

    def extra_repr(self):
        return "\n".join([f"  ({key}): {_shown(value)}" for key, value in self._items.items()])
