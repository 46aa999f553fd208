"""Bookends: metadata operations at the ends of a fusion become host actions, not kernel work.

T0 -> view -> [mul, erf, add, mul] -> view -> T10        two views
T1 (alias of T0) -> [mul, erf, add, mul] -> T9           one kernel over T1 and T9;
                                                         T10 is the memory of T9, viewed
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fuser.ir.extern_memory import extern_memory
from fuser.ir.nodes import (
    Cast,
    Cat,
    Extern,
    Flip,
    Fusion,
    MetadataOperation,
    Pad,
    Permute,
    Pointwise,
    Scan,
    Slice,
    Statement,
    Value,
    operands,
)
from fuser.ir.printer import operation_name
from fuser.ir.strided import (
    Order,
    Strided,
    alias,
    dense,
    eager_memory,
    order_of,
    ranks,
)
from fuser.ir.types import row_major_order


@dataclass(frozen=True, slots=True)
class Chain:
    """Metadata operations that lead from `root`, which is stored, to `end`, which is handed on;
    `before` is one that leads to `root` and stays in the kernel."""

    root: Value
    end: Value
    statements: tuple[Statement, ...]
    before: Statement | None = None

    @property
    def operations(self) -> tuple[str, ...]:
        return tuple(operation_name(statement.op) for statement in self.statements)


def input_aliases(
    fusion: Fusion, memory: Mapping[Value, Strided]
) -> tuple[dict[Value, Strided], list[str]]:
    """Where each value lies that metadata operations alone make of values in `memory`.

    A view whose dimensions are not nested in memory is left in the kernel, as is a flip; the log
    says so.
    """
    placed = dict(memory)
    log: list[str] = []
    for statement in fusion.statements:
        op = statement.op
        if not isinstance(op, MetadataOperation) or op.arg not in placed:
            continue
        out = statement.out
        lies = alias(op, placed[op.arg], out.shape)
        name = f"{out} = {operation_name(op)}({op.arg})"
        if lies is None:
            strides = f"strides {placed[op.arg].strides} need a copy"
            why = _NO_STRIDES if isinstance(op, Flip) else strides
            log.append(f"bookend kept:     {name}: {why}")
            continue
        placed[out] = lies
        log.append(f"bookend stripped: {name} is memory of {lies.base}")
    return placed, log


def eager_memories(fusion: Fusion, memory: Mapping[Value, Strided]) -> dict[Value, Strided]:
    """How each tensor would lie in torch."""
    return _memories(fusion, memory, eager_memory)


def inner_orders(fusion: Fusion, memory: Mapping[Value, Strided]) -> dict[Value, Order]:
    """The stride order for each tensor that only kernels see: as its operands lie, also where torch
    would turn it. So a padded image of which channels are the fastest is read and written along
    these, and so is its product with a number that is expanded before it is divided."""
    return stride_orders(_memories(fusion, memory, _inner_memory))


def _memories(
    fusion: Fusion,
    memory: Mapping[Value, Strided],
    computed: Callable[[Statement, Mapping[Value, Strided]], Strided],
) -> dict[Value, Strided]:
    """How each tensor lies, if what is computed lies so."""
    held = {value: memory[value] for value in fusion.inputs if value.is_tensor}
    for statement in fusion.statements:
        if isinstance(statement.op, Extern):
            held |= extern_memory(statement, held)
            continue
        for out in statement.outs:
            if out.is_tensor:
                held[out] = computed(Statement((out,), statement.op), held)
    return held


def _inner_memory(statement: Statement, held: Mapping[Value, Strided]) -> Strided:
    if isinstance(statement.op, Pad | Cat | Scan):
        orders = (order_of(held[arg]) for arg in operands(statement.op) if arg.is_tensor)
        known = next((order for order in orders if order is not None), None)
        if known is not None:
            return dense(statement.out, known)
    if isinstance(statement.op, Pointwise | Cast):
        tensors = [held[arg] for arg in operands(statement.op) if arg.is_tensor]
        if tensors and all(map(_is_one_number, tensors)):
            shape = statement.out.shape
            return Strided(statement.out, shape, (0,) * len(shape))
    return eager_memory(statement, held)


def _is_one_number(lies: Strided) -> bool:
    """Whether all elements are one in memory."""
    return all(
        size == 1 or stride == 0 for size, stride in zip(lies.shape, lies.strides, strict=True)
    )


def stride_orders(held: Mapping[Value, Strided]) -> dict[Value, Order]:
    """The stride order of each tensor, which repeats the strides of one that is dense."""
    orders: dict[Value, Order] = {}
    for value, lies in held.items():
        order, exact = order_of(lies), ranks(lies.shape, lies.strides)
        if order is not None and dense(value, exact).strides == lies.strides:
            order = exact
        orders[value] = order or row_major_order(len(value.shape))
    return orders


def output_chains(
    fusion: Fusion, needed: Iterable[Value], placed: Mapping[Value, Strided]
) -> list[Chain]:
    """For each value of `needed` that a kernel must produce, the metadata chain that ends there.

    The chain is as long as possible; its root is the value to store. It is empty where the value
    itself is stored. A slice ends it, as its kernel stores the slice alone, unless what is sliced
    is needed too: that is stored with what the slice leaves out.
    """
    definitions = fusion.definitions()
    chains: list[Chain] = []
    ends = dict.fromkeys(needed)
    for end in ends:
        if end in placed:
            continue
        root, statements, before = end, list[Statement](), None
        while True:
            statement = definitions[root]
            op = statement.op
            if not isinstance(op, MetadataOperation) or op.arg in placed:
                break
            if isinstance(op, Flip) or (
                isinstance(op, Slice) and not _is_stored(op.arg, ends, definitions)
            ):
                before = statement
                break
            statements.insert(0, statement)
            root = op.arg
        chains.append(Chain(root, end, tuple(statements), before))
    return chains


def _is_stored(
    value: Value, needed: Container[Value], definitions: Mapping[Value, Statement]
) -> bool:
    """Whether a value is needed, or an alias of one that is."""
    while value not in needed:
        op = definitions[value].op if value in definitions else None
        if not isinstance(op, MetadataOperation) or isinstance(op, Flip):
            return False
        value = op.arg
    return True


def shown_memories(fusion: Fusion, eager: Mapping[Value, Strided]) -> dict[Value, Strided]:
    """How the outputs that a caller gets lie in torch: not those that are stored in inputs."""
    returned = (output.value for output in fusion.outputs if output.alias_of is None)
    return {value: eager[value] for value in returned if value.is_tensor}


def place_chains(
    chains: Sequence[Chain], orders: Mapping[Value, Order], shown: Mapping[Value, Strided]
) -> tuple[dict[Value, Strided], list[Chain], list[str]]:
    """Memory for the root of every chain, and for what is then only an alias of it; and the chains
    from what is stored.

    A root that is an output gets torch's layout; another one too, if every chain from it is free
    under that, else the layout under which most are. A chain that still needs a copy is stored at
    its own end, or at the first end that it leads through; so is an output that is no alias in
    torch of the others of its root, or is one in another order: `shown` is how outputs lie there.
    """
    placed: dict[Value, Strided] = {}
    stored: list[Chain] = []
    log: list[str] = []
    for root in dict.fromkeys(chain.root for chain in chains):
        of_root = (chain for chain in chains if chain.root is root)
        own = sorted(of_root, key=lambda chain: bool(chain.statements))
        wanted = [orders[root]]
        if root not in shown or own[0].statements:
            wanted += [_wanted_order(chain, orders[chain.end]) for chain in own]
        tried = [(lies, _followed(own, lies, shown)) for lies in (dense(root, o) for o in wanted)]
        lies, free = max(tried, key=lambda each: len(each[1]))
        if own[0].before is not None:
            log.append(f"bookend kept:     {_kept(own[0].before)}")
        copied: list[Chain] = []
        for chain in own:
            followed = free.get(chain.end, None if chain.statements else {root: lies})
            if followed is None:
                copied.append(chain)
                why = f"strides {lies.strides} of {root} need a copy"
                log.append(f"bookend kept:     {_words(chain)}: {why}")
                continue
            stored.append(chain)
            placed |= {root: lies, **followed}
            if chain.statements:
                log.append(f"bookend stripped: {_words(chain)} is memory of {root}")
        others, rest, words = place_chains(_from_ends(copied), orders, shown)
        placed.update(others)
        stored += rest
        log += words
    return placed, stored, log


def _from_ends(chains: Sequence[Chain]) -> list[Chain]:
    """What is left of chains from the first value on that is the end of one of them."""
    ends = {chain.end for chain in chains}
    left: list[Chain] = []
    for chain in chains:
        outs = [statement.out for statement in chain.statements]
        first = next(number for number, out in enumerate(outs) if out in ends)
        left.append(Chain(outs[first], chain.end, chain.statements[first + 1 :]))
    return left


def _followed(
    chains: Sequence[Chain], memory: Strided, shown: Mapping[Value, Strided]
) -> dict[Value, dict[Value, Strided]]:
    """By the end of each chain that is free if its root lies in `memory`: where its values lie."""
    free: dict[Value, dict[Value, Strided]] = {}
    base: Value | None = None
    for chain in chains:
        followed = _follow(chain, memory)
        if followed is None:
            continue
        if (eager := shown.get(chain.end)) is not None:
            if base not in (None, eager.base) or not _in_one_order(followed[chain.end], eager):
                continue
            base = eager.base
        free[chain.end] = followed
    return free


def _in_one_order(one: Strided, other: Strided) -> bool:
    """Whether in both the same of the dimensions of more than one element are slower than which."""
    long = [dim for dim, size in enumerate(one.shape) if size > 1]
    sizes = [one.shape[dim] for dim in long]
    orders = (ranks(sizes, [memory.strides[dim] for dim in long]) for memory in (one, other))
    return next(orders) == next(orders)


def _follow(chain: Chain, memory: Strided) -> dict[Value, Strided] | None:
    """Where each value along the chain lies if its root lies in `memory`."""
    lies = {chain.root: memory}
    for statement in chain.statements:
        op = statement.op
        assert isinstance(op, MetadataOperation), op
        found = alias(op, lies[op.arg], statement.out.shape)
        if found is None:
            return None
        lies[statement.out] = found
    return lies


def _wanted_order(chain: Chain, end_order: Order) -> Order:
    """The layout of the root under which the end has `end_order`, as far as permutes decide it."""
    order = end_order
    for statement in reversed(chain.statements):
        op = statement.op
        assert isinstance(op, MetadataOperation), op
        if isinstance(op, Permute):
            order = tuple(order[op.dims.index(dim)] for dim in range(len(op.dims)))
        elif not isinstance(op, Slice):
            order = row_major_order(len(op.arg.shape))
    return order


_NO_STRIDES = "its strides would be negative"


def _kept(statement: Statement) -> str:
    """What stays at the end of a kernel though it is metadata, and why."""
    op, out = statement.op, statement.out
    assert isinstance(op, Slice | Flip), op
    why = _NO_STRIDES if isinstance(op, Flip) else "its kernel stores the slice alone"
    return f"{out} = {operation_name(op)} of {op.arg}: {why}"


def _words(chain: Chain) -> str:
    return f"{chain.end} = {' -> '.join(chain.operations)} of {chain.root}"
