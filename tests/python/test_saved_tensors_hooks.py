# SPDX-License-Identifier: Apache-2.0
"""gramme.autograd.graph.saved_tensors_hooks, in eager and around compiled functions."""

import gc

import pytest

import gramme as G
from gramme.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks


def bits(t):
    return b"".join([t.detach().contiguous()])


class Log:
    """A pair of hooks that count, and unpack what was packed times `factor`."""

    def __init__(self, factor=1.0):
        self.events, self.factor = [], factor

    def pack(self, t):
        self.events.append(("pack", tuple(t.shape), t.requires_grad, G.is_grad_enabled()))
        return ["packed", t]

    def unpack(self, packed):
        self.events.append(("unpack", packed[0]))
        return packed[1] * self.factor

    def hooks(self):
        return saved_tensors_hooks(self.pack, self.unpack)


def leaves():
    return G.tensor([1.0, 2.0], requires_grad=True), G.tensor([3.0, 5.0], requires_grad=True)


def test_each_saved_tensor_is_packed_once_and_unpacked_when_read():
    a, b = leaves()
    log = Log(2.0)
    with log.hooks():
        y = a * b
        assert [e[0] for e in log.events] == ["pack", "pack"]
    assert all(e[2:] == (False, False) for e in log.events)
    (y + y).sum().backward()
    assert [e[0] for e in log.events] == ["pack", "pack", "unpack", "unpack"]
    assert a.grad.tolist() == [12.0, 20.0] and b.grad.tolist() == [4.0, 8.0]


def test_nothing_outside_of_the_context_is_packed():
    a, b = leaves()
    log = Log()
    with log.hooks():
        pass
    (a * b).sum().backward()
    assert log.events == []


def test_the_innermost_pair_counts():
    a, b = leaves()
    outer, inner = Log(), Log()
    with outer.hooks():
        with inner.hooks():
            y = a * b
        z = a.exp()
    (y + z).sum().backward()
    assert len(inner.events) == 4 and len(outer.events) == 2


def test_a_packed_tensor_may_be_changed_in_place_afterwards():
    a, b = leaves()
    x = a * 1
    with save_on_cpu():
        y = x * b
    x.add_(1)
    y.sum().backward()
    assert b.grad.tolist() == [1.0, 2.0]


def test_a_pack_hook_that_writes_to_its_tensor_is_refused():
    a, b = leaves()
    with saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        with pytest.raises(RuntimeError, match="in place"):
            a * b


def test_errors_of_hooks_come_out_as_raised():
    a, b = leaves()

    def bad(t):
        raise KeyError("mine")

    with saved_tensors_hooks(bad, lambda t: t), pytest.raises(KeyError, match="mine"):
        a * b
    with saved_tensors_hooks(lambda t: t, bad):
        y = a * b
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()
    with saved_tensors_hooks(lambda t: 3, lambda n: n):
        y = a * b
    with pytest.raises(TypeError, match="must return a Tensor, not int"):
        y.sum().backward()


def test_what_is_unpacked_keeps_the_history_for_a_second_derivative():
    a = G.tensor([1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = a * a * a
    (g,) = G.autograd.grad(y.sum(), a, create_graph=True)
    g.sum().backward()
    assert a.grad.tolist() == [6.0, 12.0]


def test_packed_things_are_freed_after_the_backward():
    a, b = leaves()
    gc.collect()
    before = G._core.live_bytes()
    with save_on_cpu():
        y = (a * b).sum()
    y.backward()
    a.grad = b.grad = None
    del y
    gc.collect()
    assert G._core.live_bytes() == before


def test_refused_hooks_raise_the_given_text():
    with disable_saved_tensors_hooks("not in here"):
        with pytest.raises(RuntimeError, match="not in here"):
            with Log().hooks():
                pass
    with Log().hooks():
        pass


def test_a_checkpoint_inside_keeps_its_own_counsel():
    a, b = leaves()
    log = Log()
    with log.hooks():
        y = G.utils.checkpoint.checkpoint(lambda x, y: (x * y).exp(), a, b)
    y.sum().backward()
    assert log.events == []


# HOOK-01
@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_hook_01_a_compiled_function_packs_what_its_forward_saved(backend):
    if backend not in G.compiler.list_backends():
        pytest.skip("no tcc back end here")
    a, b = leaves()
    log = Log(2.0)
    f = G.compile(lambda a, b: a * b, backend=backend)
    with log.hooks():
        y = f(a, b)
    assert [e[0] for e in log.events] == ["pack", "pack"]
    y.sum().backward()
    assert [e[0] for e in log.events] == ["pack", "pack", "unpack", "unpack"]
    assert a.grad.tolist() == [6.0, 10.0] and b.grad.tolist() == [2.0, 4.0]


def test_a_compiled_backward_gets_the_layout_that_it_was_compiled_for():
    a, b = G.randn(3, 4, requires_grad=True), G.randn(3, 4, requires_grad=True)
    want = G.autograd.grad((a * b).exp().sum(), [a, b])
    f = G.compile(lambda a, b: (a * b).exp(), backend="eager")
    with saved_tensors_hooks(lambda t: t.t().contiguous(), lambda t: t.t()):
        y = f(a, b)
    got = G.autograd.grad(y.sum(), [a, b])
    assert [bits(x) for x in got] == [bits(x) for x in want]


def test_a_compiled_backward_refuses_another_shape():
    a, b = leaves()
    f = G.compile(lambda a, b: a * b, backend="eager")
    with saved_tensors_hooks(lambda t: t, lambda t: t[:1]):
        y = f(a, b)
    with pytest.raises(RuntimeError, match="give back the shape"):
        y.sum().backward()
    with saved_tensors_hooks(lambda t: t.to(G.float64), lambda t: t):
        y = f(a, b)
    with pytest.raises(RuntimeError, match="dtype"):
        y.sum().backward()


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize(
    "taken",
    ["x[::2]", "x.view(4, 6)[1:3, 1:4].t()", "x[:1].expand(6)", "x.view(4, 6)[:, :1].expand(4, 3)"],
)
def test_what_stands_for_a_tensor_with_gaps_has_none(taken, backend):
    """The hooks' tensor can't be laid out like that one, which takes more memory than its elements,
    or less."""

    def gradient(f):
        leaf = G.linspace(-1, 1, 24).requires_grad_()
        x = eval(taken, {"x": leaf * 1.25})
        with saved_tensors_hooks(lambda t: t.clone(), lambda t: t + 1):
            y = f(x)
        y.sum().backward()
        return bits(leaf.grad)

    def f(x):
        return x * x.sin()

    assert gradient(G.compile(f, backend=backend, fullgraph=True, dynamic=False)) == gradient(f)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_what_second_gradients_read_alone_is_packed_too(backend):
    """The compiled backward reads quotient and divisor; plain gradients read the input, which was
    written to, and have what pack gave."""

    def gradients(f):
        leaf = G.linspace(-1, 1, 6).requires_grad_()
        x = leaf * 1.25
        with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = f(x)
        with G.no_grad():
            x.mul_(3)
        (first,) = G.autograd.grad(y.sum(), [leaf], create_graph=True)
        return bits(first), bits(G.autograd.grad(first.square().sum(), [leaf])[0])

    def f(x):
        return x / (x + 4)

    assert gradients(G.compile(f, backend=backend, fullgraph=True)) == gradients(f)
