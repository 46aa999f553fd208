"""What one thread of a block does for a row: asked for first, and done where nobody else waits."""

from __future__ import annotations

import re

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.emulator import ThreadOrder
from tests.definitions import defined, only_kernel
from tests.row_places import PLACES, placed
from tests.targets.rows.test_places_cuda import check

FIRST = r"if \(thread == 0( && blockIdx\.y == 0)?\)"


def loss(fd: FusionDefinition, x: Handle, labels: Handle) -> list[Handle]:
    """Of each row, and their sum."""
    shifted = x - fd.ops.max(x, [1], keepdim=True)
    spread = fd.ops.log(fd.ops.sum(fd.ops.exp(shifted), [1], keepdim=True))
    chosen = fd.ops.gather(shifted, fd.ops.broadcast(labels, [False, True]), 1)
    each = fd.ops.squeeze(spread - chosen, [1])
    return [each, fd.ops.sum(each, [0])]


def used_by_all(fd: FusionDefinition, x: Handle, scale: Handle) -> list[Handle]:
    """A number of each row that all of its threads need, beside one that none of them does."""
    wide = fd.ops.broadcast(scale, [False, True])
    largest = fd.ops.max(x * wide, [1])
    return [x * wide / fd.ops.sum(x, [1], keepdim=True), fd.ops.exp(largest) + fd.ops.neg(scale)]


def handed_on(fd: FusionDefinition, x: Handle, scale: Handle) -> list[Handle]:
    """What is made before the first sweep, and stored after it and after the second."""
    root = fd.ops.sqrt(fd.ops.abs(scale))
    mean = fd.ops.mean(x, [1])
    away = x - fd.ops.broadcast(mean, [False, True])
    return [root + mean, root * fd.ops.sum(away * away, [1])]


def picked(fd: FusionDefinition, x: Handle, labels: Handle) -> list[Handle]:
    """An element of each row that is handed out as it is, and those of all rows added up."""
    chosen = fd.ops.squeeze(fd.ops.gather(x, fd.ops.broadcast(labels, [False, True]), 1), [1])
    return [x - fd.ops.max(x, [1], keepdim=True), chosen, fd.ops.sum(chosen, [0])]


def blocks(source: str) -> list[str]:
    """What is done by the first thread in each row, block by block."""
    found = re.findall(rf"\n    {FIRST} \{{\n(.*?)\n    \}}", source, re.DOTALL)
    return [body for _, body in found]


def inputs(define, rows: int, length: int) -> list[torch.Tensor]:
    torch.manual_seed(length)
    x = torch.randn(rows, length)
    labelled = define in (loss, picked)
    more = torch.randint(0, length, (rows,)) if labelled else torch.randn(rows)
    return [x, more]


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("define", [loss, used_by_all, handed_on, picked])
def test_results_are_the_oracles(
    define, place: str, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    for length in (5, 300, 517):
        given = inputs(define, 7, length)
        with placed(place):
            check(defined(define, *given), given, length)


def test_labels_are_loaded_before_their_rows_and_losses_made_by_one_thread():
    given = [torch.empty(64, 30522), torch.empty(64, dtype=torch.int64)]
    (kernel,) = defined(loss, *given).plan(given, target="cuda:sm_90").kernels
    label, chosen, made = blocks(kernel.source)
    assert "T7_in[i0];" in label
    assert kernel.source.index(label) < kernel.source.index("load_vector(T0, T0_in")
    assert "index_in_range(" in chosen
    assert "T0_in[" in chosen
    assert "log(" in made
    assert "_out[i0] = " in made
    assert "_part = " in made


def test_what_all_threads_need_is_made_by_all():
    given = inputs(used_by_all, 64, 5000)
    (kernel,) = defined(used_by_all, *given).plan(given, target="cuda:sm_90").kernels
    loaded, made = blocks(kernel.source)
    assert "_in[i0];" in loaded
    assert "exp(" in made
    assert "inverse" not in made
    assert "inverse" in kernel.source


def test_what_is_made_for_later_is_handed_on():
    given = inputs(handed_on, 64, 5000)
    (kernel,) = defined(handed_on, *given).plan(given, target="cuda:sm_90").kernels
    _, root, stored = blocks(kernel.source)
    assert "= sqrt(" in root
    (made,) = re.findall(r"(T\d+) = sqrt\(", root)
    assert f"{made}_own = {made};" in root
    assert f"const float {made} = {made}_own;" in stored


@pytest.mark.parametrize("define", [picked, lambda fd, *given: picked(fd, *given)[:2]])
def test_what_is_loaded_by_one_thread_is_stored_by_it(define):
    given = inputs(picked, 64, 30522)
    source = only_kernel(defined(define, *given), given, "cuda:sm_90")
    compile_cuda(source, "sm_90")
    _, chosen = blocks(source.code)
    assert re.search(r"const float (T\d+(_\d+)?) = T0_in\[.*_out\[i0\] = \1;", chosen, re.DOTALL)


def test_warps_do_so_in_all_of_their_lanes():
    given = inputs(loss, 20000, 300)
    (kernel,) = defined(loss, *given).plan(given, target="cuda:sm_90").kernels
    assert "warp of" in kernel.mapping
    assert "_own" not in kernel.source


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("extreme", ["max", "min"])
def test_extremes_of_16_bits_are_found_two_at_a_time(dtype: torch.dtype, extreme: str):
    x = torch.randn(5, 4096).to(dtype)
    x[1, 17], x[2, 4000], x[3, ::7] = torch.nan, torch.inf, -torch.inf
    with FusionDefinition() as fd:
        wide = fd.ops.cast(fd.from_pytorch(x), DataType.Float)
        found = getattr(fd.ops, extreme)(wide, [1], True)
        fd.add_output(fd.ops.exp(wide - found))
        fd.add_output(found)
    (kernel,) = fd.plan([x], target="emulator").kernels
    largest = str(extreme == "max").lower()
    assert f"extreme_lane<{largest}>(T0)" in kernel.source
    fd.validate([x], target="emulator")
