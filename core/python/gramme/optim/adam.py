# SPDX-License-Identifier: Apache-2.0
"""Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019) and their AMSGrad variant, in torch's order of operations."""

import math

import gramme
from gramme.optim.optimizer import Optimizer, check_not_negative


class Adam(Optimizer):
    """Adam(params, lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, maximize=False)

    weight_decay is added to the gradient.
    """

    decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, maximize=False):
        check_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be at least 0 and below 1, and are {betas}")
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
            },
        )

    def _update(self, p, g, state, group):
        lr = group["lr"]
        beta1, beta2 = group["betas"]
        if group["maximize"]:
            g = -g
        if group["weight_decay"]:
            if self.decoupled:
                p *= 1 - lr * group["weight_decay"]
            else:
                g = g + p * group["weight_decay"]
        if not state:
            state["step"] = 0
            state["exp_avg"] = gramme.zeros_like(p)
            state["exp_avg_sq"] = gramme.zeros_like(p)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = gramme.zeros_like(p)
        state["step"] += 1
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean *= beta1
        mean += g * (1 - beta1)
        square *= beta2
        square += (g * g) * (1 - beta2)
        correction1 = 1 - beta1 ** state["step"]
        correction2 = 1 - beta2 ** state["step"]
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = state["max_exp_avg_sq"].maximum(square)
        root = square.sqrt() / math.sqrt(correction2) + group["eps"]
        p -= (mean / root) * (lr / correction1)


class AdamW(Adam):
    """AdamW(params, lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False, *, maximize=False)

    weight_decay shrinks the parameters directly.
    """

    decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
