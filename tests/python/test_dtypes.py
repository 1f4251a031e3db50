# SPDX-License-Identifier: Apache-2.0
"""The dtypes below 32 bits: numpy is the oracle where it has them, f32 rounded once where it has
not."""

import copy
import pickle

import numpy as np
import pytest

import gramme
from gramme.nn import functional as F
from gramme.testing import assert_bits_equal, assert_close

HALVES = [gramme.float16, gramme.bfloat16]
EIGHTS = [gramme.float8_e4m3fn, gramme.float8_e5m2]
INTS = {gramme.int8: np.int8, gramme.int16: np.int16}
BACKENDS = ["eager", "tcc"]


def all_float16():
    return np.arange(65536, dtype=np.uint16).view(np.float16)


def same(tensor, array):
    got = tensor.numpy()
    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got, array)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(array[array == 0]))


# -- Exchange --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, kind", [(gramme.float16, np.float16), *INTS.items()])
def test_numpy_shares_the_memory(dtype, kind):
    a = np.array([[1, -2, 3], [4, 5, -6]], kind)
    t = gramme.from_numpy(a)
    assert t.dtype is dtype and t.numpy().dtype == kind
    t[0, 0] = 9
    assert a[0, 0] == 9
    a[1, 2] = 7
    assert t[1, 2].item() == 7
    same(gramme.from_numpy(a.T), a.T)
    same(gramme.from_dlpack(a), a)
    np.testing.assert_array_equal(np.from_dlpack(t), a)


@pytest.mark.parametrize("dtype", [gramme.bfloat16, *EIGHTS])
def test_numpy_is_refused_where_it_has_no_such_type(dtype):
    t = gramme.ones(2).to(dtype)
    with pytest.raises(TypeError, match="float\\(\\).numpy"):
        t.numpy()
    with pytest.raises(TypeError, match=dtype.name):
        np.asarray(t)
    with pytest.raises(BufferError):
        memoryview(t)
    assert t.float().numpy().tolist() == [1.0, 1.0]


def test_files_keep_every_dtype(tmp_path):
    path = tmp_path / "x.safetensors"
    tensors = {d.name: gramme.tensor([1, 0, 3]).to(d) for d in [*HALVES, *EIGHTS, *INTS]}
    gramme.save(tensors, path)
    for name, t in gramme.load(path).items():
        assert_bits_equal(t, tensors[name])


@pytest.mark.parametrize("dtype", [*HALVES, *EIGHTS, *INTS])
def test_dlpack_and_copies_keep_the_dtype(dtype):
    t = gramme.tensor([1, 2, 3]).to(dtype)
    assert gramme.from_dlpack(t).dtype is dtype
    assert copy.deepcopy(t).dtype is dtype and t.clone().dtype is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert t.tolist() == [1, 2, 3] and t[1].item() == 2


# -- Casts -----------------------------------------------------------------------------------------


def test_every_float16_is_numpys():
    h = all_float16()
    same(gramme.from_numpy(h).float(), h.astype(np.float32))
    same(gramme.from_numpy(h).float().half()[:65536], h)
    numbers = h[np.isfinite(h)]
    t = gramme.from_numpy(numbers)
    same(t.to(gramme.int32), numbers.astype(np.int32))
    same(t.to(gramme.float64), numbers.astype(np.float64))
    assert t.tolist() == numbers.tolist()


def test_float32_is_rounded_as_numpy_does():
    rng = np.random.default_rng(5)
    f = (rng.standard_normal(100000) * 2.0 ** rng.integers(-30, 20, 100000)).astype(np.float32)
    h = np.sort(all_float16()[np.isfinite(all_float16())].astype(np.float32))
    f = np.concatenate(
        [f, (h[1:] + h[:-1]) / 2, [0.0, -0.0, 65519.99, 65520.0, -1e30, np.inf]]
    ).astype(np.float32)
    with np.errstate(over="ignore"):
        same(gramme.from_numpy(f).half(), f.astype(np.float16))


