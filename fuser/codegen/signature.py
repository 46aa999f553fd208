"""What stands before the body of a kernel: where it came from, and its parameters."""

from __future__ import annotations

from typing import assert_never

from fuser.codegen.expressions import ExpressionPrinter
from fuser.codegen.kernel_source import Argument, Pointer, Scalar, Size, Workspace, scalar_passed_as
from fuser.ir.printer import print_input, print_statement
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.segmenter import Segment


def kernel_header(segment: Segment, nest: LoopNest) -> str:
    """What the kernel of a segment does, in comments: bytes, why it ends there, statements."""
    lines = [f"{value} = {print_input(value)}" for value in segment.fusion.inputs]
    lines += [print_statement(statement) for statement in segment.fusion.statements]
    for value in segment.stores:
        base = segment.memory[value].base
        lines += [f"{value} is stored where {base} lies"] if base is not value else []
    for value, other in segment.addressed_as.items():
        lines += [f"{value} is read where {other} lies"] if other is not value else []
    facts = [
        f"{nest.name}: {segment.bytes_read} bytes read, {segment.bytes_written} written",
        f"ends here: {segment.reason}",
    ]
    return "".join(f"// {line}\n" for line in [*facts, *(f"  {line}" for line in lines)])


def declaration(
    argument: Argument, segment: Segment, expressions: ExpressionPrinter, index: str
) -> str:
    """A parameter of the kernel of a segment; `index` is the type of sizes."""
    match argument:
        case Pointer(value):
            type_ = expressions.type(value.dtype)
            shared = segment.memory[value].base in segment.overwritten
            pointer = "*" if shared else f"* {expressions.target.restrict}"
            if value in segment.stores:
                return f"{type_}{pointer} {value}_out"
            return f"const {type_}{pointer} {value}_in"
        case Workspace(name, dtype):  # other threads write there, too: what restrict rules out
            return f"{expressions.type(dtype)}* {name}"
        case Scalar(value):
            passed = scalar_passed_as(value.dtype)
            if passed == value.dtype.spelling:
                return f"const {expressions.type(value.dtype)} {value}"
            if passed in expressions.target.library.sections:
                expressions.use(passed)
            return f"const {passed} {value}_given"
        case Size(name):
            return f"const {index} {name}"
        case _:
            assert_never(argument)
