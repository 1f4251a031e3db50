#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile plugins: a corpus is made, listed, tried and asked for; the host survives each and says
why it is refused.

    ./in-tree python3 tests/plugin/hostile.py [--keep FOLDER] [NAME...]

Rows of ROWS are tests/plugin/wild.c with something in one of its hooks; damaged () changes bytes of
the honest one. Each has the name of the refusal that must come of it ("ok": none; a set: one of
these).  Then
  listing        `gramme inspect` shows every file, and starts no process
  trying         each file is tried in a process of its own
  asking         one Python process asks for each file by its path, gets an error that names the
      reason, and lives on
  why            `gramme why` repeats the reason, and says what to do
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(
    os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2])
).resolve()
DEADLINE_MS = "3000"

Row = collections.namedtuple("Row", "name wants hooks flags", defaults=({}, ""))
CRASH, EXIT, HANG = "CRASHED", "EXITED", "HUNG"


def hook(place, name, wants, code):
    return Row(name, wants, {place: code})


# GPP-11 GPP-15: what a plugin does in the middle of a call.
ACTS = [
    ("abort", CRASH, "abort ();"),
    ("null-pointer", CRASH, "*(volatile int *) 0 = 1;"),
    ("exit", EXIT, "exit (0);"),
    ("hang", HANG, "for (;;) pause ();"),
]
PLACES = [
    "ON_LOAD",
    "ON_QUERY",
    "ON_OPEN",
    "ON_CLOSE",
    "ON_SUPPORT",
    "ON_COMPILE",
    "ON_RUN",
    "ON_DESTROY",
]

IN_HOST = 'if (strncmp (program_invocation_short_name, "python", 6) == 0) {{ {} }}'

# Leaves its parent, its group and its session, and closes what it has open.
DAEMON_NAME = f"gm-{os.getpid()}"
DAEMON = (
    "{ pid_t p = fork (); if (p == 0) { setsid (); if (fork ()) _exit (0); for (int i = 0; i < 64; "
    "i++) close (i); "
    'prctl (PR_SET_NAME, "' + DAEMON_NAME + '"); for (;;) pause (); } waitpid (p, NULL, 0); } '
)
HAS_TIMERS = os.path.exists("/proc/self/timers")

