# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells, and one direction of a recurrent layer as one function of autograd.

A direction runs over a list of steps, of which step t has sizes[t] rows (one for each example that
has not ended), at most as many as the step before.  Autograd alone would take the gradient of
weight_hh as a sum of one small product for each step.  Layer.backward() keeps the gradients of all
steps, and takes one product over all of them (Appleyard, Kocisky and Blunsom, "Optimizing
Performance of Recurrent Neural Networks on GPUs", 2016).  Factors that do not depend on what comes
from later steps are computed for all steps at once.
"""

import gramme
from gramme.autograd import Function
from gramme.nn import functional as F

# -- Cells -----------------------------------------------------------------------------------------
#
# step (x, h, state): x: (N, gates * H), the input's product; h: as much, the hidden state's; state:
# a tuple whose first is the hidden state.
#   Result: (the next state, kept): kept are what factors() asks for, each (N, H), and a state's parts behind the first.
# factors (out, kept, extra, before): of all rows of all steps; out: the hidden states; extra:
# gradients that came to kept, zeros but for gradients
#   of gradients; before: the states before each step.  Result: a list of tensors for back().
# back (grad, factors): gradients of the next state's parts.  Result: (x's, h's, those of the state
# by other ways than h; None where there is none).


class Tanh:
    """h' = tanh (x + h) (Elman 1990)."""

    gates = 1

    @staticmethod
    def step(x, h, state):
        return ((x + h).tanh(),), ()

    @staticmethod
    def factors(out, kept, extra, before):
        return [1 - out * out]

    @staticmethod
    def back(grad, factors):
        d = grad[0] * factors[0]
        return d, d, (None,)


class Relu:
    """h' = relu (x + h)."""

    gates = 1

    @staticmethod
    def step(x, h, state):
        return ((x + h).relu(),), ()

    @staticmethod
    def factors(out, kept, extra, before):
        return [out > 0]

    @staticmethod
    def back(grad, factors):
        d = gramme.where(factors[0], grad[0], 0.0)
        return d, d, (None,)


class Gru:
    """h' = (1 - z) * n + z * h with n = tanh (x_n + r * h_n): Cho et al., 2014, in torch's form."""

    gates = 3

    @staticmethod
    def step(x, h, state):
        x_r, x_z, x_n = x.chunk(3, -1)
        h_r, h_z, h_n = h.chunk(3, -1)
        r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
        n = (x_n + r * h_n).tanh()
        return (n + z * (state[0] - n),), (r, z, n, h_n)

    @staticmethod
    def factors(out, kept, extra, before):
        (r, z, n, h_n), (d_r, d_z, d_n, d_h_n) = kept, extra
        slope_r, slope_z, slope_n = r * (1 - r), z * (1 - z), 1 - n * n
        return [
            z, r, (1 - z) * slope_n, (before[0] - n) * slope_z, h_n * slope_r,
            d_n * slope_n, d_z * slope_z, d_r * slope_r, d_h_n,
        ]  # fmt: skip

    @staticmethod
    def back(grad, factors):
        z, r, to_n, to_z, to_r, more_n, more_z, more_r, more_h_n = factors
        n = grad[0] * to_n + more_n
        first = [n * to_r + more_r, grad[0] * to_z + more_z]
        return (
            gramme.cat([*first, n], -1),
            gramme.cat([*first, n * r + more_h_n], -1),
            (grad[0] * z,),
        )


class Lstm:
    """c' = f * c + i * g, h' = o * tanh (c'): Hochreiter and Schmidhuber, 1997, with forget
    gates."""

    gates = 4

    @staticmethod
    def step(x, h, state):
        i, f, g, o = (x + h).chunk(4, -1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * state[1] + i * g
        return (o * c.tanh(), c), (i, f, g, o, c)

    @staticmethod
    def factors(out, kept, extra, before):
        (i, f, g, o, c), (d_i, d_f, d_g, d_o, d_c) = kept, extra
        h = c.tanh()
        slope_i, slope_f, slope_g, slope_o = i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)
        return [
            f, o * (1 - h * h), g * slope_i, before[1] * slope_f, i * slope_g, h * slope_o, d_c,
            d_i * slope_i, d_f * slope_f, d_g * slope_g, d_o * slope_o,
        ]  # fmt: skip

    @staticmethod
    def back(grad, factors):
        f, to_c, to_i, to_f, to_g, to_o, more_c, more_i, more_f, more_g, more_o = factors
        c = grad[1] + grad[0] * to_c + more_c
        d = gramme.cat(
            [c * to_i + more_i, c * to_f + more_f, c * to_g + more_g, grad[0] * to_o + more_o], -1
        )
        return d, d, (None, c * f)


# -- Walks over the steps --------------------------------------------------------------------------


def _onward(step, sizes, start):
    """The state at each example's last step: that of examples that have ended waits aside.  step
    (t, state) gives the next state."""
    ended, state = [], start
    for t, n in enumerate(sizes):
        if n < state[0].shape[0]:
            ended.append(tuple([part[n:] for part in state]))
            state = tuple([part[:n] for part in state])
        state = step(t, state)
    if ended:
        ended.append(state)
        state = tuple(
            [gramme.cat([part[k] for part in reversed(ended)]) for k in range(len(start))]
        )
    return state


def _back(step, sizes, start):
    """The same from the last step to the first: examples join where they end."""
    state = tuple([part[: sizes[-1]] for part in start]) if sizes[-1] < start[0].shape[0] else start
    for t in reversed(range(len(sizes))):
        now, n = state[0].shape[0], sizes[t]
        if n > now:
            state = tuple([gramme.cat([part, first[now:n]]) for part, first in zip(state, start)])
        state = step(t, state)
    return state


def _states_before(parts, start, sizes, reverse):
    """What stood in one part of the state before each step; parts: what it was after each."""
    before = [None] * len(sizes)

    def step(t, state):
        before[t] = state[0]
        return (parts[t],)

    (_back if reverse else _onward)(step, sizes, (start,))
    return before


def run(cell, reverse, sizes, flat, weight_hh, bias_hh, weight_hr, *start, keep=None):
    """One direction of a layer, of plain operations.  flat: (sum of sizes, gates * H), the products
    of all inputs, bias_ih in them; weight_hr, of an LSTM's projection, or None.  Result: (outputs:
    (sum of sizes, features), *the state at the end).  keep: a list that gets what each step
    keeps."""
    products, outputs, kept = flat.split(sizes), [None] * len(sizes), [None] * len(sizes)

    def step(t, state):
        state, mine = cell.step(products[t], F.linear(state[0], weight_hh, bias_hh), state)
        if weight_hr is not None:
            state = (F.linear(state[0], weight_hr), *state[1:])
        outputs[t] = state[0]
        if keep is not None:
            kept[t] = mine
        return state

    end = (_back if reverse else _onward)(step, sizes, start)
    if keep is not None:
        keep.extend([gramme.cat([mine[k] for mine in kept]) for k in range(len(kept[0]))])
    return (gramme.cat(outputs), *end)


class Layer(Function):
    """run() with a backward of its own.  Results: those of run(), and behind them what is kept of
    all steps: gradients of gradients pass there."""

    @staticmethod
    def forward(ctx, cell, reverse, sizes, flat, weight_hh, bias_hh, weight_hr, *start):
        keep = []
        results = run(cell, reverse, sizes, flat, weight_hh, bias_hh, weight_hr, *start, keep=keep)
        ctx.cell, ctx.reverse, ctx.sizes, ctx.n_parts = cell, reverse, sizes, len(start)
        ctx.save_for_backward(results[0], weight_hh, weight_hr, *start, *keep)
        return (*results, *keep)

    @staticmethod
    def backward(ctx, d_out, *others):
        out, weight_hh, weight_hr, *rest = ctx.saved_tensors
        cell, sizes, n_parts = ctx.cell, ctx.sizes, ctx.n_parts
        start, kept, d_end, extra = (
            rest[:n_parts],
            rest[n_parts:],
            others[:n_parts],
            others[n_parts:],
        )
        parts = [out, *kept[-1:]][:n_parts]  # a cell keeps the state's second part last
        before = [
            _states_before(part.split(sizes), first, sizes, ctx.reverse)
            for part, first in zip(parts, start)
        ]
        all_before = [gramme.cat(part) for part in before]
        factors = [factor.split(sizes) for factor in cell.factors(out, kept, extra, all_before)]
        d_outs = d_out.split(sizes)
        d_x, d_h, d_heads = [None] * len(sizes), [None] * len(sizes), [None] * len(sizes)

        def step(t, grad):
            head = grad[0] + d_outs[t]
            if weight_hr is not None:
                d_heads[t] = head
                head = head @ weight_hr
            d_x[t], d_h[t], ways = cell.back((head, *grad[1:]), [factor[t] for factor in factors])
            by_h = d_h[t] @ weight_hh
            return (by_h if ways[0] is None else by_h + ways[0], *ways[1:])

        d_start = (_onward if ctx.reverse else _back)(step, sizes, d_end)
        d_flat = gramme.cat(d_x)
        d_hidden = d_flat if d_x[0] is d_h[0] else gramme.cat(d_h)
        needs_hh, needs_bias, needs_hr = ctx.needs_input_grad[4:7]
        d_hh = d_hidden.mT @ all_before[0] if needs_hh else None
        d_hr = gramme.cat(d_heads).mT @ (kept[3] * kept[4].tanh()) if needs_hr else None
        return (
            None,
            None,
            None,
            d_flat,
            d_hh,
            d_hidden.sum(0) if needs_bias else None,
            d_hr,
            *d_start,
        )


def layer(cell, reverse, sizes, flat, weight_hh, bias_hh, weight_hr, start):
    """run(), by way of Layer where gradients are asked for: the same bits."""
    tensors = [
        tensor for tensor in (flat, weight_hh, bias_hh, weight_hr, *start) if tensor is not None
    ]
    if (
        gramme.is_grad_enabled()
        and not gramme.is_autocast_enabled()
        and any([tensor.requires_grad for tensor in tensors])
    ):
        return Layer.apply(
            cell, reverse, tuple(sizes), flat, weight_hh, bias_hh, weight_hr, *start
        )[: 1 + len(start)]
    return run(cell, reverse, sizes, flat, weight_hh, bias_hh, weight_hr, *start)
