# SPDX-License-Identifier: Apache-2.0
"""Graphs that back ends written in Python edit, and aot_autograd: passes as they are written for
torch.fx."""

import operator
import os
import types

import pytest

import gramme as G
from gramme._dynamo.backends.common import (
    aot_autograd,
    default_partition,
    min_cut_rematerialization_partition,
)
from gramme.testing import CompileCounter, assert_bits_equal

X = G.arange(6, dtype=G.float32).reshape(2, 3)
one_graph = pytest.mark.skipif(
    "break" in os.environ.get("GM_STRESS", ""), reason="asks what one graph has"
)


def fresh(fn):
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def net(x, w):
    return G.tanh(x @ w) * G.relu(x @ w) + 1.0


def graph_of(f, *args):
    got = []

    def backend(graph, examples):
        got.append(graph)
        return graph

    G.compile(fresh(f), backend=backend)(*args)
    return got[0]


def compiled_with(edit, f, *args):
    """The result of f where a back end edits the graph and says so."""

    def backend(module, examples):
        edit(module.graph)
        module.recompile()
        return module

    return G.compile(fresh(f), backend=backend)(*args)


# -- Passes


def test_a_pass_that_changes_targets():
    def edit(graph):
        for node in graph.nodes:
            if node.op == "call_function" and node.target == operator.mul:
                node.target = operator.add

    w = G.randn(3, 3)
    assert_bits_equal(compiled_with(edit, lambda x, w: (x * w[0]) - w[1], X, w), (X + w[0]) - w[1])


def test_a_pass_that_inserts_a_call_behind_a_node_and_gradients_flow_through_it():
    w = G.randn(3, 4, requires_grad=True)

    def edit(graph):
        for node in list(graph.nodes):
            if node.target == G.tanh:
                with graph.inserting_after(node):
                    twice = graph.call_function(G.mul, (node, 2.0))
                    thrice = graph.call_function(
                        lambda a, *, by: a * by, (twice,), {"by": 3.0}, name="thrice"
                    )
                node.replace_all_uses_with(thrice, delete_user_cb=lambda user: user is not twice)
                assert node.next is twice and twice.next is thrice and thrice.prev is twice

    results = []
    for run in (
        lambda: compiled_with(edit, net, X, w),
        lambda: G.tanh(X @ w) * 2.0 * 3.0 * G.relu(X @ w) + 1.0,
    ):
        w.grad = None
        result = run()
        result.sum().backward()
        results += [result.detach(), w.grad.clone()]
    assert_bits_equal(results[0], results[2])
    assert_bits_equal(results[1], results[3])


@one_graph
def test_a_pass_that_removes_what_is_done_twice():
    w, seen = G.randn(3, 4), []

    def edit(graph):
        first = {}
        for node in list(graph.nodes):
            if node.op != "call_function":
                continue
            key = (str(node.target), node.args, tuple(node.kwargs.items()))
            if key in first:
                node.replace_all_uses_with(first[key])
                graph.erase_node(node)
            first.setdefault(key, node)
        seen.append([str(n.target) for n in graph.nodes if n.op == "call_function"])

    assert_bits_equal(compiled_with(edit, net, X, w), net(X, w))
    assert seen[0].count("matmul") == 1


@one_graph
def test_dead_code_and_inserting_before():
    w, order = G.randn(3, 4), []

    def probe(value):
        order.append(tuple(value.shape))
        return value

    def edit(graph):
        relu = graph.find_nodes(op="call_function", target=G.relu)[0]
        with graph.inserting_before(relu):
            dead = graph.node_copy(graph.find_nodes(op="call_function", target="matmul")[0])
            live = graph.call_function(probe, relu.args)
        relu.replace_input_with(relu.args[0], live)
        assert dead in list(graph.nodes) and graph.nodes.index(live) == graph.nodes.index(relu) - 1
        assert graph.eliminate_dead_code() and not graph.eliminate_dead_code()
        assert dead not in list(graph.nodes) and live in list(graph.nodes)

    assert_bits_equal(compiled_with(edit, net, X, w), net(X, w))
    assert order == [(2, 4)]


