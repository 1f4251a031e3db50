# SPDX-License-Identifier: Apache-2.0
"""Signals while functions are recorded, compiled and run: what a handler raises comes out of the
call, and nothing is half done."""

import os
import subprocess
import sys
import warnings

import pytest

import gramme

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "fuzz"))
import interrupts  # noqa: E402

INSTALLED = gramme.compiler.list_backends()
BACK_ENDS = [name for name in ("eager", "tcc", "auto") if name in INSTALLED]
needs_cc = pytest.mark.skipif("cc" not in INSTALLED, reason="the back end cc is not installed")


if (
    "cc" in INSTALLED
):  # a plugin is tried once, and what comes of it is remembered: let that be with a compiler that works
    gramme.compile(lambda x: x + 1, backend="cc")(gramme.ones(2))


def run(text, seconds=60, **environment):
    environment = {
        **os.environ,
        "GRAMME_CACHE": "0",
        "GRAMME_AUTO": "",
        **{k: str(v) for k, v in environment.items()},
    }
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True,
        text=True,
        env=environment,
        timeout=seconds,
    )


LOOP = """
import gramme, signal, sys
class Late(Exception): pass
def handler(number, frame): raise Late("from the handler")
signal.signal(signal.SIGALRM, handler)
log = []
def f(x):
    log.append("begun")
    for i in range(300000): x = x * 1.0000001 + i
    return x
compiled = gramme.compile(f, backend=sys.argv[1] if len(sys.argv) > 1 else "eager", **{options})
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    compiled(gramme.arange(4.0))
    print("the exception is lost")
except Late as e:
    names, t = [], e.__traceback__
    while t:
        names.append(t.tb_frame.f_code.co_name)
        t = t.tb_next
    print(e, names, log)
"""


@pytest.mark.parametrize("options", ["{}", "{'fullgraph': True}"])
def test_an_interrupt_while_a_function_is_recorded_is_raised_in_it_and_nothing_has_happened(
    options,
):
    done = run(LOOP.replace("{options}", options))
    assert done.stdout == "from the handler ['<module>', 'f', 'handler'] []\n", (
        done.stdout + done.stderr
    )


def test_an_interrupt_in_an_operation_of_pythons_own_is_no_exception_of_the_program():
    # Python looks for signals in long operations on ints, too; the recorder computes them.
    text = """
import gramme, signal
def handler(number, frame): raise TimeoutError
signal.signal(signal.SIGALRM, handler)
n = 3 ** 20000
def f(x): return x + (n ** 30 > 0)
compiled = gramme.compile(f, backend="eager")
x = gramme.arange(3.0)
came = 0
for delay in (0.002, 0.02, 0.1):
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        compiled(x)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeoutError:
        came += 1
print(came > 0, compiled(x).tolist())
"""
    done = run(text)
    assert done.stdout == "True [1.0, 2.0, 3.0]\n", done.stdout + done.stderr


def test_signals_at_random_moments_lose_nothing_and_leave_no_block_open():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        campaign = interrupts.Campaign(7, BACK_ENDS)
        campaign.run(150)
    assert not campaign.wrong and campaign.counts["interrupted"] > 20


def test_handlers_that_raise_nothing_do_not_stop_a_compilation():
    text = """
import gramme, signal
ticks = [0]
def handler(number, frame): ticks[0] += 1
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def f(x):
    for i in range(20000): x = x * 1.0001 + i
    return x
compiled = gramme.compile(f, backend="eager", fullgraph=True)
y = compiled(gramme.arange(4.0))
signal.setitimer(signal.ITIMER_REAL, 0)
print(ticks[0] > 3, len(compiled.entries()), y.tolist() == f(gramme.arange(4.0)).tolist())
"""
    done = run(text)
    assert done.stdout == "True 1 True\n", done.stdout + done.stderr


# -- A C compiler ----------------------------------------------------------------------------------


def slow_compiler(tmp_path):
    """A compiler that never ends; it and its child leave their process ids."""
    script = tmp_path / "slow"
    script.write_text(
        f'#!/bin/sh\nsleep 1000 &\necho "$$ $!" > {tmp_path}/pids.new\nmv {tmp_path}/pids.new '
        f"{tmp_path}/pids\nwait\n"
    )
    script.chmod(0o755)
    return script


def are_gone(tmp_path):
    """True when none of the compiler's processes is left, or only as a zombie."""
    for _ in range(500):
        left = []
        for pid in (tmp_path / "pids").read_text().split():
            try:
                with open(f"/proc/{pid}/stat") as file:
                    left += [pid] if file.read().rpartition(")")[2].split()[0] != "Z" else []
            except OSError:
                pass
        if not left:
            return True
        import time

        time.sleep(0.01)
    return False


