# SPDX-License-Identifier: Apache-2.0
"""Activations as layers: elementwise functions of inputs of any shape and floating dtype, and
softmaxes along one dimension.

A layer with inplace=True writes its result into its input.  What each function computes stands at
the function of nn.functional.
"""

import gramme
from gramme.nn import functional as F
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class _Plain(Module):
    """A function without options; what is given is ignored, as torch does."""

    def __init__(self, *args, **kwargs):
        super().__init__()


class _Options(Module):
    """A function whose options are attributes, named in _options in the order of repr()."""

    _options = ()

    def extra_repr(self):
        text = ", ".join([f"{name}={getattr(self, name)!r}" for name in self._options])
        if not getattr(self, "inplace", False):
            return text
        return text + ", inplace=True" if text else "inplace=True"


class _InPlace(_Options):
    """A function with no option but inplace."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


class ReLU(_InPlace):
    """max (x, 0)."""

    def forward(self, input):
        return F.relu(input, inplace=self.inplace)


class ReLU6(_InPlace):
    """min (max (x, 0), 6)."""

    def forward(self, input):
        return F.relu6(input, inplace=self.inplace)


class SiLU(_InPlace):
    """x * sigmoid (x)."""

    def forward(self, input):
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """x * tanh (softplus (x)) (Misra 2019)."""

    def forward(self, input):
        return F.mish(input, inplace=self.inplace)


class SELU(_InPlace):
    """ELU with the scale and slope that keep mean 0 and variance 1 (Klambauer et al. 2017)."""

    def forward(self, input):
        return F.selu(input, inplace=self.inplace)


class Hardswish(_InPlace):
    """x * min (max (x + 3, 0), 6) / 6 (Howard et al. 2019)."""

    def forward(self, input):
        return F.hardswish(input, inplace=self.inplace)


class Hardsigmoid(_InPlace):
    """min (max (x + 3, 0), 6) / 6."""

    def forward(self, input):
        return F.hardsigmoid(input, inplace=self.inplace)


class Tanh(_Plain):
    """The hyperbolic tangent."""

    def forward(self, input):
        return gramme.tanh(input)


class Sigmoid(_Plain):
    """1 / (1 + exp (-x))."""

    def forward(self, input):
        return gramme.sigmoid(input)


class LogSigmoid(_Plain):
    """log (sigmoid (x)), without overflow."""

    def forward(self, input):
        return F.logsigmoid(input)


class Softsign(_Plain):
    """x / (1 + |x|)."""

    def forward(self, input):
        return F.softsign(input)


class Tanhshrink(_Plain):
    """x - tanh (x)."""

    def forward(self, input):
        return F.tanhshrink(input)


class GELU(_Options):
    """x times the normal distribution at x (Hendrycks and Gimpel 2016); approximate: "none" or
    "tanh"."""

    _options = ("approximate",)

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)


class LeakyReLU(_Options):
    """x where positive, else negative_slope * x."""

    _options = ("negative_slope",)

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)


class ELU(_Options):
    """x where positive, else alpha * (exp (x) - 1) (Clevert et al. 2016)."""

    _options = ("alpha",)

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input):
        return F.elu(input, self.alpha, inplace=self.inplace)


class CELU(ELU):
    """x where positive, else alpha * (exp (x / alpha) - 1) (Barron 2017)."""

    def forward(self, input):
        return F.celu(input, self.alpha, inplace=self.inplace)


class PReLU(Module):
    """x where positive, else weight * x (He et al. 2015): one weight, or one for each channel
    (dimension 1)."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(
            gramme.full((num_parameters,), float(init), device=device, dtype=dtype)
        )

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Hardtanh(_Options):
    """x limited to [min_val, max_val]; min_value and max_value are older names of the two.  Errors:
    ValueError if the limits are none."""

    _options = ("min_val", "max_val")

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        min_val, max_val = (
            min_val if min_value is None else min_value,
            max_val if max_value is None else max_value,
        )
        if not min_val < max_val:
            raise ValueError(f"min_val must be below max_val, and they are {min_val} and {max_val}")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)


class Softplus(_Options):
    """log (1 + exp (beta * x)) / beta; x itself where beta * x is above threshold."""

    _options = ("beta", "threshold")

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)


class Threshold(_Options):
    """x where above threshold, else value."""

    _options = ("threshold", "value")

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)


class Hardshrink(Module):
    """x outside of [-lambd, lambd], else 0."""

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input):
        return F.hardshrink(input, self.lambd)

    def extra_repr(self):
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """x moved towards 0 by lambd, 0 in [-lambd, lambd]."""

    def forward(self, input):
        return F.softshrink(input, self.lambd)


class GLU(_Options):
    """The first half along dim times sigmoid of the second (Dauphin et al. 2017).  (..., 2 n, ...)
    to (..., n, ...)."""

    _options = ("dim",)

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)


class Softmax(_Options):
    """exp (x) divided by its sum along dim; dim None: 0 for 0-, 1- and 3-d inputs, else 1."""

    _options = ("dim",)

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.softmax(input, self.dim)


class LogSoftmax(Softmax):
    """The logarithm of softmax, without overflow."""

    def forward(self, input):
        return F.log_softmax(input, self.dim)


class Softmin(Softmax):
    """softmax (-x)."""

    def forward(self, input):
        return F.softmin(input, self.dim)


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d takes (N, C, H, W) or (C, H, W), not {input.dim()} dimensions"
            )
        return F.softmax(input, -3)


class RReLU(_Options):
    """x where positive, else x times a slope: in training one drawn in [lower, upper) for each
    element, else their mean."""

    _options = ("lower", "upper")

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)
