# SPDX-License-Identifier: Apache-2.0
"""Integers that only the run knows: what item() gives while `capture_scalar_outputs` is on."""

import itertools
import types
import warnings

import pytest

import gramme as G
from gramme._dynamo.comptime import comptime
from stress import FORCED, undisturbed

X = G.ones(3)


@pytest.fixture(autouse=True)
def capture():
    G._dynamo.config.capture_scalar_outputs = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    G._dynamo.config.capture_scalar_outputs = False


def compiled(f):
    """With a code object of its own: what other tests compiled is not in its cache."""
    return G.compile(
        types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__, None, f.__closure__),
        backend="eager",
    )


def same(a, b):
    """Equal to the bit, of the same types."""
    assert type(a) is type(b)
    if isinstance(a, G.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, dict):
        same(list(a.items()), list(b.items()))
    else:
        assert a == b


def number(n, dtype=G.int64):
    return G.tensor(n, dtype=dtype)


# -- Facts that comptime code adds


def at_least_two(ctx):
    G._check(ctx.get_local("n").as_fake() >= 2)


def with_fact(x, t):
    n = t.item()
    comptime(at_least_two)
    if n > 1:
        return x * 2
    return x - 1


def without_fact(x, t):
    n = t.item()
    if n > 1:
        return x * 2
    return x - 1


@undisturbed
def test_compt_09_a_fact_added_in_comptime_decides_a_later_comparison():  # COMPT-09
    f = compiled(with_fact)
    for n in 2, 3, 1 << 40:
        same(f(X, number(n)), X * 2)
    assert f.status()["graphs"] == 1 and f.status()["breaks"] == []


@undisturbed
def test_compt_09_without_the_fact_the_comparison_breaks():  # COMPT-09
    f = compiled(without_fact)
    same(f(X, number(2)), X * 2)
    same(f(X, number(1)), X - 1)
    assert "DATA_DEPENDENT_BRANCH" in f.status()["breaks"][0]


@undisturbed
def test_compt_09_a_fact_that_is_false_at_run_time_raises():  # COMPT-09
    f = compiled(with_fact)
    same(f(X, number(5)), X * 2)
    for n in 1, 0, -7:
        with pytest.raises(
            RuntimeError, match="a fact that comptime code added does not hold: number >= 2"
        ):
            f(X, number(n))
    same(f(X, number(2)), X * 2)
    assert f.status()["graphs"] == 1


@undisturbed
@pytest.mark.parametrize("sign", ["<", "<=", "==", "!=", ">", ">="])
def test_compt_09_each_comparison_decides_what_follows_from_it(sign):  # COMPT-09
    """Every comparison of n and of 3 - 2 * n, after each fact: decided exactly where the fact and
    the dtype leave one answer."""
    holds = lambda sign, a, b: eval(f"{a} {sign} {b}")
    domain = range(-128, 128)
    for with_, form, other, then in itertools.product(
        (-128, 0, 4, 127), ("n", "3 - 2 * n"), ("<", "==", ">="), (-128, 0, 3, 127)
    ):
        values = [n for n in domain if holds(sign, n, with_)]
        if not values:
            continue
        scope = {"G": G, "comptime": comptime}
        exec(
            f"def look(ctx): G._check(ctx.get_local('n').as_fake() {sign} {with_})\n"
            "def f(x, t):\n"
            "    n = t.item()\n"
            "    comptime(look)\n"
            f"    return x + 1 if {form} {other} {then} else x - 1\n",
            scope,
        )
        f = compiled(scope["f"])
        answers = {holds(other, eval(form, {"n": n}), then) for n in values}
        for n in values[0], values[-1]:
            same(f(X, number(n, G.int8)), scope["f"](X, number(n, G.int8)))
        if f.status()["breaks"] == []:
            assert len(answers) == 1
        elif other != "==" and not (sign == "!=" and with_ in (0, 4)):
            assert len(answers) == 2


