# SPDX-License-Identifier: Apache-2.0
"""Special functions under the names of torch.special; most of them are gramme's own by another
name."""

import math

import gramme
from gramme import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    polygamma,
    round,
    sinc,
    softmax,
    xlogy,
)
from gramme.autograd import Function
from gramme.python_functions import mvlgamma as multigammaln
from gramme.incomplete_gamma import gammainc, gammaincc

from gramme.polynomials import (
    chebyshev_polynomial_t, chebyshev_polynomial_u, chebyshev_polynomial_v, chebyshev_polynomial_w,
    hermite_polynomial_h, hermite_polynomial_he,
    laguerre_polynomial_l, legendre_polynomial_p, shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)  # fmt: skip

expit, gammaln, psi = gramme.sigmoid, gramme.lgamma, digamma
bessel_j0, bessel_j1, bessel_y0, bessel_y1 = (
    gramme._bessel_j0,
    gramme._bessel_j1,
    gramme._bessel_y0,
    gramme._bessel_y1,
)
erfcx, i0e, i1, i1e = gramme._erfcx, gramme._i0e, gramme._i1, gramme._i1e
modified_bessel_i0, modified_bessel_i1 = i0, i1

__all__ = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
    "chebyshev_polynomial_w", "hermite_polynomial_h",
    "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w",
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "digamma", "entr", "erf", "erfc", "erfcx",
    "erfinv", "exp2", "expit", "expm1",
    "gammainc", "gammaincc", "gammaln", "i0", "i0e", "i1", "i1e", "log1p", "log_ndtr",
    "log_softmax", "logit", "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "multigammaln",
    "ndtr", "ndtri",
    "polygamma", "psi", "round", "sinc", "softmax", "spherical_bessel_j0", "xlog1py", "xlogy",
    "zeta",
]  # fmt: skip


def _dtype_of(input):
    return input.dtype if input.is_floating_point() else gramme.get_default_dtype()


def entr(input):
    """-x log x: 0 at 0, -inf below.  The slope is -1 - log x: infinite at 0 and infinity, NaN
    below."""
    some, below, far = (input > 0) & (input < math.inf), input < 0, input == math.inf
    large = input < -1
    negative = gramme.where(
        large, 1 / gramme.where(large, input, -1.0), gramme.where(below, input, 1.0)
    )
    under = (negative - negative).sqrt() - math.inf  # the root of that 0 has no slope
    end = (
        gramme.where(some | below | far, 1.0, input) + 0.0
    ).sqrt()  # 0 with an infinite slope, or NaN
    over = -gramme.where(far, input, 0.0).exp()
    x = gramme.where(some, input, 1.0)
    return gramme.where(
        some, -x * x.log(), gramme.where(below, under, gramme.where(far, over, end))
    )


def _tail(t):
    """How much of the standard normal distribution is beyond t, t >= 1: exp (-t * t / 2) from a
    part of t whose square is exact and the rest, as the error of the whole square would count."""
    head = t.detach().to(gramme.float32).to(gramme.float64)
    return (
        erfcx(t * math.sqrt(0.5))
        * 0.5
        * (head * head * -0.5).exp()
        * ((t - head) * (t + head) * -0.5).exp()
    )


def _ndtr(x):
    size = x.abs()
    far, near = size > 1, gramme.where(size > 1, 0.0, x)
    tail = _tail(gramme.where(far, size, 1.0).clamp(max=40))  # 0 from there on
    return gramme.where(
        far, gramme.where(x > 0, 1 - tail, tail), 0.5 + 0.5 * erf(near * math.sqrt(0.5))
    )


def ndtr(input):
    """The standard normal distribution: how much of it is below input."""
    return _ndtr(input.to(gramme.float64)).to(_dtype_of(input))


def _log_ndtr(x):
    low, high = x < -1, x > 1
    left, right, rest = (
        gramme.where(low, x, -1.0),
        gramme.where(high, x, 1.0).clamp(max=40),
        gramme.where(low | high, 0.0, x),
    )
    by_left = (erfcx(left * -math.sqrt(0.5)) * 0.5).log() - left * left * 0.5
    return gramme.where(
        low,
        by_left,
        log1p(-gramme.where(high, _tail(right), 0.5 - 0.5 * erf(rest * math.sqrt(0.5)))),
    )


def log_ndtr(input):
    """The logarithm of ndtr (input), also where that is 0."""
    return _log_ndtr(input.to(gramme.float64)).to(_dtype_of(input))


