# SPDX-License-Identifier: Apache-2.0
"""In which order gradients are added where several views of one tensor have histories: that in
which the program looked at them.

Eager makes the history of a view whose memory was written to when somebody looks at it: reads it
with gradients on, writes to it, asks whether it has one.  A sum has other last bits in another
order, which bfloat16 shows soonest: so all sums here are compared to the bit.
"""

import os

import pytest
from same import bits
from stress import counted

import gramme as G

TRIES = 12
kept_whole = pytest.mark.parametrize("backend", ["eager", "tcc"])


def numbers(shape, seed):
    G.manual_seed(seed)
    return ((G.rand(*shape) - 0.4) * 3).bfloat16()


def gradient(f, make, seed, order):
    """Of everything that can be seen, by weights that make all sums inexact; `order`: in which the
    caller looks."""
    leaf = numbers((3, 4), seed).requires_grad_()
    inputs = make(leaf * 1.25)
    results = f(*inputs)
    seen = [
        t
        for t in [*inputs, *(results if isinstance(results, tuple) else (results,))]
        if isinstance(t, G.Tensor)
    ]
    for i in order(range(len(seen))):
        assert seen[i].requires_grad in (True, False)
    tangents = [numbers(t.shape, seed + 10 + i) for i, t in enumerate(seen) if t.requires_grad]
    roots = [t for t in seen if t.requires_grad]
    G.autograd.backward(roots, tangents)
    return leaf.grad.tolist()


def same_sums(f, make, backend="eager", fullgraph=True):
    for order in (list, lambda r: list(r)[::-1]):
        compiled = G.compile(f, backend=backend, fullgraph=fullgraph)
        for seed in range(TRIES):
            assert gradient(compiled, make, seed, order) == gradient(f, make, seed, order)


# -- A view that is taken after a look -------------------------------------------------------------


def written_then_viewed(x, base):
    x.mul_(3)
    return base.view(12)


@kept_whole
def test_a_view_taken_after_a_write_follows_the_look_at_what_was_written(backend):
    same_sums(written_then_viewed, lambda b: (b.view(2, 6), b), backend)


def viewed_within(x, base):
    x.mul_(3)
    v = base.view(2, 2, 3)
    y = x.square()
    return v.permute(1, 0, 2), y


@kept_whole
def test_a_view_that_only_another_view_shows_has_its_place_in_the_order(backend):
    same_sums(viewed_within, lambda b: (b.view(2, 6), b), backend)


# -- Who reads without a look ----------------------------------------------------------------------


def read_without_gradients(x, y, base):
    x.mul_(-1)
    with G.no_grad():
        z = y + x
    return z


@kept_whole
def test_reading_with_gradients_off_is_no_look(backend):
    same_sums(read_without_gradients, lambda b: (b.view(2, 6)[1:], b.view(2, 6), b), backend)


def asked_by_what_has_no_gradient(x, y, base):
    x.mul_(-1)
    return y > 0


def cast_without_gradients(x, y, base):
    x.mul_(-1)
    with G.no_grad():
        z = y.long()
    return z


@kept_whole
def test_a_cast_with_gradients_off_is_no_look(backend):
    same_sums(cast_without_gradients, lambda b: (b.view(2, 6)[1:], b.view(2, 6), b), backend)


@kept_whole
def test_reading_by_what_has_no_gradient_is_no_look(backend):
    same_sums(asked_by_what_has_no_gradient, lambda b: (b[1:2], b.view(2, 6), b), backend)


# -- What is copied --------------------------------------------------------------------------------


def copied_under_two_names(x):
    y = x * 0.3
    x.copy_(y)
    y.copy_(x)
    return y + y, y.expand(2, 4, 3), y * x


@kept_whole
def test_what_is_copied_is_summed_there_before_it_goes_on(backend):
    same_sums(copied_under_two_names, lambda b: (b.view(4, 3),), backend)


def view_copied(x):
    y, z = x - x, x.t()
    y.copy_(x.view(12).view(3, 4))
    return y, z


@kept_whole
def test_a_view_that_is_copied_into_a_result(backend):
    same_sums(view_copied, lambda b: (b.view(3, 4),), backend)


# -- One base, several places ----------------------------------------------------------------------


