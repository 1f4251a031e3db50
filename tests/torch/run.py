# SPDX-License-Identifier: Apache-2.0
"""A second opinion: torch's operators beside ours, on torch's own sample inputs.

For each operator that both have under one name: whether a call is an error, results (values within
TOLERANCE, shapes, dtypes, strides), gradients, and the gradients of the compiled function beside
those of functorch's ahead-of-time graph.  What differs on purpose stands in differences.tsv, with
its reason; anything else that differs is a failure.  Never a part of `make check`: torch is not
needed for anything else.  Debian: apt-get install python3-torch.

    python3 tests/torch/run.py [--verbose] [--samples 8] [operator ...]
"""

import argparse
import pathlib
import sys
import types
import unittest
import warnings

HERE = pathlib.Path(__file__).parent
TOLERANCE = {
    "float64": (1e-9, 1e-9),
    "float32": (2e-5, 2e-5),
}  # relative, absolute; everything else is exact
SKIPPED = 77
KINDS = ("error", "shape", "dtype", "strides", "values", "gradient", "joint")


def load_torch():
    try:
        import numpy
        import torch
    except ImportError as error:
        print(
            f"SKIP: no second opinion without torch: {error}; on Debian: apt-get install "
            "python3-torch"
        )
        sys.exit(SKIPPED)
    if "expecttest" not in sys.modules:  # torch's samples import it, and use none of it
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase, stand_in.ACCEPT = unittest.TestCase, False
        sys.modules["expecttest"] = stand_in
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except Exception as error:  # noqa: BLE001
        print(f"SKIP: this torch ({torch.__version__}) has no sample inputs: {error}")
        sys.exit(SKIPPED)
    return numpy, torch, op_db


warnings.simplefilter("ignore")
np, torch, op_db = load_torch()
import gramme as G  # noqa: E402

DTYPES = {getattr(torch, n): getattr(G, n) for n in
          ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
          "bool")}  # fmt: skip
TRIED = (torch.float32, torch.float64, torch.int64, torch.int32)
NAMES = {"nn.functional.pad": None}
RANDOM = {"bernoulli", "normal", "rand_like", "randn_like", "randint_like", "randn", "randint",
"multinomial",
          "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
          "nn.functional.feature_alpha_dropout",
          "nn.functional.alpha_dropout", "nn.functional.rrelu",
          "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
           "nn.functional.gumbel_softmax", "exponential", "geometric", "cauchy", "log_normal",
           "empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided",
           "empty_permuted", "randperm", "uniform",
          "nn.functional.scaled_dot_product_attention"}  # fmt: skip


class Untranslatable(Exception):
    pass


ADAPTED = {  # torch's sample function is a wrapper of the same kind
    "zero_": lambda x: x.clone().zero_(),
    "einsum": lambda operands, equation: G.einsum(equation, *operands),
    "nn.functional.embedding": lambda weight, index, **keywords: G.nn.functional.embedding(
        index, weight, **keywords
    ),
    "nn.functional.embedding_bag": lambda weight, index, *rest, **keywords: G.nn.functional.embedding_bag(
        index, weight, *rest, **keywords
    ),
    "polygamma": lambda x, n: G.polygamma(n, x),
    "special.polygamma": lambda x, n: G.special.polygamma(n, x),
    "__getitem__": lambda x, *index: x[index[0] if len(index) == 1 else index],
}


def ours_of(name):
    """Our function of that name, or None."""
    if name in ADAPTED:
        return ADAPTED[name]
    at = G
    for part in (NAMES.get(name, name) or "").split("."):
        at = getattr(at, part, None)
    if at is None and "." not in name:
        at = getattr(G.Tensor, name, None)
    return at if callable(at) else None


