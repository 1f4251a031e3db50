# SPDX-License-Identifier: Apache-2.0
"""Writes small Python programs with state: the grammar of the stateful fuzzer (see
state_programs.py).

A program is a module.  PRELUDE's classes come first, then its globals, a few random functions that
share cells, defaults and globals, `root`, and `make`, which returns the arguments for it.  A rule
is a template in a table: `$i` stands for a random expression of the type i, `$B` alone on a line
for a block.  Most programs
run to their end: an expression that may raise (a rule with "!") is rare, and a statement with "!"
stands mostly inside a try.  Invariant: the text depends on the seed alone.

Types: i int, f float, s str, k key (a short str), b bool, t tensor, l list, d dict, o object, c
callable of one argument, q iterable, u set, a anything, e exception type.
"""

import random
import re

import state_features

PRELUDE = """\
import collections, contextlib, dataclasses, enum, functools, itertools, math, operator, types, typing
import gramme as G
from collections import OrderedDict, defaultdict, deque, namedtuple

class Color(enum.Enum):
    RED = 1
    BLUE = 2

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5

Pair = namedtuple("Pair", "a b")

@dataclasses.dataclass
class Point:
    x: object = 1
    y: object = 2

class Field:
    def __init__(self, start):
        self.start = start
    def __set_name__(self, owner, name):
        self.slot = "_" + name
    def __get__(self, it, owner):
        return self if it is None else it.__dict__.get(self.slot, self.start)
    def __set__(self, it, value):
        it.__dict__[self.slot] = value

class Base:
    kind = 3
    table = {"k": 1}
    f = Field(7)
    def __init__(self, v):
        self.v = v
    def get(self, k=1):
        return self.v
    def put(self, v):
        self.v = v
        return self
    @property
    def both(self):
        return [self.v, self.kind]
    @both.setter
    def both(self, v):
        self.v = v
    @classmethod
    def make(cls, v):
        return cls(v)
    @staticmethod
    def twice(v):
        return (v, v)
    def __repr__(self):
        return type(self).__name__

class Child(Base):
    def get(self, k=2):
        return super().get(k)
    def put(self, v):
        self.last = self.v
        return super().put((v,))

class Slots:
    __slots__ = ("v", "w", "kind")
    def __init__(self, v):
        self.v = v
        self.kind = 4
    def get(self):
        return self.v
    def put(self, v):
        self.w = self.v
        self.v = v
        return self
    def __repr__(self):
        return "Slots"

class Soft:
    kind = 5
    def __init__(self, v):
        self.v = v
        self.asked = 0
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.asked += 1
        return (lambda *a: (name, a)) if name in ("get", "put") else name
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name == "v":
            object.__setattr__(self, "set", name)
    def __delattr__(self, name):
        object.__setattr__(self, "deleted", name)
        object.__delattr__(self, name)
    def __repr__(self):
        return "Soft"

class Num:
    kind = 6
    def __init__(self, v):
        self.v = v
    def get(self):
        return self.v
    def put(self, v):
        self.v = v
        return self
    def __add__(self, o):
        return Num((self.v, "+", o.v if isinstance(o, Num) else o))
    def __radd__(self, o):
        return NotImplemented if isinstance(o, str) else Num((o, "+", self.v))
    def __iadd__(self, o):
        self.v = (self.v, "+=")
        return self
    def __eq__(self, o):
        return isinstance(o, Num) and self.v is o.v
    def __lt__(self, o):
        return self.kind < getattr(o, "kind", 0)
    def __hash__(self):
        return 5
    def __bool__(self):
        return self.kind != 0
    def __len__(self):
        return self.kind
    def __getitem__(self, i):
        if i == 2:
            raise IndexError(i)
        return (i, self.v)
    def __setitem__(self, i, v):
        self.v = (i, v)
    def __contains__(self, o):
        return o == 3
    def __call__(self, q=1):
        return (q, self.kind)
    def __repr__(self):
        return "Num"

class Meta(type):
    def __call__(cls, *args):
        it = super().__call__(*args)
        it.made = len(args)
        return it
    def __len__(cls):
        return 2
    @property
    def title(cls):
        return cls.__name__.lower()

class Made(metaclass=Meta):
    kind = 8
    heirs = ()
    def __init_subclass__(cls, k=0):
        super().__init_subclass__()
        Made.heirs += ((cls.__name__, k),)
    def __init__(self, v=1):
        self.v = v
    def get(self):
        return self.v
    def put(self, v):
        self.v = v
        return self
    def __format__(self, spec):
        return f"<{spec}>"
    def __repr__(self):
        return "Made"

class Watched:
    kind = 9
    def __init__(self, v):
        self.v = v
    def __getattribute__(self, name):
        if name == "get":
            return lambda k=1: (name, object.__getattribute__(self, "v"))
        return object.__getattribute__(self, name)
    def put(self, v):
        self.v = v
        return self
    def __repr__(self):
        return "Watched"

class Lazy(Base):
    @functools.cached_property
    def slow(self):
        return [self.v]
    @property
    def w(self):
        return self.__dict__.get("w", 0)
    @w.setter
    def w(self, v):
        self.__dict__["w"] = (v,)
    @w.deleter
    def w(self):
        self.__dict__.pop("w")

class Steps:
    kind = 10
    def __init__(self, v, n=3):
        self.v, self.n = v, n
    def __iter__(self):
        self.begun = True
        return self
    def __next__(self):
        if self.n <= 0:
            raise StopIteration(self.v)
        self.n -= 1
        return (self.n, self.v)
    def get(self):
        return self.n
    def put(self, v):
        self.v = v
        return self
    def __repr__(self):
        return "Steps"

@dataclasses.dataclass(frozen=True, order=True)
class Cold:
    x: int = 1
    y: tuple = ()
    def moved(self):
        return dataclasses.replace(self, x=self.x + 1)

@dataclasses.dataclass
class Bag:
    v: object = None
    items: list = dataclasses.field(default_factory=list)
    kind: int = 7
    def __post_init__(self):
        self.items.append(self.kind)
    def get(self):
        return self.items
    def put(self, v):
        self.items.append(v)
        return self

class Bits(enum.IntFlag):
    A = 1
    B = 2

class Row(typing.NamedTuple):
    a: int = 1
    b: object = None
    def total(self):
        return (self.a, self.b)

@functools.singledispatch
def kindly(x):
    return ("any", x)

@kindly.register
def _(x: int):
    return ("int", x)

@kindly.register(list)
def _(x):
    return ("list", len(x))

class Items(list):
    def append(self, v):
        super().append(v)
        self.last = v
    def __setitem__(self, i, v):
        super().__setitem__(i, (v,))

class Words(dict):
    def __missing__(self, k):
        return ("no", k)
    def __setitem__(self, k, v):
        super().__setitem__(k, v)
        self.stored = k

class Err(Exception):
    def __init__(self, code, *more):
        super().__init__(code, *more)
        self.code = code

class Ctx:
    def __init__(self, out, catches=()):
        self.out, self.catches = out, catches
    def __enter__(self):
        self.out.append("enter")
        return self
    def __exit__(self, kind, value, tb):
        self.out.append(("exit", kind))
        return kind is not None and issubclass(kind, self.catches)

@contextlib.contextmanager
def managed(out):
    out.append("in")
    try:
        yield out
    except ValueError as e:
        out.append(("caught", e.args))
    finally:
        out.append("out")

def logged(f):
    calls = []
    @functools.wraps(f)
    def wrapper(*args, **kw):
        calls.append(len(args))
        return f(*args, **kw)
    wrapper.calls = calls
    return wrapper

class Net(G.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = G.nn.Parameter(G.arange(3.0) + 1)
        self.sub = G.nn.Linear(3, 3)
        with G.no_grad():
            self.sub.weight.fill_(0.5); self.sub.bias.fill_(0.25)
        self.register_buffer("seen", G.zeros(3))
        self.scale = 2
    def forward(self, x):
        with G.no_grad():
            self.seen.add_(1)
        if self.training:
            x = x * self.scale
        return self.sub(x) + self.w

def make_cells(n, held):
    def bump(k=1):
        nonlocal n
        n += k
        return n
    def read():
        return n
    def hold(v=None):
        nonlocal held
        held, v = v, held
        return v
    return bump, read, hold

def counting(n, out):
    got = None
    try:
        for i in range(n):
            got = yield i if got is None else (i, got)
            out.append(got)
        return "end"
    finally:
        out.append("closed")

def relay(n, out):
    r = yield from counting(n, out)
    yield r

def fails(k, out=None):
    try:
        if k == 0:
            raise Err(k, "zero")
        if k == 1:
            return {}["missing"]
        if k == 2:
            try:
                [][k]
            except IndexError as e:
                raise ValueError("two") from e
        if k == 3:
            try:
                {}["inner"]
            except KeyError:
                raise TypeError("three")
        return "fine"
    finally:
        if out is not None:
            out.append(("fails", k))

def guarded(n, out):
    with Ctx(out, (ValueError,)):
        for i in range(n):
            try:
                got = yield i
            except Err as e:
                out.append(e)
                got = "err"
            if got:
                out.append(got)
    return n

def deeper(k, out=None):
    with Ctx([] if out is None else out, (IndexError,)):
        return fails(k, out)
"""

