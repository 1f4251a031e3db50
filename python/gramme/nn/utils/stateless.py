# SPDX-License-Identifier: Apache-2.0
"""A module called with other tensors in the place of its parameters and buffers."""


def functional_call(
    module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """module(*args, **kwargs) with parameter_and_buffer_dicts (name -> tensor, or several such
    dicts) in the place of its own.

    Gradients flow to those tensors.  tie_weights: a parameter that is in several places is replaced
    in all.  strict: RuntimeError unless all are given.  Errors: RuntimeError for a name that the
    module does not have.
    """
    given = {}
    for part in (
        parameter_and_buffer_dicts
        if isinstance(parameter_and_buffer_dicts, (tuple, list))
        else (parameter_and_buffer_dicts,)
    ):
        given.update(part)
    places = _places(module)
    unknown = [name for name in given if name not in places]
    missing = [name for name in places if name not in given] if strict else []
    if unknown or missing:
        raise RuntimeError(
            f"{type(module).__name__} has no {unknown}"
            if unknown
            else f"no tensors were given for {missing}"
        )
    if tie_weights:
        new = {}
        for name, tensor in given.items():
            new.setdefault(places[name][2], tensor)
        given = {
            name: given.get(name, new.get(place[2]))
            for name, place in places.items()
            if name in given or place[2] in new
        }
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    try:
        for name, tensor in given.items():
            owner, member, _ = places[name]
            owner._replace(member, tensor)
        return module(*args, **(kwargs or {}))
    finally:
        for name in given:
            owner, member, tensor = places[name]
            owner._replace(member, tensor)


def _places(module):
    """Dotted name -> (module, name, tensor) of all parameters and buffers."""
    places = {}
    for path, owner in module._walk():
        for name, value in [*owner._parameters.items(), *owner._buffers.items()]:
            if value is not None:
                places[path + name] = (owner, name, value)
    return places
