# SPDX-License-Identifier: Apache-2.0
"""Objects, attributes, classes, modules; side effects and their replay; in-place operations."""

import collections
import dataclasses
import functools
import operator

import gramme as G
from gramme import nn


class Point:
    kind = "point"

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def total(self):
        return self.x + self.y

    @property
    def norm(self):
        return (self.x * self.x + self.y * self.y).sqrt()

    @staticmethod
    def twice(v):
        return v * 2

    @classmethod
    def make(cls, v):
        return cls(v, v)

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def __getitem__(self, i):
        return (self.x, self.y)[i]

    def __len__(self):
        return 2

    def __call__(self, v):
        return self.total() * v


class Point3(Point):
    def __init__(self, x, y, z):
        super().__init__(x, y)
        self.z = z

    def total(self):
        return super().total() + self.z


Pair = collections.namedtuple("Pair", "first second", defaults=[7])


@dataclasses.dataclass
class Config:
    width: int
    scale: float = 0.5


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Hooked:
    def __getattr__(self, name):
        return len(name)


class Guarded:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


# expect: graphs=1 breaks=0
def case_attributes_and_methods(compile):
    p = Point(G.ones(2), G.arange(2.0))
    f = compile(
        lambda p: (
            p.total(),
            p.norm,
            p.twice(p.x),
            p.kind,
            p[1],
            len(p),
            p(3),
            getattr(p, "x"),
            hasattr(p, "q"),
            getattr(p, "q", 5),
        )
    )
    return f(p), f(p)


# expect: graphs=2 breaks=0
def case_attribute_value_is_guarded(compile):
    p = Point(G.ones(2), 2)
    f = compile(lambda p: p.x * p.y)
    a = f(p)
    p.y = 3
    return a, f(p), f(Point(G.ones(2), 2))


# expect: graphs=2 breaks=0
def case_attribute_absence_is_guarded(compile):
    p = Point(G.ones(2), 2)
    f = compile(lambda p: p.x * len(p.kind))
    a = f(p)
    p.kind = "pt"
    return a, f(p)


# expect: graphs=2 breaks=0
def case_class_attribute_is_guarded(compile):
    p = Point(G.ones(2), 2)
    f = compile(lambda p: p.x * len(p.kind))
    a = f(p)
    Point.kind = "p"
    b = f(p)
    Point.kind = "point"
    return a, b


# The entry that was recorded with the old method dies with it.
# expect: graphs=1 breaks=0
def case_method_replaced_on_class(compile):
    class A:
        def run(self, x):
            return x + 1

    a = A()
    f = compile(lambda x: a.run(x))
    first = f(G.ones(2))
    A.run = lambda self, x: x - 1
    return first, f(G.ones(2))


# expect: graphs=1 breaks=0
def case_super_and_inheritance(compile):
    f = compile(lambda p: (p.total(), isinstance(p, Point), type(p) is Point3))
    return f(Point3(G.ones(2), 1, 2))


# SIDE-07: an instance made in the region is rebuilt without running __init__ again
# expect: graphs=1 breaks=0
def case_side_07_new_object(compile):
    runs = []

    class Counted:
        def __init__(self, v):
            runs.append(1)
            self.v = v

    def root(x):
        c = Counted(x + 1)
        c.w = [c]
        return c

    c = compile(root)(G.ones(2))
    return c.v, c.w[0] is c, len(runs), type(c) is Counted


# expect: graphs=1 breaks=0
def case_new_objects_inside(compile):
    def root(x):
        p = Point(x, x * 2) + Point.make(x)
        q = Point3(x, 1, 2)
        return p, q.total(), p.norm

    return compile(root)(G.ones(2))


# SIDE-13: an object that nothing refers to is not built
# expect: graphs=1 breaks=0
def case_side_13_dead_object(compile):
    def root(x):
        p = Point(x, x)
        p.me = p
        return p.total()

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_named_tuples(compile):
    def root(p, x):
        q = Pair(x, p.second)
        r = Pair(first=x)
        a, b = p
        return q, q.first + p[0], r.second, a * b

    return compile(root)(Pair(G.ones(2), 3), G.ones(2))


