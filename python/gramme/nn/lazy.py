# SPDX-License-Identifier: Apache-2.0
"""Layers that learn the size of their input from the first one.

Until then their parameters are UninitializedParameter, of no element, and the first call (or a
state that is loaded) makes them.  At the first
call the layer becomes the plain one: LazyLinear becomes Linear.  So an optimizer comes after a
first call, and so does gramme.compile but for a whole function (fullgraph=True), whose lazy layers
are settled while it is traced.
"""

import gramme
from gramme._core import settle_lazy
from gramme.nn import conv, layers, normalization
from gramme.nn.parameter import Buffer, Parameter


class UninitializedParameter(Parameter):
    """A parameter whose shape is not known yet; materialize(shape) makes it one, in place."""

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Parameter.__new__(cls, gramme.empty(0, device=device, dtype=dtype), requires_grad)

    def materialize(self, shape, device=None, dtype=None):
        """Becomes a Parameter of this shape; its elements are for the layer to fill."""
        self.data = gramme.empty(*shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = Parameter

    def __repr__(self):
        return "<UninitializedParameter>"


class UninitializedBuffer:
    """UninitializedBuffer(device=None, dtype=None): an empty Buffer, for one whose shape is not
    known yet; the module replaces it."""

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        return Buffer(gramme.empty(0, device=device, dtype=dtype), persistent=persistent)


def is_lazy(value):
    """Whether a parameter's shape is not known yet."""
    return isinstance(value, UninitializedParameter)


def _take_shapes(module, state, prefix, metadata, strict, missing, unexpected, errors):
    """Before a state is loaded: parameters get its shapes."""
    for name, value in module._parameters.items():
        if is_lazy(value) and prefix + name in state:
            value.materialize(state[prefix + name].shape)
    module._sized(state, prefix)


class LazyModuleMixin:
    """For a class of one's own, before the plain class in the list of bases: class
    LazyScale(LazyModuleMixin, Scale).

    Its __init__ makes parameters that are UninitializedParameter, and initialize_parameters(...),
    which gets the arguments of the first call, materializes them.  Then the module becomes one of
    `cls_to_become`; where that is None, it stays what it is, and forward() goes on.
    """

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self.register_load_state_dict_pre_hook(_take_shapes)
        self._initialize_hook = None
        if type(self).forward is not LazyModuleMixin.forward:
            self._initialize_hook = self.register_forward_pre_hook(_settle_before, with_kwargs=True)

    def _sized(self, state, prefix):
        pass

    def has_uninitialized_params(self):
        return any([is_lazy(value) for value in self._parameters.values()])

    def initialize_parameters(self, *args, **kwargs):
        """Makes the parameters for a call with these arguments."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def forward(self, *args, **kwargs):
        if "_load_hook" in self.__dict__:
            settle_lazy(self, *args, **kwargs)
        if type(self).forward is LazyModuleMixin.forward:
            return super().forward(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _settle(self, *args, **kwargs):
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {type(self).__name__} has not been fully initialized")
        self._sized(None, "")
        self._load_hook.remove()
        del self._load_hook
        if self._initialize_hook is not None:
            self._initialize_hook.remove()
        del self._initialize_hook
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become


def _settle_before(module, args, kwargs):
    """The hook before forward() of a class that has a forward() of its own."""
    settle_lazy(module, *args, **kwargs)


class _Lazy(LazyModuleMixin):
    """What the lazy layers here share: `_find (input)` materializes."""

    def _be_lazy(self, names, device, dtype):
        for name in names:
            if getattr(self, name, None) is not None:
                setattr(self, name, UninitializedParameter(device=device, dtype=dtype))

    def reset_parameters(self):
        if not self.has_uninitialized_params() and not getattr(self, "_waits", False):
            super().reset_parameters()

    def initialize_parameters(self, input, *args):
        """Makes the parameters for an input like this one."""
        if self.has_uninitialized_params():
            self._find(input)
            self.cls_to_become.reset_parameters(self)


class LazyLinear(_Lazy, layers.Linear):
    """A Linear that learns in_features."""

    cls_to_become = layers.Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        self._waits = True
        super().__init__(0, 0, bias, device, dtype)
        del self._waits
        self.out_features = out_features
        self._be_lazy(("weight", "bias"), device, dtype)

    def _find(self, input):
        self.weight.materialize((self.out_features, input.shape[-1]))
        if self.bias is not None:
            self.bias.materialize((self.out_features,))

    def _sized(self, state, prefix):
        if not is_lazy(self.weight):
            self.in_features = self.weight.shape[1]


class _LazyConv(_Lazy):
    def __init__(
        self,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        self._waits = True
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        del self._waits
        self.out_channels = out_channels
        self._be_lazy(("weight", "bias"), device, dtype)

    def _find(self, input):
        single = input.dim() == self._space + 1
        self.in_channels = input.shape[0 if single else 1]
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ValueError(
                f"{self.in_channels} and {self.out_channels} channels cannot be divided into "
                f"{self.groups} groups"
            )
        self.weight.materialize((*self._channels(), *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))

    def _channels(self):
        return self.out_channels, self.in_channels // self.groups

    def _sized(self, state, prefix):
        if not is_lazy(self.weight):
            self.in_channels = self.weight.shape[1] * self.groups


class LazyConv1d(_LazyConv, conv.Conv1d):
    """A Conv1d that learns in_channels."""

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyConv, conv.Conv2d):
    """A Conv2d that learns in_channels."""

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyConv, conv.Conv3d):
    """A Conv3d that learns in_channels."""

    cls_to_become = conv.Conv3d


class _LazyConvTranspose(_LazyConv):
    def __init__(
        self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros",
        device=None, dtype=None,
    ):  # fmt: skip
        self._waits = True
        super(_LazyConv, self).__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        del self._waits
        self.out_channels = out_channels
        self._be_lazy(("weight", "bias"), device, dtype)

    def _channels(self):
        return self.in_channels, self.out_channels // self.groups

    def _sized(self, state, prefix):
        if not is_lazy(self.weight):
            self.in_channels = self.weight.shape[0]


class LazyConvTranspose1d(_LazyConvTranspose, conv.ConvTranspose1d):
    """A ConvTranspose1d that learns in_channels."""

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, conv.ConvTranspose2d):
    """A ConvTranspose2d that learns in_channels."""

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, conv.ConvTranspose3d):
    """A ConvTranspose3d that learns in_channels."""

    cls_to_become = conv.ConvTranspose3d


class _LazyNorm(_Lazy):
    def __init__(
        self,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        self._waits = True
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        del self._waits
        self._be_lazy(("weight", "bias"), device, dtype)

    def has_uninitialized_params(self):
        return self.num_features == 0

    def _have(self, features):
        self.num_features = features
        for value in (self.weight, self.bias):
            if is_lazy(value):
                value.materialize((features,))
        if self.track_running_stats:
            self.running_mean = gramme.zeros(
                features, device=self.running_mean.device, dtype=self.running_mean.dtype
            )
            self.running_var = gramme.ones(
                features, device=self.running_var.device, dtype=self.running_var.dtype
            )

    def _find(self, input):
        single = type(self)._channels_first and input.dim() == self._ndims[0]
        self._have(input.shape[0 if single else 1])

    _channels_first = False

    def _sized(self, state, prefix):
        """A state with a parameter or a running value tells the features."""
        for name in ("weight", "running_mean"):
            if self.num_features == 0 and state and prefix + name in state:
                self._have(state[prefix + name].shape[0])


class LazyBatchNorm1d(_LazyNorm, normalization.BatchNorm1d):
    """A BatchNorm1d that learns num_features."""

    cls_to_become = normalization.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, normalization.BatchNorm2d):
    """A BatchNorm2d that learns num_features."""

    cls_to_become = normalization.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, normalization.BatchNorm3d):
    """A BatchNorm3d that learns num_features."""

    cls_to_become = normalization.BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, normalization.InstanceNorm1d):
    """An InstanceNorm1d that learns num_features."""

    cls_to_become = normalization.InstanceNorm1d
    _channels_first = True


class LazyInstanceNorm2d(_LazyNorm, normalization.InstanceNorm2d):
    """An InstanceNorm2d that learns num_features."""

    cls_to_become = normalization.InstanceNorm2d
    _channels_first = True


class LazyInstanceNorm3d(_LazyNorm, normalization.InstanceNorm3d):
    """An InstanceNorm3d that learns num_features."""

    cls_to_become = normalization.InstanceNorm3d
    _channels_first = True
