# SPDX-License-Identifier: Apache-2.0
"""Programs with containers, builtin functions, itertools, operator, texts, unpacking, subscripts of
tensors."""

import collections
import functools
import itertools
import math
import operator

import gramme as G


# SE-2: exact in contents and order, with a greatest length
# expect: graphs=1 breaks=0
def case_se_2_deque(compile):
    q, bounded = collections.deque([1, 2]), collections.deque([1, 2, 3], maxlen=3)

    def root(q, b, x):
        q.append(x)
        q.appendleft(0)
        q.rotate(1)
        b.extend([4, 5])
        b.appendleft("front")
        first, last = q.popleft(), b.pop()
        new = collections.deque((1, 2, 3), 2)
        new.extendleft("ab")
        out = [
            first,
            last,
            len(q),
            2 in q,
            q[-1],
            list(b),
            b.maxlen,
            new,
            [v for v in new],
            bool(q),
            new == collections.deque("ba"),
        ]
        try:
            collections.deque().pop()
        except IndexError as e:
            out.append(str(e))
        try:
            for v in new:
                new.append(v)
        except RuntimeError as e:
            out.append(str(e))
        return x * 2, out

    return compile(root)(q, bounded, G.ones(2)), list(q), list(bounded), bounded.maxlen


# expect: graphs=2 breaks=0
def case_deque_guards(compile):
    f = compile(lambda q, x: (q[0], len(q), x + 1))
    return (
        f(collections.deque([1, 2]), G.ones(2)),
        f(collections.deque([1, 2, 3]), G.ones(2)),
        f(collections.deque([5, 2]), G.ones(2)),
        f(collections.deque([1, 7]), G.ones(2)),
    )


# expect: graphs=1 breaks=0
def case_sorting(compile):
    def root(x):
        words = ["pear", "fig", "apple", "kiwi"]
        rows = [{"n": 3, "t": x}, {"n": 1, "t": x + 1}, {"n": 3, "t": x + 2}]
        words.sort(key=len, reverse=True)
        return (
            words,
            sorted(words, key=lambda w: (len(w), w)),
            sorted(rows, key=lambda r: r["n"]),
            max(rows, key=lambda r: r["n"])["t"],
            min(words, key=len, default=1),
            sorted(rows, key=operator.itemgetter("n")) if False else 0,
            sorted({3, 1, 2}),
            sorted("bca"),
            sorted([(2, "b"), (1, "z"), (2, "a")], reverse=True),
            min(3, 1, 2),
            max((), default="none"),
        )

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_sorting_an_argument(compile):
    xs = [3, 1, 2]

    def root(xs, x):
        xs.sort(key=lambda v: -v)
        return x + xs[0]

    return compile(root)(xs, G.ones(2)), xs


# expect: graphs=1 breaks=0
def case_set_algebra(compile):
    def root(s, x):
        a, b = {1, 2, 3}, frozenset((3, 4))
        a.remove(1)
        a.update([7, 8])
        c = s | {9}
        out = [
            5 in c,
            len(c),
            a & b == {3},
            (a - b) == {2, 7, 8},
            a ^ b == {2, 4, 7, 8},
            {2} < a,
            a.issuperset([7]),
            a.isdisjoint({0}),
            sorted(a.union(b, [0])),
            a.copy() == a,
            b | b == b,
            list({"k"}),
        ]
        try:
            a.remove(55)
        except KeyError as e:
            out.append(e.args)
        s.add(11)
        s.discard(1)
        return x + len(s), out

    s = {1, 2}
    return compile(root)(s, G.ones(2)), sorted(s)


# The order of an existing set is seen, and guarded
# expect: graphs=2 breaks=0
def case_set_iteration(compile):
    f = compile(lambda s, x: (list(s), [v for v in frozenset("a")], x + 1))
    a, b = {8, 16, 0}, {16, 0, 8}
    for order in ((0, 8, 16), (16, 8, 0)):
        b = set(order)
        if list(b) != list(a):
            break
    return f(a, G.ones(2)), f(set(a) | {3}, G.ones(2)), f(a, G.ones(2))


