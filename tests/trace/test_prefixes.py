# SPDX-License-Identifier: Apache-2.0
"""associative_scan of lengths that change: one compilation, with the bits of plain Python, forward
and backward."""

import types

import pytest

import gramme as G
from gramme.higher_order import associative_scan, cond, map, scan, while_loop
from stress import FORCED, undisturbed

BACKENDS = [name for name in ("eager", "tcc", "cc") if name in G.compiler.list_backends()]
LENGTHS = [7, 12, 5, 33, 64, 2, 3, 4, 63, 65, 31, 100, 6]


def fresh(fn):
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def leaf(*shape):
    return G.randn(*shape).requires_grad_(True)


def outcome(f, leaves):
    """Values and gradients, of copies of the leaves, as bytes."""
    leaves = [x.detach().clone().requires_grad_(x.requires_grad) for x in leaves]
    y = f(*leaves)
    ys = y if isinstance(y, (tuple, list)) else [y]
    sum(
        [(y * G.arange(float(y.numel())).reshape(y.shape)).sum() for y in ys if y.requires_grad]
    ).backward()
    grads = [G.zeros_like(x) if x.grad is None else x.grad + 0 for x in leaves]
    return [(v.shape, v.detach().numpy().tobytes()) for v in (*ys, *grads)]


def linear(a, b):
    return associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b))[1]


def columns(a, b):
    return associative_scan(
        lambda p, q: p * q + (p + q).sin(), (a * b).movedim(0, 1).contiguous(), dim=1, reverse=True
    )


def around(a, b):
    w = b[0]
    return associative_scan(lambda p, q: (p + q) * w.sigmoid(), a)


def branches(a, b):
    return associative_scan(lambda p, q: cond(b.sum() > 0, lambda: p + q, lambda: p * 0.5 + q), a)


def loops(a, b):
    return associative_scan(
        lambda p, q: scan(lambda c, x: (c + x * 0.5, c), p, G.stack([q, q]))[0], a
    )


def mixed(a, b):
    x, n = associative_scan(lambda p, q: (p[0] + q[0], p[1] + q[1]), (a, (b > 0).to(G.int64)))
    return x * n


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [linear, columns, around, branches, loops, mixed])
def test_one_compilation_serves_all_lengths(f, backend):
    compiled = G.compile(fresh(f), backend=backend, fullgraph=True)
    for n in LENGTHS:
        leaves = [leaf(n, 3), leaf(n, 3)]
        assert outcome(compiled, leaves) == outcome(f, leaves), n
    assert FORCED or compiled.status()["graphs"] <= 2  # a number, then any


# What runs where the slices are: every other one of an operand, every fourth of the result.  And
# what cannot, and has copies.
PLACES = {
    "one number a slice": lambda a, b: associative_scan(
        lambda p, q: p * 0.5 + q, a[:, 0].contiguous()
    ),
    "slices of several shapes": lambda a, b: associative_scan(
        lambda p, q: (p[0] * q[0], p[1] * q[0].unsqueeze(1) + q[1]), (a[:, 0].contiguous(), b)
    ),
    "a result that nobody wants": lambda a, b: associative_scan(
        lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b)
    )[0],
    "one that another one needs": lambda a, b: associative_scan(
        lambda p, q: (p[0] + q[1], p[1] * q[1], p[2] + q[0]), (a, b, a)
    )[0],
    "views of blocks": lambda a, b: associative_scan(
        lambda p, q: p.transpose(1, 2).contiguous() + q[:, :1],
        (a @ b.T)[:, :1, None] * a[:, :, None] * a[:, None, :],
    ),
    "operands that lie otherwise": lambda a, b: associative_scan(
        lambda p, q: (p + q).sin(), a.T.contiguous().T
    ),
    "a product of matrices": lambda a, b: associative_scan(
        lambda p, q: p @ q, a[:, :, None] * b[:, None, :]
    ),
    "a block as it is": lambda a, b: associative_scan(lambda p, q: (q[0], p[1] + q[1]), (a, b)),
    "one value twice": lambda a, b: associative_scan(
        lambda p, q: (lambda x: (x, x))(p[0] * q[1]), (a, b)
    ),
    "more values that lie otherwise": lambda a, b: (
        lambda w: associative_scan(lambda p, q: p + q * w[1], a)
    )(b.T.contiguous().T),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PLACES)
