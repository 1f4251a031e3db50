# SPDX-License-Identifier: Apache-2.0
"""Names of torch's that gramme does not have, and a sentence for each that says what to do instead.

Programs import such names at their top and use them in a corner, or never.  So the names are there:
a function of the table raises NotImplementedError when it is called, a class when an object is made
of it (nothing is an instance of it, and it may be a base class), and a module has what the table
says of it and nothing else.  Every other missing name is an AttributeError that says which names
are near.

Invariant: nothing of the table computes anything.  A name that does is in a file of its own.
"""

import importlib
import importlib.machinery
import sys
import types

_COMPLEX = (
    "there are no complex tensors: keep real and imaginary part as two tensors, or in a last "
    "dimension of size 2"
)
_FOURIER = (
    "there are no complex tensors, which it takes or returns: use numpy.fft on x.numpy(), or for a "
    "gradient multiply by matrices of "
    "cosines and sines"
)
_SPARSE = (
    "tensors are dense: keep indices and values as two tensors, for index_add(), scatter_add() and "
    "embedding()"
)
_NESTED = (
    "the rows of a tensor are equally long: pad them with nn.utils.rnn.pad_sequence() and mask "
    "what was added"
)
_SCRIPT = (
    "functions and modules are not translated into a language of their own: gramme.compile() "
    "compiles them as they are"
)
_STORED_SCRIPT = (
    "there are no scripted modules to store or read: keep the state_dict() with gramme.save()"
)
_EXPORT = (
    "graphs are got from gramme.compile(backend=f), which calls f(graph, example_inputs), or from "
    "gramme.compiler.explain()"
)
_ONNX = (
    "models are not written as ONNX: keep the state_dict() with gramme.save(), a safetensors file, "
    "and convert where torch is"
)
_HUB = (
    "nothing is downloaded: fetch the file yourself, convert it to safetensors where torch is, and "
    "read it with gramme.load()"
)
_PROCESSES = (
    "gramme works in one process on one device: ask distributed.is_available(), which is False, "
    "before"
)
_SHARDED = "models are in one piece, in one process on one device: leave the module as it is"
_CHECKPOINT = (
    "checkpoints are of one process: use state_dict() and load_state_dict() with gramme.save() and "
    "gramme.load()"
)
_PROFILER = (
    "operators are not timed: use Python's cProfile, gramme.compiler.explain(), perf, or GPU "
    "events of gramme.cuda"
)
_GRAPHED = (
    "launches are not recorded: compile the function for the back end nvrtc, which launches few "
    "kernels"
)
_TRACER = (
    "functions are not run on proxies: gramme.compile(backend=f) gives f a graph, which gramme.fx "
    "edits"
)
_OPERATORS = (
    "operators have no overloads or namespaces: they are functions, gramme.add, "
    "gramme.nn.functional.linear"
)
_LIBRARY = (
    "operators are Python functions, without schemas and dispatch keys: library.custom_op() makes "
    "one"
)
_DUAL = (
    "numbers carry no tangents: gramme.func.jvp(f, primals, tangents) computes derivatives along "
    "them"
)
_FLEX = (
    "scores are not modified by functions: make the mask or bias a tensor, attn_mask of "
    "nn.functional.scaled_dot_product_attention()"
)
_SOBOL = "there are no quasi-random sequences: use scipy.stats.qmc.Sobol and gramme.from_numpy()"
_EIGEN = (
    "the eigenvalues of a matrix that is not symmetric are complex, and there are no complex "
    "tensors: use eigh(), eigvalsh(), or numpy"
)
_INDUCTOR = (
    "options of gramme's back ends are given to gramme.compile(options=...), `gramme inspect` "
    "lists them"
)
_SOURCES = (
    "no C++ is compiled into the process: call a shared library through ctypes with x.data_ptr(), "
    "or write a back end"
)
_SHARED = "memory is not shared between processes: threads share tensors as they are"
_BOARD = (
    "nothing is drawn, timed or logged here: use the tool's own package, Python's timeit, "
    "cProfile, or `gramme bench`"
)
_DISPATCH = (
    "tensor subclasses take part by __torch_function__, gramme.overrides.TorchFunctionMode: "
    "nothing is called below it"
)
_QUANTIZED = (
    "there are no quantized tensors or layers: use float16 or bfloat16, or keep integers and their "
    "scale as two tensors"
)
_MASKED = "no tensor carries a mask: use gramme.where(), masked_fill() and a mask beside it"
_FAMILY = (
    "this distribution is not written: write it with tensors, as a subclass of "
    "distributions.Distribution"
)
_SELECTIVE = (
    "all intermediate results of a checkpoint are computed again: choose by what is inside of the "
    "function"
)
_FUNCTIONAL = (
    "gramme.compile() makes values of writes by itself, and its back ends get graphs without writes"
)
_ROWS = (
    # what it is, why there is none and what to do, the names
    ("function", _COMPLEX, "complex view_as_complex view_as_real polar"),
    ("function", _FOURIER, (
        "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fft2 fft.ifft2 fft.rfft2 "
        "fft.irfft2 fft.fftn fft.ifftn"
    )),
    ("function", _FOURIER, (
        "fft.rfftn fft.irfftn fft.hfft2 fft.ihfft2 fft.hfftn fft.ihfftn stft istft"
    )),
    ("function", _SPARSE, (
        "sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor "
        "sparse_compressed_tensor"
    )),
    ("module", _SPARSE, "sparse"),
    ("function", _SPARSE, (
        "sparse.mm sparse.sum sparse.addmm sparse.softmax sparse.log_softmax sparse.spdiags "
        "sparse.sampled_addmm"
    )),
    ("class", _SPARSE, "nn.parameter.SparseTensor sparse.FloatTensor"),
    ("module", _NESTED, "nested"),
    ("function", _NESTED, (
        "nested.nested_tensor nested.as_nested_tensor nested.nested_tensor_from_jagged "
        "nested.to_padded_tensor nested.narrow"
    )),
    ("function", _SCRIPT, (
        "jit.fork jit.wait jit.freeze jit.optimize_for_inference jit.create_script_dict "
        "jit.create_script_list"
    )),
    ("function", _STORED_SCRIPT, "jit.save jit.load"),
    ("module", _EXPORT, "export"),
    ("function", _EXPORT, (
        "export.export export.save export.load export.register_dataclass export.unflatten"
    )),
    ("class", _EXPORT, (
        "export.Dim export.ExportedProgram export.ShapesCollection export.ExportGraphSignature"
    )),
    ("function", _ONNX, "onnx.load onnx.verify onnx.select_model_mode_for_export"),
    ("function", _ONNX, (
        "onnx.export onnx.register_custom_op_symbolic onnx.unregister_custom_op_symbolic "
        "onnx.dynamo_export onnx.symbolic_helper"
    )),
    ("class", _ONNX, (
        "onnx.ONNXProgram onnx.ExportOptions onnx.OperatorExportTypes onnx.TrainingMode "
        "onnx.OnnxExporterError"
    )),
    ("module", _HUB, "hub"),
    ("function", _HUB, (
        "hub.load hub.load_state_dict_from_url hub.download_url_to_file hub.list hub.help "
        "hub.get_dir hub.set_dir"
    )),
    ("function", _PROCESSES, (
        "distributed.init_process_group distributed.new_group distributed.new_subgroups "
        "distributed.split_group"
    )),
    ("module", _PROCESSES, (
        "distributed.device_mesh distributed.nn distributed.nn.functional distributed.rpc "
        "distributed.elastic distributed.optim"
    )),
    ("function", _PROCESSES, (
        "distributed.device_mesh.init_device_mesh distributed.nn.functional.all_gather "
        "distributed.nn.functional.all_reduce"
    )),
    ("function", _PROCESSES, (
        "distributed.nn.functional.reduce_scatter distributed.nn.all_gather "
        "distributed.nn.all_reduce"
    )),
    ("class", _PROCESSES, (
        "distributed.device_mesh.DeviceMesh distributed.DeviceMesh distributed.TCPStore "
        "distributed.FileStore distributed.Store"
    )),
    ("class", _PROCESSES, (
        "distributed.HashStore distributed.PrefixStore distributed.ProcessGroupGloo "
        "distributed.ProcessGroupNCCL distributed.Work"
    )),
    ("class", _PROCESSES, "distributed.P2POp distributed.optim.ZeroRedundancyOptimizer"),
    ("module", _SHARDED, (
        "distributed.tensor distributed._tensor distributed.tensor.parallel distributed.fsdp "
        "distributed.fsdp.sharded_grad_scaler"
    )),
    ("module", _SHARDED, (
        "distributed.fsdp.fully_sharded_data_parallel distributed.fsdp.wrap "
        "distributed._composable distributed._composable.fsdp"
    )),
    ("module", _SHARDED, (
        "distributed.algorithms distributed.algorithms._checkpoint "
        "distributed.algorithms._checkpoint.checkpoint_wrapper"
    )),
    ("module", _SHARDED, (
        "distributed.algorithms.ddp_comm_hooks distributed.algorithms.ddp_comm_hooks.default_hooks "
        "distributed.algorithms.join"
    )),
    ("class", _SHARDED, (
        "distributed.tensor.DTensor distributed._tensor.DTensor distributed.tensor.Shard "
        "distributed.tensor.Replicate"
    )),
    ("class", _SHARDED, (
        "distributed.tensor.Partial distributed.tensor.Placement distributed._tensor.Shard "
        "distributed._tensor.Replicate"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.FullyShardedDataParallel distributed.fsdp.FSDPModule "
        "distributed.fsdp.MixedPrecision"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.MixedPrecisionPolicy distributed.fsdp.CPUOffload "
        "distributed.fsdp.CPUOffloadPolicy"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.ShardingStrategy distributed.fsdp.BackwardPrefetch "
        "distributed.fsdp.StateDictType"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.FullStateDictConfig distributed.fsdp.ShardedStateDictConfig "
        "distributed.fsdp.OffloadPolicy"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.FullOptimStateDictConfig distributed.fsdp.ShardedOptimStateDictConfig"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.sharded_grad_scaler.ShardedGradScaler "
        "distributed.fsdp.wrap.ModuleWrapPolicy"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel "
        "distributed.fsdp.wrap.CustomPolicy"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.fully_sharded_data_parallel.ShardingStrategy "
        "distributed.fsdp.fully_sharded_data_parallel.CPUOffload"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.fully_sharded_data_parallel.MixedPrecision "
        "distributed.fsdp.fully_sharded_data_parallel.StateDictType"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.fully_sharded_data_parallel.BackwardPrefetch "
        "distributed.algorithms.join.Join"
    )),
    ("class", _SHARDED, (
        "distributed.fsdp.fully_sharded_data_parallel.FullStateDictConfig "
        "distributed.algorithms.join.Joinable"
    )),
    ("class", _SHARDED, "distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper"),
    ("class", _SHARDED, "distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointImpl"),
    ("function", _SHARDED, (
        "distributed.fsdp.fully_shard distributed._composable.fsdp.fully_shard "
        "distributed.tensor.distribute_tensor"
    )),
    ("function", _SHARDED, (
        "distributed.tensor.distribute_module distributed.tensor.parallel.parallelize_module "
        "distributed.fsdp.wrap.wrap"
    )),
    ("function", _SHARDED, (
        "distributed.fsdp.wrap.transformer_auto_wrap_policy "
        "distributed.fsdp.wrap.size_based_auto_wrap_policy"
    )),
    ("function", _SHARDED, (
        "distributed.fsdp.wrap.lambda_auto_wrap_policy distributed.fsdp.wrap.enable_wrap "
        "distributed.fsdp.wrap._or_policy"
    )),
    ("function", _SHARDED, "distributed.algorithms._checkpoint.checkpoint_wrapper.checkpoint_wrapper"),
    ("function", _SHARDED, "distributed.algorithms._checkpoint.checkpoint_wrapper.apply_activation_checkpointing"),
    ("class", _SHARDED, (
        "distributed.tensor.parallel.ColwiseParallel distributed.tensor.parallel.RowwiseParallel"
    )),
    ("class", _SHARDED, (
        "distributed.tensor.parallel.SequenceParallel "
        "distributed.tensor.parallel.PrepareModuleInput"
    )),
    ("class", _SHARDED, (
        "distributed.tensor.parallel.ParallelStyle distributed.tensor.parallel.PrepareModuleOutput"
    )),
    ("module", _CHECKPOINT, (
        "distributed.checkpoint distributed.checkpoint.state_dict distributed.checkpoint.stateful"
    )),
    ("module", _CHECKPOINT, (
        "distributed.checkpoint.default_planner distributed.checkpoint.format_utils "
        "distributed.checkpoint.filesystem"
    )),
    ("function", _CHECKPOINT, (
        "distributed.checkpoint.save distributed.checkpoint.load distributed.checkpoint.async_save"
    )),
    ("function", _CHECKPOINT, (
        "distributed.checkpoint.save_state_dict distributed.checkpoint.load_state_dict"
    )),
    ("function", _CHECKPOINT, (
        "distributed.checkpoint.state_dict.get_model_state_dict "
        "distributed.checkpoint.state_dict.set_model_state_dict"
    )),
    ("function", _CHECKPOINT, (
        "distributed.checkpoint.state_dict.get_optimizer_state_dict "
        "distributed.checkpoint.state_dict.set_optimizer_state_dict"
    )),
    ("function", _CHECKPOINT, (
        "distributed.checkpoint.state_dict.get_state_dict "
        "distributed.checkpoint.state_dict.set_state_dict"
    )),
    ("function", _CHECKPOINT, (
        "distributed.checkpoint.format_utils.dcp_to_torch_save "
        "distributed.checkpoint.format_utils.torch_save_to_dcp"
    )),
    ("class", _CHECKPOINT, (
        "distributed.checkpoint.state_dict.StateDictOptions "
        "distributed.checkpoint.stateful.Stateful"
    )),
    ("class", _CHECKPOINT, (
        "distributed.checkpoint.FileSystemReader distributed.checkpoint.FileSystemWriter "
        "distributed.checkpoint.StorageReader"
    )),
    ("class", _CHECKPOINT, (
        "distributed.checkpoint.default_planner.DefaultLoadPlanner "
        "distributed.checkpoint.default_planner.DefaultSavePlanner"
    )),
    ("class", _CHECKPOINT, (
        "distributed.checkpoint.filesystem.FileSystemReader "
        "distributed.checkpoint.filesystem.FileSystemWriter"
    )),
    ("class", _PROFILER, (
        "profiler.profile profiler.ExecutionTraceObserver autograd.profiler.profile "
        "autograd.profiler.emit_nvtx"
    )),
    ("function", _PROFILER, "profiler.tensorboard_trace_handler"),
    ("class", _GRAPHED, "cuda.CUDAGraph cuda.graph"),
    ("function", _GRAPHED, "cuda.make_graphed_callables cuda.graph_pool_handle"),
    ("class", _TRACER, (
        "fx.Tracer fx.Proxy fx.proxy.Proxy fx.proxy.GraphAppendingTracer fx.proxy.TracerBase "
        "fx.proxy.Tracer fx.Transformer"
    )),
    ("function", _TRACER, "fx.replace_pattern"),
    ("module", _TRACER, "fx.proxy"),
    ("module", _OPERATORS, "ops.aten ops.prims"),
    ("function", _LIBRARY, (
        "library.impl library.define library.impl_abstract library.register_vmap "
        "library.register_torch_dispatch"
    )),
    ("function", _LIBRARY, (
        "library.opcheck library.infer_schema library.triton_op library.wrap_triton "
        "library.register_autocast"
    )),
    ("class", _LIBRARY, "library.Library"),
    ("module", _DUAL, "autograd.forward_ad"),
    ("function", _DUAL, (
        "autograd.forward_ad.make_dual autograd.forward_ad.unpack_dual "
        "autograd.forward_ad.enter_dual_level"
    )),
    ("function", _DUAL, "autograd.forward_ad.exit_dual_level"),
    ("class", _DUAL, "autograd.forward_ad.dual_level autograd.forward_ad.UnpackedDualTensor"),
    ("module", _FLEX, "nn.attention.flex_attention"),
    ("function", _FLEX, (
        "nn.attention.flex_attention.flex_attention nn.attention.flex_attention.create_block_mask"
    )),
    ("function", _FLEX, (
        "nn.attention.flex_attention.create_mask nn.attention.flex_attention.and_masks "
        "nn.attention.flex_attention.or_masks"
    )),
    ("class", _FLEX, "nn.attention.flex_attention.BlockMask"),
    ("module", _SOBOL, "quasirandom"),
    ("class", _SOBOL, "quasirandom.SobolEngine"),
    ("class", (
        "numbers of a compiled function are Python's own: ask for float and bool"
    ), "SymFloat SymBool"),
    ("function", _EIGEN, "linalg.eig linalg.eigvals"),
    ("module", _INDUCTOR, "_inductor _inductor.config"),
    ("module", _SOURCES, "utils.cpp_extension"),
    ("module", _BOARD, (
        "utils.tensorboard utils.benchmark utils.bottleneck utils.flop_counter cuda.nvtx "
        "utils.collect_env"
    )),
    ("class", _BOARD, (
        "utils.tensorboard.SummaryWriter utils.benchmark.Timer utils.benchmark.Compare "
        "utils.flop_counter.FlopCounterMode"
    )),
    ("function", _BOARD, (
        "cuda.nvtx.range_push cuda.nvtx.range_pop cuda.nvtx.mark cuda.nvtx.range "
        "utils.collect_env.get_pretty_env_info"
    )),
    ("module", _HUB, "utils.model_zoo"),
    ("function", _HUB, "utils.model_zoo.load_url"),
    ("module", _DISPATCH, "utils._python_dispatch"),
    ("class", _DISPATCH, "utils._python_dispatch.TorchDispatchMode"),
    ("function", _DISPATCH, "utils._python_dispatch.transform_subclass"),
    ("module", _QUANTIZED, (
        "quantization ao ao.quantization ao.nn nn.quantized nn.intrinsic nn.qat ao.nn.quantized"
    )),
    ("function", _QUANTIZED, (
        "quantization.quantize_dynamic quantization.prepare quantization.convert "
        "quantization.prepare_qat quantization.fuse_modules"
    )),
    ("function", _QUANTIZED, (
        "ao.quantization.quantize_dynamic ao.quantization.prepare ao.quantization.convert "
        "ao.quantization.prepare_qat"
    )),
    ("function", _QUANTIZED, (
        "quantize_per_tensor quantize_per_channel fake_quantize_per_tensor_affine "
        "fake_quantize_per_channel_affine"
    )),
    ("class", _QUANTIZED, (
        "quantization.QuantStub quantization.DeQuantStub ao.quantization.QuantStub "
        "ao.quantization.DeQuantStub"
    )),
    ("module", _MASKED, "masked"),
    ("function", _MASKED, "masked.masked_tensor masked.as_masked_tensor"),
    ("class", _MASKED, "masked.MaskedTensor"),
    ("class", _FAMILY, (
        "distributions.LKJCholesky distributions.Wishart distributions.ContinuousBernoulli "
        "distributions.GeneralizedPareto"
    )),
    ("class", _FAMILY, "distributions.ExponentialFamily distributions.CorrCholeskyTransform"),
    ("function", _SELECTIVE, (
        "utils.checkpoint.create_selective_checkpoint_contexts "
        "utils.checkpoint.set_checkpoint_early_stop"
    )),
    ("class", _SELECTIVE, "utils.checkpoint.CheckpointPolicy utils.checkpoint.CheckpointFunction"),
    ("class", _SPARSE, "optim.SparseAdam"),
    ("function", _FUNCTIONAL, "func.functionalize"),
    ("function", _EIGEN, "lobpcg"),
    ("function", _SOURCES, (
        "utils.cpp_extension.load utils.cpp_extension.load_inline utils.cpp_extension.include_paths"
    )),
    ("class", _SOURCES, (
        "utils.cpp_extension.CppExtension utils.cpp_extension.CUDAExtension "
        "utils.cpp_extension.BuildExtension"
    )),
    ("function", _SHARED, "multiprocessing.set_sharing_strategy"),
)  # fmt: skip


