# SPDX-License-Identifier: Apache-2.0
"""Facts about containers."""

import functools
from collections import OrderedDict, defaultdict, deque

from facts import X, Box, fact, fresh_class

# -- More of containers


@fact(True)
def keys_change_their_order_in_place():
    table = {"a": 1, "b": 2}
    return (
        (lambda x: functools.reduce(lambda a, k: a * 3 + table[k], table, x)),
        (X,),
        lambda: table.update(a=table.pop("a")),
    )


@fact(True)
def a_value_of_items_changes():
    table = {"a": 1, "b": 2}
    return (
        (lambda x: functools.reduce(lambda a, kv: a * 3 + kv[1], table.items(), x)),
        (X,),
        lambda: table.update(b=7),
    )


@fact(True)
def an_ordered_dicts_order_changes():
    table = OrderedDict(a=1, b=2)
    return (
        (lambda x: functools.reduce(lambda a, k: a * 3 + table[k], table, x)),
        (X,),
        lambda: table.move_to_end("a"),
    )


@fact(None)
def a_default_factory_is_replaced():
    table = defaultdict(lambda: 1)

    def f(x):
        return x + dict(table).get("k", table.default_factory())

    return f, (X,), lambda: setattr(table, "default_factory", lambda: 2)


@fact(True)
def a_deques_item_changes():
    items = deque([1, 2])
    return (lambda x: x + items[0]), (X,), lambda: items.__setitem__(0, 5)


@fact(True)
def a_deque_turns():
    items = deque([1, 2, 3])
    return (lambda x: x + items[0] * 2), (X,), lambda: items.rotate(1)


@fact(None)
def a_set_is_built_in_another_order():
    members = {0, 8}

    def change():
        members.clear()
        members.update([8, 0])

    return (lambda x: functools.reduce(lambda a, k: a * 3 + k, members, x)), (X,), change


@fact(True)
def a_frozen_set_is_another():
    box = Box(members=frozenset({1}))
    return (
        (lambda x: x + (1 if 2 in box.members else 3)),
        (X,),
        lambda: setattr(box, "members", frozenset({2})),
    )


@fact(True)
def an_item_of_a_list_of_objects_is_replaced():
    boxes = [Box(w=1), Box(w=2)]
    return (lambda x: x + boxes[0].w + boxes[1].w), (X,), lambda: boxes.__setitem__(1, Box(w=5))


@fact(True)
def a_number_in_a_list_of_an_object_is_replaced():
    box = Box(numbers=[300, 400])

    def change():
        box.numbers[0] = None  # its memory is free for the next
        box.numbers[0] = int("301")

    return (lambda x: x + box.numbers[0] + box.numbers[1]), (X,), change


@fact(True)
def a_tuple_in_a_list_is_replaced():
    box = Box(pairs=[(int("1000"), 2), (3, 4)])

    def change():
        box.pairs[0] = None
        box.pairs[0] = (int("1001"), 2)

    return (lambda x: x + box.pairs[0][0] + box.pairs[1][1]), (X,), change


@fact(True)
def an_attribute_of_an_object_in_a_dict_changes():
    table = {"k": Box(w=1, v=2)}
    return (lambda x: x + table["k"].w + table["k"].v), (X,), lambda: setattr(table["k"], "v", 5)


@fact(True)
def a_value_of_an_objects_dict_changes():
    box = Box(table={"a": 1, "b": 2}, v=1)
    return (
        (lambda x: x + box.table["a"] + box.table["b"] + box.v),
        (X,),
        lambda: box.table.update(b=5),
    )


@fact(True)
def the_class_of_an_object_in_a_list_is_assigned():
    one, two = fresh_class(kind=2), fresh_class(kind=3)
    box = Box(items=[one(), one()], v=1)
    return (
        (lambda x: x * box.items[0].kind + box.items[1].kind + box.v),
        (X,),
        lambda: setattr(box.items[1], "__class__", two),
    )


@fact(True)
def the_dict_of_an_object_in_a_list_is_replaced():
    box = Box(items=[Box(w=1, v=1), Box(w=2, v=2)], v=1)
    old = box.items[1].__dict__  # alive, and unchanged

    def change():
        box.items[1].__dict__ = {"w": old["w"], "v": 9}

    return (
        (lambda x: x + box.items[0].w + box.items[1].w + box.items[1].v + box.items[0].v),
        (X,),
        change,
    )


@fact(True)
def a_nested_instance_dict_is_replaced():
    box = Box(inner=Box(w=2, v=3), u=1)
    old = box.inner.__dict__

    def change():
        box.inner.__dict__ = {**old, "v": 8}

    return (lambda x: x * box.inner.w + box.inner.v + box.u), (X,), change


@fact(True)
def the_class_of_a_nested_object_is_assigned():
    one, two = fresh_class(kind=2), fresh_class(kind=3)
    box = Box(inner=one(w=1, v=1), u=1)
    return (
        (lambda x: x * box.inner.kind + box.inner.w + box.inner.v + box.u),
        (X,),
        lambda: setattr(box.inner, "__class__", two),
    )


@fact(True)
def an_attribute_goes_from_the_dict_to_a_slot():
    cls = type("Both", (), {"__slots__": ("w", "__dict__")})
    box = cls()
    box.__dict__["w"] = 5  # hidden by the slot
    box.w = 2
    return (lambda x: x * box.w), (X,), lambda: setattr(box, "w", 3)


@fact(True)
def a_class_with_slots_gives_up_one():
    cls = type("Slotted", (), {"__slots__": ("w",)})
    box = cls()
    box.w = 2
    return (lambda x: x * box.w), (X,), lambda: setattr(cls, "w", property(lambda self: 9))
