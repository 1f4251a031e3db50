# SPDX-License-Identifier: Apache-2.0
"""Functions with an inverse and a derivative, and the distributions of what they make of others'
draws."""

import math

import gramme
from gramme import Size
from gramme.distributions import constraints
from gramme.distributions.distribution import Distribution, sum_last
from gramme.nn.functional import pad, softplus


class Transform:
    """y = transform (x), from domain to codomain; inv gives the way back; log_abs_det_jacobian (x,
    y): the logarithm of how much it stretches, for each event of event_dim dimensions, those of the
    domain."""

    bijective = True
    domain = codomain = constraints.real

    def __init__(self, cache_size=0):
        pass

    @property
    def event_dim(self):
        return self.domain.event_dim

    @property
    def inv(self):
        return _Inverse(self)

    @property
    def sign(self):
        """1 where it grows with x, -1 where it falls."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    def log_abs_det_jacobian(self, x, y):
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian()")

    def forward_shape(self, shape):
        return shape

    def inverse_shape(self, shape):
        return shape

    def __call__(self, x):
        return self._call(x)

    def __eq__(self, other):
        if type(self) is not type(other) or vars(self).keys() != vars(other).keys():
            return False
        pairs = [(value, vars(other)[name]) for name, value in vars(self).items()]
        return all(
            [
                a is b
                or (
                    not isinstance(a, gramme.Tensor) and not isinstance(b, gramme.Tensor) and a == b
                )
                for a, b in pairs
            ]
        )

    __hash__ = object.__hash__

    def __repr__(self):
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, of):
        self.of, self.domain, self.codomain, self.bijective = (
            of,
            of.codomain,
            of.domain,
            of.bijective,
        )

    @property
    def inv(self):
        return self.of

    @property
    def sign(self):
        return self.of.sign

    def forward_shape(self, shape):
        return self.of.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self.of.forward_shape(shape)

    def _call(self, y):
        return self.of._inverse(y)

    def _inverse(self, x):
        return self.of._call(x)

    def log_abs_det_jacobian(self, y, x):
        return -self.of.log_abs_det_jacobian(x, y)


class ExpTransform(Transform):
    codomain, sign = constraints.positive, 1

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class SigmoidTransform(Transform):
    codomain, sign = constraints.unit_interval, 1

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
    codomain, sign = constraints.interval(-1.0, 1.0), 1

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        return 2 * (math.log(2) - x - softplus(-2 * x))  # 1 - tanh^2, which cancels for a large x


class AffineTransform(Transform):
    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        self.loc, self.scale = loc, scale
        self.domain = self.codomain = (
            constraints.independent(constraints.real, event_dim) if event_dim else constraints.real
        )

    @property
    def sign(self):
        return (
            self.scale.sign()
            if isinstance(self.scale, gramme.Tensor)
            else 1
            if self.scale > 0
            else -1
            if self.scale < 0
            else 0
        )

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        scale = (
            self.scale if isinstance(self.scale, gramme.Tensor) else gramme.full_like(x, self.scale)
        )
        return sum_last(scale.abs().log().expand(x.shape), self.event_dim)


class PowerTransform(Transform):
    domain = codomain = constraints.positive

    @property
    def sign(self):
        return (
            self.exponent.sign()
            if isinstance(self.exponent, gramme.Tensor)
            else 1
            if self.exponent > 0
            else -1
        )

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

    def _dim(self, parts, of, to):
        """Of events before the first of the parts, such that each has its own."""
        dim = getattr(parts[-1], to).event_dim if parts else 0
        for part in reversed(parts):
            dim = max(
                dim + getattr(part, of).event_dim - getattr(part, to).event_dim,
                getattr(part, of).event_dim,
            )
        return dim

    def _widened(self, constraint, dim):
        return (
            constraints.independent(constraint, dim - constraint.event_dim)
            if dim > constraint.event_dim
            else constraint
        )

    @property
    def domain(self):
        first = self.parts[0].domain if self.parts else constraints.real
        return self._widened(first, self._dim(self.parts, "domain", "codomain"))

    @property
    def codomain(self):
        last = self.parts[-1].codomain if self.parts else constraints.real
        return self._widened(last, self._dim(self.parts[::-1], "codomain", "domain"))

    @property
    def bijective(self):
        return all([part.bijective for part in self.parts])

    @property
    def sign(self):
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self):
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def _call(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y):
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return gramme.zeros_like(x)
        total, dim = 0, self.domain.event_dim
        for part in self.parts:
            z = part(x)
            total = total + sum_last(part.log_abs_det_jacobian(x, z), dim - part.domain.event_dim)
            dim = dim + part.codomain.event_dim - part.domain.event_dim
            x = z
        return total


identity_transform = ComposeTransform([])


class AbsTransform(Transform):
    """|x|; of the two ways back, the positive number."""

    codomain, bijective = constraints.nonnegative, False

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class SoftplusTransform(Transform):
    """log (1 + exp (x))."""

    codomain, sign = constraints.positive, 1

    def _call(self, x):
        return softplus(x)

    def _inverse(self, y):
        return (-gramme.expm1(-y)).log() + y

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x)


class SoftmaxTransform(Transform):
    """Vectors to those that add up to 1; the way back is one of many."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, False

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(Transform):
    """Vectors of n numbers to those of n + 1 that add up to 1: each number takes its part of what
    is left."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _offset(self, x):
        n = x.shape[-1]
        return (n - gramme.arange(n, device=x.device)).to(x.dtype).log()

    def _call(self, x):
        info = gramme.finfo(x.dtype)
        part = (x - self._offset(x)).sigmoid().clamp(info.tiny, 1 - info.eps)
        return pad(part, (0, 1), value=1.0) * pad((1 - part).cumprod(-1), (1, 0), value=1.0)

    def _inverse(self, y):
        front = y[..., :-1]
        left = (1 - front.cumsum(-1)).clamp(min=gramme.finfo(y.dtype).tiny)
        return front.log() - left.log() + self._offset(front)

    def log_abs_det_jacobian(self, x, y):
        x = x - self._offset(x)
        return (y[..., :-1].log() - softplus(x)).sum(-1)

    def forward_shape(self, shape):
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape):
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """Square matrices to lower triangles with a positive diagonal."""

    domain, codomain, bijective = (
        constraints.independent(constraints.real, 2),
        constraints.lower_cholesky,
        False,
    )

    def _call(self, x):
        return x.tril(-1) + gramme.diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y):
        return y.tril(-1) + gramme.diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """Square matrices to positive-definite ones: L L^T, L as LowerCholeskyTransform gives it."""

    domain, codomain, bijective = (
        constraints.independent(constraints.real, 2),
        constraints.positive_definite,
        False,
    )

    def _call(self, x):
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(gramme.linalg.cholesky(y))


class CumulativeDistributionTransform(Transform):
    """A distribution's own function: of its draws it makes uniform ones."""

    codomain, sign = constraints.unit_interval, 1

    def __init__(self, distribution, cache_size=0):
        self.distribution = distribution

    @property
    def domain(self):
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