# CPython's own tables are followed through what changes them
# expect: graphs=1 breaks=0
def case_order_of_changed_sets(compile):
    def root(s, x):
        new, out = {8, 16, 0, "a"}, []
        new.discard(16)
        new.update({24, 32}, ["b"])
        s ^= {2, 64}
        s.difference_update([1], (9,))
        s.add(72)
        both = (s | new).intersection(range(0, 80, 8))
        for v in new | frozenset("c"):
            out.append(v)
        both.add(3)
        return x + 1, out, list(s), list(both), both, s - {64}, {8, 0}.copy()

    s = {1, 2}
    return compile(root)(s, G.ones(2)), list(s)


# What leaves has the gaps of what was taken out, and its next pop begins where it would: what is
# added or taken later goes where it goes in plain Python
# expect: graphs=1 breaks=0
def case_sets_with_gaps_leave(compile):
    def root(s, x):
        new, many, words = {8, 16, 0, 24}, set(range(0, 320, 8)), {"a", "b", "c", "d"}
        new.discard(16)
        many.pop()
        many.remove(64)
        many -= {72, 80}
        for w in sorted(words):
            if w > "b":
                words.remove(w)
        s.remove(8)
        empty = set()
        empty.add(1)
        empty.remove(1)
        return x + 1, new, many, words, s | {64}, empty, {1, 2, 3}.difference([1])

    s = {8, 0, 16}
    y, *sets = compile(root)(s, G.ones(2))
    seen = [list(s) for s in sets]
    for s in sets:
        s.update({40, 32, 128})
        s.discard(0)
        seen.append((s.pop(), list(s)))
    return y, seen


# expect: graphs=1 breaks=0
def case_sets_changed_by_several(compile):
    def root(s, x):
        new = set(range(0, 80, 8))
        new.intersection_update(range(0, 64, 8), {8, 16, 24, 40}, (40, 24, 8))
        new.difference_update([8], (9,), {3: 1})
        s.intersection_update([1, 2, 3], {3, 2})
        a, b = {1, 2, 3}, {1, 2, 3}
        a.intersection_update(v for v in (3, 4, 1))
        b.symmetric_difference_update(v for v in (3, 4, 3))
        a.update([7], {8: 1}, "q")
        return x + 1, new, a, b

    s = {1, 2, 3, 4}
    return compile(root)(s, G.ones(2)), list(s)


# The second is asked before the set is changed
# expect: any
def case_a_set_that_keeps_what_it_has_as_an_argument_is_no_iterable(compile):
    def root(s, x):
        try:
            s.intersection_update([1], 5)
        except TypeError as e:
            return x + 1, str(e), s
        return x

    def looked_at(s, x):
        s.intersection_update(v for v in (1, 2, 3) if s.add(v * 7) is None)
        s.difference_update(len(s) for v in (1, 2, 3))
        return x + 1, s

    return compile(root)({1, 2}, G.ones(2)), compile(looked_at)({1, 2, 14}, G.ones(2))


# expect: breaks=0
def case_dicts_from_the_end(compile):
    def root(d, x):
        out = [list(reversed(d)), list(reversed(d.items())), d.__reversed__(), reversed(d.values())]
        it = reversed(d)
        out.append(next(it))
        for k, v in reversed(d.items()):
            d[k] = v + 1
        return x + 1, out, it, [1, 2].__reversed__()

    y, (keys, items, again, values), it, numbers = compile(
        lambda d, x: (lambda r: (r[0], r[1][:4], r[2], r[3]))(root(d, x))
    )({"a": 1, "b": 2, "c": 3}, G.ones(2))
    kinds = [type(v).__name__ for v in (again, values, it, numbers)]
    return y, keys, items, kinds, list(again), list(values), list(it), list(numbers)


