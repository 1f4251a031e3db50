# SPDX-License-Identifier: Apache-2.0
"""Breaks where a frame cannot be taken apart: Python executes some lines, and what comes after them
is captured again."""

import contextlib
import sys
import traceback

import gramme as G

X = G.ones(2)


def ask():
    G._dynamo.graph_break()


def outcome_of(f, *args):
    """What it raises, with its chain and the user's lines, counted from its first."""
    try:
        return f(*args)
    except Exception as error:
        first = f.__wrapped__ if hasattr(f, "__wrapped__") else f
        start = first.__code__.co_firstlineno
        frames = [(s.name, s.lineno - start) for s in traceback.extract_tb(error.__traceback__)[1:]]
        chain = [
            (type(e).__name__, str(e)) for e in (error, error.__context__, error.__cause__) if e
        ]
        return frames, chain


# expect: graphs=2 breaks=1
def case_gb_3_break_in_an_except_body(compile):
    def root(x):
        y = x + 1
        try:
            raise ValueError("a")
        except ValueError as e:
            ask()
            seen = str(sys.exc_info()[1]), e.__context__, sys.exc_info()[1] is e
        y = y * 3
        return y - 1, seen

    f = compile(root)
    return f(X), f(X), sys.exc_info()


# expect: graphs=2 breaks=1
def case_gb_3_a_bare_raise_after_the_break(compile):
    def root(x):
        y = x + 1
        try:
            try:
                raise ValueError("a")
            except ValueError:
                ask()
                raise
        except ValueError as e:
            seen = str(e)
        return y * 3, seen

    f = compile(root)
    return f(X), f(X)


# expect: graphs=1 breaks=1
def case_gb_3_the_exception_leaves_the_function_with_its_chain_and_lines(compile):
    def root(x):
        y = x + 1
        y = y * 2
        try:
            raise ValueError("a")
        except ValueError as e:
            ask()
            raise KeyError("b") from e
        return y

    f = compile(root)
    return outcome_of(f, X), outcome_of(f, X)


# expect: graphs=4 breaks=1
def case_gb_3_handlers_in_a_loop_with_continue_break_and_else(compile):
    def root(x, n):
        for i in range(n):
            x = x + i
            try:
                if i == 2:
                    continue
                raise KeyError(i)
            except KeyError:
                ask()
                if i == 3:
                    break
            x = x - 1
        else:
            x = x * 100
        return x * 3

    f = compile(root)
    return f(X, 6), f(X, 6)


# expect: graphs=2 breaks=1
def case_gb_3_a_return_in_a_finally(compile):
    def root(x, leave):
        y = x + 1
        try:
            raise ValueError("a")
        except ValueError:
            ask()
            if leave:
                return y * 2
        finally:
            y = y + 1
        return y * 4

    f = compile(root)
    return f(X, 0), f(X, 0)


# expect: graphs=1 breaks=1
def case_gb_3_a_return_instead_of_the_rest(compile):
    def root(x):
        y = x + 1
        y = y * 5
        try:
            raise ValueError("a")
        except ValueError:
            ask()
            return y * 2
        return y * 4

    f = compile(root)
    return f(X), f(X)


class Swallows:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")

    def __exit__(self, kind, value, trace):
        ask()
        self.log.append((kind and kind.__name__, str(value), trace is not None))
        return True


# expect: graphs=4 breaks=1
def case_gb_3_break_in_an_exit_that_handles_an_exception(compile):
    def root(x, log):
        y = x + 1
        with Swallows(log):
            raise ValueError("a")
        y = y * 3
        return y, len(log)

    log = []
    f = compile(root)
    return f(X, log), f(X, log), log


# expect: graphs=3 breaks=1
def case_gb_3_break_in_a_handler_of_an_inlined_function(compile):
    def callee(x):
        x = x + 7
        try:
            raise ValueError
        except ValueError:
            ask()
            x = x * 2
        return x + 1

    def root(x):
        x = x * 2
        y = callee(x) + 1
        return y * y

    f = compile(root)
    return f(X), f(X)


# expect: graphs=2 breaks=1
def case_gb_4_break_in_an_inlined_generator(compile):
    def numbers(x):
        for i in range(3):
            ask()
            yield x * i

    def root(x):
        x = x + 1
        total = sum(numbers(x))
        y = total * 2
        return y + x

    f = compile(root)
    return f(X), f(X)


