# SPDX-License-Identifier: Apache-2.0
"""The hooks that pip calls when it installs this folder (PEP 517): ./configure, make and make
install, and a wheel of what was installed.

The wheel is an installation that is moved as a whole (core/base/installed.h): the package holds
the library, the plugins, the program, headers and documents.  It runs with the one Python that
built it, and with the GLib, SLEEF and CBLAS of this system.

    pip install .          for the Python of the environment that is active
    pip install . --config-settings configure=--enable-hardening
                           with more words for ./configure
    CFLAGS, CC ...         as make and ./configure have them
"""

import base64
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

TOP = pathlib.Path(__file__).resolve().parent.parent
# The folder of the packages, for configure; it is installed below another folder, and moved.
ROOT = "/nonexistent"
PACKAGE = "gramme"

# The program of the environment: the package's own, told which Python asks.  pip writes this
# environment's Python into the first line.
PROGRAM = b"""#!python
import importlib.util
import os
import sys

os.environ["GM_PYTHON"] = sys.executable
program = os.path.join(os.path.dirname(importlib.util.find_spec("gramme").origin), "bin", "gramme")
os.execv(program, ["gramme", *sys.argv[1:]])
"""


# -- What is needed --------------------------------------------------------------------------------


def compiler():
    return shlex.split(os.environ.get("CC", "gcc"))


def _program(name):
    return lambda: shutil.which(name) is not None


def _header(name, *flags):
    def there():
        try:
            done = subprocess.run(
                [*compiler(), *flags, "-E", "-x", "c", "-"],
                input=f"#include <{name}>\n",
                capture_output=True,
                text=True,
            )
        except OSError:
            return True  # the missing compiler is told
        return done.returncode == 0

    return there


def _pkg_config(what):
    return (
        lambda: shutil.which("pkg-config") is None
        or subprocess.run(["pkg-config", "--exists", what]).returncode == 0
    )


def _to_configure(name):
    return lambda: (TOP / "configure").exists() or shutil.which(name) is not None


# (what, its Debian package, whether it is there); the packages are those of ./quickstart and of
# README.md, "What it needs".
NEEDS = (
    ("a C compiler", "build-essential", lambda: shutil.which(compiler()[0]) is not None),
    ("make", "build-essential", _program("make")),
    ("autoreconf", "autoconf", _to_configure("autoreconf")),
    ("automake", "automake", _to_configure("automake")),
    ("libtoolize", "libtool", _to_configure("libtoolize")),
    ("pkg-config", "pkg-config", _program("pkg-config")),
    ("GLib's headers", "libglib2.0-dev", _pkg_config("glib-2.0 >= 2.66")),
    ("sleef.h", "libsleef-dev", _header("sleef.h")),
    ("cblas.h", "libopenblas-dev", _header("cblas.h")),
    (
        "the headers of " + sys.executable,
        "python3-dev",
        _header("Python.h", "-I" + sysconfig.get_path("include")),
    ),
)


def check_needs():
    """Ends the process with all that is missing and the packages that have it."""
    missing = [(what, package) for what, package, there in NEEDS if not there()]
    if missing:
        packages = list(dict.fromkeys(package for _, package in missing))
        sys.exit(
            "gramme is compiled by what is on this system, where these are missing: "
            + ", ".join(what for what, _ in missing)
            + ".\n"
            "On Debian: apt-get install " + " ".join(packages)
        )


# -- What it is called -----------------------------------------------------------------------------


def version():
    return re.search(
        r"^AC_INIT\(\[gramme\], \[([^\]]+)\]", (TOP / "configure.ac").read_text(), re.MULTILINE
    )[1]


def metadata():
    """The text that core/METADATA.in becomes."""
    return (TOP / "core/METADATA.in").read_text().replace("@PACKAGE_VERSION@", version())


def full_name():
    """The distribution's name and version, as files are called."""
    name = re.search(r"^Name: (.*)$", metadata(), re.MULTILINE)[1]
    return f"{re.sub(r'[-_.]+', '_', name).lower()}-{version()}"


def tag():
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return f"{python}-{python}-{re.sub(r'[-.]', '_', sysconfig.get_platform())}"


# -- Building --------------------------------------------------------------------------------------


def run(*words, where):
    """Runs a command whose output pip shows if it fails; ends the process then."""
    environment = {"CFLAGS": "-O2", **os.environ}
    if subprocess.run([str(word) for word in words], cwd=where, env=environment).returncode != 0:
        sys.exit(f"gramme: {words[0]} failed in {where}; the reason stands above")


