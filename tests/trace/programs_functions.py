# SPDX-License-Identifier: Apache-2.0
"""Inlined functions, all kinds of arguments, closures and cells."""

import functools

import gramme as G

SCALE = 2.0


def scaled(x):
    return x * SCALE


def defaults(x, a=1, *rest, b=2, **named):
    y = x + a * b
    for r in rest:
        y = y * r
    return y, len(rest), named


# expect: graphs=1 breaks=0
def case_all_argument_kinds(compile):
    def g(x):
        return (
            defaults(x),
            defaults(x, 3),
            defaults(x, 3, 4, 5),
            defaults(x, b=7),
            defaults(a=2, x=x, c=9),
            defaults(*[x, 1, 2], **{"b": 3}),
        )

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_root_with_all_argument_kinds(compile):
    def g(x, /, a, *rest, b=2, **named):
        return x + a * b, rest, named, sum(rest)

    f = compile(g)
    return f(G.ones(2), 1, 2, 3, b=4, c=5), f(G.ones(2), 1, 2, 3, b=4, c=5)


# expect: graphs=0 breaks=1
def case_wrong_arguments_are_pythons(compile):
    return compile(lambda x: scaled(x, 1, 2))(G.ones(2))


# expect: graphs=2 breaks=0
def case_global_constant_is_guarded(compile):
    global SCALE
    f = compile(scaled)
    a = f(G.ones(2))
    SCALE = 3.0
    b = f(G.ones(2))
    SCALE = 2.0
    return a, b, f(G.ones(2))


# expect: graphs=2 breaks=0
def case_global_function_rebound(compile):
    global helper
    helper = lambda x: x + 1
    f = compile(lambda x: helper(x) * 2)
    a = f(G.ones(2))
    helper = lambda x: x - 1
    return a, f(G.ones(2))


# expect: graphs=2 breaks=0
def case_function_code_replaced(compile):
    def h(x):
        return x + 1

    def other(x):
        return x - 1

    f = compile(lambda x: h(x))
    a = f(G.ones(2))
    h.__code__ = other.__code__
    return a, f(G.ones(2))


# expect: graphs=2 breaks=0
def case_defaults_replaced(compile):
    def h(x, n=1):
        return x + n

    f = compile(lambda x: h(x))
    a = f(G.ones(2))
    h.__defaults__ = (5,)
    return a, f(G.ones(2))


# expect: graphs=2 breaks=0
def case_kwdefaults_replaced(compile):
    def h(x, *, n=1):
        return x + n

    f = compile(lambda x: h(x))
    a = f(G.ones(2))
    h.__kwdefaults__ = {"n": 5}
    return a, f(G.ones(2))


