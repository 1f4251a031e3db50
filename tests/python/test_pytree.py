# SPDX-License-Identifier: Apache-2.0
"""gramme.utils._pytree: trees taken apart and put together.  The expected values are torch
2.13's."""

import collections
import dataclasses

import pytest

import gramme as G
from gramme.utils import _pytree as P

Point = collections.namedtuple("Point", "x y")
COUNTS = collections.defaultdict(list, {"a": 1})

# tree, its leaves, (leaves, nodes, children) of its spec, the paths to the leaves
TREES = [
    (
        {"b": [1, (2, None)], "a": 3},
        [1, 2, None, 3],
        (4, 7, 2),
        ["['b'][0]", "['b'][1][0]", "['b'][1][1]", "['a']"],
    ),
    (collections.OrderedDict(b=1, a=2), [1, 2], (2, 3, 2), ["['b']", "['a']"]),
    (COUNTS, [1], (1, 2, 1), ["['a']"]),
    (collections.deque([1, 2], maxlen=3), [1, 2], (2, 3, 2), ["[0]", "[1]"]),
    (Point(1, [2]), [1, 2], (2, 4, 2), [".x", ".y[0]"]),
    (None, [None], (1, 1, 0), [""]),
    ({1}, [{1}], (1, 1, 0), [""]),
    ({1: 2, "a": 3}, [2, 3], (2, 3, 2), ["[1]", "['a']"]),
    ((), [], (0, 1, 0), []),
    ([[], ()], [], (0, 3, 2), []),
]


@pytest.mark.parametrize(
    "tree, leaves, counts, paths", TREES, ids=[repr(row[0])[:30] for row in TREES]
)
def test_a_tree_is_taken_apart_and_put_together(tree, leaves, counts, paths):
    found, spec = P.tree_flatten(tree)
    assert found == leaves == P.tree_leaves(tree) == list(P.tree_iter(tree))
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == counts and spec.is_leaf() == (
        counts == (1, 1, 0)
    )
    again = P.tree_unflatten(found, spec)
    assert (
        again == tree
        and type(again) is type(tree)
        and getattr(again, "maxlen", None) == getattr(tree, "maxlen", None)
    )
    assert spec == P.tree_structure(tree) and hash(spec) == hash(P.tree_structure(tree))
    assert [P.keystr(path) for path, _ in P.tree_leaves_with_path(tree)] == paths
    assert [P.key_get(tree, path) for path, _ in P.tree_leaves_with_path(tree)] == leaves
    assert P.tree_leaves(P.tree_map_with_path(lambda path, leaf: P.keystr(path), tree)) == paths


def test_a_size_becomes_a_tuple_and_results_keep_their_type():
    leaves, spec = P.tree_flatten(G.Size([1, 2]))
    assert (
        leaves == [1, 2] and spec.type is G.Size and type(P.tree_unflatten(leaves, spec)) is tuple
    )
    best = P.tree_map(lambda x: x + 1, G.max(G.ones(2, 2), 0))
    assert (
        type(best) is G.return_types.max
        and best.values.tolist() == [2.0, 2.0]
        and best.indices.tolist() == [1, 1]
    )


MAPS = [
    (
        lambda: P.tree_map(
            lambda a, b: (a, b), {"a": 1, "b": 2}, collections.OrderedDict(b=1, a=2)
        ),
        {"a": (1, 2), "b": (2, 1)},
    ),
    (lambda: P.tree_map(lambda a, b: (a, b), [1], [[2, 3]]), [(1, [2, 3])]),
    (lambda: P.tree_map(lambda a, b: (a, b), Point(1, 2), Point(3, [4])), Point((1, 3), (2, [4]))),
    (
        lambda: P.tree_map(
            lambda a, b: a + b, collections.deque([1]), collections.deque([1], maxlen=3)
        ),
        collections.deque([2]),
    ),
    (lambda: P.tree_map_only(int, lambda x: x * 2, [1, 2.0, "a"]), [2, 2.0, "a"]),
    (lambda: P.tree_map_only((int, float), lambda x: x * 2, [1, 2.0, "a"]), [2, 4.0, "a"]),
    (lambda: P.tree_map_only(lambda x: x == 1, lambda x: x * 2, [1, 2.0, "a"]), [2, 2.0, "a"]),
    (lambda: P.tree_map(P.map_only(int)(lambda x: -x), (1, "a")), (-1, "a")),
    (
        lambda: P.tree_leaves([1, [2, 3]], is_leaf=lambda x: isinstance(x, list) and x[0] == 2),
        [1, [2, 3]],
    ),
    (lambda: (P.tree_all(bool, [1, 0]), P.tree_any(bool, [1, 0])), (False, True)),
    (
        lambda: (P.tree_all_only(int, bool, [1, ""]), P.tree_any_only(int, bool, ["a", 0])),
        (True, False),
    ),
    (lambda: P.arg_tree_leaves(1, [2], a=3), [1, 2, 3]),
    (lambda: P._broadcast_to_and_flatten(0, P.tree_structure(TREES[0][0])), [0, 0, 0, 0]),
    (
        lambda: P._broadcast_to_and_flatten({"b": [1, 2], "a": 3}, P.tree_structure(TREES[0][0])),
        [1, 2, 2, 3],
    ),
    (lambda: P._broadcast_to_and_flatten({"b": [1], "a": 3}, P.tree_structure(TREES[0][0])), None),
    (lambda: P.tree_structure({"a": 1, "b": 2}) == P.tree_structure({"b": 1, "a": 2}), False),
    (lambda: P.tree_structure([1, 2]) == P.treespec_leaf(), False),
    (lambda: P.treespec_tuple([P.treespec_leaf()] * 2) == P.tree_structure((1, 2)), True),
    (lambda: P.treespec_dict(a=P.treespec_leaf()) == P.tree_structure({"a": 1}), True),
]


