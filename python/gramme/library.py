# SPDX-License-Identifier: Apache-2.0
"""Operators of one's own with torch's names: custom_op(), and what is registered for one.

An operator is a Python function of tensors and constants.  A compiled function has a call of it as
one node, which the host runs between the back end's parts; its gradient is what register_autograd()
was given.  There are no schemas, dispatch keys or operators of C++: those names raise
NotImplementedError.
"""

import inspect
import types

import gramme
from gramme import _absent, compiler
from gramme._core import Tensor
from gramme.autograd import Function
from gramme.grad_mode import no_grad
from gramme.utils import _pytree

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake", "register_kernel"]

_defined = {}  # "namespace::name" -> CustomOpDef


def _tensors_of(value):
    return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _call_template(*args, **kwargs):
    return _definition._run(*args, **kwargs)  # noqa: F821: the globals of each copy have their own


def _own_function(definition):
    """A function of a code object of its own that calls the operator: what is marked as a node is
    marked by its code."""
    own = types.FunctionType(
        _call_template.__code__.replace(), {"_definition": definition}, definition._name
    )
    own.__qualname__ = definition._qualname
    return own


class CustomOpDef:
    """An operator that custom_op() made: call it like the function.

    While gradients are recorded, its result has those that register_autograd() says; without that,
    backward() raises RuntimeError.
    """

    def __init__(self, namespace, name, fn, mutates_args, device_types=None):
        self._namespace, self._name, self._mutates = namespace, name, tuple(mutates_args)
        self._signature = inspect.signature(fn)
        self._kernels = {device: fn for device in device_types or (None,)}
        self._backward = self._setup = self._fake = None
        unknown = [name for name in self._mutates if name not in self._signature.parameters]
        if unknown:
            raise ValueError(
                f"custom_op({self._qualname!r}): mutates_args names {unknown[0]!r}, which is no "
                f"argument of {fn.__name__}{self._signature}"
            )
        own = _own_function(self)
        self._call = compiler.disable(own) if self._mutates else compiler.allow_in_graph(own)
        self.__name__, self.__doc__ = name, fn.__doc__

    @property
    def _qualname(self):
        return f"{self._namespace}::{self._name}"

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args, **kwargs):
        return self._call(*args, **kwargs)

    # -- One call

    def _kernel(self, values):
        devices = {tensor.device.type for tensor in _tensors_of(values)}
        for device in ("cuda", "cpu") if "cuda" in devices else ("cpu",):
            if device in self._kernels:
                return self._kernels[device]
        if None not in self._kernels:
            raise NotImplementedError(
                f"{self._qualname} has no kernel for {' and '.join(sorted(devices))}: "
                "register_kernel() gives it one"
            )
        return self._kernels[None]

    def _plain(self, values):
        """The function's result, of tensors that are none of its arguments."""
        bound = inspect.BoundArguments(self._signature, dict(values))
        result = self._kernel(values)(*bound.args, **bound.kwargs)
        given = [id(tensor) for tensor in _tensors_of(values)]
        if any([id(tensor) in given for tensor in _tensors_of(result)]):
            raise RuntimeError(
                f"{self._qualname}: the result of an operator is none of its arguments: return a "
                "clone() of it"
            )
        return result

    def _run(self, *args, **kwargs):
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = dict(bound.arguments)
        tracked = gramme.is_grad_enabled() and any(
            [tensor.requires_grad for tensor in _tensors_of(values)]
        )
        if not tracked:
            return self._plain(values)
        if self._mutates:
            with no_grad():
                return self._plain(values)
        if any(
            [
                tensor.requires_grad
                for value in values.values()
                if not isinstance(value, Tensor)
                for tensor in _tensors_of(value)
            ]
        ):
            raise NotImplementedError(
                f"{self._qualname}: gradients flow to arguments that are tensors, not to tensors "
                "in lists: pass them one by one"
            )
        return _Recorded.apply(self, tuple(values), *values.values())

    # -- Registration

    def register_autograd(self, backward, /, *, setup_context=None):
        """backward(ctx, *grads) returns a gradient, or None, for each argument; setup_context(ctx,
        inputs, output) keeps for it, on ctx, what it needs (a function with arguments by keyword
        alone gets them as keyword_only_inputs)."""
        self._backward, self._setup = backward, setup_context

    def register_fake(self, fn, /):
        """Kept, and returned: what a call gives is found out by calling the operator itself on
        tensors of ones."""
        self._fake = fn
        return fn

    def register_kernel(self, device_types, fn=None, /):
        """fn computes the operator for tensors of these types of device, "cpu" or "cuda"; None: for
        all.  Also a decorator."""
        if fn is None:
            return lambda fn: self.register_kernel(device_types, fn)
        for device in [device_types] if isinstance(device_types, str) else device_types or (None,):
            self._kernels[device] = fn
        return fn


