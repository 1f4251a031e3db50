# SPDX-License-Identifier: Apache-2.0
"""Programs with classes of the user's: protocols, descriptors, subclasses of containers,
dataclasses, enums, match."""

import collections
import dataclasses
import enum
import functools
import typing

import gramme as G


class Vec:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vec(self.x + other.x, self.y + other.y) if isinstance(other, Vec) else NotImplemented

    def __radd__(self, other):
        return ("radd", other, self.x)

    def __iadd__(self, other):
        self.x = self.x + other
        return self

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k)

    def __neg__(self):
        return Vec(-self.x, -self.y)

    def __eq__(self, other):
        return self.x == other.x if isinstance(other, Vec) else NotImplemented

    def __lt__(self, other):
        return self.x < other.x

    def __getitem__(self, i):
        return (self.x, self.y)[i]

    def __len__(self):
        return 2

    def __contains__(self, v):
        return v == self.x

    def __bool__(self):
        return bool(self.x)

    def __call__(self, *a, **k):
        return self.x, a, k

    def __repr__(self):
        return f"Vec({self.x!r}, {self.y})"

    def __format__(self, spec):
        return f"<{spec}>"


class Sub(Vec):
    def __radd__(self, other):
        return ("sub", other)

    def __iter__(self):
        yield self.x
        yield self.y


class Steps:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        if not isinstance(value, int):
            raise TypeError("int wanted")
        setattr(instance, self.name, value * 10)


class Registered:
    def __init_subclass__(cls):
        cls.made = cls.__name__


class Base:
    kind = "base"
    made = 0
    typed = Typed()

    def __init__(self, v=0):
        self.v = v

    @classmethod
    def make(cls, v):
        return cls(v)

    @staticmethod
    def twice(v):
        return v * 2

    @property
    def both(self):
        return self.v, self.kind

    @both.setter
    def both(self, pair):
        self.v = pair[0]

    @functools.cached_property
    def costly(self):
        self.made += 1
        return [self.v]

    def __getattr__(self, name):
        if name.startswith("auto_"):
            return name[5:]
        raise AttributeError(f"none of {name}")


class Derived(Base):
    kind = "derived"

    def __init__(self, v):
        super().__init__(v + 1)
        self.w = super().both

    @classmethod
    def make(cls, v):
        return super().make(v * 2)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name != "log":
            object.__setattr__(self, "log", name)


class Fresh:
    def __new__(cls, v):
        self = super().__new__(cls)
        self.seen = [v]
        return self

    def __init__(self, v):
        self.seen.append(v + 1)


class Loud(list):
    calls = 0

    def __init__(self, items=(), tag=None):
        super().__init__(items)
        self.tag = tag

    def append(self, item):
        type(self)
        super().append(item)
        self.tag = len(self)

    def __getitem__(self, i):
        return super().__getitem__(i) if not isinstance(i, str) else i

    def __setitem__(self, i, v):
        Counted.sets.append(i)
        super().__setitem__(i, v)


class Counted(dict):
    sets = []

    def __setitem__(self, k, v):
        self.sets.append(k)
        super().__setitem__(k, v)

    def __missing__(self, k):
        return ("missing", k)


@dataclasses.dataclass
class Data:
    a: int
    b: object = None
    c: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: int = 2


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def lower(self):
        return self.name.lower()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Pair(typing.NamedTuple):
    a: object
    b: int = 4

    def total(self):
        return self.a + self.b


class Named(collections.namedtuple("Named", "p q")):
    def swap(self):
        return Named(self.q, self.p)


# expect: graphs=1 breaks=0
def case_operators(compile):
    def root(v, w, x):
        z = v + w
        z += 3
        return (
            x + 1,
            z,
            5 + v,
            v + Sub(1, 2),
            -v,
            v == w,
            v != w,
            v < w,
            v[1],
            v[-1],
            len(v),
            1 in v,
            9 in v,
            bool(v),
            not v,
            v(1, k=2),
            f"{v!r} {v:abc} {v}",
            str(v),
            sorted([w, v], key=lambda q: q.x)[0] is v,
            max(v, w) is w,
            list(Sub(1, 2)),
            [*v][:1],
            x * v.x,
            v == 3,
            v == v,
        )

    return compile(root)(Vec(1, 2), Vec(3, 4), G.ones(2))


# expect: graphs=1 breaks=0
def case_iterators_of_classes(compile):
    def root(x):
        it = Steps(3)
        out = [
            next(it),
            list(it),
            next(it, "end"),
            [a for a in Steps(2)],
            dict(zip("ab", Steps(2))),
            1 in Steps(3),
            list(map(str, Steps(2))),
        ]
        try:
            next(it)
        except StopIteration as e:
            out.append(e.value)
        a, b = Steps(2)
        return x, out, a, b, list(iter(lambda s=Steps(9): next(s), 5))

    return compile(root)(G.ones(2))


# SIDE-03, SIDE-11: hooks run as often as in eager
# expect: graphs=1 breaks=0
def case_side_11_descriptors_and_hooks(compile):
    b, d = Base(3), Derived(4)

    def root(x):
        b.both = (x * 2, 0)
        b.typed = 7
        d.extra = x + 1
        del d.extra
        out = [
            b.typed,
            b.auto_thing,
            b.costly,
            b.costly,
            b.made,
            d.v,
            d.w,
            d.log,
            d.kind,
            Derived.make(3).v,
            Base.twice(4),
            d.twice(5),
            type(Derived.make(1)) is Derived,
        ]
        out += [hasattr(b, "zz"), getattr(b, "zz", 5), getattr(b, "auto_q")]
        try:
            b.zz
        except AttributeError as e:
            out.append(str(e))
        try:
            b.typed = "no"
        except TypeError as e:
            out.append(str(e))
        return x, out, Derived(8), Fresh(2)

    result = compile(root)(G.ones(2))
    return result, vars(result[2]), vars(result[3]), vars(b), vars(d)


# SUB-01, SUB-02, SUB-03, SUB-04
# expect: graphs=1 breaks=0
def case_sub_01_list_subclass(compile):
    a, b = Loud([1, 2], "t"), Loud([3], "u")

    def root(a, b, x):
        a.append(x + 1)
        a[0] = 7
        a.sort(key=lambda q: 0)
        b.tag = "only attribute"
        new = Loud((4, 5), "new")
        new.append(a)
        new.extend([1])
        return (
            new,
            a,
            len(a),
            a[1],
            a["s"],
            list(b),
            [q for q in b],
            3 in b,
            a == b,
            b == [3],
            b + [1],
            isinstance(a, list),
            type(a),
            bool(new),
        )

    Counted.sets.clear()
    result = compile(root)(a, b, G.ones(2))
    return (
        result[0].tag,
        vars(a),
        vars(b),
        result,
        a is result[1],
        list(a),
        Counted.sets,
        type(result[0]),
        list(result[0]),
    )


# SUB-05
# expect: graphs=1 breaks=0
def case_sub_05_dict_subclasses(compile):
    c, o, d = (
        Counted(a=1),
        collections.OrderedDict(a=1, b=2, c=3),
        collections.defaultdict(list, z=[0]),
    )

    def root(c, o, d, x):
        c["k"] = x + 1
        c.note = "n"
        o.move_to_end("a")
        o["d"] = 4
        o.move_to_end("c", last=False)
        first = o.popitem(last=False)
        d["y"].append(x)
        d["z"].append(1)
        new = Counted(p=1)
        new["q"] = 2
        od = collections.OrderedDict([("u", 1), ("v", 2)])
        od.move_to_end("u")
        dd = collections.defaultdict(int)
        dd["n"] += 5
        return (
            c["nothing"],
            c["a"],
            len(c),
            list(o),
            first,
            list(o.items()),
            dict(d),
            new,
            od,
            dd,
            dd["other"],
            od == collections.OrderedDict(v=2, u=1),
            "k" in c,
            {**c},
            c.get("zz"),
        )

    Counted.sets.clear()
    result = compile(root)(c, o, d, G.ones(2))
    return (
        result,
        c,
        vars(c),
        list(o),
        list(o.items()),
        d,
        Counted.sets,
        list(result[8]),
        type(result[8]),
        result[9].default_factory,
        type(result[7]),
    )


# The order of an OrderedDict is guarded where it was seen
# expect: graphs=2 breaks=0
def case_sub_05_order_is_guarded(compile):
    f = compile(lambda o, x: (list(o), x + 1))
    o, p = collections.OrderedDict(a=1, b=2), collections.OrderedDict(a=1, b=2)
    p.move_to_end("a")
    return f(o, G.ones(2)), f(p, G.ones(2)), f(o, G.ones(2))


# expect: graphs=1 breaks=0
def case_sub_set_and_tuple(compile):
    class Bag(set):
        def add_twice(self, v):
            self.add(v)
            self.add(v + 1)

    class Point(tuple):
        def norm(self):
            return self[0] + self[1]

    bag, p = Bag([1, 2]), Point((3, 4))

    def root(bag, p, x):
        bag.add_twice(5)
        q = Point([x, 1])
        n = Named(1, x)
        return (
            q,
            p.norm(),
            5 in bag,
            len(bag),
            n.swap(),
            n.p,
            p + (1,),
            [*p],
            p[:1],
            Pair(2).total(),
            Pair(1, b=3)._replace(a=5),
            Pair(x),
            p == (3, 4),
        )

    result = compile(root)(bag, p, G.ones(2))
    return result, sorted(bag), type(result[0]), type(result[4]), result[4].q


