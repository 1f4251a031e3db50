# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, calls, branches, loops, arguments."""

import math

import gramme as G


# expect: graphs=1 breaks=0
def case_arithmetic(compile):
    f = compile(lambda x, y: (x + y * 2 - 1) / (y.abs() + 3.5))
    return f(G.arange(4.0), G.randn(4))


# expect: graphs=1 breaks=0
def case_reflected_operators(compile):
    f = compile(lambda x: (2 - x, 3 / (x + 1), 2**x, -x, abs(x), +x))
    return f(G.arange(1.0, 5.0))


# expect: graphs=1 breaks=0
def case_comparisons(compile):
    f = compile(lambda x: (x > 1, x <= 2.0, x == x, x != 0, 1 < x))
    return f(G.arange(4.0))


# expect: graphs=1 breaks=0
def case_matmul_and_methods(compile):
    f = compile(lambda x, w: (x @ w).tanh().sum(dim=1, keepdim=True))
    return f(G.randn(3, 4), G.randn(4, 5))


# expect: graphs=2 breaks=0
def case_constant_argument_is_guarded(compile):
    f = compile(lambda x, n: x * n)
    x = G.arange(3.0)
    return f(x, 2), f(x, 2), f(x, 3), f(x, 2)


# expect: graphs=3 breaks=0
def case_types_of_equal_constants_differ(compile):
    f = compile(lambda x, n: x * n)
    x = G.arange(3)
    return f(x, 1), f(x, True), f(x, 1.0)


# expect: graphs=2 breaks=0
def case_zero_and_minus_zero(compile):
    f = compile(lambda x, n: x * n)
    x = G.ones(2)
    return f(x, 0.0), f(x, -0.0), f(x, 0.0)


# expect: graphs=1 breaks=0
def case_nan_argument_hits(compile):
    f = compile(lambda x, n: x * n)
    x = G.ones(2)
    return f(x, math.nan), f(x, float("nan"))


# expect: graphs=1 breaks=0
def case_untouched_argument_has_no_guard(compile):
    f = compile(lambda x, unused: x + 1)
    x = G.arange(3.0)
    return f(x, 1), f(x, "a"), f(x, None), f(x, [1])


# expect: graphs=2 breaks=0
def case_shapes_recompile(compile):
    f = compile(lambda x: x.sum() * x.shape[0])
    return f(G.ones(3)), f(G.ones(5)), f(G.ones(3))


# expect: graphs=2 breaks=0
def case_dtype_recompiles(compile):
    f = compile(lambda x: x + x)
    return f(G.ones(3)), f(G.ones(3, dtype=G.float64))


# expect: graphs=2 breaks=0
def case_strides_recompile(compile):
    f = compile(lambda x: x * 2)
    x = G.randn(3, 4)
    return f(x), f(x.t()), f(x)


# expect: graphs=2 breaks=0
def case_branch_on_python_value(compile):
    def g(x, flag):
        if flag:
            return x + 1
        return x - 1

    f = compile(g)
    x = G.ones(2)
    return f(x, True), f(x, False), f(x, True)


# expect: graphs=1 breaks=0
def case_branch_on_shape(compile):
    def g(x):
        if x.ndim == 2 and x.shape[1] > 2 or len(x) > 100:
            return x.sum(dim=1)
        return x

    return compile(g)(G.ones(2, 3))


