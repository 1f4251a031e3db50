# SPDX-License-Identifier: Apache-2.0
"""Scalars and arrays of numpy as arguments: scalars are constants, the elements of an array are
not."""

import numpy as np

import gramme as G


def twice(f, *args):
    return f(*args), f(*args)


# expect: graphs=4 breaks=0
def case_numpy_scalars_as_operands(compile):
    f = compile(lambda x, n: (x * n + 1, n * x, n - x, x > n, n >= x, x.sum() * n))
    x = G.arange(4.0)
    return [twice(f, x, n) for n in (np.float32(2.5), np.int64(3), np.float64(0.1), np.bool_(True))]


# expect: graphs=4 breaks=0
def case_numpy_scalars_are_guarded_by_type_and_value(compile):
    f = compile(lambda x, n: x * n)
    x = G.arange(4)
    return [
        f(x, n)
        for n in (np.int64(2), np.int64(3), np.int32(2), np.float32(2), np.int64(3), np.float32(2))
    ]


# The sign of zero is a value, too.
# expect: graphs=2 breaks=0
def case_numpy_scalar_is_guarded_to_the_bit(compile):
    f = compile(lambda x, n: x / n)
    return (
        f(G.ones(2), np.float32(0.0)),
        f(G.ones(2), np.float32(-0.0)),
        f(G.ones(2), np.float32(0.0)),
    )


# expect: graphs=2 breaks=0
def case_numpy_scalar_as_a_shape_and_an_index(compile):
    f = compile(lambda x, n: (x.reshape(n, 2), x[n], x + int(n), x * float(n)))
    return f(G.arange(4.0), np.int64(2)), compile(lambda x, n: x.sum(n))(G.ones(2, 2), np.uint8(1))


# expect: graphs=4 breaks=0
def case_branch_on_numpy_scalars(compile):
    def root(x, n, b):
        y = x + 1 if b else x - 1
        return y * 2 if n > 2 else y, n == 3, 4 < n, bool(n)

    f = compile(root)
    return [f(G.ones(2), np.int64(n), np.bool_(b)) for n in (1, 3) for b in (0, 1)]


# expect: graphs=1 breaks=0
def case_numpy_scalar_keeps_its_identity(compile):
    f = compile(lambda x, n, m: (x + n, n, [m], n is m, isinstance(n, float), isinstance(m, int)))
    n, m = np.float64(2), np.float64(2)
    a = f(G.ones(2), n, m)
    b = f(G.ones(2), m, n)
    return a, b, a[1] is n, a[2][0] is m, b[1] is m


# expect: graphs=1 breaks=2
def case_arithmetic_and_text_of_numpy_scalars_is_numpys(compile):
    return compile(lambda x, n: (x + 1, n * 2, str(n)))(G.ones(2), np.float32(1.5))


# expect: graphs=1 breaks=1
def case_numpy_scalar_lives_across_a_break(compile):
    def root(x, n):
        print("", end="")
        return x * n

    f = compile(root)
    return f(G.ones(2), np.int64(3)), f(G.ones(2), np.int64(3))


def changing(compile, f):
    """What f makes of an array whose elements change between calls."""
    a = np.arange(4, dtype=np.float32)
    g = compile(f)
    out = []
    for i in range(3):
        out.append(g(G.ones(4), a))
        a += 1
    return [v.clone() if isinstance(v, G.Tensor) else v for v in out]


# expect: graphs=2 breaks=1
def case_elements_of_an_array_are_no_constants(compile):
    return changing(compile, lambda x, a: (x + 1) * G.tensor(a) * 2)


# expect: graphs=1 breaks=0
def case_array_shared_with_a_tensor(compile):
    return changing(compile, lambda x, a: (x + 1) * G.from_numpy(a) * 2)


# expect: graphs=2 breaks=2
def case_array_as_operand(compile):
    return changing(compile, lambda x, a: (x * 2 + a) * 3), changing(compile, lambda x, a: a * x)


# expect: graphs=4 breaks=1
def case_number_from_an_array(compile):
    return changing(compile, lambda x, a: (x + 1) * float(a[1]))


