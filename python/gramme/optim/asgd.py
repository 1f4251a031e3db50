# SPDX-License-Identifier: Apache-2.0
"""Averaged stochastic gradient descent: Polyak and Juditsky 1992, with the step sizes of Xu
2011."""

import gramme
from gramme.optim.optimizer import Optimizer, check_hints, check_not_negative, new_step


class ASGD(Optimizer):
    """ASGD(params, lr=0.01, lambd=0.0001, alpha=0.75, t0=1e6, weight_decay=0, foreach=None,
    maximize=False)

    Steps of size lr / (1 + lambd * lr * t) ** alpha that also shrink the parameter by lambd;
    state["ax"] is the mean of what the parameter was since step t0.  Errors: ValueError for a
    negative lr or weight_decay.
    """

    def __init__(
        self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None,
        maximize=False, differentiable=False,
        capturable=False,
    ):  # fmt: skip
        check_not_negative(lr=lr, weight_decay=weight_decay)
        check_hints({"differentiable": differentiable})
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "maximize": maximize,
            },
        )

    def _update(self, p, g, state, group):
        lr, lambd = group["lr"], group["lambd"]
        if group["weight_decay"]:
            g = g + p * group["weight_decay"]
        if not state:
            state["step"] = new_step()
            state["eta"] = new_step() + lr
            state["mu"] = new_step() + 1
            state["ax"] = gramme.zeros_like(p)
        step, eta, mu, mean = state["step"], state["eta"], state["mu"], state["ax"]
        step += 1
        p.copy_(p * (1 - lambd * eta) - g * eta)
        mean.copy_(gramme.where(mu == 1, p, mean + (p - mean) * mu))
        eta.copy_(lr / (1 + lambd * lr * step) ** group["alpha"])
        mu.copy_(1 / (step - group["t0"]).clamp(min=1))
