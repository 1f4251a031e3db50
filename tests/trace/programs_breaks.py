# SPDX-License-Identifier: Apache-2.0
"""Graph breaks: the code before and behind them is captured, in every kind of place."""

import gramme as G

log = []
scale = 3.0


def note(*values):
    """Not traced: it reads the clock."""
    import time

    time.perf_counter()
    log.append(values)
    return len(values)


def take_log():
    taken = list(log)
    log.clear()
    return taken


# expect: graphs=2 breaks=1
def case_straight_code(compile):
    def root(x):
        y = x + 1
        print("", end="")
        return y * 2

    f = compile(root)
    return f(G.ones(2)), f(G.ones(2)), f(G.arange(2.0))


# expect: graphs=2 breaks=3
def case_two_breaks_with_nothing_between(compile):
    def root(x):
        y = x + 1
        print("", end="")
        a = id(y) == id(y)
        return y * 2, a

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=1
def case_gb_3_break_in_the_middle_of_an_expression(compile):
    def root(x, d):
        return [x, {"k": (x, "a", id(x) != 0, x.sum() + 1)}, d][1:]

    d = {"z": 1}
    a = compile(root)(G.ones(2), d)
    return a, a[1] is d


# expect: graphs=2 breaks=1
def case_gb_3_null_of_the_call_protocol(compile):
    def add(a, b, c=0, *, d=0):
        return a + b + c + d

    f = compile(lambda x: add(x * 2, float(x.sum()), c=x, d=x.max()))
    return f(G.ones(2)), f(G.ones(2))


# expect: graphs=3 breaks=1
def case_gb_4_both_sides_of_a_branch(compile):
    def root(x):
        y = x * 2
        if y.sum() > 0:
            z = y + 1
        else:
            z = y - 1
        return z * y

    f = compile(root)
    return f(G.ones(2)), f(-G.ones(2)), f(G.ones(2))


# expect: graphs=5 breaks=3
def case_gb_4_branches_that_meet_again_share_the_rest(compile):
    def root(x):
        if x.sum() > 0:
            x = x + 1
        else:
            x = x - 1
        print("", end="")
        if x.max() > 10:
            return x
        return -x

    f = compile(root)
    return f(G.ones(2)), f(-G.ones(2))


# expect: graphs=5 breaks=2
def case_gb_4_and_or_of_tensors(compile):
    def root(x, y):
        a = x.sum() > 2 and y.sum() > 2
        return a, x + y

    f = compile(root)
    return f(G.ones(3), G.ones(3)), f(G.ones(2), G.ones(2)), f(G.ones(3), G.ones(2))


# expect: graphs=2 breaks=1
def case_gb_4_while_on_a_tensor(compile):
    def root(x):
        n = 0
        while x.sum() < 50:
            x = x * 2 + 1
        return x

    f = compile(root)
    return f(G.ones(2)), f(G.ones(2) * 3)


# expect: graphs=2 breaks=1
def case_loop_hits_in_every_round(compile):
    def root(x):
        for _ in range(30):
            x = x + 1
            print("", end="")
        return x

    return compile(root)(G.ones(2))


# expect: graphs=3 breaks=1
def case_loop_over_a_list_with_rest(compile):
    def root(xs, y):
        for x in xs:
            y = y + x
            note(y)
        return y * 10

    f = compile(root)
    return f([G.ones(2), G.arange(2.0), G.ones(2)], G.zeros(2)), take_log()


# expect: graphs=2 breaks=1
def case_nested_loops_with_enumerate_zip_and_items(compile):
    def root(x, d):
        for i, (a, b) in enumerate(zip([1, 2], [3, 4])):
            for k, v in d.items():
                x = x + v * a
                if i == 1:
                    note(k, b)
                    break
        return x + 1

    f = compile(root)
    d = {"p": G.ones(2), "q": G.arange(2.0)}
    return f(G.ones(2), d), take_log()


