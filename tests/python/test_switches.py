# SPDX-License-Identifier: Apache-2.0
"""Torch's settings and names for looking: each does what it says, or raises an error that says what
does it here."""

import os
import subprocess
import sys
import types

import pytest

import gramme as G
from gramme import _dynamo, _functorch, compiler, fx, nn
from gramme._dynamo import compiled_autograd, config, convert_frame, eval_frame
from gramme._dynamo.backends.common import aot_autograd
from gramme._dynamo.utils import counters
from stress import undisturbed


@pytest.fixture(autouse=True)
def fresh():
    G._dynamo.reset()
    yield
    G._dynamo.reset()


def counted(fn, sizes, **options):
    """How many graphs calls with these sizes lead to."""
    graphs = G.testing.CompileCounter()
    f = G.compile(fn, backend=graphs, **options)
    for n in sizes:
        assert f(G.ones(n)).tolist() == fn(G.ones(n)).tolist()
    return graphs.frame_count


# -- Switches of gramme._dynamo.config


@undisturbed
def test_sizes_become_symbols_as_the_switches_say():
    sizes, fn = (3, 4, 5, 6), lambda x: x * 2
    assert counted(fn, sizes) == 2
    G._dynamo.reset()
    with config.patch(automatic_dynamic_shapes=False):
        assert counted(fn, sizes) == 4
        G._dynamo.reset()
        assert counted(fn, sizes, dynamic=True) == 1
    G._dynamo.reset()
    with config.patch(assume_static_by_default=False):
        assert counted(fn, sizes) == 1
        G._dynamo.reset()
        assert counted(fn, sizes, dynamic=False) == 4


@undisturbed
def test_sizes_of_parameters_become_symbols_where_a_switch_says_so():
    def graphs_of(make):
        G._dynamo.reset()
        graphs = G.testing.CompileCounter()
        f = G.compile(lambda p: p * 2, backend=graphs)
        for n in (3, 4, 5, 6):
            p = make(n)
            assert f(p).tolist() == (p * 2).tolist()
        return graphs.frame_count

    assert graphs_of(lambda n: G.nn.Parameter(G.ones(n))) == 4
    with config.patch(force_parameter_static_shapes=False):
        assert graphs_of(lambda n: G.nn.Parameter(G.ones(n))) == 2
        assert graphs_of(G.ones) == 2


@undisturbed
def test_a_marked_size_is_a_symbol_without_automatic_ones():
    graphs = G.testing.CompileCounter()
    f = G.compile(lambda x: x * 2, backend=graphs)
    with config.patch(automatic_dynamic_shapes=False):
        for n in (3, 4, 5):
            x = G.ones(n, 2)
            _dynamo.mark_dynamic(x, 0)
            assert f(x).tolist() == (x * 2).tolist()
    assert graphs.frame_count == 1


@undisturbed
def test_ints_and_strides_stay_numbers_without_automatic_symbols():
    graphs = G.testing.CompileCounter()
    f = G.compile(lambda x, n: x * n, backend=graphs)
    with config.patch(automatic_dynamic_shapes=False):
        for n in (3, 4, 5):
            assert f(G.ones(2), n).tolist() == [n, n]
    assert graphs.frame_count == 3


@undisturbed
def test_a_recompilation_can_be_an_error_that_says_why():
    f = G.compile(lambda x: x * 2, backend="eager", dynamic=False)
    f(G.ones(3))
    with config.patch(error_on_recompile=True):
        assert f(G.ones(3)).tolist() == [2.0] * 3
        with pytest.raises(RuntimeError, match="error_on_recompile is set: .*expected"):
            f(G.ones(4))
    assert f(G.ones(4)).tolist() == [2.0] * 4


@undisturbed
def test_the_limit_of_entries_counts_those_of_all_back_ends():
    def fn(x):
        return x * 2

    one, two = G.testing.CompileCounter(), G.testing.CompileCounter()
    with config.patch(accumulated_recompile_limit=3, automatic_dynamic_shapes=False):
        with pytest.warns(compiler.GraphBreakWarning, match="3 different kinds of calls"):
            for n in (2, 3, 4, 5):
                G.compile(fn, backend=one)(G.ones(n))
                G.compile(fn, backend=two)(G.ones(n))
    assert one.frame_count + two.frame_count == 3


