"""Products that oneDNN makes: which they are, and that they are torch's numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import Graph, Node

from fuser.integrations import dynamo
from fuser.integrations.outer import product_library
from fuser.integrations.outer.product_library import (
    LEAST_RIGHT,
    LEAST_WORK,
    OneDnnProduct,
    runs_in_onednn,
)
from fuser.integrations.outer.products import product_of
from fuser.runtime.cpu import processor
from tests.integrations.graphs import one_node

aten: Any = torch.ops.aten
pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN"
)
M, K, N = 96, 256, 2080
assert M * K * N >= LEAST_WORK
assert K * N >= LEAST_RIGHT


@pytest.fixture(autouse=True)
def measured_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where it was measured."""
    monkeypatch.setattr(product_library, "is_amd_with_avx512", lambda: True)


def sized(*shape: int, turned: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of which only the sizes matter; `turned`: its columns lie one after the other."""
    made = torch.empty(shape[::-1] if turned else shape, dtype=dtype)
    return made.t() if turned else made


def product(*operands: torch.Tensor, target: Any = aten.mm.default, **scales: float) -> Node:
    graph = Graph()
    nodes: list[Node] = []
    for operand in operands:
        nodes.append(graph.placeholder(f"x{len(nodes)}"))
        nodes[-1].meta["val"] = operand
    return graph.call_function(target, tuple(nodes), dict(scales))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sized(M, K), sized(K, N, turned=True)),
        (sized(M, K), sized(K, N)),
        (sized(M, K, turned=True), sized(K, N)),
        (sized(M, K + 8)[:, :K], sized(K, N)),
        (sized(4, 30522), sized(30522, 512, turned=True)),
        (sized(4, 768), sized(768, 768)),
    ],
)
def test_products_that_onednn_makes(left: torch.Tensor, right: torch.Tensor) -> None:
    assert runs_in_onednn(product(left, right))
    bias = sized(right.shape[1])
    assert runs_in_onednn(product(bias, left, right, target=aten.addmm.default))


@pytest.mark.parametrize(
    "node",
    [
        product(sized(3, 768), sized(768, 768)),  # few rows
        product(sized(1, 2048), sized(2048, 2048)),  # one row
        product(sized(4096, 512), sized(512, 1023)),  # a small right operand
        product(sized(4, 30522), sized(30522, 512)),  # long sums of rows
        product(sized(96, 4096, turned=True), sized(4096, 2048)),  # long columns
        product(sized(30522, 512, turned=True), sized(512, 2048)),  # many columns
        product(sized(96, 512, turned=True), sized(512, 1024)),  # a narrow product
        product(sized(2 * M, K)[::2, ::2], sized(K // 2, 2 * N)),  # neither rows nor columns
        product(*(sized(*s, dtype=torch.float64) for s in ((M, K), (K, N)))),
        product(*(sized(*s, dtype=torch.bfloat16) for s in ((M, K), (K, N)))),
        product(sized(2, M, K), sized(2, K, N), target=aten.bmm.default),
        product(sized(M, N), sized(M, K), sized(K, N), target=aten.addmm.default),
        product(sized(N), sized(M, K), sized(K, N), target=aten.addmm.default, beta=0.5),
    ],
)
def test_products_that_stay_torchs(node: Node) -> None:
    assert not runs_in_onednn(node)


def test_other_processors_keep_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_library, "is_amd_with_avx512", lambda: False)
    assert not runs_in_onednn(product(sized(M, K), sized(K, N)))


def test_where_torch_may_round_products_they_are_its_own() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert not runs_in_onednn(product(sized(M, K), sized(K, N)))
    finally:
        torch.set_float32_matmul_precision(before)


def test_where_onednn_is_off_they_are_torchs() -> None:
    torch._C._set_mkldnn_enabled(False)  # pyright: ignore
    try:
        assert not runs_in_onednn(product(sized(M, K), sized(K, N)))
    finally:
        torch._C._set_mkldnn_enabled(True)  # pyright: ignore


OPERANDS = {
    "rows": torch.randn,
    "columns": lambda m, n: torch.randn(n, m).t(),
    "rows apart": lambda m, n: torch.randn(m, n + 5)[:, :n],
    "rows that begin anywhere": lambda m, n: torch.randn(m * n + 3)[3:].view(m, n),
}


@pytest.mark.alone
@pytest.mark.parametrize("left", OPERANDS)
@pytest.mark.parametrize("right", OPERANDS)
@pytest.mark.parametrize("biased", [False, True])
def test_the_numbers_are_torchs(left: str, right: str, biased: bool) -> None:
    given = [OPERANDS[left](M, K), OPERANDS[right](K, N)]
    target = aten.addmm.default if biased else aten.mm.default
    if biased:
        given.insert(0, torch.randn(N))
    _, node = one_node(target, given, {})
    run = product_of(node, onednn=True)
    assert isinstance(run, OneDnnProduct)
    with torch.no_grad():
        made = run(*given)
    assert made.is_contiguous()
    torch.testing.assert_close(made, target(*given), rtol=1e-4, atol=1e-4)


BIASES = {
    "apart": lambda: torch.randn(3 * N)[::3],
    "expanded": lambda: torch.randn(1).expand(N),
    "one number": lambda: torch.randn(1),
    "of each element": lambda: torch.randn(M, N),
}


@pytest.mark.parametrize("bias", BIASES)
def test_a_bias_that_onednn_would_misread_stays_torchs(bias: str) -> None:
    given = [BIASES[bias](), torch.randn(M, K), torch.randn(K, N)]
    assert not runs_in_onednn(product(*given, target=aten.addmm.default))
    torch.compiler.reset()
    compiled = torch.compile(aten.addmm.default, backend="fuser")
    with torch.no_grad():
        torch.testing.assert_close(compiled(*given), aten.addmm(*given), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("turned", [False, True])
def test_operands_that_overlap_stay_torchs(turned: bool) -> None:
    right = torch.randn(N + K).as_strided((N, K) if turned else (K, N), (1, 1))
    right = right.t() if turned else right
    assert not runs_in_onednn(product(torch.randn(M, K), right))


def test_one_row_of_open_sizes_is_torchs() -> None:
    _, node = one_node(aten.mm.default, [torch.randn(M, 2048), torch.randn(2048, 2048)], {})
    left, right = torch.randn(1, 2048), torch.randn(2048, 2048)
    with torch.no_grad():
        assert torch.equal(product_of(node, onednn=True)(left, right), left @ right)


def test_rows_of_whole_lines_are_torchs() -> None:
    _, node = one_node(aten.mm.default, [torch.randn(M, K), torch.randn(K, N)], {})
    node.meta["val"] = torch.empty(M, N + 16)[:, :N]
    assert not isinstance(product_of(node, onednn=True), OneDnnProduct)


def test_a_call_that_turns_out_small_is_torchs() -> None:
    _, node = one_node(aten.mm.default, [torch.randn(M, K), torch.randn(K, N)], {})
    left, right = torch.randn(2, K), torch.randn(K, N)
    with torch.no_grad():
        assert torch.equal(product_of(node, onednn=True)(left, right), left @ right)


def test_what_autograd_watches_is_torchs() -> None:
    left, right = torch.randn(M, K, requires_grad=True), torch.randn(K, N)
    _, node = one_node(aten.mm.default, [left.detach(), right], {})
    assert product_of(node, onednn=True)(left, right).grad_fn is not None


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("products", ["fastest", "torch"])
def test_a_compiled_layer_trains_as_in_torch(
    dynamic: bool, products: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    call = OneDnnProduct.__call__

    def counted(product: OneDnnProduct, *given: torch.Tensor) -> torch.Tensor:
        calls.append(len(given))
        return call(product, *given)

    monkeypatch.setattr(OneDnnProduct, "__call__", counted)
    torch.compiler.reset()
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(K, N), torch.nn.GELU(), torch.nn.Linear(N, 777))

    def run(x: torch.Tensor) -> torch.Tensor:
        return layer(x).log_softmax(-1).square().mean()

    dynamo.clear_reports()
    options = {"products": products}
    compiled = torch.compile(run, backend="fuser", dynamic=dynamic, options=options)  # pyright: ignore
    for rows in (M, M + 1, 3):
        x = torch.randn(rows, K, requires_grad=True)
        found: list[list[torch.Tensor]] = []
        for step in (compiled, run):
            step(x).backward()
            gradients = [x.grad, *(parameter.grad for parameter in layer.parameters())]
            found.append([gradient for gradient in gradients if gradient is not None])
            x.grad = None
            layer.zero_grad()
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), run(x), rtol=1e-4, atol=1e-6)
    assert all(not report.failed for report in dynamo.reports())
    assert bool(calls) is (products == "fastest")


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("x86_64\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2 avx512f avx512dq", True),
        ("x86_64\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2", False),
        ("x86_64\nvendor_id\t: GenuineIntel\nflags\t\t: fpu avx512f", False),
        ("arm64 arm host", False),
    ],
)
def test_the_processor_is_known_by_what_the_system_says(
    said: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "processor", lambda: said)
    assert processor.is_amd_with_avx512.__wrapped__() is known
