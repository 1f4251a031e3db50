# SPDX-License-Identifier: Apache-2.0
"""A normalisation that follows a layer, put into the layer's weights; and skip_init."""

import copy
import inspect

import gramme
from gramme.nn.parameter import Parameter


def _scaled(weight, bias, mean, var, eps, scale, shift, shape):
    factor = (1.0 if scale is None else scale) * gramme.rsqrt(var + eps)
    bias = gramme.zeros_like(mean) if bias is None else bias
    shift = gramme.zeros_like(mean) if shift is None else shift
    return (
        Parameter((weight * factor.reshape(shape)).detach(), weight.requires_grad),
        Parameter(((bias - mean) * factor + shift).detach(), bias.requires_grad),
    )


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """(weight, bias) of the convolution that is this one and then the normalisation with its
    running values."""
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _scaled(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """(weight, bias) of the linear layer that is this one and then the normalisation with its
    running values."""
    return _scaled(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fuse(layer, bn, weights, *more):
    if layer.training or bn.training:
        raise ValueError("fusion is for evaluation: call eval() on both first")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = weights(
        layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, *more
    )
    return fused


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of a convolution that also does what the BatchNorm behind it does in evaluation."""
    return _fuse(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_linear_bn_eval(linear, bn):
    """A copy of a Linear that also does what the BatchNorm behind it does in evaluation."""
    return _fuse(linear, bn, fuse_linear_bn_weights)


def skip_init(module_cls, *args, **kwargs):
    """The module, for a caller that fills its parameters: what they hold is not specified.  (They
    are initialised: it costs little.)"""
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            "skip_init() needs a module whose constructor takes device=, and "
            f"{module_cls.__name__} takes none"
        )
    return module_cls(*args, **kwargs)
