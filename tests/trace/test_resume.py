# SPDX-License-Identifier: Apache-2.0
"""What a graph break leaves to see: tracebacks, recursion depth, references, reports."""

import collections
import functools
import gc
import os
import sys
import threading
import tracemalloc
import traceback
import types
import warnings
import weakref

import pytest

import gramme as G
from gramme import _core
from stress import FORCED, undisturbed


def compiled(fn, **options):
    return G.compile(fn, backend="eager", **options)


def fresh(fn):
    """The function with a code object of its own, hence with a cache of its own."""
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def frames_of(call, *args):
    """Name, line and text of the user's frames in the traceback of what `call` raises."""
    try:
        call(*args)
    except Exception as error:
        return [(f.name, f.lineno, f.line) for f in traceback.extract_tb(error.__traceback__)][1:]
    raise AssertionError("nothing was raised")


def tell():
    print("", end="")


def fails_behind(x):
    y = x + 1
    tell()
    z = y * 2
    return z.nothing_of_the_kind


def inner_fails(x, n):
    y = x * n
    tell()
    if n:
        raise KeyError(n)
    return y


def fails_inside(x):
    y = inner_fails(x + 1, 3)
    return y * 2


def fails_in_the_step(x):
    y = x + 1
    return [y, int("no number"), y]


