# SPDX-License-Identifier: Apache-2.0
"""Functions of the package that are compositions of others, or are about dtypes and shapes; the API
table has all that need C.

Each is recorded by being run, so compiled functions call them like code of their own.
"""

import itertools
import math
import os

import gramme
from gramme._core import Tensor, get_default_dtype, manual_seed, promote_types

# -- Questions


def is_nonzero(input):
    """Whether the one element is not 0."""
    if input.numel() != 1:
        raise RuntimeError(
            f"is_nonzero() needs a tensor of one element, not of shape {list(input.shape)}"
        )
    return bool(input)


def is_signed(input):
    """Whether the dtype has negative values."""
    return input.dtype.is_signed


def is_complex(input):
    """False: there are no complex dtypes."""
    return False


def is_same_size(input, other):
    """Whether the shapes are equal."""
    return input.shape == other.shape


def typename(obj):
    """The name of the object's type, with its module; for a tensor as Tensor.type() gives it."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


# -- Dtypes and shapes


def _empty_part(value):
    """No element of it, with what counts for promotion: a tensor with or without dimensions, or a
    number."""
    if not isinstance(value, Tensor):
        return value
    return value.detach().flatten()[:0] if value.dim() else value.detach()


def result_type(
    tensor1=None, tensor2=None, *, tensor=None, other=None, scalar=None, scalar1=None, scalar2=None
):
    """The dtype of an operation on two; each is a tensor or a number.  The keywords are those of
    torch's overloads: (tensor, other), (scalar, tensor), (scalar1, scalar2).  Errors: TypeError
    unless there are two."""
    given = [
        value
        for value in (tensor1, scalar, tensor, other, tensor2, scalar1, scalar2)
        if value is not None
    ]
    if len(given) != 2:
        raise TypeError(f"result_type() takes two tensors or numbers, not {len(given)}")
    tensor1, tensor2 = given
    if not isinstance(tensor1, Tensor) and not isinstance(tensor2, Tensor):
        return promote_types(gramme.tensor(tensor1).dtype, gramme.tensor(tensor2).dtype)
    return (_empty_part(tensor1) + _empty_part(tensor2)).dtype


def can_cast(from_, to):
    """Whether a tensor of the dtype from_ may become one of the dtype to: floats stay floats, and
    only bool becomes bool."""
    if from_.is_floating_point and not to.is_floating_point:
        return False
    return from_ == gramme.bool or to != gramme.bool


def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes (or of one dimension, for an int) broadcast to."""
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    sizes = [1] * max([len(shape) for shape in shapes], default=0)
    for shape in shapes:
        for i, size in enumerate(reversed(shape)):
            if size < 0:
                raise RuntimeError(f"broadcast_shapes(): a shape has the negative size {size}")
            if size != 1 and sizes[-1 - i] not in (1, size):
                raise RuntimeError(
                    f"broadcast_shapes(): the shapes {', '.join([str(list(s)) for s in shapes])} "
                    "do not broadcast"
                )
            if size != 1:
                sizes[-1 - i] = size
    return gramme.Size(sizes)


# -- Tensors that are made


def need_floats(name, tensor):
    """Raises NotImplementedError, with the function's name, for a tensor of integers or bools."""
    if not tensor.is_floating_point():
        dtype = str(tensor.dtype).removeprefix("gramme.")
        message = f"{name}(): takes floating dtypes, not {dtype}; cast the input first"
        raise NotImplementedError(message)


def scalar_tensor(s, *, dtype=None, device=None, requires_grad=False):
    """A tensor without dimensions; of the default dtype unless one is named."""
    return gramme.full(
        (), s, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad
    )


