# SPDX-License-Identifier: Apache-2.0
"""The guard list of an entry, the reasons for recompiling, and what a compiled function keeps
alive."""

import gc
import types
import warnings
import weakref

import pytest

import gramme as G
from stress import undisturbed

pytestmark = undisturbed


def compiled(fn, **options):
    return G.compile(fn, backend="eager", **options)


def fresh(fn):
    """The function with a code object of its own, hence with a cache of its own."""
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def guards(c, index=0):
    return c.entries()[index]["guards"].splitlines()


def test_backend_match_and_modes_come_first():  # BACKEND-06
    f = compiled(lambda x: x + 1)
    f(G.ones(2))
    lines = guards(f)
    assert lines[0] == "BACKEND_MATCH('eager')"
    assert lines[1] == "GRAD_MODE on, FULLGRAPH off, DEFAULT_DTYPE f32"


def test_texts_name_source_and_line():
    def root(x, n, name, items, table):
        return x * n + len(name) + items[0] + table["k"]

    f = compiled(root)
    f(G.ones(2), 3, "ab", [1.5], {"k": G.ones(2, requires_grad=True)})
    text = "\n".join(guards(f))
    assert "L['x']: TENSOR f32[2]" in text
    assert "L['n'] == 3" in text
    assert "L['name'] == 'ab'" in text
    assert "L['items']: LIST_LEN len == 1" in text
    assert "L['items'][0] == 1.5" in text
    assert "L['table']['k']: TENSOR f32[2] requires_grad" in text
    line = root.__code__.co_firstlineno + 1
    assert all(f"test_guards.py:{line}" in guard for guard in guards(f)[2:])


def test_cell_07_contents_have_the_name_of_a_local():  # CELL-07
    z = 1
    f = compiled(lambda x: x + z)
    f(G.ones(2))
    cell = [line.split("  #")[0] for line in guards(f) if "z" in line.split("  #")[0]]
    assert cell == ["L['z'] == 1"]

    g = compiled(lambda x, z: x + z)
    g(G.ones(2), 1)
    assert cell == [line.split("  #")[0] for line in guards(g) if "z" in line.split("  #")[0]]


def test_cell_08_fresh_cells_of_equal_contents_hit():  # CELL-08
    def make(z):
        def bump():
            nonlocal z
            z += 1

        def root(x):
            bump()
            return x + z

        return root

    f, g = compiled(make(1)), compiled(make(1))
    assert f(G.ones(1)).item() == g(G.ones(1)).item() == 3
    assert f.status()["graphs"] == 1
    # that two names share a cell is a relation between cells of one call, not a guard on a cell
    on_cells = [
        line.split("  #")[0]
        for line in guards(f)
        if line.startswith("cell of") or "__closure__[0]:" in line
    ]
    assert all(": SAME " in line or ": DISTINCT " in line for line in on_cells)


@pytest.mark.parametrize(
    "second, reason",
    [
        ((lambda: G.ones(3)), "TENSOR L['x']: expected f32[2], found f32[3]"),
        ((lambda: G.ones(2, dtype=G.float64)), "TENSOR L['x']: expected f32[2], found f64[2]"),
        (
            (lambda: G.ones(2, requires_grad=True)),
            "TENSOR L['x']: expected f32[2], found f32[2] requires_grad",
        ),
        ((lambda: 5), "TENSOR L['x']: expected f32[2], found a int"),
    ],
)
def test_reasons_show_expected_and_found(second, reason):
    f = compiled(fresh(lambda x: x * 2))
    f(G.ones(2))
    f(second())
    assert f.entries()[0]["reason"].split("  #")[0] == reason


def test_ckpt_07_guard_text_does_not_depend_on_the_body():  # CKPT-07
    f, g, h = (
        compiled(lambda x: x + 1),
        compiled(lambda x: x.t_().unsqueeze_(0) + 1),
        compiled(lambda x: x.add_(1).mul_(2)),
    )
    for c in (f, g, h):
        c(G.ones(2, 2))
    strip = lambda c: [line.split("  #")[0] for line in guards(c)]
    assert strip(f) == strip(g)
    assert strip(h) == strip(f) + ["L['x']: WRITABLE a tensor that may be written in place"]


def test_no_guard_on_what_is_not_read():
    f = compiled(lambda x, d: (x + 1, d))
    f(G.ones(2), {"a": [1, 2]})
    assert not any("L['d']" in line for line in guards(f))


def test_membership_needs_one_key():
    f = compiled(lambda x, d: x + d["a"])
    f(G.ones(2), {"a": 1, "b": object()})
    assert not any("DICT_KEYS" in line for line in guards(f))