def fails_in_a_loop(x):
    for n in [3, 2, 1, 0]:
        x = x + n
        tell()
        x = x / (6 // n)
    return x


@pytest.mark.parametrize("fn", [fails_behind, fails_inside, fails_in_the_step, fails_in_a_loop])
def test_tracebacks_show_the_users_lines(fn):  # GB-7
    c = compiled(fresh(fn))
    plain = frames_of(fn, G.ones(2))
    assert plain[0][0] == fn.__name__
    for _ in range(3):
        assert frames_of(c, G.ones(2)) == plain


@pytest.mark.skipif(sys.version_info < (3, 11), reason="columns")
def test_carets_are_the_users():  # GB-7
    def carets(call):
        try:
            call(G.ones(2))
        except Exception as error:
            return [line for line in traceback.format_exception(error) if "File" in line][-1].split(
                ", in ", 1
            )[1]

    assert carets(compiled(fresh(fails_behind))) == carets(fails_behind)
    assert carets(compiled(fresh(fails_in_the_step))) == carets(fails_in_the_step)


def test_exception_with_cause_and_context():
    def root(x):
        y = x + 1
        tell()
        try:
            y.no_such_attribute
        except AttributeError as error:
            raise ValueError("second") from error
        return y

    with pytest.raises(ValueError, match="second") as caught:
        compiled(root)(G.ones(2))
    assert isinstance(caught.value.__cause__, AttributeError)


def test_recursion_900_deep_through_a_break():  # cpython-frames section 11
    def down(x, n):
        x = x + 1
        tell()
        if n == 0:
            return x
        return f(x, n - 1) * 1

    def run():
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(2200)
        try:
            results.append(f(G.zeros(2), 900))
        finally:
            sys.setrecursionlimit(limit)

    f = compiled(down)
    results = []
    run()
    assert results[0].tolist() == [901.0, 901.0]


def test_a_loop_that_breaks_in_each_round_does_not_pile_up():
    depths = []

    def depth():
        n, frame = 0, sys._getframe()
        while frame:
            n, frame = n + 1, frame.f_back
        depths.append(n)

    def root(x):
        for _ in range(3000):
            x = x + 1
            depth()
        return x

    assert compiled(root)(G.zeros(2)).tolist() == [3000.0, 3000.0]
    assert max(depths) - min(depths) <= 2


def test_frames_seen_from_a_break_are_the_users():
    seen = []

    def look():
        frame = sys._getframe(1)
        seen.append(
            [
                (
                    frame.f_code.co_name,
                    frame.f_lineno,
                    frame.f_locals.get("y"),
                    frame.f_back.f_code.co_name,
                )
            ]
        )

    def helper(x):
        y = 5
        look()
        return x + y

    def root(x):
        z = helper(x * 2)
        return z

    root(G.ones(2))
    compiled(root)(G.ones(2))
    assert [row[0][:2] + row[0][3:] for row in seen[1:]] == [
        row[0][:2] + row[0][3:] for row in seen[:1]
    ]


def test_memory_and_references_stay_flat():
    kept = [1]

    def root(x, xs):
        n = len(xs)

        def get():
            return n

        y = x + n
        tell()
        for v in xs:
            y = y + get()
            tell()
        return [y, xs]

    f = compiled(root)
    x = G.ones(2)

    def rounds(n):
        for _ in range(n):
            f(x, kept)

    rounds(50)
    gc.collect()
    before, counts = len(gc.get_objects()), (
        sys.getrefcount(x),
        sys.getrefcount(kept),
        sys.getrefcount(root),
        sys.getrefcount(None),
    )
    blocks = sys.getallocatedblocks()
    rounds(1000)
    gc.collect()
    assert len(gc.get_objects()) <= before + 5
    assert sys.getallocatedblocks() <= blocks + 50
    after = (
        sys.getrefcount(x),
        sys.getrefcount(kept),
        sys.getrefcount(root),
        sys.getrefcount(None),
    )
    assert all(b <= a + 50 for a, b in zip(counts, after)), (counts, after)


def test_references_stay_flat_when_the_rest_raises():
    f = compiled(fresh(fails_in_a_loop))
    x = G.ones(2)

    def rounds(n):
        for _ in range(n):
            try:
                f(x)
            except ZeroDivisionError:
                pass

    rounds(20)
    gc.collect()
    blocks, count = sys.getallocatedblocks(), sys.getrefcount(x)
    rounds(1000)
    gc.collect()
    assert sys.getallocatedblocks() <= blocks + 50 and sys.getrefcount(x) <= count + 1


def test_resume_functions_die_with_their_function():
    space = {}
    exec(
        "def root(x):\n    for _ in range(3):\n        x = x + 1\n        tell()\n    return x\n",
        space,
    )
    codes = []

    def spy():
        codes.append(weakref.ref(sys._getframe(1).f_code))

    function = types.FunctionType(
        space["root"].__code__, {"tell": spy, "__builtins__": __builtins__}
    )
    f = compiled(function)
    f(G.ones(2))
    assert codes
    f.reset()
    del f, function, space
    gc.collect()
    assert [code for code in codes if code() is not None] == []


def test_threads_break_at_once():
    def root(x):
        for i in range(5):
            x = x + 1
            tell()
        return x

    f = compiled(root)
    results = []

    def work():
        for _ in range(50):
            results.append(f(G.zeros(2)).tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == [[5.0, 5.0]] * 200


def test_a_break_is_logged_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(fresh(fails_in_a_loop))
        f = compiled(lambda x: (x + 1, id(x) != 0))
        f(G.ones(2))
    assert len(f.status()["breaks"]) == 1 and "[CALL_ID]" in f.status()["breaks"][0]


@undisturbed
def test_status_entries_and_explain_agree():  # GB-6
    def root(x):
        y = x + 1
        tell()
        return y * 2

    f = compiled(root)
    f(G.ones(2))
    f(G.ones(2))
    status, entries = f.status(), f.entries()
    assert (status["graphs"], len(status["breaks"]), status["hits"], len(entries)) == (2, 1, 1, 2)
    report = G.compiler.explain(f)(G.ones(2))
    assert (report.graph_count, report.graph_break_count) == (2, 1)
    f.reset()
    assert f.status()["graphs"] == 0 and f.status()["breaks"] == []


def test_fullgraph_raises_at_the_users_line():
    f = compiled(fresh(fails_behind), fullgraph=True)
    with pytest.raises(
        G.compiler.Unsupported, match=r"test_resume.py:\d+:5: gramme cannot trace tell"
    ):
        f(G.ones(2))


def test_side_21_tensors_that_no_variable_holds_are_no_outputs():  # SIDE-21
    def root(x):
        dead = x * 3
        dropped = [dead * 2, 1]
        live = dead + 1
        del dead
        dropped = None
        tell()
        return live * 2

    f = compiled(root)
    f(G.ones(2))
    graphs = [entry["graph"] for entry in f.entries()]
    assert (
        sum(
            text.splitlines()[0].count("%x") + text.splitlines()[0].count("%live")
            for text in graphs
        )
        == 2
        or FORCED
    )
    assert (
        all(
            "-> (%" in text and text.splitlines()[0].split("->")[1].count("%") <= 1
            for text in graphs
        )
        or FORCED
    )


@undisturbed
def test_an_endless_number_of_constants_ends_in_plain_python():
    def root(x):
        for i in range(50):
            x = x + i
            tell()
        return x

    f = compiled(root)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert f(G.zeros(2)).tolist() == [1225.0, 1225.0]
    assert f.status()["graphs"] < 20


# -- Iterators that are made again -----------------------------------------------------------------


class Counting:
    """An iterator that knows how often it was asked for one."""

    def __init__(self, n):
        self.n, self.log = n, []

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        self.log.append("next")
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Bare:
    """An iterator over which nothing can iterate."""

    def __init__(self):
        self.n = 3

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n


class GivesBare:
    def __iter__(self):
        return Bare()


@pytest.mark.parametrize(
    "over",
    [
        lambda a: zip(a, [1, 2, 3, 4]),
        lambda a: zip([1, 2], a, a),
        lambda a: enumerate(a, 5),
        lambda a: map(lambda v, w: v - w, a, [7, 8, 9]),
        lambda a: filter(None, a),
    ],
)
@pytest.mark.parametrize("make", [lambda: Counting(5), GivesBare])
def test_the_operands_of_an_iterator_that_is_made_again_are_not_asked_for_one(over, make):
    def f(x):
        a, seen = make(), []
        it = over(a)
        seen.append(next(it))
        G._dynamo.graph_break()
        for item in it:
            seen.append(item)
        return x + len(seen), seen, getattr(a, "log", None)

    want = f(G.ones(1))
    G.compiler.reset()
    assert compiled(f)(G.ones(1))[1:] == want[1:]


@pytest.mark.parametrize("n", [6, 20])
@pytest.mark.parametrize("grows", [False, True])
def test_an_iterator_of_a_list_that_has_become_shorter(n, grows):
    def f(x):
        items = list(range(n))
        forward, backward, both = iter(items), reversed(items), []
        for _ in range(n - 1):
            next(forward)
        next(backward)
        for _ in range(3):
            items.pop()
        G._dynamo.graph_break()
        if grows:
            items.extend([7] * 5)
        for it in (forward, backward):
            both.append(next(it, "end"))
        return x + 1, both, list(forward), list(backward)

    G.compiler.reset()
    want = f(G.ones(1))
    assert compiled(f)(G.ones(1))[1:] == want[1:]


# -- Functions that Python calls behind a break ----------------------------------------------------


def captured():
    return {
        name: status["graphs"]
        for name, status, entries in _core.live_functions()
        if status["graphs"]
    }


def through_cache(inner):
    """lru_cache is C code that calls back; with a tensor that is made here as key it has no
    model."""
    cached = functools.lru_cache(1)(lambda x: inner(x))

    def f(x):
        return cached(x + 0)

    return f


@undisturbed
def test_functions_called_from_c_are_captured():
    def inner(x):
        return x * 2 + 1

    f = compiled(through_cache(inner))
    before = _core.hook_state()[1]
    assert f(G.ones(2)).tolist() == through_cache(inner)(G.ones(2)).tolist()
    assert _core.hook_state() == (0, before + 1)
    assert any("through_cache" in name and "lambda" in name for name in captured())


def test_functions_behind_a_plain_function_are_captured():
    def inner(x):
        return x * 2 + 1

    def root(x):
        def lazily():
            yield inner(x)

        async def never():
            return None

        return [inner(x) for x in lazily()][0]

    def generator_root(x):
        yield inner(x)

    f = compiled(root)
    assert f(G.ones(2)).tolist() == root(G.ones(2)).tolist()
    assert _core.hook_state()[0] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [y.tolist() for y in compiled(generator_root)(G.ones(2))] == [[3.0, 3.0]]
    assert _core.hook_state()[0] == 0


def test_the_hook_is_gone_after_an_exception():
    def inner(x):
        raise ValueError("inside")

    f = compiled(through_cache(inner))
    for _ in range(3):
        with pytest.raises(ValueError, match="inside"):
            f(G.ones(2))
        assert _core.hook_state()[0] == 0


def test_captured_functions_show_their_lines_and_arguments():
    def inner(x, *rest, k=2, **named):
        y = x * k
        tell()
        if len(rest) > 1:
            raise KeyError(sorted(named))
        return y

    def root(x):
        apply = functools.partial(inner, x)
        return list(map(lambda n: apply(*range(n), k=n, z=1), [0, 1, 2]))

    def place(call):
        try:
            call(G.ones(2))
        except KeyError as error:
            return [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)][1:], str(
                error
            )

    c = compiled(root)
    for _ in range(2):
        assert place(c) == place(root)


def test_recursion_through_the_hook():
    def down(x, n):
        return x if n == 0 else functools.reduce(lambda a, b: down(a + b, n - 1), [x, x * 0 + 1])

    f = compiled(down)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert f(G.zeros(2), 200).tolist() == [200.0, 200.0]
    assert _core.hook_state()[0] == 0


def test_tracing_tools_see_every_call():
    def inner(x):
        return x * 2

    f = compiled(through_cache(inner))
    seen = []
    sys.setprofile(
        lambda frame, event, arg: seen.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        f(G.ones(2))
    finally:
        sys.setprofile(None)
    assert seen.count("inner") == 1


def test_library_code_is_left_alone():
    import collections

    def root(x):
        return [
            v
            for _, v in sorted(collections.Counter("abca").items(), key=lambda p: (p[1], tell())[0])
        ], x + 1

    compiled(root)(G.ones(2))
    assert not any("Counter" in name for name in captured())


def test_callees_in_threads():
    def inner(x):
        return x * 2 + 1

    f = compiled(through_cache(inner))
    want = through_cache(inner)(G.ones(2)).tolist()
    results = []

    def work():
        for _ in range(40):
            results.append(f(G.ones(2)).tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == [want] * 160 and _core.hook_state()[0] == 0


def length_of_caller():
    return len(sys._getframe(1).f_code.co_code)


@undisturbed
def test_function_that_executes_one_step_holds_no_copy_of_the_rest():
    """Else straight code with n breaks takes n times its length."""
    longest = []
    for n in (4, 64):
        body = "    x = x + 1\n    seen.append(length_of_caller())\n"
        space = {"length_of_caller": length_of_caller}
        exec("def f(x, seen):\n" + body * n + "    return x\n", space)
        seen = []
        assert float(compiled(space["f"])(G.zeros(1), seen)) == n and len(seen) == n
        longest.append(max(seen))
    assert longest[0] == longest[1]


@undisturbed
def test_memory_for_each_break_does_not_depend_on_what_comes_after_it():
    """What is recorded behind a break are the function's own instructions, not a copy of them."""
    bytes_each = []
    for n in (50, 400):
        space = {"G": G}
        exec(
            "def f(x):\n" + "    x = x + 1\n    G._dynamo.graph_break()\n" * n + "    return x\n",
            space,
        )
        f, x = compiled(space["f"]), G.zeros(1)
        tracemalloc.start()
        assert float(f(x)) == n and float(f(x)) == n
        bytes_each.append(tracemalloc.get_traced_memory()[0] / n)
        tracemalloc.stop()
    assert bytes_each[1] < 1.2 * bytes_each[0]


def test_rest_keeps_the_loops_and_handlers_that_lie_before_it():
    def f(x, seen):
        for i in range(3):
            try:
                x = x + 1
                seen.append(length_of_caller() > 0)
                if i == 1:
                    raise ValueError
                x = x * 2
            except ValueError:
                seen.append(length_of_caller() > 0)
                x = x - 5
        return x

    plain, seen = [], []
    assert float(compiled(f)(G.ones(1), seen)) == float(f(G.ones(1), plain)) and seen == plain


def _until_it_ends(n):
    yield n


def test_a_comprehensions_variable_is_unbound_where_its_end_breaks():
    """CPython 3.12 keeps the variable of a comprehension in the function; to let go of its last
    value is what cannot be traced."""
    held = [1]

    def make():
        queue = collections.deque([1, 2])

        def f():
            held[0] = _until_it_ends(2)
            a = [x for x in queue]
            queue.append(held)
            return len(a)

        return f

    plain, compiled_f = make(), compiled(make())
    with G._dynamo.capture_all():
        assert [compiled_f() for _ in range(5)] == [plain() for _ in range(5)] == [2, 3, 4, 5, 6]


def test_a_variable_whose_deletion_breaks_is_unbound_behind_it():
    def f(n):
        seen = []
        for i in range(n):
            try:
                seen.append(v)
            except UnboundLocalError:
                seen.append("unbound")
            v = _until_it_ends(i)
            next(v)
            del v
        return seen

    compiled_f = compiled(f)
    with G._dynamo.capture_all():
        for _ in range(3):
            assert compiled_f(3) == f(3) == ["unbound"] * 3


class Mark:
    """Something whose end a program can see."""


def held_by_a_cell(seen, breaks_in_callee):
    kept = Mark()

    def use():
        return kept

    seen.append(weakref.ref(kept))
    if breaks_in_callee:
        tell_of(use)
    else:
        tell()
    return use() is kept


def tell_of(use):
    mine = use()

    def again():
        return mine

    tell()
    return again()


def looks_behind_what_holds(n, breaks_in_callee):
    seen, dead = [], []
    for i in range(n):
        held_by_a_cell(seen, breaks_in_callee)
        dead.append([ref() is None for ref in seen])
        tell()
    return dead


def calls_what_holds(x, n, breaks_in_callee):
    return x + 1, looks_behind_what_holds(n, breaks_in_callee)


@pytest.mark.parametrize("breaks_in_callee", (False, True))
def test_what_a_cell_holds_dies_when_its_function_has_returned(breaks_in_callee):
    """Its caller's caller has a frame, too, which goes on later, from values that were saved
    together with its own."""
    f = compiled(fresh(calls_what_holds))
    want = calls_what_holds(G.ones(2), 3, breaks_in_callee)[1]
    assert want == [[True], [True, True], [True, True, True]]
    for _ in range(2):
        assert f(G.ones(2), 3, breaks_in_callee)[1] == want
