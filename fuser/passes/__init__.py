"""Rewrites of a fusion before it is segmented."""

from __future__ import annotations

from collections.abc import Callable

from fuser.ir.nodes import Fusion
from fuser.passes.cast_chains import compose_casts
from fuser.passes.common_subexpressions import merge_common_subexpressions
from fuser.passes.compared_values import make_compared_alike
from fuser.passes.compose_metadata import compose_metadata
from fuser.passes.constant_folding import fold_constants
from fuser.passes.dead_code import remove_dead_code
from fuser.passes.empty_values import fill_empty_values
from fuser.passes.few_elements import fold_few_elements
from fuser.passes.gather_above_pointwise import move_gathers_up
from fuser.passes.joined_scatters import join_scatters
from fuser.passes.known_choices import take_known_choices
from fuser.passes.known_indices import mark_known_indices
from fuser.passes.lone_elements import take_lone_elements
from fuser.passes.lower_reductions import lower_reductions
from fuser.passes.narrow_integers import narrow_integers
from fuser.passes.one_hot_sums import take_one_hot_sums
from fuser.passes.range_gather import slice_range_gathers
from fuser.passes.range_scatter import pad_range_scatters
from fuser.passes.reverse_scans import scan_in_reverse
from fuser.passes.scatter_where import compare_in_scatters
from fuser.passes.simple_resizes import simplify_resizes

Pass = Callable[[Fusion], Fusion]

_SIMPLIFY: tuple[Pass, ...] = (
    # First: an operation that changes nothing would keep two casts or two views apart.
    fold_constants,
    compose_casts,
    compose_metadata,
    # Last: only then are two chains of views that end in one shape equal.
    merge_common_subexpressions,
)

PASSES: tuple[Pass, ...] = (
    # First, so that later passes do not look at what nobody reads.
    remove_dead_code,
    # Before index operations: ranges and zeros are known by their constants, and of two equal
    # gathers both would be rewritten.
    *_SIMPLIFY,
    take_known_choices,
    slice_range_gathers,
    pad_range_scatters,
    # After ranges: a pad at a known place reads less than a comparison with every place.
    compare_in_scatters,
    # After both: of what is left, each would be a kernel.
    join_scatters,
    # After ranges: a slice reads no index, and moved up it would be a gather of each operand.
    move_gathers_up,
    # A variance is two sums, one after the other: what shares a kernel depends on it.
    lower_reductions,
    # After means are sums.
    fill_empty_values,
    take_lone_elements,
    take_one_hot_sums,
    # After ranges, which become pads; before views and slices are composed.
    simplify_resizes,
    # After one-hot sums, which read one element, and slices of parts. It counts who reads.
    remove_dead_code,
    fold_few_elements,
    scan_in_reverse,
    # Again, for the constants, casts, slices and permutes that came of index operations.
    *_SIMPLIFY,
    # For what was composed past.
    remove_dead_code,
    # Last: they mark operations, and those that passes add are not.
    mark_known_indices,
    # After what tells which gathers may read any integer; then nothing reads the wide ones.
    narrow_integers,
    remove_dead_code,
    make_compared_alike,
)

__all__ = ["PASSES", "Pass"]
