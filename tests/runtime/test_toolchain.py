"""Which compiler CXX names, and compilers that do nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuser.errors import CompilationError
from fuser.runtime.toolchain import Compiler, find_compiler

OURS = find_compiler()
TEXT = 'extern "C" int answer() { return ANSWER; }'
NEEDS_A_COMPILER = pytest.mark.skipif(OURS is None, reason="needs a C++ compiler")


@pytest.fixture(autouse=True)
def ask_again() -> Iterator[None]:
    find_compiler.cache_clear()
    yield
    find_compiler.cache_clear()


def named(monkeypatch: pytest.MonkeyPatch, command: str) -> Compiler | None:
    monkeypatch.setenv("CXX", command)
    return find_compiler()


def wrapper(path: Path) -> Path:
    """A program that runs the command it is given, as `ccache` does."""
    path.write_text('#!/bin/sh\nexec "$@"\n')
    path.chmod(0o755)
    return path


@NEEDS_A_COMPILER
def test_a_command_may_have_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert OURS is not None
    before = wrapper(tmp_path / "before")
    compiler = named(monkeypatch, f"{before} '{OURS.command[0]}' -DANSWER=42")
    assert compiler == Compiler((str(before), OURS.command[0], "-DANSWER=42"), OURS.version)
    assert compiler.image_of_text(TEXT, "answer", ())
    assert compiler.takes("-O1")


@NEEDS_A_COMPILER
def test_a_path_may_have_spaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert OURS is not None
    program = tmp_path / "my compilers -x" / "g++"
    program.parent.mkdir()
    program.symlink_to(OURS.command[0])
    for spelled in (str(program), f"'{program}'"):
        find_compiler.cache_clear()
        compiler = named(monkeypatch, spelled)
        assert compiler is not None
        assert compiler.command == (str(program),)
        assert compiler.image_of_text(TEXT, "answer", ("-DANSWER=1",))


@pytest.mark.parametrize("command", ["/nonexistent", "/nonexistent g++", " ", "'g++"])
def test_a_command_may_be_none(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    assert named(monkeypatch, command) is None


@pytest.mark.parametrize("program", ["true", "false"])
def test_a_compiler_that_writes_nothing_is_named(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    path = shutil.which(program)
    compiler = named(monkeypatch, f"{path} --quiet")
    assert compiler is not None
    with pytest.raises(CompilationError, match=f"{path} --quiet could not compile .*answer") as e:
        compiler.image_of_text(TEXT, "answer", ())
    assert "and wrote nothing" in str(e.value)
