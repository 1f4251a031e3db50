# SPDX-License-Identifier: Apache-2.0
# The values that test_api.c expects, computed with numpy: python3 api_values.py > api_values.inc
# The formulas of the inputs are those of inputs_make in api_text.h.
import numpy as np, math


def wave(shape, scale, step, phase, shift):
    n = int(np.prod(shape)) if shape else 1
    return (shift + scale * np.sin(step * np.arange(n) + phase)).reshape(shape)


A = wave((3, 4), 1.5, 1.3, 0.7, 0)
B = wave((3, 4), 0.8, 0.9, 1.9, 2)
C = wave((2, 3, 4), 1.2, 1.7, 0.1, 0.1)
S = wave((), 1, 1, 0.9, 0)
V = wave((4,), 1.1, 2.1, 0.4, 0.3)
W = wave((4, 3), 0.9, 1.1, 0.2, 0)
P = wave((3, 4), 0.35, 1.9, 0.3, 0.5)
Q = wave((3, 4), 0.3, 0.7, 2.3, 0.5)
T = np.array([2, 0, 3])
I = np.array([[1, 0], [2, -1]])
E = np.array([[0, 1], [1, -1]])
K = np.array([[3, 0], [1, 1], [0, 2]])
M = np.array([i % 3 == 0 or i == 7 for i in range(12)]).reshape(3, 4)
erf = np.vectorize(math.erf)


def sm(x, d):
    e = np.exp(x - x.max(d, keepdims=True))
    return e / e.sum(d, keepdims=True)


def lsm(x, d):
    return np.log(sm(x, d))


sig = lambda x: 1 / (1 + np.exp(-x))
lp = lsm(A, 1)
w = V - V.min() + 0.5
ce = -lp[np.arange(3), T]
lnx = (C - C.mean(-1, keepdims=True)) / np.sqrt(C.var(-1, keepdims=True) + 1e-5)


def att(q, k, v, mask=None):
    s = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    return sm(s, -1) @ v


