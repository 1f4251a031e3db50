# SPDX-License-Identifier: Apache-2.0
"""vmap refuses to write in place to memory that all examples share, however the function comes by
it, and writes nothing then."""

import pytest

import gramme as G

REFUSED = "tensor in place that all examples share"
WAYS = ["plain", "the function is compiled", "all is compiled"]
shared = None  # of each test; a global of the functions below


class Counts(G.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", shared)

    def forward(self, a):
        return self.seen.add_(a)


def adds(a):
    return shared.add_(a)


def through_a_view(a):
    shared[1:].mul_(2)
    return shared + a


def an_item(a):
    shared[0] = a[0]
    return shared + 0


def an_out(a):
    return G.add(a, 1, out=shared)


def a_copy(a):
    shared.copy_(a)
    return a * 2


def data(a):
    shared.data.add_(a)
    return a * 2


def detached(a):
    shared.detach().zero_()
    return a * 2


def a_slice_that_is_made_first(a):
    return shared.view(1, -1).squeeze(0).fill_(3) + a


def in_a_loop(a):
    for k in range(3):
        a = a + shared.sub_(k)
    return a


def other_memory(a):
    shared.set_(a.clone())
    return shared + 1


def after_a_break(a):
    own = a + 1
    own.add_(1)
    G._dynamo.graph_break()
    own.add_(1)
    shared.add_(own)
    return own


def with_gradients(a):
    return G.func.grad(lambda x: (x * shared.add_(1)).sum())(a)


def as_tangents(a):
    return G.func.jvp(lambda x: x * shared.add_(1), (a,), (a,))[1]


def in_an_inner_vmap(a):
    own = a + 1
    return G.func.vmap(lambda b: own.add_(b))(G.ones(2, 2))


def the_mapped_of_the_outer(a):
    return G.func.vmap(lambda b: a.add_(b))(G.ones(2, 2))


kept = []


def of_the_example_before(a):
    kept.append(a * 1)
    return kept[0].add_(a)


FUNCTIONS = [
    adds,
    through_a_view,
    an_item,
    an_out,
    a_copy,
    data,
    detached,
    a_slice_that_is_made_first,
    in_a_loop,
    other_memory,
    after_a_break,
    with_gradients,
    as_tangents,
    in_an_inner_vmap,
    the_mapped_of_the_outer,
    of_the_example_before,
    "a buffer",
]


def run_of(fn, how, backend="eager", **options):
    mapped = G.func.vmap(
        G.compile(fn, backend=backend) if how == "the function is compiled" else fn, **options
    )
    return (
        G.compile(lambda *args: mapped(*args), backend=backend)
        if how == "all is compiled"
        else mapped
    )


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn if isinstance(fn, str) else fn.__name__)
def test_a_write_to_what_all_examples_share_is_refused_and_changes_nothing(fn, how):
    global shared
    shared = G.tensor([5.0, 6.0])
    kept.clear()
    mine, version = shared, shared._version
    run = run_of(Counts() if fn == "a buffer" else fn, how)
    for _ in range(2):  # recorded, and found again
        x = G.tensor([[1.0, 2.0], [3.0, 4.0]])
        with pytest.raises(RuntimeError, match=REFUSED):
            run(x)
        kept.clear()
        assert (
            mine.tolist() == [5, 6] and mine._version == version and x.tolist() == [[1, 2], [3, 4]]
        )
    mine.add_(1)  # the fence is down again
    assert mine.tolist() == [6, 7]


def test_a_function_that_is_compiled_before_it_is_mapped_is_refused_too():
    z = G.zeros(2)
    f = G.compile(lambda a: z.add_(a), backend="eager")
    assert f(G.ones(2)).tolist() == f(G.zeros(2)).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=REFUSED):
        G.func.vmap(f)(G.ones(2, 2))
    assert z.tolist() == [1, 1] and f(G.ones(2)).tolist() == [2, 2]


def test_the_error_can_be_caught_within_a_compiled_function():
    z = G.zeros(2)

    def f(x):
        try:
            return G.func.vmap(lambda a: z.add_(a))(x)
        except RuntimeError:
            z.add_(7)
            return x * 3 + z

    for backend in ("eager", "tcc"):
        z.zero_()
        assert G.compile(f, backend=backend)(G.ones(2, 2)).tolist() == [[10, 10], [10, 10]]


def its_own(a):
    own = G.zeros(2)
    own += a
    own[0] = 9
    own.view(2, 1).mul_(2)
    return own


def its_argument(a):
    a.add_(1)
    a[1:].mul_(2)
    return a * 1


def its_own_around_a_break(a):
    own = a + 1
    G._dynamo.graph_break()
    own.mul_(2)
    a.add_(1)
    return own


def its_own_through_transforms(a):
    def f(x):
        y = x * 2
        y.add_(1)
        return (y * a).sum()

    own = G.func.grad(f)(a)
    own.add_(G.func.jvp(f, (a,), (G.ones(2),))[1])
    return own


def its_own_on_two_levels(a):
    def inner(b):
        own = a * b
        own.add_(b)
        b.mul_(2)
        return own

    out = G.func.vmap(inner)(G.ones(2, 2))
    return out.add_(a)


OWN = {
    its_own: [[18, 4], [18, 8]],
    its_argument: [[2, 6], [4, 10]],
    its_own_around_a_break: [[4, 6], [8, 10]],
    its_own_through_transforms: [[8, 10], [20, 22]],
    its_own_on_two_levels: [[[3, 5], [3, 5]], [[7, 9], [7, 9]]],
}


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("fn", OWN, ids=lambda fn: fn.__name__)
def test_an_example_may_write_to_what_is_its_own(fn, how, backend):
    run = run_of(fn, how, backend)
    for _ in range(2):
        x = G.tensor([[1.0, 2.0], [3.0, 4.0]])
        assert run(x).tolist() == OWN[fn]
        written = fn in (its_argument, its_own_around_a_break)
        assert (x.tolist() != [[1, 2], [3, 4]]) == written


def test_an_example_of_columns_writes_to_its_column():
    for how in WAYS:
        x = G.tensor([[1.0, 2.0], [3.0, 4.0]])
        assert (
            run_of(lambda a: a.add_(1) * 1, how, in_dims=1, out_dims=1)(x).tolist()
            == [[2, 3], [4, 5]]
            == x.tolist()
        )


def test_memory_of_an_argument_beside_the_example_is_shared():
    x = G.ones(2, 2)
    for how in WAYS:
        with pytest.raises(RuntimeError, match=REFUSED):
            run_of(lambda a: a + x.add_(1), how)(x)
        assert x.tolist() == [[1, 1], [1, 1]]


def test_a_whole_graph_holds_writes_to_own_memory():
    f = G.compile(
        lambda x: G.func.vmap(its_own)(x) + G.func.vmap(its_argument)(x),
        backend="eager",
        fullgraph=True,
    )
    assert f(G.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[20, 10], [22, 18]]
    inner = G.func.vmap(G.compile(its_argument, backend="eager", fullgraph=True))
    assert inner(G.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[2, 6], [4, 10]]


def test_fences_balance():
    from gramme import _core

    with pytest.raises(RuntimeError, match="no fence stands"):
        _core.fence_lower()
    for wrong in ([], (1,), None):
        with pytest.raises(TypeError, match="tuple of tensors"):
            _core.fence_raise(wrong)
