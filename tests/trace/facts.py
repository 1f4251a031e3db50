# SPDX-License-Identifier: Apache-2.0
"""The table of facts that test_fact_table.py changes one by one: how a row is made, and what rows
share.

A row is a function that makes another, its arguments, and what changes them; facts_*.py add the
rows.
"""

import types

import pytest

import gramme as G
from gramme import nn

FACTS = []


def fact(again):
    """again: whether the change must lead to a new entry (True), must not (False), or may
    (None)."""

    def add(make):
        FACTS.append(pytest.param(make, again, id=make.__name__))
        return make

    return add


class Box:
    """An object with whatever attributes are given."""

    kind = 1
    table = {"a": 1}

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def scaled(self, x):
        return x * self.kind

    @property
    def doubled(self):
        return self.kind * 2

    @staticmethod
    def plus(x):
        return x + 1

    @classmethod
    def made(cls, x):
        return x + cls.kind


def fresh_class(base=Box, name="Fresh", **attributes):
    return type(name, (base,), attributes)


def module_of(**names):
    module = types.ModuleType("a_module_of_facts")
    module.__dict__.update(names)
    return module


def with_globals(fn, **names):
    """fn with globals of its own."""
    return types.FunctionType(
        fn.__code__.replace(), {"G": G, "__builtins__": __builtins__, **names}, fn.__name__
    )


X = G.arange(6, dtype=G.float32).reshape(2, 3)


def value_row(name, first, second, again=True, use=lambda x, v: x * v):
    def make():
        return use, (X, first), lambda: (X, second)

    make.__name__ = name
    FACTS.append(pytest.param(make, again, id=name))


def tensor_row(name, first, second, again=True, use=lambda x: x * 2 + 1):
    def make():
        return use, (first(),), lambda: (second(),)

    make.__name__ = name
    FACTS.append(pytest.param(make, again, id=name))


def tower(depth=4):
    return nn.Sequential(*[nn.Linear(3, 3) for _ in range(depth)])
