# SPDX-License-Identifier: Apache-2.0
"""Saved-tensor hooks that compiled functions make part of their graphs.  Unmarked pairs are called
as in eager: test_saved_tensors_hooks.py."""

import gc
import importlib.util
import os
import pathlib
import subprocess
import sys
import types
import warnings

import pytest

import gramme as G
from gramme._dynamo import compiled_autograd
from gramme.autograd.graph import (
    _inlineable_saved_tensors_hooks,
    inlineable_saved_tensors_hook,
    saved_tensors_hooks,
)
from stress import counted, undisturbed

BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]
CALLS = []
LIMIT = 8
WIDE = G.float64


@pytest.fixture(autouse=True)
def nothing_compiled():
    G.compiler.reset()
    yield


def bits(t):
    return b"".join([t.detach().contiguous()])


@inlineable_saved_tensors_hook
def widen(t):
    return t.dtype, t.to(G.float64)


@inlineable_saved_tensors_hook
def narrow(packed):
    dtype, t = packed
    return t.to(dtype)


@inlineable_saved_tensors_hook
def to_half(t):
    return t.to(G.float16)


@inlineable_saved_tensors_hook
def from_half(t):
    return t.to(G.float32)


def chain(x, w):
    y = (x @ w).exp().sin()
    return (y.tanh() * y).sum(), w.sum()


def leaves(n=4):
    G.manual_seed(1)
    return [(G.randn(n, n) / 4).requires_grad_() for _ in range(2)]


def run(f, hooks=None, n=4):
    """Results, gradients and entries after one step under hooks (a pair or None)."""
    tensors = leaves(n)
    if hooks is None:
        results = f(*tensors)
    else:
        with saved_tensors_hooks(*hooks):
            results = f(*tensors)
    (results[0] + results[1]).backward()
    return [bits(t) for t in results] + [bits(t.grad) for t in tensors]


def graphs(f):
    return counted(f.status()["graphs"])


# HOOK-03: results and gradients keep number, order and bits; the graphs hold what the hooks do
@pytest.mark.parametrize("backend", BACKENDS)
def test_hook_03_lossless_hooks_of_python_change_no_bit(backend):
    f = G.compile(chain, backend=backend, fullgraph=True)
    assert run(f, (widen, narrow)) == run(chain)
    assert run(f, (widen, narrow)) == run(chain)
    assert graphs(f) == 1


@undisturbed
def test_lossy_hooks_reach_the_gradients_and_nothing_else():
    f = G.compile(chain, backend="eager")
    plain, packed = run(f), run(f, (to_half, from_half))
    assert packed[:2] == plain[:2] and packed[2] != plain[2]


# HOOK-11
def test_hook_11_only_marked_functions_are_inlined():
    log = []

    def pack(t):
        log.append("pack")
        return t

    f = G.compile(chain, backend="eager")
    run(f, (pack, lambda t: t))
    calls = len(log)
    assert calls > 0
    run(f, (pack, lambda t: t))
    assert (
        counted(len(log)) == 2 * calls and graphs(f) == 1
    )  # called, and no reason for another entry
    assert (
        run(f, (pack, narrow_same)) == run(chain) and graphs(f) == 1
    )  # one that is marked is no pair


@_inlineable_saved_tensors_hooks
def narrow_same(t):
    return t


PACKED = []


@inlineable_saved_tensors_hook
def note_pack(t):
    PACKED.append(("pack", t.shape))
    return t


@inlineable_saved_tensors_hook
def note_unpack(t):
    PACKED.append(("unpack", t.shape))
    return t


# HOOK-12: the pair is marked, and called all the same
@pytest.mark.parametrize("backend", BACKENDS)
def test_hook_12_marked_hooks_are_called_under_compiled_autograd(backend):
    f = G.compile(chain, backend=backend)
    plain = run(chain)
    assert run(f, (widen, narrow)) == plain and graphs(f) == 1  # inlined
    with compiled_autograd.enable(backend):
        assert run(f, (widen, narrow)) == plain and graphs(f) == 2
        assert "SAVED_HOOKS" not in f.entries()[0]["guards"]
        PACKED.clear()
        assert (
            run(f, (note_pack, note_unpack)) == plain and graphs(f) == 2
        )  # called: no pair makes an entry
        kinds = [kind for kind, _ in PACKED]
        n = len(kinds) // 2
        assert (
            n > 0 and kinds == ["pack"] * n + ["unpack"] * n
        )  # each once, and the forward before the backward
        assert sorted(PACKED[:n]) == sorted(("pack", shape) for _, shape in PACKED[n:])
    assert run(f, (widen, narrow)) == plain and graphs(f) == 2  # the first entry again


