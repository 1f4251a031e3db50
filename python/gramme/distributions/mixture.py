# SPDX-License-Identifier: Apache-2.0
"""Mixtures of distributions of one kind."""

import gramme
from gramme import Size
from gramme.distributions.distribution import Distribution


class MixtureSameFamily(Distribution):
    """Component k of the last dimension of component_distribution's batch with the probability that
    the Categorical says."""

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        batch, event = tuple(component_distribution.batch_shape), component_distribution.event_shape
        if not batch or mixture_distribution.probs.shape[-1] != batch[-1]:
            raise ValueError(
                "MixtureSameFamily: the mixture has as many events as the last dimension of the "
                "components' batch"
            )
        self.mixture_distribution, self.component_distribution = (
            mixture_distribution,
            component_distribution,
        )
        super().__init__(batch[:-1], event, validate_args)

    def _beside(self, probs):
        return probs.reshape(*probs.shape, *[1] * len(self._event_shape))

    def _average(self, values):
        return (self._beside(self.mixture_distribution.probs) * values).sum(
            -1 - len(self._event_shape)
        )

    @property
    def mean(self):
        return self._average(self.component_distribution.mean)

    @property
    def variance(self):
        away = self.component_distribution.mean - self.mean.unsqueeze(-1 - len(self._event_shape))
        return self._average(self.component_distribution.variance) + self._average(away**2)

    @property
    def support(self):
        return self.component_distribution.support

    def expand(self, batch_shape):
        n = self.mixture_distribution.probs.shape[-1]
        return MixtureSameFamily(
            self.mixture_distribution.expand(batch_shape),
            self.component_distribution.expand((*batch_shape, n)),
            False,
        )

    def cdf(self, value):
        return (
            self.component_distribution.cdf(value.unsqueeze(-1)) * self.mixture_distribution.probs
        ).sum(-1)

    def log_prob(self, value):
        each = self.component_distribution.log_prob(value.unsqueeze(-1 - len(self._event_shape)))
        return (each + self.mixture_distribution.logits).logsumexp(-1)

    def sample(self, sample_shape=Size()):
        with gramme.no_grad():
            which, all = self.mixture_distribution.sample(
                sample_shape
            ), self.component_distribution.sample(sample_shape)
            dim = all.dim() - 1 - len(self._event_shape)
            which = self._beside(which.unsqueeze(-1)).expand(
                *all.shape[:dim], 1, *self._event_shape
            )
            return all.gather(dim, which).squeeze(dim)
