from fractions import Fraction

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.segmenter import GPU, PROCESSOR, Machine
from tests.definitions import defined

MACHINES = pytest.mark.parametrize("machine", [GPU, PROCESSOR], ids=["gpu", "processor"])


@MACHINES
def test_a_kernel_costs_its_launch_and_the_bytes_it_moves(machine):
    assert machine.kernel_cost(6000, 0, 0) == machine.launch_bytes + 6000


@MACHINES
def test_arithmetic_costs_where_it_outlasts_the_bytes(machine):
    launch, per_byte = machine.launch_bytes, machine.operations_per_byte
    assert machine.kernel_cost(0, 80, 0) == launch + 80 // per_byte
    assert machine.kernel_cost(1000, 1000 * per_byte, 0) == launch + 1000
    assert machine.kernel_cost(1000, 2000 * per_byte, 0) == launch + 2000


@MACHINES
def test_arithmetic_done_again_costs_a_little_even_where_it_is_hidden(machine):
    again = 640 * machine.operations_per_byte
    assert (
        machine.kernel_cost(1000, 0, again) == machine.launch_bytes + 1000 + 640 // machine.hidden
    )


def slowed(
    machine: Machine, rows: int, *, alone: bool = False, in_columns: bool = False
) -> Fraction:
    return machine.slowed(rows, alone=alone, in_columns=in_columns)


def test_few_rows_that_are_swept_again_leave_processors_of_a_gpu_idle():
    slower = GPU.busy_processors // GPU.processors_of_a_row
    assert slowed(GPU, 1) == slower
    assert slowed(GPU, 1, alone=True) == GPU.busy_rows > slower
    assert slowed(GPU, 3, alone=True) * 3 == GPU.busy_rows
    for rows, alone in ((slower, False), (GPU.busy_rows, True), (0, False), (0, True)):
        assert slowed(GPU, rows, alone=alone) == 1


