"""Scripts that repeat an execution define, plan and run the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from fuser import DataType, Fusion, FusionDefinition, errors
from fuser.frontend.flattened import Inputs
from fuser.frontend.handles import Handle
from fuser.frontend.repro import form_of
from fuser.runtime.calls.call import alignment


@pytest.fixture(autouse=True)
def _oracle() -> None:
    """These run the real thing."""


def defined(build: Callable[..., Handle], *inputs: object) -> FusionDefinition:
    """What is built from tensors, runtime scalars (Python numbers) and vectors (lists)."""
    of_number = {bool: DataType.Bool, int: DataType.Int, float: DataType.Double}
    with FusionDefinition() as fd:
        handles: list[object] = []
        for given in inputs:
            if isinstance(given, torch.Tensor):
                handles.append(fd.from_pytorch(given))
            elif isinstance(given, list):
                handles.append(fd.define_vector(len(given)))
            else:
                dtype = of_number.get(type(given), DataType.ComplexDouble)
                handles.append(fd.define_scalar(None, dtype))
        fd.add_output(build(fd, *handles))
    return fd


def repeated(fd: FusionDefinition, inputs: Inputs, **options: object) -> dict[str, object]:
    """The names of the script's module once it has run; it defined and planned the same."""
    scope: dict[str, object] = {}
    exec(fd.repro_script_for(inputs, **options), scope)
    again = scope["fd"]
    assert isinstance(again, FusionDefinition)
    assert again.fusion == fd.fusion
    target = options.get("target")
    assert str(again.plan(scope["inputs"], target=target)) == str(fd.plan(inputs, target=target))
    return scope


def same_form(got: torch.Tensor, want: torch.Tensor) -> bool:
    return (
        got.shape == want.shape
        and got.stride() == want.stride()
        and got.dtype is want.dtype
        and got.device == want.device
        and alignment(got) == alignment(want)
    )


big = torch.arange(240.0)
TENSORS = {
    "contiguous": torch.randn(3, 4),
    "no dimensions": torch.tensor(2.5),
    "no elements": torch.randn(0, 5),
    "no elements and odd strides": torch.empty_strided((0, 5), (7, 3)),
    "permuted": torch.randn(4, 6, 10).permute(2, 0, 1),
    "every second column": torch.randn(12, 40)[:, ::2],
    "misaligned": big[1:13],
    "far into its storage": big[64:100].view(6, 6)[:, 1:],
    "expanded": torch.randn(12, 1).expand(12, 20),
    "overlapping": big.as_strided((5, 5), (1, 1), 3),
    "a stride nobody uses": big.as_strided((1, 6), (77, 1)),
    "half": torch.randn(3, 4).half()[:, 1:],
    "integers": torch.tensor([[5, -3], [7, 1 << 40]]),
    "largest integers": torch.tensor([torch.iinfo(torch.int64).max]),
    "bytes": torch.tensor([0, 255], dtype=torch.uint8),
    "truth": torch.tensor([True, False]),
    "complex": torch.randn(3, dtype=torch.complex64),
    "8-bit floats": torch.randn(4, 6).to(torch.float8_e4m3fn).t(),
    "8-bit scales": torch.tensor([0.5, 1.0, 2.0, 16.0]).to(torch.float8_e8m0fnu)[1:],
}


@pytest.mark.parametrize("kind", TENSORS)
def test_a_tensor_keeps_its_form(kind: str):
    x = TENSORS[kind]
    scope = repeated(defined(lambda fd, t: fd.ops.set(t), x), [x])
    (made,) = scope["inputs"]  # pyright: ignore[reportGeneralTypeIssues]
    assert same_form(made, x)
    if not (x.is_floating_point() or x.is_complex()) and x.numel():
        assert int(made.max()) <= int(x.max())
        assert int(made.min()) >= int(x.min()) - (int(x.min()) == 2**63 - 1)


@pytest.mark.parametrize("kind", TENSORS)
def test_a_tensor_keeps_its_numbers_where_asked_for(kind: str):
    x = TENSORS[kind]
    (made,) = repeated(defined(lambda fd, t: fd.ops.set(t), x), [x], numbers=True)["inputs"]  # pyright: ignore[reportGeneralTypeIssues]
    assert same_form(made, x)
    assert torch.equal(made, x)


@pytest.mark.parametrize("highest", [7, 2**53, 2**63 - 1, 2**64 - 1])
def test_unsigned_integers_of_64_bits_are_as_large_as_they_were(highest: int):
    x = torch.tensor([3, highest, 5], dtype=torch.uint64)
    fd = defined(lambda fd, t: fd.ops.set(t), x)
    (random,) = repeated(fd, [x])["inputs"]  # pyright: ignore[reportGeneralTypeIssues]
    assert same_form(random, x)
    assert all(3 <= number <= highest for number in random.tolist())
    (same,) = repeated(fd, [x], numbers=True)["inputs"]  # pyright: ignore[reportGeneralTypeIssues]
    assert torch.equal(same, x)


