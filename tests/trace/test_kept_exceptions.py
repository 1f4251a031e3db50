# SPDX-License-Identifier: Apache-2.0
"""An exception that a program keeps holds its frames, and those hold what the functions' variables
are at their end: when objects die is as in plain Python."""

import gc
import functools
import warnings
import weakref

import pytest

import gramme as G


class Thing:
    pass


class Log:
    """What a program has kept, and references to things that do not keep them."""

    def __init__(self):
        self.errors, self.things = [], []

    def thing(self):
        made = Thing()
        self.things.append(weakref.ref(made))
        return made

    def alive(self):
        return [ref() is not None for ref in self.things]

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.errors.append(error)
        return True


def fail(k):
    raise ValueError(k)


untraced = functools.lru_cache(maxsize=0)(fail)


def a_variable_gets_another_value(x, log):
    a = log.thing()
    try:
        untraced(1)
    except ValueError as e:
        log.errors.append(e)
    a = log.thing()
    return x + 1


def raised_and_caught_in_one_function(x, log):
    a = log.thing()
    try:
        raise ValueError(3)
    except ValueError as e:
        log.errors.append(e)
    a = log.thing()
    return x + 1


def caught_by_a_callee(x, log):
    b = log.thing()
    y = a_variable_gets_another_value(x, log)
    b = log.thing()
    return y * 2


def passing(x, log):
    c = log.thing()
    untraced(2)
    return c


def raised_in_a_callee(x, log):
    b = log.thing()
    try:
        passing(x, log)
    except ValueError as e:
        log.errors.append(e)
    b = log.thing()
    return x * 2


def in_a_loop(x, log):
    for i in range(3):
        a = log.thing()
        try:
            untraced(i)
        except ValueError as e:
            log.errors.append(e)
        b = log.thing()
    return x + 1


def a_captured_variable(x, log):
    a = log.thing()

    def again():
        nonlocal a
        a = log.thing()

    try:
        untraced(1)
    except ValueError as e:
        log.errors.append(e)
    again()
    return x + 1


def kept_by_a_context_manager(x, log):
    a = log.thing()
    with log:
        untraced(1)
    a = log.thing()
    return x + 1


def not_kept(x, log):
    a = log.thing()
    try:
        untraced(1)
    except ValueError:
        pass
    a = log.thing()
    return x + 1


def let_out(x, log):
    a = log.thing()
    y = x + 1
    untraced(4)
    return y


def one_kept_after_another(x, log):
    a = log.thing()
    try:
        untraced(1)
    except ValueError as e:
        log.errors.append(e)
    b = log.thing()
    try:
        untraced(2)
    except ValueError as e:
        log.errors.append(e)
    a = b = None
    return x + 1


def lines(error):
    found, at = [], error.__traceback__
    while at:
        found.append((at.tb_frame.f_code.co_name, at.tb_lineno))
        at = at.tb_next
    return found[1:] if found[0][0] == "shown" else found


def shown(program):
    """Its value, where its exceptions come from, and what is alive while they are kept and when
    they are not."""
    log, value = Log(), None
    try:
        value = program(G.ones(2), log).tolist()
    except ValueError as e:
        log.errors.append(e)
    before = log.alive()
    where = [lines(e) for e in log.errors]
    log.errors.clear()
    gc.collect()
    return value, where, before, log.alive()


@pytest.fixture
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "program",
    [
        a_variable_gets_another_value,
        raised_and_caught_in_one_function,
        caught_by_a_callee,
        raised_in_a_callee,
        in_a_loop,
        a_captured_variable,
        kept_by_a_context_manager,
        not_kept,
        let_out,
        one_kept_after_another,
    ],
)
def test_a_kept_exception_holds_what_it_holds_in_plain_python(program, no_collection):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = G.compile(program, backend="eager")
        expected = shown(program)
        assert [shown(compiled) for _ in range(2)] == [expected] * 2


def counted(x, errors, keep):
    try:
        untraced(1)
    except ValueError as e:
        if keep:
            errors.append(e)
    return x + 1


def test_what_follows_a_kept_exception_runs_as_plain_python():
    """And what follows one that is not kept is compiled, whatever came before."""
    errors, graphs = [], []

    def count(graph, example_inputs):
        graphs.append(graph)
        return graph

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = G.compile(counted, backend=count)
        assert compiled(G.ones(2), errors, True).tolist() == [2, 2]
        after_kept = len(graphs)
        assert compiled(G.ones(2), errors, False).tolist() == [2, 2]
    assert len(errors) == 1 and len(graphs) > after_kept
