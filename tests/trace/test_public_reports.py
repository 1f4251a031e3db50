# SPDX-License-Identifier: Apache-2.0
"""Public reports of silent wrongness in compilers of the same kind, by number: each program is
right here, or fails loudly as plain Python does.

A row is a program of our own that does what the report is about.  It gets C, which compiles a
function or leaves it plain, and returns what it saw; what it sees compiled is what it sees plainly,
and that is what `right` says.  pt: pytorch/pytorch, td: pytorch/torchdynamo,
ft: pytorch/functorch, jax: jax-ml/jax.
"""

import contextlib
import functools
import random
import warnings
import weakref

import pytest

import gramme as G
import gramme.nn.functional as F

nn = G.nn
ROWS = []
BACKENDS = ["eager", "tcc"]


def report(numbers, right):
    """A row; right: what the program returns."""

    def add(program):
        ROWS.append(
            pytest.param(program, right, id=f"{numbers.replace(' ', '-')}-{program.__name__}")
        )
        return program

    return add


class Raised(Exception):
    pass


def kind(call, *args):
    """The name of what call (*args) raises, or its value."""
    try:
        return call(*args)
    except Exception as error:
        return type(error).__name__


def numbers(t):
    return t.detach().tolist()


# -- Side effects


class Registry(nn.Module):
    items = []

    def forward(self, x):
        Registry.items.append(x.shape[0])
        return x


@report("pt169253", [2, 2])
def a_list_of_the_class_is_appended_to(C):
    Registry.items.clear()
    model = C(Registry())
    model(G.ones(2)), model(G.ones(2))
    return Registry.items[:]


@report("pt197896", (2, [4, 4], {"n": 2}))
def a_method_of_a_local_class_changes_what_its_closure_holds(C):
    seen, state = [], {"n": 0}

    def f(x):
        class Helper:
            def touch(self, n):
                seen.append(n)
                state["n"] += 1

        Helper().touch(x.shape[0])
        return x + 1

    g = C(f)
    g(G.ones(4)), g(G.ones(4))
    return len(seen), seen, state


@report("pt196173", ([2.0], [3.0], [2.0], 3))
def a_branch_asks_for_the_identity_of_a_mutable_object(C):
    class Box:
        calls = 0

    keep = Box()

    def f(x, box):
        Box.calls += 1
        return x * 2 if box is keep else x * 3

    g = C(f)
    return (*(numbers(g(G.ones(1), box)) for box in (keep, Box(), keep)), Box.calls)


@report("pt175855", 6.0)
def a_generator_walks_a_list_that_grows(C):
    def f(x):
        values = [x.sum()]

        def grow():
            for item in values:
                if len(values) < 3:
                    values.append(item + 1)
                yield item

        return G.stack(list(grow())).sum()

    return C(f)(G.ones(1)).item()


@report("pt133063", [[0.0], [0.0], [1.0], [2.0], [3.0]])
def a_list_is_extended_by_a_generator_that_reads_it(C):
    def f(x):
        y = [x, x]
        y.extend(y[-1] + 1 for _ in range(3))
        return y

    return [numbers(t) for t in C(f)(G.zeros(1))]


@report("pt103563", [3.0])
def an_inner_list_is_read_after_it_was_written_to(C):
    def f(x):
        data = [[1, 2, 3], [4, 5, 6]]
        for i in range(3):
            data[0][i] = x if i == 0 else data[0][i - 1] + 1
        return data[0][-1]

    return numbers(C(f)(G.ones(1)))


@report("pt138112", (3, 3))
def two_functions_share_a_nonlocal_variable(C):
    z, k = 1, 2

    def make():
        def inner(x):
            nonlocal k
            k = z

        return inner

    def outer(x):
        nonlocal z
        z = 3
        make()(x)
        return x.cos()

    C(outer)(G.ones(1))
    return z, k


@report("pt99639", [4.0])
def closures_nest_deeply(C):
    def f(x):
        def one(y):
            def two(z):
                def three(w):
                    return w + x + y + z

                return three(x)

            return two(y)

        return one(x)

    return numbers(C(f)(G.ones(1)))


@report("pt98533", ([1.0, 0.0], [1.0, 0.0], [2.0, 0.0]))
def an_empty_branch_does_not_undo_another_ones_graph(C):
    table = {3: 0}

    def f(x, y):
        at = table.get(x.shape[0])
        if at is not None:
            y[at] += 1
        return y

    g, y = C(f), G.zeros(2)
    return tuple(numbers(g(G.ones(n), y)) for n in (3, 2, 3))


# -- What changes between calls


@report("pt115774", ([2, 0], [0, 1]))
def a_buffer_is_replaced_between_calls(C):
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = G.tensor([0, 0])

        def forward(self, x, at):
            self.cache[at] = x
            return self.cache

    model = Cache()
    g = C(model)
    first = g(G.tensor([2]), G.tensor([0])).tolist()
    model.cache = G.tensor([0, 0])
    return first, g(G.tensor([1]), G.tensor([1])).tolist()


