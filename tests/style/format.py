#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that clang-format leaves the C sources as they are; .clang-format says how they look.

Versions of clang-format differ in their results, so only version 14, Debian 12's, is asked.  Without
it the test is skipped.  What is laid out by hand stands between `clang-format off` and `on`.

    format.py           the files that clang-format would change; fails if they are more than the limit
    format.py --write   formats the sources, and lowers the limit in format.txt
"""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LIMIT = os.path.join(ROOT, "tests", "style", "format.txt")
FOLDERS = ("core", "plugins", "plugin-api", "tools", "tests", "bench", "examples")
MAJOR = 14


def tool():
    """The program of the right version, or None."""
    for name in (os.environ.get("CLANG_FORMAT"), f"clang-format-{MAJOR}", "clang-format"):
        if name and shutil.which(name):
            text = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"version {MAJOR}\.", text):
                return name
    return None


def sources():
    for top in FOLDERS:
        for folder, inner, names in os.walk(os.path.join(ROOT, top)):
            inner[:] = sorted(name for name in inner if name not in ("released", "build"))
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.join(folder, name)


def main():
    program, files = tool(), list(sources())
    if program is None:
        print(f"clang-format {MAJOR} is not installed (apt-get install clang-format): skipped")
        return 77
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
            file.write(f"# The limit of format.py, which only falls.\nfiles {min(limit, len(bad))}\n")
    failed = len(bad) > limit
    print(f"{1 - failed} passed, {int(failed)} failed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
