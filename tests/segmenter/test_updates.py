"""Inputs that are updated: which kernels may overwrite them, and in which order steps then come.

T0 -> kernel -> T1, into T0              T0 -> kernel -> T2
T0 -> kernel -> T2                  ->   T0 -> kernel -> T1, stored where T0 lay
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Extern, Permute, Pointwise, Scatter, ScatterForm, Value
from fuser.ir.strided import Strided, row_major
from fuser.ir.types import TensorType
from fuser.segmenter import Segment, SegmentedFusion, place_updates, segment

SQUARE = TensorType(DataType.Float, (4, 4))


def placed(
    builder: FusionBuilder,
    *,
    sharing: tuple[Value, ...] = (),
    refuse: Callable[[Segment], str | None] = lambda _: None,
    **strides: tuple[int, ...],
) -> SegmentedFusion:
    fusion = builder.fusion
    memory = {value: row_major(value) for value in fusion.inputs}
    memory |= {v: Strided(v, v.shape, strides[f"{v}"]) for v in memory if f"{v}" in strides}
    return place_updates(segment(fusion, memory), sharing, refuse)


def one(*args: Value, op: str = "exp") -> Pointwise:
    return Pointwise(op, args)


@pytest.fixture
def builder() -> FusionBuilder:
    return FusionBuilder()


def test_a_result_lies_where_the_input_did(builder: FusionBuilder) -> None:
    x = builder.input(SQUARE)
    (y,) = builder.add(one(x))
    builder.output(y, x)
    after = placed(builder, T0=(1, 4))
    (update,) = after.updates
    assert update.refusal is None
    assert update.bytes_copied == 0
    assert after.memory[y] == Strided(x, (4, 4), (1, 4))
    (kernel,) = after.segments
    assert kernel.overwritten == {x}


def test_readers_of_the_old_value_come_before_it_is_overwritten(builder: FusionBuilder) -> None:
    x, z = builder.input(SQUARE), builder.input(SQUARE)
    (y,) = builder.add(one(z))
    (product,) = builder.add(Extern("matmul", (x, x)))
    builder.output(y, x)
    builder.output(product)
    before = segment(builder.fusion, {v: row_major(v) for v in (x, z)})
    assert [step.name for step in placed(builder).steps] == ["matmul", "kernel0"]
    assert {step.name for step in before.steps} == {"matmul", "kernel0"}


def test_a_reader_that_needs_the_new_value_keeps_the_old_one(builder: FusionBuilder) -> None:
    x = builder.input(SQUARE)
    (y,) = builder.add(one(x))
    (product,) = builder.add(Extern("matmul", (x, y)))
    builder.output(y, x)
    builder.output(product)
    after = placed(builder)
    (update,) = after.updates
    assert update.refusal == f"the old {x} is read by what needs {y}"
    assert update.bytes_copied == 2 * 64
    assert after.memory[y].base is y


def test_a_scatter_in_place_is_in_no_other_updates_way(builder: FusionBuilder) -> None:
    """It stores to the buffer that it reads."""
    x, z = builder.input(SQUARE), builder.input(SQUARE)
    index = builder.input(TensorType(DataType.Int, (4,)))
    (data,) = builder.add(one(z))
    added = Scatter(data, index, z, 0, "index_add", ScatterForm.IN_PLACE)
    (scattered,) = builder.add(added)
    (y,) = builder.add(one(x))
    builder.output(y, x)
    builder.output(scattered)
    after = placed(builder)
    assert [update.refusal for update in after.updates] == [None]
    names = [str(value) for kernel in after.segments for value in kernel.stores]
    assert names.index(str(data)) < names.index(str(scattered))


def test_what_the_schedule_refuses_is_copied(builder: FusionBuilder) -> None:
    x = builder.input(SQUARE)
    (y,) = builder.add(one(x))
    builder.output(y, x)
    asked: list[Segment] = []

    def refuse(overwriting: Segment) -> str:
        asked.append(overwriting)
        return "it may not"

    after = placed(builder, refuse=refuse)
    assert [update.refusal for update in after.updates] == ["it may not"]
    assert asked[0].memory[y].base is x
    assert after.memory[y].base is y


def test_inputs_that_share_memory_are_copied_to(builder: FusionBuilder) -> None:
    x = builder.input(SQUARE)
    (y,) = builder.add(one(x))
    builder.output(y, x)
    (update,) = placed(builder, sharing=(builder.fusion.inputs[0],)).updates
    assert update.refusal == f"{x} shares memory with another input"


def test_a_view_of_what_is_stored_must_lie_as_the_input_does(builder: FusionBuilder) -> None:
    x, z = builder.input(SQUARE), builder.input(SQUARE)
    (y,) = builder.add(one(z))
    (turned,) = builder.add(Permute(y, (1, 0)))
    (product,) = builder.add(Extern("matmul", (y, y)))
    builder.output(turned, x)
    builder.output(product)
    (apart,) = placed(builder).updates
    assert apart.refusal == f"{turned} and {x} are laid out differently"
    (alike,) = placed(builder, T0=(1, 4)).updates
    assert alike.refusal is None


def test_a_kernel_is_asked_for_all_updates_at_once_and_those_it_refuses_are_copied(
    builder: FusionBuilder,
) -> None:
    inputs = [builder.input(SQUARE) for _ in range(8)]
    for x in inputs:
        (y,) = builder.add(one(x))
        builder.output(y, x)
    asked: list[int] = []

    def refuse(kernel: Segment) -> str | None:
        asked.append(len(kernel.overwritten))
        return "it is the sixth" if inputs[5] in kernel.overwritten else None

    after = placed(builder, refuse=refuse)
    assert len(after.segments) == 1
    assert [update.refusal for update in after.updates] == [
        *[None] * 5,
        "it is the sixth",
        None,
        None,
    ]
    assert asked == [8, 4, 8, 6, 5, 6, 7]  # halves, each with what is placed already
    assert after.segments[0].overwritten == {x for x in inputs if x is not inputs[5]}
