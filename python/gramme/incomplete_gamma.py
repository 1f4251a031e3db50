# SPDX-License-Identifier: Apache-2.0
"""The incomplete gamma functions, and how a gamma variable moves with its parameter.

The integrals over t of t ** (a - 1) exp (-t), from 0 to x and from x on, are x ** a exp (-x) times
those over w > 0 of exp (-g (w)), g (w) = x (exp (s w) - 1) - s a w, where t = x exp (s w) and s is
-1 and 1.  The derivative in a brings the factor log t - digamma (a).  On the side of exp (digamma
(a)) that x is on it has one sign: nothing cancels, and g is convex.  Gauss and Legendre's formula
is exact to the precision of float64 there, up to where exp (-g) is below it.  Where a and x are
below 1 there are power series instead. All is computed in float64 and rounded once.
"""

import math

import gramme
from gramme.autograd import Function

_SERIES = 18  # 1 / 18! is below the precision
_DEPTH = 40.0  # exp (-40) as well

# Gauss and Legendre's formula with 48 places on (-1, 1), Abramowitz and Stegun, 25.4.29: the places
# above 0, which have mirror images below, and for each half of its weight.  Written out, since
# finding them takes longer than the rest of `import gramme`.
_RULE = (
    (0.9987710072524261, 0.0015766730261529192), (0.9935301722663508, 0.0036637769506381312),
    (0.9841245837228269, 0.00573861728961727), (0.9705915925462473, 0.007789657861471924),
    (0.9529877031604309, 0.009808080228677764), (0.9313866907065543, 0.01178538041966219),
    (0.9058791367155696, 0.013713254854178474), (0.8765720202742479, 0.015583613916399045),
    (0.8435882616243935, 0.01738861128238522), (0.8070662040294426, 0.019120675532915354),
    (0.7671590325157404, 0.020772541471732374), (0.7240341309238146, 0.02233728042834714),
    (0.6778723796326639, 0.02380832924624524), (0.6288673967765136, 0.025179517776927236),
    (0.5772247260839727, 0.026445094742596834), (0.523160974722233, 0.027599751849992082),
    (0.4669029047509584, 0.028638646050201607), (0.4086864819907167, 0.029557419849197818),
    (0.34875588629216075, 0.03035221958294694), (0.28736248735545555, 0.031019711579946332),
    (0.22476379039468905, 0.03155709614312701), (0.1612223560688917, 0.03196211929232409),
    (0.0970046992094627, 0.032233082217975044), (0.03238017096286936, 0.03236884840634196),
)  # fmt: skip
_PLACES = [(1 + x) / 2 for x, _ in _RULE] + [(1 - x) / 2 for x, _ in reversed(_RULE)]
_WEIGHTS = [w for _, w in _RULE] + [w for _, w in reversed(_RULE)]


def _last_place(a, x, below):
    """A w where exp (-g) is about exp (-_DEPTH): from one beyond, by Newton's method, which stays
    beyond."""
    s, one = gramme.where(below, -1.0, 1.0), gramme.ones_like(x)
    near = (120 / x).sqrt()
    left = gramme.minimum((_DEPTH + x) / a, gramme.where(near < 1, near, math.inf)).minimum(
        _DEPTH / gramme.where(a > x, a - x, 1e-300)
    )
    right = gramme.minimum((1 + (1 + 80 * x).sqrt()) / x, gramme.log1p(80 / x) + 2)
    w = gramme.where(below, left, right)
    for _ in range(5):
        g, slope = x * gramme.expm1(s * w) - s * a * w, s * (x * (s * w).exp() - a)
        w = w - gramme.where(
            slope > 0, (g - _DEPTH) / gramme.where(slope > 0, slope, one), 0.0
        ).clamp(min=0)
    return w


def _integrals(a, x, psi):
    """(below, the integral of exp (-g), that with the factor)."""
    away = x.log() - psi
    below = away < 0
    s, w = gramme.where(below, -1.0, 1.0).to(x.dtype), _last_place(a, x, below)
    places = gramme.tensor(_PLACES, dtype=gramme.float64, device=x.device)
    weights = gramme.tensor(_WEIGHTS, dtype=gramme.float64, device=x.device)
    at, s_ = w.unsqueeze(-1) * places, s.unsqueeze(-1)
    height = (s_ * a.unsqueeze(-1) * at - x.unsqueeze(-1) * gramme.expm1(s_ * at)).exp() * weights
    return below, height.sum(-1) * w, (height * (away.abs().unsqueeze(-1) + at)).sum(-1) * w


