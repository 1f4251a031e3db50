# SPDX-License-Identifier: Apache-2.0
"""Import statements inside of functions: of what is loaded they are recorded, and guarded; all
others are Python's."""

import builtins
import email.mime.text  # noqa: F401  (loaded: what a function imports then has no side effects)
import sys
import types
import warnings

import pytest

import gramme as G
from gramme._dynamo import compiled_autograd
from stress import FORCED, undisturbed


def a_module(x):
    import math

    return x * math.pi


def a_module_inside_of_a_package(x):
    import email.mime.text

    return x * len(email.mime.text.__name__)


def under_another_name(x):
    import email.mime.text as t

    return x * len(t.__name__)


def a_name(x):
    from math import e, pi

    return x * pi + e


def a_module_as_a_name(x):
    from email.mime import text

    return x * len(text.__name__)


def as_a_global(x):
    global math
    import math

    return x * math.tau


@undisturbed
@pytest.mark.parametrize(
    "f",
    [
        a_module,
        a_module_inside_of_a_package,
        under_another_name,
        a_name,
        a_module_as_a_name,
        as_a_global,
    ],
)
def test_an_import_of_what_is_loaded_is_recorded(f):
    x = G.arange(3.0)
    assert G.compile(f, backend="eager", fullgraph=True)(x).tolist() == f(x).tolist()


def missing(x):
    try:
        import no_such_module
    except ImportError as e:
        return x + 1, type(e), str(e)
    return no_such_module


def missing_name(x):
    try:
        from math import no_such_name
    except AttributeError:
        return "another error"
    except ImportError as e:
        return x + 1, type(e), str(e)
    return no_such_name


@pytest.mark.parametrize("f", [missing, missing_name])
def test_an_import_that_fails_raises_what_python_raises(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, want = G.compile(f, backend="eager")(G.ones(2)), f(G.ones(2))
    assert got[0].tolist() == want[0].tolist() and got[1:] == want[1:]


def test_a_package_imports_the_module_that_it_does_not_have_yet(tmp_path, monkeypatch):
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "__init__.py").write_text("")
    (tmp_path / "some_package" / "inner.py").write_text("factor = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("some_package")

    def f(x):
        from some_package import inner

        return x * inner.factor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = G.compile(f, backend="eager")
        assert compiled(G.ones(2)).tolist() == compiled(G.ones(2)).tolist() == [3, 3]
    sys.modules["some_package"].inner.factor = 4
    assert compiled(G.ones(2)).tolist() == [4, 4]
    del sys.modules["some_package.inner"], sys.modules["some_package"]


def test_a_relative_import(tmp_path, monkeypatch):
    (tmp_path / "outer_package" / "below").mkdir(parents=True)
    (tmp_path / "outer_package" / "__init__.py").write_text("factor = 5\n")
    (tmp_path / "outer_package" / "below" / "__init__.py").write_text(
        "from . import one\ndef f(x):\n    from . import one\n    from .. import factor\n    from "
        ".one import two\n    return x * factor + one.two - two\n"
    )
    (tmp_path / "outer_package" / "below" / "one.py").write_text("two = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    import outer_package.below

    compiled = G.compile(outer_package.below.f, backend="eager", fullgraph=not FORCED)
    assert compiled(G.ones(2)).tolist() == [5, 5]
    outer_package.factor = 6
    assert compiled(G.ones(2)).tolist() == [6, 6]
    for name in ("outer_package", "outer_package.below", "outer_package.below.one"):
        del sys.modules[name]


def test_what_an_import_found_is_guarded(monkeypatch):
    compiled = G.compile(a_module, backend="eager")
    first = compiled(G.ones(1)).item()
    other = types.ModuleType("math")
    other.pi = 2.0
    monkeypatch.setitem(sys.modules, "math", other)
    assert compiled(G.ones(1)).item() == 2.0
    monkeypatch.undo()
    assert compiled(G.ones(1)).item() == first


def test_the_function_that_imports_is_guarded(monkeypatch):
    compiled, asked, usual = G.compile(a_module, backend="eager"), [], builtins.__import__
    compiled(G.ones(1))

    def importer(name, *rest):
        asked.append(name)
        return usual(name, *rest)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        monkeypatch.setattr(builtins, "__import__", importer)
        compiled(G.ones(1))
        monkeypatch.undo()
    assert "math" in asked


# -- In hooks, and beside what breaks


def hook_that_imports(grad):
    import math
    from email.mime import text

    return grad * math.pi + len(text.__name__)


def hook_that_imports_a_module_of_a_package(grad):
    import email.mime.text as t

    return grad * len(t.__name__)


def hook_that_asks_for_a_number(grad):
    return grad * float(grad.sum())


def hook_that_branches(grad):
    return grad * 2 if grad.sum().item() > 0 else grad * 3


class Scaled(G.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x * ctx.k, None


def hooked(hook):
    def f(x):
        y = x * 2
        y.register_hook(hook)
        return (Scaled.apply(Scaled.apply(y, 2), y.shape[0]) + y).sum()

    return f


@pytest.mark.parametrize(
    "hook",
    [
        hook_that_imports,
        hook_that_imports_a_module_of_a_package,
        hook_that_asks_for_a_number,
        hook_that_branches,
    ],
)
@pytest.mark.parametrize(
    "under",
    [compiled_autograd.disable, lambda: compiled_autograd.enable("eager")],
    ids=["plain backward", "compiled backward"],
)
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_hooks_of_users(hook, under, where):
    f = hooked(hook)

    def inside(x):
        f(x).backward()
        return x.grad * 2

    def gradients(compile):
        step, outer, seen = compile(f), compile(inside), []
        for _ in range(3):
            x = (G.arange(3.0) + 1).requires_grad_()
            with under():
                seen.append(outer(x).tolist() if where == "inside" else step(x).backward())
            seen.append(x.grad.tolist())
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert gradients(lambda f: G.compile(f, backend="eager")) == gradients(lambda f: f)


def test_a_whole_step_with_its_backward_and_its_optimizer():
    def train(compile):
        G.manual_seed(3)
        model = G.nn.Sequential(G.nn.Linear(4, 8), G.nn.Tanh(), G.nn.Linear(8, 1))
        optimizer = G.optim.Adam(model.parameters(), lr=0.01)

        def step(x, y):
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        run = compile(step)
        data = [(G.randn(5, 4), G.randn(5, 1)) for _ in range(4)]
        return [run(*pair) for pair in data * 2], [p.tolist() for p in model.parameters()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert train(lambda f: G.compile(f, backend="eager")) == train(lambda f: f)


def test_what_the_library_imports_for_itself_is_no_import_of_the_program(monkeypatch):
    usual, seen = builtins.__import__, []

    @G.compiler.disable
    def stop():
        raise KeyError("k")

    def keeps_its_frame(x):
        y = x + 1
        try:
            stop()
        except KeyError as e:
            kept = e
        y = y * 2
        return y.sum().item(), str(kept)

    def importer(name, *args, **kwargs):
        seen.append(name)
        return usual(name, *args, **kwargs)

    compiled = G.compile(keeps_its_frame, backend="eager")
    monkeypatch.setattr(builtins, "__import__", importer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [keeps_its_frame(G.ones(1)), compiled(G.ones(1)), compiled(G.ones(1))]
    monkeypatch.undo()
    assert results == [(4.0, "'k'")] * 3
    assert {"gc", "linecache", "copyreg", "_string", "gramme._dynamo.config"}.isdisjoint(seen), seen
