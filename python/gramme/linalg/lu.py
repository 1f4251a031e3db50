# SPDX-License-Identifier: Apache-2.0
"""The LU factorization and what is solved with it; factorizations that say in `info` which matrices
of a batch have none.

A = P L U is kept as LAPACK keeps it: L below the diagonal, whose ones are not stored, U on and
above it, and for each row the one, counted from 1, that it was exchanged with.  The gradient of the
factors is that of Giles (nodes.py) for the square in front; what a tall L or a wide U has beyond
that is the solution of a triangular system with it.
"""

from collections import namedtuple

import gramme
from gramme.compiler import allow_in_graph
from gramme.linalg.nodes import (
    _INFO,
    LinAlgError,
    _check,
    _Cholesky,
    _Node,
    _PROBLEMS,
    _run,
    _same_batch,
    _Solve,
    _T,
    _triangular,
)

_LUResult = namedtuple("linalg_lu", "P L U")
_FactorResult = namedtuple("linalg_lu_factor", "LU pivots")
_FactorExResult = namedtuple("linalg_lu_factor_ex", "LU pivots info")
_CholeskyResult = namedtuple("linalg_cholesky_ex", "L info")
_InverseResult = namedtuple("linalg_inv_ex", "inverse info")
_SolveResult = namedtuple("linalg_solve_ex", "result info")


# -- Nodes


def _info_of(ctx, info):
    info = info.to(gramme.int32)
    ctx.mark_non_differentiable(info)
    return info


class _LU(_Node):
    @staticmethod
    def forward(ctx, a):
        lu, pivots, info = _run("lu", a, None, _INFO)
        pivots = pivots.to(gramme.int32)
        ctx.save_for_backward(lu, pivots)
        ctx.mark_non_differentiable(pivots)
        return lu, pivots, _info_of(ctx, info)

    @staticmethod
    def backward(ctx, g, *_):
        lu, pivots = ctx.saved_tensors
        (m, n), k = lu.shape[-2:], pivots.shape[-1]
        corner = lu[..., :k, :k]
        of_l, of_u = g[..., :k, :k].tril(-1), g[..., :k, :k].triu()
        below = right = None
        if m > k:
            below = _T(_triangular(corner, _T(g[..., k:, :]), True, False))
            of_u = of_u - (_T(lu[..., k:, :]) @ below).triu()
        if n > k:
            right = _triangular(_T(corner), g[..., k:], True, True)
            of_l = of_l - (right @ _T(lu[..., k:])).tril(-1)
        inner = (_T(corner.tril(-1)) @ of_l + of_l).tril(-1) + (of_u @ _T(corner.triu())).triu()
        inner = _triangular(_T(corner), inner, True, True)
        of_rows = _T(_triangular(corner, _T(inner), True, False))
        of_rows = of_rows if below is None else gramme.cat([of_rows, below], -2)
        of_rows = of_rows if right is None else gramme.cat([of_rows, right], -1)
        return _rows_back(of_rows, _rows(pivots, m))


class _LUChecked(_Node):
    @staticmethod
    def forward(ctx, a):
        lu, pivots = _run("lu", a)
        pivots = pivots.to(gramme.int32)
        ctx.save_for_backward(lu, pivots)
        ctx.mark_non_differentiable(pivots)
        return lu, pivots

    @staticmethod
    def backward(ctx, g, _):
        return _LU.backward(ctx, g)


class _CholeskyEx(_Node):
    @staticmethod
    def forward(ctx, a):
        lower, info = _run("cholesky", a, None, _INFO)
        ctx.save_for_backward(lower)
        return lower, _info_of(ctx, info)

    @staticmethod
    def backward(ctx, g, _):
        return _Cholesky.backward(ctx, g)


class _SolveEx(_Node):
    @staticmethod
    def forward(ctx, a, b):
        x, info = _run("solve", a, b, _INFO)
        ctx.save_for_backward(a, x)
        return x, _info_of(ctx, info)

    @staticmethod
    def backward(ctx, g, _):
        return _Solve.backward(ctx, g)


def _lu(a):
    return _LU.apply(a)


def _lu_checked(a):
    return _LUChecked.apply(a)


def _cholesky_ex(a):
    return _CholeskyEx.apply(a)


def _solve_ex(a, b):
    return _SolveEx.apply(a, b)


def _rows(pivots, m):
    """[..., m]: which row of A comes where in L U."""
    found = []
    for exchanged in pivots.reshape(-1, pivots.shape[-1]).tolist():
        rows = list(range(m))
        for i, with_row in enumerate(exchanged):
            j = max(with_row - 1, 0)  # 0: that of a stand-in
            rows[i], rows[j] = rows[j], rows[i]
        found.append(rows)
    return gramme.tensor(found, dtype=gramme.int64).reshape(*pivots.shape[:-1], m)