# expect: graphs=1 breaks=0
def case_dataclass(compile):
    f = compile(lambda c, x: (x * c.scale + c.width, Config(3).scale, c == Config(4, 0.5)))
    return f(Config(4), G.ones(2))


# expect: graphs=1 breaks=0
def case_slots(compile):
    def root(s, x):
        s.b = x + s.a
        return hasattr(s, "b"), s.b * 2

    s = Slotted(2)
    y = compile(root)(s, G.ones(2))
    return y, s.a, s.b


# expect: graphs=1 breaks=0
def case_getattr_hook(compile):
    return compile(lambda h, x: x * h.abc)(Hooked(), G.ones(2))


# SIDE-11: a class that overrides __setattr__ is never changed silently
# expect: graphs=1 breaks=0
def case_side_11_setattr_override(compile):
    g = Guarded()

    def root(g, x):
        g.v = x + 1
        return x

    return compile(root)(g, G.ones(2)), g.v


# SIDE-01: a list argument is changed in place
# expect: graphs=1 breaks=0
def case_side_01_list_mutation(compile):
    def root(xs, x):
        xs.append(x + 1)
        xs.extend([1, 2])
        xs.insert(0, "a")
        xs[1] = 5
        xs.pop()
        xs += [x]
        del xs[2]
        xs.reverse()
        return len(xs), xs

    xs = [3, 4]
    alias = xs
    y = compile(root)(xs, G.ones(2))
    return y, xs, alias is xs, y[1] is xs


# SIDE-02: a dict argument keeps eager's key order
# expect: graphs=1 breaks=0
def case_side_02_dict_mutation(compile):
    def root(d, x):
        d["new"] = x * 2
        d["a"] = 10
        del d["b"]
        d["b"] = 3
        d.update(z=1)
        d.pop("c")
        d.setdefault("y", x)
        return list(d)

    d = {"a": 1, "b": 2, "c": 3}
    return compile(root)(d, G.ones(2)), d


# SIDE-03: an attribute is stored once, with the last value
# expect: graphs=1 breaks=0
def case_side_03_attribute_store(compile):
    def root(p, x):
        p.x = x + 1
        p.x = p.x * 2
        p.fresh = "new"
        return p.x + p.y

    p = Point(G.zeros(2), 1)
    return compile(root)(p, G.ones(2)), p


# SIDE-04, SIDE-05: deleted attributes
# expect: graphs=1 breaks=0
def case_side_04_delete_attribute(compile):
    def root(p, x):
        p.temp = x
        del p.temp
        del p.y
        return hasattr(p, "y"), hasattr(p, "temp"), x + 1

    p = Point(1, 2)
    return compile(root)(p, G.ones(2)), vars(p)


# expect: graphs=0 breaks=1
def case_side_05_read_deleted_attribute(compile):
    def root(p):
        del p.y
        return p.y

    return compile(root)(Point(1, 2))


# SIDE-08: all values are loaded before the first store
# expect: graphs=1 breaks=0
def case_side_08_swaps(compile):
    def root(p, q, a, b):
        p.x, q.x = q.x, p.x
        a[0], b[0] = b[0], a[0]
        p.me = p
        return p.x + q.x

    p, q, a, b = Point(G.ones(2), 0), Point(G.zeros(2), 0), ["a"], ["b"]
    y = compile(root)(p, q, a, b)
    return y, p.x, q.x, a, b, p.me is p


# SIDE-14: built once however often it is referred to
# expect: graphs=1 breaks=0
def case_side_14_new_object_in_three_places(compile):
    def root(xs, d, x):
        n = [x + 1]
        xs.append(n)
        d["n"] = n
        n.append(2)
        return n

    xs, d = [], {}
    n = compile(root)(xs, d, G.ones(2))
    return n, xs[0] is n, d["n"] is n


