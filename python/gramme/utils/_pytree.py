# SPDX-License-Identifier: Apache-2.0
"""Trees: tuples, lists, dicts and what a program registers, taken apart into leaves and a TreeSpec,
and put together again.

A value whose exact type is not registered is a leaf; so are None, sets and strings.  The order of
the leaves is the containers' own: a dict's is that in which its keys came.
"""

import dataclasses
import functools
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, NamedTuple

import gramme
from gramme import return_types

PyTree = Context = Any


# -- Keys: the way from a tree's root to a leaf


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """Item number idx of a list or tuple."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The value of a dict's key."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The attribute of that name."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def keystr(kp):
    """The keys of a path as Python would write them: "['b'][1]"."""
    return "".join([str(key) for key in kp])


def key_get(obj, kp):
    """The part of a tree that the keys of a path lead to."""
    for key in kp:
        obj = key.get(obj)
    return obj


# -- The types that are no leaves


class NodeDef(NamedTuple):
    """How a container's type is taken apart: flatten_fn(value) returns (children, context),
    unflatten_fn(children, context) the value; flatten_with_keys_fn(value), or None, returns ([(key,
    child), ...], context)."""

    type: Any
    flatten_fn: Any
    unflatten_fn: Any
    flatten_with_keys_fn: Any = None


SUPPORTED_NODES = {}  # type -> NodeDef; all named tuples are under collections.namedtuple
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})


def register_pytree_node(
    cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
    from_dumpable_context=None, flatten_with_keys_fn=None
):  # fmt: skip
    """From now on values of exactly this class are taken apart and put together by these functions
    (see NodeDef).

    The other keywords say how a TreeSpec is written to a file, which is not done here; they are
    taken and change nothing.
    Errors: TypeError for what is no class, ValueError for a class that is registered already.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_pytree_node() takes a class, not {cls!r}")
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls!r} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(
    cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None, **named
):
    """register_pytree_node() by its older name."""
    register_pytree_node(cls, flatten_fn, unflatten_fn, **named)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Registers a dataclass: its children are the fields, by the order of their definition.

    field_names: the fields that are children; None: all that __init__ takes, but those of
    drop_field_names.
    """
    if field_names is None:
        if not dataclasses.is_dataclass(cls):
            raise ValueError(
                "register_dataclass() needs field_names for a class that is no dataclass"
            )
        field_names = [field.name for field in dataclasses.fields(cls) if field.init]
    names = [name for name in field_names if name not in (drop_field_names or ())]

    def flatten(value):
        there = [name for name in names if hasattr(value, name)]
        return [getattr(value, name) for name in there], there

    def flatten_with_keys(value):
        children, there = flatten(value)
        return [(GetAttrKey(name), child) for name, child in zip(there, children)], there

    def unflatten(children, there):
        return cls(**dict(zip(there, children)))

    register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


def _deregister_pytree_node(cls):
    """Values of the class are leaves again.  Errors: KeyError for a class that is not
    registered."""
    del SUPPORTED_NODES[cls]


def _keys_of_sequence(value):
    return [(SequenceKey(i), child) for i, child in enumerate(value)]


def _keys_of_mapping(value):
    return [(MappingKey(key), child) for key, child in value.items()]


for _type, _flatten, _unflatten, _keys in (
    (tuple, lambda v: (list(v), None), lambda c, _: tuple(c), lambda v: (_keys_of_sequence(v), None)),
    (list, lambda v: (v, None), lambda c, _: list(c), lambda v: (_keys_of_sequence(v), None)),
    (dict, lambda v: (list(v.values()), list(v)), lambda c, k: dict(zip(k, c)), lambda v: (_keys_of_mapping(v), list(v))),
    (
        namedtuple,
        lambda v: (list(v), type(v)),
        lambda c, kind: kind(*c),
        lambda v: ([(GetAttrKey(n), c) for n, c in zip(v._fields, v)], type(v)),
    ),
    (OrderedDict, lambda v: (list(v.values()), list(v)), lambda c, k: OrderedDict(zip(k, c)), lambda v: (_keys_of_mapping(v), list(v))),
    (
        defaultdict,
        lambda v: (list(v.values()), [v.default_factory, list(v)]),
        lambda c, k: defaultdict(k[0], zip(k[1], c)),
        lambda v: (_keys_of_mapping(v), [v.default_factory, list(v)]),
    ),
    (deque, lambda v: (list(v), v.maxlen), lambda c, n: deque(c, maxlen=n), lambda v: (_keys_of_sequence(v), v.maxlen)),
    (gramme.Size, lambda v: (list(v), None), lambda c, _: tuple(c), lambda v: (_keys_of_sequence(v), None)),
):  # fmt: skip
    SUPPORTED_NODES[_type] = NodeDef(_type, _flatten, _unflatten, _keys)
for _type in [getattr(return_types, _name) for _name in return_types.__all__]:
    SUPPORTED_NODES[_type] = NodeDef(
        _type,
        lambda v: (list(v), None),
        lambda c, _, kind=_type: kind(c),
        lambda v: (_keys_of_sequence(v), None),
    )
del _type, _flatten, _unflatten, _keys


def is_namedtuple_class(cls):
    """True for a class that collections.namedtuple or typing.NamedTuple made, or a subclass of
    one."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(getattr(cls, "_fields", None), tuple)
        and hasattr(cls, "_make")
    )


