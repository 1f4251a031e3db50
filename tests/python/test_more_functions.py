# SPDX-License-Identifier: Apache-2.0
"""Functions that are compositions: differences, histograms, reductions by index, polynomials,
cells, copies of views, tensors of given strides, factors of low rank; optimizers of matrices.
numpy, or stated values, plainly and compiled."""

import math

import numpy as np
import pytest

import gramme as G

backends = pytest.mark.parametrize("backend", [None, "eager", "tcc"])
X = (np.arange(12.0).reshape(3, 4) ** 2).astype("float32")


def run(f, backend, *args):
    return (G.compile(f, backend=backend, fullgraph=True) if backend else f)(*args)


def close(have, want, tolerance=1e-5):
    assert have.shape == np.shape(want)
    assert np.allclose(
        have.detach().numpy(), want, rtol=tolerance, atol=tolerance, equal_nan=True
    ), (have, want)


@backends
@pytest.mark.parametrize("order", [1, 2])
def test_gradient_is_numpys(order, backend):
    places = [[0.0, 1.0, 3.0], [0.0, 1.0, 4.0, 9.0]]
    for spacing, theirs in (
        (1, [1]),
        (2.0, [2.0]),
        ([2.0, 0.5], [2.0, 0.5]),
        ([G.tensor(p) for p in places], places),
    ):
        have = run(lambda x: G.gradient(x, spacing=spacing, edge_order=order), backend, G.tensor(X))
        for h, w in zip(have, np.gradient(X, *theirs, edge_order=order)):
            close(h, w)
    (one,) = run(lambda x: G.gradient(x, dim=-1, edge_order=order), backend, G.tensor(X))
    close(one, np.gradient(X, axis=1, edge_order=order))
    leaf = G.tensor(X, dtype=G.float64, requires_grad=True)
    assert G.autograd.gradcheck(lambda x: G.gradient(x, edge_order=order), (leaf,))


def test_gradient_takes_integers_and_refuses():
    assert [t.dtype for t in G.gradient(G.arange(4) ** 2)] == [G.float32]
    assert G.gradient(G.tensor([1.0, 4.0, 9.0]), spacing=None)[0].tolist() == [3.0, 4.0, 5.0]
    with pytest.raises(IndexError):
        G.gradient(G.ones(3), dim=1)
    for bad in (
        lambda: G.gradient(G.ones(1)),
        lambda: G.gradient(G.ones(2), edge_order=2),
        lambda: G.gradient(G.ones(3, 3), spacing=[1.0]),
        lambda: G.gradient(G.ones(5), edge_order=3),
        lambda: G.gradient(G.ones(3, 3), dim=(1, -1)),
    ):
        with pytest.raises(RuntimeError):
            bad()


HISTOGRAMS = {
    "a range that goes down": (
        lambda x: G.histogram(x, 3, range=(4.0, 0.0)),
        RuntimeError,
        "lower to the higher",
    ),
    "an infinite range": (
        lambda x: G.histogram(x, 3, range=(0.0, math.inf)),
        RuntimeError,
        "not finite",
    ),
    "a range that is no number": (
        lambda x: G.histogram(x, 3, range=(math.nan, 1.0)),
        RuntimeError,
        "not finite",
    ),
    "one end": (lambda x: G.histogram(x, 3, range=(1.0,)), RuntimeError, "two numbers"),
    "an element that is no number": (
        lambda x: G.histogram(x * math.nan, 3),
        RuntimeError,
        "not finite",
    ),
    "infinite elements": (lambda x: G.histogram(x * math.inf, 3), RuntimeError, "not finite"),
    "weights of another dtype": (
        lambda x: G.histogram(x, 3, weight=G.ones(4, dtype=G.float64)),
        RuntimeError,
        "weight has",
    ),
    "too few weights": (lambda x: G.histogram(x, 3, weight=G.ones(3)), RuntimeError, "weight has"),
    "edges of another dtype": (
        lambda x: G.histogram(x, G.tensor([0.0, 4.0], dtype=G.float64)),
        RuntimeError,
        "edges have",
    ),
    "edges and a range": (
        lambda x: G.histogram(x, G.tensor([0.0, 4.0]), range=(0.0, 1.0)),
        TypeError,
        "range goes with",
    ),
}


