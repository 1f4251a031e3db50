# SPDX-License-Identifier: Apache-2.0
"""as_strided: any strides as a chain of views, so that gradients, writes and back ends know it
already.  numpy has the second opinion."""

import numpy
import pytest
from same import check

import gramme as G

backends = pytest.mark.parametrize("backend", ["eager", "tcc", "cc"])
CASES = [
    ((3, 4), (4, 1)), ((4, 3), (1, 4)), ((2, 3), (6, 2)), ((5,), (2,)), ((2, 2, 2), (6, 3, 1)),
    ((), ()), ((3,), (0,)), ((2, 3), (0, 4)),
    ((3, 2, 2), (4, 0, 1)), ((0, 3), (1, 1)), ((1, 12), (99, 1)), ((2, 5), (6, 1)),
]  # fmt: skip
WINDOWS = [((10, 3), (1, 1)), ((4, 6), (2, 1)), ((3, 3, 2), (2, 1, 3)), ((2, 5), (7, 1))]


def base(n=12):
    return G.arange(n).float() * 0.37 - 1.5


def by_numpy(size, stride, offset=0):
    memory = base().numpy()
    return numpy.lib.stride_tricks.as_strided(
        memory[offset:], size, [4 * s for s in stride]
    ).tolist()


@pytest.mark.parametrize("size, stride", CASES + WINDOWS)
@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 1, 6)])
def test_elements_and_strides(size, stride, shape):
    y = base().view(shape).as_strided(size, stride)
    assert y.tolist() == by_numpy(size, stride)
    if (size, stride) in CASES:
        assert y.stride() == stride or 0 in size


def test_the_offset_is_that_of_the_storage():
    x = base()
    assert x[2:].as_strided((2, 2), (4, 1), 3).tolist() == by_numpy((2, 2), (4, 1), 3)
    assert x[2:].as_strided((2, 2), (4, 1)).tolist() == by_numpy((2, 2), (4, 1), 2)
    assert (
        G.as_strided(x.view(3, 4).t(), (12,), (1,)).tolist() == x.tolist()
    )  # memory, not the order of the dimensions


@pytest.mark.parametrize(
    "size, stride, offset",
    [
        ((13,), (1,), None),
        ((2, 7), (6, 1), None),
        ((2,), (1, 1), None),
        ((2,), (1,), 11),
        ((2,), (-1,), 3),
    ],
)
def test_what_is_not_inside_of_the_tensor_is_an_error(size, stride, offset):
    with pytest.raises(RuntimeError, match="as_strided"):
        base().as_strided(size, stride, offset)


def test_it_is_a_view():
    x = base()
    y = x.as_strided((2, 3), (6, 2))
    y.mul_(2)
    x[0] = 9.0
    assert y._base is x and y[0, 0] == 9.0 and x[2].item() == base()[2].item() * 2


@backends
@pytest.mark.parametrize("size, stride", CASES + WINDOWS)
def test_gradients_of_what_is_there_more_than_once_are_added(size, stride, backend):
    def f(x):
        y = x.sin().as_strided(size, stride)
        return y * y, y

    check(
        lambda: ([x := base().requires_grad_()], [x]),
        f,
        backend,
        after=lambda rs: sum((r * (i + 1.5)).sum() for i, r in enumerate(rs)).backward(),
    )
    x = base().requires_grad_()
    x.as_strided(size, stride).sum().backward()
    counts = numpy.zeros(12)
    numpy.add.at(
        counts,
        numpy.lib.stride_tricks.as_strided(numpy.arange(12), size, [8 * s for s in stride]),
        1,
    )
    assert x.grad.tolist() == counts.tolist()


def written_through(x):
    y = x.as_strided((2, 3), (6, 2))
    y.mul_(3)
    return x.as_strided((4, 3), (1, 4)), y


def written_beside(x, y):
    x.mul_(2)
    y.add_(x.sum())
    return x + 1


def turned(x):
    y = x * 2
    y.as_strided_((4, 3), (1, 4))
    return y.mul_(0.5)


@backends
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "f, make",
    [
        (written_through, lambda b: [b]),
        (written_beside, lambda b: [b.as_strided((2, 4), (6, 1)), b.as_strided((3, 2), (4, 2))]),
        (turned, lambda b: [b]),
    ],
)
def test_writes_and_inputs_that_overlap(f, make, grad, backend):
    def inputs():
        leaf = base().requires_grad_() if grad else base()
        b = leaf * 1.25
        return make(b) + [b], [leaf] if grad else []

    whole = not (
        grad and f is turned
    )  # a write to what has become a view of itself by several steps, with a history: plain Python
    check(
        inputs,
        lambda *given: f(*given[:-1]),
        backend,
        fullgraph=whole,
        after=(lambda rs: sum(r.sum() for r in rs).backward())
        if grad and f is written_through
        else None,
    )


