# SPDX-License-Identifier: Apache-2.0
"""A guard looks into dicts and runs no code of the user's: a key's __eq__ is called as often as
plain Python calls it."""

import sys
import types
import warnings

import pytest

import gramme as G

asked = []


class Key:
    """Has the hash of a name that programs look for."""

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        asked.append(other)
        return False


class Plain:
    pass


def index(d):
    return d["a"] + 1


def get(d):
    return d.get("a", 5)


def contains(d):
    return "a" in d


def attribute(o):
    return o.a


def no_attribute(o):
    return hasattr(o, "a")


def of_number(d):
    return d[1]


def as_object(d):
    o = Plain()
    vars(o).update(d)
    return o


CASES = {
    "an_item": (index, lambda: {"a": 1}, lambda: {Key("a"): 1, "a": 2}),
    "an_item_that_is_far": (index, lambda: {"a": 1}, lambda: {"a": 3, Key("a"): 1}),
    "get": (get, lambda: {"a": 1}, lambda: {Key("a"): 1, "a": 2}),
    "an_absent_item": (get, lambda: {"b": 1}, lambda: {"b": 1, Key("a"): 2}),
    "membership": (contains, lambda: {"b": 1}, lambda: {"b": 1, Key("a"): 2}),
    "a_number": (of_number, lambda: {1: 2}, lambda: {Key(1): 3, 1: 4}),
    "an_attribute": (
        attribute,
        lambda: as_object({"a": 1}),
        lambda: as_object({Key("a"): 1, "a": 2}),
    ),
    "an_absent_attribute": (
        no_attribute,
        lambda: as_object({"b": 1}),
        lambda: as_object({"b": 1, Key("a"): 2}),
    ),
}


def seen(f, *values):
    results = []
    for value in values:
        asked.clear()
        results.append((f(value), list(asked)))
    return results


@pytest.mark.parametrize("case", CASES)
def test_a_key_of_the_same_hash_is_asked_as_often_as_in_plain_python(case):
    f, first, later = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = G.compile(f, backend="eager")
        values = [first(), later(), first(), later()]
        plain, found = seen(f, *values), seen(compiled, *values)
    if "attribute" in case and sys.version_info >= (
        3,
        12,
    ):  # how often CPython asks depends on what it has specialized
        plain, found = [value for value, _ in plain], [value for value, _ in found]
    assert found == plain


def test_a_key_that_is_added_to_the_same_dict_later():
    d = {"a": 1}
    compiled = G.compile(index, backend="eager")
    assert compiled(d) == 2
    del d["a"]
    d[Key("a")] = 7
    d["a"] = 3
    assert seen(compiled, d) == seen(index, d)
    assert asked  # or the test shows nothing


def test_a_global_beside_a_key_of_the_same_hash():
    module = types.ModuleType("m")
    exec("def f():\n    return a\n", vars(module))
    module.a = 1
    compiled = G.compile(module.f, backend="eager")
    assert compiled() == 1
    del module.a
    vars(module)[Key("a")] = 2
    module.a = 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled() == 3


def test_equal_constants_of_several_types_are_one_key():
    compiled = G.compile(of_number, backend="eager")
    for d in ({1: "int"}, {True: "bool"}, {1.0: "float", "x": 1}, {2: 0, True: "again"}):
        assert compiled(d) == of_number(d)
