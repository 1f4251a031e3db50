# SPDX-License-Identifier: Apache-2.0
"""Module's hooks, names, states and containers."""

import copy
import pickle

import pytest

import gramme
from gramme import nn
from gramme.testing import assert_bits_equal

X = gramme.arange(6, dtype=gramme.float32).reshape(2, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
        self.head = nn.Linear(4, 2)
        self.register_buffer("count", gramme.zeros(1))

    def forward(self, x, scale=1.0):
        return self.head(self.body(x)) * scale


# -- Hooks around calls


def test_forward_hooks_in_order_with_keywords_and_prepended():
    net, seen = Net(), []
    net.register_forward_pre_hook(lambda m, args: seen.append("first"))
    net.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"scale": kwargs["scale"] * 2}), with_kwargs=True
    )
    net.register_forward_pre_hook(lambda m, args: seen.append("zeroth"), prepend=True)
    net.register_forward_hook(
        lambda m, args, kwargs, out: seen.append(kwargs["scale"]), with_kwargs=True
    )
    handle = net.register_forward_hook(lambda m, args, out: out + 100)
    plain = net.head(net.body(X))
    assert_bits_equal(net(X, scale=3.0), plain * 6.0 + 100)
    assert seen == ["zeroth", "first", 6.0]
    with handle:  # removed at the end
        pass
    assert_bits_equal(net(X, scale=3.0), plain * 6.0)


def test_a_hook_that_is_always_called_sees_an_error():
    net, seen = Net(), []
    net.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    net.register_forward_hook(lambda m, args, out: seen.append("not this one"))
    with pytest.raises(RuntimeError):
        net(gramme.ones(2, 7))
    assert seen == [None]


def test_full_backward_hooks_see_and_change_gradients():
    layer, seen = nn.Linear(3, 2), []
    layer.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 2,))
    layer.register_full_backward_hook(
        lambda m, grad_input, grad_output: seen.append((grad_input, grad_output))
    )
    layer.register_full_backward_hook(lambda m, grad_input, grad_output: (grad_input[0] + 1,))
    x = X.clone().requires_grad_()
    layer(x).sum().backward()
    (((grad_input,), (grad_output,)),) = seen
    assert grad_output.tolist() == [[2.0, 2.0], [2.0, 2.0]] and layer.bias.grad.tolist() == [
        4.0,
        4.0,
    ]
    assert_bits_equal(grad_input, gramme.full((2, 2), 2.0) @ layer.weight.detach())
    assert_bits_equal(x.grad, grad_input + 1)


def test_a_backward_hook_without_gradients_of_inputs():
    layer, seen = nn.Linear(3, 2), []
    handle = layer.register_full_backward_hook(
        lambda m, grad_input, grad_output: seen.append((grad_input, grad_output[0].tolist()))
    )
    layer(X).sum().backward()
    assert seen == [((), [[1.0, 1.0], [1.0, 1.0]])]
    handle.remove()
    layer(X).sum().backward()
    assert len(seen) == 1
    layer.register_full_backward_hook(lambda m, grad_input, grad_output: (grad_input[0], None))
    with pytest.raises(RuntimeError, match="2 gradients of inputs, and there are 1"):
        layer(X.clone().requires_grad_()).sum().backward()


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_hooks_of_compiled_modules(backend):
    """Forward hooks are compiled along, those of the backward run in a graph break: the same
    values."""

    def grads(compiled):
        gramme.manual_seed(1)
        net, seen = Net(), []
        net.body.register_forward_hook(lambda m, args, out: out * 2)
        net.head.register_full_backward_hook(
            lambda m, grad_input, grad_output: (grad_input[0] * 3,)
        )
        if compiled:
            net.compile(backend=backend)
        x = X.clone().requires_grad_()
        out = net(x)
        out.sum().backward()
        return [out.detach(), x.grad] + [p.grad for p in net.parameters()]

    for a, b in zip(grads(True), grads(False)):
        assert_bits_equal(a, b)


# -- Names


