# SPDX-License-Identifier: Apache-2.0
"""Hooks that functions register on tensors: their order, what they do to gradients, their
handles."""

import collections

import gramme as G
from gramme import nn


KEPT = []


def leaf(*values):
    return G.tensor(list(values), requires_grad=True)


def tenfold(g):
    return g * 10


def plus_one(g):
    return g + 1


def gradient(result, *leaves):
    """What a backward gives, and nothing of it stays."""
    result.sum().backward()
    grads = [t.grad for t in leaves]
    for t in leaves:
        t.grad = None
    return grads


# HOOK-20: registered on the real tensor, after the graph, once a call
# expect: graphs=1 breaks=0
def case_hook_20_on_an_argument(compile):
    log = []

    def f(x, y):
        x.register_hook(tenfold)
        return x * y

    def seen(g):
        log.append(g.tolist())

    f = compile(f)
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    x.register_hook(seen)
    first = gradient(f(x, y), x, y)
    second = gradient(f(x, y), x, y)  # two hooks now
    plain = gradient(x * y, x, y)
    return first, second, plain, log


# expect: graphs=1 breaks=0
def case_hook_20_order_is_that_of_registration(compile):
    def f(x):
        x.register_hook(tenfold)
        x.register_hook(plus_one)
        x.register_hook(lambda g: g * 3)
        return x * 2

    x = leaf(1.0, 2.0)
    return gradient(compile(f)(x), x)


# expect: graphs=1 breaks=0
def case_hook_20_on_a_result_of_another_function(compile):
    def f(y):
        y.register_hook(tenfold)
        return y.sin()

    x = leaf(1.0, 2.0)
    y = x * 5
    return gradient(compile(f)(y), x)


# expect: graphs=1 breaks=0
def case_hook_20_on_parameters(compile):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(G.tensor([2.0, 3.0]))

        def forward(self, x):
            self.w.register_hook(tenfold)
            self.w.register_hook(plus_one)
            return self.w * x

    model = Model()
    run = compile(lambda x: model(x))
    first = gradient(run(G.ones(2)), model.w)
    return first, gradient(run(G.ones(2)), model.w)


# HOOK-22: lifted closures see the values of the end of the region
# expect: graphs=1 breaks=0
def case_hook_20_closures(compile):
    log = []

    def f(x, scale):
        seen = []
        factor = scale

        def hook(g):
            seen.append(1)
            log.append(len(seen))
            return g * factor + shift

        shift = x.detach() + 1
        x.register_hook(hook)
        factor += 1
        return x * 2, seen

    x = leaf(1.0, 2.0)
    y, seen = compile(f)(x, 3)
    grads = gradient(y, x)
    return grads, seen, log


# expect: graphs=1 breaks=0
def case_hook_20_bound_methods_and_objects(compile):
    class Scale:
        def __init__(self, k):
            self.k = k
            self.calls = 0

        def apply(self, g):
            self.calls += 1
            return g * self.k

        def __call__(self, g):
            return self.apply(g) + 1

    def f(x, scale):
        x.register_hook(scale.apply)
        x.register_hook(scale)
        return x * 2

    x, scale = leaf(1.0, 2.0), Scale(4)
    KEPT[:] = [scale]  # its entry dies with it
    return gradient(compile(f)(x, scale), x), scale.calls


# HOOK-24
# expect: graphs=1 breaks=0
def case_hook_24_a_removed_hook_is_not_replayed(compile):
    def f(x):
        handle = x.register_hook(tenfold)
        y = x * 2
        handle.remove()
        handle.remove()
        with x.register_hook(plus_one):
            y = y + 1
        return y

    x = leaf(1.0, 2.0)
    return gradient(compile(f)(x), x)


# HOOK-25: three handles, two live hooks
# expect: graphs=1 breaks=0
def case_hook_25_handles_stay_apart(compile):
    def f(x):
        first = x.register_hook(tenfold)
        second = x.register_hook(plus_one)
        first.remove()
        third = x.register_hook(lambda g: g * 7)
        return x * 2, first, second, third, first is second, second is third

    x = leaf(1.0, 2.0)
    y, first, second, third, *same = compile(f)(x)
    grads = [gradient(y, x)]
    for handle in (first, third, second):
        handle.remove()
        grads.append(gradient(x * 2, x))
    return grads, same, len({id(first), id(second), id(third)})


# HOOK-26: the handle is the real one, and its hook is registered once however often it is used
# expect: graphs=1 breaks=0
def case_hook_26_a_handle_that_lives_on(compile):
    class Box:
        pass

    def f(x, box, handles):
        box.handle = x.register_hook(tenfold)
        handles.append(box.handle)
        handles.append([box.handle, x.register_hook(plus_one)])
        return x * 2, box.handle

    x, box, handles = leaf(1.0, 2.0), Box(), []
    y, handle = compile(f)(x, box, handles)
    same = handle is box.handle is handles[0] is handles[1][0]
    grads = [gradient(y, x)]
    handle.remove()
    grads.append(gradient(x * 2, x))
    handles[1][1].remove()
    return same, grads, gradient(x * 2, x), type(handle).__name__


# A handle is built where it is first asked for, with those registered before it.
# expect: graphs=1 breaks=0
def case_hook_26_order_where_a_later_handle_is_needed_first(compile):
    def f(x, out):
        holder = []
        out.append(holder)
        x.register_hook(tenfold)
        holder.append(x.register_hook(plus_one))
        return x * 2

    x, out = leaf(1.0, 2.0), []
    grads = gradient(compile(f)(x, out), x)
    out[0][0].remove()
    return grads, gradient(x * 2, x)


