# SPDX-License-Identifier: Apache-2.0
"""Facts about objects and their classes."""

import operator

import pytest

from facts import FACTS, X, Box, fact, fresh_class

# -- Objects that change between the calls


@fact(True)
def an_attribute_is_set():
    box = Box(w=2)
    return (lambda x: x * box.w), (X,), lambda: setattr(box, "w", 3)


@fact(True)
def an_attribute_is_deleted():
    box = Box(kind=5)
    return (lambda x: x * box.kind), (X,), lambda: delattr(box, "kind")


@fact(True)
def an_instance_dict_is_replaced():
    box = Box(w=2, v=1)
    return (lambda x: x * box.w + box.v), (X,), lambda: setattr(box, "__dict__", {"w": 4, "v": 1})


@fact(True)
def an_attribute_is_written_through_vars():
    box = Box(w=2, v=1)
    return (lambda x: x * box.w + box.v), (X,), lambda: vars(box).update(v=9)


@fact(True)
def a_nested_attribute_is_set():
    box = Box(inner=Box(w=2, v=3))
    return (lambda x: x * box.inner.w + box.inner.v), (X,), lambda: setattr(box.inner, "v", 5)


@fact(False)
def an_unread_attribute_is_set():
    box = Box(w=2, v=3)
    return (lambda x: x * box.w), (X,), lambda: setattr(box, "other", 1)


@fact(True)
def a_class_attribute_is_set():
    cls = fresh_class(kind=2)
    box = cls()
    return (lambda x: x * box.kind), (X,), lambda: setattr(cls, "kind", 6)


@fact(True)
def a_base_class_attribute_is_set():
    base = fresh_class(name="Base", w=2)
    box = fresh_class(base)()
    return (lambda x: x * box.w), (X,), lambda: setattr(base, "w", 3)


@fact(True)
def a_method_is_replaced():
    cls = fresh_class()
    box = cls()
    return (lambda x: box.scaled(x)), (X,), lambda: setattr(cls, "scaled", lambda self, x: x + 100)


@fact(True)
def a_methods_code_is_replaced():
    def method(self, x):
        return x + 1

    def other(self, x):
        return x + 2

    box = fresh_class(m=method)()
    return (lambda x: box.m(x)), (X,), lambda: setattr(method, "__code__", other.__code__)


@fact(True)
def an_instance_shadows_a_method():
    box = Box()
    return (lambda x: box.scaled(x)), (X,), lambda: setattr(box, "scaled", lambda x: x + 50)


@fact(True)
def a_property_is_replaced():
    cls = fresh_class()
    box = cls()
    return (
        (lambda x: x * box.doubled),
        (X,),
        lambda: setattr(cls, "doubled", property(lambda self: 10)),
    )


@fact(True)
def what_a_property_reads_changes():
    box = Box(kind=3)
    return (lambda x: x * box.doubled), (X,), lambda: setattr(box, "kind", 4)


@fact(True)
def a_static_method_is_replaced():
    cls = fresh_class()
    box = cls()
    return (
        (lambda x: box.plus(x)),
        (X,),
        lambda: setattr(cls, "plus", staticmethod(lambda x: x + 9)),
    )


@fact(True)
def what_a_class_method_reads_changes():
    cls = fresh_class(kind=2)
    return (lambda x: cls.made(x)), (X,), lambda: setattr(cls, "kind", 8)


@fact(True)
def a_getattr_hook_appears():
    cls = fresh_class()
    box = cls()
    return (
        (lambda x: x + getattr(box, "w", 1)),
        (X,),
        lambda: setattr(cls, "__getattr__", lambda self, name: 20),
    )


@fact(True)
def an_objects_class_is_assigned():
    one, two = fresh_class(kind=2), fresh_class(kind=3)
    box = one()
    return (lambda x: x * box.kind), (X,), lambda: setattr(box, "__class__", two)


@fact(True)
def the_bases_of_a_class_change():
    one, two = type("One", (Box,), {"w": 1}), type("Two", (Box,), {"w": 2})
    cls = type("Sub", (one,), {})
    box = cls()
    return (lambda x: x * box.w), (X,), lambda: setattr(cls, "__bases__", (two,))


@fact(True)
def an_operator_of_a_class_is_replaced():
    cls = fresh_class(__add__=lambda self, x: x + 1)
    box = cls()
    return (lambda x: box + x), (X,), lambda: setattr(cls, "__add__", lambda self, x: x + 2)


@fact(True)
def a_truth_of_a_class_appears():
    cls = fresh_class()
    box = cls()
    return (
        (lambda x: x + 1 if box else x + 2),
        (X,),
        lambda: setattr(cls, "__bool__", lambda self: False),
    )


