# SPDX-License-Identifier: Apache-2.0
"""Comparisons whose result is a Python bool, or that need tolerances."""


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other|, elementwise; infinities are close to themselves only."""
    near = ((input - other).abs() <= atol + rtol * other.abs()).logical_and(other.isfinite())
    result = near.logical_or(input == other)
    return result.logical_or(input.isnan().logical_and(other.isnan())) if equal_nan else result


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
