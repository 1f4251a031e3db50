# SPDX-License-Identifier: Apache-2.0
"""Dtypes as values: arguments, attributes, keys, casts in both directions."""

import gramme as G


# expect: graphs=3 breaks=0
def case_dtype_of_the_input_is_guarded(compile):
    f = compile(lambda x: x * 3 + x.sum())
    x = G.arange(5.0)
    return f(x.half()), f(x.bfloat16()), f(x.short()), f(x.half() + 1)


# expect: graphs=2 breaks=0
def case_dtype_as_an_argument(compile):
    f = compile(lambda x, dtype: (x.to(dtype) * 2).float())
    x = G.randn(6)
    return f(x, G.float16), f(x, G.bfloat16), f(x, G.float16)


# expect: graphs=1 breaks=0
def case_dtype_is_compared(compile):
    def half_or_not(x):
        return x * 2 if x.dtype is G.half else x * 3

    f = compile(half_or_not)
    return f(G.ones(3).half())


# expect: graphs=2 breaks=0
def case_a_dict_by_dtype(compile):
    scales = {G.float16: 2.0, G.bfloat16: 4.0}
    f = compile(lambda x: x * scales[x.dtype])
    return f(G.ones(3).half()), f(G.ones(3).bfloat16())


# expect: graphs=1 breaks=0
def case_limits(compile):
    def mask(scores, keep):
        return scores.masked_fill(keep, G.finfo(scores.dtype).min).softmax(-1), G.iinfo(G.int16).max

    return compile(mask)(G.arange(6.0).half(), G.arange(6) > 3)


# expect: graphs=1 breaks=0
def case_small_floats_only_pass_through(compile):
    def squeeze(x):
        small = x.to(G.float8_e4m3fn)
        return small, small.float() - x, x.to(G.float8_e5m2).view(2, 3).t().half()

    return compile(squeeze)(G.randn(6))


# expect: graphs=1 breaks=0
def case_mixed_precision_step(compile):
    def step(x, w):
        return ((x.bfloat16() @ w.bfloat16()).float().tanh() ** 2).mean()

    w = G.ones(4, 2).requires_grad_()
    loss = compile(step)(G.arange(12.0).view(3, 4) / 7, w)
    loss.backward()
    return loss.detach(), w.grad
