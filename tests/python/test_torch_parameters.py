# SPDX-License-Identifier: Apache-2.0
"""Parameters of torch's that functions, layers and methods take: other names of arguments, layouts,
weights of losses, embeddings, states.

The expected values are torch 2.13's.  What computes is compared plain and compiled, to the bit.
"""

import io

import pytest

import gramme as G
from gramme.nn import functional as F

X = G.arange(24.0).reshape(1, 2, 3, 4)
INF = float("inf")


def bits(value):
    return (
        (
            value.dtype,
            tuple(value.shape),
            value.stride(),
            value.detach().contiguous().numpy().tobytes(),
        )
        if isinstance(value, G.Tensor)
        else value
    )


def both(run, *make):
    """run(*tensors), plain and compiled by eager and tcc, of the same bits; the plain one."""
    results = []
    for compiled in (None, "eager", "tcc"):
        G._dynamo.reset()
        tensors = [new() for new in make]
        found = run(*tensors) if compiled is None else G.compile(run, backend=compiled)(*tensors)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        leaves = [tensor for tensor in tensors if tensor.requires_grad]
        if leaves and found[0].requires_grad:
            (
                found[0] * G.arange(1.0, found[0].numel() + 1).reshape(found[0].shape)
            ).sum().backward()
            found += [leaf.grad for leaf in leaves]
        results.append([*found, *tensors])
    assert [[bits(x) for x in found] for found in results[1:]] == [
        [bits(x) for x in results[0]]
    ] * 2
    return results[0]


def said(run, error, text):
    with pytest.raises(error, match=text):
        run()


# -- Other names of arguments

ALIASES = {
    "split_size": (lambda: X.split(split_size=1, dim=1)[0], lambda: X.split(1, 1)[0]),
    "split_size of a list": (
        lambda: X.split(split_size=[1, 1], dim=1)[0],
        lambda: X.split([1, 1], 1)[0],
    ),
    "split_sizes": (
        lambda: G.unsafe_split_with_sizes(X, split_sizes=[1, 1], dim=1)[0],
        lambda: X.split([1, 1], 1)[0],
    ),
    "tensor": (
        lambda: G.split(tensor=X, split_size_or_sections=1, dim=1)[0],
        lambda: X.split(1, 1)[0],
    ),
    "sections": (
        lambda: G.tensor_split(X, sections=2, dim=3)[0],
        lambda: G.tensor_split(X, 2, 3)[0],
    ),
    "indices": (
        lambda: G.tensor_split(X, indices=(1,), dim=3)[0],
        lambda: G.tensor_split(X, (1,), 3)[0],
    ),
    "sections of hsplit": (lambda: G.hsplit(X, sections=2)[1], lambda: G.hsplit(X, 2)[1]),
    "indices of vsplit": (lambda: X.vsplit(indices=(1,))[0], lambda: X.vsplit((1,))[0]),
    "value of scatter": (
        lambda: G.zeros(2).scatter(0, G.tensor([1]), value=3.0),
        lambda: G.tensor([0.0, 3.0]),
    ),
    "value of scatter_": (
        lambda: G.zeros(2).scatter_(0, G.tensor([1]), value=3.0),
        lambda: G.tensor([0.0, 3.0]),
    ),
    "axis0": (lambda: G.swapaxes(X, axis0=0, axis1=1), lambda: X.swapaxes(0, 1)),
    "element": (lambda: G.isin(element=1, test_elements=G.tensor([1])), lambda: G.tensor(True)),
    "test_element": (
        lambda: G.isin(G.tensor([1, 2]), test_element=2),
        lambda: G.tensor([False, True]),
    ),
    "other of copy_": (lambda: G.zeros(2).copy_(other=G.ones(2)), lambda: G.ones(2)),
    "train": (lambda: G.dropout(X, 0.5, train=False), lambda: X),
    "sparse_grad": (
        lambda: G.gather(X, 0, G.zeros(1, 1, 1, 1, dtype=G.int64), sparse_grad=False),
        lambda: G.zeros(1, 1, 1, 1),
    ),
    "implicit": (lambda: G.zeros(1).expand(2, implicit=False), lambda: G.zeros(1).expand(2)),
    "out_dtype": (
        lambda: G.mm(G.ones(2, 2), G.ones(2, 2), out_dtype=None),
        lambda: G.full((2, 2), 2.0),
    ),
    "cudnn_enable": (
        lambda: G.layer_norm(X, (4,), cudnn_enable=False),
        lambda: G.layer_norm(X, (4,)),
    ),
    "cudnn_enabled": (lambda: G.group_norm(X, 2, cudnn_enabled=False), lambda: G.group_norm(X, 2)),
    "dtype of norm": (
        lambda: G.ones(4).half().norm(2, dtype=G.float64),
        lambda: G.tensor(2.0, dtype=G.float64),
    ),
    "layout": (lambda: G.zeros(2, layout=G.strided, pin_memory=False), lambda: G.zeros(2)),
    "layout of like": (
        lambda: G.ones_like(X, layout=X.layout, pin_memory=True),
        lambda: G.ones_like(X),
    ),
    "new_zeros": (lambda: X.new_zeros(2, layout=G.strided, pin_memory=False), lambda: G.zeros(2)),
    "new": (lambda: X.new([1.0], device="cpu"), lambda: G.ones(1)),
    "to_dense": (lambda: X.to_dense(G.float64), lambda: X.double()),
    "map_": (
        lambda: G.ones(2).map_(other=G.ones(2), callable=lambda a, b: a + b),
        lambda: G.full((2,), 2.0),
    ),
    "inverse": (lambda: G.inverse(input=G.eye(2) * 2), lambda: G.eye(2) / 2),
    "det": (lambda: G.det(input=G.eye(2) * 2), lambda: G.tensor(4.0)),
    "cholesky_solve": (
        lambda: G.cholesky_solve(input=G.ones(2, 1), input2=G.eye(2)),
        lambda: G.ones(2, 1),
    ),
}


