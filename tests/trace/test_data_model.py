# SPDX-License-Identifier: Apache-2.0
"""The data model of Python, point by point: which special method is asked, of the type or of the
instance, in which order, and what is checked of its result.

A row is a point: classes, and expressions over them.  Each expression is run as plain Python and
compiled, three times, once with classes that exist and once with classes that the function makes;
values with their types, exceptions with their texts, warnings and the list `log` must agree.
"""

import enum
import functools
import math
import operator
import os
import textwrap
import types
import warnings

import pytest

import gramme as G

# A break at every instruction executes in plain Python what this file asks of the recorder.
pytestmark = pytest.mark.skipif(
    "break" in os.environ.get("GM_STRESS", ""), reason="asks what the recorder itself does"
)

HELP = """
log = []
def caught(f, *args, **named):
    try:
        return f(*args, **named)
    except Exception as error:
        return type(error).__name__, str(error)
def noted(name, value):
    log.append(name)
    return value
"""

ROWS = {
    # -- Basic customization
    "new that gives another class's object has no init": (
        """
class C:
    def __new__(cls, v): return noted("new", v)
    def __init__(self, v): log.append("init")
class D(C):
    def __new__(cls, v): return object.__new__(D if v else C)
""",
        ["C(3)", "type(D(1)).__name__", "type(D(0)).__name__", "C('a')"],
    ),
    "init gives None": (
        """
class C:
    def __init__(self): return 1
class D:
    def __init__(self, a): self.a = a
""",
        [
            "caught(C)",
            "caught(D)",
            "caught(D, 1, 2)",
            "caught(D, b=1)",
            "D(4).a",
            "caught(object, 1)",
        ],
    ),
    "arguments of object's new and init": (
        """
class N:
    def __new__(cls, *a): return super().__new__(cls)
class I:
    def __init__(self, *a): super().__init__()
class P: pass
""",
        ["type(N(1)).__name__", "type(I(1)).__name__", "caught(P, 1)", "caught(P, a=1)"],
    ),
    "repr and str give text": (
        """
class C:
    def __repr__(self): return 1
class D:
    def __str__(self): return 2
    def __repr__(self): return "D!"
class E:
    def __repr__(self): return "E!"
class S(str): pass
class F:
    def __str__(self): return S("sub")
""",
        [
            "caught(repr, C())",
            "caught(str, C())",
            "caught(str, D())",
            "repr(D())",
            "str(E()), f'{E()}', '%s' % E(), '{}'.format(E()), '{!r}'.format(E())",
            "type(str(F())).__name__, str(F())",
            "caught(lambda: f'{D()}')",
            "caught(lambda: '%s' % D())",
            "ascii(E())",
            "[E()], (E(),), {1: E()}",
            "repr([E(), E()])",
        ],
    ),
    "bytes": (
        """
class C:
    def __bytes__(self): return b"abc"
class D:
    def __bytes__(self): return "abc"
""",
        ["bytes(C())", "caught(bytes, D())"],
    ),
    "format gives text and is found on the type": (
        """
class C:
    def __format__(self, spec): return "<%s>" % spec
class D:
    def __format__(self, spec): return 1
class E:
    def __str__(self): return "E"
class I:
    pass
i = I()
i.__format__ = lambda spec: "of the instance"
I.__str__ = lambda self: "of the class"
""",
        [
            "format(C(), 'x')",
            "f'{C():y}', f'{C()}', '{:z}'.format(C()), '{0:{1}}'.format(C(), 'w')",
            "caught(format, D())",
            "caught(lambda: f'{D()}')",
            "caught('{}'.format, D())",
            "format(E())",
            "caught(format, E(), '5')",
            "caught(lambda: f'{E():>5}')",
            "f'{E()!s:>5}'",
            "format(i)",
            "caught(format, 1, 2)",
        ],
    ),
    "format of subclasses of numbers and texts": (
        """
class MyInt(int):
    def __str__(self): return "int!"
class MyRepr(int):
    def __repr__(self): return "repr!"
class MyFormat(float):
    def __format__(self, spec): return "f" + spec
class MyFloat(float):
    def __str__(self): return "float!"
    def __repr__(self): return "floatrepr!"
class MyStr(str):
    def __str__(self): return "str!"
class MyStrRepr(str):
    def __repr__(self): return "strrepr!"
class MyStrFormat(str):
    def __format__(self, spec): return "sf" + spec
class MyBytes(bytes):
    def __str__(self): return "bytes!"
class MyBool(int):
    pass
class Bare(str): pass
""",
        [
            (
                "format(MyInt(3)), f'{MyInt(3)}', '{}'.format(MyInt(3)), str(MyInt(3)), "
                "repr(MyInt(3)), '%s' % MyInt(3), '%d' % MyInt(3)"
            ),
            "format(MyInt(3), 'd'), f'{MyInt(3):5d}', '{:x}'.format(MyInt(30))",
            (
                "format(MyRepr(3)), f'{MyRepr(3)}', '{!r}'.format(MyRepr(3)), "
                "'{!s}'.format(MyRepr(3)), str(MyRepr(3)), '%s %r' % (MyRepr(3), MyRepr(3)), "
                "ascii(MyRepr(3))"
            ),
            (
                "format(MyFormat(2)), f'{MyFormat(2):e}', '{:x}'.format(MyFormat(2)), "
                "'{}'.format(MyFormat(2)), '%s' % MyFormat(2), '%.2f' % MyFormat(2)"
            ),
            (
                "format(MyFloat(2)), f'{MyFloat(2)}', '{}'.format(MyFloat(2)), "
                "'{:.1f}'.format(MyFloat(2)), str(MyFloat(2)), repr(MyFloat(2)), "
                "'{!r}'.format(MyFloat(2))"
            ),
            (
                "format(MyStr('n')), f'{MyStr(chr(110))}', '{}'.format(MyStr('n')), "
                "'{!s}'.format(MyStr('n')), str(MyStr('n')), '%s' % MyStr('n'), "
                "'{:>4}'.format(MyStr('n')), ''.join([MyStr('n'), 'm'])"
            ),
            (
                "format(MyStrRepr('n')), '{}'.format(MyStrRepr('n')), "
                "'{!r}'.format(MyStrRepr('n')), '%r' % MyStrRepr('n'), f'{MyStrRepr(chr(110))!r}', "
                "ascii(MyStrRepr('n'))"
            ),
            (
                "format(MyStrFormat('n')), '{:q}'.format(MyStrFormat('n')), "
                "f'{MyStrFormat(chr(110)):q}', '%s' % MyStrFormat('n')"
            ),
            "str(MyBytes(b'a')), '{}'.format(MyBytes(b'a')), f'{MyBytes(b\"a\")}'",
            (
                "type(format(Bare('x'))).__name__, type(str(Bare('x'))).__name__, "
                "type(f'{Bare(chr(65))}').__name__, type('{}'.format(Bare('x'))).__name__"
            ),
            "print(end='')",
        ],
    ),
    "comparisons ask the left, or a subclass on the right first": (
        """
class A:
    def __lt__(self, o): return noted("A<", NotImplemented)
    def __gt__(self, o): return noted("A>", "gt")
    def __eq__(self, o): return noted("A==", NotImplemented)
class B(A):
    def __gt__(self, o): return noted("B>", NotImplemented)
    def __eq__(self, o): return noted("B==", NotImplemented)
class N: pass
""",
        [
            "caught(lambda: A() < B()), log[:]",
            "caught(lambda: B() < N()), log[:]",
            "A() < A(), log[:]",
            "A() == B(), log[:]",
            "A() != B(), log[:]",
            "B() == A(), log[:]",
            "caught(lambda: N() < N())",
            "caught(lambda: N() <= 1)",
            "caught(lambda: 1 >= N())",
            "N() == N(), N() != N()",
            "1 == A(), log[:]",
            "A() == 1, log[:]",
            "(N() == 1) is False",
            "N.__eq__(N(), 1) is NotImplemented",
        ],
    ),
    "ne inverts eq": (
        """
class C:
    def __eq__(self, o): return noted("eq", [])
class D:
    def __eq__(self, o): return noted("eq", NotImplemented)
class E:
    def __ne__(self, o): return noted("ne", 7)
""",
        [
            "C() == 1, C() != 1, log[:]",
            "D() != 1, log[:]",
            "E() != E(), E() == E(), log[:]",
            "C() in [1], log[:]",
            "object.__ne__(C(), 1)",
        ],
    ),
    "eq without hash": (
        """
class C:
    def __eq__(self, o): return True
class D:
    __hash__ = None
class E(C):
    __hash__ = object.__hash__
class F(C):
    def __hash__(self): return 3
""",
        [
            "caught(hash, C())",
            "caught(hash, D())",
            "caught(lambda: {C(): 1})",
            "caught(lambda: {D()})",
            "C.__hash__",
            "hash(F())",
            "{F(): 1}[F()]",
            "isinstance(hash(E()), int)",
            "caught(lambda: [] in {1})",
            "F() in {F()}",
        ],
    ),
    "hash gives an int": (
        """
class H:
    def __init__(self, v): self.v = v
    def __hash__(self): return self.v
class I(int):
    def __hash__(self): return 5
class G:
    def __hash__(self): return I(9)
""",
        [
            "hash(H(-1))",
            "hash(H(1 << 70)), hash(H(-(1 << 61)))",
            "caught(hash, H('a'))",
            "caught(hash, H(1.0))",
            "hash(H(True))",
            "hash(G())",
            "caught(hash, H(None))",
            "hash(I(77)), {I(77): 1}.get(77)",
            "caught(lambda: {H('a')})",
        ],
    ),
    "truth": (
        """
class B:
    def __init__(self, v): self.v = v
    def __bool__(self): return self.v
class L:
    def __init__(self, v): self.v = v
    def __len__(self): return self.v
class Both:
    def __bool__(self): return noted("bool", True)
    def __len__(self): return noted("len", 0)
class N:
    __bool__ = None
class I:
    def __index__(self): return 2
""",
        [
            "bool(B(True)), bool(B(False))",
            "caught(bool, B(1))",
            "caught(bool, B(None))",
            "caught(lambda: not B('a'))",
            "bool(L(0)), bool(L(2))",
            "caught(bool, L(-1))",
            "caught(bool, L('a'))",
            "caught(bool, L(1 << 70))",
            "bool(Both()), log[:]",
            "caught(bool, N())",
            "bool(L(I()))",
            "1 if L(3) else 2",
            "caught(lambda: 1 if B(2) else 3)",
            "caught(lambda: B(2) and 1)",
            "bool(L(True))",
        ],
    ),
    "length": (
        """
class L:
    def __init__(self, v): self.v = v
    def __len__(self): return self.v
class I:
    def __index__(self): return 2
class S(list):
    def __len__(self): return 7
""",
        [
            "len(L(3))",
            "caught(len, L(-1))",
            "caught(len, L(1.0))",
            "caught(len, L('a'))",
            "caught(len, L(1 << 70))",
            "caught(len, L(-(1 << 70)))",
            "len(L(I()))",
            "len(L(True)), type(len(L(True))).__name__",
            "caught(len, 5)",
            "len(S()), bool(S()), len(list(S()))",
            "caught(len, L(None))",
            "L(3).__len__()",
        ],
    ),
    # -- Attributes
    "getattr after getattribute": (
        """
class C:
    x = 1
    def __getattr__(self, n): return noted("getattr " + n, n)
class D(C):
    def __getattribute__(self, n):
        log.append("getattribute " + n)
        if n == "bad": raise KeyError(n)
        return super().__getattribute__(n)
class E:
    def __getattribute__(self, n): raise AttributeError("no " + n)
class P:
    @property
    def p(self): raise AttributeError("from p")
    def __getattr__(self, n): return "asked " + n
class Q:
    @property
    def p(self): raise AttributeError("from p")
""",
        [
            "C().x, C().y, log[:]",
            "D().x, D().y, log[:]",
            "caught(lambda: D().bad), log[:]",
            "caught(lambda: E().z)",
            "getattr(E(), 'z', 5)",
            "hasattr(E(), 'z'), hasattr(C(), 'q')",
            "P().p",
            "caught(lambda: Q().p)",
            "hasattr(Q(), 'p')",
            "getattr(Q(), 'p', 3)",
            "caught(lambda: object().a)",
            "caught(lambda: C.y)",
            "D().__class__.__name__, log[:]",
            "caught(getattr, C(), 1)",
            "caught(hasattr, C(), None)",
            "caught(lambda: hasattr(D(), 'bad'))",
            "object.__getattribute__(D(), 'x'), log[:]",
        ],
    ),
    "setattr and delattr": (
        """
class C:
    def __setattr__(self, n, v): log.append(("set", n, v))
    def __delattr__(self, n): log.append(("del", n))
class D:
    def __setattr__(self, n, v): super().__setattr__(n, v * 2)
class E: pass
class F:
    @property
    def p(self): return 1
    @p.deleter
    def p(self): log.append("deleted")
def setting(o, n, v):
    setattr(o, n, v)
    return vars(o)
def deleting(o, n): delattr(o, n)
""",
        [
            "setting(C(), 'a', 1), log[:]",
            "caught(deleting, C(), 'a'), log[:]",
            "setting(D(), 'a', 4)",
            "caught(deleting, E(), 'a')",
            "caught(deleting, D(), 'a')",
            "caught(setting, F(), 'p', 1)",
            "caught(deleting, F(), 'p'), log[:]",
            "caught(setattr, E(), 1, 2)",
            "caught(setattr, 1, 'a', 2)",
            "caught(setattr, object(), 'a', 2)",
            "caught(delattr, object(), 'a')",
            "caught(setattr, int, 'a', 2)",
            "caught(setattr, [], 'append', 2)",
            "caught(delattr, E, 'a')",
        ],
    ),
    "dir": (
        """
class C:
    def __dir__(self): return ["b", "a"]
class D:
    def __dir__(self): return 5
""",
        ["dir(C())", "caught(dir, D())"],
    ),
    "special methods are found on the type": (
        """
class C: pass
c = C()
c.__len__ = lambda: 5
c.__bool__ = lambda: False
c.__call__ = lambda: 1
c.__iter__ = lambda: iter([1])
c.__getitem__ = lambda k: 3
c.__contains__ = lambda k: True
c.__add__ = lambda o: 9
c.__eq__ = lambda o: True
c.__hash__ = lambda: 1
c.__enter__ = lambda: 1
c.__exit__ = lambda *a: 1
c.__str__ = lambda: "instance"
c.__index__ = lambda: 1
c.__neg__ = lambda: 1
c.__reversed__ = lambda: [1]
c.__float__ = lambda: 1.0
c.__round__ = lambda: 1
c.__getattr__ = lambda n: 1
class R:
    def __str__(self): return "class"
def entering():
    with c: pass
""",
        [
            "caught(len, c)",
            "bool(c)",
            "caught(lambda: c())",
            "caught(iter, c)",
            "caught(lambda: c[0])",
            "caught(lambda: 1 in c)",
            "caught(lambda: c + 1)",
            "c == 1",
            "caught(entering)",
            "caught(operator.index, c)",
            "caught(lambda: -c)",
            "caught(reversed, c)",
            "caught(float, c)",
            "caught(round, c)",
            "caught(lambda: c.zz)",
            "caught(int, c)",
            "caught(abs, c)",
            "caught(lambda: [1][c])",
            "caught(next, c)",
            "callable(c)",
        ],
    ),
    "special methods bypass getattribute": (
        """
class M(type):
    def __getattribute__(cls, n):
        log.append("meta " + n)
        return type.__getattribute__(cls, n)
class C(metaclass=M):
    def __len__(self): return 10
    def __getattribute__(self, n):
        log.append("class " + n)
        return object.__getattribute__(self, n)
""",
        ["C().__len__(), log[:]", "type(C()).__len__(C()), log[:]", "len(C()), log[:]"],
    ),
    # -- Descriptors
    "data descriptors come before the instance's dict": (
        """
class Data:
    def __get__(self, o, t=None): return "data"
    def __set__(self, o, v): log.append(("set", v))
class Plain:
    def __get__(self, o, t=None): return "plain", o is None, t.__name__
class SetOnly:
    def __set__(self, o, v): o.__dict__["s"] = v + 1
class DelOnly:
    def __delete__(self, o): log.append("deleted")
    def __get__(self, o, t=None): return "del only"
class C:
    d = Data()
    p = Plain()
    s = SetOnly()
    e = DelOnly()
c = C()
c.__dict__.update(d=1, p=2, e=4)
def store(o, n, v):
    setattr(o, n, v)
    return getattr(o, n)
""",
        [
            "c.d, c.p, C().p, C.p, C.d",
            "type(C().s).__name__",
            "store(C(), 's', 4)",
            "store(C(), 'd', 4), log[:]",
            "caught(store, C(), 'e', 1)",
            "c.e",
            "caught(delattr, C(), 'e'), log[:]",
            "caught(delattr, C(), 'd')",
            "caught(delattr, C(), 's')",
            "store(C(), 'p', 9)",
        ],
    ),
    "set_name": (
        """
class Named:
    def __set_name__(self, owner, name): log.append((owner.__name__, name))
    def __get__(self, o, t=None): return 5
class Bad:
    def __set_name__(self, owner): pass
def make():
    class C:
        b = Named()
        a = Named()
    C.c = Named()
    return C.a
def bad():
    class C:
        x = Bad()
class K:
    k = Named()
""",
        ["make(), log[:]", "K.k, log[:]", "caught(bad)[0]"],
    ),
    "class methods, static methods and functions": (
        """
class C:
    @classmethod
    def c(cls, *a): return cls.__name__, a
    @staticmethod
    def s(*a): return a
    def m(self, *a): return a
    n = len
    l = staticmethod(len)
    p = functools.partial(max, 3)
    t = int
class D(C): pass
""",
        [
            "C.c(1), C().c(2), D.c(3), D().c()",
            "C.s(1), C().s(2)",
            "C.m(1, 2), C().m(3)",
            "caught(C.m)",
            "C().n([1, 2]), C.l([1]), C().l([1])",
            "C().p(2)",
            "C().t('4')",
            "C.c.__self__ is C, C().m.__func__ is C.m",
            "C.__dict__['c'].__func__.__name__",
            "caught(lambda: C().n())",
        ],
    ),
    "class methods over other descriptors": (
        """
class W:
    def __init__(self, f): self.f = f
    def __get__(self, o, t=None): return noted("get", ("W", o.__name__ if isinstance(o, type) else o, t.__name__ if isinstance(t, type) else t))
class Callable:
    def __call__(self, *a): return len(a)
class C:
    p = classmethod(property(lambda cls: 5 if isinstance(cls, type) else 6))
    w = classmethod(W(1))
    k = classmethod(Callable())
    b = classmethod(len)
    f = classmethod(functools.partial(lambda *a: len(a), 1))
    s = staticmethod(W(2))
""",
        [
            "caught(lambda: C.p if isinstance(C.p, int) else type(C.p).__name__)",
            "C.w, C().w, log[:]",
            "C.k(), C().k(1)",
            "caught(lambda: C.b())",
            "C.f(), C().f(2)",
            "type(C.s).__name__, type(C().s).__name__",
        ],
    ),
    "properties": (
        """
class C:
    @property
    def r(self): return 1
    @property
    def w(self): return self._w
    @w.setter
    def w(self, v): self._w = v
    n = property()
    l = property(len)
    def __len__(self): return 6
    m = property(fset=lambda s, v: log.append(v))
class D(C):
    @C.w.getter
    def w(self): return "D"
def store(o, n, v):
    setattr(o, n, v)
    return vars(o)
""",
        [
            "caught(store, C(), 'r', 1)",
            "caught(delattr, C(), 'r')",
            "store(C(), 'w', 3)",
            "caught(lambda: C().w)",
            "caught(lambda: C().n)",
            "caught(lambda: C().m)",
            "caught(store, C(), 'm', 4), log[:]",
            "D().w",
            "store(D(), 'w', 3)",
            "type(C.r).__name__, C.r.fget(C())",
            "C().l",
            "caught(store, C(), 'n', 1)",
            "caught(delattr, C(), 'n')",
        ],
    ),
    "slots": (
        """
class S:
    __slots__ = ("a", "b")
class T(S):
    __slots__ = "c"
class U(S): pass
class V:
    __slots__ = ("__dict__", "z")
def store(o, n, v):
    setattr(o, n, v)
    return getattr(o, n)
def made(**d): return type("M", (), d)
""",
        [
            "caught(lambda: S().a)",
            "store(S(), 'a', 1), store(T(), 'c', 2), store(T(), 'b', 3)",
            "caught(store, S(), 'q', 1)",
            "store(U(), 'q', 1)",
            "store(V(), 'q', 2), store(V(), 'z', 3)",
            "caught(delattr, S(), 'a')",
            "hasattr(S(), '__dict__'), hasattr(U(), '__dict__')",
            "caught(made, __slots__=('a',), a=1)",
            "caught(made, __slots__=(1,))",
            "caught(made, __slots__=('1',))",
            "type(S.a).__name__",
            "caught(lambda: type('X', (int,), {'__slots__': ('a',)}))",
            "S.a.__get__(S) is S.a if False else 1",
        ],
    ),
    "names of a class": (
        """
class C:
    __x = 1
    def get(self): return self.__x
class Outer:
    class Inner: pass
""",
        [
            "C().get(), C._C__x",
            "Outer.Inner.__name__",
            "C.__name__, C.__module__ is not None",
            "C.__bases__, C.__mro__[-1]",
            "C.__doc__",
            "caught(lambda: C.nothing)",
            "caught(lambda: C().nothing)",
        ],
    ),
    # -- Making classes
    "init_subclass": (
        """
class Base:
    def __init_subclass__(cls, /, tag=None, **named):
        super().__init_subclass__(**named)
        log.append((cls.__name__, tag))
def make():
    class D(Base, tag="x"): pass
    class E(Base): pass
    return D.__name__
def wrong():
    class D(Base, other=1): pass
def plain():
    class P(object, other=1): pass
""",
        ["make(), log[:]", "caught(wrong)", "caught(plain)"],
    ),
    "metaclasses": (
        """
class M(type):
    @classmethod
    def __prepare__(m, name, bases, **named): return noted("prepare", {"made": name})
    def __new__(m, name, bases, ns, **named): return super().__new__(m, name, bases, ns)
    def __init__(cls, name, bases, ns, **named): cls.named = sorted(named)
    def __call__(cls, *a): return noted("call", super().__call__(*a))
    def __len__(cls): return 4
    def __getitem__(cls, k): return k * 2
    def __contains__(cls, k): return k == 1
    def __iter__(cls): return iter([cls.__name__])
    def __bool__(cls): return False
    def __add__(cls, o): return "added"
    def __getattr__(cls, n): return "meta " + n
    def __eq__(cls, o): return "eq"
    def __hash__(cls): return 12
    def __repr__(cls): return "R"
    def __call2__(cls): return 1
    @property
    def prop(cls): return cls.__name__
class C(metaclass=M, a=1): pass
class Other(type): pass
def conflict():
    class X(C, metaclass=Other): pass
def derived():
    class D(C, b=2): pass
    return D.named, D.made, type(D).__name__
""",
        [
            "C.made, C.named",
            "type(C()).__name__, log[:]",
            "len(C), C[3], 1 in C, 2 in C, list(C), bool(C)",
            "C + 1",
            "C.other",
            "C == 1",
            "hash(C)",
            "repr(C), str(C), f'{C}'",
            "C.prop",
            "caught(conflict)",
            "derived()",
            "caught(lambda: C().other)",
            "caught(lambda: C().prop)",
            "[x for x in C]",
            "caught(lambda: C < C)",
            "{C: 1}[C]",
        ],
    ),
    "mro_entries": (
        """
class Base: pass
class Entry:
    def __mro_entries__(self, bases): return (Base,)
class Nothing:
    def __mro_entries__(self, bases): return ()
class Bad:
    def __mro_entries__(self, bases): return Base
def make(base):
    class D(base): pass
    return D.__bases__, hasattr(D, "__orig_bases__")
""",
        [
            "make(Entry())",
            "make(Nothing())",
            "caught(make, Bad())",
            "caught(make, 1)[0]",
            "make(Base)",
            "caught(lambda: type('X', (Entry(),), {}))",
        ],
    ),
    "the three arguments of type": (
        """
class B: pass
""",
        [
            "type('X', (B,), {'a': 1}).a",
            "caught(type, 'X', (B,))",
            "caught(type, 1, (B,), {})",
            "type(type('X', (), {})).__name__",
            "caught(type)",
            "caught(lambda: type('X', (bool,), {}))",
            "caught(lambda: type('X', (B, B), {}))",
            "caught(lambda: type('X', (object, B), {}))",
        ],
    ),
    "bases that Python refuses": (
        """
class A: pass
class B(A): pass
class L(list): pass
def rebase(c, bases):
    c.__bases__ = bases
    return c.__bases__
def reclass(o, c):
    o.__class__ = c
    return type(o).__name__
class S:
    __slots__ = ("a",)
""",
        [
            "caught(rebase, A, (B,))",
            "caught(rebase, A, ())",
            "caught(rebase, A, 5)",
            "caught(rebase, A, (L,))",
            "caught(rebase, object, (A,))",
            "caught(reclass, A(), S)",
            "caught(reclass, A(), int)",
            "caught(reclass, A(), 5)",
            "reclass(A(), B)",
            "caught(reclass, 1, A)",
            "caught(reclass, A(), L)",
        ],
    ),
    # -- Instance and subclass checks
    "instancecheck is asked of the metaclass": (
        """
class M(type):
    def __instancecheck__(cls, o): return noted("i", o == 3)
    def __subclasscheck__(cls, c): return noted("s", [])
class C(metaclass=M): pass
class D:
    def __instancecheck__(self, o): return "yes"
    def __subclasscheck__(self, o): return "yes"
class E:
    @classmethod
    def __instancecheck__(cls, o): return True
class F:
    __bases__ = (int,)
""",
        [
            "isinstance(3, C), isinstance(4, C), log[:]",
            "isinstance(C(), C), log[:]",
            "issubclass(int, C), log[:]",
            "isinstance(1, D()), issubclass(int, D())",
            "isinstance(1, E)",
            "caught(isinstance, 1, 2)",
            "caught(isinstance, 1, (int, 2))",
            "caught(isinstance, 1, (2, int))",
            "caught(issubclass, 1, int)",
            "caught(issubclass, int, 1)",
            "isinstance(1, ()), isinstance(1, ((), (int,)))",
            "isinstance(1, int | str), isinstance('a', int | None)",
            "issubclass(bool, int | str)",
            "caught(isinstance, 1, list[int])",
            "issubclass(bool, (str, (int,)))",
            "isinstance(True, int), isinstance(1, bool)",
            "caught(isinstance, 1, D)",
            "caught(isinstance, 1, F())",
            "caught(issubclass, F(), int)",
        ],
    ),
    "isinstance asks the object for its class": (
        """
class A: pass
class Pretends:
    __class__ = A
class Proxy:
    def __init__(self, o): self.o = o
    @property
    def __class__(self): return type(self.o)
class Raises:
    @property
    def __class__(self): raise ValueError("no class")
class Lacks:
    @property
    def __class__(self): raise AttributeError("no class")
class Nothing:
    @property
    def __class__(self): return 5
class Hook:
    def __getattribute__(self, n): return noted(n, dict if n == "__class__" else 1)
class GetAttr:
    def __getattr__(self, n): return noted(n, dict)
class Meta(type):
    @property
    def __class__(cls): return int
class OfMeta(metaclass=Meta): pass
def matched(o):
    match o:
        case dict(): return "dict"
        case int(): return "int"
        case A(): return "A"
    return None
""",
        [
            (
                "isinstance(Pretends(), A), isinstance(Pretends(), Pretends), Pretends().__class__ "
                "is A"
            ),
            "isinstance(Proxy({}), dict), isinstance(Proxy(A()), A), isinstance(Proxy({}), Proxy)",
            "caught(isinstance, Raises(), A)",
            "caught(isinstance, Lacks(), A)",
            "isinstance(Nothing(), A)",
            "isinstance(Hook(), dict), log[:]",
            "Hook().__class__, log[:]",
            "isinstance(GetAttr(), dict), log[:]",
            "isinstance(OfMeta, int), isinstance(OfMeta, type)",
            "matched(Proxy({})), matched(Proxy(1)), matched(Pretends()), matched(Hook())",
            "isinstance(Proxy({}), (int, dict)), isinstance(Proxy({}), int | dict)",
            "caught(isinstance, Raises(), (int, A))",
            "isinstance(Raises(), Raises)",
            "type(Proxy(1)).__name__, Proxy(1).__class__.__name__",
            "isinstance(Proxy(True), int)",
        ],
    ),
    "abstract base classes": (
        """
import abc, collections.abc, numbers
class Sized:
    def __len__(self): return 1
class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, c): return True if hasattr(c, "quack") else NotImplemented
class Duck:
    quack = 1
class Registered(abc.ABC): pass
class R: pass
Registered.register(R)
class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self): pass
class Proxy:
    @property
    def __class__(self): return dict
class NoIter:
    __iter__ = None
class Hashless:
    __hash__ = None
""",
        [
            "isinstance(Sized(), collections.abc.Sized), isinstance(1, collections.abc.Sized)",
            "isinstance(Duck(), Hooked), isinstance(1, Hooked), issubclass(Duck, Hooked)",
            "isinstance(R(), Registered), issubclass(R, Registered)",
            "caught(Abstract)",
            "isinstance(Proxy(), collections.abc.Mapping)",
            "isinstance(NoIter(), collections.abc.Iterable)",
            (
                "isinstance(Hashless(), collections.abc.Hashable), isinstance([], "
                "collections.abc.Hashable)"
            ),
            "isinstance(1, numbers.Number), isinstance(True, numbers.Integral)",
            "isinstance(Duck, collections.abc.Callable)",
            (
                "isinstance((), collections.abc.Sequence), isinstance([], "
                "collections.abc.MutableSequence)"
            ),
        ],
    ),
    # -- Generic classes
    "class_getitem": (
        """
class C:
    def __class_getitem__(cls, k): return cls.__name__, k
class D(C): pass
class M(type):
    def __getitem__(cls, k): return "meta", k
class E(C, metaclass=M): pass
class N: pass
""",
        [
            "C[1], D[2, 3]",
            "E[4]",
            "caught(lambda: N[1])",
            "caught(lambda: C()[1])",
            "list[int] == list[int], repr(list[int])",
            "caught(lambda: int[1])",
        ],
    ),
    # -- Calls
    "call": (
        """
class C:
    def __call__(self, *a, **k): return a, k
class D: pass
class E:
    __call__ = C()
class F:
    __call__ = len
class G(D):
    __call__ = None
""",
        [
            "C()(1, b=2)",
            "caught(D())",
            "E()(1)",
            "callable(C()), callable(D()), callable(E()), callable(D), callable(1)",
            "caught(lambda: F()([1, 2]))",
            "caught(lambda: G()())",
            "callable(G())",
        ],
    ),
    # -- Containers
    "length_hint": (
        """
class I:
    def __init__(self, h): self.h = h
    def __iter__(self): return iter([1, 2])
    def __length_hint__(self): return noted("hint", self.h)
class L(I):
    def __len__(self): return noted("len", 1)
class R:
    def __iter__(self): return iter([1])
    def __length_hint__(self): raise TypeError("x")
class V:
    def __iter__(self): return iter([1])
    def __length_hint__(self): raise ValueError("x")
""",
        [
            "list(I(3)), log[:]",
            "caught(list, I(-1)), log[:]",
            "caught(list, I('a'))",
            "list(I(NotImplemented)), log[:]",
            "list(L(3)), log[:]",
            "operator.length_hint(I(5)), operator.length_hint(L(5)), operator.length_hint(1, 4)",
            "caught(operator.length_hint, I(-1))",
            "caught(list, R())",
            "caught(list, V())",
            "tuple(I(2)), log[:]",
            "[*I(2)], log[:]",
            "sorted(I(2)), log[:]",
            "set(I(2)), log[:]",
            "caught(list, I(1.5))",
        ],
    ),
    "items": (
        """
class C:
    def __getitem__(self, k): return k
    def __setitem__(self, k, v): log.append((k, v))
    def __delitem__(self, k): log.append(k)
class N: pass
def store(o, k, v): o[k] = v
def delete(o, k): del o[k]
class Ix:
    def __init__(self, v): self.v = v
    def __index__(self): return self.v
""",
        [
            "C()[1], C()[1:2], C()[1, ...], C()[:, 2]",
            "store(C(), 1, 2), delete(C(), 3), log[:]",
            "caught(lambda: N()[0])",
            "caught(store, N(), 0, 1)",
            "caught(delete, N(), 0)",
            "[1, 2, 3][Ix(1)], (1, 2)[Ix(-1)], 'abc'[Ix(2)], b'abc'[Ix(0)]",
            "caught(lambda: [1][Ix('a')])",
            "caught(lambda: [1]['a'])",
            "caught(lambda: (1,)[1.0])",
            "caught(lambda: 'a'[None])",
            "caught(lambda: [1][5])",
            "[1, 2, 3][Ix(1):Ix(3)], 'abc'[:Ix(2)]",
            "caught(lambda: [1][1.0:2])",
            "caught(lambda: [1][::0])",
            "range(10)[Ix(3)], range(10)[Ix(1):Ix(5)]",
            "caught(store, (1,), 0, 1)",
            "caught(delete, 'a', 0)",
            "caught(lambda: {}[[]])",
            "[1] * Ix(3), Ix(2) * 'ab'",
            "caught(lambda: [1] * 1.0)",
            "caught(lambda: [1][Ix(1 << 80)])",
            "caught(lambda: 5[0])",
            "caught(lambda: None[0])",
            "caught(store, 5, 0, 1)",
            "caught(delete, 5, 0)",
        ],
    ),
    "missing": (
        """
class D(dict):
    def __missing__(self, k): return noted("missing", k * 2)
class E(dict): pass
e = E()
e.__missing__ = lambda k: "instance"
class S(dict):
    def __missing__(self, k):
        self[k] = 5
        return 6
""",
        [
            "D(a=1)['a'], D()['b'], log[:]",
            "D().get('b'), 'b' in D(), log[:]",
            "caught(lambda: E()['a'])",
            "caught(lambda: e['q'])",
            "(lambda s: (s['a'], s['a']))(S())",
            "caught(lambda: dict.__getitem__(D(), 'a'))",
            "caught(D().pop, 'x')",
            "'%(k)s' % D(), log[:]",
            "'{k}'.format_map(D()), log[:]",
            "D().setdefault('z', 3), log[:]",
        ],
    ),
    "iteration": (
        """
class It:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if self.n <= 0: raise StopIteration(9)
        self.n -= 1
        return self.n
class Bad:
    def __iter__(self): return 5
class NoNext:
    def __iter__(self): return self
class Old:
    def __getitem__(self, i):
        if i > 2: raise IndexError
        return i * 10
class OldStop:
    def __getitem__(self, i):
        if i > 1: raise StopIteration
        return i
class OldKey:
    def __getitem__(self, i): raise KeyError(i)
class N:
    __iter__ = None
    def __getitem__(self, i): return 1
class D(dict): pass
def unpack(o):
    a, b = o
    return a, b
def first(o):
    a, *b = o
    return a, b
""",
        [
            "list(It(3))",
            "[x for x in It(2)]",
            "caught(iter, Bad())",
            "caught(list, Bad())",
            "caught(iter, NoNext())",
            "list(Old()), 20 in Old(), 7 in Old()",
            "list(OldStop())",
            "caught(list, OldKey())",
            "caught(iter, N())",
            "caught(lambda: 1 in N())",
            "unpack(It(2)), unpack(Old.__getitem__(Old(), 0) and 'ab' or 'cd')",
            "caught(unpack, It(1))",
            "caught(unpack, It(5))",
            "caught(unpack, 5)",
            "first(It(3)), first([1])",
            "caught(first, [])",
            "caught(next, It(0))",
            "next(It(0), 'end')",
            "caught(next, [])",
            "caught(list, 5)",
            "iter(lambda: 1, 1).__next__ is not None",
            "max(It(4)), min(It(4)), sum(It(4)), sorted(It(4)), any(It(4)), all(It(4))",
            "list(zip(It(2), It(3))), list(map(abs, It(2))), list(enumerate(It(2)))",
            "dict(zip('ab', It(2)))",
            "tuple(It(2)), set(It(2)), {*It(2)}, [*It(2)], (*It(2),)",
            "caught(lambda: [*5])",
            "caught(lambda: {**5})",
            "caught(lambda: f(*5))",
            "caught(lambda: max(*5))",
            "caught(lambda: max(**5))",
        ],
    ),
    "reversed": (
        """
class R:
    def __reversed__(self): return [3]
class N:
    __reversed__ = None
    def __len__(self): return 2
    def __getitem__(self, i): return i
class S:
    def __len__(self): return noted("len", 2)
    def __getitem__(self, i): return noted(i, i)
class L:
    def __len__(self): return 1
class K(dict): pass
""",
        [
            "reversed(R())",
            "caught(reversed, N())",
            "list(reversed(S())), log[:]",
            "caught(reversed, L())",
            "caught(reversed, 5)",
            "caught(reversed, {1})",
            "list(reversed(K(a=1, b=2)))",
            "list(reversed({1: 2, 3: 4}.items()))",
            "caught(lambda: list(reversed(It)) if False else 1)",
        ],
    ),
    "contains": (
        """
class C:
    def __contains__(self, k): return noted(k, [k] if k else [])
class N:
    __contains__ = None
    def __iter__(self): return iter([1])
class I:
    def __iter__(self): return iter([1, 2])
class E:
    def __eq__(self, o): return noted("eq", "yes")
class X: pass
class Bad:
    def __contains__(self, k): return B()
class B:
    def __bool__(self): return 5
""",
        [
            "1 in C(), 0 in C(), 0 not in C(), log[:]",
            "caught(lambda: 1 in N())",
            "1 in I(), 3 in I()",
            "E() in [1], log[:]",
            "caught(lambda: 1 in X())",
            "caught(lambda: 1 in 5)",
            "caught(lambda: 1 in 'a')",
            "caught(lambda: 'a' in b'a')",
            "caught(lambda: 1 in Bad())",
            "float('nan') in [float('nan')]",
            "(lambda n: n in [n])(float('nan'))",
            "caught(lambda: [] in {})",
        ],
    ),
    # -- Numbers
    "binary operators ask the left, the right, and a subclass first": (
        """
class A:
    def __add__(self, o): return noted("A+", NotImplemented)
    def __radd__(self, o): return noted("A r+", "radd")
    def __sub__(self, o): return noted("A-", "sub")
    def __rsub__(self, o): return noted("A r-", "rsub")
class B(A):
    def __rsub__(self, o): return noted("B r-", "B rsub")
class C(A): pass
class N: pass
class I(int):
    def __radd__(self, o): return noted("I r+", "I radd")
    def __add__(self, o): return noted("I+", NotImplemented)
class T(tuple):
    def __radd__(self, o): return noted("T r+", "T radd")
class S(str):
    def __rmod__(self, o): return noted("S r%", "S rmod")
class L(list):
    def __add__(self, o): return noted("L+", NotImplemented)
""",
        [
            "caught(lambda: A() + A()), log[:]",
            "A() + N() if False else 0",
            "caught(lambda: A() + 1), log[:]",
            "1 + A(), log[:]",
            "A() - B(), log[:]",
            "A() - C(), log[:]",
            "B() - A(), log[:]",
            "N() + A(), log[:]",
            "caught(lambda: N() + N())",
            "caught(lambda: N() + 1)",
            "caught(lambda: 1 + N())",
            "1 + I(2), log[:]",
            "I(1) + I(2) if False else 0, log[:]",
            "caught(lambda: I(1) + 2), log[:]",
            "(1,) + T((2,)), log[:]",
            "'%s' % S('a'), log[:]",
            "caught(lambda: L([1]) + [2]), log[:]",
            "caught(lambda: [1] + (2,))",
            "caught(lambda: (1,) + [2])",
            "caught(lambda: 'a' + 1)",
            "caught(lambda: 1 + 'a')",
            "caught(lambda: b'a' + 'a')",
            "caught(lambda: {} | 1)",
            "caught(lambda: {1} | [2])",
            "caught(lambda: None + 1)",
            "caught(lambda: [] - [])",
            "caught(lambda: 1 @ 2)",
            "caught(lambda: 1 // 0)",
            "caught(lambda: 1.0 % 0)",
            "caught(lambda: 1 << -1)",
            "caught(lambda: 'a' * 'b')",
        ],
    ),
    "all the binary operators": (
        """
class O:
    pass
for name in "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or".split():
    setattr(O, f"__{name}__", (lambda n: lambda self, o, *m: (n, type(o).__name__, m))(name))
    setattr(O, f"__r{name}__", (lambda n: lambda self, o, *m: ("r" + n, type(o).__name__, m))(name))
o = O()
""",
        [
            (
                "o + 1, o - 1, o * 1, o @ 1, o / 1, o // 1, o % 1, divmod(o, 1), o ** 1, pow(o, "
                "1), pow(o, 1, 2), o << 1, o >> 1, o & 1, o ^ 1, o | 1"
            ),
            (
                "1 + o, 1 - o, 1 * o, 1 @ o, 1 / o, 1 // o, 1 % o, divmod(1, o), 1 ** o, pow(1, "
                "o), 1 << o, 1 >> o, 1 & o, 1 ^ o, 1 | o"
            ),
            "caught(pow, 1, o, 2)",
            "caught(pow, 1, 2, o)",
            "1.0 + o, 1.0 ** o, divmod(1.0, o), pow(1.0, o), 1.0 // o",
            (
                "'a' + o, 'a' * o, '%s%s' % (1, 2), [1] + o, [1] * o, (1,) + o, (1,) * o, {1} | o, "
                "{1: 2} | o, None + o, ... * o, b'a' + o"
            ),
            "True + o, True & o, divmod(True, o), pow(True, o)",
            "1j + o, 1j ** o, pow(1j, o)",
        ],
    ),
    "in-place operators fall back": (
        """
class I:
    def __iadd__(self, o): return noted("i+", ("iadd", o))
    def __imul__(self, o): return noted("i*", NotImplemented)
    def __mul__(self, o): return noted("*", "mul")
    def __sub__(self, o): return noted("-", "sub")
    def __ipow__(self, o): return "ipow"
    def __imatmul__(self, o): return "imatmul"
class R:
    def __radd__(self, o): return noted("r+", "radd")
class N: pass
class L(list):
    def __iadd__(self, o): return noted("L i+", "L iadd")
def iadd(a, b):
    a += b
    return a
def imul(a, b):
    a *= b
    return a
def isub(a, b):
    a -= b
    return a
def ipow(a, b):
    a **= b
    return a
def imatmul(a, b):
    a @= b
    return a
""",
        [
            "iadd(I(), 1), log[:]",
            "imul(I(), 1), log[:]",
            "isub(I(), 1), log[:]",
            "ipow(I(), 1), imatmul(I(), 1)",
            "iadd(1, R()), log[:]",
            "caught(iadd, N(), 1)",
            "caught(imul, N(), 1)",
            "caught(ipow, N(), 1)",
            "caught(iadd, [1], 5)",
            "caught(iadd, (1,), [2])",
            "iadd([1], (2,)), iadd([1], 'ab')",
            "iadd(L(), [1]), log[:]",
            "caught(isub, {1}, [1])",
            "caught(imul, [1], 1.5)",
            "caught(iadd, 'a', 1)",
            "operator.iadd(I(), 2), log[:]",
        ],
    ),
    "unary operators": (
        """
class U:
    def __neg__(self): return "neg"
    def __pos__(self): return "pos"
    def __invert__(self): return "inv"
    def __abs__(self): return "abs"
class N: pass
class I(int):
    def __neg__(self): return "I neg"
""",
        [
            "-U(), +U(), ~U(), abs(U())",
            "caught(lambda: -N())",
            "caught(lambda: +N())",
            "caught(lambda: ~N())",
            "caught(abs, N())",
            "-I(3), +I(3), type(+I(3)).__name__, ~I(3), abs(I(-3))",
            "caught(lambda: ~1.5)",
            "caught(lambda: -'a')",
            "caught(abs, 'a')",
        ],
    ),
    "int": (
        """
class I:
    def __init__(self, v): self.v = v
    def __int__(self): return self.v
class Ix:
    def __init__(self, v): self.v = v
    def __index__(self): return self.v
class T:
    def __init__(self, v): self.v = v
    def __trunc__(self): return self.v
class Sub(int): pass
class Own(int):
    def __int__(self): return 42
class SubIx(int):
    def __index__(self): return 43
class N: pass
class S(str):
    def __int__(self): return 44
""",
        [
            "int(I(3)), int(Ix(4))",
            "caught(int, I('a'))",
            "caught(int, I(1.5))",
            "caught(int, Ix('a'))",
            "caught(int, I(True))",
            "caught(int, I(Sub(5)))",
            "caught(int, Ix(Sub(5)))",
            "caught(int, Ix(True))",
            "int(Own(1)), int(SubIx(1)), type(int(Sub(3))).__name__",
            "caught(int, N())",
            "caught(int, None)",
            "caught(int, [])",
            "caught(int, 'x')",
            "int(S('5'))",
            "caught(int, T(6))",
            "int('0x1f', 16), int('11', Ix(2))",
            "caught(int, 5, 2)",
            "caught(int, '5', 1)",
            "int(3.9), int(-3.9)",
            "caught(int, float('nan'))",
            "caught(int, 1j)",
            "int(b'12')",
        ],
    ),
    "float and complex": (
        """
class F:
    def __init__(self, v): self.v = v
    def __float__(self): return self.v
class Ix:
    def __init__(self, v): self.v = v
    def __index__(self): return self.v
class C:
    def __init__(self, v): self.v = v
    def __complex__(self): return self.v
class Sub(float): pass
class Own(float):
    def __float__(self): return 4.5
class SubC(complex): pass
class N: pass
""",
        [
            "float(F(1.5)), float(Ix(3))",
            "caught(float, F(1))",
            "caught(float, F('a'))",
            "caught(float, F(Sub(2)))",
            "caught(float, Ix(1.0))",
            "float(Own(1)), type(float(Sub(1))).__name__",
            "caught(float, N())",
            "caught(float, None)",
            "caught(float, 'x')",
            "caught(float, 1j)",
            "complex(C(1j)), complex(F(1.5)), complex(Ix(2))",
            "caught(complex, C(1.5))",
            "caught(complex, C('a'))",
            "caught(complex, C(1))",
            "caught(complex, N())",
            "caught(complex, C(SubC(1j)))",
            "complex(1, F(2.0)), complex(C(1j), 1)",
            "caught(complex, F(1))",
            "math.sqrt(F(4.0)), math.sqrt(Ix(4))",
            "caught(math.sqrt, N())",
            "caught(math.sqrt, F('a'))",
            "caught(float, Ix(1 << 2000))",
        ],
    ),
    "index": (
        """
class Ix:
    def __init__(self, v): self.v = v
    def __index__(self): return self.v
class Sub(int): pass
class SubIx(int):
    def __index__(self): return 9
class N: pass
class Int:
    def __int__(self): return 1
""",
        [
            (
                "operator.index(Ix(3)), operator.index(True), operator.index(SubIx(2)), "
                "type(operator.index(Sub(3))).__name__"
            ),
            "caught(operator.index, N())",
            "caught(operator.index, 1.0)",
            "caught(operator.index, Ix('a'))",
            "caught(operator.index, Ix(None))",
            "caught(operator.index, Ix(True))",
            "caught(operator.index, Int())",
            "bin(Ix(5)), hex(Ix(255)), oct(Ix(8))",
            "caught(bin, N())",
            "caught(hex, 1.5)",
            "caught(hex, Ix(1.5))",
            "chr(Ix(65))",
            "caught(chr, N())",
            "list(range(Ix(3))), range(Ix(1), Ix(9), Ix(2))",
            "caught(range, 1.5)",
            "caught(range, N())",
            "'%d %x' % (Ix(5), Ix(6)) if False else 0",
            "caught(lambda: '%d' % Ix(5))",
            "caught(lambda: '%x' % Int())",
            "'%x' % Ix(10)",
            "math.gcd(Ix(4), 6), math.factorial(Ix(4))",
            "caught(math.factorial, 1.5)",
            "[0] * Ix(2)",
            "'a'.center(Ix(3)), 'a'.zfill(Ix(2))",
            "[1, 2].pop(Ix(0))",
            "caught([1].pop, 1.0)",
            "round(1.256, Ix(2))",
            "caught(round, 1.5, 1.5)",
            "bytes(Ix(2))",
            "int.from_bytes(b'ab', 'big'), (5).to_bytes(Ix(2), 'big')",
            "slice(Ix(1), None).indices(Ix(4))",
            "list(enumerate('a', Ix(4)))",
            "pow(2, SubIx(3)), pow(Sub(2), 3), divmod(7, Sub(2))",
        ],
    ),
    "reflected pow and divmod": (
        """
class Rev:
    def __rpow__(self, o, m=None): return noted("rpow", ("rpow", type(o).__name__))
    def __rdivmod__(self, o): return noted("rdivmod", ("rdivmod", type(o).__name__))
    def __index__(self): return 3
    def __float__(self): return 3.0
class Ix:
    def __index__(self): return 3
class Fl:
    def __float__(self): return 3.0
class P:
    def __pow__(self, o, m=None): return "pow", m
    def __divmod__(self, o): return "divmod"
class D:
    def __pow__(self, o, m=None): return noted("pow", NotImplemented)
    def __divmod__(self, o): return noted("divmod", NotImplemented)
class I(int):
    def __rpow__(self, o, m=None): return "I rpow"
    def __rdivmod__(self, o): return "I rdivmod"
    def __pow__(self, o, m=None): return "I pow", m
""",
        [
            "pow(2, Rev()), divmod(7, Rev()), 2 ** Rev(), log[:]",
            "pow(2.0, Rev()), divmod(7.0, Rev()), 2.0 ** Rev()",
            "caught(pow, 2, Ix())",
            "caught(pow, Ix(), 2)",
            "caught(divmod, 7, Ix())",
            "caught(pow, 2.0, Fl())",
            "caught(divmod, 7.0, Fl())",
            "caught(pow, 2, 3, Ix())",
            "caught(pow, 2, 3, 0)",
            "pow(2, 3, 5), pow(2, -1, 5)",
            "caught(pow, 2, -1, 4)",
            "caught(pow, 2.0, 3, 5)",
            "pow(P(), 2), pow(P(), 2, 3), divmod(P(), 1)",
            "pow(D(), Rev()), divmod(D(), Rev()), log[:]",
            "caught(pow, D(), 1), log[:]",
            "caught(divmod, D(), 1)",
            "caught(pow, 'a', 1)",
            "caught(pow, D(), 1, 2)",
            "pow(2, I(3)), divmod(2, I(3)), pow(I(3), 2, 5), pow(I(3), 2)",
            "pow(base=2, exp=3)",
            "caught(pow, 2)",
            "caught(divmod, 1)",
            "caught(divmod, 1, 0)",
            "divmod(True, 2), pow(True, 2), divmod(7.5, 2)",
            "caught(pow, 0, -1)",
            "pow(-8.0, 1 / 3)",
            "caught(round, Rev())",
        ],
    ),
    "round, trunc, floor and ceil": (
        """
class R:
    def __round__(self, *n): return ("round", n)
    def __trunc__(self): return "trunc"
    def __floor__(self): return "floor"
    def __ceil__(self): return "ceil"
class F:
    def __float__(self): return 2.5
class Sub(float):
    def __round__(self, n=None): return "sub", n
class I(int):
    def __floor__(self): return "I floor"
    def __round__(self, n=None): return "I round", n
class N: pass
""",
        [
            "round(R()), round(R(), 2), round(R(), None), round(number=R(), ndigits=1)",
            "math.trunc(R()), math.floor(R()), math.ceil(R())",
            "caught(math.trunc, F())",
            "math.floor(F()), math.ceil(F())",
            "caught(round, F())",
            "round(Sub(1)), round(Sub(1), 1)",
            "math.floor(I(3)), round(I(3)), round(I(3), 1), math.trunc(I(3))",
            "caught(round, N())",
            "caught(math.floor, N())",
            "caught(math.trunc, N())",
            "round(2.5), round(-0.5), round(12345, -2), round(1.25, 1), round(True)",
            "caught(round, 'a')",
        ],
    ),
    # -- with
    "context managers": (
        """
class C:
    def __enter__(self): return noted("enter", 5)
    def __exit__(self, *a): return noted(("exit", a[0] and a[0].__name__), self.result)
    def __init__(self, result=None): self.result = result
class NoExit:
    def __enter__(self): pass
class NoEnter:
    def __exit__(self, *a): pass
class Falsy:
    def __bool__(self): return 5
def within(c):
    with c as v: return v
def raising(c):
    with c: raise ValueError("inside")
    return "swallowed"
""",
        [
            "within(C()), log[:]",
            "caught(raising, C()), log[:]",
            "raising(C([1])), log[:]",
            "caught(raising, C([]))",
            "caught(within, NoExit())",
            "caught(within, NoEnter())",
            "caught(within, 5)",
            "caught(raising, C(Falsy()))[0]",
        ],
    ),
    # -- match
    "class patterns": (
        """
class P:
    __match_args__ = ("a", "b")
    a = 1
    b = 2
class Bad:
    __match_args__ = ["a"]
    a = 1
class BadName:
    __match_args__ = (1,)
class NoArgs: a = 1
class Missing:
    __match_args__ = ("zz",)
class Str(str): pass
class Own(int):
    __match_args__ = ("real",)
class GetAttr:
    __match_args__ = ("q",)
    def __getattr__(self, n):
        if n == "q": return "got"
        raise AttributeError(n)
class Raises:
    __match_args__ = ("q",)
    @property
    def q(self): raise ValueError("q")
def positional(o, c):
    match o:
        case c(x): return x
    return "no"
def two(o, c):
    match o:
        case c(x, y): return x, y
    return "no"
def both(o, c):
    match o:
        case c(x, a=y): return x, y
    return "no"
def same(o, c):
    match o:
        case c(a=x, b=y): return x, y
    return "no"
""",
        [
            "positional(P(), P), two(P(), P), same(P(), P)",
            "caught(both, P(), P)",
            "caught(positional, Bad(), Bad)",
            "caught(positional, BadName(), BadName)",
            "caught(positional, NoArgs(), NoArgs)",
            "positional(Missing(), Missing)",
            (
                "positional(Str('x'), str), positional(Str('x'), Str), positional(3, int), "
                "positional([1], list)"
            ),
            "caught(two, 3, int)",
            "positional(Own(4), Own)",
            "positional(GetAttr(), GetAttr)",
            "caught(positional, Raises(), Raises)",
            "caught(positional, 1, 5)",
            "caught(two, Missing(), Missing)",
            "positional(1, P)",
            "caught(two, NoArgs(), NoArgs)",
            (
                "positional({1: 2}, dict), positional(True, bool), positional(b'a', bytes), "
                "positional(1.5, float)"
            ),
        ],
    ),
    "sequence and mapping patterns": (
        """
import collections, collections.abc
class Seq(collections.abc.Sequence):
    def __len__(self): return 2
    def __getitem__(self, i): return (10, 20)[i]
class L(list): pass
class Like:
    def __len__(self): return 2
    def __getitem__(self, i): return i
class D(dict):
    def __missing__(self, k): return noted("missing", 1)
    def get(self, k, d=None): return noted("get", super().get(k, d))
class Map(collections.abc.Mapping):
    def __len__(self): return 1
    def __iter__(self): return iter(["a"])
    def __getitem__(self, k): return {"a": 1}[k]
class K:
    key = "a"
    other = "a"
def pair(o):
    match o:
        case [a, b]: return a, b
        case [a, *r]: return "rest", a, r
    return "no"
def keyed(o):
    match o:
        case {"a": y, **rest}: return y, rest
    return "no"
def doubled(o):
    match o:
        case {K.key: y, "a": z}: return y, z
    return "no"
def twice(o):
    match o:
        case {K.key: y, K.other: z}: return y, z
    return "no"
def empty(o):
    match o:
        case {}: return "mapping"
        case []: return "empty"
    return "no"
""",
        [
            (
                "pair([1, 2]), pair((1, 2)), pair('ab'), pair(b'ab'), pair(Seq()), pair(L([1, "
                "2])), pair(Like()), pair(range(2)), pair([1]), pair({1, 2})"
            ),
            "keyed({'a': 1, 'b': 2}), keyed({'b': 1}), keyed([1])",
            "keyed(D(a=1)), log[:]",
            "keyed(D(b=1)), log[:]",
            "keyed(collections.defaultdict(int, a=4)), keyed(collections.OrderedDict(a=5))",
            "keyed(Map())",
            "caught(doubled, {'a': 0})",
            "caught(twice, {'a': 0})",
            "caught(doubled, {})",
            "caught(doubled, [])",
            "empty({}), empty([]), empty(1), empty(D())",
        ],
    ),
    # -- Enumerations and the rest of what classes say
    "enumerations": (
        """
class E(enum.Enum):
    A = 1
    B = 2
    ALSO = 1
class I(enum.IntEnum):
    X = 1
    Y = 2
    def __str__(self): return "I." + self.name.lower()
class F(enum.Flag):
    R = 1
    W = 2
class S(str, enum.Enum):
    Q = "q"
class Formats(enum.Enum):
    A = 1
    def __format__(self, spec): return "formatted" + spec
""",
        [
            "str(E.A), repr(E.A), f'{E.A}', '{}'.format(E.A), format(E.A, '>5'), '%s' % E.A",
            "str(I.X), repr(I.X), f'{I.X}', '{}'.format(I.X), format(I.X), '%s %d' % (I.X, I.X)",
            "str(F.R | F.W), f'{F.R}', repr(F.R), F.R in F.R | F.W",
            "f'{S.Q}', str(S.Q), '{}'.format(S.Q), S.Q + 'a', S.Q == 'q'",
            "f'{Formats.A:x}', '{:y}'.format(Formats.A)",
            "{E.A: 1}[E.ALSO], {F.R: 2}[F.R], {I.X: 3}[1], {S.Q: 4}['q']",
            "E(1), E['B'], list(E), E.A.value, E.A.name, len(E)",
            "caught(E, 5)",
            "isinstance(E.A, E), E.A is E.ALSO, E.A in E",
            "I.X + 1, I.X < I.Y, sorted(I), max(I)",
            "caught(lambda: E.A < E.B)",
            "hash(E.A) == hash(E.ALSO), {E.A, E.B, E.ALSO} == {E.A, E.B}",
        ],
    ),
    # -- Beyond the chapter: what is built on it
    "operators between tensors and objects": (
        """
class R:
    def __radd__(self, o): return noted("radd", ("radd", type(o).__name__))
    def __rmatmul__(self, o): return "rmatmul"
    def __rsub__(self, o): return NotImplemented
    def __eq__(self, o): return noted("eq", "eq")
    __hash__ = None
    def __add__(self, o): return noted("add", ("add", type(o).__name__))
    def __rpow__(self, o, m=None): return "rpow"
    def __lt__(self, o): return "lt"
    def __gt__(self, o): return "gt"
class N: pass
class F:
    def __float__(self): return 2.0
class I(int): pass
def iadd(a, b):
    a += b
    return a
""",
        [
            "(x + R(), R() + x, x @ R(), x ** R()), log[:]",
            "iadd(x, R()), log[:]",
            "caught(lambda: x - R())[0]",
            "caught(lambda: x + N())[0]",
            "(x + I(2)).tolist(), (I(2) * x).tolist(), (x ** I(2)).tolist()",
            "caught(lambda: x + F())[0]",
            "caught(lambda: N() * x)[0]",
        ],
    ),
    "reflected methods of subclasses of containers": (
        """
class L(list):
    def __radd__(self, o): return noted("L r+", "L radd")
    def __rmul__(self, o): return "L rmul"
class D(dict):
    def __ror__(self, o): return noted("D r|", "D ror")
class S(set):
    def __rsub__(self, o): return noted("S r-", "S rsub")
    def __rand__(self, o): return NotImplemented
class T(tuple):
    def __eq__(self, o): return noted("T==", "T eq")
    __hash__ = tuple.__hash__
    def __gt__(self, o): return noted("T>", "T gt")
class B(bytes):
    def __radd__(self, o): return "B radd"
    def __rmod__(self, o): return "B rmod"
class St(str):
    def __radd__(self, o): return "St radd"
    def __rmul__(self, o): return "St rmul"
    def __eq__(self, o): return "St eq"
    __hash__ = str.__hash__
""",
        [
            "[1] + L([2]), 3 * L([1]), log[:]",
            "{1: 2} | D(), log[:]",
            "{1, 2} - S([1]), log[:]",
            "caught(lambda: {1, 2} & S([1]))",
            "(1,) == T((1,)), (1,) < T((2,)), log[:]",
            "caught(lambda: b'a' + B(b'b'))",
            "caught(lambda: b'%s' % B(b'b'))",
            "'a' + St('b'), 2 * St('b'), 'b' == St('b')",
            "[1] == L([1]), {1: 2} == D({1: 2}), {1} == S([1])",
        ],
    ),
    "dataclasses": (
        """
import dataclasses
@dataclasses.dataclass(order=True)
class P:
    a: int
    b: list = dataclasses.field(default_factory=list, compare=False)
    def __post_init__(self): log.append(self.a)
@dataclasses.dataclass(frozen=True, slots=True)
class Q:
    a: int = 1
def change(q): q.a = 2
""",
        [
            "P(1) == P(1, [2]), P(1) < P(2), repr(P(3)), log[:]",
            "sorted([P(2), P(1)])[0].a",
            "caught(change, Q())",
            "hash(Q()) == hash(Q()), {Q(): 1}[Q()]",
            "dataclasses.replace(P(1), a=5).a, dataclasses.asdict(Q())",
            "caught(hash, P(1))",
            "caught(P)",
        ],
    ),
    "helpers of functools": (
        """
@functools.total_ordering
class O:
    def __init__(self, v): self.v = v
    def __eq__(self, o): return self.v == o.v
    def __lt__(self, o): return noted("lt", self.v < o.v)
class C:
    @functools.cached_property
    def c(self): return noted("c", 5)
    def m(self, a, b): return a, b
    pm = functools.partialmethod(m, 1)
    @functools.singledispatchmethod
    def s(self, a): return "any"
    @s.register
    def _(self, a: int): return "int"
def base(a, /, b=2, *c, d=4, **e): return a, b, c, d, e
""",
        [
            "O(1) <= O(2), O(1) > O(2), O(2) >= O(2), log[:]",
            "(lambda o: (o.c, o.c))(C()), log[:]",
            "C().pm(2), C().pm(b=3)",
            "C().s(1), C().s('a'), C().s(True)",
            "functools.partial(base, 1, d=5)(3, z=6)",
            "caught(functools.partial(base, 1), a=2)",
            "functools.reduce(operator.add, [1, 2], 3)",
            "caught(functools.reduce, operator.add, [])",
        ],
    ),
    "bound methods": (
        """
class A:
    def m(self, *a): return self.name, a
    def __init__(self, name): self.name = name
class B(A): pass
def assigned(a, b):
    b.m = a.m.__get__(b, B)
    return b.m(1)
""",
        [
            "A('a').m.__call__(1)",
            "A('a').m.__get__(B('b'))()",
            "A.m.__get__(A('c'), A)(2)",
            "assigned(A('a'), B('b'))",
            (
                "A('a').m.__func__(B('z')), A('q').m.__self__.name, A('a').m.__name__, "
                "A('a').m.__doc__"
            ),
            "types.MethodType(len, [1, 2])()",
            "(lambda a: a.m == a.m)(A('a')), A('a').m == A('a').m",
            "caught(types.MethodType, 5, 6)",
            "caught(lambda: A.m())",
        ],
    ),
    "generators": (
        """
def g():
    try:
        got = yield 1
        yield got
    except GeneratorExit:
        return 7
    finally:
        log.append("end")
def closed(it):
    next(it)
    return it.close()
def sent(it): return next(it), it.send(5), next(it, "done")
def stops():
    yield 1
    raise StopIteration
def outer():
    r = yield from inner()
    yield r
def inner():
    yield 1
    return 2
def thrown(it):
    next(it)
    return caught(it.throw, ValueError("v"))
""",
        [
            "closed(g()), log[:]",
            "sent(g()), log[:]",
            "caught(list, stops())",
            "list(outer())",
            "thrown(g()), log[:]",
            "caught(g().send, 1)",
            "g().close(), log[:]",
            "type(g()).__name__, iter(g()).__next__()",
        ],
    ),
    "super": (
        """
class A:
    def f(self): return ["A"]
    @classmethod
    def c(cls): return [cls.__name__, "A"]
    @property
    def p(self): return "A p"
    x = 1
class B(A):
    def f(self): return ["B"] + super().f()
    @classmethod
    def c(cls): return ["B"] + super().c()
    @property
    def p(self): return "B " + super().p
    def bad(self): return super().nothing
    def attr(self): return super().x
    def two(self): return super(B, self).f()
class C(A):
    def f(self): return ["C"] + super().f()
class D(B, C): pass
""",
        [
            "D().f(), D.c(), D().p, D().attr(), D().two()",
            "caught(D().bad)",
            "caught(lambda: super(B, 5).f())",
            "super(B, B()).f(), super(B, B).c()",
            "type(super(B, B())).__name__",
            "caught(lambda: super(A, A()).f())",
        ],
    ),
    "equality without methods": (
        """
class K:
    def __eq__(self, o): return noted("K==", True)
    def __hash__(self): return hash("k")
class NaN(float):
    def __eq__(self, o): return False
    __hash__ = float.__hash__
class I(int):
    __eq__ = str.__eq__
    __hash__ = int.__hash__
class H(float): pass
""",
        [
            "{K(): 1}['k'], log[:]",
            "K() in ('x',), ['x'].index(K()), [1, K()].count('z'), log[:]",
            "caught(lambda: I(1) == 1)",
            "caught(lambda: I(1) == I(1))",
            "(lambda h: hash(h) == object.__hash__(h))(H('nan'))",
            "(lambda h: hash(h) == hash(2.0))(H(2))",
            "(lambda h: {h: 1}[h])(H('nan'))",
            "(lambda n: [n] == [n])(NaN(1))",
            "caught(lambda: [K()] < [1])",
        ],
    ),
    "what a builtin method takes": (
        """
class Pairs:
    def keys(self): return noted("keys", ["a"])
    def __getitem__(self, k): return k + "!"
class D(dict):
    def keys(self): return noted("keys", ["b"])
    def __getitem__(self, k): return "got " + k
class P:
    def __fspath__(self): return "path"
class S(str):
    def __str__(self): return "other"
class It(list):
    def __iter__(self): return iter(["i"])
""",
        [
            "dict(Pairs()), {**Pairs()}, log[:]",
            "dict(D(x=1)), {**D(x=1)}, log[:]",
            "D(x=1) | {'y': 2}, {'y': 2} | D(x=1), log[:]",
            "(lambda d: (d.update(D(x=1)), d))({}), log[:]",
            "os.fspath(P())",
            "','.join([S('a'), S('b')]), S('a') + 'b', 'b' + S('a')",
            "list(It([1])), [*It([1])], tuple(It([1])), sorted(It([1])), ','.join(It(['z']))",
            "{}.__class__, dict.fromkeys(Pairs.keys(1))",
            (
                "[].__add__([1]), (3).__add__(4), (3).__add__('a') is NotImplemented, "
                "type((3).__lt__).__name__"
            ),
            "int.__add__(3, 4), caught(int.__add__, 'a', 4), caught(str.upper, 5)",
            (
                "type(''.join).__name__, type(len).__name__, type(str.upper).__name__, "
                "type(int.__add__).__name__, type((3).__add__).__name__, type([].append).__name__"
            ),
        ],
    ),
}

