# SPDX-License-Identifier: Apache-2.0
"""What all distributions have, and Independent.

A distribution has a batch shape, of distributions side by side, and an event shape, of one draw.  A
sample's shape is what was asked for, then these two; log_prob() takes values of shapes that
broadcast with these two, and gives one number for each draw.
"""

import gramme
from gramme import Size, Tensor
from gramme.compiler import is_compiling
from gramme.distributions import constraints
from gramme.distributions.constraints import is_dependent


def broadcast(*values):
    """Tensors of one shape and dtype; a number gets the dtype of the tensors, or the default
    one."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    dtype = tensors[0].dtype if tensors else gramme.get_default_dtype()
    device = tensors[0].device if tensors else None
    return gramme.broadcast_tensors(
        *[
            v if isinstance(v, Tensor) else gramme.tensor(float(v), dtype=dtype, device=device)
            for v in values
        ]
    )


class Distribution:
    has_rsample = False
    has_enumerate_support = False
    arg_constraints = (
        {}
    )  # of a class of one's own: name: constraint of that attribute, if it is set before __init__ is called here
    _validate_by_default = True

    @classmethod
    def set_default_validate_args(cls, value):
        Distribution._validate_by_default = bool(value)

    @property
    def support(self):
        raise NotImplementedError(f"{type(self).__name__} has no support")

    @property
    def mode(self):
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    def __init__(self, batch_shape=Size(), event_shape=Size(), validate_args=None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        self._validate_args = (
            Distribution._validate_by_default and not is_compiling()
            if validate_args is None
            else validate_args
        )
        for name, constraint in self.arg_constraints.items():
            if self._validate_args and name in self.__dict__ and not is_dependent(constraint):
                self._check(
                    name,
                    getattr(self, name),
                    constraint.check(getattr(self, name)),
                    repr(constraint),
                )

    def expand(self, batch_shape):
        """The same distribution with this batch shape."""
        raise NotImplementedError(f"{type(self).__name__} has no expand()")

    def _validate_sample(self, value):
        """Raises for a value outside of the support, or that is no tensor."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        self._check("value", value, self.support.check(value), repr(self.support))

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
        """A draw as a function of the parameters and of numbers that do not depend on them:
        gradients flow to the parameters."""
        raise NotImplementedError(
            f"{type(self).__name__} has no rsample(): what it gives is no smooth function of its "
            "parameters"
        )

    def log_prob(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no log_prob()")

    def cdf(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no cdf()")

    def icdf(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no icdf()")

    def enumerate_support(self, expand=True):
        raise NotImplementedError(
            f"{type(self).__name__} has no enumerate_support(): its values cannot be counted"
        )

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
        return (
            f"{type(self).__name__}(batch_shape: {tuple(self._batch_shape)}, event_shape: "
            f"{tuple(self._event_shape)})"
        )


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
                f"Independent: reinterpreted_batch_ndims is {n}, but the distribution has "
                f"{len(base_distribution.batch_shape)} dimensions of batch"
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

    @property
    def has_enumerate_support(self):
        return self.base_dist.has_enumerate_support and self.reinterpreted_batch_ndims == 0

    @property
    def support(self):
        n = self.reinterpreted_batch_ndims
        return constraints.independent(self.base_dist.support, n) if n else self.base_dist.support

    def expand(self, batch_shape):
        inner = tuple(self._event_shape)[: self.reinterpreted_batch_ndims]
        return Independent(
            self.base_dist.expand((*batch_shape, *inner)), self.reinterpreted_batch_ndims, False
        )

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError(
                "Independent: enumerate_support() of events that are several numbers"
            )
        return self.base_dist.enumerate_support(expand)

    def sample(self, sample_shape=Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=Size()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)
