# SPDX-License-Identifier: Apache-2.0
"""Objects of the standard library: generators of random numbers, caches, formats, what hangs on
tensors."""

import contextlib
import copy
import functools
import itertools
import math
import operator
import os
import random
import stat
import sys
import types

import gramme as G


class Named:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"<{self.name}>"


def twice(f, *args):
    return f(*args), f(*args)


def drawn(compile, f):
    """Three calls, and where they leave the generator."""
    before = random.getstate()
    random.seed(11)
    try:
        g = compile(f)
        results = [g(G.ones(3)) for _ in range(3)]
        return results, hash(random.getstate())
    finally:
        random.setstate(before)


def shuffled(x):
    order = [1, 2, 3, 4]
    random.shuffle(order)
    return x * order[0], order


# expect: any
def case_random_number(compile):
    return drawn(compile, lambda x: (x + 1) * random.random() * 2)


# expect: any
def case_random_number_between_two(compile):
    return drawn(compile, lambda x: x * random.uniform(1, 2))


# expect: any
def case_random_int(compile):
    return drawn(compile, lambda x: x * random.randint(1, 50))


# expect: any
def case_random_order(compile):
    return drawn(compile, shuffled)


# expect: any
def case_random_state_is_read(compile):
    return drawn(compile, lambda x: (x + 1, hash(random.getstate())))


# expect: any
def case_random_generator_of_the_users(compile):
    rng = random.Random(5)
    f = compile(lambda x: (x + 1) * rng.random() * 2)
    return [f(G.ones(2)) for _ in range(3)], hash(rng.getstate())


# The cache counts, and hands the same object out.
# expect: graphs=2 breaks=0
def case_cached_function_counts_and_keeps_identity(compile):
    calls = []

    @functools.lru_cache(maxsize=None)
    def table(n):
        calls.append(n)
        return [n]

    f = compile(lambda x, n: (x + 1, table(n)))
    a, b, c = f(G.ones(2), 3), f(G.ones(2), 3), f(G.ones(2), 3)
    return a, a[1] is b[1], b[1] is c[1], calls, tuple(table.cache_info()), table(3) is a[1]


# expect: graphs=1 breaks=0
def case_copies_of_containers(compile):
    return twice(
        compile(lambda x: (copy.copy([1, x]), copy.copy({"k": 2}), copy.copy((1, 2)), x + 1)),
        G.ones(2),
    )


# expect: any
def case_copies_of_objects(compile):
    def root(x):
        a, b = copy.deepcopy([[1], [2]]), copy.copy(NAMED)
        return a, b.name, b is NAMED, x + 1

    return twice(compile(root), G.ones(2))


NAMED = Named("n")
BY_KIND = {int: 1, str: 2, twice: 4}


# expect: graphs=2 breaks=0
def case_dict_keyed_by_classes_and_functions(compile):
    f = compile(lambda x, d, kind: (x * d[kind], d[twice]))
    return f(G.ones(2), BY_KIND, int), f(G.ones(2), BY_KIND, str), f(G.ones(2), BY_KIND, int)


# expect: graphs=2 breaks=0
def case_namespace_of_the_callers(compile):
    s = types.SimpleNamespace(a=3, b=G.ones(2))

    def root(x, s):
        s.c = s.a + 1
        return x * s.a + s.b

    f = compile(root)
    first = f(G.ones(2), s)
    s.a = 5
    return first, f(G.ones(2), s), vars(s)


# expect: graphs=1 breaks=0
def case_percent_with_objects(compile):
    f = compile(
        lambda x, v: (
            "%s|%5d|%r" % (v, 3, "q"),
            "%s" % v,
            "%%%8s" % [v.name],
            "%-6r|%s" % ("a", (1, v.name)),
            x + 1,
        )
    )
    return twice(f, G.ones(2), Named("a"))


# expect: graphs=1 breaks=0
def case_str_format_with_objects(compile):
    f = compile(
        lambda x, v: (
            "{} {!r:>5} {k}".format(v, 3, k=v.name),
            "{1}{0}{{}}{1!s:>6}".format(7, v),
            "{0}".format([1, v.name]),
            x + 1,
        )
    )
    return twice(f, G.ones(2), Named("a"))


