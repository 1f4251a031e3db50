# SPDX-License-Identifier: Apache-2.0
"""Modules whose children are items.  The items stand in a tuple, so that a change of them is one of an attribute; or in a dict."""

from gramme.nn.module import Module


class _Items(Module):
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


class Sequential(_Items):
    """Sequential(*modules), or Sequential(dict of modules): each gets the result of the one before."""

    def __init__(self, *modules):
        super().__init__()
        self._names = None
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


class ModuleDict(Module):
    """ModuleDict(modules): a dict that parameters() looks into."""

    def __init__(self, modules=()):
        super().__init__()
        self._items = dict(modules)

    def _members(self):
        return list(self._items.items()) + Module._members(self)

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
        self._items.update(modules)
