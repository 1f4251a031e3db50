# SPDX-License-Identifier: Apache-2.0
"""Loops that stay in the graph: while_loop, scan, map, associative_scan, against loops in
Python."""

import types
from collections import namedtuple

import pytest

import gramme as G
from gramme.higher_order import associative_scan, cond, map, scan, while_loop
from stress import undisturbed

BACKENDS = [name for name in ("eager", "tcc", "cc") if name in G.compiler.list_backends()]
Pair = namedtuple("Pair", "a b")


def fresh(fn):
    """The function with a code object of its own, hence with a cache of its own."""
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def leaf(values):
    return G.tensor(values, requires_grad=True)


def same(a, b):
    assert (
        a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
    ), (a, b)


def close(a, b):
    assert a.shape == b.shape and G.allclose(a, b, rtol=1e-5, atol=1e-6), (a, b)


def ways(fn, backend):
    """Compiled whole, and each operator by itself as it is reached."""
    return [G.compile(fresh(fn), backend=backend, fullgraph=True), fn]


# -- while_loop


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_while_loop_has_the_values_and_gradients_of_a_loop(backend, steps):
    def f(x, w, n):
        return while_loop(
            lambda i, a: i < n,
            lambda i, a: (i + 1, (a * w).sin() + x),
            (G.zeros((), dtype=G.int64), x * 2),
        )

    def plain(x, w, n):
        i, a = G.zeros((), dtype=G.int64), x * 2
        while i < n:
            i, a = i + 1, (a * w).sin() + x
        return i, a

    found = []
    for run in [plain] + ways(f, backend):
        x, w = leaf([0.1, 0.2, 0.3]), leaf([1.5, 0.5, -1.0])
        i, a = run(x, w, G.tensor(steps))
        (a * a).sum().backward()
        found.append((i, a.detach(), x.grad, G.zeros(3) if w.grad is None else w.grad))
    for other in found[1:]:
        assert int(other[0]) == steps
        same(found[0][1], other[1])
        close(found[0][2], other[2])
        close(found[0][3], other[3])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_body_calls_functions_with_more_and_with_fewer_cells(compiled):
    """What is in a function's cells is looked at once it is known to be that function."""

    def loop(fn, x):
        def body(i, x):
            return i + 1, fn(x)

        return while_loop(lambda i, x: i < 3, body, (G.tensor(0), x))[1]

    def with_cells(a, b):
        return lambda x: x * a + b

    f = G.compile(loop, backend="eager", fullgraph=True) if compiled else loop
    x = G.ones(2)
    for _ in range(2):
        assert f(with_cells(G.tensor(2.0), G.tensor(1.0)), x).tolist() == [15.0, 15.0]
        assert f(lambda x: x + 1, x).tolist() == [4.0, 4.0]


def test_while_loop_carries_trees_and_passes_additional_inputs():
    def f(x, k):
        return while_loop(
            lambda c, k: c["i"] < 3,
            lambda c, k: ({"i": c["i"] + 1, "p": Pair(c["p"].b, c["p"].a * k)},),
            ({"i": G.zeros((), dtype=G.int64), "p": Pair(x, x + 1)},),
            (k,),
        )

    for run in ways(f, "eager"):
        (c,) = run(G.tensor([1.0, 2.0]), G.tensor(2.0))
        assert list(c) == ["i", "p"] and isinstance(c["p"], Pair)
        assert c["p"].a.tolist() == [4.0, 6.0] and c["p"].b.tolist() == [4.0, 8.0]


def test_while_loop_where_only_the_body_requires_grad():
    w = leaf([1.5, 2.5])

    def f(n):
        return while_loop(
            lambda i, a: i < n,
            lambda i, a: (i + 1, a * w + 1),
            (G.zeros((), dtype=G.int64), G.ones(2)),
        )[1]

    found = []
    for run in ways(f, "eager"):
        w.grad = None
        run(G.tensor(3)).sum().backward()
        found.append(w.grad)
    w.grad = None
    a = G.ones(2)
    for _ in range(3):
        a = a * w + 1
    a.sum().backward()
    for g in found:
        close(g, w.grad)


@pytest.mark.parametrize(
    "args, error, text",
    [
        (
            (lambda i: i < 3, lambda i: (i + 1.5,), (G.tensor(0),)),
            G.compiler.Unsupported,
            "comes out as f32",
        ),
        ((lambda i: i < 3, lambda i: (i + 1, i), (G.tensor(0),)), Exception, "is given"),
        ((lambda i: 3, lambda i: (i + 1,), (G.tensor(0),)), Exception, "dtype bool"),
        ((lambda i: i, lambda i: (i + 1,), (G.tensor(0),)), G.compiler.Unsupported, "dtype bool"),
        ((lambda i: i < 3, lambda i: (i + 1,), 5), TypeError, "carried_inputs"),
    ],
    ids=["dtype", "structure", "no tensor", "no bool", "no tuple"],
)
def test_while_loop_says_what_does_not_fit(args, error, text):
    with pytest.raises(error, match=text):
        while_loop(*args)


