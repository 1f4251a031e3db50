# SPDX-License-Identifier: Apache-2.0
"""Stochastic gradient descent, with momentum as Sutskever et al. 2013 and torch write it."""

from gramme.optim.optimizer import Optimizer, check_hints, check_not_negative


class SGD(Optimizer):
    """SGD(params, lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
    maximize=False)

    Errors: ValueError for a negative option, or for nesterov without momentum or with dampening.
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        *,
        maximize=False,
        **hints
    ):
        check_not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        check_hints(hints)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("nesterov needs a momentum and no dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def _update(self, p, g, state, group):
        momentum = group["momentum"]
        if group["weight_decay"]:
            g = g + p * group["weight_decay"]
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = g.detach().clone()
            else:
                buffer *= momentum
                buffer += g * (1 - group["dampening"]) if group["dampening"] else g
            g = g + buffer * momentum if group["nesterov"] else buffer
        p -= g * group["lr"]