# expect: graphs=1 breaks=0
def case_array_passed_on(compile):
    a = np.arange(3)
    got = compile(lambda x, a: (x + 1, a))(G.ones(2), a)
    return got[0], got[1] is a


# expect: graphs=3 breaks=0
def case_tensors_over_arrays(compile):
    def root(x, a):
        b = G.from_numpy(a)
        b.add_(1)
        return x * b + G.asarray(b), b, b.shape, b.dtype, G.as_tensor(x) is x

    f, x, out = compile(root), G.ones(2, 3), []
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2]
    for array in (a, a, a * 2, a.astype(np.float64), b, a):
        result = f(x, array)
        out += [result, array.tolist(), result[1].tolist() == array.tolist()]
        result[1].zero_()
        out.append(array.tolist())
    return out


# expect: graphs=1 breaks=0
def case_two_tensors_over_one_array(compile):
    def root(x, a):
        b, c = G.from_numpy(a), G.from_numpy(a)
        return x * b + c, b is c, b

    return twice(compile(root), G.ones(3), np.arange(3, dtype=np.float32))


# What is written to one of them is seen in the other, of which no graph knows.
# expect: graphs=0 breaks=0
def case_write_to_one_of_two_tensors_over_one_array(compile):
    def inside(x, a):
        b, c = G.from_numpy(a), G.from_numpy(a)
        b.add_(1)
        return x * c

    def given(x, b, c):
        b.add_(1)
        return x * c

    a = np.arange(3, dtype=np.float32)
    f, g = compile(inside), compile(given)
    return [
        f(G.ones(3), a),
        g(G.ones(3), G.from_numpy(a), G.from_numpy(a[1:])[None, :1]),
        a.tolist(),
    ]


# expect: any
def case_arrays_that_no_tensor_can_share(compile):
    def root(x, a):
        try:
            return x + G.from_numpy(a)
        except (TypeError, ValueError) as error:
            return str(error)

    f, frozen = compile(root), np.ones(2, dtype=np.float32)
    frozen.flags.writeable = False
    arrays = (
        np.array(["a", "b"]),
        np.ones(2, dtype=np.complex64),
        np.ones(2)[::-1],
        frozen,
        np.float32(2),
        [1.0, 2.0],
    )
    return [f(G.ones(2), a) for a in arrays]


# expect: any
def case_write_to_an_array_that_is_read_only(compile):
    def root(a):
        t = G.from_numpy(a)
        try:
            t.add_(1)
        except RuntimeError as error:
            return str(error), t
        return t

    f, a = compile(root), np.ones(2, dtype=np.float32)
    results = [f(a), a.tolist()]
    a.flags.writeable = False
    results += [f(a), a.tolist()]
    a.flags.writeable = True
    return results + [f(a), a.tolist()]


# expect: any
def case_tensor_times_array(compile):
    def root(x, a):
        try:
            return x * a
        except TypeError as error:
            return str(error)

    return compile(root)(G.ones(2), np.ones(2, dtype=np.float32))


# -- Functions and methods of arrays run as Python


# expect: graphs=3 breaks=3
def case_functions_of_arrays(compile):
    def f(x, a):
        y = x + 1
        b = np.sin(a)
        y = y * 2
        n = a.mean()
        return y * float(n), b, np.asarray(a) is a

    f = compile(f)
    a = np.arange(3.0)
    return f(G.ones(3), a), f(G.ones(3), a)


# expect: any
def case_arrays_that_the_function_makes(compile):
    def f(x, a):
        b = np.exp(a * 2)
        b[0] = 5
        t = G.from_numpy(b)
        t += 1
        return x * t, b, np.sum(x.numpy()), (a @ a).item(), a[1:], a.shape

    return compile(f)(G.ones(3, dtype=G.float64), np.arange(3.0))


# expect: breaks=0
def case_numbers_of_numpy_as_indices(compile):
    f = compile(
        lambda x, i: (
            [1, 2, 3][i],
            (4, 5, 6)[i],
            "abc"[i],
            list(range(i)),
            x[i],
            i.item(),
            x * i.item(),
        )
    )
    return [f(G.arange(4).float(), i) for i in (np.int64(1), np.int8(2), np.uint16(0), np.int64(1))]
