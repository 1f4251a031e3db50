# SPDX-License-Identifier: Apache-2.0
"""A call that fails in a compiled function leaves what it leaves in plain Python.

A table: each operation that fails for some values, with each kind of effect before and behind it.
What is compared with plain Python: the state afterwards, the exception's class and text, the
functions and lines of its traceback, and the names that the innermost of them has.  Each function
is called to fail, then to go well, then to fail again: a compilation must not differ from a call
that hits.
"""

import ctypes
import linecache
import random
import traceback
import warnings
import weakref

import pytest

import gramme as g
from stress import FORCED, undisturbed

BACKENDS = ["eager", "tcc"]

# Of x, three numbers, m, a matrix, and i, one index that is out of bounds where the call is to
# fail.
OPERATIONS = {
    "subscript": "y = x[i]",
    "subscript_of_two": "y = m[i, i]",
    "subscript_write": "x = x.clone(); x[i] = 1.0; y = x",
    "gather": "y = x.gather(0, i)",
    "scatter": "y = x.scatter(0, i, x)",
    "scatter_add": "y = x.scatter_add(0, i, x)",
    "index_select": "y = m.index_select(1, i)",
    "index_add": "y = x.index_add(0, i, x[:1])",
    "index_fill": "y = x.index_fill(0, i, 2.0)",
    "take": "y = x.take(i)",
    "take_along_dim": "y = x.take_along_dim(i, 0)",
    "embedding": "y = g.nn.functional.embedding(i, m)",
    "cross_entropy": "y = g.nn.functional.cross_entropy(m[:1], i)",
    "cholesky": "y = g.linalg.cholesky(m - 9.0 * (i > 2))",
    "inv": "y = g.linalg.inv(m * (i < 3))",
    "solve": "y = g.linalg.solve(m * (i < 3), x)",
    "cond": "y = g.cond(i.sum() > 2, lambda x, i: x[i], lambda x, i: x[i] + 1, (x, i))",
}
BREAKING = "y = g.bincount(i - 10 * (i > 2))"

# What stands before the operation with 1 in the place of $, and behind it with 2.
EFFECTS = {
    "list": "s.l.append($)",
    "dict": "s.d[$] = x",
    "attribute": "s.a = $",
    "global": "s.ns['count'] = $",
    "in_place": "s.t.add_($)",
    "in_place_view": "s.t[:1].mul_($)",
    "in_place_leaf": "with g.no_grad(): s.v.sub_($ * 0.5)",
    "grad": "s.w.grad = x.detach() * $",
    "hook": "s.w.register_hook(s.hooks[$])",
    "grad_mode": "g.set_grad_enabled($ == 2)",
    "random": "s.l.append(g.rand(2))",
    "python_random": "s.l.append(random.random() + random.gauss(0, 1))",
    "lifetime": "s.held = s.other = None",
    "closure": "s.l.append(lambda: $)",
}


class Box:
    pass


class State:
    """What functions change; text(): all of it."""

    def __init__(self):
        self.l, self.d, self.a, self.ns, self.log = [], {}, 0, {}, []
        self.t = g.ones(3)
        self.w, self.v = g.ones(3, requires_grad=True), g.ones(3, requires_grad=True)
        self.hooks = {k: (lambda grad, k=k: self.log.append(k)) for k in (1, 2)}
        self.held, self.other = Box(), None
        self.ref = weakref.ref(self.held)

    def text(self):
        on = g.is_grad_enabled()
        g.set_grad_enabled(True)
        grad = None if self.w.grad is None else self.w.grad.tolist()
        (self.w * 1).sum().backward()
        shown = [
            v.tolist() if isinstance(v, g.Tensor) else v() if callable(v) else v for v in self.l
        ]
        return (
            shown,
            {k: v.tolist() for k, v in self.d.items()},
            self.a,
            self.ns,
            self.log,
            self.t.tolist(),
            self.t._version,
            self.v.tolist(),
            self.v._version,
            grad,
            on,
            g.get_rng_state().tolist(),
            random.getstate(),
            self.ref() is None,
        )


