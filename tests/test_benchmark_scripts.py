"""The benchmark scripts, as far as they run without a GPU and without time."""

from __future__ import annotations

import subprocess
import sys

import compile_times
import cpu
import dims
import elementwise
import function_cases
import functions
import instructions
import models
import partitions
import pytest
import ratios
import shapes
import torch
from cases import cases, small
from checks import WrongResultError
from harness import ROOT
from model_cases import SMALL


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the history")
def test_a_tree_is_measured_beside_an_earlier_one() -> None:
    command = [sys.executable, "benchmarks/before_after.py", "HEAD", "--only", "permute"]
    done = subprocess.run(
        [*command, "--rounds", "1", "--no-save"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    head, _, first, second = done.stdout.strip().splitlines()[-4:]
    assert head.split("  ")[-1].strip() == "before / now"
    assert first.startswith("permute [768, 128, 64]    f32")
    assert float(second.split()[-1]) > 0


def test_kernels_of_models_come_by_the_time_that_no_copy_would_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(partitions, "keep_freed", lambda: None)  # of this process, for good
    monkeypatch.setattr(partitions, "PARTS", (SMALL,))
    partitions.main(["--rounds", "1", "--below", "inf", "--least=-inf", "--no-save"])
    lines = capsys.readouterr().out.splitlines()
    (whole, *rows) = [line.split() for line in lines if line.startswith(f"{SMALL.name} ")]
    assert whole[1:3] == ["all", str(len(rows))]
    beyond = [float(row[4]) for row in rows]
    assert beyond == sorted(beyond, reverse=True)
    assert int(whole[3]) == sum(int(row[2]) for row in rows) > 0


def test_compiling_a_function_takes_time_by_every_backend(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    traced, ours, _ = compile_times.BACKENDS
    monkeypatch.setattr(compile_times, "BACKENDS", (traced, ours, traced))  # inductor takes long
    compile_times.main(["--only", "unit vectors", "--no-save"])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("unit vec")]
    seconds = [float(cell) for cell in row.removeprefix("unit vectors").split()]
    assert len(seconds) == len(compile_times.HEAD) - 1
    assert all(taken > 0 for taken in seconds)


def test_small_and_odd_shapes_have_a_row_for_each_kind_and_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ratios, "keep_freed", lambda: None)  # of this process, for good
    shapes.main(["--only", "sum all", "--rounds", "1", "--no-save"])
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines() if line.startswith("sum ")]
    assert [row[:3] for row in rows] == [["sum", "all", "f32"], ["sum", "all", "bf16"]]
    assert all(float(ratio) > 0 for row in rows for ratio in row[3:])
    assert len(rows[0]) == 3 + len(shapes.SHAPES)


def test_dimensions_have_a_row_for_each_operation_and_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ratios, "keep_freed", lambda: None)  # of this process, for good
    tall, images = dims.Place((50, 4), (0,)), dims.Place((2, 3, 4, 5), (2, 3), channels_last=True)
    monkeypatch.setattr(dims, "PLACES", (tall, images))
    few = {name: dims.OPERATIONS[name] for name in ("sum", "softmax", "normalized")}
    monkeypatch.setattr(dims, "OPERATIONS", few)
    monkeypatch.setattr(dims, "HEAD", ("operation", "dtype", str(tall), str(images)))
    dims.main(["--only", "", "--rounds", "1", "--no-save"])
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines() if line.split("  ")[0] in dims.OPERATIONS]
    integers = [name for name, operation in dims.OPERATIONS.items() if operation.of_integers]
    assert len(rows) == 3 * len(dims.OPERATIONS) + len(integers)
    assert all(float(row[2]) > 0 for row in rows)
    assert {row[0]: row[3] for row in rows}["softmax"] == "-"


