# SPDX-License-Identifier: Apache-2.0
"""A process's first calls: from many threads, beside a fork, in another interpreter, after a
reload, out of descriptors, as an unknown user."""

import glob
import os
import re
import subprocess
import sys

import pytest

import gramme
from gramme import _ready

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def run(text, *arguments, seconds=100, env=None, **options):
    env = {**os.environ, "GRAMME_AUTO": "", **(env or {})}
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=env,
        **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_sixteen_threads_that_make_the_first_call_make_one_entry():
    text = """
import gramme, sys, threading
sys.setswitchinterval(1e-5)
def f(x): return gramme.tanh(x) * 2 + x
compiled, x = gramme.compile(f), gramme.arange(4.0)
barrier, got = threading.Barrier(16), []
def work():
    barrier.wait()
    got.append(compiled(x).tolist())
threads = [threading.Thread(target=work) for _ in range(16)]
for t in threads: t.start()
for t in threads: t.join()
print(got == [f(x).tolist()] * 16, len(compiled.entries()))
compiled(gramme.arange(4).double())
print(len(compiled.entries()))
"""
    assert run(text).stdout == "True 1\n2\n"


def test_one_thread_compiles_and_the_others_run_plain_python():
    text = """
import gramme, threading
calls, inside, go_on = [], threading.Event(), threading.Event()
def backend(gm, inputs):
    calls.append(1)
    inside.set()
    go_on.wait(20)
    return gm.forward
def f(x): return x * 2 + 1
compiled, x = gramme.compile(f, backend=backend), gramme.arange(3.0)
first = threading.Thread(target=lambda: compiled(x))
first.start()
inside.wait(20)
print(compiled(x).tolist(), len(calls), len(compiled.entries()))
go_on.set()
first.join()
print(compiled(x).tolist(), len(calls), len(compiled.entries()))
"""
    assert run(text).stdout == "[1.0, 3.0, 5.0] 1 0\n[1.0, 3.0, 5.0] 1 1\n"


def test_the_child_of_a_fork_compiles_what_another_thread_of_its_parents_was_compiling():
    text = """
import gramme, os, threading
inside, go_on = threading.Event(), threading.Event()
def backend(gm, inputs):
    inside.set()
    go_on.wait(20)
    return gm.forward
def f(x): return x * 2 + 1
compiled, x = gramme.compile(f, backend=backend), gramme.arange(3.0)
first = threading.Thread(target=lambda: compiled(x))
first.start()
inside.wait(20)
child = os.fork()
if child == 0:
    go_on.set()
    print(compiled(x).tolist(), len(compiled.entries()), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
go_on.set()
first.join()
"""
    assert run(text).stdout == "[1.0, 3.0, 5.0] 1\n0\n"


BACKWARD = """
import gramme, os, signal, sys, threading
from gramme._dynamo.backends.common import aot_autograd
inside, go_on = threading.Event(), threading.Event()
def backward(gm, inputs):
    inside.set()
    go_on.wait(20)
    return gm
compiled = gramme.compile(lambda x: (x * x).sum(), backend=aot_autograd(fw_compiler=lambda gm, inputs: gm, bw_compiler=backward))
x, y = gramme.ones(3, requires_grad=True), gramme.ones(3, requires_grad=True)
losses = compiled(x), compiled(y)
worker = threading.Thread(target=losses[0].backward)
worker.start()
inside.wait(20)
"""


def test_the_child_of_a_fork_compiles_the_backward_that_another_thread_of_its_parents_was_compiling():
    text = """
child = os.fork()
if child == 0:
    go_on.set()
    losses[1].backward()
    print(y.grad.tolist(), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
go_on.set()
worker.join()
print(x.grad.tolist())
"""
    assert run(BACKWARD + text).stdout == "[2.0, 2.0, 2.0]\n0\n[2.0, 2.0, 2.0]\n"


def test_waiting_for_the_backward_that_another_thread_compiles_is_interrupted():
    text = """
def handler(number, frame): raise TimeoutError
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try: losses[1].backward()
except TimeoutError: print("interrupted")
go_on.set()
worker.join()
losses[1].backward()
print(y.grad.tolist())
"""
    assert run(BACKWARD + text).stdout == "interrupted\n[2.0, 2.0, 2.0]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_no_child_of_a_fork_hangs_while_other_threads_compile():
    done = run(
        "import forks, sys; print(forks.campaign(40, 2, 3))",
        env={
            "PYTHONPATH": os.path.join(HERE, "..", "fuzz") + ":" + os.environ.get("PYTHONPATH", "")
        },
    )
    assert done.stdout == "(0, 0)\n", done.stdout + done.stderr


