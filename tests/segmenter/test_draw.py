"""The picture shows every operation where it is computed, and what is no kernel looks different."""

from __future__ import annotations

import dataclasses
import re

from fuser import FusionDefinition
from fuser.ir.nodes import Fusion, Output
from fuser.segmenter import ExternStep, Segment, draw_svg
from fuser.segmenter.draw import dot_text, render
from fuser.segmenter.draw_svg import svg_file
from fuser.segmenter.picture import Look, colour_of, picture_of
from fuser.segmenter.traffic import byte_count
from tests.segmenter.drawn import all_cases, gelu_case, labels, matmul_case, meta, segmented

# -- what is in the picture ------------------------------------------------------------------------


@all_cases
def test_the_dot_text_has_every_operation_kernel_and_tensor(made):
    found = made()
    text = dot_text(picture_of(found))
    assert all(f'label="{label}"' in text for label in labels(found))
    assert all(f"{kernel.name}: reads" in text for kernel in found.segments)
    head, *statements, tail, _ = text.split("\n")
    assert (head, tail) == ("digraph segmented_fusion {", "}")
    node, attributes = r"\w+", r'\[(\w+=("[^"]*"|[\w.#]+|<.*>)(, )?)+\]'
    for statement in statements:
        assert re.fullmatch(rf"  {node}( -> {node})? {attributes};", statement), statement


def test_many_kernels_have_different_colours():
    assert len({colour_of(number) for number in range(200)}) == 200


@all_cases
def test_metadata_outside_kernels_is_dashed_and_nothing_else(made):
    text = dot_text(picture_of(made()))
    for node in picture_of(made()).nodes:
        (line,) = (s for s in text.splitlines() if s.startswith(f"  {node.name} ["))
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
    assert f'{node.name} [label="T5 = matmul", shape=hexagon' in dot_text(picture_of(found))
    assert "run by torch" in dot_text(picture_of(found))


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
    assert "T0 -> out_T0" in dot_text(picture_of(found))


# -- which drawing it becomes ----------------------------------------------------------------------


@all_cases
def test_the_text_is_the_same_every_time(made):
    assert dot_text(picture_of(made())) == dot_text(picture_of(made()))
    assert render(made()) == render(made())


@all_cases
def test_it_is_svg(made):
    found = made()
    assert render(found) == (svg_file(picture_of(found)), ".svg")


def test_a_picture_that_nobody_could_read_is_dot_text(monkeypatch):
    monkeypatch.setattr(draw_svg, "MOST", 5)
    found = gelu_case()
    assert render(found) == (dot_text(picture_of(found)), ".dot")
