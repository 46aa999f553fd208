"""`python -m fuser`: what is printed and written, and the exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fuser
from fuser.explanation.command import main

ROOT = Path(__file__).parent.parent.parent

SCRIPT = """
import sys, torch
from fuser import FusionDefinition
print(__name__, sys.argv[1:], sys.path[0])
x = torch.randn(4, 8)
with FusionDefinition() as fd:
    fd.add_output(fd.from_pytorch(x) * 2.0)
for size in (4, 4, 2):
    fd.execute([x[:size]])
run = torch.compile(lambda x: x.exp() + 1, backend="fuser")
run(x)
if "break" in sys.argv:
    raise KeyError("<here>")
sys.exit(sys.argv[-1] if sys.argv[-1] != "3" else 3)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_is_run_and_explained(script: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["explain", str(script), "--html", str(page), "--html", "own", "3"]
    command = [sys.executable, "-m", "fuser", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    out = done.stdout
    assert out.startswith(f"__main__ ['--html', 'own', '3'] {script.parent}\n")
    assert "definition 0: a FusionDefinition with 2 plans" in out
    assert "graph 0 inference: 2 of 2 compute nodes" in out
    assert "total: 2 graphs, 3 partitions, 3 kernels; moves " in out
    assert out.endswith(f"page: {page}\n")
    assert "<title>fuser: script.py</title>" in page.read_text()


def test_a_reader_that_has_gone_is_no_error(script: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "fuser", "explain", "--html", str(page), str(script), "3"]
    env = {name: word for name, word in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (3, b"")
    assert page.is_file()


def test_a_script_that_fails_is_explained_so_far(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv, path = list(sys.argv), list(sys.path)
    assert main(["explain", str(script), "break"]) == 1
    out, err = capsys.readouterr()
    assert " inference: 2 of 2 compute nodes" in out
    assert err.splitlines()[0] == "Traceback (most recent call last):"
    assert f'File "{script}", line 13' in err.splitlines()[1]
    assert err.splitlines()[-1] == "KeyError: '<here>'"
    assert "runpy" not in err
    assert (sys.argv, sys.path) == (argv, path)


def test_what_a_script_says_at_its_exit_is_said(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(script), "--", "--html"]) == 1
    out, err = capsys.readouterr()
    assert err == "--html\n"
    assert "__main__ ['--html']" in out


def test_a_script_that_compiles_nothing_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idle.py"
    path.write_text("print('done')\n")
    assert main(["explain", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out == "done\n"
    assert f"{path} has compiled nothing with fuser" in err


def test_a_page_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idle.py"
    path.write_text("")
    assert main(["explain", "--html=/dev/full", str(path)]) == 1
    assert "/dev/full cannot be written: No space left" in capsys.readouterr().err
    assert main(["explain", f"--html={tmp_path}", str(path)]) == 2
    assert "it is a folder" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "no/such.py"]) == 2
    assert "no/such.py does not exist" in capsys.readouterr().err
    assert main(["explain", "."]) == 2
    assert ". is no file" in capsys.readouterr().err
    assert main(["explain", "--html", "no/such/page.html", __file__]) == 2
    assert "there is no folder no/such; make it first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--version"], 0, f"fuser {fuser.__version__}"),
        (["--help"], 0, "explain"),
        (["explain", "--help"], 0, "--html FILE"),
        ([], 2, "required: command"),
        (["explain"], 2, "required: script"),
        (["explain", "--colour", "x.py"], 2, "unrecognized arguments: --colour"),
        (["improve"], 2, "invalid choice: 'improve'"),
    ],
)
def test_the_command_line_is_checked(
    arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert leaving.value.code == status
    assert words in " ".join("".join(capsys.readouterr()).split())