# SIDE-09: temporaries are never confused
# expect: graphs=1 breaks=0
def case_side_09_many_temporaries(compile):
    def root(x):
        keep = []
        for i in range(500):
            t = [i]
            if i % 100 == 0:
                keep.append(t)
        return x + len(keep), keep

    return compile(root)(G.ones(2))


# expect: graphs=2 breaks=0
def case_aliased_lists(compile):
    def root(a, b, x):
        a.append(x)
        return len(b), x + 1

    f = compile(root)
    p, q = [1], [1]
    first = f(p, q, G.ones(2))
    r = [1]
    return first, f(r, r, G.ones(2)), p, q, r


# expect: graphs=1 breaks=0
def case_property_setter(compile):
    class A:
        def __init__(self):
            self._v = 0

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, value):
            self._v = value * 2

    def root(a, x):
        a.v = x + 1
        return a.v

    a = A()
    return compile(root)(a, G.ones(2)), a._v


# expect: graphs=1 breaks=0
def case_inplace_on_argument(compile):
    def root(x):
        y = x * 2
        x.add_(1)
        x.mul_(y)
        return x + y, x

    x = G.arange(3.0)
    y = compile(root)(x)
    return y, x, y[1] is x


# expect: graphs=1 breaks=0
def case_inplace_on_new_tensor(compile):
    def root(x):
        y = x + 1
        z = y.view(-1)
        y += x
        y *= 2
        z[0] = 7
        y[1:] = 3.0
        return y, z

    return compile(root)(G.arange(3.0))


# expect: graphs=1 breaks=0
def case_inplace_through_view_of_argument(compile):
    def root(x):
        x[0].add_(5)
        x[:, 1] = 0
        return x.sum()

    x = G.ones(2, 2)
    return compile(root)(x), x


# AOT-19
# expect: graphs=2 breaks=0
def case_aot_19_overlap_with_mutated_argument(compile):
    def root(x, y):
        x.mul_(2)
        return x + y

    f = compile(root)
    base = G.arange(6.0)
    a = f(G.ones(4), G.ones(4))
    return a, f(base[:4], base[2:6]), base


# expect: graphs=0 breaks=1
def case_inplace_on_parameter_breaks(compile):
    w = G.ones(2, requires_grad=True)

    def root(w):
        w.add_(1)
        return w

    return compile(root)(w)


# expect: graphs=1 breaks=0
def case_counter_on_object(compile):
    class Net:
        def __init__(self):
            self.calls = []
            self.weight = G.ones(2)

        def forward(self, x):
            self.calls.append(x.shape[0])
            self.last = x * self.weight
            return self.last.sum()

    n = Net()
    y = compile(lambda x: n.forward(x))(G.ones(2))
    return y, n.calls, n.last


# expect: graphs=1 breaks=0
def case_linear_module(compile):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x = G.randn(3, 4)
    y = compile(lambda x: net(x))(x)
    y.sum().backward()
    return y, [p.grad for p in net.parameters()]


# expect: graphs=1 breaks=0
def case_module_with_submodules(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(3, 3), nn.Linear(3, 3)]
            self.scale = 0.5
            self.act = nn.Tanh()

        def forward(self, x, *, flip=False):
            for layer in self.layers:
                x = self.act(layer(x)) * self.scale
            return -x if flip else x

    net = Net()
    return compile(lambda x: net(x, flip=True))(G.randn(2, 3))


# expect: graphs=2 breaks=0
def case_training_flag_is_guarded(compile):
    class Net(nn.Module):
        def forward(self, x):
            return x * 2 if self.training else x

    net = Net()
    f = compile(lambda x: net(x))
    a = f(G.ones(2))
    net.eval()
    return a, f(G.ones(2))


# expect: graphs=1 breaks=0
def case_loss_function(compile):
    from gramme.nn import functional as F

    def root(x, w, t):
        return F.cross_entropy(x @ w, t)

    w = G.randn(4, 3).requires_grad_()
    loss = compile(root)(G.randn(5, 4), w, G.tensor([0, 1, 2, 1, 0]))
    loss.backward()
    return loss, w.grad


