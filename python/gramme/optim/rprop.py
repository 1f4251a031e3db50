# SPDX-License-Identifier: Apache-2.0
"""Resilient backpropagation: Riedmiller and Braun 1993, in the form that forgets a gradient whose
sign changed (iRprop-: Igel and Huesken 2000)."""

import gramme
from gramme.optim.optimizer import Optimizer, check_hints, check_not_negative, new_step


class Rprop(Optimizer):
    """Rprop(params, lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, maximize=False)

    Only signs of gradients count.  Each element's step grows by etas[1] while its gradient keeps
    its sign and shrinks by etas[0] when it changes, inside step_sizes; lr is the first step.
    Errors: ValueError unless 0 < etas[0] < 1 < etas[1].
    """

    def __init__(
        self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, maximize=False, **hints
    ):
        check_not_negative(lr=lr)
        check_hints(hints)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"etas must be one number below 1 and one above it, and are {etas}")
        super().__init__(
            params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize}
        )

    def _update(self, p, g, state, group):
        shrink, grow = group["etas"]
        if not state:
            state["step"] = new_step()
            state["prev"] = gramme.zeros_like(p)
            state["step_size"] = gramme.zeros_like(p) + group["lr"]
        step, previous, size = state["step"], state["prev"], state["step_size"]
        step += 1
        agreement = g * previous
        size.copy_(
            gramme.where(
                agreement > 0, size * grow, gramme.where(agreement < 0, size * shrink, size)
            ).clamp(*group["step_sizes"])
        )
        g = gramme.where(agreement < 0, 0.0, g)
        p -= g.sign() * size
        previous.copy_(g)