@fact(True)
def a_length_of_a_class_appears():
    cls = fresh_class()
    box = cls()
    return (
        (lambda x: x + 1 if box else x + 2),
        (X,),
        lambda: setattr(cls, "__len__", lambda self: 0),
    )


@fact(True)
def a_call_of_a_class_is_replaced():
    cls = fresh_class(__call__=lambda self, x: x + 1)
    box = cls()
    return (lambda x: box(x)), (X,), lambda: setattr(cls, "__call__", lambda self, x: x + 2)


@fact(True)
def a_subclass_gets_an_attribute_before_its_base():
    base = fresh_class(name="Base", w=2)
    cls = fresh_class(base)
    box = cls()
    return (lambda x: x * box.w), (X,), lambda: setattr(cls, "w", 3)


@fact(True)
def an_isinstance_answer_changes():
    one, two = type("One", (), {}), type("Two", (), {})
    box = one()
    return (
        (lambda x: x + 1 if isinstance(box, one) else x + 2),
        (X,),
        lambda: setattr(box, "__class__", two),
    )


@fact(True)
def a_slot_is_set():
    cls = type("Slotted", (), {"__slots__": ("w",)})
    box = cls()
    box.w = 2
    return (lambda x: x * box.w), (X,), lambda: setattr(box, "w", 3)


@fact(True)
def an_empty_slot_is_filled():
    cls = type("Slotted", (), {"__slots__": ("w",)})
    box = cls()
    return (lambda x: x + (1 if hasattr(box, "w") else 2)), (X,), lambda: setattr(box, "w", 3)


@fact(True)
def a_slot_is_emptied():
    cls = type("Slotted", (), {"__slots__": ("w",)})
    box = cls()
    box.w = 2
    return (lambda x: x + (1 if hasattr(box, "w") else 2)), (X,), lambda: delattr(box, "w")


@fact(True)
def a_list_grows_in_place():
    items = [1, 2]
    return (lambda x: x + sum(items)), (X,), lambda: items.append(3)


@fact(True)
def a_lists_item_is_assigned():
    items = [1, 2]
    return (lambda x: x + items[0]), (X,), lambda: items.__setitem__(0, 9)


@fact(True)
def a_dict_changes_in_place():
    table = {"a": 1}
    return (lambda x: x + table["a"]), (X,), lambda: table.update(a=2)


@fact(True)
def a_class_level_dict_changes():
    cls = fresh_class(table={"a": 1})
    return (lambda x: x + cls.table["a"]), (X,), lambda: cls.table.update(a=2)


@fact(True)
def a_set_grows_in_place():
    members = {1}
    return (lambda x: x + (1 if 2 in members else 3)), (X,), lambda: members.add(2)


# -- More of classes: metaclasses, descriptors, what lookups find on the way


@fact(True)
def a_metaclass_attribute_is_set():
    meta = type("Meta", (type,), {"w": 2})
    cls = meta("Made", (), {})
    return (lambda x: x * cls.w), (X,), lambda: setattr(meta, "w", 3)


@fact(True)
def a_class_shadows_its_metaclass():
    meta = type("Meta", (type,), {"w": 2})
    cls = meta("Made", (), {})
    return (lambda x: x * cls.w), (X,), lambda: setattr(cls, "w", 3)


@fact(True)
def a_metaclass_property_is_replaced():
    meta = type("Meta", (type,), {"w": property(lambda cls: 2)})
    cls = meta("Made", (), {})
    return (lambda x: x * cls.w), (X,), lambda: setattr(meta, "w", property(lambda cls: 3))


@fact(True)
def a_metaclass_takes_over_an_attribute():
    meta = type("Meta", (type,), {})
    cls = meta("Made", (), {"w": 2})
    return (lambda x: x * cls.w), (X,), lambda: setattr(meta, "w", property(lambda cls: 5))


@fact(True)
def an_instance_check_appears():
    meta = type("Meta", (type,), {})
    cls = meta("Made", (), {})
    return (
        (lambda x, v: x + 1 if isinstance(v, cls) else x + 2),
        (X, 5),
        lambda: setattr(meta, "__instancecheck__", lambda c, v: True),
    )


@fact(True)
def a_call_of_a_metaclass_appears():
    meta = type("Meta", (type,), {})
    cls = meta("Made", (), {"w": 1})
    return (lambda x: x + cls().w), (X,), lambda: setattr(meta, "__call__", lambda c: Box(w=9))


@fact(True)
def an_init_is_replaced():
    cls = type("Made", (), {"__init__": lambda self: setattr(self, "w", 1)})
    return (
        (lambda x: x + cls().w),
        (X,),
        lambda: setattr(cls, "__init__", lambda self: setattr(self, "w", 4)),
    )


