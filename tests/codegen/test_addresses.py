"""Accesses of one tensor at several places: from one address, at a distance of the text if near."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.codegen.kernel_source import KernelSource, Pointer, Size
from fuser.frontend.handles import Handle
from tests.definitions import defined, only_kernel

TARGETS = pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])


def summed(rows: int, columns: int, across: int) -> tuple[FusionDefinition, list[torch.Tensor]]:
    """The sum of neighbours in two rows and `across` columns."""

    def build(fd: FusionDefinition, x: Handle) -> Handle:
        starts = [(row, column) for row in range(2) for column in range(across)]
        kept = rows - 1, columns - across + 1
        parts = [fd.ops.slice(x, [a, b], [a + kept[0], b + kept[1]]) for a, b in starts]
        return sum(parts[1:], parts[0] * 2.0)

    x = torch.randn(rows, columns)
    return defined(build, x), [x]


def kernel_of(rows: int, columns: int, across: int, target: str) -> KernelSource:
    fd, inputs = summed(rows, columns, across)
    return only_kernel(fd, inputs, target)


@TARGETS
def test_slices_of_a_tensor_are_read_from_one_address(target: str) -> None:
    kernel = kernel_of(100, 200, 3, target)
    read = [argument for argument in kernel.arguments if isinstance(argument, Pointer)]
    assert len(read) == 2  # and what is stored
    offsets = [a.number for a in kernel.arguments if isinstance(a, Size) and "_offset" in a.name]
    assert offsets == [200]  # of the second row


@TARGETS
def test_the_text_of_a_stencil_is_that_of_any_size(target: str) -> None:
    large = kernel_of(1000, 2000, 3, target)
    for rows, columns in ((100, 3000), (1000, 2400)):
        assert kernel_of(rows, columns, 3, target).code == large.code


@TARGETS
@pytest.mark.parametrize("across", [2, 17, 40])
def test_places_near_and_far_are_read(target: str, across: int) -> None:
    """Also rows that are hardly longer than what is near."""
    for columns in (41, 64, 300):
        fd, inputs = summed(7, columns, across)
        fd.validate(inputs, target=target if target == "cpu" else "emulator")


def test_halves_of_a_tensor_that_is_updated_are_read_before() -> None:
    x = torch.randn(40, 64)
    expected = x[:, :32] + x[:, 32:]
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        halves = [fd.ops.slice(given, [0, at], [40, at + 32]) for at in (0, 32)]
        both = halves[0] + halves[1]
        fd.add_output(fd.ops.cat([both, both], 1), alias_input=given)
    fd.execute([x])
    torch.testing.assert_close(x, torch.cat([expected, expected], 1))


@TARGETS
def test_the_text_of_halves_and_of_rows_is_that_of_any_size(target: str) -> None:
    """They lie as far apart as they are long, which is no number of the text, however short."""

    def halves(fd: FusionDefinition, x: Handle, rows: int, half: int) -> Handle:
        parts = [fd.ops.slice(x, [0, at], [rows, at + half]) for at in (0, half)]
        return parts[0] * parts[1]

    def two_rows(fd: FusionDefinition, x: Handle, rows: int, half: int) -> Handle:
        parts = [fd.ops.slice(x, [at, 0], [at + 1, 2 * half]) for at in (0, 1)]
        return parts[0] + parts[1]

    for define in (halves, two_rows):
        texts = set[str]()
        for half in (9, 11, 13):
            x = torch.randn(64, 2 * half)
            fd = defined(lambda fd, x, d=define, n=half: d(fd, x, 64, n), x)
            fd.validate([x], target=target if target == "cpu" else "emulator")
            texts.add(only_kernel(fd, [x], target).code)
        assert len(texts) == 1
