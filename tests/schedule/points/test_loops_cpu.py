"""The loops around pieces."""

from __future__ import annotations

from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.points.loops_cpu import Row, axes_in_order, loops_around
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Region

MANY, FEW = Axis((0,), 4096), Axis((0,), 3)
MIDDLE = Axis((1,), 50)
LEFT, RIGHT = (Loop(Axis((2, part), 64), Binding.SIMD, ()) for part in (2, 3))


def test_one_piece_is_one_nest():
    (loop,) = loops_around([Row((MANY, MIDDLE), LEFT)], CpuParameters())
    assert loop == Loop(MANY, Binding.PARALLEL, (Loop(MIDDLE, Binding.PARALLEL, (LEFT,)),))


def test_pieces_of_a_row_share_the_loops_around_it():
    (region,) = loops_around(
        [Row((MANY, MIDDLE), LEFT), Row((MANY, MIDDLE), RIGHT)], CpuParameters()
    )
    assert isinstance(region, Region)
    inside = Loop(MIDDLE, Binding.PARALLEL, (LEFT, RIGHT))
    assert region.body == (Loop(MANY, Binding.PARALLEL, (inside,)),)


def test_pieces_that_share_no_loop_come_one_after_the_other():
    (region,) = loops_around([Row((), LEFT), Row((MANY,), RIGHT)], CpuParameters())
    assert isinstance(region, Region)
    assert region.body == (LEFT, Loop(MANY, Binding.PARALLEL, (RIGHT,)))


def test_a_loop_of_few_iterations_is_not_all_there_is_for_threads():
    rows = [Row((FEW,), LEFT), Row((FEW, MIDDLE), LEFT), Row((FEW, MIDDLE), RIGHT)]
    (region,) = loops_around(rows, CpuParameters())
    assert isinstance(region, Region)
    inside = Loop(MIDDLE, Binding.PARALLEL, (LEFT, RIGHT))
    assert region.body == (
        Loop(FEW, Binding.PARALLEL, (LEFT,)),
        Loop(FEW, Binding.PARALLEL, (inside,)),
    )


def test_how_few_iterations_are_is_a_parameter():
    rows = [Row((FEW,), LEFT), Row((FEW,), RIGHT)]
    given = CpuParameters(shared_iterations=FEW.extent)
    (region,) = loops_around(rows, given)
    assert isinstance(region, Region)
    assert region.body == (Loop(FEW, Binding.PARALLEL, (LEFT, RIGHT)),)


def test_axes_are_numbered_as_they_appear():
    rows = [Row((MANY,), LEFT), Row((MANY, MIDDLE), RIGHT)]
    assert axes_in_order(rows) == (MANY, LEFT.axis, MIDDLE, RIGHT.axis)
