"""The machine code of a cubin as text, for dumps."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from fuser.runtime.cuda.cubin import Cubin


def disassemble(cubin: Cubin) -> str:
    """What nvdisasm prints of the kernel; where it is missing, how to install it."""
    roots = Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin")
    places = ":".join(map(str, roots))
    tool = shutil.which("nvdisasm", path=places) or shutil.which("nvdisasm")
    if tool is None:
        return "nvdisasm is missing: pip install nvidia-cuda-nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin.image)
        command = [tool, "--print-code", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
