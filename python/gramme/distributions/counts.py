# SPDX-License-Identifier: Apache-2.0
"""Distributions of counts.

Poisson's and the binomial one are drawn by adding up their probabilities while the mean is below
10, from one uniform number; from there on by W. Hörmann, "The transformed rejection method for
generating Poisson random variables" (Insurance: Mathematics and Economics 12, 1993) and "The
generation of binomial random variates" (Journal of Statistical Computation and Simulation 46,
1993).  Both are loops that stay in the graph, over all elements at once.
"""

import math

import gramme
from gramme import Size
from gramme.distributions import constraints
from gramme.distributions.discrete import Categorical, _ByProbability, _one_of
from gramme.distributions.distribution import Distribution, broadcast
from gramme.distributions.gamma import standard_gamma
from gramme.higher_order import while_loop
from gramme.nn.functional import logsigmoid

# what is beyond, for a mean below 10, has a probability below the precision of the uniform number
_MOST = 150


def _by_adding(u, first, ratio, most):
    """The least k with u <= p[0] + ... + p[k], where p[0] is first and p[k] / p[k - 1] is ratio
    (k)."""

    def step(k, p, total):
        going = (u > total) & (k < most)
        k = gramme.where(going, k + 1, k)
        p = gramme.where(going, p * ratio(k), p)
        return k, p, gramme.where(going, total + p, total)

    zero = gramme.zeros_like(u)
    return while_loop(
        lambda k, p, total: ((u > total) & (k < most)).any(),
        step,
        (zero, zero + first, zero + first),
    )[0]


def _by_rejection(wanted, mean, a, b, ease, take, log_ratio, generator):
    """Draws of k = floor ((2 a / s + b) v + mean), s = 0.5 - |v|, where wanted; 0 elsewhere.  take:
    below it v counts as it is; log_ratio (k): the logarithm of the probability of k, over that
    which ease belongs to; -inf for what is none."""

    def again(found, done):
        v = gramme.rand(mean.shape, dtype=mean.dtype, device=mean.device, generator=generator) - 0.5
        u = gramme.rand(
            mean.shape, dtype=mean.dtype, device=mean.device, generator=generator
        ).clamp(min=1e-300)
        s = (0.5 - v.abs()).clamp(min=1e-300)
        k = ((2 * a / s + b) * v + mean).floor()
        quick = (s >= 0.07) & (u <= take)
        out = (k < 0) | (s < 0.013) & (u > s)
        exact = (u * ease / (a / (s * s) + b)).log() <= log_ratio(k.clamp(min=0))
        return gramme.where(done, found, k), done | quick | exact & ~out

    found, done = gramme.zeros_like(mean), ~wanted
    if generator is None:
        return while_loop(lambda found, done: done.all().logical_not(), again, (found, done))[0]
    while not bool(done.all()):  # a body draws of no generator but the process's
        found, done = again(found, done)
    return found


def _uniform(like, generator):
    return gramme.rand(like.shape, dtype=like.dtype, device=like.device, generator=generator)


def poisson(input, generator=None):
    """Draws of Poisson's distribution with the rates of input, of its dtype."""
    rate = input.detach().to(gramme.float64)
    rate = gramme._require(rate, ~(rate < 0), "RATE")
    large = rate >= 10
    low, high = gramme.where(large, 1.0, rate), gramme.where(large, rate, 10.0)
    few = _by_adding(_uniform(rate, generator), (-low).exp(), lambda k: low / k.clamp(min=1), _MOST)
    b = 0.931 + 2.53 * high.sqrt()
    log_rate = high.log()
    many = _by_rejection(
        large, high + 0.43, -0.059 + 0.02483 * b, b, 1.1239 + 1.1328 / (b - 3.4),
        0.9277 - 3.6224 / (b - 2),
        lambda k: k * log_rate - high - gramme.lgamma(k + 1), generator,
    )  # fmt: skip
    drawn = gramme.where(rate.isnan(), rate, gramme.where(large, many, few)).to(input.dtype)
    return (
        drawn + input.sign() * 0 if input.requires_grad else drawn
    )  # a gradient of zeros, as a draw is no function of its rate


def binomial(count, prob, generator=None):
    """Draws of how many of count trials succeed, each with the probability prob; of count's
    dtype."""
    n, p = gramme.broadcast_tensors(
        count.detach().to(gramme.float64), prob.detach().to(gramme.float64)
    )
    turned = p > 0.5
    p = gramme.where(turned, 1 - p, p)
    large = n * p >= 10
    n1, p1, n2, p2 = (
        gramme.where(large, 1.0, n),
        gramme.where(large, 0.25, p),
        gramme.where(large, n, 40.0),
        gramme.where(large, p, 0.25),
    )
    odds = p1 / (1 - p1)
    few = _by_adding(
        _uniform(p, generator),
        (n1 * gramme.log1p(-p1)).exp(),
        lambda k: (n1 - k + 1) / k.clamp(min=1) * odds,
        n1.clamp(max=_MOST),
    )
    spread = (n2 * p2 * (1 - p2)).sqrt()
    b = 1.15 + 2.53 * spread
    top, log_odds = ((n2 + 1) * p2).floor(), p2.log() - gramme.log1p(-p2)
    at_top = gramme.lgamma(top + 1) + gramme.lgamma(n2 - top + 1)

    def log_ratio(k):
        inside = k <= n2
        j = gramme.where(inside, k, n2)
        return gramme.where(
            inside,
            at_top - gramme.lgamma(j + 1) - gramme.lgamma(n2 - j + 1) + (j - top) * log_odds,
            -math.inf,
        )

    many = _by_rejection(
        large,
        n2 * p2 + 0.5,
        -0.0873 + 0.0248 * b + 0.01 * p2,
        b,
        (2.83 + 5.1 / b) * spread,
        0.92 - 4.2 / b,
        log_ratio,
        generator,
    )
    k = gramme.where(large, many, few)
    return gramme.where(p.isnan(), p, gramme.where(turned, n - k, k)).to(count.dtype)


