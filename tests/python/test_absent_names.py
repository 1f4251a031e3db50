# SPDX-License-Identifier: Apache-2.0
"""Names of torch's that gramme does not have: they can be imported, and say what to do when they
are used; others say which names are near."""

import importlib
import sys

import pytest

import gramme as G
from gramme import _absent

MODULES = [name for name, (maker, _) in _absent.TABLE.items() if maker is _absent._module]
FUNCTIONS = [name for name, (maker, _) in _absent.TABLE.items() if maker is _absent._function]
CLASSES = [name for name, (maker, _) in _absent.TABLE.items() if maker is _absent._class]


def get(name):
    found = G
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_the_table_can_be_imported_and_has_nothing_else(name):
    module = importlib.import_module("gramme." + name)
    assert module is get(name) and importlib.util.find_spec("gramme." + name) is not None
    with pytest.raises(AttributeError, match=f"gramme has no {name}.nothing: "):
        module.nothing
    with pytest.raises(AttributeError, match=f"gramme has no {name}, so that switch could be set"):
        module.switch = True


def test_functions_of_the_table_say_what_to_do_when_they_are_called():
    for name in FUNCTIONS:
        module = importlib.import_module(f"gramme.{name}".rpartition(".")[0])
        function = getattr(module, name.rpartition(".")[2])
        assert function is get(name) and function.__module__ == module.__name__
        with pytest.raises(NotImplementedError, match=f"gramme has no {name}: \\w"):
            function(1, a=2)


def test_classes_of_the_table_have_no_instances_and_may_be_bases():
    for name in CLASSES:
        kind = get(name)
        assert isinstance(kind, type) and not isinstance(3, kind) and not issubclass(int, kind)
        with pytest.raises(NotImplementedError, match=f"gramme has no {name}: \\w"):
            kind(1)
        with pytest.raises(NotImplementedError, match=f"gramme has no {name}.make: "):
            kind.make(1)

        class Own(kind):
            pass

        with pytest.raises(NotImplementedError, match=f"gramme has no {name}: "):
            Own()


def test_each_row_of_the_table_is_a_name_once_and_hides_nothing():
    names = [name for _, _, text in _absent._ROWS for name in text.split()]
    assert len(names) == len(set(names))
    for _, why, _ in _absent._ROWS:
        assert why[0].islower() and why[-1] not in ".:"
    for name in names:
        module, _, last = f"gramme.{name}".rpartition(".")
        there = vars(importlib.import_module(module)).get(last)
        assert (
            there is None
            or there is get(name)
            and (
                isinstance(there, _absent._Module) or "NotImplementedError" in (there.__doc__ or "")
            )
        )


@pytest.mark.parametrize(
    "module, name, near",
    [
        ("gramme", "onse", "'ones'"),
        ("gramme", "softmx", "'softmax'"),
        ("gramme.utils", "dta", "'data'"),
        ("gramme.cuda", "is_availble", "'is_available'"),
        ("gramme.distributed", "is_initialised", "'is_initialized'"),
        ("gramme.jit", "scrip", "'script'"),
        ("gramme.linalg", "invv", "'inv'"),
    ],
)
def test_a_misspelt_name_says_which_are_near(module, name, near):
    here = importlib.import_module(module)
    assert not hasattr(here, name)
    with pytest.raises(
        AttributeError, match=f"module '{module}' has no attribute '{name}'; did you mean .*{near}"
    ) as caught:
        getattr(here, name)
    assert near in repr(caught.value)


def test_a_name_that_is_like_no_other_is_just_not_there():
    with pytest.raises(AttributeError, match="^module 'gramme' has no attribute 'qqqqqqqq'$"):
        G.qqqqqqqq
    assert not hasattr(G, "qqqqqqqq") and getattr(G, "qqqqqqqq", 3) == 3


def test_a_function_of_the_table_raises_in_a_compiled_function():
    def f(x):
        return G.stft(x, 3)

    with pytest.raises(NotImplementedError, match="gramme has no stft: .*numpy.fft"):
        G.compile(f, backend="eager")(G.ones(3))


def test_the_table_is_found_through_sys_modules():
    assert sys.modules["gramme.distributed.fsdp"] is G.distributed.fsdp
    from gramme.distributed.checkpoint.state_dict import StateDictOptions
    from gramme.nn.attention.flex_attention import flex_attention

    assert (
        StateDictOptions.__name__ == "StateDictOptions"
        and flex_attention.__qualname__ == "flex_attention"
    )
