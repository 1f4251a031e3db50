# SPDX-License-Identifier: Apache-2.0
"""The cases of `gramme bench`.  A case is a function of the number of rounds that returns a list of
rows (side, min_ns, median_ns)."""

import collections
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import gramme
import gramme.nn.functional as F
from gramme import nn

CASES = {}
CLOCK = time.perf_counter_ns


def use_processor_time():
    """What a machine with other work leaves to measure: the time of this thread."""
    global CLOCK
    CLOCK = time.thread_time_ns


def case(fn):
    CASES[fn.__name__] = fn
    return fn


def interleave(sides, rounds, number, clock=None):
    """sides: {name: callable}.  Each round runs every side `number` times in a row; returns rows of
    ns per call, loop cost removed."""
    clock = clock or CLOCK
    samples = {name: [] for name in sides}
    for fn in sides.values():
        for _ in range(max(3, number // 10)):
            fn()
    empty = float(
        "inf"
    )  # the loop itself: the least of all rounds, so that noise in it never flatters a side
    for _ in range(rounds):
        start = clock()
        for _ in range(number):
            pass
        empty = min(empty, clock() - start)
        for name, fn in sides.items():
            start = clock()
            for _ in range(number):
                fn()
            samples[name].append(clock() - start)
    rows = []
    for name, taken in samples.items():
        per_call = [max(t - empty, 0) / number for t in taken]
        rows.append(
            {"side": name, "min_ns": min(per_call), "median_ns": statistics.median(per_call)}
        )
    return rows


def backends():
    return [name for name in ("eager", "tcc", "cc") if name in gramme.compiler.list_backends()]


@case
def warm_call(rounds):
    """A compiled 3-op function on 16 floats, at least 10 guards, against plain eager."""
    shift, low, scale = gramme.ones(16), 0.0, 2.0

    def f(x, y):
        if scale > low:
            return gramme.relu(x * y + shift)
        return x

    x, y = gramme.randn(16), gramme.randn(16)
    sides = {
        "plain eager": functools.partial(f, x, y)
    }  # a lambda would cost a fifth of what is measured
    for name in [*backends(), "auto"]:
        compiled = gramme.compile(f, backend=name)
        for _ in range(2):
            compiled(x, y)
        gramme.compiler.wait()  # for the code that stays
        guards = compiled.entries()[0]["n_guards"]
        sides[f"{name} ({guards} guards)"] = functools.partial(compiled, x, y)
    rows = interleave(sides, rounds, 20000)
    for row in rows[1:]:
        row["limit_ns"] = min(400, rows[0]["min_ns"])
    return rows


@case
def warm_call_add(rounds):
    """x + 1 on 16 floats with 10 guards: through each back end, where x asks for no gradient, and
    where it does (forward alone, the history made)."""
    one, low = 1.0, 0.0
    flags = [i / 7 for i in range(5)]

    def f(x, y, z):
        if low < one and flags[0] < flags[4]:
            return x + one
        return y + z

    x, rest = gramme.randn(16), (gramme.randn(16), gramme.randn(16))
    tracked = gramme.randn(16, requires_grad=True)
    sides = {"plain eager": functools.partial(f, x, *rest)}
    for name in [*backends(), "auto"]:
        for kind, first in (("", x), (", with a gradient", tracked)):
            compiled = gramme.compile(fresh(f, name + kind), backend=name)
            for _ in range(3):
                compiled(first, *rest)
            gramme.compiler.wait()
            sides[f"{name}{kind} ({compiled.entries()[0]['n_guards']} guards)"] = functools.partial(
                compiled, first, *rest
            )
    rows = interleave(sides, rounds, 20000)
    for row in rows[1:]:
        row["limit_ns"] = 150 if "gradient" in row["side"] else 100
    return rows


@case
def warm_call_grad(rounds):
    """The same with a gradient: forward and backward of a 3-op function on 16 floats."""
    x, y = gramme.randn(16, requires_grad=True), gramme.randn(16)

    def f(x, y):
        return gramme.relu(x * y + 1.0).sum()

    def step(fn):
        x.grad = None
        fn(x, y).backward()

    sides = {"plain eager": lambda: step(f)}
    for name in backends():
        sides[name] = lambda compiled=gramme.compile(f, backend=name): step(compiled)
    return interleave(sides, rounds, 5000)


def chain(x, y):
    a = x * 2.0 + y
    b = gramme.tanh(a) - x
    c = gramme.sigmoid(b) * a
    d = gramme.exp(-c) + b
    return (d * c).sum()


@case
def fused(rounds):
    """Chains and rows, in the cache and in memory: each back end, plain eager, and a copy of as
    many bytes as the function reads and writes."""
    rows = []

    def layer_norm(x):
        d = x - x.mean(-1, keepdim=True)
        return d * gramme.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5)

    functions = {
        "x sigmoid(x) + 2 tanh(x)": (
            lambda x: x * gramme.sigmoid(x) + 2 * gramme.tanh(x),
            ((10_000,), (100_000,), (10_000_000,)),
        ),
        "10 cheap operations": (
            lambda x: ((x * 2 + x).relu() - x) * (x.abs() + 0.5) * x - (x * x),
            ((10_000,), (10_000_000,)),
        ),
        "softmax": (lambda x: gramme.softmax(x, -1), ((1024, 1024), (1024, 1000), (128, 32_768))),
        "layer norm": (layer_norm, ((1024, 1024), (1024, 1000))),
    }
    for label, (f, shapes) in functions.items():
        for shape in shapes:
            x = gramme.randn(*shape)
            sides = {"plain eager": lambda f=f: f(x), "a copy": lambda: gramme.clone(x)}
            for name in backends()[1:]:
                compiled = gramme.compile(f, backend=name)
                assert bool((compiled(x) == f(x)).all())
                sides[name] = lambda compiled=compiled: compiled(x)
            number = max(1, min(500, 5_000_000 // x.numel()))
            for row in interleave(sides, rounds, number):
                rows.append(
                    dict(row, side=f"{label}, {' x '.join(map(str, shape))}: {row['side']}")
                )
    return rows


@case
def cold_compile(rounds):
    """From the call of a new 10-op function to its result: record, compile, run."""
    import types

    x, y = gramme.randn(1000), gramme.randn(1000)
    names = [name for name in ("tcc", "cc", "eager") if name in backends()]
    samples = {name: [] for name in names}
    for name in names:
        gramme.compile(chain, backend=name)(x, y)
    for i in range(rounds * 4):
        for name in names:
            # A code object of its own each time: entries live on it.
            code = chain.__code__.replace(co_name=f"chain{i}")
            compiled = gramme.compile(
                types.FunctionType(code, chain.__globals__, "chain"), backend=name
            )
            start = time.perf_counter_ns()
            compiled(x, y)
            samples[name].append(time.perf_counter_ns() - start)
    rows = [
        {"side": name, "min_ns": min(s), "median_ns": statistics.median(s)}
        for name, s in samples.items()
    ]
    rows[0]["limit_ns"] = 3e6
    return rows


def fresh(f, i):
    """The same function with a code object of its own: entries live on it."""
    import types

    return types.FunctionType(
        f.__code__.replace(co_name=f"{f.__name__}_{i}"),
        f.__globals__,
        f.__name__,
        f.__defaults__,
        f.__closure__,
    )


def from_text(text, name="f"):
    space = {"gramme": gramme}
    exec(compile(text, f"<{name}>", "exec"), space)
    return space[name]


STAGES = {
    "d": "decode",
    "r": "record",
    "s": "simplify",
    "f": "functionalize",
    "j": "join",
    "p": "partition",
    "l": "lower",
    "a": "assemble",
}


@case
def cold_stages(rounds):
    """Each stage of compiling a function of 10 and one of 1,000 operations for eager, without and
    with gradients; the whole is the first row."""
    rows = []
    for n in (10, 1000):
        for grad in (False, True):
            x, times = gramme.ones(8, requires_grad=grad), {}
            f = from_text(
                "def f(x):\n"
                + "".join(f"    x = x {'*+'[i % 2]} 1.5\n" for i in range(n))
                + "    return x\n"
            )
            for i in range(rounds):
                compiled = gramme.compile(fresh(f, i), backend="eager")
                start = time.perf_counter_ns()
                compiled(x)
                whole = time.perf_counter_ns() - start
                stages = compiled.entries()[0]["stages"]
                for name, ns in [("first call", whole)] + [
                    (STAGES[letter], ms * 1e6) for letter, ms in stages.items()
                ]:
                    times.setdefault(name, []).append(ns)
            side = f"{n} ops{', with gradients' if grad else ''}: "
            rows += [
                {"side": side + name, "min_ns": min(ns), "median_ns": statistics.median(ns)}
                for name, ns in times.items()
            ]
    return rows


# Programs for the recorder: straight loops, unrolled, over one kind of thing each.


def trace_numbers(x, o):
    n = 0
    for i in range(10_000):
        n = n + i
        if n > 1000:
            n = n - 1000
    return x + n


def trace_attributes(x, o):
    i = 0
    while i < 10_000:
        o.a = o.a + 1
        i += 1
    return x


def added(a, b):
    return a + b


def trace_calls(x, o):
    n = 0
    for i in range(5_000):
        n = added(n, i)
    return x + n


def trace_lists(x, o):
    items = []
    for i in range(10_000):
        items.append(i)
    n = 0
    for item in items:
        n += item
    return x + n


def trace_dicts(x, o):
    n = 0
    for _ in range(100):
        d = {}
        for i in range(50):
            d[i] = i
        for key, value in d.items():
            n += value
    return x + n


def trace_large_dict(x, o):
    d = {}
    for i in range(5_000):
        d[i] = i
    return x + len(d)


def trace_list_stores(x, o):
    items = [0] * 5_000
    for i in range(5_000):
        items[i] = i
    while len(items) > 1:
        items.pop()
    return x + items[0]


def trace_deques(x, o):
    d = collections.deque()
    for i in range(5_000):
        d.append(i)
    for i in range(5_000):
        d.rotate(1)
        d.appendleft(d.pop())
        d[i] = i
    while d:
        d.popleft()
    return x + len(d)


def trace_sets(x, o):
    s = set()
    for i in range(5_000):
        s.add(i)
    for i in range(5_000):
        s.discard(i)
    return x + len(s)


def trace_tensors(x, o):
    for _ in range(5_000):
        x = x + 1
    return x


class Attributes:
    a = 0


@case
def trace_rate(rounds):
    """The record stage: ns for each bytecode that is traced, of programs of 35,000 to 150,000
    bytecodes.  333 ns is 3 million a second."""
    rows, x, o = [], gramme.ones(3), Attributes()
    for f in (
        trace_numbers,
        trace_attributes,
        trace_calls,
        trace_lists,
        trace_dicts,
        trace_large_dict,
        trace_list_stores,
        trace_deques,
        trace_sets,
        trace_tensors,
    ):
        samples = []
        for i in range(min(rounds, 5)):
            o.a = 0
            compiled = gramme.compile(fresh(f, i), backend="eager")
            compiled(x, o)
            entry = compiled.entries()[0]
            samples.append(entry["stages"]["r"] * 1e6 / entry["insns"])
        rows.append(
            {
                "side": f"{f.__name__} ({entry['insns']} bytecodes)",
                "min_ns": min(samples),
                "median_ns": statistics.median(samples),
                "limit_ns": 333,
            }
        )
    return rows


def _growth(rounds, sizes, make, slack):
    """ns of the first call of make(n) over n, for each n; the limit is `slack` times the first
    row."""
    rows, x = [], gramme.ones(3)
    for n in sizes:
        samples = []
        for i in range(max(3, min(rounds, 20_000 // n))):
            compiled = gramme.compile(make(n), backend="eager")
            start = (
                time.thread_time_ns()
            )  # of this thread: other programs on the machine do not count
            compiled(x)
            samples.append((time.thread_time_ns() - start) / n)
        rows.append(
            {"side": str(n), "min_ns": min(samples), "median_ns": statistics.median(samples)}
        )
        rows[-1]["limit_ns"] = slack * rows[0]["min_ns"]
    return rows


@case
def trace_length(rounds):
    """The first call of a function of n operations, for each operation: the same for every n."""
    make = lambda n: from_text("def f(x):\n" + "    x = x + 1\n" * n + "    return x\n")
    return _growth(rounds, (100, 200, 400, 800, 1600, 3200), make, 1.5)


@case
def trace_breaks(rounds):
    """The first call of a loop with n graph breaks, for each break: the same for every n."""
    text = (
        "def f(x):\n    for _ in range({}):\n        x = x + 1\n        "
        "gramme._dynamo.graph_break()\n    return x\n"
    )
    return _growth(
        min(rounds, 3), (100, 200, 400, 800, 1600, 3200), lambda n: from_text(text.format(n)), 1.5
    )


@case
def trace_breaks_straight(rounds):
    """The first call of straight code with n graph breaks, for each break: the same for every n."""
    body = "    x = x + 1\n    gramme._dynamo.graph_break()\n"
    return _growth(
        min(rounds, 3),
        (25, 50, 100, 200, 400, 800, 1600),
        lambda n: from_text("def f(x):\n" + body * n + "    return x\n"),
        1.5,
    )


@case
def break_depth(rounds):
    """A function of 600 operations with one break in the middle, at inline depth 0, 1, 2, 3: the
    same at every depth."""
    rows, x = [], gramme.ones(3)
    half = "    x = x + 1\n" * 300
    for depth in range(4):
        text = f"def h0(x):\n{half}    gramme._dynamo.graph_break()\n{half}    return x\n"
        for k in range(1, depth + 1):
            text += f"def h{k}(x):\n    return h{k - 1}(x)\n"
        samples = []
        for _ in range(rounds):
            compiled = gramme.compile(from_text(text, f"h{depth}"), backend="eager")
            start = time.thread_time_ns()
            compiled(x)
            samples.append(time.thread_time_ns() - start)
        rows.append(
            {
                "side": f"depth {depth}",
                "min_ns": min(samples),
                "median_ns": statistics.median(samples),
            }
        )
        rows[-1]["limit_ns"] = 1.2 * rows[0]["min_ns"]
    return rows


@case
def import_only(rounds):
    """A program that compiles nothing: calls, loops, attributes, containers, exceptions, in a
    process that has imported gramme and in one that has not."""
    import os
    import subprocess
    import sys

    program = """
import sys, time
if sys.argv[1] == "gramme":
    import gramme
class P:
    def __init__(self, v): self.v = v
    def get(self): return self.v
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def work():
    total = fib(18)
    for i in range(20000):
        total += P(i).get() + len([i, i])
        try:
            if i % 100 == 0: raise ValueError
        except ValueError:
            total -= 1
    return total
best = 1 << 60
for _ in range(15):
    start = time.thread_time_ns(); work(); best = min(best, time.thread_time_ns() - start)
print(best)
"""
    samples = {"plain": [], "gramme": []}
    for _ in range(max(3, rounds // 2)):
        for side in samples:
            done = subprocess.run(
                [sys.executable, "-c", program, side],
                capture_output=True,
                text=True,
                check=True,
                env=dict(os.environ),
            )
            samples[side].append(int(done.stdout))
    names = {"plain": "without gramme", "gramme": "after import gramme"}
    rows = [
        {"side": names[side], "min_ns": min(s), "median_ns": statistics.median(s)}
        for side, s in samples.items()
    ]
    rows[1]["limit_ns"] = 1.02 * rows[0]["min_ns"]
    return rows


@case
def mark(rounds):
    """A checkpoint of the recorder's state and its rollback: of nothing, and of eight writes, with
    10 and with 100,000 live variables."""
    rows = []
    for writes in (0, 8):
        for live in (10, 1000, 100_000):
            samples = [gramme._core.measure_mark(live, 100_000, writes) for _ in range(rounds)]
            side = f"{writes or 'no'} writes, {live} live variables"
            rows.append(
                {"side": side, "min_ns": min(samples), "median_ns": statistics.median(samples)}
            )
            if not writes:
                rows[-1]["limit_ns"] = 20
    return rows


@case
def plan_overhead(rounds):
    """What the call plan of relu(x * y + z) on 16 floats adds to the back end's own call, without
    and with gradients."""
    rows = []
    for name in backends():
        for grad, limit in ((False, 300), (True, 800)):
            pairs = [gramme._core.measure_plan(name, grad, 5_000) for _ in range(rounds)]
            added = [plan - alone for plan, alone in pairs]
            side = (
                f"{name}, {'forward and backward' if grad else 'forward'} "
                f"({min(alone for _, alone in pairs):.0f} ns alone)"
            )
            rows.append(
                {
                    "side": side,
                    "min_ns": min(added),
                    "median_ns": statistics.median(added),
                    "limit_ns": limit,
                }
            )
    return rows


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, 96)
        self.out = nn.Linear(96, 10)

    def forward(self, x):
        return self.out(F.relu(self.hidden(x)))


def loss_of(model, x, y):
    return F.cross_entropy(model(x), y)


@case
def digits_step(rounds):
    """Forward, loss and backward of the digit classifier on a batch of 64, without the
    optimiser."""
    gramme.manual_seed(1)
    model = Classifier()
    x, y = gramme.rand(64, 64), gramme.randint(0, 10, (64,))

    def step(fn):
        for p in model.parameters():
            p.grad = None
        fn(model, x, y).backward()

    sides = {"plain eager": lambda: step(loss_of)}
    for name in backends():
        sides[name] = lambda compiled=gramme.compile(loss_of, backend=name): step(compiled)
    return interleave(sides, rounds, 200)


def _kernel(rounds, n, number):
    x = gramme.randn(n)

    def f(x):
        return x * gramme.sigmoid(x) + 2.0 * gramme.tanh(x)

    sides = {"plain eager": lambda: f(x)}
    for name in backends():
        sides[name] = lambda compiled=gramme.compile(f, backend=name): compiled(x)
    return interleave(sides, rounds, number)


@case
def pointwise_1e4(rounds):
    """x * sigmoid(x) + 2 * tanh(x) on 10,000 floats: in cache."""
    return _kernel(rounds, 10_000, 200)


@case
def pointwise_1e6(rounds):
    """The same on 1,000,000 floats: out of cache."""
    return _kernel(rounds, 1_000_000, 3)


@case
def softmax_1024(rounds):
    """softmax over rows of 512 of a 1024 by 512 matrix."""
    x = gramme.randn(1024, 512)

    def f(x):
        return gramme.softmax(x, 1)

    sides = {"plain eager": lambda: f(x)}
    for name in backends():
        sides[name] = lambda compiled=gramme.compile(f, backend=name): compiled(x)
    return interleave(sides, rounds, 10)


class Tower(nn.Module):
    """n small layers, one after the other."""

    def __init__(self, n):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(n)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@case
def guards_modules(rounds):
    """One check of all guards of a model, without running it, for 10, 100 and 1,000 modules; then
    where a dict that has nothing to do with it is written to before each check, as most programs
    do; per module in the last row."""
    rows, changing, counts, x = [], [], [], gramme.randn(1, 2)
    for n in (10, 100, 1000):
        model = gramme.compile(Tower(n), backend="eager")
        with gramme.no_grad():
            model(x)
            samples = [
                model._compiled_call.measure_guards(20000 // n, False, model, x)[0]
                for _ in range(rounds)
            ]
            walks = [
                model._compiled_call.measure_guards(20000 // n, True, model, x)[0]
                for _ in range(rounds)
            ]
        counts.append(model._compiled_call.entries()[0]["n_guards"])
        rows.append(
            {
                "side": f"{n} modules ({counts[-1]} guards)",
                "min_ns": min(samples),
                "median_ns": statistics.median(samples),
            }
        )
        changing.append(
            {
                "side": f"{n} modules, a dict changes",
                "min_ns": min(walks),
                "median_ns": statistics.median(walks),
            }
        )
    rows += changing
    slope = [(changing[2][key] - changing[0][key]) / 990 for key in ("min_ns", "median_ns")]
    each = (counts[2] - counts[0]) / 990
    rows.append(
        {
            "side": f"each further module ({each:.0f} guards)",
            "min_ns": slope[0],
            "median_ns": slope[1],
            "limit_ns": 2 * each,
        }
    )
    return rows


@case
def guards_values(rounds):
    """One check of n guards on the items of a list, for each of them: in the caches; where a dict
    changed before; and after 64 MB were written, which leaves nothing of them in the caches."""
    rows, x, flush = [], gramme.randn(4), bytearray(64 << 20)
    for n in (10, 100, 1000, 10_000, 100_000):
        numbers = [float(i % 3) for i in range(n)]

        def f(x):
            total = 0.0
            for number in numbers:
                total = total + number
            return x + total

        compiled = gramme.compile(fresh(f, n), backend="eager")
        compiled(x)
        count = compiled.entries()[0]["n_guards"]
        times = max(1, 200_000 // n)
        kinds = {"in the caches": [], "a dict changes": [], "flushed": []}
        for _ in range(rounds):
            kinds["in the caches"].append(compiled.measure_guards(times, False, x)[0] / count)
            kinds["a dict changes"].append(compiled.measure_guards(times, True, x)[0] / count)
            flush[:] = bytes(len(flush))
            kinds["flushed"].append(compiled.measure_guards(1, False, x)[0] / count)
        for kind, taken in kinds.items():
            rows.append(
                {
                    "side": f"{count} guards, {kind}: each",
                    "min_ns": min(taken),
                    "median_ns": statistics.median(taken),
                }
            )
            if n >= 1000 and kind != "flushed":
                rows[-1]["limit_ns"] = 1.5
    return rows


def in_new_processes(rounds, program, names, environment=None):
    """Runs the program, which prints a number of ns for each name, once in each round."""
    samples = {name: [] for name in names}
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        for name, ns in zip(names, done.stdout.split()):
            samples[name].append(float(ns))
    return [
        {"side": name, "min_ns": min(taken), "median_ns": statistics.median(taken)}
        for name, taken in samples.items()
    ]


@case
def import_time(rounds):
    """`import gramme` in a new process: the time of the processor, compiled modules at hand."""
    program = (
        "import time; t = time.process_time_ns(); import gramme; print(time.process_time_ns() - t)"
    )
    # an installation has compiled modules beside the sources, a build tree need not
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        in_new_processes(1, program, ["import gramme"], environment)
        rows = in_new_processes(rounds, program, ["import gramme"], environment)
    rows[0]["limit_ns"] = 3e6
    return rows


@case
def never_compiles(rounds):
    """A program of plain Python before and after `import gramme`, in one process that compiles
    nothing."""
    program = """if True:
        import time
        class Box:
            def __init__(self, w): self.w = w
            def scaled(self, x): return x * self.w + len(str(x))
        def work(n):
            box, total, table = Box(3), 0, {}
            for i in range(n):
                total += box.scaled(i)
                table[i % 64] = [total, i]
            return total + sum(v[1] for v in table.values())
        def best():
            taken = []
            for _ in range(15):
                start = time.perf_counter_ns(); work(4000); taken.append(time.perf_counter_ns() - start)
            return min(taken)
        best()
        before = best()
        import gramme
        print(before, best())
    """
    rows = in_new_processes(rounds, program, ["before import gramme", "after import gramme"])
    rows[1]["limit_ns"] = rows[0]["min_ns"] * 1.02
    return rows


@case
def two_threads(rounds):
    """20,000 calls of functions on 16 floats, compiled and of plain Python, by one thread, and
    shared by two; the interpreter's lock is held throughout, and
    handing it over costs plain Python as much: the limit."""
    x, y = gramme.randn(16), gramme.randn(16)
    compiled = [
        gramme.compile(lambda x, y, k=k: gramme.relu(x * y) + k, backend="eager") for k in range(2)
    ]
    plain = [lambda x, y, k=k: [i for i in range(9)] for k in range(2)]

    def calls(fn, n):
        for _ in range(n):
            fn(x, y)

    def alone(fns):
        for fn in fns:
            calls(fn, 10000)

    def shared(fns):
        threads = [threading.Thread(target=calls, args=(fn, 10000)) for fn in fns]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    sides = {
        "plain Python, one thread": (alone, plain),
        "plain Python, two threads": (shared, plain),
        "compiled, one thread": (alone, compiled),
        "compiled, two threads": (shared, compiled),
    }
    samples = {side: [] for side in sides}
    for _ in range(3 * rounds):
        for side, (run, fns) in sides.items():
            start = (
                time.process_time_ns()
            )  # of all threads: other programs on the machine do not count
            run(fns)
            samples[side].append(time.process_time_ns() - start)
    rows = [
        {"side": side, "min_ns": min(s), "median_ns": statistics.median(s)}
        for side, s in samples.items()
    ]
    least = [row["min_ns"] for row in rows]
    rows[3]["limit_ns"] = 1.02 * least[2] * least[1] / least[0]
    return rows


@case
def all_cores(rounds):
    """What one thread and what all threads take, by the clock on the wall: products, a
    convolution's gradients, training steps.  Bits are the same; limit: one thread's time through
    1.8."""
    before, most = gramme.get_num_threads(), len(os.sched_getaffinity(0))
    a, b, wide = gramme.randn(512, 256), gramme.randn(256, 768), gramme.randn(1024, 1024)
    heads, row, table = gramme.randn(32, 128, 64), gramme.randn(1, 1024), gramme.randn(1024, 4096)
    image = gramme.randn(8, 64, 16, 16, requires_grad=True)
    convolution = nn.Conv2d(64, 128, 3, padding=1)
    block = Block(256, 4)
    step = gramme.compile(lambda x: (block(x) ** 2).mean())
    x = gramme.randn(8, 64, 256)

    def gradients(fn, *args):
        for p in (*block.parameters(), *convolution.parameters()):
            p.grad = None
        fn(*args).sum().backward()

    work = {
        "512 x 256 by 256 x 768": lambda: a @ b,
        "1,024 x 1,024, squared": lambda: wide @ wide,
        "32 heads, 128 x 64 by 64 x 128": lambda: heads @ heads.transpose(1, 2),
        "1 x 1,024 by 1,024 x 4,096": lambda: row @ table,
        "convolution of 64 to 128 channels with gradients": lambda: gradients(convolution, image),
        "compiled training step of a transformer block": lambda: gradients(step, x),
    }
    for _ in range(3):
        work["compiled training step of a transformer block"]()
    gramme.compiler.wait()
    rows = []
    for name, fn in work.items():

        def with_threads(n, fn=fn):
            gramme.set_num_threads(n)
            fn()

        sides = {
            f"{name}: {n} thread{'s' * (n > 1)}": functools.partial(with_threads, n)
            for n in (1, most)
        }
        found = interleave(sides, 3 * rounds, 2, clock=time.perf_counter_ns)
        found[-1]["limit_ns"] = found[0]["min_ns"] / 1.8
        rows += found
    gramme.set_num_threads(before)
    return rows


class Block(nn.Module):
    """A transformer's: attention and a perceptron, both on normalised inputs, both added to what
    came in."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False, is_causal=True)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@case
def changing_sizes(rounds):
    """A transformer block (width 64) whose batch and length change, no gradients: a call for sizes
    like the one before, and for others, beside a function compiled for these sizes alone; then a
    check of its guards.  The first row says how many compilations 100 shapes took.
    """
    from gramme._dynamo.utils import counters

    rows = []
    for name in (n for n in backends() if n != "eager"):
        model, options = Block(64, 4), {"wait": True} if name == "cc" else {}
        for_all, for_one = (
            gramme.compile(lambda x: model(x), backend=name, options=options, dynamic=d)
            for d in (None, False)
        )
        with gramme.no_grad():
            before = counters["backend"]["compiles"]
            for i in range(100):
                for_all(gramme.randn(2 + i % 7, 5 + i * 11 % 53, 64))
            made = counters["backend"]["compiles"] - before
            x, y = gramme.randn(4, 32, 64), gramme.randn(5, 32, 64)
            sides = {
                f"{name}, for one size": lambda: for_one(x),
                f"{name}, for all ({made} compilations)": lambda: for_all(x),
            }
            got = interleave(sides, rounds, 20)
            got[1]["limit_ns"] = 1.1 * got[0]["min_ns"]
            rows += got + interleave(
                {f"{name}, two sizes in turns, each": lambda: (for_all(x), for_all(y))}, rounds, 20
            )
            rows[-1].update({key: rows[-1][key] / 2 for key in ("min_ns", "median_ns")})
            checks = [for_all.measure_guards(2000, False, x)[0] for _ in range(rounds)]
            rows.append(
                {
                    "side": f"{name}, its guards",
                    "min_ns": min(checks),
                    "median_ns": statistics.median(checks),
                    "limit_ns": 500,
                }
            )
    return rows


def _sized_functions():
    """name: (function, arguments for a size); the graphs of sized.c."""
    return {
        "pointwise": (
            lambda x, y: (lambda a: (lambda b: gramme.maximum((b - x) * a, x))(a + y))(x * y),
            lambda n: (gramme.randn(n, 64), gramme.randn(n, 64)),
        ),
        "softmax": (
            lambda x: (lambda e: e / e.sum(1, keepdim=True))(
                gramme.exp(x - x.amax(1, keepdim=True))
            ),
            lambda n: (gramme.randn(64, n),),
        ),
        "rows": (lambda x: x.square().sum(1), lambda n: (gramme.randn(n, 96),)),
        "columns": (lambda x: x.sum(0), lambda n: (gramme.randn(n, 96),)),
        "linear": (
            lambda x, w: (lambda t: t * t)(gramme.tanh(x @ w)),
            lambda n: (gramme.randn(n, 64), gramme.randn(64, 64)),
        ),
    }


@case
def sized_call(rounds):
    """A whole warm call of what was compiled for all sizes, beside what was compiled for these
    numbers."""
    rows = []
    for backend in ("tcc", "cc"):
        options = {"wait": True} if backend == "cc" else None
        for name, (f, arguments) in _sized_functions().items():
            general = gramme.compile(f, backend=backend, options=options)
            for n in (5, 6, 3):
                general(*arguments(n))
            for n in (7, 64, 1000):
                args = arguments(n)
                numbers = gramme.compile(
                    fresh(f, n), backend=backend, options=options, dynamic=False
                )
                sides = {
                    "numbers": functools.partial(numbers, *args),
                    "symbols": functools.partial(general, *args),
                }
                number = 1000 if n < 64 else 200 if n < 1000 else 10
                got = interleave(sides, rounds, number)
                got[1]["limit_ns"] = 1.1 * got[0]["min_ns"]
                rows += [{**row, "side": f"{backend} {name} n={n}, {row['side']}"} for row in got]
    return rows


def _sized_control():
    """name: (function, arguments for a size); what stays an operator in the graph."""
    from gramme.higher_order import associative_scan, cond, scan

    return {
        "cond": (
            lambda x: cond(x.sum() > 0, lambda: (x * 2).sin() + 1, lambda: x.tanh()),
            lambda n: (gramme.rand(n, 64),),
        ),
        "scan": (
            lambda x: scan(lambda c, s: (c * 0.5 + s, c.sin()), x.sum(0), x)[1],
            lambda n: (gramme.rand(n, 64),),
        ),
        "prefixes": (
            lambda a, x: associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, x))[
                1
            ],
            lambda n: (gramme.rand(n, 64), gramme.rand(n, 64)),
        ),
        "prefixes and gradients": (
            lambda a, x: associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, x))[
                1
            ].sum(),
            lambda n: (gramme.rand(n, 64).requires_grad_(), gramme.rand(n, 64).requires_grad_()),
        ),
    }


def call_or_step(f, args):
    y = f(*args)
    if y.requires_grad:
        y.backward()
        for x in args:
            x.grad = None


@case
def sized_control(rounds):
    """Control flow compiled for all sizes: a warm call beside what was compiled for these numbers,
    and the first call for a size that is new."""
    rows = []
    for backend in ("tcc", "cc"):
        options = {"wait": True} if backend == "cc" else None
        for name, (f, arguments) in _sized_control().items():
            general = gramme.compile(fresh(f, 0), backend=backend, options=options)
            for n in (5, 6, 3):
                call_or_step(general, arguments(n))
            for n in (7, 64, 1000):
                args = arguments(n)
                numbers = gramme.compile(
                    fresh(f, n), backend=backend, options=options, dynamic=False
                )
                sides = {
                    side: functools.partial(call_or_step, g, args)
                    for side, g in (("numbers", numbers), ("symbols", general))
                }
                got = interleave(sides, rounds, 50 if n < 1000 else 5)
                got[1]["limit_ns"] = 1.1 * got[0]["min_ns"]
                rows += [{**row, "side": f"{backend} {name} n={n}, {row['side']}"} for row in got]
            news = []
            for n in range(8, 8 + rounds):
                args = arguments(n)
                start = time.perf_counter_ns()
                call_or_step(general, args)
                news.append(time.perf_counter_ns() - start)
            rows.append(
                {
                    "side": f"{backend} {name}, the first call for a size",
                    "min_ns": min(news),
                    "median_ns": statistics.median(news),
                }
            )
    return rows


def square_loss(model, x):
    return (model(x) ** 2).mean()


@case
def block_memory(rounds):
    """A training step of a transformer block (batch 8, length 128, width 256): time, and peak bytes
    in all."""
    gramme.manual_seed(1)
    model = Block(256, 4)
    x = gramme.randn(8, 128, 256, requires_grad=True)
    leaves = [x, *model.parameters()]

    def clear():
        for leaf in leaves:
            leaf.grad = None

    def step(fn):
        clear()
        fn(model, x).backward()

    def peak(fn):
        step(fn)
        clear()
        gramme._core.reset_peak_bytes()
        fn(model, x).backward()
        return gramme._core.peak_bytes()

    forms = {"plain eager": square_loss}
    for name in backends():
        forms[name] = gramme.compile(square_loss, backend=name)
        for option, value in (("partition", "min-cut"), ("memory-budget", 0.9)):
            forms[f"{name}, {option}={value}"] = gramme.compile(
                square_loss, backend=name, options={option: value}
            )
    peaks = {name: peak(fn) for name, fn in forms.items()}
    rows = interleave({name: lambda fn=fn: step(fn) for name, fn in forms.items()}, rounds, 2)
    for row in rows:
        row["peak_bytes"] = peaks[row["side"]]
        row[
            "side"
        ] += f" ({row['peak_bytes'] / 1e6:.1f} MB, x{row['peak_bytes'] / peaks['plain eager']:.2f})"
        row["limit_ns"] = 1.05 * rows[0]["min_ns"]
    return rows


@case
def block_products(rounds):
    """A training step of the medium transformer block of vs_block, and its matrix products alone:
    what no back end can go below that uses this BLAS."""
    batch, length, width, heads = 8, 128, 256, 4
    rows, linear = batch * length, (
        (width, 3 * width),
        (width, width),
        (width, 4 * width),
        (4 * width, width),
    )
    weights = [(gramme.randn(*shape) / shape[0] ** 0.5).requires_grad_() for shape in linear]
    x = gramme.randn(batch, length, width)

    def loss(x, qkv, out, up, down):
        h = F.layer_norm(x, (width,)) @ qkv
        q, k, v = (
            p.reshape(batch, length, heads, width // heads).transpose(1, 2) for p in h.chunk(3, -1)
        )
        a = (
            F.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(batch, length, width)
        )
        x = x + a @ out
        return ((x + F.gelu(F.layer_norm(x, (width,)) @ up) @ down) ** 2).mean()

    def step(fn):
        for w in weights:
            w.grad = None
        fn(x, *weights).backward()

    operands = [
        (gramme.randn(rows, a), gramme.randn(a, b), gramme.randn(rows, b)) for a, b in linear
    ]
    q, p = gramme.randn(batch * heads, length, width // heads), gramme.randn(
        batch * heads, length, length
    )

    def products():
        with gramme.no_grad():
            for i, (x, w, g) in enumerate(operands):
                x @ w, x.t() @ g
                if i > 0:  # the data asks for no gradient
                    g @ w.t()
            for _ in range(2):
                q @ q.transpose(1, 2), p @ q, p.transpose(1, 2) @ q

    compiled = gramme.compile(loss)
    for _ in range(3):
        step(compiled)
    gramme.compiler.wait()
    return interleave(
        {
            "plain eager": lambda: step(loss),
            "compiled": lambda: step(compiled),
            "its matrix products": products,
        },
        rounds,
        2,
    )


def backward_only(rounds, loss, parameters, number):
    """The backward of a plain forward, by the engine and under compiled autograd: found again, and
    compiled each time."""
    from gramme._dynamo import compiled_autograd

    def backward():
        for p in parameters:
            p.grad = None
        loss.backward(retain_graph=True)

    def warm(name):
        with compiled_autograd.enable(name):
            backward()

    def cold(name):
        gramme.compiler.reset()
        warm(name)

    rows = interleave(
        {"plain eager": backward} | {name: lambda name=name: warm(name) for name in backends()},
        rounds,
        number,
    )
    return rows + interleave(
        {f"{name}, cold": lambda name=name: cold(name) for name in backends()}, rounds, 2
    )


@case
def compiled_autograd_mlp(rounds):
    """Backward alone, of the digit classifier on a batch of 64."""
    gramme.manual_seed(1)
    model = Classifier()
    x, y = gramme.rand(64, 64), gramme.randint(0, 10, (64,))
    return backward_only(rounds, loss_of(model, x, y), list(model.parameters()), 200)


@case
def compiled_autograd_block(rounds):
    """Backward alone, of a transformer block (batch 2, length 32, width 64)."""
    gramme.manual_seed(1)
    model = Block(64, 4)
    return backward_only(
        rounds, square_loss(model, gramme.randn(2, 32, 64)), list(model.parameters()), 20
    )
