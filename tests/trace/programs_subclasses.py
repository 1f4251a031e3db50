# SPDX-License-Identifier: Apache-2.0
"""Subclasses of numbers, texts and containers; enums; metaclasses and the hooks that Python asks of
a class."""

import collections
import enum
import math

import gramme as G

# -- Subclasses of values ----


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(str, enum.Enum):
    TRAIN = "train"


class Bits(enum.IntFlag):
    R = 1
    W = 2


class OddInt(int):
    def __add__(self, o):
        return ("add", o)

    def __radd__(self, o):
        return ("radd", o)

    def __bool__(self):
        return False

    def __index__(self):
        return 100

    def __repr__(self):
        return "odd"


# expect: graphs=1 breaks=0
def case_int_enums_are_numbers(compile):
    def f(p, x):
        return (
            [
                p + 1,
                p * 2,
                3 - p,
                [1, 2, 3][p],
                p == 2,
                p is Level.HIGH,
                {Level.HIGH: "v"}[2],
                {2: "v"}[p],
                str(p),
                repr(p),
                f"{p:>3}",
                p.name,
            ],
            [
                p > 1,
                max(Level.LOW, p),
                sorted([Level.HIGH, Level.LOW]),
                range(p),
                int(p),
                float(p),
                -p,
                p & 1,
                p in (1, 2),
                p in {2},
                bool(p),
            ],
            [math.sqrt(p), "%d" % int(p), Bits.R | Bits.W, bool(Bits.R & Bits.W), "ab" * p],
            [x * p, x.sum(dim=p - 2), p * x, x[: Level.LOW]],
        )

    return compile(f)(Level.HIGH, G.ones(2))


# expect: graphs=1 breaks=0
def case_str_enums_are_strings(compile):
    def f(m, x):
        return (
            [
                m == "train",
                m.upper(),
                m + "ing",
                {"train": 1}[m],
                {Mode.TRAIN: 1}["train"],
                m.value,
                len(m),
                m[0],
                list(m),
                "-".join([m, "z"]),
            ],
            [
                str(m),
                f"{m}",
                m.startswith("tr"),
                "ai" in m,
                m in ("train", "eval"),
                isinstance(m, str),
            ],
            x + 1,
        )

    return compile(f)(Mode.TRAIN, G.ones(2))


# expect: graphs=1 breaks=0
def case_int_subclass_that_overrides_operators(compile):
    def f(o, x):
        return (
            o + 1,
            1 + o,
            o * 2,
            bool(o),
            repr(o),
            str(o),
            [1, 2, 3][o],
            o - 1,
            o == 2,
            x * o,
            {o: 1},
            o,
        )

    return compile(f)(OddInt(2), G.ones(2))


# expect: graphs=3 breaks=0
def case_gu_3_the_value_inside_is_guarded(compile):
    class Text(str):
        def loud(self):
            return self.upper() + "!"

    class Age(int):
        pass

    class Ratio(float):
        pass

    f = compile(lambda t, a, q, x: (t.loud(), a + 1, q * 2, x * q))
    return [
        f(Text(t), Age(a), Ratio(q), G.ones(2))
        for t, a, q in (("a", 3, 0.5), ("a", 3, 0.5), ("b", 3, 0.5), ("b", 2**70, 0.5))
    ]


# expect: graphs=1 breaks=0
def case_new_instances_of_value_subclasses(compile):
    class Meters(float):
        def __new__(cls, v, unit="m"):
            self = super().__new__(cls, v)
            self.unit = unit
            return self

        def __add__(self, o):
            return Meters(float(self) + o, self.unit)

    class Tag(str):
        pass

    def f(x):
        a = Meters(1.5, "km") + 2.0
        t = Tag("q")
        return a, a.unit, a == 3.5, type(a) is Meters, t, t.upper(), x * a

    a, *rest = compile(f)(G.ones(2))
    return a, a.unit, type(a).__name__, rest


# An object whose items are its attributes is left to Python.
# expect: graphs=2 breaks=7
def case_dict_that_is_its_own_instance_dict(compile):
    class Attributes(dict):
        def __init__(self, **entries):
            super().__init__(**entries)
            self.__dict__ = self

    def f(d, x):
        y = x + 1
        d["b"] = 2
        d.c = 3
        del d.a
        return y * d.b, dict(d), d.c, "a" in d

    d = Attributes(a=1)
    return compile(f)(d, G.ones(2)), dict(d)


# -- Metaclasses and hooks ----


class Single(type):
    made = {}

    def __call__(cls, *args):
        if cls not in cls.made:
            cls.made[cls] = super().__call__(*args)
        return cls.made[cls]

    def __getitem__(cls, i):
        return cls.__name__, i


class Store(metaclass=Single):
    def __init__(self, v):
        self.v = v


class Tagging(type):
    def __call__(cls, *args):
        o = super().__call__(*args)
        o.tag = cls.__name__
        return o


class Tagged(metaclass=Tagging):
    def __init__(self, v):
        self.v = v

    def __class_getitem__(cls, key):
        return cls.__name__, key


# expect: graphs=1 breaks=0
def case_metaclass_call(compile):
    Single.made.clear()

    def f(x):
        a, b = Store(1), Store(2)
        t = Tagged(x)
        return a is b, a.v, t, t.tag, Store[4], Tagged[int, 2][1], x + a.v

    return compile(f)(G.ones(2)), len(Single.made), Store(9).v


class Guarded:
    def __init__(self):
        self.a = 1

    def __getattribute__(self, name):
        if name == "secret":
            raise AttributeError("no")
        if name.startswith("x_"):
            return name
        return super().__getattribute__(name)

    def __getattr__(self, name):
        return "fallback " + name