class _Near:
    """The text of an AttributeError, made when it is read: hasattr() is asked often, and does not
    read it."""

    __slots__ = ("module", "name", "files")

    def __init__(self, module, name, files):
        self.module, self.name, self.files = module, name, files

    def __str__(self):
        import difflib

        known = [
            name
            for name in (*dir(sys.modules[self.module]), *self.files)
            if not name.startswith("_") or self.name.startswith("_")
        ]
        near = difflib.get_close_matches(self.name, known, 3)
        hint = f"; did you mean {' or '.join([repr(name) for name in near])}?" if near else ""
        return f"module {self.module!r} has no attribute {self.name!r}{hint}"

    __repr__ = __str__

    def __reduce__(self):
        return str, (str(self),)


def _function(name, why):
    def refused(*args, **kwargs):
        raise NotImplementedError(f"gramme has no {name}: {why}")

    module, _, refused.__name__ = f"gramme.{name}".rpartition(".")
    refused.__qualname__, refused.__module__, refused.__doc__ = (
        refused.__name__,
        module,
        f"NotImplementedError: {why}.",
    )
    return refused


def _class(name, why):
    def new(cls, *args, **kwargs):
        raise NotImplementedError(f"gramme has no {name}: {why}")

    module, _, last = f"gramme.{name}".rpartition(".")
    return _Absent(
        last,
        (),
        {
            "__new__": new,
            "__module__": module,
            "__doc__": f"NotImplementedError: {why}.",
            "_absent": (name, why),
        },
    )


