"""Random programs of torch's functions under `torch.compile`, beside eager.

Results, gradients and what inputs are afterwards are compared in three calls, so that also the
calls that check nothing are. Numbers may differ by some roundings, and by what eager's move where
its inputs do by a few: a program may round, compare, and take differences.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch

from fuser.integrations import dynamo
from tests.random_programs import Inputs, Program, Values, fresh, program_of, widest

CALLS = 3
"""The third is one that checks nothing."""
MOVED = 3
"""How often inputs are moved."""
ROUNDINGS = 32
"""By how many roundings of the largest element results may differ."""
MOVES = 16
"""By how many times what moved inputs make of them."""
OPEN_SIZES = 4
"""Of so many seeds, one is compiled with sizes that are open, and called with two."""

Results = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Ran:
    """What a program made: results, then gradients, or the inputs as they are afterwards. Of each
    result, the inputs in whose memory it lies."""

    made: Results
    shared: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Expected:
    """What eager makes of some inputs, and by how much each may differ; the largest rounding of any
    value is `rounding`. `zeros` are those whose sign no moved input changes."""

    ran: Ran
    allowed: Sequence[float]
    rounding: float
    zeros: Sequence[torch.Tensor]


def check(seed: int) -> str:
    """Empty if the program of a seed does what eager does; else the smallest part that does not."""
    program, dynamic = program_of(seed), seed % OPEN_SIZES == 0 or None
    what = failure(program, dynamic)
    if not what:
        return ""
    kind = what.split()[0]
    found = True
    while found:
        found = False
        for part in parts(program):
            if failure(part, dynamic).startswith(kind):
                program, found = part, True
                break
    given = "\n".join(
        f"# {name}: {x.dtype} {tuple(x.shape)}, strides {x.stride()}"
        for name, x in zip(program.names, program.inputs, strict=True)
    )
    how = "".join([", open sizes" if dynamic else "", ", trained" if program.trained else ""])
    return f"{given}{how}\n{program.text}# {failure(program, dynamic) or what}\n"


def failure(program: Program, dynamic: bool | None) -> str:
    """How the compiled program differs from eager; empty where eager refuses it."""
    with _quietly():
        return next(filter(None, _failures(program, dynamic)), "")


def _failures(program: Program, dynamic: bool | None) -> Iterator[str]:
    torch.compiler.reset()
    run_compiled = compiled(program, "fuser", dynamic)
    for inputs in _cases(program, dynamic):
        expected = _expected(replace(program, inputs=inputs))
        if expected is None:
            return
        for _ in range(CALLS):
            what = _difference(run_compiled, program, inputs, expected)
            if what and _as_traced(program, inputs, dynamic, run_compiled, expected):
                what = ""
            yield what


def compiled(program: Program, backend: str, dynamic: bool | None) -> Callable[..., Any]:
    return torch.compile(program.function(), backend=backend, dynamic=dynamic)  # pyright: ignore[reportUnknownMemberType]


def _cases(program: Program, dynamic: bool | None) -> Iterator[tuple[torch.Tensor, ...]]:
    yield program.inputs
    if dynamic:
        yield tuple(_larger(x) for x in program.inputs)
        yield program.inputs


def _larger(x: torch.Tensor) -> torch.Tensor:
    """A tensor that lies as another one, with one more element in each dimension of several."""
    order = sorted(range(x.dim()), key=lambda dim: -x.stride(dim))
    laid = [x.shape[dim] + (x.shape[dim] > 1) for dim in order]
    made = torch.randn(laid, generator=torch.Generator().manual_seed(3))
    made = made if x.is_floating_point() or x.is_complex() else made.abs() * 3
    return made.to(x.dtype).permute([order.index(dim) for dim in range(x.dim())])


def _as_traced(
    program: Program,
    inputs: Inputs,
    dynamic: bool | None,
    run_compiled: Callable[..., Any],
    expected: Expected,
) -> bool:
    """Whether a difference is one that tracing makes: of operations in place on elements that
    overlap, and of how results lie."""
    traced = compiled(program, "aot_eager", dynamic)
    try:
        ran = run(traced, inputs, trained=program.trained)
    except Exception:
        return True
    return not _difference(run_compiled, program, inputs, replace(expected, ran=ran))


def run(function: Callable[..., Any], inputs: Inputs, *, trained: bool) -> Ran:
    """What a program makes of fresh inputs."""
    torch.manual_seed(0)
    given = fresh(inputs, trained=trained)
    outputs: tuple[torch.Tensor, ...] = function(*given)
    made = [x.detach() for x in outputs]
    shared = _shared(made, given)
    if not trained:
        return Ran([*made, *(x.clone() for x in given)], shared)
    losses = [_weighted(x) for x in outputs if x.requires_grad]
    floats = [x for x in given if x.requires_grad]
    if losses and floats:
        total = torch.stack(losses).sum()
        found = torch.autograd.grad(total, floats, allow_unused=True)
        zeros = map(torch.zeros_like, floats)
        made += [zero if x is None else x for x, zero in zip(found, zeros, strict=True)]
    return Ran(made, shared)


def _shared(made: Sequence[torch.Tensor], given: Inputs) -> list[list[int]]:
    """The inputs in whose memory each result lies."""
    places = [x.untyped_storage().data_ptr() for x in given]
    return [
        [n for n, at in enumerate(places) if at == x.untyped_storage().data_ptr()] for x in made
    ]


def _weighted(x: torch.Tensor) -> torch.Tensor:
    x = torch.view_as_real(x) if x.is_complex() else x
    weights = torch.linspace(-1, 2, x.numel(), dtype=torch.float64).view(x.shape)
    return (x * weights.to(x.dtype)).sum().double()


# -- comparison ----------------------------------------------------------------------------------


def _expected(program: Program) -> Expected | None:
    values = program.values()
    if values is None:
        return None
    try:
        ran = run(program.function(), program.inputs, trained=program.trained)
    except RuntimeError:  # no gradient of what was written to
        return None
    rounding = _rounding(values)
    largest = max(float(widest(x.detach()).abs().max()) for x in values.values())
    moves = [rounding * largest / 8] * len(ran.made)
    zeros = [_zeros(x, x) for x in ran.made]
    for seed in range(MOVED):
        inputs = [_moved(x, rounding, seed) for x in program.inputs]
        moved = run(program.function(), inputs, trained=program.trained).made
        pairs = zip(moves, ran.made, moved, strict=True)
        moves = [max(most, _apart(*pair)) for most, *pair in pairs]
        signs = zip(zeros, ran.made, moved, strict=True)
        zeros = [firm & _zeros(*pair) for firm, *pair in signs]
    if _EITHER_ZERO.search(program.text):
        zeros = [torch.zeros_like(firm) for firm in zeros]
    return Expected(ran, [MOVES * each for each in moves], rounding, zeros)


_EITHER_ZERO = re.compile(
    r"max|min|clamp|relu|hard|shrink|pool|put|add\(|scatter|sort|topk|\[.*\] [+*]?="
)
"""What may make either of two zeros: extremes, of which torch's vectors and single elements differ,
and what is added to zeros."""


def _zeros(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Where both hold zeros of one sign; nowhere in complex numbers, of which parts are 0."""
    if x.shape != y.shape or not x.is_floating_point():
        return torch.zeros(x.shape, dtype=torch.bool)
    return (x == 0) & (y == 0) & (x.signbit() == y.signbit())


