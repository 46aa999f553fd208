"""Results beside what they should be: `check_results` says where they differ by more than rounding.

The difference allowed follows from the fusion (`tolerance_of`). Where an output differs by more,
`rounding_noise` is asked whether the fusion itself makes so much of a rounding for these inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuser.errors import (
    FuserError,
    OutputDifferenceError,
    ReferenceOutputError,
    ReferenceRefusedError,
)
from fuser.ir.concretize import concretize_for
from fuser.ir.four_bits import one_by_one
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Inputs, Value
from fuser.ir.rounding_noise import in_widest, rounding_noise
from fuser.ir.tolerance import tolerance_of

_NOISE_UNITS = 8.0
"""Differences allowed in units of the noise that a single rounding of every operation makes."""


def check_results(
    fusion: Fusion,
    inputs: Inputs,
    results: Sequence[torch.Tensor],
    references: Sequence[torch.Tensor] | None = None,
) -> None:
    """Raises OutputDifferenceError unless `results`, the outputs that `fusion` returns for
    `inputs`, are the oracle's, or `references`, up to rounding.

    The inputs are as they were before the execution. Raises ReferenceOutputError where the
    references are no tensors of the results' number, sizes and dtypes, except that they may be of
    another float or complex type, ReferenceRefusedError where torch computes none.
    """
    static = concretize_for(fusion, inputs)
    values = [output.value for output in static.outputs if output.alias_of is None]
    said = "the oracle computes" if references is None else "the reference holds"
    if references is None:
        references = _oracle(static, inputs)
    _check_references(results, references)
    noise: dict[Value, torch.Tensor] | None = None
    got_and_wanted = zip(map(one_by_one, results), map(one_by_one, references), strict=True)
    for number, (value, (got, want)) in enumerate(zip(values, got_and_wanted, strict=True)):
        relative, absolute = tolerance_of(static, value)
        bound = _bound((relative + _rounding(got, want), absolute), want)
        if _too_far(got, want, bound).any():
            noise = rounding_noise(static, inputs) if noise is None else noise
            shaken = noise[value].nan_to_num(posinf=0.0).to(bound.device)
            _check(number, value, got, want, bound + _NOISE_UNITS * shaken, said)


def _oracle(fusion: Fusion, inputs: Inputs) -> list[torch.Tensor]:
    """What the oracle returns; kernels compute more than torch does, such as an integer over 0."""
    try:
        with torch.no_grad():
            found = interpret(fusion, inputs)
    except FuserError:
        raise
    except RuntimeError as error:
        raise ReferenceRefusedError(reason=error) from error
    pairs = zip(found, fusion.outputs, strict=True)
    return [result for result, output in pairs if output.alias_of is None]


def _check_references(results: Sequence[torch.Tensor], references: Sequence[torch.Tensor]) -> None:
    if len(results) != len(references):
        expected, got = f"{len(results)} tensor(s) in all", f"{len(references)}"
        raise ReferenceOutputError(output=len(references), expected=expected, got=got)
    for number, (result, reference) in enumerate(zip(results, references, strict=True)):
        got = _type(reference) if isinstance(reference, torch.Tensor) else type(reference).__name__  # pyright: ignore[reportUnnecessaryIsInstance]
        if got != _type(result) and not _is_rounded(result, reference):
            raise ReferenceOutputError(output=number, expected=_type(result), got=got)
        if _place(reference) != _place(result):
            raise ReferenceOutputError(
                output=number, expected=f"one {_place(result)}", got=f"one {_place(reference)}"
            )


def _is_rounded(result: torch.Tensor, reference: object) -> bool:
    """Whether they are the same numbers, rounded to another type."""
    if not isinstance(reference, torch.Tensor) or reference.shape != result.shape:
        return False
    floating = reference.is_floating_point() and result.is_floating_point()
    return floating or (reference.is_complex() and result.is_complex())


def _rounding(got: torch.Tensor, want: torch.Tensor) -> float:
    """What a reference of a coarser type is off by itself, relatively."""
    if got.dtype == want.dtype:
        return 0.0
    own = torch.finfo(want.dtype).eps
    return own if own > torch.finfo(got.dtype).eps else 0.0


def _type(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} of sizes {list(tensor.shape)}"


def _place(tensor: torch.Tensor) -> str:
    return f"of layout {tensor.layout} on {tensor.device}"


def _bound(allowed: tuple[float, float], want: torch.Tensor) -> torch.Tensor:
    """The difference allowed in each element."""
    relative, absolute = allowed
    return (absolute + relative * in_widest(want).abs()).nan_to_num(posinf=0.0)


def _difference(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """How far the elements are apart: 0 where they are equal or both NaN, and infinity where one is
    NaN, or an infinity that the other is not."""
    if not want.dtype.is_floating_point and not want.dtype.is_complex:
        return (got != want).to(torch.float64)
    got, want = in_widest(got), in_widest(want)
    same = (got == want) | (got.isnan() & want.isnan())
    apart = (got - want).abs()
    apart = torch.where(got.isfinite() & want.isfinite(), apart, torch.inf)
    return torch.where(same, 0.0, apart)


def _too_far(got: torch.Tensor, want: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    apart = _difference(got, want)
    return (apart > bound) | apart.isinf()


def _check(
    number: int,
    value: Value,
    got: torch.Tensor,
    want: torch.Tensor,
    bound: torch.Tensor,
    said: str,
) -> None:
    """Raises OutputDifferenceError for one output, naming its worst element."""
    wrong = _too_far(got, want, bound)
    if not wrong.any():
        return
    beyond = torch.where(wrong, _difference(got, want) - bound, -torch.inf)
    flat = int(beyond.argmax())
    index = [
        int(part) for part in torch.unravel_index(torch.tensor(flat, device="cpu"), want.shape)
    ]
    raise OutputDifferenceError(
        output=number,
        name=value.name,
        reference=said,
        count=int(wrong.sum()),
        elements=want.numel(),
        index=index,
        got=got[tuple(index)].item(),
        expected=want[tuple(index)].item(),
        bound=float(bound[tuple(index)]),
    )
