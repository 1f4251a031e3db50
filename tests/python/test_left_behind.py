# SPDX-License-Identifier: Apache-2.0
"""Files that the back end cc leaves, and those that it must not leave: code in the cache, folders
for the compiler, processes that are killed."""

import os
import subprocess
import sys

import pytest

import gramme

HERE = os.path.dirname(os.path.abspath(__file__))
if "cc" not in gramme.compiler.list_backends():
    pytest.skip("the back end cc is not installed", allow_module_level=True)


def run(text, tmp_path, **environment):
    (tmp_path / "tmp").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "GRAMME_AUTO": "",
        "GRAMME_CACHE": "1",
        "GRAMME_CACHE_DIR": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path / "tmp"),
        **environment,
    }
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=100
    )


def left(tmp_path):
    return list((tmp_path / "tmp").glob("gramme-cc-*"))


PROGRAM = """
import gramme
def f(x): return (gramme.tanh(x) * 3 + x).sum()
x = gramme.arange(8.0).requires_grad_()
compiled = gramme.compile(f, backend="cc")
compiled(x).backward()
counts = gramme.compiler.cache_counts()
print(counts["hits"], counts["misses"], counts["stored"])
"""


def test_the_first_process_stores_what_the_compiler_made_and_the_second_needs_no_compiler(tmp_path):
    assert run(PROGRAM, tmp_path).stdout == "0 2 2\n"
    second = run(PROGRAM, tmp_path, GRAMME_CC=os.environ.get("GRAMME_CC", ""))
    assert second.stdout == "2 0 0\n", second.stdout + second.stderr
    assert not left(tmp_path)


END = {
    "_exit": "import os; os._exit(0)",
    "sys.exit": "import sys; sys.exit(0)",
    "SIGTERM": "import os; os.kill(os.getpid(), 15)",
    "SIGKILL": "import os; os.kill(os.getpid(), 9)",
}
UNDER_WAY = """
import gramme, glob, os, time
def f(x): return gramme.tanh(x) * 3 + x
compiled = gramme.compile(f)
for _ in range(3): compiled(gramme.ones(4))
while not glob.glob(os.environ["TMPDIR"] + "/gramme-cc-*/log"): time.sleep(0.001)
"""


@pytest.mark.parametrize("end", END)
def test_whatever_way_a_process_ends_its_folders_are_removed_at_the_latest_by_the_next_one(
    end, tmp_path
):
    # The compiler leaves files of its own in the folder, and a folder; it ends with its parent or
    # soon after.
    script = tmp_path / "compiler"
    script.write_text(
        '#!/bin/sh\nmkdir "$TMPDIR/more"\ntouch "$TMPDIR/ccXXXX.o" "$TMPDIR/more/file"\nsleep '
        "0.5\nexit 1\n"
    )
    script.chmod(0o755)
    run(UNDER_WAY + END[end], tmp_path, GRAMME_CC=str(script), GRAMME_CACHE="0")
    # One that ends in order removes it, but what a compiler that is being ended writes meanwhile.
    assert len(left(tmp_path)) in ((0, 1) if end == "sys.exit" else (1,))
    run(PROGRAM, tmp_path)
    assert not left(tmp_path)


def test_the_folder_of_a_process_that_lives_is_left_alone(tmp_path):
    text = UNDER_WAY + (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', sys.argv[1]], "
        "env={**os.environ, 'GRAMME_CC': ''}, check=True)\n"
    )
    text += "print(len(glob.glob(os.environ['TMPDIR'] + '/gramme-cc-*/log')))"
    script = tmp_path / "compiler"
    script.write_text("#!/bin/sh\nsleep 100\n")
    script.chmod(0o755)
    text = text.replace("sys.argv[1]", repr(PROGRAM))
    done = run(text, tmp_path, GRAMME_CC=str(script))
    assert done.stdout == "0 2 2\n1\n", done.stdout + done.stderr


def test_foreign_folders_of_the_same_kind_of_name_are_left_alone(tmp_path):
    (tmp_path / "tmp").mkdir()
    open_to_others, link = (
        tmp_path / "tmp" / "gramme-cc-abcdef",
        tmp_path / "tmp" / "gramme-cc-ghijkl",
    )
    open_to_others.mkdir(mode=0o755)
    (open_to_others / "file").touch()
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "mine" / "file").touch()
    link.symlink_to(tmp_path / "mine")
    run(PROGRAM, tmp_path)
    assert (
        (open_to_others / "file").exists()
        and (tmp_path / "mine" / "file").exists()
        and link.is_symlink()
    )


def test_killed_writers_leave_a_whole_cache_and_no_folders():
    program = os.environ.get("GM_PROGRAM") or "gramme"
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "..", "fuzz", "kills.py"), "--count", "10", "--functions", "4", "--program", program],
        capture_output=True, text=True, timeout=100, env={**os.environ, "GRAMME_AUTO": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 wrong" in done.stdout
