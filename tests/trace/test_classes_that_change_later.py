# SPDX-License-Identifier: Apache-2.0
"""Classes that get, lose or change a special method, or a place in the hierarchy, between two
calls: what C asks a type's slots for is guarded as what Python looks up is."""

import collections.abc
import contextlib
import copy
import functools
import itertools
import operator
import pickle

import pytest

import gramme as G


LOG = []  # of finalizers


class Meta(type):
    pass


class Space:
    """The classes of one run, which the changes are made to."""

    def __init__(self):
        class Other:
            pass

        class Descriptor:
            pass

        class Thing(metaclass=Meta):
            field = Descriptor()
            w = 1.0

        class Child(Thing):
            pass

        class Base(collections.abc.Hashable):
            pass

        class Abstract(metaclass=__import__("abc").ABCMeta):  # noqa: B024
            pass

        class Concrete:
            pass

        LOG.clear()
        self.log, self.Concrete = LOG, Concrete
        self.Other, self.Descriptor, self.Thing, self.Child, self.Abstract, self.Base = (
            Other,
            Descriptor,
            Thing,
            Child,
            Abstract,
            Base,
        )
        self.o, self.child = Thing(), Child()
        self.partial = None


def truth(f):
    try:
        return repr(f())
    except Exception as error:
        return type(error).__name__


def matched(o):
    match o:
        case [*_]:
            return "a sequence"
        case {}:
            return "a mapping"
    return "neither"


def class_pattern(s, o):
    match o:
        case s.Thing(w):
            return w
    return "no"


def stored(o):
    o.attribute = 5
    return o.__dict__.get("attribute")


def removed(o):
    o.gone = 1
    del o.gone
    return "gone" in o.__dict__


def entered(o):
    with o:
        return 1


def give(name, value):
    """A change of the class; `undone` is the contrary, for those who begin with it."""

    def change(s):
        setattr(s.Thing, name, value)

    change.undone = lambda s: delattr(s.Thing, name)
    return change


def constant(value):
    return lambda self, *a: value


