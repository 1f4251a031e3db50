# SPDX-License-Identifier: Apache-2.0
"""Parameter: a tensor that a Module trains."""

from gramme._core import Tensor, tensor


class Parameter(Tensor):
    """Parameter(data, requires_grad=True): shares data's memory; as a Module's attribute it is one of parameters().

    Results of operations on it are plain Tensors.
    """

    def __new__(cls, data=None, requires_grad=True):
        return Tensor._make_subclass(cls, tensor([]) if data is None else data, requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + Tensor.__repr__(self)
