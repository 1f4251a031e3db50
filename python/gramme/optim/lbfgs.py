# SPDX-License-Identifier: Apache-2.0
"""L-BFGS: Newton's direction from the last few steps (Nocedal 1980; Nocedal and Wright, Numerical
Optimization, 2nd ed., algorithm 7.4).

The line search is theirs too: algorithms 3.5 (find an interval) and 3.6 (narrow it) with the cubic
of equation 3.59, for the strong Wolfe conditions.  All parameters are one vector here.  How far to
go depends on numbers that only the run knows, so a step is plain Python around the closure, which
may be compiled.
"""

import math
from collections import namedtuple

import gramme
from gramme.grad_mode import enable_grad, no_grad
from gramme.optim.optimizer import Optimizer, check_not_negative

DECREASE, CURVATURE = 1e-4, 0.9  # c1 and c2 of the Wolfe conditions
MAX_SEARCH = 25  # evaluations of one line search

Point = namedtuple("Point", "t loss gradient slope")  # on the line x + t * direction


def cubic_minimum(a, b):
    """Where the cubic through two points with these slopes is smallest; None if it has no
    minimum."""
    if a.t == b.t:
        return None
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not 0 <= square < math.inf:
        return None
    d2 = math.copysign(math.sqrt(square), b.t - a.t)
    bottom = b.slope - a.slope + 2 * d2
    return b.t - (b.t - a.t) * (b.slope + d2 - d1) / bottom if bottom else None


def _narrow(at, start, low, high, budget, tolerance):
    """Algorithm 3.6: between low, the best point, and high lies one that fulfils both
    conditions."""
    for _ in range(budget):
        width = abs(high.t - low.t)
        if width <= tolerance:
            break
        left, right = min(low.t, high.t), max(low.t, high.t)
        t = cubic_minimum(low, high)
        if (
            t is None or not left + 0.1 * width <= t <= right - 0.1 * width
        ):  # too near to an end: no progress
            t = (left + right) / 2
        point = at(t)
        if not point.loss <= start.loss + DECREASE * t * start.slope or point.loss >= low.loss:
            high = point
            continue
        if abs(point.slope) <= -CURVATURE * start.slope:
            return point
        if point.slope * (high.t - low.t) >= 0:
            high = low
        low = point
    return low


def strong_wolfe(at, start, t, tolerance=0.0):
    """A point of the line that fulfils the strong Wolfe conditions, or the best one found; at(t)
    evaluates."""
    previous = start
    for i in range(MAX_SEARCH):
        point = at(t)
        if not point.loss <= start.loss + DECREASE * t * start.slope or (
            i and point.loss >= previous.loss
        ):
            return _narrow(at, start, previous, point, MAX_SEARCH - i - 1, tolerance)
        if abs(point.slope) <= -CURVATURE * start.slope:
            return point
        if point.slope >= 0:
            return _narrow(at, start, point, previous, MAX_SEARCH - i - 1, tolerance)
        further = cubic_minimum(previous, point)
        least, most = t + 0.01 * (t - previous.t), 10 * t
        previous, t = point, most if further is None else min(max(further, least), most)
    return point


class LBFGS(Optimizer):
    """LBFGS(params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
    history_size=100, line_search_fn=None)

    step(closure) makes up to max_iter iterations with at most max_eval (None: 5/4 of max_iter)
    evaluations, and returns the first loss.
    line_search_fn: None (steps of length lr) or "strong_wolfe".  Errors: ValueError for a second
    group of parameters.
    """

    def __init__(
        self,
        params,
        lr=1,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
    ):
        check_not_negative(lr=lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"line_search_fn is None or 'strong_wolfe', not {line_search_fn!r}")
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError(
                "LBFGS makes one vector of its parameters, and takes one group of options"
            )

    def _gradient(self):
        """All gradients as one vector."""
        return gramme.cat(
            [
                (gramme.zeros_like(p) if p.grad is None else p.grad.detach()).reshape(-1)
                for p in self.param_groups[0]["params"]
            ]
        )

    def _move(self, places, direction, t):
        """Parameters become places + t * direction."""
        offset = 0
        with no_grad():
            for p, place in zip(self.param_groups[0]["params"], places):
                p.copy_(place + direction[offset : offset + p.numel()].reshape(p.shape) * t)
                offset += p.numel()

    def _step(self, closure=None):
        if closure is None:
            raise TypeError(
                "LBFGS.step() needs a closure, which computes the loss and its gradients again"
            )
        with no_grad():
            return self._iterate(closure)

    def _iterate(self, closure):
        group = self.param_groups[0]
        params = group["params"]
        lr = float(group["lr"])
        state = self.state[params[0]]
        if not state:
            state.update({"n_iter": 0, "func_evals": 0, "steps": [], "changes": []})
        evaluations = 0

        def evaluate():
            nonlocal evaluations
            evaluations += 1
            state["func_evals"] += 1
            with enable_grad():
                return closure()

        first = evaluate()
        loss, gradient = float(first), self._gradient()
        for iteration in range(1, group["max_iter"] + 1):
            if gradient.abs().max().item() <= group["tolerance_grad"]:
                break
            direction = self._direction(state, gradient)
            slope = (gradient @ direction).item()
            if slope > -group["tolerance_change"]:
                break
            t = min(1.0, 1.0 / gradient.abs().sum().item()) * lr if state["n_iter"] == 0 else lr
            state["n_iter"] += 1
            places = [p.detach().clone() for p in params]
            largest = direction.abs().max().item()

            def at(t):
                self._move(places, direction, t)
                value = float(evaluate())
                there = self._gradient()
                return Point(t, value, there, (there @ direction).item())

            if group["line_search_fn"] == "strong_wolfe":
                point = strong_wolfe(
                    at, Point(0.0, loss, gradient, slope), t, group["tolerance_change"] / largest
                )
                self._move(places, direction, point.t)
            elif iteration < group["max_iter"]:
                point = at(t)
            else:  # nobody asks for the loss at the last point
                self._move(places, direction, t)
                point = Point(t, loss, gradient, slope)
            state["previous"] = (gradient, direction * point.t)
            change, loss, gradient = abs(point.loss - loss), point.loss, point.gradient
            if (
                evaluations >= group["max_eval"]
                or largest * abs(point.t) <= group["tolerance_change"]
                or change < group["tolerance_change"]
            ):
                break
        return first

    def _direction(self, state, gradient):
        """Minus the inverse Hessian, as the past steps know it, times the gradient: two loops over
        them (algorithm 7.4)."""
        steps, changes = state["steps"], state["changes"]
        if "previous" in state:
            before, step = state.pop("previous")
            change = gradient - before
            if (change @ step).item() > 1e-10:  # else the Hessian would not stay positive
                steps.append(step)
                changes.append(change)
                del (
                    steps[: -self.param_groups[0]["history_size"]],
                    changes[: -self.param_groups[0]["history_size"]],
                )
        direction = -gradient
        if not steps:
            return direction
        weights = []
        for step, change in zip(reversed(steps), reversed(changes)):
            weights.append((step @ direction) / (change @ step))
            direction = direction - change * weights[-1]
        direction = direction * ((changes[-1] @ steps[-1]) / (changes[-1] @ changes[-1]))
        for step, change, weight in zip(steps, changes, reversed(weights)):
            direction = direction + step * (weight - (change @ direction) / (change @ step))
        return direction
