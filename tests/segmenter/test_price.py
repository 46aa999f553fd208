"""What is said of prices: terms that add up to what decides, and the one that costs most."""

import re

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.segmenter import GPU, PROCESSOR, Machine
from fuser.segmenter.current_groups import CurrentGroups
from fuser.segmenter.graph import build_graph
from fuser.segmenter.price import Price, saved
from tests.definitions import defined
from tests.segmented import concrete, memory_of


def terms(line: str) -> dict[str, int]:
    """What a line of the log says is saved, by what for, and `total`."""
    total, _, listed = line.partition(": saves ")[2].partition(" bytes: ")
    found = {words: int(number) for number, words in re.findall(r"(-?\d+) ([a-z ]+)", listed)}
    return {"total": int(total), **found}


def test_a_merge_saves_a_launch_and_what_stays_in_registers():
    # exp reads and writes 4 MB, and so does neg; as one kernel, they do so once
    x = torch.empty(1024, 1024, device="meta")
    fd = defined(lambda fd, x: fd.ops.neg(fd.ops.exp(x)), x)
    for target, machine in (("cpu", PROCESSOR), ("cuda:sm_90", GPU)):
        (line,) = fd.plan([x], target=target).log
        launch, moved = machine.launch_bytes, 2 * 4 * 1024 * 1024
        assert terms(line) == {"total": launch + moved, "launch": launch, "moved": moved}


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_the_terms_of_every_line_add_up(target: str):
    x = torch.empty(512, 512, device="meta")

    def build(fd: FusionDefinition, x: Handle) -> Handle:
        y = fd.ops.exp(x)
        for dim in (1, 0, 1, 0):
            y = y / fd.ops.sum(y, [dim], keepdim=True)
        return y

    fd = defined(build, x)
    lines = [line for line in fd.plan([x], target=target).log if "saves" in line]
    assert {line.partition(":")[0] for line in lines} >= {"merge taken", "made again"}
    for line in lines:
        total, *others = terms(line).values()
        assert total == sum(others)


@pytest.mark.parametrize("machine", [GPU, PROCESSOR])
def test_what_is_said_is_what_decides(machine: Machine):
    x = torch.empty(512, 512, device="meta")
    fd = defined(lambda fd, x: fd.ops.sin(x) / fd.ops.sum(fd.ops.sin(x), [0], keepdim=True), x)
    fusion = concrete(fd.fusion, [x])
    operations = build_graph(fusion, memory_of(fusion, [x]), fusion.output_values)
    groups = CurrentGroups(operations, fusion.output_values, machine)
    for first, second in operations.graph.edges:
        joined = groups.joined(first, second)
        assert groups.saved(first, second, joined).total == groups.profit(first, second, joined)


def test_a_refusal_names_what_costs_most_and_all_that_would_be_saved():
    before, after = Price(launch=8, moved=100), Price(launch=8, moved=60, idle=100, repeated=30)
    reason = saved([before, before], [after]).reason
    assert reason == (
        "too few rows to keep the processors busy would cost 130 bytes' worth; "
        "one kernel would save 148"
    )


def test_what_rows_choose_is_not_called_recomputed():
    # a row of [100 | 7 | 100 | 7 | 100], divided by its sum
    a, b = torch.empty(512, 100, device="meta"), torch.empty(512, 7, device="meta")

    def build(fd: FusionDefinition, a: Handle, b: Handle) -> Handle:
        row = fd.ops.cat([a, b, a, b, a], dim=1)
        return row / fd.ops.sum(row, [1], keepdim=True)

    (boundary,) = defined(build, a, b).plan([a, b], target="cpu").boundaries
    assert "choosing between tensors" in boundary
    assert "recomputation" not in boundary
