# SPDX-License-Identifier: Apache-2.0
"""Small names of torch's that programs use: methods, constructors, settings; each against plain
Python or numpy, and recorded."""

import itertools
import math

import numpy as np
import pytest

import gramme as G

X = G.arange(6.0).reshape(2, 3)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def recorded(fn, *args):
    """fn without a graph break, beside fn."""
    G._dynamo.reset()
    plain, compiled = fn(*args), G.compile(fn, backend="eager", fullgraph=True)(*args)
    for a, b in zip(*[v if isinstance(v, tuple) else (v,) for v in (plain, compiled)]):
        assert same(a, b) if isinstance(a, G.Tensor) else a == b
    return plain


# -- Methods


def test_questions_have_answers():
    assert (
        X.allclose(X + 1e-9) and not X.allclose(X + 1) and X.equal(X.clone()) and not X.equal(X[:1])
    )
    assert G.is_nonzero(G.tensor([2])) and not G.tensor(0.0).is_nonzero()
    with pytest.raises(RuntimeError, match="one element"):
        X.is_nonzero()
    assert (X.is_cpu, X.is_cuda, X.is_sparse, X.is_quantized, X.is_meta, X.get_device()) == (
        True,
        False,
        False,
        False,
        False,
        -1,
    )
    assert (
        X.is_signed()
        and not G.ones(1, dtype=G.uint8).is_signed()
        and not X.is_complex()
        and X.real is X
        and X.conj() is X
    )
    assert (
        recorded(
            lambda x: x + 1
            if x.is_cpu and not x.is_cuda and x.get_device() < 0 and not x.is_sparse
            else x,
            X,
        ).tolist()
        == (X + 1).tolist()
    )


@pytest.mark.parametrize(
    "fn, want",
    [
        (lambda x: x.sum_to_size(1, 3), [[3.0, 5.0, 7.0]]),
        (lambda x: x.sum_to_size(3), [3.0, 5.0, 7.0]),
        (lambda x: x.new_tensor([1, 2]), [1.0, 2.0]),
        (lambda x: x.split_with_sizes([1, 2], 1)[1], [[1.0, 2.0], [4.0, 5.0]]),
        (lambda x: x.adjoint(), [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]),
        (lambda x: x.H + x.mH, [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]),
        (lambda x: x.narrow_copy(1, 1, 1), [[1.0], [4.0]]),
        (lambda x: x.clone().fill_diagonal_(9.0), [[9.0, 1.0, 2.0], [3.0, 9.0, 5.0]]),
        (lambda x: x.clone().cumsum_(1), [[0.0, 1.0, 3.0], [3.0, 7.0, 12.0]]),
        (lambda x: x.angle(), [[0.0] * 3] * 2),
        (lambda x: x.type("gramme.DoubleTensor"), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        (lambda x: G.exp_(G.relu_(x - 9)), [[1.0] * 3] * 2),
        (lambda x: x.isclose(x).float(), [[1.0] * 3] * 2),
        (lambda x: (x.long() << 2) >> 1, [[0, 2, 4], [6, 8, 10]]),
        (lambda x: x.clone().greater_(2.0), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]),
        (lambda x: x.hardshrink(2.5), [[0.0, 0.0, 0.0], [3.0, 4.0, 5.0]]),
        (lambda x: (-x).prelu(x[0, 2:] * 0.25), [[0.0, -0.5, -1.0], [-1.5, -2.0, -2.5]]),
    ],
)
def test_methods_compute(fn, want):
    assert recorded(fn, X).tolist() == want


def test_a_tensor_is_cut_off_in_place():
    leaf = G.ones(2, requires_grad=True)
    y = leaf * 2
    y.detach_()
    assert not y.requires_grad and y.grad_fn is None and y.tolist() == [2.0, 2.0]


def test_reversed_and_filled():
    assert [row.tolist() for row in reversed(X)] == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]
    want = np.zeros((5, 2))
    np.fill_diagonal(want, 1, wrap=True)
    assert G.zeros(5, 2).fill_diagonal_(1, wrap=True).tolist() == want.tolist()
    cube = np.zeros((3, 3, 3))
    np.fill_diagonal(cube, 2)
    assert G.zeros(3, 3, 3).fill_diagonal_(2).tolist() == cube.tolist()
    assert G.arange(3).apply_(lambda v: v * v).tolist() == [0, 1, 4]
    assert G.arange(3).map_(G.tensor([5, 6, 7]), lambda v, w: v - w).tolist() == [-5, -5, -5]


