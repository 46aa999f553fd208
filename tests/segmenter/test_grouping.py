"""Which operations share a kernel. Pictures: [a b] is one kernel, `x | y` a boundary."""

import itertools

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion
from fuser.passes.lower_reductions import lower_reductions
from fuser.segmenter import GPU, PROCESSOR, segment
from fuser.segmenter.order import MergeOrder
from tests.segmented import concrete, memory_of, run_segmented, segment_for
from tests.segmenter.definition import Definition, kernels, refusals


def test_a_chain_is_one_kernel():
    # [exp neg abs]
    d = Definition((64, 32))
    y = d.ops.abs(d.ops.neg(d.ops.exp(d.handles[0])))
    assert kernels(d.segment(y)) == ["exp neg abs"]


def test_a_boundary_that_is_asked_for_is_kept():
    # [exp segment_set] | [neg]
    d = Definition((64, 32))
    y = d.ops.neg(d.ops.segment_set(d.ops.exp(d.handles[0])))
    segmented = d.segment(y)

    assert kernels(segmented) == ["exp segment_set", "neg"]
    assert "segment_set asks for a boundary" in refusals(segmented)
    assert "segment_set asks for a boundary" in segmented.segments[0].reason


def test_readers_of_one_input_share_a_kernel():
    # T0 -> [exp], T0 -> [neg]     ->     [exp neg]
    d = Definition((64, 32))
    x = d.handles[0]
    segmented = d.segment(d.ops.exp(x), d.ops.neg(x))
    assert kernels(segmented) == ["exp neg"]
    assert segmented.segments[0].bytes_read == 64 * 32 * 4


def test_independent_chains_over_one_domain_share_a_launch():
    # T0 -> [exp], T1 -> [neg]     ->     [exp neg]
    d = Definition((64, 32), (64, 32))
    segmented = d.segment(d.ops.exp(d.handles[0]), d.ops.neg(d.handles[1]))
    assert kernels(segmented) == ["exp neg"]


def test_independent_chains_over_different_domains_do_not():
    # T0 [64, 32] -> [exp] | T1 [32, 64] -> [neg]
    d = Definition((64, 32), (32, 64))
    segmented = d.segment(d.ops.exp(d.handles[0]), d.ops.neg(d.handles[1]))
    assert kernels(segmented) == ["exp", "neg"]


def test_a_diamond_is_one_kernel():
    #       -> neg -
    # exp -<        >- add     ->     [exp neg abs add]
    #       -> abs -
    d = Definition((64, 32))
    y = d.ops.exp(d.handles[0])
    segmented = d.segment(d.ops.add(d.ops.neg(y), d.ops.abs(y)))
    assert kernels(segmented) == ["exp neg abs add"]


def test_a_diamond_through_a_boundary_has_no_cycle():
    # exp -> segment_set -> add
    #   \--------------------/        [exp segment_set] | [exp add], never [exp add] around it
    d = Definition((64, 32))
    y = d.ops.exp(d.handles[0])
    segmented = d.segment(d.ops.add(d.ops.segment_set(y), y))
    assert kernels(segmented) == ["exp segment_set", "exp add"]


def test_a_diamond_through_torch_has_no_cycle():
    # exp -> argsort -> sub
    #   \-------------/      [exp] | argsort | [sub]
    d = Definition((64, 32))
    y = d.ops.exp(d.handles[0])
    segmented = d.segment(d.ops.sub(y, d.ops.argsort(y, 1)))

    assert kernels(segmented) == ["exp", "sub"]
    assert "torch's T2=argsort has to run between them" in refusals(segmented)


def test_groups_before_and_after_torch_are_not_joined_side_by_side():
    # [neg] | argsort | [add]: no edge between the two kernels, but a path through torch
    d = Definition((4,))
    x = d.handles[0]
    order = d.ops.argsort(d.ops.neg(x), 0)
    assert kernels(d.segment(d.ops.add(order, x))) == ["neg", "add"]