def function_of(text, name="f", args="x, m, i, s"):
    """The function of that body, whose lines a traceback can show."""
    body = "\n".join("    " + line for line in text.strip().split("\n"))
    source = f"def {name}({args}):\n{body}\n"
    file = f"<failing {abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = {"g": g, "random": random}
    exec(compile(source, file, "exec"), names)
    return names[name]


def arguments(fails, requires_grad=False):
    x = g.tensor([1.0, 2.0, 3.0], requires_grad=requires_grad)
    return x, g.eye(3) * 4.0 + 1.0, g.tensor([9 if fails else 1])


def outcome(f, args):
    """What a call gives or raises, and what it leaves behind."""
    g.manual_seed(3)
    random.seed(5)
    state, result = State(), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message="the compiled code of")
            result = f(*args, state)
            said = ("gave", result.tolist() if isinstance(result, g.Tensor) else result)
    except Exception as error:
        frames = [
            (frame.f_code.co_name, line, None if FORCED else sorted(frame.f_locals))
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename.startswith("<failing")
        ]
        said = type(error), str(error), frames
    finally:
        left = state.text()
    return said, left


def compare(text, backend, requires_grad=False, good=True):
    f = function_of(text)
    g.compiler.reset()
    compiled = g.compile(f, backend=backend)
    for fails in (True, False, True) if good else (True, True):
        want = outcome(f, arguments(fails, requires_grad))
        assert (want[0][0] != "gave") == fails, want[0]
        have = outcome(compiled, arguments(fails, requires_grad))
        assert have == want, text


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_failing_operation_has_the_effects_before_it_and_none_behind_it(effect, backend):
    for operation in OPERATIONS.values():
        compare(
            "\n".join(
                (
                    EFFECTS[effect].replace("$", "1"),
                    operation,
                    EFFECTS[effect].replace("$", "2"),
                    "return y",
                )
            ),
            backend,
        )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_fails_does_so_without_a_reader(operation, backend):
    text = OPERATIONS[operation]
    compare(f"s.l.append(1)\n{text}\ns.l.append(2)\nreturn 0", backend)
    compare(f"{text}\nreturn x + 1", backend)
    compare(f"{text}\nz = y * 2\nreturn y.shape[0] if y.ndim else 0", backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "call, good, bad",
    [
        (lambda t: g.nn.functional.one_hot(t, 3), [0, 2], [0, 3]),
        (lambda t: g.ones(2, dtype=g.int64) // t, [1, 2], [1, 0]),
        (lambda t: g.arange(2.0).repeat_interleave(t), [1, 2], [1, -1]),
    ],
)
def test_a_condition_on_data_is_asked_without_a_reader(call, good, bad, backend):
    def f(t, log):
        log.append(1)
        call(t)
        log.append(2)
        return t + 1

    compiled = g.compile(f, backend=backend)
    for data, want in ((good, [1, 2]), (bad, [1]), (good, [1, 2])):
        for run in (f, compiled):
            log = []
            if data is bad:
                with pytest.raises(RuntimeError):
                    run(g.tensor(data), log)
            else:
                run(g.tensor(data), log)
            assert log == want


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reader_of_the_shape_alone_and_a_value_that_is_written_over_keep_the_check(backend):
    compare("return g.zeros_like(x[i])", backend)
    compare("z = x * 2\nz[i] = 1.0\nreturn x + 1", backend)
    compare("y = x[i]\nreturn y.detach() * 0 + 1", backend)
    compare("a = x[i]\nb = x[i]\nc = m[i]\nreturn 1", backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "condition",
    ["n > 0", "n >= 1", "-n < 0", "2 * n > 1", "3 * n - 1 >= 2", "n != -79", "2 * n == 2"],
)
def test_a_check_of_a_number_stands_between_the_writes_around_it(condition, backend):
    f = function_of(
        "n = (i * -10 + "
        f"11).item()\ns.l.append(1)\ns.t.add_(1)\ng._check({condition})\ns.l.append(2)\ns.t.add_(2)\nreturn "
        "s.t * n"
    )
    before = g._dynamo.config.capture_scalar_outputs
    g._dynamo.config.capture_scalar_outputs = True
    try:
        compiled = g.compile(f, backend=backend)
        for fails in (False, True, False, True):
            assert outcome(compiled, arguments(fails)) == outcome(f, arguments(fails))
    finally:
        g._dynamo.config.capture_scalar_outputs = before


def test_an_index_that_cannot_be_out_of_bounds_is_not_checked():
    seen = []

    def backend(module, inputs):
        seen.append([str(node.target) for node in module.graph.nodes if node.op == "call_function"])
        return module.forward

    g.compile(lambda x: x.sort()[1] + x.argmax(), backend=backend)(g.ones(3))
    assert seen and not any("index_select" in name or "gather" in name for name in seen[-1])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", (False, True))
def test_inlined_functions_loops_and_comprehensions_have_their_frames(requires_grad, backend):
    inner = "def inner(a, k):\n    z = a * 2\n    return z[k]\n"
    for text in (
        inner + "s.l.append(1)\nq = x + 1\nr = inner(q, i)\ns.l.append(2)\nreturn r",
        (
            "out = []\nfor k in range(3):\n    s.l.append(k)\n    out.append(x[i - 2 + k])\nreturn "
            "out[-1]"
        ),
        "with g.no_grad():\n    s.a = 1\n    y = x[i]\ns.a = 2\nreturn y",
        "x = x * 1\nx.add_(1)\ns.t.copy_(x.detach())\ny = x[i]\ns.t.zero_()\nreturn y",
        (
            "s.l.append(g.rand(1))\ng.nn.functional.dropout(x, 0.5)\ny = "
            "x[i]\ns.l.append(g.rand(1))\nreturn y"
        ),
    ):
        compare(text, backend, requires_grad)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "operation", [OPERATIONS["subscript"], OPERATIONS["inv"], OPERATIONS["embedding"], BREAKING]
)
def test_the_part_behind_a_break_begins_where_it_began(operation, backend):
    text = (
        "s.l.append(1)\ns.t.add_(1)\nk = x * "
        f"2\ng._dynamo.graph_break()\ns.l.append(2)\ns.t.add_(2)\n{operation}\ns.l.append(k)\nreturn "
        "y"
    )
    f = function_of(text)
    g.compiler.reset()
    compiled = g.compile(f, backend=backend)
    for fails in (True, False, True):
        have, want = outcome(compiled, arguments(fails)), outcome(f, arguments(fails))
        assert have[1] == want[1]
        assert have[0][:2] == want[0][:2]
        if fails:
            assert [frame[:2] for frame in have[0][2]] == [frame[:2] for frame in want[0][2]]
            assert FORCED or set(have[0][2][-1][2]) >= {"s", "k"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_caller_that_handles_the_error_goes_on(backend):
    text = """
def look(k):
    s.l.append(1)
    y = x[k]
    s.l.append(2)
    return y
for k in (i, i - i, i):
    try:
        s.l.append(look(k))
    except IndexError:
        s.t.add_(1)
return 0
"""
    f = function_of(text)
    compiled = g.compile(f, backend=backend)
    for _ in range(2):
        assert outcome(compiled, arguments(True)) == outcome(f, arguments(True))


@pytest.mark.parametrize("backend", ["cc", "auto"])
def test_code_of_a_c_compiler_fails_in_the_same_way(backend):
    options = {"auto.after": 1, "auto.wait": True} if backend == "auto" else None
    try:
        g.compile(lambda x: x + 1, backend="cc")(g.ones(1))
    except Exception as error:  # no C compiler
        pytest.skip(str(error))
    f = function_of(
        "s.l.append(1)\ns.t.add_(1)\ny = x[i]\ns.l.append(random.random())\ny[i]\nreturn y"
    )
    compiled = g.compile(f, backend=backend, options=options)
    for fails in (True, True, True):
        assert outcome(compiled, arguments(fails)) == outcome(f, arguments(fails))


# -- Back ends in Python


def running(module, inputs):
    return module.forward


def running_aot(module, inputs):
    return module.forward


running_aot.aot = True


@pytest.mark.parametrize("backend", [running, running_aot])
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_back_end_in_python_that_runs_the_graph_changes_nothing_of_that(effect, backend):
    for operation in ("subscript", "embedding", "scatter"):
        compare(
            "\n".join(
                (
                    EFFECTS[effect].replace("$", "1"),
                    OPERATIONS[operation],
                    EFFECTS[effect].replace("$", "2"),
                    "return y",
                )
            ),
            backend,
        )


@undisturbed
@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError, SystemExit])
@pytest.mark.parametrize("aot", (False, True))
def test_what_a_back_end_raises_of_its_own_comes_as_if_before_the_region(kind, aot):
    fails = [True]

    def backend(module, inputs):
        def run(*args):
            result = module.forward(*args)
            if fails[0]:
                raise kind("of the back end")
            return result

        return run

    backend.aot = aot
    f = function_of("s.l.append(random.random())\ns.d[1] = g.rand(3)\ns.a = 1\nreturn x * 2")
    compiled = g.compile(f, backend=backend)
    for fails[0] in (True, False, True):
        g.manual_seed(3)
        random.seed(5)
        state, drawn, before = State(), random.getstate(), State().text()
        if fails[0]:
            with pytest.raises(kind, match="of the back end"):
                compiled(*arguments(False), state)
            assert state.text() == before
        else:
            compiled(*arguments(False), state)
            assert state.a == 1 and state.text() != before and random.getstate() != drawn