# TK-5, SE-3
# expect: graphs=1 breaks=0
def case_tk_5_dataclasses(compile):
    d, f = Data(1, "b"), Frozen(3)

    def root(d, f, x):
        d.c.append(x)
        d.a += 1
        new = Data(x, c=[1])
        fz = Frozen(5, 6)
        out = [
            f.a,
            f == Frozen(3),
            f < fz,
            f != fz,
            new == d if False else 0,
            isinstance(fz, Frozen),
        ]
        try:
            f.a = 4
        except dataclasses.FrozenInstanceError as e:
            out.append(str(e))
        return new, fz, out

    return compile(root)(d, f, G.ones(2)), vars(d)


# expect: graphs=1 breaks=0
def case_tk_5_enums(compile):
    def root(c, x):
        table = {Color.RED: "r", Color.BLUE: "b"}
        return (
            x * c.value,
            c is Color.RED,
            c == Color.BLUE,
            c.name,
            Color.BLUE.value,
            table[c],
            [m.name for m in Color],
            c in (Color.RED,),
            c.lower,
            Color["BLUE"] is Color.BLUE,
            Color(2) is Color.BLUE,
        )

    f = compile(root)
    return f(Color.RED, G.ones(2))


# expect: graphs=2 breaks=0
def case_enum_argument_is_guarded(compile):
    f = compile(lambda c, x: x * c.value)
    return f(Color.RED, G.ones(2)), f(Color.BLUE, G.ones(2)), f(Color.RED, G.ones(2))


# expect: graphs=1 breaks=0
def case_partial_and_reduce(compile):
    def add(a, b, *, c=0):
        return a + b + c

    old = functools.partial(add, 1, c=5)

    def root(x):
        new = functools.partial(add, x)
        nested = functools.partial(new, c=2)
        return (
            old(x),
            new(1),
            nested(2),
            functools.reduce(lambda a, b: a * b, [x, x + 1, 3]),
            functools.reduce(add, [1, 2], 10),
            nested,
            old.args,
            new.func is add,
            old.keywords,
        )

    result = compile(root)(G.ones(2))
    return result[:5], result[5](4), result[5].keywords, result[6:]


# expect: graphs=1 breaks=0
def case_match(compile):
    def what(v):
        match v:
            case 0 | 1:
                return "small"
            case int(n) if n > 50:
                return "big", n
            case str():
                return "text"
            case [a, b, *rest]:
                return "list", a, b, rest
            case {"k": k, **more}:
                return "dict", k, more
            case Vec(x=0):
                return "zero"
            case Data(a=q, b=None):
                return "data", q
            case Data(q, "b"):
                return "positional", q
            case Pair(a, b):
                return "pair", a
            case Color.RED:
                return "red"
            case None:
                return "none"
            case _:
                return "other"

    def root(x):
        return x + 1, [
            what(v)
            for v in (
                1,
                99,
                "s",
                [1, 2, 3],
                (4, 5),
                {"k": 1, "m": 2},
                {},
                Vec(0, 1),
                Data(4),
                Data(5, "b"),
                Data(6, 7),
                Color.RED,
                None,
                2.5,
                [x, x],
            )
        ]

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_methods_with_everything(compile):
    class Node:
        count = 0

        def __init__(self, value, *kids, **extra):
            self.value, self.kids, self.extra = value, list(kids), extra

        def walk(self):
            yield self
            for kid in self.kids:
                yield from kid.walk()

        def total(self):
            return sum(n.value for n in self.walk())

        def __enter__(self):
            self.open = True
            return self

        def __exit__(self, *a):
            self.open = False

    def root(x):
        tree = Node(x, Node(1), Node(x * 2, Node(3, name="leaf")))
        with tree as t:
            inside = t.open
        return tree.total(), inside, tree.open, [n.extra for n in tree.walk()], tree

    result = compile(root)(G.ones(2))
    return result[:4], vars(result[4].kids[1].kids[0])


# expect: graphs=1 breaks=0
def case_getattribute_override(compile):
    class Odd:
        def __getattribute__(self, name):
            return name

    return compile(lambda o, x: (o.foo, x + 1))(Odd(), G.ones(2))


