"""Outputs written into inputs, by the kernel where that is safe: always the oracle's numbers."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Output
from fuser.pipeline import Executor
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import ThreadOrder
from tests.definitions import close
from tests.row_functions import softmax
from tests.segmented import concrete
from tests.strategies import (
    FACTORIES,
    GATHERS,
    METADATA,
    NORMALIZATIONS,
    POINTWISE,
    REDUCTIONS,
    RESIZES,
    SCANS,
    SCATTERS,
    SLICES,
    Definition,
    definitions,
)

Given = torch.Tensor | float
Build = Callable[..., None]
both_targets = pytest.mark.parametrize("target", ["cpu", "emulator"])
IN_PLACE = "in place, by"
TERMS = 64
"""What sums here have at most, about."""
MORE = 50 if os.environ.get("FUSER_LONG") == "1" else 1


def defined(build: Build, *inputs: Given) -> FusionDefinition:
    with FusionDefinition() as fd:
        handles = [
            fd.from_pytorch(x) if isinstance(x, torch.Tensor) else fd.define_scalar(None)
            for x in inputs
        ]
        build(fd, *handles)
    return fd


def check(fusion: Fusion, inputs: list[Given], target: str) -> tuple[str, ...]:
    """Updated inputs and outputs hold what the oracle says; how each input was updated."""
    executor = Executor(fusion)
    words = executor.plan(inputs, target=target).updates
    want = dict(zip(fusion.outputs, interpret(fusion, inputs), strict=True))
    want = {output: value.clone() for output, value in want.items()}
    new = {o.alias_of: value for o, value in want.items() if o.alias_of is not None}
    outputs = executor.execute(inputs, target=target)
    held = dict(zip(fusion.inputs, inputs, strict=True))
    for value, expected in new.items():
        close([held[value]], [expected], TERMS)
    pairs = zip(fusion.outputs, fusion.shown_in(), strict=True)
    handed = [pair for pair in pairs if pair[0].alias_of is None]
    for (output, shown), got in zip(handed, outputs, strict=True):
        close([got], [want[output] if shown is None else new[shown]], TERMS)
        if shown is not None:
            assert got.data_ptr() == held[shown].data_ptr()
    return words


def run(build: Build, *inputs: Given, target: str = "cpu") -> tuple[str, ...]:
    return check(defined(build, *inputs).fusion, list(inputs), target)


# -- what is stored in place ---------------------------------------------------------------------


def sgd(fd: FusionDefinition, p: Handle, buffer: Handle, grad: Handle) -> None:
    velocity = buffer * 0.9 + grad
    fd.add_output(velocity, alias_input=buffer)
    fd.add_output(p - velocity * 0.1, alias_input=p)


@both_targets
@pytest.mark.parametrize("shape", [(7,), (33, 20), (5, 3, 4)], ids=str)
def test_an_optimizer_step_is_in_place(target: str, shape: tuple[int, ...]) -> None:
    words = run(sgd, *(torch.randn(shape) for _ in range(3)), target=target)
    assert [IN_PLACE in line for line in words] == [True, True]


def test_a_large_step_keeps_its_chunks_apart() -> None:
    """A chunk that is moved back to end in range would be computed from new values."""
    x = torch.randn(1201, 3000)
    (words,) = run(lambda fd, p: fd.add_output(p * 1.5 + 1.0, alias_input=p), x)
    assert IN_PLACE in words


def batch_norm(fd: FusionDefinition, x: Handle, mean: Handle, var: Handle) -> None:
    batch_var, batch_mean = fd.ops.var_mean(x, dims=[0, 2], correction=0)
    fd.add_output(mean * 0.9 + batch_mean * 0.1, alias_input=mean)
    fd.add_output(var * 0.9 + batch_var * 0.1, alias_input=var)
    sizes, dims = [6, 8, 10], [1]
    centered = x - fd.ops.broadcast_in_dim(batch_mean, sizes, dims)
    scale = fd.ops.rsqrt(fd.ops.broadcast_in_dim(batch_var, sizes, dims) + 1e-5)
    fd.add_output(centered * scale)


@both_targets
def test_running_statistics_of_a_batch_norm(target: str) -> None:
    inputs = torch.randn(6, 8, 10), torch.randn(8), torch.rand(8)
    words = run(batch_norm, *inputs, target=target)
    # The threads of a team read a row's old statistics when they like.
    assert all((IN_PLACE in line) == (target == "cpu") for line in words), words


@both_targets
def test_old_statistics_are_read_by_sweeps_before_and_after_the_fold(target: str) -> None:
    def build(fd: FusionDefinition, x: Handle, held: Handle) -> None:
        total = fd.ops.sum(fd.ops.tanh(x) * fd.ops.broadcast(held, [False, True]), [1])
        fd.add_output(held * 0.5 + total, alias_input=held)
        apart = x - fd.ops.broadcast(total, [False, True])
        fd.add_output(apart * fd.ops.broadcast(held, [False, True]))

    for rows in (3, 70):
        run(build, torch.randn(rows, 200), torch.randn(rows), target=target)


@pytest.mark.parametrize("order", list(ThreadOrder), ids=lambda order: order.name)
def test_a_sum_over_rows_updates_a_bias(
    order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatorBackend, "order", order)

    def build(fd: FusionDefinition, bias: Handle, grad: Handle) -> None:
        fd.add_output(bias - fd.ops.sum(grad, [0]) * 0.1, alias_input=bias)

    for target in ("cpu", "emulator"):
        run(build, torch.randn(130), torch.randn(60, 130), target=target)


@both_targets
def test_a_softmax_replaces_what_it_reads_in_three_sweeps(target: str) -> None:
    def build(fd: FusionDefinition, x: Handle) -> None:
        fd.add_output(softmax(fd, x), alias_input=x)

    for shape in ((9, 100), (3, 2049), (40, 16384) if target == "cpu" else (2, 70)):
        (words,) = run(build, torch.randn(shape), target=target)
        assert IN_PLACE in words


@both_targets
def test_columns_of_small_matrices_are_replaced(target: str) -> None:
    """On a processor, a lane does all columns of a matrix, one after the other."""

    def build(fd: FusionDefinition, x: Handle) -> None:
        fd.add_output(softmax(fd, x, 1), alias_input=x)

    (words,) = run(build, torch.randn(100, 3, 3), target=target)
    assert IN_PLACE in words


@pytest.mark.parametrize("order", list(ThreadOrder), ids=lambda order: order.name)
@pytest.mark.parametrize("length", [33, 260, 1031])
def test_rows_are_replaced_in_any_thread_order(
    order: ThreadOrder, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatorBackend, "order", order)

    def normalized(fd: FusionDefinition, x: Handle, bias: Handle) -> None:
        scaled = x * fd.ops.rsqrt(fd.ops.mean(x * x, [1], keepdim=True) + 1e-5)
        fd.add_output(scaled, alias_input=x)
        fd.add_output(bias - fd.ops.sum(scaled, [0]), alias_input=bias)

    words = run(normalized, torch.randn(5, length), torch.randn(length), target="emulator")
    assert IN_PLACE in words[0]


@both_targets
def test_a_cache_of_keys_gets_a_position(target: str) -> None:
    def select(fd: FusionDefinition, cache: Handle, new: Handle, position: Handle) -> None:
        numbers = fd.ops.iota(10, dtype=DataType.Int)
        here = fd.ops.eq(numbers, position)
        here = fd.ops.broadcast_in_dim(here, [2, 10, 4], [1])
        wide = fd.ops.broadcast_in_dim(new, [2, 10, 4], [0, 2])
        fd.add_output(fd.ops.where(here, wide, cache), alias_input=cache)

    (words,) = run(select, torch.randn(2, 10, 4), torch.randn(2, 4), torch.tensor(3), target=target)
    assert IN_PLACE in words

    def cut(fd: FusionDefinition, cache: Handle, new: Handle) -> None:
        before = fd.ops.slice(cache, [0, 0, 0], [2, 5, 4])
        after = fd.ops.slice(cache, [0, 6, 0], [2, 10, 4])
        fd.add_output(fd.ops.cat([before, new, after], dim=1), alias_input=cache)

    run(cut, torch.randn(2, 10, 4), torch.randn(2, 1, 4), target=target)

    def padded(fd: FusionDefinition, cache: Handle, new: Handle) -> None:
        fd.add_output(cache + fd.ops.pad(new, [0, 0, 3, 6]), alias_input=cache)

    (words,) = run(padded, torch.randn(2, 10, 4), torch.randn(2, 1, 4), target=target)
    assert IN_PLACE in words


@both_targets
@pytest.mark.parametrize(
    "given",
    [
        torch.randn(6, 10).t(),
        torch.randn(6, 10)[:, :7],
        torch.randn(6, 10)[::2],
        torch.randn(61)[1:].view(6, 10),
    ],
    ids=["transposed", "rows with gaps", "every second row", "misaligned"],
)
def test_the_result_takes_the_layout_of_the_input(target: str, given: torch.Tensor) -> None:
    held = given.clone(memory_format=torch.preserve_format)
    (words,) = run(lambda fd, p: fd.add_output(fd.ops.exp(p), alias_input=p), held, target=target)
    assert IN_PLACE in words
    within = torch.zeros(200).as_strided(given.shape, given.stride(), 1).copy_(given)
    (words,) = run(lambda fd, p: fd.add_output(fd.ops.exp(p), alias_input=p), within, target=target)
    assert IN_PLACE in words


@both_targets
def test_a_reader_of_the_old_value_comes_first(target: str) -> None:
    def build(fd: FusionDefinition, p: Handle) -> None:
        fd.add_output(p * 2.0, alias_input=p)
        fd.add_output(fd.ops.sum(fd.ops.segment_set(fd.ops.exp(p)), [0]))
        fd.add_output(fd.ops.matmul(p, p))

    (words,) = run(build, torch.randn(8, 8), target=target)
    assert IN_PLACE in words


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_compilers_are_not_told_that_overwritten_memory_is_only_read(arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    inputs = [torch.randn(64, 96) for _ in range(3)]
    for target in ("cpu", f"cuda:{arch}"):
        (kernel,) = defined(sgd, *inputs).plan(inputs, target=target).kernels
        restrict = {part for part in kernel.source.split(",") if "__restrict" in part}
        assert [part.split("T")[-1].split("_")[0] for part in restrict] == ["2"]
        assert not kernel.compile().spill_bytes


# -- what is copied ------------------------------------------------------------------------------


def transposed(fd: FusionDefinition, p: Handle) -> None:
    fd.add_output(fd.ops.permute(fd.ops.exp(p), [1, 0]), alias_input=p)


def plus_flip(fd: FusionDefinition, p: Handle) -> None:
    fd.add_output(p + fd.ops.flip(p, [1]), alias_input=p)


def plus_a_row(fd: FusionDefinition, p: Handle) -> None:
    row = fd.ops.slice(p, [0, 0], [1, 8])
    fd.add_output(p + fd.ops.expand(row, [8, 8]), alias_input=p)


def gathered(fd: FusionDefinition, p: Handle) -> None:
    index = fd.ops.remainder(fd.ops.iota(8, dtype=DataType.Int) * 3, 8)
    fd.add_output(fd.ops.index_select(fd.ops.exp(p), index, 0), alias_input=p)


def read_later(fd: FusionDefinition, p: Handle) -> None:
    new = fd.ops.segment_set(p + 1.0)
    fd.add_output(new, alias_input=p)
    fd.add_output(fd.ops.matmul(new, fd.ops.segment_set(p * new)))


def old_value(fd: FusionDefinition, p: Handle) -> None:
    fd.add_output(p + 1.0, alias_input=p)
    fd.add_output(fd.ops.reshape(p, [64]))


def new_shape(fd: FusionDefinition, p: Handle) -> None:
    new = p + 1.0
    fd.add_output(new, alias_input=p)
    fd.add_output(fd.ops.reshape(new, [64]))


def by_torch(fd: FusionDefinition, p: Handle) -> None:
    fd.add_output(fd.ops.matmul(p, p), alias_input=p)


@both_targets
@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (transposed, "laid out|others of the old"),
        (plus_flip, "computed from others of the old"),
        (plus_a_row, "computed from others of the old"),
        (gathered, "computed from others of the old"),
        (read_later, "is read by what needs"),
        (old_value, "is needed when everything is done"),
        (new_shape, "leaves as something else too"),
        (by_torch, "no kernel makes"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_would_be_a_race_is_copied(target: str, build: Build, reason: str) -> None:
    (words,) = run(build, torch.randn(8, 8), target=target)
    assert "copied when all steps are done" in words
    assert any(part in words for part in reason.split("|")), words


def test_inputs_that_share_memory_are_told_apart_at_each_call() -> None:
    def build(fd: FusionDefinition, p: Handle, q: Handle) -> None:
        fd.add_output(p + q, alias_input=p)

    fd = defined(build, torch.randn(8), torch.randn(8))
    memory = torch.randn(32)
    for p, q in (
        (memory[:8], memory[8:16]),
        (memory[:8], memory[4:12]),
        (memory[4:12], memory[:8]),
        (memory[:8], memory[:8]),
    ):
        expected = p + q
        apart = p.data_ptr() + 32 <= q.data_ptr()
        (words,) = fd.plan([p, q]).updates
        assert (IN_PLACE in words) == apart
        fd.execute([p, q])
        assert torch.equal(p, expected)


@both_targets
@pytest.mark.parametrize("begin", [0, 2, 6])
def test_what_shows_an_input_that_overlaps_an_updated_one_keeps_the_old_value(
    target: str, begin: int
) -> None:
    """Outputs that lie in the other input are copied, but only where the two overlap."""

    def build(fd: FusionDefinition, p: Handle, q: Handle) -> None:
        fd.add_output(p * 0.0 + 5.0, alias_input=p)
        for output in (q, fd.ops.reshape(q, [-1]), fd.ops.slice(q, [0, 1], [2, 3]), -q):
            fd.add_output(output)

    memory = torch.randn(10, 3)
    p, q = memory[:6], memory[begin : begin + 4]
    fd = defined(build, p, q)
    old = q.clone()
    outputs = fd.execute([p, q], target=target)
    for output, expected in zip(outputs, (old, old.view(-1), old[:2, 1:], -old), strict=True):
        assert torch.equal(output, expected)
    shared = [output.data_ptr() == q.data_ptr() for output in outputs[:2]]
    assert shared == [begin == 6] * 2
    fd.validate([p, q], target=target)


def test_an_input_that_overlaps_itself_is_copied() -> None:
    x = torch.randn(20).as_strided((4, 5), (2, 1))
    (words,) = defined(lambda fd, p: fd.add_output(p * 2.0, alias_input=p), x).plan([x]).updates
    assert "may share memory" in words


# -- what is handed back -------------------------------------------------------------------------


@both_targets
def test_who_asks_for_an_updated_input_or_its_new_value_gets_the_input(target: str) -> None:
    def build(fd: FusionDefinition, p: Handle) -> None:
        new = fd.ops.where(p > 0.0, p, 0.0)
        fd.add_output(new)
        fd.add_output(new, alias_input=p)
        fd.add_output(new)
        fd.add_output(p)

    x = torch.randn(6, 5)
    fd = defined(build, x)
    expected = x.relu()
    outputs = fd.execute([x], target=target)
    assert [output.data_ptr() for output in outputs] == [x.data_ptr()] * 3
    assert all(torch.equal(output, expected) for output in (*outputs, x))


def test_autograd_knows_that_an_input_was_overwritten() -> None:
    p, weight = torch.randn(4), torch.randn(4, requires_grad=True)
    product = (p * weight).sum()
    defined(lambda fd, p: fd.add_output(p + 1.0, alias_input=p), p).execute([p])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_without_a_compiler_inputs_are_updated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    monkeypatch.setattr("fuser.pipeline.warn_without_compiler", lambda: None)
    x = torch.randn(4)
    expected = x + 1

    def build(fd: FusionDefinition, p: Handle) -> None:
        fd.add_output(p + 1.0, alias_input=p)
        fd.add_output(p)
        fd.add_output(fd.ops.reshape(p, [2, 2]))

    old = x.clone()
    shown, viewed = defined(build, x).execute([x])
    assert torch.equal(x, expected)
    assert shown.data_ptr() == x.data_ptr()
    assert torch.equal(viewed, old.view(2, 2))


# -- random fusions ------------------------------------------------------------------------------

random_fusions = definitions(
    (
        *POINTWISE,
        *METADATA,
        *FACTORIES,
        *SLICES,
        *REDUCTIONS,
        *RESIZES,
        *SCANS,
        *SCATTERS,
        *NORMALIZATIONS,
        *GATHERS,
    ),
    max_operations=8,
)


@both_targets
@settings(max_examples=40 * MORE, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_fusions, st.data())
def test_random_fusions_with_random_updates(
    target: str, definition: Definition, data: st.DataObject
) -> None:
    with FusionDefinition() as fd:
        definition.build(fd)
    inputs = [held_apart(given) for given in definition.inputs]
    fusion = concrete(fd.fusion, inputs)
    made = [out for s in fusion.statements for out in s.outs if out.is_tensor]
    pairs = [
        (value, into)
        for into, given in zip(fusion.inputs, inputs, strict=True)
        for value in made
        if isinstance(given, torch.Tensor)
        and value.type.dtype is into.dtype
        and value.shape == into.shape
        and 0 not in [s for s, n in zip(given.stride(), given.shape, strict=True) if n > 1]
    ]
    if not pairs:
        return
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2))
    by_input = {into: value for value, into in chosen}
    updates = tuple(Output(value, into) for into, value in by_input.items())
    outputs = (*updates, *fusion.outputs) if data.draw(st.booleans()) else updates
    check(Fusion(fusion.inputs, fusion.statements, outputs), inputs, target)


def held_apart(given: Given) -> Given:
    """A tensor of the same layout and numbers in memory of its own."""
    if not isinstance(given, torch.Tensor):
        return given
    storage = given.untyped_storage().clone()
    apart = torch.empty(0, dtype=given.dtype)
    return apart.set_(storage, given.storage_offset(), given.shape, given.stride())
