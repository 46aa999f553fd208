"""Warnings name a line outside of the package."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch

from fuser import FusionDefinition, debug
from fuser.runtime.cpu import toolchain
from fuser.warned import warn_user


def test_a_warning_points_to_who_calls_the_package() -> None:
    with pytest.warns(RuntimeWarning, match="say") as said:
        warn_user("say")
    assert said[0].filename == __file__


def test_a_call_without_a_compiler_is_where_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    monkeypatch.setattr(toolchain, "_warned", threading.Event())
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([-1]) * 2.0)
    with pytest.warns(RuntimeWarning, match="unfused") as said:
        fd.execute([torch.ones(3)])
    assert said[0].filename == __file__


def test_an_environment_is_read_where_it_says() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        debug.parse({"NVFUSER_DUMP": "ptx"})
    assert said[0].filename == __file__
