# SPDX-License-Identifier: Apache-2.0
"""Random functions (shape_programs.py), each called with fifty sets of sizes, plain and compiled: values, gradients, shapes, strides and exceptions
are the same, and there are no more entries than generalisations: those that serve calls in the end, and one for each time
that another size was seen to change.

GM_SHAPE_PROGRAMS: how many functions for each back end; GM_SHAPE_PROGRAMS_FROM: the first seed.
"""

import linecache
import os
import warnings

import pytest
import shape_programs

import gramme as G
from gramme import nn

from stress import FORCED

N = int(os.environ.get("GM_SHAPE_PROGRAMS", "60"))
FIRST = int(os.environ.get("GM_SHAPE_PROGRAMS_FROM", "0"))
CALLS = 50
PARTS = 4


def function(seed):
    text, name = shape_programs.source(seed), f"<shapes {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"G": G, "nn": nn}
    exec(compile(text, name, "exec"), scope)
    return scope["f"], text


def seen(o):
    """What a caller sees of a result, as text: bits, and how they lie."""
    return f"{o.dtype} {tuple(o.shape)} {o.stride()} {o.requires_grad} {o.tolist()}" if isinstance(o, G.Tensor) else repr(o)


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
    return [seen(o) for o in results] + [seen(y), y._version] + [seen(t.grad) if t.grad is not None else None for t in (x, v)]


def in_use(compiled, seed, grad):
    """How many entries serve a call when all come once more, for which no other one is made."""
    before = [e["hits"] for e in compiled.entries()]
    for call, sizes in enumerate(shape_programs.sizes(seed, CALLS)):
        outcome(compiled, sizes, call, grad)
    assert len(compiled.entries()) == len(before), f"seed {seed}: a call that came before is compiled again"
    return sum(now["hits"] > then for now, then in zip(compiled.entries(), before))


def stages(calls):
    """How often something new showed of a size: that it changes, that it can be 0 or 1.  What was compiled until then may be of no use any more."""
    known, changed, small = set(), set(), set()
    for sizes in calls:
        for d, size in enumerate(sizes):
            changed |= {d} if size != calls[0][d] else set()
            small |= {(d, size)} if size < 2 else set()
        known.add((len(changed), len(small)))
    return len(known)


@pytest.mark.parametrize("backend", ("eager", "tcc"))
@pytest.mark.parametrize("part", range(PARTS))
def test_random_functions_do_the_same_at_every_size(backend, part):  # SYM-02
    warnings.simplefilter("ignore")
    for seed in range(FIRST + part, FIRST + N, PARTS):
        G.compiler.reset()
        f, text = function(seed)
        compiled = G.compile(f, backend=backend)
        for call, sizes in enumerate(shape_programs.sizes(seed, CALLS)):
            want, have = (outcome(g, sizes, call, seed % 2 == 0) for g in (f, compiled))
            assert want == have, f"seed {seed}, call {call}, n, m, k = {sizes}\n{text}"
        if compiled.status()["breaks"]:
            continue  # what raises in eager leaves entries for the parts of a function
        made, used = compiled.status()["graphs"], in_use(compiled, seed, seed % 2 == 0)
        most = used + stages(list(shape_programs.sizes(seed, CALLS)))
        assert FORCED or made <= most, f"seed {seed}: {made} entries, {used} in use\n{text}"
