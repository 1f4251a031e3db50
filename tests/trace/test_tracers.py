# SPDX-License-Identifier: Apache-2.0
"""Tracers, profilers and debuggers see a compiled function's own code: while one is active the
original runs, and from the line on that starts one the rest of the function is one frame of
Python's."""

import cProfile
import io
import pdb
import pstats
import sys
import threading
import warnings

import pytest

import gramme as G
from stress import counted


@pytest.fixture(autouse=True)
def no_tool_stays_on():
    """Since 3.12 a thread that ends with a tracer leaves its tool on until another is set; 3.13.0's
    debugger stops a line later then."""
    yield
    for setter in (sys.settrace, sys.setprofile):
        setter(lambda *event: None)
        setter(None)


@G.compiler.disable
def stop():
    pass


def inner(x):
    w = x + 1
    return w


def root(x):
    y = x * 2
    stop()
    z = inner(y)
    return z


def run(setter, fn):
    fn(G.ones(1))


def run_in_a_thread(setter, fn):
    thread = threading.Thread(target=fn, args=(G.ones(1),))
    thread.start()
    thread.join()


SETTERS = [
    (sys.settrace, run),
    (sys.setprofile, run),
    (threading.settrace, run_in_a_thread),
    (threading.setprofile, run_in_a_thread),
]


def events(setter, how, fn):
    seen = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name in ("root", "inner", "stop") and not event.startswith("c_"):
            seen.append((frame.f_code.co_name, event, frame.f_lineno))
        return tracer

    setter(tracer)
    try:
        how(setter, fn)
    finally:
        setter(None)
    return seen


@pytest.mark.parametrize(
    "setter, how", SETTERS, ids=lambda o: getattr(o, "__module__", "") + "." + o.__name__
)
def test_a_tracer_sees_each_event_of_the_original(setter, how):
    want = events(setter, how, root)
    compiled = G.compile(root, backend="eager")
    assert want and events(setter, how, compiled) == want
    compiled(G.ones(1))
    assert events(setter, how, compiled) == want  # and of a call that would have run a graph
    before = compiled.status()["hits"]
    compiled(G.ones(1))
    assert compiled.status()["hits"] == counted(before + 1)


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring came with 3.12")
@pytest.mark.parametrize("local", [False, True])
def test_a_tool_of_monitoring_sees_each_event_of_the_original(local):
    monitoring = sys.monitoring
    wanted = monitoring.events.PY_START | monitoring.events.LINE

    def seen_of(fn):
        seen = []
        monitoring.use_tool_id(3, "test")
        monitoring.register_callback(
            3, monitoring.events.PY_START, lambda code, offset: seen.append(code.co_name)
        )
        monitoring.register_callback(
            3, monitoring.events.LINE, lambda code, line: seen.append((code.co_name, line))
        )
        if local:
            monitoring.set_local_events(3, root.__code__, wanted)
        else:
            monitoring.set_events(3, wanted)
        try:
            fn(G.ones(1))
        finally:
            monitoring.set_events(3, 0)
            monitoring.set_local_events(3, root.__code__, 0)
            monitoring.free_tool_id(3)
        return [s for s in seen if (s if isinstance(s, str) else s[0]) in ("root", "inner")]

    compiled = G.compile(root, backend="eager")
    compiled(G.ones(1))
    want = seen_of(root)
    assert want and seen_of(compiled) == want


def test_a_profile_names_the_functions():
    compiled = G.compile(root, backend="eager")
    compiled(G.ones(1))
    profile = cProfile.Profile()
    profile.runcall(compiled, G.ones(1))
    names = [key[2] for key in pstats.Stats(profile, stream=io.StringIO()).stats]
    assert names.count("root") == names.count("inner") == 1


# -- Debuggers that a line of the function starts

COMMANDS = "p x, y\np z\nn\np w\nn\nl .\np v\nc\n"
out = io.StringIO()


def debugger():
    return pdb.Pdb(stdin=io.StringIO(COMMANDS), stdout=out, nosigint=True, readrc=False)


def stops_at_a_breakpoint(x):
    y = x * 2
    z = y + 1
    breakpoint()
    w = z * 2
    v = w + 1
    return v


def stops_by_a_debugger(x):
    y = x * 2
    z = y + 1
    debugger().set_trace()
    w = z * 2
    v = w + 1
    return v


def stops_behind_a_break(x):
    y = x * 2
    stop()
    z = y + 1
    breakpoint()
    w = z * 2
    stop()
    v = w + 1
    return v


def stops_inside(x):
    z = x + 1
    y = z
    breakpoint()
    w = z * 2
    v = w
    return v


def stops_in_a_callee(x):
    y = x * 2
    q = stops_inside(y)
    return q + 1


@pytest.mark.parametrize(
    "fn",
    [stops_at_a_breakpoint, stops_by_a_debugger, stops_behind_a_break, stops_in_a_callee],
    ids=lambda fn: fn.__name__,
)
def test_a_debugger_shows_all_variables_and_steps_from_line_to_line(fn, monkeypatch):
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger().set_trace(sys._getframe(1)))

    def session(f):
        out.seek(0)
        out.truncate()
        try:
            result = f(G.ones(1)).tolist()
        finally:
            sys.settrace(None)
        return result, out.getvalue()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = session(fn)
        compiled = G.compile(fn, backend="eager")
        assert "-> w = z" in want[1] and "Return" not in want[1]
        assert [session(compiled), session(compiled)] == [want, want]


def sets_a_tracer(x, tracer):
    y = x + 1
    sys.settrace(tracer)
    z = inner(y)
    sys.settrace(None)
    return z


def test_a_tracer_that_the_function_sets_sees_what_it_calls():
    def seen_of(fn):
        seen = []

        def tracer(frame, event, arg):
            seen.append((frame.f_code.co_name, event, frame.f_lineno))

        try:
            fn(G.ones(1), tracer)
        finally:
            sys.settrace(None)
        return seen

    compiled = G.compile(sets_a_tracer, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = seen_of(sets_a_tracer)
        assert want and [seen_of(compiled), seen_of(compiled)] == [want, want]
