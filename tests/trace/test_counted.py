# SPDX-License-Identifier: Apache-2.0
"""Sizes that data says: nonzero, masks, unique, item() as a size.  They stay in one graph, which
serves every count; what a program says of them by gramme._check() is checked by each call."""

import numpy as np
import pytest

import gramme as G
from gramme import nn
from gramme._dynamo import config
from gramme._dynamo.utils import counters

from stress import undisturbed

BACKENDS = ("eager", "tcc", "cc")


@pytest.fixture(autouse=True)
def nothing_seen_yet(monkeypatch):
    G.compiler.reset()
    monkeypatch.setattr(config, "capture_scalar_outputs", True)


def same(a, b):
    if isinstance(a, G.Tensor):
        return (
            isinstance(b, G.Tensor)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and repr(a.tolist()) == repr(b.tolist())
        )
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


PROGRAMS = {
    "nonzero": lambda x: G.nonzero(x > 0),
    "nonzero of floats": lambda x: (x.relu() * 2).nonzero() + 1,
    "nonzero as a tuple": lambda x: x[(x > 0).nonzero(as_tuple=True)] * 2,
    "argwhere": lambda x: G.argwhere(x > 0.5),
    "a mask": lambda x: x[x > 0] * 2 + 1,
    "a mask of rows": lambda x: nn.functional.softmax(x[x.sum(1) > 0], dim=-1),
    "a mask of columns": lambda x: x[:, x.sum(0) > 0].tanh(),
    "a mask beside a slice": lambda x: x[1:, x[1] > 0].exp(),
    "masked_select": lambda x: G.masked_select(x, x[0] > 0).sum(),
    "the count itself": lambda x: (
        x[x > 0].shape[0] + 1,
        x[x > 0].relu(),
        (x > 0).nonzero().numel(),
    ),
    "a mask of what a mask gave": lambda x: x[x > 0][x[x > 0] > 0.5] * 3,
    "two counts": lambda x: (
        x[x > 0].sum(),
        x[x < 0].tanh(),
        x[x > 0].reshape(-1, 1) @ x[x < 0].reshape(1, -1),
    ),
    "products": lambda x: x[x.sum(1) > 0] @ x.T,
    "made as large": lambda x: G.zeros(x[x > 0].shape[0], 2) + x[x > 0][:, None],
    "unique": lambda x: G.unique((x * 2).long()),
    "unique with all": lambda x: G.unique((x * 2).long(), return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x: G.unique_consecutive(
        (x > 0).reshape(-1), return_inverse=True, return_counts=True
    ),
    "repeat_interleave": lambda x: G.repeat_interleave(x, (x.sum(1) > 0).long() * 2, dim=0) + 1,
    "a part of it": lambda x: (x[x > 0][:3] * 2, x[x > 0].cumsum(0)),
    "joined": lambda x: G.cat([x[x > 0], x[0], x[x < 0]]) * 2,
    "a view of it": lambda x: x[x.sum(1) > 0].T,
    "beside a write": lambda x: (x.add_(1), x[x > 1] * 2)[1],
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_whose_sizes_data_says(name, backend):
    f = PROGRAMS[name]
    c = G.compile(f, backend=backend, fullgraph=True, dynamic=True)
    for n in (6, 5, 9, 4, 20, 5):
        x = G.randn(n, 5)
        for values in (x, x.abs(), -x.abs() - 1):
            out = []
            for g in (f, c):
                G.manual_seed(n)
                out.append(g(values.clone()))
            assert same(*out), (n, values)


@undisturbed
@pytest.mark.parametrize("backend", ("tcc", "cc"))
def test_one_compilation_serves_a_hundred_counts(backend):
    def f(x, w):
        y = (x @ w).tanh()
        z = y[y > 0]
        i, j = (y > 0.2).nonzero(as_tuple=True)
        return (
            (z * z).sum() + G.masked_select(y, y < 0).exp().sum() + (y[i, j] * 3).sum(),
            z,
            G.unique((y * 4).long()),
        )

    c = G.compile(f, backend=backend, fullgraph=True)
    before = None
    for n in (4, *range(3, 103)):
        x, w, got = G.randn(n, 4), G.randn(4, 6), []
        for g in (f, c):
            a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
            loss, z, u = g(a, b)
            (loss + (z * z).sum()).backward()
            got.append((loss, z, u, a.grad, b.grad))
        assert same(*got), n
        before = before or counters["backend"]["compiles"]
    assert (
        c.status()["graphs"] == 2 and counters["backend"]["compiles"] == 2 * before
    ), "for the first size, then for all"


def test_what_decides_a_size_is_in_the_graph():
    text = str(
        G.compiler.explain(G.compile(lambda x: x[x > 0], backend="tcc", fullgraph=True))(
            G.randn(4, 4)
        )
    )
    assert "index_add" in text and ", 0 breaks" in text, text


@pytest.mark.parametrize("backend", BACKENDS)
def test_facts_are_checked_when_the_size_is_known(backend):
    def f(x):
        y = x[x > 0]
        G._check(y.shape[0] > 2, "too few")
        return y[1:] - y[:-1], y.max()

    c = G.compile(f, backend=backend, fullgraph=True)
    for n in (4, 5, 7):
        x = G.rand(n)
        assert same(c(x), f(x))
    for x in (G.rand(2), -G.rand(9)):
        for g in (f, c):
            with pytest.raises(RuntimeError, match="^too few$"):
                g(x)
    assert same(c(x := G.rand(8)), f(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_item_as_a_size(backend):
    def f(x):
        n = (x > 0).sum().item()
        G._check(n >= 1, "none")
        G._check(n <= 25)
        return G.zeros(n) + 1, x.reshape(-1)[:n], G.ones(2 * n + 1, 2).sum(), n

    c = G.compile(f, backend=backend, fullgraph=True)
    for n in (4, 4, 3, 5, 2):
        x = G.randn(n, 5)
        x[0, 0] = 1
        assert same(c(x), f(x))
    for g in (f, c):
        with pytest.raises(RuntimeError, match="^none$"):
            g(-G.rand(3, 5))
    with pytest.raises(RuntimeError, match="does not hold"):
        c(G.rand(6, 5))


def test_a_question_that_data_decides_says_what_would_help():
    def branch(x):
        return x * 2 if x[x > 0].shape[0] > 5 else x

    def negative(x):
        return G.zeros((x > 0).sum().item())

    for f, advice in (
        (branch, r"gramme\._check \(u0 <= 5\)"),
        (negative, r"gramme\._check \(0 <= u0\)"),
    ):
        with pytest.raises(G.compiler.Unsupported, match=advice) as error:
            G.compile(f, fullgraph=True)(G.randn(4))
        assert "DATA_DEPENDENT_SIZE" in str(error.value) and "u0 is " in str(error.value)
        c = G.compile(f)
        for x in (G.rand(9), -G.rand(9)):
            assert same(c(x), f(x))


# Of a vector whose size data says: what each does, or whether it fails, depends on that size.
DECIDED = {
    "squeeze": lambda y: y.squeeze(0),
    "reshape": lambda y: y.reshape(2, -1),
    "view": lambda y: y.view(3),
    "expand": lambda y: y.expand(3),
    "broadcast": lambda y: y + G.ones(3),
    "item": lambda y: y.sum() * y.item(),
    "unbind": lambda y: y.unbind()[0],
    "split": lambda y: y.split([1, 2])[1],
    "chunk": lambda y: y.chunk(2)[1],
    "an item": lambda y: y[2],
    "narrow": lambda y: y.narrow(0, 1, 2),
    "of none": lambda y: y.max(),
    "topk": lambda y: y.topk(2)[0],
    "cat": lambda y: G.cat([y[None], G.ones(1, 3)]),
    "matmul": lambda y: y @ G.ones(3),
    "unfold": lambda y: y.unfold(0, 2, 1),
    "pad": lambda y: nn.functional.pad(y[None], (2, 2), mode="reflect"),
    "a write": lambda y: G.zeros(3).copy_(y),
    "a branch": lambda y: y.sum() if y.numel() > 3 else y,
}


@pytest.mark.parametrize("caught", [False, True])
@pytest.mark.parametrize("name", DECIDED)
def test_what_data_decides_is_never_guessed(name, caught):
    def plain(x):
        return DECIDED[name](x[x > 0])

    def with_handler(x):
        y = x[x > 0]
        try:
            return DECIDED[name](y)
        except (RuntimeError, IndexError, ValueError):
            return x - 1

    def outcome(f, n):
        try:
            return f(G.where(G.arange(7) < n, 2.0, -1.0))
        except Exception as error:
            return type(error)

    f = with_handler if caught else plain
    for order in ((3, 4, 0, 1, 5, 6, 2, 3), (1, 2, 3), (0, 1, 6)):
        G.compiler.reset()
        c = G.compile(f, backend="eager")
        for n in order:
            assert same(outcome(c, n), outcome(f, n)), n


def test_a_fact_decides_a_branch():
    def f(x):
        y = x[x > 0]
        G._check(y.shape[0] >= 3)
        return y * 2 if y.shape[0] > 2 else y

    c = G.compile(f, fullgraph=True)
    assert same(c(x := G.rand(5)), f(x))
    with pytest.raises(RuntimeError, match="does not hold"):
        c(G.rand(2))


def test_a_guard_is_not_left_out_for_what_a_later_check_says():
    def f(x):
        y = x * 2 if x.shape[0] <= 5 else x * 3
        z = y[y > 0]
        if x.shape[0] <= 5:
            G._check(z.shape[0] <= 5)
            G._check(z.shape[0] >= x.shape[0])
        return z

    c = G.compile(f, dynamic=True)
    for n in (3, 4, 9, 5, 12, 2):
        assert same(c(x := G.rand(n) + 1), f(x)), n


def test_breaks_where_it_is_switched_off(monkeypatch):
    monkeypatch.setattr(config, "capture_dynamic_output_shape_ops", False)
    f = lambda x: x[x > 0] * 2
    with pytest.raises(G.compiler.Unsupported, match="DYNAMIC_SHAPE"):
        G.compile(f, fullgraph=True)(G.randn(4))
    assert same(G.compile(f)(x := G.randn(4)), f(x))


@undisturbed
def test_what_cannot_go_through_the_stages_breaks_as_before():
    """Gradients that the program gives, and a back end in Python."""

    class Twice(G.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    for f, options in (
        (lambda x: Twice.apply(x)[x > 0], {}),
        (lambda x: (x * 2)[x > 0], {"backend": lambda g, inputs: g}),
    ):
        for n in (3, 4, 5):
            got = []
            for g in (f, G.compile(f, **options)):
                a = G.arange(-1.0, n).requires_grad_()
                y = g(a)
                y.sum().backward()
                got.append((y, a.grad))
            assert same(*got)


def test_functions_in_plain_python():
    x = G.tensor([[0, 3, 3], [1, 0, 3]])
    assert x.nonzero().tolist() == [[0, 1], [0, 2], [1, 0], [1, 2]]
    assert [t.tolist() for t in x.nonzero(as_tuple=True)] == [[0, 0, 1, 1], [1, 2, 0, 2]]
    assert [t.tolist() for t in G.where(x == 3)] == [[0, 0, 1], [1, 2, 2]]
    with pytest.raises(TypeError, match="or neither"):
        G.where(x == 3, x)
    assert G.nonzero(G.tensor(3)).shape == (1, 0) and G.nonzero(G.tensor(0)).shape == (0, 0)
    assert G.argwhere(G.tensor([0.0, -0.0, 2.0])).tolist() == [[2]]
    assert G.masked_select(x, x > 2).tolist() == [3, 3, 3] and G.masked_select(
        x, G.tensor([True, False, True])
    ).tolist() == [0, 3, 1, 3]
    values, inverse, n = G.unique(x, return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), n.tolist()) == (
        [0, 1, 3],
        [[0, 2, 2], [1, 0, 2]],
        [2, 1, 3],
    )
    values, inverse, n = G.unique_consecutive(x, return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), n.tolist()) == (
        [0, 3, 1, 0, 3],
        [[0, 1, 1], [2, 3, 4]],
        [1, 2, 1, 1, 1],
    )
    assert G.unique(G.zeros(0)).shape == (0,) and G.zeros(0, 3).nonzero().shape == (0, 2)
    with pytest.raises(RuntimeError, match="bool tensor"):
        G.masked_select(x, x)


@pytest.mark.parametrize("backend", [None, "eager", "tcc"])
def test_unique_of_slices(backend):
    """In the order of their elements, as numpy has them; how often each occurs, and which one each
    slice is."""
    rng = np.random.default_rng(4)
    for shape in ((7,), (6, 3), (3, 4, 2), (5, 1, 4), (1, 3), (0, 2)):
        for dim in range(-len(shape), len(shape)):
            if not np.prod([s for d, s in enumerate(shape) if d != dim % len(shape)]):
                continue
            for dtype in (np.int64, np.float32, np.bool_):
                x = rng.integers(0, 2, shape).astype(dtype)
                f = lambda t: G.unique(t, return_inverse=True, return_counts=True, dim=dim)
                h = lambda t: G.unique_consecutive(
                    t, return_inverse=True, return_counts=True, dim=dim
                )
                if backend:
                    G._dynamo.reset()
                    f, h = G.compile(f, backend=backend), G.compile(h, backend=backend)
                values, inverse, n = f(G.from_numpy(x.copy()))
                want = np.unique(x, axis=dim, return_inverse=True, return_counts=True)
                assert np.array_equal(values.numpy(), want[0]) and values.is_contiguous()
                assert np.array_equal(inverse.numpy(), want[1].reshape(-1)) and np.array_equal(
                    n.numpy(), want[2]
                )
                values, inverse, n = h(G.from_numpy(x.copy()))
                rows = np.moveaxis(x, dim, 0)
                new = [
                    i
                    for i in range(len(rows))
                    if i == 0 or not np.array_equal(rows[i], rows[i - 1])
                ]
                assert np.array_equal(
                    np.moveaxis(values.numpy(), dim, 0), rows[new]
                ) and n.sum() == len(rows)
                assert np.array_equal(
                    inverse.numpy(), np.searchsorted(new, np.arange(len(rows)), side="right") - 1
                )


def test_slices_that_unique_refuses():
    for f in (G.unique, G.unique_consecutive):
        with pytest.raises(RuntimeError, match="dimensions of size 0"):
            f(G.zeros(2, 0), dim=0)
        with pytest.raises(IndexError):
            f(G.zeros(2), dim=1)
        with pytest.raises(IndexError, match="no slices"):
            f(G.tensor(3.0), dim=0)
        assert f(G.zeros(2, 0), dim=1).shape == (2, 0)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_experts_get_their_tokens_in_one_graph(backend):
    """where() with a condition alone, rows by what it gives, and a sum back into their places: how
    mixtures of experts are written."""

    def f(x, choice, w):
        out = G.zeros_like(x)
        for k in range(2):
            rows, slots = G.where(choice == k)
            out = out.index_add(0, rows, x[rows] * w[rows, slots].unsqueeze(-1) * (k + 1))
        return out

    g = G.compile(f, backend=backend, fullgraph=True)
    for n in (3, 4, 7):
        x, w = G.randn(n, 2, requires_grad=True), G.rand(n, 2, requires_grad=True)
        choice = G.randint(0, 2, (n, 2))
        a, b = f(x, choice, w), g(x, choice, w)
        assert same(a, b)
        assert same(G.autograd.grad(b.sum(), (x, w)), G.autograd.grad(a.sum(), (x, w)))
