# SPDX-License-Identifier: Apache-2.0
"""Distributions of events, made smooth so that gradients flow through their draws.

C. Maddison, A. Mnih, Y. Teh, "The concrete distribution" (2017); E. Jang, S. Gu, B. Poole,
"Categorical reparameterization with Gumbel-softmax" (2017).
"""

import math

import gramme
from gramme import Size
from gramme.distributions import constraints
from gramme.distributions.continuous import _open_uniform
from gramme.distributions.discrete import Categorical, OneHotCategorical, _Binary
from gramme.distributions.distribution import Distribution
from gramme.distributions.transforms import ExpTransform, SigmoidTransform, TransformedDistribution
from gramme.nn.functional import softplus


class LogitRelaxedBernoulli(_Binary):
    """The logits of a RelaxedBernoulli."""

    has_rsample = True
    support = constraints.real

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def expand(self, batch_shape):
        return LogitRelaxedBernoulli(self.temperature, None, self.logits.expand(batch_shape), False)

    def sample(self, sample_shape=Size()):
        with gramme.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        u = _open_uniform(self._extended_shape(sample_shape), self._param)
        return (u.log() - gramme.log1p(-u) + self.logits) / self.temperature

    def log_prob(self, value):
        away = self.logits - value * self.temperature
        return (
            gramme.log(gramme.as_tensor(self.temperature, dtype=away.dtype))
            + away
            - 2 * softplus(away)
        )


class _Relaxed(TransformedDistribution):
    """Its parameters are those of what it is made of."""

    @property
    def temperature(self):
        return self.base_dist.temperature

    @property
    def probs(self):
        return self.base_dist.probs

    @property
    def logits(self):
        return self.base_dist.logits


class RelaxedBernoulli(_Relaxed):
    """Between 0 and 1, nearer to them the lower the temperature."""

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits, validate_args),
            SigmoidTransform(),
            validate_args,
        )


class ExpRelaxedCategorical(Distribution):
    """The logarithms of a RelaxedOneHotCategorical."""

    has_rsample = True
    support = constraints.real_vector

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature, self._categorical = temperature, Categorical(probs, logits, validate_args)
        super().__init__(
            self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args
        )

    def expand(self, batch_shape):
        return ExpRelaxedCategorical(
            self.temperature, None, self.logits.expand(*batch_shape, self._event_shape[0]), False
        )

    @property
    def probs(self):
        return self._categorical.probs

    @property
    def logits(self):
        return self._categorical.logits

    def rsample(self, sample_shape=Size()):
        gumbels = -(-_open_uniform(self._extended_shape(sample_shape), self.logits).log()).log()
        return ((self.logits + gumbels) / self.temperature).log_softmax(-1)

    def log_prob(self, value):
        n, t = self._event_shape[0], gramme.as_tensor(self.temperature, dtype=value.dtype)
        score = (self.logits - value * t).log_softmax(-1).sum(-1)
        return score + math.lgamma(n) + (n - 1) * t.log()


class RelaxedOneHotCategorical(_Relaxed):
    """Vectors that add up to 1, nearer to a 1 among zeros the lower the temperature."""

    support = constraints.simplex

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(
            ExpRelaxedCategorical(temperature, probs, logits, validate_args),
            ExpTransform(),
            validate_args,
        )


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical, through whose draws the probabilities' gradients flow as if they were
    those."""

    has_rsample = True

    def rsample(self, sample_shape=Size()):
        drawn, probs = self.sample(sample_shape), self.probs
        return drawn + (probs - probs.detach())
