"""What FUSER_DUMP asks to be printed, FUSER_CHECK to be checked, and what is switched on or off.

FUSER_DUMP holds a comma list of the names in `DUMPS`. NVFUSER_DUMP and PYTORCH_NVFUSER_DUMP are
read too; there, names that only nvFuser has are skipped with a warning. FUSER_CHECK holds a comma
list of the names in `CHECKS`. FUSER_CACHE, FUSER_STRICT and FUSER_VERIFY are switches: words in
`ON` and `OFF`, which mean nothing asked for in a list, too. FUSER_POOL_MIB is a number.
"""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType

from fuser.errors import (
    CheckOptionError,
    DumpFileError,
    DumpOptionError,
    PoolSizeError,
    SwitchError,
)
from fuser.warned import warn_user

DUMPS: Mapping[str, str] = MappingProxyType(
    {
        "python_definition": "each finished definition, as an executable Python function",
        "fusion_ir_original": "the fusion as it was defined",
        "fusion_ir_concretized": "the fusion for the sizes at hand",
        "pre_segmenter_logging": "the fusion after every pass that changes it",
        "fusion_ir_preseg": "the fusion after the last pass, before segmentation",
        "segmenter_logging": "bookends, each merge with its profit, each refusal with its reason",
        "segmented_fusion": "the segments in execution order, as `plan` shows them",
        "draw_segmented_fusion": "writes segmented_fusion_<n>.svg, or .dot if too large to draw",
        "fusion_ir": "each segment's operations as they are scheduled",
        "scheduler_params": "each kernel's mapping and launch, then the constants that decide them",
        "kernel_ir": "each segment's loop nest, before it is spelled in a language",
        "cuda_kernel": "each generated CUDA kernel; for CPU tensors, what CUDA ones would get",
        "cuda_full": "each generated CUDA kernel with its device library",
        "cuda_to_file": "writes __tmp_kernel<n>_<kernel>.cu for each generated CUDA kernel",
        "cpu_kernel": "each generated C++ kernel of the CPU target",
        "compile_params": "the options each kernel is compiled with",
        "ptxas_verbose": "registers, spills and shared memory of each compiled CUDA kernel",
        "sass": "the machine code of each compiled CUDA kernel",
        "index_type": "int32 or int64 indexing, for each kernel",
        "launch_param": "grid and block of each kernel, or whether it runs on several threads",
        "kernel_args": "what each kernel is called with: buffers, scalars and the plan's sizes",
        "fusion_args": "dtype, sizes, strides and device of the inputs a plan is made for",
    }
)
"""Each dump's name, which is nvFuser's where nvFuser has it, and what it prints."""

CHECKS: Mapping[str, str] = MappingProxyType(
    {"index": "an index out of range raises on CUDA too; every such kernel is then waited for"}
)
"""What FUSER_CHECK may name, and what is checked then."""

_NVFUSER_ONLY = frozenset(
    {
        "bank_conflict",
        "buffer_reuse_verbose",
        "ca_map",
        "communication",
        "cubin",
        "cutlass_compile",
        "debug_info",
        "dump_eff_bandwidth",
        "dynamic_shared_memory",
        "expr_simplify",
        "expr_sort",
        "expr_sort_verbose",
        "ftrace",
        "fusion_ir_graph",
        "fusion_ir_math",
        "fusion_ir_presched",
        "global_zeroed_memory",
        "halo",
        "host_ir",
        "host_ir_jit",
        "host_ir_lowering",
        "indexing_verbose",
        "inline_propagator",
        "inlining",
        "lower_verbose",
        "occupancy",
        "parallel_dimensions",
        "perf_debug_verbose",
        "predicate_elimination",
        "ptx",
        "python_definition_segments",
        "python_frontend_debug",
        "sass_to_file",
        "scheduler_verbose",
        "sync_map",
        "transform_propagator",
    }
)
_VARIABLE = "FUSER_DUMP"
_POOL_VARIABLE = "FUSER_POOL_MIB"
_NVFUSER_VARIABLES = ("NVFUSER_DUMP", "PYTORCH_NVFUSER_DUMP")

SWITCHES = ("FUSER_CACHE", "FUSER_STRICT", "FUSER_VERIFY")

ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
"""What switches a variable of the environment on, and off, in small letters or large."""


