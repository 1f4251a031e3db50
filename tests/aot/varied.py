# SPDX-License-Identifier: Apache-2.0
"""Random functions out of what the other kinds leave out: views by other names, writes by position,
`out=`, several results at once, layers that write to their buffers, gradients asked for inside,
modes, hooks that write; calls within modes; and what comes after a call: writes before the
backward, two calls and one backward, steps of training."""

import contextlib
import random

import afterwards
import wide
from same import bits, flatten

import gramme as G

F = G.nn.functional
EXPRESSIONS = wide.EXPRESSIONS + [
    "G.addcmul({a}, {b}, {b})", "G.addcdiv({a}, {b}, {a} + 4)", "G.lerp({a}, {b}, 0.3)",
    "G.lerp({a}, {b}, {a})", "{a} ** {b}", "2 ** {a}",
    "{a} % 3", "{a}.fmod(2)", "{a}.floor()", "{a}.sign() * {b}", "G.maximum({a}, {b})",
    "{a}.clamp(min={b})", "{a}.logsumexp(0)", "{a}.norm()",
    "{a}.std(0)", "{a}.var(-1, keepdim=True)", "{a}.sum(dtype=G.float64)",
    "{a}.mean(-1, keepdim=True)", "{a}.cumprod(0)", "{a}.sort(0)[0]",
    "{a}.sort(-1, descending=True)[0]", "{a}.topk(2)[0]", "{a}.min(0)[0]", "{a}.argmax(0)",
    "{a}.tril()", "{a}.triu(1)", "{a}.roll(1, 0)", "{a}.repeat(2, 1)",
    "{a}.tile(2)", "G.diag_embed({a})", "{a}.diag()", "{a} * {b}[0]", "{a}[0] + {b}",
    "{a} * G.tensor(1.5)", "{a} * G.tensor(2)", "{a} + G.arange(4)", "({a} > {b})",
    "{a} * ({b} > 0)",
    "G.where({a} > 0, {b}, 0.5)", "G.where({b} > 0, 1.0, {a})",
    "{a}.take_along_dim(G.tensor([[0, 1]]), 1)", "{a}.gather(0, G.tensor([[0, 1]]))",
    "{a}.scatter(0, G.tensor([[1, 0]]), 0.5)",
    "{a}.index_add(0, G.tensor([0, 0]), {b}[:2])", "{a}[{a} > 0]", "{a}[G.tensor([0, 1]), 1:]",
    "{a}[:, G.tensor([1, 0, 1])]", "{a}[G.tensor([[0], [1]]), G.tensor([0, 2])]",
    "{a}[None, ..., 0]",
    "F.layer_norm({a}, {a}.shape[-1:])", "F.gelu({a})", "F.silu({a})", "F.softplus({a})",
    "F.leaky_relu({a})", "F.elu({a})", "F.linear({a}, {b})", "F.mse_loss({a}, {b})",
    "F.smooth_l1_loss({a}, {b})",
    "F.normalize({a}, dim=-1)", "F.pad({a}, (1, 1))", "G.einsum('i...,i...->...', {a}, {b})",
    "G.bmm({a}[None], {b}[None])", "{a}.mT @ {b}", "G.dot({a}.flatten(), {b}.flatten())",
    "G.baddbmm({a}[None], {a}[None], {b}[None])", "{a}.addmm({a}, {b})",
    "G.autograd.grad({a}.square().sum(), {a})[0]",
    "G.autograd.grad(({a} * {b}).sum(), {b}, create_graph=True)[0] * {a}",
    "G.cat([{a}, {a}], -1)", "G.stack([{a}, {b}], -1)", "G.cat([{a}.double(), {b}])",
    "sum(G.var_mean({a}))", "{a}.aminmax()[0]", "{a}.cummax(0)[0]", "{a}.to({b}.dtype)",
    "{a}.type_as({b}) * {b}", "{a} * {a}.requires_grad", "{a} * {a}.is_leaf",
    "{a} * {a}.is_contiguous()", "{a} * {a}._version", "{a} * len({a})",
    "{a}.detach() * {b}", "{a}.data * 2", "{a}.new_zeros({a}.shape) + {b}",
    "G.zeros_like({a}).copy_({b})", "G.empty_like({a}).fill_(0.5) * {a}",
    "{a}.masked_select({a} > 0)", "{a}.nan_to_num()", "{a}.reciprocal()",
    "{a}.log1p()", "{a}.rsqrt()", "G.atan2({a}, {b})", "G.hypot({a}, {b})", "{a}.logcumsumexp(0)",
    "{a}.bernoulli(0.5)", "twofold({a}, {b})[0]", "sum(twofold({a}, {b}))",
]  # fmt: skip
VIEWS = wide.VIEWS + [
    "{a}.T", "{a}.mT", "{a}.unflatten(-1, (2, -1))", "{a}.view_as({b})", "{a}.expand_as({b})",
    "{a}.broadcast_to(3, 4)", "{a}.ravel()", "{a}.reshape_as({b})", "{a}[None]", "{a}[..., None]",
    "{a}[:, None]",
    "{a}.swapaxes(0, 1)", "{a}.squeeze(0)", "{a}.squeeze(-1)", "{a}.tensor_split(2)[1]",
    "{a}.hsplit(2)[0]", "{a}.unbind(-1)[0]", "{a}.split([1, 2], -1)[1]", "{a}.diagonal()",
    "{a}.unfold(-1, 2, 1)", "{a}.data", "{a}.to({a}.dtype)",
    "{a}.expand(2, *{a}.shape)", "{a}.view({a}.shape)", "{a}[1:3, ::2]", "{a}[()]",
    "{a}.detach()[1:]", "{a}.select(-1, 0)", "{a}.narrow(-1, 0, 1)", "{a}.view(-1)[3:7].view(2, 2)",
    "{a}.transpose(-1, 0)", "{a}.movedim(-1, 0)", "{a}.real",
]  # fmt: skip
WRITES = wide.WRITES + [
    "{a}.addcmul_({b}, {b})", "{a}.lerp_({b}, 0.5)", "{a}.index_fill_(0, G.tensor([1]), 2.0)",
    "{a}.index_add_(0, G.tensor([0, 0]), {b}[:2])", "{a}.index_copy_(0, G.tensor([1, 0]), {b}[:2])",
    "{a}.scatter_(0, G.tensor([[1, 0]]), 0.5)", "{a}.scatter_add_(0, G.tensor([[1, 0]]), {b})",
    "{a}.masked_scatter_({a} > 0, {b})", "{a}[{a} > 0] *= 2", "{a}[G.tensor([1, 0])] = {b}[:2]",
    "{a}[:, G.tensor([0])] += 1",
    "{a}.pow_(2)", "{a}.sqrt_()", "{a}.relu_()", "{a}.sigmoid_()", "{a}.tanh_()", "{a}.abs_()",
    "{a}.tril_()", "{a}.cumsum_(0)", "{a}.fmod_(2)", "{a}.floor_()", "F.relu({a}, inplace=True)",
    "F.silu({a}, inplace=True)", "{a}.bernoulli_(0.5)",
    "G.add({a}, {b}, out={a})", "G.mul({a}, 2, out={b})", "G.sin({b}, out={a}[1:])",
    "{a}.addmm_({a}, {b})", "{a}.div_({b} + 4)", "{a}.sub_({b}, alpha=2)", "{a}.copy_({b}[0])",
    "{a}[...] = {b}", "{a}[-1] += {b}[0]", "{a}.T.mul_(2)", "{a}.unsqueeze(0).add_({b})",
    "{a}.expand(2, *{a}.shape)[0].mul_(2)", "{a}.data.mul_(2)", "{a}.detach()[1:].zero_()",
    "{a}.clamp_(min=0)", "{a}, {b} = {b}, {a}", "{a}.put_(G.tensor([0]), G.tensor([1.0]))",
    "{a}.swapaxes(0, 1)[0].fill_(3)", "{a}.requires_grad_()",
    "{a}.unbind()[0].mul_(2)", "{a}.split(1)[0].add_(1)", "{a}.round_()", "{a}.logical_not_()",
    "{a}.exponential_()", "{a}.diagonal().copy_({b}.diagonal())", "{a}.squeeze(0).neg_()",
]  # fmt: skip
SHAPES_IN_PLACE = wide.SHAPES_IN_PLACE + [
    "{a}.detach_()",
    "{a}.data = {b}",
    "{a}.data = {a}.data * 2",
    "{a}.squeeze_(-1)",
    "{a}.resize_as_({b})",
    "{a}.swapdims_(0, 1)",
    "{a}.set_({b}.data)",
]
QUIET = wide.Wide.QUIET + [
    "with G.enable_grad(): {n} = {a} * {b}", "with G.set_grad_enabled(False): {n} = {a}.sin()",
    "with G.no_grad(): {a}.detach().mul_(2)", "with G.no_grad(): {n} = {a}.view(-1); {n}.add_(1)",
    "with G.no_grad(), G.enable_grad(): {n} = {a} * 1.5",
    "with G.no_grad(): {n} = {a}.detach().requires_grad_()", "with G.no_grad(): {a}[0] = {b}[0]",
]  # fmt: skip
HOOKS = wide.HOOKS + [
    "{a}.register_hook(lambda g: g.clone().mul_(2))", "{a}.register_hook(lambda g: None)",
    "{a}.register_hook(lambda g, c={b}: g * c.shape[0] if c.ndim else g)",
    "{a}.register_hook(lambda g: g.sin())",
    "{a}.grad_fn", "{a}.register_hook(lambda g: G.zeros_like(g))",
    "{a}.register_hook(lambda g: seen.append(tuple(g.shape)) or g.abs())",
]  # fmt: skip