def _rounding(values: Values) -> float:
    """The largest rounding of any value."""
    floats = [x.dtype for x in values.values() if x.is_floating_point() or x.is_complex()]
    return max([torch.finfo(dtype).eps for dtype in floats], default=2.0**-23)


def _moved(x: torch.Tensor, rounding: float, seed: int) -> torch.Tensor:
    if not x.is_floating_point():
        return x
    by = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)) * 2 * rounding
    return torch.empty_like(x).copy_(x * (1 + by.double()))


def _apart(x: torch.Tensor, y: torch.Tensor) -> float:
    if x.shape != y.shape:
        return float("inf")
    return float((widest(x) - widest(y)).abs().max()) if x.numel() else 0.0


def _difference(
    function: Callable[..., Any], program: Program, inputs: Inputs, expected: Expected
) -> str:
    try:
        ran = run(function, inputs, trained=program.trained)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:1500]}"
    if ran.shared != expected.ran.shared:
        return f"memory: results lie in that of inputs {ran.shared}, not {expected.ran.shared}"
    pairs = zip(expected.ran.made, ran.made, expected.allowed, strict=True)
    for number, (old, new, allowed) in enumerate(pairs):
        lies = number < len(ran.shared)
        what = _different(old, new, allowed, expected.rounding, lies=lies)
        if not what and lies and not _zeros(old, new)[expected.zeros[number]].all():
            what = "zeros: some have the other sign"
        if what:
            return f"{what} (result {number})"
    return ""


def _different(
    old: torch.Tensor, new: torch.Tensor, allowed: float, rounding: float, *, lies: bool
) -> str:
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        return f"form: {new.dtype} {tuple(new.shape)}, not {old.dtype} {tuple(old.shape)}"
    if lies and _strides(old) != _strides(new):
        return f"strides: {new.stride()}, not {old.stride()}, of {tuple(old.shape)}"
    if not old.numel() or not torch.isfinite(old).all():
        return ""
    most = ROUNDINGS * rounding * float(widest(old).abs().max()) + allowed
    if _apart(old, new) <= most:
        return ""
    at = int((widest(old) - widest(new)).abs().nan_to_num(torch.inf).argmax())
    found, wanted = new.flatten()[at].item(), old.flatten()[at].item()
    return f"numbers: {found}, not {wanted} to {most:.1e}, element {at}"


def _strides(x: torch.Tensor) -> list[int]:
    """How an output lies, if no two elements lie at one place. Of dimensions of one element, eager
    has strides that torch does not promise when it compiles; these count where memory formats do.
    """
    strides = [stride for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1]
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    last = x.ndim in formats and x.is_contiguous(memory_format=formats[x.ndim])
    if not x.is_contiguous() and not all(strides):
        return []
    return [*strides, x.is_contiguous(), last]


# -- smaller programs ----------------------------------------------------------------------------


def parts(program: Program) -> Iterator[Program]:
    """Programs that compute less; some may not be any."""
    if program.trained:
        yield replace(program, trained=False)
    if len(program.returned) > 1:
        for name in program.returned:
            yield replace(program, returned=(name,))
    for number in reversed(range(len(program.lines))):
        lines = program.lines[:number] + program.lines[number + 1 :]
        if _made_by(program.lines[number]) not in program.returned:
            yield replace(program, lines=lines)
        elif number and (before := _made_by(program.lines[number - 1])):
            yield replace(program, lines=lines, returned=(before,))


def _made_by(line: str) -> str:
    """The name that a line gives a value; empty if it changes one."""
    name = line.partition(" = ")[0]
    return name if name.isalnum() else ""


@contextmanager
def _quietly() -> Iterator[None]:
    """Without torch's warnings; what fails is an error, not left to torch."""
    strict = mock.patch.dict("os.environ", {"FUSER_STRICT": "1"})
    with strict, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dynamo.clear_reports()
        yield
