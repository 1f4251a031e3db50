# SPDX-License-Identifier: Apache-2.0
"""Bodies that change a container, an attribute or a global outside of themselves and change it
back: what counts is what is there in the end."""

import collections

import pytest

import gramme as G
from gramme.utils.checkpoint import checkpoint


class Thing:
    pass


class Slots:
    __slots__ = ("a", "b")


def fresh():
    global L, D, S, Q, O, OD, NESTED, BYTES, BOUND, SLOTS, FLAG, FLOATS
    L, D, S, Q = [5], {"k": 1}, {1}, collections.deque([1])
    OD, NESTED, BYTES = collections.OrderedDict(a=1, b=2), [[1], [2]], bytearray(b"ab")
    BOUND, SLOTS, FLAG = collections.deque([1, 2], maxlen=2), Slots(), [False]
    SLOTS.a = 1
    O = Thing()
    O.l, O.d, O.n, O.f, O.zero = [1], {"k": 2}, 3, 2.5, 0.0
    FLOATS = [2.5, 0.0]
    globals().pop("NEW", None)


def state():
    slots = [getattr(SLOTS, name, None) for name in "ab"]
    kept = (L, D, S, Q, O.__dict__, OD, NESTED, BYTES, BOUND, slots, FLAG, FLOATS)
    return repr((kept, "NEW" in globals()))


# each: the change, what is read meanwhile, the change back
PUT_BACK = [
    "L.append(1); y = x + len(L); L.pop()",
    "L.insert(0, 1); y = x + L[0]; del L[0]",
    "L[0] = 7; y = x + L[0]; L[0] = 5",
    "L.extend([1, 2]); y = x + len(L); del L[1:]",
    "L.append(9); L.reverse(); y = x + L[0]; L.reverse(); L.pop()",
    "D['a'] = 1; y = x + D['a']; del D['a']",
    "D['a'] = 1; y = x + D.pop('a')",
    "D['k'] = 5; y = x + D['k']; D['k'] = 1",
    "old = D['k']; D['k'] = 5; y = x + D['k']; D['k'] = old",
    "old = D.pop('k'); y = x + len(D); D['k'] = old",
    "D.update(z=3); y = x + D['z']; D.popitem()",
    "D.setdefault('z', 4); y = x + D['z']; del D['z']",
    "O.l.append(2); y = x + len(O.l); O.l.pop()",
    "O.d['q'] = 2; y = x + len(O.d); del O.d['q']",
    "OD['q'] = 1; y = x + len(OD); del OD['q']",
    "OD.move_to_end('a'); y = x + list(OD.values())[0]; OD.move_to_end('b')",
    "NESTED[0].append(1); y = x + len(NESTED[0]); NESTED[0].pop()",
    "a, b = NESTED; NESTED[:] = [b, a]; y = x + NESTED[0][0]; NESTED[:] = [a, b]",
    "BYTES.append(1); y = x + len(BYTES); BYTES.pop()",
    "Q.append(2); y = x + len(Q); Q.pop()",
    "Q.appendleft(2); y = x + Q[0]; Q.popleft()",
    "Q.extend([2, 3]); Q.rotate(1); y = x + Q[0]; Q.rotate(-1); Q.pop(); Q.pop()",
    "Q[0] = 7; y = x + Q[0]; Q[0] = 1",
    "BOUND.append(9); y = x + BOUND[1]; BOUND.appendleft(1)",
    "O.t = 5; y = x + O.t; del O.t",
    "setattr(O, 't', 5); y = x + vars(O)['t']; delattr(O, 't')",
    "old = O.n; O.n = 9; y = x + O.n; O.n = old",
    "old, O.l = O.l, [1, 2]; y = x + len(O.l); O.l = old",
    "SLOTS.b = 5; y = x + SLOTS.b; del SLOTS.b",
    "old = SLOTS.a; del SLOTS.a; y = x + hasattr(SLOTS, 'a'); SLOTS.a = old",
    "old = SLOTS.a; SLOTS.a = 7; y = x + SLOTS.a; SLOTS.a = old",
    "global FLAG; old = FLAG; FLAG = [True]; y = x + FLAG[0]; FLAG = old",
    "global NEW; NEW = 3; y = x + NEW; del NEW",
    "S.add(1); S.discard(7); y = x + len(S)",
    "S.clear(); y = x + len(S); S.add(1)",
    "S.discard(1); y = x + len(S); S.add(1)",
    "O.f = 1.5; y = x + O.f; O.f = 2.5",
    "FLOATS[0] = 1.5; y = x + FLOATS[0]; FLOATS[0] = 2.5",
    "FLOATS[1] = -0.0; y = x + FLOATS[1]; FLOATS[1] = 0.0",
]
CHANGED = [
    "L.append(1); y = x + len(L)",
    "D['k'] = 9; y = x + D['k']",
    "D['k'] = 1.0; y = x + D['k']",
    "D['k'] = True; y = x + D['k']",
    "OD['a'] = OD.pop('a'); y = x + 1",
    "NESTED[0] = [1]; y = x + 1",
    "BYTES[0] = 98; y = x + 1",
    "S.add(2); y = x + 1; S.discard(2)",
    "Q.append(2); y = x + 1; Q.popleft()",
    "Q.rotate(1); Q.append(3); y = x + 1",
    "O.t = 5; y = x + O.t",
    "del O.n; y = x + 1",
    "O.l = [1]; y = x + 1",
    "SLOTS.b = 5; y = x + SLOTS.b",
    "global NEW; NEW = 3; y = x + NEW",
    "S.add(True); S.clear(); S.add(True); y = x + 1",
    "FLOATS[1] = -0.0; y = x + 1",
    "O.zero = -0.0; y = x + 1",
    "FLOATS[1] = 0; y = x + 1",
]


