"""What the instructions of GPU kernels take beside their memory, counted in machine code; no GPU.

    python benchmarks/instructions.py [--arch sm_90] [--only TEXT] [--no-save]

Of each kernel, the loop over its rows is looked at, or, where it has none, all of it: how many
cycles of a multiprocessor each unit takes for a warp, over those in which the memory moves what the
warp loads and stores. Of a share above 0.8 or so, no bandwidth is enough. What branches leave out
counts, and so do all loads, also those that a cache answers.

Cycles of a warp's instruction are 32 over the results a multiprocessor makes in a cycle, by the
table of arithmetic throughput (compute capability 9.0) of the CUDA C++ programming guide; 132 of
them at 1.755 GHz share 4.3 TB/s.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cases import cases
from disassembly import INSTRUCTION, width
from harness import machine, options, report

from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.cuda.sass import disassemble

BYTES_A_CYCLE = 4.3e12 / 132 / 1.755e9
"""Of the memory, for a multiprocessor."""
ISSUED = 4
"""Instructions of warps that it begins in a cycle."""

CYCLES = {
    "fp32": 1 / 4,
    "integers": 1 / 2,
    "products": 1 / 2,
    "functions": 2.0,
    "doubles": 1 / 2,
}
"""Of an instruction of a warp, by the unit that does it; those of memory take as many as they move
pieces of 128 bytes."""

UNITS = {
    "fp32": ("FADD", "FMUL", "FFMA", "FSEL", "HADD2", "HMUL2", "HFMA2"),
    "products": ("IMAD", "IMAD32I"),
    "functions": ("MUFU", "F2F", "F2I", "I2F", "FRND", "POPC", "FLO"),
    "doubles": ("DADD", "DMUL", "DFMA", "DSETP"),
    "memory": ("LD", "ST", "LDG", "STG", "LDGSTS", "LDS", "STS", "SHFL", "RED", "ATOM"),
}
UNIT = {name: unit for unit, names in UNITS.items() for name in names}
"""All others are integers', whose products the units of float32 make."""

HEAD = ("case", "kernel", "registers", "instructions", "bytes", "issued", *CYCLES, "memory")

_LABEL = re.compile(r"^\s*(\.L\w+):")
_TARGET = re.compile(r"`\((\.L\w+)\)")


@dataclass(frozen=True, slots=True)
class Counted:
    """Instructions, bytes that a thread moves, and cycles of a multiprocessor for a warp, by
    unit."""

    instructions: int
    bytes: int
    cycles: dict[str, float]

    def share(self, unit: str) -> float:
        """Of the time that the memory takes."""
        return self.cycles.get(unit, 0) * BYTES_A_CYCLE / (32 * max(self.bytes, 1))


def counted(text: str) -> Counted:
    """What nvdisasm prints of a kernel, as far as a row repeats it."""
    lines: list[tuple[str, str]] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(lines)
        elif found := INSTRUCTION.search(line):
            lines.append((found[1], found[2]))
    body = [op for op, _ in lines[slice(*_rows(lines, labels))] if op != "NOP"]
    cycles = defaultdict[str, float](float, issued=len(body) / ISSUED)
    for op in body:
        unit = UNIT.get(op.partition(".")[0], "integers")
        cycles[unit] += width(op) / 4 if unit == "memory" else CYCLES[unit]
    moved = sum(width(op) for op in body if op.startswith(("LDG", "STG")))
    return Counted(len(body), moved, dict(cycles))


def _rows(lines: Sequence[tuple[str, str]], labels: dict[str, int]) -> tuple[int, int]:
    """Where the outermost loop that moves memory begins and ends; all, if there is none."""
    loops = [
        (labels[target[1]], end + 1)
        for end, (op, operands) in enumerate(lines)
        if op.startswith("BRA") and (target := _TARGET.search(operands))
        if labels.get(target[1], len(lines)) < end
    ]
    moving = [span for span in loops if any(op[:3] == "LDG" for op, _ in lines[slice(*span)])]
    if not moving:
        return 0, len(lines)
    first = min(begin for begin, _ in moving)
    return first, max(end for begin, end in moving if begin == first)


def main(given: Sequence[str] | None = None) -> None:
    parser = options(__doc__, rounds=None)
    parser.add_argument("--arch", default="sm_90", help="whose machine code is counted")
    parser.add_argument("--only", default="", help="cases whose name contains this; not saved")
    chosen = parser.parse_args(given)
    rows: list[tuple[str, ...]] = []
    for case in cases("cuda"):
        if chosen.only not in str(case):
            continue
        plan = case.definition().plan(case.meta_inputs(), target=f"cuda:{chosen.arch}")
        for kernel in plan.kernels:
            assert kernel.kernel_source is not None
            cubin = compile_cuda(kernel.kernel_source, chosen.arch)
            text = disassemble(cubin)
            if text.startswith("nvdisasm is missing"):
                parser.exit(1, f"{text}\n")
            found = counted(text)
            shares = (f"{found.share(unit):.2f}" for unit in HEAD[5:])
            numbers = map(str, (cubin.resources.registers, found.instructions, found.bytes))
            rows.append((str(case), kernel.name[:28], *numbers, *shares))
    facts = machine() | {"compiled for": chosen.arch}
    report("instructions", facts, HEAD, rows, keep=not (chosen.no_save or chosen.only))


if __name__ == "__main__":
    main()
