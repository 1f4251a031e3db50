#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which statements of statements.txt are held by which tests: statements.py [--write].

A test cites an id in its name (test_cell_07_...), in its first line, or in a comment in its body.
The table is docs/statements.md; --write makes it, and without --write it is an error if it is not
what would be written.  A citation of an id that does not exist is an error too.
"""

import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
TABLE = os.path.join("docs", "statements.md")
FOLDERS = (
    "tests/trace",
    "tests/aot",
    "tests/python",
    "tests/unit",
    "tests/graph",
    "tests/plugin",
    "tests/ops",
    "tests/fuzz",
)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def statements():
    rows = {}
    for line in read("tests/style/statements.txt").splitlines():
        if line and not line.startswith("#"):
            number, words = line.split(" ", 1)
            assert number not in rows, number
            rows[number] = words
    return rows


def citations(known, digits=r"\d\d"):
    """{id: ["file: test"]} and the ids that are cited but do not exist."""
    kinds = "|".join(sorted({number.split("-")[0] for number in known}))
    cited, unknown = {number: [] for number in known}, []
    pattern = re.compile(rf"\b({kinds})-({digits})\b|(?:test|case)_({kinds})_({digits})(?=_)", re.I)
    heading = re.compile(r"^(?:def ((?:test|case)_\w+)|START_TEST \((\w+)\)|# expect:.*)")
    for folder in FOLDERS:
        for top, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
            for name in sorted(names):
                if not name.endswith((".py", ".c", ".gm", ".sh")):
                    continue
                path = os.path.relpath(os.path.join(top, name), ROOT)
                test = "-"
                lines = read(path).splitlines()
                for i, line in enumerate(lines):
                    match = heading.match(line)
                    if match and (match[1] or match[2]):
                        test = match[1] or match[2]
                    for found in pattern.finditer(line):
                        number = f"{(found[1] or found[3]).upper()}-{found[2] or found[4]}"
                        # a comment above a function is the function's
                        after = next(
                            (
                                heading.match(later)
                                for later in lines[i : i + 4]
                                if heading.match(later)
                                and (heading.match(later)[1] or heading.match(later)[2])
                            ),
                            None,
                        )
                        owner = (
                            (after[1] or after[2])
                            if line.lstrip().startswith(("#", "/*"))
                            and not line.startswith(" ")
                            and after
                            else test
                        )
                        where = f"{path}: {owner}"
                        if number not in cited:
                            unknown.append(f"{path}: {number}")
                        elif where not in cited[number]:
                            cited[number].append(where)
    return cited, unknown


def table(rows, cited):
    lines = [
        "# Statements",
        "",
        (
            "Made by `tests/style/statements.py --write` from `tests/style/statements.txt` and the "
            "tests; do not edit."
        ),
        "[semantics.md](semantics.md) has each statement in full.",
        "A statement is held if a test cites it, and `make check` runs that test.",
        "",
        f"{sum(map(bool, cited.values()))} of {len(rows)} are held.",
        "",
        "| id | what | state | tests |",
        "|---|---|---|---|",
    ]
    for number, words in rows.items():
        tests = "<br>".join(f"`{where}`" for where in cited[number])
        lines.append(f"| {number} | {words} | {'held' if tests else 'no test'} | {tests} |")
    return "\n".join(lines) + "\n"


def main():
    rows = statements()
    cited, unknown = citations(rows)
    text = table(rows, cited)
    path = os.path.join(ROOT, TABLE)
    if "--write" in sys.argv[1:]:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    missing = [number for number, tests in cited.items() if not tests]
    print(
        f"{len(rows) - len(missing)} of {len(rows)} statements are cited by a test; not cited: "
        f"{' '.join(missing) or 'none'}"
    )
    for where in unknown:
        print(f"{where} is no statement")
    stale = not os.path.exists(path) or read(TABLE) != text
    if stale:
        print(
            f"{TABLE} is not what the tests say: run tests/style/statements.py --write and commit "
            "it"
        )
    print(f"{2 - stale - bool(unknown)} passed, {stale + bool(unknown)} failed")
    return 1 if stale or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
