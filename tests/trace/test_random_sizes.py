# SPDX-License-Identifier: Apache-2.0
"""Random functions (shape_programs.py), each called with fifty sets of sizes, plain and compiled:
values, gradients, shapes, strides and exceptions are the same, and nothing is compiled without a
reason.

    compilations <= 1 + what became general + what was decided       (each of a forward and, where
        arguments require grad, of its backward)

What became general is read from the profile: each size, stride or int that was seen to change, and
each that is 0 and 1 among others and has a form for these, too.  What was decided is read from the
entries, and each fact counts once, however many entries have it:
  * a guard on sizes that a branch or an operator asked for (`L['k'] <= 4`).  What comes with every
  symbol is none: that it is 2 or more, and
    strides that follow from sizes;
  * a size that varies and that one line fixed, with the fact that did (`L['v'].size(0) == 2: line 3
  needs s5 - 1 == 1`).  No program compares with a
    number above 5, so a larger one was needed for want of a general form: that is one fact,
        whichever numbers there were;
  * that a size which varies was recorded as 0 or 1, which is done once;
  * that a stride is 1 because a size behind it is 0, where it is that size in other calls;
  * what the stages behind the recorder took for granted of sizes beyond that, so that they ran
  again for others.
A size that varies is a number in an entry for no other reason.  Calls that came before are never
recorded again.

Functions that raise for some sizes are compared, and not counted: they leave entries for their
parts.
GM_SHAPE_PROGRAMS: how many functions for each back end; GM_SHAPE_PROGRAMS_FROM: the first seed.
"""

import linecache
import os
import re
import warnings

import pytest
import shape_programs

import gramme as G
from gramme import nn
from gramme._dynamo import config
from gramme._dynamo.utils import counters
from gramme.utils.checkpoint import checkpoint

from stress import FORCED

N = int(os.environ.get("GM_SHAPE_PROGRAMS", "100"))
FIRST = int(os.environ.get("GM_SHAPE_PROGRAMS_FROM", "0"))
CALLS = 50
PARTS = 4


class Given(G.autograd.Function):
    """A gradient that is not that of what is computed, with sizes of its own."""

    @staticmethod
    def forward(ctx, x):
        y = x.sin()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad.reshape(-1).clamp(-1, 1).reshape(x.shape) * x + y * 0.5


def function(seed):
    text, name = shape_programs.source(seed), f"<shapes {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"G": G, "nn": nn, "checkpoint": checkpoint, "Given": Given}
    exec(compile(text, name, "exec"), scope)
    return scope["f"], text


def seen(o):
    """What a caller sees of a result, as text: bits, and how they lie."""
    return (
        f"{o.dtype} {tuple(o.shape)} {o.stride()} {o.requires_grad} {o.tolist()}"
        if isinstance(o, G.Tensor)
        else repr(o)
    )


def outcome(f, sizes, seed, grad):
    n, m, k = sizes
    G.manual_seed(seed)
    x, y, v = G.randn(n, m), G.randn(n, m), G.randn(m)
    if grad:
        x.requires_grad_(), v.requires_grad_()
    try:
        results = f(x, y, v, k)
        loss = [(t * t).sum() for t in results if isinstance(t, G.Tensor) and t.requires_grad]
        if loss:
            sum(loss).backward()
    except Exception as error:  # noqa: BLE001
        return [f"raises {type(error).__name__}"]
    return (
        [seen(o) for o in results]
        + [seen(y), y._version, G.get_rng_state().tolist()]
        + [seen(t.grad) if t.grad is not None else None for t in (x, v)]
    )


# -- The bound


def varying(profile):
    """{"L['x'].size(0)": how often it became more general}; an int is its own first size."""
    found = {}
    for row in profile.splitlines()[1:]:
        sizes, strides, source = re.fullmatch(r"\d+ (\S*) (\S*) (?:#\d+ )?(.*)", row).groups()
        for what, values in (("size", sizes), ("stride", strides)):
            for d, value in enumerate(values.split(",")):
                found[f"{source}.{what}({d})"] = value.count("*")
    return found


def numbers(guards):
    """{"L['x'].size(0)": 5}: the sizes and ints for which an entry holds alone."""
    found = {}
    for line in guards.splitlines():
        line = line.split("  # ")[0]
        if m := re.match(r"(.*): TENSOR \w+\[(.*?)\]", line):
            found |= {
                f"{m[1]}.size({d})": int(n) for d, n in enumerate(m[2].split(", ")) if n.isdigit()
            }
        elif m := re.fullmatch(r"(.*) == (\d+)", line):
            found[f"{m[1]}.size(0)"] = int(m[2])
    return found


