# SPDX-License-Identifier: Apache-2.0
"""Marked saved-tensor hooks that ask for the elements of a tensor are called; those that are graphs
take tensors of any size."""

import pytest

import gramme as G
from gramme.autograd.graph import inlineable_saved_tensors_hook, saved_tensors_hooks
from stress import counted, undisturbed

BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]
CALLS = []


@pytest.fixture(autouse=True)
def nothing_compiled():
    G.compiler.reset()
    CALLS.clear()
    yield


@inlineable_saved_tensors_hook
def keep_what_is_not_zero(t):
    CALLS.append("pack")
    where = t.reshape(-1).nonzero().reshape(-1)
    return t.shape, where, t.reshape(-1)[where]


@inlineable_saved_tensors_hook
def fill_with_zeros(packed):
    shape, where, values = packed
    return G.zeros(shape).reshape(-1).index_put((where,), values).reshape(shape)


@inlineable_saved_tensors_hook
def keep_the_positive(t):
    return t[t > 0], t > 0, t


@inlineable_saved_tensors_hook
def keep_by_item(t):
    return t * 2 if t.sum().item() > 1 else t + t


@inlineable_saved_tensors_hook
def halve(t):
    return t / 2


@inlineable_saved_tensors_hook
def give_third(packed):
    return packed[2]


@inlineable_saved_tensors_hook
def by_branch(t):
    if t.sum() > 1:
        return t * 2
    return t + t


PAIRS = [
    (keep_what_is_not_zero, fill_with_zeros),
    (keep_the_positive, give_third),
    (keep_by_item, halve),
    (by_branch, halve),
]


def f(x):
    return (x.sin() * x).exp()


def gradient(function, hooks=None, values=(0.0, 1.0, 2.0)):
    x = G.tensor(list(values), requires_grad=True)
    if hooks is None:
        y = function(x)
    else:
        with saved_tensors_hooks(*hooks):
            y = function(x)
    y.sum().backward()
    return y.tolist(), x.grad.tolist()


# HOOK-18
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("filtering", ["donated", "no_static", "all"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_hook_18_a_body_with_a_size_that_depends_on_elements_compiles(
    backend, filtering, fullgraph
):
    options = {"saved-tensors-hooks-filtering-mode": filtering}
    for hooks in PAIRS:
        compiled = G.compile(f, backend=backend, fullgraph=fullgraph, options=options)
        for values in ((0.0, 1.0, 2.0), (0.0, 0.0, 3.0), (1.0, 2.0)):
            assert (
                gradient(compiled, hooks, values)
                == gradient(f, hooks, values)
                == gradient(f, None, values)
            )


@undisturbed
def test_the_function_is_compiled_all_the_same_and_the_hooks_are_called():
    compiled = G.compile(f, backend="eager")
    gradient(compiled, PAIRS[0])
    assert compiled.status()["graphs"] == 1 and compiled.status()["breaks"] == []
    CALLS.clear()
    gradient(compiled, PAIRS[0])
    n = len(CALLS)
    assert n > 0 and compiled.status()["graphs"] == 1
    gradient(compiled)  # without hooks: another entry
    assert len(CALLS) == n and compiled.status()["graphs"] == 2


@undisturbed
def test_a_hook_that_cannot_be_recorded_for_another_reason_is_refused():
    @inlineable_saved_tensors_hook
    def prints(t):
        print("packed")
        return t

    compiled = G.compile(f, backend="eager", fullgraph=True)
    with pytest.raises(
        G.compiler.Unsupported, match="a saved-tensor hook cannot be part of a graph"
    ):
        gradient(compiled, (prints, fill_with_zeros))


def module_of(function, example, dynamic):
    found = []

    def capture(module, examples):
        found.append(module)
        return module

    G.compile(function, backend=capture, fullgraph=True, dynamic=dynamic)(example)
    return found[0]


def sized(backend, hooks, sizes):
    compiled = G.compile(
        f,
        backend=backend,
        fullgraph=True,
        dynamic=True,
        options={"saved-tensors-hooks-filtering-mode": "all"},
    )
    for n in sizes:
        values = [float(i) for i in range(n)]
        assert gradient(compiled, hooks, values) == gradient(f, None, values)
    return compiled


# HOOK-02
@undisturbed
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_hook_02_one_compilation_serves_all_sizes_where_the_hooks_are_graphs(backend, dynamic):
    pack = module_of(lambda t: t.to(G.float64), G.ones(5), dynamic)
    unpack = module_of(lambda t: t.to(G.float32), G.ones(5, dtype=G.float64), dynamic)
    compiled = sized(backend, (pack, unpack), (3, 4, 7))
    (entry,) = compiled.entries()
    assert "the numbers of a call" not in str(entry) and compiled.status()["graphs"] == 1


@undisturbed
def test_a_size_in_a_hook_that_is_a_graph_is_the_saved_tensor_s():
    pack = module_of(lambda t: t.reshape(1, t.shape[0]) * t.shape[0], G.ones(5), True)
    unpack = module_of(lambda t: t.reshape(t.shape[1]) / t.shape[1], G.ones(1, 5), True)
    compiled = G.compile(
        f,
        backend="eager",
        fullgraph=True,
        dynamic=True,
        options={"saved-tensors-hooks-filtering-mode": "all"},
    )
    for n in (2, 4, 8):  # powers of two: no bit is lost
        values = [float(i) for i in range(n)]
        assert gradient(compiled, (pack, unpack), values) == gradient(f, None, values)
    assert counted(compiled.status()["graphs"]) == 1