@report("pt124357", [7.0, 9.0, 11.0])
def an_attribute_of_a_module_changes(C):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.value, self.cache = -1, G.ones(1)

        def forward(self):
            return self.cache + self.value

    model = Model()
    g, seen = C(model), []
    for value in (6, 8, 10):
        model.value = value
        seen.append(g().item())
    return seen


@report("pt176851", [4.0, 40.0, 4.0])
def an_attribute_of_a_class_changes(C):
    class State:
        factor = 1.0

    g, seen = C(lambda x: x * State.factor), []
    for factor in (1.0, 10.0, 1.0):
        State.factor = factor
        seen.append(g(G.tensor([4.0])).item())
    return seen


@report("pt124717", ([5.0], [4.0], [5.0]))
def a_context_manager_switches_a_module_off(C):
    class Adapter(nn.Module):
        def __init__(self):
            super().__init__()
            self.disabled = False

        def forward(self, x):
            out = x * x
            return out if self.disabled else out + 1

    @contextlib.contextmanager
    def disable(model):
        model.disabled = True
        try:
            yield
        finally:
            model.disabled = False

    model = Adapter()
    g, x = C(model), G.full((1,), 2.0)
    before = numbers(g(x))
    with disable(model):
        inside = numbers(g(x))
    return before, inside, numbers(g(x))


def helper(x):
    return x + 20


@report("pt108898", (21.0, 2.0))
def a_global_function_is_replaced(C):
    global helper
    old = helper
    g = C(lambda x: helper(x))
    first = g(G.ones(1)).item()
    helper = lambda x: x * 2
    try:
        return first, g(G.ones(1)).item()
    finally:
        helper = old


@report("pt93782", [6.0, 6.0, 2.0])
def a_captured_function_is_replaced(C):
    chosen = lambda items: sum(items)
    g, seen = C(lambda items: chosen(items)), []
    for i in range(3):
        if i == 2:
            chosen = lambda items: items[0]
        seen.append(g([G.full((1,), 2.0)] * 3).item())
    return seen


@report("pt197860", ([2.0], [9.0]))
def a_method_gets_other_code(C):
    def first(self, x):
        return x * 2

    def second(self, x):
        return x * 9

    class Model:
        m = first

    model = Model()
    g = C(lambda x: model.m(x))
    before = numbers(g(G.ones(1)))
    Model.m.__code__ = second.__code__
    return before, numbers(g(G.ones(1)))


