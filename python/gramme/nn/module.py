# SPDX-License-Identifier: Apache-2.0
"""Module: a tree of objects with parameters.

A module's members stand in three dicts of its own: _parameters, _buffers and _modules.  What is
stored in them is what parameters(), state_dict(), to(), train() and calls find, and nothing else
is: an attribute that was set past Module.__setattr__ belongs to the module as any other attribute
does.  Reading and setting attributes is C (core/objects/members_py.c), of which the recorder has a
model.
"""

import gramme
from gramme._core import Tensor, add_members
from gramme.python_functions import typename
from gramme.grad_mode import no_grad
from gramme.nn.parameter import Buffer, Parameter
from gramme.utils.hooks import add_hook


class IncompatibleKeys(tuple):
    """(missing_keys, unexpected_keys), the result of load_state_dict()."""

    missing_keys = property(lambda self: self[0])
    unexpected_keys = property(lambda self: self[1])

    def __repr__(self):
        if not self[0] and not self[1]:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"


_IncompatibleKeys = IncompatibleKeys  # torch's name


def _destination(args, kwargs):
    """The device that arguments of Tensor.to() name, or None."""
    for value in (*args[:1], kwargs.get("device"), kwargs.get("other")):
        if isinstance(value, Tensor):
            return value.device
        if isinstance(value, (str, int, gramme.device)):
            return gramme.device(value)
    return None


