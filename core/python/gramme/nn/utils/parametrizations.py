# SPDX-License-Identifier: Apache-2.0
"""Parametrizations that are often wanted: weight_norm (Salimans and Kingma 2016)."""

from gramme.nn.module import Module
from gramme.nn.utils.parametrize import register_parametrization


class _WeightNorm(Module):
    """weight = g * v / |v|, norms over all dimensions but dim; dim None: over all."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def _norm(self, v):
        if self.dim is None:
            return v.norm()
        return v.norm(2, dim=tuple([i for i in range(v.dim()) if i != self.dim % v.dim()]), keepdim=True)

    def forward(self, g, v):
        return v * (g / self._norm(v))

    def right_inverse(self, weight):
        return self._norm(weight), weight


def weight_norm(module, name="weight", dim=0):
    """The parameter becomes the product of its lengths (original0) and its direction (original1), which are trained instead."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
