"""Kernels with reductions. Pictures: [a b] is one kernel, `x | y` a boundary."""

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.segmenter.rows import MAX_EPILOGUE
from tests.segmented import segment_for
from tests.segmenter.definition import Definition, kernels, refusals


def softmax(d: Definition, x: Handle, dim: int) -> Handle:
    e = d.ops.exp(d.ops.sub(x, d.ops.max(x, [dim], keepdim=True)))
    return d.ops.div(e, d.ops.sum(e, [dim], keepdim=True))


def layernorm(d: Definition, x: Handle) -> Handle:
    variance, mean = d.ops.var_mean(x, [-1], correction=0, keepdim=True)
    return d.ops.mul(d.ops.sub(x, mean), d.ops.rsqrt(d.ops.add(variance, 1e-5)))


def test_a_softmax_is_one_kernel_along_any_dimension():
    # [max sub exp sum div]
    for dim in (0, 1, 2):
        d = Definition((6, 5, 4))
        segmented = d.segment(softmax(d, d.handles[0], dim))
        assert kernels(segmented) == ["max sub exp sum div"]
        assert segmented.segments[0].bytes_read == segmented.segments[0].bytes_written == 6 * 5 * 16


def test_a_normalization_with_work_around_it_is_one_kernel():
    # residual add -> layernorm -> scale, bias -> gelu-like tail
    d = Definition((8, 6), (8, 6), (6,), (6,))
    x, residual, weight, bias = d.handles
    total = d.ops.add(x, residual)
    y = d.ops.add(d.ops.mul(layernorm(d, total), weight), bias)
    segmented = d.segment(total, d.ops.tanh(y))
    assert len(segmented.segments) == 1
    assert segmented.segments[0].bytes_written == 2 * 8 * 6 * 4


def test_a_view_that_splits_rows_stays_inside():
    # softmax over the last of [2, 4, 6], seen as [8, 6] before and after
    d = Definition((8, 6))
    y = softmax(d, d.ops.neg(d.ops.reshape(d.handles[0], [2, 4, 6])), 2)
    assert len(d.segment(d.ops.neg(d.ops.reshape(y, [8, 6]))).segments) == 1


def test_two_norms_over_different_dimensions_are_two_kernels():
    # [softmax over 1] | [softmax over 0]
    d = Definition((8, 6))
    segmented = d.segment(softmax(d, softmax(d, d.handles[0], 1), 0))
    assert kernels(segmented) == ["max sub exp sum div", "max sub exp sum div"]
    assert "of every row after T6 of all rows" in refusals(segmented)


def test_sums_over_rows_and_columns_of_one_tensor_share_a_kernel():
    # T0 -> [sum over 0, sum over 1, sum over both]: T0 is read once
    d = Definition((8, 6))
    (x,) = d.handles
    segmented = d.segment(d.ops.sum(x, [0]), d.ops.sum(x, [1]), d.ops.sum(x))
    assert kernels(segmented) == ["sum sum sum"]
    assert segmented.segments[0].bytes_read == 8 * 6 * 4


def test_the_backward_pass_of_a_layernorm_is_one_kernel():
    # dx needs sums along rows, dw and db sums over rows
    d = Definition((8, 6), (8, 6), (6,), (8, 1), (8, 1))
    x, grad, weight, mean, rstd = d.handles
    normed = d.ops.mul(d.ops.sub(x, mean), rstd)
    scaled = d.ops.mul(grad, weight)
    a = d.ops.mean(scaled, [1], keepdim=True)
    b = d.ops.mean(d.ops.mul(scaled, normed), [1], keepdim=True)
    dx = d.ops.mul(rstd, d.ops.sub(d.ops.sub(scaled, a), d.ops.mul(normed, b)))
    dw, db = d.ops.sum(d.ops.mul(grad, normed), [0]), d.ops.sum(grad, [0])
    segmented = d.segment(dx, dw, db)
    assert len(segmented.segments) == 1


