"""What only a GPU can show. Without one, everything here is skipped and says so."""

from __future__ import annotations

import threading

import pytest
import torch

import fuser
from fuser import FusionDefinition
from tests.kernel_families import DTYPES, FAMILIES, Family, check, from_torch

pytestmark = pytest.mark.gpu


def doubled(x: torch.Tensor) -> FusionDefinition:
    """2x, for tensors like `x`."""
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x) * 2.0)
    return fd


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_families_are_what_torch_computes(family: Family, dtype: torch.dtype) -> None:
    check(family, dtype, "cuda")


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers_wrap_around(dtype: torch.dtype) -> None:
    x = torch.arange(-300, 300, device="cuda").to(dtype)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        fd.add_output(given * given)
    (result,) = fd.execute([x])
    torch.testing.assert_close(result, x * x, rtol=0, atol=0)


def test_bool_and_complex() -> None:
    x = torch.randn(1000, dtype=torch.complex64, device="cuda")
    flags = torch.rand(1000, device="cuda") < 0.5
    with FusionDefinition() as fd:
        given, chosen = fd.from_pytorch(x), fd.from_pytorch(flags)
        fd.add_output(fd.ops.where(chosen, given * given, given))
        fd.add_output(fd.ops.logical_not(chosen))
    picked, flipped = fd.execute([x, flags])
    torch.testing.assert_close(picked, torch.where(flags, x * x, x))
    assert torch.equal(flipped, ~flags)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("hot", [False, True])
def test_lists_of_points_that_blocks_make_at_once(dtype: torch.dtype, *, hot: bool) -> None:
    """On two streams, and again and again, so that launches overlap and find numbers left at 0."""
    words = torch.randint(0, 5000, (20_000,), device="cuda")
    words = torch.where(torch.rand(20_000, device="cuda") < 0.5, 7, words) if hot else words
    gradient = torch.randint(-2, 3, (20_000, 256), device="cuda").to(dtype)
    with FusionDefinition() as fd:
        given, at = fd.from_pytorch(gradient), fd.from_pytorch(words)
        zeros = fd.ops.full([5000, 256], 0.0, from_torch(dtype))
        fd.add_output(fd.ops.index_put_accumulate(zeros, at, given))
    exact = torch.zeros(5000, 256, device="cuda").index_add(0, words, gradient.float()).to(dtype)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    results: list[torch.Tensor] = []
    for number in range(20):
        with torch.cuda.stream(streams[number % 2]):
            results += fd.execute([gradient, words])
    torch.cuda.synchronize()
    assert all(torch.equal(result, exact) for result in results)


def test_runs_on_the_current_stream() -> None:
    """The other stream waits before x is set: a kernel on any other would read zeros."""
    x = torch.zeros(1 << 20, device="cuda")
    fd = doubled(x)
    fd.execute([x])
    torch.cuda.synchronize()
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(50_000_000)
        x.fill_(3.0)
        (result,) = fd.execute([x])
    other.synchronize()
    assert torch.equal(result, torch.full_like(x, 6.0))


def test_is_captured_in_a_cuda_graph() -> None:
    x = torch.zeros(1000, device="cuda")
    fd = doubled(x)
    fd.execute([x])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (result,) = fd.execute([x])
    x.fill_(4.0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, torch.full_like(x, 8.0))


def test_a_number_on_the_processor_is_captured_as_it_is_then() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        fd.add_output(t * fd.define_tensor(shape=[], is_cpu=True))
    x, two = torch.ones(1000, device="cuda"), torch.tensor(2.0)
    fd.execute([x, two])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (y,) = fd.execute([x, two])
    x.fill_(3.0)
    graph.replay()
    assert y.eq(6.0).all()


def test_a_first_call_is_not_captured() -> None:
    x = torch.zeros(1000, device="cuda")
    fd = doubled(x)
    with (
        pytest.raises(fuser.FuserError, match="make one before"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        fd.execute([x])


def test_workspaces_of_several_streams_are_their_own() -> None:
    """Sums over everything go through a workspace; the streams' kernels run at the same time."""
    xs = [torch.randn(1 << 22, device="cuda", dtype=torch.float64) for _ in range(4)]
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.from_pytorch(xs[0])))
    streams = [torch.cuda.Stream() for _ in xs]
    torch.cuda.synchronize()
    results: list[list[torch.Tensor]] = [[] for _ in xs]
    for _ in range(20):
        for x, stream, found in zip(xs, streams, results, strict=True):
            with torch.cuda.stream(stream):
                found.extend(fd.execute([x]))
    torch.cuda.synchronize()
    for x, found in zip(xs, results, strict=True):
        assert all(torch.equal(total, found[0]) for total in found)
        torch.testing.assert_close(found[0], x.sum())


