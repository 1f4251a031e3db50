# SPDX-License-Identifier: Apache-2.0
"""Views that autograd does not follow: other dtypes over the same bytes, x.data whose writes are
counted apart, detach_; and writes of one number to memory of which several elements are one place.
Plainly and compiled."""

import numpy
import pytest
from same import check

import gramme as G

backends = pytest.mark.parametrize("backend", ["eager", "tcc", "cc"])
DTYPES = [
    G.bool,
    G.uint8,
    G.int8,
    G.int16,
    G.int32,
    G.int64,
    G.float16,
    G.bfloat16,
    G.float32,
    G.float64,
]


def cube(dtype=G.float32):
    return (G.arange(24.0) * 0.37 - 1.5).reshape(2, 3, 4).to(dtype)


# -- view (dtype) ----------------------------------------------------------------------------------


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("of", DTYPES, ids=str)
def test_the_bytes_stay(of, to):
    x = (G.arange(48.0) * 0.37 - 1.5).reshape(2, 3, 8).to(of)
    y = x.view(to)
    size = x.element_size() * 8 // y.element_size()
    assert y.dtype is to and y.shape == (2, 3, size) and y.stride() == (3 * size, size, 1)
    assert y.data_ptr() == x.data_ptr() and y._base is None and not y.requires_grad
    assert (
        y.numpy().tobytes() == x.numpy().tobytes()
        if G.bfloat16 not in (of, to)
        else y.view(of).tolist() == x.tolist()
    )
    assert (
        G.compile(lambda x: x.view(to), backend="eager", fullgraph=True)(x).tolist() == y.tolist()
        or to.is_floating_point
    )


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "x.transpose(0, 1)",
        "x[:, 1:]",
        "x[..., 2:]",
        "x[..., :2]",
        "x[:, :, ::2]",
        "x.transpose(0, 2)",
        "x[0, :1].expand(5, 4)",
        "x[1, 1]",
        "x[:0]",
    ],
)
@pytest.mark.parametrize("to", ["int32", "int16", "uint8", "float64", "int64"])
def test_strides_are_numpys(text, to):
    x = eval(text, {"x": cube()})
    n = (
        eval(
            text.replace("transpose(0, 1)", "transpose(1, 0, 2)").replace(
                "transpose(0, 2)", "transpose(2, 1, 0)"
            ),
            {"x": cube().numpy()},
        )
        if "expand" not in text
        else None
    )
    wide = getattr(G, to).itemsize > 4
    if x.stride(-1) != 1 and getattr(G, to).itemsize != 4:
        with pytest.raises(RuntimeError, match="needs stride 1"):
            x.view(getattr(G, to))
        return
    y = x.view(getattr(G, to))
    if n is not None:
        want = n.view(to)
        assert y.shape == want.shape and numpy.array_equal(y.numpy(), want, equal_nan=wide)
        assert all(
            a * y.element_size() == b
            for a, b, k in zip(y.stride(), want.strides, y.shape)
            if k > 1 and y.numel()
        )


@pytest.mark.parametrize(
    "f, says",
    [
        (lambda x: x[..., 1:3].view(G.float64), "multiple of 2"),
        (lambda x: x[..., :3].view(G.float64), "multiple of 2"),
        (lambda x: x.transpose(0, 2).view(G.int16), "needs stride 1"),
        (lambda x: x.sum().view(G.int16), "needs stride 1"),
        (
            lambda x: x.reshape(-1)[:20].reshape(4, 5)[:, :4].view(G.float64),
            "the other strides too",
        ),
    ],
)
def test_what_does_not_fit_is_refused(f, says):
    with pytest.raises(RuntimeError, match=says):
        f(cube())
    with pytest.raises(RuntimeError, match=says):
        G.compile(f, backend="eager")(cube())
    with pytest.raises(TypeError):
        cube().view(2, 12, dtype=G.int32)


def test_a_scalar_and_keywords():
    assert (
        G.tensor(1.0).view(G.int32).item() == 0x3F800000 == G.tensor(1.0).view(dtype=G.int32).item()
    )
    assert G.ones(4).view(size=(2, 2)).shape == (2, 2)


