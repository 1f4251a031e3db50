# SPDX-License-Identifier: Apache-2.0
"""Module: a tree of objects with parameters.

Parameters, buffers and submodules are plain instance attributes.  Nothing intercepts attribute access: what a module
has is found by walking vars(module) by type, so reading an attribute costs what Python charges for it, and a
recorder sees ordinary objects.  Containers, whose children are items, say so in _members().
"""

from gramme._core import Tensor
from gramme.grad_mode import no_grad
from gramme.nn.parameter import Parameter


class HookHandle:
    """What register_*_hook returns; remove() takes the hook off."""

    def __init__(self, hooks, hook):
        self.hooks = hooks
        self.hook = hook

    def remove(self):
        self.hooks[:] = [entry for entry in self.hooks if entry is not self]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


class IncompatibleKeys(tuple):
    """(missing_keys, unexpected_keys), the result of load_state_dict()."""

    missing_keys = property(lambda self: self[0])
    unexpected_keys = property(lambda self: self[1])

    def __repr__(self):
        if not self[0] and not self[1]:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"


class Module:
    """The base of all layers.  Subclasses call super().__init__(), set attributes and define forward()."""

    training = True
    _forward_pre_hooks = None
    _forward_hooks = None
    _buffer_names = None  # name -> persistent
    _compiled_call = None  # what calls run instead of _call_impl: compile() and gramme.compiler.disable() set it

    def __init__(self):
        self.training = True

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self, *args, **kwargs):
        if self._compiled_call is not None:
            return self._compiled_call(self, *args, **kwargs)
        if self._forward_pre_hooks or self._forward_hooks:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        """What is compiled: forward() with the hooks around it."""
        if self._forward_pre_hooks or self._forward_hooks:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def compile(self, **options):
        """Compiles the module in place; the arguments are gramme.compile's.  Calls of the module run compiled, hooks included.

        Type, signature, state_dict(), repr() and pickles are as before; a copy, or what is read from a pickle, is not compiled.
        """
        from gramme._compile import compile

        compile(self, **options)

    def __getstate__(self):
        """What copy and pickle take: all but the compiled form, which belongs to this process and this module."""
        return {name: value for name, value in vars(self).items() if name != "_compiled_call"}

    def _call_with_hooks(self, args, kwargs):
        for entry in list(self._forward_pre_hooks or ()):
            changed = entry.hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for entry in list(self._forward_hooks or ()):
            changed = entry.hook(self, args, result)
            if changed is not None:
                result = changed
        return result

    def register_forward_pre_hook(self, hook):
        """hook(module, args) runs before forward() and may return other arguments."""
        if self._forward_pre_hooks is None:
            self._forward_pre_hooks = []
        self._forward_pre_hooks.append(HookHandle(self._forward_pre_hooks, hook))
        return self._forward_pre_hooks[-1]

    def register_forward_hook(self, hook):
        """hook(module, args, result) runs after forward() and may return another result."""
        if self._forward_hooks is None:
            self._forward_hooks = []
        self._forward_hooks.append(HookHandle(self._forward_hooks, hook))
        return self._forward_hooks[-1]

    # -- What a module has --------------------------------------------------------------------------------------

    def _members(self):
        """(name, value) of all that may be a parameter, buffer or submodule."""
        return list(vars(self).items())

    def register_parameter(self, name, parameter):
        """The same as setting the attribute; None stands for a parameter that is left out."""
        if parameter is not None and not isinstance(parameter, Parameter):
            raise TypeError(f"{name} must be a Parameter or None, not {type(parameter).__name__}")
        setattr(self, name, parameter)

    def register_buffer(self, name, tensor, persistent=True):
        """Makes a tensor part of state_dict() (if persistent) and to(), without training it."""
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a Tensor or None, not {type(tensor).__name__}")
        if self._buffer_names is None:
            self._buffer_names = {}
        self._buffer_names[name] = persistent
        setattr(self, name, tensor)

    def add_module(self, name, module):
        """The same as setting the attribute."""
        setattr(self, name, module)

    register_module = add_module

    def named_children(self):
        seen = set()
        for name, value in self._members():
            if isinstance(value, Module) and value not in seen:
                seen.add(value)
                yield name, value

    def children(self):
        for _, child in self.named_children():
            yield child

    def _walk(self, prefix=""):
        """(prefix, module) of the whole tree, depth first; a module that is in two places comes twice."""
        yield prefix, self
        for name, value in self._members():
            if isinstance(value, Module):
                yield from value._walk(f"{prefix}{name}.")

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        seen = set() if memo is None else memo
        for path, module in self._walk(prefix and prefix + "."):
            if module not in seen or not remove_duplicate:
                seen.add(module)
                yield path[:-1], module

    def modules(self):
        for _, module in self.named_modules():
            yield module

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        for path, module in self._walk(prefix and prefix + ".") if recurse else [(prefix and prefix + ".", self)]:
            for name, value in module._members():
                if isinstance(value, Parameter) and (value not in seen or not remove_duplicate):
                    seen.add(value)
                    yield path + name, value

    def parameters(self, recurse=True):
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        for path, module in self._walk(prefix and prefix + ".") if recurse else [(prefix and prefix + ".", self)]:
            for name in module._buffer_names or ():
                value = getattr(module, name)
                if value is not None and (value not in seen or not remove_duplicate):
                    seen.add(value)
                    yield path + name, value

    def buffers(self, recurse=True):
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target):
        """The module of a dotted name, as named_modules() gives it."""
        for path, module in self._walk():
            if path[:-1] == target:
                return module
        raise AttributeError(f"{type(self).__name__} has no submodule {target!r}")

    def get_parameter(self, target):
        """The parameter of a dotted name, as named_parameters() gives it."""
        for name, parameter in self.named_parameters(remove_duplicate=False):
            if name == target:
                return parameter
        raise AttributeError(f"{type(self).__name__} has no parameter {target!r}")

    # -- State --------------------------------------------------------------------------------------------------

    def _state(self, prefix=""):
        """(name, tensor) of what state_dict() holds, the tensors themselves."""
        for path, module in self._walk(prefix):
            for name, value in module._members():
                if isinstance(value, Parameter):
                    yield path + name, value
            for name, persistent in (module._buffer_names or {}).items():
                if persistent and getattr(module, name) is not None:
                    yield path + name, getattr(module, name)

    def state_dict(self, prefix=""):
        """Name -> tensor of all parameters and persistent buffers; the tensors share memory with the module."""
        return {name: tensor.detach() for name, tensor in self._state(prefix)}

    def load_state_dict(self, state_dict, strict=True):
        """Copies tensors of the same names in.  Raises RuntimeError that names every key that is missing, unexpected
        (if strict) or of another shape; then nothing was copied."""
        own = dict(self._state())
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        problems = [
            f"size mismatch for {name}: {list(state_dict[name].shape)} was given, {list(own[name].shape)} is here"
            for name in own
            if name in state_dict and tuple(state_dict[name].shape) != tuple(own[name].shape)
        ]
        if strict and missing:
            problems.append("missing keys: " + ", ".join(missing))
        if strict and unexpected:
            problems.append("unexpected keys: " + ", ".join(unexpected))
        if problems:
            raise RuntimeError(f"cannot load the state of {type(self).__name__}:\n  " + "\n  ".join(problems))
        with no_grad():
            for name, tensor in own.items():
                if name in state_dict:
                    tensor.copy_(state_dict[name])
        return IncompatibleKeys((missing, unexpected))

    # -- Changes to the whole tree ------------------------------------------------------------------------------

    def train(self, mode=True):
        """Training or evaluation behaviour of layers such as Dropout."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        return self.train(False)

    def zero_grad(self, set_to_none=True):
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach() * 0

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def apply(self, function):
        """Calls function(module) for all, children first."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def to(self, *args, **kwargs):
        """Converts floating parameters and buffers, in place; the arguments are Tensor.to's."""
        for parameter in self.parameters():
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(*args, **kwargs)
                if parameter.grad is not None:
                    gradient = parameter.grad.to(*args, **kwargs)
                    parameter.grad = None
                    parameter.grad = gradient
        for module in self.modules():
            for name in module._buffer_names or ():
                buffer = getattr(module, name)
                if buffer is not None and buffer.is_floating_point():
                    setattr(module, name, buffer.to(*args, **kwargs))
        return self

    def float(self):
        from gramme import float32

        return self.to(float32)

    def double(self):
        from gramme import float64

        return self.to(float64)

    def half(self):
        from gramme import float16

        return self.to(float16)

    def bfloat16(self):
        from gramme import bfloat16

        return self.to(bfloat16)

    def cpu(self):
        return self

    # -- Text ---------------------------------------------------------------------------------------------------

    def extra_repr(self):
        """What stands between the parentheses of repr()."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + repr(value).replace("\n", "\n  ") for name, value in self._members() if isinstance(value, Module)
        ]
        name = type(self).__name__
        if len(lines) <= 1 and not children:
            return f"{name}({extra})"
        return f"{name}(\n  " + "\n  ".join(lines + children) + "\n)"
