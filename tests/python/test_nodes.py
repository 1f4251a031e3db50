# SPDX-License-Identifier: Apache-2.0
"""Nodes of the tape: where they lead, hooks before and after them, gradient edges.  Orders and
values are torch's."""

import contextlib
import gc

import pytest

import gramme as G
from gramme.autograd.graph import GradientEdge, Node, get_gradient_edge


def leaf(*values):
    return G.tensor(list(values), requires_grad=True)


def values(grads):
    return [None if g is None else g.tolist() for g in grads]


def plain():
    return contextlib.nullcontext()


def compiled_autograd():
    return G._dynamo.compiled_autograd.enable("eager")


both = pytest.mark.parametrize("way", [plain, compiled_autograd])


def test_names_and_edges():
    x, w = leaf(1.0, 2.0), G.tensor([3.0, 4.0])
    y = x * w
    z = (y + x).exp()
    fn = z.grad_fn
    add, number = fn.next_functions[0]
    assert (
        isinstance(fn, Node)
        and fn.name() == "ExpBackward0"
        and add.name() == "AddBackward0"
        and number == 0
    )
    (mul, _), (acc, _) = add.next_functions
    assert (
        mul is y.grad_fn
        and acc.name() == "AccumulateGrad"
        and acc.variable is x
        and acc.next_functions == ()
    )
    assert mul.next_functions == ((acc, 0), (None, 0))
    assert x.grad_fn is None
    with pytest.raises(AttributeError, match="MulBackward0 has no attribute 'variable'"):
        mul.variable


def test_a_node_has_one_object_and_keeps_its_metadata():
    y = leaf(1.0) * 2
    assert y.grad_fn is y.grad_fn
    y.grad_fn.metadata["line"] = 12
    gc.collect()
    assert y.grad_fn.metadata == {"line": 12}


