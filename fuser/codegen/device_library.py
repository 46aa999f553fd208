"""The device libraries: C++ functions that generated code calls, kept in real header files.

A header under `device/` is a list of sections. A line

    //@ erf(float): exp(float), copysign

opens the section that defines `erf` for `float` operands and says which sections it needs first;
`//@ name` without a type defines a name for every type (a template, or a type such as `half`).
A kernel's text carries the sections it uses and no others, in an order that compiles.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

_DIRECTORY = Path(__file__).parent / "device"
_MARK = re.compile(r"^//@ (?P<key>\w+(?:\(\w+\))?)(?::\s*(?P<needs>.*))?$")


@dataclass(frozen=True, slots=True)
class Section:
    """One definition: its key (`name` or `name(type)`), the keys it needs, its text."""

    key: str
    needs: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class DeviceLibrary:
    """The sections one target may use, by key."""

    sections: dict[str, Section]

    def key(self, name: str, type_name: str) -> str | None:
        """The section that defines `name` for `type_name`; None where C itself has the name."""
        typed = f"{name}({type_name})"
        if typed in self.sections:
            return typed
        return name if name in self.sections else None

    def text(self, keys: list[str]) -> str:
        """The text of `keys` and all they need, each once, needs first."""
        ordered: dict[str, Section] = {}
        for key in keys:
            self._collect(key, ordered)
        return "\n\n".join(section.text for section in ordered.values() if section.text)

    def _collect(self, key: str, ordered: dict[str, Section]) -> None:
        if key in ordered:
            return
        section = self.sections[key]
        for needed in section.needs:
            self._collect(needed, ordered)
        ordered[key] = section


@functools.cache
def load(*names: str) -> DeviceLibrary:
    """The library made of the named headers; a later one replaces sections of an earlier one."""
    sections: dict[str, Section] = {}
    for name in names:
        for section in parse((_DIRECTORY / name).read_text()):
            sections[section.key] = section
    return DeviceLibrary(sections)


def parse(text: str) -> list[Section]:
    """The sections of a header, in order; what stands before the first mark is its comment."""
    sections: list[Section] = []
    key, needs, body = "", (), list[str]()
    for line in [*text.splitlines(), "//@ end"]:
        mark = _MARK.match(line)
        if mark is None:
            if not line.startswith("// --"):  # a heading of the file
                body.append(line)
            continue
        if key:
            sections.append(Section(key, needs, "\n".join(body).strip("\n")))
        key, body = mark["key"], []
        needs = tuple(part.strip() for part in (mark["needs"] or "").split(",") if part.strip())
    return sections
