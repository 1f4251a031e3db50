# SPDX-License-Identifier: Apache-2.0
"""Functions that another one runs for the program: checkpointed ones, and both sides of an
autograd.Function."""

import gramme as G
from gramme.autograd import Function
from gramme.utils.checkpoint import checkpoint


class Config:
    def __init__(self):
        self.flag, self.seen = False, []


class Raised:
    """Sets a flag of its object inside a block, and sets it back."""

    def __init__(self, config):
        self.config = config

    def __enter__(self):
        self.old, self.config.flag = self.config.flag, True

    def __exit__(self, *exception):
        self.config.flag = self.old


def gradients(fn, *tensors):
    leaves = [t.clone().requires_grad_() for t in tensors]
    out = fn(*leaves)
    out.backward()
    return out.detach(), [t.grad for t in leaves]


def block(x, w):
    return (x @ w).tanh().exp()


# expect: graphs=1 breaks=0
def case_checkpoint_is_recorded(compile):
    def root(x, w):
        return (checkpoint(block, checkpoint(block, x, w), w) * 2).sum()

    return gradients(compile(root), G.randn(4, 4), G.randn(4, 4))


# expect: graphs=1 breaks=0
def case_checkpoint_with_keywords_and_random_numbers(compile):
    def body(x, *, scale):
        return x * G.rand(3) * scale, {"k": x}

    def root(x):
        y, d = checkpoint(body, x, scale=3)
        return (y * d["k"]).sum()

    return gradients(compile(root), G.randn(3))


# expect: graphs=1 breaks=0
def case_checkpoint_without_gradients_is_the_call(compile):
    log = []

    def body(x):
        log.append(x + 1)
        return x * 2

    def root(x):
        return checkpoint(body, x)

    with G.no_grad():
        return compile(root)(G.ones(2)), log


# SIDE-20
# expect: graphs=1 breaks=0
def case_side_20_a_flag_that_is_set_back_is_no_effect(compile):
    config = Config()

    def body(x):
        with Raised(config):
            return x * (2 if config.flag else 3)

    def root(x):
        return checkpoint(body, x).sum()

    return gradients(compile(root), G.randn(3)), config.flag


# SIDE-10
# expect: graphs=2 breaks=1
def case_side_10_an_effect_in_a_body_is_left_to_python(compile):
    config = Config()

    def body(x):
        config.seen.append(1)
        return x.exp()

    def root(x):
        y = x * 2
        return checkpoint(body, y).sum()

    return gradients(compile(root), G.randn(3)), config.seen


# expect: graphs=1 breaks=0
def case_a_compiled_function_in_an_eager_checkpoint_runs_again(compile):
    times = []

    def body(x):
        times.append(1)
        return inner(x)

    inner = compile(lambda x: (x.exp() * x).tanh())
    return gradients(lambda x: checkpoint(body, x).sum(), G.randn(3)), times


class Square(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * (2 * ctx.scale) + 1, None  # not the true gradient, so that it shows


class Two(Function):
    @staticmethod
    def forward(a, b):
        s = a + b
        return s, a * b, a > b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[0])
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, gs, gp, unused):
        a, b, s = ctx.saved_tensors
        return gs.exp() + gp * b * s, (gp * a if ctx.needs_input_grad[1] else None)


# SIDE-10
# expect: graphs=1 breaks=0
def case_side_10_a_context_may_be_written_to(compile):
    def root(x):
        return Square.apply(x * 2, 3.0).sum()

    return gradients(compile(root), G.randn(3, 4))


# expect: graphs=1 breaks=0
def case_function_whose_results_go_several_ways(compile):
    def root(x, y):
        z = Square.apply(x * 2, 3.0)
        s, p, m = Two.apply(z, y)
        return (p * z).sum() + (y.exp() * x).sum() + (s * m.to(G.float32)).sum()

    return gradients(compile(root), G.randn(3, 4), G.randn(3, 4))


# expect: graphs=1 breaks=0
def case_function_of_which_one_result_is_used(compile):
    def root(x, y):
        return Two.apply(x, y)[1].sum()

    return gradients(compile(root), G.randn(3, 4), G.randn(3, 4))


