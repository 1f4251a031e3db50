# SPDX-License-Identifier: Apache-2.0
"""Modules, layers, losses and initial values."""

import copy
import math

import numpy as np
import pytest

import gramme
from gramme import nn
from gramme.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.scale = nn.Parameter(gramme.ones(1))
        self.register_buffer("count", gramme.zeros(1))
        self.register_buffer("scratch", gramme.zeros(1), persistent=False)

    def forward(self, x):
        return self.body(x) * self.scale


NAMES = [
    "scale",
    "body.0.weight",
    "body.0.bias",
    "body.2.weight",
    "body.2.bias",
]  # a module's own come first


def test_parameters_and_modules_are_found_by_type():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert [n for n, _ in net.named_modules()] == ["", "body", "body.0", "body.1", "body.2"]
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert list(net.children()) == [net.body] and net.get_submodule("body.2") is net.body[2]
    assert len(list(net.parameters(recurse=False))) == 1
    with pytest.raises(AttributeError, match="nothing"):
        net.get_submodule("nothing")


def test_shared_parameters_and_modules_come_once():
    net = nn.Sequential(nn.Linear(2, 2))
    net.append(net[0])
    assert len(list(net.parameters())) == 2 and len(list(net.modules())) == 2
    assert set(net.state_dict()) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_parameter_is_a_tensor_that_shares_memory():
    data = gramme.zeros(2)
    p = nn.Parameter(data)
    data[0] = 3
    assert (
        p.tolist() == [3.0, 0.0] and p.requires_grad and p.is_leaf and type(p * 2) is gramme.Tensor
    )
    assert repr(p).startswith("Parameter containing:\ntensor(") and isinstance(p, nn.Parameter)
    assert not nn.Parameter(data, requires_grad=False).requires_grad


def test_repr_is_torchs():
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert repr(nn.Sequential(nn.Linear(2, 3), nn.ReLU())) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): ReLU()\n)"
    )


def test_state_dict_round_trip():
    a, b = Net(), Net()
    state = a.state_dict()
    assert set(state) == set(NAMES) | {"count"} and not any(t.requires_grad for t in state.values())
    assert repr(b.load_state_dict(state)) == "<All keys matched successfully>"
    x = gramme.randn(5, 4)
    gramme.testing.assert_bits_equal(a(x), b(x))
    assert all(p.requires_grad for p in b.parameters())


def test_load_state_dict_names_every_problem_and_changes_nothing():
    net = Net()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    state = {k: v * 0 + 7 for k, v in before.items()}
    del state["scale"]
    state["extra"] = gramme.zeros(1)
    state["body.0.bias"] = gramme.zeros(9)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    for part in ("scale", "extra", "body.0.bias", "[9]", "[8]"):
        assert part in str(caught.value)
    for name, value in net.state_dict().items():
        gramme.testing.assert_bits_equal(value, before[name])
    del state["body.0.bias"]
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale", "body.0.bias"] and result.unexpected_keys == ["extra"]


def test_train_eval_zero_grad_apply_and_requires_grad():
    net = Net()
    net.eval()
    assert not any(m.training for m in net.modules())
    assert net.train() is net and all(m.training for m in net.modules())
    net(gramme.ones(1, 4)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0.0]
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]
    net.requires_grad_(False)
    assert not net(gramme.ones(1, 4)).requires_grad


def test_to_converts_in_place():
    net = Net()
    p = net.scale
    net(gramme.ones(1, 4)).sum().backward()
    assert net.to(gramme.float64) is net
    assert (
        net.scale is p
        and p.dtype is gramme.float64
        and p.grad.dtype is gramme.float64
        and net.count.dtype is gramme.float64
    )
    assert net(gramme.ones(1, 4, dtype=gramme.float64)).dtype is gramme.float64


def test_hooks_run_around_forward():
    net = nn.Linear(2, 2, bias=False)
    calls = []
    first = net.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    second = net.register_forward_hook(
        lambda m, args, out: calls.append(args[0].tolist()) or out + 100
    )
    out = net(gramme.ones(1, 2))
    assert calls == [[[2.0, 2.0]]] and (out > 50).all()
    first.remove()
    second.remove()
    gramme.testing.assert_close(net(gramme.ones(1, 2)), gramme.ones(1, 2) @ net.weight.T)


def test_containers():
    seq = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    assert (
        len(seq) == 3
        and isinstance(seq[1], nn.Tanh)
        and len(seq[:2]) == 2
        and seq[-1] is list(seq)[2]
    )
    items = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    assert [n for n, _ in items.named_parameters()][:2] == ["0.weight", "0.bias"] and len(
        items
    ) == 3
    table = nn.ModuleDict({"a": nn.Linear(1, 1)})
    table["b"] = nn.ReLU()
    assert "b" in table and [n for n, _ in table.named_parameters()] == ["a.weight", "a.bias"]
    named = nn.Sequential({"first": nn.Linear(1, 1)})
    assert [n for n, _ in named.named_parameters()] == ["first.weight", "first.bias"]


def test_deepcopy_of_a_module_is_independent():
    a = Net()
    b = copy.deepcopy(a)
    with gramme.no_grad():
        a.scale += 1
    assert (
        b.scale.item() == 1
        and type(b.scale) is nn.Parameter
        and [n for n, _ in b.named_parameters()] == NAMES
    )


def test_register_checks_types():
    m = nn.Module()
    with pytest.raises(TypeError, match="w must be a Parameter"):
        m.register_parameter("w", gramme.zeros(1))
    with pytest.raises(TypeError, match="b must be a Tensor"):
        m.register_buffer("b", 3)
    with pytest.raises(NotImplementedError, match="forward"):
        m(1)


