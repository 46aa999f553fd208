"""Rows whose pads and concatenations lie across them: pieces that are mapped by themselves."""

from __future__ import annotations

import random
import re

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters
from tests.definitions import only_kernel
from tests.mapped_by import THREADED, mapped_by
from tests.row_functions import layernorm, softmax


def pieces(fd: FusionDefinition, given: list[torch.Tensor]) -> int:
    """How many pieces the rows of the only kernel are cut into."""
    (kernel,) = fd.plan(given).kernels
    found = re.match(r"cpu rows, (\d+) pieces, ", kernel.chosen)
    return int(found[1]) if found else 1


def embedding_of_patches(batch: int, patches: int, width: int) -> tuple[FusionDefinition, list]:
    """A class token before patches that are turned, positions added, and a norm."""
    token, grid = torch.randn(1, 1, width), torch.randn(batch, width, patches)
    places, scale = torch.randn(1, patches + 1, width), torch.randn(width)
    with FusionDefinition() as fd:
        first = fd.ops.expand(fd.from_pytorch(token), [batch, 1, width])
        turned = fd.ops.permute(fd.from_pytorch(grid), [0, 2, 1])
        whole = fd.ops.cat([first, turned], 1) + fd.from_pytorch(places)
        fd.add_output(layernorm(fd, whole, 2) * fd.from_pytorch(scale))
        fd.add_output(whole)
    return fd, [token, grid, places, scale]


@pytest.mark.parametrize("patches", [9, 64, 196])
def test_tokens_before_patches(patches: int) -> None:
    fd, given = embedding_of_patches(3, patches, 96)
    fd.validate(given)
    assert pieces(fd, given) == 2
    loops = only_kernel(fd, given).code.partition('extern "C" void rows')[2]
    assert ">=" not in loops  # nothing is chosen at a point


def test_gradients_side_by_side_with_their_sums() -> None:
    """As of queries, keys and values that one product has made, the keys turned."""
    q, v = torch.randn(2, 3, 40, 16), torch.randn(2, 3, 40, 16)
    k = torch.randn(2, 3, 16, 40)
    with FusionDefinition() as fd:
        parts = [
            fd.from_pytorch(q) * 0.5,
            fd.ops.permute(fd.from_pytorch(k), [0, 1, 3, 2]),
            fd.ops.neg(fd.from_pytorch(v)),
        ]
        lines = [fd.ops.broadcast(p, [False, False, False, True, False]) for p in parts]
        joined = fd.ops.permute(fd.ops.cat(lines, 3), [0, 2, 1, 3, 4])
        fd.add_output(fd.ops.stride_order(joined, [4, 3, 2, 1, 0]))
        fd.add_output(fd.ops.sum(joined, [0, 1]))
    fd.validate([q, k, v])
    assert pieces(fd, [q, k, v]) == 3


def test_more_pieces_than_are_worth_their_text_are_one() -> None:
    given = [torch.randn(4, 40) for _ in range(9)]
    with FusionDefinition() as fd:
        fd.add_output(softmax(fd, fd.ops.cat([fd.from_pytorch(x) for x in given], 0), 1))
    fd.validate(given)
    assert pieces(fd, given) == 1


def test_what_is_folded_over_the_rows_keeps_them_together() -> None:
    x, y = torch.randn(20, 64), torch.randn(12, 64)
    with FusionDefinition() as fd:
        whole = fd.ops.cat([fd.from_pytorch(x), fd.from_pytorch(y)], 0)
        fd.add_output(softmax(fd, whole, 1))
        fd.add_output(fd.ops.sum(whole, [0]))
    fd.validate([x, y])
    assert pieces(fd, [x, y]) == 1


def test_a_piece_that_is_padding_reads_nothing() -> None:
    x = torch.randn(6, 1030, dtype=torch.float64)
    with FusionDefinition() as fd:
        padded = fd.ops.pad(fd.from_pytorch(x), [0, 0, 3, 2], 0.5)
        fd.add_output(softmax(fd, padded, 1))
    fd.validate([x])
    assert pieces(fd, [x]) == 3


def test_pieces_whose_threads_fold_different_numbers_of_rows() -> None:
    """Each thread has a part with places for 64 columns of the first piece, and for 16 of the
    second."""
    x, y = torch.randn(2049, 64).mT, torch.randn(2049, 16).mT
    with FusionDefinition() as fd:
        whole = fd.ops.cat([fd.ops.neg(fd.from_pytorch(x)), fd.from_pytorch(y)], 0)
        fd.add_output(softmax(fd, whole, 1))
    with mapped_by(CpuRowParameters(THREADED)):
        assert pieces(fd, [x, y]) == 2
        fd.validate([x, y])


