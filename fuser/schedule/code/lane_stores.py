"""What lanes compute and store at once: in an array for each store, rounded as a whole.

T0_lanes = load T0[i1]             64 of them, where all lanes are read at once
for each lane: T1_lanes = exp(T0)
store T1[i1] = T1_lanes
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fuser.schedule.code.lane_calls import ANY_WAY, Alike, are_narrow, with_lane_calls
from fuser.schedule.code.lane_loads import lane_loads
from fuser.schedule.code.row_body import Code, Sweep
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.row_statements import Keep
from fuser.schedule.tree.statements import Let, Load
from fuser.schedule.tree.vectors import stores_of_lanes, unrounded


def stored_at_once(
    sweep: Sweep,
    count: int,
    lane_loop: Loop,
    *,
    each: Sequence[Code] | None = None,
    alike: Alike = ANY_WAY,
) -> list[Node]:
    """`count` neighbours of a sweep that folds nothing: computed in an array for each store, then
    rounded, where they must be, and stored at once. `each` is what a lane does, if not the code as
    it is; `alike` says how names are made in all loops."""
    sources = ((store, unrounded(store, sweep.code)) for store in sweep.stores)
    wide = (dataclasses.replace(store, source=source) for store, source in sources)
    arrays, computed, whole = stores_of_lanes(wide, count)
    at_once, _ = lane_loads(sweep, count)
    names = {load.name for load in at_once}
    done = sweep.code if each is None else each
    own = [node for node in done if not (isinstance(node, Load) and node.name in names)]
    narrow = are_narrow(sweep.stores) and not any(map(_is_kept, sweep.code))
    held, phases = with_lane_calls((*own, *computed), count, lane_loop, alike, narrow=narrow)
    return [*at_once, *arrays, *held, *phases, *whole]


def _is_kept(node: Code) -> bool:
    """Whether something else than the stores reads what a node makes."""
    return isinstance(node, Keep) or (isinstance(node, Let) and node.in_lanes)
