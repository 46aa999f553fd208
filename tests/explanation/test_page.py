"""The page is well-formed, holds every kernel, and shows hostile names as text."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
import torch

import fuser
from fuser import FusionDefinition
from fuser.explanation import Break, Coverage, Graph, Partition, Report
from fuser.integrations.partitions.coverage import Uncovered
from fuser.segmenter import draw_svg, picture_of

HOSTILE = "</code><script>alert('1')</script>&amp;\"' onload=\"x"
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Checks that tags nest, and keeps ids, text by tag, and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.whole: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), "an attribute is given twice"
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"}.intersection(self.open):
            self.whole.append(data)
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def of(self, name: str) -> list[str]:
        return [a[name] or "" for _, a in self.attributes if name in a]


@pytest.fixture(scope="module")
def report() -> Report:
    torch._dynamo.reset()

    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (x @ w).softmax(0).softmax(1)
        return y.sort()[0] * 2

    x, w = torch.randn(8, 16), torch.randn(16, 32, requires_grad=True)
    return fuser.explain(model, x, w)


def test_tags_nest_and_ids_are_unique(report: Report) -> None:
    page = Page(report.html)
    assert not [i for i, times in Counter(page.of("id")).items() if times > 1]
    ids = set(page.of("id"))
    steps = page.of("data-step")
    assert steps
    assert ids.issuperset(steps)
    assert ids.issuperset(target.removeprefix("#") for target in page.of("href"))


def test_every_kernel_is_there_with_its_code_and_reasons(report: Report) -> None:
    text = "".join(Page(report.html).whole)
    kernels = [kernel for graph in report.graphs for kernel in graph.kernels]
    assert len(kernels) > 3
    for kernel in kernels:
        assert kernel.kernel_source is not None
        start = kernel.kernel_source.code.index(f"{kernel.name}(")
        assert kernel.kernel_source.code[start:] in text
        assert kernel.kernel_source.header in text
        assert all(reason in text for reason in kernel.reason.split("; "))
    for graph in report.graphs:
        for part in graph.partitions:
            assert part.definition in text
            assert part.plan is not None
            assert all(boundary in text for boundary in part.plan.boundaries)
    assert "aten.sort.default" in text


def test_each_node_is_named_and_belongs_to_its_kernel(report: Report) -> None:
    page = Page(report.html)
    nodes = [a for tag, a in page.attributes if "node" in (a.get("class") or "").split()]
    drawn = sum(
        len(picture_of(part.plan.segmented).nodes)
        for graph in report.graphs
        for part in graph.partitions
        if part.plan is not None
    )
    assert len(nodes) == drawn
    assert all(node["aria-label"] for node in nodes)
    first = [node for node in nodes if node["tabindex"] == "0"]
    assert len(first) == sum(len(graph.partitions) for graph in report.graphs)
    kernels = [node for node in nodes if "kernel" in (node["class"] or "").split()]
    assert kernels
    assert all(node["data-step"] and node["role"] == "button" for node in kernels)


def test_nothing_is_loaded_from_elsewhere(report: Report) -> None:
    page = Page(report.html)
    assert not page.of("src")
    assert all(target.startswith("#") for target in page.of("href"))
    assert not re.findall(r"@import|url\(|https?://(?!www\.w3\.org)", report.html)


def test_hostile_names_are_text() -> None:
    missed = Uncovered(HOSTILE, 2, HOSTILE)
    part = Partition(HOSTILE, HOSTILE, None, HOSTILE)
    graph = Graph(HOSTILE, Coverage(2, 0, 0, (missed,)), (part,))
    page = Page(Report(HOSTILE, (graph,), (Break(HOSTILE, HOSTILE),), (HOSTILE,)).html)
    assert "".join(page.whole).count(HOSTILE) >= 10
    assert sum(tag == "script" for tag, _ in page.attributes) == 1
    assert not page.of("onload")


def test_a_report_of_nothing_is_a_page() -> None:
    assert "nothing here" in "".join(Page(Report("empty", (), (), ("nothing here",)).html).whole)


def test_torch_calls_and_aliases_are_steps() -> None:
    x = torch.randn(8, 8)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        product = fd.ops.matmul(t * 2.0, t)
        fd.add_output(product)
        fd.add_output(fd.ops.permute(product, dims=[1, 0]))
    page = Page(fuser.explain(fd, x).html)
    classes = page.of("class")
    for kind in ("step kernel", "step extern", "step alias", "node torch"):
        assert kind in classes
    (node,) = [a for _, a in page.attributes if a.get("class") == "node torch"]
    (step,) = [a for _, a in page.attributes if a.get("class") == "step extern"]
    assert node["data-step"] == step["id"]


def test_updated_inputs_are_no_reason_for_several_kernels() -> None:
    x = torch.randn(4, 8)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        once = t - fd.ops.sum(t, dims=[0], keepdim=True)
        twice = once - fd.ops.sum(once, dims=[1], keepdim=True)
        fd.add_output(t + twice, alias_input=t)
        fd.add_output(twice)
    plan = fd.plan([x])
    text = "".join(Page(fuser.explain(fd, x).html).whole)
    assert "Why this is not one kernel" + "".join(plan.boundaries) + "Inputs that" in text
    assert "Inputs that are updated" + "".join(plan.updates) in text
    assert plan.boundaries
    assert plan.updates


def test_a_graph_that_is_too_large_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_svg, "MOST", 2)
    x = torch.randn(8)
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x) * 2.0)
    html = fuser.explain(fd, x).html
    assert "too many nodes to be drawn" in html
    assert "<svg" not in html
