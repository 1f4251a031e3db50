# SPDX-License-Identifier: Apache-2.0
"""Layers, containers and losses."""

from gramme.nn import functional, init
from gramme.nn.attention import MultiheadAttention
from gramme.nn.containers import ModuleDict, ModuleList, Sequential
from gramme.nn.layers import (
    BatchNorm1d,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    Dropout,
    ELU,
    Embedding,
    Flatten,
    GELU,
    Identity,
    L1Loss,
    LayerNorm,
    LeakyReLU,
    Linear,
    LogSoftmax,
    MSELoss,
    NLLLoss,
    ReLU,
    RMSNorm,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter
