# SPDX-License-Identifier: Apache-2.0
"""What torch's documentation calls a view operation shares memory here: where it lies, what it is a
view of, versions, writes through it, gradients, and all of it in compiled functions."""

import numpy
import pytest
from same import check

import gramme as G

backends = pytest.mark.parametrize("backend", ["eager", "tcc", "cc"])


def matrix(*shape):
    n = int(numpy.prod(shape))
    return (G.arange(n).float() * 0.37 - 1.5).view(shape).clone()


VIEWS = [
    "x.as_strided((2, 3), (6, 2))", "x.as_strided((3, 3), (2, 1))", "x.diagonal()", "x.diagonal(1)",
    "x.diagonal(-2, -1, 0)", "G.diagonal(x, -1)",
    "G.linalg.diagonal(x)", "G.einsum('ii->i', x)", "G.einsum('ij->ji', x)", "G.einsum('ij', x)",
    "x.expand(2, 4, 4)", "x.expand(4, 4)", "x.expand_as(x)",
    "x.movedim(0, 1)", "x.movedim(0, 0)", "x.narrow(0, 1, 2)", "x.permute(1, 0)", "x.permute(0, 1)",
    "x.select(1, 2)", "x.squeeze()", "x.squeeze(0)",
    "x.transpose(0, 1)", "x.t()", "x.T", "x.H", "x.mT", "x.mH", "x.adjoint()", "x.swapaxes(0, 1)",
    "x.swapdims(0, 1)", "x.unfold(0, 2, 2)",
    "x.unfold(1, 3, 1)", "x.unfold(0, 2, 3)", "x.unflatten(0, (2, 2))", "x.unsqueeze(1)",
    "x.view(2, 8)", "x.view(4, 4)", "x.view_as(x)", "x.unbind()[1]",
    "x.unbind(1)[1]", "x.split(2)[1]", "x.split([1, 3], 1)[1]", "x.split(9)[0]", "x.hsplit(2)[1]",
    "x.vsplit(2)[1]", "x.tensor_split(3)[1]", "x.chunk(2)[1]",
    "x.chunk(1)[0]", "x[1]", "x[1:]", "x[:]", "x[...]", "x[None]", "x[1, 2]", "x[:, None, 1:3]",
    "x[::2, 1]", "x[-1, ...]", "x.reshape(-1)", "x.reshape(4, 4)", "x.reshape_as(x)",
    "x.flatten()", "x.ravel()", "G.broadcast_to(x, (3, 4, 4))", "G.atleast_3d(x)",
]  # fmt: skip
SAME = ["x.real", "x.contiguous()", "x.flatten(0, 0)", "G.broadcast_tensors(x, x)[0]"]
TWICE = (
    "expand(2",
    "unfold(1",
    "as_strided((3",
    "broadcast_to",
)  # several elements in one place: no writes


@pytest.mark.parametrize("backend", [None, "eager", "tcc"])
@pytest.mark.parametrize("text", VIEWS)
def test_it_is_a_view(text, backend):
    f = eval(f"lambda x: {text}", {"G": G})
    f = G.compile(f, backend=backend, fullgraph=True) if backend else f
    for x in (matrix(4, 4), matrix(8, 5)[1:5, :4]):
        try:
            y = f(x)
        except RuntimeError as error:  # no strides for this one
            assert x.stride() != (4, 1) and ("view" in text or "as_strided" in text), error
            continue
        if x.stride() != (4, 1) and (
            "as_strided" in text or "reshape(-1" in text or "flatten" in text or "ravel" in text
        ):
            continue
        assert y is not x and y._base is (x if x._base is None else x._base)
        assert 0 <= y.data_ptr() - x.data_ptr() < 4 * 40 and y._version == x._version
        if any(name in text for name in TWICE):
            with pytest.raises(RuntimeError, match="more than one element"):
                y.add_(1)
            at = y._version
            assert (
                y.fill_(2).tolist() == y.clone().fill_(2).tolist()
                and x._version == y._version == at + 1
            )
            continue
        before, at = x.sum().item(), y._version
        y.add_(1)
        assert x._version == y._version == at + 1
        assert x.sum().item() == pytest.approx(before + y.numel(), rel=1e-4)
        x.zero_()
        assert y.abs().sum().item() == 0 and y._version == at + 2


@pytest.mark.parametrize("text", SAME)
def test_what_changes_nothing_is_the_tensor_itself(text):
    x = matrix(4, 4)
    assert eval(text) is x


