# SPDX-License-Identifier: Apache-2.0
"""Hooks on tensors around compiled functions: what they see, what they change and in which order
they run is eager's.

Programs build a graph out of `inner`, a function that is compiled or not, with hooks on leaves, on
what goes in and on what comes out; each logs.  HOOK-20 to 26 are about hooks that a compiled
function itself registers: tests/trace/programs_hooks.py.
"""

import pytest

import gramme as G
from gramme._dynamo.compiled_autograd import enable

BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]


def bits(t):
    return None if t is None else b"".join([t.detach().contiguous()])


def inner(a, b):
    c = a.sin() * b
    return c.exp() + a, c * 2


class Log:
    def __init__(self):
        self.events = []

    def hook(self, name, change=None):
        def run(g):
            self.events.append((name, bits(g), g.requires_grad))
            return None if change is None else change(g)

        return run

    def after(self, name):
        def run(t):
            self.events.append((name, bits(t.grad)))

        return run


def leaves():
    G.manual_seed(5)
    return [G.randn(6, requires_grad=True) for _ in range(2)]


def on_leaves(f, log):
    x, w = leaves()
    x.register_hook(log.hook("x"))
    x.register_hook(log.hook("x ten", lambda g: g * 10))
    w.register_hook(log.hook("w"))
    x.register_post_accumulate_grad_hook(log.after("x after"))
    w.register_post_accumulate_grad_hook(log.after("w after"))
    y, z = f(x, w)
    (y.sum() + z.sum()).backward()
    return x, w


def on_what_goes_in(f, log):
    x, w = leaves()
    a, b = x * 2, w + 1
    a.register_hook(log.hook("a ten", lambda g: g * 10))
    b.register_hook(log.hook("b"))
    a.register_hook(log.hook("a"))
    a.retain_grad()
    y, z = f(a, b)
    (y * z).sum().backward()
    return x, w, a


def on_what_comes_out(f, log):
    x, w = leaves()
    y, z = f(x, w)
    z.register_hook(log.hook("z"))
    y.register_hook(log.hook("y half", lambda g: g / 2))
    y.retain_grad()
    y.register_hook(log.hook("y"))
    z.retain_grad()
    ((y * z).sum() + y.sum()).backward()
    return x, w, y, z


def on_one_result_alone(f, log):
    x, w = leaves()
    y, z = f(x, w)
    y.register_hook(log.hook("y"))
    z.register_hook(log.hook("z"))
    y.sum().backward()
    return x, w


def between_two_calls(f, log):
    x, w = leaves()
    y, z = f(x, w)
    y.register_hook(log.hook("y", lambda g: g + 1))
    x.register_hook(log.hook("x"))
    u, v = f(y, z)
    u.register_hook(log.hook("u"))
    (u.sum() + v.sum() + x.sum()).backward()
    return x, w


def twice_through_one_graph(f, log):
    x, w = leaves()
    y, z = f(x, w)
    handle = y.register_hook(log.hook("y"))
    x.register_hook(log.hook("x"))
    loss = (y * z).sum()
    loss.backward(retain_graph=True)
    handle.remove()
    loss.backward()
    return x, w


def in_a_second_derivative(f, log):
    x, w = leaves()
    y, z = f(x, w)
    y.register_hook(log.hook("y", lambda g: g * 2))
    (g,) = G.autograd.grad(y.sum() + z.sum(), [x], create_graph=True)
    x.register_hook(log.hook("x"))
    g.sum().backward()
    return x, w


def that_removes_another(f, log):
    x, w = leaves()
    y, z = f(x, w)
    handles = [y.register_hook(log.hook("first"))]
    z.register_hook(lambda g: handles[0].remove())
    handles.append(y.register_hook(lambda g: (handles[2].remove(), log.events.append("second"))[0]))
    handles.append(y.register_hook(log.hook("third")))
    (y * 2 + z).sum().backward()
    return x, w


def that_makes_gradients_of_its_own(f, log):
    x, w = leaves()
    y, z = f(x, w)

    def hook(g):
        p = G.ones(6, requires_grad=True)
        with G.enable_grad():
            f(p, p)[0].sum().backward()
        log.events.append(bits(p.grad))
        return g * p.grad

    y.register_hook(hook)
    (y + z).sum().backward()
    return x, w


