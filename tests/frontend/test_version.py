"""The version compares with strings, number by number."""

import fuser
from fuser import Version, version


def test_versions_compare_with_text() -> None:
    assert Version("0.10.0") > "0.9.0" > Version("0.9.0a1")
    assert Version("0.1.0") == "0.1"
    assert not Version("0.1.0") != "0.1"  # noqa: SIM202 (that is the operator tested)
    assert version() == fuser.__version__ == str(version())
    assert version() > "0.0.1"
    assert version() < Version("1000")
