"""Views before, between and after two operations, in all eight ways: one kernel each time.

nvFuser made up to three kernels of it, some of them only to copy; which, its author listed. Beside
the published chain are three harder ones: shapes whose factors do not nest, a permute in between,
and 50 views. Exits with status 1 if any of them is not one kernel.
"""

# ruff: noqa: N803, N806 (the published definition, letter for letter)

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import torch
from common import Options, check, define, options, report, scaled, segments, table

from fuser import DataType, Fusion, FusionDefinition
from fuser.segmenter import byte_count


# fmt: off
def simple_fusion(fd: FusionDefinition) -> None:
    T = fd.define_tensor(
        symbolic_sizes=[-1, -1], contiguous=[True, True], dtype=DataType.Float
    )
    current_shape = [8192, 3072]
    other_shape = [64, 128, 3072]
    def insert_view(_T):
        """Insert a view that swaps between the two shapes above"""
        nonlocal current_shape, other_shape
        new_shape = other_shape
        out = fd.ops.view(_T, original_shape=current_shape, new_shape=new_shape)
        other_shape, current_shape = current_shape, other_shape
        return out
    T = insert_view(T)  # A
    T = fd.ops.add(T, T)
    T = insert_view(T)  # B
    T = fd.ops.mul(T, T)
    T = insert_view(T)  # C
    fd.add_output(T)
# fmt: on

NVFUSER = {
    "ABC": "3: view+add, view only, mul+view",
    "BC": "2: add+view+mul, view only",
    "AC": "2: view+add+mul, view only",
    "AB": "2: view+add, view+mul",
    "C": "1: add+mul+view",
    "B": "1: add+view+mul",
    "A": "1: view+add+mul",
    "": "1: add+mul",
}
"""The segments nvFuser made of the chain with these views left in, as its author reported them."""

Definition = Callable[[FusionDefinition], None]
Step = tuple[str, list[int]]


def published(rows: int, views: str) -> tuple[Definition, list[Step]]:
    """The published chain with the other views commented out, and its steps."""
    shapes = [rows, 3072], [rows // 128, 128, 3072]
    text = {"[8192, 3072]": shapes[0], "[64, 128, 3072]": shapes[1]}
    gone = {f"T = insert_view(T)  # {view}": "pass" for view in "ABC" if view not in views}
    others = itertools.cycle(reversed(shapes))
    steps: list[Step] = []
    for view, operation in (("A", "add"), ("B", "mul"), ("C", "")):
        steps += [("view", next(others))] if view in views else []
        steps += [(operation, [])] if operation else []
    return scaled(simple_fusion, {**text, **gone}), steps


def harder(rows: int) -> dict[str, list[Step]]:
    """Three chains that the published one grows into."""
    flat, apart, crossed = [rows, 3072], [rows // 128, 128, 3072], [rows * 3 // 2, 2048]
    shapes = itertools.cycle([apart, crossed, flat])
    operations = itertools.cycle(["add", "halve"])
    return {
        "factors do not nest": [
            *[("view", crossed), ("add", []), ("view", flat), ("mul", []), ("view", crossed)]
        ],
        "a permute among them": [
            *[("view", apart), ("add", []), ("permute", [1, 0, 2])],
            *[("view", flat), ("mul", []), ("view", [64, rows // 64, 3072])],
        ],
        "50 views": [
            step
            for _ in range(50)
            for step in (("view", next(shapes)), (next(operations), list[int]()))
        ],
    }


def chain(steps: list[Step]) -> Definition:
    """Steps as a definition."""

    def build(fd: FusionDefinition) -> None:
        value = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float)
        for name, numbers in steps:
            match name:
                case "view":
                    value = fd.ops.view(value, new_shape=numbers)
                case "permute":
                    value = fd.ops.permute(value, numbers)
                case "halve":
                    value = fd.ops.mul(value, 0.5)
                case _:
                    value = getattr(fd.ops, name)(value, value)
        fd.add_output(value)

    return build


def eager(steps: list[Step], value: torch.Tensor) -> torch.Tensor:
    """Steps in torch; where torch cannot view, it copies."""
    for name, numbers in steps:
        match name:
            case "view":
                value = value.reshape(numbers)
            case "permute":
                value = value.permute(numbers)
            case "halve":
                value = value * 0.5
            case _:
                value = getattr(torch, name)(value, value)
    return value


def run(definition: Definition, steps: list[Step], x: torch.Tensor, target: str | None) -> Fusion:
    """The fusion, after its result was found to be torch's."""
    fs = define(definition)
    check(fs.execute([x], target=target), [eager(steps, x)], quiet=True)
    return fs


def compare(given: Options, x: torch.Tensor) -> list[tuple[str, str, Fusion]]:
    """Every chain: its name, what nvFuser made of it, and ours."""
    found: list[tuple[str, str, Fusion]] = []
    for views, reported in NVFUSER.items():
        definition, steps = published(given.rows, views)
        fs = run(definition, steps, x, given.target)
        found.append((" ".join(v if v in views else "-" for v in "ABC"), reported, fs))
    for name, steps in harder(given.rows).items():
        found.append((name, "not reported", run(chain(steps), steps, x, given.target)))
    return found


def main() -> None:
    given = options(__doc__ or "", full=8192, small=256, unit=128)
    x = torch.randn(given.rows, 3072, device=given.device)
    chains = compare(given, x)
    rows: list[list[str]] = []
    plans = [fs.plan([x], target=given.target) for _, _, fs in chains]
    for (name, reported, _), plan in zip(chains, plans, strict=True):
        counts = [len(plan.kernels), len(plan.externs), len(plan.aliases)]
        rows.append([name, reported, *map(str, counts), byte_count(plan.bytes_moved)])
    head = ["views", "nvFuser's segments", "our kernels", "torch calls", "aliases", "moved"]
    print(table(head, rows))
    print(f"\n{plans[0]}")
    print("checked: the outputs are what torch computes\n")
    _, steps = published(given.rows, "ABC")
    fs = chains[0][2]
    candidates = {
        "fuser, A B C": lambda: fs.execute([x], target=given.target),
        "eager, A B C": lambda: eager(steps, x),
    }
    report(candidates, given.device, given.rounds)
    wrong = [row[0] for row, plan in zip(rows, plans, strict=True) if segments(plan) != 1]
    if wrong:
        sys.exit(f"WRONG: not one kernel: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
