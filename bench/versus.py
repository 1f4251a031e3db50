# SPDX-License-Identifier: Apache-2.0
"""Side by side with other libraries: accuracy first, then time, interleaved, in one process.

A contest is one computation on given inputs, written for gramme and for each peer that can say it.
Every side's result is compared with a reference in double precision before anything is timed; a
side that is too far off gets no time.  Then all sides take turns, round after round, each for long
enough to be measured.  Rows that lose are printed like the others, and what was not run says why.
"""

import gc
import importlib
import math
import os
import statistics
import time
import types
import typing

import numpy as np

import gramme
import gramme.nn.functional as GF

SAMPLE_S = 0.004  # of one turn
CLOCK = time.perf_counter
PEERS = ("numpy", "numexpr", "numba", "torch", "torch.compile", "jax")
GPU_PEERS = ("torch", "torch.compile", "jax", "cupy", "triton")
EPS = 2.0**-23


class NotRun(Exception):
    """Why a side cannot take part."""


class Contest:
    """case: its name; inputs: numpy arrays; sides: {"gramme": make, peer: make}, where make(inputs)
    returns (call, to_numpy) or a Side.
    reference: numpy arrays in float64; tolerance: in epsilons of the largest element, float32's
    unless eps says otherwise.
    """

    def __init__(self, case, inputs, sides, reference, tolerance=64.0, missing=None, eps=EPS):
        self.case, self.inputs, self.sides = case, inputs, sides
        self.reference, self.tolerance, self.missing, self.eps = (
            reference,
            tolerance,
            missing or {},
            eps,
        )


class Side(typing.NamedTuple):
    """call: the computation; to_numpy: of its result, None where there is nothing to check; finish:
    waits for calls that only have begun;
    many: does it so many times with no Python between."""

    call: typing.Callable
    to_numpy: typing.Callable | None
    finish: typing.Callable = lambda: None
    many: typing.Callable | None = None


# -- Libraries


def library(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotRun(f"not installed ({error})") from None


def version(peer):
    try:
        return getattr(library(peer.split(".")[0]), "__version__", "?")
    except NotRun:
        return None


def use_threads(n):
    """For all sides; before the libraries are imported."""
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ):
        os.environ[name] = str(n)
    flags = os.environ.get("XLA_FLAGS", "")
    if n == 1 and "xla_cpu_multi_thread_eigen" not in flags:
        os.environ[
            "XLA_FLAGS"
        ] = f"{flags} --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1".strip()


def flat(result, one):
    return [one(r) for r in result] if isinstance(result, (tuple, list)) else [one(result)]


def own_code(fn):
    """The function with a code object of its own: compiled entries live on it, and are limited in
    number."""
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def with_gramme(fn, grads=False, backend="auto"):
    """make() for a function of (T, F, *tensors), compiled: the code that is there in the end."""

    def make(inputs):
        tensors = [gramme.from_numpy(a.copy()) for a in inputs]
        run = gramme.compile(own_code(lambda *args: fn(gramme, GF, *args)), backend=backend)
        call = step(run, tensors) if grads else lambda: run(*tensors)
        for _ in range(3):
            call()
        gramme.compiler.wait()
        return call, lambda r: flat(r, lambda t: t.detach().numpy())

    return make


def with_torch(fn, grads=False, compiled=False):
    def make(inputs):
        torch = library("torch")
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        tensors = [torch.from_numpy(a.copy()) for a in inputs]
        run = own_code(
            lambda *args: fn(torch, torch.nn.functional, *args)
        )  # its entries are limited in number, too
        if compiled:
            if not hasattr(torch, "compile"):
                raise NotRun("this torch has no compile")
            run = torch.compile(run)
        call = step(run, tensors) if grads else lambda: run(*tensors)
        return call, lambda r: flat(r, lambda t: t.detach().numpy())

    return make


def step(run, tensors):
    """Forward and backward: the loss and the gradients of all floating inputs but the first."""
    weights = [t for t in tensors[1:] if t.is_floating_point()]
    for w in weights:
        w.requires_grad_(True)

    def call():
        for w in weights:
            w.grad = None
        loss = run(*tensors)
        loss.backward()
        return [loss] + [w.grad for w in weights]

    return call


def torch_sides(fn, grads=False):
    return {"torch": with_torch(fn, grads), "torch.compile": with_torch(fn, grads, compiled=True)}


def with_numpy(fn):
    return lambda inputs: ((lambda: fn(*inputs)), lambda r: flat(r, np.asarray))


def with_jax(fn):
    """fn (jax, jnp, *arrays)."""

    def make(inputs):
        jax = library("jax")
        arrays = [jax.numpy.asarray(a) for a in inputs]
        run = jax.jit(lambda *args: fn(jax, jax.numpy, *args))
        return (lambda: jax.block_until_ready(run(*arrays))), lambda r: flat(r, np.asarray)

    return make


def double(fn, inputs, grads=False):
    """The reference of a function of (T, F, *tensors): plain eager in float64."""
    tensors = [
        gramme.from_numpy(a.astype(np.float64) if a.dtype == np.float32 else a) for a in inputs
    ]
    call = (
        step(lambda *args: fn(gramme, GF, *args), tensors)
        if grads
        else lambda: fn(gramme, GF, *tensors)
    )
    return flat(call(), lambda t: t.detach().numpy())


# -- Accuracy


