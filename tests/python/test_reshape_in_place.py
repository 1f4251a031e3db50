# SPDX-License-Identifier: Apache-2.0
"""t_, transpose_, squeeze_, unsqueeze_, resize_ and set_: a tensor that becomes another in
place."""
import numpy as np
import pytest

import gramme as torch


def test_each_form_gives_the_tensor_itself_in_its_new_shape():
    x = torch.arange(6).reshape(2, 3)
    y = x
    assert x.t_() is y and y.shape == (3, 2) and y.stride() == (1, 3)
    assert x.unsqueeze_(0).shape == (1, 3, 2)
    assert x.transpose_(0, 1).shape == (3, 1, 2)
    assert x.squeeze_().shape == (3, 2)
    assert x.swapaxes_(0, 1).shape == (2, 3)
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]


def test_other_views_stay_and_see_the_elements():
    x = torch.zeros(2, 3)
    row = x[0]
    x.t_()
    x[0] = torch.tensor([1.0, 2.0])
    assert row.tolist() == [1, 0, 0] and row.shape == (3,)


VERSIONS = {  # what nothing changes counts as a write, too, but for resize_
    "squeeze_()": 1, "squeeze_(0)": 1, "squeeze_(-1)": 1, "squeeze_((0,))": 1, "t_()": 1,
    "transpose_(0, 0)": 1, "transpose_(0, -1)": 1, "swapaxes_(0, -1)": 1,
    "swapdims_(0, 0)": 1, "unsqueeze_(0)": 1, "as_strided_(x.shape, x.stride())": 1, "set_(x)": 1,
    "set_(x.detach())": 1, "resize_(x.shape)": 0,
    "resize_as_(x)": 0, "t_().t_()": 2, "squeeze_().squeeze_()": 2,
    "squeeze_().mul_(2).squeeze_()": 3,
}  # fmt: skip


@pytest.mark.parametrize("backend", [None, "eager", "tcc"])
@pytest.mark.parametrize("text", VERSIONS)
@pytest.mark.parametrize("shape", [(4, 6), (1, 4), (6,), (), (3, 1)])
def test_versions_advance_where_nothing_changes(text, shape, backend):
    for way in ("x", "x.detach()[:]", "x.unsqueeze(0)[0]", "(x * 1)"):
        if way == "x.detach()[:]" and not shape:
            continue
        scope = {"torch": torch}
        exec(
            (
                f"def f(x):\n    y = {way}\n    "
                f"y.{text.replace('(x', '(y').replace(' x.', ' y.')}\n    return y, x * 1"
            ),
            scope,
        )
        f = torch.compile(scope["f"], backend=backend, fullgraph=True) if backend else scope["f"]
        x = torch.zeros(shape)
        y, _ = f(x)
        assert y._version == VERSIONS[text] and x._version == (
            VERSIONS[text] if way != "(x * 1)" else 0
        )


@pytest.mark.parametrize("compile", [False, True])
def test_a_leaf_is_not_changed_in_place_where_nothing_changes(compile):
    def f(x):
        return x.squeeze_() * 2

    x = torch.zeros(2, 3, requires_grad=True)
    f = torch.compile(f, backend="eager") if compile else f
    with pytest.raises(RuntimeError, match="leaf"):
        f(x)
    with torch.no_grad():
        f(x)
    assert x._version == 1


def test_a_gradient_sees_that_its_operand_was_changed_by_nothing():
    w = torch.ones(2, 3, requires_grad=True)
    x = w * 2
    y = x * x
    x.squeeze_()
    with pytest.raises(RuntimeError, match="changed"):
        y.sum().backward()


def test_set_takes_the_memory_of_another():
    x, y = torch.zeros(3), torch.ones(2, 2)
    x.set_(y)
    y.mul_(5)
    assert x.tolist() == [[5, 5], [5, 5]]
    with pytest.raises(RuntimeError, match="dtype"):
        x.set_(torch.arange(3))


def test_views_have_the_history_that_set_brings():
    def write(row):
        row[1:].mul_(3)

    for f in (write, torch.compile(write, backend="eager")):
        w = torch.ones(3, requires_grad=True)
        x = w.detach()
        row = x.view(3)
        x.set_(w)
        assert row.requires_grad
        f(row)
        x.sum().backward()
        assert w.grad.tolist() == [1, 3, 3] and w.tolist() == [1, 3, 3]