# -- Writes through index tensors


KEYS = [
    (np.array([0, 2, 0]), np.array([1, 3, -1])),
    (slice(None), np.array([[0, 1], [2, 2]]), np.array([1, 0])),
    (np.array([1, 1]), slice(1, 3), np.array([0, 2])),
    (np.array([-1]),),
]


@pytest.mark.parametrize("key", KEYS)
def test_assignment_through_index_tensors_is_that_of_numpy(key):
    want = np.zeros((3, 4, 5))
    value = np.arange(want[key].size, dtype=float).reshape(want[key].shape) + 1
    want[key] = value
    ours = tuple(k if isinstance(k, slice) else G.from_numpy(k) for k in key)

    def put(x, v):
        x = x.clone()
        x[ours] = v
        return x

    got = recorded(put, G.zeros(3, 4, 5, dtype=G.float64), G.from_numpy(value))
    flat = want != 0
    assert (got.numpy() != 0).tolist() == flat.tolist()
    assert got.numpy().tolist() == want.tolist()  # of equal places the last one counts, as in numpy


def test_index_put_adds_and_refuses():
    i, j = G.tensor([0, 0, 1]), G.tensor([2, 2, -1])
    got = recorded(
        lambda x, v: x.index_put((i, j), v, accumulate=True), X, G.tensor([1.0, 10.0, 100.0])
    )
    assert got.tolist() == [[0.0, 1.0, 13.0], [3.0, 4.0, 105.0]]
    x, v = X.clone().requires_grad_(), G.tensor([1.0, 10.0, 100.0], requires_grad=True)
    (G.index_put(x, (None, j), v) * G.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0, 0.0], [4.0, 5.0, 0.0]] and v.grad.tolist() == [
        0.0,
        0.0,
        9.0,
    ]
    assert G.index_put(X, (X > 3,), G.tensor([7.0, 8.0])).tolist() == [
        [0.0, 1.0, 2.0],
        [3.0, 7.0, 8.0],
    ]
    y = X.clone()
    y.index_put_((G.tensor([1]),), G.tensor(5.0))
    assert y.tolist() == [[0.0, 1.0, 2.0], [5.0, 5.0, 5.0]]
    with pytest.raises(IndexError, match="out of bounds"):
        G.index_put(X, (G.tensor([2]),), G.tensor(1.0))


# -- Dtypes, shapes, numbers


def test_promotion_can_be_asked():
    assert G.result_type(X, 1) == G.float32 and G.result_type(G.arange(2), 1.5) == G.float32
    assert (
        G.result_type(G.ones(2, dtype=G.int8), G.tensor(5)) == G.int8
        and G.result_type(1, 2.0) == G.float32
    )
    assert (
        G.can_cast(G.int64, G.float16)
        and not G.can_cast(G.float32, G.int64)
        and not G.can_cast(G.uint8, G.bool)
    )
    assert G.broadcast_shapes((2, 1), (3,), 1) == (2, 3)
    with pytest.raises(RuntimeError, match="do not broadcast"):
        G.broadcast_shapes((2,), (3,))


def test_constructors_by_dtype():
    assert (
        G.Tensor(2, 3).shape == (2, 3)
        and G.Tensor().shape == (0,)
        and G.Tensor([1, 2]).tolist() == [1.0, 2.0]
    )
    assert G.LongTensor([1, 2]).dtype == G.int64 and G.FloatTensor(2).shape == (2,)
    assert isinstance(X, G.FloatTensor) and not isinstance(X, G.LongTensor)
    assert X.type(G.DoubleTensor).dtype == G.float64 and X.type("torch.IntTensor").dtype == G.int32
    with pytest.raises(ValueError, match="no tensors of type"):
        X.type("NoTensor")
    try:
        G.set_default_tensor_type("torch.DoubleTensor")
        assert G.scalar_tensor(1).dtype == G.float64
    finally:
        G.set_default_tensor_type(G.FloatTensor)


