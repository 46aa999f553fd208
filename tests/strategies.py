"""Random definitions with inputs that fit them, for property tests.

    @given(definitions())
    def test_target(definition):
        with FusionDefinition() as fd:
            definition.build(fd)
        compare(fd.execute(definition.inputs), interpret(fd.fusion, definition.inputs))

Numbers are well behaved: inputs are small multiples of 1/4, so sums and products are exact in
float32 as long as `Known.bits` says so. What depends on the last bit (comparisons, rounding, casts
to integers) is applied to exact values only, and results of smooth functions stay small. Thus two
correct implementations differ by no more than the rounding of each output's dtype.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.dtypes import from_torch
from fuser.ir.nodes import Number
from tests.random_functions import FUNCTIONS, OPERANDS
from tests.random_library import COMPOSED, LIBRARY
from tests.random_places import COMPUTED_PLACES
from tests.random_resizes import RESIZES
from tests.random_row_steps import GATHERS, NORMALIZATIONS, REDUCTIONS
from tests.random_scans import SCANS
from tests.random_scatters import SCATTERS, WRITES
from tests.random_steps import (
    FACTORIES,
    LAYOUTS,
    LOGARITHMS,
    METADATA,
    NARROW,
    POINTWISE,
    SLICES,
)
from tests.random_values import (
    DTYPES,
    SMALL,
    Known,
    Scale,
    Step,
    Writer,
    broadcast_with,
    known,
    overlaps_itself,
    scalars,
    shapes,
    tensors,
    views_of,
)

__all__ = [
    "COMPOSED",
    "COMPUTED_PLACES",
    "DTYPES",
    "FACTORIES",
    "FUNCTIONS",
    "GATHERS",
    "LAYOUTS",
    "LIBRARY",
    "LOGARITHMS",
    "METADATA",
    "NARROW",
    "NORMALIZATIONS",
    "OPERANDS",
    "POINTWISE",
    "REDUCTIONS",
    "RESIZES",
    "SCANS",
    "SCATTERS",
    "SLICES",
    "WRITES",
    "Definition",
    "definitions",
    "drawn",
    "tensors",
]

_SEED_BYTES = 1 << 14
"""More than any definition takes to be drawn."""

WriteStep = Callable[[Writer], None]


@dataclass(frozen=True)
class Definition:
    """`build` writes the definition; `inputs` are what it is executed with."""

    build: Callable[[FusionDefinition], None]
    inputs: list[torch.Tensor | Number]

    def __repr__(self) -> str:
        with FusionDefinition() as fd:
            self.build(fd)
        described = (
            f"{given.dtype} {tuple(given.shape)} {given.stride()}"
            if isinstance(given, torch.Tensor)
            else repr(given)
            for given in self.inputs
        )
        return f"{fd}inputs: {'; '.join(described)}"


@st.composite
def definitions(
    draw: st.DrawFn,
    steps: Sequence[WriteStep] = (*POINTWISE, *METADATA, *FACTORIES),
    dtypes: Sequence[DataType] = DTYPES,
    max_operations: int = 10,
    min_operations: int = 1,
    scale: Scale = SMALL,
    in_place: bool = False,
    extremes: bool = False,
) -> Definition:
    """A definition of `min_operations` to `max_operations` of these `steps`.

    It has 1 to 3 tensor inputs of `dtypes`, perhaps a scalar input, inputs of indices where steps
    gather, and 1 to 4 outputs, of which some may be written to inputs (`in_place`). With
    `extremes`, inputs of some hold integers of any size, NaN and infinities, or overlap, and
    outputs are there more than once; scalars are of any type, and inputs views of others, or of any
    strides.
    """
    extreme = extremes and draw(st.sampled_from((False, False, False, True)))
    first = draw(tensors(dtypes, shapes(scale), extreme))
    sizes = shapes(scale) | broadcast_with(list(first.shape))
    alike = extremes and draw(st.sampled_from((False, False, True)))
    types = [_dtype_of(first)] if alike else dtypes
    inputs: list[torch.Tensor | Number] = [
        first,
        *draw(st.lists(tensors(types, sizes, extreme), max_size=2)),
    ]
    if extremes and draw(st.sampled_from((False, False, True))):
        inputs.append(draw(views_of(first)))
    if draw(st.booleans()):
        inputs.append(draw(scalars(extreme) if extremes else st.sampled_from([-1.5, 0.25, 2.0])))
    declared = tuple(inputs)
    kinds = ("static", "open", *(("any layout",) if extremes else ()))
    kind = draw(st.sampled_from(kinds))
    counts = [n for n in (1, 2, 4, 6, 8, 10, 20, 30) if min_operations <= n <= max_operations]
    with FusionDefinition() as scratch:
        writer = Writer(draw, scratch, dtypes, inputs, scale)
        writer.declare(_declare(scratch, declared, "static"), declared)
        for _ in range(draw(st.sampled_from(counts))):
            draw(st.sampled_from(list(steps)))(writer)
        made = len(writer.handles)
        if in_place and draw(st.sampled_from((False, False, True))):
            _add_updates(writer, declared)
        tensors_made = [i for i, handle in enumerate(writer.handles) if handle.value.is_tensor]
        uses = scratch.fusion.uses()
        unread = [i for i in tensors_made if writer.handles[i].value not in uses]
        candidates = draw(st.sampled_from([unread or tensors_made, tensors_made]))
        others = draw(st.lists(st.sampled_from(candidates), max_size=3))
        others += range(made, len(writer.handles))
        outputs = [tensors_made[-1], *others]
        outputs = outputs if extreme else list(dict.fromkeys(outputs))
        written = _written(draw, writer.handles, outputs, declared) if in_place else {}

    def build(fd: FusionDefinition) -> None:
        handles = _declare(fd, declared, kind)
        for step in writer.steps:
            handles.append(step(fd, handles))
        for number, position in enumerate(outputs):
            into = handles[written[number]] if number in written else None
            fd.add_output(handles[position], alias_input=into)

    return Definition(build, inputs)


def drawn(strategy: st.SearchStrategy[Definition], seed: int) -> Definition:
    """What a strategy draws by a seed: the same every time, whatever else runs."""
    found: list[Definition] = []

    @settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def draw(definition: Definition) -> None:
        found.append(definition)

    draw.hypothesis.fuzz_one_input(random.Random(seed).randbytes(_SEED_BYTES))
    (definition,) = found
    return definition


def _add_updates(writer: Writer, declared: Sequence[torch.Tensor | Number]) -> None:
    """Values that inputs may be updated to: each with something added."""
    for at, held in enumerate(declared):
        if isinstance(held, torch.Tensor) and writer.facts[at].finite:
            added = writer.operand(_fits_into(held))
            if added is not None:
                bound = writer.facts[at].bound + writer.facts[added].bound
                writer.add(_updated(at, added, writer.dtype(at)), known(bound, 2))


def _fits_into(held: torch.Tensor) -> Callable[[Handle, Known], bool]:
    """Whether a tensor keeps its sizes, and a type of whole or real numbers, when a value of exact
    numbers is added."""

    def fits(handle: Handle, facts: Known) -> bool:
        shape = handle.value.shape if handle.value.is_tensor else (0,) * (held.dim() + 1)
        sizes = zip(reversed(shape), reversed(held.shape), strict=False)
        same = len(shape) <= held.dim() and all(n in (1, m) for n, m in sizes)
        return same and facts.exact and facts.finite and not handle.dtype().is_complex

    return fits


def _updated(at: int, added: int, dtype: DataType) -> Step:
    return lambda fd, v: fd.ops.cast(fd.ops.add(v[at], v[added]), dtype)


def _written(
    draw: st.DrawFn,
    handles: Sequence[Handle],
    outputs: Sequence[int],
    declared: Sequence[torch.Tensor | Number],
) -> dict[int, int]:
    """Outputs, by their number, and the inputs they are written to: none that is an output, or
    shares memory with another, and none whose elements overlap."""
    written: dict[int, int] = {}
    memory: set[int] = set()
    for at, held in enumerate(declared):
        if not isinstance(held, torch.Tensor) or at in outputs or overlaps_itself(held):
            continue
        fitting = [
            number
            for number, output in enumerate(outputs)
            if number not in written
            and handles[output].value.shape == held.shape
            and handles[output].dtype().torch is held.dtype
            and held.untyped_storage().data_ptr() not in memory
        ]
        number = draw(st.sampled_from([None, *fitting]))
        if number is not None:
            written[number] = at
            memory.add(held.untyped_storage().data_ptr())
    return written


def _declare(
    fd: FusionDefinition, inputs: Sequence[torch.Tensor | Number], kind: str
) -> list[Handle]:
    """Inputs of the sizes there are, of any sizes, or of any sizes and strides."""

    def declared(given: torch.Tensor | Number) -> Handle:
        if not isinstance(given, torch.Tensor):
            return fd.define_scalar(_SCALARS[type(given)])
        if kind != "any layout" or given.dtype is torch.float4_e2m1fn_x2:
            return fd.from_pytorch(given, static_sizes=kind == "static")
        shape = [-1] * given.dim()
        return fd.define_tensor(shape=shape, contiguity=False, dtype=_dtype_of(given))

    return [declared(given) for given in inputs]


def _dtype_of(given: torch.Tensor) -> DataType:
    dtype = from_torch(given.dtype)
    assert dtype is not None
    return dtype


_SCALARS = {
    float: DataType.Double,
    int: DataType.Int,
    bool: DataType.Bool,
    complex: DataType.ComplexDouble,
}
