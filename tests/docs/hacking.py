#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/hacking.md, carried out: its changes are applied to a copy of the sources, which is built,
and its programs are run there.

    tests/docs/hacking.py FOLDER        (make check-hacking does it; the folder holds a tree that is
        configured in FOLDER/build)
    tests/docs/hacking.py --apply ROOT  applies the changes to the sources in ROOT, and no more

Prints a line for each program, then "N passed, N failed".
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^## (.*?)$|^```(diff|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks():
    """(section, kind, text) of the page, in its order."""
    section = ""
    for heading, kind, text in FENCED.findall((HERE / "docs/hacking.md").read_text()):
        section = heading or section
        if kind:
            yield section, kind, text


def apply(root):
    for section, kind, text in blocks():
        if kind == "diff":
            done = subprocess.run(
                ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch"],
                input=text,
                text=True,
                cwd=root,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            if done.returncode:
                sys.exit(f"the change of the section {section!r} does not fit:\n{done.stdout}")


def run(build):
    passed = failed = 0
    for section, kind, text in blocks():
        if kind != "python":
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(text)
            file.flush()
            done = subprocess.run(
                ["./in-tree", "python3", "-B", file.name],
                cwd=build,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        passed, failed = passed + (done.returncode == 0), failed + (done.returncode != 0)
        print(f"{'FAILED' if done.returncode else 'ok'}: {section}")
        if done.returncode:
            print(done.stdout[-3000:])
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if sys.argv[1] == "--apply":
        apply(sys.argv[2])
    else:
        sys.exit(run(pathlib.Path(sys.argv[1]) / "build"))
