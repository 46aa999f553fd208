"""Gathers and scatters of tensors of no dimensions, alone and among tensors of one, are torch's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle
from tests.definitions import agrees

DATA = [torch.tensor(0.5), torch.tensor([1.5]), torch.tensor([0.25, -1.0, 3.0, 2.0])]
INDEX = [torch.tensor(0), torch.tensor([0]), torch.tensor([0, 0, 0])]
SOURCE = [torch.tensor(-7.0), torch.tensor([8.0]), torch.tensor([9.0, 4.0, 1.0])]
ADDED = ("scatter_add", "index_add")
TARGETS = ("cpu", "emulator")


def mixtures(mode: str) -> list[tuple[int, int, int, torch.Tensor]]:
    """The places of data, index and source that torch takes together, and what it makes of them."""
    taken: list[tuple[int, int, int, torch.Tensor]] = []
    for places in itertools.product(range(3), range(3), range(3)):
        data, index, source = DATA[places[0]], INDEX[places[1]], SOURCE[places[2]]
        if mode == "scatter" and index.numel() > 1:
            continue  # which of several elements stays is not said
        try:
            taken.append((*places, getattr(torch, mode)(data, 0, index, source)))
        except (RuntimeError, IndexError):
            continue
    return taken


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["scatter", *ADDED])
def test_every_mixture_that_torch_takes(mode: str, target: str) -> None:
    cases = mixtures(mode)
    assert {data for data, *_ in cases} == {0, 1, 2}
    with FusionDefinition() as fd:
        data, index, source = (list(map(fd.from_pytorch, given)) for given in (DATA, INDEX, SOURCE))
        for d, i, s, _ in cases:
            fd.add_output(getattr(fd.ops, mode)(data[d], index[i], source[s], -1))
    found = agrees(fd, [*DATA, *INDEX, *SOURCE], target)
    for out, (*_, expected) in zip(found, cases, strict=True):
        torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_are_written_and_elements_read(target: str) -> None:
    with FusionDefinition() as fd:
        data, index = list(map(fd.from_pytorch, DATA)), list(map(fd.from_pytorch, INDEX))
        fd.add_output(fd.ops.scatter(data[0], index[0], 2.5, 0))
        fd.add_output(fd.ops.scatter(data[2], index[0], 2.5, 0))
        fd.add_output(fd.ops.gather(data[0], index[0], -1))
        fd.add_output(fd.ops.gather(data[0], index[2], 0))
        fd.add_output(fd.ops.gather(data[2], index[0], 0))
        fd.add_output(fd.ops.index_select(data[0], index[1], 0))
    found = agrees(fd, [*DATA, *INDEX], target)
    expected = [
        torch.scatter(DATA[0], 0, INDEX[0], 2.5),
        torch.scatter(DATA[2], 0, INDEX[0], 2.5),
        torch.gather(DATA[0], 0, INDEX[0]),
        torch.gather(DATA[0], 0, INDEX[2]),
        torch.gather(DATA[2], 0, INDEX[0]),
        torch.index_select(DATA[0], 0, INDEX[1]),
    ]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", ["scatter", *ADDED, "gather", "index_select"])
def test_an_index_out_of_range_of_one_element_is_named(mode: str) -> None:
    with FusionDefinition() as fd:
        data, index = fd.from_pytorch(DATA[0]), fd.from_pytorch(INDEX[0])
        more = [] if mode in ("gather", "index_select") else [data]
        fd.add_output(getattr(fd.ops, mode)(data, index, *more, 0))
    with pytest.raises(errors.IndexOutOfRangeError, match=rf"{mode}: index 1 .* 0 to 0"):
        fd.execute([DATA[0], torch.tensor(1)])


Define = Callable[[Any, Handle, Handle], Handle]
REFUSED: list[tuple[Define, type[errors.FuserError]]] = [
    (lambda o, x, i: o.scatter(x, i, x, 1), errors.DimensionError),
    (lambda o, x, i: o.scatter(x, i, x, 0.0), errors.ArgumentTypeError),
    (lambda o, x, i: o.scatter_add(x, o.full([2, 2], 0, DataType.Int), x, 0), errors.FuserError),
    (lambda o, x, i: o.index_add(x, i, o.full([1], 0, DataType.Float), 0), errors.FuserError),
    (lambda o, x, i: o.index_add(x, o.iota(2), x, 0), errors.ArgumentError),
    (lambda o, x, i: o.index_put_accumulate(x, i, x), errors.DimensionError),
    (lambda o, x, i: o.take_along_axis(x, i, 0), errors.DimensionError),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_torch_refuses_is_refused(case: int) -> None:
    define, kind = REFUSED[case]
    with FusionDefinition() as fd:
        data, index = fd.from_pytorch(DATA[0]), fd.from_pytorch(INDEX[0])
        with pytest.raises(kind):
            define(fd.ops, data, index)