@pytest.mark.parametrize("name", ALIASES)
def test_arguments_have_the_names_that_torch_has(name):
    given, plain = ALIASES[name]
    assert bits(given()) == bits(plain())


@pytest.mark.parametrize(
    "name",
    [
        "split_size",
        "indices",
        "value of scatter",
        "axis0",
        "dtype of norm",
        "layout",
        "layout of like",
    ],
)
def test_other_names_are_recorded(name):
    given, plain = ALIASES[name]
    assert bits(G.compile(given, backend="eager", fullgraph=True)()) == bits(plain())


def test_values_that_would_change_something_are_refused():
    said(
        lambda: G.zeros(2, layout=G.sparse_coo),
        NotImplementedError,
        "layout cannot be sparse_coo: tensors are dense",
    )
    said(
        lambda: G.gather(X, 0, G.zeros(1, 1, 1, 1, dtype=G.int64), sparse_grad=True),
        NotImplementedError,
        "sparse_grad cannot be True",
    )
    said(
        lambda: G.mm(G.ones(2, 2), G.ones(2, 2), out_dtype=G.float64),
        NotImplementedError,
        "out_dtype cannot be dtype: cast the operands before",
    )
    said(lambda: G.split(X, 1, split_size=1), TypeError, "multiple values")
    said(lambda: G.add(X, 1, split_size=1), TypeError, "unexpected keyword argument 'split_size'")
    said(lambda: G.ones(2).norm(dtype=G.int64), RuntimeError, "dtype is a floating one")
    said(lambda: G.device("meta"), RuntimeError, "no device 'meta': each tensor has memory")
    said(lambda: G.zeros(2, device="meta"), RuntimeError, "no device meta: each tensor has memory")
    assert "split_size" not in G.split.__doc__.split("(")[1].split(")")[0].replace(
        "split_size_or_sections", ""
    )


def test_functions_of_the_package_have_their_own_order():
    weight, index = G.tensor([[3.0, 4.0], [0.0, 1.0]]), G.tensor([1, 0])
    assert G.embedding(weight, index).tolist() == [[0.0, 1.0], [3.0, 4.0]]
    rows, scale, shift = G.arange(4.0).reshape(2, 2), G.tensor([2.0, 3.0]), G.tensor([5.0, 6.0])
    assert G.batch_norm(
        rows, scale, shift, G.zeros(2), G.ones(2), False, 0.1, 0.0, False
    ).tolist() == [[5.0, 9.0], [9.0, 15.0]]
    found = G.instance_norm(
        G.arange(8.0).reshape(1, 2, 4), scale, shift, None, None, True, 0.1, 0.0, False
    )
    assert G.allclose(found[0, 0], G.tensor([2.31672, 4.10557, 5.89443, 7.68328]), atol=1e-4)