def test_members_by_dotted_names():
    net = Net()
    assert net.get_submodule("") is net and net.get_submodule("body.0") is net.body[0]
    assert (
        net.get_parameter("body.0.weight") is net.body[0].weight
        and net.get_buffer("count") is net.count
    )
    for method, name in (
        (net.get_submodule, "body.7"),
        (net.get_parameter, "body.0.scale"),
        (net.get_buffer, "head.count"),
        (net.get_parameter, "count"),
    ):
        with pytest.raises(AttributeError, match=name):
            method(name)
    net.set_submodule("body.1", nn.ReLU())
    assert isinstance(net.body[1], nn.ReLU)
    with pytest.raises(AttributeError, match="body.9"):
        net.set_submodule("body.9", nn.ReLU(), strict=True)
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == []
    assert [n for n, _ in net.head.named_parameters(prefix="net.head")] == [
        "net.head.weight",
        "net.head.bias",
    ]


def test_names_that_repeat_come_once_or_each_time():
    net = nn.Sequential(nn.Linear(2, 2))
    net.append(net[0])
    assert (
        len(list(net.named_parameters())) == 2
        and len(list(net.named_parameters(remove_duplicate=False))) == 4
    )
    assert [n for n, _ in net.named_modules(remove_duplicate=False)] == ["", "0", "1"]


def test_bad_names_and_kinds_are_refused():
    net = nn.Module()
    with pytest.raises(KeyError, match="dots"):
        net.register_buffer("a.b", gramme.ones(1))
    with pytest.raises(KeyError, match="empty"):
        net.add_module("", nn.ReLU())
    with pytest.raises(TypeError, match="Module"):
        net.register_module("relu", abs)
    with pytest.raises(ValueError, match="True or False"):
        net.train("yes")


def test_a_buffer_that_is_an_attribute():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = nn.Buffer(gramme.zeros(2))
            self.scratch = nn.Buffer(gramme.ones(2), persistent=False)

        def forward(self, x):
            self.seen.add_(x)
            return self.seen * self.scratch

    net = Counter()
    assert [n for n, _ in net.named_buffers()] == ["seen", "scratch"] and list(
        net.state_dict()
    ) == ["seen"]
    assert (
        isinstance(net.seen, nn.Buffer)
        and type(net.seen) is gramme.Tensor
        and not isinstance(gramme.ones(1), nn.Buffer)
    )
    net.compile(backend="eager")
    assert net(gramme.ones(2)).tolist() == [1.0, 1.0] and net.state_dict()["seen"].tolist() == [
        1.0,
        1.0,
    ]
    net.seen = gramme.full((2,), 5.0)  # stays a buffer: the name counts
    net.double()
    assert net.seen.dtype is gramme.float64 and list(net.state_dict()) == ["seen"]


# -- States


class Counted(nn.Linear):
    """Has a state that is no tensor."""

    calls = 0

    def get_extra_state(self):
        return {"calls": self.calls}

    def set_extra_state(self, state):
        self.calls = state["calls"]


def test_extra_state_prefix_and_destination():
    net = nn.Sequential(Counted(2, 2))
    net[0].calls = 3
    target = {"other": 1}
    state = net.state_dict(destination=target, prefix="net.")
    assert state is target and list(state) == [
        "other",
        "net.0.weight",
        "net.0.bias",
        "net.0._extra_state",
    ]
    again = nn.Sequential(Counted(2, 2))
    again.load_state_dict(net.state_dict())
    assert again[0].calls == 3
    assert net.state_dict(keep_vars=True)["0.weight"] is net[0].weight
    missing = {k: v for k, v in net.state_dict().items() if "extra" not in k}
    with pytest.raises(RuntimeError, match="_extra_state"):
        again.load_state_dict(missing)