EXPRESSIONS = {
    "i": [
        "@int",
        "@int",
        "$V",
        "$V",
        "($i + $i)",
        "($i - $i)",
        "($i % 3)",
        "len($l)",
        "len($d)",
        "($i if $b else $i)",
        "$o.kind",
        "bump()",
        "bump(k=$i)",
        "read()",
        "$t.dim()",
        "int($b)",
        "$l.count($i)",
        "max($i, $i)",
        "min($i, 2)",
        "ord($s[:1] or 'z')",
        "Color.RED.value",
        "!(Level.HIGH + $i)",
        "g_i",
        "abs($i)",
        "$s.count('a')",
        "!sum(x for x in $q if type(x) is int)",
        "h0($i)",
        "len(args)",
        "operator.add($i, $i)",
        "-$i",
        "!~$i",
        "($i << 1 & 15)",
        "($i and $i)",
        "($i or $i)",
        "$t.shape[-1:].__len__()",
        "divmod($i, 3)[1]",
        "!(lambda x, y=$i: x + y)($i)",
        "!type($o).kind",
        "!round($f)",
        "$l.__len__()",
        "len($u)",
        "$i.bit_length()",
        "int('12', 8)",
        "len(Made)",
        "!($i // $i)",
        "pow($i, 2)",
        "sum(x is None for x in $l)",
        "hash((1, $i))",
        "$s.find('b')",
        "b'ab'[0]",
        "Bits.A.value",
        "len(g_long)",
        "g_long[$i]",
        "($l.index($i) if $i in $l else $i)",
        "sum([1, $i], $i)",
        "(Cold(1) < Cold(2)) + $i",
        "int.from_bytes(b'a', 'big')",
        "kindly($i)[1]",
        "($i if 0 < $i < 3 else $i)",
        "functools.reduce(operator.add, [1, $i], $i)",
    ],
    "f": [
        "1.5",
        "-0.0",
        "0.1",
        "$V",
        "($f + $f)",
        "($f * $i)",
        "!float($i)",
        "($i / 2)",
        "!$t.sum().item()",
        "math.floor($f)",
        "!math.sqrt(2.0)",
        "abs($f)",
        "!float('nan')",
    ],
    "s": [
        "'a'",
        "'ab'",
        "''",
        "$V",
        "($s + $s)",
        "str($i)",
        "f'{$n}:{$n:>3}'",
        "f'{$V!r:>5}'",
        "$s.upper()",
        "'-'.join(map(str, $q))",
        "'%s=%r' % ($i, $s)",
        "!repr($o)",
        "type($a).__name__",
        "$s[::-1]",
        "h0.__name__",
        "'{} {}'.format($i, $s)",
        "!$s.replace('a', $s)[:9]",
        "Color.BLUE.name",
        "str($b)",
        "repr($f)",
        "type($o).__qualname__",
        "$s.split('b')[0]",
        "$s.partition('b')[2]",
        "$s.zfill(3)",
        "$s.center(4, '*')",
        "f'{$n:03d}|{$n:.2f}'",
        "f'{Made():x}{$n=}'",
        "'{a}'.format_map({'a': $i})",
        "$s.strip('a')",
        "','.join(sorted('ba'))",
        "Made.title",
        "str(Bits(3))",
        "repr(Cold($i))",
        "$s.encode().hex()",
        "''.join(reversed($s))",
        "'%(k)s' % {'k': $i}",
        "f'{$V!r:^{len($V) + 4}}'",
        "(1).to_bytes(1, 'big').decode() + $s",
    ],
    "k": ["'k'", "'m'", "'z'", "$V"],
    "b": [
        "True",
        "False",
        "($i > $i)",
        "($i == $i)",
        "(0 < $i <= 3)",
        "(not $b)",
        "($a is $a)",
        "($l is $l)",
        "($t is $t)",
        "($o is $o)",
        "($k in $d)",
        "($i in $l)",
        "bool($l)",
        "isinstance($a, int)",
        "isinstance($o, (Base, Num))",
        "hasattr($o, 'w')",
        "($s == $s)",
        "($s < 'b')",
        "callable($a)",
        "$V",
        "($a is None)",
        "any($q)",
        "all(x is not None for x in $q)",
        "$t.requires_grad",
        "(type($a) is list)",
        "($o == $o)",
        "($d is g_d)",
        "($i != $f)",
        "G.is_grad_enabled()",
        "issubclass(type($o), Base)",
        "!($o < $o)",
        "bool($o)",
        "!(3 in $o)",
        "!(Color.RED is Color(1))",
        "($d == $d)",
        "!($d.keys() == {'k'})",
        "$s.startswith('a')",
        "$t.is_contiguous()",
        "($t.dtype is G.float32)",
        "(len($d) and $i < 2)",
        "($i in $u)",
        "({1} <= $u)",
        "(Bits.A in Bits(3))",
        "(Cold(1) == Cold($i))",
        "isinstance($a, (int, str))",
        "($s.isalpha() or $b)",
        "issubclass(Lazy, (Base, Made))",
        "(not not $q)",
        "(g_line is deq)",
        "($u == g_set)",
        "$u.isdisjoint({1, 9})",
        "(1 in g_map)",
        "all(map(callable, [$c]))",
        "$t.requires_grad is $b",
        "(Row() == (1, None))",
    ],
    "t": [
        "$V",
        "$V",
        "$V",
        "g_t",
        "($t + $t)",
        "($t * $i)",
        "($i - $t)",
        "($t * $f)",
        "$t.tanh()",
        "$t.sum()",
        "!G.where($t > 0, $t, $t)",
        "!net($t)",
        "net.w",
        "net.seen",
        "$t.detach()",
        "$t.view(-1)",
        "$t.clone()",
        "-$t",
        "($t / 2)",
        "!$t.unsqueeze(0)",
        "!$t[..., 0]",
        "!$t[0]",
        "$t.to(G.float64)",
        "$t.mean()",
        "$t.reshape(-1)",
        "G.zeros(3)",
        "G.ones(2, 3)",
        "G.arange(3.0)",
        "!($t @ $t)",
        "!$t.expand(2, 3)",
        "!$t.T",
        "!$t.max()",
        "!G.stack([$t, $t])",
        "!$t.requires_grad_()",
        "h1($t)",
        "$t.contiguous()",
        "!$t[..., 1:]",
        "$t.exp()",
        "!($t > $t)",
        "$t.relu()",
        "!G.full((3,), $i)",
        "$t.squeeze()",
        "!$t.flip(0)",
        "!G.cat([$t, $t])",
        "$t.abs()",
        "!$t.transpose(0, -1)",
        "!$t.add_($i)",
        "!$t.narrow(0, 0, 1)",
        "!$t.view(-1, 1)",
        "!$t.chunk(2)[0]",
        "!$t.cumsum(0)",
        "!$t.sort().values",
        "$t.sigmoid()",
        "!$t.clamp($i, 2)",
        "!$t[:, None]",
        "!$t.softmax(-1)",
        "sum([$t, $t])",
        "!$t.mul_($t)",
        "!G.einsum('...i->...', $t)",
        "!$t.masked_fill($t > 1, $i)",
        "$t.clone().zero_()",
        "!$t.prod()",
        "!$t.sin_()",
        "!$t[G.tensor([$i])]",
        "!$t.index_select(0, G.tensor([0, $i]))",
        "!$t[(g_t[:1] * $i).long()]",
        "!G.linalg.inv($t.view(-1)[:1].view(1, 1) * $i)",
    ],
    "l": [
        "[]",
        "[$a, $a]",
        "$V",
        "$V",
        "g_l",
        "list($q)",
        "[x for x in $q]",
        "[(x, $i) for x in $q if x != 1]",
        "$l[:]",
        "($l + $l)[:5]",
        "!sorted($d)",
        "list($d.values())",
        "$l[::-1]",
        "[*$q, $a]",
        "$l[1:]",
        "!$o.both",
        "Items([$i, $a])",
        "[[x, y] for x in $q for y in [$i]]",
        "$d.setdefault($k, [])",
        "!list(map($c, $q))",
        "!g_d['l']",
        "sorted([$i, $i, 2], key=lambda x: -x)",
        "list(zip($q, $q))",
        "copy_list($l)",
        "[$i] * 2",
        "list(enumerate($q, $i))",
        "list(reversed($l))",
        "list(deq)",
        "list($d.items())[:2]",
        "!g_o.items",
        "fan($l, *$q)",
        "[x for x in $q if not isinstance(x, (list, dict))][:4]",
        "$l * 2",
        "sorted([3, $i, 1], reverse=True)",
        "[y for x in [$l, $l] for y in x][:6]",
        "list(itertools.accumulate([1, $i, 2]))",
        "list(itertools.chain.from_iterable([$l, 'ab']))[:5]",
        "g_long[:4]",
        "sorted(g_many)[:3]",
        "list(map(kindly, [$i, $l, $s]))",
        "[f() for f in [lambda i=i: i for i in range(2)]]",
        "list(g_line)[-3:]",
        "sorted(['b', 'a', $s], key=len)",
        "list(collections.Counter('aab').items())",
        "[i for i, x in enumerate($l) if x is not None]",
        "sorted([$i, 2, 1], key=functools.cmp_to_key(lambda a, b: b - a))",
        "[0] * ($i % 3)",
        "!$o.slow",
    ],
    "d": [
        "{}",
        "{'k': $a}",
        "{$k: $i, 'm': $a}",
        "$V",
        "$V",
        "g_d",
        "dict($d)",
        "{**$d, 'z': $i}",
        "{x: $i for x in 'km'}",
        "dict(zip('km', $q))",
        "OrderedDict(k=$i, m=$a)",
        "$d.copy()",
        "!vars($o)",
        "Words(k=$a)",
        "Base.table",
        "($d | {'k': $i})",
        "defaultdict(list, m=[$i])",
        "gather(k=$i, **$d)",
        "!g_o.table",
        "odict",
        "{k: v for k, v in $d.items() if k != 'm'}",
        "g_map",
        "{x: x for x in range(18)}",
        "dict(sorted({'b': 1, 'a': $i}.items()))",
        "{**g_map, $k: $a}",
        "collections.Counter($s)",
        "dict(enumerate($q))",
        "dataclasses.asdict(Cold())",
        "Row($i, $a)._asdict()",
        "{k: $a for k in ('k', 'm')}",
        "dict([('k', $a)], m=$i)",
        "collections.ChainMap($d, g_d).maps[0]",
    ],
    "o": [
        "$V",
        "$V",
        "$V",
        "g_o",
        "Base($a)",
        "Child($i)",
        "Slots($a)",
        "Soft($i)",
        "!Num($i)",
        "($o if $b else $o)",
        "Base.make($a)",
        "Point($i, $a)",
        "sm",
        "Child.make($i)",
        "$o.put($a)",
        "!(Num(1) + $a)",
        "Made($a)",
        "Watched($a)",
        "Lazy($a)",
        "Steps($a)",
        "Bag($a)",
        "!Lazy($a).put($i)",
        "Made()",
    ],
    "c": [
        "h0",
        "h1",
        "h2",
        "(lambda x: x)",
        "(lambda x: (x, $i))",
        "hold",
        "$V",
        "Base",
        "functools.partial(h1, q=$i)",
        "$o.put",
        "!$l.append",
        "!Base.twice",
        "!type",
        "!str",
        "!net",
        "!Num($i)",
        "logged(h0)",
        "!operator.itemgetter(0)",
        "!len",
        "($c if $b else $c)",
        "!$d.get",
        "g_c",
        "id_",
        "kindly",
        "!operator.attrgetter('kind')",
        "!operator.methodcaller('get')",
        "(lambda *a, **k: (a, k))",
        "!$u.add",
        "!g_line.append",
        "functools.partial(fan, $i)",
        "!$l.index",
        "!Cold",
        "Made",
        "!dict.fromkeys",
        "!sorted",
        "!iter",
    ],
    "q": [
        "$l",
        "$d",
        "range($i % 4)",
        "range(2)",
        "'ab'",
        "(1, $i)",
        "$s",
        "$d.items()",
        "$d.values()",
        "zip($l, 'ab')",
        "enumerate($l)",
        "g_pairs",
        "itertools.islice(g_count, 2)",
        "zip(g_half, 'ab')",
        "(x for x in $l)",
        "counting(2, out)",
        "relay(2, out)",
        "map(h0, range(2))",
        "reversed([1, $i])",
        "filter(None, $l)",
        "itertools.chain($l, [$i])",
        "itertools.islice($l, 2)",
        "iter($l)",
        "deq",
        "Pair($i, $a)",
        "g_it",
        "!sorted(g_set)",
        "$l[:3]",
        "map(lambda x, y: (x, y), $l, $l)",
        "zip(range(2), counting(3, out))",
        "itertools.islice(itertools.count($i), 2)",
        "$d.keys()",
        "itertools.repeat($i, 2)",
        "tuple($l)",
        "odict.items()",
        "(x + 1 for x in (1, $i))",
        "itertools.product('ab', [1, $i])",
        "itertools.zip_longest($l, 'ab', fillvalue=$i)",
        "itertools.pairwise($l)",
        "itertools.takewhile(callable, [len, $i])",
        "itertools.starmap(lambda x, y: (y, x), [(1, $i)])",
        "itertools.combinations($l[:3], 2)",
        "itertools.groupby([1, 1, $i])",
        "itertools.compress($l, [1, 0, 1])",
        "Steps($i, 2)",
        "guarded(2, out)",
        "g_line",
        "sorted($u, key=str)",
        "itertools.dropwhile(lambda x: x is None, $l)",
        "zip($l, Steps(1, 2))",
        "zip(Steps(1, 2), $l)",
        "map(lambda x, y: y, 'ab', Steps($i, 1))",
        "enumerate(Steps(1, 1))",
        "g_long",
        "!$o",
        "itertools.tee($l)[1]",
        "(y for x in $l for y in (x, 1))",
        "{1: $i}.items()",
        "itertools.permutations([1, $i])",
        "g_map",
        "filter(lambda x: x is not None, $l)",
    ],
    "a": [
        "$i",
        "$i",
        "$f",
        "$s",
        "$b",
        "None",
        "$t",
        "$t",
        "$l",
        "$d",
        "$o",
        "$c",
        "($a, $i)",
        "Color.RED",
        "Pair($a, $i)",
        "$V",
        "$o.v",
        "$o.get()",
        "!$c($a)",
        "$d.get($k)",
        "$d.get($k, $a)",
        "!$l[0]",
        "!$l[-1]",
        "!$d[$k]",
        "getattr($o, $k, $i)",
        "!$o.w",
        "next(iter($q), None)",
        "next(g_it, $i)",
        "next(g_pairs, $i)",
        "next(g_zip, None)",
        "next(g_walk, $i)",
        "next(g_count)",
        "!next(g_half)",
        "next(g_any, $i)",
        "getattr($t, 'mark', $i)",
        "!$t.mark",
        "hold($a)",
        "held_gen(2)",
        "...",
        "!Color($i)",
        "h2($a)",
        "!h2($a, q=$i)",
        "g_a",
        "!deq[0]",
        "Level.LOW",
        "!{$i, 2}",
        "frozenset('ab')",
        "slice($i, 2)",
        "range($i)",
        "(x for x in $l)",
        "iter($l)",
        "!$o.f",
        "type($o)",
        "list(g_set) if $b else $i",
        "!$o[$i]",
        "!$o($i)",
        "$t.grad",
        "!functools.reduce(lambda x, y: (x, y), $q, $i)",
        "!deq.popleft()",
        "!odict.popitem()",
        "df[$k]",
        "!pt.x",
        "pt",
        "$t.shape",
        "$t.dtype",
        "b'ab'",
        "!complex($i, 1)",
        "!max($q, default=None)",
        "(*$q,)",
        "sm.a",
        "g_p.a",
        "dict.fromkeys($q, $i)",
        "!$t.item()",
        "!$t.tolist()",
        "Cold($i)",
        "Cold().moved()",
        "Row($i)",
        "Row($i, $a).total()",
        "Bits.A | Bits.B",
        "Bits($i & 3)",
        "kindly($a)",
        "Made.heirs",
        "$u",
        "set($u)",
        "frozenset($u)",
        "!$o.slow",
        "!Cold($i).x.bad",
        "b'abc'[1:]",
        "bytes([1, 2])",
        "bytearray(b'a')",
        "g_map.get($i)",
        "(g_line[0] if g_line else None)",
        "(lambda: (yield))",
        "divmod($i, 2)",
        "[*$q][:2]",
        "!next($q)",
        "types.SimpleNamespace(a=$a)",
        "!g_map[$i]",
        "collections.deque($l, 3)",
        "$l[::2]",
        "$s[1:]",
        "operator.attrgetter('kind')($o)",
        "!vars($o)",
    ],
    "u": [
        "g_set",
        "g_set",
        "g_many",
        "{1, $i}",
        "set($s)",
        "($u | {$i})",
        "($u - {1})",
        "($u & {1, $i})",
        "($u ^ {2})",
        "set(range(18))",
        "{x % 3 for x in range(4)}",
        "$V",
        "!set($q)",
        "g_many.copy()",
        "set()",
    ],
    "e": [
        "Err",
        "KeyError",
        "IndexError",
        "(ValueError, LookupError)",
        "Exception",
        "ValueError",
        "TypeError",
        "AttributeError",
        "Exception",
        "Exception",
        "BaseException",
        "RuntimeError",
    ],
}

