# SPDX-License-Identifier: Apache-2.0
"""GB-2 and BC-2: breaks inside of `try`.  Where the instruction that breaks raises, its handler
runs as Python, and what follows the handler is recorded again; so the code that a break writes is
that of the handler, whatever comes behind it."""

import time
import types
import warnings

import pytest

import gramme as G
from stress import undisturbed

X = G.ones(3)


def risky(kind):
    """Breaks, and raises if it is told to."""
    print(end="")
    if kind:
        raise kind("told to")
    return 2.0


def stores_in_the_handler(x, kind):
    y = x + 1
    caught = None
    try:
        n = risky(kind)
        y = y * n
    except ValueError as e:
        caught = str(e)
        y = y - 5
        extra = 3
    else:
        extra = 4
    return y * extra, caught


def returns_from_the_handler(x, kind):
    try:
        x = x * risky(kind)
    except ValueError:
        return x - 1, "early"
    except KeyError:
        pass
    return x + 1, "late"


def raises_another(x, kind):
    y = x * 2
    try:
        try:
            y = y + risky(kind)
        except ValueError as e:
            raise KeyError("another") from e
        finally:
            y = y * 3
    except KeyError as e:
        return y, str(e), type(e.__cause__), type(e.__context__)
    return y, None


def in_a_loop(x, kind):
    seen = []
    for i in range(4):
        try:
            x = x + risky(kind if i % 2 else None)
        except ValueError:
            seen.append(i)
            continue
        except KeyError:
            break
        finally:
            seen.append(-i)
        x = x * 2
    return x, seen


class Manager:
    def __init__(self, swallows):
        self.log, self.swallows = [], swallows

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(kind)
        return self.swallows and kind is ValueError


def in_a_with(x, kind):
    manager = Manager(True)
    with manager as m:
        x = x + risky(kind)
        x = x * 2
    y = x - 1
    return y, m.log


def inner(x, kind):
    try:
        return x * risky(kind)
    except KeyError:
        x = x - 7
    return x


def in_a_callee(x, kind):
    try:
        y = inner(x + 1, kind)
        z = y * 2
    except ValueError as e:
        z = x - len(str(e))
    return z + 1


def captured(x, kind):
    n = 1

    def add():
        nonlocal n
        n += 1
        return n

    try:
        m = add() + risky(kind)
    except ValueError:
        m = add() * 10
    return x * m, n, add()


def passes_on(x, kind):
    try:
        x = x + risky(kind)
    except ZeroDivisionError:
        x = x * 100
    return x


def unbound_behind(x, kind):
    try:
        value = risky(kind)
    except ValueError:
        pass
    try:
        return x * value
    except UnboundLocalError as e:
        return x - 1, str(e)


PROGRAMS = [
    stores_in_the_handler,
    returns_from_the_handler,
    raises_another,
    in_a_loop,
    in_a_with,
    in_a_callee,
    captured,
    passes_on,
    unbound_behind,
]


def outcome(f, *args):
    try:
        return repr(f(*args))
    except Exception as e:
        frames, t = [], e.__traceback__.tb_next
        while t:
            frames.append((t.tb_frame.f_code.co_name, t.tb_lineno))
            t = t.tb_next
        return type(e), str(e), frames[-1:]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gb_2_a_handler_behind_a_break(f):
    compiled = G.compile(
        types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__), backend="eager"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (None, ValueError, KeyError, ValueError, None, OSError):
            assert outcome(compiled, X, kind) == outcome(f, X, kind), kind


@undisturbed
def test_gb_2_what_follows_a_handler_is_compiled():
    def f(x, kind):
        try:
            x = x + risky(kind)
        except ValueError:
            x = x - 1
        return x * 2

    compiled = G.compile(f, backend="eager")
    compiled(X, ValueError)
    text = str(G.compiler.explain(compiled)(X, ValueError))
    assert "mul" in text, text


BREAK = "    x = x + float(x.sum()) * 0\n"
SHAPES = {
    "straight code": lambda n: BREAK * n,
    "a variable for each": lambda n: "".join(
        f"    y{i} = float(x.sum()) * {i}\n    x = x + y{i} * 0\n" for i in range(n)
    ),
    "blocks in a row": lambda n: f"    try:\n    {BREAK}    except ValueError:\n        x = x - 1\n"
    * n,
    "code behind a block": lambda n: "    try:\n"
    + f"    {BREAK}" * (n // 2)
    + "    except ValueError:\n        return x - 1\n"
    + BREAK * (n // 2),
    "finally": lambda n: f"    try:\n    {BREAK}    finally:\n        x = x - 1\n" * n,
}


@undisturbed
@pytest.mark.parametrize(
    "shape, stored, most", [(shape, "0", 1600) for shape in SHAPES] + [("straight code", "1", 4800)]
)
def test_gb_5_compile_time_is_linear_in_the_breaks(shape, stored, most, monkeypatch, tmp_path):
    """Also with what is kept on disk of a function, which is found by a digest of all of its
    code."""
    monkeypatch.setenv("GRAMME_CACHE", stored)
    monkeypatch.setenv("GRAMME_CACHE_DIR", str(tmp_path))

    def seconds(n):
        space = {}
        exec("def f(x):\n" + SHAPES[shape](n) + "    return x\n", space)
        compiled = G.compile(space["f"], backend="eager")
        begin = time.process_time()
        compiled(X)
        return (time.process_time() - begin) / n

    seconds(50)
    seen = []
    for _ in range(
        6
    ):  # other programs take the caches away: what was quadratic would be 8 times as slow each time
        seen.append((min(seconds(200) for _ in range(3)), seconds(most)))
        if min(large for _, large in seen) < 3 * min(small for small, _ in seen):
            return
    raise AssertionError(seen)
