"""What has no meaning here is refused with what to do instead."""

import importlib

import pytest

import fuser
from fuser import FusionDefinition, errors
from fuser.frontend.left_out import MEMBERS, NAMES


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_definitions(name: str) -> None:
    fd = FusionDefinition()
    with pytest.raises(errors.UnknownMemberError) as caught:
        getattr(fd, name)
    assert MEMBERS[name] in str(caught.value)
    assert not hasattr(fd, name)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_module(name: str) -> None:
    with pytest.raises(errors.UnknownNameError) as caught:
        getattr(fuser, name)
    assert NAMES[name] in str(caught.value)
    assert not hasattr(fuser, name)
    with pytest.raises(ImportError):
        exec(f"from fuser import {name}")


def test_others_have_no_hint_and_submodules_are_found() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'wibble'$"):
        _ = fuser.wibble  # pyright: ignore[reportAttributeAccessIssue]
    assert importlib.import_module("fuser.pytorch_utils") is fuser.pytorch_utils
