"""How many elements a kernel needs of what it reads, and the bytes of that."""

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.ir.nodes import Value
from fuser.ir.strided import Strided, row_major
from fuser.ir.types import TensorType
from fuser.segmenter.traffic import byte_count, bytes_moved, bytes_written, elements_read


def tensor(id_: int, *shape: int, dtype: DataType = DataType.Float) -> Value:
    return Value(id_, TensorType(dtype, shape))


def test_a_gather_reads_no_more_than_it_makes():
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.empty(1000, 16), static_sizes=True)
        index = fd.from_pytorch(torch.zeros(8, dtype=torch.int64), static_sizes=True)
        fd.add_output(fd.ops.exp(fd.ops.index_select(x, index, 0)))
    assert elements_read(fd.fusion) == {x.value: 8 * 16, index.value: 8}


def test_what_is_also_read_whole_counts_once():
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.empty(8, 100), static_sizes=True)
        index = fd.from_pytorch(torch.zeros(8, 1, dtype=torch.int64), static_sizes=True)
        total = fd.ops.sum(x, [1], keepdim=True)
        fd.add_output(fd.ops.sub(fd.ops.gather(x, index, 1), total))
    assert elements_read(fd.fusion)[x.value] == 8 * 100


def test_a_slice_is_all_that_is_read_of_what_leads_to_it():
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.empty(100), static_sizes=True)
        fd.add_output(fd.ops.neg(fd.ops.slice(fd.ops.exp(x), [0], [10])))
    assert elements_read(fd.fusion) == {x.value: 10}


def test_an_input_nobody_needs_is_not_read():
    with FusionDefinition() as fd:
        x, y = (fd.from_pytorch(torch.empty(4), static_sizes=True) for _ in range(2))
        fd.add_output(fd.ops.neg(x))
    assert elements_read(fd.fusion) == {x.value: 4, y.value: 0}


def test_stores_are_moved_whole():
    x, y = tensor(0, 1000), tensor(1, 1000, dtype=DataType.Half)
    assert bytes_written([x, y], {}) == 4000 + 2000


def test_views_of_one_buffer_are_moved_once():
    x, view = tensor(0, 1000), tensor(1, 10, 100)
    memory = {x: row_major(x), view: Strided(x, (10, 100), (100, 1))}
    assert bytes_moved({x: 1000, view: 1000}, memory) == 4000


def test_an_expanded_operand_moves_what_it_has():
    x = tensor(0, 1000, 10)
    assert bytes_moved({x: 10000}, {x: Strided(tensor(1, 10), (1000, 10), (0, 1))}) == 40


def test_disjoint_views_of_one_buffer_are_both_moved():
    x = tensor(0, 2000)
    halves = {
        tensor(1, 1000): Strided(x, (1000,), (1,)),
        tensor(2, 1000): Strided(x, (1000,), (1,), 1000),
    }
    assert bytes_moved(dict.fromkeys(halves, 1000), halves) == 8000


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (100_663_296, "100.7 MB"),
        (2 * 10**9, "2.0 GB"),
    ],
)
def test_bytes_are_written_for_a_person(count: int, words: str):
    assert byte_count(count) == words
