# SPDX-License-Identifier: Apache-2.0
"""Back ends that are Python callables, and one cache per back end."""

import gc
import os
import subprocess
import sys
import threading
import time
import types
import warnings
import weakref

import pytest

import gramme as G
from gramme.testing import CompileCounter, assert_bits_equal
from stress import undisturbed

X = G.arange(6, dtype=G.float32).reshape(2, 3)


def fresh(fn):
    """The function with a code object of its own, hence with a cache of its own."""
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def net(x, w):
    y = (x @ w).tanh() + 0.5
    y.mul_(2.0)
    return y.sum(dim=1), y


def gradients(f, w):
    w.grad = None
    result = f(X, w)
    result[0].sum().backward()
    return [result[0].detach(), result[1].detach(), w.grad.clone()]


# -- The graph


@undisturbed
def test_graph_and_examples():
    got = {}

    def backend(graph, examples):
        got["graph"], got["examples"] = graph, examples
        return graph

    w = G.ones(3, 4)
    compiled = G.compile(fresh(net), backend=backend)
    result = compiled(X, w)
    for a, b in zip(result, net(X, w)):
        assert_bits_equal(a, b)
    graph = got["graph"]
    assert [tuple(e.shape) for e in got["examples"]] == [(2, 3), (3, 4)]
    assert [n.name for n in graph.nodes if n.op == "placeholder"] == ["x", "w"]
    matmul = next(n for n in graph.nodes if n.target == "matmul")
    assert [a.name for a in matmul.args] == ["x", "w"]
    assert tuple(matmul.meta["shape"]) == (2, 4) and matmul.meta["dtype"] is G.float32
    assert matmul.meta["where"].startswith("test_callable_backends.py:")
    total = next(n for n in graph.nodes if n.target == "sum")
    assert total.kwargs == {"dims": (1,), "keepdim": False}
    assert graph.nodes[-1].op == "output" and len(graph.nodes[-1].args[0]) == 2
    text = graph.print_readable(print_output=False)
    assert "matmul_0 = matmul(x, w) : gramme.float32[2, 4]" in text
    assert len({n.name for n in graph.nodes}) == len(graph.nodes)
    for a, b in zip(graph(X, w), net(X, w)):
        assert_bits_equal(a, b)


def test_an_interpreter_sees_every_value():
    ops = []

    class Watch(G.fx.Interpreter):
        def run_node(self, node, args):
            ops.append(node.target)
            return super().run_node(node, args)

    w = G.randn(3, 4, requires_grad=True)
    want = gradients(net, w)
    got = gradients(G.compile(fresh(net), backend=lambda graph, examples: Watch(graph).run), w)
    for a, b in zip(got, want):
        assert_bits_equal(a, b)
    assert ops[0] == "matmul" and "tanh" in ops


def test_gradients_flow_through_the_ops_that_run():
    w = G.randn(3, 4, requires_grad=True)
    want = gradients(net, w)
    for backend in (lambda graph, examples: graph, "aot_eager"):
        for a, b in zip(gradients(G.compile(fresh(net), backend=backend), w), want):
            assert_bits_equal(a, b)


@undisturbed
def test_aot_gets_forward_and_backward():
    graphs = []

    def backend(graph, examples):
        graphs.append([n.target for n in graph.nodes if n.op == "call_function"])
        return graph

    backend.aot = True
    compiled = G.compile(fresh(net), backend=backend)
    compiled(X, G.ones(3, 4))
    assert len(graphs) == 1 and "copy_" not in graphs[0]
    w = G.randn(3, 4, requires_grad=True)
    for a, b in zip(gradients(compiled, w), gradients(net, w)):
        assert_bits_equal(a, b)
    assert len(graphs) == 3 and "matmul" in graphs[2]


class Roles:
    """Keeps what it was asked for; `before` is called as a backward is compiled."""

    aot = True

    def __init__(self, before=lambda: None):
        self.asked, self.before = [], before

    def __call__(self, graph, examples):
        self.asked.append("forward")
        return graph

    def compile_backward(self, graph, examples):
        self.asked.append("backward")
        self.before()
        return graph


