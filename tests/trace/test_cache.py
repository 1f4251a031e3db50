# SPDX-License-Identifier: Apache-2.0
"""The entries of a compiled function: who sees them, how long they live, and what they keep
alive."""

import gc
import subprocess
import sys
import textwrap
import threading
import types
import warnings
import weakref

import pytest

import gramme as G
from gramme import nn
from stress import undisturbed

X = G.arange(4, dtype=G.float32)


def fresh(fn):
    """The function with a code object of its own, hence with a cache of its own."""
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def compiled(fn, **options):
    return G.compile(fresh(fn), **{"backend": "eager", **options})


# -- Threads


def together(n, work):
    """Runs work(i) in n threads that start at once; raises what the first of them raised."""
    gate, errors = threading.Barrier(n), []

    def run(i):
        gate.wait()
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_ca_6_threads_call_compile_and_reset_at_once():  # CA-6
    class Box:
        w = 2

    box = Box()
    f = compiled(lambda x, n: x * n + box.w)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:

        def work(i):
            for k in range(150):
                n, size = (i * 7 + k) % 6, 1 + k % 3
                if i == 0 and k % 10 == 0:
                    f.reset()
                elif i == 1 and k % 15 == 0:
                    G.compiler.reset()
                elif i == 2:
                    assert all(entry["n_guards"] > 2 for entry in f.entries())
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    got = f(G.ones(size), n)
                assert got.tolist() == [n + 2.0] * size

        together(4, work)
    finally:
        sys.setswitchinterval(interval)


def test_ca_6_threads_call_functions_that_break():  # CA-6
    def root(x, log):
        y = x + 1
        log.append(str(threading.current_thread().name))
        print(end="")
        return y * 2

    f = compiled(root)
    logs = [[] for _ in range(4)]

    def work(i):
        for _ in range(40):
            assert f(X, logs[i]).tolist() == [2, 4, 6, 8]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together(4, work)
    assert [len(log) for log in logs] == [40] * 4
    assert all(len(set(log)) == 1 for log in logs)


@undisturbed
def test_gu_7_modes_are_the_calling_threads():  # GU-7
    w = G.ones(4, requires_grad=True)
    f = compiled(lambda x: x * w)
    f(X)
    seen = []

    def other():
        G.set_grad_enabled(False)
        seen.append(f(X).requires_grad)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [False] and f(X).requires_grad
    assert f.status()["graphs"] == 2