def test_result_type_knows_the_names_of_torchs_overloads():
    assert (
        G.result_type(tensor=G.ones(1), other=3) is G.float32
        and G.result_type(scalar=3.0, tensor=G.ones(1).int()) is G.float32
    )
    assert (
        G.result_type(scalar1=1, scalar2=2.0) is G.float32
        and G.result_type(G.ones(1).int(), G.ones(1).long()) is G.int64
    )
    said(lambda: G.result_type(3), TypeError, "takes two tensors or numbers, not 1")


# -- Layouts


LAID = {
    "contiguous": lambda x: x.contiguous(memory_format=G.channels_last),
    "to": lambda x: x.to(memory_format=G.channels_last),
    "to of a dtype": lambda x: x.to(G.float64, memory_format=G.channels_last),
    "clone": lambda x: x.clone(memory_format=G.channels_last),
    "empty_like": lambda x: G.zeros_like(x, memory_format=G.channels_last),
    "empty": lambda x: G.empty(1, 2, 3, 4, memory_format=G.channels_last),
}


@pytest.mark.parametrize("name", LAID)
def test_channels_can_be_last_in_memory(name):
    found = both(LAID[name], lambda: X.clone())[0]
    assert (
        found.stride() == (24, 1, 8, 2)
        and found.is_contiguous(memory_format=G.channels_last)
        and not found.is_contiguous()
    )
    assert LAID["contiguous"](found) is found and found.contiguous().stride() == (24, 12, 4, 1)


def test_gradients_flow_through_a_layout():
    y, gradient, _ = both(
        lambda x: x.contiguous(memory_format=G.channels_last) * 1,
        lambda: X.clone().requires_grad_(),
    )
    assert y.equal(X) and gradient.flatten().tolist() == list(range(1, 25))


def test_questions_about_layouts():
    last, last_3d = {"memory_format": G.channels_last}, {"memory_format": G.channels_last_3d}
    assert (
        G.ones(2, 1, 3, 4).is_contiguous(**last)
        and G.ones(2, 3, 1, 1).is_contiguous(**last)
        and not X[0].is_contiguous(**last)
    )
    assert (
        X.is_contiguous(memory_format=G.preserve_format)
        and X.contiguous(memory_format=G.preserve_format) is X
    )
    assert X.unsqueeze(0).contiguous(**last_3d).is_contiguous(**last_3d)
    said(
        lambda: X[0].contiguous(**last),
        RuntimeError,
        "required rank 4 tensor to use channels_last format",
    )
    said(
        lambda: X.to(**last_3d),
        RuntimeError,
        "required rank 5 tensor to use channels_last_3d format",
    )
    said(
        lambda: X.clone(memory_format="other"), TypeError, "memory_format is gramme.preserve_format"
    )
    ask = (
        lambda x: x + 1
        if x.is_contiguous(**last) or x.layout != G.strided or x.is_mps or x.is_xpu
        else x - 1
    )
    assert G.compile(ask, backend="eager", fullgraph=True)(X).equal(ask(X))
    model = G.nn.Sequential(G.nn.Conv2d(2, 3, 2), G.nn.Linear(2, 2)).to(
        memory_format=G.channels_last
    )
    assert (
        model[0].weight.stride() == (8, 1, 4, 2)
        and model[1].weight.stride() == (2, 1)
        and model[0].weight.is_leaf
    )
    said(
        lambda: X.imag, RuntimeError, "imag is not implemented for tensors with non-complex dtypes"
    )