@undisturbed
def test_a_backward_is_asked_for_when_it_is_called():
    roles, w = Roles(), G.randn(3, 4, requires_grad=True)
    compiled = G.compile(fresh(net), backend=roles)
    result = compiled(X, w)[0]
    compiled(X, w)
    assert roles.asked == ["forward"]
    result.sum().backward()
    compiled(X, w)[0].sum().backward()
    assert roles.asked == ["forward", "backward"]


@undisturbed
def test_threads_that_come_to_a_backward_together_have_it_compiled_once():
    """Whoever compiles it lets go of the GIL on the way."""
    roles, leaves = Roles(lambda: time.sleep(0.05)), [
        G.ones(3, 4, requires_grad=True) for _ in range(6)
    ]
    compiled = G.compile(fresh(net), backend=roles)
    results, together = [compiled(X, w)[0].sum() for w in leaves], threading.Barrier(6)

    def step(result):
        together.wait()
        result.backward()

    threads = [threading.Thread(target=step, args=(r,)) for r in results]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert roles.asked == ["forward", "backward"]
    for w in leaves[1:]:
        assert_bits_equal(w.grad, leaves[0].grad)


@undisturbed
def test_a_backward_that_cannot_be_compiled_says_so_and_may_be_tried_again():
    def fail_once():
        if len(roles.asked) == 2:
            raise ValueError("not today")

    roles, w = Roles(fail_once), G.ones(3, 4, requires_grad=True)
    compiled = G.compile(fresh(net), backend=roles)
    result = compiled(X, w)[0].sum()
    with pytest.raises(G.compiler.BackendCompilerFailed, match="not today"):
        result.backward()
    assert w.grad is None
    compiled(X, w)[0].sum().backward()
    net(X, v := G.ones(3, 4, requires_grad=True))[0].sum().backward()
    assert_bits_equal(w.grad, v.grad)


@undisturbed
def test_a_back_end_that_needs_the_backward_that_it_compiles_is_told():
    def again():
        with G.enable_grad():
            compiled(X, w)[0].sum().backward()

    roles, w = Roles(again), G.ones(3, 4, requires_grad=True)
    compiled = G.compile(fresh(net), backend=roles)
    result = compiled(X, w)[0].sum()
    with pytest.raises(G.compiler.BackendCompilerFailed, match="needs that very backward"):
        result.backward()


# -- Sizes


def sized(x, k):
    y = G.zeros(x.shape[0], x.shape[1] * 2) + x.repeat(1, 2)
    return y.reshape(-1)[: x.numel()] * k + G.rand(x.numel()), x.sum(0).expand(x.shape[0], -1)


def outcomes(f, sizes=(3, 4, 5, 6, 4, 9, 1, 0, 30)):
    seen = []
    for n in sizes:
        G.manual_seed(n)
        x = (G.arange(n * 5).reshape(n, 5) / 7).requires_grad_()
        y, z = f(x, n + 2)
        (y * y).sum().backward()
        seen.append((y.tolist(), z.tolist(), x.grad.tolist(), G.rand(2).tolist()))
    return repr(seen)


def interpreted(graph, examples):
    return G.fx.Interpreter(graph).run


def node_by_node(graph, examples):
    """As a back end does that makes a program of its own: it reads sizes when it runs."""

    def run(*inputs):
        values = dict(zip((n for n in graph.nodes if n.op == "placeholder"), inputs))
        for node in graph.nodes:
            if node.op == "call_function":
                assert list(values.values())[0].shape[0] in [
                    int(size) for n in values for size in n.meta["shape"]
                ]
                values[node] = graph.run_node(node, *[values[a] for a in node.all_input_nodes])
        return tuple(values[a] for a in graph.graph.output_node().args[0])

    return run


def edited(graph, examples):
    for node in list(graph.nodes):
        if node.target == "mul":
            with graph.graph.inserting_after(node):
                again = graph.graph.call_function(lambda t: t + 0, (node,))
            for user in [u for u in node.users if u is not again]:
                user.replace_input_with(node, again)
    graph.recompile()
    return graph


