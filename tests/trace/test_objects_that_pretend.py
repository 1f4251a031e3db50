# SPDX-License-Identifier: Apache-2.0
"""Objects that are not what they look like, and checks that Python makes of them: small programs,
each run plain and compiled, results and exceptions compared."""

import collections
import enum
import functools
import operator
import os
import random
import sys
import types
import warnings
import weakref

import pytest

import gramme as G
from gramme import _dynamo
from stress import ON
from test_data_model import outcome

# A break at every instruction executes in plain Python what this file asks of the recorder.
pytestmark = pytest.mark.skipif(
    "break" in os.environ.get("GM_STRESS", ""), reason="asks what the recorder itself does"
)


class A:
    def foo(self, *a, **k):
        return "foo", a, k

    def bar(self, *a, **k):
        return "bar", a, k


def cap(*a, **k):
    return a, k


OBJ = A()
METHODS = [
    operator.methodcaller("foo", "bar", k=3),
    operator.methodcaller("foo", k=3),
    operator.methodcaller("foo"),
    operator.methodcaller("bar", 1, 2),
]


def method_callers_that_exist(x):
    return [m(OBJ) for m in METHODS]


def method_callers_that_are_made(x):
    return (
        operator.methodcaller("foo", "bar", k=3)(A()),
        operator.methodcaller("foo", k=3)(A()),
        operator.methodcaller("bar")(A()),
    )


def method_callers_of_tensors(x):
    return [t.tolist() for t in map(operator.methodcaller("sum", dim=0), [x.reshape(1, 2)])]


def method_callers_that_leave(x):
    m = operator.methodcaller("foo", "bar", k=x)
    return m(A())[2]["k"].tolist(), repr(operator.methodcaller("foo", "bar", k=3)), [m][0](A())[:2]


def a_method_caller_whose_name_has_dots(x):
    try:
        return operator.methodcaller("real.bit_length")(5)
    except AttributeError as error:
        return str(error)


def a_proxy_is_what_it_refers_to(x):
    return isinstance(weakref.proxy(OBJ), A), weakref.proxy(OBJ).__class__ is A


class Proxy:
    def __init__(self, o):
        self.o = o

    @property
    def __class__(self):
        return type(self.o)


def a_proxy_of_a_tensor_and_of_a_dict(x):
    return isinstance(Proxy(x), G.Tensor), isinstance(Proxy({}), collections.abc.Mapping)


def a_proxy_matches_a_class_pattern(x):
    match Proxy({}):
        case dict():
            return "dict"
    return "not a dict"


def a_mock_with_a_spec(x):
    from unittest import mock

    return isinstance(mock.Mock(spec=A), A)


class E(enum.IntEnum):
    FIRST = 1

    def __str__(self):
        return self.name


class Money(float):
    def __format__(self, spec):
        return "$%.2f" % self


class Name(str):
    def __str__(self):
        return "<name>"


class I(int):
    def __repr__(self):
        return "I!"

    __str__ = __repr__


def formats_of_subclasses(x):
    return (
        f"{E.FIRST}",
        "{}".format(E.FIRST),
        format(E.FIRST),
        "{}".format(Money(2)),
        "{:x}".format(Money(2)),
        "{!s}".format(Name("n")),
        "{}".format(Name("n")),
        f"{I(3)}",
        "{!r}".format(I(3)),
        "{0}".format(I(3)),
    )


class Rev:
    def __rpow__(self, o, m=None):
        return "rpow"

    def __rdivmod__(self, o):
        return "rdivmod"

    def __index__(self):
        return 3

    def __float__(self):
        return 3.0


class Ix:
    def __index__(self):
        return 3


def reflected_power_and_divmod(x):
    return pow(2, Rev()), divmod(7, Rev()), pow(2.0, Rev()), divmod(7.0, Rev())


def power_does_not_take_an_index(x):
    return pow(2, Ix())


class P:
    __match_args__ = ("a",)
    a = 0


class K:
    key = "a"


def a_class_pattern_names_an_attribute_twice(x):
    match P():
        case P(0, a=0):
            return "matched"