def test_a_broadcast_producer_is_computed_where_it_is_used():
    # row [1, 32] -> neg -> broadcast -> add [64, 32]     ->     [neg add], nothing in between
    d = Definition((1, 32), (64, 32))
    segmented = d.segment(d.ops.add(d.ops.neg(d.handles[0]), d.handles[1]))
    assert kernels(segmented) == ["neg add"]
    assert segmented.segments[0].bytes_written == 64 * 32 * 4


def test_a_costly_row_is_not_recomputed_for_many_elements():
    # row [1, 4096] -> lgamma x 4 -> add [16384, 4096]: 4 * 60 instructions 16384 times over
    with FusionDefinition() as fd:
        row = fd.define_tensor([1, 4096])
        matrix = fd.define_tensor([16384, 4096])
        for _ in range(4):
            row = fd.ops.lgamma(row)
        fd.add_output(fd.ops.add(row, matrix))
    inputs = [torch.empty(1, 4096, device="meta"), torch.empty(16384, 4096, device="meta")]
    segmented = segment_for(fd.fusion, inputs)

    assert kernels(segmented) == ["lgamma lgamma lgamma lgamma", "add"]
    assert "recomputation would cost" in segmented.segments[0].reason


def test_stored_values_of_different_sizes_are_different_kernels():
    # row [1, 32] -> neg is an output, and so is what is added to it: [neg] | [add]
    d = Definition((1, 32), (64, 32))
    row = d.ops.neg(d.handles[0])
    segmented = d.segment(row, d.ops.add(row, d.handles[1]))
    assert kernels(segmented) == ["neg", "add"]
    assert "over one domain" in segmented.segments[0].reason


def test_views_of_different_shapes_share_a_kernel_through_an_edge():
    # exp [64, 32] -> view [2048] -> neg, both outputs     ->     [exp view neg]
    d = Definition((64, 32))
    y = d.ops.exp(d.handles[0])
    segmented = d.segment(y, d.ops.neg(d.ops.reshape(y, [2048])))
    assert kernels(segmented) == ["exp reshape neg"]
    assert len(segmented.segments[0].stores) == 2


def test_a_kernel_does_not_get_too_many_tensors():
    d = Definition(*[(64, 32)] * (GPU.of_points.tensors + 8))
    total = d.handles[0]
    for handle in d.handles[1:]:
        total = d.ops.add(total, handle)
    segmented = d.segment(total)

    assert len(segmented.segments) == 2
    for part in segmented.segments:
        assert len(part.loads) + len(part.stores) <= GPU.of_points.tensors
    assert "more than the 48 of one kernel" in refusals(segmented)


def test_every_merge_says_what_it_saves():
    d = Definition((64, 32))
    log = d.segment(d.ops.neg(d.ops.exp(d.handles[0]))).log
    (line,) = [line for line in log if line.startswith("merge taken")]
    assert "[T1=exp] producer of [T2=neg]: saves" in line


def test_a_reason_names_no_refusal_that_a_later_merge_settled():
    d = Definition((64, 32))
    y = d.ops.exp(d.handles[0])
    a, b = d.ops.neg(y), d.ops.abs(y)
    segmented = d.segment(d.ops.add(d.ops.mul(a, b), d.ops.sub(b, a)), a)
    for part in segmented.segments:
        own = {str(statement.outs[0]) for statement in part.fusion.statements}
        refused = part.reason.partition("not merged with [")[2]
        assert refused.partition("=")[0] not in own


