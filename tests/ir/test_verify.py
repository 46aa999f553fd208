"""What is wrong with a fusion is said, with the statement and after what."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fuser import FusionDefinition
from fuser.errors import VerifyError
from fuser.ir.nodes import Fusion, Output
from fuser.ir.verify import verify


def exp_and_sum() -> Fusion:
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.empty(4, 6))
        fd.add_output(fd.ops.sum(fd.ops.exp(x), [1]))
    return fd.fusion


def test_a_definition_is_well_formed() -> None:
    verify(exp_and_sum(), "as defined")


def test_an_operand_is_defined_before_it_is_used() -> None:
    fusion = exp_and_sum()
    turned = dataclasses.replace(fusion, statements=fusion.statements[::-1])
    with pytest.raises(VerifyError, match=r"(?s)after turning.*sum.*used before it is defined"):
        verify(turned, "after turning")


def test_a_value_is_defined_once() -> None:
    fusion = exp_and_sum()
    exp, total = fusion.statements
    with pytest.raises(VerifyError, match=r"(?s)after copying.*exp.*defined twice"):
        verify(dataclasses.replace(fusion, statements=(exp, total, exp)), "after copying")
    twice = dataclasses.replace(fusion, inputs=fusion.inputs * 2)
    with pytest.raises(VerifyError, match=r"(?s)inputs.*defined twice"):
        verify(twice, "after copying")


def test_a_recorded_type_is_the_inferred_one() -> None:
    fusion = exp_and_sum()
    exp, total = fusion.statements
    wrong = dataclasses.replace(total.outs[0], type=exp.outs[0].type)
    changed = dataclasses.replace(total, outs=(wrong,))
    with pytest.raises(VerifyError, match=r"(?s)after widening.*sum.*recorded type"):
        verify(dataclasses.replace(fusion, statements=(exp, changed)), "after widening")


def test_an_output_is_defined() -> None:
    fusion = exp_and_sum()
    first = dataclasses.replace(fusion, statements=fusion.statements[:1])
    assert first.outputs == (Output(fusion.statements[1].outs[0]),)
    with pytest.raises(VerifyError, match=r"(?s)after cutting.*outputs.*not defined"):
        verify(first, "after cutting")
