# SPDX-License-Identifier: Apache-2.0
"""Cases of `gramme bench` about beginnings: what is installed and imported, what the compiler
behind cc takes, and starts with code from disk."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import gramme

CASES = {}


def case(fn):
    CASES[fn.__name__] = fn
    return fn


def row(side, values, **more):
    return {"side": side, "min_ns": min(values), "median_ns": statistics.median(values), **more}


def run(program, *args, **env):
    """The numbers that a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


# -- What is installed and imported

IMPORT = """
import sys, time
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
before, start = resident(), time.process_time_ns()
__import__(sys.argv[1])
print(time.process_time_ns() - start, resident() - before)
"""


@case
def import_beside(rounds):
    """`import gramme` in a new process beside other libraries' imports: processor time, compiled
    modules at hand, and what stays in memory."""
    rows = []
    # an installation has compiled modules beside the sources, a build tree need not
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        for name in ("gramme", "numpy", "torch", "jax"):
            try:
                run(IMPORT, name, **environment)
            except AssertionError:
                continue
            took = [
                run(IMPORT, name, **environment)
                for _ in range(max(5, rounds // 2) if name == "gramme" else 3)
            ]
            resident = statistics.median(bytes for _, bytes in took)
            rows.append(
                row(
                    f"import {name} (+{resident / 1e6:.1f} MB)",
                    [ns for ns, _ in took],
                    resident_bytes=resident,
                )
            )
    rows[0]["limit_ns"] = 3e6
    return rows


@case
def package_size(rounds):
    """Bytes of an installation, stripped, of each part: the library with its tiles for two
    instruction sets, the extension, plugins, Python's files."""
    x = gramme.ones(3)
    for name in ("tcc", "cc"):
        gramme.compile(
            lambda x: x + 1, backend=name, options={"wait": True} if name == "cc" else None
        )(x)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        words = [line.split(None, 5) for line in maps]
    files = {
        w[5].strip()
        for w in words
        if len(w) == 6 and "gramme" in os.path.basename(w[5]) and os.path.exists(w[5].strip())
    } | {gramme._core.__file__}
    sizes = {}
    with tempfile.TemporaryDirectory() as scratch:
        for file in sorted(files):
            copy = shutil.copy(file, os.path.join(scratch, "file"))
            if shutil.which("strip"):
                subprocess.run(["strip", copy], check=True)
            sizes[os.path.basename(file)] = os.path.getsize(copy)
    top = os.path.dirname(gramme.__file__)
    sizes["Python"] = sum(
        os.path.getsize(os.path.join(at, name))
        for at, _, names in os.walk(top, followlinks=True)
        for name in names
        if name.endswith(".py")
    )
    rows = [row("all", [sum(sizes.values())], limit_ns=2 << 20, bytes=True)]
    return rows + [row(name, [size], bytes=True) for name, size in sizes.items()]


# -- The compiler behind cc

SPENT = """
import resource, sys, time
def spent():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(r.ru_utime + r.ru_stime for r in both) * 1e9
"""
BUILD = (
    SPENT
    + """
import gramme as g
kernels, width = int(sys.argv[1]), 4096
x = g.randn(width)
def make(n):
    text = "def f(x):\\n    total = x\\n" + "".join(f"    total = g.tanh(x * {i + 1}.5 + total.sum())\\n" for i in range(n)) + "    return total\\n"
    space = {"g": g}
    exec(text, space)
    return space["f"]
g.compile(lambda x: x + 1, backend="cc", options={"wait": True})(x)
f = g.compile(make(kernels), backend="cc", options={"wait": True})
e = g.compile(make(kernels), backend="eager")
start = spent()
e(x)
middle = spent()
f(x)
print(spent() - middle - (middle - start))
"""
)

BLOCK = (
    SPENT
    + """
sys.path.insert(0, sys.argv[1])
import gramme as g, cases
model = cases.Block(256, 4)
x = g.randn(8, 128, 256, requires_grad=True)
g.compile(lambda x: x + 1, backend="cc", options={"wait": True})(x)
f = g.compile(cases.square_loss, backend="cc", options={"wait": True})
start = spent()
f(model, x)
print(spent() - start)
"""
)

STALLS = """
import time, gramme as g
def make(i):
    space = {"g": g}
    exec(f"def f(x): return (g.tanh(x) * {i}.5 + x).sum()", space)
    return g.compile(space["f"])
x, fns = g.randn(64), [make(i) for i in range(16)]
for f in fns: f(x)
taken, clock = [], time.perf_counter_ns
while g.compiler.builds()["made"] < 16:
    for f in fns:
        start = clock()
        f(x)
        taken.append(clock() - start)
taken.sort()
print(taken[len(taken) // 2], taken[len(taken) * 99 // 100], taken[len(taken) * 999 // 1000], taken[-1])
"""


@case
def cc_builds(rounds):
    """What cc's compiler takes, processor time of all processes: a function of one kernel, each
    further kernel of a function of 17, and a transformer block's forward and backward; then calls
    through auto while 16 functions are built behind them, by the clock on the wall: the middle one,
    one of a hundred, of a thousand, and the longest."""
    n, off = max(3, rounds // 3), {"GRAMME_CACHE": "0"}
    one, many = ([run(BUILD, str(k), **off)[0] for _ in range(n)] for k in (1, 17))
    rows = [
        row("one kernel", one, limit_ns=45e6),
        row(
            "each further kernel",
            [(m - o) / 16 for m, o in zip(sorted(many), sorted(one))],
            limit_ns=4e6,
        ),
    ]
    here = os.path.dirname(os.path.abspath(__file__))
    rows.append(
        row(
            "block, forward and backward",
            [run(BLOCK, here, **off)[0] for _ in range(n)],
            limit_ns=300e6,
        )
    )
    stalls = list(zip(*(run(STALLS, **off) for _ in range(n))))
    names = (
        "a call meanwhile: median",
        "a call meanwhile: 99 of 100",
        "a call meanwhile: 999 of 1000",
        "a call meanwhile: longest",
    )
    return rows + [
        row(name, taken, **({"limit_ns": 1e6} if "99" in name else {}))
        for name, taken in zip(names, stalls)
    ]


# -- Code from disk

FROM_DISK = """
import os, sys, time
import gramme as g
n, cold = int(sys.argv[1]), sys.argv[2] == "cold"
x = g.randn(1000)
g.compile(lambda x: x + 1)(x)
fns = []
for i in range(n):
    space = {"g": g}
    exec(f"def f(x):\\n    a = x * {i}.5 + x\\n    b = g.tanh(a) - x\\n    return g.exp(-b) * a + b\\n", space)
    fns.append(g.compile(space["f"]))
if cold:
    folder = os.environ["GRAMME_CACHE_DIR"]
    for name in os.listdir(folder):
        file = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
start = time.perf_counter_ns()
for f in fns:
    f(x)
taken = time.perf_counter_ns() - start
for f in fns:
    f(x)
g.compiler.wait()
print(taken, g.compiler.cache_counts()["hits"])
"""


@case
def from_disk(rounds):
    """First calls in a new process that finds the code on disk: one function, and a hundred; with
    the files in memory and not."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {"GRAMME_CACHE_DIR": folder, "GRAMME_CACHE": "1"}
        for n, limit in ((1, 1e6), (100, 10e6)):
            run(FROM_DISK, str(n), "warm", **environment)
            for kind in ("warm", "cold"):
                took = [
                    run(FROM_DISK, str(n), kind, **environment) for _ in range(max(3, rounds // 2))
                ]
                assert all(hits >= n for _, hits in took), "the code was not found on disk"
                of = "one function" if n == 1 else f"{n} functions"
                rows.append(
                    row(
                        of if kind == "warm" else f"{of}, files not in memory",
                        [ns for ns, _ in took],
                        limit_ns=limit,
                    )
                )
    return rows


# -- Steady

BURN = "while True: pass"


@case
def steadiness(rounds):
    """Chains of 16 and of 1,000,000 numbers, the latter by two threads: the middle call and one of
    a hundred, as it comes, and with a program beside it that never rests; by the clock on the wall.
    The second row of each is held to twice the first.
    """
    import gc

    big, small = gramme.randn(1_000_000), gramme.randn(16)
    f = gramme.compile(lambda x: gramme.tanh(x) * x + 1.0)
    for x in (big, small):
        for _ in range(3):
            f(x)
    gramme.compiler.wait()
    clock, rows, threads = time.perf_counter_ns, [], gramme.get_num_threads()
    gramme.set_num_threads(2)
    for busy in (False, True):
        burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(busy)]
        try:
            for name, x, number in (
                ("16 numbers", small, 20_000),
                ("a million", big, 100 * max(5, rounds)),
            ):
                taken = []
                gc.disable()
                for _ in range(number):
                    start = clock()
                    f(x)
                    taken.append(clock() - start)
                gc.enable()
                taken.sort()
                middle, late = taken[number // 2], taken[number * 99 // 100]
                rows.append(
                    row(
                        f"{name}, {'beside a program' if busy else 'as it comes'}: median", [middle]
                    )
                )
                rows.append(
                    row(
                        f"{name}, {'beside a program' if busy else 'as it comes'}: 99 of 100",
                        [late],
                        limit_ns=2 * middle,
                    )
                )
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
    gramme.set_num_threads(threads)
    return rows


@case
def two_beside_one(rounds):
    """Kernels of growing size by one thread and by two: never more than a tenth slower."""
    from cases import interleave

    functions = {
        "x sigmoid(x) + 2 tanh(x)": (
            lambda x: x * gramme.sigmoid(x) + 2 * gramme.tanh(x),
            [(n,) for n in (1000, 10_000, 30_000, 100_000, 300_000, 1_000_000)],
        ),
        "x * 2 + 1": (
            lambda x: x * 2 + 1,
            [(n,) for n in (1000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000)],
        ),
        "softmax": (lambda x: gramme.softmax(x, -1), [(n, 512) for n in (4, 16, 64, 256, 1024)]),
        "x w": (lambda x: x @ x, [(n, n) for n in (64, 128, 256, 512)]),
    }
    rows, before = [], gramme.get_num_threads()
    try:
        for label, (f, shapes) in functions.items():
            compiled = gramme.compile(f, dynamic=False)
            for shape in shapes:
                x = gramme.randn(*shape)
                for _ in range(3):
                    compiled(x)
                gramme.compiler.wait()

                def with_threads(n):
                    def call():
                        gramme.set_num_threads(n)
                        compiled(x)

                    return call

                number = max(2, min(500, 2_000_000 // x.numel()))
                one = interleave(
                    {n: with_threads(n) for n in (1, 2)}, rounds, number, time.perf_counter_ns
                )
                size = " x ".join(map(str, shape))
                rows.append(dict(one[0], side=f"{label}, {size}: one"))
                rows.append(
                    dict(one[1], side=f"{label}, {size}: two", limit_ns=1.1 * one[0]["min_ns"])
                )
    finally:
        gramme.set_num_threads(before)
    return rows
