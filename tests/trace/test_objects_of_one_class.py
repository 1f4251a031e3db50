# SPDX-License-Identifier: Apache-2.0
"""One compiled function, several objects of one class: what guards remember of one object is never
an answer about another.

A function asks an object for attributes of which some are optional, and is called with objects that
have them and objects that lack them, in any order, with changes in between.  Each call is compared
with plain Python, to the identity of what it gives.  The mechanisms that remember (tests/README.md
lists them) are off in a build with debug
checks: this test says most in a build without.  GM_OBJECT_PROGRAMS says how many random programs
run.
"""

import argparse
import collections
import os
import random
import types
import warnings

import pytest

import gramme as G
from gramme import nn


class Plain:
    pass


class Default:
    d = "the class's"


class Slots:
    __slots__ = ("a", "b", "d", "e")


class Module(nn.Module):
    def forward(self, x):
        return x


class Mapping(dict):
    pass


def with_dict():
    o = Plain()
    vars(o)  # 3.11 makes it here; until then attributes stand in the object
    return o


def parsed():
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    parser.add_argument("--z")
    return parser.parse_args(["--z", "1"])


KINDS = {
    "an object": Plain,
    "an object with a dict": with_dict,
    "a default in the class": Default,
    "slots": Slots,
    "a SimpleNamespace": types.SimpleNamespace,
    "an argparse.Namespace": argparse.Namespace,
    "parsed arguments": parsed,
    "an nn.Module": Module,
    "a dict subclass": Mapping,
}
NAMES = ("a", "b", "d", "e")


def put(o, name, value):
    if type(o) is dict:
        o[name] = value
    else:
        setattr(o, name, value)


def take(o, name):
    if type(o) is dict:
        o.pop(name, None)
    elif name in getattr(o, "__dict__", ()) or type(o) is Slots and hasattr(o, name):
        delattr(o, name)


ATTRIBUTES = [
    "o.{0}",
    "getattr(o, '{0}', 0)",
    "getattr(o, '{0}', ())",
    "hasattr(o, '{0}')",
    "o.{0} if hasattr(o, '{0}') else None",
    "caught(lambda: o.{0})",
    "x + len(getattr(o, '{0}', ''))",
    "getattr(getattr(o, '{0}', None), 'append', None) is None",
]
DICT_ATTRIBUTES = ["vars(o).get('{0}', 1)", "'{0}' in vars(o)", "len(vars(o))"]
ITEMS = [
    "o['{0}']",
    "o.get('{0}', 0)",
    "o.get('{0}')",
    "'{0}' in o",
    "caught(lambda: o['{0}'])",
    "x + len(o.get('{0}', ''))",
    "len(o)",
    "list(o)",
]


def caught(f):
    try:
        return f()
    except (AttributeError, KeyError):
        return "lacks it"


def function_of(questions):
    space = {"caught": caught}
    exec(f"def f(o, x):\n    return ({', '.join(questions)}, x)\n", space)
    return space["f"]


def outcome(f, o, x):
    try:
        return f(o, x)
    except (AttributeError, KeyError) as error:
        return type(error), str(error)


def assert_same(plain, got, what):
    assert type(got) is type(plain), what
    if isinstance(plain, tuple):
        assert len(got) == len(plain), what
        for a, b in zip(plain, got):
            assert_same(a, b, what)
    elif isinstance(plain, G.Tensor):
        assert got.tolist() == plain.tolist(), what
    elif isinstance(plain, list) and all(isinstance(v, str) for v in plain):
        assert got == plain, what
    elif isinstance(plain, (list, dict)):
        assert got is plain, what
    else:
        assert got == plain, what


def compiled(f):
    return G.compile(f, backend="eager")


def give(o, present, number):
    for name in present:
        put(o, name, [number, name])
    return o


@pytest.mark.parametrize("kind", [*KINDS.values(), dict], ids=[*KINDS, "a dict"])
@pytest.mark.parametrize(
    "first, second", [("a", "ad"), ("ad", "a"), ("ab", "abde"), ("abde", "a"), ("ab", "ad")]
)
def test_an_object_that_lacks_an_attribute_leaves_nothing_behind(kind, first, second):
    forms = ITEMS if kind is dict else ATTRIBUTES
    for form in forms[1:]:
        f = function_of([forms[0].format("a"), form.format("d"), form.format("b")])
        c, x = compiled(f), G.ones(1)
        one, other = give(kind(), first, 1), give(kind(), second, 2)
        for o in (one, one, other, one, other, other, one, one):
            assert_same(f(o, x), c(o, x), form)


def test_a_check_that_fails_in_the_middle_of_a_dict_leaves_nothing_behind():
    """Loads stand before absences: those of the second object are found, then one of its absences
    fails."""
    f = function_of(["o.a", "o.b", "getattr(o, 'd', 0)", "getattr(o, 'e', 0)"])
    c, x = compiled(f), G.ones(1)
    one, other, third = (
        give(with_dict(), "ab", 1),
        give(with_dict(), "abd", 2),
        give(with_dict(), "b", 3),
    )
    for o in (one, other, third, one, third, one, other, one):
        assert_same(outcome(f, o, x), outcome(c, o, x), "")


# -- Random programs --


def questions_of(dice, kind):
    forms = (
        ITEMS
        if kind is dict
        else ATTRIBUTES
        + (DICT_ATTRIBUTES if hasattr(kind(), "__dict__") and kind is not Module else [])
    )
    return [dice.choice(forms).format(dice.choice(NAMES)) for _ in range(dice.randint(2, 6))]