# What is wrong with a format raises as in plain Python, after the texts that come before it.
# expect: graphs=0 breaks=5
def case_formats_that_fail(compile):
    def attempt(f):
        v, log = Named("a"), []
        Loud.log = log
        try:
            f(G.ones(2), Loud("b"))
        except Exception as error:
            return type(error).__name__, str(error), log
        return log

    bodies = [
        lambda x, v: "%s %s" % (v,),
        lambda x, v: "%s" % (v, 1),
        lambda x, v: "{} {}".format(v),
        lambda x, v: "{} {0}".format(v),
        lambda x, v: "{a}".format(v),
    ]
    return [attempt(compile(body)) for body in bodies]


class Loud(Named):
    log = []

    def __str__(self):
        self.log.append(self.name)
        return self.name


# expect: graphs=1 breaks=0
def case_sequence_functions_of_operator(compile):
    def root(x):
        xs = [1]
        ys = operator.iconcat(xs, [2, 1])
        return (
            [
                operator.concat([1], [2]),
                operator.concat((1,), (x,)),
                operator.concat("a", "b"),
                ys is xs,
                xs,
            ],
            [
                operator.countOf(xs, 1),
                operator.indexOf(xs, 2),
                operator.contains(xs, 2),
                operator.countOf("aba", "a"),
            ],
            x + 1,
        )

    return twice(compile(root), G.ones(2))


# expect: graphs=0 breaks=1
def case_value_that_is_not_in_the_sequence(compile):
    return compile(lambda x: operator.indexOf([1, 2], 3))(G.ones(2))


# expect: any
def case_iterators_that_share_theirs(compile):
    def root(x):
        a, b = itertools.tee([1, 2, 3])
        next(a)
        groups = [(k, list(g)) for k, g in itertools.groupby([1, 1, 2])]
        return (
            list(a),
            list(b),
            groups,
            list(itertools.zip_longest([1, 2], [3], fillvalue=0)),
            list(itertools.pairwise("abc")),
            x + 1,
        )

    return twice(compile(root), G.ones(2))


@functools.singledispatch
def kind_of(v):
    return "object"


@kind_of.register
def _(v: int):
    return "int"


@kind_of.register
def _(v: list):
    return "list"


# expect: any
def case_dispatch_by_type(compile):
    return twice(compile(lambda x: (kind_of(1), kind_of([1]), kind_of("a"), x + 1)), G.ones(2))


class Closed:
    closed = 0

    def close(self):
        self.closed += 1


# expect: graphs=1 breaks=0
def case_suppress_and_closing(compile):
    def root(x):
        c = Closed()
        with contextlib.suppress(KeyError), contextlib.closing(c):
            x = x * 2
            {}["a"]
        return x + 1, c.closed

    return twice(compile(root), G.ones(2))


# expect: any
def case_stack_of_exits(compile):
    def root(x):
        log = []
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, 1)
            stack.callback(log.append, 2)
            x = x + 1
        return x * 2, log

    return twice(compile(root), G.ones(2))


# expect: graphs=1 breaks=0
def case_grad_that_is_none(compile):
    w = G.ones(2).requires_grad_()
    return twice(compile(lambda x, w: (x * w, w.grad, x.grad is None, (x + 1).grad)), G.ones(2), w)


# The same function, before and after there is a gradient.
# expect: graphs=2 breaks=0
def case_grad_is_guarded(compile):
    w = G.ones(2).requires_grad_()
    f = compile(lambda x, w: x + 1 if w.grad is None else x + w.grad)
    first = f(G.ones(2), w)
    (w * 3).sum().backward()
    second = f(G.ones(2), w)
    w.grad = None
    return first, second, f(G.ones(2), w)


# expect: graphs=1 breaks=0
def case_elements_chosen_by_a_mask(compile):
    f = compile(lambda x: (x + 1)[x > 1] * 2)
    return f(G.arange(4.0)), f(-G.arange(4.0))


# expect: graphs=2 breaks=1
def case_numbers_of_a_tensor(compile):
    f = compile(lambda x: ((x + 1).tolist(), x * 2))
    return f(G.arange(3.0)), f(-G.arange(3.0))


