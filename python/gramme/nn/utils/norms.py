# SPDX-License-Identifier: Apache-2.0
"""weight_norm and spectral_norm in the older style: a hook before each call computes the weight
from other parameters.

weight_norm: Salimans and Kingma 2016; spectral_norm: Miyato et al. 2018.
parametrizations.weight_norm is the newer form.
"""

import gramme
from gramme.nn import functional as F
from gramme.nn.parameter import Parameter
from gramme.nn.utils.parametrizations import _WeightNorm


class _Rule:
    """A weight that is computed: called as a hook before forward()."""

    def __init__(self, name):
        self.name = name

    def __call__(self, module, inputs):
        setattr(module, self.name, self.weight_of(module))


def _rule_of(module, name, kind):
    for entry in (module._hooks or {}).get("before", ()):
        if type(entry.hook) is kind and entry.hook.name == name:
            return entry
    return None


def _attach(module, rule):
    if _rule_of(module, rule.name, type(rule)):
        raise RuntimeError(f"{type(module).__name__}.{rule.name} is normalised already")
    module.register_forward_pre_hook(rule)
    return module


def _detach(module, name, kind, weight_of, others):
    entry = _rule_of(module, name, kind)
    if entry is None:
        raise ValueError(f"{type(module).__name__}.{name} is not normalised")
    with gramme.no_grad():
        weight = weight_of(entry.hook, module)
    entry.remove()
    for other in others:
        delattr(module, name + other)
    delattr(module, name)
    setattr(module, name, Parameter(weight.detach().clone()))
    return module


class _Directions(_Rule):
    def __init__(self, name, dim):
        super().__init__(name)
        self.norm = _WeightNorm(None if dim == -1 else dim)

    def weight_of(self, module):
        return self.norm(getattr(module, self.name + "_g"), getattr(module, self.name + "_v"))


def weight_norm(module, name="weight", dim=0):
    """The parameter becomes name_g, its lengths over all dimensions but dim, times the direction
    name_v; both are trained.  Returns the module."""
    weight = getattr(module, name)
    rule = _Directions(name, dim)
    _attach(module, rule)
    delattr(module, name)
    setattr(module, name + "_g", Parameter(rule.norm._norm(weight).detach().clone()))
    setattr(module, name + "_v", Parameter(weight.detach().clone()))
    rule(module, None)
    return module


def remove_weight_norm(module, name="weight"):
    """The parameter is itself again, with the present value."""
    return _detach(
        module, name, _Directions, lambda rule, module: rule.weight_of(module), ("_g", "_v")
    )


class _Spectral(_Rule):
    """weight / sigma; u and v follow the singular vectors by the power method, while the module
    trains."""

    def __init__(self, name, n_power_iterations, dim, eps):
        super().__init__(name)
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps

    def matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1) if weight.dim() > 1 else weight.reshape(-1, 1)

    def weight_of(self, module, iterate=None):
        weight, u, v = [getattr(module, self.name + end) for end in ("_orig", "_u", "_v")]
        matrix = self.matrix(weight)
        if module.training if iterate is None else iterate:
            with gramme.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.mT.mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()  # the next call changes them in place
        return weight / u.dot(matrix.mv(v))


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The parameter becomes name_orig divided by its largest singular value, which buffers name_u
    and name_v follow.  Returns the module.

    dim: of the rows; None: 1 for transposed convolutions, else 0.
    """
    if n_power_iterations <= 0:
        raise ValueError(
            f"spectral_norm() needs at least one power iteration, not {n_power_iterations}"
        )
    weight = getattr(module, name)
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    rule = _Spectral(name, n_power_iterations, dim, eps)
    _attach(module, rule)
    rows, columns = rule.matrix(weight.detach()).shape
    delattr(module, name)
    setattr(module, name + "_orig", weight)
    for end, size in (("_u", rows), ("_v", columns)):
        module.register_buffer(
            name + end,
            F.normalize(
                gramme.randn(size, dtype=weight.dtype, device=weight.device), dim=0, eps=eps
            ),
        )
    setattr(module, name, weight.detach())
    return module


def remove_spectral_norm(module, name="weight"):
    """The parameter is itself again, with the present value."""
    return _detach(
        module,
        name,
        _Spectral,
        lambda rule, module: rule.weight_of(module, iterate=False),
        ("_orig", "_u", "_v"),
    )