class Module:
    """The base of all layers.  Subclasses call super().__init__(), set attributes and define
    forward()."""

    training = True
    # around calls: kind -> list of handles, as soon as there is one; of the class: those of all
    # modules
    _hooks = None
    _state_hooks = None  # around state_dict() and load_state_dict()
    _compiled_call = (
        None  # what calls run instead of _call_impl: compile() and gramme.compiler.disable() set it
    )

    def __init__(self):
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_modules"] = {}

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self, *args, **kwargs):
        if self._compiled_call is not None:
            return self._compiled_call(self, *args, **kwargs)
        if self._hooks:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        """What is compiled: forward() with the hooks around it."""
        if self._hooks:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def compile(self, **options):
        """Compiles the module in place; the arguments are gramme.compile's.  Calls of the module
        run compiled, hooks included.

        Type, signature, state_dict(), repr() and pickles are as before; a copy, or what is read
        from a pickle, is not compiled.
        """
        from gramme._compile import compile

        compile(self, **options)

    def __getstate__(self):
        """What copy and pickle take: all but the compiled form, which belongs to this process and
        this module."""
        return {name: value for name, value in vars(self).items() if name != "_compiled_call"}

    def _hooks_of(self, kind):
        """The handles of one kind in the order in which they run: those of all modules, then the
        module's own."""
        shared = Module._hooks
        own = self._hooks.get(kind, ())
        return (
            list(own) if shared is None or self._hooks is shared else [*shared.get(kind, ()), *own]
        )

    def _call_with_hooks(self, args, kwargs):
        for entry in self._hooks_of("before"):
            if entry.with_kwargs:
                changed = entry.hook(self, args, kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise RuntimeError(
                            "a forward pre hook with kwargs returns None or (args, kwargs), not "
                            f"{changed!r}"
                        )
                    args, kwargs = changed
            else:
                changed = entry.hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        if any([entry.always_call for entry in self._hooks_of("after")]):
            return self._forward_and_always(args, kwargs)
        return self._run_hooks_after(self._watched_forward(args, kwargs), args, kwargs)

    def _watched_forward(self, args, kwargs):
        """forward(), seen by the hooks of the backward."""
        before, after = self._hooks_of("backward_before"), self._hooks_of("backward")
        if not before and not after:
            return self.forward(*args, **kwargs)
        from gramme.nn.backward_hooks import Watch

        watch = Watch(self, before, after)
        return watch.outputs(self.forward(*watch.inputs(args), **kwargs))

    def _run_hooks_after(self, result, args, kwargs, always=False):
        for entry in self._hooks_of("after"):
            if always and not entry.always_call:
                continue
            changed = (
                entry.hook(self, args, kwargs, result)
                if entry.with_kwargs
                else entry.hook(self, args, result)
            )
            if changed is not None:
                result = changed
        return result

    def _forward_and_always(self, args, kwargs):
        """forward(), after which the hooks that want it run even if it raises."""
        try:
            result = self._run_hooks_after(self._watched_forward(args, kwargs), args, kwargs)
        except Exception:
            self._run_hooks_after(None, args, kwargs, always=True)
            raise
        return result

    def _add_hook(self, kind, hook, **options):
        if "_hooks" not in vars(self):
            self._hooks = {}
        return add_hook(self._hooks.setdefault(kind, []), hook, **options)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) runs before forward() and may return other arguments; with_kwargs:
        hook(module, args, kwargs), which may return (args, kwargs)."""
        return self._add_hook("before", hook, prepend=prepend, with_kwargs=with_kwargs)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, result) runs after forward() and may return another result;
        with_kwargs: hook(module, args, kwargs, result);
        always_call: also if forward() raises, with the result None."""
        return self._add_hook(
            "after", hook, prepend=prepend, with_kwargs=with_kwargs, always_call=always_call
        )

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) runs in backward before the module's own and may return other
        gradients of its outputs."""
        return self._add_hook("backward_before", hook, prepend=prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) runs when the gradients of the positional arguments
        are known and may return others.

        grad_input has None for what is no tensor, and is () if no argument requires grad.
        Compiled, a call of the module is a graph break.
        """
        return self._add_hook("backward", hook, prepend=prepend)

    register_backward_hook = register_full_backward_hook

    # -- What a module has -------------------------------------------------------------------------

    def _set_member(self, name, value):
        """Module.__setattr__ of what is a tensor or a module, and of a name that one of the three
        dicts has."""
        tables = vars(self)
        parameters, buffers, modules = (
            tables.get("_parameters"),
            tables.get("_buffers"),
            tables.get("_modules"),
        )
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, parameters)
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign {typename(value)!r} as parameter {name!r} (gramme.nn.Parameter "
                    "or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, modules)
            modules[name] = value
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign {typename(value)!r} as child module {name!r} (gramme.nn.Module "
                    "or None expected)"
                )
            modules[name] = value
        elif isinstance(value, Buffer) or (buffers is not None and name in buffers):
            if buffers is None:
                raise AttributeError("cannot assign buffers before Module.__init__() call")
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign {typename(value)!r} as buffer {name!r} (gramme.nn.Buffer, "
                    "gramme.Tensor or None expected)"
                )
            self._forget(name, buffers)
            persistent = (
                value.persistent
                if isinstance(value, Buffer)
                else name not in self._non_persistent_buffers_set
            )
            self.register_buffer(name, value, persistent)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name, kept):
        """What else had the name of a new member lets it go: an attribute, and a member in another
        dict than `kept`."""
        own = vars(self)
        own.pop(name, None)
        for table in (own["_parameters"], own["_buffers"], own["_modules"]):
            if table is not kept:
                table.pop(name, None)
        if own["_buffers"] is not kept:
            own["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name):
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        names = {*object.__dir__(self), *self._parameters, *self._buffers, *self._modules}
        return sorted([name for name in names if name.isidentifier()])

    def _check_name(self, name, kind, table):
        """Raises unless this can be the name of a new member in the dict `table`."""
        members = vars(self).get(table)
        if members is None:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"the name of a {kind} is a str, not a {type(name).__name__}")
        if "." in name or not name:
            raise KeyError(
                f"the name of a {kind} has no dots and is not empty, and this is {name!r}"
            )
        if name not in members and hasattr(self, name):
            raise KeyError(f"attribute {name!r} already exists")

    def register_parameter(self, name, param):
        """Adds a Parameter; None stands for one that is left out.  Errors: KeyError if something
        else has the name, TypeError for what is no Parameter, ValueError for a Parameter that was
        computed from others."""
        self._check_name(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign {typename(param)!r} object to parameter {name!r}: {name} must be a "
                "Parameter or None"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"parameter {name!r} has a history: a model's parameters are leaves; compute the "
                "value in forward()"
            )
        self._parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        """Makes a tensor part of state_dict() (if persistent) and to(), without training it.  An
        attribute that is a Buffer is one, too.
        Errors: KeyError if something else has the name, TypeError for what is no tensor."""
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign {typename(tensor)!r} object to buffer {name!r}: {name} must be a "
                "Tensor or None"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name, module):
        """Adds a child; None stands for one that is left out.  Errors: KeyError if something else
        has the name, TypeError for what is no Module."""
        self._check_name(name, "module", "_modules")
        if module is not None and not isinstance(module, Module):
            raise TypeError(
                f"{typename(module)} is not a Module subclass: {name} must be a Module or None"
            )
        self._modules[name] = module

    register_module = add_module

    def _replace(self, name, tensor):
        """Puts a tensor, unchecked, where a parameter or buffer of this name stands."""
        (self._parameters if name in self._parameters else self._buffers)[name] = tensor

    def named_children(self):
        seen = set()
        for name, value in self._modules.items():
            if value is not None and value not in seen:
                seen.add(value)
                yield name, value

    def children(self):
        for _, child in self.named_children():
            yield child

    def _walk(self, prefix=""):
        """(prefix, module) of the whole tree, depth first; a module that is in two places comes
        twice."""
        yield prefix, self
        for name, value in self._modules.items():
            if value is not None:
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
        for path, module in (
            self._walk(prefix and prefix + ".") if recurse else [(prefix and prefix + ".", self)]
        ):
            for name, value in module._parameters.items():
                if value is not None and (value not in seen or not remove_duplicate):
                    seen.add(value)
                    yield path + name, value

    def parameters(self, recurse=True):
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        for path, module in (
            self._walk(prefix and prefix + ".") if recurse else [(prefix and prefix + ".", self)]
        ):
            for name, value in module._buffers.items():
                if value is not None and (value not in seen or not remove_duplicate):
                    seen.add(value)
                    yield path + name, value

    def buffers(self, recurse=True):
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _owner(self, target, kind):
        """(module, name) of what a dotted name stands for."""
        path, _, name = target.rpartition(".")
        module = self
        for part in path.split(".") if path else ():
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                raise AttributeError(
                    f"{type(self).__name__} has no {kind} {target!r}: there is no module {part!r}"
                )
        return module, name

    def get_submodule(self, target):
        """The module of a dotted name, as named_modules() gives it; "" is the module itself."""
        if not target:
            return self
        owner, name = self._owner(target, "submodule")
        module = getattr(owner, name, None)
        if not isinstance(module, Module):
            raise AttributeError(f"{type(self).__name__} has no submodule {target!r}")
        return module

    def set_submodule(self, target, module, strict=False):
        """Puts a module at a dotted name; strict: only where one is."""
        if not isinstance(module, Module):
            raise ValueError(f"{target} must become a Module, not a {type(module).__name__}")
        if not target:
            raise ValueError("a module cannot be put in its own place")
        owner, name = self._owner(target, "submodule")
        if strict and not isinstance(getattr(owner, name, None), Module):
            raise AttributeError(f"{type(self).__name__} has no submodule {target!r}")
        setattr(owner, name, module)

    def get_parameter(self, target):
        """The parameter of a dotted name, as named_parameters() gives it."""
        owner, name = self._owner(target, "parameter")
        parameter = getattr(owner, name, None)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"{type(self).__name__} has no parameter {target!r}")
        return parameter

    def get_buffer(self, target):
        """The buffer of a dotted name, as named_buffers() gives it."""
        owner, name = self._owner(target, "buffer")
        buffer = owner._buffers.get(name)
        if buffer is None:
            raise AttributeError(f"{type(self).__name__} has no buffer {target!r}")
        return buffer

    # -- State -------------------------------------------------------------------------------------

    def get_extra_state(self):
        """What else state_dict() should hold of this module, under the name "_extra_state"; to be
        defined along with set_extra_state()."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_extra_state()")

    def set_extra_state(self, state):
        """Takes over what get_extra_state() returned."""
        raise NotImplementedError(
            f"{type(self).__name__} defines no set_extra_state(), and the state has one for it"
        )

    def _has_extra_state(self):
        return type(self).get_extra_state is not Module.get_extra_state

    def _own_state(self):
        """(name, tensor) of what state_dict() holds of this module alone, the tensors
        themselves."""
        for name, value in self._parameters.items():
            if value is not None:
                yield name, value
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                yield name, value

    def _state_hooks_of(self, kind):
        return list(self._state_hooks.get(kind, ())) if self._state_hooks else ()

    def state_dict(self, destination=None, prefix="", keep_vars=False):
        """Name -> tensor of all parameters and persistent buffers; the tensors share memory with
        the module.

        They are put into `destination`, if given, behind `prefix`; keep_vars: the parameters
        themselves, which require grad.
        """
        state = {} if destination is None else destination
        for entry in self._state_hooks_of("save_before"):
            entry.hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, value in self._modules.items():
            if value is not None:
                value.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for entry in self._state_hooks_of("save_after"):
            changed = entry.hook(self, state, prefix, {})
            if changed is not None:
                state = changed
        return state

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Puts the module's own tensors, not those of modules in it, into the dict.  state_dict()
        calls it: a class may have its own."""
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if self._has_extra_state():
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Copies the module's own tensors, not those of modules in it, from a dict that may be
        changed for it.

        load_state_dict() calls it where a class has its own, which calls this one.  Keys that are
        missing (strict: and unexpected) and what does not fit are added to the lists.
        """
        for entry in self._state_hooks_of("load_before"):
            entry.hook(
                self,
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        own = dict(self._own_state())
        for name, tensor in own.items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.extend([key] if strict else [])
                continue
            given = state_dict[key]
            if tuple(given.shape) != tuple(tensor.shape):
                error_msgs.append(
                    f"size mismatch for {key}: {list(given.shape)} was given, {list(tensor.shape)} "
                    "is here"
                )
                continue
            with no_grad():
                if local_metadata.get("assign_to_params_buffers", False):
                    self._assign(name, tensor, given)
                else:
                    tensor.copy_(given)
        extra = prefix + "_extra_state"
        if self._has_extra_state():
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        for key in state_dict if strict else ():
            first, dot, _ = key[len(prefix) :].partition(".")
            there = first in self._modules if dot else first in own or key == extra
            if key.startswith(prefix) and not there:
                unexpected_keys.append(key)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies tensors of the same names in; assign: takes the tensors themselves.  Raises
        RuntimeError that names every key that is missing, unexpected (if strict) or of another
        shape; then nothing was copied (unless a hook was to see the keys first).
        """
        given = dict(state_dict)
        own, extra, missing, unexpected, problems = {}, {}, [], [], []
        taken = set()  # by modules that load themselves, and tell what is missing
        for path, module in self._walk():
            if type(module)._load_from_state_dict is not Module._load_from_state_dict:
                module._load_from_state_dict(
                    given, path, {"assign_to_params_buffers": assign}, True, missing, [], problems
                )
                taken |= {path + name for name, _ in module._own_state()} | {path + "_extra_state"}
                continue
            for entry in module._state_hooks_of("load_before"):
                entry.hook(module, given, path, {}, strict, missing, unexpected, problems)
            for name, tensor in module._own_state():
                own[path + name] = (module, name, tensor)
            if module._has_extra_state():
                extra[path + "_extra_state"] = module
        missing += [name for name in [*own, *extra] if name not in given]
        unexpected += [
            name for name in given if name not in own and name not in extra and name not in taken
        ]
        problems += [
            (
                f"size mismatch for {name}: {list(given[name].shape)} was given, "
                f"{list(tensor.shape)} is here"
            )
            for name, (_, _, tensor) in own.items()
            if name in given and tuple(given[name].shape) != tuple(tensor.shape)
        ]
        keys = IncompatibleKeys((missing, unexpected))
        watched = any([module._state_hooks_of("load_after") for _, module in self._walk()])
        self._raise_problems(problems, keys, strict and not watched)
        with no_grad():
            for name, (module, member, tensor) in own.items():
                if name in given:
                    if assign:
                        module._assign(member, tensor, given[name])
                    else:
                        tensor.copy_(given[name])
        for name, module in extra.items():
            if name in given:
                module.set_extra_state(given[name])
        for _, module in self._walk():
            for entry in module._state_hooks_of("load_after"):
                entry.hook(module, keys)
        self._raise_problems([], keys, strict)
        return keys

    def _assign(self, name, old, new):
        """A loaded tensor itself becomes the parameter or buffer."""
        if isinstance(old, Parameter) and not isinstance(new, Parameter):
            new = Parameter(new.detach(), requires_grad=old.requires_grad)
        self._replace(name, new)

    def _raise_problems(self, problems, keys, strict):
        problems = list(problems)
        if strict and keys.missing_keys:
            problems.append("missing keys: " + ", ".join(keys.missing_keys))
        if strict and keys.unexpected_keys:
            problems.append("unexpected keys: " + ", ".join(keys.unexpected_keys))
        if problems:
            raise RuntimeError(
                f"cannot load the state of {type(self).__name__}:\n  " + "\n  ".join(problems)
            )

    def _add_state_hook(self, kind, hook):
        if self._state_hooks is None:
            self._state_hooks = {}
        return add_hook(self._state_hooks.setdefault(kind, []), hook)

    def register_state_dict_pre_hook(self, hook):
        """hook(module, prefix, keep_vars) runs before this module's part of state_dict()."""
        return self._add_state_hook("save_before", hook)

    def register_state_dict_post_hook(self, hook):
        """hook(module, state_dict, prefix, {}) runs after this module's part of state_dict(), and
        may change the dict."""
        return self._add_state_hook("save_after", hook)

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, {}, strict, missing_keys, unexpected_keys, error_msgs)
        runs before load_state_dict() looks at this module's keys, in a copy of the dict that it may
        change."""
        return self._add_state_hook("load_before", hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        """The same of a hook that gets the module only if with_module."""
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)
        return self.register_load_state_dict_pre_hook(lambda module, *args: hook(*args))

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys) runs when all is loaded; what it takes out of the two
        lists is no error."""
        return self._add_state_hook("load_after", hook)

    # -- Changes to the whole tree -----------------------------------------------------------------

    def train(self, mode=True):
        """Training or evaluation behaviour of layers such as Dropout."""
        if not isinstance(mode, bool):
            raise ValueError(f"training is True or False, not {mode!r}")
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

    def _apply(self, function, recurse=True):
        """Replaces the data of all parameters, of their gradients and of buffers by
        function(tensor), in place."""
        for parameter in self.parameters(recurse=recurse):
            gradient = parameter.grad
            with no_grad():
                parameter.data = function(parameter.data)
                if gradient is not None:
                    parameter.grad = None
                    parameter.grad = function(gradient)
        for module in self.modules() if recurse else [self]:
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    with no_grad():
                        module._buffers[name] = function(buffer)
        return self

    def to(self, *args, **kwargs):
        """Moves all parameters and buffers, and converts those that are floating, in place; the
        arguments are Tensor.to's.  memory_format is for those of 4 and 5 dimensions."""
        place, layout = _destination(args, kwargs), kwargs.pop("memory_format", None)

        def moved(tensor):
            tensor = (
                tensor.to(*args, **kwargs)
                if tensor.is_floating_point()
                else tensor
                if place is None
                else tensor.to(place)
            )
            return (
                tensor.to(memory_format=layout)
                if layout is not None and tensor.dim() in (4, 5)
                else tensor
            )

        return self._apply(moved)

    def type(self, dst_type):
        """Converts all parameters and buffers, in place."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def to_empty(self, *, device=None, recurse=True):
        """New memory for all parameters and buffers, with nothing in it."""
        return self._apply(lambda tensor: gramme.empty_like(tensor, device=device), recurse)

    def float(self):
        return self.to(gramme.float32)

    def double(self):
        return self.to(gramme.float64)

    def half(self):
        return self.to(gramme.float16)

    def bfloat16(self):
        return self.to(gramme.bfloat16)

    def cpu(self):
        """Tensor.cpu() of all parameters and buffers."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device=None):
        """Tensor.cuda() of all parameters and buffers."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def share_memory(self):
        """Threads share all memory; processes none.  Returns the module."""
        return self

    # -- Text --------------------------------------------------------------------------------------

    def extra_repr(self):
        """What stands between the parentheses of repr()."""
        return ""

    def _get_name(self):
        """What stands before the parentheses of repr()."""
        return type(self).__name__

    def _repr_of_children(self):
        """(name, text) of what repr() shows inside."""
        return [(name, repr(value)) for name, value in self._modules.items()]

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + text.replace("\n", "\n  ") for name, text in self._repr_of_children()
        ]
        name = self._get_name()
        if len(lines) <= 1 and not children:
            return f"{name}({extra})"
        return f"{name}(\n  " + "\n  ".join(lines + children) + "\n)"


add_members(Module, Parameter)


# -- Hooks of all modules --------------------------------------------------------------------------


def _add_shared_hook(kind, hook, **options):
    if Module._hooks is None:
        Module._hooks = {}
    return add_hook(Module._hooks.setdefault(kind, []), hook, **options)


def register_module_forward_pre_hook(hook):
    """hook(module, args) runs before forward() of every module, ahead of the module's own hooks.
    Returns a handle to remove it."""
    return _add_shared_hook("before", hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, result) runs after forward() of every module, ahead of the module's own
    hooks.  Returns a handle to remove it."""
    return _add_shared_hook("after", hook, with_kwargs=with_kwargs, always_call=always_call)


def register_module_full_backward_pre_hook(hook):
    """hook(module, grad_output) runs in the backward of every module before the module's own.
    Returns a handle to remove it."""
    return _add_shared_hook("backward_before", hook)


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output) runs when the gradients of a module's positional
    arguments are known.  Returns a handle to remove it."""
    return _add_shared_hook("backward", hook)
