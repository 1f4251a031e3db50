# SPDX-License-Identifier: Apache-2.0
"""Adam's relatives, in torch's order of operations: Adamax (Kingma and Ba 2015, section 7.1), NAdam
(Dozat 2016), RAdam (Liu et al. 2020)."""

import gramme
from gramme.optim.optimizer import Optimizer, check_betas, check_hints, check_not_negative, new_step


class _Kin(Optimizer):
    """What the three share: two running means of each gradient, and a weight decay."""

    def __init__(self, params, lr, betas, eps, weight_decay, maximize, hints, **options):
        check_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        check_hints(hints)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, {**defaults, **options})

    def _decay(self, p, g, group):
        """(where the step starts, gradient), the decay in one of them."""
        decay = group["weight_decay"]
        if not decay:
            return p, g
        if group.get("decoupled_weight_decay"):
            return p * (1 - group["lr"] * decay), g
        return p, g + p * decay


class Adamax(_Kin):
    """Adamax(params, lr=0.002, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, *, maximize=False)

    Adam with the largest of the decayed gradients in the place of their root mean square.
    Errors: ValueError for a negative option, or for betas outside of [0, 1).
    """

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        **hints,
    ):
        super().__init__(params, lr, betas, eps, weight_decay, maximize, hints)

    def _update(self, p, g, state, group):
        beta1, beta2 = group["betas"]
        start, g = self._decay(p, g, group)
        if not state:
            state["step"] = new_step()
            state["exp_avg"] = gramme.zeros_like(p)
            state["exp_inf"] = gramme.zeros_like(p)
        step, mean, largest = state["step"], state["exp_avg"], state["exp_inf"]
        step += 1
        mean *= beta1
        mean += g * (1 - beta1)
        largest.copy_((largest * beta2).maximum(g.abs() + group["eps"]))
        p.copy_(start - (mean / largest) * (group["lr"] / (1 - beta1**step)))


class NAdam(_Kin):
    """NAdam(params, lr=0.002, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=0.004,
    decoupled_weight_decay=False, *, maximize=False)

    Adam with Nesterov's momentum, whose weight rises to betas[0] as momentum_decay says.
    Errors: ValueError for a negative option, or for betas outside of [0, 1).
    """

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
        decoupled_weight_decay=False, *,
        maximize=False, **hints,
    ):  # fmt: skip
        check_not_negative(momentum_decay=momentum_decay)
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            maximize,
            hints,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
        )

    def _update(self, p, g, state, group):
        lr = group["lr"]
        beta1, beta2 = group["betas"]
        start, g = self._decay(p, g, group)
        if not state:
            state["step"] = new_step()
            state["mu_product"] = gramme.ones((), dtype=gramme.float64, device="cpu")
            state["exp_avg"] = gramme.zeros_like(p)
            state["exp_avg_sq"] = gramme.zeros_like(p)
        step, product, mean, square = (
            state["step"],
            state["mu_product"],
            state["exp_avg"],
            state["exp_avg_sq"],
        )
        step += 1
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        product *= mu
        mean *= beta1
        mean += g * (1 - beta1)
        square *= beta2
        square += (g * g) * (1 - beta2)
        root = (square / (1 - beta2**step)).sqrt() + group["eps"]
        start = start - (g / root) * (lr * (1 - mu) / (1 - product))
        p.copy_(start - (mean / root) * (lr * mu_next / (1 - product * mu_next)))


class RAdam(_Kin):
    """RAdam(params, lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
    decoupled_weight_decay=False, *, maximize=False)

    Adam whose steps are scaled by how well the variance is known, and do without it in the first
    ones.
    Errors: ValueError for a negative option, or for betas outside of [0, 1).
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
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
            maximize,
            hints,
            decoupled_weight_decay=decoupled_weight_decay,
        )

    def _update(self, p, g, state, group):
        beta1, beta2 = group["betas"]
        start, g = self._decay(p, g, group)
        if not state:
            state["step"] = new_step()
            state["exp_avg"] = gramme.zeros_like(p)
            state["exp_avg_sq"] = gramme.zeros_like(p)
        step, mean, square = state["step"], state["exp_avg"], state["exp_avg_sq"]
        step += 1
        mean *= beta1
        mean += g * (1 - beta1)
        square *= beta2
        square += (g * g) * (1 - beta2)
        correction2 = 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        length = (
            limit - 2 * step * beta2**step / correction2
        )  # of the average whose variance this one has
        known = length > 5
        ratio = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        scale = gramme.where(known, ratio, 0.0).sqrt() * correction2.sqrt()
        adapted = gramme.where(known, scale / (square.sqrt() + group["eps"]), 1.0)
        p.copy_(start - (mean * adapted) * (group["lr"] / (1 - beta1**step)))