def decided(entry, general, text):
    """The facts of an entry that was made when so much was general."""
    facts, fixed = set(), {}
    for line in entry["guards"].splitlines():
        m = re.match(r"SIZES (.*?)(?:  # .*)?$", line)
        if m and not re.fullmatch(r"2 <= \S+", m[1]):
            facts.add(m[1])
    for line in (entry["fixed"] or "").splitlines():
        size, value, why = re.fullmatch(r"(.*) == (\d+): (?:.*:\d+ needs )?(.*)", line).groups()
        size = size if size.endswith(")") else size + ".size(0)"
        fixed[size] = (
            why
            if int(re.search(r"\d+$", why)[0] if re.search(r" \d+$", why) else 0) <= 5
            else "a number"
        )
    for source, sizes in re.findall(r"(?m)^(\S+): TENSOR \w+\[(.*?)\]", entry["guards"]):
        if re.search(r", s\d+$", sizes) and f"{source}: SIZES stride" not in entry["guards"]:
            facts.add((source, "strides of no elements"))
    for size, number in numbers(entry["guards"]).items():
        if size in fixed:
            facts.add((size, fixed[size]))
        elif general.get(size):
            assert number < 2, (
                f"{size} varies, and an entry is for {number} alone, which nothing "
                f"needs:\n{entry['guards']}\n{text}"
            )
            facts.add((size, "0 or 1"))
    return facts


class Bound:
    """What a compiled function was compiled for, noted after each call."""

    def __init__(self, compiled, text):
        self.compiled, self.text = compiled, text
        self.entries, self.facts, self.backend = 0, set(), counters["backend"]["compiles"]

    def note(self):
        status = self.compiled.status()
        self.broke = bool(status["breaks"])
        if status["graphs"] > self.entries and not self.broke and not FORCED:
            self.facts |= decided(self.compiled.entries()[0], varying(status["sizes"]), self.text)
        self.entries = status["graphs"]

    def holds(self, seed, backend):
        forms = [line for e in self.compiled.entries() for line in (e["forms"] or "").splitlines()]
        assert not [
            line for line in forms if line.startswith("the numbers of a call")
        ], f"seed {seed}: {forms}\n{self.text}"
        general = sum(varying(self.compiled.status()["sizes"]).values())
        most = 1 + general + len(self.facts)
        assert self.entries <= most, (
            f"seed {seed}: {self.entries} entries, {general} general, decided "
            f"{self.facts}\n{self.text}"
        )
        more = len({fact for line in forms for fact in line.split(", ") if fact})
        if backend == "eager" or "higher_order" in self.text:
            # it has nothing to compile: what it keeps is for the sizes of a call; or there are many
            # parts, and the plain program has some, too
            return
        runs = counters["backend"]["compiles"] - self.backend
        roles = 2 if seed % 2 == 0 else 1  # those whose arguments require grad have a backward, too
        assert runs <= roles * (most + more), (
            f"seed {seed}: {runs} compilations, {general} general, decided {self.facts}, in stages "
            f"{forms}\n{self.text}"
        )


@pytest.mark.parametrize("backend", ("eager", "tcc"))
@pytest.mark.parametrize("part", range(PARTS))
def test_random_functions_do_the_same_at_every_size(backend, part, monkeypatch):  # SYM-02
    warnings.simplefilter("ignore")
    monkeypatch.setattr(config, "recompile_limit", 1000)
    counted = 0
    for seed in range(FIRST + part, FIRST + N, PARTS):
        G.compiler.reset()
        f, text = function(seed)
        compiled = G.compile(f, backend=backend)
        bound = Bound(compiled, text)
        calls = list(enumerate(shape_programs.sizes(seed, CALLS)))
        for call, sizes in calls:
            want, have = (outcome(g, sizes, call, seed % 2 == 0) for g in (f, compiled))
            assert want == have, f"seed {seed}, call {call}, n, m, k = {sizes}\n{text}"
            bound.note()
        if bound.broke or FORCED:
            continue
        for again in range(
            2
        ):  # the newer entries serve some of them now, and may run the stages for these
            before = counters["backend"]["compiles"]
            for call, sizes in calls:
                outcome(compiled, sizes, call, seed % 2 == 0)
            assert (
                bound.entries == compiled.status()["graphs"]
            ), f"seed {seed}: recorded for a call that came before\n{text}"
        bound.holds(seed, backend)
        assert (
            backend == "eager" or before == counters["backend"]["compiles"]
        ), f"seed {seed}: compiled for a call that came before\n{text}"
        counted += 1
    assert FORCED or counted >= N // PARTS // 3 - 2