@report("pt197859", ([0.0, 1.0], [5.0, 5.0]))
def an_entry_of_the_instance_hides_a_submodule(C):
    class Wrapper(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.sub = nn.Linear(2, 2, bias=False)
            self.sub.weight.data.copy_(weight)

        def forward(self, x):
            return self.sub(x)

    model, other = Wrapper(G.eye(2)), nn.Linear(2, 2, bias=False)
    other.weight.data.fill_(5.0)
    g, x = C(model), G.arange(2.0)
    before = numbers(g(x))
    object.__setattr__(model, "sub", other)
    return before, numbers(g(x))


@report("pt105863 pt100061", ([2.0], [0.0], [2.0]))
def a_flag_of_the_module_decides_the_branch(C):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.flag = True

        def forward(self, x):
            if self.flag:
                return x + 1
            return x - 1

    model = Model()
    g, seen = C(model), []
    for flag in (True, False, True):
        model.flag = flag
        seen.append(numbers(g(G.ones(1))))
    return tuple(seen)


@report("pt117265", ([1.0, 1.0], [3.0, 3.0]))
def a_forward_is_replaced_after_the_first_call(C):
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data.copy_(G.eye(2))
    g = C(lambda x: layer(x))
    before = numbers(g(G.ones(2)))
    layer.forward = lambda x: x * 3
    return before, numbers(g(G.ones(2)))


@report("pt100977", (False, True, [1.0]))
def a_function_called_without_gradients_is_differentiated_later(C):
    layer = nn.Linear(1, 1, bias=False)
    g = C(lambda x: layer(x))
    with G.no_grad():
        first = g(G.ones(1))
    second = g(G.ones(1))
    second.backward()
    return first.requires_grad, second.requires_grad, numbers(layer.weight.grad[0])


# -- Iterators and generators


@report("pt196211", ([3], [2, 1], []))
def iter_of_a_consumed_reversed_iterator_is_that_iterator(C):
    def f(x):
        it = reversed([1, 2, 3])
        first = [next(it)]
        return x, first, list(iter(it)), list(it)

    return C(f)(G.ones(1))[1:]


@report("pt152262", ("stopped", "stopped"))
def exhausted_iterators_stop(C):
    def f(x):
        said = []
        for it in (iter([1, 2]), reversed([1, 2])):
            list(it)
            try:
                next(it)
                said.append("went on")
            except StopIteration:
                said.append("stopped")
        return x, tuple(said)

    return C(f)(G.ones(1))[1]


@report("pt198190", ("generator", [1.0], [2.0], "done"))
def a_generator_that_is_returned_stays_one(C):
    def f(x):
        def make():
            yield x * 1
            yield x * 2
            return "done"

        return make()

    it = C(f)(G.ones(1))
    name, one, two = type(it).__name__, numbers(next(it)), numbers(next(it))
    try:
        next(it)
    except StopIteration as stop:
        return name, one, two, stop.value


@report("pt146359 pt146347", ([1, 3], [(2, 4)], []))
def zip_and_enumerate_from_outside_are_consumed_once(C):
    def f(x, z):
        first = next(z)
        return x, list(first), list(z)

    z = zip([1, 2], [3, 4])
    _, first, rest = C(f)(G.ones(1), z)
    return first, rest, list(z)


@report("pt134030", (["in", "body", "out"], [4.0]))
def a_generator_context_manager_runs_around_its_body(C):
    log = []

    @contextlib.contextmanager
    def around():
        log.append("in")
        try:
            yield 3
        finally:
            log.append("out")

    def f(x):
        with around() as n:
            log.append("body")
            y = x + n
        return y

    return (lambda y: (log, numbers(y)))(C(f)(G.ones(1)))


# -- Control flow and errors


@report("pt120409", ("AssertionError", [1.0] * 5))
def an_assertion_about_a_size_holds_or_raises(C):
    def f(x):
        assert x.shape[0] > 4
        return x + 1

    g = C(f)
    return kind(g, G.zeros(2)), numbers(g(G.zeros(5)))


@report("pt147282", ("AssertionError", [2.0]))
def an_assertion_about_a_tensor_holds_or_raises(C):
    def f(x):
        assert G.all(x > 0), "should throw"
        return x + 1

    g = C(f)
    return kind(g, G.tensor([1.0, -2.0])), numbers(g(G.ones(1)))


@report("td318", ([1], [2]))
def a_division_by_zero_is_caught_by_the_program(C):
    def f(x):
        try:
            return 1 // x
        except RuntimeError:
            return x + 2

    g = C(f)
    return numbers(g(G.tensor([1]))), numbers(g(G.tensor([0])))


@report("pt103706", ([2.0], ["done"]))
def finally_runs_after_a_return(C):
    log = []

    def f(x):
        try:
            return x * 2
        finally:
            log.append("done")

    return numbers(C(f)(G.ones(1))), log


@report("pt175608", (["inner", "outer"], [1.0]))
def an_exception_passes_through_two_handlers(C):
    log = []

    def f(x):
        try:
            try:
                raise Raised("a")
            except Raised:
                log.append("inner")
                raise
        except Raised:
            log.append("outer")
        return x

    return (lambda y: (log, numbers(y)))(C(f)(G.ones(1)))


@report("pt113800", ("RuntimeError", "KeyError"))
def the_cause_of_an_exception_is_kept(C):
    def f(x):
        try:
            {}["missing"]
        except KeyError as error:
            raise RuntimeError("failed") from error

    try:
        C(f)(G.ones(1))
    except RuntimeError as error:
        return type(error).__name__, type(error.__cause__).__name__


@report("pt198192 pt185079", [1])
def what_stands_before_a_failing_line_has_happened(C):
    log = []

    def f(x, i):
        log.append(1)
        y = x[i]
        log.append(2)
        return y

    kind(C(f), G.ones(3), G.tensor([9]))
    return log


@report("pt111952", "IndexError")
def a_subscript_that_nobody_reads_still_raises(C):
    def f(x, i):
        x[i]
        return x + 1

    return kind(C(f), G.ones(3), G.tensor([9]))


@report("pt150993", "RuntimeError")
def a_product_of_two_dtypes_raises(C):
    return kind(C(lambda a, b: a @ b), G.ones(2, 2), G.ones(2, 2, dtype=G.float64))


@report("pt173231 pt184340", ["f"])
def a_failing_operation_names_the_users_function(C):
    import traceback

    def f(x, i):
        y = x[i]
        return y * 2

    try:
        C(f)(G.ones(2), G.tensor([9]))
    except IndexError as error:
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)][1:]


@report("td186 pt118447", True)
def the_frame_has_the_locals(C):
    import sys

    def f(x):
        y = x * 2
        s = sys._getframe().f_locals["y"]
        return s is y

    return C(f)(G.ones(1))


@report("pt153701", [4, "c"])
def a_temporary_object_dies_at_its_line(C):
    log = []

    class Dies:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            log.append(self.n)

    def f(x):
        y = x + Dies(4).n
        log.append("c")
        return y

    C(f)(G.ones(1))
    return log


@report("pt147597", ["dead", "c"])
def a_weak_references_callback_is_called(C):
    log = []

    class Thing:
        pass

    def f(x):
        thing = Thing()
        ref = weakref.ref(thing, lambda r: log.append("dead"))
        things = [thing]
        del thing
        things.clear()
        log.append("c")
        return x + 1

    C(f)(G.ones(1))
    return log


# -- In-place writes, views, aliases


