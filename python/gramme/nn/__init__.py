# SPDX-License-Identifier: Apache-2.0
"""Layers, containers and losses, with torch's names."""

from gramme.nn import functional, init, utils

from gramme.nn.activation import (
    CELU, ELU, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid,
    LogSoftmax, Mish, PReLU, RReLU, ReLU, ReLU6, SELU,
    SiLU, Sigmoid, Softmax, Softmax2d, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink,
    Threshold,
)  # fmt: skip
from gramme.nn.adaptive import AdaptiveLogSoftmaxWithLoss
from gramme.nn.attention import MultiheadAttention
from gramme.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from gramme.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from gramme.nn.distance import Bilinear, CosineSimilarity, PairwiseDistance
from gramme.nn.dropout import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
)
from gramme.nn.embedding import Embedding, EmbeddingBag
from gramme.nn.layers import Identity, Linear

from gramme.nn.lazy import (
    LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d, LazyConv1d, LazyConv2d, LazyConv3d,
    LazyConvTranspose1d, LazyConvTranspose2d,
    LazyConvTranspose3d, LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d, LazyLinear,
    UninitializedBuffer, UninitializedParameter,
)  # fmt: skip
from gramme.nn.loss import (
    BCELoss, BCEWithLogitsLoss, CTCLoss, CosineEmbeddingLoss, CrossEntropyLoss, GaussianNLLLoss,
    HingeEmbeddingLoss, HuberLoss, KLDivLoss, L1Loss,
    MSELoss, MarginRankingLoss, MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss,
    NLLLoss, PoissonNLLLoss, SmoothL1Loss,
    SoftMarginLoss, TripletMarginLoss, TripletMarginWithDistanceLoss,
)  # fmt: skip
from gramme.nn.module import Module

from gramme.nn.normalization import (
    BatchNorm1d, BatchNorm2d, BatchNorm3d, CrossMapLRN2d, GroupNorm, InstanceNorm1d, InstanceNorm2d,
    InstanceNorm3d, LayerNorm,
    LocalResponseNorm, RMSNorm, SyncBatchNorm,
)  # fmt: skip
from gramme.nn.padding import (
    CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d,
    ReflectionPad1d, ReflectionPad2d,
    ReflectionPad3d, ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d,
    ZeroPad3d,
)  # fmt: skip
from gramme.nn.parallel import DataParallel
from gramme.nn.parameter import Buffer, Parameter

from gramme.nn.pooling import (
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, FractionalMaxPool2d,
    FractionalMaxPool3d, LPPool1d, LPPool2d, LPPool3d, MaxPool1d, MaxPool2d, MaxPool3d, MaxUnpool1d,
    MaxUnpool2d, MaxUnpool3d,
)  # fmt: skip
from gramme.nn.recurrent import GRUCell, LSTMCell, RNNCell
from gramme.nn.rnn import GRU, LSTM, RNN, RNNBase

from gramme.nn.shape import (
    ChannelShuffle, Flatten, Fold, PixelShuffle, PixelUnshuffle, Unflatten, Unfold, Upsample,
    UpsamplingBilinear2d, UpsamplingNearest2d,
)  # fmt: skip
from gramme.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from gramme.nn import modules  # the last: it has all that is here


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