def _sums(a, x):
    """Over n > 0: (-x) ** n / n! over a + n, and over its square."""
    first, second, power = gramme.zeros_like(x), gramme.zeros_like(x), gramme.ones_like(x)
    for n in range(1, _SERIES + 1):
        power = power * (-x / n)
        term = power / (a + n)
        first, second = first + term, second + term / (a + n)
    return first, second


def _split(a, x):
    """a and x where the series holds, and where the integrals do; a number elsewhere."""
    small = (a < 1) & (x < 1)
    good = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    series, integral = small & good, good & ~small
    return (
        series,
        gramme.where(series, a, 0.5),
        gramme.where(series, x, 0.5),
        gramme.where(integral, a, 2.0),
        gramme.where(integral, x, 2.0),
    )


def gamma_slope(a, x):
    """dx / da of a draw x of the gamma distribution with concentration a and rate 1, where its
    place in the distribution is kept: minus the derivative of the distribution function in a, over
    the density.  M. Figurnov, S. Mohamed, A. Mnih, "Implicit reparameterization gradients"
    (2018)."""
    dtype = x.dtype
    a, x = a.detach().to(gramme.float64), x.detach().to(gramme.float64)
    series, a1, x1, a2, x2 = _split(a, x)
    first, second = _sums(a1, x1)
    by_series = (
        x1
        * x1.exp()
        * (second - first / a1 - (x1.log() - gramme.digamma(a1 + 1)) * (1 / a1 + first))
    )
    return gramme.where(series, by_series, x2 * _integrals(a2, x2, gramme.digamma(a2))[2]).to(dtype)


def _front(a, x):
    """x ** a exp (-x) / gamma (a)."""
    large = a >= 16
    b, y = gramme.where(large, a, 16.0), gramme.where(large, x, 16.0)
    d, r = (y - b) / b, 1 / b
    r2 = r * r
    rest = r * (
        1 / 12
        + r2
        * (-1 / 360 + r2 * (1 / 1260 + r2 * (-1 / 1680 + r2 * (1 / 1188 + r2 * (-691 / 360360)))))
    )
    by_stirling = (b / (2 * math.pi)).sqrt() * (b * (gramme.log1p(d) - d) - rest).exp()
    b, y = gramme.where(large, 2.0, a), gramme.where(large, 2.0, x)
    return gramme.where(large, by_stirling, (b * y.log() - y - gramme.lgamma(b)).exp())


def _both(a, x):
    """The lower function and the upper one."""
    series, a1, x1, a2, x2 = _split(a, x)
    first, _ = _sums(a1, x1)
    logarithm = a1 * x1.log() - gramme.lgamma(a1 + 1)
    part = logarithm.exp() * a1 * first
    below, integral, _ = _integrals(a2, x2, gramme.digamma(a2))
    tail = _front(a2, x2) * integral
    lower = gramme.where(series, logarithm.exp() + part, gramme.where(below, tail, 1 - tail))
    upper = gramme.where(
        series, -gramme.expm1(logarithm) - part, gramme.where(below, 1 - tail, tail)
    )
    beyond = (a == 0) | (x == math.inf)
    valid = (a >= 0) & (x >= 0) & ~((a == 0) & (x == 0)) & ~((a == math.inf) & (x == math.inf))
    ends = [(x == 0) | (a == math.inf), beyond]
    lower = gramme.where(ends[0], 0.0, gramme.where(ends[1], 1.0, lower))
    upper = gramme.where(ends[0], 1.0, gramme.where(ends[1], 0.0, upper))
    return gramme.where(valid, lower, math.nan), gramme.where(valid, upper, math.nan)


class _Incomplete(Function):
    @staticmethod
    def forward(ctx, a, x, which):
        ctx.save_for_backward(a, x)
        ctx.sign = -1.0 if which else 1.0
        return _both(a, x)[which]

    @staticmethod
    def backward(ctx, g):
        a, x = ctx.saved_tensors
        density = g * ctx.sign * ((a - 1) * x.log() - x - gramme.lgamma(a)).exp()
        of_a = -density * gamma_slope(a, x) if ctx.needs_input_grad[0] else None
        return of_a, density, None


def _incomplete(input, other, which):
    dtype = gramme.result_type(input, other)
    dtype = dtype if dtype.is_floating_point else gramme.get_default_dtype()
    a, x = gramme.broadcast_tensors(input, other)
    return _Incomplete.apply(a.to(gramme.float64), x.to(gramme.float64), which).to(dtype)


def gammainc(input, other):
    """The lower incomplete gamma function of input, at other: how much of the gamma distribution
    with concentration input is below other."""
    return _incomplete(input, other, 0)


def gammaincc(input, other):
    """The upper one: how much of it is above."""
    return _incomplete(input, other, 1)
