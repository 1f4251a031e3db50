# SPDX-License-Identifier: Apache-2.0
"""Distances and products of two inputs as layers."""

import math

import gramme
from gramme.nn import functional as F
from gramme.nn import init
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class CosineSimilarity(Module):
    """The cosine of the angle between x1 and x2 along dim; norms are at least eps.  Shapes
    broadcast, dim goes."""

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dimension.  (N, D) and (N, D) to (N,), or (N, 1)
    with keepdim."""

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1, x2):
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class Bilinear(Module):
    """y[k] = x1 @ weight[k] @ x2 + bias[k].  (..., in1_features) and (..., in2_features) to (...,
    out_features)."""

    def __init__(
        self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None
    ):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be positive, and is {in1_features}")
        self.in1_features, self.in2_features, self.out_features = (
            in1_features,
            in2_features,
            out_features,
        )
        self.weight = Parameter(
            gramme.empty(out_features, in1_features, in2_features, device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(gramme.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Both uniform in +-1/sqrt(in1_features), as torch's."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
