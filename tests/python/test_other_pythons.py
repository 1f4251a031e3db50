# SPDX-License-Identifier: Apache-2.0
"""A package that was built for another Python says so, and how to build for this one."""

import os
import shutil
import subprocess
import sys

import pytest

import gramme

PACKAGE = os.path.dirname(gramme.__file__)
TAG = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"


def import_beside(tmp_path, *modules):
    """What a Python says that imports a package with these extension modules, which are no
    libraries."""
    folder = tmp_path / "gramme"
    folder.mkdir()
    for name in ("__init__.py", "_built_for.py"):
        shutil.copy(os.path.join(PACKAGE, name), folder)
    for name in modules:
        (folder / name).write_bytes(b"no library")
    done = subprocess.run(
        [sys.executable, "-c", "import gramme"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    "modules, versions",
    [
        (["_core.cpython-399-x86_64-linux-gnu.so"], "is built for CPython 3.99"),
        (
            ["_core.cpython-399-x86_64-linux-gnu.so", "_core.cpython-398t-x86_64-linux-gnu.so"],
            "is built for CPython 3.98, 3.99",
        ),
        ([], "has no extension module"),
    ],
)
def test_the_error_names_the_pythons_it_was_built_for_and_what_to_do(tmp_path, modules, versions):
    said = import_beside(tmp_path, *modules)
    assert f"{versions}; this is cpython {sys.version.split()[0]}" in said
    assert f"./configure PYTHON={sys.executable}" in said and "partially initialized" not in said


def test_a_module_for_this_python_that_cannot_be_loaded_keeps_its_own_error(tmp_path):
    said = import_beside(tmp_path, f"_core.{TAG}-x86_64-linux-gnu.so")
    assert "file too short" in said or "invalid ELF header" in said
    assert "is built for" not in said
