# SPDX-License-Identifier: Apache-2.0
"""What belongs to a module: parameters, buffers and children in three dicts of its own, checked
when they are set; plain and compiled."""

import copy
import pickle

import pytest

import gramme
from gramme import nn
from gramme.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from gramme.testing import CompileCounter, assert_bits_equal


def names(module):
    return [name for name, _ in module.named_parameters()]


def test_a_module_set_past_its_class_is_hidden():
    class Student(nn.Module):
        def __init__(self, teacher):
            super().__init__()
            object.__setattr__(self, "teacher", teacher)
            self.__dict__["second"] = teacher
            self.own = nn.Linear(1, 1)

    teacher = nn.Dropout(0.5)
    teacher.weight = nn.Parameter(gramme.ones(1))
    student = Student(teacher)
    student.eval()
    assert names(student) == ["own.weight", "own.bias"] == list(student.state_dict())
    assert teacher.training and student.teacher is teacher and student.second is teacher
    assert [type(m).__name__ for m in student.children()] == ["Linear"]


def test_the_three_dicts_are_real_ones():
    norm = nn.BatchNorm1d(2)
    norm.inside = nn.ReLU()
    assert [type(norm.__dict__[table]) for table in ("_parameters", "_buffers", "_modules")] == [
        dict,
        dict,
        dict,
    ]
    assert not {"weight", "running_mean", "inside"} & set(vars(norm)) and {
        "weight",
        "running_mean",
        "inside",
    } <= set(dir(norm))
    assert list(reversed(norm._parameters.items()))[0][0] == "bias"
    assert list(norm._modules) == ["inside"] and norm.inside is norm._modules["inside"]
    norm._parameters["extra"] = nn.Parameter(gramme.ones(3))
    assert norm.extra.shape == (3,) and names(norm) == ["weight", "bias", "extra"]
    del norm.extra
    assert "extra" not in norm._parameters and not hasattr(norm, "extra")
    assert list(nn.Linear(1, 1, bias=False)._parameters) == ["weight", "bias"]