allow_in_graph([_lu, _lu_checked, _cholesky_ex, _solve_ex, _rows])


def _rows_forth(b, rows):
    return b.gather(-2, rows.unsqueeze(-1).expand(b.shape))


def _rows_back(b, rows):
    return _rows_forth(b, rows.argsort(-1))


def _say(name, check_errors, info):
    """Raises what the function without _ex raises."""
    if check_errors and bool((info != 0).any()):
        first = int((info.flatten() != 0).to(gramme.int64).argmax())
        where = f"(batch element {first}): " if info.dim() else ""
        raise LinAlgError(
            f"linalg.{name}: {where}{_PROBLEMS[name].format(int(info.flatten()[first]))}"
        )


# -- The factorization


def _check_lu(name, A, pivot):
    _check(name, A)
    if not pivot:
        raise RuntimeError(f"linalg.{name}: LAPACK has no LU factorization without pivoting")


def lu_factor_ex(A, *, pivot=True, check_errors=False):
    """(LU, pivots, info): A = P L U in one matrix, for lu_solve; info: 0, or which element of U's
    diagonal is 0, counted from 1."""
    _check_lu("lu_factor_ex", A, pivot)
    result = _FactorExResult(*_lu(A))
    _say("lu", check_errors, result.info)
    return result


def lu_factor(A, *, pivot=True):
    """(LU, pivots): A = P L U in one matrix, for lu_solve.  Errors: LinAlgError for a singular
    matrix."""
    _check_lu("lu_factor", A, pivot)
    return _FactorResult(*_lu_checked(A))


def lu(A, *, pivot=True):
    """(P, L, U): A = P L U, P a permutation, L with ones on its diagonal."""
    _check_lu("lu", A, pivot)
    factors, pivots, _ = _lu(A)
    return _LUResult(*lu_unpack(factors, pivots))


def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """(P, L, U) of what lu_factor gives; what is not wanted is empty."""
    m, k = LU_data.shape[-2], LU_pivots.shape[-1]
    p = lower = upper = LU_data.new_zeros(0)
    if unpack_pivots:
        rows = _rows(LU_pivots, m)
        p = (gramme.arange(m).unsqueeze(-1) == rows.unsqueeze(-2)).to(LU_data.dtype)
    if unpack_data:
        lower = LU_data[..., :k].tril(-1) + gramme.eye(m, k, dtype=LU_data.dtype)
        upper = LU_data[..., :k, :].triu()
    return _LUResult(p, lower, upper)


def lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """X with A X = B, A as lu_factor has factored it; left=False: X A = B; adjoint: with A^T for
    A."""
    _check("lu_solve", LU, square=True)
    if not left:
        return _T(lu_solve(LU, pivots, _T(B), adjoint=not adjoint))
    if B.dim() < 2 or B.dtype != LU.dtype or B.shape[-2] != LU.shape[-1]:
        raise RuntimeError(
            f"linalg.lu_solve: {B.dtype} {list(B.shape)} is no right side for {LU.dtype} "
            f"{list(LU.shape)}"
        )
    n = LU.shape[-1]
    a, b = _same_batch(LU, B)
    rows = _rows(pivots, n).expand(*a.shape[:-1])
    if adjoint:
        return _rows_back(_triangular(_T(a), _triangular(_T(a), b, False, False), True, True), rows)
    return _triangular(a, _triangular(a, _rows_forth(b, rows), False, True), True, False)


# -- With info


def cholesky_ex(A, *, upper=False, check_errors=False):
    """(L, info) as linalg.cholesky; info: 0, or the order of the leading minor that is not
    positive."""
    _check("cholesky_ex", A, square=True)
    lower, info = _cholesky_ex(A)
    _say("cholesky", check_errors, info)
    return _CholeskyResult(_T(lower) if upper else lower, info)


def solve_ex(A, B, *, left=True, check_errors=False):
    """(X, info) as linalg.solve; info: 0, or which element of U's diagonal is 0, counted from 1."""
    _check("solve_ex", A, square=True)
    vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    b = B.unsqueeze(-1) if vector else B
    turned = not left and not vector
    x, info = _solve_ex(*_same_batch(A if left else _T(A), _T(b) if turned else b))
    _say("solve", check_errors, info)
    return _SolveResult(x.squeeze(-1) if vector else _T(x) if turned else x, info)


def inv_ex(A, *, check_errors=False):
    """(inverse, info) as linalg.inv; info: 0, or which element of U's diagonal is 0, counted from
    1."""
    _check("inv_ex", A, square=True)
    n = A.shape[-1]
    inverse, info = _solve_ex(A, gramme.eye(n, dtype=A.dtype).expand(*A.shape[:-2], n, n))
    _say("solve", check_errors, info)
    return _InverseResult(inverse, info)
