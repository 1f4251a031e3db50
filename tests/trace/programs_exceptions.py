# SPDX-License-Identifier: Apache-2.0
"""Programs with exceptions, `with`, generators: values, order of effects, types and texts of
exceptions as plain Python has them."""

import contextlib

import gramme as G


class Noted(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


class Late(Noted, KeyError):
    def __str__(self):
        return f"late {self.code}"


class Manager:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append((kind.__name__ if kind else None, str(value), traceback is None))
        return self.swallow


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield len(log)
    except ValueError as e:
        log.append(str(e))
    finally:
        log.append("out")


def counter(n):
    got = []
    for i in range(n):
        got.append((yield i))
    return got


# BC-3
# expect: graphs=1 breaks=0
def case_raise_and_catch(compile):
    def root(x):
        log = []
        try:
            log.append(x + 1)
            raise ValueError("a", 3)
        except (KeyError, ValueError) as e:
            log.append((e.args, str(e), repr(e), type(e), isinstance(e, Exception)))
        else:
            log.append("never")
        finally:
            log.append("finally")
        return log

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_errors_of_python_itself(compile):
    def fails(what):
        try:
            what()
        except Exception as e:
            return type(e), e.args
        return None

    def unbound():
        if not fails:
            q = 1
        return q

    def root(x):
        xs, d = [1], {"a": 1}

        def unpack():
            a, b = xs

        def unpack_more():
            a, b, *c = xs

        def unpack_less():
            (a,) = (1, 2)

        def store():
            xs[3] = 1

        return x * 2, [
            fails(f)
            for f in (
                lambda: xs[4],
                lambda: d["b"],
                lambda: (1, 2)[7],
                lambda: xs.index(9),
                lambda: xs.remove(9),
                lambda: [].pop(),
                lambda: d.pop(7),
                lambda: None.foo,
                lambda: xs.foo,
                lambda: 1 / 0,
                lambda: int("q"),
                lambda: 1 + "a",
                lambda: "a" + 1,
                lambda: missing_name,
                unpack,
                unpack_more,
                unpack_less,
                store,
                unbound,
                lambda: next(iter(())),
                lambda: max([]),
                lambda: {}.popitem(),
                lambda: "abc".index("z"),
                lambda: (3).bar,
                lambda: len(5),
                lambda: Manager.nothing,
                lambda: 1 in Manager([]),
                lambda: len(Manager([])),
                lambda: Manager([])[0],
                lambda: Manager([])(),
                lambda: list(Manager([])),
            )
        ]

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_context_and_cause(compile):
    def root(x):
        out = []
        try:
            try:
                raise KeyError("k")
            except KeyError as e:
                first = e
                raise Noted(7) from e
        except Noted as e:
            out += [e.__cause__ is first, e.__context__ is first, e.__suppress_context__, e.code]
        try:
            try:
                [][0]
            finally:
                {}["z"]
        except LookupError as e:
            out += [type(e.__context__), e.__context__.args, e.__cause__]
        try:
            try:
                raise ValueError(1)
            except ValueError as e:
                raise TypeError(2) from None
        except TypeError as e:
            out += [e.__cause__, e.__suppress_context__, e.__context__.args]
        return x + 1, out

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_reraise_through_frames(compile):
    log = []

    def inner(n):
        try:
            if n == 0:
                raise Late(n)
            return inner(n - 1)
        finally:
            log.append(n)

    def middle(n):
        try:
            return inner(n)
        except Noted as e:
            log.append(("middle", str(e), e.code))
            raise

    def root(x):
        try:
            middle(3)
        except KeyError as e:
            return x + 1, str(e), e.args
        return x

    return compile(root)(G.ones(2)), log


# expect: graphs=1 breaks=0
def case_finally_with_return_continue_break(compile):
    def leave(k, log):
        for i in range(4):
            try:
                if i == 1 and k == 0:
                    continue
                if i == 2 and k == 1:
                    break
                if i == 3:
                    return i
                log.append(i)
            finally:
                log.append(("f", i))
        else:
            return "end"
        return "broken"

    def swallow(log):
        try:
            raise ValueError
        finally:
            return "swallowed"

    def root(x):
        log = []
        return x * 2, leave(0, log), leave(1, log), swallow(log), log

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_exception_effects_stay(compile):
    class Box:
        pass

    box, seen = Box(), []

    def root(x):
        try:
            box.a = 1
            seen.append(x * 2)
            box.b = seen[7]
        except IndexError as e:
            box.error = str(e)
        return x + 1

    return compile(root)(G.ones(2)), vars(box), seen


# CELL-15
# expect: graphs=1 breaks=0
def case_cell_15_unbound_names(compile):
    def root(x):
        out = []

        def read():
            return later

        try:
            read()
        except NameError as e:
            out.append((type(e), str(e)))
        later = 1
        out.append(read())
        del later
        try:
            read()
        except NameError as e:
            out.append((type(e), str(e)))
        try:
            del e
        except UnboundLocalError as f:
            out.append(str(f))
        return x, out

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_asserts(compile):
    def root(x, n):
        assert n == 1, "one"
        assert x.shape == (2,)
        try:
            assert n > 4, f"{n} is small"
        except AssertionError as e:
            return x + 1, e.args
        return x

    return compile(root)(G.ones(2), 1)


# The exception is plain Python's
# expect: graphs=0 breaks=1
def case_uncaught_exception(compile):
    log = []

    def root(x):
        try:
            log.append(1)
            raise Noted(4)
        finally:
            log.append(2)

    try:
        compile(root)(G.ones(2))
    except Noted as e:
        return log, str(e), e.code, e.__traceback__ is None
    return "no exception"


# expect: graphs=0 breaks=1
def case_raised_exception_that_escapes(compile):
    def root(x):
        try:
            raise ValueError("kept")
        except ValueError as e:
            return x, e

    x, e = compile(root)(G.ones(2))
    return e, e.__traceback__ is None


# expect: graphs=1 breaks=0
def case_new_exception_that_escapes(compile):
    def root(x):
        e = Noted(3)
        e.extra = x + 1
        return e, ValueError("a", 1)

    e, v = compile(root)(G.ones(2))
    return e.args, e.code, e.extra, v.args, e.__traceback__ is None


# expect: any
def case_stop_iteration_that_escapes_has_its_value(compile):
    def root(held):
        e = StopIteration(3)
        held.append(StopIteration())
        return e

    f = compile(root)
    held = []
    return f(held).value, held[0].value, f(held).args


# What the graph would raise when it runs must reach the handler
# expect: graphs=0 breaks=1
def case_index_in_try(compile):
    def root(x, i):
        try:
            return x.index_select(0, i)
        except IndexError:
            return x + 1

    f = compile(root)
    return f(G.ones(2), G.tensor([1])), f(G.ones(2), G.tensor([5]))


# expect: graphs=1 breaks=0
def case_with_user_managers(compile):
    def root(x):
        log = []
        with Manager(log) as m, Manager(log, True):
            log.append(m.swallow)
            raise KeyError("k")
        try:
            with Manager(log):
                x = x + 1
                [][1]
        except IndexError as e:
            log.append(str(e))
        for i in range(2):
            with Manager(log):
                if i:
                    break
                continue
        return x, log

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_contextmanager(compile):
    def root(x):
        log = []
        with managed(log) as n:
            log.append(n)
        with managed(log):
            raise ValueError("inside")
        try:
            with managed(log):
                raise KeyError("other")
        except KeyError as e:
            log.append(e.args)
        with contextlib.suppress(ZeroDivisionError):
            1 // 0
        with contextlib.nullcontext(5) as five:
            log.append(five)
        return x * 2, log

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_no_grad_in_try(compile):
    def root(x):
        try:
            with G.no_grad():
                y = x * 2
                raise ValueError
        except ValueError:
            z = x * 3
        return y, z

    return compile(root)(G.ones(2).requires_grad_())


# expect: graphs=1 breaks=0
def case_generators(compile):
    def both(log):
        got = yield from counter(2)
        log.append(got)
        yield "last"

    def root(x):
        log = []
        g = counter(3)
        first = (next(g), g.send("a"), list(g))
        return (
            x + 1,
            first,
            list(both(log)),
            log,
            [*counter(2)],
            sum(i * i for i in range(4)),
            dict((k, k * x) for k in range(2)),
            tuple(zip(counter(2), "ab")),
        )

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_generator_interleaving(compile):
    def worker(name, log):
        for i in range(2):
            log.append((name, i))
            yield name + str(i)

    def root(x):
        log = []
        a, b = worker("a", log), worker("b", log)
        out = [next(a), next(b), next(a), next(b), next(a, "end"), next(b, "end")]
        return x, out, log, [v for v in map(lambda p, q: p + q, worker("c", log), worker("d", log))]

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_generator_throw_and_close(compile):
    def careful(log):
        while True:
            try:
                log.append((yield len(log)))
            except ValueError as e:
                log.append(str(e))
            except GeneratorExit:
                log.append("closed")
                raise
            finally:
                log.append("f")

    def outer(log):
        try:
            yield from careful(log)
        except KeyError as e:
            yield ("outer", e.args)

    def root(x):
        log = []
        g = outer(log)
        out = [next(g), g.send(1), g.throw(ValueError("v")), g.throw(KeyError("k"))]
        g.close()
        h = careful(log)
        next(h)
        h.close()
        h.close()
        try:
            next(h)
        except StopIteration as e:
            out.append(e.value)
        try:
            i = counter(1)
            next(i)
            i.send(5)
        except StopIteration as e:
            out.append(e.value)
        return x * 2, out, log

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_generator_errors(compile):
    def bad():
        yield 1
        raise StopIteration

    def again():
        yield next(me)

    me = None

    def root(x):
        nonlocal me
        out = []
        try:
            list(bad())
        except RuntimeError as e:
            out += [str(e), type(e.__cause__)]
        me = again()
        try:
            next(me)
        except ValueError as e:
            out.append(str(e))
        me = None
        try:
            counter(1).send(3)
        except TypeError as e:
            out.append(str(e))
        return x, out

    return compile(root)(G.ones(2))


# Python would close it where it is dropped, and run the finally
# expect: graphs=1 breaks=1
def case_generator_left_in_a_block(compile):
    log = []

    def guarded():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def root(x):
        for v in guarded():
            break
        log.append("after")
        return x + v

    return compile(root)(G.ones(2)), log


# expect: graphs=0 breaks=1
def case_generator_that_escapes(compile):
    def root(x):
        return (x * i for i in range(3))

    return list(compile(root)(G.ones(2)))


# expect: graphs=1 breaks=0
def case_handled_exception_across_yield(compile):
    def g():
        try:
            yield 1
        except KeyError:
            yield 2
            raise

    def root(x):
        it = g()
        out = [next(it), it.throw(KeyError("k"))]
        try:
            raise ValueError("outer")
        except ValueError:
            try:
                next(it)
            except KeyError as e:
                out.append(e.args)
        return x, out

    return compile(root)(G.ones(2))


# expect: graphs=0 breaks=2
def case_exception_groups_break(compile):
    def root(x):
        try:
            raise ExceptionGroup("g", [ValueError(1)])
        except* ValueError as e:
            return_value = len(e.exceptions)
        return x, return_value

    return compile(root)(G.ones(2))


# What was handled before is handled again when an inner handler ends
# expect: graphs=1 breaks=0
def case_handled_is_restored(compile):
    def root(x):
        out = []
        try:
            try:
                raise KeyError("outer")
            except KeyError:
                try:
                    raise ValueError("inner")
                except ValueError:
                    out.append("handled")
                raise
        except LookupError as e:
            out.append(repr(e))
        return x + 1, out

    return compile(root)(G.ones(2))


# Nobody here knows what a caller of the compiled function handles
# expect: graphs=0 breaks=1
def case_no_context(compile):
    def root(x):
        try:
            raise KeyError("first")
        except KeyError:
            pass
        try:
            raise ValueError("second")
        except ValueError as e:
            return x + 1, e.__context__

    return compile(root)(G.ones(2))
