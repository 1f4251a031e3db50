# SPDX-License-Identifier: Apache-2.0
"""Memory that a compiled backward reads for the last time becomes that of the gradients it makes: nobody can tell but by the bytes."""

import pytest

import gramme as G
from stress import counted

N = 100_000
BACKENDS = ["eager", "tcc", "cc", "auto"]
backends = pytest.mark.parametrize("backend", BACKENDS)


def chain(x, w):
    return ((x * w).tanh() * w).exp().tanh()


def numbers(seed, n=N):
    G.manual_seed(seed)
    return G.rand(n) - 0.5


def compiled(f, backend):
    return G.compile(f, backend=backend, options={"wait": True} if backend == "cc" else {})


def fresh_bytes(f, backend=None):
    """What the backward takes at its height beyond what there was before it, in tensors of N floats."""
    call = compiled(f, backend) if backend else f
    for _ in range(3):
        x, w, g = numbers(1).requires_grad_(), numbers(2).requires_grad_(), numbers(3)
        y = call(x, w)
        before = G._core.live_bytes()
        G._core.reset_peak_bytes()
        y.backward(g)
        taken = (G._core.peak_bytes() - before) / 4 / N
    return taken


@pytest.mark.parametrize("backend, most", [("tcc", 0.5), ("cc", 0.5), ("auto", 0.5), ("eager", 3.5)])
def test_gradients_lie_where_saved_tensors_were(backend, most):
    """Two gradients, and none of them allocated: what else is taken is the back end's workspace."""
    assert counted(fresh_bytes(chain, backend)) < most < fresh_bytes(chain)


def gradients(f, retain=False, again=False):
    x, w, g = numbers(1).requires_grad_(), numbers(2).requires_grad_(), numbers(3)
    y = f(x, w)
    kept = y.tolist()
    y.backward(g, retain_graph=retain)
    if again:
        y.backward(g)
    assert y.tolist() == kept and g.tolist() == numbers(3).tolist()
    places = {t.data_ptr() for t in (x, w, y, g, x.grad, w.grad)}
    assert len(places) == 6 and x.grad._version == w.grad._version == (1 if again else 0)
    return x.grad.tolist(), w.grad.tolist()


@backends
@pytest.mark.parametrize("retain, again", [(False, False), (True, False), (True, True)])
def test_the_bits_are_the_same_and_what_others_hold_stays(backend, retain, again):
    call = compiled(chain, backend)
    want = gradients(chain, retain, again)
    for _ in range(3):
        assert gradients(call, retain, again) == want


@backends
def test_a_backward_that_is_not_kept_cannot_be_done_twice(backend):
    x, w = numbers(1).requires_grad_(), numbers(2).requires_grad_()
    y = compiled(chain, backend)(x, w)
    y.backward(numbers(3))
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward(numbers(3))


@backends
def test_a_hook_that_keeps_what_arrives_keeps_its_elements(backend):
    def run(f):
        x, w, seen = numbers(1).requires_grad_(), numbers(2).requires_grad_(), []
        y = f(x, w)
        y.register_hook(seen.append)
        y.retain_grad()
        (y * 2).sum().backward()
        return [t.tolist() for t in (*seen, y.grad, x.grad, w.grad)]

    assert run(compiled(chain, backend)) == run(chain)


def pair(x, w):
    y = (x * w).tanh()
    return y, (y * w).exp()


@backends
def test_a_result_that_is_saved_too_is_the_callers(backend):
    def run(f):
        x, w = numbers(1).requires_grad_(), numbers(2).requires_grad_()
        y, z = f(x, w)
        kept = y.detach(), z.detach()
        (y.sum() + z.sum()).backward()
        return [t.tolist() for t in (*kept, y, z, x.grad, w.grad)]

    assert run(compiled(pair, backend)) == run(pair)


@backends
def test_packed_tensors_and_gradients_of_gradients(backend):
    def run(f):
        x, w = numbers(1, 50).requires_grad_(), numbers(2, 50).requires_grad_()
        held = []
        with G.autograd.graph.saved_tensors_hooks(lambda t: held.append(t) or t, lambda t: t):
            y = f(x, w)
        y.sum().backward()
        first = [x.grad.tolist(), w.grad.tolist()]
        (g,) = G.autograd.grad(f(x, w).sum(), x, create_graph=True)
        (h,) = G.autograd.grad(g.sum(), w)
        return first + [g.tolist(), h.tolist()]

    assert run(compiled(chain, backend)) == run(chain)
