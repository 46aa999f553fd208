"""The examples of the README and of docs/ run, their links lead somewhere, and their tables say
what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuser.debug import DUMPS

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PRINTED = {
    "README": "plan for cpu",
    "inspecting": 'extern "C" __global__',
    "models": "graph 0 forward",
}
"""What the examples of a document show, among more."""


def code_blocks(document: Path) -> list[str]:
    """Its examples in Python."""
    return re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL)


def anchors(document: Path) -> set[str]:
    """What links may name after a `#`: headings as they are written in addresses."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_first_example_ends_within_twenty_lines() -> None:
    text = (ROOT / "README.md").read_text()
    before, _, _ = text.partition("print(fd.plan([x]).kernels[0].source)")
    assert len(before.splitlines()) <= 20


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if code_blocks(path)], ids=lambda path: path.stem
)
def test_the_examples_run(
    document: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for block in code_blocks(document):
        try:
            exec(block, scope)
        except ImportError as error:  # it is not installed, or too old for this torch
            if error.name != "thunder":
                raise
    assert PRINTED.get(document.stem, "") in capsys.readouterr().out
    pages = [path.read_text() for path in tmp_path.glob("*.html")]
    assert len(pages) == document.read_text().count("html=")
    assert all("<svg" in page for page in pages)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_the_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_dump_table_is_complete() -> None:
    _, _, after = (ROOT / "docs" / "inspecting.md").read_text().partition("<!-- dumps:")
    table = after.split("```", maxsplit=1)[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, flags=re.MULTILINE)) == dict(DUMPS)


def test_the_targets_of_make_are_listed() -> None:
    makefile = (ROOT / "Makefile").read_text()
    _, _, phony = makefile.partition(".PHONY:")
    targets = set(phony.partition("\n\n")[0].replace("\\", "").split()) - {"help"}
    helped = {w for line in re.findall(r'@echo "make ([\w -]+?)  ', makefile) for w in line.split()}
    assert helped == targets
    assert set(re.findall(r"`make ([\w-]+)`", (ROOT / "README.md").read_text())) >= targets
