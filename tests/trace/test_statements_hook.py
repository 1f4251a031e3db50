# SPDX-License-Identifier: Apache-2.0
"""Statements about hooks on tensors that no pair of results shows: guards, code, assertions."""

import gc
import os
import subprocess
import sys
import warnings

import pytest

import gramme as G
from stress import undisturbed

STRESS = os.environ.get("GM_STRESS", "")


def leaf(*values):
    return G.tensor(list(values), requires_grad=True)


def double(g):
    return g * 2


def triple(g):
    return g * 3


@undisturbed
def test_hook_21_another_function_is_another_entry():
    def f(x, hook):
        handle = x.register_hook(hook)
        return (x * 1).sum(), handle

    compiled = G.compile(f, backend="eager", fullgraph=True)
    for hook, want in ((double, 2), (double, 2), (triple, 3), (double, 2)):
        x = leaf(1.0)
        y, handle = compiled(x, hook)
        y.backward()
        assert x.grad.item() == want
    assert compiled.status()["graphs"] == 2  # two functions, no more


@undisturbed
def test_hook_21_the_guard_is_printed():
    compiled = G.compile(
        lambda x: (x.register_hook(double), x * 2)[1], backend="eager", fullgraph=True
    )
    text = str(G.compiler.explain(compiled)(leaf(1.0)))
    assert "G['double'] is function double" in text


@undisturbed
def test_hook_20_registered_once_a_call_and_not_while_recording():
    log = []

    def f(x):
        x.register_hook(lambda g: log.append("ran"))
        return x * 2

    compiled = G.compile(f, backend="eager", fullgraph=True)
    x = leaf(1.0)
    for calls in range(1, 4):
        y = compiled(x)
        assert log == []
        y.sum().backward()
        assert log == ["ran"] * calls
        log.clear()


@undisturbed
def test_hook_24_a_removed_hook_is_no_side_effect():
    def f(x):
        x.register_hook(double).remove()
        return x * 2

    compiled = G.compile(f, backend="eager", fullgraph=True)
    compiled(leaf(1.0))
    assert compiled.entries()[0]["effects"] == 0


@undisturbed
def test_hook_26_many_unused_handles_leave_nothing_on_the_stack():
    def f(x):
        for _ in range(40):
            x.register_hook(double)
        return x * 2

    x = leaf(1.0)
    G.compile(f, backend="eager", fullgraph=True)(x).sum().backward()
    assert x.grad.item() == 2.0**41


def test_hook_27_a_hook_on_a_tensor_without_source_is_an_assertion():
    """The emitter is made to meet one: the process stops there, and no code with such a hook
    runs."""
    program = """
import gramme as G
from gramme._core import probe
def f(x):
    y = x * 2
    probe("fault-hook", "y", {})
    return y
G.compile(f, backend="eager", fullgraph=True)(G.ones(2, requires_grad=True))
print("it ran")
"""
    program = program.replace('"y", {})', '"y", OUT)').replace("def f(x)", "OUT = {}\ndef f(x)")
    env = {key: value for key, value in os.environ.items() if key != "GM_STRESS"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert run.returncode < 0 and "it ran" not in run.stdout
    assert "source" in run.stderr and "tracker_hook.c" in run.stderr


@undisturbed
def test_hook_22_the_reason_of_a_break_on_an_intermediate():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 2)
        return y

    with pytest.raises(
        G.compiler.Unsupported, match="register_hook on a tensor that the function makes"
    ):
        G.compile(f, backend="eager", fullgraph=True)(leaf(1.0))


@undisturbed
def test_hooks_of_what_is_changed_in_place_break():
    def before(x):
        with G.no_grad():
            x.mul_(2)
        x.register_hook(double)
        return x * 1

    def after(x):
        x.register_hook(double)
        with G.no_grad():
            x.mul_(2)
        return x * 1

    for f in (before, after):
        plain, traced = leaf(1.0, 2.0), leaf(1.0, 2.0)
        f(plain).sum().backward()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            G.compile(f, backend="eager")(traced).sum().backward()
        assert plain.grad.tolist() == traced.grad.tolist() and plain.tolist() == traced.tolist()


def test_a_recording_keeps_neither_hook_nor_tensor():
    import weakref

    def make():
        def hook(g):
            return g * 2

        return hook

    hook, x = make(), leaf(1.0)
    compiled = G.compile(
        lambda x, hook: (x.register_hook(hook), x * 2)[1],
        backend="eager",
        fullgraph="break" not in STRESS,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(x, hook)
    dead = weakref.ref(hook)
    gc.disable()
    try:
        del hook, x
        assert dead() is None
    finally:
        gc.enable()
