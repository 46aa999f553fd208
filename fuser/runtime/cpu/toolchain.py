"""The system's C++ compiler: finding it, asking its version, running it."""

from __future__ import annotations

import errno
import functools
import os
import shlex
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from fuser.errors import (
    CompilationError,
    CompilerError,
    CompilerInterruptedError,
    TemporaryFolderError,
)
from fuser.runtime.cpu.shared_library import is_of_this_machine, new_stem, write_private
from fuser.runtime.kernels.disk_cache import kept
from fuser.warned import warn_user

_CANDIDATES = ("g++", "clang++", "c++")
_WITHOUT_LANGUAGE_LIBRARIES = ("-nodefaultlibs", "-lm", "-lgcc")
_C = "-lc"
_GENTLER = (("-fno-tree-slp-vectorize",), ("-O1",))
"""Options that are added where a compiler fails, one set after another: some crash in an
optimization (g++ 12 in that of straight lines to vectors), or run out of memory."""
_ON_REQUEST = (signal.SIGINT, signal.SIGTERM)
"""What ends a compiler because somebody wants it: it is not asked again."""
_FULL = os.strerror(errno.ENOSPC)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler on this machine: what it is called by, before all other arguments."""

    command: tuple[str, ...]
    version: str

    @property
    def name(self) -> str:
        """The command as a shell would read it."""
        return shlex.join(self.command)

    def takes(self, option: str) -> bool:
        """Whether the compiler knows an option of the command line."""
        return _takes(self, option)

    def without_language_libraries(self) -> tuple[str, ...]:
        """Options at the end of a command line, to link neither C++'s library nor C's.

        Kernels call nothing of the former, the process that loads them has the latter, and a linker
        takes longer to look through both than for all the rest. C's functions of numbers are
        linked: of some there are several versions. Empty for compilers that would leave OpenMP out
        too.
        """
        return _WITHOUT_LANGUAGE_LIBRARIES if _links(self, _WITHOUT_LANGUAGE_LIBRARIES) else ()

    def shared_library(
        self, source: Path, library: Path, flags: tuple[str, ...], linked: tuple[str, ...] = ()
    ) -> None:
        """Compile `source` to the shared library `library`; `linked` are options for the linker.

        Where the compiler fails it is asked again, for less. Raises CompilationError with the
        compiler's first messages and the path of the source, CompilerError where nothing can be
        compiled with these flags, CompilerInterruptedError, and TemporaryFolderError.
        """
        try:
            _shared_library(self, source, library, flags, linked)
        except CompilationError:
            _check_compiles(self, flags, linked)
            if not any(
                _compiles(self, source, library, (*flags, *fewer), linked) for fewer in _GENTLER
            ):
                raise

    def image(self, source: Path, flags: tuple[str, ...], linked: tuple[str, ...] = ()) -> bytes:
        """The bytes of the shared library that `source` compiles to.

        Raises what `shared_library` does.
        """
        library = new_stem(source.stem).with_suffix(".so")
        try:
            self.shared_library(source, library, flags, linked)
            return library.read_bytes()
        finally:
            library.unlink(missing_ok=True)

    def image_of_text(
        self, text: str, name: str, flags: tuple[str, ...], linked: tuple[str, ...] = ()
    ) -> bytes:
        """`image` of a text; its file stays only where it does not compile, as the error names it.

        Raises what `shared_library` does.
        """
        source = new_stem(name).with_suffix(".cpp")
        stays = False
        try:
            write_private(source, text.encode())
            return self.image(source, flags, linked)
        except CompilationError:
            stays = True
            raise
        finally:
            if not stays:
                source.unlink(missing_ok=True)


@functools.cache
def find_compiler() -> Compiler | None:
    """The compiler named by CXX, else the first of g++, clang++, c++; None where there is none."""
    named = os.environ.get("CXX")
    for candidate in (named,) if named else _CANDIDATES:
        command = _command(candidate)
        if command is not None:
            return Compiler(command, _kept_version(command))
    return None


def _command(named: str) -> tuple[str, ...] | None:
    """The path of a program, and the arguments that it is named with; None if it is not there.

    A name that is a program's as a whole has no arguments, though it may have spaces.
    """
    whole = shutil.which(named)
    if whole is not None:
        return (whole,)
    try:
        program, *arguments = shlex.split(named)
    except ValueError:  # nothing but spaces, or a quotation without an end
        return None
    path = shutil.which(program)
    return None if path is None else (path, *arguments)


def _kept_version(command: tuple[str, ...]) -> str:
    """The version, asked for once for the files that a command has led to: a process takes
    longer."""
    key = "\n".join(("compiler", *map(_identity, command)))
    return kept(key, lambda: _version(command).encode(), bytes.decode)


def _identity(word: str) -> str:
    """What tells a word of a command from others: of a program, as `ccache` is given, its file."""
    path = shutil.which(word)
    if path is None:
        return word
    file = os.stat(path)
    return f"{os.path.realpath(path)}\n{file.st_mtime_ns}\n{file.st_size}"


def _version(command: tuple[str, ...]) -> str:
    return _run([*command, "--version"]).stdout.partition("\n")[0]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """What a compiler says. A file that is marked as a program, and is none, says why."""
    silent = subprocess.DEVNULL  # programs that are no compilers may wait for it
    try:
        return subprocess.run(
            command,
            stdin=silent,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _shared_library(
    compiler: Compiler,
    source: Path,
    library: Path,
    flags: tuple[str, ...],
    linked: tuple[str, ...],
) -> None:
    """Compile. Raises CompilationError, CompilerInterruptedError, TemporaryFolderError."""
    ends = ["-shared", "-fPIC", "-o", str(library), str(source), *linked]
    done = _run([*compiler.command, *flags, *ends])
    if done.returncode == 0 and is_of_this_machine(library):
        return
    for asked in _ON_REQUEST:
        if done.returncode in (-asked, 128 + asked):  # the latter is what shells say
            raise CompilerInterruptedError(
                compiler=compiler.name, signal=asked.name, source=source.name
            )
    if _FULL in done.stderr:
        raise TemporaryFolderError(folder=library.parent, reason=_FULL)
    wrote = "no library of this machine" if library.exists() else "nothing"
    log = done.stderr or f"it ended with {done.returncode}, and wrote {wrote}"
    raise CompilationError(compiler=compiler.name, source=str(source), log=log)


def _compiles(
    compiler: Compiler,
    source: Path,
    library: Path,
    flags: tuple[str, ...],
    linked: tuple[str, ...],
) -> bool:
    try:
        _shared_library(compiler, source, library, flags, linked)
    except CompilationError:
        return False
    return True


def _compile_loop(compiler: Compiler, flags: tuple[str, ...], linked: tuple[str, ...]) -> None:
    """Compile a parallel loop, and keep nothing of it. Raises what `_shared_library` does."""
    source = new_stem("parallel").with_suffix(".cpp")
    library = source.with_suffix(".so")
    try:
        write_private(source, _PARALLEL.encode())
        _shared_library(compiler, source, library, flags, linked)
    finally:
        source.unlink(missing_ok=True)
        library.unlink(missing_ok=True)


def _check_compiles(compiler: Compiler, flags: tuple[str, ...], linked: tuple[str, ...]) -> None:
    """Raises CompilerError where it is not for the source that a compilation failed."""
    try:
        _compile_loop(compiler, flags, linked)
    except CompilationError as error:
        named = os.environ.get("CXX")
        raise CompilerError(
            compiler=compiler.name,
            origin="which CXX names" if named else f"the first found of {', '.join(_CANDIDATES)}",
            unset=", or leave it unset" if named else "",
            log=str(error.fields["log"]).rstrip(),
        ) from None


@functools.cache
def _takes(compiler: Compiler, option: str) -> bool:
    """Asked once, and kept on disk as the version is."""

    def ask() -> bytes:
        command = [*compiler.command, option, "-E", "-x", "c++", os.devnull]
        return b"" if _run(command).returncode else b"1"

    return kept(f"option\n{compiler.name}\n{compiler.version}\n{option}", ask, bool)


@functools.cache
def _links(compiler: Compiler, linked: tuple[str, ...]) -> bool:
    """Whether a parallel loop is linked and lacks nothing but C's library; kept on disk as the
    version is."""

    def ask() -> bytes:
        try:
            _compile_loop(compiler, ("-fopenmp", "-fno-exceptions"), (*linked, _C, "-Wl,-z,defs"))
        except CompilationError:
            return b""
        return b"1"

    return kept("\n".join(("linked", compiler.name, compiler.version, *linked)), ask, bool)


_PARALLEL = """
void set(int n, float* x) {
#pragma omp parallel for
  for (int i = 0; i < n; ++i) x[i] = 0;
}
"""


_warned = threading.Event()


def why_none() -> str:
    """Why there is no compiler."""
    named = os.environ.get("CXX")
    return f"CXX names {named!r}, which is no program" if named else "no C++ compiler was found"


def warn_without_compiler() -> None:
    """Say, once in a process, that fusions run unfused."""
    if not _warned.is_set():
        _warned.set()
        warn_user(
            f"{why_none()}, so fusions run unfused in torch; install g++ or clang++ "
            "(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++), or name one in CXX"
        )
