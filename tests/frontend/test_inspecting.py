"""What the module tells of a definition's fusion, by nvfuser_direct's names."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition, errors, get_val_tolerances, translate_fusion
from fuser.ir.nodes import Fusion
from tests.definitions import built


def sums() -> FusionDefinition:
    """A sum of rows, a copy, integers, and an input that is updated."""
    with FusionDefinition() as fd:
        x, held = fd.define_tensor([-1, -1]), fd.define_tensor([-1])
        fd.add_output(fd.ops.sum(x * 0.1, 1))
        fd.add_output(held + 1.0, alias_input=held)
        fd.add_output(fd.ops.permute(x, [1, 0]))
        fd.add_output(fd.ops.cast(x, DataType.Int))
    return fd


def test_the_text_defines_an_equal_fusion() -> None:
    fd = sums()
    text = translate_fusion(fd.fusion)
    assert built(text).fusion == fd.fusion
    assert text == repr(fd)


def test_tolerances_are_what_validation_allows() -> None:
    fd = sums()
    inputs = [torch.randn(3, 400), torch.zeros(3)]
    (absolute, relative), *exact = get_val_tolerances(fd.fusion, inputs)
    assert exact == [(0.0, 0.0), (0.0, 0.0)]
    assert absolute > relative > torch.finfo(torch.float32).eps
    summed, *others = fd.execute(inputs)
    allowed = absolute + relative * summed.abs()
    fd.validate([inputs[0], torch.zeros(3)], [summed + 0.9 * allowed, *others])
    with pytest.raises(errors.OutputDifferenceError):
        fd.validate([inputs[0], torch.zeros(3)], [summed + 1e3 * allowed, *others])


def test_tolerances_grow_with_what_is_summed() -> None:
    fusion = sums().fusion
    held = torch.empty(3, device="meta")
    short, long = (
        get_val_tolerances(fusion, [torch.empty(3, size, device="meta"), held])[0]
        for size in (4, 4000)
    )
    assert long[0] > short[0]
    assert long[1] > short[1]


def test_what_is_no_fusion_of_these_inputs_is_refused() -> None:
    fd = sums()
    with pytest.raises(errors.InputCountError):
        get_val_tolerances(fd.fusion, [])
    for given in (fd, None):
        with pytest.raises(errors.ArgumentTypeError, match=r"must be fd\.fusion"):
            get_val_tolerances(given, [])  # pyright: ignore[reportArgumentType]
        with pytest.raises(errors.ArgumentTypeError, match=r"must be fd\.fusion"):
            translate_fusion(given)  # pyright: ignore[reportArgumentType]
    assert get_val_tolerances(Fusion(), []) == []