# CKPT-07: the guard is on the metadata at entry
# expect: graphs=1 breaks=0
def case_ckpt_07_entry_metadata(compile):
    def root(x):
        x.add_(1)
        return x * 2

    f = compile(root)
    return f(G.ones(3)), f(G.ones(3))


# expect: graphs=1 breaks=0
def case_module_global_tensor(compile):
    return compile(lambda x: x * TABLE[0] + TABLE[1])(G.ones(2))


TABLE = [G.full((2,), 3.0), G.arange(2.0)]


# expect: graphs=1 breaks=0
def case_escaping_iterator(compile):
    f = compile(lambda x: (x + 1, iter([1, 2])))
    y, it = f(G.ones(2))
    return y, list(it)


# expect: graphs=1 breaks=0
def case_escaping_bound_method(compile):
    f = compile(lambda p, x: (x + 1, p.total))
    y, m = f(Point(1, 2), G.ones(2))
    return y, m()


# expect: graphs=1 breaks=1
def case_eq_override_with_dispatch(compile):
    class Odd:
        def __eq__(self, other):
            raise ValueError("no")

    o = Odd()
    return compile(lambda x: (x + 1, o == 3))(G.ones(2))


# expect: graphs=1 breaks=0
def case_none_and_identity_of_objects(compile):
    p = Point(1, 2)
    f = compile(lambda p, q, x: (p is q, p is None, p == p, p != q, x + 1))
    return f(p, Point(1, 2), G.ones(2))


# -- The instance dict ----


class Settings:
    def __init__(self, **entries):
        self.__dict__.update(entries)

    def get(self, name, default=None):
        return getattr(self, name, default)


# expect: graphs=1 breaks=0
def case_config_object_filled_through_its_dict(compile):
    def f(x):
        c = Settings(width=3, name="q")
        c.depth = 2
        return (
            x * c.width,
            c.name,
            c.get("none", 7),
            c.get("depth"),
            c,
            list(c.__dict__),
            dict(**vars(c)),
        )

    return compile(f)(G.ones(2))


# expect: graphs=1 breaks=0
def case_instance_dict_of_an_argument(compile):
    def f(c, x):
        c.new = 1
        del c.a
        c.__dict__["late"] = x
        d = vars(c)
        d["b"] = 20
        return (
            list(d),
            dict(d),
            len(d),
            "a" in d,
            d.get("zz"),
            d is c.__dict__,
            c.b,
            {k: v for k, v in c.__dict__.items() if k != "late"},
        )

    c = Settings(a=1, b=2, c=3)
    return compile(f)(c, G.ones(2)), list(vars(c)), c.b, c.late


# expect: graphs=3 breaks=0
def case_gu_3_names_of_an_instance_dict_are_guarded(compile):
    f = compile(lambda c, x: (x, sorted(vars(c))))
    a, b = Settings(p=1), Settings(p=1, q=2)
    first = f(a, G.ones(2)), f(b, G.ones(2)), f(a, G.ones(2))
    a.r = 4
    return first, f(a, G.ones(2))


# expect: graphs=1 breaks=0
def case_stores_by_dict_and_by_attribute_keep_their_order(compile):
    def f(c, x):
        c.v = 1
        c.__dict__["v"] = 2
        c.v = 3
        c.__dict__["w"] = c.v + 1
        c.__dict__.pop("gone")
        return c.v, x + c.w

    c = Settings(gone=1)
    return compile(f)(c, G.ones(2)), vars(c)


class Logged:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self if instance is None else instance.__dict__.get(self.name, "unset")

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value

    def __delete__(self, instance):
        del instance.__dict__[self.name]


class WithLogged:
    field = Logged()
    other = Logged()


# expect: graphs=1 breaks=0
def case_data_descriptor_that_stores_in_the_instance_dict(compile):
    def f(o, x):
        before = o.field
        o.field = 4
        o.other = x
        mid = o.field
        del o.field
        new = WithLogged()
        new.field = 9
        return before, mid, o.field, new, new.field, vars(o)

    o = WithLogged()
    return compile(f)(o, G.ones(2)), vars(o)


