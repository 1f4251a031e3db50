# SPDX-License-Identifier: Apache-2.0
"""Layers that are compositions: bags, alignments, grids, unpooling, lazy sizes, normalised weights,
averages; each against numpy or by hand."""

import copy
import itertools
import math

import numpy as np
import pytest

import gramme as G
import gramme.nn.functional as F
from gramme import nn
from gramme.optim.swa_utils import SWALR, AveragedModel, update_bn

from arrays import close, ours

RNG = np.random.default_rng(3)
BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]


def numbers(*sizes):
    return RNG.normal(size=sizes)


# -- Bags


WEIGHT, INDEX, OFFSETS = numbers(6, 3), np.array([0, 5, 1, 2, 2, 4]), np.array([0, 2, 2, 5])


def bag(rows, mode):
    if len(rows) == 0:
        return np.zeros(3)
    return {"sum": rows.sum(0), "mean": rows.mean(0), "max": rows.max(0)}[mode]


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_reduces_each_bag(mode, padding):
    parts = [part[part != padding] for part in np.split(INDEX, OFFSETS[1:])]
    close(
        F.embedding_bag(ours(INDEX), ours(WEIGHT), ours(OFFSETS), mode=mode, padding_idx=padding),
        [bag(WEIGHT[part], mode) for part in parts],
    )
    with_end = np.append(OFFSETS, len(INDEX))
    got = F.embedding_bag(
        ours(INDEX),
        ours(WEIGHT),
        ours(with_end),
        mode=mode,
        padding_idx=padding,
        include_last_offset=True,
    )
    close(got, [bag(WEIGHT[part], mode) for part in parts])
    rows = INDEX.reshape(2, 3)
    close(
        F.embedding_bag(ours(rows), ours(WEIGHT), mode=mode, padding_idx=padding),
        [bag(WEIGHT[r[r != padding]], mode) for r in rows],
    )


def test_embedding_bag_weighs_and_trains():
    scale = numbers(6)
    got = F.embedding_bag(
        ours(INDEX), ours(WEIGHT), ours(OFFSETS), mode="sum", per_sample_weights=ours(scale)
    )
    close(got, [bag(rows, "sum") for rows in np.split(WEIGHT[INDEX] * scale[:, None], OFFSETS[1:])])
    layer = nn.EmbeddingBag(6, 3, mode="sum", padding_idx=0)
    layer(ours(INDEX), ours(OFFSETS)).sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [0.0, 1.0, 2.0, 0.0, 1.0, 1.0] and layer.weight[
        0
    ].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="offsets"):
        layer(ours(INDEX))


# -- Alignments


def likelihood(probabilities, labels):
    """The sum over all paths that collapse to the labels."""
    total, (steps, classes) = 0.0, probabilities.shape
    for path in itertools.product(range(classes), repeat=steps):
        if [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)] == list(labels):
            total += math.prod(probabilities[t, c] for t, c in enumerate(path))
    return total


def test_ctc_loss_is_the_sum_over_all_paths():
    logits, labels = numbers(5, 3, 3), np.array([[1, 2], [2, 2], [1, 0]])
    steps, lengths = [5, 4, 3], [2, 2, 1]
    p = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    want = [
        -math.log(likelihood(p[:t, i], labels[i, :n]))
        for i, (t, n) in enumerate(zip(steps, lengths))
    ]
    log_p = ours(logits).log_softmax(2)
    close(F.ctc_loss(log_p, ours(labels), steps, lengths, reduction="none"), want)
    flat = ours(np.concatenate([row[:n] for row, n in zip(labels, lengths)]))
    close(F.ctc_loss(log_p, flat, G.tensor(steps), G.tensor(lengths), reduction="sum"), sum(want))
    close(
        nn.CTCLoss()(log_p, ours(labels), steps, lengths),
        np.mean([w / n for w, n in zip(want, lengths)]),
    )
    close(F.ctc_loss(log_p[:, 0], ours(labels[0]), [5], [2], reduction="none"), want[0])