def test_a_part_of_anothers_memory_is_set():
    base = G.arange(6.0)
    assert (
        G.empty(0).set_(base, 1, (2, 2), (2, 1)).tolist()
        == [[1.0, 2.0], [3.0, 4.0]]
        == G.empty(0).set_(base, 1, (2, 2)).tolist()
    )
    part = G.empty(0).set_(base[2:], 1, (2,))
    base[3] = 9.0
    assert part.tolist() == [9.0, 4.0]
    said(lambda: G.empty(0).set_(base, 1, (20, 2)), RuntimeError, "not inside of the memory")
    said(lambda: G.empty(0).set_(base, 1), TypeError, "has a size")


def test_a_storage_has_elements():
    x = G.arange(6.0)[2:]
    s = x.storage()
    assert (
        len(s) == s.size() == 6
        and s.nbytes() == 24
        and s.dtype is G.float32
        and s.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    )
    assert (
        s == x[1:].storage()
        and s != x.clone().storage()
        and s.untyped() == x.untyped_storage()
        and s.data_ptr() == x.untyped_storage().data_ptr()
    )
    s[2] = 7.0
    assert (
        x.tolist() == [7.0, 3.0, 4.0, 5.0]
        and s[2] == 7.0
        and len({s, x.storage()}) == 1
        and s.clone().fill_(1.0)[0] == 1.0
    )


def test_what_sparse_tensors_have_is_refused():
    for name in ("to_sparse", "coalesce", "indices", "values"):
        said(getattr(X, name), RuntimeError, f"{name}\\(\\) is for sparse tensors")
    said(X.share_memory_, NotImplementedError, "memory is not shared between processes")
    assert X.record_stream(None) is None and X.is_pinned(device=None) is False


# -- Names of dtypes


def test_names_of_dtypes_that_no_tensor_has_can_be_compared():
    sizes = {
        "complex64": 8,
        "complex128": 16,
        "complex32": 4,
        "uint16": 2,
        "uint32": 4,
        "uint64": 8,
    }
    for name, size in sizes.items():
        dtype = getattr(G, name)
        assert (
            isinstance(dtype, G.dtype)
            and repr(dtype) == f"gramme.{name}"
            and dtype.itemsize == size
            and dtype != G.float32
        )
        assert (
            dtype.is_complex == name.startswith("complex")
            and not dtype.is_floating_point
            and dtype.is_signed == dtype.is_complex
        )
        for make in (
            lambda: G.zeros(2, dtype=dtype),
            lambda: X.to(dtype),
            lambda: G.tensor(1, dtype=dtype),
            lambda: X.type(dtype),
            lambda: G.iinfo(dtype),
        ):
            said(make, (NotImplementedError, TypeError), f"gramme.{name}")
    assert len({getattr(G, name) for name in sizes} | {G.float32}) == 7 and not G.float32.is_complex
    ask = (
        lambda x: x + 1 if x.dtype in (G.complex64, G.uint16) or x.dtype == G.complex128 else x - 1
    )
    assert G.compile(ask, backend="eager", fullgraph=True)(X).equal(X - 1)
    cast = lambda x: x.to(G.complex64)
    said(
        lambda: G.compile(cast, backend="eager")(X),
        NotImplementedError,
        "gramme.complex64 is a name alone: there are no complex tensors",
    )


# -- Embeddings

WEIGHT = [[3.0, 4.0], [0.3, 0.4], [6.0, 8.0], [-0.0, 1.0]]
ROWS = {  # arguments: the result, and the weight after
    (("max_norm", 1.0),): (
        [[0.6, 0.8], [0.6, 0.8], [0.6, 0.8], [0.0, 1.0]],
        [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8], [0.0, 1.0]],
    ),
    (("max_norm", 2.0), ("norm_type", 1.0)): (
        [[0.85714, 1.14286], [0.85714, 1.14286], [0.85714, 1.14286], [0.0, 1.0]],
        [[0.85714, 1.14286], [0.3, 0.4], [0.85714, 1.14286], [0.0, 1.0]],
    ),
    (("max_norm", 0.5), ("norm_type", INF), ("scale_grad_by_freq", True)): (
        [[0.375, 0.5], [0.375, 0.5], [0.375, 0.5], [0.0, 0.5]],
        [[0.375, 0.5], [0.3, 0.4], [0.375, 0.5], [0.0, 0.5]],
    ),
    (("scale_grad_by_freq", True),): ([[3.0, 4.0], [6.0, 8.0], [3.0, 4.0], [0.0, 1.0]], WEIGHT),
    (("scale_grad_by_freq", True), ("padding_idx", 0)): (
        [[3.0, 4.0], [6.0, 8.0], [3.0, 4.0], [0.0, 1.0]],
        WEIGHT,
    ),
    (("max_norm", 1.0), ("padding_idx", 2)): (
        [[0.6, 0.8], [0.6, 0.8], [0.6, 0.8], [0.0, 1.0]],
        [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8], [0.0, 1.0]],
    ),
}