def a_mapping_pattern_has_a_key_twice(x):
    match {"a": 0, "b": 1}:
        case {K.key: y, "a": z}:
            return y, z


def a_class_method_over_a_property(x):
    class C:
        @classmethod
        @property
        def p(cls):
            return cls.__name__

    return C.p if isinstance(C.p, str) else type(C.p).__name__


def a_class_method_over_a_descriptor(x):
    class W:
        def __init__(self, f):
            self.f = f

        def __get__(self, o, t=None):
            return self.f.__get__(o, t)

        def __call__(self, *a):
            return "called"

    class C:
        @classmethod
        @W
        def m(cls):
            return cls.__name__

    return C.m()


def complex_gives_no_complex(x):
    class C:
        def __complex__(self):
            return 1.5

    return complex(C())


def format_gives_no_text(x):
    class C:
        def __format__(self, s):
            return 1

    return f"{C()}"


def a_frozenset_and_a_view(x):
    s = frozenset([1, 2])
    s &= {1: 0}.keys()
    views = [{2: 0}.keys(), {2: 0}.items()]
    names = [
        type(op(frozenset([1]), v)).__name__
        for v in views
        for op in (operator.or_, operator.and_, operator.sub, operator.xor)
    ]
    swapped = [
        type(op(v, frozenset([1]))).__name__
        for v in views
        for op in (operator.or_, operator.and_, operator.sub, operator.xor)
    ]
    return type(s).__name__, s, names, swapped, type({1} | {2: 0}.keys()).__name__


def unions_of_one_class(x):
    return int | int, {int: 1}.get(int | int), (list | list) is list, int | str == str | int


def refused_bases(x):
    class B:
        pass

    class C(B):
        pass

    try:
        B.__bases__ = (C,)
    except TypeError as error:
        return str(error)
    return B.__bases__


def the_class_of_a_module(x):
    class M(types.ModuleType):
        def __getattr__(self, name):
            return "asked " + name

    m = types.ModuleType("m")
    m.__class__ = M
    return type(m).__name__, m.something


class F(float):
    pass


NAN = F("nan")


def the_hash_of_nan_is_the_objects(x):
    return hash(NAN) == object.__hash__(NAN), {NAN: 1}[NAN]


def keywords_that_are_no_texts(x):
    p = functools.partial(cap)
    p.keywords[1234] = 1
    return p()


class Text(str):
    pass


def keywords_of_a_subclass_of_str(x):
    p = functools.partial(cap, a=1)
    p.keywords[Text("b")] = 2
    return sorted(p()[1])


def equality_of_another_class(x):
    class N(int):
        __eq__ = str.__eq__

    return N(1) == 1


def the_type_of_method_wrappers(x):
    return (
        type((3).__lt__).__name__,
        isinstance((3).__lt__, types.MethodWrapperType),
        isinstance((3).bit_length, types.MethodWrapperType),
        type([].__len__).__name__,
    )


def an_index_that_is_a_bool(x):
    class C:
        def __index__(self):
            return True

    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        int(C())
    return len(w)


def a_deleted_cell(x):
    a = 12

    def f():
        return a

    del f.__closure__[0].cell_contents
    return a


def a_deleted_cell_of_an_inner_function(x):
    a = 12

    def f():
        return a

    del a
    return f()


class Getattribute:
    def __getattribute__(s, n):
        return "G." + n


def the_class_is_asked_like_an_attribute(x):
    return Getattribute().__class__


def a_property_error_names_the_qualified_class(x):
    class C:
        @property
        def w(s):
            return 1

    try:
        C().w = 2
    except AttributeError as e:
        return str(e)


DEEP = 400 if "rollback" in ON else 4000  # there, states are compared after each instruction


def a_deep_tuple_of_classes(x):
    t = ()
    for i in range(DEEP):
        t = (t,)
    return isinstance(1, t)


def a_partial_that_changes_while_it_is_shown(x):
    p = functools.partial(cap)

    class M:
        def __str__(self):
            p.keywords[self] = ["sth2"]
            return "astr"

    p.keywords[M()] = ["sth"]
    return repr(p)[-16:]


