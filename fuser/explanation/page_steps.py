"""The steps of a plan for a page: each with its reasons, its tensors and its code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from fuser.explanation.highlight import highlighted
from fuser.explanation.model import Partition
from fuser.explanation.words import count, launch_words, tidy
from fuser.ir.nodes import Value
from fuser.markup import Markup, joined, tag
from fuser.runtime.plans.plan import AliasStep, ExternStep, KernelStep, Plan, Step, read_words
from fuser.segmenter import (
    Segment,
    byte_count,
    bytes_moved,
    colour_of,
    elements_read,
    elements_written,
)


def step_names(plan: Plan, prefix: str) -> list[str]:
    """The page's names of a plan's steps."""
    return [f"{prefix}-s{number}" for number in range(len(plan.steps))]


def steps_of(part: Partition, plan: Plan, prefix: str) -> Markup:
    """All steps in order, of which one is open at a time; of the first, the code is seen."""
    names = step_names(plan, prefix)
    segments = iter(range(len(plan.segmented.segments)))
    made: list[Markup] = []
    for name, step in zip(names, plan.steps, strict=True):
        number = next(segments) if isinstance(step, KernelStep) else None
        colour = None if number is None else f"--fill:{colour_of(number)}"
        body = _body(part, plan, step, number)
        moved = f"reads {read_words(step)}, writes {byte_count(step.bytes_written)}"
        summary = tag(
            "summary",
            tag("span", class_="swatch", aria_hidden="true"),
            tag("strong", step.name),
            tag("span", f"{step.kind}, {step.scheduler}", class_="kind"),
            tag("span", moved, class_="moved"),
        )
        attributes = {"class_": f"step {step.kind}", "style": colour, "open": name == names[0]}
        made.append(tag("details", summary, *body, id=name, name=f"{prefix}-steps", **attributes))
    return tag("div", *made, class_="steps")


def _body(part: Partition, plan: Plan, step: Step, number: int | None) -> list[Markup]:
    operations = tag("p", tag("b", "Operations: "), ", ".join(step.operations) or "none")
    match step:
        case KernelStep():
            assert number is not None
            segment, merges = plan.segmented.segments[number], part.merges(number)
            return [
                operations,
                _reasons(step.reason),
                _launch(step),
                _tensors(segment),
                _closed(f"Why its operations are together: {count(len(merges), 'merge')}", merges),
                *_code(step),
            ]
        case AliasStep() | ExternStep():
            return [operations, tag("p", step.reason)]
        case _:
            assert_never(step)


def _reasons(reason: str) -> Markup:
    words = [tag("li", each) for each in reason.split("; ") if each]
    return joined(tag("h4", "Ends here because"), tag("ul", *words)) if words else Markup()


def _launch(kernel: KernelStep) -> Markup:
    mapping = tag("p", kernel.mapping, class_="fine") if kernel.mapping else None
    others = _closed("Why not another mapping", kernel.not_chosen)
    return joined(tag("h4", "Launch"), tag("p", launch_words(kernel)), mapping, others)


def _tensors(segment: Segment) -> Markup:
    """What a kernel reads and writes, a row for each tensor."""
    reads, writes = elements_read(segment.fusion), elements_written(segment.fusion)
    rows = [_tensor(segment, value, "read", reads.get(value, 0)) for value in segment.loads]
    rows += [_tensor(segment, value, "written", writes[value]) for value in segment.stores]
    head = tag("tr", *(tag("th", word, scope="col") for word in _HEAD))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return joined(tag("h4", "Memory"), tag("div", table, class_="wide"))


_HEAD = ("tensor", "", "dtype and shape", "strides", "bytes")


def _tensor(segment: Segment, value: Value, way: str, elements: int) -> Markup:
    lies = segment.memory[value]
    base = "" if lies.base is value else f" in {lies.base}"
    size = byte_count(bytes_moved({value: elements}, segment.memory))
    cells = (f"{value}{base}", way, f"{value.type}", f"{list(lies.strides)}", size)
    return tag("tr", *(tag("td", cell) for cell in cells))


def _closed(summary: str, lines: Sequence[str]) -> Markup:
    """A list that is closed at first; nothing if it is empty."""
    if not lines:
        return Markup()
    items = [tag("li", tidy(line)) for line in lines]
    return tag("details", tag("summary", summary), tag("ul", *items, class_="log"))


def _code(kernel: KernelStep) -> list[Markup]:
    """The kernel; before it, closed at first, the library that its text begins with."""
    if kernel.kernel_source is None:
        return [tag("h4", "Operations that torch runs"), code_block(kernel.definition)]
    source = kernel.kernel_source
    found = re.search(rf'^extern "C"[^;{{]*\b{re.escape(source.name)}\b', source.code, re.MULTILINE)
    start = 0 if found is None else found.start()
    library, own = source.code[:start], source.code[start:]
    made = [tag("h4", "Code"), code_block(source.header), code_block(own)]
    if library.strip():
        words = f"The library before it: {count(library.count(chr(10)), 'line')}"
        made.append(tag("details", tag("summary", words), code_block(library)))
    return made


def code_block(code: str) -> Markup:
    """Code that keeps its lines, and can be scrolled to by keys."""
    return tag("pre", tag("code", highlighted(code)), tabindex="0")