@pytest.mark.filterwarnings(
    "ignore:gramme cannot compile"
)  # a leaf that requires grad is written to
@pytest.mark.parametrize("options", ROWS, ids=[" ".join(name for name, _ in row) for row in ROWS])
def test_rows_are_limited_and_gradients_shared(options):
    options, (want, after) = dict(options), ROWS[options]
    index = G.tensor([0, 2, 0, 3])
    y, gradient, weight = both(
        lambda w: F.embedding(index, w, **options), lambda: G.tensor(WEIGHT, requires_grad=True)
    )
    assert G.allclose(y, G.tensor(want), atol=1e-5) and G.allclose(
        weight, G.tensor(after), atol=1e-5
    )
    first = [3.0, 4.0] if options.get("scale_grad_by_freq") else [6.0, 8.0]
    rows = [first, [0.0, 0.0], [3.0, 4.0], [7.0, 8.0]]
    if "padding_idx" in options:
        rows[options["padding_idx"]] = [0.0, 0.0]
    assert gradient.tolist() == rows


def test_shared_gradients_leave_values_alone():
    weight = G.tensor([[INF, -0.0], [1.0, 2.0]], requires_grad=True)
    y = F.embedding(G.tensor([0, 1, 0]), weight, scale_grad_by_freq=True)
    assert bits(y) == bits(weight.detach()[[0, 1, 0]])


BAGS = {  # of two bags, {0, 2} and {0, 3}: the result
    (("max_norm", 1.0),): [[0.6, 0.8], [0.3, 0.9]],
    (("max_norm", 1.0), ("mode", "sum"), ("norm_type", 1.0)): [
        [0.85714, 1.14286],
        [0.42857, 1.57143],
    ],
    (("scale_grad_by_freq", True), ("mode", "sum")): [[9.0, 12.0], [3.0, 5.0]],
}


@pytest.mark.filterwarnings("ignore:gramme cannot compile")
@pytest.mark.parametrize("options", BAGS, ids=[" ".join(name for name, _ in row) for row in BAGS])
def test_bags_limit_rows_and_share_gradients(options):
    index = G.tensor([[0, 2], [0, 3]])
    y, gradient, _ = both(
        lambda w: F.embedding_bag(index, w, **dict(options)),
        lambda: G.tensor(WEIGHT, requires_grad=True),
    )
    assert G.allclose(y, G.tensor(BAGS[options]), atol=1e-5)
    if dict(options).get("scale_grad_by_freq"):
        assert gradient.tolist() == [[2.0, 3.0], [0.0, 0.0], [1.0, 2.0], [3.0, 4.0]]
    said(
        lambda: F.embedding_bag(index, G.ones(4, 2), mode="max", scale_grad_by_freq=True),
        ValueError,
        "max mode does not support",
    )


def test_layers_of_embeddings():
    layer = G.nn.Embedding(4, 2, max_norm=1.0, norm_type=1.0, _weight=G.tensor(WEIGHT))
    assert repr(layer) == "Embedding(4, 2, max_norm=1.0, norm_type=1.0)"
    assert (
        G.allclose(layer(G.tensor([0])), G.tensor([[0.42857, 0.57143]]), atol=1e-5)
        and abs(layer.weight[0, 0].item() - 0.42857) < 1e-4
    )
    layer = G.nn.Embedding.from_pretrained(
        G.tensor(WEIGHT), freeze=False, padding_idx=1, scale_grad_by_freq=True
    )
    assert (
        repr(layer) == "Embedding(4, 2, padding_idx=1, scale_grad_by_freq=True)"
        and layer.sparse is False
    )
    bag = G.nn.EmbeddingBag.from_pretrained(G.tensor(WEIGHT), max_norm=1.0)
    assert (
        not bag.weight.requires_grad
        and repr(bag) == "EmbeddingBag(4, 2, max_norm=1.0, mode='mean')"
    )
    assert G.allclose(bag(G.tensor([[0, 2]])), G.tensor([[0.6, 0.8]]))
    said(lambda: G.nn.Embedding(4, 2, sparse=True), NotImplementedError, "gradients are dense")
    said(
        lambda: F.embedding(G.tensor([0]), G.ones(1, 1), sparse=True),
        NotImplementedError,
        "sparse cannot be True: gradients are dense",
    )


