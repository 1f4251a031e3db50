# SPDX-License-Identifier: Apache-2.0
"""More of Python for the grammar of the stateful fuzzer (state_grammar.py): what programs seldom
use, and what of it meets in one place.

The tables are read as those of state_grammar.py are, and added to them: PRELUDE goes in front of
the program, EXPRESSIONS to the rules of each type, STATEMENTS to the statements.
"""

PRELUDE = '''
import abc, copy, warnings

def drive(co):
    """Runs a coroutine to its end."""
    try:
        while True:
            co.send(None)
    except StopIteration as e:
        return e.value

class Pause:
    def __init__(self, v):
        self.v = v
    def __await__(self):
        got = yield self.v
        return (self.v, got)

class Door:
    def __init__(self, out):
        self.out = out
    async def __aenter__(self):
        self.out.append("open")
        return await Pause(1)
    async def __aexit__(self, kind, value, tb):
        self.out.append(("shut", kind))
        return kind is ValueError

class Ticks:
    def __init__(self, n):
        self.n = n
    def __aiter__(self):
        return self
    async def __anext__(self):
        if self.n <= 0:
            raise StopAsyncIteration
        self.n -= 1
        await Pause(self.n)
        return self.n

async def ticking(n, out):
    try:
        for i in range(n):
            await Pause(i)
            yield i
    finally:
        out.append("ticked")

@dataclasses.dataclass(order=True)
class Card:
    __match_args__ = ("rank", "suit")
    rank: int
    suit: object = dataclasses.field(default="s", compare=False)
    seen: list = dataclasses.field(default_factory=list, repr=False, compare=False)
    double: int = dataclasses.field(init=False, default=0)
    start: dataclasses.InitVar[int] = 1
    def __post_init__(self, start):
        self.double = self.rank * 2 + start

@dataclasses.dataclass(slots=True, kw_only=True)
class Thin:
    a: int = 1
    b: object = None

@dataclasses.dataclass
class Joker(Card):
    extra: object = None
    def __eq__(self, other):
        return NotImplemented if not isinstance(other, Card) else self.rank == other.rank

class Shape(abc.ABC):
    kind = 11
    @property
    @abc.abstractmethod
    def area(self): ...
    def get(self):
        return self.area
    def put(self, v):
        self.v = v
        return self

class Square(Shape):
    def __init__(self, v):
        self.v = v
    @property
    def area(self):
        return (self.v, self.kind)
    def __repr__(self):
        return "Square"

class Typed:
    """A data descriptor that counts, and may be deleted."""
    def __set_name__(self, owner, name):
        self.name = name
        owner.typed = getattr(owner, "typed", ()) + (name,)
    def __get__(self, it, owner=None):
        if it is None:
            return self
        if self.name not in it.__dict__:
            raise AttributeError(self.name)
        return it.__dict__[self.name]
    def __set__(self, it, value):
        if isinstance(value, str):
            raise TypeError(f"{self.name!r} is no text")
        it.__dict__[self.name] = value
        it.__dict__["writes"] = it.__dict__.get("writes", 0) + 1
    def __delete__(self, it):
        del it.__dict__[self.name]

class Bound:
    """A descriptor without __set__: what the object has hides it."""
    def __get__(self, it, owner):
        return (owner.__name__, it is None)

class Left:
    def who(self):
        return ["left"]
    def get(self):
        return self.who()

class Right:
    def who(self):
        return ["right"]

class Both(Left, Right):
    kind = 12
    v = Typed()
    w = Typed()
    bound = Bound()
    def __init__(self, v):
        with contextlib.suppress(TypeError):
            self.v = v
    def who(self):
        return ["both"] + super().who() + super(Left, self).who()
    def put(self, v):
        self.w = v
        return self
    def __eq__(self, other):
        return type(other) is Both and self.__dict__.keys() == other.__dict__.keys()
    __hash__ = None
    def __index__(self):
        return 2
    def __neg__(self):
        return ("neg", self.kind)
    def __rsub__(self, other):
        return ("rsub", other)
    def __matmul__(self, other):
        return ("at", other)
    def __reversed__(self):
        return iter("rev")
    def __class_getitem__(cls, k):
        return (cls.__name__, k)
    def __str__(self):
        return "a Both"
    def __repr__(self):
        return "Both"
    def __copy__(self):
        return Both((self.__dict__.get("v"),))
    @functools.singledispatchmethod
    def told(self, x):
        return ("any", x)
    @told.register
    def _(self, x: int):
        return ("int", x, self.kind)
    half = functools.partialmethod(put, 5)

@functools.total_ordering
class Rank:
    kind = 13
    def __init__(self, v):
        self.v = v
    def get(self):
        return self.v
    def put(self, v):
        self.v = v
        return self
    def __eq__(self, other):
        return isinstance(other, Rank) and self.kind == other.kind
    def __lt__(self, other):
        return self.kind < other.kind
    def __repr__(self):
        return "Rank"

class Sign(enum.Enum):
    PLUS = "+"
    MINUS = "-"
    @property
    def other(self):
        return Sign.MINUS if self is Sign.PLUS else Sign.PLUS
    @classmethod
    def _missing_(cls, value):
        return cls.PLUS if value == 1 else None

class Scope(contextlib.ContextDecorator):
    depth = 0
    def __enter__(self):
        Scope.depth += 1
        return Scope.depth
    def __exit__(self, *error):
        Scope.depth -= 1

@Scope()
def scoped(x):
    return (Scope.depth, x)

@functools.lru_cache(maxsize=4)
def remembered(x, y=1):
    return [x, y]

@functools.cache
def steps_to(n):
    return 0 if n <= 0 else 1 + steps_to(n - 1)

def posonly(a, b=2, /, c=3, *rest, d, e=5, **more):
    return (a, b, c, rest, d, e, more)

def leaves(how, out):
    for i in range(3):
        try:
            if how == 0:
                return ("returned", i)
            if how == 1:
                continue
            if how == 2:
                break
            raise Err(i)
        except Err as e:
            out.append(("err", e.code))
            if how == 4:
                return "handled"
        finally:
            out.append(("finally", i))
            if how == 5 and i == 1:
                break
    else:
        out.append("else")
    return ("after", i)

def swallows(k):
    try:
        raise Err(k)
    finally:
        if k != 1:
            return "swallowed"

def twofold(n):
    """A generator whose clean-up yields, and that may ignore what is thrown into it."""
    total = 0
    try:
        while total < n:
            try:
                total += (yield total) or 1
            except ValueError as e:
                total += 10
                yield ("thrown", e.args)
    finally:
        if n == 3:
            yield "late"
    return total

def outer_of(n):
    first = yield from twofold(n)
    second = yield from (x * 2 for x in range(n))
    return (first, second)

def nested_cells(n):
    log = []
    def outer(k):
        nonlocal n
        n += k
        def inner():
            nonlocal n, k
            k += 1
            n *= 2
            log.append((n, k))
            return outer(1) if k < 2 else n
        return inner()
    return outer, log
'''

