# SPDX-License-Identifier: Apache-2.0
"""True, False and bool tensors without dimensions as subscripts; lists of bools, bytes as masks;
where the dimensions of several index tensors go.  What numpy says, plainly and compiled."""

import numpy
import pytest

import gramme as G

X = numpy.arange(120.0, dtype="float32").reshape(2, 3, 4, 5)
TENSORS = {"yes": True, "no": False, "mask": [True, False], "mask3": [True, False, True]}
KEYS = [
    "True", "False", "None, True", "True, 1", "0, True", "True, True", "True, False", "..., True",
    "True, [0, 1]", "[0, 1], True", ":, True", ":, True, [0, 2]",
    "0, True, :", ":, [0, 1], True", "False, 0", "yes", "no", "yes, 0", "yes, [0, 1]", ":, yes",
    "no, 0:1", "None, no", "[True, False]", ":, [True, False, True]",
    "[False, False]", "[True, True], [0, 1]", "mask", "mask, True", "[0, 1], :, [0, 1]",
    ":, [0, 1], None, [0, 1]", "[[0], [1]], [[0, 1]]", "[True, 0]",
]  # fmt: skip
# Where numpy says otherwise: to it ints, and an ellipsis that stands for nothing, part index
# tensors; and bytes are numbers.
OTHERS = {
    ":, [0, 1], 0, [0, 1]": X[:, [0, 1], [0, 0], [0, 1]],
    "0, :, [0, 1], ..., [0, 1]": X[0][:, [0, 1], [0, 1]], "True, None, False": X[None][:0, None],
    "1, True, 2, :": X[1, 2][None], "0, mask3, ..., True": X[0, [0, 2]],
    "[1, 0], 0, True": X[[1, 0], 0], "seven[0], :, [0, 1]": X[1][:, [0, 1]],
    ":, [0, 1], seven[0], [0, 1]": X[:, [0, 1], [1, 1], [0, 1]], "bytes": X[:1],
    "bytes[0]": X[None],
}  # fmt: skip
backends = pytest.mark.parametrize("backend", [None, "eager", "tcc"])
PARAMETERS = "yes, no, mask, mask3, seven, bytes"


def arguments():
    return [G.tensor(v) for v in TENSORS.values()] + [
        G.tensor([1, 0]),
        G.tensor([1, 0], dtype=G.uint8),
    ]


def function(text, backend):
    scope = {"G": G}
    exec(f"def f(x, {PARAMETERS}, v=None):\n    {text}\n", scope)
    return G.compile(scope["f"], backend=backend) if backend else scope["f"]


@backends
@pytest.mark.parametrize("key", KEYS + list(OTHERS))
@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
def test_read(key, backend):
    want = (
        OTHERS[key]
        if key in OTHERS
        else eval(f"x[{key}]", {"x": X, **{k: numpy.array(v) for k, v in TENSORS.items()}})
    )
    x = G.tensor(X, requires_grad=True)
    y = function(f"return x[{key}]", backend)(x, *arguments())
    assert y.shape == want.shape and y.tolist() == want.tolist()
    if y.numel():
        (y * G.arange(1.0, 1 + y.numel()).reshape(y.shape)).sum().backward()
        slopes = numpy.zeros(X.size)
        numpy.add.at(slopes, want.reshape(-1).astype(int), numpy.arange(1.0, 1 + want.size))
        assert x.grad.flatten().tolist() == slopes.tolist()


@backends
@pytest.mark.parametrize("key", KEYS + list(OTHERS))
@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
def test_write(key, backend):
    places = function(f"return x[{key}]", None)(G.arange(120).reshape(2, 3, 4, 5), *arguments())
    for value in (7.0, "all", "row"):
        x = G.tensor(X)
        v = value if value == 7.0 else G.arange(200.0, 200 + places.numel()).reshape(places.shape)
        if value == "row":
            v = v[..., :1].clone()
        version = x._version
        function(f"x[{key}] = v", backend)(x, *arguments(), v)
        want = X.copy().reshape(-1)
        want[places.flatten().numpy()] = (v + G.zeros(places.shape)).flatten().numpy()
        assert x.flatten().tolist() == want.tolist()
        assert x._version == version + (key != "False")


def test_a_scalar_has_a_dimension_then():
    for key, size in ((True, 1), (False, 0), (G.tensor(True), 1), (G.tensor(False), 0)):
        assert G.tensor(5.0)[key].tolist() == [5.0] * size and G.tensor(5.0)[None, key].shape == (
            1,
            size,
        )
    x = G.tensor(5.0)
    x[True] = 3
    x[False] = 9
    assert x.item() == 3


@pytest.mark.parametrize(
    "key", [(False, [0, 1]), [True], (True,) * 7, (0, 0, 0, 0, True, 0)], ids=str
)
def test_what_is_refused(key):
    x = G.tensor(X)
    with pytest.raises(IndexError):
        x[key]
    with pytest.raises((IndexError, RuntimeError)):
        x[True] = G.ones(7)
    with pytest.raises((IndexError, RuntimeError)):
        x[G.tensor(False)] = G.ones(7)


@backends
def test_compiled_without_a_break(backend):
    f = function(
        "return x[True] + 1, x[:, False], x[None, True, 1], x[[True, False]], x[0, True]", None
    )
    g = G.compile(f, backend=backend or "cc", fullgraph=True)
    for have, want in zip(g(G.tensor(X), *arguments()), f(G.tensor(X), *arguments())):
        assert have.tolist() == want.tolist() and have.shape == want.shape
    stored = function(
        "x[True] = v; x[0, True] = v; x[False] = 9.0; x[no] = v * 2; x[yes] = v + 1; return x", None
    )
    g = G.compile(stored, backend=backend or "cc", fullgraph=True)
    assert (
        g(G.tensor(X), *arguments(), G.ones(5)).tolist()
        == stored(G.tensor(X), *arguments(), G.ones(5)).tolist()
    )