def test_hooks_of_states():
    net, seen = Net(), []
    net.head.register_state_dict_pre_hook(
        lambda m, prefix, keep_vars: seen.append((prefix, keep_vars))
    )
    net.head.register_state_dict_post_hook(
        lambda m, state, prefix, _: state.update({prefix + "scale": gramme.ones(1)})
    )
    state = net.state_dict()
    assert seen == [("head.", False)] and "head.scale" in state

    def rename(m, given, prefix, _, strict, missing, unexpected, errors):
        given["head.weight"] = given.pop("old.weight")
        del given["head.scale"]

    state["old.weight"] = state.pop("head.weight") * 2
    net.register_load_state_dict_pre_hook(rename)
    net.register_load_state_dict_post_hook(lambda m, keys: seen.append(list(keys.missing_keys)))
    net.load_state_dict(state)
    assert_bits_equal(net.head.weight.detach(), state["old.weight"])
    assert seen[1] == [] and "old.weight" in state  # the caller's dict is not changed


def test_a_hook_can_forgive_missing_keys():
    net = Net()
    state = net.state_dict()
    del state["head.bias"]
    net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    assert net.load_state_dict(state).missing_keys == []


def test_assign_takes_the_tensors_themselves():
    net = nn.ParameterList([gramme.ones(2)])
    net.register_buffer("b", gramme.zeros(1))
    state = {"0": gramme.full((2,), 2.0), "b": gramme.ones(1)}
    net.load_state_dict(state, assign=True)
    state["0"][0] = 7
    assert (
        net[0].tolist() == [7.0, 2.0] and isinstance(net[0], nn.Parameter) and net.b is state["b"]
    )


def test_conversions_of_the_whole_tree():
    net = Net()
    assert net.type(gramme.float64) is net and net.head.bias.dtype is gramme.float64
    assert (
        net.bfloat16().count.dtype is gramme.bfloat16 and net.half().count.dtype is gramme.float16
    )
    p = net.float().head.weight
    assert net.to_empty(device="cpu") is net and net.head.weight is p and p.shape == (2, 4)
    assert net.cpu() is net and net.share_memory() is net


def test_modules_with_hooks_can_be_copied():
    net = Net()
    net.register_forward_hook(double)
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert_bits_equal(again(X), net(X))


def double(module, args, result):
    return result * 2


# -- Containers and text


def test_parameter_list():
    items = nn.ParameterList([gramme.ones(2), nn.Parameter(gramme.zeros(1), requires_grad=False)])
    items.append(gramme.full((1,), 3.0))
    items += [gramme.ones(1)]
    items[0] = gramme.full((2,), 4.0)
    assert [n for n, _ in items.named_parameters()] == ["0", "1", "2", "3"] and all(
        isinstance(p, nn.Parameter) for p in items
    )
    assert (
        items.pop().tolist() == [1.0]
        and len(items) == 3
        and len(items[:2]) == 2
        and not items[1].requires_grad
    )
    assert "(0): Parameter containing: [gramme.float32 of size 2]" in repr(items)
    copy_of = nn.ParameterList(gramme.zeros(p.shape) for p in items)
    copy_of.load_state_dict(items.state_dict())
    assert copy_of[0].tolist() == [4.0, 4.0]


def test_parameter_dict():
    table = nn.ParameterDict({"a": gramme.ones(2)})
    table["b"] = gramme.zeros(1)
    table.update({"c": nn.Parameter(gramme.ones(1))})
    assert (
        list(table) == ["a", "b", "c"]
        and isinstance(table["b"], nn.Parameter)
        and table.get("z") is None
    )
    assert list(table.state_dict()) == ["a", "b", "c"] and table.setdefault("a") is table["a"]
    table.pop("c")
    assert "c" not in table and len(list(table.parameters())) == 2


def test_parameters_in_containers_train_compiled_too():
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterList([gramme.full((2,), float(i)) for i in range(3)])
            self.named = nn.ParameterDict({"shift": gramme.ones(2)})

        def forward(self, x):
            for w in self.weights:
                x = x * (1 + w)
            return x + self.named["shift"]

    results = []
    for backend in (None, "eager", "tcc"):
        net = Mixture()
        f = net if backend is None else gramme.compile(net, backend=backend)
        f(gramme.ones(2)).sum().backward()
        results.append([p.grad.tolist() for p in net.parameters()])
    assert results[0] == results[1] == results[2] and len(results[0]) == 4


