import pytest
import torch

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Cat, Full, Pad, Slice, Value, View
from fuser.passes.simple_resizes import simplify_resizes
from tests.passes.rewriting import Draft, names, rewritten


def padded(*widths: tuple[int, int], shape: tuple[int, ...] = (5, 6)) -> list[str]:
    """The operations left of a pad that is computed on."""
    draft = Draft()
    given = draft.tensor(torch.randn(shape))
    fill = draft.number(2.5, DataType.Float)
    draft.out(draft.pointwise("neg", draft.add(Pad(given, widths, fill))))
    return names(rewritten(simplify_resizes, draft))


def test_a_pad_that_only_cuts_is_a_slice():
    # pad(T0, [-1, -2]) -> slice(T0, [0, 1], [5, 4])
    assert padded((0, 0), (-1, -2)) == ["slice", "neg"]


def test_a_pad_of_nothing_goes_away():
    assert padded((0, 0), (0, 0)) == ["neg"]


@pytest.mark.parametrize("widths", [((0, 0), (-1, 2)), ((1, 0), (0, 0)), ((1, 1), (-1, -1))])
def test_a_pad_that_adds_elements_stays(widths: tuple[tuple[int, int], ...]):
    assert padded(*widths) == ["pad", "neg"]


def test_a_pad_of_no_elements_is_its_fill():
    assert padded((0, 0), (1, 2), shape=(5, 0)) == ["full", "neg"]


def test_a_pad_to_no_elements_is_a_constant_without_any():
    assert padded((0, 0), (-6, 0)) == ["full", "neg"]


def test_what_has_no_elements_is_left_out_of_a_concatenation():
    # cat([T0, T1, T2]), T1: Float[0, 4]  ->  cat([T0, T2])
    draft = Draft()
    parts = tuple(draft.tensor(torch.randn(size, 4)) for size in (2, 0, 3))
    draft.out(draft.add(Cat(parts, 0)))
    (statement,) = rewritten(simplify_resizes, draft).statements
    assert statement.op == Cat((parts[0], parts[2]), 0)


def test_one_that_is_left_needs_no_concatenation():
    draft = Draft()
    parts = tuple(draft.tensor(torch.randn(size, 4)) for size in (0, 3, 0))
    draft.out(draft.pointwise("neg", draft.add(Cat(parts, 0))))
    assert names(rewritten(simplify_resizes, draft)) == ["neg"]


def test_a_concatenation_of_nothing_is_a_constant():
    draft = Draft()
    draft.out(draft.add(Cat((draft.tensor(torch.empty(0, 4)), draft.tensor(torch.empty(0, 4))), 0)))
    after = rewritten(simplify_resizes, draft)
    assert [type(s.op) for s in after.statements if s.outs[0].is_tensor] == [Full]


def test_the_strides_of_an_output_stay():
    draft = Draft()
    given = draft.tensor(torch.randn(5, 6))
    draft.out(draft.add(Pad(given, ((-1, 0), (0, -2)), draft.number(0.0, DataType.Float))))
    ops = [s.op for s in rewritten(simplify_resizes, draft).statements]
    assert isinstance(ops[0], Slice)
    assert len(ops) == 2  # and a copy: what a pad makes is contiguous


def stacked(draft: Draft, count: int, shape: tuple[int, ...] = (4, 3)) -> tuple[Value, list[Value]]:
    """Tensors side by side along the first dimension, as `stack` gives them, and the tensors."""
    parts = [draft.tensor(torch.randn(shape)) for _ in range(count)]
    whole = draft.add(Cat(tuple(parts), 0))
    return draft.add(View(whole, (count, *shape))), parts


def test_what_is_stacked_is_a_dimension_of_its_own():
    # reshape(cat([T0, T1], 0), [2, 4, 3])  ->  cat([reshape(T0, [1, 4, 3]), ...], 0)
    draft = Draft()
    draft.out(stacked(draft, 2)[0])
    assert names(rewritten(simplify_resizes, draft)) == ["reshape", "reshape", "cat"]


def test_what_is_stacked_is_made_once_where_it_is_seen_flat_too():
    draft = Draft()
    parts = tuple(draft.tensor(torch.randn(4, 3)) for _ in range(3))
    flat = draft.add(Cat(parts, 0))
    rows = draft.add(View(flat, (3, 4, 3)))
    draft.out(draft.pointwise("neg", draft.add(Slice(flat, (4, 0), (8, 2), (1, 1)))))
    draft.out(flat)
    draft.out(draft.pointwise("neg", draft.add(Slice(rows, (0, 1, 0), (1, 4, 3), (1, 1, 1)))))
    draft.out(rows)
    after = rewritten(simplify_resizes, draft)
    assert sorted(names(after)) == ["cat", "neg", "neg", *["reshape"] * 4, "slice", "slice"]
    made = {statement.out: statement.op for statement in after.statements}
    sliced = [op.arg for op in made.values() if isinstance(op, Slice)]
    assert not any(isinstance(made.get(value), Cat) for value in sliced)


@pytest.mark.parametrize("shape", [(4, 2, 3), (2, 2, 2, 3), (24,)])
def test_other_views_of_a_concatenation_stay(shape: tuple[int, ...]):
    draft = Draft()
    parts = tuple(draft.tensor(torch.randn(4, 3)) for _ in range(2))
    draft.out(draft.add(View(draft.add(Cat(parts, 0)), shape)))
    assert names(rewritten(simplify_resizes, draft)) == ["cat", "reshape"]


@pytest.mark.parametrize(
    ("starts", "ends", "left"),
    [
        ((2, 1), (5, 4), ["slice"]),
        ((0, 0), (2, 4), ["slice"]),
        ((5, 0), (9, 4), ["slice"]),
        ((2, 5), (4, 7), ["slice"]),
        ((1, 0), (3, 4), ["cat", "slice"]),
        ((0, 0), (9, 2), ["cat", "slice"]),
    ],
)
def test_a_slice_of_one_part_reads_that(
    starts: tuple[int, ...], ends: tuple[int, ...], left: list[str]
):
    draft = Draft()
    parts = tuple(draft.tensor(torch.randn(size, 4)) for size in (2, 3, 4))
    part = draft.add(Slice(draft.add(Cat(parts, 0)), starts, ends, (1, 1)))
    draft.out(draft.pointwise("neg", part))
    assert names(rewritten(simplify_resizes, draft)) == [*left, "neg"]