@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_refuse_what_torch_refuses(name):
    f, error, text = HISTOGRAMS[name]
    for run in (f, G.compile(f, backend="eager")):
        with pytest.raises(error, match=text):
            run(G.tensor([3.0, 1.0, 2.0, 1.0]))


def test_histograms_are_numpys():
    h = np.array([1.0, 2, 1, 0, 3, 3, 2.5, -1, 7])
    for bins, options in (
        (4, {}),
        (4, {"range": (0.0, 3.0)}),
        ([0.0, 1.0, 2.5, 3.0], {}),
        (3, {"density": True}),
        ([0.0, 1.0, 2.5, 3.0], {"density": True}),
    ):
        want, edges = np.histogram(h, bins, **options)
        have = G.histogram(
            G.tensor(h),
            G.tensor(bins, dtype=G.float64) if isinstance(bins, list) else bins,
            **options
        )
        close(have.hist, want), close(have.bin_edges, edges)
    want, _ = np.histogram(h, 3, weights=np.arange(9.0))
    close(G.tensor(h).histogram(3, weight=G.arange(9.0, dtype=G.float64))[0], want)
    assert [t.tolist() for t in G.histogram(G.ones(3), 2)] == [[0.0, 3.0], [0.5, 1.0, 1.5]]
    assert [t.tolist() for t in G.histogram(G.ones(0), 2)] == [[0.0, 0.0], [0.0, 0.5, 1.0]]


@backends
@pytest.mark.parametrize("itself", [True, False])
@pytest.mark.parametrize(
    "name, fold", [("prod", np.prod), ("amax", np.max), ("amin", np.min), ("mean", np.mean)]
)
def test_reductions_by_index(name, fold, itself, backend):
    source = np.arange(1.0, 13).reshape(3, 4).astype("float32")
    want = X.copy()
    for row in (0, 2):
        rows = ([X[row]] if itself else []) + [
            source[k] for k, to in enumerate((0, 2, 0)) if to == row
        ]
        want[row] = fold(np.stack(rows), 0)
    index = G.tensor([0, 2, 0])
    f = lambda x, s: x.index_reduce(0, index, s, name, include_self=itself)  # noqa: E731
    close(run(f, backend, G.tensor(X), G.tensor(source)), want)
    y = G.tensor(X)
    assert (
        run(
            lambda y, s: y.index_reduce_(0, index, s, name, include_self=itself),
            backend,
            y,
            G.tensor(source),
        )
        is y
    )
    close(y, want)
    leaves = [G.tensor(a + 1, dtype=G.float64, requires_grad=True) for a in (X, source + 0.5)]
    assert backend or G.autograd.gradcheck(f, leaves)


def test_index_reduce_of_a_scalar():
    assert G.tensor(2.0).index_reduce(0, G.tensor([0]), G.tensor(3.0), "prod").item() == 6.0
    assert (
        G.tensor(2.0).index_reduce(0, G.tensor(0), G.tensor(3.0), "amax", include_self=False).shape
        == ()
    )


def test_unknown_reductions_are_refused():
    with pytest.raises(RuntimeError, match="reduce to be one of"):
        G.tensor(X).index_reduce(0, G.tensor([0]), G.ones(1, 4), "sum")


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 8])
def test_kaisers_window(n, periodic):
    close(
        G.kaiser_window(n, periodic, beta=8.0),
        np.kaiser(n + 1, 8.0)[:-1] if periodic and n > 1 else np.kaiser(n, 8.0),
    )
    assert G.kaiser_window(n, dtype=G.float64).dtype is G.float64


