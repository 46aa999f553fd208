"""What the segmenter hands on: segments, aliases and extern steps, in execution order."""

from __future__ import annotations

from dataclasses import dataclass, field

from fuser.ir.nodes import Fusion, Value
from fuser.ir.strided import Address, Strided, address_of
from fuser.segmenter.atoms import Atoms, AtomSet
from fuser.segmenter.machine import Machine
from fuser.segmenter.traffic import bytes_moved, bytes_written, elements_read, elements_written


@dataclass(frozen=True, slots=True)
class Segment:
    """Operations that become one kernel.

    `fusion` has the values it reads as inputs and those it stores as outputs; `memory` says where
    each of them lies. `reason` says why the segment ends where it does: how its values leave it,
    which `leaves` says alone, and why it is not one with others. `atoms` are those of the whole
    fusion, and `rows` the ones that number its rows: none of them where all is one row. It is None
    where nothing is reduced or scanned, so that there are no rows.
    """

    name: str
    fusion: Fusion
    memory: dict[Value, Strided]
    reason: str
    atoms: Atoms = field(repr=False, compare=False)
    rows: AtomSet | None
    bytes_read_again: int = 0
    """What later sweeps of rows read from memory once more, as no cache has room for it."""
    leaves: tuple[str, ...] = ()

    @property
    def loads(self) -> tuple[Value, ...]:
        return tuple(value for value in self.fusion.inputs if value.is_tensor)

    @property
    def stores(self) -> tuple[Value, ...]:
        return self.fusion.output_values

    @property
    def addressed_as(self) -> dict[Value, Value]:
        """For each value that it reads, one from whose address it is read: slices of a tensor have
        one, that of the slice which reaches furthest, as far as which memory may be touched. What
        is scattered into has its own."""
        furthest = dict[Address, Value]()
        own = [value for value in self.loads if self.is_scattered_into(value)]
        read = [value for value in self.loads if value not in own]
        for value in sorted(read, key=lambda value: self.memory[value].last_offset):
            furthest[address_of(value, self.memory)] = value
        others = {value: furthest[address_of(value, self.memory)] for value in read}
        return {value: others.get(value, value) for value in self.loads}

    @property
    def overwritten(self) -> frozenset[Value]:
        """The buffers that it reads and stores to as well."""
        read = {self.memory[value].base for value in self.loads}
        return frozenset(read.intersection(self.memory[value].base for value in self.stores))

    @property
    def is_empty(self) -> bool:
        """Whether what it stores has no elements, so that nothing is to be launched."""
        return all(self.memory[value].elements == 0 for value in self.stores)

    @property
    def bytes_read(self) -> int:
        """Bytes of distinct elements read."""
        return bytes_moved(elements_read(self.fusion), self.memory)

    @property
    def bytes_written(self) -> int:
        return bytes_moved(elements_written(self.fusion), self.memory)

    def is_scattered_into(self, value: Value) -> bool:
        """Whether a value that it reads lies where a scatter in it stores the result."""
        lies = self.memory.get(value)
        return lies is not None and lies.base in self.stores and value not in self.stores


@dataclass(frozen=True, slots=True)
class ExternStep:
    """Operations that torch runs. Results are copied where they do not lie as `memory` says."""

    name: str
    fusion: Fusion
    memory: dict[Value, Strided]
    reason: str

    @property
    def bytes_read(self) -> int:
        """Bytes of its operands, whole, but of a table the rows that are looked up."""
        return bytes_moved(elements_read(self.fusion), self.memory)

    @property
    def bytes_written(self) -> int:
        return bytes_written(self.fusion.output_values, self.memory)


@dataclass(frozen=True, slots=True)
class AliasStep:
    """An output that is memory of `memory.base` under other sizes and strides: no bytes move."""

    output: Value
    memory: Strided
    operations: tuple[str, ...]
    reason: str


Step = Segment | ExternStep | AliasStep


@dataclass(frozen=True, slots=True)
class Update:
    """`output` is written into the input `into`, which lies at `memory`.

    By the kernel that computes it; or, where `refusal` says why that one cannot, it is copied when
    all steps are done.
    """

    output: Value
    into: Value
    memory: Strided
    refusal: str | None

    @property
    def bytes_copied(self) -> int:
        """Bytes read and written by the copy, if there is one."""
        return 0 if self.refusal is None else 2 * self.memory.bytes_touched


@dataclass(frozen=True, slots=True)
class Boundary:
    """Why two segments, given by name, are not one."""

    first: str
    second: str
    reason: str


@dataclass(frozen=True, slots=True)
class SegmentedFusion:
    """The whole fusion, segmented.

    `memory` places every input, every stored value and every alias of one. `boundaries` say why
    segments are apart, and lead from each to all others; `log` is the story of the decisions, a
    line each. They were made for `machine`, of whose memory the kernels cost so many bytes. Where
    inputs are updated, `sharing` are those whose memory overlaps that of another one.
    """

    fusion: Fusion
    steps: tuple[Step, ...]
    memory: dict[Value, Strided]
    boundaries: tuple[Boundary, ...]
    log: tuple[str, ...]
    machine: Machine
    cost: int
    updates: tuple[Update, ...] = ()
    sharing: frozenset[Value] = frozenset()

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(step for step in self.steps if isinstance(step, Segment))
