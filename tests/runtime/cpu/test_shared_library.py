import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest

from fuser.codegen import KernelSource
from fuser.errors import CompilationError, TemporaryFolderError
from fuser.runtime.cpu import shared_library
from fuser.runtime.cpu.kernel import compile_cpu
from fuser.runtime.cpu.shared_library import load_library, private_directory
from fuser.runtime.emulator import build
from fuser.schedule.tree.loop_nest import Launch

ROOT = Path(__file__).parents[3]

FORKED = """
import os, sys, time
from fuser.codegen import KernelSource
from fuser.runtime.cpu.kernel import compile_cpu
from fuser.runtime.cpu.shared_library import private_directory
from fuser.schedule.tree.loop_nest import Launch

def compiled(name):
    code = f'extern "C" void {name}(const bool threaded) {{}}'
    return compile_cpu(KernelSource(name, "", code, (), Launch()))

first, parents = compiled("of_parent"), private_directory()
if os.fork() == 0:
    while parents.exists():
        time.sleep(0.01)
    compiled("of_child").launch(False)
    first.launch(False)
    print("compiled", flush=True)
    sys.exit()
print(parents)
"""


def run(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script that has `directory` for temporary files."""
    script = directory / "script.py"
    script.write_text(text)
    variables = {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory), "FUSER_CACHE": "0"}
    return subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def left_of(directory: Path) -> list[Path]:
    return list(directory.glob("fuser-*"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_compiles_after_its_parent_has_ended(tmp_path: Path):
    done = run(FORKED, tmp_path)
    assert done.stdout.split()[-1] == "compiled", done.stderr
    assert left_of(tmp_path) == []


WORKERS = """
import multiprocessing
from fuser import FusionDefinition
import torch

def work(method):
    x = torch.ones(4)
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x) + 1.0)
    assert fd.execute([x])[0].tolist() == [2.0] * 4
    print("compiled by", method, flush=True)

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        worker = multiprocessing.get_context(method).Process(target=work, args=(method,))
        worker.start()
        worker.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_workers_leave_no_folders(tmp_path: Path):
    done = run(WORKERS, tmp_path)
    assert done.stdout.count("compiled by") == 3, done.stderr
    assert left_of(tmp_path) == []


def files_of(name: str) -> list[Path]:
    return list(private_directory().glob(f"*{name}*"))


def source(name: str, body: str = "") -> KernelSource:
    code = f'extern "C" void {name}(const bool threaded) {{ {body} }}'
    return KernelSource(name, "", code, (), Launch())


def test_a_loaded_kernel_has_no_files():
    compile_cpu(source("loaded")).launch(False)
    assert files_of("loaded") == []


def test_an_emulated_kernel_has_no_files():
    kernel = build('extern "C" __global__ void emulated() {}', "emulated")
    kernel.launch((1, 1, 1), (1, 1, 1), [])
    assert files_of("emulated") == files_of("fibers") == []


def test_what_does_not_compile_leaves_its_text():
    with pytest.raises(CompilationError) as caught:
        compile_cpu(source("wrong", "not_declared();"))
    assert files_of("wrong") == [Path(str(caught.value.fields["source"]))]


def test_what_is_no_library_leaves_nothing():
    with pytest.raises(OSError, match="no_library"):
        load_library(b"nothing", "no_library")
    assert files_of("no_library") == []


def test_a_folder_that_was_cleaned_away_is_made_again():
    before = private_directory()
    shutil.rmtree(before)
    compile_cpu(source("after_cleaning")).launch(False)
    assert private_directory() != before
    assert private_directory().stat().st_mode & 0o777 == 0o700


def test_a_folder_of_which_nothing_is_executed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "statvfs", lambda _: mock.Mock(f_flag=os.ST_NOEXEC))
    with pytest.raises(TemporaryFolderError, match=r"fuser-\w+: .* mounted noexec; .* TMPDIR"):
        load_library(b"nothing", "not_executed")
    assert files_of("not_executed") == []


def test_a_folder_that_takes_no_files_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "write_bytes", mock.Mock(side_effect=OSError(28, "it is full")))
    with pytest.raises(TemporaryFolderError, match=r"compiled in .*fuser-\w+: it is full; name"):
        compile_cpu(source("not_written"))
    assert files_of("not_written") == []


def test_without_a_temporary_folder_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(shared_library, "_is_own", lambda _: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(TemporaryFolderError, match=rf"in {tmp_path}/none: No such file"):
        private_directory()
