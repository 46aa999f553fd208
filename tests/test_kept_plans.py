"""Plans on disk: the same as those that are made, for as long as all they depend on is the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

import fuser
from fuser import FusionDefinition, debug, kept_plans, pipeline
from fuser.ir.nodes import Fusion
from fuser.planning import Compiled, compile_plan
from fuser.runtime.backend import CpuBackend
from fuser.runtime.kernels.disk_cache import DiskCache
from fuser.runtime.target_name import TargetName
from tests.definitions import close
from tests.kernel_families import FAMILIES, Family

X = torch.randn(6, 50)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DiskCache:
    """An empty one, which other tests do without: they have every pass verified."""
    monkeypatch.delenv("FUSER_VERIFY")
    made = DiskCache(tmp_path / "kernels")
    monkeypatch.setattr(kept_plans, "disk_cache", lambda: made)
    return made


def defined(factor: float = 2.0, x: torch.Tensor = X) -> FusionDefinition:
    """What nothing has planned yet in this process."""
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(given * factor, [1]))
    return fd


def counted() -> tuple[int, int]:
    """Plans that were made, and that were loaded."""
    found = fuser.stats()
    return found["plans_built"], found["plans_loaded_from_disk"]


def planned(fd: FusionDefinition, *inputs: torch.Tensor, target: str = "cpu") -> str:
    """Whether a plan was made or loaded."""
    before = counted()
    fd.plan(inputs or (X,), target=target)
    made, loaded = (now - then for now, then in zip(counted(), before, strict=True))
    assert made + loaded == 1
    return "made" if made else "loaded"


def test_an_equal_definition_has_the_plan_from_disk() -> None:
    first, second = defined(), defined()
    assert planned(first) == "made"
    assert planned(second) == "loaded"
    assert str(second.plan([X])) == str(first.plan([X]))
    close(second.execute([X]), [(X * 2.0).sum(1)])


def test_what_a_plan_depends_on_makes_another() -> None:
    assert planned(defined()) == "made"
    assert planned(defined(3.0)) == "made"
    assert planned(defined(), torch.randn(6, 51)) == "made"
    assert planned(defined(x=X.double()), X.double()) == "made"
    assert planned(defined(), target="emulator") == "made"
    assert planned(defined(), target="cuda:sm_100") == "made"
    turned = torch.randn(50, 6).t()
    assert planned(defined(x=turned), turned) == "made"
    assert planned(defined()) == "loaded"


def test_what_mappings_choose_by_makes_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planned(defined()) == "made"
    chosen_by = dataclasses.replace(CpuBackend.row_parameters, lanes=32)
    monkeypatch.setattr(CpuBackend, "row_parameters", chosen_by)
    assert planned(defined()) == "made"


def test_a_file_that_was_changed_makes_another(monkeypatch: pytest.MonkeyPatch) -> None:
    files = kept_plans.PACKAGE
    assert {"planning.py", "printer.py", "common.h"} <= {Path(name).name for name, *_ in files}
    assert planned(defined()) == "made"
    name, changed, touched, size = files[0]
    monkeypatch.setattr(kept_plans, "PACKAGE", ((name, changed + 1, touched, size), *files[1:]))
    assert planned(defined()) == "made"


def test_nothing_is_kept_of_a_package_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_plans, "PACKAGE", ())
    assert [planned(defined()), planned(defined())] == ["made", "made"]


def test_dumps_and_verified_passes_are_of_plans_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planned(defined()) == "made"
    with monkeypatch.context() as environment:
        environment.setenv("FUSER_VERIFY", "1")
        assert planned(defined()) == "made"
    with monkeypatch.context() as environment:
        environment.setenv("FUSER_DUMP", "segmenter_logging")
        debug.reload()
        with debug.captured() as printed:
            assert planned(defined()) == "made"
        assert "plan for cpu" in printed.getvalue()
    debug.reload()
    assert planned(defined()) == "loaded"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of entries that were asked for."""
    names: list[str] = []
    name_of = kept_plans.entry_name

    def noted(fusion: Fusion, key: object) -> str | None:
        found = name_of(fusion, key)
        names.append(str(found))
        return found

    monkeypatch.setattr(kept_plans, "entry_name", noted)
    return names


@pytest.mark.parametrize("found", [b"", b"no pickle", b"cfuser.planning\nNothing\n."], ids=repr)
def test_what_is_no_plan_is_made_again(cache: DiskCache, named: list[str], found: bytes) -> None:
    assert planned(defined()) == "made"
    cache.store(named[0], found)
    assert planned(defined()) == "made"
    assert planned(defined()) == "loaded"


def test_an_input_of_a_class_without_a_name_is_planned_for() -> None:
    class Own(int):
        pass

    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(X) * fd.define_scalar(dtype=fuser.DataType.Int))
    before = counted()
    close(fd.execute([X, Own(3)]), [X * 3])
    assert counted() == (before[0] + 1, before[1])


def test_a_definition_of_ever_other_sizes_keeps_its_first_plans(
    monkeypatch: pytest.MonkeyPatch, cache: DiskCache
) -> None:
    monkeypatch.setattr(pipeline, "KEPT_ON_DISK", 2)

    def of_each(fd: FusionDefinition) -> list[str]:
        return [planned(fd, torch.randn(6, 50 + more)) for more in range(3)]

    assert of_each(defined()) == ["made"] * 3
    assert of_each(defined()) == ["loaded", "loaded", "made"]


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_kernels_of_every_family_are_the_same(family: Family, target: str) -> None:
    inputs = family.inputs()
    fusion = family.defined_like(inputs).fusion
    made, loaded = (_kept(fusion, inputs, TargetName(target)) for _ in range(2))
    assert loaded is not made
    assert loaded.backend.sources == made.backend.sources
    assert loaded.segmented == made.segmented
    assert str(loaded.plan) == str(made.plan)


def _kept(
    fusion: fuser.ir.nodes.Fusion, inputs: list[torch.Tensor], target: TargetName
) -> Compiled:
    return kept_plans.kept_plan(fusion, (), lambda: compile_plan(fusion, inputs, target))
