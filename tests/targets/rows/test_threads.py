"""Row kernels on several threads: right with any number of them, and the same every time."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from fuser.ir.tolerance import tolerance
from fuser.schedule import CpuRowParameters
from tests.definitions import defined
from tests.mapped_by import THREADED, map_by
from tests.row_functions import layernorm, softmax
from tests.targets.rows.test_cpu import run
from tests.targets.test_gathers_cpu import cross_entropy

FEW_ROWS = [(4, 16384), (7, 16384), (1, 65536), (1, 100_003), (7, 30000), (3, 1000)]


@pytest.fixture(params=[1, 2])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """As many threads as torch would use."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def _always_threaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts threads for any work, so that small tensors are shared out as large ones are."""
    parameters = CpuRowParameters(THREADED, strip=8, block=16, long_run=8)
    map_by(monkeypatch, parameters)


def everything(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Row values, folds over the rows, and both along the rows."""
    return [
        softmax(fd, x, 1),
        fd.ops.sum(x, [0]),
        fd.ops.max(x, [0]),
        fd.ops.var(x, [1]),
        fd.ops.mean(x, [0, 1]),
    ]


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("shape", FEW_ROWS, ids=str)
def test_few_long_rows_are_shared_out(shape: tuple[int, int]):
    x = torch.randn(shape)
    run(lambda fd, x: softmax(fd, x, 1), x, length=shape[1])
    run(lambda fd, x: layernorm(fd, x, [1]), x, length=shape[1])
    run(lambda fd, x: [fd.ops.sum(x, [1]), fd.ops.max(x, [1])], x, length=shape[1])


@pytest.mark.parametrize("shape", [(1, 5), (7, 15), (7, 17), (9, 40), (40, 9), (100, 3)], ids=str)
@pytest.mark.usefixtures("_threads", "_always_threaded")
def test_small_rows_on_threads(shape: tuple[int, int]):
    x = torch.rand(shape) + 0.5
    run(everything, x)
    run(lambda fd, x: [softmax(fd, x, 0), softmax(fd, x, 1)], x)
    run(lambda fd, x: [fd.ops.prod(x), fd.ops.any(x, [0]), fd.ops.sum(x, [1])], x)


@pytest.mark.parametrize("shape", [(1100, 400), (5000, 100), (300, 700)], ids=str)
def test_many_threads(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]):
    """Each has lines, and places whose parts it joins."""
    map_by(monkeypatch, CpuRowParameters(THREADED))
    before = torch.get_num_threads()
    torch.set_num_threads(33)
    try:
        run(everything, torch.randn(shape))
        run(lambda fd, x: [fd.ops.sum(x, [0]), fd.ops.var(x, [0])], torch.randn(shape))
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("shape", [(3000, 100), (4, 40_000), (20, 40_000), (40_000, 4)], ids=str)
def test_results_are_the_same_every_time(shape: tuple[int, int]):
    x = torch.randn(shape)
    fd = defined(everything, x)
    first = fd.execute([x])
    for _ in range(5):
        assert all(map(torch.equal, fd.execute([x]), first))


@pytest.mark.usefixtures("_threads")
def test_several_callers_at_once():
    inputs = [torch.randn(500, 200) for _ in range(4)]
    targets = [torch.randint(0, 200, (500,)) for _ in range(4)]
    with FusionDefinition() as fd:
        data, at = fd.from_pytorch(inputs[0]), fd.from_pytorch(targets[0])
        for out in [*cross_entropy(fd, data, at), *everything(fd, data)]:
            fd.add_output(out)
    want = [fd.execute([x, target]) for x, target in zip(inputs, targets, strict=True)]
    relative, absolute = tolerance(DataType.Float, 500)  # threads here may be fewer than there

    def call(number: int) -> bool:
        which = number % 4
        got = fd.execute([inputs[which], targets[which]])
        pairs = zip(got, want[which], strict=True)
        return all(torch.allclose(a, b, relative, absolute) for a, b in pairs)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(60)))


@pytest.mark.usefixtures("_threads")
def test_only_the_caller_with_a_wrong_index_gets_an_error():
    x, target = torch.randn(200, 50), torch.randint(0, 50, (200,))
    bad = target.clone()
    bad[100] = 50
    with FusionDefinition() as fd:
        fd.add_output(cross_entropy(fd, fd.from_pytorch(x), fd.from_pytorch(target))[0])
    (want,) = fd.execute([x, target])

    def call(number: int) -> bool:
        if number % 2:
            return torch.allclose(fd.execute([x, target])[0], want)
        with pytest.raises(IndexOutOfRangeError):
            fd.execute([x, bad])
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(60)))


@pytest.mark.parametrize("setting", ["OMP_THREAD_LIMIT=1", "OMP_DYNAMIC=true"])
def test_fewer_threads_than_were_asked_for(setting: str):
    script = """
        import torch
        from fuser import FusionDefinition
        torch.set_num_threads(3)
        x = torch.ones(3000, 100)
        with FusionDefinition() as fd:
            handle = fd.from_pytorch(x)
            fd.add_output(fd.ops.sum(handle, [0]))
            fd.add_output(fd.ops.sum(handle, [1]))
        for _ in range(3):
            columns, rows = fd.execute([x])
            assert (columns == 3000).all(), columns
            assert (rows == 100).all(), rows
    """
    name, _, value = setting.partition("=")
    environment = {**os.environ, name: value, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
