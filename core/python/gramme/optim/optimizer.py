# SPDX-License-Identifier: Apache-2.0
"""Optimizer: parameters in groups with options, and state for each parameter."""

from gramme._core import Tensor
from gramme.grad_mode import enable_grad, no_grad


class Optimizer:
    """Base of all optimizers.  `params`: parameters, or dicts {"params": [...], option: value ...}.

    A subclass defines _update(parameter, gradient, state, group), which runs without being recorded.
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
        self.state = {}
        self.param_groups = []
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group):
        """Adds {"params": parameters, option: value ...}; options that are left out are the optimizer's."""
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {p for existing in self.param_groups for p in existing["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"an optimizer works on tensors, not on a {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("cannot optimize a tensor that is a result: give a leaf")
            if p in known:
                raise ValueError("a parameter is in two groups")
            known.add(p)
        unknown = [name for name in group if name != "params" and name not in self.defaults]
        if unknown:
            raise ValueError(f"{type(self).__name__} has no option {', '.join(unknown)}; it has {', '.join(self.defaults)}")
        self.param_groups.append({**self.defaults, **group, "params": params})

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients, or fills them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad = p.grad.detach() * 0

    def step(self, closure=None):
        """One step for every parameter that has a gradient.  closure, if given, computes the loss, which is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    gradient = p.grad
                    if gradient is not None:
                        state = self.state.get(p)
                        if state is None:
                            state = self.state[p] = {}
                        self._update(p, gradient, state, group)
        return loss

    def state_dict(self):
        """Options and state, parameters replaced by their numbers."""
        number = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                number.setdefault(p, len(number))
            groups.append({**group, "params": [number[p] for p in group["params"]]})
        return {"state": {number[p]: dict(s) for p, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() of an optimizer over the same parameters returned; tensors are copied."""
        groups = state_dict["param_groups"]
        here = [len(g["params"]) for g in self.param_groups]
        given = [len(g["params"]) for g in groups]
        if here != given:
            raise ValueError(f"the state has groups of {given} parameters, and this optimizer has {here}")
        parameter = {}
        for own, group in zip(self.param_groups, groups):
            parameter.update(zip(group["params"], own["params"]))
            own.update({name: value for name, value in group.items() if name != "params"})
        self.state = {
            parameter[n]: {k: v.detach().clone() if isinstance(v, Tensor) else v for k, v in s.items()}
            for n, s in state_dict["state"].items()
        }

    def __repr__(self):
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n" + "".join(
                f"    {name}: {value}\n" for name, value in sorted(group.items()) if name != "params"
            )
        return text + ")"


def check_not_negative(**options):
    """ValueError that names the option which is negative."""
    for name, value in options.items():
        if value < 0:
            raise ValueError(f"{name} must not be negative, and is {value}")
