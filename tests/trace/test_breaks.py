# SPDX-License-Identifier: Apache-2.0
"""Each reason of core/breaks.def that a program can meet: its id, the user's line with carets, and
a hint."""

import collections.abc
import functools
import logging
import os
import random
import re
import struct
import sys
import types
import warnings
import weakref

import pytest

import gramme as G
from gramme._dynamo.utils import counters
from gramme.utils.checkpoint import checkpoint

X = G.arange(6, dtype=G.float32).reshape(2, 3)
W = G.ones(3, requires_grad=True)
STRESSED = "rollback" in os.environ.get("GM_STRESS", "")
HERE = os.path.dirname(os.path.abspath(__file__))


class Plain:
    pass


class Hooked:
    def __init__(self):
        self.a = 1

    __getattribute__ = functools.partialmethod(object.__getattribute__)


class Called:
    def __del__(self):
        pass


@functools.lru_cache
def remembers(x):
    return x


def with_no_manager(x):
    with Plain():
        return x


def index_in_a_try(x, i):
    try:
        with G.no_grad():
            return x[i]
    except IndexError:
        return x


def generator(x):
    yield x


def endless(x):
    return endless(x + 1)


def spin(x):
    n = 0
    while n < 10_000_000:
        n += 1
    return x


def many_nodes(x):
    for _ in range(200_000):
        x = x + 1
    return x


def store_in_an_object(x):
    Plain()[0] = x
    return x


def import_something(x):
    import wave

    return x


@G.compiler.disable
def disabled(x):
    return x


class MakesClasses(type):
    def __new__(meta, name, bases, members):
        return super().__new__(meta, name, bases, members)


def class_inside(x):
    class Inner(metaclass=MakesClasses):
        pass

    return x


def copies(x):
    t = ()
    for i in range(10000):
        t += (i,)
    return x + len(t)


class EqualByCode:
    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return 1


ODD_NAMES = Plain()
ODD_NAMES.v = 1
vars(ODD_NAMES)[EqualByCode()] = 2

OWNER = Plain()
OWNER.v = 1


def own_dict(o, d, x):
    o.v = 2
    return x + d["v"]


SEEN = {}


def checkpoints_what_writes(x):
    def body(x):
        SEEN["x"] = 1
        return x * 2

    return checkpoint(body, x)


