# SPDX-License-Identifier: Apache-2.0
"""Exceptions, blocks and loops that hold the last reference to objects with finalizers: each object dies where plain Python lets it die, and the
names that a handler binds and unbinds are bound where plain Python has them."""

import contextlib
import warnings

import pytest

import gramme as G

log = []


class Finalized:
    def __init__(self, n=4):
        self.n = n

    def __del__(self):
        log.append(f"{self.n} died")


class Finally(Exception):
    def __del__(self):
        log.append("the exception died")


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        log.append("left")
        return True

    def __del__(self):
        log.append("the manager died")


@G.compiler.disable
def stop():
    log.append("stop")


def fails(value):
    raise ValueError(value)


# Bodies of functions of a tensor x, with D for Finalized.
BODIES = {
    "handler": "try: raise ValueError(D())\nexcept ValueError as e: y = x + 1",
    "handler that reads the argument": "try: raise ValueError(D())\nexcept ValueError as e: y = x + e.args[0].n",
    "handler that keeps the argument": "try: raise ValueError(D())\nexcept ValueError as e:\n  o = e.args[0]; y = x + o.n\nlog.append('b')",
    "handler without a name": "try: raise ValueError(D())\nexcept ValueError: y = x + 1\nlog.append('b')",
    "second clause": "try: raise ValueError(D())\nexcept TypeError as e: y = x\nexcept (KeyError, ValueError) as e: y = x + 1",
    "finally": "try: raise ValueError(D())\nexcept ValueError as e: y = x + 1\nfinally: log.append('f')",
    "loop": "y = x\nfor i in range(3):\n  try: raise ValueError(D(i))\n  except ValueError as e: y = y + 1\n  log.append(i)",
    "loop that goes on": "y = x\nfor i in range(3):\n  try: raise ValueError(D(i))\n  except ValueError as e:\n    y = y + 1; continue\n  log.append(i)",
    "loop that is left": "y = x\nfor i in range(3):\n  try: raise ValueError(D(i))\n  except ValueError as e:\n    y = y + 1; break",
    "while": "y = x; i = 0\nwhile i < 3:\n  try: raise ValueError(D(i))\n  except ValueError as e: y = y + 1\n  i += 1",
    "return": "try: raise ValueError(D())\nexcept ValueError as e: return x + 1",
    "nested": "try: raise ValueError(D(1))\nexcept ValueError as e:\n  y = x + 1\n  try: raise TypeError(D(2))\n  except TypeError as f: y = y * 2\n  log.append('a')\nlog.append('b')",
    "nested of one name": "try: raise ValueError(D(1))\nexcept ValueError as e:\n  y = x + 1\n  try: raise TypeError(D(2))\n  except TypeError as e: y = y * 2\nlog.append('b')",
    "raised again": "try:\n  try: raise ValueError(D(1))\n  except ValueError as e:\n    y = x + 1\n    raise\nexcept ValueError as f: y = x * 2\nlog.append('b')",
    "cause": "try:\n  try: raise ValueError(D(1))\n  except ValueError as e: raise TypeError(D(2)) from e\nexcept TypeError as f: y = x * 2\nlog.append('b')",
    "del": "try: raise ValueError(D(1))\nexcept ValueError as e:\n  del e\n  log.append('a'); y = x + 1\nlog.append('b')",
    "rebinding": "try: raise ValueError(D(1))\nexcept ValueError as e:\n  e = 3\n  y = x + e\nlog.append('b')",
    "kept": "try: raise ValueError(D(1))\nexcept ValueError as e:\n  k = e; y = x + 1\nlog.append('a'); k = None; log.append('b')",
    "name read later": "e = 5\ntry: raise ValueError(D(1))\nexcept ValueError as e: y = x + 1\ntry: e\nexcept UnboundLocalError: y = y * 2",
    "callee": "try: fails(D(1))\nexcept ValueError as e: y = x + 1\nlog.append('b')",
    "finalizer of the exception": "try: raise Finally(1)\nexcept Finally as e: y = x + 1\nlog.append('b')",
    "attribute of the exception": "try:\n  k = ValueError(); k.d = D(2); raise k\nexcept ValueError as e: y = x + 1\nk = None; log.append('b')",
    "break in the handler": "try: raise ValueError(D(1))\nexcept ValueError as e:\n  y = x + 1; stop(); y = y * 2\nlog.append('b')",
    "with": "with Swallows() as c:\n  y = x + 1\n  raise ValueError(D(1))\nlog.append('b')",
    "suppress": "y = x\nwith contextlib.suppress(ValueError):\n  y = x + 1\n  raise ValueError(D(1))\nlog.append('b')",
    "group": "y = x\ntry: raise ExceptionGroup('g', [ValueError(D(1)), TypeError(D(2))])\nexcept* ValueError as e: y = y + 1\nexcept* TypeError as e: y = y * 2\nlog.append('b')",
    "failed look-up": "d = {}\ntry: d[D(1)]\nexcept KeyError as e: y = x + 1\nlog.append('b')",
    "assert": "try: assert x is None, D(1)\nexcept AssertionError as e: y = x + 1\nlog.append('b')",
    "comprehension": "d = D(9)\nr = [x + d.n for d in [D(1), D(2)]]\nlog.append('b'); y = r[1] + d.n",
    "comprehension over a captured name": "d = D(9)\nf = lambda: d\nr = [x + d.n for d in [D(1), D(2)]]\nlog.append('b'); y = r[1] + f().n; d = None; log.append('c')",
    "many variables": "; ".join(f"v{i} = {i}" for i in range(260)) + "\no = D(1); y = x + 1; o = 1; log.append('b'); y = y + o",
}


def function(body):
    source = "def f(x):\n" + "".join(f"    {line}\n" for line in body.split("\n")) + "    return y\n"
    space = {**globals(), "D": Finalized}
    exec(source, space)
    return space["f"]


def shown(fn):
    log.clear()
    result = fn(G.ones(2)).tolist()
    return result, list(log)


def agree(body, backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want, compiled = shown(function(body)), G.compile(function(body), backend=backend)
        assert [shown(compiled), shown(compiled)] == [want, want]
    assert want[1]


@pytest.mark.parametrize("case", BODIES)
def test_what_a_handler_holds_dies_at_its_place_and_its_names_are_bound_as_in_plain_python(case):
    agree(BODIES[case], "eager")


def test_a_back_end_that_generates_code_changes_nothing_about_handlers():
    agree(BODIES["loop"], "tcc")
