# SPDX-License-Identifier: Apache-2.0
"""LAPACK's factorizations with their gradients: each is a node of its own in a compiled function,
which the host runs.

Sources of the gradients: M. Giles, "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation" (2008); I. Murray, "Differentiation of the Cholesky decomposition"
(2016); J. Townsend, "Differentiating the singular value decomposition" (2016); Walter and Lehmann,
"Algorithmic differentiation of linear algebra functions" (2012), for QR.
"""

import math

import gramme
from gramme import _core
from gramme._core import Tensor
from gramme.autograd import Function
from gramme.compiler import allow_in_graph

_FULL, _UPPER, _UNIT, _INFO = 1, 2, 4, 8


class LinAlgError(RuntimeError):
    """A matrix that has no such factorization, or none that could be found."""


# -- One call of LAPACK for a batch

_PROBLEMS = {
    "cholesky": "the input is not positive-definite (the leading minor of order {} is not)",
    "solve": "the matrix is singular (element {0} of the diagonal of U is 0)",
    "solve_triangular": "the matrix is singular (element {0} of its diagonal is 0)",
    "qr": "LAPACK says {0}",
    "lu": "element {0} of the diagonal of U is 0: systems with it cannot be solved",
    "svd": (
        "the algorithm did not converge: the matrix is ill-conditioned, or holds NaN or infinities "
        "({0})"
    ),
    "eigh": (
        "the algorithm did not converge: the matrix is ill-conditioned, or holds NaN or infinities "
        "({0})"
    ),
}


def _check(name, a, square=False):
    if not isinstance(a, Tensor):
        raise TypeError(f"linalg.{name}: takes a Tensor, not {type(a).__name__}")
    if a.dim() < 2 or a.dtype not in (gramme.float32, gramme.float64):
        raise RuntimeError(
            f"linalg.{name}: takes matrices of float32 or float64, at least 2 dimensions, not "
            f"{a.dtype} of shape {list(a.shape)}"
        )
    if square and a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: must be batches of square matrices, but they are {a.shape[-2]} by "
            f"{a.shape[-1]} matrices"
        )


def _run(name, a, other=None, flags=0):
    """LAPACK's results for a batch of any shape; a and other have the same one."""
    if a.is_cuda or (other is not None and other.is_cuda):
        raise RuntimeError(
            f"linalg.{name}: LAPACK computes it on the CPU, and the matrix is on device 'cuda': "
            "pass matrix.cpu(), and move the result with .to('cuda')"
        )
    batch = list(a.shape[:-2])

    def flat(x):
        return x.detach().contiguous().reshape(math.prod(batch), *x.shape[-2:])

    results, failed, info = _core.lapack(
        name, flat(a), None if other is None else flat(other), flags
    )
    if info and not flags & _INFO:
        where = f"(batch element {failed}): " if batch else ""
        raise LinAlgError(f"linalg.{name}: {where}{_PROBLEMS[name].format(info)}")
    return tuple([r.reshape(batch + list(r.shape[1:])) for r in results])


def _T(x):
    return x.transpose(-2, -1)


# -- Factorizations with their gradients


class _Node(Function):
    """A function whose gradients arrive row-major: the bits of products depend on how matrices lie,
    and a compiled function hands them so."""

    def __init_subclass__(cls):
        super().__init_subclass__()
        of_rows = cls.backward
        cls.backward = staticmethod(
            lambda ctx, *gs: of_rows(ctx, *[g if g is None else g.contiguous() for g in gs])
        )


class _Cholesky(_Node):
    @staticmethod
    def forward(ctx, a):
        (lower,) = _run("cholesky", a)
        ctx.save_for_backward(lower)
        return lower

    @staticmethod
    def backward(ctx, g):
        (lower,) = ctx.saved_tensors
        inner = (_T(lower) @ g).tril()
        inner = inner - gramme.diag_embed(gramme.diagonal(inner, 0, -2, -1)) * 0.5
        inner = (inner + _T(inner)) * 0.5
        half = _triangular(_T(lower), inner, True, False)  # L^-T P
        return _T(_triangular(_T(lower), _T(half), True, False))  # ... L^-1


class _Solve(_Node):
    @staticmethod
    def forward(ctx, a, b):
        (x,) = _run("solve", a, b)
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx, g):
        a, x = ctx.saved_tensors
        of_b = _solve(_T(a), g)
        return -of_b @ _T(x), of_b


class _Triangular(_Node):
    @staticmethod
    def forward(ctx, a, b, upper, unit):
        (x,) = _run("solve_triangular", a, b, (_UPPER if upper else 0) | (_UNIT if unit else 0))
        ctx.save_for_backward(a, x)
        ctx.upper, ctx.unit = upper, unit
        return x

    @staticmethod
    def backward(ctx, g):
        a, x = ctx.saved_tensors
        of_b = _triangular(_T(a), g, not ctx.upper, ctx.unit)
        of_a, k = -of_b @ _T(x), int(ctx.unit)
        return of_a.triu(k) if ctx.upper else of_a.tril(-k), of_b, None, None


def _cofactors(a):
    """The derivatives of the determinant, also of singular matrices."""
    u, s, vh = _svd(a)
    n = s.shape[-1]
    others = s.unsqueeze(-2).expand(*s.shape[:-1], n, n)
    others = gramme.where(gramme.eye(n, dtype=gramme.bool), 1.0, others).prod(-1)
    sign = (_run("det", u)[2] * _run("det", vh)[2]).unsqueeze(-1)
    return (u * (others * sign).unsqueeze(-2)) @ vh


