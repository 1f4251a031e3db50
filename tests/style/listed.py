#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source and test is named in a makefile: what is not would be missing from the tarball, and
nobody would notice.  What debug checks and stress modes switch off is named in tests/README.md: it
is tested by random programs without them.  The file column of core/trace/trackers.def is right."""

import glob
import os
import re
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ENDINGS = (".c", ".h", ".def", ".py", ".sh", ".gm", ".want", ".mk")


def makefiles():
    found = [os.path.join(ROOT, "Makefile.am")]
    for folder in ("core", "plugins", "tools", "tests", "tests/unit", "examples"):
        found += glob.glob(os.path.join(ROOT, folder, "*.mk"))
    words = set()
    for path in found:
        with open(path) as file:
            words.update(file.read().replace("\\", " ").replace("$(srcdir)/", "").split())
    return words


SWITCHES = ("GM_DEBUG_CHECKS", "gm_stress (", "gm_stress_number (", 'getenv ("GM_PARTS")')


def switched():
    """Files that do something else under debug checks or a stress mode, which tests/README.md does
    not name where it says what is off then."""
    with open(os.path.join(ROOT, "tests", "README.md")) as file:
        section = file.read().partition("## What a check switches off")[2]
    for top in ("core", "plugins"):
        for path in sorted(glob.glob(os.path.join(ROOT, top, "**", "*.[chd]*"), recursive=True)):
            with open(path, errors="replace") as file:
                text = file.read()
            name = os.path.relpath(path, ROOT)
            if any(switch in text for switch in SWITCHES) and name not in ("core/base/log.h",):
                yield name, name in section


def misplaced_kinds():
    """(kind, file) of each row of trackers.def whose file does not define the kind."""
    with open(os.path.join(ROOT, "core", "trace", "trackers.def")) as file:
        rows = re.findall(r"^TRACKER \((\w+), +(\w+)\)", file.read(), re.M)
    for kind, stem in rows:
        names = [
            f"core/{room}/{prefix}{stem}.c"
            for prefix in ("tracker_", "")
            for room in ("trace", "models")
        ]
        path = next((name for name in names if os.path.exists(os.path.join(ROOT, name))), None)
        text = open(os.path.join(ROOT, path)).read() if path else ""
        if not re.search(rf"^const GmTrackerKind gm_kind_{kind}\b.*=", text, re.M):
            yield kind, path or stem


def main():
    words, passed, failed = makefiles(), 0, 0
    for kind, path in misplaced_kinds():
        print(f"trackers.def says that {path} defines gm_kind_{kind}")
        failed += 1
    for name, named in switched():
        if not named:
            print(
                f"{name} asks for debug checks or a stress mode: say in tests/README.md what is "
                "off then, and what tests it"
            )
        passed, failed = passed + named, failed + (not named)
    for top in ("core", "python", "plugins", "plugin-api", "tools", "tests", "bench", "examples"):
        for folder, inner, names in os.walk(os.path.join(ROOT, top)):
            inner[:] = [
                name for name in inner if not name.startswith((".", "__pycache__", "build"))
            ]
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if not name.endswith(ENDINGS):
                    continue
                known = path in words or any(
                    "*" in w and glob.fnmatch.fnmatch(path, w) for w in words
                )
                if not known:
                    print(f"{path} is named in no makefile: add it to the list of its folder")
                passed, failed = passed + known, failed + (not known)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
