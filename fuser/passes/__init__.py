"""Rewrites of a fusion before it is segmented."""

from __future__ import annotations

from collections.abc import Callable

from fuser.ir.nodes import Fusion
from fuser.passes.common_subexpressions import merge_common_subexpressions
from fuser.passes.compose_metadata import compose_metadata
from fuser.passes.dead_code import remove_dead_code

Pass = Callable[[Fusion], Fusion]

PASSES: tuple[Pass, ...] = (
    # First, so that later passes do not look at what nobody reads.
    remove_dead_code,
    # Before common subexpressions: two chains of views that end in one shape become equal.
    compose_metadata,
    merge_common_subexpressions,
    # Last, for the links of chains that were composed past.
    remove_dead_code,
)

__all__ = ["PASSES", "Pass"]
