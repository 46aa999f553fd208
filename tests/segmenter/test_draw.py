"""The picture shows every operation where it is computed, and what is no kernel looks different."""

from __future__ import annotations

import dataclasses
import re
import stat
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.ir.nodes import Fusion, Output
from fuser.ir.printer import operation_name
from fuser.segmenter import AliasStep, ExternStep, Segment, SegmentedFusion, draw
from fuser.segmenter.draw import render
from fuser.segmenter.picture import Look, Picture, colour_of, picture_of
from fuser.segmenter.traffic import byte_count
from tests.seeds import gelu, transpose
from tests.segmented import segment_for

drawing = sys.modules["fuser.segmenter.draw"]  # the package has the function of that name
SVG = "{http://www.w3.org/2000/svg}"


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def gelu_case() -> SegmentedFusion:
    return segmented(gelu, [meta(8192, 3072)])


def transpose_case() -> SegmentedFusion:
    return segmented(transpose, [meta(768, 128, 64)])


def matmul_case() -> SegmentedFusion:
    def build(fd: FusionDefinition) -> None:
        x, weight, bias = map(fd.from_pytorch, inputs)
        made = fd.ops.matmul(fd.ops.add(x, bias), fd.ops.permute(weight, [1, 0]))
        fd.add_output(fd.ops.reshape(fd.ops.mul(made, fd.ops.sigmoid(made)), [8 * 128 * 3072]))
        fd.add_output(fd.ops.permute(made, [0, 2, 1]))

    inputs = [meta(8, 128, 768), meta(3072, 768), meta(768)]
    return segmented(build, inputs)


def cross_entropy_case() -> SegmentedFusion:
    def build(fd: FusionDefinition) -> None:
        logits, target = map(fd.from_pytorch, inputs)
        shifted = fd.ops.sub(logits, fd.ops.max(logits, [1], keepdim=True))
        total = fd.ops.sum(fd.ops.exp(shifted), [1], keepdim=True)
        logarithms = fd.ops.sub(shifted, fd.ops.log(total))
        kept = fd.ops.ne(target, -100)
        index = fd.ops.broadcast(fd.ops.where(kept, target, 0), [False, True])
        losses = fd.ops.neg(fd.ops.squeeze(fd.ops.gather(logarithms, index, 1), [1]))
        count = fd.ops.cast(fd.ops.sum(kept), DataType.Float)
        loss = fd.ops.sum(fd.ops.where(kept, losses, 0.0))
        for output in (fd.ops.truediv(loss, count), logarithms, target):
            fd.add_output(output)

    inputs = [meta(512, 32768), meta(512, dtype=torch.int64)]
    return segmented(build, inputs)


def segmented(
    build: Callable[[FusionDefinition], None], inputs: list[torch.Tensor]
) -> SegmentedFusion:
    with FusionDefinition() as fd:
        build(fd)
    return segment_for(fd.fusion, inputs)


CASES = {
    "gelu": gelu_case,
    "transpose": transpose_case,
    "matmul": matmul_case,
    "cross entropy": cross_entropy_case,
}
all_cases = pytest.mark.parametrize("made", CASES.values(), ids=CASES.keys())


def labels(found: SegmentedFusion) -> set[str]:
    """What every operation and kernel is called in a picture."""
    found_names: set[str] = set()
    for step in found.steps:
        if isinstance(step, AliasStep):
            found_names.update(f"{step.output} = {name}" for name in step.operations[-1:])
            continue
        for statement in step.fusion.statements:
            if statement.outs[0].is_tensor:
                outs = ", ".join(map(str, statement.outs))
                found_names.add(f"{outs} = {operation_name(statement.op)}")
    return found_names


def svg_of(picture: Picture) -> ElementTree.Element:
    matplotlib_drawing = pytest.importorskip("fuser.segmenter.draw_matplotlib")
    return ElementTree.fromstring(matplotlib_drawing.svg(picture))


def texts(svg: ElementTree.Element) -> list[str]:
    return ["".join(found.itertext()).strip() for found in svg.iter(f"{SVG}text")]


def style(svg: ElementTree.Element, name: str) -> dict[str, str]:
    """The style of the node of that name."""
    (group,) = (found for found in svg.iter(f"{SVG}g") if found.get("id") == name)
    parts = (group[0].get("style") or "").split(";")
    return {key.strip(): value.strip() for key, value in (part.split(":") for part in parts)}


# -- what is in the picture ------------------------------------------------------------------------


@all_cases
def test_the_svg_has_every_operation_kernel_and_tensor(made):
    found = made()
    written = texts(svg_of(picture_of(found)))
    assert labels(found) <= set(written)
    for kernel in found.segments:
        read, stored = byte_count(kernel.bytes_read), byte_count(kernel.bytes_written)
        assert f"{kernel.name}: reads {read}, writes {stored}" in written
    for value in (*found.fusion.inputs, *found.fusion.output_values):
        assert f"{value}" in written
        assert f"{value.type}" in written


@all_cases
def test_the_dot_text_has_every_operation_kernel_and_tensor(made):
    found = made()
    text = draw(found)
    assert all(f'label="{label}"' in text for label in labels(found))
    assert all(f"{kernel.name}: reads" in text for kernel in found.segments)
    head, *statements, tail, _ = text.split("\n")
    assert (head, tail) == ("digraph segmented_fusion {", "}")
    node, attributes = r"\w+", r'\[(\w+=("[^"]*"|[\w.#]+|<.*>)(, )?)+\]'
    for statement in statements:
        assert re.fullmatch(rf"  {node}( -> {node})? {attributes};", statement), statement