# A miss and a hit.
# expect: graphs=2 breaks=0
def case_lru_cache_is_traced(compile):
    log = []

    @functools.lru_cache
    def slow(n):
        log.append(n)
        return n * 2

    f = compile(lambda x: x * slow(3))
    return f(G.ones(2)), f(G.ones(2)), log


# expect: graphs=1 breaks=0
def case_sorting_objects_is_stable(compile):
    class Card:
        def __init__(self, rank, name):
            self.rank, self.name = rank, name

        def __lt__(self, other):
            return self.rank < other.rank

    def root(x):
        cards = [
            Card(r, n) for r, n in ((2, "a"), (1, "b"), (2, "c"), (1, "d"), (3, "e"), (2, "f"))
        ]
        return (
            x + 1,
            "".join(c.name for c in sorted(cards)),
            "".join(c.name for c in sorted(cards, reverse=True)),
            min(cards).name,
            max(cards).name,
        )

    return compile(root)(G.ones(2))


# -- Classes made in the region ----


# expect: graphs=1 breaks=0
def case_tk_7_methods_of_a_new_class_change_captured_containers(compile):
    def f(x):
        log, total = [], 0

        class Recorder:
            seen = {}

            def __init__(self, scale):
                self.scale = scale

            def push(self, v):
                nonlocal total
                log.append(v)
                self.seen[len(log)] = v
                total += v * self.scale
                return self

        a = Recorder(2)
        a.push(1).push(2)
        Recorder(3).push(10)
        return log, total, a.seen, Recorder.seen is a.seen, x + total

    g = compile(f)
    return g(G.ones(2)), g(G.ones(2))


# expect: graphs=1 breaks=0
def case_tk_7_cells_of_the_caller_are_written_by_a_new_class(compile):
    count = 0
    kept = []

    def f(x):
        class Counter:
            def hit(self):
                nonlocal count
                count += 1
                kept.append(count)

        c = Counter()
        c.hit()
        c.hit()
        return x * count

    return compile(f)(G.ones(2)), count, kept


# expect: graphs=1 breaks=0
def case_new_class_and_instances_leave_the_region(compile):
    def f(x):
        class Node:
            """A node."""

            kinds = ["leaf"]
            limit: int = 3

            def __init__(self, v):
                self.v = v

            def twice(self):
                return self.v * 2

            @property
            def plus(self):
                return self.v + 1

            @plus.setter
            def plus(self, v):
                self.v = v - 1

            @classmethod
            def make(cls, v):
                return cls(v)

            @staticmethod
            def add(a, b):
                return a + b

        Node.kinds.append("inner")
        Node.root = Node.make(x)
        n = Node(5)
        n.plus = 9
        return Node, n, n, Node.add(1, 2), type(n) is Node

    cls, a, b, three, same = compile(f)(G.ones(2))
    a.plus = 4
    return (
        [
            a is b,
            type(a) is cls,
            type(cls.root) is cls,
            three,
            same,
            a.v,
            a.twice(),
            a.plus,
            cls.kinds,
            cls.limit,
            cls.__doc__,
        ],
        [
            cls.make(2).v,
            cls.add(3, 4),
            cls.__name__,
            cls.__qualname__,
            cls.__module__,
            cls.__annotations__,
            list(vars(cls)),
            cls.__bases__,
        ],
        cls.root.twice(),
    )


# expect: graphs=1 breaks=0
def case_each_call_makes_a_new_class(compile):
    def f(x):
        class A:
            pass

        return A, A, x + 1

    g = compile(f)
    (a, b, _), (c, d, _) = g(G.ones(2)), g(G.ones(2))
    return a is b, c is d, a is c, [k.__name__ for k in (a, c)]


# expect: graphs=1 breaks=0
def case_new_class_with_super_and_class_cell(compile):
    def f(x):
        class A:
            def __init__(self, v):
                self.v = v

            def who(self):
                return [__class__.__name__, type(self).__name__, self.v]

        class B(A):
            def __init__(self, v):
                super().__init__(v * 2)

            def who(self):
                return ["B"] + super().who()

        class C(B, Base):
            __slots__ = ("extra",)
            kind = "c"

        c = C(4)
        c.extra = x
        return (
            c.who(),
            c.kind,
            isinstance(c, A),
            issubclass(C, Base),
            [k.__name__ for k in (A, B, C)],
            c.twice(3),
            c,
        )

    who, kind, *rest, c = compile(f)(G.ones(2))
    return who, kind, rest, c.who(), c.extra, [k.__name__ for k in type(c).__mro__]


