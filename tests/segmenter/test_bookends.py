import pytest
import torch

from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Broadcast,
    Cat,
    Constant,
    Expand,
    Flip,
    Operation,
    Pad,
    Permute,
    Pointwise,
    Scan,
    Slice,
    Squeeze,
    Value,
    View,
)
from fuser.ir.types import TensorType
from fuser.segmenter import AliasStep, Segment, SegmentedFusion
from fuser.segmenter.bookends import eager_memories, inner_orders, stride_orders
from tests.segmented import memory_of, run_segmented, segment_for


class Chain:
    """A fusion that is written down as it is read; outputs are what `out` is called with."""

    def __init__(self, *inputs: torch.Tensor) -> None:
        self.inputs = list(inputs)
        self.builder = FusionBuilder()
        self.values = [
            self.builder.input(TensorType(DataType.Float, tuple(given.shape))) for given in inputs
        ]

    def add(self, op: Operation) -> Value:
        return self.builder.add(op)[0]

    def exp(self, value: Value) -> Value:
        return self.add(Pointwise("exp", (value,)))

    def out(self, *values: Value, strides: bool = True) -> SegmentedFusion:
        """Segmented; checked to give the oracle's numbers, and its strides."""
        for value in values:
            self.builder.output(value)
        fusion = self.builder.fusion
        segmented = segment_for(fusion, self.inputs)
        want = interpret(fusion, self.inputs)
        for got, expected in zip(run_segmented(segmented, self.inputs), want, strict=True):
            torch.testing.assert_close(got, expected)
            if strides:
                assert got.stride() == expected.stride()
        return segmented


def steps(segmented: SegmentedFusion) -> list[str]:
    """`kernel(T1 -> T2)` and `T3 is T2`, in order."""
    words: list[str] = []
    for step in segmented.steps:
        if isinstance(step, AliasStep):
            words.append(f"{step.output} is {step.memory.base}")
        else:
            loads = [f"{v}" for v in step.fusion.inputs if v.is_tensor]
            stores = [f"{v}" for v in step.fusion.output_values]
            words.append(f"kernel({', '.join(loads)} -> {', '.join(stores)})")
    return words


def operations(segment: Segment) -> list[str]:
    return [getattr(s.op, "op", type(s.op).__name__) for s in segment.fusion.statements]


def test_views_at_both_ends_leave_the_kernel():
    # T0 -> view -> exp -> view     ->     kernel(T1 -> T2), T1 and T3 are aliases
    chain = Chain(torch.randn(8, 6))
    (x,) = chain.values
    y = chain.exp(chain.add(View(x, (2, 4, 6))))
    segmented = chain.out(chain.add(View(y, (8, 6))))

    assert steps(segmented) == ["kernel(T1 -> T2)", "T3 is T2"]
    assert operations(segmented.segments[0]) == ["exp"]
    assert segmented.segments[0].memory[segmented.segments[0].loads[0]].base == x


def test_a_view_of_a_permuted_input_stays_in_the_kernel():
    # T0 (strides 1, 8) -> view [12, 4] -> exp     ->     kernel(T0 -> T2), view inside
    chain = Chain(torch.randn(6, 8).t())
    (x,) = chain.values
    segmented = chain.out(chain.exp(chain.add(View(x, (12, 4)))))

    assert steps(segmented) == ["kernel(T0 -> T2)"]
    assert operations(segmented.segments[0]) == ["View", "exp"]
    assert any("kept" in line and "need a copy" in line for line in segmented.log)


def test_the_same_view_is_free_where_the_strides_nest():
    # A permuted tensor splits where its dimensions are whole.
    chain = Chain(torch.randn(6, 8).t())
    (x,) = chain.values
    segmented = chain.out(chain.exp(chain.add(View(x, (2, 4, 6)))))
    assert operations(segmented.segments[0]) == ["exp"]


def test_every_metadata_operation_is_stripped_from_the_input_side():
    # T0 -> slice -> permute -> squeeze -> expand -> exp
    chain = Chain(torch.randn(5, 1, 6))
    (x,) = chain.values
    value = chain.add(Slice(x, (1, 0, 0), (5, 1, 5), (2, 1, 2)))
    value = chain.add(Permute(value, (2, 0, 1)))
    value = chain.add(Expand(value, (3, 2, 4)))
    value = chain.add(Slice(value, (0, 0, 0), (3, 2, 1), (1, 1, 1)))
    value = chain.add(Squeeze(value, (2,)))
    segmented = chain.out(chain.exp(value))

    (kernel,) = segmented.segments
    assert operations(kernel) == ["exp"]
    lies = kernel.memory[kernel.loads[0]]
    assert (lies.base, lies.strides, lies.offset) == (x, (2, 12), 6)


