"""Several Python threads at once: same and other definitions, large outputs, updates, errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition, pipeline, stats
from fuser.errors import IndexOutOfRangeError
from fuser.planning import Compiled
from fuser.runtime.calls.executor import LoadedKernel
from fuser.runtime.calls.output_pool import POOLED_BYTES

ROOT = Path(__file__).parents[3]
THREADS = 4
both_targets = pytest.mark.parametrize("target", ["cpu", "emulator"])


def at_once(work: Callable[[int], None], threads: int = THREADS) -> None:
    """`work(0)`, `work(1)`, ... in threads that start together; the first error is raised."""
    errors: list[BaseException] = []
    ready = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            ready.wait(60)
            work(number)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


def softmax() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        powers = fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True))
        fd.add_output(powers / fd.ops.sum(powers, [1], keepdim=True))
        fd.add_output(fd.ops.sum(powers, [0]))
    return fd


def check_softmax(fd: FusionDefinition, x: torch.Tensor, target: str) -> None:
    shares, columns = fd.execute([x], target=target)
    torch.testing.assert_close(shares, torch.softmax(x, 1))
    torch.testing.assert_close(columns, (x - x.amax(1, keepdim=True)).exp().sum(0))


@both_targets
def test_one_definition_for_other_sizes(target: str) -> None:
    fd = softmax()

    def work(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        for step in range(3):
            x = torch.randn(4 + (number + step) % 3, 40, generator=generator)
            check_softmax(fd, x, target)

    at_once(work)


@both_targets
def test_other_definitions_and_each_launch_is_counted(target: str) -> None:
    before = stats()

    def work(number: int) -> None:
        with FusionDefinition() as fd:
            x = fd.define_tensor(shape=[-1], contiguity=True)
            fd.add_output(fd.ops.sin(x) * float(number + 1))
        for step in range(5):
            x = torch.linspace(0, 1, 10 + step)
            (got,) = fd.execute([x], target=target)
            torch.testing.assert_close(got, x.sin() * (number + 1))

    at_once(work)
    after = stats()
    assert after["kernels_launched"] - before["kernels_launched"] == 5 * THREADS
    assert after["plans_built"] - before["plans_built"] == 5 * THREADS


def test_large_outputs_of_the_pool_are_never_shared() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(x + 1.0)
    elements = POOLED_BYTES // 4

    def work(number: int) -> None:
        x = torch.full((elements,), float(number))
        kept: list[torch.Tensor] = []
        for step in range(12):
            kept.append(fd.execute([x])[0])
            if step % 3 == 2:  # some outputs outlive others
                assert all(bool((y == number + 1).all()) for y in kept)
                del kept[:2]
        assert len({y.data_ptr() for y in kept}) == len(kept)

    at_once(work)


@both_targets
def test_inputs_are_updated_by_their_own_thread_only(target: str) -> None:
    with FusionDefinition() as fd:
        p = fd.define_tensor(shape=[-1], contiguity=True)
        g = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(p - g * 0.5, alias_input=p)

    def work(number: int) -> None:
        p, g = torch.full((50,), float(number)), torch.full((50,), 2.0)
        for _ in range(6):
            assert fd.execute([p, g], target=target) == []
        assert torch.equal(p, torch.full((50,), number - 6.0))

    at_once(work)


def test_an_index_out_of_range_is_reported_to_its_own_thread() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        index = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
        fd.add_output(fd.ops.index_select(fd.ops.exp(x), index, 0))

    def work(number: int) -> None:
        x = torch.randn(8, 3)
        for step in range(20):
            wrong = (number + step) % 2 == 1
            index = torch.tensor([1, 100 + number if wrong else 2, 3])
            if wrong:
                with pytest.raises(IndexOutOfRangeError, match=f"index {100 + number} "):
                    fd.execute([x, index])
            else:
                torch.testing.assert_close(fd.execute([x, index])[0], x.exp()[index])

    at_once(work)


FIRST_PLANS = """
import sys, threading, torch
from fuser import FusionDefinition
sys.setswitchinterval(1e-6)
x, results = torch.randn(6, 5), []
ready = threading.Barrier(8)
def work(number):
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        made = fd.ops.segment_set(given * float(number))
        fd.add_output(fd.ops.sum(made, [0]) + fd.ops.sum(given, [0]))
    ready.wait()
    results.append(len(fd.plan([x]).kernels))
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(results))
"""


def test_the_first_plans_of_a_process_may_be_made_at_once() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PLANS],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["8"], done.stderr


def test_a_thread_waits_for_the_kernels_it_needs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a kernel of other sizes is compiled for one, another one has its result."""
    entered, release = threading.Event(), threading.Event()
    load = pipeline._load  # pyright: ignore[reportPrivateUsage]

    def waiting(compiled: Compiled, place: torch.device) -> dict[str, LoadedKernel]:
        if compiled.plan.definition.inputs[0].shape == (7,):
            entered.set()
            assert release.wait(60)
        return load(compiled, place)

    monkeypatch.setattr(pipeline, "_load", waiting)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor(shape=[-1], contiguity=True)))
    results: list[torch.Tensor] = []
    slow = threading.Thread(target=lambda: results.extend(fd.execute([torch.ones(7)])))
    slow.start()
    assert entered.wait(60)
    (quick,) = fd.execute([torch.ones(5)])
    assert quick.tolist() == [-1.0] * 5
    assert not results
    release.set()
    slow.join()
    assert results[0].tolist() == [-1.0] * 7


FORKED_WHILE_PLANNING = """
import os, threading, time
import torch
from fuser import FusionDefinition, planning

entered = threading.Event()

def plan():
    with planning._PLANNING:
        entered.set()
        time.sleep(0.2)

thread = threading.Thread(target=plan)
thread.start()
entered.wait(60)
if os.fork() == 0:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1]) + 1.0)
    print(fd.execute([torch.ones(2)])[0].tolist(), flush=True)
    os._exit(0)
os.wait()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_plans_though_its_parent_was_planning():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED_WHILE_PLANNING],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "[2.0, 2.0]\n", done.stderr


AFTER_THE_MAIN_THREAD = """
import atexit, sys, threading
import torch
from fuser import FusionDefinition

def work():
    if sys.argv[1] == "thread":
        threading.main_thread().join()
    x = torch.ones(4, 5)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(t * 2.5)
        if sys.argv[2] == "2":
            fd.add_output(fd.ops.sum(fd.ops.segment_set(t + 1.0), [0, 1]))
    assert len(fd.plan([x]).kernels) == int(sys.argv[2])
    print(fd.execute([x])[0].sum().item(), flush=True)

atexit.register(work) if sys.argv[1] == "atexit" else threading.Thread(target=work).start()
"""


@pytest.mark.parametrize("kernels", ["1", "2"])
@pytest.mark.parametrize("where", ["thread", "atexit"])
def test_kernels_are_compiled_after_the_main_thread_has_ended(where: str, kernels: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTER_THE_MAIN_THREAD, where, kernels],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "50.0\n", done.stderr
