# SPDX-License-Identifier: Apache-2.0
"""Facts about modules of nn, what was not read, and the state of the thread and the process."""

import pytest

import gramme as G
from gramme import nn
from facts import FACTS, X, Box, fact, module_of, tower, value_row, with_globals

# -- nn.Module


@fact(True)
def the_mode_of_a_module_changes():
    model = nn.Dropout(0.5)
    f = lambda x: model(x) if model.training else x + 1
    model.eval()
    return f, (X,), lambda: model.train()


@fact(True)
def a_parameter_is_replaced_by_another_shape():
    model = nn.Linear(3, 2)
    return (
        (lambda x: model(x)),
        (X,),
        lambda: setattr(model, "weight", nn.Parameter(G.ones(4, 3)))
        or setattr(model, "bias", None),
    )


@fact(False)
def a_parameters_values_change():
    model = nn.Linear(3, 2)

    def change():
        with G.no_grad():
            model.weight.mul_(2)

    return (lambda x: model(x)), (X,), change


@fact(None)
def a_parameter_is_replaced_by_an_equal_kind():
    model = nn.Linear(3, 2)
    return (lambda x: model(x)), (X,), lambda: setattr(model, "weight", nn.Parameter(G.ones(2, 3)))


@fact(True)
def a_parameter_is_frozen():
    model = nn.Linear(3, 2)
    return (lambda x: model(x)), (X,), lambda: model.weight.requires_grad_(False)


@fact(True)
def a_hook_is_registered():
    model = nn.Linear(3, 2)
    return (
        (lambda x: model(x)),
        (X,),
        lambda: model.register_forward_hook(lambda m, a, r: r + 1) and None,
    )


@fact(True)
def a_submodule_is_replaced():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    return (lambda x: model(x - 3)), (X,), lambda: model.__setitem__(1, nn.Tanh())


@fact(True)
def a_submodule_is_appended():
    model = nn.Sequential(nn.Linear(3, 3))
    return (lambda x: model(x)), (X,), lambda: model.append(nn.ReLU()) and None


@fact(True)
def a_forward_is_set_on_an_instance():
    model = nn.Linear(3, 2)
    return (lambda x: model(x)), (X,), lambda: setattr(model, "forward", lambda x: x + 1)


# -- More of modules


@fact(True)
def a_deep_parameter_is_frozen():
    model = tower()
    return (lambda x: model(x)), (X,), lambda: model[2].weight.requires_grad_(False)


@fact(True)
def a_deep_parameter_gets_data_of_another_shape():
    model = tower()

    def change():
        model[3].weight.data = G.ones(5, 3)
        model[3].bias.data = G.ones(5)

    return (lambda x: model(x)), (X,), change


@fact(True)
def a_deep_attribute_is_deleted_and_missed():
    model = tower()
    return (lambda x: model(x)), (X,), lambda: delattr(model[2], "bias")


@fact(True)
def a_deep_modules_class_is_assigned():
    model = tower()
    kind = type("Doubled", (nn.Linear,), {"forward": lambda self, x: x * 2})
    return (lambda x: model(x)), (X,), lambda: setattr(model[1], "__class__", kind)


@fact(True)
def a_deep_modules_dict_is_replaced():
    model = tower()
    old = vars(model[1])

    def change():
        model[1].__dict__ = {**old, "bias": None}

    return (lambda x: model(x)), (X,), change


@fact(True)
def a_forward_of_a_layers_class_is_replaced():
    kind = type("Layer", (nn.Linear,), {})
    model = nn.Sequential(kind(3, 3), kind(3, 3))
    return (lambda x: model(x)), (X,), lambda: setattr(kind, "forward", lambda self, x: x * 3)


@fact(True)
def a_deep_hook_is_registered():
    model = tower()
    return (
        (lambda x: model(x)),
        (X,),
        lambda: model[1].register_forward_hook(lambda m, a, r: r + 1) and None,
    )


@fact(True)
def a_hook_is_removed():
    model = tower()
    handle = model[1].register_forward_hook(lambda m, a, r: r + 1)
    return (lambda x: model(x)), (X,), handle.remove


@fact(True)
def a_hook_is_replaced_in_its_list():
    model = nn.Linear(3, 3)
    handle = model.register_forward_hook(lambda m, a, r: r + 1)
    return (lambda x: model(x)), (X,), lambda: setattr(handle, "hook", lambda m, a, r: r + 2)


@fact(None)  # the same graph serves both
def two_layers_become_one():
    model = tower(2)
    return (lambda x: model(x)), (X,), lambda: model.__setitem__(1, model[0])


@fact(True)
def a_buffer_is_replaced_by_another_dtype():
    model = nn.Module()
    model.register_buffer("scale", G.ones(3))
    return (
        (lambda x: x * model.scale),
        (X,),
        lambda: setattr(model, "scale", G.ones(3, dtype=G.float64)),
    )


# -- What was not read: a change is a hit (TK-1, TK-4)


class Plain:
    pass


