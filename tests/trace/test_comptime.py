# SPDX-License-Identifier: Apache-2.0
"""comptime: user code that runs while a function is being recorded."""

import sys
import warnings

import pytest

import gramme as G
from gramme._dynamo.comptime import ComptimeContext, ComptimeVar, comptime
from gramme.testing import CompileCounter
from stress import undisturbed

pytestmark = undisturbed
X = G.ones(2, 3)


def run(f, *args, backend="eager"):
    compiled = G.compile(f, backend=backend)
    return compiled, compiled(*args)


def test_compt_01_locals_of_cells_and_of_inlined_frames():  # COMPT-01
    seen = []

    def look(ctx):
        seen.append((ctx.get_local("y").size(), ctx.get_local("n").as_python_constant()))

    def inner(y, n):
        get = lambda: (y, n)  # makes both cells
        comptime(look)
        return get()[0]

    def root_with_cells(x):
        y, n = x * 2, 7
        get = lambda: (y, n)
        comptime(look)
        return get()[0]

    def root_with_locals(x):
        y, n = x * 2, 7
        comptime(look)
        return y

    run(root_with_cells, X)
    run(root_with_locals, X)
    run(lambda x: inner(x * 2, 7), X)
    assert seen == [((2, 3), 7)] * 3


def test_compt_02_print_of_an_argument_in_a_cell(capsys):  # COMPT-02
    def f(x, e):
        get = lambda: e
        comptime.print(e)
        comptime.print(x)
        return x + get()

    run(f, X, 41)
    assert capsys.readouterr().out.splitlines() == [
        "41, not used yet",
        "tensor f32[2, 3], not used yet",
    ]
    f(X, 41)  # plain Python prints the value
    assert capsys.readouterr().out.splitlines()[0] == "41"


def test_compt_03_runs_once_per_compilation_and_never_on_a_hit():  # COMPT-03
    ran, fell_back = [], []

    def f(x, reach):
        if reach:
            comptime(lambda ctx: ran.append(1), lambda: fell_back.append(1))
        return x + 1

    compiled = G.compile(f, backend="eager")
    compiled(X, True)
    compiled(X, True)
    assert (len(ran), len(fell_back)) == (1, 0)
    compiled(G.ones(4), True)
    assert len(ran) == 2
    compiled(X, False)
    assert len(ran) == 2
    f(X, True)
    assert (len(ran), len(fell_back)) == (2, 1)


def test_as_a_decorator_and_without_a_fallback():
    seen = []

    def f(x):
        y = x + 1

        @comptime
        def _(ctx):
            seen.append(ctx.get_local("y").size(0))

        return y

    run(f, X)
    assert seen == [2]
    f(X)
    assert seen == [2]


def test_compt_04_a_debugger_stops_while_the_line_is_recorded(monkeypatch):  # COMPT-04
    stops = []

    def hook(*args, **kwargs):
        frame = sys._getframe(1)
        names = []
        while frame:
            names.append(frame.f_code.co_name)
            if "ctx" in frame.f_locals and not stops:
                stops.append(frame.f_locals["ctx"].get_local("y").size())
            frame = frame.f_back
        stops.append(names)

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def f(x):
        y = x * 2
        comptime.breakpoint()
        return y

    run(f, X)
    assert stops[0] == (2, 3)
    assert "test_compt_04_a_debugger_stops_while_the_line_is_recorded" in stops[1]


def test_compt_05_graph_break():  # COMPT-05
    def f(x):
        y = x * 2
        comptime(lambda ctx: ctx.graph_break("here"))
        return y + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled, result = run(f, X)
    assert (result == f(X)).all()
    assert len(compiled.status()["breaks"]) == 1
    assert (
        "ASKED_FOR" in compiled.status()["breaks"][0]
        and "here: here" in compiled.status()["breaks"][0]
    )


def test_compt_06_printing_does_not_break(capsys):  # COMPT-06
    def f(x):
        y = x * 2
        comptime.print(y)
        comptime.print_graph()
        comptime.print_locals()
        comptime.print_value_stack()
        comptime.print_bt()
        comptime.print_guards()
        comptime.print_disas()
        return y + 1

    counter = CompileCounter()
    compiled, _ = run(f, X, backend=counter)
    assert counter.frame_count == compiled.status()["graphs"] == 1
    assert compiled.status()["breaks"] == []
    out = capsys.readouterr().out
    assert (
        "tensor f32[2, 3]" in out
        and "BACKEND_MATCH" in out
        and "RETURN_VALUE" in out
        and " in f" in out
    )


def test_compt_07_print_locals(capsys):  # COMPT-07
    def f(x, n, names):
        y = x * n
        get = lambda: y
        comptime.print_locals()
        return get()

    run(f, X, 3, ["a"])
    lines = capsys.readouterr().out.splitlines()
    assert "x = tensor f32[2, 3]" in lines
    assert any(line.startswith("n = 3") for line in lines)
    assert "names = not used yet: list from L['names']" in lines
    assert "y = tensor f32[2, 3]" in lines  # a cell's contents


def test_compt_08_print_graph_shows_what_has_been_recorded(capsys):  # COMPT-08
    def f(x):
        y = x.sin()
        comptime.print_graph()
        return y.cos()

    run(f, X)
    out = capsys.readouterr().out
    assert "sin" in out and "cos" not in out