def test_combinations_and_ranges():
    for r, again in itertools.product((1, 2, 3), (False, True)):
        choose = itertools.combinations_with_replacement if again else itertools.combinations
        assert G.combinations(G.arange(4), r, again).tolist() == [
            list(c) for c in choose(range(4), r)
        ]
    assert G.range(0, 3).tolist() == [0.0, 1.0, 2.0, 3.0] and G.range(1, 2, 0.5).tolist() == [
        1.0,
        1.5,
        2.0,
    ]
    assert G.typename(X) == "gramme.FloatTensor" and G.typename(3) == "int"


@pytest.mark.parametrize("dtype", [G.float32, G.float64])
def test_frexp_is_exact(dtype):
    tiny = G.finfo(dtype).tiny
    values = [0.0, -0.0, 1.0, -3.0, 0.1, 1e30, -1e-30, tiny, tiny / 8, math.inf, 0.5, 2.0, 1 - 1e-7]
    x = G.tensor(values, dtype=dtype)
    mantissa, exponent = recorded(G.frexp, x)
    for v, m, e in zip(x.tolist(), mantissa.tolist(), exponent.tolist()):
        assert (m, e) == (math.frexp(v) if math.isfinite(v) else (v, 0))
    assert exponent.dtype == G.int32 and math.isnan(G.frexp(G.tensor(math.nan))[0].item())


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_windows_are_those_of_numpy(n):
    for ours, theirs in (
        (G.hann_window, np.hanning),
        (G.hamming_window, np.hamming),
        (G.blackman_window, np.blackman),
        (G.bartlett_window, np.bartlett),
    ):
        assert np.allclose(ours(n, False, dtype=G.float64).numpy(), theirs(n), atol=1e-12)
        assert np.allclose(
            ours(n, dtype=G.float64).numpy(), theirs(n + 1)[:n] if n > 1 else np.ones(n), atol=1e-12
        )


def test_losses_take_numbers_as_reductions():
    target = X.softmax(1)
    for number, name in enumerate(("none", "mean", "sum")):
        assert same(
            G.kl_div(X, target, reduction=number), G.nn.functional.kl_div(X, target, reduction=name)
        )


# -- Settings


def test_print_options_are_honoured():
    x = G.tensor([1.0, 2.5, 1234.5678])
    try:
        G.set_printoptions(precision=2)
        assert repr(x) == "tensor([1.00e+00, 2.50e+00, 1.23e+03])"
        G.set_printoptions(sci_mode=False)
        assert repr(x) == "tensor([   1.00,    2.50, 1234.57])"
        G.set_printoptions(sci_mode=True)
        assert repr(G.tensor([1.0])) == "tensor([1.00e+00])"
        G.set_printoptions(profile="default", threshold=3, edgeitems=1)
        assert repr(G.arange(5)) == "tensor([0,  ..., 4])"
        G.set_printoptions(profile="full", linewidth=20)
        assert repr(G.arange(5)) == "tensor([0, 1, 2, 3,\n        4])"
        with pytest.raises(ValueError, match="precision"):
            G.set_printoptions(precision=-1)
    finally:
        G.set_printoptions(profile="default")
    assert repr(G.tensor([0.5])) == "tensor([0.5000])"


def test_switches_are_kept():
    G.use_deterministic_algorithms(True, warn_only=True)
    assert (
        G.are_deterministic_algorithms_enabled()
        and G.is_deterministic_algorithms_warn_only_enabled()
    )
    G.use_deterministic_algorithms(False)
    G.set_float32_matmul_precision("high")
    assert G.get_float32_matmul_precision() == "high"
    G.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError, match="'medium'"):
        G.set_float32_matmul_precision("low")
    G.backends.cudnn.benchmark = True
    first, second = G.seed(), G.seed()
    assert first != second and G.initial_seed() == second
    G.manual_seed(0)


def test_places_along_each_dimension():
    i = G.tensor([[0, 5], [11, 23]])
    assert [t.tolist() for t in recorded(lambda i: G.unravel_index(i, (2, 3, 4)), i)] == [
        t.tolist() for t in np.unravel_index(i.numpy(), (2, 3, 4))
    ]
    assert X[:, G.newaxis].shape == (2, 1, 3) and G.vmap is G.func.vmap