STATEMENTS = [
    # (weight, template); `N:x` at the start declares a new variable of type x, whose name is $N
    (3, "N:i $N = $i"),
    (1, "N:f $N = $f"),
    (1, "N:s $N = $s"),
    (1, "N:b $N = $b"),
    (3, "N:t $N = $t"),
    (2, "N:l $N = $l"),
    (2, "N:d $N = $d"),
    (2, "N:o $N = $o"),
    (1, "N:c $N = $c"),
    (2, "N:a $N = $a"),
    (3, "$W = $w"),
    (2, "I = $i"),
    (4, "out.append($a)"),
    (2, "out.append(($a, $b))"),
    (1, "out.append($b)"),
    (1, "out.append($s)"),
    (1, "out.append($l)"),
    (1, "out.append($d)"),
    # containers
    (3, "$l.append($a)"),
    (1, "$l.insert($i, $a)"),
    (1, "!$l.pop()"),
    (1, "$l.extend($q)"),
    (1, "!$l.reverse()"),
    (2, "!$l[0] = $a"),
    (1, "!$l[$i] = $a"),
    (1, "!del $l[0]"),
    (1, "$l[1:2] = [$a, $i]"),
    (1, "!$l.clear()"),
    (1, "!$l.sort(key=str)"),
    (1, "!$l.remove($i)"),
    (3, "$d[$k] = $a"),
    (1, "!del $d[$k]"),
    (1, "$d.pop($k, None)"),
    (1, "$d.update(m=$a)"),
    (1, "$d.setdefault($k, $a)"),
    (1, "!$d.popitem()"),
    (1, "$d.clear()"),
    (1, "!deq.append($a)"),
    (1, "!deq.rotate(1)"),
    (1, "!deq.appendleft($i)"),
    (1, "odict['m'] = $a"),
    (1, "!odict.move_to_end('k')"),
    (1, "!odict.popitem(last=False)"),
    (1, "!df[$k].append($i)"),
    (1, "g_set.add($i)"),
    (1, "g_set.discard($i)"),
    (1, "g_set.add($k)"),
    (1, "!x, *y = $q\nout.append((x, y))"),
    (1, "x, y = $i, $a\nx, y = y, x\nout.append((x, y))"),
    (1, "x = $d\nx |= {$k: $i}"),
    # objects
    (3, "$o.v = $a"),
    (2, "$o.w = $a"),
    (1, "$o.kind = $i"),
    (2, "$o.put($a)"),
    (1, "!$o.both = $a"),
    (1, "!del $o.v"),
    (1, "!del $o.w"),
    (1, "$o.f = $a"),
    (1, "Base.kind = $i"),
    (1, "Base.table[$k] = $a"),
    (1, "setattr($o, $k, $a)"),
    (1, "!$O += $i"),
    (1, "!$o[0] = $a"),
    (1, "pt.x = $a"),
    (1, "sm.a = $i"),
    (1, "!Child.kind = $i"),
    (1, "!del Child.kind"),
    (1, "!h0.note = $a"),
    (1, "!h2.__defaults__ = ($i,)"),
    (1, "!type($o).w = $i"),
    (1, "!$o.__class__ = Child"),
    (1, "!$o.__dict__['v'] = $i"),
    (1, "!$o.v += 1"),
    (1, "$o.get = lambda k=$i: k"),
    # globals and cells
    (2, "global g_i\ng_i = $i"),
    (1, "global g_a\ng_a = $a"),
    (1, "global g_l\ng_l = $l"),
    (1, "bump($i)"),
    (1, "hold($a)"),
    (1, "global g_t\ng_t = $t"),
    (1, "g_d[$k] = $a"),
    (1, "globals()['g_i'] = $i"),
    (1, "global g_x\ng_x = $i"),
    (1, "global g_x\ndel g_x"),
    (1, "global g_c\ng_c = $c"),
    (1, "!g_it = 1"),
    # tensors
    (1, "$t.mark = $a"),
    (1, "!del $t.mark"),
    (1, "$T.mark = [$t]\nout.append($T)"),
    (2, "!$T.add_($i)"),
    (1, "!$T.mul_($t)"),
    (1, "!$T[0] = $i"),
    (1, "!$T += $i"),
    (1, "!$t[..., 0] = $t"),
    (1, "!$T.zero_()"),
    (1, "!with G.no_grad():\n    $t.add_($i)"),
    (1, "!$T.requires_grad_($b)"),
    (1, "!$t.sum().backward()"),
    (1, "!(net($t).sum() * $i).backward()"),
    (1, "!net.scale = $i"),
    (1, "!net.train($b)"),
    (1, "!$t[(g_t[1:2] * $i).long()]"),
    (1, "!out.append($i)\n$T.add_($i)\n$t[G.tensor([$i + 1])]\nout.append($i)"),
    (1, "!net.extra = $t"),
    (1, "!net.seen = G.ones(3)"),
    (1, "!net.register_forward_hook(lambda m, x, y: out.append('hook') or y * 2)"),
    (1, "!$T.copy_($t)"),
    (1, "!$t.grad = None"),
    (1, "with G.no_grad():\n$B"),
    (1, "!$T = $t.detach()"),
    (1, "with G.enable_grad():\n$B"),
    # control
    (4, "if $b:\n$B"),
    (2, "if $b:\n$B\nelse:\n$B"),
    (3, "for x in $q:\n$B"),
    (1, "for x, y in zip($q, $q):\n    out.append((x, y))\n$B"),
    (1, "w = 0\nwhile w < 2:\n    w += 1\n$B"),
    (1, "for x in $q:\n$B\nelse:\n$B"),
    (1, "if (x := $i) > 1:\n    out.append(x)\n$B"),
    (1, "?return $a"),
    (1, "?raise $E"),
    (1, "!assert $b, $s"),
    (
        1,
        (
            "match $a:\n    case 0 | 1:\n    $B\n    case [x, *y]:\n        out.append((x, y))\n   "
            " case {'k': x}:\n        out.append(x)\n    case Base(v=x):\n        out.append(x)\n  "
            "  case str() | None:\n        out.append('s')\n    case _:\n    $B"
        ),
    ),
    (1, "%if $b:\n    break"),
    (1, "%if $b:\n    continue"),
    # exceptions
    (6, "try:\n$B\nexcept $e as e:\n    out.append((type(e).__name__, e.args))"),
    (2, "try:\n    out.append($a)\nexcept Exception as e:\n    out.append(e)"),
    (2, "try:\n    fails($i, out)\nexcept $e as e:\n    out.append(e)\n$B"),
    (1, "try:\n$B\nfinally:\n$B"),
    (1, "try:\n$B\nexcept $e:\n$B\nelse:\n$B\nfinally:\n    out.append('f')"),
    (1, "try:\n    deeper($i, out)\nexcept Exception as e:\n    raise RuntimeError($i) from e"),
    (1, "try:\n    fails($i)\nexcept Exception:\n$B\n    raise"),
    (2, "with Ctx(out, $e):\n$B"),
    (1, "with managed(out) as x, Ctx(out):\n$B"),
    (1, "with contextlib.suppress(Exception):\n$B"),
    (1, "!deeper($i, out)"),
    (1, "try:\n    $l[9]\nexcept IndexError as e:\n    out.append((e.__context__, str(e)))"),
    # generators
    (1, "!it = counting($i, out)\nout.append((next(it, 9), list(it)))"),
    (1, "!it = relay(2, out)\nout.append((next(it), it.send($a), it))"),
    (1, "!it = counting(3, out)\nnext(it, 0)\nit.close()"),
    (1, "!out.append(next(g_it, 'none'))"),
    (
        1,
        (
            "!it = relay(3, out)\nnext(it)\ntry:\n    it.throw(Err($i))\nexcept Err as e:\n    "
            "out.append(e)"
        ),
    ),
    (1, "!x = iter($q)\nout.append((next(x, None), x))"),
    (1, "g_gen.send(None)"),
    (1, "!out.append(next(g_gen, 'over'))"),
    (1, "!it = guarded(3, out)\nnext(it)\nout.append(it.throw(Err($i)))"),
    (1, "!it = guarded(2, out)\nfor x in it:\n    out.append(x)\n$B"),
    (1, "!it = guarded(3, out)\nnext(it)\nit.throw(ValueError($i))"),
    (1, "!x = Steps($a, 2)\nout.append((next(x), list(x), x.begun))"),
    (1, "it = itertools.groupby([1, 1, 2, $i])\nfor x, y in it:\n    out.append((x, list(y)))"),
    # functions
    (
        1,
        (
            "!class Heir(Made, k=$i):\n    v2 = $a\nout.append((Heir.heirs, Heir($i).made, "
            "Heir.title))"
        ),
    ),
    (
        1,
        (
            "with contextlib.ExitStack() as x:\n    x.enter_context(Ctx(out, $e))\n    "
            "x.callback(out.append, $a)\n$B"
        ),
    ),
    (1, "!$o.slow.append($i)"),
    (1, "!del $o.w, $o.v"),
    (1, "!Cold($i).x = 2"),
    (1, "x = Bag($a)\nx.put($i)\nout.append(x)"),
    (
        1,
        (
            "for x in range(2):\n    try:\n        if x == $i:\n            continue\n        "
            "out.append(x)\n    finally:\n        out.append('l')"
        ),
    ),
    (
        1,
        (
            "def f(k=$i):\n    try:\n        return (k, $a)\n    finally:\n        "
            "out.append('fin')\nout.append(f())"
        ),
    ),
    (1, "!(x, *y), z = $l, $i\nout.append((x, y, z))"),
    (
        1,
        (
            "match $a:\n    case Cold(x=1) | Row(a=1):\n    $B\n    case {'k': 1, **x}:\n        "
            "out.append(x)\n    case (1, x) | [x]:\n        out.append(('one', x))\n    case "
            "Color.RED | Bits.A:\n        out.append('red')\n    case int(x) if x > 1:\n        "
            "out.append(x)\n    case float() as x:\n        out.append(x)"
        ),
    ),
    (2, "N:c def $N(x, *args, q=$i):\n    out.append((x, q))\n$B\n    return $a"),
    (
        1,
        (
            "N:c n = $i\ndef $N(x=$a):\n    nonlocal n\n    n += 1\n    return (n, "
            "x)\nout.append($N())"
        ),
    ),
    (1, "N:c $N = lambda x=$a, *y: (x, y, $i)"),
    (
        1,
        (
            "!class Local(Base):\n    kind = $i\n    def get(self):\n        return ($i, "
            "super().get())\nout.append(Local($i).get())"
        ),
    ),
    (1, "out.append(h2($a, *$q))"),
    (1, "out.append(h2(*($a, $i)[:1], **{'q': $i}))"),
    (1, "!out.append(h1($t, q=$i))"),
    (1, "out.append(fan($i, *$q))"),
    # containers of more items than are copied for a change
    (1, "for x in range(6):\n    g_long[x] = ($a, x)"),
    (1, "!g_long[$i] = $a"),
    (1, "g_long.append($a)"),
    (1, "g_long.insert(3, $i)"),
    (1, "del g_long[5:7]"),
    (1, "g_long[2:4] = $l"),
    (1, "g_long[$i], g_long[3] = g_long[3], $a"),
    (1, "!g_long.remove($i)"),
    (1, "out.append(g_long.pop($i))"),
    (1, "g_long.reverse()"),
    (1, "!g_long.sort(key=str)"),
    (1, "g_map[$i] = $a"),
    (1, "g_map.pop($i, None)"),
    (1, "for x in range(3):\n    g_map[x + 100] = $i\n    out.append(g_map.pop(x, None))"),
    (1, "!del g_map[$i]"),
    (1, "g_map.update({3: $a, 'n': $i})"),
    (1, "out.append(g_map.popitem())"),
    (1, "x = list(g_map)\nout.append(x[:3])"),
    (1, "g_map.setdefault($i, $a)"),
    (1, "for x, y in g_map.items():\n    if y == $i:\n        out.append(x)\n        break"),
    (1, "g_many.discard($i)"),
    (1, "!g_many.remove($i)"),
    (1, "g_many.add($i + 30)"),
    (1, "for x in range(4):\n    g_many.discard(x)\n    g_many.add(x + 50)"),
    (1, "g_many.update({$i, 90})"),
    (1, "g_many.difference_update({1, $i})"),
    (1, "g_many.symmetric_difference_update({2, $i})"),
    (1, "$u.add($i)"),
    (1, "$u.discard($i)"),
    (1, "!$u.remove($i)"),
    (1, "!$u.clear()"),
    (1, "out.append(sorted($u, key=str))"),
    (1, "g_line.append($a)"),
    (1, "g_line.appendleft($a)"),
    (1, "!out.append((g_line.pop(), g_line.popleft()))"),
    (1, "g_line.rotate($i)"),
    (1, "!g_line[$i] = $a"),
    (1, "!del g_line[$i]"),
    (1, "g_line.extend($q)"),
    (1, "!g_line.remove($i)"),
    (1, "g_line.extendleft([1, $i])"),
    (1, "!g_line.insert(2, $a)"),
    # the world outside
    (2, "!print($s, $i)"),
    (1, "!print($a if $b else $i)"),
    (2, "!G._dynamo.graph_break()"),
    (1, "!out.append(float($t.sum()))"),
    (1, "!print($t.sum().item())"),
    (1, "!out.append(id(g_l) == id(g_d))"),
    (1, "!bisect.insort(g_sorted, $i)"),
    (1, "!out.append(opaque($a, $i))"),
    (1, "if $t.sum() > $i:\n$B"),
    (1, "!out.append($t.tolist())"),
]

