# SPDX-License-Identifier: Apache-2.0
"""Distributions of events that can be counted.  Parameters are probabilities, or their logits; each
is computed of the other one."""

import gramme
from gramme import Size, Tensor
from gramme.distributions import constraints
from gramme.distributions.distribution import Distribution, broadcast
from gramme.nn.functional import binary_cross_entropy_with_logits


def _clamped(probs):
    eps = gramme.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def _one_of(name, probs, logits):
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: either probs or logits is to be given, and not both")


class _ByProbability(Distribution):
    """What has a probability for each event, or its logit, as `_param`."""

    @property
    def probs(self):
        return self._param if self._has_probs else self._param.sigmoid()

    @property
    def logits(self):
        if not self._has_probs:
            return self._param
        probs = _clamped(self._param)
        return probs.log() - gramme.log1p(-probs)

    @property
    def param_shape(self):
        return self._param.shape


class _Binary(_ByProbability):
    """One probability for each draw."""

    def __init__(self, probs=None, logits=None, validate_args=None):
        _one_of(type(self).__name__, probs, logits)
        (self._param,) = broadcast(logits if probs is None else probs)
        self._has_probs = probs is not None
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._has_probs:
            self._check("probs", probs, (self._param >= 0) & (self._param <= 1), "between 0 and 1")

    def expand(self, batch_shape):
        param = self._param.expand(batch_shape)
        return type(self)(param, None, False) if self._has_probs else type(self)(None, param, False)


class Bernoulli(_Binary):
    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        probs = self.probs
        return gramme.where(probs == 0.5, float("nan"), (probs >= 0.5).to(probs.dtype))

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        with gramme.no_grad():
            return gramme.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._check_value(value, (value == 0) | (value == 1), "0 or 1")
        logits, value = gramme.broadcast_tensors(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        values = gramme.arange(2, dtype=self._param.dtype, device=self._param.device).reshape(
            -1, *[1] * len(self._batch_shape)
        )
        return values.expand(2, *self._batch_shape) if expand else values


class Geometric(_Binary):
    """How often it failed before the first success."""

    support = constraints.nonnegative_integer

    @property
    def mean(self):
        return 1 / self.probs - 1

    @property
    def mode(self):
        return gramme.zeros_like(self.probs)

    @property
    def variance(self):
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape=Size()):
        probs = self.probs
        with gramme.no_grad():
            u = gramme.rand(
                self._extended_shape(sample_shape), dtype=probs.dtype, device=probs.device
            ).clamp(min=gramme.finfo(probs.dtype).tiny)
            return (u.log() / gramme.log1p(-probs)).floor()

    def log_prob(self, value):
        self._check_value(value, value >= 0, "not below 0")
        value, probs = gramme.broadcast_tensors(value, self.probs)
        probs = gramme.where((probs == 1) & (value == 0), 0.0, probs)
        return value * gramme.log1p(-probs) + self.probs.log()

    def entropy(self):
        return (
            binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
        )


class Categorical(Distribution):
    """0 .. n - 1; the last dimension of probs, which need not add up to 1, or of logits has n."""

    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        _one_of(type(self).__name__, probs, logits)
        given = logits if probs is None else probs
        if not isinstance(given, Tensor) or given.dim() < 1:
            raise ValueError(
                f"{type(self).__name__}: its parameter is to be a tensor of one dimension at least"
            )
        self._has_probs = probs is not None
        self._param = (
            probs / probs.sum(-1, keepdim=True)
            if self._has_probs
            else logits - logits.logsumexp(-1, keepdim=True)
        )
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], self._event_of(given), validate_args)
        if self._has_probs:
            self._check("probs", probs, probs >= 0, "not below 0")

    def _event_of(self, given):
        return ()

    def expand(self, batch_shape):
        param = self._param.expand(*batch_shape, self._num_events)
        return type(self)(param, None, False) if self._has_probs else type(self)(None, param, False)

    @property
    def probs(self):
        return self._param if self._has_probs else self._param.softmax(-1)

    @property
    def logits(self):
        return _clamped(self._param).log() if self._has_probs else self._param

    @property
    def param_shape(self):
        return self._param.shape

    @property
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self):
        return gramme.full(
            tuple(self._batch_shape),
            float("nan"),
            dtype=self._param.dtype,
            device=self._param.device,
        )

    @property
    def mode(self):
        return self._param.argmax(-1)

    @property
    def variance(self):
        return self.mean

    def _draw(self, sample_shape):
        shape = tuple(sample_shape) + tuple(self._batch_shape)
        with gramme.no_grad():
            n = 1
            for size in sample_shape:
                n = n * size
            drawn = gramme.multinomial(self.probs.reshape(-1, self._num_events), n, True)
            return drawn.t().reshape(shape)

    def sample(self, sample_shape=Size()):
        return self._draw(sample_shape)

    def _log_prob_of(self, value):
        value = value.long().unsqueeze(-1)
        value, logits = gramme.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def log_prob(self, value):
        self._check_value(
            value, (value >= 0) & (value < self._num_events), f"in 0 .. {self._num_events - 1}"
        )
        return self._log_prob_of(value)

    def entropy(self):
        logits = self.logits.clamp(min=gramme.finfo(self._param.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = gramme.arange(self._num_events, device=self._param.device).reshape(
            -1, *[1] * len(self._batch_shape)
        )
        return values.expand(self._num_events, *self._batch_shape) if expand else values


class OneHotCategorical(Categorical):
    """The same as vectors of 0 and a 1."""

    support = constraints.one_hot

    def _event_of(self, given):
        return given.shape[-1:]

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        return gramme.nn.functional.one_hot(self._param.argmax(-1), self._num_events).to(
            self._param.dtype
        )

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        return gramme.nn.functional.one_hot(self._draw(sample_shape), self._num_events).to(
            self._param.dtype
        )

    def enumerate_support(self, expand=True):
        n = self._num_events
        values = gramme.eye(n, dtype=self._param.dtype, device=self._param.device).reshape(
            n, *[1] * len(self._batch_shape), n
        )
        return values.expand(n, *self._batch_shape, n) if expand else values

    def log_prob(self, value):
        self._check_value(
            value, ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1), "a 1 among zeros"
        )
        return self._log_prob_of(value.argmax(-1))
