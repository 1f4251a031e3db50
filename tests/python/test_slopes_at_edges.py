# SPDX-License-Identifier: Apache-2.0
"""Gradients where a formula would be 0 / 0 or infinity * 0: what optimisers meet when something
saturates.  Eager and compiled, to the bit."""

import math

import numpy as np
import pytest

import gramme as G

F = G.nn.functional
INF, NAN = math.inf, math.nan
BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]


def bce(p, t):
    return F.binary_cross_entropy(p, t, reduction="none")


# What is called; its arguments; its values; for each argument the gradient of the sum, or None
# where it is not looked at.
CASES = {
    "atan2": (G.atan2, [[0.0, 0.0, 1.0], [0.0, -0.0, 0.0]], [0.0, math.pi, math.pi / 2], [[0.0, 0.0, 0.0], [0.0, 0.0, -1.0]]),
    "asin": (G.asin, [[-1.0, 0.0, 1.0]], [-math.pi / 2, 0.0, math.pi / 2], [[INF, 1.0, INF]]),
    "acos": (G.acos, [[-1.0, 0.0, 1.0]], [math.pi, math.pi / 2, 0.0], [[-INF, -1.0, -INF]]),
    "xlogy": (
        G.xlogy, [[0.0, 0.0, 0.0, 0.0, 2.0], [math.e, 0.0, -1.0, INF, 1.0]], [0.0] * 5,
        [[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 2.0]],
    ),
    "xlog1py": (
        G.special.xlog1py, [[0.0, 0.0, 0.0, 2.0], [math.e - 1, -1.0, -2.0, 0.0]], [0.0] * 4,
        [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]],
    ),
    "binary_cross_entropy": (
        bce, [[0.0, 0.0, 1.0, 1.0, 0.5, 1e-20], [0.0, 1.0, 0.0, 1.0, 0.5, 1.0]],
        [0.0, 100.0, 100.0, 0.0, math.log(2), -math.log(1e-20)],
        [[0.0, -1e12, 1e12, 0.0, 0.0, -1e12], None],
    ),
    (
        "median of equal elements"
    ): (G.median, [[3.0, 1.0, 3.0, 3.0, 0.0]], 3.0, [[1 / 3, 0.0, 1 / 3, 1 / 3, 0.0]]),
    "nanmedian": (G.nanmedian, [[3.0, 1.0, 3.0, 3.0, 0.0, NAN]], 3.0, [[1 / 3, 0.0, 1 / 3, 1 / 3, 0.0, 0.0]]),
    "median with NaN": (G.median, [[3.0, NAN]], NAN, [[0.0, 1.0]]),
    "norm 3": (lambda x: G.linalg.vector_norm(x, 3, -1), [[[0.0, 0.0], [0.0, -2.0]]], [0.0, 2.0], [[[0.0, 0.0], [0.0, -1.0]]]),
    "norm 0.5": (lambda x: G.linalg.vector_norm(x, 0.5, -1), [[[0.0, 0.0], [0.0, -2.0]]], [0.0, 2.0], [[[0.0, 0.0], [0.0, -1.0]]]),
    "norm -1": (lambda x: G.linalg.vector_norm(x, -1, -1), [[[0.0, 1.0], [2.0, 2.0]]], [0.0, 1.0], [[[0.0, 0.0], [0.25, 0.25]]]),
    "distances": (lambda x, y: G.cdist(x, y, p=3.0), [[[0.0, 0.0]], [[0.0, 0.0], [2.0, 0.0]]], [[0.0, 2.0]], [[[-1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]]),
    "margin_ranking_loss": (
        lambda x, y: F.margin_ranking_loss(x, y, G.ones(1, dtype=G.float64), reduction="none"),
        [[1.0], [1.0]], [0.0], [[-1.0], [1.0]],
    ),
    "hinge_embedding_loss": (lambda x: F.hinge_embedding_loss(x, -G.ones(1, dtype=G.float64), reduction="none"), [[1.0]], [0.0], [[-1.0]]),
    "fmod": (G.fmod, [[-1.0, -1.0, -6.0, 7.0, -7.5], [1e30, INF, 3.0, -4.0, 2.0]], [-1.0, -1.0, -0.0, 3.0, -1.5], [[1.0] * 5, None]),
}  # fmt: skip