PROGRAMS = [
    on_leaves,
    on_what_goes_in,
    on_what_comes_out,
    on_one_result_alone,
    between_two_calls,
    twice_through_one_graph,
    in_a_second_derivative,
    that_removes_another,
    that_makes_gradients_of_its_own,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_hooks_run_as_in_eager(program, backend):
    plain, compiled = Log(), Log()
    f = G.compile(inner, backend=backend, fullgraph=True)
    want = [bits(t.grad) for t in program(inner, plain)]
    for _ in range(2):
        compiled.events.clear()
        assert [bits(t.grad) for t in program(f, compiled)] == want
        assert compiled.events == plain.events
    assert plain.events


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_that_raises_leaves_gradients_as_in_eager(backend):
    def step(f):
        x, w = leaves()
        y, z = f(x, w)

        def bad(g):
            raise LookupError("from the hook")

        y.register_hook(bad)
        with pytest.raises(LookupError, match="from the hook"):
            (y + z).sum().backward()
        return bits(x.grad), bits(w.grad)

    assert step(G.compile(inner, backend=backend)) == step(inner)


# -- Between the operations of one function --------------------------------------------------------


def chain(x, w):
    """Each result goes on; views of some are results, too."""
    a = x * w
    first = a[1:]
    b = a.sin() + x
    second = b.view(2, 3)
    c = b * first.sum()
    return a, first, b, second, c


def hooked(names):
    def program(f, log, backward):
        x, w = leaves()
        tensors = dict(zip(("x", "w", "in", "a", "first", "b", "second", "c"), (x, w, x * 1.5)))
        tensors.update(zip(("a", "first", "b", "second", "c"), f(tensors["in"], w)))
        for name in names.split():
            tensors[name].register_hook(log.hook(name, lambda g: g * 1.25))
        loss = sum((t * (i + 0.5)).sum() for i, t in enumerate(list(tensors.values())[3:]))
        backward(loss, x, w)
        return [x, w]

    return program


def backward(loss, x, w):
    loss.backward()


def twice(loss, x, w):
    loss.backward(retain_graph=True)
    loss.backward()


def second_derivative(loss, x, w):
    grads = G.autograd.grad(loss, [x, w], create_graph=True)
    sum((g * g).sum() for g in grads).backward()


@pytest.mark.parametrize("compiled_autograd", [None, "eager"])
@pytest.mark.parametrize("run", [backward, twice, second_derivative])
@pytest.mark.parametrize(
    "names",
    [
        "a c",
        "first a",
        "a first",
        "b second a first c",
        "w b",
        "first c w in x",
        "in second",
        "a b c in",
        "x w a",
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_between_the_operations_of_a_function_have_eagers_order(
    backend, names, run, compiled_autograd
):
    plain, compiled = Log(), Log()
    f, program = G.compile(chain, backend=backend, fullgraph=True), hooked(names)
    want = [bits(t.grad) for t in program(chain, plain, run)]
    for _ in range(2):
        compiled.events.clear()
        if compiled_autograd:
            with enable(compiled_autograd):
                grads = [bits(t.grad) for t in program(f, compiled, run)]
        else:
            grads = [bits(t.grad) for t in program(f, compiled, run)]
        assert [e[0] for e in compiled.events] == [e[0] for e in plain.events]
        assert grads == want and compiled.events == plain.events


def beside_writes(x, y):
    """A view that is taken again after the call, by a number between those of results that go
    on."""
    x.mul_(2)
    v1 = (y * 1.5).sin()
    x.clamp_(-1, 1)
    v2 = y.unbind()[1]
    v3 = v1.cos() * v1
    v2.squeeze_(0)
    return v1, v2, v3


def views_between(x, y):
    v1 = (y * 2).sin()
    x.mul_(2)
    v2 = y[1:]
    v3 = v1.cos() * v1
    v4 = x.view(-1)
    v5 = v3 * 2
    return v4, v1, v5, v2, v3


@pytest.mark.parametrize("f", [beside_writes, views_between])
@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_on_what_a_function_goes_on_with_and_on_views_beside_it_have_eagers_order(backend, f):
    def program(f, log):
        leaf = G.arange(12).float().requires_grad_()
        base = leaf * 1.25
        results = f(base.view(3, 4)[1:], base.view(4, 3))
        for i, t in enumerate(results):
            t.register_hook(log.hook(i, lambda g: g * 1.25))
        sum((t * (i + 0.5)).sum() for i, t in enumerate(results)).backward()
        return bits(leaf.grad)

    plain, compiled = Log(), Log()
    assert program(f, plain) == program(G.compile(f, backend=backend, fullgraph=True), compiled)
    assert [e[0] for e in compiled.events] == [e[0] for e in plain.events]
    assert compiled.events == plain.events


def leaf_then_view(x, y, w):
    a = x * w
    v = y[1:]
    return v, a.sin()


def view_of_a_view(x, y, w):
    a = x * w
    v = y.t()[1:]
    b = a * w
    return v[:, 1:], b, a.view(-1)


@pytest.mark.parametrize("at", [[0], [1], [0, 1]])
@pytest.mark.parametrize("f", [leaf_then_view, view_of_a_view])
@pytest.mark.parametrize("compiled_autograd", [None, "eager"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_leafs_hook_and_one_on_a_view_that_the_function_took_of_an_input(
    backend, compiled_autograd, f, at
):
    """The view is taken again after the call, with the place that it has in the function; the
    leaf's gradient is complete before or after."""

    def program(f, log):
        w, leaf = (G.arange(12).float().reshape(3, 4).detach().requires_grad_() for _ in range(2))
        base = leaf * 1.25
        w.register_hook(log.hook("w", lambda g: g * 0.5))
        leaf.register_hook(log.hook("leaf", lambda g: g * 3))
        results = f(G.ones(3, 4), base, w)
        for i in at:
            results[i].register_hook(log.hook(i, lambda g: g * 1.25))
        loss = sum((t * (i + 0.5)).sum() for i, t in enumerate(results))
        if compiled_autograd and f is not plain_f:
            with enable(compiled_autograd):
                loss.backward()
        else:
            loss.backward()
        return bits(w.grad), bits(leaf.grad)

    plain_f, plain, compiled = f, Log(), Log()
    assert program(f, plain) == program(G.compile(f, backend=backend, fullgraph=True), compiled)
    assert compiled.events == plain.events
