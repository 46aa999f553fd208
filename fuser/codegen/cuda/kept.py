"""CUDA C++ for what a row keeps between sweeps, in registers or in shared memory."""

from __future__ import annotations

from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import declare_rounds, grouped, put_lanes, take_lanes, times
from fuser.codegen.cuda.teams import once_a_row
from fuser.codegen.indices import if_place_exists
from fuser.schedule.indices.index import compose
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.row_statements import Keep, KeepAt, Kept, Place, RowArray
from fuser.schedule.tree.statements import Load, reads_in


def copy_ahead(kernel: CudaKernel, load: Load) -> None:
    """What a thread keeps in shared memory, straight from a tensor."""
    at = kernel.sizes.index(load.at, load.tensor.name)
    call = f"{kernel.expressions.use('copy_ahead')}<{load.piece or load.lanes}, {load.lanes}>"
    kernel.out.line(f"{call}({_kept_address(kernel, load.name)}, {load.tensor}_in + ({at}));")


def row_array(kernel: CudaKernel, node: Keep | Kept | RowArray) -> None:
    """What a row keeps between sweeps."""
    type_ = kernel.expressions.type(node.dtype)
    if kernel.facts.arrays[node.name].room:
        _in_order(kernel, node, type_)
        return
    if isinstance(node, RowArray):
        _declare_room(kernel, node, type_)
        return
    place = _kept_at(kernel, node.name)
    if isinstance(node, Keep) and is_copied(kernel, node.name):
        return
    if isinstance(node, Kept):
        take_lanes(kernel, node.name, node.dtype, node.lanes, place)
        return
    is_lane = node.lanes == 1 and kernel.facts.arrays[node.name].lanes > 1
    place = f"{grouped(place)}[lane]" if is_lane and not _at_ends(kernel) else place
    put_lanes(kernel, node.name, node.lanes, place)


def _declare_room(kernel: CudaKernel, array: RowArray, type_: str) -> None:
    name = f"{array.name}_kept"
    if array.ends:
        kernel.out.line(f"{type_} {array.name}_end;")
    if array.place is Place.SHARED:
        offset = kernel.sizes.parameter(f"{name}_offset", array.offset) if array.offset else "0"
        place = f"reinterpret_cast<{type_}*>(row_memory + {offset})"
        kernel.out.line(f"{type_}* const {name} = {place};")
    else:
        declare_rounds(kernel, name, array.dtype, array.rounds, array.lanes)


def _in_order(kernel: CudaKernel, node: Keep | Kept | RowArray, type_: str) -> None:
    """A row in shared memory, its elements in their order, and what a thread has of them."""
    row = f"{node.name}_row"
    if isinstance(node, RowArray):
        place = f"reinterpret_cast<{type_}*>(row_memory)"
        if kernel.facts.team is Team.WARP:
            place += f" + threadIdx.y * {kernel.sizes.parameter(f'{row}_room', node.room)}"
        kernel.out.line(f"{type_}* const {row} = {place};")
        return
    at = kernel.sizes.index(compose(node.axes), row)
    if isinstance(node, Keep):
        _keep_in_order(kernel, node, f"{row}[{at}]")
    else:
        place = f"{row}[{at}]" if node.lanes == 1 else f"{row} + {grouped(at)}"
        take_lanes(kernel, node.name, node.dtype, node.lanes, place)


def _keep_in_order(kernel: CudaKernel, node: Keep, place: str) -> None:
    """An element for its place in a row, or some neighbours."""
    assert node.source is not None
    if node.lanes == 1:
        kernel.out.line(f"{place} = {kernel.expressions.print(node.source, node.name)};")
        return
    assert isinstance(node.source, Ref), "lanes are computed before they are kept"
    put_lanes(kernel, node.source.name, node.lanes, f"&{place}")


def join_to_row(kernel: CudaKernel, node: KeepAt) -> None:
    """What a point joins to an element of such a row, if its index is one."""
    assert node.joins is not None, "threads that overwrite are in no order"
    at = kernel.sizes.index(node.at, node.name)
    added = kernel.expressions.print(node.source, node.name)
    with if_place_exists(kernel, node.at), once_a_row(kernel):
        call = kernel.expressions.use("join_to")
        join = kernel.memory_joiner(node.joins, node.dtype, node.name)
        kernel.out.line(f"{call}({node.name}_row + {grouped(at)}, {added}, {join});")


def is_copied(kernel: CudaKernel, name: str) -> bool:
    """Whether the loop at hand copies a tensor to shared memory, past the registers."""
    sharing, array = kernel.around.sharing, kernel.facts.arrays.get(name)
    if sharing is None or sharing.binding is Binding.ENDS or array is None:
        return False
    filled = {node.name for node in sharing.body if isinstance(node, Keep)}
    fills = name in filled and any(load.name == name for load in reads_in(sharing.body))
    return fills and array.place is Place.SHARED


def _kept_at(kernel: CudaKernel, name: str) -> str:
    """What a thread kept of a tensor in a round: an element, or the address of several."""
    array = kernel.facts.arrays[name]
    if _at_ends(kernel):
        return f"{name}_end"
    if array.place is Place.REGISTERS:
        return f"{name}_kept[round]"
    return f"*({_kept_address(kernel, name)})" if array.lanes == 1 else _kept_address(kernel, name)


def _at_ends(kernel: CudaKernel) -> bool:
    """Whether single elements are at hand, before or after the whole vectors of a row."""
    sharing = kernel.around.sharing
    return sharing is not None and sharing.binding is Binding.ENDS


def _kept_address(kernel: CudaKernel, name: str) -> str:
    """Where a thread keeps it in shared memory."""
    thread = "thread" if kernel.facts.team is Team.BLOCK else "threadIdx.y * 32 + threadIdx.x"
    number = f"round * {kernel.facts.block_threads} + {thread}"
    return f"{name}_kept + {times(number, kernel.facts.arrays[name].lanes)}"
