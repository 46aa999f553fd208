"""Results are compared with the oracle's, as far apart as rounding makes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle
from fuser.ir.comparison import check_results
from fuser.ir.interpret import interpret
from tests.definitions import defined

Build = Callable[[FusionDefinition, Handle], Handle]


def exp(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.exp(x)


def test_what_the_oracle_computes_passes_and_a_rounding_more():
    x = torch.randn(5, 7)
    fd = defined(exp, x)
    check_results(fd.fusion, [x], interpret(fd.fusion, [x]))
    check_results(fd.fusion, [x], [torch.nextafter(x.exp(), torch.tensor(torch.inf))])


def test_the_worst_element_is_named():
    x = torch.zeros(5, 7)
    fd, wrong = defined(exp, x), torch.ones(5, 7)
    wrong[1, 2], wrong[3, 4] = 1.25, 0.5
    with pytest.raises(errors.OutputDifferenceError) as caught:
        check_results(fd.fusion, [x], [wrong])
    assert str(caught.value) == (
        "output 0 (T1) is not what the oracle computes: 2 of 35 element(s) differ too much, most "
        "at [3, 4]: got 0.5, expected 1.0, allowed difference 1.91e-06"
    )


@pytest.mark.parametrize(
    ("got", "want"),
    [(float("nan"), 1.0), (1.0, float("nan")), (float("inf"), 1.0), (float("-inf"), float("inf"))],
)
def test_what_is_not_finite_must_be_the_same(got: float, want: float):
    x = torch.zeros(3)
    fd = defined(exp, x)
    with pytest.raises(errors.OutputDifferenceError, match=r"at \[1\]"):
        check_results(fd.fusion, [x], [torch.tensor([1, got, 1])], [torch.tensor([1, want, 1])])
    same = torch.tensor([want, got, 0.0])
    check_results(fd.fusion, [x], [same], [same.clone()])


def test_what_torch_refuses_needs_references():
    x = torch.tensor([4, 0])
    fd = defined(lambda fd, x: fd.ops.div(8, x), x)
    (got,) = fd.execute([x])
    with pytest.raises(errors.ReferenceRefusedError, match=r"ZeroDivisionError; give reference_"):
        fd.validate([x])
    check_results(fd.fusion, [x], [got], [torch.tensor([2, 0])])


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64], ids=str)
def test_copies_and_integers_are_equal(dtype: torch.dtype):
    x = torch.tensor([0, 1, 1]).to(dtype)
    fd = defined(lambda fd, x: fd.ops.reshape(x, [3, 1]), x)
    wrong = (x if dtype is not torch.float64 else x * (1 + 2**-52)).reshape(3, 1).clone()
    wrong[0] = 1
    with pytest.raises(errors.OutputDifferenceError):
        check_results(fd.fusion, [x], [wrong])


def test_scalars_of_no_dimensions_have_an_index_too():
    x = torch.zeros(())
    with pytest.raises(errors.OutputDifferenceError, match=r"at \[\]"):
        check_results(defined(exp, x).fusion, [x], [torch.tensor(2.0)])


def test_cancelled_digits_are_not_asked_for():
    # x - mean(x) of numbers about 1e4: a last bit of the mean is 1e-3.
    x = torch.randn(4, 100) + 1e4
    fd = defined(lambda fd, x: x - fd.ops.mean(x, [1], keepdim=True), x)
    exactly = (x.double() - x.double().mean(1, keepdim=True)).float()
    check_results(fd.fusion, [x], [exactly])
    with pytest.raises(errors.OutputDifferenceError):
        check_results(fd.fusion, [x], [exactly + 0.1])


def test_exact_numbers_are_asked_for_where_a_comparison_follows():
    # Every difference is exactly 0; were it thought rounded, either branch would be right.
    x = torch.full((8,), 0.25)
    fd = defined(lambda fd, x: fd.ops.where(fd.ops.ge(x * 2.0 - 0.5, 0.0), fd.ops.exp(x), 0.0), x)
    with pytest.raises(errors.OutputDifferenceError):
        check_results(fd.fusion, [x], [torch.zeros(8)])


def test_random_numbers_are_the_same_in_every_run_of_the_oracle():
    x = torch.randn(50)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output((t + fd.ops.rand_like(t)) * 1e4 - 1e4)
    torch.manual_seed(3)
    results = interpret(fd.fusion, [x])
    torch.manual_seed(3)
    check_results(fd.fusion, [x], results)
    torch.manual_seed(3)
    with pytest.raises(errors.OutputDifferenceError):
        check_results(fd.fusion, [x], [results[0] + 1.0])


def test_references_have_the_results_number_sizes_and_dtypes():
    x = torch.zeros(3)
    fd = defined(exp, x)
    results = [torch.ones(3)]
    check_results(fd.fusion, [x], results, [torch.ones(3)])
    for references, words in (
        ([], r"reference output 0: expected 1 tensor\(s\) in all, got 0"),
        ([torch.ones(3).int()], "got torch.int32 of sizes"),
        ([torch.ones(3) + 0j], "got torch.complex64 of sizes"),
        ([torch.ones(4).double()], r"got torch.float64 of sizes \[4\]"),
        ([torch.ones(4)], r"got torch.float32 of sizes \[4\]"),
        ([1.0], "got float"),
    ):
        with pytest.raises(errors.ReferenceOutputError, match=words):
            check_results(fd.fusion, [x], results, references)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_reference_of_another_float_type_is_compared_as_it_is(dtype: torch.dtype):
    x = torch.randn(100)
    fd = defined(exp, x)
    references = [x.double().exp().to(dtype)]
    check_results(fd.fusion, [x], [x.exp()], references)
    with pytest.raises(errors.OutputDifferenceError):
        check_results(fd.fusion, [x], [x.exp()], [references[0] * 1.02])


def test_an_output_written_into_an_input_is_no_result():
    x = torch.randn(4)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(t + 1.0, alias_input=t)
        fd.add_output(fd.ops.cast(t, DataType.Double))
    check_results(fd.fusion, [x], [x.double()])


@pytest.mark.parametrize("wrong", [1e-2, 1e-2j])
def test_cancelled_digits_of_complex_numbers(wrong: complex):
    x = torch.tensor([0.1 + 0.2j, -0.3j, 0.05], dtype=torch.complex64)
    fd = defined(lambda fd, x: fd.ops.exp(x) * 1e3 - fd.ops.exp(x) * 999.0, x)
    (want,) = interpret(fd.fusion, [x])
    check_results(fd.fusion, [x], [want + 2e-4 * wrong])
    with pytest.raises(errors.OutputDifferenceError):
        check_results(fd.fusion, [x], [want + wrong])