QUESTIONS = {
    "callable": (lambda s: callable(s.o), give("__call__", constant(1))),
    "callable of a child": (lambda s: callable(s.child), give("__call__", constant(1))),
    "callable of the class": (lambda s: callable(s.Thing), give("__call__", constant(1))),
    "a call": (lambda s: s.o(), give("__call__", constant(1))),
    "hasattr of a class": (lambda s: hasattr(s.Thing, "x"), give("x", 1)),
    "hasattr of an object": (lambda s: hasattr(s.o, "x"), give("x", 1)),
    "hasattr by __getattr__": (
        lambda s: hasattr(s.o, "x"),
        give("__getattr__", lambda self, name: 1),
    ),
    "hasattr by __getattribute__": (
        lambda s: hasattr(s.o, "x"),
        give("__getattribute__", lambda self, name: 1),
    ),
    "hasattr by the metaclass": (lambda s: hasattr(s.Thing, "x"), lambda s: setattr(Meta, "x", 1)),
    "an attribute of the metaclass": (
        lambda s: getattr(s.Thing, "x", 0),
        lambda s: setattr(Meta, "__getattr__", lambda c, n: 7),
    ),
    "len": (lambda s: len(s.o), give("__len__", constant(2))),
    "truth by __len__": (lambda s: bool(s.o), give("__len__", constant(0))),
    "truth by __bool__": (lambda s: 1 if s.o else 2, give("__bool__", constant(False))),
    "not": (lambda s: not s.o, give("__bool__", constant(False))),
    "iter": (lambda s: list(s.o), give("__iter__", lambda self: iter((1, 2)))),
    "iteration by items": (lambda s: list(s.o), give("__getitem__", lambda self, i: [1, 2][i])),
    "next": (lambda s: next(s.o), give("__next__", constant(1))),
    "in": (lambda s: 1 in s.o, give("__contains__", constant(True))),
    "in by iteration": (lambda s: 1 in s.o, give("__iter__", lambda self: iter((1, 2)))),
    "an item": (lambda s: s.o[1], give("__getitem__", constant(3))),
    "an item of the class": (
        lambda s: s.Thing[1],
        lambda s: setattr(s.Thing, "__class_getitem__", classmethod(lambda c, i: 4)),
    ),
    "hash": (lambda s: hash(s.o) == 7, give("__hash__", constant(7))),
    "no hash": (lambda s: len({s.o}), lambda s: setattr(s.Thing, "__hash__", None)),
    "equality": (lambda s: s.o == 1, give("__eq__", constant(True))),
    "equality of a key": (lambda s: s.o in {s.Thing: 1}, give("__eq__", constant(True))),
    "order": (lambda s: s.o < 1, give("__lt__", constant(True))),
    "a sum": (lambda s: s.o + 1, give("__add__", constant(5))),
    "a sum from the right": (lambda s: 1 + s.o, give("__radd__", constant(5))),
    "a sum of a tensor": (lambda s: G.ones(1) + s.o, give("__radd__", constant(5))),
    "a sum of a child, whose class is asked first": (
        lambda s: s.o + s.child,
        lambda s: (
            setattr(s.Thing, "__add__", constant(1)),
            setattr(s.Child, "__radd__", constant(2)),
        ),
    ),
    "an index": (lambda s: [1, 2, 3][s.o], give("__index__", constant(1))),
    "a repetition": (lambda s: [1] * s.o, give("__index__", constant(2))),
    "a product in place": (lambda s: operator.imul([1], s.o), give("__index__", constant(2))),
    "int": (lambda s: int(s.o), give("__int__", constant(4))),
    "int by __index__": (lambda s: int(s.o), give("__index__", constant(4))),
    "float": (lambda s: float(s.o), give("__float__", constant(4.0))),
    "float by __index__": (lambda s: float(s.o), give("__index__", constant(4))),
    "complex": (lambda s: complex(s.o), give("__complex__", constant(4j))),
    "abs": (lambda s: abs(s.o), give("__abs__", constant(4))),
    "minus": (lambda s: -s.o, give("__neg__", constant(4))),
    "round": (lambda s: round(s.o), give("__round__", constant(4))),
    "range": (lambda s: list(range(s.o)), give("__index__", constant(2))),
    "itertools.count": (
        lambda s: callable(itertools.count) and next(itertools.count(s.o)) is s.o,
        give("__float__", constant(2.0)),
    ),
    "format": (lambda s: f"{s.o}" == "f", give("__format__", constant("f"))),
    "str": (lambda s: str(s.o) == "f", give("__str__", constant("f"))),
    "repr": (lambda s: repr(s.o) == "f", give("__repr__", constant("f"))),
    "str by __repr__": (lambda s: str(s.o) == "f", give("__repr__", constant("f"))),
    "with": (
        lambda s: entered(s.o),
        lambda s: (
            setattr(s.Thing, "__enter__", constant(1)),
            setattr(s.Thing, "__exit__", constant(None)),
        ),
    ),
    "a store": (lambda s: stored(s.o), give("__setattr__", constant(None))),
    "a deletion": (lambda s: removed(s.o), give("__delattr__", constant(None))),
    "a store into a class": (
        lambda s: setattr(s.Thing, "late", 1) or "late" in vars(s.Thing),
        lambda s: setattr(Meta, "__setattr__", constant(None)),
    ),
    "making one": (
        lambda s: getattr(s.Thing(), "made", 0),
        give("__init__", lambda self: self.__dict__.update(made=1)),
    ),
    "making one by __new__": (
        lambda s: s.Thing() is s.o,
        lambda s: setattr(s.Thing, "__new__", lambda c: s.o),
    ),
    "making one by the metaclass": (
        lambda s: type(s.Thing()).__name__,
        lambda s: setattr(Meta, "__call__", constant(3)),
    ),
    "a descriptor": (
        lambda s: s.o.field == 8,
        lambda s: setattr(s.Descriptor, "__get__", lambda d, o, c=None: 8),
    ),
    "a data descriptor": (
        lambda s: s.o.__dict__.update(field=3) or s.o.field == 3,
        lambda s: (
            setattr(s.Descriptor, "__get__", lambda d, o, c=None: 8),
            setattr(s.Descriptor, "__set__", constant(None)),
        ),
    ),
    "a descriptor that is set": (
        lambda s: setattr(s.o, "field", 3) or "field" in vars(s.o),
        lambda s: setattr(s.Descriptor, "__set__", constant(None)),
    ),
    "a descriptor of a class": (
        lambda s: s.Thing.field == 8,
        lambda s: setattr(s.Descriptor, "__get__", lambda d, o, c=None: 8),
    ),
    "a getattr default": (lambda s: getattr(s.child, "v", 0), give("v", 2)),
    "isinstance": (
        lambda s: isinstance(s.child, s.Thing),
        lambda s: setattr(s.Child, "__bases__", (s.Other,)),
    ),
    "isinstance of a child": (
        lambda s: isinstance(s.child, s.Other),
        lambda s: setattr(s.Child, "__bases__", (s.Thing, s.Other)),
    ),
    "isinstance by the metaclass": (
        lambda s: isinstance(1, s.Thing),
        lambda s: setattr(Meta, "__instancecheck__", constant(True)),
    ),
    "issubclass": (
        lambda s: issubclass(s.Child, s.Other),
        lambda s: setattr(s.Child, "__bases__", (s.Thing, s.Other)),
    ),
    "issubclass by the metaclass": (
        lambda s: issubclass(int, s.Thing),
        lambda s: setattr(Meta, "__subclasscheck__", constant(True)),
    ),
    "isinstance of what is registered": (
        lambda s: isinstance(s.o, s.Abstract),
        lambda s: s.Abstract.register(s.Thing),
    ),
    "issubclass of what is registered": (
        lambda s: issubclass(s.Thing, s.Abstract),
        lambda s: s.Abstract.register(s.Thing),
    ),
    "isinstance by __subclasshook__": (
        lambda s: isinstance(s.o, collections.abc.Sized),
        give("__len__", constant(1)),
    ),
    "isinstance of Callable": (
        lambda s: isinstance(s.o, collections.abc.Callable),
        give("__call__", constant(1)),
    ),
    "isinstance of Iterable": (
        lambda s: isinstance(s.o, collections.abc.Iterable),
        give("__iter__", constant(1)),
    ),
    "isinstance of Hashable": (
        lambda s: isinstance(s.o, collections.abc.Hashable),
        give("__hash__", None),
    ),
    "a pattern of sequences": (
        lambda s: matched(s.o),
        lambda s: (collections.abc.Sequence.register(s.Thing), give("__len__", constant(0))(s)),
    ),
    "a pattern of mappings": (
        lambda s: matched(s.o),
        lambda s: (
            collections.abc.Mapping.register(s.Thing),
            give("__len__", constant(0))(s),
            give("keys", lambda self: ())(s),
        ),
    ),
    "a pattern of a class": (lambda s: class_pattern(s, s.o), give("__match_args__", ("w",))),
    "partial": (lambda s: functools.partial(s.o)(), give("__call__", constant(6))),
    "making a partial": (
        lambda s: type(functools.partial(s.o)).__name__,
        give("__call__", constant(6)),
    ),
    "a default factory": (lambda s: collections.defaultdict(s.o)[1], give("__call__", constant(6))),
    "a finalizer": (
        lambda s: type(s.Thing()).__name__ and s.log,
        give("__del__", lambda self: LOG.append(1)),
    ),
    "an abstract class": (
        lambda s: type(s.Concrete()).__name__,
        lambda s: setattr(s.Concrete, "__abstractmethods__", frozenset(["m"])),
    ),
    "a copy": (lambda s: copy.copy(s.o) is s.o, give("__copy__", lambda self: self)),
    "a deep copy": (
        lambda s: copy.deepcopy(s.o) is s.o,
        give("__deepcopy__", lambda self, memo: self),
    ),
    "an MRO": (
        lambda s: s.child.w,
        lambda s: setattr(s.Child, "__bases__", (type("First", (s.Thing,), {"w": 9.0}),)),
    ),
    "super": (lambda s: super(s.Child, s.child).w, give("w", 3.0)),
    "a class of an object": (
        lambda s: type(s.o) is s.Thing,
        lambda s: setattr(s.o, "__class__", s.Child),
    ),
    "__class__": (lambda s: s.o.__class__ is s.Thing, lambda s: setattr(s.o, "__class__", s.Child)),
    "a name": (lambda s: s.Thing.__name__, lambda s: setattr(s.Thing, "__name__", "Renamed")),
    "the bases": (
        lambda s: len(s.Child.__bases__),
        lambda s: setattr(s.Child, "__bases__", (s.Thing, s.Other)),
    ),
    "length hint": (lambda s: operator.length_hint(s.o, 3), give("__length_hint__", constant(5))),
    "reversed": (lambda s: list(reversed(s.o)), give("__reversed__", lambda self: iter((1,)))),
    "sorted": (
        lambda s: sorted([s.o, s.child], key=type(s.o).__name__.count) == 1,
        give("__lt__", constant(True)),
    ),
    "max": (lambda s: max(s.o, s.child) is s.o, give("__gt__", constant(False))),
    "sum": (lambda s: sum([s.o, s.o]), give("__radd__", constant(5))),
    "any": (lambda s: any([s.o]), give("__bool__", constant(False))),
    "bytes": (lambda s: bytes(s.o), give("__bytes__", constant(b"b"))),
    "divmod": (lambda s: divmod(7, s.o), give("__rdivmod__", constant(5))),
    "pow": (lambda s: 2**s.o, give("__rpow__", constant(5))),
    "dict of pairs": (
        lambda s: dict(s.o),
        lambda s: (give("keys", lambda self: ["k"])(s), give("__getitem__", constant(3))(s)),
    ),
    "stars": (lambda s: [*s.o], give("__iter__", lambda self: iter((1, 2)))),
    "double stars": (
        lambda s: {**s.o},
        lambda s: (give("keys", lambda self: ["k"])(s), give("__getitem__", constant(3))(s)),
    ),
    "filter": (lambda s: list(filter(None, [s.o])) == [], give("__bool__", constant(False))),
    "a method": (lambda s: s.o.m() if hasattr(s.o, "m") else 0, give("m", constant(5))),
    "slots of a state": (
        lambda s: callable(getattr(s.o, "__reduce_ex__", None)) and pickle is not None,
        give("__reduce_ex__", 1),
    ),
}


