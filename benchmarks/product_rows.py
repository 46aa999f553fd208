"""Where the rows of a product's result begin: what `integrations/outer/product_rows.py` brings.

    python benchmarks/product_rows.py [--rounds 15] [--no-save]

torch.mm of float32 matrices into memory that is there, its rows one after the other and in strides
of whole lines; and the latter with a contiguous copy made after it by fuser. Medians over
alternating rounds, on two pinned threads.
"""

from __future__ import annotations

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from harness import OURS, Call, alternate, machine, options, report

from fuser import DataType, FusionDefinition
from fuser.integrations.outer.product_rows import row_for

CASES = {
    "BERT's words": (1024, 768, 30522),
    "GPT-2's words": (1024, 768, 50257),
    "a multiple of lines": (1024, 768, 32000),
    "short sums": (1024, 64, 50257),
}
HEAD = ("case", "[m, k] x [k, n]", "ms", "x contiguous", "and a copy, ms", "x contiguous")


def row(name: str, sizes: tuple[int, int, int], rounds: int) -> list[str]:
    m, k, n = sizes
    left, right = torch.randn(m, k), torch.randn(n, k).t()
    contiguous = torch.empty(m, n)
    aligned = torch.empty(m, row_for(n))[:, :n]
    copy = copying()

    def copied() -> None:
        torch.mm(left, right, out=aligned)
        copy.execute([aligned])

    whole = {"contiguous": lambda: torch.mm(left, right, out=contiguous)}
    lines: dict[str, Call] = {OURS: lambda: torch.mm(left, right, out=aligned), **whole}
    copies: dict[str, Call] = {OURS: copied, **whole}
    found = [str(list(sizes))]
    for calls in (lines, copies):
        measured = alternate(calls, rounds)
        found.append(f"{measured[OURS].seconds * 1e3:.1f}")
        found.append(f"{measured['contiguous'].ratio:.2f}")
    return [name, *found]


def copying() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[False, True], dtype=DataType.Float)
        fd.add_output(fd.ops.set(x))
    return fd


def main() -> None:
    given, facts = options(__doc__, rounds=15).parse_args(), machine()
    rows = [row(name, sizes, given.rounds) for name, sizes in CASES.items()]
    report("product-rows-cpu", facts, HEAD, rows, keep=not given.no_save)


if __name__ == "__main__":
    main()