@pytest.mark.parametrize(
    "shape, turn",
    [
        ((4, 4), "x"),
        ((3, 5), "x"),
        ((5, 3), "x.t()"),
        ((5, 8), "x[1:4, 2:6]"),
        ((3, 2, 4), "x"),
        ((2, 3, 4), "x.transpose(0, 2)"),
    ],
)
def test_diagonals_lie_where_numpy_has_them(shape, turn):
    x, n = eval(turn, {"x": matrix(*shape)}), eval(
        turn.replace("transpose(0, 2)", "transpose(2, 1, 0)").replace("t()", "T"),
        {"x": matrix(*shape).numpy()},
    )
    for offset in range(-6, 7):
        for d1, d2 in ((0, 1), (1, 0), (-1, 0), (-2, -1)):
            y, want = x.diagonal(offset, d1, d2), n.diagonal(offset, d1, d2)
            assert y.tolist() == want.tolist() and y.shape == want.shape
            assert all(
                have == s // 4 for have, s, k in zip(y.stride(), want.strides, y.shape) if k > 1
            )


def test_windows_lie_where_numpy_has_them():
    for x, n in ((matrix(7, 4), matrix(7, 4).numpy()), (matrix(4, 7).t(), matrix(4, 7).numpy().T)):
        for dim, size, step in (
            (0, 3, 1),
            (0, 2, 2),
            (1, 2, 1),
            (-1, 4, 3),
            (0, 7, 1),
            (0, 1, 4),
            (1, 0, 1),
        ):
            y = x.unfold(dim, size, step)
            at = tuple(slice(None, None, step) if d == dim % 2 else slice(None) for d in range(2))
            want = (
                numpy.lib.stride_tricks.sliding_window_view(n, size, dim)[at]
                if size
                else numpy.zeros(y.shape)
            )
            assert y.tolist() == want.tolist() and y.shape == want.shape
            assert all(
                have == s // 4
                for have, s, k in zip(y.stride(), want.strides, y.shape)
                if k > 1 and size
            )
    assert G.tensor(2.0).unfold(0, 1, 1).tolist() == [2.0]


def test_chunks_of_nothing():
    assert [tuple(c.shape) for c in G.zeros(0, 3).chunk(3)] == [(0, 3)] * 3


TAKEN = [
    "x.diagonal()", "x.diagonal(1)", "x.diagonal(-1)", "x.diagonal(1, -1, 0)", "x.unfold(0, 2, 2)",
    "x.unfold(-1, 2, 3)", "x.unfold(0, 2, 1)", "x.diagonal()[::2]",
    "x[1:].diagonal()", "x.t().diagonal(-1)", "x.unfold(0, 2, 2)[0].diagonal()",
    "x.diagonal(0, -1, 0).unfold(-1, 2, 2)", "x.as_strided((3, 2), (2, 3))",
]  # fmt: skip
BODIES = {
    "given out": "return v",
    "written and given out": "v.mul_(2); return v, x * 1.5",
    "its base written": "x.mul_(3); return v * v, v",
    "zeros": "v.zero_(); return x * x",
    "both written": "w = v * v; x.add_(1); v.add_(w); return x, v",
    "written quietly": "\n    with G.no_grad(): v.mul_(2)\n    return v, x",
    "read": "return (v * v).sum(), v",
}


SHAPES = [
    ((5, 3), "x.t()"),
    ((4, 4), "x"),
    ((3, 5), "x"),
    ((5, 8), "x[1:4, 2:7]"),
    ((3, 2, 4), "x"),
]


@pytest.mark.parametrize(
    "way, backend",
    [
        ("plain", "tcc"),
        ("grad", "eager"),
        ("grad", "tcc"),
        ("inner", "eager"),
        ("inner", "tcc"),
        ("grad", "cc"),
    ],
)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("view", TAKEN)
def test_compiled_functions_do_as_plain_ones(view, body, way, backend):
    for shape, turn in SHAPES[: 1 if backend == "cc" else None]:  # whose compiler takes its time
        scope = {"G": G}
        start = "x = x * 2; " if way == "inner" else ""
        exec(f"def f(x):\n    {start}v = {view}; {BODIES[body]}", scope)

        def inputs():
            leaf = matrix(*shape)
            leaf.requires_grad_(way != "plain")
            return [eval(turn, {"x": leaf * 1.25})], [leaf] if way != "plain" else []

        def after(results):
            total = sum(
                (r * r * r).sum() for r in (results if isinstance(results, tuple) else (results,))
            )
            if total.requires_grad:
                total.backward()

        try:
            scope["f"](*inputs()[0])
        except (RuntimeError, IndexError):  # not of this shape, or no writes
            continue
        check(inputs, scope["f"], backend, fullgraph=False, after=after)


