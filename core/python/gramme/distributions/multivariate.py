# SPDX-License-Identifier: Apache-2.0
"""The normal distribution of vectors."""

import math

import gramme
from gramme import Size
from gramme.distributions import constraints
from gramme.distributions.distribution import Distribution


class MultivariateNormal(Distribution):
    """loc [..., n], and one of covariance_matrix, precision_matrix and scale_tril, the Cholesky factor of the first, all [..., n, n]."""

    has_rsample = True
    support = constraints.real_vector

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if (covariance_matrix is not None) + (precision_matrix is not None) + (scale_tril is not None) != 1:
            raise ValueError("MultivariateNormal: exactly one of covariance_matrix, precision_matrix and scale_tril is to be given")
        if loc.dim() < 1:
            raise ValueError("MultivariateNormal: loc has one dimension at least")
        if covariance_matrix is not None:
            scale_tril = gramme.linalg.cholesky(covariance_matrix)
        elif precision_matrix is not None:
            scale_tril = gramme.linalg.cholesky(gramme.linalg.inv(precision_matrix))
        batch = gramme.broadcast_shapes(tuple(loc.shape[:-1]), tuple(scale_tril.shape[:-2]))
        n = loc.shape[-1]
        self.loc, self.scale_tril = loc.expand(*batch, n), scale_tril.expand(*batch, n, n)
        super().__init__(batch, (n,), validate_args)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def covariance_matrix(self):
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self):
        return gramme.cholesky_inverse(self.scale_tril)

    @property
    def variance(self):
        return (self.scale_tril**2).sum(-1)

    def expand(self, batch_shape):
        n = self._event_shape[0]
        return MultivariateNormal(self.loc.expand(*batch_shape, n), scale_tril=self.scale_tril.expand(*batch_shape, n, n), validate_args=False)

    def rsample(self, sample_shape=Size()):
        z = gramme.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self):
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        away = value - self.loc
        scale = self.scale_tril.expand(*away.shape[:-1], *self.scale_tril.shape[-2:])
        z = gramme.linalg.solve_triangular(scale, away.unsqueeze(-1), upper=False).squeeze(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + (z**2).sum(-1)) - self._half_log_det()

    def entropy(self):
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()
