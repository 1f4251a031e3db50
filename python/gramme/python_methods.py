# SPDX-License-Identifier: Apache-2.0
"""Methods of Tensor that are compositions of others: the functions of METHODS become methods when
the package is imported."""

import gramme
from gramme import compare, copies, overrides, python_algorithms, python_functions, storage
from gramme._core import Tensor


def get_device(input):
    """The number of the GPU that has the memory, -1 for the CPU."""
    return 0 if input.is_cuda else -1


def pin_memory(input, device=None):
    """The tensor: copies to a GPU take memory of the CPU as it is.  Errors: RuntimeError for a
    tensor of a GPU."""
    if input.is_cuda:
        raise RuntimeError("cannot pin memory of device 'cuda': only tensors of the CPU are pinned")
    return input


def new_tensor(input, data, *, dtype=None, device=None, requires_grad=False):
    """A tensor made of data, of input's dtype and on its device unless others are named."""
    if isinstance(data, Tensor):
        return (
            data.detach()
            .to(device or data.device, dtype or data.dtype, copy=True)
            .requires_grad_(requires_grad)
        )
    return gramme.tensor(
        data, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
    )


def new(input, *args, device=None, **named):
    """new(sizes ...) or new(data): a tensor of input's dtype.  Named: size= or data=, or other=, a
    tensor of its dtype."""
    device = device or input.device
    if named:
        if args or len(named) > 1 or next(iter(named)) not in ("size", "data", "other"):
            raise TypeError(
                f"new() takes sizes or data, or one of size=, data= and other=, not {len(args)} of "
                f"the former and {', '.join(named)}"
            )
        args = (gramme.Size(named["size"]),) if "size" in named else tuple(named.values())
        if "other" in named and args[0].dtype != input.dtype:
            raise TypeError(f"new(): other is of dtype {args[0].dtype}, not {input.dtype}")
    if len(args) == 1 and not isinstance(args[0], (int, gramme.Size)):
        return gramme.tensor(args[0], dtype=input.dtype, device=device)
    return input.new_empty(*(args or (0,)), device=device)


def sum_to_size(input, *size):
    """Sums so that the result has this shape, which broadcasts to input's."""
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    lead = input.dim() - len(size)
    if lead < 0 or any([n != m and n != 1 for n, m in zip(size, input.shape[lead:])]):
        raise RuntimeError(
            f"sum_to_size(): size {list(size)} does not broadcast to the tensor's shape "
            f"{list(input.shape)}"
        )
    dims = list(range(lead)) + [
        lead + i for i, n in enumerate(size) if n == 1 and input.shape[lead + i] != 1
    ]
    if not size:
        return input.sum()
    return input.sum(dims, True).reshape(size) if dims else input


def split_with_sizes(input, split_sizes, dim=0):
    """Views along dim of the sizes in a list."""
    return input.split(list(split_sizes), dim)


def narrow_copy(input, dim, start, length):
    """narrow(), as a copy."""
    return input.narrow(dim, start, length).clone()


def fill_diagonal_(input, fill_value, wrap=False):
    """Writes a number on the main diagonal; wrap: of a matrix with more rows than columns again and
    again, one row apart."""
    if input.dim() < 2:
        raise RuntimeError("fill_diagonal_() needs at least 2 dimensions")
    if input.dim() > 2 and any([n != input.shape[0] for n in input.shape]):
        raise RuntimeError("fill_diagonal_(): all dimensions must be of equal length")
    if input.dim() == 2 and wrap and input.shape[0] > input.shape[1] + 1:
        rows, columns = input.shape
        return input.masked_fill_(
            (gramme.arange(rows * columns, device=input.device) % (columns + 1) == 0).reshape(
                rows, columns
            ),
            fill_value,
        )
    line = input
    while line.dim() > 1:
        line = line.diagonal()
    line.fill_(fill_value)
    return input


def apply_(input, callable):
    """Replaces each element by what a function of Python's makes of it."""
    values = [callable(value) for value in input.detach().flatten().tolist()]
    return input.copy_(
        gramme.tensor(values, dtype=input.dtype, device=input.device).reshape(input.shape)
    )


def map_(input, other, callable):
    """Replaces each element by what a function of Python's makes of it and of the other tensor's
    element there."""
    others = other.expand_as(input).detach().flatten().tolist()
    values = [
        callable(value, other) for value, other in zip(input.detach().flatten().tolist(), others)
    ]
    return input.copy_(
        gramme.tensor(values, dtype=input.dtype, device=input.device).reshape(input.shape)
    )


