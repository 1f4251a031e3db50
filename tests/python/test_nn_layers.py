# SPDX-License-Identifier: Apache-2.0
"""Layers around functions of nn.functional: each against numpy, and compiled against plain, to the
bit, gradients too."""

import math

import numpy as np
import pytest

import gramme
from gramme import nn
from gramme.testing import assert_bits_equal

RNG = np.random.default_rng(0)


def normal(*sizes):
    return RNG.normal(size=sizes).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def padded(mode, *widths, **options):
    return lambda x: np.pad(x, widths, mode, **options)


def group_normal(x, groups):
    y = x.reshape(x.shape[0], groups, -1)
    y = (y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5)
    return y.reshape(x.shape)


def channel_normal(x):
    axes = (0,) + tuple(range(2, x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def local_response(x):
    square = np.pad(x**2, ((0, 0), (1, 1), (0, 0)))  # 3 neighbours
    mean = (square[:, :-2] + square[:, 1:-1] + square[:, 2:]) / 3
    return x / (2 + 0.1 * mean) ** 0.75


def window_max(x):
    n, c, d, h, w = x.shape
    return x.reshape(n, c, d // 2, 2, h // 2, 2, w // 2, 2).max((3, 5, 7))


def window_mean(x):
    n, c, d, h, w = x.shape
    return x.reshape(n, c, d // 2, 2, h // 2, 2, w // 2, 2).mean((3, 5, 7))


def shuffled(x, r):
    n, c, h, w = x.shape
    return (
        x.reshape(n, c // r**2, r, r, h, w)
        .transpose(0, 1, 4, 2, 5, 3)
        .reshape(n, c // r**2, h * r, w * r)
    )


def unshuffled(x, r):
    n, c, h, w = x.shape
    return (
        x.reshape(n, c, h // r, r, w // r, r)
        .transpose(0, 1, 3, 5, 2, 4)
        .reshape(n, c * r**2, h // r, w // r)
    )


def mean_loss(value):
    return lambda *args: value(*args).mean()


SELU = 1.0507009873554805, 1.6732632423543772
INPUTS = {"flat": (4, 6), "line": (2, 4, 6), "plane": (2, 4, 6, 6), "room": (2, 4, 4, 4, 6)}
# class, arguments, shape of the input (a name of INPUTS, or arrays), result in numpy
ROWS = [
    ("ReLU6", (), "flat", lambda x: np.clip(x, 0, 6)),
    ("Hardtanh", (-0.5, 2.0), "flat", lambda x: np.clip(x, -0.5, 2)),
    ("LogSigmoid", (), "flat", lambda x: -np.log1p(np.exp(-x))),
    ("Softmax2d", (), "plane", lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    ("Softmin", (-1,), "flat", lambda x: np.exp(-x) / np.exp(-x).sum(-1, keepdims=True)),
    ("Mish", (), "flat", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    ("SELU", (), "flat", lambda x: SELU[0] * np.where(x > 0, x, SELU[1] * np.expm1(x))),
    ("CELU", (0.5,), "flat", lambda x: np.maximum(x, 0) + np.minimum(0, 0.5 * np.expm1(x / 0.5))),
    ("PReLU", (4, 0.1), "line", lambda x: np.where(x > 0, x, 0.1 * x)),
    ("Hardswish", (), "flat", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("Hardsigmoid", (), "flat", lambda x: np.clip(x + 3, 0, 6) / 6),
    ("Softsign", (), "flat", lambda x: x / (1 + abs(x))),
    ("Tanhshrink", (), "flat", lambda x: x - np.tanh(x)),
    ("Threshold", (0.2, -3.0), "flat", lambda x: np.where(x > 0.2, x, -3)),
    ("Hardshrink", (0.3,), "flat", lambda x: np.where(abs(x) > 0.3, x, 0)),
    ("Softshrink", (0.3,), "flat", lambda x: np.sign(x) * np.maximum(abs(x) - 0.3, 0)),
    ("GLU", (1,), "line", lambda x: x[:, :2] * sigmoid(x[:, 2:])),
    ("BatchNorm3d", (4,), "room", channel_normal),
    ("GroupNorm", (2, 4), "line", lambda x: group_normal(x, 2)),
    ("InstanceNorm1d", (4,), "line", lambda x: group_normal(x, 4)),
    ("InstanceNorm2d", (4, 1e-5, 0.1, True), "plane", lambda x: group_normal(x, 4)),
    ("InstanceNorm3d", (4,), "room", lambda x: group_normal(x, 4)),
    ("LocalResponseNorm", (3, 0.1, 0.75, 2.0), "line", local_response),
    ("ConstantPad1d", ((1, 2), 3.5), "line", padded("constant", (0, 0), (0, 0), (1, 2), constant_values=3.5)),
    ("ConstantPad2d", (1, -1.0), "plane", padded("constant", (0, 0), (0, 0), (1, 1), (1, 1), constant_values=-1)),
    ("ConstantPad3d", (1, 2.0), "room", padded("constant", (0, 0), (0, 0), (1, 1), (1, 1), (1, 1), constant_values=2)),
    ("ZeroPad1d", (2,), "line", padded("constant", (0, 0), (0, 0), (2, 2))),
    ("ZeroPad2d", ((1, 2, 3, 0),), "plane", padded("constant", (0, 0), (0, 0), (3, 0), (1, 2))),
    ("ZeroPad3d", (1,), "room", padded("constant", (0, 0), (0, 0), (1, 1), (1, 1), (1, 1))),
    ("ReflectionPad1d", ((2, 1),), "line", padded("reflect", (0, 0), (0, 0), (2, 1))),
    ("ReflectionPad2d", (2,), "plane", padded("reflect", (0, 0), (0, 0), (2, 2), (2, 2))),
    ("ReflectionPad3d", (1,), "room", padded("reflect", (0, 0), (0, 0), (1, 1), (1, 1), (1, 1))),
    ("ReplicationPad1d", (3,), "line", padded("edge", (0, 0), (0, 0), (3, 3))),
    ("ReplicationPad2d", ((1, 2, 0, 3),), "plane", padded("edge", (0, 0), (0, 0), (0, 3), (1, 2))),
    ("ReplicationPad3d", (2,), "room", padded("edge", (0, 0), (0, 0), (2, 2), (2, 2), (2, 2))),
    ("CircularPad1d", ((1, 3),), "line", padded("wrap", (0, 0), (0, 0), (1, 3))),
    ("CircularPad2d", (2,), "plane", padded("wrap", (0, 0), (0, 0), (2, 2), (2, 2))),
    ("CircularPad3d", (1,), "room", padded("wrap", (0, 0), (0, 0), (1, 1), (1, 1), (1, 1))),
    ("Unflatten", (1, (2, -1)), "flat", lambda x: x.reshape(4, 2, 3)),
    ("PixelShuffle", (2,), "plane", lambda x: shuffled(x, 2)),
    ("PixelUnshuffle", (2,), "plane", lambda x: unshuffled(x, 2)),
    ("ChannelShuffle", (2,), "line", lambda x: x.reshape(2, 2, 2, 6).transpose(0, 2, 1, 3).reshape(2, 4, 6)),
    ("Upsample", (None, 2), "plane", lambda x: x.repeat(2, 2).repeat(2, 3)),
    ("UpsamplingNearest2d", ((12, 6),), "plane", lambda x: x.repeat(2, 2)),
    ("MaxPool3d", (2,), "room", window_max),
    ("AvgPool3d", (2,), "room", window_mean),
    ("AdaptiveAvgPool1d", (3,), "line", lambda x: x.reshape(2, 4, 3, 2).mean(3)),
    ("AdaptiveAvgPool3d", (2,), "room", lambda x: x.reshape(2, 4, 2, 2, 2, 2, 2, 3).mean((3, 5, 7))),
    ("AdaptiveMaxPool1d", (3,), "line", lambda x: x.reshape(2, 4, 3, 2).max(3)),
    ("AdaptiveMaxPool2d", ((2, 3),), "plane", lambda x: x.reshape(2, 4, 2, 3, 3, 2).max((3, 5))),
    ("AdaptiveMaxPool3d", (2,), "room", lambda x: x.reshape(2, 4, 2, 2, 2, 2, 2, 3).max((3, 5, 7))),
    ("CosineSimilarity", (1,), (normal(3, 5), normal(3, 5)), lambda a, b: (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))),
    ("PairwiseDistance", (2.0, 0.0, True), (normal(3, 5), normal(3, 5)), lambda a, b: np.sqrt(((a - b) ** 2).sum(1, keepdims=True))),
    ("SmoothL1Loss", (None, None, "mean", 0.5), (normal(3, 5), normal(3, 5)),
     mean_loss(lambda a, b: np.where(abs(a - b) < 0.5, (a - b) ** 2, abs(a - b) - 0.25))),
    ("HuberLoss", ("sum", 0.5), (normal(3, 5), normal(3, 5)),
     lambda a, b: np.where(abs(a - b) < 0.5, (a - b) ** 2 / 2, 0.5 * (abs(a - b) - 0.25)).sum()),
    ("KLDivLoss", (None, None, "batchmean"), (normal(3, 5), abs(normal(3, 5))), lambda a, t: (t * (np.log(t) - a)).sum() / 3),
    ("BCELoss", (), (sigmoid(normal(3, 5)), sigmoid(normal(3, 5))), mean_loss(lambda p, t: -t * np.log(p) - (1 - t) * np.log(1 - p))),
    ("SoftMarginLoss", (), (normal(3, 5), np.sign(normal(3, 5))), mean_loss(lambda x, t: np.log1p(np.exp(-t * x)))),
    ("PoissonNLLLoss", (), (normal(3, 5), abs(normal(3, 5))), mean_loss(lambda x, t: np.exp(x) - t * x)),
    ("GaussianNLLLoss", (), (normal(3, 5), normal(3, 5), abs(normal(3, 5))), mean_loss(lambda x, t, v: (np.log(v) + (x - t) ** 2 / v) / 2)),
    ("HingeEmbeddingLoss", (1.5,), (normal(3, 5), np.sign(normal(3, 5))), mean_loss(lambda x, t: np.where(t > 0, x, np.maximum(0, 1.5 - x)))),
    ("MarginRankingLoss", (0.3,), (normal(7), normal(7), np.sign(normal(7))), mean_loss(lambda a, b, t: np.maximum(0, 0.3 - t * (a - b)))),
    ("TripletMarginLoss", (1.0, 2.0, 0.0), (normal(4, 3), normal(4, 3), normal(4, 3)),
     mean_loss(lambda a, p, n: np.maximum(0, np.sqrt(((a - p) ** 2).sum(1)) - np.sqrt(((a - n) ** 2).sum(1)) + 1))),
    ("MultiLabelSoftMarginLoss", (), (normal(3, 5), (normal(3, 5) > 0).astype(np.float32)),
     mean_loss(lambda x, t: -t * np.log(sigmoid(x)) - (1 - t) * np.log(1 - sigmoid(x)))),
]  # fmt: skip
IDS = [f"{row[0]}-{i}" for i, row in enumerate(ROWS)]


def of(row):
    """(layer, inputs as arrays, wanted result)."""
    name, arguments, inputs, want = row
    if not hasattr(nn, name):
        pytest.skip(f"nn.{name} is not there")
    arrays = (
        (np.random.default_rng(1).normal(size=INPUTS[inputs]).astype(np.float32),)
        if isinstance(inputs, str)
        else inputs
    )
    return (
        getattr(nn, name)(*arguments),
        arrays,
        want(*[array.astype(np.float64) for array in arrays]),
    )


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_layer_agrees_with_numpy(row):
    layer, arrays, want = of(row)
    got = layer(*[gramme.tensor(array) for array in arrays]).detach().numpy()
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_compiled_layer_gives_the_same_bits_and_gradients(row, backend):
    def run(compiled):
        layer, arrays, _ = of(row)
        first, *others = [gramme.tensor(array) for array in arrays]
        first.requires_grad_()
        out = (gramme.compile(layer, backend=backend, fullgraph=True) if compiled else layer)(
            first, *others
        )
        (out * out).sum().backward()
        return [out.detach(), first.grad] + [p.grad for p in layer.parameters()]

    for a, b in zip(run(True), run(False)):
        assert_bits_equal(a, b)


@pytest.mark.parametrize(
    "name",
    [
        "ReLU",
        "ReLU6",
        "SiLU",
        "ELU",
        "LeakyReLU",
        "Hardtanh",
        "Mish",
        "SELU",
        "CELU",
        "Hardswish",
        "Hardsigmoid",
    ],
)
def test_in_place_activations_write_their_input(name):
    if not hasattr(nn, name):
        pytest.skip(f"nn.{name} is not there")
    x = gramme.tensor(normal(3, 4))
    want = getattr(nn, name)()(x)
    y = x.clone()
    assert getattr(nn, name)(inplace=True)(y) is y
    assert_bits_equal(y, want)


@pytest.mark.parametrize(
    "name, sizes",
    [("Dropout1d", (50, 40, 3)), ("Dropout2d", (50, 40, 2, 2)), ("Dropout3d", (50, 40, 1, 2, 2))],
)
def test_dropout_of_channels(name, sizes):
    if not hasattr(nn, name):
        pytest.skip(f"nn.{name} is not there")
    layer = getattr(nn, name)(0.25)
    y = layer(gramme.ones(sizes)).reshape(50, 40, -1).numpy()
    assert (
        (y == y[:, :, :1]).all()
        and set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
        and 0.7 < (y > 0).mean() < 0.8
    )
    assert layer.eval()(gramme.ones(sizes)).numpy().min() == 1


def test_alpha_dropout_keeps_mean_and_variance():
    if not hasattr(nn, "AlphaDropout"):
        pytest.skip("nn.AlphaDropout is not there")
    y = nn.AlphaDropout(0.3)(gramme.randn(100000)).numpy()
    assert abs(y.mean()) < 0.02 and abs(y.var() - 1) < 0.03


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_transposed_convolution_is_the_gradient_of_a_convolution(n):
    if not hasattr(nn, "ConvTranspose1d"):
        pytest.skip("nn.ConvTranspose1d is not there")
    layer = getattr(nn, f"ConvTranspose{n}d")(
        4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False
    )
    convolve = getattr(nn.functional, f"conv{n}d")
    x = gramme.tensor(normal(2, 4, *(3,) * n))
    out = layer(x)
    there = gramme.zeros(out.shape, requires_grad=True)
    (convolve(there, layer.weight, None, 2, 1, 1, 2) * x).sum().backward()
    np.testing.assert_allclose(out.detach().numpy(), there.grad.numpy(), rtol=1e-4, atol=1e-5)
    smaller = [s - 1 for s in out.shape[2:]]
    assert list(layer(x, output_size=smaller).shape[2:]) == smaller
    with pytest.raises(ValueError, match="output_size"):
        layer(x, output_size=[99] * n)


def test_embeddings_with_padding_and_bags():
    table = nn.Embedding(5, 3, padding_idx=-1)
    assert (
        table.padding_idx == 4
        and table.weight[4].tolist() == [0.0] * 3
        and "padding_idx=4" in repr(table)
    )
    table(gramme.tensor([4, 1])).sum().backward()
    assert table.weight.grad[:, 0].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]
    fixed = nn.Embedding.from_pretrained(gramme.ones(2, 3))
    assert not fixed.weight.requires_grad and fixed(gramme.tensor([1])).tolist() == [[1.0] * 3]
    with pytest.raises(NotImplementedError, match="gradients are dense"):
        nn.Embedding(5, 3, sparse=True)
    if hasattr(nn, "EmbeddingBag"):
        bag = nn.EmbeddingBag(5, 3, mode="sum")
        rows = bag.weight.detach().numpy()
        got = bag(gramme.tensor([1, 2, 4, 0]), gramme.tensor([0, 3])).detach().numpy()
        np.testing.assert_allclose(got, [rows[[1, 2, 4]].sum(0), rows[0]], rtol=1e-6)


def test_bilinear_is_a_form_for_each_output():
    if not hasattr(nn, "Bilinear"):
        pytest.skip("nn.Bilinear is not there")
    layer = nn.Bilinear(3, 4, 2)
    a, b = normal(5, 3), normal(5, 4)
    want = (
        np.einsum("ni,kij,nj->nk", a, layer.weight.detach().numpy(), b)
        + layer.bias.detach().numpy()
    )
    np.testing.assert_allclose(
        layer(gramme.tensor(a), gramme.tensor(b)).detach().numpy(), want, rtol=1e-5, atol=1e-6
    )


def test_losses_with_weights_and_older_arguments():
    logits, target = gramme.tensor(normal(4, 3)), gramme.tensor([0, 2, 1, 1])
    weight = gramme.tensor([1.0, 2.0, 3.0])
    loss = nn.CrossEntropyLoss(weight=weight, ignore_index=1)
    z = logits.numpy().astype(np.float64)
    logp = z - np.log(np.exp(z).sum(1, keepdims=True))
    np.testing.assert_allclose(
        loss(logits, target).item(), -(logp[0, 0] + 3 * logp[1, 2]) / 4, rtol=1e-5
    )
    assert list(loss.state_dict()) == ["weight"]
    assert (
        nn.MSELoss(reduce=False).reduction == "none"
        and nn.L1Loss(size_average=False).reduction == "sum"
    )
    with pytest.raises(ValueError, match="'batch'"):
        nn.MSELoss(reduction="batch")


def test_normalisation_without_statistics_and_its_reset():
    layer = nn.BatchNorm1d(2, momentum=None)
    batches = [gramme.tensor(normal(6, 2)) for _ in range(3)]
    for batch in batches:
        layer(batch)
    np.testing.assert_allclose(
        layer.running_mean.numpy(),
        np.mean([b.numpy().mean(0) for b in batches], 0),
        rtol=1e-4,
        atol=1e-6,
    )
    layer.reset_running_stats()
    assert layer.num_batches_tracked.item() == 0 and layer.running_mean.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="5 dimensions"):
        nn.BatchNorm3d(2)(gramme.ones(2, 2))


# -- Initial values


def test_orthogonal_rows_or_columns():
    for sizes in ((5, 3), (3, 5), (4, 4), (3, 2, 4)):
        w = (
            nn.init.orthogonal_(gramme.empty(sizes, dtype=gramme.float64), gain=2.0)
            .reshape(sizes[0], -1)
            .numpy()
            / 2
        )
        product = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
        np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-12)
    signs = [nn.init.orthogonal_(gramme.empty(1, 1)).item() for _ in range(40)]
    assert {round(s) for s in signs} == {-1, 1}


def test_a_truncated_normal_lies_between_its_bounds_and_is_normal_there():
    x = nn.init.trunc_normal_(gramme.empty(200000), mean=1.0, std=2.0, a=-1.0, b=2.0).numpy()
    assert x.min() >= -1 and x.max() <= 2

    def below(v):
        return (1 + math.erf((v - 1) / 2 / math.sqrt(2))) / 2

    for v in (-0.5, 0.5, 1.5):
        want = (below(v) - below(-1)) / (below(2) - below(-1))
        assert abs((x < v).mean() - want) < 0.005
    far = nn.init.trunc_normal_(gramme.empty(1000), a=-8.0, b=8.0).numpy()
    assert abs(far.std() - 1) < 0.1


def test_eye_dirac_and_sparse():
    assert nn.init.eye_(gramme.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    kernel = nn.init.dirac_(gramme.empty(4, 2, 3, 3), groups=2)
    x = gramme.tensor(normal(1, 4, 5, 5))
    assert_bits_equal(gramme.nn.functional.conv2d(x, kernel, padding=1, groups=2), x)
    w = nn.init.sparse_(gramme.empty(10, 50), 0.25).numpy()
    assert ((w == 0).sum(0) == 3).all() and 0.008 < w[w != 0].std() < 0.012
    for f, x in (
        (nn.init.eye_, gramme.ones(2)),
        (nn.init.dirac_, gramme.ones(2, 2)),
        (nn.init.orthogonal_, gramme.ones(2)),
        (lambda t: nn.init.sparse_(t, 0.1), gramme.ones(2)),
    ):
        with pytest.raises(ValueError, match="dimensions"):
            f(x)


# -- nn.utils


def test_clipping_gradients():
    def parameters():
        a, b, c = (
            gramme.ones(3, requires_grad=True),
            gramme.ones(2, 2, requires_grad=True),
            gramme.ones(1, requires_grad=True),
        )
        a.grad, b.grad = gramme.tensor([3.0, 0.0, -4.0]), gramme.full((2, 2), 6.0)
        return [a, b, c]

    ps = parameters()
    assert nn.utils.clip_grad_norm_(ps, 1.3).item() == 13.0
    np.testing.assert_allclose(ps[0].grad.numpy(), [0.3, 0, -0.4], rtol=1e-5)
    ps = parameters()
    assert nn.utils.clip_grad_norm_(ps, 100.0).item() == 13.0 and ps[0].grad.tolist() == [
        3.0,
        0.0,
        -4.0,
    ]
    assert (
        nn.utils.clip_grad_norm_(ps, 3.0, norm_type=math.inf).item() == 6.0
        and abs(ps[1].grad[0, 0].item() - 3) < 1e-5
    )
    ps = parameters()
    nn.utils.clip_grad_value_(ps, 3.5)
    assert ps[0].grad.tolist() == [3.0, 0.0, -3.5] and ps[1].grad.tolist() == [
        [3.5, 3.5],
        [3.5, 3.5],
    ]
    ps[0].grad[0] = math.nan
    with pytest.raises(RuntimeError, match="nan"):
        nn.utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_a_step_that_clips_compiles_without_a_break(backend):
    def train(around):
        gramme.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = gramme.optim.AdamW(net.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            return norm

        step = around(step)
        return [step(gramme.ones(2, 3)).detach() for _ in range(4)] + [
            p.detach() for p in net.parameters()
        ]

    for a, b in zip(train(lambda f: gramme.compile(f, backend=backend)), train(lambda f: f)):
        assert_bits_equal(a, b)


def test_parameters_as_a_vector():
    net = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(gramme.arange(9.0), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and net.bias.tolist() == [6, 7, 8]
    with pytest.raises(ValueError, match="8 elements, and the parameters 9"):
        nn.utils.vector_to_parameters(gramme.ones(8), net.parameters())


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T


def test_parametrizations():
    from gramme.nn.utils import parametrize

    layer = nn.Linear(3, 3)
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert (
        parametrize.is_parametrized(layer, "weight")
        and not parametrize.is_parametrized(layer, "bias")
        and isinstance(layer, nn.Linear)
    )
    assert_bits_equal(layer.weight.detach(), layer.weight.T.detach())
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    layer(gramme.ones(1, 3)).sum().backward()
    assert (
        layer.parametrizations.weight.original.grad[2, 0].item() == 0
        and layer.parametrizations.weight.original.grad[0, 2].item() == 2
    )
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert type(layer) is nn.Linear and not parametrize.is_parametrized(layer)
    assert_bits_equal(layer.weight.detach(), before)
    with pytest.raises(ValueError, match="no parameter or buffer 'scale'"):
        parametrize.register_parametrization(layer, "scale", Symmetric())


def test_spectral_norm():
    layer = nn.Linear(5, 3).double()
    before = layer.weight.detach().numpy().copy()
    nn.utils.parametrizations.spectral_norm(layer, n_power_iterations=50)
    u = layer.parametrizations.weight[0]._u
    layer(gramme.ones(1, 5, dtype=gramme.float64)).sum().backward()
    np.testing.assert_allclose(
        layer.weight.detach().numpy(), before / np.linalg.norm(before, 2), rtol=1e-9
    )
    w = layer.parametrizations.weight.original
    assert (
        abs((w * w.grad).sum()).item() < 1e-9 and not u.requires_grad
    )  # its length does not matter
    kept, net = u.clone(), gramme.compile(layer.eval(), backend="tcc")
    assert_bits_equal(
        net(gramme.ones(1, 5, dtype=gramme.float64)).detach(),
        layer(gramme.ones(1, 5, dtype=gramme.float64)).detach(),
    )
    assert_bits_equal(u, kept)
    wide = nn.utils.parametrizations.spectral_norm(nn.ConvTranspose1d(4, 2, 3))
    assert (
        wide.parametrizations.weight[0]._u.shape == (2,)
        and "parametrizations.weight.0._u" in wide.state_dict()
    )


def test_weight_norm():
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    nn.utils.parametrizations.weight_norm(layer)
    gramme.testing.assert_close(layer.weight.detach(), before)
    lengths = layer.parametrizations.weight.original0
    assert lengths.shape == (2, 1)
    with gramme.no_grad():
        lengths.fill_(2.0)
    np.testing.assert_allclose(
        np.linalg.norm(layer.weight.detach().numpy(), axis=1), [2, 2], rtol=1e-6
    )
    layer(gramme.ones(1, 3)).sum().backward()
    # the gradient of a direction is orthogonal to it
    v = layer.parametrizations.weight.original1
    assert abs((v * v.grad).sum(1)).max().item() < 1e-6
    net = gramme.compile(layer, backend="tcc")
    assert_bits_equal(net(gramme.ones(1, 3)).detach(), layer(gramme.ones(1, 3)).detach())


def test_windows_as_columns_and_back():
    x = gramme.tensor(normal(2, 3, 5, 6))
    columns = nn.Unfold((2, 3), padding=(0, 1), stride=(1, 2))(x)
    around = np.pad(x.numpy(), ((0, 0), (0, 0), (0, 0), (1, 1)))
    windows = [
        around[:, :, i : i + 2, j : j + 3].reshape(2, -1) for i in range(4) for j in (0, 2, 4)
    ]
    np.testing.assert_array_equal(columns.numpy(), np.stack(windows, -1))
    counts = nn.Fold((5, 6), (2, 3), padding=(0, 1), stride=(1, 2))(gramme.ones(columns.shape))
    back = nn.Fold((5, 6), (2, 3), padding=(0, 1), stride=(1, 2))(columns)
    np.testing.assert_allclose(back.numpy(), (x * counts).numpy(), rtol=1e-6)