@undisturbed
def test_a_fact_that_contradicts_another_raises_at_once():
    def look(ctx):
        n = ctx.get_local("n").as_fake()
        G._check(n >= 2)
        G._check(n < 1)

    def f(x, t):
        n = t.item()
        comptime(look)
        return x + 1

    with pytest.raises(RuntimeError, match="contradicts"):
        compiled(f)(X, number(3))


@undisturbed
def test_what_comptime_code_sees_of_a_number():
    seen = {}

    def look(ctx):
        n = ctx.get_local("n")
        seen["type"] = n.python_type(), n.is_python_constant(), n.is_dynamic(), n.is_proxy()
        with pytest.raises(TypeError):
            bool(n.as_fake() > 1)
        with pytest.raises(TypeError):
            n.force_static()
        with pytest.raises(AssertionError):
            ctx.assert_static(n)
        seen["fact"] = n.as_fake() > 1

    def f(x, t):
        n = t.item()
        comptime(look)
        return x + 1

    same(compiled(f)(X, number(0)), X + 1)
    assert seen["type"] == (int, False, True, False)
    with pytest.raises(RuntimeError, match="over"):
        G._check(seen["fact"])


# -- Checks in the program


def checked(x, t):
    n = t.item()
    G._check(n >= 0, "negative")
    G._check(n < 10)
    return (x + 1, n) if n > -1 and not n >= 10 else x - 1


@undisturbed
def test_a_check_decides_later_comparisons():
    f = compiled(checked)
    same(f(X, number(4)), checked(X, number(4)))
    assert f.status()["graphs"] == 1 and f.status()["breaks"] == []


@pytest.mark.parametrize("n", [-1, 10, -(1 << 63)])
def test_a_check_that_fails_raises_what_plain_python_raises(n):
    f = compiled(checked)
    same(f(X, number(3)), checked(X, number(3)))
    with pytest.raises(RuntimeError) as plain:
        checked(X, number(n))
    with pytest.raises(RuntimeError) as ours:
        f(X, number(n))
    assert str(ours.value) == str(plain.value)


@pytest.mark.parametrize("sign", ["<", "<=", "==", "!=", ">", ">="])
@pytest.mark.parametrize("form", ["n", "3 * n - 7", "5 - 2 * n"])
def test_what_follows_from_a_check_is_true(form, sign):
    """Of each element that passes the check, and to the last number that does or does not."""
    ks = [*range(-128, -120), *range(-30, 30), *range(120, 128)]
    for c in (-128, -127, -20, 1, 2, 127):
        scope = {"G": G, "KS": ks}
        exec(
            (
                f"def f(x, t):\n    n = t.item()\n    G._check({form} {sign} {c})\n    return x, "
                "[n >= k for k in KS], [n == k for k in KS]\n"
            ),
            scope,
        )
        passes = eval(f"[n for n in range(-128, 128) if {form} {sign} {c}]")
        f = compiled(scope["f"])
        for n in passes[:4] + passes[-4:] + [n for n in passes if -20 < n < 20]:
            same(f(X, number(n, G.int8)), scope["f"](X, number(n, G.int8)))
        for n in set(range(-128, 128, 17)) - set(passes):
            with pytest.raises(RuntimeError):
                f(X, number(n, G.int8))
        if passes and not FORCED:
            tight = (
                f"def g(x, t):\n    n = t.item()\n    G._check({form} {sign} {c})\n    if n < "
                f"{passes[0]} or n > {passes[-1]}:\n        return x\n    return x + 1\n"
            )
            exec(tight, scope)
            g = compiled(scope["g"])
            same(g(X, number(passes[0], G.int8)), X + 1)
            assert g.status()["breaks"] == []


def test_check_in_plain_python():
    G._check(True)
    G._check(cond=1, message="no")
    with pytest.raises(RuntimeError, match="^told$"):
        G._check(False, lambda: "told")
    with pytest.raises(RuntimeError, match="does not hold"):
        G._check(False)
    with pytest.raises(TypeError):
        G._check()


