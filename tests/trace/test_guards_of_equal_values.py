# SPDX-License-Identifier: Apache-2.0
"""Values that Python calls equal and a program can tell apart: a guard compares what can be
seen."""

import math

import pytest

import gramme as G

NAN = math.nan
PROGRAMS = [
    (lambda x, r: (x, r.stop), [range(0, 3, 2), range(0, 4, 2), range(0, 3, 2)]),
    (lambda x, r: (x, r.step), [range(1, 1, 2), range(5, 5, 7)]),
    (lambda x, d: (x, list(d)), [{range(0, 3, 2): 1}, {range(0, 4, 2): 1}]),
    (lambda x, d: (x, [math.copysign(1, k) for k in d]), [{0.0: 1}, {-0.0: 1}, {0.0: 1}]),
    (lambda x, d: (x, [str(k) for k in d]), [{0j: 1}, {-0j: 1}]),
    (lambda x, d: (x, [type(k) for k in d]), [{1: 1}, {True: 1}, {1.0: 1}]),
    (lambda x, d: (x, [type(k) for k, in d]), [{(1,): 1}, {(True,): 1}, {(1.0,): 1}]),
    (lambda x, s: (x, [str(k) for k in s]), [{0.0}, {-0.0}]),
    (lambda x, d: (x, NAN in d), [{NAN: 1}, {float("nan"): 1}, {NAN: 1}]),
    (lambda x, d: (x, [NAN].count(d)), [NAN, float("nan"), NAN]),
    (lambda x, d: (x, d is NAN), [NAN, float("nan"), NAN]),
    (lambda x, d: (x, d is NAN), [NAN, 2.0, 1.0, float("nan"), NAN]),
    (lambda x, d: (x, d in [NAN, 1.0]), [2.0, float("nan"), 1.0, NAN]),
    (lambda x, d: (x, d in (1.0, 2.0) or d in {NAN}), [2.0, 1.0, float("nan"), NAN]),
    (lambda x, d: (x, (d, 1) == (NAN, 1)), [NAN, float("nan"), 1.0, NAN]),
    (lambda x, d: (x, {(1, d): 1} == {(1, NAN): 1}), [NAN, float("nan"), 1.0, NAN]),
]


def shown(result):
    return repr(result[1])


@pytest.mark.parametrize("f, arguments", PROGRAMS)
def test_equal_values_that_differ(f, arguments):
    c, x = G.compile(f, backend="eager"), G.ones(1)
    for argument in arguments + arguments[::-1]:
        assert shown(c(x, argument)) == shown(f(x, argument)), argument