# expect: graphs=2 breaks=1; 3.12: any
def case_iterators_keep_their_place(compile):
    def root(x, xs, d):
        its = [
            iter(xs),
            reversed(xs),
            iter("abc"),
            iter(range(9)),
            reversed(range(9)),
            enumerate(xs, 5),
            zip(xs, xs),
            iter(d),
            iter(d.values()),
            map(lambda v: v * 2, xs),
            filter(None, xs),
            iter(()),
        ]
        firsts = [next(it, "end") for it in its]
        y = x + len(firsts)
        print("", end="")
        return y, firsts, [list(it) for it in its], y * 2

    return compile(root)(G.ones(2), [1, 2, 3], {"a": 1, "b": 2})


# expect: graphs=4 breaks=2; 3.12: graphs=3 breaks=1
def case_break_in_a_comprehension(compile):
    def root(x):
        ys = [note(i) + x for i in range(3)]
        return ys, x * 2

    return compile(root)(G.ones(2)), take_log()


# expect: graphs=4 breaks=1
def case_gb_5_break_in_an_inlined_function(compile):
    def inner(x, n):
        y = x * n
        print("", end="")
        return y + 1

    def middle(x):
        return inner(x + 1, 3) * 2

    f = compile(lambda x: middle(x) - x)
    return f(G.ones(2)), f(G.ones(2))


# expect: graphs=3 breaks=1
def case_gb_5_break_in_init(compile):
    class Box:
        def __init__(self, v):
            self.v = v + 1
            print("", end="")
            self.w = v * 2

    def root(x):
        b = Box(x)
        return b.v + b.w, b

    return compile(root)(G.ones(2))


# expect: graphs=4 breaks=1
def case_gb_5_break_in_a_method_with_super(compile):
    class A:
        def step(self, x):
            print("", end="")
            return x + self.k

    class B(A):
        k = 2

        def step(self, x):
            return super().step(x * 2) * 3

    b = B()
    return compile(lambda x: b.step(x) - 1)(G.ones(2))


# expect: graphs=2 breaks=1
def case_super_behind_a_break(compile):
    class A:
        def step(self, x):
            return x + self.k

    class B(A):
        k = 2

        def step(self, x):
            y = x * 2
            print("", end="")
            return super().step(y)

    return compile(B().step)(G.ones(2))


# expect: graphs=2 breaks=1
def case_gb_3_grad_mode_block(compile):
    w = G.ones(2, requires_grad=True)

    def root(x):
        with G.no_grad():
            a = x * w
            print("", end="")
            b = x * w
        c = x * w
        return a, b, c, a.requires_grad, b.requires_grad, c.requires_grad, G.is_grad_enabled()

    f = compile(root)
    return f(G.ones(2)), G.is_grad_enabled(), f(G.ones(2))


# expect: graphs=0 breaks=1
def case_gb_3_raise_in_a_grad_mode_block(compile):
    def root(x):
        with G.no_grad():
            int("no number")
        return x

    f = compile(root)
    try:
        f(G.ones(2))
    except ValueError as error:
        return str(error), G.is_grad_enabled()


# expect: graphs=2 breaks=1
def case_live_cells_are_shared(compile):
    def root(x):
        n = 1

        def up(k):
            nonlocal n
            n += k
            return n

        y = x + up(2)
        print("", end="")
        z = x * up(3)
        return y, z, n, up

    f = compile(root)
    y, z, n, up = f(G.ones(2))
    return y, z, n, up(1), up(1)


# expect: graphs=2 breaks=1
def case_argument_in_a_cell(compile):
    def root(x, n):
        def get():
            return n

        y = x + get()
        print("", end="")
        n = n + 1
        return y * get()

    return compile(root)(G.ones(2), 3)