# expect: graphs=1 breaks=0
def case_function_with_one_argument_twice(compile):
    def root(x, y):
        z = x * y
        s, p, m = Two.apply(z, z)
        return (z + s * p).sum()

    return gradients(compile(root), G.randn(3), G.randn(3))


# expect: graphs=1 breaks=0
def case_function_where_one_argument_needs_no_gradient(compile):
    def root(x):
        return Two.apply(x, x.detach() + 1)[1].sum()

    return gradients(compile(root), G.randn(3))


# expect: graphs=2 breaks=0
def case_function_without_gradients(compile):
    def root(x):
        with G.no_grad():
            return Square.apply(x, 2.0)

    f = compile(root)
    return f(G.randn(3, requires_grad=True)), f(G.ones(3))


weight = G.ones(4) * 3


class ReadsGlobal(Function):
    @staticmethod
    def forward(ctx, x):
        return x.transpose(0, 1) * 2

    @staticmethod
    def backward(ctx, grad):
        return (grad * weight).transpose(0, 1)


# expect: graphs=1 breaks=0
def case_function_whose_backward_reads_a_global(compile):
    def root(x):
        return (ReadsGlobal.apply(x) * G.arange(12.0).view(3, 4)).sum()

    return gradients(compile(root), G.randn(4, 3))


# expect: graphs=1 breaks=0
def case_function_inside_of_a_checkpoint(compile):
    def body(x):
        return Square.apply(x, 2.0).exp()

    def root(x):
        return checkpoint(body, x).sum()

    return gradients(compile(root), G.randn(3))


class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


# expect: graphs=2 breaks=1
def case_function_that_changes_its_argument_is_left_to_python(compile):
    def root(x):
        y = x * 3
        return Dirty.apply(y).sum()

    return gradients(compile(root), G.randn(3))


class InPlaceBackward(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        g = grad.clone()
        g.mul_(3)
        return g


# expect: graphs=0 breaks=1
def case_function_whose_backward_writes_in_place_is_left_to_python(compile):
    def root(x):
        return InPlaceBackward.apply(x)

    x = G.randn(3, requires_grad=True)
    y = compile(root)(x)
    y.sum().backward()
    return y.detach(), x.grad


class Wrong(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return grad


# expect: graphs=0 breaks=1
def case_function_with_a_wrong_backward_raises_as_eager(compile):
    def root(x, y):
        return Wrong.apply(x, y)

    x = G.randn(3, requires_grad=True)
    y = compile(root)(x, x)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return str(error)


contexts = []


class Leaks(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.note = "n"
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


# expect: graphs=1 breaks=0
def case_function_applied_in_a_loop(compile):
    def root(x):
        for k in range(4):
            x = Leaks.apply(x) * k + Leaks.apply(x)
        return x.sum()

    return gradients(compile(root), G.randn(3))


def helper(ctx, x, y):
    z = x * y
    ctx.save_for_backward(x, z)
    ctx.note = 7
    return z + 1


# SIDE-15
# expect: graphs=1 breaks=0
def case_side_15_save_for_backward_on_a_given_context_is_replayed(compile):
    inner = compile(helper)
    found = []

    class F(Function):
        @staticmethod
        def forward(ctx, x, y):
            return inner(ctx, x, y)

        @staticmethod
        def backward(ctx, grad):
            found.append((ctx.note, len(ctx.saved_tensors)))
            x, z = ctx.saved_tensors
            return grad * z, grad * x

    return gradients(lambda x, y: F.apply(x, y).sum(), G.randn(3), G.randn(3)), found


# expect: graphs=1 breaks=0
def case_autocast_in_a_checkpoint_is_put_back(compile):
    def body(x):
        with G.autocast("cpu"):
            return x @ x

    def root(x):
        return checkpoint(body, x).to(G.float32).sum()

    return gradients(compile(root), G.randn(3, 3))


# expect: graphs=1 breaks=0
def case_a_body_may_look_at_the_dict_of_an_object(compile):
    config = Config()

    def body(x):
        return x * vars(config)["scale"]

    def root(x):
        config.scale = 2.0
        return checkpoint(body, x).sum()

    return gradients(compile(root), G.randn(3)), config.scale
