# SPDX-License-Identifier: Apache-2.0
"""What is refused in the bodies of higher-order operators, and how it is said; and sizes that stay
open there."""

import pytest

import gramme as G
from gramme.autograd import Function
from gramme.higher_order import cond, scan
from gramme.utils.checkpoint import checkpoint

shared = 1


class Config:
    flag = False


def refusal(body):
    def root(x):
        return checkpoint(body, x)

    with pytest.raises(G.compiler.Unsupported) as caught:
        G.compile(root, backend="eager", fullgraph=True)(G.ones(2, requires_grad=True))
    return str(caught.value)


# SIDE-10
def test_side_10_the_refusal_names_operator_and_object():
    made = {"k": 1}

    def body(x):
        made["k"] = 2
        return x * 2

    text = refusal(body)
    assert (
        "checkpoint" in text
        and "changes a dict, which exists outside of it" in text
        and "BODY_EFFECT" in text
    )


# SIDE-10
def test_side_10_globals_and_variables_of_functions_around_are_objects_too():
    def writes_global(x):
        global shared
        shared = 2
        return x * 2

    assert "the global shared from 1 to 2" in refusal(writes_global)
    count = 5

    def writes_cell(x):
        nonlocal count
        count += 1
        return x * 2

    assert "variable of a function around it" in refusal(writes_cell)


# SIDE-10
def test_side_10_to_read_a_variable_of_a_function_around_is_no_change():
    def factory(k):
        return lambda x: checkpoint(lambda x: x.tanh() * k, x)

    x = G.ones(2, requires_grad=True)
    G.compile(factory(3), backend="eager", fullgraph=True)(x).sum().backward()
    want = G.ones(2, requires_grad=True)
    factory(3)(want).sum().backward()
    assert x.grad.tolist() == want.grad.tolist()


# SIDE-10
def test_side_10_objects_made_before_in_the_same_function_are_outside_too():
    def root(x):
        xs = []

        def body(x):
            xs.append(x)
            return x * 2

        return checkpoint(body, x), xs

    with pytest.raises(G.compiler.Unsupported, match="made outside of it"):
        G.compile(root, backend="eager", fullgraph=True)(G.ones(2, requires_grad=True))


# SIDE-20
def test_side_20_a_flag_that_is_not_set_back_is_named_with_both_values():
    config = Config()

    def body(x):
        config.flag = True
        return x * 2

    text = refusal(body)
    assert (
        "the attribute flag from nothing to True of a Config" in text
        or "the attribute flag from False to True of a Config" in text
    )


class Keeps(Function):
    kept = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad


