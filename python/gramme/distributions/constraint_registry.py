# SPDX-License-Identifier: Apache-2.0
"""From all numbers to where a constraint holds: biject_to (constraint) is a transform with an
inverse, transform_to (constraint) may be simpler.
"""

from gramme.distributions import constraints as C
from gramme.distributions import transforms as T


class ConstraintRegistry:
    """registry (constraint): what was registered for it, or for its class."""

    def __init__(self, name):
        self.name, self.rows = name, []

    def register(self, constraint, factory=None):
        """factory (constraint) gives the transform; without it, a decorator."""

        def enter(fn):
            self.rows.append((constraint, fn))
            return fn

        return enter if factory is None else enter(factory)

    def __call__(self, constraint):
        for known, factory in reversed(self.rows):
            if known is constraint or isinstance(known, type) and isinstance(constraint, known):
                return factory(constraint)
        raise NotImplementedError(f"{self.name}: there is no transform to {constraint!r}")


biject_to, transform_to = ConstraintRegistry("biject_to"), ConstraintRegistry("transform_to")


def _between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if constraint.is_discrete or (low is None and high is None):
        raise NotImplementedError(f"there is no transform to {constraint!r}")
    if high is None:
        return (
            T.ExpTransform()
            if isinstance(low, int) and low == 0
            else T.ComposeTransform([T.ExpTransform(), T.AffineTransform(low, 1)])
        )
    if low is None:
        return T.ComposeTransform([T.ExpTransform(), T.AffineTransform(high, -1)])
    unit = isinstance(low, int) and isinstance(high, int) and (low, high) == (0, 1)
    return (
        T.SigmoidTransform()
        if unit
        else T.ComposeTransform([T.SigmoidTransform(), T.AffineTransform(low, high - low)])
    )


for registry in (biject_to, transform_to):
    registry.register(C.real, lambda constraint: T.identity_transform)
    registry.register(type(C.positive), _between)
    registry.register(C.lower_cholesky, lambda constraint: T.LowerCholeskyTransform())
    registry.register(C.positive_definite, lambda constraint: T.PositiveDefiniteTransform())
biject_to.register(C.simplex, lambda constraint: T.StickBreakingTransform())
transform_to.register(C.simplex, lambda constraint: T.SoftmaxTransform())


@biject_to.register(C.independent)
def _biject_to_independent(constraint):
    return T.IndependentTransform(
        biject_to(constraint.base_constraint), constraint.reinterpreted_batch_ndims
    )


@transform_to.register(C.independent)
def _transform_to_independent(constraint):
    return T.IndependentTransform(
        transform_to(constraint.base_constraint), constraint.reinterpreted_batch_ndims
    )
