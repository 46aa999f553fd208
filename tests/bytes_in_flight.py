"""How many bytes a thread has asked memory for before it waits for some: read off machine code."""

from __future__ import annotations

import re

from disassembly import INSTRUCTION, width

_REGISTER = re.compile(r"\bR(\d+)(\.64)?")
_OPERANDS = re.compile(r",(?![^\[]*\])")


def bytes_in_flight(text: str) -> int:
    """The most bytes of loads from memory that are on their way at once, in a thread that comes
    through the text of nvdisasm from its start to its end.

    A load is, until an instruction names one of the registers that it fills; then it has come, and
    so have all before it. Copies to shared memory are until they are waited for.
    """
    under_way: list[tuple[set[int], int]] = []
    most = 0
    for operation, operands in INSTRUCTION.findall(text):
        if operation.startswith("LDGSTS"):
            under_way.append((set(), width(operation)))
        elif operation.startswith("DEPBAR"):
            under_way = [each for each in under_way if each[0]]
        else:
            is_load = re.match(r"LDG\b", operation) is not None
            filled, *others = _OPERANDS.split(operands)
            named = {n for each in others for n in _registers(each)} | set(_registers(filled))
            waits = [i for i, (registers, _) in enumerate(under_way) if registers & named]
            under_way = under_way[waits[-1] + 1 :] if waits else under_way
            if is_load:
                first = next(iter(_registers(filled)))
                words = range(max(width(operation) // 4, 1))
                under_way.append(({first + i for i in words}, width(operation)))
        most = max(most, sum(width for _, width in under_way))
    return most


def _registers(operand: str) -> list[int]:
    return [
        int(number) + i
        for number, pair in _REGISTER.findall(operand)
        for i in range(2 if pair else 1)
    ]
