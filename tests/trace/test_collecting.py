# SPDX-License-Identifier: Apache-2.0
"""What list(x), [*x], a, *b = x, l[:] = x, set(x) and their kin do with an iterable: which of the
user's methods run in which order, what their errors become, and in which order sets are iterated
afterwards.  Against plain Python."""

import collections
import functools
import itertools
import operator
import warnings

import pytest

import gramme as G

LOG = []


class Counted:
    def __iter__(self):
        LOG.append("iter")
        return iter([1, 2])

    def __len__(self):
        LOG.append("len")
        return 2


class Hinted:
    def __init__(self):
        self.i = 0

    def __iter__(self):
        LOG.append("iter")
        return self

    def __next__(self):
        LOG.append("next")
        self.i += 1
        if self.i > 2:
            raise StopIteration
        return self.i

    def __length_hint__(self):
        LOG.append("hint")
        return 2


class Indexed:
    def __getitem__(self, i):
        LOG.append("item")
        if i > 1:
            raise IndexError
        return i

    def __len__(self):
        LOG.append("len")
        return 2


class Asked:
    """Its length is what `answer` gives or raises; so is its hint, if it has no length."""

    def __init__(self, answer):
        self.answer = answer

    def __iter__(self):
        return iter([1, 2])

    def __length_hint__(self):
        LOG.append("hint")
        return self.answer()


class Measured(Asked):
    def __len__(self):
        LOG.append("len")
        return self.answer()


class Refuses:
    def __iter__(self):
        raise TypeError("mine")


class Blocked:
    __iter__ = None


class Own:
    def __iter__(self):
        LOG.append("iter")
        return iter([7, 8])

    def __len__(self):
        LOG.append("len")
        return 2


class OwnList(Own, list):
    pass


class OwnTuple(Own, tuple):
    pass


class OwnSet(Own, set):
    pass


class OwnDict(Own, dict):
    pass


class LongSet(set):
    def __len__(self):
        LOG.append("len")
        return 2


class RefusesList(Refuses, list):
    pass


class Late:
    def __iter__(self):
        yield 1
        raise TypeError("late")


def raises(error):
    raise error


OBJECTS = {
    "counted": Counted,
    "hinted": Hinted,
    "indexed": Indexed,
    "plain object": object,
    "refuses": Refuses,
    "blocked": Blocked,
    "late": Late,
    "not iterable": lambda: 3,
    "own list": lambda: OwnList([1, 2]),
    "own tuple": lambda: OwnTuple([1, 2]),
    "own set": lambda: OwnSet([1, 2]),
    "own dict": lambda: OwnDict({1: 2}),
    "long set": lambda: LongSet([1, 2]),
    "list that refuses": lambda: RefusesList([1, 2]),
    "no hint": lambda: Asked(lambda: NotImplemented),
    "bad hint": lambda: Asked(lambda: "x"),
    "negative hint": lambda: Asked(lambda: -3),
    "hint raises a TypeError": lambda: Asked(lambda: raises(TypeError("t"))),
    "hint raises": lambda: Asked(lambda: raises(ValueError("v"))),
    "bad length": lambda: Measured(lambda: "x"),
    "negative length": lambda: Measured(lambda: -3),
    "length raises a TypeError": lambda: Measured(lambda: raises(TypeError("t"))),
    "length raises": lambda: Measured(lambda: raises(ValueError("v"))),
}


def count(*a, **k):
    return len(a)


def through(x):
    yield from x


Pair = collections.namedtuple("Pair", "a b")
FORMS = """return [*x]
return (*x,)
return {*x}
a, b = x; return a
a, *b = x; return b
a, *b = iter(x); return b
l[0:1] = x; return l
l[5:] = x; return l
l += x; return l
l.extend(x); return l
return count(*x)
return count(1, *x)
return count(*x, *x)
return {**x}
return dict([(1, 2), x])
return list(x)
return tuple(x)
return list(iter(x))
return set(x)
return frozenset(x)
return "".join(x)
return sorted(x)
return sum(x)
return list(zip(x, [1]))
return list(map(count, x))
return list(filter(None, x))
for i in x: pass
return [i for i in x]
s.update(x); return s
return s.union(x)
return s.isdisjoint(x)
return s.issuperset(x)
return s.issubset(x)
return dict.fromkeys(x)
return list(itertools.product(x))
return list(itertools.chain([1], x))
return list(itertools.starmap(count, [x]))
return functools.reduce(count, x)
return Pair(*x)
return Pair._make(x)
return collections.deque(x)
return 1 in x
return operator.countOf(x, 1)
return operator.indexOf(x, 1)
return min(x)
return any(x)
return list(reversed(x))
return list(enumerate(x))
return list(itertools.accumulate(x))
d.update(x); return d
d |= x; return d
q.extend(x); return q
q += x; return q
return next(iter(x))
for i, k in [x]: pass
return list(y for y in x)
return list(through(x))""".splitlines()


