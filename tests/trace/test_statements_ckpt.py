# SPDX-License-Identifier: Apache-2.0
"""Statements about marks and rollbacks: nothing that was done after a mark is left after going back
to it."""

import os
import signal
import subprocess
import sys
import warnings

import pytest

import gramme as G
from stress import undisturbed
from gramme._core import probe
from gramme._dynamo.comptime import comptime

STRESS = os.environ.get("GM_STRESS", "")

FOUND = {}  # what probe() finds; global, because it is written to while a function is recorded


class Box:
    """An object that things are put on."""


class Names(list):
    """A list with attributes of its own."""


COUNT = 0


def compiled(fn, backend=None, **options):
    """With a back end of its own each time, so that the function is recorded again."""
    made = G.compile(fn, backend=backend or (lambda graph, examples: graph), **options)

    def call(*args):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return made(*args)

    call.inner = made
    return call


# -- Regions to go back over -----------------------------------------------------------------------


def containers(x, box, items, table):
    items.append(x * 2)
    items.extend([1, 2])
    table["k"] = items[-1]
    table.pop("old")
    del items[0]
    items.reverse()
    fresh = {i: [i] for i in range(4)}
    fresh[2].append(fresh)


def objects(x, box, items, table):
    box.a = x.sin()
    made = Box()
    made.back = made
    box.made = made
    del box.a
    names = Names([1])
    names.append(made)
    setattr(box, "names", names)


def functions(x, box, items, table):
    global COUNT
    total = 0

    def inner(k):
        nonlocal total
        total += k
        return lambda: total

    for i in range(3):
        box.read = inner(i)
    COUNT = total
    list(v for v in (box.read(), 2, 3))


def exceptions(x, box, items, table):
    for value in (1, 0):
        try:
            box.share = 1 // value
        except ZeroDivisionError as error:
            box.error = str(error)
        finally:
            items.append(value)


def modes_and_random(x, box, items, table):
    with G.no_grad():
        box.noise = G.rand(3) * x
    with G.enable_grad():
        box.more = G.randn(2)


def writes_to_tensors(x, box, items, table):
    t = box.tensor
    t.add_(1)
    t[0] = 5
    view = t[1:]
    view.mul_(2)
    G.exp(t, out=t)
    box.view = view


def hooks(x, box, items, table):
    box.handle = x.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g + 1).remove()
    x.retain_grad()


REGIONS = [containers, objects, functions, exceptions, modes_and_random, writes_to_tensors, hooks]


def around(region):
    def f(x, box, items, table):
        box.before = [x + 1]
        probe("mark", "m", FOUND)
        region(x, box, items, table)
        probe("undo", "m", FOUND)
        return x * 3

    return f


def arguments():
    box = Box()
    box.tensor = G.ones(4)
    return G.ones(3, requires_grad=True), box, [3, 1], {"old": 1}


@undisturbed
@pytest.mark.parametrize("region", REGIONS, ids=lambda r: r.__name__)
def test_ckpt_01_every_field_is_as_at_the_mark(region):
    FOUND.clear()
    compiled(around(region))(*arguments())
    at_mark, before, after, undone = FOUND["undo", "m"]
    assert at_mark == after != before
    assert undone > 0


@undisturbed
def test_ckpt_04_relations_between_tensors():
    """Views, memory that is shared, what was written in place and which input is which: the graph
    and the values are those of the mark."""

    def f(x, box, items, table):
        base = x.detach() + 0
        left, right = base[:2], base[1:]
        left.add_(1)
        probe("mark", "m", FOUND)
        right.mul_(10)
        base.zero_()
        again = left.reshape(2, 1)
        again.add_(box.tensor[0])
        G.neg(base, out=base)
        probe("undo", "m", FOUND)
        return base

    FOUND.clear()
    args = arguments()
    compiled(f)(*args)
    at_mark, before, after, _ = FOUND["undo", "m"]
    assert at_mark == after != before
    assert args[1].tensor.tolist() == [1.0] * 4


def views(x, t):
    base = x.detach() + 0
    left, right = base[:2], base[1:]
    left.add_(1)
    right.mul_(10)
    t[0] = 7
    t.add_(left[0])
    alias = t.view(2, 2)
    alias[1].neg_()
    return base, left, right, t[3], base.requires_grad


def test_ckpt_04_programs_with_views_give_the_same_after_rollbacks():
    """Under GM_STRESS=rollback each instruction of it is undone once."""
    plain, traced = (G.ones(3), G.ones(4)), (G.ones(3), G.ones(4))
    want, got = views(*plain), compiled(views)(*traced)
    assert [getattr(v, "tolist", lambda: v)() for v in want] == [
        getattr(v, "tolist", lambda: v)() for v in got
    ]
    assert plain[1].tolist() == traced[1].tolist()


