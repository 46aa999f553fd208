"""Options of what torch runs as scalars: constants, inputs, and what is computed from sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle
from fuser.ir.nodes import Number
from fuser.pipeline import Executor
from tests.definitions import built

Option = Handle | Number | None
Define = Callable[[FusionDefinition, tuple[Handle, ...], tuple[Option, ...]], tuple[Handle, ...]]

torch.manual_seed(0)
TABLE = torch.randn(5, 8)
ROWS = torch.tensor([[0, 4], [2, 2]])
HEADS = [torch.randn(2, 3, 6, 8) for _ in range(3)]


def embedding(
    fd: FusionDefinition, given: tuple[Handle, ...], options: tuple[Option, ...]
) -> tuple[Handle, ...]:
    return (fd.ops.embedding_fwd(*given, *options),)


def attention(
    fd: FusionDefinition, given: tuple[Handle, ...], options: tuple[Option, ...]
) -> tuple[Handle, ...]:
    drop, causal, scale = options
    output, logsumexp, *state = fd.ops.sdpfa_fwd(
        *given, dropout_p=drop, is_causal=causal, scale=scale
    )
    gradients = fd.ops.sdpfa_bwd(
        output, *given, output, logsumexp, *(drop, causal, *state), scale=scale
    )
    return (output, logsumexp, *gradients)


def largest(
    fd: FusionDefinition, given: tuple[Handle, ...], options: tuple[Option, ...]
) -> tuple[Handle, ...]:
    return fd.ops.topk(*given, *options)


CASES: list[tuple[Define, list[torch.Tensor], tuple[Number | None, ...]]] = [
    (embedding, [ROWS, TABLE], (None, None, 2.0, False, False)),
    (embedding, [ROWS, TABLE], (-1, 1.5, 1.0, True, None)),
    (embedding, [ROWS, TABLE], (3, 1.5, 2, None, None)),
    (attention, HEADS, (0.0, True, 0.25)),
    (attention, HEADS, (None, None, 2)),
    (attention, HEADS, (0, False, None)),
    (largest, [TABLE], (3,)),
]


def defined(
    define: Define, tensors: list[torch.Tensor], options: Callable[[FusionDefinition], list[Option]]
) -> FusionDefinition:
    with FusionDefinition() as fd:
        given = tuple(map(fd.from_pytorch, tensors))
        for out in define(fd, given, tuple(options(fd))):
            fd.add_output(out * 1.0)
    return fd


def as_input(fd: FusionDefinition, option: Number | None) -> Option:
    dtypes = {bool: DataType.Bool, int: DataType.Int, float: DataType.Double}
    return None if option is None else fd.define_scalar(dtypes[type(option)])


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("kind", ["constants", "inputs"])
def test_scalars_are_what_literals_are(case: int, kind: str) -> None:
    define, tensors, numbers = CASES[case]
    want = defined(define, tensors, lambda fd: list(numbers)).execute(tensors)
    if kind == "constants":
        fd = defined(
            define,
            tensors,
            lambda fd: [None if n is None else fd.define_scalar(n) for n in numbers],
        )
        inputs = list(tensors)
    else:
        fd = defined(define, tensors, lambda fd: [as_input(fd, n) for n in numbers])
        inputs = [*tensors, *(n for n in numbers if n is not None)]
    assert built(repr(fd)).fusion == fd.fusion
    for outputs in (fd.execute(inputs), Executor(fd.fusion).execute(inputs)):
        for out, expected in zip(outputs, want, strict=True):
            torch.testing.assert_close(out, expected, rtol=2e-5, atol=2e-5)


def test_options_that_are_inputs_are_read_at_each_call() -> None:
    query, key, value = HEADS
    with FusionDefinition() as fd:
        given = [fd.from_pytorch(tensor) for tensor in HEADS]
        scale, causal = fd.define_scalar(DataType.Double), fd.define_scalar(DataType.Bool)
        fd.add_output(fd.ops.sdpfa_fwd(*given, is_causal=causal, scale=scale * 0.5)[0])
    executor = Executor(fd.fusion)
    for number, flag in ((0.5, True), (2.0, False), (0.1, True)):
        (out,) = executor.execute([query, key, value, number, flag])
        want = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=flag, scale=number / 2
        )
        torch.testing.assert_close(out, want)


def test_an_option_computed_from_sizes_is_a_number_of_the_plan() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        values, indices = fd.ops.topk(x, x.size(0) * 0.5, sorted=True)
        fd.add_output(values)
        fd.add_output(indices)
    executor = Executor(fd.fusion)
    for rows in (5, 8):
        given = torch.randn(rows, 9)
        for out, want in zip(executor.execute([given]), given.topk(rows // 2), strict=True):
            assert torch.equal(out, want)
    with pytest.raises(errors.ArgumentError, match="topk: k = 6: expected 0 or more, and"):
        executor.execute([torch.randn(12, 2)])


def test_wrong_numbers_are_refused_as_literals_are() -> None:
    with FusionDefinition() as fd:
        heads = [fd.from_pytorch(tensor) for tensor in HEADS]
        with pytest.raises(errors.ArgumentError, match=r"dropout_p = 2\.0: expected a prob"):
            fd.ops.sdpfa_fwd(*heads, dropout_p=fd.define_scalar(2.0))
        rows, table = fd.from_pytorch(ROWS), fd.define_tensor([5, 8])
        with pytest.raises(errors.ArgumentError, match="padding_idx = 5: expected one of the 5"):
            fd.ops.embedding_fwd(rows, table, fd.define_scalar(5))
        with pytest.raises(errors.ArgumentTypeError, match="padding_idx must be an int"):
            fd.ops.embedding_fwd(rows, table, fd.define_scalar(5.0))
        drop = fd.define_scalar(DataType.Double)
        fd.add_output(fd.ops.sdpfa_fwd(*heads, dropout_p=drop)[0])
    for run in (fd.execute, Executor(fd.fusion).execute):
        with pytest.raises(errors.ArgumentError, match=r"dropout_p = 2\.0: expected a prob"):
            run([*HEADS, ROWS, torch.randn(5, 8), 2.0])


def test_attention_takes_its_options_where_older_scripts_have_them() -> None:
    def defined(*options: Option, **named: Option) -> str:
        with FusionDefinition() as fd:
            given = [fd.from_pytorch(tensor) for tensor in HEADS]
            fd.add_output(fd.ops.sdpfa_fwd(*given, *options, **named)[0])
        return repr(fd)

    assert "dropout_p=0.1, is_causal=True, scale=0.5" in defined(0.1, True, 0.5)
    assert defined(0.1, True) == defined(None, None, 0.1, True)
    assert defined(None, True, None) == defined(None, None, None, True)
    assert defined(0.1, is_causal=True) == defined(None, None, 0.1, True)
    assert defined(0.1, True, scale=0.5) == defined(0.1, True, 0.5)
    with FusionDefinition() as fd:
        given = [fd.from_pytorch(tensor) for tensor in HEADS]
        drop, causal = fd.define_scalar(0.0), fd.define_scalar(True, DataType.Bool)
        fd.add_output(fd.ops.sdpfa_fwd(*given, drop, causal, None)[0])
        with pytest.raises(errors.ArgumentTypeError, match="is_causal must be"):
            fd.ops.sdpfa_fwd(*given, drop, given[0])
    (output,) = fd.validate(HEADS)
    torch.testing.assert_close(
        output, torch.nn.functional.scaled_dot_product_attention(*HEADS, is_causal=True)
    )