def test_graphs_have_counters_of_their_own() -> None:
    """Two graphs that one stream captured are replayed on two at once, beside calls."""
    x = torch.randint(-2, 3, (1 << 22,), device="cuda").float()
    exact = x.double().sum().float()
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.from_pytorch(x)))
    fd.execute([x])
    torch.cuda.synchronize()
    graphs = [torch.cuda.CUDAGraph() for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in graphs]
    results: list[torch.Tensor] = []
    for graph in graphs:
        with torch.cuda.graph(graph):
            results += fd.execute([x])
    for _ in range(20):
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        called = fd.execute([x])
        torch.cuda.synchronize()
        assert all(torch.equal(total, exact) for total in (*results, *called))
        for result in results:
            result.zero_()
        torch.cuda.synchronize()


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((1 << 22,), 0), ((3, 1 << 20), 1), ((5000, 40), 0), ((5000, 3000), 0), ((500, 20_000), 0)],
    ids=str,
)
def test_scans_of_few_and_of_many(shape: tuple[int, ...], dim: int) -> None:
    """Parts of rows, whose blocks wait for each other, and columns; again and again."""
    x = torch.randint(-2, 3, shape, device="cuda").float()
    exact = x.double().cumsum(dim).float()
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.cumsum(fd.from_pytorch(x), dim))
    for _ in range(10):
        (scanned,) = fd.execute([x])
        assert torch.equal(scanned, exact)


@pytest.mark.parametrize("offset", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_misaligned_inputs(dtype: torch.dtype, offset: int) -> None:
    x = torch.randn(4099, device="cuda").to(dtype)[offset:]
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.cast(fd.from_pytorch(x) * 2.0, dtype=from_torch(dtype)))
    (result,) = fd.execute([x])
    assert torch.equal(result, x * 2)


def test_an_aligned_plan_is_not_used_for_a_misaligned_input() -> None:
    x = torch.randn(4100, device="cuda")
    fd = doubled(x)
    for given in (x[:4096], x[1:4097], x[4:4100]):
        assert torch.equal(fd.execute([given])[0], given * 2)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (7, 0, 3)])
def test_zero_size(shape: tuple[int, ...]) -> None:
    x = torch.empty(*shape, device="cuda")
    before = fuser.stats()["kernels_launched"]
    (result,) = doubled(x).execute([x])
    assert result.shape == shape
    assert result.is_cuda
    assert fuser.stats()["kernels_launched"] == before


def test_another_size_compiles_nothing() -> None:
    fd = doubled(torch.empty(8, 64, device="cuda"))
    fd.execute([torch.randn(8, 64, device="cuda")])
    before = fuser.stats()["kernels_compiled"]
    x = torch.randn(24, 64, device="cuda")
    assert torch.equal(fd.execute([x])[0], x * 2)
    assert fuser.stats()["kernels_compiled"] == before


def test_more_than_two_to_the_31_elements() -> None:
    elements = (1 << 31) + 5
    if torch.cuda.mem_get_info()[0] < 3 * elements:
        pytest.skip("needs 6 GB of free device memory")
    x = torch.ones(elements, dtype=torch.int8, device="cuda")
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        fd.add_output(given + given)
    (result,) = fd.execute([x])
    assert bool((result[-5:] == 2).all())
    assert bool((result[:5] == 2).all())


def test_threads_without_a_cuda_context_of_their_own() -> None:
    x = torch.randn(1000, device="cuda")
    fd = doubled(x)
    results: list[torch.Tensor] = []
    threads = [threading.Thread(target=lambda: results.extend(fd.execute([x]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert len(results) == 4
    assert all(torch.equal(result, x * 2) for result in results)


def test_inputs_on_two_devices_are_refused() -> None:
    x = torch.randn(10, device="cuda")
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x) + fd.from_pytorch(x))
    with pytest.raises(fuser.FuserError, match="cpu"):
        fd.execute([x, x.cpu()])


def test_a_definition_runs_where_its_inputs_are() -> None:
    x = torch.randn(10, device="cuda")
    fd = doubled(x)
    for given in (x, x.cpu()):
        (result,) = fd.execute([given])
        assert result.device == given.device
        assert torch.equal(result, given * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "shape", [(5000, 767), (300, 8192), (9, 30522), (64, 50257), (4, 131072), (3, 262144)], ids=str
)
def test_rows_of_every_length(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """Registers, shared memory beyond 48 KB, clusters: softmax and the sum it divides by."""
    x = torch.randn(shape, device="cuda", dtype=dtype)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        wide = fd.ops.cast(given, from_torch(torch.float32))
        powers = fd.ops.exp(wide - fd.ops.max(wide, [1], keepdim=True))
        fd.add_output(powers / fd.ops.sum(powers, [1], keepdim=True))
        fd.add_output(fd.ops.sum(powers, [1]))
    for _ in range(3):
        got, total = fd.execute([x])
        exact = x.double()
        powers64 = (exact - exact.amax(1, keepdim=True)).exp()
        torch.testing.assert_close(total.double(), powers64.sum(1), rtol=1e-4, atol=0)
        torch.testing.assert_close(got.double(), exact.softmax(1), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("offset", [1, 3])
def test_rows_at_any_address(offset: int) -> None:
    memory = torch.randn(4096 * 1000 + offset, device="cuda")
    x = memory[offset:].view(4096, 1000)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        fd.add_output(given - fd.ops.mean(given, [1], keepdim=True))
    (got,) = fd.execute([x])
    torch.testing.assert_close(got, x - x.mean(1, keepdim=True), rtol=1e-5, atol=1e-6)
