# SPDX-License-Identifier: Apache-2.0
"""Facts about functions, closures, globals and builtins."""

import builtins
import enum
import functools
import sys

from facts import X, Box, fact, module_of, with_globals

# -- Functions, closures, globals


@fact(True)
def a_cell_is_written():
    w = 2

    def set_it():
        nonlocal w
        w = 3

    return (lambda x: x * w), (X,), set_it


@fact(True)
def a_callees_cell_is_written():
    w = 2

    def callee(x):
        return x * w

    def set_it():
        nonlocal w
        w = 3

    return (lambda x: callee(x)), (X,), set_it


@fact(True)
def a_functions_code_is_replaced():
    def callee(x):
        return x + 1

    return (
        (lambda x: callee(x)),
        (X,),
        lambda: setattr(callee, "__code__", (lambda x: x + 2).__code__),
    )


@fact(None)  # entries live on the code: the new one has none
def the_roots_code_is_replaced():
    def root(x):
        return x + 1

    return root, (X,), lambda: setattr(root, "__code__", (lambda x: x + 2).__code__)


@fact(True)
def a_default_is_replaced():
    def callee(x, w=1):
        return x * w

    return (lambda x: callee(x)), (X,), lambda: setattr(callee, "__defaults__", (5,))


@fact(True)
def the_roots_default_is_replaced():
    def root(x, w=1):
        return x * w

    return root, (X,), lambda: setattr(root, "__defaults__", (5,))


@fact(True)
def a_keyword_default_is_replaced():
    def callee(x, *, w=1):
        return x * w

    return (lambda x: callee(x)), (X,), lambda: setattr(callee, "__kwdefaults__", {"w": 5})


@fact(True)
def a_default_list_changes():
    def callee(x, w=[1]):
        return x * w[0]

    return (lambda x: callee(x)), (X,), lambda: callee.__defaults__[0].__setitem__(0, 4)


@fact(True)
def an_attribute_of_a_function_is_set():
    def callee(x):
        return x * callee.w

    callee.w = 2
    return (lambda x: callee(x)), (X,), lambda: setattr(callee, "w", 3)


@fact(True)
def a_global_is_rebound():
    f = with_globals(lambda x: x * W, W=2)
    return f, (X,), lambda: f.__globals__.update(W=3)


@fact(True)
def a_global_function_is_rebound():
    f = with_globals(lambda x: H(x), H=lambda x: x + 1)
    return f, (X,), lambda: f.__globals__.update(H=lambda x: x + 2)


@fact(True)
def a_global_shadows_a_builtin():
    f = with_globals(lambda x: x * len((1, 2)))
    return f, (X,), lambda: f.__globals__.update(len=lambda v: 7)


@fact(True)
def a_global_is_deleted():
    f = with_globals(lambda x: x * len((1, 2)), len=lambda v: 9)
    return f, (X,), lambda: f.__globals__.pop("len")


@fact(True)
def a_global_that_is_only_touched_is_deleted():
    f = with_globals(lambda x: (W, x + 1)[1], W=2)
    return f, (X,), lambda: f.__globals__.pop("W") and None


@fact(True)
def a_cell_that_is_only_touched_is_emptied():
    w = 2

    def empty():
        nonlocal w
        del w

    return (lambda x: (w, x + 1)[1]), (X,), empty


@fact(False)
def an_unread_global_is_set():
    f = with_globals(lambda x: x * W, W=2)
    return f, (X,), lambda: f.__globals__.update(other=3)


@fact(True)
def a_modules_attribute_is_set():
    m = module_of(w=2)
    return (lambda x: x * m.w), (X,), lambda: setattr(m, "w", 3)


@fact(True)
def a_modules_function_is_replaced():
    m = module_of(h=lambda x: x + 1)
    return (lambda x: m.h(x)), (X,), lambda: setattr(m, "h", lambda x: x + 2)


@fact(True)
def a_modules_attribute_appears():
    m = module_of()
    return (lambda x: x + getattr(m, "w", 1)), (X,), lambda: setattr(m, "w", 3)


@fact(True)
def a_modules_attribute_is_deleted():
    m = module_of(w=1)
    return (lambda x: x + (1 if hasattr(m, "w") else 2)), (X,), lambda: delattr(m, "w")


@fact(True)
def a_name_of_the_package_is_replaced():
    import gramme.nn.functional as F

    def change():
        F.a_fact = F.tanh

    F.a_fact = F.relu
    return (lambda x: F.a_fact(x - 2)), (X,), change


# -- More of functions, globals and builtins


