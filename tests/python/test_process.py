# SPDX-License-Identifier: Apache-2.0
"""What compiled code asks of its process: no page that is writable and executable at once, no
libgomp, large buffers in huge pages, files only where memory will not do."""

import os
import subprocess
import sys

import pytest

import gramme

BACK_ENDS = [name for name in ("tcc", "cc") if name in gramme.compiler.list_backends()]

# refuse (): a filter of system calls; what fits dies, or fails with `errno`.
FILTER = """
import ctypes, struct
import gramme as g
LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
def install(*rows):
    rows = b"".join(struct.pack("=HBBI", *row) for row in rows)
    class Program(ctypes.Structure):
        _fields_ = [("n", ctypes.c_ushort), ("rows", ctypes.c_char_p)]
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.byref(Program(len(rows) // 8, rows)), 0, 0):
        print("no filters")
        raise SystemExit
def no_page_that_is_written_and_run(mmap=9, mprotect=10):
    install((LOAD, 0, 0, 0), (EQUAL, 1, 0, mmap), (EQUAL, 0, 3, mprotect), (LOAD, 0, 0, 32), (AND, 0, 0, 6), (EQUAL, 1, 0, 6), (RETURN, 0, 0, 0x7FFF0000), (RETURN, 0, 0, 0x80000000))
def no_files_in_memory(memfd_create=319, enosys=38):
    install((LOAD, 0, 0, 0), (EQUAL, 1, 0, memfd_create), (RETURN, 0, 0, 0x7FFF0000), (RETURN, 0, 0, 0x50000 | enosys))
x = g.randn(50)
def f(x): return g.tanh(x) * 3 + x
def compiled(name): return g.compile(f, backend=name, options={"wait": True} if name == "cc" else None)
"""


def run(text, expect=0):
    done = subprocess.run(
        [sys.executable, "-c", FILTER + text],
        capture_output=True,
        text=True,
        env={**os.environ, "GRAMME_CACHE": "0"},
    )
    assert done.returncode == expect, done.stdout + done.stderr
    if "no filters" in done.stdout:
        pytest.skip("the kernel has no filters of system calls, or they are forbidden")
    return done.stdout


pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the numbers of system calls are x86-64's"
)


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_no_page_is_writable_and_executable_at_once(backend):
    assert (
        run(
            f"no_page_that_is_written_and_run()\nprint(bool((compiled('{backend}')(x) == "
            "f(x)).all()))"
        )
        == "True\n"
    )


def test_the_filter_of_these_tests_sees_such_pages():
    text = "no_page_that_is_written_and_run()\nimport mmap\nmmap.mmap(-1, 4096, prot=7)"
    assert run(text, expect=-31) == ""


@pytest.mark.skipif("cc" not in BACK_ENDS, reason="the back end cc is not installed")
@pytest.mark.parametrize("before", ["", "no_files_in_memory()\n"])
def test_code_is_loaded_from_memory_and_without_that_from_a_folder(before, tmp_path):
    text = before + (
        "fs = [compiled('cc'), g.compile(lambda x: g.exp(x) * 2, backend='cc', "
        "options={'wait': True})]\n"
    )
    text += (
        "print(bool((fs[0](x) == f(x)).all()), bool((fs[1](x) == g.exp(x) * 2).all()), "
        "'memfd:gramme-cc' in open('/proc/self/maps').read())"
    )
    assert run(text) == f"True True {not before}\n"


@pytest.mark.skipif("cc" not in BACK_ENDS, reason="the back end cc is not installed")
def test_libraries_are_told_apart():
    # One descriptor's number serves them all, one after the other; so the names that the linker
    # knows them by must differ.
    text = """
fs = []
for i in range(40):
    space = {"g": g}
    exec(f"def f(x): return g.tanh(x) * {i}.0", space)
    fs.append(g.compile(space["f"], backend="cc", options={"wait": True}))
    fs[-1](x)
print(all(bool((f(x) == g.tanh(x) * i).all()) for i, f in enumerate(fs)))
"""
    assert run(text) == "True\n"


def test_nothing_brings_libgomp_along():
    text = (
        "g.set_num_threads(2)\ny = g.randn(600, 600)\nfor name in g.compiler.list_backends():\n    "
        "if name in ('tcc', 'cc', 'eager', 'auto'):\n"
    )
    text += (
        "        g.compile(lambda x: g.softmax(x @ x, -1), "
        "backend=name)(y)\ng.compiler.wait()\nprint('gomp' in open('/proc/self/maps').read())"
    )
    assert run(text) == "False\n"


def test_large_buffers_ask_for_huge_pages():
    text = """
keep = g.ones(32 << 20)
at, flags = keep.data_ptr(), ""
for line in open("/proc/self/smaps"):
    head = line.split()[0]
    if "-" in head and not head.endswith(":"):
        low, high = (int(n, 16) for n in head.split("-"))
    elif line.startswith("VmFlags") and low <= at < high:
        flags = line
print("hg" in flags.split() if flags else "no flags")
"""
    said = run(text)
    if said == "no flags\n":
        pytest.skip("the kernel does not say what was asked for")
    assert said == "True\n"
