"""Which mapping rows get on each target, and why those before it do not fit."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters, CudaRowParameters, schedule_rows_cuda
from fuser.schedule.choice import NotChosen, first_that_fits
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cpu.mapping import choose_mapping
from fuser.schedule.rows.cpu.sweeps import Ways
from fuser.schedule.rows.trace import trace_rows
from fuser.segmenter import PROCESSOR
from fuser.segmenter.refusal import Refusal
from tests.definitions import Define
from tests.row_functions import softmax, softmax_of_columns
from tests.schedule.row_bodies import segment_of

Sizes = tuple[int, ...]


def test_the_first_that_fits_is_taken_and_those_before_it_say_why_not() -> None:
    asked: list[str] = []

    def refuse() -> int | Refusal:
        asked.append("first")
        return Refusal("too short")

    def unasked() -> int:
        raise AssertionError

    found, refused = first_that_fits({"one": refuse, "two": lambda: 2, "three": unasked})
    assert (found, asked) == (2, ["first"])
    assert refused == (NotChosen("one", "too short"),)
    assert str(refused[0]) == "not one: too short"


def normed(fd: FusionDefinition, x: Handle) -> Handle:
    """Over channels, which are first in memory, and last in what is stored."""
    turned = fd.ops.permute(x, [0, 2, 1])
    return fd.ops.stride_order(softmax(fd, turned, 2), [2, 1, 0])


def group_norm(fd: FusionDefinition, x: Handle) -> Handle:
    """Groups of 4 channels, which are last in memory."""
    grouped = fd.ops.reshape(x, new_shape=[2, 900, 32, 4])
    return grouped - fd.ops.mean(grouped, [1, 3], keepdim=True)


def scale_gradient(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """For each channel; those of y are last in memory."""
    return fd.ops.sum(x * fd.ops.permute(y, [0, 2, 1]), [2])


def softmax_gradient(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    product = x * y
    return product - x * fd.ops.sum(product, [1], keepdim=True)


CASES = [
    (softmax, [(1000, 8)], "a row a lane", []),
    (softmax, [(1000, 12)], "a row a lane", []),
    (softmax_gradient, [(1000, 8), (1000, 8)], "a row a lane", []),
    (softmax_of_columns, [(12, 1000)], "a row a lane", []),
    (group_norm, [(2, 900, 128)], "columns of rows that alternate", ["more than 32"]),
    (softmax_of_columns, [(2048, 256)], "columns of lines", ["more than 15", "short pieces"]),
    (
        softmax_of_columns,
        [(100, 256)],
        "lanes across rows",
        [*["more than 15", "short pieces"], "fewer than 1024", "across"],
    ),
    (
        softmax,
        [(2, 9999)],
        "lanes along rows, each shared out over threads",
        ["short pieces", *["are next"], "make no tiles", "are next"],
    ),
    (normed, [(4, 96, 64)], "lanes along whole rows of tiles", ["have several axes"]),
    (scale_gradient, [(8, 64, 1024), (8, 1024, 64)], "lanes along rows of tiles", ["8 or more"]),
    (softmax, [(4096, 64)], "lanes along rows in batches", ["8 or more", "swept 3 times"]),
    (
        softmax,
        [(4096, 768)],
        "lanes along rows",
        ["8 or more", "swept 3 times", "16 to 256 elements"],
    ),
]


@pytest.mark.parametrize(("define", "shapes", "words", "reasons"), CASES)
def test_rows_of_a_processor_get_the_first_mapping_that_fits(
    define: Define, shapes: list[Sizes], words: str, reasons: list[str]
) -> None:
    given = [torch.empty(shape, device="meta") for shape in shapes]
    body = arrange_rows(trace_rows(segment_of(define, *given, machine=PROCESSOR), of_store=True))
    (chosen, _), refused = choose_mapping(body, Ways(CpuRowParameters(), may_repeat=True))
    assert chosen.words == words
    last = refused[len(refused) - len(reasons) :]
    for found, reason in zip(last, reasons, strict=True):
        assert reason in found.reason


def test_rows_of_little_work_are_not_done_by_a_lane_if_that_moves_each_element() -> None:
    given = [torch.empty(1000, 12, device="meta")] * 2
    body = arrange_rows(trace_rows(segment_of(softmax_gradient, *given), of_store=True))
    (chosen, _), refused = choose_mapping(body, Ways(CpuRowParameters(), may_repeat=True))
    assert chosen.words == "lanes along rows"
    assert "moving each element by itself takes longer" in refused[0].reason


def test_what_is_done_twice_elsewhere_is_not_where_an_input_is_updated() -> None:
    segment = segment_of(softmax, torch.empty(4096, 64, device="meta"))
    body = arrange_rows(trace_rows(segment, of_store=True))
    (chosen, _), refused = choose_mapping(body, Ways(CpuRowParameters(), may_repeat=False))
    assert chosen.words == "lanes along rows"
    assert refused[-1].reason == "an input is updated in place"


@pytest.mark.parametrize(
    ("shape", "words", "reasons"),
    [
        ((4096, 8), "warp of 1 x", ["is folded"]),
        ((8192, 768), "warp of 32 x", ["is folded", "more threads", "not rows, are next"]),
        (
            (64, 9999),
            "block of",
            ["is folded", "more threads", "not rows", "more than 1024", "along one axis"],
        ),
    ],
)
def test_rows_of_a_gpu_get_the_first_team_that_fits(
    shape: Sizes, words: str, reasons: list[str]
) -> None:
    segment = segment_of(softmax, torch.empty(shape, device="meta"))
    alignments = dict.fromkeys(segment.memory, 16)
    nest = schedule_rows_cuda(segment, alignments, CudaRowParameters())
    assert words in nest.mapping
    assert nest.not_chosen[0] == NotChosen("the whole grid", f"there are {shape[0]} rows")
    for found, reason in zip(nest.not_chosen[1:], reasons, strict=True):
        assert reason in found.reason