@backends
def test_places_that_are_there_twice_in_memory_that_is_turned(backend):
    def f(x):
        y = x * 1.5
        z = y.as_strided((3, 2, 2), (4, 0, 1))
        y.zero_()
        return z * z, y

    def inputs():
        leaf = base().requires_grad_()
        return [leaf.view(3, 4).t()], [leaf]

    check(inputs, f, backend, after=lambda rs: sum(r.sum() for r in rs).backward())


@backends
def test_one_element_that_is_there_often(backend):
    def f(x, y):
        x.sin_()
        return y * 2

    def inputs():
        leaf = base().requires_grad_()
        b = leaf * 1.25
        return [b.view(3, 4)[:, 1:3], b[1:2].expand(4)], [leaf]

    check(inputs, f, backend, after=lambda y: y.sum().backward())


@backends
def test_a_dimension_of_one_element_has_the_stride_that_it_has_in_plain_code(backend):
    def f(x):
        y = x * 2
        y.as_strided((2, 3), (6, 2)).fill_(1.5)
        return y

    assert f(base().view(3, 4).t().unsqueeze(-1)).stride() == (1, 4, 4)
    check(lambda: ([base().view(3, 4).t().unsqueeze(-1)], []), f, backend)


def test_second_derivatives():
    def second(f):
        x = base().requires_grad_()
        (g,) = G.autograd.grad((f(x) ** 3).sum(), x, create_graph=True)
        return G.autograd.grad((g * g).sum(), x)[0].tolist()

    def f(x):
        return x.as_strided((3, 2, 2), (4, 0, 1))

    assert second(G.compile(f, backend="eager")) == second(f)


# -- Inputs with gaps, or of which several elements are one place: what they are views of has the me

PARTS = [
    "m[::2]", "m.view(3, 4)[:, 1:3]", "m[:3].expand(4, 3)", "m.view(3, 4)[1]", "m.unfold(0, 3, 2)",
    "m[1:]", "m.view(3, 4).t()[1:]", "m.view(2, 6)[:, ::3]", "m.view(3, 4).diagonal()",
]  # fmt: skip
SHAPES = [
    ((3, 2), (3, 1)),
    ((2, 3), (1, 1)),
    ((2, 2), (2, 2)),
    ((3,), (0,)),
    ((2,), (3,)),
    ((), ()),
    ((5,), (1,), 2),
    ((2, 2), (4, 1), 0),
]


@pytest.mark.parametrize("case", SHAPES, ids=str)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("backend", [None, "eager", "tcc", "cc"])
def test_parts_reach_what_they_are_part_of(part, case, backend):
    scope = {"G": G}
    exec(f"def f(x):\n    m = x * 1\n    y = {part}.as_strided(*{case})\n    return y * 2\n", scope)
    f = G.compile(scope["f"], backend=backend, fullgraph=True) if backend else scope["f"]
    x = base().requires_grad_()
    y = f(x)
    offset = case[2] if len(case) > 2 else eval(part, {"m": base()}).storage_offset()
    places = numpy.lib.stride_tricks.as_strided(
        numpy.arange(40)[offset:], case[0], [8 * s for s in case[1]]
    )
    assert y.tolist() == (base().numpy()[places] * 2).tolist()
    (y * G.arange(1.0, 1 + y.numel()).view(y.shape)).sum().backward()
    slopes = numpy.zeros(12)
    numpy.add.at(slopes, places.reshape(-1), 2 * numpy.arange(1.0, 1 + places.size))
    assert x.grad.tolist() == slopes.tolist()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("to", [".mul_(3)", ".zero_()"])
def test_writes_to_what_parts_reach(part, to):
    scope = {"G": G}
    exec(
        f"def f(x):\n    m = x * 1\n    {part}.as_strided((2, 2), (2, 1)){to}\n    return m * 2\n",
        scope,
    )
    leaf = base().requires_grad_

    def make():
        x = leaf(True).detach().requires_grad_()
        return [x], [x]

    for backend in ("eager", "tcc"):
        check(make, scope["f"], backend, lambda y: y.sum().backward())


def test_the_view_is_of_what_has_the_memory():
    x = base()
    y = x[::2].as_strided((3, 3), (2, 1), 1)
    assert y._base is x and y.data_ptr() == x.data_ptr() + 4
    outside = x.detach()[1::3]
    assert outside.as_strided((5,), (1,)).tolist() == x.tolist()[1:6]
    for f in (
        lambda: x[::2].as_strided((7,), (2,)),
        lambda: x.as_strided((2,), (-1,), 3),
        lambda: x.as_strided((3,), (5,), 2),
        lambda: x.as_strided((2, 2), (1,)),
    ):
        with pytest.raises(RuntimeError):
            f()
    leaf = x[::2].detach().requires_grad_()
    with pytest.raises(RuntimeError, match="cannot be known|not inside"):
        leaf[::2].as_strided((2,), (1,))  # the gap is of no history


@backends
def test_offsets_are_guarded(backend):
    f = G.compile(lambda x: x.as_strided((2, 2), (2, 1), 3), backend=backend, fullgraph=True)
    for first in (0, 1, 2, 0):
        assert f(base()[first : first + 8].detach()).tolist() == by_numpy((2, 2), (2, 1), 3)
