# SPDX-License-Identifier: Apache-2.0
"""Keeps what a backward will read as 8-bit floats: a quarter of the bytes, and gradients that are a
little off.

    ./build/in-tree python3 examples/saved_f8.py

The two hooks are marked as inlineable, so a compiled function makes them part of its graphs:
packing is the end of its forward, unpacking the beginning of its backward, and the back end sees
both.  Without compile they are called tensor by tensor.
"""

import gramme as torch
from gramme.autograd.graph import inlineable_saved_tensors_hook, saved_tensors_hooks


def pair(kept):
    """Hooks that keep floating tensors as `kept`, scaled so that the largest value is the largest
    that `kept` has."""
    largest = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}[kept]

    @inlineable_saved_tensors_hook
    def pack(tensor):
        if (
            tensor.dtype != torch.float32 or tensor.numel() < 1024
        ):  # decided by the tensor that is really saved
            return tensor
        scale = tensor.abs().amax() / largest + 1e-30
        return tensor.dtype, scale, (tensor / scale).to(kept)

    @inlineable_saved_tensors_hook
    def unpack(packed):
        if not isinstance(packed, tuple):
            return packed
        dtype, scale, tensor = packed
        return tensor.to(dtype) * scale

    return saved_tensors_hooks(pack, unpack)


def network(x, layers):
    for w in layers:
        x = torch.tanh(x @ w)
    return (x * x).mean()


def saved_bytes(function, x, layers, hooks=None):
    """Bytes that the forward leaves for the backward, and the gradients."""
    before = torch._core.live_bytes()
    if hooks is None:
        loss = function(x, layers)
    else:
        with hooks:
            loss = function(x, layers)
    held = torch._core.live_bytes() - before
    return held, torch.autograd.grad(loss, layers)


def measure(backend="eager", n=256, n_layers=6):
    """Rows of (name, bytes, largest difference of a gradient from that of float32, relative to the
    gradient's largest value)."""
    torch.manual_seed(0)
    x = torch.randn(n, n)
    layers = [(torch.randn(n, n) / n**0.5).requires_grad_() for _ in range(n_layers)]
    function = torch.compile(network, backend=backend)
    rows = []
    for name, hooks in (
        ("float32", None),
        ("float8_e4m3fn", pair(torch.float8_e4m3fn)),
        ("float8_e5m2", pair(torch.float8_e5m2)),
    ):
        saved_bytes(function, x, layers, hooks)  # compiles
        held, grads = saved_bytes(function, x, layers, hooks)
        if hooks is None:
            exact = grads
        off = max(((a - b).abs().amax() / b.abs().amax()).item() for a, b in zip(grads, exact))
        rows.append((name, held, off))
    return rows


if __name__ == "__main__":
    rows = measure()
    for name, held, off in rows:
        print(
            f"{name:15} {held / 1024:8.0f} KiB saved, {held / rows[0][1]:.2f} of float32; "
            f"gradients off by {off:.1%} at most"
        )