# expect: graphs=1 breaks=0
def case_lambda_and_nested_function(compile):
    def g(x):
        double = lambda v: v * 2

        def inner(v, k=3):
            return double(v) + k

        return inner(x), inner(x, k=4)

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_decorated(compile):
    def twice(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return wrapper

    @twice
    def h(x, n=1):
        return x + n

    return compile(lambda x: h(x, n=2))(G.ones(2))


# expect: graphs=1 breaks=0
def case_function_as_argument(compile):
    f = compile(lambda fn, x: fn(x) + 1)
    return f(scaled, G.ones(2)), f(scaled, G.ones(2))


# expect: graphs=1 breaks=0
def case_api_function_as_argument(compile):
    return compile(lambda fn, x: fn(x) + 1)(G.tanh, G.ones(2))


# CELL-02: cells of the root frame go through the journal
# expect: graphs=1 breaks=0
def case_cell_02_root_cell(compile):
    def root(x):
        a = 1

        def g():
            nonlocal a
            a += 1

        g()
        return x + a

    return compile(root)(G.ones(2))


# CELL-03: a cell captured by a function made here is the root's cell
# expect: graphs=1 breaks=0
def case_cell_03_shared_both_ways(compile):
    def root(x):
        a = 1

        def get():
            return a

        def add(n):
            nonlocal a
            a += n

        add(2)
        b = get()
        a = 10
        add(b)
        return x * a, get()

    return compile(root)(G.ones(2))


# CELL-04: a cell shared with a function that existed before is written for real
# expect: graphs=1 breaks=0
def case_cell_04_existing_function_writes(compile):
    z = 1

    def inc():
        nonlocal z
        z += 1

    def root(x):
        inc()
        return x + z

    y = compile(root)(G.ones(2))
    return y, z


# CELL-05: two existing functions that share a cell
# expect: graphs=1 breaks=0
def case_cell_05_p1(compile):
    z, k = 1, 2

    def read():
        nonlocal k
        k = z

    def write_then(f, x):
        nonlocal z
        z = 3
        f()
        return x.cos()

    x = G.arange(3.0)
    y = compile(lambda x: write_then(read, x))(x)
    return y, z, k


# CELL-08: no guard on cells: a second closure of the same code is a hit
# expect: graphs=1 breaks=0
def case_cell_08_fresh_closures_hit(compile):
    def make(n):
        def h(x):
            return x * n

        return h

    f = compile(lambda h, x: h(x) + 1)
    return f(make(2), G.ones(2)), f(make(2), G.ones(2))


# expect: graphs=2 breaks=0
def case_closure_contents_are_guarded(compile):
    n = 2

    def set_n(v):
        nonlocal n
        n = v

    f = compile(lambda x: x * n)
    a = f(G.ones(2))
    set_n(5)
    return a, f(G.ones(2)), f(G.ones(2))


# CELL-10: a cell that two escaping functions capture is built once
# expect: graphs=1 breaks=0
def case_cell_10_escaping_functions_share_a_cell(compile):
    def root(x):
        n = 1

        def get():
            return n

        def put(v):
            nonlocal n
            n = v

        return x + n, get, put

    y, get, put = compile(root)(G.ones(2))
    before = get()
    put(9)
    return y, before, get(), get.__closure__[0] is put.__closure__[0]


# SIDE-23: an escaping closure over a new cell that holds a tensor, and a recursive one
# expect: graphs=1 breaks=0
def case_escaping_recursive_closure(compile):
    def root(x):
        y = x * 2

        def down(n, extra=5, *, k=1):
            return y + extra if n == 0 else down(n - 1) + k

        return down

    h = compile(root)(G.ones(2))
    return h(3), h.__defaults__, h.__kwdefaults__, h.__name__


# CELL-15: an unbound cell raises what Python raises
# expect: graphs=0 breaks=1
def case_cell_15_unbound(compile):
    def root(x):
        def g():
            return a

        r = g()
        a = 1
        return x + r

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_argument_captured_by_closure(compile):
    def root(x, n):
        def g(y):
            return y * n + x

        n = n + 1
        return g(x)

    return compile(root)(G.ones(2), 3)


# expect: graphs=1 breaks=0
def case_loop_closures_late_binding(compile):
    def root(x):
        fs = [lambda v: v * i for i in range(3)]
        return [f(x) for f in fs]

    return compile(root)(G.ones(2))


# SIDE-06: a global write is seen later in the region, and after it
# expect: graphs=1 breaks=0
def case_side_06_global_write(compile):
    global COUNT
    COUNT = 1

    def bump():
        global COUNT
        COUNT += 1

    def root(x):
        bump()
        bump()
        return x * COUNT

    y = compile(root)(G.ones(2))
    return y, COUNT


# expect: graphs=1 breaks=0
def case_partial_is_a_break_or_a_graph(compile):
    def h(x, n):
        return x * n

    return compile(lambda x, n: h(x, n=n))(G.ones(2), 4)


# expect: graphs=1 breaks=0
def case_starargs_through_layers(compile):
    def inner(*args, **kwargs):
        return args[0] * kwargs["k"] + sum(args[1:])

    def outer(*args, **kwargs):
        return inner(*args, 1, **kwargs)

    return compile(lambda x: outer(x, 2, k=3))(G.ones(2))


# expect: graphs=1 breaks=0
def case_no_grad_block_and_decorator(compile):
    w = G.ones(2, requires_grad=True)

    @G.no_grad()
    def h(x):
        return x * w

    def root(x):
        with G.no_grad():
            a = x * w
            with G.enable_grad():
                b = x * w
        return a, b, h(x), x * w, G.is_grad_enabled()

    return compile(root)(G.ones(2))


# expect: graphs=2 breaks=0
def case_grad_mode_is_guarded(compile):
    w = G.ones(2, requires_grad=True)
    f = compile(lambda x: x * w)
    a = f(G.ones(2))
    with G.no_grad():
        b = f(G.ones(2))
    return a, b, f(G.ones(2))


# expect: graphs=1 breaks=0
def case_with_on_other_objects(compile):
    class Manager:
        def __enter__(self):
            return 2

        def __exit__(self, *e):
            return False

    m = Manager()

    def root(x):
        with m as n:
            return x * n

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_gradients_through_compiled(compile):
    w = G.arange(3.0).requires_grad_()
    x = G.arange(3.0).requires_grad_()
    y = compile(lambda x, w: (x * w).tanh().sum())(x, w)
    y.backward()
    return y, x.grad, w.grad


# expect: graphs=1 breaks=0
def case_compiled_calls_compiled(compile):
    inner = compile(lambda x: x * 3)
    outer = compile(lambda x: inner(x) + 1)
    return outer(G.ones(2))


# expect: graphs=1 breaks=0
def case_set_grad_enabled(compile):
    w = G.ones(2, requires_grad=True)

    def root(x):
        with G.set_grad_enabled(False):
            a = x * w
            with G.set_grad_enabled(True):
                b = x * w
        off = G.no_grad()
        with G.enable_grad(), off:
            c = x * w
        return a, b, c, x * w, a.requires_grad, c.requires_grad

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_grad_mode_left_changed(compile):
    def root(x):
        G.set_grad_enabled(False)
        return x + 1

    y = compile(root)(G.ones(2))
    mode = G.is_grad_enabled()
    G.set_grad_enabled(True)
    return y, mode


# expect: graphs=1 breaks=0
def case_return_inside_no_grad(compile):
    w = G.ones(2, requires_grad=True)

    def root(x):
        with G.no_grad():
            return x * w

    return compile(root)(G.ones(2)), G.is_grad_enabled()


# expect: graphs=1 breaks=0
def case_mutable_default(compile):
    def h(x, seen=[]):
        seen.append(len(seen))
        return x + len(seen)

    f = compile(lambda x: (h(x), h(x)))
    return f(G.ones(2)), h.__defaults__
