"""Steps of random definitions: each appends an operation, or none where no operand fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.random_values import FLOATS, MAX_RANK, MAX_SCALED, SMALL, Known, Writer, known, shapes

# -- steps: pointwise ----------------------------------------------------------------------------

SMOOTH = ("sin", "cos", "tanh", "sigmoid", "erf", "atan", "silu")
EXACT_UNARY = ("neg", "abs", "relu", "set")
ROUNDING = ("floor", "ceil", "trunc", "round", "sign")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or")
ARITHMETIC = ("add", "sub", "mul", "maximum", "minimum")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
FLOAT8_MAX = 448
HALF_MAX = 65504
LITERALS = (-2, -1, 1, 2, 0.5, -1.5)


def unary(writer: Writer) -> None:
    """A function of one operand: exact, or rounding exact numbers, or smooth."""
    name = writer.pick((*EXACT_UNARY, *ROUNDING, *SMOOTH, "logical_not", "exp"))
    limit = {"exp": 4.0}.get(name, 16.0) if name in (*SMOOTH, "exp") else math.inf
    exact = name in (*ROUNDING, "logical_not")
    boolean = name in (*SMOOTH, "exp", "set", "logical_not")
    position = writer.operand(
        lambda h, k: (
            k.bound <= limit
            and (k.exact or not exact)
            and (boolean or h.dtype() is not DataType.Bool)
        )
    )
    if position is None:
        return
    facts = writer.facts[position]
    if name in (*SMOOTH, "exp"):
        result = known(math.exp(4) if name == "exp" else max(facts.bound, 2.0), None)
    elif exact:
        result = Known(facts.bound + 1, 0)
    else:
        result = facts
    writer.add(lambda fd, values: getattr(fd.ops, name)(values[position]), result)


def logarithm(writer: Writer) -> None:
    """A logarithm, where it changes no faster than what it is of."""
    name = writer.pick(("log", "log10", "log1p", "log2"))
    position = writer.operand(lambda h, k: k.bound <= 1e4 and h.dtype() is not DataType.Bool)
    if position is None:
        return
    bound = math.log2(writer.facts[position].bound + 2)
    writer.add(
        lambda fd, values: getattr(fd.ops, name)(fd.ops.abs(values[position]) + 1.0),
        known(bound, None),
    )


def binary(writer: Writer) -> None:
    """Arithmetic, comparison or bitwise operation of two operands, or of one and a literal."""
    name = writer.pick((*ARITHMETIC, *ARITHMETIC, *COMPARISONS, *BITWISE))
    exact, integral = name in COMPARISONS, name in BITWISE

    def fits(handle: Handle, facts: Known) -> bool:
        return (facts.exact or not exact) and (handle.dtype().is_integral or not integral)

    left = writer.operand(fits)
    if left is None:
        return
    literal = None if integral else writer.draw(st.sampled_from([None, None, *LITERALS]))
    right = left if literal is not None else partner(writer, left, fits)
    if right is None or (name == "sub" and _boolean(writer, left, right)):
        return
    a, b = writer.facts[left], writer.facts[right]
    b = b if literal is None else Known(abs(literal), 1)
    writer.add(
        lambda fd, values: getattr(fd.ops, name)(
            values[left], values[right] if literal is None else literal
        ),
        _binary_facts(name, a, b),
    )


def partner(
    writer: Writer, left: int, accepts: Callable[[Handle, Known], bool] = lambda h, k: True
) -> int | None:
    """An operand that broadcasts with `left`."""

    def fits(handle: Handle, facts: Known) -> bool:
        pairs = zip(reversed(writer.shape(left)), reversed(handle.value.shape), strict=False)
        return accepts(handle, facts) and all(a == b or 1 in (a, b) for a, b in pairs)

    return writer.operand(fits)


def _boolean(writer: Writer, *positions: int) -> bool:
    return all(writer.dtype(position) is DataType.Bool for position in positions)


def _binary_facts(name: str, a: Known, b: Known) -> Known | None:
    if name in COMPARISONS:
        return Known(1, 0)
    bits = None if a.bits is None or b.bits is None else max(a.bits, b.bits)
    if name in BITWISE:
        return known(2 * max(a.bound, b.bound, 1), 0)
    if name == "mul":
        both = None if a.bits is None or b.bits is None else a.bits + b.bits
        return known(a.bound * b.bound, both)
    if name in ("maximum", "minimum"):
        return known(max(a.bound, b.bound), bits)
    return known(a.bound + b.bound, bits)


def select(writer: Writer) -> None:
    """`where`, or `clamp` to literals."""
    condition = writer.operand(lambda h, k: h.dtype() is DataType.Bool)
    if condition is None or writer.draw(st.booleans()):
        position = writer.operand(lambda h, k: h.dtype() is not DataType.Bool)
        if position is not None:
            facts = writer.facts[position]
            result = known(max(facts.bound, 2), None if facts.bits is None else facts.bits + 1)
            writer.add(lambda fd, values: fd.ops.clamp(values[position], -1, 1.5), result)
        return
    branch = partner(writer, condition)
    if branch is not None:
        facts = writer.facts[branch]
        result = known(max(facts.bound, 1), facts.bits)
        writer.add(lambda fd, v: fd.ops.where(v[condition], v[branch], 1), result)


def divide(writer: Writer) -> None:
    """A division by a literal: of integers a quotient without its fraction, or the remainder."""
    name = writer.pick(("truediv", "div", "floor_divide", "remainder", "mod"))
    integral = name != "truediv"
    position = writer.operand(
        lambda h, k: not integral or (h.dtype().is_integral and h.dtype() is not DataType.Bool)
    )
    if position is None:
        return
    result = known(max(writer.facts[position].bound, 4), 0 if integral else None)
    writer.add(lambda fd, values: getattr(fd.ops, name)(values[position], 3), result)


def cast(writer: Writer) -> None:
    """A cast; of inexact numbers to floats only, and then 16 bits make a leaf."""
    dtype = writer.pick(writer.dtypes)
    position = writer.operand(
        lambda h, k: (
            h.value.is_tensor
            and ((k.exact and k.finite) or not dtype.is_integral)
            and (k.bound < HALF_MAX or dtype is not DataType.Half)
        )
    )
    if position is None:
        return
    facts = writer.facts[position]
    if dtype.is_integral:
        facts = Known(facts.bound, 0)
    elif dtype.itemsize == 1:
        same = facts.exact and facts.bound < FLOAT8_MAX and dtype is not DataType.Float8_e8m0fnu
        facts = Known(2 * facts.bound, facts.bits, leaf=not same)
    elif facts.bound > MAX_SCALED or (not facts.exact and dtype.itemsize == 2):
        facts = Known(facts.bound, None, leaf=True)
    writer.add(lambda fd, values: fd.ops.cast(values[position], dtype), facts)


def narrow(writer: Writer) -> None:
    """A cast to an 8-bit float, which is a leaf; exact numbers are moved and cast back."""
    dtype = writer.pick((DataType.Float8_e4m3fn, DataType.Float8_e5m2))
    position = writer.operand(lambda h, k: h.value.is_tensor and k.bound < FLOAT8_MAX)
    if position is None:
        return
    facts = writer.facts[position]
    if not facts.exact:
        leaf = Known(facts.bound, None, leaf=True)
        writer.add(lambda fd, values: fd.ops.cast(values[position], dtype), leaf)
        return
    dims = writer.draw(st.permutations(range(len(writer.shape(position)))))

    def there_and_back(fd: FusionDefinition, values: list[Handle]) -> Handle:
        moved = fd.ops.permute(fd.ops.cast(values[position], dtype), dims)
        return fd.ops.cast(moved, DataType.Float)

    writer.add(there_and_back, known(2 * facts.bound, facts.bits))


def four_bits(writer: Writer) -> None:
    """Exact numbers rounded to 4 bits and back, or, in pairs, a leaf; or an input of pairs."""
    position = writer.operand(
        lambda h, k: math.prod(h.value.shape or (0,)) > 0 and k.exact and not h.dtype().is_complex
    )
    rounded = Known(8, 1)
    kind = writer.pick(("there and back", "pairs", "input"))
    if kind == "input" or position is None:
        _four_bits_input(writer, rounded)
    elif kind == "there and back" or writer.shape(position)[-1] % 2:
        dims = writer.draw(st.permutations(range(len(writer.shape(position)))))

        def there_and_back(fd: FusionDefinition, values: list[Handle]) -> Handle:
            narrowed = fd.ops.cast(values[position], DataType.Float4_e2m1fn)
            return fd.ops.cast(fd.ops.permute(narrowed, dims), DataType.Float)

        writer.add(there_and_back, rounded)
    else:
        ends = list(writer.shape(position))
        steps = [1] * (len(ends) - 1) + [2]

        def paired(fd: FusionDefinition, values: list[Handle]) -> Handle:
            narrowed = fd.ops.cast(values[position], DataType.Float4_e2m1fn)
            starts = ([0] * (len(ends) - 1) + [first] for first in range(2))
            halves = (fd.ops.slice(narrowed, start, ends, steps) for start in starts)
            return fd.ops.float4_pair(*halves)

        writer.add(paired, replace(rounded, leaf=True))


def _four_bits_input(writer: Writer, facts: Known) -> None:
    """Pairs as an input, read as floats."""
    shape = [*writer.draw(shapes(writer.scale)), writer.pick((1, 2, 3, 8))]
    if math.prod(shape) > writer.scale.max_elements:
        return
    generator = torch.Generator().manual_seed(writer.draw(st.integers(0, 1000)))
    numbers = torch.randint(0, 256, shape, generator=generator).to(torch.uint8)
    turned = len(shape) > 1 and writer.draw(st.booleans())
    pairs = (numbers.mT if turned else numbers).view(torch.float4_e2m1fn_x2)
    writer.inputs.append(pairs)
    writer.add(
        lambda fd, _: fd.ops.cast(fd.from_pytorch(pairs, static_sizes=True), DataType.Float), facts
    )


# -- steps: metadata and factories ---------------------------------------------------------------


def _tensor(handle: Handle, facts: Known) -> bool:
    return handle.value.is_tensor


def reshape(writer: Writer) -> None:
    """A view: dimensions merged and split, which need not nest with the operand's."""
    position = writer.operand(_tensor)
    if position is None:
        return
    elements = math.prod(writer.shape(position))
    shape = writer.draw(_factors(elements))
    if elements and shape and writer.draw(st.booleans()):
        shape[writer.draw(st.integers(0, len(shape) - 1))] = -1
    writer.add(lambda fd, v: fd.ops.reshape(v[position], shape), writer.facts[position])


