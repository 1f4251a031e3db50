# SPDX-License-Identifier: Apache-2.0
"""Schedules of learning rates, with torch's names and formulas.

A schedule changes group["lr"] when its step() is called: it is made at epoch 0, and each step() is
one epoch on.  get_lr() computes the next rates from the present ones, so that schedules of one
optimizer multiply; _closed() computes them from those at the start, where there is such a formula,
for step(epoch).  A rate that is a tensor is written in place: a compiled step reads it anew each
time.
"""

import math
from bisect import bisect_right
from collections import Counter

from gramme._core import Tensor

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR",
    "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


def _copied(value):
    return value.clone() if isinstance(value, Tensor) else value


def _put(group, name, value):
    """Sets an option of a group: in place if it is a tensor."""
    if isinstance(group[name], Tensor):
        group[name].copy_(value) if isinstance(value, Tensor) else group[name].fill_(value)
    else:
        group[name] = float(value) if isinstance(value, Tensor) else value


def _each(optimizer, name, value):
    """One value for each group."""
    values = (
        list(value) if isinstance(value, (list, tuple)) else [value] * len(optimizer.param_groups)
    )
    if len(values) != len(optimizer.param_groups):
        raise ValueError(
            f"{name} has {len(values)} values, and the optimizer has {len(optimizer.param_groups)} "
            "groups"
        )
    return values


class LRScheduler:
    """Base of all schedules: a subclass defines get_lr().  last_epoch -1 starts anew; another one
    goes on from there, for an optimizer whose groups have an "initial_lr"."""

    def __init__(self, optimizer, last_epoch=-1):
        from gramme.optim.optimizer import Optimizer

        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"a schedule is for an optimizer, not for a {type(optimizer).__name__}")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"group {i} has no 'initial_lr': to go on at epoch {last_epoch}, load the "
                    "optimizer's state first"
                )
        self.base_lrs = [_copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    def _begin(self):
        self._step_count = 0
        self.step()

    def get_last_lr(self):
        """The rates that the last step() set, one for each group."""
        return self._last_lr

    def get_lr(self):
        """The rates of this epoch, one for each group."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr()")

    def _rates(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor):
        return [rate * factor for rate in self._rates()]

    _closed = None

    def step(self, epoch=None):
        """Sets the rates of the next epoch, or of a given one."""
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(
            self._closed() if epoch is not None and self._closed is not None else self.get_lr()
        )

    def _set(self, rates):
        for group, rate in zip(self.optimizer.param_groups, rates):
            _put(group, "lr", rate)
        self._last_lr = [_copied(rate) for rate in self._rates()]

    def state_dict(self):
        """All but the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() returned.  The optimizer's own state has the rates
        themselves."""
        vars(self).update(state_dict)


class _WithFunctions(LRScheduler):
    """A function of the epoch for each group.  Functions are not part of state_dict(), what objects
    that are called hold is."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.lr_lambdas = _each(optimizer, "lr_lambda", lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        state = super().state_dict()
        state["lr_lambdas"] = [
            dict(vars(f)) if not callable_by_name(f) else None for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict):
        super().load_state_dict(
            {name: value for name, value in state_dict.items() if name != "lr_lambdas"}
        )
        for function, state in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if state is not None:
                vars(function).update(state)


def callable_by_name(function):
    """Whether it is a function, and no object with a state."""
    import types

    return isinstance(function, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))


class LambdaLR(_WithFunctions):
    """The first rate times lr_lambda(epoch); a list has a function for each group."""

    def get_lr(self):
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(_WithFunctions):
    """The last rate times lr_lambda(epoch)."""

    def get_lr(self):
        if self.last_epoch <= 0:
            return self._rates()
        return [rate * f(self.last_epoch) for rate, f in zip(self._rates(), self.lr_lambdas)]