def test_a_reason_names_nothing_that_its_kernel_no_longer_makes():
    # [exp sum div] | [div sum div]: the first division is made again by who reads it
    x = torch.empty(512, 512, device="meta")
    with FusionDefinition() as fd:
        y = fd.ops.exp(fd.from_pytorch(x))
        y = fd.ops.div(y, fd.ops.sum(y, [1], keepdim=True))
        fd.add_output(fd.ops.div(y, fd.ops.sum(fd.ops.abs(y), [0], keepdim=True)))
    segmented = segment_for(fd.fusion, [x])
    assert any(line.startswith("made again") for line in segmented.log)
    for part, other in zip(segmented.segments, segmented.segments[::-1], strict=True):
        made = {f"{out}=" for s in other.fusion.statements for out in s.outs}
        named = part.reason.partition("not merged with [")[2].partition("]")[0].split(", ")
        assert {name[: name.index("=") + 1] for name in named if name != "..."} <= made


def test_kernels_that_nothing_relates_say_why_they_are_two():
    d = Definition((64, 32), (16,))
    segmented = d.segment(*map(d.ops.neg, d.handles))
    (boundary,) = segmented.boundaries
    assert "over one domain, but T2 has 2048, T3 has 16 elements" in boundary.reason
    assert segmented.log[-1].endswith(f"[T2=neg] beside [T3=neg]: {boundary.reason}")


def test_segmentation_is_the_same_each_time():
    def log() -> tuple[str, ...]:
        torch.manual_seed(0)
        d = Definition((64, 32), (64, 32))
        y = d.ops.exp(d.handles[0])
        total = d.ops.broadcast(d.ops.sum(y, [1]), [False, True])
        return d.segment(d.ops.sub(y, total), d.ops.neg(d.handles[1])).log

    assert log() == log()


def test_a_boundary_asked_for_holds_in_merges_side_by_side():
    # a = neg(x); c = segment_set(exp(y)) | a + c
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=True)
        y = fd.define_tensor(shape=[-1], contiguity=True)
        a = fd.ops.neg(x)
        c = fd.ops.segment_set(fd.ops.exp(y))
        fd.add_output(fd.ops.add(a, c))
    plan = fd.plan([torch.randn(8), torch.randn(8)])
    assert [kernel.operations for kernel in plan.kernels][-1][-1] == "add"
    assert len(plan.kernels) == 2
    assert "segment_set asks for a boundary" in plan.kernels[0].reason


def test_kernels_that_read_the_same_but_differ_in_domain_say_so():
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1, -1], contiguity=True)
        fd.add_output(t * 2.0)
        fd.add_output(fd.ops.slice(t * 3.0, [0, 0], [2, 4]))
    plan = fd.plan([torch.randn(4, 4)])
    assert len(plan.kernels) == 2
    assert all(
        "one domain" in kernel.reason or "differ" in kernel.reason for kernel in plan.kernels
    )


def positions() -> tuple[Fusion, list[torch.Tensor]]:
    """The waves of positions, 64 x 256, for a batch of 256: dear, and the same for all of it."""
    x = torch.randn(256, 64, 256)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x, static_sizes=True)
        position = fd.ops.iota(64, dtype=DataType.Int)
        rate = fd.ops.pow(10000.0, fd.ops.div(fd.ops.iota(256, dtype=DataType.Int), 256.0))
        angle = fd.ops.div(
            fd.ops.broadcast(position, [False, True]), fd.ops.broadcast(rate, [True, False])
        )
        waves = fd.ops.broadcast(fd.ops.sin(angle), [True, False, False])
        fd.add_output(fd.ops.add(given, waves))
    return fd.fusion, [x]


def test_a_processor_computes_dear_and_broadcast_values_first():
    # [pow ... sin] -> T | [broadcast add]
    fusion, inputs = positions()
    on_gpu = segment(fusion, memory_of(fusion, inputs), GPU)
    on_processor = segment(fusion, memory_of(fusion, inputs), PROCESSOR)
    assert len(on_gpu.segments) == 1
    assert [kernel.split()[-1] for kernel in kernels(on_processor)] == ["sin", "add"]
    assert any("recomputation would cost" in line for line in on_processor.log)
    (expected,) = interpret(fusion, inputs)
    (result,) = run_segmented(on_processor, inputs)
    torch.testing.assert_close(result, expected)