@undisturbed
@pytest.mark.parametrize(
    "backend",
    [lambda graph, examples: graph, interpreted, node_by_node, edited],
    ids=["module", "interpreter", "nodes", "edited"],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_one_graph_serves_all_sizes(backend, dynamic):  # SYM-02
    graphs = []

    def counting(graph, examples):
        graphs.append(graph)
        return backend(graph, examples)

    compiled = G.compile(fresh(sized), backend=counting, dynamic=dynamic)
    assert outcomes(compiled) == outcomes(sized)
    assert len(graphs) <= 4  # numbers, all sizes, and 0 and 1 the first time


@undisturbed
@pytest.mark.parametrize("dynamic", [None, True])
def test_forward_and_backward_serve_all_sizes(dynamic):  # SYM-02
    graphs = []

    def backend(graph, examples):
        graphs.append((graph, [tuple(e.shape) for e in examples]))
        return node_by_node(graph, examples) if len(graphs) % 2 else graph

    backend.aot = True
    compiled = G.compile(fresh(sized), backend=backend, dynamic=dynamic)
    assert outcomes(compiled) == outcomes(sized)
    assert len(graphs) <= 8
    assert any("s" in graph.code.split("->")[0].split("[")[1] for graph, _ in graphs)


@undisturbed
def test_a_size_has_a_name_before_there_is_a_number():
    seen = []

    def backend(graph, examples):
        if any(
            isinstance(size, G.fx.SymInt) for n in graph.nodes for size in n.meta.get("shape", ())
        ):
            x = graph.nodes[0]
            assert (
                x.meta["shape"][0] == x.meta["shape"][0] and str(x.meta["shape"][0]) in graph.code
            )
            assert x.meta["shape"][1] == 5 and x.meta["stride"] == (5, 1)
            with pytest.raises(TypeError, match="dynamic=False"):
                int(x.meta["shape"][0])
            seen.append("names")
        return graph

    f = G.compile(lambda x: x.reshape(-1) * 2, backend=backend)
    for n in (3, 4, 5):
        assert f(G.ones(n, 5)).shape == (n * 5,)
    assert seen == ["names"]


@undisturbed
@pytest.mark.parametrize("aot", [False, True])
def test_a_back_end_that_needs_numbers_gets_numbers(aot):
    shapes = []

    def backend(graph, examples):
        shapes.append(tuple(int(size) for size in graph.nodes[0].meta["shape"]))
        return graph

    backend.aot = aot
    f = G.compile(lambda x: x * 2, backend=backend)
    for n in (3, 4, 5):
        assert f(G.ones(n, 5)).tolist() == [[2.0] * 5] * n
    assert shapes == [(3, 5), (4, 5), (5, 5)]

    def fails(graph, examples):
        raise ValueError("never")

    fails.aot = aot
    g = G.compile(lambda x: x * 2, backend=fails, dynamic=True)
    with pytest.raises(G.compiler.BackendCompilerFailed, match="never"):
        g(G.ones(3, 5))


@undisturbed
def test_what_a_result_must_be_follows_from_the_sizes():
    f = G.compile(
        lambda x: x * 2, backend=lambda graph, examples: lambda x: (G.ones(4, 5),), dynamic=True
    )
    assert f(G.ones(4, 5)).shape == (4, 5)
    with pytest.raises(
        G.compiler.BackendError, match=r"result 0 .* is f32\[4, 5\], the graph's is f32\[3, 5\]"
    ):
        f(G.ones(3, 5))


@undisturbed
def test_threads_run_one_graph_with_sizes_of_their_own():
    compiled = G.compile(
        lambda x: (x.reshape(-1) * 2).sum() + x.shape[0], backend=node_by_node, dynamic=True
    )
    compiled(G.ones(3, 5))
    wrong = []

    def work(n):
        for _ in range(200):
            if compiled(G.ones(n, 5)).item() != 11 * n:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 4, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_random_numbers_and_regions_without_gradient():
    def f(x, w):
        with G.no_grad():
            scale = (w * 2).sum()
        return x * G.rand(2, 3) * scale + w.sum()

    w = G.ones(3, requires_grad=True)
    outcomes = []
    for call in (
        f,
        G.compile(f, backend=CompileCounter()),
        G.compile(f, backend="aot_eager"),
        G.compile(f, backend="eager"),
    ):
        G.manual_seed(5)
        w.grad = None
        result = call(X, w)
        result.sum().backward()
        outcomes.append(
            (
                result.detach().numpy().tobytes(),
                w.grad.numpy().tobytes(),
                G.get_rng_state().tolist(),
            )
        )
    assert len(set(map(str, outcomes))) == 1


def test_a_function_without_operations_needs_no_back_end():
    counter = CompileCounter()
    assert G.compile(lambda x: (x, 1), backend=counter)(X)[1] == 1
    assert counter.frame_count == 0


def test_options_reach_the_callable():
    got = {}

    def backend(graph, examples, **kwargs):
        got.update(kwargs)
        return graph

    compiled = G.compile(lambda x: x + 1, backend=backend, options={"level": 3})
    compiled(X)
    assert got == {"options": {"level": 3}}
    assert compiled.backend == "backend(level=3)"


# -- Failures


def test_a_failure_has_name_and_cause():
    def broken(graph, examples):
        raise KeyError("inside")

    with pytest.raises(G.compiler.BackendCompilerFailed) as error:
        G.compile(lambda x: x + 1, backend=broken)(X)
    assert isinstance(error.value, G.compiler.BackendError)
    assert error.value.backend_name == "broken" and "broken" in str(error.value)
    assert (
        isinstance(error.value.__cause__, KeyError)
        and error.value.inner_exception is error.value.__cause__
    )
    assert error.value.__cause__.__traceback__ is not None


@pytest.mark.parametrize("aot", [False, True])
def test_what_is_returned_must_be_callable(aot):
    def broken(graph, examples):
        return 3

    broken.aot = aot
    with pytest.raises(G.compiler.BackendCompilerFailed, match="cannot be called"):
        G.compile(lambda x: x + 1, backend=broken)(X)


@pytest.mark.parametrize("aot", [False, True])
@pytest.mark.parametrize(
    "wrong, text",
    [
        (lambda x: x + 1, "must return a tuple"),
        (lambda x: (x + 1, x), "must return 1 tensors, not 2"),
        (lambda x: ("a",), "the graph's is f32"),
        (lambda x: (x.sum(),), "the graph's is f32"),
        (lambda x: (x.to(G.float64),), "the graph's is f32"),
    ],
)
def test_results_are_checked(aot, wrong, text):
    def backend(graph, examples):
        return wrong

    backend.aot = aot
    with pytest.raises(G.compiler.BackendError, match=text):
        G.compile(lambda x: x + 1, backend=backend)(X)


def test_what_the_compiled_code_raises_comes_out_as_it_is():
    def backend(graph, examples):
        def run(*inputs):
            raise ZeroDivisionError("at run time")

        return run

    compiled = G.compile(lambda x: x + 1, backend=backend)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="at run time"):
            compiled(X)


