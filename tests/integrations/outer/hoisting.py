"""Every graph that is called is called again, so that it runs without checks too."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch.fx import GraphModule

from fuser.integrations.outer.hoisted import Forward, hoisted
from fuser.runtime.calls.placed import copied


def hoisted_and_checked(outer: GraphModule) -> Forward:
    """`hoisted(outer)`, after copies of the inputs have been given to it three times: the results
    must be those of the checked graph, and lie alike."""
    forward = hoisted(outer)

    def run(inputs: list[Any]) -> Any:
        given, state = list(inputs), torch.get_rng_state()
        expected = flat(outer.forward(copies(given)))
        for _ in range(3):
            torch.set_rng_state(state)
            # As torch does, once.
            with mock.patch("fuser.integrations.outer.hoisted.is_traced", bool):
                results = flat(forward(copies(given)))
            assert [x.stride() for x in results] == [x.stride() for x in expected]
            torch.testing.assert_close(results, expected, rtol=0, atol=0, equal_nan=True)
        torch.set_rng_state(state)
        del given
        return forward(inputs)

    return run


def copies(inputs: list[Any]) -> list[Any]:
    return [copied(x.detach()) if isinstance(x, torch.Tensor) else x for x in inputs]


def flat(results: Any) -> list[torch.Tensor]:
    return [x.clone() for x in results if isinstance(x, torch.Tensor)]