def test_functions_of_one_number_have_a_row_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ratios, "keep_freed", lambda: None)  # of this process, for good
    monkeypatch.setattr(ratios, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(elementwise, "SIZES", {"long": 5000, "short": 70})
    monkeypatch.setattr(elementwise, "FUNCTIONS", ["erfinv", "log", "silu"])
    elementwise.main(["--rounds", "1", "--no-save"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {row[0]: row[1:] for row in rows if row and row[0] in elementwise.FUNCTIONS}
    assert list(found) == elementwise.FUNCTIONS
    assert all(float(cell) > 0 for cells in found.values() for cell in cells)
    assert all(len(cells) == 6 for cells in found.values())


def test_peers_on_the_processor_have_both_regimes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "compiled", lambda function: function)  # compiling takes long
    case = next(
        small(case, "cpu") for case in cases("cpu") if case.kind.name == "layernorm backward"
    )
    row, regimes = cpu.measure(case, rounds=1, seconds=0)
    assert row.ratios.keys() == {
        f"{peer}{regime}" for peer in ("eager", "torch.compile") for regime in ("", ", as called")
    }
    assert list(regimes) == ["as called", "no page faults"]
    assert [goal.words.rpartition(", against")[0] or "faults" for goal in row.goals] == [
        f"{case}, no page faults",
        "faults",
    ]


def test_models_have_a_row_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    models.main(["--small", "--rounds", "1"])
    *_, training, inference, optimizer, shift = capsys.readouterr().out.splitlines()[:-1]
    assert training.split()[:2] == ["small", "training"]
    assert inference.split()[:2] == ["small", "inference"]
    assert optimizer.split()[:2] == ["small", "AdamW"]
    assert shift.split()[:3] == ["XLNet's", "shift", "backward"]
    assert all(row.count("100.0 %") == 1 for row in (training, inference, optimizer, shift))
    assert shift.split()[-1] == "2"


def test_a_function_has_a_row_for_each_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def softplus(x: torch.Tensor) -> torch.Tensor:
        return (x.exp() + 1).log().sum(1)

    case = function_cases.Function("small", softplus, function_cases.normal((3, 5)))
    monkeypatch.setattr(functions, "FUNCTIONS", (case,))
    for others in ("IMAGES", "SHORT", "STEPS"):
        monkeypatch.setattr(functions, others, ())
    monkeypatch.setattr(functions, "PEERS", ("eager",))  # inductor takes long
    monkeypatch.setattr(functions, "HEAD", [name for name in functions.HEAD if "ind" not in name])
    functions.main(["--rounds", "1", "--no-save"])
    lines = capsys.readouterr().out.splitlines()
    forward, backward = (line.split() for line in lines if line.startswith("small"))
    assert (forward[1], backward[1]) == ("forward", "backward")
    assert forward[-3:-1] == backward[-3:-1] == ["100", "%"]
    assert any(line.startswith("eager: geometric mean") for line in lines)


def test_wrong_results_of_a_function_are_an_error() -> None:
    exact = [torch.ones(4, dtype=torch.float64)]
    calls = {"fuser": lambda: torch.full((4,), 1.01), "eager": lambda: torch.ones(4)}
    with pytest.raises(WrongResultError, match=r"error 5\.0e-03, eager's 0\.0"):
        functions.check(calls, exact)


MACHINE_CODE = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/                   FADD R4, R4, R5 ;
        /*0030*/                   MUFU.EX2 R4, R4 ;
        /*0040*/              @!P0 STG.E desc[UR4][R6.64], R4 ;
        /*0050*/                   IMAD R8, R8, 0x2, R9 ;
        /*0060*/                   NOP ;
        /*0070*/               @P1 BRA `(.L_x_1) ;
        /*0080*/                   EXIT ;
.L_x_2:
        /*0090*/                   BRA `(.L_x_2) ;
"""


def test_instructions_of_a_row_are_counted_by_what_does_them() -> None:
    found = instructions.counted(MACHINE_CODE)
    assert (found.instructions, found.bytes) == (6, 20)
    assert found.cycles == {
        "issued": 6 / 4,
        "memory": 4 + 1,
        "fp32": 1 / 4,
        "functions": 2,
        "products": 1 / 2,
        "integers": 1 / 2,
    }
    assert found.share("functions") == pytest.approx(2 * 18.56 / (32 * 20), rel=1e-3)
    assert instructions.counted(MACHINE_CODE.replace(".L_x_1)", ".L_x_3)")).instructions == 9


def test_kernels_for_a_gpu_are_counted_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        instructions.main(["--only", "sum inner [8192, 3072]", "--no-save"])
    except SystemExit:
        pytest.skip("nvdisasm is missing")
    rows = [line for line in capsys.readouterr().out.splitlines() if "rows_" in line]
    assert len(rows) == 2
    for row in rows:
        issued = float(row.split()[-7])
        assert 0 < issued < 1