@report("pt125999", ([1.0, 3.0], [1.0, 3.0]))
def copy_into_a_slice_of_the_argument_is_seen(C):
    def f(a, b):
        a.copy_(G.max(a, b))

    a = G.tensor([[1.0, 1.0], [2.0, 2.0]])
    C(f)(a[..., 1], G.tensor([3.0, 1.0]))
    return numbers(a[0]), [a[0, 0].item(), a[0, 1].item()]


@report("pt198095", ([6.0 + 100 + i for i in range(6)], 18))
def a_view_of_an_aliased_argument_is_taken_of_that_argument(C):
    def f(whole, part):
        whole.add_(100)
        return part[0], part.view(-1)

    whole = G.arange(24.0).reshape(4, 6)
    first, flat = C(f)(whole, whole[1:])
    return numbers(first), flat.numel()


@report("pt139789", ([3.0] * 4, [3.0, 3.0, 4.0, 4.0]))
def arguments_that_share_memory_later_are_another_case(C):
    def f(x, y):
        x.mul_(2)
        return x + y

    g = C(f)
    first = numbers(g(G.ones(4), G.ones(4)))
    whole = G.ones(8)
    x, y = whole[2:6], whole[:4]
    return first, numbers(g(x, y))


@report("pt93363", [2.0, 1.0, 2.0, 1.0])
def a_write_through_a_strided_view_reaches_its_base(C):
    base = G.ones(4, requires_grad=True) + 0.0
    C(lambda a: a.add_(1.0))(base[0::2])
    return numbers(base)


@report("pt128035", [6.0, 6.0])
def a_write_to_an_argument_with_a_history_keeps_its_gradient(C):
    x = G.ones(2, requires_grad=True)
    y = x * 2
    C(lambda t: t.mul_(3))(y)
    y.sum().backward()
    return numbers(x.grad)


@report("pt197829", [1.0, 1.0, 2.0, 3.0])
def a_shifted_copy_of_a_clone(C):
    def f(x):
        x[1:] = x[:-1].clone()
        return x

    return numbers(C(f)(G.tensor([1.0, 2.0, 3.0, 4.0])))


@report("pt198094", ([0.0, 7.0, 8.0, 3.0], [0.0] * 4, [0.0, 1.0]))
def a_scatters_result_outlives_a_write_to_its_input(C):
    def f(x, src):
        y = G.slice_scatter(x, src, dim=0, start=1, end=3)
        d = G.diagonal_scatter(x.reshape(2, 2), x.reshape(2, 2).diagonal())
        x.zero_()
        return y, x, d[0]

    return tuple(numbers(t) for t in C(f)(G.arange(4.0), G.tensor([7.0, 8.0])))


@report("pt198270", [8.0, 10.0, 10.0, 8.0])
def an_indexed_write_before_a_read_of_other_places(C):
    def f(x):
        x.index_put_((G.arange(x.size(0)),), x * 2.0)
        x.add_(x.flip(0))
        return x

    return numbers(C(f)(G.tensor([1.0, 2.0, 3.0, 3.0])))


@report("pt138908", [1.0, 0.0])
def an_indexed_write_of_what_it_reads(C):
    def f(x):
        x[G.tensor([0, 1])] = x[G.tensor([1, 0])]
        return x

    return numbers(C(f)(G.tensor([0.0, 1.0])))


@report("pt175903", [0.0, 0.0, 1.0, 0.0, 0.0])
def an_indexed_write_to_one_place_several_times(C):
    def f(x, p):
        at = G.as_strided(p, (5,), (0,))
        y = x[at] + 1.0
        x.index_put_((at,), y)
        return x

    return numbers(C(f)(G.zeros(5), G.tensor([2, 0, 1, 3, 4])))


@report("pt94693", ([0.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0]))
def a_copy_at_the_end_does_not_disturb_what_is_read(C):
    def f(x):
        y = G.cat([x[:1], x[:-1]])
        z = x + 0
        x.copy_(y)
        return x, z

    return tuple(numbers(t) for t in C(f)(G.arange(4.0)))


@report("pt168278", [6, 2, 3])
def a_detached_clone_keeps_its_shape(C):
    def f(x):
        y = x.clone().detach().requires_grad_(True)
        return G.sqrt(G.abs(y))

    return list(C(f)(G.ones(6, 2, 3)).shape)


@report("pt96064", [[1.0, 3.0], [3.0, 3.0]])
def an_unrolled_loop_of_writes(C):
    def f(x):
        out = G.zeros(2, 2)
        for i in range(2):
            for j in range(2):
                out[i, j] = x[i] if i == j else x.sum()
        out[1, 1] = x.sum()
        return out

    return numbers(C(f)(G.tensor([1.0, 2.0])))


# -- Gradients and their modes


@report("pt114338", (True, False, True))
def outputs_require_grad_as_the_mode_at_their_line_says(C):
    def f(x):
        with G.enable_grad():
            one = x + 1
        two = x + 1
        return one, two

    x = G.ones(2, requires_grad=True)
    with G.no_grad():
        one, two = C(f)(x)
    return one.requires_grad, two.requires_grad, one is not two


