# SPDX-License-Identifier: Apache-2.0
"""Modules whose children, or parameters, are items.  One dict has them, name -> item; an attribute that is a module becomes an item, too."""

from gramme._core import Tensor
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class _Container(Module):
    """Items are attributes by their names, and what is set as an attribute of the kind of the items is one."""

    _kind = Module  # what becomes an item when it is set as an attribute

    def __init__(self, items):
        super().__init__()
        object.__setattr__(self, "_items", items)

    def __getattr__(self, name):
        items = vars(self).get("_items", ())
        if name in items:
            return items[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name, value):
        items = vars(self).get("_items")
        if items is not None and (name in items or isinstance(value, self._kind)):
            items[name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name):
        if name in vars(self).get("_items", ()):
            del self._items[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self):
        return [*super().__dir__(), *self._items]

    def _members(self):
        return list(self._items.items()) + Module._members(self)

    def __len__(self):
        return len(self._items)


class _List(_Container):
    """Items by their places; a place is a name, as long as nobody gives another."""

    def _make(self, value):
        """What is kept of a value that is given as an item."""
        return value

    def _part(self, items):
        """Another of this kind, with these items: name -> item."""
        return type(self)(items.values())

    def _names(self, index):
        """The name at an index, or a list of those in a slice."""
        names = list(self._items)
        if isinstance(index, slice):
            return names[index]
        try:
            return names[index]
        except IndexError:
            raise IndexError(f"there is no item {index} of {len(names)}") from None

    def _put(self, values):
        """All items anew, named by their places."""
        values = list(values)
        self._items.clear()
        self._items.update({str(i): value for i, value in enumerate(values)})

    def __iter__(self):
        return iter(self._items.values())

    def __getitem__(self, index):
        names = self._names(index)
        if isinstance(index, slice):
            return self._part({name: self._items[name] for name in names})
        return self._items[names]

    def __setitem__(self, index, value):
        names = self._names(index)
        if not isinstance(index, slice):
            self._items[names] = self._make(value)
            return
        values = [self._make(one) for one in value]
        if len(names) != len(values):
            raise ValueError(f"{len(values)} items for the places of {len(names)}")
        self._items.update(zip(names, values))

    def __delitem__(self, index):
        names = self._names(index)
        for name in names if isinstance(index, slice) else [names]:
            del self._items[name]
        if all([name.isdecimal() for name in self._items]):
            self._put(self._items.values())

    def append(self, value):
        """Adds one at the end."""
        self._items[str(len(self._items))] = self._make(value)
        return self

    def extend(self, values):
        """Adds several at the end."""
        for value in list(values):
            self.append(value)
        return self

    def insert(self, index, value):
        """Puts one before the item at the index; all are named by their places then."""
        values = list(self._items.values())
        values.insert(index, self._make(value))
        self._put(values)
        return self

    def pop(self, index=-1):
        """Takes an item out and returns it."""
        item = self[index]
        del self[index]
        return item

    def __add__(self, other):
        return self._part({str(i): value for i, value in enumerate([*self, *other])})

    def __iadd__(self, other):
        return self.extend(other)


class Sequential(_List):
    """Sequential(*modules), or Sequential(dict of modules): each gets the result of the one before."""

    def __init__(self, *modules):
        if len(modules) == 1 and isinstance(modules[0], dict):
            super().__init__(dict(modules[0]))
        else:
            super().__init__({str(i): module for i, module in enumerate(modules)})

    def _part(self, items):
        return type(self)(items)

    def forward(self, input):
        for module in self._items.values():
            input = module(input)
        return input


class ModuleList(_List):
    """ModuleList(modules): a list that parameters() looks into."""

    def __init__(self, modules=()):
        super().__init__({str(i): module for i, module in enumerate(modules or ())})

    def _repr_of_children(self):
        """Equal children in a row are shown once, with their number."""
        runs = []  # first, last, text
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        return [(f"{a}-{b}", f"{b - a + 1} x {text}") if b > a else (str(a), text) for a, b, text in runs]


class _Table(_Container):
    """Items by their names."""

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
        super().__init__(dict(modules or ()))


def _as_parameter(value):
    """A tensor as a Parameter; what is none stays what it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _shown(value):
    """What repr() shows of an item."""
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        return f"{kind} containing: [{value.dtype} of size {'x'.join([str(n) for n in value.shape])}]"
    return f"Object of type: {type(value).__name__}"


class ParameterList(_List):
    """ParameterList(values): a list that parameters() looks into; tensors become Parameters, other values stay what they are."""

    _kind = Parameter

    def __init__(self, values=()):
        super().__init__({str(i): _as_parameter(value) for i, value in enumerate(values or ())})

    def _make(self, value):
        return _as_parameter(value)

    def extra_repr(self):
        return "\n".join([f"  ({name}): {_shown(value)}" for name, value in self._items.items()])


class ParameterDict(_Table):
    """ParameterDict(parameters): a dict that parameters() looks into; tensors become Parameters, other values stay what they are."""

    _kind = Parameter

    def __init__(self, parameters=()):
        super().__init__({key: _as_parameter(value) for key, value in dict(parameters or ()).items()})

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