@pytest.mark.parametrize("alone", [False, True])
def test_a_processor_of_a_gpu_has_several_columns(alone: bool):
    """So there are more columns than rows where all are busy, the most if none is kept."""
    enough = GPU.busy_columns if alone else GPU.columns_of_a_processor * GPU.busy_processors
    assert slowed(GPU, enough, alone=alone, in_columns=True) == 1
    assert slowed(GPU, enough // 8, alone=alone, in_columns=True) == 8
    assert slowed(GPU, enough // 8, alone=alone) == 1


@pytest.mark.parametrize("in_columns", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_cores_share_few_rows(alone: bool, in_columns: bool):
    assert slowed(PROCESSOR, 1, alone=alone, in_columns=in_columns) == 1


@pytest.mark.parametrize(
    ("dtype", "count", "kernels"),
    [(torch.float64, 60, 2), (torch.float32, 60, 1), (torch.float32, 400, 2)],
    ids=str,
)
def test_functions_are_not_made_again_for_each_row(dtype: torch.dtype, count: int, kernels: int):
    """Of float64, they take longer; of few rows, a launch does."""
    rows, exponents = torch.randn(count, 128, dtype=dtype), torch.rand(1, 128, dtype=dtype)

    def build(fd: FusionDefinition, x: Handle, power: Handle) -> Handle:
        return x / fd.ops.pow(2.0, power)

    fd = defined(build, rows, exponents)
    assert len(fd.plan([rows, exponents], target="cpu").kernels) == kernels


@pytest.mark.parametrize(("heads", "kernels"), [(4, 2), (1, 1)])
def test_a_processor_makes_functions_of_rows_once_for_all_heads(heads: int, kernels: int):
    """What rows move besides does not hide them: it may be in the cache."""
    scores, power = torch.rand(heads, 256, 256), torch.rand(256, 256)

    def build(fd: FusionDefinition, x: Handle, power: Handle) -> list[Handle]:
        decayed = x * fd.ops.pow(0.9, power)
        return [decayed / fd.ops.sum(decayed, [2], keepdim=True), fd.ops.neg(x), x * 2.0, x + 1.0]

    fd = defined(build, scores, power)
    plan = fd.plan([scores, power], target="cpu")
    assert ["pow" in kernel.operations for kernel in plan.kernels].count(True) == 1
    assert len(plan.kernels) == kernels
    fd.validate([scores, power])


@pytest.mark.parametrize(("words", "kernels"), [(512, 2), (8, 1)])
def test_a_processor_makes_waves_of_positions_once_for_all_heads(words: int, kernels: int):
    """Its functions take three times as long as their instructions are counted; of few words, a
    launch takes longer."""
    heads, angles = torch.randn(2, words, 16, 64), torch.rand(words, 1, 64)

    def build(fd: FusionDefinition, x: Handle, at: Handle) -> Handle:
        return x * fd.ops.cos(at) + fd.ops.neg(x) * fd.ops.sin(at)

    fd = defined(build, heads, angles)
    assert len(fd.plan([heads, angles], target="cpu").kernels) == kernels
    assert len(fd.plan([heads, angles], target="cuda:sm_90").kernels) == 1


@pytest.mark.parametrize(("rows", "kernels"), [(65_536, 2), (512, 1)])
def test_a_processor_makes_functions_of_rows_in_vectors(rows: int, kernels: int):
    """In the kernel of short rows, each would be one number's."""
    states, steps = torch.randn(rows, 8), torch.randn(rows, 1)
    fd = defined(lambda fd, x, step: x * fd.ops.exp(step), states, steps)
    assert len(fd.plan([states, steps], target="cpu").kernels) == kernels
    assert len(fd.plan([states, steps], target="cuda:sm_90").kernels) == 1


def test_what_the_only_row_sweeps_twice_is_not_made_at_many_places_twice():
    """A polynomial of 25 neighbours each, once for the largest sum, and once to compare with it."""
    x = torch.rand(300, 300)

    def build(fd: FusionDefinition, x: Handle) -> Handle:
        made = (x * x + 1.0) * (x - 0.5)
        places = [(a, b) for a in range(5) for b in range(5)]
        parts = [fd.ops.slice(made, [a, b], [a + 296, b + 296]) for a, b in places]
        total = sum(parts[1:], parts[0])
        return fd.ops.where(total > fd.ops.max(total, [0, 1]) * 0.5, total, 0.0)

    fd = defined(build, x)
    plan = fd.plan([x], target="cpu")
    assert len(plan.kernels) == 2
    assert "recomputation would cost" in str(plan)
    fd.validate([x])


def test_columns_are_chosen_of_the_lines_that_an_index_chooses():
    """Lines are read as they lie, so that nothing is gained by storing them first."""
    image = torch.rand(6, 384, 384)
    at = [torch.randint(0, 384, (224,)) for _ in range(3)]

    def build(fd: FusionDefinition, x: Handle, *at: Handle) -> Handle:
        lines = fd.ops.index_select(x, at[0], 1)
        return fd.ops.index_select(lines, at[1], 2) + fd.ops.index_select(lines, at[2], 2)

    fd = defined(build, image, *at)
    assert len(fd.plan([image, *at], target="cpu").kernels) == 1
    fd.validate([image, *at])


@pytest.mark.parametrize(("images", "last", "kernels"), [(4, True, 2), (1, True, 1), (4, False, 1)])
def test_a_processor_divides_once_a_channel(images: int, last: bool, kernels: int):
    """Where channels are innermost, it would be for every pixel; else it is once for each row."""
    form = torch.channels_last if last else torch.contiguous_format
    x = torch.randn(images, 64, 56, 56).to(memory_format=form)
    variance = torch.rand(64, 1, 1)
    fd = defined(lambda fd, x, v: fd.ops.relu(x * fd.ops.rsqrt(v + 1e-5)), x, variance)
    given = [x, variance]
    assert len(fd.plan(given, target="cpu").kernels) == kernels
    assert len(fd.plan(given, target="cuda:sm_90").kernels) == 1
    fd.validate(given)


def test_a_window_is_made_once_for_all_frames():
    """Its numbers are a slice: of what they are along, the frames have no dimension."""
    frames = torch.randn(30, 800, 16)
    with FusionDefinition() as fd:
        ops = fd.ops
        waves = ops.cos(ops.cast(ops.iota(17), DataType.Float) * 0.39)
        window = ops.slice(0.5 - 0.5 * waves, [0], [16])
        fd.add_output(fd.from_pytorch(frames) * ops.broadcast_in_dim(window, [30, 800, 16], [2]))
    fd.validate([frames])
    kernels = fd.plan([frames], target="cpu").kernels
    assert ["cos" in kernel.operations for kernel in kernels] == [True, False]
    assert len(fd.plan([frames], target="cuda:sm_90").kernels) == 1