def parse(environment: Mapping[str, str]) -> frozenset[str]:
    """The dumps an environment asks for. Raises DumpOptionError for a name nobody knows."""
    chosen = set[str]()
    for variable in (_VARIABLE, *_NVFUSER_VARIABLES):
        for name in _names(environment.get(variable, "")):
            if name in DUMPS:
                chosen.add(name)
            elif name in _NVFUSER_ONLY and variable != _VARIABLE:
                warn_user(f"{variable}: fuser has no dump {name!r}; skipped", UserWarning)
            else:
                raise DumpOptionError(variable=variable, name=name, valid=", ".join(sorted(DUMPS)))
    return frozenset(chosen)


def parse_checks(environment: Mapping[str, str]) -> frozenset[str]:
    """The checks an environment asks for. Raises CheckOptionError for a name nobody knows."""
    chosen = _names(environment.get("FUSER_CHECK", ""))
    for name in chosen:
        if name not in CHECKS:
            raise CheckOptionError(name=name, valid=", ".join(sorted(CHECKS)))
    return frozenset(chosen)


def check() -> None:
    """Raises DumpOptionError, CheckOptionError, PoolSizeError, or SwitchError for a word of the
    environment that means nothing, also if nothing at hand would read it."""
    _chosen()
    _checks()
    pool_bytes()
    for variable in SWITCHES:
        switched(variable, default=False)


def reload() -> None:
    """Read the environment again at the next question."""
    _chosen.cache_clear()
    _checks.cache_clear()
    pool_bytes.cache_clear()


def checking(name: str) -> bool:
    """Whether the check is asked for. The environment is read at the first question only."""
    assert name in CHECKS, name
    return name in _checks()


def enabled(name: str) -> bool:
    """Whether the dump is asked for. The environment is read at the first question only."""
    assert name in DUMPS, name
    return name in _chosen()


def dump(name: str, title: str, text: str | Callable[[], str]) -> None:
    """Print `text` under `title` if the dump is asked for; a callable is called only then."""
    if not enabled(name):
        return
    body = text if isinstance(text, str) else text()
    print(f"=== {name}: {title}\n{body.rstrip()}\n", file=_CAPTURED.get(), flush=True)


_CAPTURED: ContextVar[io.StringIO | None] = ContextVar("_CAPTURED", default=None)


@contextmanager
def captured() -> Generator[io.StringIO]:
    """What this thread, and what it has others do, prints of dumps in the block, instead of
    printing it."""
    printed = io.StringIO()
    token = _CAPTURED.set(printed)
    try:
        yield printed
    finally:
        _CAPTURED.reset(token)


def write(name: str, path: Path, text: str) -> None:
    """Write the file of a dump. Raises DumpFileError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DumpFileError(
            dump=name, path=path.absolute(), variable=_VARIABLE, reason=error.strerror
        ) from error


@functools.cache
def _chosen() -> frozenset[str]:
    return parse(os.environ)


@functools.cache
def _checks() -> frozenset[str]:
    return parse_checks(os.environ)


def _names(listed: str) -> list[str]:
    """The names in a comma list; nvFuser's arguments, `name(a, b)`, are left out."""
    if listed.strip().lower() in OFF:
        return []
    return [name.strip() for name in re.sub(r"\([^)]*\)", "", listed).split(",") if name.strip()]


@functools.cache
def pool_bytes() -> int | None:
    """What FUSER_POOL_MIB lets the pool of outputs keep; None where it is not set. The environment
    is read at the first question only. Raises PoolSizeError for what is no number."""
    given = os.environ.get(_POOL_VARIABLE, "").strip()
    if not given:
        return None
    if not (given.isascii() and given.isdigit()):
        raise PoolSizeError(variable=_POOL_VARIABLE, got=given)
    return int(given) << 20


def verifying() -> bool:
    """Whether FUSER_VERIFY asks for the fusion to be checked before and after every pass."""
    return switched("FUSER_VERIFY", default=False)


def watches_planning() -> bool:
    """Whether something is asked for that only planning anew shows or checks."""
    return verifying() or bool(_chosen())


def strict() -> bool:
    """Whether FUSER_STRICT asks for an error where torch would else take over."""
    return switched("FUSER_STRICT", default=False)


def switched(variable: str, *, default: bool) -> bool:
    """Whether a variable of the environment is on; `default` where it is not set, or empty.

    Raises SwitchError for what is neither one of `ON` nor of `OFF`.
    """
    given = os.environ.get(variable, "")
    word = given.strip().lower()
    if word in ON or word in OFF or not word:
        return word in ON if word else default
    raise SwitchError(variable=variable, got=given, on=", ".join(ON), off=", ".join(OFF))
