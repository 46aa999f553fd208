"""Steps of random definitions: functions with edges and poles, and arithmetic of many operands.

Functions are drawn twice. Of any numbers, where they change no faster than what they are of: these
are put in range. Of exact numbers, as they are: a root of a number below 0 is NaN and 1 / -0.0 is
-infinity on all targets, so what an operation makes of its edges is compared too. Left out is what
torch and C++ leave open: signs of NaN and of zeros that follow from `maximum` (`either_zero`),
integers over 0, the least integer over -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.as_eager import either_zero
from tests.random_steps import partner
from tests.random_values import FLOATS, INTEGERS, Known, Writer, known

Function = Callable[[FusionDefinition, Handle], Handle]


# -- one operand ---------------------------------------------------------------------------------


def _as_it_is(fd: FusionDefinition, x: Handle) -> Handle:
    return x


def _from(least: float) -> Function:
    return lambda fd, x: fd.ops.add(fd.ops.abs(x), least)


def _within(most: float) -> Function:
    return lambda fd, x: fd.ops.clamp(x, -most, most)


_TAME: Mapping[str, tuple[Function, Callable[[float], float]]] = {
    **{name: (_within(0.75), lambda _: 3.0) for name in ("acos", "asin", "atanh", "erfinv")},
    **{name: (_within(3.0), lambda _: 20.5) for name in ("cosh", "sinh", "exp2", "expm1")},
    **{name: (_from(0.25), lambda b: 4 + math.sqrt(b)) for name in ("sqrt", "rsqrt", "reciprocal")},
    "acosh": (_from(1.5), lambda b: math.log(2 * b + 3)),
    "asinh": (_as_it_is, lambda b: math.log(2 * b + 2)),
    "erfc": (_as_it_is, lambda _: 2.0),
    "erfcinv": (lambda fd, x: fd.ops.add(_within(0.75)(fd, x), 1.0), lambda _: 1.0),
    "lgamma": (lambda fd, x: fd.ops.add(fd.ops.abs(_within(8.0)(fd, x)), 0.5), lambda _: 10.0),
    "tan": (_within(1.25), lambda _: 3.1),
}
"""How numbers are put in range, and how large results of numbers up to a bound are."""
_LOGARITHMS = ("log", "log2", "log10", "log1p")
_EDGED = (*_LOGARITHMS, "sqrt", "rsqrt", "reciprocal", "acos", "acosh", "asin", "atanh", "erfinv")
_EDGED += ("erfcinv", "lgamma", "exp2", "tan", "frac")
_COMPLEX = ("sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "log1p", "acosh", "asinh")
_COMPLEX += ("sinh", "cosh", "tan", "expm1")
_FROM_CUTS = 5.0
"""Complex numbers moved by so much lie right of 0, where these functions have no branch cuts."""


def tame(writer: Writer) -> None:
    """A function of numbers that are put in range first."""
    name = writer.pick(tuple(_TAME))
    position = writer.operand(lambda h, k: is_real(h))
    if position is None:
        return
    into_range, bound = _TAME[name]
    writer.add(
        lambda fd, v: getattr(fd.ops, name)(into_range(fd, v[position])),
        known(bound(writer.facts[position].bound), None),
    )


def reinterpreted(writer: Writer) -> None:
    """The bits of exact numbers, which nothing is computed of, or the numbers of their bits."""
    position = writer.operand(
        lambda h, k: h.dtype() in (DataType.Float, DataType.Double) and k.exact and k.finite
    )
    if position is None or writer.handles[position].value in either_zero(writer.fd.fusion):
        return
    if writer.draw(st.booleans()):
        leaf = Known(math.inf, 0, leaf=True)
        writer.add(lambda fd, v: fd.ops.bits(v[position]), leaf)
        return
    name = "float_of_bits" if writer.dtype(position) is DataType.Float else "double_of_bits"
    writer.add(
        lambda fd, v: getattr(fd.ops, name)(fd.ops.bits(v[position])), writer.facts[position]
    )


def edged(writer: Writer) -> None:
    """A function of exact numbers as they are, some of which it may have no number for."""
    name = writer.pick(_EDGED)
    position = writer.operand(
        lambda h, k: is_real(h) and k.bits is not None and k.bound * 2.0**k.bits <= 2**10
    )
    if position is None or writer.handles[position].value in either_zero(writer.fd.fusion):
        return
    facts = writer.facts[position]
    assert facts.bits is not None
    if name in ("lgamma", "exp2", "tan") and facts.bound > 5:
        return
    bits = facts.bits if name == "frac" else None
    largest = 1.0 if name == "frac" else max(facts.bound, 2.0**facts.bits, 32.0)
    writer.add_infinite(lambda fd, v: getattr(fd.ops, name)(v[position]), known(largest, bits))


def of_complex(writer: Writer) -> None:
    """A function of complex numbers beside its cuts; one of the parts; a number of two parts."""
    name = writer.pick((*_COMPLEX, "real", "imag", "real", "imag", "complex", "complex"))
    if name == "complex":
        real = writer.operand(lambda h, k: h.dtype() in FLOATS)
        if real is not None and (imaginary := partner(writer, real, _is_float)) is not None:
            writer.add(
                lambda fd, v: fd.ops.complex(v[real], v[imaginary]), _met(writer, real, imaginary)
            )
        return
    if name in ("real", "imag"):
        position = writer.operand(lambda h, k: h.dtype().is_complex or h.dtype() in FLOATS)
        if position is not None:
            taken = writer.dtype(position).is_complex

            def part(fd: FusionDefinition, v: list[Handle]) -> Handle:
                x = v[position]
                return getattr(fd.ops, name)(x if taken else fd.ops.complex(x, x))

            writer.add(part, writer.facts[position])
        return
    position = writer.operand(lambda h, k: h.dtype().is_complex and k.bound <= 8)
    if position is None:
        return
    moved = _within_parts if name in ("sinh", "cosh", "tan", "expm1") else _past_cuts
    writer.add_infinite(
        lambda fd, v: getattr(fd.ops, name)(moved(fd, v[position])), Known(32.0, None)
    )


def _past_cuts(fd: FusionDefinition, z: Handle) -> Handle:
    return fd.ops.add(z, _FROM_CUTS + 4)


def _within_parts(fd: FusionDefinition, z: Handle) -> Handle:
    return fd.ops.mul(z, 0.125)


_KINDS = ("isnan", "isinf", "isfinite", "isneginf", "isposinf", "isreal")


def kind(writer: Writer) -> None:
    """What kind of number it is; which is told of inexact ones too."""
    name = writer.pick(_KINDS)
    position = writer.operand(lambda h, k: True)
    if position is not None:
        writer.add(lambda fd, v: getattr(fd.ops, name)(v[position]), Known(1, 0))


def signbit(writer: Writer) -> None:
    """Whether exact numbers have a sign: of NaN that is open."""
    position = writer.operand(lambda h, k: k.exact and k.finite)
    if position is not None and writer.handles[position].value not in either_zero(writer.fd.fusion):
        writer.add(lambda fd, v: fd.ops.signbit(v[position]), Known(1, 0))


def bits(writer: Writer) -> None:
    """All bits of integers the other way round, or a copy that ends a segment."""
    name = writer.pick(("bitwise_not", "segment_set"))
    position = writer.operand(lambda h, k: name == "segment_set" or h.dtype().is_integral)
    if position is not None:
        facts = writer.facts[position]
        result = facts if name == "segment_set" else Known(facts.bound + 1, 0)
        writer.add(lambda fd, v: getattr(fd.ops, name)(v[position]), result)


# -- two operands --------------------------------------------------------------------------------

_REMAINDERS = ("fmod", "mod", "remainder")


def quotient(writer: Writer) -> None:
    """A quotient or remainder of exact tensors; only floats are divided by 0."""
    name = writer.pick((*_REMAINDERS, "floor_divide", "div", "truediv"))
    pair = _pair(writer, lambda h, k: is_real(h) and k.exact and k.bound * 2.0**20 < 2**31)
    if pair is None:
        return
    left, right = pair
    a, b = (writer.facts[position] for position in pair)
    assert a.bits is not None
    assert b.bits is not None
    either = either_zero(writer.fd.fusion)
    signed = all(writer.handles[position].value not in either for position in pair)
    integral = all(writer.dtype(position).is_integral for position in pair)
    by_zero = not integral and signed and writer.draw(st.booleans())

    def step(fd: FusionDefinition, v: list[Handle]) -> Handle:
        by = v[right] if by_zero else fd.ops.where(fd.ops.eq(v[right], 0), 3, v[right])
        return getattr(fd.ops, name)(v[left], by)

    if name in _REMAINDERS:
        result = known(max(a.bound, b.bound, 3), max(a.bits, b.bits))
    else:
        exact = 0 if name == "floor_divide" or (name == "div" and integral) else None
        result = known(a.bound * 2.0**b.bits + 1, exact)
    (writer.add_infinite if by_zero else writer.add)(step, result)


_SHIFTS = ("bitwise_left_shift", "bitwise_right_shift", "logical_right_shift")


def shift(writer: Writer) -> None:
    """Bits moved by a literal, or by any integers: torch has results for all."""
    name = writer.pick(_SHIFTS)
    left = writer.operand(_is_integer)
    right = None if left is None else partner(writer, left, _is_integer)
    if left is None or right is None:
        return
    literal = writer.pick((None, 0, 1, 3, 8, 31))
    result = writer.facts[left] if name == "bitwise_right_shift" else None
    writer.add(
        lambda fd, v: getattr(fd.ops, name)(v[left], v[right] if literal is None else literal),
        result,
    )


def divisor(writer: Writer) -> None:
    """The greatest that two integers have; of the least one there is none that fits."""
    pair = _pair(writer, lambda h, k: h.dtype() in INTEGERS and k.bound < 2**31)
    if pair is not None:
        left, right = pair
        bound = max(writer.facts[position].bound for position in pair)
        writer.add(lambda fd, v: fd.ops.gcd(v[left], v[right]), known(bound, 0))


def neighbour(writer: Writer) -> None:
    """The next float towards another; and the angle of two numbers."""
    name = writer.pick(("nextafter", "atan2"))
    pair = _pair(writer, lambda h, k: is_real(h) and k.exact)
    if pair is None:
        return
    left, right = pair
    if any(writer.handles[position].value in either_zero(writer.fd.fusion) for position in pair):
        return
    bound = max(writer.facts[left].bound + 1, 4)
    writer.add(lambda fd, v: getattr(fd.ops, name)(v[left], v[right]), known(bound, None))


def power(writer: Writer) -> None:
    """Whole powers of exact numbers, any of numbers above 0, and those of integers."""
    way = writer.pick(("literal", "float", "integer", "of a literal"))
    exponent = writer.pick((0, 1, 2, 3, 0.5, -0.5, -1.0, -2.0, 1.5, 2.5, 3.0))
    if way == "literal":
        position = writer.operand(lambda h, k: is_real(h) and k.bits is not None and k.bound <= 4)
        if position is None or (writer.dtype(position).is_integral and exponent != int(exponent)):
            return
        if writer.handles[position].value in either_zero(writer.fd.fusion):
            return
        if writer.dtype(position).is_integral:
            exponent = abs(int(exponent))
        facts = writer.facts[position]
        assert facts.bits is not None
        result = known(max(64.0, 2.0 ** (2 * facts.bits)), None)
        writer.add_infinite(lambda fd, v: fd.ops.pow(v[position], exponent), result)
    elif way == "integer":
        pair = _pair(writer, lambda h, k: h.dtype() in INTEGERS and k.bound <= 128)
        if pair is not None:
            base, by = pair
            result = known(max(writer.facts[base].bound, 1.0) ** 3, 0)
            writer.add(lambda fd, v: fd.ops.pow(v[base], fd.ops.clamp(v[by], -2, 3)), result)
    elif way == "of a literal":
        position = writer.operand(_is_float)
        base = writer.pick((0.5, 2.0, 1.5, 3, 1))
        if position is not None:
            writer.add(lambda fd, v: fd.ops.pow(base, _within(3)(fd, v[position])), Known(27, None))
    else:
        pair = _pair(writer, lambda h, k: is_real(h))
        if pair is not None and any(writer.dtype(p) in FLOATS for p in pair):
            base, by = pair
            writer.add(
                lambda fd, v: fd.ops.pow(
                    fd.ops.add(fd.ops.abs(_within(4)(fd, v[base])), 0.5), _within(2)(fd, v[by])
                ),
                Known(21.0, None),
            )


# -- more operands -------------------------------------------------------------------------------


def multiple_added(writer: Writer) -> None:
    """A tensor and a multiple of another, or of their product; or what lies between two."""
    name = writer.pick(("add_alpha", "sub_alpha", "addcmul", "lerp", "lerp"))
    pair = _pair(writer, lambda h, k: name == "lerp" or h.dtype() is not DataType.Bool)
    if pair is None:
        return
    left, right = pair
    a, b = (writer.facts[position] for position in pair)
    factor = writer.pick((-2, 1, 3, 0.5))
    if name == "lerp":
        weight = writer.pick((None, 0.25, 0.5, 0.75, 1))
        inside = (
            (lambda fd, v: fd.ops.clamp(v[right], 0, 1)) if weight is None else lambda *_: weight
        )
        result = known(a.bound + b.bound, None)
        writer.add(lambda fd, v: fd.ops.lerp(v[left], v[right], inside(fd, v)), result)
    elif name == "addcmul":
        bits = None if a.bits is None or b.bits is None else a.bits + b.bits + 1
        result = known(a.bound + 3 * a.bound * b.bound, bits)
        writer.add(lambda fd, v: fd.ops.addcmul(v[left], v[right], v[left], factor), result)
    else:
        bits = None if a.bits is None or b.bits is None else max(a.bits, b.bits + 1)
        result = known(a.bound + 3 * b.bound, bits)
        writer.add(lambda fd, v: getattr(fd.ops, name)(v[left], v[right], factor), result)


def limited(writer: Writer) -> None:
    """Exact numbers up to a limit replaced; limits and choices that are tensors."""
    name = writer.pick(("threshold", "clamp", "where"))
    pair = _pair(writer, lambda h, k: is_real(h) and k.exact)
    if pair is None:
        return
    left, right = pair
    result = _met(writer, *pair)
    if name == "threshold":
        facts = writer.facts[left]
        result = known(max(facts.bound, 3), None if facts.bits is None else facts.bits + 1)
        limit, value = writer.pick((0, 1, -0.5)), writer.pick((0, -3, 1.5))
        writer.add(lambda fd, v: fd.ops.threshold(v[left], limit, value), result)
    elif name == "clamp":
        writer.add(
            lambda fd, v: fd.ops.clamp(v[left], v[right], fd.ops.maximum(v[right], v[left])), result
        )
    else:
        writer.add(
            lambda fd, v: fd.ops.where(fd.ops.gt(v[left], v[right]), v[left], v[right]), result
        )


# -- operands ------------------------------------------------------------------------------------


def is_real(handle: Handle, facts: Known | None = None) -> bool:
    """Whether it holds numbers in an order: no truth values, no complex ones."""
    return not handle.dtype().is_complex and handle.dtype() is not DataType.Bool


def _is_float(handle: Handle, facts: Known) -> bool:
    return handle.dtype() in FLOATS


def _is_integer(handle: Handle, facts: Known) -> bool:
    return handle.dtype().is_integral and handle.dtype() is not DataType.Bool


def _pair(writer: Writer, accepts: Callable[[Handle, Known], bool]) -> tuple[int, int] | None:
    """Two operands that broadcast with each other."""
    left = writer.operand(accepts)
    right = None if left is None else partner(writer, left, accepts)
    return None if left is None or right is None else (left, right)


def _met(writer: Writer, *positions: int) -> Known | None:
    """The facts of what is one of some values in each place."""
    facts = [writer.facts[position] for position in positions]
    bits = [each.bits for each in facts]
    exact = None if None in bits else max(n for n in bits if n is not None)
    return known(max(each.bound for each in facts), exact)


FUNCTIONS = (tame, tame, edged, edged, of_complex, kind, signbit, bits, reinterpreted)
OPERANDS = (quotient, quotient, shift, divisor, neighbour, power, power, multiple_added, limited)