EXPRESSIONS = {
    "i": [
        "steps_to($i)",
        "max((x for x in ($i, 2)), key=lambda x: -x)",
        "len({1: 1, True: 2, 1.0: 3})",
        "math.comb(4, $i & 3)",
        "math.prod([1, 2, $i])",
        "math.gcd(6, $i)",
        "pow(3, $i & 7, 5)",
        "next(i for i, x in enumerate([$i, 1, None]) if x is None)",
        "len(range(0, 9, 2)[1:])",
        "slice(None, $i).indices(5)[1]",
        "operator.countOf([1, $i, 1], 1)",
        "(lambda *a, k=$i: len(a) + k)(*$l[:2])",
        "len($d.keys() & {'k', 'm'})",
        "Scope.depth",
        "len(typing.get_type_hints(Row))",
        "(bump() < bump() < 9) + $i",
    ],
    "f": [
        "round($f, 1)",
        "math.hypot(3, $i)",
        "float('1e3')",
        "math.copysign(1.0, $f)",
        "divmod($f, 2)[1]",
        "math.fsum([0.1, $f])",
        "(-$f) ** 2",
        "float.fromhex('0x1p-1')",
    ],
    "s": [
        "f'{$n:>{$n & 3}}'",
        "f'{$V!a:*^6}'",
        "f'{$n / 2:+.2e}|{$n:#x}|{$n:,}'",
        "f'{[x for x in $V]!s}'",
        "f\"{'k' if $n else $V}\"",
        "f'{$n=:3}'",
        "str(Both(1))",
        "format($f, '.1f')",
        "'ab'.translate(str.maketrans({'a': $s}))",
        "'a,b,c'.rsplit(',', 1)[$i & 1]",
        "$s.title().swapcase()",
        "'%5.1f|%-3d|%s' % ($f, $i, $k)",
        "' '.join(f'{x}' for x in (1, $i))",
        "$s.expandtabs().ljust(3, '.')",
        "'{0!r:>4}{1[0]}{2.kind}'.format($s, [1], Base)",
        "Sign.PLUS.name",
        "''.join(c for c in 'abc' if c not in $s)",
        "str(range($i))",
        "repr(Card($i))",
        "repr(Thin(a=$i))",
    ],
    "b": [
        "(Card(1) < Card($i))",
        "(Card(1) == Joker($i))",
        "(1 < $i < 3 != 2)",
        "($i in ($i, 2) is not False)",
        "(Rank(1) <= Rank(2))",
        "isinstance($a, int | str)",
        "issubclass(Square, Shape)",
        "(Sign.PLUS is Sign('+'))",
        "(Thin() == Thin(a=$i))",
        "math.isclose($f, 0.5)",
        "(not $l == [])",
        "(b'a' < b'b' <= b'b')",
        "(copy.copy($l) is $l)",
        "($d.items() <= {'k': 1}.items())",
        "({1: 2} == {True: 2.0})",
        "(collections.Counter($s) == {'a': 1})",
        "((1, $i) < (1, 2, 3))",
        "([1, $i] >= [1])",
        "(operator.not_($b) or operator.truth($l))",
        "(Both.bound == ('Both', True))",
    ],
    "t": [
        "!functools.reduce(operator.mul, [$t, $t])",
        "(lambda x: x + $t.detach())(g_t)",
        "!G.stack([x for x in ($t, $t)]).sum(0)",
        "!sum($t[i] for i in range(len($t)))",
        "($t if $b else g_t)",
        "!G.cat([x.view(-1) for x in ($t, g_t)])",
        "!copy.copy($t)",
        "!operator.itemgetter(0)($t)",
        "$t.add($i).mul(2)",
    ],
    "l": [
        "[*$l, *$q]",
        "[lambda: x for x in (1,)]",
        "[x for x in range(3) for y in range(x) if y != $i]",
        "[[y for y in range(x)] for x in range(3)]",
        "[(x, y) for x, *y in [(1, 2, 3), 'ab']]",
        "list(itertools.accumulate([1, $i], lambda x, y: x - y, initial=5))",
        "list(itertools.islice(itertools.cycle('ab'), 3))",
        "collections.Counter($s + 'ab').most_common(1)",
        "sorted($d.items(), key=operator.itemgetter(0))[:2]",
        "sorted([Card(2), Card($i)], key=lambda c: c.rank)",
        "list(map(operator.add, [1, 2], ($i, 4)))",
        "[*map(str, $l)][:3]",
        "list(zip(*[(1, 2), (3, $i)]))",
        "[s.value for s in Sign]",
        "list(Sign)",
        "remembered($i)",
        "copy.copy($l)",
        "copy.deepcopy([$i, [1]])",
        "list(reversed($d))",
        "[x for x in $d.keys() | {'q'} if x == 'q']",
        "Both(1).who()",
        "list(nested_cells($i)[1])",
        "list(twofold($i & 3))",
        "[$i, *range(2)]",
        "[1, 2, 3][::-$i or 1]",
        "list(filter(operator.not_, [0, $i]))",
        "[*{**$d}]",
        "list(itertools.filterfalse(None, [0, $i]))",
    ],
    "d": [
        "{**$d, **{'z': $i}}",
        "{k: v for k, v in zip($s, $q)}",
        "dataclasses.asdict(Card($i))",
        "vars(Square($i))",
        "collections.Counter('ab') + collections.Counter($s)",
        "dict(Row($i)._asdict())",
        "copy.copy($d)",
        "posonly($i, d=2, z=$i)[-1]",
        "{i: {j: i * j for j in range(2)} for i in range(2)}",
        "collections.ChainMap({'q': 1}, $d).new_child().maps[2]",
        "dict.fromkeys('ab', [])",
        "dict(k=$a)",
    ],
    "o": [
        "Card($i)",
        "Card($i, $a)",
        "Joker($i, extra=$a)",
        "Thin(a=$i, b=$a)",
        "Square($a)",
        "Both($a)",
        "Rank($a)",
        "copy.copy($o)",
        "dataclasses.replace(Card(1, start=2), rank=$i, start=0)",
        "type('Dyn', (Base,), {'kind': $i})($a)",
    ],
    "c": [
        "scoped",
        "remembered",
        "!posonly",
        "functools.partial(posonly, 1, d=2)",
        "Both(1).half",
        "Both(1).told",
        "operator.attrgetter('__class__.__name__')",
        "functools.partial(functools.partial(fan, 1), $i)",
        "(lambda x, /, *, y=$i: (x, y))",
        "(lambda f: lambda *a: f(f, *a))(lambda f, *a: a)",
        "Rank",
        "!Card",
        "Square",
        "staticmethod(id_)",
        "Scope()(id_)",
        "functools.partial(id_)",
    ],
    "q": [
        "twofold(2)",
        "outer_of(2)",
        "(x for x in $q if x is not None)",
        "itertools.chain(*[$l, 'a'])",
        "zip($q, itertools.count($i))",
        "map(lambda x: (x, $i), $q)",
        "reversed($d)",
        "reversed($d.items())",
        "dict(a=1, b=$i).values()",
        "[*range(3)][::-1]",
        "(lambda: (yield $i))()",
        "itertools.accumulate($l, lambda x, y: y)",
        "(f(x) for f, x in [(id_, $i)])",
        "iter(lambda: g_i, g_i)",
        "Sign",
        "{'k', 'k'}",
        "($i, *$q)",
    ],
    "a": [
        "posonly($i, d=$a)",
        "posonly(1, *$l, d=2, **{'q': $i})",
        "!posonly(1, $i)",
        "!posonly(a=1, d=2)",
        "!Both[$i]",
        "(Card($i) if $b else Thin())",
        "copy.deepcopy(($i, [$i]))",
        "swallows($i)",
        "leaves($i, out)",
        "scoped($a)",
        "remembered($i, y=$k)",
        "!remembered($a)",
        "Sign.MINUS.other",
        "!Sign($i)",
        "!(1 - Both($a))",
        "!-Both(1)",
        "!(Both(1) @ $i)",
        "!$l[Both(1)]",
        "!(lambda x=$a, *, y: (x, y))()",
        "nested_cells($i)[0]($i)",
        "functools.reduce(lambda x, y: [x, y], [1, 2, $i])",
        "operator.attrgetter('kind', 'get.__name__')(Base)",
        "operator.itemgetter(0, -1)([1, $a])",
        "!operator.itemgetter('k')($d)",
        "!dataclasses.astuple(Card($i))",
        "(lambda: [x for x in (1, $i)])()",
        "(*$l, *$q)[:3]",
        "!str($a).partition('x')[0]",
        "type(Square(1)).mro()[1].__name__",
        "__name__",
        "!vars(Both($i))",
        "!Both($s).v",
        "isinstance",
        "print",
        "!{$a}",
        "!{$a: 1}",
        "!hash($a)",
        "!min($l, key=str)",
        "!max($q, key=lambda x: str(x), default=0)",
        "!$a < $a",
        "!$a + $a",
        "!$a[$i]",
        "!len($a)",
        "!-$a",
        "!($a)()",
        "!iter($a)",
        "!$a.kind",
        "!sorted($l)",
        "!'%d' % $a",
        "!f'{$V:>9}'",
        "!round($a)",
        "!int($s)",
        "!$s[$i]",
        "!$d[$a]",
        "!$a in $l",
        "!($a, $a) == ($a, $a)",
    ],
    "u": [
        "{*$s, $i}",
        "set($d)",
        "({1, 2, 3} - {$i})",
        "$d.keys() - {'k'}",
        "set(map(str, (1, $i)))",
        "frozenset({1, $i}) | {2}",
    ],
}