class StepLR(LRScheduler):
    """Multiplied by gamma every step_size epochs."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return (
            self._scaled(self.gamma)
            if self.last_epoch and self.last_epoch % self.step_size == 0
            else self._rates()
        )

    def _closed(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplied by gamma at each of the milestones."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        times = self.milestones[self.last_epoch] if self.last_epoch in self.milestones else 0
        return self._scaled(self.gamma**times) if times else self._rates()

    def _closed(self):
        return [
            base * self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)
            for base in self.base_lrs
        ]


class ConstantLR(LRScheduler):
    """Multiplied by factor until epoch total_iters."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1:
            raise ValueError(f"factor must be between 0 and 1, and is {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return (
            self._scaled(1.0 / self.factor)
            if self.last_epoch == self.total_iters
            else self._rates()
        )

    def _closed(self):
        return [
            base * (self.factor if self.last_epoch < self.total_iters else 1.0)
            for base in self.base_lrs
        ]


class LinearLR(LRScheduler):
    """Multiplied by a factor that goes from start_factor to end_factor in total_iters epochs, in
    equal parts."""

    def __init__(
        self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1
    ):
        if not 0 < start_factor <= 1:
            raise ValueError(f"start_factor must be above 0 and at most 1, and is {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"end_factor must be between 0 and 1, and is {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self.last_epoch > self.total_iters:
            return self._rates()
        slope = self.end_factor - self.start_factor
        return self._scaled(
            1.0 + slope / (self.total_iters * self.start_factor + (self.last_epoch - 1) * slope)
        )

    def _closed(self):
        slope = self.end_factor - self.start_factor
        factor = (
            self.start_factor + slope * min(self.total_iters, self.last_epoch) / self.total_iters
        )
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplied by gamma at every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._scaled(self.gamma) if self.last_epoch else self._rates()

    def _closed(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The first rate times (1 - epoch / total_iters) ** power, 0 from total_iters on."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._rates()
        factor = (1.0 - self.last_epoch / self.total_iters) / (
            1.0 - (self.last_epoch - 1) / self.total_iters
        )
        return self._scaled(factor**self.power)

    def _closed(self):
        factor = (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power
        return [base * factor for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """From the first rate to eta_min and back, half a cosine of T_max epochs each way (Loshchilov
    and Hutter 2017, without restarts)."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        epoch, length, least = self.last_epoch, self.T_max, self.eta_min
        if epoch == 0:
            return self._rates()
        if self._step_count == 1:
            return self._closed()
        if (epoch - 1 - length) % (
            2 * length
        ) == 0:  # the rate before was eta_min, of which nothing can be multiplied
            rise = (1 - math.cos(math.pi / length)) / 2
            return [
                rate + (base - least) * rise for rate, base in zip(self._rates(), self.base_lrs)
            ]
        factor = (1 + math.cos(math.pi * epoch / length)) / (
            1 + math.cos(math.pi * (epoch - 1) / length)
        )
        return [factor * (rate - least) + least for rate in self._rates()]

    def _closed(self):
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the first rate to eta_min in T_0 epochs, and again, each T_mult times as
    long (Loshchilov and Hutter 2017).

    step(epoch) takes fractions of epochs, too.
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"T_0 must be a positive integer, and is {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"T_mult must be an integer of at least 1, and is {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = (
            T_0,
            T_0,
            T_mult,
            eta_min,
            last_epoch,
        )
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch=None):
        self._step_count += 1
        if epoch is None:
            epoch = self.last_epoch + 1
        elif epoch < 0:
            raise ValueError(f"an epoch is not negative, and this one is {epoch}")
        begin, length = 0, self.T_0
        if self.T_mult == 1:
            begin = epoch // length * length
        else:
            while epoch >= begin + length:
                begin, length = begin + length, length * self.T_mult
        self.T_cur, self.T_i, self.last_epoch = epoch - begin, length, math.floor(epoch)
        self._set(self.get_lr())


class _Momentum:
    """The momentum of an optimizer: SGD's option, or the first of Adam's betas."""

    def __init__(self, optimizer):
        names = [name for name in ("betas", "momentum") if name in optimizer.defaults]
        if not names:
            raise ValueError(f"cycle_momentum=True: {type(optimizer).__name__} has no momentum")
        self.name = names[0]

    def put(self, group, value):
        if self.name == "betas":
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(LRScheduler):
    """Up from base_lr to max_lr in step_size_up steps, down in step_size_down, and again (Smith
    2017); momentum the other way.

    mode: "triangular", "triangular2" (each cycle half as high), "exp_range" (gamma ** step as
    high); or scale_fn, of the cycle's or the step's number as scale_mode says.
    """

    def __init__(
        self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular",
        gamma=1.0, scale_fn=None,
        scale_mode="cycle", cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1,
    ):  # fmt: skip
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(
                f"mode is 'triangular', 'triangular2' or 'exp_range', not {mode!r}; or give "
                "scale_fn"
            )
        base_lrs = _each(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs):
                _put(group, "lr", rate)
                group["initial_lr"] = rate
        self.max_lrs = _each(optimizer, "max_lr", max_lr)
        step_size_down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + step_size_down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn = mode, gamma, scale_fn
        self.scale_mode = (
            scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        )
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._momentum = _Momentum(optimizer)
            self.base_momentums = _each(optimizer, "base_momentum", base_momentum)
            self.max_momentums = _each(optimizer, "max_momentum", max_momentum)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x):
        """How high a cycle is."""
        if self._scale_fn is not None:
            return self._scale_fn(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        place = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = place * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums
            ):
                self._momentum.put(group, high - (high - low) * scale)
        return [low + (high - low) * scale for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self):
        """All but the optimizer and scale_fn."""
        return {
            name: value
            for name, value in super().state_dict().items()
            if name not in ("_momentum", "_scale_fn")
        }


def _cosine(start, end, part):
    return end + (start - end) / 2.0 * (1 + math.cos(math.pi * part))


def _line(start, end, part):
    return (end - start) * part + start


class OneCycleLR(LRScheduler):
    """One cycle (Smith and Topin 2018): up from max_lr / div_factor to max_lr in pct_start of the
    steps, then down to 1/final_div_factor of the first rate; with three_phase first down as it came
    up.  Momentum the other way.  total_steps, or epochs and steps_per_epoch.

    Errors: ValueError for more steps than those.
    """

    def __init__(
        self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
        final_div_factor=1e4, three_phase=False, last_epoch=-1,
    ):  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(
                f"the number of steps must be a positive integer, and is {total_steps}"
            )
        if not 0 <= pct_start <= 1:
            raise ValueError(f"pct_start must be between 0 and 1, and is {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}")
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        # (last step, rate before, after, momentum before, after): names of options of a group
        if three_phase:
            self._phases = [
                (
                    pct_start * total_steps - 1,
                    "initial_lr",
                    "max_lr",
                    "max_momentum",
                    "base_momentum",
                ),
                (
                    2 * pct_start * total_steps - 2,
                    "max_lr",
                    "initial_lr",
                    "base_momentum",
                    "max_momentum",
                ),
                (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._phases = [
                (
                    pct_start * total_steps - 1,
                    "initial_lr",
                    "max_lr",
                    "max_momentum",
                    "base_momentum",
                ),
                (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._momentum = _Momentum(optimizer)
        if last_epoch == -1:
            for group, most in zip(optimizer.param_groups, _each(optimizer, "max_lr", max_lr)):
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
            if cycle_momentum:
                pairs = zip(
                    _each(optimizer, "base_momentum", base_momentum),
                    _each(optimizer, "max_momentum", max_momentum),
                )
                for group, (low, high) in zip(optimizer.param_groups, pairs):
                    self._momentum.put(group, high)
                    group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"step {step} of a cycle of {self.total_steps} steps")
        anneal = _cosine if self.anneal_strategy == "cos" else _line
        start = 0.0
        for phase in self._phases:
            end, before, after, momentum_before, momentum_after = phase
            if step <= end or phase is self._phases[-1]:
                break
            start = end
        part = (step - start) / (end - start) if end != start else 1.0
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                self._momentum.put(
                    group, anneal(group[momentum_before], group[momentum_after], part)
                )
        return [anneal(group[before], group[after], part) for group in self.optimizer.param_groups]

    def state_dict(self):
        return {name: value for name, value in super().state_dict().items() if name != "_momentum"}


class ReduceLROnPlateau(LRScheduler):
    """Multiplied by factor when step(metric) saw no better metric for more than `patience` epochs,
    then `cooldown` epochs do not count.

    mode: "min" or "max" is better, by `threshold`, relative ("rel") or absolute ("abs"); rates stay
    above min_lr and change by more than eps.
    """

    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        if factor >= 1:
            raise ValueError(f"factor must be below 1, and is {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"mode is 'min' or 'max', not {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold_mode is 'rel' or 'abs', not {threshold_mode!r}")
        self.optimizer = optimizer
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = (
            threshold,
            threshold_mode,
            cooldown,
            eps,
        )
        self.min_lrs = _each(optimizer, "min_lr", min_lr)
        self.last_epoch = 0
        self._last_lr = [_copied(rate) for rate in self._rates()]
        self._reset()

    def _reset(self):
        """As if no metric had been seen."""
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0

    def is_better(self, a, best):
        """Whether a is better than best, by more than the threshold."""
        sign = -1 if self.mode == "min" else 1
        margin = self.threshold if self.threshold_mode == "abs" else None
        bound = best * (1 + sign * self.threshold) if margin is None else best + sign * margin
        return a < bound if self.mode == "min" else a > bound

    def step(self, metrics, epoch=None):
        """Looks at the metric of one epoch."""
        metric = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(metric, self.best):
            self.best, self.num_bad_epochs = metric, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [_copied(rate) for rate in self._rates()]

    def _reduce(self):
        for group, least in zip(self.optimizer.param_groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _put(group, "lr", new)


class SequentialLR(LRScheduler):
    """Several schedules of one optimizer, one after the other: milestones are the epochs at which
    the next one begins."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if not schedulers or len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"{len(schedulers)} schedules need {len(schedulers) - 1} milestones, not "
                f"{len(milestones)}"
            )
        for schedule in schedulers:
            if schedule.optimizer is not optimizer:
                raise ValueError("all schedules must be of the optimizer that is given")
            if isinstance(schedule, ReduceLROnPlateau):
                raise ValueError(
                    "ReduceLROnPlateau needs a metric at each step, and cannot be one of a sequence"
                )
        self.optimizer, self.milestones, self.last_epoch = (
            optimizer,
            list(milestones),
            last_epoch + 1,
        )
        self._schedulers = list(schedulers)
        for group in optimizer.param_groups:  # all have begun, and only the first one should have
            _put(group, "lr", group["initial_lr"])
        for schedule in schedulers:
            schedule.last_epoch -= 1
        schedulers[0]._begin()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self):
        """One epoch on, in the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self.milestones, self.last_epoch)
        schedule = self._schedulers[turn]
        if turn and self.milestones[turn - 1] == self.last_epoch:
            schedule.step(0)
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()

    def state_dict(self):
        return _with_parts(self)

    def load_state_dict(self, state_dict):
        _load_parts(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Several schedules of one optimizer at once: each step() is one of all, in their order."""

    def __init__(self, schedulers, optimizer=None):
        if not schedulers:
            raise ValueError("a chain needs at least one schedule")
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        for schedule in schedulers:
            if schedule.optimizer is not optimizer:
                raise ValueError("all schedules must be of one optimizer")
        self.optimizer, self._schedulers = optimizer, list(schedulers)
        self._last_lr = [_copied(rate) for rate in self._rates()]

    def step(self):
        """One step of each."""
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = [_copied(rate) for rate in self._rates()]

    def state_dict(self):
        return _with_parts(self)

    def load_state_dict(self, state_dict):
        _load_parts(self, state_dict)


def _with_parts(schedule):
    state = {
        name: value
        for name, value in vars(schedule).items()
        if name not in ("optimizer", "_schedulers")
    }
    state["_schedulers"] = [part.state_dict() for part in schedule._schedulers]
    return state


def _load_parts(schedule, state_dict):
    vars(schedule).update(
        {name: value for name, value in state_dict.items() if name != "_schedulers"}
    )
    for part, state in zip(schedule._schedulers, state_dict["_schedulers"]):
        part.load_state_dict(state)
