# SPDX-License-Identifier: Apache-2.0
"""GU-2, GU-3: the guards of a model.  A change at any place of it is seen by the next call, a
change elsewhere makes nothing anew, and a model that nothing has changed costs as much to check as
a small one.
"""

import os
import subprocess
import sys
import types
import warnings

import pytest

import gramme as G
from gramme import _core, nn
from stress import ON, undisturbed

N = 26  # modules: enough for the tree to be checked as a whole
AT = 19


class Scaled(nn.Module):
    """Reads a parameter, a buffer, a flag, a number, an item of a dict and an attribute that only
    the class has."""

    offset = 1.0

    def __init__(self, i):
        super().__init__()
        self.weight = nn.Parameter(G.ones(2) * (1 + i / 64))
        self.register_buffer("mean", G.ones(2) * i / 32)
        self.factor = 1.0 + i / 128
        self.options = {"shift": i / 16}
        self.register_parameter("bias", None)

    def forward(self, x):
        x = x * self.weight - self.mean * self.factor + self.options["shift"] + self.offset
        if self.bias is not None:
            x = x + self.bias
        return x if self.training else x * 0.5


class Other(Scaled):
    offset = -1.0


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[Scaled(i) for i in range(N)])
        self.last = Scaled(0)

    def forward(self, x):
        return self.last(self.layers(x))


def delete(o, name):
    delattr(o, name)


def give_dict(o, **changed):
    o.__dict__ = {**o.__dict__, **changed}


def hooked(module, inputs, output):
    return output * 3


def patched(self, x):
    return x - self.weight


# What is changed in the module at AT of the model; and what a class has, which is put back.
CHANGES = {
    "an attribute": lambda m, model: setattr(m, "factor", 7.0),
    "an attribute, past __setattr__": lambda m, model: object.__setattr__(m, "factor", 7.0),
    "an attribute, as an item of __dict__": lambda m, model: m.__dict__.__setitem__("factor", 7.0),
    "attributes, by update": lambda m, model: vars(m).update(factor=7.0, training=False),
    "an item of a dict of its own": lambda m, model: m.options.__setitem__("shift", 5.0),
    "a dict of its own": lambda m, model: setattr(m, "options", {"shift": 5.0}),
    "__dict__": lambda m, model: give_dict(m, factor=7.0),
    "the class": lambda m, model: setattr(m, "__class__", Other),
    "an attribute that only the class had": lambda m, model: setattr(m, "offset", 9.0),
    "an attribute of the class": lambda m, model: setattr(Scaled, "offset", 4.0),
    "a method of the class": lambda m, model: setattr(Scaled, "forward", patched),
    "a method of the instance": lambda m, model: setattr(m, "forward", lambda x: x + 5),
    "training": lambda m, model: m.eval(),
    "training of all": lambda m, model: model.eval(),
    "training of a child of the base class": lambda m, model: delete(m, "training"),
    "a parameter": lambda m, model: setattr(m, "weight", nn.Parameter(G.ones(2) * 5)),
    "a parameter of another shape": lambda m, model: setattr(
        m, "weight", nn.Parameter(G.ones(1) * 5)
    ),
    "a parameter's data of another shape": lambda m, model: setattr(
        m.weight, "data", G.ones(1) * 5
    ),
    "a parameter's requires_grad": lambda m, model: m.weight.requires_grad_(False),
    "a parameter, registered": lambda m, model: m.register_parameter(
        "bias", nn.Parameter(G.ones(2))
    ),
    "a buffer": lambda m, model: setattr(m, "mean", G.ones(2) * 5),
    "a buffer, registered": lambda m, model: m.register_buffer("mean", G.ones(1) * 5),
    "a submodule": lambda m, model: model.layers.__setitem__(AT, Scaled(3)),
    "a submodule of another class": lambda m, model: model.layers.__setitem__(AT, nn.ReLU()),
    "a submodule, by name": lambda m, model: model.set_submodule("last", nn.Identity()),
    "a submodule less": lambda m, model: model.layers.__delitem__(AT),
    "a submodule more": lambda m, model: model.layers.append(Scaled(5)),
    "a hook": lambda m, model: m.register_forward_hook(hooked),
    "a hook that goes again": lambda m, model: m.register_forward_hook(hooked).remove(),
    "double()": lambda m, model: m.double(),
    "a state that is loaded": lambda m, model: m.load_state_dict(
        {"weight": G.ones(2) * 3, "mean": G.ones(2)}
    ),
}


@pytest.fixture(autouse=True)
def as_it_was():
    forward, offset = Scaled.forward, Scaled.offset
    yield
    Scaled.forward, Scaled.offset = forward, offset


