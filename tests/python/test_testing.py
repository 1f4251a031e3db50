# SPDX-License-Identifier: Apache-2.0
"""gramme.testing, and the comparisons with a Python bool as result."""

import pytest

import gramme
from gramme.testing import assert_bits_equal, assert_close


def test_assert_close_accepts_what_is_near_and_names_the_worst():
    assert_close(gramme.tensor([1.0, 2.0]), gramme.tensor([1.0, 2.000001]))
    assert_close([1.0, {"a": gramme.ones(2)}], [1.0, {"a": gramme.ones(2)}])
    with pytest.raises(AssertionError, match=r"1 of 4 .*\(1, 0\), is 3.5 and should be 3.0"):
        assert_close(
            gramme.tensor([[1.0, 2.0], [3.5, 4.0]]), gramme.tensor([[1.0, 2.0], [3.0, 4.0]])
        )
    with pytest.raises(AssertionError, match=r"shapes differ: \[2\] is not \[3\]"):
        assert_close(gramme.ones(2), gramme.ones(3))
    with pytest.raises(AssertionError, match="dtypes differ"):
        assert_close(gramme.ones(2), gramme.ones(2, dtype=gramme.float64))
    with pytest.raises(AssertionError, match="lengths"):
        assert_close([gramme.ones(1)], [])


def test_assert_close_and_special_values():
    nan, inf = float("nan"), float("inf")
    assert_close(gramme.tensor([inf, -inf]), gramme.tensor([inf, -inf]))
    with pytest.raises(AssertionError):
        assert_close(gramme.tensor([inf]), gramme.tensor([-inf]))
    with pytest.raises(AssertionError):
        assert_close(gramme.tensor([1.0]), gramme.tensor([inf]))
    with pytest.raises(AssertionError):
        assert_close(gramme.tensor([nan]), gramme.tensor([nan]))
    assert_close(gramme.tensor([nan]), gramme.tensor([nan]), equal_nan=True)


def test_assert_bits_equal_sees_signs_and_last_bits():
    nan = float("nan")
    assert_bits_equal(gramme.tensor([nan, 1.0]), gramme.tensor([nan, 1.0]))
    with pytest.raises(AssertionError, match="-0.0"):
        assert_bits_equal(gramme.tensor([-0.0]), gramme.tensor([0.0]))
    with pytest.raises(AssertionError, match=r"1 of 2 .*\(1,\)"):
        assert_bits_equal(gramme.tensor([1.0, 1.0000001]), gramme.tensor([1.0, 1.0]))
    assert_bits_equal(gramme.tensor([[1, 2], [3, 4]]).T, gramme.tensor([[1, 3], [2, 4]]))


def test_comparisons():
    a = gramme.tensor([1.0, float("nan"), float("inf")])
    assert gramme.isclose(a, a).tolist() == [True, False, True]
    assert gramme.isclose(a, a, equal_nan=True).all()
    assert gramme.allclose(gramme.ones(2), gramme.ones(2) + 1e-9) and not gramme.allclose(
        gramme.ones(2), gramme.zeros(2)
    )
    assert gramme.equal(gramme.ones(2), gramme.ones(2)) and not gramme.equal(
        gramme.ones(2), gramme.ones(3)
    )
    assert gramme.numel(gramme.zeros(2, 3)) == 6 and gramme.is_tensor(a) and not gramme.is_tensor(3)