# HOOK-12: the switch of the configuration counts as well as the context
def test_hook_12_the_switch_of_the_configuration_is_guarded(monkeypatch):
    f = G.compile(chain, backend="eager")
    inlined = run(f, (to_half, from_half))
    with monkeypatch.context() as m:
        m.setattr(G._dynamo.config, "compiled_autograd", True)
        assert (
            run(f, (to_half, from_half)) == run(chain, (to_half, from_half)) != inlined
        )  # inlined, inputs stay as they are
        assert graphs(f) == 2
        assert "SAVED_HOOKS" not in f.entries()[0]["guards"]
    assert run(f, (to_half, from_half)) == inlined and graphs(f) == 2


# HOOK-13
@undisturbed
def test_hook_13_the_pair_is_guarded():
    f = G.compile(chain, backend="eager")
    for pair, want in (
        ((widen, narrow), 1),
        ((widen, narrow), 1),
        ((to_half, from_half), 2),
        ((widen, narrow), 2),
        (None, 3),
        (None, 3),
    ):
        run(f, pair)
        assert graphs(f) == want
    assert "SAVED_HOOKS (widen, narrow)" in f.entries()[-1]["guards"]
    assert "another pair" in f.entries()[1]["reason"]


def test_without_gradients_hooks_are_no_reason_for_another_entry():
    f = G.compile(chain, backend="eager")
    with G.no_grad():
        f(*leaves())
        with saved_tensors_hooks(widen, narrow):
            f(*leaves())
    assert graphs(f) == 1


@inlineable_saved_tensors_hook
def by_global(t):
    return t.to(WIDE) if t.numel() > LIMIT else t


@inlineable_saved_tensors_hook
def back(t):
    return t.to(G.float32)


@undisturbed
def test_what_a_hook_reads_of_globals_is_guarded(monkeypatch):
    f = G.compile(chain, backend="eager")
    run(f, (by_global, back))
    monkeypatch.setitem(globals(), "LIMIT", 1000)
    assert run(f, (by_global, back)) == run(chain)
    assert graphs(f) == 2
    monkeypatch.setitem(globals(), "LIMIT", 8)
    monkeypatch.setitem(globals(), "WIDE", G.float16)
    changed = run(f, (by_global, back))
    assert graphs(f) == 3 and changed[2] != run(chain)[2]


