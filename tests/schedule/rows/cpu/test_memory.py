"""What sweeps ask for ahead, and which of them store."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters
from fuser.schedule.code.row_body import RowBody
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cpu.memory import ask_ahead, ask_soon, in_chunks, store_last
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.tree.statements import Load
from tests.definitions import Define
from tests.row_functions import softmax
from tests.schedule.row_bodies import segment_of

GIVEN = CpuRowParameters()


def body(define: Define, *shape: int) -> RowBody:
    segment = segment_of(define, torch.empty(shape, device="meta"))
    return arrange_rows(trace_rows(segment, of_store=True))


def total(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.sum(x, [1])


def test_the_most_costly_later_sweep_asks_for_the_next_row() -> None:
    rows = body(softmax, 4096, 768)
    asking = [bool(sweep.ahead) for sweep in ask_ahead(rows, GIVEN).stages if sweep.axes]
    assert asking == [False, False, True]
    (asked,) = (node for sweep in ask_ahead(rows, GIVEN).stages for node in sweep.ahead)
    assert asked.at.constant >= 768


@pytest.mark.parametrize(("length", "asking"), [(768, [True, False]), (4096, [True, True])])
def test_a_first_sweep_that_folds_over_rows_asks_itself(length: int, asking: list[bool]) -> None:
    """And of long rows, whose next one is far, the later sweep does as well."""

    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [x - fd.ops.sum(x, [1], keepdim=True), fd.ops.sum(x, [0])]

    stages = [sweep for sweep in ask_ahead(body(define, 4096, length), GIVEN).stages if sweep.axes]
    assert [bool(sweep.ahead) for sweep in stages] == asking
    first, *later = (node for sweep in stages for node in sweep.ahead)
    assert not first.there
    assert all(node.there for node in later)


def test_batches_ask_for_what_comes_after_all_of_their_rows() -> None:
    rows = body(softmax, 4096, 8192)

    def ahead(count: int) -> int:
        stages = ask_ahead(rows, GIVEN, rows_at_once=count).stages
        (asked,) = (node for sweep in stages for node in sweep.ahead)
        return asked.at.constant // 8192

    assert (ahead(1), ahead(16)) == (1, 16)


def test_the_only_sweep_asks_for_what_it_reads_soon() -> None:
    rows = body(total, 4096, 4096)
    assert ask_ahead(rows, GIVEN) == ask_soon(rows, GIVEN)
    (asked,) = (node for sweep in ask_soon(rows, GIVEN).stages for node in sweep.ahead)
    assert asked.at.constant == 0
    assert asked.pays


def test_stores_wait_for_a_sweep_that_folds_nothing() -> None:
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        powers = fd.ops.exp(x)
        return [powers, powers / fd.ops.sum(powers, [1], keepdim=True)]

    stages = [sweep for sweep in store_last(body(define, 64, 2048)).stages if sweep.axes]
    assert [len(sweep.stores) for sweep in stages] == [0, 2]
    assert [in_chunks(sweep, GIVEN) for sweep in stages] == [False, True]


def test_what_was_made_only_to_be_stored_is_made_where_it_is_stored() -> None:
    """A mask beside a softmax is drawn once, by the last sweep, and not kept for it."""

    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        powers = fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True))
        weights = powers / fd.ops.sum(powers, [1], keepdim=True)
        mask = fd.ops.uniform(0.0, 1.0, shape=[64, 256], rng_seed=1, rng_offset=0) > 0.1
        return [mask, weights * mask]

    stages = [sweep for sweep in store_last(body(define, 64, 256)).stages if sweep.axes]
    draws = [[n for n in sweep.code if isinstance(n, Load) and n.drawn] for sweep in stages]
    assert [len(sweep.stores) for sweep in stages] == [0, 0, 2]
    assert list(map(len, draws)) == [0, 0, 1]
