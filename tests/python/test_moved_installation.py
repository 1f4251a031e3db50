# SPDX-License-Identifier: Apache-2.0
"""An installation that lies elsewhere than it was configured for."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from gramme import _core

BUILD = pathlib.Path(os.environ["GM_PROGRAM"]).parent.parent
PLAIN = {
    k: v
    for k, v in os.environ.items()
    if not k.startswith(("GRAMME_", "GM_", "LD_LIBRARY", "PYTHONPATH"))
}


def ways():
    text = (BUILD / "core/base/layout.h").read_text()
    return {
        name.lower(): way
        for name, way in re.findall(r'^#define GM_WAY_TO_(\w+) +"(.*)"$', text, re.MULTILINE)
    }


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """The build's files as `make install` would lay them, below a folder that none names."""
    prefix = tmp_path_factory.mktemp("moved") / "deep/er"
    library = prefix / "lib"
    place = lambda way: pathlib.Path(os.path.normpath(library / way))
    for folder in (library, place(ways()["plugins"]), place(ways()["program"]).parent):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(BUILD / ".libs/libgramme.so.0", library / "libgramme.so.0")
    shutil.copy(BUILD / ".libs/gramme", place(ways()["program"]))
    for file in (BUILD / "pkg/plugins").glob("*.so"):
        shutil.copy(file, place(ways()["plugins"]))
    python = place(ways()["python"])
    shutil.copytree(
        BUILD / "pkg/gramme", python / "gramme", ignore=shutil.ignore_patterns("__pycache__")
    )
    return {
        "lib": library,
        "plugins": place(ways()["plugins"]),
        "program": place(ways()["program"]),
        "python": python,
    }


def run(moved, *words, **more):
    environment = (
        PLAIN
        | {
            "HOME": str(moved["lib"]),
            "XDG_DATA_HOME": str(moved["lib"]),
            "GRAMME_PLUGIN_TRUST": str(moved["lib"].parent),
        }
        | more
    )
    done = subprocess.run(
        [str(word) for word in words], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SCRIPT = """
import gramme as g
f = g.compile(lambda x: (x * 2).sum(), backend="eager")
print(f(g.ones(3)).item(), g.__file__)
"""


def test_a_moved_package_finds_library_and_plugins_beside_itself(moved):
    out = run(moved, sys.executable, "-B", "-c", SCRIPT, PYTHONPATH=str(moved["python"]))
    assert out.split() == ["6.0", str(moved["python"] / "gramme/__init__.py")]


def test_a_moved_program_lists_the_plugins_beside_it_and_runs_scripts_with_its_package(
    moved, tmp_path
):
    shown = run(moved, moved["program"], "inspect")
    found = {line.split()[-1] for line in shown.splitlines()[1:] if "(part of gramme)" not in line}
    assert found == {str(path) for path in moved["plugins"].glob("*.so")}
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    assert run(moved, moved["program"], "run", script).split() == [
        "6.0",
        str(moved["python"] / "gramme/__init__.py"),
    ]


def test_the_library_is_remembered_by_its_whole_path(moved):
    """LD_LIBRARY_PATH may be relative, and the process may go elsewhere."""
    text = "import os, gramme; os.chdir('/'); print(sorted(gramme.compiler.list_backends()))"
    out = subprocess.run(
        [sys.executable, "-B", "-c", text],
        cwd=moved["lib"],
        env=PLAIN
        | {
            "LD_LIBRARY_PATH": ".",
            "PYTHONPATH": str(moved["python"]),
            "HOME": str(moved["lib"]),
            "GRAMME_PLUGIN_TRUST": str(moved["lib"].parent),
        },
        capture_output=True,
        text=True,
    ).stdout
    assert "eager" in ast.literal_eval(out)


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no binutils")
def test_run_paths_are_relative_and_the_only_ones():
    for file in [
        BUILD / ".libs/libgramme.so.0",
        pathlib.Path(_core.__file__),
        BUILD / ".libs/gramme",
        *(BUILD / "pkg/plugins").glob("*.so"),
    ]:
        shown = subprocess.run(
            ["readelf", "-dW", file], check=True, capture_output=True, text=True
        ).stdout
        paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", shown)
        wants_library = re.search(r"\(NEEDED\).*\[libgramme\.so\.0\]", shown) is not None
        assert [path.startswith("$ORIGIN/..") and ":" not in path for path in paths] == [
            True
        ] * wants_library, (file, paths)


def test_gramme_run_takes_the_python_that_it_is_told(moved, tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "this one: $1, ${PYTHONPATH:-no path}"\n')
    python.chmod(0o755)
    (tmp_path / "x.py").write_text("")
    assert (
        run(moved, moved["program"], "run", tmp_path / "x.py", GM_PYTHON=str(python))
        == f"this one: {tmp_path / 'x.py'}, no path\n"
    )
