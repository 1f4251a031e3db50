# SPDX-License-Identifier: Apache-2.0
"""What programs written for torch rely on without saying so: types of results, classes of errors,
keys, import paths, new seeds."""

import itertools
import os
import subprocess
import sys

import pytest

import gramme
from gramme import nn
from gramme.testing import assert_bits_equal

SIZE = gramme.zeros(2, 3, 4).shape


def both(f):
    return pytest.mark.parametrize("compiled", [False, True])(f)


def run(compiled, f, *args):
    gramme._dynamo.reset()
    return gramme.compile(f, backend="eager", fullgraph=True)(*args) if compiled else f(*args)


# -- Size

SIZES = {
    "a slice": (lambda s: s[:-1], (2, 3)),
    "a slice of all": (lambda s: s[:], (2, 3, 4)),
    "backwards": (lambda s: s[::-1], (4, 3, 2)),
    "nothing": (lambda s: s[5:], ()),
    "a sum": (lambda s: s + s[:1], (2, 3, 4, 2)),
    "a sum with a tuple": (lambda s: s + (1,), (2, 3, 4, 1)),
    "a sum of a tuple": (lambda s: (1,) + s, (1, 2, 3, 4)),
    "a sum with nothing": (lambda s: s + (), (2, 3, 4)),
    "twice": (lambda s: s[:1] * 2, (2, 2)),
    "twice, from the right": (lambda s: 2 * s[1:2], (3, 3)),
    "once": (lambda s: s * 1, (2, 3, 4)),
}


@both
@pytest.mark.parametrize("what", SIZES)
def test_parts_of_sizes_are_sizes(what, compiled):
    do, value = SIZES[what]
    found, numel, text = run(
        compiled,
        lambda x: (do(x.shape), do(x.shape).numel(), str(do(x.shape))),
        gramme.zeros(2, 3, 4),
    )
    assert type(found) is gramme.Size and found == value and text == f"gramme.Size({list(value)})"
    product = 1
    for n in value:
        product *= n
    assert numel == product


@both
def test_sizes_with_other_things(compiled):
    assert run(compiled, lambda x: x.shape[1], gramme.zeros(2, 3)) == 3
    assert run(compiled, lambda x: x.expand(x.shape[:-1] + (3,)), gramme.zeros(2, 1)).shape == (
        2,
        3,
    )
    f = (
        (lambda s: s + ("a",))
        if not compiled
        else gramme.compile(lambda s: s + ("a",), backend="eager")
    )
    with pytest.raises(TypeError, match="ints"):
        f(SIZE)
    with pytest.raises(TypeError, match="tuple"):
        SIZE + [1]
    assert {SIZE[:2]: 1}[(2, 3)] == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_that_are_symbols_stay_sizes(dynamic):
    f = gramme.compile(
        lambda x: (x.new_zeros(x.shape[:-1] + x.shape[:1]), x.shape[1:].numel()),
        backend="eager",
        dynamic=dynamic,
    )
    for n in (2, 3, 5):
        y, m = f(gramme.zeros(n, 4))
        assert y.shape == (n, n) and m == 4


# -- Errors

