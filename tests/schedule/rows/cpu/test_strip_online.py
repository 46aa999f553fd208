"""Online softmax of rows side by side: where it is chosen, and that its results are right."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters, schedule_rows_cpu
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, every_node
from tests.definitions import Define, defined
from tests.row_functions import log_sum_of_columns, softmax_of_columns
from tests.schedule.row_bodies import segment_of

PARAMETERS = CpuRowParameters()
INF, NAN, HUGE = torch.inf, torch.nan, 3e38


def with_largest(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """The largest leaves the kernel, so that it must be NaN where an element is."""
    largest = fd.ops.max(x, [0], keepdim=True)
    return [largest, fd.ops.sum(fd.ops.exp(x - largest), [0])]


def scaled_between(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """What is made of the largest before the sum is known."""
    largest = fd.ops.max(x, [0], keepdim=True)
    half = fd.ops.tanh(largest) * 0.5
    total = fd.ops.sum(fd.ops.exp(x - largest), [0], keepdim=True)
    return [half * total, half + fd.ops.log(total)]


def of_products(fd: FusionDefinition, x: Handle) -> Handle:
    """Powers of what is computed, capped as attention's logits are."""
    return softmax_of_columns(fd, fd.ops.tanh(x * 0.1) * 30.0)


READ_ONCE = (log_sum_of_columns, softmax_of_columns, with_largest, scaled_between)
DEFINITIONS = (*READ_ONCE, of_products)


def bindings(
    define: Define, x: torch.Tensor, parameters: CpuRowParameters = PARAMETERS
) -> list[Binding]:
    nest = schedule_rows_cpu(segment_of(define, x), parameters)
    return [node.binding for node in every_node(nest.body) if isinstance(node, Loop)]


@pytest.mark.parametrize("define", READ_ONCE)
def test_a_strip_is_read_once_for_the_largest_and_the_sum(define: Define):
    assert Binding.OF_ROUND in bindings(define, torch.empty(30, 5000))


def test_blocks_of_long_columns_are_online_too():
    loops = bindings(log_sum_of_columns, torch.empty(100, 5000))
    rounds = [Binding.UNROLLED, Binding.OF_ROUND, Binding.OF_ROUND]
    block = [Binding.BLOCKS, Binding.STRIP_LANES, *rounds, Binding.STRIP_LANES]
    assert loops[: 1 + len(block)] == [Binding.STRIP, *block]


def test_short_strips_are_swept_twice():
    parameters = CpuRowParameters(short_strip=10000)
    assert Binding.OF_ROUND not in bindings(log_sum_of_columns, torch.empty(30, 5000), parameters)


def test_extremes_of_16_bits_are_found_as_ranks():
    def of_halves(fd: FusionDefinition, x: Handle) -> Handle:
        return log_sum_of_columns(fd, fd.ops.cast(x, DataType.Float))

    x = torch.empty(30, 5000, dtype=torch.bfloat16)
    assert Binding.OF_ROUND not in bindings(of_halves, x)


def test_a_sum_of_more_than_powers_waits_for_the_largest():
    def weighted(fd: FusionDefinition, x: Handle) -> Handle:
        powers = fd.ops.exp(x - fd.ops.max(x, [0], keepdim=True))
        return fd.ops.sum(powers * x, [0])

    assert Binding.OF_ROUND not in bindings(weighted, torch.empty(30, 5000))


def scaled(fd: FusionDefinition, x: Handle) -> Handle:
    return softmax_of_columns(fd, x * 0.37)


@pytest.mark.parametrize("logit", [1.0, 1e4, -1e9])
def test_powers_of_what_is_computed_add_up_to_one(logit: float):
    """The last sweep rounds a product otherwise than one that finds the largest as well."""
    x = torch.full((20, 1000), logit)
    assert Binding.OF_ROUND not in bindings(scaled, x)
    (made,) = defined(scaled, x).execute([x])
    torch.testing.assert_close(made.sum(0), torch.ones(1000))


SPECIAL = (
    (NAN, 1.0, 2.0),
    (1.0, NAN, INF),
    (INF, INF, 0.0),
    (-INF, -INF, -INF),
    (-INF, 1.0, -INF),
    (-INF, -INF, HUGE),
    (-HUGE, -INF, -HUGE),
    (-3.4028235e38, -3.4028235e38, -INF),
    (HUGE, -HUGE, HUGE),
    (-0.0, 0.0, -0.0),
)


@pytest.mark.parametrize("define", DEFINITIONS)
@pytest.mark.parametrize("elements", [3, 8, 9, 15, 22, 64, 65, 200])
def test_online_sums_are_right(define: Define, elements: int):
    x = torch.randn(elements, 700) * 10
    for place in range(3):  # at the start, in the middle, at the end
        first = place * (elements - 3) // 2
        columns = torch.tensor(SPECIAL).T
        x[first : first + 3, place * 20 : place * 20 + len(SPECIAL)] = columns
    for column, values in enumerate(SPECIAL):  # and nothing else
        x[:, 100 + column] = torch.tensor(values).repeat(elements)[:elements]
    x[:, 200:300] = torch.linspace(-200, 200, elements)[:, None]  # ever larger
    x[:, 300:400] = torch.linspace(200, -200, elements)[:, None]
    defined(define, x).validate([x])
