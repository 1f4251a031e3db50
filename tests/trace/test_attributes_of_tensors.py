# SPDX-License-Identifier: Apache-2.0
"""Attributes of a program's own on tensors: those that come from outside and those that a compiled
function makes."""

import copy

import pytest

import gramme as G
from stress import FORCED


def given(x):
    x.foo = 1
    return x + x.foo


def made(x):
    y = x * 2
    y.foo = 5
    return y


def deleted(x):
    y = x * 2
    y.foo = 5
    del y.foo
    return y, hasattr(y, "foo")


def in_a_circle(x):
    y = x * 2
    y.me, y.a = [y], x
    return y, y


def over_a_break(x):
    x.foo = [x]
    y = x + 1
    y.t = x.mean()
    print(end="")
    y.t = y.t + 1
    x.foo.append(2)
    return y


def copied(x):
    y = x + 1
    y.foo = 3
    return copy.copy(y), copy.deepcopy(y)


def deepcopied(x):
    x.bar = [1]
    return copy.deepcopy(x)


def gone(x):
    del x.foo
    return x


def gone_or_not(x):
    if hasattr(x, "foo"):
        del x.foo
    return x


def a_method_hidden(x):
    x.add = 5
    return x, x.add


def order(x):
    y = x * 1
    y.b, y.a = 1, 2
    y.b = 3
    del y.a
    y.a = 4
    return [y.a, y]


def refused(x):
    x.shape = 3
    return x


def same_object(x):
    y = x.relu()
    y.tag = "t"
    z = y.mul_(2)
    return z.tag, y, z is y, y.clone()


def by_name(x):
    setattr(x, "q", x.sum())
    return getattr(x, "q"), x


def stays_inside(x):
    y = x * 2
    y.foo = x
    return (y.foo + y) * 2


PROGRAMS = [
    given,
    made,
    deleted,
    in_a_circle,
    over_a_break,
    copied,
    deepcopied,
    gone,
    gone_or_not,
    a_method_hidden,
    order,
    refused,
    same_object,
    by_name,
    stays_inside,
]
RECORDED = [given, made, deleted, in_a_circle, order, same_object, by_name, stays_inside]


def described(v, seen):
    """Nested tuples that are equal when values, attributes, their order and sharing are."""
    if id(v) in seen:
        return ("again", seen[id(v)])
    seen[id(v)] = len(seen)
    if isinstance(v, G.Tensor):
        return v.tolist(), [(k, described(w, seen)) for k, w in v.__dict__.items()]
    if isinstance(v, (list, tuple)):
        return type(v).__name__, [described(w, seen) for w in v]
    return repr(v)


def run(f, attributes):
    x = G.ones(2)
    for name, value in attributes.items():
        setattr(x, name, value)
    try:
        result = f(x)
    except AttributeError as e:
        result = repr(e)
    return described([result, x], {})


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_attributes_are_as_plain_python_leaves_them(program):
    compiled = G.compile(program, backend="eager")
    for attributes in ({}, {"foo": 7}, {"a": 1, "foo": [2]}, {}, {"q": 2}):
        assert run(compiled, attributes) == run(program, attributes), attributes


@pytest.mark.parametrize("program", RECORDED, ids=lambda f: f.__name__)
def test_they_are_stored_without_a_break(program):
    compiled = G.compile(program, backend="eager", fullgraph=not FORCED)
    assert run(compiled, {}) == run(program, {})


def test_a_tensor_keeps_its_history_beside_its_attributes():
    w = G.ones(2, requires_grad=True)
    y = G.compile(made, backend="eager")(w)
    y.sum().backward()
    assert y.foo == 5 and w.grad.tolist() == [2.0, 2.0]


def test_a_body_that_marks_a_tensor_is_refused():
    x = G.ones(2)

    def marks(x):
        y = x + 1
        y.foo = 1
        return y

    compiled = G.compile(
        lambda p, x: G.cond(p, marks, lambda x: x - 1, (x,)), backend="eager", fullgraph=True
    )
    with pytest.raises(G.compiler.Unsupported):
        compiled(G.tensor(True), x)


def test_a_graph_that_fails_leaves_what_plain_python_leaves():
    def f(x, i):
        x.before = 1
        y = x[i]
        x.after = 2
        return y

    compiled = G.compile(f, backend="eager")
    for i in (0, 9):
        left = []
        for g in (f, compiled):
            x = G.ones(2)
            try:
                g(x, i)
            except IndexError:
                pass
            left.append(x.__dict__)
        assert left[0] == left[1]


def stored_in_the_dict(x, d):
    d["foo"] = 3.0
    return x.foo, x * 2


def stored_beside_the_dict(x, d):
    x.foo = 3.0
    return d["foo"], x * 2


def deleted_in_the_dict(x, d):
    del d["foo"]
    return hasattr(x, "foo"), x * 2


def dict_of_a_tensor_made(x, d):
    y = x + 1
    y.foo = 1.0
    own = y.__dict__
    own["foo"] = 3.0
    return y.foo, y


def values_after_a_store(x, d):
    values = iter(d.values())
    x.foo = 4.0
    return [x * v for v in values]


@pytest.mark.parametrize(
    "f",
    [
        stored_in_the_dict,
        stored_beside_the_dict,
        deleted_in_the_dict,
        dict_of_a_tensor_made,
        values_after_a_store,
    ],
)
def test_a_tensor_and_its_dict_show_the_same_attributes(f):
    def run(f):
        x = G.ones(2)
        x.foo = 1.0
        found = f(x, x.__dict__)
        return str(found), str(x.__dict__)

    assert run(G.compile(f, backend="eager")) == run(f)
