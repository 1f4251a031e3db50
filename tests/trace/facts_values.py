# SPDX-License-Identifier: Apache-2.0
"""Facts about arguments: numbers, strings, containers, tensors, and which of them are one
object."""

import enum
import functools
import math
import operator
from collections import namedtuple

import pytest

import gramme as G
from gramme import nn
from facts import X, Box, fact, fresh_class, tensor_row, value_row

# -- Arguments: each row is (f, args, change) where change returns the second call's arguments, or N


value_row("an_int", 2, 3)
value_row("an_int_of_another_sign", 2, -2)
value_row("a_large_int", 2**70, 2**70 + 2, use=lambda x, v: x * (v % 7))
value_row("an_equal_int_hits", 300, int("300"), again=False)
value_row("int_to_bool", 1, True)
value_row("bool_to_int", True, 1)
value_row("int_to_float", 2, 2.0, use=lambda x, v: G.arange(3) * v)
value_row("a_float", 2.0, 2.5)
value_row("zero_to_minus_zero", 0.0, -0.0, use=lambda x, v: x * v)
value_row("nan_to_nan", float("nan"), float("nan"), again=None, use=lambda x, v: x * v)
value_row("a_float_to_nan", 1.0, float("nan"))
value_row(
    "float_to_numpy_like_subclass",
    1.0,
    type("F", (float,), {})(3.0),
    use=lambda x, v: x * float(v),
    again=None,
)
value_row("a_string", "add", "mul", use=lambda x, v: x + x if v == "add" else x * x)
value_row(
    "an_equal_string_hits", "ab", "".join(["a", "b"]), use=lambda x, v: x + len(v), again=False
)
value_row("bytes", b"a", b"bc", use=lambda x, v: x + len(v))
value_row(
    "a_complex_number",
    1j,
    2j,
    use=lambda x, v: x + int(v.imag) if isinstance(v, complex) else x,
    again=None,
)
value_row("none_to_int", None, 3, use=lambda x, v: x if v is None else x * v)
value_row("ellipsis_to_none", ..., None, use=lambda x, v: x + 1 if v is ... else x + 2)
value_row("a_dtype", G.float32, G.float64, use=lambda x, v: x.to(v))
value_row("a_tuples_length", (1, 2), (1, 2, 3), use=lambda x, v: x + len(v))
value_row("a_tuples_item", (1, 2), (1, 3), use=lambda x, v: x + v[1])
value_row("an_unread_item_hits", (1, 2), (1, 3), use=lambda x, v: x + v[0], again=False)
value_row("tuple_to_list", (1, 2), [1, 2], use=lambda x, v: x + (1 if isinstance(v, tuple) else 2))
value_row("a_lists_length", [1, 2], [1, 2, 3], use=lambda x, v: x + len(v))
value_row("a_lists_item", [1, 2], [1, 5], use=lambda x, v: x + v[1])
value_row("a_nested_item", [1, [2, (3,)]], [1, [2, (4,)]], use=lambda x, v: x + v[1][1][0])
value_row("a_dicts_value", {"a": 1}, {"a": 2}, use=lambda x, v: x + v["a"])
value_row("a_dicts_missing_key", {"a": 1}, {"a": 1, "b": 2}, use=lambda x, v: x + v.get("b", 5))
value_row(
    "a_dicts_present_key", {"a": 1, "b": 2}, {"a": 1}, use=lambda x, v: x + (1 if "b" in v else 2)
)
value_row("a_key_that_is_only_touched", {"a": 1}, {}, use=lambda x, v: (v["a"], x + 1)[1])
value_row("an_attribute_that_is_only_touched", Box(w=1), Box(), use=lambda x, v: (v.w, x + 1)[1])
value_row(
    "a_present_attribute", Box(w=1), Box(), use=lambda x, v: x + (1 if hasattr(v, "w") else 2)
)
value_row(
    "a_dicts_order",
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    use=lambda x, v: functools.reduce(lambda a, k: a * 3 + v[k], v, x),
)
value_row("a_dicts_length", {"a": 1}, {"a": 1, "b": 1}, use=lambda x, v: x + len(v))
value_row(
    "an_unread_key_hits",
    {"a": 1, "b": 2},
    {"a": 1, "b": 3},
    use=lambda x, v: x + v["a"],
    again=False,
)
value_row("a_key_of_another_type", {1: 5}, {True: 6}, use=lambda x, v: x + v[1])
value_row("a_sets_members", {1, 2}, {1, 3}, use=lambda x, v: x + (1 if 2 in v else 2))
value_row("a_range", range(3), range(4), use=lambda x, v: x + len(v))
value_row("a_ranges_step", range(0, 6, 2), range(0, 6, 3), use=lambda x, v: x + sum(v))
value_row("a_slice", slice(0, 1), slice(1, 2), use=lambda x, v: x[v], again=None)
value_row("an_objects_class", Box(), fresh_class(kind=4)(), use=lambda x, v: x * v.kind)
value_row("an_instance_attribute", Box(w=2), Box(w=3), use=lambda x, v: x * v.w)
value_row("an_attribute_that_shadows_the_class", Box(), Box(kind=7), use=lambda x, v: x * v.kind)
value_row(
    "a_missing_attribute", Box(), Box(w=1), use=lambda x, v: x + (1 if hasattr(v, "w") else 2)
)
value_row("getattr_with_default", Box(), Box(w=9), use=lambda x, v: x + getattr(v, "w", 5))
value_row("an_equal_object_hits", Box(w=2), Box(w=2), use=lambda x, v: x * v.w, again=False)
value_row("a_function", lambda x: x + 1, lambda x: x + 2, use=lambda x, v: v(x))
value_row("a_builtin_function", math.sqrt, math.exp, use=lambda x, v: x * v(2.0))
value_row("a_class_as_argument", int, float, use=lambda x, v: x * v(2.7))
value_row("an_api_function", G.sin, G.cos, use=lambda x, v: v(x))
value_row("a_bound_method", Box(kind=2).scaled, Box(kind=3).scaled, use=lambda x, v: v(x))
value_row(
    "a_partial",
    functools.partial(operator.mul, 2),
    functools.partial(operator.mul, 3),
    use=lambda x, v: v(x),
    again=None,
)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


