# SPDX-License-Identifier: Apache-2.0
"""A backward that fails in a compiled function leaves what it leaves in plain Python.

Tables of programs: operations that fail, and functions of the program that raise, in the backward;
what is compared with plain Python is the error, the gradients of the leaves, what was called, the
generator's state, and the innermost frame of the traceback.
"""

import contextlib
import linecache
import os
import random
import traceback

import pytest

import gramme as g

BACKENDS = ["eager", "tcc"]


def leaves():
    return [
        g.tensor(v, requires_grad=True)
        for v in ([1.0, 2.0, 3.0], [0.5, 0.25, 2.0], [1.5, -1.0, 0.25])
    ]


# -- Operations whose result nobody reads

FAILING = {
    "subscript": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i),
    "scatter": lambda x, i: x.scatter(0, i, x),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "embedding": lambda x, i: g.nn.functional.embedding(i, x[:, None]),
    "one_hot": lambda x, i: g.nn.functional.one_hot(i, 3),
    "division": lambda x, i: i // (i - 9),
    "solve": lambda x, i: g.linalg.inv(g.eye(2) * (i < 3)),
}


def functions_of(fail):
    class Forward(g.autograd.Function):
        @staticmethod
        def forward(ctx, x, i):
            fail(x, i)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None

    class Backward(g.autograd.Function):
        @staticmethod
        def forward(ctx, x, i):
            ctx.save_for_backward(i)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            fail(grad, *ctx.saved_tensors)
            return grad * 2, None

    return Forward, Backward


def places_of(forward, backward, fail):
    def unread(x, i):
        fail(x, i)
        return x + 1

    return {
        "forward": lambda x, i: forward.apply(x, i),
        "forward, unread": lambda x, i: (forward.apply(x, i), x + 1)[1],
        "backward": lambda x, i: backward.apply(x, i),
        "backward, among others": lambda x, i: (backward.apply(x.exp(), i) * x).sin(),
        "backward in a checkpoint": lambda x, i: g.utils.checkpoint.checkpoint(
            lambda x, i: backward.apply(x, i).sin(), x, i, use_reentrant=False
        ),
        "backward in a branch": lambda x, i: g.cond(
            i.sum() > -5, lambda x, i: backward.apply(x, i), lambda x, i: x + 2, (x, i)
        ),
        "gradient inside": lambda x, i: (
            x.requires_grad and g.autograd.grad(backward.apply(x * 1, i).sum(), [x]),
            x + 1,
        )[1],
        "branch": lambda x, i: g.cond(i.sum() > -5, unread, lambda x, i: x + 2, (x, i)),
        "branch, unread": lambda x, i: (
            g.cond(i.sum() > -5, unread, lambda x, i: x + 2, (x, i)),
            x + 1,
        )[1],
        "loop": lambda x, i: g.while_loop(
            lambda k, x: k < 2, lambda k, x: (k + 1, unread(x, i)), (g.tensor(0), x)
        )[1],
        "condition of a loop": lambda x, i: g.while_loop(
            lambda k, x: (unread(x, i), k < 2)[1], lambda k, x: (k + 1, x + 1), (g.tensor(0), x)
        )[1],
        "scan": lambda x, i: g.scan(
            lambda c, v: (unread(x, i).sum() * 0 + c + v, c * 2), x[0].clone(), x
        )[1],
        "checkpoint": lambda x, i: g.utils.checkpoint.checkpoint(
            lambda x, i: unread(x, i).sin(), x, i, use_reentrant=False
        ),
    }


def place_outcome(f, fails, requires_grad):
    x, i = g.tensor([1.0, 2.0, 3.0], requires_grad=requires_grad), g.tensor([9 if fails else 1])
    where = "forward"
    try:
        y = f(x, i)
        where = "backward"
        if y.requires_grad:
            y.sum().backward()
    except (IndexError, RuntimeError) as error:
        return where, type(error), str(error)
    return y.tolist(), None if x.grad is None else x.grad.tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", places_of(*functions_of(None), None))
