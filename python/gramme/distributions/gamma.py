# SPDX-License-Identifier: Apache-2.0
"""The gamma distribution and its relatives.

Drawn by Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26, 2000):
what is rejected is drawn again, in a loop that stays in the graph.  The gradient is that of the
draw whose place in the distribution is kept (incomplete_gamma.gamma_slope).
"""

import math

import gramme
from gramme import Size
from gramme.autograd import Function
from gramme.distributions import constraints
from gramme.distributions.distribution import Distribution, broadcast
from gramme.higher_order import while_loop
from gramme.incomplete_gamma import gamma_slope, gammainc


def _standard(concentration, shape):
    """Draws of rate 1, concentration being of float64.  Below 1 they are those of one more, times a
    power of a uniform number."""
    a = concentration.detach().expand(shape)
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

    found, _ = while_loop(
        lambda found, done: done.all().logical_not(),
        again,
        (gramme.zeros_like(d), gramme.zeros_like(d, dtype=gramme.bool)),
    )
    power = gramme.rand_like(d).clamp(min=1e-300) ** (1 / gramme.where(low, a, 1.0))
    return gramme.where(low, found * power, found).clamp(min=gramme.finfo(gramme.float64).tiny)


class _Drawn(Function):
    @staticmethod
    def forward(ctx, concentration, x):
        ctx.save_for_backward(concentration, x)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        concentration, x = ctx.saved_tensors
        return g * gamma_slope(concentration, x), None


def standard_gamma(concentration, shape):
    """Draws of rate 1, of float64, through which gradients flow to the concentration."""
    a = concentration.to(gramme.float64).expand(shape)
    return _Drawn.apply(a, _standard(a, shape))


class Gamma(Distribution):
    has_rsample = True
    support = constraints.nonnegative

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

    def expand(self, batch_shape):
        return Gamma(self.concentration.expand(batch_shape), self.rate.expand(batch_shape), False)

    def rsample(self, sample_shape=Size()):
        drawn = standard_gamma(self.concentration, self._extended_shape(sample_shape)).to(
            self.rate.dtype
        )
        return drawn.clamp(min=gramme.finfo(drawn.dtype).tiny) / self.rate

    def cdf(self, value):
        self._check_value(value, value >= 0, "not below 0")
        return gammainc(self.concentration, self.rate * value)

    def log_prob(self, value):
        self._check_value(value, value >= 0, "not below 0")
        a = self.concentration
        return (
            gramme.xlogy(a, self.rate)
            + gramme.xlogy(a - 1, value)
            - self.rate * value
            - gramme.lgamma(a)
        )

    def entropy(self):
        a = self.concentration
        return a - self.rate.log() + gramme.lgamma(a) + (1 - a) * gramme.digamma(a)


class Chi2(Gamma):
    """Of the sum of df squares of standard normal numbers."""

    def __init__(self, df, validate_args=None):
        (self.df,) = broadcast(df)
        super().__init__(0.5 * self.df, 0.5, validate_args)

    def expand(self, batch_shape):
        return Chi2(self.df.expand(batch_shape), False)


def _inside(x):
    """Neither 0 nor 1, where densities may be infinite."""
    info = gramme.finfo(x.dtype)
    return x.clamp(info.tiny, 1 - info.eps / 2)


class Beta(Distribution):
    has_rsample = True
    support = constraints.unit_interval

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

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        inner = (a - 1) / gramme.where((a > 1) & (b > 1), a + b - 2, 1.0)
        ends = gramme.where((a < 1) & (b < 1) | (a == 1) & (b == 1), math.nan, (a > b).to(a.dtype))
        return gramme.where((a > 1) & (b > 1), inner, ends)

    def expand(self, batch_shape):
        return Beta(
            self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape), False
        )

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        a, b = standard_gamma(self.concentration1, shape), standard_gamma(
            self.concentration0, shape
        )
        return _inside((a / (a + b)).to(self.concentration1.dtype))

    def _log_norm(self):
        return (
            gramme.lgamma(self.concentration1)
            + gramme.lgamma(self.concentration0)
            - gramme.lgamma(self.concentration1 + self.concentration0)
        )

    def log_prob(self, value):
        self._check_value(value, (value >= 0) & (value <= 1), "between 0 and 1")
        one = gramme.xlogy(self.concentration1 - 1, value)
        return one + gramme.special.xlog1py(self.concentration0 - 1, -value) - self._log_norm()

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        return (
            self._log_norm()
            - (a - 1) * gramme.digamma(a)
            - (b - 1) * gramme.digamma(b)
            + (a + b - 2) * gramme.digamma(a + b)
        )


class Dirichlet(Distribution):
    """Of vectors that add up to 1; concentration [..., n]."""

    has_rsample = True
    support = constraints.simplex

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

    @property
    def mode(self):
        more = (self.concentration - 1).clamp(min=0)
        total = more.sum(-1, keepdim=True)
        first = gramme.nn.functional.one_hot(
            self.concentration.argmax(-1), self.concentration.shape[-1]
        ).to(total.dtype)
        inner = (self.concentration >= 1).any(-1, keepdim=True)
        return gramme.where(inner, more / gramme.where(total > 0, total, 1.0), first)

    def expand(self, batch_shape):
        return Dirichlet(
            self.concentration.expand(*batch_shape, self.concentration.shape[-1]), False
        )

    def rsample(self, sample_shape=Size()):
        drawn = standard_gamma(self.concentration, self._extended_shape(sample_shape))
        return _inside((drawn / drawn.sum(-1, keepdim=True)).to(self.concentration.dtype))

    def _log_norm(self):
        return gramme.lgamma(self.concentration).sum(-1) - gramme.lgamma(self.concentration.sum(-1))

    def log_prob(self, value):
        return gramme.xlogy(self.concentration - 1, value).sum(-1) - self._log_norm()

    def entropy(self):
        a, n = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return (
            self._log_norm()
            + (total - n) * gramme.digamma(total)
            - ((a - 1) * gramme.digamma(a)).sum(-1)
        )


class StudentT(Distribution):
    has_rsample = True
    support = constraints.real

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

    @property
    def mode(self):
        return self.loc

    def expand(self, batch_shape):
        return StudentT(
            self.df.expand(batch_shape),
            self.loc.expand(batch_shape),
            self.scale.expand(batch_shape),
            False,
        )

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        x = gramme.randn(shape, dtype=self.df.dtype, device=self.df.device)
        squares = (
            (2 * standard_gamma(self.df / 2, shape))
            .to(self.df.dtype)
            .clamp(min=gramme.finfo(self.df.dtype).tiny)
        )
        return self.loc + self.scale * x * (self.df / squares).sqrt()

    def log_prob(self, value):
        z = (value - self.loc) / self.scale
        norm = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + gramme.lgamma(0.5 * self.df)
            - gramme.lgamma(0.5 * (self.df + 1))
        )
        return -0.5 * (self.df + 1) * gramme.log1p(z**2 / self.df) - norm

    def entropy(self):
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        norm = gramme.lgamma(half) + math.lgamma(0.5) - gramme.lgamma(more)
        return (
            self.scale.log()
            + more * (gramme.digamma(more) - gramme.digamma(half))
            + 0.5 * self.df.log()
            + norm
        )