# expect: graphs=3
def case_gb_4_a_generator_that_is_made_in_one_line_and_used_in_others(compile):
    def numbers(x, log):
        try:
            while True:
                log.append("next")
                yield x
                ask()
                x = x * 2
        finally:
            log.append("closed")

    def root(x, log):
        x = x + 1
        g = numbers(x, log)
        a = next(g)
        y = a + next(g)
        z = y * 3
        g.close()
        return z - 1

    log = []
    f = compile(root)
    return f(X, log), f(X, log), log


# expect: graphs=2 breaks=1
def case_gb_4_a_loop_over_a_generator_with_a_break(compile):
    def numbers(x):
        for i in range(5):
            ask()
            yield x * i

    def root(x):
        y = x + 1
        for v in numbers(y):
            y = y + v
            if y.sum() > 9:
                break
        return y * 2

    f = compile(root)
    return f(X), f(X)


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield len(log)
    finally:
        ask()
        log.append("out")


# expect: any
def case_gb_3_break_in_a_context_manager_that_is_a_generator(compile):
    def root(x, log):
        y = x + 1
        with managed(log) as n:
            y = y * n
        return y + 1

    log = []
    f = compile(root)
    return f(X, log), f(X, log), log


# expect: graphs=2 breaks=2
def case_gb_3_variables_that_only_one_path_binds(compile):
    def root(x, which):
        y = x + 1
        try:
            if which:
                bound = 5
            raise ValueError
        except ValueError as e:
            ask()
            if not which:
                other = 7
        y = y * 2
        return y, bound if which else other, "e" in locals()

    f = compile(root)
    return f(X, True), f(X, True)


# expect: graphs=3 breaks=2
def case_gb_3_a_variable_without_a_value_is_still_an_error(compile):
    def root(x, which):
        y = x + 1
        try:
            raise ValueError
        except ValueError as e:
            ask()
            if which:
                bound = 5
        y = y * 2
        return y + bound

    f = compile(root)
    return outcome_of(f, X, False), f(X, True)


# expect: graphs=2 breaks=1
def case_gb_3_cells_are_shared_with_the_rest(compile):
    def root(x):
        n = 1

        def add():
            nonlocal n
            n += 1
            return n

        y = x + add()
        try:
            raise ValueError
        except ValueError:
            ask()
            add()
        y = y * n
        return y + add(), n

    f = compile(root)
    return f(X), f(X)


# expect: graphs=3 breaks=1
def case_gb_3_a_tensor_error_that_a_handler_would_see(compile):
    def root(x, i):
        y = x + 1
        try:
            y = y[i]
            y = y * 2
        except IndexError:
            y = y * 3
        return y + 4

    f = compile(root)
    return f(X, G.tensor([0])), f(X, G.tensor([9])), f(X, G.tensor([1]))


# expect: graphs=3 breaks=1
def case_gb_3_an_outer_block_with_handlers_goes_on_around_the_rest(compile):
    def root(x, log):
        y = x + 1
        try:
            try:
                raise ValueError("inner")
            except ValueError:
                ask()
                log.append(1)
            y = y * 2
            log.append(len(log))
            raise KeyError("outer")
        except KeyError as e:
            log.append(str(e))
        return y

    log = []
    f = compile(root)
    return f(X, log), f(X, log), log


# expect: any
def case_bc_3_groups_of_exceptions(compile):
    def root(x, kinds):
        y = x + 1
        log = []
        try:
            raise ExceptionGroup("g", [kind(1) for kind in kinds])
        except* ValueError as e:
            log.append((str(e), [str(v) for v in e.exceptions]))
            y = y * 2
        except* (TypeError, KeyError):
            y = y * 3
        finally:
            log.append("end")
        y = y - 1
        return y * 2, log

    f = compile(root)
    return (
        f(X, (ValueError,)),
        f(X, (ValueError, KeyError)),
        f(X, (TypeError,)),
        outcome_of(f, X, (OSError, ValueError)),
    )


class Base:
    def scale(self, x):
        return x * 3


class Derived(Base):
    def scale(self, x):
        x = x + 1
        try:
            raise ValueError
        except ValueError:
            ask()
        return super().scale(x) + 1


# expect: any
def case_gb_3_super_after_a_stretch(compile):
    f = compile(lambda o, x: o.scale(x) * 2)
    return f(Derived(), X), f(Derived(), X)


# expect: graphs=2
def case_gb_4_what_the_stretch_calls_is_captured(compile):
    def callee(x):
        return (x * 2 + 1).relu()

    def root(x):
        y = x + 1
        try:
            raise ValueError
        except ValueError:
            ask()
            y = callee(y)
        return y * 3

    f = compile(root)
    return f(X), f(X)
