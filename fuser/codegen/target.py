"""A target is a table: how one language spells what the printer prints."""

from __future__ import annotations

from dataclasses import dataclass

from fuser.codegen.device_library import DeviceLibrary, load
from fuser.ir.dtypes import DataType


@dataclass(frozen=True, slots=True)
class Target:
    """Spellings. In `infinity` and `not_a_number`, by floating type. `index`: the type of indices
    of 64 bits, if not that of elements of as many. `moves_integers`: whether narrow floats of which
    nothing is computed are integers in the text."""

    library: DeviceLibrary
    restrict: str
    infinity: dict[DataType, str]
    not_a_number: dict[DataType, str]
    index: str | None = None
    moves_integers: bool = False


CPU = Target(
    library=load(
        *("common.h", "random.h", "cpu.h", "cpu_float64.h", "cpu_division.h", "cpu_lanes.h"),
        *("cpu_float64_lanes.h", "cpu_memory.h", "cpu_random.h", "scan_cpu.h"),
    ),
    restrict="__restrict",
    infinity={DataType.Float: "__builtin_inff()", DataType.Double: "__builtin_inf()"},
    not_a_number={DataType.Float: '__builtin_nanf("")', DataType.Double: '__builtin_nan("")'},
    index="index64",
    moves_integers=True,
)

CUDA = Target(
    library=load("common.h", "random.h", "cuda.h", "scan_cuda.h", "lists_cuda.h"),
    restrict="__restrict__",
    infinity={
        DataType.Float: "__int_as_float(0x7f800000)",
        DataType.Double: "__longlong_as_double(0x7ff0000000000000)",
    },
    not_a_number={
        DataType.Float: "__int_as_float(0x7fc00000)",
        DataType.Double: "__longlong_as_double(0x7ff8000000000000)",
    },
)
