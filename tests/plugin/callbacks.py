#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Progress, cancellation and diagnostics, as a Python program sees them.

    ./in-tree python3 tests/plugin/callbacks.py

The plugin is the one that `gramme new-plugin` writes, whose compile takes two seconds here and asks
every 20 ms whether to go on.
A signal that comes meanwhile is handled meanwhile: what its handler raises comes out of the call,
soon, and nothing of the compile is remembered.  What it said through diag is in the error of a
compile that fails, and on the channel output_code of one that does not.
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(
    os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2])
).resolve()
FLAGS = (
    "-w -std=c11 -D_GNU_SOURCE -O1 -fPIC -shared -fvisibility=hidden -ffp-contract=off "
    "-Wl,-z,nodelete -Wl,-z,noexecstack -Wl,-z,now"
)
COMPILED = "  *out = e;\n  return GRAMME_OK;\n}\n\nstatic int32_t\nbackend_exec_info"
SLOW = r"""
  const char *said = "phases: 100\n", *ms = getenv ("SLOW_MS");
  b->host->diag (request->job, GRAMME_LOG_INFO, 0, said, strlen (said));
  for (int i = 0; i < 100 && ms; i++) {
    usleep (10 * atoi (ms));
    if (b->host->progress (request->job, "waiting", i, 100) && !getenv ("DEAF")) {
      backend_destroy (e);
      return gramme_fail (status, GRAMME_CANCELLED, -1, "stopped in phase %d", i);
    }
  }
  if (getenv ("FAILS")) {
    backend_destroy (e);
    return gramme_fail (status, GRAMME_INVALID, -1, "no phase is left");
  }
"""
PROGRAM = """
import os, signal, sys, time
import gramme

x = gramme.ones(4)
f = gramme.compile(lambda a: a * a + a, backend="slow")

class Enough(Exception):
    pass

def enough(*_):
    raise Enough

signal.signal(signal.SIGALRM, enough if len(sys.argv) < 2 else signal.default_int_handler if sys.argv[1] == "interrupt" else lambda *_: print("handled"))
signal.setitimer(signal.ITIMER_REAL, float(os.environ.get("AFTER", 0.3)))
start = time.monotonic()
try:
    print("result", f(x).tolist())
except BaseException as e:
    print(type(e).__name__, e)
signal.setitimer(signal.ITIMER_REAL, 0)
print("late" if time.monotonic() - start > 1.5 else "soon")
os.environ.pop("SLOW_MS", None)
os.environ.pop("FAILS", None)
import ctypes
ctypes.CDLL(None).unsetenv(b"SLOW_MS")
print("again", f(x).tolist())
"""

passed = failed = 0


def expect(holds, what, output=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok' if holds else 'FAILED'}: {what}")
    if not holds:
        print(output)


def build(folder):
    subprocess.run(
        ["gramme", "new-plugin", "slow", "--dir", folder / "project"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    text = (
        (folder / "project/slow.c")
        .read_text()
        .replace("#include <stdlib.h>\n", "#include <stdlib.h>\n#include <unistd.h>\n")
    )
    assert text.count(COMPILED) == 1
    source = folder / "slow.c"
    source.write_text(text.replace(COMPILED, SLOW + COMPILED))
    (folder / "plugins").mkdir(mode=0o755)
    product = folder / "plugins/libgramme-slow.so"
    subprocess.run(
        [
            *shlex.split(os.environ.get("CC", "cc")),
            *FLAGS.split(),
            f"-I{ROOT}/plugin-api",
            "-o",
            product,
            source,
        ],
        check=True,
    )
    product.chmod(0o755)


def main():
    with tempfile.TemporaryDirectory(prefix="callbacks-") as name:
        folder = pathlib.Path(name)
        build(folder)
        (folder / "program.py").write_text(PROGRAM)
        paths = {
            v: ":".join([str(folder / "plugins"), os.environ.get(v, "")])
            for v in ("GRAMME_PLUGIN_PATH", "GRAMME_PLUGIN_TRUST")
        }

        def run(*arguments, **more):
            env = {**os.environ, **paths, "GM_STATE": str(folder / "state"), **more}
            done = subprocess.run(
                [os.environ.get("PYTHON", sys.executable), folder / "program.py", *arguments],
                env=env,
                capture_output=True,
                text=True,
                timeout=120,
            )
            return done.stdout + done.stderr

        right = "[2.0, 2.0, 2.0, 2.0]"
        run()  # it is tried once, which is not measured
        for arguments, raised in (((), "Enough"), (("interrupt",), "KeyboardInterrupt")):
            output = run(*arguments, SLOW_MS="2000")
            expect(
                raised in output and "soon" in output,
                f"{raised} comes out of a compile that is under way",
                output,
            )
            expect(f"again {right}" in output, "and the next call compiles anew", output)
        output = run("go on", SLOW_MS="2000")
        expect(
            "handled" in output and f"result {right}" in output and "late" in output,
            "a handler that raises nothing disturbs nothing",
            output,
        )
        output = run(SLOW_MS="2000", DEAF="1")
        expect(
            "Enough" in output and "late" in output and f"again {right}" in output,
            "from a plugin that does not stop it comes afterwards",
            output,
        )
        output = run(FAILS="1", AFTER="60")
        expect(
            "ValueError" in output and "no phase is left" in output and "phases: 100" in output,
            "what diag was told is in the error",
            output,
        )
        output = run(GRAMME_LOGS="output_code")
        expect(
            "phases: 100" in output and f"result {right}" in output,
            "or on the channel output_code",
            output,
        )
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
