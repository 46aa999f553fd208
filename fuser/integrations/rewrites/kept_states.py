"""What tracing says of random numbers that the backward makes again.

Where a part is checkpointed, AOTAutograd keeps the generator's state in the forward, and makes the
numbers anew in the backward. It puts in nodes that do so, and does not say what they make: those
that read the numbers could not be covered.

rand([2, 3])     ->     run_and_save_rng_state(rand, [2, 3])            getitem 1: float32 [2, 3]
                        run_with_rng_state(state, rand, [2, 3])         float32 [2, 3]
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

from torch._guards import detect_fake_mode
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx import Graph

from fuser.integrations.fx.nodes import meta_of, values_of

_KEEPING: tuple[Any, ...] = (run_and_save_rng_state, run_with_rng_state)


def describe_kept_states(graph: Graph) -> None:
    """Say what nodes make that keep or take the state of a generator."""
    found = [node for node in graph.nodes if node.target in _KEEPING and "val" not in node.meta]
    mode = detect_fake_mode([meta_of(node) for node in graph.nodes]) if found else None
    if mode is None:
        return
    for node in found:
        args, options = values_of((node.args, node.kwargs))
        operation: Any = node.target
        with mode:
            node.meta["val"] = made = operation(*args, **options)
        for reader in node.users:
            if reader.target is operator.getitem:
                place = cast("int", reader.args[1])
                reader.meta.setdefault("val", cast("Sequence[object]", made)[place])
