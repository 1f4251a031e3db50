#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one fault at a time in the sources and asks which tests see it.

    planted_faults.py --tree COPY --build COPY/build [--first N] [--count N] [--log FILE]
    planted_faults.py --tree TREE --list N            shows N faults, plants none

COPY is a copy of the tree that nobody else uses: its sources are changed.  A fault changes one
operator, constant or branch of core/trace, core/models, core/guard, core/aot or plugins/codegen;
its number is the seed that chose it, so that it can be planted again.  It is compiled, and the
tests of LADDER run, quickest
first, until one fails: then the fault is seen.  What no test sees is printed with its place, to be
looked at: a test is missing, or the changed code makes no difference.  A line of JSON goes to the
log for each fault; numbers that are in it already are passed over.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

ROOMS = ("core/trace", "core/models", "core/guard", "core/aot", "plugins/codegen")

# What one fault replaces by what.  Each pattern stands for itself in code, outside of comments,
# strings and directives.
SWAPS = [
    (r"(?<![=!<>])==(?!=)", "!="),
    (r"!=", "=="),
    (r"&&", "||"),
    (r"\|\|", "&&"),
    (r"(?<![<>=-])<(?![<=])", "<="),
    (r"<=(?!=)", "<"),
    (r"(?<![<>=-])>(?![>=])", ">="),
    (r"(?<!>)>=", ">"),
    (r"(?<=[\w)\]]) \+ (?=[\w(])", " - "),
    (r"(?<=[\w)\]]) - (?=[\w(])", " + "),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r"(?<![\w.])0(?![\w.])", "1"),
    (r"(?<![\w.])1(?![\w.])", "2"),
    (r"\bif \((?!!)", "if (!"),
    (r"(?<=[(&|] )!(?=\w)|(?<=\()!(?=\w)", ""),
    (r"\bcontinue;", ";"),
    (r"\bbreak;(?=\s*\n\s*\})", ";"),
    (r"\+\+", "--"),
    (r"\|= ", "= "),
]

# Steps of the check, quickest first; each is a command in the build folder.
LADDER = [
    "./in-tree sh {src}/tests/pytest.sh trace/test_programs.py",
    "./in-tree sh {src}/tests/pytest.sh aot",
    "for t in tests/unit/test_aot tests/unit/test_plan tests/unit/test_stages "
    "tests/unit/test_backends tests/unit/test_codegen; do "
    "test ! -x $t || ./in-tree $t || exit 1; done",
    "./in-tree sh {src}/tests/pytest.sh trace",
    "GM_STRESS=rollback,arena ./in-tree sh {src}/tests/pytest.sh trace",
    "./in-tree sh {src}/tests/pytest.sh python",
    "./in-tree sh {src}/tests/state.sh",
    "./in-tree sh {src}/tests/breaks.sh",
    "./in-tree sh {src}/tests/guards.sh",
    "make -k check",
]
LIMIT_S = 1800


def code_only(text):
    """The text with comments, strings, characters and directives blanked, so that places keep their
    numbers."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^[ \t]*#(?:\\\n|[^\n])*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.M)


def is_in_body(line):
    return line[:1] in (" ", "\t")  # declarations and tables at the margin are left alone


def places(text):
    """All (start, end, replacement) of a file."""
    code = code_only(text)
    found = []
    for pattern, replacement in SWAPS:
        for m in re.finditer(pattern, code):
            line = code[code.rfind("\n", 0, m.start()) + 1 : m.start()]
            if is_in_body(line + " ") and line.strip()[:7] not in ("typedef", "extern "):
                closing = text[m.end() :]
                if replacement == "if (!":  # if (c) becomes if (!(c))
                    depth, at = 1, 0
                    while depth and at < len(closing):
                        depth += {"(": 1, ")": -1}.get(closing[at], 0)
                        at += 1
                    found.append((m.start(), m.end() + at, "if (!(" + closing[: at - 1] + "))"))
                else:
                    found.append((m.start(), m.end(), m.expand(replacement)))
    return found


def choose(tree, seed):
    """(path, line, before, after, new text) of fault number `seed`."""
    rng = random.Random(seed)
    files = sorted(f for room in ROOMS for f in (tree / room).glob("*.c"))
    weights = [f.stat().st_size for f in files]
    while True:
        path = rng.choices(files, weights)[0]
        text = path.read_text()
        options = places(text)
        if not options:
            continue
        start, end, replacement = rng.choice(options)
        new = text[:start] + replacement + text[end:]
        number = text.count("\n", 0, start)
        return (
            path,
            number + 1,
            text.split("\n")[number].strip(),
            new.split("\n")[number].strip(),
            new,
        )


def run(command, build, source):
    """(exit status, seconds, end of the output); a step that does not end is a failure."""
    env = {
        **os.environ,
        "top_srcdir": str(source),
        "top_builddir": str(build),
        "GRAMME_AUTO": "then=none",
        "GRAMME_CACHE": "0",
    }
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            shell=True,
            cwd=build,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
        status, output = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        status, output = -1, f"did not end within {LIMIT_S} s"
    return status, time.monotonic() - began, output[-400:]


def plant(tree, build, seed, ladder):
    path, line, before, after, new = choose(tree, seed)
    result = {
        "fault": seed,
        "file": str(path.relative_to(tree)),
        "line": line,
        "before": before,
        "after": after,
    }
    old = path.read_text()
    path.write_text(new)
    try:
        status, _, output = run("make -j2 all", build, tree)
        if status != 0:
            return {**result, "seen": "compiler", "said": output[-120:]}
        for step in ladder:
            status, seconds, output = run(step.format(src=tree), build, tree)
            if status not in (0, 77):
                return {**result, "seen": step, "seconds": round(seconds), "said": output[-120:]}
        return {**result, "seen": None}
    finally:
        path.write_text(old)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("planted.jsonl"))
    parser.add_argument(
        "--steps",
        type=int,
        default=len(LADDER),
        help="how many steps of the ladder; the last ones take long",
    )
    parser.add_argument("--list", type=int, metavar="N")
    args = parser.parse_args()
    tree = args.tree.resolve()
    if args.list:
        for seed in range(args.first, args.first + args.list):
            path, line, before, after, _ = choose(tree, seed)
            print(f"{seed}: {path.relative_to(tree)}:{line}\n  - {before}\n  + {after}")
        return 0
    if not args.build:
        parser.error("--build is needed: a folder that was configured and built from --tree")
    build = args.build.resolve()
    done = (
        {json.loads(line)["fault"]: json.loads(line) for line in args.log.read_text().splitlines()}
        if args.log.exists()
        else {}
    )
    for seed in range(args.first, args.first + args.count):
        if seed in done:
            continue
        done[seed] = plant(tree, build, seed, LADDER[: args.steps])
        with args.log.open("a") as log:
            log.write(json.dumps(done[seed]) + "\n")
        print(
            (
                f"{seed}: {done[seed]['file']}:{done[seed]['line']}: "
                f"{done[seed]['seen'] or 'NOT SEEN'}"
            ),
            flush=True,
        )
    compiled = [r for r in done.values() if r["seen"] != "compiler"]
    missed = [r for r in compiled if not r["seen"]]
    for r in missed:
        print(
            f"not seen: {r['fault']}: {r['file']}:{r['line']}\n  - {r['before']}\n  + {r['after']}"
        )
    print(f"{len(compiled)} faults, {len(compiled) - len(missed)} seen, {len(missed)} not seen")
    return 0


if __name__ == "__main__":
    sys.exit(main())