# -- Losses with weights; attention whose heads share keys

LOSSES = {  # gradients by the input and by the weight
    ("mse_loss", "mean"): (7.0, [0.5, -4.5], [-1.5, 0.5]),
    ("mse_loss", "sum"): (28.0, [2.0, -18.0], [1.0, 9.0]),
    ("l1_loss", "mean"): (2.5, [0.25, -0.75], [-0.375, 0.125]),
    ("l1_loss", "sum"): (10.0, [1.0, -3.0], [1.0, 3.0]),
    ("huber_loss", "mean"): (4.0, [0.5, -1.5], [0.25, 1.25]),
    ("huber_loss", "sum"): (8.0, [1.0, -3.0], [0.5, 2.5]),
}


@pytest.mark.parametrize("name, how", LOSSES)
def test_losses_have_weights(name, how):
    value, by_input, by_weight = LOSSES[name, how]
    leaf = lambda values: lambda: G.tensor(values, requires_grad=True)
    run = lambda a, w: getattr(F, name)(a, G.tensor([0.0, 5.0]), reduction=how, weight=w)
    loss, gradient, of_weight, *_ = both(run, leaf([1.0, 2.0]), leaf([1.0, 3.0]))
    assert (
        loss.item() == value and gradient.tolist() == by_input and of_weight.tolist() == by_weight
    )
    said(
        lambda: getattr(F, name)(G.ones(2), G.ones(2), weight=G.ones(3)),
        ValueError,
        "weights and input must have the same size",
    )


def test_heads_share_keys_and_values():
    make = (
        lambda: G.arange(96.0).reshape(1, 4, 3, 8).sin().requires_grad_(),
        lambda: G.arange(80.0).reshape(1, 2, 5, 8).cos().requires_grad_(),
    )
    shared = both(lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), *make)
    repeated = both(
        lambda q, k: F.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), k.repeat_interleave(2, 1)
        ),
        *make,
    )
    assert shared[0].equal(repeated[0]) and all(
        G.allclose(a, b) for a, b in zip(shared[1:3], repeated[1:3])
    )
    want = G.tensor([0.61377, 0.06851, -0.53974, -0.65175, -0.16455, 0.47394, 0.67669, 0.25729])
    assert G.allclose(shared[0][0, 1, 2], want, atol=1e-4)
    three = G.ones(1, 3, 5, 8)
    said(
        lambda: F.scaled_dot_product_attention(make[0](), three, three, enable_gqa=True),
        RuntimeError,
        "divides the query's: 3 and 4",
    )


# -- Layers


def test_options_of_layers():
    assert (
        G.nn.AvgPool2d(2, divisor_override=3)(G.arange(16.0).reshape(1, 1, 4, 4)).sum().item()
        == 40.0
    )
    assert (
        abs(
            G.nn.AvgPool3d(2, divisor_override=3)(G.arange(8.0).reshape(1, 1, 2, 2, 2)).item()
            - 28 / 3
        )
        < 1e-5
    )
    assert G.nn.Hardtanh(min_value=-2.0, max_value=0.5)(G.tensor([-3.0, 0.0, 1.0])).tolist() == [
        -2.0,
        0.0,
        0.5,
    ]
    for layer in (
        G.nn.LazyBatchNorm1d(bias=False),
        G.nn.LazyInstanceNorm1d(affine=True, bias=False),
        G.nn.SyncBatchNorm(3, bias=False),
    ):
        assert layer.bias is None and layer.weight is not None
    assert G.nn.LazyBatchNorm1d(bias=False)(G.randn(4, 3)).shape == (4, 3)
    assert isinstance(G.nn.UninitializedBuffer(persistent=False), G.nn.Buffer)