@pytest.mark.parametrize("kept", [20, 200])
def test_rows_that_are_updated_in_pieces(kept: int) -> None:
    """The rows that `x` keeps are read where they are stored; the others are read from `y` alone,
    and all of a residual where it is stored. Nothing is made elsewhere first."""
    x, y, residual = torch.randn(220, 64), torch.randn(220, 64), torch.randn(220, 64)
    with FusionDefinition() as fd:
        old, other, rest = map(fd.from_pytorch, (x, y, residual))
        first = fd.ops.slice(old, [0, 0], [kept, 64])
        whole = fd.ops.cat([first, fd.ops.slice(other, [kept, 0], [220, 64])], 0)
        fd.add_output(layernorm(fd, whole, 1), alias_input=old)
        fd.add_output(softmax(fd, whole, 1) + rest, alias_input=rest)
    given = [x, y, residual]
    assert pieces(fd, given) == 2
    assert str(fd.plan(given)).count(": in place, by rows") == 2
    joined = torch.cat([x[:kept], y[kept:]])
    normed, added = torch.nn.functional.layer_norm(joined, [64]), joined.softmax(1) + residual
    fd.execute(given)
    torch.testing.assert_close(x, normed)
    torch.testing.assert_close(residual, added)


def test_rows_that_other_pieces_read_are_not_updated() -> None:
    x = torch.randn(220, 64)
    with FusionDefinition() as fd:
        old = fd.from_pytorch(x)
        fd.add_output(layernorm(fd, fd.ops.pad(old, [0, 0, 3, -3]), 1), alias_input=old)
    expected = torch.nn.functional.layer_norm(torch.nn.functional.pad(x, [0, 0, 3, -3]), [64])
    fd.execute([x])
    torch.testing.assert_close(x, expected)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_rows_chosen_by_indices_that_are_known_to_be_in_range(target: str) -> None:
    """Once a row, what its index is has another name, and every sweep reads by its own."""
    kept, at, table = torch.rand(3, 2) < 0.5, torch.tensor([1, 2, 3]), torch.randn(2, 2)
    with FusionDefinition() as fd:
        places = fd.ops.remainder(fd.from_pytorch(at), 2)
        rows = fd.from_pytorch(table)
        chosen = fd.ops.where(fd.from_pytorch(kept), fd.ops.index_select(rows, places, 0), 0.0)
        fd.add_output(fd.ops.cat([chosen, rows], 0))
    fd.validate([at, table, kept], target=target)


def resized(fd: FusionDefinition, x: Handle, others: list[Handle], draw: random.Random) -> Handle:
    """`x`, a pad or a concatenation along some of its dimensions."""
    rank = x.ndim
    match draw.choice(["cat", "pad", "slice", "flip"]):
        case "cat":
            return fd.ops.cat(draw.sample([x, *others], 2), draw.randrange(rank - 1))
        case "pad":
            widths = [draw.choice([0, 0, 1, 5, -1]) for _ in range(2 * rank)]
            return fd.ops.pad(x, widths, draw.choice([0.0, 1.5]))
        case "slice":
            starts = [draw.choice([0, 1]) for _ in range(rank)]
            return fd.ops.slice(x, starts, [1 << 40] * rank, [draw.choice([1, 2])] * rank)
        case _:
            return fd.ops.flip(x, [draw.randrange(rank)])


@pytest.mark.parametrize("seed", range(60))
def test_random_rows_in_pieces(seed: int) -> None:
    draw = random.Random(seed)
    dtype = draw.choice([torch.float32, torch.bfloat16, torch.float64])
    rank = draw.choice([2, 3])
    shape = [draw.choice([2, 3, 16, 33]) for _ in range(rank - 1)] + [draw.choice([7, 64, 300])]
    order = draw.sample(range(rank), rank)
    given = [
        torch.randn([shape[d] for d in order])
        .to(dtype)
        .permute([order.index(d) for d in range(rank)])
        for _ in range(2)
    ]
    with FusionDefinition() as fd:
        x, y = (fd.ops.cast(fd.from_pytorch(each), DataType.Float) for each in given)
        whole = resized(fd, x, [y, fd.ops.neg(y)], draw)
        whole = resized(fd, whole, [whole * 2.0], draw)
        dim = draw.randrange(rank)
        made = draw.choice([layernorm, softmax])(fd, whole, dim)
        if draw.random() < 0.5:
            turned = fd.ops.permute(made, draw.sample(range(rank), rank))
            made = fd.ops.stride_order(turned, list(range(rank))[::-1])
        fd.add_output(made)
        if draw.random() < 0.3:
            fd.add_output(fd.ops.max(whole, [dim]))
    fd.validate(given)
