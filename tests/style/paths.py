#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sees that the files which README, CHANGELOG and docs/ name exist: targets of links, and paths
such as core/graph/fold.c.

Prints each that does not, then "N passed, N failed" with one count per page.
"""
import glob
import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
PATH = re.compile(
    r"(?<![\w/.-])(?:core|python(?=/gramme)|plugins|plugin-api|tools|tests|bench|docs|examples|build-aux)/[\w./*-]*[\w*]"
)
ANCHOR = re.compile(r"\]\(([^):\s]*)#([^)]+)\)")


def anchors(path):
    """The anchors of a page's headings, as they are shown on the web."""
    with open(path, encoding="utf-8") as file:
        return {
            re.sub(r"[^\w -]", "", line.lstrip("# ").strip().lower()).replace(" ", "-")
            for line in file
            if line.startswith("#")
        }


def missing(page):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    folder = os.path.dirname(page)
    for target in set(LINK.findall(text)):
        if not os.path.exists(os.path.join(folder, target)):
            yield f"the link to {target}"
    for target, anchor in set(ANCHOR.findall(text)):
        if anchor not in anchors(os.path.join(folder, target) if target else page):
            yield f"the heading #{anchor} of {target or 'this page'}"
    made = set(
        re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)
    )  # by the changes that the page shows
    for path in set(PATH.findall(text)) - made:
        if (
            "NAME" not in path
            and not glob.glob(os.path.join(ROOT, path))
            and not path.startswith("docs/released")
        ):
            yield path


def main():
    passed = failed = 0
    single = [os.path.join(ROOT, name) for name in ("README.md", "CHANGELOG.md", "tests/README.md")]
    for page in [*single, *sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))]:
        found = sorted(missing(page))
        for what in found:
            print(f"{os.path.relpath(page, ROOT)}: {what} does not exist")
        passed, failed = passed + (not found), failed + bool(found)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
