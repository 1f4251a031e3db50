# SPDX-License-Identifier: Apache-2.0
"""A C compiler that says all is well and leaves a file that is not whole: as good as one that
fails, and never a crash."""

import json
import os
import subprocess
import sys

import pytest

import gramme

if "cc" not in gramme.compiler.list_backends():
    pytest.skip("the back end cc is not installed", allow_module_level=True)

COMPILER = f"""#!/bin/sh
# Compiles, then does to the file what the text in "damage" beside this script says.
{os.environ.get("CC", "cc")} "$@" || exit
while [ "$1" != -o ]; do shift; done
file=$2
size=$(stat -c %s "$file")
. "$(dirname "$0")/damage"
"""
ZEROS = 'dd if=/dev/zero of="$file" bs=512 conv=notrunc status=none '
DAMAGES = {
    "whole": ":",
    "empty": 'truncate -s 0 "$file"',
    "a few bytes": 'truncate -s 40 "$file"',
    "a hundredth": 'truncate -s $((size / 100)) "$file"',
    "a tenth": 'truncate -s $((size / 10)) "$file"',
    "half": 'truncate -s $((size / 2)) "$file"',
    "all but a byte": 'truncate -s $((size - 1)) "$file"',
    "a hole to the end": 'truncate -s $((size / 2)) "$file"; truncate -s $size "$file"',
    "a hole to the end, later": 'truncate -s $((size * 9 / 10)) "$file"; truncate -s $size "$file"',
    "zeros all over": ZEROS + "count=$((size / 512 + 1))",
    "zeros behind the header": ZEROS + "seek=1 count=$((size / 512))",
    "zeros in the code": ZEROS + "seek=8 count=4",
    "a text": 'echo "int main;" >"$file"',
    "another kind of object": 'echo "int x;" | cc -xc -c -o "$file" -',
}
PROGRAM = """
import json, sys, warnings
import gramme
backend, folder, damages = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
warnings.simplefilter("ignore")
x = gramme.arange(40.0) / 7
answers = {}
for i, (name, damage) in enumerate(damages.items()):
    with open(f"{folder}/damage", "w") as file:
        file.write(damage)
    gramme.compiler.reset()  # the limit on kinds of calls is for the code object below
    def f(x):
        return x * 3 + gramme.tanh(x) * i
    c = gramme.compile(f, backend=backend)
    try:
        good = all(bool((c(x) == f(x)).all()) for _ in range(4))
        if backend == "auto":
            gramme.compiler.wait(30)
            good = good and all(bool((c(x) == f(x)).all()) for _ in range(4))
        answers[name] = "ok" if good else "wrong"
    except Exception as error:
        answers[name] = f"{type(error).__name__}: {error}"
print(json.dumps(answers))
"""


@pytest.fixture
def compiler(tmp_path):
    script = tmp_path / "compiler"
    script.write_text(COMPILER)
    script.chmod(0o755)
    return script


def run(compiler, backend):
    env = dict(
        os.environ,
        GRAMME_CC=str(compiler),
        GRAMME_CACHE="0",
        GRAMME_AUTO="first=tcc,then=cc,after=1",
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, backend, str(compiler.parent), json.dumps(DAMAGES)],
        capture_output=True,
        text=True,
        env=env,
        timeout=200,
    )
    assert done.returncode == 0, f"{backend} ends with {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)


def test_a_damaged_object_is_an_error_that_says_so(compiler):
    answers = run(compiler, "cc")
    assert answers.pop("whole") == "ok"
    for name, answer in answers.items():
        assert "the file that it wrote" in answer and "BackendError" in answer, f"{name}: {answer}"


def test_a_damaged_object_in_the_background_leaves_the_first_code(compiler):
    answers = run(compiler, "auto")
    assert set(answers.values()) == {"ok"}, answers
