# SPDX-License-Identifier: Apache-2.0
"""Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019) and their AMSGrad variant, in
torch's order of operations."""

import gramme
from gramme.optim.optimizer import Optimizer, check_betas, check_hints, check_not_negative, new_step


class Adam(Optimizer):
    """Adam(params, lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *,
    maximize=False, decoupled_weight_decay=False)

    weight_decay is added to the gradient; if decoupled, it shrinks the parameters directly.
    Errors: ValueError for a negative option, or for betas outside of [0, 1).
    """

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *,
        maximize=False,
        decoupled_weight_decay=False, **hints,
    ):  # fmt: skip
        check_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        check_hints(hints)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def _update(self, p, g, state, group):
        lr = group["lr"]
        beta1, beta2 = group["betas"]
        start = p
        if group["weight_decay"]:
            if group["decoupled_weight_decay"]:
                start = p * (1 - lr * group["weight_decay"])
            else:
                g = g + p * group["weight_decay"]
        if not state:
            state["step"] = new_step()
            state["exp_avg"] = gramme.zeros_like(p)
            state["exp_avg_sq"] = gramme.zeros_like(p)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = gramme.zeros_like(p)
        step, mean, square = state["step"], state["exp_avg"], state["exp_avg_sq"]
        step += 1
        mean *= beta1
        mean += g * (1 - beta1)
        square *= beta2
        square += (g * g) * (1 - beta2)
        correction1 = 1 - beta1**step
        correction2 = 1 - beta2**step
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = state["max_exp_avg_sq"].maximum(square)
        root = square.sqrt() / correction2.sqrt() + group["eps"]
        update = (mean / root) * (lr / correction1)
        if start is p:
            p -= update
        else:
            p.copy_(start - update)


class AdamW(Adam):
    """AdamW(params, lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False, *,
    maximize=False)

    Adam whose weight_decay shrinks the parameters directly.
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        **hints,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            decoupled_weight_decay=True,
            **hints,
        )
