# SPDX-License-Identifier: Apache-2.0
"""Signals while a plugin is tried in a process of its own, for the first time: the exception comes
at once, nothing is left running, and the next call tries it again."""

import os
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import os
import gramme as g

try:
    f = g.compile(lambda x: x * 3, {options})
    f(g.ones(3)), f(g.ones(3))
except KeyboardInterrupt:
    print("interrupted", flush=True)
os.environ["GRAMME_CC"] = {compiler!r}
f = g.compile(lambda x: x * 3, backend="cc")
print(f(g.ones(3)).tolist(), flush=True)
"""


def slow_compiler(folder):
    """A C compiler that says its process's number and then hangs."""
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\necho $$ >>{folder}/pids\nexec sleep 500\n")
    path.chmod(0o755)
    return path


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    "options", ["backend='cc'", "options={'auto.after': 1, 'auto.wait': True}"], ids=["cc", "auto"]
)
def test_a_signal_ends_the_trial_of_a_plugin(tmp_path, options):
    compiler = os.environ.get("CC") or "cc"
    variables = {
        "GM_STATE": str(tmp_path / "state"),
        "GM_PROBE_MS": "600000",
        "GRAMME_CC": str(slow_compiler(tmp_path)),
        "GRAMME_AUTO": "",
        "TMPDIR": str(tmp_path),
    }
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", SCRIPT.format(options=options, compiler=compiler)],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (tmp_path / "pids").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail("the trial goes on to its limit")
    assert out == "interrupted\n[3.0, 3.0, 3.0]\n" and "does without" not in err, (out, err)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    for _ in range(100):
        if not any(map(is_alive, pids)):
            break
        time.sleep(0.02)
    assert not any(map(is_alive, pids))