def translate(value):
    """torch's value as ours; tensors keep their strides, in memory of their own."""
    if isinstance(value, torch.Tensor):
        if (
            value.dtype not in DTYPES
            or value.is_sparse
            or value.dim() > 8
            or value.device.type != "cpu"
        ):
            raise Untranslatable(str(value))
        if value.dtype == torch.bfloat16:
            own = G.from_numpy(value.detach().float().numpy()).to(G.bfloat16)
        else:
            storage = value.detach().storage().clone()
            copy = torch.empty(0, dtype=value.dtype).set_(
                storage, value.storage_offset(), value.size(), value.stride()
            )
            own = G.from_numpy(copy.numpy())
        return own.requires_grad_() if value.requires_grad else own
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise Untranslatable(str(value))
        return DTYPES[value]
    if isinstance(value, torch.memory_format) or value is torch.strided:
        return str(value).split(".")[1]
    if isinstance(value, (torch.device, torch.layout)):
        raise Untranslatable(str(value))
    if isinstance(value, (list, tuple)):
        return (
            type(value)(translate(v) for v in value)
            if type(value) in (list, tuple)
            else tuple(translate(v) for v in value)
        )
    if isinstance(value, dict):
        return {k: translate(v) for k, v in value.items()}
    if isinstance(value, complex) or callable(value):
        raise Untranslatable(type(value).__name__)
    return value


def tensors(value, kind):
    if isinstance(value, kind):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v, kind)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v, kind)]
    return []


def numbers(t):
    t = t.detach()
    if isinstance(t, torch.Tensor) and t._is_zerotensor():  # zeros that have no memory
        t = torch.zeros(t.shape, dtype=t.dtype)
    return np.array(
        t.float().tolist() if "bfloat16" in str(t.dtype) else t.tolist(),
        dtype=object if t.numel() == 0 else None,
    )


def near(theirs, ours):
    name = str(theirs.dtype).split(".")[1]
    a, b = numbers(theirs), numbers(ours)
    if a.shape != b.shape:
        return False
    if name not in TOLERANCE:
        return bool((a == b).all()) if a.size else True
    relative, absolute = TOLERANCE[name]
    return a.size == 0 or np.allclose(
        a.astype(float), b.astype(float), rtol=relative, atol=absolute, equal_nan=True
    )


def differences_of(theirs, ours):
    """What two results differ in."""
    a, b = tensors(theirs, torch.Tensor), tensors(ours, G.Tensor)
    if len(a) != len(b):
        return {"shape"}
    found = set()
    for t, o in zip(a, b):
        if tuple(t.shape) != tuple(o.shape):
            found.add("shape")
        elif t.dtype not in DTYPES or DTYPES[t.dtype] != o.dtype:
            found.add("dtype")
        else:
            if tuple(t.stride()) != tuple(o.stride()) and t.numel() > 0:
                found.add("strides")
            if not near(t, o):
                found.add("values")
    return found


def cotangents(outputs):
    """Numbers that are the same on both sides, and no two alike."""
    return [
        (np.arange(t.numel()).reshape(tuple(t.shape)) % 7 * 0.25 + 0.5 + i)
        for i, t in enumerate(outputs)
    ]


def gradients(module, outputs, leaves, weights):
    outputs = [(o, w) for o, w in zip(outputs, weights) if o.requires_grad]
    if not outputs or not leaves:
        return None
    given = [(module.from_numpy(np.ascontiguousarray(w))).to(o.dtype) for o, w in outputs]
    return module.autograd.grad([o for o, _ in outputs], leaves, given, allow_unused=True)


def compare_gradients(theirs, ours):
    if theirs is None or ours is None:
        return theirs is None and ours is None
    for t, o in zip(theirs, ours):  # no gradient and zeros say the same
        if t is None or o is None:
            there = t if o is None else o
            if there is not None and numbers(there).any():
                return False
        elif tuple(t.shape) != tuple(o.shape) or not near(t, o):
            return False
    return True


def call(f, arguments, keywords):
    try:
        return f(*arguments, **keywords), None
    except Untranslatable:
        raise
    except Exception as error:  # noqa: BLE001
        return None, error


def joint_differs(op, f, arguments, keywords, given):
    """The compiled function's gradients beside those of functorch's ahead-of-time graph, for
    positional tensors."""
    from functorch.compile import aot_function, nop

    places = [i for i, a in enumerate(arguments) if isinstance(a, torch.Tensor) and a.requires_grad]
    if not places:
        return None

    def over(function, rest, keys):
        def g(*leaves):
            whole = list(rest)
            for i, t in zip(places, leaves):
                whole[i] = t
            return function(*whole, **keys)

        return g

    own, own_keys = given
    theirs_in, ours_in = [arguments[i] for i in places], [own[i] for i in places]
    try:
        theirs = aot_function(over(op, arguments, keywords), fw_compiler=nop, bw_compiler=nop)(
            *theirs_in
        )
        outputs = tensors(theirs, torch.Tensor)
        weights = cotangents(outputs)
        want = gradients(torch, outputs, theirs_in, weights)
    except Exception:  # noqa: BLE001: functorch of that time cannot trace it
        return None
    ours = G.compile(over(f, own, own_keys), backend="eager")(*ours_in)
    have = gradients(G, tensors(ours, G.Tensor), ours_in, weights)
    return bool(differences_of(theirs, ours) - {"strides"}) or not compare_gradients(want, have)


