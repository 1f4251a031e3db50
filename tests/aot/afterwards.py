# SPDX-License-Identifier: Apache-2.0
"""What is done with the results of a call: ways to ask for gradients."""

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


def lines_of(grads):
    return ["gradient None" if g is None else f"gradient {'grad' if g.requires_grad else 'plain'} {bits(g)}" for g in grads]


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
    total = loss_of([g * g for g in first if g is not None])
    if total is not None:
        lines += lines_of(G.autograd.grad(total, leaves, allow_unused=True))
    return lines
