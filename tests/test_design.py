"""What docs/design.md and docs/schedule.md name is there: words, files, printers, parameters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuser.schedule.cpu_row_parameters import CpuRowParameters

ROOT = Path(__file__).parent.parent
DESIGN, _, GLOSSARY = (ROOT / "docs" / "design.md").read_text().partition("## Glossary")
TEXT = DESIGN + (ROOT / "docs" / "schedule.md").read_text()
CODEGEN = ROOT / "fuser" / "codegen"


def singular(word: str) -> str:
    return re.sub(r"(?<=ch)es$|s$", "", word)


def in_italics() -> list[str]:
    """Words in italics; those that begin a paragraph, with a capital, are headings."""
    found = re.findall(r"(?<![*\w/])\*([a-z][a-z -]*)\*(?![*\w])", TEXT)
    return sorted({singular(word) for word in found})


def explained() -> set[str]:
    heads = re.findall(r"^- \*\*(.*?)\*\*:", GLOSSARY, flags=re.MULTILINE)
    return {singular(word) for head in heads for word in head.split(", ")}


@pytest.mark.parametrize("word", in_italics())
def test_words_in_italics_are_in_the_glossary(word: str) -> None:
    assert word in explained()


def test_the_glossary_is_in_order() -> None:
    heads = re.findall(r"^- \*\*(.*?)\*\*:", GLOSSARY, flags=re.MULTILINE)
    assert heads == sorted(heads, key=str.lower)
    assert len(heads) == len(set(heads))


def test_files_that_are_named_exist() -> None:
    folders = [ROOT / name for name in ("fuser", "tests", "benchmarks", "repros")]
    there = [f"/{path.relative_to(ROOT)}" for folder in folders for path in folder.rglob("*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", TEXT))
    assert len(named) > 100
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []


def test_the_table_of_printers_is_complete() -> None:
    table = dict(
        re.findall(r"^\| `(\w+(?:Kernel|Printer))` \| `(\w+\.py)` \|", TEXT, flags=re.MULTILINE)
    )
    classes = {
        name: path.name
        for path in CODEGEN.glob("*.py")
        for name in re.findall(
            r"^class (\w+(?:Kernel|Printer))\(", path.read_text(), flags=re.MULTILINE
        )
    }
    assert table == classes
    modules = set(re.findall(r"^\| `(c\w+\.py)` \|", TEXT, flags=re.MULTILINE))
    assert modules == {path.name for path in CODEGEN.glob("c*_*.py")} - set(classes.values())


def test_numbers_of_the_mappings_are_those_of_the_parameters() -> None:
    _, _, rows = TEXT.partition("## Rows on a processor")
    table = "\n".join(line for line in rows.partition("**Strips or lines.**")[0].splitlines())
    given = CpuRowParameters()
    found = re.findall(r"`(\w+)` (?:to|x) `(\w+)` \(([\d,]+) (?:to|x) ([\d,]+)\)", table)
    pairs = [
        pair for one, other, *numbers in found for pair in zip((one, other), numbers, strict=True)
    ]
    pairs += re.findall(r"`(\w+)` \(([\d,]+)\)", table)
    assert len(pairs) >= 15
    for name, number in pairs:
        assert getattr(given, name) == int(number.replace(",", "")), name
