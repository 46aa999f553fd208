"""A gelu between two views: the definition, the plan, and the time beside eager torch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from fuser import DataType, Fusion, FusionDefinition

ROUNDS = 15


def define() -> Fusion:
    """The feed-forward block's gelu as a graph compiler hands it over: views on both ends."""
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        x = fd.define_tensor(symbolic_sizes=[-1, -1], contiguous=[True, True], dtype=DataType.Float)
        viewed = fd.ops.view(x, original_shape=[8192, 3072], new_shape=[64, 128, 3072])
        gelu = viewed * 0.5 * (fd.ops.erf(viewed * 0.70710678) + 1.0)
        result = fd.ops.view(gelu, original_shape=[64, 128, 3072], new_shape=[8192, 3072])
        fd.add_output(result)
    return fs


def eager(x: torch.Tensor) -> torch.Tensor:
    """The same, by torch."""
    viewed = x.view(64, 128, 3072)
    return (viewed * 0.5 * (torch.erf(viewed * 0.70710678) + 1.0)).view(8192, 3072)


def milliseconds(call: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    place = torch.cuda.get_device_name() if device == "cuda" else "the processor"
    fs = define()
    print(f"The definition:\n\n{fs}")
    x = torch.randn(8192, 3072, device=device)
    taken = milliseconds(lambda: fs.execute([x]))
    print(f"What execute runs for a {device} tensor of {tuple(x.shape)}:\n\n{fs.plan([x])}\n")
    (out,) = fs.execute([x])
    torch.testing.assert_close(out, torch.nn.functional.gelu(x))
    print("The result is torch.nn.functional.gelu's.\n")
    candidates = {
        "fuser": lambda: fs.execute([x]),
        "eager, the same operations": lambda: eager(x),
        "eager, torch.nn.functional.gelu": lambda: torch.nn.functional.gelu(x),
    }
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, call in candidates.items():
            times[name].append(milliseconds(call))
    print(f"Median time of {ROUNDS} calls on {place} (the first took {taken:.0f} ms, compiling):\n")
    for name, found in times.items():
        print(f"  {name:<33}{statistics.median(found):>9.2f} ms")


if __name__ == "__main__":
    main()
