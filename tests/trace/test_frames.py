# SPDX-License-Identifier: Apache-2.0
"""A function that is taken up in its middle has the variables of plain Python wherever a program
looks at its frame: tracebacks, debuggers, helpers that look up their caller's names, dicts of
variables."""

import bdb
import contextlib
import inspect
import io
import pdb
import re
import sys
import threading
import traceback
import warnings

import pytest

import gramme as G

kept = []


@G.compiler.disable
def stop():
    pass


def evaluate(text, depth=1):
    """As libraries evaluate an expression over their caller's variables."""
    frame = sys._getframe(depth)
    return eval(text, frame.f_globals, frame.f_locals)


def caller():
    return inspect.currentframe().f_back


def variables(frame):
    """Names and texts, without addresses; since 3.12 the variables of comprehensions are among
    them."""
    texts = (
        (name, re.sub("0x[0-9a-f]+", "0x", str(value)))
        for name, value in frame.f_locals.items()
        if not inspect.isframe(value)
    )
    return sorted(texts)


def of_traceback(error):
    """The user's frames of an exception: name, line, columns, variables."""
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name not in (
            "shown",
            "of_a_kept_error",
        ):
            found.append((frame.f_code.co_name, line, variables(frame)))
    return found


# -- Looks at a frame


def own_frame(x):
    y = x * 2
    s = sys._getframe().f_locals["y"]
    return s is y


def own_names_after_a_break(x):
    y = x * 2
    stop()
    z = y + 1
    return sorted(sys._getframe().f_locals)


def names_of_a_helper(x, k=2):
    a = k + 1
    b = a * 2
    y = x * 3
    z = evaluate("a + b")
    return (y + z).tolist()


def dead_tensors_of_another_part(x, k=2):
    a = k + 1
    b = a * 2
    d = x * 5
    stop()
    y = x * 3
    z = evaluate("d.sum().item() + a + b")
    return (y + z).tolist()


def inner_names(x):
    q = x * 7
    return dead_tensors_of_another_part(x)


def looks_two_up(x):
    w = x + 1
    return evaluate("q.tolist()", 2)


def names_of_two_up(x):
    q = x * 7
    v = looks_two_up(x)
    return v


def a_frame_that_is_kept(x):
    y = x * 2
    stop()
    d = y + 3
    frame = caller()
    z = d * 2
    w = z + 1
    return variables(frame), frame.f_lineno, w.tolist(), frame is sys._getframe()


def a_frame_that_outlives_the_call(x):
    y = x * 2
    kept.append(caller())
    z = y + 1
    return z.tolist()


def the_stack(x):
    y = x * 2
    stack = inspect.stack()
    z = y + 1
    return [s.function for s in stack[:2]], sorted(stack[0].frame.f_locals), z.tolist()


def two_of_the_stack():
    here = 3
    return [(s.function, s.lineno, variables(s.frame)) for s in inspect.stack()[:2]]


def the_stack_of_a_helper(x):
    y = x * 2
    seen = two_of_the_stack()
    z = y + 1
    return seen, z.tolist()


def columns():
    return tuple(inspect.getframeinfo(sys._getframe(1)).positions), tuple(
        inspect.stack()[0].positions
    )


def the_columns_of_a_call(x):
    y = x * 2
    seen = [1, columns(), columns()]
    return seen, (y + 1).tolist()


def in_a_loop(x):
    out = []
    for i in range(3):
        y = x * i
        out.append(evaluate("(i, y.sum().item(), len(out), 't' in locals())"))
        t = y + 1
    return out


def of_a_cell(x):
    y = x * 2
    c = x + 1

    def inner():
        return c

    stop()
    return evaluate("(y + c).tolist()")


def in_a_comprehension(x):
    y = x * 2
    return [evaluate("q") for q in range(2)], y.tolist()


def rebound(x):
    y = x * 2
    y = 5
    x = x + 1
    return evaluate("(y, x.tolist())")


def deleted(x):
    y = x * 2
    del y
    z = x + 1
    return sorted(sys._getframe().f_locals), z.tolist()


def in_a_with_block(x):
    y = x + 1
    with G.no_grad():
        z = y * 2
        return evaluate("(y.tolist(), z.tolist())")


def in_a_handler(x):
    y = x * 2
    try:
        z = y + 1
        stop()
        raise ValueError(3)
    except ValueError as e:
        seen = of_traceback(e)
    w = y + 3
    return seen, w.tolist()


def of_an_error_that_is_kept(x):
    y = x * 2
    try:
        z = y + 1
        raise ValueError(3)
    except ValueError as e:
        kept.append(e)
    w = y + 3
    return w.tolist(), of_traceback(kept.pop())


def text_of_an_error_that_is_kept(x):
    y = x * 2
    try:
        z = y + [1].index(2)
    except ValueError as e:
        kept.append(e)
    w = y + 3
    return (
        w.tolist(),
        "".join(traceback.format_exception(kept.pop())).split("most recent call last")[1],
    )


# -- Names that are no variables


def put_into_locals(x):
    y = x + 1
    locals()["extra"] = 5
    return sorted(vars())


def one_dict_of_variables(x):
    y = x + 1
    d = locals()
    stop()
    z = 3
    e = locals()
    return d is e, sorted(d)


def bound_by_exec(x):
    y = x + 1
    exec("extra = 3")
    stop()
    return sorted(locals()), y.tolist()


