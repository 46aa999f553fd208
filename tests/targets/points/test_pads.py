"""Pads and concatenations in kernels: the oracle's elements, and nothing read out of bounds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from tests.definitions import Define, close, defined
from tests.row_functions import softmax

TARGETS = ("cpu", "emulator")
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64)


def run(define: Define, *inputs: torch.Tensor, target: str) -> FusionDefinition:
    """Checks what kernels make of the inputs against the oracle."""
    fd = defined(define, *inputs)
    kernels = fd.plan(inputs, target=target).kernels
    assert {kernel.scheduler for kernel in kernels} <= {"rows", "pointwise"}
    results = fd.execute(inputs, target=target)
    close(results, interpret(fd.fusion, inputs), 64)
    return fd


def numbers(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.randint(-3, 4, shape, generator=generator).to(dtype)


# -- pads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_a_pad_of_any_type(target: str, dtype: torch.dtype):
    fill = 1 if dtype is not torch.complex64 else 1 - 2j
    x = numbers((5, 6), dtype)
    run(lambda fd, x: fd.ops.ne(fd.ops.pad(x, [2, 1, 0, 3], fill), 0), x, target=target)
    run(lambda fd, x: fd.ops.pad(x, [2, 1], fill), x, target=target)


@pytest.mark.parametrize(
    "widths",
    [[0, 3], [3, 0], [-1, 2], [1, -1], [-6, 4], [4, -6], [-2, -1], [1, 1, 1, 1], [0, 0, -2, 5]],
    ids=str,
)
@pytest.mark.parametrize("target", TARGETS)
def test_widths_of_either_sign(target: str, widths: list[int]):
    run(lambda fd, x: fd.ops.pad(x * 2.0, widths, 0.5) + 1.0, numbers((5, 6)), target=target)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1), (3, 700)], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_a_pad_of_any_size(target: str, shape: tuple[int, int]):
    run(lambda fd, x: fd.ops.exp(fd.ops.pad(x, [2, 3, 1, 0])), numbers(shape), target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_pad_beside_what_it_pads(target: str):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        y = x * 1.5
        return [y, fd.ops.pad(y, [1, -1]), fd.ops.pad(y, [-2, 2], 9.0)]

    run(define, numbers((7, 9)), target=target)


# -- concatenations ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("target", TARGETS)
def test_a_concatenation_of_any_type(target: str, dim: int, dtype: torch.dtype):
    def define(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
        return [fd.ops.cat([x, y, x], dim), fd.ops.ne(fd.ops.cat([y, x], dim), 0)]

    y = numbers((5, 2) if dim else (2, 6), dtype)
    run(define, numbers((5, 6), dtype), y, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_cut_off_again_is_not_read(target: str):
    def define(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        return fd.ops.slice(fd.ops.cat([x, y], 0), [6, 0], [9, 4]) * 2.0

    fd = run(define, numbers((5, 4)), numbers((6, 4)), target=target)
    (kernel,) = fd.plan([numbers((5, 4)), numbers((6, 4))], target=target).kernels
    assert "clamped" not in kernel.source
    assert "T0_in[" not in kernel.source


@pytest.mark.parametrize("target", TARGETS)
def test_halves_rotated_as_in_rotary_embeddings(target: str):
    def define(fd: FusionDefinition, x: Handle, cos: Handle, sin: Handle) -> Handle:
        left = fd.ops.slice(x, [0, 0], [9, 8])
        right = fd.ops.slice(x, [0, 8], [9, 16])
        return x * cos + fd.ops.cat([fd.ops.neg(right), left], 1) * sin

    fd = run(define, *[numbers((9, 16)) for _ in range(3)], target=target)
    assert len(fd.plan([numbers((9, 16)) for _ in range(3)]).kernels) == 1


# -- with rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_padded_and_joined_values(target: str):
    def define(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
        padded = fd.ops.pad(x, [2, 1], -math.inf)
        joined = fd.ops.cat([x, fd.ops.sum(y, [1], keepdim=True), y], 1)
        return [
            softmax(fd, padded),
            fd.ops.pad(softmax(fd, x), [0, 3]),
            softmax(fd, joined),
            fd.ops.sum(fd.ops.pad(x, [0, 0, 1, 2], 1.0), [0]),
        ]

    run(define, numbers((9, 40)), numbers((9, 7)), target=target)


# -- views through which they are read -----------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_the_gradient_of_a_relative_shift(target: str):
    """Pads with views between them whose factors do not nest, as in XLNet."""

    def define(fd: FusionDefinition, x: Handle) -> Handle:
        wide = fd.ops.pad(x * 0.125, [0, 7])
        turned = fd.ops.reshape(wide, [2, 15, 8])
        return fd.ops.reshape(fd.ops.pad(turned, [0, 0, 1, 0]), [2, 8, 16])

    fd = run(define, numbers((2, 8, 8)), target=target)
    assert len(fd.plan([numbers((2, 8, 8))]).kernels) == 1


def random_steps(seed: int) -> Callable[[FusionDefinition, Handle], Handle]:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        chooser = random.Random(seed)
        shape = [3, 4, 5]
        for _ in range(chooser.randint(2, 6)):
            dim = chooser.randrange(len(shape))
            match chooser.choice(("pad", "cat", "slice", "view", "permute", "flip", "scale")):
                case "pad":
                    before = chooser.randint(-(shape[dim] // 2), 3)
                    after = chooser.randint(-((shape[dim] - 1) // 2), 3)
                    if shape[dim] + before + after < 1:
                        continue
                    widths = [0, 0] * (len(shape) - 1 - dim) + [before, after]
                    x, shape[dim] = fd.ops.pad(x, widths, 0.5), shape[dim] + before + after
                case "cat":
                    x = fd.ops.cat([x, x * 2.0], dim)
                    shape[dim] *= 2
                case "slice":
                    starts, ends = [0] * len(shape), list(shape)
                    starts[dim] = shape[dim] // 3
                    x = fd.ops.slice(x, starts, ends)
                    shape[dim] -= starts[dim]
                case "view":
                    total = math.prod(shape)
                    first = chooser.choice([n for n in range(1, total + 1) if total % n == 0])
                    shape = [first, total // first]
                    x = fd.ops.reshape(x, shape)
                case "permute":
                    shape.reverse()
                    x = fd.ops.permute(x, list(range(len(shape)))[::-1])
                case "flip":
                    x = fd.ops.flip(x, [dim])
                case _:
                    x = x * 1.5
        return x + 1.0

    return define


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("target", TARGETS)
def test_random_pads_cats_and_views(target: str, seed: int):
    run(random_steps(seed), numbers((3, 4, 5)), target=target)


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_the_text_of_pads_has_no_sizes(target: str):
    def code(*shape: int) -> str:
        x = torch.empty(shape)
        with FusionDefinition() as fd:
            y = fd.from_pytorch(x)
            fd.add_output(fd.ops.cat([fd.ops.pad(y, [shape[0], 2]), y], 1) * 2.0)
        (kernel,) = fd.plan([x], target=target).kernels
        return kernel.source[kernel.source.index('extern "C"') :]

    assert code(32, 100) == code(64, 300)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("widths", [[70, -60], [-60, 70], [9, -7], [-7, 9], [5, -6, -4, 5]])
def test_nothing_is_left_of_what_is_cut_by_more_than_there_is(target: str, widths: list[int]):
    x = numbers((3, 5))
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.pad(t, widths, 2.0))
        fd.add_output(fd.ops.permute(fd.ops.pad(t * 2.0, widths, 2.0), [1, 0]))
        fd.add_output(fd.ops.sum(fd.ops.pad(t, widths, 2.0), [1]))
    padded, turned, _ = fd.validate([x], target=target)
    assert padded.eq(2).all()
    assert turned.eq(2).all()


@pytest.mark.parametrize("target", TARGETS)
def test_a_piece_splits_off_as_many_elements_as_another_has_lanes(target: str):
    """The lanes of one are not the inner dimension of the other."""

    def build(fd: FusionDefinition, sums: Handle, few: Handle, many: Handle) -> Handle:
        parts = fd.ops.reshape(fd.ops.permute(sums, [0, 1, 3, 2, 4]), [2, 64, 8, 32])
        joined = fd.ops.cat([many, few, fd.ops.sum(parts, [2])], 2)
        return fd.ops.pad(fd.ops.permute(joined, [0, 2, 1]), [0, 3])

    shapes = ((2, 2, 8, 32, 32), (2, 64, 32), (2, 64, 256))
    run(build, *map(numbers, shapes), target=target)