class Holder:
    def __init__(self):
        self.w = G.ones(2)
        self.items = [1]


def test_side_18_no_reference_to_inputs():  # SIDE-18
    def root(h, x):
        h.items.append(x)
        h.y = x * h.w
        return h.y

    f = compiled(root)
    h, x = Holder(), G.ones(2)
    f(h, x)
    f(h, x)
    dead = [weakref.ref(h), weakref.ref(x), weakref.ref(h.w)]
    gc.disable()
    try:
        del h, x
        assert [r() for r in dead] == [None, None, None]
    finally:
        gc.enable()
    assert f.status()["graphs"] >= 1


def test_failed_recordings_keep_nothing():
    def root(h, x):
        h.items.append(x)
        return h.w * float(x.sum())

    f = compiled(root)
    h, x = Holder(), G.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f(h, x)
    assert len(h.items) == 2  # the recording itself changed nothing
    dead = weakref.ref(x)
    h.items.clear()
    del x
    assert dead() is None


def test_fullgraph_raises_with_reason_hint_and_line():
    def root(x):
        if x.sum() > 0:
            return x
        return -x

    f = compiled(root, fullgraph=True)
    with pytest.raises(G.compiler.Unsupported) as error:
        f(G.ones(2))
    text = str(error.value)
    assert "branch on the value of a tensor" in text
    assert "gramme.where" in text
    assert f"test_guards.py:{root.__code__.co_firstlineno + 1}" in text


def test_break_inside_a_callee_names_its_line():
    def inner(x):
        return x.sum().item()

    def root(x):
        return inner(x) + 1

    f = compiled(root, fullgraph=True)
    with pytest.raises(G.compiler.Unsupported) as error:
        f(G.ones(2))
    assert f"test_guards.py:{inner.__code__.co_firstlineno + 1}" in str(error.value)


def test_side_17_no_effects_no_residual():  # SIDE-17
    f = compiled(lambda x: {"y": [x + 1, (x, 2)]})
    f(G.ones(2))
    assert f.entries()[0]["effects"] == 0


def test_graph_text_has_user_lines():
    def root(x):
        y = x * 2
        return y.tanh()

    f = compiled(root)
    f(G.ones(2))
    lines = f.entries()[0]["graph"].splitlines()
    first = root.__code__.co_firstlineno
    assert any("mul" in line and f"test_guards.py:{first + 1}" in line for line in lines)
    assert any("tanh" in line and f"test_guards.py:{first + 2}" in line for line in lines)


def test_an_entry_dies_with_a_class_that_it_compares_with():  # GU-6
    def local_class():
        class Local:
            w = 2

            def scaled(self, x):
                return x * self.w

        return Local

    f = compiled(fresh(lambda v, x: v.scaled(x)))
    cls = local_class()
    f(cls(), G.ones(2))
    f(cls(), G.ones(2))
    assert f.status()["graphs"] == 1 and f.status()["hits"] == 1
    dead = weakref.ref(cls)
    del cls
    gc.collect()
    assert dead() is None
    assert f.status()["graphs"] == 0
    for _ in range(20):  # far more classes than the limit of entries: the dead do not count
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert f(local_class()(), G.ones(2)).tolist() == [2, 2]
        gc.collect()


def test_an_entry_dies_with_a_function_that_a_class_held():
    class Local:
        def scaled(self, x):
            return x * 2

    f = compiled(fresh(lambda v, x: v.scaled(x)))
    f(Local(), G.ones(2))
    Local.scaled = lambda self, x: x * 3
    gc.collect()
    assert f(Local(), G.ones(2)).tolist() == [3, 3]
    assert f.status()["graphs"] == 1


def test_reasons_when_an_object_has_died():
    f = compiled(fresh(lambda v, x: v(x)))
    f(type("Local", (), {"__call__": lambda self, x: x + 1})(), G.ones(2))
    gc.collect()
    f(type("Local", (), {"__call__": lambda self, x: x + 2})(), G.ones(2))
    assert f.status()["graphs"] == 1


def test_the_number_of_defaults_is_a_fact():
    """(1,) and (1, 7) begin alike, but the second gives k another value."""

    def helper(y, k=1):
        return y * k

    fn = G.compile(lambda x: helper(x), backend="eager")
    assert fn(G.ones(1)).item() == 1
    helper.__defaults__ = (1, 7)
    assert fn(G.ones(1)).item() == 7


