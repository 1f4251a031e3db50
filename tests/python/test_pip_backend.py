# SPDX-License-Identifier: Apache-2.0
"""The hooks that pip calls, and the wheel that it gets: build-aux/pip_backend.py.  `make check-pip`
installs the sources by them."""

import base64
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import gramme

TOP = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ["GM_PROGRAM"]).parent.parent
PLAIN = {
    k: v
    for k, v in os.environ.items()
    if not k.startswith(("GRAMME_", "GM_", "LD_LIBRARY", "PYTHONPATH"))
}


@pytest.fixture(scope="module")
def backend():
    spec = importlib.util.spec_from_file_location("pip_backend", TOP / "build-aux/pip_backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- The wheel -------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path):
    """What `make install` leaves of the back end's layout, of small files."""
    root = tmp_path / "root"
    info = "gramme_compiler-0.1.0.dist-info"
    texts = {
        "gramme/__init__.py": "",
        "gramme/nn/__init__.py": "",
        "gramme/_core.so": "x",
        "gramme/py.typed": "",
        "gramme/nn/__pycache__/a.pyc": "",
        "gramme/lib/gramme/plugins-1/libgramme-eager.so": "plugin",
        "gramme/lib/libgramme.so.0.0.0": "library",
        "gramme/bin/gramme": "program",
        "gramme/share/man/man1/gramme.1": "man",
        "gramme/lib/pkgconfig/gramme.pc": "prefix=/nonexistent\n",
        "gramme/lib/pkgconfig/gramme-plugin-1.pc": "prefix=/a/gramme\nexec_prefix=${prefix}\n",
        f"{info}/METADATA": "Name: gramme-compiler\n",
        f"{info}/INSTALLER": "make\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for link in ("libgramme.so", "libgramme.so.0"):
        (root / "gramme/lib" / link).symlink_to("libgramme.so.0.0.0")
    (root / "gramme/bin/gramme").chmod(0o755)
    return root


def test_the_wheel_holds_what_was_installed_each_file_once_and_recorded(
    backend, installed, tmp_path
):
    name = backend.write_wheel(tmp_path, installed)
    assert re.fullmatch(r"gramme_compiler-[\d.]+-cp3\d+-cp3\d+-linux_x86_64\.whl", name)
    with zipfile.ZipFile(tmp_path / name) as wheel:
        files = {entry.filename: entry for entry in wheel.infolist()}
        data, info = {name: wheel.read(name) for name in files}, f"{backend.full_name()}.dist-info"
    assert set(files) == {
        "gramme/__init__.py",
        "gramme/nn/__init__.py",
        "gramme/_core.so",
        "gramme/py.typed",
        "gramme/bin/gramme",
        f"{backend.full_name()}.data/data/share/man/man1/gramme.1",
        "gramme/lib/libgramme.so.0",
        "gramme/lib/gramme/plugins-1/libgramme-eager.so",
        "gramme/lib/pkgconfig/gramme-plugin-1.pc",
        f"{info}/METADATA",
        f"{info}/WHEEL",
        f"{info}/RECORD",
        f"{backend.full_name()}.data/scripts/gramme",
    }
    assert {name for name, entry in files.items() if entry.external_attr >> 16 & 0o100} == {
        "gramme/bin/gramme",
        f"{backend.full_name()}.data/scripts/gramme",
    }
    assert data["gramme/lib/libgramme.so.0"] == b"library" and data[
        f"{backend.full_name()}.data/scripts/gramme"
    ].startswith(b"#!python\n")
    assert data["gramme/lib/pkgconfig/gramme-plugin-1.pc"].startswith(
        b"prefix=${pcfiledir}/../..\n"
    )
    rows = dict(line.split(",", 1) for line in data[f"{info}/RECORD"].decode().splitlines())
    for name, text in data.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        assert rows.pop(name) == (
            "," if name.endswith("RECORD") else f"sha256={digest},{len(text)}"
        )
    assert rows == {}


def test_metadata_names_the_distribution_and_the_version_of_the_build(backend, tmp_path):
    info = backend.prepare_metadata_for_build_wheel(tmp_path)
    text = (tmp_path / info / "METADATA").read_text()
    assert info == f"gramme_compiler-{gramme.__version__}.dist-info"
    assert (
        "Name: gramme-compiler\n" in text
        and f"Version: {gramme.__version__}\n" in text
        and "@" not in text
    )
    assert (
        text == (BUILD / "core/METADATA").read_text()
    ), "make install and pip say different things"


def test_the_program_of_the_environment_is_the_packages_own_with_that_python(backend, tmp_path):
    (tmp_path / "gramme/bin").mkdir(parents=True)
    (tmp_path / "gramme/__init__.py").write_text(
        "raise SystemExit('the program needs no import of the package')\n"
    )
    (tmp_path / "gramme/bin/gramme").write_text('#!/bin/sh\necho "$GM_PYTHON" "$@"\n')
    (tmp_path / "gramme/bin/gramme").chmod(0o755)
    (tmp_path / "script").write_bytes(backend.PROGRAM)
    done = subprocess.run(
        [sys.executable, tmp_path / "script", "run", "a b"],
        env=PLAIN | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{sys.executable} run a b\n", done.stderr


# -- What is missing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "missing, packages",
    [
        (["pkg-config"], "pkg-config"),
        (["GLib's headers", "cblas.h"], "libglib2.0-dev libopenblas-dev"),
        (["a C compiler", "make"], "build-essential"),
    ],
)
def test_what_is_missing_is_told_at_once_with_its_packages(backend, monkeypatch, missing, packages):
    monkeypatch.setattr(
        backend,
        "NEEDS",
        [
            (what, package, lambda what=what: what not in missing)
            for what, package, _ in backend.NEEDS
        ],
    )
    for hook in (
        backend.get_requires_for_build_wheel,
        lambda: backend.build_wheel("/nowhere"),
        lambda: backend.build_sdist("/nowhere"),
    ):
        with pytest.raises(SystemExit) as refused:
            hook()
        assert f": {', '.join(missing)}.\nOn Debian: apt-get install {packages}" in str(
            refused.value
        )


def test_needs_are_looked_for(backend, monkeypatch, tmp_path):
    """Without a path no program is there; headers are not said to miss without a compiler."""
    monkeypatch.setattr(backend, "TOP", tmp_path)  # nor is there a configure, as in a clone
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {what for what, _, there in backend.NEEDS if not there()}
    assert found == {"a C compiler", "make", "autoreconf", "automake", "libtoolize", "pkg-config"}


def test_a_header_that_is_not_there_is_missed(backend):
    assert backend._header("stdio.h")() and not backend._header("no_such_header.h")()
    assert not backend._pkg_config("no-such-library >= 1")() or shutil.which("pkg-config") is None


def test_the_packages_are_those_that_quickstart_installs_and_the_readme_names(backend):
    quickstart = re.search(r"^needed=\(([^)]*)\)", (TOP / "quickstart").read_text(), re.MULTILINE)[
        1
    ].split()
    readme = (TOP / "README.md").read_text()
    for _, package, _ in backend.NEEDS:
        assert package in quickstart and package in readme


def test_the_build_asks_for_nothing_that_would_be_fetched(backend):
    text = (TOP / "pyproject.toml").read_text()
    assert (
        "requires = []" in text
        and 'build-backend = "pip_backend"' in text
        and 'backend-path = ["build-aux"]' in text
    )
    assert backend.get_requires_for_build_wheel() == []
