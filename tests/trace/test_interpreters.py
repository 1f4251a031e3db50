# SPDX-License-Identifier: Apache-2.0
"""What must be the same on every CPython: one source, no conditions on the version but where its
bytecode is looked at."""

import dis
import glob
import os
import re
import types

import pytest

import gramme as G
from gramme import _core

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
STRESS = "break" in os.environ.get("GM_STRESS", "")


def compiled(fn, **options):
    return G.compile(fn, backend="eager", **options)


def insns(name):
    """Rows of core/bytecode/insns.def whose name matches: name -> handler."""
    with open(os.path.join(ROOT, "core/bytecode/insns.def")) as file:
        rows = re.findall(r"^INSN \((\w+), *(\w+),", file.read(), re.M)
    return {row: handler for row, handler in rows if re.fullmatch(name, row)}


# -- Opcodes ---------------------------------------------------------------------------------------


def with_unknown_opcode(fn):
    """The function, its first BINARY_OP replaced by a number that no CPython has."""
    code, number = fn.__code__, 250
    while (
        number in dis.opmap.values()
        or _core.decode(code.replace(co_code=bytes([dis.opmap["RESUME"], 0, number, 0])))[1][0][0]
        != "UNKNOWN"
    ):
        number -= 1
    raw = bytearray(code.co_code)
    at = next(i for i in range(0, len(raw), 2) if raw[i] == dis.opmap["BINARY_OP"])
    raw[at] = number
    return types.FunctionType(code.replace(co_code=bytes(raw)), fn.__globals__), number


@pytest.mark.skipif(STRESS, reason="it breaks elsewhere")
def test_bc_1_an_unknown_opcode_is_a_break_that_names_it():  # BC-1
    fn, number = with_unknown_opcode(lambda x: x + 1)
    with pytest.raises(
        G.compiler.Unsupported, match=f"(?s)number {number} of CPython 3.*UNSUPPORTED_INSN"
    ):
        compiled(fn, fullgraph=True)(G.ones(2))
    f = compiled(with_unknown_opcode(lambda x: x + 1)[0])
    with pytest.warns(G.compiler.GraphBreakWarning, match=f"number {number} "), pytest.raises(
        SystemError, match="unknown opcode"
    ):
        f(G.ones(2))  # plain Python's own error
    assert f.status()["graphs"] == 0


def test_every_opcode_of_this_interpreter_has_a_row():  # BC-1
    with open(os.path.join(ROOT, "core/bytecode/opcodes.def")) as file:
        rows = set(re.findall(r"^OPCODE \((\w+),", file.read(), re.M))
    internal = {
        "CACHE",
        "EXTENDED_ARG",
        "RESERVED",
        "INTERPRETER_EXIT",
        "EXIT_INIT_CHECK",
        "ENTER_EXECUTOR",
    }
    mine = {
        name
        for name, number in dis.opmap.items()
        if number < 256 and not name.startswith(("INSTRUMENTED_", "<"))
    }
    specialised = set(getattr(dis, "_specialized_opmap", {})) | set(
        getattr(dis, "_specialized_instructions", ())
    )
    assert mine - specialised - internal - rows == set()


# -- Cells -----------------------------------------------------------------------------------------


FOUND = {}  # what probe() finds; global, because it is written to while a function is recorded


@pytest.mark.skipif(STRESS, reason="asks what one recording has")
def test_cell_01_one_kind_stands_wherever_a_variable_is_captured():  # CELL-01
    older_value = G.ones(2)
    free_of_root = 1

    def older():
        nonlocal older_value
        _core.probe("kind", "older_value", FOUND)
        older_value = older_value + 1

    def callee(argument):
        def inner():
            nonlocal argument
            argument = argument + 1
            _core.probe("kind", "argument", FOUND)

        own_of_callee = argument
        inner()
        _core.probe("kind", "own_of_callee", FOUND)
        return argument, lambda: own_of_callee

    def root(x):
        own_of_root, plain = x + 1, x + 2
        get = lambda: own_of_root
        _core.probe("kind", "own_of_root", FOUND)
        _core.probe("kind", "free_of_root", FOUND)
        _core.probe("kind", "plain", FOUND)
        older()
        return callee(get() * free_of_root + older_value)[0] + plain

    FOUND.clear()
    result = compiled(root, fullgraph=True)(G.ones(2))
    assert result.tolist() == [8.0, 8.0] and older_value.tolist() == [2.0, 2.0]
    kinds = {name: kind for (_, name), kind in FOUND.items()}
    assert kinds.pop("plain") == "tensor"
    assert kinds == dict.fromkeys(
        ("own_of_root", "free_of_root", "older_value", "argument", "own_of_callee"), "cell"
    )


def test_cell_06_closures_come_from_the_function():  # CELL-06
    """Two functions of one code object: each call reads the cells of its own function, also when
    Python calls it behind a break."""

    def make(n):
        def add(x):
            return x + n

        return add

    one, two = make(1), make(2)
    assert one.__code__ is two.__code__ and one.__closure__[0] is not two.__closure__[0]
    f = compiled(lambda g, x: list(map(g, [x, x * 2])))
    for g, n in ((one, 1), (two, 2), (one, 1)):
        assert compiled(g)(G.zeros(2)).tolist() == [float(n)] * 2
        assert [y.tolist() for y in f(g, G.ones(2))] == [[1.0 + n] * 2, [2.0 + n] * 2]


def test_cell_09_output_code_uses_the_cell_instructions():  # CELL-09
    def root(x):
        a = 1

        def up():
            nonlocal a
            a += 1
            return a

        def get():
            return a

        up()
        return x + a, up, get

    f = compiled(root)
    y, up, get = f(G.ones(2))
    assert y.tolist() == [3.0, 3.0] and up() == 3 and get() == 3
    assert up.__closure__[0] is get.__closure__[0]
    code = f.entries()[0]["code"]
    if STRESS:
        return
    names = [name for name, *_ in _core.decode(code)[1]]
    assert {"MAKE_CELL", "STORE_DEREF", "LOAD_CLOSURE"} <= set(names)
    assert (
        names.count("MAKE_CELL") == 1
        and "cell_contents" not in code.co_names
        and "CellType" not in code.co_names
    )


def test_cell_13_one_slot_table_and_one_handler_for_each_access():  # CELL-13
    assert insns("LOAD_CLOSURE|LOAD_FAST") == {
        "LOAD_CLOSURE": "load_fast",
        "LOAD_FAST": "load_fast",
    }
    assert insns("(LOAD|STORE|DELETE)_DEREF") == {
        "LOAD_DEREF": "load_deref",
        "STORE_DEREF": "store_deref",
        "DELETE_DEREF": "delete_deref",
    }

    def root(a):
        b = a

        def inner():
            nonlocal b
            b = b + a
            return b

        return inner

    size, rows, _ = _core.decode(root.__code__)
    slots = {
        name: arg
        for name, arg, *_ in rows
        if name in ("LOAD_DEREF", "LOAD_CLOSURE", "STORE_DEREF", "MAKE_CELL")
    }
    assert set(slots.values()) <= {0, 1, 2}  # `a` is an argument and a cell
    assert slots["LOAD_DEREF"] == 0 and slots["STORE_DEREF"] == slots["LOAD_CLOSURE"] == 2


def test_cell_12_no_program_asks_for_the_version():  # CELL-12
    """The programs, those of the cells and side effects among them, are one source; they run
    wherever this file runs."""
    for path in glob.glob(os.path.join(HERE, "programs_*.py")):
        with open(path) as file:
            assert "version_info" not in file.read(), path