@undisturbed
def test_backend_03_a_call_from_a_backward_pass():  # BACKEND-03
    scale = compiled(lambda g: g * 3)
    scale(X)

    class Scaled(G.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            with G.enable_grad():
                return scale(gradient.contiguous())  # that of a sum has strides of zero

    x = G.ones(4, requires_grad=True)
    done = []

    def backward():
        Scaled.apply(x).sum().backward()
        done.append(x.grad.tolist())

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    assert done == [[3.0] * 4]
    assert scale.status()["graphs"] == 1 and scale.status()["misses"] == 1


# -- Lives


def dies(make):
    """make() returns objects; all of them must be gone after a collection."""
    refs = [weakref.ref(o) for o in make()]
    gc.collect()
    return [r() is None for r in refs]


def test_ca_4_entries_die_with_their_function():  # CA-4
    def make():
        class Box:
            w = 2

        box = Box()
        f = compiled(lambda x: x * box.w)
        f(X)
        f(X)
        return f, box

    assert dies(make) == [True, True]


def test_the_namespace_of_a_module_can_be_freed():
    text = """
        import gramme as G

        class Witness:
            pass

        witness = Witness()
        scale = 2

        def helper(x):
            return x * scale

        class Box:
            kind = 3

            @property
            def doubled(self):
                return self.kind * 2

            @staticmethod
            def plus(x):
                return x + scale

            @classmethod
            def made(cls, x):
                return x + cls.kind

        box = Box()

        def root(x):
            return Box.plus(helper(x)) * box.doubled + Box.made(x)

        f = G.compile(root, backend="eager")

        @G.compile(backend="eager")
        def with_effect(x, to):
            to.append(box)
            to.append(Box)
            return x + 1
    """

    def make():
        module = types.ModuleType("a_module_that_goes")
        exec(textwrap.dedent(text), module.__dict__)
        for _ in range(3):
            assert module.f(G.ones(1)).item() == (2 + 2) * 6 + 4
            to = []
            module.with_effect(X, to)
            assert to == [module.box, module.Box]
        return module.witness, module, module.Box, module.root

    assert dies(make) == [True] * 4


def test_a_namespace_can_be_freed_while_the_code_lives():
    def template(x):
        return x * box.doubled  # noqa: F821

    def make():
        class Box:
            @property
            def doubled(self):
                return 4

        names = {"box": Box()}
        f = G.compile(types.FunctionType(template.__code__, names), backend="eager")
        names["f"] = f
        assert f(X).tolist() == [0, 4, 8, 12]
        return f, names["box"], Box

    for _ in range(3):
        assert dies(make) == [True] * 3


@undisturbed
def test_gu_6_an_entry_goes_with_the_function_that_it_called():  # GU-6
    holder = types.SimpleNamespace(fn=lambda x: x + 1)
    f = compiled(lambda x, call: call(x))
    kind = type("Kind", (), {"__call__": lambda self, x: x + 2})
    one = kind()
    f(X, one)
    assert f.status()["graphs"] == 1
    del one, kind
    gc.collect()
    assert f.status()["graphs"] == 0
    assert f(X, holder.fn).tolist() == [1, 2, 3, 4]


def test_side_18_nothing_keeps_what_a_compilation_saw():  # SIDE-18
    class Thing:
        pass

    def root(x, thing, items):
        thing.y = x * thing.w
        items.append(thing)
        return thing.y + items[0]

    def breaks(x, thing, items):
        y = x * thing.w
        print(end="")
        return y + items[0]

    gc.disable()
    try:
        for fn in (root, breaks):
            f = compiled(fn)
            thing, x = Thing(), G.ones(2)
            thing.w = G.ones(2)
            items = [G.ones(2)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                f(x, thing, items)
                f(x, thing, items)
            refs = [weakref.ref(o) for o in (thing, x, thing.w, items[0])]
            items.clear()
            del thing, x, items
            assert [r() for r in refs] == [None] * 4, fn
    finally:
        gc.enable()


@undisturbed
def test_a_failed_backend_leaves_no_entry():
    calls = []

    def backend(graph, examples):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("not today")
        return graph

    f = compiled(lambda x: x + 1, backend=backend)
    with pytest.raises(Exception, match="not today"):
        f(X)
    assert f.status()["graphs"] == 0
    assert f(X).tolist() == [1, 2, 3, 4]
    assert f.status()["graphs"] == 1


# -- The limit


@undisturbed
def test_ca_2_the_limit_warns_once_and_keeps_the_entries():  # CA-2
    def root(x, n):
        return x * n

    f = compiled(root, dynamic=False)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(12):
            assert f(X, n).tolist() == [0, n, 2 * n, 3 * n]
    texts = [str(w.message) for w in seen if issubclass(w.category, G.compiler.GraphBreakWarning)]
    assert len(texts) == 1
    assert "root() has been compiled for 8 different kinds of calls" in texts[0]
    assert "INT L['n']: expected 7, found 8" in texts[0]
    before = f.status()
    assert before["graphs"] == 8
    for n in range(8):  # the old ones are in use
        f(X, n)
    assert f.status()["hits"] == before["hits"] + 8 and f.status()["misses"] == before["misses"]


@undisturbed
def test_each_back_end_has_a_limit_of_its_own():
    fn = fresh(lambda x, n: x * n)
    one, two = G.compile(fn, backend="eager", dynamic=False), G.compile(fn, backend="tcc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(10):
            one(X, n)
        two(X, 100)
    assert one.status()["graphs"] == 8 and two.status()["graphs"] == 1


# -- Logs


def run(program, logs):
    code = textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**__import__("os").environ, "GRAMME_LOGS": logs},
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@undisturbed
def test_ca_3_the_log_names_the_guard_of_each_entry():  # CA-3
    text = run(
        """
        import gramme as G
        class Box: pass
        box = Box(); box.w = 2
        def root(x):
            y = x + 1
            return y * box.w
        f = G.compile(root, backend="eager")
        f(G.ones(2)); box.w = 3; f(G.ones(2)); box.w = 4; f(G.ones(3))
        """,
        "recompiles",
    )
    first, second = text.split("is compiled again")[1:]
    assert "entry 0: INT G['box'].w: expected 2, found 3  # <string>:7" in first
    assert "entry 0: " in second and "entry 1: " in second
    assert "expected 2, found 4" in second or "expected f32[2], found f32[3]" in second


@undisturbed
def test_gu_9_the_cost_of_the_guards_is_logged():  # GU-9
    text = run(
        "import gramme as G; G.compile(lambda x: x + 1, backend='eager')(G.ones(2))", "guards"
    )
    assert "BACKEND_MATCH('eager')" in text and "L['x']: TENSOR f32[2]" in text
    assert "ns the first" in text


# -- A model's guards


class Tower(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(n)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@undisturbed
def test_gu_2_each_place_of_a_tree_is_still_looked_at():  # GU-2
    """What answers for a whole tree at once must see a change in any of its objects, first, middle
    or last."""
    model = Tower(20)
    f = compiled(lambda x: model(x))
    x = G.ones(1, 2)
    with G.no_grad():
        for layer in (0, 9, 19):
            for _ in range(3):
                f(x)
            misses = f.status()["misses"]
            model.layers[layer].weight.data = G.ones(2, 2) * 0.25
            f(x)
            assert f.status()["misses"] == misses  # same shape: values are not guarded
            kept = model.layers[layer].bias
            model.layers[layer].bias = None
            assert f(x).tolist() == model(x).tolist()
            assert f.status()["misses"] == misses + 1
            model.layers[layer].bias = kept
            assert f(x).tolist() == model(x).tolist()
            assert f.status()["misses"] == misses + 1


@undisturbed
def test_a_tree_that_changes_at_every_call_is_checked_all_the_same():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.seen = 0

        def forward(self, x):
            self.last = x
            return self.inner(x) * 2

    model = Counts()
    f = compiled(lambda x: model(x))
    with G.no_grad():
        for i in range(60):
            x = G.ones(1, 2) * i
            assert f(x).tolist() == (model.inner(x) * 2).tolist()
            assert model.last is x
            if i == 50:
                model.inner.bias = None
    assert f.status()["misses"] == 2


@undisturbed
def test_gu_5_a_steady_state_looks_at_arguments_alone():  # GU-5
    model = Tower(3)
    f = compiled(lambda x: model(x))
    x = G.ones(1, 2)
    seen = []
    with G.no_grad():
        want = f(x).tolist()
        f(x)
        with G.compiler.set_stance(skip_guard_eval_unsafe=True):
            assert f(x).tolist() == want
            model.layers[1].note = "a change that nobody looks at"
            assert f(x).tolist() == want
            with pytest.raises(RuntimeError, match="skip_guard_eval_unsafe.*TENSOR L\\['x'\\]"):
                f(G.ones(3, 2))

            def other():
                with G.no_grad():
                    seen.append(f(G.ones(3, 2)).shape)

            thread = threading.Thread(target=other)  # another thread goes on as usual
            thread.start()
            thread.join()
        assert seen == [(3, 2)]
        model.layers[1].bias = None  # and so does this one
        assert f(x).tolist() == model(x).tolist()