class _Det(_Node):
    @staticmethod
    def forward(ctx, a):
        det = _run("det", a)[2]
        ctx.save_for_backward(a, det)
        return det

    @staticmethod
    def backward(ctx, g):
        a, det = ctx.saved_tensors
        if bool((det.detach() == 0).any()):
            return g.unsqueeze(-1).unsqueeze(-1) * _cofactors(a)
        return (g * det).unsqueeze(-1).unsqueeze(-1) * _T(_inverse(a))


class _Slogdet(_Node):
    @staticmethod
    def forward(ctx, a):
        sign, log_size, _ = _run("det", a)
        ctx.save_for_backward(a)
        ctx.mark_non_differentiable(sign)
        return sign, log_size

    @staticmethod
    def backward(ctx, _, g):
        (a,) = ctx.saved_tensors
        return g.unsqueeze(-1).unsqueeze(-1) * _T(_inverse(a))


class _QR(_Node):
    """Of m >= n, reduced; or full, which has no gradient unless the matrix is square."""

    @staticmethod
    def forward(ctx, a, full):
        q, r = _run("qr", a, None, _FULL if full else 0)
        ctx.save_for_backward(q, r)
        return q, r

    @staticmethod
    def backward(ctx, gq, gr):
        q, r = ctx.saved_tensors
        if q.shape[-1] != r.shape[-1]:
            raise RuntimeError(
                "linalg.qr: the gradient of mode 'complete' is that of square matrices only"
            )
        m = r @ _T(gr) - _T(gq) @ q
        below = m.tril(-1)
        m = m.tril() + _T(below)
        return _T(_triangular(r, _T(gq + q @ m), True, False)), None  # X R^-T


class _SVD(_Node):
    @staticmethod
    def forward(ctx, a, full):
        u, s, vh = _run("svd", a, None, _FULL if full else 0)
        ctx.save_for_backward(u, s, vh)
        return u, s, vh

    @staticmethod
    def backward(ctx, gu, gs, gvh):
        u, s, vh = ctx.saved_tensors
        k = s.shape[-1]
        u, gu, vh, gvh = u[..., :k], gu[..., :k], vh[..., :k, :], gvh[..., :k, :]
        middle = gramme.diag_embed(gs)
        if bool(gu.detach().any()) or bool(gvh.detach().any()):
            square = s * s
            gap = square.unsqueeze(-2) - square.unsqueeze(-1)
            gap = gramme.where(gramme.eye(k, dtype=gramme.bool), 1.0, gap)
            x, y = _T(u) @ gu, vh @ _T(gvh)
            middle = (
                middle + (x - _T(x)) / gap * s.unsqueeze(-2) + s.unsqueeze(-1) * ((y - _T(y)) / gap)
            )
            of_a = u @ middle @ vh
            if u.shape[-2] > k:
                scaled = gu / s.unsqueeze(-2)
                of_a = of_a + (scaled - u @ (_T(u) @ scaled)) @ vh
            if vh.shape[-1] > k:
                scaled = gvh / s.unsqueeze(-1)
                of_a = of_a + u @ (scaled - (scaled @ _T(vh)) @ vh)
            return of_a, None
        return u @ middle @ vh, None


class _Eigh(_Node):
    @staticmethod
    def forward(ctx, a, upper):
        w, v = _run("eigh", a, None, _UPPER if upper else 0)
        ctx.save_for_backward(w, v)
        return w, v

    @staticmethod
    def backward(ctx, gw, gv):
        w, v = ctx.saved_tensors
        middle = gramme.diag_embed(gw)
        if bool(gv.detach().any()):
            gap = w.unsqueeze(-2) - w.unsqueeze(-1)
            gap = gramme.where(gramme.eye(w.shape[-1], dtype=gramme.bool), math.inf, gap)
            x = _T(v) @ gv
            middle = middle + (x - _T(x)) * 0.5 / gap
        return v @ middle @ _T(v), None


class _Pinv(_Node):
    """The inverse that was found, with the derivative that holds for all (Golub and Pereyra 1973):
    that of the singular vectors does not exist where values are equal."""

    @staticmethod
    def forward(ctx, a, p):
        p = p.clone()
        ctx.save_for_backward(a, p)
        return p

    @staticmethod
    def backward(ctx, g):
        a, p = ctx.saved_tensors
        pt, gt = _T(p), _T(g)
        left, right = gt - a @ (p @ gt), gt - (gt @ p) @ a
        return left @ (p @ pt) + (pt @ p) @ right - pt @ g @ pt, None


# Each of these is a node of its own in a compiled function.


def _cholesky(a):
    return _Cholesky.apply(a)


def _solve(a, b):
    return _Solve.apply(a, b)


def _triangular(a, b, upper, unit):
    return _Triangular.apply(a, b, upper, unit)


def _det(a):
    return _Det.apply(a)


def _slogdet(a):
    return _Slogdet.apply(a)


def _qr(a, full=False):
    return _QR.apply(a, full)


def _svd(a, full=False):
    return _SVD.apply(a, full)


def _eigh(a, upper=False):
    return _Eigh.apply(a, upper)


def _pinv(a, p):
    return _Pinv.apply(a, p)


allow_in_graph([_cholesky, _solve, _triangular, _det, _slogdet, _qr, _svd, _eigh, _pinv])


def _inverse(a):
    n = a.shape[-1]
    return _solve(a, gramme.eye(n, dtype=a.dtype).expand(*a.shape[:-2], n, n))


def _same_batch(a, b):
    batch = gramme.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