def test_a_sum_over_rows_may_be_finished_by_arithmetic():
    # softmax-free mean loss: [neg sum cast div]
    d = Definition((8, 6))
    row = d.ops.sum(d.handles[0], [1])
    loss = d.ops.div(d.ops.sum(d.ops.neg(row), [0]), 8.0)
    assert kernels(d.segment(loss)) == ["sum neg sum div"]


@pytest.mark.parametrize("swapped", [False, True])
def test_sums_of_columns_and_of_all_may_be_finished_together(swapped: bool):
    # [row sum, mul, sums over the rows, div], whichever is divided
    d = Definition((40, 3, 64))
    (x,) = d.handles
    scaled = d.ops.mul(x, d.ops.sum(x, [1, 2], keepdim=True))
    sums = d.ops.sum(scaled, [0, 2]), d.ops.sum(scaled, [0, 1, 2])
    segmented = d.segment(scaled, d.ops.div(*(sums[::-1] if swapped else sums)))
    assert kernels(segmented) == ["sum mul sum sum div"]


def test_rows_that_need_a_sum_of_all_rows_are_another_kernel():
    # [sum over 1] -> minus its total: every row would wait for all
    d = Definition((8, 6))
    row = d.ops.sum(d.handles[0], [1])
    segmented = d.segment(d.ops.sub(row, d.ops.sum(row, [0])))
    assert len(segmented.segments) == 2
    assert refusals(segmented)


def test_a_column_sum_needed_at_every_element_is_another_kernel():
    # layernorm, then minus the mean over rows: known when all rows are done
    d = Definition((8, 6))
    y = layernorm(d, d.handles[0])
    segmented = d.segment(d.ops.sub(y, d.ops.mean(y, [0], keepdim=True)))
    assert len(segmented.segments) == 2


def test_what_one_block_would_have_to_finish_is_another_kernel():
    # column sums of [4, n] beside row sums, and a tail over the n columns
    n = MAX_EPILOGUE + 8
    d = Definition((4, n))
    (x,) = d.handles
    norm = layernorm(d, x)
    columns = d.ops.exp(d.ops.sum(norm, [0]))
    segmented = d.segment(norm, columns)
    assert "would be finished by one block" in refusals(segmented)


def test_row_values_are_not_read_from_other_rows():
    # s = sum over 1; s + flip(s): row i needs row n - i
    d = Definition((8, 6))
    total = d.ops.sum(d.handles[0], [1])
    segmented = d.segment(d.ops.add(total, d.ops.flip(total, [0])))
    assert len(segmented.segments) == 2
    assert "of other rows than its own" in refusals(segmented)


def test_a_tensor_plus_its_transpose_after_a_softmax_is_another_kernel():
    d = Definition((6, 6))
    y = softmax(d, d.handles[0], 1)
    segmented = d.segment(d.ops.add(y, d.ops.permute(y, [1, 0])))
    assert len(segmented.segments) == 2


def test_a_softmax_of_a_slice_computes_what_it_needs():
    # exp -> slice -> softmax: the exp is computed at the slice only
    d = Definition((8, 6))
    part = d.ops.slice(d.ops.exp(d.handles[0]), [0, 0], [8, 4])
    segmented = d.segment(softmax(d, part, 1))
    assert len(segmented.segments) == 1
    assert segmented.segments[0].bytes_read <= 8 * 6 * 4


def test_a_slice_of_a_softmax_is_stored_alone():
    d = Definition((8, 6))
    y = d.ops.slice(softmax(d, d.handles[0], 1), [0, 0], [8, 2])
    segmented = d.segment(y)
    assert len(segmented.segments) == 1
    assert segmented.segments[0].bytes_written == 8 * 2 * 4


def test_independent_softmaxes_over_one_domain_share_a_launch():
    d = Definition((8, 6), (8, 6))
    a, b = d.handles
    assert len(d.segment(softmax(d, a, 1), softmax(d, b, 1)).segments) == 1