def test_slices_are_combined_where_they_are(name, backend):
    f = PLACES[name]
    compiled = G.compile(fresh(f), backend=backend, fullgraph=True)
    with G.no_grad():
        for n in (*LENGTHS, 1000, 7):
            leaves = [G.randn(n, 3), G.randn(n, 3)]
            wanted, given = f(*leaves), compiled(*leaves)
            for x, y in zip(*((v if isinstance(v, tuple) else (v,)) for v in (wanted, given))):
                assert x.shape == y.shape and x.numpy().tobytes() == y.numpy().tobytes(), n


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_of_one_and_none(backend):
    compiled = G.compile(fresh(linear), backend=backend, fullgraph=True, dynamic=True)
    for n in (9, 1, 0, 4, 1, 0):
        a, b = G.randn(n, 2), G.randn(n, 2)
        assert compiled(a, b).numpy().tobytes() == linear(a, b).numpy().tobytes(), n
    assert FORCED or compiled.status()["graphs"] <= 3


def test_both_lengths_have_to_be_the_same():
    compiled = G.compile(fresh(linear), backend="eager", fullgraph=True, dynamic=True)
    compiled(G.ones(4, 2), G.ones(4, 2))
    with pytest.raises(G.compiler.Unsupported, match="one length"):
        compiled(G.ones(4, 2), G.ones(5, 2))


def test_scan_of_two_tensors_whose_length_changes():
    def f(a, b):
        return scan(lambda c, x: (c + x[0] * x[1], c), a[0], (a, b))[1]

    compiled = G.compile(f, backend="eager", fullgraph=True)
    for n in (5, 7, 4):
        a, b = G.randn(n, 2), G.randn(n, 2)
        assert compiled(a, b).tolist() == f(a, b).tolist()
    assert FORCED or compiled.status()["graphs"] <= 2


def test_how_many_slices_there_are_is_not_known_in_the_function():
    def f(a):
        return associative_scan(lambda p, q: p + q if p.shape[0] > 2 else p * q, a)

    with pytest.raises(
        G.compiler.Unsupported, match="how many slices combine_fn is given at a time"
    ):
        G.compile(f, backend="eager", fullgraph=True, dynamic=True)(G.ones(9))


def test_what_changes_around_the_function_is_refused():
    seen = []

    def f(a):
        return associative_scan(lambda p, q: (seen.append(1), p + q)[1], a)

    with pytest.raises(G.compiler.Unsupported, match="changes an object outside"):
        G.compile(f, backend="eager", fullgraph=True, dynamic=True)(G.ones(9))
    assert seen == []


@undisturbed
def test_the_second_derivative_of_a_length_that_changes_is_refused():
    def f(a):
        return associative_scan(lambda p, q: p * q, a).sum()

    a = leaf(5)
    static = G.autograd.grad(
        G.compile(fresh(f), backend="eager", dynamic=False)(a), a, create_graph=True
    )[0]
    assert G.autograd.grad(static.sum(), a)[0].shape == (5,)
    with pytest.raises(RuntimeError, match="second derivative of an associative_scan"):
        g = G.autograd.grad(
            G.compile(fresh(f), backend="eager", dynamic=True)(a), a, create_graph=True
        )[0]
        G.autograd.grad(g.sum(), a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_control_flow_of_any_size_is_compiled_once(backend):
    """Not again by the back end for each set of sizes either: bodies, and what is around them,
    serve all."""

    def f(x):
        y = cond(x.sum() > 0, lambda: (x * 2).sin(), lambda: x + 1)
        return scan(lambda c, s: (c * s, c + s), y[0], y * 0.5)[1], map(lambda s: s.exp(), y).sum(0)

    compiled = G.compile(f, backend=backend, fullgraph=True)
    for n in (4, 9):
        compiled(G.rand(n, 5))
    inputs = [sign * G.rand(n, 5) for n in (3, 17, 6, 30) for sign in (1, -1)]
    before = G._core.counters()["backend"]["compiles"]
    found = [compiled(x) for x in inputs]
    if not FORCED and backend != "eager":  # which is given numbers, as there is nothing to compile
        assert (
            before == G._core.counters()["backend"]["compiles"] and compiled.status()["graphs"] <= 2
        )
    for x, have in zip(inputs, found):  # which compile themselves
        assert [y.numpy().tobytes() for y in have] == [y.numpy().tobytes() for y in f(x)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_taken_apart_where_facts_made_its_sizes_numbers(backend):
    def f(x):
        t = x - x.mean(dim=0) * 0.5
        y = while_loop(lambda i, c: i < 2, lambda i, c: (i + 1, c * 0.5 + t), (G.tensor(0), x))[1]
        return x.reshape(2, -1), (t @ G.ones(t.shape[1], 3)) * 0.3, y

    compiled = G.compile(f, backend=backend)
    for n, m in ((4, 3), (6, 5), (2, 4), (2, 1), (4, 1), (6, 2), (2, 1)):
        leaves = [leaf(n, m)]
        assert outcome(compiled, leaves) == outcome(f, leaves), (n, m)