@report("pt176854", (False, False))
def detach_in_place_takes_the_history_away(C):
    def f(x):
        y = x * 2.0
        y.detach_()
        return y + 1.0, y.requires_grad

    z, requires_grad = C(f)(G.ones(4, requires_grad=True))
    return z.requires_grad, requires_grad


@report("pt158561", [2.0, 2.0])
def copy_into_an_argument_without_gradients(C):
    def f(x, y):
        with G.no_grad():
            x.copy_(y * 2)
        return x

    return numbers(C(f)(G.zeros(2), G.ones(2, requires_grad=True)))


class Slots(G.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * b

    @staticmethod
    def backward(ctx, grad):
        return grad * 10, grad * 1


@report("pt181146", [11.0])
def one_tensor_in_two_places_of_a_function(C):
    x = G.ones(1, requires_grad=True)
    C(lambda t: Slots.apply(t, t))(x).backward()
    return numbers(x.grad)


class TimesThree(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


@report("pt184113 pt133491", (12.0, [[6.0, 6.0], [6.0, 6.0]]))
def a_function_that_writes_in_place_and_whose_result_is_dropped(C):
    def f(w):
        y = G.ones(2, 2) @ w
        TimesThree.apply(y)
        return y.sum()

    w = G.eye(2).requires_grad_()
    y = C(f)(w)
    y.backward()
    return y.item(), numbers(w.grad)


class ZeroBackward(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * 0


@report("pt193279", [0.0, 0.0])
def func_grad_asks_a_functions_own_backward(C):
    return numbers(C(lambda x: G.func.grad(lambda t: ZeroBackward.apply(t).sum())(x))(G.ones(2)))


class KeepsOnContext(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.x * 2


@report("pt106387", [6.0])
def a_tensor_kept_as_an_attribute_of_the_context(C):
    x = G.full((1,), 3.0, requires_grad=True)
    C(lambda t: KeepsOnContext.apply(t))(x).backward()
    return numbers(x.grad)


class SeesNone(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, one, two):
        return two * (100 if one is None else 1)


@report("pt106391 pt118396", [100.0])
def gradients_that_did_not_arrive_stay_none(C):
    x = G.ones(1, requires_grad=True)
    C(lambda t: SeesNone.apply(t)[1])(x).backward()
    return numbers(x.grad)


class MarksOne(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        mask = x * 0 + 1
        ctx.mark_non_differentiable(mask)
        return x * 2, mask

    @staticmethod
    def backward(ctx, one, mask):
        return one * 2


@report("pt134087 pt129963", (True, False, [2.0]))
def results_marked_non_differentiable_require_no_grad(C):
    x = G.ones(1, requires_grad=True)
    y, mask = C(lambda t: MarksOne.apply(t))(x)
    y.backward()
    return y.requires_grad, mask.requires_grad, numbers(x.grad)


class ReturnsInput(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@report("pt194534", [4.0])
def a_function_that_returns_its_argument_has_its_own_gradient(C):
    x = G.ones(1, requires_grad=True)
    (C(lambda t: ReturnsInput.apply(t * 2) * 1)(x)).sum().backward()
    return numbers(x.grad)


@report("pt116221", ([4.0], [2.0]))
def saved_tensor_hooks_around_the_call(C):
    a, b = G.ones(1, requires_grad=True), G.full((1,), 2.0, requires_grad=True)
    with G.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2):
        y = C(lambda a, b: a * b)(a, b)
    y.backward()
    return numbers(a.grad), numbers(b.grad)


@report("pt91468", ([1.0], [3.0], [3.0]))
def hooks_and_kept_gradients_inside(C):
    def f(x):
        y = x.clone()
        y.retain_grad()
        z = y * 1
        z.register_hook(lambda g: g * 3)
        return z, y

    x = G.ones(1, requires_grad=True)
    z, y = C(f)(x)
    z.clone().backward()
    return numbers(z), numbers(y.grad), numbers(x.grad)


def one_layer():
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data.copy_(G.eye(2))
    return layer


@report("pt117758 pt91665", (["forward"], ["pre", "forward"]))
def forward_hooks_registered_after_the_first_call(C):
    log, layer = [], one_layer()
    g = C(lambda x: layer(x))
    g(G.ones(2))
    layer.register_forward_hook(lambda m, i, o: log.append("forward"))
    g(G.ones(2))
    first = log[:]
    log.clear()
    layer.register_forward_pre_hook(lambda m, i: log.append("pre"))
    g(G.ones(2))
    return first, log


@report("pt115750", ([1.0, 1.0], [2.0, 2.0]))
def backward_hooks_registered_after_the_first_call(C):
    layer = one_layer()
    g = C(lambda x: layer(x))

    def gradient():
        x = G.ones(2, requires_grad=True)
        g(x).sum().backward()
        return numbers(x.grad)

    before = gradient()
    layer.register_full_backward_hook(lambda m, gi, go: tuple(t * 2 for t in gi))
    return before, gradient()


@report("pt117265", ([1.0, 1.0], [2.0, 2.0]))
def backward_pre_hooks_registered_after_the_first_call(C):
    layer = one_layer()
    g = C(lambda x: layer(x))

    def gradient():
        x = G.ones(2, requires_grad=True)
        g(x).sum().backward()
        return numbers(x.grad)

    before = gradient()
    layer.register_full_backward_pre_hook(lambda m, go: tuple(t * 2 for t in go))
    return before, gradient()


@report("pt123979", (["hook"], [1.0, 1.0]))
def a_disabled_module_keeps_its_hooks(C):
    log, layer = [], one_layer()
    layer.register_forward_pre_hook(lambda m, i: log.append("hook"))
    disabled = G.compiler.disable(layer)
    return (lambda y: (log, numbers(y)))(C(lambda x: disabled(x))(G.ones(2)))


# -- Random numbers


@report("pt118735 pt143431", True)
def a_seed_gives_the_same_numbers_compiled(C):
    def f():
        return G.rand(3) + G.randn(3)

    G.manual_seed(5)
    plain = f()
    G.manual_seed(5)
    return G.equal(plain, C(f)())


@report("pt197101", True)
def random_seed_inside_of_the_function_counts_from_the_first_call(C):
    def f(x):
        random.seed(0)
        return x + random.random(), random.randint(0, 99)

    g = C(f)
    first, second = g(G.zeros(1)), g(G.zeros(1))
    random.seed(0)
    want = (random.random(), random.randint(0, 99))
    return [(round(a.item(), 5), b) for a, b in (first, second)] == [
        (round(want[0], 5), want[1])
    ] * 2


@report("pt197085", True)
def shuffle_and_sample_draw_anew(C):
    def f(x):
        items = list(range(20))
        random.shuffle(items)
        return x, items, random.sample(range(100), 5)

    g = C(f)
    random.seed(3)
    seen = [g(G.ones(1))[1:] for _ in range(3)]
    random.seed(3)
    return seen == [f(G.ones(1))[1:] for _ in range(3)] and seen[0] != seen[1]


@report("pt192635", True)
def masks_of_dropout_are_drawn_in_the_programs_order(C):
    def f(a, b):
        one = F.dropout(a, 0.5, True)
        two = F.dropout(b, 0.5, True)
        return two.sum() + one.sum(), one, two

    a, b = G.ones(300), G.ones(3)
    G.manual_seed(2)
    want = f(a, b)
    G.manual_seed(2)
    return all(G.equal(x, y) for x, y in zip(want, C(f)(a, b)))


@report("pt188074", True)
def bernoulli_draws_as_plainly(C):
    x = G.full((50,), 0.5)
    G.manual_seed(9)
    want = G.bernoulli(x)
    G.manual_seed(9)
    return G.equal(want, C(lambda t: G.bernoulli(t))(x))


@report("pt158643", True)
def dropout_before_an_in_place_relu(C):
    def f(x):
        return F.relu(F.dropout(x, 0.5, True), inplace=True)

    x = G.linspace(-1, 1, 40)
    G.manual_seed(4)
    want = f(x.clone())
    G.manual_seed(4)
    return G.equal(want, C(f)(x.clone()))


# -- Values


@report("pt113151", True)
def asinh_of_large_negative_numbers(C):
    x = G.tensor([487875.875, -956238.8125, -153601.859375])
    y = C(lambda t: t.asinh())(x)
    return bool(y.isfinite().all()) and [round(v, 3) for v in y.tolist()] == [
        13.791,
        -14.464,
        -12.635,
    ]


@report("pt151744", ([0.5], "float32"))
def clamp_of_integers_to_fractions(C):
    y = C(lambda t: t.clamp(-0.5, 0.5))(G.tensor([1]))
    return numbers(y), str(y.dtype).rpartition(".")[2]


@report("pt198071 pt195675 pt107702", "RuntimeError")
def a_bound_outside_of_the_dtype_is_refused(C):
    return kind(C(lambda t: t.clamp(-1000, 1000)), G.tensor([5], dtype=G.int8))


@report("pt93784", "nan")
def a_bound_that_is_nan_gives_nan(C):
    return str(C(lambda t: t.clamp(min=float("nan")))(G.ones(1)).item())


@report("pt178013", "RuntimeError")
def integers_divided_by_zero(C):
    return kind(C(lambda a, b: G.floor_divide(a, b)), G.tensor([5]), G.tensor([0]))


@report("pt143717", "RuntimeError")
def a_true_division_into_integers_is_refused(C):
    return kind(C(lambda a, b: a.div_(b)), G.tensor([5]), G.tensor([2]))


@report("pt100970", [1, 3, 2, 2])
def batch_norm_keeps_the_shape_of_its_input(C):
    def f(x, mean, var, weight, bias):
        return F.batch_norm(x, mean, var, weight, bias)

    return list(C(f)(G.ones(1, 3, 2, 2), G.zeros(3), G.ones(3), G.ones(3), G.zeros(3)).shape)


@report("pt181696", True)
def norms_in_evaluation_follow_each_other(C):
    model = nn.Sequential(nn.BatchNorm1d(4), nn.ELU(), nn.GroupNorm(4, 4)).eval()
    x = G.arange(24.0).reshape(2, 4, 3)
    return G.equal(model(x), C(lambda t: model(t))(x))


@report("pt194504", ([1.0, 1.0], [1.5, 1.5], 2))
def batch_norm_with_a_cumulative_average(C):
    model, seen = nn.BatchNorm1d(2, momentum=None), []
    g = C(model)
    for n in (1.0, 2.0):
        g(G.full((3, 2), n))
        seen.append([round(v, 6) for v in model.running_mean.tolist()])
    return (*seen, int(model.num_batches_tracked))


@report("pt121184", ([2.0], False))
def a_module_is_set_to_evaluation_inside(C):
    bn = nn.BatchNorm1d(1, eps=0.0)

    def f(x):
        bn.eval()
        bn.running_mean.zero_()
        bn.running_var.fill_(1)
        return bn(x)

    return numbers(C(f)(G.full((1, 1), 2.0))[0]), bn.training


@report("pt20967 pt37823", [0.0, 0.0])
def statistics_that_are_not_tracked_stay(C):
    bn = nn.BatchNorm1d(2)
    bn.track_running_stats = False
    C(bn)(G.arange(6.0).reshape(3, 2))
    return numbers(bn.running_mean)


@report("pt175154", [1.0, 2.0])
def a_scale_that_changes_no_size_changes_nothing(C):
    y = C(lambda t: F.interpolate(t, scale_factor=1.3, mode="nearest"))(G.tensor([[[[1.0, 2.0]]]]))
    return numbers(y.reshape(-1))


@report("pt193757", ("RuntimeError", "RuntimeError"))
def counts_and_classes_are_checked(C):
    return (
        kind(C(lambda x, r: x.repeat_interleave(r)), G.arange(3.0), G.tensor([2, -1, 2])),
        kind(C(lambda i: F.one_hot(i, 3)), G.tensor([9, 1])),
    )


@report("pt154703", True)
def a_long_sum_keeps_its_digits(C):
    t = G.full((3000000,), 0.3)
    return abs(C(lambda t: t.sum())(t).item() / (3000000 * 0.30000001192092896) - 1) < 1e-6


@report("jax38097 jax38098", [float("inf"), float("inf")])
def the_slope_of_erfinv_at_its_ends(C):
    x = G.tensor([1.0, -1.0], requires_grad=True)
    C(lambda t: t.erfinv().sum())(x).backward()
    return numbers(x.grad)


@report("pt187721", False)
def the_sign_of_zero_survives_a_loss(C):
    y = C(lambda a, b: F.kl_div(a, b, reduction="mean", log_target=True))(G.zeros(2), G.zeros(2))
    return bool(G.signbit(y))


# -- Sizes


@report("pt145587", ([4.0], [8.0]))
def a_size_marked_dynamic_stays_a_variable(C):
    a = G.ones(4, 1)
    G._dynamo.mark_dynamic(a, 0)
    g = C(lambda t: t.shape[0] * t)
    return numbers(g(a)[0]), numbers(g(G.ones(8, 1))[0])


@report("pt135432", ([1.0, 2.0], [3.0, 4.0]))
def a_tensor_made_of_ints_that_change(C):
    g = C(lambda items: G.Tensor(items))
    return numbers(g([1, 2])), numbers(g([3, 4]))


@report("pt101014", [3, 4, 3])
def padding_by_the_parity_of_a_size(C):
    kernel = G.ones(1, 1, 4)

    def f(x):
        padding = (kernel.shape[-1] + x.shape[-1] % 2 + 1) // 2 - 1
        return F.conv1d(x, kernel, padding=padding, stride=2)

    g = C(f)
    return [g(G.ones(1, 1, n)).shape[-1] for n in (6, 7, 6)]


@report("pt188084", [[1.0, 0.0, -1.0, 0.0]] * 2)
def vmap_of_a_gradient_with_a_selection(C):
    at, w = G.tensor([0, 2]), G.tensor([1.0, -1.0])

    def f(x):
        stacked = G.stack([x[k] for k in range(4)])
        return (G.index_select(stacked, 0, at) * w).sum()

    return numbers(C(lambda X: G.func.vmap(G.func.grad(f))(X))(G.ones(2, 4)))


# -- Functions of functions, subclasses


@report("pt136662 pt196221", [0.5, 0.25])
def vjp_gives_a_tuple(C):
    x = G.tensor([1.0, 2.0])

    def f(x):
        out, back = G.func.vjp(lambda t: t * G.tensor([0.5, 0.25]), x)
        return back(G.ones(2))[0]

    return numbers(C(f)(x))


@report("ft105", "RuntimeError")
def vmap_refuses_a_write_to_what_is_not_mapped(C):
    def f(m, z):
        return G.func.vmap(lambda a, b: b.add_(a), in_dims=(0, None))(m, z)

    return kind(C(f), G.arange(6.0).reshape(2, 3), G.zeros(3))


@report("ft611 ft18", "RuntimeError")
def vmap_refuses_random_numbers_unless_told(C):
    return kind(C(lambda x: G.func.vmap(lambda t: t + G.rand(2))(x)), G.zeros(3, 2))


@report("pt176679 pt176686", ("Marked", True))
def a_subclass_with_a_torch_function_is_asked(C):
    asked = []

    class Marked(G.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(1)
            return super().__torch_function__(func, types, args, kwargs or {})

    y = C(lambda x: x + 1)(G.Tensor._make_subclass(Marked, G.ones(2)))
    return type(y).__name__, bool(asked)


@report("pt98928", "TypeError")
def a_parameter_is_not_replaced_by_a_plain_tensor(C):
    m = nn.Linear(2, 2)

    def f():
        m.weight = m.weight * 0.5

    return kind(C(f))


@report("pt111603", 2.0)
def a_member_of_an_enumeration_is_a_key(C):
    import enum

    class Mode(enum.Enum):
        A = "a"

    return C(lambda d: d[Mode.A] + 1)({Mode.A: G.ones(1)}).item()


@report("pt175750", (3, "through the property"))
def the_dict_of_an_instance_does_not_ask_its_property(C):
    class Holder:
        @property
        def value(self):
            return "through the property"

    holder = Holder()
    holder.__dict__["value"] = 3
    return C(lambda x: (x, holder.__dict__["value"], holder.value))(G.ones(1))[1:]


@report("pt193629", "TypeError")
def an_attribute_that_cannot_be_written_is_refused(C):
    def f(x):
        try:
            raise ValueError(1)
        except ValueError as error:
            error.__class__ = TypeError
        return x

    return kind(C(f), G.ones(1))


@report("pt192874", (False, False, False))
def iterators_and_sets_are_of_their_own_types(C):
    def f(x):
        return (
            x,
            isinstance(frozenset(), set),
            type(iter(())) is type(iter([])),
            isinstance({}.keys(), set),
        )

    return C(f)(G.ones(1))[1:]


@report("pt149851", (["foo"], 4))
def a_class_attribute_set_inside_is_in_its_dict(C):
    class Plain:
        pass

    def f(x):
        Plain.foo = 4
        return x, [key for key in Plain.__dict__ if not key.startswith("__")], Plain.foo

    return C(f)(G.ones(1))[1:]


@report("pt172000", {"a": 1, "b": 2})
def a_property_setter_of_a_mapping(C):
    import collections.abc

    class Names(collections.abc.MutableMapping):
        def __init__(self):
            self.d = {}

        names = property(
            lambda self: list(self.d),
            lambda self, names: self.d.update({n: i + 1 for i, n in enumerate(names)}),
        )
        __getitem__ = lambda self, k: self.d[k]
        __len__ = lambda self: len(self.d)
        __iter__ = lambda self: iter(self.d)

        def __setitem__(self, k, v):
            self.d[k] = v

        def __delitem__(self, k):
            del self.d[k]

    def f(x):
        n = Names()
        n.names = ["a", "b"]
        return x, dict(n)

    return C(f)(G.ones(1))[1]


@report("pt196167", ([3, 1, 2], [3, 1, 2, 5]))
def a_set_that_keeps_its_order_keeps_it(C):
    def f(x):
        ordered = dict.fromkeys([3, 1, 2])
        keys = list(ordered)
        ordered[5] = None
        return x, keys, list(ordered)

    return C(f)(G.ones(1))[1:]


@report("pt142358", ([2.0], [1, 1]))
def a_disabled_hook_leaves_the_module_compiled(C):
    log = []
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(2.0)

    @G.compiler.disable
    def hook(module, args):
        log.append(1)

    layer.register_forward_pre_hook(hook)
    g = C(lambda x: layer(x))
    g(G.ones(1))
    return (lambda y: (numbers(y), log))(g(G.ones(1)))


@report("pt186469", ["first", "second"])
def an_exception_keeps_the_line_order_of_its_effects(C):
    log = []

    def f(x):
        log.append("first")
        try:
            raise Raised
        finally:
            log.append("second")

    kind(C(f), G.ones(1))
    return log


# -- The test


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program, right", ROWS)
def test_a_reported_program_sees_what_plain_python_sees(program, right, backend):
    if backend not in G.compiler.list_backends():
        pytest.skip(f"no back end {backend}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert program(lambda f: f) == right
        assert program(functools.partial(G.compile, backend=backend)) == right


def test_there_are_a_hundred_reports():
    assert (
        len(
            {
                number
                for row in ROWS
                for number in row.id.split("-")[:-1]
                if any(c.isdigit() for c in number)
            }
        )
        >= 100
    )
