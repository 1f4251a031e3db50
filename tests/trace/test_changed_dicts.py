# SPDX-License-Identifier: Apache-2.0
"""Large dicts whose values are replaced and whose keys come and go while they are recorded: results
as plain Python's, at a cost that is that of the changes."""

import collections
import os
import random

import pytest

import gramme as G
from stress import FORCED

N = 40  # keys: smaller dicts are copied
OPERATIONS = "sdpioglnumcxfty"


def changes(d, operations):
    """What a program sees of a dict while it changes it."""
    seen, ordered = [], isinstance(d, collections.OrderedDict)
    for what, key, value in operations:
        if what == "s":
            d[key] = value
        elif what == "d" and key in d:
            del d[key]
        elif what == "p":
            seen.append(d.pop(key, None))
        elif what == "i" and d:
            seen.append(d.popitem())
        elif what == "o":
            seen.append(list(d)[:5])
        elif what == "g":
            seen.append((d.get(key), d.setdefault(key, value)))
        elif what == "l":
            seen.append((len(d), key in d))
        elif what == "n":
            d[str(key)] = value
        elif what == "u":
            for other in d:
                d[other] = key
        elif what == "m":
            for other, old in d.items():
                d[other] = old + 1
                if other == key:
                    break
        elif what == "c" and not ordered:
            copy = d.copy()
            copy[key] = copy.pop(key, 1)
            seen.append((copy == d, list(copy)[-3:]))
        elif what == "x":
            try:
                d[[]] = 1
            except TypeError as error:
                seen.append(str(error))
            try:
                for other in d:
                    d[other, key] = 1.0
            except RuntimeError as error:
                seen.append(str(error))
                seen.append(d.popitem())
        elif what == "f" and ordered and d:
            seen.append(d.popitem(last=False))
        elif what == "t" and ordered and key in d:
            d.move_to_end(key, last=value < 0.7)
        elif what == "y":
            seen.append((list(reversed(list(d.items())))[:3], sum(d.values())))
    return seen


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
@pytest.mark.parametrize("seed", range(12))
def test_random_changes(seed, kind, old):
    dice = random.Random(seed)
    operations = [
        (dice.choice(OPERATIONS), dice.randrange(N + 8), dice.random()) for _ in range(60)
    ]

    def program(x, d):
        if d is None:
            d = kind()
            for i in range(N):
                d[i] = float(i)
        return x + len(d), changes(d, operations), d

    def result(f):
        d = kind((i, float(i)) for i in range(N)) if old else None
        x, seen, now = f(G.ones(1), d)
        return x.tolist(), seen, list(now.items()), type(now), now is d

    G.compiler.reset()
    assert result(G.compile(program, backend="eager", fullgraph=not FORCED)) == result(program)


@pytest.mark.skipif(
    bool(os.environ.get("GM_STRESS")), reason="looks at what an undisturbed recording takes"
)
@pytest.mark.parametrize(
    "change",
    ["replace", "replace all in a loop", "pop", "pop the last", "pop the first", "pop and add"],
)
def test_many_changes_take_no_copies(change):
    """A copy for each would be 5000 times 80 KB, or half of it while keys go, and a recording may
    take 128 MB: it would break."""
    n = 5000

    def program(x):
        d = collections.OrderedDict() if change == "pop the first" else {}
        for i in range(n):
            d[i] = i
        if change == "replace all in a loop":
            for key in d:
                d[key] = key + 1
        for i in range(n):
            if change == "replace":
                d[i] = -i
            elif change == "pop":
                d.pop(i)
            elif change == "pop the last":
                d.popitem()
            elif change == "pop the first":
                d.popitem(last=False)
            elif change == "pop and add":
                d[n + i] = d.pop(i)
        return x + len(d), sum(d.values())

    want = program(G.ones(1))
    have = G.compile(program, backend="eager", fullgraph=True)(G.ones(1))
    assert (have[0].tolist(), have[1]) == (want[0].tolist(), want[1])
