# SPDX-License-Identifier: Apache-2.0
"""Special functions under the names of torch.special; most of them are gramme's own by another name."""

import math

import gramme
from gramme import digamma, erf, erfc, erfinv, exp2, expm1, log1p, log_softmax, logit, logsumexp, polygamma, round, sinc, softmax, xlogy
from gramme.functions import mvlgamma as multigammaln

expit, gammaln, psi = gramme.sigmoid, gramme.lgamma, digamma

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammaln", "log1p", "log_softmax", "logit", "logsumexp", "multigammaln",
    "ndtr", "ndtri", "polygamma", "psi", "round", "sinc", "softmax", "xlog1py", "xlogy",
]  # fmt: skip


def entr(input):
    """-x log x: 0 at 0, -inf below."""
    some = input > 0
    return gramme.where(some, -input * gramme.where(some, input, 1.0).log(), gramme.where(input < 0, -math.inf, input * 0))


def ndtr(input):
    """The standard normal distribution: how much of it is below input."""
    return erfc(input * -math.sqrt(0.5)) * 0.5


def ndtri(input):
    """Its inverse."""
    return erfinv(input * 2 - 1) * math.sqrt(2)


def xlog1py(input, other):
    """input * log1p (other), and 0 where input is 0 and other is not NaN."""
    none = (input == 0) & (other == other)
    return gramme.where(none, input * 0.0, input * log1p(gramme.where(none, 0.0, other)))
