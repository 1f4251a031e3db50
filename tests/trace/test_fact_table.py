# SPDX-License-Identifier: Apache-2.0
"""Soundness of guards: every fact that a recording may have read is changed alone, and the next
call must see it.

A row makes a function with its arguments, calls it compiled, changes one thing, and calls again.
The second result must be plain Python's, whether the function was recorded anew or not; `again`
says which of the two is expected, so that needless guards are seen as well.  The rows are in
facts_*.py.
"""

import importlib
import types
import warnings

import pytest

import gramme as G
from facts import FACTS
from stress import FORCED

KINDS = ["values", "objects", "containers", "functions", "modules"]
for kind in KINDS:
    importlib.import_module("facts_" + kind)


@pytest.fixture(autouse=True)
def modes():
    yield
    G.set_grad_enabled(True)
    G.set_default_dtype(G.float32)


def describe(value):
    if isinstance(value, G.Tensor):
        return (
            str(value.dtype),
            tuple(value.shape),
            value.requires_grad,
            value.detach().numpy().tobytes(),
        )
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    return value


@pytest.mark.parametrize("make, again", FACTS)
def test_changed_fact_is_seen(make, again):  # GU-3
    f, args, change = make()
    # a code object of its own: entries live there, and rows share lambdas
    if f.__name__ != "root" and f.__globals__.get("__name__", "").startswith("facts"):
        f = types.FunctionType(
            f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__, f.__closure__
        )
    compiled = G.compile(f, backend="eager")

    def outcome(fn, args):
        G.manual_seed(3)
        try:
            return describe(fn(*args))
        except Exception as error:
            return (type(error).__name__, str(error))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = outcome(compiled, args)
        for _ in range(
            2
        ):  # by the third call what is remembered of a tree of objects answers for it
            outcome(compiled, args)
        before = compiled.status()
        recorded = before["graphs"] == 1 and not before["breaks"]
        changed = change()
        fresh = isinstance(
            changed, tuple
        )  # new arguments, which a call may write to: each call gets its own
        want = outcome(f, changed if fresh else args)
        got = outcome(compiled, change() if fresh else args)
    assert got == want, (first, compiled.entries())
    after = compiled.status()
    if recorded and again is not None and not FORCED:
        assert (after["misses"] > before["misses"]) == again, compiled.entries()


def test_the_table_is_long_enough():
    assert len(FACTS) >= 250