def test_bfloat16_is_the_upper_half_of_float32_rounded_to_even():
    rng = np.random.default_rng(6)
    f = rng.integers(0, 2**32, 50000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    f = f[np.isfinite(f)]
    bits = f.view(np.uint32).astype(np.uint64)
    want = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    same(gramme.from_numpy(f).bfloat16().float(), want)


def test_float8_overflow_follows_torch():
    x = gramme.tensor(
        [448.0, 464.0, 464.1, 480.0, -1e9, float("inf"), float("nan"), 57344.0, 61439.0, 61440.0]
    )
    e4 = x.to(gramme.float8_e4m3fn).tolist()
    assert e4[:2] == [448.0, 448.0] and all(v != v for v in e4[2:])
    e5 = x.to(gramme.float8_e5m2).tolist()
    assert (
        e5[:5] == [448.0, 448.0, 448.0, 512.0, -float("inf")]
        and e5[5] == float("inf")
        and e5[6] != e5[6]
    )
    assert e5[7:] == [57344.0, 57344.0, float("inf")]


@pytest.mark.parametrize("dtype, kind", INTS.items())
def test_small_integers_wrap_as_numpys(dtype, kind):
    wide = np.array([0, 1, -1, 127, 128, -129, 255, 32767, 32768, 70000, -70000], np.int64)
    same(gramme.from_numpy(wide).to(dtype), wide.astype(kind))
    same(gramme.from_numpy(wide).to(dtype).to(gramme.int64), wide.astype(kind).astype(np.int64))
    a = np.arange(-128, 128).astype(kind)
    for op in (np.add, np.subtract, np.multiply, np.maximum, np.bitwise_xor):
        names = {"subtract": "sub", "multiply": "mul"}
        f = getattr(gramme, names.get(op.__name__, op.__name__))
        same(f(gramme.from_numpy(a), gramme.from_numpy(a[::-1].copy())), op(a, a[::-1]))
    assert gramme.from_numpy(a).sum().dtype is gramme.int64
    assert gramme.from_numpy(a).sum().item() == int(a.astype(np.int64).sum())


def test_methods_and_type_names():
    t = gramme.tensor([1.5, 2.5])
    pairs = [
        (t.half(), "Half"),
        (t.bfloat16(), "BFloat16"),
        (t.short(), "Short"),
        (t.char(), "Char"),
    ]
    for cast, name in pairs:
        assert cast.type() == f"gramme.{name}Tensor"
    assert (
        t.to(gramme.half).dtype is gramme.float16
        and t.type(gramme.bfloat16).dtype is gramme.bfloat16
    )
    assert repr(t.half()) == "tensor([1.5000, 2.5000], dtype=gramme.float16)"
    assert repr(t.char()) == "tensor([1, 2], dtype=gramme.int8)"


# -- Promotion -------------------------------------------------------------------------------------


def test_promotion_is_torchs():
    p = gramme.promote_types
    assert p(gramme.float16, gramme.bfloat16) is gramme.float32
    assert (
        p(gramme.bfloat16, gramme.float32) is gramme.float32
        and p(gramme.int64, gramme.float16) is gramme.float16
    )
    assert (
        p(gramme.uint8, gramme.int8) is gramme.int16
        and p(gramme.int8, gramme.int16) is gramme.int16
    )
    half, i8 = gramme.ones(2, dtype=gramme.half), gramme.ones(2, dtype=gramme.int8)
    assert (
        (half + 1).dtype is gramme.half
        and (half * 2.5).dtype is gramme.half
        and (half + i8).dtype is gramme.half
    )
    assert (half + gramme.tensor(1.0)).dtype is gramme.half and (
        half + gramme.ones(2)
    ).dtype is gramme.float32
    assert (
        (i8 + 1).dtype is gramme.int8
        and (i8 / 2).dtype is gramme.float32
        and (i8 * 1.5).dtype is gramme.float32
    )
    assert (
        (half > i8).dtype is gramme.bool
        and half.sum().dtype is gramme.half
        and half.mean().dtype is gramme.half
    )
    assert (half @ half).dtype is gramme.half


# -- Arithmetic ------------------------------------------------------------------------------------


def test_float16_arithmetic_is_numpys():
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((37, 53)).astype(np.float16) for _ in range(2))
    x, y = gramme.from_numpy(a), gramme.from_numpy(b)
    same(x + y, a + b)
    same(x - y, a - b)
    same(x * y, a * b)
    same(x / y, a / b)
    same(x.abs().sqrt(), np.sqrt(np.abs(a)))
    same(gramme.maximum(x, y.t().t()), np.maximum(a, b))
    assert (x < y).numpy().tolist() == (a < b).tolist()


@pytest.mark.parametrize("dtype", HALVES)
def test_reductions_are_accumulated_in_float32(dtype):
    ones = gramme.ones(5000, 3, dtype=dtype)
    assert (
        ones.sum(0).tolist() == gramme.full((3,), 5000.0).to(dtype).tolist()
    )  # a sum in bfloat16 would stop at 256
    x = gramme.randn(700, 6).to(dtype)
    for dims in (0, 1, None):
        assert_bits_equal(x.sum(dims), x.float().sum(dims).to(dtype))
        assert_bits_equal(x.mean(dims), x.float().mean(dims).to(dtype))
        assert_bits_equal(
            x.amax(dims if dims is not None else ()),
            x.float().amax(dims if dims is not None else ()).to(dtype),
        )
    running, rows = gramme.zeros(6), []  # of float32 it is added up in float64
    for row in x.float():
        running = running + row
        rows.append(running)
    assert_bits_equal(x.cumsum(0), gramme.stack(rows).to(dtype))
    assert (
        gramme.full((70000,), 2.0, dtype=gramme.float16).mean().item() == 2.0
    )  # the sum does not fit float16