# expect: any
def case_dicts_that_change_as_they_are_read_from_the_end(compile):
    def grow(d):
        for k in reversed(d):
            d[k * 2] = 1

    def shrink(d):
        for k in reversed(d):
            d.pop("a", None)

    def ended(d):
        it = reversed(d)
        for k in it:
            pass
        d["q"] = 1
        return next(it, "over")

    results = []
    for change in (grow, shrink, ended):

        def root(d, x):
            try:
                return x + 1, change(d)
            except RuntimeError as e:
                return x + 2, str(e)

        d = {"a": 1, "b": 2}
        results.append((compile(root)(d, G.ones(2)), list(d)))
    return results


# Each element with its type: 1, 1.0 and True are equal
# expect: graphs=4 breaks=0
def case_sets_of_more_than_words_and_numbers(compile):
    f = compile(
        lambda seen, x: (
            x + len(seen),
            (1, 2) in seen,
            1.5 in seen,
            None in seen,
            sorted(map(repr, seen)),
            seen.add((3, 4.0)),
            seen.discard(b"b"),
        )
    )
    sets = [
        {(1, 2), 1.5, None, b"b"},
        {(1, 2), 1.5, None, b"b"},
        {(1.0, 2), 1.5, None, b"b"},
        {True, 2.5},
        {1, 2.5},
    ]
    return [f(s, G.ones(2)) for s in sets], [sorted(map(repr, s)) for s in sets]


# As a cache by shape has them
# expect: graphs=6 breaks=0
def case_dicts_with_tuples_for_keys(compile):
    def root(cache, x):
        key = (tuple(x.shape), 1.5)
        seen = key in cache
        if not seen:
            cache[key] = len(cache)
        return x + cache[key], seen, cache.get((1, 2)), [k for k in cache]

    f, cache = compile(root), {(1, None): "n"}
    return (
        [f(cache, G.ones(n)) for n in (2, 3, 2, 3, 2)],
        cache,
        f({(1, 2): 5}, G.ones(2)),
        f({(1, 2): 5}, G.ones(2)),
        f({(1.0, 2): 5}, G.ones(2)),
    )


# A set is looked for as a frozenset is
# expect: graphs=1 breaks=0
def case_sets_in_sets(compile):
    def root(s, x):
        families = {frozenset({1, 2}), frozenset("a"), 3}
        out = [s in families, {"a"} in families, {3} in families]
        families.discard(s)
        try:
            families.remove({5})
        except KeyError as e:
            out.append(e.args)
        return x + 1, out, len(families)

    return compile(root)({1, 2}, G.ones(2))


# expect: graphs=1 breaks=0
def case_popping_from_sets(compile):
    def root(todo, x):
        seen, local = [], {40, 8, 0, 16}
        while todo:
            v = todo.pop()
            seen.append(v)
            if v < 20:
                todo.update({v * 2 + 20, v * 3 + 20})
        while len(local) > 1:
            seen.append(local.pop())
        local.clear()
        try:
            local.pop()
        except KeyError as e:
            seen.append(e.args)
        return x + len(seen), seen

    todo = {3, 11, 16}
    return compile(root)(todo, G.ones(2)), todo.add(1), todo.add(9), todo.pop()


# Where the last pop of an existing set ended is guarded
# expect: graphs=2 breaks=0
def case_popping_where_another_pop_ended(compile):
    f = compile(lambda s, x: (s.pop(), x + 1))
    a, b = {0, 1, 2}, {0, 1, 2}
    b.pop()
    b.pop()
    b.update((0, 1))
    return f(a, G.ones(2)), f(b, G.ones(2)), a, b


# expect: graphs=1 breaks=0
def case_methods_of_deques(compile):
    def root(d, full, x):
        out = [
            d.index(1, 2),
            d.copy(),
            7 in d,
            str(d),
            list(reversed(d)),
            d + full,
            2 * full,
            len(d.copy() * 2),
        ]
        d.insert(1, "i")
        d.insert(-100, "first")
        d.insert(100, 9)
        d.remove(2)
        d += (5, 6)
        full *= 3
        for call in (
            lambda: d.remove("n"),
            lambda: d.index(1, 5),
            lambda: full.insert(0, 1),
            lambda: next(it),
        ):
            it = reversed(d)
            next(it)
            d.append(0)
            try:
                call()
            except (ValueError, IndexError, RuntimeError) as e:
                out.append((type(e), e.args))
        return x + 1, out, reversed_all(d)

    def reversed_all(d):
        return [v for v in reversed(d)]

    d, full = collections.deque([3, 1, 2, 1]), collections.deque("ab", 2)
    return compile(root)(d, full, G.ones(2)), d, full