def run(change, compile, reads):
    """Results and gradients before and after the change; and what a compiled function counts."""
    model, offset, forward = Stack(), Scaled.offset, Scaled.forward
    f, x = compile(model), G.ones(2)
    seen = [f(x) for _ in range(4)]
    if reads:  # what has been looked at from outside may be kept in another way
        seen += [vars(m).get("factor") for m in model.modules()] + [f(x), f(x)]
    change(model.layers[AT], model)
    for _ in range(3):
        try:
            y = f(x)
            y.sum().backward()
        except Exception as error:
            y = str(error)
        seen.append(y)
    seen += [p.grad for p in model.parameters()]
    Scaled.offset, Scaled.forward = offset, forward
    return [v.tolist() if isinstance(v, G.Tensor) else v for v in seen], f


@pytest.mark.parametrize(
    "reads",
    [False] if "rollback" in ON else [False, True],
    ids=lambda reads: "read before" if reads else "",
)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_gu_3_a_change_at_any_place_of_a_model_is_seen(change, reads):  # GU-3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (
            run(change, lambda model: G.compile(model, backend="eager"), reads)[0]
            == run(change, lambda model: model, reads)[0]
        )


def unrelated(model, others):
    """Changes of all that the model's program does not read."""
    model.layers[AT].remark = 1
    model.remark = {}
    model.layers[AT].weight.grad = None
    model.layers[AT].options["more"] = 2
    with G.no_grad():
        model.layers[AT].weight.mul_(2.0)
    Scaled.remark = 3
    del Scaled.remark
    others.layers[AT] = Scaled(9)
    others.last.factor = 5.0
    others.last.__class__ = Other
    others.last.weight.data = G.ones(1)
    del others.layers[3]


@undisturbed
def test_gu_2_what_a_model_does_not_read_makes_nothing_anew():  # GU-2
    model, others = Stack(), Stack()
    f, g, x = G.compile(model, backend="eager"), G.compile(Stack(), backend="eager"), G.ones(2)
    for _ in range(3):
        f(x), g(x), others(x)
    for _ in range(3):
        unrelated(model, others)
        others = Stack()
        assert f(x).tolist() == model._call_impl(x).tolist()
    assert f._compiled_call.status()["graphs"] == 1
    assert f._compiled_call.status()["misses"] == 1


@undisturbed
def test_a_model_that_takes_another_s_place_in_memory():
    """Each is as the one before was, but for one number: the allocator gives it the same addresses
    again."""

    def results(compile):
        function = compile(lambda model, x: model(x))
        seen = []
        for i in range(6):
            model = Stack()
            model.last.factor = float(i)
            seen += [function(model, G.ones(2)).tolist() for _ in range(3)]
            model = None
        return seen

    fresh = types.FunctionType
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert results(
            lambda f: G.compile(fresh(f.__code__.replace(), f.__globals__), backend="eager")
        ) == results(lambda f: f)


WITHOUT_WATCHERS = """
import ctypes
kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.py_object)
mine, taken = kind(lambda *event: 0), 0
try:
    while ctypes.pythonapi.PyDict_AddWatcher(mine) >= 0:
        taken += 1
except RuntimeError:
    pass
import sys
sys.path.insert(0, {here!r})
from test_guards_of_models import CHANGES, run
from gramme import compile
for name, change in CHANGES.items():
    assert run(change, lambda model: compile(model, backend="eager"), False)[0] == run(change, lambda model: model, False)[0], name
print(taken > 0)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="dicts have versions")
def test_a_change_is_seen_where_others_have_taken_all_watchers():
    program = WITHOUT_WATCHERS.format(here=os.path.dirname(os.path.abspath(__file__)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


class Tower(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(n)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def looked_at(n, changing):
    """At how many things one check of all guards of a model of n modules looks."""
    model, x = G.compile(Tower(n), backend="eager"), G.ones(1, 2)
    with G.no_grad():
        for _ in range(3):
            model(x)
        return model._compiled_call.measure_guards(10, changing, model, x)[1]


MANY = (
    100 if "rollback" in ON else 1000
)  # each instruction undone hashes the state, which is as large as the model


@undisturbed
@pytest.mark.skipif(_core.debug_checks, reason="this build looks at everything that it remembers")
def test_gu_2_a_thousand_modules_cost_what_ten_cost():  # GU-2
    """There are 6,000 guards of a thousand."""
    assert looked_at(MANY, False) <= looked_at(10, False)


@undisturbed
@pytest.mark.skipif(_core.debug_checks, reason="this build looks at everything that it remembers")
def test_gu_2_where_some_dict_has_changed_one_number_a_dict_is_compared():  # GU-2
    """Two of each further module: its attributes, and its parameters."""
    small, large = looked_at(10, True), looked_at(MANY, True)
    assert large - small <= 2 * (MANY - 10)
