"""Copies of definitions."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch

from fuser import Fusion, FusionDefinition, clone, errors


def scaled() -> FusionDefinition:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        fd.add_output(t * fd.define_scalar())
    return fd


def test_a_copy_is_equal_and_runs_by_itself() -> None:
    fd, x = scaled(), torch.ones(3)
    fs, other = Fusion(), FusionDefinition()
    clone(fd, fs)
    clone(fs, other)
    for copied in (fs, other):
        assert repr(copied) == repr(fd)
        assert copied.id() != fd.id()
        assert torch.equal(copied.execute([x, 2.0])[0], 2 * x)


def test_only_what_is_finished_is_copied_into_what_is_new() -> None:
    fd = scaled()
    with pytest.raises(errors.RedefinitionError):
        clone(fd, fd)
    with pytest.raises(errors.RedefinitionError):
        clone(fd, scaled())
    new = FusionDefinition()
    with pytest.raises(errors.EmptyDefinitionError):
        clone(FusionDefinition(), new)
    clone(fd, new)


def test_what_is_no_definition_is_named() -> None:
    fd = scaled()
    with pytest.raises(errors.ArgumentTypeError, match="source must be a FusionDefinition"):
        clone(fd.fusion, FusionDefinition())  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentTypeError, match=r"destination must be .*, got NoneType"):
        clone(fd, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda fd: pickle.loads(pickle.dumps(fd))]
)
def test_copies_and_pickles_have_the_definition(
    copied: Callable[[FusionDefinition], FusionDefinition],
) -> None:
    x = torch.randn(5, 6)
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(t * 2.0, dims=[1]))
    before = fd.execute([x])
    again = copied(fd)
    assert repr(again) == repr(fd)
    assert again.id() != fd.id()
    assert torch.equal(again.execute([x])[0], before[0])
    assert torch.equal(copy.deepcopy(fs).execute([x])[0], before[0])


def test_what_is_not_finished_cannot_be_pickled() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1], contiguity=True) * 2.0)
        with pytest.raises(errors.DefinitionOpenError):
            pickle.dumps(fd)