@undisturbed
@pytest.mark.parametrize(
    "name", ["recompile_limit", "cache_size_limit", "accumulated_cache_size_limit"]
)
def test_reaching_the_limit_can_be_an_error(name):
    f = G.compile(lambda x: x * 2, backend="eager", dynamic=False)
    with config.patch({name: 1, "fail_on_recompile_limit_hit": True}):
        f(G.ones(2))
        for _ in range(2):
            with pytest.raises(RuntimeError, match="recompile limit.*expected"):
                f(G.ones(3))


def fails(graph, example_inputs):
    raise ValueError("no")


def fails_aot(graph, example_inputs):
    raise ValueError("no")


fails_aot.aot = True


@undisturbed
@pytest.mark.parametrize("backend", [fails, fails_aot])
def test_a_back_end_that_fails_can_leave_the_function_to_plain_python(backend):
    log = []

    def fn(x):
        log.append(1)
        return x * 2

    with pytest.raises(compiler.BackendCompilerFailed):
        G.compile(fn, backend=backend)(G.ones(2))
    assert log == []
    with config.patch(suppress_errors=True):
        with pytest.warns(compiler.GraphBreakWarning, match="(?s)no\n.*runs as plain Python"):
            assert G.compile(fn, backend=backend)(G.ones(2)).tolist() == [2.0, 2.0]
        assert log == [1]
        with pytest.raises(compiler.BackendCompilerFailed):
            G.compile(fn, backend=backend, fullgraph=True)(G.ones(2))

        def raises(x):
            raise KeyError(x * 1 is x)

        with pytest.raises(KeyError):
            G.compile(raises, backend=backend)(G.ones(2))


# -- What a module of switches takes


@pytest.mark.parametrize(
    "module, name, value, error, words",
    [
        (
            config,
            "suppress_erors",
            True,
            AttributeError,
            "no switch 'suppress_erors'.*suppress_errors",
        ),
        (config, "optimize_ddp", False, AttributeError, "one process"),
        (config, "guard_nn_modules", False, AttributeError, "guarded, always"),
        (config, "recompile_limit", "8", TypeError, "takes int, not str"),
        (config, "recompile_limit", True, TypeError, "takes int, not bool"),
        (config, "suppress_errors", 1, TypeError, "takes bool, not int"),
        (config, "side_effect_replay_policy", "loud", ValueError, "'silent' or 'info'"),
        (_functorch.config, "activation_memory_budget", "half", TypeError, "takes float or int"),
        (
            _functorch.config,
            "saved_tensors_hooks_filtering_mode",
            "some",
            ValueError,
            "'donated' or 'no_static' or 'all'",
        ),
        (_functorch.config, "functionalize_rng_ops", True, AttributeError, "part of the graph"),
        (compiler.config, "job_id", 3, TypeError, "takes str or None"),
        (compiler.config, "force_disable_caches", True, AttributeError, "GRAMME_CACHE=0"),
    ],
)
def test_a_switch_that_there_is_not_or_a_value_that_means_nothing_is_an_error(
    module, name, value, error, words
):
    before = getattr(module, name, None)
    with pytest.raises(error, match=words):
        setattr(module, name, value)
    with pytest.raises(error, match=words), module.patch({name: value}):
        pass
    assert getattr(module, name, None) == before
    if error is AttributeError:
        with pytest.raises(error, match=words):
            getattr(module, name)


def test_one_switch_has_two_names():
    with compiler.config.patch(recompile_limit=3, verbose=True):
        assert config.recompile_limit == config.cache_size_limit == 3 and config.verbose
    config.cache_size_limit = 5
    assert config.recompile_limit == compiler.config.recompile_limit == 5
    config.recompile_limit = 8
    assert "cache_size_limit" in dir(config) and G.compiler.config is compiler.config


# -- gramme._functorch.config


def graphs_of(fn, *args, options=None):
    forwards = []

    def keep(graph, example_inputs, options=None):
        forwards.append(len(graph.graph.output_node().args[0]))
        return graph

    G.compile(
        fn,
        backend=aot_autograd(fw_compiler=keep, bw_compiler=keep),
        options=options,
        fullgraph=True,
    )(*args).sum().backward()
    return forwards