# expect: graphs=1 breaks=0
def case_named_parameters_of_a_module(compile):
    m = G.nn.Linear(3, 3)

    def f(x):
        return (
            m(x),
            [n for n, _ in m.named_parameters()],
            sum(p.numel() for p in m.parameters()),
            [n for n, _ in m.named_modules()],
        )

    return compile(f)(G.ones(2, 3))


# -- Objects as keys ----


class Key:
    def __init__(self, k, tag=None):
        self.k, self.tag = k, tag

    def __hash__(self):
        return hash(self.k)

    def __eq__(self, other):
        return isinstance(other, Key) and self.k == other.k


@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int
    cols: int = 2


# expect: graphs=1 breaks=0
def case_keys_with_hash_and_eq_of_the_user(compile):
    def f(x):
        d = {Key(1, "first"): "a"}
        d[Key(1, "second")] = "b"
        d[Key(2)] = x
        s = {Key(2), Key(2), Key(3)}
        s.discard(Key(3))
        return (
            [
                d[Key(1)],
                len(d),
                [k.tag for k in d],
                Key(9) in d,
                Key(2) in s,
                len(s),
                {Key(2)} == s,
                {Key(2)} < {Key(2), Key(4)},
            ],
            [
                {Shape(1): 5}[Shape(1, 2)],
                hash(Shape(3)) == hash(Shape(3)),
                Shape(1) in {Shape(1), Shape(2)},
            ],
            d,
        )

    (first, second, d) = compile(f)(G.ones(2))
    return first, second, d[Key(1)], d[Key(2)]


# expect: graphs=1 breaks=0
def case_tensors_and_objects_in_sets(compile):
    def f(x, y):
        seen = set()
        order = []
        o = Settings(a=1)
        for v in (x, y, x, o, o, f):
            if v not in seen:
                seen.add(v)
                order.append(v)
        seen.remove(y)
        return len(seen), len(order), x in seen, y in seen, o in seen, {x: 1}[x], x + y

    return compile(f)(G.ones(2), G.zeros(2))


# A __hash__ that changes something would run twice: it breaks.
# expect: graphs=2 breaks=2
def case_hash_with_side_effects(compile):
    log = []

    class Noisy:
        def __hash__(self):
            log.append("h")
            return 1

        def __eq__(self, other):
            return self is other

    k = Noisy()

    def f(x):
        y = x + 1
        d = {k: 3}
        return y * 2, d[k]

    first = compile(f)(G.ones(2))
    return first, log


# -- Functions made in the region ----


# expect: graphs=1 breaks=0
def case_functools_wraps_in_the_region(compile):
    def f(x):
        def twice(fn):
            @functools.wraps(fn)
            def wrapper(*args, **kwargs):
                return fn(*args, **kwargs) * 2

            wrapper.calls = 0
            return wrapper

        @twice
        def inner(v: int, *, k=1):
            "what it does"
            return v + k

        inner.calls += 1
        return (
            inner,
            inner(x),
            inner.__name__,
            inner.__doc__,
            inner.__wrapped__.__name__,
            inner.calls,
            vars(inner)["calls"],
        )

    g, *rest = compile(f)(G.ones(2))
    return (
        rest,
        g(3),
        g.__name__,
        g.__qualname__,
        g.__module__,
        g.__doc__,
        g.__wrapped__(1),
        g.__annotations__,
        g.calls,
    )


# Since 3.12 a function has type parameters: a tuple, empty for most; before, the name is any other.
# expect: graphs=2 breaks=0
def case_type_parameters_of_functions(compile):
    def make():
        def fn(v):
            return v + 1

        return fn

    def f(x, fn):
        def w(a):
            return fn(a)

        had = getattr(fn, "__type_params__", "none"), getattr(w, "__type_params__", "none")
        w.__type_params__ = ("T",)
        return w(x), had, w.__type_params__, w

    other = make()
    other.__type_params__ = ("A", "B")
    compiled = compile(f)
    results = [compiled(G.ones(2), fn)[:3] for fn in (make(), other, make())]
    return results, compiled(G.ones(2), other)[3].__type_params__


