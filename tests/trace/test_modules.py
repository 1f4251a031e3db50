# SPDX-License-Identifier: Apache-2.0
"""Modules that are compiled in place, and methods that are compiled one by one: the same object as
before, the same results as plain."""

import copy
import functools
import inspect
import pickle

import pytest

import gramme as G
import gramme.nn.functional as F
from gramme import nn
from gramme.testing import CompileCounter, assert_bits_equal
from stress import undisturbed

X = G.arange(6, dtype=G.float32).reshape(2, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(4, 2)
        self.register_buffer("scale", G.ones(2) * 3)

    def forward(self, x, *, shift=0.0):
        """Its text."""
        return self.last(self.drop(F.relu(self.first(x)))) * self.scale + shift


def pair(make=Net):
    """Two modules of equal parameters, the second compiled with a back end that counts."""
    G.manual_seed(3)
    plain = make()
    compiled, counter = copy.deepcopy(plain), CompileCounter()
    assert G.compile(compiled, backend=counter) is compiled
    return plain, compiled, counter


def same(plain, compiled, *args, **kwargs):
    """Values and gradients of both, to the bit."""
    results = []
    for module in (plain, compiled):
        module.zero_grad()
        G.manual_seed(5)
        result = module(*args, **kwargs)
        if result.requires_grad:
            result.sum().backward()
        results.append(
            [result.detach()] + [p.grad for p in module.parameters() if p.grad is not None]
        )
    assert len(results[0]) == len(results[1])
    for a, b in zip(*results):
        assert_bits_equal(b, a)


# -- What does not change


def test_a_module_stays_the_object_that_it_was():
    plain, compiled, _ = pair()
    same(plain, compiled, X)
    assert type(compiled) is Net and isinstance(compiled, nn.Module)
    assert repr(compiled) == repr(plain)
    assert list(compiled.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in compiled.named_parameters()] == [
        name for name, _ in plain.named_parameters()
    ]
    assert [name for name, _ in compiled.named_modules()] == [
        name for name, _ in plain.named_modules()
    ]
    assert [name for name, _ in compiled.named_buffers()] == ["scale"]
    assert inspect.signature(compiled) == inspect.signature(plain)
    assert inspect.signature(compiled.forward) == inspect.signature(plain.forward)
    assert compiled.forward.__doc__ == "Its text." and compiled.forward.__func__ is Net.forward
    assert compiled.forward(X, shift=1.0).shape == (2, 2)  # forward itself is plain Python


def test_the_method_compile():
    counter, model = CompileCounter(), Net().eval()
    assert model.compile(backend=counter) is None
    want = copy.deepcopy(model)(X)
    assert_bits_equal(model(X).detach(), want.detach())
    assert counter.frame_count >= 1


def test_pickles_and_copies_are_those_of_a_plain_module():
    plain, compiled, counter = pair()
    same(plain, compiled, X)
    assert pickle.dumps(compiled) == pickle.dumps(plain)
    frames = counter.frame_count
    for again in (
        pickle.loads(pickle.dumps(compiled)),
        copy.deepcopy(compiled),
        copy.copy(compiled),
    ):
        assert type(again) is Net and list(again.state_dict()) == list(plain.state_dict())
        same(plain, again, X)
    assert counter.frame_count == frames  # no copy is compiled
    shallow, deep = copy.copy(compiled), copy.deepcopy(compiled)
    assert shallow.first.weight is compiled.first.weight
    assert deep.first.weight is not compiled.first.weight
    assert_bits_equal(deep.first.weight.detach(), compiled.first.weight.detach())


def test_a_copy_can_be_compiled_and_goes_its_own_way():
    plain, compiled, _ = pair()
    other, counter = copy.deepcopy(compiled), CompileCounter()
    G.compile(other, backend=counter)
    with G.no_grad():
        other.last.bias.add_(1)
    same(plain, compiled, X)
    difference = other.eval()(X) - compiled.eval()(X)
    assert counter.frame_count >= 1
    assert_bits_equal(difference.detach().round(), G.full((2, 2), 3.0))


class OwnState(nn.Module):
    """A class that says itself what goes into a pickle."""

    def __init__(self):
        super().__init__()
        self.layer, self.cache = nn.Linear(3, 3), object()

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["cache"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.cache = None

    def forward(self, x):
        return self.layer(x)


def test_a_class_with_a_getstate_of_its_own():
    plain, compiled, _ = pair(OwnStateWithout)
    same(plain, compiled, X)
    again = pickle.loads(pickle.dumps(compiled))
    assert again.cache is None
    same(plain, again, X)
    deep = copy.deepcopy(compiled)
    with G.no_grad():
        deep.layer.bias.add_(1)
    same(plain, compiled, X)


def OwnStateWithout():
    module = OwnState()
    module.cache = None  # deepcopy of an object() would be another one
    return module


def test_a_compiled_function_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(compiled_at_the_top)) is compiled_at_the_top
    assert copy.deepcopy(compiled_at_the_top) is compiled_at_the_top
    local = G.compile(lambda x: x + 1, backend="eager")
    with pytest.raises((pickle.PicklingError, AttributeError)):  # as a plain function of no name
        pickle.dumps(local)


@functools.partial(G.compile, backend="eager")
def compiled_at_the_top(x):
    return x + 1


def test_tensors_and_parameters_are_pickled_with_their_values():
    for tensor in (
        X,
        X.t(),
        G.tensor(2.5, dtype=G.bfloat16),
        G.ones(0, 3),
        G.arange(4) > 1,
        G.ones(2, requires_grad=True),
    ):
        again = pickle.loads(pickle.dumps(tensor))
        assert_bits_equal(again.detach(), tensor.detach())
        assert (type(again), again.requires_grad) == (type(tensor), tensor.requires_grad)
    parameter = nn.Parameter(G.ones(2), requires_grad=False)
    parameter.tag = "mine"
    again, twice = pickle.loads(pickle.dumps((parameter, parameter)))
    assert (
        type(again) is nn.Parameter
        and again.tag == "mine"
        and again is twice
        and not again.requires_grad
    )
    other = copy.copy(parameter)
    other.add_(1)
    assert type(other) is nn.Parameter and parameter.tolist() == [2, 2] and other.tag == "mine"
    with pytest.raises(RuntimeError, match="detach"):
        pickle.dumps(G.ones(2, requires_grad=True) * 2)


# -- Hooks


def test_forward_hooks_run_compiled_and_as_often_as_plain():  # HK-2
    plain, compiled, counter = pair()
    plain.eval(), compiled.eval()
    same(plain, compiled, X)
    handles = [
        (
            module.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
            module.last.register_forward_hook(lambda module, args, result: result + args[0].sum()),
            module.register_forward_hook(lambda module, args, result: None),
        )
        for module in (plain, compiled)
    ]
    frames = counter.frame_count
    same(plain, compiled, X)
    assert counter.frame_count > frames
    for pre, last, nothing in handles:
        last.remove()
    same(plain, compiled, X)
    for pre, last, nothing in handles:
        pre.remove()
        nothing.remove()
    same(plain, compiled, X)


def test_hooks_with_side_effects_see_what_they_see_plain():
    seen = {}
    plain, compiled, _ = pair()
    for name, module in (("plain", plain.eval()), ("compiled", compiled.eval())):
        log = seen.setdefault(name, [])
        module.register_forward_pre_hook(
            lambda module, args, log=log: log.append((type(module).__name__, args[0].shape))
        )
        module.first.register_forward_hook(
            lambda module, args, result, log=log: log.append(result.shape)
        )
    for _ in range(3):
        same(plain, compiled, X)
    assert seen["plain"] == seen["compiled"] and len(seen["plain"]) == 6


def test_a_hook_as_context_manager():
    plain, compiled, _ = pair()
    plain.eval(), compiled.eval()
    for module in (plain, compiled):
        with module.register_forward_hook(lambda module, args, result: result * 0):
            assert (module(X) == 0).all()
    same(plain, compiled, X)


# -- What the program changes between calls


@undisturbed
def test_train_and_eval_have_an_entry_each():
    plain, compiled, counter = pair()
    for mode in (True, False, True, False):
        plain.train(mode), compiled.train(mode)
        same(plain, compiled, X)
    assert counter.frame_count == 2


def test_grad_mode():
    plain, compiled, _ = pair()
    same(plain, compiled, X)
    with G.no_grad():
        same(plain, compiled, X)
        assert not compiled(X).requires_grad
    assert compiled(X).requires_grad
    compiled.requires_grad_(False)
    assert not compiled(X).requires_grad


@undisturbed
def test_parameters_that_are_written_replaced_frozen_or_converted():
    plain, compiled, counter = pair()
    same(plain, compiled, X)
    frames = counter.frame_count

    def both(change):
        for module in (plain, compiled):
            with G.no_grad():
                change(module)
        same(plain, compiled, X.to(plain.first.weight.dtype))

    both(lambda m: m.first.weight.mul_(2))
    both(lambda m: m.load_state_dict({name: value + 1 for name, value in m.state_dict().items()}))
    assert counter.frame_count == frames  # values are no part of an entry
    both(lambda m: setattr(m.first, "weight", nn.Parameter(m.first.weight.detach() * 3)))
    both(lambda m: setattr(m.last, "bias", None))
    both(lambda m: m.first.weight.requires_grad_(False))
    both(lambda m: setattr(m, "scale", m.scale * 2))
    both(lambda m: m.double())
    assert compiled(X.double()).dtype == G.float64


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.named = nn.ModuleDict({"relu": nn.ReLU(), "out": nn.Linear(3, 2)})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for name, layer in self.named.items():
            x = layer(x)
        return x


def test_submodules_that_come_and_go():
    plain, compiled, _ = pair(Growing)
    same(plain, compiled, X)
    extra = nn.Linear(3, 3)
    for module in (plain, compiled):
        module.layers.append(copy.deepcopy(extra))
    same(plain, compiled, X)
    assert list(compiled.state_dict()) == list(plain.state_dict())
    for module in (plain, compiled):
        del module.layers[0]
        module.named["tanh"] = nn.Tanh()
    same(plain, compiled, X)
    for module in (plain, compiled):
        module.layers[1] = module.layers[0]  # shared: one parameter, two uses
    same(plain, compiled, X)
    assert len(list(compiled.parameters())) == len(list(plain.parameters())) == 4


def test_sequential_and_a_module_of_the_same_type_inside():
    make = lambda: nn.Sequential(
        nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear(3, 1)
    )
    plain, compiled, _ = pair(make)
    same(plain, compiled, X)
    assert isinstance(compiled[1], nn.Sequential) and len(compiled) == 3
    same(plain[:2], compiled[:2], X)  # a slice is a module of its own


@undisturbed
def test_modules_of_one_class_have_their_entries_apart():
    models = [
        nn.Linear(3, 3) for _ in range(12)
    ]  # more than there may be entries on one code object
    counter = CompileCounter()
    for _ in range(2):
        for model in models:
            if model._compiled_call is None:
                G.compile(model, backend=counter)
            want = F.linear(X, model.weight, model.bias)
            assert_bits_equal(model(X).detach(), want.detach())
    assert counter.frame_count == len(models)


def test_a_compiled_module_inside_of_a_compiled_function_or_module():
    inner, outer = CompileCounter(), CompileCounter()
    model = G.compile(nn.Linear(3, 3), backend=inner)
    compiled = G.compile(lambda x: model(x) * 2, backend=outer)
    assert_bits_equal(compiled(X).detach(), (F.linear(X, model.weight, model.bias) * 2).detach())
    assert outer.frame_count >= 1
    whole = G.compile(nn.Sequential(model, nn.ReLU()), backend=outer)
    assert_bits_equal(whole(X).detach(), F.relu(F.linear(X, model.weight, model.bias)).detach())


def test_compile_again_and_disable():
    model, first, second = nn.Linear(3, 3), CompileCounter(), CompileCounter()
    G.compile(model, backend=first)(X)
    G.compile(model, backend=second)(X)
    assert first.frame_count >= 1 and second.frame_count >= 1
    frames = second.frame_count
    assert G.compiler.disable(model) is model
    want = F.linear(X, model.weight, model.bias)
    assert_bits_equal(model(X).detach(), want.detach())
    assert second.frame_count == frames
    assert type(pickle.loads(pickle.dumps(model))) is nn.Linear
    assert G.compile(nn.ReLU(), backend=first, disable=True)._compiled_call is None


def test_reset_and_explain_of_a_module():
    model = G.compile(Net(), backend="eager")
    report = G.compiler.explain(model)(X, shift=2.0)
    assert report.result.shape == (2, 2) and "Net" in str(report) and report.graph_count >= 1
    G.compiler.reset(model)
    assert model._compiled_call.entries() == []
    plain = Net()
    assert G.compiler.explain(plain, backend="eager")(X).graph_count >= 1
    assert plain._compiled_call is None  # looking compiles nothing


# -- Classes


class Called(nn.Module):
    """Does something of its own around every call."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(3, 3), 0

    def __call__(self, x):
        self.calls += 1
        return super().__call__(x * self.calls)

    def forward(self, x):
        return self.layer(x) + 1


def test_a_class_that_overrides_call():
    plain, compiled, counter = pair(Called)
    for calls in (1, 2, 3):
        same(plain, compiled, X)
        assert compiled.calls == plain.calls == calls
    assert counter.frame_count >= 1
    outer = G.compile(lambda x: compiled(x), backend="eager")
    assert_bits_equal(outer(X).detach(), plain(X).detach())
    assert compiled.calls == 4


def test_a_class_of_modules_is_compiled_for_all_instances():
    counter = CompileCounter()

    @functools.partial(G.compile, backend=counter)
    class Scaled(nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by = by

        def forward(self, x):
            return x * self.by

    class Shifted(Scaled):
        def forward(self, x):
            return super().forward(x) + 1

    assert isinstance(Scaled, type) and Scaled.__name__ == "Scaled"
    assert_bits_equal(Scaled(2)(X), X * 2)
    assert_bits_equal(Scaled(3)(X), X * 3)
    assert_bits_equal(Shifted(3)(X), X * 3 + 1)
    assert counter.frame_count >= 3


class Methods:
    factor = 2

    def __init__(self, by=1):
        self.by = by

    @functools.partial(G.compile, backend="eager")
    def method(self, x):
        return x * self.by

    @functools.partial(G.compile, backend="eager")
    @staticmethod
    def static(x):
        return x + 1

    @staticmethod
    @functools.partial(G.compile, backend="eager")
    def static_outside(x):
        return x + 2

    @functools.partial(G.compile, backend="eager")
    @classmethod
    def of_class(cls, x):
        return x * cls.factor

    @classmethod
    @functools.partial(G.compile, backend="eager")
    def of_class_outside(cls, x):
        return x * cls.factor + 1

    @functools.partial(G.compile, backend="eager")
    @property
    def doubled(self):
        return X * self.by * 2

    @functools.partial(G.compile, backend="eager")
    def __call__(self, x):
        return x - self.by


class Derived(Methods):
    factor = 5

    def method(self, x):
        return super().method(x) + super().method(x * 2)


def test_decorated_methods_of_all_kinds():
    for cls, factor in ((Methods, 2), (Derived, 5)):
        o = cls(3)
        assert_bits_equal(o.method(X), X * 3 if cls is Methods else X * 3 + X * 2 * 3)
        assert_bits_equal(o.static(X), X + 1)
        assert_bits_equal(cls.static(X), X + 1)
        assert_bits_equal(cls.static_outside(X), X + 2)
        assert_bits_equal(o.of_class(X), X * factor)
        assert_bits_equal(cls.of_class(X), X * factor)
        assert_bits_equal(cls.of_class_outside(X), X * factor + 1)
        assert_bits_equal(o.doubled, X * 3 * 2)
        assert_bits_equal(o(X), X - 3)
    o.by = 4
    assert_bits_equal(o.method(X), X * 4 + X * 2 * 4)
    assert list(inspect.signature(Methods.method).parameters) == ["self", "x"]
    assert isinstance(inspect.getattr_static(Methods, "static"), staticmethod)
    assert isinstance(inspect.getattr_static(Methods, "of_class"), classmethod)


def test_a_bound_method_and_an_object_that_can_be_called():
    counter = CompileCounter()

    class Plain:
        def __init__(self, by):
            self.by = by

        def method(self, x):
            return x * self.by

        def __call__(self, x):
            return x - self.by

    o = Plain(3)
    method = G.compile(o.method, backend=counter)
    assert_bits_equal(method(X), X * 3)
    o.by = 4
    assert_bits_equal(method(X), X * 4)
    call = G.compile(o, backend=counter)
    assert_bits_equal(call(X), X - 4)
    assert counter.frame_count >= 3
    with pytest.raises(TypeError, match="takes a Python function"):
        G.compile(3, backend="eager")


def test_a_subclass_overrides_a_compiled_forward():
    counter = CompileCounter()

    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        @functools.partial(G.compile, backend=counter)
        def forward(self, x):
            return self.layer(x)

    class More(Base):
        def forward(self, x):
            return super().forward(x) * 2

    G.manual_seed(1)
    more = More()
    want = F.linear(X, more.layer.weight, more.layer.bias) * 2
    assert_bits_equal(more(X).detach(), want.detach())
    assert counter.frame_count >= 1
    G.compile(more, backend=counter)
    assert_bits_equal(more(X).detach(), want.detach())
    assert type(copy.deepcopy(more)) is More
