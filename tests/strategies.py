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
    Scale,
    Writer,
    broadcast_with,
    overlaps_itself,
    shapes,
    tensors,
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
    inputs: list[torch.Tensor | float]

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
    gather, and 1 to 4 outputs, of which one may be written to an input (`in_place`). Of some
    definitions, inputs hold integers of any size, NaN and infinities, or overlap (`extremes`).
    """
    extreme = extremes and draw(st.sampled_from((False, False, False, True)))
    first = draw(tensors(dtypes, shapes(scale), extreme))
    sizes = shapes(scale) | broadcast_with(list(first.shape))
    inputs: list[torch.Tensor | float] = [
        first,
        *draw(st.lists(tensors(dtypes, sizes, extreme), max_size=2)),
    ]
    if draw(st.booleans()):
        inputs.append(draw(st.sampled_from([-1.5, 0.25, 2.0])))
    declared = tuple(inputs)
    static = draw(st.booleans())
    counts = [n for n in (1, 2, 4, 6, 8, 10, 20, 30) if min_operations <= n <= max_operations]
    with FusionDefinition() as scratch:
        writer = Writer(draw, scratch, dtypes, inputs, scale)
        writer.declare(_declare(scratch, declared, static=True), declared)
        for _ in range(draw(st.sampled_from(counts))):
            draw(st.sampled_from(list(steps)))(writer)
        tensors_made = [i for i, handle in enumerate(writer.handles) if handle.value.is_tensor]
        uses = scratch.fusion.uses()
        unread = [i for i in tensors_made if writer.handles[i].value not in uses]
        candidates = draw(st.sampled_from([unread or tensors_made, tensors_made]))
        others = draw(st.lists(st.sampled_from(candidates), max_size=3))
        outputs = list(dict.fromkeys([tensors_made[-1], *others]))
        written = _written(draw, writer.handles, outputs, declared) if in_place else None

    def build(fd: FusionDefinition) -> None:
        handles = _declare(fd, declared, static)
        for step in writer.steps:
            handles.append(step(fd, handles))
        for position in outputs:
            into = None if written is None or written[0] != position else handles[written[1]]
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


def _written(
    draw: st.DrawFn,
    handles: Sequence[Handle],
    outputs: Sequence[int],
    declared: Sequence[torch.Tensor | float],
) -> tuple[int, int] | None:
    """An output, and the input it is written to: no output, and its elements do not overlap."""
    fitting = [
        (output, at)
        for at, given in enumerate(declared)
        if isinstance(given, torch.Tensor) and not overlaps_itself(given)
        for output in outputs
        if handles[output].value.shape == given.shape
        and handles[output].dtype().torch is given.dtype
        and at not in outputs
    ]
    return draw(st.sampled_from([None, *fitting]))


def _declare(
    fd: FusionDefinition, inputs: Sequence[torch.Tensor | float], static: bool
) -> list[Handle]:
    return [
        fd.from_pytorch(given, static)
        if isinstance(given, torch.Tensor)
        else fd.define_scalar(DataType.Double)
        for given in inputs
    ]
