# SPDX-License-Identifier: Apache-2.0
"""Programs whose bytecode differs most between CPython versions: comprehensions, slices, truth,
calls, super, formats.

One source for all versions: a case that needs a condition on the version is a bug of the decoder.
"""

import gramme as G


# CELL-14: since 3.12 this frame has a variable n of the comprehension and a cell n
# expect: graphs=1 breaks=0
def case_cell_14_comprehension_variable_beside_a_cell(compile):
    def root(x):
        n = [n * 2 for n in range(3)]

        def tail():
            return n[-1]

        return x + tail(), tail

    y, tail = compile(root)(G.ones(2))
    return y, tail()


# CELL-14: the comprehension's own variable is the cell, a new one for each element
# expect: graphs=1 breaks=0
def case_cell_14_cell_of_a_comprehension(compile):
    def root(x, n):
        fs = [lambda v, k=k: v * n + k for k in range(2)]
        last = [lambda: j for j in range(4)]
        j = n
        return [f(x) for f in fs], [g() for g in last], j, last[0]

    *rest, g = compile(root)(G.ones(2), 3)
    return rest, g()


# expect: graphs=1 breaks=0
def case_comprehension_restores_what_it_hides(compile):
    def root(x, i):
        a = [i for i in range(3)]
        b = {i: j for i in range(2) for j in range(2) if i <= j}
        c = {i + j for i in range(2) for j in [i for i in range(2)]}
        d = [[i + j for i in range(j)] for j in range(3)]
        return x * i, a, b, sorted(c), d

    return compile(root)(G.ones(2), 7)


# expect: graphs=1 breaks=1
def case_comprehension_leaves_an_unbound_name_unbound(compile):
    def root(x):
        a = [later for later in range(2)]
        y = x + a[1] + later
        later = 1
        return y

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_comprehension_inside_a_with_block(compile):
    def root(x):
        with G.no_grad():
            ys = [x * i for i in range(3)]
        return ys, x * 2

    return compile(root)(G.ones(2, requires_grad=True))


# expect: graphs=1 breaks=0
def case_comprehension_inside_a_try_block(compile):
    def root(x):
        try:
            ys = [x * i for i in range(3)]
        except ValueError:
            return None
        return ys

    return compile(root)(G.ones(2))


# expect: graphs=0 breaks=1
def case_maybe_unbound_variable(compile):
    def root(x, flag):
        if flag:
            y = x * 2
        return y

    return compile(root)(G.ones(2), False)


# expect: graphs=1 breaks=0
def case_slices_load_and_store(compile):
    def root(x, items, a, b):
        part = x[a:b]
        items[a:b] = [a, b, a]
        y = x.clone()
        y[:a] = 5
        y[b:] = part[:1]
        return part, y, items[a:], items[:-1], (1, 2, 3)[a:b], "abcdef"[a:b], items[::2]

    items = [1, 2, 3, 4]
    return compile(root)(G.arange(6.0), items, 1, 3), items


# expect: graphs=1 breaks=0
def case_truth_of_everything(compile):
    def root(x, values):
        out = []
        for v in values:
            out.append(1 if v else 0)
            out.append(0 if not v else 1)
            out.append(v and 2)
            out.append(v or 3)
            out.append(bool(v))
            n = 0
            while v and n < 2:
                n += 1
            else:
                out.append(n)
            if v is None or v is not None and not v:
                continue
            out.append(v)
        return x * len(out), out

    return compile(root)(
        G.ones(2), [0, 1, 0.0, 2.5, "", "a", None, [], [0], (), (1,), {}, {1: 2}, True, False]
    )


# expect: graphs=1 breaks=0
def case_comparisons_that_branch(compile):
    def root(x, a, b):
        out = [a < b <= 3, a == b != 4, 0 < a, not a > b, a in (1, 2), b not in [1], x is None]
        if a < b < 9 and not b <= a:
            x = x + 1
        if a != b or x is None:
            x = x * 2
        return x, out

    return compile(root)(G.ones(2), 1, 2)


def collect(*args, **kwargs):
    return args, kwargs