def adjoint(input):
    """The last two dimensions exchanged: a view."""
    return input.transpose(-2, -1)


def itself(input):
    """The tensor: there are no complex dtypes, and no other layouts."""
    return input


def no(input):
    """False."""
    return False


def resize_as_(input, the_template):
    """resize_() to the shape of another tensor."""
    return input.resize_(the_template.shape)


def to_dense(input, dtype=None, *, masked_grad=None):
    """The tensor, cast to dtype if there is one: all tensors are dense."""
    return input if dtype is None else input.to(dtype)


def is_pinned(input, device=None):
    """False: no memory of the CPU is kept in place for copies to a GPU."""
    return False


def share_memory_(input):
    """Is here to say what to do: NotImplementedError."""
    raise NotImplementedError(
        "memory is not shared between processes: threads share tensors as they are, and a process "
        "gets a copy"
    )


def record_stream(input, stream):
    """gramme.cuda.record_stream(); nothing for a tensor of the CPU."""
    if input.is_cuda:
        gramme.cuda.record_stream(input, stream)


def _not_sparse(name):
    def refused(input, *args, **kwargs):
        raise RuntimeError(
            f"{name}() is for sparse tensors, and all tensors are dense: keep indices and values "
            "as two tensors"
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "RuntimeError: all tensors are dense."
    return refused


(
    to_sparse,
    to_sparse_csr,
    coalesce,
    is_coalesced,
    indices,
    values,
    sparse_mask,
    crow_indices,
    col_indices,
) = [
    _not_sparse(name)
    for name in (
        "to_sparse",
        "to_sparse_csr",
        "coalesce",
        "is_coalesced",
        "indices",
        "values",
        "sparse_mask",
        "crow_indices",
        "col_indices",
    )
]


def __reversed__(input):
    """Along dimension 0."""
    return input.flip(0) if input.dim() else input


def _is_view(input):
    """Whether it is a view of another tensor, which autograd follows."""
    return input._base is not None


def is_set_to(input, tensor):
    """Whether both are the same elements of the same memory, in one shape."""
    same = (
        input.data_ptr() == tensor.data_ptr() and input.storage_offset() == tensor.storage_offset()
    )
    return (
        same
        and input.shape == tensor.shape
        and input.stride() == tensor.stride()
        and input.dtype == tensor.dtype
    )


def polygamma_(input, n):
    """polygamma(n, input), in place."""
    return input.copy_(python_functions._polygamma_of(input, n))


def mvlgamma_(input, p):
    """mvlgamma(p), in place."""
    return input.copy_(python_functions.mvlgamma(input, p))


METHODS = {
    **{f.__name__: f for f in (compare.allclose, compare.equal, compare.isclose)},
    **{f.__name__: f for f in (python_functions.is_nonzero, python_functions.is_signed, python_functions.is_complex, python_functions.is_same_size, python_functions.frexp)},
    **{f.__name__: f for f in (get_device, pin_memory, new_tensor, new, sum_to_size, split_with_sizes, narrow_copy, fill_diagonal_)},
    **{f.__name__: f for f in (apply_, map_, adjoint, resize_as_, __reversed__, python_functions.angle)},
    **{f.__name__: f for f in (copies.as_strided_scatter, copies.new_empty_strided, python_algorithms.histogram, python_algorithms.index_reduce, python_algorithms.index_reduce_)},
    **{f.__name__: f for f in (to_dense, is_pinned, share_memory_, record_stream, to_sparse, to_sparse_csr, coalesce, is_coalesced, indices, values)},
    **{f.__name__: f for f in (sparse_mask, crow_indices, col_indices)},
    **{f.__name__: f for f in (python_algorithms.nonzero_static, is_set_to, _is_view, polygamma_, mvlgamma_)},
    "unsafe_chunk": Tensor.chunk, "unsafe_split": Tensor.split,
    "unsafe_split_with_sizes": Tensor.split,
    "polygamma": python_functions._polygamma_of, "mvlgamma": python_functions.mvlgamma,
    "__torch_function__": classmethod(overrides._tensor_function),
    "as_subclass": overrides.as_subclass,
    "untyped_storage": storage.untyped_storage, "storage": storage.typed_storage,
    "conj": itself, "conj_physical": itself, "resolve_conj": itself, "resolve_neg": itself,
    "is_conj": no, "is_neg": no, "is_shared": no, "is_inference": no,
}  # fmt: skip
