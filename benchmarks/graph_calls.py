"""What a compiled graph's calls cost where its tensors are small.

    python benchmarks/graph_calls.py [--rounds 15] [--no-save]

Steps of a narrow GPT-2 and of its AdamW, one graph of open sizes that is called with twelve sizes
in turn, and attention that writes a word's key and value into caches of 4,096: by fuser, whose
graphs check their inputs once; by the same with the checks of each partition's call ("checked"); by
inductor; in eager. Medians over alternating rounds of 50 calls, on two pinned threads.
"""

from __future__ import annotations

import pinned

if __name__ == "__main__":
    pinned.restart()

from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from harness import OURS, Call, alternate, machine, options, report
from model_cases import MODELS, call_of, compiled_by

from fuser.integrations.outer import hoisted

CALLS = 50
PEERS = ("checked", "inductor", "eager")
HEAD = ("step", "ms", *(f"x {peer}" for peer in PEERS))
(NARROW,) = (model for model in MODELS if model.narrow)
BACKENDS = (OURS, "inductor", "eager")


def model_step(step: str) -> dict[str, Call]:
    """A step of the model, by backend."""
    model, inputs = NARROW.build("cpu")
    model.train(step == "training")
    runs: dict[str, Any] = {backend: compiled_by(backend, model) for backend in BACKENDS}
    return {backend: call_of(step, model, run, inputs) for backend, run in runs.items()}


def optimizer_step(new_gradients: bool) -> dict[str, Call]:
    """A step of AdamW, by backend; with new gradients, each time of other memory."""

    def step_of(backend: str) -> Call:
        model, _ = NARROW.build("cpu")
        parameters = list(model.parameters())
        optimizer = torch.optim.AdamW(parameters, lr=1e-3, foreach=True)
        step: Callable[[], object] = compiled_by(backend, optimizer.step)  # pyright: ignore[reportUnknownMemberType]

        def fill() -> None:
            for parameter in parameters:
                parameter.grad = None
            for parameter in parameters:
                parameter.grad = torch.full_like(parameter, 1e-3)

        def filled() -> None:
            fill()
            step()

        fill()
        return filled if new_gradients else step

    return {backend: step_of(backend) for backend in BACKENDS}


def open_sizes() -> dict[str, Call]:
    """Four partitions between products, of 4 to 15 rows in turn, by backend."""
    weight = torch.randn(8, 8)
    rows = cycle([torch.randn(n, 8) for n in range(4, 16)])

    def compute(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.tanh(x + 1) @ weight
        return torch.tanh(x + 1)

    def call_by(backend: str) -> Call:
        run = compiled_by(backend, compute, dynamic=True)

        def call() -> None:
            with torch.no_grad():
                run(next(rows))

        for _ in range(12):
            call()
        return call

    return {backend: call_by(backend) for backend in BACKENDS}


def decoding() -> dict[str, Call]:
    """Attention of one word to all, whose key and value are written into caches, by backend."""

    def attend(
        keys: torch.Tensor, values: torch.Tensor, word: torch.Tensor, at: torch.Tensor
    ) -> torch.Tensor:
        query, key, value = word.chunk(3, -1)
        keys.index_copy_(2, at, key * key.square().mean(-1, keepdim=True).rsqrt())
        values.index_copy_(2, at, value)
        return F.scaled_dot_product_attention(query, keys, values)

    word, at = torch.randn(1, 16, 1, 3 * 64), torch.tensor([7])

    def call_by(backend: str) -> Call:
        run = compiled_by(backend, attend)
        keys, values = (torch.zeros(1, 16, 4096, 64) for _ in range(2))

        def call() -> None:
            with torch.no_grad():
                run(keys, values, word, at)

        return call

    return {backend: call_by(backend) for backend in BACKENDS}


def row(name: str, steps: dict[str, Call], rounds: int) -> list[str]:
    calls = {backend: _many(step, checked=False) for backend, step in steps.items()}
    calls["checked"] = _many(steps[OURS], checked=True)
    measured = alternate(calls, rounds, warm_up=2)
    milliseconds = measured[OURS].seconds * 1e3 / CALLS
    return [name, f"{milliseconds:.3f}", *(f"{measured[peer].ratio:.2f}" for peer in PEERS)]


def _many(step: Call, *, checked: bool) -> Call:
    """Many steps; `checked` as where a profiler watches every partition."""

    def run() -> None:
        with mock.patch.object(hoisted, "PROFILERS", [None]) if checked else nullcontext():
            for _ in range(CALLS):
                step()

    return run


def main() -> None:
    given, facts = options(__doc__, rounds=15).parse_args(), machine()
    rows = [row(step, model_step(step), given.rounds) for step in ("training", "inference")]
    for name, new in (("AdamW", False), ("AdamW, new gradients", True)):
        rows.append(row(name, optimizer_step(new), given.rounds))
    rows.append(row("open sizes", open_sizes(), given.rounds))
    rows.append(row("decoding", decoding(), given.rounds))
    report("graph-calls-cpu", facts, HEAD, rows, keep=not given.no_save)


if __name__ == "__main__":
    main()
