"""What is made in 32 bits of what has 64, with the oracle's numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Broadcast, Cast, Expand, Fusion, Gather, Permute, Value
from fuser.passes.known_indices import mark_known_indices
from fuser.passes.narrow_integers import narrow_integers
from tests.definitions import only_kernel
from tests.passes.rewriting import Draft, rewritten

INT, INT32, FLOAT = DataType.Int, DataType.Int32, DataType.Float

BYTES = torch.tensor([[0, 3, 200], [7, 255, 90]], dtype=torch.uint8)


def narrow(fusion: Fusion) -> Fusion:
    return narrow_integers(mark_known_indices(fusion))


def of_bytes(draft: Draft) -> Value:
    return draft.add(Cast(draft.tensor(BYTES), INT))


def integers(fusion: Fusion) -> set[DataType]:
    """The types of whole numbers that tensors are made of."""
    made = (out for statement in fusion.statements for out in statement.outs if out.is_tensor)
    return {out.dtype for out in made} & {INT, INT32}


def types_of(make: Callable[[Draft, Value], Value]) -> set[DataType]:
    """The types of integers that a float is made of, which `make` makes of bytes."""
    draft = Draft()
    draft.out(draft.add(Cast(make(draft, of_bytes(draft)), FLOAT)))
    return integers(rewritten(narrow, draft))


FUNCTIONS: dict[str, Callable[[Draft, Value], Value]] = {
    "add": lambda draft, x: draft.pointwise("add", x, draft.number(2**31 - 1 - 255)),
    "sub": lambda draft, x: draft.pointwise("sub", draft.number(-(2**31) + 255), x),
    "mul": lambda draft, x: draft.pointwise("mul", x, x),
    "neg": lambda draft, x: draft.pointwise("neg", x),
    "clamp": lambda draft, x: draft.pointwise("clamp", x, draft.number(5), draft.number(99)),
    "remainder": lambda draft, x: draft.pointwise("remainder", x, draft.number(7)),
    "floor_divide": lambda draft, x: draft.pointwise("floor_divide", x, draft.number(7)),
    "bitwise_and": lambda draft, x: draft.pointwise("bitwise_and", x, draft.number(15)),
    "where": lambda draft, x: draft.pointwise(
        "where", draft.pointwise("lt", x, draft.number(9)), x, draft.number(-1)
    ),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_what_fits_has_32_bits(name: str) -> None:
    assert types_of(FUNCTIONS[name]) == {INT32}


@pytest.mark.parametrize("number", [2**31 - 255, -(2**31) - 1])
def test_what_may_not_fit_has_64(number: int) -> None:
    assert types_of(lambda draft, x: draft.pointwise("add", x, draft.number(number))) == {INT}


def test_what_has_no_bounds_has_64() -> None:
    draft = Draft()
    at = draft.add(Cast(draft.tensor(torch.tensor([3.0, 1e12, -7.5])), INT))
    draft.out(draft.add(Cast(draft.pointwise("add", at, draft.number(1)), FLOAT)))
    assert integers(rewritten(narrow, draft)) == {INT}


def test_an_output_is_made_as_wide_as_it_is() -> None:
    draft = Draft()
    draft.out(draft.pointwise("mul", draft.pointwise("neg", of_bytes(draft)), draft.number(3)))
    assert integers(rewritten(narrow, draft)) == {INT}


def test_of_two_readers_one_may_read_64_bits() -> None:
    draft = Draft()
    at = draft.pointwise("remainder", of_bytes(draft), draft.number(8))
    y = draft.pointwise("sub", at, draft.number(-1))
    draft.out(y, draft.add(Gather("gather", draft.tensor(torch.randn(9, 3)), y, 0)))
    after = rewritten(narrow, draft)
    gather = next(s.op for s in after.statements if isinstance(s.op, Gather))
    assert isinstance(gather.index, Value)
    assert (gather.index.dtype, after.output_values[0].dtype) == (INT32, INT)


def test_an_output_that_lies_as_its_operand_does_is_left() -> None:
    """A conversion would have strides of its own."""
    draft = Draft()
    at = draft.pointwise("remainder", of_bytes(draft), draft.number(8))
    y = draft.add(Expand(draft.add(Broadcast(at, (True, False, False))), (4, 2, 3)))
    table = draft.tensor(torch.randn(8, 2, 3))
    draft.out(y, draft.add(Gather("gather", table, y, 0)))
    after = rewritten(narrow, draft)
    assert [value.dtype for value in after.output_values] == [INT, FLOAT]


def test_relabelled_elements_have_32_bits() -> None:
    def made(draft: Draft, x: Value) -> Value:
        return draft.pointwise("neg", draft.add(Permute(x, (1, 0))))

    assert types_of(made) == {INT32}


def test_comparisons_are_of_32_bits_if_both_sides_fit() -> None:
    def compared(draft: Draft, other: Value) -> Fusion:
        x = draft.pointwise("mul", of_bytes(draft), draft.number(3))
        draft.out(draft.pointwise("lt", x, other))
        return rewritten(narrow, draft)

    draft = Draft()
    assert integers(compared(draft, draft.number(2**31 - 1))) == {INT32}
    draft = Draft()
    assert integers(compared(draft, draft.number(2**31))) == {INT}
    draft = Draft()
    assert integers(compared(draft, draft.tensor(torch.tensor([1, 2**40, -9])))) == {INT}


@pytest.mark.parametrize("size", [255, 256])
def test_indices_are_narrow_where_they_are_known_to_be_in_range(size: int) -> None:
    """One that is not is checked as what was given, and reported so."""
    draft = Draft()
    at = draft.pointwise("sub", draft.number(255), of_bytes(draft))
    table = draft.tensor(torch.randn(size, 3))
    draft.out(draft.add(Gather("gather", table, at, 0)))
    assert integers(rewritten(narrow, draft)) == ({INT32} if size == 256 else {INT})


def test_ranges_stay_indices_of_kernels() -> None:
    draft = Draft()
    places = draft.pointwise("mul", draft.range(3), draft.number(2))
    at = draft.pointwise("remainder", of_bytes(draft), draft.number(6))
    draft.out(draft.pointwise("eq", places, at))
    assert integers(rewritten(narrow, draft)) == {INT, INT32}


def test_kernels_compute_in_32_bits() -> None:
    image = torch.randn(3, 40, 64)
    with FusionDefinition() as fd:
        ops = fd.ops
        x = fd.from_pytorch(image)
        middles = (ops.cast(ops.iota(30), DataType.Float) + 0.5) * 2.0
        at = ops.cast(ops.minimum(middles, 62.5), DataType.Int)
        one, next_one = ops.index_select(x, at, 2), ops.index_select(x, at + 1, 2)
        odd = ops.eq(ops.remainder(at, 3), ops.iota(30))
        fd.add_output(ops.where(odd, one, next_one))
    fd.validate([image])
    text = only_kernel(fd, [image]).kernel
    assert "int64(int32" not in text
    assert "floor_mod(T" in text
    assert "long" not in "".join(line for line in text.splitlines() if "floor_mod" in line)
