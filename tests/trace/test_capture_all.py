# SPDX-License-Identifier: Apache-2.0
"""gramme._dynamo.capture_all() and the counters that tell what came of it."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

import gramme as G
from stress import undisturbed
from gramme import _core, _dynamo
from gramme._dynamo.utils import counters

pytestmark = pytest.mark.skipif(
    "break" in os.environ.get("GM_STRESS", ""), reason="counts what an undisturbed recording does"
)


@pytest.fixture(autouse=True)
def zeroed():
    _dynamo.reset()
    yield
    _dynamo.reset()


@undisturbed
def test_functions_without_tensors_are_captured_inside_and_not_outside():
    def add(a, b=2, *rest, key=1, **named):
        return a + b + key + len(rest) + len(named)

    def program():
        return [add(1), add(1, 3, 4, key=5, other=6), add(b=1, a=2)]

    plain = program()
    assert counters["frames"]["total"] == 0
    with _dynamo.capture_all():
        assert program() == plain
        first = counters["functions"]["captured"]
        assert program() == plain
    assert first >= 1
    assert counters["entries"]["hit"] > 0
    frames = counters["frames"]["total"]
    assert program() == plain
    assert counters["frames"]["total"] == frames, "nothing is captured outside"


def test_the_hook_is_gone_afterwards_also_after_an_exception():
    def fails():
        raise KeyError("x")

    before = _core.hook_state()[0]
    with pytest.raises(KeyError):
        with _dynamo.capture_all():
            fails()
    assert _core.hook_state()[0] == before


def test_one_capture_all_cannot_be_open_twice():
    one = _dynamo.capture_all()
    with one:
        with pytest.raises(RuntimeError, match="open already"):
            one.__enter__()
        with _dynamo.capture_all():
            pass
    with one:
        pass


def test_an_unknown_back_end_is_refused_before_anything_is_captured():
    with pytest.raises(ValueError):
        _dynamo.capture_all(backend="eagr")
    with pytest.raises(TypeError):
        _dynamo.capture_all(backend=3)


def test_other_threads_are_left_alone():
    def work():
        return sum(x for x in range(10))

    seen = []

    def in_thread():
        total = counters["frames"]["total"]
        seen.append((work(), counters["frames"]["total"] - total))

    thread = threading.Thread(target=in_thread)
    with _dynamo.capture_all():
        threading.Thread.start(thread)
        deadline = time.monotonic() + 30
        while not seen and time.monotonic() < deadline:
            time.sleep(0.001)
    thread.join()
    assert seen[0][0] == 45


def test_generators_class_bodies_exec_and_coroutines_run_as_they_are():
    def numbers(n):
        for i in range(n):
            yield i * i

    async def later():
        return 5

    def program():
        class Local:
            value = [i for i in range(3)]

        space = {}
        exec("def f(a):\n  return a + 1\nresult = f(1)", space)
        coroutine = later()
        try:
            coroutine.send(None)
        except StopIteration as stop:
            five = stop.value
        g = numbers(4)
        first = next(g)
        try:
            g.throw(ValueError("thrown"))
        except ValueError as error:
            text = str(error)
        return list(numbers(4)), Local.value, space["result"], five, first, text

    plain = program()
    with _dynamo.capture_all():
        assert program() == plain


def test_recursion_900_deep():
    def deep(n):
        return 0 if n == 0 else 1 + deep(n - 1)

    def deep_with_a_break(n):
        sys.getrefcount(None)
        return 0 if n == 0 else 1 + deep_with_a_break(n - 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1200)
    try:
        with _dynamo.capture_all():
            assert deep(900) == 900
            assert deep_with_a_break(900) == 900
    finally:
        sys.setrecursionlimit(limit)


def test_recursion_deeper_than_cs_stack():
    """Calls of Python functions take none of it; where the hook has used up its share, they do so
    again."""

    def deep(n):
        return 0 if n == 0 else 1 + deep(n - 1)

    def deep_with_a_break(n):
        sys.getrefcount(None)
        return 0 if n == 0 else 1 + deep_with_a_break(n - 1)

    def after(n):
        return n + 1

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(60_000)
    try:
        with _dynamo.capture_all():
            assert deep(50_000) == 50_000
            assert deep_with_a_break(50_000) == 50_000
            with pytest.raises(RecursionError):
                deep(70_000)
            before = counters["frames"]["total"]
            assert after(1) == 2
            assert counters["frames"]["total"] > before
    finally:
        sys.setrecursionlimit(limit)


class Named:
    def __init__(self):
        self.made = True

    def __getattribute__(self, name):
        return name


def test_functions_that_an_extension_has_taken_over_are_called_its_way():
    set_call = getattr(pytest.importorskip("_testcapi"), "function_setvectorcall", None)
    if set_call is None:
        pytest.skip("PyFunction_SetVectorcall is new in 3.12")

    def called(n):
        return n + 1

    def uses(x, f):
        return f(x), Named().anything, Named()

    compiled = G.compile(uses, backend="eager")
    assert compiled(1, called)[:2] == (2, "anything")
    set_call(called)
    assert compiled(1, called)[:2] == ("overridden", "anything")
    set_call(Named.__getattribute__)
    assert compiled(1, called)[:2] == ("overridden", "overridden")

    def in_one_call(n):
        def f(n):
            return n + 1

        first = f(n)
        set_call(f)
        return first, [f(n) for _ in range(3)]

    assert G.compile(in_one_call, backend="eager")(1) == (2, ["overridden"] * 3)


def test_breaks_and_recompiles_are_counted_by_reason():
    def f(n):
        return id(n) == id(n)

    def g(n):
        return n + 1

    with _dynamo.capture_all():
        f(1)
        for i in range(3):
            g(i)
    assert counters["graph_break_id"]["CALL_ID"] >= 1
    assert any(
        text.startswith("CALL_ID: ") and "address" in text for text in counters["graph_break"]
    )
    assert counters["recompiles"]["total"] == 2
    functions = counters["functions"]
    assert functions == {"total": 2, "captured": 2, "whole": 1}


@undisturbed
def test_counters_are_a_mapping_that_clear_and_reset_zero():
    f = G.compile(lambda x: x + 1, backend="eager")
    for _ in range(5):
        f(G.ones(2))
    assert counters["frames"] == {"total": 1, "ok": 1}
    assert counters["entries"] == {"hit": 4, "missed": 1}
    assert counters["frames"]["no such counter"] == 0
    assert set(counters) >= {
        "frames",
        "entries",
        "functions",
        "recompiles",
        "graph_break",
        "graph_break_id",
    }
    counters.clear()
    assert counters["entries"] == {"hit": 0, "missed": 0}
    f(G.ones(2))
    assert counters["entries"] == {"hit": 1, "missed": 0}
    _dynamo.reset()
    assert counters["entries"] == {"hit": 0, "missed": 0}


@undisturbed
def test_hits_of_entries_that_died_stay_counted():
    def make():
        def f(x):
            return x * 2

        return G.compile(f, backend="eager")

    for _ in range(3):
        f = make()
        f(G.ones(2))
        f(G.ones(2))
    assert counters["entries"]["hit"] >= 3


def test_what_a_function_drops_dies_when_it_drops_it():
    class Node:
        pass

    def program():
        node = Node()
        node.itself = node
        ref = weakref.ref(node)
        gc.collect()
        alive = ref() is not None
        del node
        gc.collect()
        return alive, ref() is None

    assert program() == (True, True)
    with _dynamo.capture_all():
        assert program() == (True, True)


def test_gramme_run_captures_all(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from gramme._dynamo.utils import counters\n"
        "def f(a):\n    return a + 1\n"
        "print(__name__, sys.argv[1:], f(1), counters['frames']['ok'] > 0)\n"
        "sys.exit(3)\n"
    )
    done = subprocess.run(
        ["gramme", "run", "--capture-all", str(script), "a", "--backend"],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "__main__ ['a', '--backend'] 2 True\n", done.stderr
    assert done.returncode == 3
    done = subprocess.run(["gramme", "run", str(script)], capture_output=True, text=True)
    assert done.stdout == "__main__ [] 2 False\n", done.stderr
