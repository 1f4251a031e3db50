# SPDX-License-Identifier: Apache-2.0
"""Two values that were two objects when a function was recorded, and are one object in a later
call; and the other way round.

A container finds an object that it holds without asking whether it is equal, so sets, dicts, their
views, `in`, and comparisons of containers answer by what an object is.
Every operation is tried on every kind of object: called with two objects, with one object twice,
and with the two in the other order, whichever comes first.
"""

import collections
import enum
import functools
import itertools
import operator

import pytest

import gramme as G
from gramme import nn
from stress import undisturbed


class Plain:
    pass


class Unequal:
    """Equal to nothing, not even to itself; a container finds it all the same."""

    def __eq__(self, other):
        return False

    def __hash__(self):
        return 7


class Equal:
    """Equal to each other of its class."""

    def __eq__(self, other):
        return isinstance(other, Equal)

    def __hash__(self):
        return 7


class Text(str):
    pass


class Mode(enum.Enum):
    A = 0
    B = 1


class Bits(enum.Flag):
    A = 1
    B = 2


def function():
    def inner():
        return None

    return inner


KINDS = {
    "tensors": lambda: G.zeros(1),
    "objects": Plain,
    "objects equal to nothing": Unequal,
    "objects equal to each other": Equal,
    "modules": nn.Module,
    "functions": function,
    "classes": lambda: type("C", (), {}),
    "members of an Enum": iter(()).__next__,
    "members of a Flag": iter(()).__next__,
    "floats that are no numbers": lambda: float("nan"),
    "complex numbers that are none": lambda: complex("nan"),
    "strings of a class": lambda: Text("t"),
    "tuples": lambda: (Plain(), 1),
}
PAIRS = {"members of an Enum": (Mode.A, Mode.B), "members of a Flag": (Bits.A, Bits.B)}
OPERATIONS = """
len({a, b})
a in {b}
a in frozenset([b])
{a: 1}.get(b, 5)
a in {b: 1}
len({a: 1, b: 2})
list({a: 1, b: 2}.values())
filled(a, b)
dict_of(a).setdefault(b, 5)
dict_of(a).pop(b, 5)
caught(lambda: dict_of(a)[b])
removed(a, b)
discarded(a, b)
caught(lambda: {a}.remove(b))
len(dict.fromkeys([a, b]))
len({k for k in (a, b)})
len({k: 1 for k in (a, b)})
{a} == {b}
{a} != {b}
{a} <= {b}
{a} < {a, b}
{a: 1} == {b: 1}
{1: a} == {1: b}
len({a} | {b})
len({a} & {b})
len({a} - {b})
len({a} ^ {b})
{a}.isdisjoint([b])
len({a}.union([b]))
a in {b: 1}.keys()
{a: 1}.keys() == {b: 1}.keys()
len({a: 1}.keys() & {b: 1}.keys())
(a, 1) in {b: 1}.items()
(1, a) in {1: b}.items()
a in {1: b}.values()
a in [b]
a in (b,)
a in collections.deque([b])
caught(lambda: [b].index(a))
caught(lambda: (b,).index(a))
[b, b].count(a)
[a] == [b]
(a, 1) == (b, 1)
a is b
a is not b
operator.countOf([b], a)
operator.is_(a, b)
len({**{a: 1}, **{b: 2}})
len({a: 1} | {b: 2})
len(collections.OrderedDict([(a, 1), (b, 2)]))
len(collections.defaultdict(list, {a: 1, b: 2}))
""".strip().split(
    "\n"
)
PLACES = {
    "arguments": lambda a, b: ("f(x, a, b)", (a, b)),
    "items of a list": lambda a, b: ("f(x, l): a, b = l", ([a, b],)),
    "values of a dict": lambda a, b: ("f(x, d): a, b = d['a'], d['b']", ({"a": a, "b": b},)),
    "attributes": lambda a, b: ("f(x, o): a, b = o.a, o.b", (holder(a, b),)),
    "an argument and a global": lambda a, b: ("f(x, a): b = g", (a,)),
}
SOME = {
    "len({a, b})",
    "a in {b}",
    "{a: 1}.get(b, 5)",
    "filled(a, b)",
    "{a: 1} == {b: 1}",
    "a in [b]",
    "a is b",
}