value_row("an_untouched_argument_hits", 1, "another", use=lambda x, v: x + 1, again=False)
value_row(
    "an_argument_that_is_only_returned_hits",
    [1],
    {"a": 2},
    use=lambda x, v: (x + 1, v)[0],
    again=False,
)
value_row(
    "only_the_type_is_read_of_a_list",
    [1, 2],
    [3],
    use=lambda x, v: x + (1 if isinstance(v, list) else 2),
    again=False,
)
value_row(
    "only_the_type_is_read_of_an_object",
    Box(w=1),
    Box(w=2, v=3),
    use=lambda x, v: x + (1 if isinstance(v, Box) else 2),
    again=False,
)
value_row(
    "only_none_or_not_is_read",
    Plain(),
    Plain(),
    use=lambda x, v: x + (1 if v is None else 2),
    again=False,
)
value_row("an_unread_item_of_a_list_hits", [1, 2], [1, 3], use=lambda x, v: x + v[0], again=False)
value_row(
    "an_unread_nested_item_hits", [1, [2, 3]], [1, [9]], use=lambda x, v: x + v[0], again=False
)
value_row(
    "another_order_of_keys_hits",
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    use=lambda x, v: x + v["a"] + v["b"],
    again=False,
)
value_row("another_key_hits", {"a": 1}, {"a": 1, "c": 2}, use=lambda x, v: x + v["a"], again=False)
value_row(
    "an_unread_value_hits",
    {"a": 1, "b": [1]},
    {"a": 1, "b": None},
    use=lambda x, v: x + v["a"],
    again=False,
)
value_row(
    "membership_alone_hits_another_value",
    {"a": 1},
    {"a": 2},
    use=lambda x, v: x + (1 if "a" in v else 2),
    again=False,
)
value_row(
    "a_length_alone_hits_other_items", [1, 2], [3, 4], use=lambda x, v: x + len(v), again=False
)
value_row(
    "the_keys_alone_hit_other_values",
    {"a": 1},
    {"a": 2},
    use=lambda x, v: x + len([k for k in v]),
    again=False,
)
value_row(
    "an_unread_attribute_of_an_argument_hits",
    Box(w=1, v=2),
    Box(w=1, v=3, u=4),
    use=lambda x, v: x + v.w,
    again=False,
)
value_row(
    "an_equal_set_hits", {1, 2}, {2, 1}, use=lambda x, v: x + (1 if 2 in v else 2), again=None
)


def untouched(change):
    """A row in which f reads box.w, and the change is to something else."""
    box = Box(w=2, other=Box(v=1))
    f = with_globals(lambda x, b: x * b.w * SCALE, SCALE=3)

    def make():
        return f, (X, box), lambda: change(box, f) and None

    make.__name__ = change.__name__
    FACTS.append(pytest.param(make, False, id=change.__name__))


@untouched
def another_attribute_appears(box, f):
    box.new = 5


@untouched
def another_attribute_goes(box, f):
    del box.other


@untouched
def an_object_in_another_attribute_changes(box, f):
    box.other.v = 7


@untouched
def another_global_appears(box, f):
    f.__globals__["ANOTHER"] = 1


@untouched
def another_attribute_of_the_class_appears(box, f):
    type(box).an_attribute_that_nobody_reads = 1


@untouched
def the_functions_attributes_change(box, f):
    f.note = "read by nobody"


@untouched
def a_default_that_is_given_changes(box, f):
    f.__defaults__ = (None,)


@fact(False)
def an_unread_layer_changes():
    model = tower(3)
    return (
        (lambda x: model[0](x)),
        (X,),
        lambda: model[1].register_forward_hook(lambda m, a, r: r) and None,
    )


@fact(False)
def the_mode_of_a_model_that_reads_none_changes():
    model = tower(2)
    return (lambda x: model(x)), (X,), lambda: model.eval() and None


@fact(False)
def an_unread_attribute_of_a_layer_is_set():
    model = tower(3)
    return (lambda x: model(x)), (X,), lambda: setattr(model[1], "note", "x")


@fact(False)
def an_unread_cell_is_written():
    w, v = 2, 3

    def set_it():
        nonlocal v
        v = 4

    return (lambda x: x * w), (X,), set_it


@fact(False)
def an_unread_attribute_of_a_module_is_set():
    m = module_of(w=2)
    return (lambda x: x * m.w), (X,), lambda: setattr(m, "v", 3)


@fact(False)
def a_default_that_the_caller_gives_changes():
    def callee(x, w=1):
        return x * w

    return (lambda x: callee(x, 2)), (X,), lambda: setattr(callee, "__defaults__", (5,))


@fact(False)
def the_other_branchs_facts_change():
    box = Box(w=2, flag=True)
    return (
        (lambda x: x * box.w if box.flag else x * box.missing),
        (X,),
        lambda: setattr(box, "missing", 9),
    )


# -- The state of the thread and the process


@fact(True)
def the_grad_mode_changes():
    w = G.ones(3, requires_grad=True)
    return (lambda x: (x * w)), (X,), lambda: G.set_grad_enabled(False) and None


@fact(True)
def the_default_dtype_changes():
    return (lambda x: x + G.ones(3).to(G.float64)), (X,), lambda: G.set_default_dtype(G.float64)


@fact(None)
def the_seed_changes():
    return (lambda x: x + G.rand(3)), (X,), lambda: G.manual_seed(9)
