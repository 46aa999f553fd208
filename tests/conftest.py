"""What every test has: its own seeds, checked passes, golden files, a reason without a GPU."""

from __future__ import annotations

import gc
import hashlib
import os
import random
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

# Before torch is imported: test workers share the cores, and threads that spin while they wait
# would take them from each other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["FUSER_VERIFY"] = "1"
os.environ.pop("FUSER_CACHE", None)

import pytest
import torch
from hypothesis import settings

from fuser.runtime.emulator import Sanitizer
from tests import broken_device
from tests.covering import covering
from tests.runtime.emulator.sanitized_plan import usable

pytest_runtest_protocol = broken_device.pytest_runtest_protocol

# Where there is no CUDA, torch keeps every seed for it, with a traceback that takes 0.5 ms to make.
seed_torch = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
GOLDEN = Path(__file__).parent / "golden"
FUSER = Path(__file__).parents[1] / "fuser"
COMPILING = (*FUSER.glob("runtime/**/*.*"), FUSER / "codegen" / "launch_bounds.py")
"""What takes part in compiling a kernel, beside its text."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden with what is generated"
    )
    parser.addoption(
        "--seed", type=int, default=0, help="other random inputs and examples than those of 0"
    )
    parser.addoption(
        "--covering",
        action="store_true",
        help="not all combinations of a test's parameters: every value of two of them, every pair "
        "of values of more (not where it is marked `alone`), and none that is marked `more`",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Examples depend on the test and on --seed alone: what passed here passes elsewhere."""
    seed, given = config.getoption("--seed"), config.option.hypothesis_seed
    if seed and given is None:
        config.option.hypothesis_seed = str(seed)
    is_seeded = config.option.hypothesis_seed is not None
    settings.register_profile("repeated", derandomize=not is_seeded, database=None)
    settings.load_profile("repeated")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compiled kernels stay for later runs, until what compiles them changes; `pytest
    --cache-clear` forgets them."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # it has those of who started it
        return
    if not session.config.pluginmanager.has_plugin("cacheprovider"):  # -p no:cacheprovider
        return
    sources = sorted(path for path in COMPILING if path.suffix in (".py", ".h", ".cpp"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    held = session.config.cache.mkdir("kernels")
    for other in held.iterdir():
        if other.name != digest:
            shutil.rmtree(other, ignore_errors=True)
    os.environ["FUSER_CACHE_DIR"] = str(held / digest)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """What a module draws while it is imported depends on its name, not on those before it."""
    _seed(collector)


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """A test's inputs depend on its name and on --seed, not on the tests before it."""
    _seed(request.node)


def _seed(node: pytest.Collector | pytest.Item) -> None:
    seed = zlib.crc32(node.nodeid.encode()) + node.config.getoption("--seed")
    seed_torch(seed)
    random.seed(seed)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--covering"):
        _leave_out_combinations(config, items)
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device, and torch sees none")
    for item in items:
        if _has(item, "gpu"):
            item.add_marker(skip)


def _has(item: pytest.Item, marker: str) -> bool:
    return item.get_closest_marker(marker) is not None


def _leave_out_combinations(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = dict[str, list[pytest.Item]]()
    for item in items:
        if not _has(item, "more"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {
        test[number]
        for test in tests.values()
        for number in covering(_combinations(test), pairs=not _has(test[0], "alone"))
    }
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _combinations(test: list[pytest.Item]) -> list[list[tuple[int, ...]]]:
    """Which values a test's parameters have. Names that get theirs together are one parameter."""
    if not hasattr(test[0], "callspec"):
        return [[]] * len(test)
    together = [_names(mark) for mark in test[0].iter_markers("parametrize")]
    of_fixtures = set(test[0].callspec.params).difference(*together)
    parameters = [*together, *([name] for name in sorted(of_fixtures))]
    every = [item.callspec.params for item in test]
    return [[tuple(id(of[name]) for name in names) for names in parameters] for of in every]


def _names(parametrize: pytest.Mark) -> Sequence[str]:
    names = parametrize.args[0]
    return re.split(r"[\s,]+", names) if isinstance(names, str) else names


def pytest_collection_finish() -> None:
    """The modules and the tests stay to the end: collectors of garbage need not look at them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    if "torch._dynamo.guards" in sys.modules:
        _spare_tracing()


def _spare_tracing() -> None:
    """What torch does for each graph that it traces, and no test asks for: 40 ms of 170."""
    # Only logged, and what empties the caches before takes 30 ms a graph.
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    torch._dynamo.config.run_gc_after_compile = False
    # The state of random numbers that are functions of it, which is a setting of functorch's.
    draws = torch._decomp.decompositions_for_rng.PhiloxStateTracker
    draws.reset()
    draws.reset = classmethod(lambda _: None)


@pytest.fixture(params=Sanitizer, ids=lambda sanitizer: sanitizer.name)
def sanitizer(request: pytest.FixtureRequest) -> Sanitizer:
    """Each sanitizer that this machine has."""
    return usable(request.param)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: `text` is what tests/golden/<name> holds.

    `pytest --update-golden` writes the files instead; read the difference before it is committed.
    """

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"no golden file {name}; make it with pytest --update-golden"
        expected = path.read_text()
        assert text == expected, f"{name} changed; if that is wanted: pytest --update-golden"

    return compare