def first_row_only(x, y, base):
    x.mul_(0.3)
    return y.t().tanh(), y.t()


@kept_whole
@pytest.mark.parametrize("wide", [False, True])
def test_a_view_beside_the_written_one_follows_their_base(backend, wide):
    same_sums(first_row_only, lambda b: (b[:1], b[1:2].expand(3, 4) if wide else b[1:], b), backend)


def parts_of_one(x, y):
    x.mul_(0.3)
    return y.t() * 0.7, y.t()


@kept_whole
def test_the_base_need_not_be_passed(backend):
    same_sums(parts_of_one, lambda b: (b[:1], b[1:2].expand(3, 4)), backend)


def picked(x, y, z):
    z.neg_()
    v = y[:, :1]
    w = x.maximum(G.ones(()).bfloat16())
    return v.permute(2, 1, 0), x, w


@kept_whole
def test_a_view_with_several_elements_in_one_place_is_made_where_the_others_are(backend):
    same_sums(picked, lambda b: (b.t(), b.expand(2, 3, 4), b.view(4, 3)), backend)


# -- Tensors that become others --------------------------------------------------------------------


def becomes_what_is_given_out(x):
    y = x.view(4, 3)
    z = y.view(12)
    y.set_(z)
    y.mul_(0.3)
    return z, y


def turned_before_a_write(x, y, base):
    y.t_()
    x.mul_(0.3)
    return base * 0.7


def turned_base(x, base):
    base.t_()
    x.mul_(0.3)
    return base.sin()


@pytest.mark.parametrize(
    "f, make",
    [
        (becomes_what_is_given_out, lambda b: (b,)),
        (turned_before_a_write, lambda b: (b.view(2, 6), b.view(4, 3), b)),
        (turned_base, lambda b: (b.view(4, 3), b)),
    ],
)
def test_a_tensor_that_becomes_another_one_beside_a_write(f, make):
    same_sums(f, make, fullgraph=False)


def unsqueezed_under_a_view(x, v):
    before = v * 0.7
    x.unsqueeze_(-1)
    x.register_hook(lambda g: g * 2)
    return v.exp() * v, x.cos() * x, before


def unsqueezed_under_a_view_that_is_written_to(x, v):
    x.unsqueeze_(-1)
    x.register_hook(lambda g: g * 2)
    v.clamp_(-1, 1)
    return x


@pytest.mark.parametrize("f", [unsqueezed_under_a_view, unsqueezed_under_a_view_that_is_written_to])
def test_what_arrives_at_a_view_goes_through_the_shape_that_its_base_got_since(f):
    """Past a hook there, too."""

    def inside(b):
        x = b * 0.3
        return f(x, x[1:])

    for run, make in ((f, lambda b: (b, b.view(2, 6)[:, 1:3])), (inside, lambda b: (b,))):
        same_sums(run, make, fullgraph=False)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=["base first", "view first"])
def test_what_arrives_at_a_view_that_was_read_before_goes_through_that_shape_too(order):
    """Its gradient is summed before it goes on, so nobody says what it is a view of."""

    def f(x, v, w):
        x.unsqueeze_(0)
        return (v * w).exp()

    def run(f):
        x = G.arange(6).float().requires_grad_() * 0.25
        v = x[:4].view(2, 2)
        args = [x, v, v + v]
        result = f(*[args[k] for k in order])
        return bits(G.autograd.grad(result.sum(), [x])[0])

    def plain(*args):
        return f(*[args[order.index(k)] for k in range(3)])

    assert run(G.compile(plain, backend="eager")) == run(plain)


def base_of_results(x):
    y = x.detach()
    y.set_(x)
    return y, y.view(12)


def test_a_view_of_what_became_another_tensor_has_that_one_as_its_base():
    for f in (base_of_results, G.compile(base_of_results, backend="eager")):
        y, v = f(numbers((3, 4), 0).t().t())
        assert v._base is y


def turned_beside_its_view(x):
    y = -x
    z = y.t()
    y.set_(z)
    return (y / z).tanh()


def turned_and_given_out_with_its_view(x):
    y = -x
    z = y.t()
    y.set_(z)
    return (y / z) * z


