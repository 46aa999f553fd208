"""How tensors lie in memory, as a definition declares it."""

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition, compute_contiguity, compute_tensor_descriptor
from fuser.errors import ArgumentError, ArgumentTypeError


def test_contiguity_is_that_of_row_major_order() -> None:
    assert compute_contiguity([2, 3, 4], [12, 4, 1]) == [True, True, True]
    assert compute_contiguity([2, 3, 4], [24, 4, 1]) == [False, True, True]
    assert compute_contiguity([2, 3, 4], [12, 4, 2]) == [True, False, False]
    assert compute_contiguity([4, 3], [1, 4]) == [False, False]
    assert compute_contiguity([2, 1, 4], [4, 4, 1]) == [True, None, True]
    assert compute_contiguity([2, 5, 4], [4, 0, 1]) == [True, None, True]
    assert compute_contiguity([], []) == []


def test_a_descriptor_sorts_by_stride_first() -> None:
    assert compute_tensor_descriptor([4, 3], [1, 4]) == ((True, True), (0, 1))
    assert compute_tensor_descriptor([2, 1, 4], [4, 4, 1]) == ((True, None, True), (2, 1, 0))


def test_a_definition_takes_what_was_computed() -> None:
    for x in (torch.randn(3, 4), torch.randn(3, 8)[:, ::2], torch.randn(3, 1).expand(3, 4)):
        with FusionDefinition() as fd:
            contiguity = compute_contiguity(x.shape, x.stride())
            t = fd.define_tensor(
                symbolic_sizes=[-1, -1], contiguous=contiguity, dtype=DataType.Float
            )
            fd.add_output(t * 2.0)
        assert torch.equal(fd.execute([x])[0], 2 * x)


@pytest.mark.parametrize("compute", [compute_contiguity, compute_tensor_descriptor])
def test_what_is_no_layout_is_refused(compute: Callable[..., object]) -> None:
    with pytest.raises(ArgumentError, match=r"strides = \[3\]: expected 2, one for each"):
        compute([2, 3], [3])
    with pytest.raises(ArgumentError, match=r"sizes = \[2, -3\]: 0 is the lowest"):
        compute([2, -3], [3, 1])
    with pytest.raises(ArgumentTypeError, match=r"sizes\[0\] must be an int, got float"):
        compute([2.0], [1])
    with pytest.raises(ArgumentTypeError, match="sizes must be a list or tuple, got NoneType"):
        compute(None, None)
