"""Scripts that show why a partition failed, in files of the temporary folder."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path


def write_script(text: str, why: str) -> Path:
    """Write a script after comments that say why; it is named by its text."""
    whole = "".join(f"# {line}\n" for line in why.splitlines()) + text
    name = hashlib.sha256(whole.encode()).hexdigest()[:12]
    path = Path(tempfile.gettempdir()) / f"fuser_repro_{name}.py"
    path.write_text(whole)
    return path
