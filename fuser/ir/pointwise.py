"""The pointwise table: one row per operation.

A row says which operands are accepted, how their types combine, what torch computes (the oracle),
and how C spells it. In `code`, `{0}`, `{1}`, ... are the operands, already converted to
`Signature.args`; the names that are called are defined by each target's device library
(`fuser/codegen/device`), which implements torch's meaning where C's differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from fuser.ir import four_bits, references
from fuser.ir.dtypes import Category, DataType
from fuser.ir.promotion import (
    Rule,
    arithmetic,
    bit_pattern,
    comparison,
    complex_parts,
    double_of_bits,
    float_of_bits,
    floating,
    identity,
    magnitude,
    packing,
    predicate,
    real_part,
    selection,
    unpacking,
)
from fuser.ir.references import Reference


@dataclass(frozen=True, slots=True)
class PointwiseOp:
    """A row of the table.

    `accepts` holds the letters of the categories the common operand type may have: b(ool),
    i(nteger), f(loat), c(omplex), e(ight bits of a float, or four), p(acked pairs of the
    latter), u(nsigned, of 64 bits). `code` is the C
    spelling; `variants` replaces it by letter. `cost` is a rough count of instructions, for the
    segmenter's profit.
    """

    name: str
    arity: int
    accepts: str
    rule: Rule
    reference: Reference
    code: str
    variants: tuple[tuple[str, str], ...] = ()
    cost: int = 1

    def spelling(self, compute: DataType) -> str:
        """The C template for operands of type `compute`."""
        return dict(self.variants).get(letter(compute), self.code)


COSTLY = 8
"""Instructions from which an operation is a function of many lines, and its result worth keeping:
storing and loading that takes a few."""

_LETTERS = {Category.BOOL: "b", Category.INTEGER: "i", Category.FLOAT: "f", Category.COMPLEX: "c"}


def letter(dtype: DataType) -> str:
    """The category letter used by `PointwiseOp.accepts`."""
    if dtype is DataType.Float4_e2m1fn_x2:
        return "p"
    if dtype.is_only_kept:
        return "e" if dtype.is_byte_float else "u"
    return _LETTERS[dtype.category]


def _row(
    arity: int,
    name: str,
    accepts: str,
    rule: Rule,
    reference: Reference,
    code: str = "",
    cost: int = 1,
    **variants: str,
) -> PointwiseOp:
    """A row of the table; without `code`, it calls a function of that name."""
    operands = ", ".join(f"{{{number}}}" for number in range(arity))
    code = code or f"{name}({operands})"
    return PointwiseOp(name, arity, accepts, rule, reference, code, tuple(variants.items()), cost)


_unary = partial(_row, 1)
_binary = partial(_row, 2)

_UNARY = (
    _unary("abs", "ifc", magnitude, torch.abs),
    _unary("acos", "bifc", floating, torch.acos, cost=15),
    _unary("acosh", "bifc", floating, torch.acosh, cost=20),
    _unary("asin", "bifc", floating, torch.asin, cost=15),
    _unary("asinh", "bifc", floating, torch.asinh, cost=20),
    _unary("atan", "bifc", floating, torch.atan, cost=15),
    _unary("atanh", "bifc", floating, torch.atanh, cost=20),
    _unary("bits", "fe", bit_pattern, references.bits, "bits_of({0})", e="{0}.bits"),
    _unary("bitwise_not", "bi", arithmetic, torch.bitwise_not, "~{0}", b="!{0}"),
    _unary("ceil", "if", arithmetic, torch.ceil, i="{0}"),
    _unary("cos", "bifc", floating, torch.cos, cost=15),
    _unary("cosh", "bifc", floating, torch.cosh, cost=20),
    _unary("double_of_bits", "i", double_of_bits, references.double_of_bits, "double_of({0})"),
    _unary("erf", "bif", floating, torch.erf, cost=15),
    _unary("erfc", "bif", floating, torch.erfc, cost=20),
    _unary("erfcinv", "bif", floating, references.erfcinv, cost=30),
    _unary("erfinv", "bif", floating, torch.erfinv, cost=30),
    _unary("exp", "bifc", floating, torch.exp, cost=10),
    _unary("exp2", "bif", floating, torch.exp2, cost=10),
    _unary("expm1", "bifc", floating, torch.expm1, cost=15),
    _unary("float4_high", "p", unpacking, four_bits.high, cost=6),
    _unary("float4_low", "p", unpacking, four_bits.low, cost=6),
    _unary("float_of_bits", "i", float_of_bits, references.float_of_bits, "float_of({0})"),
    _unary("floor", "if", arithmetic, torch.floor, i="{0}"),
    _unary("frac", "f", arithmetic, torch.frac, "{0} - trunc({0})", cost=2),
    _unary("imag", "c", magnitude, references.imag),
    _unary("isfinite", "bifc", predicate, torch.isfinite, b="true", i="true"),
    _unary("isinf", "bifc", predicate, torch.isinf, b="false", i="false"),
    _unary("isnan", "bifc", predicate, torch.isnan, b="false", i="false"),
    _unary(
        "isneginf", "bif", predicate, torch.isneginf, "isinf({0}) && {0} < 0", b="false", i="false"
    ),
    _unary(
        "isposinf", "bif", predicate, torch.isposinf, "isinf({0}) && {0} > 0", b="false", i="false"
    ),
    _unary("isreal", "bifc", predicate, torch.isreal, "true", c="imag({0}) == 0"),
    _unary("lgamma", "bif", floating, torch.lgamma, cost=60),
    _unary("log", "bifc", floating, torch.log, cost=10),
    _unary("log10", "bifc", floating, torch.log10, cost=12),
    _unary("log1p", "bifc", floating, torch.log1p, cost=15),
    _unary("log2", "bifc", floating, torch.log2, cost=10),
    _unary("logical_not", "bifc", predicate, torch.logical_not, "{0} == 0"),
    _unary("neg", "ifc", arithmetic, torch.neg, "-{0}"),
    _unary("real", "bifc", real_part, references.real, b="{0}", i="{0}", f="{0}"),
    _unary("reciprocal", "bifc", floating, torch.reciprocal, "1 / {0}", cost=4),
    _unary("relu", "if", arithmetic, torch.relu, "{0} < 0 ? 0 : {0}"),
    _unary("round", "if", arithmetic, torch.round, "rint({0})", i="{0}"),
    _unary("rsqrt", "bifc", floating, torch.rsqrt, cost=5),
    _unary("segment_set", "bifceu", identity, references.copy, "{0}"),
    _unary("set", "bifceu", identity, references.copy, "{0}"),
    _unary("sigmoid", "bifc", floating, torch.sigmoid, cost=12),
    _unary("sign", "bif", arithmetic, torch.sign),
    _unary("signbit", "bif", predicate, torch.signbit, i="{0} < 0", b="false"),
    _unary("silu", "bifc", floating, torch.nn.functional.silu, cost=13),
    _unary("sin", "bifc", floating, torch.sin, cost=15),
    _unary("sinh", "bifc", floating, torch.sinh, cost=20),
    _unary("sqrt", "bifc", floating, torch.sqrt, cost=4),
    _unary("tan", "bifc", floating, torch.tan, cost=20),
    _unary("tanh", "bifc", floating, torch.tanh, cost=15),
    _unary("trunc", "if", arithmetic, torch.trunc, i="{0}"),
)

_BINARY = (
    _binary("add", "bifc", arithmetic, torch.add, "{0} + {1}"),
    _binary("atan2", "bif", floating, torch.atan2, cost=20),
    _binary("bitwise_and", "bi", arithmetic, torch.bitwise_and, "{0} & {1}"),
    _binary(
        "bitwise_left_shift", "i", arithmetic, torch.bitwise_left_shift, "shift_left({0}, {1})"
    ),
    _binary("bitwise_or", "bi", arithmetic, torch.bitwise_or, "{0} | {1}"),
    _binary(
        "bitwise_right_shift", "i", arithmetic, torch.bitwise_right_shift, "shift_right({0}, {1})"
    ),
    _binary("bitwise_xor", "bi", arithmetic, torch.bitwise_xor, "{0} ^ {1}"),
    _binary("complex", "bif", complex_parts, torch.complex, "make_complex({0}, {1})"),
    _binary(
        "div", "ifc", arithmetic, references.trunc_div, "{0} / {1}", cost=4, i="trunc_div({0}, {1})"
    ),
    _binary("eq", "bifc", comparison, torch.eq, "{0} == {1}"),
    _binary("float4_pair", "fe", packing, four_bits.pair, cost=12),
    _binary("floor_divide", "if", arithmetic, torch.floor_divide, "floor_div({0}, {1})", cost=30),
    _binary("fmod", "if", arithmetic, torch.fmod, cost=20, i="trunc_mod({0}, {1})"),
    _binary("gcd", "i", arithmetic, torch.gcd, cost=60),
    _binary("ge", "bif", comparison, torch.ge, "{0} >= {1}"),
    _binary("gt", "bif", comparison, torch.gt, "{0} > {1}"),
    _binary("le", "bif", comparison, torch.le, "{0} <= {1}"),
    _binary(
        "logical_and",
        "bifc",
        predicate,
        torch.logical_and,
        "({0} != 0) && ({1} != 0)",
        b="{0} & {1}",
    ),
    _binary(
        "logical_or",
        "bifc",
        predicate,
        torch.logical_or,
        "({0} != 0) || ({1} != 0)",
        b="{0} | {1}",
    ),
    _binary(
        "logical_right_shift",
        "i",
        arithmetic,
        references.logical_right_shift,
        "logical_shift_right({0}, {1})",
    ),
    _binary("lt", "bif", comparison, torch.lt, "{0} < {1}"),
    _binary("maximum", "bif", arithmetic, torch.maximum, cost=2),
    _binary("minimum", "bif", arithmetic, torch.minimum, cost=2),
    _binary(
        "mod", "if", arithmetic, torch.fmod, "fmod({0}, {1})", cost=20, i="trunc_mod({0}, {1})"
    ),
    _binary("mul", "bifc", arithmetic, torch.mul, "{0} * {1}"),
    _binary("ne", "bifc", comparison, torch.ne, "{0} != {1}"),
    _binary("nextafter", "bif", floating, torch.nextafter, cost=5),
    _binary("pow", "ifc", arithmetic, torch.pow, cost=30),
    _binary("remainder", "if", arithmetic, torch.remainder, "floor_mod({0}, {1})", cost=20),
    _binary("sub", "ifc", arithmetic, torch.sub, "{0} - {1}"),
    _binary("truediv", "bifc", floating, torch.true_divide, "{0} / {1}", cost=4),
)

_MORE = (
    PointwiseOp("add_alpha", 3, "ifc", arithmetic, references.add_alpha, "{0} + {2} * {1}", (), 2),
    PointwiseOp(
        "addcmul", 4, "ifc", arithmetic, references.addcmul, "{0} + {3} * {1} * {2}", cost=3
    ),
    PointwiseOp(
        "clamp", 3, "if", arithmetic, torch.clamp, "minimum(maximum({0}, {1}), {2})", cost=4
    ),
    PointwiseOp("lerp", 3, "bifc", floating, torch.lerp, "lerp({0}, {1}, {2})", cost=6),
    PointwiseOp("sub_alpha", 3, "ifc", arithmetic, references.sub_alpha, "{0} - {2} * {1}", (), 2),
    PointwiseOp(
        "threshold", 3, "if", arithmetic, references.threshold, "where({0} <= {1}, {2}, {0})"
    ),
    PointwiseOp("where", 3, "bifceu", selection, references.where, "where({0}, {1}, {2})"),
)

TABLE: dict[str, PointwiseOp] = {row.name: row for row in (*_UNARY, *_BINARY, *_MORE)}

_EXP_NONPOSITIVE = _unary("exp_nonpositive", "f", floating, torch.exp, cost=8)
_EXP_NONPOSITIVE_NARROW = _unary("exp_nonpositive_narrow", "f", floating, torch.exp, cost=8)
_PLUS_EXP = _binary("plus_exp", "f", floating, references.plus_exp, cost=8)
_PLUS_EXP_NARROW = _binary("plus_exp_narrow", "f", floating, references.plus_exp, cost=8)
_NORMAL_CDF = _unary("normal_cdf", "f", floating, references.normal_cdf, cost=13)
_GELU = _unary("gelu", "f", floating, references.gelu, cost=14)
_ERF_PLUS_ONE = _unary("erf_plus_one", "f", floating, references.erf_plus_one, cost=12)
_TANH_PLUS_ONE = _unary("tanh_plus_one", "f", floating, references.tanh_plus_one, cost=6)
_SCALE = _unary("divisor_scale", "f", floating, references.divisor_scale, cost=4)
_QUOTIENT = PointwiseOp(
    "quotient_of_scaled",
    4,
    "f",
    floating,
    references.quotient_of_scaled,
    "quotient_of_scaled({0}, {1}, {2}, {3})",
    cost=4,
)
_RANKS = (
    _unary("largest_rank", "f", floating, references.largest_rank, cost=2),
    _unary("smallest_rank", "f", floating, references.smallest_rank, cost=2),
    _unary("half_of_largest_rank", "i", floating, references.half_of_largest_rank),
    _unary("half_of_smallest_rank", "i", floating, references.half_of_smallest_rank),
    _unary("bfloat16_of_largest_rank", "i", floating, references.bfloat16_of_largest_rank),
    _unary("bfloat16_of_smallest_rank", "i", floating, references.bfloat16_of_smallest_rank),
)
_NEW_ROWS = (
    *(_EXP_NONPOSITIVE, _EXP_NONPOSITIVE_NARROW, _PLUS_EXP, _PLUS_EXP_NARROW),
    *(_NORMAL_CDF, _GELU, _ERF_PLUS_ONE, _TANH_PLUS_ONE, _SCALE, _QUOTIENT, *_RANKS),
)

KERNEL_TABLE = TABLE | {row.name: row for row in _NEW_ROWS}
"""With what schedules put in place of these rows where they know more of the operands."""

EQUALITIES = ("eq", "ne")
COMPARISONS = (*EQUALITIES, "lt", "le", "gt", "ge")
"""Rows that compare numbers."""

FOLDS = {
    "sum": "add",
    "prod": "mul",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}
"""For each reduction that is one fold, the row that joins two parts of it."""

EXACT_ROWS = frozenset(
    (
        *("abs", "neg", "sign", "ceil", "floor", "round", "trunc", "relu", "clamp", "threshold"),
        *("maximum", "minimum", "where", "set", "segment_set", "complex", "real", "imag"),
        *("float4_pair", "float4_low", "float4_high", "bits", "float_of_bits", "double_of_bits"),
    )
)
"""Rows that round nothing."""
