# SPDX-License-Identifier: Apache-2.0
"""Statements about side effects that look inside of a recording, and the programs that combine
them."""

import gc
import os
import warnings
import weakref

import pytest

import gramme as G
from gramme._core import probe

STRESS = os.environ.get("GM_STRESS", "")
one_graph = pytest.mark.skipif("break" in STRESS, reason="asks what one recording has")


class Box:
    """An object that things are put on."""


class Names(list):
    """A list with attributes of its own."""


def traced(fn, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return G.compile(fn, backend="eager")(*args)


# What probe() finds; a global dict, because it is written to while the function is recorded.
FOUND = {}


@one_graph
def test_side_12_new_objects_are_modified_and_old_ones_if_something_was_stored():
    def f(x, plain, box, items, names, table):
        probe("modified", "plain", FOUND)
        probe("modified", "names", FOUND)
        made = Box()
        fresh = [x]
        probe("modified", "made", FOUND)
        probe("modified", "fresh", FOUND)
        box.a = x * 2
        items.append(1)
        names.label = "n"
        table["k"] = 3
        probe("modified", "box", FOUND)
        probe("modified", "items", FOUND)
        probe("modified", "table", FOUND)
        probe("modified", "x", FOUND)
        return x + 1

    FOUND.clear()
    plain = Box()
    plain.a = 1
    traced(f, G.ones(2), plain, Box(), [], Names(), {})
    yes_new, yes_old, no = (True, False), (True, True), (False, False)
    wants = {
        "plain": no,
        "names": no,
        "made": yes_new,
        "fresh": yes_new,
        "box": yes_old,
        "items": yes_old,
        "table": yes_old,
        "x": no,
    }
    assert {name: answer for (_, name), answer in FOUND.items()} == wants


@one_graph
def test_side_12_either_half_of_a_list_subclass_counts():  # SUB-03
    def f(x, first, second):
        first.append(x)
        second.label = "n"
        probe("modified", "first", FOUND)
        probe("modified", "second", FOUND)
        return x + 1

    FOUND.clear()
    traced(f, G.ones(2), Names(), Names())
    assert set(FOUND.values()) == {(True, True)} and len(FOUND) == 2


@one_graph
def test_side_12_what_is_undone_is_not_modified():
    def f(x, box):
        box.a = 1
        del box.a
        probe("modified", "box", FOUND)
        x.register_hook(lambda g: g).remove()
        probe("modified", "x", FOUND)
        return x + 1

    FOUND.clear()
    traced(f, G.ones(2, requires_grad=True), Box())
    assert set(FOUND.values()) == {(False, False)} and len(FOUND) == 2


@one_graph
def test_side_17_only_what_has_effects_has_a_replay_section():
    def pure(x, box):
        box.a = 1
        del box.a
        made = Box()
        made.a = x
        x.register_hook(lambda g: g).remove()
        return {"y": [made.a * 2]}

    def impure(x, box):
        box.a = 1
        return x * 2

    def retains(x, box):
        x.retain_grad()
        return x * 2

    for fn, want in ((pure, 0), (impure, 1), (retains, 1)):
        compiled = G.compile(fn, backend="eager", fullgraph=True)
        compiled(G.ones(2, requires_grad=True), Box())
        assert compiled.entries()[0]["effects"] == want, fn.__name__


def test_side_18_inputs_die_with_their_last_name():
    """Of every kind that a recording looks at, whatever it does to them, with the collector off."""

    def f(x, box, items, table, names, fn):
        box.a = x * 2
        items.append(box.a)
        table[items[-1].shape] = box
        names.append(fn)
        for made in ([], {}, Box()):
            if isinstance(made, list):
                made.append(made)
        del table[items[-1].shape]
        items.clear()
        names.clear()
        del box.a
        if x.requires_grad:
            x.register_hook(fn)
        return fn(x) + 1

    def breaks(x, box, items, table, names, fn):
        y = f(x, box, items, table, names, fn)
        G._dynamo.graph_break()
        return y * 2

    class Items(list):
        pass

    class Table(dict):
        pass

    def make():
        def local(v):
            return v * 3

        return [G.ones(3, requires_grad=True), Box(), Items(), Table(), Names(), local]

    for fn in (f, breaks):
        compiled = G.compile(fn, backend="eager")
        gc.collect()
        gc.disable()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for _ in range(2):
                    args = make()
                    dead = [weakref.ref(a) for a in args]
                    result = compiled(*args)
                    del args, result
                    assert [ref() for ref in dead] == [None] * len(dead), fn.__name__
        finally:
            gc.enable()


@pytest.mark.skipif(STRESS != "", reason="each instruction would look at all of them")
def test_side_09_a_hundred_thousand_temporaries():
    def f(x):
        kept, last = [], None
        for i in range(100_000 // 5):
            a, b, c, d = [i], [i], {}, Box()  # and another one below
            if a is b or a is last or c is last or d is last:
                return "two are one"
            last = [a, b]
            if i % 2000 == 0:
                kept.append((a, b, c, d))
        return x + 1, kept

    def distinct(kept):
        return len({id(o) for row in kept for o in row})

    for compile in (lambda fn: fn, lambda fn: G.compile(fn, backend="eager")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y, kept = compile(f)(G.ones(1))
        assert compile(f) is f or G.compile(f, backend="eager").status()["graphs"] == 1
        assert len(kept) == 10 and distinct(kept) == 40


# -- SIDE-22 ---------------------------------------------------------------------------------------


def sorted_into(x, v, i):
    t = (v,)
    result = G.sort(x, out=(v, i))
    return t[0] * 1, result[0] is v, result.indices is i, result.values is t[0]


def test_side_22_sort_writes_to_the_tensors_that_exist():
    outcomes = []
    for compile in (
        lambda fn: fn,
        lambda fn: G.compile(fn, backend="eager", fullgraph="break" not in STRESS),
    ):
        x, v, i = G.tensor([3.0, 1.0, 2.0]), G.zeros(3), G.zeros(3, dtype=G.int64)
        alias = v
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read, *same = compile(sorted_into)(x, v, i)
        outcomes.append((read.tolist(), same, alias.tolist(), i.tolist()))
    assert outcomes[0] == outcomes[1] == ([1.0, 2.0, 3.0], [True] * 3, [1.0, 2.0, 3.0], [1, 2, 0])


A, B = G.tensor([[3.0, 1.0], [2.0, 5.0]]), G.tensor([[2.0, 2.0], [4.0, 1.0]])
OUT_ROWS = {
    "add": lambda out: G.add(A, B, out=out),
    "sub": lambda out: G.sub(A, 1, alpha=2, out=out),
    "exp": lambda out: G.exp(A, out=out),
    "matmul": lambda out: G.matmul(A, B, out=out),
    "where": lambda out: G.where(A > B, A, B, out=out),
    "clamp": lambda out: G.clamp(A, 1.5, 2.5, out=out),
    "sum": lambda out: G.sum(A, 0, keepdim=True, out=out),
    "amax": lambda out: G.amax(A, 1, out=out),
    "cumsum": lambda out: G.cumsum(A, 0, out=out),
    "cat": lambda out: G.cat([A, B], out=out),
    "stack": lambda out: G.stack([A, B], out=out),
    "eq": lambda out: G.eq(A, B, out=out),
    "argmax": lambda out: G.argmax(A, out=out),
    "gather": lambda out: G.gather(A, 0, G.zeros(1, 2, dtype=G.int64), out=out),
    "arange": lambda out: G.arange(4, out=out),
    "zeros": lambda out: G.zeros(2, 2, out=out),
}


@pytest.mark.parametrize("name", OUT_ROWS)
@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
def test_side_22_every_function_takes_out(name):
    row = OUT_ROWS[name]
    want = row(None)
    for compile in (lambda fn: fn, lambda fn: G.compile(fn, backend="eager")):
        out = G.zeros(tuple(want.shape), dtype=want.dtype)
        out.fill_(1)
        seen = out.reshape(-1)  # of the same memory
        result = compile(lambda o: (row(o), o))(out)
        assert result[0] is out and result[1] is out
        assert out.tolist() == want.tolist() and seen.tolist() == want.reshape(-1).tolist()
        wide = G.zeros(tuple(want.shape), dtype=G.float64)
        assert (
            compile(lambda o: row(o))(wide) is wide and wide.tolist() == want.to(G.float64).tolist()
        )
        empty = G.empty(0, dtype=want.dtype)
        assert compile(lambda o: row(o))(empty) is empty and empty.tolist() == want.tolist()


def test_side_22_results_of_several_parts():
    for compile in (lambda fn: fn, lambda fn: G.compile(fn, backend="eager")):
        v, i = G.zeros(2), G.zeros(2, dtype=G.int64)
        r = compile(lambda v, i: G.max(A, 1, out=(v, i)))(v, i)
        assert (
            r.values is v and r.indices is i and v.tolist() == [3.0, 5.0] and i.tolist() == [0, 1]
        )
        r = compile(lambda v, i: G.topk(A, 1, out=[v, i]))(
            G.zeros(2, 1), G.zeros(2, 1, dtype=G.int64)
        )
        assert r.values.tolist() == [[3.0], [5.0]] and r.indices.tolist() == [[0], [1]]


def test_side_22_out_may_be_what_is_read():
    for compile in (lambda fn: fn, lambda fn: G.compile(fn, backend="eager")):
        m = A.clone()
        assert compile(lambda m: G.matmul(m, m, out=m))(m) is m and m.tolist() == (A @ A).tolist()
        m = A.clone()
        compile(lambda m: G.transpose(m, 0, 1, out=m))(m)
        assert m.tolist() == A.t().tolist()


def test_side_22_what_out_cannot_be():
    v = G.zeros(2, 2)
    wrong = [
        (lambda: G.add(A, B, out=G.zeros(2, 2, dtype=G.int64)), RuntimeError, "can't be cast"),
        (
            lambda: G.add(A.clone().requires_grad_(), B, out=v),
            RuntimeError,
            "automatic differentiation",
        ),
        (lambda: G.sort(A, out=v), TypeError, "tuple of as many tensors"),
        (lambda: G.sort(A, out=(v,)), TypeError, "tuple of as many tensors"),
        (lambda: G.add(A, B, out=3), TypeError, "must be a Tensor"),
        (lambda: v.add_(A, out=v), TypeError, "unexpected keyword"),
    ]
    for call, kind, words in wrong:
        with pytest.raises(kind, match=words):
            call()
        with pytest.raises(kind, match=words), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            G.compile(lambda x: (x + 1, call()), backend="eager")(A)
    with G.no_grad():
        assert G.add(A.clone().requires_grad_(), B, out=v) is v


# -- Effects that end in an exception, and odd classes ---------------------------------------------


def outcome(compile, fn, *args):
    log = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = compile(fn)(*args, log)
        except Exception as error:
            result = (type(error).__name__, str(error))
    if isinstance(result, G.Tensor):
        result = result.tolist()
    return result, log


def both(fn, make):
    plain, args = make(), make()
    want = outcome(lambda f: f, fn, *plain)
    got = outcome(lambda f: G.compile(f, backend="eager"), fn, *args)
    assert got == want
    for a, b in zip(plain, args):
        if hasattr(a, "__dict__"):
            assert list(vars(a).items()) == list(vars(b).items())
        elif not isinstance(a, G.Tensor):
            assert a == b
    return got


def test_effects_before_an_exception_are_replayed():
    def f(x, box, items, table, log):
        box.a = 1
        items.append(2)
        table["k"] = 3
        log.append("before")
        try:
            items.append(4)
            raise ValueError("inner")
        except ValueError as error:
            log.append(str(error))
        del box.old
        y = x * 2
        table.pop("there")
        if x.shape[0] == 2:
            raise KeyError("out")
        items.append(5)
        return y

    def make():
        box = Box()
        box.old = 0
        return G.ones(2), box, [1], {"there": 1}

    assert both(f, make)[0] == ("KeyError", "'out'")


def test_effects_of_an_inlined_callee_that_raises_are_replayed():
    def callee(x, box, log):
        box.count = getattr(box, "count", 0) + 1
        log.append("in")
        [][0]

    def f(x, box, log):
        for _ in range(2):
            try:
                callee(x, box, log)
            finally:
                log.append("finally")
        return x

    assert both(f, lambda: (G.ones(2), Box()))[0][0] == "IndexError"


def test_setters_and_overridden_setattr():
    class Watched:
        def __init__(self):
            self.log = []
            self.hidden = 1

        def __setattr__(self, name, value):
            if name != "log" and "log" in self.__dict__:
                self.log.append((name, value))
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            self.log.append(("del", name))
            object.__delattr__(self, name)

        @property
        def value(self):
            return self.hidden

        @value.setter
        def value(self, v):
            self.log.append(("set", v))
            self.hidden = v

        @value.deleter
        def value(self):
            self.log.append("deleted")
            del self.hidden

    def f(x, w, log):
        w.a = 1
        w.a = 2
        w.value = 5
        w.value += w.a
        log.append(w.value)
        del w.a
        w.b = w.hidden
        del w.value
        log.append(hasattr(w, "a"))
        log.append(hasattr(w, "value"))
        setattr(w, "c", 9)
        delattr(w, "c")
        return x + 1

    both(f, lambda: (G.ones(2), Watched()))


def test_swaps_and_cycles():
    class Node:
        pass

    def f(x, a, b, first, second, log):
        a.v, b.v = b.v, a.v
        first[:], second[:] = second[:], first[:]
        first[0], second[0] = second[0], first[0]
        a.me = a
        first.append(second)
        second.append(first)
        log.append(a.me is a and first[-1][-1] is first)
        a.ring = made = Node()
        made.ring = made
        made.back = a
        return x * a.v

    def run(compile):
        a, b, first, second, log = Node(), Node(), [1, 2], [3], []
        a.v, b.v = 2, 3
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = compile(f)(G.ones(1), a, b, first, second, log)
        return (
            y.tolist(),
            a.v,
            b.v,
            a.me is a,
            first[:-1],
            second[:-1],
            first[-1] is second,
            second[-1] is first,
            a.ring.ring is a.ring,
            a.ring.back is a,
            log,
        )

    assert run(lambda fn: fn) == run(lambda fn: G.compile(fn, backend="eager"))