POINTS = [-1.0, -0.5, 0.0, 0.3, 1.0, 1.5, 0.9]
POLYNOMIALS = {
    "chebyshev_polynomial_t": lambda n, x: np.polynomial.chebyshev.chebval(x, [0] * n + [1]),
    "hermite_polynomial_h": lambda n, x: np.polynomial.hermite.hermval(x, [0] * n + [1]),
    "hermite_polynomial_he": lambda n, x: np.polynomial.hermite_e.hermeval(x, [0] * n + [1]),
    "laguerre_polynomial_l": lambda n, x: np.polynomial.laguerre.lagval(x, [0] * n + [1]),
    "legendre_polynomial_p": lambda n, x: np.polynomial.legendre.legval(x, [0] * n + [1]),
    "shifted_chebyshev_polynomial_t": lambda n, x: np.polynomial.chebyshev.chebval(
        2 * x - 1, [0] * n + [1]
    ),
}
BY_ANGLE = {
    "chebyshev_polynomial_u": lambda n, a: np.sin((n + 1) * a) / np.sin(a),
    "chebyshev_polynomial_v": lambda n, a: np.cos((n + 0.5) * a) / np.cos(a / 2),
    "chebyshev_polynomial_w": lambda n, a: np.sin((n + 0.5) * a) / np.sin(a / 2),
}


@backends
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_numpys(name, backend):
    x, f = np.array(POINTS), getattr(G.special, name)
    for n in (0, 1, 2, 5, 9):
        close(run(lambda x: f(x, n), backend, G.tensor(x)), POLYNOMIALS[name](n, x), 1e-12)
    assert f(G.tensor(x), -1).tolist() == [0.0] * 7
    close(
        f(G.tensor(x[:3]), G.tensor([0, 3, 5])),
        [POLYNOMIALS[name](n, v) for n, v in zip((0, 3, 5), x)],
        1e-12,
    )
    assert G.autograd.gradcheck(lambda x: f(x, 4), (G.tensor(x, requires_grad=True),))


@pytest.mark.parametrize("name", BY_ANGLE)
def test_kinds_of_chebyshevs(name):
    angle = np.array([0.1, 0.7, 1.5, 2.9])
    for n in (0, 1, 2, 6, 11):
        close(getattr(G.special, name)(G.tensor(np.cos(angle)), n), BY_ANGLE[name](n, angle), 1e-10)
        close(
            getattr(G.special, "shifted_" + name)(G.tensor((np.cos(angle) + 1) / 2), n),
            BY_ANGLE[name](n, angle),
            1e-10,
        )


@backends
def test_cells_are_the_modules(backend):
    G.manual_seed(3)
    x, h = G.randn(2, 3), G.randn(2, 4)
    for cell, module in (
        (G.rnn_tanh_cell, G.nn.RNNCell(3, 4)),
        (G.rnn_relu_cell, G.nn.RNNCell(3, 4, nonlinearity="relu")),
        (G.gru_cell, G.nn.GRUCell(3, 4)),
    ):
        weights = [
            p.detach() for p in (module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh)
        ]
        close(run(cell, backend, x, h, *weights), module(x, h).detach().numpy())
    module = G.nn.LSTMCell(3, 4)
    weights = [
        p.detach() for p in (module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh)
    ]
    for have, want in zip(
        run(G.lstm_cell, backend, x, (h, h * 2), *weights), module(x, (h, h * 2))
    ):
        close(have, want.detach().numpy())


COPIES = {
    "view": ((4, 3),), "permute": ((1, 0),), "t": (), "transpose": (0, 1), "select": (0, 1),
    "split": (2,), "unbind": (), "squeeze": (), "unsqueeze": (1,), "expand": ((2, 3, 4),),
    "diagonal": (), "detach": (), "unfold": (1, 2, 1), "as_strided": ((2, 2), (1, 2)),
    "split_with_sizes": ([1, 2],),
}  # fmt: skip