@undisturbed
def test_closures_are_guarded_and_dead_pairs_leave_room():
    f = G.compile(chain, backend="eager")

    def pair(dtype):
        return inlineable_saved_tensors_hook(lambda t: t.to(dtype)), inlineable_saved_tensors_hook(
            lambda t: t.to(G.float32)
        )

    half = pair(G.float16)
    assert run(f, half) != run(f, pair(G.float64)) == run(chain)
    assert run(f, half)[2] != run(chain)[2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no recompile limit
        for _ in range(12):
            run(f, pair(G.float64))
            gc.collect()


# HOOK-06, HOOK-09: branches see the tensor that is saved, its shape and its dtype
def test_hook_06_a_branch_is_decided_by_the_saved_tensor():
    @inlineable_saved_tensors_hook
    def pack(t):
        if t.dtype == G.float32 and t.numel() > 64:
            return [t.t().to(G.float16), {"shape": t.shape, "was": t.dtype}]
        return t

    @inlineable_saved_tensors_hook
    def unpack(packed):
        if isinstance(packed, list):
            return packed[0].to(packed[1]["was"]).t().reshape(packed[1]["shape"])
        return packed

    def f(x, s):
        return (x.exp().sin() * s.exp().cos()).sum(), s.sum()

    def step(f, hooks):
        x, s = G.linspace(-1, 1, 120).reshape(6, 20).requires_grad_(), G.ones(
            6, 1, requires_grad=True
        )
        with hooks:
            y, z = f(x, s)
        saved = G._core.live_bytes()
        (y + z).backward()
        return saved, bits(x.grad), bits(s.grad)

    compiled = G.compile(
        f,
        backend="eager",
        fullgraph=True,
        options={"saved-tensors-hooks-filtering-mode": "donated"},
    )
    step(compiled, saved_tensors_hooks(pack, unpack))
    step(compiled, saved_tensors_hooks(to_half, from_half))
    mixed, both = (
        step(compiled, saved_tensors_hooks(*pair))
        for pair in ((pack, unpack), (to_half, from_half))
    )
    plain = step(f, saved_tensors_hooks(lambda t: t, lambda t: t))
    assert mixed[1] != plain[1]  # the wide ones are packed
    assert (
        counted(mixed[0] - both[0]) == 2 * 2 * 6
    )  # the small ones are not: exp of s and its cosine, two bytes each


# HOOK-02: graphs that were recorded of the functions
def module_of(f, example):
    found = []

    def capture(module, examples):
        found.append(module)
        return module

    capture.__name__ = "capture"
    G.compile(f, backend=capture, fullgraph=True)(example)
    return found[0]


@pytest.mark.parametrize("backend", BACKENDS)
@undisturbed
def test_hook_02_graph_modules_are_traced_again_for_each_saved_tensor(backend):
    pack, unpack = module_of(lambda t: t.to(G.float16), G.ones(2)), module_of(
        lambda t: t.to(G.float32), G.ones(2, dtype=G.float16)
    )
    f = G.compile(chain, backend=backend, fullgraph=True)
    assert run(f, (pack, unpack)) == run(G.compile(chain, backend=backend), (to_half, from_half))
    before = graphs(f)
    run(f, (pack, unpack))
    assert graphs(f) == before
    x = leaves()[0]
    with saved_tensors_hooks(pack, unpack):
        y = x.exp()
    y.sum().backward()  # in eager they are called: the whole of what pack returns goes to unpack
    assert bits(x.grad) == bits(leaves()[0].exp().to(G.float16).to(G.float32))


def test_an_edited_graph_module_is_called_not_traced():
    pack, unpack = module_of(lambda t: t.to(G.float16), G.ones(2)), module_of(
        lambda t: t.to(G.float32), G.ones(2, dtype=G.float16)
    )
    pack.recompile()
    f = G.compile(chain, backend="eager")
    run(f, (pack, unpack))
    assert "SAVED_HOOKS" not in f.entries()[0]["guards"]


# HOOK-08, HOOK-10: both bodies stand in the captured graph under their names, and in what tells
# graphs apart
def test_hook_08_the_captured_graph_has_both_bodies():
    found = []

    def capture(module, examples):
        found.append(module)
        return module

    with saved_tensors_hooks(widen, narrow):
        G.compile(chain, backend=capture, fullgraph=True)(*leaves())
    (module,) = found
    pack, unpack = module.saved_tensors_hooks_pack_0, module.saved_tensors_hooks_unpack_0
    assert (
        pack(G.tensor([1.5, 2.0]))[0].dtype == G.float64
        and unpack(*pack(G.ones(2)))[0].dtype == G.float32
    )
    assert not any("hook" in node.name for node in module.nodes)
    assert (
        "saved_tensors_hooks_pack_0 (" in module.code
        and "saved_tensors_hooks_unpack_0 (" in module.code
    )


def test_hook_10_editing_a_body_changes_the_key():
    def keys(pair):
        G.compiler.reset()
        f = G.compile(chain, backend="eager")
        run(f, pair)
        return f.entries()[0]["key"], f.entries()[0]["graph"]

    a, b, c = keys((widen, narrow)), keys((to_half, from_half)), keys(None)
    assert len({a[0], b[0], c[0]}) == 3 and len({a[1], b[1], c[1]}) == 3
    assert keys((widen, narrow)) == a
    assert (
        keys((inlineable_saved_tensors_hook(lambda t: (t.dtype, t.to(G.float64))), narrow))[0]
        == a[0]
    )
    assert keys((widen, inlineable_saved_tensors_hook(lambda p: p[1].to(p[0]) * 1)))[0] != a[0]


# HOOK-16
@undisturbed
def test_hook_16_logs_show_both_graphs_before_and_after_and_each_body():
    program = """
import gramme as G
from gramme.autograd.graph import inlineable_saved_tensors_hook as mark, saved_tensors_hooks
pack, unpack = mark(lambda t: t.to(G.float16)), mark(lambda t: t.to(G.float32))
with saved_tensors_hooks(pack, unpack):
    G.compile(lambda x: x.exp().sin().sum(), backend="eager")(G.ones(8, requires_grad=True))
"""
    env = {**os.environ, "GRAMME_LOGS": "aot_graphs"}
    log = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True
    ).stderr
    sections = {}
    for line in log.splitlines():
        line = line.removeprefix("[gramme:aot_graphs] ")
        if line.endswith(":"):
            name = line[:-1]
            sections[name] = ""
        else:
            sections[name] += line + "\n"
    before, after = "{} before saved-tensor hooks", "{} after saved-tensor hooks"
    assert (
        sections["saved-tensor hooks, pack"].count("dtype=f16") == 1
        and "f32[8]" in sections["saved-tensor hooks, pack"]
    )
    assert sections["saved-tensor hooks, unpack"].count("dtype=f32") == 1
    for graph, dtype in (("forward", "dtype=f16"), ("backward", "dtype=f32")):
        assert (
            sections[before.format(graph)].startswith(graph)
            and dtype not in sections[before.format(graph)]
        )
        assert (
            sections[after.format(graph)].startswith(graph)
            and dtype in sections[after.format(graph)]
        )