@pytest.mark.parametrize("f", [turned_beside_its_view, turned_and_given_out_with_its_view])
def test_second_gradients_of_what_became_a_view_of_itself_are_added_as_in_plain_python(f):
    """The view has its history from the tensor that became it, from then on."""

    def second(f, seed):
        x = numbers((3, 3), seed).requires_grad_()
        (first,) = G.autograd.grad(f(x).sum(), [x], create_graph=True)
        return bits(G.autograd.grad((first * first).sum(), [x])[0])

    compiled = G.compile(f, backend="eager")
    for seed in range(TRIES):
        assert second(compiled, seed) == second(f, seed)


def view_of_a_view_whose_base_left(x, other, v):
    x.set_(other)
    return v.t()


def view_of_a_view_before_its_base_leaves(x, other, v):
    w = v.t()
    x.set_(other)
    return w


def view_of_a_view_that_was_taken_inside(x, other, v):
    w = x.view(2, 6)
    x.set_(other)
    return w[1]


@pytest.mark.parametrize(
    "f",
    [
        view_of_a_view_whose_base_left,
        view_of_a_view_before_its_base_leaves,
        view_of_a_view_that_was_taken_inside,
    ],
)
def test_a_view_of_a_view_whose_base_has_left_has_the_base_that_it_has_in_plain_python(f):
    def run(f):
        x = numbers((12,), 0)
        v = x.view(4, 3)
        y = f(x, numbers((5,), 1), v)
        return y._base is x, y._base is v, y._base is None, bits(y)

    assert run(G.compile(f, backend="eager")) == run(f)


# -- Views that were stale when the function was called --------------------------------------------


def waves(t):
    return t * (t * 0.33 + 0.1).sin() + t.cos() + t.sin() * t.exp()


def looked_at_for_nothing(x, v):
    v.max()
    return waves(x), v


def asked_first(x, v):
    assert v.requires_grad
    return waves(x), v


def kept_last(x, v):
    y = waves(x)
    v.retain_grad()
    return y, v


def not_looked_at(x, v):
    return waves(x), v


def read_first(x, v):
    z = v * 3
    return waves(x), v, z


def cast_first(x, v):
    """A look, though integers have no history."""
    whole = v.long()
    return waves(x), v, whole


def cast_for_nothing_first(x, v):
    v.long()
    return waves(x), v


def cast_without_gradients_first(x, v):
    with G.no_grad():
        whole = v.long()
    return waves(x), v, whole


@pytest.mark.parametrize(
    "f",
    [
        looked_at_for_nothing,
        asked_first,
        kept_last,
        not_looked_at,
        read_first,
        cast_first,
        cast_for_nothing_first,
        cast_without_gradients_first,
    ],
)
def test_a_view_gets_its_history_where_the_function_looks_at_it_first(f):
    def make(b):
        x = b * 1.5
        v = x.view(2, 6)
        x.div_(3)
        return x, v

    same_sums(f, make)


def read_around(x, v):
    a = x.sin() * x
    b = v.cos()
    return a * x.exp() * x, b


def looked_at_for_nothing_in_between(x, v):
    a = x.sin() * x
    v.cos()
    return a * x.exp() * x, v


def looked_at_for_nothing_at_the_end(x, v):
    a = x.sin() * x.exp() * x
    v.cos()
    return a, v


def asked_in_between(x, v):
    a = x.sin() * x
    return (a if v.requires_grad else x) * x.exp(), v


def written_in_between(x, v):
    a = x * 3 + x
    v.mul_(2)
    return a * 2, v


def seen_before_it_is_read(x, v):
    assert v.shape
    return x.exp() * x * x.sin(), v * 2