@pytest.mark.parametrize(
    "change", [lambda x: x.unsqueeze_(0), lambda x: x.t_(), lambda x: x.transpose_(0, 1)]
)
def test_a_hook_on_what_was_changed_sees_what_arrives_at_its_views(change):
    """A view of it has its history from the new shape on, as behind a write."""
    w = torch.zeros(2, 3, requires_grad=True)
    x = w * 1
    row = x[1]
    change(x)
    x.register_hook(lambda g: g * 2)
    row.clamp_(-1, 1)
    (x * 0.5).sum().backward()
    assert w.grad.tolist() == [[1, 1, 1], [1, 1, 1]]


def left_behind(*before):
    """A view, its leaf, and what the view was taken of, which has other memory by now; before: what
    was done to that, and to the view."""
    w = torch.ones(4, requires_grad=True)
    x = w * 3
    view = x[1:]
    for do in before:
        do(x, view)
    x.set_(torch.zeros(2, requires_grad=True) * 1)
    return view, w, x


def write(x, view):
    x[2] = 5


def look(x, view):
    assert view.requires_grad


@pytest.mark.parametrize("before, want", [((), [0, 3, 3, 3]), ((look, write, look), [0, 3, 0, 3])])
def test_a_view_keeps_its_history_when_what_it_was_taken_of_takes_other_memory(before, want):
    view, w, x = left_behind(*before)
    row = view[1:]
    x.mul_(2)
    view.mul_(1)
    (view.sum() + (row * 0).sum()).backward()
    assert row.grad_fn.name() == "AsStridedBackward0" and w.grad.tolist() == want


def test_a_view_that_had_not_got_its_history_has_no_gradient():
    """What was written to x is not known any more where x was."""
    for before in ((write,), (look, write), (write, look, write)):
        view, w, x = left_behind(*before)
        assert view.requires_grad and view.tolist() == [3, 5, 3]
        with pytest.raises(RuntimeError, match=r"before set_ \(\), or take the view again"):
            view.sum().backward()
        assert w.grad is None


def test_what_is_written_to_a_view_that_became_a_detached_tensor_is_no_part_of_its_base():
    def write(view):
        view[0] = 5

    for f in (write, torch.compile(write, backend="eager")):
        w = torch.ones(3, requires_grad=True)
        x = w * 2
        view = x.view(1, 3)[0]
        view.set_(view.detach())
        f(view)
        assert not view.requires_grad and x.tolist() == [5, 2, 2]
        x.sum().backward()
        assert w.grad.tolist() == [2, 2, 2]


def test_gradients_go_through_the_new_shape():
    w = torch.arange(6).reshape(2, 3).float().requires_grad_()
    scale = torch.arange(6).reshape(3, 2).float()
    (w * 1).t_().mul(scale).sum().backward()
    assert np.array_equal(w.grad.numpy(), scale.numpy().T)


def test_what_torch_refuses_is_refused():
    w = torch.randn(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        w.t_()
    with pytest.raises(RuntimeError, match="requires grad"):
        w.resize_(6)
    with torch.no_grad():
        w.t_()
    assert w.shape == (3, 2) and w.is_leaf


def test_compiled_functions_give_the_same():
    def f(x):
        x.t_()
        return x + 1

    a, b = torch.arange(6).reshape(2, 3), torch.arange(6).reshape(2, 3)
    assert torch.equal(f(a), torch.compile(f)(b))
    assert a.shape == b.shape and a.stride() == b.stride()


def test_a_view_whose_memory_was_given_a_history_is_not_resized():
    """Nobody has looked at the view since: what it says of itself is older than the write."""
    x = torch.arange(12).float()
    v = x.view(3, 4)
    x.add_(torch.ones(12).requires_grad_())
    with pytest.raises(RuntimeError, match="requires grad"):
        v.resize_(12)


def test_a_view_taken_after_its_base_left_has_the_view_that_it_was_taken_of_as_its_base():
    def f(part, whole):
        whole.set_(part * 1)
        return part[0], part[1:]

    for g in (f, torch.compile(f, backend="eager")):
        whole = torch.zeros(4)
        part = whole[:3]
        assert [v._base is part for v in g(part, whole)] == [True, True]
