"""Where results of torch's operations are expected is where torch puts them: no copies follow."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.calls import torch_steps


def strided(*shape: int, order: tuple[int, ...]) -> torch.Tensor:
    """A tensor whose dimensions lie in `order`, the slowest first."""
    back = [order.index(dim) for dim in range(len(order))]
    return torch.randn([shape[dim] for dim in order]).permute(back)


ORDERS = {4: ((0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3)), 3: ((0, 1, 2), (1, 0, 2), (0, 2, 1))}


@pytest.fixture
def no_copies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The strides of results that were not where the plan expected them."""
    copied: list[tuple[int, ...]] = []
    lay_out = torch_steps.laid_out

    def watched(result: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
        made = lay_out(result, strides)
        if result.numel() and made.data_ptr() != result.data_ptr():
            copied.append(result.stride())
        return made

    monkeypatch.setattr(torch_steps, "laid_out", watched)
    return copied


def check(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
    for got, want in zip(fd.execute(inputs), interpret(fd.fusion, inputs), strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()


@pytest.mark.parametrize("query", ORDERS[4])
@pytest.mark.parametrize("key", ORDERS[4])
def test_attention_follows_its_operands(
    no_copies: list[tuple[int, ...]], query: tuple[int, ...], key: tuple[int, ...]
) -> None:
    inputs = [strided(2, 3, 5, 8, order=query), *(strided(2, 3, 7, 8, order=key) for _ in "kv")]
    with FusionDefinition() as fd:
        output, *_ = fd.ops.sdpfa_fwd(*(fd.from_pytorch(x) for x in inputs))
        fd.add_output(output)
        rows = fd.ops.reshape(fd.ops.permute(output, [0, 2, 1, 3]), [2, 5, 24])
        fd.add_output(rows)
        fd.add_output(fd.ops.exp(rows))
    check(fd, inputs)
    # The sums' logarithms are planned as a GPU gives them.
    assert all(len(strides) == 3 for strides in no_copies)
    if query == (0, 2, 1, 3):  # heads beside each other: the view is the attention's own memory
        (kernel,) = fd.plan(inputs).kernels
        assert kernel.operations[-1] == "exp"
        assert any("reshape" in alias.operations for alias in fd.plan(inputs).aliases)


@pytest.mark.parametrize("left", ORDERS[3])
@pytest.mark.parametrize("right", ORDERS[3])
def test_products_and_orders_lie_as_torch_lays_them(
    no_copies: list[tuple[int, ...]], left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    inputs = [strided(3, 4, 5, order=left), strided(3, 5, 6, order=right)]
    with FusionDefinition() as fd:
        a, b = (fd.from_pytorch(x) for x in inputs)
        product = fd.ops.matmul(a, b)
        values, places = fd.ops.topk(a, 2, dim=1)
        for made in (product, values, places, fd.ops.argsort(b, dim=2, stable=True)):
            fd.add_output(made)
        fd.add_output(fd.ops.exp(values))
    check(fd, inputs)
    assert not no_copies


def test_operands_that_are_views_are_not_copied() -> None:
    inputs = [torch.randn(4, 6, 5), torch.randn(30)]
    with FusionDefinition() as fd:
        x, flat = (fd.from_pytorch(t) for t in inputs)
        turned = fd.ops.permute(x, [0, 2, 1])
        wide = fd.ops.reshape(flat, [6, 5])
        fd.add_output(fd.ops.matmul(wide, turned))
        fd.add_output(fd.ops.linear(fd.ops.relu(x), fd.ops.slice(wide, [0, 0], [3, 5])))
    plan = fd.plan(inputs)
    assert [kernel.operations for kernel in plan.kernels] == [("relu",)]
    check(fd, inputs)


def test_a_lookup_is_charged_the_rows_it_reads() -> None:
    with FusionDefinition() as fd:
        index = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
        table = fd.define_tensor(shape=[-1, -1], contiguity=True)
        fd.add_output(fd.ops.embedding_fwd(index, table))

    def read(rows: int, lookups: int) -> int:
        given = [torch.zeros(lookups, dtype=torch.int64), torch.randn(rows, 8)]
        (step,) = fd.plan(given).externs
        return step.bytes_read

    assert read(1000, 3) == 3 * 8 + 3 * 8 * 4
    assert read(2, 5) == 5 * 8 + 2 * 8 * 4


def test_each_result_has_a_layout_of_its_own() -> None:
    """The first result's order of dimensions was once taken for all."""
    x = torch.randn(2, 5, 3, 8).transpose(1, 2)
    with FusionDefinition() as fd:
        given: Handle = fd.from_pytorch(x)
        output, logsumexp, _, _ = fd.ops.sdpfa_fwd(given, given, given)
        fd.add_output(fd.ops.permute(fd.ops.exp(logsumexp), [1, 0, 2]))
        fd.add_output(output)
    shares, _ = fd.execute([x])
    assert shares.stride() == (5, 15, 1)
