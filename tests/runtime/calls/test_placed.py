"""0-dim CPU tensors beside others: moved for the plan, and handed on and updated as given.

Meta tensors stand for those of another device.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from fuser import FusionDefinition
from fuser.ir.nodes import Fusion
from fuser.runtime.calls.placed import filled, placed

META = torch.device("meta")


def fusion(*, update: bool) -> Fusion:
    """x and a 0-dim z -> x + z, z, x; perhaps z + 1 into z."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        z = fd.define_tensor(shape=[], is_cpu=True)
        fd.add_output(x + z)
        fd.add_output(z)
        fd.add_output(x)
        if update:
            fd.add_output(z + 1.0, alias_input=z)
    return fd.fusion


def test_what_is_elsewhere_is_moved_and_handed_on_as_it_was():
    x, z = torch.ones(3, device=META), torch.tensor(2.0, requires_grad=True)
    seen: list[torch.device] = []

    def run(inputs: Sequence[torch.Tensor | complex]) -> list[torch.Tensor]:
        a, b = (t for t in inputs if isinstance(t, torch.Tensor))
        seen.extend([a.device, b.device])
        return [a + b, b, a]

    total, handed, same = placed(fusion(update=False), run, [x, z], META)([x, z])
    assert seen == [META, META]
    assert total.device == same.device == META
    assert handed.data_ptr() == z.data_ptr()
    assert not handed.requires_grad


def test_what_is_updated_is_what_was_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "fuser.runtime.calls.placed.moved", lambda inputs, _: [t.clone() for t in inputs]
    )
    x, z = torch.ones(3), torch.tensor(2.0)

    def run(inputs: Sequence[torch.Tensor | complex]) -> list[torch.Tensor]:
        a, b = (t for t in inputs if isinstance(t, torch.Tensor))
        old = b.clone()
        b.add_(1.0)
        return [a + old, old, a]

    _, old, _ = placed(fusion(update=True), run, [x, z], META)([x, z])
    assert z.item() == 3.0
    assert old.item() == 2.0


def test_numbers_and_tensors_in_place_need_nothing():
    def run(inputs: Sequence[torch.Tensor | complex]) -> list[torch.Tensor]:
        raise AssertionError

    inputs = [torch.ones(3), torch.tensor(2.0)]
    assert placed(fusion(update=False), run, inputs, torch.device("cpu")) is run


FLOAT_TYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
)
FLOATS = (0.1, -0.0, float("inf"), float("nan"), 3e-40)


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        *((dtype, FLOATS) for dtype in FLOAT_TYPES),
        (torch.complex64, (complex(0.1, -0.0), complex("nan"))),
        *((dtype, (0, 1, 127)) for dtype in (torch.int8, torch.uint8, torch.int16, torch.bool)),
        (torch.int32, (-(2**31), 2**31 - 1)),
        (torch.int64, (-(2**63), 2**63 - 1)),
    ],
)
def test_a_number_is_filled_in_bit_by_bit(dtype: torch.dtype, numbers: Sequence[complex]):
    for number in numbers:
        given = torch.tensor(number).to(dtype)
        made = filled(given, given.device)
        assert made.dtype == dtype
        assert made.reshape(1).view(torch.uint8).equal(given.reshape(1).view(torch.uint8))


def test_lazy_conjugates_are_filled_in_as_the_numbers_they_are():
    given = torch.tensor(1.0 + 2.0j).conj()
    assert filled(given, given.device).item() == 1.0 - 2.0j