def test_gu_4_a_guard_that_is_false_at_birth_is_seen():  # GU-4
    """What was read is changed behind the recorder's back, by code that runs while it records."""
    from gramme._dynamo import comptime

    class Box:
        w = 2

    box = Box()
    box.w = 2

    def root(x):
        y = x * box.w
        comptime(lambda context: setattr(box, "w", 3))
        return y

    f = compiled(fresh(root), fullgraph=True)
    with pytest.raises(
        G.compiler.Unsupported,
        match="does not hold on the call that made it: INT L\\['box'\\].w: expected 2, found 3",
    ):
        f(G.ones(1))
    assert f.status()["graphs"] == 0


def test_fr_4_no_check_runs_the_users_code():  # FR-4
    """Keys and values whose comparison would raise are told apart by identity and type: there is
    nothing that could raise."""

    class Raises:
        def __eq__(self, other):
            raise RuntimeError("compared")

        __hash__ = object.__hash__

    one, two = Raises(), Raises()
    f = compiled(fresh(lambda x, d, v: x + len(d) + (1 if v is None else 2)))
    for table, value in (({one: 1}, one), ({two: 1}, two), ({one: 1, two: 2}, None), ({}, one)):
        assert f(G.ones(1), table, value).item() == 1 + len(table) + (1 if value is None else 2)


def test_cell_11_a_cell_of_a_dead_function_leaves_nothing():  # CELL-11
    def root(x):
        a = 2

        def dead():
            return a

        return x + dead()

    f = compiled(fresh(root))
    assert f(G.ones(1)).item() == 3
    assert f.entries()[0]["effects"] == 0 and "cell" not in f.entries()[0]["graph"]


class Both(dict):
    pass


class Listed(list):
    pass


@pytest.mark.parametrize(
    "make, change",
    [
        (lambda: Both(k=1), lambda o: o.pop("k")),
        (lambda: Both(k=1), lambda o: o.update(k=2)),
        (lambda: Listed([1, 2]), lambda o: o.__setitem__(0, 5)),
        (lambda: Listed([1, 2]), lambda o: o.append(3)),
        (lambda: Both(k=1), lambda o: setattr(o, "note", 9)),
        (lambda: Listed([1, 2]), lambda o: setattr(o, "note", 9)),
    ],
)
def test_items_and_attributes_of_one_object_are_remembered_both(make, change):
    holder.kept = make()
    holder.kept.note = 4

    def f(x):
        kept = holder.kept
        return (
            x,
            kept.note,
            (kept.get("k") if isinstance(kept, dict) else (kept[0], len(kept))),
            kept.note,
        )

    compiled = G.compile(f, backend="eager")
    for _ in range(4):  # what held several times is remembered as a whole
        assert compiled(G.ones(2))[1:] == f(G.ones(2))[1:]
    change(holder.kept)
    assert compiled(G.ones(2))[1:] == f(G.ones(2))[1:]


class holder:
    kept = None


def test_side_18_a_gradient_that_was_read_is_not_kept():  # SIDE-18
    f, w = compiled(fresh(lambda w: w.grad * 2)), G.ones(1000).requires_grad_()
    w.sum().backward()
    for _ in range(3):
        assert f(w)[0].item() == 2
    before = G._core.live_bytes()
    w.grad = None
    assert before - G._core.live_bytes() >= 4000


def test_a_lookup_that_is_remembered_sees_what_is_stored_later():
    """A load remembers what it found in a dict: a global, an attribute, an item, each stored,
    deleted and stored again."""
    holder = types.SimpleNamespace(k=2.0)
    table = {"k": 2.0}
    space = {"S": 2.0, "holder": holder, "table": table}
    exec("def f(x): return x * S + holder.k + table['k']", space)
    f = space["f"]
    c = compiled(f)
    x = G.ones(3)

    def store(where, value):
        if where == 0:
            space["S"] = value
        elif where == 1:
            holder.k = value
        else:
            table["k"] = value

    def remove(where):
        if where == 0:
            del space["S"]
        elif where == 1:
            del holder.k
        else:
            del table["k"]

    for where in range(3):
        for value in (2.0, 3.0, 2.0, 4.0, 3.0, 2.0):
            store(where, value)
            for _ in range(3):
                assert c(x).tolist() == f(x).tolist()
        remove(where)
        with pytest.raises((NameError, AttributeError, KeyError)):
            c(x)
        store(where, 2.0)
        assert c(x).tolist() == f(x).tolist()
    for _ in range(3):  # another dict, another object at perhaps the same address
        space["table"] = {"k": 5.0}
        space["holder"] = types.SimpleNamespace(k=6.0)
        assert c(x).tolist() == f(x).tolist()
        space["table"], space["holder"] = table, holder
        assert c(x).tolist() == f(x).tolist()