def twofold(a, b):
    """Several results, one of them a view."""
    low, high = (a * b).chunk(2)
    return low.exp(), high


def pack(t):
    return t.clone()


CALLS = {
    None: contextlib.nullcontext,
    "packed": lambda: G.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
    "quiet": G.no_grad,
    "cast": lambda: G.autocast("cpu", dtype=G.bfloat16),
}


def written(seed):
    """Some of what a program got and gave is written to before the backward: plain Python's
    gradients, or its refusal."""

    def run(results, inputs, leaves):
        choose = random.Random(f"{seed} written")
        tensors = list(
            {
                id(t): t for t in [*inputs, *flatten(results), *leaves] if isinstance(t, G.Tensor)
            }.values()
        )
        ways = [
            lambda t: t.mul_(2),
            lambda t: t.zero_(),
            lambda t: t.data.add_(1),
            lambda t: t.view(-1)[:1].fill_(3),
            lambda t: t.detach().neg_(),
        ]
        for t in choose.sample(tensors, min(len(tensors), choose.choice([1, 1, 2, 3]))):
            with G.no_grad():
                try:
                    choose.choice(ways)(t)
                except RuntimeError:  # of a shape, dtype or place that it can't be done to
                    pass
        ask = choose.choice(
            [
                afterwards.backward,
                afterwards.grad,
                afterwards.double,
                afterwards.retain,
                afterwards.several(seed),
            ]
        )
        return ask(results, inputs, leaves)

    return run


def trained(results, inputs, leaves):
    """Gradients are there before; a step is taken, and the history is still there."""
    for t in leaves:
        t.grad = G.ones_like(t)
    loss = afterwards.loss_of(results)
    if loss is None:
        return None
    loss.backward(retain_graph=True)
    lines = [bits(t.grad) for t in leaves if t.grad is not None]
    with G.no_grad():
        for t in leaves:
            if t.grad is not None:
                t -= 0.1 * t.grad
                t.grad.zero_()
    loss.backward()
    return lines


def spread(results, inputs, leaves):
    """Gradients that are expanded, of other layouts, zero; hooks that write to them."""
    for i, t in enumerate(flatten(results)):
        if t.requires_grad and i % 2:
            t.register_hook(lambda g: g.mul_(2) if g.is_contiguous() and not g._base else None)
    roots = [t for t in flatten(results) if t.requires_grad]
    if roots:
        G.autograd.backward(
            roots,
            [
                G.full((), 0.5, dtype=t.dtype).expand(t.shape)
                if k % 2
                else G.ones(t.shape[::-1]).to(t.dtype).permute(*reversed(range(t.ndim)))
                for k, t in enumerate(roots)
            ],
        )


class Varied(wide.Wide):
    EXPRESSIONS, VIEWS, WRITES, SHAPES_IN_PLACE, QUIET, HOOKS = (
        EXPRESSIONS,
        VIEWS,
        WRITES,
        SHAPES_IN_PLACE,
        QUIET,
        HOOKS,
    )
    AFTER = wide.Wide.AFTER + ["written", "written", "several", "trained", "spread"]

    def __init__(self, seed):
        super().__init__(seed)
        choose = random.Random(f"{seed} call")
        self.call = choose.choice(["packed", "quiet", "cast"]) if choose.random() < 0.15 else None
        self.around = CALLS[self.call]
        own = {
            "written": written(seed),
            "several": afterwards.several(seed),
            "trained": trained,
            "spread": spread,
        }
        self.named = self.after
        self.after = own.get(self.after, self.after)

    def scope(self):
        return {**super().scope(), "F": F, "twofold": twofold}

    def __str__(self):
        return f"{super().__str__()}\nthen {self.named}, called {self.call}"
