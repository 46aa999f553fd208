"""Definitions written as classes."""

from __future__ import annotations

import copy
import pickle
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fuser import Fusion, FusionDefinition, clone, errors
from fuser.frontend.handles import Handle


def test_a_base_class_that_was_not_initialized_is_named() -> None:
    class Forgetful(FusionDefinition):
        def __init__(self) -> None:  # pyright: ignore[reportMissingSuperCall]
            pass

    with pytest.raises(errors.UnknownMemberError, match=r"Forgetful.__init__ has to call super"):
        Forgetful().execute([torch.ones(2)])


class Scaled(FusionDefinition):
    """Multiplies by a number that its constructor takes after the base class's has run."""

    def __init__(self, by: float, fusion: Fusion | None = None) -> None:
        super().__init__(fusion)
        self.by = by
        self.t: Handle | None = None

    def definition(self) -> None:
        assert self.t is None, "defined twice"
        self.t = self.define_tensor(shape=[-1], contiguity=True)
        self.add_output(self.ops.mul(self.t, self.by))


X = torch.arange(4.0)


@pytest.mark.parametrize("need", ["execute", "validate", "plan", "repro_script_for"])
def test_it_is_defined_when_it_is_first_needed(need: str) -> None:
    fd = Scaled(3.0)
    assert fd.t is None
    getattr(fd, need)([X])
    assert fd.t is not None
    assert torch.equal(fd.execute([X])[0], 3 * X)


def test_its_text_and_validity_define_it_too() -> None:
    assert "fd.ops.mul(T0, S1)" in repr(Scaled(3.0))
    assert len(Scaled(3.0).fusion.outputs) == 1
    assert Scaled(3.0).validate_definition() == (True, None)
    cloned = FusionDefinition()
    clone(Scaled(2.0), cloned)
    assert torch.equal(cloned.execute([X])[0], 2 * X)


def test_the_fusion_it_fills_defines_it_too() -> None:
    fs = Fusion()
    fd = Scaled(3.0, fs)
    assert torch.equal(fs.execute([X])[0], 3 * X)
    assert fd.t is not None
    with pytest.raises(errors.RedefinitionError), fd:
        pass


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda fd: pickle.loads(pickle.dumps(fd))]
)
def test_a_copy_is_of_its_class_and_has_its_attributes(
    copied: Callable[[Scaled], Scaled],
) -> None:
    again = copied(Scaled(3.0))
    assert type(again) is Scaled
    assert again.by == 3.0
    assert again.t is not None
    assert again.t.ndim == 1
    assert torch.equal(again.execute([X])[0], 3 * X)
    assert torch.equal(copied(again).execute([X])[0], 3 * X)


def test_a_block_goes_before_the_method() -> None:
    fd = Scaled(3.0)
    with fd:
        fd.add_output(fd.ops.neg(fd.define_tensor(shape=[-1])))
    assert torch.equal(fd.execute([X])[0], -X)
    assert fd.t is None


def test_several_threads_define_it_once() -> None:
    class Slow(Scaled):
        def definition(self) -> None:
            time.sleep(0.05)
            super().definition()

    fd = Slow(3.0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: fd.execute([X])[0], range(8)))
    assert all(torch.equal(result, 3 * X) for result in results)


def test_an_error_in_the_method_spoils_the_definition() -> None:
    class Broken(FusionDefinition):
        def definition(self) -> None:
            assert repr(self).endswith("pass\n")
            raise ZeroDivisionError

    fd = Broken()
    with pytest.raises(ZeroDivisionError):
        fd.execute([X])
    with pytest.raises(errors.DefinitionFailedError, match="ZeroDivisionError"):
        fd.execute([X])


def test_schedules_are_ignored_with_a_warning_and_those_of_devices_refused() -> None:
    class Scheduled(Scaled):
        def schedule(self) -> None:
            raise AssertionError

    with pytest.warns(UserWarning, match=r"Scheduled\.schedule is not called"):
        (out,) = Scheduled(3.0).execute([X])
    assert torch.equal(out, 3 * X)

    class Spread(Scaled):
        def multidevice_schedule(self) -> None:
            raise AssertionError

    spread = Spread(3.0)
    with pytest.raises(errors.UnsupportedHookError, match="one device"):
        spread.execute([X])
    with pytest.raises(errors.DefinitionFailedError, match="one device"):
        spread.execute([X])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Scaled(3.0).execute([X])
