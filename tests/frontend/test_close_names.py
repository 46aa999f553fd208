"""Names that are nearly there are told from those that are not."""

import pytest

import fuser
from fuser import FusionDefinition, errors
from fuser.frontend.close_names import close_names


def test_members_of_definitions() -> None:
    fd = FusionDefinition()
    with pytest.raises(errors.UnknownMemberError, match=r"no 'exectue'; did you mean execute\b"):
        _ = fd.exectue
    with pytest.raises(errors.UnknownMemberError, match=r"did you mean .*ops"):
        _ = fd.op
    with pytest.raises(errors.UnknownMemberError, match=r"no 'wibble'$"):
        _ = fd.wibble


def test_names_of_the_package() -> None:
    with pytest.raises(errors.UnknownNameError, match=r"did you mean FusionDefinition\?$"):
        _ = fuser.FusionDefinitoin  # pyright: ignore[reportAttributeAccessIssue]


def test_private_names_are_neither_explained_nor_offered() -> None:
    assert close_names("_execute", ["_executes", "execute"]) == ""
    assert close_names("executee", ["_execute"]) == ""


def test_the_package_lists_what_it_offers() -> None:
    assert dir(fuser) == sorted(fuser.__all__)
