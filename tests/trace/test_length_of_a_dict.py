# SPDX-License-Identifier: Apache-2.0
"""The length of a dict that came in is guarded as a number, whatever its keys are; who asks for the
keys guards them."""

import collections

import pytest

import gramme as G
from stress import counted, undisturbed


class Holder:
    def __init__(self, d):
        self.d = d


class Sub(dict):
    pass


QUESTIONS = {
    "len": lambda d: len(d),
    "truth": lambda d: 1 if d else 0,
    "not": lambda d: not d,
    "views": lambda d: (len(d.keys()), len(d.values()), len(d.items())),
    "len and a key": lambda d: (len(d), d.get("a")),
    "a key, then len": lambda d: ("a" in d, len(d)),
    "len, then the keys": lambda d: (len(d), list(d)),
    "len before and after a store": lambda d: (len(d), d.update(z=1), len(d), d.pop("z"), len(d)),
    "len of a copy": lambda d: (len(d), len(dict(d)), len({**d})),
    "equality": lambda d: (len(d), d == {"a": 1}),
    "text": lambda d: (len(d), str(d)),
    "pop of an empty one": lambda d: d.pop("none", 3),
    "stars": lambda d: (len(d), (lambda **k: len(k))(**d)),
    "pattern": lambda d: (len(d), 1 if isinstance(d, dict) and d else 2),
}
DICTS = [{}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}, {"a": 3, "c": 2}, {}, {"x": 0, "a": 1}]


@pytest.mark.parametrize(
    "make",
    [dict, Sub, collections.OrderedDict, lambda d: collections.defaultdict(int, d)],
    ids=["dict", "subclass", "OrderedDict", "defaultdict"],
)
@pytest.mark.parametrize("name", QUESTIONS)
def test_of_an_argument_and_an_attribute(name, make):
    question = QUESTIONS[name]

    def f(x, d, h):
        return x + 1, question(d), question(h.d)

    c, x = G.compile(f, backend="eager"), G.ones(1)
    for d, e in zip(DICTS, [*DICTS[2:], *DICTS[:2]]):
        assert repr(c(x, make(d), Holder(make(e)))) == repr(f(x, make(d), Holder(make(e))))


@undisturbed
def test_the_keys_do_not_matter():
    c, x = G.compile(lambda x, d: x * len(d), backend="eager"), G.ones(1)
    keys = [object(), 1, "a", (1, 2), 3.5]
    for _ in range(3):
        d = {key: None for key in keys}
        keys = [object(), *keys[:-1]]
        assert c(x, d).item() == 5
    assert (
        len(c.entries()) == 1
        and "DICT_LEN" in c.entries()[0]["guards"]
        and "DICT_KEYS" not in c.entries()[0]["guards"]
    )
    assert c(x, {}).item() == 0


TABLE = {"a": 1}


def test_a_global_that_grows_and_shrinks():
    c, x = G.compile(lambda x: x * len(TABLE), backend="eager"), G.ones(1)
    assert c(x).item() == 1
    TABLE["b"] = 2
    assert c(x).item() == 2
    del TABLE["b"]
    assert c(x).item() == 1
    assert len(c.entries()) == counted(2)
