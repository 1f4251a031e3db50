# SPDX-License-Identifier: Apache-2.0
"""What goes from pack to unpack where saved-tensor hooks are part of the graphs: sizes, numbers and
objects, not tensors alone."""

import pytest

import gramme as G
from gramme._dynamo.backends.common import aot_autograd
from gramme.autograd.graph import inlineable_saved_tensors_hook, saved_tensors_hooks
from stress import counted, undisturbed

BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]
ALL = {"saved-tensors-hooks-filtering-mode": "all"}


@pytest.fixture(autouse=True)
def nothing_compiled():
    G.compiler.reset()
    yield


class Kept:
    def __init__(self, t):
        self.rows, self.flat = t.shape[0], t.reshape(-1)


def with_default(t, times=2):
    return t * times


PAIRS = {
    "a size": (lambda t: (t.shape[0], t.reshape(-1)), lambda p: p[1].reshape(p[0], -1)),
    "all sizes": (lambda t: (t.shape, t.reshape(-1)), lambda p: p[1].reshape(p[0])),
    "sizes that are equal in the first call": (
        lambda t: (t.shape[1], t.shape[0], t.reshape(-1)),
        lambda p: p[2].reshape(p[1], p[0]),
    ),
    "a number of sizes": (
        lambda t: {"n": t.numel() * 2 + 1, "t": t.t().contiguous()},
        lambda p: p["t"].t() * (p["n"] - p["n"] + 1),
    ),
    "an object": (lambda t: Kept(t), lambda k: k.flat.reshape(k.rows, -1)),
    "a function": (lambda t: (lambda: t.reshape(-1).reshape(t.shape)), lambda again: again()),
    "a generator's items": (
        lambda t: iter([t.shape[0], t.reshape(-1)]),
        lambda it: (lambda n: next(it).reshape(n, -1))(next(it)),
    ),
    "a tensor that does not read it": (lambda t: (G.full((1,), 2.0), t * 2), lambda p: p[1] / p[0]),
    "more than is read": (lambda t: (t.exp(), t, t.shape[1]), lambda p: p[1]),
    "the tensor twice": (lambda t: (t, t), lambda p: (p[0] + p[1]) / 2),
    "a default": (with_default, lambda t: t / 2),
}


def f(x, w):
    return (x.sin().exp() * w).tanh()


def step(f, pair, shape):
    G.manual_seed(3)
    x, w = G.randn(*shape, requires_grad=True), G.randn(*shape, requires_grad=True)
    with saved_tensors_hooks(*pair):
        y = f(x, w)
    y.sum().backward()
    return y.tolist(), x.grad.tolist(), w.grad.tolist()


# HOOK-05: a size that pack returns is a size of the graph
@pytest.mark.parametrize("name", PAIRS)
@undisturbed
def test_hook_05_one_forward_and_one_backward_for_all_sizes(name):
    made = []
    backend = aot_autograd(
        fw_compiler=lambda module, examples, **_: (made.append("forward"), module)[1],
        bw_compiler=lambda module, examples, **_: (made.append("backward"), module)[1],
    )
    pair = [inlineable_saved_tensors_hook(hook) for hook in PAIRS[name]]
    compiled = G.compile(f, backend=backend, dynamic=True, fullgraph=True, options=ALL)
    for shape in ((3, 3), (4, 2), (2, 5), (7, 7)):
        assert step(compiled, pair, shape) == step(f, (lambda t: t, lambda t: t), shape), shape
    assert made == ["forward", "backward"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_only_the_forward_had_reach_the_backward(backend):
    """The gradient that comes in is one number, and what is carried has one dimension."""

    def total(x):
        return x.sin().exp().sum()

    pair = [
        inlineable_saved_tensors_hook(hook)
        for hook in PAIRS["sizes that are equal in the first call"]
    ]
    compiled = G.compile(total, backend=backend, dynamic=True, fullgraph=True, options=ALL)
    for shape in ((3, 3), (4, 2), (2, 5)):
        x, plain = G.randn(*shape, requires_grad=True), None
        with saved_tensors_hooks(*pair):
            y = compiled(x)
        y.backward()
        plain = x.detach().clone().requires_grad_()
        total(plain).backward()
        assert G.equal(x.grad, plain.grad), shape
    assert compiled.status()["graphs"] == counted(1)


@undisturbed
def test_what_one_hook_hands_to_the_other_is_guarded():
    def scaled(t):
        return FACTOR, t * FACTOR

    def back(p):
        return p[1] / p[0]

    global FACTOR
    pairs = [inlineable_saved_tensors_hook(hook) for hook in (scaled, back)]
    compiled = G.compile(f, backend="eager", fullgraph=True, options=ALL)
    for FACTOR, graphs in ((2.0, 1), (2.0, 1), (4.0, 2), (2.0, 2)):
        assert step(compiled, pairs, (2, 3)) == step(f, (lambda t: t, lambda t: t), (2, 3))
        assert compiled.status()["graphs"] == graphs


FACTOR = 1.0


@pytest.mark.parametrize(
    "pack, unpack, says",
    [
        (lambda t: t, lambda t: t.mul_(1), "inputs mutations are not allowed"),
        (lambda t: t.clone(), lambda t: t.mul_(1), "inputs mutations are not allowed"),
        (lambda t: t.clone(), lambda t: None, "has to return one tensor"),
        (lambda t: t.clone(), lambda t: (t, t), "has to return one tensor"),
        (lambda t: t.clone(), lambda t: [][1], "IndexError"),
    ],
)
@undisturbed
def test_hooks_that_do_not_fit_are_refused_by_name(pack, unpack, says):
    pair = [inlineable_saved_tensors_hook(hook) for hook in (pack, unpack)]
    with saved_tensors_hooks(*pair), pytest.raises(G.compiler.Unsupported, match=says):
        G.compile(f, backend="eager", fullgraph=True, options=ALL)(
            G.ones(2, 2, requires_grad=True), G.ones(2, 2)
        )


class Wrapped(G.Tensor):
    pass


# HOOK-17
@pytest.mark.parametrize(
    "pack",
    [
        lambda t: t.as_subclass(Wrapped),
        lambda t: Wrapped(t),
        lambda t: G.Tensor._make_subclass(Wrapped, t),
        lambda t: G.nn.Parameter(t),
    ],
)
@undisturbed
def test_hook_17_a_tensor_subclass_is_refused_with_the_way_around_it(pack):
    pair = [inlineable_saved_tensors_hook(hook) for hook in (pack, lambda t: t)]
    with saved_tensors_hooks(*pair), pytest.raises(
        G.compiler.Unsupported,
        match="(?s)class .*(Wrapped|Parameter).*returns the inner tensors.*MAKES_SUBCLASS",
    ):
        G.compile(f, backend="eager", fullgraph=True, options=ALL)(
            G.ones(2, 2, requires_grad=True), G.ones(2, 2)
        )


@undisturbed
def test_hook_17_the_way_around_it():
    pair = [
        inlineable_saved_tensors_hook(hook)
        for hook in (lambda t: (t.clone(), t.shape), lambda p: p[0].reshape(p[1]))
    ]
    compiled = G.compile(f, backend="eager", fullgraph=True, options=ALL)
    assert step(compiled, pair, (2, 3)) == step(f, (lambda t: t, lambda t: t), (2, 3))
