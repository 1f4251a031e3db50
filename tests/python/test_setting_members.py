# SPDX-License-Identifier: Apache-2.0
"""Attributes of modules that are set at once: the same as what Module's methods written in Python
make of them."""

import itertools

import pytest

import gramme
from gramme import nn


def computed_parameter():
    p = nn.Parameter(gramme.ones(2), requires_grad=False)
    p.mul_(gramme.ones(2, requires_grad=True))
    return p


class Own(nn.Parameter):
    pass


VALUES = {
    "Parameter": lambda: nn.Parameter(gramme.ones(2)),
    "a subclass": lambda: Own(gramme.ones(2)),
    "a Parameter with a history": computed_parameter,
    "Module": lambda: nn.ReLU(),
    "Buffer": lambda: nn.Buffer(gramme.ones(2)),
    "tensor": lambda: gramme.ones(2),
    "None": lambda: None,
}
NAMES = ["fresh", "p", "b", "dropped", "m", "own", "training", "forward", "kind", "a.b", ""]


class Base(nn.Module):
    kind = "of the class"

    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(gramme.zeros(1))
        self.register_buffer("b", gramme.zeros(1))
        self.register_buffer("dropped", gramme.zeros(1), persistent=False)
        self.m = nn.Identity()
        self.own = 3
        self._non_persistent_buffers_set.add(
            "fresh"
        )  # left behind by a buffer that was taken out of its dict


class WithGetattr(Base):
    def __getattr__(self, name):
        return 7 if name == "fresh" else super().__getattr__(name)


class WithProperty(Base):
    fresh = property(lambda self: 3)


class WithRegister(Base):
    def register_parameter(self, name, param):
        vars(self).setdefault("log", []).append(name)
        super().register_parameter(name, param)


class Early(nn.Module):
    def __init__(self):
        pass


def outcome(module, do):
    try:
        do()
        error = None
    except Exception as e:
        error = type(e), str(e)
    kept = {
        name: dict(value) if isinstance(value, dict) else value
        for name, value in vars(module).items()
    }
    return error, {
        name: {k: type(v) for k, v in value.items()} if isinstance(value, dict) else value
        for name, value in kept.items()
    }


@pytest.mark.parametrize("cls", [Base, WithGetattr, WithProperty, WithRegister, Early])
def test_setting_a_member_is_what_the_methods_in_python_do(cls):
    for name, value in itertools.product(NAMES, VALUES):
        if name in ("training", "forward", "kind", "own") and value in ("tensor", "None"):
            continue  # no member: stored as any attribute is
        v = VALUES[value]()
        quick, slow = cls(), cls()
        got = outcome(quick, lambda: setattr(quick, name, v))
        want = outcome(slow, lambda: nn.Module._set_member(slow, name, v))
        assert got == want, (name, value)


def test_what_replaces_register_parameter_of_all_modules_is_called(monkeypatch):
    seen, plain = [], nn.Module.register_parameter
    monkeypatch.setattr(
        nn.Module,
        "register_parameter",
        lambda self, name, param: (seen.append(name), plain(self, name, param))[1],
    )
    nn.Linear(2, 2).weight = nn.Parameter(gramme.ones(2, 2))
    assert seen == ["weight", "bias", "weight"]


def test_a_class_takes_another_way_to_set_and_delete_at_any_time():
    class C(nn.Module):
        pass

    class D(C):
        pass

    c, d, log = C(), D(), []
    c.x = d.x = 1
    C.__setattr__ = lambda self, name, value: (
        log.append(name),
        nn.Module.__setattr__(self, name, value),
    )[1]
    c.x = d.x = 2
    assert (c.x, d.x, log) == (2, 2, ["x", "x"])
    del C.__setattr__
    c.x = d.x = 3
    D.__delattr__ = lambda self, name: log.append("-" + name)
    del c.x, d.x
    assert log == ["x", "x", "-x"] and not hasattr(c, "x") and d.x == 3
    c.p = nn.Parameter(gramme.ones(1))
    del c.p
    assert not list(c.parameters())
    with pytest.raises(AttributeError):
        del c.p


def test_a_compiled_function_makes_the_modules_that_plain_python_makes():
    def f(x):
        layer = nn.Linear(3, 2)
        layer.scale = nn.Parameter(gramme.ones(2))
        layer.act = nn.ReLU()
        return x + len(list(layer.parameters())), [name for name, _ in layer.named_modules()]

    x = gramme.ones(2)
    plain, compiled = f(x), gramme.compile(f, backend="eager")(x)
    assert plain[0].tolist() == compiled[0].tolist() == [4, 4] and plain[1] == compiled[1] == [
        "",
        "act",
    ]