def try_sample(op, f, sample, joint):
    """The kinds of difference, or None where there is nothing to compare."""
    arguments, keywords = [sample.input, *sample.args], dict(sample.kwargs)
    try:
        own, own_keys = translate(arguments), translate(keywords)
    except Untranslatable:
        return None
    theirs, refused = call(op, arguments, keywords)
    ours, error = call(f, own, own_keys)
    if (refused is None) != (error is None):
        return {"error"}, error or refused
    if refused is not None:
        return set(), None
    found = differences_of(theirs, ours)
    if op.name in RANDOM:
        return found - {"values"}, None
    leaves = [t for t in tensors([arguments, keywords], torch.Tensor) if t.requires_grad]
    own_leaves = [t for t in tensors([own, own_keys], G.Tensor) if t.requires_grad]
    if leaves and not found & {"shape", "dtype"}:
        outputs = tensors(theirs, torch.Tensor)
        weights = cotangents(outputs)
        want, no = call(gradients, (torch, outputs, leaves, weights), {})
        have, bad = call(gradients, (G, tensors(ours, G.Tensor), own_leaves, weights), {})
        if no is None and (bad is not None or not compare_gradients(want, have)):
            return found | {"gradient"}, bad
        if joint and no is None and joint_differs(op, f, arguments, keywords, (own, own_keys)):
            found.add("joint")
    return found, None


def samples_of(op, limit):
    for dtype in TRIED:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        wants = dtype.is_floating_point and op.supports_autograd
        try:
            for k, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=wants)):
                if k >= limit:
                    break
                yield dtype, sample, wants and k < 4 and dtype == torch.float64
        except Exception:  # noqa: BLE001: samples that this build cannot make
            continue
    if op.error_inputs_func:
        for k, wrong in enumerate(op.error_inputs("cpu")):
            if k >= limit:
                break
            yield None, wrong.sample_input, False


def read_table():
    rows = {}
    for line in (HERE / "differences.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            name, kind, reason = line.split("\t")
            assert kind in KINDS and reason, line
            rows[name, kind] = reason
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    known, used, failed, compared, rows = read_table(), set(), 0, 0, []
    for op in op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        f = ours_of(op.name)
        if f is None or (options.operators and name not in options.operators):
            continue
        count, agree, why, wrong = 0, 0, {}, {}
        for dtype, sample, joint in samples_of(op, options.samples):
            torch.manual_seed(0)
            result = try_sample(op, f, sample, joint)
            if result is None:
                continue
            count += 1
            unknown = set()
            for kind in result[0]:
                if (name, kind) in known:
                    used.add((name, kind))
                    why[kind] = why.get(kind, 0) + 1
                else:
                    unknown.add(kind)
                    wrong[kind] = wrong.get(kind, 0) + 1
            agree += not result[0]
            if unknown and options.verbose:
                print(f"{name} {dtype}: {sorted(unknown)}: {str(result[1])[:110]} | {sample}"[:420])
        if count:
            compared += 1
            failed += bool(wrong)
            rows.append((name, count, agree, count - agree, wrong, why))
    print(f"{'operator':44} {'samples':>7} {'agree':>6} {'differ':>6}")
    for name, count, agree, differ, wrong, why in rows:
        text = " ".join(
            [f"{k}={n}" for k, n in wrong.items()]
            + [f"({k}={n}: {known[name, k]})" for k, n in why.items()]
        )
        print(f"{name:44} {count:7} {agree:6} {differ:6}  {'FAIL ' if wrong else ''}{text}")
    total, same = sum(r[1] for r in rows), sum(r[2] for r in rows)
    print(
        f"{compared} operators, {total} samples, {same} agree, {total - same} differ; {failed} "
        "operators differ without a reason"
        f" in {HERE.name}/differences.tsv (torch {torch.__version__})"
    )
    for name, kind in sorted(set(known) - used):
        if not options.operators:
            print(f"differences.tsv: {name} {kind} differs no more: take the row out")
            failed += 1
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