def configured(work, config_settings):
    """A build folder below `work` that is ready for make."""
    source, build, script = TOP, pathlib.Path(work, "build"), TOP / "configure"
    if not script.exists() or script.stat().st_mtime < (TOP / "configure.ac").stat().st_mtime:
        run("autoreconf", "-fi", where=TOP)
    # Sources that were configured in their own folder are built elsewhere as a tarball of them is.
    if (TOP / "config.status").exists():
        source = pathlib.Path(work, "source")
        run("make", "distdir", f"distdir={source}", where=TOP)
    said = (config_settings or {}).get("configure", [])
    build.mkdir()
    run(
        source / "configure",
        f"PYTHON={sys.executable}",
        f"--prefix={ROOT}/{PACKAGE}",
        f"am_cv_python_pythondir={ROOT}",
        f"am_cv_python_pyexecdir={ROOT}",
        *([said] if isinstance(said, str) else said),
        where=build,
    )
    return build


def contents(root):
    """[(name in the wheel, bytes, True for a program)] of the installation in `root`."""
    found = []
    for path in sorted(pathlib.Path(root).rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_dir() or "__pycache__" in name or re.fullmatch(LEFT_OUT, name):
            continue
        data = path.read_bytes()
        if name.endswith(".pc"):
            data = re.sub(rb"^prefix=.*$", b"prefix=${pcfiledir}/../..", data, flags=re.MULTILINE)
        if name.startswith(OF_THE_ENVIRONMENT):
            name = f"{full_name()}.data/data/{name.removeprefix(PACKAGE + '/')}"
        found.append((name, data, bool(path.stat().st_mode & 0o100)))
    return found


# What others look for in the environment's own folders: man, and completion for bash.
OF_THE_ENVIRONMENT = ("gramme/share/man/", "gramme/share/bash-completion/")


# A wheel has no links, so the library lies there under the one name that the loader asks for, and
# a C program is linked with `make install`'s; pip writes INSTALLER.
LEFT_OUT = "|".join(
    (
        r"gramme/lib/libgramme\.so(\.0\.0\.0)?",
        r"gramme/lib/pkgconfig/gramme\.pc",
        r"[^/]*\.dist-info/INSTALLER",
    )
)


def write_wheel(folder, root):
    """Writes the wheel of an installation into `folder`; its name."""
    info, files = full_name() + ".dist-info", contents(root)
    files.append((f"{full_name()}.data/scripts/gramme", PROGRAM, True))
    wheel = f"Wheel-Version: 1.0\nGenerator: gramme ({version()})\n"
    wheel += f"Root-Is-Purelib: false\nTag: {tag()}\n"
    files.append((f"{info}/WHEEL", wheel.encode(), False))
    record = ""
    for member, data, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{member},sha256={digest},{len(data)}\n"
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), False))
    name = f"{full_name()}-{tag()}.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as file:
        for member, data, is_program in files:
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, data)
    return name


# -- What pip calls --------------------------------------------------------------------------------


def get_requires_for_build_wheel(config_settings=None):
    check_needs()
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = full_name() + ".dist-info"
    folder = pathlib.Path(metadata_directory, info)
    folder.mkdir()
    (folder / "METADATA").write_text(metadata())
    return info


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    check_needs()
    with tempfile.TemporaryDirectory(prefix="gramme-wheel-") as work:
        build = configured(work, config_settings)
        run("make", f"-j{len(os.sched_getaffinity(0))}", where=build)
        run("make", "install", f"DESTDIR={work}/installed", where=build)
        return write_wheel(wheel_directory, f"{work}/installed{ROOT}")


def build_sdist(sdist_directory, config_settings=None):
    check_needs()
    with tempfile.TemporaryDirectory(prefix="gramme-sdist-") as work:
        run("make", "distdir", f"distdir={full_name()}", where=configured(work, config_settings))
        tree = pathlib.Path(work, "build", full_name())
        (tree / "PKG-INFO").write_text(metadata())
        with tarfile.open(
            os.path.join(sdist_directory, full_name() + ".tar.gz"),
            "w:gz",
            format=tarfile.PAX_FORMAT,
        ) as file:
            file.add(tree, full_name())
    return full_name() + ".tar.gz"
