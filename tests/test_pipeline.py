"""From a definition to results: both published definitions, errors, dumps, determinism."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fuser import DataType, FuserError, Fusion, FusionDefinition
from fuser.debug import DUMPS
from fuser.runtime.kernels.stats import stats
from tests.seeds import gelu, transpose

ROOT = Path(__file__).parent.parent
TARGETS = ("cpu", "emulator")
both_targets = pytest.mark.parametrize("target", TARGETS)


@both_targets
def test_the_published_gelu(target: str):
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        gelu(fd, batch=4, rows=8, columns=96)
    x = torch.randn(32, 96)
    viewed, result = fs.execute([x], target=target)

    assert viewed.shape == (4, 8, 96)
    assert viewed.data_ptr() == x.data_ptr()
    torch.testing.assert_close(result, torch.nn.functional.gelu(x), rtol=1e-5, atol=1e-5)
    assert len(fs.plan([x], target=target).kernels) == 1


@both_targets
def test_the_published_transpose(target: str):
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        transpose(fd, batch=2, heads=3, rows=8)
    x = torch.randn(6, 8, 64)
    (result,) = fs.execute([x], target=target)

    expected = x.view(2, 3, 8, 64).permute(0, 2, 1, 3).reshape(16, 192)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    assert len(fs.plan([x], target=target).kernels) == 1


@both_targets
def test_both_generations_of_scripts_do_the_same(target: str):
    fs = Fusion()
    with FusionDefinition(fs) as old:
        t = old.define_tensor(symbolic_sizes=[-1, -1], contiguous=[True, True], dtype=DataType.Half)
        s = old.define_constant(2.0)
        old.add_output(old.ops.cast(old.ops.mul(t, s), dtype=DataType.Half))
    with FusionDefinition() as new:
        t = new.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half)
        new.add_output(new.ops.cast(t * 2.0, DataType.Half))
    x = torch.randn(6, 10).half()
    (first,), (second,) = fs.execute([x], target=target), new.execute([x], target=target)

    torch.testing.assert_close(first, x * 2, rtol=0, atol=0)
    torch.testing.assert_close(second, first, rtol=0, atol=0)


def refused(inputs: list[object], target: str | None = None) -> dict[str, int]:
    """What the counters moved by when an execution was refused."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 8], contiguity=[True, True])
        y = fd.ops.segment_set(fd.ops.exp(x))
        fd.add_output(fd.ops.mul(y, fd.define_scalar(DataType.Float)))
    before = stats()
    with pytest.raises(FuserError):
        fd.execute(inputs, target=target)
    return {name: number - before[name] for name, number in stats().items()}


@pytest.mark.parametrize(
    "inputs",
    [
        [],
        [torch.randn(4, 8)],
        [torch.randn(4, 8), 1.0, 2.0],
        [torch.randn(4, 7), 1.0],
        [torch.randn(4, 8, 1), 1.0],
        [torch.randn(4, 8).double(), 1.0],
        [torch.randn(8, 4).t(), 1.0],
        [torch.randn(4, 8), "one"],
        [torch.randn(4, 8), 1j],
        [torch.randn(4, 8), torch.randn(())],
        [torch.randn(4, 8).to_sparse(), 1.0],
        [None, 1.0],
        [torch.empty(4, 8, device="meta"), 1.0],
    ],
)
def test_nothing_runs_after_a_refused_input(inputs: list[object]):
    moved = refused(inputs)
    assert moved["kernels_launched"] == moved["kernels_compiled"] == 0
    assert moved["kernels_loaded_from_disk"] == 0


@pytest.mark.parametrize("target", ["gpu", "cuda:sm_90", "cuda:sm_5"])
def test_nothing_runs_for_a_target_that_cannot(target: str):
    assert refused([torch.randn(4, 8), 1.0], target)["kernels_launched"] == 0


