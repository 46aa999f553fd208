"""The report as one HTML page that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import Template

from fuser.explanation.drawing import graph_of
from fuser.explanation.model import Break, Graph, Partition, total_traffic
from fuser.explanation.page_steps import code_block, step_names, steps_of
from fuser.explanation.traffic import Traffic
from fuser.explanation.words import (
    added_words,
    count,
    graph_words,
    partition_words,
    tidy,
    times,
    traffic_words,
)
from fuser.markup import Markup, joined, tag
from fuser.runtime.plans.plan import Plan
from fuser.segmenter import STYLE, byte_count


def page_of(
    title: str, graphs: Sequence[Graph], breaks: Sequence[Break], notes: Sequence[str]
) -> str:
    """The whole page."""
    names = [f"g{number}" for number in range(len(graphs))]
    sections = [
        _graph(graph, name, name == "g0") for name, graph in zip(names, graphs, strict=True)
    ]
    return Template(_resource("page.html")).substitute(
        title=joined(title),
        style=STYLE + _resource("page.css"),
        script=_resource("page.js"),
        summary=_summary(graphs, names),
        notes=joined(*(tag("p", note, class_="note") for note in notes), _breaks(breaks)),
        graphs=joined(*sections),
    )


@cache
def _resource(name: str) -> str:
    return (resources.files("fuser.explanation") / "template" / name).read_text(encoding="utf-8")


# -- the whole -------------------------------------------------------------------------------------


def _summary(graphs: Sequence[Graph], names: Sequence[str]) -> Markup:
    """A table of graphs, with a link to each."""
    rows = [
        _numbers(tag("a", graph.name, href=f"#{name}"), _percent(graph), [graph])
        for name, graph in zip(names, graphs, strict=True)
    ]
    head = tag("tr", *(tag("th", word, scope="col") for word in _COLUMNS))
    foot = tag("tfoot", _numbers(Markup("all"), "", graphs))
    table = tag("table", tag("thead", head), tag("tbody", *rows), foot)
    return tag("div", table, class_="wide")


_COLUMNS = (
    "graph",
    "covered",
    "partitions",
    "kernels",
    "moved",
    "least",
    "moved / least",
    "each alone",
    "alone / moved",
)


def _percent(graph: Graph) -> str:
    return "" if graph.coverage is None else f"{graph.coverage.percent:.1f} %"


def _numbers(name: Markup, percent: str, graphs: Sequence[Graph]) -> Markup:
    traffic = total_traffic(graph.traffic for graph in graphs)
    cells = (
        percent,
        str(sum(len(graph.partitions) for graph in graphs)),
        str(sum(len(graph.kernels) for graph in graphs)),
        *_compared(traffic),
    )
    return tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells))


def _compared(traffic: Traffic) -> tuple[str, ...]:
    moved, least, alone = traffic.moved, traffic.least, traffic.alone
    return (
        byte_count(moved),
        byte_count(least),
        times(moved, least),
        byte_count(alone),
        times(alone, moved),
    )


def _breaks(breaks: Sequence[Break]) -> Markup:
    if not breaks:
        return Markup()
    items = [tag("li", tag("code", found.place), ": ", found.reason) for found in breaks]
    heading = tag("h2", f"Dynamo broke the graph at {count(len(breaks), 'place')}")
    return tag("section", heading, tag("ul", *items), class_="breaks")


# -- a graph ---------------------------------------------------------------------------------------


def _graph(graph: Graph, name: str, is_first: bool) -> Markup:
    summary = tag("summary", tag("h2", graph.name), tag("span", graph_words(graph)))
    missed = graph.coverage.uncovered if graph.coverage is not None else ()
    torchs = [
        tag("li", f"{found.count} x ", tag("code", found.overload), f": {found.reason}")
        for found in missed
    ]
    parts = [
        _partition(part, f"{name}-p{number}", is_first and number == 0)
        for number, part in enumerate(graph.partitions)
    ]
    listed = joined(tag("h4", "Computed by torch"), tag("ul", *torchs)) if torchs else Markup()
    words = tag("p", f"It {traffic_words(graph.traffic)}.") if len(graph.partitions) > 1 else None
    return tag("details", summary, words, listed, *parts, id=name, class_="graph", open=True)


def _partition(part: Partition, name: str, is_open: bool) -> Markup:
    traffic = part.traffic
    summary = tag(
        "summary",
        tag("h3", part.name),
        tag("span", partition_words(part)),
        tag("span", f"{byte_count(traffic.moved)} moved", class_="moved") if part.plan else None,
    )
    body: list[Markup] = []
    if part.failure is not None:
        body.append(tag("p", f"Failed: {part.failure}", class_="failure"))
    if part.plan is not None:
        body += _plan(part, part.plan, name)
    body.append(_definition(part))
    return tag("details", summary, *body, id=name, class_="partition", open=is_open)


def _plan(part: Partition, plan: Plan, name: str) -> list[Markup]:
    words = tag("p", f"For {plan.target}, it {traffic_words(part.traffic)}.")
    columns = tag("div", _figure(part, plan, name), steps_of(part, plan, name), class_="columns")
    made = [words, columns]
    made += _listed("Why this is not one kernel", plan.boundaries)
    made += _listed("Inputs that are updated", plan.updates)
    if plan.log:
        items = [tag("li", tidy(line)) for line in plan.log]
        heading = tag("summary", f"All decisions of the segmenter: {len(items)}")
        made.append(
            tag("details", heading, tag("p", _price(plan)), tag("ul", *items, class_="log"))
        )
    return made


def _listed(head: str, sentences: Sequence[str]) -> list[Markup]:
    """A heading, and what stands under it; nothing where there is nothing to say."""
    if not sentences:
        return []
    return [tag("h4", head), tag("ul", *(tag("li", each) for each in sentences))]


def _price(plan: Plan) -> str:
    launch = byte_count(plan.segmented.machine.launch_bytes)
    return (
        "What is saved is in bytes: those that stay in registers (moved), a launch, which counts "
        f"as {launch}, and for all else that takes time what memory moves meanwhile."
    )


def _definition(part: Partition) -> Markup:
    heading = tag("summary", "The definition" if part.plan or part.failure is None else "The graph")
    added = "" if part.plan is None else added_words(part.plan)
    note = tag("p", added, class_="fine") if added else None
    return tag("details", heading, code_block(part.definition), note)


def _figure(part: Partition, plan: Plan, name: str) -> Markup:
    drawn = graph_of(plan.segmented, name, step_names(plan, name), f"The graph of {part.name}")
    if drawn is None:
        return tag("p", "The graph has too many nodes to be drawn.", class_="note")
    buttons = [
        tag("button", sign, type="button", data_zoom=by, title=words) for sign, by, words in _ZOOMS
    ]
    tools = tag("div", *buttons, class_="tools", role="group", aria_label="Zoom")
    stage = tag("div", drawn, class_="stage", tabindex="0", aria_label="Graph, scrollable")
    readout = tag("output", _HELP, class_="readout")
    return tag("figure", tools, stage, tag("figcaption", readout, _KEY))


_ZOOMS = (("−", "out", "smaller"), ("+", "in", "larger"), ("fit", "fit", "all of it"))
_HELP = "Point at a node, or choose it, to read here what it is; a click shows its kernel."
_KEY = tag(
    "p",
    "Colours are kernels. Pills are inputs and outputs, dashed boxes metadata on the host, which "
    "moves no bytes, and hexagons are run by torch. Strong lines are tensors in memory, with their "
    "bytes, and faint ones stay in registers.",
    class_="fine",
)
