import torch

from fuser import DataType, FusionDefinition
from fuser.ir.nodes import Fusion
from fuser.ir.strided import row_major
from fuser.segmenter import PROCESSOR
from fuser.segmenter.bookends import input_aliases
from fuser.segmenter.graph import OperationGraph, build_graph, is_extern
from fuser.segmenter.work import operation_cost


def graph_of(fusion: Fusion) -> OperationGraph:
    memory = {value: row_major(value) for value in fusion.inputs if value.is_tensor}
    results = {out: row_major(out) for s in fusion.statements if is_extern(s) for out in s.outs}
    free, _ = input_aliases(fusion, {**memory, **results})
    return build_graph(fusion, free, [v for v in fusion.output_values if v not in free])


def names(graph: OperationGraph) -> list[str]:
    return [str(statement.out) for statement in (*graph.nodes, *graph.externs)]


def edges(graph: OperationGraph) -> set[tuple[str, str]]:
    named = names(graph)
    return {(named[a], named[b]) for a, b in graph.graph.edges}


def test_metadata_inside_is_no_node_and_edges_go_through_it():
    # T1 = exp(T0); T2 = view(T1); T3 = neg(T2)     ->     T1 -> T3
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.randn(4, 6), static_sizes=True)
        y = fd.ops.reshape(fd.ops.exp(x), [6, 4])
        fd.add_output(fd.ops.neg(y))

    graph = graph_of(fd.fusion)

    assert names(graph) == ["T1", "T3"]
    assert edges(graph) == {("T1", "T3")}
    assert [[str(read.value) for read in reads] for reads in graph.reads] == [["T0"], ["T1"]]


def test_what_no_output_needs_is_no_node():
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.randn(4), static_sizes=True)
        fd.ops.exp(x)
        fd.add_output(fd.ops.neg(x))
    assert names(graph_of(fd.fusion)) == ["T2"]


def test_paths_lead_through_torch_operations():
    # T1 = exp(T0); T2 = argsort(T1); T3 = broadcast(T2); T4 = neg(T3)     ->     T1 -> T2 -> T4
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.randn(4), static_sizes=True)
        total = fd.ops.argsort(fd.ops.exp(x), 0)
        fd.add_output(fd.ops.neg(fd.ops.broadcast(total, [False, True])))
    with_stored = fd.fusion
    exp = with_stored.statements[0].out
    memory = {with_stored.inputs[0]: row_major(with_stored.inputs[0])}
    memory |= {s.out: row_major(s.out) for s in with_stored.statements if is_extern(s)}
    free, _ = input_aliases(with_stored, memory)

    graph = build_graph(with_stored, free, [exp, *with_stored.output_values])

    assert edges(graph) == {("T1", "T2"), ("T2", "T4")}


def test_reads_out_of_place_are_found_through_metadata():
    # T1 = exp(T0) [6, 4]; T2 = slice(T1) [6, 2]; T3 = permute(T2); T4 = neg(T3)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.randn(6, 4), static_sizes=True)
        part = fd.ops.slice(fd.ops.exp(x), [0, 0], [6, 2])
        fd.add_output(fd.ops.neg(fd.ops.permute(part, [1, 0])))

    graph = graph_of(fd.fusion)

    (read,) = graph.reads[1]
    assert graph.atoms.sizes(read.misplaced) == [4]


def test_sums_and_multiples_of_positions_are_positions():
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.randn(6, 8), static_sizes=True)
        rows = fd.ops.iota(6, 0, 1, DataType.Int)
        starts = fd.ops.sub(fd.ops.mul(rows, 8), 3)
        table = fd.ops.add(
            fd.ops.broadcast(starts, [False, True]),
            fd.ops.broadcast(fd.ops.iota(8, 0, 1, DataType.Int), [True, False]),
        )
        squares = fd.ops.mul(rows, rows)
        cut = fd.ops.maximum(starts, 0)
        halves = fd.ops.mul(fd.ops.cast(rows, DataType.Float), 0.5)
        read = fd.ops.add(fd.ops.cast(x, DataType.Int), table)
        others = [fd.ops.broadcast(y, [False, True]) for y in (squares, cut, halves)]
        fd.add_output(sum(others, read))

    graph = graph_of(fd.fusion)

    assert {f"{v}" for v in graph.positions} >= {f"T{h.value.id}" for h in (rows, starts, table)}
    found = {f"T{h.value.id}" for h in (squares, cut, halves, read, *others)}
    assert found.isdisjoint(map(str, graph.positions))
    costs = [operation_cost(graph, m, PROCESSOR) for m in range(len(graph.nodes))]
    free = [cost == 0 for cost in costs]
    assert free == [statement.out in graph.positions for statement in graph.nodes]
