#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Golden tests of graph stages: run.py GRAMME [--accept] [NAME...]

Each tests/graph/NAME.gm begins with a line `# run: OPTIONS`; `gramme opt OPTIONS NAME.gm` must
print NAME.want, and what it prints must come through `gramme opt` unchanged, unless it is no graph
text.  With `# fails` as its second line the command must fail, and NAME.want is its message.
--accept writes what came instead: read the difference before you commit it.
"""
import difflib
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def opt(gramme, options, name, text=None):
    command = shlex.split(gramme) + ["opt", *options, name]
    done = subprocess.run(command, cwd=HERE, input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def check(gramme, source, accept):
    """The problem as text, or None."""
    lines = source.read_text().splitlines()
    if not lines[0].startswith("# run:"):
        return "the first line should be `# run: OPTIONS`"
    options = shlex.split(lines[0][len("# run:") :])
    fails = lines[1] == "# fails"
    code, out, err = opt(gramme, options, source.name)
    if code != (1 if fails else 0):
        return f"exit status {code}\n{out}{err}"
    came = err if fails else out
    want = source.with_suffix(".want")
    if accept:
        want.write_text(came)
    wanted = want.read_text() if want.exists() else ""
    if came != wanted:
        return "".join(
            difflib.unified_diff(wanted.splitlines(True), came.splitlines(True), want.name, "came")
        )
    if not fails and "image" not in options:
        code, again, err = opt(gramme, [], "-", out)
        if code or again != out:
            return "what it printed does not come through again:\n" + err + again
    return None


def main(args):
    accept = "--accept" in args
    args = [a for a in args if a != "--accept"]
    gramme, names = (args[0], args[1:]) if args else ("gramme", [])
    sources = [HERE / f"{n}.gm" for n in names] or sorted(HERE.glob("*.gm"))
    failed = 0
    for source in sources:
        problem = check(gramme, source, accept)
        failed += problem is not None
        print(f"{'FAIL' if problem else 'ok'} {source.stem}")
        if problem:
            print(problem)
    print(f"{len(sources) - failed} passed, {failed} failed")
    return 1 if failed or not sources else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