@undisturbed
def test_ckpt_05_an_undo_runs_nothing_of_the_program_again():
    runs = []

    def f(x, box, items, table):
        comptime(lambda ctx: runs.append(1))
        probe("mark", "m", FOUND)
        box.a = x + 1
        probe("undo", "m", FOUND)
        return x

    FOUND.clear()
    compiled(f)(*arguments())
    small = FOUND["undo", "m"][3]
    assert runs == [1]

    def long(x, box, items, table):
        for i in range(500):
            items.append([i])
        return f(x, box, items, table)

    FOUND.clear()
    compiled(long)(*arguments())
    assert FOUND["undo", "m"][3] == small  # the writes since the mark, whatever was before


# -- Metadata --------------------------------------------------------------------------------------


def set_data(x):
    x.data = G.ones(2, 2)


def op_set(x):
    x.set_(G.ones(4))


METADATA = {
    "t_": lambda x: x.t_(),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(0),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
    "resize_": lambda x: x.resize_(3, 2),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "set_": op_set,
    "data": set_data,
    "requires_grad_": lambda x: x.requires_grad_(),
}


def metadata(x):
    return tuple(x.shape), x.stride(), x.storage_offset(), x.requires_grad, x.tolist()


@pytest.mark.parametrize("name", METADATA)
def test_ckpt_02_metadata_is_part_of_the_state(name):
    """What is done to the metadata of an argument or of a result happens once; undone while it is
    recorded, it leaves nothing."""
    change = METADATA[name]

    def f(x):
        y = x * 2 + 1
        change(y)
        change(x)
        return x * 3, y

    plain, traced = G.arange(6.0).reshape(2, 3).clone(), G.arange(6.0).reshape(2, 3).clone()
    want, got = f(plain), compiled(f)(traced)
    assert metadata(plain) == metadata(traced)
    assert [metadata(t) for t in want] == [metadata(t) for t in got]
    assert plain._version == traced._version

    def g(x):
        y = x * 2 + 1
        probe("mark", "m", FOUND)
        change(y)
        change(x)
        probe("undo", "m", FOUND)
        return x + 0

    FOUND.clear()
    plain, traced = G.arange(6.0).reshape(2, 3).clone(), G.arange(6.0).reshape(2, 3).clone()
    want, got = g(plain), compiled(g)(traced)
    assert metadata(want) == metadata(got) and metadata(plain) == metadata(traced)
    if ("undo", "m") in FOUND:  # recorded as a whole; else a break stood between
        assert FOUND["undo", "m"][0] == FOUND["undo", "m"][2]


def test_ckpt_08_example_inputs_have_the_metadata_of_the_entry():
    def p5b(a):
        b = a + 1
        a.unsqueeze_(0)
        return b

    seen = []

    def backend(graph, examples):
        seen.append([(tuple(e.shape), e.stride()) for e in examples])
        return graph

    shape, stride = (1, 1, 1, 12, 11, 3), (396, 396, 396, 33, 3, 1)
    a = G.arange(396).reshape(*shape)
    assert a.stride() == stride
    b = compiled(p5b, backend=backend)(a)
    assert tuple(a.shape) == (1,) + shape and a.stride() == (396,) + stride  # once
    assert tuple(b.shape) == shape and b.reshape(-1)[5].item() == 6
    assert seen[0] == [(shape, stride)]


@undisturbed
def test_ckpt_09_no_recording_starts_again():
    """Breaks go back to the instruction's own mark: what was recorded before them is recorded once,
    and what comes later from its place."""
    runs = []

    def f(x):
        comptime(lambda ctx: runs.append("start"))
        y = x + 1
        for i in range(3):
            G._dynamo.graph_break()
            comptime(lambda ctx: runs.append("round"))
            y = y * 2
        return y

    g = compiled(f)
    assert g(G.ones(1)).tolist() == [16.0]
    assert runs.count("start") == 1
    first = len(runs)
    assert g(G.ones(1)).tolist() == [16.0] and len(runs) == first


@pytest.mark.parametrize("alias", [False, True], ids=["argument", "alias"])
def test_ckpt_10_a_change_of_rank_is_handled_or_explained_at_the_op(alias):
    def f(x):
        y = x * 2
        z = x.contiguous() if alias else x
        z.unsqueeze_(0)
        return x + y, z is x

    plain, traced = G.ones(2, 3), G.ones(2, 3)
    want, got = f(plain), compiled(f)(traced)
    assert metadata(plain) == metadata(traced)
    assert metadata(want[0]) == metadata(got[0]) and want[1] == got[1]
    try:
        G.compile(f, backend="eager", fullgraph=True)(G.ones(2, 3))
    except G.compiler.Unsupported as error:
        text = str(error)
        assert (
            "z.unsqueeze_(0)" in text
            and f"{__file__}:{f.__code__.co_firstlineno + 3}" in text
            and "in place" in text
        )


# -- Faults on purpose -----------------------------------------------------------------------------

FAULTS = """
import faulthandler
import gramme as G
from gramme._core import probe
faulthandler.enable()
OUT = {}
def f(x):
    z = x + 1
    y = z * 2
    probe(%r, "z", OUT)
    return y + z
c = G.compile(f, backend="eager")
try:
    c(G.ones(2))
finally:
    print(c.status()["breaks"])
"""


