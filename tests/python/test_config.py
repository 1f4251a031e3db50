# SPDX-License-Identifier: Apache-2.0
"""gramme._dynamo.config.patch: switches with other values for a while."""

import pytest

import gramme as G
from gramme._dynamo import config


def test_patch_gives_other_values_and_puts_the_old_ones_back():
    before = config.recompile_limit, config.capture_scalar_outputs
    for one in (
        config.patch(recompile_limit=2),
        config.patch("recompile_limit", 2),
        config.patch({"recompile_limit": 2}),
    ):
        with one:
            assert config.recompile_limit == 2
            with config.patch(recompile_limit=3, capture_scalar_outputs=True):
                assert (config.recompile_limit, config.capture_scalar_outputs) == (3, True)
            with one:
                assert config.recompile_limit == 2
            assert config.recompile_limit == 2
        assert (config.recompile_limit, config.capture_scalar_outputs) == before


def test_patch_decorates_functions_and_survives_exceptions():
    @config.patch(recompile_limit=1)
    def limit(fail):
        if fail:
            raise ValueError
        return config.recompile_limit

    assert limit(False) == 1
    with pytest.raises(ValueError):
        limit(True)
    assert config.recompile_limit == 8


def test_patch_counts_for_what_is_compiled_inside():
    f = G.compile(lambda x: x * x.sum().item(), backend="eager")
    with config.patch(capture_scalar_outputs=True):
        assert f(G.ones(2)).tolist() == [2.0, 2.0]


def test_patch_refuses_what_is_no_switch():
    with pytest.raises(AttributeError, match="no switch 'recompile_limits'.*recompile_limit"):
        config.patch(recompile_limits=2)
    with pytest.raises(AttributeError, match="no switch 'patch'"):
        config.patch(patch=1)


def test_counters_of_a_section_that_there_is_not_are_empty():
    assert G._dynamo.utils.counters["no such section"] == {}
