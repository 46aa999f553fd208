"""Names of element types."""

import torch

from fuser import DataType, FusionDefinition


def test_older_names_are_the_same_members() -> None:
    assert DataType.Index is DataType.Int
    assert DataType.Char is DataType.Int8
    assert DataType.Null is None


def test_sizes_of_type_index_are_read_back() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1, -1], contiguity=True)
        columns = fd.define_scalar(None, dtype=DataType.Index)
        fd.add_output(fd.ops.sum(fd.ops.reshape(t, [2, columns]), [1], False, DataType.Null))
    (out,) = fd.execute([torch.ones(4, 4), 8])
    assert out.tolist() == [8.0, 8.0]