# expect: graphs=1 breaks=0
def case_index_with_bounds(compile):
    def root(xs, x):
        out = [xs.index(1, 2), xs.index(2, -2), ("a", 1, 1).index(1, 2, 9), xs.index(1, -100, 100)]
        for call in (lambda: xs.index(3, 1), lambda: xs.index(1, 2, 3), lambda: (1, 2).index(1, 1)):
            try:
                call()
            except ValueError as e:
                out.append(e.args)
        return x + 1, out

    return compile(root)([3, 1, 2, 1], G.ones(2))


# expect: graphs=1 breaks=0
def case_itertools(compile):
    def root(x):
        return (
            x + 1,
            list(itertools.chain([1], "ab", (x,))),
            list(itertools.chain.from_iterable([[1], [2, 3]])),
            list(itertools.islice(itertools.count(5, 2), 3)),
            list(itertools.islice("abcdef", 1, 5, 2)),
            list(itertools.islice(itertools.cycle("ab"), 5)),
            list(itertools.repeat(7, 3)),
            list(itertools.accumulate([x, x + 1, x * 2])),
            list(itertools.accumulate([1, 2, 3], operator.mul, initial=10)),
            list(itertools.product("ab", [x, 1])),
            list(itertools.product([0, 1], repeat=2)),
            list(itertools.combinations("abc", 2)),
            list(itertools.permutations([1, 2])),
            list(itertools.pairwise("abc")),
            list(itertools.zip_longest("ab", [1], fillvalue=x)),
            list(itertools.starmap(pow, [(2, 3), (3, 2)])),
            list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
            list(itertools.dropwhile(lambda v: v < 3, [1, 3, 1])),
            list(itertools.filterfalse(None, [0, 1, ""])),
            list(itertools.compress("abc", [1, 0, 1])),
            next(itertools.count(2.5)),
            dict(zip("ab", itertools.count())),
        )

    return compile(root)(G.ones(2))


# expect: graphs=3 breaks=0
def case_tuples_of_itertools_leave_the_region_as_what_they_are(compile):
    def root(x, make, n):
        it = make()
        begun = [next(it, None) for _ in range(n)]
        return x + 1, begun, it

    f = compile(root)

    def results(make, n):
        _, begun, it = f(G.ones(2), make, n)
        return begun, type(it), list(it)

    shared = [[1], [2]]
    _, (first,), it = f(G.ones(2), lambda: itertools.product(shared, "a"), 1)
    return (
        results(lambda: itertools.combinations("abc", 2), 1),
        results(lambda: itertools.permutations([1, 2, 3]), 0),
        first[0] is shared[0],
        next(it)[0] is shared[1],
    )


# expect: graphs=1 breaks=0
def case_iterators_share_their_position(compile):
    def root(x):
        it = iter([1, 2, 3, 4, 5])
        pairs = list(zip(it, it))
        rest = list(it)
        cut = itertools.islice(src := iter("abcdef"), 2)
        return x * 2, pairs, rest, list(cut), next(src), list(src)

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_operator_and_math(compile):
    def root(x):
        return (
            operator.add(x, 1),
            operator.mul(2, 3),
            operator.not_(0),
            operator.is_(None, None),
            operator.contains([1], 1),
            operator.getitem([5, 6], 1),
            operator.lt(1, 2),
            operator.neg(3),
            operator.iadd([1], [2]),
            operator.and_(6, 3),
            operator.truth([]),
            operator.index(True),
            math.sqrt(2.0),
            math.floor(2.5),
            math.gcd(12, 18),
            math.inf,
            math.isclose(1.0, 1.0 + 1e-12),
            math.prod([1, 2, 3]),
            divmod(7, 2),
            round(2.567, 2),
        )

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_texts(compile):
    def root(x, n, name):
        width = 8
        return (
            x + n,
            f"{name}:{n:>{width}.2f}|{n!r}|{name!a}|{name:<5}|{n=}",
            "%s-%03d" % (name, 7),
            "{} {k}".format(name, k=n),
            ",".join(str(v) for v in (1, n)),
            name.upper().center(9, "*"),
            "a,b".split(","),
            name[::-1],
            name.startswith(("x", "n")),
            "é".encode(),
            b"ab" + bytes([1]),
            b"xyz"[1:],
            bytes(2),
            str([1, "q", None]),
            repr((1,)),
            ("a" "b") in name,
            name * 2,
            "x" < "y",
            ascii("é"),
            chr(97),
            f"{x.shape}" if False else "",
        )

    return compile(root)(G.ones(2), 2.5, "nám")


