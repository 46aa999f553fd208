"""Numbers that are made by arithmetic of their bits: views as another type, under torch.compile."""

from __future__ import annotations

import torch
from short_cases import microscaled

from fuser.integrations import dynamo


def of_graphs() -> tuple[list[str], int]:
    """What is left to torch, and how many partitions there are."""
    reports = dynamo.reports()
    left = [entry.overload for report in reports for entry in report.uncovered]
    return left, sum(len(report.partitions) for report in reports)


def test_arithmetic_of_bits_is_in_partitions() -> None:
    x = torch.randn(40, 96) * torch.exp2(torch.arange(-20.0, 20.0))[:, None]
    run = torch.compile(microscaled, backend="fuser", fullgraph=True)
    for given in (x, x.bfloat16()):
        assert torch.equal(run(given), microscaled(given))
    assert of_graphs() == ([], 2)  # one for each type


def test_a_view_that_is_returned_is_one() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.view(torch.int32), x.view(torch.int32) + 1

    x = torch.randn(8)
    view, more = torch.compile(function, backend="fuser")(x)
    assert view.data_ptr() == x.data_ptr()
    assert torch.equal(more, x.view(torch.int32) + 1)


def test_bits_that_have_no_integer_are_torchs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).half().view(torch.int16) + 1

    x = torch.randn(8)
    assert torch.equal(torch.compile(function, backend="fuser")(x), function(x))
    assert of_graphs()[0] == ["aten.view.dtype"]


def test_gradients_end_at_other_bits() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        sign = (x.detach().view(torch.int32) & -(2**31)).view(torch.float32)
        return (x * x + sign).sum()

    ours, theirs = (torch.randn(9, generator=torch.Generator().manual_seed(1)) for _ in range(2))
    torch.compile(function, backend="fuser")(ours.requires_grad_()).backward()
    function(theirs.requires_grad_()).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