def test_a_row_that_is_one_number_for_a_large_tensor_is_not_kept_in_one_kernel():
    # x / sum(x) over 2^26 elements: one row would leave most of the processor idle
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        fd.add_output(fd.ops.div(x, fd.ops.sum(x)))
    segmented = segment_for(fd.fusion, [torch.empty(8192, 8192, device="meta")])
    assert kernels(segmented) == ["sum", "div"]
    assert "too few rows" in refusals(segmented)


def test_a_long_row_alone_is_still_one_kernel():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        e = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
        fd.add_output(fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True)))
    segmented = segment_for(fd.fusion, [torch.empty(1, 262144, device="meta")])
    assert len(segmented.segments) == 1


def test_a_value_for_no_row_is_another_kernel():
    # a scaled weight is an output beside a layernorm that uses it
    d = Definition((8, 6), (6,))
    x, weight = d.handles
    scaled = d.ops.mul(weight, 2.0)
    segmented = d.segment(scaled, d.ops.mul(layernorm(d, x), scaled))
    assert len(segmented.segments) == 2
    assert "belongs to several of the 8 rows" in refusals(segmented)


def test_a_mask_per_row_is_stored_by_the_kernel_that_has_the_rows():
    d = Definition((8, 6))
    target = d.index(6, 8)
    kept = d.ops.ne(target, 3)
    y = d.ops.mul(softmax(d, d.handles[0], 1), d.ops.broadcast(kept, [False, True]))
    segmented = d.segment(kept, y)
    assert len(segmented.segments) == 1


def test_reductions_of_rows_to_fewer_dimensions_are_one_kernel():
    d = Definition((4, 6, 5))
    (x,) = d.handles
    segmented = d.segment(d.ops.sum(d.ops.max(x, [2]), [0]), d.ops.min(x, [0, 2]))
    assert kernels(segmented) == ["max sum min"]


def test_so_are_gradients_of_channels_beside_those_of_their_groups():
    # a group is two channels: rows are 4 images x 3 groups, channels are 3 x 2
    d = Definition((4, 3, 2, 5), (4, 3, 2, 5))
    x, grad = d.handles
    normal = d.ops.sub(x, d.ops.mean(x, [2, 3], keepdim=True))
    of_channels = [d.ops.sum(d.ops.mul(grad, normal), [0, 3]), d.ops.sum(grad, [0, 3])]
    segmented = d.segment(d.ops.mul(grad, normal), *of_channels)
    assert len(segmented.segments) == 1


def test_reductions_of_what_rows_share_are_two_kernels_that_say_why():
    d = Definition((4, 6, 5), (6, 5))
    x, y = d.handles
    segmented = d.segment(d.ops.mul(d.ops.max(x, [2]), d.ops.sum(y, [1])))
    assert kernels(segmented) == ["sum", "max mul"]
    assert "T3 is reduced to 6 rows, while others have 4 x 6 rows" in refusals(segmented)


def test_reductions_to_bool_and_index_are_rows_too():
    d = Definition((8, 6))
    (x,) = d.handles
    segmented = d.segment(d.ops.argmax(x, [1]), d.ops.any(d.ops.gt(x, 1.0), [1]))
    assert len(segmented.segments) == 1
    assert [value.dtype for value in segmented.segments[0].stores] == [DataType.Int, DataType.Bool]


def test_a_variance_over_rows_takes_another_kernel():
    # sum along rows -> var over rows: the mean of all rows comes first
    d = Definition((8, 6))
    segmented = d.segment(d.ops.var(d.ops.sum(d.handles[0], [1]), [0]))
    assert kernels(segmented) == ["sum", "var"]
    assert "a variance over rows, has to know their mean first" in refusals(segmented)


def rows_of(shape: tuple[int, ...], *dims: list[int]) -> list[int]:
    """The sizes of the rows of the only kernel that sums over these."""
    d = Definition(shape)
    (segment,) = d.segment(*(d.ops.sum(d.handles[0], each) for each in dims)).segments
    assert segment.rows is not None
    return segment.atoms.sizes(segment.rows)


