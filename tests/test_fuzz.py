"""A few of the fusions that `make fuzz` makes very many of; and that what fails is made smaller."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import OutputDifferenceError
from fuser.ir.nodes import Fusion, Pointwise
from fuser.ir.pointwise import TABLE
from fuser.ir.printer import operation_name
from fuser.runtime.backend import CpuBackend
from fuser.runtime.calls.executor import Runner
from tests import (
    compiled_programs,
    fuzz,
    random_functions,
    random_library,
    random_row_steps,
    random_scatters,
    random_steps,
)
from tests.program_patterns import STATEMENTS, VALUES
from tests.random_programs import Line, Program, program_of
from tests.random_values import LARGE, SMALL, overlaps_itself
from tests.smaller import Inputs, smallest


@pytest.mark.parametrize(("target", "count"), [("cpu", 12), ("emulator", 8), (fuzz.COMPILED, 6)])
def test_new_fusions_agree_with_the_oracle(target: str, count: int):
    first = random.randrange(1 << 40)  # what fails names its seed
    assert fuzz.replay(target, range(first, first + count)) == 0


def test_a_seed_is_one_fusion():
    first, second, other = (repr(fuzz.definition_of(seed)) for seed in (7, 7, 8))
    assert first == second != other


def test_a_seed_is_one_program():
    first, second, other = (program_of(seed) for seed in (7, 7, 8))
    assert first.text == second.text != other.text
    for ours, theirs in zip(first.inputs, second.inputs, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
        assert ours.stride() == theirs.stride()


SIZES = ((2, 4, 6, 8), (2, 4, 6), (8, 8), (6, 3), (16,))
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)


@pytest.mark.parametrize("pattern", sorted({*VALUES, *STATEMENTS}))
def test_a_pattern_is_a_line_that_eager_computes(pattern: str):
    """None is there in vain."""
    numbers = [torch.linspace(-3, 3, math.prod(sizes)).view(sizes) for sizes in SIZES]
    inputs = tuple(x.to(dtype) for dtype in DTYPES for x in numbers)
    empty = Program((), (), inputs, trained=False)
    values = empty.values()
    assert values
    lines = (Line(random.Random(seed), values).drawn(pattern) for seed in range(2000))
    programs = (dataclasses.replace(empty, lines=(line,)) for line in filter(None, lines))
    assert any(program.values() is not None for program in programs)


def test_what_compiled_programs_do_otherwise_is_found(monkeypatch: pytest.MonkeyPatch):
    x = torch.linspace(-1, 1, 12).view(3, 4)
    program = Program(("t0 = a.sin()", "a.mul_(2)", "t2 = t0 + a"), ("t2",), (x,), trained=False)
    assert compiled_programs.failure(program, None) == ""
    compiled = compiled_programs.compiled

    def wrong(program: Program, backend: str, dynamic: bool | None) -> Callable[..., object]:
        function = compiled(program, backend, dynamic)
        by = 1e-3 * (backend == "fuser")
        return lambda *given: tuple(result + by for result in function(*given))

    monkeypatch.setattr(compiled_programs, "compiled", wrong)
    assert compiled_programs.failure(program, None).startswith("numbers: ")


def test_results_in_the_memory_of_inputs_are_found(monkeypatch: pytest.MonkeyPatch):
    program = Program(("t0 = a * 1",), ("t0",), (torch.ones(3),), trained=False)

    def wrong(program: Program, backend: str, dynamic: bool | None) -> Callable[..., object]:
        return (lambda a: (a,)) if backend == "fuser" else program.function()

    monkeypatch.setattr(compiled_programs, "compiled", wrong)
    assert compiled_programs.failure(program, None).startswith("memory: ")


def test_smaller_programs_have_fewer_lines_or_results():
    x = torch.ones(3)
    program = Program(("t0 = a + 1", "t1 = t0 * 2", "t2 = a.sin()"), ("t1", "t2"), (x,), True)
    smaller = list(compiled_programs.parts(program))
    assert not smaller[0].trained
    assert [part.returned for part in smaller[1:3]] == [("t1",), ("t2",)]
    assert all(len(part.lines) == 2 for part in smaller[3:])
    assert smaller[-1].values() is None  # t0 is read


def test_every_family_takes_part():
    steps = set(fuzz.every_step())
    for module in (
        random_functions,
        random_library,
        random_steps,
        random_row_steps,
        random_scatters,
    ):
        for name, family in vars(module).items():
            if name.isupper() and isinstance(family, tuple) and all(map(callable, family)):
                assert steps.issuperset(family), name


def test_every_row_of_the_pointwise_table_is_drawn():
    drawn: set[str] = set()
    for seed in range(400):
        with FusionDefinition() as fd:
            fuzz.definition_of(seed).build(fd)
        operations = (statement.op for statement in fd.fusion.statements)
        drawn |= {op.op for op in operations if isinstance(op, Pointwise)}
        if drawn == set(TABLE):
            return
    assert drawn == set(TABLE)


def test_seeds_take_turns_in_all_mappings():
    kinds: set[object] = set()
    for number in range(len(fuzz.CPU_PARAMETERS)):
        with fuzz.mapped("cpu", number):
            kinds.add((CpuBackend.point_parameters, CpuBackend.row_parameters))
    assert len(kinds) == len(fuzz.CPU_PARAMETERS)


def test_seeds_take_turns_in_how_large_tensors_are():
    scales = [fuzz.scale_of(seed) for seed in range(2 * fuzz.ONE_SCALE)]
    assert set(scales) == {SMALL, LARGE}
    mappings = len(fuzz.CPU_PARAMETERS) * len(fuzz.EMULATED_PLACES)
    assert scales.count(LARGE) == scales.count(SMALL) >= mappings
    sizes = [
        given.numel()
        for seed, scale in enumerate(scales)
        if scale is LARGE
        for given in fuzz.definition_of(seed).inputs
        if isinstance(given, torch.Tensor)
    ]
    assert max(sizes) > SMALL.max_elements * 8


# -- failures ------------------------------------------------------------------------------------


def test_a_wrong_result_is_printed_as_a_script_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = Runner.run.func

    def wrong(self: Runner, inputs: Inputs) -> list[torch.Tensor]:
        return [r.logical_not().to(r.dtype) for r in run(self)(inputs)]

    monkeypatch.setattr(Runner, "run", wrong)
    assert fuzz.replay("cpu", [2]) == 1
    text = capsys.readouterr().out
    assert "--target cpu --replay 2\n" in text
    assert "# OutputDifferenceError: " in text
    script = text[text.index("import torch") :]
    with pytest.raises(Exception, match="is not what the oracle computes"):
        exec(script, {})
    monkeypatch.undo()
    exec(script, {})


def test_what_is_written_in_place_is_compared(monkeypatch: pytest.MonkeyPatch):
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        fd.add_output(x + 1.0, alias_input=x)
    given = torch.ones(3)
    assert fuzz.failure(fd.fusion, [given], "cpu") is None
    assert given.tolist() == [1, 1, 1]
    monkeypatch.setattr(Runner, "run", lambda *_: [])
    assert isinstance(fuzz.failure(fd.fusion, [given], "cpu"), OutputDifferenceError)


def test_an_input_that_is_changed_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        fd.add_output(x + 1.0)
    given = torch.ones(3)
    monkeypatch.setattr(Runner, "run", lambda _, inputs: [inputs[0].add_(1)])
    assert "was changed" in str(fuzz.failure(fd.fusion, [given], "cpu"))
    assert given.tolist() == [1, 1, 1]


def test_what_is_written_is_in_all_inputs_of_that_memory():
    with FusionDefinition() as fd:
        x, y = fd.define_tensor(shape=[-1, -1]), fd.define_tensor(shape=[-1, -1])
        fd.add_output(x + y, alias_input=x)
    given = torch.arange(9.0).view(3, 3)
    assert fuzz.failure(fd.fusion, [given, given.T], "cpu") is None
    assert fuzz.failure(fd.fusion, [given[1:], given[:2]], "cpu") is None


def test_results_that_a_later_call_changes_are_a_failure(monkeypatch: pytest.MonkeyPatch):
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1]) + 1.0)
    given, held = torch.arange(3.0), torch.empty(3)
    monkeypatch.setattr(Runner, "run", lambda _, inputs: [held.copy_(inputs[0] + 1)])
    assert "was changed by the next call" in str(fuzz.failure(fd.fusion, [given], "cpu"))


def test_outputs_that_are_not_apart_where_they_should_be_are_a_failure(
    monkeypatch: pytest.MonkeyPatch,
):
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.permute(fd.define_tensor(shape=[-1, -1]), [1, 0]))
    given = torch.randn(3, 4)
    assert fuzz.failure(fd.fusion, [given], "cpu") is None
    monkeypatch.setattr(Runner, "run_apart", lambda _, inputs: [inputs[0].T])
    assert "lies in memory of ['input 0']" in str(fuzz.failure(fd.fusion, [given], "cpu"))


@pytest.mark.parametrize("other", [(3, 3), (4, 3)])
def test_calls_of_other_sizes_and_strides_are_compared(
    other: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1, -1], contiguity=False) + 1.0)
    run = Runner.run.func

    def wrong(self: Runner, inputs: Inputs) -> list[torch.Tensor]:
        is_other = inputs[0].shape == other and (other == (3, 3) or inputs[0].stride() == (1, 4))
        return run(self)([x + is_other for x in inputs])

    monkeypatch.setattr(Runner, "run", wrong)
    (found,), error = fuzz.first_failure(fd.fusion, [torch.ones(4, 3)], "cpu")
    assert isinstance(error, OutputDifferenceError)
    assert found.shape == other


NOT_AS_EAGER = {
    "memory of": lambda x: x,
    "strides": lambda x: x.T.contiguous().T + 0.0,
    "zero(s)": lambda x: x.clone(),
}


@pytest.mark.parametrize("what", sorted(NOT_AS_EAGER))
def test_what_only_numbers_do_not_show_is_compared(what: str, monkeypatch: pytest.MonkeyPatch):
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1, -1]) + 0.0)
    given = torch.full((2, 3), -0.0)
    assert fuzz.failure(fd.fusion, [given], "cpu") is None
    monkeypatch.setattr(Runner, "run", lambda _, inputs: [NOT_AS_EAGER[what](inputs[0])])
    given = given.abs() if what == "memory of" else given
    assert what in str(fuzz.failure(fd.fusion, [given], "cpu"))


def test_all_kinds_of_inputs_are_drawn():
    found: set[object] = set()
    for seed in range(120):
        for given in fuzz.definition_of(seed).inputs:
            if isinstance(given, torch.Tensor):
                found |= {given.dtype, *_kinds(given)}
    assert found >= {dtype.torch for dtype in DataType}
    assert found >= {"0-dim", "empty", "permuted", "expanded", "overlapping", "offset", "gaps"}
    assert found >= {"NaN", "infinite", "negative zero", "extreme"}


def test_inputs_are_drawn_that_share_memory_and_outputs_that_are_written_to_several():
    kinds: set[object] = set()
    for seed in range(150):
        definition = fuzz.definition_of(seed)
        with FusionDefinition() as fd:
            definition.build(fd)
        held = [given for given in definition.inputs if isinstance(given, torch.Tensor)]
        kinds |= {type(given) for given in definition.inputs}
        kinds.add(("shared", len({x.untyped_storage().data_ptr() for x in held}) < len(held)))
        kinds.add(("written", min(len(fd.fusion.updated), 2)))
        kinds.add(("twice", len(set(fd.fusion.output_values)) < len(fd.fusion.outputs)))
    assert kinds >= {torch.Tensor, float, int, bool, complex}
    assert kinds >= {("shared", True), ("written", 2), ("twice", True)}


def _kinds(given: torch.Tensor) -> set[str]:
    if given.dtype is torch.float4_e2m1fn_x2:
        given = given.view(torch.uint8)
    numbers = given.real.double() if given.is_complex() else given.double()
    strides = [s for n, s in zip(given.shape, given.stride(), strict=True) if n > 1]
    kinds = {
        "0-dim": not given.dim(),
        "empty": not given.numel(),
        "permuted": strides != sorted(strides, reverse=True),
        "expanded": 0 in strides,
        "overlapping": 0 not in strides and overlaps_itself(given),
        "offset": given.storage_offset() > 0,
        "gaps": bool(strides) and min(strides) > 1,
        "NaN": bool(numbers.isnan().any()),
        "infinite": bool(numbers.isinf().any()),
        "negative zero": bool((numbers.signbit() & (numbers == 0)).any()),
        "extreme": given.dtype is torch.int64 and bool((given == -(2**63)).any()),
    }
    return {kind for kind, is_there in kinds.items() if is_there}


def test_a_failing_fusion_is_cut_at_both_ends():
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        unused = fd.define_tensor(shape=[-1])
        s = fd.define_scalar(DataType.Double)
        y = fd.ops.exp(x) * s
        total = fd.ops.sum(y, [1])
        fd.add_output(fd.ops.neg(fd.ops.cast(total, DataType.Half)))
        fd.add_output(y)
        fd.add_output(unused)

    def has_a_sum(fusion: Fusion, inputs: Inputs) -> bool:
        assert len(fusion.inputs) == len(inputs)
        return any(operation_name(statement.op) == "sum" for statement in fusion.statements)

    given = torch.randn(3, 4)
    fusion, (made,) = smallest(fd.fusion, [given, torch.ones(2), 0.5], has_a_sum)
    (statement,) = fusion.statements
    assert operation_name(statement.op) == "sum"
    assert fusion.output_values == statement.outs
    torch.testing.assert_close(made, given.exp() * 0.5)


def test_what_fails_only_as_a_whole_stays_whole():
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        fd.add_output(fd.ops.exp(x))
        fd.add_output(fd.ops.neg(x))
    fusion, _ = smallest(fd.fusion, [torch.ones(2)], lambda f, _: len(f.outputs) == 2)
    assert len(fusion.outputs) == 2


# -- batches -------------------------------------------------------------------------------------


def in_place_of_python(script: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches run this shell script."""
    stand_in = directory / "python"
    stand_in.write_text(f"#!/bin/sh\n{script}\n")
    stand_in.chmod(0o755)
    monkeypatch.setattr(fuzz.sys, "executable", str(stand_in))