# expect: graphs=1 breaks=0
def case_complex_and_big_numbers(compile):
    def root(x, z, big):
        return (
            x + 1,
            z * 2,
            z.real,
            abs(z),
            (1 + 2j) ** 2,
            z == 3 + 4j,
            big + 1,
            big // 7,
            -7 // 2,
            -7 % 3,
            2**70,
            1e308 * 10,
            int("ff", 16),
            float("1e3"),
            bool([]),
            0.1 + 0.2,
            round(-2.5),
            7 & 3 | 8,
            ~5,
            1 << 10,
        )

    return compile(root)(G.ones(2), 3 + 4j, 2**80)


# expect: graphs=2 breaks=0
def case_complex_is_guarded_to_the_bit(compile):
    f = compile(lambda z, x: (z, z.imag, x + 1))
    return (
        f(complex(0.0, 0.0), G.ones(2)),
        f(complex(0.0, -0.0), G.ones(2)),
        f(complex(0.0, 0.0), G.ones(2)),
    )


# expect: graphs=1 breaks=0
def case_unpacking_and_slices(compile):
    def pack(*args, **kwargs):
        return args, kwargs

    def root(x, xs, d):
        a, *b, c = xs
        (p, q), r = (1, 2), 3
        *init, last = "abc"
        xs[1:2] = [x, x * 2]
        del xs[0]
        m = {**d, "z": 1, **{"k": 5}}
        total = 0
        if (n := len(xs)) > 2:
            total += n
        return (
            a,
            b,
            c,
            p,
            q,
            r,
            init,
            last,
            [*xs, *d],
            (*xs[:1], 0),
            m,
            pack(1, *xs[:1], k=2, **d),
            xs[::-1],
            "abcdef"[1:-1:2],
            (1, 2, 3)[-2:],
            total,
            x + 1,
        )

    xs = [1, 2, 3, 4]
    return compile(root)(G.ones(2), xs, {"q": 1}), xs


# expect: graphs=1 breaks=0
def case_tensor_subscripts(compile):
    def root(x, i):
        return (
            x[[2, 0]],
            x[1, [0, 1]],
            x[..., None, 0],
            x[i],
            x[-1:],
            x[:, ::2],
            x[[True, False, True]] if False else 0,
            x[i, 0],
        )

    return compile(root)(G.arange(12.0).reshape(3, 4), G.tensor([0, 2]))


# expect: graphs=1 breaks=0
def case_tensor_mask_subscript(compile):
    return compile(lambda x: x[x > 1])(G.arange(4.0))


# expect: graphs=1 breaks=0
def case_tensor_list_mask(compile):
    return compile(lambda x: x[[True, False, True]])(G.arange(3.0))


# expect: graphs=2 breaks=0
def case_attributes_on_tensors(compile):
    def root(x):
        try:
            note = x.note
        except AttributeError as e:
            note = str(e)
        return x + 1, note, hasattr(x, "other"), getattr(x, "scale", 3)

    f = compile(root)
    x, y = G.ones(2), G.ones(2)
    x.note = "mine"
    x.scale = 2
    return f(x), f(y), f(x)


