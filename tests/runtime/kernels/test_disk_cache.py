import errno
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import fuser
from fuser.codegen import KernelSource
from fuser.runtime.cpu import kernel as cpu
from fuser.runtime.cpu.toolchain import find_compiler
from fuser.runtime.cuda import kernel as cuda
from fuser.runtime.emulator import build
from fuser.runtime.kernels import disk_cache
from fuser.runtime.kernels.compile_cache import CompileCache
from fuser.runtime.kernels.disk_cache import DiskCache
from fuser.schedule.tree.loop_nest import Launch

ROOT = Path(__file__).parents[3]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


def only_entry(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_bytes_are_found_again_by_another_process_in_effect(directory: Path):
    DiskCache(directory).store("key", b"some bytes")
    assert DiskCache(directory).load("key") == b"some bytes"
    assert DiskCache(directory).load("another key") is None


def test_the_directory_and_its_files_are_the_users_alone(directory: Path):
    DiskCache(directory).store("key", b"some bytes")
    assert directory.stat().st_mode & 0o777 == 0o700
    assert only_entry(directory).stat().st_mode & 0o777 == 0o600


def test_a_change_of_any_byte_is_noticed(directory: Path):
    cache = DiskCache(directory)
    cache.store("key", b"some bytes")
    path = only_entry(directory)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert cache.load("key") is None, at
        path.write_bytes(whole[:at])
        assert cache.load("key") is None, f"cut at {at}"
    path.write_bytes(whole + b"x")
    assert cache.load("key") is None
    path.write_bytes(whole)
    assert cache.load("key") == b"some bytes"


def test_an_entry_under_the_name_of_another_is_not_taken_for_it(directory: Path):
    cache = DiskCache(directory)
    cache.store("one", b"1")
    one = only_entry(directory)
    cache.store("two", b"2")
    (two,) = (path for path in directory.iterdir() if path != one)
    one.replace(two)
    assert cache.load("two") is None


def test_links_and_pipes_are_refused(directory: Path, tmp_path: Path):
    cache = DiskCache(directory)
    cache.store("key", b"some bytes")
    path = only_entry(directory)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.load("key") is None
    path.unlink()
    os.mkfifo(path)
    assert cache.load("key") is None  # and does not wait for a writer


def test_files_that_others_may_write_are_refused(directory: Path):
    cache = DiskCache(directory)
    cache.store("key", b"some bytes")
    only_entry(directory).chmod(0o620)
    assert cache.load("key") is None


def test_files_of_another_user_are_refused(directory: Path, monkeypatch: pytest.MonkeyPatch):
    cache = DiskCache(directory)
    cache.store("key", b"some bytes")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert cache.load("key") is None
    with pytest.warns(RuntimeWarning, match="no directory of this user"):
        assert DiskCache(directory).load("key") is None


def test_a_directory_open_to_others_is_not_used(directory: Path):
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    cache = DiskCache(directory)
    with pytest.warns(RuntimeWarning, match="chmod 700"):
        cache.store("key", b"some bytes")
    assert not list(directory.iterdir())
    assert cache.load("key") is None


def stores_in_silence(cache: DiskCache) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store("key", b"some bytes")
    return True


def test_where_no_directory_can_be_made_there_is_one_warning(tmp_path: Path):
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "kernels")
    with pytest.warns(RuntimeWarning, match="FUSER_CACHE=0"):
        cache.store("key", b"some bytes")
    assert stores_in_silence(cache)
    assert cache.load("key") is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_where_nothing_can_be_written_there_is_one_warning(
    directory: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    cache = DiskCache(directory)
    cache.store("before", b"some bytes")

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkstemp", fail)
    with pytest.warns(RuntimeWarning, match=os.strerror(number)):
        cache.store("key", b"some bytes")
    assert stores_in_silence(cache)
    assert cache.load("before") == b"some bytes"


def test_a_write_that_fails_midway_leaves_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.warns(RuntimeWarning, match="full"):
        DiskCache(directory).store("key", b"some bytes")
    assert not list(directory.iterdir())


def test_past_the_limit_the_least_recently_used_go_first(directory: Path):
    cache = DiskCache(directory, limit=4096)
    cache._until_sweep = 1 << 30  # not yet
    paths: dict[str, Path] = {}
    for age, key in enumerate("abcd"):
        known = set(paths.values())
        cache.store(key, bytes(1000))
        (paths[key],) = set(directory.iterdir()) - known
        os.utime(paths[key], (1000.0 + age, 1000.0 + age))
    assert cache.load("a") is not None  # which makes it the last one used
    DiskCache(directory, limit=4096).store("e", bytes(1000))
    kept = {key for key in "abcde" if cache.load(key) is not None}
    assert kept == {"a", "d", "e"}


def test_what_an_ended_process_left_half_written_is_removed(directory: Path):
    DiskCache(directory).store("key", b"some bytes")
    old, new = directory / "unfinished-old", directory / "unfinished-new"
    for path, age in ((old, 7200), (new, 0)):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    DiskCache(directory).store("key", b"some bytes")
    assert not old.exists()
    assert new.exists()


def test_a_directory_that_is_removed_meanwhile_is_made_again(directory: Path):
    cache = DiskCache(directory)
    cache.store("key", b"some bytes")
    shutil.rmtree(directory)
    assert cache.load("key") is None
    cache.store("key", b"some bytes")
    assert cache.load("key") == b"some bytes"
    assert directory.stat().st_mode & 0o777 == 0o700


def test_threads_that_store_and_load_one_key_see_nothing_or_all(directory: Path):
    payload, wrong, done = bytes(range(256)) * 256, list[bytes](), list[bool]()

    def work() -> None:
        cache = DiskCache(directory, limit=1 << 16)  # each sweep removes everything
        for _ in range(30):
            cache.store("key", payload)
            found = cache.load("key")
            if found not in (None, payload):
                wrong.append(found)
        done.append(True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    assert len(done) == 4


@pytest.fixture
def fresh(directory: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    """A cache on disk of its own, in which kernels are kept meanwhile."""
    cache = DiskCache(directory)
    find_compiler()  # its version is kept too, but not here
    monkeypatch.setattr(disk_cache, "disk_cache", lambda: cache)
    return cache


def add_kernel(name: str) -> KernelSource:
    code = f'extern "C" void {name}(const bool threaded) {{ static int n; n += 1; }}'
    return KernelSource(name, "", code, (), Launch())


def counted(work: Callable[[], object]) -> tuple[int, int]:
    """How many kernels were compiled, and loaded from disk, by `work`."""
    before = fuser.stats()
    work()
    after = fuser.stats()
    names = ("kernels_compiled", "kernels_loaded_from_disk")
    compiled, loaded = (after[name] - before[name] for name in names)
    return compiled, loaded


def compile_anew(source: KernelSource, monkeypatch: pytest.MonkeyPatch) -> cpu.CpuFunction:
    monkeypatch.setattr(cpu, "_CACHE", CompileCache())
    return cpu.compile_cpu(source)


def test_a_kernel_is_compiled_once_for_all_processes(
    fresh: DiskCache, monkeypatch: pytest.MonkeyPatch
):
    source = add_kernel("kept")
    assert counted(lambda: compile_anew(source, monkeypatch)) == (1, 0)
    assert counted(lambda: compile_anew(source, monkeypatch)) == (0, 1)


def test_a_damaged_kernel_is_compiled_again_and_mended(
    fresh: DiskCache, directory: Path, monkeypatch: pytest.MonkeyPatch
):
    source = add_kernel("damaged")
    compile_anew(source, monkeypatch)
    path = only_entry(directory)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert counted(lambda: compile_anew(source, monkeypatch)) == (1, 0)
    assert counted(lambda: compile_anew(source, monkeypatch)) == (0, 1)


def test_a_foreign_library_is_never_loaded(
    fresh: DiskCache, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source, mark = add_kernel("foreign"), tmp_path / "was_run"
    compile_anew(source, monkeypatch)
    text, library = tmp_path / "foreign.cpp", tmp_path / "foreign.so"
    text.write_text(
        f'#include <cstdio>\n__attribute__((constructor)) void f() {{ fopen("{mark}", "w"); }}'
        f"\n{source.code}"
    )
    compiler = find_compiler()
    assert compiler is not None
    compiler.shared_library(text, library, ())
    library.replace(only_entry(directory))
    assert counted(lambda: compile_anew(source, monkeypatch)) == (1, 0)
    assert not mark.exists()


def test_what_cannot_be_loaded_here_is_compiled_again(
    fresh: DiskCache, monkeypatch: pytest.MonkeyPatch
):
    keys = list[str]()
    store = fresh.store
    monkeypatch.setattr(fresh, "store", lambda key, made: (keys.append(key), store(key, made)))
    source = add_kernel("other_system")
    compile_anew(source, monkeypatch)
    store(keys[0], b"no library of this machine")
    assert counted(lambda: compile_anew(source, monkeypatch)) == (1, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("processor", lambda: "another processor"),
        ("flags", lambda _: ("-std=c++17", "-O1")),
        ("find_compiler", lambda: None),
    ],
)
def test_another_processor_option_or_compiler_has_kernels_of_its_own(
    fresh: DiskCache, monkeypatch: pytest.MonkeyPatch, name: str, value: object
):
    source = add_kernel("elsewhere")
    compile_anew(source, monkeypatch)
    if name == "find_compiler":
        ours = find_compiler()
        assert ours is not None
        newer = type(ours)(ours.command, ours.version + ".1")
        value = lambda: newer  # noqa: E731
    monkeypatch.setattr(cpu, name, value)
    assert counted(lambda: compile_anew(source, monkeypatch)) == (1, 0)


def test_cubins_are_kept_with_what_ptxas_said(fresh: DiskCache, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    code = 'extern "C" __global__ void kept(float* x) { x[threadIdx.x] += 1.0f; }'
    source = KernelSource("kept", "", code, (), Launch())

    def compile_for(arch: str) -> object:
        monkeypatch.setattr(cuda, "_CUBINS", CompileCache())
        return cuda.compile_cuda(source, arch)

    first = compile_for("sm_90")
    assert counted(lambda: compile_for("sm_80")) == (1, 0)
    assert counted(lambda: compile_for("sm_90")) == (0, 1)
    assert compile_for("sm_90") == first


def test_emulated_kernels_are_kept(fresh: DiskCache, monkeypatch: pytest.MonkeyPatch):
    module = sys.modules["fuser.runtime.emulator.build"]
    code = 'extern "C" __global__ void kept_too(float* x) { x[threadIdx.x] += 1.0f; }'

    def build_anew() -> None:
        monkeypatch.setattr(module, "_CACHE", CompileCache())
        build(code, "kept_too")

    assert counted(build_anew) == (1, 0)
    assert counted(build_anew) == (0, 1)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"FUSER_CACHE_DIR": "/named"}, "/named/kernels"),
        ({"XDG_CACHE_HOME": "/base"}, "/base/fuser/kernels"),
        ({"HOME": "/somebody"}, "/somebody/.cache/fuser/kernels"),
        ({"FUSER_CACHE_DIR": "/named", "FUSER_CACHE": "1"}, "/named/kernels"),
        ({"FUSER_CACHE_DIR": "/named", "FUSER_CACHE": "0"}, None),
    ],
)
def test_the_environment_says_where(
    variables: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
):
    for name in ("FUSER_CACHE_DIR", "FUSER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = disk_cache.disk_cache.__wrapped__()
    assert (None if found is None else str(found._directory)) == expected


PROCESS = """
import sys, torch, fuser
from fuser import FusionDefinition
x = torch.arange(12.0).reshape(3, 4)
with FusionDefinition() as fd:
    given = fd.from_pytorch(x)
    shifted = given - fd.ops.max(given, dims=[1], keepdim=True)
    fd.add_output(fd.ops.exp(shifted) / fd.ops.sum(fd.ops.exp(shifted), dims=[1], keepdim=True))
    fd.add_output(fd.ops.neg(given))
torch.testing.assert_close(fd.execute([x])[0], torch.softmax(x, 1))
stats = fuser.stats()
print(stats["kernels_compiled"], stats["kernels_loaded_from_disk"])
"""


def test_processes_that_start_at_once_on_an_empty_cache_all_succeed(tmp_path: Path):
    def start(seed: int) -> subprocess.Popen[str]:
        variables = {"FUSER_CACHE_DIR": str(tmp_path / "new"), "PYTHONHASHSEED": str(seed)}
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROCESS],
            env={**os.environ, **variables, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )

    for process in [start(1), start(2)]:
        text, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        assert sum(map(int, text.split())) > 0
    later, _ = start(3).communicate(timeout=300)
    compiled, loaded = map(int, later.split())
    assert compiled == 0
    assert loaded > 0


@pytest.mark.parametrize("link", [False, True])
def test_what_is_no_directory_is_named(tmp_path: Path, link: bool) -> None:
    place = tmp_path / "place"
    if link:
        place.symlink_to("nowhere")
    else:
        place.touch()
    cache = DiskCache(place / "kernels")
    with pytest.warns(RuntimeWarning, match=f"{place} is no directory, so kernels are not kept"):
        cache.store("key", b"bytes")
    assert cache.load("key") is None