@pytest.mark.parametrize(
    "f",
    [
        read_around,
        looked_at_for_nothing_in_between,
        looked_at_for_nothing_at_the_end,
        asked_in_between,
        written_in_between,
        seen_before_it_is_read,
    ],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_view_that_gets_its_history_between_reads_of_its_base(f, dynamic):
    """One node of the tape for all of the function has no place for it: such a call is plain
    Python's, others are compiled."""

    def make(b):
        x = b * 1.5
        v = x.view(2, 6)
        x.div_(3)
        return x, v

    compiled = G.compile(f, backend="eager", fullgraph=True, dynamic=dynamic)
    for seed in range(TRIES):
        assert gradient(compiled, make, seed, list) == gradient(f, make, seed, list)
    hits = compiled.status()["hits"]
    gradient(compiled, lambda b: (b, b.view(2, 6)), 0, list)
    assert counted(compiled.status()["hits"]) == hits + 1


def either(x, v):
    return (
        G.cond(x.sum() > 0, lambda x, v: x.sin() + v.sum(), lambda x, v: x.cos() * v.sum(), (x, v)),
        x * x.exp(),
    )


def test_a_call_that_is_left_to_python_may_call_what_compiles_itself():
    def make(b):
        x = b * 1.5
        v = x.view(2, 6)
        x.div_(3)
        return x, v

    same_sums(either, make)


def asked_of_another_kind(z, x, y):
    n = z.long()
    x.add_(y)
    return n, x, z


def test_a_view_that_nobody_looks_at_gets_its_history_after_those_that_are_looked_at():
    def make(b):
        b = b * 1.5
        views = b.view(2, 6), b.view(2, 6), b.view(12)[:6]
        b.div_(3)
        return views

    same_sums(asked_of_another_kind, make)


@pytest.mark.parametrize("swapped", [False, True])
def test_the_order_of_histories_is_guarded_where_they_are_made_by_the_call(swapped):
    """Compiled for views that get their histories in the call, and called with some that have them,
    made the other way round."""

    def f(x, y):
        x = x * 3 + y.flatten()
        y.mul_(2)
        return x.sin(), y.cos()

    def make(late):
        def views(b):
            b = b * 1.5
            x, y = b.view(12), b.view(4, 3)
            b.div_(3)
            if not late:
                for t in (y, x) if swapped else (x, y):
                    assert t.requires_grad
            return x, y

        return views

    compiled = G.compile(f, backend="eager")
    for seed in range(TRIES):
        for late in (True, False):
            assert gradient(compiled, make(late), seed, list) == gradient(f, make(late), seed, list)
    assert counted(compiled.status()["graphs"]) <= 2


def overwrites(x, y):
    x.exp_()
    return y


@pytest.mark.parametrize("outside", [lambda x: G.cat([x, x]), lambda x: x * 3, lambda x: x * 3 + x])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_arrives_at_a_view_from_outside_is_summed_there(outside):
    """A compiled write to a view goes to its base, and would leave what was summed with it at the
    view behind."""

    def make(b):
        x = b.view(2, 6)
        return x, outside(x).tanh()

    same_sums(overwrites, make, fullgraph=False)


# -- Recording -------------------------------------------------------------------------------------


def cannot_be_compiled(x, y, z):
    with G.no_grad():
        z.mul_(2)
    y.sin()
    return z


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_to_record_is_no_look():
    """The inputs are described in another order than the program looks at them, and then it runs as
    plain Python."""

    def make(b):
        x, y, z = b, b[:2], b.view(12)
        x.mul_(1.5)  # their histories are made at the next look
        return x, y, z

    same_sums(cannot_be_compiled, make, fullgraph=False)


# -- Hooks on results ------------------------------------------------------------------------------


def a_view_first(x, y):
    return y.permute(1, 0), x.var(), (y * 2).t()


def views_between(x, y):
    z, w = x.sin(), x.cumsum(0)
    return w[1:], x.view(-1), z.t(), z * y.sum()


def a_write_last(x, y):
    z, w = x.sin(), x.cumsum(0)
    v = z.t()
    w.mul_(2)
    return w, v, z


@pytest.mark.skipif(
    "tape" in os.environ.get("GM_STRESS", ""),
    reason="under compiled autograd the hooks on one node run together",
)
@kept_whole
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("f", [a_view_first, views_between, a_write_last])
def test_hooks_on_results_run_in_the_order_of_the_operations_that_make_them(f, backend, dynamic):
    """Views that are given out are taken again after the call, each at the place that it has in the
    function."""

    def run(f):
        seen = []
        b = numbers((12,), 3).float().requires_grad_() * 1.25
        results = f(b.view(3, 4)[1:], b.view(4, 3))
        for i, t in enumerate(results):
            t.register_hook(lambda g, i=i: seen.append(i))
        sum(t.sum() for t in results).backward()
        return seen

    assert run(G.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)) == run(f)