# expect: graphs=3 breaks=1
def case_branch_on_tensor_breaks(compile):
    def g(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    f = compile(g)
    return f(G.ones(2)), f(-G.ones(2))


# expect: graphs=2 breaks=1
def case_item_breaks(compile):
    f = compile(lambda x: x * x.sum().item())
    return f(G.ones(2))


# expect: graphs=2 breaks=1
def case_float_of_tensor_breaks(compile):
    f = compile(lambda x: x * float(x.sum()))
    return f(G.ones(2))


# expect: graphs=2 breaks=0
def case_none_default(compile):
    def g(x, bias=None):
        y = x * 2
        if bias is not None:
            y = y + bias
        return y

    f = compile(g)
    return f(G.ones(2)), f(G.ones(2), G.ones(2)), f(G.ones(2), bias=G.ones(2))


# expect: graphs=1 breaks=0
def case_range_loop(compile):
    def g(x):
        for i in range(1, 10, 3):
            x = x * i + 0.5
        return x

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_loop_with_else_break_continue(compile):
    def g(x):
        for i in range(10):
            if i == 2:
                continue
            if i == 5:
                break
            x = x + i
        else:
            x = x * 1000
        for i in range(2):
            x = x + 1
        else:
            x = x * 2
        return x

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_while_loop(compile):
    def g(x):
        n = 0
        while n < 4:
            x = x.relu() + n
            n += 1
        return x, n

    return compile(g)(G.randn(3))


# expect: graphs=1 breaks=0
def case_loop_over_tensor(compile):
    def g(x):
        total = 0
        for row in x:
            total = total + row * 2
        return total

    return compile(g)(G.randn(3, 2))


# expect: graphs=1 breaks=0
def case_loop_over_list_tuple_dict(compile):
    def g(xs, t, d):
        y = 0
        for x in xs:
            y = y + x
        for a in t:
            y = y * a
        for k, v in d.items():
            y = y + v * len(k)
        for k in d:
            y = y + len(k)
        for v in d.values():
            y = y - v
        return y

    return compile(g)([G.ones(2), G.ones(2) * 3], (2, 0.5), {"a": 1.0, "bcd": G.ones(2)})


# expect: graphs=2 breaks=0
def case_list_length_is_guarded(compile):
    f = compile(lambda xs: sum(xs))
    return f([G.ones(2), G.ones(2)]), f([G.ones(2)] * 3), f([G.ones(2), G.zeros(2)])


# expect: graphs=1 breaks=0
def case_enumerate_zip_reversed_map_filter(compile):
    def g(xs, ys):
        total = 0
        for i, x in enumerate(xs, 1):
            total = total + i * x
        for x, y in zip(xs, ys):
            total = total + x * y
        for x in reversed(xs):
            total = total * 0.5 + x
        for z in map(lambda a, b: a - b, xs, ys):
            total = total + z
        for n in filter(lambda n: n % 2, range(5)):
            total = total + n
        return total

    return compile(g)([G.ones(2), G.arange(2.0)], [G.randn(2), G.randn(2)])


# expect: graphs=1 breaks=0
def case_comprehensions(compile):
    def g(x):
        ys = [x * i for i in range(3) if i != 1]
        d = {str(i): y + i for i, y in enumerate(ys)}
        return ys, d, sum(d.values()), [a for row in [[1, 2], [3]] for a in row]

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_generator_expression(compile):
    f = compile(lambda x: sum(x * i for i in range(3)))
    return f(G.ones(2))


# expect: graphs=1 breaks=0
def case_try_block(compile):
    def g(x):
        try:
            return x + 1
        except ValueError:
            return x

    return compile(g)(G.ones(2))


# expect: graphs=0 breaks=1
def case_raise(compile):
    def g(x):
        if x.ndim == 1:
            raise ValueError(f"ndim {x.ndim}")
        return x

    return compile(g)(G.ones(2))


# expect: graphs=0 breaks=1
def case_failed_assertion(compile):
    def g(x):
        assert x.ndim == 2, "two dimensions"
        return x

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_assertion_that_holds(compile):
    def g(x):
        assert x.ndim == 1
        return x + 1

    return compile(g)(G.ones(2))


# expect: graphs=0 breaks=1
def case_shape_error_is_pythons(compile):
    return compile(lambda x, y: x + y)(G.ones(2), G.ones(3))


# expect: graphs=0 breaks=1
def case_undefined_name(compile):
    return compile(lambda x: x + not_defined_anywhere)(G.ones(2))  # noqa: F821


# expect: graphs=0 breaks=1
def case_unbound_local(compile):
    def g(x):
        if x.ndim == 2:
            y = x
        return y

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=1
def case_print_breaks(compile):
    def g(x):
        print("", end="")
        return x + 1

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_constants_fold(compile):
    def g(x):
        a = (3 * 4 + 2) // 5 - 2**3 % 5
        s = f"{a:03d}" + "x".upper() * 2 + "%d-%s" % (a, "b")
        return (
            x * a,
            s,
            len(s),
            s[1:3],
            "a" in s,
            int("12") + float("0.5"),
            round(2.675, 2),
            divmod(7, 3),
            max(1, 2),
            min([3, 1]),
        )

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_math_module(compile):
    f = compile(lambda x: x * math.sqrt(2.0) + math.pi - math.floor(2.5) + math.log(3))
    return f(G.ones(3))


# expect: graphs=1 breaks=0
def case_is_and_isinstance(compile):
    def g(x, y):
        return (
            x is y,
            x is x,
            x is not None,
            isinstance(x, G.Tensor),
            isinstance(3, (str, int)),
            type(x) is G.Tensor,
            callable(g),
            isinstance([], list),
            issubclass(bool, int),
            x + 1,
        )

    return compile(g)(G.ones(2), G.ones(2))


# expect: graphs=2 breaks=0
def case_same_tensor_twice(compile):
    f = compile(lambda x, y: (x + y, x is y))
    x, y = G.ones(2), G.zeros(2)
    return f(x, y), f(x, x), f(y, x)


# expect: graphs=1 breaks=0
def case_metadata(compile):
    def g(x):
        return (
            x.shape,
            x.size(),
            x.size(0),
            x.dtype,
            x.ndim,
            x.dim(),
            x.numel(),
            x.stride(),
            x.requires_grad,
            x.is_contiguous(),
            x.is_floating_point(),
            str(x.shape[0]),
            x.T,
            x.mT,
            len(x),
            tuple(x.shape),
            list(x.shape),
            x.shape[-1:],
            x * x.shape[0],
        )

    return compile(g)(G.randn(2, 3))


# expect: graphs=1 breaks=0
def case_views_and_indexing(compile):
    def g(x):
        return (
            x[0],
            x[:, 1],
            x[..., -1],
            x[1:3, ::2],
            x[None],
            x.view(-1),
            x.reshape(2, -1),
            x.permute(1, 0),
            x.t() + 1,
            x.unsqueeze(0),
            x[0, 0] * 2,
            x.transpose(0, 1),
        )

    return compile(g)(G.randn(4, 3))


# expect: graphs=1 breaks=0
def case_creation(compile):
    def g(x):
        return (
            G.zeros(2, 3) + G.ones(3),
            G.full((2,), 3.5),
            G.arange(4),
            G.zeros_like(x),
            x.to(G.float64),
            x.to(x.dtype) is x,
        )

    return compile(g)(G.randn(2))


# expect: graphs=1 breaks=0
def case_random_numbers(compile):
    f = compile(lambda x: x + G.rand(3) * G.randn(3))
    return f(G.ones(3)), f(G.ones(3)), G.rand(2)


# expect: graphs=1 breaks=0
def case_named_results(compile):
    def g(x):
        values, indices = x.max(dim=1)
        return values * 2, indices, x.max(dim=0).values

    return compile(g)(G.randn(3, 4))


# expect: graphs=1 breaks=0
def case_cat_stack(compile):
    f = compile(lambda x, y: (G.cat([x, y], dim=0), G.stack((x, y)), G.where(x > y, x, y)))
    return f(G.randn(2, 2), G.randn(2, 2))


# expect: graphs=1 breaks=0
def case_returns_argument_itself(compile):
    f = compile(lambda x, y: (y, x, y, x + 1))
    x, y = G.ones(2), [1]
    a = f(x, y)
    return a, a[0] is y, a[1] is x


# expect: graphs=1 breaks=0
def case_same_output_twice(compile):
    def g(x):
        y = x + 1
        return y, [y, y], {"a": y}

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_shared_containers_keep_identity(compile):
    def g(x):
        a = [x + 1]
        return a, a, {"k": a}, (a,)

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_list_that_holds_itself(compile):
    def g(x):
        a = [x + 1]
        a.append(a)
        return a

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=1
def case_set_of_strings_and_id(compile):
    f = compile(lambda x: (x + 1, id(x) != 0))
    return f(G.ones(2))


# expect: graphs=1 breaks=0
def case_sets_of_constants(compile):
    def g(x, names):
        s = {1, 2, 3}
        s.add(4)
        return x + len(s), 2 in s, "a" in names, s == {4, 3, 2, 1}, "b" in {"a", "b"}

    return compile(g)(G.ones(2), {"a", "c"})


# expect: graphs=1 breaks=0
def case_unpacking(compile):
    def g(pair, xs):
        a, b = pair
        first, *middle, last = xs
        (c, d), e = (a, b), first
        a, b = b, a
        return a - b, middle, last, c + d + e

    return compile(g)((G.ones(2), G.arange(2.0)), [1, 2, 3, G.ones(2)])


# expect: graphs=1 breaks=0
def case_chained_comparison_and_bool_ops(compile):
    def g(x, n):
        a = 0 < n < 10
        b = n and x
        c = None or x
        d = not n
        return a, b is x, c is x, d, x + (1 if a else 2)

    return compile(g)(G.ones(2), 5)


# expect: graphs=1 breaks=0
def case_slices_of_lists(compile):
    def g(xs):
        ys = xs[1:]
        ys[0:1] = [1, 2]
        del ys[0]
        return (
            xs[0] + 1,
            ys,
            xs[::-1],
            xs + [9],
            xs * 2,
            xs == xs,
            [1, 2] == [1, 2],
            (1, 2) < (1, 3),
        )

    return compile(g)([G.ones(2), 5, 6])


# expect: graphs=1 breaks=0
def case_dict_methods(compile):
    def g(d):
        e = dict(d)
        e.update({"z": 1}, y=2)
        e.setdefault("w", 3)
        a = e.pop("z")
        del e["y"]
        return (
            d["x"] + 1,
            d.get("none"),
            d.get("n", 7),
            "x" in d,
            len(d),
            a,
            e,
            list(e),
            list(e.keys()),
            {**d, "q": 1},
            d | {"r": 2},
        )

    return compile(g)({"x": G.ones(2), "n": 2})


# expect: graphs=2 breaks=0
def case_dict_key_absence_is_guarded(compile):
    f = compile(lambda d: d["x"] + d.get("bias", 0))
    x = G.ones(2)
    return f({"x": x}), f({"x": x, "other": 1}), f({"x": x, "bias": 5})


# expect: graphs=1 breaks=0
def case_dict_order_not_guarded_unless_iterated(compile):
    f = compile(lambda d: d["x"] + d["y"])
    x = G.ones(2)
    return f({"x": x, "y": x}), f({"y": x, "x": x})


# expect: graphs=2 breaks=0
def case_dict_order_guarded_if_iterated(compile):
    f = compile(lambda d: [v * 2 for v in d.values()])
    x = G.ones(2)
    return f({"x": x, "y": x}), f({"y": x, "x": x})


# expect: graphs=1 breaks=1
def case_deep_recursion_breaks(compile):
    def down(x, n):
        return x if n == 0 else down(x, n - 1)

    return compile(lambda x: down(x + 1, 200))(G.ones(2))


# expect: graphs=1 breaks=0
def case_recursion(compile):
    def fact(n):
        return 1 if n < 2 else n * fact(n - 1)

    return compile(lambda x: x * fact(10))(G.ones(2))


# expect: graphs=1 breaks=0
def case_import_of_loaded_module(compile):
    def g(x):
        import math

        from gramme import tanh

        return tanh(x) * math.pi

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_class_statement_that_nobody_uses(compile):
    def g(x):
        class A:
            pass

        return x + 1

    return compile(g)(G.ones(2))


# expect: graphs=1 breaks=0
def case_no_tensor_at_all(compile):
    f = compile(lambda a, b: (a + b, [a, b]))
    return f(1, 2), f(1, 2)


# expect: graphs=0 breaks=1
def case_new_leaf_breaks(compile):
    return compile(lambda x: G.zeros(x.shape, requires_grad=True))(G.ones(2))


# expect: graphs=1 breaks=0
def case_creation_arguments(compile):
    f = compile(
        lambda x: (
            G.zeros(x.shape, dtype=x.dtype, device="cpu", requires_grad=False),
            G.ones(2, 3, dtype=float),
            G.zeros_like(x, device=x.device),
        )
    )
    return f(G.ones(2, dtype=G.float64))


# expect: graphs=1 breaks=0
def case_code_constants_keep_identity(compile):
    f = compile(lambda x: (x + 1, ("s", None), [("s", None)]))
    a, b = f(G.ones(2)), f(G.ones(2))
    return a, b, a[1] is b[1]


# expect: graphs=1 breaks=2
def case_comparison_with_numpy_is_numpys(compile):
    import numpy as np

    f = compile(lambda x, y: (x + 1, [bool(v) for v in (y == None)]))  # noqa: E711
    return f(G.ones(2), np.ones(2))


# expect: graphs=1 breaks=1
def case_list_that_holds_itself_compared(compile):
    def g(x, a, b):
        return x + 1, a == b

    a, b = [], []
    a.append(b)
    b.append(a)
    return compile(g)(G.ones(2), a, b)


# expect: graphs=1 breaks=0
def case_sorted_min_max_of_containers(compile):
    f = compile(
        lambda x, d: (
            x + 1,
            sorted(d),
            sorted([3, 1, 2], reverse=True),
            max(d),
            min(3, 2),
            max([1, 5]),
        )
    )
    return f(G.ones(2), {"b": x_of(1), "a": x_of(2)})


def x_of(n):
    return G.full((2,), float(n))


# expect: graphs=1 breaks=0
def case_mask_index(compile):
    return compile(lambda x: x[x > 0])(G.arange(3.0))


# expect: graphs=1 breaks=1
def case_backward_inside_breaks(compile):
    w = G.ones(2, requires_grad=True)

    def g(x):
        (x * w).sum().backward()
        return w.grad

    return compile(g)(G.ones(2))
