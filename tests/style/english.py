#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what makes the sources hard to read, and fails where a count has risen above its limit in
english.txt.

    headless    comments of C whose first word leaves their subject open: "What ...", "Whether ...",
        "Of ...", "Those ..."
    long        lines of C and Python over 100 columns; tables (.def) have columns of their own
    subjects    commits whose subject is over 72 characters (in a clone alone)

    english.py             the counts and their limits
    english.py --show CORE/ROOM   the comments and lines that count, below a folder
    english.py --write     lowers the limits to the counts; a limit is never raised
"""
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LIMITS = os.path.join(ROOT, "tests", "style", "english.txt")
FOLDERS = (
    "core",
    "python",
    "plugins",
    "plugin-api",
    "tools",
    "tests",
    "bench",
    "examples",
    "build-aux",
)
COMMENT = re.compile(r"/\*+\s*(?:[\w.-]+ -- )?((?:[^*]|\*(?!/))*)\*/")
HEADLESS = re.compile(r"(What|Whatever|Whether|Of|Those|Who|Whom|Whose|Where|Which|As)\b")
COLUMNS = 100


def files(below, endings):
    for folder, inner, names in os.walk(os.path.join(ROOT, below)):
        inner[:] = sorted(
            n for n in inner if not n.startswith((".", "__pycache__", "build")) and n != "released"
        )
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def comments(path):
    """(line, text) of each comment of a file of C."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: '"' + "_" * (len(m[0]) - 2) + '"', read(path))
    for m in COMMENT.finditer(text):
        words = m[1].strip().lstrip("* \n")
        if words and not words.startswith("SPDX"):
            yield text.count("\n", 0, m.start()) + 1, words


def headless(below):
    found, n = [], 0
    for path in files(below, (".c", ".h", ".def")):
        for line, words in comments(path):
            n += 1
            if HEADLESS.match(words):
                found.append(f"{path}:{line}: {words.splitlines()[0][:90]}")
    return found, n


def long(below):
    found = []
    for path in files(below, (".c", ".h", ".py")):
        found += [
            f"{path}:{i}: {len(line)} columns"
            for i, line in enumerate(read(path).splitlines(), 1)
            if len(line) > COLUMNS
        ]
    return found


def subjects():
    if not os.path.exists(os.path.join(ROOT, ".git")):
        return None
    done = subprocess.run(["git", "log", "--format=%s"], cwd=ROOT, capture_output=True, text=True)
    return None if done.returncode else sum(len(line) > 72 for line in done.stdout.splitlines())


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--show":
        print("\n".join(headless(sys.argv[2])[0] + long(sys.argv[2])))
        return 0
    bad, n = [], 0
    for folder in FOLDERS:
        found, of = headless(folder)
        bad, n = bad + found, n + of
    counts = {
        "headless": len(bad),
        "long": sum(len(long(folder)) for folder in FOLDERS),
        "subjects": subjects(),
    }
    with open(LIMITS, encoding="utf-8") as file:
        limits = {
            name: int(value)
            for name, value in (line.split() for line in file if not line.startswith("#"))
        }
    passed = failed = 0
    for name, count in counts.items():
        if count is None:
            continue
        of = f" of {n} comments ({100 * count / n:.1f} %)" if name == "headless" else ""
        print(
            f"{name}: {count}{of}, limit {limits[name]}"
            + (": more than before" if count > limits[name] else "")
        )
        passed, failed = passed + (count <= limits[name]), failed + (count > limits[name])
        limits[name] = min(limits[name], count)
    if "--write" in sys.argv:
        with open(LIMITS, "w", encoding="utf-8") as file:
            file.write(
                "# Limits of english.py, which only fall.\n"
                + "".join(f"{name} {value}\n" for name, value in limits.items())
            )
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
