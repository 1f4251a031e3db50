# SPDX-License-Identifier: Apache-2.0
"""Optimizer: parameters in groups with options, and state for each parameter.

What changes from step to step stands in tensors, the number of steps too (state["step"]: float64,
no dimensions), so a compiled step is recorded once and serves all steps.  An option that changes,
as a learning rate with a schedule, is one if it is given as a tensor: schedules then write into it.
Given as a number it is a constant of what is compiled, and each value is compiled anew.
"""

from collections.abc import MutableMapping

import gramme
from gramme._core import Tensor
from gramme.grad_mode import enable_grad, no_grad
from gramme.utils.hooks import add_hook

# Options that choose how torch runs a step.  There is one way here, which compiles as a whole: they
# are taken, and change nothing.
HINTS = ("foreach", "fused", "capturable", "differentiable")
EXTRA = (
    "name",
    "param_names",
    "initial_lr",
    "max_lr",
    "min_lr",
    "base_momentum",
    "max_momentum",
)  # what schedules and users add to groups


class State(MutableMapping):
    """Parameter -> dict of what its steps remember: Optimizer.state.  Those that have made no step
    are not in it.

    Programs may keep values of their own here, under any key: a key that is missing is a new dict
    when it is read.
    """

    def __init__(self, memories):
        self.memories = memories

    def __getitem__(self, parameter):
        return self.memories.setdefault(parameter, {})

    def __setitem__(self, parameter, memory):
        if not isinstance(parameter, Tensor):
            self.memories[parameter] = memory
            return
        own = self[parameter]
        if memory is not own:
            own.clear()
            own.update(memory)

    def __delitem__(self, parameter):
        if isinstance(parameter, Tensor):
            self.memories[parameter].clear()
        else:
            del self.memories[parameter]

    def __iter__(self):
        return iter([key for key in self.memories if key in self])

    def __len__(self):
        return sum(1 for key in self.memories if key in self)

    def __contains__(self, parameter):
        return parameter in self.memories and (
            not isinstance(parameter, Tensor) or bool(self.memories[parameter])
        )

    def __repr__(self):
        return repr(dict(self))


