# SPDX-License-Identifier: Apache-2.0
"""Linear algebra, with torch's names: factorizations by LAPACK, and what is made of them.

Matrices are the last two dimensions [..., m, n], of float32 or float64; all before is a batch.
Each factorization is one node of a compiled function's graph, which the host runs between the back
end's parts; its gradient, too.  Gradients can be differentiated again in plain Python.  All
functions take out=, a tensor or a tuple of as many as there are results, that the results are
written into.
"""

import functools
import math
import types
from collections import namedtuple

import gramme
from gramme._core import Tensor
from gramme.linalg.exponential import matrix_exp
from gramme.linalg.lu import (
    cholesky_ex,
    inv_ex,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    lu_unpack,
    solve_ex,
)
from gramme.linalg.nodes import (
    LinAlgError,
    _check,
    _cholesky,
    _det,
    _eigh,
    _inverse,
    _pinv,
    _qr,
    _same_batch,
    _slogdet,
    _solve,
    _svd,
    _T,
    _triangular,
)

# -- Systems of equations

_Results = {
    "qr": namedtuple("linalg_qr", "Q R"),
    "svd": namedtuple("linalg_svd", "U S Vh"),
    "eigh": namedtuple("linalg_eigh", "eigenvalues eigenvectors"),
    "slogdet": namedtuple("linalg_slogdet", "sign logabsdet"),
    "lstsq": namedtuple("linalg_lstsq", "solution residuals rank singular_values"),
}


def solve(A, B, *, left=True):
    """X with A X = B, or with left=False X A = B; B [..., n, k], or [..., n] of vectors.  Errors:
    LinAlgError for a singular matrix."""
    _check("solve", A, square=True)
    vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    b = B.unsqueeze(-1) if vector else B
    if b.dtype != A.dtype or b.shape[-2 if left or vector else -1] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: {B.dtype} {list(B.shape)} is no right side for {A.dtype} "
            f"{list(A.shape)}"
        )
    if not left and not vector:
        return _T(solve(_T(A), _T(B)))
    x = _solve(*_same_batch(A if left else _T(A), b))
    return x.squeeze(-1) if vector else x


def inv(A):
    """The inverse.  Errors: LinAlgError for a singular matrix."""
    _check("inv", A, square=True)
    return _inverse(A)


def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """X with A X = B (left=False: X A = B), of which one triangle of A is read; unitriangular: with
    ones on its diagonal."""
    _check("solve_triangular", A, square=True)
    if B.dim() < 2 or B.dtype != A.dtype or B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve_triangular: {B.dtype} {list(B.shape)} is no right side for {A.dtype} "
            f"{list(A.shape)}"
        )
    if not left:
        return _T(solve_triangular(_T(A), _T(B), upper=not upper, unitriangular=unitriangular))
    a, b = _same_batch(A, B)
    return _triangular(a, b, bool(upper), bool(unitriangular))


def lstsq(A, B, rcond=None, *, driver=None):
    """(solution, residuals, rank, singular_values): the shortest X with the least |A X - B|,
    through the singular values of A; those below rcond (None: max (m, n) epsilons) times the
    largest count as 0.  As with LAPACK's drivers: "gels" gives no rank, "gelsy" (None) and "gels"
    no singular values, and all but "gelsy" the residuals, |A X - B| ** 2 of each column, if m > n
    and A has full rank."""
    _check("lstsq", A)
    vector = B.dim() == A.dim() - 1
    b = B.unsqueeze(-1) if vector else B
    x = pinv(A, rtol=rcond) @ b
    m, n = A.shape[-2:]
    rank = A.new_zeros(0, dtype=gramme.int64) if driver == "gels" else matrix_rank(A, rtol=rcond)
    known = (
        m > n
        and driver in ("gels", "gelsd", "gelss")
        and (driver == "gels" or bool((rank == n).all()))
    )
    residuals = ((A @ x - b) ** 2).sum(-2).detach() if known else A.new_zeros(0)
    s = svdvals(A.detach()) if driver in ("gelss", "gelsd") else A.new_zeros(0)
    return _Results["lstsq"](x.squeeze(-1) if vector else x, residuals, rank, s)


# -- Factorizations


def cholesky(A, *, upper=False):
    """L with A = L L^T, or U with A = U^T U; of symmetric positive-definite matrices, of which the
    lower triangle is read."""
    _check("cholesky", A, square=True)
    lower = _cholesky(A)
    return _T(lower) if upper else lower