def test_a_body_that_changes_an_object_is_refused():
    items = []

    def body(i):
        items.append(1)
        return (i + 1,)

    with pytest.raises(G.compiler.Unsupported, match="how often it runs is not known"):
        while_loop(lambda i: i < 3, body, (G.tensor(0),))
    assert items == []


def test_the_second_derivative_of_a_while_loop_is_refused_with_a_way_out():
    x = leaf([0.5])
    y = while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a.sin()), (G.tensor(0), x))[1]
    (g,) = G.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative of a while_loop"):
        g.sum().backward()


# -- scan, map


def plain_scan(f, c, xs, reverse=False):
    order = range(xs.shape[0])
    ys = [None] * xs.shape[0]
    for i in reversed(order) if reverse else order:
        c, ys[i] = f(c, xs[i])
    return c, G.stack(ys)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_has_the_values_and_gradients_of_a_loop(backend, reverse):
    w = leaf([1.1, 1.2, 1.3])

    def step(c, x):
        return (c + x * w).tanh(), c * x

    found = []
    runs = [lambda c, xs: plain_scan(step, c, xs, reverse)] + ways(
        lambda c, xs: scan(step, c, xs, reverse=reverse), backend
    )
    for run in runs:
        w.grad = None
        xs, c = leaf([[0.1 * i + j for j in range(3)] for i in range(4)]), leaf([0.5, 0.0, -0.5])
        last, ys = run(c, xs)
        (last.sum() + (ys * ys).sum()).backward()
        found.append([last.detach(), ys.detach(), xs.grad, c.grad, w.grad])
    for other in found[1:]:
        same(found[0][0], other[0])
        same(found[0][1], other[1])
        for a, b in zip(found[0][2:], other[2:]):
            close(a, b)


def test_second_derivative_of_scan():
    def f(w, xs):
        return scan(lambda c, x: ((c + x * w).tanh(), c * x), G.zeros(()), xs)[1]

    def plain(w, xs):
        return plain_scan(lambda c, x: ((c + x * w).tanh(), c * x), G.zeros(()), xs)[1]

    found = []
    for run in [plain] + ways(f, "eager"):
        xs, w = leaf([0.1, 0.2, 0.3]), leaf(1.5)
        (g,) = G.autograd.grad(run(w, xs).sum(), xs, create_graph=True)
        (g * g).sum().backward()
        found.append([xs.grad, w.grad])
    for other in found[1:]:
        close(found[0][0], other[0])
        close(found[0][1], other[1])


def test_scan_along_another_dimension_of_trees():
    def f(xs):
        return scan(
            lambda c, x: ({"s": c["s"] + x["u"]}, (c["s"], x["v"] * 2)),
            {"s": G.zeros(2)},
            xs,
            dim=1,
        )

    u, v = G.arange(6.0).reshape(2, 3), G.ones(4, 3)
    for run in ways(f, "eager"):
        c, (y, z) = run({"u": u, "v": v})
        assert (
            c["s"].tolist() == [3.0, 12.0]
            and y.tolist() == [[0.0, 0.0], [0.0, 3.0], [1.0, 7.0]]
            and z.shape == (3, 4)
        )