@pytest.mark.parametrize(
    "name",
    [
        "uniform_",
        "normal_",
        "xavier_uniform_",
        "xavier_normal_",
        "kaiming_uniform_",
        "kaiming_normal_",
        "trunc_normal_",
        "orthogonal_",
    ],
)
def test_initial_values_are_drawn_from_a_generator(name):
    draw = lambda seed: getattr(G.nn.init, name)(
        G.empty(3, 4), generator=G.Generator().manual_seed(seed)
    )
    before = G.get_rng_state()
    assert draw(1).equal(draw(1)) and not draw(1).equal(draw(2)) and before.equal(G.get_rng_state())


class Renamed(G.nn.Module):
    """Reads the name of an older version."""

    def __init__(self):
        super().__init__()
        self.weight = G.nn.Parameter(G.zeros(2))
        self.inner = G.nn.Linear(1, 1)

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        if prefix + "w" in state_dict:
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "version"] = G.tensor(2)


def test_a_class_has_its_own_way_to_load_and_save():
    model = G.nn.Sequential(Renamed(), G.nn.Linear(1, 1))
    state = model.state_dict()
    assert list(state) == [
        "0.weight",
        "0.version",
        "0.inner.weight",
        "0.inner.bias",
        "1.weight",
        "1.bias",
    ]
    del state["0.version"]
    old = {("0.w" if name == "0.weight" else name): value + 1 for name, value in state.items()}
    assert (
        str(model.load_state_dict(old)) == "<All keys matched successfully>"
        and model[0].weight.tolist() == [1.0, 1.0]
        and "0.w" in old
    )
    keys = model.load_state_dict(
        {**{k: v for k, v in old.items() if k != "0.w"}, "0.more": G.ones(1)}, strict=False
    )
    assert keys.missing_keys == ["0.weight"] and keys.unexpected_keys == ["0.more"]
    said(
        lambda: model.load_state_dict({**old, "0.w": G.ones(3)}),
        RuntimeError,
        "size mismatch for 0.weight: \\[3\\] was given",
    )
    missing, unexpected, problems = [], [], []
    G.nn.Linear(1, 1)._load_from_state_dict(
        {"weight": G.ones(1, 1), "other": G.ones(1)}, "", {}, True, missing, unexpected, problems
    )
    assert (missing, unexpected, problems) == (["bias"], ["other"], [])
    new = G.ones(2)
    model.load_state_dict({**old, "0.w": new}, assign=True)
    assert model[0].weight.data_ptr() == new.data_ptr()


# -- Autocast, random numbers, files, derivatives


def test_other_kinds_of_device_do_not_autocast():
    assert not G.is_autocast_enabled("mps") and not G.is_autocast_enabled("xpu")
    with G.autocast("cpu"), G.autocast("mps", enabled=False):
        assert (G.ones(2, 2) @ G.ones(2, 2)).dtype is G.bfloat16
    function = lambda x: x
    assert G.autocast("mps", enabled=False)(function) is function
    said(lambda: G.autocast("mps"), RuntimeError, "no device of type 'mps'")
    said(lambda: G.is_autocast_enabled("nothing"), RuntimeError, "no device of type 'nothing'")


def test_normal_numbers_of_a_dtype():
    assert G.normal(0.0, 1.0, (2,), dtype=G.float64, layout=G.strided).dtype is G.float64
    assert G.normal(0.0, 1.0, (2,), requires_grad=True).requires_grad
    said(
        lambda: G.normal(G.zeros(2), 1.0, dtype=G.float64), TypeError, "dtype is that of the tensor"
    )


def test_files_are_no_pickles():
    file = io.BytesIO()
    G.save({"x": X}, file, pickle_protocol=2)
    file.seek(0)
    assert G.load(file, mmap=True)["x"].equal(X)
    said(lambda: G.save(X, file, pickle_module=io), TypeError, "leave pickle_module out")
    said(lambda: G.load(file, pickle_module=io), TypeError, "leave pickle_module out")


