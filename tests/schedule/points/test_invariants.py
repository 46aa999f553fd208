"""What is the same at every point is computed once, if it is costly."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import Define, agrees, defined

X, NUMBER = torch.rand(40, 300) + 0.5, torch.tensor(3.0)


def loop_of(define: Define, *inputs: torch.Tensor) -> tuple[str, str]:
    """The text of a kernel before its first loop, and of the loops; it agrees with the oracle."""
    fd = defined(define, *inputs)
    agrees(fd, list(inputs), "cpu")
    (kernel,) = fd.plan(inputs, target="cpu").kernels
    before, _, loops = kernel.source.partition('extern "C"')[2].partition("for (")
    return before, loops


def corrected(fd: FusionDefinition, x: Handle, step: Handle) -> Handle:
    """As an optimizer corrects its moments."""
    return x / fd.ops.sqrt(1.0 - fd.ops.pow(0.9, step))


def test_powers_of_a_number_are_before_the_loop() -> None:
    before, loops = loop_of(corrected, X, NUMBER)
    assert "pow(" in before
    assert "sqrt(" in before
    assert "pow(" not in loops
    assert "T1_in" not in loops


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(7,), (33, 65), (4, 1, 70)], ids=str)
def test_in_any_mapping(shape: tuple[int, ...], *, turned: bool) -> None:
    x = torch.rand(shape) + 0.5
    given = [x.t().contiguous().t() if turned and x.dim() == 2 else x, NUMBER, torch.rand(shape)]

    def define(fd: FusionDefinition, x: Handle, step: Handle, y: Handle) -> list[Handle]:
        power = fd.ops.pow(0.9, step)
        halves = fd.ops.cast(power, DataType.BFloat16)
        return [x * power + y, fd.ops.where(power < 0.5, x, y), fd.ops.cat([x * halves, y], 0)]

    for target in ("cpu", "emulator"):
        agrees(defined(define, *given), given, target)


def test_what_is_cheap_stays_where_it_is_read() -> None:
    before, loops = loop_of(lambda fd, x, step: x * (step + 1.0), X, NUMBER)
    assert "T1_in[0]" in loops
    assert "T1_in[0]" not in before


def test_what_follows_from_places_is_no_invariant() -> None:
    def define(fd: FusionDefinition, x: Handle, step: Handle) -> Handle:
        places = fd.ops.cast(fd.ops.iota(300, 0, 1, DataType.Int), DataType.Float)
        return x * fd.ops.exp(places * -0.01) * fd.ops.exp(step)

    before, loops = loop_of(define, X, NUMBER)
    assert "exp(T1)" in before
    assert "exp(T1)" not in loops
    assert "exp" in loops


def test_a_number_that_is_updated_is_read_before() -> None:
    x, step = torch.rand(500), torch.tensor(2.0)
    with FusionDefinition() as fd:
        given, number = fd.from_pytorch(x), fd.from_pytorch(step)
        following = number + 1.0
        fd.add_output(given * fd.ops.pow(0.9, following), alias_input=given)
        fd.add_output(following, alias_input=number)
    want = x * torch.pow(torch.tensor(0.9), step + 1)
    fd.execute([x, step])
    torch.testing.assert_close(x, want)
    assert step == 3.0
