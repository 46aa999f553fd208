"""What goes wrong while a definition, or a partition, is compiled and run."""

from __future__ import annotations

from fuser.errors.base import FuserError

# -- compiling and running -----------------------------------------------------------------------


class TargetError(FuserError):
    template = "unknown or unusable target {target!r}: {reason}"


class CompilationError(FuserError):
    template = "{compiler} could not compile {source}:\n{log}"


class CompilerError(FuserError):
    template = (
        "{compiler}, {origin}, is no C++ compiler that kernels can be compiled with: a loop of one "
        "line fails too. Name g++ or clang++ in CXX{unset}. It says:\n{log}"
    )


class CompilerInterruptedError(FuserError):
    template = "{compiler} was interrupted by {signal} while it compiled {source}; call again"


class TemporaryFolderError(FuserError):
    template = "kernels cannot be compiled in {folder}: {reason}; name another folder in TMPDIR"


class ExternError(FuserError):
    template = "{operation}, which torch runs, failed: {reason}"


class NotGeneratedError(FuserError):
    template = "{kernel} has no code to compile: torch runs its operations, {operations}"


class IndexOutOfRangeError(FuserError, IndexError):
    template = "{operation}: index {index} is out of range; allowed: {allowed}"


class OutputDifferenceError(FuserError):
    template = (
        "output {output} ({name}) is not what {reference}: {count} of {elements} element(s) differ "
        "too much, most at {index}: got {got}, expected {expected}, allowed difference {bound:.3g}"
    )


class NothingSavedError(FuserError, ValueError):
    template = "{operation}: {missing}; {remedy}"


class ReferenceOutputError(FuserError):
    template = "reference output {output}: expected {expected}, got {got}"


class ReferenceRefusedError(FuserError):
    template = (
        "torch refuses to compute what the outputs are compared with: {reason}; give "
        "reference_outputs"
    )


class GeneratorError(FuserError):
    template = (
        "no seed can be drawn from torch's generator while a CUDA graph is captured: every replay "
        "would repeat its numbers; give rng_seed and rng_offset"
    )


class LaunchError(FuserError):
    template = "kernel {kernel}: {reason}"


class TracingError(FuserError):
    template = (
        "{operation} was called while torch is in a {mode}, which records or fakes torch's "
        "operations; kernels are none of them, so call it outside"
    )


class CaptureError(FuserError):
    template = "execute cannot be captured in a CUDA graph here: {reason}"


class DumpOptionError(FuserError, ValueError):
    template = "{variable} names an unknown dump {name!r}; the valid names are: {valid}"


class DumpFileError(FuserError, OSError):
    template = (
        "{path} cannot be written: {reason}; {dump} writes into the current folder: change to "
        "another one, or leave {dump} out of {variable}"
    )


class CheckOptionError(FuserError, ValueError):
    template = "FUSER_CHECK names an unknown check {name!r}; the valid names are: {valid}"


class SwitchError(FuserError, ValueError):
    template = "{variable} is {got!r}; what switches it on is one of {on}, and off one of {off}"


class PoolSizeError(FuserError, ValueError):
    template = (
        "{variable} is {got!r}; it is a whole number, how many MiB of memory that nobody uses are "
        "kept for later outputs, or 0 to keep none"
    )


# -- integrations --------------------------------------------------------------------------------


class PartitionError(FuserError):
    template = "{name} cannot be run: {reason}\n{path} shows it"


class PageError(FuserError, OSError):
    template = "the page {path} cannot be written: {reason}"


class BackendOptionError(FuserError, ValueError):
    template = "the fuser backend has no option {name}={value!r}; it has: {valid}"
