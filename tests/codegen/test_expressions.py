import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.codegen.expressions import ExpressionPrinter
from fuser.codegen.sizes import Sizes
from fuser.codegen.target import CPU, CUDA
from fuser.ir.dtypes import DataType
from fuser.schedule.indices.index import Axis, of_axis
from fuser.schedule.tree.expressions import Call, Convert, Expression, IndexValue, Literal, Ref

FLOAT = DataType.Float
AXIS = Axis((0,), 8)
X, Y = Ref("T0", FLOAT), Ref("T1", FLOAT)


def printer(target=CPU) -> ExpressionPrinter:
    return ExpressionPrinter(target, Sizes((AXIS,), DataType.Int))


def text(expression: Expression, target=CPU) -> str:
    return printer(target).print(expression, "T9")


def literal(value: complex, dtype: DataType) -> str:
    return text(Literal(value, dtype))


def test_operators_and_functions_come_from_the_table():
    assert text(Call("add", (X, Y), FLOAT)) == "T0 + T1"
    assert text(Call("atan2", (X, Y), FLOAT)) == "atan2(T0, T1)"
    assert text(Call("where", (Ref("T2", DataType.Bool), X, Y), FLOAT)) == "where(T2, T0, T1)"


def test_operands_that_are_expressions_are_in_parentheses():
    inner = Call("add", (X, Y), FLOAT)
    assert text(Call("mul", (inner, X), FLOAT)) == "(T0 + T1) * T0"
    assert text(Call("sub", (X, Literal(-1.0, FLOAT)), FLOAT)) == "T0 - (-1.0f)"
    assert text(Call("neg", (Literal(-1.0, FLOAT),), FLOAT)) == "-(-1.0f)"


def test_a_row_may_be_spelled_by_the_type_it_computes_in():
    i, b = Ref("T0", DataType.Int), Ref("T0", DataType.Bool)
    assert text(Call("div", (i, i), DataType.Int)) == "trunc_div(T0, T0)"
    assert text(Call("div", (X, Y), FLOAT)) == "T0 / T1"
    assert text(Call("bitwise_not", (b,), DataType.Bool)) == "!T0"


def test_conversions_are_calls_of_the_type():
    assert text(Convert(X, DataType.Half)) == "half(T0)"


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["cpu", "cuda"])
def test_floats_become_narrow_integers_by_way_of_one_that_holds_them(target):
    assert text(Convert(X, DataType.UInt8), target) == "uint8(int32(T0))"
    assert text(Convert(X, DataType.Int32), target) == "int32(T0)"
    assert text(Convert(X, DataType.Bool), target) == "bool(T0)"
    assert text(Convert(Ref("T0", DataType.Int), DataType.Int16), target) == "int16(T0)"


def test_an_index_is_a_number():
    assert text(IndexValue(of_axis(AXIS), DataType.Int)) == "int64(i0)"


def test_names_that_hold_lanes_are_subscripted():
    used = printer()
    used.lane_arrays.add("T0")
    assert used.print(Call("add", (X, Y), FLOAT), "T9") == "T0[lane] + T1"


def test_device_functions_are_noted_with_the_type_they_are_used_for():
    used = printer()
    used.print(Call("erf", (X,), FLOAT), "T9")
    assert "erf(float)" in used.sections
    used.print(Convert(X, DataType.BFloat16), "T9")
    assert "bfloat16" in used.sections
    assert "float" not in used.sections


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_literals_are_exact(value: float):
    printed = literal(value, FLOAT)
    assert printed.endswith("f")
    assert np.float32(printed[:-1]) == np.float32(value)
    assert math.copysign(1, float(printed[:-1])) == math.copysign(1, value)


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_literals_are_exact_and_no_integers(value: float):
    printed = literal(value, DataType.Double)
    assert float(printed) == value
    assert "." in printed or "e" in printed


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [FLOAT, DataType.Double], ids=lambda dtype: dtype.name)
def test_infinity_and_nan_have_spellings(target, dtype: DataType):
    infinity = text(Literal(math.inf, dtype), target)
    assert text(Literal(-math.inf, dtype), target) == f"-{infinity}"
    assert text(Literal(math.nan, dtype), target) == target.not_a_number[dtype]


@pytest.mark.parametrize(
    ("value", "dtype", "printed"),
    [
        (True, DataType.Bool, "true"),
        (0, DataType.Bool, "false"),
        (7, DataType.Int, "7LL"),
        (-(2**63), DataType.Int, "(-9223372036854775807LL - 1)"),
        (-(2**31), DataType.Int32, "(-2147483647 - 1)"),
        (-(2**31) + 1, DataType.Int32, "-2147483647"),
        (-128, DataType.Int8, "int8(-128)"),
        (255, DataType.UInt8, "uint8(255)"),
        (1.5, DataType.Half, "half(1.5f)"),
        (1.0, FLOAT, "1.0f"),
        (1e20, FLOAT, "1e+20f"),
        (1 - 2j, DataType.ComplexFloat, "complex64(1.0f, -2.0f)"),
        (2.5, DataType.ComplexDouble, "complex128(2.5, 0.0)"),
    ],
)
def test_literals_are_spelled_for_their_type(value: complex, dtype: DataType, printed: str):
    assert literal(value, dtype) == printed


def test_an_integer_that_was_a_float_has_no_zero_below_zero():
    """g++ makes a truncation of both conversions."""
    cpu = printer(CPU)
    cpu.let("T1", Convert(X, DataType.Int32))
    cpu.let("T2", Convert(X, DataType.Int16))
    assert (
        cpu.print(Convert(Ref("T1", DataType.Int32), FLOAT), "T3") == "float(plus_zero(float(T1)))"
    )
    half = cpu.print(Convert(Ref("T1", DataType.Int32), DataType.Half), "T3")
    assert half == "half(plus_zero(float(T1)))"
    assert cpu.print(Convert(Ref("T2", DataType.Int16), FLOAT), "T3") == "float(T2)"
    cpu.let("T1", Call("add", (Ref("T1", DataType.Int32),) * 2, DataType.Int32))
    assert cpu.print(Convert(Ref("T1", DataType.Int32), FLOAT), "T3") == "float(T1)"
    assert text(Convert(Convert(X, DataType.Int), FLOAT), CUDA) == "float(int64(T0))"