def is_namedtuple_instance(obj):
    """True for a value of such a class."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj):
    """True for a value of such a class, or the class itself."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree):
    kind = type(tree)
    return namedtuple if kind not in SUPPORTED_NODES and is_namedtuple_class(kind) else kind


def tree_is_leaf(tree, is_leaf=None):
    """True for what is not taken apart: is_leaf(tree) says so, or its type is not registered."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


# -- Specs


class TreeSpec:
    """A tree without its leaves.

    type: the container's type, None for a leaf; collections.namedtuple for named tuples, whose
    class is the context.
    context: what its flatten_fn said beside the children.  num_nodes, num_leaves, num_children: how
    many there are, the root counted.
    """

    __slots__ = ("type", "context", "_children", "num_nodes", "num_leaves", "num_children")

    def __init__(self, type, context, children_specs=()):
        self.type, self.context, self._children = type, context, list(children_specs)
        self.num_children = len(self._children)
        self.num_nodes = 1 + sum([child.num_nodes for child in self._children])
        self.num_leaves = 1 if type is None else sum([child.num_leaves for child in self._children])

    @property
    def children_specs(self):
        return self._children

    def is_leaf(self):
        return self.num_nodes == 1 and self.num_leaves == 1

    def children(self):
        return self._children.copy()

    def child(self, index):
        return self._children[index]

    def unflatten(self, leaves):
        """The tree with these leaves.  Errors: ValueError for another number of them."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): there are {len(leaves)} leaves, and the tree has "
                f"{self.num_leaves}: {self}"
            )
        return self._build(leaves, 0)[0]

    def _build(self, leaves, at):
        if self.type is None:
            return leaves[at], at + 1
        children = []
        for child in self._children:
            value, at = child._build(leaves, at)
            children.append(value)
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context), at

    def flatten_up_to(self, tree):
        """The parts of a tree that stand where this one has leaves.  Errors: ValueError where it
        has another type, keys or number of children."""
        parts = []
        self._match(tree, parts)
        return parts

    def _match(self, tree, parts):
        if self.type is None:
            parts.append(tree)
            return
        kind = _get_node_type(tree)
        dicts = kind in STANDARD_DICT_TYPES and self.type in STANDARD_DICT_TYPES
        if kind is not self.type and not dicts:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        if dicts:
            keys = self.context[1] if self.type is defaultdict else self.context
            missing, more = [key for key in keys if key not in tree], [
                key for key in tree if key not in keys
            ]
            if missing or more:
                raise ValueError(
                    f"Node keys mismatch; missing key(s): {missing}, unexpected key(s): {more}."
                )
            children = [tree[key] for key in keys]
        else:
            children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
            if len(children) != self.num_children:
                raise ValueError(
                    f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
                )
            if (
                kind is not deque and context != self.context
            ):  # how long a deque may grow does not matter
                raise ValueError(
                    f"Node context mismatch for custom node type {self.type!r}: {context!r} is not "
                    f"{self.context!r}."
                )
        for child, spec in zip(children, self._children):
            spec._match(child, parts)

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type is other.type
            and self.context == other.context
            and self._children == other._children
        )

    def __hash__(self):
        return hash((self.type, repr(self.context), tuple(self._children)))

    def __repr__(self):
        if self.type is None:
            return "*"
        return (
            f"TreeSpec({self.type.__name__}, {self.context!r}, "
            f"[{', '.join([repr(child) for child in self._children])}])"
        )


PyTreeSpec = TreeSpec


def LeafSpec():
    """The TreeSpec of a leaf."""
    return TreeSpec(None, None, [])


def treespec_leaf():
    """The TreeSpec of a leaf."""
    return TreeSpec(None, None, [])


