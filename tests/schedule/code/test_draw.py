"""Random elements: drawn by their number, scaled, and the oracle's to the bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.body import Body, trace
from fuser.schedule.tree.expressions import Call, Convert
from tests.schedule.one_thread import run_body
from tests.schedule.row_bodies import segment_of

STATE = {"rng_seed": 2**35 + 3, "rng_offset": 9}
DTYPES = (DataType.Float, DataType.Double, DataType.Half, DataType.BFloat16)


def drawn(define: Callable[[FusionDefinition], Handle]) -> Body:
    """The body of random numbers; it stores what the oracle says."""
    segment = segment_of(define)
    body = trace(segment)
    run_body(segment, body, ()).check()
    return body


def uniform(low: float, high: float, dtype: DataType) -> Callable[[FusionDefinition], Handle]:
    return lambda fd: fd.ops.uniform(low, high, [3, 5], dtype=dtype, **STATE)


def names(body: Body) -> tuple[list[str], list[str], list[str]]:
    """What is made once, what is drawn, and what is computed at a point."""
    once, lets = ([node.name for node in nodes] for nodes in (body.prologue, body.lets))
    return once, [load.name for load in body.loads], lets


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_of_the_unit_interval_the_drawn_number_is_all(dtype: DataType) -> None:
    once, loads, lets = names(drawn(uniform(0.0, 1.0, dtype)))
    assert (len(loads), once, lets) == (1, [], [])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_other_bounds_scale_it_in_float64_and_never_reach_the_upper_one(dtype: DataType) -> None:
    body = drawn(uniform(-0.3, 0.4, dtype))
    once, (load,), lets = names(body)
    name = load.removesuffix("_unit")
    assert once == [f"{name}_factor", f"{name}_most"]
    assert lets == [f"{name}_wide", f"{name}_scaled", name]
    assert body.lets[0].dtype is DataType.Double
    last = body.lets[-1].expression
    clamped = last.of if isinstance(last, Convert) else last
    assert isinstance(clamped, Call)
    assert clamped.op == "maximum"


def test_of_the_standard_normal_distribution_it_is_all_too() -> None:
    body = drawn(lambda fd: fd.ops.normal(0.0, 1.0, [3, 5], **STATE))
    assert not body.lets
    body = drawn(lambda fd: fd.ops.normal(2.0, 0.5, [3, 5], **STATE))
    assert len(body.lets) == 2  # without an upper bound to stay below


def test_an_element_is_drawn_by_its_number_in_its_own_shape() -> None:
    def define(fd: FusionDefinition) -> Handle:
        return fd.ops.neg(fd.ops.permute(fd.ops.uniform(0.0, 1.0, [3, 5], **STATE), [1, 0]))

    (load,) = drawn(define).loads
    assert {term.extent: stride for term, stride in load.at.terms} == {5: 1, 3: 5}
