# SPDX-License-Identifier: Apache-2.0
"""Objects with finalizers that containers, attributes and iterators let go of: the finalizers run
where they run in plain Python."""

import collections
import types
import warnings

import pytest

import gramme as G

log = []


class Mortal:
    def __init__(self, n):
        self.n = n

    def __del__(self):
        if log is not None:  # at the end of the process
            log.append(self.n)


class Thing:
    pass


def fresh():
    global L, D, Q, o, OD, DD, space
    L, D = [Mortal(1), Mortal(2)], {"a": Mortal(3), "b": Mortal(4)}
    Q, o = collections.deque([Mortal(5), Mortal(6)], 2), Thing()
    o.p, o.q = Mortal(7), Mortal(8)
    OD, DD = collections.OrderedDict(a=Mortal(9), b=Mortal(10)), collections.defaultdict(
        int, a=Mortal(11)
    )
    space = types.SimpleNamespace(z=Mortal(12))
    log.clear()


def mark():
    log.append("mark")


BODIES = [
    "D.clear(); mark()",
    "D.pop('a'); mark()",
    "v = D.pop('a'); mark(); v = None; mark()",
    "v = D.popitem(); mark(); v = None; mark()",
    "D['n'] = D.pop('a'); mark(); del D['n']; mark()",
    "D['a'], D['b'] = D['b'], D['a']; mark()",
    "D.update(a=1); mark()",
    "v = OD.pop('a'); mark(); v = None; mark()",
    "v = OD.popitem(last=False); mark(); v = None; mark()",
    "OD.clear(); mark()",
    "v = DD.pop('a'); mark(); v = None; mark()",
    "o.__dict__.clear(); mark()",
    "o.__dict__['p'] = 1; mark()",
    "v = o.__dict__.pop('p'); mark(); v = None; mark()",
    "o.__dict__['r'] = o.p; del o.p; mark(); del o.r; mark()",
    "del o.__dict__['p']; mark(); o.p = 1",
    "vars(o).clear(); mark(); o.n = 1",
    "o.r = o.p; del o.p; mark(); del o.r; mark()",
    "space.z = 1; mark()",
    "v = L.pop(); mark(); v = None; mark()",
    "L.append(D['a']); D.clear(); mark(); L.clear(); mark()",
    "v = Q.pop(); mark(); v = None; mark()",
    "v = Q.popleft(); mark(); v = None; mark()",
    "Q.append(1); mark(); Q.clear(); mark()",
    "a = Mortal(20); a.__dict__['q'] = Mortal(21); mark(); a.__dict__.clear(); mark(); a.n = 22",
    (
        "it = iter([Mortal(20), Mortal(21)])\n    for d in it: y = y + d.n; mark()\n    d = None; "
        "mark(); it = None; mark()"
    ),
    (
        "it = reversed((Mortal(20), Mortal(21)))\n    for d in it: y = y + d.n; mark()\n    d = "
        "None; mark(); it = None; mark()"
    ),
    (
        "it = iter({'a': Mortal(20), 'b': Mortal(21)}.values())\n    for d in it: y = y + d.n; "
        "mark()\n    d = None; mark(); it = None; mark()"
    ),
]


@pytest.mark.parametrize("body", BODIES)
def test_finalizers_run_where_plain_python_runs_them(body):
    made = {}
    exec(f"def f(x):\n    y = x + 1\n    {body}\n    y = y * 2; mark(); return y", globals(), made)
    f = made["f"]
    fresh()
    want = f(G.ones(1)).tolist(), list(log)
    compiled = G.compile(f, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            fresh()
            assert (compiled(G.ones(1)).tolist(), list(log)) == want
