# SPDX-License-Identifier: Apache-2.0
"""A variable that the code does not read again keeps its tensor behind a graph break as long as
plain Python does, where a weak reference can tell.

A table of bodies, each with few variables and with more than a break keeps, with tensors that have
a history and without one.
"""

import weakref

import pytest

import gramme as g
from stress import undisturbed


def watch(t, log, name):
    log.append(weakref.ref(t, lambda ref: log.append(name)))


def watch_first(items, log, name):
    watch(items[0], log, name)


def finalize(t, log, name):
    weakref.finalize(t, log.append, name)


class Box:
    pass


BODIES = {
    "watched here": (
        "t = x * 2; log.append(weakref.ref(t, lambda ref: log.append('t'))); "
        "g._dynamo.graph_break(); log.append(1); g._dynamo.graph_break(); t = None; log.append(2); "
        "return x + 1"
    ),
    "never read again": (
        "t = x * 2; log.append(weakref.ref(t)); g._dynamo.graph_break(); log.append(log[0]() is "
        "None); y = x + 1; g._dynamo.graph_break(); log[0] = log[0]() is None; return y"
    ),
    "watched by a helper": (
        "t = x * 2; watch(t, log, 't'); log.append(1); y = x + 1; g._dynamo.graph_break(); "
        "log.append(2); t = None; log.append(3); return y"
    ),
    "a finalizer": (
        "t = (x * 2).exp(); finalize(t, log, 't'); y = t + 1; g._dynamo.graph_break(); "
        "log.append(2); del t; log.append(3); return y"
    ),
    "a weak dictionary": (
        "t = x * 2; d = weakref.WeakValueDictionary(); d['k'] = t; y = x + 1; "
        "g._dynamo.graph_break(); log.append('k' in d); t = y; log.append('k' in d); return y"
    ),
    "a loop": (
        "y = x\nfor k in range(4):\n    z = y * 2\n    watch(z, log, k)\n    y = z + 1\n    "
        "log.append('round')\nreturn y"
    ),
    "an item": (
        "t = x * 2; items = [t]; watch_first(items, log, 't'); items = None; log.append(1); "
        "g._dynamo.graph_break(); log.append(2); t = None; return x + 1"
    ),
    "two": (
        "t = x * 2; u = t.exp(); watch(u, log, 'u'); watch(t, log, 't'); y = u * t; "
        "g._dynamo.graph_break(); log.append(1); u = 0; g._dynamo.graph_break(); log.append(2); t "
        "= 0; log.append(3); return y"
    ),
    "the caller's": (
        "def inner(v):\n    watch(v, log, 'v')\n    g._dynamo.graph_break()\n    return v.sin()\nt "
        "= x * 2\ny = inner(t)\nlog.append(1)\nt = None\nlog.append(2)\nreturn y"
    ),
    ("the caller's, watched later"): (
        "def inner(v):\n    log.append(0)\n    g._dynamo.graph_break()\n    watch(v, log, 'v')\n   "
        " return v.sin()\nt = x * 2\ny = inner(t)\nlog.append(1)\nt = None\nlog.append(2)\nreturn y"
    ),
    "an attribute": (
        "o = Box(); o.t = x * 2; watch(o.t, log, 't'); y = o.t + 1; g._dynamo.graph_break(); "
        "log.append(1); o.t = None; log.append(2); return y"
    ),
    "try": (
        "t = x * 2\nwatch(t, log, 't')\ntry:\n    y = x + 1\n    g._dynamo.graph_break()\n    "
        "log.append(1)\nfinally:\n    log.append(2)\nt = None\nlog.append(3)\nreturn y"
    ),
    "views": (
        "t = x * 2; v = t[0:1]; watch(t, log, 't'); watch(v, log, 'v'); g._dynamo.graph_break(); y "
        "= t + 1; log.append(1); t = None; log.append(2); v = None; log.append(3); return y"
    ),
    "objects": (
        "b = Box(); finalize(b, log, 'b'); t = x * 2; g._dynamo.graph_break(); log.append(1); b = "
        "None; log.append(2); c = Box(); watch(c, log, 'c'); g._dynamo.graph_break(); "
        "log.append(3); del c; log.append(4); return t"
    ),
}
FEW = {
    "a tuple": (
        "t = x * 2; p = (t, 1); watch(p[0], log, 't'); t = None; log.append(1); "
        "g._dynamo.graph_break(); log.append(2); p = None; log.append(3); return x + 1"
    )
}


def function_of(body, n_variables):
    lines = [f"v{k} = {k}" for k in range(n_variables)] + body.split("\n")
    names = {
        "g": g,
        "weakref": weakref,
        "watch": watch,
        "watch_first": watch_first,
        "finalize": finalize,
        "Box": Box,
    }
    exec("def f(x, log):\n" + "".join(f"    {line}\n" for line in lines), names)
    return names["f"]


def outcome(f, requires_grad):
    log, x = [], g.tensor([1.0, 2.0], requires_grad=requires_grad)
    y = f(x, log)
    log.append("end")
    if requires_grad:
        y.sum().backward()
    return (
        y.tolist(),
        [v() is None if isinstance(v, weakref.ref) else v for v in log],
        x.grad.tolist() if requires_grad else None,
    )


@undisturbed
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "n_variables, name",
    [(0, name) for name in {**BODIES, **FEW}] + [(260, name) for name in BODIES],
)
def test_a_tensor_dies_behind_a_break_where_its_last_name_goes(n_variables, name):
    f = function_of({**BODIES, **FEW}[name], n_variables)
    g.compiler.reset()
    compiled = g.compile(f, backend="eager")
    for requires_grad in (False, True):
        for _ in range(2):
            assert outcome(compiled, requires_grad) == outcome(f, requires_grad)