def test_a_check_in_a_try_block_is_caught_there():
    def f(x, t):
        n = t.item()
        try:
            G._check(n > 0)
        except RuntimeError:
            return x - 1
        return x + n

    g = compiled(f)
    for n in 3, -3:
        same(g(X, number(n)), f(X, number(n)))


def test_effects_before_a_check_that_fails_have_happened():
    def f(x, t, seen):
        n = t.item()
        seen.append(n)
        G._check(n > 0)
        seen.append(n + 1)
        return x

    g = compiled(f)
    for n in 2, -2:
        expected, seen = [], []
        for call, out in (f, expected), (g, seen):
            try:
                call(X, number(n), out)
            except RuntimeError:
                out.append("raised")
        same(seen, expected)


# -- Arithmetic and ways out


def arithmetic(x, t):
    n = int(t)
    m = 3 * n - 7
    return (
        x + 1,
        n,
        -n,
        ~n,
        +n,
        m,
        n - n,
        5 - n,
        m + n,
        True + n,
        n * -1,
        m - 2 * n,
        {"k": [n, (m,)]},
    )


def escapes(x, t):
    n = t.item()
    big = n > 1000
    return (
        x + 1,
        n,
        [n, {"big": big}],
        n == 5,
        n != 5,
        n <= 5,
        5 > n,
        isinstance(n, int),
        n is None,
        type(n),
        type(big),
    )


def kept(x, t):
    """The number is what the element was."""
    n = t.item()
    t.add_(1)
    m = t.item()
    return x + t, n, m


def mixed_with_tensors(x, t):
    n = t.item()
    return x * n, n + x, x[0] + n


def what_breaks(x, t):
    n = t.item()
    return (
        x + 1,
        n // 2,
        n % 3,
        n**2,
        n / 4,
        f"{n}",
        abs(n),
        max(n, 2),
        [0] * (n & 3),
        {n: 1},
        bool(n),
        n > 2.5,
        str(n),
        n - t.item(),
    )


def loops(x, t):
    n = t.item()
    for i in range(3):
        n = n + i
    return x, n


def one_object(x, t):
    n = t.item()
    a = [n, n]
    return x, a[0] is a[1], a, n is n


PROGRAMS = [arithmetic, escapes, kept, mixed_with_tensors, what_breaks, loops, one_object]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [G.int64, G.int32, G.int16, G.int8, G.uint8])
def test_numbers_are_plain_pythons(f, dtype):
    g = compiled(f)
    for n in (0, 5, 127, 255 if dtype == G.uint8 else -128):
        same(g(X, number(n, dtype)), f(X, number(n, dtype)))


@pytest.mark.parametrize("n", [(1 << 63) - 1, -(1 << 63), 1 << 62])
def test_numbers_have_no_limit_of_64_bits(n):
    def f(x, t):
        n = t.item()
        return x, n * 5 + 1, 2 * n - 3 > (1 << 62), n * (1 << 62) * 4, -n, ~n, n - (1 << 70)

    same(compiled(f)(X, number(n)), f(X, number(n)))


@undisturbed
def test_item_of_what_is_no_integer_breaks():
    def f(x, t):
        return x + 1, t.item()

    for t in G.tensor(1.5), G.tensor(True), G.ones(2):
        g = compiled(f)
        try:
            expected = f(X, t)
        except Exception as e:
            with pytest.raises(type(e)):
                g(X, t)
        else:
            same(g(X, t), expected)
            assert "DATA_DEPENDENT_VALUE" in g.status()["breaks"][0]


@undisturbed
def test_numbers_cost_no_graph_breaks():
    for f in arithmetic, escapes, loops:
        g = compiled(f)
        for n in range(4):
            g(X, number(n))
        assert g.status()["graphs"] == 1 and g.status()["breaks"] == []


@undisturbed
def test_item_breaks_where_the_switch_is_off():
    G._dynamo.config.capture_scalar_outputs = False
    g = compiled(escapes)
    same(g(X, number(5)), escapes(X, number(5)))
    assert "DATA_DEPENDENT_VALUE" in g.status()["breaks"][0]
