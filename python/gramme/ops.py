# SPDX-License-Identifier: Apache-2.0
"""Operators that library.custom_op() made: ops.namespace.name.  gramme's own functions have no
namespaces."""

from gramme import _absent


class _Namespace:
    """The operators of one namespace."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        from gramme.library import _defined

        if f"{self._name}::{name}" not in _defined:
            raise AttributeError(
                f"there is no operator {name!r} in gramme.ops.{self._name}: library.custom_op() "
                "makes one"
            )
        return _defined[f"{self._name}::{name}"]


def __getattr__(name):
    from gramme.library import _defined

    if any([qualified.startswith(name + "::") for qualified in _defined]):
        return _Namespace(name)
    return _absent.find(__name__, name)
