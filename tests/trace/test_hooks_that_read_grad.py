# SPDX-License-Identifier: Apache-2.0
"""Hooks of tensors that a compiled function makes, which look at the grad of leaves: they find what
has been added up by then in plain Python."""

import functools

import pytest

import gramme as G

SEEN = []
LEAVES = []


def now():
    return [None if t.grad is None else t.grad.tolist() for t in LEAVES]


def helper():
    SEEN.append(now())


def reads(d):
    SEEN.append([None if t.grad is None else t.grad.tolist() for t in LEAVES])


def reads_by_name(d):
    SEEN.append([getattr(t, "grad") is None for t in LEAVES])  # noqa: B009


def reads_through_others(d):
    helper()


def reads_in_a_comprehension(d):
    SEEN.append([(lambda t: t.grad is not None)(t) for t in LEAVES])


def takes(leaves, d):
    SEEN.append(len([t for t in leaves if t.grad is not None]))


class Watcher:
    def __call__(self, d):
        self.look()

    def look(self):
        SEEN.append(now())

    def on_gradient(self, d):
        self.look()


def closure():
    def inner():
        return now()

    return lambda d: SEEN.append(inner())


HOOKS = {
    "a function": reads,
    "getattr": reads_by_name,
    "through others": reads_through_others,
    "in a lambda": reads_in_a_comprehension,
    "a partial": functools.partial(takes, LEAVES),
    "an object": Watcher(),
    "a method": Watcher().on_gradient,
    "a closure": closure(),
}

PROGRAMS = {
    "a product": lambda a, b, c, h: hooked(a * b, h) * c,
    "a chain": lambda a, b, c, h: (hooked((a * 2).exp(), h) + b) * c + b,
    "two branches": lambda a, b, c, h: hooked(a * 3, h) * (b * 2) + c,
    "two hooks": lambda a, b, c, h: hooked(hooked(a * b, h) + c, h) * b,
}


def hooked(t, hook):
    t.register_hook(hook)
    return t


def outcome(f, hook):
    SEEN.clear()
    LEAVES[:] = [G.tensor([1.0, 2.0], requires_grad=True) for _ in range(3)]
    for _ in range(2):
        f(*LEAVES, hook).sum().backward()
    return list(SEEN), now()


@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_finds_the_grads_that_it_finds_in_plain_python(hook, program):
    f = PROGRAMS[program]
    G._dynamo.reset()
    want = outcome(f, HOOKS[hook])
    assert want[0]
    for backend in ("eager", "tcc"):
        assert outcome(G.compile(f, backend=backend), HOOKS[hook]) == want


def test_a_whole_graph_refuses_such_a_hook_and_takes_others():
    with pytest.raises(Exception, match="a hook that may read .grad"):
        outcome(G.compile(PROGRAMS["a product"], backend="eager", fullgraph=True), reads)
    G._dynamo.reset()
    took = []
    whole = G.compile(PROGRAMS["a product"], backend="eager", fullgraph=True)
    assert outcome(whole, took.append) == outcome(PROGRAMS["a product"], took.append)
    assert len(took) == 4