def test_an_operation_that_fails_does_so_without_a_reader_wherever_it_stands(place):
    for name, fail in FAILING.items():
        f = places_of(*functions_of(fail), fail)[place]
        for backend in BACKENDS if name == "gather" else BACKENDS[:1]:
            g.compiler.reset()
            compiled = g.compile(f, backend=backend)
            for requires_grad in (True, False):
                for fails in (True, False):
                    assert place_outcome(compiled, fails, requires_grad) == place_outcome(
                        f, fails, requires_grad
                    ), name


def test_a_gradient_that_is_differentiated_again_fails_without_a_reader():
    backward = functions_of(FAILING["gather"])[1]

    def outcome(f, fails):
        x, i = g.tensor([1.0, 2.0], requires_grad=True), g.tensor([9 if fails else 1])
        try:
            (first,) = g.autograd.grad(f(x, i), [x], create_graph=True)
            first.sum().backward()
        except (IndexError, RuntimeError) as error:
            return str(error)
        return x.grad.tolist()

    def f(x, i):
        return backward.apply(x * x, i).sum()

    compiled = g.compile(f, backend="eager", fullgraph=True)
    assert outcome(compiled, False) == outcome(f, False) == [4.0, 4.0]
    assert (
        outcome(compiled, True)
        == outcome(f, True)
        == "gather: index 9 is out of bounds for dimension 0 with size 2"
    )


# -- Written to between a call and its backward

QUOTIENTS = {
    "by the sum": lambda x: x / x.sum(),
    "by more": lambda x: x / (x.sum() + 1),
    "then exp": lambda x: (x / x.sum()).exp(),
    "summed": lambda x: (x / x.sum()).sum(),
    "by the norm": lambda x: x / x.norm(),
    "product": lambda x: x * x.sum(),
    "largest": lambda x: (x * x.amax()).sin(),
    "softmax": lambda x: x.softmax(0),
    "less the mean": lambda x: x - x.mean(),
}


def written_outcome(f, of_leaf, in_graph):
    leaf = leaves()[0]
    x = leaf if of_leaf else leaf * 2

    def whole(x):
        y = f(x)
        with g.no_grad():
            x.add_(1)
        return y

    try:
        y = whole(x) if not in_graph else in_graph(whole)(x)
        y.sum().backward()
    except RuntimeError as error:
        assert "changed by an in-place operation" in str(error)
        return "refused"
    return leaf.grad.tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", QUOTIENTS)
def test_what_plain_gradients_read_is_watched_though_the_compiled_backward_does_without(
    name, backend
):
    f = QUOTIENTS[name]
    compiled = g.compile(f, backend=backend)
    for of_leaf in (False, True):
        want = written_outcome(f, of_leaf, None)
        assert written_outcome(compiled, of_leaf, None) == want
        assert written_outcome(f, of_leaf, lambda whole: g.compile(whole, backend=backend)) == want


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_that_is_written_to_is_watched_as_well(backend):
    def f(x):
        y = x * 1
        s = y.sum()
        return y / s, y, s

    def run(f, k):
        leaf = leaves()[0]
        results = f(leaf)
        with g.no_grad():
            results[k].add_(1)
        try:
            results[0].sum().backward()
        except RuntimeError as error:
            assert "changed by an in-place operation" in str(error)
            return "refused"
        return leaf.grad.tolist()

    compiled = g.compile(f, backend=backend)
    assert [run(compiled, k) for k in range(3)] == [run(f, k) for k in range(3)]


# -- Functions of the program that raise

CALLED, RAISES = [], [None]


def say(name):
    CALLED.append(name)
    if RAISES[0] and RAISES[0][0] == name:
        raise RAISES[0][1](name)


def hook_a(grad):
    say("a")
    CALLED.append(g.rand(1).item())


def hook_b(grad):
    say("b")
    CALLED.append(g.rand(1).item())


def hook_twice(grad):
    say("twice")
    return grad * 2


def hook_in_place(grad):
    say("in place")
    grad.mul_(2)


def hook_node(grad):
    say("node")


