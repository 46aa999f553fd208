"""The README's first example runs, and its tables say what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from fuser.debug import DUMPS

README = Path(__file__).parent.parent / "README.md"


def code_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_the_first_example_ends_within_twenty_lines() -> None:
    before, _, _ = README.read_text().partition("print(fd.plan([x]).kernels[0].source)")
    assert len(before.splitlines()) <= 20


def test_the_examples_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    has_thunder = importlib.util.find_spec("thunder") is not None
    for block in code_blocks():
        if has_thunder or "import thunder" not in block:
            exec(block, scope)
    printed = capsys.readouterr().out
    assert "plan for cpu" in printed
    assert 'extern "C" __global__' in printed
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_the_dump_table_is_complete() -> None:
    _, _, after = README.read_text().partition("<!-- dumps:")
    table = after.split("```", maxsplit=1)[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, flags=re.MULTILINE)) == dict(DUMPS)
