"""What limits a process's memory: control groups of both versions, and what it may address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuser.runtime.calls.memory_limit import group_limits, memory_limit

ROOT = Path(__file__).parents[3]


def grouped(folder: Path, own: str, **limits: str) -> list[int]:
    """The limits where groups have these, by their path with `__` for a slash."""
    listing = folder / "own"
    listing.write_text(own)
    for path, text in limits.items():
        file = folder / "groups" / path.replace("__", "/").replace("_max", ".max")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return list(group_limits(listing, folder / "groups"))


def test_a_group_and_those_around_it_limit(tmp_path: Path) -> None:
    limits = {"memory_max": "9000", "slice__memory_max": "5000", "slice__job__memory_max": "max"}
    assert sorted(grouped(tmp_path, "0::/slice/job\n", **limits)) == [5000, 9000]


def test_a_container_has_the_group_that_is_mounted(tmp_path: Path) -> None:
    assert grouped(tmp_path, "0::/docker/5ec49f\n", memory_max="7000") == [7000]


def test_groups_of_the_first_version_limit(tmp_path: Path) -> None:
    own = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n"
    listing, groups = tmp_path / "own", tmp_path / "groups" / "memory"
    (groups / "a" / "b").mkdir(parents=True)
    listing.write_text(own)
    (groups / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (groups / "a" / "b" / "memory.limit_in_bytes").write_text("1572864000\n")
    limits = list(group_limits(listing, tmp_path / "groups"))
    assert min(limits) == 1572864000


def test_without_groups_nothing_limits(tmp_path: Path) -> None:
    assert list(group_limits(tmp_path / "none", tmp_path)) == []
    assert grouped(tmp_path, "3:cpu:/\n") == []


LIMITED = """
import resource
from fuser.runtime.calls.memory_limit import memory_limit
before = memory_limit()
resource.setrlimit(resource.RLIMIT_AS, (before // 2, before))
print(memory_limit() == before // 2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_what_a_process_may_address_limits_though_it_changes() -> None:
    assert memory_limit() > 0
    done = subprocess.run(
        [sys.executable, "-c", LIMITED],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr
