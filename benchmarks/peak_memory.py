"""The most memory a warm cross-entropy step takes above its inputs: prints bytes.

    python benchmarks/peak_memory.py eager|fuser|inductor [ROWS COLUMNS]

Loss and gradient of float32 scores, [4096, 32768] by default, in a fresh process. On the processor
it is the peak of resident memory (Linux only), which has all that is kept for a next call too; on a
GPU, that of torch's allocator.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch
from model_cases import compiled_by

ROWS, COLUMNS = 4096, 32768


def peak_bytes(backend: str, rows: int = ROWS, columns: int = COLUMNS) -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loss = compiled_by(backend, torch.nn.CrossEntropyLoss())
    scores = torch.randn(rows, columns, device=device, requires_grad=True)
    targets = torch.randint(0, columns, (rows,), device=device)
    before = _resident() if device == "cpu" else torch.cuda.memory_allocated()

    def step() -> None:
        scores.grad = None
        loss(scores, targets).backward()

    step()
    _forget_peak(device)
    step()
    return (_resident("VmHWM") if device == "cpu" else torch.cuda.max_memory_allocated()) - before


def _forget_peak(device: str) -> None:
    if device == "cpu":
        Path("/proc/self/clear_refs").write_text("5")
    else:
        torch.cuda.reset_peak_memory_stats()


def _resident(field: str = "VmRSS") -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"this system does not say its {field}")
    return int(found[1]) << 10


def main() -> None:
    backend, *sizes = sys.argv[1:]
    print(peak_bytes(backend, *map(int, sizes)))


if __name__ == "__main__":
    main()