def test_repr_of_lists_and_of_several_lines():
    class Lines(nn.Module):
        def extra_repr(self):
            return "one\ntwo"

    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh(), Lines()])) == (
        "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n  (3): Lines(\n    one\n    two\n  )\n)"
    )
    assert (
        repr(nn.Dropout(0.1)) == "Dropout(p=0.1, inplace=False)"
        and repr(nn.ELU(0.5, inplace=True)) == "ELU(alpha=0.5, inplace=True)"
    )
    assert (
        repr(nn.LSTM(3, 4, 2, bidirectional=True)) == "LSTM(3, 4, num_layers=2, bidirectional=True)"
    )


def test_a_module_that_is_added_to_a_sequence_runs():
    net = nn.Sequential()
    net.add_module("first", nn.Linear(2, 3))
    net.last = nn.Linear(3, 1)
    x = gramme.ones(1, 2)
    gramme.testing.assert_bits_equal(net(x), net.last(net.first(x)))
    assert list(net.state_dict()) == ["first.weight", "first.bias", "last.weight", "last.bias"]
    del net.last
    assert len(net) == 1 and net(x).shape == (1, 3)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_an_item_is_replaced_by_its_name(backend):
    """How layers are wrapped: by named_children() and setattr, or in _modules.  Compiled code sees
    it."""
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    compiled = gramme.compile(lambda x: net(x), backend=backend)
    x = gramme.randn(3, 4)
    gramme.testing.assert_bits_equal(compiled(x), net(x))
    for name, child in net.named_children():
        if isinstance(child, nn.ReLU):
            setattr(net, name, nn.GELU())
    assert isinstance(net[1], nn.GELU) and isinstance(getattr(net, "1"), nn.GELU) and len(net) == 3
    gramme.testing.assert_bits_equal(compiled(x), net[2](gramme.nn.functional.gelu(net[0](x))))
    net._modules["1"] = nn.Tanh()
    gramme.testing.assert_bits_equal(compiled(x), net[2](gramme.tanh(net[0](x))))


def test_members_are_seen_and_changed_by_torchs_names():
    norm = nn.BatchNorm1d(3)
    assert list(norm._parameters) == ["weight", "bias"] and not norm._modules
    assert list(norm._buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    norm._buffers["extra"] = gramme.ones(2)
    del norm._buffers["running_var"]
    assert list(norm.state_dict()) == [
        "weight",
        "bias",
        "running_mean",
        "num_batches_tracked",
        "extra",
    ]
    norm._parameters["weight"] = nn.Parameter(gramme.zeros(3))
    assert norm.weight.tolist() == [0, 0, 0]
    with pytest.raises(KeyError):
        del norm._modules["nothing"]


def test_items_of_lists_are_numbered_anew():
    layers = nn.ModuleList([nn.Linear(1, n) for n in (1, 2, 3, 4)])
    del layers[1]
    layers.insert(0, nn.Tanh())
    assert [name for name, _ in layers.named_children()] == ["0", "1", "2", "3"]
    assert [type(m).__name__ for m in layers] == ["Tanh", "Linear", "Linear", "Linear"] and layers[
        -1
    ].out_features == 4
    del layers[1:3]
    layers[0:2] = [nn.ReLU(), nn.Linear(1, 5)]
    assert layers.pop().out_features == 5 and len(layers) == 1
    assert len(layers + [nn.Tanh()]) == 2 and type(layers + [nn.Tanh()]) is nn.ModuleList
    with pytest.raises(IndexError, match="no item 7"):
        layers[7]
    values = nn.ParameterList([gramme.ones(1)])
    values.append(gramme.zeros(2))
    values[0] = gramme.full((3,), 2.0)
    assert [name for name, _ in values.named_parameters()] == ["0", "1"] and values[0].shape == (3,)