class Optimizer:
    """Base of all optimizers.  `params`: parameters, (name, parameter) pairs, or dicts {"params":
    [...], option: value ...}.

    A subclass defines _update(parameter, gradient, state, group), which runs without being recorded
    for backward and writes the parameter once (what is compiled can write a leaf once); or step().
    """

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError("params must be a list of tensors or of groups, not one tensor")
        groups = list(params)
        if not groups:
            raise ValueError("an optimizer needs at least one parameter")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = defaults
        self.param_groups = []
        self._memories = {}  # parameter -> dict; the dicts stay the same objects
        self._aligned = (
            []
        )  # the same dicts, a list for each group: steps need not look parameters up
        self._hooks = {}  # of those kinds that somebody registered: kind -> list of handles
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group):
        """Adds {"params": parameters, option: value ...}; options that are left out are the
        optimizer's."""
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        names = [p[0] for p in params if isinstance(p, tuple)]
        if names:
            if len(names) != len(params):
                raise ValueError("either all parameters of a group have names, or none")
            params = [p[1] for p in params]
            group = {**group, "param_names": names}
        known = {p for existing in self.param_groups for p in existing["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"an optimizer works on tensors, not on a {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("cannot optimize a tensor that is a result: give a leaf")
            if p in known:
                raise ValueError("a parameter is in two groups")
            known.add(p)
        unknown = [
            name
            for name in group
            if name != "params" and name not in self.defaults and name not in HINTS + EXTRA
        ]
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no option {', '.join(unknown)}; it has "
                f"{', '.join(self.defaults)}"
            )
        own = {
            name: value.clone() if isinstance(value, Tensor) else value
            for name, value in self.defaults.items()
        }
        self.param_groups.append({**own, **group, "params": params})
        self._align()

    def _align(self):
        self._aligned = [
            [self._memories.setdefault(p, {}) for p in group["params"]]
            for group in self.param_groups
        ]

    @property
    def state(self):
        return State(self._memories)

    @state.setter
    def state(self, memories):
        state = self.state
        state.clear()
        state.update(memories)

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients, or fills them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad = p.grad.detach() * 0

    # -- Steps -------------------------------------------------------------------------------------

    def step(self, closure=None):
        """One step for every parameter that has a gradient.  closure, if given, computes the loss,
        which is returned."""
        hooks = self._hooks
        if not hooks:
            return self._step(closure)
        args, kwargs = (closure,), {}
        for entry in list(hooks.get("step_pre", ())):
            changed = entry.hook(self, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        loss = self._step(*args, **kwargs)
        for entry in list(hooks.get("step_post", ())):
            entry.hook(self, args, kwargs)
        return loss

    def _step(self, closure=None):
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            if [len(group["params"]) for group in self.param_groups] != [
                len(memories) for memories in self._aligned
            ]:
                self._align()  # somebody changed the lists
            for group, memories in zip(self.param_groups, self._aligned):
                for p, memory in zip(group["params"], memories):
                    gradient = p.grad
                    if gradient is not None:
                        self._update(
                            p, -gradient if group.get("maximize") else gradient, memory, group
                        )
        return loss

    def _update(self, p, g, state, group):
        raise NotImplementedError(f"{type(self).__name__} defines neither _update() nor step()")

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) runs before each step and may return other (args,
        kwargs)."""
        return add_hook(self._hooks.setdefault("step_pre", []), hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) runs after each step."""
        return add_hook(self._hooks.setdefault("step_post", []), hook)

    # -- State -------------------------------------------------------------------------------------

    def state_dict(self):
        """Options and state, parameters replaced by their numbers."""
        for entry in list(self._hooks.get("state_dict_pre", ())):
            entry.hook(self)
        number = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                number.setdefault(p, len(number))
            groups.append({**group, "params": [number[p] for p in group["params"]]})
        memories = {
            number[p] if isinstance(p, Tensor) else p: dict(s) if isinstance(p, Tensor) else s
            for p, s in self.state.items()
        }
        state = {"state": memories, "param_groups": groups}
        for entry in list(self._hooks.get("state_dict_post", ())):
            changed = entry.hook(self, state)
            if changed is not None:
                state = changed
        return state

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() of an optimizer over parameters of the same shapes returned;
        tensors are copied, and get their parameter's dtype and device.  Errors: ValueError if the
        groups have other numbers of parameters.
        """
        for entry in list(self._hooks.get("load_pre", ())):
            changed = entry.hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        groups = state_dict["param_groups"]
        here = [len(g["params"]) for g in self.param_groups]
        given = [len(g["params"]) for g in groups]
        if here != given:
            raise ValueError(
                f"the state has groups of {given} parameters, and this optimizer has {here}"
            )
        parameter = {}
        for own, group in zip(self.param_groups, groups):
            parameter.update(zip(group["params"], own["params"]))
            own.update(
                {
                    k: v.clone() if isinstance(v, Tensor) else v
                    for k, v in group.items()
                    if k not in ("params", "param_names")
                }
            )
        self.state = {
            parameter.get(n, n): {
                name: _loaded(parameter[n], name, value) for name, value in state.items()
            }
            if n in parameter
            else state
            for n, state in state_dict["state"].items()
        }
        for entry in list(self._hooks.get("load_post", ())):
            entry.hook(self)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer) runs before state_dict()."""
        return add_hook(self._hooks.setdefault("state_dict_pre", []), hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) runs after state_dict() and may return another one."""
        return add_hook(self._hooks.setdefault("state_dict_post", []), hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) runs before load_state_dict() and may return another one."""
        return add_hook(self._hooks.setdefault("load_pre", []), hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer) runs after load_state_dict()."""
        return add_hook(self._hooks.setdefault("load_post", []), hook, prepend)

    def __repr__(self):
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n" + "".join(
                f"    {name}: {value}\n"
                for name, value in sorted(group.items())
                if name != "params"
            )
        return text + ")"


def _loaded(parameter, name, value):
    """A copy of a saved value, as this parameter's steps need it."""
    if name == "step":
        return gramme.as_tensor(value, device="cpu").detach().clone().to(gramme.float64)
    if not isinstance(value, Tensor):
        return value
    value = value.detach().clone()
    if not value.dim():
        return value
    fits = value.is_floating_point() and parameter.is_floating_point()
    return value.to(parameter.device, parameter.dtype if fits else value.dtype)


def new_step():
    """The number of steps before the first one: a number of the CPU, which goes along with
    parameters of every device."""
    return gramme.zeros((), dtype=gramme.float64, device="cpu")


def check_hints(options):
    """Takes keyword arguments of torch's that only say how to run.  Errors: TypeError for another
    one; NotImplementedError for differentiable=True, whose steps would be part of a history."""
    for name, value in options.items():
        if name not in HINTS:
            raise TypeError(f"no optimizer has the option {name!r}")
        if name == "differentiable" and value:
            raise NotImplementedError(
                "differentiable=True: steps are not recorded for backward; write the step as a "
                "function of the parameters"
            )


def check_not_negative(**options):
    """ValueError that names the option which is negative."""
    for name, value in options.items():
        if value < 0:
            raise ValueError(f"{name} must not be negative, and is {value}")


def check_betas(betas):
    """ValueError unless both are in [0, 1)."""
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas must be at least 0 and below 1, and are {betas}")
