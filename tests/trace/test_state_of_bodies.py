# SPDX-License-Identifier: Apache-2.0
"""Functions that operators run, and the state around them: flags that are set and set back, and
what autograd.Function.forward changes."""

import pytest

import gramme as G
from gramme.autograd import Function
from stress import undisturbed


@pytest.fixture(autouse=True)
def fresh():
    G._dynamo.reset()


class O:
    flag = False


class Own:
    def __init__(self, flag=False, other=0):
        self.flag, self.other = flag, other


FLAG = False


def flipped(o, x):
    o.flag = True
    y = x + (2 if o.flag else 1)
    o.flag = False
    return y


def flipped_global(o, x):
    global FLAG
    FLAG = True
    y = x + (2 if FLAG else 1)
    FLAG = False
    return y


def flipped_variable(o, x):
    flag = False

    def inner():
        nonlocal flag
        flag = True
        y = x + (2 if flag else 1)
        flag = False
        return y

    return inner()


def flipped_after_another(o, x):
    o.other = 5  # so that there is something stored of the object already
    return flipped(o, x)


def compiled(fn):
    return G.compile(fn, backend="eager", fullgraph=True)


# SIDE-20
@pytest.mark.parametrize("flip", [flipped, flipped_global, flipped_variable])
@pytest.mark.parametrize("made", [O, Own])
@pytest.mark.parametrize("taken", [True, False])
def test_side_20_a_flag_that_one_branch_sets_and_sets_back_is_no_change(flip, made, taken):
    o = made()
    f = compiled(lambda p, x: G.cond(p, lambda x: flip(o, x), lambda x: x - 1, (x,)))
    assert f(G.tensor(taken), G.ones(3)).tolist() == ([3.0] * 3 if taken else [0.0] * 3)
    assert o.flag is False and FLAG is False


# SIDE-20
@undisturbed
def test_side_20_a_flag_is_compared_with_what_it_is_in_each_call():
    o, graphs = Own(), G.testing.CompileCounter()
    f = G.compile(
        lambda p, x: G.cond(p, lambda x: flipped(o, x), lambda x: x - 1, (x,)), backend=graphs
    )
    for _ in range(2):
        assert f(G.tensor(True), G.ones(3)).tolist() == [3.0] * 3
    assert graphs.frame_count == 1
    o.flag = True
    with pytest.raises(G.compiler.Unsupported, match="flag, which was True: = False in the first"):
        f(G.tensor(False), G.ones(3))


# SIDE-20
def test_side_20_a_flag_of_the_class_is_compared_with_what_it_is_in_each_call():
    class Local:
        flag = False

    o = Local()
    f = G.compile(
        lambda p, x: G.cond(p, lambda x: flipped(o, x), lambda x: x - 1, (x,)), backend="eager"
    )
    assert f(G.tensor(True), G.ones(3)).tolist() == [3.0] * 3
    Local.flag = True
    with pytest.raises(G.compiler.Unsupported, match="flag, which was True: = False in the first"):
        f(G.tensor(False), G.ones(3))
    assert vars(o) == {}


# SIDE-20
def test_side_20_what_was_stored_before_the_call_of_cond_stays():
    o = Own()

    def fn(p, x):
        o.other = 4
        return G.cond(p, lambda x: flipped(o, x), lambda x: x - 1, (x,))

    for taken, want in ((True, 3.0), (False, 0.0)):
        o.other = 0
        assert compiled(fn)(G.tensor(taken), G.ones(1)).tolist() == [want]
        assert vars(o) == {"flag": False, "other": 4}


# SIDE-20
def test_side_20_a_loop_may_set_a_flag_and_set_it_back():
    o = Own()
    f = compiled(
        lambda x: G.while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, flipped(o, x)), (G.tensor(0), x)
        )[1]
    )
    assert f(G.ones(2)).tolist() == [7.0, 7.0] and vars(o) == {"flag": False, "other": 0}
    o.flag = True
    with pytest.raises(G.compiler.Unsupported, match="how often it runs is not known"):
        compiled(
            lambda x: G.while_loop(
                lambda i, x: i < 3, lambda i, x: (i + 1, flipped(o, x)), (G.tensor(0), x)
            )[1]
        )(G.ones(2))


def left_set(o, x):
    o.flag = True
    return x + 1


# SIDE-20
@pytest.mark.parametrize("made", [O, Own])
def test_side_20_a_flip_that_is_not_restored_names_attribute_old_and_new_value(made):
    o = made()
    with pytest.raises(
        G.compiler.Unsupported,
        match=r"o.*\.flag, which was False: = True in the first, nothing in the second",
    ):
        compiled(lambda p, x, o: G.cond(p, lambda x: left_set(o, x), lambda x: x - 1, (x,)))(
            G.tensor(True), G.ones(1), o
        )
    assert o.flag is False


