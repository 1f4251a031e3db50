# SPDX-License-Identifier: Apache-2.0
"""Optimizers of matrices: what they keep, or how they step, is made for whole matrices, in torch's
order of operations.

Adafactor: Shazeer and Stern 2018.  Muon: Jordan and others 2024; the choices of its rate: Liu and
others 2025.
"""

import math

import gramme
from gramme.optim.optimizer import Optimizer, check_hints, check_not_negative, new_step


class Adafactor(Optimizer):
    """Adafactor(params, lr=0.01, beta2_decay=-0.8, eps=(None, 0.001), d=1.0, weight_decay=0.0, *,
    maximize=False)

    The squares of a matrix's gradients are kept as the means of its rows and of its columns; steps
    are in proportion to the parameter's size.
    Errors: ValueError for an option out of its range.
    """

    def __init__(
        self,
        params,
        lr=1e-2,
        beta2_decay=-0.8,
        eps=(None, 1e-3),
        d=1.0,
        weight_decay=0.0,
        *,
        foreach=None,
        maximize=False,
        **hints,
    ):
        check_not_negative(lr=lr, weight_decay=weight_decay)
        check_hints(hints)
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and eps[0] < 0 or eps[1] < 0:
            raise ValueError(f"eps should be >= 0 but is: {eps}")
        if d < 1:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "maximize": maximize,
            },
        )

    def _update(self, p, g, state, group):
        small, least = group["eps"]
        small = gramme.finfo(p.dtype).eps if small is None else small
        if not state:
            state["step"] = new_step()
            if g.dim() > 1:
                state["row_var"], state["col_var"] = g.new_zeros(*g.shape[:-1], 1), g.new_zeros(
                    *g.shape[:-2], 1, g.shape[-1]
                )
            else:
                state["variance"] = gramme.zeros_like(g)
        step = state["step"]
        step += 1
        fresh = step.item() ** group["beta2_decay"]
        rate = min(group["lr"], 1 / math.sqrt(step.item()))
        rate = max(least, p.norm(2).item() / math.sqrt(p.numel())) * rate
        if group["weight_decay"]:
            p *= 1 - group["lr"] * group["weight_decay"]
        if g.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            row.lerp_((g * g).mean(-1, keepdim=True), fresh)
            column.lerp_((g * g).mean(-2, keepdim=True), fresh)
            size = (row @ column) / row.mean(-2, keepdim=True).clamp(min=small)
        else:
            size = state["variance"].lerp_(g * g, fresh)
        update = g * size.clamp(min=small * small).rsqrt()
        most = max(1.0, update.norm(2).item() / (math.sqrt(update.numel()) * group["d"]))
        p -= update * (rate / most)


def _orthogonal(update, coefficients, steps, eps):
    """The nearest matrix with equal singular values, nearly: Newton and Schulz's iteration, of
    order 5, in bfloat16."""
    a, b, c = coefficients
    x = update.to(gramme.bfloat16)
    tall = x.shape[0] > x.shape[1]
    x = x.mT if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = gramme.addmm(x, gramme.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(Optimizer):
    """Muon(params, lr=0.001, weight_decay=0.1, momentum=0.95, nesterov=True,
    ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-07, ns_steps=5, adjust_lr_fn=None)

    Momentum whose steps are made orthogonal.  Its parameters are matrices; others are for another
    optimizer.  adjust_lr_fn: "original" (None), the root of how much higher than wide a matrix is;
    "match_rms_adamw", a fifth of the root of its larger side.
    Errors: ValueError for an option out of its range, or a parameter that is no matrix.
    """

    def __init__(
        self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
        ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5,
        adjust_lr_fn=None,
    ):  # fmt: skip
        check_not_negative(lr=lr, weight_decay=weight_decay, momentum=momentum)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(
            params,
            {
                "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                "ns_coefficients": ns_coefficients, "eps": eps,
                "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn, "maximize": False,
            },
        )  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{list(p.shape)}"
                    )

    def _update(self, p, g, state, group):
        if not state:
            state["momentum_buffer"] = gramme.zeros_like(g)
        momentum = state["momentum_buffer"].lerp_(g, 1 - group["momentum"])
        update = g.lerp(momentum, group["momentum"]) if group["nesterov"] else momentum
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        by_size = (
            0.2 * math.sqrt(max(rows, columns))
            if group["adjust_lr_fn"] == "match_rms_adamw"
            else math.sqrt(max(1, rows / columns))
        )
        p *= 1 - group["lr"] * group["weight_decay"]
        p -= update.to(p.dtype) * (group["lr"] * by_size)