@backends
@pytest.mark.parametrize(
    "first", ["x.diagonal()", "x[1]", "x", "x.unfold(0, 2, 2)", "x.transpose(0, 1).diagonal(1)"]
)
@pytest.mark.parametrize(
    "second",
    ["x.diagonal(1)", "x.diagonal()", "x", "x[:, 1]", "x.diagonal()[1:]", "x.unfold(0, 3, 1)"],
)
def test_inputs_that_overlap(first, second, backend):
    def f(a, b):
        a.mul_(2)
        c = b * 3
        a.add_(c.sum())
        return c, a * 1.5

    for shape in ((4, 4), (4, 2, 4)):
        for grad in (False, True):

            def inputs():
                leaf = matrix(*shape).requires_grad_(grad)
                x = leaf * 1.25
                return [eval(first), eval(second)], [leaf] if grad else []

            check(
                inputs,
                f,
                backend,
                fullgraph=False,
                after=lambda rs: (rs[0].sum() + (rs[1] * rs[1]).sum()).backward() if grad else None,
            )


ONE_ELEMENT = {
    "windows": "x.view(2, 6).unfold(0, 2, 3)",
    "one window": "x.view(2, 6).unfold(0, 2, 9).transpose(0, 1)",
    "a slice": "x.view(2, 6)[::7].transpose(0, 1)",
    "a column": "x.view(6, 2)[:, 1:].t()",
    "of a spread one": "x.view(2, 6)[:, :, None].expand(2, 6, 3)[:, :, 1:2].permute(1, 2, 0)",
    "selected": "x.view(3, 4).select(1, 2).unsqueeze(-1)",
    "by strides": "x.as_strided((6, 1, 2), (1, 50, 6))",
    "all of one": "x.view(3, 4)[2:, 3:]",
}


@backends
@pytest.mark.parametrize("view", ONE_ELEMENT)
def test_dimensions_of_one_element_keep_their_strides(view, backend):
    """They say where a result has that dimension; the inputs overlap, so the view is taken again of
    their base."""

    def f(a, b):
        a.mul_(2)
        return a.clone(), b + 1, a * 1.5

    G.compiler.reset()  # each view is a kind of call of its own
    for grad in (False, True):

        def inputs():
            leaf = (G.arange(12).float() * 0.37 - 1.5).requires_grad_(grad)
            x = leaf * 1.25
            return [eval(ONE_ELEMENT[view], {"x": x}), x[1:11]], [leaf] if grad else []

        check(
            inputs,
            f,
            backend,
            after=lambda rs: sum((r * r).sum() for r in rs).backward() if grad else None,
        )


def test_whole_programs_are_compiled():
    """No break: neither for the view, nor for writes to it or to what it was taken of."""

    def f(x):
        y = x * 2
        y.diagonal().zero_()
        y[1:].diagonal(1).add_(x.sum())
        y.unfold(0, 2, 2).mul_(0.5)
        y.fill_diagonal_(3.0)
        return y.diagonal(-1), y

    check(lambda: ([matrix(4, 4)], []), f, "tcc")


@pytest.mark.parametrize("view", ["x.diagonal(1)", "x.unfold(0, 3, 2)", "x.unfold(-1, 2, 3)"])
def test_second_derivatives(view):
    x = matrix(5, 6).double().requires_grad_()
    assert G.autograd.gradcheck(lambda x: eval(view) ** 2, (x,)) and G.autograd.gradgradcheck(
        lambda x: eval(view) ** 3, (x,)
    )


def test_gradients_move_the_bits_alone():
    x = G.zeros(3, 3, requires_grad=True)
    (g,) = G.autograd.grad(x.diagonal(), x, G.tensor([-0.0, 1.0, -2.0]))
    assert (
        repr(g.tolist()) == "[[-0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -2.0]]"
        and g.is_contiguous()
    )


@backends
@pytest.mark.parametrize("view", ["x.diagonal(1)", "x.unfold(0, 2, 2)", "x.diagonal()[::2]"])
def test_what_arrives_at_a_tensor_that_was_written_to_keeps_its_signs(view, backend):
    scope = {"G": G}
    exec(f"def f(x):\n    x = x * 1\n    {view}.fill_(2.5)\n    return x", scope)

    def inputs():
        leaf = matrix(3, 3).requires_grad_()
        return [leaf], [leaf]

    check(inputs, scope["f"], backend, after=lambda y: y.backward(G.full((3, 3), -0.0)))


@pytest.mark.parametrize("backend", ["eager", "tcc", "cc"])
def test_of_any_size(backend):
    def f(x):
        y = x * 2
        y.diagonal(1).mul_(3)
        y.unfold(0, 2, 2).add_(1)
        return y, y.diagonal(-1) * 1, x.unfold(1, 3, 1).sum(-1)

    compiled = G.compile(f, backend=backend, dynamic=True)
    for shape in ((5, 7), (6, 9), (9, 6), (4, 4)):

        def inputs():
            leaf = matrix(*shape).requires_grad_()
            return [leaf * 1.5], [leaf]

        check(
            inputs, f, compiled=compiled, after=lambda rs: sum((r * r).sum() for r in rs).backward()
        )
