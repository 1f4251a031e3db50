# SPDX-License-Identifier: Apache-2.0
"""Functions that are nodes as a whole (allow_in_graph), and hooks on tensors that the compiled
function makes: against plain Python, to the bit.

What is compared: results, gradients, and a log of what ran in which order with which values.
"""

import gc
import warnings
import weakref

import pytest

import gramme as G
from stress import FORCED, undisturbed

LOG = []
node = G.compiler.allow_in_graph


def bits(t):
    return (
        None
        if t is None
        else (str(t.dtype), tuple(t.shape), t.stride(), bytes(t.detach().numpy().tobytes()))
    )


# -- Functions of the host's


@node
def two(x, k, flag=False):
    LOG.append(("two", k, flag))
    return x * k, (x + k).t()


@node
def one(x):
    LOG.append("one")
    return x.exp()


@node
def three(x):
    LOG.append("three")
    return [x * 2, x > 0, x.sum()]


@node
def note(x):
    LOG.append(("note", x.tolist()))
    return x + 0


def double(g):
    LOG.append(("double", g.tolist()))
    return g * 2


def see(g):
    LOG.append(("see", g.tolist()))


def in_place(g):
    LOG.append(("in place", g.tolist()))
    g.mul_(3)


# -- Programs: calls


def several_results(x, w):
    a, b = two(x * w, 3, flag=True)
    one(a)  # nobody reads it, and it runs
    return (a.t() @ x).sum() + b.sum()


def a_list_of_results(x, w):
    a, b, c = three(x * w)
    return a.sum() * c + G.where(b, x, w).sum()


def called_for_what_it_does(x, w):
    note(x)
    note(w)


def without_gradients(x, w):
    with G.no_grad():
        a = one(x * w)
    return (a * x).sum()


def in_a_row(x, w):
    a = one(x)
    b = note(a * w)
    c = one(b.sin())
    return (c * a).sum(), b


def same_call_twice(x, w):
    return (one(x) * one(x)).sum() + one(w).sum()


# -- Programs: hooks


def hook_on_a_result(x, w):
    y = x * w
    y.register_hook(double)
    return y, y.sin().sum()


def taken_off(x, w):
    y = x * w
    h = y.register_hook(see)
    y.register_hook(double)
    h.remove()
    h.remove()
    y.register_hook(see)
    z = y * w
    z.register_hook(see)
    with z.register_hook(double):
        pass
    return (z * x).sum()


def around_a_write(x, w):
    y = x * w
    y.register_hook(see)
    y = y.mul_(2)
    y.register_hook(double)
    return y.sum() * y.exp().sum()


def on_a_view(x, w):
    y = x * w
    v = y[0]
    v.register_hook(double)
    u = v * 2
    y.mul_(3)
    v.register_hook(see)
    return (u * v).sum() + y.sum()


def after_its_readers(x, w):
    y = x * w
    a = y.sin()
    y.register_hook(double)
    return (a * y.cos()).sum()


def changes_in_place(x, w):
    y = x * w
    y.register_hook(in_place)
    return (y * y).sum()


def on_a_call(x, w):
    y = one(x * w)
    y.register_hook(double)
    return y.sum()


def with_hooks_on_leaves(x, w):
    y = x * w
    y.register_hook(see)
    z = y * w
    z.register_hook(double)
    x.register_hook(see)
    w.register_hook(double)
    return z.sum()


def on_several_results(x, w):
    a, b = (x * w).split(1, 0)
    a.register_hook(double)
    b.register_hook(see)
    values, _ = (x + w).max(1)
    values.register_hook(double)
    return (a * b).sum() + values.sum()


@node
def thirds(x, y, again):
    return x * x * x * 0.3 + x * y + again * 0.7


def read_many_times(x, w):
    y = x * w
    a = y * 0.1
    z = thirds(y, w, y) + thirds(again=x, x=y, y=y)
    return (z * y * a).sum()


CALLS = [
    several_results,
    read_many_times,
    a_list_of_results,
    called_for_what_it_does,
    without_gradients,
    in_a_row,
    same_call_twice,
    on_a_call,
]
HOOKS = [
    hook_on_a_result,
    taken_off,
    around_a_write,
    on_a_view,
    after_its_readers,
    changes_in_place,
    with_hooks_on_leaves,
    on_several_results,
]


# -- What is done with the results


def total(results):
    return sum((r.sum() for r in results[1:]), results[0].sum())


def backward(x, w, results):
    total(results).backward()


def backward_twice(x, w, results):
    s = total(results)
    s.backward(retain_graph=True)
    s.backward()


