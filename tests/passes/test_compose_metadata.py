import torch

from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Cast,
    Expand,
    Fusion,
    Operation,
    Permute,
    Pointwise,
    Squeeze,
    Value,
    View,
)
from fuser.ir.types import TensorType
from fuser.ir.verify import verify
from fuser.passes.compose_metadata import compose_metadata
from fuser.passes.dead_code import remove_dead_code


def build(shape: tuple[int, ...], *steps: object) -> Fusion:
    """A chain: each step takes the last value and gives an operation on it."""
    builder = FusionBuilder()
    value = builder.input(TensorType(DataType.Float, shape))
    for step in steps:
        (value,) = builder.add(step(value))
    builder.output(value)
    return builder.fusion


def view(*shape: int):
    return lambda value: View(value, shape)


def permute(*dims: int):
    return lambda value: Permute(value, dims)


def operation(name: str):
    return lambda value: Pointwise(name, (value,))


def composed(fusion: Fusion) -> list[Operation]:
    """The operations left after composing and dropping dead links; the numbers stay equal."""
    after = remove_dead_code(compose_metadata(fusion))
    verify(after, "after the pass")
    given = [torch.randn(fusion.inputs[0].shape)]
    for got, want in zip(interpret(after, given), interpret(fusion, given), strict=True):
        torch.testing.assert_close(got, want)
    return [statement.op for statement in after.statements]


def input_of(fusion: Fusion) -> Value:
    return fusion.inputs[0]


def test_a_view_that_undoes_a_view_disappears():
    # T0 [8, 6] -> view [2, 4, 6] -> view [8, 6]     ->     T0
    assert composed(build((8, 6), view(2, 4, 6), view(8, 6))) == []


def test_a_chain_of_views_becomes_its_last():
    fusion = build((8, 6), view(2, 4, 6), view(48), view(6, 8))
    assert composed(fusion) == [View(input_of(fusion), (6, 8))]


def test_permutes_compose_to_one_or_to_none():
    fusion = build((2, 3, 4), permute(0, 2, 1), permute(2, 0, 1))
    assert composed(fusion) == [Permute(input_of(fusion), (1, 0, 2))]
    assert composed(build((2, 3, 4), permute(1, 2, 0), permute(2, 0, 1))) == []
    assert composed(build((2, 3), permute(0, 1))) == []


def test_views_on_either_side_of_arithmetic_are_not_composed():
    fusion = build((8, 6), view(2, 4, 6), operation("exp"), view(8, 6))
    assert [type(op) for op in composed(fusion)] == [View, Pointwise, View]


def test_a_view_between_permutes_keeps_them_apart():
    fusion = build((4, 6), permute(1, 0), view(4, 6), permute(1, 0))
    assert [type(op) for op in composed(fusion)] == [Permute, View, Permute]


def test_a_link_that_is_read_elsewhere_stays():
    # T1 = view(T0); T2 = view(T1); out T1, T2    ->    T2 = view(T0), and T1 as it was
    builder = FusionBuilder()
    x = builder.input(TensorType(DataType.Float, (8, 6)))
    (first,) = builder.add(View(x, (48,)))
    (second,) = builder.add(View(first, (6, 8)))
    builder.output(first)
    builder.output(second)
    assert composed(builder.fusion) == [View(x, (48,)), View(x, (6, 8))]


def test_what_changes_nothing_disappears():
    assert composed(build((4, 1), lambda v: Expand(v, (4, 1)))) == []
    assert composed(build((4, 1), lambda v: Squeeze(v, ()))) == []
    assert composed(build((4, 1), lambda v: Cast(v, DataType.Float))) == []
    assert composed(build((4, 6), view(4, 6))) == []
    expanded = build((4, 1), lambda v: Expand(v, (4, 3)))
    assert composed(expanded) == [s.op for s in expanded.statements]


def test_views_of_an_empty_tensor_compose():
    assert composed(build((0, 4), view(7, 0), view(0, 4))) == []


def test_casts_that_narrow_are_kept():
    fusion = build((4,), lambda v: Cast(v, DataType.Half), lambda v: Cast(v, DataType.Float))
    assert [op.dtype for op in composed(fusion)] == [DataType.Half, DataType.Float]
