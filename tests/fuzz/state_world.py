# SPDX-License-Identifier: Apache-2.0
"""What of a program's world is compared, and the mutations of one thing in it (see
state_programs.py).

`describe` turns everything that can be reached into nested tuples that are equal when values,
types, order and sharing are.  `places` lists the mutations that are possible, in an order that
depends on the world's structure alone: two worlds of one structure offer the same list.  Addresses,
and the order of sets, are no part of a description.
"""

import collections
import contextlib
import itertools
import math
import re
import sys
import types
import weakref

import gramme as G

ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
# What Python prints between two regions shows the node of the region that made a tensor: one for
# all of it, whatever operations it holds, and so another name than plain code shows.  That there is
# one is compared.
HISTORY = re.compile(r"grad_fn=<\w+>")
# For the same reason a backward that goes a second time fails at the region's first node, and plain
# code's later, when it has given some gradients already.  That it fails is compared; what is left
# behind then is not.
AGAIN = re.compile(r"backward went through \w+ a second time")
# Of what a backward needs and a write has changed, plain code names the operation and compiled code
# itself.
NEEDED = re.compile(
    r"a tensor that the (gradient of \w+|backward of the compiled function) needs was changed by "
    r"an in-place operation: [^;]*;"
)
ATOMS = (int, str, bytes, bool, type(None), type(Ellipsis), type(NotImplemented), complex, range)
ATOM_KINDS = frozenset(ATOMS)
HIDDEN = {
    "__builtins__",
    "__dict__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__qualname__",
    "__firstlineno__",
    "__static_attributes__",
    "__classdictcell__",
    "__slotnames__",
}  # the last is a note of copy's
ITERATORS = (
    type(iter([])),
    type(iter(())),
    type(iter(range(1))),
    type(reversed([])),
    enumerate,
    zip,
    map,
    filter,
    reversed,
)
ITERATORS += tuple(type(iter(o)) for o in ({}, {}.values(), {}.items(), set(), "a", b""))
ITERATORS += (itertools.count, itertools.islice)
BUILTIN = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


