import networkx as nx
import torch

from fuser import FusionDefinition
from fuser.ir.nodes import Fusion
from fuser.ir.strided import row_major
from fuser.segmenter.bookends import input_aliases
from fuser.segmenter.graph import (
    OperationGraph,
    build_graph,
    contract,
    execution_order,
    has_detour,
    is_extern,
)


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
    assert [list(map(str, reads)) for reads in graph.reads] == [["T0"], ["T1"]]


def test_what_no_output_needs_is_no_node():
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.randn(4), static_sizes=True)
        fd.ops.exp(x)
        fd.add_output(fd.ops.neg(x))
    assert names(graph_of(fd.fusion)) == ["T2"]


def test_paths_lead_through_torch_operations():
    # T1 = exp(T0); T2 = sum(T1); T3 = broadcast(T2); T4 = neg(T3)     ->     T1 -> T2 -> T4
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.randn(4, 6), static_sizes=True)
        total = fd.ops.sum(fd.ops.exp(x), [1])
        fd.add_output(fd.ops.neg(fd.ops.broadcast(total, [False, True])))
    with_stored = fd.fusion
    exp = with_stored.statements[0].out
    memory = {with_stored.inputs[0]: row_major(with_stored.inputs[0])}
    memory |= {s.out: row_major(s.out) for s in with_stored.statements if is_extern(s)}
    free, _ = input_aliases(with_stored, memory)

    graph = build_graph(with_stored, free, [exp, *with_stored.output_values])

    assert edges(graph) == {("T1", "T2"), ("T2", "T4")}


def test_a_detour_is_a_path_through_a_third_node():
    graph = nx.DiGraph([(0, 1), (0, 2), (2, 1), (3, 1)])
    assert has_detour(graph, 0, 1)
    assert not has_detour(graph, 3, 1)
    assert not has_detour(graph, 1, 0)


def test_contracting_moves_edges_and_leaves_no_loop():
    graph = nx.DiGraph([(0, 1), (1, 2), (3, 1)])
    contract(graph, 0, 1)
    assert set(graph.edges) == {(0, 2), (3, 0)}


def test_execution_order_follows_edges_and_then_numbers():
    graph = nx.DiGraph([(4, 0)])
    graph.add_nodes_from([3, 1, 2])
    assert execution_order(graph) == [1, 2, 3, 4, 0]
