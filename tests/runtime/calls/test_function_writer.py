"""Functions of plain lines, which name what is there before."""

from __future__ import annotations

import traceback

import pytest

from fuser.runtime.calls.function_writer import FunctionWriter, bracketed


class Sums(FunctionWriter):
    def of(self, *numbers: object) -> object:
        for number in numbers:
            self._lines.append(f"total += {self._name('number', number)}")
        self._lines.append("return total")
        return self._function_of("total", "<sums>")


def test_what_is_there_before_is_named() -> None:
    assert Sums().of(1, 2.5, 3j)(10) == 13.5 + 3j


def test_tracebacks_tell_what_was_written() -> None:
    with pytest.raises(TypeError) as raised:
        Sums().of("a")(1)
    assert traceback.extract_tb(raised.tb)[-1].filename == "<sums>"


def test_lists_are_bracketed() -> None:
    assert bracketed(iter("ab")) == "[a, b]"
    assert bracketed([]) == "[]"
