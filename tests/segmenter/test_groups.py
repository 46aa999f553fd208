"""Groups as they are made: what they load, store and move, and why some are no kernel."""

from dataclasses import replace

import torch

from fuser import DataType
from fuser.ir.nodes import Fusion
from fuser.ir.printer import operation_name
from fuser.segmenter.graph import build_graph
from fuser.segmenter.groups import Group, GroupMaker
from fuser.segmenter.machine import GPU, PROCESSOR, Limits, Machine
from fuser.segmenter.prices import Prices
from fuser.segmenter.refusal import Refusal
from fuser.segmenter.rows import Rows
from fuser.segmenter.work import size_in_text
from tests.definitions import defined
from tests.row_functions import softmax
from tests.segmented import concrete, memory_of


def maker(build, *inputs: torch.Tensor, machine: Machine = GPU) -> GroupMaker:
    """A maker for a definition whose outputs are all that must be stored."""
    fusion: Fusion = concrete(defined(build, *inputs).fusion, inputs)
    stored = [value for value in fusion.output_values if value.is_tensor]
    return GroupMaker(build_graph(fusion, memory_of(fusion, inputs), stored), stored, machine)


def nodes(made: GroupMaker, *names: str) -> list[int]:
    """The nodes of these operations, in order."""
    all_names = [operation_name(node.op) for node in made.operations.nodes]
    return [all_names.index(name) for name in names]


def words(group: Group) -> tuple[list[str], list[str]]:
    return [value.name for value in group.loads], [value.name for value in group.stores]


X = torch.empty(8, 6, device="meta")


def test_one_node_loads_what_it_reads_and_stores_what_is_read():
    made = maker(softmax, X)
    (sub,) = nodes(made, "sub")
    single = made.single(sub)
    assert words(single) == (["T0", "T1"], ["T2"])
    assert single.moved == (8 * 6 * 2 + 8) * 4
    assert single.rows is None


def test_a_reduction_alone_has_rows():
    made = maker(softmax, X)
    (reduction,) = nodes(made, "max")
    rows = made.single(reduction).rows
    assert isinstance(rows, Rows)
    assert made.operations.atoms.elements(rows.kept) == 8


def test_what_passes_between_two_groups_is_not_moved():
    made = maker(softmax, X)
    sub, exp = nodes(made, "sub", "exp")
    joined = made.united([made.single(sub), made.single(exp)], {sub, exp}.__contains__)
    assert words(joined) == (["T0", "T1"], ["T3"])
    assert joined.moved == made.single(sub).moved
    assert joined.members == (sub, exp)


def test_groups_of_nodes_are_what_joining_makes():
    made = maker(softmax, X)
    whole = made.of_nodes(range(5))
    parts = made.single(0)
    for node in range(1, 5):
        parts = made.united([parts, made.single(node)], set(range(node + 1)).__contains__)
    assert words(parts) == words(whole) == (["T0"], ["T5"])
    assert (parts.moved, parts.arithmetic) == (whole.moved, whole.arithmetic)


def test_an_output_is_stored_though_only_the_group_reads_it():
    def build(fd, x):
        y = fd.ops.exp(x)
        return [y, y * 2.0]

    assert words(maker(build, X).of_nodes([0, 1])) == (["T0"], ["T1", "T3"])


def test_a_softmax_passes_the_guards_and_its_rows_are_swept_again():
    made = maker(softmax, X)
    checked = made.checked(made.of_nodes(range(5)), related=True)
    assert isinstance(checked, Group)
    assert checked.rows is not None
    assert checked.rows.swept_again
    assert checked.domain == (8, 6)
    assert Prices(made).cost(checked) >= checked.moved + GPU.launch_bytes


def test_too_many_of_anything_is_no_kernel():
    for limits, words_ in (
        ({"of_rows": Limits(tensors=1, live=64)}, "2 tensors are more than the 1 of one kernel"),
        ({"most_operations": 1}, "a kernel of more than 1 operations compiles slowly"),
        ({"of_rows": Limits(tensors=48, live=1)}, "values at a time do not fit the registers"),
    ):
        made = maker(softmax, X, machine=replace(GPU, **limits))
        refusal = made.checked(made.of_nodes(range(5)), related=True)
        assert isinstance(refusal, Refusal)
        assert words_ in refusal.reason


def test_roundings_in_software_count_as_the_text_that_they_are():
    def build(fd, x):
        for dtype in (DataType.Half, DataType.BFloat16, DataType.Float8_e5m2):
            x = fd.ops.cast(fd.ops.cast(x * 2.0, dtype), DataType.Float)
        return x

    for machine, dtype_sizes in ((GPU, [1, 1, 1]), (PROCESSOR, [8, 1, 16])):
        made = maker(build, X)
        casts = [node.op for node in made.operations.nodes if operation_name(node.op) == "cast"]
        assert [size_in_text(op, machine) for op in casts[::2]] == dtype_sizes
        assert [size_in_text(op, machine) for op in casts[1::2]] == [1, 1, 1]


def test_a_chain_of_roundings_is_several_kernels_of_a_processor_only():
    def build(fd, x):
        for _ in range(150):
            x = fd.ops.cast(fd.ops.cast(x * 0.9, DataType.Half), DataType.Float)
        return x

    for machine, fits in ((GPU, True), (PROCESSOR, False)):
        made = maker(build, X, machine=machine)
        whole = made.checked(made.of_nodes(range(450)), related=True)
        assert isinstance(whole, Group) == fits
        assert isinstance(made.checked(made.of_nodes(range(225)), related=True), Group)


def test_other_domains_are_no_kernel_unless_related():
    def build(fd, x, y):
        return [fd.ops.exp(x), fd.ops.exp(y)]

    apart = maker(build, X, torch.empty(6, 8, device="meta"))
    refusal = apart.checked(apart.of_nodes([0, 1]), related=False)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "nothing relates their domains, and they differ"
    assert isinstance(apart.checked(apart.of_nodes([0, 1]), related=True), Group)
    longer = maker(build, X, torch.empty(9, 9, device="meta"))
    refusal = longer.checked(longer.of_nodes([0, 1]), related=True)
    assert isinstance(refusal, Refusal)
    assert "T2 has 48, T3 has 81 elements" in refusal.reason


def test_a_long_group_is_named_by_its_ends():
    made = maker(softmax, X)
    assert made.listed([0, 1]) == "T1=max, T2=sub"
    assert made.listed(range(5)) == "T1=max, T2=sub, ..., T5=truediv"
