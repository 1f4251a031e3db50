# SPDX-License-Identifier: Apache-2.0
"""Random functions over tensors that share memory, plain and compiled: everything that a caller sees is the same.

Values to the bit, strides, whose memory each result and input is, identity, version counters, what hooks saw, the random numbers
that come next; gradients to the bit too, but where a tensor with a history was written to, or a view of an input is given out:
eager makes histories of views when they are asked for, and the terms of a gradient may be added in another order.  A graph break
is fine, a different result is not.  Two kinds of programs: about memory (programs.py), and with all else (wide.py).
GM_RANDOM_MEMORY: how many of each; GM_RANDOM_MEMORY_FROM: the first seed.
"""

import os
import warnings

import afterwards
import pytest
from programs import Program
from same import bits, describe, flatten, gradients, nearly
from wide import Wide

import gramme as G

N = int(os.environ.get("GM_RANDOM_MEMORY", "3000"))
FIRST = int(os.environ.get("GM_RANDOM_MEMORY_FROM", "0"))
PARTS = 10


def outcome(program, f, k):
    """What one call does, and whether gradients could be asked for at all."""
    G.manual_seed(k)
    program.seen.clear()
    inputs, leaves = program.make(k)
    try:
        results = f(*inputs)
    except Exception as error:  # noqa: BLE001
        return [f"raises {type(error).__name__}"], False
    lines = describe(inputs + flatten(results))
    if program.after:
        try:
            lines += getattr(afterwards, program.after)(results, inputs, leaves) or []
        except RuntimeError as error:
            return lines, str(error)
    kept = [t for t in inputs + flatten(results) if isinstance(t, G.Tensor) and not t.is_leaf]
    lines += ["random " + bits(G.rand(1))] + [f"gradient {g} seen" for g in program.seen]
    return lines + gradients(leaves) + gradients(kept), None


def difference(program, backend, counts=None):
    compiled = G.compile(program.f, backend=backend)
    for k in range(len(program.setups) * 2 - 1):
        want, refused = outcome(program, program.f, k)
        have, error = outcome(program, compiled, k)
        if refused:  # a saved tensor was changed in place: the compiled function may have kept a copy
            want, have = want[:1], have[:1]
            if want[0].startswith("raises"):
                return None if have == want else f"call {k}: plain {want}, compiled {have}"
            continue
        same = nearly if program.moves_histories else list.__eq__
        if not same(want, have) or error:
            return "\n".join([f"call {k} on {backend} differs", "plain:"] + want + ["compiled:"] + have + [str(error or "")])
    if counts is not None:
        status = compiled.status()
        counts["whole"] += not status["breaks"]
        counts["all"] += 1
    return None


@pytest.mark.parametrize("kind", [Program, Wide])
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part, kind):
    counts = {"whole": 0, "all": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST + part, FIRST + N, PARTS):
            program = kind(seed)
            wrong = difference(program, "eager" if seed % 2 else "tcc", counts)
            assert not wrong, f"{program}\n{wrong}"
    assert counts["whole"] * 2 > counts["all"]  # most are one graph: the comparison says something