class Keeps(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, ctx

    @staticmethod
    def backward(ctx, grad, none):
        return grad * 2


class GivesTooMuch(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, grad, grad


class Lookup(collections.abc.Mapping):
    def __getitem__(self, key):
        return 1

    def __iter__(self):
        return iter("a")

    def __len__(self):
        return 1


def matches_keys(x):
    match Lookup():
        case {"a": 1}:
            return x
    return x - 1


def stores_on_a_function(x):
    def inner():
        return x

    inner.__code__ = 3
    return x


class Ambiguous(type):
    def __len__(cls):
        return 0


class OfNoTruth(metaclass=Ambiguous):
    pass


ERROR = ValueError("made before")


def raises_what_was_made_before(x):
    raise ERROR


class Globals(dict):
    pass


foreign = types.FunctionType(index_in_a_try.__code__, Globals(G=G), "foreign")


@G._dynamo.forbid_in_graph
def forbidden(x):
    return x


class Sub(G.Tensor):
    pass


@G.compiler.allow_in_graph
def kept_whole(x):
    return {"a": x + 1}


def write_to_a_part(x, w):
    x[0] = w[0]
    return x


LEVEL = [1]


@G.compiler.assume_constant_result
def changes_what_was_read():
    LEVEL[0] += 1
    return 5


def fails_at_birth(x):
    return x * LEVEL[0] + changes_what_was_read()


# id -> a function of X that meets it, with other arguments where X is not enough
def promised():
    """A tensor that has three rows, and is said to have no more than two."""
    x = G.ones(3)
    G._dynamo.mark_dynamic(x, 0, max=2)
    return x


LAZY = G.nn.LazyLinear(3)

PROGRAMS = {
    "DATA_DEPENDENT_SIZE": lambda x: x * 2 if (x > 2).nonzero().shape[0] > 3 else x,
    "DATA_DEPENDENT_BRANCH": lambda x: x if x.sum() > 0 else -x,
    "DATA_DEPENDENT_VALUE": lambda x: x * float(x.sum()),
    "UNKNOWN_NUMBER": lambda x: x if random.random() < 2 else -x,
    "GENERATOR": generator,
    "EXCEPTION_RAISED": lambda x: x + 1 % 0,
    "IMPORT": import_something,
    "CALL_C": lambda x: x + struct.calcsize("i"),
    "CALL_METHOD": lambda x: x.no_method() if x is None else x + "a".translate({97: x}),
    "CALL_PRINT": lambda x: print(x),
    "CALL_ID": lambda x: x + id(x),
    "RECURSION": endless,
    "LOOP_LIMIT": spin,
    "MEMORY_LIMIT": copies,
    "SIZE_PROMISE": (lambda x: x + 1, promised()),
    "CALL_SIZE": lambda x: x + sys.getsizeof([1]),
    "CELLS_SEEN": lambda x: (lambda: x).__closure__[0] and x,
    "GRAPH_LIMIT": many_nodes,
    "ATTRIBUTE_MISSING": lambda x: delattr(Plain(), "nothing"),
    "ATTRIBUTE_HOOK": (lambda x, h: x + h.a, X, Hooked()),
    "OPERATOR": lambda x: x + (Plain() + 1),
    "UNARY": lambda x: x + (-Plain()),
    "TRACER": lambda x: sys.setprofile(None) or x,
    "SUBSCRIPT": lambda x: x + [1][1.5],
    "SUBSCRIPT_STORE": store_in_an_object,
    "CONTAINS": lambda x: x in "abc",
    "LENGTH": lambda x: x + len(G.relu),
    "IDENTITY": lambda x: x + (x.sin is x.sin),
    "ATTRIBUTE": lambda x: x + generator.__closure__[0],
    "ITERATION": lambda x: [x for _ in 3],
    "TENSOR_ERROR": lambda x: x @ x,
    "DYNAMIC_SHAPE": lambda x: x[x > 2] * 2,
    "BACKWARD": (lambda w: (w * 2).sum().backward(), W),
    "TENSOR_ATTRIBUTE": lambda x: (x * 2).grad_fn,
    "TENSOR_INPLACE_GRAD": (write_to_a_part, X, W),
    "TENSOR_LEAF": lambda x: G.ones(3, requires_grad=True) * x,
    "TENSOR_ARGUMENT": lambda x: G.add(x, Plain()),
    "ASKED_FOR": lambda x: G._dynamo.graph_break() or x,
    "KEPT_WHOLE": lambda x: kept_whole(x)["a"],
    "MAKES_SUBCLASS": lambda x: x + x.as_subclass(Sub).shape[0],
    "DISABLED": lambda x: disabled(x),
    "CALL_ARGUMENTS": lambda x: (lambda a: a)(x, x),
    "CACHED_CALL": lambda x: remembers(x + 1),
    "CALL_OBJECT": (lambda x, f: f() and x, X, weakref.ref(OWNER)),
    "WITH_BLOCK": with_no_manager,
    "TRY_BLOCK": (index_in_a_try, X, G.tensor([0])),
    "CALL_CLASS": lambda x: Called(x),
    "FORBIDDEN": lambda x: forbidden(x),
    "CLASS_STATEMENT": class_inside,
    "DICT_OF_OBJECT": (own_dict, OWNER, vars(OWNER), X),
    "TENSOR_HOOK": (lambda x: (x * 2).register_hook(lambda g: g), G.ones(2, requires_grad=True)),
    "LAZY_LAYER": lambda x: LAZY(G.nn.functional.dropout(x)),
    "LEFT_TO_PYTHON": lambda x: logging.getLogger("a") or x,
    "BODY_EFFECT": (checkpoints_what_writes, W),
    "CONTEXT_ESCAPES": (lambda x: Keeps.apply(x), W),
    "HIGHER": lambda x: G.cond(x.sum() > 0, lambda: x.add_(1), lambda: x * 1),
    "CUSTOM": (lambda x: GivesTooMuch.apply(x), W),
    "UNSUPPORTED_INSN": matches_keys,
    "ATTRIBUTE_STORE": stores_on_a_function,
    "TRUTH": lambda x: x if OfNoTruth else -x,
    "SIDE_EFFECT": raises_what_was_made_before,
    "NAMES_FOREIGN": (lambda x, o: x + o.v, X, ODD_NAMES),
    "GLOBALS_FOREIGN": lambda x: foreign(x, 0),
    "VALUE_KIND": (lambda x, s: x + len(s), X, {(1, 2), len}),
    "ESCAPE": lambda x: x.sin,
    "GUARD_FAILED_AT_BIRTH": fails_at_birth,
}

# What no small program meets for certain, or what others' tests show
ELSEWHERE = {
    "COMPTIME_RAISED": "its exception is raised instead: test_comptime.py",
    "DECODE": "code objects are well-formed unless someone damages them",
    "STATE_DIFFERS": "a fault of ours, found by GM_STRESS=rollback",
    "TENSOR_LAYOUT": "tensors of Python have at most 8 dimensions",
}

if sys.version_info < (3, 13):
    PROGRAMS["CALL_LOCALS"] = lambda x: (locals(), x + len(vars()))
else:
    ELSEWHERE["CALL_LOCALS"] = "each call gives a dict of its own"


def rows():
    with open(os.path.join(HERE, "..", "..", "core", "breaks.def")) as file:
        return re.findall(r"^BREAK \((\w+),", file.read(), re.M)


def reports(program):
    f, *args = program if isinstance(program, tuple) else (program, X)
    G._dynamo.config.capture_dynamic_output_shape_ops = program is not PROGRAMS["DYNAMIC_SHAPE"]
    try:
        return report_of(f, args)
    finally:
        G._dynamo.config.capture_dynamic_output_shape_ops = True


def report_of(f, args):
    with pytest.raises(G.compiler.Unsupported) as error:
        G.compile(f, backend="eager", fullgraph=True)(*args)
    return str(error.value)


@pytest.mark.parametrize("reason", PROGRAMS)
def test_reason(reason):
    if STRESSED and reason in ("LOOP_LIMIT", "GRAPH_LIMIT", "MEMORY_LIMIT"):
        pytest.skip("a hash of the whole state after each of a million instructions takes hours")
    text = reports(PROGRAMS[reason])
    assert re.search(rf"hint: .+ \[{reason}\]", text), text
    place = re.match(r"(.*\.py):(\d+)(?::(\d+))?: gramme cannot trace \S+\(\): ", text)
    assert place and place[1] == __file__, text
    with open(__file__) as file:
        line = file.read().splitlines()[int(place[2]) - 1]
    shown, carets = text.splitlines()[1:3]
    assert (
        shown == "    " + line.strip() and set(carets) == {" ", "^"} and len(carets) <= len(shown)
    ), text
    column = int(place[3]) if place[3] else len(line) - len(line.lstrip()) + 1
    assert carets.index("^") - 4 == column - 1 - (len(line) - len(line.lstrip())), text


def test_carets_stand_below_characters_and_reach_to_the_end_of_a_long_line():
    def f(x):
        naïve = "ä"
        y = x + len(naïve) * float(
            (
                x
                + 1.0
                + 2.0
                + 3.0
                + 4.0
                + 5.0
                + 6.0
                + 7.0
                + 8.0
                + 9.0
                + 10.0
                + 11.0
                + 12.0
                + 13.0
                + 14.0
                + 15.0
            ).sum()
        )
        return y

    shown, carets = reports(f).splitlines()[1:3]
    start = shown.index("float(")
    assert carets == " " * start + "^" * (len(shown) - start)


def message_of(reason):
    """The message of a row, as a pattern."""
    with open(os.path.join(HERE, "..", "..", "core", "breaks.def")) as file:
        columns = r'"(.*?)", +"(.*?)"(?:, (?:true|\.reads_values = true))?\)'
        parts = re.search(rf"^BREAK \({reason}, +" + columns, file.read(), re.M)
    return ".*".join(map(re.escape, parts[1].split("%s"))), parts[2]


@pytest.mark.parametrize("reason", PROGRAMS)
def test_message_and_hint_are_those_of_the_table(reason):
    if STRESSED and reason in ("LOOP_LIMIT", "GRAPH_LIMIT", "MEMORY_LIMIT"):
        pytest.skip("a hash of the whole state after each of a million instructions takes hours")
    text = reports(PROGRAMS[reason])
    message, hint = message_of(reason)
    assert re.search(rf"gramme cannot trace \S+\(\): {message}", text), text
    assert f"hint: {hint} [{reason}]" in text, text


@pytest.mark.skipif(
    "break" in os.environ.get("GM_STRESS", ""),
    reason="a break before the change leaves what was read in an entry of its own",
)
def test_guards_are_checked_once_against_the_frame_that_made_them():
    G._dynamo.reset()
    f = G.compile(fails_at_birth, backend="eager")
    before = LEVEL[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = f(X)
    assert LEVEL[0] > before + 1, "run while compiling, and then by Python"
    assert (
        got.tolist() == (X * (LEVEL[0] - 1) + 5).tolist()
    ), "what plain Python gives from where compiling left it"
    assert f.entries() == [], "a set of guards that does not hold is no entry"
    assert counters["graph_break_id"]["GUARD_FAILED_AT_BIRTH"] > 0


def test_the_line_and_the_carets():
    def f(x):
        y = x + 1
        return y * float(y.sum())

    text = reports(f)
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "return y * float(y.sum())" in line)
    assert lines[0].startswith(
        f"{__file__}:{f.__code__.co_firstlineno + 2}:20: gramme cannot trace f()"
    )
    start = lines[at].index("float(y.sum())")
    assert lines[at + 1] == " " * start + "^" * len("float(y.sum())")


def test_the_calls_that_lead_there_are_named():
    def inner(x):
        return float(x.sum())

    def outer(x):
        return inner(x) + 1

    text = reports(lambda x: outer(x))
    assert "called from:" in text
    assert text.index("in <lambda>") < text.index("in outer") < text.index("in inner")


def test_the_reasons_are_those_of_the_table():
    known = set(PROGRAMS) | set(ELSEWHERE)
    assert known == set(rows()), f"no program here for {sorted(set(rows()) - known)}"


def test_breaks_are_told_once_and_listed():
    f = lambda x: x * float(x.sum())
    compiled = G.compile(f, backend="eager")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert (compiled(X) == f(X)).all()
    # one that resumes is logged and listed, and no warning
    warned = len([w for w in caught if issubclass(w.category, G.compiler.GraphBreakWarning)])
    assert warned == 0
    assert len(compiled.status()["breaks"]) == 1
