# SPDX-License-Identifier: Apache-2.0
"""copy.deepcopy of containers and plain objects."""

import copy

import gramme as G


def twice(f, *args):
    return f(*args), f(*args)


class Node:
    kind = "node"

    def __init__(self, value, children=()):
        self.value = value
        self.children = list(children)

    @property
    def total(self):
        return self.value + sum(c.total for c in self.children)


class OwnWay:
    def __init__(self):
        self.copies = 0

    def __deepcopy__(self, memo):
        self.copies += 1
        return self


class Restored:
    def __init__(self):
        self.n = 1

    def __setstate__(self, state):
        self.n = state["n"] + 10


class Answers:
    def __init__(self):
        self.n = 1

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


# expect: graphs=1 breaks=0
def case_deepcopy_of_containers(compile):
    def f(c, x):
        d = copy.deepcopy(c)
        d["k"].append(4)
        return x * len(d["k"]), d, c

    g = compile(f)
    c = {"k": [1, (2, [3])], "t": {"inner": None}, 2.5: (1, 2, "same")}
    first = g(c, G.ones(2))
    return (
        first,
        c[2.5] is first[1][2.5],
        c["k"][1] is first[1]["k"][1],
        g({"k": [1, (2, [3])], "t": {"inner": None}, 2.5: (1, 2, "same")}, G.ones(2)),
    )


# expect: graphs=1 breaks=0
def case_deepcopy_keeps_what_is_shared(compile):
    def f(x):
        shared = [1]
        pair = (shared, shared)
        a = [shared, pair, pair, {"s": shared}]
        b = copy.deepcopy(a)
        b[0].append(2)
        return x + 1, a, b, b[0] is b[1][0], b[1] is b[2], b[3]["s"] is b[0], b[0] is a[0]

    return twice(compile(f), G.ones(2))


# expect: graphs=1 breaks=0
def case_deepcopy_of_objects(compile):
    leaf = Node(3)
    tree = Node(1, [leaf, Node(2, [leaf])])

    def f(x):
        new = copy.deepcopy(tree)
        new.children[0].value += 10
        return x * new.total, new, new.children[0] is new.children[1].children[0], tree.total

    g = compile(f)
    return g(G.ones(2)), g(G.ones(2)), leaf.value, tree


# A changed value is copied as it is now.
# expect: any
def case_deepcopy_of_what_changed_since(compile):
    tree, c = Node(1, [Node(2)]), {"a": [1]}
    f = compile(lambda x: (x + 1, copy.deepcopy(tree), copy.deepcopy(c)))
    out = [f(G.ones(2))]
    tree.children.append(Node(5))
    out.append(f(G.ones(2)))
    tree.extra = [7]
    out.append(f(G.ones(2)))
    c["b"] = (c["a"],)
    out.append(f(G.ones(2)))
    return out


# expect: graphs=1 breaks=0
def case_deepcopy_of_an_object_made_and_changed_in_the_region(compile):
    there = Node(9)

    def f(x):
        node = Node(1, [Node(2), there])
        node.extra = {"n": node.children}
        there.value = 10
        new = copy.deepcopy(node)
        return x + new.total, new, new.extra["n"] is new.children, new.children[1] is there

    return twice(compile(f), G.ones(2)), there


# expect: any
def case_deepcopy_of_a_list_in_itself(compile):
    def f(x):
        a = [1]
        a.append(a)
        b = copy.deepcopy(a)
        return x + 1, b[0], b[1] is b, b is a

    return twice(compile(f), G.ones(2))


# expect: any
def case_deepcopy_of_classes_with_their_own_ways(compile):
    own, restored, answers = OwnWay(), Restored(), Answers()
    f = compile(lambda x, o: (x + 1, copy.deepcopy([o])))
    return f(G.ones(2), own), f(G.ones(2), restored), f(G.ones(2), answers), own.copies


