# SPDX-License-Identifier: Apache-2.0
"""The cases of `gramme bench`.  A case is a function of the number of rounds that returns a list of rows (side, min_ns, median_ns)."""

import statistics
import time

import gramme
import gramme.nn.functional as F
from gramme import nn

CASES = {}


def case(fn):
    CASES[fn.__name__] = fn
    return fn


def interleave(sides, rounds, number):
    """sides: {name: callable}.  Each round runs every side `number` times in a row; returns rows of ns per call, loop cost removed."""
    clock = time.perf_counter_ns
    samples = {name: [] for name in sides}
    for fn in sides.values():
        for _ in range(max(3, number // 10)):
            fn()
    empty = float("inf")  # the loop itself: the least of all rounds, so that noise in it never flatters a side
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
        rows.append({"side": name, "min_ns": min(per_call), "median_ns": statistics.median(per_call)})
    return rows


def backends():
    return [name for name in ("eager", "tcc") if name in gramme.compiler.list_backends()]


@case
def warm_call(rounds):
    """A compiled 3-op function on 16 floats, at least 10 guards, against plain eager."""
    shift, low, scale = gramme.ones(16), 0.0, 2.0

    def f(x, y):
        if scale > low:
            return gramme.relu(x * y + shift)
        return x

    x, y = gramme.randn(16), gramme.randn(16)
    sides = {"plain eager": lambda: f(x, y)}
    for name in backends():
        compiled = gramme.compile(f, backend=name)
        compiled(x, y)
        guards = compiled.entries()[0]["n_guards"]
        sides[f"{name} ({guards} guards)"] = lambda compiled=compiled: compiled(x, y)
    rows = interleave(sides, rounds, 20000)
    for row in rows[1:]:
        row["limit_ns"] = min(400, rows[0]["min_ns"])
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
def cold_compile(rounds):
    """From the call of a new 10-op function to its result: record, compile, run."""
    import types

    x, y = gramme.randn(1000), gramme.randn(1000)
    names = ["tcc", "eager"] if "tcc" in backends() else ["eager"]
    samples = {name: [] for name in names}
    for name in names:
        gramme.compile(chain, backend=name)(x, y)
    for i in range(rounds * 4):
        for name in names:
            # A code object of its own each time: entries live on it.
            code = chain.__code__.replace(co_name=f"chain{i}")
            compiled = gramme.compile(types.FunctionType(code, chain.__globals__, "chain"), backend=name)
            start = time.perf_counter_ns()
            compiled(x, y)
            samples[name].append(time.perf_counter_ns() - start)
    rows = [{"side": name, "min_ns": min(s), "median_ns": statistics.median(s)} for name, s in samples.items()]
    rows[0]["limit_ns"] = 3e6
    return rows


@case
def mark(rounds):
    """A checkpoint of the recorder's state with 10 and with 100,000 live variables."""
    rows = []
    for live in (10, 1000, 100_000):
        samples = [gramme._core.measure_mark(live, 100_000) for _ in range(rounds)]
        rows.append({"side": f"{live} live variables", "min_ns": min(samples), "median_ns": statistics.median(samples)})
    return rows


@case
def plan_overhead(rounds):
    """What the call plan of relu(x * y + z) on 16 floats adds to the back end's own call, without and with gradients."""
    rows = []
    for name in backends():
        for grad, limit in ((False, 300), (True, 800)):
            pairs = [gramme._core.measure_plan(name, grad, 5_000) for _ in range(rounds)]
            added = [plan - alone for plan, alone in pairs]
            side = f"{name}, {'forward and backward' if grad else 'forward'} ({min(alone for _, alone in pairs):.0f} ns alone)"
            rows.append({"side": side, "min_ns": min(added), "median_ns": statistics.median(added), "limit_ns": limit})
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
    """Forward, loss and backward of the digit classifier on a batch of 64, without the optimiser."""
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
    """One check of all guards of a model, without running it, for 10 and for 1,000 modules; per module in the third row."""
    rows, x = [], gramme.randn(1, 2)
    for n in (10, 1000):
        model = gramme.compile(Tower(n), backend="eager")
        with gramme.no_grad():
            model(x)
            samples = [model.forward.guard_ns(20000 // n, x) for _ in range(rounds)]
        guards = model.forward.entries()[0]["n_guards"]
        rows.append({"side": f"{n} modules ({guards} guards)", "min_ns": min(samples), "median_ns": statistics.median(samples)})
    slope = [(rows[1][key] - rows[0][key]) / 990 for key in ("min_ns", "median_ns")]
    rows.append({"side": "each further module", "min_ns": slope[0], "median_ns": slope[1]})
    return rows


class Block(nn.Module):
    """A transformer's: attention and a perceptron, both on normalised inputs, both added to what came in."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, is_causal=True)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def square_loss(model, x):
    return (model(x) ** 2).mean()


@case
def block_memory(rounds):
    """A training step of a transformer block (batch 8, length 128, width 256): time, and peak bytes in all."""
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
            forms[f"{name}, {option}={value}"] = gramme.compile(square_loss, backend=name, options={option: value})
    peaks = {name: peak(fn) for name, fn in forms.items()}
    rows = interleave({name: lambda fn=fn: step(fn) for name, fn in forms.items()}, rounds, 2)
    for row in rows:
        row["peak_bytes"] = peaks[row["side"]]
        row["side"] += f" ({row['peak_bytes'] / 1e6:.1f} MB, x{row['peak_bytes'] / peaks['plain eager']:.2f})"
        row["limit_ns"] = 1.05 * rows[0]["min_ns"]
    return rows
