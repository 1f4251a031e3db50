# SPDX-License-Identifier: Apache-2.0
"""Finalizers, callbacks of weak references and ends of generators run where plain Python runs them:
kinds of objects, times ways to drop the last reference, times places of the drop, in functions that
compute with tensors before and after it."""

import collections
import gc
import os
import tempfile
import warnings
import weakref

import pytest

import gramme as G

log = []
kept = []


class Finalized:
    def __init__(self, n=4):
        self.n = n

    def __del__(self):
        log.append("finalized")


class Plain:
    n = 4


def blocks():
    try:
        yield 0
        yield 1
    finally:
        log.append("closed")


def suspended():
    generator = blocks()
    next(generator)
    return generator


def referred_to():
    o = Plain()
    kept.append(weakref.ref(o))
    return o


@G.compiler.disable
def watched():
    o = Plain()
    kept.append(weakref.ref(o, lambda ref: log.append("dead")))
    return o


def with_a_finalizer():
    o = Plain()
    weakref.finalize(o, log.append, "final")
    return o


def callee(value):
    return value


def clears(values):
    values.clear()
    log.append("cleared")


def takes_out(values):
    value = values.pop()
    log.append("taken")


@G.compiler.disable
def stop():
    log.append("stop")


THINGS = {
    "finalizer": ("Finalized()", "o = Finalized()"),
    "callback": ("watched()", "o = Plain(); w = weakref.ref(o, lambda ref: log.append('dead'))"),
    "reference": ("referred_to()", "o = Plain(); w = weakref.ref(o)"),
    "finalize": ("with_a_finalizer()", "o = Plain(); weakref.finalize(o, log.append, 'final')"),
    "generator": ("suspended()", "o = blocks(); next(o)"),
}

# Of a variable o.
DROPS = {
    "list.clear": "c = [o]; del o; c.clear()",
    "del of an item": "c = [o]; del o; del c[0]",
    "store of an item": "c = [o]; del o; c[0] = 1",
    "store of a slice": "c = [o]; del o; c[:] = []",
    "del of a slice": "c = [o]; del o; del c[:]",
    "list.pop": "c = [o]; del o; c.pop()",
    "list.remove": "c = [1, o]; del o; c.pop(1); c.remove(1)",
    "dict.clear": "c = {'a': o}; del o; c.clear()",
    "store of a value": "c = {'a': o}; del o; c['a'] = 1",
    "del of a value": "c = {'a': o}; del o; del c['a']",
    "dict.pop": "c = {'a': o}; del o; c.pop('a')",
    "dict.update": "c = {'a': o}; del o; c.update(a=1)",
    "dict.popitem": "c = {'a': o}; del o; c.popitem()",
    "set.clear": "c = {o}; del o; c.clear()",
    "set.pop": "c = {o}; del o; c.pop()",
    "deque.clear": "c = collections.deque([o]); del o; c.clear()",
    "rebinding": "o = 1",
    "del": "del o",
    "a tuple": "c = (o,); del o; c = 1",
    "a nested list": "c = [(o, [o])]; del o; c = 1",
    "a nested list that is cleared": "c = [[{'a': (o,)}]]; del o; c.clear()",
    "an attribute": "h = Plain(); h.a = o; del o; h.a = 1",
    "the holder of an attribute": "h = Plain(); h.a = o; del o; del h",
    "a caller": "callee(o); (lambda v: v)(o); o = 0",
    "a callee that clears": "m = [o]; del o; clears(m)",
    "the end of a callee": "m = [o]; del o; takes_out(m)",
    "unpacking": "a, b = o, 1; del o; a, b = b, b",
    "a loop": "c = [o]; del o\n    for i in range(2):\n        c = i",
    "a loop over it": "c = [o]; del o\n    for i in c:\n        c = 0\n    i = 0",
    "a cell": "c = o; del o\n    def inner():\n        return c\n    c = 1",
    "a closure": "c = o; del o\n    def inner():\n        return c\n    del c, inner",
    "a global": "global g_held\n    g_held = o; del o; g_held = 1",
    "an expression": "c = [o]; del o; c = c if x is None else 1",
}

# Of a value that no variable has held.
TEMPORARIES = {
    "its attribute": "EXPR.__class__",
    "a call": "t = callee(EXPR) is None",
    "a display": "[*[EXPR]]",
    "list.clear": "c = [EXPR]; c.clear()",
    "del of an item": "c = [EXPR]; del c[0]",
    "store of a value": "c = {'a': EXPR}; c['a'] = 1",
    "store of a slice": "c = [EXPR]; c[:] = []",
    "a tuple": "c = (EXPR, 1); c = 1",
    "a nested list": "c = [[EXPR]]; c = [1]",
}