def test_a_hook_on_a_result_may_take_off_another():
    def f(x):
        return x.sin(), x.cos(), x.exp()

    def run(f):
        seen = []
        a, b, c = f(numbers((12,), 3).float().requires_grad_() * 1.25)
        a.register_hook(lambda g: seen.append("a"))
        off = b.register_hook(lambda g: seen.append("b"))
        c.register_hook(lambda g: (seen.append("c"), off.remove())[0])
        (a.sum() + b.sum() + c.sum()).backward()
        return seen

    assert run(G.compile(f, backend="eager", fullgraph=True)) == run(f) == ["c", "a"]


def read_before_a_break(x, y):
    x = x * 3 + y.flatten()
    G._dynamo.graph_break()
    y.mul_(2)
    return x.sin(), y.cos()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_arrives_at_a_view_whose_history_was_made_late_is_summed_there():
    """What read the view before the break sends its gradient there; a write to the base's history
    alone would leave that behind."""

    def make(b):
        b = b * 1.5
        x, y = b.view(12), b.view(4, 3)
        b.div_(3)
        assert y.requires_grad and x.requires_grad
        return x, y

    same_sums(read_before_a_break, make, fullgraph=False)


# -- One compiled function after another -----------------------------------------------------------


def doubled(x):
    x.add_(x)
    return x.sum()


def doubled_unread(x):
    x.add_(x)


def doubled_read_through_a_view(x):
    x.add_(x)
    return x[1:].sum()


def shifted(x):
    x[1:].copy_(x[:-1])


def scaled(x):
    x.mul_(x.mean())


@kept_whole
@pytest.mark.parametrize("second", [shifted, scaled, doubled])
@pytest.mark.parametrize("first", [doubled, doubled_unread, doubled_read_through_a_view])
def test_what_a_function_went_on_with_is_not_written_to_at_once_in_the_history_of_its_base(
    first, second, backend
):
    """The gradients of both arrive at the view and are added there, before what the write gives the
    base."""
    compiled = [G.compile(f, backend=backend) for f in (first, second)]
    for seed in range(TRIES):
        want, have = (
            gradient(lambda x: [f(x) for f in fs][0], lambda b: (b.view(4, 3),), seed, list)
            for fs in ([first, second], compiled)
        )
        assert have == want


# -- A view of what is read beside it --------------------------------------------------------------


def sine(x):
    x.sin_()


def two_views(x, y):
    x.sin_()
    y.cos_()


def view_and_base(x, base):
    x.sin_()
    return base * 0.7


def read_beside(f, views, seed, backward):
    """A base that is read after its views were taken, and before f writes to these."""
    leaf = numbers((12,), seed).requires_grad_()
    base = leaf * 1.25
    early = base * 0.9
    taken = views(base)
    beside = [base - base, base * 0.7, base[1:5], early]
    result = f(*taken)
    return backward(leaf, [t for t in [*beside, base, *taken, result] if t is not None], seed)


def once(leaf, roots, seed):
    G.autograd.backward(roots, [numbers(t.shape, seed + 10 + i) for i, t in enumerate(roots)])
    return leaf.grad.tolist()


def twice(leaf, roots, seed):
    tangents = [numbers(t.shape, seed + 10 + i) for i, t in enumerate(roots)]
    G.autograd.backward(roots, tangents, retain_graph=True)
    G.autograd.backward(roots[::-1], tangents[::-1])
    return leaf.grad.tolist()


def asked_for(leaf, roots, seed):
    tangents = [numbers(t.shape, seed + 10 + i) for i, t in enumerate(roots)]
    return [g.tolist() for g in G.autograd.grad(roots, [leaf, roots[4]], tangents)]


def gradient_of_gradient(leaf, roots, seed):
    tangents = [numbers(t.shape, seed + 10 + i) for i, t in enumerate(roots)]
    (first,) = G.autograd.grad(roots, [leaf], tangents, create_graph=True)
    (second,) = G.autograd.grad([first], [leaf], [numbers(first.shape, seed + 40)])
    return first.tolist(), second.tolist()