# expect: graphs=1 breaks=0
def case_getattribute_of_the_user(compile):
    def f(o, x):
        o.b = x
        return o.a, o.x_y, o.secret, o.zzz, hasattr(o, "secret"), o.b * 2

    return compile(f)(Guarded(), G.ones(2))


# expect: graphs=1 breaks=0
def case_instance_cache_in_new(compile):
    class One:
        kept = None

        def __new__(cls, *args):
            if cls.kept is None:
                cls.kept = super().__new__(cls)
            return cls.kept

        def __init__(self, v=0):
            self.v = v

    def f(x):
        a, b = One(1), One(2)
        return a is b, a.v, One.kept is a, x + b.v

    return compile(f)(G.ones(2)), One.kept.v


class Amount:
    def __init__(self, v):
        self.v = v

    def __abs__(self):
        return abs(self.v)

    def __round__(self, n=None):
        return "round", n

    def __divmod__(self, o):
        return "divmod", o

    def __pow__(self, o, m=None):
        return "pow", o, m

    def __floor__(self):
        return "floor"

    def __ceil__(self):
        return "ceil"

    def __trunc__(self):
        return "trunc"

    def __complex__(self):
        return complex(self.v, 1)

    def __index__(self):
        return 2


# expect: graphs=1 breaks=0
def case_numeric_protocols(compile):
    def f(x):
        n = Amount(-3)
        return (
            [abs(n), round(n), round(n, 2), divmod(n, 2), pow(n, 2), pow(n, 2, 5), n**3],
            [
                math.floor(n),
                math.ceil(n),
                math.trunc(n),
                complex(n),
                [1, 2, 3][n],
                "abc"[n],
                range(n),
                hex(n),
            ],
            x + abs(n),
        )

    return compile(f)(G.ones(2))


class Wrapping(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, ("wrapped", value))


def kept(made):
    made["a"] = 1
    made.update(c=3)
    made.setdefault("d", 4)
    made.setdefault("a", 5)
    made |= {"e": 6}
    copy = made.copy()
    popped = made.pop("c")
    made.move_to_end("a")
    return list(made.items()), popped, made.popitem(), list(copy.items()), type(copy).__name__


# Where OrderedDict's C code stores through the methods of a subclass, the recorder leaves it to
# Python.
# expect: any
def case_an_ordered_dict_whose_setitem_is_overridden(compile):
    f = compile(lambda x, made: (x + 1, kept(made if made is not None else Wrapping(z=0))))
    return f(G.ones(1), None), f(G.ones(1), Wrapping())


class Bag(dict):
    def __missing__(self, key):
        return "no " + key

    def __getitem__(self, key):
        return super().__getitem__(key)


class Row(list):
    def __eq__(self, other):
        return super().__eq__(other)

    def __add__(self, other):
        return Row(super().__add__(other))

    def __iadd__(self, other):
        super().__iadd__([0])
        return super().__iadd__(other)

    def __repr__(self):
        return "Row" + super().__repr__()


class Group(set):
    def __eq__(self, other):
        return super().__eq__(other)

    def __or__(self, other):
        return super().__or__(other) | {7}

    __hash__ = None


class Place(tuple):
    def __eq__(self, other):
        return super().__eq__(other)

    def __hash__(self):
        return super().__hash__()

    def __lt__(self, other):
        return super().__lt__(other)


# What C does for an operator, asked by its name
# expect: graphs=1 breaks=0
def case_operators_of_the_base_class(compile):
    def root(bag, row, group, place, x):
        out = [
            bag["q"],
            bag["a"],
            Bag(b=1)["z"],
            row == [1],
            row == 5,
            row != [1],
            repr(row),
            (row + [4])[:],
            row.__eq__(5),
        ]
        row += [9]
        out += [
            row == [1, 0, 9],
            group == {1},
            group == 5,
            sorted(group | {2}),
            place == (1,),
            place < (2,),
            hash(place) == hash((1,)),
        ]
        out += [
            [1].__eq__(3),
            {1}.__le__({2}),
            {1} == 1,
            {1} in [1, {1}],
            iter([1]) == 3,
            type(row).__name__,
        ]
        return x + 1, out, row

    row = Row([1])
    return compile(root)(Bag(a=1), row, Group({1}), Place((1,)), G.ones(2))[:2], list(row)


# The methods whose C code makes an object of the class
# expect: graphs=1 breaks=0
def case_dicts_of_their_own_class(compile):
    def root(od, dd, counter, x):
        out = [
            od.copy(),
            dd.copy(),
            dd.copy()["new"],
            collections.OrderedDict.copy(od),
            collections.defaultdict.copy(dd)["new"],
            dict.copy(dd),
            collections.OrderedDict.fromkeys("ab", 1),
            type(Bag.fromkeys("ab")).__name__,
            {}.fromkeys("xy", 0),
            counter.__getitem__("zz"),
        ]
        for pairs in ([[1]], [()], ["abc"]):
            for target in (od, {}):
                try:
                    target.update(pairs)
                except (ValueError, TypeError) as e:
                    out.append(e.args)
        return x + 1, out

    return compile(root)(
        collections.OrderedDict(a=1),
        collections.defaultdict(list, a=2),
        collections.Counter("a"),
        G.ones(2),
    )


# What defaultdict says anew is not what a dict does
# expect: graphs=1
def case_what_a_defaultdict_says_itself(compile):
    def root(dd, x):
        text = dd.__repr__()
        dd.__init__(dict, {"k": 1})
        return x + 1, text, dd["of dict"], dd

    return compile(root)(collections.defaultdict(list, a=2), G.ones(2))
