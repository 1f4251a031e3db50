# SPDX-License-Identifier: Apache-2.0
"""Methods of C types, bound and called on instances of subclasses, slots under other names, and the
very elements that sets made of others have."""

import array
import codecs
import collections
import itertools
import operator
import pickle
import re
import resource
import sys
import warnings

import pytest

import gramme as G
from stress import undisturbed


def outcome(fn, make):
    """The result, or the error's class and text."""
    try:
        return fn(*make())
    except Exception as e:
        return type(e).__name__, str(e)


def check(fn, make=lambda: ()):
    want = outcome(fn, make)
    compiled = G.compile(fn, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [outcome(compiled, make), outcome(compiled, make)] == [want, want]


def named(fns):
    return [pytest.param(fn, id=fn.__name__) for fn in fns]


@G.compiler.disable
def stop():
    pass


# -- Methods that are told their class: CPython's own __get__ needs it

LETTERS = re.compile("a+")


def bound_before_a_break():
    match = LETTERS.match
    stop()
    return match("aab").group()


def handed_to_map():
    return [m.group() for m in map(LETTERS.match, ["ab", "aab"])]


def handed_back():
    return LETTERS.fullmatch("aaa") is not None, (lambda f: f)(LETTERS.search)("baa").span()


def of_an_array():
    a = array.array("b", [1, 2, 3])
    extend = a.extend
    stop()
    extend(a[0:1])
    return a


@pytest.mark.parametrize(
    "fn", named([bound_before_a_break, handed_to_map, handed_back, of_an_array])
)
def test_a_method_that_is_told_its_class_outlives_its_region(fn):
    check(fn)


# -- Instances of subclasses


class Bytes(bytes):
    pass


class Text(str):
    def __repr__(self):
        return "a text"


class Int(int):
    def __repr__(self):
        return "an int"


class Float(float):
    pass


class Tuple(tuple):
    pass


def state(o):
    return o.__getstate__()


def directory(o):
    return "x" in o.__dir__(), dir(o) == o.__dir__()


def memory(o):
    return o.__sizeof__()


def text(o):
    return o.__str__(), o.__repr__()


def added(o):
    return o.__add__(())


def copied(o):
    return vars(pickle.loads(pickle.dumps(o, 0)))


@pytest.mark.parametrize("kind", [Bytes, Text, Int, Float, Tuple])
@pytest.mark.parametrize("fn", named([state, directory, memory, text, added, copied]))
@pytest.mark.skipif(sys.version_info < (3, 11), reason="object.__getstate__ came with 3.11")
def test_methods_of_an_instance_see_more_than_its_value(kind, fn):
    def made():
        o = kind()
        o.x = 5
        return (o,)

    check(fn, made)


def test_an_empty_tuple_has_operators_as_methods():
    check(lambda: (().__add__((1,)), ().__mul__(2), outcome(().__add__, lambda: (2,))))


class Meta(type):
    @property
    def __module__(cls):
        raise AttributeError("none")

    @property
    def __name__(cls):
        return "another"

    @property
    def __doc__(cls):
        return "about " + cls.__qualname__


class OfMeta(metaclass=Meta):
    """Its own."""


def test_a_metaclass_says_what_a_class_tells_of_itself():
    check(
        lambda: (
            hasattr(OfMeta, "__module__"),
            OfMeta.__name__,
            OfMeta.__doc__,
            OfMeta.__qualname__,
        )
    )
    check(lambda: (Meta.__name__, Meta.__doc__, Meta.__module__))


def test_a_handler_of_codecs_is_asked_at_each_call():
    asked = []

    def handler(error):
        asked.append(error.start)
        return f"<{len(asked)}>", error.end

    codecs.register_error("gramme.counted", handler)

    def f(x):
        e = "gramme.counted"
        return (
            x + 1,
            "a\xff".encode("ascii", e),
            b"\xff".decode("ascii", errors=e),
            bytes("\xff", "ascii", e),
            str(b"\xfe", "ascii", e),
        )

    compiled = G.compile(f, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [f(G.ones(1))[1:], compiled(G.ones(1))[1:], compiled(G.ones(1))[1:]]
    assert results == [
        (b"a<%d>" % n, f"<{n + 1}>", b"<%d>" % (n + 2), f"<{n + 3}>") for n in (1, 5, 9)
    ]


def test_accumulate_takes_its_start_by_name_alone():
    check(lambda: list(itertools.accumulate([1, 2], operator.add, 5)))
    check(lambda: list(itertools.accumulate([1, 2], operator.add, initial=5)))


class Key:
    def __hash__(self):
        return 1


def test_the_last_pair_of_a_dict_with_any_keys_is_taken():
    key = Key()
    for kind in dict, collections.OrderedDict:
        check(
            lambda d: (d.popitem()[0] is key, len(d)), lambda kind=kind: (kind({"a": 1, key: 2}),)
        )


# -- Slots that stand under another name


class Slots:
    __slots__ = ("a", "b", "c")


class Borrows:
    __slots__ = ("mine",)
    first, last = Slots.a, Slots.c


class TwoNames:
    __slots__ = ("a",)


TwoNames.again = TwoNames.a


def filled(kind, name):
    o = kind()
    setattr(o, name, 42)
    return (o,)


def reads_first(o):
    return o.first


def reads_last(o):
    return o.last


def stores(o):
    o.first = 1


def deletes(o):
    del o.first


def stores_in_a_new_one(o):
    o = Borrows()
    o.first = 3
    return o.first


@pytest.mark.parametrize(
    "fn", named([reads_first, reads_last, stores, deletes, stores_in_a_new_one])
)
def test_the_slot_of_another_class_is_refused(fn):
    check(fn, lambda: filled(Borrows, "mine"))


def one_place(o):
    o.a = [1]
    before = o.again
    o.again = [2]
    return before, o.a


def one_place_of_a_new_one(o):
    o = TwoNames()
    o.again = 2
    return o.a


def deleted_by_the_other_name(o):
    del o.again
    return hasattr(o, "a")


@pytest.mark.parametrize(
    "fn", named([one_place, one_place_of_a_new_one, deleted_by_the_other_name])
)
def test_two_names_of_a_slot_are_one_place(fn):
    check(fn, lambda: filled(TwoNames, "a"))


# -- The very elements: in one region, which a forced break would end (a set that leaves it is made


def only(s):
    (one,) = [e for e in s if e != 3]
    return one


def pair(n):
    """A tuple that is equal to no constant's object."""
    return tuple([n, 7])


def popped(v):
    s = {v, 3}.copy()
    s.discard(3)
    return s.pop()


def kept_by_update(s, other):
    s &= other
    return only(s)


OF_ONE = {
    "copy": lambda v: only({v}.copy()),
    "set": lambda v: only(set({v})),
    "frozenset": lambda v: only(frozenset({v})),
    "frozenset of a list": lambda v: only(frozenset([v])),
    "set of a dict": lambda v: only(set({v: 1})),
    "union": lambda v: only({v} | {3}),
    "difference": lambda v: only({v, 3} - {3}),
    "symmetric difference": lambda v: only({v, 8} ^ {8}),
    "pop": popped,
}
OF_TWO = {
    "&": lambda v, w: only({v} & {w}),
    "& of a larger": lambda v, w: only({v, 5} & {w}),
    "& with a larger": lambda v, w: only({v} & {w, 5}),
    "|": lambda v, w: only({v} | {w}),
    "intersection with a list": lambda v, w: only({v}.intersection([w, 5])),
    "intersection with a dict": lambda v, w: only({v}.intersection({w: 1})),
    "intersection with two": lambda v, w: only({v, 5}.intersection({w, 5}, [v, 6])),
    "union with a list": lambda v, w: only({v}.union([w])),
    "&=": lambda v, w: kept_by_update({v}, {w}),
    "&= a larger": lambda v, w: kept_by_update({v}, {w, 5}),
    "of frozensets": lambda v, w: only(frozenset({v}) & frozenset({w})),
}


@undisturbed
@pytest.mark.parametrize("made", [pair, lambda n: frozenset([n, 7])], ids=["tuple", "frozenset"])
@pytest.mark.parametrize("how", OF_ONE)
def test_a_set_made_of_another_has_its_elements(how, made):
    one = OF_ONE[how]

    def is_the_element(x):
        v = made(x.ndim)
        return one(v) is v

    check(is_the_element, lambda: (G.ones(1),))


@undisturbed
@pytest.mark.parametrize("how", OF_TWO)
def test_a_set_made_of_two_has_the_elements_of_the_right_one(how):
    one = OF_TWO[how]

    def is_the_first(x):
        v, w = pair(x.ndim), pair(x.ndim)
        found = one(v, w)
        return found is v, found is w

    check(is_the_first, lambda: (G.ones(1),))


@undisturbed
@pytest.mark.parametrize("how", OF_ONE)
def test_a_set_made_of_one_that_exists_has_its_elements(how):
    one, existing = OF_ONE[how], (1, 2)
    check(lambda s: one(only(s)) is only(s), lambda: ({existing, 3},))


def test_a_large_set_of_tuples_takes_little_memory_to_record():
    def f(x):
        pairs = list(itertools.product(range(60), repeat=2))
        found = dict.fromkeys(pairs, 7)
        return x + len(set(pairs)), found[59, 58], len(found)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    compiled = G.compile(f, backend="eager")
    assert compiled(G.ones(1)) == (3601.0, 7, 3600)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


# -- Strings that are not laid out, which 3.11 still has


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 has no such strings")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_string_that_is_not_laid_out_is_a_string():
    legacy = pytest.importorskip("_testcapi").unicode_legacy_string

    def f(s):
        return s + "b", {s: 1}, f"{s}", s in {"abc"}, ["abc"].index(s)

    compiled = G.compile(f, backend="eager")
    for s in legacy("abc"), legacy("abc"), "abc", legacy("xyz"):
        assert outcome(compiled, lambda: (s,)) == outcome(f, lambda: (s,))
