# SPDX-License-Identifier: Apache-2.0
"""Lines of everyday code that need no graph break: each is recorded whole, with plain Python's
result."""

import functools
import itertools
import re
import typing

import pytest

import gramme as G
from stress import undisturbed

X = G.tensor([[1.5, -2.0, 3.0], [0.0, 5.0, -6.5]])
PART = functools.partial(lambda a, b: a + b, b=1)


class Thing:
    pass


class Named(Thing):
    class Inner:
        pass


def inner_annotations(x):
    def inner(l: typing.List[G.Tensor]) -> typing.List[G.Tensor]:
        return l[0]

    return inner([x]) + 1


def decorated(x):
    @G.no_grad()
    def inner(y, *, k):
        return y * k

    return inner(x, k=2), inner(x, k=3).requires_grad, (x * 2).requires_grad


def decorated_without_a_call(x):
    @G.no_grad
    def inner(y):
        return y * 2

    return inner(x).requires_grad, inner.__name__


def enabled(x):
    with G.no_grad():
        f = G.enable_grad()(lambda y: y * 2)
        return f(x).requires_grad, (x * 2).requires_grad


def raises_inside(x):
    @G.no_grad()
    def inner(y):
        raise KeyError("inner")

    try:
        inner(x)
    except KeyError:
        return (x * 2).requires_grad


LINES = {
    "device": lambda x: x.to(G.device("cpu")) + 1,
    "device with an index": lambda x: (G.device("cpu", 0).type, G.zeros(2, device=G.device("cpu"))),
    "device as a text": lambda x: (str(G.device("cpu")), G.device("cpu") == x.device),
    "tensor of a tensor": lambda x: (
        G.tensor(x) + 1,
        G.tensor(x.t()).stride(),
        G.tensor(x) is x,
        G.tensor(x).requires_grad,
    ),
    "tensor of a tensor is a copy": lambda x: (lambda y: (y.mul_(2), x + 0))(G.tensor(x)),
    "to (int)": lambda x: (x.to(int) + 1, x.to(float), x.to(bool), x.to(dtype=int)),
    "dtype=int": lambda x: (
        G.zeros(2, dtype=int),
        G.ones(2, dtype=float),
        G.full((2,), 1, dtype=bool),
    ),
    "hasattr of a partial": lambda x: x
    + hasattr(PART, "__call__")
    + hasattr(PART, "nothing")
    + hasattr(PART, "func"),
    "hasattr of a tensor": lambda x: (
        hasattr(x, "shape"),
        hasattr(x, "no_such"),
        hasattr(x, "__len__"),
    ),
    "hasattr of an object": lambda x: (
        hasattr(Thing(), "__init__"),
        hasattr(Thing(), "__reduce__"),
        hasattr(Thing(), "x"),
    ),
    "co_varnames": lambda x: (
        decorated.__code__.co_varnames,
        decorated.__code__.co_argcount,
        decorated.__code__.co_name,
        decorated.__code__.co_freevars,
    ),
    "co_names": lambda x: len(raises_inside.__code__.co_names),
    "str of a class": lambda x: (
        str(type(x)),
        repr(Named),
        f"{Named.Inner}",
        str(int),
        "%s" % list,
        str(type(None)),
    ),
    "module of a class": lambda x: (type(x).__module__, int.__module__, Named.__module__),
    "annotations": inner_annotations,
    "no_grad () as a decorator": decorated,
    "no_grad as a decorator": decorated_without_a_call,
    "enable_grad () as a decorator": enabled,
    "a decorated function that raises": raises_inside,
}


class Key:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return self.v == other.v

    __hash__ = None


def two_groups(x, l):
    groups = itertools.groupby(l)
    a, b = next(groups, (None, ())), next(groups, (None, ()))
    return a[0], list(a[1]), b[0], list(b[1])  # the first group is over when the second begins


def first_of_each(x, l):
    return [next(v) for k, v in itertools.groupby(l, lambda a: a % 2)], x + 1