class _Recorded(Function):
    @staticmethod
    def forward(ctx, definition, names, *values):
        inputs = dict(zip(names, values))
        result = definition._plain(inputs)
        ctx._definition = definition
        if definition._setup is not None:
            kinds = definition._signature.parameters
            by_name = {
                name: value
                for name, value in inputs.items()
                if kinds[name].kind is inspect.Parameter.KEYWORD_ONLY
            }
            more = {"keyword_only_inputs": by_name} if by_name else {}
            definition._setup(
                ctx,
                inputs=tuple([value for name, value in inputs.items() if name not in by_name]),
                output=result,
                **more,
            )
        return result

    @staticmethod
    def backward(ctx, *grads):
        definition = ctx._definition
        if definition._backward is None:
            raise RuntimeError(
                f"Trying to backward through {definition._qualname} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        found = definition._backward(ctx, *grads)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        by_name = [
            p
            for p in definition._signature.parameters.values()
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        return None, None, *found, *[None] * len(by_name)


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes an operator of a Python function: custom_op("mine::twice", mutates_args=()), as a
    decorator.

    name: "namespace::name", also under gramme.ops.namespace.name.  The function takes tensors and
    constants and gives new tensors.
    mutates_args: the names of arguments that it writes to; calls of such an operator break the
    graph of a compiled function.  device_types: the types of device that the function is for; None:
    all.  schema and tags change nothing.
    Errors: ValueError for a name without a namespace, or mutates_args="unknown".
    """

    def define(fn):
        namespace, colons, own = name.partition("::")
        if not (colons and namespace.isidentifier() and own.isidentifier()):
            raise ValueError(
                f"custom_op(): the name of an operator is 'namespace::name', not {name!r}"
            )
        if isinstance(mutates_args, str):
            raise ValueError(
                f"custom_op({name!r}): mutates_args names the arguments that are written to, in a "
                f"tuple, not {mutates_args!r}"
            )
        kinds = [device_types] if isinstance(device_types, str) else device_types
        _defined[name] = CustomOpDef(namespace, own, fn, mutates_args, kinds)
        return _defined[name]

    return define if fn is None else define(fn)


def _operator(op, who):
    if isinstance(op, CustomOpDef):
        return op
    if op not in _defined:
        raise RuntimeError(f"{who}(): there is no operator {op!r}: custom_op() makes one")
    return _defined[op]


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """CustomOpDef.register_autograd() of an operator, or of the one of that name."""
    _operator(op, "register_autograd").register_autograd(backward, setup_context=setup_context)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """CustomOpDef.register_fake() of an operator, or of the one of that name.  Also a decorator."""
    definition = _operator(op, "register_fake")
    return definition.register_fake if func is None else definition.register_fake(func)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """CustomOpDef.register_kernel() of an operator, or of the one of that name.  Also a
    decorator."""
    return _operator(op, "register_kernel").register_kernel(device_types, func)


def __getattr__(name):
    return _absent.find(__name__, name)