def qr(A, mode="reduced"):
    """(Q, R): Q with orthonormal columns, R upper triangular.  mode "complete": Q is square; "r": R
    alone, Q is empty."""
    _check("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"linalg.qr: mode is 'reduced', 'complete' or 'r', not {mode!r}")
    m, n = A.shape[-2:]
    if mode == "complete" and m > n:
        return _Results["qr"](*_qr(A, True))
    if m >= n:
        q, r = _qr(A)
    else:  # the rest of R is Q^T times the rest of A
        q, left = _qr(A[..., :m])
        r = gramme.cat([left, _T(q) @ A[..., m:]], -1)
    return _Results["qr"](A.new_zeros(0) if mode == "r" else q, r)


def householder_product(A, tau):
    """Q as LAPACK leaves it below a diagonal: the first columns of H1 H2 ..., Hi = 1 - tau[i] v v^T
    with v = (0 ... 0, 1, A[i + 1:, i])."""
    _check("householder_product", A)
    m, n = A.shape[-2:]
    q = gramme.eye(m, n, dtype=A.dtype).expand(A.shape)
    v = A.tril(-1) + gramme.eye(m, n, dtype=A.dtype)
    for i in reversed(range(tau.shape[-1])):
        column = v[..., i : i + 1]
        q = q - tau[..., i : i + 1].unsqueeze(-1) * column @ (_T(column) @ q)
    return q


def svd(A, full_matrices=True, *, driver=None):
    """(U, S, Vh): A = U diag (S) Vh, S descending.  full_matrices: U and Vh are square.  Gradients
    by U and Vh need different singular values, and do not depend on their signs."""
    _check("svd", A)
    return _Results["svd"](*_svd(A, bool(full_matrices)))


def svdvals(A, *, driver=None):
    """The singular values, descending."""
    _check("svdvals", A)
    return _svd(A)[1]


def eigh(A, UPLO="L"):
    """(eigenvalues, eigenvectors) of symmetric matrices, ascending; the triangle UPLO ("L" or "U")
    is read."""
    _check("eigh", A, square=True)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"linalg.eigh: UPLO is 'L' or 'U', not {UPLO!r}")
    return _Results["eigh"](*_eigh(A, UPLO.upper() == "U"))


def eigvalsh(A, UPLO="L"):
    """The eigenvalues of symmetric matrices, ascending."""
    return eigh(A, UPLO).eigenvalues


def det(A):
    """The determinants."""
    _check("det", A, square=True)
    return _det(A)


def slogdet(A):
    """(sign, logabsdet) of the determinants, without overflow."""
    _check("slogdet", A, square=True)
    return _Results["slogdet"](*_slogdet(A))


def logdet(input):
    """The logarithms of the determinants: NaN where they are negative."""
    _check("logdet", input, square=True)
    sign, log_size = _slogdet(input)
    return gramme.where(sign == -1, math.nan, log_size)


# -- Ranks, inverses, powers


def _cut(largest, a, atol, rtol):
    """From where on singular values count."""
    if rtol is None:
        given = atol is not None and (isinstance(atol, Tensor) or atol > 0)
        rtol = 0.0 if given else max(a.shape[-2:]) * gramme.finfo(a.dtype).eps
    atol = 0.0 if atol is None else atol
    rtol = rtol.unsqueeze(-1) if isinstance(rtol, Tensor) and rtol.dim() else rtol
    atol = atol.unsqueeze(-1) if isinstance(atol, Tensor) and atol.dim() else atol
    cut = largest * rtol
    return cut.maximum(atol if isinstance(atol, Tensor) else gramme.full_like(cut, atol))


def matrix_rank(A, tol=None, *, atol=None, rtol=None, hermitian=False):
    """How many singular values are larger than atol, and than rtol (None: max (m, n) epsilons,
    unless atol is given) times the largest."""
    _check("matrix_rank", A)
    atol, rtol = (tol, 0.0) if tol is not None else (atol, rtol)
    s = eigvalsh(A.detach()).abs() if hermitian else svdvals(A.detach())
    if s.shape[-1] == 0:
        return gramme.zeros(s.shape[:-1], dtype=gramme.int64)
    return (s > _cut(s.amax(-1, keepdim=True), A, atol, rtol)).sum(-1)


def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """The inverse of Moore and Penrose: singular values below the cut count as 0 (see
    matrix_rank)."""
    _check("pinv", A)
    rtol = rcond if rtol is None else rtol
    if 0 in A.shape[-2:]:
        return _T(A).clone()
    if hermitian:
        w, v = eigh(A.detach())
        u, s, vh = v * w.sign().unsqueeze(-2), w.abs(), _T(v)
    else:
        u, s, vh = _svd(A.detach())
    counts = s > _cut(s.amax(-1, keepdim=True), A, atol, rtol)
    back = gramme.where(counts, 1 / gramme.where(counts, s, 1.0), 0.0)
    return _pinv(A, (_T(vh) * back.unsqueeze(-2)) @ _T(u))


