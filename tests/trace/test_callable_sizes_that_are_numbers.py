# SPDX-License-Identifier: Apache-2.0
"""Graphs of symbolic sizes for Python callables, of which a size turned out to be a number after
expressions of it had been recorded."""

import warnings

import pytest

import gramme

from stress import undisturbed

PROGRAMS = {
    "expand": lambda x: (
        x.reshape(x.shape[0] * x.shape[1], 3) * 2,
        x.transpose(0, 1).expand(-1, 4, 3),
    ),
    "a comparison": lambda x: (
        x.reshape(x.shape[0] * x.shape[1], 3) * 2,
        x if x.shape[0] == 4 else None,
    ),
    "a product of all": lambda x: x.reshape(x.shape[0] * x.shape[1] * x.shape[2])
    * (2 if x.shape[0] == 4 and x.shape[2] == 3 else 3),
    "all sizes": lambda x: x.reshape(x.shape[0] * x.shape[1], 3)
    * (2 if x.shape == (4, 2, 3) else 3),
}


@undisturbed
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_callable_runs_such_a_graph(program, grad):
    seen = []
    compiled = gramme.compile(
        PROGRAMS[program],
        backend=lambda graph, example: seen.append(str(graph)) or graph.forward,
        dynamic=True,
    )
    for n in (2, 3, 5):
        x = gramme.randn(4, n, 3, requires_grad=grad)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = compiled(x)
        for a, b in zip(
            got if isinstance(got, tuple) else (got,),
            PROGRAMS[program](x) if isinstance(got, tuple) else (PROGRAMS[program](x),),
        ):
            assert gramme.equal(a, b)
    assert len(seen) == 1 + (program == "all sizes")
    assert "[4, s" in seen[0] or program == "all sizes"
