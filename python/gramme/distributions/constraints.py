# SPDX-License-Identifier: Apache-2.0
"""Where values lie: a constraint's check (value) gives, for each event of event_dim dimensions,
whether it holds."""

import gramme


class Constraint:
    event_dim = 0
    is_discrete = False

    def check(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no check()")

    def __repr__(self):
        return f"{type(self).__name__}()"


class _Where(Constraint):
    """Of each element by itself, or of each event as a whole."""

    def __init__(self, name, check, event_dim=0, is_discrete=False):
        self.name, self.check, self.event_dim, self.is_discrete = (
            name,
            check,
            event_dim,
            is_discrete,
        )

    def __repr__(self):
        return self.name


class _Between(Constraint):
    """From a lower bound to an upper one; either may be None, and may be among the values or
    not."""

    def __init__(self, lower_bound=None, upper_bound=None, closed=(True, True), is_discrete=False):
        self.lower_bound, self.upper_bound, self.closed, self.is_discrete = (
            lower_bound,
            upper_bound,
            closed,
            is_discrete,
        )

    def check(self, value):
        good = value == value
        if self.is_discrete:
            good = good & (value % 1 == 0)
        if self.lower_bound is not None:
            good = good & (
                value >= self.lower_bound if self.closed[0] else value > self.lower_bound
            )
        if self.upper_bound is not None:
            good = good & (
                value <= self.upper_bound if self.closed[1] else value < self.upper_bound
            )
        return good

    def __repr__(self):
        return f"between({self.lower_bound}, {self.upper_bound})"


class _Independent(Constraint):
    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        self.base_constraint, self.reinterpreted_batch_ndims = (
            base_constraint,
            reinterpreted_batch_ndims,
        )
        self.event_dim, self.is_discrete = (
            base_constraint.event_dim + reinterpreted_batch_ndims,
            base_constraint.is_discrete,
        )

    def check(self, value):
        good = self.base_constraint.check(value)
        for _ in range(self.reinterpreted_batch_ndims):
            good = good.all(-1)
        return good

    def __repr__(self):
        return f"independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Dependent(Constraint):
    """Of what an instance's parameters say; asked for of a class."""


class dependent_property(property, _Dependent):
    """A constraint that is a property: of the class, it is_dependent."""

    def __init__(self, fn=None, *, is_discrete=False, event_dim=0):
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint):
    return isinstance(constraint, _Dependent)


def _is_lower(value):
    return (value.tril() == value).all(-1).all(-1)


def _is_symmetric(value):
    return gramme.isclose(value, value.mT, atol=1e-6).all(-1).all(-1)


dependent = _Dependent()
real = _Where("real", lambda value: value == value)
boolean = _Where("boolean", lambda value: (value == 0) | (value == 1), is_discrete=True)
one_hot = _Where(
    "one_hot", lambda value: ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1), 1, True
)
simplex = _Where(
    "simplex", lambda value: (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6), 1
)
square = _Where(
    "square",
    lambda value: gramme.full(tuple(value.shape[:-2]), value.shape[-2] == value.shape[-1]),
    2,
)
symmetric = _Where("symmetric", _is_symmetric, 2)
lower_triangular = _Where("lower_triangular", _is_lower, 2)
lower_cholesky = _Where(
    "lower_cholesky",
    lambda value: _is_lower(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1),
    2,
)
corr_cholesky = _Where(
    "corr_cholesky",
    lambda value: lower_cholesky.check(value) & (((value**2).sum(-1) - 1).abs() < 1e-4).all(-1),
    2,
)
positive_definite = _Where(
    "positive_definite",
    lambda value: _is_symmetric(value) & (gramme.linalg.cholesky_ex(value).info == 0),
    2,
)
positive_semidefinite = _Where(
    "positive_semidefinite",
    lambda value: _is_symmetric(value) & (gramme.linalg.eigvalsh(value) >= 0).all(-1),
    2,
)
real_vector = _Independent(real, 1)
positive = _Between(0, closed=(False, False))
nonnegative = _Between(0)
unit_interval = _Between(0, 1)
nonnegative_integer = _Between(0, is_discrete=True)
positive_integer = _Between(1, is_discrete=True)
independent = _Independent


def integer_interval(lower_bound, upper_bound):
    return _Between(lower_bound, upper_bound, is_discrete=True)


def interval(lower_bound, upper_bound):
    return _Between(lower_bound, upper_bound)


def half_open_interval(lower_bound, upper_bound):
    return _Between(lower_bound, upper_bound, (True, False))


def greater_than(lower_bound):
    return _Between(lower_bound, closed=(False, False))


def greater_than_eq(lower_bound):
    return _Between(lower_bound)


def less_than(upper_bound):
    return _Between(None, upper_bound, (False, False))


def multinomial(upper_bound):
    return _Where(
        "multinomial", lambda value: (value >= 0).all(-1) & (value.sum(-1) <= upper_bound), 1, True
    )
