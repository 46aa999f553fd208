"""Memory of flipped tensors: an alias where nothing moves, else laid out as torch lays it out."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType
from fuser.ir.extern_memory import extern_memory
from fuser.ir.nodes import (
    Cast,
    CheckIndex,
    Constant,
    Extern,
    Flip,
    Gather,
    Pointwise,
    StrideOrder,
    Value,
)
from fuser.ir.strided import (
    Strided,
    alias,
    dense,
    eager_memory,
    order_of,
    row_major,
)
from fuser.ir.types import TensorType
from tests.strategies import tensors


def lies(value: Value, tensor: torch.Tensor) -> Strided:
    return Strided(value, tuple(tensor.shape), tuple(tensor.stride()))


def operand(*shape: int, dtype: DataType = DataType.Float) -> tuple[FusionBuilder, Value]:
    builder = FusionBuilder()
    return builder, builder.input(TensorType(dtype, shape))


@given(tensors([DataType.Float]), st.data())
def test_a_flip_is_laid_out_as_in_torch(tensor: torch.Tensor, data: st.DataObject) -> None:
    dims = (
        data.draw(st.lists(st.sampled_from(range(tensor.dim())), unique=True, min_size=1))
        if (tensor.dim())
        else []
    )
    builder, value = operand(*tensor.shape)
    (out,) = builder.add(Flip(value, tuple(dims)))
    memory = eager_memory(builder.fusion.statements[0], {value: lies(value, tensor)})
    expected = tensor.flip(dims)
    assert memory.base is out
    assert memory.shape == tuple(expected.shape)
    if expected.numel():
        steps = zip(expected.shape, memory.strides, expected.stride(), strict=True)
        assert all(size == 1 or have == want for size, have, want in steps)


@pytest.mark.parametrize("sizes", [(3, 4), (1, 4), (0, 4)])
def test_a_flip_is_a_copy_where_nothing_moves_too(sizes: tuple[int, ...]) -> None:
    _, value = operand(*sizes)
    op = Flip(value, (0,))
    assert alias(op, Strided(value, sizes, (40, 2), offset=7), sizes) is None


def test_a_checked_index_keeps_its_layout() -> None:
    builder, value = operand(3, 4, dtype=DataType.Int)
    builder.add(CheckIndex(value, 5, "gather"))
    held = Strided(value, (3, 4), (1, 3))
    assert eager_memory(builder.fusion.statements[0], {value: held}) == held


@pytest.mark.parametrize("place", [0, -1])
def test_a_selected_place_lies_as_in_torch(place: int) -> None:
    tensor = torch.empty(5, 6, 7).permute(2, 1, 0)
    builder, value = operand(*tensor.shape)
    (index,) = builder.add(Constant(place, DataType.Int))
    builder.add(Gather("select", value, index, 1))
    memory = eager_memory(builder.fusion.statements[1], {value: lies(value, tensor)})
    assert memory.strides == tensor.select(1, place).stride()


def test_what_reads_a_further_result_has_a_layout_of_its_own_sizes() -> None:
    builder, query = operand(2, 3, 5, 8)
    _, logsumexp, _, _ = builder.add(Extern("sdpfa_fwd", (query, query, query)))
    builder.add(Pointwise("neg", (logsumexp,)))
    attention, negated = builder.fusion.statements
    memory = eager_memory(negated, extern_memory(attention, {query: row_major(query)}))
    assert memory.strides == (15, 5, 1)


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [
        ((4, 1, 3, 2), (1, 12, 4, 12)),  # outside of the dimension with the largest stride
        ((2, 1, 3), (1, 2, 2)),
        ((2, 1), (1, 7)),  # of row-major memory, nothing is left of the stride
        ((2, 1, 3, 4), (12, 1, 4, 1)),
        ((2, 2, 1, 3), (1, 6, 6, 2)),
    ],
)
def test_strides_of_single_elements_are_those_of_torch(
    sizes: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    builder, value = operand(*sizes)
    builder.add(Pointwise("neg", (value,)))
    tensor = torch.empty_strided(sizes, strides)
    memory = eager_memory(builder.fusion.statements[0], {value: lies(value, tensor)})
    assert memory.strides == torch.neg(tensor).stride()


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [((3, 1, 1), (1, 4, 4)), ((2, 1), (1, 7)), ((4, 1, 3, 2), (1, 12, 4, 12)), ((3, 1), (2, 1))],
)
def test_a_cast_keeps_strides_of_single_elements_where_there_are_no_gaps(
    sizes: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    builder, value = operand(*sizes)
    builder.add(Cast(value, DataType.Double))
    tensor = torch.empty_strided(sizes, strides)
    memory = eager_memory(builder.fusion.statements[0], {value: lies(value, tensor)})
    assert memory.strides == tensor.double().stride()


@given(st.permutations(range(4)), st.permutations(range(4)), st.sets(st.integers(0, 3)))
def test_strides_of_what_is_broadcast_are_those_of_torch(
    one: list[int], other: list[int], repeated: set[int]
) -> None:
    sizes = (2, 3, 4, 5)
    builder = FusionBuilder()
    left = torch.empty([sizes[dim] for dim in one]).permute([one.index(d) for d in range(4)])
    right = torch.empty([sizes[dim] for dim in other]).permute([other.index(d) for d in range(4)])
    for dim in repeated:
        left = left.narrow(dim, 0, 1).contiguous() if dim % 2 else left.narrow(dim, 0, 1)
    pair = [left, right.select(0, 0)]
    values = [builder.input(TensorType(DataType.Float, tuple(x.shape))) for x in pair]
    (out,) = builder.add(Pointwise("add", tuple(values)))
    held = {value: lies(value, x) for value, x in zip(values, pair, strict=True)}
    wanted = torch.add(*pair)
    strides = eager_memory(builder.fusion.statements[0], held).strides
    spans = zip(out.shape, strides, wanted.stride(), strict=True)
    assert all(ours == torchs for size, ours, torchs in spans if size > 1)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 3, 0, 2)])
def test_an_order_that_is_asked_for_has_dimensions_of_one_element(order: tuple[int, ...]) -> None:
    builder, value = operand(2, 1, 3, 4)
    (out,) = builder.add(StrideOrder(value, order))
    memory = eager_memory(builder.fusion.statements[0], {value: row_major(value)})
    assert dense(out, order_of(memory)) == memory
