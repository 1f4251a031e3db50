# SPDX-License-Identifier: Apache-2.0
"""Losses scaled so that gradients of float16 do not vanish, and gradients that undo it;
autograd.Functions under autocast."""

import functools
import warnings

import gramme
from gramme.amp import autocast, is_autocast_enabled

__all__ = ["GradScaler", "custom_bwd", "custom_fwd"]


def _tree(fn, value):
    """fn of every tensor in lists, tuples and dicts."""
    if isinstance(value, gramme.Tensor):
        return fn(value)
    if isinstance(value, dict):
        return {key: _tree(fn, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_tree(fn, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class GradScaler:
    """GradScaler(device="cuda", init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5,
    growth_interval=2000, enabled=True)

    Dynamic loss scaling (Micikevicius et al. 2018, section 3.2): the loss is multiplied by a scale,
    the gradients divided by it before the optimizer steps.  A step whose gradients are infinite or
    NaN is left out and the scale multiplied by backoff_factor; after growth_interval steps in a row
    without one it is multiplied by growth_factor.

        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # only if something is done with the gradients, such as clipping
        scaler.step(optimizer)
        scaler.update()

    device: of the losses.  enabled=False, or a device "cuda" that is not there: all of it does
    nothing but to call the optimizer's step.
    Errors: ValueError for factors on the wrong side of 1; RuntimeError for calls out of their
    order.
    """

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        if growth_factor <= 1:
            raise ValueError(f"growth_factor must be above 1, and is {growth_factor}")
        if not 0 < backoff_factor < 1:
            raise ValueError(f"backoff_factor must lie between 0 and 1, and is {backoff_factor}")
        if enabled and device == "cuda" and not gramme.cuda.is_available():
            warnings.warn(f"GradScaler scales nothing: {gramme.cuda.why_not()}", stacklevel=2)
            enabled = False
        self._enabled, self._scale = enabled, float(init_scale)
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._growth_tracker = 0
        self._found = (
            {}
        )  # optimizer's id -> whether a gradient was infinite or NaN, since the last update
        self._stepped = set()

    def scale(self, outputs):
        """A tensor, or the tensors in lists, tuples and dicts, times the scale."""
        return _tree(lambda t: t * self._scale, outputs) if self._enabled else outputs

    def unscale_(self, optimizer):
        """Divides the gradients of an optimizer by the scale: once between two updates, before its
        step."""
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() must come before step()")
        if id(optimizer) in self._found:
            raise RuntimeError(
                "unscale_() has been called for this optimizer since the last update()"
            )
        grads = [
            p.grad
            for group in optimizer.param_groups
            for p in group["params"]
            if p.grad is not None
        ]
        if not grads:
            raise RuntimeError("the optimizer has no gradients: call scale(loss).backward() first")
        for grad in grads:
            if grad.dtype == gramme.float16:
                raise ValueError(
                    "gradients in float16 cannot be unscaled: keep the parameters in float32 and "
                    "let autocast cast them"
                )
        with gramme.no_grad():
            for grad in grads:
                grad.mul_(1 / self._scale)
            by_device = [
                [gramme.isfinite(g).all() for g in grads if g.device == device]
                for device in {g.device for g in grads}
            ]
            finite = all(bool(gramme.stack(each).all()) for each in by_device)  # one wait a device
        self._found[id(optimizer)] = not finite

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step(*args, **kwargs), with gradients that are unscaled, unless one is infinite
        or NaN.  Returns what it returns, or None."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or (args and callable(args[0])):
            raise RuntimeError(
                "a step with a closure computes gradients itself, which nobody has scaled"
            )
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has been called for this optimizer since the last update()")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """The next scale, from what was found since the last one, or the one that is given."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._found:
            raise RuntimeError("no gradients were looked at: call step(optimizer) before update()")
        elif any(self._found.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale = grown if grown < float("inf") else self._scale
                self._growth_tracker = 0
        self._found, self._stepped = {}, set()

    def is_enabled(self):
        return self._enabled

    def get_scale(self):
        """The scale, a float; 1.0 where it is not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def state_dict(self):
        """What load_state_dict() takes, with torch's names; empty where it is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "the state is empty: it may have been saved from a scaler that was not enabled"
            )
        self._scale, self._growth_tracker = (
            float(state_dict["scale"]),
            state_dict["_growth_tracker"],
        )
        self._growth_factor, self._backoff_factor = (
            state_dict["growth_factor"],
            state_dict["backoff_factor"],
        )
        self._growth_interval = state_dict["growth_interval"]


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """A decorator for forward() of an autograd.Function, beside custom_bwd.

    The backward then runs with autocast as the forward did.  cast_inputs, a dtype: under autocast
    floating tensors of that device but float64 ones are cast to it, and the forward, and the
    backward, run without autocast.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    def cast(t):
        eligible = (
            t.is_floating_point() and t.dtype != gramme.float64 and t.device.type == device_type
        )
        return t.to(cast_inputs) if eligible else t

    @functools.wraps(fwd)
    def forward(ctx, *args, **kwargs):
        on = is_autocast_enabled(device_type)
        ctx._autocast = (on and cast_inputs is None, gramme.get_autocast_dtype(device_type))
        if not on or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_tree(cast, args), **_tree(cast, kwargs))

    return forward


def custom_bwd(bwd=None, *, device_type):
    """A decorator for backward() of an autograd.Function whose forward() has custom_fwd: it runs
    with autocast as the forward did."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx, *grads):
        on, dtype = ctx._autocast
        with autocast(device_type, dtype, enabled=on):
            return bwd(ctx, *grads)

    return backward
