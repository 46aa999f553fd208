import pytest
import torch

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Cat, Full, Pad, Slice
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