def test_a_refused_execution_does_not_spoil_the_next():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.exp(fd.define_tensor([-1])))
    for _ in range(2):
        with pytest.raises(FuserError):
            fd.execute([torch.ones(2, 2)])
        torch.testing.assert_close(fd.execute([torch.zeros(3)])[0], torch.ones(3))


def test_a_view_that_does_not_fit_is_refused_at_execution():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.reshape(fd.define_tensor([-1]), [-1, 4]))
    with pytest.raises(FuserError, match="do not fit"):
        fd.execute([torch.ones(6)])
    assert fd.execute([torch.ones(8)])[0].shape == (2, 4)


@both_targets
def test_results_can_be_written_into_an_input(target: str):
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.empty(4, 6))
        y = fd.ops.add(x, 1.0)
        fd.add_output(y, x)
        fd.add_output(fd.ops.neg(x))
    state = torch.zeros(4, 6)
    results = fd.execute([state], target=target)

    assert len(results) == 1
    torch.testing.assert_close(state, torch.ones(4, 6))
    torch.testing.assert_close(results[0], -torch.zeros(4, 6))


# -- in processes of their own -------------------------------------------------------------------

SCRIPT = """
import torch
from fuser import FusionDefinition
from tests.seeds import gelu
with FusionDefinition() as fd:
    gelu(fd, 2, 3, 8)
    y = fd.ops.exp(fd.define_tensor([-1, -1]))
    fd.ops.neg(y)
    z = fd.define_tensor([-1, -1])
    fd.add_output(fd.ops.div(y, fd.ops.argsort(fd.ops.mul(y, z), 1)))
inputs = [torch.ones(6, 8)] * 3
"""
EXECUTE = "fd.execute(inputs)\nfd.execute(inputs, target='emulator')\n"
COMPILE = "for k in fd.plan(inputs, target='cuda:sm_90').kernels: k.compile()\n"


def run_script(text: str, folder: Path, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_dump_has_output(tmp_path: Path):
    printed = run_script(EXECUTE + COMPILE, tmp_path, FUSER_DUMP=",".join(DUMPS))
    files = [path.name for path in tmp_path.iterdir()]
    for name in DUMPS:
        if name == "draw_segmented_fusion":
            assert any(file.endswith(".svg") for file in files)
        elif name == "cuda_to_file":
            assert any(file.startswith("__tmp_kernel0_pointwise") for file in files)
        else:
            assert f"=== {name}: " in printed, name


def test_without_dumps_nothing_is_printed(tmp_path: Path):
    variables = {"FUSER_DUMP": "", "NVFUSER_DUMP": "", "PYTORCH_NVFUSER_DUMP": ""}
    assert run_script(EXECUTE, tmp_path, **variables) == ""
    assert list(tmp_path.iterdir()) == []


def test_plans_do_not_depend_on_the_hash_seed(tmp_path: Path):
    text = (
        "for t in ('cpu', 'cuda:sm_90'):\n"
        "    plan = fd.plan(inputs, target=t)\n"
        "    print(plan, *plan.log, *[k.source for k in plan.kernels], sep='\\n')\n"
    )
    first, second = (run_script(text, tmp_path, PYTHONHASHSEED=seed) for seed in ("1", "77"))
    assert first == second
    assert "pointwise" in first


def test_the_default_device_of_torch_decides_nothing() -> None:
    x, factor = torch.randn(5, 6), 2.5
    with FusionDefinition() as fd:
        t, s = fd.from_pytorch(x), fd.define_scalar()
        lowest = fd.ops.min(t, [1], keepdim=True)
        numbers = fd.ops.uniform(0.5, 2.0, [fd.ops.size(t, 0), 6])
        fd.add_output(fd.ops.exp(t - lowest) * s * numbers + fd.ops.size(t, 1))
    torch.manual_seed(3)
    (want,) = fd.validate([x, factor])
    torch.manual_seed(3)
    with torch.device("meta"):
        (got,) = fd.validate([x, factor], target="emulator")
    torch.testing.assert_close(got, want)
