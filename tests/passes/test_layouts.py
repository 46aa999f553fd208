"""What is said of strides before a fusion runs is what torch gives."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fuser import FusionDefinition
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import evaluate, interpret
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Expand,
    Flip,
    Fusion,
    Gather,
    Permute,
    Slice,
    StrideOrder,
    Value,
    View,
)
from fuser.ir.pointwise import TABLE, PointwiseOp
from fuser.passes.layouts import Layouts, Seen, layout_to_restore, seen_layouts
from tests.passes.rewriting import Draft
from tests.segmented import concrete
from tests.strategies import (
    FACTORIES,
    METADATA,
    POINTWISE,
    REDUCTIONS,
    SLICES,
    Definition,
    definitions,
)

MADE_UP = 1 << 60
"""Strides from here on are names of unknown ones."""


def layouts_of(fusion: Fusion) -> Layouts:
    layouts = Layouts(fusion)
    for statement in fusion.statements:
        layouts.follow(statement)
    return layouts


def strides(draft: Draft, value: Value) -> tuple[int, ...]:
    return layouts_of(draft.fusion)[value].strides


@given(definitions((*POINTWISE, *METADATA, *FACTORIES, *SLICES, *REDUCTIONS)))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_known_strides_are_those_of_torch(definition: Definition):
    with FusionDefinition() as fd:
        definition.build(fd)
    fusion = concrete(fd.fusion, definition.inputs)
    layouts = layouts_of(fusion)
    held: dict[Value, torch.Tensor] = {}
    for value, given_ in zip(fusion.inputs, definition.inputs, strict=True):
        held[value] = torch.as_tensor(given_)
    for statement in fusion.statements:
        results = evaluate(statement.op, held, torch.device("cpu"))
        held.update(zip(statement.outs, results, strict=True))
    for value, tensor in held.items():
        if not value.is_tensor or tensor.numel() == 0:
            continue
        pairs = zip(layouts[value].strides, tensor.stride(), tensor.shape, strict=True)
        used = [(said, real) for said, real, size in pairs if size != 1]
        if all(said < MADE_UP for said, _ in used):
            assert [said for said, _ in used] == [real for _, real in used], value


PAIRS = torch.float4_e2m1fn_x2


def as_type(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Pairs are bytes of the same bits, since no number is one."""
    return tensor.to(torch.uint8).view(PAIRS) if dtype is PAIRS else tensor.to(dtype)


@pytest.mark.parametrize("row", TABLE.values(), ids=lambda row: row.name)
def test_a_result_follows_the_operand_that_torch_follows(row: PointwiseOp):
    # Each operand row-major, transposed or of one dimension.
    kinds = [torch.ones(3, 4), torch.ones(4, 3).t(), torch.ones(4)]
    letters = {"f": torch.float32, "i": torch.int32, "c": torch.complex64, "p": PAIRS}
    as_dtype = next(dtype for letter, dtype in letters.items() if letter in row.accepts)
    for kind in itertools.product(kinds, repeat=row.arity):
        draft = Draft()
        args = [draft.tensor(as_type(tensor, as_dtype)) for tensor in kind]
        if row.name == "where":
            args[0] = draft.pointwise("ne", args[0], args[0])
        out = draft.out(draft.pointwise(row.name, *args)).fusion.output_values[0]
        (result,) = interpret(draft.fusion, draft.inputs)
        assert strides(draft, out) == result.stride(), [t.stride() for t in kind]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(3, 4),
        torch.empty(4, 3).t(),
        torch.empty(2, 3, 4).permute(1, 2, 0),
        torch.empty(3, 1).expand(3, 4),
        torch.empty(4, 1, 3),
    ],
)
def test_declared_strides_are_known(tensor: torch.Tensor):
    draft = Draft()
    found = strides(draft, draft.tensor(tensor))
    pairs = zip(found, tensor.stride(), tensor.shape, strict=True)
    assert all(said == real for said, real, size in pairs if size != 1)