def error_of(got, reference, eps=EPS):
    """In epsilons, of the largest element of each array; inf if something is not there or not a
    number."""
    worst = 0.0
    if len(got) != len(reference):
        return math.inf
    for a, r in zip(got, reference):
        if a.shape != r.shape:
            return math.inf
        if a.size:
            scale = np.max(np.abs(r)) or 1.0
            worst = max(worst, float(np.max(np.abs(a.astype(np.float64) - r)) / (eps * scale)))
    return worst if worst == worst else math.inf


# -- Time


def use_processor_time():
    """What a machine with other work leaves to measure: the time of the processor, all threads of
    this process together."""
    global CLOCK
    CLOCK = time.process_time


def sample(side, number):
    clock, call, many = CLOCK, side.call, side.many
    start = clock()
    if many:
        many(number)
    else:
        for _ in range(number):
            call()
    side.finish()
    return (clock() - start) / number


def compete(contest, rounds):
    """One row for each peer."""
    sides, errors, refused = {}, {}, dict(contest.missing)
    for name, make in contest.sides.items():
        try:
            side = Side(*make(contest.inputs))
            result = side.call()
            side.finish()
            if side.to_numpy:
                errors[name] = error_of(side.to_numpy(result), contest.reference, contest.eps)
            if errors.get(name, 0.0) > contest.tolerance:
                refused[
                    name
                ] = f"wrong: {errors[name]:.0f} epsilons off, {contest.tolerance:.0f} are allowed"
            else:
                sides[name] = side
        except NotRun as why:
            refused[name] = str(why)
        except Exception as why:  # a peer's own affair: its row says what it said
            text = str(why).strip()
            refused[name] = f"{type(why).__name__}: {text.splitlines()[0][:200] if text else ''}"
    numbers = {
        name: max(1, min(20_000, int(SAMPLE_S / max(sample(side, 1), sample(side, 1) / 2, 1e-9))))
        for name, side in sides.items()
    }
    for name, side in sides.items():
        sample(side, max(1, numbers[name] // 4))
    taken = {name: [] for name in sides}
    gc.disable()
    try:
        for _ in range(rounds):
            for name, side in sides.items():
                taken[name].append(sample(side, numbers[name]))
    finally:
        gc.enable()
    return rows_of(contest.case, taken, refused, errors)


def rows_of(case, taken, refused, errors=None, ours="gramme"):
    rows, errors = [], errors or {}
    if ours in refused:
        return [{"case": case, "peer": ours, "not_run": refused[ours]}]
    for peer in [p for p in list(taken) + list(refused) if p != ours]:
        if peer in refused:
            rows.append({"case": case, "peer": peer, "not_run": refused[peer]})
            continue
        mine, theirs = taken[ours], taken[peer]
        rows.append(
            {
                "case": case,
                "peer": peer,
                "ours": statistics.median(mine),
                "theirs": statistics.median(theirs),
                "ratio": statistics.median(theirs) / statistics.median(mine),
                "ours_min": min(mine),
                "theirs_min": min(theirs),
                "ratio_min": min(theirs) / min(mine),
                "ours_error": errors.get(ours),
                "theirs_error": errors.get(peer),
            }
        )
    return rows


# -- Shown


def text_of(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def print_rows(rows):
    for row in rows:
        if "not_run" in row:
            print(f"  {row['case']:38} {row['peer']:14} not run: {row['not_run']}")
            continue
        verdict = "" if row["ratio"] >= 1 else "  LOSES"
        if row.get("bytes"):
            print(
                f"  {row['case']:38} {row['peer']:14} ours {row['ours'] / 1e6:.1f} MB  theirs "
                f"{row['theirs'] / 1e6:.1f} MB  x{row['ratio']:.2f}{verdict}"
            )
            continue
        print(
            f"  {row['case']:38} {row['peer']:14} ours {text_of(row['ours']):>10} (min "
            f"{text_of(row['ours_min'])})  theirs "
            f"{text_of(row['theirs']):>10} (min {text_of(row['theirs_min'])})  x{row['ratio']:.2f} "
            f"(of minima x{row['ratio_min']:.2f}){verdict}"
        )


def plot(rows, path):
    """An SVG of bars, one for each row: how many times the peer's time is ours, on a logarithmic
    scale."""
    from xml.sax.saxutils import escape

    rows = [row for row in rows if "ratio" in row]
    left, width, height = 430, 480, 16
    low = min([math.log10(row["ratio"]) for row in rows] + [-0.3])
    high = max([math.log10(row["ratio"]) for row in rows] + [0.3])
    x = lambda log: left + (log - low) / (high - low) * width
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" '
        f'height="{(len(rows) + 3) * height}" font-family="sans-serif" '
        'font-size="11"><rect width="100%" height="100%" fill="white"/>',
        (
            f'<text x="{left}" y="12">the peer\'s time / gramme\'s; right of the line gramme is '
            "faster</text>"
        ),
    ]
    for i, row in enumerate(rows):
        y, log = (i + 1.5) * height, math.log10(row["ratio"])
        a, b = sorted((x(0), x(log)))
        color = "#2a7" if row["ratio"] >= 1 else "#c43"
        out.append(
            f'<text x="{left - 6}" y="{y + 11}" text-anchor="end">{escape(row["case"])}, '
            f'{escape(row["peer"])}</text>'
            f'<rect x="{a:.1f}" y="{y + 2}" width="{max(b - a, 1):.1f}" height="{height - 4}" '
            f'fill="{color}"/>'
            f'<text x="{b + 4:.1f}" y="{y + 11}">{row["ratio"]:.2f}</text>'
        )
    out.append(
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{height}" y2="{(len(rows) + 2) * height}" '
        'stroke="black"/></svg>\n'
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))