# -- Functions of the program's that a graph calls


CALLS, RAISES = [], [None]


@g.compiler.allow_in_graph
def noted(x, k):
    CALLS.append((k, x.tolist()))
    if RAISES[0] and RAISES[0][0] == k:
        raise RAISES[0][1](f"now {k}")
    return x * (k + 1)


def with_nodes(text):
    f = function_of(text)
    f.__globals__["noted"] = noted
    return f


NODES = {
    "behind": "s.l.append(1)\ny = noted(x, 1)\ns.t.add_(1)\nz = y[i]\ns.l.append(2)\nreturn z",
    "two": (
        "s.l.append(random.random())\ny = noted(x, 1)\ns.a = 3\nz = noted(y, "
        "2)\ns.l.append(z[i])\nreturn z"
    ),
    "inlined": (
        "def inner(v):\n    s.l.append(g.rand(2))\n    return noted(v, 2)\ny = inner(noted(x, "
        "1))\ns.d[1] = y\nreturn y[i]"
    ),
    "part": (
        "s.l.append(1)\ng._dynamo.graph_break()\ny = noted(x, 1)\ns.t.add_(1)\nz = noted(y, "
        "2)\nreturn z[i]"
    ),
}


@undisturbed
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", (False, True))
@pytest.mark.parametrize("text", NODES)
def test_a_function_that_is_a_node_is_called_once_where_the_graph_fails(
    text, requires_grad, backend
):
    f = with_nodes(NODES[text])
    compiled = g.compile(f, backend=backend)
    RAISES[0] = None
    compiled(*arguments(False, requires_grad), State())  # what the recorder tries is no call
    for RAISES[0], fails in (
        (None, True),
        ((1, ValueError), False),
        ((2, ValueError), False),
        (None, False),
        (None, True),
    ):
        CALLS.clear()
        want, plain = outcome(f, arguments(fails, requires_grad)), CALLS[:]
        CALLS.clear()
        have = outcome(compiled, arguments(fails, requires_grad))
        assert CALLS == plain
        assert have[0][0] == want[0][0]
        assert have[0][:2] == want[0][:2] and have[1] == want[1]
        if want[0][0] != "gave" and text != "part":
            assert have[0] == want[0]
    RAISES[0] = None


