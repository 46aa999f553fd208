"""Reading the machine code of a cubin: which memory accesses it makes, and how wide they are.

The encoding (compute capability 8.0 to 12.x) is not documented by NVIDIA; `test_machine_code.py`
compares it with what nvdisasm prints.
"""

from __future__ import annotations

import struct
from collections import Counter

from fuser.runtime.cuda.cubin import Cubin

# An instruction is two 64-bit words. Bits 0-8 of the first are the operation, whatever the form
# of its operands; bits 9-11 of the second are the size of what a memory operation moves.
_OPERATIONS = {
    0x181: "LDG",
    0x186: "STG",
    0x184: "LDS",
    0x188: "STS",
    0x183: "LDL",
    0x187: "STL",
    0x180: "LD",
    0x185: "ST",
}
_BITS = (8, 8, 16, 16, 32, 64, 128, 256)  # 8 and 16 stand twice: unsigned, signed


def memory_accesses(cubin: Cubin) -> Counter[tuple[str, int]]:
    """How often each (operation, bits per thread) occurs in the kernel's text.

    Operations are LDG, STG (global), LDS, STS (shared), LDL, STL (local memory), and LD, ST
    (where the compiler could not tell which).
    """
    found: Counter[tuple[str, int]] = Counter()
    for low, high in struct.iter_unpack("<QQ", elf_section(cubin.image, f".text.{cubin.kernel}")):
        operation = _OPERATIONS.get(low & 0x1FF)
        if operation is not None:
            found[operation, _BITS[high >> 9 & 7]] += 1
    return found


def elf_section(image: bytes, name: str) -> bytes:
    """The bytes of a section of a 64-bit ELF image. Raises KeyError if it has no such section."""
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 0x3A)
    # A section's entry: name, type, flags, address, offset, size.
    entries = [struct.unpack_from("<IIQQQQ", image, table + entry_size * i) for i in range(count)]
    names = entries[names_index][4]
    for start, _, _, _, offset, size in entries:
        if image.startswith(name.encode() + b"\0", names + start):
            return image[offset : offset + size]
    raise KeyError(name)