def test_derivatives_are_checked_by_backwards():
    x = G.ones(2, dtype=G.float64, requires_grad=True)
    assert G.autograd.gradcheck(
        lambda a: a * a, (x,), check_batched_grad=False, check_grad_dtypes=True, masked=False
    )
    said(
        lambda: G.autograd.gradcheck(lambda a: a * a, (x,), check_forward_ad=True),
        NotImplementedError,
        "check_forward_ad=True is not there",
    )
    assert G.autograd.gradgradcheck(
        lambda a: a * a * a, (x,), check_fwd_over_rev=False, check_rev_over_rev=True
    )
    said(
        lambda: G.func.jvp(lambda a: G.ones(1), (x,), (x,), strict=True),
        RuntimeError,
        "does not depend on the primals",
    )
    assert G.func.functional_call(G.nn.Identity(), parameter_and_buffer_dicts={}, args=(3,)) == 3
    said(
        lambda: G._dynamo.mark_dynamic(G.ones(2), 0, specialize_on=[lambda n: n == 8]),
        NotImplementedError,
        "specialize_on are not there",
    )


# -- Linear algebra into tensors that exist

S = [[4.0, 1.0], [1.0, 3.0]]


@pytest.mark.parametrize(
    "name",
    [
        "inv",
        "det",
        "cholesky",
        "qr",
        "slogdet",
        "eigvalsh",
        "eigh",
        "svd",
        "svdvals",
        "matrix_exp",
        "pinv",
        "cond",
        "matrix_rank",
    ],
)
def test_linear_algebra_writes_into_tensors_that_exist(name):
    function, a = getattr(G.linalg, name), G.tensor(S)
    want = function(a)
    several = not isinstance(want, G.Tensor)
    into = (
        tuple([G.empty(0, dtype=part.dtype) for part in want])
        if several
        else G.empty(0, dtype=want.dtype)
    )
    found = function(a, out=into)
    for part, given, expected in zip(found, into, want) if several else [(found, into, want)]:
        assert part is given and bits(part) == bits(expected)
    assert type(found) is type(want)


def test_out_is_of_the_results_dtype_and_shape():
    a = G.tensor(S)
    said(
        lambda: G.linalg.inv(a, out=G.empty(2, 2, dtype=G.float64)),
        RuntimeError,
        "expected out tensor to have dtype gramme.float32, but got gramme.float64",
    )
    said(
        lambda: G.linalg.inv(a, out=G.empty(3)),
        RuntimeError,
        "pass one of its shape, or an empty one",
    )
    said(
        lambda: G.linalg.qr(a, out=G.empty(2)), TypeError, "out= is a tensor, or a tuple of as many"
    )
    said(
        lambda: G.linalg.inv(a, out=(G.empty(2),)),
        TypeError,
        "out= is a tensor, or a tuple of as many",
    )
    said(
        lambda: G.linalg.inv(a.requires_grad_(), out=G.empty(2, 2)),
        RuntimeError,
        "linalg.inv.*don't support automatic differentiation",
    )
    solve = lambda x, into: G.linalg.solve(G.tensor(S), x, out=into) + 1
    assert G.compile(solve, backend="eager")(G.ones(2), G.empty(2)).equal(
        solve(G.ones(2), G.empty(2))
    )


def test_the_base_of_recurrent_layers_takes_a_mode():
    assert [
        G.nn.RNNBase(mode, 2, 3).weight_ih_l0.shape[0] for mode in ("RNN_TANH", "GRU", "LSTM")
    ] == [3, 9, 12]
    assert (
        G.nn.LSTM(2, 3).mode,
        G.nn.GRU(2, 3).mode,
        G.nn.RNN(2, 3, nonlinearity="relu").mode,
    ) == ("LSTM", "GRU", "RNN_RELU")
    assert repr(G.nn.LSTM(2, 3, proj_size=2)) == "LSTM(2, 3, proj_size=2)"
    said(lambda: G.nn.RNNBase("X", 2, 3), ValueError, "unrecognized RNN mode: 'X'")


def test_the_build_is_text():
    assert (
        G.__config__.show().startswith(f"gramme {G.__version__}\nback ends: ")
        and "get_num_threads" in G.__config__.parallel_info()
    )
