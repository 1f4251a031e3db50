# SPDX-License-Identifier: Apache-2.0
"""Optimizers and schedules of their learning rates, with torch's names, defaults and formulas."""

from gramme.optim import lr_scheduler, swa_utils
from gramme.optim.adam import Adam, AdamW
from gramme.optim.adam_kin import Adamax, NAdam, RAdam
from gramme.optim.adaptive import Adadelta, Adagrad, RMSprop
from gramme.optim.asgd import ASGD
from gramme.optim.factored import Adafactor, Muon
from gramme.optim.lbfgs import LBFGS
from gramme.optim.optimizer import Optimizer
from gramme.optim.rprop import Rprop
from gramme.optim.sgd import SGD

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "lr_scheduler",
    "swa_utils",
]  # fmt: skip


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