# SIDE-16
def test_side_16_a_context_that_would_leave_is_a_break_that_says_so():
    class Gives(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, ctx

        @staticmethod
        def backward(ctx, grad, none):
            return grad

    def root(x):
        return Gives.apply(x)

    x = G.ones(2)
    with pytest.raises(
        G.compiler.Unsupported, match=r"the context \(ctx\) of an autograd.Function .* leaves"
    ):
        G.compile(root, backend="eager", fullgraph=True)(x)
    out, ctx = G.compile(root, backend="eager")(x)
    assert type(ctx).__name__ == "FunctionCtx" and out.tolist() == [2.0, 2.0]


# SIDE-15
def test_side_15_what_was_saved_is_said_once_with_the_traced_values():
    calls = []

    def saves(ctx, x):
        ctx.save_for_backward(x, x * 2)
        return x * 3

    inner = G.compile(saves, backend="eager", fullgraph=True)

    class F(Function):
        @staticmethod
        def forward(ctx, x):
            out = inner(ctx, x)
            calls.append([t.tolist() for t in ctx.saved_tensors])
            return out

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[1]

    x = G.tensor([1.0, 2.0], requires_grad=True)
    F.apply(x).sum().backward()
    assert calls == [[[1.0, 2.0], [2.0, 4.0]]] and x.grad.tolist() == [2.0, 4.0]
    assert inner.status()["graphs"] == 1


def test_a_backward_that_draws_random_numbers_is_not_recorded():
    class Noise(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * G.rand(2)

    def root(x):
        return Noise.apply(x)

    x = G.ones(2, requires_grad=True)
    with pytest.raises(G.compiler.Unsupported, match="draws random numbers"):
        G.compile(root, backend="eager", fullgraph=True)(x)
    grads = []
    for f in (root, G.compile(root, backend="eager")):
        x.grad = None
        y = f(x)
        G.manual_seed(3)
        y.sum().backward()
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1]


def test_the_graph_of_a_function_shows_its_gradient():
    class Doubles(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad.exp()

    def root(x):
        return Doubles.apply(x)

    f = G.compile(root, backend="eager", fullgraph=True)
    text = str(G.compiler.explain(f)(G.ones(2, requires_grad=True)))
    assert "custom %" in text and "gradient of custom 0" in text and "exp %gradient0" in text


def test_a_compiled_function_in_an_eager_checkpoint_keeps_nothing():
    inner = G.compile(lambda x: (x.exp() * x).tanh(), backend="eager")
    x = G.randn(1000, requires_grad=True)
    inner(x)
    before = G._core.live_bytes()
    kept = inner(x)
    plain = G._core.live_bytes() - before
    again = checkpoint(inner, x)
    assert G._core.live_bytes() - before - plain < plain
    gradients = []
    for y in (kept, again):
        x.grad = None
        y.sum().backward()
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1]


def test_a_second_derivative_through_a_recorded_function_is_eagers():
    plain = lambda x: Keeps.apply(x).exp()
    found = []
    for f in (plain, G.compile(plain, backend="eager", fullgraph=True)):
        x = G.ones(2, requires_grad=True)
        (g,) = G.autograd.grad(f(x).sum(), x, create_graph=True)
        found.append([g.tolist(), G.autograd.grad(g.sum(), x)[0].tolist()])
    assert found[0] == found[1]


def test_autocast_that_stays_on_is_named():
    def body(x):
        G.autocast("cpu").__enter__()
        return x @ x

    def root(x):
        return checkpoint(body, x)

    with pytest.raises(G.compiler.Unsupported, match="what autocast casts to"):
        G.compile(root, backend="eager", fullgraph=True)(G.ones(2, 2, requires_grad=True))


# -- Sizes that stay open in a body


SIZED = {
    "flattened in one branch, another one in the other": (
        lambda x, y: cond(
            x.sum() > 0, lambda a, b: a.reshape(-1) * 2, lambda a, b: b.reshape(-1) + 1, (x, y)
        ),
        lambda n: ((n, 3), (n, 3)),
    ),
    "twice as long": (
        lambda x, y: cond(
            x.sum() > 0, lambda a: G.cat([a, a]).sum(), lambda a: a.reshape(-1).sum(), (x,)
        )
        + y,
        lambda n: ((n, 3), (n, 3)),
    ),
    "a step that joins two": (
        lambda x, y: scan(lambda c, s: (c * s, (c + s).flatten()), x, y),
        lambda n: ((n, 3), (2, n, 3)),
    ),
    "a branch within a step": (
        lambda x, y: scan(
            lambda c, s: (
                cond(c.sum() > 0.1, lambda a: a.tanh(), lambda a: a - 1, (c,)) * s,
                c - s,
            ),
            x,
            y,
        ),
        lambda n: ((n, 3), (2, n, 3)),
    ),
}


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_sizes_and_what_a_body_finds_out_about_them_outlive_its_recording(name, backend):
    f, shapes = SIZED[name]
    call = G.compile(f, backend=backend, fullgraph=True, dynamic=True)
    for n in (5, 4, 7, 2):
        x, y = (G.arange(float(G.Size(s).numel())).reshape(s) / 7 - 1 for s in shapes(n))
        want, have = f(x, y), call(x, y)
        assert (
            [t.tolist() for t in have] == [t.tolist() for t in want]
            if isinstance(want, tuple)
            else have.tolist() == want.tolist()
        )


def test_sizes_that_a_body_needs_to_be_equal_are_guarded():
    call = G.compile(
        lambda x, y: scan(lambda c, s: (c * s, c + s), x, y), backend="eager", dynamic=True
    )
    call(G.ones(5, 3), G.ones(2, 5, 3))
    with pytest.raises(G.compiler.Unsupported, match="shapes"):
        call(G.ones(5, 3), G.ones(2, 4, 3))


def test_a_backward_makes_sizes_of_its_own():
    """They are the graph's, though nothing else in it has them."""

    class Sums(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x)
            return x * w

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 2, (grad * 0.75).reshape(-1, x.shape[-1] * 2).sum(0)[:3]

    def root(x, w):
        return Sums.apply(x, w) * 2

    compiled = G.compile(root, backend="eager", dynamic=True, fullgraph=True)
    for n in (2, 4, 6):
        grads = []
        for f in (root, compiled):
            w = G.ones(3, requires_grad=True)
            f(G.ones(n, 3, requires_grad=True), w).sum().backward()
            grads.append(w.grad.tolist())
        assert grads[0] == grads[1]
