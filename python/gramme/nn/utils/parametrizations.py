# SPDX-License-Identifier: Apache-2.0
"""Parametrizations that are often wanted: weight_norm (Salimans and Kingma 2016), spectral_norm
(Miyato et al. 2018)."""

import gramme
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
        return v.norm(
            2, dim=tuple([i for i in range(v.dim()) if i != self.dim % v.dim()]), keepdim=True
        )

    def forward(self, g, v):
        return v * (g / self._norm(v))

    def right_inverse(self, weight):
        return self._norm(weight), weight


def weight_norm(module, name="weight", dim=0):
    """The parameter becomes the product of its lengths (original0) and its direction (original1),
    which are trained instead."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """weight / sigma, its largest singular value, by the power method: each forward in training
    goes on from the vectors of the last one."""

    def __init__(self, weight, n_power_iterations, dim, eps):
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.dim()}, "
                f"{weight.dim() - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.dim(), eps, n_power_iterations
        if weight.dim() > 1:
            with gramme.no_grad():
                matrix = self._matrix(weight)
                u = gramme.nn.functional.normalize(
                    matrix.new_empty(matrix.shape[0]).normal_(0, 1), dim=0, eps=eps
                )
                v = gramme.nn.functional.normalize(
                    matrix.new_empty(matrix.shape[1]).normal_(0, 1), dim=0, eps=eps
                )
                self.register_buffer("_u", u)
                self.register_buffer("_v", v)
                self._iterate(matrix, 15)

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix, times):
        with gramme.no_grad():
            for _ in range(times):
                self._u.copy_(gramme.nn.functional.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(
                    gramme.nn.functional.normalize(matrix.mT @ self._u, dim=0, eps=self.eps)
                )

    def forward(self, weight):
        if weight.dim() == 1:
            return gramme.nn.functional.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next forward writes to them
        return weight / (u * (matrix @ v)).sum()

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The parameter is divided by its largest singular value.  dim: the rows of the matrix; None:
    0, and 1 for transposed convolutions."""
    if dim is None:
        transposed = (
            gramme.nn.ConvTranspose1d,
            gramme.nn.ConvTranspose2d,
            gramme.nn.ConvTranspose3d,
        )
        dim = 1 if isinstance(module, transposed) else 0
    return register_parametrization(
        module, name, _SpectralNorm(getattr(module, name), n_power_iterations, dim, eps)
    )
