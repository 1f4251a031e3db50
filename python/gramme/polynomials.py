# SPDX-License-Identifier: Apache-2.0
"""Orthogonal polynomials by their recurrences, which are gradients' too.  Abramowitz and Stegun,
chapter 22.

The order n is an int, or a tensor of them that broadcasts with input.  Orders below 0 give 0."""

import gramme


def _orders(input, n, first, step):
    """first (x): the polynomial of order 1; step (k, x, p, q): that of order k + 1 of those of
    orders k - 1 and k."""
    x = input if isinstance(input, gramme.Tensor) else gramme.scalar_tensor(input)
    x = x if x.is_floating_point() else x.to(gramme.get_default_dtype())
    many = isinstance(n, gramme.Tensor)
    most = int(n.max()) if many and n.numel() else 0 if many else int(n)
    if not many and most < 0:
        return gramme.zeros_like(x)
    p, q = gramme.ones_like(x), first(x)
    if not many:
        for k in range(1, most):
            p, q = q, step(k, x, p, q)
        return q if most else p
    n = n.to(gramme.int64)
    found = gramme.where(n == 0, p, gramme.zeros_like(p))
    for k in range(1, most + 1):
        found = gramme.where(n == k, q, found)
        p, q = q, step(k, x, p, q)
    return found


def _twice(k, x, p, q):
    return 2 * x * q - p


def chebyshev_polynomial_t(input, n):
    """Chebyshev's polynomial of the first kind: cos (n acos (x))."""
    return _orders(input, n, lambda x: x * 1, _twice)


def chebyshev_polynomial_u(input, n):
    """Chebyshev's polynomial of the second kind."""
    return _orders(input, n, lambda x: 2 * x, _twice)


def chebyshev_polynomial_v(input, n):
    """Chebyshev's polynomial of the third kind."""
    return _orders(input, n, lambda x: 2 * x - 1, _twice)


def chebyshev_polynomial_w(input, n):
    """Chebyshev's polynomial of the fourth kind."""
    return _orders(input, n, lambda x: 2 * x + 1, _twice)


def shifted_chebyshev_polynomial_t(input, n):
    """chebyshev_polynomial_t (2 x - 1, n)."""
    return chebyshev_polynomial_t(2 * input - 1, n)


def shifted_chebyshev_polynomial_u(input, n):
    """chebyshev_polynomial_u (2 x - 1, n)."""
    return chebyshev_polynomial_u(2 * input - 1, n)


def shifted_chebyshev_polynomial_v(input, n):
    """chebyshev_polynomial_v (2 x - 1, n)."""
    return chebyshev_polynomial_v(2 * input - 1, n)


def shifted_chebyshev_polynomial_w(input, n):
    """chebyshev_polynomial_w (2 x - 1, n)."""
    return chebyshev_polynomial_w(2 * input - 1, n)


def hermite_polynomial_h(input, n):
    """The physicists' Hermite polynomial."""
    return _orders(input, n, lambda x: 2 * x, lambda k, x, p, q: 2 * x * q - 2 * k * p)


def hermite_polynomial_he(input, n):
    """The probabilists' Hermite polynomial."""
    return _orders(input, n, lambda x: x * 1, lambda k, x, p, q: x * q - k * p)


def laguerre_polynomial_l(input, n):
    """Laguerre's polynomial."""
    return _orders(
        input, n, lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * q - k * p) / (k + 1)
    )


def legendre_polynomial_p(input, n):
    """Legendre's polynomial."""
    return _orders(
        input, n, lambda x: x * 1, lambda k, x, p, q: ((2 * k + 1) * x * q - k * p) / (k + 1)
    )
