# SPDX-License-Identifier: Apache-2.0
"""The version counter of every argument after a call is plain Python's: autograd compares it."""
import pytest

import gramme as G


def writes_twice(x, y):
    x.add_(1)
    x.view(-1).mul_(2)
    return x + y


def writes_a_slice(x, y):
    x[0] = y[0]
    return x.sum()


def reads_only(x, y):
    return x * y


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("fn", [writes_twice, writes_a_slice, reads_only])
def test_arguments_have_the_version_of_the_plain_program(fn, backend):
    if backend not in G.compiler.list_backends():
        pytest.skip("back end not installed")
    seen = []
    for call in (fn, G.compile(fn, backend=backend)):
        for _ in range(2):
            x, y = G.ones(2, 2), G.ones(2, 2)
            call(x, y)
            seen.append((x._version, y._version))
    assert seen[0] == seen[1] == seen[2] == seen[3]