# expect: graphs=1 breaks=0
def case_tensors_in_containers(compile):
    f = compile(
        lambda x: (x in [x], {x: 1}[x], len({x, x}), len(x), [i * row for i, row in enumerate(x)])
    )
    return twice(f, G.arange(3.0))


# expect: graphs=1 breaks=0
def case_attribute_of_a_tensor_is_guarded(compile):
    t = G.ones(2)
    t.tag = 5
    return twice(compile(lambda t: t * t.tag), t)


# A set that is made in the function is another one at each call; one that exists stays itself.
# expect: graphs=1 breaks=0
def case_frozensets_are_new(compile):
    there = frozenset("pq")

    def root(x, there):
        made = frozenset([1, 2, 70, 6])
        return (
            x + 1,
            made,
            made,
            made | {3},
            frozenset(there),
            frozenset(made),
            frozenset({4, 5}),
            list(made),
        )

    f = compile(root)
    a, b = f(G.ones(2), there), f(G.ones(2), there)
    order = [list(s) for s in a[1:4]]
    return (
        a,
        [p is q for p, q in zip(a[1:], b[1:])],
        [p is q for p in a for q in a],
        order,
        a[4] is there,
    )


# The list that grows is another one at the second call.
# expect: graphs=2 breaks=0
def case_namespaces(compile):
    there = types.SimpleNamespace(lr=0.5, steps=[1])

    def root(x, there):
        made = types.SimpleNamespace(a=x, b=2)
        made.c = made.a * made.b
        empty = types.SimpleNamespace()
        del made.b
        there.steps.append(len(vars(made)))
        same = (
            types.SimpleNamespace(p=1, q=(2,)) == types.SimpleNamespace(q=(2,), p=1),
            empty == types.SimpleNamespace(),
            empty != there,
        )
        return (
            made,
            made.c * there.lr,
            vars(made),
            list(made.__dict__),
            same,
            empty,
            hasattr(made, "b"),
            isinstance(made, types.SimpleNamespace),
        )

    f = compile(root)
    first, second = f(G.ones(2), there), f(G.ones(2), there)
    return first, second, first[0] is second[0], there, vars(first[0]) is first[2], repr(first[5])


class Point:
    scale = 2

    def __init__(self, x, items):
        self.x = x
        self.items = items

    def total(self):
        return self.x * self.scale + len(self.items)


class Picky(Point):
    def __copy__(self):
        return Picky(self.x, [*self.items, "copied"])


class Stated(Point):
    def __getstate__(self):
        return {"x": self.x, "items": ["from the state"]}


# expect: graphs=1 breaks=0
def case_copies_of_plain_objects(compile):
    def root(x, there):
        made = Point(x, [1])
        a, b, c, d = (
            copy.copy(made),
            copy.copy(there),
            copy.copy(Picky(x, [])),
            copy.copy([there, made]),
        )
        a.items.append(2)
        b.x = x - 1
        b.note = "b alone"
        return (
            made,
            a,
            b,
            c,
            d,
            a.total() + b.total(),
            a is made,
            a.items is made.items,
            type(a),
            vars(b),
        )

    f, there = compile(root), Point(G.ones(2), [5])
    return twice(f, G.ones(2), there), there, vars(there)


# What a class says about copies is Python's business.
# expect: any
def case_copies_of_objects_with_a_state(compile):
    class Slotted:
        __slots__ = ("x", "__dict__")

    def root(x):
        s = Slotted()
        s.x, s.y = x, 3
        return copy.copy(Stated(x, [1])), copy.copy(s).x, copy.copy(s).y, copy.copy(Named("n")).name

    return twice(compile(root), G.ones(2))


class Pair(tuple):
    pass


# expect: graphs=1 breaks=0
def case_a_tuple_times_one_is_a_plain_tuple(compile):
    def root(x, given):
        made, plain = Pair([x, 1]), (x, 2)
        one = made * 1, made + (), given * 1, given + ()
        return (
            one,
            [type(t) for t in one],
            [t is made or t is given for t in one],
            plain * 1 is plain,
            plain + () is plain,
        )

    f, given = compile(root), Pair([4])
    return twice(f, G.ones(2), given)


