# SPDX-License-Identifier: Apache-2.0
"""Python's module random in compiled functions: each call draws when it runs, the same numbers as
plain Python, and leaves the generator in the same state.  No number that was drawn while recording
is in a graph."""

import random
import struct
import types
import warnings

import pytest

import gramme as G
from stress import undisturbed

OWN = random.Random(7)


class Holder:
    pass


HOLDER = Holder()
HOLDER.source = OWN


def bits(value):
    """Comparable to the bit."""
    if isinstance(value, G.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape), bits(value.tolist())
    if isinstance(value, float):
        return "float", struct.pack("d", value)
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [bits(v) for v in value]
    return type(value).__name__, value


def states():
    return random.getstate(), OWN.getstate()


def outcome(f, *args):
    try:
        return "value", bits(f(*args))
    except Exception as e:
        return type(e), str(e)


def check(f, *args, rounds=6, **options):
    """Compiled with a code object of its own, from the same states as plain Python."""
    compiled = G.compile(
        types.FunctionType(
            f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__, f.__closure__
        ),
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(rounds):
            random.seed(seed)
            OWN.seed(seed + 100)
            want, after = outcome(f, *args), states()
            random.seed(seed)
            OWN.seed(seed + 100)
            assert outcome(compiled, *args) == want, seed
            assert states() == after, seed
    return compiled


INPUTS = {
    "float": G.linspace(-2, 2, 5),
    "half": G.linspace(-2, 2, 5).half(),
    "double": G.linspace(-2, 2, 5).double(),
    "int": G.arange(5),
    "byte": G.arange(5).to(G.uint8),
    "bool": G.tensor([True, False]),
    "one number": G.tensor(2.5),
}


def scale(x):
    return x * random.random()


def noise(x):
    return x + random.gauss(0, 1), x - random.normalvariate(1.0, 2.0), random.expovariate(2) / 3


def whole(x):
    return (
        x + random.randint(-5, 5),
        random.randrange(10),
        random.randrange(4, 40, 3),
        random.randrange(9, -9, -4),
    )


def large(x):
    return random.getrandbits(63), random.randint(-(2**63), 2**63 - 2), x


def chosen(x):
    return x * random.choice([1, 5, 9]), random.choice((0.25, 1e300)), random.choice(range(3, 9))


def seeded(x):
    random.seed(3)
    a = x * random.random()
    random.seed("text")
    return a, random.random()


def arithmetic(x):
    a, b = random.random(), random.uniform(-1, 3)
    return 1 - a * 2, a / 4 + b, -b, a + random.randint(1, 6), x * (a - b)


def own(x):
    return x * OWN.random() + HOLDER.source.uniform(1, 2) - OWN.randint(1, 3)


def compared(x):
    return x < random.random(), x >= random.randint(-1, 1)


def method_kept(x):
    draw = random.random
    return [x * draw(), draw()]


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize(
    "f",
    [scale, noise, whole, chosen, seeded, arithmetic, own, compared, method_kept],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_drawn_without_a_break(f, name, backend):
    byte = name == "byte" and f in (
        whole,
        compared,
    )  # negative numbers are none of its values: Python adds them
    check(f, INPUTS[name], fullgraph=not byte, backend=backend)


def test_integers_of_63_bits():
    check(large, INPUTS["float"], fullgraph=True)


@undisturbed
def test_one_graph_serves_all_numbers():
    compiled = check(arithmetic, INPUTS["float"], fullgraph=True, backend="eager")
    text = str(G.compiler.explain(compiled)(INPUTS["float"]))
    assert (
        "1 graph, 0 breaks" in text and "random_random_0" in text and "random_uniform_1" in text
    ), text
    assert "graph 1" not in text


def test_the_gradient_sees_the_number_of_the_forward():
    w = G.ones(3, requires_grad=True)

    def f(w):
        return (w * random.random()).sum()

    compiled = G.compile(f, fullgraph=True)
    for seed in range(3):
        random.seed(seed)
        compiled(w).backward()
        random.seed(seed)
        assert w.grad.tolist() == (G.ones(3) * random.random()).tolist()
        w.grad = None


def stored(x, h):
    h.a = random.random()
    h.b = h.a
    h.c = [random.randint(1, 9)] * 2
    return x * h.a


def test_numbers_that_are_stored():
    h = Holder()
    compiled = G.compile(stored, fullgraph=True)
    for seed in range(3):
        random.seed(seed)
        a, c = random.random(), random.randint(1, 9)
        random.seed(seed)
        compiled(G.ones(2), h)
        assert (h.a, h.c) == (a, [c, c]) and h.a is h.b and h.c[0] is h.c[1] and type(h.a) is float


# -- Where Python needs the number


def branch(x):
    v = random.random()
    if v < 0.5:
        return x * v
    return x - v


def index(x):
    return x[random.randint(0, 3)]


def shuffled(x):
    items = [1, 2, 3, 4]
    random.shuffle(items)
    return x * items[0] + random.sample(range(10), 3)[1]


def put_back(x):
    state = random.getstate()
    a = x * random.random()
    random.setstate(state)
    return a, x * random.random()


def refused(x):
    try:
        return x * random.randint(5, 1)
    except ValueError as e:
        return x + 1, str(e)


def nothing_to_choose(x):
    return random.choice([]), x


def text(x):
    return f"{random.random()}", x + 1


def rounds_of_a_loop(x):
    return [x * i for i in range(random.randint(2, 4))]


def new_generator(x):
    r = random.Random(3)
    return x * r.random(), r.random()


def of_words(x):
    return random.choice(["a", "b"]), x * random.random()


def in_a_loop(x):
    total = 0.0
    while total < 2:
        total += random.random()
    return x * total


@pytest.mark.parametrize(
    "f",
    [
        branch,
        index,
        shuffled,
        put_back,
        refused,
        nothing_to_choose,
        text,
        rounds_of_a_loop,
        new_generator,
        of_words,
        in_a_loop,
    ],
    ids=lambda f: f.__name__,
)
def test_a_break_where_python_needs_the_number(f):
    check(f, INPUTS["float"], rounds=12)


@undisturbed
def test_a_number_that_comes_over_a_break_is_not_burned_in():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the recompile limit
        compiled = check(branch, INPUTS["float"], rounds=20)
    before = dict(G._dynamo.utils.counters["frames"])
    for _ in range(10):
        compiled(INPUTS["float"])
    assert dict(G._dynamo.utils.counters["frames"]) == before


# -- What is not the module's own


class Fake(random.Random):
    def random(self):
        return 0.5


FAKE, REPLACED = Fake(1), random.Random(2)


def of_a_subclass(x):
    return x * FAKE.uniform(1, 2), FAKE.random()


def replaced_in_the_object(x):
    return x * REPLACED.uniform(1, 2)


def test_a_class_with_a_random_of_its_own():
    check(of_a_subclass, INPUTS["float"])


def test_an_object_whose_random_was_replaced():
    compiled = G.compile(replaced_in_the_object)
    REPLACED.seed(5)
    want = bits(replaced_in_the_object(INPUTS["float"]))
    REPLACED.seed(5)
    assert bits(compiled(INPUTS["float"])) == want
    REPLACED.random = lambda: 0.25
    assert compiled(INPUTS["float"]).tolist() == (INPUTS["float"] * 1.25).tolist()
    del REPLACED.random


def test_a_function_of_the_module_that_is_replaced(monkeypatch):
    compiled = check(scale, INPUTS["float"], rounds=2)
    monkeypatch.setattr(random, "random", lambda: 3.0)
    assert compiled(INPUTS["float"]).tolist() == (INPUTS["float"] * 3.0).tolist()


@pytest.mark.parametrize("method", ["seed", "randint"])
def test_the_modules_own_methods_may_be_captured(method):
    """Random.seed calls the base's, by super ()."""
    args = {"seed": (3,), "randint": (1, 1000)}[method]
    compiled = G.compile(
        types.FunctionType(
            *(
                getattr(f := getattr(random.Random, method), "__" + name + "__")
                for name in ("code", "globals", "name", "defaults", "closure")
            )
        )
    )
    for _ in range(3):
        OWN.seed(1)
        want = getattr(random.Random, method)(OWN, *args), OWN.gauss(0, 1), OWN.getstate()
        OWN.seed(1)
        with G._dynamo.capture_all():
            have = compiled(OWN, *args)
            OWN.seed(1)
            assert getattr(OWN, method)(*args) == have
        assert (have, OWN.gauss(0, 1), OWN.getstate()) == want


def test_a_checkpoint_that_draws_breaks():
    from gramme.utils.checkpoint import checkpoint

    def f(w):
        return checkpoint(lambda w: w * random.random(), w)

    with pytest.raises(Exception, match="the state of the module random"):
        G.compile(f, fullgraph=True)(G.ones(3, requires_grad=True))