@undisturbed
def test_the_memory_budget_of_the_process_is_that_of_each_function_which_says_none():
    def fn(x):
        return x.sin().exp().tanh().cos()

    x = G.ones(8, requires_grad=True)
    free, none = graphs_of(fn, x), graphs_of(fn, x, options={"memory-budget": 0.0})
    assert free != none
    with _functorch.config.patch(activation_memory_budget=0.0):
        G._dynamo.reset()
        assert graphs_of(fn, x) == none
        G._dynamo.reset()
        assert graphs_of(fn, x, options={"partition": "default"}) == free


@undisturbed
def test_the_filter_of_hooks_of_the_process_is_that_of_each_function_which_says_none():
    mark = G.autograd.graph.inlineable_saved_tensors_hook
    pack, unpack = mark(lambda x: x.to(G.float16)), mark(lambda x: x.to(G.float32))
    seen = []

    def keep(graph, example_inputs):
        seen.append(any(x.dtype == G.float16 for x in example_inputs))
        return graph

    for mode, want in (("donated", False), ("all", True)):
        G._dynamo.reset()
        f = G.compile(
            lambda x: x.sin(),
            backend=aot_autograd(fw_compiler=lambda g, e: g, bw_compiler=keep),
            fullgraph=True,
        )
        with _functorch.config.patch(
            saved_tensors_hooks_filtering_mode=mode
        ), G.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = f(G.ones(4, requires_grad=True))
            y.sum().backward()
        assert seen.pop() == want


# -- Counters


@undisturbed
def test_counters_count_graphs_and_their_operations():
    def fn(x):
        return (x * 2).sin() + 1

    G.compile(fn, backend="eager")(G.ones(2))
    assert counters["stats"] == {"unique_graphs": 1, "calls_captured": 3}
    assert counters["aot_autograd"] == {"total": 1, "ok": 1, "not_ok": 0}
    G.compile(fn, backend=lambda graph, example_inputs: graph)(
        G.ones(2)
    )  # takes the graph as it was recorded
    assert counters["stats"]["unique_graphs"] == 2 and counters["aot_autograd"]["total"] == 1
    with pytest.raises(compiler.BackendCompilerFailed):
        G.compile(fn, backend=fails_aot)(G.ones(2))
    assert counters["aot_autograd"] == {"total": 2, "ok": 1, "not_ok": 1}


def test_counters_are_a_defaultdict_of_counters():
    counters.clear()
    counters["mine"]["a"] += 2
    assert (
        counters["mine"] == {"a": 2}
        and "mine" in counters
        and {"mine", "frames", "stats"} <= set(counters)
    )
    assert (
        isinstance(counters, dict)
        and counters.get("frames")["total"] == 0
        and counters.get("other") is None
        and "other" not in counters
    )
    assert len(counters) == len(list(counters.items())) == len(
        counters.values()
    ) and "stats" in dict(counters.items())
    counters.clear()
    assert "mine" not in counters and counters["mine"] == {}


# -- Names for looking, and for passes


@undisturbed
def test_the_entries_of_a_code_object_can_be_asked_for():
    def fn(x):
        return x * 2

    f = G.compile(fn, backend="eager", dynamic=False)
    assert eval_frame._debug_get_cache_entry_list(fn.__code__) == []
    f(G.ones(2))
    f(G.ones(3))
    newest, oldest = eval_frame._debug_get_cache_entry_list(f)
    assert (
        "[3]" in newest.graph
        and "[2]" in oldest.graph
        and oldest.reason is None
        and "expected" in newest.reason
    )
    assert (
        isinstance(newest.code, (types.CodeType, type(None)))
        and newest.backend == "eager(dynamic=false)"
        and eval_frame.innermost_fn(f) is fn
    )
    with pytest.raises(TypeError, match="not int"):
        eval_frame._debug_get_cache_entry_list(3)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: convert_frame.register_bytecode_hook(print), "GRAMME_LOGS=bytecode"),
        (lambda: fx.symbolic_trace(lambda x: x + 1), "backend=lambda graph, example_inputs"),
        (lambda: nn.parallel.DistributedDataParallel(nn.Linear(1, 1)), "leave the module as it is"),
        (lambda: fx.wrap("len"), "top level of a module"),
        (lambda: fx.wrap(3), "not int"),
    ],
)
def test_what_there_is_not_says_what_to_use(call, words):
    with pytest.raises((NotImplementedError, RuntimeError, TypeError), match=words):
        call()


