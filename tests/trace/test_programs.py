# SPDX-License-Identifier: Apache-2.0
"""Runs each case of programs_*.py twice, plain and compiled, and compares everything that the case
can see.

A case is a function `case_*(compile)` that returns what is to be compared; `compile` is
gramme.compile, or leaves functions as they are.  The line above a case says
what the compiled run must show, summed over the functions that it compiled:  # expect: graphs=1
breaks=0 Where an interpreter's bytecode makes other steps of a statement, its own counts follow:  #
expect: graphs=2 breaks=1; 3.12: graphs=3 breaks=1 (that version and later ones); "any" where they
follow from how the standard library is written. Values are compared to the last bit, with their
types and with the pattern of identities; exceptions by type and text.
"""

import gc
import glob
import importlib.util
import os
import re
import sys
import warnings

import pytest

import gramme
from stress import FORCED

HERE = os.path.dirname(os.path.abspath(__file__))


def counts_wanted(expect):
    common, *others = expect.split("; ")
    for other in others:
        version, counts = other.split(": ")
        if sys.version_info >= tuple(int(n) for n in version.split(".")):
            common = counts
    if common == "any":
        return {}
    return {key: int(value) for key, value in (item.split("=") for item in common.split())}


def load_cases():
    cases = []
    for path in sorted(glob.glob(os.path.join(HERE, "programs_*.py"))):
        name = os.path.splitext(os.path.basename(path))[0]
        if name == "programs_numpy" and importlib.util.find_spec("numpy") is None:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with open(path) as file:
            text = file.read()
        found = re.findall(r"^# expect: (.*)\ndef (case_\w+)\(compile\)", text, re.M)
        names = [case for _, case in found]
        assert sorted(names) == sorted(
            n for n in vars(module) if n.startswith("case_")
        ), f"{path}: a case without # expect:"
        assert len(set(names)) == len(names), f"{path}: two cases of one name"
        for expect, case in found:
            wants = counts_wanted(expect)
            cases.append(pytest.param(getattr(module, case), wants, id=f"{name[9:]}-{case[5:]}"))
    return cases


def describe(value, seen):
    """A value as nested tuples: equal for equal values, types and sharing."""
    if isinstance(value, (int, str, bytes, bool, type(None), type(Ellipsis))):
        return (type(value).__name__, value)
    if isinstance(value, float):
        return ("float", value.hex())
    if id(value) in seen:
        return ("again", seen[id(value)][0])
    seen[id(value)] = (len(seen), value)  # keeps it alive: no id is used twice
    kind = type(value).__name__
    if isinstance(value, gramme.Tensor):
        grad = None if value.grad is None else describe(value.grad, seen)
        data = b"".join([value.detach().contiguous()])
        return (
            kind,
            str(value.dtype),
            tuple(value.shape),
            value.stride(),
            value.requires_grad,
            data,
            grad,
        )
    if isinstance(value, (list, tuple)):
        return (kind, [describe(item, seen) for item in value])
    if isinstance(value, dict):
        return (kind, [(describe(k, seen), describe(v, seen)) for k, v in value.items()])
    if isinstance(value, (set, frozenset)):
        return (kind, [describe(item, seen) for item in value])
    if isinstance(value, BaseException):
        return (kind, str(value))
    if callable(value) and hasattr(value, "__name__"):
        return ("callable", value.__name__)
    if hasattr(value, "__dict__"):
        return (kind, describe(vars(value), seen))
    return (kind, repr(value))


def outcome(case, compile):
    gramme.manual_seed(7)
    try:
        result = case(compile)
    except Exception as error:
        result = error
    return describe(result, {})


@pytest.fixture
def no_collection():
    """A class of a case that is collected takes the entries with it that are counted afterwards."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("case, wants", load_cases())
@pytest.mark.usefixtures("no_collection")
def test_program(case, wants):
    made = []
    gc.disable()  # an entry dies with a class of the case's, and would not be counted
    try:
        compare(case, wants, made)
    finally:
        gc.enable()


def compare(case, wants, made):
    def compiled(fn):
        c = gramme.compile(fn, backend="eager")
        made.append(c)
        return c

    plain = outcome(case, lambda fn: fn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = outcome(case, compiled)
    reasons = [reason for c in made for reason in c.status()["breaks"]]
    assert got == plain, reasons
    if FORCED:
        return  # breaks where nobody asked for one
    found = {"graphs": sum(c.status()["graphs"] for c in made), "breaks": len(reasons)}
    assert {key: found[key] for key in wants} == wants, reasons
