# SPDX-License-Identifier: Apache-2.0
"""What all distributions have, and Independent.

A distribution has a batch shape, of distributions side by side, and an event shape, of one draw.  A sample's shape is what was asked for, then
these two; log_prob() takes values of shapes that broadcast with these two, and gives one number for each draw.
"""

import gramme
from gramme import Size, Tensor
from gramme.compiler import is_compiling


def broadcast(*values):
    """Tensors of one shape and dtype; a number gets the dtype of the tensors, or the default one."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    dtype = tensors[0].dtype if tensors else gramme.get_default_dtype()
    device = tensors[0].device if tensors else None
    return gramme.broadcast_tensors(*[v if isinstance(v, Tensor) else gramme.tensor(float(v), dtype=dtype, device=device) for v in values])


class Distribution:
    has_rsample = False
    has_enumerate_support = False

    def __init__(self, batch_shape=Size(), event_shape=Size(), validate_args=None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        self._validate_args = not is_compiling() if validate_args is None else validate_args

    def _check(self, name, value, good, what):
        if self._validate_args and not bool(good.all()):
            raise ValueError(f"{type(self).__name__}: {name} is to be {what}, but is {value}")

    def _check_value(self, value, good, what):
        if self._validate_args and not is_compiling() and not bool(good.all()):
            raise ValueError(f"{type(self).__name__}: the value is to be {what}, but is {value}")

    @property
    def batch_shape(self):
        return self._batch_shape

    @property
    def event_shape(self):
        return self._event_shape

    def _extended_shape(self, sample_shape=Size()):
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def sample(self, sample_shape=Size()):
        """A draw, or many, that no gradient flows through."""
        with gramme.no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n):
        return self.sample(Size((n,)))

    def rsample(self, sample_shape=Size()):
        """A draw as a function of the parameters and of numbers that do not depend on them: gradients flow to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample(): what it gives is no smooth function of its parameters")

    def log_prob(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no log_prob()")

    def cdf(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no cdf()")

    def icdf(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no icdf()")

    def entropy(self):
        raise NotImplementedError(f"{type(self).__name__} has no entropy()")

    def perplexity(self):
        return self.entropy().exp()

    @property
    def mean(self):
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def variance(self):
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self):
        return self.variance.sqrt()

    def __repr__(self):
        return f"{type(self).__name__}(batch_shape: {tuple(self._batch_shape)}, event_shape: {tuple(self._event_shape)})"


def sum_last(value, n):
    """Over the last n dimensions."""
    return value.sum(tuple(range(-n, 0))) if n else value


class Independent(Distribution):
    """The last dimensions of the batch of another one as one event: their logarithms are added."""

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        n = reinterpreted_batch_ndims
        shape = tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
        keep = len(base_distribution.batch_shape) - n
        if keep < 0:
            raise ValueError(
                f"Independent: reinterpreted_batch_ndims is {n}, but the distribution has {len(base_distribution.batch_shape)} dimensions of batch"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, n
        super().__init__(shape[:keep], shape[keep:], validate_args)

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @property
    def mean(self):
        return self.base_dist.mean

    @property
    def mode(self):
        return self.base_dist.mode

    @property
    def variance(self):
        return self.base_dist.variance

    def sample(self, sample_shape=Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=Size()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)