# COND-08, COND-09
def test_cond_08_a_captured_variable_is_named():
    def fn(p, x):
        count = 1

        def bump(by):
            nonlocal count
            count += by
            return x * count

        return G.cond(p, lambda: bump(6), lambda: bump(7)), count

    with pytest.raises(
        G.compiler.Unsupported,
        match=(
            "the variable count around it, which was 1: 7 after cond_true_0, 8 after cond_false_0"
        ),
    ):
        compiled(fn)(G.tensor(True), G.ones(1))


# -- autograd.Function


log = []


class Logs(Function):
    @staticmethod
    def forward(ctx, x):
        log.append(len(log))
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Counts(Function):
    @staticmethod
    def forward(ctx, x, owner):
        owner.other += 1
        return x * owner.other

    @staticmethod
    def backward(ctx, g):
        return g * 3, None


class SetsUp(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        log.append("setup")

    @staticmethod
    def backward(ctx, g):
        return g * 2


def twice_counted(x, o):
    return Counts.apply(Counts.apply(x, o), o)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    "fn, want_log, want_other",
    [
        (lambda x, o: Logs.apply(x), [0], 0),
        (lambda x, o: Logs.apply(Logs.apply(x)) + len(log), [0, 1], 0),
        (lambda x, o: Counts.apply(x, o), [], 1),
        (twice_counted, [], 2),
        (lambda x, o: SetsUp.apply(x), ["setup"], 0),
    ],
)
def test_what_forward_changes_is_changed_in_the_same_order(fn, want_log, want_other, grad):
    results = []
    for run in (fn, compiled(fn)):
        log.clear()
        o, x = Own(), G.ones(3, requires_grad=grad)
        y = run(x, o)
        assert log == want_log and o.other == want_other
        if grad:
            y.sum().backward()
        results.append((y.tolist(), x.grad.tolist() if grad else None))
        assert log == want_log
    assert results[0] == results[1]


def test_changes_of_forward_are_replayed_in_each_call():
    log.clear()
    f = compiled(lambda x: Logs.apply(x).sum())
    for n in range(1, 4):
        f(G.ones(2, requires_grad=True)).backward()
        assert log == list(range(n))


kept = []


class Keeps(Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        kept.append(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Reads(Function):
    @staticmethod
    def forward(ctx, x, o):
        o.other += 1
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * OWNER.other, None


OWNER = Own()


def reads_twice(x):
    return Reads.apply(Reads.apply(x, OWNER), OWNER)


@pytest.mark.parametrize(
    "fn, words",
    [(lambda x: Keeps.apply(x), "changes"), (reads_twice, "backward reads what forward changes")],
)
def test_what_cannot_be_replayed_runs_as_plain_python(fn, words):
    grads = []
    for run in (fn, G.compile(fn, backend="eager")):
        kept.clear()
        OWNER.other = 0
        x = G.ones(2, requires_grad=True)
        y = run(x)
        y.sum().backward()
        grads.append((x.grad.tolist(), len(kept), OWNER.other, all(t.requires_grad for t in kept)))
    assert grads[0] == grads[1]
    with pytest.raises(G.compiler.Unsupported, match=words):
        compiled(fn)(G.ones(2, requires_grad=True))


# -- vmap


def writes_shared(a, b):
    b.add_(a)
    return b * 2


def writes_shared_and_breaks(a, b):
    b.add_(a)
    G._dynamo.graph_break()
    return b * 2


def writes_own_and_breaks(a, b):
    a.add_(b)
    G._dynamo.graph_break()
    return a * 2


@pytest.mark.parametrize("fn", [writes_shared, writes_shared_and_breaks, writes_own_and_breaks])
@pytest.mark.parametrize("how", ["plain", "the function is compiled", "all is compiled"])
def test_vmap_refuses_writes_to_what_is_shared_and_leaves_it_as_it_was(fn, how):
    inner = G.compile(fn, backend="eager") if how == "the function is compiled" else fn
    mapped = G.func.vmap(inner, in_dims=(0, None))
    run = (
        G.compile(lambda a, b: mapped(a, b), backend="eager")
        if how == "all is compiled"
        else mapped
    )
    a, b = G.arange(6.0).reshape(2, 3), G.ones(3)
    if fn is writes_own_and_breaks:
        assert run(a, b).tolist() == [[2, 4, 6], [8, 10, 12]] and a.tolist() == [
            [1, 2, 3],
            [4, 5, 6],
        ]
    else:
        with pytest.raises(RuntimeError, match="tensor in place that all examples share"):
            run(a, b)
    assert b.tolist() == [1, 1, 1]