class Own(g.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        say("node")
        return grad * 2


class Looks(g.autograd.Function):
    @staticmethod
    def forward(ctx, x, i):
        ctx.save_for_backward(i)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad[ctx.saved_tensors[0]].sum() * grad, None


@g.compiler.allow_in_graph
def hooked(x):
    y = x * 3
    if y.requires_grad:
        y.register_hook(hook_node)
    return y * x


@g.compiler.allow_in_graph
def with_own(x):
    return Own.apply(x) * x


def two_hooks(x, w, v, i):
    a = x * w
    a.register_hook(hook_a)
    b = a.exp() * v
    b.register_hook(hook_b)
    return (b * w).sum()


def hooks_that_change(x, w, v, i):
    a = x * w
    a.register_hook(hook_a)
    b = a.exp() * v
    b.register_hook(hook_twice)
    b.register_hook(hook_in_place)
    b.register_hook(hook_b)
    return (b.sin() * w * v).sum()


def beside(x, w, v, i):
    a = x * w
    c = (v * v * 3).sum()
    a.register_hook(hook_a)
    return a.sum() + c


def node(x, w, v, i):
    b = hooked(x * w) * v
    b.register_hook(hook_b)
    return b.sum()


def two_nodes(x, w, v, i):
    b = with_own(hooked(w)) * x * v
    return b.sum() + (v * v).sum()


def hooks_before_an_operation(x, w, v, i):
    a = Looks.apply(x * w, i)
    b = a * v
    b.register_hook(hook_b)
    return (b * w).sum()


def nodes_before_an_operation(x, w, v, i):
    a = hooked(x * w) * v
    a.register_hook(hook_a)
    b = Looks.apply(with_own(a), i) * v
    b.register_hook(hook_twice)
    return (b * w).sum()


PROGRAMS = [
    two_hooks,
    hooks_that_change,
    beside,
    node,
    two_nodes,
    hooks_before_an_operation,
    nodes_before_an_operation,
]


def raising_outcome(f, fails, of_leaves):
    g.manual_seed(1)
    CALLED.clear()
    x, w, v = leaves()
    was, RAISES[0] = RAISES[0], None
    if of_leaves:
        w.register_hook(hook_b)
        v.register_post_accumulate_grad_hook(hook_node)
    y, said, frame = f(x, w, v, g.tensor([9 if fails else 1])), None, None
    RAISES[0] = was
    try:
        y.backward()
    except BaseException as error:
        said = type(error), str(error)
        last = traceback.extract_tb(error.__traceback__)[-1]
        frame = None if fails else (last.name, last.lineno)
    left = (
        [None if t.grad is None else t.grad.tolist() for t in (x, w, v)],
        CALLED[:],
        g.get_rng_state().tolist(),
    )
    RAISES[0] = None
    try:
        y.backward()  # plain Python refuses it where an operation that has run needs what it saved
        again = None
    except (RuntimeError, IndexError) as error:
        again = type(error)
    RAISES[0] = was
    return (
        said,
        frame,
        left,
        again,
        [None if t.grad is None else t.grad.tolist() for t in (x, w, v)],
        CALLED[:],
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_function_of_the_program_that_raises_in_a_backward_is_called_once_at_its_place(
    f, backend
):
    g.compiler.reset()
    compiled = g.compile(f, backend=backend, fullgraph=True)
    for RAISES[0] in (
        None,
        *(
            (name, kind)
            for name in ("a", "b", "twice", "in place", "node")
            for kind in (ValueError, KeyboardInterrupt)
        ),
    ):
        for fails, of_leaves in ((False, False), (True, False), (False, True), (True, True)):
            want = raising_outcome(f, fails, of_leaves)
            assert raising_outcome(compiled, fails, of_leaves) == want, (
                RAISES[0],
                fails,
                of_leaves,
            )
    RAISES[0] = None


@pytest.mark.parametrize("f", PROGRAMS)
def test_such_a_function_is_called_once_at_its_place_by_compiled_autograd_too(f):
    compiled = g.compile(f, backend="eager", fullgraph=True)
    for RAISES[0] in (
        None,
        *((name, ValueError) for name in ("a", "b", "twice", "in place", "node")),
    ):
        for fails, of_leaves in ((False, False), (True, False), (True, True)):
            want = raising_outcome(f, fails, of_leaves)
            for run in (f, compiled, compiled):
                with g._dynamo.compiled_autograd.enable("eager"):
                    assert raising_outcome(run, fails, of_leaves) == want, (
                        RAISES[0],
                        fails,
                        of_leaves,
                    )
    RAISES[0] = None


# -- Random programs


class Unread(g.autograd.Function):
    @staticmethod
    def forward(ctx, x, i):
        ctx.save_for_backward(x, i)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        x, i = ctx.saved_tensors
        grad.gather(0, i)
        return grad * x.cos(), None


STATEMENTS = (
    "{new} = {a} * {b}",
    "{new} = {a} / ({b}.sum() + 9)",
    "{new} = ({a} + {b}).tanh()",
    "{new} = {a}.exp() * 0.125",
    "{new} = {a} - {b}",
    "{new} = {a}.flip(0)",
    "{new} = {a} * 1\n{new}.mul_({b})",
    "{new} = Looks.apply({a}, i) * 0.25",
    "{new} = Unread.apply({a}, i)",
    "{new} = {a}[i - i] * {b}",
    "{new} = hooked({a}) * 0.125",
    "{new} = with_own({a}) * 0.125",
    "{a}.register_hook(hook_a)",
    "{a}.register_hook(hook_b)",
    "{a}.register_hook(hook_twice)",
    "{a} = {a} * 2",
    "{a}[i].sum()",
    "{a}.gather(0, i)",
)


def random_program(seed):
    """A function of x, w, v and i: all that is made is part of the loss."""
    dice = random.Random(seed)
    names, made, lines = ["x", "w", "v"], [], []
    for k in range(dice.randint(3, 9)):
        text = dice.choice(STATEMENTS)
        if "{a} =" in text or ".register_hook" in text:
            if not made:
                continue
            lines.append(text.format(a=dice.choice(made)))
            continue
        lines += text.format(new=f"t{k}", a=dice.choice(names), b=dice.choice(names)).split("\n")
        if "{new}" in text:
            made.append(f"t{k}")
            names.append(f"t{k}")
    lines.append(
        "return "
        + " + ".join(f"{name}.sum()" for name in made[-dice.randint(1, 3) :] or ["(x * w * v)"])
    )
    source = "def f(x, w, v, i):\n" + "".join(f"    {line}\n" for line in lines)
    file = f"<failing backward {seed}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = dict(globals())
    exec(compile(source, file, "exec"), space)
    return space["f"], source


def random_outcome(f, fails, of_leaves):
    try:
        outcome = raising_outcome(f, fails, of_leaves)
        return (
            outcome[:3] if of_leaves else outcome
        )  # where a leaf's hook raises, plain Python may have used up less
    except (IndexError, RuntimeError) as error:  # of the forward
        return str(error), CALLED[:]


@pytest.mark.filterwarnings("ignore")
def test_random_programs_fail_as_in_plain_python():
    for seed in range(int(os.environ.get("GM_FAILING_PROGRAMS", "25"))):
        f, source = random_program(seed)
        g.compiler.reset()
        compiled = g.compile(f, backend=BACKENDS[seed % 2])
        RAISES[0] = None
        random_outcome(compiled, False, False)  # what the recorder tries is no call
        for RAISES[0] in (None, *((name, ValueError) for name in ("a", "b", "twice", "node"))):
            for fails, of_leaves in ((False, False), (True, False), (True, True)):
                want = random_outcome(f, fails, of_leaves)
                for run, enabled in ((compiled, False), (f, True), (compiled, True)):
                    with g._dynamo.compiled_autograd.enable(
                        BACKENDS[seed % 2]
                    ) if enabled else contextlib.nullcontext():
                        have = random_outcome(run, fails, of_leaves)
                    assert have == want, (
                        f"seed {seed}, {run is f}, {enabled}, {RAISES[0]}, {fails}, "
                        f"{of_leaves}\n{source}"
                    )
    RAISES[0] = None
