"""Values that are compared are made in one way, whichever kernels make them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import KernelSource
from fuser.frontend.handles import Handle
from fuser.ir.nodes import Pointwise
from fuser.passes.compared_values import make_compared_alike
from fuser.runtime.cpu import kernel as cpu
from fuser.runtime.cuda import nvrtc
from fuser.schedule.tree.loop_nest import Launch
from tests.definitions import Define, defined
from tests.row_functions import softmax

Function = Callable[[FusionDefinition, Handle], Handle]


def marked(define: Define, dtype: torch.dtype = torch.float32) -> list[str]:
    """The operations of a definition that are marked."""
    fusion = defined(define, torch.ones(4, 6, dtype=dtype)).fusion
    ops = [statement.op for statement in make_compared_alike(fusion).statements]
    return [op.op for op in ops if isinstance(op, Pointwise) and op.alike]


def scaled(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.sin(x) * 2.0


def is_largest(fd: FusionDefinition, x: Handle) -> Handle:
    y = scaled(fd, x)
    return fd.ops.eq(y, fd.ops.max(y, [1], keepdim=True))


def is_nearly_smallest(fd: FusionDefinition, x: Handle) -> Handle:
    y = scaled(fd, x)
    least = fd.ops.broadcast_in_dim(fd.ops.min(y, [1]), [4, 6], [0])
    return fd.ops.le(fd.ops.cast(least, DataType.Double), y)


def largest(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.broadcast(fd.ops.max(scaled(fd, x), [1]), [False, True])


def equals_another(fd: FusionDefinition, x: Handle) -> Handle:
    """As the backward of what another fusion makes the largest element of."""
    return fd.ops.ne(scaled(fd, x), x)


def largest_of_normalized(fd: FusionDefinition, x: Handle) -> Handle:
    """What is summed is added up in another order elsewhere."""
    mean = fd.ops.mean(fd.ops.cos(x), [1], keepdim=True)
    return fd.ops.max(fd.ops.mul(fd.ops.sin(x), mean), [0])


def is_not_a_number(fd: FusionDefinition, x: Handle) -> Handle:
    y = scaled(fd, x)
    return fd.ops.ne(y, y)


@pytest.mark.parametrize(
    "define", [is_largest, is_nearly_smallest, largest, equals_another, largest_of_normalized]
)
def test_what_is_compared_is_marked(define: Define) -> None:
    assert marked(define) == ["sin", "mul"]


@pytest.mark.parametrize(
    "define",
    [
        scaled,
        lambda fd, x: scaled(fd, x) / fd.ops.max(scaled(fd, x), [1], keepdim=True),
        lambda fd, x: fd.ops.gt(scaled(fd, x), 0.5),
        lambda fd, x: fd.ops.eq(scaled(fd, x), 0.5),
        lambda fd, x: fd.ops.gt(scaled(fd, x), fd.ops.mean(x, [1], keepdim=True)),
        lambda fd, x: fd.ops.gt(scaled(fd, x), fd.ops.max(x, [1], keepdim=True) * 0.5),
        is_not_a_number,
        lambda fd, x: fd.ops.max(x, [1]),
    ],
    ids=itertools.count(),
)
def test_nothing_else_is(define: Define) -> None:
    assert marked(define) == []


def test_integers_are_not_rounded() -> None:
    def is_largest_double(fd: FusionDefinition, x: Handle) -> Handle:
        y = fd.ops.add(x, x)
        return fd.ops.eq(y, fd.ops.max(y, [1], keepdim=True))

    assert marked(is_largest_double, torch.int32) == []
    assert marked(is_largest_double) == ["add"]


def test_the_compilers_are_told() -> None:
    exact, fast = (KernelSource("k", "", "", (), Launch(), contracts=c) for c in (False, True))
    assert set(cpu.flags(exact)) - set(cpu.flags(fast)) == {"-ffp-contract=off"}
    assert set(nvrtc.options(exact)) - set(nvrtc.options(fast)) == {"--fmad=false"}
    assert exact.key != fast.key


def test_only_kernels_that_make_what_is_compared_round_apart() -> None:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        y = fd.ops.sum(scaled(fd, x) * 3.0 + x, [0])
        z = fd.ops.segment_set(y) * 2.0 + 1.0
        return fd.ops.max(z, [0])

    x = torch.randn(40, 6)  # more terms than are added one by one
    first, second = defined(define, x).plan([x]).kernels
    assert first.kernel_source is not None
    assert second.kernel_source is not None
    assert first.kernel_source.contracts
    assert not second.kernel_source.contracts


# -- by their results ------------------------------------------------------------------------------


def gelu(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 0.5 * (fd.ops.erf(x * 0.70710678) + 1.0)


def polynomial(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 1.7 + x * x * 0.3 - x


FUNCTIONS: dict[str, Function] = {
    "gelu": gelu,
    "polynomial": polynomial,
    "softmax": softmax,
    "log": lambda fd, x: fd.ops.log(fd.ops.abs(x)),
    **{
        name: lambda fd, x, name=name: getattr(fd.ops, name)(x)
        for name in ("erf", "exp", "sigmoid", "silu", "sin", "tanh")
    },
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    ("target", "shape"), [("cpu", (64, 1000)), ("cpu", (3000, 8)), ("emulator", (16, 300))]
)
def test_some_element_equals_the_largest_of_another_kernel(
    name: str, dim: int, target: str, shape: tuple[int, int]
) -> None:
    """Beside other uses of what is compared, which would have it made otherwise."""
    x = torch.randn(shape)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        made = FUNCTIONS[name](fd, given)
        most = fd.ops.segment_set(fd.ops.max(made, [dim], keepdim=True))
        for out in (fd.ops.eq(made, most), fd.ops.erf(given * 0.70710678)):
            fd.add_output(out)
        fd.add_output(fd.ops.argmin(made, 1 - dim))
    equal, _, place = fd.execute([x], target=target)
    assert equal.any(dim).all()
    assert ((place >= 0) & (place < shape[1 - dim])).all()
