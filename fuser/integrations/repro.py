"""Scripts that run one definition on inputs like those of a call."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from fuser.frontend.definition import FusionDefinition


def script_for(fd: FusionDefinition, inputs: Sequence[object], why: str) -> str:
    """A script that defines and executes `fd`; tensors are random, of the given layouts."""
    lines = [
        *(f"# {line}" for line in why.splitlines()),
        "import torch",
        "",
        "from fuser import DataType, FusionDefinition",
        "",
        repr(fd),
        "",
        "inputs = [",
        *(f"    {_spelled(given)}," for given in inputs),
        "]",
        "with FusionDefinition() as fd:",
        "    nvfuser_fusion(fd)",
        "print(fd.plan(inputs))",
        "for output in fd.execute(inputs):",
        "    print(output.dtype, tuple(output.shape), output.stride())",
    ]
    return "\n".join(lines) + "\n"


def write_script(text: str) -> Path:
    """Write a script under the temporary folder, named by its text."""
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = Path(tempfile.gettempdir()) / f"fuser_repro_{name}.py"
    path.write_text(text)
    return path


def _spelled(given: object) -> str:
    if not isinstance(given, torch.Tensor):
        return repr(given)
    span = 1 + sum((n - 1) * s for n, s in zip(given.shape, given.stride(), strict=True) if n)
    if given.dtype.is_floating_point or given.dtype.is_complex:
        made = f"torch.randn({span}, dtype={given.dtype}, device={str(given.device)!r})"
    else:
        made = f"torch.zeros({span}, dtype={given.dtype}, device={str(given.device)!r})"
    return f"{made}.as_strided({tuple(given.shape)}, {given.stride()})"