class Square(g.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        CALLS.append("backward")
        return grad * 2 * ctx.saved_tensors[0]


@g.compiler.allow_in_graph
def pair_of(x, w):
    CALLS.append("pair")
    return x * w, (x + w).sin()


@g.compiler.allow_in_graph
def list_of(*args, **named):
    CALLS.append(sorted(named))
    return [args[0] * args[1], named["z"] * 2, args[0].detach() * 3]


@g.compiler.allow_in_graph
def named_only(x, *, y=None):
    CALLS.append("named")
    return (x * y).exp()


@g.compiler.allow_in_graph
def own_gradient(x):
    CALLS.append("own")
    return Square.apply(x) * x


# Of x and w, which require grad; what they append to s is differentiated behind the error.
HISTORIES = {
    "one": "y = noted(x, 1)\ns.append(y)\nreturn y[i]",
    "a chain": "a = noted(x * w, 2)\ns.append(a)\nb = noted(a * w, 1)\ns.append(b)\nreturn b[i]",
    "a tuple": "a, b = pair_of(x, w * 1)\ns.append(a * b)\nreturn a[i]",
    "one twice": "a, b = pair_of(x, x)\ns.append(a * b)\nreturn a[i]",
    "rest and names": "a = list_of(x, w, z=w)\ns.append(a)\nreturn a[0][i]",
    "a name": "a = named_only(x * 2, y=w)\ns.append(a * w)\nreturn a[i]",
    "a gradient of its own": "a = own_gradient(x * w)\ns.append(a * w)\nreturn a[i]",
    "gradients off": (
        "with g.no_grad():\n    a = noted(x * w, 1)\nb = noted(a * x, "
        "1)\ns.append(a)\ns.append(b)\nreturn b[i]"
    ),
    "one of another": (
        "a = noted(noted(x, 1), 1)\ns.append(pair_of(a, w))\ns.append(list_of(a, w, z=a))\nreturn "
        "a[i]"
    ),
}


def history_outcome(f, fails, of_leaves, twice):
    CALLS.clear()
    x, w = g.tensor([1.0, 2.0, 3.0], requires_grad=True), g.tensor(
        [0.5, 0.25, 2.0], requires_grad=True
    )
    s = []
    try:
        said = f(
            *((x, w) if of_leaves else (x * 1, w * 1)), g.tensor([9 if fails else 1]), s
        ).tolist()
    except IndexError as error:
        said = str(error)
    kinds = [type(v) for v in s]
    tensors = [t for v in s for t in (v if isinstance(v, (list, tuple)) else [v])]
    total = sum((t * t).sum() for t in tensors if t.requires_grad)
    if twice:
        total = sum(
            t.sum()
            for t in g.autograd.grad(total, [x, w], create_graph=True, allow_unused=True)
            if t is not None
        )
    total.backward()
    calls = [c for c in CALLS if c != "backward"] if twice else CALLS[:]
    grads = [None if t.grad is None else t.grad.tolist() for t in (x, w)]
    if twice:  # up to the order of a sum
        grads = [grad and [float(f"{v:.5g}") for v in grad] for grad in grads]
    return said, kinds, [(t.tolist(), t.requires_grad) for t in tensors], calls, grads


@undisturbed
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", HISTORIES)
def test_a_result_of_a_function_that_is_a_node_keeps_its_history_where_the_graph_fails(
    text, backend
):
    f = function_of(HISTORIES[text], args="x, w, i, s")
    f.__globals__.update(
        {fn.__name__: fn for fn in (noted, pair_of, list_of, named_only, own_gradient)}
    )
    compiled = g.compile(f, backend=backend, fullgraph=True)
    RAISES[0] = None
    history_outcome(compiled, False, True, False)  # what the recorder tries is no call
    history_outcome(compiled, False, False, False)
    for of_leaves in (True, False):
        for twice in (False, True):
            for fails in (True, False, True):
                assert history_outcome(compiled, fails, of_leaves, twice) == history_outcome(
                    f, fails, of_leaves, twice
                )


ORDERED = {
    "read later": "return x[i].sum() * noted(x, 1)",
    "unread": "x[i]\nreturn noted(x, 1)",
    "both read": "y = x[i]\nz = noted(x, 1)\nreturn (y * 2).sum() + z.sum()",
    "between two": "a = noted(x, 1)\nx[i]\nreturn a + noted(x, 2)",
    "among three": (
        "a = noted(x, 1)\ny = x.exp()[i]\nb = noted(x * 2, 2)\nc = noted(x * 3, 3)\nreturn a.sum() "
        "+ y.sum() + b.sum() + c.sum()"
    ),
    "read by it": "y = x[i]\nreturn noted(x * y.sum(), 1)",
    "a factorization": "c = g.linalg.inv(m * (i < 3))\nreturn c.sum() + noted(x, 1).sum()",
    "a branch": (
        "y = g.cond(i.sum() > 2, lambda x, i: x[i], lambda x, i: x[i] + 1, (x, i))\nreturn "
        "noted(x, 1)"
    ),
    "a condition": "g.nn.functional.one_hot(i, 3)\nreturn noted(x, 1)",
}


@undisturbed
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", ORDERED)
def test_a_function_that_is_a_node_is_not_called_behind_an_operation_that_fails(text, backend):
    f = with_nodes(ORDERED[text])
    compiled = g.compile(f, backend=backend)
    RAISES[0] = None
    for requires_grad in (False, True):
        compiled(*arguments(False, requires_grad), State())
        for fails in (True, False, True):
            CALLS.clear()
            want, plain = outcome(f, arguments(fails, requires_grad)), CALLS[:]
            CALLS.clear()
            assert (outcome(compiled, arguments(fails, requires_grad))[0][:2], CALLS) == (
                want[0][:2],
                plain,
            )


@undisturbed
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_interrupt_in_a_function_that_is_a_node_comes_as_if_before_the_region(backend):
    f = with_nodes(
        "s.l.append(random.random())\ns.t.add_(1)\ny = noted(x, 1)\ns.l.append(g.rand(1))\nreturn y"
    )
    compiled = g.compile(f, backend=backend)
    for kind in (None, KeyboardInterrupt, SystemExit, None, KeyboardInterrupt):
        RAISES[0] = None if kind is None else (1, kind)
        g.manual_seed(3)
        random.seed(5)
        state, before = State(), State().text()
        if kind:
            CALLS.clear()
            with pytest.raises(kind):
                compiled(*arguments(False), state)
            assert state.text() == before and len(CALLS) == 1
        else:
            compiled(*arguments(False), state)
            assert len(state.l) == 2 and state.t.tolist() == [2.0] * 3
    RAISES[0] = None


@undisturbed
@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_a_hook_of_saved_tensors_that_raises_is_not_called_again(kind):
    packed, fails = [], [False]

    def pack(t):
        packed.append(tuple(t.shape))
        if fails[0]:
            raise kind("pack")
        return t

    f = function_of("s.l.append(1)\ns.t.add_(1)\nreturn (x * x).exp()")
    compiled = g.compile(f, backend="eager")
    for fails[0] in (False, True, False):
        state, before = State(), State().text()
        packed.clear()
        with g.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            if fails[0]:
                with pytest.raises(kind, match="pack"):
                    compiled(*arguments(False, True), state)
                assert len(packed) == 1
            else:
                compiled(*arguments(False, True), state)
                assert packed and state.l == [1]
        if fails[0]:
            assert state.text() == before


# -- Out of memory


fail_at = ctypes.CDLL(g._core.__file__).gm_alloc_fail_at
fail_at.argtypes = [ctypes.c_uint64]

IN_MEMORY = [
    "s.l.append(1)\ny = (x * 2).exp()\ns.l.append(y)\nreturn y + 1",
    (
        "s.t.add_(1)\ny = x.clone()\ny[i] = "
        "2.0\ns.t.mul_(y.detach())\ns.l.append(g.rand(3))\nreturn y @ m"
    ),
    "s.t.add_(1)\ny = s.t * x\ns.t.sub_(y.detach())\nreturn y.sum()",
    (
        "s.t.add_(1)\nbig = x.expand(2000, 3) * 1.5\ny = "
        "big.sort(0)[0].cumsum(0)\ns.t.add_(y[-1].detach())\nreturn y.sum()"
    ),
    (
        "s.l.append(1)\nz = g.nn.functional.conv1d(x.reshape(1, 1, 3), m[:1, :2].reshape(1, 1, "
        "2))\ns.l.append(random.random())\nreturn z"
    ),
    "s.t.add_(1)\nv = s.t[1:]\nv.mul_(3)\ns.l.append(v)\nreturn s.t * 2",
    "s.t.add_(1)\ny = g.linalg.inv(m)\ns.t.add_(y[0].detach())\nreturn y",
]


def without_memory(f, k, requires_grad):
    """The call's outcome where the k-th allocation of a tensor fails; k = 0: none."""
    g.manual_seed(3)
    random.seed(5)
    state, args, said = State(), arguments(False, requires_grad), None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fail_at(k)
        try:
            result = f(*args, state)
        except MemoryError:
            said = "no memory"
        finally:
            fail_at(0)
    return said or result.tolist(), state.text(), [str(w.message) for w in told]


@pytest.mark.skipif(FORCED, reason="each break has allocations of its own")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", (False, True))
@pytest.mark.parametrize("text", IN_MEMORY)
def test_a_graph_without_memory_leaves_what_plain_python_leaves(text, requires_grad, backend):
    f = function_of(text)
    g.compiler.reset()
    compiled = g.compile(f, backend=backend)
    right = [without_memory(f, k, requires_grad)[:2] for k in range(24)]
    assert without_memory(compiled, 0, requires_grad)[:2] == right[0]
    told = []
    for k in range(1, 24):
        have = without_memory(compiled, k, requires_grad)
        assert have[:2] in right, k
        told += have[2]
    assert any(
        "failed where plain Python did not" in message and "MemoryError" in message
        for message in told
    )


# -- Backward


class Looks(g.autograd.Function):
    @staticmethod
    def forward(ctx, x, i):
        ctx.save_for_backward(i)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (i,) = ctx.saved_tensors
        return grad[i].sum() * grad, None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "text",
    [
        "return (Looks.apply(x, i) * s.w).sum()",
        "a = (s.w * 3).sum()\nreturn a + Looks.apply(x, i).sum()",
        "b = Looks.apply(x, i).sum()\nreturn b + (s.w * 3).sum()",
        "y = Looks.apply(x, i)\nz = s.v * y.exp()\nreturn (z * s.w).sum()",
    ],
)
def test_a_backward_that_fails_leaves_the_gradients_that_were_complete(text, backend):
    f = function_of(text)
    f.__globals__["Looks"] = Looks
    compiled = g.compile(f, backend=backend)

    def run(f, fails):
        state, args = State(), arguments(fails, True)
        loss, said = f(*args, state), None
        try:
            loss.backward()
        except IndexError as error:
            said = str(error)
        with pytest.raises((RuntimeError, IndexError)):
            loss.backward()
        return said, [
            None if t.grad is None else t.grad.tolist() for t in (args[0], state.w, state.v)
        ]

    for fails in (True, False, True):
        have, want = run(compiled, fails), run(f, fails)
        assert (want[0] is not None) == fails
        assert have == want
