# SPDX-License-Identifier: Apache-2.0
"""linalg's LU factorization, factorizations with info, the exponential of matrices: values,
gradients, compiled to the bit, errors."""

import math

import numpy as np
import pytest

import gramme as G
from gramme import linalg as L

from arrays import close, ours

RNG = np.random.default_rng(11)
BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]


def numbers(*sizes):
    return RNG.normal(size=sizes)


A, B, TALL, WIDE = numbers(2, 4, 4), numbers(2, 4, 3), numbers(2, 5, 3), numbers(2, 3, 5)


def leaf(a):
    return ours(np.array(a)).requires_grad_()


def factors(a):
    p, lower, upper = L.lu(a)
    return lower.sin(), upper.cos(), p @ lower


CASES = {
    "lu": (factors, (A,)),
    "lu of tall": (factors, (TALL,)),
    "lu of wide": (factors, (WIDE,)),
    "lu_factor": (lambda a: L.lu_factor(a).LU.sin(), (A,)),
    "lu_solve": (lambda a, b: L.lu_solve(*L.lu_factor(a), b), (A, B)),
    "lu_solve, transposed": (lambda a, b: L.lu_solve(*L.lu_factor(a), b, adjoint=True), (A, B)),
    "lu_solve from the right": (lambda a, b: L.lu_solve(*L.lu_factor(a), b.mT, left=False), (A, B)),
    "lu_solve from the right, transposed": (
        lambda a, b: L.lu_solve(*L.lu_factor(a), b.mT, left=False, adjoint=True),
        (A, B),
    ),
    "lu_solve of one matrix": (lambda a, b: L.lu_solve(*L.lu_factor(a), b), (A[0], B)),
    "cholesky_ex": (
        lambda a: L.cholesky_ex(a @ a.mT + G.eye(4, dtype=a.dtype), upper=True).L,
        (A,),
    ),
    "inv_ex": (lambda a: L.inv_ex(a).inverse, (A,)),
    "solve_ex": (lambda a, b: L.solve_ex(a, b).result, (A, B)),
    "solve_ex from the right": (lambda a, b: L.solve_ex(a, b.mT, left=False).result, (A, B)),
    "matrix_exp": (L.matrix_exp, (A,)),
    "matrix_exp of large ones": (lambda a: L.matrix_exp(a * 3), (A,)),
    "householder_product": (L.householder_product, (TALL, numbers(2, 3))),
}


def run(fn, arrays):
    inputs = [leaf(a) for a in arrays]
    results = fn(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    sum(
        (y * (G.arange(y.numel(), dtype=y.dtype) % 5 + 1).reshape(y.shape)).sum() for y in results
    ).backward()
    return [y.detach() for y in results] + [x.grad for x in inputs]


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_both_orders_are_those_of_differences(name):
    fn, arrays = CASES[name]
    first = [leaf(a[:1] if a.ndim == 3 else a) for a in arrays]
    assert G.autograd.gradcheck(fn, first, atol=1e-4, rtol=1e-4) and G.autograd.gradgradcheck(
        fn, first, atol=1e-3, rtol=1e-3
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_is_plain_to_the_bit_without_a_break(backend):
    different = []
    for name, (fn, arrays) in CASES.items():
        G._dynamo.reset()
        compiled = G.compile(fn, backend=backend, fullgraph=True, dynamic=False)
        if [t.numpy().tobytes() for t in run(fn, arrays)] != [
            t.numpy().tobytes() for t in run(compiled, arrays)
        ]:
            different.append(name)
    assert not different


@pytest.mark.parametrize("x", [A, TALL, WIDE, numbers(3, 3), numbers(2, 2, 6, 6)])
def test_factors_multiply_to_the_matrix(x):
    p, lower, upper = L.lu(ours(x))
    close(p @ lower @ upper, x)
    again = G.lu_unpack(*L.lu_factor_ex(ours(x))[:2])
    assert (again.L == lower).all() and (again.U == upper).all() and (again.P == p).all()
    close(p @ p.mT, np.broadcast_to(np.eye(x.shape[-2]), p.shape))
    assert L.lu_factor_ex(ours(x)).pivots.dtype == G.int32


def test_systems_are_solved():
    lu, pivots = L.lu_factor(ours(A))
    close(L.lu_solve(lu, pivots, ours(B)), np.linalg.solve(A, B))
    close(L.lu_solve(lu, pivots, ours(B), adjoint=True), np.linalg.solve(A.swapaxes(1, 2), B))
    close(ours(A) @ ours(B).lu_solve(lu, pivots), B)
    close(L.lu_solve(lu, pivots, ours(B).mT, left=False) @ ours(A), B.swapaxes(1, 2))


def test_info_says_which_matrices_have_none():
    a = ours(np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0]), np.diag([1.0, 1.0, 0.0])]))
    assert L.cholesky_ex(a).info.tolist() == [0, 2, 3] and L.inv_ex(a).info.tolist() == [0, 0, 3]
    assert L.lu_factor_ex(a).info.tolist() == [0, 0, 3] and L.solve_ex(a, a).info.tolist() == [
        0,
        0,
        3,
    ]
    assert L.cholesky_ex(a[0]).info.item() == 0 and L.cholesky_ex(a).info.dtype == G.int32
    close(L.inv_ex(a).inverse[1], np.diag([1.0, -1.0, 1.0]))
    with pytest.raises(L.LinAlgError, match=r"batch element 1\): .* order 2"):
        L.cholesky_ex(a, check_errors=True)
    with pytest.raises(L.LinAlgError, match=r"batch element 2\): "):
        L.lu_factor(a)
    with pytest.raises(RuntimeError, match="pivoting"):
        L.lu(a, pivot=False)


def test_known_exponentials():
    nilpotent, turn = np.triu(np.ones((4, 4)), 1), np.array([[0.0, -1.0], [1.0, 0.0]])
    close(
        L.matrix_exp(ours(nilpotent)),
        np.eye(4) + nilpotent + nilpotent @ nilpotent / 2 + nilpotent @ nilpotent @ nilpotent / 6,
        1e-15,
    )
    for angle in (0.5, 3.0, 100.0):
        close(
            L.matrix_exp(ours(turn * angle)),
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]],
            1e-12,
        )
    both = L.matrix_exp(ours(np.stack([np.zeros((2, 2)), np.diag([-3.0, 300.0])])))
    assert (
        both[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
        and abs(both[1, 1, 1].item() / math.exp(300) - 1) < 1e-12
    )
    close(both[1, 0, 0], math.exp(-3), 1e-13)
    assert (
        G.matrix_exp(G.zeros(0, 3, 3)).shape == (0, 3, 3) and ours(A).matrix_exp().shape == A.shape
    )
    assert (
        L.matrix_exp(G.eye(2)).dtype == G.float32
        and L.matrix_exp(G.full((2, 2), math.nan)).isnan().all()
    )


def test_products_of_reflections():
    want = np.linalg.qr(TALL[0])
    raw, tau = np.linalg.qr(TALL[0], mode="raw")
    close(L.householder_product(ours(raw.T.copy()), ours(tau)), want[0])