@fact(True)
def a_new_appears():
    cls = type("Made", (), {"w": 1})
    return (lambda x: x + cls().w), (X,), lambda: setattr(cls, "__new__", lambda c: Box(w=6))


def descriptor_class(value, data=False):
    names = {"__get__": lambda self, instance, owner: value}
    if data:
        names["__set__"] = lambda self, instance, new: None
    return type("Descriptor", (), names)


@fact(True)
def a_descriptors_get_is_replaced():
    kind = descriptor_class(2)
    box = fresh_class(w=kind())()
    return (
        (lambda x: x * box.w),
        (X,),
        lambda: setattr(kind, "__get__", lambda self, instance, owner: 3),
    )


@fact(True)
def a_descriptor_begins_to_win_over_the_instance():
    kind = descriptor_class(2)
    box = fresh_class(w=kind())(w=7)
    return (
        (lambda x: x * box.w),
        (X,),
        lambda: setattr(kind, "__set__", lambda self, instance, value: None),
    )


@fact(True)
def a_data_descriptor_is_replaced():
    cls = fresh_class(w=descriptor_class(2, True)())
    box = cls(w=7)
    return (lambda x: x * box.w), (X,), lambda: setattr(cls, "w", descriptor_class(3, True)())


@fact(True)
def what_a_descriptor_holds_changes():
    holder = type("Holds", (), {"__get__": lambda self, instance, owner: self.value})()
    holder.value = 2
    box = fresh_class(w=holder)()
    return (lambda x: x * box.w), (X,), lambda: setattr(holder, "value", 3)


@fact(True)
def a_plain_class_attribute_becomes_a_descriptor():
    class Value:
        pass

    cls = fresh_class(w=Value())
    box = cls()
    return (
        (lambda x: x + (1 if isinstance(box.w, int) else 2)),
        (X,),
        lambda: setattr(Value, "__get__", lambda self, instance, owner: 3),
    )


@fact(True)
def the_code_of_a_propertys_getter_is_replaced():
    def getter(self):
        return 2

    box = fresh_class(w=property(getter))()
    return (
        (lambda x: x * box.w),
        (X,),
        lambda: setattr(getter, "__code__", (lambda self: 3).__code__),
    )


@fact(True)
def a_property_becomes_a_value():
    cls = fresh_class(w=property(lambda self: 2))
    box = cls()
    return (lambda x: x * box.w), (X,), lambda: setattr(cls, "w", 5)


@fact(True)
def a_getattribute_appears():
    cls = fresh_class()
    box = cls(w=2)
    return (
        (lambda x: x * box.w),
        (X,),
        lambda: setattr(cls, "__getattribute__", lambda self, name: 20),
    )


@fact(True)
def a_getattr_hook_is_replaced():
    cls = fresh_class(__getattr__=lambda self, name: 2)
    box = cls()
    return (lambda x: x * box.w), (X,), lambda: setattr(cls, "__getattr__", lambda self, name: 3)


@fact(True)
def a_setattr_hook_appears():
    cls = fresh_class()
    box = cls(w=0)

    def f(x):
        box.w = 5
        return x + box.w

    return (
        f,
        (X,),
        lambda: setattr(
            cls, "__setattr__", lambda self, name, value: self.__dict__.update({name: 50})
        ),
    )


@fact(True)
def an_attribute_of_a_class_in_the_middle_appears():
    base = fresh_class(name="Base", w=2)
    middle = fresh_class(base, name="Middle")
    box = fresh_class(middle)()
    return (lambda x: x * box.w), (X,), lambda: setattr(middle, "w", 3)


@fact(True)
def a_class_attribute_is_deleted_and_its_base_shows():
    base = fresh_class(name="Base", w=2)
    cls = fresh_class(base, w=5)
    box = cls()
    return (lambda x: x * box.w), (X,), lambda: delattr(cls, "w")


@fact(True)
def a_class_gets_another_base():
    one, two = type("One", (Box,), {}), type("Two", (Box,), {})
    cls = type("Sub", (one,), {})
    box = cls()
    return (
        (lambda x: x + (1 if isinstance(box, one) else 2)),
        (X,),
        lambda: setattr(cls, "__bases__", (two,)),
    )


@fact(True)
def a_getattr_hook_appears_behind_a_property_that_fails():
    def fails(self):
        raise AttributeError("w")

    cls = fresh_class(w=property(fails))
    box = cls()
    return (
        (lambda x: x + getattr(box, "w", 1)),
        (X,),
        lambda: setattr(cls, "__getattr__", lambda self, name: 7),
    )


