"""What one point of a kernel's domain loads, computes and stores."""

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import Body, trace
from fuser.schedule.indices.index import Axis
from fuser.schedule.indices.rewrites import affine_parts
from fuser.schedule.tree.expressions import Convert, IndexValue, Literal, Ref
from fuser.segmenter import Segment
from tests.seeds import gelu, transpose
from tests.segmented import segment_for

Build = Callable[[FusionDefinition], None]


def segment_of(build: Build, *inputs: torch.Tensor | float) -> Segment:
    """The only kernel of a definition."""
    with FusionDefinition() as fd:
        build(fd)
    (segment,) = segment_for(fd.fusion, inputs).segments
    return segment


def body_of(build: Build, *inputs: torch.Tensor | float) -> Body:
    return arrange(trace(segment_of(build, *inputs)))


def divides(body: Body) -> bool:
    return any(
        not isinstance(term, Axis)
        for index in body.indices()
        for part in affine_parts(index)
        for term, _ in part.terms
    )


def test_the_published_gelu_is_one_axis_without_division():
    body = body_of(gelu, torch.empty(8192, 3072, device="meta"))
    assert [axis.extent for axis in body.axes] == [8192 * 3072]
    assert not divides(body)


def test_the_published_transpose_is_strided_copying_with_consecutive_rows():
    body = body_of(transpose, torch.empty(768, 128, 64, device="meta"))
    assert [axis.extent for axis in body.axes] == [64, 128, 12, 64]
    assert not divides(body)
    (load,), (store,) = body.loads, body.stores
    inner = body.axes[-1]
    assert load.at.coefficient(inner) == store.at.coefficient(inner) == 1


def test_views_that_nest_split_axes_instead_of_dividing():
    # row-major [8192, 3072] and [64, 128, 3072] read side by side, one of them permuted
    def build(fd: FusionDefinition) -> None:
        a = fd.ops.reshape(fd.ops.exp(fd.from_pytorch(x)), [4, 2, 6])
        fd.add_output(fd.ops.neg(fd.ops.permute(a, [1, 0, 2])))

    x = torch.randn(8, 6)
    assert not divides(body_of(build, x))


def test_views_that_do_not_nest_divide_in_one_kernel():
    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.add(fd.ops.exp(fd.ops.reshape(a, [8, 3])), fd.from_pytorch(y)))

    x, y = torch.randn(4, 6).t(), torch.randn(8, 3)
    assert divides(body_of(build, x, y))


def test_a_value_needed_at_two_places_is_computed_at_both():
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(x))
        fd.add_output(fd.ops.sub(y, fd.ops.permute(y, [1, 0])))

    x = torch.randn(4, 4)
    body = body_of(build, x)
    assert [load.name for load in body.loads] == ["T0", "T0_1"]
    assert [let.name for let in body.lets] == ["T1", "T1_1", "T3"]


def test_copies_and_metadata_leave_no_statement():
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.set(fd.ops.permute(fd.ops.set(fd.from_pytorch(x)), [1, 0]))
        fd.add_output(fd.ops.reshape(y, [24]))

    x = torch.randn(4, 6)
    body = body_of(build, x)
    assert body.lets == ()
    assert body.stores[0].source == Ref("T0", DataType.Float)


def test_half_precision_is_converted_where_it_is_read_and_stored():
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(x))
        fd.add_output(fd.ops.cast(y, DataType.Half))

    x = torch.randn(8).half()
    exp, narrowed = body_of(build, x).lets
    assert exp.expression.args == (Convert(Ref("T0", DataType.Half), DataType.Float),)
    assert narrowed.expression == Convert(Ref("T1", DataType.Float), DataType.Half)


def test_constants_are_literals_of_the_type_they_are_used_in():
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.mul(fd.from_pytorch(x), 0.1))

    x = torch.randn(8)
    (mul,) = body_of(build, x).lets
    (_, literal) = mul.expression.args
    assert literal == Literal(torch.tensor(0.1).item(), DataType.Float)


def test_scalars_are_computed_once_before_the_loops():
    def build(fd: FusionDefinition) -> None:
        s = fd.define_scalar(DataType.Double)
        fd.add_output(fd.ops.mul(fd.from_pytorch(x), fd.ops.exp(s)))

    x = torch.randn(8)
    body = body_of(build, 0.5, x)
    assert [let.name for let in body.prologue] == ["S2"]


def test_an_iota_reads_its_own_coordinate():
    def build(fd: FusionDefinition) -> None:
        row = fd.ops.iota(6, 0, 1, DataType.Int)
        fd.add_output(fd.ops.add(fd.from_pytorch(x), row))

    x = torch.zeros(4, 6, dtype=torch.int64)
    body = body_of(build, x)
    (index,) = [let.expression for let in body.lets if isinstance(let.expression, IndexValue)]
    assert [term.extent for term, _ in index.index.terms] == [6]


def test_stores_of_an_independent_chain_cover_every_element():
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.exp(fd.from_pytorch(x)))
        fd.add_output(fd.ops.neg(fd.from_pytorch(y)))

    x, y = torch.randn(4, 6), torch.randn(6, 4).t()
    body = body_of(build, x, y)
    assert {index.bounds() for index in body.indices()} == {(0, 23)}


@pytest.mark.parametrize("wide", [False, True])
def test_a_store_is_not_placed_through_what_reads_only_a_part_of_it(wide: bool):
    # T1 = exp(T0); T2 = T1[0:1] repeated; T3 = neg(T2): T1 is stored whole, not its first row
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(x))
        row = fd.ops.expand(fd.ops.slice(y, [0, 0], [1, 4]), [4, 4])
        fd.add_output(fd.ops.reshape(y, [2, 8]) if wide else y)
        fd.add_output(fd.ops.neg(row))

    x = torch.randn(4, 4)
    for store in body_of(build, x).stores:
        assert store.at.bounds() == (0, 15)


def test_sinks_of_different_shapes_that_nothing_relates_are_stored_in_order():
    # exp -> [0:4] (all of it) -> view [2, 8] -> neg, and exp -> mul
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(x))
        fd.add_output(fd.ops.neg(fd.ops.reshape(fd.ops.slice(y, [0, 0], [4, 4]), [2, 8])))
        fd.add_output(fd.ops.mul(y, 2.0))

    x = torch.randn(4, 4)
    body = body_of(build, x)
    assert [axis.extent for axis in body.axes] == [16]


def test_a_chain_of_fifty_views_is_one_axis():
    shapes = [[24, 8], [4, 48], [6, 32], [8, 24], [3, 64], [12, 16]]

    def build(fd: FusionDefinition) -> None:
        value = fd.from_pytorch(x)
        for step in range(50):
            value = fd.ops.reshape(fd.ops.neg(value), shapes[step % len(shapes)])
        fd.add_output(value)

    x = torch.randn(4, 6, 8)
    body = body_of(build, x)
    assert [axis.extent for axis in body.axes] == [192]


def test_an_empty_domain_is_traced():
    x = torch.empty(0, 4)
    body = body_of(
        lambda fd: fd.add_output(fd.ops.exp(fd.ops.reshape(fd.from_pytorch(x), [2, 0, 3]))), x
    )
    assert len(body.stores) == 1


def test_a_single_element_has_no_axes():
    x = torch.randn(1, 1)
    assert body_of(lambda fd: fd.add_output(fd.ops.exp(fd.from_pytorch(x))), x).axes == ()
