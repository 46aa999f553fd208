"""What docs/design.md and docs/schedule.md name is there: words, files, printers, parameters."""

from __future__ import annotations

import re
import tomllib
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


def test_the_ranks_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    ranks = [name.removeprefix("fuser.") for name in contracts["contracts"][0]["layers"]]
    (listed,) = re.findall(r"^    \w+ < [\w <\n]+ < \w+$", DESIGN, flags=re.MULTILINE)
    assert listed.replace("<", " ").split() == ranks[::-1]


def test_the_tables_of_printers_are_complete() -> None:
    files = {str(path.relative_to(CODEGEN)): path.read_text() for path in CODEGEN.rglob("*.py")}
    classes = {
        name: file
        for file, text in files.items()
        for name in re.findall(r"(?m)^class (\w+(?:Kernel|Printer))\(", text)
    }
    named = re.findall(r"(?m)^\| `(\w+(?:Kernel|Printer))` \| `([\w/]+\.py)` \|", TEXT)
    assert dict(named) == classes
    modules = set(re.findall(r"(?m)^\| `((?:cpu|cuda)/\w+\.py)` \|", TEXT))
    of_targets = {file for file in files if "/" in file and not file.endswith("__init__.py")}
    assert modules == of_targets - set(classes.values())


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
