# SPDX-License-Identifier: Apache-2.0
"""Trees of objects that are checked as a whole: what no dict tells of.

A tree that held is not looked at again as long as no dict has changed and nothing has been given
another class or dict.  So each way of changing an object without a write to a dict is tried here,
between two calls in a function whose variables are in no dict.
"""

import pytest

import gramme as G
from gramme import nn

N = 40  # objects: enough for a tree to be checked as a whole


class Thing:
    def __init__(self, w):
        self.w = w

    def scaled(self, x):
        return x * self.w


class Other(Thing):
    def scaled(self, x):
        return x - self.w


class Trouble(Exception):
    """An object whose __dict__ is set by a function of C of its own."""

    def __init__(self, w):
        self.w = w

    def scaled(self, x):
        return x * self.w


class Holder:
    def __init__(self, things, w=1.0):
        self.w = w
        self.things = things

    def scaled(self, x):
        return x + self.w


class OtherHolder(Holder):
    def scaled(self, x):
        return x - self.w


def total(x, holder):
    for thing in holder.things:
        x = thing.scaled(x)
    return holder.scaled(x)


def in_dict(things):
    return dict(enumerate(things))


def total_of_dict(x, holder):
    for thing in holder.things.values():
        x = thing.scaled(x)
    return holder.scaled(x)


def give_dict(o, **attributes):
    o.__dict__ = attributes


def replace(things, i, w):
    """Another object, at the same address if the allocator wills, whose attributes are in no
    dict."""
    things[i] = None
    things[i] = Thing(w)


CHANGES = {
    "class": lambda h, at: setattr(at(3), "__class__", Other),
    "class by object": lambda h, at: object.__setattr__(at(3), "__class__", Other),
    "class by descriptor": lambda h, at: object.__dict__["__class__"].__set__(at(3), Other),
    "class of the root": lambda h, at: setattr(h, "__class__", OtherHolder),
    "dict": lambda h, at: give_dict(at(5), w=7.0),
    "dict by descriptor": lambda h, at: Thing.__dict__["__dict__"].__set__(at(5), {"w": 7.0}),
    "dict of the root": lambda h, at: give_dict(h, w=9.0, things=h.things),
    "dict as a dict": lambda h, at: at(5).__dict__.update(w=7.0),
    "attribute": lambda h, at: setattr(at(N - 1), "w", 7.0),
    "attribute of a class": lambda h, at: setattr(Thing, "scaled", lambda self, x: x + self.w),
}


@pytest.mark.parametrize("shape", [tuple, list, in_dict])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(change, shape):
    root = total_of_dict if shape is in_dict else total

    def run(f):
        x, holder, scaled = (
            G.ones(2),
            Holder(shape(Thing(1.0 + i / 64) for i in range(N))),
            Thing.scaled,
        )
        before = [f(x, holder) for _ in range(4)]
        change(holder, lambda i: holder.things[i])
        after = [f(x, holder) for _ in range(3)]
        Thing.scaled = scaled
        return before, after

    compiled = G.compile(lambda x, holder: root(x, holder), backend="eager")
    assert [[t.tolist() for t in part] for part in run(compiled)] == [
        [t.tolist() for t in part] for part in run(root)
    ]


def test_an_item_at_the_same_address_is_another_one():
    def run(f):
        x, holder, results = G.ones(2), Holder([Thing(1.0) for _ in range(N)]), []
        for i in range(6):
            results += [f(x, holder).tolist(), f(x, holder).tolist()]
            replace(holder.things, 7, 2.0 + i)
        return results

    assert run(G.compile(lambda x, holder: total(x, holder), backend="eager")) == run(total)


def test_a_root_at_the_same_address_is_another_one():
    def run(f):
        x, things, results = G.ones(2), tuple(Thing(1.0) for _ in range(N)), []
        for i in range(6):
            holder = Holder(things, 1.0 + i)
            results += [f(x, holder).tolist(), f(x, holder).tolist()]
            holder = None
        return results

    assert run(G.compile(lambda x, holder: total(x, holder), backend="eager")) == run(total)


def test_a_class_that_sets_its_dict_in_another_way():
    def run(f):
        x, holder = G.ones(2), Holder(tuple(Trouble(1.0) for _ in range(N)))
        before = [f(x, holder).tolist() for _ in range(3)]
        give_dict(holder.things[4], w=3.0)
        middle = [f(x, holder).tolist() for _ in range(3)]
        BaseException.__dict__["__dict__"].__set__(holder.things[5], {"w": 3.0})
        return before, middle, f(x, holder).tolist()

    assert run(G.compile(lambda x, holder: total(x, holder), backend="eager")) == run(total)