ROWS = [Row("honest", "ok")]
ROWS += [
    hook(place, f"{act}-{place.lower().replace('_', '-')}", wants, code)
    for place in PLACES
    for act, wants, code in ACTS
    if act != "hang" or place in ("ON_LOAD", "ON_OPEN", "ON_RUN")
]
ROWS += [
    # other ways to die
    hook("ON_LOAD", "stack-overflow", CRASH, "overflow_stack (0);"),
    hook("ON_LOAD", "illegal-instruction", CRASH, "__builtin_trap ();"),
    hook("ON_LOAD", "kills-itself", CRASH, "raise (SIGKILL);"),
    hook("ON_LOAD", "bus-error", CRASH, "raise (SIGBUS);"),
    hook("ON_LOAD", "exit-3", EXIT, "exit (3);"),
    hook("ON_LOAD", "exit-at-once", EXIT, "_exit (0);"),
    hook("ON_LOAD", "endless-loop", HANG, "for (volatile int i = 0;; i++);"),
    hook("ON_LOAD", "out-of-memory", CRASH, "for (;;) if (!malloc ((size_t) 1 << 30)) abort ();"),
    hook(
        "ON_LOAD",
        "file-too-large",
        CRASH,
        'int f = open ("/tmp", O_TMPFILE | O_RDWR, 0600); ftruncate (f, (off_t) 1 << 40); '
        'pwrite (f, "x", 1, (off_t) 1 << 39);',
    ),
    hook("ON_LOAD", "crash-at-exit", CRASH, "atexit (abort);"),
    hook("ON_UNLOAD", "crash-in-destructor", CRASH, "abort ();"),
    hook("ON_UNLOAD", "hang-in-destructor", HANG, "for (;;) pause ();"),
    hook("ON_DESTROY", "frees-twice", CRASH, "free (e);"),
    # GPP-15: the state of the process
    hook("ON_LOAD", "signal-handler", "CHANGED_SIGNALS", "signal (SIGINT, handler);"),
    hook("ON_LOAD", "ignores-sigchld", "CHANGED_SIGNALS", "signal (SIGCHLD, SIG_IGN);"),
    hook(
        "ON_LOAD",
        "blocks-signals",
        "CHANGED_SIGNALS",
        "sigset_t s; sigfillset (&s); sigprocmask (SIG_BLOCK, &s, NULL);",
    ),
    hook("ON_LOAD", "alarm", "CHANGED_SIGNALS", "alarm (100);"),
    hook(
        "ON_LOAD",
        "timer-of-its-own-time",
        "CHANGED_SIGNALS",
        "struct itimerval t = { .it_value = { 100, 0 } }; setitimer (ITIMER_VIRTUAL, &t, NULL);",
    ),
    hook(
        "ON_OPEN",
        "timer-for-profiles",
        "CHANGED_SIGNALS",
        "struct itimerval t = { .it_value = { 100, 0 } }; setitimer (ITIMER_PROF, &t, NULL);",
    ),
    hook(
        "ON_LOAD",
        "timer-by-timer-create",
        {"CHANGED_ATTRIBUTE", "CHANGED_THREADS"} if HAS_TIMERS else None,
        (
            "timer_t t; struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 "
            "}; timer_create (CLOCK_MONOTONIC, &e, &t);"
        ),
    ),
    hook(
        "ON_LOAD",
        "affinity",
        "CHANGED_ATTRIBUTE" if os.cpu_count() > 1 else None,
        (
            "cpu_set_t s; CPU_ZERO (&s); CPU_SET (sched_getcpu (), &s); sched_setaffinity (0, "
            "sizeof s, &s);"
        ),
    ),
    hook("ON_OPEN", "nice", "CHANGED_ATTRIBUTE", "if (nice (1) < 0) {}"),
    hook(
        "ON_LOAD",
        "scheduling-policy",
        "CHANGED_ATTRIBUTE",
        "struct sched_param p = { 0 }; sched_setscheduler (0, SCHED_BATCH, &p);",
    ),
    hook("ON_LOAD", "locks-memory", {"CHANGED_ATTRIBUTE", "ok"}, "mlockall (MCL_CURRENT);"),
    hook(
        "ON_LOAD", "locks-later-memory", {"CHANGED_ATTRIBUTE", "ok"}, "mlockall (MCL_FUTURE);"
    ),  # ok where the limit on locked memory is 0
    hook("AFTER_RUN", "names-the-process", "CHANGED_ATTRIBUTE", 'prctl (PR_SET_NAME, "another");'),
    hook(
        "ON_LOAD",
        "forbids-privileges",
        "CHANGED_ATTRIBUTE",
        "prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);",
    ),
    hook("ON_LOAD", "undumpable", "CHANGED_ATTRIBUTE", "prctl (PR_SET_DUMPABLE, 0, 0, 0, 0);"),
    hook(
        "ON_LOAD", "timer-slack", "CHANGED_ATTRIBUTE", "prctl (PR_SET_TIMERSLACK, 12345, 0, 0, 0);"
    ),
    hook("ON_LOAD", "daemon", "CHANGED_CHILDREN", DAEMON),
    hook("ON_RUN", "daemon-of-a-run", "CHANGED_CHILDREN", DAEMON),
    hook("ON_LOAD", "daemon-and-abort", CRASH, DAEMON + "abort ();"),
    hook("ON_LOAD", "daemon-and-exit", EXIT, DAEMON + "_exit (3);"),
    hook("ON_LOAD", "daemon-and-hang", HANG, DAEMON + "for (;;) pause ();"),
    hook(
        "ON_UNLOAD",
        "daemon-at-the-end",
        "ok",
        'if (strncmp (program_invocation_short_name, "python", 6)) { ' + DAEMON + "}",
    ),  # not by the host below
    hook("ON_OPEN", "signal-handler-open", "CHANGED_SIGNALS", "signal (SIGTERM, handler);"),
    hook("ON_LOAD", "setenv", "CHANGED_ENVIRONMENT", 'setenv ("A_NEW_ONE", "1", 1);'),
    hook("ON_LOAD", "unsetenv", "CHANGED_ENVIRONMENT", 'unsetenv ("PATH");'),
    hook("ON_LOAD", "clearenv", "CHANGED_ENVIRONMENT", "clearenv ();"),
    hook("ON_LOAD", "leaves-file-open", "CHANGED_DESCRIPTORS", 'open ("/dev/null", O_RDONLY);'),
    hook(
        "ON_CLOSE", "leaves-file-open-close", "CHANGED_DESCRIPTORS", 'open ("/dev/null", O_RDONLY);'
    ),
    hook("ON_LOAD", "closes-stdin", "CHANGED_DESCRIPTORS", "close (0);"),
    hook(
        "ON_LOAD",
        "replaces-stdout",
        "CHANGED_DESCRIPTORS",
        'dup2 (open ("/dev/null", O_RDWR | O_CLOEXEC), 1);',
    ),
    hook("ON_LOAD", "thread", "CHANGED_THREADS", "start_thread ();"),
    hook("ON_OPEN", "thread-after-close", "CHANGED_THREADS", "start_thread ();"),
    hook(
        "ON_LOAD", "child-process", "CHANGED_CHILDREN", "if (fork () == 0) { for (;;) pause (); }"
    ),
    hook("ON_LOAD", "zombie", "CHANGED_CHILDREN", "if (fork () == 0) _exit (0);"),
    hook("ON_LOAD", "setlocale", "CHANGED_LOCALE", 'setlocale (LC_ALL, "C.UTF-8");'),
    hook(
        "ON_LOAD",
        "uselocale",
        "CHANGED_LOCALE",
        'uselocale (newlocale (LC_ALL_MASK, "C", (locale_t) 0));',
    ),
    hook("ON_LOAD", "chdir", "CHANGED_FOLDER", 'if (chdir ("/proc")) abort ();'),
    hook("ON_LOAD", "umask", "CHANGED_LIMITS", "umask (0);"),
    hook(
        "ON_LOAD",
        "setrlimit",
        "CHANGED_LIMITS",
        "struct rlimit l = { 64, 64 }; setrlimit (RLIMIT_NOFILE, &l);",
    ),
    hook("ON_LOAD", "flush-to-zero", "CHANGED_FPU", "_mm_setcsr (_mm_getcsr () | 0x8040u);"),
    hook(
        "ON_LOAD",
        "rounding",
        "CHANGED_FPU",
        'unsigned short w = 0x0f7f; __asm__ volatile ("fldcw %0" : : "m" (w));',
    ),
    hook("AFTER_RUN", "flush-to-zero-run", "CHANGED_FPU", "_mm_setcsr (_mm_getcsr () | 0x8040u);"),
    # in the host alone, and not in a first run: nobody finds out before it has happened
    hook(
        "AFTER_RUN",
        "later-flush-to-zero-run",
        "CHANGED_FPU",
        IN_HOST.format("_mm_setcsr (_mm_getcsr () | 0x8040u);"),
    ),
    hook(
        "AFTER_RUN",
        "later-rounding-run",
        "CHANGED_FPU",
        IN_HOST.format('unsigned short w = 0x0f7f; __asm__ volatile ("fldcw %0" : : "m" (w));'),
    ),
    hook(
        "ON_COMPILE",
        "later-flush-to-zero-compile",
        "CHANGED_FPU",
        IN_HOST.format("_mm_setcsr (_mm_getcsr () | 0x8040u);"),
    ),
    hook(
        "ON_LOAD",
        "stack-made-executable",
        "CHANGED_STACK",
        (
            "mprotect ((void *) ((uintptr_t) environ & ~(uintptr_t) 4095), 4096, PROT_READ | "
            "PROT_WRITE | PROT_EXEC);"
        ),
    ),
    hook(
        "ON_LOAD",
        "page-of-the-stack-made-executable",
        "CHANGED_STACK",
        (
            "char here; mprotect ((void *) ((uintptr_t) &here & ~(uintptr_t) 4095), 4096, "
            "PROT_READ | PROT_WRITE | PROT_EXEC);"
        ),
    ),
    Row(
        "fast-math", {"ok", "CHANGED_FPU"}, {}, "-Ofast"
    ),  # gcc 12 sets flush-to-zero in such a library, gcc 13 does not
    # GPH-6: what it prints is not taken for the answer
    hook(
        "ON_LOAD",
        "prints",
        "ok",
        'for (int i = 0; i < 10000; i++) { puts ("good"); fputs ("good", stderr); }',
    ),
    hook(
        "ON_LOAD",
        "writes-to-the-private-channel",
        EXIT,
        'for (int i = 3; i < 20; i++) if (write (i, "good", 5)) {}',
    ),
    hook("ON_LOAD", "closes-the-private-channel", {EXIT, "CHANGED_DESCRIPTORS"}, "close (9);"),
    # the query and the descriptor
    hook("ON_QUERY", "query-null", "QUERY", "return NULL;"),
    hook(
        "ON_QUERY",
        "query-says-no",
        "QUERY",
        'gramme_fail (status, GRAMME_INCOMPATIBLE, -1, "not on a Tuesday"); return NULL;',
    ),
    hook("ON_QUERY", "query-wild-pointer", CRASH, "return (const GrammePlugin *) 0x10;"),
    hook(
        "ON_QUERY",
        "query-fills-message",
        "QUERY",
        "memset (status->message, 'x', sizeof status->message); return NULL;",
    ),
    Row("symbol-of-another-major", "SYMBOL", {"OTHER_SYMBOL": "gramme_plugin_query_v9"}),
    Row("descriptor-of-8-bytes", "DESCRIPTOR", {"DESCRIPTOR_BYTES": "8"}),
    Row("descriptor-of-0-bytes", "DESCRIPTOR", {"DESCRIPTOR_BYTES": "0"}),
    Row("descriptor-of-4-GB", "ok", {"DESCRIPTOR_BYTES": "0xfffffff8u"}),
    Row("descriptor-without-table", "DESCRIPTOR", {"DESCRIPTOR_API": "NULL"}),
    Row("descriptor-without-manifest", "DESCRIPTOR", {"DESCRIPTOR_TEXT": "NULL"}),
    Row("descriptor-with-another-manifest", "MISMATCH", {"DESCRIPTOR_TEXT": 'TEXT "more=here\\n"'}),
    Row("descriptor-with-another-minor", "MISMATCH", {"DESCRIPTOR_MINOR": "7"}),
    Row("descriptor-wild-table", CRASH, {"DESCRIPTOR_API": "((const GrammeBackendApi *) 0x18)"}),
    Row("sanitizer", "SANITIZER", {"SANITIZERS": "2"}),
    Row("table-of-0-bytes", "DESCRIPTOR", {"TABLE_BYTES": "0"}),
    Row("table-of-12-bytes", "DESCRIPTOR", {"TABLE_BYTES": "12"}),
    Row("table-of-16-bytes", "FUNCTIONS", {"TABLE_BYTES": "16"}),
    Row("table-of-4-GB", "ok", {"TABLE_BYTES": "0xfffffff8u"}),
    Row("table-with-unknown-flags", "DESCRIPTOR", {"TABLE_FLAGS": "0x80"}),
]
# GPH-4: mandatory functions that are missing
ROWS += [
    Row(f"no-{f.replace('_', '-')}", "FUNCTIONS", {f"NO_{f}": "1"})
    for f in ("open", "close", "get_support", "compile", "exec_info", "run", "destroy")
]
ROWS += [
    # answers that are none
    hook("ON_OPEN", "open-gives-nothing", "OPENED", "free (*out); *out = NULL;"),
    hook(
        "ON_OPEN",
        "open-fails",
        "OPENED",
        'return gramme_fail (status, GRAMME_DEVICE, -1, "no device");',
    ),
    hook("ON_OPEN", "open-answers-4711", "OPENED", "return 4711;"),
    hook(
        "ON_OPEN",
        "open-message-without-end",
        "OPENED",
        "memset (status->message, 'x', sizeof status->message); return 2;",
    ),
    hook(
        "ON_SUPPORT",
        "verdicts-past-the-end",
        "OVERRUN",
        "memset ((char *) verdicts + image->nodes.count * stride, 1, stride);",
    ),
    hook(
        "ON_SUPPORT",
        "verdicts-of-noise",
        "ok",
        "memset (verdicts, 0x77, image->nodes.count * stride);",
    ),
    hook("ON_SUPPORT", "support-fails", "ok", "return GRAMME_INTERNAL;"),
    hook(
        "ON_COMPILE",
        "compile-writes-into-the-image",
        "OVERRUN",
        "((GrammeImage *) image)->flags = 7;",
    ),
    hook("ON_COMPILE", "compile-gives-nothing", "ok", "*out = NULL;"),
    hook("ON_COMPILE", "compile-gives-a-wild-pointer", CRASH, "*out = (GrammeExecutable *) 0x10;"),
    hook(
        "ON_COMPILE",
        "compile-fails-and-gives",
        "ok",
        "*out = (GrammeExecutable *) 0x10; return GRAMME_UNSUPPORTED;",
    ),
    hook(
        "ON_COMPILE",
        "keeps-the-image",
        {CRASH, "WRONG", "ok"},
        "static const GrammeImage *kept; kept = image; e->n = 0 * kept->flags + e->n;",
    ),
    Row("workspace-of-2^62-bytes", "ok", {"WORKSPACE": "(1ull << 62)"}),
    Row(
        "workspace-overrun",
        "OVERRUN",
        {"WORKSPACE": "128", "ON_RUN": "memset (args->workspace, 0, args->workspace_bytes + 8);"},
    ),
    hook(
        "AFTER_RUN",
        "writes-past-the-output",
        "OVERRUN",
        "((float *) gramme_tensor_address (&args->outputs[0]))[e->n] = 1;",
    ),
    hook(
        "AFTER_RUN",
        "writes-before-the-output",
        "OVERRUN",
        "((float *) gramme_tensor_address (&args->outputs[0]))[-1] = 1;",
    ),
    hook(
        "AFTER_RUN",
        "writes-into-an-input",
        "OVERRUN",
        "((float *) gramme_tensor_address (&args->inputs[0]))[0] = 9;",
    ),
    hook(
        "AFTER_RUN",
        "writes-past-an-input",
        "OVERRUN",
        "((float *) gramme_tensor_address (&args->inputs[0]))[e->n] = 9;",
    ),
    hook("ON_RUN", "writes-nothing", "WRONG", "return GRAMME_OK;"),
    hook(
        "AFTER_RUN",
        "writes-garbage",
        "WRONG",
        "((float *) gramme_tensor_address (&args->outputs[0]))[1] += 1;",
    ),
    hook(
        "AFTER_RUN",
        "writes-nan",
        "WRONG",
        '((float *) gramme_tensor_address (&args->outputs[0]))[0] = __builtin_nanf ("");',
    ),
    hook("ON_RUN", "run-fails", "ok", 'return gramme_fail (status, GRAMME_DEVICE, -1, "on fire");'),
    hook("ON_RUN", "run-answers-4711", "ok", "return 4711;"),
    # the manifest
    Row("another-major", "ABI", {"ABI": '"7.0"'}),
    Row("needs-a-newer-host", "HOST_MINOR", {"ABI": '"0.9"', "NEEDS": '"9"'}),
    Row("needs-more-than-it-knows", "MANIFEST", {"NEEDS": '"2"'}),
    Row("needs-less-than-nothing", "MANIFEST", {"NEEDS": '"-1"'}),
    Row("abi-of-words", "MANIFEST", {"ABI": '"new"'}),
    Row("name-with-an-escape", "MANIFEST", {"NAME": '"\\033[31mred"'}),
    Row("name-with-a-path", "MANIFEST", {"NAME": '"../x"'}),
    Row("name-empty", "MANIFEST", {"NAME": '""'}),
    Row("option-of-a-wrong-type", "MANIFEST", {"KEYS": '"[option x]\\ntype=float\\n"'}),
    Row("manifest-of-noise", "MANIFEST", {"TEXT": '"\\001\\002 = [no\\n"'}),
    Row("manifest-of-another-group", "MANIFEST", {"TEXT": '"[other]\\na=b\\n"'}),
    Row("manifest-no-utf8", "MANIFEST", {"TEXT": '"[gramme-plugin]\\nname=\\377\\376\\n"'}),
    Row("note-of-4-GB", "MANIFEST", {"NOTE_BYTES": "0xfffffff0u"}),
    Row("note-of-nothing", {"MANIFEST", "NO_NOTE"}, {"NOTE_BYTES": "0"}),
    Row("no-note", "NO_NOTE", {"NO_NOTE": "1"}),
    # the linker
    Row("executable-stack", "STACK", {}, "-Wl,-z,execstack"),
    Row("text-relocations", "TEXTREL", {}, "-fno-pic -mcmodel=large -Wl,-z,notext"),
    Row("relative-runpath", "RUNPATH", {}, "-Wl,-rpath,lib"),
    Row("empty-runpath", "RUNPATH", {}, "-Wl,-rpath,/usr/lib::/lib"),
    Row(
        "undefined-symbol",
        "LOAD",
        {"ON_LOAD": "extern void no_such_function (void); no_such_function ();"},
        "-Wl,-z,lazy",
    ),
]


