# SPDX-License-Identifier: Apache-2.0
"""What a program says about its compilation: disable, stances, constants, stand-ins, breaks."""

import binascii
import os
import threading
import types
import warnings

import pytest

import gramme as G
from gramme import nn
from gramme.testing import CompileCounter
from stress import FORCED, undisturbed

X = G.ones(3)
STRESSED = "rollback" in os.environ.get("GM_STRESS", "")


def quiet(fn, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fn(*args)


def test_is_compiling():
    f = lambda x: x + 1 if G.compiler.is_compiling() else x + 2
    assert f(X)[0].item() == 3
    assert G.compile(f, backend="eager")(X)[0].item() == 2
    assert G.compiler.is_compiling() is False


def test_graph_break_is_nothing_in_plain_python_and_has_a_reason():
    def f(x):
        y = x + 1
        G._dynamo.graph_break("on purpose")
        return y * 2

    assert G._dynamo.graph_break() is None
    compiled = G.compile(f, backend="eager")
    assert quiet(compiled, X).tolist() == f(X).tolist()
    assert "on purpose" in compiled.status()["breaks"][0]
    with pytest.raises(G.compiler.Unsupported, match="on purpose"):
        G.compile(f, backend="eager", fullgraph=True)(X)


def test_a_disabled_function_is_a_break():
    @G.compiler.disable(reason="it talks to the world")
    def callee(x):
        """Its text."""
        assert not G.compiler.is_compiling()
        return x + 1

    compiled = G.compile(lambda x: callee(x * 2), backend="eager")
    assert quiet(compiled, X)[0].item() == 3
    reason = compiled.status()["breaks"][0]
    assert "DISABLED" in reason and "it talks to the world" in reason and "callee" in reason
    assert (callee.__name__, callee.__doc__) == ("callee", "Its text.")
    assert G.compile(callee, backend="eager") is callee


def test_a_disabled_method():
    class Model(nn.Module):
        @G.compiler.disable
        def forward(self, x):
            return x + 1

    assert Model()(X)[0].item() == 2
    model = Model()
    compiled = G.compile(lambda x: model(x) * 2, backend="eager")
    assert quiet(compiled, X)[0].item() == 4
    assert "DISABLED" in compiled.status()["breaks"][0]


def test_disable_is_recursive_unless_told_otherwise():
    counter = CompileCounter()
    inner = G.compile(lambda x: x + 1, backend=counter)
    G.compiler.disable(lambda x: inner(x))(X)
    assert counter.frame_count == 0
    G.compiler.disable(lambda x: inner(x), recursive=False)(X)
    assert counter.frame_count == 1


def test_disable_of_a_module_is_in_place():
    model = nn.Linear(3, 3)
    assert G.compiler.disable(model) is model
    counter = CompileCounter()
    compiled = G.compile(lambda x: model(x), backend=counter)
    quiet(compiled, X)
    assert any("DISABLED" in reason for reason in compiled.status()["breaks"])


def test_an_exception_in_a_disabled_function_turns_compilation_on_again():
    @G.compiler.disable
    def fails():
        raise ValueError

    with pytest.raises(ValueError):
        fails()
    counter = CompileCounter()
    G.compile(lambda x: x + 1, backend=counter)(X)
    assert counter.frame_count == 1


def test_assume_constant_result_is_called_once():
    calls = []

    @G.compiler.assume_constant_result
    def size(n):
        calls.append(n)
        return n * 10

    compiled = G.compile(lambda x: x * size(2), backend="eager", fullgraph=True)
    assert compiled(X)[0].item() == compiled(X)[0].item() == 20
    assert set(calls) == {2} and (
        len(calls) == 1 or STRESSED or FORCED
    )  # undone and done again, it is called again
    assert size(3) == 30


def test_assume_constant_result_as_a_method_and_with_an_object():
    class Config:
        @G.compiler.assume_constant_result
        def scale(self):
            return self.value

    config, other = Config(), Config()
    config.value, other.value = 2, 5
    compiled = G.compile(lambda x, c: x * c.scale(), backend="eager", fullgraph=True)
    assert compiled(X, config)[0].item() == 2
    assert (
        compiled(X, other)[0].item() == 5
    )  # another object is not the one that the promise was about


def test_assume_constant_result_needs_known_arguments():
    @G.compiler.assume_constant_result
    def size(x):
        return 2

    compiled = G.compile(lambda x: x * size(x + 1), backend="eager")
    assert quiet(compiled, X)[0].item() == 2
    assert "assume_constant_result" in compiled.status()["breaks"][0]


def test_substitute_in_graph():
    f = lambda x: x * binascii.crc_hqx(b"ab", 0)
    compiled = G.compile(f, backend="eager")
    quiet(compiled, X)
    assert "CALL_C" in compiled.status()["breaks"][0]

    @G.compiler.substitute_in_graph(binascii.crc_hqx)
    def crc_hqx(data, crc, /):
        for byte in (97, 98):
            crc ^= byte << 8
            for _ in range(8):
                crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
                crc &= 0xFFFF
        return crc

    G.compiler.reset()
    compiled = G.compile(f, backend="eager", fullgraph=True)
    assert compiled(X).tolist() == f(X).tolist()
    with pytest.raises(TypeError, match="parameters"):
        G.compiler.substitute_in_graph(binascii.crc32)(lambda only_one: 1)


def test_allow_in_graph_returns_what_it_got():
    own = lambda x: x + 1
    assert G.compiler.allow_in_graph(G.sin) is G.sin
    assert G.compiler.allow_in_graph([own]) == [own]
    with pytest.raises(TypeError):
        G.compiler.allow_in_graph(3)


OPAQUE_LOG = []


@G.compiler.allow_in_graph
def opaque(x, w, scale=2.0):
    OPAQUE_LOG.append(G.compiler.is_compiling())
    if x.sum() > 0:  # nothing that a graph could have
        return helper_of_opaque(x * w) * scale
    return x - w


def helper_of_opaque(x):
    OPAQUE_LOG.append(tuple(x.shape))
    return x.exp()


def around_opaque(x, w):
    y = x * 2 + 1
    z = opaque(y, w, scale=3.0)
    return (z * y).sum() + opaque(-y, w).sum()


@pytest.mark.parametrize("backend", ["eager", "tcc", "cc"])
def test_allow_in_graph_calls_and_never_records_through(backend):
    results = []
    for f in (around_opaque, G.compile(around_opaque, backend=backend)):
        for start in (0.5, 0.25):
            del OPAQUE_LOG[:]
            x, w = G.full((3,), start), G.tensor([1.0, 2.0, 3.0], requires_grad=True)
            value = f(x, w)
            value.backward()
            results.append((value.item(), w.grad.tolist(), list(OPAQUE_LOG)))
    n = 2 if FORCED else 3  # while a call is recorded, the function is tried
    assert results[1][:n] == results[3][:n] and results[0][:2] == results[2][:2]
    assert results[0][2] == [False, (3,), False] == results[2][2][-3:]


@undisturbed
def test_allow_in_graph_makes_a_node():
    G.compiler.reset()
    text = str(G.compiler.explain(G.compile(around_opaque, backend="eager"))(X, G.ones(2, 3)))
    assert (
        text.count('host_call "opaque"') == 2 and "[KEPT_WHOLE]" not in text and "1 graph" in text
    ), text
    assert "exp" not in text.replace("explain", "")
    assert (
        G.compile(around_opaque, fullgraph=True)(X, G.ones(2, 3)).item()
        == around_opaque(X, G.ones(2, 3)).item()
    )


@undisturbed
def test_eager_then_compile():
    def f(x):
        seen.append(G.compiler.is_compiling())
        print(end="")
        return x * 2

    for again in range(2):
        seen, counter = [], CompileCounter()
        compiled = G.compile(f, backend=counter)
        with G.compiler.set_stance("eager_then_compile"):
            assert compiled(X).tolist() == [2, 2, 2]
            assert (seen, counter.frame_count) == ([False], 0)
            assert compiled(X).tolist() == [2, 2, 2]
            assert seen == [False, True] and counter.frame_count == 1
            assert compiled(G.ones(2)).tolist() == [2, 2] and counter.frame_count == 2
        G.compiler.reset()


@undisturbed
def test_force_backend():
    def f(x):
        y = x + 1
        print(end="")
        return y * 2

    own, forced = CompileCounter(), CompileCounter()
    compiled = G.compile(f, backend=own)
    with G.compiler.set_stance(force_backend=forced):
        assert compiled(X).tolist() == [4, 4, 4]
        with G.compiler.set_stance("default"):
            compiled(X)
            assert own.frame_count == 2
    assert (own.frame_count, forced.frame_count) == (2, 2)
    compiled(X)
    assert (own.frame_count, forced.frame_count) == (2, 2)

    @G.compiler.set_stance(force_backend="eager")
    def within():
        return compiled(G.ones(2)).tolist()

    assert within() == [4, 4] and own.frame_count == 2
    with pytest.raises(RuntimeError, match="default"):
        G.compiler.set_stance("force_eager", force_backend="eager")
    for wrong in ("no such back end", 3):
        with pytest.raises((ValueError, TypeError)):
            G.compiler.set_stance("default", force_backend=wrong)
    assert compiled(X).tolist() == [4, 4, 4] and own.frame_count == 2


def test_force_backend_is_of_one_thread():
    counter, other = CompileCounter(), CompileCounter()
    compiled = G.compile(lambda x: x + 3, backend=counter)
    with G.compiler.set_stance(force_backend=other):
        thread = threading.Thread(target=compiled, args=(X,))
        thread.start()
        thread.join()
    assert (counter.frame_count, other.frame_count) == (1, 0)


def mask_read(x, m):
    y = x * 2
    z = y[m] + 1
    return z.sum(), z


def gradient_inside(w):
    y = (w * 2).sum()
    y.backward()
    return w.grad + 1


def gradient_asked_for_inside(w):
    (g,) = G.autograd.grad((w * w).sum(), [w])
    return g * 2


@undisturbed
def test_reading_through_a_mask_and_gradients_inside_break_once(monkeypatch):
    monkeypatch.setattr(G._dynamo.config, "capture_dynamic_output_shape_ops", False)
    x = G.arange(6).float()
    w = G.tensor([1.0, 2.0], requires_grad=True)
    for f, args, reason in (
        (mask_read, (x, x > 2), "DYNAMIC_SHAPE"),
        (gradient_inside, (w,), "BACKWARD"),
        (gradient_asked_for_inside, (w,), "BACKWARD"),
    ):
        w.grad = None
        want = repr(f(*args))
        w.grad = None
        compiled = G.compile(f, backend="eager")
        assert repr(compiled(*args)) == want
        w.grad = None
        G.compiler.reset()
        text = str(G.compiler.explain(compiled)(*args))
        assert text.count("[" + reason + "]") == 1 and ", 1 break" in text, text
    masks = [x > n for n in (5, 0, 9, 3)]
    compiled = G.compile(mask_read)
    assert [repr(compiled(x, m)) for m in masks] == [repr(mask_read(x, m)) for m in masks]


def test_mark_static():
    x = G.ones(2, 3)
    G.compiler.mark_static(x, -1)
    G.compiler.mark_static(x, [0])
    assert {dim: kind for dim, (kind, _, _) in x._gramme_sizes.items()} == {0: 1, 1: 1}
    with pytest.raises(IndexError):
        G.compiler.mark_static(x, 2)


def test_forbid_in_graph_is_an_error_where_breaks_are_allowed_too():
    @G._dynamo.forbid_in_graph
    def never(x):
        return x + 1

    assert never(X)[0].item() == 2
    compiled = G.compile(lambda x: never(x * 2), backend="eager")
    for _ in range(6):  # each time, and not only as often as a break is tried again
        with pytest.raises(
            G.compiler.Unsupported, match=r"never must not be called.*\n(.*\n)*.*FORBIDDEN"
        ):
            compiled(X)


def asks_for_a_break(x):
    y = x + 1
    G._dynamo.graph_break()
    return y * 2


@undisturbed
def test_error_on_graph_break_around_a_compiled_function():
    compiled = G.compile(
        types.FunctionType(asks_for_a_break.__code__.replace(), globals()), backend="eager"
    )
    want = asks_for_a_break(X).tolist()
    assert quiet(compiled, X).tolist() == want
    for _ in range(6):
        with G._dynamo.error_on_graph_break(True):
            with pytest.raises(G.compiler.Unsupported, match="ASKED_FOR"):
                compiled(X)
            with G._dynamo.error_on_graph_break(False):
                assert compiled(X).tolist() == want
        assert compiled(X).tolist() == want


def test_error_on_graph_break_inside_of_a_compiled_function():
    @G._dynamo.error_on_graph_break(True)
    def strict(x):
        return asks_for_a_break(x)

    def lenient(x):
        with G._dynamo.error_on_graph_break(True):
            x = x * 3
            with G._dynamo.error_on_graph_break(False):
                x = asks_for_a_break(x)
            x = x + 5
        return asks_for_a_break(x)

    def then_strict(x):
        x = lenient(x)
        with G._dynamo.error_on_graph_break(True):
            return x * float(x.sum())

    assert quiet(G.compile(lenient, backend="eager"), X).tolist() == lenient(X).tolist()
    with pytest.raises(G.compiler.Unsupported, match="ASKED_FOR"):
        G.compile(lambda x: strict(x) + 1, backend="eager")(X)
    with pytest.raises(G.compiler.Unsupported, match="DATA_DEPENDENT_VALUE"):
        quiet(G.compile(then_strict, backend="eager"), X)
    assert G._core.error_on_break(False) is False  # everything is as it was


@undisturbed
def test_run_compiles_nothing_new():
    counter = CompileCounter()
    compiled = G.compile(lambda x: x + 1, backend=counter)
    only = G._dynamo.run(lambda x: compiled(x))
    assert only(X)[0].item() == 2 and counter.frame_count == 0
    compiled(X)
    frames = counter.frame_count
    only(X), only(G.ones(7))
    assert counter.frame_count == frames
    assert sum(entry["hits"] for entry in compiled.entries()) >= 1


# -- Stances


def test_force_eager():
    counter = CompileCounter()
    compiled = G.compile(lambda x: x + 1, backend=counter)
    with G.compiler.set_stance("force_eager"):
        assert compiled(X)[0].item() == 2
    assert counter.frame_count == 0
    compiled(X)
    assert counter.frame_count == 1


@undisturbed
def test_eager_on_recompile_uses_the_entries_that_fit():
    counter = CompileCounter()
    compiled = G.compile(lambda x: x + 1, backend=counter)
    compiled(X)
    with G.compiler.set_stance("eager_on_recompile"):
        assert compiled(G.ones(5))[0].item() == 2
        compiled(X)
    assert counter.frame_count == 1
    assert compiled.entries()[0]["hits"] == 1


@undisturbed
def test_fail_on_recompile_names_the_guard():
    compiled = G.compile(lambda x: x + 1, backend="eager")
    compiled(X)
    with G.compiler.set_stance("fail_on_recompile"):
        compiled(X)
        with pytest.raises(
            RuntimeError, match=r"TENSOR L\['x'\]: expected f32\[3\], found f32\[5\]"
        ):
            compiled(G.ones(5))


def test_a_stance_as_decorator_and_at_once():
    counter = CompileCounter()
    compiled = G.compile(lambda x: x + 1, backend=counter)

    @G.compiler.set_stance("force_eager")
    def plain(x):
        return compiled(x)

    plain(X)
    assert counter.frame_count == 0
    compiled(X)
    assert counter.frame_count == 1
    G.compiler.set_stance("fail_on_recompile")
    try:
        with pytest.raises(RuntimeError):
            compiled(G.ones(9))
    finally:
        G.compiler.set_stance("default")
    with pytest.raises(ValueError):
        G.compiler.set_stance("sideways")


def test_a_stance_belongs_to_its_thread():
    counter = CompileCounter()
    compiled = G.compile(lambda x: x + 1, backend=counter)
    with G.compiler.set_stance("force_eager"):
        thread = threading.Thread(target=compiled, args=(X,))
        thread.start()
        thread.join()
    assert counter.frame_count == 1


# -- Limits


@undisturbed
def test_the_recompile_limit_warns_once_with_the_reason_and_keeps_entries():
    counter = CompileCounter()

    def limited(x, n):
        return x * n

    compiled = G.compile(limited, backend=counter, dynamic=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(12):
            assert compiled(X, n)[0].item() == n
    assert counter.frame_count == 8
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "limited" in text and "recompile limit" in text and "L['n']: expected 7, found 8" in text
    hits = compiled.status()["hits"]
    compiled(X, 3)
    assert compiled.status()["hits"] == hits + 1


@undisturbed
def test_the_recompile_limit_is_a_setting(monkeypatch):
    counter = CompileCounter()
    compiled = G.compile(lambda x, word: x * float(word), backend=counter)
    for limit in (3, 10):
        monkeypatch.setattr(G._dynamo.config, "recompile_limit", limit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for word in range(12):
                assert compiled(X, f"{word}.5")[0].item() == word + 0.5
        assert counter.frame_count == limit


# -- The policy for side effects


@pytest.fixture
def policy():
    def choose(name):
        G._dynamo.config.side_effect_replay_policy = name

    yield choose
    G._dynamo.config.side_effect_replay_policy = "silent"


def appends(items, x):
    items.append(1)
    return x + 1


def changes(items, x):
    return appends(items, x)


def compiled_changes():
    return G.compile(
        types.FunctionType(changes.__code__.replace(), globals(), "changes"), backend="eager"
    )


@undisturbed
def test_side_19_effects_are_told_as_the_policy_says(policy, capfd):  # SIDE-19
    items = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled_changes()(items, X)
    assert items == [1] and capfd.readouterr().err == ""

    policy("info")
    compiled_changes()(items, X)
    told = capfd.readouterr().err
    assert "in changes" in told and "in appends" in told and items == [1, 1]

    policy("warn")
    with pytest.warns(UserWarning, match=r"(?s)changes objects.*in changes.*in appends"):
        compiled_changes()(items, X)
    assert items == [1, 1, 1]

    policy("error")
    with pytest.raises(RuntimeError, match="in appends"):
        compiled_changes()(items, X)
    assert items == [1, 1, 1]
    assert G.compile(lambda x: x + 1, backend="eager")(X)[0].item() == 2  # nothing to tell


class Counted:
    calls = 0


@pytest.fixture
def no_replay():
    G._dynamo.config.replay_side_effects = False
    yield
    G._dynamo.config.replay_side_effects = True


@undisturbed
def test_side_19_without_replay_objects_stay_as_they_were(no_replay):  # SIDE-19
    items, table, counted, hooked, n = [3], {"a": 1}, Counted(), G.ones(2, requires_grad=True), 0

    def root(x, items, table, counted, hooked):
        nonlocal n
        items.append(x)
        table["b"] = len(items)
        counted.calls += 1
        n += 1
        hooked.register_hook(lambda g: g * 2)
        iterator = iter(items)
        return x * len(items), items, [*items], table["b"], counted.calls, n, next(iterator)

    compiled = G.compile(root, backend="eager", fullgraph=True)
    for _ in range(2):
        y, same, copy, b, calls, inner, first = compiled(X, items, table, counted, hooked)
        assert y[0].item() == 2 and same is items and len(copy) == 2 and copy[0] == 3
        assert (b, calls, inner, first) == (2, 1, 1, 3)
        assert items == [3] and table == {"a": 1} and "calls" not in vars(counted) and n == 0
    hooked.sum().backward()
    assert hooked.grad[0].item() == 1 and compiled.entries()[0]["effects"] == 0


@undisturbed
def test_side_19_without_replay_tensors_and_rests_after_a_break_are_as_ever(no_replay):  # SIDE-19
    def root(x, items):
        items.append(1)
        x.add_(1)
        G._dynamo.graph_break()
        items.append(len(items))
        return items[-1]

    items, x = [], G.ones(2)
    assert G.compile(root, backend="eager")(x, items) == 1
    assert x[0].item() == 2 and items == [1, 1]
