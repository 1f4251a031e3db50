# SPDX-License-Identifier: Apache-2.0
"""Dropout (Hinton et al. 2012) as layers: zeroes elements, or whole channels, while training, and
scales the others by 1 / (1 - p)."""

from gramme.nn import functional as F
from gramme.nn.module import Module


class _Dropout(Module):
    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability must be between 0 and 1, not {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return self._drop(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Each element is zeroed with probability p.  Any shape.  Errors: ValueError unless 0 <= p <=
    1."""

    def _drop(self, *args):
        return F.dropout(*args)


class Dropout1d(_Dropout):
    """Whole channels of (N, C, L) or (C, L)."""

    def _drop(self, *args):
        return F.dropout1d(*args)


class Dropout2d(_Dropout):
    """Whole channels of (N, C, H, W) or (C, H, W) (Tompson et al. 2015)."""

    def _drop(self, *args):
        return F.dropout2d(*args)


class Dropout3d(_Dropout):
    """Whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    def _drop(self, *args):
        return F.dropout3d(*args)


class AlphaDropout(_Dropout):
    """To the least value of SELU, and scaled so that mean and variance stay (Klambauer et al.
    2017)."""

    def _drop(self, *args):
        return F.alpha_dropout(*args)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels."""

    def _drop(self, *args):
        return F.feature_alpha_dropout(*args)
