# SPDX-License-Identifier: Apache-2.0
"""A subclass of Tensor with a __torch_dispatch__ is refused where it is made: nothing would call
it."""

import pytest

import gramme as G


class Mixed:
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return "seen"


def of_its_own():
    class Own(G.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return "seen"

    return Own


def of_a_mixin():
    class Own(Mixed, G.Tensor):
        pass

    return Own


def of_a_parameter():
    class Own(G.nn.Parameter):
        __torch_dispatch__ = Mixed.__torch_dispatch__

    return Own


def by_type():
    return type("Own", (G.Tensor,), {"__torch_dispatch__": Mixed.__torch_dispatch__})


@pytest.mark.parametrize("make", [of_its_own, of_a_mixin, of_a_parameter, by_type])
def test_it_is_refused_where_the_class_is_made_plain_and_compiled(make):
    def root(x):
        y = x + 1
        return y, make()

    for f in (root, G.compile(root, backend="eager")):
        with pytest.raises(
            NotImplementedError, match="class Own has a __torch_dispatch__.*define that instead"
        ) as raised:
            f(G.ones(2))
        assert "__torch_function__" in str(raised.value)


def test_a_class_that_says_that_it_has_none_and_other_classes_are_taken():
    class Own(G.Tensor):
        __torch_dispatch__ = None

    assert G.add(G.ones(2).as_subclass(Own), 1).tolist() == [2.0, 2.0]
    assert Mixed().__torch_dispatch__(None, ()) == "seen"
