# SPDX-License-Identifier: Apache-2.0
"""gramme.Generator: random numbers with a state of their own, in eager and in compiled code."""

import copy
import pickle

import pytest

import gramme

DRAWS = {
    "rand": lambda g: gramme.rand(7, generator=g),
    "randn": lambda g: gramme.randn(2, 3, generator=g),
    "rand_like": lambda g: gramme.rand_like(gramme.zeros(3), generator=g),
    "randint": lambda g: gramme.randint(0, 9, (5,), generator=g),
    "randperm": lambda g: gramme.randperm(6, generator=g),
    "normal": lambda g: gramme.normal(gramme.zeros(4), 2.0, generator=g),
    "bernoulli": lambda g: gramme.bernoulli(gramme.full((9,), 0.5), generator=g),
    "multinomial": lambda g: gramme.multinomial(gramme.ones(5), 3, generator=g),
    "normal_": lambda g: gramme.empty(3).normal_(generator=g),
    "uniform_": lambda g: gramme.empty(3).uniform_(2, 5, generator=g),
    "exponential_": lambda g: gramme.empty(3).exponential_(generator=g),
    "random_": lambda g: gramme.empty(3).random_(generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_draws_what_the_process_draws_from_the_same_seed(name):
    gramme.manual_seed(11)
    expected = [DRAWS[name](None), DRAWS[name](None)]
    gramme.manual_seed(3)
    before = gramme.get_rng_state()
    g = gramme.Generator().manual_seed(11)
    for one in expected:
        gramme.testing.assert_bits_equal(DRAWS[name](g), one)
    gramme.testing.assert_bits_equal(gramme.get_rng_state(), before)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("name", DRAWS)
def test_compiled_code_draws_the_same_and_moves_the_generator_on(name, backend):
    gramme._dynamo.reset()
    draw = DRAWS[name]

    def f(g):
        return draw(g), draw(g)

    compiled = gramme.compile(f, backend=backend)
    a, b = gramme.Generator().manual_seed(7), gramme.Generator().manual_seed(7)
    for _ in range(3):
        for x, y in zip(f(a), compiled(b)):
            gramme.testing.assert_bits_equal(x, y)
        gramme.testing.assert_bits_equal(a.get_state(), b.get_state())
    other = gramme.Generator().manual_seed(8)
    gramme.testing.assert_bits_equal(compiled(other)[0], f(gramme.Generator().manual_seed(8))[0])


def test_a_draw_with_a_generator_is_no_break():
    f = gramme.compile(
        lambda x, g: x + gramme.randn(3, generator=g), backend="eager", fullgraph=True
    )
    g = gramme.Generator().manual_seed(1)
    x = gramme.zeros(3, requires_grad=True)
    f(x, g).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_states_are_taken_and_put_back():
    g = gramme.Generator()
    assert g.initial_seed() == gramme.Generator().initial_seed() and g.device.type == "cpu"
    g.manual_seed(2**64 - 1)
    assert g.initial_seed() == 2**64 - 1
    gramme.rand(5, generator=g)
    state = g.get_state()
    first = gramme.rand(4, generator=g)
    for again in (copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        gramme.testing.assert_bits_equal(again.get_state(), g.get_state())
    g.set_state(state)
    gramme.testing.assert_bits_equal(gramme.rand(4, generator=g), first)
    assert g.seed() == g.initial_seed()


def test_what_is_no_generator_is_an_error():
    with pytest.raises(TypeError, match="generator must be a gramme.Generator"):
        gramme.rand(3, generator=gramme.zeros(3))
    with pytest.raises(TypeError, match="generator|str"):
        gramme.rand(3, generator="x")
    with pytest.raises(RuntimeError, match="2 elements"):
        gramme.Generator().set_state(gramme.zeros(3))


def test_a_fork_of_the_process_generator_leaves_it_alone():
    gramme.manual_seed(4)
    expected = gramme.rand(3)
    gramme.manual_seed(4)
    with gramme.random.fork_rng():
        gramme.rand(100)
    gramme.testing.assert_bits_equal(gramme.rand(3), expected)


def test_draws_of_sizes_that_the_program_makes_numbers_are_counted():
    """unbind() makes the size of the second call a number after the draw was counted by an
    expression."""

    def f(x):
        y = x * gramme.rand(x.shape)
        return y + y.abs().unbind()[1]

    gramme._dynamo.reset()
    g = gramme.compile(f, backend="eager", dynamic=True)
    for shape in ((4, 3), (12,), (4, 3), (12,)):
        states = []
        for h in (f, g):
            gramme.manual_seed(5)
            h(gramme.ones(shape))
            states.append(gramme.get_rng_state().tolist())
        assert states[0] == states[1] == [5, 3]