FUSED = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "elu": F.elu,
    "logsigmoid": F.logsigmoid,
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1),
    "norm": lambda x: x.norm(dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "rms_norm": lambda x: F.rms_norm(x, (x.shape[-1],), eps=1e-5),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", FUSED)
def test_one_function_is_rounded_once(name, dtype):
    x = gramme.randn(9, 33).to(dtype)
    assert_bits_equal(FUSED[name](x), FUSED[name](x.float()).to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((65, 130), (130, 33))],
)
def test_products_are_float32s_rounded_once(dtype, shapes):
    a, b = (gramme.randn(*shape).to(dtype) for shape in shapes)
    assert_bits_equal(a @ b, (a.float() @ b.float()).to(dtype))
    assert_bits_equal(
        a.transpose(-1, -2).contiguous().transpose(-1, -2) @ b, (a.float() @ b.float()).to(dtype)
    )


@pytest.mark.parametrize("dtype", EIGHTS)
def test_8_bit_floats_store_and_move(dtype):
    x = gramme.randn(4, 6).to(dtype)
    assert (
        x.t().contiguous().reshape(24)[:5].float().tolist()
        == x.float().t().reshape(24)[:5].tolist()
    )
    assert_bits_equal(gramme.cat([x, x], 1)[:, 6:], x)
    assert_bits_equal(x.index_select(0, gramme.tensor([3, 3])), gramme.stack([x[3], x[3]]))
    y = gramme.zeros(4, 6, dtype=dtype)
    y[1] = x[1]
    assert y.float().sum().item() == x.float()[1].sum().item()
    for bad in (
        lambda: x + x,
        lambda: x.sum(),
        lambda: x == x,
        lambda: x @ x.t(),
        lambda: -x,
        lambda: x.exp(),
    ):
        with pytest.raises(RuntimeError, match=f"{dtype.name}.*float32"):
            bad()


@pytest.mark.parametrize("dtype", HALVES)
def test_random_numbers_stay_below_one(dtype):
    x = gramme.rand(20000, dtype=dtype)
    assert (
        x.dtype is dtype
        and x.max().item() < 1
        and x.min().item() >= 0
        and abs(x.float().mean().item() - 0.5) < 0.02
    )
    z = gramme.randn(20000, dtype=dtype)
    assert z.dtype is dtype and abs(z.float().std().item() - 1) < 0.03


# -- Gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_are_near_those_of_float32(dtype):
    def loss(x, w, b):
        return F.cross_entropy(F.gelu(x @ w + b), gramme.tensor([0, 2, 1, 1]))

    gramme.manual_seed(3)
    values = [gramme.randn(4, 6), gramme.randn(6, 3), gramme.randn(3)]
    grads = []
    for d in (dtype, gramme.float32):
        inputs = [v.to(dtype).to(d).requires_grad_() for v in values]
        loss(*inputs).backward()
        assert all(v.grad.dtype is d for v in inputs)
        grads.append([v.grad.float() for v in inputs])
    rough = 0.01 if dtype is gramme.float16 else 0.08
    assert_close(grads[0], grads[1], rtol=rough, atol=rough / 4)


def test_a_cast_passes_the_gradient_on_in_the_inputs_dtype():
    x = gramme.tensor([1.0, 2.0], requires_grad=True)
    (x.half() * gramme.tensor([3.0, 4.0], dtype=gramme.half)).float().sum().backward()
    assert x.grad.dtype is gramme.float32 and x.grad.tolist() == [3.0, 4.0]