def function(text):
    space = {}
    exec(compile("def f(x, l, s, d, q):\n" + text, "<form>", "exec"), globals(), space)
    return space["f"]


def outcome(f, make):
    LOG.clear()
    try:
        result = repr(f(make(), [1, 2, 3], {1, 5}, {1: 3}, collections.deque([1])))
    except Exception as error:
        result = type(error), str(error)
    return result if "object at" not in result else "an object", list(LOG)


@pytest.mark.parametrize("caught", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_an_iterable_is_asked_what_plain_python_asks_it(form, caught):
    text = f"    {form}\n"
    if caught:
        text = (
            f"    try:\n        {form}\n    except Exception as e:\n        return "
            "type(e).__name__, str(e)\n"
        )
    for name, make in OBJECTS.items():
        plain, compiled = function(text), G.compile(function(text), backend="eager")
        expected = outcome(plain, make)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert [outcome(compiled, make) for _ in range(2)] == [expected] * 2, name


# -- In which order a set is iterated: its elements fall into the same places of the table in many w

SETS = """frozenset(x)
set(x)
{*x}
frozenset({*x})
set(frozenset(x))
frozenset(set(x))
frozenset(i for i in x)
set(s)
frozenset(s)
set(fs)
{*fs, *x}
set(d)
set(dict.fromkeys(x))
set(d.keys())
set(x).copy()
frozenset(x) | frozenset(s)
fs | set(x)
fs & s
fs - s
fs ^ set(x)
frozenset(x) - {'a'}
frozenset(x).union('z', s)
frozenset(x).union(d)
grown(set(s), x)
grown(set(fs), x)
grown({'a', 'b', 'c'}, x)
cleared(set(s))
set(grown(set(s), x))
set(set(s) - {'a'})
frozenset(dict.fromkeys(x))""".splitlines()


def grown(s, x):
    for e in x:
        s.add(e + "1")
    return s


def cleared(s):
    s.clear()
    return set(s)


def words():
    for start in range(12):
        for n in (2, 3, 5, 9, 20):
            yield "".join(chr(97 + (start * 7 + k * 5) % 26) for k in range(n))


def roomy(w):
    """A set with the elements of another one and a larger table."""
    s = set(w)
    s.update(map(str, range(100)))
    s.difference_update(map(str, range(100)))
    return s


@pytest.mark.parametrize("left", ["{}", "list({})", "frozenset({})"])
@pytest.mark.parametrize("form", SETS)
def test_sets_are_iterated_in_the_order_of_plain_python(form, left):
    space = {}
    exec("def f(x, s, fs, d): return " + left.format(form), globals(), space)
    f = space["f"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for w in list(words())[::7]:
            G.compiler.reset()
            compiled = G.compile(f, backend="eager")
            for s in (set(w[::-1]), set(w), roomy(w)):
                for fs in (frozenset(w[1:]), frozenset(roomy(w))):
                    assert list(compiled(w, set(s), fs, dict.fromkeys(w))) == list(
                        f(w, set(s), fs, dict.fromkeys(w))
                    ), w


def test_a_frozenset_that_is_made_again_behind_a_break_has_its_table():
    def f(pair):
        s = frozenset(pair)
        G._dynamo.graph_break()
        return [list(s.union([chr(k)])) for k in range(97, 123)], list(set(s) | {"z"})

    for pair in itertools.permutations(list(words())[:7], 2):
        G.compiler.reset()
        assert G.compile(f, backend="eager")(pair) == f(pair)


def test_an_existing_set_that_is_copied_is_guarded_by_its_table():
    compiled = G.compile(lambda s: list(set(s)), backend="eager", fullgraph=True)
    w = "afkpuzej"
    for s in (set(w), set(w[::-1]), roomy(w), roomy(w[::-1])):
        assert compiled(s) == list(set(s))


def test_constants_of_generated_code_are_the_objects_that_they_are():
    part = "".join(["in ", "terned"[2:]])
    word = "".join(["not", "_interned"])
    whole = (word, (part, word))

    def f(x):
        return x + 1, whole, frozenset("oty")

    _, have, order = G.compile(f, backend="eager", fullgraph=True)(G.ones(2))
    assert have is whole and whole[0] is word and whole[1][1] is word
    assert list(order) == list(frozenset("oty"))
