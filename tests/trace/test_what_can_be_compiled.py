# SPDX-License-Identifier: Apache-2.0
"""compile() of whatever is called, nodes that are whole autograd.Functions, and graphs as torch's
clients read them."""

import functools
import inspect
import operator
import warnings

import pytest

import gramme as G
from gramme._dynamo.comptime import comptime
from gramme.testing import CompileCounter
from stress import counted, undisturbed

X = G.tensor([0.5, -1.0, 2.0])


def double(x, by=2):
    return x * by


class Doubled:
    def __init__(self, x):
        self.value = x * 2


class Called:
    def __call__(self, x):
        return x * 2


ANYTHING = {
    "partial": (functools.partial(double, by=3), lambda: (X,)),
    "partial of the library": (functools.partial(G.add, other=1), lambda: (X,)),
    "lru_cache": (functools.lru_cache(double), lambda: (X,)),
    "class": (Doubled, lambda: (X,)),
    "builtin": (len, lambda: (X,)),
    "builtin type": (list, lambda: ((1, 2),)),
    "operator": (operator.neg, lambda: (X,)),
    "attrgetter": (operator.attrgetter("shape"), lambda: (X,)),
    "method of a tensor": (X.add, lambda: (X,)),
    "method of Tensor": (G.Tensor.sin, lambda: (X,)),
    "function of gramme": (G.sin, lambda: (X,)),
    "method of an object": (Called().__call__, lambda: (X,)),
    "object": (Called(), lambda: (X,)),
    "method of a list": ([3, 1].index, lambda: (1,)),
}


def plain(value):
    value = getattr(value, "value", value)
    return value.tolist() if isinstance(value, G.Tensor) else value


