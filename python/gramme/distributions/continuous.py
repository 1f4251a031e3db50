# SPDX-License-Identifier: Apache-2.0
"""Distributions of real numbers.  Each but the normal one is drawn by its inverse from uniform
numbers above 0 and below 1."""

import math

import gramme
from gramme import Size
from gramme.distributions import constraints
from gramme.distributions.distribution import Distribution, broadcast


def _open_uniform(shape, like):
    tiny = gramme.finfo(like.dtype).tiny
    return gramme.rand(shape, dtype=like.dtype, device=like.device).clamp(
        tiny, 1 - gramme.finfo(like.dtype).eps / 2
    )


class _LocScale(Distribution):
    has_rsample = True
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)
        self._check("scale", scale, self.scale > 0, "above 0")

    def expand(self, batch_shape):
        return type(self)(self.loc.expand(batch_shape), self.scale.expand(batch_shape), False)

    def rsample(self, sample_shape=Size()):
        return self.loc + self._standard(self._extended_shape(sample_shape)) * self.scale

    def _scaled(self, value):
        self._check_value(value, value == value, "a number")
        return (value - self.loc) / self.scale


class Normal(_LocScale):
    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def stddev(self):
        return self.scale

    @property
    def variance(self):
        return self.scale**2

    def _standard(self, shape):
        return gramme.randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    def log_prob(self, value):
        return -(self._scaled(value) ** 2) / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value):
        return (1 + gramme.erf(self._scaled(value) * math.sqrt(0.5))) * 0.5

    def icdf(self, value):
        return self.loc + self.scale * gramme.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(_LocScale):
    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return 2 * self.scale**2

    def _standard(self, shape):
        u = _open_uniform(shape, self.loc) - 0.5
        return -u.sign() * gramme.log1p((-2 * u.abs()).clamp(min=gramme.finfo(u.dtype).eps - 1))

    def log_prob(self, value):
        return -(2 * self.scale).log() - self._scaled(value).abs()

    def cdf(self, value):
        z = self._scaled(value)
        return 0.5 - 0.5 * z.sign() * gramme.expm1(-z.abs())

    def icdf(self, value):
        return self.loc - self.scale * (value - 0.5).sign() * gramme.log1p(-2 * (value - 0.5).abs())

    def entropy(self):
        return 1 + (2 * self.scale).log()


class Cauchy(_LocScale):
    @property
    def mean(self):
        return gramme.full_like(self.loc, math.nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return gramme.full_like(self.loc, math.inf)

    def _standard(self, shape):
        return ((_open_uniform(shape, self.loc) - 0.5) * math.pi).tan()

    def log_prob(self, value):
        return -math.log(math.pi) - self.scale.log() - gramme.log1p(self._scaled(value) ** 2)

    def cdf(self, value):
        return self._scaled(value).atan() / math.pi + 0.5

    def icdf(self, value):
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocScale):
    @property
    def mean(self):
        return self.loc + self.scale * 0.57721566490153286

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return self.scale**2 * (math.pi**2 / 6)

    def _standard(self, shape):
        return -(-_open_uniform(shape, self.loc).log()).log()

    def log_prob(self, value):
        z = -self._scaled(value)
        return z - z.exp() - self.scale.log()

    def cdf(self, value):
        return (-(-self._scaled(value)).exp()).exp()

    def icdf(self, value):
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self):
        return self.scale.log() + 1.57721566490153286


class LogNormal(_LocScale):
    """The exponential function of a normal one."""

    support = constraints.positive

    @property
    def mean(self):
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self):
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self):
        return gramme.expm1(self.scale**2) * (2 * self.loc + self.scale**2).exp()

    def rsample(self, sample_shape=Size()):
        return Normal(self.loc, self.scale, False).rsample(sample_shape).exp()

    def log_prob(self, value):
        self._check_value(value, value > 0, "above 0")
        logarithm = value.log()
        return Normal(self.loc, self.scale, False).log_prob(logarithm) - logarithm

    def cdf(self, value):
        return Normal(self.loc, self.scale, False).cdf(value.log())

    def icdf(self, value):
        return Normal(self.loc, self.scale, False).icdf(value).exp()

    def entropy(self):
        return Normal(self.loc, self.scale, False).entropy() + self.loc


class HalfNormal(Distribution):
    """The size of a normal number around 0."""

    has_rsample = True
    support = constraints.nonnegative

    def __init__(self, scale, validate_args=None):
        (self.scale,) = broadcast(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)
        self._check("scale", scale, self.scale > 0, "above 0")

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self):
        return gramme.zeros_like(self.scale)

    def expand(self, batch_shape):
        return HalfNormal(self.scale.expand(batch_shape), False)

    @property
    def variance(self):
        return self.scale**2 * (1 - 2 / math.pi)

    def rsample(self, sample_shape=Size()):
        return Normal(0.0, self.scale, False).rsample(sample_shape).abs()

    def log_prob(self, value):
        self._check_value(value, value >= 0, "not below 0")
        return Normal(0.0, self.scale, False).log_prob(value) + math.log(2)

    def cdf(self, value):
        return gramme.erf(value / (self.scale * math.sqrt(2)))

    def icdf(self, value):
        return self.scale * math.sqrt(2) * gramme.erfinv(value)

    def entropy(self):
        return Normal(0.0, self.scale, False).entropy() - math.log(2)


class Uniform(Distribution):
    """On [low, high)."""

    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        self._check("low", low, self.low < self.high, "below high")

    @property
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        return (self.low + self.high) / 2

    @property
    def mode(self):
        return gramme.full_like(self.low, math.nan)

    @property
    def variance(self):
        return (self.high - self.low) ** 2 / 12

    def expand(self, batch_shape):
        return Uniform(self.low.expand(batch_shape), self.high.expand(batch_shape), False)

    def rsample(self, sample_shape=Size()):
        u = gramme.rand(
            self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device
        )
        return self.low + u * (self.high - self.low)

    def log_prob(self, value):
        self._check_value(value, (value >= self.low) & (value <= self.high), "between low and high")
        inside = ((value >= self.low) & (value < self.high)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value):
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return (self.high - self.low).log()


class Exponential(Distribution):
    has_rsample = True
    support = constraints.nonnegative

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)
        self._check("rate", rate, self.rate > 0, "above 0")

    @property
    def mean(self):
        return self.rate.reciprocal()

    @property
    def mode(self):
        return gramme.zeros_like(self.rate)

    @property
    def stddev(self):
        return self.rate.reciprocal()

    @property
    def variance(self):
        return self.rate**-2

    def expand(self, batch_shape):
        return Exponential(self.rate.expand(batch_shape), False)

    def rsample(self, sample_shape=Size()):
        return -_open_uniform(self._extended_shape(sample_shape), self.rate).log() / self.rate

    def log_prob(self, value):
        self._check_value(value, value >= 0, "not below 0")
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        return 1 - (-self.rate * value).exp()

    def icdf(self, value):
        return -gramme.log1p(-value) / self.rate

    def entropy(self):
        return 1 - self.rate.log()
