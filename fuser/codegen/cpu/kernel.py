"""A kernel of the CPU target while it is printed: its threads, and ways to memory."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, count

from fuser.codegen.cpu.surroundings import CpuSurroundings
from fuser.codegen.printer import KernelPrinter
from fuser.codegen.target import CPU
from fuser.ir.dtypes import DataType
from fuser.schedule.indices.rewrites import variables_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import refs
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.schedule.tree.loop_tree import Loop, Node, every_node
from fuser.schedule.tree.statements import CheckedIndex, Drawn, Let, Load, Prefetch, Store
from fuser.schedule.tree.vectors import widens_vectors
from fuser.segmenter import Segment

_WORD = 4
"""The bytes of the least numbers that processors gather."""
_PARAMETERS = " firstprivate(parameters)"
"""Stands in a parallel region's head until all parameters are known."""
_SWEEPS = (Binding.SWEEP, Binding.ROUNDS)
_SHORT_ROW = 64
"""Elements of a row that is swept in a few rounds of lanes."""


class CpuKernel(KernelPrinter[CpuSurroundings]):
    """`extern "C" void name(..., const bool threaded)`.

    Functions print nodes to it, a module for each kind of loop; a subclass says which function
    prints which node. `around` changes by `within` only.
    """

    target = CPU

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest, CpuSurroundings())
        self.numbers = count()
        """Of loops that have variables of their own, whose names end in the number."""
        self._made: set[str] = set()
        """What the loop at hand has computed, by name."""
        self._in_innermost = False
        """Whether the loop at hand has none in it."""
        self._read_in_loops = frozenset(_read_in_loops(nest.body))
        self._threads_counted = False
        self._places = frozenset(_places(nest.body))

    def signature(self, parameters: str) -> str:
        return f'extern "C" void {self.nest.name}({parameters}, const bool threaded)'

    def node(self, node: Node) -> None:
        outside = self._made, self._in_innermost
        if isinstance(node, Loop):
            self._made = set()
            self._in_innermost = _is_innermost(node)
        super().node(node)
        self._made, self._in_innermost = outside
        if isinstance(node, Let | CheckedIndex):
            self._made.add(node.name)

    def define(self, name: str, dtype: DataType, source: str) -> None:
        """Print that a name stands for a number: a truth value that loops read is a flag, which
        each of them compares with 0. A place that truth values tell is made where g++ sees none."""
        if name in self._places and self.expressions.known.is_of_truths(name):
            source = f"{self.expressions.use('place_of_truths')}({source})"
        if self._in_innermost or dtype is not DataType.Bool or name not in self._read_in_loops:
            super().define(name, dtype, source)
            return
        self.out.line(f"const int {name} = {self.expressions.use('flag_of')}({source});")
        self.expressions.known.loaded(name, dtype)

    def assign(self, dtype: DataType, place: str, source: str) -> None:
        if dtype in (DataType.Int8, DataType.UInt8):
            byte = self.expressions.use("stored_byte")
            place, source = f"reinterpret_cast<{byte}&>({place})", f"{byte}({source})"
        super().assign(dtype, place, source)

    def has_points(self, loop: Loop) -> str:
        """A condition that holds if a loop does anything."""
        first, end = self.range_of(loop.axis)
        return f"{first} < {end}"

    def function(self, name: str, parameters: str) -> AbstractContextManager[None]:
        """Print, meanwhile, the body of a function that is called in several places."""
        head = f"const auto {name} = [&]({parameters}) __attribute__((always_inline))"
        return self.out.block(head, end="};")

    def lanes_used(self, count: int) -> str:
        return self.around.lanes_used or super().lanes_used(count)

    def start_threads(self, clauses: str) -> None:
        """Print the head of a parallel region."""
        self.out.line(f"#pragma omp parallel {clauses}{_PARAMETERS}")

    def finish(self, body: str, parameters: Sequence[str]) -> str:
        """Threads have parameters of their own where rows are short: what the functions of a sweep
        use, they take by reference, and g++ reads what threads share again for each row. Long rows
        of 4096 float32 numbers take 1.04 of the time with them."""
        own = f" firstprivate({', '.join(parameters)})" if _has_short_rows(self.nest.body) else ""
        return body.replace(_PARAMETERS, own)

    def count_threads(self) -> None:
        """Print how many threads there may be, once."""
        if not self._threads_counted:
            threads = self.expressions.use("thread_count")
            self.out.line(f"const int threads = threaded ? {threads}() : 1;")
            self._threads_counted = True

    @contextmanager
    def shared_out(self, loops: str, *, streams: bool) -> Generator[None]:
        """Print, meanwhile, loops that threads share out. What `streams` may store past the cache,
        and is waited for then."""
        if self.around.threads_started:
            self.out.line(f"#pragma omp for{loops} nowait")
            yield
            return
        threaded = "parallel : threaded" if "simd" in loops else "threaded"
        if not streams:
            self.start_threads(f"for{loops} if ({threaded})")
            yield
            return
        self.start_threads(f"if ({threaded})")
        with self.out.block(""):
            self.out.line(f"#pragma omp for{loops}")
            yield
            if self.nest.launch.past_cache:
                self.fence()

    @contextmanager
    def scope(self, head: str = "") -> Generator[None]:
        """Print, meanwhile, a block with names of its own."""
        known, counted = set(self.expressions.lane_arrays), self._threads_counted
        with self.out.block(head):
            yield
        self.expressions.lane_arrays.intersection_update(known)
        self._threads_counted = counted

    # -- memory ----------------------------------------------------------------------------------

    def load(self, load: Load) -> None:
        if load.lanes == 1:
            if not load.in_lanes:
                self.expressions.lane_arrays.discard(load.name)
            super().load(load)
            return
        if load.drawn is None:
            self.out.line(f"{self.wide_room(load)};")
            self.out.line(f"{self.wide_lanes(load)};")
            return
        type_ = self.expressions.type(load.dtype)
        self.out.line(f"{self.draw_room(load, load.drawn)};")
        self.out.line(f"const {type_}* const {self.drawn_lanes(load, load.drawn)};")

    def read(self, load: Load, at: str) -> str:
        """An element; by the word that it lies in, where its place is computed for each: of other
        sizes, no vectors are gathered, nor made of the loop around them."""
        dtype = load.dtype
        is_narrow = dtype.is_floating and dtype.itemsize < _WORD
        computed = self._made.intersection(v.name for v in variables_of(load.at))
        self.expressions.known.reads_at(computed)
        if is_narrow and computed:
            return f"{self.expressions.use('gathered')}({load.tensor}_in, {at})"
        return super().read(load, at)

    def draw_room(self, load: Load, drawn: Drawn) -> str:
        """The declaration of room for lanes that are drawn, which may begin within a block."""
        type_, numbers = self.expressions.type(load.dtype), self.drawn_numbers(load, drawn)
        return f"{type_} {load.name}_room[{load.lanes} + {numbers}::count]"

    def drawn_lanes(self, load: Load, drawn: Drawn) -> str:
        """The assignment of where lanes are that are drawn."""
        self.expressions.lane_arrays.add(load.name)
        draw, numbers = self.expressions.use("draw_lanes"), self.drawn_numbers(load, drawn)
        given = f"{load.name}_room, {self.drawn_at(load, drawn)}"
        return f"{load.name} = {draw}<{numbers}, {load.lanes}>({given})"

    def wide_room(self, load: Load) -> str:
        """The declaration of room for what lanes read at once, in 32 bits."""
        type_ = "float" if load.dtype.is_floating else "int"
        return f"alignas(64) {type_} {load.name}[{load.lanes}]"

    def wide_lanes(self, load: Load) -> str:
        """What reads truth values, narrow numbers or numbers in steps, of all lanes."""
        dtype = load.dtype
        self.expressions.known.loaded(load.name, dtype)
        self.expressions.lane_arrays.add(load.name)
        at = self.sizes.index(load.at, load.tensor.name)
        if dtype is DataType.Bool:
            read = f"{self.expressions.use('read_flags')}<{load.lanes}, {load.step}>"
        elif load.step > 1:
            read = f"{self.expressions.use('read_steps')}<{load.lanes}, {load.step}>"
        elif widens_vectors(load, load.lanes):
            read = self.expressions.use(f"read_{dtype.spelling}")
        else:
            self.expressions.type(dtype)
            kind = "floats" if dtype.is_floating else "integers"
            read = self.expressions.use(f"read_narrow_{kind}")
        return f"{read}({load.name}, {load.tensor}_in + {at})"

    def lanes_to_memory(self, store: Store) -> str:
        """What a function that stores lanes is called with: the place and the lanes."""
        at = self.sizes.index(store.at, store.tensor.name)
        return f"{store.tensor}_out + {at}, {self.lanes_of(store)}"

    def chunk_store(self, store: Store, part: str = "") -> str:
        """The function that stores a chunk, or a part of it: one that rounds it, if it is wider
        than the tensor."""
        dtype = store.dtype
        if store.source.dtype is dtype:
            return self.expressions.use(f"stream_{part or 'chunk'}")
        self.expressions.use(f"round_{dtype.spelling}")
        return self.expressions.use(f"stream_rounded_{part}" if part else "stream_rounded")

    def past_cache(self) -> str:
        """Whether stores bypass the cache, of which a call's sizes decide."""
        return self.sizes.parameter("past_cache", int(self.nest.launch.past_cache))

    def in_turn(self, loop: Loop) -> None:
        """Print a loop over an axis, or the part of it at hand, one element after the other."""
        name, (first, end) = self.sizes.axis(loop.axis), self.range_of(loop.axis)
        with self.out.block(f"for ({self.index} {name} = {first}; {name} < {end}; ++{name})"):
            self.nodes(loop.body)

    def fence(self) -> None:
        """Wait for stores that bypass the cache."""
        self.out.line(f"{self.expressions.use('stream_fence')}();")

    def prefetch(self, prefetch: Prefetch) -> None:
        self.ask("prefetch_lanes" if prefetch.there else "prefetch_ahead", prefetch)

    def ask(self, function: str, prefetch: Prefetch) -> None:
        """Print a request for memory."""
        at = self.sizes.index(prefetch.at, prefetch.tensor.name)
        ask = self.expressions.use(function)
        asked = f"{ask}<{prefetch.lanes}>({prefetch.tensor}_in + {at});"
        if prefetch.pays is not None:
            asked = f"if ({self.sizes.parameter('asks_ahead', int(prefetch.pays))}) {asked}"
        self.out.line(asked)


def _has_short_rows(nodes: Iterable[Node]) -> bool:
    sweeps = (node for node in every_node(nodes) if isinstance(node, Loop))
    return any(loop.binding in _SWEEPS and loop.axis.extent <= _SHORT_ROW for loop in sweeps)


def _places(nodes: Iterable[Node]) -> Iterator[str]:
    """The numbers that tell where something is read, by name."""
    for node in every_node(nodes):
        if isinstance(node, Load):
            yield from (variable.name for variable in variables_of(node.at))


def _is_innermost(loop: Loop) -> bool:
    return not any(isinstance(node, Loop) for node in every_node(loop.body))


def _read_in_loops(nodes: Iterable[Node]) -> Iterator[str]:
    """What is computed from in innermost loops, by name."""
    for loop in every_node(nodes):
        if isinstance(loop, Loop) and _is_innermost(loop):
            lets = (node for node in every_node(loop.body) if isinstance(node, Let))
            yield from chain.from_iterable(refs(let.expression) for let in lets)
