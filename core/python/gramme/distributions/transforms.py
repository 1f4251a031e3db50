# SPDX-License-Identifier: Apache-2.0
"""Functions with an inverse and a derivative, and the distributions of what they make of others' draws."""

import math

import gramme
from gramme import Size
from gramme.distributions.distribution import Distribution, sum_last
from gramme.nn.functional import softplus


class Transform:
    """y = transform (x); inv gives the way back; log_abs_det_jacobian (x, y): the logarithm of how much it stretches, for each event of
    event_dim dimensions."""

    event_dim = 0

    def __init__(self, cache_size=0):
        pass

    @property
    def inv(self):
        return _Inverse(self)

    def __call__(self, x):
        return self._call(x)

    def __repr__(self):
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, of):
        self.of, self.event_dim = of, of.event_dim

    @property
    def inv(self):
        return self.of

    def _call(self, y):
        return self.of._inverse(y)

    def _inverse(self, x):
        return self.of._call(x)

    def log_abs_det_jacobian(self, y, x):
        return -self.of.log_abs_det_jacobian(x, y)


class ExpTransform(Transform):
    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class SigmoidTransform(Transform):
    def _call(self, x):
        info = gramme.finfo(x.dtype)
        return x.sigmoid().clamp(info.tiny, 1 - info.eps)

    def _inverse(self, y):
        info = gramme.finfo(y.dtype)
        y = y.clamp(info.tiny, 1 - info.eps)
        return y.log() - gramme.log1p(-y)

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        return 2 * (math.log(2) - x - softplus(-2 * x))  # 1 - tanh^2, which cancels for a large x


class AffineTransform(Transform):
    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        scale = self.scale if isinstance(self.scale, gramme.Tensor) else gramme.full_like(x, self.scale)
        return sum_last(scale.abs().log().expand(x.shape), self.event_dim)


class PowerTransform(Transform):
    def __init__(self, exponent, cache_size=0):
        self.exponent = exponent

    def _call(self, x):
        return x**self.exponent

    def _inverse(self, y):
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()


class ComposeTransform(Transform):
    """One after the other."""

    def __init__(self, parts, cache_size=0):
        self.parts = list(parts)
        self.event_dim = max([part.event_dim for part in self.parts], default=0)

    @property
    def inv(self):
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def _call(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y):
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        total = 0
        for part in self.parts:
            z = part(x)
            total = total + sum_last(part.log_abs_det_jacobian(x, z), self.event_dim - part.event_dim)
            x = z
        return total


class TransformedDistribution(Distribution):
    """Of transforms (x), where x is of base_distribution."""

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.base_dist, self.transforms = base_distribution, [transforms] if isinstance(transforms, Transform) else list(transforms)
        shape = tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
        n = max([len(base_distribution.event_shape)] + [t.event_dim for t in self.transforms])
        super().__init__(shape[: len(shape) - n], shape[len(shape) - n :], validate_args)

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    def _through(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape=Size()):
        with gramme.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=Size()):
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        total, n = 0, len(self._event_shape)
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            total = total - sum_last(transform.log_abs_det_jacobian(x, value), n - transform.event_dim)
            value = x
        return total + sum_last(self.base_dist.log_prob(value), n - len(self.base_dist.event_shape))
