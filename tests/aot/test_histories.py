# SPDX-License-Identifier: Apache-2.0
"""What compiled functions leave behind in autograd: where hooks wait, what is kept for the
backward, and how often, as in plain ones."""

import pytest
from afterwards import lines_of
from same import describe, flatten

import gramme as G

BACKENDS = ["eager", "tcc"]
backends = pytest.mark.parametrize("backend", BACKENDS)


def base(n=12):
    return G.arange(n).float() * 0.37 - 1.5


def loss(results):
    return sum((t * (0.5 + i)).sum() for i, t in enumerate(flatten(results)) if t.requires_grad)


def same(f, run, backend="eager", fullgraph=True):
    """run (f): lines that must be the same of the plain and the compiled function."""
    want = run(f)
    assert run(G.compile(f, backend=backend, fullgraph=fullgraph)) == want
    return want


class Scale(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1.5

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 1.5 + x * 0.125


# -- Who waits at results --------------------------------------------------------------------------


def scaled_and_read(x):
    y = Scale.apply(x)
    return y, y * y


@backends
def test_a_hook_on_the_result_of_a_function_with_its_own_gradient_sees_all_that_arrives(backend):
    def run(f):
        leaf, seen = base(4).requires_grad_(), []
        y, z = f(leaf * 1.25)
        y.register_hook(lambda g: seen.append(g.tolist()))
        y.retain_grad()
        loss([y, z]).backward()
        return seen + lines_of([leaf.grad, y.grad])

    same(scaled_and_read, run, backend)


def squared_tanh(x):
    y = (x * x).tanh()
    return y


@backends
@pytest.mark.parametrize("act", ["look", "change", "take off"])
def test_a_hook_on_a_result_runs_in_the_second_backward_too(backend, act):
    def run(f):
        leaf, seen = base(4).requires_grad_(), []
        y = f(leaf * 1.25)
        h = y.register_hook(
            (lambda g: g * 2) if act == "change" else lambda g: seen.append(g.tolist())
        )
        (first,) = G.autograd.grad(loss(y), [leaf], create_graph=True)
        if act == "take off":
            h.remove()
        del y
        (second,) = G.autograd.grad((first * first).sum(), [leaf])
        return seen + lines_of([first, second])

    assert len(same(squared_tanh, run, backend)) == {"look": 4, "change": 2, "take off": 3}[act]


def copied_and_added(v, x):
    v.copy_(x)
    w = v * 2
    return w


@backends
def test_a_hook_on_what_was_copied_into_does_not_see_the_gradient_of_what_was_copied(backend):
    def run(f):
        leaf, seen = base(4).requires_grad_(), []
        x, v = leaf * 1.25, base(4) * 1
        w = f(v, x)
        v.register_hook(lambda g: seen.append(g.tolist()))
        v.register_hook(lambda g: g * 2)
        (loss([w, v]) + (x * 0.3).sum()).backward()
        return seen + lines_of([leaf.grad])

    same(copied_and_added, run, backend)


def copied_back_and_forth(x):
    v = x * 3
    v.copy_(x)
    return v.view(-1), x * x


@backends
def test_the_gradient_of_a_copy_is_summed_before_it_goes_on(backend):
    def run(f):
        leaf = base(4).bfloat16().requires_grad_()
        x = leaf * 1.25
        v, y = f(x)
        (loss([v, y, x, v * v]) + (x * 0.3).sum()).backward()
        return lines_of([leaf.grad])

    same(copied_back_and_forth, run, backend)


def two_results(x):
    return x.sin() * x, (x * x).tanh()


@backends
def test_a_second_derivative_sums_what_comes_through_results_and_through_the_function_in_one_place(
    backend,
):
    def run(f):
        leaf = base().requires_grad_()
        y, z = f(leaf * 1.25)
        (first,) = G.autograd.grad((y * z).sum(), [leaf], create_graph=True)
        (second,) = G.autograd.grad((first * first).sum(), [leaf])
        return lines_of([first, second])

    same(two_results, run, backend)


@backends
def test_a_result_that_was_taken_apart_keeps_what_waits_for_it(backend):
    def run(f):
        leaf, seen = base(4).requires_grad_(), []
        y, z = f(leaf * 1.25)
        y.retain_grad()
        y.register_hook(lambda g: seen.append(g.tolist()))
        (y * z).sum().backward(create_graph=True)
        h = z.register_hook(lambda g: seen.append(g.tolist()))
        total = (y * z * 2).sum() + (leaf.grad * leaf.grad).sum()
        h.remove()
        y.grad = leaf.grad = None
        total.backward()
        return seen + lines_of([leaf.grad, y.grad])

    same(two_results, run, backend)


@backends
def test_once_and_no_more_without_retain_graph(backend):
    def run(f):
        leaf = base(4).requires_grad_()
        y, z = f(leaf * 1.25)
        G.autograd.grad((y * z).sum(), [leaf], create_graph=True, retain_graph=False)
        with pytest.raises(RuntimeError, match="second time"):
            G.autograd.grad(y.sum(), [leaf])
        return []

    same(two_results, run, backend)


# -- Views -----------------------------------------------------------------------------------------


def view_and_square(x):
    v = x.view(3, 4)
    return v * v, v, x[0]


@backends
def test_a_hook_on_a_view_that_is_given_out_sees_what_the_function_does_with_it(backend):
    def run(f):
        leaf, seen = base().requires_grad_(), []
        y, v, first = f(leaf * 1.25)
        for t in (v, first):
            t.register_hook(lambda g: seen.append(g.tolist()))
            t.register_hook(lambda g: g * 2)
        v.retain_grad()
        loss([y, v, first, v.sin()]).backward()
        return seen + lines_of([leaf.grad, v.grad])

    same(view_and_square, run, backend)


def written_and_read(x):
    x[1:] *= 2
    return x * x, x.view(-1)


@backends
@pytest.mark.parametrize("where", ["on the base", "between", "on the view"])
def test_hooks_around_a_view_that_is_written_to(backend, where):
    def run(f):
        leaf, seen = base().bfloat16().requires_grad_(), []
        whole = leaf * 1.25
        middle = whole[2:10]
        x = middle.view(2, 4)
        {"on the base": whole, "between": middle, "on the view": x}[where].register_hook(
            lambda g: g * 2
        )
        results = f(x)
        whole.register_hook(lambda g: seen.append(g.tolist()))
        (loss(results) + (x * 0.3).sum() + (middle * 0.7).sum() + (whole * 0.1).sum()).backward()
        return seen + describe([x, whole]) + lines_of([leaf.grad])

    same(written_and_read, run, backend, fullgraph=False)


def twice_as_much(g):
    return g * 2


def hooked_row(x):
    v = x.sin()[0]
    v.register_hook(twice_as_much)
    return v


def hooked_window(x):
    v = x.as_strided((3, 2), (2, 3))
    v.register_hook(twice_as_much)
    return v


def hooked_view_of_a_view(x):
    v = x.sin()[1:]
    v.register_hook(twice_as_much)
    return v.view(2, 2, 2).transpose(0, 2)


def triples(v):
    v[0].mul_(3)


def triples_one(row):
    row.mul_(3)


@backends
@pytest.mark.parametrize("make", [hooked_row, hooked_window, hooked_view_of_a_view])
@pytest.mark.parametrize("writer", ["plain", "compiled"])
def test_a_write_to_a_view_with_a_hook_that_another_compiled_function_made(backend, make, writer):
    """The hook is inside of the first function's history, on the way from the view to its base: a
    write must not go round it."""
    write = triples if writer == "plain" else G.compile(triples, backend=backend)

    def run(f):
        leaf = base().requires_grad_()
        v = f((leaf * 1.25).view(3, 4))
        with G.no_grad():
            v.mul_(2)
        write(v)
        loss(v).backward()
        return describe([v]) + lines_of([leaf.grad])

    same(make, run, backend)


@backends
@pytest.mark.parametrize("make", [hooked_row, hooked_window, hooked_view_of_a_view])
def test_a_write_to_a_view_of_a_view_with_a_hook_that_another_compiled_function_made(backend, make):
    """The view and its base are results of one node of the tape."""
    write = G.compile(triples_one, backend=backend)

    def run(f):
        leaf = base().requires_grad_()
        v = f((leaf * 1.25).view(3, 4))
        write(v[0])
        loss(v).backward()
        return describe([v]) + lines_of([leaf.grad])

    assert run(G.compile(make, backend=backend, fullgraph=True)) == run(make)


def gains_and_doubles(x, y, w):
    x.add_(w)
    with G.no_grad():
        y.mul_(2)
    return x


def test_a_write_without_gradients_to_what_gained_a_history_through_another_name():
    def run(f):
        w = base(4).requires_grad_()
        x = base(4)
        loss(f(x, x[1], w)).backward()
        return lines_of([w.grad])

    same(gains_and_doubles, run, fullgraph=False)


# -- What is kept for the backward -----------------------------------------------------------------


def clamped_then_zeroed(x):
    v = x.sum()
    v.clamp_(-1, 1)
    v.zero_()
    return v


@backends
def test_an_input_that_eager_does_not_keep_may_be_written_to_afterwards(backend):
    def run(f):
        leaf = base(4).requires_grad_()
        x = leaf * 1.25
        y = f(x)
        x.mul_(2)
        loss([y, x]).backward()
        return lines_of([leaf.grad])

    same(clamped_then_zeroed, run, backend)


def exponential_in_place(x):
    v = x + x
    v.exp_()
    return v


@backends
def test_what_was_written_in_place_may_be_written_to_without_gradients_afterwards(backend):
    def run(f):
        leaf = base(4).requires_grad_()
        y = f(leaf * 1.25)
        with G.no_grad():
            y.add_(y)
        loss(y).backward()
        return describe([y]) + lines_of([leaf.grad])

    same(exponential_in_place, run, backend)


def divided_after_a_write(x):
    x[:, 1].add_(1)
    return x / (x + 4)


@backends
def test_a_second_derivative_of_what_was_made_of_an_overwritten_input(backend):
    def run(f):
        leaf = base().requires_grad_()
        y = f((leaf * 1.25).view(3, 4))
        (first,) = G.autograd.grad(loss(y), [leaf], create_graph=True)
        (second,) = G.autograd.grad((first * first).sum(), [leaf])
        return lines_of([first, second])

    same(divided_after_a_write, run, backend)


# -- Memory that is one, under two names -----------------------------------------------------------


def given_the_memory_it_has(x, y):
    x.view(2, 6).set_(y)
    return x + 1


@pytest.mark.parametrize("shared", [True, False])
def test_a_view_that_is_given_the_memory_it_has_counts_as_a_change(shared):
    def run(f):
        b, other = base(), base()
        x, y = b.view(4, 3), (b if shared else other).view(3, 4)
        return describe([x, y, f(x, y)])

    compiled = G.compile(given_the_memory_it_has, backend="eager")
    for _ in range(2):
        assert run(compiled) == run(given_the_memory_it_has)
        shared = not shared


def written_in_one_place(x):
    x[0].mul_(3)
    return x + 1


def test_a_write_to_an_expanded_input_is_left_to_plain_python():
    def run(f):
        x = base()[1:2].expand(4)
        return describe([x, f(x)])

    same(written_in_one_place, run, fullgraph=False)


def tripled_under_an_expanded_view(x, y):
    y[0].mul_(3)
    v = x.max(0)[0]
    return v.amax(0), G.outer(v.flatten(), x.flatten()).sum(1)


@backends
@pytest.mark.parametrize("dtype", ["half", "bfloat16", "float"])
def test_what_arrives_at_one_place_in_memory_is_added_as_in_plain_python(backend, dtype):
    def run(f):
        leaf = getattr(base(), dtype)().requires_grad_()
        b = leaf * 1.25
        results = f(b[1:2].expand(4), b.view(4, 3))
        loss(results).backward()
        return describe(flatten(results)) + lines_of([leaf.grad])

    same(tripled_under_an_expanded_view, run, backend)


def expanded_then_halved(x):
    v = x.prod()
    w = v.expand(3, 4).permute(1, 0)
    v.div_(3)
    q = w / (v + 4)
    return w, q, q


def test_an_expanded_view_of_an_intermediate_that_is_written_after_it():
    def run(f):
        leaf = base(4).half().requires_grad_()
        results = f((leaf * 1.25)[1:2].expand(4))
        loss(results).backward()
        return describe(flatten(results)) + lines_of([leaf.grad])

    same(expanded_then_halved, run)


def turned_out_of_sight(x):
    v = x.unsqueeze(0)
    v.t_()
    return x.relu()


def overlapping_halves(x):
    v = x[1:]
    v.set_(x[:-1])
    return x.relu()


@pytest.mark.parametrize("f", [turned_out_of_sight, overlapping_halves])
def test_a_change_of_shape_to_other_elements_where_nobody_sees_the_tensor(f):
    def run(f):
        return describe([f(base()[1:2].expand(4) if f.__name__.startswith("turned") else base())])

    same(f, run, fullgraph=False)


def become_each_other(x, y):
    x.set_(y)
    v = x.squeeze()
    y.set_(v)
    x[:, 1].add_(1)
    v.t_()
    return y


def test_changes_are_counted_where_a_tensor_becomes_what_it_is_by_way_of_another():
    def run(f):
        x, y = base().view(3, 4), (base() * 2).view(3, 4)[:, 1:3]
        return describe([x, y, f(x, y)])

    same(become_each_other, run)


def twice(g):
    return g * 2


def moved_under_a_view(x, y, hooked):
    if hooked:
        y.register_hook(twice)
    with G.no_grad():
        v = x * 2
    y.set_(v)
    x.swapaxes_(0, 1)
    x[0] = 2.5
    return x


@pytest.mark.parametrize("hooked", [True, False])
def test_a_write_to_a_view_whose_base_has_left(hooked):
    def run(f):
        leaf = base().requires_grad_()
        y = leaf * 1.25
        x = y.view(3, 4)
        z = f(x, y, hooked)
        loss([z]).backward()
        return describe([x, y, z]) + lines_of([leaf.grad])

    same(moved_under_a_view, run, fullgraph=False)


def written_beside(x, y):
    x.masked_fill_(x > 0, 0.5)
    return y.sin(), y.max(0)[0]


def test_a_gradient_that_is_kept_follows_the_view_to_its_new_history():
    def run(f):
        leaf = base().requires_grad_()
        b = leaf * 1.25
        x, y = b[1], b[::2]
        y.retain_grad()
        results = f(x, y)
        lines = describe([x, y, *results])
        loss(results).backward()
        return lines + lines_of([leaf.grad, y.grad])

    same(written_beside, run, fullgraph=False)


def row_of_what_is_written(x, y, z):
    v = x[1:]
    y[:, 1].add_(1)
    return v[-1], z, y


def test_a_view_of_a_view_leaves_the_order_in_which_histories_are_made():
    def run(f):
        leaf = (base() - 1).requires_grad_()
        b = leaf * 1.25
        inputs = [b.view(2, 6), b.view(2, 6), b.view(3, 4)[1:]]
        results = f(*inputs)
        lines = describe(inputs + flatten(results))
        total = loss(results)
        for t in inputs + [leaf]:
            total = total + (t * 0.3).sum() * 1.7
        total.backward()
        return lines + lines_of([leaf.grad])

    same(row_of_what_is_written, run)


class Double(G.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y, g * 0.5


def halves_times_doubles(x):
    return Double.apply(x.half(), x)


def test_a_gradient_of_another_dtype_goes_on_in_that_of_the_argument():
    def run(f):
        leaf = base(4).double().requires_grad_()
        loss([f(leaf)]).backward()
        return lines_of([leaf.grad])

    want = same(halves_times_doubles, run, fullgraph=False)
    plain = (base(4).double() * 0.5).half().double() + base(4).half().double() * 0 + 0.25
    assert want == lines_of([plain])


def read_and_written(x, y):
    v = y.mean(0)
    x[1:].copy_(x[:-1])
    return v


@backends
def test_gradients_of_views_are_added_in_the_order_in_which_the_views_were_taken(backend):
    rows, columns = (lambda b: b[2:10]), (lambda b: b.view(3, 4)[:, 1:3])
    c = G.compile(read_and_written, backend=backend, fullgraph=True)

    def run(f, first, second):
        leaf = base().requires_grad_()
        b = leaf * 1.25
        views = {way: way(b) for way in (first, second)}
        (
            loss([f(views[rows], views[columns])])
            + sum((t * 0.3).sum() * 1.7 for t in (views[rows], views[columns], leaf))
        ).backward()
        return lines_of([leaf.grad])

    wants = [run(read_and_written, rows, columns), run(read_and_written, columns, rows)]
    assert wants[0] != wants[1]
    assert [run(c, rows, columns), run(c, columns, rows), run(c, rows, columns)] == [
        *wants,
        wants[0],
    ]


# -- The order of looks: the history of a view, after its base was written to, is made when somebody


def looks_the_other_way_round(x, y):
    x.view(-1)[1:3].mul_(-1)
    y.relu()
    x.sum()
    return x


def looks_at_what_was_renamed(x, y):
    x.t_()
    y.sin_()
    x.unsqueeze_(0)
    return x


@backends
@pytest.mark.parametrize(
    "f, ways",
    [
        (looks_the_other_way_round, (lambda b: b.view(3, 4)[1:], lambda b: b.view(3, 4).t())),
        (looks_at_what_was_renamed, (lambda b: b[::2], lambda b: b.view(4, 3))),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_gradients_of_views_are_added_in_the_order_of_looks(f, ways, backend):
    def run(f):
        leaf = base().requires_grad_()
        b = leaf * 1.25
        views = [way(b) for way in ways] + [b[2:10]]
        (
            loss([f(*views[:2])]) + sum((t * 0.3).sum() * 1.7 for t in [views[2], *views[:2], leaf])
        ).backward()
        return lines_of([leaf.grad])

    same(f, run, backend)


def written_through_a_view(x, y):
    x.view(-1)[1:3].mul_(-1)
    y.squeeze_()
    return x[1:]


def test_a_guard_is_no_look():
    c = G.compile(written_through_a_view, backend="eager")

    def run(f, ways):
        leaf = base().requires_grad_()
        b = leaf * 1.25
        views = [way(b) for way in ways]
        try:
            results = f(*views)
        except RuntimeError:
            return "raises"
        (
            loss([results]) + sum((t * 0.3).sum() * 1.7 for t in [views[1], views[0], b, leaf])
        ).backward()
        return lines_of([leaf.grad])

    fine = (lambda b: b.view(3, 4), lambda b: b[1:2].expand(4))
    cannot = (lambda b: b.view(3, 4).t(), lambda b: b.view(3, 4).t())
    for ways in (fine, cannot, fine):  # the entry of the second call fits the third
        assert run(c, ways) == run(written_through_a_view, ways)


def renamed_and_written(x):
    x.unsqueeze_(0)
    x.mul_(x)
    y = x + x
    return y - y


def test_a_tensor_of_another_shape_that_is_written_to_is_no_view():
    def run(f):
        leaf = base().requires_grad_()
        return lines_of(G.autograd.grad(loss([f(leaf * 1.25)]), [leaf]))

    (line,) = same(renamed_and_written, run)
    assert "-0.0" in line


class Pair(G.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x + 1, x * y

    @staticmethod
    def backward(ctx, g, h):
        (y,) = ctx.saved_tensors
        return g + h * y, h * 0.5


def second_of_a_pair(x):
    v = Pair.apply(x, x)[1]
    (v * G.rand(v.shape)).squeeze_()
    return v


def test_a_gradient_that_did_not_arrive_has_numbers_where_the_sizes_became_numbers():
    for dynamic in (None, True):
        f, x = (
            G.compile(second_of_a_pair, backend="eager", dynamic=dynamic),
            base(12).view(2, 6).requires_grad_(),
        )
        loss([f(x)]).backward()
        y = base(12).view(2, 6).requires_grad_()
        loss([second_of_a_pair(y)]).backward()
        assert lines_of([x.grad]) == lines_of([y.grad])


# -- Checkpoints -----------------------------------------------------------------------------------


def wave(t):
    return (t.sin() * t).tanh()


def test_an_argument_of_a_checkpoint_that_was_given_other_memory_is_an_error():
    leaf = base(4).requires_grad_()
    x = leaf * 1.25
    y = G.utils.checkpoint.checkpoint(wave, x)
    x.set_(y)
    with pytest.raises(
        RuntimeError, match="an argument of a checkpointed function .* another shape or memory"
    ):
        y.sum().backward()


def quotient_and_write(x):
    y = -x
    z = y / y
    x.copy_(x * -1)
    return z


def test_where_nothing_is_repeated_nothing_is_summed():
    """A sum of one gradient makes 0 of -0; the view that a compiled function takes in its place
    does not."""

    def run(f):
        leaf = base().view(4, 3).requires_grad_()
        x = (-leaf).permute(0, 1).expand(1, 4, 3)
        first = G.autograd.grad(
            [f(x), x], [leaf], [G.ones(1, 4, 3), G.ones(1, 4, 3)], create_graph=True
        )
        return lines_of(list(first) + list(G.autograd.grad(first, [leaf], [-G.ones(4, 3)])))

    same(quotient_and_write, run)
    leaf = base(3).requires_grad_()
    leaf.expand(1, 3).backward(G.tensor([[-0.0, 0.0, 1.0]]))
    assert str(leaf.grad.tolist()) == "[-0.0, 0.0, 1.0]"


def raised_and_hooked(x):
    x.exp_()
    y = x.mean(0)
    x.register_hook(lambda g: g * 2)
    return y


@backends
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_code_for_a_tensor_of_its_own_is_not_for_a_view(backend):
    """What is written to a view has a history in its base: a hook on the view afterwards waits
    there."""

    def run(f):
        grads = []
        for view in (True, False, True):
            leaf = base().double().requires_grad_()
            x = leaf * 1.25
            f(x[2:10] if view else x).backward()
            grads.append(leaf.grad)
        return lines_of(grads)

    same(raised_and_hooked, run, backend, fullgraph=False)


# -- Code that is dropped --------------------------------------------------------------------------


def unwanted_copy(x):
    x.clone()
    return x


def unwanted_copy_of_a_view(x):
    x.view(2, 4).sin()
    return x


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("f", [unwanted_copy, unwanted_copy_of_a_view, lambda x: x])
def test_what_nobody_wants_takes_the_history_of_a_view_all_the_same(f, dynamic):
    """The base was written to, so the next look makes the view's history, and what arrives there is
    added in the order of histories."""

    def run(f):
        leaf = base().requires_grad_()
        whole = leaf * 1.25
        x, y, z = whole.view(3, 4)[0], whole[2:10], whole.view(4, 3)
        z[:, 1].add_(1)
        y = f(y)
        assert all(t.grad_fn is not None for t in (x, y, z))  # each is a look
        total = (y * 0.5).sum()
        for t in (x, y, z, leaf):
            total = total + (t * 0.3).sum() * 1.7
        total.backward()
        return lines_of([leaf.grad])

    for backend in BACKENDS:
        G._dynamo.reset()
        compiled = G.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)
        assert run(compiled) == run(f)
    assert run(unwanted_copy) != run(lambda x: x)


def read_around_a_write(x, y):
    z = x * x
    y[0] += 1
    return G.where(y > 0, y, x), z


@backends
def test_a_hook_on_a_view_sees_nothing_of_the_history_that_a_write_beside_it_gives_the_view(
    backend,
):
    def run(f):
        leaf, seen = base().requires_grad_(), []
        b = leaf * 1.25
        x, y = b[1], b[4:12]
        x.register_hook(lambda g: seen.append(g.tolist()))
        f(x, y)[0].sum().backward()
        return seen + lines_of([leaf.grad])

    assert len(same(read_around_a_write, run, backend, fullgraph=False)) == 1


def tanh_in_place(x):
    x.tanh_()
    return x * x, x


def tanh_copied(x):
    x.copy_(x.tanh())
    return x * x, x


def tanh_named_and_copied(x):
    y = x.tanh()
    x.copy_(y)
    return x * x, x


def chosen_in_place(x):
    x[x > 0] = x[3] * 1.5
    return x * x, x


def cumsum_in_place(x):
    x.cumsum_(0)
    return x * x, x


def tanh_in_place_with_little_memory(x):
    return G.utils.checkpoint.checkpoint(lambda t: tanh_in_place(t.clone()), x)


@backends
@pytest.mark.parametrize(
    "f",
    [
        tanh_in_place,
        tanh_copied,
        tanh_named_and_copied,
        chosen_in_place,
        cumsum_in_place,
        tanh_in_place_with_little_memory,
    ],
)
def test_gradients_are_summed_at_a_copy_and_not_at_an_operation_in_place(backend, f):
    """The same elements: `x.copy_(x.tanh())` has one more place than `x.tanh_()` where what arrives
    is summed before it goes on."""

    def run(f):
        lines = []
        for seed in range(20):
            G.manual_seed(seed)
            leaf = G.randn(12).requires_grad_()
            total = sum((t * G.randn(12)).sum() for t in f(leaf * 1.25))
            (first,) = G.autograd.grad(total, [leaf], create_graph=True)
            lines += lines_of([first, *G.autograd.grad((first * G.randn(12)).sum(), [leaf])])
        return lines

    want = same(f, run, backend)
    if f is tanh_copied:
        assert want != run(tanh_in_place)


# -- Gradients of gradients behind a write ---------------------------------------------------------


def one_of_each_row(x, v):
    x[0] = 2.5
    return v.sin().gather(1, G.tensor([[1], [0], [2]])).exp()


@backends
def test_the_sign_of_a_zero_in_a_second_derivative_behind_a_write(backend):
    """What a write replaces, and what a view selects of it, are copied back and forth: nothing is
    added to zeros, which would make 0 of -0."""

    def run(f):
        leaf = base().requires_grad_()
        x = leaf * 1.25
        (first,) = G.autograd.grad(f(x.view(3, 4), x.view(3, 4)).sum(), [leaf], create_graph=True)
        (second,) = G.autograd.grad((first * first * 0.5).sum(), [leaf], create_graph=True)
        return lines_of([first, second, *G.autograd.grad(second.square().sum(), [leaf])])

    want = same(one_of_each_row, run, backend)
    assert "-0.0" in "".join(want)


# -- One backward after the other, from different results ------------------------------------------


def apart(x, y):
    return x.sin() * x, (y.exp() * y).sum(), x * y


def one_stem(x, y):
    z = x.tanh() * y
    return z * 2, z.cos()


def stem_that_keeps_nothing(x, y):
    z = x + y * 3
    return z * 2, z.cos(), z.t() - 1


def nothing_is_kept(x, y):
    return x + y.t().reshape(3, 4), x[1:].view(-1), (y - x).sum(0)


def scaled_by_a_number(x, y):
    return x * 3, y / 2 - x


def written_whole(x, y):
    z = x + y
    z.add_(x)
    return z, y - x


def one_is_of_the_other(x, y):
    z = x.tanh()
    return z, (z * y).sum()


def one_by_one(order, hooked=False, retain=(), change=None):
    def run(f):
        log = []
        leaves = [base(), base() * 0.5 + 1]
        x, y = (t.reshape(3, 4).detach().requires_grad_() for t in leaves)
        results = f(x, y)
        for i, t in enumerate(results):
            t.retain_grad()
            if hooked:
                t.register_hook(lambda g, i=i: (log.append(f"{i} {g.tolist()}"), g * 1.5)[1])
                x.register_hook(lambda g, i=i: log.append(f"x {i} {g.tolist()}"))
        if change is not None:
            with G.no_grad():
                (x, y)[change].add_(1)
        for at in order:
            t = results[at % len(results)]
            try:
                t.sum().backward(retain_graph=at in retain)
            except RuntimeError as error:
                log.append(
                    f"{at} is "
                    f"refused{'' if change is not None else ': ' + str('second time' in str(error))}"
                )
            log += [
                str(g.grad.tolist()) if g.grad is not None else "none" for g in (x, y, *results)
            ]
        return log

    return run


@backends
@pytest.mark.parametrize(
    "f",
    [
        apart,
        one_stem,
        stem_that_keeps_nothing,
        one_is_of_the_other,
        nothing_is_kept,
        scaled_by_a_number,
        written_whole,
    ],
)
@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize(
    "order, retain", [([0, 1, 2], ()), ([1, 0, 1], ()), ([0, 1, 0, 1], (0,)), ([2, 1, 0, 2], (2,))]
)
def test_results_are_walked_back_from_one_by_one(backend, f, hooked, order, retain):
    same(f, one_by_one(order, hooked, retain), backend)


@backends
@pytest.mark.parametrize("change", [0, 1])
def test_what_was_changed_is_refused_where_it_is_read(backend, change):
    same(apart, one_by_one([0, 1, 2], change=change), backend)


# -- Gradients of what lies on both sides of a call ------------------------------------------------


@backends
@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("roots", ["v x1", "x1 v", "v x1 x2"])
@pytest.mark.parametrize("wanted", ["v x1", "x1 v", "v leaf", "v x1 x2 leaf"])
def test_gradients_of_a_result_and_of_an_argument_that_is_a_root_too(
    backend, roots, wanted, create
):
    def run(f):
        leaf = base().requires_grad_()
        at = {"leaf": leaf, "x1": leaf.view(3, 4), "x2": leaf[1:2].expand(4)}
        at["v"] = f(at["x1"], at["x2"])
        starts = [at[name] for name in roots.split()]
        tangents = [(t.detach() * 0.3 + i).clone() for i, t in enumerate(starts)]
        found = G.autograd.grad(
            starts,
            [at[name] for name in wanted.split()],
            tangents,
            create_graph=create,
            allow_unused=True,
        )
        return lines_of(found)

    same(lambda x, y: (x * 0.5).sin() * x + y, run, backend)
