# SPDX-License-Identifier: Apache-2.0
"""Modules whose children, or parameters, are items."""

from gramme._core import Tensor
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class _List(Module):
    """Children by their places; a place is a name, as long as nothing else gives another.  An
    attribute that is a module is an item, too."""

    def __init__(self, modules):
        super().__init__()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def _part(self, items):
        """Another of this kind, with these items: name -> item."""
        return type(self)(items.values())

    def _names(self, index):
        """The name at an index, or a list of those in a slice."""
        names = list(self._modules)
        if isinstance(index, slice):
            return names[index]
        try:
            return names[index]
        except IndexError:
            raise IndexError(f"there is no item {index} of {len(names)}") from None

    def _put(self, values):
        """All items anew, named by their places."""
        values = list(values)
        self._modules.clear()
        for i, value in enumerate(values):
            self.add_module(str(i), value)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        names = self._names(index)
        if isinstance(index, slice):
            return self._part({name: self._modules[name] for name in names})
        return self._modules[names]

    def __setitem__(self, index, value):
        names = self._names(index)
        if not isinstance(index, slice):
            self.add_module(names, value)
            return
        values = list(value)
        if len(names) != len(values):
            raise ValueError(f"{len(values)} items for the places of {len(names)}")
        for name, one in zip(names, values):
            self.add_module(name, one)

    def __delitem__(self, index):
        names = self._names(index)
        for name in names if isinstance(index, slice) else [names]:
            del self._modules[name]
        if all([name.isdecimal() for name in self._modules]):
            self._put(self._modules.values())

    def append(self, value):
        """Adds one at the end."""
        self.add_module(str(len(self._modules)), value)
        return self

    def extend(self, values):
        """Adds several at the end."""
        for value in list(values):
            self.append(value)
        return self

    def insert(self, index, value):
        """Puts one before the item at the index; all are named by their places then."""
        values = list(self._modules.values())
        values.insert(index, value)
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
    """Sequential(*modules), or Sequential(dict of modules): each gets the result of the one
    before."""

    def __init__(self, *modules):
        named = len(modules) == 1 and isinstance(modules[0], dict)
        super().__init__(() if named else modules)
        if named:
            for name, module in modules[0].items():
                self.add_module(name, module)

    def _part(self, items):
        return type(self)(items)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_List):
    """ModuleList(modules): a list that parameters() looks into."""

    def __init__(self, modules=None):
        super().__init__(() if modules is None else modules)

    def _repr_of_children(self):
        """Equal children in a row are shown once, with their number."""
        runs = []  # first, last, text
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        return [
            (f"{a}-{b}", f"{b - a + 1} x {text}") if b > a else (str(a), text)
            for a, b, text in runs
        ]


class ModuleDict(Module):
    """ModuleDict(modules): a dict that parameters() looks into."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def keys(self):
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()

    def update(self, modules):
        for key, value in dict(modules).items():
            self[key] = value

    def pop(self, key):
        """Takes an item out and returns it."""
        return self._modules.pop(key)

    def clear(self):
        self._modules.clear()


def _shown(value):
    """What repr() shows of an item."""
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        return (
            f"{kind} containing: [{value.dtype} of size {'x'.join([str(n) for n in value.shape])}]"
        )
    return f"Object of type: {type(value).__name__}"


class _Parameters(Module):
    """Values by name, in the order in which they came: tensors become Parameters, and are members;
    other values are attributes."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "_keys", {})

    def _get(self, name):
        return self._parameters[name] if name in self._parameters else vars(self)[name]

    def _set(self, name, value):
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        self._keys[name] = None
        if not isinstance(value, Parameter):
            self._parameters.pop(name, None)
            object.__setattr__(self, name, value)
        elif name in self._parameters or not hasattr(self, name):
            self.register_parameter(name, value)
        else:  # a name that a method has, too: the item is found by its key
            vars(self).pop(name, None)
            self._parameters[name] = value

    def _drop(self, name):
        del self._keys[name]
        del (self._parameters if name in self._parameters else vars(self))[name]

    def __len__(self):
        return len(self._keys)

    def extra_repr(self):
        return "\n".join([f"  ({name}): {_shown(self._get(name))}" for name in self._keys])


class ParameterList(_Parameters):
    """ParameterList(values): a list that parameters() looks into; tensors become Parameters, other
    values stay what they are."""

    def __init__(self, values=None):
        super().__init__()
        self.extend(() if values is None else values)

    def _name(self, index):
        """The name at an index."""
        n = len(self._keys)
        if not -n <= index < n:
            raise IndexError(f"there is no item {index} of {n}")
        return str(index % n)

    def _put(self, values):
        """All items anew."""
        values = list(values)
        for name in list(self._keys):
            self._drop(name)
        self.extend(values)

    def __iter__(self):
        return iter([self._get(name) for name in self._keys])

    def __getitem__(self, index):
        return (
            type(self)(list(self)[index])
            if isinstance(index, slice)
            else self._get(self._name(index))
        )

    def __setitem__(self, index, value):
        if not isinstance(index, slice):
            self._set(self._name(index), value)
            return
        places, values = range(len(self._keys))[index], list(value)
        if len(places) != len(values):
            raise ValueError(f"{len(values)} items for the places of {len(places)}")
        for i, one in zip(places, values):
            self._set(str(i), one)

    def __delitem__(self, index):
        values = list(self)
        del values[index]
        self._put(values)

    def append(self, value):
        """Adds one at the end."""
        self._set(str(len(self._keys)), value)
        return self

    def extend(self, values):
        """Adds several at the end."""
        for value in list(values):
            self.append(value)
        return self

    def insert(self, index, value):
        """Puts one before the item at the index."""
        values = list(self)
        values.insert(index, value)
        self._put(values)
        return self

    def pop(self, index=-1):
        """Takes an item out and returns it."""
        item = self[index]
        del self[index]
        return item

    def __add__(self, other):
        return type(self)([*self, *other])

    def __iadd__(self, other):
        return self.extend(other)


class ParameterDict(_Parameters):
    """ParameterDict(parameters): a dict that parameters() looks into; tensors become Parameters,
    other values stay what they are."""

    def __init__(self, parameters=None):
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def __iter__(self):
        return iter(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
        return self._get(key)

    def __setitem__(self, key, value):
        self._set(key, value)

    def __delitem__(self, key):
        self._drop(key)

    def keys(self):
        return self._keys.keys()

    def values(self):
        return [self._get(key) for key in self._keys]

    def items(self):
        return [(key, self._get(key)) for key in self._keys]

    def update(self, parameters):
        for key, value in dict(parameters).items():
            self[key] = value

    def pop(self, key):
        """Takes an item out and returns it."""
        value = self[key]
        self._drop(key)
        return value

    def clear(self):
        for key in list(self._keys):
            self._drop(key)

    def get(self, key, default=None):
        """The item of a key, or the default."""
        return self._get(key) if key in self._keys else default

    def setdefault(self, key, default=None):
        """The item of a key; if there is none, the default becomes it."""
        if key not in self._keys:
            self[key] = default
        return self._get(key)
