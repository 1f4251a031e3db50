# SPDX-License-Identifier: Apache-2.0
"""torch's older paths to layers: gramme.nn.modules.linear.Linear is gramme.nn.Linear.

A table says which file here stands for which of torch's; a name of torch's file that another file has is found in gramme.nn.modules itself.
"""

import sys

from gramme.nn import *  # noqa: F403
from gramme.nn import activation, containers, conv, dropout, embedding, layers, lazy, loss, module, normalization, padding, pooling, rnn, sampling, transformer
from gramme.nn.module import Module

PLACES = {
    "activation": activation, "batchnorm": normalization, "container": containers, "conv": conv, "dropout": dropout, "instancenorm": normalization,
    "lazy": lazy, "linear": layers, "loss": loss, "module": module, "normalization": normalization, "padding": padding, "pooling": pooling, "rnn": rnn,
    "sparse": embedding, "transformer": transformer, "upsampling": sampling,
}  # fmt: skip
globals().update(PLACES)
sys.modules.update({f"{__name__}.{name}": place for name, place in PLACES.items()})
