"""Calls with arguments that are not taken: errors show the operation's own signature."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fuser import Fusion, FusionDefinition
from fuser.errors import CallError
from fuser.frontend.calls import explained
from fuser.frontend.ops import Operations


def defined() -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1], contiguity=True) * 2.0)
    return fd


WRONG: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "unknown": (
        lambda fd, t: fd.ops.cat([t], axis=0),
        "cat: got an unexpected keyword argument 'axis'; it is called as "
        "cat(tensors, dim=0, manual_padding=False)",
    ),
    "unknown, and so one is missing": (
        lambda fd, t: fd.ops.index_select(t, t, axis=0),
        "index_select: got an unexpected keyword argument 'axis'; it is called as "
        "index_select(arg, index, dim)",
    ),
    "unknown among older names": (
        lambda fd, t: fd.ops.amax(t, along=0),
        "amax: got an unexpected keyword argument 'along'; it is called as "
        "amax(arg, dims=None, keepdim=False, dtype=None)",
    ),
    "missing": (
        lambda fd, t: fd.ops.permute(t),
        "permute: missing a required argument: 'dims'; it is called as permute(arg, dims)",
    ),
    "too many": (
        lambda fd, t: fd.ops.cast(t, 1, 2),
        "cast: too many positional arguments; it is called as cast(arg, dtype)",
    ),
    "pointwise": (
        lambda fd, t: fd.ops.where(t, other=t),
        "where: got an unexpected keyword argument 'other'; it is called as where(condition, x, y)",
    ),
    "declaration": (
        lambda fd, t: fd.define_scalar(1.0, kind=3),
        "define_scalar: got an unexpected keyword argument 'kind'; it is called as "
        "define_scalar(value=None, dtype=None)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_call_that_does_not_fit_shows_the_signature(case: str) -> None:
    call, message = WRONG[case]
    with FusionDefinition() as fd, pytest.raises(CallError) as raised:
        call(fd, fd.define_tensor(shape=[-1]))
    assert str(raised.value) == message
    assert isinstance(raised.value, TypeError)


def test_every_operation_is_named_as_it_was_called() -> None:
    with FusionDefinition() as fd:
        for name in dir(fd.ops):
            with pytest.raises(CallError, match=rf"^{name}: .*; it is called as {name}\("):
                getattr(fd.ops, name)(bogus=1)
    assert Operations.max.__name__ == "max"


@pytest.mark.parametrize("bench", [Fusion, FusionDefinition])
def test_methods_that_run_a_definition_show_their_signatures(bench: type[Any]) -> None:
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        fd.add_output(fd.define_tensor(shape=[-1], contiguity=True) * 2.0)
    runs: Any = fs if bench is Fusion else fd
    x = torch.ones(3)
    for call in (lambda: runs.execute([x], wibble=1), lambda: runs.execute(x, x)):
        with pytest.raises(CallError, match=r"called as execute\(inputs, \*, target=None, dev"):
            call()
    with pytest.raises(CallError, match=r"^validate: .*'rtol'; .* validate\(inputs, reference_"):
        runs.validate([x], rtol=1e-3)
    for name in ("plan", "validate", "profile", "repro_script_for", "is_compiled"):
        with pytest.raises(CallError, match=rf"^{name}: .* called as {name}\(inputs"):
            getattr(runs, name)([x], [x], x, x)
    assert torch.equal(runs.execute([x])[0], x * 2)


def test_a_definition_is_made_as_its_signature_says() -> None:
    with pytest.raises(CallError, match=r"FusionDefinition\(fusion=None, max_length=None, \*, id"):
        FusionDefinition(backend_type=3)  # pyright: ignore[reportCallIssue]


def test_code_members_show_their_signatures() -> None:
    fd = defined()
    with pytest.raises(CallError, match=re.escape("fec.is_compiled: missing a required")):
        fd.fec.is_compiled()  # pyright: ignore[reportCallIssue]
    with pytest.raises(CallError, match=re.escape("last_cuda_code(intrinsic_code=False, ")):
        fd.last_cuda_code(intrinsic=True)  # pyright: ignore[reportCallIssue]


def test_an_error_within_the_operation_stays_as_it_is() -> None:
    def method(_: object, given: int) -> int:
        return given + 1

    with pytest.raises(TypeError) as raised:
        explained("method", method)(None, "x")  # pyright: ignore[reportArgumentType]
    assert not isinstance(raised.value, CallError)
