# SPDX-License-Identifier: Apache-2.0
"""Small forms of what fuzz/state_programs.py found: each program gives, compiled, what plain Python
gives."""

import collections
import functools
import itertools
import sys
import types
import warnings

import pytest

import gramme as G
from stress import undisturbed


def both(fn, make, calls=1):
    """The results of fn plain and compiled, each called with what make() gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = G.compile(fn, backend="eager")
        return [fn(*make()) for _ in range(calls)], [compiled(*make()) for _ in range(calls)]


def exhaust(it):
    for _ in it:
        pass
    return it


@pytest.mark.parametrize(
    "make",
    [
        lambda xs, d: iter(xs),
        lambda xs, d: iter(d),
        lambda xs, d: iter(d.items()),
        lambda xs, d: iter(d.values()),
        lambda xs, d: iter("ab"),
        lambda xs, d: iter((1, 2)),
        lambda xs, d: iter(range(3)),
        lambda xs, d: reversed(xs),
        lambda xs, d: reversed("ab"),
        lambda xs, d: zip(xs, "ab"),
        lambda xs, d: map(str, xs),
        lambda xs, d: enumerate(xs, 4),
        lambda xs, d: filter(None, xs),
        lambda xs, d: zip(),
    ],
)
def test_an_ended_iterator_keeps_its_type(make):
    def root(xs, d):
        return exhaust(make(xs, d))

    def shown():
        xs = [1, 2]
        return xs, {"a": 1}

    (plain,), (got,) = both(root, shown)
    assert type(got) is type(plain)
    assert list(got) == list(plain) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda d: iter(d.items()),
        lambda d: iter(d.keys()),
        lambda d: iter(d.values()),
        lambda d: iter(d),
    ],
)
@pytest.mark.parametrize(
    "kind", [collections.OrderedDict, dict, lambda: collections.defaultdict(int)]
)
def test_an_ended_iterator_keeps_its_type_when_its_dict_was_empty(make, kind):
    def root(d):
        it = make(d)
        return next(it, None), it

    (plain,), (got,) = both(root, lambda: (kind(),))
    assert type(got[1]) is type(plain[1])
    assert list(got[1]) == list(plain[1]) == []


def test_an_ended_list_iterator_lets_go_of_its_list():
    def root(xs):
        it = exhaust(iter(xs))
        xs.append(3)
        return it

    (plain,), (got,) = both(root, lambda: ([1, 2],))
    assert list(got) == list(plain) == []


def test_zip_asks_its_iterators_again_after_its_end():
    def root():
        first = iter([1, 2, 3, 4])
        pairs = zip(first, [1])
        return [next(pairs), next(pairs, "end"), next(pairs, "end"), list(first)]

    plain, got = both(root, lambda: ())
    assert got == plain


@pytest.mark.parametrize(
    "fn",
    [
        lambda o, f: o.copy(),
        lambda o, f: f.copy(),
        lambda o, f: o | {},
        lambda o, f: f | {"b": 2},
        lambda o, f: collections.OrderedDict(a=1, b=2) == collections.OrderedDict(b=2, a=1),
        lambda o, f: collections.OrderedDict(a=1, b=2) == {"b": 2, "a": 1},
        lambda o, f: o == collections.OrderedDict(a=1),
    ],
)
def test_dicts_of_other_classes_keep_class_and_order(fn):
    (plain,), (got,) = both(
        fn, lambda: (collections.OrderedDict(a=1), collections.defaultdict(list, a=[1]))
    )
    assert type(got) is type(plain)
    assert got == plain


class Holder:
    def __init__(self, v):
        self.v = v


@pytest.mark.parametrize("as_dict", [vars, lambda o: {"v": 3}])
def test_an_objects_own_dict_as_an_argument(as_dict):
    def write_dict(o, d):
        d["v"] = 1
        return o.v

    def write_attribute(o, d):
        o.v = 4
        return d["v"]

    def read_then_write(o, d):
        x = o.v
        d["v"] = x + 1
        return o.v

    def make():
        o = Holder(0)
        return o, as_dict(o)

    for fn in (write_dict, write_attribute, read_then_write):
        plain, got = both(fn, make)
        assert got == plain, fn.__name__


class Items(list):
    pass


class Words(dict):
    pass


def test_an_iterator_of_a_list_subclass_leaves_with_it():
    def root():
        items, words = Items([1, 2]), Words(a=1)
        it = iter(items)
        next(it)
        return it, iter(Items([3])), items, words.items(), words

    for it, only, items, view, words in (
        both(root, lambda: ())[0][0],
        both(root, lambda: ())[1][0],
    ):
        items.append(5)
        words["b"] = 2
        assert list(it) == [2, 5]
        assert type(only.__reduce__()[1][0]) is Items
        assert len(view) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda o, k: o.__setitem__("a", 3),
        lambda o, k: o.move_to_end("b"),
        lambda o, k: o.move_to_end("a"),
        lambda o, k: (o.pop(k), o.__setitem__(k, 4)),
        lambda o, k: o.__setitem__("z", 4),
    ],
)
def test_an_ordered_dict_that_changes_while_it_is_walked(change):
    def root():
        seen, o = [], collections.OrderedDict(a=1, b=2)
        try:
            for k in o:
                seen.append(k)
                change(o, k)
        except RuntimeError as e:
            seen.append(str(e))
        return seen, list(o.items())

    plain, got = both(root, lambda: ())
    assert got == plain


@pytest.mark.parametrize(
    "make", [lambda: {"a": 1, "b": 2}, lambda: collections.OrderedDict(a=1, b=2)]
)
def test_a_change_is_seen_by_the_iterator_that_a_break_hands_over(make):
    def root(d):
        seen = []
        for pair in d.items():
            seen.append(pair)
            d.pop("b", None)
            d.pop("c", None)
        return seen

    def outcome(fn):
        with pytest.raises(RuntimeError) as caught:
            fn(make())
        return str(caught.value)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(G.compile(root, backend="eager")) == outcome(root)


@pytest.mark.parametrize("step", [1, 2])
def test_count_from_a_bool(step):
    def root(start):
        return list(itertools.islice(itertools.count(start, step), 3))

    plain, got = both(root, lambda: (True,))
    assert [(type(v), v) for v in got[0]] == [(type(v), v) for v in plain[0]]


@pytest.mark.parametrize("first", ["dict", "object"])
def test_a_dict_that_becomes_an_objects_own_is_another_call(first):
    def f(o, d):
        if first == "dict":
            d["v"] = 1
            return o.v
        o.v = 1
        return d["v"]

    compiled = G.compile(f, backend="eager")
    for make in (
        lambda: (Holder(0), {"v": 5}),
        lambda: (lambda o: (o, vars(o)))(Holder(0)),
        lambda: (Holder(0), {"v": 7}),
    ):
        assert compiled(*make()) == f(*make())


def test_an_objects_own_dict_is_one_object():
    def f(o, d):
        return o.__dict__ is d, d is o.__dict__, vars(o) is d, d is vars(o)

    def g(o, d):
        return d is o.__dict__, len(d)

    for fn in (f, g):
        o = Holder(3)
        compiled = G.compile(fn, backend="eager")
        assert compiled(o, vars(o)) == fn(o, vars(o))
        assert compiled(o, {"v": 3}) == fn(o, {"v": 3})


def test_a_refused_operation_in_place_names_itself():
    def root():
        said = []
        try:
            x = None
            x += 1
        except TypeError as error:
            said.append(error.args)
        try:
            x = 2
            x @= "a"
        except TypeError as error:
            said.append(error.args)
        try:
            x = 2 - "a"
        except TypeError as error:
            said.append(error.args)
        return said

    plain, got = both(root, lambda: ())
    assert got == plain


# -- One object in two places --


class Bound:
    def method(self):
        return 1

    @classmethod
    def maker(cls):
        return cls()


HELD = [1]
OBJECT = Bound()


@pytest.mark.parametrize(
    "make",
    [
        lambda i: slice(i, 2),
        lambda i: OBJECT.method,
        lambda i: Bound().method,
        lambda i: Bound.maker,
        lambda i: HELD.append,
        lambda i: [i].append,
        lambda i: "ab".upper,
        lambda i: super(Bound, OBJECT),
        lambda i: iter(HELD),
        lambda i: functools.partial(len, HELD),
        lambda i: (i, HELD),
        lambda i: {}.items(),
        lambda i: (lambda: i),
    ],
)
def test_what_is_made_once_is_one_object_wherever_it_is_stored(make):
    def root(held, i):
        x = make(i)
        held.append(x)
        held.append((x, make(i)))
        return x

    root.__code__ = root.__code__.replace(co_name="root")  # entries of its own
    compiled = G.compile(root, backend="eager")
    for held in ([], []):
        x = compiled(held, 1)
        plain = root([], 1)
        assert x is held[0] and x is held[1][0]
        assert (held[1][1] is x) == (make(1) is make(1)) and type(x) is type(plain)


# -- What dies while a function runs


def counting(n, out):
    try:
        for i in range(n):
            yield i
    finally:
        out.append("closed")


def relay(n, out):
    yield from counting(n, out)


class Finalized:
    def __init__(self, out):
        self.out = out

    def __del__(self):
        self.out.append("gone")


def rebound(out):
    it = counting(3, out)
    next(it)
    it = 5
    out.append(1)


def rebound_to_another(out):
    it = relay(3, out)
    next(it)
    it = counting(1, out)
    out.append((next(it, 9), list(it)))


def deleted(out):
    it = relay(3, out)
    next(it)
    del it
    out.append(1)


def left_in_a_loop(out):
    for x in relay(3, out):
        out.append(x)
        if x == 1:
            break
    out.append(1)


def in_a_list(out):
    xs = [counting(2, out), 1]
    next(xs[0])
    xs = 5
    out.append(1)


def below_a_map(out):
    it = map(str, zip(counting(2, out), (1, 2)))
    next(it)
    it = 5
    out.append(1)


def never_stored(out):
    Finalized(out)
    out.append(1)


def stored_and_replaced(out):
    o = Finalized(out)
    out.append(0)
    o = 1
    out.append(1)


@pytest.mark.parametrize(
    "program",
    [
        rebound,
        rebound_to_another,
        deleted,
        left_in_a_loop,
        in_a_list,
        below_a_map,
        never_stored,
        stored_and_replaced,
    ],
)
def test_what_dies_in_between_dies_at_its_place(program):
    def shown(fn):
        out = []
        fn(out)
        return list(out)

    plain = shown(program)
    assert "closed" in plain or "gone" in plain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = G.compile(program, backend="eager")
        assert [shown(compiled), shown(compiled)] == [plain, plain]


# -- One node for the history of a region's results


@undisturbed
@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_backwards_from_two_results_of_a_region_one_after_the_other(backend):
    w = G.arange(3.0, requires_grad=True)

    def root(x):
        return (w * x).exp().sum(), w.clone()

    def gradient(fn, keep):
        w.grad = None
        first, second = fn(G.ones(3))
        first.backward(retain_graph=keep)
        second.sum().backward()
        return w.grad.tolist()

    compiled = G.compile(root, backend=backend)
    plain = gradient(root, False)
    assert gradient(root, True) == plain == gradient(compiled, True) == gradient(compiled, False)


# -- The frame of a caught exception keeps variables, not what was on its stack


def suspended(out):
    try:
        yield 1
        yield 2
    finally:
        out.append("closed")


def raised_in_a_loop(out):
    for k in suspended(out):
        try:
            {}.popitem()
        except KeyError as e:
            out.append(e)
        k, *_ = enumerate([])


def raised_by_c_in_a_loop(out):
    for k in suspended(out):
        try:
            sys.intern(k)
        except TypeError as e:
            out.append(e)
        G._dynamo.graph_break()
        raise ValueError(k)


@pytest.mark.parametrize("program", [raised_in_a_loop, raised_by_c_in_a_loop])
def test_what_a_traceback_keeps_is_no_stack(program):
    def shown(fn):
        out = []
        with pytest.raises(ValueError):
            fn(out)
        return [o if isinstance(o, str) else type(o) for o in out]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = G.compile(program, backend="eager")
        assert shown(program) == shown(compiled) == shown(compiled) and "closed" in shown(program)


# -- What cannot be hashed ends the iteration there


def logged(out):
    for k in range(3):
        out.append(k)
        yield [k]


def keys_of_a_dict(out):
    return dict.fromkeys(logged(out), 0)


def entries_of_a_dict(out):
    return dict((k, 1) for k in logged(out))


def entries_that_are_none(out):
    return dict(x for x in logged(out))


def elements_of_a_set(out):
    return set(logged(out))


def elements_of_a_frozenset(out):
    return frozenset(logged(out))


def added_to_a_set(out):
    s = {1}
    s.update(logged(out))
    return s


def unpacked_into_a_set(out):
    return {1, *logged(out)}


@pytest.mark.parametrize(
    "program",
    [
        keys_of_a_dict,
        entries_of_a_dict,
        entries_that_are_none,
        elements_of_a_set,
        elements_of_a_frozenset,
        added_to_a_set,
        unpacked_into_a_set,
    ],
)
def test_what_cannot_be_hashed_ends_the_iteration(program):
    def shown(fn):
        out = []
        with pytest.raises((TypeError, ValueError)) as e:
            fn(out)
        return str(e.value), out

    plain = shown(program)
    assert plain[1] == [0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert shown(G.compile(program, backend="eager")) == plain


# -- Classes of C modules, which are on the heap since 3.12, cannot be changed


def test_attributes_of_classes_of_c_cannot_be_set():
    def root(x):
        try:
            type(x).w = 1
        except TypeError as e:
            return str(e)

    d = collections.defaultdict(list)
    assert root(d) == both_once(root, d)


def both_once(fn, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return G.compile(fn, backend="eager")(*args)


# -- A hook on a view of an argument, where nothing is computed: the function runs as plain Python


def doubled(g):
    return g * 2


def test_a_hook_on_a_view_of_an_argument_alone():
    def root(x):
        first = x.unbind()[1]
        first.register_hook(doubled)
        return first

    def gradient(fn):
        leaf = G.arange(4.0).requires_grad_()
        fn(leaf * 1).sum().backward()
        return leaf.grad.tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert gradient(G.compile(root, backend="eager")) == gradient(root) == [0.0, 2.0, 0.0, 0.0]


# -- What cannot be reversed says so, not that it has no length


@pytest.mark.parametrize("thing", [3, 2.5, None, True, frozenset("ab")])
def test_what_cannot_be_reversed(thing):
    def root(x):
        try:
            return list(reversed(x))
        except TypeError as e:
            return str(e)

    def inside():
        return root(thing)

    assert both_once(root, thing) == both_once(inside) == root(thing)


# -- What copy_ makes of a tensor is the tensor


def copied(x):
    y = G.zeros(4)
    z = y.copy_(x)
    return y * 2, y.requires_grad, z is y


def copied_and_scaled_behind_autograd(x):
    y = G.zeros(4)
    y.copy_(x)
    with G.no_grad():
        y.mul_(2)
    return y, y.requires_grad, True


@pytest.mark.parametrize("program", [copied, copied_and_scaled_behind_autograd])
def test_what_is_written_by_a_method_is_the_tensor(program):
    def shown(fn):
        leaf = G.arange(4.0).requires_grad_()
        y, requires, same = fn(leaf * 1)
        y.sum().backward()
        return y.tolist(), leaf.grad.tolist(), requires, same

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert shown(G.compile(program, backend="eager")) == shown(program)


# -- What is iterated looks at the container that it is added to


def extended_by_pairs_of_itself(xs):
    xs.extend(zip(xs, "ab"))


def added_to_in_place(xs):
    xs += zip(xs, "ab")


def extended_by_what_depends_on_its_length(xs):
    xs.extend(map(lambda pair: (len(xs), pair), zip(xs, "abc")))


def extended_by_a_generator_over_itself(xs):
    xs.extend(x for x in xs if len(xs) < 6)


def extended_until_it_raises(xs):
    try:
        xs.extend(1 // (2 - i) for i in range(4))
    except ZeroDivisionError:
        xs.append("caught")


def extended_by_what_takes_away(xs):
    xs.extend(xs.pop(0) for _ in range(3))


def a_slice_replaced_while_it_grows(xs):
    xs[1:] = [xs.append(i) or i for i in range(2)]
    xs[1:] = (xs.append(i) or i for i in range(2))


def a_slice_replaced_while_it_shrinks(xs):
    xs[1:3] = (xs.pop() for _ in range(2))


@pytest.mark.parametrize("kind", [list, collections.deque, collections.UserList])
@pytest.mark.parametrize(
    "program",
    [
        extended_by_pairs_of_itself,
        added_to_in_place,
        extended_by_what_depends_on_its_length,
        extended_by_a_generator_over_itself,
        extended_until_it_raises,
        extended_by_what_takes_away,
        a_slice_replaced_while_it_grows,
        a_slice_replaced_while_it_shrinks,
    ],
)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_a_container_is_extended_one_by_one(program, kind, n):
    def root(xs, x):
        try:
            program(xs)
        except (RuntimeError, TypeError, IndexError, AttributeError) as e:
            return x + 1, type(e), str(e), list(xs)
        return x + 1, None, "", list(xs)

    def made_inside(x):
        xs = kind(range(n))
        return root(xs, x)

    def shown(result):
        return (result[0].tolist(), *result[1:])

    (plain,), (got,) = both(root, lambda: (kind(range(n)), G.ones(2)))
    assert shown(got) == shown(plain)
    (plain,), (got,) = both(made_inside, lambda: (G.ones(2),))
    assert shown(got) == shown(plain)


class Slotted:
    __slots__ = ("v",)


@pytest.mark.parametrize("thing", [Slotted(), 3, [1], None])
def test_vars_of_what_has_no_attributes_of_its_own(thing):
    def root(x):
        try:
            return x + 1, vars(thing)
        except (TypeError, AttributeError) as e:
            return x + 1, type(e), str(e)

    (plain,), (got,) = both(root, lambda: (G.ones(1),))
    assert got[1:] == plain[1:]


@pytest.mark.parametrize(
    "thing",
    [
        set(),
        [],
        [("a", 1)],
        (),
        "",
        None,
        3,
        {1: 2},
        collections.OrderedDict(a=1),
        collections.Counter("ab"),
        types.MappingProxyType({"k": 1}),
        collections.ChainMap({"k": 1}),
        G.ones(2),
    ],
    ids=repr,
)
def test_two_stars_in_a_display_take_mappings_alone(thing):
    def root(thing):
        return [{**thing, "z": x} for x in (1, 2)]

    def caught(thing):
        try:
            return {"a": 0, **thing}
        except TypeError as error:
            return str(error)

    for program in (root, caught):
        try:
            want = program(thing)
        except TypeError as error:
            with pytest.raises(TypeError) as raised:
                G.compile(program, backend="eager")(thing)
            assert str(raised.value) == str(error)
        else:
            assert G.compile(program, backend="eager")(thing) == want


class Index:
    def __index__(self):
        return 3


@pytest.mark.parametrize(
    "args",
    [
        ("a",),
        (None,),
        (1, [1]),
        ((),),
        (1j,),
        (True,),
        (1, 0.5),
        (Index(),),
        (Index(), Index()),
        (2, "a"),
    ],
    ids=repr,
)
def test_what_count_takes_for_a_number(args):
    def program(x):
        try:
            made = itertools.count(*args)
        except TypeError as error:
            return str(error), x + 1
        try:
            return next(made), next(made), x + 1
        except TypeError as error:
            return str(error), x + 1

    want, have = program(G.ones(2)), G.compile(program, backend="eager")(G.ones(2))
    assert (
        repr(want[:-1]).replace("Index object at", "").split(" 0x")[0]
        == repr(have[:-1]).replace("Index object at", "").split(" 0x")[0]
    )


@pytest.mark.parametrize("start", [(), (0.1,), (0,)])
@pytest.mark.parametrize(
    "items",
    [
        [0.1] * 10,
        [1, 0.1, 2, 0.3],
        [0.1, 1, 1e100, 0.1, -1e100],
        [True, 0.1, 0.2],
        [0.1, 10**30, 0.2],
        [0.1, 0.2, 0.3, "a"],
        [0.1] * 9 + [1j, 0.1],
    ],
    ids=repr,
)
def test_sum_adds_floats_as_this_python_does(items, start):
    """Since 3.12 it carries along what they lose."""

    def program(x):
        try:
            return sum(list(items), *start), x
        except TypeError as error:
            return str(error), x

    assert repr(G.compile(program, backend="eager")(G.ones(1))[0]) == repr(program(G.ones(1))[0])


VALUES = [[1], {1: 2}, {1}, (1,), "a", 1, 1.5, frozenset({1}), b"a", collections.deque([1])]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_a_builtin_value_looks_into_what_declines_to_be_compared(value):
    class Declines(type(value)):
        def __eq__(self, other):
            return NotImplemented

        __ne__ = __lt__ = __eq__
        __hash__ = type(value).__hash__

    class Plain(type(value)):
        pass

    def root(k, v, plain):
        return [
            k == v,
            v == k,
            k != v,
            v != k,
            k == k.__class__(v),
            k == None,
            k == plain,
            plain == v,
        ]  # noqa: E711

    (want,), (got,) = both(root, lambda: (Declines(value), value, Plain(value)))
    assert got == want


@pytest.mark.parametrize(
    "value",
    [v for v in VALUES if type(v) in (int, float, str, bytes)],
    ids=lambda v: type(v).__name__,
)
@pytest.mark.parametrize(
    "how",
    ["k < None", "k >= None", "k + None", "k | None", "None + k", "'a' * k", "k * k", "k @ 1"],
)
def test_a_type_error_names_the_class_of_the_object(value, how):
    class Named(type(value)):
        pass

    space = {}
    exec(
        (
            f"def root(k):\n    try:\n        return {how}\n    except TypeError as e:\n        "
            "return str(e)\n"
        ),
        space,
    )
    (want,), (got,) = both(space["root"], lambda: (Named(value),))
    assert got == want