# Each kind of hostility has files of its own; a name stands for all that begin with it.
KINDS = {
    "crash in a constructor": (
        "abort-on-load",
        "null-pointer-on-load",
        "stack-overflow",
        "illegal-instruction",
        "bus-error",
    ),
    "hang": ("hang-on-load", "hang-on-open", "hang-on-run", "endless-loop", "hang-in-destructor"),
    "exit": ("exit-on-load", "exit-on-query", "exit-on-run", "exit-at-once"),
    "out of memory": ("out-of-memory", "workspace-of-2^62-bytes"),
    "truncated ELF": ("cut-to-",),
    "bit-flipped ELF": ("flipped-",),
    "wrong ABI": ("another-major", "symbol-of-another-major", "needs-a-newer-host", "abi-of-words"),
    "wrong sizes": (
        "descriptor-of-0-bytes",
        "descriptor-of-4-GB",
        "table-of-12-bytes",
        "table-of-4-GB",
        "note-of-4-GB",
    ),
    "null functions": (
        "no-open",
        "no-close",
        "no-get-support",
        "no-compile",
        "no-exec-info",
        "no-run",
        "no-destroy",
    ),
    "threads left behind": ("thread", "thread-after-close"),
    "FPU mode changed": ("flush-to-zero", "rounding", "flush-to-zero-run", "fast-math"),
    "stack made executable": (
        "executable-stack",
        "stack-made-executable",
        "page-of-the-stack-made-executable",
        "silent-about-its-stack",
    ),
    "writes past its buffers": (
        "writes-past-the-output",
        "writes-before-the-output",
        "workspace-overrun",
        "verdicts-past-the-end",
        "compile-writes-into-the-image",
        "writes-into-an-input",
    ),
    "returns garbage": (
        "writes-garbage",
        "writes-nan",
        "writes-nothing",
        "verdicts-of-noise",
        "query-wild-pointer",
        "descriptor-wild-table",
        "compile-gives-a-wild-pointer",
        "open-answers-4711",
    ),
    "timers, processors, priorities": (
        "timer-of-its-own-time",
        "timer-for-profiles",
        "affinity",
        "nice",
        "names-the-process",
    ),
    "daemons": ("daemon", "daemon-and-abort", "daemon-and-exit", "daemon-and-hang"),
    "process state changed": (
        "signal-handler",
        "setenv",
        "leaves-file-open",
        "setlocale",
        "chdir",
        "umask",
        "child-process",
    ),
    "manifest": (
        "manifest-of-noise",
        "manifest-beside-of-noise",
        "manifest-beside-stale",
        "name-with-an-escape",
    ),
    "libraries that others may change": (
        "library-that-everybody-may-write",
        "library-below-an-open-folder",
        "library-by-its-path",
        "library-of-a-library-that-everybody-may-write",
        "folder-that-others-could-make",
    ),
    "libraries of the current folder": (
        "library-of-the-current-folder",
        "relative-runpath",
        "empty-runpath",
    ),
    "crafted dynamic sections": (
        "three-run-paths",
        "dynamic-section-elsewhere",
        "dynamic-section-without-end",
        "segments-over-each-other",
    ),
    "file and folders": ("everybody-may-write", "below-an-open-folder", "fifo", "nowhere"),
}
AT_LEAST = 60


