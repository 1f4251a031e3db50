# SPDX-License-Identifier: Apache-2.0
"""Memory that a compiled backward reads for the last time becomes that of the gradients it makes:
nobody can tell but by the bytes."""

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
    """What the backward takes at its height beyond what there was before it, in tensors of N
    floats."""
    call = compiled(f, backend) if backend else f
    for _ in range(3):
        x, w, g = numbers(1).requires_grad_(), numbers(2).requires_grad_(), numbers(3)
        y = call(x, w)
        before = G._core.live_bytes()
        G._core.reset_peak_bytes()
        y.backward(g)
        taken = (G._core.peak_bytes() - before) / 4 / N
    return taken


@pytest.mark.parametrize(
    "backend, most", [("tcc", 0.5), ("cc", 0.5), ("auto", 0.5), ("eager", 3.5)]
)
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


# -- Writes to inputs ------------------------------------------------------------------------------


def step(p, g, m):
    m.mul_(0.9).add_(g)
    p.sub_(m * 0.01)


def shifted(p, g, m):
    p[1:].copy_(p[:-1])
    m.add_(p)


def turned(p, g, m):
    m.copy_((p * g).view(100, -1).t().reshape(-1) + m)
    p.add_(m)


def read_afterwards(p, g, m):
    old = p.clone()
    p.mul_(g)
    m.copy_(old + p)
    return old


def forward_bytes(f, backend):
    call = compiled(f, backend)
    for _ in range(3):
        p, g, m = numbers(1), numbers(2), numbers(3)
        call(p, g, m)
        before = G._core.live_bytes()
        G._core.reset_peak_bytes()
        call(p, g, m)
        taken = (G._core.peak_bytes() - before) / 4 / N
    return taken


@pytest.mark.parametrize("backend", ["tcc", "cc", "auto"])
def test_what_is_written_to_an_input_lies_there_at_once(backend):
    assert forward_bytes(step, backend) < 0.5 < forward_bytes(shifted, backend)


@backends
@pytest.mark.parametrize("f", [step, shifted, turned, read_afterwards])
@pytest.mark.parametrize("part", ["whole", "tail", "leaf", "history"])
def test_writes_in_place_have_the_bits_and_the_versions_of_plain_ones(backend, f, part):
    def run(f):
        p, g, m = numbers(1), numbers(2), numbers(3)
        if part == "tail":  # memory that others see, from its middle on
            wide = numbers(4, N + 16)
            p = wide[16:]
        if part == "leaf":
            p.requires_grad_()
        if part == "history":
            leaf = p.requires_grad_()
            p = leaf * 2
        place = p.data_ptr()
        with G.no_grad() if part == "leaf" else G.enable_grad():
            old = f(p, g, m)
            f(p, g, m)
        assert p.data_ptr() == place
        lines = [t.tolist() for t in (p, g, m)] + [
            p._version,
            m._version,
            old if old is None else old.tolist(),
        ]
        if part == "history":
            p.sum().backward()
            lines.append(leaf.grad.tolist())
        return lines

    assert run(compiled(f, backend)) == run(f)


def saved_and_written(x, w):
    y = (x * w).tanh()
    w.mul_(2)
    return y


@backends
def test_a_write_to_what_the_backward_reads(backend):
    """The old elements are saved: either they lie elsewhere, or the backward says that they
    changed, as in plain Python."""

    def run(f):
        x, w = numbers(1).requires_grad_(), numbers(2)
        y = f(x, w)
        try:
            y.sum().backward()
        except RuntimeError:
            return "refused"
        return x.grad.tolist()

    assert run(saved_and_written) == "refused"
    want = run(lambda x, w: (x * w).tanh())
    assert run(compiled(saved_and_written, backend)) in ("refused", want)


def fails_after_a_write(x, at):
    x.mul_(2)
    return x.index_select(0, at)


@backends
def test_a_call_that_fails_leaves_no_torn_input(backend):
    call = compiled(fails_after_a_write, backend)
    x = numbers(1)
    call(x.clone(), G.tensor([0]))
    want = x.tolist(), (x * 2).tolist()
    with pytest.raises(RuntimeError, match="out of bounds"):
        call(x, G.tensor([N]))
    assert x.tolist() in want


def transposes(x, y):
    x.copy_(x.t() * 2 + y)


def sums_itself_up(x, y):
    x.add_(x.sum(0) * y)


@backends
@pytest.mark.parametrize("f", [transposes, sums_itself_up])
def test_what_is_read_elsewhere_than_it_is_written_is_not_written_at_once(backend, f):
    def run(f):
        x, y = numbers(1, 400 * 400).view(400, 400), numbers(2, 400 * 400).view(400, 400)
        f(x, y)
        return x.tolist()

    assert run(compiled(f, backend)) == run(f)