NAMES = {
    "enum": enum,
    "functools": functools,
    "math": math,
    "operator": operator,
    "os": os,
    "types": types,
    "__name__": "rows",
}


def described(value):
    if isinstance(value, (list, tuple, set, frozenset)) and type(value).__module__ == "builtins":
        return type(value).__name__, [described(item) for item in value]
    if isinstance(value, dict):
        return type(value).__name__, [(described(k), described(v)) for k, v in value.items()]
    return type(value).__name__, type.__repr__(value) if isinstance(value, type) else repr(value)


def outcome(function, x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = described(function(x))
        except Exception as error:
            value = "raised", type(error).__name__, str(error)
    return value, [
        str(w.message) for w in caught if w.category in (DeprecationWarning, SyntaxWarning)
    ]


def defined(text, names):
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the compiler warns of some errors that are made on purpose
        exec(text, names)


def existing(setup, expression):
    """A function over classes that are there before it is called."""
    names = dict(NAMES)
    exec(HELP + setup, names)
    defined(f"def f(x):\n    log.clear()\n    return {expression}, (x + 1).tolist()", names)
    return names["f"]


def inside(setup, expression):
    """A function that makes its classes."""
    names = dict(NAMES)
    body = textwrap.indent(HELP + setup, "    ")
    defined(f"def f(x):\n{body}\n    return {expression}, (x + 1).tolist()", names)
    return names["f"]


@pytest.mark.parametrize("make", [existing, inside])
@pytest.mark.parametrize("point", ROWS)
def test_a_point_of_the_data_model(point, make):
    setup, expressions = ROWS[point]
    x = G.ones(2)
    wrong = []
    for expression in expressions:
        plain = make(setup, expression)
        wants = [outcome(plain, x) for _ in range(3)]
        compiled = G.compile(make(setup, expression), backend="eager")
        gives = [outcome(compiled, x) for _ in range(3)]
        if gives != wants:
            wrong.append(f"{expression}\n    plain    {wants}\n    compiled {gives}")
    assert not wrong, "\n".join(wrong)
