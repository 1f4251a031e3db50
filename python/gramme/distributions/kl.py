# SPDX-License-Identifier: Apache-2.0
"""The Kullback-Leibler divergence of one distribution from another, by a table of pairs of
classes."""

import math

import gramme
from gramme.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from gramme.distributions.counts import Binomial, Poisson
from gramme.distributions.discrete import Bernoulli, Categorical, Geometric
from gramme.distributions.distribution import Independent, sum_last
from gramme.distributions.gamma import Beta, Dirichlet, Gamma
from gramme.distributions.derived import Pareto
from gramme.distributions.multivariate import MultivariateNormal
from gramme.distributions.transforms import TransformedDistribution
from gramme.nn.functional import softplus

_EULER = 0.57721566490153286
_ROWS = []  # (a class, another one, how far the second's distributions are from the first's)


def register_kl(type_p, type_q):
    """A decorator: the function says how far distributions of type_q are from those of type_p."""

    def enter(fn):
        _ROWS.append((type_p, type_q, fn))
        return fn

    return enter


def _row_of(p, q):
    found = None
    for a, b, row in _ROWS:
        if type(p) is a and type(q) is b:
            return row
        if isinstance(p, a) and isinstance(q, b):
            found = row
    return found


def kl_divergence(p, q):
    """The divergence of q from p, for each of the batch: the mean, over p, of log p - log q.

    Of classes without a row of their own the last one counts that was registered for classes above
    them.
    """
    row = _row_of(p, q)
    if row is not None:
        return row(p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p, q):
    return _normal(p, q)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio - 1 - ratio.log())


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    return ((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio, away = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return (
        away - ratio.log() + ratio * _EULER + (gramme.lgamma(1 + ratio) - away).exp() - (1 + _EULER)
    )


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    outside = (q.low > p.low) | (q.high < p.high)
    return gramme.where(outside, float("inf"), ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Uniform, Normal)
def _uniform_normal(p, q):
    width, away = p.high - p.low, (p.high + p.low) / 2 - q.loc
    return (math.sqrt(2 * math.pi) * q.scale / width).log() + 0.5 * (
        width**2 / 12 + away**2
    ) / q.scale**2


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    return gramme.where(
        p.scale < q.scale, math.inf, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    )


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - gramme.log1p(-q.probs) / p.probs - q.logits


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "no formula for Binomials of which q has more trials than p: take the mean of "
            "p.log_prob(x) - q.log_prob(x) over draws of p"
        )
    each = p.probs * (p.logits - q.logits) + gramme.log1p(-p.probs) - gramme.log1p(-q.probs)
    return gramme.where(p.total_count > q.total_count, math.inf, p.total_count * each)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    return one + (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms = gramme.where(q.probs == 0, float("inf"), terms)
    return gramme.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + gramme.lgamma(b)
        - gramme.lgamma(a)
        + (a - b) * gramme.digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Exponential, Gamma)
def _exponential_gamma(p, q):
    ratio, b = q.rate / p.rate, q.concentration
    return -b * ratio.log() + ratio + gramme.lgamma(b) + b * _EULER - (1 + _EULER)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Beta, Beta)
def _beta(p, q):
    total = p.concentration1 + p.concentration0
    parts = [(p.concentration1, q.concentration1), (p.concentration0, q.concentration0)]
    return (
        q._log_norm()
        - p._log_norm()
        + sum((a - b) * (gramme.digamma(a) - gramme.digamma(total)) for a, b in parts)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    terms = (a - b) * (gramme.digamma(a) - gramme.digamma(a.sum(-1, keepdim=True)))
    return q._log_norm() - p._log_norm() + terms.sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p, q):
    n = p.event_shape[0]
    halves = q._half_log_det() - p._half_log_det()
    ratio = gramme.linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    away = gramme.linalg.solve_triangular(
        q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False
    ).squeeze(-1)
    return halves + 0.5 * ((ratio**2).sum((-2, -1)) + (away**2).sum(-1) - n)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL(p || q) of two Independent distributions whose events have as many dimensions"
        )
    return sum_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms:
        raise NotImplementedError(
            "KL(p || q) of two transformed distributions whose transforms are the same"
        )
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_last(kl_divergence(p.base_dist, q.base_dist), max(extra, 0))