PRELUDE += state_features.PRELUDE
STATEMENTS += state_features.STATEMENTS
for kind, rules in state_features.EXPRESSIONS.items():
    EXPRESSIONS[kind] += rules

RAISED = [
    "Err($i, $a)",
    "ValueError($s)",
    "KeyError",
    "TypeError('t') from None",
    "IndexError($i)",
    "StopIteration($i)",
    "AttributeError",
]

START = {"i": "@int", "f": "0.5", "s": "'ab'", "b": "True", "k": "'k'"}


class Writer:
    """The text of one program.  `only` limits nothing but what a caller asks for: the number of
    statements a function has."""

    def __init__(self, seed, size=7):
        self.random = random.Random(seed)
        self.size = size
        self.fresh = 0
        self.risk = self.random.choice([0.02, 0.02, 0.1, 0.4])
        self.scopes = [{}]
        self.deep = self.loops = self.blocks = 0
        self.calm(None)

    def variables(self, kind):
        return [name for scope in self.scopes for name in scope.get(kind, ())]

    def variable(self, kind):
        names = self.variables(kind)
        return (
            self.random.choice(names)
            if names
            else {
                "i": "g_i",
                "f": "0.5",
                "s": "g_s",
                "k": "'k'",
                "b": "True",
                "t": "g_t",
                "l": "g_l",
                "d": "g_d",
                "o": "g_o",
                "c": "h0",
                "a": "g_a",
                "u": "g_set",
            }[kind]
        )

    def expression(self, kind):
        if kind in "TOn":
            return self.variable({"T": "t", "O": "o", "n": "i"}[kind])
        self.deep += 1
        choices = self.rules[kind]
        if self.random.random() > self.risk:
            choices = [c for c in choices if c[0] != "!"]
        if self.deep > 3 or self.random.random() < 0.3:
            choices = [c for c in choices if "$" not in c.replace("$V", "")] or choices
        if self.deep > 8:
            choices = {"q": ["'ab'"], "l": ["g_l"]}.get(kind, ["$V"])
        choice = self.random.choice(choices).lstrip("!")
        text = str(self.random.randint(-1, 3)) if choice == "@int" else self.expand(choice, kind)
        self.deep -= 1
        return text

    def expand(self, template, kind=None):
        def one(m):
            text = self.variable(kind) if m[1] == "V" else self.expression(m[1])
            return (
                f"({text})"
                if m[2] and not re.fullmatch(r"[\w.\[\]()']*[A-Za-z)\]']", text)
                else text
            )

        return re.sub(r"\$([VTOnifskbtldocqaeu])(?=([.\[(]?))", one, template)

    def statement(self, depth):
        """Lines of one statement, not yet indented."""
        while True:
            template = self.random.choice(self.pool)
            if depth > 2 and "$B" in template or template[0] == "%" and not self.loops:
                continue
            if template[0] == "?":
                if depth == 0 or self.random.random() < 0.5:
                    continue
            if "print" in template or "graph_break" in template:
                if self.random.random() > 3 * self.risk:
                    continue
            break
        if template[0] == "!" and self.random.random() > self.risk:
            # A traceback that is kept keeps the function's variables alive, generators among them,
            # in plain Python alone.
            template = (
                "try:\n    "
                + template[1:].replace("\n", "\n    ")
                + "\n"
                + self.random.choice(
                    [
                        "except Exception as e:\n    out.append(e.with_traceback(None))",
                        "except Exception as e:\n    out.append((type(e).__name__, e.args))",
                        "except Exception:\n    pass",
                        (
                            "except (LookupError, TypeError, AttributeError, RuntimeError):\n    "
                            "out.append($i)"
                        ),
                    ]
                )
            )
        template = template.lstrip("?%!")
        declared = None
        if template.startswith("N:"):
            declared = template[2]
            template = template[4:]
            self.fresh += 1
            name = f"{declared}{self.fresh}"
        if template.startswith("$W = "):
            kind = self.random.choice("itlda")
            template = f"{self.variable(kind)} = ${kind}"
            if re.match(r"[\d'T]", template):
                template = "g_a = None"
        template = (
            template.replace("I = ", f"{self.variable('i')} = ", 1)
            if template.startswith("I = ")
            else template
        )
        if "$E" in template:
            template = template.replace("$E", self.random.choice(RAISED))
        loops, self.loops = self.loops, self.loops + template.startswith(
            ("for ", "while ", "w = 0\nwhile")
        )
        if template.startswith("def "):
            self.loops = 0
        lines = []
        for line in template.split("\n"):
            if line.strip() == "$B":
                pad = line[: line.index("$")] + "    "
                self.scopes.append({})
                lines += [pad + inner for inner in self.block(depth + 1)]
                self.scopes.pop()
            elif line.startswith("else:"):
                self.loops = loops
                lines.append(line)
            else:
                lines.append(self.expand(line.replace("$N", name) if declared else line))
        self.loops = loops
        if declared:
            self.scopes[-1].setdefault(declared, []).append(name)
        return lines

    def block(self, depth):
        lines = []
        for _ in range(self.random.randint(1, 2)):
            lines += self.statement(depth)
        return lines

    def function(self, header, parameters, result, size):
        """A function at module level: parameters maps a type to names."""
        self.scopes = [parameters]
        body = []
        for _ in range(size):
            body += self.statement(0)
        declared, rest = [], []
        for line in body:  # a `global` comes once, first
            found = re.match(r"\s*global (\w+)", line)
            if found:
                declared.append(found[1])
            else:
                rest.append(line)
        names = {
            name for name in re.findall(r"^\s*(g_\w+) (?:\W?=) ", "\n".join(rest), re.M)
        } | set(declared)
        names |= set(re.findall(r"\b(g_\w+) (?:\||\+)?= ", "\n".join(rest)))
        nested = [name for name in names if name]
        lines = [header] + ([f"    global {', '.join(sorted(nested))}"] if nested else [])
        return (
            lines
            + ["    args = ()", "    n = 0"]
            + ["    " + line for line in rest]
            + [f"    return {self.expand(result)}", ""]
        )

    def start(self, kind):
        """A starting value of an argument or a global; some are aliases of what is there
        already."""
        pick = self.random.choice
        alias = self.random.random() < 0.25
        if kind == "i":
            return pick(["0", "1", "2", "3", "True"])
        if kind == "f":
            return pick(["0.5", "-2.0", "1.0"])
        if kind == "s":
            return pick(["'a'", "'ab'", "''"])
        if kind == "b":
            return pick(["True", "False"])
        if kind == "k":
            return pick(["'k'", "'m'"])
        if kind == "t":
            if alias:
                return pick(
                    [
                        "g_t",
                        "net.seen",
                        "g_t.view(-1)",
                        "g_t[0:]",
                        "g_o.v if isinstance(g_o.v, G.Tensor) else G.ones(3)",
                        "net.w.detach()",
                    ]
                )
            return pick(
                [
                    "G.arange(3.0)",
                    "G.ones(2, 3)",
                    "G.ones(3, requires_grad=True)",
                    "G.arange(6.0).view(3, 2).T",
                    "G.ones(3, dtype=G.float64)",
                    "G.arange(3)",
                    "G.arange(9.0).view(3, 3)",
                ]
            )
        if kind == "l":
            return (
                pick(["g_l", "deq_l"])
                if alias
                else pick(
                    [
                        "[1, 'a', 2.5]",
                        "[]",
                        "[[1], [2]]",
                        "[g_t, 1]",
                        "Items([1, 's'])",
                        "[g_o, g_o]",
                        "[None, True, 1]",
                    ]
                )
            )
        if kind == "d":
            return (
                pick(["g_d", "Base.table", "g_d"])
                if alias
                else pick(
                    [
                        "{'k': 1}",
                        "{}",
                        "{'m': [1], 'k': g_t}",
                        "OrderedDict(k=1, z=2)",
                        "defaultdict(list, k=[1])",
                        "Words(k=2)",
                        "{'k': g_o, 'm': g_l}",
                        "{1: 'k', 'k': None}",
                    ]
                )
            )
        if kind == "o":
            return (
                pick(["g_o", "g_o"])
                if alias
                else pick(
                    [
                        "Base(1)",
                        "Child(2)",
                        "Slots(g_l)",
                        "Soft(1)",
                        "Num(g_t)",
                        "Base(g_l)",
                        "Base(g_t)",
                        "Child(g_d)",
                        "Num(3)",
                        "Made(2)",
                        "Watched(g_l)",
                        "Lazy(1)",
                        "Steps(1)",
                        "Bag(g_t)",
                    ]
                )
            )
        if kind == "c":
            return pick(
                [
                    "h0",
                    "h1",
                    "bump",
                    "hold",
                    "(lambda x: x)",
                    "Base",
                    "g_o.get",
                    "logged(h0)",
                    "functools.partial(h2, q=2)",
                    "net",
                ]
            )
        return self.start(pick("iiftlldocs"))

    def early(self):
        """A starting value that needs no function of the module."""
        while re.search(r"\b(h[012]|bump|hold|deq_l)\b", text := self.start("a")):
            pass
        return text

    def program(self):
        lines = [
            "import bisect",
            "out = []",
            "g_i = " + self.start("i"),
            "g_s = " + self.start("s"),
            "g_t = G.arange(3.0) + 1",
            "g_l = [1, 2.5, 'x']",
            "net = Net()",
        ]
        lines += [
            "g_o = Base(1)",
            "g_o.items = g_l",
            "g_d = {'k': 1, 'l': [0, 1]}",
            "deq_l = [3]",
            "deq = deque([1, 2])",
            "odict = OrderedDict(k=1, m=2)",
            "df = defaultdict(list, k=[5])",
            "pt = Point()",
            "sm = types.SimpleNamespace(a=1)",
            "g_p = Pair(1, g_l)",
        ]
        lines += [
            "g_set = {1, 'k'}",
            "g_long = list(range(40))",
            "g_map = {i: i % 3 for i in range(20)}",
            "g_many = set(range(20))",
            "g_line = deque(range(20), 24)",
            "g_it = iter([1, 2, 3, 4])",
            "g_pairs = enumerate(iter([5, 6.5, 'x', None]), 2)",
            "g_zip = zip([1, 2, 3], g_map.items())",
            "g_walk = iter({1: g_l, 'k': 2}.items())",
            "g_count = itertools.count(3)",
            "g_half = map(lambda x: (x, 1), range(4))",
            "g_any = iter({3, 1, 2})",
            "g_sorted = [1, 3]",
            "g_x = 1",
            f"bump, read, hold = make_cells({self.start('i')}, {self.early()})",
        ]
        lines += [
            "def id_(x):",
            "    return x",
            "def copy_list(x):",
            "    return list(x)",
            "def fan(x, *args, **kw):",
            "    return [x, *args, *kw]",
            "def gather(**kw):",
            "    return kw",
            "def held_gen(n):",
            "    yield n",
            "    yield g_i",
        ]
        lines += [
            "opaque = functools.lru_cache(maxsize=0)(lambda x, y: (x, y))",
            "g_gen = counting(3, [])",
            "g_a = " + self.early(),
            "g_c = id_",
        ]
        if self.random.random() < 0.4:
            lines.append("g_d['m'] = g_l")
        if self.random.random() < 0.3:
            lines.append("g_o.v = g_t")
        sizes = [self.random.randint(0, 3) for _ in range(3)]
        # a helper calls none of those that come later, so that nothing recurses without end
        self.calm(["h0", "h1", "h2", "g_c", "logged"])
        decorate = self.random.choice(["", "", "", "@logged\n"])
        lines += self.function(
            decorate + f"def h0(x=1, q={self.start('i')}):",
            {"i": ["x", "q"], "a": ["x"]},
            self.random.choice(["x", "$i", "(x if x else q)", "g_i", "q"]),
            sizes[0],
        )
        lines += self.function(
            f"def h1(x, q={self.start('i')}):",
            {"t": ["x"], "i": ["q"]},
            self.random.choice(["x * q", "$t", "x", "x + g_t"]),
            sizes[1],
        )
        lines += self.function(
            f"def h2(x, *args, q={self.start('a').replace('h2', 'h1')}):",
            {"a": ["x", "q"]},
            self.random.choice(["(x, q)", "[x, *args]", "$a", "x"]),
            sizes[2],
        )
        self.calm(None)
        kinds = [self.random.choice("itltdocasfbtlod") for _ in range(self.random.randint(2, 6))]
        names, parameters = [], {}
        for kind in kinds:
            name = f"p{len(names)}{kind}"
            names.append(name)
            parameters.setdefault(kind, []).append(name)
        header = ", ".join(
            names[:-1] + [names[-1] + "=" + self.start(kinds[-1])]
            if self.random.random() < 0.3
            else names
        )
        lines += self.function(
            f"def root({header}):",
            parameters,
            "(out, $a)" if self.random.random() < 0.8 else "$a",
            self.random.randint(2, self.size),
        )
        values = [self.start(kind) for kind in kinds]
        for i in range(1, len(values)):  # the same object twice
            same = [j for j in range(i) if kinds[j] == kinds[i]]
            if same and self.random.random() < 0.2:
                values[i] = f"v{self.random.choice(same)}"
        lines += (
            ["def make():"]
            + [f"    v{i} = {value}" for i, value in enumerate(values)]
            + [f"    return [{', '.join(f'v{i}' for i in range(len(values)))}]"]
        )
        return PRELUDE + "\n".join(lines) + "\n"

    def calm(self, banned):
        """Leaves out rules that name one of `banned`; with None, all rules are back."""
        bad = re.compile(r"\b(" + "|".join(banned or ["no rule says this"]) + r")\b")
        self.pool = [
            template
            for weight, template in STATEMENTS
            for _ in range(weight)
            if not bad.search(template)
        ]
        self.rules = {
            kind: [rule for rule in rules if not bad.search(rule)]
            for kind, rules in EXPRESSIONS.items()
        }