class World:
    """One run of a program: its module and what it has shown so far.  `seen` keeps what was met
    alive, so that no id is used twice."""

    def __init__(self, file, deepest):
        self.file, self.deepest, self.seen, self.recursed, self.twice = (
            file,
            deepest,
            {},
            False,
            False,
        )

    @contextlib.contextmanager
    def depth(self):
        """Whether calls come near to the limit meanwhile is noted: programs catch the error
        themselves."""
        deep = 0

        def count(frame, event, arg):
            nonlocal deep
            deep += (event == "call") - (event == "return")
            self.recursed = self.recursed or deep > self.deepest - 100

        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(None)

    def text(self, s):
        self.twice = self.twice or AGAIN.search(s) is not None
        return NEEDED.sub(
            "a tensor was changed in place;", HISTORY.sub("grad_fn=<>", ADDRESS.sub("0x", s))
        )

    def number(self, value):
        if id(value) in self.seen:
            return ("again", self.seen[id(value)][0])
        self.seen[id(value)] = (len(self.seen), value)
        return None

    def frames(self, tb):
        lines = []
        while tb is not None:
            code = tb.tb_frame.f_code
            if code.co_filename == self.file:
                lines.append((code.co_name, tb.tb_lineno))
            tb = tb.tb_next
        return lines

    def storage(self, t):
        """Which storage: the address of its first element, as an identity."""
        start = t.data_ptr() - t.storage_offset() * t.element_size()
        return self.stores.setdefault(start, len(self.stores)) if t.numel() else None

    def tensor(self, t):
        grad = None if t.grad is None else self.describe(t.grad)
        data = b"".join([t.detach().contiguous()])
        extra = self.describe(vars(t)) if getattr(t, "__dict__", None) else None
        return (
            type(t).__name__,
            str(t.dtype),
            tuple(t.shape),
            t.stride(),
            t.storage_offset(),
            t.requires_grad,
            t.is_leaf,
            type(t.grad_fn).__name__,
            self.storage(t),
            data,
            grad,
            extra,
        )

    def exception(self, e):
        if isinstance(e, (RecursionError, MemoryError)):
            self.recursed = True
        more = self.describe(vars(e)) if vars(e) else None
        return (
            type(e).__name__,
            self.text(str(e)),
            self.describe(e.args),
            self.frames(e.__traceback__),
            ("cause", self.describe(e.__cause__)),
            ("context", self.describe(e.__context__)),
            e.__suppress_context__,
            more,
        )

    def function(self, f):
        cells = [self.cell(cell) for cell in f.__closure__ or ()]
        return (
            "function",
            f.__name__,
            f.__qualname__,
            f.__code__.co_name,
            f.__code__.co_firstlineno,
            self.describe(f.__defaults__),
            self.describe(f.__kwdefaults__),
            cells,
            self.describe(f.__dict__) if f.__dict__ else None,
        )

    def cell(self, cell):
        return self.number(cell) or (
            "cell",
            self.describe(cell.cell_contents) if cell_full(cell) else "empty",
        )

    def generator(self, g):
        frame = g.gi_frame
        if frame is None:
            return ("generator", g.__name__, "over")
        return ("generator", g.__name__, frame.f_lineno, self.describe(dict(frame.f_locals)))

    def items(self, pairs):
        return [(self.describe(k), self.describe(v)) for k, v in pairs]

    def instance(self, value):
        parts = [type(value).__name__]
        for base, read in (
            (dict, lambda v: self.items(dict.items(v))),
            (list, lambda v: [self.describe(x) for x in list.__iter__(v)]),
            (tuple, lambda v: [self.describe(x) for x in tuple.__iter__(v)]),
        ):
            if isinstance(value, base):
                parts.append(read(value))
        if isinstance(value, (set, frozenset)):
            parts.append(sorted(map(repr, (self.describe(x) for x in value))))
        if isinstance(value, collections.deque):
            parts += [value.maxlen, [self.describe(x) for x in value]]
        if isinstance(value, collections.defaultdict):
            parts.append(self.describe(value.default_factory))
        for name in slots(type(value)):
            try:
                parts.append((name, self.describe(object.__getattribute__(value, name))))
            except AttributeError:
                parts.append((name, "unset"))
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            own = None
        if own is not None:
            parts.append(self.items(own.items()))
        elif len(parts) == 1:
            parts.append(self.text(repr(value)))
        return tuple(parts)

    def describe(self, value):
        kind = type(value)
        if kind is float:
            return ("float", value.hex())
        if kind in ATOM_KINDS:
            return (
                kind.__name__,
                self.text(value)
                if kind is str
                and (
                    "0x" in value
                    or "grad_fn" in value
                    or "a second time" in value
                    or "in-place" in value
                )
                else value,
            )
        if kind is frozenset:  # immutable: which one it is, as with strings, is CPython's business
            return ("frozenset", sorted(map(repr, (self.describe(x) for x in value))))
        if kind is dict and not value or kind is tuple and not value:
            return (kind.__name__,)
        if (again := self.number(value)) is not None:
            return again
        if kind is tuple or kind is list:
            return (kind.__name__, [self.describe(x) for x in value])
        if kind is dict:
            return ("dict", self.items(value.items()))
        if isinstance(value, G.Tensor):
            return self.tensor(value)
        if isinstance(value, BaseException):
            return self.exception(value)
        if kind is types.FunctionType:
            return self.function(value)
        if kind is types.MethodType:
            return ("method", self.describe(value.__func__), self.describe(value.__self__))
        if isinstance(value, BUILTIN):
            owner = getattr(value, "__self__", None)
            return (
                "builtin",
                value.__name__,
                None if isinstance(owner, (types.ModuleType, type)) else self.describe(owner),
            )
        if kind is types.GeneratorType:
            return self.generator(value)
        if isinstance(value, type):
            if value.__module__ != "program":
                return ("type", value.__qualname__)
            return (
                "class",
                value.__qualname__,
                [base.__name__ for base in value.__bases__],
                self.items(
                    (k, v)
                    for k, v in vars(value).items()
                    if k not in HIDDEN and not k.startswith("_abc")
                ),
            )
        if kind in (staticmethod, classmethod):
            return (kind.__name__, self.describe(value.__func__))
        if kind is property:
            return ("property", self.describe(value.fget), self.describe(value.fset))
        if kind is types.ModuleType:
            return ("module", value.__name__)
        if kind in ITERATORS:
            try:
                reduced = value.__reduce__()
            except RuntimeError as e:  # what it walks has changed
                return (kind.__name__, str(e))
            return (kind.__name__, [self.describe(part) for part in reduced[1:]])
        if kind is weakref.WeakKeyDictionary:  # the cache of functools.singledispatch
            return ("weak",)
        if kind in (type({}.keys()), type({}.values()), type({}.items())):
            return (
                kind.__name__,
                self.describe(value.mapping) if hasattr(value, "mapping") else None,
            )
        return self.instance(value)

    def snapshot(self, things):
        """Everything that can be reached from `things`, as it is now."""
        self.seen, self.stores = {}, {}
        return [self.describe(thing) for thing in things]


