import ctypes
import platform

import pytest
import torch

from fuser import FusionDefinition
from fuser.codegen import KernelSource
from fuser.errors import CompilationError, TargetError
from fuser.frontend.handles import Handle
from fuser.runtime.cpu import kernel as cpu
from fuser.runtime.cpu.shared_library import load_library
from fuser.runtime.cpu.toolchain import Compiler, find_compiler
from fuser.schedule.tree.loop_nest import Launch
from tests.definitions import one_kernel, only_kernel
from tests.kernels_made import kernels_made


def source(name: str, code: str, header: str = "") -> KernelSource:
    return KernelSource(name, header, code, (), Launch())


def kernel(name: str, number: int) -> KernelSource:
    code = f'extern "C" void {name}(const bool threaded) {{ static volatile int n; n = {number}; }}'
    return source(name, code)


def test_code_is_compiled_and_can_be_called():
    compiled = cpu.compile_cpu(kernel("first", 1))
    compiled.launch(False)
    assert compiled.resources.binary_size > 0


def test_equal_code_is_compiled_once_whatever_its_header():
    first = kernel("twice", 2)
    before = kernels_made()
    compiled = cpu.compile_cpu(first)
    again = cpu.compile_cpu(source("twice", first.code, "// of other sizes\n"))
    assert again is compiled
    assert kernels_made() == before + 1


def test_kernels_of_one_name_do_not_get_in_each_others_way():
    assert (
        cpu.compile_cpu(kernel("same", 3)).launch is not cpu.compile_cpu(kernel("same", 4)).launch
    )


def test_a_failure_has_the_compilers_words_and_the_path_of_the_text():
    with pytest.raises(CompilationError, match="not_declared") as caught:
        cpu.compile_cpu(source("broken", 'extern "C" void broken() { not_declared(); }'))
    with open(str(caught.value.fields["source"])) as file:
        assert "not_declared" in file.read()


def test_a_compiler_is_asked_which_options_it_knows():
    compiler = find_compiler()
    assert compiler is not None
    assert compiler.takes("-O1")
    assert not compiler.takes("-mno-such-option")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an option of x86")
@pytest.mark.parametrize("known", [True, False])
def test_no_option_is_given_that_the_compiler_does_not_know(
    monkeypatch: pytest.MonkeyPatch, known: bool
):
    monkeypatch.setattr(Compiler, "takes", lambda self, option: known)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert ("-mmove-max=512" in cpu.flags(kernel("any", 1))) == known


def parallel_image(compiler: Compiler) -> bytes:
    """A loop whose iterations several threads share, as kernels are linked."""
    code = "void set(int n, float* x) {\n#pragma omp parallel for\n"
    code += "for (int i = 0; i < n; ++i) x[i] = 0; }"
    return compiler.image_of_text(
        code, "shared_out", cpu.FLAGS, compiler.without_language_libraries()
    )


def test_kernels_are_linked_without_the_libraries_of_c_and_cxx():
    compiler = find_compiler()
    assert compiler is not None
    if "clang" in compiler.version:
        pytest.skip("clang does not link OpenMP without its default libraries")
    image = parallel_image(compiler)
    assert b"libgomp.so" in image
    assert b"libstdc++.so" not in image
    assert b"libc.so" not in image


@pytest.mark.parametrize("count", [5, 5000])
def test_functions_of_the_library_of_c_are_those_of_the_process(count: int):
    compiler = find_compiler()
    assert compiler is not None
    code = 'extern "C" void moved(float* to, const float* from, int n) '
    code += "{ __builtin_memmove(to, from, n * sizeof(float)); }"
    image = compiler.image_of_text(code, "moved", cpu.FLAGS, compiler.without_language_libraries())
    x, out = torch.randn(count), torch.zeros(count)
    moved = load_library(image, "moved").moved
    moved(ctypes.c_void_p(out.data_ptr()), ctypes.c_void_p(x.data_ptr()), ctypes.c_int(count))
    assert torch.equal(out, x)


def test_a_compiler_that_cannot_do_without_is_left_what_it_links(monkeypatch: pytest.MonkeyPatch):
    options = ("-nodefaultlibs", "-lno_such_library")
    monkeypatch.setattr("fuser.runtime.cpu.toolchain._WITHOUT_LANGUAGE_LIBRARIES", options)
    compiler = find_compiler()
    assert compiler is not None
    assert compiler.without_language_libraries() == ()
    assert b"libgomp.so" in parallel_image(compiler)


def test_without_a_compiler_compiling_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu, "find_compiler", lambda: None)
    with pytest.raises(TargetError, match=r"install g\+\+"):
        cpu.compile_cpu(kernel("none", 5))


@pytest.mark.parametrize(
    ("count", "columns", "long", "many"),
    [
        (5000, 14, True, True),
        (500, 14, True, False),
        (5000, 4, True, True),  # few statements, of which many are costly
        (5000, 1, False, False),
    ],
)
def test_long_loops_are_compiled_for_whole_vectors_only_and_briefly(
    count: int, columns: int, long: bool, many: bool
) -> None:
    def normalized(fd: FusionDefinition, x: Handle) -> Handle:
        total = fd.ops.sum(fd.ops.exp(x), [1], keepdim=True)
        return fd.ops.sin(x) * fd.ops.tanh(x / total) + fd.ops.exp(x) * fd.ops.sigmoid(x)

    x = torch.randn(count, columns)
    fd = one_kernel("cpu", normalized, x)
    source = only_kernel(fd, [x])
    assert source.has_long_loops == many
    assert source.has_long_bodies == long
    compiler, options = find_compiler(), cpu.flags(source)
    for asked, applies in (("--param=vect-epilogues-nomask=0", many), ("-fno-gcse", long)):
        known = compiler is not None and compiler.takes(asked)
        assert (asked in options) == (applies and known)
