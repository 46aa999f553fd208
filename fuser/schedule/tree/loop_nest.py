"""A kernel before it is text: its loop tree, and how it is launched."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.schedule.choice import NotChosen
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.cuda_parameters import CudaParameters, CudaRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.bindings import Team
from fuser.schedule.tree.loop_tree import Node
from fuser.schedule.tree.statements import Let, Load

Parameters = CpuParameters | CpuRowParameters | CudaParameters | CudaRowParameters
"""What any mapping chooses by."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is started: thread blocks and threads on CUDA, with the most threads a block of
    any size may have; on the CPU, whether on several threads, and whether chunks of rows are stored
    past the cache.

    `numbered`: whether blocks over points are numbered along the first dimension of the grid, which
    has room for more than the others. `resident`: blocks that a multiprocessor is to run at once,
    which limits their registers. `cluster`: blocks along the second dimension of the grid that see
    each other's shared memory. `shared_bytes`: what a block has beside what its text declares.
    `elastic`: the dimension of the grid along which there may be fewer blocks, which do more each;
    None if there is none.
    """

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    max_threads: int = 1
    threaded: bool = False
    numbered: bool = False
    resident: int = 1
    cluster: int = 1
    shared_bytes: int = 0
    past_cache: bool = False
    elastic: int | None = None

    def __str__(self) -> str:
        if self.max_threads == 1:  # the CPU
            threads = "on several threads" if self.threaded else "on one thread"
            return threads + ", storing past the cache" * self.past_cache
        words = [f"grid {_by(self.grid)}", f"block {_by(self.block)}"]
        words += [f"clusters of {self.cluster} blocks"] if self.cluster > 1 else []
        words += [f"{self.shared_bytes} B of shared memory"] if self.shared_bytes else []
        return ", ".join(words)


def _by(sizes: tuple[int, int, int]) -> str:
    return " x ".join(map(str, sizes))


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A kernel: a name, its loop tree, and how it is launched.

    `axes` run from the outermost to the innermost, of which those `in_text` have an extent that is
    a number of the kernel's text; `index_dtype` is Int32 where every offset fits.
    `mapping` says in words how the axes are mapped, which was chosen by `parameters`;
    `overwrite_refusal` why it may not store over what it reads, where the segment's memory says so.
    `team` does a row of a CUDA kernel. `not_chosen` are the mappings that come before the one that
    was chosen.
    """

    name: str
    axes: tuple[Axis, ...]
    prologue: tuple[Load | Let, ...]
    body: tuple[Node, ...]
    launch: Launch
    index_dtype: DataType
    mapping: str
    parameters: Parameters
    overwrite_refusal: str | None
    team: Team | None = None
    not_chosen: tuple[NotChosen, ...] = ()
    in_text: frozenset[Axis] = frozenset()

    @property
    def chosen(self) -> str:
        """What the heuristic chose: the mapping, the launch, and what was tried before."""
        words = [self.mapping, f"{self.launch}; indices are {self.index_dtype.name}"]
        lines = (*words, *map(str, self.not_chosen))
        return "\n".join(textwrap.fill(line, 100, subsequent_indent="  ") for line in lines)

    @property
    def constants(self) -> str:
        """What the heuristic chose by: lines of 100 characters, as there are many."""
        return textwrap.fill(str(self.parameters), 100, subsequent_indent="  ")
