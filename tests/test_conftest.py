"""Random inputs of a test are its own: what runs or is imported before it changes none."""

from __future__ import annotations

import zlib

import pytest
import torch

DRAWN = torch.rand(4)


@pytest.mark.parametrize("place", ["module", "test"])
def test_inputs_depend_on_the_name_and_on_the_seed(
    place: str, request: pytest.FixtureRequest
) -> None:
    name, found = request.node.nodeid, torch.rand(4)
    if place == "module":
        name, found = name.partition("::")[0], DRAWN
    seed = zlib.crc32(name.encode()) + request.config.getoption("--seed")
    assert torch.equal(found, torch.rand(4, generator=torch.Generator().manual_seed(seed)))