def other(x):
    return x - 1


def made(body):
    space = {}
    exec(f"def f(x):\n    {body}\n    return y", globals(), space)
    return space["f"]


def looked_at():
    return (
        len(L)
        + L[0]
        + D["k"]
        + len(D)
        + len(OD)
        + len(O.l)
        + len(O.d)
        + len(NESTED[0])
        + len(NESTED[1])
        + BYTES[0]
    )


def operators(f):
    """Each operator over the body: what is compiled, what plain Python computes, and the calls."""
    yes, no, x = G.tensor(True), G.tensor(False), G.ones(2)

    def rounds(x):
        for _ in range(3):
            x = f(x)
        return x

    return {
        "cond, first": (
            lambda p, x: G.cond(p, f, other, (x,)),
            lambda p, x: f(x) if p else other(x),
            [(yes, x), (no, x)],
        ),
        "cond, second": (
            lambda p, x: G.cond(p, other, f, (x,)),
            lambda p, x: other(x) if p else f(x),
            [(yes, x), (no, x)],
        ),
        "cond, known before": (
            lambda p, x: G.cond(p, f, other, (x * looked_at(),)),
            lambda p, x: (f if p else other)(x * looked_at()),
            [(yes, x), (no, x)],
        ),
        "while_loop": (
            lambda x: G.while_loop(
                lambda i, x: i < 3, lambda i, x: (i + 1, f(x)), (G.tensor(0), x)
            )[1],
            rounds,
            [(x,)],
        ),
        "checkpoint": (
            lambda x: checkpoint(f, x, use_reentrant=False),
            f,
            [(G.ones(2, requires_grad=True),)],
        ),
    }


@pytest.mark.parametrize("operator", operators(other))
def test_a_container_that_is_put_back_is_no_change(operator):
    for body in PUT_BACK:
        f = made(body)
        captured, plain, calls = operators(f)[operator]
        fresh()
        want = [(plain(*args).tolist(), state()) for args in calls]
        fresh()
        compiled = G.compile(captured, backend="eager", fullgraph=True)
        assert [(compiled(*args).tolist(), state()) for args in calls] == want, body


@pytest.mark.parametrize("operator", operators(other))
def test_a_container_that_holds_something_else_is_a_change(operator):
    for body in CHANGED:
        captured, _, calls = operators(made(body))[operator]
        fresh()
        before = state()
        with pytest.raises(G.compiler.Unsupported):
            G.compile(captured, backend="eager", fullgraph=True)(*calls[0])
        assert state() == before, body


def test_the_value_that_was_there_is_guarded():
    """It is put back as a number of the function's own: where the dict holds another one, that
    would be a change."""
    fresh()
    compiled = G.compile(
        lambda p, x: G.cond(p, made_once, other, (x,)), backend="eager", fullgraph=True
    )
    assert compiled(G.tensor(True), G.ones(1)).item() == 6.0
    D["k"] = 3
    with pytest.raises(G.compiler.Unsupported, match="do not change the same"):
        compiled(G.tensor(False), G.ones(1))
    assert D["k"] == 3


made_once = made("D['k'] = 5; y = x + D['k']; D['k'] = 1")


@pytest.mark.parametrize("kind", [Thing, Slots])
def test_an_attribute_that_was_there_is_gone_after_it_was_stored_and_deleted(kind):
    def f(x, o):
        o.a = 5
        y = x + o.a
        del o.a
        return y

    compiled = G.compile(f, backend="eager", fullgraph=True)
    for has in (False, True, False, True):
        o = kind()
        if has:
            o.a = 7
        assert compiled(G.ones(1), o).item() == 6.0 and not hasattr(o, "a")


def test_a_global_that_was_there_is_gone_after_it_was_stored_and_deleted():
    global NEW
    f = made("global NEW; NEW = 3; y = x + NEW; del NEW")
    compiled = G.compile(f, backend="eager", fullgraph=True)
    for has in (False, True, False):
        globals().pop("NEW", None)
        if has:
            NEW = 1
        assert compiled(G.ones(1)).item() == 4.0 and "NEW" not in globals()


def test_a_variable_of_an_enclosing_function_is_put_back():
    values = [1.0]

    def flips(x):
        nonlocal values
        old, values = values, [2.0]
        y = x + values[0]
        values = old
        return y

    branch = lambda p, x: G.cond(p, flips, other, (x,))
    compiled = G.compile(branch, backend="eager", fullgraph=True)
    kept = values
    assert compiled(G.tensor(True), G.ones(1)).item() == 3.0 and values is kept
    assert compiled(G.tensor(False), G.ones(1)).item() == 0.0 and values is kept