# A class that gets a way of its own later is asked.
# expect: any
def case_deepcopy_asks_a_class_again(compile):
    class Late:
        def __init__(self):
            self.n = [1]

    late = Late()
    f = compile(lambda x: (x + 1, copy.deepcopy(late) is late))
    first = f(G.ones(2))
    Late.__deepcopy__ = lambda self, memo: self
    return first, f(G.ones(2))


# expect: any
def case_deepcopy_of_a_class_that_makes_instances_its_own_way_later(compile):
    made = []

    class Late:
        def __init__(self):
            self.n = [1]

    def make(cls):
        made.append(cls.__name__)
        return object.__new__(cls)

    late = Late()
    f = compile(lambda x: (x + 1, copy.deepcopy(late).n))
    first = f(G.ones(2))
    Late.__new__ = make
    return first, f(G.ones(2)), made


# The library's tables are asked.
# expect: any
def case_deepcopy_asks_the_tables_again(compile):
    import copyreg

    class Listed:
        def __init__(self):
            self.n = [1]

    listed = Listed()
    f = compile(lambda x: (x + 1, copy.deepcopy(listed).n))
    first = f(G.ones(2))
    copyreg.pickle(Listed, lambda o: (Listed, (), {"n": "from the table"}))
    try:
        return first, f(G.ones(2))
    finally:
        del copyreg.dispatch_table[Listed]


# expect: any
def case_deepcopy_of_tensors(compile):
    w = G.ones(2, requires_grad=True)

    def f(x):
        c = copy.deepcopy({"x": x, "w": w})
        return c, c["w"] is w, x + 1

    return twice(compile(f), G.ones(2))


# -- Tensors


# expect: graphs=1 breaks=0
def case_deepcopy_of_tensors_in_containers(compile):
    def f(x, t):
        box = {"t": t, "again": [t, t * 2]}
        new = copy.deepcopy(box)
        new["t"] += 1
        t.mul_(3)
        return (
            new,
            new["t"] is new["again"][0],
            new["again"][0] is t,
            x + new["t"],
            copy.deepcopy(x.t()).stride(),
        )

    return twice(compile(f), G.ones(2, 3), G.zeros(2, 3))


# expect: graphs=1 breaks=0
def case_deepcopy_of_an_object_with_a_tensor(compile):
    def f(x, node):
        new = copy.deepcopy(node)
        new.value.add_(1)
        return new.value, node.value, x * new.value

    return twice(compile(f), G.ones(2), Node(G.zeros(2)))


# expect: graphs=2 breaks=2
def case_deepcopy_of_a_tensor_with_attributes(compile):
    def f(x, t):
        new = copy.deepcopy(t)
        return x + new, new.__dict__

    t, f = G.ones(2), compile(f)
    first = f(G.ones(2), t)
    t.note = [1]
    second = f(G.ones(2), t)
    return first, second, second[1]["note"] is t.note


# expect: graphs=1 breaks=1
def case_deepcopy_of_a_leaf(compile):
    w = G.ones(2, requires_grad=True)

    def f(x, w):
        new = copy.deepcopy(w)
        return (x * new).sum(), new

    total, new = compile(f)(G.full((2,), 3.0), w)
    total.backward()
    return total.detach(), new.grad, new.is_leaf, w.grad


# expect: graphs=1 breaks=1
def case_deepcopy_of_a_tensor_with_a_history(compile):
    f = compile(lambda w: copy.deepcopy(w * 2))
    try:
        return f(G.ones(2, requires_grad=True))
    except RuntimeError as e:
        return str(e)


# expect: graphs=1 breaks=1
def case_deepcopy_of_a_module(compile):
    G.manual_seed(1)
    model = G.nn.Sequential(G.nn.Linear(2, 3), G.nn.ReLU(), G.nn.Linear(3, 1))

    def f(x):
        new = copy.deepcopy(model)
        return new(x).sum(), new

    total, new = compile(f)(G.ones(4, 2))
    total.backward()
    shared = any(p is q for p in model.parameters() for q in new.parameters())
    return (
        total.detach(),
        list(new.state_dict()),
        [p.grad for p in new.parameters()],
        [p.grad for p in model.parameters()],
        shared,
        type(new[0].weight),
    )