def test_a_name_is_wrapped_at_the_top_level_of_a_module():
    scope = {"__name__": "mine"}
    exec(
        (
            "import gramme\ndef f(x): return x\ngiven = gramme.fx.wrap('f')\nassert "
            "gramme.fx.wrap('len') == 'len'"
        ),
        scope,
    )
    assert scope["given"] == "f" and scope["f"]._gramme_wrapped
    with pytest.raises(NameError, match="'g'.*no such function yet"):
        exec("gramme.fx.wrap('g')", scope)
    with pytest.raises(TypeError, match="names a dict"):
        exec("d = {}; gramme.fx.wrap('d')", scope)


@undisturbed
def test_compiled_autograd_takes_what_compiles_a_graph():
    graphs = []

    def compile_graph(graph):
        graphs.append(graph)
        return graph

    for _ in range(2):
        x = G.ones(3, requires_grad=True)
        with compiled_autograd.enable(compile_graph):
            (x * x).sum().backward()
        assert x.grad.tolist() == [2.0] * 3
    assert len(graphs) == 1  # what was compiled is found again


@undisturbed
def test_a_recorded_graph_is_compiled_by_another_back_end():
    ran = []

    def inner(graph, example_inputs):
        ran.append(graph)
        return graph

    def outer(graph, example_inputs):
        return G.compile(graph, backend=inner)

    x = G.ones(3, requires_grad=True)
    y = G.compile(lambda x: x.sin() * 2, backend=outer, fullgraph=True)(x)
    y.sum().backward()
    assert len(ran) == 2 and x.grad.tolist() == (G.ones(3).cos() * 2).tolist()
    import functools

    x = G.ones(3, requires_grad=True)
    with compiled_autograd.enable(functools.partial(G.compile, backend="eager")):
        (x * x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


@undisturbed
def test_the_functions_of_cond_are_attributes_of_the_graph():
    seen = []

    def keep(graph, example_inputs):
        seen.append(graph)
        return graph

    def fn(p, x):
        x = G.cond(p, lambda x: x + 1, lambda x: x * 3, (x,))
        return G.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,))

    G.compile(fn, backend=keep, fullgraph=True)(G.tensor(True), G.ones(3))
    (graph,) = seen
    assert isinstance(graph.cond_true_0, fx.GraphModule)
    assert [n.target for n in graph.cond_false_0.graph.nodes if n.op == "call_function"] == [
        "full",
        "mul",
    ]
    (given,) = graph.cond_true_0(G.ones(3))
    assert given.tolist() == [2.0] * 3
    assert (
        "sin" in graph.cond_true_1.code
        and "cos" in graph.cond_false_1.code
        and not hasattr(graph, "cond_true_2")
    )


# -- Logs


@pytest.mark.parametrize(
    "logs, shown, said",
    [
        ("dynamo", ["graph_code"], None),
        ("graph", ["graph_code"], None),
        (
            "nothing_of_the_kind, graph_code ,neither",
            ["graph_code"],
            'there is no log "nothing_of_the_kind", "neither"; choose from: all',
        ),
        ("aot", ["aot_graphs"], None),
        ("trace_bytecode", ["bytecode"], None),
        ("dynamo,-graph", [], None),
    ],
)
def test_logs_have_torchs_names_and_an_unknown_one_hides_no_other(logs, shown, said):
    program = (
        "import gramme as G; a = []; G.compile(lambda x: (a.append(1), x * 2)[1], "
        "backend='eager')(G.ones(2))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "GRAMME_LOGS": logs, "GM_STRESS": ""},
    )
    assert done.returncode == 0, done.stderr
    assert {
        name
        for name in ("graph_code", "aot_graphs", "bytecode", "guards")
        if f"[gramme:{name}]" in done.stderr
    } == set(shown)
    assert (said in done.stderr) if said else "no log" not in done.stderr
