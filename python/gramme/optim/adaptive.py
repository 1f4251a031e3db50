# SPDX-License-Identifier: Apache-2.0
"""Step sizes from the squares of past gradients, in torch's order of operations.

Adagrad: Duchi, Hazan and Singer 2011.  Adadelta: Zeiler 2012.  RMSprop: Hinton's lecture 6e, 2012;
centered: Graves 2013.
"""

import gramme
from gramme.optim.optimizer import Optimizer, check_hints, check_not_negative, new_step


class Adagrad(Optimizer):
    """Adagrad(params, lr=0.01, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
    *, maximize=False)

    Each element's gradient is divided by the root of the sum of its squares.  Errors: ValueError
    for a negative option.
    """

    def __init__(
        self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
        foreach=None, *, maximize=False,
        **hints,
    ):  # fmt: skip
        check_not_negative(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        check_hints(hints)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "eps": eps,
                "maximize": maximize,
            },
        )

    def _update(self, p, g, state, group):
        if group["weight_decay"]:
            g = g + p * group["weight_decay"]
        if not state:
            state["step"] = new_step()
            state["sum"] = gramme.full_like(p, group["initial_accumulator_value"])
        step, total = state["step"], state["sum"]
        step += 1
        total += g * g
        p -= (g / (total.sqrt() + group["eps"])) * (
            group["lr"] / (1 + (step - 1) * group["lr_decay"])
        )


class Adadelta(Optimizer):
    """Adadelta(params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, *, maximize=False)

    The gradient is scaled by the root mean square of past steps over that of past gradients.
    Errors: ValueError for a negative option, or for rho above 1.
    """

    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        **hints,
    ):
        check_not_negative(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)
        check_hints(hints)
        if rho > 1:
            raise ValueError(f"rho must not be above 1, and is {rho}")
        super().__init__(
            params,
            {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize},
        )

    def _update(self, p, g, state, group):
        rho, eps = group["rho"], group["eps"]
        if group["weight_decay"]:
            g = g + p * group["weight_decay"]
        if not state:
            state["step"] = new_step()
            state["square_avg"] = gramme.zeros_like(p)
            state["acc_delta"] = gramme.zeros_like(p)
        step, square, steps = state["step"], state["square_avg"], state["acc_delta"]
        step += 1
        square *= rho
        square += (g * g) * (1 - rho)
        delta = (steps + eps).sqrt() / (square + eps).sqrt() * g
        steps *= rho
        steps += (delta * delta) * (1 - rho)
        p -= delta * group["lr"]


class RMSprop(Optimizer):
    """RMSprop(params, lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, *,
    maximize=False)

    The gradient is divided by the running root mean square of gradients; if centered, by their
    standard deviation.
    Errors: ValueError for a negative option.
    """

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
        capturable=False, foreach=None,
        maximize=False, differentiable=False,
    ):  # fmt: skip
        check_not_negative(
            lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum
        )
        check_hints({"differentiable": differentiable})
        super().__init__(
            params,
            {
                "lr": lr,
                "alpha": alpha,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "centered": centered,
                "maximize": maximize,
            },
        )

    def _update(self, p, g, state, group):
        alpha = group["alpha"]
        if group["weight_decay"]:
            g = g + p * group["weight_decay"]
        if not state:
            state["step"] = new_step()
            state["square_avg"] = gramme.zeros_like(p)
            if group["momentum"]:
                state["momentum_buffer"] = gramme.zeros_like(p)
            if group["centered"]:
                state["grad_avg"] = gramme.zeros_like(p)
        step, square = state["step"], state["square_avg"]
        step += 1
        square *= alpha
        square += (g * g) * (1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            mean += (g - mean) * (1 - alpha)
            square = square - mean * mean
        g = g / (square.sqrt() + group["eps"])
        if group["momentum"]:
            buffer = state["momentum_buffer"]
            buffer *= group["momentum"]
            buffer += g
            g = buffer
        p -= g * group["lr"]