PROGRAMS = [
    "x.view(G.int32)", "(x * 2 + 1).view(G.int32) & 0xff", "(x + 1).view(G.int16).sum(-1)",
    "(x + 1).view(G.float64)", "(x + 1)[:, :, 2:].view(G.float64) * 1",
    "(x.view(G.int32) + 1).view(G.float32) * 2", "x.view(G.int32).add_(1)",
    "x.transpose(0, 2).view(G.int32) + 1", "(x > 3).view(G.uint8) * 2",
    "x.view(G.int32)[0].mul_(2).sum()", "x.view(G.uint8).view(G.int16)",
    "x[1].view(G.int64), x[0].view(G.int16)", "x.view(G.float32)", "x.data", "x.data.view(2, 12)",
    "x.detach().view(G.int32), x.data.view(G.int32)",
    "((x.view(G.int32) >> 23 & 255) - 127).float() + x",
]  # fmt: skip
WRITES = [
    "y.view(G.int16)[..., ::2].fill_(7)", "y.view(G.uint8)[..., 0].fill_(3)",
    "y.view(G.float64)[1].fill_(3)", "y.transpose(0, 2).view(G.int32).zero_()",
    "y.data.mul_(2)", "y[1].data.add_(1)", "y.data[1].add_(1)", "y.detach().mul_(2)",
    "y.data.data.zero_()", "y.view(G.int32).bitwise_and_(-256)",
    "y[:, :1].expand(2, 3, 4).fill_(5.0)", "y[0, 0].expand(3, 4).transpose(0, 1).zero_()",
    "y[0, 0].expand(3, 4)[1:2].zero_()", "y[0, 0].unfold(0, 2, 1).fill_(3.0)",
    "y[0, :, :1].expand(3, 4).fill_(y.sum().detach())",
    "y.reshape(-1).as_strided((3, 3), (2, 1), 1).zero_()", "y[:, :0].expand(2, 0, 4).zero_()",
]  # fmt: skip


def inputs(needs):
    def make():
        leaf = cube().requires_grad_(needs)
        return [leaf * 1 if needs else leaf], [leaf]

    return make


def weigh(results):
    for t in results if isinstance(results, (list, tuple)) else [results]:
        if t.requires_grad:
            (t * (G.arange(1.0, 1 + t.numel()).reshape(t.shape))).sum().backward(retain_graph=True)