STATEMENTS = [
    # coroutines and asynchronous generators, run to their ends
    (
        1,
        (
            "async def co(x=$i):\n    got = await Pause(x)\n    out.append(got)\n    return "
            "$a\nout.append(drive(co()))"
        ),
    ),
    (
        1,
        (
            "async def co():\n    async with Door(out) as x:\n        out.append(x)\n        if "
            "$b:\n            raise $E\n    async for y in Ticks(2):\n        out.append(y)\n    "
            "else:\n        out.append('done')\ntry:\n    drive(co())\nexcept Exception as e:\n    "
            "out.append(type(e).__name__)"
        ),
    ),
    (
        1,
        (
            "async def co():\n    out.append([x async for x in ticking($i, out) if x != 1])\n    "
            "return {x: await Pause(x) async for x in Ticks(2)}\nout.append(drive(co()))"
        ),
    ),
    # generators
    (
        2,
        (
            "!it = "
            "twofold($i)\nout.append(next(it))\nout.append(it.throw(ValueError($i)))\nout.append(list(it))"
        ),
    ),
    (1, "!it = outer_of(3)\nnext(it)\nout.append((it.send($i), next(it, 'over')))"),
    (1, "!it = twofold(3)\nnext(it)\nit.close()"),
    (1, "!it = twofold(2)\nnext(it)\nit.throw(KeyError)"),
    (
        1,
        (
            "def gen(n=$i):\n    x = yield n\n    while x:\n        x = yield from [x, n]\n    "
            "return 'r'\nit = gen()\nout.append(next(it))\ntry:\n    it.send($a)\n    "
            "it.send(0)\nexcept StopIteration as e:\n    out.append(e.value)"
        ),
    ),
    (
        1,
        (
            "def gen():\n    try:\n        yield $a\n        yield $i\n    except GeneratorExit:\n "
            "       out.append('exit')\n        raise\n    finally:\n        "
            "out.append('fin')\nfor x in gen():\n    out.append(x)\n    break"
        ),
    ),
    (1, "x, y = itertools.tee($q)\nout.append((list(x)[:2], next(y, None)))"),
    (1, "!it = (x / y for x, y in [(1, 2), (1, $i), (3, 0)])\nout.append(list(it))"),
    (
        1,
        (
            "it = (x for x in (1, 2, 3))\nfor x in it:\n    if x == 2:\n        "
            "break\nout.append((x, list(it)))"
        ),
    ),
    # ways out of blocks
    (2, "out.append(leaves($i % 6, out))"),
    (1, "out.append(leaves(5, out))"),
    (
        1,
        (
            "try:\n    out.append(swallows($i))\nexcept Err as e:\n    out.append((e.code, "
            "e.__context__))"
        ),
    ),
    (
        1,
        (
            "for x in range(3):\n    try:\n        out.append(x)\n        if x == $i:\n            "
            "continue\n        if $b:\n            break\n    finally:\n        "
            "out.append('f')\nelse:\n    out.append('e')"
        ),
    ),
    (
        1,
        (
            "w = 3\nwhile w:\n    w -= 1\n    try:\n        if w == $i:\n            raise $E\n    "
            "except Exception as e:\n        out.append(e.args)\n        continue\n    "
            "out.append(w)\nelse:\n$B"
        ),
    ),
    (
        1,
        (
            "def f():\n    for x in range(4):\n        with Ctx(out, ValueError):\n            if "
            "x == 1:\n                continue\n            if x == $i:\n                return "
            "x\n            raise ValueError(x)\nout.append(f())"
        ),
    ),
    (
        1,
        (
            "try:\n    try:\n        raise $E\n    finally:\n        out.append(g_i)\nexcept "
            "Exception as e:\n    out.append((type(e), e.__suppress_context__))"
        ),
    ),
    (
        1,
        (
            "try:\n    try:\n        raise Err(1)\n    except Err:\n        raise "
            "KeyError($i)\nexcept KeyError as e:\n    out.append((e.args, e.__context__.code))"
        ),
    ),
    (
        1,
        (
            "try:\n    raise Err($i)\nexcept Err as e:\n    e.add_note('n')\n    out.append(e)\n   "
            " x = e.__notes__\nout.append(x)"
        ),
    ),
    (
        1,
        (
            "try:\n    raise ExceptionGroup('g', [ValueError($i), KeyError(1), Err(2)])\nexcept* "
            "ValueError as e:\n    out.append(len(e.exceptions))\nexcept* (KeyError, Err) as e:\n  "
            "  out.append([type(x).__name__ for x in e.exceptions])"
        ),
    ),
    (
        1,
        (
            "try:\n    raise $E\nexcept (KeyError, IndexError):\n    out.append('lookup')\nexcept "
            "Exception as e:\n    out.append(type(e).__name__)\nelse:\n    out.append('none')"
        ),
    ),
    (
        1,
        (
            "!def f():\n    try:\n        del x\n    except NameError as e:\n        "
            "out.append(str(e))\n    x = 1\n    del x\n    return x\nf()"
        ),
    ),
    (
        1,
        (
            "with contextlib.ExitStack() as stack:\n    stack.push(lambda *e: out.append(e[0]) or "
            "True)\n    stack.callback(out.append, 'cb')\n    stack.enter_context(Scope())\n    if "
            "$b:\n        raise $E\nout.append(Scope.depth)"
        ),
    ),
    (1, "with contextlib.nullcontext($a) as x, Scope() as y:\n    out.append((x, y))\n$B"),
    (1, "with (Ctx(out) as x, managed(out)):\n    out.append(x.catches)"),
    # matching
    (
        2,
        (
            "match $o:\n    case Card(rank, suit=str(x)) if rank > 0:\n        out.append((rank, "
            "x))\n    case Card(0 | 1) | Joker():\n        out.append('low')\n    case "
            "Thin(a=int(x), b=None):\n        out.append(x)\n    case object(kind=12 | 3 as x):\n  "
            "      out.append(x)\n    case x:\n    $B"
        ),
    ),
    (
        1,
        (
            "match $l:\n    case []:\n        out.append('empty')\n    case [x, *_, y] if x is "
            "y:\n        out.append(x)\n    case [[*x], *y] | [*y, {'k': x}]:\n        "
            "out.append((x, y))\n    case [int() | float() as x, *_]:\n        out.append(x)\n    "
            "case _:\n        out.append('other')"
        ),
    ),
    (
        1,
        (
            "match $d:\n    case {'k': [x, *y], **rest}:\n        out.append((x, y, rest))\n    "
            "case {'k': int(x), 'm': y}:\n        out.append((x, y))\n    case {}:\n        "
            "out.append('map')"
        ),
    ),
    (
        1,
        (
            "match ($i, $s, $a):\n    case (0, _, _) | (_, 'ab', _):\n        out.append(0)\n    "
            "case (Level.LOW, x, None):\n        out.append(x)\n    case (x, y, z):\n        "
            "out.append((x, y, z))"
        ),
    ),
    (
        1,
        (
            "match $a:\n    case True | False as x:\n        out.append(x)\n    case -1 | 2.5 | "
            "'a' | b'ab':\n        out.append('lit')\n    case Sign.PLUS | Color.RED:\n        "
            "out.append('sign')\n    case str(x) | bytes(x):\n        out.append(x)\n    case "
            "tuple() | list():\n        out.append('seq')\n    case None:\n        pass"
        ),
    ),
    # functions and what they close over
    (
        2,
        (
            "fs = []\nfor x in range(3):\n    def f(y=x):\n        return (x, y, $i)\n    "
            "fs.append(f)\nout.append([f() for f in fs])"
        ),
    ),
    (1, "fs = [lambda: x for x in $q]\nout.append([f() for f in fs][:3])"),
    (
        1,
        (
            "x = $i\ndef f():\n    nonlocal_ = [x]\n    def g():\n        return nonlocal_ + [x]\n "
            "   return g\nx += 1\nout.append(f()())"
        ),
    ),
    (1, "def f(n):\n    return 1 if n <= 0 else n + f(n - 1)\nout.append(f(3))"),
    (1, "x, y = nested_cells($i)\nout.append((x(1), y, x(2)))"),
    (
        1,
        (
            "def f(x, *args, k=1, **kw):\n    x, k = k, x\n    del kw['z']\n    return (x, args, "
            "k, kw)\nout.append(f(*$l[:1], z=$i, **{'a': $a}) if $l else f(0, z=1))"
        ),
    ),
    (1, "!out.append(posonly(*$q, **$d))"),
    (1, "!out.append((lambda a, b=1, *c, d, **e: (a, b, c, d, e))(*$l, d=$i, **$d))"),
    (1, "!out.append(fan(*$l, **{'x': 1}))"),
    (1, "def f(x=[]):\n    x.append($i)\n    return x\nf()\nout.append((f(), f.__defaults__))"),
    (1, "!def f(a, /, b, *, c): return (a, b, c)\nf(1, b=2, **{'c': $a})\nf(a=1, b=2, c=3)"),
    (
        1,
        (
            "def deco(k):\n    def wrap(f):\n        @functools.wraps(f)\n        def inner(*a, "
            "**kw):\n            out.append((k, f.__name__))\n            return f(*a, **kw)\n     "
            "   return inner\n    return wrap\n@deco($i)\n@deco('b')\ndef f(x):\n    return "
            "x\nout.append(f($a))"
        ),
    ),
    (1, "def f():\n    global g_i\n    g_i = $i\n    return lambda: g_i\nx = f()\ng_l.append(x())"),
    (
        1,
        (
            "x = $a\ndef f():\n    return x\ndel x\ntry:\n    f()\nexcept NameError as e:\n    "
            "out.append(str(e))"
        ),
    ),
    (1, "!out.append(remembered.cache_info()[:2])"),
    (1, "remembered.cache_clear()"),
    (1, "out.append(Scope()(lambda: Scope.depth)())"),
    # classes made in functions
    (
        1,
        (
            "class Inner(Both):\n    kind = $i\n    table = {x: $i for x in 'ab'}\n    for z in "
            "range(2):\n        table[z] = kind\n    @property\n    def p(self):\n        return "
            "(self.kind, __class__.__name__)\n    @p.setter\n    def p(self, v):\n        "
            "self.kind = v\nx = Inner($i)\nx.p = 4\nout.append((x.p, Inner.table, Inner.typed))"
        ),
    ),
    (
        1,
        (
            "y = $i\nclass Inner:\n    y = y\n    z = [y for _ in range(2)]\n    def get(self):\n  "
            "      return (y, self.y)\n    class Deep:\n        w = y\nout.append((Inner().get(), "
            "Inner.z, Inner.Deep.w))"
        ),
    ),
    (
        1,
        (
            "@dataclasses.dataclass\nclass Local:\n    a: int\n    b: list = "
            "dataclasses.field(default_factory=list)\n    def __post_init__(self):\n        "
            "self.b.append(self.a)\nout.append((Local($i) == Local($i), repr(Local(1)), "
            "Local(2).b))"
        ),
    ),
    (
        1,
        (
            "Local = type('Local', (Left, Right), {'kind': $i, 'get': lambda self: "
            "self.kind})\nout.append((Local().get(), Local.__mro__[1].__name__))"
        ),
    ),
    (1, "!class Local(Shape): pass\nLocal()"),
    (
        1,
        (
            "class Local(list):\n    def __getitem__(self, i):\n        return ('got', "
            "super().__getitem__(i))\n    def __len__(self):\n        return 9\nx = "
            "Local($l)\nx.append($i)\nout.append((x[-1], len(x), list(x)))"
        ),
    ),
    (
        1,
        (
            "class Local(dict):\n    def __getattr__(self, k):\n        try:\n            return "
            "self[k]\n        except KeyError:\n            raise AttributeError(k) from None\n    "
            "__setattr__ = dict.__setitem__\nx = Local($d)\nx.q = $i\nout.append((x.q, getattr(x, "
            "'none', 5), x))"
        ),
    ),
    (
        1,
        (
            "class Local(int):\n    def __add__(self, o):\n        return Local(int(self) + int(o) "
            "+ 1)\nx = Local($i) + 2\nout.append((x, x * 2, type(x).__name__, sum([x, x])))"
        ),
    ),
    (
        1,
        (
            "class Local(str):\n    @property\n    def loud(self):\n        return "
            "self.upper()\nout.append((Local($s).loud, Local('a') + 'b', Local('k') in $d))"
        ),
    ),
    (
        1,
        (
            "Pt = namedtuple('Pt', 'x y', defaults=[$i])\np = Pt(1)\nout.append((p, "
            "p._replace(y=2), p.y, [*p], p == (1, $i)))"
        ),
    ),
    (
        1,
        (
            "class E(enum.Enum):\n    A = enum.auto()\n    B = enum.auto()\nout.append((E.B.value, "
            "E(1).name, len(E), E['A'] is E.A))"
        ),
    ),
    # objects
    (1, "!$O.v = 'text'"),
    (1, "!$o.half()"),
    (1, "!out.append($o.told($a))"),
    (1, "x = Both($i)\nx.bound = 1\nout.append((x.bound, Both.bound, x.typed))"),
    (1, "!x = Both($a)\ndel x.v\nx.v"),
    (1, "x = Card($i)\nx.seen.append(x.double)\nout.append((x, x.double))"),
    (1, "!x = Thin(a=$i)\nx.c = 1"),
    (1, "!Thin($i)"),
    (1, "!Cold(1).y += (2,)"),
    (1, "!$o.v, $o.w = $a, $i"),
    (1, "!$o.v: int = $i"),
    (1, "x = copy.copy($o)\nout.append(type(x).__name__)"),
    (1, "out.append(sorted([Rank(1), Rank(2)]) != [])"),
    (1, "!x = $o\nx.kind += 1\nx.v = x"),
    (1, "!del $o.kind"),
    (1, "!setattr($o, 'kind', $i)\nout.append(getattr($o, 'kind'))"),
    # targets
    (1, "!x, (y, *z), w = $i, $l, $a\nout.append((x, y, z, w))"),
    (1, "!$l[0], $d[$k] = $a, $i"),
    (1, "!for $l[0] in range(2): pass"),
    (1, "!for x, *y in $d.items():\n    out.append((x, y))"),
    (1, "x = y = [$i]\nx += [1]\nx = x + [2]\nout.append((x, y))"),
    (1, "[x, [y]] = 1, ($a,)\nout.append((x, y))"),
    (1, "!*x, y = $q\nout.append(y)"),
    (1, "(x) = $i; (y,) = ($a,)\nout.append([x, y])"),
    (1, "!$l[1:] = $q"),
    (1, "!$l[::2] = [$i] * len($l[::2])"),
    (1, "!del $l[::2], $d[$k]"),
    (1, "!$d['n'] = x = {}\nx['deep'] = $i\n$d['n']['deep'] += 1"),
    (1, "!$l[$i] += 1"),
    (1, "!$d[$k] += $a"),
    (1, "!x = $l\nx *= 2\ndel x[4:]"),
    (1, "if (x := $l) and (y := x[0]) is not None:\n    out.append(y)"),
    (1, "!while (x := $l.pop() if $l else None) is not None:\n    out.append(x)"),
    (1, "x: list = []\nx.append(n := $i)\nout.append((x, n))"),
    (1, "out.append([(x, y) for x in range(3) if x for y in range(x) if (z := x + y) > 1])"),
    (1, "x = 5\nout.append(([x for x in range(2)], x, {x for x in 'a'}, x))"),
    (1, "out.append([[z for z in (x, y)] for x, y in zip('ab', $q)])"),
    (1, "out.append(0 < bump() <= 5 > $i != 9)"),
    (
        1,
        (
            "import math as m\nfrom operator import add as plus\nout.append((m.floor(1.5), plus(1, "
            "$i)))"
        ),
    ),
    (1, "!out.append($a < $a <= $a)"),
    (1, "!out.append({$k: $a, **$d, 'q': $i})"),
    (1, "!x, y = $a, $i\nout.append(f'{x!r:.9}{y:>{y}}')"),
    (1, "!out.append([y for x in $q if (y := type(x).__name__)])"),
    (1, "!out.append(any((x := y) is None for y in $q) or x)"),
    (1, "out.append(({(x := k): x for k in 'km'}, x))"),
    (1, "x = 1\nout.append(([(lambda: (x, z))() for y in (1, $i) if (z := y)], z))"),
    # containers
    (1, "!$u.intersection_update({1, 2}, [1, $i])"),
    (1, "!$u.update('ab', {$i: 1})"),
    (1, "!$u.difference_update([$i], (1,))"),
    (1, "x = {8, 16, $i}\nx.discard(16)\nx.add(24)\nout.append(list(x))\nreturn_ = x"),
    (1, "!out.append($u.pop())"),
    (1, "!for x in reversed($d):\n    $d[x] = $i"),
    (1, "!for x in $d:\n    $d['new'] = x"),
    (1, "!for x in list($d):\n    del $d[x]"),
    (1, "!for x in $u:\n    $u.add(50)"),
    (1, "!for x in $l:\n    if len($l) < 9:\n        $l.append(x)"),
    (1, "!for i, x in enumerate($l):\n    $l[i] = (x, i)"),
    (
        1,
        (
            "c = collections.Counter($s)\nc['a'] += "
            "$i\nc.update('ab')\nout.append((sorted(c.items()), c['zz'], +c))"
        ),
    ),
    (1, "x = defaultdict(lambda: [$i])\nx['a'].append(1)\nout.append((x['a'], dict(x), 'b' in x))"),
    (1, "x = deque($l, 2)\nx.append($i)\nx.extendleft('ab')\nout.append((x, x.maxlen))"),
    (1, "!$l.sort(key=lambda x: (str(type(x)), str(x)), reverse=$b)"),
    (
        1,
        (
            "x = OrderedDict($d)\nx.move_to_end(next(iter(x)), last=False) if x else "
            "None\nout.append(x == $d)"
        ),
    ),
    (
        1,
        (
            "x = collections.ChainMap({}, $d)\nx['own'] = $i\nout.append((x.maps[0], len(x), 'k' "
            "in x))"
        ),
    ),
    (1, "x = bytearray(b'ab')\nx.append(65)\nx += b'c'\nout.append((bytes(x), x[0], x[1:]))"),
    (1, "!warnings.warn($s)"),
    (1, "!$l.index($a, 1)"),
    (1, "x = iter($d.items())\nout.append((next(x, None), list(x)))"),
    (1, "!x = iter($l)\nnext(x)\n$l.append($i)\nout.append(list(x))"),
    (1, "!x = $u\nx |= {7}\nx -= {1}\nout.append(x is g_set)"),
    # tensors in structures
    (
        1,
        (
            "!x = [{'w': $t, 'g': [$t]}, Card($i, $t)]\nfor y in x[0]['g']:\n    "
            "x[1].seen.append(y * $i)\nout.append((x[1].seen[0], x[1].suit))"
        ),
    ),
    (
        1,
        (
            "!state = {'step': 0, 'm': G.zeros(3)}\nfor p in net.parameters():\n    state['step'] "
            "+= 1\n    state.setdefault('n', []).append(p.numel())\nout.append(state)"
        ),
    ),
    (1, "!out.append({k: v.shape for k, v in net.named_parameters()})"),
    (1, "!for i, row in enumerate($t):\n    out.append(row * i)"),
    (1, "!x, *y = $t\nout.append((x, len(y)))"),
    (1, "!out.append([m.__class__.__name__ for m in net.modules()])"),
    (1, "!out.append($t.sum() if $t.dim() > 1 else $t.mean())"),
    (1, "!out.append((lambda x, **kw: x.sum(**kw))($t, dim=0))"),
    (1, "!out.append(max([$t, $t], key=lambda x: x.dim()))"),
]