def bound_by_exec_and_evaluated(x):
    y = x + 1
    exec("extra = 3")
    try:
        return eval("extra + 1"), y.tolist()
    except NameError:  # since 3.13 exec has a dict of its own
        return "no name"


# -- Exceptions that leave the function


def raised(x):
    y = x * 2
    k = 7
    raise ValueError(k)


def raises_inside(x):
    k = x * 2
    raise KeyError(1)


def raised_in_a_callee(x):
    j = x + 1
    return raises_inside(j)


def raises_behind_a_break(x):
    k = x * 2
    stop()
    u = 3
    raise KeyError(1)


def raised_in_a_callee_behind_breaks(x):
    j = x + 1
    stop()
    m = j * 2
    return raises_behind_a_break(j)


def shapes_that_do_not_fit(x):
    w = G.ones(3, 4)
    h = x.relu()
    return h @ w


def a_name_that_is_nowhere(x):
    y = x + 1
    z = y * 2
    return z + nowhere


def a_key_that_is_missing(x):
    y = x + 1
    d = {}
    z = y * 2
    return z + d["a"]


def an_assertion(x):
    y = x + 1
    z = y * 2
    stop()
    assert x is None


LOOKS = [
    own_frame,
    own_names_after_a_break,
    names_of_a_helper,
    dead_tensors_of_another_part,
    inner_names,
    names_of_two_up,
    a_frame_that_is_kept,
    the_stack,
    the_stack_of_a_helper,
    the_columns_of_a_call,
    in_a_loop,
    of_a_cell,
    in_a_comprehension,
    rebound,
    deleted,
    in_a_with_block,
    in_a_handler,
    of_an_error_that_is_kept,
    text_of_an_error_that_is_kept,
    put_into_locals,
    one_dict_of_variables,
    bound_by_exec,
    bound_by_exec_and_evaluated,
]
RAISES = [
    raised,
    raised_in_a_callee,
    raised_in_a_callee_behind_breaks,
    shapes_that_do_not_fit,
    a_name_that_is_nowhere,
    a_key_that_is_missing,
    an_assertion,
]


def shown(fn):
    try:
        return fn(G.ones(1))
    except Exception as e:
        return type(e).__name__, str(e), of_traceback(e)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("fn", LOOKS + RAISES, ids=lambda fn: fn.__name__)
def test_the_variables_of_a_frame_are_those_of_plain_python(fn, backend):
    want = shown(fn)
    compiled = G.compile(fn, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [shown(compiled), shown(compiled)] == [want, want]


def test_a_frame_that_outlives_its_call_holds_what_the_variables_were_at_its_end():
    compiled = G.compile(a_frame_that_outlives_the_call, backend="eager")
    for fn in (a_frame_that_outlives_the_call, compiled, compiled):
        assert fn(G.ones(1)) == [3.0]
        frame = kept.pop()
        assert variables(frame) == [
            ("x", "tensor([1.])"),
            ("y", "tensor([2.])"),
            ("z", "tensor([3.])"),
        ]
        frame.clear()
        assert variables(frame) == []


def with_arguments_of_all_kinds(x, k=2, *more, last=3, **named):
    y = x * k
    stop()
    z = y + 1
    raise KeyError(1)


def test_a_frame_shows_the_arguments_of_the_original():
    def arguments(fn):
        with pytest.raises(KeyError) as caught:
            fn(G.ones(1), 2, 5, last=4, other=6)
        tb = caught.value.__traceback__
        while tb.tb_next:
            tb = tb.tb_next
        code = tb.tb_frame.f_code
        return (
            str(inspect.getargvalues(tb.tb_frame)),
            inspect.formatargvalues(*inspect.getargvalues(tb.tb_frame)),
            code.co_argcount,
            code.co_kwonlyargcount,
        )

    def plainly(text):
        return sorted(text[0].replace(")", ",").split(",")), text[1:]

    compiled = G.compile(with_arguments_of_all_kinds, backend="eager")
    want = arguments(with_arguments_of_all_kinds)
    assert [plainly(arguments(compiled)), plainly(arguments(compiled))] == [
        plainly(want),
        plainly(want),
    ]


def test_a_tensor_with_a_history_is_kept_where_the_step_raises_or_looks():
    def root(x):
        y = x * 2
        z = y + 1
        return evaluate("y.requires_grad"), z

    compiled = G.compile(root, backend="eager")
    x = G.ones(1, requires_grad=True)
    for _ in range(2):
        seen, z = compiled(x)
        z.backward()
        assert seen is True and x.grad.tolist() == [2.0]
        x.grad = None


def test_a_debugger_after_the_failure_finds_each_variable():
    compiled = G.compile(raised_in_a_callee_behind_breaks, backend="eager")
    out = io.StringIO()
    with pytest.raises(KeyError) as caught:
        compiled(G.ones(1))
    debugger = pdb.Pdb(
        stdin=io.StringIO("p k, u\nup\np j, m, x\nq\n"), stdout=out, nosigint=True, readrc=False
    )
    debugger.reset()
    debugger.interaction(None, caught.value.__traceback__)
    assert (
        "(tensor([4.]), 3)" in out.getvalue()
        and "(tensor([2.]), tensor([4.]), tensor([1.]))" in out.getvalue()
    )
