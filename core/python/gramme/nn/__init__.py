# SPDX-License-Identifier: Apache-2.0
"""Layers, containers and losses."""

from gramme.nn import functional, init
from gramme.nn.attention import MultiheadAttention
from gramme.nn.containers import ModuleDict, ModuleList, Sequential
from gramme.nn.conv import AdaptiveAvgPool2d, AvgPool1d, AvgPool2d, Conv1d, Conv2d, Conv3d, MaxPool1d, MaxPool2d
from gramme.nn.layers import (
    BatchNorm1d,
    BatchNorm2d,
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
from gramme.nn.recurrent import GRUCell, LSTMCell, RNNCell
