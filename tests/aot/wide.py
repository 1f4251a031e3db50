# SPDX-License-Identifier: Apache-2.0
"""Random functions with what a program over tensors has besides memory: hooks, wishes to keep
gradients, dtypes, random numbers, regions that are computed again, functions with a gradient of
their own.  The rest is programs.py's."""

import programs

import gramme as G

BASES = [
    "{x}",
    "{x}",
    "{x}",
    "{x}.double()",
    "{x}.half()",
    "{x}.bfloat16()",
    "{x}.long()",
    "{x}.int()",
]
EXPRESSIONS = programs.EXPRESSIONS + [
    "G.rand_like({a})", "{a} + G.randn_like({a})", "G.nn.functional.dropout({a}, 0.5)",
    "{a} * G.rand({a}.shape)",
    "G.utils.checkpoint.checkpoint(wave, {a})", "G.utils.checkpoint.checkpoint(noisy, {a})",
    "Scale.apply({a})", "Pair.apply({a}, {b})[1]",
    "{a}.double()", "{a}.half()", "{a}.bfloat16()", "{a}.float()", "{a}.long()",
    "({a} > 0).float()", "{a}.abs().sqrt()",
    "{a}.cumsum(0)", "{a}.softmax(-1)", "G.cat([{a}, {b}])", "G.stack([{a}, {b}])",
    "{a}.index_select(0, G.tensor([0, 0, 1]))",
    "{a}[G.tensor([1, 0])]", "{a}.masked_fill({a} > 0, 0.25)", "{a}.flip(0)", "{a}.max()",
    "{a}.amax(0)", "{a}.prod()", "{a}.var()",
    "{a} / ({b} + 4)", "{a} ** 2", "{a}.exp()", "{a}.clamp(-1, 1)",
    "G.outer({a}.flatten(), {b}.flatten()).sum(1)", "{a}.max(0)[0]",
]  # fmt: skip
VIEWS = programs.VIEWS + [
    "{a}.split(2)[1]", "{a}.chunk(2)[0]", "{a}.narrow(0, 1, 2)", "{a}.select(0, 1)",
    "{a}.unbind()[1]", "{a}.flatten()",
    "{a}.unsqueeze(-1)", "{a}.permute(1, 0)", "{a}.contiguous()", "{a}.movedim(0, -1)",
]  # fmt: skip
WRITES = programs.WRITES + [
    "{a}.clamp_(-1, 1)", "{a}.masked_fill_({a} > 0, 0.5)", "{a}[G.tensor([0, 1])] = 3",
    "{a}.uniform_()", "{a}.normal_()",
    "{a}.exp_()", "{a}.div_(3)", "{a}[..., 0] += 1", "{a}[1:-1] *= 2", "{a}.flatten()[2:].zero_()",
    "{a}.fill_(1.5)",
    "{a}[{a} > 0.5] = 0", "{a}.sub_({b}.sum())", "{a}.neg_()",
]  # fmt: skip
SHAPES_IN_PLACE = programs.SHAPES_IN_PLACE + [
    "{a}.resize_(3, 4)",
    "{a}.unsqueeze_(-1)",
    "{a}.squeeze_(0)",
    "{a}.swapaxes_(0, 1)",
]
HOOKS = [
    "{a}.register_hook(lambda g: g * 2)", "{a}.register_hook(lambda g: seen.append(g.tolist()))",
    "{a}.retain_grad()",
    "h = {a}.register_hook(lambda g: g + 1); h.remove()", "{a}.register_hook(double)",
]  # fmt: skip


class Scale(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1.5

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 1.5 + x * 0.125


class Pair(G.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x + 1, x * y

    @staticmethod
    def backward(ctx, g, h):
        (y,) = ctx.saved_tensors
        return g + h * y, h * 0.5


def wave(t):
    return (t.sin() * t).tanh()


def noisy(t):
    return t * G.rand_like(t) + t.cos()


def double(g):
    return g * 2


class Wide(programs.Program):
    EXPRESSIONS, VIEWS, WRITES, SHAPES_IN_PLACE = EXPRESSIONS, VIEWS, WRITES, SHAPES_IN_PLACE
    KINDS = [
        (0.36, "EXPRESSIONS"),
        (0.54, "VIEWS"),
        (0.76, "WRITES"),
        (0.82, "SHAPES_IN_PLACE"),
        (0.92, "HOOKS"),
        (1, "QUIET"),
    ]
    HOOKS = HOOKS
    AFTER = [
        None,
        "backward",
        "backward",
        "outside",
        "grad",
        "double",
        "retain",
        "hooked",
        "recorded",
    ]

    def scope(self):
        return {
            "G": G,
            "Scale": Scale,
            "Pair": Pair,
            "wave": wave,
            "noisy": noisy,
            "double": double,
            "seen": self.seen,
        }

    def base(self, i):
        return self.random.choice(BASES).format(x=super().base(i))

    def finish(self, lines):
        """What is done with the inputs before the call."""
        if self.random.random() < 0.2:
            k = self.random.randrange(len(self.names))
            lines.append(
                f"if inputs[{k}].requires_grad: "
                + self.random.choice(HOOKS).format(a=f"inputs[{k}]")
            )


# -- One element of each row -----------------------------------------------------------------------


def rows(t):
    """t as a matrix of f32 whose rows are not empty."""
    return t.float().reshape(-1, t.shape[-1] if t.ndim and t.shape[-1] else 1)


def places(t, step):
    """One of each row, other ones in each: some programs take what is largest."""
    return (
        (G.arange(t.shape[0]) * step + 1) % t.shape[1]
        if step
        else t.detach().nan_to_num().argmax(1)
    )


def pick(t, step):
    return (rows(t).tanh() * 1.5 + 0.25).gather(1, places(rows(t), step)[:, None])


def put(t, step):
    at = places(rows(t), step)[:, None]
    return G.zeros_like(rows(t)).scatter_add(1, at, rows(t).sin().gather(1, at))


def loss(t, step, **how):
    return G.nn.functional.cross_entropy(rows(t), places(rows(t), step), **how)


class Picks(Wide):
    """What core/aot/index_rewrites.c takes apart, among all else."""

    EXPRESSIONS = EXPRESSIONS + [
        "pick({a}, 1)", "pick({a}, 2)", "pick({a}, 0)", "pick({a} + {b}, 3)",
        "pick({a}.exp(), 1).sum()", "put({a}, 1)", "put({a}, 3)",
        "put({a} * {b}, 0)", "loss({a}, 1)", "loss({a}, 0, reduction='none')",
        "loss({a}, 2, label_smoothing=0.25)",
        "loss({a} * {b}, 3, reduction='sum', ignore_index=1)",
        "rows({a}).log_softmax(1).gather(1, places(rows({a}), 2)[:, None])",
        "rows({a})[G.arange(rows({a}).shape[0]), places(rows({a}), 1)]",
    ]  # fmt: skip
    KINDS = [
        (0.5, "EXPRESSIONS"),
        (0.64, "VIEWS"),
        (0.8, "WRITES"),
        (0.84, "SHAPES_IN_PLACE"),
        (0.92, "HOOKS"),
        (1, "QUIET"),
    ]

    def scope(self):
        return {
            **super().scope(),
            "rows": rows,
            "places": places,
            "pick": pick,
            "put": put,
            "loss": loss,
        }
