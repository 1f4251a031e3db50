# SPDX-License-Identifier: Apache-2.0
"""Modules of switches: torch's names for settings, checked when they are set, so that a name that
means nothing is no silent success."""

import contextlib
import importlib
import sys
import types


class _Patch(contextlib.ContextDecorator):
    """The result of patch(): a context manager, and a decorator of functions; may be entered again
    while it is open."""

    def __init__(self, module, changes):
        self._module, self._changes, self._before = module, changes, []

    def __enter__(self):
        self._before.append({name: getattr(self._module, name) for name in self._changes})
        for name, value in self._changes.items():
            setattr(self._module, name, value)
        return self

    def __exit__(self, *raised):
        for name, value in self._before.pop().items():
            setattr(self._module, name, value)
        return False


class Switches(types.ModuleType):
    """A module whose public attributes that are constants are switches.

    Setting a switch checks the type of its value (TypeError) and, where the module names choices,
    the value (ValueError).  Setting or reading any other public name raises AttributeError, which
    says what to use instead where gramme has something of the kind.
    """

    def __setattr__(self, name, value):
        here = self.__dict__
        if name in here["_ALIASES"]:
            module, name = here["_ALIASES"][name]
            return setattr(importlib.import_module(module), name, value)
        if name in here["_SWITCHES"]:
            kinds, choices = here["_SWITCHES"][name], here["_CHOICES"].get(name)
            if not isinstance(value, kinds) or isinstance(value, bool) and bool not in kinds:
                wanted = " or ".join(
                    "None" if kind is type(None) else kind.__name__ for kind in kinds
                )
                raise TypeError(
                    f"{self.__name__}.{name} takes {wanted}, not {type(value).__name__}"
                )
            if choices and value not in choices:
                raise ValueError(
                    f"{self.__name__}.{name} is {' or '.join(map(repr, choices))}, not {value!r}"
                )
        elif (
            not name.startswith("__")
            and name not in here
            and not isinstance(value, types.ModuleType)
        ):
            raise AttributeError(_unknown(self, name))
        super().__setattr__(name, value)

    def __getattr__(self, name):
        here = self.__dict__
        if name in here.get("_ALIASES", ()):
            module, name = here["_ALIASES"][name]
            return getattr(importlib.import_module(module), name)
        raise AttributeError(_unknown(self, name))

    def __dir__(self):
        return sorted({*self.__dict__, *self.__dict__["_ALIASES"]})


def _unknown(module, name):
    here = module.__dict__
    known = sorted({*here.get("_SWITCHES", ()), *here.get("_ALIASES", ())})
    instead = here.get("_INSTEAD", {}).get(name, f"there are: {', '.join(known)}")
    return f"there is no switch {name!r} in {module.__name__}; {instead}"


def make_switches(name, *, kinds=None, choices=None, aliases=None, instead=None):
    """Turns a module, at the end of its own code, into one of switches; gives it the function
    patch().

    kinds: {switch: types} for those that take more than the type of their first value.  choices:
    {switch: allowed values}.
    aliases: {name: (module, name there)}, one switch under two names.  instead: {name of torch's: a
    sentence that says what does it here}.
    """
    module = sys.modules[name]
    here = vars(module)
    switches = {
        key: (type(value),)
        for key, value in here.items()
        if not key.startswith("_") and isinstance(value, (bool, int, float, str, type(None)))
    }
    switches.update(kinds or {})
    here.update(
        _SWITCHES=switches, _CHOICES=choices or {}, _ALIASES=aliases or {}, _INSTEAD=instead or {}
    )

    def patch(changes=None, value=None, **more):
        """Gives switches other values in a `with` block, or while a decorated function runs.

        patch(recompile_limit=2), patch("recompile_limit", 2) and patch({"recompile_limit": 2}) mean
        the same.  AttributeError for a name that is no switch.  The values hold for the process,
        not for the thread.
        """
        changes = {changes: value} if isinstance(changes, str) else dict(changes or {})
        changes.update(more)
        for key in changes:
            if key not in switches and key not in module._ALIASES:
                raise AttributeError(_unknown(module, key))
        return _Patch(module, changes)

    here["patch"] = patch
    module.__class__ = Switches
