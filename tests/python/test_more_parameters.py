# SPDX-License-Identifier: Apache-2.0
"""Arguments of torch.compile, of splits, norms and dropouts that torch's overloads have, and the
classes of the recorder's errors.  The expected values are torch 2.13's."""

import warnings

import pytest

import gramme as G
from gramme import compiler
from gramme._dynamo import config, exc
from gramme.testing import CompileCounter
from stress import undisturbed

V = G.arange(4.0)


def values(result):
    return [part.tolist() for part in result]


# -- gramme.compile --------------------------------------------------------------------------------


def shared(x, word):
    return x * float(word)


def calls(compiled, n):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for word in range(n):
            assert compiled(V, f"{word}.5")[1].item() == word + 0.5


@undisturbed
def test_recompile_limit_is_that_of_one_function():
    counts = [CompileCounter() for _ in range(2)]
    limited = G.compile(lambda x, word: x * float(word), backend=counts[0], recompile_limit=3)
    calls(limited, 12)
    calls(G.compile(lambda x, word: x * float(word), backend=counts[1]), 12)
    assert [count.frame_count for count in counts] == [3, config.recompile_limit]
    with config.patch(fail_on_recompile_limit_hit=True), pytest.raises(exc.FailOnRecompileLimitHit):
        limited(V, "20.5")


@undisturbed
def test_entries_are_isolated_where_that_is_asked_for():
    count = CompileCounter()
    first = G.compile(shared, backend=count)
    calls(first, 6)
    calls(G.compile(shared, backend=count), 6)
    assert count.frame_count == 6, "two of one function share their entries"
    calls(G.compile(shared, backend=count, isolate_recompiles=True), 6)
    assert count.frame_count == 12
    with pytest.warns(compiler.GraphBreakWarning, match="shared.. has been compiled for 8"):
        for word in range(10):
            first(V, f"{word}.25")


class Layer:
    def __init__(self):
        self.factor = 3.0

    def scaled(self, x, *, more=1.0):
        """Scales."""
        return x * self.factor * more


def test_an_isolated_function_is_the_function_in_all_else():
    at = 2.0

    def inner(x, y=1.0, *, z=0.5):
        return x * at + y + z

    compiled = G.compile(inner, backend="eager", isolate_recompiles=True)
    assert compiled(V, z=1.0).tolist() == inner(V, z=1.0).tolist()
    at = 5.0
    assert compiled(V).tolist() == inner(V).tolist(), "a captured variable is the same cell"
    layer = Layer()
    method = G.compile(layer.scaled, backend="eager", isolate_recompiles=True)
    assert method(V, more=2.0).tolist() == layer.scaled(V, more=2.0).tolist()
    assert method.__doc__ == "Scales." and method.__name__ == "scaled"
    with pytest.raises(TypeError):
        G.compile(3, isolate_recompiles=True)


@pytest.mark.parametrize(
    "given, error, said",
    [
        ({"recompile_limit": 0}, ValueError, "an int from 1"),
        ({"recompile_limit": True}, ValueError, "an int from 1"),
        ({"name": 3}, TypeError, "must be a string"),
        ({"shapes_spec": {"x": 0}}, NotImplementedError, "mark_dynamic"),
        ({"options": {"recompile-limit": "many"}}, ValueError, "a whole number from 1"),
    ],
    ids=str,
)
def test_arguments_of_compile_are_checked(given, error, said):
    with pytest.raises(error, match=said):
        G.compile(lambda x: x + 1, backend="eager", **given)(V)


@undisturbed
def test_the_decorator_and_the_older_name_take_them():
    count = CompileCounter()

    @G.compile(backend=count, recompile_limit=2, name="region")
    def one(x, word):
        return x * float(word)

    two = G._dynamo.optimize(count, recompile_limit=1, isolate_recompiles=True)(shared)
    calls(one, 5)
    calls(two, 5)
    assert count.frame_count == 3
    model = G.nn.Linear(4, 1)
    model.compile(backend=count, recompile_limit=5, name="m")
    assert model(V).shape == (1,)


