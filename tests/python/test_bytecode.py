# SPDX-License-Identifier: Apache-2.0
"""Decoding and assembling, on the running interpreter's own library: thousands of functions of
every style.

The internal form has no verifier at run time, so one stands here: the stack depth by data flow over
all edges.
"""

import importlib.util
import os
import sysconfig
import types

import pytest

from gramme import _core

ENDS = {"RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP"}


def code_objects(code):
    yield code
    for item in code.co_consts:
        if isinstance(item, types.CodeType):
            yield from code_objects(item)


def library():
    folder = sysconfig.get_path("stdlib")
    for parent in (
        folder,
        *(
            os.path.join(folder, name)
            for name in (
                "asyncio",
                "collections",
                "concurrent/futures",
                "email",
                "json",
                "unittest",
            )
        ),
    ):
        for name in sorted(os.listdir(parent)):
            if name.endswith(".py"):
                with open(os.path.join(parent, name), "rb") as file:
                    yield from code_objects(compile(file.read(), name, "exec", dont_inherit=True))


def check_depths(code):
    """Every instruction has one depth whichever way leads there, never below 0, never above the
    stack's size."""
    size, insns, handlers = _core.decode(code)
    depths, todo = {}, [(0, 0)]
    while todo:
        at, depth = todo.pop()
        assert at < len(insns), "runs off the end"
        if at in depths:
            assert depths[at] == depth, f"instruction {at}: depth {depths[at]} and {depth}"
            continue
        assert 0 <= depth <= size, f"instruction {at}: depth {depth} of {size}"
        depths[at] = depth
        name, _, _, effect, target, jump_effect, handler = insns[at]
        assert name != "UNKNOWN"
        if target is not None:
            todo.append((target, depth + jump_effect))
        if handler:
            start, end, handler_target, handler_depth, lasti = handlers[handler - 1]
            assert start <= at < end
            todo.append((handler_target, handler_depth + lasti + 1))
        if name not in ENDS:
            todo.append((at + 1, depth + effect))
    return {insns[at][0] for at in depths}


def test_the_library_decodes_with_consistent_depths():
    count, met = 0, set()
    for code in library():
        try:
            met |= check_depths(code)
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(
                f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}: {error}"
            ) from None
        count += 1
    assert count > 5000
    for name in (
        "CALL",
        "LOAD_METHOD",
        "FOR_ITER",
        "MAKE_FUNCTION",
        "LOAD_CLOSURE",
        "FORMAT_VALUE",
        "SEND",
        "BEFORE_WITH",
        "PUSH_EXC_INFO",
    ):
        assert name in met, name


CO_OPTIMIZED, GENERATORS = 1, 0x20 | 0x80 | 0x200


def straight(code):
    if not code.co_flags & CO_OPTIMIZED or code.co_flags & GENERATORS:
        return None
    insns = _core.decode(code)[1]
    if any(
        target is not None or handler or name.startswith("INTRINSIC")
        for name, _, _, _, target, _, handler in insns
    ):
        return None
    return without_prologue(insns)


def without_prologue(insns):
    """Places in the tables of constants and names may differ."""
    return [
        (name, 0 if obj is not None or name == "LOAD_CONST" else arg, obj, effect)
        for name, arg, obj, effect, _, _, _ in insns
        if name not in ("MAKE_CELL", "COPY_FREE_VARS")
    ]


def test_straight_functions_of_the_library_survive_reassembly():
    count, met = 0, set()
    for code in library():
        before = straight(code)
        if before is None:
            continue
        again = _core.reassemble(code)
        where = f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"
        assert without_prologue(_core.decode(again)[1]) == before, where
        assert (again.co_freevars, again.co_cellvars) == (code.co_freevars, code.co_cellvars), where
        count += 1
        met |= {name for name, _, _, _ in before}
    assert count > 1000
    for name in (
        "CALL",
        "CALL_FUNCTION_EX",
        "LOAD_METHOD",
        "MAKE_FUNCTION",
        "LOAD_CLOSURE",
        "STORE_DEREF",
        "FORMAT_VALUE",
        "COMPARE_OP",
    ):
        assert name in met, name


def show(*args, **kwargs):
    return args, kwargs


class Base:
    def __init__(self, n):
        self.n = n

    def plus(self, k, *, times=1):
        return (self.n + k) * times


class Derived(Base):
    def plus(self, k):
        return (
            super().plus(k, times=2),
            super().n if False else super().plus(k),
            super(Derived, self).plus,
        )


