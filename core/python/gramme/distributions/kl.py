# SPDX-License-Identifier: Apache-2.0
"""The Kullback-Leibler divergence of one distribution from another, by a table of pairs of classes."""

import gramme
from gramme.distributions.continuous import Exponential, Laplace, Normal, Uniform
from gramme.distributions.discrete import Bernoulli, Categorical
from gramme.distributions.distribution import Independent, sum_last
from gramme.distributions.gamma import Beta, Dirichlet, Gamma
from gramme.distributions.multivariate import MultivariateNormal
from gramme.nn.functional import softplus

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

    Of classes without a row of their own the last one counts that was registered for classes above them."""
    row = _row_of(p, q)
    if row is not None:
        return row(p, q)
    raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


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
    return b * (p.rate / q.rate).log() + gramme.lgamma(b) - gramme.lgamma(a) + (a - b) * gramme.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Beta, Beta)
def _beta(p, q):
    total = p.concentration1 + p.concentration0
    parts = [(p.concentration1, q.concentration1), (p.concentration0, q.concentration0)]
    return q._log_norm() - p._log_norm() + sum((a - b) * (gramme.digamma(a) - gramme.digamma(total)) for a, b in parts)


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
    away = gramme.linalg.solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False).squeeze(-1)
    return halves + 0.5 * ((ratio**2).sum((-2, -1)) + (away**2).sum(-1) - n)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL(p || q) of two Independent distributions whose events have as many dimensions")
    return sum_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
