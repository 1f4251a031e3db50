# SPDX-License-Identifier: Apache-2.0
"""Comparisons whose result is a Python bool, or that need tolerances."""

from gramme._core import get_default_dtype


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other|, elementwise; infinities are close to
    themselves only.  Integers and bools are compared as numbers of the default dtype.  Errors:
    RuntimeError for a negative tolerance."""
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"tolerances are not negative, and these are rtol={rtol}, atol={atol}")
    result = input == other
    if equal_nan:
        result = result.logical_or(input.isnan().logical_and(other.isnan()))
    if rtol == 0 and atol == 0:
        return result
    if not input.is_floating_point():
        input = input.to(get_default_dtype())
    if not other.is_floating_point():
        other = other.to(get_default_dtype())
    near = ((input - other).abs() <= atol + rtol * other.abs()).logical_and(other.isfinite())
    return near.logical_or(result)


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether isclose() holds everywhere."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input, other):
    """Whether shapes and all elements are the same."""
    return input.shape == other.shape and bool((input == other).all())


def numel(input):
    """The number of elements."""
    return input.numel()


def is_floating_point(input):
    """Whether the dtype is a floating one."""
    return input.is_floating_point()