@pytest.mark.parametrize("name", ANYTHING)
def test_what_is_called_can_be_compiled(name):
    f, args = ANYTHING[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = G.compile(f, backend="eager")
        for _ in range(3):
            assert plain(run(*args())) == plain(f(*args()))


def test_a_compiled_callable_has_the_name_and_the_signature_of_the_callable():
    run = G.compile(functools.partial(double, by=3), backend="eager")
    assert list(inspect.signature(run).parameters) == ["x", "by"]
    assert G.compile(operator.neg, backend="eager").__name__ == "neg"


@pytest.mark.parametrize("thing", [3, "sin", None.__class__, X], ids=repr)
def test_what_is_not_called_is_refused(thing):
    if callable(thing):
        return
    with pytest.raises(TypeError):
        G.compile(thing, backend="eager")


def test_what_a_function_calls_is_compiled_where_it_alone_is_disabled():
    def inner(x):
        return x * 2

    def outer(x):
        return inner(x) + 1

    count = CompileCounter()
    run = G.compile(G._dynamo.disable(outer, recursive=False), backend=count)
    for _ in range(3):
        assert run(X).tolist() == outer(X).tolist()
    assert count.frame_count == counted(1)
    none = CompileCounter()
    assert G.compile(G._dynamo.disable(outer), backend=none)(X).tolist() == outer(X).tolist()
    assert none.frame_count == 0


# -- autograd.Function as a node -------------------------------------------------------------------


class Whole(G.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k + 0

    @staticmethod
    def backward(ctx, d):
        return d * ctx.k, None


class Derived(Whole):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k - 1


@undisturbed
def test_a_function_class_that_is_allowed_in_the_graph_is_one_node():
    assert G._dynamo.allow_in_graph(Whole) is Whole
    seen = []

    def backend(gm, inputs):
        seen.extend(str(n.target) for n in gm.graph.nodes if n.op == "call_function")
        return gm

    f = lambda x: Whole.apply(x, 3) + 1  # noqa: E731
    run = G.compile(f, backend=backend, fullgraph=True)
    grads = []
    for g in (run, f):
        x = X.clone().requires_grad_()
        y = g(x)
        y.sum().backward()
        grads.append((y.tolist(), x.grad.tolist()))
    assert grads[0] == grads[1]
    assert any("Whole.apply" in target for target in seen) and not {"mul", "custom"} & set(seen)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_a_class_derived_from_one_that_is_a_node_is_recorded_as_itself(backend):
    G._dynamo.allow_in_graph(Whole)
    f = lambda x: Derived.apply(x, 3).sin()  # noqa: E731
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    a, b = G.compile(f, backend=backend)(x), f(y)
    a.sum().backward()
    b.sum().backward()
    assert a.tolist() == b.tolist() and x.grad.tolist() == y.grad.tolist()


# -- Graphs as clients of torch.fx read them -------------------------------------------------------


def graph_of(f, *args):
    got = []
    G.compile(f, backend=lambda gm, inputs: got.append(gm) or gm, fullgraph=True)(*args)
    return got[0]


@undisturbed
def test_the_output_has_one_argument_the_tuple_of_the_results():
    gm = graph_of(lambda x: (x + 1, x * 2), X)
    out = gm.graph.output_node()
    assert (
        len(out.args) == 1
        and isinstance(out.args[0], tuple)
        and [n.target for n in out.args[0]] == ["add", "mul"]
    )
    assert out.all_input_nodes == list(out.args[0])
    first, second = out.args[0]
    for results in (([second, first],), ((second, first),), (second, first)):
        out.args = results
        gm.recompile()
        assert [t.tolist() for t in gm(X)] == [(X * 2).tolist(), (X + 1).tolist()]
        assert "return (mul" in str(gm.graph)


@undisturbed
def test_a_node_says_what_is_known_of_its_value():
    gm = graph_of(lambda x: x.expand(2, 3).sum(0), X)
    for node in gm.graph.nodes:
        if node.op == "output":
            continue
        meta = node.meta["tensor_meta"]
        for value in (node.meta["val"], node.meta["example_value"]):
            assert (tuple(value.shape), value.dtype, value.stride(), value.requires_grad) == (
                tuple(meta.shape), meta.dtype, meta.stride, meta.requires_grad)  # fmt: skip
            assert value.dim() == len(meta.shape) and value.numel() == G.zeros(meta.shape).numel()
    total = gm.graph.find_nodes(op="call_function", target="sum")[0]
    assert 'File "test_what_can_be_compiled.py", line ' in total.stack_trace
    assert gm.graph.call_function(G.sin, (total,)).stack_trace is None


@undisturbed
def test_a_graph_is_a_module_of_the_functions_that_its_operators_run():
    gm = graph_of(lambda x: G.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), X)
    names = [name for name, _ in gm.named_modules()]
    assert names[0] == "" and sorted(names[1:]) == ["cond_false_0", "cond_true_0"]
    assert list(gm.modules())[0] is gm and [name for name, _ in gm.named_children()] == names[1:]
    assert [
        list(f()) for f in (gm.parameters, gm.buffers, gm.named_parameters, gm.named_buffers)
    ] == [[], [], [], []]


@undisturbed
def test_comptime_breaks_the_graph_and_prints_the_stack_inside_of_an_expression(capsys):
    def f(x):
        y = x + 1
        comptime.graph_break()
        return y * comptime.print_value_stack_and_return(x)

    count = CompileCounter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert G.compile(f, backend=count)(X).tolist() == f(X).tolist()
    assert count.frame_count == 2
    assert capsys.readouterr().out.strip()


@undisturbed
def test_a_mark_that_cannot_hold_is_a_runtime_error():
    x = G.ones(3)
    G._dynamo.mark_dynamic(x, 0)
    with pytest.raises(RuntimeError, match="mark_dynamic"):
        G.compile(lambda x: x * {3: 1}[x.shape[0]], backend="eager")(x)


# -- verify_correctness ----------------------------------------------------------------------------


def wrong(gm, inputs):
    return lambda *args: tuple(t + 1 for t in gm.forward(*args))


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_a_back_end_that_is_verified_gives_the_same_results(backend):
    def f(x, w):
        return (x @ w).tanh() + G.rand(3), x.sum()

    with G._dynamo.config.patch(verify_correctness=True):
        run = G.compile(f, backend=backend)
    w, v = G.ones(3, 3, requires_grad=True), G.ones(3, 3, requires_grad=True)
    G.manual_seed(5)
    a = run(X, w)
    G.manual_seed(5)
    b = f(X, v)
    a[0].sum().backward()
    b[0].sum().backward()
    assert [t.tolist() for t in a] == [t.tolist() for t in b] and w.grad.tolist() == v.grad.tolist()


@undisturbed
def test_a_back_end_whose_results_differ_is_an_error():
    with G._dynamo.config.patch(verify_correctness=True):
        run = G.compile(lambda x: x * 2, backend=wrong)
    with pytest.raises(RuntimeError, match="incorrect results of backend wrong"):
        run(X)
    assert G.compile(lambda x: x * 2, backend=wrong)(X).tolist() == (X * 2 + 1).tolist()