def test_a_module_in_a_container_is_replaced():
    def run(compile):
        G.manual_seed(3)
        model = nn.Sequential(
            *[nn.Linear(2, 2) for _ in range(N)], nn.ModuleList([nn.Linear(2, 2)])[0]
        )
        f, x = compile(model), G.ones(1, 2)
        results = [f(x).tolist(), f(x).tolist()]
        model[3] = nn.Linear(2, 2)
        results += [f(x).tolist(), f(x).tolist()]
        del model[4]
        model.append(nn.Linear(2, 2))
        model.insert(0, nn.ReLU())
        results += [f(x).tolist(), f(x).tolist()]
        model[1].weight = nn.Parameter(G.zeros(2, 2))
        model[2].weight.data = G.ones(2, 2)
        return results + [f(x).tolist(), len(model), type(model[1:3]).__name__]

    assert run(lambda model: G.compile(model, backend="eager")) == run(lambda model: model)


def assign(o, w):
    o.w = w


def delete_and_assign(o, w):
    del o.w
    o.w = w


def merge(o, w):
    d = o.__dict__
    d |= {"w": w}


def take_out(o, w):
    o.__dict__.pop("w")
    o.__dict__.setdefault("w", w)


def clear(o, w):
    o.__dict__.clear()
    o.w = w


def last_out(o, w):
    while o.__dict__:
        o.__dict__.popitem()
    o.w = w


def by_state(o, w):
    copyreg_state = {"w": w}
    o.__dict__.update(**copyreg_state)


def run_as_code(o, w):
    exec("o.w = w", {"o": o, "w": w})


def add(o, w):
    o.w += w - o.w


class Late:
    """Its attribute comes behind others, of which some objects have none."""

    def __init__(self, w, more=0):
        for i in range(more):
            setattr(self, f"x{i}", i)
        self.w = w

    def scaled(self, x):
        return x * self.w


class Manager:
    def __init__(self, o, w):
        self.o, self.w = o, w

    def __enter__(self):
        self.o.w = self.w

    def __exit__(self, *error):
        return False


def by_with(o, w):
    with Manager(o, w):
        pass


STORES = [
    assign,
    delete_and_assign,
    merge,
    take_out,
    clear,
    last_out,
    by_state,
    run_as_code,
    add,
    by_with,
    lambda o, w: setattr(o, "w", w),
    lambda o, w: object.__setattr__(o, "w", w),
    lambda o, w: vars(o).__setitem__("w", w),
    lambda o, w: o.__dict__.update({"w": w}),
    lambda o, w: [None for o.w in (w,)],
    lambda o, w: dict.__ior__(o.__dict__, [("w", w)]),
]


@pytest.mark.parametrize("warm", ["cold", "without dicts", "with dicts", "after a dict is gone"])
@pytest.mark.parametrize(
    "make",
    [Thing, Late, lambda w: Late(w, 3), lambda w: Late(w, 40)],
    ids=["one", "last", "some", "many"],
)
@pytest.mark.parametrize("store", STORES)
def test_each_way_of_storing_an_attribute_is_seen(store, make, warm):
    """CPython specialises the instruction that stores by the objects that it has met, and each form
    stores in its own way."""

    def run(f):
        x, holder, results = G.ones(2), Holder(tuple(make(1.0 + i / 64) for i in range(N))), []
        for i in range(0 if warm == "cold" else 64):
            o = make(0.0)
            if warm != "without dicts":
                d = o.__dict__
            if warm == "after a dict is gone":
                d = None
            store(o, float(i))
        for i in range(4):
            results += [f(x, holder).tolist(), f(x, holder).tolist(), f(x, holder).tolist()]
            store(holder.things[3 + i // 2], 2.0 + i)
        return results + [f(x, holder).tolist()]

    assert run(G.compile(lambda x, holder: total(x, holder), backend="eager")) == run(total)


def test_the_setters_are_still_python_s():
    class Slots:
        __slots__ = ("a",)

    with pytest.raises(TypeError, match="__class__ must be set to a class, not 'int' object"):
        Thing(1).__class__ = 3
    with pytest.raises(TypeError, match="__class__ assignment"):
        Slots().__class__ = Thing
    with pytest.raises(TypeError, match="__dict__ must be set to a dictionary"):
        Thing(1).__dict__ = 3
    with pytest.raises(AttributeError):
        Slots().__dict__ = {}
    thing = Thing(1)
    thing.__dict__, thing.__class__ = {"w": 2}, Other
    assert type(thing) is Other and thing.w == 2
