# SPDX-License-Identifier: Apache-2.0
"""torch's older paths to layers: gramme.nn.modules.linear.Linear is gramme.nn.Linear.

A table says which file here stands for which of torch's.  A name that the file does not have,
because another one has it, is that of gramme.nn.
"""

import importlib
import sys

import gramme
from gramme import _absent
from gramme.nn import *  # noqa: F403
from gramme.nn import (
    activation,
    containers,
    conv,
    dropout,
    embedding,
    layers,
    lazy,
    loss,
    module,
    normalization,
    padding,
    pooling,
    rnn,
    sampling,
    transformer,
)
from gramme.nn.module import Module

utils = importlib.import_module(__name__ + ".utils")  # the star has brought gramme.nn.utils
PLACES = {
    "activation": activation, "batchnorm": normalization, "container": containers, "conv": conv,
    "dropout": dropout, "instancenorm": normalization,
    "lazy": lazy, "linear": layers, "loss": loss, "module": module, "normalization": normalization,
    "padding": padding, "pooling": pooling, "rnn": rnn,
    "sparse": embedding, "transformer": transformer, "upsampling": sampling,
}  # fmt: skip
globals().update(PLACES)
sys.modules.update({f"{__name__}.{name}": place for name, place in PLACES.items()})


def _late(place):
    """The __getattr__ of a file: names that another file has."""

    def find(name):
        if name == "Tensor":
            return gramme.Tensor
        return vars(gramme.nn)[name] if name in vars(gramme.nn) else _absent.find(place, name)

    return find


for _file in PLACES.values():
    vars(_file).setdefault("__getattr__", _late(_file.__name__))
del _file
