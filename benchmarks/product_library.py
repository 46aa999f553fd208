"""Which library multiplies float32 matrices faster: what `integrations/outer/product_library.py`
goes by.

    python benchmarks/product_library.py [--rounds 9] [--no-save]

Each product [m, k] x [k, n] by torch.mm into memory that is there, and by oneDNN, which makes its
result's memory. Operands lie row by row, or column by column (".t()"); what fuser takes is marked.
Medians over alternating rounds, on two pinned threads.
"""

from __future__ import annotations

from typing import Any

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from harness import OURS, alternate, machine, options, report
from torch.fx import Graph

from fuser.integrations.outer.product_library import runs_in_onednn

LENGTHS = (
    *(
        (m, k, n)
        for m in (1, 4, 64)
        for k, n in ((768, 768), (2048, 2048), (768, 3072), (3072, 768))
    ),
    *((64, 64, 64), (256, 256, 256), (333, 777, 555), (1000, 1001, 1003)),
    *((1024, 768, 768), (1024, 768, 3072), (1024, 3072, 768), (768, 1024, 768)),
    *((768, 1024, 3072), (3072, 1024, 768), (1024, 768, 30522), (1024, 30522, 768)),
    *((30522, 1024, 768), (512, 2048, 512), (512, 2048, 8192), (512, 8192, 2048)),
    *((2048, 512, 8192), (8192, 512, 2048), (512, 2048, 32000), (512, 32000, 2048)),
    (32000, 512, 2048),
)
FORMS = {"x @ w.t()": (False, True), "x @ w": (False, False), "x.t() @ w": (True, False)}
HEAD = ("[m, k] x [k, n]", *(f"{form}: ms, x torch" for form in FORMS))


def cell(sizes: tuple[int, int, int], turned: tuple[bool, bool], rounds: int) -> str:
    m, k, n = sizes
    left = torch.randn(k, m).t() if turned[0] else torch.randn(m, k)
    right = torch.randn(n, k).t() if turned[1] else torch.randn(k, n)
    made, linear = torch.empty(m, n), torch.ops.mkldnn._linear_pointwise.default
    times = max(1, 1 << 27 >> (m * k * n).bit_length())

    def repeated(call: Any) -> Any:
        return lambda: [call() for _ in range(times)]

    calls = {
        OURS: repeated(lambda: linear(left, right.t(), None, "none", [], "")),
        "torch": repeated(lambda: torch.mm(left, right, out=made)),
    }
    measured = alternate(calls, rounds)
    taken = " *" if _is_taken(left, right) else ""
    return f"{measured[OURS].seconds * 1e3 / times:.2f} {measured['torch'].ratio:.2f}{taken}"


def _is_taken(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether fuser has oneDNN make such a product."""
    graph = Graph()
    operands = [graph.placeholder(name) for name in ("left", "right")]
    node = graph.call_function(torch.ops.aten.mm.default, tuple(operands))
    for operand, tensor in zip(operands, (left, right), strict=True):
        operand.meta["val"] = tensor
    return runs_in_onednn(node)


def main() -> None:
    given, facts = options(__doc__, rounds=9).parse_args(), machine()
    rows = [
        [str(list(sizes)), *(cell(sizes, turned, given.rounds) for turned in FORMS.values())]
        for sizes in LENGTHS
    ]
    foot = "\n*: oneDNN in fuser\n"
    report("product-library-cpu", facts, HEAD, rows, foot=foot, keep=not given.no_save)


if __name__ == "__main__":
    main()
