"""Names of nvFuser's that have no meaning here, and what to do instead.

Those of DataTypes are in `ir/dtypes.py`, those of `fd.fusion` in `ir/fusion.py`.
"""

from __future__ import annotations

from fuser.ir.fusion import LEFT_OUT

_SCHEDULES = "schedules are fuser's own; fd.plan(inputs) shows what is run"
_CACHE = "fuser.LruFusionCache makes equal definitions one, and kernels are kept on disk anyway"
_DEVICES = "a fusion runs on one device"
_STATEMENTS = "str(fd) has the statements that make and read it"
_PROFILES = "fuser.PythonProfiler and fd.profile(inputs) time the steps of an execution"

MEMBERS = {
    "Ops": "operations are called on fd.ops",
    "add_input": "fd.define_tensor and fd.define_scalar declare the next input",
    "extents": "fd.inputs() are handles, and their size(dim) is a scalar to compute with",
    "getReproString": "fd.repro_script_for(inputs) is the script",
    "getValTolerances": "fuser.get_val_tolerances(fd.fusion, inputs) tells them",
    "define": "a definition is described in the block of `with FusionDefinition(fs) as fd:`",
    "defined": "fd.validate_definition() tells whether it can be executed, and if not, why",
    "ke": _SCHEDULES,
    "manual_execute": _SCHEDULES,
    "manual_validate": _SCHEDULES,
    "print": LEFT_OUT["print"],
    "print_ir": LEFT_OUT["print"],
    "print_kernel": LEFT_OUT["print_kernel"],
    "print_math": LEFT_OUT["print_math"],
    "sched": _SCHEDULES,
    "schedule": _SCHEDULES,
    "segment": "fd.plan(inputs) has the kernels, and why there is more than one",
}
"""Of a definition, and of the Fusion that it fills."""

EXECUTOR_CACHE = {"get_output_shardings": _DEVICES}
"""Of `fd.fec`."""

HANDLES = dict.fromkeys(
    (
        "axis",
        "cache_after",
        "cache_before",
        "cache_fork",
        "domain",
        "get_allocation_domain",
        "get_logical_domain",
        "get_loop_domain",
        "get_maybe_allocation_domain",
        "get_maybe_root_domain",
        "get_root_domain",
        "has_root",
        "inline_at",
        "inner_split",
        "merge",
        "num_loop_dims",
        "outer_split",
        "reorder",
        "rfactor",
        "set_allocation_domain",
        "set_loop_domain",
        "set_memory_type",
        "split",
        "swizzle",
    ),
    _SCHEDULES,
) | {
    "definition": _STATEMENTS,
    "has_device_mesh": _DEVICES,
    "set_device_mesh": _DEVICES,
    "uses": _STATEMENTS,
}
"""Of what a definition's operations return."""

OPERATIONS = {
    "nv_block_quantize_to_nvfp4": "it is called nv_block_quantize",
}
"""Of `fd.ops`."""

NAMES = {
    **dict.fromkeys(("BroadcastOp", "Merge", "ReshapeOp", "Split", "SqueezeOp"), _SCHEDULES),
    **dict.fromkeys(("CompileParams", "KernelExecutor"), _SCHEDULES),
    **dict.fromkeys(("MatmulParams", "PointwiseParams", "ReductionParams"), _SCHEDULES),
    **dict.fromkeys(("HeuristicParams", "IterDomain", "TensorDomain"), _SCHEDULES),
    **dict.fromkeys(("FusionProfile", "KernelProfile"), _PROFILES),
    "CacheOp": _SCHEDULES,
    "CommunicatorBackend": _DEVICES,
    "DeviceMesh": _DEVICES,
    "FusionCache": _CACHE,
    "FusionExecutorCache": "fd.fec is that of a definition",
    "FusionManager": "a definition is executed by fd.execute(inputs)",
    "IdMappingMode": _SCHEDULES,
    "LoadStoreOpType": _SCHEDULES,
    "MemoryType": _SCHEDULES,
    "ParallelType": _SCHEDULES,
    "SchedulerType": _SCHEDULES,
    "Vector": "shapes are lists of numbers and scalars, and so is what fd.define_vector returns",
    "_C": "fuser is in Python: its classes are fuser.Tensor and fuser.Scalar",
    "disable_automatic_serialization": _CACHE,
    "enable_automatic_serialization": _CACHE,
    "execute_with_dtensors": _DEVICES,
    "get_fusion_profile": _PROFILES,
    "idm": _SCHEDULES,
    "multidevice": _DEVICES,
    "nvf_cutlass": "fd.ops.scaled_mm and fd.ops.cutlass_nvfp4_grouped_mm multiply 4-bit floats",
    "ops": "operations are called on a definition, as fd.ops.add",
    "reset_profiler": _PROFILES,
    "serialize": _CACHE,
    "validate_with_auto_inferred_outputs": "fd.validate(inputs) compares with what torch computes",
}
"""Of the module."""