def holder(a, b):
    o = Plain()
    o.a, o.b = a, b
    return o


def filled(a, b):
    d = {}
    d[a] = 1
    d[b] = 2
    return len(d)


def dict_of(a):
    return {a: 1}


def removed(a, b):
    d = {a: 1}
    try:
        del d[b]
    except KeyError:
        return "lacks it"
    return len(d)


def discarded(a, b):
    s = {a}
    s.discard(b)
    return len(s)


def caught(f):
    try:
        return f()
    except (KeyError, ValueError):
        return "lacks it"


def function_of(operation, place):
    head, body = place(None, None)[0].partition(":")[::2]
    space = dict(globals())
    exec(f"def {head}:\n    {body.strip() or 'pass'}\n    return {operation}, x + 1\n", space)
    return space


def value(result):
    return result[0], type(result[0]), result[1].tolist()


def check(operation, kind, place):
    make = KINDS[kind]
    one, other = PAIRS[kind] if kind in PAIRS else (make(), make())
    x = G.ones(2)
    for order in ((one, other), (one, one)), ((one, one), (one, other)):
        space = function_of(operation, place)
        f, c = space["f"], G.compile(space["f"], backend="eager")
        for a, b in itertools.chain(order, order, [(other, one), (other, other)]):
            space["g"] = b
            arguments = place(a, b)[1]
            assert value(c(x, *arguments)) == value(f(x, *arguments)), (
                f"{operation} of {kind}: {'one object' if a is b else 'two'}, first "
                f"{'one' if order[0][0] is order[0][1] else 'two'}"
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_of_arguments(operation, kind):
    check(operation, kind, PLACES["arguments"])


@pytest.mark.parametrize("place", list(PLACES)[1:])
@pytest.mark.parametrize("kind", KINDS)
def test_of_things_elsewhere(place, kind):
    for operation in OPERATIONS:
        if operation in SOME:
            check(operation, kind, PLACES[place])


def test_an_enum_member_that_is_no_key_is_guarded():
    table = {Mode.A: 2.0}

    def f(x, m):
        return x * table.get(m, 5.0)

    c, x = G.compile(f, backend="eager"), G.ones(1)
    for m in (Mode.B, Mode.A, Mode.B, Bits.A, Mode.A):
        assert c(x, m).item() == f(x, m).item()


@undisturbed
def test_many_objects_in_one_set_are_one_group_of_guards():
    """Pairs would be 4,950 guards."""

    def f(x, things):
        seen, n = set(), 0
        for thing in things:
            n += thing not in seen
            seen.add(thing)
        return x * n

    c, x = G.compile(f, backend="eager"), G.ones(1)
    things = [Plain() for _ in range(100)]
    for _ in range(3):
        assert c(x, things).item() == 100
    assert c.entries()[0]["n_guards"] < 600
    assert "APART" in c.entries()[0]["guards"]
    things[70] = things[3]
    assert c(x, things).item() == 99
    things[70] = Plain()
    assert c(x, things).item() == 100
    assert len(c.entries()) == 2


@undisturbed
def test_what_tells_a_group_apart_names_the_object():
    c, x = G.compile(lambda x, a, b, d: x * len({a, b, d}), backend="eager"), G.ones(1)
    a, b, d = Plain(), Plain(), Plain()
    assert c(x, a, b, d).item() == 3
    assert c(x, a, b, a).item() == 2
    (reason,) = [e["reason"] for e in c.entries() if e["reason"]]
    assert "L['d']" in reason and "APART" in reason and "one of them" in reason


@undisturbed
def test_classes_are_guarded_once():
    c, x = G.compile(lambda x, a, b: x * len({a, b}), backend="eager"), G.ones(1)
    assert c(x, int, str).item() == 2
    assert "APART" not in c.entries()[0]["guards"] and "DISTINCT" not in c.entries()[0]["guards"]
    assert c(x, int, int).item() == 1


def test_functions_with_closures_of_one_code_are_keys():
    table = {function(): 1.0, function(): 2.0}
    first, second = table

    def f(x, g):
        return x * table.get(g, 5.0)

    c, x = G.compile(f, backend="eager"), G.ones(1)
    for g in (first, second, function(), first, second, function()):
        assert c(x, g).item() == f(x, g).item()


@undisturbed
@pytest.mark.parametrize(
    "body",
    [
        "d[m]",
        "d.get(m)",
        "d.get(m, 5.0) if m in d else 5.0",
        "sum(v for k, v in d.items() if k is m)",
        "d[m] + len(d)",
        "{**d}[m]",
        "dict(d)[m]",
        "next(iter(d.values()))",
        "h.d[m]",
        "g[m]",
        "n['in'][m]",
    ],
)
@pytest.mark.parametrize("members", [(Mode.A, Mode.B), (Bits.A, Bits.B), (Bits.A | Bits.B, Bits.A)])
def test_a_dict_with_members_as_keys_is_compiled(body, members):
    table = {m: float(i + 2) for i, m in enumerate(members)}
    space = {"g": table, "Plain": Plain}
    exec(f"def f(x, d, h, n, m):\n    return x * ({body})\n", space)
    counter = G.testing.CompileCounter()
    c, x = G.compile(space["f"], backend=counter, fullgraph=True), G.ones(1)
    h = Plain()
    h.d = table
    for m in (*members, *members):
        assert (
            c(x, table, h, {"in": table}, m).item()
            == space["f"](x, table, h, {"in": table}, m).item()
        )
    assert 1 <= counter.frame_count <= 2


def test_keys_of_an_argument_beside_those_of_a_dict_that_exists():
    existing = {function(): 1.0, function(): 2.0}

    def f(x, a, b):
        d = {a: 3.0}
        d.update(existing)
        d[b] = 4.0
        return x * len(d)

    first, one, other = next(iter(existing)), function(), function()
    c, x = G.compile(f, backend="eager"), G.ones(1)
    for a, b in (
        (one, other),
        (one, one),
        (other, one),
        (first, one),
        (first, first),
        (one, first),
        (other, other),
    ):
        assert c(x, a, b).item() == f(x, a, b).item()


def test_a_partial_is_a_key():
    one, other = functools.partial(len), functools.partial(len)
    c, x = G.compile(lambda x, a, b: x * len({a, b}), backend="eager"), G.ones(1)
    for a, b in ((one, other), (one, one), (other, one), (other, other)):
        assert c(x, a, b).item() == len({a, b})


BOUND = {
    "a method wrapper of a tensor": (lambda: G.zeros(1), "__init__"),
    "a method wrapper of an object": (Plain, "__repr__"),
    "a method wrapper of a list": (lambda: [1], "__len__"),
    "a method of a list": (lambda: [1], "append"),
    "a method of a dict": (lambda: {1: 2}, "get"),
    "a method of the user's": (lambda: collections.UserList([1]), "append"),
}


@pytest.mark.parametrize("name", BOUND)
def test_methods_that_are_bound_to_one_object_are_one_key(name):
    """Each look at one makes another object, which is equal to the others."""
    make, attribute = BOUND[name]

    def inside(x, a, b):
        return (
            x + 1,
            len({getattr(a, attribute), getattr(b, attribute)}),
            {getattr(a, attribute): 1}.get(getattr(b, attribute), 5),
        )

    def outside(x, p, q):
        return (
            x + 1,
            len({p, q}),
            {p: 1}.get(q, 5),
            p in [q],
            len({p: 1} | {q: 2}),
            len({p, q} - {p}),
        )

    for first in (0, 1):
        a, b = make(), make()
        for f, given in ((inside, lambda o: o), (outside, lambda o: getattr(o, attribute))):
            compiled = G.compile(f, backend="eager")
            for other in ((b, a), (a, b))[first]:
                x = G.ones(1)
                assert (
                    compiled(x, given(a), given(other))[1:] == f(x, given(a), given(other))[1:]
                ), (f, other is a)


def test_objects_of_c_that_are_keys_by_what_they_are():
    """Functions of C without an object, and partial objects: they are equal to themselves alone."""

    def f(x):
        made = functools.partial(len)
        return (
            x + 1,
            len({len, abs, len, operator.add, made, made, functools.partial(len)}),
            {operator.mul: 3}[operator.mul],
            str.join in {str.join},
        )

    assert G.compile(f, backend="eager")(G.ones(1))[1:] == f(G.ones(1))[1:] == (5, 3, True)