def test_undeclared_strides_are_unknown_but_the_same_after_a_chain_that_undoes_itself():
    draft = Draft()
    x = draft.tensor(torch.empty(8, 6), declared=False)
    back = draft.add(Permute(draft.add(Permute(x, (1, 0))), (1, 0)))
    split = draft.add(View(draft.add(View(x, (2, 4, 6))), (8, 6)))
    merged = draft.add(View(draft.add(View(x, (48,))), (8, 6)))

    assert min(strides(draft, x)) >= MADE_UP
    assert strides(draft, back) == strides(draft, x) == strides(draft, split)
    assert strides(draft, merged) != strides(draft, x)  # the first view may be a copy


def test_casts_of_an_unknown_tensor_lie_alike_whatever_the_types():
    draft = Draft()
    x = draft.tensor(torch.empty(8, 6), declared=False)
    once = draft.add(Cast(x, DataType.Half))
    twice = draft.add(Cast(draft.add(Cast(x, DataType.Double)), DataType.Half))
    assert strides(draft, once) == strides(draft, twice) != strides(draft, x)


def test_a_slice_of_a_dense_tensor_is_not_dense():
    draft = Draft()
    x = draft.tensor(torch.empty(8, 6), declared=False)
    y = draft.add(Cast(x, DataType.Half))
    part = draft.add(Slice(y, (0, 0), (4, 3), (1, 1)))
    assert strides(draft, part) == strides(draft, y)
    assert strides(draft, draft.add(Cast(part, DataType.Float))) != strides(draft, part)


def test_gathers_are_row_major_but_select_is_a_part_of_its_data():
    draft = Draft()
    x = draft.tensor(torch.empty(4, 8).t())
    index = draft.tensor(torch.zeros(3, dtype=torch.long))
    assert strides(draft, draft.add(Gather("index_select", x, index, 0))) == (4, 1)
    selected = draft.add(Gather("select", x, draft.number(1), 1))
    assert strides(draft, selected) == (1,)
    assert layouts_of(draft.fusion)[selected].base == x


def test_a_flip_is_a_copy_in_the_order_of_its_operand():
    draft = Draft()
    x = draft.tensor(torch.empty(4, 8).t())
    assert strides(draft, draft.add(Flip(x, (0,)))) == (1, 8)


def test_a_stride_order_is_dense_in_that_order():
    draft = Draft()
    x = draft.tensor(torch.empty(4, 8))
    assert strides(draft, draft.add(StrideOrder(x, (0, 1)))) == (1, 4)


def test_outputs_show_the_memory_of_what_is_relabelled_and_the_order_of_what_is_computed_on():
    draft = Draft()
    x, y = draft.tensor(torch.empty(4, 8)), draft.tensor(torch.empty(4, 8))
    gone = draft.pointwise("exp", x)
    computed = draft.pointwise("neg", y)
    draft.out(draft.add(Permute(computed, (1, 0))))

    seen = seen_layouts(draft.fusion)

    assert seen[computed] is Seen.MEMORY
    assert seen[y] is Seen.ORDER
    assert gone not in seen


def test_a_view_shows_gaps_of_what_is_computed_on():
    draft = Draft()
    x = draft.tensor(torch.empty(4, 8))
    draft.out(draft.pointwise("exp", draft.add(View(x, (32,)))))
    draft.out(draft.pointwise("exp", draft.add(View(x, (16, 2)))))
    assert seen_layouts(draft.fusion)[x] is Seen.MEMORY


def test_only_a_dense_tensor_of_its_own_can_be_laid_out_again():
    draft = Draft()
    x = draft.tensor(torch.empty(8, 4).t())
    y = draft.pointwise("exp", x)
    row = draft.add(Expand(draft.add(Broadcast(y, (True, False, False))), (3, 4, 8)))
    layouts = layouts_of(draft.fusion)

    assert layout_to_restore(y, layouts[y]) == (0, 1)
    assert layout_to_restore(row, layouts[row]) is None
