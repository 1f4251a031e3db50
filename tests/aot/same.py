# SPDX-License-Identifier: Apache-2.0
"""Everything that a caller can see of tensors: what a compiled function must leave as the plain one
does."""

import gramme as G


def flatten(value):
    """The tensors of a value, in order; a plain value stands for itself."""
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in flatten(item)]
    return [] if value is None else [value]


def bits(t):
    return repr(t.tolist())  # -0.0 and NaN differ from 0.0 and 1.0


def describe(tensors):
    """One line per tensor: elements, layout, place in autograd, and whose memory and object it
    is."""
    storages, objects, lines = {}, {}, []
    for t in tensors:
        start = t.data_ptr() - t.storage_offset() * t.element_size()
        storage = storages.setdefault(start, len(storages))
        number = objects.setdefault(id(t), len(objects))
        base = t._base
        lines.append(
            f"object {number} storage {storage}+{t.storage_offset()} {tuple(t.shape)} {t.stride()} "
            f"{t.dtype} "
            f"version {t._version} "
            f"{'grad ' if t.requires_grad else ''}{'leaf ' if t.is_leaf else ''}"
            f"{'view of ' + str(objects.get(id(base), 'another')) if base is not None else ''} "
            f"{bits(t)}"
        )
    return lines


def gradients(leaves):
    return ["gradient -" if t.grad is None else f"gradient {bits(t.grad)}" for t in leaves]


def outcome(f, inputs, leaves, after=None):
    """What a call does: to its inputs, with its results, and in `after` (results): gradients."""
    try:
        results = f(*inputs)
    except Exception as error:  # noqa: BLE001
        return [f"raises {type(error).__name__}: {error}"] + describe(inputs)
    lines = describe(list(inputs) + [t for t in flatten(results) if isinstance(t, G.Tensor)])
    if after is not None:
        try:
            lines += after(results) or []
        except RuntimeError as error:
            return lines + [f"backward raises {str(error)[:60]}"]
    return lines + gradients(leaves)


def check(make, f, backend="eager", after=None, fullgraph=True, compiled=None):
    """make () -> (inputs, leaves).  Raises AssertionError with both sides where compiled
    differs."""
    compiled = compiled or G.compile(f, backend=backend, fullgraph=fullgraph)
    inputs, leaves = make()
    want = outcome(f, inputs, leaves, after)
    inputs, leaves = make()
    have = outcome(compiled, inputs, leaves, after)
    assert have == want, "\n".join(["", "plain:"] + want + ["compiled:"] + have)
    return compiled