# expect: graphs=1 breaks=0
def case_hook_24_handles_that_come_in(compile):
    def f(x, handles):
        for handle in handles.values():
            handle.remove()
        handles.clear()
        x.register_hook(plus_one)
        return x * 2

    x = leaf(1.0, 2.0)
    handles = collections.OrderedDict(a=x.register_hook(tenfold), b=x.register_hook(tenfold))
    grads = gradient(compile(f)(x, handles), x)
    return grads, len(handles)


# expect: graphs=1 breaks=0
def case_a_hook_that_takes_itself_off(compile):
    def f(x):
        def once(g):
            handle.remove()
            return g * 10

        handle = x.register_hook(once)
        return x * 2

    x = leaf(1.0, 2.0)
    first = gradient(compile(f)(x), x)
    return first, gradient(x * 2, x)


# HOOK-22: on what the function makes it is a node of the graph, and the gradients are eager's
# expect: graphs=1 breaks=0
def case_hook_22_on_an_intermediate(compile):
    log = []

    def hook(g):
        log.append(g.tolist())
        return g * 10

    def f(x):
        y = x.sin()
        y.register_hook(hook)
        z = y * 3
        return z

    x = leaf(1.0, 2.0)
    return gradient(compile(f)(x), x), log


# HOOK-23: the view is taken again after the call, its gradient is the function's
# expect: graphs=1 breaks=0
def case_hook_on_a_view_that_is_given_out(compile):
    def hook(g):
        return g * 10

    def f(x):
        y = x.sin()
        first = y[0]
        first.register_hook(hook)
        return first, y[:1]

    x = leaf(1.0, 2.0)
    first, rest = compile(f)(x)
    return gradient(first * 3 + rest.sum(), x)


# expect: graphs=2 breaks=1
def case_hook_22_on_an_intermediate_with_a_closure(compile):
    def f(x, k):
        log = []
        y = x.exp()
        handle = y.register_hook(lambda g: (log.append(k), g * k)[1])
        z = y * y + x
        return z, handle, log

    x = leaf(1.0, 2.0)
    f = compile(f)
    z, handle, log = f(x, 3)
    first = gradient(z, x), log[:]
    z, handle, log = f(x, 3)
    handle.remove()
    return first, gradient(z, x), log


# expect: graphs=1 breaks=0
def case_retain_grad_of_an_argument(compile):
    def f(y, x):
        y.retain_grad()
        x.retain_grad()
        return y.cos()

    x = leaf(1.0, 2.0)
    y = x * 2
    compile(f)(y, x).sum().backward()
    return y.grad, x.grad, y.retains_grad, x.retains_grad


# expect: graphs=2 breaks=1
def case_retain_grad_of_an_intermediate(compile):
    def f(x):
        y = x.sin()
        y.retain_grad()
        return y, y * 2

    x = leaf(1.0, 2.0)
    y, z = compile(f)(x)
    z.sum().backward()
    return y.grad, x.grad


# expect: graphs=1 breaks=0
def case_hooks_after_accumulation(compile):
    log = []

    def f(x, w):
        x.register_post_accumulate_grad_hook(step)
        handle = w.register_post_accumulate_grad_hook(step)
        handle.remove()
        x.register_hook(tenfold)
        return x * w

    def step(t):
        log.append(t.grad.tolist())
        with G.no_grad():
            t.sub_(t.grad)
        t.grad = None

    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    compile(f)(x, w).sum().backward()
    return log, x, x.grad, w.grad


# expect: graphs=3 breaks=0
def case_errors_are_those_of_eager(compile):
    def bad(x, how):
        try:
            if how == 0:
                x.detach().register_hook(tenfold)
            if how == 1:
                x.register_hook(3)
            if how == 2:
                x.detach().retain_grad()
        except (RuntimeError, TypeError) as error:
            return x * 2, str(error)

    x = leaf(1.0, 2.0)
    bad = compile(bad)
    return [bad(x, how) for how in range(3)]


# expect: graphs=0 breaks=1
def case_what_was_registered_before_an_exception_stays(compile):
    def f(x, log):
        x.register_hook(tenfold)
        log.append("before")
        raise KeyError("out")

    x, log = leaf(1.0, 2.0), []
    try:
        compile(f)(x, log)
    except KeyError as error:
        log.append(str(error))
    return gradient(x * 2, x), log


# expect: graphs=2 breaks=1
def case_around_a_break(compile):
    def f(x, y):
        first = x.register_hook(tenfold)
        z = x * y
        G._dynamo.graph_break()
        first.remove()
        second = y.register_hook(plus_one)
        x.register_hook(plus_one)
        return z * 2, first, second

    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    z, first, second = compile(f)(x, y)
    grads = gradient(z, x, y)
    second.remove()
    return grads, gradient(x * y, x, y)


# expect: graphs=1 breaks=0
def case_one_tensor_under_two_names(compile):
    def f(x, y):
        x.register_hook(tenfold)
        y.register_hook(plus_one)
        return x * y

    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    f = compile(f)
    apart = gradient(f(x, y), x, y)
    z = leaf(1.0, 2.0)
    return apart, gradient(f(z, z), z)


# expect: graphs=0 breaks=1
def case_hooks_in_a_checkpointed_function(compile):
    log = []

    def inner(x):
        x.register_hook(lambda g: log.append("hook"))
        return x.sin() * 2

    def f(x):
        return G.utils.checkpoint.checkpoint(inner, x)

    x = leaf(1.0, 2.0)
    return gradient(compile(f)(x), x), log