def test_no_back_end_of_that_kind():
    with pytest.raises(TypeError):
        G.compile(lambda x: x, backend=3)
    with pytest.raises(ValueError):
        G.compile(lambda x: x, backend="no_such_back_end")


def test_register_backend():
    @G.compiler.register_backend(name="mine_for_a_test")
    def mine(graph, examples):
        return graph

    assert "mine_for_a_test" in G.compiler.list_backends()
    assert (
        "aot_eager" not in G.compiler.list_backends()
        and "aot_eager" in G.compiler.list_backends(exclude_tags=())
    )
    assert (G.compile(lambda x: x + 1, backend="mine_for_a_test")(X) == X + 1).all()
    with pytest.raises(ValueError, match="already"):
        G.compiler.register_backend(lambda g, e: g, name="mine_for_a_test")


def test_a_back_end_dies_with_what_it_compiled():
    class Backend:
        def __call__(self, graph, examples):
            return graph

    backend = Backend()
    dead = weakref.ref(backend)
    compiled = G.compile(fresh(lambda x: x + 1), backend=backend)
    compiled(X)
    del backend
    assert dead() is not None
    compiled.reset()
    del compiled
    gc.collect()
    assert dead() is None


@undisturbed
def test_the_back_end_may_drop_what_the_arguments_hold():
    holder = [G.ones(3)]

    def backend(graph, examples):
        def run(*inputs):
            holder.clear()
            holder.append(None)
            return graph(*inputs)

        return run

    compiled = G.compile(lambda h: (h[0] * 2, h[0]), backend=backend)
    doubled, kept = compiled(holder)
    assert doubled.tolist() == [2, 2, 2] and kept.tolist() == [1, 1, 1]