def outcome(f, s, x):
    try:
        return repr(f(s)), x.tolist()
    except Exception as error:
        return type(error).__name__, x.tolist()


@contextlib.contextmanager
def meta_restored():
    before = dict(vars(Meta))
    try:
        yield
    finally:
        for name in set(vars(Meta)) - set(before):
            type.__delattr__(Meta, name)


def run(question, change, compiled, before=None):
    with meta_restored():
        s, x = Space(), G.ones(1)
        if before:
            before(s)

        def f(s, x):
            return question(s), x + 1

        g = G.compile(f, backend="eager") if compiled else f
        seen = [outcome(lambda s: g(s, x)[0], s, x) for _ in range(2)]
        change(s)
        return seen + [outcome(lambda s: g(s, x)[0], s, x) for _ in range(2)]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_change_of_a_class_is_seen(name):
    question, change = QUESTIONS[name]
    plain = run(question, change, False)
    assert plain[0] == plain[1]
    assert run(question, change, True) == plain


@pytest.mark.parametrize(
    "name", [name for name, (_, change) in QUESTIONS.items() if hasattr(change, "undone")]
)
def test_a_method_that_goes_is_seen(name):
    question, change = QUESTIONS[name]
    assert run(question, change.undone, True, change) == run(question, change.undone, False, change)