def an_ordered_dict_changed_by_dict(x):
    d = collections.OrderedDict(a=1, b=2)
    dict.__delitem__(d, "a")
    return list(d.items())


def an_ordered_dict_filled_by_dict(x):
    d = collections.OrderedDict(a=1)
    dict.__setitem__(d, "z", 1)
    return list(d.items()), len(d), dict.__len__(d)


def slot_names_that_a_class_says(x):
    class C:
        __slotnames__ = ["spam"]

        def __getattr__(self, n):
            if n == "spam":
                return 42
            raise AttributeError

    return C().__reduce_ex__(2)[2]


def a_length_hint_is_asked(x):
    log = []

    class C:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration

        def __length_hint__(self):
            log.append(1)
            return 0

    list(C())
    return log


def what_a_failed_unpacking_read_is_let_go(x):
    class V:
        pass

    l = [V()]
    ref = weakref.ref(l[0])
    try:
        a, b = iter(l)
    except ValueError:
        pass
    del l
    return ref() is None


class Merges(dict):
    def keys(self):
        return ["k"]

    def __getitem__(self, k):
        return k + "!"


def a_subclass_of_dict_is_merged_by_its_keys(x):
    return Merges(a=1) | {"b": 2}, {"b": 2} | Merges(a=1), dict(Merges(a=1)), {**Merges(a=1)}


def what_close_gives(x):
    def g():
        try:
            yield 1
        except GeneratorExit:
            return 7

    it = g()
    next(it)
    return it.close()


class Bound:
    def meth(self):
        return self.name

    def __init__(self, name):
        self.name = name


def a_bound_method_is_not_bound_again(x):
    a, b = Bound("a"), Bound("b")
    b.meth = a.meth.__get__(b, Bound)
    return b.meth()


def the_state_of_the_random_module(x):
    version, state, gauss = random.getstate()
    return version, len(state), gauss


def variables_that_locals_took(x):
    locals()["zz"] = 5
    return sorted(vars())


def dead_variables_of_a_caller(x):
    first = 1
    second = first + 1
    return seen()


def seen():
    return sorted(sys._getframe(1).f_locals)


def views_that_hold_what_has_no_hash(x):
    held, other = collections.defaultdict(list, m=[1]), {"k": 1}
    a, b = held.items(), other.items()
    found = [
        a <= b,
        a == b,
        a < {"k": 1, "m": [1]}.items(),
        b >= a,
        a != b,
        a.isdisjoint(b),
        b.isdisjoint(a),
        ("m", [1]) in a,
        ("k", []) in b,
        ["m", [1]] in a,
    ]
    try:
        return found, a | b
    except TypeError as error:
        return found, str(error)


def common_items_of_views(x):
    a, b = {"m": [1], "k": 1}, {"k": 1}
    return a.items() & b.items(), b.items() & a.items(), {"k": 2}.items() ^ b.items()