def test_compt_10_the_public_surface():  # COMPT-10
    public = lambda cls: {name for name in vars(cls) if not name.startswith("_")}
    assert public(ComptimeContext) == {
        "get_local",
        "graph_break",
        "graph",
        "parent",
        "assert_static",
        "force_static",
        "print_graph",
        "print_disas",
        "print_value_stack",
        "print_locals",
        "print_bt",
        "print_guards",
    }
    assert public(ComptimeVar) == {
        "as_proxy",
        "is_proxy",
        "as_fake",
        "size",
        "python_type",
        "as_python_constant",
        "is_python_constant",
        "is_dynamic",
        "force_static",
    }


def test_variables_answer():
    answers = {}

    def look(ctx):
        y, n, x = (ctx.get_local(name) for name in ("y", "n", "x"))
        answers["proxy"] = y.as_proxy().target, y.is_proxy(), n.is_proxy()
        answers["fake"] = y.as_fake().shape, y.as_fake().dtype, y.as_fake().requires_grad
        answers["types"] = y.python_type(), n.python_type()
        answers["constant"] = n.is_python_constant(), y.is_python_constant(), y.is_dynamic()
        answers["nodes"] = [node.target for node in ctx.graph().nodes if node.op == "call_function"]
        answers["parent"] = ctx.parent() is None
        ctx.assert_static(y)
        ctx.force_static(y)
        with pytest.raises(TypeError):
            y.as_python_constant()
        with pytest.raises(TypeError):
            n.as_fake()
        with pytest.raises(KeyError):
            ctx.get_local("no_such_name")

    def f(x, n):
        y = x.sin()
        comptime(look)
        return y * n

    run(f, X, 3)
    assert answers == {
        "proxy": ("sin", True, False),
        "fake": ((2, 3), G.float32, False),
        "types": (G.Tensor, int),
        "constant": (True, False, False),
        "nodes": ["sin"],
        "parent": True,
    }


def test_compt_10_a_size_that_may_differ_is_dynamic_and_can_be_fixed():  # COMPT-10
    seen, graphs = [], []

    def counting(graph, example_inputs):
        graphs.append(graph)
        return graph

    def make(fix):
        def f(x):
            n = x.shape[0]

            @comptime
            def look(ctx):
                size, tensor = ctx.get_local("n"), ctx.get_local("x")
                seen.append(
                    (
                        size.is_dynamic(),
                        tensor.is_dynamic(),
                        str(tensor.size(0)),
                        size.is_python_constant(),
                    )
                )
                if fix:
                    (size if fix == "size" else tensor).force_static()

            return x * n

        return f

    for fix, count in (("", 1), ("size", 2), ("tensor", 2)):
        seen.clear(), graphs.clear(), G._dynamo.reset()
        f = G.compile(make(fix), backend=counting, dynamic=True)
        assert [f(G.ones(n)).tolist() for n in (5, 6, 5)] == [[5.0] * 5, [6.0] * 6, [5.0] * 5]
        assert len(graphs) == count, fix
        assert seen == [(True, True, seen[0][2], False)] * count and not seen[0][2].isdigit()

    seen.clear(), G._dynamo.reset()
    G.compile(make(""), backend=counting, dynamic=False)(G.ones(5))
    assert seen == [(False, False, "5", True)]


def test_comptime_code_runs_once_in_each_branch_of_cond():  # COMPT-01
    seen = []

    def branch(name, by):
        def run_branch(x):
            @comptime
            def look(ctx):
                seen.append(name)

            return x + by

        return run_branch

    f = G.compile(
        lambda p, x: G.cond(p, branch("t", 1), branch("f", -1), (x,)),
        backend="eager",
        fullgraph=True,
    )
    assert f(G.tensor(True), G.ones(1)).item() == 2
    assert sorted(set(seen)) == ["f", "t"] and len(seen) == 2


def test_parent_is_the_calling_frame():
    seen = []

    def inner(z):
        comptime(
            lambda ctx: seen.append((ctx.get_local("z").size(), ctx.parent().get_local("y").size()))
        )
        return z

    def f(x):
        y = x.sum(dim=0)
        return inner(x) + y

    run(f, X)
    assert seen == [((2, 3), (3,))]


def test_free_variables_of_the_function_are_known_values():
    seen = []

    def f(x, n):
        y = x * 2

        @comptime
        def _(ctx):
            seen.append((n, y.size()))

        return y * n

    run(f, X, 3)
    assert seen == [(3, (2, 3))]


def test_what_it_raises_reaches_the_caller():
    def fails(ctx):
        raise ValueError("from comptime")

    def f(x):
        comptime(fails)
        return x

    with pytest.raises(ValueError, match="from comptime"):
        G.compile(f, backend="eager")(X)
    assert f(X) is X


def test_objects_are_of_no_use_afterwards():
    kept = []

    def f(x):
        comptime(lambda ctx: kept.append((ctx, ctx.get_local("x"))))
        return x + 1

    run(f, X)
    ctx, var = kept[0]
    with pytest.raises(RuntimeError, match="over"):
        ctx.get_local("x")
    with pytest.raises(RuntimeError, match="over"):
        var.python_type()


def test_asking_makes_no_guard():
    def f(x, names):
        comptime(lambda ctx: ctx.get_local("names").python_type())
        return x + 1

    compiled, _ = run(f, X, ["a"])
    compiled(X, {"another": "type"})
    assert compiled.status()["graphs"] == 1