# -- The corpus -----------------------------------------------------------------------------------


def build(row, folder, text_manifest=None):
    place = folder / row.name
    place.mkdir(mode=0o755)
    file = place / f"libgramme-{row.name}.so"
    defines = [f"-D{k}={v}" for k, v in row.hooks.items()]
    done = subprocess.run(
        [
            *os.environ.get("CC", "gcc").split(),
            "-std=gnu11",
            "-w",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-I",
            str(ROOT / "plugin-api"),
            *(["-Wl,-z,noexecstack"] if "execstack" not in row.flags else []),
            *defines,
            "-D_GNU_SOURCE",
            "-o",
            str(file),
            str(ROOT / "tests/plugin/wild.c"),
            *shlex.split(row.flags),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{row.name} does not compile:\n{done.stderr}")
    return file


def damaged(good, folder):
    """(name, what must come of it, file) for the honest plugin's bytes, changed."""
    made = []

    def put(name, wants, data, mode=0o755):
        place = folder / name
        place.mkdir(mode=0o755)
        file = place / f"libgramme-{name}.so"
        file.write_bytes(data)
        file.chmod(mode)
        made.append((name, wants, file))
        return file

    cut = {"TRUNCATED", "NOT_ELF"}
    for part in (0, 1, 15, 63, 100, 500, len(good) // 2, len(good) - 1):
        put(f"cut-to-{part}", cut, good[:part])
    put("text", "NOT_ELF", b"this is no library\n" * 100)
    put("zeros", "NOT_ELF", bytes(len(good)))
    for name, at, byte, wants in (
        ("32-bit", 4, 1, "CLASS"),
        ("big-endian", 5, 2, "CLASS"),
        ("executable", 16, 2, "TYPE"),
        ("sparc", 18, 2, "MACHINE"),
        ("no-segments", 56, 0, "TRUNCATED"),
        ("segments-far-away", 39, 1, "TRUNCATED"),
    ):
        put(name, wants, good[:at] + bytes([byte]) + good[at + 1 :])
    stack = bytes([0x51, 0xE5, 0x74, 0x64])
    put("silent-about-its-stack", "STACK", good.replace(stack, bytes(4), 1))
    draw = random.Random(5)  # of the corpus, not of the run: the same files everywhere
    for i in range(24):
        data = bytearray(good)
        for _ in range(1 + i % 4):
            data[draw.randrange(len(data) if i % 2 else 1024)] ^= 1 << draw.randrange(8)
        put(f"flipped-{i}", None, bytes(data))
    put("everybody-may-write", "MODE", good, 0o777)
    put("group-may-write", {"MODE", "ok"}, good, 0o775)  # ok below GRAMME_PLUGIN_TRUST
    below = put("below-an-open-folder", "PARENT", good)
    below.parent.chmod(0o777)
    two = put("two-manifests", "TWO_NOTES", good)
    two.with_name(two.name + ".manifest").write_text("[gramme-plugin]\n")
    for name, make in (
        ("fifo", os.mkfifo),
        ("folder", os.mkdir),
        ("nowhere", lambda p: os.symlink("nothing", p)),
    ):
        place = folder / name
        place.mkdir(mode=0o755)
        file = place / f"libgramme-{name}.so"
        make(file)
        made.append((name, "OPEN" if name == "nowhere" else "NOT_REGULAR", file))
    if os.geteuid() == 0:
        foreign = put("of-another-user", "OWNER", good)
        os.chown(foreign, 12345, 12345)
    return made


LIBRARY = (
    '__attribute__ ((constructor)) static void loaded (void) { fputs ("loaded: " FILE_NAME "\\n", '
    "stderr); }\nint of_library (void) { return 0; }\n"
)


def library(file, flags=(), mode=0o755, owner=None):
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    done = subprocess.run(
        [
            *os.environ.get("CC", "gcc").split(),
            "-shared",
            "-fPIC",
            "-include",
            "stdio.h",
            f'-DFILE_NAME="{file}"',
            "-o",
            str(file),
            *flags,
            "-xc",
            "-",
        ],
        input=LIBRARY,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{file} does not compile:\n{done.stderr}")
    file.chmod(mode)
    if owner:
        os.chown(file, owner, owner)
    return file


def dynamic_entries(data):
    """(offset of a program header of type PT_DYNAMIC, offset and tag of each entry)."""
    at = struct.unpack_from("<Q", data, 32)[0]
    header = next(
        h
        for h in range(at, at + 56 * struct.unpack_from("<H", data, 56)[0], 56)
        if struct.unpack_from("<I", data, h)[0] == 2
    )
    first, size = (
        struct.unpack_from("<Q", data, header + 8)[0],
        struct.unpack_from("<Q", data, header + 32)[0],
    )
    return header, [
        (e, struct.unpack_from("<q", data, e)[0]) for e in range(first, first + size, 16)
    ]


def needing(folder):
    """GPH-8.  Plugins that need libraries, which lie beside the corpus: (name, what must come of
    it, file)."""
    place = folder / "libraries"
    place.mkdir(mode=0o755)
    good, far = place / "good", place / "open" / "inside"
    library(good / "libsub.so", ["-Wl,-soname,libsub.so"])
    library(place / "writable" / "libsub.so", ["-Wl,-soname,libsub.so"], 0o777)
    library(far / "libsub.so", ["-Wl,-soname,libsub.so"])
    far.parent.chmod(0o777)
    library(place / "levels" / "glibc-hwcaps" / "x86-64-v2" / "libsub.so", mode=0o777)
    library(place / "levels" / "libsub.so", ["-Wl,-soname,libsub.so"])
    library(place / "old" / "tls" / "x86_64" / "libsub.so", mode=0o777)
    library(place / "old" / "libsub.so", ["-Wl,-soname,libsub.so"])
    chain = ["-Wl,--no-as-needed", f"-L{good}", "-lsub", "-Wl,-soname,libchain.so"]
    library(place / "chain" / "libchain.so", [*chain, f"-Wl,-rpath,{place}/writable"])
    library(place / "good-chain" / "libchain.so", [*chain, f"-Wl,-rpath,{good}"])
    library(place / "whole" / "libwhole.so", [f"-Wl,-soname,{place}/writable/libsub.so"])
    library(place / "whole" / "libhere.so", ["-Wl,-soname,./libsub.so"])
    library(place / "cut" / "libsub.so", ["-Wl,-soname,libsub.so"])
    os.truncate(place / "cut" / "libsub.so", 5000)
    (place / "link").mkdir(mode=0o755)
    (place / "link" / "libsub.so").symlink_to("../writable/libsub.so")
    if os.geteuid() == 0:
        library(place / "foreign" / "libsub.so", ["-Wl,-soname,libsub.so"], owner=12345)
    sub = f"-Wl,--no-as-needed -L{good} -lsub -Wl,-rpath,"
    rows = [
        ("library-beside", "ok", sub + "'$ORIGIN/../libraries/good'"),
        (
            "library-of-a-library",
            "ok",
            (
                f"-Wl,--no-as-needed -L{place}/good-chain -lchain -Wl,-rpath,{place}/good-chain "
                f"-Wl,-rpath-link,{good}"
            ),
        ),
        ("library-that-everybody-may-write", "NEEDED", sub + f"{place}/writable"),
        ("library-that-everybody-may-write-by-a-link", "NEEDED", sub + f"{place}/link"),
        ("library-below-an-open-folder", "NEEDED", sub + f"{far}"),
        (
            "library-below-an-open-folder-by-origin",
            "NEEDED",
            sub + "'$ORIGIN/../libraries/open/inside'",
        ),
        ("library-for-a-processor", "NEEDED", sub + f"{place}/levels"),
        ("library-for-an-old-loader", "NEEDED", sub + f"{place}/old"),
        (
            "library-of-a-library-that-everybody-may-write",
            "NEEDED",
            (
                f"-Wl,--no-as-needed -L{place}/chain -lchain -Wl,-rpath,{place}/chain "
                f"-Wl,-rpath-link,{good}"
            ),
        ),
        ("library-by-its-path", "NEEDED", f"-Wl,--no-as-needed {place}/whole/libwhole.so"),
        (
            "library-of-the-current-folder",
            "RUNPATH",
            f"-Wl,--no-as-needed {place}/whole/libhere.so",
        ),
        ("library-that-is-cut", "NEEDED", sub + f"{place}/cut"),
        (
            "filter-that-everybody-may-write",
            "NEEDED",
            f"-Wl,-rpath,{place}/writable -Wl,-f,libsub.so",
        ),
        ("open-folder-first", "NEEDED", sub + f"{far.parent}:{good}"),
        ("open-folder-last", "NEEDED", sub + f"{good}:{far.parent}"),
        ("folder-that-others-could-make", "NEEDED", sub + f"{good}:{far.parent}/not/there"),
        ("folder-that-is-not-there", "ok", sub + f"{good}:{place}/not/there"),
        ("old-kind-of-run-path", "NEEDED", sub + f"{place}/writable -Wl,--disable-new-dtags"),
        ("run-path-with-another-word", "RUNPATH", sub + f"{good}:'{place}/$LIB'"),
    ]
    rows += (
        [("library-of-another-user", "NEEDED", sub + f"{place}/foreign")]
        if os.geteuid() == 0
        else []
    )
    made = [
        (name, wants, build(Row(name, wants, {}, flags), folder)) for name, wants, flags in rows
    ]

    # Files that no linker writes, whose headers and mapping differ.
    data = made[0][2].read_bytes()
    header, entries = dynamic_entries(data)
    paths = made[2][2].read_bytes()
    spare = [
        e for e, tag in dynamic_entries(paths)[1] if tag == 0
    ]  # linkers leave some behind the end
    three = bytearray(paths)
    path = next(e for e, tag in dynamic_entries(paths)[1] if tag == 29)
    at_end = struct.unpack_from("<q", paths, path + 8)[0]
    harmless = at_end + len(str(place))  # "/writable": a folder that root alone could make
    for e, text in ((path, harmless), (spare[0], harmless), (spare[1], at_end)):
        struct.pack_into("<qq", three, e, 29, text)  # the loader takes the last one
    moved, endless = bytearray(data), bytearray(data)
    struct.pack_into("<Q", moved, header + 8, 0)
    end = next(e for e, tag in entries if tag == 0)
    for e in range(end, entries[-1][0] + 16, 16):
        struct.pack_into("<qq", endless, e, 0x6FFFFFF9, 0)
    over = bytearray(data)
    loads = [
        h
        for h in range(struct.unpack_from("<Q", data, 32)[0], header + 56 * 8, 56)
        if struct.unpack_from("<I", data, h)[0] == 1
    ]
    struct.pack_into(
        "<Q", over, loads[-1] + 16, struct.unpack_from("<Q", data, loads[-1] + 16)[0] % 4096
    )
    for name, wants, bytes_ in (
        ("three-run-paths", "NEEDED", three),
        ("dynamic-section-elsewhere", "TRUNCATED", moved),
        ("dynamic-section-without-end", "TRUNCATED", endless),
        ("segments-over-each-other", "TRUNCATED", over),
    ):
        file = folder / name / f"libgramme-{name}.so"
        file.parent.mkdir(mode=0o755)
        file.write_bytes(bytes_)
        file.chmod(0o755)
        made.append((name, wants, file))
    return made


def beside(folder):
    """Plugins whose manifest lies beside the file."""
    text = "[gramme-plugin]\nabi=0.1\nmin-host-minor=0\nid=org.example.wild\nname=wild\nversion=1\nbit-exact=true\ndevices=cpu;\n"
    made = []
    for name, wants, data, mode in (
        ("manifest-beside", "ok", text, 0o644),
        ("manifest-beside-of-noise", "MANIFEST", "\x01\x02", 0o644),
        ("manifest-beside-too-long", "MANIFEST", text + "#" * 20000, 0o644),
        ("manifest-beside-empty", "MANIFEST", "", 0o644),
        ("manifest-beside-stale", "MISMATCH", text + "more=here\n", 0o644),
        ("manifest-beside-writable", "MODE", text, 0o666),
    ):
        file = build(Row(name, wants, {"NO_NOTE": "1"}), folder)
        other = file.with_name(file.name + ".manifest")
        other.write_text(data)
        other.chmod(mode)
        made.append((name, wants, file))
    return made


def corpus(folder, only):
    rows = [r for r in ROWS if not only or r.name in only or r.name == "honest"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        made = [
            (r.name, r.wants, f) for r, f in zip(rows, pool.map(lambda r: build(r, folder), rows))
        ]
    made += beside(folder) + damaged(made[0][2].read_bytes(), folder) + needing(folder)
    return [m for m in made if not only or m[0] in only]


# -- The host -------------------------------------------------------------------------------------

HOST = """
import json, sys
import gramme
x, y = gramme.ones(2, 3), gramme.ones(2, 3)
answers = {}
for path in json.load(sys.stdin):
    try:
        f = gramme.compile(lambda a, b: a * b + a, backend=path)
        good = f(x, y).tolist() == [[2.0] * 3] * 2
        good = good and 1e-310 * 0.5 != 0.0
        answers[path] = "ok" if good else "wrong result"
    except Exception as e:
        answers[path] = f"{type(e).__name__}: {e}"
f = gramme.compile(lambda a, b: a * b + a, backend="eager")
assert f(x, y).tolist() == [[2.0] * 3] * 2
import math
assert 1e-310 * 0.5 != 0.0 and math.fsum([0.1] * 10) == 1.0
print()
print(json.dumps(answers))
"""


class Check:
    def __init__(self):
        self.passed, self.failures = 0, []

    def that(self, condition, text):
        if condition:
            self.passed += 1
        else:
            self.failures.append(text)


def name_of(pid):
    try:
        return pathlib.Path("/proc", pid, "comm").read_text().strip()
    except OSError:
        return ""


def inspect(env):
    done = subprocess.run(["gramme", "inspect", "--json"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return {row["file"]: row for row in json.loads(done.stdout)}


def accepts(wants, refusal):
    return wants is None or refusal == wants or (isinstance(wants, set) and refusal in wants)


def installed_later(folder, env, check):
    """A plugin whose library is missing is refused; once it is there, the plugin is tried again by
    itself, and so when it is gone."""
    later = folder / "later"
    stand_in = library(
        folder / "libraries" / "stand-in" / "liblater.so", ["-Wl,-soname,liblater.so"]
    )
    file = build(
        Row(
            "misses-a-library",
            "LOAD",
            {},
            f"-Wl,--no-as-needed -L{stand_in.parent} -llater -Wl,-rpath,{later}",
        ),
        folder,
    )

    def answer():
        host = subprocess.run(
            [os.environ.get("PYTHON", sys.executable), "-c", HOST],
            input=json.dumps([str(file)]),
            capture_output=True,
            text=True,
            env=env,
        )
        return (
            json.loads(host.stdout.splitlines()[-1])[str(file)]
            if host.returncode == 0
            else host.stderr
        )

    for text, change in (
        ("liblater.so", lambda: None),
        ("ok", lambda: library(later / "liblater.so", ["-Wl,-soname,liblater.so"])),
        ("liblater.so", lambda: (later / "liblater.so").unlink()),
    ):
        change()
        got = [answer(), answer()]
        check.that(
            all(text in g for g in got),
            f"a plugin with a library that comes and goes: {got} instead of {text}",
        )


def cured_later(folder, env, check):
    """A plugin that could not be started is tried again when something has been installed, which
    the loader's cache tells."""
    cure, cache = folder / "cure", folder / "ld.so.cache"
    cache.write_text("1")
    file = build(
        Row(
            "needs-a-cure",
            "OPENED",
            {
                "ON_OPEN": (
                    f'if (access ("{cure}", F_OK)) return gramme_fail (status, GRAMME_DEVICE, -1, '
                    '"no cure");'
                )
            },
        ),
        folder,
    )
    env = dict(env, GM_LOADER_CACHE=str(cache))
    for text, change in (
        ("no cure", lambda: None),
        ("no cure", lambda: cure.touch()),
        ("ok", lambda: cache.write_text("22")),
    ):
        change()
        host = subprocess.run(
            [os.environ.get("PYTHON", sys.executable), "-c", HOST],
            input=json.dumps([str(file)]),
            capture_output=True,
            text=True,
            env=env,
        )
        got = json.loads(host.stdout.splitlines()[-1])[str(file)]
        check.that(text in got, f"a plugin that something can cure: {got} instead of {text}")


def run(folder, only):
    check = Check()
    made = corpus(folder, only)
    env = dict(
        os.environ,
        GRAMME_PLUGIN_TRUST=":".join(
            filter(None, [str(folder), os.environ.get("GRAMME_PLUGIN_TRUST")])
        ),
        GM_STATE=str(folder / "state"),
        GM_PROBE_MS=DEADLINE_MS,
    )

    names = [name for name, _, _ in made]
    for kind, wanted in KINDS.items() if not only else ():
        missing = [
            w
            for w in wanted
            if not any(n == w or (w.endswith("-") and n.startswith(w)) for n in names)
        ]
        check.that(not missing, f"{kind}: the corpus has no {missing}")
    check.that(only or len(names) >= AT_LEAST, f"the corpus has only {len(names)} files")

    # GPH-5, GPH-10: every file is listed, and nobody is started for it
    searched = env["GRAMME_PLUGIN_PATH"] + ":" + ":".join(str(f.parent) for _, _, f in made)
    before = inspect(dict(env, GM_PROGRAM="/no/such/program", GRAMME_PLUGIN_PATH=searched))
    shown = {os.path.realpath(path): row for path, row in before.items()}
    for name, _, file in made:
        check.that(os.path.realpath(file) in shown, f"{name}: not listed")
    check.that(not (folder / "state").exists(), "listing has left something behind")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        tried = list(
            pool.map(
                lambda m: subprocess.run(
                    ["gramme", "rescan", str(m[2])], capture_output=True, text=True, env=env
                ),
                made,
            )
        )
    for (name, _, _), done in zip(made, tried):
        check.that(
            done.returncode in (0, 1),
            f"{name}: gramme rescan ends with {done.returncode}: {done.stderr}",
        )

    # One process asks for all of them.
    paths = [str(f) for _, _, f in made]
    host = subprocess.run(
        [os.environ.get("PYTHON", sys.executable), "-c", HOST],
        input=json.dumps(paths),
        capture_output=True,
        text=True,
        env=env,
        timeout=600,
    )
    check.that(host.returncode == 0, f"the host died of {host.returncode}: {host.stderr[-2000:]}")
    answers = json.loads(host.stdout.splitlines()[-1]) if host.returncode == 0 else {}

    ran = {line.split()[1] for line in host.stderr.splitlines() if line.startswith("loaded: ")}
    good = {str(folder / "libraries" / n) for n in ("good/libsub.so", "good-chain/libchain.so")}
    check.that(ran <= good and (only or ran == good), f"libraries that ran: {sorted(ran)}")

    # GPH-7: each has its own reason, told by the error and by gramme why
    for name, wants, file in made:
        why = subprocess.run(["gramme", "why", str(file)], capture_output=True, text=True, env=env)
        refusal = "ok"
        if "refused (" in why.stdout:
            refusal = why.stdout.split("refused (", 1)[1].split(")", 1)[0]
            check.that(
                "what to do: " in why.stdout,
                f"{name}: gramme why does not say what to do: {why.stdout}",
            )
        check.that(
            accepts(wants, refusal),
            f"{name}: {refusal} instead of {wants}: {why.stdout}{why.stderr}",
        )
        answer = answers.get(str(file), "")
        if name.startswith("later-"):  # the host that met it goes on, later ones refuse it
            check.that(answer == "ok", f"{name}: {answer}")
        elif refusal == "ok":
            check.that(
                answer == "ok" or wants is None or name.startswith(("run-", "workspace-of-")),
                f"{name}: {answer}",
            )
        else:
            text = why.stdout.split("): it ", 1)[1].split("\n", 1)[0]
            check.that(text in answer, f'{name}: the error does not say "{text}": {answer}')
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and name_of(pid) == DAEMON_NAME]
    check.that(not left, f"daemons are left: {left}")
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    if not only:
        installed_later(folder, env, check)
        cured_later(folder, env, check)
    for failure in check.failures:
        print("FAIL:", failure)
    print(
        f"hostile: {len(made)} files, {check.passed} passed, {len(check.failures)} failed; "
        f"{len(KINDS)} kinds of hostility"
    )
    return 1 if check.failures else 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument(
        "--keep", type=pathlib.Path, help="make the corpus there, and leave it there"
    )
    arguments.add_argument("names", nargs="*")
    given = arguments.parse_args()
    if given.keep:
        given.keep.mkdir(mode=0o755, parents=True)
        return run(given.keep.resolve(), given.names)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gramme-hostile-"))
    folder.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    try:
        return run(folder, given.names)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
