# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that change their arguments in place, whose arguments share memory, or that
give out views: as plain ones."""

import pytest
from afterwards import grad, lines_of
from same import check, describe, flatten, outcome
from stress import FORCED, counted

import gramme as G

BACKENDS = ["eager", "tcc"]
backends = pytest.mark.parametrize("backend", BACKENDS)


def base(n=12):
    return G.arange(n).float() * 0.37 - 1.5


def inputs(*makers):
    """A maker of fresh inputs without leaves."""
    return lambda: (list(makers[0]()) if len(makers) == 1 else [m() for m in makers], [])


def two_views():
    b = base(6)
    return b.view(2, 3), b.view(2, 3)


# AOT-03: all orders of the two statements
def p6a(a, b):
    a.mul_(2)
    b.t_()


def p6a_turned(a, b):
    b.t_()
    a.mul_(2)


@backends
@pytest.mark.parametrize("f", [p6a, p6a_turned])
def test_aot_03_two_views_one_doubled_one_turned(f, backend):
    check(inputs(two_views), f, backend)
    a, b = two_views()
    G.compile(f, backend=backend, fullgraph=True)(a, b)
    assert (
        b.shape == (3, 2)
        and a.shape == (2, 3)
        and a.t().tolist() == b.tolist() == (two_views()[0] * 2).t().tolist()
    )


def p6b(x, y):
    x.mul_(2)
    return x + y


def apart():
    return base(4), base(4)


def overlapping():
    b = base(8)
    return b[:4], b[2:6]


def side_by_side():
    b = base(8)
    return b[:4], b[4:]


def one_twice():
    b = base(4)
    return b, b


# AOT-19, AOT-07
@backends
def test_aot_19_a_call_that_overlaps_otherwise_is_compiled_anew(backend):
    f = G.compile(p6b, backend=backend, fullgraph=True)
    for make in (
        apart,
        overlapping,
        apart,
        side_by_side,
        one_twice,
        overlapping,
        apart,
        side_by_side,
    ):
        check(inputs(make), p6b, compiled=f)
    # apart (also side by side in one storage), with an overlap, one tensor twice; the rest are hits
    if FORCED:
        return
    assert f.status()["graphs"] == 3
    assert "no byte in common" in f.entries()[-1]["guards"]
    assert "no byte in common" not in f.entries()[0]["guards"] + f.entries()[1]["guards"]


def test_aot_19_reading_alone_takes_nothing_for_granted():
    f = G.compile(lambda x, y: x * 2 + y, backend="eager", fullgraph=True)
    f(*apart())
    assert "MEMORY" not in f.entries()[0]["guards"]
    f(*overlapping())
    assert counted(f.status()["graphs"]) == 1


# AOT-20
def p6c(t, ta):
    t.add_(100)
    return ta[0]


def p6c_view(t, ta):
    t.add_(100)
    return ta.view(-1)


def p6c_itself(t, ta):
    t.add_(100)
    return ta


def whole_and_rest():
    t = base(6)
    return t, t[1:]


@backends
@pytest.mark.parametrize("f", [p6c, p6c_view, p6c_itself])
def test_aot_20_views_of_merged_inputs_keep_their_place(f, backend):
    check(inputs(whole_and_rest), f, backend)


# CKPT-06, CKPT-08, CKPT-10
def p5a(x, y):
    x = x.t_()
    y = y.t_()
    return x + y


def p5b(a):
    return a.unsqueeze_(0)


def through_a_no_op(x):
    x.contiguous().unsqueeze_(0)
    return x


@backends
def test_ckpt_06_a_second_call_with_the_same_shapes_is_a_hit(backend):
    f = G.compile(p5a, backend=backend, fullgraph=True)
    for _ in range(3):
        check(inputs(lambda: base(6).view(2, 3), lambda: base(6).view(2, 3)), p5a, compiled=f)
    assert counted(f.status()["graphs"]) == 1


@backends
def test_ckpt_08_a_rank_change_happens_once(backend):
    def make():
        return [G.arange(396).view(1, 1, 1, 12, 11, 3)], []

    check(make, p5b, backend)
    (a,), _ = make()
    G.compile(p5b, backend=backend, fullgraph=True)(a)
    assert a.shape == (1, 1, 1, 1, 12, 11, 3) and a.stride() == (396, 396, 396, 396, 33, 3, 1)


@backends
def test_ckpt_10_a_rank_change_through_a_no_op(backend):
    check(inputs(lambda: base(6)), through_a_no_op, backend)


def resized(x):
    x.resize_(3, 2)
    x.add_(1)
    return x[0]


def taken_over(x, y):
    x.set_(y)
    y.mul_(2)
    return x + 1


def shaped_and_back(x):
    x.unsqueeze_(0)
    x.squeeze_()
    return x * 2


def inner_reshaped(x):
    y = x * 2
    y.t_()
    y.mul_(3)
    return y, y[0]


def moved_then_reshaped(x, y):
    z = y * 0.5
    x.set_(z)
    x.unsqueeze_(0)
    return x


def view_of_moved(x, y):
    x.set_(y)
    return x[0]


# The view's base is x, which the graph does not say
@pytest.mark.filterwarnings("ignore")
def test_a_view_of_a_tensor_that_took_other_memory_is_left_to_python():
    check(inputs(lambda: base(6), lambda: base(4)), view_of_moved, fullgraph=False)


@backends
@pytest.mark.parametrize(
    "f, makers",
    [
        (resized, [lambda: base(6).view(2, 3)]),
        (taken_over, [lambda: base(6), lambda: base(4).view(2, 2)]),
        (shaped_and_back, [lambda: base(6)]),
        (inner_reshaped, [lambda: base(6).view(2, 3)]),
        (moved_then_reshaped, [lambda: base(6), lambda: base(4)]),
    ],
)
def test_inputs_and_results_that_change_shape_or_memory(f, makers, backend):
    check(inputs(*makers), f, backend)


# -- Writes and gradients --------------------------------------------------------------------------


def with_leaf(make):
    def made():
        leaf = base().requires_grad_()
        return make(leaf), [leaf]

    return made


def total(results):
    results = results if isinstance(results, (tuple, list)) else [results]
    loss = sum((t * (i + 0.5)).sum() for i, t in enumerate(results) if t.requires_grad)
    loss.backward()


def scaled(x, w):
    x.mul_(w)
    return x * 2


def zeroed(x):
    x.zero_()
    return x * 2


def zeroed_inside(x):
    y = x * 3
    y.zero_()
    return y, x * y


def part_of_it(x):
    x[2:4].mul_(3)
    return x.sin()


@backends
@pytest.mark.parametrize(
    "f, make",
    [
        (scaled, lambda w: [base(), w]),
        (scaled, lambda w: [w * 1.25, w]),
        (scaled, lambda w: [(w * 1.25).view(3, 4), w.view(3, 4)]),
        (zeroed, lambda w: [w * 1.25]),
        (zeroed_inside, lambda w: [w]),
        (part_of_it, lambda w: [w * 1.25]),
    ],
)
def test_writes_with_a_history(f, make, backend):
    check(with_leaf(make), f, backend, after=total)


def step(w, g):
    loss = (w * g).sum()
    with G.no_grad():
        w.add_(g, alpha=-0.5)
    return loss


def behind_its_back(w):
    w.detach().mul_(2)
    return w.detach() + 1


@backends
def test_leaves_change_with_gradients_off(backend):
    check(with_leaf(lambda w: [w, base()]), step, backend)
    check(with_leaf(lambda w: [w]), behind_its_back, backend)


def read_afterwards(w, g):
    with G.no_grad():
        w.add_(g)
    return (w * w).sum()


@pytest.mark.filterwarnings("ignore")
def test_a_gradient_after_such_a_write_is_left_to_python():
    check(with_leaf(lambda w: [w, base()]), read_afterwards, fullgraph=False, after=total)


def written(w):
    w.mul_(2)
    return w


@pytest.mark.filterwarnings("ignore")
def test_leaf_ness_is_guarded():
    f = G.compile(written)
    check(with_leaf(lambda w: [w * 2]), written, compiled=f, after=total)
    check(with_leaf(lambda w: [w]), written, compiled=f)  # raises, as in eager
    check(with_leaf(lambda w: [w.view(3, 4)]), written, compiled=f)
    assert "WRITABLE" in f.entries()[-1]["guards"]


@pytest.mark.filterwarnings("ignore")
def test_expanded_memory_is_refused_as_in_eager():
    check(inputs(lambda: base(1).expand(4)), written, fullgraph=False)


def no_op(x):
    x.copy_(x)
    return x


@pytest.mark.filterwarnings("ignore")
def test_a_write_of_itself_is_refused_where_it_would_be():
    f = G.compile(no_op)
    check(inputs(lambda: base(4)), no_op, compiled=f)
    check(inputs(lambda: base(1).expand(4)), no_op, compiled=f)


def both_written(x, y):
    x.copy_(y)
    y.add_(1)


# The version of a tensor says the same, whether two arguments are one object or two over the same
# memory.
@backends
def test_a_write_of_itself_is_counted(backend):
    def two_objects():
        b = base()
        return [b.view(3, 4)[1:], b.view(3, 4)[1:]]

    f = G.compile(both_written, backend=backend, fullgraph=True)
    check(inputs(two_objects), both_written, compiled=f)
    check(inputs(lambda: two_objects()[:1] * 2), both_written, compiled=f)
    check(inputs(lambda: [base()] * 2), both_written, compiled=f)


def twice(x):
    y = x + 1
    y.mul_(2)
    y[0].add_(1)
    return y, y[1:]


@backends
def test_versions_advance_as_often(backend):
    check(inputs(lambda: base(4)), no_op, backend)
    check(inputs(lambda: base(4)), twice, backend)
    check(inputs(overlapping), lambda a, b: (a.mul_(2), b.add_(1), a.sin_()), backend)


def through_data(w):
    w.data.mul_(2)
    return w.data + 1


def asked_again(w):
    return w.requires_grad_() * 2


@backends
def test_data_is_the_tensor_without_history(backend):
    check(with_leaf(lambda w: [w]), through_data, backend)
    check(with_leaf(lambda w: [w]), asked_again, backend, after=total)


def data_replaced(w, x):
    y = w * 2
    w.data = x
    return y, w * 3


def leaf_made(x, y):
    z = x * 2
    x.requires_grad_()
    return z, x * 3 + y


def leaf_unmade(x):
    x.requires_grad_(False)
    return x * 3


# Python does it, between two graphs
@pytest.mark.filterwarnings("ignore")
@backends
@pytest.mark.parametrize(
    "f, make",
    [
        (data_replaced, lambda w: [w, base() * 7]),
        (leaf_made, lambda w: [base(), w]),
        (leaf_unmade, lambda w: [w]),
    ],
)
def test_leaves_that_are_made_or_get_other_data_in_the_region(f, make, backend):
    check(with_leaf(make), f, backend, fullgraph=False)


def read_stale(x):
    return x * 2


def test_a_view_whose_base_got_a_history_is_guarded_as_it_is():
    """The history of such a view is made when someone asks: the guard has to."""
    f = G.compile(read_stale, backend="eager", fullgraph=True)
    leaf = base(1).requires_grad_()
    for moves in (False, True):
        b = base(4)
        view, first = b.view(2, 2), b[:1]
        if moves:
            first.mul_(leaf)
        assert f(view).requires_grad == moves
    assert f.status()["graphs"] == 2


def on_again(x):
    with G.enable_grad():
        x[1:].mul_(3)
        v = x[0]
    return v, x


def off_for_good(x):
    x[1:].mul_(3)
    return x[0], x


@backends
def test_the_mode_of_the_statement_counts_not_that_of_the_call(backend):
    for f in (on_again, off_for_good):

        def make():
            leaf = base().requires_grad_()
            x = leaf * 1.25
            return [x], [leaf]

        def quietly(g):
            def call(x):
                with G.no_grad():
                    return g(x)

            return call

        inputs, leaves = make()
        want = outcome(quietly(f), inputs, leaves, total)
        inputs, leaves = make()
        assert (
            outcome(quietly(G.compile(f, backend=backend, fullgraph=True)), inputs, leaves, total)
            == want
        )


def quiet_view_written(x):
    y = x * 0.5
    with G.no_grad():
        v = y[1:]
    v[1:].copy_(v[:-1])
    return v, y


def quiet_view_of_written(x):
    y = x * 0.5
    with G.no_grad():
        v = y[1:]
    y[0] = 2.5
    return v, y


def quiet_view_of_an_alias(x, y):
    with G.no_grad():
        v = x[1:]
    y.sin_()
    return v, x


# A view taken with gradients off is a view: what is written to its base gives it a history.
@pytest.mark.filterwarnings("ignore")
@backends
@pytest.mark.parametrize(
    "f, make",
    [
        (quiet_view_written, lambda w: [w]),
        (quiet_view_of_written, lambda w: [w]),
        (quiet_view_of_an_alias, lambda w: (lambda b: [b.view(3, 4), b])(w * 1.25)),
    ],
)
def test_views_taken_with_gradients_off(f, make, backend):
    check(with_leaf(make), f, backend, after=total, fullgraph=False)


def gains_then_quiet(x, y):
    y.mul_(x)
    y.detach().add_(1)
    return y


def quiet_add(x):
    with G.no_grad():
        v = x[1:]
        v.add_(v)
    return x


def quiet_add_and_other(x, y):
    with G.no_grad():
        v = x[1:]
    with G.no_grad():
        v.mul_(2)
    return (y * y).sum(), x


def quiet_view_read_after(x, y):
    with G.no_grad():
        v = x[1:]
    y.sin_()
    return v.t() * 2, y * 3


# Writes that autograd does not see leave the histories of all names of the memory as they were.
@pytest.mark.filterwarnings("ignore")
@backends
@pytest.mark.parametrize(
    "f, make",
    [
        (gains_then_quiet, lambda w: [w * 1.25, base()]),
        (gains_then_quiet, lambda w: [w[1], base()]),
        (quiet_add, lambda w: [w * 1.25]),
        (quiet_add, lambda w: [w[:8]]),
        (quiet_add_and_other, lambda w: (lambda b: [b.view(3, 4), b.view(2, 6)])(w * 1.25)),
        (quiet_view_read_after, lambda w: (lambda b: [b.view(3, 4), b.view(3, 4)])(w * 1.25)),
    ],
)
def test_quiet_writes_leave_histories_alone(f, make, backend):
    check(with_leaf(make), f, backend, after=total, fullgraph=False)


def quiet_view_written(x):
    y = x * 2
    with G.no_grad():
        v = y[1:]
    v.mul_(3)
    return v, v[1:] + x.sum()


# What is taken with gradients off stays out of the history of its memory, also when it is written
# to with gradients on.
@pytest.mark.filterwarnings("ignore")
@backends
def test_a_view_that_was_taken_with_gradients_off_has_no_history(backend):
    check(
        with_leaf(lambda w: [w * 1.25]), quiet_view_written, backend, after=total, fullgraph=False
    )
    v, _ = quiet_view_written(base().requires_grad_())
    assert not v.requires_grad and v._base is not None


def test_it_takes_nothing_that_has_one_either():
    w = base().requires_grad_()
    y = w * 2
    with G.no_grad():
        v = y[1:]
    with pytest.raises(RuntimeError, match="gradients off"):
        v.add_(w[1:])
    v.add_(w[1:].detach())
    assert not v.requires_grad
    with G.no_grad():
        leaf_view = w[1:]
    leaf_view.mul_(2)
    assert w.tolist() == [base().tolist()[0]] + [x * 2 for x in base().tolist()[1:]]


# A result has strides that follow from its shape and the order of dimensions alone, where a size is
# 1 too.
@pytest.mark.parametrize(
    "make",
    [
        lambda b: b.view(2, 6)[::2],
        lambda b: b[:4].view(1, 4).t(),
        lambda b: b.view(3, 1, 4).transpose(0, 2),
    ],
)
def test_strides_of_sizes_of_one(make):
    x = make(base())
    for y in (x * 0.5, x.double(), x + x):
        assert y.stride() == (x * 0.5).stride() == ((x * 0.5) * 0.5).stride()
    check(inputs(lambda: [make(base())]), lambda t: (t * 0.5, (t * 0.5).mul_(2)))
    assert (b := base().view(2, 6)[::2]).stride() == (12, 1) and (b * 2).stride() == (6, 1)


def overwritten_then_used(x):
    y = x * 2
    y.zero_()
    y.add_(x.sum() * 0)
    return y * y


# What is overwritten gets zeros that have no history of their own.
@backends
def test_zeros_for_what_was_overwritten_are_plain(backend):
    def after(results):
        (leaf,) = leaves
        first = G.autograd.grad(
            results[0].sum() if isinstance(results, tuple) else results.sum(),
            [leaf],
            create_graph=True,
        )
        return [f"{g.requires_grad} {g.tolist()}" for g in first]

    def plain(x):
        y = x * 2
        y.zero_()
        return y * y

    leaves = []
    for f in (plain, overwritten_then_used):

        def make():
            leaves[:] = [base().requires_grad_()]
            return list(leaves), list(leaves)

        check(make, f, backend, after=after)
    leaves[:] = [base().requires_grad_()]
    assert not G.autograd.grad(plain(leaves[0]).sum(), leaves, create_graph=True)[0].requires_grad


# What waits for the gradient of a result sees all of it, also what the function itself goes on to
# make of that result.
@backends
def test_hooks_on_results_that_the_function_went_on_with(backend):
    def f(x):
        y = x * 2
        return y, y.sin().sum(), (y * x).sum()

    def answers(fn):
        x, seen = base().requires_grad_(), []
        y, a, b = fn(x)
        y.register_hook(lambda g: seen.append(g.tolist()))
        y.register_hook(lambda g: g * 3)
        y.retain_grad()
        (a + b + (y * 0.5).sum()).backward(retain_graph=True)
        first = G.autograd.grad(a + b, [y], retain_graph=True)[0]
        return seen, y.grad.tolist(), x.grad.tolist(), first.tolist()

    want, have = answers(f), answers(G.compile(f, backend=backend, fullgraph=True))
    assert have == want and len(want[0]) == 2


# A handle takes its hook off wherever the tensor's history went since.
@pytest.mark.parametrize("backend", [None, "eager"])
def test_a_hook_is_taken_off_after_the_tensor_was_written_to(backend):
    def f(x):
        x.mul_(2)
        return x * 1

    leaf = base().requires_grad_()
    x = leaf * 1.25
    handle = x.register_hook(lambda g: g * 100)
    (f if backend is None else G.compile(f, backend=backend))(x)
    handle.remove()
    x.sum().backward()
    assert leaf.grad.tolist() == [2.5] * 12


# Hooks and wishes to keep a gradient stand on one view; its memory is written under another name.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "wait", [lambda t: t.register_hook(lambda g: g * 2), lambda t: t.retain_grad()]
)
def test_views_that_something_waits_for_are_not_merged(wait):
    def f(x, y):
        z = x * 3
        y.mul_(2)
        return z, y

    def answers(fn):
        leaf = base().requires_grad_()
        b = leaf * 1.25
        x, y = b[::2], b.view(3, 4)
        wait(x)
        z, y = fn(x, y)
        (z.sum() + y.sum()).backward()
        return leaf.grad.tolist(), x.grad.tolist() if x.retains_grad else None

    compiled = G.compile(f, backend="eager")
    for _ in range(2):
        assert answers(compiled) == answers(f)


# The gradient of a division reads its operands, the compiled one reads the result: it can be
# differentiated all the same.
@backends
def test_second_derivatives_of_what_the_backward_does_not_read(backend):
    def after(results):
        (leaf,) = leaves
        (g,) = G.autograd.grad(
            (results[0] if isinstance(results, tuple) else results).sum(), [leaf], create_graph=True
        )
        return [str(G.autograd.grad((g * g).sum(), [leaf])[0].tolist())]

    leaves = []

    def make():
        leaves[:] = [base().requires_grad_()]
        return list(leaves), list(leaves)

    check(make, lambda x: x / (x + 4), backend, after=after)


# -- Histories -------------------------------------------------------------------------------------


def cubed(x, y):
    return (x * x * x).sum(), x.tanh() * y


@backends
def test_double_backward(backend):
    f = G.compile(cubed, backend=backend, fullgraph=True)

    def gradients(g):
        x, y = base(4).requires_grad_(), (base(4) * 2).requires_grad_()
        a, b = g(x, y)
        first = G.autograd.grad(a + b.sum(), [x, y], create_graph=True)
        second = G.autograd.grad(sum((d * d).sum() for d in first), [x, y], create_graph=True)
        third = G.autograd.grad(sum((d * d).sum() for d in second), [x, y])
        return lines_of(first) + lines_of(second) + lines_of(third)

    assert gradients(f) == gradients(cubed)
    assert f.status()["graphs"] == 1


def mean_then_exp(x):
    return x.exp().mean(0), x.sin()


@backends
def test_double_backward_reads_what_was_kept_and_nothing_else(backend):
    """exp keeps its result: the input may change before the second derivative, as in eager."""
    f = G.compile(lambda x: x.exp(), backend=backend, fullgraph=True)

    def gradients(g):
        leaf = base(4).requires_grad_()
        x = leaf * 1
        y = g(x)
        with G.no_grad():
            x.mul_(2)
        (first,) = G.autograd.grad(y.sum(), [leaf], create_graph=True)
        return lines_of([first]) + lines_of(G.autograd.grad((first * first).sum(), [leaf]))

    assert gradients(f) == gradients(lambda x: x.exp())


def squares(x):
    return x * x + x * 0.1


@backends
def test_sums_that_go_on_outside_keep_their_order(backend):
    """The input is used before, inside and after: each term is added where eager adds it."""
    f = G.compile(squares, backend=backend, fullgraph=True)

    def gradients(g):
        x = (G.arange(64).float() * 0.731 - 11.1).requires_grad_()
        before = x * 0.3
        inside = g(x)
        after = x.sin() * 1.7
        (before + inside * 3.3 + after).sum().backward()
        return lines_of([x.grad])

    assert gradients(f) == gradients(squares)


def difference(x, y):
    return x * y - x * 0.7 + y * 0.3


@backends
def test_one_tensor_passed_twice_to_a_function_for_two(backend):
    f = G.compile(difference, backend=backend, fullgraph=True)
    for same in (False, True, False, True):

        def gradients(g):
            x = (G.arange(64).float() * 0.731 - 11.1).requires_grad_()
            y = x if same else (G.arange(64).float() * 0.11).requires_grad_()
            g(x, y).sum().backward()
            return lines_of([x.grad, y.grad])

        assert gradients(f) == gradients(difference)


def loss_and_more(x):
    return (x * 2).sum(), x.log(), x[1:] * 3


@backends
def test_a_result_without_gradient_adds_none(backend):
    """log (0) is not differentiated when nothing was asked of it: no NaN, no sign of zero."""
    f = G.compile(loss_and_more, backend=backend, fullgraph=True)

    def gradients(g):
        x = (G.arange(4).float() - 0.0).requires_grad_()
        g(x)[0].backward()
        return lines_of([x.grad])

    assert gradients(f) == gradients(loss_and_more)


@backends
def test_backward_twice_and_unused_inputs(backend):
    f = G.compile(cubed, backend=backend, fullgraph=True)
    x, y = base(4).requires_grad_(), base(4).requires_grad_()
    a, _ = f(x, y)
    with pytest.raises(RuntimeError, match="not used"):
        G.autograd.grad(a, [x, y], retain_graph=True)
    assert lines_of(G.autograd.grad(a, [x, y], allow_unused=True))[1] == "gradient None"
    with pytest.raises(RuntimeError, match="second time"):
        a.backward()
    b = f(x, y)[1].sum()
    b.backward(retain_graph=True)
    first = x.grad.clone()
    b.backward()
    assert x.grad.tolist() == (first * 2).tolist()


@backends
def test_a_result_that_was_changed_is_refused_where_eager_refuses(backend):
    def f(x):
        y = x.exp()
        return y, x * 2

    compiled = G.compile(f, backend=backend, fullgraph=True)
    for g in (f, compiled):
        x = base(4).requires_grad_()
        y, z = g(x)
        y.detach().add_(1)
        z.sum().backward()  # exp is not reached
        assert x.grad.tolist() == [2, 2, 2, 2]
        y, z = g(x)
        y.detach().add_(1)
        with pytest.raises(RuntimeError, match="in-place operation"):
            y.sum().backward()


def written_result(w, x):
    y = w.tanh()
    y.add_(0)
    return (y * x).sum()


def written_operand(w, x):
    y = w * 2
    z = y * w
    y.zero_()
    return (z * x).sum()


def written_through_a_view(w, x):
    y = (w * 2).exp()
    y[1:].mul_(3)
    return (y * x).sum()


def written_with_gradients_off(w, x):
    y = w * 2
    z = y.square()
    with G.no_grad():
        y.detach().sub_(1)
    return (z * x).sum()


def written_before(w, x):
    y = w * 2
    y.mul_(w)
    y.exp_()
    y.add_(1)
    return (y * x).sum()


def written_and_not_kept(w, x):
    y = w + 2
    z = y + 1
    y.mul_(3)
    return (z * x + y).sum()


@backends
@pytest.mark.parametrize(
    "f",
    [
        written_result,
        written_operand,
        written_through_a_view,
        written_with_gradients_off,
        written_before,
        written_and_not_kept,
    ],
)
def test_a_gradient_that_needs_what_a_write_replaced_is_refused_as_eager_refuses_it(backend, f):
    """Inside of one function, too: there the write runs as Python, between two graphs."""

    def outcome(g):
        w = base(4).requires_grad_()
        try:
            g(w, base(4)).backward()
        except RuntimeError as error:
            assert "changed by an in-place operation" in str(error)
            return "refused", w.grad
        return w.grad.tolist()

    assert outcome(G.compile(f, backend=backend)) == outcome(f)
    assert outcome(f) == ("refused", None) or f in (written_before, written_and_not_kept)
    if f in (written_before, written_and_not_kept):
        outcome(G.compile(f, backend=backend, fullgraph=True))


@backends
def test_only_some_inputs_need_gradients(backend):
    f = G.compile(difference, backend=backend, fullgraph=True)
    for first, second in ((True, False), (False, True), (False, False)):

        def gradients(g):
            x, y = base(4).requires_grad_(first), base(4).requires_grad_(second)
            z = g(x, y)
            if z.requires_grad:
                z.sum().backward()
            return describe([x, y, z]) + lines_of([x.grad, y.grad])

        assert gradients(f) == gradients(difference)


def written_then_read(x):
    x.mul_(2)
    return x.sin() * 3


def written_through_another_name(x, y):
    x.sub_(y.sum())
    return y.abs().sqrt(), x


def written_in_part_then_read(x):
    x[1:] *= 2
    return x.sin() * 3


@backends
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "f", [written_then_read, written_through_another_name, written_in_part_then_read]
)
def test_what_waits_at_an_input_that_is_written_to_sees_what_the_function_reads_too(
    backend, when, f
):
    compiled = G.compile(f, backend=backend, fullgraph=True)

    def gradients(g, wait):
        leaf, seen = base(4).requires_grad_(), []
        x = leaf * 1.25
        if when == "before":
            wait(x, seen)
        results = flatten(g(*[x] * f.__code__.co_argcount))
        if when == "after":
            wait(x, seen)
        (sum((t * (0.5 + i)).sum() for i, t in enumerate(results)) + (x * 0.3).sum()).backward()
        return seen + lines_of([leaf.grad, x.grad])

    def hook(x, seen):
        x.register_hook(lambda d: seen.append(d.tolist()))
        x.register_hook(lambda d: d * 2)

    def keep(x, seen):
        x.retain_grad()

    for wait in (hook, keep):
        assert gradients(compiled, wait) == gradients(f, wait)


def written_from_another_view(a, b):
    a.copy_(b[:1])
    return a * 2


@backends
def test_a_view_of_one_element_whose_stride_is_another(backend):
    """Merged with what shares its memory, it is a view of all of that, and not that itself."""
    compiled = G.compile(written_from_another_view, backend=backend)

    def shown(f):
        one = G.tensor(5.0)
        a, b = one.expand(1), one.expand(2)
        assert a.stride() == (0,)
        return describe([f(a, b), one, a])

    assert [shown(compiled) for _ in range(2)] == [shown(written_from_another_view)] * 2
