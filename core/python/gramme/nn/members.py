# SPDX-License-Identifier: Apache-2.0
"""What a module has, by name, as torch shows it: Module._parameters, ._buffers and ._modules.

The members themselves are attributes of the module; these mappings hold nothing, and read and write them.
"""

from collections.abc import MutableMapping


class Members(MutableMapping):
    """Members(module, read, write): `read()` gives name -> member of the moment, `write(name, member)` registers one."""

    def __init__(self, module, read, write):
        self._module, self._read, self._write = module, read, write

    def __getitem__(self, name):
        return self._read()[name]

    def __setitem__(self, name, value):
        self._write(name, value)

    def __delitem__(self, name):
        self._read()[name]  # KeyError
        delattr(self._module, name)

    def __iter__(self):
        return iter(self._read())

    def __len__(self):
        return len(self._read())

    def __repr__(self):
        return repr(self._read())