# HOOK-17
def test_hook_17_a_marked_hook_that_writes_to_its_tensor_is_refused_with_its_line():
    @inlineable_saved_tensors_hook
    def pack(t):
        return t.mul_(2)

    f = G.compile(chain, backend="eager", fullgraph=True)
    with saved_tensors_hooks(pack, narrow_same), pytest.raises(
        G.compiler.Unsupported, match="inputs mutations are not allowed"
    ):
        f(*leaves())
    with saved_tensors_hooks(pack, narrow_same), pytest.raises(
        G.compiler.Unsupported, match=f"test_inlined_hooks.py:{pack.__code__.co_firstlineno}"
    ):
        f(*leaves())


@inlineable_saved_tensors_hook
def counts(t):
    CALLS.append(1)
    return t


@inlineable_saved_tensors_hook
def draws(t):
    return t + G.rand(t.shape)


@inlineable_saved_tensors_hook
def two(t, dtype=None):
    return t


@inlineable_saved_tensors_hook
def prints(t):
    print("out")
    return t


@pytest.mark.parametrize(
    "pack, says", [(counts, "changes something that existed"), (draws, "random"), (prints, "print")]
)
@undisturbed
def test_what_cannot_be_traced_is_said_and_called_as_in_eager(pack, says):
    f = G.compile(chain, backend="eager", fullgraph=True)
    with saved_tensors_hooks(pack, narrow_same), pytest.raises(G.compiler.Unsupported, match=says):
        f(*leaves())
    G.compiler.reset()
    CALLS.clear()
    f = G.compile(chain, backend="eager")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = run(f, (pack, narrow_same))
    assert says in str(caught[0].message)
    assert pack is draws or got == run(chain)
    assert bool(CALLS) == (pack is counts)


@undisturbed
def test_errors_of_hooks_are_those_of_eager():
    @inlineable_saved_tensors_hook
    def pack(t):
        raise KeyError("mine")

    @inlineable_saved_tensors_hook
    def cut(t):
        return t[:1]

    f = G.compile(chain, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with saved_tensors_hooks(pack, narrow_same), pytest.raises(KeyError, match="mine"):
            f(*leaves())
    with saved_tensors_hooks(narrow_same, cut), pytest.raises(
        ValueError, match="give back the shape"
    ):
        G.compile(chain, backend="eager")(*leaves())


# HOOK-18
@undisturbed
def test_hook_18_each_body_is_recorded_once_for_each_saved_tensor():
    program = """
import gramme as G
from gramme.autograd.graph import inlineable_saved_tensors_hook as mark, saved_tensors_hooks
with saved_tensors_hooks(mark(lambda t: t.to(G.float16)), mark(lambda t: t.to(G.float32))):
    G.compile(lambda x: x.exp().sin().tanh().sum(), backend="eager")(G.ones(8, requires_grad=True))
"""
    env = {**os.environ, "GRAMME_LOGS": "aot_graphs"}
    log = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True
    ).stderr
    forward = log[log.index("forward before saved-tensor hooks") :]
    n = forward[: forward.index("{")].count("saved %")
    assert n > 1 and log.count("hooks, pack:") == n == log.count("hooks, unpack:")