@backends
@pytest.mark.parametrize("needs", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("text", PROGRAMS)
def test_compiled_programs(text, needs, backend):
    check(inputs(needs), eval(f"lambda x: ({text})", {"G": G}), backend, weigh)


@backends
@pytest.mark.parametrize("needs", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("to", ["x", "x * 1"])
@pytest.mark.parametrize("text", WRITES)
@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
def test_compiled_writes(text, to, needs, backend):
    scope = {"G": G}
    exec(f"def f(x):\n    y = {to}\n    z = {text}\n    return y + 1, y, z\n", scope)
    check(inputs(needs), scope["f"], backend, weigh, fullgraph=False)


@backends
def test_writes_of_inputs_are_in_the_graph(backend):
    for text in (
        "x.view(G.int32).add_(1)",
        "x.data.mul_(2)",
        "x[0, :1].expand(3, 4).fill_(5.0)",
        "x.view(G.int16)[..., 0].zero_()",
    ):
        check(inputs(False), eval(f"lambda x: ({text}, x * 2)", {"G": G}), backend)


# -- x.data, detach_ -------------------------------------------------------------------------------


def test_data_counts_writes_apart():
    x = G.ones(3, requires_grad=True)
    data, detached, again = x.data, x.detach(), x.data
    view = data[1:]
    data.add_(1)
    view.mul_(3)
    assert (x._version, data._version, view._version, detached._version, again._version) == (
        0,
        2,
        2,
        0,
        0,
    )
    detached.add_(1)
    assert (x._version, data._version, detached._version) == (1, 2, 1) and x.tolist() == [
        3.0,
        7.0,
        7.0,
    ]
    assert data.data._version == 0 and data.detach()._version == 2


def test_what_a_gradient_reads_may_be_written_through_data():
    x = G.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    x.data.mul_(10)
    y.sum().backward()  # not noticed, as said
    assert x.grad.tolist() == [20.0, 40.0]
    y = x * x
    x.detach().mul_(10)
    with pytest.raises(RuntimeError, match="version"):
        y.sum().backward()


@backends
@pytest.mark.parametrize(
    "text",
    [
        "v = x.transpose(0, 1); v.set_(x.data); return x",
        "v = x[:]; v.set_(y.data); return x, y",
        "x.data.t_(); return x",
        "v = x.mT; v.set_((y * 2).data); return x, v",
    ],
)
@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
def test_what_becomes_data_counts_with_it(text, backend):
    scope = {"G": G}
    exec(f"def f(x, y):\n    {text}\n", scope)
    x, same = G.arange(12.0).view(3, 4), G.arange(12.0).view(3, 4)
    plain, compiled = scope["f"](x, x), G.compile(scope["f"], backend=backend)(same, same)
    for a, b in zip(*([r] if isinstance(r, G.Tensor) else r for r in (plain, compiled))):
        assert a.tolist() == b.tolist() and a.stride() == b.stride() and a._version == b._version
    assert x._version == same._version == 0


def test_detach_in_place_is_no_write():
    x = G.ones(2, requires_grad=True)
    y = x.exp()
    z, part = y * 2, y[:1]
    assert y.detach_() is y and y._version == 0 and not y.requires_grad and y.is_leaf
    z.sum().backward()
    assert x.grad is not None and part.requires_grad
    assert not G.ones(2, requires_grad=True).detach_().requires_grad
    for view in (x[:1], (x * 1)[:1], G.ones(3)[1:], G.ones(4).split(2)[0], x.detach().view(2, 1)):
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            view.detach_()
    assert (
        not x.detach().detach_().requires_grad
        and G.ones(2).view(G.int32).detach_().dtype is G.int32
    )


@backends
@pytest.mark.parametrize(
    "text",
    [
        "y = x * 2; y.detach_(); return y * x",
        "y = x.exp(); z = y * 2; y.detach_(); return z, y",
        "y = x * 2; v = y[:1]; y.detach_(); return y, v",
    ],
)
@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
def test_detach_in_place_compiled(text, backend):
    scope = {}
    exec(f"def f(x):\n    {text}\n", scope)
    check(inputs(True), scope["f"], backend, weigh, fullgraph="v" not in text)


# -- One place for several elements ----------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "add_(1)",
        "mul_(2)",
        "copy_(G.ones(()))",
        "copy_(G.ones(4, 3))",
        "neg_()",
        "uniform_()",
        "relu_()",
        "__setitem__(slice(0, 2), 1.0)",
    ],
)
def test_other_writes_are_refused(text):
    with pytest.raises(
        RuntimeError,
        match="more than one element of the written-to tensor refers to a single memory location",
    ):
        eval(f"G.arange(3.0).expand(4, 3).{text}", {"G": G})


def test_fills_and_their_gradients():
    leaf, number = G.ones(2, 3, requires_grad=True), G.tensor(5.0, requires_grad=True)
    y = leaf * 2
    wide = y[:, :1].expand(2, 3)
    wide.fill_(number)
    (y * G.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    assert y.tolist() == [[5.0, 2.0, 2.0], [5.0, 2.0, 2.0]] and wide.tolist() == [[5.0] * 3] * 2
    assert leaf.grad.tolist() == [[0.0, 4.0, 6.0], [0.0, 10.0, 12.0]] and number.grad.item() == 5.0
    line = G.arange(6.0)
    line.unfold(0, 3, 1)[1:3].fill_(9.0)
    assert line.tolist() == [0.0, 9.0, 9.0, 9.0, 9.0, 5.0] and line._version == 1