@kept_whole
@pytest.mark.parametrize("backward", [once, twice, asked_for, gradient_of_gradient])
@pytest.mark.parametrize(
    "f, views",
    [
        (sine, lambda b: (b[2:10],)),
        (sine, lambda b: (b.view(3, 4)[1:].t(),)),
        (two_views, lambda b: (b[2:10], b[10:])),
        (view_and_base, lambda b: (b[2:10], b)),
    ],
)
def test_what_reads_a_base_comes_between_a_write_to_a_view_and_the_view(
    f, views, backward, backend
):
    compiled = G.compile(f, backend=backend, fullgraph=True)
    for seed in range(TRIES):
        assert read_beside(compiled, views, seed, backward) == read_beside(f, views, seed, backward)


@kept_whole
def test_a_view_that_another_compiled_function_took(backend):
    """The first function's number for the view is what counts."""

    def first(base):
        return base[2:10], base * 0.3

    def run(first, f, seed):
        leaf = numbers((12,), seed).requires_grad_()
        base = leaf * 1.25
        x, other = first(base)
        beside = base - base
        f(x)
        return once(leaf, [beside, other, base, x], seed)

    compiled = [G.compile(f, backend=backend, fullgraph=True) for f in (first, sine)]
    for seed in range(TRIES):
        assert run(*compiled, seed) == run(first, sine, seed)


@kept_whole
def test_hooks_run_in_order_where_what_another_result_needs_was_changed(backend):
    """Its operations cannot be walked any more; those of the results that are walked can."""

    def f(x, y):
        row = x[1]
        return row, row.abs().sqrt(), y.unsqueeze(0)

    def order(f):
        base = numbers((3, 4), 1).requires_grad_() * 1.25
        row, root, turned = f(base[1:], base.t())
        with G.no_grad():
            root.mul_(2)
        seen = []
        for name, t in (("row", row), ("turned", turned)):
            t.register_hook(lambda g, name=name: seen.append(name))
        (row.sum() + turned.sum() * 2).backward()
        with pytest.raises(RuntimeError, match="changed by an in-place operation"):
            root.sum().backward()
        return seen

    assert order(G.compile(f, backend=backend)) == order(f) == ["turned", "row"]


@kept_whole
def test_two_late_views_are_not_one_that_is_passed_twice(backend):
    """What was compiled for views whose histories the call makes, one after the other, is not for
    one of them in both places."""

    def add(x, y):
        y.add_(x)
        return y * 0.3, x

    def run(f, one, seed):
        leaf = numbers((12,), seed).requires_grad_()
        base = leaf * 1.25
        x = base[2:10]
        y = x if one else base[2:10]
        base.mul_(0.7)
        return once(leaf, [base, *f(x, y)], seed)

    compiled = G.compile(add, backend=backend, fullgraph=True)
    for seed in range(6):
        assert run(compiled, seed % 2 == 0, seed) == run(add, seed % 2 == 0, seed)


# -- Views that get their history in the middle of a call ------------------------------------------


def late_views():
    """Two views of one tensor that was written to since, which nobody has looked at; with something
    else."""
    leaf, other = (G.arange(12).float() * 0.37 - 1.5).requires_grad_(), (
        G.arange(4).float() + 0.5
    ).requires_grad_()
    base = leaf * 1.25
    views = [base[0:4], base[4:8]]
    base[8:].zero_()
    return views, other, [leaf, other]


def looks_between(x, y, w):
    u = w * 2.0
    v = u * x
    z = v.exp() + y
    return z, v, u


def looks_with_what_nobody_wants(x, y, w):
    u = w * 2.0
    y + 1.0
    v = u.sin()
    x * 0.5
    return v * x * y, u, v


def looks_at_two_at_once(x, y, w):
    u = w.cos()
    return y * x * u, u


def looks_after_all_else(x, y, w):
    u = w.cos()
    v = u.sin()
    return u, v, v * 2.0 + x * y


