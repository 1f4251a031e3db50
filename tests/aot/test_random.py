# SPDX-License-Identifier: Apache-2.0
"""Random functions over tensors that share memory, plain and compiled: everything that a caller
sees is the same.

Values and gradients to the bit, strides, whose memory each result and input is, identity, version
counters, what hooks saw, the random numbers that come next.  A graph break is fine, a different
result is not, but for EXCEPTIONS.  Kinds of programs: about memory (programs.py), with all else
(wide.py), and a third of as many with what these leave out (varied.py), with diagonals and windows
(programs.py), with what takes one element of each row (wide.py), cut in two functions, and in
pieces of which some stay plain.  GM_RANDOM_MEMORY: how many of each; GM_RANDOM_MEMORY_FROM: the
first seed.
"""

import os
import warnings

import afterwards
import pytest
from programs import Diagonals, Program, Recast
from same import bits, describe, flatten, gradients
from stress import counted
from varied import Varied
from wide import Picks, Wide

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
        with program.around():
            results = f(*inputs)
    except Exception as error:  # noqa: BLE001
        return [f"raises {type(error).__name__}"], False
    lines = describe(inputs + flatten(results))
    if program.after:
        try:
            after = program.after if callable(program.after) else getattr(afterwards, program.after)
            lines += after(results, inputs, leaves) or []
        except RuntimeError as error:
            return lines, str(error)
    kept = [t for t in inputs + flatten(results) if isinstance(t, G.Tensor) and not t.is_leaf]
    lines += ["random " + bits(G.rand(1))] + [f"gradient {g} seen" for g in program.seen]
    return lines + gradients(leaves) + gradients(kept), None


def error_of_what_nobody_wants(program, want, have):
    """An index out of range in a statement whose result is not used: what is dead is not computed,
    so it does not fail, but what follows may."""
    return want == ["raises IndexError"] and have != want


EXCEPTIONS = [error_of_what_nobody_wants]


def one_after_another(functions):
    def run(*inputs):
        results = []
        for f in functions:
            results = f(*inputs, *results)
        return results

    return run


def functions_of(program, cut):
    """And whether each is left plain."""
    halves = program.halves() if cut == "in two" else None
    return (program.pieces() if cut == "in pieces" else halves and (halves, [False] * 2)) or (
        [program.f],
        [False],
    )


def difference(program, backend, counts=None, cut=None):
    functions, plain = functions_of(program, cut)
    dynamic = True if program.seed % 4 in (1, 2) else None  # half of them for all sizes
    compiled = [
        f if is_plain else G.compile(f, backend=backend, dynamic=dynamic)
        for f, is_plain in zip(functions, plain)
    ]
    for k in range(len(program.setups) * 2 - 1):
        want, refused = outcome(program, one_after_another(functions), k)
        have, error = outcome(program, one_after_another(compiled), k)
        if (
            refused
        ):  # a saved tensor was changed in place: the compiled function may have kept a copy
            want, have = want[:1], have[:1]
            if want[0].startswith("raises"):
                return None if have == want else f"call {k}: plain {want}, compiled {have}"
            continue
        if any(is_fine(program, want, have) for is_fine in EXCEPTIONS):
            continue
        if want != have or error:
            return "\n".join(
                [f"call {k} on {backend} differs", "plain:"]
                + want
                + ["compiled:"]
                + have
                + [str(error or "")]
            )
    if counts is not None:
        status = compiled[0].status()
        counts["whole"] += not status["breaks"]
        counts["all"] += 1
    return None


@pytest.mark.parametrize("kind", [Program, Wide, Picks, Diagonals, Recast, Varied])
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part, kind):
    counts = {"whole": 0, "all": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST + part, FIRST + (N if kind in (Program, Wide) else N // 3), PARTS):
            program = kind(seed)
            wrong = difference(program, "eager" if seed % 2 else "tcc", counts)
            assert not wrong, f"{program}\n{wrong}"
    assert (
        counted(counts["whole"] * 2) >= counts["all"]
    )  # most are one graph: the comparison says something


@pytest.mark.parametrize("kind", [Program, Wide, Varied])
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_cut_in_two_functions(part, kind):
    """What the first one did to the memory that they share, the second one meets as it would in
    plain Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST + part, FIRST + N // 3, PARTS):
            program = kind(seed)
            wrong = difference(program, "eager" if seed % 2 else "tcc", cut="in two")
            assert not wrong, f"{program}\n{program.halves()}\n{wrong}"


@pytest.mark.parametrize("kind", [Program, Wide, Varied])
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_in_pieces_some_of_them_plain(part, kind):
    """What plain Python reads and writes between compiled functions comes between in gradients and
    hooks, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST + part, FIRST + N // 3, PARTS):
            program = kind(seed)
            wrong = difference(program, "eager" if seed % 2 else "tcc", cut="in pieces")
            assert not wrong, f"{program}\n{program.pieces()}\n{wrong}"


@pytest.mark.parametrize("kind", [Program, Wide])
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_walked_back_from_several_times(part, kind):
    """Each result alone, some again, with hooks; until plain Python refuses a second backward, if
    it does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST + part, FIRST + N // 3, PARTS):
            program = kind(seed)
            program.after = afterwards.several(seed)
            wrong = difference(program, "eager" if seed % 2 else "tcc", cut="in pieces")
            assert not wrong, f"{program}\n{program.pieces()}\n{wrong}"