def test_seeds_count_up_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    in_place_of_python(f'echo "$@" >> {tmp_path}/called; echo "# seed 0"', tmp_path, monkeypatch)
    assert fuzz.main(["--target", "cpu", "--count", "250", "--seed", "7", "--jobs", "1"]) == 0
    called = [f"-m tests.fuzz --target cpu --replay {a} --count {b}" for a, b in BATCHES]
    assert (tmp_path / "called").read_text().splitlines() == called
    assert "cpu: 250 of 250 fusions in" in capsys.readouterr().out


BATCHES = ((7, 100), (107, 100), (207, 50))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('echo "# seed 7"; kill -SEGV $$', "# seed 7 of cpu ended the process (-11)"),
        ('echo "# seed 7"; echo "what fails"; exit 1', "what fails"),
        ('echo "no such module" >&2; exit 2', "no such module"),
    ],
)
def test_a_batch_that_fails_is_said(
    script: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    in_place_of_python(script, tmp_path, monkeypatch)
    assert fuzz.main(["--target", "cpu", "--count", "3", "--jobs", "1"]) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--count=-5", "--count=0", "--count=some", "--jobs=0"])
def test_a_number_of_nothing_is_refused(option: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        fuzz.main([option])
    assert ended.value.code == 2
    assert "expected a whole number from 1 on" in capsys.readouterr().err