def closures(a):
    b = a + 1
    return (lambda: (a, b)), (lambda c, d=a, *, e=b: (a, c, d, e))


def deletes(box, key):
    del box[key]
    box[1:2] = key, key
    return box


CALLS = {
    "positional": (lambda f, a: f(a, 1), show, 5),
    "keywords": (lambda f, a: f(a, x=1, y=a), show, 5),
    "nested calls": (lambda f, a: f(f(f(a), k=f(1)), f()), show, 5),
    "stars": (lambda f, a: f(*a, 1, **{"k": 2}, j=3), show, (5, 6)),
    "a call's result is called": (lambda f, a: f(a)()(1), lambda a: lambda: lambda b: (a, b), 5),
    "a callable made of parts": (lambda f, a: [f, a][0](len([a, a]), *[1]), show, 5),
    "methods": (lambda s, a: s.upper().replace(a, "-").split("-"), "x,y", ","),
    "method with keywords": (lambda b, a: b.plus(a, times=3), Base(4), 5),
    "compare": (lambda a, b: [a < b, a <= b, a == b, a != b, a > b, a >= b], 1, 2),
    "compare floats": (
        lambda a, b: [a < b, a <= b, a == b, a != b, a > b, a >= b],
        1.5,
        float("nan"),
    ),
    "compare strings": (
        lambda a, b: [a == b, a != b, a is b, a is not b, a in b, a not in b, not a],
        "a",
        "ab",
    ),
    "operators": (
        lambda a, b: (
            a + b,
            a - b,
            a * b,
            a / b,
            a // b,
            a % b,
            a**b,
            a & b,
            a | b,
            a ^ b,
            a << b,
            a >> b,
            -a,
            +a,
            ~a,
        ),
        7,
        3,
    ),
    "formats": (lambda a, b: f"{a}|{a!r}|{a!s:>5}|{a!a}|{b:{b}}|{b:>4}", "é", 7),
    "subscripts": (lambda a, b: (a[b], a[b:], a[:b], a[b:5], a[::b], a[1:5:b]), list(range(9)), 2),
    "slice store and delete": (deletes, [1, 2, 3], 0),
    "displays": (lambda a, b: ([a, *b], (*b, a), {a: b, **{"k": a}}, {a, *b}), 1, (2, 3)),
    "attributes": (lambda a, b: (a.n, a.__class__, b.real), Base(4), 5),
    "super": (lambda a, b: a.plus(b)[:2], Derived(4), 5),
}


@pytest.mark.parametrize("name", CALLS)
def test_reassembled_functions_compute_the_same(name):
    fn, a, b = CALLS[name]
    code = _core.reassemble(fn.__code__)
    again = types.FunctionType(code, fn.__globals__)

    def copy(x):
        return list(x) if isinstance(x, list) else x

    want = fn(copy(a), b)
    for _ in range(100):  # past the point at which the interpreter specialises
        assert again(copy(a), b) == want


def test_reassembled_closures_share_cells_and_keep_defaults():
    again = types.FunctionType(_core.reassemble(closures.__code__), globals())
    for _ in range(100):
        get, other = again(3)
        assert get() == (3, 4) and other(5) == (3, 5, 3, 4) and other.__kwdefaults__ == {"e": 4}
        assert get.__closure__[0] is other.__closure__[0]
    method = Derived.plus
    code = _core.reassemble((lambda self, k: super(Derived, self).plus(k, times=2)).__code__)
    assert types.FunctionType(code, globals())(Derived(4), 5) == method(Derived(4), 5)[0]


def test_the_extension_is_named_for_its_interpreter():
    """Else the extension of one version would be found, and loaded, by another."""
    suffix = importlib.util.find_spec("gramme._core").origin[
        -len(sysconfig.get_config_var("EXT_SUFFIX")) :
    ]
    assert suffix == sysconfig.get_config_var("EXT_SUFFIX") and "cpython-3" in suffix


GENERIC = (
    "type Pair[T] = tuple[T, T]\ndef first[T: int](x: list[T]) -> T:\n    return x[0]\nclass "
    "Box[*Ts, **P]:\n    pass\n"
)


def test_type_parameters_decode():
    try:
        module = compile(GENERIC, "generic", "exec")
    except SyntaxError:
        pytest.skip("this Python has no type parameters")
    assert "INTRINSIC_1" in set().union(*(check_depths(code) for code in code_objects(module)))
