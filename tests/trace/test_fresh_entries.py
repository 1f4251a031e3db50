# SPDX-License-Identifier: Apache-2.0
"""Code that runs while a call is compiled changes what the call has read: that call is plain
Python's, and so is its result."""

import gc
import linecache
import os
import warnings

import pytest

import gramme as G
from stress import undisturbed

STATE = {"n": 1}
LIST = [1, 2]


class Thing:
    w = 2.0


THING = Thing()


def reset():
    STATE.clear()
    STATE["n"] = 1
    LIST[:] = [1, 2]
    THING.w = 2.0
    Thing.w = 2.0


CHANGES = {
    "a key more": lambda: STATE.update(m=len(STATE)),
    "another value": lambda: STATE.update(n=STATE["n"] + 1),
    "an item more": lambda: LIST.append(3),
    "an attribute": lambda: setattr(THING, "w", THING.w + 1),
    "an attribute of the class": lambda: setattr(Thing, "other", getattr(Thing, "other", 0) + 1),
    "an attribute less": lambda: vars(THING).pop("w", None),
}


def reads(x):
    return x * len(STATE) + STATE["n"] + len(LIST) + THING.w + getattr(THING, "other", 0)


@undisturbed
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_back_end_that_changes_what_was_read(change):
    changed = []

    def backend(gm, inputs):
        if len(changed) < 3:
            changed.append(change())
        return gm

    c, x = G.compile(reads, backend=backend), G.ones(1)
    reset()
    for _ in range(6):
        got = c(x).item()
        assert got == reads(x).item()
    assert changed


def test_a_handler_of_warnings_that_changes_what_was_read(monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", lambda *a, **k: STATE.update(m=1))

    def f(x):
        n = len(STATE)
        os.stat("/")
        return x + n

    c, x = G.compile(f, backend="eager"), G.ones(1)
    reset()
    for _ in range(3):
        assert c(x).item() == f(x).item()


def test_linecache_is_as_it_was():
    """The text of a break shows a line of the source."""

    def f(x):
        n = len(linecache.cache)
        os.stat("/")
        return x + n

    linecache.clearcache()
    c, x = G.compile(f, backend="eager"), G.ones(1)
    assert [c(x).item() for _ in range(3)] == [1.0, 1.0, 1.0]
    assert linecache.cache == {}


def test_an_object_that_dies_while_a_call_is_compiled():
    holder = [Thing()]

    def backend(gm, inputs):
        holder[0] = Thing()
        gc.collect()
        return gm

    def f(x):
        return x * holder[0].w

    c, x = G.compile(f, backend=backend), G.ones(1)
    for _ in range(3):
        assert c(x).item() == 2.0
