"""Loop nests as text: what the `kernel_ir` dump prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from fuser import FusionDefinition, debug
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.types import TensorType
from fuser.schedule import LoopNest, print_nest
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis, Index, divide, of_axis
from fuser.schedule.tree import loop_printer
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Call, IndexValue, Literal, Ref
from fuser.schedule.tree.loop_nest import Launch
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.row_statements import Combine
from fuser.schedule.tree.statements import Lanes, Let, Load, Store

FLOAT, INT = DataType.Float, DataType.Int
ROWS, COLUMNS = Axis((0,), 8192), Axis((1,), 768)


def nest(axes: tuple[Axis, ...], *body: Node) -> LoopNest:
    launch, parameters = Launch(threaded=True), CpuRowParameters()
    return LoopNest("rows_sum", axes, (), body, launch, INT, "cpu rows", parameters, None)


def lines(axes: tuple[Axis, ...], *body: Node) -> list[str]:
    """The text of a nest without its head."""
    return print_nest(nest(axes, *body)).splitlines()[1:]


def test_the_sum_of_the_docstring():
    read = Value(0, TensorType(FLOAT, (8192, 768)))
    made = Value(1, TensorType(FLOAT, (8192,)))
    lanes = Ref("T1_lanes", FLOAT)
    sweep = (
        Load("T0", read, of_axis(ROWS) * 768 + of_axis(COLUMNS)),
        Let("T1_lanes", FLOAT, Call("add", (lanes, Ref("T0", FLOAT)), FLOAT), in_lanes=True),
    )
    row = (
        Lanes("T1_lanes", FLOAT, 64, Literal(0, FLOAT)),
        Loop(COLUMNS, Binding.SWEEP, sweep, step=64),
        Combine("T1", FLOAT, ("T1_lanes",), FLOAT, 64, "add"),
        Store(made, of_axis(ROWS), Ref("T1", FLOAT)),
    )
    text = print_nest(nest((ROWS, COLUMNS), Loop(ROWS, Binding.PARALLEL, row)))
    assert text in (loop_printer.__doc__ or "")


def test_an_index_that_divides():
    i, j = Axis((0,), 6), Axis((1,), 4)
    quotient, remainder = divide(of_axis(i) * 4 + of_axis(j), 9)
    assert lines(
        (i, j),
        Let("a", INT, IndexValue(quotient, INT)),
        Let("b", INT, IndexValue(remainder * 2 + Index(-3), INT)),
        Let("c", INT, IndexValue(of_axis(i) * -1, INT)),
    ) == ["a: Int = (4*i0 + i1)//9", "b: Int = 2*(4*i0 + i1)%9 - 3", "c: Int = -1*i0"]


@dataclass(frozen=True, slots=True)
class Sleep:
    """A node that the printer has not heard of."""

    name: str
    axis: Axis
    body: tuple[Let, ...]
    cycles: int = 0
    deep: bool = False


def test_a_node_of_a_new_class_is_shown_by_its_fields():
    inside = Let("a", INT, IndexValue(of_axis(ROWS), INT))
    node = cast(Node, Sleep("T1", ROWS, (inside,), deep=True))
    assert lines((ROWS,), node) == ["T1 = Sleep(axis=i0, deep):", "  body:", "    a: Int = i0"]


def test_the_dump_of_every_kernel(monkeypatch, capsys):  # pyright: ignore
    monkeypatch.setenv("FUSER_DUMP", "kernel_ir")
    debug.reload()
    x = torch.ones(64, 40)
    with FusionDefinition() as fd:
        h = fd.from_pytorch(x)
        fd.add_output(h / fd.ops.sum(h, [1], keepdim=True))
        fd.add_output(fd.ops.sum(h, [0]))
    for target in ("cpu", "cuda:sm_90"):
        fd.plan([x], target=target)
        out = capsys.readouterr().out
        assert "store T" in out
        assert "Region:\n  partials:\n    T" in out
        assert "Partial(name" not in out
    monkeypatch.undo()
    debug.reload()
