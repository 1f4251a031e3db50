# SPDX-License-Identifier: Apache-2.0
"""What a user of triton writes for the contests of gpu.py: one function for each case, on torch's
tensors.

Rows are held by one program each; products and attention work on tiles, sums are kept in float32.
TRITON_INTERPRET=1 runs all of it without a GPU, which is how the results are tested there.
"""

import os

import torch
import triton
import triton.language as tl

INTERPRETED = bool(os.environ.get("TRITON_INTERPRET"))


@triton.jit
def tanh_of(x):
    # by exp of what is not above 0: no overflow; of small numbers it is what float32's rounding
    # leaves
    e = tl.exp(-2.0 * tl.abs(x))
    t = (1.0 - e) / (1.0 + e)
    return tl.where(x < 0, -t, t)


@triton.jit
def pointwise_kernel(x_at, y_at, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_at + at, mask=at < n).to(tl.float32)
    y = x * tl.sigmoid(x) + 2.0 * tanh_of(x)
    tl.store(y_at + at, y.to(y_at.dtype.element_ty), mask=at < n)


def pointwise(x):
    y = torch.empty_like(x)
    pointwise_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


@triton.jit
def softmax_kernel(x_at, y_at, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    at = tl.arange(0, BLOCK)
    x = tl.load(x_at + row + at, mask=at < width, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_at + row + at, (e / tl.sum(e, axis=0)).to(y_at.dtype.element_ty), mask=at < width)


def warps(block):
    return max(1, min(16, block // 512))


def softmax(x):
    y, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=block, num_warps=warps(block))
    return y


@triton.jit
def layer_norm_kernel(x_at, w_at, b_at, y_at, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    at = tl.arange(0, BLOCK)
    inside = at < width
    x = tl.load(x_at + row + at, mask=inside, other=0.0).to(tl.float32)
    d = tl.where(inside, x - tl.sum(x, axis=0) / width, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(d * d, axis=0) / width + 1e-5)
    w = tl.load(w_at + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_at + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_at + row + at, (d * scale * w + b).to(y_at.dtype.element_ty), mask=inside)


def layer_norm(x, w, b):
    y, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    layer_norm_kernel[(x.shape[0],)](x, w, b, y, x.shape[1], BLOCK=block, num_warps=warps(block))
    return y


@triton.jit
def matmul_kernel(
    a_at,
    b_at,
    bias_at,
    c_at,
    m,
    n,
    k,
    GELU: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    # Programs beside each other share rows of a and columns of b: groups of 8 tiles of rows.
    tiles_m, tiles_n = tl.cdiv(m, M), tl.cdiv(n, N)
    which = tl.program_id(0)
    first = which // (8 * tiles_n) * 8
    height = min(tiles_m - first, 8)
    i = (first + which % (8 * tiles_n) % height) * M + tl.arange(0, M)
    j = (which % (8 * tiles_n) // height) * N + tl.arange(0, N)
    p = tl.arange(0, K)
    sums = tl.zeros((M, N), tl.float32)
    for at in range(0, k, K):
        a = tl.load(
            a_at + i[:, None] * k + (at + p)[None, :],
            mask=(i[:, None] < m) & ((at + p)[None, :] < k),
            other=0.0,
        )
        b = tl.load(
            b_at + (at + p)[:, None] * n + j[None, :],
            mask=((at + p)[:, None] < k) & (j[None, :] < n),
            other=0.0,
        )
        sums = tl.dot(a, b, sums, input_precision="ieee")
    if GELU:
        sums += tl.load(bias_at + j, mask=j < n, other=0.0).to(tl.float32)[None, :]
        sums = sums * 0.5 * (1.0 + tl.erf(sums * 0.7071067811865476))
    tl.store(
        c_at + i[:, None] * n + j[None, :],
        sums.to(c_at.dtype.element_ty),
        mask=(i[:, None] < m) & (j[None, :] < n),
    )


def product(x, w, b, gelu):
    (m, k), n = x.shape, w.shape[1]
    c = torch.empty(m, n, dtype=x.dtype, device=x.device)
    small = x.dtype == torch.float32 or m < 1024
    M, N, K, num_warps = (64, 64, 32, 4) if small else (128, 256, 64, 8)
    matmul_kernel[(triton.cdiv(m, M) * triton.cdiv(n, N),)](
        x, w, b, c, m, n, k, GELU=gelu, M=M, N=N, K=K, num_warps=num_warps, num_stages=3
    )
    return c


def matmul(x, w):
    return product(x, w, w, False)


def linear_gelu(x, w, b):
    return product(x, w, b, True)


@triton.jit
def attention_kernel(
    q_at,
    k_at,
    v_at,
    o_at,
    length,
    scale,
    CAUSAL: tl.constexpr,
    D: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    start = tl.program_id(1).to(tl.int64) * length * D
    i, d = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    q = tl.load(q_at + start + i[:, None] * D + d[None, :], mask=i[:, None] < length, other=0.0)
    top = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    end = min((tl.program_id(0) + 1) * M, length) if CAUSAL else length
    for at in range(0, end, N):
        j = at + tl.arange(0, N)
        k = tl.load(k_at + start + j[None, :] * D + d[:, None], mask=j[None, :] < length, other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * scale
        s = tl.where(
            (j[None, :] < length) & ((j[None, :] <= i[:, None]) | (not CAUSAL)), s, float("-inf")
        )
        higher = tl.maximum(top, tl.max(s, axis=1))
        e, less = tl.exp(s - higher[:, None]), tl.exp(top - higher)
        v = tl.load(v_at + start + j[:, None] * D + d[None, :], mask=j[:, None] < length, other=0.0)
        sums = tl.dot(e.to(v.dtype), v, sums * less[:, None], input_precision="ieee")
        total, top = total * less + tl.sum(e, axis=1), higher
    tl.store(
        o_at + start + i[:, None] * D + d[None, :],
        (sums / total[:, None]).to(o_at.dtype.element_ty),
        mask=i[:, None] < length,
    )


def attend(q, k, v, causal):
    batch, heads, length, width = q.shape
    o = torch.empty_like(q)
    M, N = (64, 32) if q.dtype == torch.float32 else (128, 64)
    attention_kernel[(triton.cdiv(length, M), batch * heads)](
        q,
        k,
        v,
        o,
        length,
        width**-0.5,
        CAUSAL=causal,
        D=width,
        M=M,
        N=N,
        num_warps=4,
        num_stages=2,
    )
    return o


def attention(q, k, v):
    return attend(q, k, v, False)


def causal_attention(q, k, v):
    return attend(q, k, v, True)