def test_a_permute_at_the_output_is_an_alias_with_the_strides_torch_gives():
    # exp -> permute     ->     kernel(T0 -> T1), T2 is T1 permuted; `out` compares strides
    chain = Chain(torch.randn(3, 4, 5))
    (x,) = chain.values
    segmented = chain.out(chain.add(Permute(chain.exp(x), (2, 0, 1))))
    assert steps(segmented) == ["kernel(T0 -> T1)", "T2 is T1"]


def test_a_view_of_a_permuted_result_is_stored_as_the_view_needs_it():
    # exp -> permute -> view [4, 15]: the kernel writes T1 in the permuted order, T3 is free
    chain = Chain(torch.randn(3, 4, 5))
    (x,) = chain.values
    y = chain.add(Permute(chain.exp(x), (1, 2, 0)))
    segmented = chain.out(chain.add(View(y, (4, 15))))

    assert steps(segmented) == ["kernel(T0 -> T1)", "T3 is T1"]
    (kernel,) = segmented.segments
    assert kernel.memory[kernel.stores[0]].strides == (1, 15, 3)


def test_views_and_permutes_of_one_result_share_its_memory():
    # exp -> T1, T2 = view(T1), T3 = permute(T1)     ->     one kernel, two aliases
    chain = Chain(torch.randn(4, 6))
    (x,) = chain.values
    y = chain.exp(x)
    segmented = chain.out(y, chain.add(View(y, (24,))), chain.add(Permute(y, (1, 0))))
    assert steps(segmented) == ["kernel(T0 -> T1)", "T2 is T1", "T3 is T1"]


def test_a_result_lies_so_that_a_view_of_it_is_free():
    # exp -> view(permute(T1)), and permute of that     ->     T1 lies so that both are free
    chain = Chain(torch.randn(4, 6))
    (x,) = chain.values
    view = chain.add(View(chain.add(Permute(chain.exp(x), (1, 0))), (3, 8)))
    segmented = chain.out(view, chain.add(Permute(view, (1, 0))))
    assert steps(segmented) == ["kernel(T0 -> T1)", "T3 is T1", "T4 is T1"]


def test_outputs_that_are_two_tensors_in_torch_are_stored_each():
    # exp -> T1 and view(permute(T1)), which is a copy in torch
    chain = Chain(torch.randn(4, 6))
    (x,) = chain.values
    y = chain.exp(x)
    other = chain.add(View(chain.add(Permute(y, (1, 0))), (3, 8)))
    assert steps(chain.out(y, other)) == ["kernel(T0 -> T1, T3)"]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_output_lies_as_in_torch_whatever_most_views_of_it_need(first: int):
    # T1 (strides 1, 8) -> view [12, 4] -> permute: both would be free if T1 lay in rows
    chain = Chain(torch.randn(6, 8).t())
    y = chain.exp(*chain.values)
    view = chain.add(View(y, (12, 4)))
    made = (y, view, chain.add(Permute(view, (1, 0))))
    segmented = chain.out(*made[first:], *made[:first])

    kernel, alias = steps(segmented)
    assert kernel.startswith("kernel(T0 -> ")
    assert alias in ("T2 is T3", "T3 is T2")


def test_views_that_no_one_memory_serves_are_stored_each_by_the_same_kernel():
    # exp -> view(T1) and view(permute(T1))
    chain = Chain(torch.randn(4, 6))
    (x,) = chain.values
    y = chain.exp(x)
    first = chain.add(View(y, (8, 3)))
    second = chain.add(View(chain.add(Permute(y, (1, 0))), (3, 8)))
    (kernel,) = chain.out(first, second).segments
    assert len(kernel.stores) == 2


@pytest.mark.parametrize(
    "given", [torch.randn(6, 8), torch.randn(8, 6).t(), torch.randn(6, 16)[:, ::2]]
)
def test_an_output_that_is_a_view_of_an_input_costs_no_kernel(given: torch.Tensor):
    # T0 -> permute -> slice     ->     an alias of T0, sharing its storage
    chain = Chain(given)
    (x,) = chain.values
    value = chain.add(Slice(chain.add(Permute(x, (1, 0))), (1, 0), (7, 6), (2, 1)))
    segmented = chain.out(value)

    assert steps(segmented) == ["T2 is T0"]
    (got,) = run_segmented(segmented, chain.inputs)
    assert got.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()


def test_an_output_that_needs_a_copy_of_an_input_is_one_kernel():
    chain = Chain(torch.randn(6, 8).t())
    (x,) = chain.values
    assert steps(chain.out(chain.add(View(x, (48,))))) == ["kernel(T0 -> T1)"]


def test_a_slice_of_a_result_is_computed_alone():
    # exp -> slice [:2]     ->     the kernel computes and writes two rows
    chain = Chain(torch.randn(6, 8))
    (x,) = chain.values
    value = chain.add(Slice(chain.exp(x), (0, 0), (2, 8), (1, 1)))
    (kernel,) = chain.out(value).segments

    assert kernel.stores == (value,)
    assert kernel.bytes_written == 2 * 8 * 4