@pytest.mark.parametrize("run, want", MAPS)
def test_functions_over_trees(run, want):
    assert run() == want and type(run()) is type(want)


ERRORS = [
    (
        lambda: P.tree_map(lambda a, b: a, [1], [1, 2]),
        ValueError,
        "Node arity mismatch; expected 1, but got 2",
    ),
    (
        lambda: P.tree_map(lambda a, b: a, [1], (1,)),
        ValueError,
        "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>",
    ),
    (
        lambda: P.tree_map(lambda a, b: a, {"a": 1}, {"b": 1}),
        ValueError,
        "Node keys mismatch; missing key.*'a'.*'b'",
    ),
    (
        lambda: P.tree_unflatten([1], P.tree_structure([1, 2])),
        ValueError,
        "there are 1 leaves, and the tree has 2",
    ),
    (lambda: P.tree_unflatten([1], 3), TypeError, "is a TreeSpec, not 3"),
    (
        lambda: P.register_pytree_node(dict, None, None),
        ValueError,
        "<class 'dict'> is already registered as pytree node",
    ),
    (lambda: P.register_pytree_node(3, None, None), TypeError, "takes a class, not 3"),
    (
        lambda: P.tree_map_only(3, None, [1]),
        TypeError,
        "is a type, a tuple of types, a union or a function",
    ),
]


@pytest.mark.parametrize("run, error, text", ERRORS)
def test_trees_that_do_not_fit_are_errors(run, error, text):
    with pytest.raises(error, match=text):
        run()


def test_a_class_that_is_registered_is_taken_apart():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    P.register_pytree_node(
        Pair, lambda pair: ((pair.a, pair.b), "context"), lambda children, _: Pair(*children)
    )
    try:
        twice = P.tree_map(lambda x: x * 2, [Pair(1, [G.ones(1)])])[0]
        assert (
            twice.a == 2
            and twice.b[0].tolist() == [2.0]
            and P.tree_structure(Pair(1, 2)).context == "context"
        )
        with pytest.raises(
            ValueError, match="give register_pytree_node\\(\\) a flatten_with_keys_fn"
        ):
            P.tree_leaves_with_path(Pair(1, 2))
    finally:
        P._deregister_pytree_node(Pair)
    assert P.tree_structure(Pair(1, 2)).is_leaf()


def test_a_dataclass_that_is_registered_is_taken_apart():
    @dataclasses.dataclass
    class State:
        x: int
        y: object = None

    P.register_dataclass(State)
    try:
        assert P.tree_map(lambda x: x + 1, State(1, [2])) == State(2, [3])
        assert [P.keystr(path) for path, _ in P.tree_leaves_with_path(State(1, [2]))] == [
            ".x",
            ".y[0]",
        ]
    finally:
        P._deregister_pytree_node(State)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_trees_are_recorded(backend):
    def step(tree):
        leaves, spec = P.tree_flatten(tree)
        doubled = P.tree_map(lambda x: x * 2, tree)
        return P.tree_map_only(G.Tensor, lambda x: x + len(leaves), doubled), P.tree_unflatten(
            [leaf.sum() for leaf in leaves], spec
        )

    tree = {"w": [G.arange(3.0), G.ones(2)], "b": (G.zeros(1),)}
    plain, compiled = step(tree), G.compile(step, backend=backend)(tree)
    assert [x.tolist() for x in P.tree_leaves(plain)] == [
        x.tolist() for x in P.tree_leaves(compiled)
    ]
    assert P.tree_structure(plain) == P.tree_structure(compiled)