@st.composite
def _factors(draw: st.DrawFn, elements: int) -> list[int]:
    """At most 4 sizes whose product is `elements`."""
    if elements == 0:
        shape = draw(st.lists(st.sampled_from(SMALL.sizes), min_size=1, max_size=MAX_RANK))
        shape[draw(st.integers(0, len(shape) - 1))] = 0
        return shape
    shape: list[int] = []
    while len(shape) < MAX_RANK - 1 and (elements > 1 or draw(st.booleans())):
        lower = [size for size in range(1, math.isqrt(elements) + 1) if elements % size == 0]
        divisors = sorted({*lower, *(elements // size for size in lower)})
        shape.append(draw(st.sampled_from(divisors)))
        elements //= shape[-1]
    return [*shape, elements] if elements > 1 else shape


def permute(writer: Writer) -> None:
    """A permutation of the dimensions."""
    position = writer.operand(_tensor)
    if position is not None:
        dims = writer.draw(st.permutations(range(len(writer.shape(position)))))
        writer.add(lambda fd, v: fd.ops.permute(v[position], dims), writer.facts[position])


def stride_order(writer: Writer) -> None:
    """The same, laid out with its dimensions in any order."""
    position = writer.operand(_tensor)
    if position is not None:
        order = writer.draw(st.permutations(range(len(writer.shape(position)))))
        writer.add(lambda fd, v: fd.ops.stride_order(v[position], order), writer.facts[position])


def flip(writer: Writer) -> None:
    """Some dimensions in reverse order."""
    position = writer.operand(lambda h, k: _tensor(h, k) and len(h.value.shape) > 0)
    if position is not None:
        dims = writer.draw(
            st.lists(st.sampled_from(range(len(writer.shape(position)))), unique=True)
        )
        writer.add(lambda fd, v: fd.ops.flip(v[position], dims), writer.facts[position])


def broadcast(writer: Writer) -> None:
    """A new dimension of size 1, or of size 3."""
    position = writer.operand(
        lambda h, k: (
            _tensor(h, k) and len(h.value.shape) < MAX_RANK and _small(writer, h.value.shape)
        )
    )
    if position is None:
        return
    shape = list(writer.shape(position))
    at = writer.draw(st.integers(0, len(shape)))
    if writer.draw(st.booleans()):
        flags = [dim == at for dim in range(len(shape) + 1)]
        writer.add(lambda fd, v: fd.ops.broadcast(v[position], flags), writer.facts[position])
        return
    dims = [dim for dim in range(len(shape) + 1) if dim != at]
    shape.insert(at, 3)
    writer.add(
        lambda fd, v: fd.ops.broadcast_in_dim(v[position], shape, dims), writer.facts[position]
    )


def expand(writer: Writer) -> None:
    """Dimensions of size 1 repeated; or removed."""
    position = writer.operand(lambda h, k: 1 in h.value.shape and _small(writer, h.value.shape))
    if position is None:
        return
    shape = writer.shape(position)
    dim = writer.draw(st.sampled_from([d for d, size in enumerate(shape) if size == 1]))
    if writer.draw(st.booleans()):
        writer.add(lambda fd, v: fd.ops.squeeze(v[position], [dim]), writer.facts[position])
        return
    room = writer.scale.max_elements // max(math.prod(shape), 1)
    size = writer.pick([n for n in (0, 1, 2, 5, *writer.scale.sizes) if n <= room])
    wanted = [size if d == dim else -1 for d in range(len(shape))]
    writer.add(lambda fd, v: fd.ops.expand(v[position], wanted), writer.facts[position])


def _small(writer: Writer, shape: tuple[int, ...]) -> bool:
    return math.prod(shape) * 5 <= writer.scale.max_elements


def factory(writer: Writer) -> None:
    """A full or an iota, of the size of some dimension so that it broadcasts with others."""
    dtype = writer.pick([d for d in writer.dtypes if d is not DataType.Bool])
    sizes = [size for handle in writer.handles for size in handle.value.shape[-1:]]
    size = writer.pick(sizes or [3])
    if writer.draw(st.booleans()):
        fill = writer.pick((0, 1, -3))
        writer.add(lambda fd, _: fd.ops.full([2, size], fill, dtype), Known(3, 0))
    else:
        start, step = writer.pick((0, -2)), writer.pick((1, 2, -1))
        facts = Known(2 + 2 * size, 0)
        writer.add(lambda fd, _: fd.ops.iota(size, start, step, dtype), facts)


def drawn(writer: Writer) -> None:
    """Random numbers of given seeds: uniform ones, normal ones, or which of them are below 1/2."""
    dtype = writer.pick([d for d in writer.dtypes if d in FLOATS] or [DataType.Float])
    kind = writer.pick(("mask", "uniform", "normal"))
    sizes = [size for handle in writer.handles for size in handle.value.shape[-1:]]
    shape = [2, writer.pick(sizes or [3])]
    seed, offset = writer.pick((0, -5, 2**40)), writer.pick((0, 7))

    def numbers(fd: FusionDefinition) -> Handle:
        make = fd.ops.normal if kind == "normal" else fd.ops.uniform
        return make(0.0, 1.0, shape, rng_seed=seed, rng_offset=offset, dtype=dtype)

    if kind == "mask":
        writer.add(lambda fd, _: fd.ops.lt(numbers(fd), 0.5), Known(1, 0))
    else:
        narrow = dtype.itemsize == 2
        writer.add(lambda fd, _: numbers(fd), Known(7, None, leaf=narrow))


# -- steps: slices -------------------------------------------------------------------------------


def slice_(writer: Writer) -> None:
    """A span of each dimension, short or almost all of it, in steps of 1 or 2."""
    position = writer.operand(_tensor)
    if position is None:
        return
    shape = writer.shape(position)
    starts = [writer.draw(st.integers(0, 2)) for _ in shape]
    ends = [
        start + writer.draw(st.integers(0, 5))
        if writer.draw(st.booleans())
        else max(size - writer.draw(st.integers(0, 3)), start)
        for start, size in zip(starts, shape, strict=True)
    ]
    steps = [writer.draw(st.integers(1, 2)) for _ in shape]
    writer.add(lambda fd, v: fd.ops.slice(v[position], starts, ends, steps), writer.facts[position])


def stencil(writer: Writer) -> None:
    """The sum of each element and one or two places after it in some dimension."""
    position = writer.operand(lambda h, k: any(size > 2 for size in h.value.shape))
    if position is None:
        return
    shape, facts = writer.shape(position), writer.facts[position]
    dim = writer.draw(st.sampled_from([dim for dim, size in enumerate(shape) if size > 2]))
    shift = writer.draw(st.integers(1, 2))

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        def part(start: int) -> Handle:
            starts = [start if d == dim else 0 for d in range(len(shape))]
            ends = [start + n - shift if d == dim else n for d, n in enumerate(shape)]
            return fd.ops.slice(values[position], starts, ends)

        return fd.ops.add(part(0), part(shift))

    writer.add(step, known(2 * facts.bound, facts.bits))


POINTWISE = (unary, binary, binary, select, divide, cast)
LOGARITHMS = (logarithm,)
NARROW = (narrow, narrow, four_bits)
METADATA = (reshape, reshape, permute, flip, broadcast, expand)
LAYOUTS = (stride_order,)
FACTORIES = (factory, drawn)
SLICES = (slice_, stencil)