# Another backward than the compiled one: second derivatives, results without a gradient
def test_what_was_packed_is_unpacked_for_a_second_derivative():
    def second(f, hooks):
        x, w = leaves()
        with saved_tensors_hooks(*hooks):
            y, _ = f(x, w)
        (g,) = G.autograd.grad(y, x, create_graph=True)
        return bits(g), bits(G.autograd.grad(g.sum(), w)[0])

    f = G.compile(chain, backend="eager")
    assert second(f, (widen, narrow)) == second(chain, (lambda t: t, lambda t: t))
    assert graphs(f) == 1


def test_a_result_without_gradient_leaves_none():
    f = G.compile(lambda x, w: (x.exp().sin(), w.exp().sin()), backend="eager")
    x, w = leaves()
    with saved_tensors_hooks(to_half, from_half):
        y, z = f(x, w)
    y.sum().backward()
    assert w.grad is None and x.grad is not None and z.requires_grad


def test_saved_tensors_that_are_changed_in_place_are_still_an_error():
    f = G.compile(lambda x, w: (x.exp() @ w).sum(), backend="eager")
    x, w = leaves()
    with saved_tensors_hooks(widen, narrow):
        y = f(x, w)
    with G.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="changed by an in-place operation"):
        y.backward()


# HOOK-19: the filter, from Python
@pytest.mark.parametrize("mode, packed", [("donated", 1), ("no_static", 2), ("all", 3)])
def test_hook_19_the_option_says_which_tensors_hooks_see(mode, packed):
    """One f16 copy of 16 elements for each tensor that they see; those that the caller has cost
    nothing where they are not seen."""
    f = G.compile(
        lambda a, w: (a * w).exp().sum(),
        backend="eager",
        options={"saved-tensors-hooks-filtering-mode": mode},
    )
    a, w = leaves()[0] * 1, G.nn.Parameter(leaves()[1])
    with saved_tensors_hooks(to_half, from_half):
        f(a, w)
        before = G._core.live_bytes()
        y = f(a, w)
    assert counted(G._core.live_bytes() - before) == packed * 16 * 2 + 4
    assert y.requires_grad


def test_hook_19_no_static_leaves_out_parameters_and_not_other_leaves():  # HOOK-19
    packed = []

    def fw_compiler(graph, example_inputs, options):
        packed.append("f16" in graph.code)
        return graph

    backend = G._dynamo.backends.common.aot_autograd(fw_compiler=fw_compiler)
    f = G.compile(
        lambda x: x.sin(),
        backend=backend,
        fullgraph=True,
        options={"saved-tensors-hooks-filtering-mode": "no_static"},
    )
    for x in (G.ones(4, requires_grad=True), G.nn.Parameter(G.ones(4))):
        with saved_tensors_hooks(to_half, from_half):
            f(x).sum().backward()
    assert packed == [True, True, False, False] or packed == [True, False]