def key_that_raises(x, l):
    try:
        return [list(v) for k, v in itertools.groupby(l, key=lambda a: 1 // (a - 2))]
    except ZeroDivisionError as error:
        return str(error)


def left_over(x, l):
    groups = itertools.groupby(l)
    for k, v in groups:
        break
    return [len(list(v)) for k, v in groups], next(groups, 5)


GROUPS = {
    "values": lambda x, l: [(k, list(v)) for k, v in itertools.groupby(l)],
    "a key": lambda x, l: [(k, list(v)) for k, v in itertools.groupby(l, key=lambda a: a // 2)],
    "keys of the user's": lambda x, l: [
        (k.v, len(list(v))) for k, v in itertools.groupby([Key(i // 2) for i in l])
    ],
    "a text": lambda x, l: sum(len(list(v)) for k, v in itertools.groupby("aabccc")) + x,
    "tensors": lambda x, l: [
        (k, sum(v)) for k, v in itertools.groupby([x, x + 1, x[0]], key=lambda t: t.dim())
    ],
    "groups that are read late": lambda x, l: [list(v) for k, v in list(itertools.groupby(l))],
    "two groups": two_groups,
    "the first of each": first_of_each,
    "a key that raises": key_that_raises,
    "what is left over": left_over,
}


@undisturbed
@pytest.mark.parametrize("form", GROUPS)
def test_groupby_is_recorded(form):
    f = GROUPS[form]
    for l in ([1, 1, 2], [], [1, 2, 3, 4, 5, 5], [0, 0, 0], [3, 1, 2]):
        assert repr(G.compile(f, backend="eager", fullgraph=True)(X, l)) == repr(f(X, l)), l


def test_a_groupby_that_leaves_is_a_break():
    f = lambda x, l: (x + 1, itertools.groupby(l))
    assert [(k, list(v)) for k, v in G.compile(f, backend="eager")(X, [1, 1, 2])[1]] == [
        (1, [1, 1]),
        (2, [2]),
    ]


def test_a_graph_module_has_the_methods_of_a_module_without_state():
    found = []
    G.compile(lambda x: x + 1, backend=lambda module, examples: found.append(module) or module)(X)
    (module,) = found
    assert (
        module.state_dict() == {}
        and module.training
        and module.eval() is module
        and not module.training
        and module.train().training
    )


def text(value):
    return re.sub(r"grad_fn=<\w+>", "grad_fn", repr(value))


@undisturbed
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("line", LINES)
def test_a_line_is_recorded_whole(line, grad):
    f = LINES[line]
    want = text(f(X.clone().requires_grad_(grad)))
    compiled = G.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        assert text(compiled(X.clone().requires_grad_(grad))) == want
    assert compiled.status()["breaks"] == []


def test_the_text_of_a_class_is_guarded():
    class Renamed:
        pass

    compiled = G.compile(lambda x: (x + 1, str(Renamed)), backend="eager", fullgraph=True)
    assert compiled(X)[1] == str(Renamed)
    Renamed.__qualname__ = "Other"
    assert compiled(X)[1] == str(Renamed) and "Other" in str(Renamed)
    Renamed.__module__ = "elsewhere"
    assert compiled(X)[1] == str(Renamed) == "<class 'elsewhere.Other'>"


def test_a_metaclass_with_a_text_of_its_own_is_asked():
    class Meta(type):
        def __repr__(cls):
            return "meta"

    class Made(metaclass=Meta):
        pass

    assert G.compile(lambda x: (x, str(Made)), backend="eager")(X)[1] == "meta"


def test_a_code_that_is_replaced_is_noticed():
    def f(a, b):
        return a

    def g(a):
        return a

    compiled = G.compile(lambda x: (x, f.__code__.co_varnames), backend="eager", fullgraph=True)
    assert compiled(X)[1] == ("a", "b")
    f.__code__ = g.__code__
    assert compiled(X)[1] == ("a",)
