# SPDX-License-Identifier: Apache-2.0
"""gramme.linalg: values against numpy, gradients against differences, compiled against plain to the
bit, errors."""

import math

import numpy as np
import pytest

import gramme as G
from gramme import linalg as L

from arrays import close, ours

RNG = np.random.default_rng(7)
BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]


def numbers(*sizes):
    return RNG.normal(size=sizes)


A, B, TALL, WIDE = numbers(2, 4, 4), numbers(2, 4, 3), numbers(2, 5, 3), numbers(2, 3, 5)
SYMMETRIC = A + A.swapaxes(1, 2)
POSITIVE = A @ A.swapaxes(1, 2) + np.eye(4)


def positive(a):
    return a @ a.mT + G.eye(4, dtype=a.dtype)


def symmetric(a):
    return a + a.mT


# What is called, with what, and what numpy says; all of it is differentiable, and does not depend
# on the signs of vectors.
CASES = {
    "solve": (L.solve, (A, B), np.linalg.solve),
    "solve from the right": (
        lambda a, b: L.solve(a, b.mT, left=False),
        (A, B),
        lambda a, b: b.swapaxes(1, 2) @ np.linalg.inv(a),
    ),
    "solve one batch": (L.solve, (A[0], B), lambda a, b: np.linalg.inv(a) @ b),
    "inv": (L.inv, (A,), np.linalg.inv),
    "det": (L.det, (A,), np.linalg.det),
    "slogdet": (lambda a: L.slogdet(a).logabsdet, (A,), lambda a: np.linalg.slogdet(a)[1]),
    "logdet": (
        lambda a: L.logdet(positive(a)),
        (A,),
        lambda a: np.log(np.linalg.det(a @ a.swapaxes(1, 2) + np.eye(4))),
    ),
    "cholesky": (
        lambda a: L.cholesky(positive(a)),
        (A,),
        lambda a: np.linalg.cholesky(a @ a.swapaxes(1, 2) + np.eye(4)),
    ),
    "cholesky_solve": (
        lambda a, b: G.cholesky_solve(b, L.cholesky(positive(a))),
        (A, B),
        lambda a, b: np.linalg.solve(a @ a.swapaxes(1, 2) + np.eye(4), b),
    ),
    "triangular": (
        lambda a, b: L.solve_triangular(a.tril() + 2 * G.eye(4, dtype=a.dtype), b, upper=False),
        (POSITIVE, B),
        lambda a, b: np.linalg.solve(np.tril(a) + 2 * np.eye(4), b),
    ),
    "triangular, ones": (
        lambda a, b: L.solve_triangular(a, b, upper=True, unitriangular=True),
        (A, B),
        lambda a, b: np.linalg.solve(np.triu(a, 1) + np.eye(4), b),
    ),
    "qr of tall": (
        lambda a: sum(L.qr(a)[0].abs().sum((1, 2))) + L.qr(a).R.abs().sum(),
        (TALL,),
        lambda a: sum(np.abs(x).sum() for m in a for x in np.linalg.qr(m)),
    ),
    "qr of wide": (
        lambda a: L.qr(a).R.abs().sum((1, 2)),
        (WIDE,),
        lambda a: np.array([np.abs(np.linalg.qr(m)[1]).sum() for m in a]),
    ),
    "svdvals": (L.svdvals, (TALL,), lambda a: np.linalg.svd(a, compute_uv=False)),
    "svd": (
        lambda a: L.svd(a, False).U.abs() @ L.svd(a, False).Vh.abs(),
        (WIDE,),
        lambda a: (lambda u, s, v: np.abs(u) @ np.abs(v))(*np.linalg.svd(a, False)),
    ),
    "eigvalsh": (
        lambda a: L.eigvalsh(symmetric(a)),
        (A,),
        lambda a: np.linalg.eigvalsh(a + a.swapaxes(1, 2)),
    ),
    "eigh": (
        lambda a: L.eigh(symmetric(a)).eigenvectors.abs(),
        (A,),
        lambda a: np.abs(np.linalg.eigh(a + a.swapaxes(1, 2))[1]),
    ),
    "pinv": (L.pinv, (TALL,), np.linalg.pinv),
    "pinv of low rank": (
        lambda a: L.pinv(a @ a.mT, rtol=1e-5),
        (TALL,),
        lambda a: np.linalg.pinv(a @ a.swapaxes(1, 2), rcond=1e-5),
    ),
    "pinv, hermitian": (
        lambda a: L.pinv(symmetric(a), hermitian=True),
        (A,),
        lambda a: np.linalg.pinv(a + a.swapaxes(1, 2)),
    ),
    "lstsq": (
        lambda a, b: L.lstsq(a, b).solution,
        (TALL, numbers(2, 5, 2)),
        lambda a, b: np.linalg.pinv(a) @ b,
    ),
    "negative power": (
        lambda a: L.matrix_power(a, -2),
        (A,),
        lambda a: np.linalg.matrix_power(a, -2),
    ),
    "multi_dot": (
        lambda a, b, c: L.multi_dot([a, b, c]),
        (TALL[0], WIDE[0], numbers(5)),
        lambda a, b, c: a @ b @ c,
    ),
    "nuclear norm": (
        lambda a: L.matrix_norm(a, "nuc"),
        (TALL,),
        lambda a: np.array([np.linalg.norm(m, "nuc") for m in a]),
    ),
    "spectral norm": (lambda a: L.norm(a, 2), (TALL[0],), lambda a: np.linalg.norm(a, 2)),
    "norm of columns": (
        lambda a: L.matrix_norm(a, 1),
        (TALL,),
        lambda a: np.array([np.linalg.norm(m, 1) for m in a]),
    ),
    "norm of vectors": (
        lambda a: L.vector_norm(a, 3, 1),
        (TALL,),
        lambda a: (np.abs(a) ** 3).sum(1) ** (1 / 3),
    ),
    "cond": (L.cond, (A,), np.linalg.cond),
    "tensorsolve": (L.tensorsolve, (numbers(2, 3, 6), numbers(2, 3)), np.linalg.tensorsolve),
    "tensorinv": (
        lambda a: L.tensorinv(a, 1),
        (numbers(6, 2, 3),),
        lambda a: np.linalg.tensorinv(a, 1),
    ),
    "cross": (L.cross, (TALL, TALL[::-1]), np.cross),
    "vander": (lambda x: L.vander(x, 4), (numbers(3),), lambda x: np.vander(x, 4, True)),
}


