# SPDX-License-Identifier: Apache-2.0
"""Averages of weights along the way of training (Izmailov et al., "Averaging Weights Leads to Wider
Optima", 2018)."""

import math
from copy import deepcopy

import gramme
from gramme.nn.module import Module
from gramme.nn.normalization import _BatchNorm
from gramme.optim.lr_scheduler import LRScheduler


def get_ema_avg_fn(decay=0.999):
    """An avg_fn of AveragedModel: decay of the average, and the rest of the new value.  Errors:
    ValueError for a decay outside [0, 1]."""
    if not 0 <= decay <= 1:
        raise ValueError(f"decay is between 0 and 1, not {decay!r}")

    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_ema_multi_avg_fn(decay=0.999):
    """A multi_avg_fn of AveragedModel: get_ema_avg_fn() of each pair, in place."""
    one = get_ema_avg_fn(decay)

    def ema_update(ema_param_list, current_param_list, _):
        for own, new in zip(ema_param_list, current_param_list):
            own.copy_(one(own, new, _))

    return ema_update


def get_swa_avg_fn():
    """An avg_fn of AveragedModel: the mean of all."""

    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn():
    """A multi_avg_fn of AveragedModel: the mean of all, in place."""
    one = get_swa_avg_fn()

    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for own, new in zip(averaged_param_list, current_param_list):
            own.copy_(one(own, new, num_averaged))

    return swa_update


class AveragedModel(Module):
    """A copy of the model whose parameters are averages of those that update_parameters() was
    given.

    avg_fn(averaged, new, n_averaged): the next average; None: the mean of all.
    multi_avg_fn(averaged, new, n_averaged): the same of lists of floating tensors, in place.
    use_buffers: buffers are averaged, too, else copied.  Errors: ValueError for both functions.
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel() takes one of avg_fn and multi_avg_fn")
        self.multi_avg_fn = multi_avg_fn
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", gramme.tensor(0, device=device))
        self.avg_fn, self.use_buffers = avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _values(self, module):
        return [*module.parameters(), *(module.buffers() if self.use_buffers else ())]

    def update_parameters(self, model):
        """Takes the model's parameters into the average."""
        n = int(self.n_averaged)
        with gramme.no_grad():
            pairs = list(zip(self._values(self.module), self._values(model)))
            if n and self.multi_avg_fn is not None:
                both = [pair for pair in pairs if pair[0].is_floating_point()]
                self.multi_avg_fn(
                    [own for own, _ in both], [new for _, new in both], self.n_averaged
                )
                pairs = [pair for pair in pairs if not pair[0].is_floating_point()]
            for own, new in pairs:
                if n == 0 or not own.is_floating_point():
                    own.copy_(new)
                elif self.avg_fn is None:
                    own += (new - own) / (n + 1)
                else:
                    own.copy_(self.avg_fn(own, new, self.n_averaged))
            if not self.use_buffers:
                for own, new in zip(self.module.buffers(), model.buffers()):
                    own.copy_(new)
            self.n_averaged += 1


def update_bn(loader, model, device=None):
    """The running values of all BatchNorms are computed anew: means over the batches of loader,
    which are inputs, or lists that begin with one."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    before, training = [module.momentum for module in norms], model.training
    for module in norms:
        module.reset_running_stats()
        module.momentum = None  # the mean of all batches
    model.train()
    with gramme.no_grad():
        for batch in loader:
            input = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(input if device is None else input.to(device))
    for module, momentum in zip(norms, before):
        module.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """The rate goes to swa_lr within anneal_epochs steps, along a cosine ("cos") or a line
    ("linear"), and stays there."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs is an int that is not negative, not {anneal_epochs!r}")
        rates = (
            list(swa_lr)
            if isinstance(swa_lr, (list, tuple))
            else [swa_lr] * len(optimizer.param_groups)
        )
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step):
        """How much of the way is behind after so many steps, 0 to 1."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self.anneal_strategy == "cos" else t

    def get_lr(self):
        step = self._step_count - 1 if self.anneal_epochs else max(1, self._step_count - 1)
        before, now = self._share(max(0, step - 1)), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            # The rate at the start, from the present one; where the end is reached it does not
            # matter.
            first = (
                group["swa_lr"]
                if before == 1
                else (group["lr"] - group["swa_lr"] * before) / (1 - before)
            )
            rates.append(group["swa_lr"] * now + first * (1 - now))
        return rates