@backends
@pytest.mark.parametrize("name", COPIES)
def test_copies_of_views(name, backend):
    x = G.tensor(X)
    have, want = run(lambda x: getattr(G, name + "_copy")(x, *COPIES[name]), backend, x), getattr(
        x, name
    )(*COPIES[name])
    for h, w in zip(
        have if isinstance(have, tuple) else [have], want if isinstance(have, tuple) else [want]
    ):
        assert (
            h.tolist() == w.tolist()
            and h.is_contiguous()
            and h.data_ptr() != x.data_ptr()
            and not h._is_view()
        )


def test_other_copies_and_writes():
    x = G.tensor(X)
    assert (
        G.alias_copy(x).tolist() == x.tolist()
        and G.slice_copy(x, 1, 1, 3).tolist() == X[:, 1:3].tolist()
    )
    want = X.copy()
    want.reshape(-1)[[1, 2, 6, 7]] = -1
    assert (
        G.as_strided_scatter(x, -G.ones(2, 2), (2, 2), (5, 1), 1).tolist()
        == want.tolist()
        == x.as_strided_scatter(-G.ones(2, 2), (2, 2), (5, 1), 1).tolist()
    )
    leaf, src = G.tensor(X, requires_grad=True), G.ones(2, 2, requires_grad=True)
    (leaf.as_strided_scatter(src, (2, 2), (5, 1)) * x).sum().backward()
    assert src.grad.tolist() == [[0.0, 1.0], [25.0, 36.0]] and leaf.grad.flatten().tolist() == [
        0,
        0,
        4,
        9,
        16,
        0,
        0,
        49,
        64,
        81,
        100,
        121,
    ]
    assert G.fill_(x, 3) is x and G.zero_(x).abs().sum() == 0 and G.detach_(x) is x
    assert [
        len(p) for p in (x.unsafe_chunk(2), G.unsafe_split(x, 1), x.unsafe_split_with_sizes([1, 2]))
    ] == [2, 3, 2]


def test_tensors_of_strides():
    for t, stride in (
        (G.empty_strided((2, 3), (1, 2)), (1, 2)),
        (G.ones(2, dtype=G.int32).new_empty_strided((2, 3), (4, 1)), (4, 1)),
        (G.empty_permuted((2, 3, 4), (0, 2, 1)), (12, 1, 3)),
    ):
        assert t.stride() == stride and not t._is_view() and t.zero_().sum().item() == 0
    assert (
        G.empty_strided((0, 3), (1, 1), dtype=G.int8).dtype is G.int8
        and G.empty_strided((2,), (1,), requires_grad=True).requires_grad
    )
    x = G.tensor(X)
    assert (
        x.is_set_to(x.view(3, 4))
        and not x.is_set_to(x.t())
        and not x.is_set_to(x.clone())
        and not x.is_inference()
    )


def test_rows_of_a_number():
    x = G.tensor([[1, 0], [2, 3]])
    assert G.nonzero_static(x, size=2).tolist() == [[0, 0], [1, 0]]
    assert x.nonzero_static(size=5, fill_value=9).tolist() == [
        [0, 0],
        [1, 0],
        [1, 1],
        [9, 9],
        [9, 9],
    ]


def test_low_ranks():
    G.manual_seed(0)
    a = G.tensor(np.sin(np.arange(60.0)).reshape(10, 6) * np.arange(1.0, 7))
    for A in (a, a.mT, a.expand(2, 10, 6).clone()):
        U, S, V = G.svd_lowrank(A, 4)
        close(U @ (S.unsqueeze(-2) * V).mT, A.numpy(), 1e-9)
        close(S, np.linalg.svd(A.numpy())[1][..., :4], 1e-9)
    U, S, V = G.pca_lowrank(a)
    close(U * S @ V.mT, (a - a.mean(0)).numpy(), 1e-9)
    with pytest.raises(ValueError):
        G.pca_lowrank(a, 7)