# expect: graphs=1 breaks=0
def case_new_subclasses_of_builtins(compile):
    def f(x):
        class Stack(list):
            def top(self):
                return self[-1]

        class Table(dict):
            def __missing__(self, key):
                return key * 2

        class Failure(Exception):
            def __init__(self, code):
                super().__init__("code", code)
                self.code = code

        s, t = Stack([1, 2]), Table(a=1)
        s.append(3)
        try:
            raise Failure(7)
        except Failure as e:
            code = e.code, e.args
        return s.top(), t["a"], t["zz"], s, t, code, x + 1

    return compile(f)(G.ones(2))


# expect: graphs=1 breaks=0
def case_new_class_with_operators(compile):
    def f(x):
        class Money:
            __slots__ = ("v",)

            def __init__(self, v):
                self.v = v

            def __add__(self, o):
                return Money(self.v + (o.v if isinstance(o, Money) else o))

            __radd__ = __add__

            def __eq__(self, o):
                return self.v == o.v

            def __getitem__(self, i):
                return self.v * i

            def __len__(self):
                return 3

            def __call__(self, y):
                return y * self.v

        m = sum([Money(1), Money(2)]) + 3
        return m.v, m == Money(6), m != Money(6), m[2], len(m), bool(m), m(x)

    return compile(f)(G.ones(2))


# expect: graphs=1 breaks=0
def case_new_class_with_names_of_all_scopes(compile):
    k = 10

    def f(x, n=4):
        y, c_of = 3, k

        class A:
            a = [i * y for i in range(n)]
            b = y + c_of
            c = len(a)
            k = b + 1
            for d in range(2):
                e = d
            del d

        return A.a, A.b, A.c, A.k, A.e, hasattr(A, "d"), x + A.b

    return compile(f)(G.ones(2))


# expect: graphs=1 breaks=0
def case_new_module_class(compile):
    def f(x):
        class Scale(G.nn.Module):
            def __init__(self, k):
                super().__init__()
                self.k = k

            def forward(self, x):
                return x * self.k

        return Scale(3)(x)

    return compile(f)(G.ones(2))


# expect: graphs=1 breaks=0
def case_attributes_of_existing_classes_are_stored(compile):
    class A:
        n = 1
        m = [1]

    class B(A):
        pass

    def f(x):
        A.n = 5
        a = B.n, A.n, B().n
        B.n = 6
        A.new = x
        b = B.n, A.n, A().n
        del B.n
        return a, b, B.n, hasattr(B, "new"), x + A.n

    return compile(f)(G.ones(2)), A.n, B.n, A.new, "n" in vars(B)


# expect: graphs=2 breaks=0
def case_gu_3_class_attribute_that_was_stored_is_guarded(compile):
    class A:
        n = 1

    def f(x):
        A.m = A.n + 1
        return x * A.m

    g = compile(f)
    first = g(G.ones(2)), A.m
    A.n = 7
    return first, g(G.ones(2)), A.m


# expect: graphs=1 breaks=0
def case_new_class_and_instance_hold_each_other(compile):
    def f(x):
        class A:
            pass

        a = A()
        a.me, A.first, a.cls, a.all = a, a, A, [a]
        return a, A

    a, cls = compile(f)(G.ones(2))
    return a.me is a, cls.first is a, a.cls is cls, a.all[0] is a, type(a) is cls


# The shadow that the recorder makes is not among the subclasses of its bases.
# expect: graphs=1 breaks=0
def case_no_class_is_left_behind(compile):
    class A:
        pass

    def f(x):
        class B(A):
            k = 2

        return x * B.k

    g = compile(f)
    g(G.ones(2))
    g(G.ones(2))
    import gc

    gc.collect()
    return len(A.__subclasses__())


# Breaks that resume: what is made by other rules than `type`.
# expect: graphs=2 breaks=3
def case_classes_that_are_left_to_python(compile):
    def f(x):
        y = x + 1

        @dataclasses.dataclass
        class Point:
            a: int
            b: int = 3

        class Color(enum.Enum):
            RED = 1

        class Plugin(Registered):
            pass

        p = Point(1)
        return y * p.b, p, Color.RED.value, Color.RED.name, p == Point(1, 3), Plugin.made

    return compile(f)(G.ones(2))


# expect: graphs=1 breaks=0
def case_what_super_says_of_itself(compile):
    class Base:
        pass

    class Derived(Base):
        def of(self, x):
            return (
                super().__class__,
                type(super()),
                isinstance(super(), super),
                isinstance(super(), Base),
                self.__class__.__name__,
                x + 1,
            )

    made = Derived()
    return compile(lambda x: made.of(x))(G.ones(2))