# The programs of this file so far: functions of one argument, x.
PROGRAMS = [
    value
    for value in list(globals().values())
    if isinstance(value, types.FunctionType)
    and value.__module__ == __name__
    and value.__code__.co_varnames[:1] == ("x",)
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program(program):
    x = G.ones(2)
    plain = [outcome(program, x) for _ in range(3)]
    compiled = G.compile(program, backend="eager")
    assert [outcome(compiled, x) for _ in range(3)] == plain


def test_a_call_method_that_is_set_later_makes_callable():
    class B:
        pass

    b = B()
    compiled = G.compile(lambda x: callable(b), backend="eager")
    assert compiled(G.ones(1)) is False
    B.__call__ = lambda self: 1
    assert compiled(G.ones(1)) is True
    del B.__call__
    assert compiled(G.ones(1)) is False


def test_a_method_of_c_that_super_found_is_called_and_no_other():
    with _dynamo.capture_all():
        version, state, gauss = random.getstate()
        own = random.Random(3).getstate()
    assert (version, len(state), gauss) == (
        random.getstate()[0],
        len(random.getstate()[1]),
        random.getstate()[2],
    )
    assert own == random.Random(3).getstate()


# -- Sorting ---------------------------------------------------------------------------------------

nan = float("nan")


def compared(p, q):
    return (p > q) - (p < q)


def lists_of(n_lists):
    draw = random.Random(5)
    yield [-1.0, 2.0, nan, 0.0]
    for i in range(n_lists):
        n = draw.choice(
            [2, 3, 5, 8, 20] if "rollback" in ON else [2, 3, 5, 8, 20, 33, 64, 65, 70, 150, 300]
        )
        kind = draw.randrange(5)
        values = [float(draw.randrange(n if kind else 4)) for _ in range(n)]
        if kind == 1:
            values = [nan if draw.random() < 0.2 else v for v in values]
        if kind == 2:
            values.sort()
            values[draw.randrange(n)] = -1.0
        if kind == 3:
            values = sorted(values[: n // 2], reverse=True) + sorted(values[n // 2 :])
        if kind == 4:
            values = sorted(values, reverse=True)
        yield values


class Logged:
    def __init__(self, v, log):
        self.v, self.log = v, log

    def __lt__(self, other):
        self.log.append((self.v, other.v))
        return self.v < other.v


def as_new(function):
    """The function with a code object of its own: how often it was compiled before does not
    count."""
    return types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_a_sort_with_a_comparison_is_pythons(reverse):
    for values in lists_of(30):

        def sort(x):
            return sorted(values, key=functools.cmp_to_key(compared), reverse=reverse)

        assert repr(G.compile(as_new(sort), backend="eager")(None)) == repr(sort(None))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_sort_asks_the_comparisons_that_pythons_asks_in_its_order(reverse):
    for values in lists_of(20):

        def sort(x):
            log = []
            items = [Logged(v, log) for v in values]
            items.sort(reverse=reverse)
            return [i.v for i in items], log

        plain, compiled = sort(None), G.compile(as_new(sort), backend="eager")(None)
        assert repr(compiled) == repr(plain)


def changed_while_sorted(x):
    m = [3, 1, 2]
    try:
        m.sort(key=lambda v: m.append(v) or v)
        return list(m)
    except ValueError as error:
        return str(error), len(m)


def empty_while_sorted(x):
    m, seen = [3, 1, 2], []
    m.sort(key=lambda v: seen.append(len(m)) or v)
    return m, seen


def a_key_that_raises(x):
    m = [3, 1, 2]

    def key(v):
        if v == 2:
            raise KeyError(v)
        return -v

    try:
        m.sort(key=key)
    except KeyError as error:
        return m, str(error)


class Raises:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        if self.v == 1:
            raise KeyError("no")
        return self.v < other.v


def a_comparison_that_raises_leaves_a_permutation(x):
    m = [Raises(v) for v in (5, 4, 3, 1, 2, 0)]
    try:
        m.sort()
    except KeyError as error:
        return [o.v for o in m], str(error)


class ChangesList:
    def __init__(self, v, of):
        self.v, self.of = v, of

    def __lt__(self, other):
        self.of.append(self.v)
        return self.v < other.v


def a_comparison_that_changes_the_list(x):
    m = []
    m.extend([ChangesList(v, m) for v in (3, 1, 2)])
    try:
        m.sort()
    except ValueError as error:
        return str(error), [o.v for o in m]


class TruthOfLess:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        return [1] if self.v < other.v else []


def a_comparison_that_gives_no_bool(x):
    return [o.v for o in sorted([TruthOfLess(3), TruthOfLess(1), TruthOfLess(2)])]


def keys_of_two_types(x):
    try:
        return sorted([1, "a", 2])
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize(
    "program",
    [
        changed_while_sorted,
        empty_while_sorted,
        a_key_that_raises,
        a_comparison_that_raises_leaves_a_permutation,
        a_comparison_that_changes_the_list,
        a_comparison_that_gives_no_bool,
        keys_of_two_types,
    ],
    ids=lambda f: f.__name__,
)
def test_a_list_that_is_being_sorted(program):
    test_a_program(program)
