# SPDX-License-Identifier: Apache-2.0
"""What the build links: which symbols the library exports, under which versions, and what the
loader makes read-only."""

import glob
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import gramme as G
from gramme import _core

TOP = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ["GM_PROGRAM"]).parent.parent
LIBRARY = BUILD / ".libs/libgramme.so.0"
LINKED = [
    LIBRARY,
    pathlib.Path(_core.__file__),
    BUILD / ".libs/gramme",
    *map(pathlib.Path, sorted(glob.glob(str(BUILD / "pkg/plugins/*.so")))),
]

pytestmark = pytest.mark.skipif(
    shutil.which("nm") is None or shutil.which("readelf") is None, reason="no binutils"
)


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def exported():
    """{name: version} of the library's dynamic symbols."""
    rows = [
        line.split()[-1] for line in output("nm", "-D", "--defined-only", str(LIBRARY)).splitlines()
    ]
    return dict(re.fullmatch(r"([^@]+)(?:@@?(.*))?", row).groups() for row in rows)


def test_the_public_symbols_are_the_functions_of_the_header():
    text = re.sub(r"/\*.*?\*/", "", (TOP / "core/gramme.h").read_text(), flags=re.DOTALL)
    declared = set(re.findall(r"^[\w *]*?\b(gramme_\w+) \(", text, re.MULTILINE))
    assert len(declared) > 25
    assert {
        name for name, version in exported().items() if version == "GRAMME_0" and name != "GRAMME_0"
    } == declared


def test_all_others_have_the_release_in_their_version():
    private = f"GRAMME_PRIVATE_{G.__version__}"
    versions = {
        name: version
        for name, version in exported().items()
        if not name.startswith(("gramme_", "GRAMME_"))
    }
    assert set(versions.values()) == {private} and all(name.startswith("gm_") for name in versions)
    needed = output("readelf", "-VW", _core.__file__)
    assert private in needed, "the extension takes any library's internals"


@pytest.mark.parametrize("file", LINKED, ids=lambda path: path.name)
def test_addresses_are_bound_at_the_start_and_then_read_only(file):
    assert "NOW" in output("readelf", "-dW", str(file)) and "GNU_RELRO" in output(
        "readelf", "-lW", str(file)
    )