class Poisson(Distribution):
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)
        self._check("rate", rate, self.rate >= 0, "not below 0")

    @property
    def mean(self):
        return self.rate

    @property
    def mode(self):
        return self.rate.floor()

    @property
    def variance(self):
        return self.rate

    def expand(self, batch_shape):
        return Poisson(self.rate.expand(batch_shape), False)

    def sample(self, sample_shape=Size()):
        with gramme.no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._check_value(value, value >= 0, "not below 0")
        rate, value = gramme.broadcast_tensors(self.rate, value)
        return gramme.xlogy(value, rate) - rate - gramme.lgamma(value + 1)


class _Trials(_ByProbability):
    """total_count beside a probability, or its logits."""

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        _one_of(type(self).__name__, probs, logits)
        param, self.total_count = broadcast(logits if probs is None else probs, total_count)
        self._param, self._has_probs = param, probs is not None
        super().__init__(param.shape, validate_args=validate_args)
        self._check("total_count", total_count, self.total_count >= 0, "not below 0")
        if self._has_probs:
            self._check("probs", probs, (param >= 0) & (param <= 1), "between 0 and 1")

    def expand(self, batch_shape):
        param, count = self._param.expand(batch_shape), self.total_count.expand(batch_shape)
        return (
            type(self)(count, param, None, False)
            if self._has_probs
            else type(self)(count, None, param, False)
        )


class Binomial(_Trials):
    """How many of total_count trials succeed."""

    has_enumerate_support = True

    @property
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with gramme.no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        self._check_value(
            value, (value >= 0) & (value <= self.total_count), "between 0 and total_count"
        )
        n, logits = self.total_count, self.logits
        ways = gramme.lgamma(n + 1) - gramme.lgamma(value + 1) - gramme.lgamma(n - value + 1)
        return ways + value * logsigmoid(logits) + (n - value) * logsigmoid(-logits)

    def entropy(self):
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        total = int(self.total_count.max())
        if bool((self.total_count != total).any()):
            raise NotImplementedError(
                "Binomial: total_count differs within the batch, so what there is to count does"
            )
        values = gramme.arange(
            1 + total, dtype=self._param.dtype, device=self._param.device
        ).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(1 + total, *self._batch_shape) if expand else values


class NegativeBinomial(_Trials):
    """How many trials succeed, each with the probability probs, before total_count of them fail."""

    support = constraints.nonnegative_integer

    @property
    def mean(self):
        return self.total_count * self.logits.exp()

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self):
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with gramme.no_grad():
            return poisson(
                standard_gamma(self.total_count, shape) * self.logits.to(gramme.float64).exp()
            ).to(self._param.dtype)

    def log_prob(self, value):
        self._check_value(value, value >= 0, "not below 0")
        n, logits = self.total_count, self.logits
        ways = gramme.lgamma(n + value) - gramme.lgamma(value + 1) - gramme.lgamma(n)
        ways = gramme.where(n + value == 0, 0.0, ways)
        return n * logsigmoid(-logits) + value * logsigmoid(logits) + ways


class Multinomial(Distribution):
    """How often each of the events of a Categorical occurs in total_count draws, an int."""

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count is one int for all")
        self.total_count, self._categorical = total_count, Categorical(probs, logits, validate_args)
        super().__init__(
            self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args
        )

    def expand(self, batch_shape):
        return Multinomial(
            self.total_count, None, self.logits.expand(*batch_shape, self._event_shape[0]), False
        )

    @property
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def probs(self):
        return self._categorical.probs

    @property
    def logits(self):
        return self._categorical.logits

    @property
    def param_shape(self):
        return self._categorical.param_shape

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        with gramme.no_grad():
            return (
                gramme.nn.functional.one_hot(drawn, self._event_shape[0])
                .sum(0)
                .to(self.probs.dtype)
            )

    def log_prob(self, value):
        self._check_value(
            value,
            (value >= 0).all(-1) & (value.sum(-1) == self.total_count),
            "counts that add up to total_count",
        )
        logits, value = gramme.broadcast_tensors(self.logits, value)
        logits = gramme.where((value == 0) & (logits == -math.inf), 0.0, logits)
        return (
            gramme.lgamma(value.sum(-1) + 1)
            - gramme.lgamma(value + 1).sum(-1)
            + (logits * value).sum(-1)
        )

    def entropy(self):
        n = gramme.tensor(float(self.total_count), dtype=self.probs.dtype)
        ways = Binomial(self.total_count, self.probs, None, False)
        each = ways.log_prob(ways.enumerate_support(False)).exp() * gramme.lgamma(
            ways.enumerate_support(False) + 1
        )
        return n * self._categorical.entropy() - gramme.lgamma(n + 1) + each.sum((0, -1))