cos = (
    A / np.linalg.norm(A, axis=1, keepdims=True) * (B / np.linalg.norm(B, axis=1, keepdims=True))
).sum(1)
bce = -(Q * np.log(P) + (1 - Q) * np.log(1 - P))
d = A - B
lc = lsm(C, 1)
TC = np.array([[0, 1, 2, 0], [2, 2, 1, 0]])
rows = [
    ("add(A, V, alpha=2)", A + 2 * V),
    ("sub(A, B, alpha=3)", A - 3 * B),
    ("rsub(A, 1)", 1 - A),
    ("mul(A, 2)", A * 2),
    ("div(A, B)", A / B),
    ("div(A, B, rounding_mode='floor')", np.floor(A / B)),
    ("div(A, B, rounding_mode='trunc')", np.trunc(A / B)),
    ("div(I, 2, rounding_mode='trunc')", np.trunc(I / 2)),
    ("div(I, -2, rounding_mode='trunc')", np.trunc(I / -2)),
    ("floor_divide(I, 2)", I // 2),
    ("remainder(I, 3)", I % 3),
    ("pow(B, 2)", B**2),
    ("pow(B, 3.5)", B**3.5),
    ("pow(2, A)", 2**A),
    ("pow(B, 0.5)", B**0.5),
    ("pow(I, 2)", I**2),
    ("clamp(A, -0.5, 0.7)", A.clip(-0.5, 0.7)),
    ("clamp(A, max=V)", np.minimum(A, V)),
    ("clip(A, min=0)", A.clip(0, None)),
    ("where(M, A, B)", np.where(M, A, B)),
    ("where(A, M, 0)", np.where(M, A, 0)),
    ("where(M, 1.0, A)", np.where(M, 1.0, A)),
    ("lerp(A, B, 0.3)", A + 0.3 * (B - A)),
    ("addcmul(A, B, P, value=0.5)", A + 0.5 * B * P),
    ("addcdiv(A, B, P, value=2)", A + 2 * B / P),
    ("bitwise_not(I)", ~I),
    ("isnan(A)", A * 0),
    ("isfinite(A)", A * 0 + 1),
    ("logical_not(I)", I == 0),
    ("gt(A, 0)", A > 0),
    ("sum(A)", A.sum()),
    ("sum(C, (0, 2), keepdim=True)", C.sum((0, 2), keepdims=True)),
    ("sum(A, dim=-1)", A.sum(-1)),
    ("sum(M)", M.sum()),
    ("sum(M, 0)", M.sum(0)),
    ("mean(A, 1)", A.mean(1)),
    ("mean(C, (0, 1))", C.mean((0, 1))),
    ("prod(B, 1)", B.prod(1)),
    ("amax(A, 0)", A.max(0)),
    ("amin(C, (1, 2))", C.min((1, 2))),
    ("max(A)", A.max()),
    ("max(A, 1)", np.concatenate([A.max(1), A.argmax(1)])),
    ("min(A, dim=0)", np.concatenate([A.min(0), A.argmin(0)])),
    ("max(A, B)", np.maximum(A, B)),
    ("argmax(A)", A.argmax()),
    ("argmin(A, 1)", A.argmin(1)),
    ("argmax(A, 0, True)", A.argmax(0)),
    ("var(A)", A.var(ddof=1)),
    ("var(A, 1)", A.var(1, ddof=1)),
    ("var(A, 0, unbiased=False)", A.var(0)),
    ("std(A, 1, correction=2)", A.std(1, ddof=2)),
    ("std(A, False)", A.std()),
    ("norm(A)", np.linalg.norm(A)),
    ("norm(A, 1, 1)", abs(A).sum(1)),
    ("norm(A, inf, 0)", abs(A).max(0)),
    ("norm(A, 3, 1)", (abs(A) ** 3).sum(1) ** (1 / 3)),
    ("any(M, 1)", M.any(1)),
    ("all(M)", M.all()),
    ("count_nonzero(M, 0)", M.sum(0)),
    ("cumsum(A, 1)", A.cumsum(1)),
    ("cumsum(I, 0)", I.cumsum(0)),
    ("logsumexp(A, 1)", np.log(np.exp(A).sum(1))),
    ("logsumexp(C, (0, 2))", np.log(np.exp(C).sum((0, 2)))),
    ("softmax(A, 1)", sm(A, 1)),
    ("softmax(C, 0)", sm(C, 0)),
    ("log_softmax(A, -1)", lp),
    ("reshape(A, 2, -1)", A),
    ("reshape(A, (6, 2))", A),
    ("permute(C, 2, 0, 1)", C.transpose(2, 0, 1)),
    ("transpose(C, 0, -1)", C.swapaxes(0, -1)),
    ("t(A)", A.T),
    ("movedim(C, 0, -1)", np.moveaxis(C, 0, -1)),
    ("flatten(C, 1)", C),
    ("unflatten(A, 1, (2, -1))", A),
    ("expand(V, 3, -1)", np.broadcast_to(V, (3, 4))),
    ("broadcast_to(S, (2, 2))", np.broadcast_to(S, (2, 2))),
    ("repeat(A, 2, 1, 3)", np.tile(A, (2, 1, 3))),
    ("tile(A, (2,))", np.tile(A, (2,))),
    ("flip(A, 0, 1)", A[::-1, ::-1]),
    ("flip(C, (2,))", C[:, :, ::-1]),
    ("roll(A, 1, 0)", np.roll(A, 1, 0)),
    ("roll(A, (1, -1), (0, 1))", np.roll(A, (1, -1), (0, 1))),
    ("roll(A, 5)", np.roll(A, 5)),
    ("narrow(A, 1, 1, 2)", A[:, 1:3]),
    ("select(C, 1, -1)", C[:, -1]),
    ("unbind(A, 1)", A.T),
    ("split(A, 3, 1)", np.concatenate([A[:, :3].ravel(), A[:, 3:].ravel()])),
    ("split(A, [1, 3], 1)", np.concatenate([A[:, :1].ravel(), A[:, 1:].ravel()])),
    ("chunk(A, 3, 1)", np.concatenate([A[:, :2].ravel(), A[:, 2:].ravel()])),
    ("cat((A, B), 1)", np.concatenate([A, B], 1)),
    ("stack((A, B), -1)", np.stack([A, B], -1)),
    ("vstack((A, V))", np.vstack([A, V])),
    ("hstack((V, V))", np.hstack([V, V])),
    ("diagonal(A)", A.diagonal()),
    ("diagonal(C, 1, 1, 2)", C.diagonal(1, 1, 2)),
    ("diagonal(C, -1, 2, 0)", C.diagonal(-1, 2, 0)),
    ("getitem(C, 1)", C[1]),
    ("getitem(C, (1, 2, 3))", C[1, 2, 3]),
    ("getitem(C, (..., -1))", C[..., -1]),
    ("getitem(C, (1:, None, ::2))", C[1:, None, ::2]),
    ("getitem(A, (:, 1:3))", A[:, 1:3]),
    ("getitem(A, I)", A[I]),
    ("getitem(C, (0, :, I))", C[0][:, I]),
    ("getitem(A, [2, 0, -1])", A[[2, 0, -1]]),
    ("getitem(C, (E, :, I))", C[E, :, I]),
    ("getitem(C, (E, I))", C[E, I]),
    ("getitem(C, (:, I, I))", C[:, I, I]),
    ("getitem(A, (2:1,))", A[2:1]),
    ("getitem(A, -1)", A[-1]),
    ("getitem(C, (1:2, ..., 0:9:3))", C[1:2, ..., 0:9:3]),
    ("getitem(A, (I, 1))", A[I, 1]),
    ("index_select(A, 1, T)", A[:, T]),
    ("gather(A, 1, K)", np.take_along_axis(A, K, 1)),
    ("take_along_dim(A, K, 1)", np.take_along_axis(A, K, 1)),
    ("tril(A)", np.tril(A)),
    ("triu(A, 1)", np.triu(A, 1)),
    ("tril(A, -1)", np.tril(A, -1)),
    ("sort(A, 1)", np.concatenate([np.sort(A, 1).ravel(), np.argsort(A, 1).ravel()])),
    ("sort(A, 0, True)", np.concatenate([-np.sort(-A, 0).ravel(), np.argsort(-A, 0).ravel()])),
    ("argsort(V)", np.argsort(V)),
    (
        "topk(A, 2, 1)",
        np.concatenate([(-np.sort(-A, 1))[:, :2].ravel(), np.argsort(-A, 1)[:, :2].ravel()]),
    ),
    ("topk(A, 1, 0, False)", np.concatenate([A.min(0), A.argmin(0)])),
    ("masked_fill(A, M, 9)", np.where(M, 9, A)),
    ("one_hot(T)", np.eye(4)[T]),
    ("one_hot(K, 5)", np.eye(5)[K]),
    ("embedding(K, W)", W[K]),
    ("matmul(A, W)", A @ W),
    ("matmul(V, W)", V @ W),
    ("matmul(A, V)", A @ V),
    ("matmul(V, V)", V @ V),
    ("matmul(C, W)", C @ W),
    ("matmul(C, V)", C @ V),
    ("mm(A, W)", A @ W),
    ("mv(A, V)", A @ V),
    ("dot(V, V)", V @ V),
    ("outer(V, V)", np.outer(V, V)),
    ("addmm(S, A, W, beta=2, alpha=0.5)", 2 * S + 0.5 * (A @ W)),
    ("linear(C, A)", C @ A.T),
    ("linear(V, A)", A @ V),
    ("linear(A, B, bias=S)", A @ B.T + S),
    ("zeros(2, 2)", np.zeros(4)),
    ("ones((2,))", np.ones(2)),
    ("full((2, 2), 7)", np.full(4, 7)),
    ("zeros_like(V)", V * 0),
    ("full_like(V, 2.5)", V * 0 + 2.5),
    ("new_ones(V, 3)", np.ones(3)),
    ("arange(5)", np.arange(5)),
    ("arange(1, 7, 2)", np.arange(1, 7, 2)),
    ("arange(5, 0, -2)", np.arange(5, 0, -2)),
    ("arange(0, 1, 0.25)", np.arange(0, 1, 0.25)),
    ("linspace(0, 1, 5, dtype=float64)", np.linspace(0, 1, 5)),
    ("eye(2, 3)", np.eye(2, 3)),
    ("double(I)", I),
    ("long(B)", np.trunc(B)),
    ("bool(I)", I != 0),
    ("to(I, float64)", I),
    ("relu(A)", A.clip(0)),
    ("sigmoid(A)", sig(A)),
    ("gelu(A)", A * 0.5 * (1 + erf(A / math.sqrt(2)))),
    ("gelu(A, 'tanh')", 0.5 * A * (1 + np.tanh(math.sqrt(2 / math.pi) * (A + 0.044715 * A**3)))),
    ("silu(A)", A * sig(A)),
    ("logsigmoid(A)", np.log(sig(A))),
    ("softplus(A)", np.log1p(np.exp(A))),
    ("softplus(A, 2, 1)", np.where(2 * A > 1, A, np.log1p(np.exp(2 * A)) / 2)),
    ("leaky_relu(A, 0.1)", np.where(A > 0, A, 0.1 * A)),
    ("elu(A, 0.5)", np.where(A > 0, A, 0.5 * np.expm1(A))),
    ("hardtanh(A, -0.5, 0.5)", A.clip(-0.5, 0.5)),
    ("relu6(A)", A.clip(0, 6)),
    ("layer_norm(C, (4,))", lnx),
    ("layer_norm(C, [4], V, V)", lnx * V + V),
    ("rms_norm(C, (4,), V, 1e-5)", C / np.sqrt((C**2).mean(-1, keepdims=True) + 1e-5) * V),
    ("batch_norm(A, None, None, V, V, True)", (A - A.mean(0)) / np.sqrt(A.var(0) + 1e-5) * V + V),
    ("normalize(A)", A / np.linalg.norm(A, axis=1, keepdims=True)),
    ("normalize(A, 1, 0)", A / abs(A).sum(0)),
    ("cosine_similarity(A, B)", cos),
    ("cross_entropy(A, T)", ce.mean()),
    ("cross_entropy(A, T, reduction='sum')", ce.sum()),
    ("cross_entropy(A, T, reduction='none')", ce),
    ("cross_entropy(A, T, ignore_index=0)", ce[[0, 2]].mean()),
    ("cross_entropy(A, T, V)", (ce * V[T]).sum() / V[T].sum()),
    ("cross_entropy(A, T, label_smoothing=0.2)", 0.8 * ce.mean() + 0.2 / 4 * (-lp.sum(1)).mean()),
    (
        "cross_entropy(A, T, V, label_smoothing=0.2)",
        (0.8 * (ce * V[T]).sum() + 0.2 / 4 * (-(lp * V).sum(1)).sum()) / V[T].sum(),
    ),
    ("cross_entropy(A, P)", -(lp * P).sum() / 3),
    ("nll_loss(A, T)", -A[np.arange(3), T].mean()),
    ("mse_loss(A, B)", (d**2).mean()),
    ("l1_loss(A, B, reduction='sum')", abs(d).sum()),
    ("smooth_l1_loss(A, B)", np.where(abs(d) < 1, 0.5 * d * d, abs(d) - 0.5).mean()),
    ("smooth_l1_loss(A, B, beta=2.0)", np.where(abs(d) < 2, 0.25 * d * d, abs(d) - 1).mean()),
    ("huber_loss(A, B, delta=2.0)", np.where(abs(d) < 2, 0.5 * d * d, 2 * (abs(d) - 1)).mean()),
    ("binary_cross_entropy(P, Q)", bce.mean()),
    (
        "binary_cross_entropy_with_logits(A, Q)",
        (-(Q * np.log(sig(A)) + (1 - Q) * np.log(1 - sig(A)))).mean(),
    ),
    (
        "binary_cross_entropy_with_logits(A, Q, pos_weight=B)",
        (-(B * Q * np.log(sig(A)) + (1 - Q) * np.log(1 - sig(A)))).mean(),
    ),
    ("kl_div(A, Q)", (Q * (np.log(Q) - A)).mean()),
    ("kl_div(A, Q, reduction='batchmean')", (Q * (np.log(Q) - A)).sum() / 3),
    ("kl_div(A, B, log_target=True)", (np.exp(B) * (B - A)).mean()),
    ("scaled_dot_product_attention(C, C, C)", att(C, C, C)),
    (
        "scaled_dot_product_attention(C, C, C, is_causal=True)",
        att(C, C, C, np.tril(np.ones((3, 3), bool))),
    ),
    ("nan_to_num(A)", A),
    ("var_mean(A, 1)", np.concatenate([A.var(1, ddof=1), A.mean(1)])),
]
x = A.copy()
for i in range(3):
    for j in range(2):
        x[i, K[i, j]] += B[i, j]
rows.append(("scatter_add(A, 1, K, B)", x))
print(
    "/* SPDX-License-Identifier: Apache-2.0 */\n/* generated by api_values.py with numpy",
    np.__version__,
    "*/",
)
for name, v in rows:
    v = np.asarray(v, dtype=float).ravel()
    print('  { "%s", %d, { %s } },' % (name, len(v), ", ".join(repr(float(y)) for y in v)))
