"""Scans between two flips go the other way, with the oracle's numbers and strides."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Flip, Fusion, Scan
from fuser.passes.dead_code import remove_dead_code
from fuser.passes.reverse_scans import scan_in_reverse
from tests.definitions import Define, defined
from tests.segmented import concrete

X = torch.randn(5, 7)


def rewritten(define: Define) -> Fusion:
    """A definition after the pass, which gives the numbers that it gave before."""
    before = concrete(defined(define, X).fusion, [X])
    after = remove_dead_code(scan_in_reverse(before))
    for got, want in zip(interpret(after, [X]), interpret(before, [X]), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        assert got.stride() == want.stride()
    return after


def scans(fusion: Fusion) -> list[tuple[str, int, bool]]:
    ops = (statement.op for statement in fusion.statements)
    return [(op.op, op.dim, op.reverse) for op in ops if isinstance(op, Scan)]


def flips(fusion: Fusion) -> int:
    return sum(isinstance(statement.op, Flip) for statement in fusion.statements)


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
def test_a_scan_between_flips(name: str, reverse: bool, copied: bool):
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        given = fd.ops.flip(x, [1])
        scanned = getattr(fd.ops, name)(fd.ops.set(given) if copied else given, 1, reverse=reverse)
        return fd.ops.exp(fd.ops.flip(fd.ops.set(scanned) if copied else scanned, [1]))

    after = rewritten(define)
    assert scans(after) == [(name, 1, not reverse)]
    assert flips(after) == 0


@pytest.mark.parametrize(
    "define",
    [
        lambda fd, x: fd.ops.flip(fd.ops.cumsum(x, 1), [1]),
        lambda fd, x: fd.ops.cumsum(fd.ops.flip(x, [1]), 1),
        lambda fd, x: fd.ops.flip(fd.ops.cumsum(fd.ops.flip(x, [1]), 0), [1]),
        lambda fd, x: fd.ops.flip(fd.ops.cumsum(fd.ops.flip(x, [0, 1]), 1), [0, 1]),
        lambda fd, x: fd.ops.flip(fd.ops.cumsum(fd.ops.exp(fd.ops.flip(x, [1])), 1), [1]),
    ],
)
def test_other_flips_stay(define: Define):
    after = rewritten(define)
    assert flips(after) >= 1
    assert scans(after)[0][2] is False