# expect: graphs=1 breaks=0
def case_dtype_and_device_arguments(compile):
    def root(x, dtype):
        y = x.to(dtype)
        return (
            y,
            y.dtype is dtype,
            G.zeros(2, dtype=x.dtype, device=x.device),
            G.ones(2, dtype=dtype),
            dtype == G.float64,
            {G.float32: "f", G.float64: "d"}[dtype],
        )

    return compile(root)(G.ones(2), G.float64)


# expect: graphs=1 breaks=0
def case_dict_methods(compile):
    def root(d, x):
        d["new"] = x
        popped = d.popitem()
        first = d.pop("a")
        d |= {"m": 1}
        return (
            popped,
            first,
            list(reversed(d)),
            dict.fromkeys("ab", 0),
            d | {"z": 2},
            dict([("p", 1)], q=2),
            d == {"b": 2, "m": 1},
            {k: v for k, v in zip("xy", (x, 1))},
            (1, 2) in {(1, 2): 3}.items(),
            d.setdefault("s", []),
            list(d.values())[:1],
        )

    d = {"a": 1, "b": 2}
    return compile(root)(d, G.ones(2)), d


# expect: graphs=1 breaks=0
def case_functions_of_functions(compile):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) + 1

        return wrapper

    @decorate
    def twice(x):
        "Doubles."
        return x * 2

    def root(x):
        return (
            twice(x),
            twice.__name__,
            twice.__doc__,
            twice.__wrapped__(x),
            [f(x) for f in (operator.neg, lambda v: v, twice)],
            callable(twice),
            (lambda *a, k=1: (a, k))(1, k=2),
        )

    return compile(root)(G.ones(2))


# expect: graphs=1 breaks=0
def case_random_module(compile):
    import random

    def root(x):
        return x + random.random()

    random.seed(3)
    return compile(root)(G.ones(2)), random.random()


# One object that stands for itself in a container, which may be NaN
# expect: graphs=1 breaks=0
def case_identity_before_equality(compile):
    class Never:
        def __eq__(self, other):
            return False

    n = Never()
    return compile(
        lambda x: (n in [n], [n] == [n], [n].index(n), (n,) == (n,), n == n, [n].count(n), x + 1)
    )(G.ones(2))


# expect: graphs=1 breaks=0
def case_counter(compile):
    def root(c, x):
        c.update("ab")
        c["z"] += 2
        new = collections.Counter(["k", "k", "m"])
        return x + 1, c["a"], c["never"], new, new["k"], sorted(c)

    c = collections.Counter("aab")
    return compile(root)(c, G.ones(2)), c, list(c)


# expect: graphs=1 breaks=0
def case_set_in_place(compile):
    def root(s, x):
        t = s
        s -= {1}
        s &= {2, 3, 9}
        return x + len(s), s is t, 2 in (v for v in (1, 2, 3))

    s = {1, 2, 3, 4}
    return compile(root)(s, G.ones(2)), sorted(s)


# -- What breaks and resumes: the result is Python's all the same ----


# expect: graphs=1 breaks=0
def case_random_of_the_library_is_drawn_at_each_call(compile):
    import random

    def f(x):
        y = x + 1
        a = random.random()
        y = y * 2
        b = random.random()
        return y * 3, a, b

    random.seed(5)
    g = compile(f)
    return g(G.ones(2)), g(G.ones(2)), random.random()


# TK-3: what a cached function remembers is never guessed
# expect: graphs=3 breaks=0
def case_tk_3_cached_function(compile):
    import functools

    calls = []

    @functools.cache
    def slow(n):
        calls.append(n)
        return n * 2

    def f(x):
        y = x + 1
        return y * slow(3)

    g = compile(f)
    first = g(G.ones(2)), g(G.ones(2)), list(calls)
    slow.cache_clear()
    return first, g(G.ones(2)), calls


# expect: graphs=1 breaks=0
def case_deepcopy_then_a_store_into_the_copy(compile):
    import copy

    def f(c, x):
        y = x + 1
        d = copy.deepcopy(c)
        d["k"].append(4)
        return y * len(d["k"]), d, c

    return compile(f)({"k": [1, (2, [3])]}, G.ones(2))