MANY = gramme.ones(2)
ERRORS = {
    "int": (lambda: int(MANY), ValueError),
    "float": (lambda: float(MANY), ValueError),
    "bool": (lambda: bool(MANY), RuntimeError),
    "item": (lambda: MANY.item(), RuntimeError),
    "a subscript by a str": (lambda: MANY["a"], TypeError),
    "a list's subscript": (lambda: [1, 2][gramme.ones(2, dtype=gramme.int64)], TypeError),
    "a list's subscript by a float": (lambda: [1, 2][gramme.ones(1)], TypeError),
    "a store by a str": (lambda: MANY.__setitem__("a", 1), TypeError),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_are_of_torchs_classes(what):
    do, error = ERRORS[what]
    with pytest.raises(Exception) as plain:
        do()
    assert type(plain.value) is error
    with pytest.raises(error):
        gramme.compile(do, backend="eager")()


@both
def test_backward_hooks_may_return_lists(compiled):
    layer = nn.Linear(3, 3, bias=False)
    layer.weight = nn.Parameter(gramme.eye(3))
    layer.register_full_backward_hook(
        lambda m, grad_input, grad_output: [g * 5 for g in grad_input]
    )
    layer.register_full_backward_pre_hook(lambda m, grad_output: [g * 2 for g in grad_output])
    x = gramme.ones(3, requires_grad=True)
    (gramme.compile(layer, backend="eager") if compiled else layer)(x).sum().backward()
    assert x.grad.tolist() == [10.0, 10.0, 10.0]


# -- Functions of one's own


class Scaled(gramme.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        return gradient * scale, gradient * x


@pytest.mark.parametrize("backend", [None, "eager", "tcc"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 1), (4,), (1,), ()])
def test_gradients_are_summed_to_the_shape_of_the_argument(shape, backend):
    x, scale = gramme.arange(12.0).reshape(3, 4).requires_grad_(), gramme.full(
        shape, 2.0, requires_grad=True
    )
    f = (
        Scaled.apply
        if backend is None
        else gramme.compile(lambda x, scale: Scaled.apply(x, scale), backend=backend)
    )
    f(x, scale).sum().backward()
    own = gramme.full(shape, 2.0, requires_grad=True)
    (x.detach() * own).sum().backward()
    assert_bits_equal(scale.grad, own.grad)


def test_gradients_of_other_shapes_are_refused():
    class Wrong(gramme.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            return gramme.ones(2, 3)

    with pytest.raises(RuntimeError, match="returned a gradient of"):
        Wrong.apply(gramme.ones(4, requires_grad=True)).sum().backward()


def test_summed_gradients_can_be_differentiated_again():
    scale = gramme.full((1, 1), 3.0, requires_grad=True)
    x = gramme.ones(2, 2, requires_grad=True)
    (g,) = gramme.autograd.grad((Scaled.apply(x, scale) ** 2).sum(), scale, create_graph=True)
    g.sum().backward()
    assert scale.grad.item() == 8.0  # sum of 2 x^2


# -- Optimizers, data


def test_the_state_of_an_optimizer_takes_any_key():
    p = nn.Parameter(gramme.ones(2))
    o = gramme.optim.SGD([p], lr=0.1, momentum=0.9)
    o.state["step"] = 0
    o.state["step"] += 1
    o.state["table"]["x"] = 5
    p.grad = gramme.ones(2)
    o.step()
    assert (
        o.state["step"] == 1
        and o.state["table"] == {"x": 5}
        and set(o.state) == {"step", "table", p}
        and len(o.state) == 3
    )
    saved = o.state_dict()
    assert saved["state"]["step"] == 1 and "momentum_buffer" in saved["state"][0]
    again = gramme.optim.SGD([nn.Parameter(gramme.ones(2))], lr=0.1, momentum=0.9)
    again.load_state_dict(saved)
    assert again.state["step"] == 1 and again.state["table"] == {"x": 5}
    del o.state["step"]
    assert "step" not in o.state and p in o.state
    o.state.clear()
    assert len(o.state) == 0


def test_generics_and_import_paths():
    from gramme.utils.data.dataloader import DataLoader, default_collate
    from gramme.utils.data.dataset import Dataset
    from gramme.utils.data.sampler import Sampler

    class Numbers(Dataset[int]):
        def __getitem__(self, i):
            return i * 2

        def __len__(self):
            return 4

    class Backwards(Sampler[int]):
        def __iter__(self):
            return iter([3, 1])

    loader = DataLoader[int](Numbers(), sampler=Backwards(), batch_size=2)
    assert (
        [b.tolist() for b in loader] == [[6, 2]]
        and isinstance(Numbers(), Dataset)
        and default_collate([1, 2]).tolist() == [1, 2]
    )


def test_a_random_sampler_draws_as_it_goes():
    sampler = gramme.utils.data.RandomSampler(range(10), replacement=True, num_samples=10**10)
    some = list(itertools.islice(sampler, 100))
    assert len(some) == 100 and set(some) <= set(range(10)) and len(set(some)) > 5
    assert (
        len(list(gramme.utils.data.RandomSampler(range(3), replacement=True, num_samples=70))) == 70
    )


@both
def test_closeness_of_bools_and_integers(compiled):
    def f(a, b):
        return gramme.isclose(a, b)

    t, both_kinds = gramme.tensor([True, False]), gramme.tensor([True, True])
    assert run(compiled, f, t, both_kinds).tolist() == [True, False]
    assert gramme.allclose(t, t) and not gramme.allclose(t, both_kinds)
    small, large = gramme.tensor([0], dtype=gramme.uint8), gramme.tensor([255], dtype=gramme.uint8)
    assert (
        not gramme.isclose(small, large, atol=2.0).item()
        and gramme.isclose(large, small, atol=255.0).item()
    )
    with pytest.raises(RuntimeError, match="rtol=-1"):
        gramme.isclose(t, t, rtol=-1)


# -- Random numbers

PROGRAM = """
import gramme
print(gramme.initial_seed(), gramme.rand(3).tolist(), gramme.compile(lambda: gramme.randn(2), backend="eager")().tolist())
assert gramme.Generator().initial_seed() == 1871
"""


def test_each_process_draws_other_numbers():
    env = {**os.environ, "GRAMME_AUTO": "then=none", "GRAMME_CACHE": "0"}
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    }
    assert len(outputs) == 2 and len({text.split()[0] for text in outputs}) == 2


def test_a_seed_gives_the_same_numbers():
    seed = gramme.initial_seed()
    gramme.manual_seed(seed)
    first = gramme.rand(4)
    gramme.manual_seed(seed)
    assert_bits_equal(gramme.rand(4), first)
    assert 0 <= gramme.seed() < 2**64


# -- x.data


def test_data_keeps_the_version_of_the_tensor_that_takes_it():
    x = gramme.ones(3)
    y = x.detach()
    y.data = x.data
    w = gramme.ones(3, requires_grad=True)
    s = (w * x).sum()
    y.mul_(7)
    with pytest.raises(RuntimeError, match="in-place"):
        s.backward()


# -- Modes


@both
@pytest.mark.parametrize("mode", [False, True])
def test_set_grad_enabled_decorates(mode, compiled):
    @gramme.set_grad_enabled(mode)
    def scaled(x, by=2):
        return x * by, gramme.is_grad_enabled()

    assert gramme.is_grad_enabled() and scaled.__name__ == "scaled"
    y, inside = run(compiled, lambda x: scaled(x, by=3), gramme.ones(1, requires_grad=True))
    assert y.item() == 3.0 and y.requires_grad is inside is mode and gramme.is_grad_enabled()