PLACES = {
    "before all": ("y = x + 0", "log.append('c'); y = y + 1; return y"),
    "between tensors": ("y = x + 1; log.append('b')", "log.append('c'); z = y * 2; return z"),
    "after a break": ("y = x + 1; log.append('b'); stop(); y = y * 2", "log.append('c'); return y"),
    "in a callee": None,
}


def program(thing, drop, place):
    expression, make = THINGS[thing]
    if "EXPR" in drop:
        make, drop = "pass", drop.replace("EXPR", expression)
    name = "inner" if PLACES[place] is None else "f"
    before, after = PLACES[place] or ("log.append('b'); y = x * 2", "log.append('c'); return y")
    declared = "global g_held" if "g_held" in drop else "pass"
    lines = [
        declared,
        before,
        make,
        *drop.replace("global g_held\n    ", "").split("\n    "),
        after,
    ]
    source = f"def {name}(x):\n" + "".join(f"    {line}\n" for line in lines)
    if name == "inner":
        source += "def f(x):\n    y = inner(x + 1)\n    log.append('e')\n    return y\n"
    space = dict(globals())
    exec(source, space)
    return space["f"]


def shown(fn):
    log.clear()
    result = fn(G.ones(2)).tolist()
    return result, list(log)


def agree(make, backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, compiled = make(), G.compile(make(), backend=backend)
        want = shown(plain)
        assert [shown(compiled), shown(compiled)] == [want, want]
    return want


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("drop", DROPS)
def test_what_a_variable_held_dies_where_plain_python_lets_it_die(drop, thing):
    for place in PLACES:
        agree(lambda: program(thing, DROPS[drop], place), "eager")


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("drop", TEMPORARIES)
def test_what_no_variable_held_dies_where_plain_python_lets_it_die(drop, thing):
    for place in PLACES:
        agree(lambda: program(thing, TEMPORARIES[drop], place), "eager")


@pytest.mark.parametrize("thing", THINGS)
def test_a_back_end_that_generates_code_changes_nothing_about_that(thing):
    for drop in ("list.clear", "rebinding", "store of a value", "the end of a callee"):
        agree(lambda: program(thing, DROPS[drop], "between tensors"), "tcc")


def attribute_of_a_temporary(x):
    y = x + Finalized().n
    log.append("c")
    return y


def a_callback_that_is_dropped_with_the_object(x):
    o = Plain()
    w = weakref.ref(o, lambda ref: log.append("dead"))
    y = x + 1
    stop()
    return y * 2


def two_that_die_at_the_end(x):
    first, second = Finalized(), Plain()
    weakref.finalize(second, log.append, "second")
    y = x + 1
    stop()
    return y * 2


def a_weak_dictionary(x):
    table = weakref.WeakValueDictionary()
    o = Plain()
    table["a"] = o
    y = x + 1
    c = [o]
    del o
    log.append(len(table))
    c.clear()
    log.append(len(table))
    return y


def a_temporary_folder(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = tempfile.TemporaryDirectory()
        name = folder.name
        c = [folder]
        del folder
        y = x + 1
        log.append(os.path.exists(name))
        c.clear()
        log.append(os.path.exists(name))
    return y


@pytest.mark.parametrize(
    "fn",
    [
        attribute_of_a_temporary,
        a_callback_that_is_dropped_with_the_object,
        two_that_die_at_the_end,
        a_weak_dictionary,
        a_temporary_folder,
    ],
)
def test_objects_that_stand_for_files_tables_and_callbacks_die_at_their_place(fn):
    assert agree(lambda: fn, "eager")[1]


def test_another_call_may_have_a_finalizer_where_this_one_has_none():
    def root(x, make):
        o = make()
        y = x + 1
        stop()
        o = 1
        log.append("c")
        return y

    compiled = G.compile(root, backend="eager")
    for make in (Plain, Finalized, Plain, Finalized):
        want = shown(lambda x: root(x, G.compiler.disable(make)))
        assert shown(lambda x: compiled(x, G.compiler.disable(make))) == want


def test_an_object_that_something_else_holds_costs_no_break():
    holder = Plain()
    holder.o = Plain()
    ref = weakref.ref(holder.o)

    def root(x, holder):
        o = holder.o
        stop()
        y = x + 1
        o = 1
        return y * 2

    f = G.compile(root, backend="eager")
    for _ in range(2):
        assert f(G.ones(1), holder).tolist() == [4.0]
    assert len([entry for entry in f.entries() if entry["hits"]]) <= 2 and ref() is not None
    gc.collect()
