# SPDX-License-Identifier: Apache-2.0
"""Values whose class says more than its base: named tuples, struct sequences, sizes, slices,
methods bound before."""

import collections
import enum
import sys
import time
import typing

import gramme as G


def ones():
    return G.arange(4).float()


class Point(typing.NamedTuple):
    a: int
    b: float = 2.0

    def total(self):
        return self.a + self.b

    @property
    def twice(self):
        return self.a * 2

    @staticmethod
    def origin():
        return Point(0, 0.0)


# expect: breaks=0
def case_methods_and_properties_of_a_named_tuple(compile):
    f = compile(
        lambda x, p: (
            x * p.twice,
            p.total(),
            p.origin(),
            repr(p),
            str(p),
            f"{p}",
            p.b,
            "%s" % (p,),
            p.__doc__,
        )
    )
    return [f(ones(), Point(n)) for n in (1, 2, 1)]


class Odd(typing.NamedTuple):
    """Says anew all that a tuple does."""

    a: int

    def __eq__(self, other):
        return "eq"

    def __lt__(self, other):
        return "lt"

    def __len__(self):
        return 7

    def __bool__(self):
        return False

    def __add__(self, other):
        return "add"

    def __mul__(self, other):
        return "mul"

    def __iter__(self):
        return iter("it")

    def __contains__(self, other):
        return True

    def __getitem__(self, i):
        return "item"

    def __hash__(self):
        return 5

    def __repr__(self):
        return "odd"


def asked(x, p):
    return [
        (
            q == q,
            q == (1,),
            q < (3,),
            q + (1,),
            q * 2,
            [*q],
            99 in q,
            q[0],
            repr(q),
            bool(q),
            hash(q),
            len(q),
        )
        for q in (p, Odd(3))
    ]


# expect: any
def case_a_named_tuple_that_says_how_a_tuple_works(compile):
    f = compile(asked)
    return [f(ones(), Odd(n)) for n in (1, 2)]


Pair = collections.namedtuple("Pair", "a b")


# expect: any
def case_a_named_tuple_gets_a_method_after_compiling(compile):
    f = compile(lambda x, p: (x * 2, list(p), p == (1, 2), p[0]))
    results = [f(ones(), Pair(1, 2))]
    Pair.__iter__ = lambda self: iter("new")
    try:
        results.append(f(ones(), Pair(1, 2)))
        Pair.__eq__ = lambda self, other: "equal"
        results.append(f(ones(), Pair(1, 2)))
        del Pair.__eq__
    finally:
        del Pair.__iter__
    return results + [f(ones(), Pair(1, 2))]


# expect: breaks=0
def case_struct_sequences(compile):
    def f(x, then):
        new = then >= (1971,) and then[:2] > (2000, 0)
        return (
            x * 2 if new else x,
            sys.float_info.dig,
            then.tm_year,
            then.tm_zone,
            then[:3],
            then.tm_year in then,
            list(then),
        )

    g = compile(f)
    return [g(ones(), time.gmtime(s)) for s in (0, 10**9, 0)]


# expect: breaks=0
def case_texts_and_sums_of_sizes(compile):
    def f(x):
        both = x.shape + (1,), (1,) + x.shape, x.shape + x.shape, () + x.shape, x.shape + ()
        return (
            x.reshape(x.shape + (1,)),
            both,
            [type(s).__name__ for s in both],
            repr(x.shape),
            str(x.size()),
            f"{x.shape}",
            hash(x.shape),
        )

    g = compile(f)
    return [g(ones()), g(ones().reshape(2, 2))]


# expect: breaks=0
def case_the_type_of_a_tensor(compile):
    f = compile(
        lambda x: (x.type(), x.double().type(), x.type(G.int32), x.type(None), x.long().type())
    )
    return f(ones())


def sliced(x, s):
    a = x[s]
    return (
        a,
        s.start,
        s.stop,
        s.step,
        s.indices(10),
        [1, 2, 3, 4][s],
        "abcd"[s],
        s == slice(1, 3),
        s is s,
        slice(0, 2) < slice(1, 2),
        s != slice(0, 2),
    )


# expect: breaks=0
def case_slices_as_arguments(compile):
    f = compile(sliced)
    return [f(ones(), s) for s in (slice(1, 3), slice(0, 2), slice(None, None, 2), slice(1, 3))]


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