def with_grad(*values, requires_grad=True):
    w = G.tensor(values).requires_grad_(requires_grad)
    w.grad = G.tensor([v * 10 for v in values])
    return w


# expect: graphs=1 breaks=0
def case_step_of_an_optimizer(compile):
    def step(parameters, rate):
        with G.no_grad():
            for p in parameters:
                if p.grad is not None:
                    p.sub_(p.grad * rate)
                    p.grad.zero_()

    f, parameters = compile(step), [with_grad(1.0, 2.0), with_grad(3.0), G.ones(2).requires_grad_()]
    grads = [p.grad for p in parameters]
    f(parameters, 0.5)
    (parameters[0].sum() * 3).backward()
    f(parameters, 0.5)
    return parameters, grads, [p.grad is g for p, g in zip(parameters, grads)]


# expect: graphs=1 breaks=0
def case_grad_is_stored(compile):
    def root(x, w):
        before = w.grad
        w.grad = None
        gone = w.grad is None
        w.grad = x * 2
        w.grad.add_(1)
        return before * 3, gone, w.grad, w.grad + 1, before is w.grad

    f, w = compile(root), with_grad(1.0, 2.0)
    first = f(G.ones(2), w)
    kept = w.grad
    second = f(G.ones(2) * 5, w)
    return first, second, kept is first[2], w.grad is second[2], w


# expect: graphs=1 breaks=0
def case_grads_are_swapped(compile):
    def root(a, b):
        a.grad, b.grad = b.grad, a.grad
        return a.grad - b.grad

    f, a, b = compile(root), with_grad(1.0, 2.0), with_grad(5.0, 7.0)
    one, two = a.grad, b.grad
    results = [f(a, b)]
    results += [a.grad is two, b.grad is one, f(a, b), a.grad is one]
    return results, a, b


# expect: graphs=4 breaks=0
def case_grad_is_guarded_as_a_tensor(compile):
    def root(x, w):
        return x if w.grad is None else (x + w.grad).sum(), w.grad is x

    f, w, x = compile(root), G.ones(2, 3).requires_grad_(), G.ones(2, 3)
    results = []
    for grad in (G.ones(2, 3), G.zeros(2, 3), G.ones(3, 2).t(), None, G.zeros(2, 3), x, x * 2):
        w.grad = grad
        results.append(f(x, w))
    return results


# expect: any
def case_grad_that_eager_refuses(compile):
    def root(w, value):
        try:
            w.grad = value
        except (RuntimeError, TypeError) as error:
            return str(error), w.grad
        return w.grad

    f = compile(root)
    return [
        f(with_grad(1.0, 2.0), value)
        for value in (G.ones(3), G.ones(2, dtype=G.float64), 3, "x", G.zeros(2))
    ]


# expect: any
def case_grad_of_a_step_that_trains(compile):
    G.manual_seed(1)
    model, x, y = G.nn.Linear(3, 1), G.randn(8, 3), G.randn(8, 1)

    def step(model, x, y):
        for p in model.parameters():
            p.grad = None
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        with G.no_grad():
            for p in model.parameters():
                p -= p.grad * 0.1
        return loss

    f = compile(step)
    return [f(model, x, y).item() for _ in range(4)], [
        p.detach().clone() for p in model.parameters()
    ]


class Place:
    def __fspath__(self):
        return "a/place"


# expect: graphs=1 breaks=0
def case_names_of_functions_of_c_and_paths(compile):
    def root(x):
        names = len.__name__, list.append.__name__, [].append.__name__, math.sin.__name__
        path = (
            os.fspath("a/b"),
            os.fspath(b"c"),
            os.fspath(Place()),
            stat.S_ISDIR(0o40755),
            stat.S_ISLNK(0o40755),
        )
        return x + 1, names, path, os.path.join("a", "b.txt"), os.path.splitext("x/y.z")

    return twice(compile(root), G.ones(2))


