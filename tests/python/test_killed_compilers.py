# SPDX-License-Identifier: Apache-2.0
"""C compilers of a process that ends in the middle: neither they nor their children outlive it,
and the next process removes their folder."""

import os
import signal
import subprocess
import sys
import time

import pytest

import gramme

if "cc" not in gramme.compiler.list_backends():
    pytest.skip("the back end cc is not installed", allow_module_level=True)
# A plugin is tried once: let that be with a compiler that works.
gramme.compile(lambda x: x + 1, backend="cc")(gramme.ones(2))

# A compiler that never ends, with a child that has closed nothing; both leave their process ids.
SLOW = '#!/bin/sh\nsleep 1000 &\necho "$$ $!" >>"$PIDS"\nwait\n'
START = """
import gramme, os, signal, subprocess, sys, threading, time
pids = os.environ["PIDS"]
def started(n=1):
    while not os.path.exists(pids) or len(open(pids).read().split()) < 2 * n: time.sleep(0.005)
def made(k, space={}):
    exec(f"def f(x): return x * 3 + {k}", space)
    return gramme.compile(space["f"], backend="cc")
call = lambda k=0: made(k)(gramme.ones(9))
def work(k=0):
    try: call(k)
    except BaseException: pass
threading.Thread(target=work, daemon=True).start()
started()
"""
ENDS = {
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "_exit": "os._exit(0)",
    "exit": "sys.exit(0)",
    "exec": "os.execv('/bin/true', ['true'])",
    "a child of a fork lives on": """
if os.fork(): os.kill(os.getpid(), signal.SIGKILL)
open(pids + ".child", "w").write(str(os.getpid()))
time.sleep(100)
""",
}

TRIPLE = """
import gramme
try:
    print(gramme.compile(lambda x: x * 3, backend="cc")(gramme.ones(2)).tolist())
except gramme.compiler.BackendError as e:
    print(e)
"""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def are_gone(pids):
    for _ in range(500):
        if not any(map(is_alive, pids)):
            return True
        time.sleep(0.01)
    for pid in filter(is_alive, pids):
        os.kill(int(pid), signal.SIGKILL)
    return False


def environment(tmp_path, **more):
    script = tmp_path / "slow"
    script.write_text(SLOW)
    script.chmod(0o755)
    (tmp_path / "tmp").mkdir(exist_ok=True)
    paths = {"GRAMME_CC": script, "PIDS": tmp_path / "pids", "TMPDIR": tmp_path / "tmp", **more}
    said = {name: str(value) for name, value in paths.items()}
    return {**os.environ, "GRAMME_CACHE": "0", "GRAMME_AUTO": "", **said}


def run(text, env):
    command = [sys.executable, "-c", text]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("end", ENDS)
def test_no_compiler_outlives_its_process_and_the_next_one_removes_the_folder(end, tmp_path):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-c", START + ENDS[end]]
    process = subprocess.Popen(command, env=environment(tmp_path), **quiet)
    process.wait(60)
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2 and are_gone(pids)
    child = tmp_path / "pids.child"
    if end == "a child of a fork lives on":
        while not child.exists() or not child.read_text():
            time.sleep(0.01)
        assert is_alive(child.read_text())
        os.kill(int(child.read_text()), signal.SIGKILL)
    done = run(TRIPLE, environment(tmp_path, GRAMME_CC=""))
    assert done.stdout == "[3.0, 3.0]\n" and not list((tmp_path / "tmp").glob("gramme-cc-*"))


@pytest.mark.parametrize("closed", [(2,), (1, 2), (0, 1, 2)])
def test_no_compiler_outlives_a_process_that_has_closed_its_first_descriptors(closed, tmp_path):
    close = f"import os\n[os.close(i) for i in {closed}]\n"
    command = [sys.executable, "-c", close + START + ENDS["SIGKILL"]]
    subprocess.Popen(command, env=environment(tmp_path)).wait(60)
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2 and are_gone(pids)


def test_a_job_that_has_ended_leaves_no_process_of_its_group(tmp_path):
    # The compiler ends at once; what it left in the background is ended with it.
    env = environment(tmp_path)
    (tmp_path / "slow").write_text(SLOW.replace("wait", "exit 1"))
    done = run(START + "time.sleep(0.3)", env)
    assert are_gone((tmp_path / "pids").read_text().split()[1:]), done.stderr


def test_an_interrupt_comes_through_where_many_threads_wait_for_compilers(tmp_path):
    # 17 threads wait, for more jobs than there are processors; the main thread is interrupted.
    text = (
        START
        + """
for k in range(15): threading.Thread(target=work, args=(k,), daemon=True).start()
def send():
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=send, daemon=True).start()
try:
    call(100)
    print("the interrupt is lost")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    )
    done = run(text, environment(tmp_path))
    assert done.stdout == "interrupted\n", done.stdout + done.stderr
    assert are_gone((tmp_path / "pids").read_text().split())
    assert not list((tmp_path / "tmp").glob("gramme-cc-*"))


def test_a_compiler_that_reaches_its_limit_while_a_plugin_is_tried_is_no_fault_of_it(tmp_path):
    state = {"GM_STATE": tmp_path / "state"}
    first = run(TRIPLE, environment(tmp_path, GRAMME_CC_LIMIT=1, **state))
    assert "was stopped after 1 seconds" in first.stdout, first.stdout + first.stderr
    second = run(TRIPLE, environment(tmp_path, GRAMME_CC="", **state))
    assert second.stdout == "[3.0, 3.0]\n", second.stdout + second.stderr
