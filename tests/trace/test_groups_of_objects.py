# SPDX-License-Identifier: Apache-2.0
"""Objects that were all different: a call with the same ones, with others, and with one that comes
twice."""

import random

import gramme
from stress import counted


class O:
    pass


def test_a_group_is_compared_again_as_soon_as_one_object_is_another():
    def f(x, *group):
        return x * len(set(group))

    c, x = gramme.compile(f, backend="eager"), gramme.ones(1)
    chance, objects = random.Random(3), [O() for _ in range(12)]
    for i in range(60):
        group = chance.sample(objects, 8)
        if i % 3 == 1:
            group[1] = group[0]
        for _ in range(2):  # the second call asks whether all is as before
            assert c(x, *group).item() == f(x, *group).item() == len(set(group))
    assert len(c.entries()) == counted(2)


def test_two_entries_keep_groups_of_their_own():
    def f(x, a, b):
        return x * len({*a, *b})

    c, x = gramme.compile(f, backend="eager"), gramme.ones(1)
    p, q, r = O(), O(), O()
    for _ in range(3):
        assert c(x, (p, q), (r,)).item() == 3
        assert c(x, (p, q), (p,)).item() == 2
        assert c(x, (q, p), (r,)).item() == 3
        assert c(x, (p, p), (p,)).item() == 1
