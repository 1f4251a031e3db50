#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that clang-format leaves the C sources as they are, and black the Python sources.

.clang-format and [tool.black] of pyproject.toml say how they look.  Versions of both tools differ
in
their results, so only those of Debian 12 are asked: clang-format 14 and black 23.  A tool that is
not there is passed over; without clang-format the test is skipped.  What is laid out by hand stands
between `clang-format off` and `on`, or `fmt: off` and `fmt: on`.

    format.py            the C files that clang-format would change; fails if they are more than the
                         limit in format.txt
    format.py --python   the same, and the Python files that black would change, of which there may
        be
                         none; black takes minutes, so `make check` leaves this to `make
                         format-check`
    format.py --write    formats the sources, and lowers the limit
"""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LIMIT = os.path.join(ROOT, "tests", "style", "format.txt")
FOLDERS = ("core", "plugins", "plugin-api", "tools", "tests", "bench", "examples")
PYTHON_FOLDERS = ("python", "build-aux", "bench", "examples", "plugins", "tests", "tools")
CLANG_FORMAT = (("CLANG_FORMAT", "clang-format-14", "clang-format"), r"version 14\.")
BLACK = (("BLACK", "black"), r"black, 23\.")


def tool(names, version):
    """The program of the right version, or None.  The first name is a variable that may name it."""
    for name in (os.environ.get(names[0]), *names[1:]):
        if name and shutil.which(name):
            text = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(version, text):
                return name
    return None


def sources(folders, endings):
    for top in folders:
        for folder, inner, names in os.walk(os.path.join(ROOT, top)):
            inner[:] = sorted(name for name in inner if name not in ("released", "build"))
            for name in sorted(names):
                if name.endswith(endings):
                    yield os.path.join(folder, name)


def python_differs(write):
    """True if black would change a Python file; with write it changes them, and the answer is
    no."""
    program = tool(*BLACK)
    if program is None:
        print("black 23 is not installed (apt-get install black): Python is not looked at")
        return False
    files = list(sources(PYTHON_FOLDERS, ".py"))
    config = os.path.join(ROOT, "pyproject.toml")
    command = [program, "--quiet", f"--config={config}", *([] if write else ["--check"]), *files]
    if write:
        subprocess.run(command, check=True)
        return False
    command.remove("--quiet")
    done = subprocess.run(command, capture_output=True, text=True)
    for path in re.findall(r"^would reformat (.*)$", done.stderr, re.M):
        print(f"{os.path.relpath(path, ROOT)} is not formatted: make format")
    if done.returncode not in (0, 1):
        print(done.stderr)
    print(
        f"black: {len(files)} Python files, {'some differ' if done.returncode else 'none differs'}"
    )
    return done.returncode != 0


def main():
    program, files = tool(*CLANG_FORMAT), list(sources(FOLDERS, (".c", ".h")))
    differs = False
    if "--write" in sys.argv or "--python" in sys.argv:
        differs = python_differs("--write" in sys.argv)
    if program is None:
        print("clang-format 14 is not installed (apt-get install clang-format): skipped")
        return 1 if differs else 77
    if "--write" in sys.argv:
        for _ in range(2):  # comments that were cut in two take a second turn
            subprocess.run([program, "-i", "--style=file", *files], check=True)
    command = [program, "--dry-run", "--ferror-limit=1", "--style=file", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bad = sorted(set(re.findall(r"^(.*?):\d+:\d+: warning: code should be", done.stderr, re.M)))
    with open(LIMIT, encoding="utf-8") as file:
        limit = int(file.read().split()[-1])
    for path in bad if len(bad) > limit or "--show" in sys.argv else ():
        print(f"{os.path.relpath(path, ROOT)} is not formatted: make format")
    print(f"{len(bad)} of {len(files)} files are not formatted, limit {limit}")
    if "--write" in sys.argv:
        with open(LIMIT, "w", encoding="utf-8") as file:
            file.write(
                f"# The limit of format.py, which only falls.\nfiles {min(limit, len(bad))}\n"
            )
    failed = differs or len(bad) > limit
    print(f"{1 - failed} passed, {int(failed)} failed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
