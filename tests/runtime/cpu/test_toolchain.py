"""Which compiler CXX names, and compilers that do nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIG_IGN, SIGINT, getsignal

import pytest
import torch

from fuser import FusionDefinition
from fuser.errors import (
    CompilationError,
    CompilerError,
    CompilerInterruptedError,
    TargetError,
    TemporaryFolderError,
)
from fuser.runtime.cpu.shared_library import private_directory
from fuser.runtime.cpu.toolchain import Compiler, find_compiler

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


@pytest.mark.parametrize("program", ["true", "false", "ls", "cat"])
def test_a_program_that_is_no_compiler_is_named(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    path = shutil.which(program)
    compiler = named(monkeypatch, f"{path} -e")
    assert compiler is not None
    with pytest.raises(CompilerError, match=rf"^{path} -e, which CXX names, is no C\+\+ comp") as e:
        compiler.image_of_text(TEXT, "answer", ())
    assert "or leave it unset" in str(e.value)
    assert str(e.value.fields["log"])


def test_a_file_that_is_no_program_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "g++"
    path.touch(mode=0o755)
    compiler = named(monkeypatch, str(path))
    assert compiler is not None
    with pytest.raises(CompilerError, match="Exec format error"):
        compiler.image_of_text(TEXT, "answer", ())


@NEEDS_A_COMPILER
def test_an_option_that_the_compiler_does_not_know_is_no_mistake_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert OURS is not None
    compiler = named(monkeypatch, f"{OURS.command[0]} --bogus")
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1], contiguity=True) * 2.718)  # in no other test
    monkeypatch.setattr("fuser.runtime.cpu.kernel.find_compiler", lambda: compiler)
    with pytest.raises(CompilerError, match=r"CXX names(.|\n)*--bogus") as e:
        fd.execute([torch.ones(3)], target="cpu")
    assert not hasattr(e.value, "__notes__")


@NEEDS_A_COMPILER
def test_what_does_not_compile_for_its_own_sake_says_where_it_is() -> None:
    assert OURS is not None
    with pytest.raises(CompilationError, match=r"could not compile .*answer.*\.cpp") as e:
        OURS.image_of_text(TEXT, "answer", ())
    assert Path(str(e.value.fields["source"])).read_text() == TEXT


@NEEDS_A_COMPILER
@pytest.mark.parametrize("without", ["-fno-tree-slp-vectorize", "-O1"])
def test_a_compiler_that_crashes_in_an_optimization_is_asked_for_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, without: str
) -> None:
    assert OURS is not None
    crashing = wrapper(tmp_path / "crashing")
    crashing.write_text(
        f"""#!/bin/sh
case "$*" in *answer*) case "$*" in *{without}*) ;; *)
  echo "internal compiler error: Segmentation fault" >&2; exit 1
esac esac
exec "$@"
"""
    )
    compiler = named(monkeypatch, f"{crashing} {OURS.command[0]}")
    assert compiler is not None
    assert compiler.image_of_text(TEXT, "answer", ("-O3", "-DANSWER=42"))


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_cxx_is_named_where_a_target_needs_a_compiler(
    monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    assert named(monkeypatch, "/nonexistent") is None
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1], contiguity=True) * 2.0)
    with pytest.raises(TargetError, match="CXX names '/nonexistent', which is no program"):
        fd.profile([torch.ones(3)], target=target)


def failing(path: Path, command: str) -> Compiler:
    """A compiler that notes each start in a file beside it, and then does what is said."""
    path.write_text(f"#!/bin/sh\necho start >> {path}.starts\n{command}\n")
    path.chmod(0o755)
    return Compiler((str(path),), "1.0")


@pytest.mark.parametrize(
    ("command", "signal"),
    [("kill -INT $$", "SIGINT"), ("kill -TERM $$", "SIGTERM"), ("exit 130", "SIGINT")],
)
def test_a_compiler_that_somebody_ended_is_not_asked_again(
    tmp_path: Path, command: str, signal: str
) -> None:
    if "-INT" in command and getsignal(SIGINT) is SIG_IGN:
        pytest.skip("who is started by a process that ignores SIGINT does so, too")
    compiler = failing(tmp_path / "g++", command)
    with pytest.raises(CompilerInterruptedError, match=rf"was interrupted by {signal} wh"):
        compiler.image_of_text(TEXT, "answer_interrupted", ())
    assert (tmp_path / "g++.starts").read_text() == "start\n"
    assert list(private_directory().glob("*answer_interrupted*")) == []


def test_messages_may_be_of_any_encoding(tmp_path: Path) -> None:
    compiler = failing(tmp_path / "g++", r"printf '\377 \351rreur' >&2; exit 1")
    with pytest.raises(CompilerError, match="rreur"):
        compiler.image_of_text(TEXT, "answer", ())


def test_a_full_disk_is_not_the_compilers_fault(tmp_path: Path) -> None:
    compiler = failing(tmp_path / "g++", "echo 'ld: No space left on device' >&2; exit 1")
    with pytest.raises(TemporaryFolderError, match=r"fuser-\w+: No space .* in TMPDIR"):
        compiler.image_of_text(TEXT, "answer_full", ())
    assert list(private_directory().glob("*answer_full*")) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("written", ["garbage", "", r"\177ELF\001\001\001"])
def test_what_writes_no_library_of_this_machine_is_no_compiler(
    tmp_path: Path, written: str
) -> None:
    finds = 'for word; do [ "$last" = -o ] && out=$word; last=$word; done'
    compiler = failing(tmp_path / "g++", f"{finds}; printf '{written}' > $out")
    with pytest.raises(CompilerError, match="ended with 0, and wrote no library of this machine"):
        compiler.image_of_text(TEXT, "answer", ())
