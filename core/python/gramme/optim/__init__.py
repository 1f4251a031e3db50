# SPDX-License-Identifier: Apache-2.0
"""Optimizers, with torch's names, defaults and formulas."""

from gramme.optim.adam import Adam, AdamW
from gramme.optim.optimizer import Optimizer
from gramme.optim.sgd import SGD

__all__ = ["Adam", "AdamW", "Optimizer", "SGD"]