def test_numbers_that_are_not_finite_are_kept():
    x = torch.tensor([math.nan, -math.inf, -0.0])
    (made,) = repeated(defined(lambda fd, t: fd.ops.exp(t), x), [x], numbers=True)["inputs"]  # pyright: ignore[reportGeneralTypeIssues]
    assert repr(made) == repr(x)


def test_indices_stay_in_range():
    table, at = torch.randn(7, 3), torch.tensor([2, 3, 6, 5])
    fd = defined(lambda fd, t, i: fd.ops.exp(fd.ops.index_select(t, i, 0)), table, at)
    repeated(fd, [table, at])


def test_the_index_that_is_ignored_stays_the_only_one_below_zero():
    x, target = torch.randn(40, 3), torch.tensor([0, -100, 2, 1] * 10)

    def build(fd: FusionDefinition, x: Handle, target: Handle) -> Handle:
        known = fd.ops.where(fd.ops.ne(target, -100), target, 0)
        return fd.ops.gather(x, fd.ops.broadcast(known, [False, True]), 1)

    for _ in range(5):
        inputs = repeated(defined(build, x, target), [x, target])["inputs"]
        assert isinstance(inputs, list)
        assert set(inputs[1].tolist()) == {-100, 0, 1, 2}  # pyright: ignore


@pytest.mark.parametrize(
    "number",
    [
        *(True, -3, 1 << 40, 0.1, -0.0, 1e300, math.inf, -math.inf, math.nan),
        *(1 - 2j, complex(math.nan, -math.inf)),
    ],
)
def test_a_scalar_keeps_its_number(number: complex):
    x = torch.ones(3)
    fd = defined(lambda fd, t, s: fd.ops.where(fd.ops.ne(t, s), t, 0.5), x, number)
    (_, made) = repeated(fd, [x, number])["inputs"]  # pyright: ignore[reportGeneralTypeIssues]
    assert type(made) is type(number)
    assert repr(made) == repr(number)


def test_a_number_of_numpy_becomes_pythons():
    assert [form_of(n) for n in (np.float64(0.5), np.float32(0.5))] == ["0.5", "0.5"]
    assert [form_of(n) for n in (np.bool_(True), np.int64(3))] == ["True", "3"]


def nested() -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.ones(2)])


@pytest.mark.parametrize(
    "wrong", [None, "a", object(), torch.ones(2).to_sparse(), nested(), {1: [2]}]
)
def test_a_script_says_what_is_no_input(wrong: object):
    x = torch.ones(3)
    fd = defined(lambda fd, t: fd.ops.exp(t), x)
    scope: dict[str, object] = {}
    with pytest.raises(errors.FuserError) as theirs:
        exec(fd.repro_script_for([wrong]), scope)
    with pytest.raises(type(theirs.value)):
        fd.execute([wrong])
    plain = not isinstance(wrong, torch.Tensor) and type(wrong) is not object
    assert scope["inputs"] == [wrong if plain else repr(wrong)]


def test_vectors_stay_lists():
    x = torch.arange(6.0)
    fd = defined(lambda fd, shape, t: fd.ops.reshape(t, shape), [2, 3], x)
    scope = repeated(fd, [[2, 3], x])
    assert scope["inputs"][0] == [2, 3]  # pyright: ignore[reportIndexIssue]


def test_scalars_only():
    fd = defined(lambda fd, n: fd.ops.iota(n), 5)
    scope = repeated(fd, [5], device="cpu")
    assert scope["outputs"][0].tolist() == [0, 1, 2, 3, 4]  # pyright: ignore[reportIndexIssue]
    assert "fd.execute(inputs, device='cpu')" in fd.repro_script_for([5], device="cpu")


def test_a_target_is_kept():
    x = torch.randn(4)
    repeated(defined(lambda fd, t: fd.ops.exp(t), x), [x], target="emulator")


def test_without_inputs_the_script_defines_only():
    x = torch.randn(4)
    script = defined(lambda fd, t: fd.ops.exp(t), x).repro_script_for()
    scope: dict[str, object] = {}
    exec(script, scope)
    assert "inputs" not in scope
    assert "repro_script_for(inputs)" in script


def test_the_script_begins_with_versions_and_reads_well():
    x = torch.randn(4, 6)[:, 2:]
    fd = defined(lambda fd, t, s: t * s, x, math.nan)
    head, _, script = fd.repro_script_for([x, math.nan]).partition("\n\n")
    assert all(line.startswith("# ") for line in head.splitlines())
    assert torch.__version__ in head
    assert script == (
        "import torch\n"
        "\n"
        "from fuser import DataType, FusionDefinition\n"
        "\n"
        "\n"
        f"{fd}\n"
        "\n"
        "with FusionDefinition() as fd:\n"
        "    nvfuser_fusion(fd)\n"
        "\n"
        "inputs = [\n"
        "    torch.randn((24,), dtype=torch.float32, device='cpu').as_strided((4, 4), (6, 1), 2),\n"
        '    float("nan"),\n'
        "]\n"
        "outputs = fd.execute(inputs)\n"
    )


