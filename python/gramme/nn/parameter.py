# SPDX-License-Identifier: Apache-2.0
"""Parameter: a tensor that a Module trains.  Buffer: one that it keeps without training it."""

from gramme._core import Tensor, _disabled_torch_function_impl, tensor


class Parameter(Tensor):
    """Parameter(data, requires_grad=True): shares data's memory; as a Module's attribute it is one
    of parameters().

    Results of operations on it are plain Tensors.
    """

    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data=None, requires_grad=True):
        return Tensor._make_subclass(cls, tensor([]) if data is None else data, requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + Tensor.__repr__(self)


class _IsBuffer(type):
    def __instancecheck__(cls, value):
        return isinstance(value, Tensor) and getattr(value, "_is_buffer", False)


class Buffer(metaclass=_IsBuffer):
    """Buffer(data, persistent=True): a plain tensor that shares data's memory and, set as a
    Module's attribute, is one of buffers().

    The module knows it as soon as it looks for its buffers.  An attribute that may be replaced by
    another tensor before that is better registered, with register_buffer().
    """

    def __new__(cls, data=None, *, persistent=True):
        buffer = tensor([]) if data is None else data.detach()
        buffer._is_buffer = True
        buffer.persistent = persistent
        return buffer


def __getattr__(name):
    """Parameters of layers that learn their sizes: gramme.nn.lazy has them, which is imported
    behind this module."""
    from gramme import _absent

    if name in ("UninitializedBuffer", "UninitializedParameter", "is_lazy"):
        from gramme.nn import lazy

        return getattr(lazy, name)
    return _absent.find(__name__, name)