# expect: graphs=1 breaks=0
def case_large_dict_grows_is_copied_and_shrinks(compile):
    """Copies share memory until they grow apart; 1, True and 1.0 are one key; a place that only the
    other has seen is not found."""

    def f(x):
        d = {}
        for i in range(40):
            d[i] = i
        a, b = d.copy(), d.copy()
        a["only a"], b["only b"] = 1, 2
        out = [
            "only a" in b,
            "only b" in a,
            "only a" in d,
            a["only a"],
            b["only b"],
            d[True],
            d.get(7.0),
            (3,) in d,
        ]
        d[1.0] = "the first key stays"
        d["after"] = x
        del d[5]
        d[5] = "at the end"
        d[(1, 2)] = "no plain key"
        out += [list(d), d[1], d[(1, 2)], d.get(5), d.pop("after"), "after" in d, d.get("after")]
        return x * len(d), out, a, b

    return compile(f)(G.ones(2))


# Each call gives another tensor, so a write to one is not seen by the next.
# expect: graphs=1 breaks=0
def case_tensors_made_of_numbers(compile):
    def f(x):
        a = G.tensor([1.0, 2.0, 3.0])
        b = G.as_tensor(2, dtype=G.float64)
        c = G.asarray([[1, 2, 3]])
        d = G.tensor(True, device=x.device)
        a.add_(1)
        return x * a + b + c, a, b, c, d, G.is_tensor(a), G.is_tensor(3), x.reshape(G.Size([3, 1]))

    f = compile(f)
    first, second = f(G.ones(3)), f(G.ones(3))
    return first, second, first[1] is second[1]


# expect: graphs=2 breaks=0
def case_tensors_made_of_guarded_numbers(compile):
    f = compile(lambda x, values: x * G.tensor(values))
    return [f(G.ones(2), v) for v in ([1.0, 2.0], [3.0, 4.0], [1.0, 2.0])]


# expect: graphs=1 breaks=0
def case_bytearrays(compile):
    def root(a, x):
        new = bytearray(b"abc")
        new.append(100)
        new += b"ef"
        new[0] = 65
        del new[1:3]
        new.extend([1, 2])
        new *= 2
        a.insert(0, 7)
        a[1:2] = new[:2]
        a.reverse()
        out = (
            [v for v in new if v > 2],
            bytes(new),
            new[1],
            new[-2:],
            65 in new,
            b"ef" in new,
            len(a),
            new == b"x",
            new < a,
            sum(a),
            max(new),
        )
        words = (
            bytearray(b"a b").split(),
            b",".join([new[:1], b"z"]),
            new.upper(),
            a.hex(),
            str(new),
            f"{new!r:>40}",
            bytearray(3),
            new.find(b"e"),
            isinstance(a, bytearray),
        )
        it = iter(new)
        next(it)
        try:
            new.append(300)
        except ValueError as e:
            words += (str(e), bytes(new))
        try:
            a[99]
        except IndexError as e:
            words += (str(e),)
        return x + 1, new, new.copy(), out, words, it, b"q" + a, a + b"q", a

    a = bytearray(b"xyz")
    y, *rest, it, left, right, same = compile(root)(a, G.ones(2))
    return (
        y,
        rest,
        list(it),
        type(it).__name__,
        type(left).__name__,
        type(right).__name__,
        same is a,
        a,
    )


# expect: any
def case_bytearrays_that_are_guarded(compile):
    def root(a, x):
        a.append(len(a))
        return x * a[0], bytes(a)

    f, a, results = compile(root), bytearray(b"\x01\x02"), []
    for i in range(4):
        results.append((f(a, G.ones(1)), bytes(a)))
    view = memoryview(a)
    try:
        results.append(f(a, G.ones(1)))
    except BufferError as e:
        results.append(str(e))
    view.release()
    return results, f(bytearray(b"\x05"), G.ones(1)), bytes(a)
