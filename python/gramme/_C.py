# SPDX-License-Identifier: Apache-2.0
"""Names that programs take from torch._C."""

import sys
import types

import gramme
from gramme import _absent
from gramme._core import _disabled_torch_function_impl
from gramme.overrides import DisableTorchFunction, DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]


def _are_functorch_transforms_active():
    """True while a function of gramme.func, grad() or vjp(), is calling the program's."""
    func = sys.modules.get("gramme.func")
    return func is not None and func._depth[0] > 0


def _parse_to(*args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    """(device, dtype, non_blocking, memory_format) of the arguments of Tensor.to() or Module.to();
    None for what they do not say."""
    for given in args:
        if isinstance(given, gramme.Tensor):
            device, dtype = given.device, given.dtype
        elif isinstance(given, gramme.dtype):
            dtype = given
        elif isinstance(given, bool):
            non_blocking = given
        elif given is not None:
            device = gramme.device(given)
    return (
        gramme.device(device) if device is not None else None,
        dtype,
        bool(non_blocking),
        memory_format,
    )


class _Functions(types.ModuleType):
    """gramme._C._nn: the functions of gramme.nn.functional, by the names that torch's core has for
    them."""

    def __getattr__(self, name):
        found = getattr(gramme.nn.functional, name, None) if not name.startswith("__") else None
        return _absent.find(self.__name__, name) if found is None else found


_nn = _Functions("gramme._C._nn", _Functions.__doc__)
_nn._parse_to = _parse_to
sys.modules[_nn.__name__] = _nn


def __getattr__(name):
    return _absent.find(__name__, name)
