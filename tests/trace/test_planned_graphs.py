# SPDX-License-Identifier: Apache-2.0
"""Back ends in Python that run a graph with an autograd.Function node by node, or hand their graph
on to another back end."""

import pytest

import gramme as G
from gramme._dynamo import lookup_backend
from gramme._dynamo.backends.common import aot_autograd
from gramme.fx import Interpreter
from stress import counted, undisturbed


class Triple(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 + x * 0


class TwoResults(G.autograd.Function):
    """Its backward is no linear function of the gradients, so it must run once, with both of
    them."""

    @staticmethod
    def forward(ctx, x, y):
        s, p = x + y, x * y
        ctx.save_for_backward(x, y, p)
        return s, p

    @staticmethod
    def backward(ctx, gs, gp):
        x, y, p = ctx.saved_tensors
        return gs * gp + p, gs * x + gp * gp * y


def whole(graph, example_inputs):
    return graph


def forward_of(graph, example_inputs):
    return graph.forward


def node_by_node(graph, example_inputs):
    return Interpreter(graph).run


def edited(graph, example_inputs):
    graph.recompile()
    return graph


RUNNERS = [whole, forward_of, node_by_node, edited]


def one_result(x, y):
    return (Triple.apply(x) * y).sum()


def two_results(x, y):
    s, p = TwoResults.apply(x, y)
    return (s * 2 + p.tanh()).sum()


def one_of_two(x, y):
    return TwoResults.apply(x, y)[1].exp().sum()


def twice(x, y):
    return (Triple.apply(Triple.apply(x)) * Triple.apply(y)).sum()


def in_place_before(x, y):
    z = x * 1
    z.add_(y)
    return Triple.apply(z).sum()


FUNCTIONS = [one_result, two_results, one_of_two, twice, in_place_before]


def step(f, shape=(3,)):
    """The value, both gradients, and the gradient's gradient where the function has one."""
    G.manual_seed(3)
    x, y = G.randn(*shape, requires_grad=True), G.randn(*shape, requires_grad=True)
    value = f(x, y)
    gx, gy = G.autograd.grad(value, (x, y), create_graph=True)
    again = (
        G.autograd.grad(gx.sum() + gy.sum(), (x, y), allow_unused=True) if gx.requires_grad else ()
    )
    return [t.tolist() if t is not None else None for t in (value, gx, gy, *again)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", RUNNERS, ids=lambda f: f.__name__)
def test_a_graph_with_an_autograd_function_runs_node_by_node(function, backend):  # SIDE-10 SIDE-15
    assert step(G.compile(function, backend=backend)) == step(function)


@pytest.mark.parametrize("backend", RUNNERS, ids=lambda f: f.__name__)
def test_without_gradients_an_autograd_function_gives_plain_results(backend):
    f = G.compile(two_results, backend=backend)
    with G.no_grad():
        value = f(G.ones(3), G.ones(3))
    assert not value.requires_grad and value.item() == two_results(G.ones(3), G.ones(3)).item()
    x = G.ones(3, requires_grad=True)
    assert (
        G.autograd.grad(f(x, G.ones(3)), x)[0].tolist()
        == G.autograd.grad(two_results(x, G.ones(3)), x)[0].tolist()
    )


def test_a_graph_for_all_sizes_with_an_autograd_function_runs_node_by_node():
    for backend in RUNNERS[:3]:
        f = G.compile(two_results, backend=backend, dynamic=True)
        for n in (2, 5, 3):
            assert step(f, (n,)) == step(two_results, (n,))


def test_what_a_custom_node_saved_and_a_write_changed_is_refused_as_in_plain_python():
    def f(x):
        y = x * 1
        z = Triple.apply(y)
        y.add_(1)
        return z.sum()

    x = G.ones(3, requires_grad=True)
    for run in (f, G.compile(f, backend=whole)):
        with pytest.raises(RuntimeError, match="changed by an in-place operation"):
            run(x).backward()


# -- A graph that is handed on


@undisturbed
def test_aot_autograd_inside_of_a_back_end_makes_forward_and_backward_graphs():
    made = []

    def keep(name):
        return lambda graph, example_inputs: (
            made.append((name, "mul_" in graph.code or "add_" in graph.code)),
            graph,
        )[1]

    def mine(graph, example_inputs):
        return aot_autograd(
            fw_compiler=keep("forward"),
            bw_compiler=keep("backward"),
            inference_compiler=keep("inference"),
        )(graph, example_inputs)

    def f(x):
        y = x * x
        y.add_(1)
        return y.sum()

    x = G.arange(3.0, requires_grad=True)
    G.compile(f, backend=mine)(x).backward()
    assert made == [("forward", False), ("backward", False)]
    assert x.grad.tolist() == [0.0, 2.0, 4.0]
    G.compile(f, backend=mine)(G.ones(3))
    assert made[2:] == [("inference", False)]


@pytest.mark.parametrize("name", ["eager", "tcc", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_lookup_backend_hands_a_graph_to_another_back_end(name, dynamic, function):
    if name not in G.compiler.list_backends(exclude_tags=None):
        pytest.skip(f"no back end {name}")
    seen = []

    def mine(graph, example_inputs):
        seen.append(graph)
        return lookup_backend(name)(graph, example_inputs)

    f = G.compile(function, backend=mine, dynamic=dynamic)
    for shape in ((3,), (5,), (3,)):
        assert step(f, shape)[:3] == step(function, shape)[:3]
    assert counted(len(seen)) == (1 if dynamic else 2)


def test_lookup_backend_takes_options_callables_and_refuses_what_is_not_there():
    assert lookup_backend(whole) is whole
    with pytest.raises(ValueError, match="no back end 'nosuch'; installed: .*eager"):
        lookup_backend("nosuch")

    def with_options(graph, example_inputs):
        return lookup_backend("eager")(graph, example_inputs, options={"partition": "min-cut"})

    assert step(G.compile(one_result, backend=with_options))[:3] == step(one_result)[:3]

    def refused(graph, example_inputs):
        graph.recompile()
        return lookup_backend("eager")(graph, example_inputs)

    with pytest.raises(G.compiler.BackendCompilerFailed, match="was edited"):
        G.compile(one_result, backend=refused)(G.ones(3), G.ones(3))


def test_a_handed_on_graph_says_what_it_takes():
    kept = []

    def mine(graph, example_inputs):
        kept.append(lookup_backend("eager")(graph, example_inputs))
        return kept[0]

    G.compile(lambda x: x * 2, backend=mine)(G.ones(3))
    for arguments, error in (
        ((), "takes 1 tensors, 0 were given"),
        (("a",), "input 0 of the graph is a str, not a Tensor"),
    ):
        with pytest.raises(TypeError, match=error):
            kept[0](*arguments)
    with pytest.raises(RuntimeError):
        kept[0](G.ones(4))
    assert kept[0](G.ones(3))[0].tolist() == [2.0, 2.0, 2.0]