# what is set, the error, words of its text
WRONG = {
    "a tensor for a parameter": (
        lambda m: setattr(m, "weight", m.weight * 0.5),
        TypeError,
        "FloatTensor.* as parameter 'weight'",
    ),
    "a number for a parameter": (
        lambda m: setattr(m, "weight", 3),
        TypeError,
        "as parameter 'weight'",
    ),
    "a str for a module": (
        lambda m: setattr(m, "inside", "relu"),
        TypeError,
        "as child module 'inside'",
    ),
    "a list for a buffer": (
        lambda m: setattr(m, "running_mean", [1.0]),
        TypeError,
        "as buffer 'running_mean'",
    ),
    "a parameter with a history": (lambda m: m.register_parameter("new", m.weight), None, ""),
    "a name that an attribute has": (
        lambda m: m.register_buffer("eps", gramme.ones(1)),
        KeyError,
        "'eps' already exists",
    ),
    "a name that a method has": (
        lambda m: m.register_parameter("forward", None),
        KeyError,
        "'forward' already exists",
    ),
    "a name that a parameter has": (
        lambda m: m.add_module("weight", nn.ReLU()),
        KeyError,
        "'weight' already exists",
    ),
    "a module as a parameter": (
        lambda m: m.register_parameter("new", nn.ReLU()),
        TypeError,
        "parameter 'new'",
    ),
    "a missing attribute": (
        lambda m: m.nothing,
        AttributeError,
        "'BatchNorm1d' object has no attribute 'nothing'",
    ),
    "a missing attribute, deleted": (lambda m: delattr(m, "nothing"), AttributeError, "nothing"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_a_member_is_refused(what):
    norm = nn.BatchNorm1d(2)
    norm.inside = nn.ReLU()
    before = list(norm.state_dict())
    do, error, words = WRONG[what]
    if error is None:
        do(norm)
        return
    with pytest.raises(error, match=words):
        do(norm)
    assert list(norm.state_dict()) == before


@pytest.mark.parametrize("kind", ["parameter", "module", "buffer"])
def test_members_need_an_initialised_module(kind):
    value = {
        "parameter": nn.Parameter(gramme.ones(1)),
        "module": nn.ReLU(),
        "buffer": nn.Buffer(gramme.ones(1)),
    }[kind]

    class Early(nn.Module):
        def __init__(self):
            self.plain = 1  # allowed
            self.member = value
            super().__init__()

    with pytest.raises(AttributeError, match=f"cannot assign {kind}s? before Module.__init__"):
        Early()


def test_a_name_changes_its_kind():
    m = nn.Module()
    m.x = 1
    m.x = nn.Parameter(gramme.ones(1))
    assert "x" not in vars(m) and names(m) == ["x"]
    m.x = None
    assert m.x is None and m._parameters == {"x": None} and names(m) == []
    m.x = nn.Parameter(gramme.zeros(1))
    del m.x
    m.x = nn.ReLU()
    assert list(m._modules) == ["x"] and not m._parameters
    m.register_buffer("b", gramme.ones(1), persistent=False)
    m.b = gramme.zeros(2)
    assert list(m.state_dict()) == [] and [n for n, _ in m.named_buffers()] == ["b"]
    m.b = nn.Parameter(gramme.ones(1))
    assert list(m.state_dict()) == ["b"] and not m._buffers


class Asked(nn.Module):
    """Has a __getattr__ of its own, which is asked for members, too."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(gramme.full((2,), 3.0))
        self.seen = []

    def __getattr__(self, name):
        value = super().__getattr__(name)
        return value * 2 if name == "weight" else value

    def forward(self, x):
        return x * self.weight


def test_getattr_is_overridable_and_called():
    m = Asked()
    assert m.weight.tolist() == [6.0, 6.0] and m._parameters["weight"].tolist() == [3.0, 3.0]
    assert nn.Module.__getattr__(m, "weight") is m._parameters["weight"]
    x = gramme.ones(2)
    assert_bits_equal(gramme.compile(m, backend="eager")(x), m(x))


def test_hooks_of_all_modules():
    seen, net = [], nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net[0].register_forward_pre_hook(lambda m, args: seen.append("own"))
    with register_module_forward_pre_hook(lambda m, args: seen.append(type(m).__name__)):
        with register_module_forward_hook(
            lambda m, args, out: out + 1 if isinstance(m, nn.Linear) else None
        ):
            changed = net(gramme.ones(1, 2))
    assert seen == ["Sequential", "Linear", "own", "ReLU"]
    seen.clear()
    assert_bits_equal(net(gramme.ones(1, 2)), net[0](gramme.ones(1, 2)).relu())
    assert seen == ["own", "own"] and changed.shape == (1, 2)


def test_hooks_before_a_state_is_loaded_with_and_without_the_module():
    m, seen = nn.Linear(1, 1), []
    m._register_load_state_dict_pre_hook(
        lambda state, prefix, meta, strict, missing, unexpected, errors: seen.append(prefix)
    )
    m._register_load_state_dict_pre_hook(
        lambda module, state, *rest: seen.append(module is m), with_module=True
    )
    nn.Sequential(m).load_state_dict(nn.Sequential(nn.Linear(1, 1)).state_dict())
    assert seen == ["0.", True]


def test_statistics_that_are_not_tracked_any_more_stay():
    x = gramme.arange(6.0).reshape(3, 2)
    for compiled in (False, True):
        norm = nn.BatchNorm1d(2)
        norm.track_running_stats = False
        y = (gramme.compile(norm, backend="eager") if compiled else norm)(x)
        assert norm.running_mean.tolist() == [0.0, 0.0] and norm.num_batches_tracked.item() == 0
        assert_bits_equal(
            y, gramme.nn.functional.batch_norm(x, None, None, norm.weight, norm.bias, True)
        )
        norm.eval()
        assert_bits_equal(norm(x), x / (1 + norm.eps) ** 0.5)


def test_copies_and_pickles_have_members_of_their_own():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert (
            list(again.state_dict()) == list(net.state_dict())
            and again[0].weight is not net[0].weight
        )
        again[0].weight = nn.Parameter(gramme.zeros(2, 2))
        assert_bits_equal(again[0].weight, gramme.zeros(2, 2))
        assert net[0].weight.abs().sum() > 0


def test_parameter_containers_keep_what_is_no_parameter():
    table = nn.ParameterDict({"a": gramme.ones(1), "training": gramme.zeros(2), "n": 3})
    assert table.training is True and table["training"].shape == (2,) and table["n"] == 3
    assert names(table) == ["a", "training"] and list(table) == ["a", "training", "n"]
    items = nn.ParameterList([gramme.ones(1), 5])
    del items[0]
    assert list(items) == [5] and names(items) == []


# -- Compiled


class Counts(nn.Module):
    """Sets attributes of all kinds while it runs."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.register_buffer("total", gramme.zeros(2))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.last = x * 2
        self.total = self.total + x.sum(0)
        return self.fc(x) + self.calls


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_attributes_set_in_a_compiled_module(backend):
    def run(compiled):
        gramme.manual_seed(3)
        m = Counts()
        f = gramme.compile(m, backend=backend) if compiled else m
        x = gramme.arange(6.0).reshape(3, 2)
        outs = [f(x).detach() for _ in range(3)]
        return (
            outs,
            m.calls,
            m.last,
            m.total,
            list(m._buffers),
            sorted({*vars(m)} - {"_compiled_call"}),
        )

    plain, compiled = run(False), run(True)
    assert plain[1] == compiled[1] == 3 and plain[4:6] == compiled[4:6]
    for a, b in zip([*plain[0], *plain[2:4]], [*compiled[0], *compiled[2:4]]):
        assert_bits_equal(a, b)


def test_guards_see_every_way_to_change_a_member():
    """One graph for each state of the module; the way in which a member was replaced does not
    matter."""
    counter = CompileCounter()
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    f = gramme.compile(net, backend=counter)
    x = gramme.ones(1, 2)

    def check():
        assert_bits_equal(f(x), net[1](net[0](x)))

    check()
    ways = [
        lambda: setattr(net[0], "weight", nn.Parameter(gramme.ones(2, 2))),
        lambda: net[0]._parameters.__setitem__("weight", nn.Parameter(gramme.full((2, 2), 2.0))),
        lambda: vars(net[1])["_parameters"].update(weight=nn.Parameter(gramme.full((2, 2), 3.0))),
        lambda: net._modules.update({"1": nn.Linear(2, 2)}),
        lambda: setattr(net, "0", nn.Linear(2, 2)),
        lambda: vars(net[0]).update(
            _parameters={"weight": nn.Parameter(gramme.ones(2, 2)), "bias": None}
        ),
        lambda: object.__setattr__(net[0], "bias", gramme.ones(2)),
        lambda: net[1].register_parameter("bias", None),
    ]
    for way in ways:
        way()
        check()
        before = counter.frame_count
        check()
        assert counter.frame_count == before


def test_a_parameter_set_in_a_compiled_function():
    def f(m, x):
        m.w = nn.Parameter(x * 2)
        m.child = nn.ReLU()
        hidden = "w" in vars(m), list(m._parameters), list(m._modules)
        try:
            m.w = x
        except TypeError:
            return m.w + 1, hidden
        return m.w, hidden

    x = gramme.ones(2)
    a, b = nn.Module(), nn.Module()
    plain, compiled = f(a, x), gramme.compile(f, backend="eager")(b, x)
    assert_bits_equal(plain[0], compiled[0])
    assert plain[1] == compiled[1] == (False, ["w"], ["child"])
    assert (
        names(a) == names(b) == ["w"]
        and isinstance(b.w, nn.Parameter)
        and isinstance(b.child, nn.ReLU)
    )


def set_unbound(m, x):
    nn.Module.__setattr__(m, "plain", x + 1)
    nn.Module.__setattr__(m, "member", nn.Parameter(x))
    return nn.Module.__getattr__(m, "member") * 2


class Doubles(nn.Module):
    """Has a __setattr__ of its own, which runs once for each assignment."""

    def __setattr__(self, name, value):
        super().__setattr__(name, value * 2 if type(value) is int else value)

    def forward(self, x):
        self.factor = 3
        self.seen = x
        return x * self.factor


def test_the_methods_by_their_names_and_overridden():
    a, b, x = nn.Module(), nn.Module(), gramme.ones(2)
    plain, compiled = set_unbound(a, x), gramme.compile(set_unbound, backend="eager")(b, x)
    assert_bits_equal(plain, compiled)
    assert names(a) == names(b) == ["member"] and sorted(vars(a)) == sorted(vars(b))
    doubles = Doubles()
    f = gramme.compile(doubles, backend="eager")
    assert (
        [f(x).tolist() for _ in range(2)] == [[6.0, 6.0]] * 2
        and doubles.factor == 6
        and doubles.seen is x
    )