# -- Classes of errors -----------------------------------------------------------------------------


def test_the_recorders_errors_have_torchs_classes_and_one_base():
    f = G.compile(lambda x: x * 2, backend="eager", dynamic=False)
    f(V)
    with config.patch(error_on_recompile=True), pytest.raises(exc.RecompileError, match="expected"):
        f(G.ones(3))
    with compiler.set_stance("fail_on_recompile"), pytest.raises(exc.RecompileError):
        f(G.ones(3))

    def failing(graph, inputs):
        raise KeyError("mine")

    with pytest.raises(exc.BackendCompilerFailed):
        G.compile(lambda x: x * 2, backend=failing)(V)
    with pytest.raises(exc.Unsupported):
        G.compile(lambda x: print(x), backend="eager", fullgraph=True)(V)
    for name in (
        "RecompileError",
        "BackendCompilerFailed",
        "Unsupported",
        "FailOnRecompileLimitHit",
    ):
        assert issubclass(getattr(exc, name), exc.TorchDynamoException)
    assert issubclass(exc.TorchDynamoException, RuntimeError)
    assert issubclass(exc.BackendCompilerFailed, compiler.BackendError)
    assert G._dynamo.exc is exc and exc.Unsupported is compiler.Unsupported


# -- Names and forms of arguments ------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
def test_normalize_writes_into_out(compiled):
    def run(x, out):
        return G.nn.functional.normalize(x, p=2.0, dim=1, out=out)

    f = G.compile(run, backend="eager") if compiled else run
    x = G.tensor([[3.0, 4.0]])
    for out in (G.empty(0), G.zeros(1, 2)):
        result = f(x, out)
        assert result is out and out.tolist() == G.nn.functional.normalize(x).tolist()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        f(x.clone().requires_grad_(), G.zeros(1, 2))


def test_normalize_takes_out_as_its_fifth():
    out = G.empty(0)
    G.nn.functional.normalize(G.ones(2, 1), 2.0, 1, 1e-12, out)
    assert out.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["tensor_indices_or_sections", "indices"])
def test_tensor_split_cuts_at_the_elements_of_a_vector(compiled, name):
    run = lambda x, at: G.tensor_split(x, **{name: at})
    f = G.compile(run, backend="eager") if compiled else run
    assert values(f(V, G.tensor([1, 2]))) == [[0.0], [1.0], [2.0, 3.0]]
    assert values(f(V, G.tensor([3]))) == [[0.0, 1.0, 2.0], [3.0]]
    assert values(f(V, G.tensor(2))) == [[0.0, 1.0], [2.0, 3.0]]
    for wrong, said in (
        (G.tensor([1.0]), "dtype of long, but got"),
        (G.tensor([[1]]), "one-dimensional"),
    ):
        with pytest.raises(RuntimeError, match=said):
            f(V, wrong)


def test_names_that_overloads_have():
    assert G.linalg.norm(input=V).item() == G.linalg.norm(V).item() == G.linalg.norm(A=V).item()
    for wrong in ({}, {"A": V, "input": V}):
        with pytest.raises(TypeError, match="one tensor"):
            G.linalg.norm(**wrong)
    assert V.new(size=(2, 3)).shape == (2, 3) and V.new(other=V).tolist() == V.tolist()
    assert V.new(data=[1, 2]).tolist() == [1.0, 2.0] and V.new().shape == (0,)
    with pytest.raises(TypeError, match="dtype"):
        V.new(other=G.ones(2, dtype=G.int64))
    with pytest.raises(TypeError, match="other="):
        V.new(wrong=1)


def test_feature_dropout_drops_whole_channels():
    x = G.ones(8, 16, 3, 3)
    got = G.feature_dropout(x, 0.5, train=True)
    kept = got.reshape(128, 9)
    assert {tuple(row) for row in kept.tolist()} == {(0.0,) * 9, (2.0,) * 9}
    assert G.feature_dropout(x, 0.5, False) is x
    with pytest.raises(RuntimeError, match="at least 2 dim"):
        G.feature_dropout(V, 0.5, True)
