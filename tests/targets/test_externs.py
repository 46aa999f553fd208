"""Operations torch runs, in a plan: several results, absent tensors, kernels around them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.ir.interpret import interpret

TARGETS = ("cpu", "emulator")


def check(fd: FusionDefinition, inputs: Sequence[torch.Tensor], target: str) -> list[torch.Tensor]:
    """The results, which are the oracle's."""
    results = fd.execute(list(inputs), target=target)
    for result, expected in zip(results, interpret(fd.fusion, list(inputs)), strict=True):
        assert result.dtype is expected.dtype
        torch.testing.assert_close(result, expected)
    return results


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_results_of_topk_are_read_and_returned(used: tuple[int, ...], target: str) -> None:
    x = torch.randn(6, 9)
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1, -1], contiguity=True)
        found = fd.ops.topk(fd.ops.exp(t), 4, dim=0, sorted=True)
        for place in used:
            fd.add_output(found[place])
            fd.add_output(fd.ops.permute(found[place] * 2, [1, 0]))
    assert all(result.shape in ((4, 9), (9, 4)) for result in check(fd, [x], target))


@pytest.mark.parametrize("target", TARGETS)
def test_one_element_between_kernels(target: str) -> None:
    x = torch.randn(3, 4)
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1, -1], contiguity=True)
        total = fd.ops.sum(fd.ops.exp(t))
        fd.add_output(fd.ops.neg(fd.ops.argsort(total, 0)))
        fd.add_output(fd.ops.mul(fd.ops.topk(total, 1)[0], 2.0))
        fd.add_output(fd.ops.relu(fd.ops.linear(t, t, total)))
    check(fd, [x], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("masked", [False, True])
def test_attention_between_kernels(masked: bool, target: str) -> None:
    q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8)
    mask = torch.rand(5, 9) > 0.2
    with FusionDefinition() as fd:
        query, key, value = (fd.from_pytorch(t) for t in (q, k, v))
        kept = fd.from_pytorch(mask)
        output, logsumexp, seed, offset = fd.ops.sdpfa_fwd(
            query * 2.0, key, value, mask=kept if masked else None, is_causal=not masked
        )
        joined = fd.ops.reshape(fd.ops.permute(output, [0, 2, 1, 3]), [2, 5, 24])
        fd.add_output(fd.ops.relu(joined))
        fd.add_output(fd.ops.neg(logsumexp))
        fd.add_output(fd.ops.permute(logsumexp, [1, 0, 2]))
        fd.add_output(seed + offset)
    check(fd, [q, k, v, mask], target)


@pytest.mark.parametrize("target", TARGETS)
def test_attention_of_every_row_of_pairs(target: str) -> None:
    """[batch, row, head, pair, width], a bias for all rows and a mask for all heads and pairs."""
    pairs, bias = torch.randn(2, 5, 5, 24), torch.randn(2, 5, 5, 3)
    mask = torch.rand(2, 5, 5) > 0.2
    with FusionDefinition() as fd:
        t, b, m = (fd.from_pytorch(x) for x in (pairs, bias, mask))
        batch, rows = fd.ops.size(t, 0), fd.ops.size(t, 1)
        split = fd.ops.reshape(t * 2.0, [batch, rows, rows, 3, -1])
        heads = fd.ops.permute(split, [0, 1, 3, 2, 4])
        added = fd.ops.broadcast(fd.ops.permute(b, [0, 3, 1, 2]), [False, True] + [False] * 3)
        kept = fd.ops.broadcast(m, [False, False, True, True, False])
        output, *_ = fd.ops.sdpfa_fwd(heads, heads, heads, bias=added, mask=kept)
        joined = fd.ops.permute(fd.ops.sigmoid(output), [0, 1, 3, 2, 4])
        fd.add_output(fd.ops.reshape(joined, [batch, rows, rows, -1]))
    check(fd, [pairs, bias, mask], target)


def test_gradients_of_attention_in_one_definition() -> None:
    heads = [torch.randn(2, 2, 6, 8) for _ in range(3)]
    with FusionDefinition() as fd:
        query, key, value = map(fd.from_pytorch, heads)
        output, *state = fd.ops.sdpfa_fwd(query, key, value, dropout_p=0.0, is_causal=True)
        gradients = fd.ops.sdpfa_bwd(
            *(fd.ops.sin(output), query, key, value, output, state[0]),
            *(0.0, True, state[1], state[2]),
        )
        for gradient in gradients:
            fd.add_output(gradient * 2.0)
    results = check(fd, heads, "cpu")
    leaves = [tensor.clone().requires_grad_() for tensor in heads]
    output = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
    expected = torch.autograd.grad(output, leaves, torch.sin(output.detach()))
    for result, gradient in zip(results, expected, strict=True):
        torch.testing.assert_close(result, gradient * 2)


@pytest.mark.parametrize("target", TARGETS)
def test_scatters_embedding_and_order_in_one_definition(target: str) -> None:
    x, index = torch.randn(5, 4), torch.tensor([1, 0, 1, 4, 2])
    with FusionDefinition() as fd:
        t, i = fd.from_pytorch(x), fd.from_pytorch(index)
        checked = fd.ops.check_index(i, 5, "embedding")
        rows = fd.ops.embedding_fwd(checked, t * 2.0)
        fd.add_output(fd.ops.index_add(t, i, rows, 0) + 1.0)
        fd.add_output(fd.ops.index_put_accumulate(t, i, rows))
        fd.add_output(fd.ops.scatter_add(t, fd.ops.argsort(rows, 0, stable=True), rows, 0))
    check(fd, [x, index], target)


def test_an_index_out_of_range_stops_the_plan() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], contiguity=True)
        i = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
        fd.add_output(fd.ops.index_add(t, i, t, 0))
    with pytest.raises(errors.FuserError, match=r"index_add.* index 7 is out of range"):
        fd.execute([torch.ones(2), torch.tensor([0, 7])])


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_dropout_of_torch_and_numbers_of_kernels_are_repeatable(first: bool, used: bool) -> None:
    """The oracle draws in the order of the plan."""
    inputs = [torch.randn(1, 2, 8, 16) for _ in range(3)]
    with FusionDefinition() as fd:
        given = [fd.from_pytorch(t) for t in inputs]
        made = [
            define()
            for define in (
                lambda: fd.ops.sdpfa_fwd(*given, dropout_p=0.5, is_causal=False)[0],
                lambda: fd.ops.uniform(0.0, 1.0, [4]),
            )[:: 1 if first else -1]
        ]
        for result in made:
            if used or result.ndim == 1:
                fd.add_output(result)
    fd.validate(inputs)


@pytest.mark.parametrize("target", TARGETS)
def test_types_are_the_definitions_under_autocast(target: str) -> None:
    a, b = torch.randn(16, 32), torch.randn(32, 8)
    with FusionDefinition() as fd:
        product = fd.ops.matmul(fd.from_pytorch(a), fd.from_pytorch(b))
        fd.add_output(product)
        fd.add_output(product + 1.0)
    with torch.autocast("cpu", torch.bfloat16):
        found, one_more = check(fd, [a, b], target)
    torch.testing.assert_close(found, a @ b)
    torch.testing.assert_close(one_more, a @ b + 1.0)