def treespec_tuple(iterable=()):
    """The TreeSpec of a tuple of trees, of which it gets the TreeSpecs."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping=(), /, **kwargs):
    """The TreeSpec of a dict of trees, of which it gets the TreeSpecs."""
    specs = dict(mapping, **kwargs)
    return TreeSpec(dict, list(specs), list(specs.values()))


def treespec_pprint(treespec):
    """The text of a spec."""
    return repr(treespec)


# -- Trees


def _flatten_into(tree, leaves, is_leaf):
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return TreeSpec(None, None, [])
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten_into(child, leaves, is_leaf) for child in children])


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec) of a tree.  is_leaf: a function of a part; where it says True the part is a
    leaf."""
    leaves = []
    spec = _flatten_into(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    """The tree of a spec with these leaves, in order.  Errors: TypeError for what is no spec,
    ValueError for another number of leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): the second is a TreeSpec, not {treespec!r}"
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree, is_leaf=None):
    """The leaves of a tree, as a list."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    """The leaves of a tree, one after the other."""
    yield from tree_leaves(tree, is_leaf)


def arg_tree_leaves(*args, **kwargs):
    """The leaves of a call's arguments."""
    return tree_leaves((args, kwargs))


def tree_structure(tree, is_leaf=None):
    """The spec of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree of func(leaf, ...), with what stands at the same places of the trees in `rests`
    beside each leaf.

    Errors: ValueError for a tree in `rests` that has not the structure of the first down to its
    leaves.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves] + [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*row) for row in zip(*columns)])


def tree_map_(func, tree, *rests, is_leaf=None):
    """The tree itself, after func was called as by tree_map(), for what it does."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(what):
    """A function of a leaf: whether it is of a type, of one of several, or one that a function says
    True of."""
    if isinstance(what, (type, tuple, types.UnionType)):
        return lambda leaf: isinstance(leaf, what)
    if callable(what):
        return what
    raise TypeError(
        "the first argument is a type, a tuple of types, a union or a function of a leaf"
    )


def map_only(type_or_types_or_pred, /):
    """A decorator: the function is called for leaves of these types (or that a function says True
    of), others come back as they are."""
    chosen = _chosen(type_or_types_or_pred)

    def decorate(func):
        @functools.wraps(func)
        def wrapper(leaf):
            return func(leaf) if chosen(leaf) else leaf

        return wrapper

    return decorate


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """tree_map() of the leaves of these types, or of those that a function says True of; the others
    stay as they are."""
    chosen = _chosen(type_or_types_or_pred)
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten([func(leaf) if chosen(leaf) else leaf for leaf in leaves])


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """The tree itself, after func was called as by tree_map_only()."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred, tree, is_leaf=None):
    """True if pred holds for all leaves."""
    return all([pred(leaf) for leaf in tree_leaves(tree, is_leaf)])


def tree_any(pred, tree, is_leaf=None):
    """True if pred holds for a leaf."""
    return any([pred(leaf) for leaf in tree_leaves(tree, is_leaf)])


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    """True if pred holds for all leaves of these types."""
    return all(
        [pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, type_or_types)]
    )


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    """True if pred holds for a leaf of these types."""
    return any(
        [pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, type_or_types)]
    )


# -- Trees with the ways to their leaves


def _paths_into(path, tree, found, is_leaf):
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(tree)):
        found.append((path, tree))
        return
    keyed = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if keyed is None:
        raise ValueError(
            f"there are no keys for {kind!r}: give register_pytree_node() a flatten_with_keys_fn"
        )
    for key, child in keyed(tree)[0]:
        _paths_into(path + (key,), child, found, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    """[(path, leaf), ...]: a path is a tuple of keys, SequenceKey, MappingKey or GetAttrKey."""
    found = []
    _paths_into((), tree, found, is_leaf)
    return found


def tree_flatten_with_path(tree, is_leaf=None):
    """([(path, leaf), ...], spec)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """tree_map() of func(path, leaf, ...)."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in found], [leaf for _, leaf in found]] + [
        spec.flatten_up_to(rest) for rest in rests
    ]
    return spec.unflatten([func(*row) for row in zip(*columns)])


# -- A smaller tree spread over a larger one


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """Returns as many parts of a tree as the spec has leaves: a leaf of the tree stands for all
    below it.  None if the two do not fit."""
    if treespec.type is None:
        return [tree] if tree_is_leaf(tree, is_leaf) else None
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    if kind is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    parts = []
    for child, spec in zip(children, treespec.children_specs):
        found = _broadcast_to_and_flatten(child, spec, is_leaf)
        if found is None:
            return None
        parts += found
    return parts
