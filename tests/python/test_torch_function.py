# SPDX-License-Identifier: Apache-2.0
"""__torch_function__: subclasses of Tensor, other objects and modes that take part in calls, plain
and from compiled functions."""

import warnings

import pytest

import gramme
from gramme import overrides
from gramme.testing import assert_bits_equal

Tensor = gramme.Tensor


class Same(Tensor):
    """Says nothing: results are of the class."""


class Logged(Tensor):
    """Notes what is called, and goes on."""

    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Logged.calls.append((func, types, len(args), sorted(kwargs or {})))
        return super().__torch_function__(func, types, args, kwargs or {})


class Outside:
    """No tensor at all."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is gramme.sub:
            return NotImplemented
        args = [a.value if isinstance(a, cls) else a for a in args]
        return cls(func(*args, **(kwargs or {})))


def make(cls, *values):
    return Tensor._make_subclass(cls, gramme.tensor(values or (1.0, 2.0)))


def called(f):
    Logged.calls.clear()
    result = f(make(Logged))
    return result, [call[0] for call in Logged.calls]


# what is computed, the functions that are seen
SEEN = {
    "add": (lambda x: x + 1, [Tensor.add]),
    "add, from the right": (lambda x: 1 + x, [Tensor.add]),
    "sub, from the right": (lambda x: 1 - x, [Tensor.__rsub__]),
    "function": (lambda x: gramme.add(x, 1), [gramme.add]),
    "keyword": (lambda x: gramme.add(gramme.ones(2), other=x), [gramme.add]),
    "in a list": (lambda x: gramme.cat([gramme.ones(1), x]), [gramme.cat]),
    "method": (lambda x: x.exp(), [Tensor.exp]),
    "in place": (lambda x: x.add_(1), [Tensor.add_]),
    "in place operator": (lambda x: x.__iadd__(1), [Tensor.add_]),
    "neg": (lambda x: -x, [Tensor.neg]),
    "matmul": (lambda x: x @ x, [Tensor.matmul]),
    "pow": (lambda x: x**2, [Tensor.__pow__]),
    "comparison": (lambda x: x == 1, [Tensor.eq]),
    "subscript": (lambda x: x[0], [Tensor.__getitem__]),
    "method of C": (lambda x: x.requires_grad_(False), [Tensor.requires_grad_]),
    "view": (lambda x: x.detach(), [Tensor.detach]),
    "attribute": (lambda x: x.T, [Tensor.T.__get__]),
    "nn.functional": (lambda x: gramme.nn.functional.relu(x), [gramme.nn.functional.relu]),
}


@pytest.mark.parametrize("what", SEEN)
def test_calls_are_seen_and_results_are_of_the_class(what):
    do, functions = SEEN[what]
    result, seen = called(do)
    assert seen == functions and type(result) is Logged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled, seen = called(gramme.compile(do, backend="eager"))
    assert seen == functions and type(compiled) is Logged
    plain = do(gramme.tensor([1.0, 2.0]))
    assert_bits_equal(result.as_subclass(Tensor), plain)
    assert_bits_equal(compiled.as_subclass(Tensor), plain)


def test_what_is_no_tensor_is_handed_on():
    for do, value in (
        (lambda x: x.shape, (2,)),
        (lambda x: x.tolist(), [1.0, 2.0]),
        (lambda x: x.size(0), 2),
        (lambda x: x.dtype, gramme.float32),
    ):
        result, seen = called(do)
        assert result == value and len(seen) == 1
    x = make(Logged)
    x[0] = 5
    assert Logged.calls[-1][0] is Tensor.__setitem__ and x.tolist() == [5.0, 2.0]
    assert [type(row) for row in make(Same)] == [Same, Same]


def test_a_class_may_answer_itself():
    class Answers(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "seen"

    x = make(Answers)
    assert (
        gramme.add(x, 1) == "seen"
        and x + 1 == "seen"
        and x.shape == "seen"
        and x.item() == "seen"
        and gramme.stack([x]) == "seen"
    )
    assert gramme.compile(lambda x: gramme.add(x, 1), backend="eager")(x) == "seen"


def test_results_keep_their_histories():
    x = make(Same).requires_grad_()
    y = (x * 3).sum()
    assert type(y) is Same and type(y.as_subclass(Tensor)) is Tensor
    y.backward()
    assert x.grad.tolist() == [3.0, 3.0] and type(x.grad) is Tensor
    w = gramme.ones(2, requires_grad=True)
    (w.as_subclass(Same) * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]
    values, indices = make(Same, 3.0, 4.0).max(0)
    assert type(values) is Same and type(indices) is Same


def test_parameters_are_plain():
    p = gramme.nn.Parameter(make(Same))
    assert type(p * 2) is Tensor and type(gramme.nn.Linear(2, 2)(gramme.ones(1, 2))) is Tensor
    assert not overrides.has_torch_function((p, gramme.ones(1)))


def test_the_order_of_classes():
    class Base(Tensor):
        order = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Base.order.append((cls.__name__, [t.__name__ for t in types]))
            return NotImplemented

    class Derived(Base):
        pass

    class Other(Base):
        pass

    base, derived, other = make(Base), make(Derived), make(Other)
    with pytest.raises(TypeError, match="__torch_function__.*Tensor.add"):
        base.add(derived)
    assert Base.order == [("Derived", ["Derived", "Base"]), ("Base", ["Derived", "Base"])]
    Base.order.clear()
    with pytest.raises(TypeError):
        gramme.cat([other, base, derived, other])
    assert [name for name, _ in Base.order] == ["Other", "Derived", "Base"]
    same = make(Same)
    assert Same.__torch_function__(gramme.add, (Logged,), (same, 1)) is NotImplemented


@pytest.mark.parametrize("compiled", [False, True])
def test_objects_that_are_no_tensors(compiled):
    wrap = (lambda f: gramme.compile(f, backend="eager")) if compiled else (lambda f: f)
    o = Outside(gramme.ones(2))
    assert wrap(lambda o: gramme.mul(o, 3))(o).value.tolist() == [3.0, 3.0]
    assert wrap(lambda x, o: gramme.add(x, o))(gramme.ones(2), o).value.tolist() == [2.0, 2.0]
    assert wrap(lambda x, o: x + o)(gramme.ones(2), o).value.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="sub.*Outside"):
        wrap(lambda o: gramme.sub(o, 1))(o)
    with pytest.raises(TypeError, match="object"):
        gramme.mul(object(), 3)


def test_disabled():
    x = make(Logged)
    with gramme._C.DisableTorchFunctionSubclass():
        Logged.calls.clear()
        y = x + 1
        assert type(y) is Tensor and x.shape == (2,) and not Logged.calls
        assert not overrides.has_torch_function((x,))
    assert overrides.has_torch_function((x,)) and type(x + 1) is Logged

    class Plain(Tensor):
        __torch_function__ = gramme._C._disabled_torch_function_impl

    assert type(make(Plain) + 1) is Tensor


class Counting(overrides.TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_modes_see_calls_also_of_compiled_functions():
    def f(x):
        return gramme.relu(x) + gramme.zeros(2)

    k, x = gramme.compile(f, backend="eager"), gramme.ones(2)
    assert k(x).tolist() == [1.0, 1.0]
    with Counting() as outer, Counting() as inner:
        assert k(x).tolist() == f(x).tolist() == [1.0, 1.0]
    assert inner.seen == outer.seen == [gramme.relu, gramme.zeros, Tensor.add] * 2
    before = len(outer.seen)
    assert k(x).tolist() == [1.0, 1.0] and len(outer.seen) == before

    def g(x, mode):
        y = x * 2
        with mode:
            y = y + 1
        return y * 3

    mode = Counting()
    assert gramme.compile(g, backend="eager")(x, mode).tolist() == [9.0, 9.0] and mode.seen == [
        Tensor.add
    ]
    assert _modes() == ()


def _modes():
    return gramme._core.function_modes()


def test_a_mode_that_raises_is_left():
    class Fails(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError(func)

    with pytest.raises(KeyError):
        with Fails():
            gramme.ones(1)
    assert _modes() == () and gramme.ones(1).tolist() == [1.0]


def test_functions_of_ones_own():
    def scale(x, by=2):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(scale, (x,), x, by=by)
        return x * by

    @overrides.wrap_torch_function(lambda x: (x,))
    def twice(x):
        return x * 2

    assert scale(gramme.ones(1)).item() == 2.0 and twice(gramme.ones(1)).item() == 2.0
    result, seen = called(scale)
    assert seen[0] is scale and type(result) is Logged
    assert called(twice)[1][0] is twice
    assert overrides.is_tensor_like(Outside(1)) and not overrides.is_tensor_like(1)
    assert (
        overrides.resolve_name(gramme.add) == "gramme.add"
        and overrides.resolve_name(Tensor.add) == "gramme.Tensor.add"
    )
    assert overrides.resolve_name(Tensor.shape.__get__) == "gramme.Tensor.shape.__get__"
    assert overrides.is_tensor_method_or_property(
        Tensor.add
    ) and not overrides.is_tensor_method_or_property(gramme.add)