@backends
def test_pools_of_powers(backend):
    x = G.arange(64.0).reshape(1, 1, 4, 4, 4)
    want = np.sqrt((x.numpy().reshape(2, 2, 2, 2, 2, 2) ** 2).sum((1, 3, 5)))[None, None]
    close(run(lambda x: G.nn.functional.lp_pool3d(x, 2, 2), backend, x), want)
    close(G.nn.LPPool3d(2, 2)(x), want)


def test_in_place():
    close(G.tensor([0.5, 2.0]).polygamma_(1), [math.pi**2 / 2, math.pi**2 / 6 - 1])
    close(G.tensor([3.5]).mvlgamma_(1), [math.lgamma(3.5)])


# -- Optimizers ------------------------------------------------------------------------------------


def steps(make, n=5):
    w, b = (
        G.sin(G.arange(24.0)).reshape(6, 4).requires_grad_(),
        G.cos(G.arange(4.0)).requires_grad_(),
    )
    optimizer, losses = make(w, b), []
    for _ in range(n):
        optimizer.zero_grad()
        loss = ((G.cos(G.arange(12.0)).reshape(2, 6) @ w + b - 1) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return w, b, losses, optimizer


def test_adafactor_is_its_formula():
    w, b, losses, optimizer = steps(
        lambda w, b: G.optim.Adafactor([w, b], lr=0.5, weight_decay=0.1, d=2.0, beta2_decay=-0.5)
    )
    p = [np.sin(np.arange(24.0)).reshape(6, 4), np.cos(np.arange(4.0))]
    row, column, var = np.zeros((6, 1)), np.zeros((1, 4)), np.zeros(4)
    x = np.cos(np.arange(12.0)).reshape(2, 6)
    eps = np.finfo(np.float32).eps
    for t in range(1, 6):
        error = 2 * (x @ p[0] + p[1] - 1)
        grads, fresh = [x.T @ error, error.sum(0)], t**-0.5
        row += fresh * ((grads[0] ** 2).mean(1, keepdims=True) - row)
        column += fresh * ((grads[0] ** 2).mean(0, keepdims=True) - column)
        var += fresh * (grads[1] ** 2 - var)
        for k, size in enumerate((row * column / max(row.mean(), eps), var)):
            rate = max(1e-3, np.sqrt((p[k] ** 2).mean())) * min(0.5, t**-0.5)
            update = grads[k] / np.sqrt(np.maximum(size, eps * eps))
            p[k] = p[k] * (1 - 0.5 * 0.1) - rate * update / max(
                1, np.sqrt((update**2).mean()) / 2
            )
    close(w, p[0], 1e-4), close(b, p[1], 1e-4)
    assert set(optimizer.state[w]) == {"step", "row_var", "col_var"} and set(
        optimizer.state[b]
    ) == {"step", "variance"}


def test_muon_steps_by_orthogonal_matrices():
    before = G.sin(G.arange(24.0)).reshape(6, 4)
    w, _, losses, optimizer = steps(lambda w, b: G.optim.Muon([w], lr=0.1, weight_decay=0.0), 1)
    sizes = np.linalg.svd(((before - w.detach()) / (0.1 * math.sqrt(6 / 4))).numpy())[1]
    assert (sizes[:2] > 0.6).all() and (sizes[:2] < 1.3).all()  # of the gradient's two
    _, _, losses, _ = steps(
        lambda w, b: G.optim.Muon([w], lr=0.05, adjust_lr_fn="match_rms_adamw"), 30
    )
    assert losses[-1] < losses[0] / 2
    assert set(optimizer.state[w]) == {"momentum_buffer"}


def test_options_are_checked():
    w = G.ones(2, 2, requires_grad=True)
    for bad in (
        lambda: G.optim.Muon([G.ones(3, requires_grad=True)]), lambda: G.optim.Muon([w], lr=-1),
        lambda: G.optim.Muon([w], adjust_lr_fn="none"),
        lambda: G.optim.Adafactor([w], d=0.5), lambda: G.optim.Adafactor([w], beta2_decay=0.1),
        lambda: G.optim.Adafactor([w], eps=(-1, 1)),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            bad()