def slots(kind):
    return [
        name
        for base in kind.__mro__
        if type(own := base.__dict__.get("__slots__")) is tuple
        for name in own
    ]


def cell_full(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


# -- Mutations --


def other_value(old, dice, stock):
    """Another value in place of `old`: near to it, of another type, or an object from elsewhere."""
    kind = type(old)
    near = []
    if kind is bool:
        near = [not old, int(old), float(old)]
    elif kind is int:
        near = [old + 1, bool(old), float(old), -old, old + 1, str(old)]
    elif kind is float:
        near = [old + 1, -old, int(old) if old == old and abs(old) < 1e9 else 0.0]
    elif kind is str:
        near = [old + "q", "", old.encode(), "k"]
    elif kind is list:
        near = [list(old), old[::-1], tuple(old), old + [1], []]
    elif kind is tuple:
        near = [old[::-1], list(old), old + (1,)]
    elif kind is dict:
        near = [dict(old), dict(reversed(old.items())), collections.OrderedDict(old), {}]
    elif isinstance(old, G.Tensor):
        t = old.detach()
        near = [
            t.clone(),
            t + 1,
            t.to(G.float64),
            t.clone().requires_grad_(t.dtype in (G.float32, G.float64)),
            G.ones(4),
            t.unsqueeze(0),
            t.clone().T if t.dim() == 2 else t,
            1.5,
            t,
        ]
    elif isinstance(old, types.FunctionType):
        near = [
            types.FunctionType(
                old.__code__, old.__globals__, old.__name__, old.__defaults__, old.__closure__
            ),
            len,
        ]
    elif old is None:
        near = [0, False, ()]
    if stock and dice.random() < 0.2 or not near:
        return dice.choice(stock or [None])
    return dice.choice(near)


def swap(get, put, what, stock):
    return (what, lambda dice: put(other_value(get(), dice, stock)))


def flip_method(owner, name):
    def replaced(self, *args, **kw):
        return (name, args)

    setattr(owner, name, replaced)


def tensor_places(t, path):
    def grad(dice):
        t.requires_grad_(not t.requires_grad)

    def fill(dice):
        with G.no_grad():
            t.add_(1)

    def set_to(make):
        def change(dice):
            t.data = make(t.detach())

        return change

    return [
        (path + ".requires_grad", grad),
        (path + ".add_(1)", fill),
        (path + ".data=clone", set_to(lambda d: d.clone())),
        (path + ".data=f64", set_to(lambda d: d.to(G.float64))),
        (path + ".data=longer", set_to(lambda d: G.cat([d, d]) if d.dim() else d.unsqueeze(0))),
        (path + ".data=strided", set_to(lambda d: d.T.clone().T if d.dim() == 2 else d)),
        (
            path + ".grad",
            lambda dice: setattr(t, "grad", None if t.grad is not None else t.detach().clone()),
        ),
    ]


def tensors(things):
    """All tensors that can be reached from things through containers and attributes, each once, in
    an order that depends on the structure alone."""
    queue, seen, found = collections.deque(things), set(), []
    while queue and len(seen) < 300:
        value = queue.popleft()
        if (
            isinstance(value, ATOMS + (float,))
            or id(value) in seen
            or isinstance(value, (type, types.ModuleType, *BUILTIN))
        ):
            continue
        seen.add(id(value))
        if isinstance(value, G.Tensor):
            found.append(value)
        elif isinstance(value, dict):
            queue.extend(dict.values(value))
        elif isinstance(value, (list, tuple, collections.deque)):
            queue.extend(value)
        elif type(value) is types.FunctionType:
            queue.extend(cell.cell_contents for cell in value.__closure__ or () if cell_full(cell))
        elif type(getattr(value, "__dict__", None)) is dict:
            queue.extend(vars(value).values())
    return found


class Sizes:
    """Makes what is `n` long another length: the same dimensions each time, by what a tensor was
    when it was first seen."""

    def __init__(self, n):
        self.n, self.long = n, {}

    def change(self, things, n):
        for t in tensors(things):
            _, long = self.long.setdefault(id(t), (t, [size == self.n for size in t.shape]))
            shape = (
                [n if grows else size for size, grows in zip(t.shape, long)]
                if len(long) == t.dim()
                else list(t.shape)
            )
            if shape == list(t.shape):
                continue
            data = (G.arange(math.prod(shape)) % 7).to(t.dtype)
            with contextlib.suppress(RuntimeError):  # a view, or one with a history, stays as it is
                t.data = (
                    data.reshape(shape[::-1]).T
                    if t.dim() == 2 and not t.is_contiguous()
                    else data.reshape(shape)
                )
                t.grad = None
        self.n = n


def list_places(value, path, stock):
    found = [
        swap(
            lambda i=i: value[i],
            lambda v, i=i: list.__setitem__(value, i, v),
            f"{path}[{i}]",
            stock,
        )
        for i in range(min(len(value), 4))
    ]
    found += [
        (path + ".append", lambda dice: list.append(value, other_value(1, dice, stock))),
        (path + ".reverse", lambda dice: value.reverse()),
    ]
    if value:
        found.append((path + ".pop", lambda dice: value.pop()))
    return found


def dict_places(value, path, stock, keys=None):
    def reorder(dice):
        first = next(iter(value))
        kept = (
            dict.pop(value, first)
            if type(value) is not collections.OrderedDict
            else value.pop(first)
        )
        dict.__setitem__(value, first, kept) if type(
            value
        ) is not collections.OrderedDict else value.__setitem__(first, kept)

    setter = (
        collections.OrderedDict.__setitem__
        if isinstance(value, collections.OrderedDict)
        else dict.__setitem__
    )
    found = [
        swap(
            lambda k=k: dict.__getitem__(value, k),
            lambda v, k=k: setter(value, k, v),
            f"{path}[{k!r}]",
            stock,
        )
        for k in (list(value) if keys is None else keys)[:6]
    ]
    found.append((path + "['z']=", lambda dice: setter(value, "z", other_value(1, dice, stock))))
    if value and keys is None:
        found.append((path + " reorder", reorder))
        first = list(value)[-1]
        found.append((f"{path} del {first!r}", lambda dice: value.__delitem__(first)))
    return found


def function_places(f, path, stock, others):
    found = []
    if f.__defaults__:
        found.append(
            (
                path + ".__defaults__",
                lambda dice: setattr(
                    f, "__defaults__", tuple(other_value(v, dice, stock) for v in f.__defaults__)
                ),
            )
        )
        found.append((path + ".__defaults__=None", lambda dice: setattr(f, "__defaults__", None)))
    if f.__kwdefaults__:
        for k in f.__kwdefaults__:
            found.append(
                swap(
                    lambda k=k: f.__kwdefaults__[k],
                    lambda v, k=k: f.__kwdefaults__.__setitem__(k, v),
                    f"{path}.__kwdefaults__[{k}]",
                    stock,
                )
            )
    for i, cell in enumerate(f.__closure__ or ()):
        if cell_full(cell):
            found.append(
                swap(
                    lambda c=cell: c.cell_contents,
                    lambda v, c=cell: setattr(c, "cell_contents", v),
                    f"{path}.cell{i}",
                    stock,
                )
            )
    for other in others:
        if other is not f and len(other.__code__.co_freevars) == len(f.__code__.co_freevars):
            found.append(
                (
                    f"{path}.__code__={other.__name__}",
                    lambda dice, other=other: setattr(f, "__code__", other.__code__.replace()),
                )
            )
    return found


def places(space, arguments):
    """The mutations that this world offers: [(text, function of the dice)]."""
    stock, found, seen, others = (
        [],
        [],
        set(),
        [
            v
            for v in space.values()
            if type(v) is types.FunctionType and v.__name__ not in ("make", "root")
        ],
    )
    queue = collections.deque((f"arg{i}", v) for i, v in enumerate(arguments))
    for i in range(len(arguments)):
        found.append(
            swap(
                lambda i=i: arguments[i],
                lambda v, i=i: arguments.__setitem__(i, v),
                f"arg{i}",
                stock,
            )
        )
    for name in [
        n
        for n in space
        if n[:2] == "g_"
        or n
        in (
            "net",
            "deq",
            "odict",
            "df",
            "pt",
            "sm",
            "h0",
            "h1",
            "h2",
            "bump",
            "read",
            "hold",
            "fan",
            "len",
            "Base",
            "opaque",
            "Ctx",
            "Child",
            "Num",
            "Slots",
            "Soft",
            "Items",
            "Words",
        )
    ]:
        queue.append((name, space[name]))
        found.append(
            swap(
                lambda n=name: space[n],
                lambda v, n=name: space.__setitem__(n, v),
                "global " + name,
                stock,
            )
        )
    found.append(("global len", lambda dice: space.__setitem__("len", lambda x: 3)))
    found.append(
        ("global isinstance", lambda dice: space.__setitem__("isinstance", lambda x, y: False))
    )
    steps = 0
    while queue and steps < 120:
        path, value = queue.popleft()
        steps += 1
        if isinstance(value, ATOMS + (float,)) or id(value) in seen or isinstance(value, BUILTIN):
            continue
        seen.add(id(value))
        stock.append(value)
        if isinstance(value, G.Tensor):
            found += tensor_places(value, path)
        elif isinstance(value, list):
            found += list_places(value, path, stock)
            queue.extend((f"{path}[{i}]", v) for i, v in enumerate(list(value)[:5]))
        elif isinstance(value, dict):
            found += dict_places(value, path, stock)
            queue.extend((f"{path}[{k!r}]", v) for k, v in list(dict.items(value))[:6])
        elif isinstance(value, tuple):
            queue.extend((f"{path}[{i}]", v) for i, v in enumerate(value[:5]))
        elif isinstance(value, collections.deque):
            found += [
                (
                    path + ".append",
                    lambda dice, value=value: value.append(other_value(1, dice, stock)),
                ),
                (path + ".clear", lambda dice, value=value: value.clear()),
            ]
        elif isinstance(value, set):
            found.append((path + ".add", lambda dice, value=value: value.add(7)))
            found.append((path + ".clear", lambda dice, value=value: value.clear()))
        elif type(value) is types.FunctionType:
            found += function_places(value, path, stock, others)
            if hasattr(value, "__wrapped__"):
                queue.append((path + ".__wrapped__", value.__wrapped__))
        elif type(value) is types.MethodType:
            queue.append((path + ".__self__", value.__self__))
        elif type(value) is types.GeneratorType or hasattr(type(value), "__next__"):
            found.append((path + " next", lambda dice, value=value: next(value, None)))
        elif isinstance(value, type) and value.__module__ == "program":
            for name in [n for n in vars(value) if not n.startswith("_") and n not in ("f",)]:
                now = vars(value)[name]
                if type(now) is types.FunctionType:
                    found.append(
                        (
                            f"{path}.{name} method",
                            lambda dice, value=value, name=name: flip_method(value, name),
                        )
                    )
                    found += function_places(now, f"{path}.{name}", stock, ())
                elif not isinstance(now, (property, classmethod, staticmethod)):
                    found.append(
                        swap(
                            lambda value=value, name=name: vars(value)[name],
                            lambda v, value=value, name=name: setattr(value, name, v),
                            f"{path}.{name}",
                            stock,
                        )
                    )
            found.append(
                (
                    path + ".__getattr__",
                    lambda dice, value=value: setattr(
                        value,
                        "__getattr__",
                        lambda it, name: 9
                        if name[:1] != "_"
                        else object.__getattribute__(it, name),
                    ),
                )
            )
            found.append(
                (
                    path + ".w=",
                    lambda dice, value=value: setattr(value, "w", other_value(1, dice, stock)),
                )
            )
        elif (
            type(value).__module__ == "program"
            and type(value).__name__ != "Color"
            or isinstance(value, (types.SimpleNamespace, G.nn.Module))
        ):
            if type(value).__name__ in ("Level", "Color"):
                continue
            own = getattr(value, "__dict__", None)
            if own is not None:
                names = [n for n in own if isinstance(value, G.nn.Module) or not n.startswith("_")]
                found += [
                    swap(
                        lambda n=n, own=own: own[n],
                        lambda v, n=n, value=value: setattr(value, n, v),
                        f"{path}.{n}",
                        stock,
                    )
                    for n in names
                ]
                found += [
                    (f"{path} del {n}", lambda dice, n=n, own=own: own.pop(n, None))
                    for n in names[-1:]
                ]
                found.append(
                    (
                        path + ".w=",
                        lambda dice, own=own: own.__setitem__("w", other_value(1, dice, stock)),
                    )
                )
                found.append(
                    (path + ".get=", lambda dice, own=own: own.__setitem__("get", lambda *a: a))
                )
                queue.extend((f"{path}.{n}", v) for n, v in own.items())
            elif type(value).__name__ == "Slots":
                found.append(
                    swap(
                        lambda value=value: value.v,
                        lambda v, value=value: setattr(value, "v", v),
                        path + ".v",
                        stock,
                    )
                )
                found.append(
                    (
                        path + ".w=",
                        lambda dice, value=value: setattr(value, "w", other_value(1, dice, stock)),
                    )
                )
            if type(value).__name__ in ("Base", "Child", "Num", "Soft"):
                kinds = [
                    space[n]
                    for n in ("Base", "Child", "Num", "Soft")
                    if isinstance(space.get(n), type)
                ]
                found.append(
                    (
                        path + ".__class__",
                        lambda dice, value=value, kinds=kinds: setattr(
                            value, "__class__", dice.choice(kinds)
                        ),
                    )
                )
            if isinstance(value, G.nn.Module):
                for table in ("_parameters", "_buffers", "_modules"):
                    if table in vars(value):
                        queue.append((f"{path}.{table}", vars(value)[table]))
                found.append(
                    (path + ".train", lambda dice, value=value: value.train(not value.training))
                )
                found.append(
                    (
                        path + ".hook",
                        lambda dice, value=value: value.register_forward_hook(
                            lambda m, x, y: (y, 1) if not isinstance(y, G.Tensor) else y + 1
                        ),
                    )
                )
    return found
