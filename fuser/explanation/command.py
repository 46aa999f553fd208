"""`python -m fuser explain script.py`: run a script, and report all that it compiles."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fuser.errors import PageError
from fuser.explanation.recorder import recording
from fuser.explanation.report import Report, page_path
from fuser.frontend.version import version

USAGE_ERROR = 2
_NOTHING = (
    "{script} has compiled nothing with fuser: neither torch.compile(..., backend='fuser') nor a "
    "FusionDefinition was executed"
)


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; returns the exit status."""
    parser = _parser()
    own, rest = _own_arguments(arguments)
    given = parser.parse_args(own)
    script = Path(given.script)
    if not script.is_file():
        wrong = "is no file" if script.exists() else "does not exist"
        print(f"{parser.prog} explain: {script} {wrong}", file=sys.stderr)
        return USAGE_ERROR
    try:
        page = None if given.html is None else page_path(given.html)
    except PageError as error:
        print(f"{parser.prog} explain: {error}", file=sys.stderr)
        return USAGE_ERROR
    with recording() as recorder:
        status = _run(script, rest)
        report = recorder.report(script.name)
    return _tell(report, script, page) or status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m fuser", description="A fusion compiler with nvFuser's Python front end."
    )
    parser.add_argument("--version", action="version", version=f"fuser {version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")
    command = commands.add_parser(
        "explain",
        help="run a script, and report what fuser compiled, and why so",
        description="Runs a script as __main__ and reports, for each graph that torch.compile gave "
        "to fuser and each FusionDefinition that was executed, what became of it, and why.",
        usage="python -m fuser explain [--html FILE] script.py [--html FILE] [argument ...]",
        epilog="--html stands before the script or right after it; what else follows the script, "
        "and all after --, is the script's.",
        allow_abbrev=False,
    )
    command.add_argument("script", help="the Python file")
    command.add_argument("--html", metavar="FILE", type=Path, help="write a page with it, too")
    return parser


def _own_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command's arguments, and the script's: those after it, but for one --html at once."""
    words = list(arguments)
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] == "--html" else 1
    at += 1  # the script
    if at < len(words) and words[at].partition("=")[0] == "--html":
        at += 1 if "=" in words[at] else 2
    rest = at + 1 if words[at : at + 1] == ["--"] else at
    return words[:at], words[rest:]


def _run(script: Path, arguments: Sequence[str]) -> int:
    """Run a script as Python would; returns its exit status."""
    with _as_main(script, arguments):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as leaving:
            if isinstance(leaving.code, int) or leaving.code is None:
                return leaving.code or 0
            print(leaving.code, file=sys.stderr)
            return 1
        except (Exception, KeyboardInterrupt) as error:
            _print_traceback(error)
            return 1
    return 0


@contextmanager
def _as_main(script: Path, arguments: Sequence[str]) -> Generator[None]:
    """Arguments and module path as of a script that Python was started with."""
    before, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, path


def _print_traceback(error: BaseException) -> None:
    """The traceback from the script on, as if nothing stood between."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in _RUNNERS:
        frames = frames.tb_next
    traceback.print_exception(error.with_traceback(frames or error.__traceback__))


_RUNNERS = {__file__, runpy.__file__, "<frozen runpy>"}


def _tell(report: Report, script: Path, html: Path | None) -> int:
    """Print the report, and write its page; returns the exit status."""
    _print(end="")
    if not report.graphs and not report.breaks:
        print(_NOTHING.format(script=script), file=sys.stderr)
    else:
        _print(str(report))
    if html is None:
        return 0
    try:
        report.write(html)
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    _print(f"\npage: {html}")
    return 0


def _print(text: str = "", end: str = "\n") -> None:
    """Print this, and what the script has left in the buffer, at once. Once the reader has gone, as
    `head` does, all goes nowhere."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
