# SPDX-License-Identifier: Apache-2.0
"""Distributions of real numbers that are functions of draws of others."""

import math

import gramme
from gramme import Size
from gramme.distributions import constraints
from gramme.distributions.continuous import Normal, _open_uniform
from gramme.distributions.distribution import Distribution, Independent, broadcast
from gramme.distributions.gamma import standard_gamma
from gramme.distributions.transforms import StickBreakingTransform, TransformedDistribution
from gramme.higher_order import while_loop
from gramme.incomplete_gamma import gammaincc

_EULER = 0.57721566490153286


class _TwoAboveZero(Distribution):
    """Two parameters above 0, named in `names`."""

    has_rsample = True
    support = constraints.positive
    names = ("concentration", "scale")

    def __init__(self, *args, validate_args=None, **named):
        given = dict(zip((*self.names, "validate_args"), args), **named)
        validate_args = given.pop("validate_args", validate_args)
        if sorted(given) != sorted(self.names):
            raise TypeError(
                f"{type(self).__name__}: its parameters are {' and '.join(self.names)}, not "
                f"{', '.join(given)}"
            )
        first, second = broadcast(*[given[name] for name in self.names])
        setattr(self, self.names[0], first)
        setattr(self, self.names[1], second)
        super().__init__(first.shape, validate_args=validate_args)
        self._check(self.names[0], first, first > 0, "above 0")
        self._check(self.names[1], second, second > 0, "above 0")

    def expand(self, batch_shape):
        first, second = [getattr(self, name).expand(batch_shape) for name in self.names]
        return type(self)(first, second, validate_args=False)


class Weibull(_TwoAboveZero):
    names = ("scale", "concentration")

    @property
    def mean(self):
        return self.scale * gramme.lgamma(1 + 1 / self.concentration).exp()

    @property
    def mode(self):
        k = self.concentration
        return self.scale * ((k - 1) / k).clamp(min=0) ** (1 / k)

    @property
    def variance(self):
        r = 1 / self.concentration
        return self.scale**2 * (gramme.lgamma(1 + 2 * r).exp() - (2 * gramme.lgamma(1 + r)).exp())

    def rsample(self, sample_shape=Size()):
        return self.scale * (
            -_open_uniform(self._extended_shape(sample_shape), self.scale).log()
        ) ** (1 / self.concentration)

    def log_prob(self, value):
        self._check_value(value, value > 0, "above 0")
        z = value / self.scale
        return (
            self.concentration.log()
            - self.scale.log()
            + (self.concentration - 1) * z.log()
            - z**self.concentration
        )

    def cdf(self, value):
        return -gramme.expm1(-((value / self.scale) ** self.concentration))

    def icdf(self, value):
        return self.scale * (-gramme.log1p(-value)) ** (1 / self.concentration)

    def entropy(self):
        return (
            _EULER * (1 - 1 / self.concentration) + self.scale.log() - self.concentration.log() + 1
        )


class Pareto(_TwoAboveZero):
    names = ("scale", "alpha")

    @property
    def support(self):
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)
        return gramme.where(
            self.alpha > 1, a * self.scale / gramme.where(self.alpha > 1, a - 1, 1.0), math.inf
        )

    @property
    def mode(self):
        return self.scale

    @property
    def variance(self):
        some = self.alpha > 2
        a = gramme.where(some, self.alpha, 3.0)
        return gramme.where(some, self.scale**2 * a / ((a - 1) ** 2 * (a - 2)), math.inf)

    def rsample(self, sample_shape=Size()):
        return (
            self.scale
            * (
                -_open_uniform(self._extended_shape(sample_shape), self.scale).log() / self.alpha
            ).exp()
        )

    def log_prob(self, value):
        self._check_value(value, value >= self.scale, "not below scale")
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def cdf(self, value):
        return 1 - (self.scale / value) ** self.alpha

    def icdf(self, value):
        return self.scale * (1 - value) ** (-1 / self.alpha)

    def entropy(self):
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class Kumaraswamy(_TwoAboveZero):
    """On (0, 1)."""

    names = ("concentration1", "concentration0")
    support = constraints.unit_interval

    def _moment(self, n):
        return (
            self.concentration0
            * (
                gramme.lgamma(1 + n / self.concentration1)
                + gramme.lgamma(self.concentration0)
                - gramme.lgamma(1 + n / self.concentration1 + self.concentration0)
            ).exp()
        )

    @property
    def mean(self):
        return self._moment(1)

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        some = (a >= 1) & (b >= 1) & (a * b > 1)
        top = (gramme.where(some, a - 1, 1.0) / gramme.where(some, a * b - 1, 1.0)) ** (1 / a)
        return gramme.where(some, top, math.nan)

    @property
    def variance(self):
        return self._moment(2) - self._moment(1) ** 2

    def rsample(self, sample_shape=Size()):
        u = _open_uniform(self._extended_shape(sample_shape), self.concentration0)
        info = gramme.finfo(u.dtype)
        return (-gramme.expm1(u.log() / self.concentration0)).clamp(min=info.tiny) ** (
            1 / self.concentration1
        )

    def log_prob(self, value):
        self._check_value(value, (value > 0) & (value < 1), "between 0 and 1")
        a, b = self.concentration1, self.concentration0
        return a.log() + b.log() + (a - 1) * value.log() + (b - 1) * gramme.log1p(-(value**a))

    def cdf(self, value):
        return 1 - (1 - value**self.concentration1) ** self.concentration0

    def icdf(self, value):
        return (1 - (1 - value) ** (1 / self.concentration0)) ** (1 / self.concentration1)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * (gramme.digamma(b + 1) + _EULER) - a.log() - b.log()