def test_a_definition_left_by_an_error_can_be_printed():
    fd = FusionDefinition()
    with pytest.raises(ZeroDivisionError), fd:
        fd.ops.neg(fd.define_tensor(shape=[-1])).size(1 // 0)
    script = fd.repro_script_for()
    assert "fd.ops.neg(T0)" in script
    assert "left by ZeroDivisionError" in script


# -- saved inputs --------------------------------------------------------------------------------


def test_the_last_execution_is_repeated_if_its_inputs_were_saved():
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        fd.add_output(fd.ops.exp(fd.define_tensor(shape=[-1])))
    fs.execute([torch.ones(3)])
    with pytest.raises(errors.NothingSavedError, match="save_repro_inputs"):
        fs.last_repro_script()
    fs.execute([torch.ones(5)[1:]], save_repro_inputs=True)
    fs.execute([torch.ones(7)])
    assert fs.last_repro_script() == fs.repro_script_for([torch.ones(5)[1:]])
    assert fd.last_repro_script() == fs.last_repro_script()


def test_inputs_are_saved_before_they_fail():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.exp(fd.define_tensor(shape=[-1])))
    with pytest.raises(errors.InputRankError):
        fd.execute([torch.ones(3, 4)], save_repro_inputs=True)
    assert "torch.randn((3, 4), " in fd.last_repro_script()


def test_no_tensor_is_kept_alive():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.exp(fd.define_tensor(shape=[-1])))
    x = torch.ones(3)
    before = torch._C._storage_Use_Count(x.untyped_storage()._cdata)  # pyright: ignore
    fd.execute([x], save_repro_inputs=True)
    assert torch._C._storage_Use_Count(x.untyped_storage()._cdata) == before  # pyright: ignore


def test_the_script_is_printed_where_asked_for(capsys: pytest.CaptureFixture[str]):
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.exp(fd.define_tensor(shape=[-1])))
    x = torch.ones(3)
    fd.execute([x], print_repro=True)
    assert capsys.readouterr().out == fd.repro_script_for([x])


# -- failures of the compiler --------------------------------------------------------------------


def failing(*_: object, **__: object) -> None:
    raise AssertionError("something is not as we thought")


@pytest.mark.parametrize("call", ["execute", "plan", "profile"])
def test_a_failure_of_the_compiler_points_to_the_script(call: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fuser.planning.segment", failing)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.exp(fd.define_tensor(shape=[-1])))
    with pytest.raises(AssertionError, match="as we thought") as caught:
        getattr(fd, call)([torch.ones(3)])
    assert ["repro_script_for(inputs)" in note for note in caught.value.__notes__] == [True]


def test_code_that_does_not_compile_points_to_the_script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fuser.runtime.cpu.kernel.FLAGS", ("-Dextern=undeclared",))
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.erf(fd.define_tensor(shape=[-1])) * 0.123)
    with pytest.raises(errors.CompilationError) as caught:
        fd.execute([torch.ones(3)])
    assert "repro_script_for(inputs)" in caught.value.__notes__[0]


def test_a_mistake_of_the_user_does_not():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.reshape(fd.define_tensor(shape=[-1]), [2, -1]))
    with pytest.raises(errors.ViewSizeError) as caught:
        fd.execute([torch.ones(3)])
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("numbers", [False, True])
def test_tensors_that_lie_in_another_still_do(numbers: bool):
    """What is written into an input that another overlaps is copied there, when all is done."""
    whole = torch.randn(20, 12)
    inputs = [whole[4:8, 1::2], whole, whole[5], torch.randn(6), whole]
    with FusionDefinition() as fd:
        part, t, *_ = (fd.from_pytorch(x) for x in inputs)
        fd.add_output(t * 2.0, alias_input=t)
        fd.add_output(part + 1.0)
    assert "shares memory with another input" in str(fd.plan(inputs))
    want = [x.clone() for x in inputs]
    made = repeated(fd, inputs, numbers=numbers)["inputs"]
    assert isinstance(made, list)
    assert all(same_form(got, x) for got, x in zip(made, inputs, strict=True))
    first = made[1].untyped_storage().data_ptr()
    assert [x.untyped_storage().data_ptr() == first for x in made] == [1, 1, 1, 0, 1]
    if numbers:  # they have been executed: all but one lie in what was doubled
        for at, (got, x) in enumerate(zip(made, want, strict=True)):
            torch.testing.assert_close(got, x if at == 3 else x * 2.0)