def test_a_slice_of_what_is_stored_anyway_lies_in_it():
    # exp -> T1, T1 -> permute -> slice -> squeeze     ->     one kernel, and an alias of T1
    chain = Chain(torch.randn(4, 6))
    rows = chain.exp(chain.values[0])
    column = chain.add(Slice(chain.add(Permute(rows, (1, 0))), (1, 0), (2, 4), (1, 1)))
    segmented = chain.out(rows, chain.add(Squeeze(column, (0,))))
    assert steps(segmented) == ["kernel(T0 -> T1)", "T4 is T1"]


def test_an_expanded_output_is_stored_once():
    # exp [4, 1] -> expand [4, 1000]: 16 bytes are written, and the output has stride 0
    chain = Chain(torch.randn(4, 1))
    (x,) = chain.values
    segmented = chain.out(chain.add(Expand(chain.exp(x), (4, 1000))))
    assert segmented.segments[0].bytes_written == 16


def test_a_view_between_two_operations_stays_inside_one_kernel():
    # exp -> view -> neg -> view     ->     kernel(T0 -> T3), the last view is an alias
    chain = Chain(torch.randn(4, 6))
    (x,) = chain.values
    middle = chain.add(View(chain.exp(x), (8, 3)))
    last = chain.add(View(chain.add(Pointwise("neg", (middle,))), (24,)))
    segmented = chain.out(last)

    assert steps(segmented) == ["kernel(T0 -> T3)", "T4 is T3"]
    assert operations(segmented.segments[0]) == ["exp", "View", "neg"]


def test_what_stays_in_a_kernel_says_why():
    # T0 -> flip -> exp -> view | permute, view | slice | flip     ->     only the first is free
    chain = Chain(torch.randn(6, 8))
    (x,) = chain.values
    y = chain.exp(chain.add(Flip(x, (0,))))
    turned = chain.add(View(chain.add(Permute(y, (1, 0))), (48,)))
    cut = chain.add(Slice(y, (0, 0), (3, 8), (1, 1)))
    segmented = chain.out(chain.add(View(y, (48,))), turned, cut, chain.add(Flip(y, (1,))))

    kept = [line.split(": ", 2)[-1] for line in segmented.log if line.startswith("bookend kept")]
    assert kept == [
        "its strides would be negative",
        "strides (8, 1) of T2 need a copy",
        "its kernel stores the slice alone",
        "its strides would be negative",
    ]
    reasons = "; ".join(segment.reason for segment in segmented.segments)
    assert "T2 leaves through view" in reasons.replace("reshape", "view")
    assert "permute" not in reasons


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 2, 1, 0), (0, 1, 2, 3)])
@pytest.mark.parametrize("kind", ["pad", "cat", "scan"])
def test_what_only_kernels_see_lies_as_what_it_is_made_of(kind: str, order: tuple[int, ...]):
    sizes = [(8, 16, 24, 40)[dim] for dim in order]
    x = torch.randn(sizes).permute([order.index(dim) for dim in range(4)])
    chain = Chain(x)
    (value,) = chain.values
    zero = chain.add(Constant(0.0, DataType.Float))
    ops: dict[str, Operation] = {
        "pad": Pad(value, ((0, 0), (0, 0), (1, 1), (2, 0)), zero),
        "cat": Cat((value, value), 1),
        "scan": Scan("cumsum", value, 2),
    }
    made = chain.exp(chain.add(ops[kind]))
    segmented = chain.out(chain.add(Pointwise("neg", (made,))), strides=False)

    memory = memory_of(segmented.fusion, [x])
    inner, seen = inner_orders(segmented.fusion, memory), eager_memories(segmented.fusion, memory)
    assert inner[made] == tuple(3 - order.index(dim) for dim in range(4))
    assert stride_orders(seen)[made] == (3, 2, 1, 0)  # what an output would have


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 2, 1, 0), (0, 1, 2, 3)])
def test_one_number_that_is_expanded_lies_as_what_it_meets(order: tuple[int, ...]):
    """As the gradient of a mean is: torch would divide it into a tensor of rows."""
    sizes = [(8, 16, 24, 40)[dim] for dim in order]
    x = torch.randn(sizes).permute([order.index(dim) for dim in range(4)])
    chain = Chain(torch.tensor(2.0), x)
    number, value = chain.values
    everywhere = chain.add(Expand(chain.add(Broadcast(number, (True,) * 4)), tuple(x.shape)))
    made = chain.add(Pointwise("mul", (chain.exp(everywhere), value)))
    segmented = chain.out(chain.add(Pointwise("neg", (made,))), strides=False)

    memory = memory_of(segmented.fusion, [torch.tensor(2.0), x])
    inner, seen = inner_orders(segmented.fusion, memory), eager_memories(segmented.fusion, memory)
    assert inner[made] == tuple(3 - order.index(dim) for dim in range(4))
    assert stride_orders(seen)[made] == (3, 2, 1, 0)