def test_ctc_loss_has_a_gradient_where_it_is_infinite():
    logits = ours(numbers(2, 2, 3)).requires_grad_()
    loss = F.ctc_loss(
        logits.log_softmax(2),
        G.tensor([[1, 1], [1, 2]]),
        [2, 2],
        [2, 2],
        zero_infinity=True,
        reduction="none",
    )
    loss.sum().backward()
    assert (
        loss[0].item() == 0.0
        and loss[1].item() > 0
        and bool(logits.grad.isfinite().all())
        and not bool(logits.grad[:, 0].any())
    )
    assert (
        F.ctc_loss(
            logits.log_softmax(2), G.tensor([[1, 1], [1, 2]]), [2, 2], [2, 2], reduction="none"
        )[0].item()
        == math.inf
    )


# -- Grids


def test_the_identity_map_gives_the_image():
    image, identity = ours(numbers(1, 2, 4, 5)), G.tensor(
        [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], dtype=G.float64
    )
    for corners, mode in itertools.product((True, False), ("bilinear", "nearest", "bicubic")):
        grid = F.affine_grid(identity, [1, 2, 4, 5], corners)
        close(F.grid_sample(image, grid, mode, "border", corners), image.numpy())
    volume = ours(numbers(1, 1, 2, 3, 4))
    grid = F.affine_grid(G.eye(4, dtype=G.float64)[:3].unsqueeze(0), [1, 1, 2, 3, 4], False)
    close(F.grid_sample(volume, grid, align_corners=False), volume.numpy())


@pytest.mark.parametrize(
    "padding, want",
    [("zeros", [0.5, 0.0, 0.0]), ("border", [1.0, 1.0, 3.0]), ("reflection", [1.0, 1.5, 2.5])],
)
def test_beyond_the_edges(padding, want):
    image = G.tensor([[[[1.0, 2.0, 3.0]]]], dtype=G.float64)
    x = (
        G.tensor([-1.0, -2.0, 2.0], dtype=G.float64)
        if padding == "zeros"
        else G.tensor([-1.0, -5.0 / 3, 5.0 / 3], dtype=G.float64)
    )
    grid = G.stack([x, G.zeros(3, dtype=G.float64)], 1).reshape(1, 1, 3, 2)
    close(F.grid_sample(image, grid, padding_mode=padding, align_corners=False).flatten(), want)


# -- Pools


def test_unpooling_puts_elements_back():
    x = ours(numbers(2, 3, 6, 4))
    y, index = nn.MaxPool2d(2, return_indices=True)(x)
    back = nn.MaxUnpool2d(2)(y, index)
    assert bool(((back == x) | (back == 0)).all()) and int((back != 0).sum()) == y.numel()
    x = ours(numbers(1, 2, 7))
    y, index = F.max_pool1d_with_indices(x, 2)
    assert nn.MaxUnpool1d(2)(y, index, output_size=[7]).shape == x.shape
    with pytest.raises(ValueError, match="cannot be had"):
        F.max_unpool1d(y, index, 2, output_size=[9])


def test_power_pools_and_drawn_windows():
    x = np.abs(numbers(1, 2, 6))
    close(nn.LPPool1d(3, 2)(ours(x)), (x.reshape(1, 2, 3, 2) ** 3).sum(3) ** (1 / 3))
    image = np.abs(numbers(1, 1, 4, 6))
    close(
        nn.LPPool2d(2, (2, 3))(ours(image)),
        np.sqrt((image.reshape(1, 1, 2, 2, 2, 3) ** 2).sum((3, 5))),
    )
    G.manual_seed(0)
    y, index = nn.FractionalMaxPool2d(2, output_size=(3, 2), return_indices=True)(
        ours(numbers(2, 2, 7, 5))
    )
    assert y.shape == (2, 2, 3, 2) and index.dtype == G.int64
    z = ours(numbers(1, 1, 8, 8, 8))
    y, index = nn.FractionalMaxPool3d(2, output_ratio=0.5, return_indices=True)(z)
    assert y.flatten().tolist() == z.flatten()[index.flatten()].tolist()


# -- Recorded to the bit