class _Ndtri(Function):
    @staticmethod
    def forward(ctx, p):
        upper = p > 0.5
        q = gramme.where(upper, 1 - p, p)  # exact
        inside = q > 0
        logarithm = gramme.where(inside, q, 0.25).log()
        t = (-2 * logarithm).sqrt()
        # Abramowitz and Stegun, 26.2.23, to 4.5e-4; then Newton's method on the logarithm, which is
        # concave
        y = (2.515517 + t * (0.802853 + t * 0.010328)) / (
            1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
        ) - t
        for _ in range(3):
            slope = math.sqrt(2 / math.pi) / erfcx(y * -math.sqrt(0.5))
            y = y - (_log_ndtr(y) - logarithm) / slope
        central = erfinv(gramme.where(q > 0.25, 2 * q - 1, 0.0)) * math.sqrt(
            2
        )  # the difference is exact
        y = gramme.where(
            q > 0.25, central, gramme.where(inside, y, gramme.where(q == 0, -math.inf, math.nan))
        )
        y = gramme.where(upper, -y, y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (y * y * 0.5).exp() * math.sqrt(2 * math.pi)


def ndtri(input):
    """Its inverse: infinite at 0 and 1, NaN beyond."""
    return _Ndtri.apply(input.to(gramme.float64)).to(_dtype_of(input))


def spherical_bessel_j0(input):
    """sin (x) / x, and 1 at 0; 0 at an infinity."""
    return gramme.where(gramme.isinf(input), 0.0, sinc(input / math.pi))


def xlog1py(input, other):
    """input * log1p (other), and 0 where input is 0 and other is not NaN."""
    dtype = gramme.result_type(input, other)
    dtype = dtype if dtype.is_floating_point else gramme.get_default_dtype()
    wide = gramme.float32 if dtype.itemsize == 2 else dtype  # 16-bit floats are rounded once
    x, y = (
        v.to(wide) if isinstance(v, gramme.Tensor) else gramme.scalar_tensor(v, dtype=wide)
        for v in (input, other)
    )
    # Elsewhere the slope is that of the logarithm.
    none = (x == 0) & ((y <= -1) | (y == math.inf))
    return gramme.where(none, 0.0, x * log1p(gramme.where(none, 0.0, y)) + 0.0).to(dtype)


def _zeta(s, q, also=None, sign=0):
    """For 1 < s, and q > 0: the sum of its powers, and those of another one times sign, term by
    term: equal ones leave nothing."""
    endless = s > 300  # a power of 16 or more that no dtype holds
    finite = gramme.where(endless, 2.0, s)
    total = gramme.python_functions.tail_of_powers(finite, q + 16)
    if also is not None:
        total = total + sign * gramme.python_functions.tail_of_powers(finite, also + 16)
    total = gramme.where(endless, 0.0, total)
    for k in range(15, -1, -1):
        term = (q + k) ** -s
        total = total + (term if also is None else term + sign * (also + k) ** -s)
    return total


def zeta(input, other):
    """The sum of (other + k) ** -input, k = 0, 1 ..., for input > 1.  Infinite where input is 1, or
    above and other a whole number that is not above 0; NaN where input is below 1, and where input
    is no whole number and other below 0: then there are roots of negative numbers.
    """
    dtype = gramme.result_type(input, other)
    s, q = [
        v.to(gramme.float64)
        if isinstance(v, gramme.Tensor)
        else gramme.scalar_tensor(v, dtype=gramme.float64)
        for v in (input, other)
    ]
    whole = s == s.floor()
    pole = (s == 1) | ~(s <= 1) & (q <= 0) & (q == q.floor())
    left = (s > 1) & (q < 0) & whole & ~pole
    good = (s > 1) & (q > 0)
    # from q < 0 on: the terms left of 0 are those of a sum from the distance to 0 on, without those
    # beyond -q, and with the sign of their powers
    away = gramme.where(left, -q, 0.5)
    part = away - away.floor()
    power = gramme.where(left & (s < math.inf), s, 2.0)
    sign = 1 - 2 * (power % 2)
    below = _zeta(power, 1 - part, part, sign) - sign * _zeta(power, 1 + away)
    total = gramme.where(
        good,
        _zeta(gramme.where(good, s, 2.0), gramme.where(good, q, 1.0)),
        gramme.where(left, below, math.nan),
    )
    total = gramme.where(pole | left & (s == math.inf), math.inf, total)
    return total.to(dtype if dtype.is_floating_point else gramme.get_default_dtype())