class InverseGamma(_TwoAboveZero):
    """Of what a gamma distribution draws, the inverse."""

    names = ("concentration", "rate")

    @property
    def mean(self):
        some = self.concentration > 1
        return gramme.where(
            some, self.rate / gramme.where(some, self.concentration - 1, 1.0), math.inf
        )

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        some = self.concentration > 2
        a = gramme.where(some, self.concentration, 3.0)
        return gramme.where(some, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def rsample(self, sample_shape=Size()):
        drawn = standard_gamma(self.concentration, self._extended_shape(sample_shape)).to(
            self.rate.dtype
        )
        return self.rate / drawn.clamp(min=gramme.finfo(drawn.dtype).tiny)

    def cdf(self, value):
        return gammaincc(self.concentration, self.rate / value)

    def log_prob(self, value):
        self._check_value(value, value > 0, "above 0")
        a = self.concentration
        return a * self.rate.log() - gramme.lgamma(a) - (a + 1) * value.log() - self.rate / value

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + gramme.lgamma(a) - (1 + a) * gramme.digamma(a)


class FisherSnedecor(_TwoAboveZero):
    """Of the ratio of two Chi2 numbers, each divided by its df."""

    names = ("df1", "df2")

    @property
    def mean(self):
        some = self.df2 > 2
        b = gramme.where(some, self.df2, 3.0)
        return gramme.where(some, b / (b - 2), math.nan)

    @property
    def mode(self):
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return gramme.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self):
        some = self.df2 > 4
        a, b = self.df1, gramme.where(some, self.df2, 5.0)
        return gramme.where(some, 2 * b**2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4)), math.nan)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        above = standard_gamma(self.df1 / 2, shape) / self.df1.to(gramme.float64)
        below = standard_gamma(self.df2 / 2, shape) / self.df2.to(gramme.float64)
        return (above / below).to(self.df1.dtype).clamp(min=gramme.finfo(self.df1.dtype).tiny)

    def log_prob(self, value):
        self._check_value(value, value > 0, "above 0")
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        norm = gramme.lgamma(a + b) - gramme.lgamma(a) - gramme.lgamma(b)
        return (
            norm + a * ratio.log() + (a - 1) * value.log() - (a + b) * gramme.log1p(ratio * value)
        )


class HalfCauchy(Distribution):
    """The size of what Cauchy's distribution around 0 draws."""

    has_rsample = True
    support = constraints.nonnegative

    def __init__(self, scale, validate_args=None):
        (self.scale,) = broadcast(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)
        self._check("scale", scale, self.scale > 0, "above 0")

    @property
    def mean(self):
        return gramme.full_like(self.scale, math.inf)

    @property
    def mode(self):
        return gramme.zeros_like(self.scale)

    @property
    def variance(self):
        return gramme.full_like(self.scale, math.inf)

    def expand(self, batch_shape):
        return HalfCauchy(self.scale.expand(batch_shape), False)

    def rsample(self, sample_shape=Size()):
        return (
            _open_uniform(self._extended_shape(sample_shape), self.scale) * (math.pi / 2)
        ).tan() * self.scale

    def log_prob(self, value):
        self._check_value(value, value >= 0, "not below 0")
        return math.log(2 / math.pi) - self.scale.log() - gramme.log1p((value / self.scale) ** 2)

    def cdf(self, value):
        return (value / self.scale).atan() * (2 / math.pi)

    def icdf(self, value):
        return (value * (math.pi / 2)).tan() * self.scale

    def entropy(self):
        return math.log(2 * math.pi) + self.scale.log()


class VonMises(Distribution):
    """On the circle, around loc.  Drawn by D. Best and N. Fisher, "Efficient simulation of the von
    Mises distribution" (Applied Statistics 28, 1979)."""

    support = constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)
        self._check("concentration", concentration, self.concentration > 0, "above 0")

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        """That of the circle: 1 less the mean of the cosine of the distance to loc."""
        return 1 - gramme.special.i1e(self.concentration) / gramme.special.i0e(self.concentration)

    def expand(self, batch_shape):
        return VonMises(self.loc.expand(batch_shape), self.concentration.expand(batch_shape), False)

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with gramme.no_grad():
            k = self.concentration.to(gramme.float64).expand(shape)
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = gramme.where(
                k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho)
            )  # the difference cancels

            def again(found, done):
                u, v, w = [gramme.rand_like(k) for _ in range(3)]
                z = (math.pi * u).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                taken = (c * (2 - c) - v > 0) | ((c / v.clamp(min=1e-300)).log() + 1 - c >= 0)
                return (
                    gramme.where(done, found, (w - 0.5).sign() * f.clamp(-1, 1).acos()),
                    done | taken,
                )

            angle, _ = while_loop(
                lambda found, done: done.all().logical_not(),
                again,
                (gramme.zeros_like(k), gramme.zeros_like(k, dtype=gramme.bool)),
            )
            angle = angle + self.loc
            return (angle - (2 * math.pi) * ((angle + math.pi) / (2 * math.pi)).floor()).to(
                self.loc.dtype
            )

    def log_prob(self, value):
        self._check_value(value, value == value, "a number")
        k = self.concentration
        return (
            k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - gramme.special.i0e(k).log()
        )


class LogisticNormal(TransformedDistribution):
    """Vectors that add up to 1, made of normal ones with one number less."""

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(
            Independent(Normal(loc, scale, validate_args), 1),
            StickBreakingTransform(),
            validate_args,
        )

    @property
    def loc(self):
        return self.base_dist.base_dist.loc

    @property
    def scale(self):
        return self.base_dist.base_dist.scale
