# SPDX-License-Identifier: Apache-2.0
"""Normal distributions of vectors."""

import math

import gramme
from gramme import Size
from gramme.distributions import constraints
from gramme.distributions.distribution import Distribution


class MultivariateNormal(Distribution):
    """loc [..., n], and one of covariance_matrix, precision_matrix and scale_tril, the Cholesky
    factor of the first, all [..., n, n]."""

    has_rsample = True
    support = constraints.real_vector

    def __init__(
        self,
        loc,
        covariance_matrix=None,
        precision_matrix=None,
        scale_tril=None,
        validate_args=None,
    ):
        if (covariance_matrix is not None) + (precision_matrix is not None) + (
            scale_tril is not None
        ) != 1:
            raise ValueError(
                "MultivariateNormal: exactly one of covariance_matrix, precision_matrix and "
                "scale_tril is to be given"
            )
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
        return MultivariateNormal(
            self.loc.expand(*batch_shape, n),
            scale_tril=self.scale_tril.expand(*batch_shape, n, n),
            validate_args=False,
        )

    def rsample(self, sample_shape=Size()):
        z = gramme.randn(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        )
        return self.loc + (self.scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self):
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        away = value - self.loc
        scale = self.scale_tril.expand(*away.shape[:-1], *self.scale_tril.shape[-2:])
        z = gramme.linalg.solve_triangular(scale, away.unsqueeze(-1), upper=False).squeeze(-1)
        return (
            -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + (z**2).sum(-1))
            - self._half_log_det()
        )

    def entropy(self):
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()


class LowRankMultivariateNormal(Distribution):
    """The normal distribution with the covariance W W^T + diag (d): loc [..., n], cov_factor W
    [..., n, m], cov_diag d [..., n], above 0.

    Densities cost matrices of m x m alone.  Errors: ValueError for shapes that do not go together.
    """

    has_rsample = True
    support = constraints.real_vector

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        name = "LowRankMultivariateNormal"
        if loc.dim() < 1 or cov_factor.dim() < 2:
            raise ValueError(f"{name}: loc has one dimension at least, and cov_factor two")
        n = loc.shape[-1]
        if cov_factor.shape[-2] != n or cov_diag.shape[-1] != n:
            raise ValueError(
                f"{name}: cov_factor is [..., {n}, m] and cov_diag [..., {n}], not "
                f"{list(cov_factor.shape)} and {list(cov_diag.shape)}"
            )
        batch = gramme.broadcast_shapes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        self.loc, self.cov_diag = loc.expand(*batch, n), cov_diag.expand(*batch, n)
        self.cov_factor = cov_factor.expand(*batch, n, cov_factor.shape[-1])
        super().__init__(batch, (n,), validate_args)
        if self._validate_args:
            self._check("cov_diag", cov_diag, cov_diag > 0, "above 0")

    def _capacitance(self):
        """The Cholesky factor of 1 + W^T diag (1 / d) W, and W^T diag (1 / d)."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        ones = gramme.eye(scaled.shape[-2], dtype=scaled.dtype, device=scaled.device)
        return gramme.linalg.cholesky(scaled @ self.cov_factor + ones), scaled

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return (self.cov_factor**2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self):
        return self.cov_factor @ self.cov_factor.mT + gramme.diag_embed(self.cov_diag)

    @property
    def scale_tril(self):
        return gramme.linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self):
        factor, scaled = self._capacitance()
        part = gramme.linalg.solve_triangular(factor, scaled, upper=False)
        return gramme.diag_embed(self.cov_diag.reciprocal()) - part.mT @ part

    def expand(self, batch_shape):
        n, m = self.cov_factor.shape[-2:]
        return LowRankMultivariateNormal(
            self.loc.expand(*batch_shape, n),
            self.cov_factor.expand(*batch_shape, n, m),
            self.cov_diag.expand(*batch_shape, n),
            False,
        )

    def rsample(self, sample_shape=Size()):
        shape, like = self._extended_shape(sample_shape), {
            "dtype": self.loc.dtype,
            "device": self.loc.device,
        }
        along = gramme.randn(shape[:-1] + self.cov_factor.shape[-1:], **like)
        return (
            self.loc
            + (self.cov_factor @ along.unsqueeze(-1)).squeeze(-1)
            + self.cov_diag.sqrt() * gramme.randn(shape, **like)
        )

    def _log_det(self, factor):
        return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        factor, scaled = self._capacitance()
        part = (scaled @ away.unsqueeze(-1)).expand(*away.shape[:-1], factor.shape[-1], 1)
        z = gramme.linalg.solve_triangular(
            factor.expand(*away.shape[:-1], *factor.shape[-2:]), part, upper=False
        ).squeeze(-1)
        distance = (away**2 / self.cov_diag).sum(-1) - (z**2).sum(-1)
        return -0.5 * (
            self._event_shape[0] * math.log(2 * math.pi) + self._log_det(factor) + distance
        )

    def entropy(self):
        return 0.5 * (
            self._event_shape[0] * (1 + math.log(2 * math.pi))
            + self._log_det(self._capacitance()[0])
        )