# expect: graphs=2 breaks=1
def case_side_effects_come_before_the_break(compile):
    def root(x, xs, d, seen):
        xs.append(x + 1)
        d["k"] = len(xs)
        note(len(xs), d["k"], xs[-1])
        xs.append(x * 2)
        return xs[0] + 1

    f = compile(root)
    xs, d = [G.ones(2)], {}
    return f(G.ones(2), xs, d, log), xs, d, take_log()


# expect: graphs=2 breaks=1
def case_inplace_changes_before_and_behind(compile):
    def root(x):
        v = x[0]
        x.add_(1)
        print("", end="")
        v.mul_(2)
        return v, x * 1

    x = G.zeros(2, 2)
    return compile(root)(x), x


# expect: graphs=2 breaks=1
def case_objects_keep_identity_over_the_break(compile):
    def root(x):
        a = [x]
        b = (a, {"a": a})
        y = x + 1
        print("", end="")
        return a is b[0] is b[1]["a"], b, y + 1

    return compile(root)(G.ones(2))


# expect: graphs=2 breaks=1
def case_gradients_flow_through_breaks(compile):
    def root(x, w):
        y = (x * w).tanh()
        print("", end="")
        return (y * w).sum()

    w = G.ones(3, requires_grad=True)
    compile(root)(G.arange(3.0), w).backward()
    return w.grad


# expect: graphs=2 breaks=2
def case_unbound_locals_stay_unbound(compile):
    def root(x, flag):
        y = x + 1
        print("", end="")
        if flag:
            late = y
        y = y * 2
        return late

    return compile(root)(G.ones(2), False)


# expect: graphs=1 breaks=2
def case_attribute_error_behind_a_break(compile):
    def root(x):
        y = x + 1
        print("", end="")
        return y.no_such_attribute

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=1
def case_locals_sees_all_variables(compile):
    def root(x):
        y = x + 1
        dead = 5
        return sorted(locals()), y

    return compile(root)(G.ones(2))


# expect: graphs=2 breaks=1
def case_globals_between_the_halves(compile):
    def root(x):
        global scale
        scale = 4.0
        y = x * scale
        note(scale)
        return y + scale

    try:
        return compile(root)(G.ones(2)), scale, take_log()
    finally:
        globals()["scale"] = 3.0


# expect: graphs=2 breaks=1
def case_many_locals(compile):
    space = {"G": G}
    lines = (
        ["def root(x):"] + [f"    v{i} = x + {i}" for i in range(300)] + ["    print('', end='')"]
    )
    exec("\n".join(lines + ["    return " + " + ".join(f"v{i}" for i in range(300))]), space)
    return compile(space["root"])(G.ones(2))


# expect: graphs=2 breaks=1
def case_default_and_keyword_arguments_of_the_root(compile):
    def root(x, *rest, k=2, **named):
        print("", end="")
        return x * k, rest, named

    f = compile(root)
    return f(G.ones(2), 1, 2, k=3, z=4), f(G.ones(2))


class Suppressing:
    """A context manager of the user's."""

    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("out", kind and kind.__name__, str(value)))
        return self.swallow


# CELL-14: program P2
# expect: graphs=1 breaks=1
def case_cell_14_p2_break_before_the_comprehension(compile):
    def root(x):
        print("", end="")
        n = [n * 2 for n in range(3)]

        def tail():
            return n[-1]

        return x + tail()

    f = compile(root)
    return f(G.ones(2)), f(G.arange(2.0))


# CELL-14, BC-2: program P2 with the break inside the comprehension: there the cell of `n` is on the
# stack since 3.12
# expect: graphs=5 breaks=2; 3.12: graphs=4 breaks=1
def case_cell_14_p2_break_inside_the_comprehension(compile):
    def root(x):
        y = x * 3
        n = [note(n * 2) + n + y for n in range(3)]

        def tail():
            return n[-1]

        return x + tail()

    f = compile(root)
    return f(G.ones(2)), take_log(), f(G.ones(2)), take_log()


