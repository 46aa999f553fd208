"""The normal distribution function, and gelu, as one function each on a processor.

    T1 = T0 * 0.70710677; T2 = erf(T1); T3 = T2 + 1.0
    T4 = T3 * 0.5                                             ->    T4 = normal_cdf(T0)
    T5 = T0 * 0.5; T6 = T5 * T3                               ->    T6 = gelu(T0)

For all lanes at once they take fewer operations than an error function alone, as their table goes
without a sign, and where T0 is far below zero they have digits that the sum would lose.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import Code, names_in, nodes_read
from fuser.schedule.tree.expressions import Call, Expression, Literal, Ref, refs
from fuser.schedule.tree.statements import Let

_TYPE = DataType.Float

_PRECISION = 1e-6
"""How far a number of the text may be off, of itself: float32 has 6e-8."""


def join_normal_cdfs(code: Sequence[Code], read_after: Iterable[str]) -> list[Code]:
    """`code` with such products, of whose names stores and folds read those in `read_after`; as it
    is, where an error function would be computed besides."""
    needed = set(read_after)
    products = _Products(code, needed)
    if not products.found:
        return list(code)
    made = [new for node in code for new in products.made(node)]
    left = nodes_read(made, needed)
    erfs = {product.of.erf for product in products.found.values()}
    return list(left if erfs.isdisjoint(node.name for node in left) else code)


@dataclasses.dataclass(frozen=True, slots=True)
class _Sum:
    """`name` = 1 + `erf`, which is that of x / sqrt(2)."""

    name: str
    erf: str
    x: Ref


@dataclasses.dataclass(frozen=True, slots=True)
class _Product:
    """Half of such a sum; if `weighted`, times x."""

    of: _Sum
    weighted: bool


class _Products:
    """Which nodes are such products, but for parts of others that nothing else reads."""

    def __init__(self, code: Sequence[Code], needed: AbstractSet[str]) -> None:
        self._calls = {
            node.name: node.expression
            for node in code
            if isinstance(node, Let)
            and isinstance(node.expression, Call)
            and node.expression.dtype is _TYPE
            and not node.expression.alike
        }
        made = ((name, self._product(name)) for name in self._calls)
        found = {name: product for name, product in made if product is not None}
        reads = Counter((*names_in(code), *needed))
        parts = Counter(name for outer in found for name in refs(self._calls[outer]))
        self.found = {name: found[name] for name in found if reads[name] > parts[name]}
        of = Counter(product.of for product in self.found.values())
        self._shared = {each.name: each for each, uses in of.items() if uses > 1}

    def made(self, node: Code) -> list[Code]:
        """A node by such a function. What several products are of is computed once, beside the
        sum."""
        if not isinstance(node, Let):
            return [node]
        if shared := self._shared.get(node.name):
            cdf = Call("normal_cdf", (shared.x,), _TYPE)
            return [dataclasses.replace(node, name=f"{node.name}_half", expression=cdf), node]
        product = self.found.get(node.name)
        if product is None:
            return [node]
        return [dataclasses.replace(node, expression=self._expression(product))]

    def _expression(self, product: _Product) -> Expression:
        of = product.of
        if of.name not in self._shared:
            return Call("gelu" if product.weighted else "normal_cdf", (of.x,), _TYPE)
        half = Ref(f"{of.name}_half", _TYPE)
        return Call("mul", (of.x, half), _TYPE) if product.weighted else half

    def _product(self, name: str) -> _Product | None:
        """What a node is, if it multiplies a half, such a sum, and x or nothing else."""
        factors = list(self._factors(name))
        scale = math.prod(float(f.value.real) for f in factors if isinstance(f, Literal))
        others = [factor for factor in factors if not isinstance(factor, Literal)]
        for factor in others:
            if scale == 0.5 and (of := self._sum(factor)) is not None:
                rest = [other for other in others if other is not factor]
                return _Product(of, bool(rest)) if rest in ([], [of.x]) else None
        return None

    def _factors(self, name: str) -> Iterator[Expression]:
        """What a node multiplies; a product that it multiplies is taken apart."""
        for factor in self._multiplied(name):
            inside = self._multiplied(factor.name) if isinstance(factor, Ref) else ()
            yield from inside or (factor,)

    def _multiplied(self, name: str) -> tuple[Expression, ...]:
        call = self._calls.get(name)
        return call.args if call is not None and call.op == "mul" else ()

    def _sum(self, value: Expression) -> _Sum | None:
        """What a value is, if it is such a sum."""
        match value, self._call(value):
            case Ref(name), Call("add", (Ref() as erf, Literal(1)) | (Literal(1), Ref() as erf)):
                called = self._call(erf)
            case _:
                return None
        x = self._scaled(called.args[0]) if called is not None and called.op == "erf" else None
        return _Sum(name, erf.name, x) if x is not None else None

    def _scaled(self, value: Expression) -> Ref | None:
        """The x of which a value is x / sqrt(2)."""
        match self._call(value):
            case Call("mul", (Ref() as x, Literal(by)) | (Literal(by), Ref() as x)):
                wanted = math.sqrt(0.5)
            case Call("truediv" | "div", (Ref() as x, Literal(by))):
                wanted = math.sqrt(2)
            case _:
                return None
        return x if math.isclose(float(by.real), wanted, rel_tol=_PRECISION) else None

    def _call(self, value: Expression) -> Call | None:
        return self._calls.get(value.name) if isinstance(value, Ref) else None