class ReshapeTransform(Transform):
    """Events of the shape in_shape to those of out_shape."""

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                "ReshapeTransform: in_shape and out_shape have different numbers of elements"
            )
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x):
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y):
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x, y):
        return gramme.zeros(
            tuple(x.shape[: x.dim() - len(self.in_shape)]), dtype=x.dtype, device=x.device
        )

    def forward_shape(self, shape):
        return (*shape[: len(shape) - len(self.in_shape)], *self.out_shape)

    def inverse_shape(self, shape):
        return (*shape[: len(shape) - len(self.out_shape)], *self.in_shape)


class IndependentTransform(Transform):
    """A transform of events with so many dimensions more: their logarithms are added."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        self.base_transform, self.reinterpreted_batch_ndims = (
            base_transform,
            reinterpreted_batch_ndims,
        )
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    @property
    def bijective(self):
        return self.base_transform.bijective

    @property
    def sign(self):
        return self.base_transform.sign

    def _call(self, x):
        return self.base_transform(x)

    def _inverse(self, y):
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return sum_last(
            self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims
        )

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)


class _Several(Transform):
    """Each part of a tensor along dim by a transform of its own; subclasses say how it is cut and
    put together."""

    def __init__(self, tseq, dim=0, cache_size=0):
        self.transforms, self.dim = list(tseq), dim
        self.domain = self.codomain = constraints.independent(
            constraints.real, max([t.event_dim for t in self.transforms])
        )

    @property
    def bijective(self):
        return all([t.bijective for t in self.transforms])

    def _each(self, *values):
        return zip(self.transforms, *[self._cut(v) for v in values])

    def _call(self, x):
        return self._join([t(part) for t, part in self._each(x)])

    def _inverse(self, y):
        return self._join([t.inv(part) for t, part in self._each(y)])

    def log_abs_det_jacobian(self, x, y):
        return self._join([t.log_abs_det_jacobian(a, b) for t, a, b in self._each(x, y)])


class StackTransform(_Several):
    """tseq[i] of what is at i along dim."""

    def _cut(self, v):
        return v.unbind(self.dim)

    def _join(self, parts):
        return gramme.stack(parts, self.dim)


class CatTransform(_Several):
    """tseq[i] of the next lengths[i] (None: 1 each) along dim."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    def _cut(self, v):
        return v.split(self.lengths, self.dim)

    def _join(self, parts):
        return gramme.cat(parts, self.dim)


class TransformedDistribution(Distribution):
    """Of transforms (x), where x is of base_distribution."""

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.base_dist, self.transforms = base_distribution, [transforms] if isinstance(
            transforms, Transform
        ) else list(transforms)
        whole, n_base = ComposeTransform(self.transforms), len(base_distribution.event_shape)
        shape = tuple(
            whole.forward_shape(
                tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
            )
        )
        n = whole.codomain.event_dim + max(n_base - whole.domain.event_dim, 0)
        super().__init__(shape[: len(shape) - n], shape[len(shape) - n :], validate_args)

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @property
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        last, n = self.transforms[-1].codomain, len(self._event_shape)
        return constraints.independent(last, n - last.event_dim) if n > last.event_dim else last

    def expand(self, batch_shape):
        base = self.base_dist
        shape = tuple(
            ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        )
        return TransformedDistribution(
            base.expand(shape[: len(shape) - len(base.event_shape)]), self.transforms, False
        )

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
        total, dim = 0, len(self._event_shape)
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            dim = dim + transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_last(
                transform.log_abs_det_jacobian(x, value), dim - transform.domain.event_dim
            )
            value = x
        return total + sum_last(
            self.base_dist.log_prob(value), dim - len(self.base_dist.event_shape)
        )

    def _turned(self, place):
        """A place in the distribution, seen from the other end where the transforms fall."""
        sign = ComposeTransform(self.transforms).sign
        return place if isinstance(sign, int) and sign == 1 else sign * (place - 0.5) + 0.5

    def cdf(self, value):
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._through(self.base_dist.icdf(self._turned(value)))
