# SPDX-License-Identifier: Apache-2.0
"""The gamma distribution and its relatives.

Drawn by Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26, 2000): what is rejected is drawn again, in a loop
that stays in the graph.  Gradients do not flow through the draws.
"""

import math

import gramme
from gramme import Size
from gramme.distributions.distribution import Distribution, broadcast
from gramme.higher_order import while_loop


def _standard(concentration, shape):
    """Draws of rate 1.  Below 1 they are those of one more, times a power of a uniform number."""
    a = concentration.detach().to(gramme.float64).expand(shape)
    low = a < 1
    d = gramme.where(low, a + 1, a) - 1 / 3
    c = 1 / (9 * d).sqrt()

    def again(found, done):
        x = gramme.randn_like(d)
        v = (1 + c * x) ** 3
        good = gramme.where(v > 0, v, 1.0)
        u = gramme.rand_like(d).clamp(min=1e-300)
        taken = (v > 0) & (u.log() < 0.5 * x * x + d - d * good + d * good.log())
        return gramme.where(done, found, d * good), done | taken

    found, _ = while_loop(lambda found, done: done.all().logical_not(), again, (gramme.zeros_like(d), gramme.zeros_like(d, dtype=gramme.bool)))
    power = gramme.rand_like(d).clamp(min=1e-300) ** (1 / gramme.where(low, a, 1.0))
    drawn = gramme.where(low, found * power, found).to(concentration.dtype)
    return drawn.clamp(min=gramme.finfo(concentration.dtype).tiny)


class Gamma(Distribution):
    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)
        self._check("concentration", concentration, self.concentration > 0, "above 0")
        self._check("rate", rate, self.rate > 0, "above 0")

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        return self.concentration / self.rate**2

    def sample(self, sample_shape=Size()):
        with gramme.no_grad():
            return _standard(self.concentration, self._extended_shape(sample_shape)) / self.rate

    def log_prob(self, value):
        self._check_value(value, value >= 0, "not below 0")
        a = self.concentration
        return gramme.xlogy(a, self.rate) + gramme.xlogy(a - 1, value) - self.rate * value - gramme.lgamma(a)

    def entropy(self):
        a = self.concentration
        return a - self.rate.log() + gramme.lgamma(a) + (1 - a) * gramme.digamma(a)


class Chi2(Gamma):
    """Of the sum of df squares of standard normal numbers."""

    def __init__(self, df, validate_args=None):
        (self.df,) = broadcast(df)
        super().__init__(0.5 * self.df, 0.5, validate_args)


class Beta(Distribution):
    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)
        self._check("concentration1", concentration1, self.concentration1 > 0, "above 0")
        self._check("concentration0", concentration0, self.concentration0 > 0, "above 0")

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with gramme.no_grad():
            a, b = _standard(self.concentration1, shape), _standard(self.concentration0, shape)
            return a / (a + b)

    def _log_norm(self):
        return gramme.lgamma(self.concentration1) + gramme.lgamma(self.concentration0) - gramme.lgamma(self.concentration1 + self.concentration0)

    def log_prob(self, value):
        self._check_value(value, (value >= 0) & (value <= 1), "between 0 and 1")
        one = gramme.xlogy(self.concentration1 - 1, value)
        return one + gramme.special.xlog1py(self.concentration0 - 1, -value) - self._log_norm()

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        return self._log_norm() - (a - 1) * gramme.digamma(a) - (b - 1) * gramme.digamma(b) + (a + b - 2) * gramme.digamma(a + b)


class Dirichlet(Distribution):
    """Of vectors that add up to 1; concentration [..., n]."""

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("Dirichlet: concentration has one dimension at least")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)
        self._check("concentration", concentration, concentration > 0, "above 0")

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self):
        total = self.concentration.sum(-1, keepdim=True)
        return self.mean * (1 - self.mean) / (total + 1)

    def sample(self, sample_shape=Size()):
        with gramme.no_grad():
            drawn = _standard(self.concentration, self._extended_shape(sample_shape))
            return drawn / drawn.sum(-1, keepdim=True)

    def _log_norm(self):
        return gramme.lgamma(self.concentration).sum(-1) - gramme.lgamma(self.concentration.sum(-1))

    def log_prob(self, value):
        return gramme.xlogy(self.concentration - 1, value).sum(-1) - self._log_norm()

    def entropy(self):
        a, n = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return self._log_norm() + (total - n) * gramme.digamma(total) - ((a - 1) * gramme.digamma(a)).sum(-1)


class StudentT(Distribution):
    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)
        self._check("df", df, self.df > 0, "above 0")
        self._check("scale", scale, self.scale > 0, "above 0")

    @property
    def mean(self):
        return gramme.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self):
        some = self.scale**2 * self.df / (gramme.where(self.df > 2, self.df, 3.0) - 2)
        return gramme.where(self.df > 2, some, gramme.where(self.df > 1, math.inf, math.nan))

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with gramme.no_grad():
            x = gramme.randn(shape, dtype=self.df.dtype, device=self.df.device)
            return self.loc + self.scale * x * (self.df / (2 * _standard(self.df / 2, shape))).sqrt()

    def log_prob(self, value):
        z = (value - self.loc) / self.scale
        norm = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + gramme.lgamma(0.5 * self.df) - gramme.lgamma(0.5 * (self.df + 1))
        return -0.5 * (self.df + 1) * gramme.log1p(z**2 / self.df) - norm

    def entropy(self):
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        norm = gramme.lgamma(half) + math.lgamma(0.5) - gramme.lgamma(more)
        return self.scale.log() + more * (gramme.digamma(more) - gramme.digamma(half)) + 0.5 * self.df.log() + norm