@both
def test_hooks_run_in_torchs_order(way):
    log = []

    def note(what, change=None):
        def hook(*args):
            log.append((what, *[values(a) if isinstance(a, tuple) else a.tolist() for a in args]))
            return change(*args) if change else None

        return hook

    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    z = y * 2
    fn, acc = y.grad_fn, get_gradient_edge(x).node
    fn.register_hook(note("after 1"))
    y.register_hook(note("tensor 1"))
    fn.register_prehook(note("before 1", lambda grads: (grads[0] * 2,)))
    y.register_hook(note("tensor 2", lambda g: g * 3))
    fn.register_prehook(note("before 2"))
    fn.register_hook(note("after 2", lambda inputs, outputs: tuple(g * 10 for g in inputs)))
    fn.register_hook(note("never")).remove()
    with fn.register_prehook(note("never")):
        pass
    y.retain_grad()
    x.register_hook(note("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad.tolist())))
    acc.register_hook(note("leaf after"))
    acc.register_prehook(note("leaf before", lambda grads: (grads[0] + 1,)))
    with way():
        z.sum().backward()
    assert log == [
        ("tensor 1", [2, 2]),
        ("tensor 2", [2, 2]),
        ("before 1", [[6, 6]]),
        ("before 2", [[12, 12]]),
        ("after 1", [[36, 48], [12, 24]], [[12, 12]]),
        ("after 2", [[36, 48], [12, 24]], [[12, 12]]),
        ("leaf", [360, 480]),
        ("leaf before", [[360, 480]]),
        ("accumulated", [361, 481]),
        ("leaf after", [], [[361, 481]]),
    ]
    assert y.grad.tolist() == [6, 6]  # after the tensor's hooks, before the node's
    assert x.grad.tolist() == [361, 481] and w.grad.tolist() == [120, 240]


@both
def test_who_asks_for_a_gradient_gets_it_before_the_nodes_hooks(way):
    x = leaf(1.0, 2.0)
    y = x * 3
    log = []
    y.grad_fn.register_prehook(lambda grads: log.append("before"))
    y.register_hook(lambda g: g * 2)
    with way():
        assert values(G.autograd.grad(y.sum(), [y], retain_graph=True)) == [[2, 2]] and log == []
        assert values(G.autograd.grad(y.sum(), [x])) == [[6, 6]] and log == ["before"]


def test_hooks_may_take_gradients_away():
    x = leaf(1.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda grads: (None,))
    y.sum().backward()
    assert x.grad is None
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: (None,) * len(inputs))
    y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    "hook, error, text",
    [
        (lambda i, o: (i[0],), RuntimeError, "a tuple of 2 gradients"),
        (lambda i, o: (i[0], 3), TypeError, "gave a int for gradient 1"),
        (lambda i, o: (G.ones(7), i[1]), RuntimeError, r"gave .*\[7\].* for gradient 0"),
        (lambda i, o: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_what_a_hook_may_not_give(hook, error, text):
    x, w = leaf(1.0, 2.0), leaf(1.0, 2.0)
    y = x * w
    y.grad_fn.register_hook(hook)
    with pytest.raises(error, match=text):
        y.sum().backward()


def test_hooks_on_nodes_in_derivatives_of_derivatives():
    x = leaf(1.0, 2.0)
    y = x * x * x
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(g * 2 for g in inputs))
    (g,) = G.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    assert g.tolist() == [6, 24] and x.grad.tolist() == [12, 24]


def test_a_hook_goes_with_its_node():
    class Hook:
        def __call__(self, *args):
            pass

    import weakref

    hook = Hook()
    alive = weakref.ref(hook)
    y = leaf(1.0) * 2
    y.grad_fn.register_hook(hook)
    y.grad_fn.register_prehook(hook)
    del hook
    gc.collect()
    assert alive() is not None
    del y
    gc.collect()
    assert alive() is None


def test_gradient_edges():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    z = y * y
    s = z.sum()
    ey, ex, ez = map(get_gradient_edge, (y, x, z))
    assert (
        isinstance(ey, GradientEdge)
        and ey.node is y.grad_fn
        and ey.output_nr == 0
        and ex.node.variable is x
    )
    want = values(G.autograd.grad(s, [y, x, w], retain_graph=True))
    assert values(G.autograd.grad(s, [ey, ex, w], retain_graph=True)) == want
    assert values(G.autograd.grad([get_gradient_edge(s)], [ey], retain_graph=True)) == want[:1]
    tangent = G.tensor([1.0, 2.0])
    want = values(G.autograd.grad(z, [x], tangent, retain_graph=True))
    assert values(G.autograd.grad(ez, [x], tangent, retain_graph=True)) == want
    by_hand = GradientEdge(*s.grad_fn.next_functions[0])
    assert by_hand.node is z.grad_fn
    assert values(G.autograd.grad(by_hand, [x], tangent, retain_graph=True)) == want
    G.autograd.backward(ez, tangent, retain_graph=True, inputs=[ex])
    assert [x.grad.tolist()] == want and w.grad is None


def test_gradient_edges_that_say_too_little():
    with pytest.raises(RuntimeError, match="does not require grad"):
        get_gradient_edge(G.ones(2))
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * 3
    with pytest.raises(RuntimeError, match="was not taken of a tensor: give its gradient"):
        G.autograd.grad(GradientEdge(y.grad_fn, 0), [x])
    with pytest.raises(IndexError, match="has no output 5"):
        G.autograd.grad(z.sum(), [GradientEdge(y.grad_fn, 5)])
    with pytest.raises(RuntimeError, match="leads to no leaf"):
        z.sum().backward(inputs=[get_gradient_edge(y)])


def test_an_edge_outlives_its_tensor():
    y = leaf(1.0, 2.0) + 1
    edge = get_gradient_edge(y)
    z = (y * 3).sum()
    del y
    gc.collect()
    assert values(G.autograd.grad(z, [edge])) == [[3, 3]]


@both
def test_nodes_of_compiled_functions(way):
    log = []
    f = G.compile(lambda x, w: (x * w).sin(), backend="tcc", fullgraph=True)
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = f(x, w)
    want = values(G.autograd.grad((x * w).sin(), [x, w], G.ones(2) * 2))
    assert y.grad_fn.name() == "CompiledBackward" and [
        fn.variable for fn, _ in y.grad_fn.next_functions
    ] == [x, w]
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(lambda inputs, outputs: log.append((values(inputs), values(outputs))))
    with way():
        y.sum().backward()
    assert values([x.grad, w.grad]) == want
    assert log == [(want, [[2, 2]])]


SEEN = {
    "where": (lambda x, y: G.where(x > 0, x, y), 2),
    "where with a number": (lambda x, y: G.where(x > 0, x, 0.0), 2),
    "gather": (lambda x, y: x.gather(0, G.tensor([0, 0])), 1),
    "index_select": (lambda x, y: x.index_select(0, G.tensor([1])), 1),
    "topk": (lambda x, y: x.topk(1)[0], 1),
    "mul": (lambda x, y: x * y, 2),
    "cat": (lambda x, y: G.cat([x, y, x]), 3),
    "exp": (lambda x, y: x.exp(), 1),
}


@pytest.mark.parametrize("name", SEEN)
def test_hooks_on_nodes_see_no_index_and_no_mask(name):
    """As many gradients as next_functions has pairs: an input that never gets one is none of them.
    What a hook gives goes to its input."""
    f, n = SEEN[name]
    x, y = G.tensor([1.0, -2.0], requires_grad=True), G.tensor([3.0, 4.0], requires_grad=True)
    fn = f(x, y).grad_fn
    assert len(fn.next_functions) == n
    f(x, y).sum().backward()
    want = [None if t.grad is None else (t.grad * 10).tolist() for t in (x, y)]
    x.grad = y.grad = None
    z, seen = f(x, y), []
    z.grad_fn.register_hook(
        lambda inputs, outputs: seen.append(len(inputs))
        or tuple(None if g is None else g * 10 for g in inputs)
    )
    z.sum().backward()
    assert seen == [n] and [None if t.grad is None else t.grad.tolist() for t in (x, y)] == want