def matrix_power(A, n):
    """A to the power n, by squaring; negative powers of the inverse."""
    return gramme.matrix_power(A, n) if n >= 0 else gramme.matrix_power(inv(A), -n)


def multi_dot(tensors):
    """The product of the matrices (the first and last may be vectors), in the order that multiplies
    least (Cormen et al., chapter 15)."""
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError("linalg.multi_dot: needs at least 2 tensors")
    first, last = tensors[0].dim() == 1, tensors[-1].dim() == 1
    tensors[0] = tensors[0].unsqueeze(0) if first else tensors[0]
    tensors[-1] = tensors[-1].unsqueeze(1) if last else tensors[-1]
    if any([t.dim() != 2 for t in tensors]) or any(
        [a.shape[1] != b.shape[0] for a, b in zip(tensors, tensors[1:])]
    ):
        raise RuntimeError(
            f"linalg.multi_dot: shapes {', '.join([str(list(t.shape)) for t in tensors])} do not "
            "form a product"
        )
    sizes, n = [tensors[0].shape[0]] + [t.shape[1] for t in tensors], len(tensors)
    cost, split = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                [
                    (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                    for k in range(i, j)
                ]
            )

    def product(i, j):
        return tensors[i] if i == j else product(i, split[i, j]) @ product(split[i, j] + 1, j)

    result = product(0, n - 1)
    result = result.squeeze(0) if first else result
    return result.squeeze(-1) if last else result


# -- Norms


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """The norm of vectors along dim (an int or a tuple; None: of all elements): (sum |x| ** ord) **
    (1 / ord), inf, -inf, 0 (how many are not 0)."""
    x = x if dtype is None else x.to(dtype)
    if dim is None and not keepdim:
        return gramme.norm(x.flatten(), float(ord), 0)
    return gramme.norm(x, float(ord), tuple(range(x.dim())) if dim is None else dim, keepdim)


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """The norm of matrices: "fro", "nuc" (the sum of singular values), 2 or -2 (the largest or
    smallest of them), 1 or -1 (the largest or smallest sum of a column), inf or -inf (of a row)."""
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim has two dimensions, not {dim}")
    A = A if dtype is None else A.to(dtype)
    rows, columns = [d % A.dim() for d in dim]
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims {dim} are the same")
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        s = svdvals(A.movedim((rows, columns), (-2, -1)))
        result = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord == 2 else s.amin(-1)
    elif ord in (1, -1, math.inf, -math.inf):
        along, across = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = A.abs().sum(along, keepdim=True)
        result = (
            sums.amax(across, keepdim=True) if ord > 0 else sums.amin(across, keepdim=True)
        ).squeeze((rows, columns))
    else:
        raise RuntimeError(f"linalg.matrix_norm: order {ord!r} is not supported")
    if keepdim:
        for d in sorted((rows, columns)):
            result = result.unsqueeze(d)
    return result


def norm(A=None, ord=None, dim=None, keepdim=False, *, dtype=None, input=None):
    """vector_norm, or matrix_norm where dim names two dimensions or ord is given for a matrix.
    input: another name of A."""
    if (A is None) == (input is None):
        raise TypeError("linalg.norm() needs one tensor, A or input")
    A = input if A is None else A
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if (
        isinstance(ord, str)
        or (dim is None and A.dim() == 2)
        or (isinstance(dim, (tuple, list)) and len(dim) == 2)
    ):
        return matrix_norm(A, ord, (-2, -1) if dim is None else tuple(dim), keepdim, dtype=dtype)
    if dim is None and A.dim() != 1:
        raise RuntimeError("linalg.norm: with ord and without dim the tensor has 1 or 2 dimensions")
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A, p=None):
    """The condition number: the norm times that of the inverse."""
    if p in (None, 2, -2):
        s = svdvals(A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


# -- Products


def cross(input, other, *, dim=-1):
    """The vector product along dim, which has size 3."""
    if input.dim() != other.dim() or input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: takes vectors of 3 elements along {dim}, of equally many dimensions, "
            f"not {list(input.shape)} and {list(other.shape)}"
        )
    return gramme.cross(input, other, dim)


def vecdot(x, y, *, dim=-1):
    """The products of vectors, summed along dim."""
    return (x * y).sum(dim)


def matmul(input, other):
    """gramme.matmul."""
    return gramme.matmul(input, other)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices."""
    return gramme.diagonal(A, offset, dim1, dim2)


def vander(x, N=None):
    """Powers 0 ... N - 1 of the last dimension's elements, in a new last dimension."""
    x = gramme.atleast_1d(x)
    n = x.shape[-1] if N is None else N
    return gramme.where(
        gramme.arange(n) < 1, gramme.ones((), dtype=x.dtype), x.unsqueeze(-1)
    ).cumprod(-1)