def test_call_method_and_constants_in_lists():
    def edit(graph):
        out = graph.output_node()
        value = out.all_input_nodes[0]
        with graph.inserting_before(out):
            moved = graph.call_method("reshape", (value, [3, 2]))
            stacked = graph.call_function(G.stack, ([moved, moved],), {"dim": 0})
            first = graph.call_function(operator.getitem, (stacked, 0))
            back = graph.call_method("reshape", (first, (2, 3)))
        out.replace_input_with(value, back)

    assert_bits_equal(compiled_with(edit, lambda x: x * 3, X), X * 3)


# -- The objects


@one_graph
def test_users_and_names_are_kept():
    graph = graph_of(net, X, G.ones(3, 4)).graph
    x, w = graph.find_nodes(op="placeholder")
    products = graph.find_nodes(op="call_function", target="matmul")
    assert list(x.users) == products and list(w.users) == products
    assert products[0].all_input_nodes == [x, w]
    tanh = graph.find_nodes(op="call_function", target=G.tanh)[0]
    assert list(products[0].users) == [tanh] and tanh.args == (products[0],)
    tanh.update_arg(0, products[1])
    assert not products[0].users and tanh in products[1].users
    with graph.inserting_after(tanh):
        a, b = graph.call_function(G.sin, (tanh,)), graph.call_function(G.sin, (tanh,))
    assert len({node.name for node in graph.nodes}) == len(graph.nodes) and a.name != b.name
    b.prepend(tanh)
    with pytest.raises(RuntimeError, match="not made before"):
        graph.lint()
    assert "sin(" in str(graph)


@one_graph
def test_edits_that_make_no_sense_are_refused():
    module = graph_of(net, X, G.ones(3, 4))
    graph = module.graph
    tanh = graph.find_nodes(op="call_function", target=G.tanh)[0]
    with pytest.raises(RuntimeError, match="use it"):
        graph.erase_node(tanh)
    with pytest.raises(RuntimeError, match="fixed"):
        graph.erase_node(graph.nodes[0])
    with pytest.raises(ValueError, match="placeholder"):
        graph.create_node("placeholder", "y")
    with pytest.raises(TypeError, match="callable"):
        graph.call_function("no function", ())
    with pytest.raises(ValueError, match="another graph"):
        with graph.inserting_before(graph_of(net, X, G.ones(3, 4)).nodes[0]):
            pass
    with pytest.raises(KeyError):
        graph.find("nothing")
    graph.nodes.remove(tanh)
    with pytest.raises(RuntimeError, match="not made before"):
        module.recompile()


@one_graph
def test_an_edit_counts_from_recompile_on():
    module, w = graph_of(net, X, G.ones(3, 4)), G.ones(3, 4)
    plain = module(X, w)[0]
    for node in module.graph.nodes:
        if node.target == G.tanh:
            node.target = G.cos
    assert_bits_equal(module(X, w)[0], plain)
    module.recompile()
    assert_bits_equal(module(X, w)[0], G.cos(X @ w) * G.relu(X @ w) + 1.0)
    assert "cos(" in module.code and "tanh(" not in module.print_readable(print_output=False)
    with pytest.raises(TypeError, match="takes 2 tensors, 1"):
        module(X)


def test_a_target_is_a_name_and_a_function():
    target = G.fx.Node(None, "call_function", "n", None, (), {}, {}).target
    assert target is None
    node = graph_of(lambda x: G.relu(x), X).graph.find_nodes(op="call_function")[0]
    assert (
        node.target == "relu"
        and node.target == G.relu
        and node.target != G.tanh
        and node.target != "tanh"
    )
    assert {node.target: 1}["relu"] == 1
    assert_bits_equal(node.target(X - 2), G.relu(X - 2))


def test_print_tabular(capsys):
    graph_of(lambda x: x + 1, X).graph.print_tabular()
    assert "opcode" in capsys.readouterr().out