def test_hooks_inside_a_compiled_function_are_those_of_its_parts():
    def f(x, w):
        y = x @ w
        with saved_tensors_hooks(widen, narrow):
            z = y.exp().sin()
        return (z.tanh() * z).sum(), w.sum()

    compiled = G.compile(f, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(compiled) == run(f) == run(compiled)


def test_a_checkpointed_function_is_computed_again_without_hooks():
    f = G.compile(lambda x, w: (x @ w).exp().sin(), backend="eager")

    def outer(x, w):
        y = G.utils.checkpoint.checkpoint(f, x, w)
        return y.sum(), w.sum()

    assert run(outer, (widen, narrow)) == run(outer)


def test_entries_with_hooks_leave_nothing_behind():
    def once():
        f = G.compile(lambda x: x.exp().sin().sum(), backend="eager")
        x = G.ones(64, requires_grad=True)
        with saved_tensors_hooks(widen, narrow):
            f(x).backward()
        f.reset()

    once()
    gc.collect()
    before = G._core.live_bytes()
    for _ in range(5):
        once()
    gc.collect()
    assert G._core.live_bytes() == before


# The example: bytes are counted
@undisturbed
def test_the_example_saves_three_quarters_of_the_bytes():
    path = pathlib.Path(__file__).resolve().parents[2] / "examples" / "saved_f8.py"
    spec = importlib.util.spec_from_file_location("saved_f8", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for backend in BACKENDS:
        (_, full, _), *packed = example.measure(backend=backend, n=64, n_layers=4)
        assert full >= 4 * 64 * 64 * 4
        for name, held, off in packed:
            assert held <= 0.30 * full and 0 < off < 0.2, name


# -- Sizes that change


@inlineable_saved_tensors_hook
def to_small(t):
    scale = t.abs().amax() / 127
    return scale, (t / scale).round().to(G.int8)


@inlineable_saved_tensors_hook
def from_small(packed):
    scale, t = packed
    return t.to(G.float32) * scale


@inlineable_saved_tensors_hook
def flat(t):
    return t.reshape(t.numel()) * SCALE


@inlineable_saved_tensors_hook
def as_rows(t):
    return t.reshape(t.shape[0] // 4, 4) / SCALE


SCALE = 2.0


def sized(x, w):
    y = (x @ w).exp().sin()
    return (y.tanh() * y).sum() + y.mean(), y[: x.shape[0] - 1].sum()


def squares(x, w):
    return (x * x * x).sum(), (w * w).sum()


def step(f, hooks, n, twice=False):
    G.manual_seed(n)
    x, w = (G.randn(n, 4) / 4).requires_grad_(), G.randn(4, 4).requires_grad_()
    with saved_tensors_hooks(*hooks):
        a, b = f(x, w)
    grads = G.autograd.grad(a + b, (x, w), create_graph=twice)
    if twice:
        grads += G.autograd.grad(sum((g * g).sum() for g in grads), (x, w))
    return [bits(t) for t in (a, b, *grads)]


def apart(f):
    return types.FunctionType(
        f.__code__.replace(co_consts=(*f.__code__.co_consts, object())), globals()
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f, hooks",
    [
        (sized, (widen, narrow)),
        (sized, (to_half, from_half)),
        (sized, (to_small, from_small)),
        (squares, (flat, as_rows)),
    ],
)
@undisturbed
def test_hooks_of_tensors_whose_sizes_change_are_compiled_once(f, hooks, backend):
    compiled = G.compile(apart(f), backend=backend, fullgraph=True)
    for n in (5, 6, 9, 3, 12, 7, 20, 33, 8, 2, 5):
        assert step(compiled, hooks, n) == step(
            G.compile(apart(f), backend=backend, dynamic=False), hooks, n
        ), n
    assert graphs(compiled) <= counted(2)


def test_second_derivatives_under_hooks_for_every_size():
    compiled = G.compile(apart(sized), backend="eager", fullgraph=True)
    for n in (5, 6, 9, 2, 3):
        assert step(compiled, (widen, narrow), n, twice=True) == step(
            sized, (widen, narrow), n, twice=True
        ), n
    assert graphs(compiled) <= counted(2)


@undisturbed
def test_what_a_hook_reads_is_a_guard_of_the_form_for_all_sizes():
    global SCALE
    compiled = G.compile(apart(squares), backend="eager", fullgraph=True)
    try:
        for SCALE in (2.0, 2.0, 4.0):
            for n in (5, 6, 7):
                assert step(compiled, (flat, as_rows), n) == step(squares, (flat, as_rows), n)
        assert graphs(compiled) == 3
    finally:
        SCALE = 2.0


def test_a_later_form_is_made_with_the_same_hooks():
    """Whether n - 1 is 1 is asked by the gradient alone, so the plan gets another form while the
    entry stays."""

    def f(x, w):
        y = (x * x).tanh()
        return y.mean() + w.sum(), y[: x.shape[0] - 1].T

    def run_once(g, n):
        G.manual_seed(n)
        x, w = G.randn(n, 4).requires_grad_(), G.randn(4, 4).requires_grad_()
        with saved_tensors_hooks(widen, narrow):
            mean, part = g(x, w)
        (mean + (part * part).sum()).backward()
        return [bits(t) for t in (mean, part, x.grad, w.grad)]

    compiled = G.compile(f, backend="tcc" if "tcc" in BACKENDS else "eager", fullgraph=True)
    for n in (5, 4, 7, 2, 9, 2, 6):
        assert run_once(compiled, n) == run_once(f, n), n
    assert graphs(compiled) <= counted(2)