def test_scan_over_nothing_gives_what_it_got():
    def f(xs):
        return scan(lambda c, x: (c + x, c * x), G.ones(3), xs)

    for run in ways(f, "eager"):
        c, ys = run(G.zeros(0, 3))
        assert c.tolist() == [1.0, 1.0, 1.0] and ys.shape == (0, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_map(backend):
    w = leaf([2.0, 3.0])

    def f(xs, k):
        return map(lambda x, k: {"a": x * w, "b": (x + k).sum()}, xs, k)

    for run in ways(f, backend):
        w.grad = None
        xs = leaf([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        y = run(xs, G.tensor(10.0))
        assert y["a"].tolist() == [[2.0, 6.0], [6.0, 12.0], [10.0, 18.0]] and y["b"].tolist() == [
            23.0,
            27.0,
            31.0,
        ]
        (y["a"].sum() + y["b"].sum()).backward()
        assert xs.grad.tolist() == [[3.0, 4.0]] * 3 and w.grad.tolist() == [9.0, 12.0]


def test_scan_says_what_does_not_fit():
    with pytest.raises(G.compiler.Unsupported, match="one length"):
        scan(lambda c, x: (c, x[0]), G.ones(1), (G.ones(3), G.ones(4)))
    with pytest.raises(G.compiler.Unsupported, match=r"\(carry, y\)"):
        scan(lambda c, x: c, G.ones(1), G.ones(3))


# -- associative_scan


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_is_a_prefix_sum(n, reverse):
    x = G.arange(float(2 * n)).reshape(2, n)

    def f(x):
        return associative_scan(lambda a, b: a + b, x, dim=1, reverse=reverse)

    want = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    for run in ways(f, "eager"):
        assert run(x).tolist() == want.tolist()


def test_associative_scan_of_linear_recurrences():
    def f(a, b):
        return associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b))[1]

    a, b = leaf([0.5, 0.25, 2.0, 1.0, 0.5]), leaf([1.0, 2.0, 3.0, 4.0, 5.0])
    h, want = 0.0, []
    for p, q in zip(a.tolist(), b.tolist()):
        h = h * p + q
        want.append(h)
    for run in ways(f, "eager"):
        y = run(a, b)
        assert y.tolist() == want
        y.sum().backward()
    assert a.grad is not None


# -- Inside each other


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cond_in_a_scan_in_a_while_loop(backend):
    w = leaf([0.5, -0.5])

    def inner(c, x):
        y = cond(x.sum() > 0, lambda: (c * x).sin(), lambda: c + x * w)
        return y, y * 2

    def f(xs):
        return while_loop(
            lambda i, c: i < 2,
            lambda i, c: (i + 1, scan(inner, c, xs)[1].sum(0)),
            (G.zeros((), dtype=G.int64), xs[0]),
        )[1]

    def plain(xs):
        c = xs[0]
        for _ in range(2):
            total = []
            for x in [xs[i] for i in range(3)]:
                c = (c * x).sin() if x.sum() > 0 else c + x * w
                total.append(c * 2)
            c = G.stack(total).sum(0)
        return c

    found = []
    for run in [plain] + ways(f, backend):
        w.grad = None
        xs = leaf([[0.5, 1.0], [-1.0, -0.25], [0.25, 0.5]])
        y = run(xs)
        (y * y).sum().backward()
        found.append([y.detach(), xs.grad, w.grad])
    for other in found[1:]:
        same(found[0][0], other[0])
        close(found[0][1], other[1])
        close(found[0][2], other[2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dimension_of_one_element_has_any_stride(backend):
    def f(x):
        y = x[0:1:2]  # 1 by 3, with a stride of 6
        return (
            scan(lambda c, s: (c * s, c + s), y, x)[1],
            while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y + x[0]), (G.tensor(0), y))[1],
        )

    x = G.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    ys, y = G.compile(f, backend=backend, fullgraph=True)(x)
    assert ys.tolist() == [[[2.0, 4.0, 6.0]], [[5.0, 9.0, 15.0]]] and y.tolist() == [
        [3.0, 6.0, 9.0]
    ]


@undisturbed
def test_one_entry_serves_all_numbers_of_steps():
    f = G.compile(
        lambda x, n: while_loop(
            lambda i, a: i < n, lambda i, a: (i + 1, a + i), (G.zeros((), dtype=G.int64), x)
        )[1],
        backend="eager",
    )
    for n in (0, 1, 7, 100):
        assert f(G.tensor([0, 0]), G.tensor(n)).tolist() == [n * (n - 1) // 2] * 2
    assert f.status()["graphs"] == 1


@undisturbed
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_entry_with_graphs_inside_serves_sizes_that_change(backend):
    w = leaf(2.0)

    def f(x):
        y = cond(x.sum() > 0, lambda: x * w + x.shape[0], lambda: (x - w).sin())
        return scan(lambda c, q: ((c + q).tanh(), c * q), G.zeros(()), y)[1] * 2

    def plain(x):
        y = x * w + x.shape[0] if x.sum() > 0 else (x - w).sin()
        return plain_scan(lambda c, q: ((c + q).tanh(), c * q), G.zeros(()), y)[1] * 2

    compiled = G.compile(f, backend=backend, fullgraph=True)
    for n in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 2):
        found = []
        for run in (compiled, plain):
            w.grad = None
            x = (G.arange(float(n)) - 3).requires_grad_()
            y = run(x)
            y.sum().backward()
            found.append([y.detach(), x.grad, w.grad])
        same(found[0][0], found[1][0])
        close(found[0][1], found[1][1])
        close(found[0][2], found[1][2])
    assert compiled.status()["graphs"] <= 3
