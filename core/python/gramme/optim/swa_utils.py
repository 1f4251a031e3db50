# SPDX-License-Identifier: Apache-2.0
"""Averages of weights along the way of training (Izmailov et al., "Averaging Weights Leads to Wider Optima", 2018)."""

import math
from copy import deepcopy

import gramme
from gramme.nn.module import Module
from gramme.nn.normalization import _BatchNorm
from gramme.optim.lr_scheduler import LRScheduler


class AveragedModel(Module):
    """A copy of the model whose parameters are averages of those that update_parameters() was given.

    avg_fn(averaged, new, n_averaged): the next average; None: the mean of all.  use_buffers: buffers are averaged, too, else copied.
    """

    def __init__(self, model, device=None, avg_fn=None, use_buffers=False):
        super().__init__()
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
            for own, new in zip(self._values(self.module), self._values(model)):
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
    """The running values of all BatchNorms are computed anew: means over the batches of loader, which are inputs, or lists that begin with one."""
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
    """The rate goes to swa_lr within anneal_epochs steps, along a cosine ("cos") or a line ("linear"), and stays there."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs is an int that is not negative, not {anneal_epochs!r}")
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
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
            # The rate at the start, from the present one; where the end is reached it does not matter.
            first = group["swa_lr"] if before == 1 else (group["lr"] - group["swa_lr"] * before) / (1 - before)
            rates.append(group["swa_lr"] * now + first * (1 - now))
        return rates