def of_the_first(x, w, results):
    results[0].sum().backward()


def of_the_last(x, w, results):
    results[-1].sum().backward()


def with_hooks_on_results(x, w, results):
    for r in results:
        r.register_hook(see)
    backward(x, w, results)


def retained(x, w, results):
    for r in results:
        r.retain_grad()
    backward(x, w, results)
    LOG.extend(bits(r.grad) for r in results)


def with_hooks_on_arguments(x, w, results):
    x.register_hook(see)
    w.register_post_accumulate_grad_hook(lambda t: LOG.append(("post", t.grad.tolist())))
    backward(x, w, results)


def of_one_argument(x, w, results):
    LOG.append(bits(G.autograd.grad(results[-1].sum(), [x])[0]))


def twice_differentiated(x, w, results):
    (g,) = G.autograd.grad(results[-1].sum(), x, create_graph=True)
    (g * g).sum().backward()


def on_compiled_tape(x, w, results):
    with G._dynamo.compiled_autograd.enable("eager"):
        backward(x, w, results)


USES = [
    backward,
    backward_twice,
    of_the_first,
    of_the_last,
    with_hooks_on_results,
    retained,
    with_hooks_on_arguments,
    of_one_argument,
    on_compiled_tape,
]


def history(f, use, calls=2):
    rows = []
    for _ in range(calls):
        LOG.clear()
        x = G.tensor([[0.5, 1.0, 2.0], [3.0, 0.25, 0.75]], requires_grad=True)
        w = G.tensor([1.0, 2.0, 3.0], requires_grad=True)
        results = f(x, w)
        results = results if isinstance(results, tuple) else (results,)
        results = [r for r in results if r is not None]
        row = [bits(r) for r in results]
        if results:
            use(x, w, results)
        rows.append((row, bits(x.grad), bits(w.grad), list(LOG)))
    return rows


def same(f, use, **how):
    plain, compiled = history(f, use), history(G.compile(f, fullgraph=True, **how), use)
    assert plain[1] == compiled[1]
    if f in HOOKS:  # nothing of a hook runs while recording
        assert plain[0] == compiled[0]
    else:
        assert plain[0][:3] == compiled[0][:3]


@undisturbed
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("f", CALLS + HOOKS)
def test_hook_23_and_allow_in_graph_as_plain_python(f, use):
    same(f, use, backend="tcc")


@undisturbed
@pytest.mark.parametrize(
    "options",
    [
        {"partition": "min-cut"},
        {"memory-budget": 0.0},
        {"partition": "min-cut", "memory-budget": 0.0},
    ],
)
@pytest.mark.parametrize("f", CALLS + HOOKS)
def test_nothing_is_run_again_whatever_is_saved(f, options):
    for use in (backward, backward_twice, with_hooks_on_results):
        same(f, use, backend="tcc", options=options)


@undisturbed
@pytest.mark.parametrize("backend", ["eager", "cc", "auto"])
def test_other_back_ends(backend):
    for f in CALLS + HOOKS:
        same(f, backward, backend=backend)


@undisturbed
@pytest.mark.parametrize("f", HOOKS)
def test_hooks_run_in_derivatives_of_derivatives(f):
    same(f, twice_differentiated, backend="tcc")


# -- Derivatives of derivatives


def cubed_and_scaled(x, w):
    return (cubed(x * 2) * w).sum()


def of_two_results(x, w):
    a, b = two_of_one(x)
    return (a * b * w).sum()


def one_after_another(x, w):
    return (cubed(cubed(x)) * w).sum()


@node
def cubed(x):
    LOG.append("cubed")
    return x * x * x


@node
def two_of_one(x):
    LOG.append("two of one")
    return x.exp(), x.sin()


