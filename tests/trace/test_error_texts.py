# SPDX-License-Identifier: Apache-2.0
"""Exceptions that compiled programs raise: type, text, line and the names they carry are plain
Python's, of the very CPython that runs.

Each line of a table is the body of a function ("\\n" begins another line).  It is called uncaught,
caught inside, and from an inlined function; each world has its own module.
"""

import sys
import types
import warnings

import pytest

import gramme as G

PRELUDE = """
import collections, dataclasses, enum, functools, itertools, operator

class Slots:
    __slots__ = ("v",)
    kind = 4
class Lower(Slots):
    __slots__ = ()
class Hooked:
    __slots__ = ()
    def __setattr__(self, name, value): object.__setattr__(self, name, value)
    def __delattr__(self, name): object.__delattr__(self, name)
class Plain: pass
def outer():
    class Inner:
        @property
        def p(self): return 1
    return Inner
Inner = outer()
class Missing:
    def __getattr__(self, name): raise AttributeError(name)
class Color(enum.Enum):
    RED = 1
Pair = collections.namedtuple("Pair", "a b")
@dataclasses.dataclass(frozen=True)
class Frozen:
    x: int = 1
@dataclasses.dataclass
class Data:
    x: int
class Items(list): pass
class Table(dict): pass
class Group(set): pass
class Word(str): pass
class Whole(int): pass
def two(a, b): return a
def named(a, *, k): return a
def first(a, /, b): return a
def counting(): yield 1
slots, lower, hooked, plain, nested, missing, frozen, pair = Slots(), Lower(), Hooked(), Plain(), Inner(), Missing(), Frozen(), Pair(1, 2)
numbers, table, both, some, queue, ordered, items = [1], {"k": 1}, (1,), {1}, collections.deque([1]), collections.OrderedDict(k=1), Items([1])
many, own, group, word, empty, no_order = collections.defaultdict(int, k=1), Table(k=1), Group([1]), Word("a"), {}, collections.OrderedDict()
"""

ATTRIBUTES = r"""
slots.w = 1
slots.kind = 1
slots.v
slots.w
lower.w = 1
lower.v
del slots.w
del slots.v
del slots.kind
setattr(slots, "w", 1)
object.__setattr__(slots, "w", 1)
object.__getattribute__(slots, "v")
getattr(slots, "v")
Slots().v
Slots().w
Slots().w = 1
hooked.w = 1
del hooked.w
missing.x
nested.p = 1
del nested.p
nested.nope
Inner.nope
plain.nope
Plain.nope
del plain.nope
object.__getattribute__(plain, "z")
frozen.x = 3
frozen.q = 3
del frozen.x
pair.c
pair.a = 3
Data(1).y
(1).x
(1).x = 1
None.x
numbers.x
numbers.x = 1
table.x
items.x
collections.nope
two.x
del two.x
len.x
Color.BLUE
Color.RED.nope
""".strip().split(
    "\n"
)

CALLS = r"""
sum("ab", "")
sum([b"a"], b"")
sum([], word)
collections.defaultdict(1)
collections.defaultdict([], k=1)
collections.defaultdict(iter([1]))
type(many)("k")
iter([1]).__next__(1)
many.__reversed__(1)
items.__reversed__(1)
own.__reversed__(key=1)
word.upper(*[1])
word.join(*[1, 2])
word.join([1])
word.zfill(None)
two()
two(1)
two(1, 2, 3)
two(1, a=2)
two(1, c=2)
two(*[1], **{"a": 1})
named(1)
named(1, 2)
first(a=1, b=2)
Inner(1)
Plain(a=1)
plain()
Pair(1)
Pair(1, 2, 3)
Data()
Frozen(1, 2)
super()
super().x
super(Slots, plain).x
sum()
sum(["a"])
sum([1], "a")
max([])
min(1, "a")
sorted([1, "a"])
len(3)
iter(3)
next(iter([]))
next([])
list(3)
dict([1])
dict([(1, 2, 3)])
reversed({1})
isinstance(1, 3)
getattr(plain, "nope")
functools.partial(3)
functools.partial(two, 1)(2, 3)
functools.reduce(two, [])
table.popitem(last=False)
many.popitem(last=False)
many.pop()
many.clear(1)
many.setdefault(1, 2, 3)
many.move_to_end("k")
own.popitem(1)
own.get(k=1)
getattr(many, "popitem")(1)
getattr(own, "clear")(2)
ordered.popitem(first=True)
ordered.move_to_end("q")
ordered.move_to_end(None)
ordered.move_to_end((1, 2))
ordered.pop(None)
ordered.pop((1, 2))
ordered.pop(())
no_order.pop("a", "b", "c")
no_order.move_to_end([])
empty.pop([])
empty.popitem()
table.pop([])
table.pop((1, 2))
items.append()
items.extend(1, 2)
items.insert(x=1)
items.index(5)
group.update(k=1)
group.issubset()
group.add(1, 2)
some.update(k=1)
some.remove(7)
some.remove((1, 2))
word.upper(1)
word.join(1, 2)
"a".join(k=1)
queue.popleft(1)
queue.rotate(1, 2)
pair.index(5)
pair.count()
list(zip([1], [1, 2], strict=True))
list(map(two, [1]))
operator.itemgetter(4)(numbers)
operator.attrgetter("q")(plain)
counting().send(1)
it = counting()\nnext(it)\nnext(it)
raise 3
raise ValueError from 3
raise Plain
try:\n    raise ValueError(1)\nexcept 3:\n    pass
with 3:\n    pass
with plain:\n    pass
assert 0, (1, 2)
nope
print(y)\ny = 1
Color(3)
Color["Q"]
""".strip().split(
    "\n"
)

