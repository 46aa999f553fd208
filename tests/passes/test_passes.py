"""All passes, one after the other, as the pipeline runs them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Expand,
    Full,
    Fusion,
    Gather,
    Permute,
    Reduce,
    Scatter,
    View,
)
from fuser.ir.printer import print_fusion
from fuser.passes import PASSES
from tests.definitions import built
from tests.passes.drafts import draft_of_gather, draft_of_scatter
from tests.passes.rewriting import Draft, names, rewritten
from tests.segmented import concrete
from tests.strategies import (
    FACTORIES,
    METADATA,
    POINTWISE,
    REDUCTIONS,
    RESIZES,
    SLICES,
    Definition,
    definitions,
)


def run_all(fusion: Fusion) -> Fusion:
    for rewrite in PASSES:
        fusion = rewrite(fusion)
    return fusion


@pytest.mark.parametrize("make", [draft_of_gather, draft_of_scatter])
@given(st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_random_gathers_and_scatters_keep_numbers_strides_and_errors(
    make: Callable[[random.Random], Draft], seed: int
):
    rewritten(run_all, make(random.Random(seed)))


@given(definitions((*POINTWISE, *METADATA, *FACTORIES, *SLICES, *RESIZES, *REDUCTIONS)))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_definitions_keep_numbers_and_strides(definition: Definition):
    with FusionDefinition() as fd:
        definition.build(fd)
    fusion = concrete(fd.fusion, definition.inputs)
    after = run_all(fusion)
    before = interpret(fusion, definition.inputs)
    for got, want in zip(interpret(after, definition.inputs), before, strict=True):
        torch.testing.assert_close(got, want)
        pairs = zip(got.stride(), want.stride(), want.shape, strict=True)
        assert want.numel() == 0 or all(g == w for g, w, size in pairs if size != 1)


@given(st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_the_text_of_what_is_left_builds_it_again(seed: int):
    draft = draft_of_scatter(random.Random(seed))
    after = run_all(draft.fusion)
    fd = built(print_fusion(after))
    assert len(fd.fusion.statements) == len(after.statements)
    assert [v.type for v in fd.fusion.inputs] == [v.type for v in after.inputs] or any(
        v.tensor.layout is None for v in after.inputs if v.is_tensor
    )


def test_cross_entropy_reads_the_logits_at_the_targets_and_its_gradient_has_no_scatter():
    draft = Draft()
    x, target = draft.tensor(torch.randn(6, 20)), draft.tensor(torch.randint(0, 20, (6,)))
    top = draft.add(Reduce("max", x, (1,), True))
    shifted = draft.pointwise("sub", x, top)
    total = draft.add(Reduce("sum", draft.pointwise("exp", shifted), (1,), True))
    softmax = draft.pointwise("sub", shifted, draft.pointwise("log", total))
    index = draft.add(Broadcast(target, (False, True)))
    loss = draft.add(Gather("gather", softmax, index, 1))
    zeros = draft.add(Full((6, 20), draft.number(0), DataType.Float))
    gradient = draft.add(Scatter(zeros, index, draft.number(-1.0, DataType.Double), 1))
    draft.out(loss, draft.pointwise("add", draft.pointwise("exp", softmax), gradient))

    after = run_all(draft.fusion)

    assert [s.op.arg for s in after.statements if isinstance(s.op, Gather)] == [x]
    assert "scatter" not in names(after)
    assert "full" not in names(after)


def test_a_rotated_half_is_read_in_place():
    # index_select by a computed range, in and out of a permute
    draft = Draft()
    x = draft.tensor(torch.randn(4, 20, 6))
    index = draft.pointwise("add", draft.range(10), draft.number(10))
    turned = draft.add(Permute(x, (0, 2, 1)))
    half = draft.add(Gather("index_select", turned, index, 2))
    draft.out(draft.pointwise("neg", draft.add(Permute(half, (0, 2, 1)))))
    # A gather is row-major in its own dimensions, and the strides of neg show it.
    assert names(run_all(draft.fusion)) == ["permute", "slice", "stride_order", "permute", "neg"]


def test_what_is_undone_leaves_nothing_behind():
    draft = Draft()
    x = draft.tensor(torch.randn(8, 6).bfloat16())
    wide = draft.add(Cast(x, DataType.Float))
    same = draft.pointwise("mul", draft.add(View(wide, (48,))), draft.number(1.0, DataType.Double))
    narrow = draft.add(Cast(draft.add(View(same, (8, 6))), DataType.BFloat16))
    draft.out(draft.pointwise("exp", narrow))
    assert names(run_all(draft.fusion)) == ["exp"]


# -- growth --------------------------------------------------------------------------------------


def mixed(size: int) -> Fusion:
    """A definition of about `size` statements, of everything that passes rewrite."""
    rng = random.Random(0)
    draft = Draft()
    value = x = draft.tensor(torch.empty(8, 12))
    index, rows = draft.tensor(torch.zeros(8, 1).long()), draft.tensor(torch.zeros(12).long())
    two, zero = draft.number(2.0, DataType.Double), draft.number(0)
    while len(draft.fusion.statements) < size:
        match rng.randrange(10):
            case 0:
                value = draft.pointwise("exp", value)
            case 1:
                value = draft.pointwise("mul", value, draft.pointwise("mul", two, two))
            case 2:
                value = draft.add(Cast(draft.add(Cast(value, DataType.Double)), DataType.Float))
            case 3:
                value = draft.add(View(draft.add(View(value, (96,))), (8, 12)))
            case 4:
                value = draft.add(Permute(draft.add(Permute(value, (1, 0))), (1, 0)))
            case 5:
                value = draft.add(Gather("index_select", value, rows, 1))
            case 6:
                full = draft.add(Full((8, 12), zero, DataType.Float))
                value = draft.pointwise("add", value, full)
            case 7:
                total = draft.add(Reduce("sum", value, (1,), True))
                value = draft.pointwise("sub", value, draft.add(Expand(total, (8, 12))))
            case 8:
                value = draft.add(Scatter(value, index, two, 1))
            case _:
                full = draft.add(Full((8, 12), zero, DataType.Float))
                value = draft.add(Scatter(full, draft.range(12), value, 1, "index_add"))
    return draft.out(value, x).fusion


def deep(size: int) -> Fusion:
    """One chain of arithmetic, and many gathers from all along it."""
    draft = Draft()
    value = draft.tensor(torch.empty(8, 12))
    index, two = draft.tensor(torch.zeros(8, 1).long()), draft.number(2.0, DataType.Double)
    for _ in range(size // 2):
        value = draft.pointwise("mul", value, two)
        draft.out(draft.add(Gather("gather", value, index, 1)))
    return draft.fusion


def relabelled(size: int) -> Fusion:
    """One chain of views and permutes that do not compose."""
    draft = Draft()
    value = draft.tensor(torch.empty(6, 4))
    for number in range(size):
        value = draft.add(Permute(value, (1, 0)) if number % 2 else View(value, (4, 6)))
        value = draft.add(View(value, (6, 4))) if value.shape == (6, 4) else value
    return draft.out(value).fusion


def folded(size: int) -> Fusion:
    """One chain of arithmetic, and a fold of few elements, and of many, from all along it."""
    draft = Draft()
    value = draft.tensor(torch.empty(4, 12))
    for _ in range(size // 4):
        value = draft.pointwise("sin", value)
        square = draft.pointwise("mul", value, value)
        draft.out(*(draft.add(Reduce("sum", square, (dim,))) for dim in (0, 1)))
    return draft.fusion


def calls_of(fusion: Fusion) -> int:
    """How many functions the passes call; unlike time, the same on every machine."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run_all(fusion)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("make", [mixed, deep, relabelled, folded])
def test_work_grows_with_the_definition_and_no_faster(make: Callable[[int], Fusion]):
    small, large = calls_of(make(300)), calls_of(make(1200))
    assert large < 4 * 1.3 * small


def test_a_large_definition_is_rewritten_without_recursion_errors():
    after = run_all(mixed(5_000))
    assert len(after.statements) < 2 * 5_000
