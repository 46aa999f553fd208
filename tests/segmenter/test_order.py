"""The graph of groups under merges, against networkx on the whole graph."""

import random

import networkx as nx
import pytest

from fuser.segmenter.order import MergeOrder


def test_a_detour_is_a_path_through_a_third_node():
    order = MergeOrder(nx.DiGraph([(0, 1), (0, 2), (2, 1), (3, 1)]))
    assert order.detour(0, 1) == order.detour(1, 0) == 2
    assert order.detour(3, 1) is None
    assert order.detour(0, 3) is None


def test_merging_moves_edges_and_leaves_no_loop():
    order = MergeOrder(nx.DiGraph([(0, 1), (1, 2), (3, 1)]))
    order.merge(0, 1)
    assert set(order.graph.edges) == {(0, 2), (3, 0)}
    assert order.execution_order(lambda node: node) == [3, 0, 2]


def test_execution_order_follows_edges_and_then_places():
    graph = nx.DiGraph([(4, 0)])
    graph.add_nodes_from([3, 1, 2])
    order = MergeOrder(graph)
    assert order.execution_order(lambda node: node) == [1, 2, 3, 4, 0]
    assert order.execution_order(lambda node: -node) == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("seed", range(40))
def test_random_merges_keep_a_topological_order(seed: int):
    draw = random.Random(seed)
    count = draw.randint(5, 30)
    graph = nx.gnp_random_graph(count, draw.uniform(0.02, 0.3), seed=seed, directed=True)
    graph = nx.DiGraph([(a, b) for a, b in graph.edges if a < b])
    graph.add_nodes_from(range(count))
    order = MergeOrder(graph)
    for _ in range(3 * count):
        if len(order.graph) < 2:
            break
        one, other = draw.sample(sorted(order.graph.nodes), 2)
        between = order.detour(one, other)
        assert (between is not None) == _detour(order.graph, one, other)
        if between is None:
            order.merge(one, other)
        assert nx.is_directed_acyclic_graph(order.graph)
        assert all(order.position[a] < order.position[b] for a, b in order.graph.edges)
        assert len(set(order.position.values())) == len(order.graph)


def _detour(graph: "nx.DiGraph[int]", one: int, other: int) -> bool:
    """A path of two edges or more, either way."""
    without = nx.DiGraph(graph)
    without.remove_edges_from([(one, other), (other, one)])
    return nx.has_path(without, one, other) or nx.has_path(without, other, one)
