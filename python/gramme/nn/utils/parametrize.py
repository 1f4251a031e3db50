# SPDX-License-Identifier: Apache-2.0
"""Parameters that are computed from others: module.weight becomes f(original) each time it is read.

The module's class becomes a subclass in which the attribute is a property; the originals stand in
module.parametrizations.NAME, where parameters() finds them.  Invariant: a module with
parametrizations has a class of its own, and loses it with the last of them.
"""

from gramme.nn.containers import ModuleDict, ModuleList
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class ParametrizationList(ModuleList):
    """The functions of one parameter, applied in their order, and what they are applied to:
    original, or original0, original1 ..."""

    def __init__(self, modules, original):
        super().__init__(modules)
        value = original
        for module in reversed(list(modules)):
            if hasattr(module, "right_inverse"):
                value = module.right_inverse(value)
        self.is_tensor = not isinstance(value, (tuple, list))
        if self.is_tensor:
            self.original = _like(original, value)
        else:
            self.n_originals = len(value)
            for i, part in enumerate(value):
                setattr(self, f"original{i}", _like(original, part))

    def forward(self):
        modules = list(self)
        if self.is_tensor:
            value = modules[0](self.original)
        else:
            value = modules[0](*[getattr(self, f"original{i}") for i in range(self.n_originals)])
        for module in modules[1:]:
            value = module(value)
        return value


def _like(original, value):
    """A tensor as what the original is: a Parameter, or a plain tensor."""
    return (
        Parameter(value.detach().clone(), original.requires_grad)
        if isinstance(original, Parameter)
        else value
    )


def is_parametrized(module, tensor_name=None):
    """Whether a parameter (None: any) of this module is computed."""
    table = getattr(module, "parametrizations", None)
    return isinstance(table, ModuleDict) and (
        len(table) > 0 if tensor_name is None else tensor_name in table
    )


def _read(name):
    return property(lambda self: self.parametrizations[name]())


def _own_class(module):
    base = type(module)
    return type("Parametrized" + base.__name__, (base,), {"_parametrized_from": base})


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """module.tensor_name becomes parametrization(original).  A method right_inverse(value), if it
    has one, gives the original that the present value is made of.  Errors: ValueError if the result
    has another shape (unless unsafe) or there is no such parameter.
    """
    if is_parametrized(module, tensor_name):
        table = module.parametrizations[tensor_name]
        table.append(parametrization)
        return module
    original = module._parameters.get(tensor_name, module._buffers.get(tensor_name))
    if original is None:
        raise ValueError(f"{type(module).__name__} has no parameter or buffer {tensor_name!r}")
    computed = ParametrizationList([parametrization], original)
    value = computed()
    if not unsafe and (value.shape != original.shape or value.dtype != original.dtype):
        raise ValueError(
            f"the parametrization makes {value.dtype} {list(value.shape)} of {original.dtype} "
            f"{list(original.shape)}"
        )
    if not is_parametrized(module):
        module.__class__ = _own_class(module)
        module.parametrizations = ModuleDict()
    delattr(module, tensor_name)
    setattr(type(module), tensor_name, _read(tensor_name))
    module.parametrizations[tensor_name] = computed
    return module


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """The attribute becomes a parameter again: with the value that it has now, or else with the
    original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{type(module).__name__} has no parametrization of {tensor_name!r}")
    computed = module.parametrizations[tensor_name]
    if not leave_parametrized and not computed.is_tensor:
        raise ValueError("leave_parametrized=False needs one original")
    first = computed.original if computed.is_tensor else computed.original0
    value = computed().detach() if leave_parametrized else computed.original.detach()
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
        module.__class__ = type(module)._parametrized_from
    setattr(module, tensor_name, _like(first, value))
    return module


__all__ = [
    "Module",
    "ParametrizationList",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
]