# expect: graphs=1 breaks=0
def case_calls_of_every_form(compile):
    def root(x, f, n):
        a = f(x, n, k=1 if n else 2)
        b = f(*[n, x], **{"k": n}, j=x if n else None)
        c = f(f(n), *(1, 2), q=f(k=f()))
        d = (f if n else None)(n, *())
        e = f(x.sum(dim=0, keepdim=True), k=x.mul(2).add(other=1))
        return a, b, c, d, e, x.reshape(-1, *[1]).shape

    return compile(root)(G.arange(3.0), collect, 3)


class Base:
    def __init__(self, w):
        self.w = w

    def scale(self, x, *, by=1):
        return x * self.w * by

    def twice(self, x):
        return self.scale(x, by=4)


class Derived(Base):
    def scale(self, x, *, by=2):
        return super().scale(x, by=by) + super(Derived, self).scale(x)

    def twice(self, x):
        return (lambda s: super(Derived, s).twice(x))(self) + super().twice(x)

    def parts(self):
        method = super().scale
        return super().scale, method


# expect: graphs=1 breaks=0
def case_super_in_every_form(compile):
    def root(o, x):
        first, second = o.parts()
        return o.scale(x), o.twice(x), first(x), second(x, by=3)

    return compile(root)(Derived(G.full((2,), 3.0)), G.arange(2.0))


# expect: graphs=1 breaks=0
def case_formats(compile):
    def root(x, n, s):
        return (
            x * len(f"{n}{s!r}"),
            f"{s}|{s!r}|{s!s:>4}|{s!a}|{n:{n}}|{n:>3}|{n + 1=}",
            f"{s}",
            f"{'a'}{n!r:>5}",
        )

    return compile(root)(G.ones(2), 7, "é")


# expect: graphs=1 breaks=0
def case_unpacking_and_signs(compile):
    def root(x, items):
        a, *b, c = items
        (d, e), f = (a, c), [*b, *items]
        t = (*b, a)
        return x * +a, -c, ~a, b, d, e, f, t, {*b, a} == {1, 2, 3}, {**{"a": a}, "b": c}

    return compile(root)(G.ones(2), [1, 2, 3, 4])


# expect: graphs=1 breaks=0
def case_functions_with_all_parts_escape(compile):
    def root(x, n):
        def f(a, b=n, *args, c: int = 3, d=x, **kw) -> "text":
            return a, b, args, c, n, kw

        return x + n, f, lambda v=n: v

    y, f, g = compile(root)(G.ones(2), 5)
    return (
        y,
        f(1),
        f(1, 2, 3, c=4, z=5),
        f.__annotations__,
        f.__defaults__,
        list(f.__kwdefaults__),
        g(),
        f.__name__,
    )


# expect: graphs=1 breaks=0
def case_loops_end_where_they_should(compile):
    def root(x, n):
        out = []
        for i in range(n):
            for j in range(n):
                if j == i:
                    break
                if j > 5:
                    return None
                out.append((i, j))
            else:
                out.append("else")
        for i in ():
            out.append("never")
        else:
            out.append(i)
        while True:
            n -= 1
            if n < 0:
                break
        return x * n, out

    return compile(root)(G.ones(2), 3)


def early(x, n):
    for i in range(n):
        for v in [x, i]:
            if i == 2:
                return v
    return None


# expect: graphs=1 breaks=0
def case_return_from_inside_a_loop(compile):
    return compile(lambda x: (early(x, 5) * 2, early(x, 1)))(G.ones(2))


# expect: graphs=1 breaks=0
def case_effects_are_called_in_order(compile):
    def root(x, log, table, seen):
        log.append(x * 2)
        log.extend([1, 2])
        table["a"] = log
        table.update(b=3)
        seen.add(4)
        seen.discard(1)
        log.insert(0, table)
        return [x + 1, (log, {"k": x})]

    log, table, seen = [0], {"z": 1}, {1, 2}
    y = compile(root)(G.ones(2), log, table, seen)
    return y[0], len(log), log[1:], list(table), seen, y[1][0] is log