@fact(True)
def what_super_finds_changes():
    base = fresh_class(name="Base", m=lambda self, x: x + 1)

    class Sub(base):
        def m(self, x):
            return super().m(x) * 2

    box = Sub()
    return (lambda x: box.m(x)), (X,), lambda: setattr(base, "m", lambda self, x: x + 5)


@fact(True)
def a_class_is_renamed():
    cls = fresh_class(name="Before")
    box = cls()
    return (
        (lambda x: x + len(type(box).__name__)),
        (X,),
        lambda: setattr(cls, "__name__", "Afterwards"),
    )


@fact(None)
def the_names_that_a_class_matches_change():
    class Point:
        __match_args__ = ("a",)

    point = Point()
    point.a, point.b = 1, 2

    def f(x):
        match point:
            case Point(v):
                return x + v
        return x

    return f, (X,), lambda: setattr(Point, "__match_args__", ("b",))


def operator_row(name, special, first, second, use):
    def make():
        cls = fresh_class(**{special: first})
        box = cls()
        return (lambda x: use(x, box)), (X,), lambda: setattr(cls, special, second)

    make.__name__ = name
    FACTS.append(pytest.param(make, None if name.startswith("maybe_") else True, id=name))


operator_row(
    "an_item_protocol_is_replaced",
    "__getitem__",
    lambda s, i: i,
    lambda s, i: i + 1,
    lambda x, b: x + b[2],
)
operator_row(
    "a_containment_is_replaced",
    "__contains__",
    lambda s, i: True,
    lambda s, i: False,
    lambda x, b: x + (1 if 2 in b else 5),
)
operator_row(
    "an_iteration_is_replaced",
    "__iter__",
    lambda s: iter((1, 2)),
    lambda s: iter((3,)),
    lambda x, b: x + sum(b),
)
operator_row("a_length_is_replaced", "__len__", lambda s: 1, lambda s: 4, lambda x, b: x + len(b))
operator_row(
    "an_equality_is_replaced",
    "__eq__",
    lambda s, o: True,
    lambda s, o: False,
    lambda x, b: x + (1 if b == 3 else 2),
)
operator_row(
    "an_order_is_replaced",
    "__lt__",
    lambda s, o: True,
    lambda s, o: False,
    lambda x, b: x + (1 if b < 3 else 2),
)
operator_row("a_hash_is_replaced", "__hash__", lambda s: 1, lambda s: 2, lambda x, b: x + hash(b))
operator_row(
    "an_index_is_replaced", "__index__", lambda s: 1, lambda s: 0, lambda x, b: x + (4, 9)[b]
)
operator_row(
    "an_int_conversion_is_replaced", "__int__", lambda s: 1, lambda s: 6, lambda x, b: x + int(b)
)
operator_row(
    "a_float_conversion_is_replaced",
    "__float__",
    lambda s: 1.0,
    lambda s: 6.0,
    lambda x, b: x + float(b),
)
operator_row(
    "a_representation_is_replaced",
    "__repr__",
    lambda s: "a",
    lambda s: "abc",
    lambda x, b: x + len(repr(b)),
)
operator_row(
    "a_string_conversion_is_replaced",
    "__str__",
    lambda s: "a",
    lambda s: "abc",
    lambda x, b: x + len(str(b)),
)
operator_row("a_negation_is_replaced", "__neg__", lambda s: 1, lambda s: 2, lambda x, b: x + -b)
operator_row(
    "a_reflected_operator_is_replaced",
    "__radd__",
    lambda s, o: 1,
    lambda s, o: 2,
    lambda x, b: x + (3 + b),
)
operator_row(
    "an_in_place_operator_is_replaced",
    "__iadd__",
    lambda s, o: Box(w=1),
    lambda s, o: Box(w=2),
    lambda x, b: x + operator.iadd(b, 3).w,
)
operator_row(
    "an_exit_is_replaced",
    "__exit__",
    lambda s, *e: True,
    lambda s, *e: False,
    lambda x, b: leave(x, b),
)
operator_row(
    "a_missing_key_is_replaced",
    "__missing__",
    lambda s, k: 1,
    lambda s, k: 2,
    lambda x, b: x + missing(type(b), 7),
)


def missing(cls, key):
    return cls.__missing__(None, key)


def leave(x, box):
    type(box).__enter__ = lambda self: self
    return x


@fact(True)
def an_exit_begins_to_swallow():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            return False

    manager = Manager()

    def f(x):
        try:
            with manager:
                raise KeyError("k")
        except KeyError:
            return x + 1
        return x + 2

    return f, (X,), lambda: setattr(Manager, "__exit__", lambda self, *error: True)