@fact(True)
def defaults_appear():
    def callee(x, w):
        return x * w

    callee.__defaults__ = (2,)
    return (lambda x: callee(x)), (X,), lambda: setattr(callee, "__defaults__", (3,))


@fact(None)
def defaults_vanish():
    def callee(x, w=2):
        return x * w

    return (lambda x: callee(x)), (X,), lambda: setattr(callee, "__defaults__", None)


@fact(True)
def a_keyword_default_changes_in_place():
    def callee(x, *, w=1):
        return x * w

    return (lambda x: callee(x)), (X,), lambda: callee.__kwdefaults__.update(w=5)


@fact(None)
def keyword_defaults_vanish():
    def callee(x, *, w=1):
        return x * w

    return (lambda x: callee(x)), (X,), lambda: setattr(callee, "__kwdefaults__", None)


@fact(True)
def the_roots_keyword_default_is_replaced():
    def root(x, *, w=1):
        return x * w

    return root, (X,), lambda: setattr(root, "__kwdefaults__", {"w": 5})


@fact(True)
def a_function_with_another_closure_takes_its_place():
    def make(w):
        return lambda x: x * w

    box = Box(f=make(2))
    return (lambda x: box.f(x)), (X,), lambda: setattr(box, "f", make(3))


@fact(True)
def a_cell_gets_its_contents_from_outside():
    w = 2

    def callee(x):
        return x * w

    return (lambda x: callee(x)), (X,), lambda: setattr(callee.__closure__[0], "cell_contents", 4)


@fact(True)
def a_nested_closure_changes():
    def make(w):
        def inner(x):
            return x * w

        return lambda x: inner(x)

    outer = make(2)
    inner = outer.__closure__[0].cell_contents
    return (lambda x: outer(x)), (X,), lambda: setattr(inner.__closure__[0], "cell_contents", 5)


@fact(True)
def a_global_of_a_callee_in_another_module_is_rebound():
    callee = with_globals(lambda x: x * W, W=2)
    return (lambda x: callee(x)), (X,), lambda: callee.__globals__.update(W=3)


@fact(True)
def a_builtin_is_replaced():
    def restore():
        del builtins.a_fact_of_builtins

    builtins.a_fact_of_builtins = 2
    f = with_globals(lambda x: x * a_fact_of_builtins)
    return f, (X,), lambda: setattr(builtins, "a_fact_of_builtins", 3)


@fact(True)
def a_callees_builtin_is_shadowed():
    callee = with_globals(lambda x: x * len((1, 2)))
    return (lambda x: callee(x)), (X,), lambda: callee.__globals__.update(len=lambda v: 7)


@fact(False)
def a_builtin_is_shadowed_and_shows_again():
    f = with_globals(lambda x: x * len((1, 2)))

    def change():
        f.__globals__["len"] = lambda v: 7
        del f.__globals__["len"]

    return f, (X,), change


@fact(False)
def an_attribute_is_set_to_what_it_was():
    box = Box(w=2, v=1, u=1, t=1)

    def change():
        box.w = 3
        box.w = 2

    return (lambda x: x * box.w + box.v + box.u + box.t), (X,), change


@fact(True)
def a_modules_getattr_appears():
    m = module_of()
    return (
        (lambda x: x + (1 if hasattr(m, "w") else 2)),
        (X,),
        lambda: setattr(m, "__getattr__", lambda name: 5),
    )


@fact(None)
def an_imported_module_is_replaced():
    name = "a_module_that_is_imported"
    sys.modules[name] = module_of(w=2)

    def f(x):
        import a_module_that_is_imported as m

        return x * m.w

    return f, (X,), lambda: sys.modules.__setitem__(name, module_of(w=3))


@fact(True)
def a_methods_object_changes():
    box = Box(kind=2)
    method = box.scaled
    return (lambda x: method(x)), (X,), lambda: setattr(box, "kind", 5)


@fact(None)
def a_generators_code_is_replaced():
    def numbers():
        yield 1
        yield 2

    def others():
        yield 5

    return (
        (lambda x: x + sum(numbers())),
        (X,),
        lambda: setattr(numbers, "__code__", others.__code__),
    )


@fact(None)
def a_cached_functions_cache_is_cleared():
    calls = []

    @functools.lru_cache
    def cached(n):
        calls.append(n)
        return len(calls)

    return (lambda x: x + cached(1)), (X,), cached.cache_clear


@fact(None)
def an_enums_value_is_replaced():
    class Level(enum.Enum):
        LOW = 1

    return (lambda x: x + Level.LOW.value), (X,), lambda: setattr(Level.LOW, "_value_", 5)
