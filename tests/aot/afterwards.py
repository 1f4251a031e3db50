# SPDX-License-Identifier: Apache-2.0
"""What is done with the results of a call: ways to ask for gradients."""

import random

import gramme as G
from same import bits, flatten


def loss_of(results):
    total = None
    for i, t in enumerate(flatten(results)):
        if t.requires_grad:
            part = (t * (0.5 + i)).sum()
            total = part if total is None else total + part
    return total


def backward(results, inputs, leaves):
    loss = loss_of(results)
    if loss is not None:
        loss.backward()


def retain(results, inputs, leaves):
    loss = loss_of(results)
    if loss is not None:
        loss.backward(retain_graph=True)
        loss.backward()


def outside(results, inputs, leaves):
    """The inputs and the leaves are used after the call too."""
    loss = loss_of(results)
    for t in inputs + leaves:
        if loss is not None and t.requires_grad:
            loss = loss + (t * 0.3).sum() * 1.7
    if loss is not None:
        loss.backward()


def kind(g):
    """Whether zeros that go to what was overwritten have a history depends on whether it was a
    view, which no graph says of inputs."""
    return "grad" if g is not None and g.requires_grad and g.any() else "plain"


def lines_of(grads):
    return ["gradient None" if g is None else f"gradient {kind(g)} {bits(g)}" for g in grads]


def grad(results, inputs, leaves):
    loss = loss_of(results)
    if loss is not None and leaves:
        return lines_of(G.autograd.grad(loss, leaves, allow_unused=True))


def double(results, inputs, leaves):
    loss = loss_of(results)
    if loss is None or not leaves:
        return None
    first = G.autograd.grad(loss, leaves, allow_unused=True, create_graph=True)
    lines = lines_of(first)
    total = loss_of([g * g for g in first if kind(g) == "grad"])
    if total is not None:
        lines += lines_of(G.autograd.grad(total, leaves, allow_unused=True))
    return lines


def hooked(results, inputs, leaves):
    """Hooks on results, and what they saw, in their order."""
    seen = []
    for i, t in enumerate(flatten(results)):
        if t.requires_grad:
            t.register_hook(lambda g, i=i: seen.append(f"gradient {bits(g)} at result {i}"))
            t.register_hook(lambda g: g * 1.25)
    for i, t in enumerate(leaves):
        t.register_hook(lambda g, i=i: seen.append(f"gradient {bits(g)} at leaf {i}"))
    backward(results, inputs, leaves)
    return seen


def recorded(results, inputs, leaves):
    loss = loss_of(results)
    if loss is not None:
        loss.backward(create_graph=True)
    return [f"gradient {kind(t.grad)}" for t in leaves]


def several(seed):
    """Hooks and wishes on what a program gave out, then one to four backwards from some of it, to
    all or some, or gradients of some of it."""

    def run(results, inputs, leaves):
        choose, only, lines = random.Random(f"{seed} several"), random.Random(f"{seed} only"), []
        tensors = {
            id(t): t
            for t in [*leaves, *inputs, *flatten(results)]
            if isinstance(t, G.Tensor) and t.requires_grad
        }
        tensors, asks = list(tensors.values()), choose.random() < 0.3
        for i, t in enumerate(tensors):
            what = choose.choice(["hook", "change", "keep", "after", None, None, None, None])
            if what in ("hook", "change"):
                t.register_hook(
                    lambda g, i=i, what=what: (
                        lines.append(f"{what} {i} {bits(g)}"),
                        g * 1.25 if what == "change" else None,
                    )[1]
                )
            elif what == "after" and t.is_leaf:
                t.register_post_accumulate_grad_hook(
                    lambda t, i=i: lines.append(f"after {i} {bits(t.grad)}")
                )
            elif what == "keep" and not t.is_leaf:
                t.retain_grad()
        made = [t for t in tensors if not t.is_leaf]
        for step in range(choose.randint(1, 4) if made else 0):
            roots = choose.sample(made, choose.randint(1, min(3, len(made))))
            how = {"retain_graph": choose.random() < 0.4, "create_graph": choose.random() < 0.15}
            tangents = [
                G.full_like(t, 0.3 * (k + 1) + 0.1 * step).detach() for k, t in enumerate(roots)
            ]
            if asks and choose.random() < 0.5:
                wanted = choose.sample(tensors, min(2, len(tensors)))
                lines += lines_of(
                    G.autograd.grad(roots, wanted, tangents, allow_unused=True, **how)
                )
            else:
                some = (
                    {"inputs": only.sample(tensors, min(2, len(tensors)))}
                    if only.random() < 0.25
                    else {}
                )
                G.autograd.backward(roots, tangents, **some, **how)
            lines += [
                f"step {step} {i} {bits(t.grad)}"
                for i, t in enumerate(tensors)
                if t.grad is not None
            ]
        return lines

    return run
