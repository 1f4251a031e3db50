# SPDX-License-Identifier: Apache-2.0
"""Random functions (shape_programs.py), each called with fifty sets of sizes, plain and compiled: values, gradients, shapes, strides and exceptions
are the same, and there are no more compilations than generalisations.

GM_SHAPE_PROGRAMS: how many functions for each back end; GM_SHAPE_PROGRAMS_FROM: the first seed.
"""

import linecache
import os
import warnings

import pytest
import shape_programs

import gramme as G
from gramme import nn

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