# -- aot_autograd


@one_graph
def test_aot_autograd_calls_each_compiler_for_its_graphs():
    forward, backward, inference = CompileCounter(), CompileCounter(), CompileCounter()
    backend = aot_autograd(fw_compiler=forward, bw_compiler=backward, inference_compiler=inference)
    w = G.randn(3, 4, requires_grad=True)
    compiled = G.compile(fresh(net), backend=backend)
    grads = []
    for f in (net, compiled):
        w.grad = None
        f(X, w).sum().backward()
        grads.append(w.grad.clone())
    assert_bits_equal(grads[1], grads[0])
    assert (forward.frame_count, backward.frame_count, inference.frame_count) == (1, 1, 0)
    assert any(node.target == "matmul" for node in backward.graphs[0].nodes)
    with G.no_grad():
        assert_bits_equal(compiled(X, w), net(X, w))
    assert inference.frame_count == 1 and forward.frame_count == 1


@one_graph
def test_aot_autograd_with_one_compiler_and_with_a_partition():
    saved = {}
    w = G.randn(3, 4, requires_grad=True)
    for partition in (None, default_partition, min_cut_rematerialization_partition):
        counter = CompileCounter()
        backend = aot_autograd(fw_compiler=counter, partition_fn=partition)
        w.grad = None
        G.compile(fresh(deep), backend=backend)(X, w).backward()
        got = w.grad.clone()
        w.grad = None
        deep(X, w).backward()
        assert_bits_equal(got, w.grad)
        assert counter.frame_count == 2
        saved[partition] = len(counter.graphs[1].graph.find_nodes(op="placeholder"))
    assert saved[None] == saved[default_partition] > saved[min_cut_rematerialization_partition]


def deep(x, w):
    y = x @ w
    for _ in range(4):
        y = G.exp(G.sin(y))
    return y.sum()


def test_a_pass_on_forward_and_backward_graphs():
    def double_outputs(module, examples):
        out = module.graph.output_node()
        value = out.all_input_nodes[0]
        with module.graph.inserting_before(out):
            out.replace_input_with(value, module.graph.call_function(G.mul, (value, 2.0)))
        module.recompile()
        return module

    w = G.randn(3, 4, requires_grad=True)
    plain = w * 3
    plain.sum().backward()
    once, w.grad = w.grad.clone(), None
    G.compile(
        lambda w: w * 3,
        backend=aot_autograd(fw_compiler=CompileCounter(), bw_compiler=double_outputs),
    )(w).sum().backward()
    assert_bits_equal(w.grad, once * 2)


def test_aot_autograd_refuses_what_it_cannot_do_and_names_itself_in_failures():
    with pytest.raises(TypeError, match="callable"):
        aot_autograd(fw_compiler=3)
    with pytest.raises(TypeError, match="partition_fn"):
        aot_autograd(fw_compiler=CompileCounter(), partition_fn=lambda *args: None)
    with pytest.raises(TypeError, match="cut in C"):
        default_partition(None, None)

    def fails(graph, examples):
        raise OSError("no compiler here")

    w = G.randn(3, 4, requires_grad=True)
    with pytest.raises(
        G.compiler.BackendCompilerFailed,
        match=r"aot_autograd\(CompileCounter\).*OSError: no compiler here",
    ) as error:
        G.compile(
            fresh(net), backend=aot_autograd(fw_compiler=CompileCounter(), bw_compiler=fails)
        )(X, w)[0].sum().backward()
    assert isinstance(error.value.inner_exception, OSError)
    with pytest.raises(G.compiler.BackendCompilerFailed, match="cannot be called"):
        G.compile(fresh(net), backend=aot_autograd(fw_compiler=lambda graph, examples: None))(X, w)
    with pytest.raises(G.compiler.BackendError, match="must return"):
        G.compile(fresh(net), backend=lambda graph, examples: lambda *inputs: "garbage")(
            X, w.detach()
        )
