"""What the report of a model, a function and a definition says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import fuser
from fuser import FusionDefinition
from fuser.errors import ArgumentTypeError, BackendOptionError, CallError, PageError, TargetError
from fuser.integrations import dynamo


def softmaxed(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).softmax(-1)


def test_a_training_step_is_a_forward_and_a_backward() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8))
    report = fuser.explain(model, torch.randn(4, 8))
    forward, backward = report.graphs
    assert (forward.name, backward.name) == ("graph 0 forward", "graph 0 backward")
    assert forward.coverage is not None
    assert forward.coverage.percent == 100
    assert forward.coverage.products == 1
    assert [kernel.scheduler for kernel in forward.kernels] == ["rows"]
    text = str(report)
    for words in (
        "graph 0 forward: ",
        "1 product by torch",
        "fd.ops.var_mean(",
        "inputs: T0: Float[8], strides [1]",
        "plan for cpu",
        "is an output",
        f"kernel {forward.kernels[0].name}, on one thread: reads ",
        "cpu rows, lanes along rows",
        "the least there is",
        "each operation alone would move",
        "total: 2 graphs, 2 partitions, ",
    ):
        assert words in text, words
    assert max(map(len, text.splitlines())) < 160


def test_without_a_backward_there_is_one_graph() -> None:
    x = torch.randn(4, 8, requires_grad=True)
    assert [g.name for g in fuser.explain(softmaxed, x, backward=False).graphs] == [
        "graph 0 inference"
    ]
    report = fuser.explain(softmaxed, x.detach())
    assert [g.name for g in report.graphs] == ["graph 0 inference"]
    assert "note: no backward was run, since nothing in the result requires a gradient" in " ".join(
        str(report).split()
    )


def test_the_loss_is_found_in_what_a_model_returns() -> None:
    def model(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": x.square().mean(), "logits": x.exp()}

    report = fuser.explain(model, torch.randn(4, requires_grad=True))
    assert [graph.name for graph in report.graphs] == ["graph 0 forward", "graph 0 backward"]


def test_what_torch_computes_is_named_with_its_reason() -> None:
    report = fuser.explain(lambda x: x.exp().sort()[0] * 2, torch.randn(4))
    assert "torch: 1 x aten.sort.default: fuser has no definition for it" in str(report)
    coverage = report.graphs[0].coverage
    assert coverage is not None
    assert [missed.overload for missed in coverage.uncovered] == ["aten.sort.default"]


def test_breaks_are_listed_with_their_places() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        torch._dynamo.graph_break()
        return y * 2

    before = len(torch._dynamo.utils.graph_break_reasons)
    report = fuser.explain(broken, torch.randn(4))
    assert len(report.graphs) == 2
    (found,) = report.breaks
    assert Path(__file__).name in found.place
    assert found.place.endswith("in broken")
    assert "graph_break" in found.reason
    assert "1 graph break:" in str(report)
    assert len(torch._dynamo.utils.graph_break_reasons) == before


def test_merges_of_a_kernel_name_its_own_operations_only() -> None:
    def two_reductions(x: torch.Tensor) -> torch.Tensor:
        return ((x - x.mean(-1, keepdim=True)).exp()).softmax(0)

    (part,) = fuser.explain(two_reductions, torch.randn(64, 32)).graphs[0].partitions
    assert part.plan is not None
    assert len(part.kernels) > 1
    merges = [part.merges(number) for number in range(len(part.kernels))]
    for own, segment in zip(merges, part.plan.segmented.segments, strict=True):
        made = {str(out) for s in segment.fusion.statements for out in s.outs}
        named = {word.strip("[,").partition("=")[0] for line in own for word in line.split("[")}
        assert {name for name in named if name.startswith("T")} <= made
    taken = {line for line in part.plan.log if line.startswith("merge taken")}
    assert taken == {line for own in merges for line in own}
    assert "decisions besides:\n" in (
        text := str(fuser.explain(two_reductions, torch.randn(64, 32)))
    )
    assert "merge refused: " in text


def test_a_kernel_says_why_it_is_not_mapped_otherwise() -> None:
    report = fuser.explain(softmaxed, torch.randn(64, 32))
    (kernel,) = report.graphs[0].kernels
    assert kernel.not_chosen[0] == "not a row a lane: a row has 32 elements, more than 15"
    assert "not a row a lane: a row has 32 elements" in str(report)
    assert "a row has 32 elements, more than 15" in report.html


def test_a_compiled_model_is_explained_as_the_model_it_was_made_of() -> None:
    x = torch.randn(4)
    plain = str(fuser.explain(softmaxed, x))
    assert str(fuser.explain(torch.compile(softmaxed, backend="eager"), x)) == plain
    module = nn.Softmax(-1)
    module.compile(backend="eager")
    assert len(fuser.explain(module, x).graphs) == 1
    assert module._compiled_call_impl is not None


def test_a_definition_is_explained_without_being_run() -> None:
    x = torch.randn(8, 16)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(t * 2.0, dims=[-1]))
    report = fuser.explain(fd, [x])
    assert str(report) == str(fuser.explain(fd, x))
    (graph,) = report.graphs
    assert graph.coverage is None
    (kernel,) = graph.kernels
    assert kernel.bytes_read == x.nbytes
    assert "definition: a FusionDefinition with 1 plan" in str(report)
    meta = torch.empty(8, 16, device="meta")
    assert "plan for cuda:sm_90" in str(fuser.explain(fd, meta, target="cuda:sm_90"))


def test_what_cuda_would_get_needs_no_gpu() -> None:
    report = fuser.explain(softmaxed, torch.randn(64, 128), target="cuda:sm_90")
    (kernel,) = report.graphs[0].kernels
    assert "__global__" in kernel.source
    assert kernel.kernel_source is not None
    grid, block = kernel.kernel_source.launch.grid, kernel.kernel_source.launch.block
    words = f"grid {grid[0]} x {grid[1]} x {grid[2]}, block {block[0]} x {block[1]} x {block[2]}"
    assert words in " ".join(str(report).split())


def turned(x: torch.Tensor) -> torch.Tensor:
    return (x.t() * 2).contiguous()


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x.exp() * 2


@pytest.mark.parametrize(
    ("function", "target", "words"),
    [
        (doubled, "cpu", "cpu pointwise, 1 loop(s), 1 piece(s)"),
        (turned, "cpu", "cpu pointwise, tiles of 16 x 64"),
        (doubled, "cuda:sm_90", "cuda rows, grid of 256 x 1, keeps T0 in registers"),
        (turned, "cuda:sm_90", "cuda pointwise, 4 lane(s), tiles of 64 x 64"),
        (softmaxed, "cuda:sm_90", "cuda rows, block of 256 x 1, keeps T0, T5 in registers"),
    ],
)
def test_how_a_kernel_is_mapped_is_said(
    function: Callable[[torch.Tensor], torch.Tensor], target: str, words: str
) -> None:
    report = fuser.explain(function, torch.randn(512, 4096), target=target)
    assert words in " ".join(str(report).split())
    assert "Parameters(" not in str(report)


def test_sizes_that_were_compiled_before_leave_none_open() -> None:
    compiled = torch.compile(softmaxed, backend="eager")
    for size in (4, 5):
        compiled(torch.randn(size))
    assert "Float[6]" in str(fuser.explain(softmaxed, torch.randn(6)))


def test_nothing_to_compile_is_said() -> None:
    report = fuser.explain(lambda: 1)
    assert report.graphs == ()
    assert "note: nothing was compiled" in str(report)


def test_mistakes_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="model must be a module, a function"):
        fuser.explain(3)  # pyright: ignore
    with pytest.raises(ArgumentTypeError, match="got the class Linear"):
        fuser.explain(torch.nn.Linear, torch.randn(4))
    fuser.explain(torch.nn.Linear(4, 4), torch.randn(2, 4))
    with pytest.raises(BackendOptionError, match="colour"):
        fuser.explain(softmaxed, torch.randn(4), options={"colour": "red"})
    with pytest.raises(ZeroDivisionError):
        fuser.explain(lambda x: x * (1 // 0), torch.randn(4))
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1]) * 2.0)
    with pytest.raises(CallError, match=r"'foo'.* called as explain\(definition, \*inputs, html"):
        fuser.explain(fd, torch.ones(3), foo=3)
    with pytest.raises(ArgumentTypeError, match="html must be a str or Path of a file, got bool"):
        fuser.explain(softmaxed, torch.randn(4), html=True)  # pyright: ignore[reportArgumentType]


def test_a_page_without_a_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    def never_run(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError(x)

    page = tmp_path / "missing" / "page.html"
    with pytest.raises(PageError, match=r"page.html cannot be written: .*missing; make it") as e:
        fuser.explain(never_run, torch.randn(4), html=page)
    assert isinstance(e.value, OSError)
    with pytest.raises(PageError, match="it is a folder"):
        fuser.explain(never_run, torch.randn(4), html=str(tmp_path))


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(TargetError, match="abacus"):
        fuser.explain(softmaxed, torch.randn(4), target="abacus")


def test_reports_of_the_backend_are_left_alone() -> None:
    fuser.explain(softmaxed, torch.randn(4))
    assert dynamo.reports() == ()
