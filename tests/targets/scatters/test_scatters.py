"""Scatters in kernels: every operation, dimension and dtype, points that meet, indices that err."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from fuser.ir.dtypes import from_torch
from fuser.ir.tolerance import tolerance
from fuser.passes import scatter_forms
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import ThreadOrder
from fuser.runtime.kernels.stats import stats
from fuser.runtime.plans.plan import Plan
from tests.definitions import Define, agrees, defined

TARGETS = ("cpu", "emulator")
ARCHS = ("sm_80", "sm_90", "sm_100")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def scattered(target: str, define: Define, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The outputs of kernels; inputs are left as they are."""
    fd, before = defined(define, *inputs), [tensor.clone() for tensor in inputs]
    plan = fd.plan(inputs, target=target)
    assert not plan.externs, str(plan)
    assert all(kernel.kernel_source is not None for kernel in plan.kernels), str(plan)
    results = fd.execute(inputs, target=target)
    assert all(map(torch.equal, inputs, before))
    return results


def added(mode: str, dim: int) -> Define:
    def define(fd: FusionDefinition, base: Handle, index: Handle, source: Handle) -> Handle:
        if mode == "index_put_accumulate":
            return fd.ops.index_put_accumulate(base, index, source)
        return getattr(fd.ops, mode)(base, index, source, dim)

    return define


def exactly(
    mode: str, dim: int, base: torch.Tensor, index: torch.Tensor, source: torch.Tensor
) -> torch.Tensor:
    """What torch adds in float64, or in int64."""
    wide = torch.float64 if base.dtype.is_floating_point else torch.int64
    data, added, at = base.to(wide), source.to(wide), index.long()
    if mode == "scatter_add":
        return torch.scatter_add(data, dim, at, added)
    if mode == "index_add":
        return torch.index_add(data, dim, at, added)
    return torch.index_put(data, (at,), added, accumulate=True)


def compare(got: torch.Tensor, exact: torch.Tensor, count: int) -> None:
    dtype = from_torch(got.dtype)
    assert dtype is not None
    relative, absolute = tolerance(dtype, count)
    torch.testing.assert_close(got.to(exact.dtype), exact, rtol=relative, atol=absolute)


def numbers(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 3, shape, generator=generator).to(dtype)


def indices(shape: Sequence[int], low: int, high: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(7))