# partialmethod keeps the object on the partial that it makes; one that has attributes is not taken
# apart by another
# expect: graphs=1 breaks=0
def case_partials_with_attributes(compile):
    class Dial:
        def turn(self, v):
            self.at = v
            return self

        half = functools.partialmethod(turn, 5)

    def root(x, outer):
        p = Dial().half
        q = functools.partial(max, 1)
        q.note = 2
        nested = functools.partial(q, 5), functools.partial(functools.partial(max, 2), 3)
        return x + 1, p, q, nested, q.note, functools.partial(outer, 7)

    own = functools.partial(min, 9)
    own.note = "kept"
    y, p, q, nested, note, around = compile(root)(G.ones(2), own)
    return (
        y,
        list(p.__dict__),
        p().at,
        q.__dict__,
        [n.args for n in nested],
        nested[0].func is q,
        note,
        around.func is own,
        around(),
    )


# expect: graphs=1 breaks=0
def case_products_of_sizes(compile):
    f = compile(
        lambda x: (
            x * math.prod(x.shape),
            math.prod([1, 2.5, 3]),
            math.prod([], start=2),
            math.prod((x, 2)),
            math.prod(range(1, 5)),
        )
    )
    return f(G.ones(2, 3))


class Quacks(type):
    def __instancecheck__(cls, value):
        return hasattr(value, "quack")


class Duck(metaclass=Quacks):
    pass


# A metaclass of Python's is asked, unless the object is of the very class
# expect: breaks=0
def case_classes_that_decide_by_themselves(compile):
    def root(x, what):
        return x + 1, isinstance(what, Duck), isinstance(what, (int, Duck)), isinstance(x, Duck)

    g = compile(root)
    return [
        g(G.ones(1), what)
        for what in (types.SimpleNamespace(quack=1), 3, "a", Duck(), types.SimpleNamespace())
    ]


# expect: graphs=1 breaks=0
def case_exit_stacks(compile):
    def root(x):
        out = []
        with contextlib.ExitStack() as stack:
            stack.callback(out.append, "last")
            out.append(stack.enter_context(contextlib.nullcontext(3)))
            stack.pop_all().close()
        return x + 1, out

    return twice(compile(root), G.ones(2))


# What the caller handles, too
# expect: any
def case_the_exception_that_is_handled(compile):
    def root(x):
        return x + 1, sys.exc_info()[:2], sys.exc_info()[2] is None

    g = compile(root)
    results = []
    for i in range(4):
        try:
            if i % 2:
                raise KeyError(i)
            results.append(g(G.ones(1)))
        except KeyError as e:
            y, (kind, value), none = g(G.ones(1))
            results.append((y, kind.__name__, value is e, none))
    return results


class Ground:
    pass


class Grown(Ground):
    pass


class Teller:
    @functools.singledispatchmethod
    def tell(self, value):
        return "any"

    @tell.register
    def tell_ground(self, value: Ground):
        return "ground"


# By the class's MRO; what is registered later counts
# expect: breaks=0
def case_functions_by_class(compile):
    @functools.singledispatch
    def told(value):
        return "any"

    @told.register
    def told_int(value: int):
        return ("int", value)

    told.register(Ground, lambda value: "ground")

    def root(x, v):
        return x + 1, told([1, True, "a", v]), told.dispatch(bool) is told_int

    f = compile(root)
    results = [f(G.ones(1), v) for v in (Ground(), Grown(), 3, Grown())]
    told.register(Grown, lambda value: "grown")
    return results, f(G.ones(1), Grown()), f(G.ones(1), Ground())


# Since 3.13 the method keeps what it makes for an object in a dict with weak keys
# expect: any
def case_methods_by_class(compile):
    f = compile(lambda x, v: (x + 1, Teller().tell(v)))
    return [f(G.ones(1), v) for v in (Ground(), Grown(), 3, Grown())]


def annotated(value: int) -> str:
    return value


# expect: graphs=1 breaks=0
def case_wrapped_functions_that_existed(compile):
    def root(x):
        @functools.wraps(annotated)
        def inner(v):
            return v

        return (
            inner(x),
            inner.__annotations__,
            inner.__name__,
            annotated.__annotations__ is inner.__annotations__,
            inner.__wrapped__ is annotated,
        )

    return compile(root)(G.ones(1))