def weighted(y):
    return (y * (G.arange(y.numel(), dtype=y.dtype) % 7 * 0.25 + 0.5).reshape(y.shape)).sum()


def value_and_gradients(fn, arrays):
    inputs = [ours(a).requires_grad_() for a in arrays]
    y = fn(*inputs)
    weighted(y).backward()
    return [y.detach()] + [x.grad for x in inputs]


@pytest.mark.parametrize("name", CASES)
def test_value_is_that_of_numpy(name):
    fn, arrays, theirs = CASES[name]
    close(fn(*[ours(a) for a in arrays]), theirs(*arrays), 1e-8)
    single = fn(*[ours(a.astype(np.float32)) for a in arrays])
    assert single.dtype == G.float32 and np.allclose(
        single.numpy(), theirs(*arrays), rtol=2e-2, atol=2e-3
    )


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_differences(name):
    fn, arrays, _ = CASES[name]
    for k, gradient in enumerate(value_and_gradients(fn, arrays)[1:]):
        step, want = 1e-6, np.zeros(arrays[k].shape)
        for place in np.ndindex(arrays[k].shape):
            sides = []
            for sign in (1, -1):
                moved = [np.array(a) for a in arrays]
                moved[k][place] += sign * step
                sides.append(float(weighted(fn(*[ours(a) for a in moved]))))
            want[place] = (sides[0] - sides[1]) / (2 * step)
        assert np.allclose(
            gradient.numpy(), want, rtol=1e-4, atol=1e-5 * max(1, np.abs(want).max())
        ), (k, gradient, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_is_plain_to_the_bit_without_a_break(backend):
    different = []
    for name, (fn, arrays, _) in CASES.items():
        if name == "lstsq":
            continue  # its rank decides what it returns
        G._dynamo.reset()
        compiled = G.compile(fn, backend=backend, fullgraph=True, dynamic=False)
        for a, b in zip(value_and_gradients(fn, arrays), value_and_gradients(compiled, arrays)):
            if a.numpy().tobytes() != b.numpy().tobytes():
                different.append(name)
    assert not different


def test_a_gradient_has_a_gradient():
    x = ours(A[0]).requires_grad_()
    (g,) = G.autograd.grad(L.logdet(positive(x)), x, create_graph=True)
    (again,) = G.autograd.grad((g * ours(B[0][:, :1])).sum(), x)
    step, want = 1e-6, np.zeros((4, 4))
    for place in np.ndindex(4, 4):
        sides = []
        for sign in (1, -1):
            moved = A[0].copy()
            moved[place] += sign * step
            y = ours(moved).requires_grad_()
            (h,) = G.autograd.grad(L.logdet(positive(y)), y)
            sides.append(float((h * ours(B[0][:, :1])).sum()))
        want[place] = (sides[0] - sides[1]) / (2 * step)
    assert np.allclose(again.numpy(), want, rtol=1e-4, atol=1e-6)


def test_factors_multiply_to_the_matrix():
    for x in (TALL, WIDE, A):
        u, s, vh = L.svd(ours(x))
        m, n = x.shape[1:]
        assert u.shape == (2, m, m) and vh.shape == (2, n, n)
        close((u[..., : min(m, n)] * s.unsqueeze(1)) @ vh[:, : min(m, n)], x)
        for mode in ("reduced", "complete"):
            q, r = L.qr(ours(x), mode)
            close(q @ r, x)
            close(q.mT @ q, np.broadcast_to(np.eye(q.shape[-1]), (2, q.shape[-1], q.shape[-1])))
    w, v = L.eigh(ours(SYMMETRIC), "U")
    close((v * w.unsqueeze(1)) @ v.mT, SYMMETRIC)
    close(L.cholesky(ours(POSITIVE), upper=True).mT @ G.cholesky(ours(POSITIVE), True), POSITIVE)
    u, s, v = ours(TALL).svd()
    close((u * s.unsqueeze(1)) @ v.mT, TALL)
    close(ours(A).inverse() @ ours(A), np.broadcast_to(np.eye(4), A.shape))
    close(G.cholesky_inverse(L.cholesky(ours(POSITIVE))), np.linalg.inv(POSITIVE))


def test_singular_matrices():
    x = np.outer([1.0, 2.0, 3.0], [1.0, 0.5, 2.0])
    x[0, 0] = 0
    a = ours(x).requires_grad_()
    assert (
        abs(L.det(a).item()) < 1e-12
        and L.matrix_rank(a).item() == 2
        and L.matrix_rank(ours(TALL @ WIDE)).tolist() == [3, 3]
    )
    flat = ours(np.diag([1.0, 2.0, 0.0])).requires_grad_()
    L.det(flat).backward()
    close(flat.grad, np.diag([0.0, 0.0, 2.0]))
    assert (
        L.logdet(ours(np.diag([1.0, -1.0]))).isnan().item()
        and L.slogdet(ours(np.zeros((2, 2)))).logabsdet.item() == -math.inf
    )
    assert (
        L.inv(G.zeros(0, 0)).shape == (0, 0)
        and L.det(G.zeros(2, 0, 0)).tolist() == [1.0, 1.0]
        and L.svd(G.zeros(3, 0)).U.tolist() == G.eye(3).tolist()
    )
    assert L.lstsq(
        ours(TALL[0]), ours(B[0, :3, 0]).new_zeros(5), driver="gelsd"
    ).singular_values.shape == (3,)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: L.cholesky(-G.eye(3)), "leading minor of order 1"),
        (
            lambda: L.inv(G.stack([G.eye(2), G.zeros(2, 2)])),
            r"batch element 1\): the matrix is singular",
        ),
        (lambda: L.solve(G.eye(3), G.ones(2, 2)), "is no right side"),
        (lambda: L.det(G.ones(2, 3)), "square"),
        (lambda: L.inv(G.ones(2, 2, dtype=G.float16)), "float32 or float64"),
        (lambda: L.solve_triangular(G.zeros(2, 2), G.ones(2, 1), upper=True), "singular"),
        (lambda: L.svd(G.full((2, 2), math.nan)), "NaN"),
        (lambda: L.qr(G.ones(2, 2), "all"), "'complete'"),
        (lambda: L.multi_dot([G.ones(2, 3), G.ones(2, 3)]), "do not form a product"),
        (lambda: L.matrix_norm(G.ones(2, 2), 3), "not supported"),
    ],
)
def test_errors_say_what_is_wrong(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_a_compiled_function_raises_what_plain_python_does():
    compiled = G.compile(lambda x: L.cholesky(x) + 1, backend="eager", fullgraph=True)
    assert compiled(G.eye(2)).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    with pytest.raises(RuntimeError, match="leading minor of order 2"):
        compiled(G.tensor([[1.0, 2.0], [2.0, 1.0]]))
