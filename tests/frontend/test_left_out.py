"""What has no meaning here is refused with what to do instead."""

import copy
import importlib
import pickle

import pytest

import fuser
from fuser import DataType, Fusion, FusionDefinition, errors
from fuser.frontend.left_out import EXECUTOR_CACHE, HANDLES, MEMBERS, NAMES, OPERATIONS
from fuser.ir import fusion as fusions


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_definitions(name: str) -> None:
    fd = FusionDefinition()
    with pytest.raises(errors.UnknownMemberError) as caught:
        getattr(fd, name)
    assert MEMBERS[name] in str(caught.value)
    assert not hasattr(fd, name)


@pytest.mark.parametrize("name", sorted(MEMBERS.keys() - dir(Fusion)))
def test_members_of_what_definitions_fill(name: str) -> None:
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        fd.add_output(fd.define_tensor([-1]))
    with pytest.raises(errors.UnknownMemberError) as caught:
        getattr(fs, name)
    assert str(caught.value) == f"a Fusion has no '{name}'; {MEMBERS[name]}"
    assert not hasattr(fs, name)
    assert repr(copy.deepcopy(fs)) == repr(pickle.loads(pickle.dumps(fs))) == repr(fs)


def test_members_like_those_of_what_definitions_fill() -> None:
    with pytest.raises(errors.UnknownMemberError, match="did you mean execute"):
        _ = Fusion().exeucte  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", EXECUTOR_CACHE)
def test_members_of_executor_caches(name: str) -> None:
    fec = FusionDefinition().fec
    with pytest.raises(errors.UnknownMemberError) as caught:
        getattr(fec, name)
    assert str(caught.value) == f"a FusionDefinition.fec has no '{name}'; {EXECUTOR_CACHE[name]}"
    assert not hasattr(fec, "anything_else")


@pytest.mark.parametrize("name", fusions.LEFT_OUT)
def test_members_of_fusions(name: str) -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([-1]))
    with pytest.raises(errors.UnknownMemberError) as caught:
        getattr(fd.fusion, name)
    assert str(caught.value) == f"a Fusion has no '{name}'; {fusions.LEFT_OUT[name]}"
    assert not hasattr(fd.fusion, name)
    assert copy.deepcopy(fd.fusion) == pickle.loads(pickle.dumps(fd.fusion)) == fd.fusion


@pytest.mark.parametrize("name", HANDLES)
def test_members_of_handles(name: str) -> None:
    with FusionDefinition() as fd:
        handle = fd.define_tensor([-1])
        with pytest.raises(errors.UnknownMemberError) as caught:
            getattr(handle, name)
        fd.add_output(handle)
    assert f"a Tensor has no '{name}'; {HANDLES[name]}" in str(caught.value)
    assert not hasattr(handle, name)


def test_schedules_are_no_module_of_users() -> None:
    with pytest.raises(
        AttributeError, match=r"no attribute 'schedule\.can_schedule'; schedules are"
    ):
        _ = fuser.schedule.can_schedule  # pyright: ignore[reportAttributeAccessIssue]


def test_operations_that_are_looked_for_on_handles() -> None:
    with FusionDefinition() as fd:
        number = fd.define_scalar(2.0)
        with pytest.raises(AttributeError, match=r"a Scalar has no 'exp'; operations are on"):
            _ = number.exp
        fd.add_output(fd.ops.full([2], number, DataType.Float))


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    with FusionDefinition() as fd, pytest.raises(errors.UnknownOperationError) as caught:
        getattr(fd.ops, name)
    assert OPERATIONS[name] in str(caught.value)
    assert name not in dir(fd.ops)


def test_other_dtypes_are_told_what_there_is() -> None:
    with pytest.raises(AttributeError, match=r"no DataType\.Wibble; it is one of Double, Float,"):
        _ = DataType.Wibble  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(DataType, "__wibble__")
    assert DataType.Char is DataType.Int8
    assert DataType.Null is None


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_module(name: str) -> None:
    with pytest.raises(errors.UnknownNameError) as caught:
        getattr(fuser, name)
    assert NAMES[name] in str(caught.value)
    assert not hasattr(fuser, name)
    with pytest.raises(ImportError):
        exec(f"from fuser import {name}")


def test_others_have_no_hint_and_submodules_are_found() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'wibble'$"):
        _ = fuser.wibble  # pyright: ignore[reportAttributeAccessIssue]
    assert importlib.import_module("fuser.pytorch_utils") is fuser.pytorch_utils