class Squared(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * ctx.saved_tensors[0]


@node
def squared(x):
    return Squared.apply(x)


def through_a_function(x, w):
    return (squared(x.sin()) * w).sum()


def derivatives(f, x, w, most):
    """The derivative of f for x, that of its square, and so on: each is of what was the last."""
    found = [f(x, w)]
    for n in range(most):
        (g,) = G.autograd.grad((found[-1] * found[-1]).sum(), x, create_graph=n + 1 < most)
        found.append(g)
    return [t.detach() for t in found]


@undisturbed
@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize(
    "f", [cubed_and_scaled, of_two_results, one_after_another, through_a_function]
)
def test_derivatives_of_derivatives_through_a_node(f, most, backend):
    """Up to the order in which the terms of a sum are added: plain Python meets those of the inside
    and of the outside in turns."""
    compiled = G.compile(f, backend=backend, fullgraph=True)

    def leaves():
        return G.tensor([[0.5, 0.75, 0.25], [0.3, 0.6, 0.9]], requires_grad=True), G.tensor(
            [0.5, 0.25, 0.75]
        )

    expected = derivatives(f, *leaves(), most)
    for _ in range(2):
        for have, want in zip(derivatives(compiled, *leaves(), most), expected):
            assert G.allclose(have, want, rtol=1e-5, atol=0)


@undisturbed
def test_a_second_derivative_runs_the_node_once():
    compiled = G.compile(one_after_another, backend="eager", fullgraph=True)
    x, w = G.tensor([0.5, 1.5], requires_grad=True), G.ones(2)
    compiled(x, w)
    LOG.clear()
    (g,) = G.autograd.grad(compiled(x, w), x, create_graph=True)
    g.sum().backward()
    assert LOG == ["cubed"] * 2


@undisturbed
def test_gradients_that_come_in_are_differentiated_too():
    """d/dv of d(v . f)/dx: the gradient of the node's result is a variable of its own."""
    compiled = G.compile(lambda x: cubed(x), backend="eager", fullgraph=True)

    def of(f):
        x, v = G.tensor([0.5, 1.5], requires_grad=True), G.tensor([2.0, 3.0], requires_grad=True)
        (g,) = G.autograd.grad(f(x), x, v, create_graph=True)
        return bits(G.autograd.grad(g.sum(), v)[0])

    assert of(compiled) == of(lambda x: x * x * x)


@undisturbed
def test_what_a_second_derivative_keeps_goes_with_it():
    compiled, seen = G.compile(lambda x: cubed(x).sum(), backend="eager", fullgraph=True), []
    for _ in range(2):
        x = G.tensor([0.5, 1.5], requires_grad=True)
        (g,) = G.autograd.grad(compiled(x), x, create_graph=True)
        g.sum().backward()
        seen.append(weakref.ref(x))
        del x, g
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


@pytest.mark.parametrize("f", CALLS + HOOKS)
def test_without_fullgraph(f):
    if FORCED and f is read_many_times:
        pytest.skip(
            "what a node adds up to one gradient, and what comes from behind a break, are summed "
            "apart"
        )
    plain, compiled = history(f, backward), history(G.compile(f, backend="tcc"), backward)
    n = 3 if FORCED else 4  # whenever a call is recorded, the function is tried
    assert plain[1][:n] == compiled[1][:n]


@undisturbed
def test_a_region_that_is_computed_again_calls_it_once():
    def f(x, w):
        return G.utils.checkpoint.checkpoint(lambda x: (x * w).sin(), x).sum() + one(x).sum()

    same(f, backward, backend="tcc", options={"partition": "min-cut"})


@undisturbed
def test_saved_tensors_hooks_see_what_it_saves_and_no_ticket():
    def pack(t):
        LOG.append(("pack", t.dtype, tuple(t.shape)))
        return t

    def run(f):
        LOG.clear()
        x, w = G.ones(2, 3).requires_grad_(), G.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with G.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            s = f(x, w)
        s.backward()
        return bits(x.grad), bits(w.grad), [entry for entry in LOG if entry[0] == "pack"]

    compiled = G.compile(on_a_call, backend="tcc", fullgraph=True)
    history(compiled, backward, 1)
    have, want = run(compiled), run(on_a_call)
    assert have[:2] == want[:2]
    assert have[2] and all(entry[1] == G.float32 for entry in have[2])


@undisturbed
def test_inlined_hooks_beside_a_call():
    @G.autograd.graph.inlineable_saved_tensors_hook
    def pack(t):
        return t * 2

    @G.autograd.graph.inlineable_saved_tensors_hook
    def unpack(t):
        return t * 0.5

    def run(f):
        x, w = G.ones(2, 3).requires_grad_(), G.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with G.autograd.graph.saved_tensors_hooks(pack, unpack):
            s = f(x, w)
        s.backward()
        return bits(x.grad), bits(w.grad)

    assert run(on_a_call) == run(G.compile(on_a_call, backend="tcc", fullgraph=True))


# -- Back ends in Python


class Keep:
    def __init__(self, edit=False):
        self.modules, self.edit = [], edit

    def __call__(self, module, examples):
        self.modules.append(module)
        if self.edit:
            module.graph.lint()
            module.recompile()
        return module


@undisturbed
@pytest.mark.parametrize("edit", [False, True])
@pytest.mark.parametrize("f", CALLS + HOOKS)
def test_a_back_end_in_python_gets_the_function(f, edit):
    keep = Keep(edit)
    same(f, backward, backend=keep)
    names = [n.target for n in keep.modules[0].graph.nodes if n.op == "call_function"]
    if f is on_a_call:
        assert names.count(one) == 2  # the result, and what its gradient is asked of
    elif f in HOOKS:
        assert "gradient_hook" in names


@undisturbed
def test_the_text_of_a_graph_names_it():
    keep = Keep()
    history(G.compile(on_a_call, backend=keep, fullgraph=True), backward, 1)
    text = str(
        G.compiler.explain(G.compile(on_a_call, backend="eager"))(
            G.ones(2, 3).requires_grad_(), G.ones(3)
        )
    )
    assert 'host_call "one" ticket' in text and 'gradient_hook "double"' in text, text


# -- Guards


@undisturbed
def test_another_function_or_constant_is_another_entry():
    def f(x, fn, k):
        return fn(x, k)[0].sum()

    @node
    def other(x, k):
        return (x - k,)

    compiled = G.compile(f, backend="tcc", fullgraph=True)
    for fn, k in ((two, 2), (two, 3), (other, 3), (two, 2), (other, 3)):
        assert compiled(G.ones(2, 2), fn, k).item() == f(G.ones(2, 2), fn, k).item()
    assert compiled.status()["graphs"] == 3


@undisturbed
def test_hook_21_another_hook_on_an_intermediate_is_another_entry():
    def f(x, hook):
        y = x * 1
        y.register_hook(hook)
        return y.sum()

    compiled = G.compile(f, backend="tcc", fullgraph=True)
    for hook, want in ((double, 2), (see, 1), (double, 2), (see, 1)):
        x = G.ones(2).requires_grad_()
        compiled(x, hook).backward()
        assert x.grad.tolist() == [want] * 2
    assert compiled.status()["graphs"] == 2


@undisturbed
def test_sizes_of_its_arguments_are_numbers():
    @node
    def half(x):
        return x[: x.shape[0] // 2] * 2

    compiled = G.compile(lambda x: half(x * 2).sum(), backend="tcc", fullgraph=True)
    for n in (4, 6, 8, 4, 10):
        assert compiled(G.ones(n)).item() == 4.0 * (n // 2)


# -- What a call may not do


def refuses(fn, text, *args):
    compiled = G.compile(lambda x: node(fn)(x).sum(), backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = str(G.compiler.explain(compiled)(G.ones(3).requires_grad_()))
    assert "[KEPT_WHOLE]" in report and text in report, report


WEIGHT = G.ones(3, requires_grad=True)


def reads_another(x):
    return x * WEIGHT


def writes(x):
    with G.no_grad():
        x.mul_(2)
    return x + 1


def draws(x):
    return x + G.rand(3)


def raises_on_ones(x):
    if x.tolist() == [1, 1, 1]:
        raise ValueError("no ones")
    return x + 1


def gives_a_number(x):
    return 3.0


@undisturbed
@pytest.mark.parametrize(
    "fn, text",
    [
        (reads_another, "requires grad and is none of its arguments"),
        (writes, "changes an argument in place"),
        (draws, "draws random numbers"),
        (raises_on_ones, "ValueError: no ones"),
    ],
)
def test_what_cannot_be_a_node_is_a_break_with_a_reason(fn, text):
    node(fn)
    compiled = G.compile(lambda x: fn(x * 1).sum(), fullgraph=True, backend="eager")
    with pytest.raises(G.compiler.Unsupported, match="is called as a whole.*" + text):
        compiled(G.full((3,), 2.0).requires_grad_())
    x = G.full((3,), 2.0).requires_grad_()
    state = G.get_rng_state() if hasattr(G, "get_rng_state") else None
    y = G.compile(lambda x: fn(x * 1).sum(), backend="eager")(x)
    if state is None and fn is not draws:
        assert y.item() == fn(G.full((3,), 2.0)).sum().item()


MOOD = ["plain"]


@node
def moody(x):
    y = x * 2
    mood = MOOD[0]
    return {
        "plain": y,
        "longer": y.repeat(2),
        "tuple": (y,),
        "double": y.double(),
        "detached": y.detach(),
        "itself": x,
        "dict": {"y": y},
    }[mood]


@undisturbed
@pytest.mark.parametrize(
    "mood, text",
    [
        ("itself", "moody: result 0 lies in the memory of an argument"),
        ("dict", "gave something else"),
    ],
)
def test_a_call_whose_history_cannot_be_tied_is_an_error_that_names_the_function(mood, text):
    MOOD[0] = "plain"
    compiled = G.compile(lambda x: moody(x).sum(), backend="tcc", fullgraph=True)
    x = G.ones(3).requires_grad_()
    assert compiled(x).item() == 6
    MOOD[0] = mood
    try:
        with pytest.raises(RuntimeError, match=text):
            compiled(x)
    finally:
        MOOD[0] = "plain"
    assert compiled(x).item() == 6


@undisturbed
@pytest.mark.parametrize(
    "mood, text, grad",
    [
        ("longer", r"moody: result 0 is .*\[6\].*, but it was .*\[3\]", 4),
        ("tuple", "gave a tuple of tensors", 2),
        ("double", "moody: result 0 is f64", 2),
    ],
)
def test_a_call_that_differs_is_plain_pythons_with_its_history_and_told(mood, text, grad):
    def total(y):
        return (y[0] if isinstance(y, tuple) else y).sum()

    MOOD[0] = "plain"
    compiled = G.compile(lambda x: total(moody(x)), backend="tcc", fullgraph=True)
    x = G.ones(3).requires_grad_()
    assert compiled(x).item() == 6
    MOOD[0] = mood
    try:
        with pytest.warns(G.compiler.GraphBreakWarning, match=text):
            result = compiled(x)
    finally:
        MOOD[0] = "plain"
    result.backward()
    assert x.grad.tolist() == [grad] * 3
    assert compiled(x).item() == 6


@undisturbed
def test_a_call_that_gives_no_history_where_it_gave_one_is_plain_pythons_and_told():
    MOOD[0] = "plain"
    compiled = G.compile(lambda x: moody(x).sum(), backend="tcc", fullgraph=True)
    x = G.ones(3).requires_grad_()
    assert compiled(x).requires_grad
    MOOD[0] = "detached"
    try:
        with pytest.warns(G.compiler.GraphBreakWarning, match="moody: result 0 requires no grad"):
            result = compiled(x)
        assert result.item() == 6 and not result.requires_grad
    finally:
        MOOD[0] = "plain"


@undisturbed
def test_what_it_raises_comes_out():
    @node
    def picky(x):
        if x.sum() > 100:
            raise KeyError("too much")
        return x + 1

    def hook(g):
        raise LookupError("no gradient today")

    def f(x):
        y = picky(x)
        return y.sum()

    compiled = G.compile(f, backend="tcc", fullgraph=True)
    assert compiled(G.ones(3)).item() == 6
    with pytest.raises(KeyError, match="too much"):
        compiled(G.full((3,), 99.0))
    hooked = G.compile(lambda x: hooked_sum(x, hook), backend="tcc", fullgraph=True)
    with pytest.raises(LookupError, match="no gradient today"):
        hooked(G.ones(3).requires_grad_()).backward()


def hooked_sum(x, hook):
    y = x * 2
    y.register_hook(hook)
    return y.sum()


@undisturbed
def test_hook_22_a_hook_that_is_made_inside_breaks():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 5)
        return y.sum()

    with pytest.raises(
        G.compiler.Unsupported, match="register_hook on a tensor that the function makes"
    ):
        G.compile(f, backend="eager", fullgraph=True)(G.ones(2).requires_grad_())
    x = G.ones(2).requires_grad_()
    G.compile(f, backend="eager")(x).backward()
    assert x.grad.tolist() == [10, 10]


@undisturbed
def test_a_handle_of_an_intermediate_that_leaves_is_a_break():
    def f(x):
        y = x * 2
        return y.sum(), y.register_hook(double)

    with pytest.raises(G.compiler.Unsupported, match="hook handle|HookHandle"):
        G.compile(f, backend="eager", fullgraph=True)(G.ones(2).requires_grad_())
    x = G.ones(2).requires_grad_()
    y, handle = G.compile(f, backend="eager")(x)
    handle.remove()
    y.backward()
    assert x.grad.tolist() == [2, 2]


@undisturbed
def test_what_a_call_left_behind_goes_with_the_history():
    alive = []

    class Mark:
        pass

    class Keeps(G.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark = Mark()
            alive.append(weakref.ref(ctx.mark))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    @node
    def keeps(x):
        return Keeps.apply(x)

    compiled = G.compile(lambda x: keeps(x * 1).sum(), backend="tcc", fullgraph=True)
    x = G.ones(3).requires_grad_()
    compiled(x)
    del alive[:]
    y = compiled(x)
    gc.collect()
    assert [ref() is not None for ref in alive] == [True]
    y.backward()
    gc.collect()
    assert [ref() is not None for ref in alive] == [False] and x.grad.tolist() == [2, 2, 2]
    y = compiled(x)
    del y
    gc.collect()
    assert alive[-1]() is None