def test_a_kernel_takes_what_it_may_of_another():
    # [max] | [div mul mul mul cat], which reads x again     ->     [max div mul mul mul] | [cat]
    d = Definition((256, 512, 16))
    (x,), ops = d.handles, d.ops
    largest = ops.max(ops.abs(x), [2], keepdim=True)
    codes = ops.reshape(x / largest, [256, 8192])
    a, b, c, e = (ops.slice(codes, [0, first], [256, 8192], [1, 4]) for first in range(4))
    segmented = d.segment(ops.cat([a * b * c * e, ops.reshape(largest, [256, 512])], 1))
    assert [kernel.split()[-1] for kernel in kernels(segmented)] == ["mul", "cat"]
    assert segmented.segments[0].bytes_read == 256 * 8192 * 4
    *_, line = [line for line in segmented.log if line.startswith("moved:")]
    assert line.partition(" from ")[0].endswith("T3=truediv, T9=mul, T10=mul, T11=mul")


def test_a_kernel_takes_no_part_for_next_to_nothing():
    # [sub mul add ... sum] | [sub mul add ... sin ... mul]: what is made again has few operations;
    # with the waves in the first kernel a row would have more, and be stored
    d = Definition((2048, 1024), (2048, 1024), (2048, 1), (2048, 1))
    (x, y, mean, scale), ops = d.handles, d.ops
    row = (x - mean) * scale
    for _ in range(6):
        row = row + mean
    wave = scale
    for _ in range(7):
        wave = ops.sin(wave) * mean
    total = ops.sum(ops.sum(row * y, [1], keepdim=True), [0], keepdim=True)
    segmented = d.segment(row * wave + total * y)
    assert [part.bytes_written for part in segmented.segments] == [4, 2048 * 1024 * 4]
    assert any(line.startswith("made again") for line in segmented.log)


@pytest.mark.parametrize(("batch", "kernels"), [(4, 1), (256, 2)])
def test_a_processor_gathers_first_what_many_rows_share(batch: int, kernels: int):
    # [index_select] -> T | [add max sub exp sum div];     for a few rows: one kernel
    scores, table = torch.randn(batch, 6, 49, 49), torch.randn(169, 6)
    places = torch.randint(0, 169, (49 * 49,))
    with FusionDefinition() as fd:
        given, biases, index = map(fd.from_pytorch, (scores, table, places))
        chosen = fd.ops.reshape(fd.ops.index_select(biases, index, dim=0), [49, 49, 6])
        bias = fd.ops.broadcast(fd.ops.permute(chosen, [2, 0, 1]), [True, False, False, False])
        total = given + bias
        power = fd.ops.exp(total - fd.ops.max(total, [3], keepdim=True))
        fd.add_output(power / fd.ops.sum(power, [3], keepdim=True))
    inputs = [scores, table, places]
    fusion = concrete(fd.fusion, inputs)
    assert len(segment(fusion, memory_of(fusion, inputs), GPU).segments) == 1
    on_processor = segment(fusion, memory_of(fusion, inputs), PROCESSOR)
    assert len(on_processor.segments) == kernels
    (expected,) = interpret(fusion, inputs)
    (result,) = run_segmented(on_processor, inputs)
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize(("width", "kernels"), [(64, 1), (72, 2), (80, 1)])
def test_parts_are_those_of_all_pads_of_a_row(width: int, kernels: int):
    # Where one begins 8 elements after another, the part between them would be too short.
    x, y = torch.randn(4096, 64), torch.randn(4096, 128 - width)
    with FusionDefinition() as fd:
        one = fd.ops.pad(fd.from_pytorch(x), [64, 0])
        other = fd.ops.pad(fd.from_pytorch(y), [width, 0])
        both = one + other
        fd.add_output(both - fd.ops.mean(both, [1], keepdim=True))
    fusion = lower_reductions(concrete(fd.fusion, [x, y]))
    assert len(segment(fusion, memory_of(fusion, [x, y]), PROCESSOR).segments) == kernels