# expect: graphs=1 breaks=0; 3.12: graphs=0 breaks=1
def case_type_parameters_are_a_tuple(compile):
    def f(x):
        def w(a):
            return a + 1

        try:
            w.__type_params__ = 3
        except TypeError as e:
            return x * 2, str(e)
        return x * 2, w.__type_params__

    return compile(f)(G.ones(2))


# expect: graphs=1 breaks=0
def case_partialmethod(compile):
    class A:
        def f(self, a, b=0):
            return self, a, b

        g = functools.partialmethod(f, 1, b=5)

    a = A()
    return compile(lambda x: (x, a.g()[1:], a.g(b=2)[1:]))(G.ones(2))


# -- Small callables and views ----

SECOND = operator.itemgetter(1)


# expect: graphs=1 breaks=0
def case_getters_and_comparison_keys(compile):
    def f(pairs, x):
        return (
            [
                sorted(pairs, key=operator.itemgetter(0)),
                sorted(pairs, key=operator.itemgetter(0, 1)),
                min(pairs, key=SECOND),
                SECOND(pairs[0]),
            ],
            sorted(pairs, key=functools.cmp_to_key(lambda a, b: (a > b) - (a < b)), reverse=True),
            [
                list(map(operator.attrgetter("real"), [1, 2])),
                operator.methodcaller("split", ",")("a,b"),
                operator.attrgetter("a.b")(x_of),
            ],
            operator.itemgetter(1),
            x + 1,
        )

    x_of = Settings(a=Settings(b=5))
    *rest, getter, y = compile(f)([(2, "b"), (1, "z"), (1, "a")], G.ones(2))
    return rest, getter("ab"), y


# expect: graphs=1 breaks=0
def case_views_are_sets(compile):
    def f(d, x):
        return (
            [
                sorted(d.keys() & {"a", "q"}),
                sorted(d.keys() | ["c"]),
                sorted({"a", "z"} - d.keys()),
                sorted(d.keys() ^ {"b"}),
            ],
            [
                d.keys() == {"a", "b"},
                d.items() >= {("a", 1)},
                len(d.keys() - {"a"}),
                d.keys().isdisjoint("z"),
                ("a", 1) in d.items(),
            ],
            x + 1,
        )

    return compile(f)({"a": 1, "b": 2}, G.ones(2))


# expect: graphs=1 breaks=0
def case_isinstance_of_unions(compile):
    f = compile(
        lambda v, x: (
            isinstance(v, int | str),
            isinstance(v, float | None),
            isinstance(None, int | None),
            isinstance(x, G.Tensor | int),
            x + 1,
        )
    )
    return f(3, G.ones(2))


# expect: graphs=1 breaks=0
def case_text_of_containers_of_objects(compile):
    class A:
        def __repr__(self):
            return "<A>"

    return compile(lambda x: (repr([A(), (A(),), {"k": A()}]), f"{[A()]} {(A(), 1)!r:>12}", x + 1))(
        G.ones(2)
    )


class Doubled:
    """A data descriptor that keeps its values in the object's dict."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self if instance is None else instance.__dict__.get(self.name, "unset")

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value * 2


class HoldsDoubled:
    width = Doubled()
    height = Doubled()

    def __init__(self, width):
        self.width = width


# A new object is filled with what __set__ has stored: it does not run again.
# expect: graphs=1 breaks=0
def case_a_new_object_whose_class_has_data_descriptors(compile):
    def f(x):
        box = HoldsDoubled("w")
        box.height = 3
        return x + box.height, box, box.width, vars(box)

    y, box, width, inside = compile(f)(G.ones(2))
    return y, width, box.width, box.height, inside


# expect: graphs=1 breaks=1
def case_a_new_object_whose_class_has_data_descriptors_behind_a_break(compile):
    def f(x):
        box = HoldsDoubled("w")
        G._dynamo.graph_break()
        box.height = 3
        return x + box.height, vars(box)

    return compile(f)(G.ones(2))
