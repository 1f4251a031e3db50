# SPDX-License-Identifier: Apache-2.0
"""The exponential function of matrices, by scaling and squaring; computed in float64.

Sources: N. Higham, "The scaling and squaring method for the matrix exponential revisited" (SIAM J.
Matrix Anal. Appl. 26, 2005), for the rational function of degree 13; R. Mathias, "A chain rule for
matrix functions and applications" (ibid. 17, 1996), for the derivative, which is a block of the
exponential of a matrix of twice the size.
"""

import gramme
from gramme.autograd import Function
from gramme.compiler import allow_in_graph
from gramme.linalg.nodes import _check, _run, _T

_PADE = [c / 64764752532480000 for c in (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0,
    33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)]  # fmt: skip
_LARGEST = (
    5.371920351148152  # the norm up to which the rational function has the precision of float64
)


def _largest_column(a):
    return a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)


def _exponential(a):
    if a.numel() == 0:
        return a.clone()
    x = a.detach().to(gramme.float64)
    norm = _largest_column(x)
    halvings = gramme.where(
        norm.isfinite() & (norm > _LARGEST), (norm / _LARGEST).log2().ceil(), 0.0
    )
    x = x * (-halvings).exp2()
    b, one = _PADE, gramme.eye(x.shape[-1], dtype=gramme.float64)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x @ (
        x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one
    )
    even = (
        x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    )
    (y,) = _run("solve", even - odd, even + odd)
    for k in range(int(halvings.max())):
        y = gramme.where(halvings > k, y @ y, y)
    return y.to(a.dtype)


class _Exponential(Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return _exponential(a)

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        if a.numel() == 0:
            return g
        n, size = a.shape[-1], _largest_column(g.detach())
        size = gramme.where(
            size > 0, size, 1.0
        )  # a large g would be halved more often than a needs it
        top = gramme.cat([_T(a), g / size], -1)
        bottom = gramme.cat([gramme.zeros_like(a), _T(a)], -1)
        return _matrix_exp(gramme.cat([top, bottom], -2))[..., :n, n:] * size


def _matrix_exp(a):
    return _Exponential.apply(a)


allow_in_graph([_matrix_exp])


def matrix_exp(A):
    """The exponential function of square matrices: the sum of A ** k / k!."""
    _check("matrix_exp", A, square=True)
    return _matrix_exp(A)