@pytest.mark.parametrize(("reach", "kernels"), [(0, 1), (1, 2)])
def test_a_pad_along_a_row_is_priced_at_each_place_where_it_is_read(reach: int, kernels: int):
    # [mean sub pad] -> T | [nine neighbours]; without a pad, [all]
    x = torch.randn(8, 64, 56)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        wide = fd.ops.pad(given - fd.ops.mean(given, [1, 2], keepdim=True), [reach] * 4)
        total = given
        for down, along in itertools.product(range(2 * reach + 1), repeat=2):
            total = total + fd.ops.slice(wide, [0, down, along], [8, down + 64, along + 56])
        fd.add_output(total)
    fusion = lower_reductions(concrete(fd.fusion, [x]))
    assert len(segment(fusion, memory_of(fusion, [x]), PROCESSOR).segments) == kernels


@pytest.mark.parametrize(
    ("dim", "columns", "kernels"), [(0, 1024, 1), (1, 1024, 1), (1, 16, 1), (1, 8, 2)]
)
def test_a_processor_joins_short_pieces_of_rows_before_it_sweeps_them(
    dim: int, columns: int, kernels: int
):
    # [cat along the row] -> T | [layernorm];     long pieces, and cat of rows: [cat layernorm]
    x, y = torch.randn(2048, 1024), torch.randn(2048, columns)
    with FusionDefinition() as fd:
        joined = fd.ops.cat([fd.from_pytorch(x), fd.from_pytorch(y)], dim)
        var, mean = fd.ops.var_mean(joined, [1], correction=0, keepdim=True)
        fd.add_output(fd.ops.div(fd.ops.sub(joined, mean), fd.ops.sqrt(fd.ops.add(var, 1e-5))))
    fusion = lower_reductions(concrete(fd.fusion, [x, y]))
    on_gpu = segment(fusion, memory_of(fusion, [x, y]), GPU)
    on_processor = segment(fusion, memory_of(fusion, [x, y]), PROCESSOR)
    assert len(on_gpu.segments) == 1
    assert len(on_processor.segments) == kernels
    (expected,) = interpret(fusion, [x, y])
    (result,) = run_segmented(on_processor, [x, y])
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize(
    ("elements", "together"), [(1 << 8, ["exp neg"]), (1 << 22, ["exp", "neg"])]
)
def test_what_nothing_but_its_domain_relates_is_side_by_side_where_a_launch_takes_time(
    elements: int, together: list[str]
):
    # [exp] [neg] of 2 KB each: one launch less; of 32 MB each, twice the streams for nothing
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([elements]) for _ in range(2))
        fd.add_output(fd.ops.exp(x))
        fd.add_output(fd.ops.neg(y))
    given = [torch.empty(elements)] * 2
    fusion = concrete(fd.fusion, given)
    assert kernels(segment(fusion, memory_of(fusion, given), PROCESSOR)) == together


def test_merges_are_tried_about_as_often_as_there_are_operations(monkeypatch):
    # y = y sin(y), and back from the end with cos(y): until all of them are in its groups, what
    # goes forward and what goes back stay apart for another reason after each merge
    tried = []
    detour = MergeOrder.detour
    monkeypatch.setattr(
        MergeOrder, "detour", lambda order, *keys: tried.append(keys) or detour(order, *keys)
    )
    d = Definition((64,))
    y, kept, steps = d.handles[0], [], 40
    for _ in range(steps):
        kept.append(d.ops.cos(y))
        y = d.ops.mul(d.ops.sin(y), y)
    for each in reversed(kept):
        y = d.ops.add(d.ops.mul(y, each), each)

    assert len(kernels(d.segment(y))) == 1
    assert len(tried) < 2 * 5 * steps