def composed(x, grid, index):
    y, at = F.max_pool2d_with_indices(x, 2)
    a = F.grid_sample(x, grid, align_corners=False, padding_mode="reflection").sum((2, 3))
    b = (
        F.max_unpool2d(y, at, 2).mean((2, 3))
        + F.lp_pool2d(x.abs(), 2.0, 2).sum((2, 3))
        + F.rrelu(x).sum((2, 3))
    )
    return a * b + F.embedding_bag(index, x[0, :, :, 0], mode="mean")[:, :3]


@pytest.mark.parametrize("backend", BACKENDS)
def test_compositions_compile_without_a_break_and_to_the_bit(backend):
    index, results = G.tensor([[0, 2], [1, 1]]), []
    x, grid = ours(numbers(2, 3, 4, 4)), ours(numbers(2, 3, 3, 2))
    paths = G.tensor([[1, 2], [2, 1]])
    for wrap in (lambda f: f, lambda f: G.compile(f, backend=backend, fullgraph=True)):
        a, g = x.clone().requires_grad_(), grid.clone().requires_grad_()
        y = wrap(composed)(a, g, index)
        y.sum().backward()
        s = a.detach().reshape(4, 2, 12).requires_grad_()
        loss = wrap(lambda s: F.ctc_loss(s.log_softmax(2), paths, [4, 3], [2, 1]))(s)
        loss.backward()
        results.append([t.detach().numpy().tobytes() for t in (y, a.grad, g.grad, loss, s.grad)])
    assert results[0] == results[1]


# -- Sizes that come with the first input


def lazy_net():
    layers = (
        nn.LazyConv2d(4, 3),
        nn.LazyBatchNorm2d(),
        nn.LazyConvTranspose2d(2, 2),
        nn.Flatten(),
        nn.LazyLinear(5),
    )
    return nn.Sequential(*layers)


def test_lazy_layers_become_plain_ones():
    net = lazy_net()
    assert (
        isinstance(net[4].weight, nn.UninitializedParameter) and net[4].has_uninitialized_params()
    )
    x = G.randn(2, 3, 6, 6)
    net(x)
    assert [type(layer) for layer in net] == [
        nn.Conv2d,
        nn.BatchNorm2d,
        nn.ConvTranspose2d,
        nn.Flatten,
        nn.Linear,
    ]
    assert (net[0].in_channels, net[1].num_features, net[2].in_channels, net[4].in_features) == (
        3,
        4,
        4,
        50,
    )
    assert (
        all([type(p) is nn.Parameter for p in net.parameters()]) and "lazy" not in str(net).lower()
    )
    net.eval()
    compiled = G.compile(net, backend="eager", fullgraph=True)
    assert compiled(x).tolist() == net(x).tolist()
    other = lazy_net()
    other.load_state_dict(net.state_dict())
    assert other.eval()(x).tolist() == net(x).tolist() and type(other[4]) is nn.Linear
    assert copy.deepcopy(net)(x).tolist() == net(x).tolist()


# -- Weights that are computed, or fused


def test_weight_norm_in_the_older_style():
    layer = nn.Linear(4, 3).double()
    before = layer.weight.detach().numpy().copy()
    assert nn.utils.weight_norm(layer) is layer and sorted(layer.state_dict()) == [
        "bias",
        "weight_g",
        "weight_v",
    ]
    with G.no_grad():
        layer.weight_g *= 2
    x = ours(numbers(2, 4))
    close(layer(x), x.numpy() @ (2 * before).T + layer.bias.detach().numpy())
    layer(x).sum().backward()
    assert layer.weight_v.grad is not None and layer.weight_g.grad.shape == (3, 1)
    assert G.compile(layer, backend="eager", fullgraph=True)(x).tolist() == layer(x).tolist()
    nn.utils.remove_weight_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"] and not hasattr(layer, "weight_g")
    close(layer.weight, 2 * before)
    with pytest.raises(ValueError, match="not normalised"):
        nn.utils.remove_weight_norm(layer)