def tensorsolve(A, B, dims=None):
    """X with tensordot (A, X, X.dim ()) = B."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.dim() - len(dims), A.dim())))
    shape = list(A.shape[B.dim() :])
    return solve(A.reshape(B.numel(), -1), B.flatten()).reshape(shape)


def tensorinv(A, ind=2):
    """The inverse of tensordot with A, whose first ind dimensions are the rows."""
    rows, columns = list(A.shape[:ind]), list(A.shape[ind:])
    return inv(A.reshape(math.prod(rows), math.prod(columns))).reshape(columns + rows)


# -- Older names: gramme.inverse, gramme.cholesky ...


def _older_cholesky(input, upper=False):
    """linalg.cholesky."""
    return cholesky(input, upper=upper)


def cholesky_solve(input, input2, upper=False):
    """X with L L^T X = B, where B is input and L input2; upper: with L^T L X = B."""
    lower = _T(input2) if upper else input2
    return solve_triangular(_T(lower), solve_triangular(lower, input, upper=False), upper=True)


def cholesky_inverse(input, upper=False):
    """The inverse of L L^T; upper: of L^T L."""
    n = input.shape[-1]
    return cholesky_solve(
        gramme.eye(n, dtype=input.dtype).expand(*input.shape[:-2], n, n), input, upper
    )


def _older_svd(input, some=True, compute_uv=True):
    """(U, S, V), input = U diag (S) V^T; some: reduced."""
    u, s, vh = svd(input, full_matrices=not some)
    if not compute_uv:
        m, n = input.shape[-2:]
        u, vh = input.new_zeros(*input.shape[:-2], m, m), input.new_zeros(*input.shape[:-2], n, n)
    return namedtuple("svd", "U S V")(u, s, _T(vh))


def _older_qr(input, some=True):
    """linalg.qr; some: reduced."""
    return qr(input, "reduced" if some else "complete")


def _older_lu_solve(input, LU_data, LU_pivots):
    """linalg.lu_solve."""
    return lu_solve(LU_data, LU_pivots, input)


def pinverse(input, rcond=1e-15):
    """linalg.pinv."""
    return pinv(input, rcond)


def nuclear_norm(input, dim=(-2, -1), keepdim=False):
    """The sums of singular values."""
    return matrix_norm(input, "nuc", dim, keepdim)


# -- out=


def _put(name, result, out):
    """Writes a result into a tensor that exists, which takes its shape if it has no elements."""
    if result.requires_grad or out.requires_grad:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if out.dtype != result.dtype:
        raise RuntimeError(
            f"{name}(): expected out tensor to have dtype {result.dtype}, but got {out.dtype} "
            "instead"
        )
    if out.shape != result.shape:
        if out.numel():
            raise RuntimeError(
                f"{name}(): out= is {list(out.shape)}, but the result is {list(result.shape)}: "
                "pass one of its shape, or an empty one"
            )
        out.resize_(result.shape)
    return out.copy_(result)


def _with_out(function):
    """The function, which takes out=, too: a tensor, or a tuple of as many as there are results,
    that the results are written into."""

    @functools.wraps(function)
    def wrapper(*args, out=None, **kwargs):
        result = function(*args, **kwargs)
        if out is None:
            return result
        name, one = f"linalg.{function.__name__}", isinstance(result, Tensor)
        if isinstance(out, Tensor) != one or not (
            one or isinstance(out, (tuple, list)) and len(out) == len(result)
        ):
            raise TypeError(
                f"{name}(): out= is a tensor, or a tuple of as many tensors as there are results"
            )
        return (
            _put(name, result, out)
            if one
            else type(result)(*[_put(name, part, into) for part, into in zip(result, out)])
        )

    return wrapper


_PLAIN = {
    name: value
    for name, value in globals().items()
    if isinstance(value, types.FunctionType) and not name.startswith("_")
}
_PLAIN = {
    name: value
    for name, value in _PLAIN.items()
    if value.__module__.startswith(__name__) and name not in ("pinverse", "nuclear_norm")
}
globals().update({name: _with_out(value) for name, value in _PLAIN.items()})


def _of_input(name, function):
    """A function of this module by the older name, whose argument is called input."""

    def older(input):
        return function(input)

    older.__name__ = older.__qualname__ = name
    older.__doc__ = function.__doc__
    return older


OLDER = {
    "inverse": _of_input("inverse", inv), "det": _of_input("det", det),
    "slogdet": _of_input("slogdet", slogdet), "logdet": logdet, "cholesky": _older_cholesky,
    "cholesky_solve": cholesky_solve,
    "cholesky_inverse": cholesky_inverse, "svd": _older_svd, "qr": _older_qr, "pinverse": pinverse,
    "matrix_exp": _of_input("matrix_exp", matrix_exp), "lu_solve": _older_lu_solve,
}  # fmt: skip


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