# -- additions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [5, 33])
@pytest.mark.parametrize(
    ("mode", "dim"),
    [
        *(("scatter_add", dim) for dim in range(3)),
        *(("index_add", dim) for dim in range(3)),
        *(("index_put_accumulate", rank) for rank in range(2)),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_additions_along_every_dimension(target: str, mode: str, dim: int, columns: int) -> None:
    shape, longer = (4, 6, columns), 9
    source = [longer if at == dim else n for at, n in enumerate(shape)]
    if mode == "index_put_accumulate":
        at = indices((3, 5)[: dim + 1], -4, 4)
        source = [*at.shape, *shape[1:]]
    elif mode == "index_add":
        at = indices([longer], 0, shape[dim])
    else:
        at = indices(source, 0, shape[dim])
    base, values = numbers(shape, torch.float32), numbers(source, torch.float32, 1)
    (got,) = scattered(target, added(mode, dim), base, at, values)
    compare(got, exactly(mode, dim, base, at, values), 60)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("columns", [3, 24])
@pytest.mark.parametrize("target", TARGETS)
def test_additions_of_every_dtype(target: str, columns: int, dtype: torch.dtype) -> None:
    base, values = numbers((7, columns), dtype), numbers((200, columns), dtype, 1)
    at = indices([200], 0, 7).int()
    (got,) = scattered(target, added("index_add", 0), base, at, values)
    exact = exactly("index_add", 0, base, at, values)
    assert got.dtype is dtype
    if dtype.is_floating_point:
        compare(got, exact, 60 if dtype.itemsize > 2 else 1)  # rounded once to 16 bits
    else:
        assert torch.equal(got, exact.to(dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_an_index_that_is_the_same_for_whole_rows(target: str) -> None:
    base, values, at = torch.randn(3, 8, 40), torch.randn(3, 70, 40), indices((3, 70, 1), 0, 8)

    def inside(fd: FusionDefinition, x: Handle, i: Handle, v: Handle) -> Handle:
        return fd.ops.scatter_add(x, fd.ops.expand(i, [3, 70, 40]), v, 1)

    want = torch.scatter_add(base.double(), 1, at.expand(3, 70, 40), values.double())
    compare(scattered(target, inside, base, at, values)[0], want, 70)
    expanded = at.expand(3, 70, 40)
    compare(scattered(target, added("scatter_add", 1), base, expanded, values)[0], want, 70)


@pytest.mark.parametrize("target", TARGETS)
def test_an_index_smaller_than_source_and_data(target: str) -> None:
    base, values, at = torch.randn(6, 40), torch.randn(9, 50), indices((8, 33), 0, 6)
    want = torch.scatter_add(base.double(), 0, at, values.double())
    compare(scattered(target, added("scatter_add", 0), base, at, values)[0], want, 9)


@pytest.mark.parametrize("layout", ["permuted", "strided", "expanded"])
@pytest.mark.parametrize("target", TARGETS)
def test_memory_of_any_layout(target: str, layout: str) -> None:
    base, values, at = torch.randn(6, 20, 4), torch.randn(30, 20, 4), indices((30,), 0, 6)
    if layout == "permuted":
        base = base.permute(0, 2, 1).contiguous().permute(0, 2, 1)
        values = values.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    elif layout == "strided":
        base, values, at = base[:, ::2], values[:, ::2], indices((60,), 0, 6)[::2]
    else:
        base, values = base[:1].expand(6, 20, 4), values[:, :1].expand(30, 20, 4)
    want = torch.index_add(base.double(), 0, at, values.double())
    (got,) = scattered(target, added("index_add", 0), base, at, values)
    assert got.is_contiguous()
    compare(got, want, 30)


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@pytest.mark.parametrize("columns", [0, 6, 136])
def test_points_that_meet_in_any_order_of_threads(
    order: ThreadOrder, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at one place, half of them, runs of equal ones, all different; memory adds."""
    monkeypatch.setattr(EmulatorBackend, "order", order)
    monkeypatch.setattr(scatter_forms, "MOST_COLUMNS", 0)  # no lists
    count, shape = 75, [columns] if columns else []
    runs = torch.arange(count) // 5
    for at in (runs * 0 + 3, runs * (runs % 2), runs, torch.arange(count).flip(0)):
        base, values = torch.randn(80, *shape), torch.randn(count, *shape)
        (got,) = scattered("emulator", added("index_add", 0), base, at, values)
        compare(got, torch.index_add(base.double(), 0, at, values.double()), count)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_many_16_bit_numbers_do_not_stop_growing(target: str) -> None:
    values = torch.ones(3000, 16, dtype=torch.bfloat16)
    base, at = torch.zeros(2, 16, dtype=torch.bfloat16), torch.ones(3000).long()
    (got,) = scattered(target, added("index_add", 0), base, at, values)
    assert torch.equal(got[1], torch.full((16,), 3000).bfloat16())


def test_the_processor_adds_in_the_order_of_points() -> None:
    """Sums in float64 that depend on the order are torch's, which adds one after the other."""
    values, at = torch.randn(500, 16, dtype=torch.float64) * 10.0, torch.zeros(500).long()
    base = torch.zeros(3, 16, dtype=torch.float64)
    want = base.clone()
    for row in values:
        want[0] += row
    for mode, index in (("index_add", at), ("scatter_add", at[:, None].repeat(1, 16))):
        (got,) = scattered("cpu", added(mode, 0), base, index, values)
        assert torch.equal(got, want)


# -- overwriting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.int64], ids=str
)
@pytest.mark.parametrize("columns", [3, 40])
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_written_over(target: str, columns: int, dtype: torch.dtype) -> None:
    base, values = numbers((9, columns), dtype), numbers((5, columns), dtype, 1)
    at = torch.tensor([[7], [0], [3], [8], [1]])

    def define(fd: FusionDefinition, x: Handle, i: Handle, v: Handle) -> list[Handle]:
        wide = fd.ops.expand(i, [5, columns])
        return [fd.ops.scatter(x, wide, v, 0), fd.ops.scatter(x, wide, 1.0, 0)]

    got = scattered(target, define, base, at, values)
    assert torch.equal(got[0], base.scatter(0, at.expand(5, columns), values))
    assert torch.equal(got[1], base.scatter(0, at.expand(5, columns), 1))


@pytest.mark.parametrize("columns", [3, 40])
@pytest.mark.parametrize("target", TARGETS)
def test_of_several_written_to_one_place_one_stays(target: str, columns: int) -> None:
    values = torch.arange(50.0)[:, None].repeat(1, columns)
    at = (torch.arange(50) % 4)[:, None].repeat(1, columns)
    (got,) = scattered(target, added("scatter", 0), torch.zeros(6, columns), at, values)
    assert torch.equal(got[:4] % 4, torch.arange(4.0)[:, None].repeat(1, columns))
    assert torch.equal(got[4:], torch.zeros(2, columns))
    if target == "cpu":  # the last one
        assert torch.equal(got[:4, 0], torch.tensor([48.0, 49.0, 46.0, 47.0]))


# -- what surrounds them ---------------------------------------------------------------------------


def embedding_backward(fd: FusionDefinition, gradient: Handle, index: Handle) -> Handle:
    """The gradient of an embedding whose row 2 is padding, scaled."""
    counts = fd.ops.broadcast(fd.ops.ne(index, 2), [False, True])
    kept = fd.ops.where(counts, gradient * 0.5, 0.0)
    return fd.ops.index_put_accumulate(fd.ops.full([11, 24], 0.0, DataType.Float), index, kept)


@pytest.mark.parametrize("target", TARGETS)
def test_the_gradient_of_an_embedding_with_padding(target: str) -> None:
    gradient, at = torch.randn(90, 24), indices((90,), 0, 11)
    weight = torch.zeros(11, 24, requires_grad=True)
    torch.nn.functional.embedding(at, weight, padding_idx=2).backward(gradient * 0.5)
    (got,) = scattered(target, embedding_backward, gradient, at)
    torch.testing.assert_close(got, weight.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_computed_indices_gathered_sources_and_views(target: str) -> None:
    x, at = torch.randn(4, 6, 32), indices((24,), 0, 12)

    def define(fd: FusionDefinition, x: Handle, i: Handle) -> list[Handle]:
        flat = fd.ops.reshape(x * 2.0, [24, 32])
        picked = fd.ops.index_select(flat, fd.ops.remainder(i + 5, 24), 0)
        rows = fd.ops.remainder(i * 5, 7)
        made = fd.ops.index_add(fd.ops.full([7, 32], 1.0, DataType.Float), rows, picked, 0)
        return [made, fd.ops.permute(made, [1, 0]), fd.ops.sum(made * made, [1])]

    flat = x.view(24, 32).double() * 2
    want = torch.ones(7, 32).double().index_add(0, at * 5 % 7, flat[(at + 5) % 24])
    got = scattered(target, define, x, at)
    for one, other in zip(got, [want, want.T, (want * want).sum(1)], strict=True):
        compare(one, other, 200)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_times_a_number_of_their_row(target: str) -> None:
    """The product is made at every column, though the number is gathered once a row."""

    def define(
        fd: FusionDefinition, index: Handle, source: Handle, scales: Handle, at: Handle
    ) -> tuple[Handle, Handle]:
        zeros = fd.ops.full([7, 40], 0.0, DataType.Float)
        sums = fd.ops.index_put_accumulate(zeros, index, source)
        scale = fd.ops.index_select(scales, at, dim=0)
        return sums, fd.ops.mul(sums, fd.ops.broadcast(scale, [False, True]))

    index, at = indices((30,), 0, 7), indices((7,), 0, 5)
    inputs = [index, numbers((30, 40), torch.float32), numbers((5,), torch.float32, 1), at]
    agrees(defined(define, *inputs), inputs, target)


@pytest.mark.parametrize("target", TARGETS)
def test_scatters_one_after_the_other_and_data_that_is_read_again(target: str) -> None:
    x, at, v = torch.randn(5, 20), indices((30,), 0, 5), torch.randn(30, 20)

    def define(fd: FusionDefinition, x: Handle, i: Handle, v: Handle) -> list[Handle]:
        y = fd.ops.relu(x)
        twice = fd.ops.index_add(fd.ops.index_add(y, i, v, 0), i, fd.ops.neg(v), 0)
        again = fd.ops.index_add(y, i, v, 0)
        wide = fd.ops.expand(fd.ops.broadcast(i, [False, True]), [30, 20])
        return [y, twice, again, fd.ops.scatter_add(again, wide, v, 0), again + y]

    y, values = x.double().relu(), v.double()
    once = y.index_add(0, at, values)
    want = [y, once.index_add(0, at, -values), once, once.index_add(0, at, values), once + y]
    for one, other in zip(scattered(target, define, x, at, v), want, strict=True):
        compare(one, other, 60)


@pytest.mark.parametrize("target", TARGETS)
def test_what_kernels_leave_to_torch(target: str) -> None:
    """Complex numbers, truth values that are added, and nothing at all."""
    at = torch.tensor([1, 1, 0])
    cases = [
        (torch.randn(3, 2, dtype=torch.complex64), torch.randn(3, 2, dtype=torch.complex64), at),
        (torch.tensor([[True], [False]]), torch.tensor([[True], [False], [True]]), at),
        (torch.randn(3, 2), torch.randn(0, 2), at[:0]),
        (torch.randn(3, 0), torch.randn(3, 0), at),
    ]
    for base, values, index in cases:
        fd = defined(added("index_add", 0), base, index, values)
        (got,) = fd.execute([base, index, values], target=target)
        torch.testing.assert_close(got, base.index_add(0, index, values))


# -- indices that err ------------------------------------------------------------------------------


@pytest.mark.usefixtures("checks_indices")
@pytest.mark.parametrize("wrong", [-6, -1, 5, 10**12])
@pytest.mark.parametrize("columns", [4, 40])
@pytest.mark.parametrize("mode", ["index_add", "scatter_add", "index_put_accumulate"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_index_out_of_range_is_named(target: str, mode: str, columns: int, wrong: int) -> None:
    base, values = torch.randn(5, columns), torch.randn(40, columns)
    at = indices((40,), 0, 5)
    at[17] = wrong
    at = at[:, None].repeat(1, columns) if mode == "scatter_add" else at
    fd, lowest = defined(added(mode, 0), base, at, values), -5 * (mode[-3:] == "ate")
    if lowest <= wrong < 5:
        fd.execute([base, at, values], target=target)
        return
    words = f"^{mode}: index {wrong} is out of range; allowed: {lowest} to 4$"
    with pytest.raises(IndexOutOfRangeError, match=words):
        fd.execute([base, at, values], target=target)
    good = at.clamp(0, 4)
    (got,) = fd.execute([base, good, values], target=target)
    compare(got, exactly(mode, 0, base, good, values), 40)


@pytest.mark.parametrize("wrong", [-8, 5])
@pytest.mark.parametrize("columns", [1, 4, 16, 40, 300])
@pytest.mark.parametrize("mode", ["index_add", "scatter_add", "index_put_accumulate", "scatter"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_point_out_of_range_changes_nothing(
    target: str, mode: str, columns: int, wrong: int
) -> None:
    """The processor raises then, and what is updated in place has points in range at most."""
    base, at = torch.randn(5, columns), torch.tensor([1, 4, 2])
    values = torch.randn(3, columns)
    bad = torch.tensor([1, wrong, 2])
    if mode.startswith("scatter"):
        at, bad = (index[:, None].repeat(1, columns) for index in (at, bad))
    with FusionDefinition() as fd:
        handles = [fd.from_pytorch(x) for x in (base, at, values)]
        fd.add_output(added(mode, 0)(fd, *handles), alias_input=handles[0])
    after = base.clone()
    if target == "cpu":
        with pytest.raises(IndexOutOfRangeError, match=f"index {wrong} is out of range"):
            fd.execute([after, bad, values], target=target)
    else:
        fd.execute([after, bad, values], target=target)
    points = torch.tensor([1, 2])
    new = values[[0, 2]] if mode == "scatter" else base[points] + values[[0, 2]]
    assert torch.equal(after[[3, 4]], base[[3, 4]])
    kept = torch.equal(after[[0]], base[[0]])
    assert kept or (target == "cpu" and mode.startswith("scatter"))  # columns of their own
    if target != "cpu":
        torch.testing.assert_close(after[points], new)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(1, 40), (1, 3, 20), (7, 1, 33), (300, 1, 127)], ids=str)
def test_a_dimension_of_one_element_is_added_to(shape: tuple[int, ...], dim: int) -> None:
    """All points go to the one row there is, of which lists have no axis."""
    values = torch.randn(*shape[:dim], 5, *shape[dim + 1 :])
    base, at = torch.randn(shape), indices((5,), 0, shape[dim])
    defined(added("index_add", dim), base, at, values).validate([base, at, values])


# -- the same sums each time -----------------------------------------------------------------------


@pytest.fixture
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def plan_of(dtype: torch.dtype, target: str) -> Plan:
    inputs = [torch.zeros(5, 32, dtype=dtype), indices((40,), 0, 5), torch.ones(40, 32).to(dtype)]
    return defined(added("index_add", 0), *inputs).plan(inputs, target=target)


@pytest.mark.usefixtures("_deterministic")
def test_torch_adds_floats_on_a_gpu_where_the_same_sums_are_wanted() -> None:
    assert plan_of(torch.float32, "cuda:sm_90").externs
    assert not plan_of(torch.int32, "cuda:sm_90").externs  # exact in any order
    assert not plan_of(torch.float32, "cpu").externs


def test_the_wish_for_the_same_sums_is_seen_at_every_call() -> None:
    inputs = [torch.zeros(5, 32), indices((40,), 0, 5), torch.ones(40, 32)]
    fd = defined(added("index_add", 0), *inputs)
    assert not fd.plan(inputs, target="cuda:sm_90").externs
    torch.use_deterministic_algorithms(True)
    try:
        assert fd.plan(inputs, target="cuda:sm_90").externs
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("updates", [False, True])
def test_the_wish_is_seen_where_inputs_are_recognized(*, updates: bool) -> None:
    inputs = [torch.zeros(5, 32), indices((40,), 0, 5), torch.ones(40, 32)]
    with FusionDefinition() as fd:
        base, at, source = map(fd.from_pytorch, inputs)
        total = fd.ops.index_add(base, at, source, 0)
        fd.add_output(total, alias_input=base if updates else None)
        fd.add_output(total * 2.0)
    fd.execute(inputs)
    fd.execute(inputs)
    before = stats()["plans_built"]
    torch.use_deterministic_algorithms(True)
    try:
        fd.execute(inputs)
    finally:
        torch.use_deterministic_algorithms(False)
    assert stats()["plans_built"] == before + 1
    fd.execute(inputs)
    assert stats()["plans_built"] == before + 1


# -- the text for devices --------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("mode", ["index_add", "scatter_add"])
@pytest.mark.parametrize("columns", [6, 64])
def test_no_spills(columns: int, mode: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter_forms, "MOST_COLUMNS", 0)  # no lists
    base, values = torch.zeros(100, columns).half(), torch.zeros(50, columns).half()
    at = torch.zeros(50).long() if mode == "index_add" else torch.zeros(50, columns).long()
    given = [base, at, values]
    plan = defined(added(mode, 0), *given).plan(given, target=f"cuda:{arch}")
    (kernel,) = (kernel for kernel in plan.kernels if kernel.scheduler == "scatter")
    assert kernel.compile().spill_bytes == 0


def test_memory_adds_four_numbers_at_once_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter_forms, "MOST_COLUMNS", 0)  # no lists
    inputs = [torch.zeros(100, 768), torch.zeros(50).long(), torch.zeros(50, 768)]
    *_, kernel = defined(added("index_add", 0), *inputs).plan(inputs, target="cuda:sm_90").kernels
    assert kernel.scheduler == "scatter"
    assert "red.relaxed.gpu.global.add.v4.f32" in kernel.source
    assert "float T3_sum[4];" in kernel.source


def test_random_numbers_are_added() -> None:
    def define(fd: FusionDefinition, base: Handle, index: Handle) -> Handle:
        numbers = fd.ops.uniform(0, 1, [90, 20], rng_seed=1, rng_offset=2)
        return fd.ops.index_add(base, index, numbers, 0)

    inputs = [torch.zeros(7, 20), torch.arange(90) % 7]
    for target in TARGETS:
        defined(define, *inputs).validate(inputs, target=target)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("columns", [24, 1000])
def test_most_rows_have_no_point(columns: int, dtype: torch.dtype) -> None:
    """What is made of such a row comes of what it was alone, also where that is read again."""
    x, source = torch.randn(300, columns).to(dtype), torch.randn(5, columns).to(dtype)
    index = torch.tensor([7, 299, 7, 0, 150])
    with FusionDefinition() as fd:
        given, at, added = (fd.from_pytorch(t) for t in (x, index, source))
        fd.add_output(fd.ops.exp(fd.ops.index_add(given, at, added, 0)) * given)
        fd.add_output(fd.ops.neg(fd.ops.index_put_accumulate(given, at, added)))
    agrees(fd, [x, index, source], "cpu")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [[], [0], [299], [0, 299], [1, 1, 297], list(range(300))], ids=len)
def test_rows_without_points_at_either_end_and_between(rows: list[int], target: str) -> None:
    """A base that is read, and one of numbers, of which runs of rows are left as they are."""

    def define(fd: FusionDefinition, x: Handle, at: Handle, source: Handle) -> list[Handle]:
        zeros = fd.ops.full([300, 20], 0.0, DataType.Float)
        return [
            fd.ops.index_add(x, at, source, 0) * 2.0,
            fd.ops.index_put_accumulate(zeros, at, source),
        ]

    at, source = torch.tensor(rows, dtype=torch.int64), torch.randn(len(rows), 20)
    inputs = [torch.randn(300, 20), at, source]
    agrees(defined(define, *inputs), inputs, target)


def test_rows_without_points_are_shared_out_over_threads() -> None:
    """Runs end where another thread's rows begin."""

    def define(fd: FusionDefinition, x: Handle, at: Handle, source: Handle) -> Handle:
        return fd.ops.index_add(x, at, source, 0)

    inputs = [torch.randn(40_000, 30), torch.tensor([3, 20_000, 39_998]), torch.randn(3, 30)]
    agrees(defined(define, *inputs), inputs, "cpu")


@pytest.mark.parametrize("target", TARGETS)
def test_data_and_points_may_be_made_of_the_same(target: str) -> None:
    """Of one row, a point is where the data is: what both are, a choice between pieces, is made
    once, of what says which piece it is."""

    def define(fd: FusionDefinition, x: Handle, rows: Handle, at: Handle) -> Handle:
        joined = fd.ops.cummax(fd.ops.cat([x, x, x], 1), 3)
        points = fd.ops.index_select(joined, rows, 0)
        return fd.ops.index_put_accumulate(joined, at, fd.ops.reshape(points, [2, 2, 3, 8, 1]))

    rows, at = torch.zeros(4, dtype=torch.int32), torch.full((2, 2), -1, dtype=torch.int32)
    inputs = [torch.randn(1, 1, 8, 1), rows, at]
    agrees(defined(define, *inputs), inputs, target)