# -- One cache per back end


class Counted:
    """A back end that knows when its code runs."""

    def __init__(self):
        self.compiled = self.ran = 0

    def __call__(self, graph, examples, **kwargs):
        self.compiled += 1

        def run(*inputs):
            self.ran += 1
            return graph(*inputs)

        return run


def test_backend_01_each_back_end_runs_its_own_code():  # BACKEND-01
    f, a, b = fresh(lambda x: x + 1), Counted(), Counted()
    G.compile(f, backend=a)(X)
    G.compile(f, backend=b)(X)
    assert (a.compiled, a.ran, b.compiled, b.ran) == (1, 1, 1, 1)


@undisturbed
def test_backend_02_a_b_a_b_compiles_twice():  # BACKEND-02
    f, a, b = fresh(lambda x: x + 1), Counted(), Counted()
    for _ in range(2):
        for backend in (a, b):
            G.compile(f, backend=backend)(X)
    assert (a.compiled, b.compiled, a.ran, b.ran) == (1, 1, 2, 2)
    g, c = fresh(lambda x: x + 1), Counted()
    for _ in range(2):
        for level in (1, 2):
            G.compile(g, backend=c, options={"level": level})(X)
    assert c.compiled == 2 and c.ran == 4


@undisturbed
def test_backend_03_other_threads_use_the_entry():  # BACKEND-03
    a, failures = Counted(), []
    compiled = G.compile(fresh(lambda x: x + 1), backend=a)
    compiled(X)

    def call():
        try:
            compiled(X)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and (a.compiled, a.ran) == (1, 5)


def test_backend_04_no_switch_and_no_warning():  # BACKEND-04
    assert not hasattr(G._dynamo.config, "raise_on_backend_change")
    f = fresh(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        G.compile(f, backend="eager")(X)
        G.compile(f, backend=Counted())(X)
        G.compile(f, backend="eager")(X)


@undisturbed
def test_backend_05_fullgraph_does_not_use_an_entry_with_breaks():  # BACKEND-05
    def f(x):
        y = x * 2
        G._dynamo.graph_break()
        return y + 1

    f = fresh(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (G.compile(f, backend="eager")(X) == X * 2 + 1).all()
    with pytest.raises(G.compiler.Unsupported, match="ASKED_FOR"):
        G.compile(f, backend="eager", fullgraph=True)(X)
    whole = fresh(lambda x: x + 1)
    G.compile(whole, backend="eager")(X)
    strict = G.compile(whole, backend="eager", fullgraph=True)
    strict(X)
    assert (
        "FULLGRAPH on" in strict.entries()[0]["guards"]
        and "FULLGRAPH" in strict.entries()[0]["reason"]
    )


def test_backend_06_guard_list_and_reason_name_the_back_end():  # BACKEND-06
    f = fresh(lambda x: x + 1)

    def first_backend(graph, examples):
        return graph

    G.compile(f, backend=first_backend)(X)
    second = G.compile(f, backend="eager")
    second(X)
    entry = second.entries()[0]
    assert entry["guards"].splitlines()[0] == "BACKEND_MATCH('eager')"
    assert entry["reason"] == "BACKEND_MATCH: expected first_backend, found eager"


@undisturbed
def test_the_recompile_log_has_a_line_for_each_entry():
    program = """
import gramme as G
f = G.compile(lambda x, n: x * n, backend="eager", dynamic=False)
for n in (1, 2, 3):
    f(G.ones(2), n)
G.compile(f.__wrapped__, backend=lambda g, e: g)(G.ones(2), 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "GRAMME_LOGS": "recompiles"},
    )
    assert done.returncode == 0, done.stderr
    text = done.stderr
    assert (
        "entry 0: INT L['n']: expected 1, found 3" in text
        and "entry 1: INT L['n']: expected 2, found 3" in text
    )
    assert "BACKEND_MATCH: expected eager(dynamic=false), found <lambda>" in text


def test_explain_shows_what_the_guards_cost():
    explanation = G.compiler.explain(G.compile(fresh(lambda x: x + 1), backend="eager"))(X)  # GU-9
    assert " ns a check" in str(explanation)
    assert 0 < explanation.entries[0]["guard_ns"] <= explanation.entries[0]["guard_cold_ns"]
