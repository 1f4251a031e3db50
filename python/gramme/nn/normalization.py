# SPDX-License-Identifier: Apache-2.0
"""Normalisation as layers: mean 0 and variance 1 over some of the dimensions, then scaled by weight
and moved by bias.

Sources: Ioffe and Szegedy 2015 (batch), Ba et al. 2016 (layer), Ulyanov et al. 2016 (instance), Wu
and He 2018 (group), Zhang and Sennrich 2019 (RMS), Krizhevsky et al. 2012 (local response).
"""

import copy

import gramme
from gramme.nn import functional as F
from gramme.nn import init
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


def _ones(*sizes, device=None, dtype=None):
    return Parameter(gramme.ones(*sizes, device=device, dtype=dtype))


def _zeros(*sizes, device=None, dtype=None):
    return Parameter(gramme.zeros(*sizes, device=device, dtype=dtype))


class _Affine(Module):
    """Has a weight of ones and a bias of zeros, or None."""

    def reset_parameters(self):
        if self.weight is not None:
            init.ones_(self.weight)
        if getattr(self, "bias", None) is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Over the last dimensions, whose sizes are normalized_shape.  (..., *normalized_shape) to the
    same."""

    def __init__(
        self,
        normalized_shape,
        eps=1e-5,
        elementwise_affine=True,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight",
            _ones(*self.normalized_shape, device=device, dtype=dtype)
            if elementwise_affine
            else None,
        )
        self.register_parameter(
            "bias",
            _zeros(*self.normalized_shape, device=device, dtype=dtype)
            if elementwise_affine and bias
            else None,
        )

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """Divides by the root of the mean square over the last dimensions, then scales by weight.  eps
    None: the dtype's own."""

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight",
            _ones(*self.normalized_shape, device=device, dtype=dtype)
            if elementwise_affine
            else None,
        )

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"
        )


class GroupNorm(_Affine):
    """Over each group of channels and all places: (N, C, ...) to the same.  Errors: ValueError
    unless num_groups divides num_channels."""

    def __init__(
        self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True
    ):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"{num_channels} channels cannot be divided into {num_groups} groups")
        self.num_groups, self.num_channels, self.eps, self.affine = (
            num_groups,
            num_channels,
            eps,
            affine,
        )
        self.register_parameter(
            "weight", _ones(num_channels, device=device, dtype=dtype) if affine else None
        )
        self.register_parameter(
            "bias", _zeros(num_channels, device=device, dtype=dtype) if affine and bias else None
        )

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _Running(_Affine):
    """Has running values of means and variances, if it tracks them."""

    def __init__(
        self, num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=True
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.register_parameter(
            "weight", _ones(num_features, device=device, dtype=dtype) if affine else None
        )
        self.register_parameter(
            "bias", _zeros(num_features, device=device, dtype=dtype) if affine and bias else None
        )
        self.register_buffer(
            "running_mean",
            gramme.zeros(num_features, device=device, dtype=dtype) if track_running_stats else None,
        )
        self.register_buffer(
            "running_var",
            gramme.ones(num_features, device=device, dtype=dtype) if track_running_stats else None,
        )
        self.register_buffer(
            "num_batches_tracked", gramme.tensor(0, device=device) if track_running_stats else None
        )

    def reset_running_stats(self):
        """As if no batch had been seen."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self):
        self.reset_running_stats()
        super().reset_parameters()

    def _check(self, input):
        if input.dim() not in self._ndims:
            wanted = " or ".join([str(n) for n in self._ndims])
            raise ValueError(f"{type(self).__name__} takes {wanted} dimensions, not {input.dim()}")

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Running):
    """Mean 0 and variance 1 of each channel over the batch.

    While training, running_mean and running_var follow the batches' (by `momentum`; None: their
    average); evaluation uses them.  Errors: ValueError for another number of dimensions.
    """

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input):
        self._check(input)
        momentum = self.momentum
        if self.training and self.track_running_stats:
            with gramme.no_grad():
                self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1.0 / self.num_batches_tracked.item()
        use_batch = self.training or self.running_mean is None
        kept = (
            not self.training or self.track_running_stats
        )  # torch's rule: values that are not followed are not written either
        mean, var = (self.running_mean, self.running_var) if kept else (None, None)
        return F.batch_norm(
            input, mean, var, self.weight, self.bias, use_batch, momentum or 0.0, self.eps
        )


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__.replace("the batch.", "the batch: (N, C) or (N, C, L).", 1)
    _ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__.replace("the batch.", "the batch and all places: (N, C, H, W).", 1)
    _ndims = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__.replace(
        "the batch.", "the batch and all places: (N, C, D, H, W).", 1
    )
    _ndims = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of any number of dimensions.  torch's takes the statistics of all processes'
    batches; here there is one process."""

    _ndims = (2, 3, 4, 5)

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        process_group=None,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with every BatchNorm in it as a SyncBatchNorm with the same parameters and
        buffers."""
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            new = cls.__new__(cls)
            vars(new).update(
                {
                    name: copy.copy(value) if isinstance(value, (dict, set)) else value
                    for name, value in vars(module).items()
                }
            )
            new.process_group = process_group
            return new
        for name, child in list(module.named_children()):
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module


class _InstanceNorm(_Running):
    """Mean 0 and variance 1 of each channel of each example.

    With track_running_stats, running_mean and running_var follow those of training, and evaluation
    uses them.  An input without N is one example.  Errors: ValueError for another number of
    dimensions or channels.
    """

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=False,
        track_running_stats=False,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input):
        self._check(input)
        single = input.dim() == self._ndims[0]
        channels = input.shape[0 if single else 1]
        if channels != self.num_features and (self.affine or self.track_running_stats):
            raise ValueError(
                f"{type(self).__name__} has {self.num_features} features, and the input has "
                f"{channels} channels"
            )
        use_input = self.training or not self.track_running_stats
        result = F.instance_norm(
            input.unsqueeze(0) if single else input, self.running_mean, self.running_var,
            self.weight, self.bias, use_input,
            0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip
        return result.squeeze(0) if single else result


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__.replace(
        "each example.", "each example: (N, C, L) or (C, L).", 1
    )
    _ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__.replace(
        "each example.", "each example: (N, C, H, W) or (C, H, W).", 1
    )
    _ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__.replace(
        "each example.", "each example: (N, C, D, H, W) or (C, D, H, W).", 1
    )
    _ndims = (4, 5)


class LocalResponseNorm(Module):
    """x / (k + alpha * mean square over `size` neighbouring channels) ** beta.  (N, C, ...) to the
    same."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm of (N, C, H, W), under its older name; k is 1."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__(size, alpha, beta, k)