def run(fn, arguments):
    leaves = [G.tensor(a, dtype=G.float64, requires_grad=True) for a in arguments]
    y = fn(*leaves)
    y.sum().backward()
    return y.detach(), [x.grad for x in leaves]


@pytest.mark.parametrize("name", CASES)
def test_values_and_slopes(name):
    fn, arguments, want, slopes = CASES[name]
    y, have = run(fn, arguments)
    assert np.allclose(y.numpy(), want, rtol=1e-12, atol=0, equal_nan=True)
    for g, slope in zip(have, slopes):
        assert slope is None or np.allclose(g.numpy(), slope, rtol=1e-9, atol=0), g
    for backend in BACKENDS:
        G._dynamo.reset()
        z, again = run(G.compile(fn, backend=backend), arguments)
        assert z.numpy().tobytes() == y.numpy().tobytes() and [
            g.numpy().tobytes() for g in again
        ] == [g.numpy().tobytes() for g in have]


def test_a_saturated_classifier_still_learns():
    """sigmoid is 1 exactly for a large argument: the loss's slope is finite there, and 0 where it
    is right."""
    for target in (0.0, 1.0):
        x = G.tensor([50.0, -200.0, 0.5], requires_grad=True)
        F.binary_cross_entropy(G.sigmoid(x), G.full((3,), target)).backward()
        assert x.grad.isfinite().all() and x.grad[2] != 0


def test_the_slope_of_the_loss_has_a_slope():
    p, t = G.tensor([0.2, 0.5, 0.9], dtype=G.float64, requires_grad=True), G.tensor(
        [0.1, 0.7, 0.9], dtype=G.float64, requires_grad=True
    )
    assert G.autograd.gradcheck(bce, (p, t)) and G.autograd.gradgradcheck(bce, (p, t))


def test_signs_of_zeros_and_integers():
    have = G.fmod(G.tensor([-6.0, 6.0, -0.0, 0.0]), G.tensor([3.0, -3.0, 2.0, -2.0]))
    assert have.signbit().tolist() == [True, False, True, False]
    least = -(2**63)
    assert G.fmod(G.tensor([least, -7, 7, -7]), G.tensor([3, 3, -3, -3])).tolist() == [
        -2,
        -1,
        1,
        -1,
    ]
    assert G.xlogy(G.zeros(1), G.tensor([0.5])).signbit().tolist() == [False]


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("floats", [False, True])
def test_attention_of_a_row_without_a_key_is_zero(backend, floats):
    """Padding often leaves such rows: what they give is 0, and nothing flows back through them."""
    keep = G.tensor([[True, False, True], [False, False, False], [True, True, True]])
    mask = G.zeros(3, 3).masked_fill(~keep, -INF) if floats else keep
    found = []
    f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask)
    for fn in (f, f if backend is None else G.compile(f, backend=backend)):
        G.manual_seed(0)
        q, k, v = [G.randn(2, 3, 4, requires_grad=True) for _ in range(3)]
        y = fn(q, k, v)
        y.sum().backward()
        found.append([t.detach().numpy().tobytes() for t in (y, q.grad, k.grad, v.grad)])
    assert (
        found[0] == found[1]
        and (y[:, 1] == 0).all()
        and (q.grad[:, 1] == 0).all()
        and k.grad.isfinite().all()
    )
    want = F.softmax((q @ k.mT / 2).masked_fill(~keep, -INF), -1) @ v
    assert np.allclose(y[:, [0, 2]].detach().numpy(), want[:, [0, 2]].detach().numpy(), atol=1e-6)
    padded = keep.any(0).logical_not().reshape(1, 1, 3) | G.tensor([[[False]], [[True]]])
    assert (F.scaled_dot_product_attention(q, k, v, ~padded)[1] == 0).all()
