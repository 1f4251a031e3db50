# SPDX-License-Identifier: Apache-2.0
"""Functions of floating dtypes refuse integers and bools by name, plain and compiled; so do
quantiles and places that are not there."""

import pytest

import gramme

F = gramme.nn.functional
INTEGERS = [gramme.int64, gramme.int32, gramme.uint8, gramme.bool]
PLACES = gramme.zeros(1, 1, 1, 2)
FLOATS_ONLY = {
    **{n: getattr(F, n) for n in ("elu", "celu", "selu", "gelu", "silu", "mish", "softplus",
    "hardswish", "hardsigmoid", "logsigmoid", "leaky_relu",
                                  "hardshrink", "softshrink", "glu")},
    "elu_": F.elu_, "leaky_relu_": F.leaky_relu_, "frac": gramme.frac, "frac_": lambda x: x.frac_(),
    "histc": gramme.histc,
    "logcumsumexp": lambda x: x.logcumsumexp(0), "renorm": lambda x: x.renorm(2, 0, 1.0),
    "prelu": lambda x: F.prelu(x, x[0, :1]), "lerp": lambda x: gramme.lerp(x, x, 0.5),
    "cdist": lambda x: gramme.cdist(x, x), "pdist": F.pdist,
    "logaddexp": lambda x: gramme.logaddexp(x, x), "logaddexp2": lambda x: gramme.logaddexp2(x, x),
    **{n: lambda x, n=n: getattr(F, n)(x, x) for n in ("mse_loss", "smooth_l1_loss", "huber_loss", "kl_div")},
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "max_pool1d with indices": lambda x: F.max_pool1d(x, 2, return_indices=True),
    **{f"adaptive_{k}_pool{d}d": lambda x, n=f"adaptive_{k}_pool{d}d", d=d:
       getattr(F, n)(x.reshape(1, 2, *(1,) * (d - 1), 2), 1) for k in ("avg", "max") for d in (1, 2, 3)},
    "grid_sample": lambda x: F.grid_sample(x[None, None], PLACES, align_corners=False),
    "max_unpool1d": lambda x: F.max_unpool1d(x, gramme.zeros(2, 2, dtype=gramme.int64), 2),
    "ctc_loss": lambda x: F.ctc_loss(x[:, None], gramme.ones(1, 1, dtype=gramme.int64), [2], [1]),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOATS_ONLY)
def test_integers_are_refused(name):
    fn = FLOATS_ONLY[name]
    for f in (fn, gramme.compile(fn, backend="eager")):
        for dtype in INTEGERS:
            with pytest.raises(NotImplementedError, match="takes floating dtypes, not"):
                f(gramme.ones(2, 2, dtype=dtype))
        f(gramme.ones(2, 2))


REFUSED = {
    "unfold": lambda x: F.unfold(x.reshape(1, 1, 2, 2), 2),
    "fold": lambda x: F.fold(x.reshape(1, 4, 1), 2, 2),
    "l1_loss": lambda x: F.l1_loss(x, x),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x.float(), x.float(), x),
    "dist": lambda x: gramme.dist(x, x),
    "addcdiv": lambda x: gramme.addcdiv(x.float(), x, x),
    "addcdiv of integers": lambda x: gramme.addcdiv(x, x, x),
    "histogram": lambda x: gramme.histogram(x, 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_integers_are_refused_where_their_mean_their_root_or_their_quotient_is_needed(name):
    for f in (REFUSED[name], gramme.compile(REFUSED[name], backend="eager")):
        with pytest.raises(RuntimeError):
            f(gramme.ones(2, 2, dtype=gramme.int64))
        f(gramme.ones(2, 2))


def test_integers_and_bools_that_torch_takes():
    x = gramme.tensor([4, 9])
    assert gramme.addcdiv(x, x.float(), x).tolist() == [5, 10]
    assert F.l1_loss(x, x + 1, reduction="sum").item() == 2
    assert F.unfold(gramme.ones(1, 1, 2, 2, dtype=gramme.bool), 2).tolist() == [[[True]] * 4]
    with pytest.raises(RuntimeError, match="have one dtype"):
        F.grid_sample(gramme.ones(1, 1, 2, 2), PLACES.double(), align_corners=False)
    with pytest.raises(ValueError, match="floating dtype"):
        F.affine_grid(gramme.ones(1, 2, 3, dtype=gramme.int64), [1, 1, 2, 2])


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_a_loss_of_a_float_and_integers_is_one_of_floats(name):
    x, t = gramme.tensor([1.0, 3.0]), gramme.tensor([1, 2])
    assert (
        getattr(F, name)(x, t).item()
        == getattr(F, name)(t, x).item()
        == getattr(F, name)(x, t.float()).item()
    )


def test_integers_that_become_floats():
    x = gramme.tensor([0, 1, 2])
    for f in (F.sigmoid, F.softsign, F.tanhshrink, gramme.exp, gramme.special.entr, gramme.lgamma):
        assert f(x).dtype == gramme.float32
    assert gramme.logaddexp(x, x.float()).dtype == gramme.float32


@pytest.mark.parametrize("f", [gramme.quantile, gramme.nanquantile])
def test_quantiles_outside_of_0_and_1_are_an_error(f):
    for g in (
        f,
        gramme.compile(lambda x, q: f(x, q), backend="eager"),
        gramme.compile(lambda x, q: f(x, q), backend="tcc"),
    ):
        for q in ([1.5], [0.5, -0.1], [float("nan")]):
            with pytest.raises(RuntimeError, match="q values must be in the range"):
                g(gramme.ones(3), gramme.tensor(q))
        assert g(gramme.tensor([1.0, 2.0, 3.0]), gramme.tensor([0.0, 0.5, 1.0])).tolist() == [
            1,
            2,
            3,
        ]


def test_narrow_from_a_place_that_is_not_there():
    x = gramme.arange(3.0)
    for start in (4, -4):
        with pytest.raises(IndexError, match="start"):
            x.narrow(0, start, 1)
    for start, length in ((2, 2), (0, -1), (3, 1)):
        with pytest.raises(RuntimeError):
            x.narrow(0, start, length)
    assert x.narrow(0, 3, 0).shape == (0,) and x.narrow(0, -1, 1).tolist() == [2]