class _Absent(type):
    """The type of the table's classes: their class methods and constants are refused, too."""

    def __getattr__(cls, name):
        said = cls.__dict__.get("_absent")
        if said is None or name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return _function(f"{said[0]}.{name}", said[1])


class _Module(types.ModuleType):
    """A module of the table."""

    @property
    def __spec__(self):
        return importlib.machinery.ModuleSpec(self.__name__, None, is_package=True)

    def __getattr__(self, name):
        return find(self.__name__, name)

    def __setattr__(self, name, value):
        if not name.startswith("__") and f"{self.__name__}.{name}".partition(".")[2] not in TABLE:
            raise AttributeError(
                f"gramme has no {self.__name__.partition('.')[2]}, so that {name} could be set: "
                f"{self.__dict__['_why']}"
            )
        super().__setattr__(name, value)


def _module(name, why):
    made = _Module("gramme." + name, f"Nothing is here: {why}.")
    made.__dict__.update(_why=why, __path__=[], __package__=made.__name__)
    return sys.modules.setdefault(made.__name__, made)


_MAKERS = {"function": _function, "class": _class, "module": _module}
TABLE = {name: (_MAKERS[kind], why) for kind, why, names in _ROWS for name in names.split()}


def find(module, name, files=()):
    """The attribute of one of gramme's modules that is not there: a file among `files` is imported,
    a name of the table is made.

    Made is it once: it stays in the module.  Errors: AttributeError, which says what is near, for
    any other name.
    """
    if name in files:
        return importlib.import_module(f"{module}.{name}")
    inner = f"{module}.{name}".partition(".")[2]
    if inner not in TABLE:
        here = vars(sys.modules[module])
        if "_why" in here and not name.startswith("__"):
            raise AttributeError(f"gramme has no {inner}: {here['_why']}")
        raise AttributeError(_Near(module, name, files))
    maker, why = TABLE[inner]
    return vars(sys.modules[module]).setdefault(name, maker(inner, why))


for _name, (_maker, _why) in TABLE.items():
    if _maker is _module:  # so that `import gramme.onnx` finds it
        _module(_name, _why)
del _name, _maker, _why