@pytest.mark.parametrize(
    "f", [looks_between, looks_with_what_nobody_wants, looks_at_two_at_once, looks_after_all_else]
)
@pytest.mark.parametrize("dynamic", [False, True], ids=["", "dynamic"])
@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_a_hook_on_a_view_that_gets_its_history_in_the_call_runs_where_the_program_looked(
    backend, dynamic, f
):
    """Before and after hooks on results and leaves, as the numbers of histories say."""
    want, have = [], []
    compiled = G.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)
    for g, lines in ((f, want), (compiled, have)):
        for which in range(1, 64):
            (x, y), w, leaves = late_views()
            results = g(x, y, w)
            for i, t in enumerate([x, y, *leaves, *results]):
                if which >> i & 1:
                    t.register_hook(lambda grad, i=i, lines=lines: lines.append((i, bits(grad))))
            G.autograd.backward(list(results), [G.ones_like(t) for t in results])
            lines.append([bits(t.grad) for t in leaves])
    assert want == have


def test_to_record_a_function_is_no_look_at_what_it_reads_without_one():
    """The base of the view got a history after the view was taken; the function reads the view with
    gradients off."""

    def f(v):
        with G.no_grad():
            return v[1:] * 2.0

    def run(f):
        lines, leaf, base = [], G.arange(4.0).requires_grad_(), G.zeros(6)
        u, v = base[:3], base.view(2, 3)[1]
        base[1:5].mul_(leaf)
        f(v)
        for name, t in (("u", u), ("v", v)):
            t.register_hook(lambda g, name=name: lines.append(name))
        G.autograd.backward([u, v], [G.ones(3), G.ones(3)])
        return lines

    assert run(G.compile(f, backend="eager", fullgraph=True)) == run(f) == ["v", "u"]


def test_a_hook_on_what_a_result_was_taken_of_sees_what_is_written_to_the_result_next():
    """By another compiled function: the result's own history is inside of the first one, and what
    it was taken of is beside others there."""

    def take(x, w):
        v = x[1:]
        return v, (v * 2.0).sum() - w.sum()

    def write(v):
        v.mul_(2.0)
        return v

    def run(take, write):
        leaf, w = G.arange(12.0).requires_grad_(), G.ones(3).requires_grad_()
        x = (leaf * 1.25)[::2]
        v, total = take(x, w * 1)
        x.register_hook(lambda g: g * 2)
        (write(v).sum() * 0.5 + total).backward()
        return leaf.grad.tolist()

    assert run(G.compile(take, backend="eager"), G.compile(write, backend="eager")) == run(
        take, write
    )


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("taken", ["t[1:]", "t[1:].view(-1)", "t[1:][:2]"])
def test_what_a_view_was_taken_of_sums_what_reads_it_before_its_base_does(taken, kept):
    """A compiled function takes the written view again of its base, where that sum would be
    another."""

    def write(v):
        v.sin_()

    def run(write, seed):
        leaf = numbers((3, 4), seed).requires_grad_()
        base = leaf * 1.25
        t, u = base.view(4, 3), base.view(4, 3)
        total = ((t - u) * numbers((4, 3), seed + 1)).sum()
        v = eval(taken, {"t": t})
        if not kept:
            del t
        write(v)
        (
            total + (u * numbers((4, 3), seed + 2)).sum() + (v * numbers(v.shape, seed + 3)).sum()
        ).backward()
        return leaf.grad.tolist()

    compiled = G.compile(write, backend="eager")
    for seed in range(TRIES):
        assert run(compiled, 10 * seed) == run(write, 10 * seed)


def test_a_view_of_a_view_that_nobody_else_reads_is_written_to_in_the_compiled_function():
    base = numbers((3, 4), 0).requires_grad_() * 1.25
    t = base.view(4, 3)
    v = t[1:]
    G.compile(lambda v: v.sin_(), backend="eager", fullgraph=True)(v)
    assert t.requires_grad and v._version == 1


@kept_whole
def test_a_view_that_nobody_looked_at_since_its_base_got_a_history_has_no_number(backend):
    """It crashed where the call asked when the view had been taken."""

    def f(x, row, view):
        x[-1] = row
        return view.detach()

    results = []
    for g in (f, G.compile(f, backend=backend, fullgraph=True)):
        base, w = G.arange(12.0), G.arange(2.0).requires_grad_()
        x = base.view(3, 4)[:, 1:3]
        view, row = x[:, None], x[-1]
        row += w
        seen = g(x, row, view)
        x.sum().backward()
        results.append(
            (seen.tolist(), x.tolist(), view.grad_fn.name(), x.grad_fn.name(), w.grad.tolist())
        )
    assert results[0] == results[1]