def run_fault(fault, stress):
    # A sanitizer must leave the signal to the program: the child is to die of it.
    options = ":".join(o for o in (os.environ.get("ASAN_OPTIONS"), "handle_segv=0") if o)
    env = dict(os.environ, GM_STRESS=stress, ASAN_OPTIONS=options)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FAULTS % fault],
        capture_output=True,
        text=True,
        env=env,
    )


def test_ckpt_03_a_write_past_the_journal_is_found_at_its_instruction():
    run = run_fault("fault-bypass", "rollback")
    assert run.returncode == 0, run.stderr
    assert "STATE_DIFFERS" in run.stdout and "<string>:10" in run.stdout and "CALL" in run.stdout


def test_ckpt_03_a_write_to_a_tracker_stops_there():
    run = run_fault("fault-write", "arena")
    assert run.returncode == -signal.SIGSEGV
    assert "line 14 in <module>" in run.stderr
    # without the switch nothing watches, and the fault has no effect that this program sees
    assert run_fault("fault-write", "").returncode == 0


# -- States ----------------------------------------------------------------------------------------


def state_of(fn, *args):
    """The state that a function leaves behind its mark."""
    FOUND.clear()
    compiled(fn, fullgraph=True)(*args)
    return FOUND["state", "s"]


def with_state(body):
    def f(x, box, items, table):
        box.a, items[0], table["k"]  # looked at before
        probe("mark", "s", FOUND)
        body(x, box, items, table)
        probe("state", "s", FOUND)
        return x + 1

    return f


def state_arguments():
    box = Box()
    box.a = 0
    return G.ones(3, requires_grad=True), box, [1], {"k": 1}


def set_3(x, box, items, table):
    box.a = 3


def set_3_the_long_way(x, box, items, table):
    keep = [[] for _ in range(5)]
    box.a = 1
    box.a = 2 + 1
    keep.append(box)


def set_4(x, box, items, table):
    box.a = 4


def store_key(x, box, items, table):
    table["k"] = [1, (2, "x")]


def store_other_key(x, box, items, table):
    table["other"] = [1, (2, "x")]


def append_two(x, box, items, table):
    items.append(1)
    items.append(2)


def append_one(x, box, items, table):
    items.append(1)


def hooked(x, box, items, table):
    x.register_hook(print)


def hooked_and_removed(x, box, items, table):
    x.register_hook(print).remove()


def nothing(x, box, items, table):
    return x, box, items, table


DIFFS = [
    (set_3, set_3, None),
    (set_3, set_3_the_long_way, None),
    (nothing, hooked_and_removed, None),
    (store_key, store_key, None),
    (append_two, append_two, None),
    (set_3, set_4, "L['box'].a, which was 0: = 3 in the first, = 4 in the second"),
    (set_3, nothing, "L['box'].a, which was 0: = 3 in the first, nothing in the second"),
    (nothing, set_3, "L['box'].a, which was 0: = 3 in the second, nothing in the first"),
    (
        store_key,
        store_other_key,
        "L['table']: ['k'] = a new list in the first, ['other'] = a new list in the second",
    ),
    (append_two, append_one, "L['items']: append (2) in the first, nothing in the second"),
    (
        hooked,
        nothing,
        "L['x']: register_hook (builtins['print']) in the first, nothing in the second",
    ),
]


@undisturbed
@pytest.mark.parametrize("first, second, want", DIFFS, ids=lambda v: getattr(v, "__name__", ""))
def test_ckpt_11_states_are_equal_if_their_effects_are(first, second, want):
    a = state_of(with_state(first), *state_arguments())
    b = state_of(with_state(second), *state_arguments())
    assert probe("diff", a, b) == want


@undisturbed
def test_ckpt_12_a_state_is_independent_of_what_follows():
    def f(x, box, items, table):
        box.a, items[0], table["k"]
        probe("mark", "s", FOUND)
        box.a = 3
        items.append([1])
        probe("state", "s", FOUND)
        box.a = 4
        items[-1].append(2)
        x.register_hook(print)
        probe("undo", "s", FOUND)
        return x

    def g(x, box, items, table):
        box.a = 3
        items.append([1])

    FOUND.clear()
    args = state_arguments()

    def run(x, box, items, table):
        return f(x, box, items, table)

    compiled(run)(*args)
    state = FOUND["state", "s"]
    at_mark, before, after, _ = FOUND["undo", "s"]
    assert at_mark == after != before
    assert probe("diff", state, state_of(with_state(g), *state_arguments())) is None


def test_ckpt_12_a_hook_that_was_undone_is_there_once():
    """A break in a block that handles exceptions goes back to the start of the statement, the hook
    with it."""

    def f(x, log):
        y = x * 2
        try:
            x.register_hook(lambda g: log.append("hook"))
            G._dynamo.graph_break()
            probe("mark", "m", FOUND)
            x.register_hook(lambda g: log.append("second"))
            probe("undo", "m", FOUND)
        finally:
            y = y + 1
        return y

    x, log = G.ones(2, requires_grad=True), []
    compiled(f)(x, log).sum().backward()
    assert log == ["hook", "second"]