NOTHING_CHANGES = {
    "view": lambda x: x.view(2, 3),
    "view_as": lambda x: x.view_as(x),
    "reshape": lambda x: x.reshape(2, 3),
    "expand": lambda x: x.expand(2, 3),
    "broadcast_to": lambda x: G.broadcast_to(x, (2, 3)),
    "slice": lambda x: x[:],
    "ellipsis": lambda x: x[...],
    "narrow": lambda x: x.narrow(0, 0, 2),
    "squeeze": lambda x: x.squeeze(),
    "transpose": lambda x: x.transpose(1, 1),
    "permute": lambda x: x.permute(0, 1),
    "unflatten": lambda x: x.unflatten(0, (2,)),
    "split": lambda x: x.split(2)[0],
    "chunk": lambda x: x.chunk(1)[0],
    "tensor_split": lambda x: x.tensor_split(1)[0],
    "einsum": lambda x: G.einsum("ij", x),
}


@pytest.mark.parametrize("backend", [None, "eager", "tcc"])
@pytest.mark.parametrize("name", NOTHING_CHANGES)
def test_a_view_is_another_tensor_even_where_nothing_changes(name, backend):
    """Who turns it in place, or asks it for a gradient, leaves the tensor alone."""
    G._dynamo.reset()

    def turned(x):
        y = NOTHING_CHANGES[name](x)
        y.unsqueeze_(0)
        y[0, 0, 0] = 7
        return y

    turned, given_out = (
        G.compile(f, backend=backend) if backend else f for f in (turned, NOTHING_CHANGES[name])
    )
    x = G.zeros(2, 3)
    y = turned(x)
    assert x.shape == (2, 3) and y.shape == (1, 2, 3) and x.tolist() == [[7, 0, 0], [0, 0, 0]]
    x = G.zeros(2, 3)
    y = given_out(x)
    assert y is not x and y._base is x and y.stride() == x.stride()
    y.requires_grad_()
    assert not x.requires_grad


@pytest.mark.parametrize("strides", [(1, 2), (0, 1), (1, 1)])
def test_a_view_in_which_nothing_changes_keeps_any_strides(strides):
    x = G.zeros(6).as_strided((2, 2), strides)
    assert x[:].stride() == x.expand(2, 2).stride() == x.permute(0, 1).stride() == x.stride()


def test_what_gives_back_the_tensor_itself_in_torch_does():
    x = G.zeros(3)
    for y in (
        x.contiguous(),
        x.to(G.float32),
        x.float(),
        +x,
        x.cpu(),
        x.flatten(),
        G.atleast_1d(x),
        x.requires_grad_(False),
    ):
        assert y is x


def test_memory_formats():
    x = X.T
    for f in (G.zeros_like, G.ones_like, G.empty_like, G.rand_like, G.clone):
        assert (
            f(x, memory_format=G.preserve_format).stride() == f(x).stride()
            and f(x, memory_format=G.contiguous_format).is_contiguous()
        )
    assert x.contiguous(memory_format=G.contiguous_format).stride() == (2, 1) and x.clone(
        memory_format=G.contiguous_format
    ).equal(x)
    assert x.to(G.float64, memory_format=G.preserve_format).dtype == G.float64
    assert recorded(
        lambda x: x.T.clone(memory_format=G.contiguous_format)
        + G.zeros_like(x.T, memory_format=G.preserve_format),
        X,
    ).stride() == (2, 1)
    with pytest.raises(TypeError, match="not columns_first"):
        G.ones(1, 2, 3, 3).to(memory_format="columns_first")


def test_rounding_to_decimals():
    x = G.tensor([1.255, -2.344, 1234.5, 0.5, 1.5], dtype=G.float64)
    assert recorded(lambda x: x.round(decimals=2), x).tolist() == [1.25, -2.34, 1234.5, 0.5, 1.5]
    assert G.round(x, decimals=-2).tolist() == [
        0.0,
        -0.0,
        1200.0,
        0.0,
        0.0,
    ] and x.round().tolist() == [1.0, -2.0, 1234.0, 0.0, 2.0]
    assert (
        G.round(G.tensor([3, 4])).dtype == G.int64
        and x.clone().round_(decimals=1)[1].item() == -2.3
    )
