# SPDX-License-Identifier: Apache-2.0
"""Control flow that stays in the graph: cond."""

import os
import subprocess
import sys
import types
import warnings

import pytest

import gramme as G
from gramme.higher_order import cond, invoke_subgraph, nested_compile_region
from stress import undisturbed

YES, NO = G.tensor(True), G.tensor(False)
BACKENDS = [name for name in ("eager", "tcc", "cc") if name in G.compiler.list_backends()]


def fresh(fn):
    """The function with a code object of its own, hence with a cache of its own."""
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def graphs_of(fn, *args):
    """The recorded graphs as text, and what the function returned."""
    texts = []

    def keep(graph, inputs):
        texts.append(graph.code)
        return graph

    result = G.compile(fresh(fn), backend=keep, fullgraph=True)(*args)
    return texts, result


def same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, G.Tensor):
        assert (
            a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        ), (a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        [same(a[k], b[k]) for k in a]
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        [same(x, y) for x, y in zip(a, b)]
    else:
        assert a == b


def leaf(*values):
    return G.tensor(list(values), requires_grad=True)


def error_of(fn, *args):
    with pytest.raises(G.compiler.Unsupported) as caught:
        G.compile(fresh(fn), backend="eager", fullgraph=True)(*args)
    return str(caught.value)


class Layer(G.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = G.nn.Parameter(G.tensor([0.5, 2.0, -1.0]))
        self.bias = G.nn.Parameter(G.tensor([0.25, -0.5, 1.5]))

    def forward(self, x):
        return (x * self.weight).tanh() + self.bias


# -- Values and gradients


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("flag", [True, False])
def test_both_branches_have_the_values_and_gradients_of_plain_python(backend, flag):
    w = leaf(1.0, 2.0, 3.0)

    def f(x, pred):
        return cond(pred, lambda a: (a * w).sin(), lambda a: a + w.cos(), (x.exp(),)) * 2

    def plain(x):
        a = x.exp()
        return ((a * w).sin() if flag else a + w.cos()) * 2

    grads = []
    for run in (
        lambda x: G.compile(fresh(f), backend=backend, fullgraph=True)(x, G.tensor(flag)),
        lambda x: f(x, G.tensor(flag)),
        plain,
    ):
        x = leaf(0.1, 0.2, 0.3)
        w.grad = None
        y = run(x)
        y.sum().backward()
        grads.append([y.detach(), x.grad, w.grad])
    same(grads[0], grads[2])
    same(grads[1], grads[2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives(backend):
    def penalty(run, x, w):
        (g,) = G.autograd.grad(run(x, w).sum(), x, create_graph=True)
        (g * g).sum().backward()
        return [x.grad, w.grad]

    compiled = G.compile(
        lambda x, w: cond(
            x.sum() > 0, lambda q: (q * w).sin() * q, lambda q: q * q * w, (x.exp(),)
        ),
        backend=backend,
    )
    for x in ([0.1, 0.2], [-0.1, -0.2]):
        args = lambda: (leaf(*x), leaf(1.5, 2.5))
        plain = lambda x, w: (x.exp() * w).sin() * x.exp() if x.sum() > 0 else x.exp() * x.exp() * w
        for one, two in zip(penalty(compiled, *args()), penalty(plain, *args())):
            assert G.allclose(one, two, rtol=1e-5), (one, two)


def test_no_gradient_flows_to_what_the_chosen_branch_does_not_read():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    f = G.compile(lambda p: cond(p, lambda: a * 2, lambda: b * 3), backend="eager", fullgraph=True)
    f(YES).sum().backward()
    assert a.grad.tolist() == [2.0, 2.0] and b.grad.tolist() == [0.0, 0.0]


def test_a_predicate_that_is_computed_is_read_at_every_call():
    f = G.compile(
        lambda x: cond(x.sum() > 0, lambda: x + 1, lambda: x - 1), backend="eager", fullgraph=True
    )
    assert (
        f(G.tensor([1.0])).tolist() == [2.0]
        and f(G.tensor([-1.0])).tolist() == [-2.0]
        and f(G.tensor([5.0])).tolist() == [6.0]
    )


@undisturbed
def test_a_constant_predicate_chooses_while_recording():  # HO-3
    texts, y = graphs_of(lambda x: cond(True, lambda: x.sin(), lambda: x.cos()), G.ones(2))
    assert "= cond" not in texts[0] and "sin" in texts[0] and y.tolist() == G.ones(2).sin().tolist()


def test_bad_arguments():
    for args, text in [
        ((G.tensor([True, False]), lambda: 1, lambda: 1), "one element"),
        (("yes", lambda: 1, lambda: 1), "pred must be"),
        ((YES, 1, 2), "callable"),
        ((YES, lambda: 1, lambda: 1, 3), "operands"),
    ]:
        with pytest.raises((TypeError, ValueError), match=text):
            cond(*args)


# -- The statements


@undisturbed
def test_cond_01_branches_are_traced_with_fakes_only():
    seen = []

    def true_fn(x):
        seen.append(x)
        return x * 2

    big = G.ones(3)
    f = lambda x: cond(
        x.sum() > 0, lambda: x.reshape(x.shape[0], 1) * 2, lambda: x.reshape(x.shape[0], 1)
    )
    texts, y = graphs_of(f, big)
    assert y.shape == (3, 1) and texts[0].count("f32[3, 1]") >= 2


def test_cond_02_effects_pending_before_are_visible_in_branches():
    def f(x, items):
        items.append(x * 3)
        made = [x + 1]
        return cond(x.sum() > 0, lambda: items[-1] + made[0], lambda: items[-1] - made[0])

    items = []
    x = G.tensor([1.0, 2.0])
    y = G.compile(fresh(f), backend="eager", fullgraph=True)(x, items)
    assert y.tolist() == [5.0, 9.0] and len(items) == 1 and items[0].tolist() == [3.0, 6.0]


class Counter:
    n = 0


def test_cond_03_the_same_effect_in_both_branches_happens_once():
    counter, items = Counter(), []

    def f(x):
        def branch(sign):
            counter.n += 1
            items.append("seen")
            return x * sign

        return cond(x.sum() > 0, lambda: branch(1), lambda: branch(-1))

    g = G.compile(fresh(f), backend="eager", fullgraph=True)
    assert g(G.tensor([-2.0])).tolist() == [2.0]
    assert counter.n == 1 and items == ["seen"]
    g(G.tensor([2.0]))
    assert counter.n == 2 and items == ["seen"] * 2


def test_cond_03_an_effect_in_one_branch_is_an_error():
    items = []
    text = error_of(
        lambda x: cond(x.sum() > 0, lambda: (items.append(1), x)[1], lambda: x * 1), G.ones(2)
    )
    assert (
        "do not change the same" in text
        and "items" in text
        and "append" in text
        and "nothing in the second" in text
    ), text
    assert items == []


def test_cond_03_a_tensor_that_a_branch_stores_is_an_error():
    box = Counter()

    def branch(x):
        box.last = x.sin()
        return x * 1

    assert "stores a tensor that it computed" in error_of(
        lambda x: cond(x.sum() > 0, lambda: branch(x), lambda: branch(x)), G.ones(2)
    )
    assert not hasattr(box, "last")


@undisturbed
def test_cond_04_parameters_used_only_inside_a_branch_are_captured():
    layer = Layer()
    texts, y = graphs_of(
        lambda x: cond(x.sum() > 0, lambda a: layer(a), lambda a: a * layer.bias, (x,)), G.ones(3)
    )
    assert texts[0].split("->")[0].count("requires_grad") == 2
    same(y.detach(), layer(G.ones(3)).detach())
    y.sum().backward()
    assert layer.weight.grad is not None and layer.bias.grad.tolist() == [1.0, 1.0, 1.0]


def test_cond_05_guards_of_both_branches_hold():
    settings = {"scale": 2.0}
    other = Counter()
    other.n = 3.0
    f = G.compile(
        lambda x: cond(x.sum() > 0, lambda: x * settings["scale"], lambda: x * other.n),
        backend="eager",
        fullgraph=True,
    )
    up, down = G.tensor([1.0]), G.tensor([-1.0])
    assert f(up).tolist() == [2.0] and f(down).tolist() == [-3.0]
    other.n = 5.0  # only the branch that was not taken first reads it
    assert f(down).tolist() == [-5.0] and f(up).tolist() == [2.0]
    settings["scale"] = 7.0
    assert f(up).tolist() == [7.0] and f(down).tolist() == [-5.0]


def run_script(text, **env):
    run = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env={**os.environ, **env}
    )
    assert run.returncode == 0, run.stderr
    return run.stdout, run.stderr


ONE_COND = """
import gramme as G
def f(x):
    return G.cond(x.sum() > 0, lambda: x.sin(), lambda: x.cos())
G.compile(f, backend="eager", fullgraph=True)(G.ones(2))
"""


@pytest.mark.skipif(bool(os.environ.get("GM_STRESS")), reason="asks for what is recorded once")
def test_cond_06_the_order_is_visible_in_the_log():
    err = run_script(ONE_COND, GRAMME_LOGS="trace_call")[1]
    lines = [line.split("] ", 1)[1] for line in err.splitlines() if "trace_call" in line]
    assert lines == [
        "cond: checkpoint, tracing cond_true_0",
        "cond: rollback of cond_true_0",
        "cond: checkpoint, tracing cond_false_0",
        "cond: rollback of cond_false_0",
        "cond: merge",
    ]


def outer_a(x):
    return x * 2


def outer_b(x):
    return x * 3


def test_cond_07_closures_made_in_a_branch_are_no_side_effect():
    def f(x, y):
        def true_fn(a):
            def inner(b):
                return outer_a(b) + y

            return cond(a.sum() > 5, lambda: inner(a), lambda: outer_b(a))

        def false_fn(a):
            def inner(b):
                return outer_b(b) - y

            return inner(a)

        return cond(x.sum() > 0, true_fn, false_fn, (x,))

    g = G.compile(fresh(f), backend="eager", fullgraph=True)
    y = G.tensor([1.0, 1.0])
    assert g(G.tensor([4.0, 4.0]), y).tolist() == [9.0, 9.0]
    assert g(G.tensor([1.0, 1.0]), y).tolist() == [3.0, 3.0]
    assert g(G.tensor([-1.0, -1.0]), y).tolist() == [-4.0, -4.0]


def test_cond_08_a_variable_of_the_function_around_is_stored_once_or_an_error():
    def f(x):
        n = 0

        def true_fn():
            nonlocal n
            n = 5
            return x + 1

        def false_fn():
            nonlocal n
            n = 5
            return x - 1

        y = cond(x.sum() > 0, true_fn, false_fn)
        return y * n

    g = G.compile(fresh(f), backend="eager", fullgraph=True)
    assert g(G.tensor([1.0])).tolist() == [10.0] and g(G.tensor([-1.0])).tolist() == [-10.0]

    def bad(x):
        n = 0

        def true_fn():
            nonlocal n
            n = 1
            return x + 1

        def false_fn():
            nonlocal n
            n = 2
            return x - 1

        y = cond(x.sum() > 0, true_fn, false_fn)
        return y * n

    text = error_of(bad, G.ones(1))
    assert "was 0: 1 after cond_true_0, 2 after cond_false_0" in text, text


def test_cond_09_the_difference_names_object_key_and_both_values():
    box, table = Counter(), {"k": 0}

    def store(owner, value, x):
        owner.n = value
        return x * 1

    def put(value, x):
        table["k"] = value
        return x * 1

    text = error_of(
        lambda x: cond(x.sum() > 0, lambda: store(box, 1, x), lambda: store(box, 2, x)), G.ones(1)
    )
    assert "L['box'].n, which was 0: = 1 in the first, = 2 in the second" in text, text
    text = error_of(lambda x: cond(x.sum() > 0, lambda: put(7, x), lambda: put(8, x)), G.ones(1))
    assert (
        "__closure__[0].cell_contents: ['k'] = 7 in the first" in text
        and "'k'" in text
        and "7" in text
        and "8" in text
    ), text
    assert Counter.n == 0 and table == {"k": 0}


# COND-01
@pytest.mark.parametrize("backend", BACKENDS)
def test_cond_01_a_branch_may_read_nothing_but_how_large_a_tensor_is(backend):
    """Then that tensor says what the symbol is in each call, though no node has it."""

    def operators(x, y):
        return cond(y.sum() > 0, lambda: y * G.ones(x.shape), lambda: y + x.shape[1])

    def python(x, y):
        return y * G.ones(x.shape) if y.sum() > 0 else y + x.shape[1]

    compiled = G.compile(fresh(operators), backend=backend, fullgraph=True)
    for n in (3, 6, 7):
        for y in (G.ones(3, n), -G.ones(3, n)):
            for f in (operators, compiled):
                same(f(G.ones(3, n), y), python(G.ones(3, n), y))


# COND-01
def test_cond_01_what_became_a_number_outside_is_one_in_the_body():
    """How far the rows of this are apart is how many columns there are: one, if that says
    nothing."""
    f = lambda t: invoke_subgraph(lambda p: p.relu(), t)
    compiled = G.compile(fresh(f), backend="eager", fullgraph=True)
    for n in (16, 0, 1, 7):
        t = G.ones(2, n).transpose(1, 0)
        same(compiled(t), t.relu().contiguous())
        same(f(t), t.relu().contiguous())


def test_cond_10_branches_may_be_nested_functions():
    def f(x):
        k = x.shape[0]

        def one(a):
            return a * k

        def two(a):
            return one(a) + one(a)

        return cond(x.sum() > 0, one, two, (x,))

    assert G.compile(fresh(f), backend="eager", fullgraph=True)(
        G.tensor([-1.0, -1.0])
    ).tolist() == [-4.0, -4.0]


@undisturbed
def test_cond_11_subgraphs_are_numbered_in_order_of_occurrence():
    def f(x):
        y = cond(x.sum() > 0, lambda: x.sin(), lambda: x.cos())
        return cond(y.sum() > 0, lambda: y.exp(), lambda: y.tanh())

    text = graphs_of(f, G.ones(2))[0][0]
    names = [word for word in text.replace("(", " ").split() if word.startswith("cond_")]
    assert names == ["cond_true_0", "cond_false_0", "cond_true_1", "cond_false_1"], text


@undisturbed
def test_cond_12_inputs_first_touched_in_a_branch_do_not_collide():
    a, b, unused = G.tensor([1.0]), G.tensor([2.0]), G.tensor([9.0])

    def true_fn(x):
        unused * 3  # read, and of no use to the result
        return x * a

    texts, y = graphs_of(
        lambda x: cond(x.sum() > 0, true_fn, lambda x: x * b + a, (x,)), G.tensor([-3.0])
    )
    assert y.tolist() == [-5.0]
    header = texts[0].split("->")[0]
    assert header.count("f32[1]") <= 4 and len(set(header.split("%"))) == len(
        header.split("%")
    ), header


@undisturbed
def test_cond_13_no_node_of_a_branch_stays_outside():
    def f(x):
        return cond(x.sum() > 0, lambda: x.sin().exp(), lambda: x.cos().exp()) + 1

    text = graphs_of(f, G.ones(2))[0][0]
    outside = [line for line in text.splitlines() if line.startswith("  %")]
    assert not any("sin" in line or "cos" in line or "exp" in line for line in outside), text

    def breaks(x):
        y = x * 2
        z = cond(y.sum() > 0, lambda: y.sin(), lambda: (print("", end=""), y.cos())[1])
        return z + 1

    texts = []

    def keep(graph, inputs):
        texts.append(graph.code)
        return graph

    with warnings.catch_warnings(), pytest.raises(G.compiler.Unsupported):
        warnings.simplefilter("ignore")
        G.compile(fresh(breaks), backend=keep)(G.ones(2))
    assert all("sin" not in text for text in texts)


@undisturbed
def test_cond_14_a_module_used_by_both_branches_is_there_once():
    layer = Layer()
    text = graphs_of(
        lambda x: cond(x.sum() > 0, lambda: layer(x), lambda: layer(x) * 2), G.ones(3)
    )[0][0]
    assert text.split("->")[0].count("requires_grad") == 2, text


def test_cond_15_trees_of_tensors():
    from collections import namedtuple

    def f(x):
        return cond(
            x.sum() > 0,
            lambda: {"a": x + 1, "b": [x * 2, None], "c": (x, 3)},
            lambda: {"a": x - 1, "b": [x * 3, None], "c": (x, 3)},
        )

    g = G.compile(fresh(f), backend="eager", fullgraph=True)
    same(
        g(G.tensor([1.0])),
        {"a": G.tensor([2.0]), "b": [G.tensor([2.0]), None], "c": (G.tensor([1.0]), 3)},
    )
    same(
        g(G.tensor([-1.0])),
        {"a": G.tensor([-2.0]), "b": [G.tensor([-3.0]), None], "c": (G.tensor([-1.0]), 3)},
    )
    assert (
        G.compile(
            lambda x: cond(x.sum() > 0, lambda: None, lambda: None), backend="eager", fullgraph=True
        )(G.ones(1))
        is None
    )
    for one, two in [
        (lambda x: (x, x), lambda x: [x, x]),
        (lambda x: {"a": x}, lambda x: {"b": x}),
        (lambda x: (x, 1), lambda x: (x, 2)),
    ]:
        text = error_of(lambda x: cond(x.sum() > 0, one, two, (x,)), G.ones(1))
        assert "different structure" in text and "cond_true_0" in text and "cond_false_0" in text


@pytest.mark.parametrize(
    "one, two, words",
    [
        (lambda x: x, lambda x: x.int(), ["f32[2, 3]", "i32[2, 3]"]),
        (lambda x: x, lambda x: x[0], ["[2, 3]", "[3]"]),
        (lambda x: x, lambda x: x[:, :2], ["[2, 3]", "[2, 2]"]),
        (lambda x: x.t(), lambda x: x.reshape(3, 2), ["strides"]),
        (lambda x: x * 1, lambda x: x.detach() * 1, ["requires grad"]),
    ],
    ids=["dtype", "rank", "size", "stride", "requires_grad"],
)
def test_cond_16_results_that_differ_are_reported_with_both_metas(one, two, words):
    text = error_of(lambda x: cond(x.sum() > 0, one, two, (x,)), G.ones(2, 3, requires_grad=True))
    assert "result 0 is" in text and all(word in text for word in words), text


def test_cond_17_a_change_of_shape_in_place_leaks_nowhere():
    def f(x):
        a = x * 1

        def true_fn():
            b = x * 2
            b.t_()
            return b.reshape(6)

        y = cond(x.sum() > 0, true_fn, lambda: (x * 3).reshape(6))
        return y, a.shape, a

    x = G.arange(6.0).reshape(2, 3)
    y, shape, a = G.compile(fresh(f), backend="eager", fullgraph=True)(x)
    assert (
        y.tolist() == [0.0, 6.0, 2.0, 8.0, 4.0, 10.0]
        and tuple(shape) == (2, 3)
        and a.shape == (2, 3)
    )

    def outer(x):
        a = x * 1
        y = cond(x.sum() > 0, lambda: a.t_().reshape(6) * 1, lambda: a.reshape(6) * 1)
        return y, a

    assert "cond" in error_of(outer, x)


def test_cond_18_in_eager_the_branches_are_compiled():
    x = G.tensor([1.0, 2.0])
    k = 3
    assert cond(YES, lambda a: a * k, lambda a: a - k, (x,)).tolist() == [3.0, 6.0]
    assert cond(NO, lambda a: a * k, lambda a: a - k, (x,)).tolist() == [-2.0, -1.0]
    items = []
    with pytest.raises(G.compiler.Unsupported):
        cond(YES, lambda: (items.append(1), x)[1], lambda: x * 1)
    assert items == []
    f = G.compile(lambda x: x * 2 + 1, backend="eager", fullgraph=True)
    assert f(x).tolist() == [3.0, 5.0]


def test_cond_18_many_functions_in_eager_do_not_reach_the_recompile_limit():
    x = G.tensor([1.0])
    for i in range(40):
        assert cond(YES, lambda: x * i, lambda: x).tolist() == [float(i)]


MANY_INPUTS = """
import gramme as G
ws = {name: G.full((2,), float(i)) for i, name in enumerate(("q", "alpha", "z", "beta", "k"))}
def f(x):
    used = set(ws)
    return G.cond(x.sum() > 0, lambda: x * ws["z"] + ws["alpha"] * ws["q"], lambda: x * ws["beta"] + ws["z"] + ws["k"])
def keep(graph, inputs):
    print(graph.code)
    return graph
G.compile(f, backend=keep, fullgraph=True)(G.ones(2))
"""


@undisturbed
def test_cond_19_the_order_of_lifted_inputs_is_the_same_in_every_process():
    texts = {run_script(MANY_INPUTS, PYTHONHASHSEED=str(seed))[0] for seed in range(20)}
    assert len(texts) == 1 and "cond_true_0" in texts.pop()


SHARED = """
import gramme as G
def body(a, b):
    return a * 2 - b
def f(x, y):
    one = G.cond(x.sum() > 0, body, body, (x, y))
    two = G.cond(x.sum() > 0, body, body, (y, x))
    return one + two
def keep(graph, inputs):
    print(graph.code)
    return graph
print(G.compile(f, backend=keep, fullgraph=True)(G.ones(2), G.zeros(2)).tolist())
"""


@undisturbed
def test_cond_20_one_body_with_swapped_operands_is_treated_alike_in_every_process():
    texts = {run_script(SHARED, PYTHONHASHSEED=str(seed))[0] for seed in range(5)}
    assert len(texts) == 1 and texts.pop().endswith("[1.0, 1.0]\n")


# -- Together


@pytest.mark.parametrize("backend", BACKENDS)
def test_cond_in_cond_with_gradients(backend):
    layer = Layer()

    def f(x):
        def inner(a):
            return cond(a.sum() > 4, lambda b: layer(b) * b, lambda b: b.exp() * layer.weight, (a,))

        return cond(x.sum() > 0, inner, lambda a: a.sin() * layer.bias, (x * 2,))

    def plain(x):
        a = x * 2
        if x.sum() > 0:
            return layer(a) * a if a.sum() > 4 else a.exp() * layer.weight
        return a.sin() * layer.bias

    compiled = G.compile(fresh(f), backend=backend, fullgraph=True)
    for values in ([1.0, 1.0, 1.0], [0.5, 0.5, 0.5], [-1.0, 0.0, 0.5]):
        found = []
        for run in (compiled, plain):
            layer.zero_grad()
            x = leaf(*values)
            y = run(x)
            (y * y).sum().backward()
            found.append(
                [y.detach(), x.grad]
                + [p.grad if p.grad is not None else G.zeros(3) for p in layer.parameters()]
            )
        same(*found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_to_what_a_branch_made_are_its_own(backend):
    def f(x):
        def branch(a):
            y = a.clone()
            y.add_(1)
            y[0] = 7
            return y * a

        return cond(x.sum() > 0, branch, lambda a: a * 1, (x,))

    x = leaf(1.0, 2.0)
    y = G.compile(fresh(f), backend=backend, fullgraph=True)(x)
    y.sum().backward()
    assert y.tolist() == [7.0, 6.0] and x.grad.tolist() == [7.0, 5.0]


def test_a_write_to_what_was_made_outside_is_an_error():
    assert "writes to a tensor that was made outside of it" in error_of(
        lambda x: cond(x.sum() > 0, lambda: x.add_(1), lambda: x * 1), G.ones(2)
    )


@undisturbed
def test_invoke_subgraph_and_nested_compile_region():
    region = nested_compile_region(lambda x, y: (x * y).tanh())
    texts, y = graphs_of(
        lambda x: region(x, x + 1) + invoke_subgraph(lambda a: a.sin(), x), G.ones(2)
    )
    same(y, (G.ones(2) * 2).tanh() + G.ones(2).sin())
    assert texts[0].count("= invoke_subgraph") >= 2


def test_a_break_in_a_branch_runs_nothing_and_says_why():
    def f(x):
        return cond(x.sum() > 0, lambda: (print("never", end=""), x)[1], lambda: x * 1)

    text = error_of(f, G.ones(2))
    assert "print" in text


def test_results_are_new_tensors():
    f = G.compile(
        lambda x: cond(x.sum() > 0, lambda: (x, x), lambda: (x, x)), backend="eager", fullgraph=True
    )
    x = G.ones(2)
    a, b = f(x)
    a.add_(1)
    assert x.tolist() == [1.0, 1.0] and b.tolist() == [1.0, 1.0]