WAIT = """
import gramme, os, signal, sys, threading, time
class Late(Exception): pass
def handler(number, frame): raise Late
signal.signal(signal.SIGALRM, handler)
def send():
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGALRM)
threading.Thread(target=send, daemon=True).start()
x = gramme.arange(9.0).requires_grad_()
f = lambda x: (x * 3).sum()
"""


@needs_cc
@pytest.mark.parametrize(
    "call",
    [
        "gramme.compile(f, backend='cc')(x)",
        "gramme.compile(f, backend='cc', options={'wait': True})(x)",
        "gramme.compile(f, options={'auto.wait': True})(x)",
        "gramme.compile(f, backend='cc', options={'backward': 'at-once'})(x)",
    ],
)
def test_waiting_for_the_compiler_is_interrupted_and_its_processes_end(call, tmp_path):
    text = WAIT + (
        f"try:\n    {call}\n    print('the exception is lost')\nexcept Late:\n    "
        "print('interrupted', flush=True)\n    time.sleep(0.5)\n"
    )
    script = slow_compiler(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path / "pids")], capture_output=True, text=True,
        timeout=60,
        env={**os.environ, "GRAMME_CACHE": "0", "GRAMME_AUTO": "", "GRAMME_CC": str(script), "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout == "interrupted\n", done.stdout + done.stderr
    assert are_gone(tmp_path) and not list(tmp_path.glob("gramme-cc-*"))


@needs_cc
def test_other_threads_run_while_one_waits_for_the_compiler(tmp_path):
    text = WAIT.replace("os.kill", "print('the other thread ran', flush=True); os.kill")
    text += (
        "worker = threading.Thread(target=lambda: gramme.compile(f, backend='cc')(x), "
        "daemon=True)\nworker.start()\n"
    )
    text += (
        "try:\n    while True: time.sleep(1)\nexcept Late:\n    print('interrupted', "
        "flush=True)\nos._exit(0)\n"
    )
    script = slow_compiler(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path / "pids")], capture_output=True, text=True,
        timeout=60,
        env={**os.environ, "GRAMME_CACHE": "0", "GRAMME_CC": str(script), "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    for pid in (tmp_path / "pids").read_text().split():
        os.kill(int(pid), 9)
    assert done.stdout == "the other thread ran\ninterrupted\n", done.stdout + done.stderr


@needs_cc
def test_other_threads_run_while_a_plugin_is_tried(tmp_path):
    # The back end cc is tried for the first time, with a compiler that never ends.
    text = """
import gramme, threading, time, os
found, ticks = [], 0
def call():
    try:
        gramme.compile(lambda x: x * 3, backend="cc")(gramme.ones(3))
    except Exception as e:
        found.append(str(e))
worker = threading.Thread(target=call)
worker.start()
while worker.is_alive():
    ticks += 1
    time.sleep(0.01)
print(ticks > 20, "did not come back in time" in found[0])
"""
    script = slow_compiler(tmp_path)
    environment = {
        **os.environ,
        "GRAMME_CACHE": "0",
        "GRAMME_CC": str(script),
        "TMPDIR": str(tmp_path),
        "GM_STATE": str(tmp_path / "state"),
        "GM_PROBE_MS": "1500",
    }
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.stdout == "True True\n", done.stdout + done.stderr
    assert are_gone(tmp_path)


@needs_cc
@pytest.mark.parametrize("variable, options", [(1, "{}"), (None, "{'limit': 1}")])
def test_a_compiler_that_reaches_its_limit_is_stopped_and_the_message_says_how_to_give_it_more(
    variable, options, tmp_path
):
    said = {"GRAMME_CC_LIMIT": variable} if variable else {}
    text = (
        "import gramme\ntry:\n    gramme.compile(lambda x: x * 3, backend='cc', "
        f"options={options})(gramme.ones(9))\nexcept gramme.compiler.BackendError as e:\n    "
        "print(e)"
    )
    done = run(text, GRAMME_CC=slow_compiler(tmp_path), TMPDIR=tmp_path, **said)
    assert (
        "was stopped after 1 seconds; the option limit of the back end cc, or GRAMME_CC_LIMIT, "
        "gives it more"
    ) in done.stdout, (done.stdout + done.stderr)
    assert are_gone(tmp_path) and not list(tmp_path.glob("gramme-cc-*"))


@needs_cc
def test_auto_keeps_the_first_code_where_it_would_have_waited_for_a_compiler_that_fails(tmp_path):
    text = (
        "import gramme\nprint(gramme.compile(lambda x: x * 3, options={'auto.wait': "
        "True})(gramme.ones(3)).tolist())"
    )
    done = run(text, GRAMME_CC="false", TMPDIR=tmp_path)
    assert (
        done.stdout == "[3.0, 3.0, 3.0]\n"
        and done.stderr.count("cc could not compile a function") == 1
    ), (done.stdout + done.stderr)