# CELL-14, BC-2: before and after, the name is a cell with another value; variables that the
# comprehension hides are unbound
# expect: graphs=4 breaks=5; 3.12: graphs=5 breaks=2
def case_cell_14_comprehensions_that_hide_cells_break(compile):
    def root(x, n):
        def get():
            return n

        a = [note(n) * n * x for n in range(2)]
        n = n + 1
        b = [[note(n) + m for m in range(n)] for n in range(3)]
        c = x + get()
        return c, a, b, n

    f = compile(root)
    with G._dynamo.config.patch(
        automatic_dynamic_shapes=False
    ):  # n is a constant of each call's graphs
        return f(G.ones(2), 5), take_log(), f(G.ones(2), 6), take_log()


# BC-2: the comprehension's own variable is a cell
# expect: graphs=1 breaks=2; 3.12: graphs=1 breaks=1
def case_bc_2_closures_of_a_comprehension_that_breaks(compile):
    def root(x, k):
        fs = [(note(j), lambda: x * (j + k)) for j in range(3)]
        return [f() for _, f in fs], k

    return compile(root)(G.ones(2), 2), take_log()


# BC-2: what was bound before the comprehension, what was not, and what the comprehension stores to
# expect: graphs=1 breaks=6; 3.12: graphs=1 breaks=3
def case_bc_2_break_in_every_kind_of_comprehension(compile):
    def root(x, i):
        a = [note(i) for i in range(2)]
        b = {note(i): j for i in range(2) for j in range(2) if j >= i}
        c = {i + note(j) for i in range(2) for j in [i for i in range(2)]}
        try:
            later
        except NameError as error:
            e = str(error)
        later = x
        return x * i, a, b, sorted(c), e

    return compile(root)(G.ones(2), 7), take_log()


# BC-2: the iterator raises in its midst, and the handler restores the hidden variable
# expect: graphs=2 breaks=3; 3.12: graphs=2 breaks=1
def case_bc_2_raise_in_a_comprehension_behind_a_break(compile):
    def root(x, i):
        y = x + 1
        try:
            a = [note(6 // i) + i for i in [2, 1, 0]]
        except ZeroDivisionError as error:
            a = str(error)
        return y * i, a

    return compile(root)(G.ones(2), 7), take_log()


# expect: graphs=2 breaks=1
def case_break_in_a_with_block_of_the_users(compile):
    def root(x, log):
        y = x + 1
        with Suppressing(log) as manager:
            z = y * 2
            print("", end="")
            z = z + 1
        return z * y, manager.swallow

    log = []
    f = compile(root)
    return f(G.ones(2), log), log


# expect: graphs=2 breaks=1
def case_raise_in_a_with_block_behind_a_break(compile):
    def root(x, log):
        y = x + 1
        with Suppressing(log, True):
            print("", end="")
            y = y * 2
            int("no number")
        return y * 3

    log = []
    return compile(root)(G.ones(2), log), log


# expect: graphs=2 breaks=1
def case_break_in_a_try_block(compile):
    def root(x, d):
        y = x + 1
        try:
            print("", end="")
            d["never"]
        except KeyError as error:
            y = y * 2 + len(error.args)
        finally:
            y = y - 1
        return y

    return compile(root)(G.ones(2), {})


# expect: graphs=2 breaks=1
def case_break_in_a_finally_block(compile):
    def root(x):
        y = x + 1
        try:
            y = y * 2
        finally:
            print("", end="")
            y = y - 1
        return y

    return compile(root)(G.ones(2))


# expect: graphs=4 breaks=2
def case_break_in_a_loop_in_a_with_block_in_a_callee(compile):
    def inner(x, log):
        for i in range(2):
            with Suppressing(log):
                x = x * 2
                print("", end="")
                x = x + i
        return x

    def root(x, log):
        return inner(x + 1, log) * 3

    log = []
    return compile(root)(G.ones(2), log), log
