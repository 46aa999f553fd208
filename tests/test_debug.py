"""FUSER_DUMP: names, the other variables, and what is printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from fuser import DataType, FusionDefinition, debug
from fuser.errors import DumpFileError, DumpOptionError, FuserError, SwitchError
from fuser.frontend.handles import Handle
from fuser.runtime.kernels.disk_cache import disk_cache


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in ("FUSER_DUMP", "NVFUSER_DUMP", "PYTORCH_NVFUSER_DUMP"):
        monkeypatch.delenv(variable, raising=False)
    debug.reload()
    yield
    monkeypatch.undo()
    debug.reload()


def test_nothing_is_asked_for_by_default() -> None:
    assert debug.parse({}) == frozenset()
    assert debug.parse({"FUSER_DUMP": " , "}) == frozenset()


@pytest.mark.parametrize("variable", ["FUSER_DUMP", "NVFUSER_DUMP", "PYTORCH_NVFUSER_DUMP"])
def test_comma_list_of_names(variable: str) -> None:
    chosen = debug.parse({variable: "cuda_kernel, segmenter_logging"})
    assert chosen == {"cuda_kernel", "segmenter_logging"}


def test_variables_add_up() -> None:
    chosen = debug.parse({"FUSER_DUMP": "sass", "NVFUSER_DUMP": "fusion_ir(1,2),kernel_ir"})
    assert chosen == {"sass", "fusion_ir", "kernel_ir"}


def test_unknown_name_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(DumpOptionError, match=r"FUSER_DUMP .*'wibble'.* cuda_kernel, ") as caught:
        debug.parse({"FUSER_DUMP": "wibble"})
    assert isinstance(caught.value, ValueError)
    with pytest.raises(DumpOptionError, match="NVFUSER_DUMP"):
        debug.parse({"NVFUSER_DUMP": "wibble"})


def test_names_only_nvfuser_has_are_skipped_in_its_variables() -> None:
    with pytest.warns(UserWarning, match="bank_conflict"):
        assert debug.parse({"NVFUSER_DUMP": "bank_conflict,cuda_kernel"}) == {"cuda_kernel"}
    with pytest.raises(DumpOptionError):
        debug.parse({"FUSER_DUMP": "bank_conflict"})


def test_text_is_made_and_printed_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    debug.dump("kernel_ir", "k1", lambda: pytest.fail("not asked for"))
    monkeypatch.setenv("FUSER_DUMP", "kernel_ir")
    debug.dump("kernel_ir", "k1", lambda: pytest.fail("the environment was read already"))
    debug.reload()
    assert debug.enabled("kernel_ir")
    assert not debug.enabled("sass")
    debug.dump("kernel_ir", "k1", lambda: "loop\n")
    debug.dump("kernel_ir", "k2", "other")
    assert capsys.readouterr().out == "=== kernel_ir: k1\nloop\n\n=== kernel_ir: k2\nother\n\n"


SWITCHES: list[tuple[str, Callable[[], bool], bool]] = [
    ("FUSER_VERIFY", debug.verifying, False),
    ("FUSER_STRICT", debug.strict, False),
    ("FUSER_CACHE", lambda: disk_cache.__wrapped__() is not None, True),
]


@pytest.mark.parametrize(("variable", "ask", "default"), SWITCHES, ids=[s[0] for s in SWITCHES])
def test_switches_are_set_by_the_same_words(
    variable: str, ask: Callable[[], bool], default: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {**dict.fromkeys(debug.ON, True), **dict.fromkeys(debug.OFF, False)}
    for word, wanted in {**words, "Yes ": True, "OFF": False, "": default, " ": default}.items():
        monkeypatch.setenv(variable, word)
        assert ask() is wanted, word
    monkeypatch.delenv(variable)
    assert ask() is default
    monkeypatch.setenv(variable, "maybe")
    with pytest.raises(SwitchError, match=f"{variable} is 'maybe'; .* 1, true, yes, on, .* 0, fa"):
        ask()


@pytest.mark.parametrize(
    "variable", ["FUSER_DUMP", "FUSER_CHECK", "FUSER_POOL_MIB", *debug.SWITCHES]
)
def test_a_wrong_word_is_an_error_wherever_it_would_be_read(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "maybe")
    debug.reload()
    with pytest.raises(FuserError, match=rf"{variable} .*'maybe'"), FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1]))
    doubled = torch.compile(lambda x: x * 2.0, backend="fuser")
    with pytest.raises(BackendCompilerFailed, match=rf"{variable} .*'maybe'"):
        doubled(torch.ones(3))


def test_a_list_may_be_switched_off() -> None:
    for word in debug.OFF:
        assert debug.parse({"FUSER_DUMP": word, "NVFUSER_DUMP": word.upper()}) == frozenset()
        assert debug.parse_checks({"FUSER_CHECK": word}) == frozenset()
    with pytest.raises(DumpOptionError, match="'1'"):
        debug.parse({"FUSER_DUMP": "1"})


def test_every_dump_has_a_one_line_description() -> None:
    for name, description in debug.DUMPS.items():
        assert name == name.lower()
        assert description
        assert "\n" not in description


def test_finished_definition_is_dumped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSER_DUMP", "python_definition")
    debug.reload()
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1], dtype=DataType.Int))
    assert repr(fd).rstrip() in capsys.readouterr().out


def test_the_inputs_of_a_plan_are_dumped_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSER_DUMP", "fusion_args")
    debug.reload()
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1]) * 2.0)
    fd.plan([torch.ones(3)])
    printed = "=== fusion_args: inputs\ntensor torch.float32 sizes (3,) strides (1,) device cpu\n\n"
    assert capsys.readouterr().out == printed
    fd.execute([torch.ones(3)])
    assert capsys.readouterr().out == ""


def test_kernels_of_one_name_are_files_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FUSER_DUMP", "cuda_to_file")
    debug.reload()
    monkeypatch.chdir(tmp_path)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.define_tensor(shape=[-1, -1]), [1]))
    sources: set[str] = set()
    for columns in (48, 4097):
        (kernel,) = fd.plan([torch.ones(64, columns)], target="cuda:sm_90").kernels
        sources.add(kernel.source)
    files = list(tmp_path.glob("__tmp_kernel*_rows_sum.cu"))
    assert {path.read_text() for path in files} == sources
    assert len(files) == len(sources) == 2


@pytest.mark.parametrize("dump", ["cuda_to_file", "draw_segmented_fusion"])
def test_a_folder_that_takes_no_files_of_a_dump_is_named(
    dump: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FUSER_DUMP", dump)
    debug.reload()
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1]) * 2.0)
    monkeypatch.setattr(Path, "write_text", mock.Mock(side_effect=PermissionError(13, "denied")))
    with pytest.raises(DumpFileError, match=rf"{folder}/\w+\.\w+ cannot .* denied; {dump} ") as e:
        fd.plan([torch.ones(3)], target="cuda:sm_90")
    assert not hasattr(e.value, "__notes__")


def test_a_step_that_torch_runs_has_no_kernel_and_the_dumps_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSER_DUMP", "cuda_kernel,cpu_kernel,kernel_ir")
    debug.reload()
    x = torch.ones(4, 6)
    with FusionDefinition() as fd:
        made = fd.ops.argsort(fd.from_pytorch(x) * 2.0, 1)
        fd.add_output(made)
        fd.add_output(fd.ops.cumsum(fd.define_tensor([-1, -1]), 1))
    fd.plan([x, torch.ones(0, 3)])
    out = capsys.readouterr().out
    for dump in ("cuda_kernel", "cpu_kernel", "kernel_ir"):
        texts = [part for part in out.split("=== ") if part.startswith(dump)]
        assert any("no kernel: torch runs argsort, one operation after" in part for part in texts)
        assert any("no kernel: there are no elements to compute" in part for part in texts)
        assert any("mul" in part and "no kernel" not in part for part in texts)


def scattered(fd: FusionDefinition) -> Handle:
    """What is written over, by lists on the processor, and by a kernel of its own on a GPU."""
    x, source = (fd.define_tensor([100, 32], contiguity=True) for _ in range(2))
    index = fd.define_tensor([100, 1], contiguity=True, dtype=DataType.Int)
    return fd.ops.scatter(x + 1.0, fd.ops.expand(index, [100, 32]), source, 0) * 2.0


def costly_and_broadcast(fd: FusionDefinition) -> Handle:
    """Powers that the processor computes once, and a GPU again where they are read."""
    x, places = fd.define_tensor([4096, 768], contiguity=True), fd.define_tensor([1, 768])
    return x + fd.ops.sin(fd.ops.pow(places, 0.3))


@pytest.mark.parametrize("define", [scattered, costly_and_broadcast])
def test_kernels_that_cuda_tensors_would_get_are_those_of_their_plan(
    define: Callable[[FusionDefinition], Handle],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FusionDefinition() as fd:
        fd.add_output(define(fd))
    given = [torch.empty(i.shape, dtype=i.dtype.torch, device="meta") for i in fd.fusion.inputs]
    kernels = fd.plan(given, target="cuda:sm_90").kernels
    wanted = [k.kernel_source for k in kernels if k.kernel_source is not None]
    assert len(kernels) == len(wanted) != len(fd.plan(given, target="cpu").kernels)
    monkeypatch.setenv("FUSER_DUMP", "cuda_full")
    debug.reload()
    with FusionDefinition() as again:
        again.add_output(define(again))
    capsys.readouterr()
    again.plan(given, target="cpu")
    dumped = [f"=== cuda_full: {source.name}\n{source.text}\n" for source in wanted]
    assert capsys.readouterr().out == "".join(dumped)


def test_how_kernels_are_called_is_said_in_the_names_of_their_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSER_DUMP", "launch_param,kernel_args")
    debug.reload()
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        factor = fd.define_scalar(dtype=DataType.Double)
        fd.add_output(fd.ops.sum(x * factor, [0, 1]))
    given = [torch.empty(2048, 1024, device="meta"), 0.5]
    for target in ("cpu", "cuda:sm_90"):
        fd.plan(given, target=target)
    on_processor, on_gpu = capsys.readouterr().out.split("=== launch_param: ")[1:]
    assert on_processor.splitlines()[1] == "on several threads"
    assert re.match(r"grid \d+ x \d+ x 1, block \d+ x \d+ x 1$", on_gpu.splitlines()[1])
    for words in (on_processor, on_gpu):
        assert "\nT0: the address of Float[2048, 1024]\n" in words
        assert f"\n{factor.value.name}: Double\n" in words
        assert re.search(r"\nn\d: \w+, \d+\n", words)
    assert re.search(r" to work with, 0 at first and at the end\n", on_gpu)
