# SPDX-License-Identifier: Apache-2.0
"""Functions of floating dtypes refuse integers and bools by name, plain and compiled; so do quantiles and places that are not there."""

import pytest

import gramme

F = gramme.nn.functional
INTEGERS = [gramme.int64, gramme.int32, gramme.uint8, gramme.bool]
FLOATS_ONLY = {
    **{n: getattr(F, n) for n in ("elu", "celu", "selu", "gelu", "silu", "mish", "softplus", "hardswish", "hardsigmoid", "logsigmoid", "leaky_relu",
                                  "hardshrink", "softshrink", "glu")},
    "elu_": F.elu_, "leaky_relu_": F.leaky_relu_, "frac": gramme.frac, "frac_": lambda x: x.frac_(), "histc": gramme.histc,
    "logcumsumexp": lambda x: x.logcumsumexp(0), "renorm": lambda x: x.renorm(2, 0, 1.0),
    "prelu": lambda x: F.prelu(x, x[0, :1]), "lerp": lambda x: gramme.lerp(x, x, 0.5), "cdist": lambda x: gramme.cdist(x, x), "pdist": F.pdist,
    "logaddexp": lambda x: gramme.logaddexp(x, x), "logaddexp2": lambda x: gramme.logaddexp2(x, x),
    **{n: lambda x, n=n: getattr(F, n)(x, x) for n in ("mse_loss", "smooth_l1_loss", "huber_loss", "kl_div")},
}  # fmt: skip


@pytest.mark.parametrize("name", FLOATS_ONLY)
def test_integers_are_refused(name):
    fn = FLOATS_ONLY[name]
    for f in (fn, gramme.compile(fn, backend="eager")):
        for dtype in INTEGERS:
            with pytest.raises(NotImplementedError, match="takes floating dtypes, not"):
                f(gramme.ones(2, 2, dtype=dtype))
        f(gramme.ones(2, 2))


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_a_loss_of_a_float_and_integers_is_one_of_floats(name):
    x, t = gramme.tensor([1.0, 3.0]), gramme.tensor([1, 2])
    assert getattr(F, name)(x, t).item() == getattr(F, name)(t, x).item() == getattr(F, name)(x, t.float()).item()


def test_integers_that_become_floats():
    x = gramme.tensor([0, 1, 2])
    for f in (F.sigmoid, F.softsign, F.tanhshrink, gramme.exp, gramme.special.entr, gramme.lgamma):
        assert f(x).dtype == gramme.float32
    assert gramme.logaddexp(x, x.float()).dtype == gramme.float32


@pytest.mark.parametrize("f", [gramme.quantile, gramme.nanquantile])
def test_quantiles_outside_of_0_and_1_are_an_error(f):
    for g in (f, gramme.compile(lambda x, q: f(x, q), backend="eager"), gramme.compile(lambda x, q: f(x, q), backend="tcc")):
        for q in ([1.5], [0.5, -0.1], [float("nan")]):
            with pytest.raises(RuntimeError, match="q values must be in the range"):
                g(gramme.ones(3), gramme.tensor(q))
        assert g(gramme.tensor([1.0, 2.0, 3.0]), gramme.tensor([0.0, 0.5, 1.0])).tolist() == [1, 2, 3]


def test_narrow_from_a_place_that_is_not_there():
    x = gramme.arange(3.0)
    for start in (4, -4):
        with pytest.raises(IndexError, match="start"):
            x.narrow(0, start, 1)
    for start, length in ((2, 2), (0, -1), (3, 1)):
        with pytest.raises(RuntimeError):
            x.narrow(0, start, length)
    assert x.narrow(0, 3, 0).shape == (0,) and x.narrow(0, -1, 1).tolist() == [2]