@all_cases
def test_each_operation_has_the_colour_of_its_kernel(made):
    found = made()
    picture = picture_of(found)
    svg = svg_of(picture)
    colours = {
        kernel.name: {
            style(svg, node.name)["fill"] for node in picture.nodes if node.group == kernel.name
        }
        for kernel in found.segments
    }
    assert all(len(own) == 1 for own in colours.values())
    assert len(set.union(*colours.values())) == len(found.segments)


def test_many_kernels_have_different_colours():
    assert len({colour_of(number) for number in range(200)}) == 200


@all_cases
def test_metadata_outside_kernels_is_dashed_and_nothing_else(made):
    picture = picture_of(made())
    svg = svg_of(picture)
    for node in picture.nodes:
        assert ("stroke-dasharray" in style(svg, node.name)) is (node.look is Look.HOST)
        (line,) = (s for s in draw(made()).splitlines() if s.startswith(f"  {node.name} ["))
        assert ("dashed" in line) is (node.look is Look.HOST)


def test_the_bookends_of_the_gelu_are_on_the_host():
    # T0 -> view -> [mul, mul, erf, add, mul] -> view
    picture = picture_of(gelu_case())
    looks = {node.label[0]: node.look for node in picture.nodes}
    assert looks["T1 = reshape"] is looks["T10 = reshape"] is Look.HOST
    assert looks["T6 = erf"] is Look.KERNEL


def test_torch_calls_have_a_shape_of_their_own():
    found = matmul_case()
    assert any(isinstance(step, ExternStep) for step in found.steps)
    (node,) = (node for node in picture_of(found).nodes if node.look is Look.TORCH)
    assert node.label == ("T5 = matmul",)
    assert f'{node.name} [label="T5 = matmul", shape=hexagon' in draw(found)
    assert "run by torch" in draw(found)


def test_edges_say_how_many_bytes_the_tensor_has():
    picture = picture_of(matmul_case())
    by_value = {edge.value: edge.label for edge in picture.edges}
    assert by_value["T0"] == byte_count(8 * 128 * 768 * 4) == "3.1 MB"
    assert by_value["T2"] == "3.1 kB"


def test_edges_inside_a_kernel_are_told_from_those_through_memory():
    picture = picture_of(gelu_case())
    kernels = {node.name for node in picture.nodes if node.look is Look.KERNEL}
    inside = [edge for edge in picture.edges if {edge.source, edge.target} <= kernels]
    through = [edge for edge in picture.edges if edge not in inside]
    assert inside
    assert through
    assert all(edge.in_registers for edge in inside)
    assert not any(edge.in_registers for edge in through)


def test_an_operation_that_two_kernels_repeat_is_drawn_in_both():
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.neg(fd.from_pytorch(meta(64, 64)))
        fd.add_output(fd.ops.exp(y))
        fd.add_output(fd.ops.sin(y))

    found = segmented(build, [meta(64, 64)])
    neg, *others = found.fusion.statements
    kernels = [
        Segment(
            f"kernel{number}",
            Fusion(found.fusion.inputs, (neg, other), (Output(other.out),)),
            found.memory,
            "",
            found.segments[0].atoms,
            None,
        )
        for number, other in enumerate(others)
    ]
    picture = picture_of(dataclasses.replace(found, steps=tuple(kernels)))
    drawn = {node.name for node in picture.nodes if node.label == ("T1 = neg",)}
    assert drawn == {"kernel0_T1", "kernel1_T1"}
    assert all(edge.in_registers for edge in picture.edges if edge.value == "T1")


def test_an_update_says_which_input_it_is_written_into():
    def build(fd: FusionDefinition) -> None:
        x = fd.from_pytorch(meta(64, 64))
        fd.add_output(fd.ops.exp(x), alias_input=x)

    picture = picture_of(segmented(build, [meta(64, 64)]))
    (output,) = (node for node in picture.nodes if node.look is Look.OUTPUT)
    assert output.label == ("T1 into T0", "Float[64, 64]")


def test_an_empty_fusion_is_an_empty_picture():
    x = meta(4)
    found = segmented(lambda fd: fd.add_output(fd.from_pytorch(x)), [x])
    assert [node.name for node in picture_of(found).nodes] == ["T0", "out_T0"]
    assert "T0 -> out_T0" in draw(found)


# -- which drawing it becomes ----------------------------------------------------------------------


@all_cases
def test_the_text_is_the_same_every_time(made, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert draw(made()) == draw(made())
    assert render(made()) == render(made())


def test_graphviz_draws_it_where_it_is_installed(monkeypatch, tmp_path):
    fake_dot(tmp_path, '#!/bin/sh\nread first\necho "<svg>$1 $first</svg>"\n')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert render(gelu_case()) == ("<svg>-Tsvg digraph segmented_fusion {</svg>\n", ".svg")


def test_a_graphviz_that_fails_is_not_the_end(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    fake_dot(tmp_path, "#!/bin/sh\necho cannot >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    text, suffix = render(gelu_case())
    assert suffix == ".svg"
    assert "T6 = erf" in text


def test_without_anything_installed_it_is_dot_text(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(drawing, "_HAS_MATPLOTLIB", False)
    found = gelu_case()
    assert render(found) == (draw(found), ".dot")


def test_a_picture_that_nobody_could_read_is_dot_text(monkeypatch):
    monkeypatch.setattr(drawing, "LARGEST", 5)
    found = gelu_case()
    assert render(found) == (draw(found), ".dot")


def fake_dot(folder: Path, script: str) -> None:
    path = folder / "dot"
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