def inclusive_range(start, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """range(start, end, step): start, start + step ... up to end, included; of the default dtype.
    arange() is what one wants."""
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(f"range(): the step {step} does not lead from {start} to {end}")
    n = math.floor((end - start) / step) + 1
    values = gramme.arange(n, dtype=gramme.float64, device=device) * step + start
    return values.to(dtype or get_default_dtype()).requires_grad_(requires_grad)


def seed_of_system():
    """64 bits that nobody can foretell."""
    return int.from_bytes(os.urandom(8), "little")


def seed():
    """Begins the process's generator anew with a seed from the system, and returns the seed."""
    value = seed_of_system()
    manual_seed(value)
    return value


def combinations(input, r=2, with_replacement=False):
    """All ways to choose r elements of a vector, in order, one a row; with_replacement: each as
    often as one likes."""
    if input.dim() != 1:
        raise RuntimeError(
            f"combinations() takes a vector, not a tensor of {input.dim()} dimensions"
        )
    if r < 0:
        raise RuntimeError(f"combinations(): r is not negative, not {r}")
    if r == 0:
        return input[:0]
    if r == 2:
        places = gramme.triu_indices(
            input.shape[0], input.shape[0], 0 if with_replacement else 1, device=input.device
        )
        return input.index_select(0, places.T.reshape(-1)).reshape(places.shape[1], 2)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = [list(row) for row in choose(range(input.shape[0]), r)]
    flat = [place for row in rows for place in row]
    return input.index_select(
        0, gramme.tensor(flat, dtype=gramme.int64, device=input.device)
    ).reshape(len(rows), r)


def unravel_index(indices, shape):
    """Places in a flat tensor as places along each dimension of `shape`, a tuple."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.is_floating_point() or indices.dtype == gramme.bool:
        raise TypeError(f"unravel_index() takes integers, not {indices.dtype}")
    found = []
    for size in reversed(shape):
        found.append(indices % size)
        indices = gramme.div(indices, size, rounding_mode="floor")
    return tuple(found[::-1])


# -- Parts of numbers


def frexp(input, *, out=None):
    """(mantissa, exponent): input = mantissa * 2 ** exponent with 0.5 <= |mantissa| < 1, exponent
    int32; 0, NaN and infinities have the exponent 0.  out: a pair of tensors that become them."""
    if not input.is_floating_point():
        raise RuntimeError(f"frexp() takes floating dtypes, not {input.dtype}")
    wide = input if input.dtype == gramme.float64 else input.to(gramme.float32)
    plain = wide.isfinite().logical_and(wide != 0)
    size = gramme.where(plain, wide, 1.0)
    small = size.abs() < gramme.finfo(wide.dtype).tiny
    size = gramme.where(small, size * 2.0**64, size)
    exponent = (size.detach().abs().log2().floor() + 1).clamp(
        -1021 if wide.dtype == gramme.float64 else -125
    )
    half = (exponent * 0.5).floor()  # in two steps: 2 ** exponent may be out of range
    mantissa = size * (-half).exp2() * (half - exponent).exp2()
    over, under = mantissa.abs() >= 1, mantissa.abs() < 0.5  # the logarithm was rounded
    mantissa = gramme.where(over, mantissa * 0.5, gramme.where(under, mantissa * 2, mantissa))
    exponent = exponent + over.to(wide.dtype) - under.to(wide.dtype) - small.to(wide.dtype) * 64
    exponent = gramme.where(plain, exponent, 0.0).to(gramme.int32)
    mantissa = gramme.where(plain, mantissa, wide).to(input.dtype)
    if out is None:
        return mantissa, exponent
    return gramme.clone(mantissa, out=out[0]), gramme.clone(exponent, out=out[1])


def angle(input):
    """pi where input is negative, 0 elsewhere, NaN for NaN; of integers in the default dtype."""
    x = input if input.is_floating_point() else input.to(get_default_dtype())
    return gramme.where(x.isnan(), x.floor(), (x < 0).to(x.dtype) * math.pi)  # no slope anywhere


# -- The gamma function

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def tail_of_powers(s, y):
    """The sum of (y + k) ** -s, k = 0, 1 ..., for y >= 16, by the Euler-Maclaurin formula."""
    total, factor = y ** (1 - s) / (s - 1) + y**-s / 2, 1.0
    for j, bernoulli in enumerate(_BERNOULLI, 1):
        factor = (
            factor * (s if j == 1 else (s + 2 * j - 3) * (s + 2 * j - 2)) / ((2 * j - 1) * 2 * j)
        )
        total = total + y ** (1 - s - 2 * j) * (bernoulli * factor)
    return total


def _whole_sum(n, x):
    """The sum of (x + k) ** -(n + 1) over all whole k, for x that is not whole: the derivative of
    order n of pi cot (pi x), but for (-1)^n n!.

    That is a polynomial in cot, as the derivative of cot is -(1 + cot^2): with the signs of powers
    of -1 aside all its coefficients have one.
    """
    c = [0, 1]
    for _ in range(n):
        slope = [k * v for k, v in enumerate(c)][1:] + [0, 0]
        c = [v + (slope[k - 2] if k > 1 else 0) for k, v in enumerate(slope)]
    rest = x - x.round()
    steep = rest.abs() < 0.25
    tangent = (gramme.where(steep, rest, 0.5 - rest.abs()) * math.pi).tan()
    cot = gramme.where(
        steep, 1 / gramme.where(steep, tangent, 1.0), gramme.where(rest < 0, -tangent, tangent)
    )
    square, powers = cot * cot, c[::-2]  # every other coefficient is 0
    total = gramme.full_like(cot, powers[0] / math.factorial(n))
    for v in powers[1:]:
        total = total * square + v / math.factorial(n)
    return (total if len(c) % 2 else total * cot) * math.pi ** (n + 1)


def polygamma(n, input):
    """The derivative of order n of digamma.

    From n = 2 on, above 0, it is a sum over the inverse powers of input, input + 1 ...: sixteen of
    them, and the Euler-Maclaurin formula for the rest.  Below, that sum over all whole numbers is
    known, and what is missing is one above 0 again: Abramowitz and Stegun, 6.4.7 and 6.4.10. At 0,
    -1 ... it is infinite, of the sign that the last term has from above.
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n < 2:
        return gramme.digamma(input) if n == 0 else gramme._trigamma(input)
    dtype = input.dtype if input.is_floating_point() else get_default_dtype()
    x = input.to(gramme.float64)
    below, pole = x <= 0, (x <= 0) & (x == x.floor())
    above = gramme.where(below, 1 - x, x)
    total = tail_of_powers(n + 1, above + 16)
    for k in range(15, -1, -1):
        total = total + (above + k) ** -(n + 1)
    turned = _whole_sum(n, gramme.where(below & ~pole, x, 0.5)) - (total if n % 2 else -total)
    end = gramme.where(pole & (x > -math.inf), x - x.detach(), gramme.where(pole, 0.0, 1.0)) ** -(
        n + 1
    )  # infinite, and so is its slope
    total = gramme.where(pole, end, gramme.where(below, turned, total))
    return (total * ((-1) ** (n + 1) * (float(math.factorial(n)) if n <= 170 else math.inf))).to(
        dtype
    )


def _polygamma_of(input, n):
    return polygamma(n, input)


def mvlgamma(input, p):
    """The logarithm of the multivariate gamma function of p dimensions."""
    if p < 1:
        raise RuntimeError(f"mvlgamma(): p is at least 1, not {p}")
    total = p * (p - 1) / 4 * math.log(math.pi)
    for j in range(p):
        total = gramme.lgamma(input - j / 2) + total
    return total


# -- Windows


def _cosines(window_length, periodic, weights, dtype, device, requires_grad):
    """The sum of weights[k] * (-1) ** k * cos (2 pi k n / N)."""
    if window_length < 0:
        raise RuntimeError(f"a window has a length, not {window_length}")
    dtype = dtype or get_default_dtype()
    if window_length <= 1:
        return gramme.ones(window_length, dtype=dtype, device=device, requires_grad=requires_grad)
    turn = gramme.arange(window_length, dtype=gramme.float64, device=device) * (
        2 * math.pi / (window_length - (0 if periodic else 1))
    )
    window = gramme.full_like(turn, weights[0])
    for k, weight in enumerate(weights[1:], 1):
        window = window + (turn * k).cos() * (-weight if k % 2 else weight)
    return window.to(dtype).requires_grad_(requires_grad)


def hann_window(window_length, periodic=True, *, dtype=None, device=None, requires_grad=False):
    """sin (pi n / N) ** 2; periodic: N is the length, else one less."""
    return _cosines(window_length, periodic, (0.5, 0.5), dtype, device, requires_grad)


def hamming_window(
    window_length,
    periodic=True,
    alpha=0.54,
    beta=0.46,
    *,
    dtype=None,
    device=None,
    requires_grad=False,
):
    """alpha - beta * cos (2 pi n / N)."""
    return _cosines(window_length, periodic, (alpha, beta), dtype, device, requires_grad)


def blackman_window(window_length, periodic=True, *, dtype=None, device=None, requires_grad=False):
    """0.42 - 0.5 * cos (2 pi n / N) + 0.08 * cos (4 pi n / N)."""
    return _cosines(window_length, periodic, (0.42, 0.5, 0.08), dtype, device, requires_grad)


def bartlett_window(window_length, periodic=True, *, dtype=None, device=None, requires_grad=False):
    """1 - |2 n / N - 1|."""
    if window_length <= 1:
        return _cosines(window_length, periodic, (1.0,), dtype, device, requires_grad)
    n = gramme.arange(window_length, dtype=gramme.float64, device=device) * (
        2 / (window_length - (0 if periodic else 1))
    )
    return (1 - (n - 1).abs()).to(dtype or get_default_dtype()).requires_grad_(requires_grad)


# -- Losses, as the package has them: with a number for the reduction

_REDUCTIONS = ("none", "mean", "sum")


def _loss(name):
    def loss(*args, reduction=1, **kwargs):
        how = _REDUCTIONS[reduction] if isinstance(reduction, int) else reduction
        return getattr(gramme.nn.functional, name)(*args, reduction=how, **kwargs)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = (
        f"nn.functional.{name}, where the reduction may also be 0 (none), 1 (mean) or 2 (sum)."
    )
    return loss


kl_div = _loss("kl_div")
binary_cross_entropy_with_logits = _loss("binary_cross_entropy_with_logits")
cosine_embedding_loss = _loss("cosine_embedding_loss")
hinge_embedding_loss = _loss("hinge_embedding_loss")
margin_ranking_loss = _loss("margin_ranking_loss")

# -- Layers whose arguments the package has in another order than nn.functional


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """nn.functional.embedding(indices, weight), where a padding_idx below 0 is none."""
    padding = padding_idx if padding_idx >= 0 else None
    return gramme.nn.functional.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def batch_norm(
    input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True
):
    """nn.functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum,
    eps)."""
    return gramme.nn.functional.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


def instance_norm(
    input,
    weight,
    bias,
    running_mean,
    running_var,
    use_input_stats,
    momentum,
    eps,
    cudnn_enabled=True,
):
    """nn.functional.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats,
    momentum, eps)."""
    return gramme.nn.functional.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def constant_pad_nd(input, pad, value=0):
    """nn.functional.pad() with a number."""
    return gramme.nn.functional.pad(input, pad, "constant", value)


# -- Questions about devices and modes


def get_device_module(device=None):
    """gramme.cuda or gramme.cpu: of a device or its name; None: of the GPU, if there is one."""
    if device is None:
        return gramme.cuda if gramme.cuda.is_available() else gramme.cpu
    return gramme.cuda if gramme.device(device).type == "cuda" else gramme.cpu


def is_storage(obj):
    """True for what Tensor.storage() and untyped_storage() give."""
    return isinstance(obj, (gramme.TypedStorage, gramme.UntypedStorage))


def is_inference(input):
    """False: tensors of inference_mode() are plain ones."""
    return False


is_conj = is_neg = is_inference


def is_autocast_cpu_enabled():
    """is_autocast_enabled("cpu")."""
    return gramme.is_autocast_enabled("cpu")


def get_autocast_cpu_dtype():
    """get_autocast_dtype("cpu")."""
    return gramme.get_autocast_dtype("cpu")


def get_autocast_gpu_dtype():
    """get_autocast_dtype("cuda")."""
    return gramme.get_autocast_dtype("cuda")


def is_autocast_cache_enabled():
    """False: casts are not kept."""
    return False


def clear_autocast_cache():
    """Nothing: casts are not kept."""