def test_rows_go_along_the_last_dimension_where_reductions_keep_different_ones():
    # of [6, 8], rows of 8: neighbours in memory; that there are more columns than rows is no reason
    assert rows_of((6, 8), [0], [1]) == [6]
    assert rows_of((6, 8), [0], [0, 1]) == [6]  # which neither keeps
    assert rows_of((6, 8), [0]) == [8]
    assert rows_of((3, 7, 2, 2), [0, 2, 3], [1]) == [7]


def normalized(over: list[int], sizes: tuple[int, ...], dtype: DataType) -> list[str]:
    """The kernels of a normalization over dimensions of a tensor, on a GPU."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * len(sizes), dtype=dtype)
        wide = fd.ops.cast(x, DataType.Float)
        variance, mean = fd.ops.var_mean(wide, over, 0, True)
        fd.add_output(fd.ops.cast((wide - mean) * fd.ops.rsqrt(variance + 1e-5), dtype))
    return kernels(segment_for(fd.fusion, [torch.empty(sizes, dtype=dtype.torch, device="meta")]))


@pytest.mark.parametrize(
    ("over", "sizes", "together"),
    [
        ([1], (4, 1 << 18), True),  # a cluster keeps it
        ([1], (4, 1 << 20), False),  # no cluster has room for it
        ([1], (256, 1 << 20), True),
        ([1], (4, 1 << 10), True),
        ([0, 2], (256, 3, 1024), True),  # as long as the first, in pieces
        ([0, 2], (512, 3, 1024), False),
        ([0, 2], (256, 256, 1024), True),
        ([0, 2], (64, 64, 1 << 14), False),
        ([0, 2], (16, 3, 64), True),
    ],
)
def test_few_rows_that_a_gpu_cannot_keep_are_not_one_kernel(
    over: list[int], sizes: tuple[int, ...], together: bool
):
    """Each would have one block, which reads it three times."""
    assert (len(normalized(over, sizes, DataType.Float)) == 1) == together


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ((16, 1 << 16), False),  # 16 blocks
        ((4096, 1 << 17), False),  # no block has room for a row
        ((4096, 1 << 12), True),
        ((16, 1 << 10), True),  # another launch takes longer
    ],
)
def test_rows_that_are_folded_over_each_other_have_one_block_each_on_a_gpu(
    sizes: tuple[int, int], together: bool
):
    with FusionDefinition() as fd:
        g, x = (fd.define_tensor([-1, -1]) for _ in range(2))
        along = fd.ops.sum(g * x, [1], keepdim=True)
        fd.add_output(g - along * x)
        fd.add_output(fd.ops.sum(g * x, [0]))
    inputs = [torch.empty(sizes, device="meta") for _ in range(2)]
    assert (len(kernels(segment_for(fd.fusion, inputs))) == 1) == together


@pytest.mark.parametrize(
    ("length", "tensors", "again"), [(1 << 18, 2, 2), (1 << 16, 2, 0), (1 << 18, 1, 0)]
)
def test_what_a_row_keeps_of_several_tensors_takes_room_together(
    length: int, tensors: int, again: int
):
    """As its threads keep all of it, or nothing."""
    with FusionDefinition() as fd:
        given = [fd.define_tensor([-1, -1]) for _ in range(tensors)]
        g, x = given[0], given[-1]
        fd.add_output(g - fd.ops.sum(g * x, [1], keepdim=True) * x)
    inputs = [torch.empty(512, length, device="meta") for _ in given]
    (kernel,) = segment_for(fd.fusion, inputs).segments
    assert kernel.bytes_read_again == again * inputs[0].nbytes


def test_casts_of_what_is_in_memory_are_not_moved():
    """So a few rows of 16-bit floats are not one kernel of few blocks that casts them once."""
    assert len(normalized([0, 2], (64, 64, 1 << 14), DataType.BFloat16)) > 1


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "together"),
    [
        (1 << 16, 256, DataType.Float, False),  # 8 blocks, each of which reads three times
        (1 << 13, 4096, DataType.Float, False),
        (1 << 13, 1 << 14, DataType.Float, True),
        (1024, 1024, DataType.Float, True),  # shared memory keeps 32 columns
        (2048, 1024, DataType.Float, False),
        (2048, 1024, DataType.BFloat16, True),
        (64, 16, DataType.Float, True),
    ],
)
def test_few_columns_are_not_one_kernel(rows: int, columns: int, dtype: DataType, together: bool):
    """A block has 32 of them: a GPU needs more columns than rows."""
    assert (len(normalized([0], (rows, columns), dtype)) == 1) == together


@pytest.mark.parametrize("channels_last", [False, True])
def test_channels_are_columns_where_they_are_last_in_memory(channels_last: bool):
    form = torch.channels_last if channels_last else torch.contiguous_format
    images = torch.empty(64, 256, 56, 56, device="meta").to(memory_format=form)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(images)
        variance, mean = fd.ops.var_mean(x, [0, 2, 3], 0, True)
        fd.add_output((x - mean) * fd.ops.rsqrt(variance + 1e-5))
    segmented = segment_for(fd.fusion, [images])
    assert (len(segmented.segments) == 1) != channels_last


def test_what_kernels_make_is_taken_to_lie_as_what_they_read():
    """Channels are columns of the gradient too: no kernel both sums it over them and goes on."""
    images = torch.empty(64, 128, 28, 28, device="meta").to(memory_format=torch.channels_last)
    with FusionDefinition() as fd:
        given, x = fd.from_pytorch(images), fd.from_pytorch(images)
        mean = fd.from_pytorch(torch.empty(1, 128, 1, 1, device="meta"))
        grad = fd.ops.where(x > 0.0, given, 0.0)
        away = x - mean
        along = fd.ops.sum(grad * away, [0, 2, 3], True)
        fd.add_output(along)
        fd.add_output(grad - fd.ops.sum(grad, [0, 2, 3], True) * 1e-5 - away * along)
    number = torch.empty(1, 128, 1, 1, device="meta")
    segmented = segment_for(fd.fusion, [images, images, number])
    folding = [each for each in segmented.segments if each.rows is not None]
    assert folding
    assert all(value.elements == 128 for each in folding for value in each.stores)


def test_a_row_of_which_nothing_is_kept_has_one_block():
    """T1 is loaded once, but after what T0 comes to: no blocks share the row."""

    def segments(rows: int) -> int:
        sizes = (rows, 1 << 20)
        with FusionDefinition() as fd:
            x, y = (fd.define_tensor([-1, -1]) for _ in range(2))
            fd.add_output(y - fd.ops.sum(x, [1], True))
        given = [torch.empty(sizes, device="meta") for _ in range(2)]
        return len(segment_for(fd.fusion, given).segments)

    assert (segments(4), segments(256)) == (2, 1)


@pytest.mark.parametrize(("columns", "together"), [(1 << 19, True), (1 << 20, False)])
def test_what_a_gpu_keeps_of_a_row_is_what_it_loads(columns: int, together: bool):
    """Bytes of 16-bit floats: what they are as wider ones is made again."""
    assert (len(normalized([1], (4, columns), DataType.BFloat16)) == 1) == together


@pytest.mark.parametrize("scanned", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "count"), [(4, 1 << 20, 2), (4, 64, 1), (512, 8192, 1)]
)
def test_folds_over_few_rows_are_not_in_their_kernel(
    scanned: bool, rows: int, columns: int, count: int
):
    """Without them, many blocks share each row."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        fd.add_output(fd.ops.cumsum(x, 1) if scanned else fd.ops.sum(x, [1]))
        fd.add_output(fd.ops.sum(x, [0, 1]))
    segmented = segment_for(fd.fusion, [torch.empty(rows, columns, device="meta")])
    assert len(segmented.segments) == count
    assert ("too few rows" in refusals(segmented)) == (count == 2)