def test_linear_and_losses_agree_with_numpy():
    layer = nn.Linear(4, 3)
    x = gramme.randn(5, 4)
    w, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), x.numpy() @ w.T + b, rtol=1e-5, atol=1e-6)
    logits, target = gramme.randn(5, 3), gramme.tensor([0, 2, 1, 1, 0])
    z = logits.numpy().astype(np.float64)
    logp = z - np.log(np.exp(z).sum(1, keepdims=True))
    want = -logp[np.arange(5), target.numpy()].mean()
    for loss in (
        nn.CrossEntropyLoss()(logits, target),
        nn.NLLLoss()(F.log_softmax(logits, 1), target),
    ):
        np.testing.assert_allclose(loss.item(), want, rtol=1e-6)
    t = gramme.randn(5, 3)
    d = z - t.numpy()
    np.testing.assert_allclose(nn.MSELoss()(logits, t).item(), (d**2).mean(), rtol=1e-5)
    np.testing.assert_allclose(
        nn.L1Loss(reduction="sum")(logits, t).item(), abs(d).sum(), rtol=1e-5
    )
    y = (t > 0).to(gramme.float32)
    p = 1 / (1 + np.exp(-z))
    bce = -(y.numpy() * np.log(p) + (1 - y.numpy()) * np.log(1 - p)).mean()
    np.testing.assert_allclose(nn.BCEWithLogitsLoss()(logits, y).item(), bce, rtol=1e-5)


def erf(x):
    return np.vectorize(math.erf)(x)


@pytest.mark.parametrize(
    "layer, want",
    [
        (nn.ReLU(), lambda x: np.maximum(x, 0)),
        (nn.Tanh(), np.tanh),
        (nn.Sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
        (nn.SiLU(), lambda x: x / (1 + np.exp(-x))),
        (nn.GELU(), lambda x: x * 0.5 * (1 + erf(x / np.sqrt(2)))),
        (nn.LeakyReLU(0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
        (nn.ELU(), lambda x: np.where(x > 0, x, np.expm1(x))),
        (nn.Softplus(), lambda x: np.log1p(np.exp(x))),
        (nn.Softmax(-1), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        (nn.LogSoftmax(-1), lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
        (nn.Identity(), lambda x: x),
        (nn.Flatten(), lambda x: x.reshape(x.shape[0], -1)),
        (
            nn.LayerNorm(4),
            lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
        ),
        (nn.RMSNorm(4, eps=1e-6), lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_layers_agree_with_numpy(layer, want):
    x = np.random.default_rng(0).normal(size=(3, 5, 4)) * 2
    got = layer(gramme.tensor(x, dtype=gramme.float32)).detach().numpy()
    np.testing.assert_allclose(got, want(x), rtol=2e-5, atol=2e-6)


def test_dropout_scales_and_is_off_in_evaluation():
    layer = nn.Dropout(0.25)
    x = gramme.ones(10000)
    y = layer(x)
    kept = (y != 0).to(gramme.float32).mean().item()
    assert 0.7 < kept < 0.8 and set(
        y.unique().tolist() if hasattr(y, "unique") else y.tolist()
    ) <= {0.0, gramme.tensor(4 / 3).item()}
    assert layer.eval()(x).tolist() == x.tolist()
    with pytest.raises(ValueError, match="probability"):
        nn.Dropout(1.5)


def test_batch_norm_normalises_and_tracks():
    layer = nn.BatchNorm1d(3)
    x = gramme.randn(64, 3) * 4 + 2
    y = layer(x)
    np.testing.assert_allclose(y.detach().numpy().mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(y.detach().numpy().std(0), 1, atol=1e-3)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * x.numpy().mean(0), rtol=1e-4)
    np.testing.assert_allclose(
        layer.running_var.numpy(), 0.9 + 0.1 * x.numpy().var(0, ddof=1), rtol=1e-4
    )
    assert layer.num_batches_tracked.item() == 1
    layer.eval()
    want = (x.numpy() - layer.running_mean.numpy()) / np.sqrt(layer.running_var.numpy() + 1e-5)
    np.testing.assert_allclose(layer(x).detach().numpy(), want, rtol=1e-4, atol=1e-5)


def test_embedding_looks_rows_up_and_adds_gradients():
    layer = nn.Embedding(5, 3)
    index = gramme.tensor([[0, 4], [4, 1]])
    out = layer(index)
    assert out.shape == (2, 2, 3)
    out.sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0, 2.0]


def test_initial_values():
    w = gramme.empty(50, 80)
    nn.init.kaiming_uniform_(w, nonlinearity="relu")
    bound = math.sqrt(2) * math.sqrt(3 / 80)
    assert w.abs().max().item() <= bound and w.abs().max().item() > 0.95 * bound
    nn.init.xavier_normal_(w)
    assert abs(w.std().item() - math.sqrt(2 / 130)) < 0.005
    assert nn.init.zeros_(w).abs().sum().item() == 0 and nn.init.ones_(w).mean().item() == 1
    with pytest.raises(ValueError, match="2 dimensions"):
        nn.init.xavier_uniform_(gramme.empty(3))
    p = nn.Parameter(gramme.empty(3, 3))
    nn.init.normal_(p)
    assert p.requires_grad and p.is_leaf


def test_the_same_seed_gives_the_same_layer():
    gramme.manual_seed(3)
    a = nn.Linear(4, 4)
    gramme.manual_seed(3)
    b = nn.Linear(4, 4)
    gramme.testing.assert_bits_equal(a.weight, b.weight)
    gramme.testing.assert_bits_equal(a.bias, b.bias)
