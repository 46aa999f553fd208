"""Copies of definitions."""

from __future__ import annotations

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
    for copy in (fs, other):
        assert repr(copy) == repr(fd)
        assert copy.id() != fd.id()
        assert torch.equal(copy.execute([x, 2.0])[0], 2 * x)


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