OPERATIONS = r"""
more = Whole(3); more *= "a"
more = Whole(3); more *= (1,)
operator.imul(Whole(3), "a")
1 + "a"
"a" + 1
[] + ()
"a" * "b"
plain + 1
1 + plain
-plain
plain < plain
1 < "a"
1 in 1
1 in plain
numbers[5]
numbers["a"]
numbers[None]
numbers[5] = 1
del numbers[5]
numbers.pop(3)
numbers.remove(5)
numbers.index(5)
numbers.append()
numbers.insert(1)
[].pop()
both[5]
both["a"]
both[0] = 2
both.index(5)
"a"[5]
"a".index("b")
"a".join([1])
range(3)[5]
range(1, 2, 0)
table["z"]
table[[]]
del table["z"]
table.pop("z")
{}.popitem()
{[]: 1}
some.remove(9)
some.add([])
queue[4]
queue.remove(8)
collections.deque().popleft()
ordered["z"]
ordered.move_to_end("z")
collections.OrderedDict().popitem()
collections.defaultdict()["k"]
items[4]
plain[0]
plain[0] = 1
del plain[0]
Plain[1]
None[0]
a, b = 1
a, b = [1]
a, b = [1, 2, 3]
a, *b = []
a, b, *c = [1]
for i in 3:\n    pass
for i in plain:\n    pass
int("a")
float("a")
1 // 0
1 / 0
1 % 0
1 << -1
1.5 << 1
"%d" % "x"
"%s %s" % 1
"%(a)s" % {}
"{}".format()
"{a}".format()
f"{1:q}"
f"{'a':d}"
hash([])
match plain:\n    case Plain(1):\n        pass
match 3:\n    case int(1, 2):\n        pass
""".strip().split(
    "\n"
)

FORMS = {
    "uncaught": ("def root():\n{}\n", ""),
    "caught": ("def root():\n    try:\n{}\n    except Exception as e:\n        return e\n", "    "),
    "inlined": ("def inner():\n{}\n    return 1\ndef root():\n    return inner()\n", ""),
}


def lines_of(error, file):
    lines, tb = [], error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == file:
            lines.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
        tb = tb.tb_next
    return lines


def shown(error, file):
    if error is None:
        return None
    named = [(name, type(getattr(error, name, None)).__name__) for name in ("obj", "value")] + [
        ("name", getattr(error, "name", None))
    ]
    return (
        type(error).__name__,
        str(error),
        named,
        lines_of(error, file),
        shown(error.__cause__, file),
        shown(error.__context__, file),
        error.__suppress_context__,
    )


def outcome(body, form, compiled):
    template, pad = FORMS[form]
    module = types.ModuleType("program")
    exec(PRELUDE, vars(module))
    file = "<text>"
    text = template.format("\n".join("    " + pad + line for line in body.split("\\n")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, file, "exec"), vars(module))
        root = G.compile(module.root, backend="eager") if compiled else module.root
        try:
            result = root()
        except Exception as error:
            return "raised", shown(error, file)
    return (
        "returned",
        shown(result, file) if isinstance(result, Exception) else type(result).__name__,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("body", ATTRIBUTES + CALLS + OPERATIONS)
def test_an_error_says_what_plain_python_says(body, form):
    plain = outcome(body, form, False)
    assert plain[0] == "raised" or form == "caught"
    assert outcome(body, form, True) == plain


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the text is 3.13's")
def test_the_text_of_this_version():
    said = outcome("slots.w = 1", "caught", True)[1][1]
    assert said == "'Slots' object has no attribute 'w' and no __dict__ for setting new attributes"