# expect: breaks=0
def case_hashes(compile):
    class Keyed:
        def __hash__(self):
            return -1

    f = compile(
        lambda x, c: (
            x,
            hash(c) == hash(Colour.RED),
            hash(c) == hash("RED"),
            hash((1, "a")),
            hash(Point(1)) == hash((1, 2.0)),
            hash(Keyed()),
        )
    )
    return [f(ones(), c) for c in (Colour.RED, Colour.GREEN)]


# expect: breaks=0
def case_methods_bound_before(compile):
    log, table, marks = [], {"a": 1}, {3}
    append, get, add, split = log.append, table.get, marks.add, "a,b".split
    other = [].append

    def f(x, put):
        append(len(log))
        add(len(log))
        put(x)
        return x * len(log), get("a"), get("b", 5), split(","), sorted(marks), append.__name__

    g = compile(f)
    return [
        g(ones(), log.append),
        g(ones(), other),
        g(ones(), log.append),
        len(log),
        sorted(marks),
        other.__self__,
    ]


# expect: breaks=0
def case_counting_in_a_deque(compile):
    d = collections.deque([1, 2, 1, 3])
    f = compile(lambda x: (x * d.count(1), d.index(3), d.count(9)))
    return [f(ones()), d.append(1), f(ones())]


def zipped(x, a, b, c):
    pairs, text = [], ""
    try:
        for p in zip(a, b, c, strict=True):
            pairs.append(p)
    except ValueError as e:
        text = str(e)
    return (
        x * len(pairs),
        pairs,
        text,
        list(zip(a, a, strict=True)),
        list(zip(a, b, strict=False)),
        list(zip(strict=True)),
    )


# expect: breaks=0
def case_strict_zip(compile):
    f = compile(zipped)
    lists = (
        ([1, 2], [3, 4], [5, 6]),
        ([1, 2], [3], [5, 6]),
        ([1, 2], [3, 4], [5]),
        ([1], [3, 4], [5]),
        ([1], [2], [5, 6]),
        ([], [], [1]),
    )
    return [f(ones(), *l) for l in lists]


# expect: breaks=0
def case_a_property_asked_of_its_class(compile):
    class Owner:
        value = property(lambda self: 3, doc="three")

    f = compile(lambda x: (x * Owner().value, Owner.value.__doc__, Owner.value.fget(None)))
    return f(ones())


def changed_by(op):
    def f(x, s, other):
        if op == "|":
            s |= other
        elif op == "&":
            s &= other
        elif op == "-":
            s -= other
        elif op == "^":
            s ^= other
        else:
            getattr(s, op)(other)
        other.add(99)
        return x * len(s), sorted(s), 3 in s

    return f


# SIDE: what the table of a set looks like shows in the order of its elements, so CPython's own
# methods are replayed.
# expect: breaks=0
def case_sets_that_are_changed_by_sets(compile):
    results = []
    for op in (
        "|",
        "&",
        "-",
        "^",
        "update",
        "intersection_update",
        "difference_update",
        "symmetric_difference_update",
    ):
        f = compile(changed_by(op))
        for n in (3, 40, 300):
            s = {i * 7 % 1024 for i in range(n)} | {3, 64, 128}
            results.append((f(ones(), s, {i * 5 % 256 for i in range(2 * n)} | {64}), list(s)))
            results.append((f(ones(), s, s.copy()), list(s)))
    return results


# expect: any
def case_a_set_that_is_changed_by_a_new_one(compile):
    def f(x, s, n):
        new = {1, 9, n}
        s |= new
        new.add(77)
        s ^= {5, 1}
        s -= {n}
        s &= {9, 5, 64, 3, 128, 11}
        s |= s
        return x, sorted(s), len(new)

    g = compile(f)
    sets = [{3, 64, 128}, set(range(0, 900, 11)), set()]
    return [(g(ones(), s, n), list(s)) for s in sets for n in (3, 64, 4)]


# expect: breaks=0
def case_sets_written_out(compile):
    def f(x):
        a, b = {1024, 3, 64, 128, 9}, {"d", "c", "b", "a"}
        return (
            x * len(a),
            a,
            b,
            list({64, 3, 128}),
            list(b),
            str({1, 64, 3}),
            [k for k in a if k in {3, 9, 64}],
        )

    return compile(f)(ones())