def test_spectral_norm_finds_the_largest_singular_value():
    layer = nn.Conv1d(4, 3, 2).double()
    before = layer.weight.detach().numpy().copy()
    nn.utils.spectral_norm(layer, n_power_iterations=100)
    layer(ours(numbers(1, 4, 5)))
    want = before / np.linalg.svd(before.reshape(3, -1))[1][0]
    close(layer.weight, want, 1e-6)
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    nn.utils.remove_spectral_norm(layer)
    close(layer.weight, want, 1e-6)


def test_a_normalisation_goes_into_the_layer_before_it():
    conv, norm, x = (
        nn.Conv2d(3, 4, 3).double(),
        nn.BatchNorm2d(4).double(),
        ours(numbers(2, 3, 6, 6)),
    )
    norm(conv(x))
    conv.eval(), norm.eval()
    close(nn.utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)).detach().numpy())
    linear, norm, x = (
        nn.Linear(3, 4).double().eval(),
        nn.BatchNorm1d(4).double().eval(),
        ours(numbers(2, 3)),
    )
    close(nn.utils.fuse_linear_bn_eval(linear, norm)(x), norm(linear(x)).detach().numpy())
    with pytest.raises(ValueError, match="eval"):
        nn.utils.fuse_linear_bn_eval(linear.train(), norm)


# -- Wrappers, clusters, averages


def test_wrappers_call_the_module():
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    x = G.randn(4, 3)
    net.eval()
    assert (
        nn.DataParallel(net)(x).tolist() == net(x).tolist()
        and list(nn.DataParallel(net).state_dict())[0] == "module.0.weight"
    )
    sync = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(net))
    assert type(sync[1]) is nn.SyncBatchNorm and sync(x).tolist() == net(x).tolist()
    G.manual_seed(0)
    y = nn.RReLU(0.1, 0.2)(-G.ones(1000))
    assert -0.2 <= float(y.min()) < -0.19 and -0.11 < float(y.max()) <= -0.1
    assert nn.RReLU(0.1, 0.3).eval()(-G.ones(1)).item() == pytest.approx(-0.2)
    assert nn.utils.skip_init(nn.Linear, 3, 2).weight.shape == (2, 3)


def test_adaptive_softmax_is_a_distribution():
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0)
    x, target = G.randn(5, 8), G.tensor([0, 3, 9, 2, 6])
    log_p = layer.log_prob(x)
    assert G.allclose(log_p.exp().sum(1), G.ones(5), atol=1e-5)
    result = layer(x, target)
    assert result.output.tolist() == log_p[
        G.arange(5), target
    ].tolist() and result.loss.item() == pytest.approx(-result.output.mean().item())
    assert layer.predict(x).tolist() == log_p.argmax(1).tolist() and layer.tail[1][
        0
    ].weight.shape == (2, 8)


def test_averages_of_weights():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    averaged, seen = AveragedModel(net), []
    for step in range(3):
        with G.no_grad():
            net[0].weight.fill_(float(step * step))
        averaged.update_parameters(net)
        seen.append(step * step)
    assert (
        averaged.module[0].weight[0, 0].item() == pytest.approx(np.mean(seen))
        and int(averaged.n_averaged) == 3
    )
    batches = [G.randn(4, 2) for _ in range(3)]
    update_bn(batches, averaged)
    means = np.mean([averaged.module[0](b).detach().numpy().mean(0) for b in batches], 0)
    close(averaged.module[1].running_mean, means, 1e-5)
    moving = AveragedModel(net, avg_fn=lambda own, new, n: 0.9 * own + 0.1 * new)
    moving.update_parameters(net)
    with G.no_grad():
        net[0].weight.fill_(14.0)
    moving.update_parameters(net)
    assert moving.module[0].weight[0, 0].item() == pytest.approx(0.9 * 4 + 1.4)


@pytest.mark.parametrize(
    "strategy, way", [("linear", lambda t: t), ("cos", lambda t: (1 - math.cos(math.pi * t)) / 2)]
)
def test_the_rate_goes_to_that_of_the_average(strategy, way):
    optimizer = G.optim.SGD([nn.Parameter(G.zeros(1))], lr=1.0)
    schedule, rates = SWALR(optimizer, 0.2, 4, strategy), []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([1.0 + (0.2 - 1.0) * way(min(1, step / 4)) for step in range(7)])