def change(dice, objects, kind):
    """One change of one object, or another object in its place, which may get its address."""
    i, name, what = dice.randrange(len(objects)), dice.choice(NAMES), dice.randrange(5)
    o = objects[i]
    if what == 0:
        put(o, name, [dice.random(), name])
    elif what == 1:
        take(o, name)
    elif what == 2 and kind in (Plain, with_dict, Default, argparse.Namespace, parsed):
        o.__dict__ = {n: [what, n] for n in NAMES if dice.random() < 0.5}
    elif what == 3:
        objects[i] = o = None
        objects[i] = give(kind(), [n for n in NAMES if dice.random() < 0.6], i)
    elif kind is Default:
        Default.d = f"the class's {dice.randrange(9)}"


def run(seed):
    dice, Default.d = random.Random(seed), "the class's"
    kind = dice.choice([*KINDS.values(), dict])
    questions = questions_of(dice, kind)
    f, x = function_of(questions), G.ones(1)
    c = compiled(f)
    objects = [
        give(kind(), [n for n in NAMES if dice.random() < 0.6], i)
        for i in range(dice.randint(2, 4))
    ]
    for step in range(24):
        if step >= 8 and dice.random() < 0.25:
            change(dice, objects, kind)
        o = dice.choice(objects)
        assert_same(
            outcome(f, o, x), outcome(c, o, x), f"seed {seed}, step {step}: {kind} {questions}"
        )


class Node:
    """One of many below a root: enough of them are checked as a tree, without a look at each
    record."""

    b = 1.5

    def scaled(self, x):
        return x * self.w + getattr(self, "d", 0) if hasattr(self, "a") else x - self.w


class OtherNode(Node):
    def scaled(self, x):
        return x + self.w


def node(dice):
    n = Node()
    n.w = float(dice.randint(1, 3))
    for name in ("a", "d"):
        if dice.random() < 0.5:
            setattr(n, name, 1.0)
    return n


def total(x, root):
    for n in root.nodes.values() if isinstance(root.nodes, dict) else root.nodes:
        x = n.scaled(x)
    return x * getattr(root, "d", 1)


def change_tree(dice, roots):
    root = dice.choice(roots)
    keys = list(root.nodes) if isinstance(root.nodes, dict) else range(len(root.nodes))
    key, what = dice.choice(keys), dice.randrange(7)
    n = root.nodes[key]
    if what == 0:
        n.w = float(dice.randint(1, 3))
    elif what == 1:
        vars(n).pop("a", None)
    elif what == 2:
        n.d = 2.0
    elif what == 3:
        n.__class__ = dice.choice((Node, OtherNode))
    elif what == 4:
        n.__dict__ = dict(vars(node(dice)))
    elif what == 5 and not isinstance(root.nodes, tuple):
        root.nodes[key] = n = None
        root.nodes[key] = node(dice)
    else:
        root.d = float(dice.randint(1, 2))


def run_tree(seed):
    dice, x = random.Random(seed), G.ones(1)
    shape = dice.choice((list, tuple, lambda nodes: dict(enumerate(nodes))))
    roots = [Plain() for _ in range(dice.randint(1, 3))]
    first = [node(dice) for _ in range(dice.choice((2, 9, 30)))]
    for root in roots:
        root.nodes = shape(dice.choice((first, [node(dice) for _ in first])))
    f = (
        (lambda x, root: total(x, root))
        if dice.random() < 0.5
        else (lambda x, root, others=roots: total(total(x, root), others[0]))
    )
    c = compiled(f)
    for step in range(20):
        if step >= 4 and dice.random() < 0.3:
            change_tree(dice, roots)
        root = dice.choice(roots)
        assert c(x, root).tolist() == f(x, root).tolist(), f"tree {seed}, step {step}"


CONSTANTS = (1, 2, True, 1.0, 2.5, -0.0, 0.0, "a", "bc", b"a", None, 2**70, (1,), 1j)


def run_items(seed):
    """Constants of one list are checked together."""
    dice, x = random.Random(seed), G.ones(1)
    items = [dice.choice(CONSTANTS) for _ in range(dice.randint(3, 12))]
    holder = Plain()
    holder.items = dice.choice((list, tuple))(items)
    c = compiled(f := lambda x, holder: (x, [(type(i), i) for i in holder.items], holder.items[0]))
    for step in range(14):
        what = dice.random()
        if what < 0.3:
            items = [*holder.items]
            items[dice.randrange(len(items))] = dice.choice(CONSTANTS)
            holder.items = type(holder.items)(items)
        elif what < 0.4 and isinstance(holder.items, list):
            holder.items.append(1)
        elif what < 0.5:
            holder.items = type(holder.items)(
                eval(repr([*holder.items]))
            )  # equal objects, but others
        assert repr(c(x, holder)) == repr(f(x, holder)), f"items {seed}, step {step}"


@pytest.mark.parametrize("program", [run, run_tree, run_items])
def test_random_programs_with_several_objects(program):
    count = int(os.environ.get("GM_OBJECT_PROGRAMS", "240")) // 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a program may fill the recompile limit
        for seed in range(count):
            program(seed)


def test_a_deque_of_objects_is_asked_in_any_order():
    """The objects come from a container, so that none of them is an argument."""

    def f(things, x):
        o = things[0]
        return o.a, getattr(o, "d", 0), x

    things, x = collections.deque(
        [give(with_dict(), "a", 1), give(with_dict(), "ad", 2), give(with_dict(), "a", 3)]
    ), G.ones(1)
    c = compiled(f)
    for i in (1, 1, 2, 1, -1, 1, 1, 1, 2, 2, 1):
        things.rotate(i)
        assert_same(f(things, x), c(things, x), i)