# -- Compiled --------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", HALVES)
def test_a_compiled_step_has_eagers_bits(backend, dtype):
    def step(x, w, b):
        h = F.layer_norm(gramme.tanh(x @ w + b), (32,))
        return (h.softmax(-1) * h).sum(0), (h > 0).to(gramme.int8).sum(1), h.amax(1), h.sum()

    def run(f):
        inputs = [v.to(dtype).requires_grad_() for v in values]
        outs = f(*inputs)
        (outs[0].sum() + outs[2].sum() + outs[3]).backward()
        return [o.detach() for o in outs] + [v.grad for v in inputs]

    gramme.manual_seed(4)
    values = [gramme.randn(600, 8), gramme.randn(8, 32), gramme.randn(32)]
    for got, want in zip(run(gramme.compile(step, backend=backend)), run(step)):
        assert_bits_equal(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_8_bit_floats_compile(backend):
    def f(x):
        small = x.to(gramme.float8_e4m3fn)
        return small, small.t().float() * 2, x.to(gramme.float8_e5m2).half()

    compiled, x = gramme.compile(f, backend=backend), gramme.randn(7, 9)
    for got, want in zip(compiled(x), f(x)):
        assert_bits_equal(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_in_bfloat16_trains_alike(backend):
    def losses(compiled):
        gramme.manual_seed(5)
        model = gramme.nn.Sequential(
            gramme.nn.Linear(10, 16), gramme.nn.ReLU(), gramme.nn.Linear(16, 3)
        ).bfloat16()
        x, y = gramme.randn(32, 10).bfloat16(), (gramme.rand(32) * 3).long()
        optimizer = gramme.optim.SGD(model.parameters(), lr=0.1)
        run = gramme.compile(model, backend=backend) if compiled else model
        history = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = F.cross_entropy(run(x), y)
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        return history

    plain = losses(False)
    assert losses(True) == plain and plain[-1] < plain[0]


def test_a_model_is_converted():
    model = gramme.nn.Linear(3, 2)
    assert {p.dtype for p in model.half().parameters()} == {gramme.float16}
    assert {p.dtype for p in model.bfloat16().parameters()} == {gramme.bfloat16}
    assert model(gramme.ones(1, 3).bfloat16()).dtype is gramme.bfloat16


# -- Limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype, kind",
    [(gramme.float16, np.float16), (gramme.float32, np.float32), (gramme.float64, np.float64)],
)
def test_finfo_is_numpys(dtype, kind):
    ours, theirs = gramme.finfo(dtype), np.finfo(kind)
    for name in ("max", "min", "eps", "tiny", "smallest_normal", "bits"):
        assert getattr(ours, name) == float(getattr(theirs, name)), name
    assert (
        ours.resolution == pytest.approx(float(theirs.resolution), rel=1e-3)
        and ours.dtype == dtype.name
    )


def test_finfo_of_what_numpy_has_not():
    assert gramme.finfo().dtype == "float32"
    b = gramme.finfo(gramme.bfloat16)
    assert (b.max, b.eps, b.tiny, b.resolution) == (
        3.3895313892515355e38,
        0.0078125,
        2.0**-126,
        0.01,
    )
    e4, e5 = gramme.finfo(gramme.float8_e4m3fn), gramme.finfo(gramme.float8_e5m2)
    assert (e4.max, e4.eps, e4.tiny, e4.bits) == (448.0, 0.125, 2.0**-6, 8)
    assert (e5.max, e5.eps, e5.tiny, e5.bits) == (57344.0, 0.25, 2.0**-14, 8)
    with pytest.raises(TypeError, match="iinfo"):
        gramme.finfo(gramme.int32)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_iinfo_is_numpys(name):
    ours, theirs = gramme.iinfo(getattr(gramme, name)), np.iinfo(name)
    assert (ours.min, ours.max, ours.bits, ours.dtype) == (
        theirs.min,
        theirs.max,
        theirs.bits,
        name,
    )
    with pytest.raises(TypeError, match="finfo"):
        gramme.iinfo(gramme.float16)


def test_limits_are_read_inside_a_compiled_function():
    def mask(scores, keep):
        return scores.masked_fill(keep.logical_not(), gramme.finfo(scores.dtype).min)

    compiled = gramme.compile(mask, backend="eager", fullgraph=True)
    scores, keep = gramme.randn(3, 4).half(), gramme.randn(3, 4) > 0
    assert_bits_equal(compiled(scores, keep), mask(scores, keep))


def test_tolerances_follow_the_dtype():
    one = gramme.ones(3)
    assert_close(one.bfloat16() * 1.0078125, one.bfloat16())
    with pytest.raises(AssertionError):
        assert_close(one.half() * 1.0078125, one.half())
    assert_close(one.to(gramme.float8_e5m2), one.to(gramme.float8_e5m2))


def test_the_default_dtype_may_be_half():
    try:
        gramme.set_default_dtype(gramme.bfloat16)
        assert (
            gramme.ones(2).dtype is gramme.bfloat16
            and gramme.tensor([1.0]).dtype is gramme.bfloat16
        )
        assert repr(gramme.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
        with pytest.raises(TypeError, match="arithmetic"):
            gramme.set_default_dtype(gramme.float8_e5m2)
    finally:
        gramme.set_default_dtype(gramme.float32)