def test_a_fork_waits_for_the_imports_of_another_thread():
    text = """
import os, sys, threading, time
import gramme
class Slow:
    def find_spec(self, name, path, target=None):
        if name == "gramme.nn" and not inside.is_set():
            inside.set()
            time.sleep(0.3)
inside = threading.Event()
sys.meta_path.insert(0, Slow())
def f(x): return x + 1
thread = threading.Thread(target=lambda: gramme._core.CompiledFunction(f, "eager"))
thread.start()
inside.wait(20)
child = os.fork()
if child == 0:
    os._exit(0 if gramme.compile(f, backend="eager")(gramme.ones(1)).item() == 2 else 1)
thread.join()
print(os.waitpid(child, 0)[1])
"""
    assert run(text).stdout == "0\n"


# Modules that C code imports for a function of the user's that is about them, not while anything is
# compiled.
ASKED_FOR = {"numpy", "gramme.serialization"}


def test_whatever_the_recorder_imports_is_there_before_the_first_call():
    named = set()
    for path in glob.glob(os.path.join(ROOT, "core", "*", "*.c")):
        with open(path) as file:
            text = file.read()
        assert "PyImport_ImportModule (" not in text, (
            path + ": calls what a program may have put in the place of __import__"
        )
        named.update(re.findall(r'gm_import \("([^"]+)"\)', text))
    assert len(named) > 8
    there = run("import sys, gramme; print(*sys.modules)").stdout.split()
    assert not named - set(_ready.MODULES) - ASKED_FOR - set(there)


# -- Processes of other kinds ----------------------------------------------------------------------


def test_without_descriptors_the_message_says_why_no_back_end_is_found():
    text = """
import gramme, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
compiled, x, files = gramme.compile(lambda x: x + 1, backend="eager"), gramme.ones(2), []
try:
    while True: files.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
try: compiled(x)
except ValueError as e: print(e)
for file in files: os.close(file)
print(compiled(x).tolist())
"""
    said = run(text).stdout
    assert (
        "which cannot be read: " in said
        and "Too many open files" in said
        and said.endswith("[2.0, 2.0]\n")
    ), said


def test_a_second_interpreter_of_the_process_is_told_that_gramme_works_in_one_alone():
    text = """
import gramme
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
legacy = ("legacy",) if interpreters.__name__ == "_interpreters" else ()  # an isolated one is CPython's to refuse, since 3.12
name = interpreters.create(*legacy) if legacy else interpreters.create(isolated=False)
interpreters.run_string(name, '''
try: import gramme
except ImportError as e: print(e, flush=True)
''')
print(gramme.ones(1).item())
"""
    assert run(text).stdout == (
        "gramme works in one interpreter of a process alone, and another one has imported "
        "it\n1.0\n"
    )


def test_the_package_can_be_loaded_again():
    text = """
import importlib, gramme
x = gramme.arange(4.0)
f = lambda x: gramme.tanh(x) + 1
first = gramme.compile(f)
want = first(x).tolist()
again = importlib.reload(gramme)
print(again is gramme, gramme.compile(f)(x).tolist() == want == first(x).tolist(), gramme.allclose(x, x), x.allclose(x))
"""
    assert run(text).stdout == "True True True True\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_an_unknown_user_without_a_home_is_told_nothing_and_everything_works(tmp_path):
    text = "import gramme; print(gramme.compile(lambda x: x * 2 + 1)(gramme.ones(2)).tolist())"
    kept = (
        "PATH",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "GRAMME_PLUGIN_PATH",
        "GRAMME_PLUGIN_TRUST",
        "GM_PROGRAM",
    )
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    user = {"user": 54242, "group": 54242, "extra_groups": []}
    try:
        done = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            env=environment,
            cwd="/",
            **user
        )
    except PermissionError:
        pytest.skip("the interpreter is closed to other users")
    if "Permission denied" in done.stderr or "No module named" in done.stderr:
        pytest.skip("the build tree is closed to other users")
    assert done.stdout == "[3.0, 3.0]\n" and "GLib" not in done.stderr, done.stderr


IMPORTS = """
import sys
import gramme
from gramme import _ready

late = []


class Watch:
    def find_spec(self, name, path=None, target=None):
        if not _ready.lock._is_owned():
            late.append(name)


sys.meta_path.insert(0, Watch())
f = gramme.compile(lambda x: gramme.tanh(x) * 2, backend="eager")
f(gramme.ones(2, requires_grad=True)).sum().backward()
print(late)
"""


def test_a_first_call_imports_nothing_while_a_fork_may_come():
    """The child of such a fork would wait for the import of a thread that it does not have."""
    assert run(IMPORTS).stdout.strip() == "[]"