Pair = namedtuple("Pair", "a b")
value_row(
    "an_enum_member", Colour.RED, Colour.BLUE, use=lambda x, v: x + (1 if v is Colour.RED else 2)
)
value_row("a_named_tuples_field", Pair(1, 2), Pair(1, 3), use=lambda x, v: x + v.b)
value_row(
    "named_tuple_to_tuple",
    Pair(1, 2),
    (1, 2),
    use=lambda x, v: x + len(v) + (1 if isinstance(v, Pair) else 0),
)


tensor_row("a_tensors_size", lambda: G.ones(2, 3), lambda: G.ones(2, 4))
tensor_row("a_tensors_rank", lambda: G.ones(6), lambda: G.ones(2, 3))
tensor_row("a_tensors_dtype", lambda: G.ones(3), lambda: G.ones(3, dtype=G.float64))
tensor_row(
    "a_tensors_strides",
    lambda: G.ones(3, 3),
    lambda: G.ones(3, 3).t(),
    again=None,
    use=lambda x: x.stride()[0] + x,
)
tensor_row("requires_grad", lambda: G.ones(3), lambda: G.ones(3, requires_grad=True))
tensor_row("a_tensors_values_hit", lambda: G.ones(3), lambda: G.zeros(3), again=False)
tensor_row(
    "tensor_to_parameter",
    lambda: G.ones(3),
    lambda: nn.Parameter(G.ones(3)),
    use=lambda x: x + (1 if isinstance(x, nn.Parameter) else 2),
)
tensor_row("tensor_to_float", lambda: G.ones(1), lambda: 2.0)


# -- Aliases


@fact(True)
def two_arguments_become_one():
    a, b = G.ones(3), G.ones(3)
    return (lambda x, y: (x + (5 if x is y else 1), y)), (a, b), lambda: (a, a)


@fact(True)
def two_lists_become_one():
    def f(x, a, b):
        a.append(1)
        return x + len(b)

    return f, (X, [1], [1]), lambda: (lambda one: (X, one, one))([1])


@fact(True)
def a_written_tensor_shares_memory():
    def f(x, y):
        x.mul_(2)
        return x + y

    def change():
        base = G.arange(6, dtype=G.float32)
        return base[:4], base[2:6]

    return f, (G.ones(4), G.ones(4)), change


# -- More of tensors


@fact(True)
def a_tensors_attribute_changes():
    t = G.ones(3)
    t.tag = 2
    return (lambda x: t * t.tag), (X,), lambda: setattr(t, "tag", 3)


@fact(True)
def a_closed_over_tensors_data_has_another_shape():
    t = G.ones(3)
    return (lambda x: t * 2), (X,), lambda: setattr(t, "data", G.ones(4))


@fact(True)
def a_closed_over_tensor_requires_grad():
    t = G.ones(3)
    return (lambda x: t * 2), (X,), lambda: t.requires_grad_()


@fact(True)
def an_attributes_tensor_gets_other_data():
    box = Box(t=G.ones(3), u=1, v=1, w=1)
    return (
        (lambda x: box.t * 2 + box.u + box.v + box.w),
        (X,),
        lambda: setattr(box.t, "data", G.ones(4)),
    )


@fact(True)
def an_attributes_tensor_requires_grad():
    box = Box(t=G.ones(3), u=1, v=1, w=1)
    return (lambda x: box.t * 2 + box.u + box.v + box.w), (X,), lambda: box.t.requires_grad_()


@fact(True)
def an_attributes_tensor_is_written_to_with_history():
    box = Box(t=G.ones(3), u=1, v=1, w=1)

    def change():
        box.t.mul_(G.ones(3, requires_grad=True))

    return (lambda x: box.t * 2 + box.u + box.v + box.w), (X,), change


@fact(True)
def a_tensor_in_a_list_is_replaced():
    box = Box(items=[G.ones(3), G.ones(3)])

    def change():
        box.items[0] = None
        box.items[0] = G.ones(4)

    return (lambda x: box.items[0] + 1), (X,), change


@fact(True)
def a_parameters_class_is_assigned():
    kind = type("Special", (nn.Parameter,), {})
    box = Box(p=nn.Parameter(G.ones(3)), u=1, v=1, w=1)
    change = lambda: setattr(box.p, "__class__", kind)
    return (
        (lambda x: box.p * (1 if type(box.p) is nn.Parameter else 2) + box.u + box.v + box.w),
        (X,),
        change,
    )


@fact(None)
def a_tensors_gradient_appears():
    t = G.ones(3, requires_grad=True)
    return (lambda x: x + (1 if t.grad is None else 2)), (X,), lambda: setattr(t, "grad", G.ones(3))


@fact(True)
def a_numpy_arrays_shape():
    numpy = pytest.importorskip("numpy")
    return (lambda x, v: x + v.shape[0]), (X, numpy.ones(3)), lambda: (X, numpy.ones(4))
