"""Models from transformers under torch.compile, beside eager and inductor: one table.

    python benchmarks/models.py [--only bert] [--rounds 7] [--small] [--no-save]

Random weights at real hidden sizes, 2 layers; a training step is forward and backward with dropout
as the model has it, inference is a forward under no_grad. The columns are fuser's time and, over
it, eager's and inductor's: medians over alternating rounds in one process, on two pinned threads
where the processor is used. `first s` is the first training step with fuser, which traces and
compiles; coverage is of compute nodes, over all graphs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PINNED = {"OMP_PROC_BIND": "true", "OMP_NUM_THREADS": "2"}
if __name__ == "__main__" and not PINNED.keys() <= os.environ.keys():
    # OpenMP reads them when it is loaded, so they have to be there before torch is.
    os.execve(sys.executable, [sys.executable, *sys.argv], PINNED | os.environ)

import torch
from harness import OURS, Call, alternate, description, machine, save, table

from fuser.integrations import dynamo

PEERS = ("eager", "inductor")
HEAD = ("model", "step", "ms", *(f"x {peer}" for peer in PEERS), "first s", "covered", "partitions")


@dataclass(frozen=True, slots=True)
class Model:
    """A configuration of transformers, by name, and the sizes of a batch of text."""

    name: str
    kind: str
    config: dict[str, Any]
    words: int
    batch: int
    length: int

    def build(self, device: str) -> tuple[Any, dict[str, torch.Tensor]]:
        """The model in training, and its inputs."""
        import transformers  # noqa: PLC0415 - of the dev extra only

        torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
        base = self.kind.partition("For")[0].partition("LMHead")[0]
        config = getattr(transformers, f"{base}Config")(**self.config, vocab_size=self.words)
        model = getattr(transformers, self.kind)(config).to(device).train()
        ids = torch.randint(0, self.words, (self.batch, self.length), device=device)
        return model, {"input_ids": ids, "labels": ids}


_XLNET = {"d_model": 768, "n_head": 12, "d_inner": 3072, "n_layer": 2}
_LLAMA = {
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "num_hidden_layers": 2,
}
MODELS = (
    Model("BERT", "BertForMaskedLM", {"num_hidden_layers": 2}, 30522, 8, 128),
    Model("GPT-2", "GPT2LMHeadModel", {"n_layer": 2}, 50257, 4, 256),
    Model("XLNet", "XLNetLMHeadModel", _XLNET, 32000, 4, 128),
    Model("Llama", "LlamaForCausalLM", _LLAMA, 32000, 2, 256),
)
SMALL = (Model("GPT-2", "GPT2LMHeadModel", {"n_layer": 1, "n_embd": 16, "n_head": 2}, 96, 2, 8),)


def train(model: Any, run: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> None:
    """Forward and backward; gradients are dropped."""
    run(**inputs).loss.backward()
    for parameter in model.parameters():
        parameter.grad = None


def infer(run: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        run(**inputs)


def rows_of(case: Model, device: str, peers: Sequence[str], rounds: int) -> list[list[str]]:
    """Two rows of the table: a training step, and inference."""
    model, inputs = case.build(device)
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    dynamo.clear_reports()
    backends = [OURS, *peers]
    runs: dict[str, Any] = {
        name: model if name == "eager" else _compiled(model, name) for name in backends
    }
    start = time.perf_counter()
    train(model, runs[OURS], inputs)
    first = f"{time.perf_counter() - start:.1f}"
    found: list[list[str]] = []
    for step in ("training", "inference"):
        model.train(step == "training")
        calls: dict[str, Call] = {name: _call(step, model, runs[name], inputs) for name in backends}
        clock = _seconds if device == "cpu" else _device_seconds
        measured = alternate(calls, rounds, clock, warm_up=2)
        reports = dynamo.reports()
        nodes = sum(report.compute_nodes for report in reports)
        covered = 100 * sum(report.covered for report in reports) / max(nodes, 1)
        ratios = [f"{measured[peer].ratio:.2f}" if peer in measured else "-" for peer in PEERS]
        time_ = f"{measured[OURS].seconds * 1e3:.1f}"
        parts = str(sum(len(report.partitions) for report in reports))
        found.append([case.name, step, time_, *ratios, first, f"{covered:.1f} %", parts])
        first = "-"
        dynamo.clear_reports()
    return found


def _compiled(model: Any, backend: str) -> Any:
    return torch.compile(model, backend=backend)  # pyright: ignore[reportUnknownMemberType]


def _call(step: str, model: Any, run: Any, inputs: dict[str, torch.Tensor]) -> Call:
    if step == "training":
        return lambda: train(model, run, inputs)
    return lambda: infer(run, inputs)


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _device_seconds(call: Call) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--small", action="store_true", help="one tiny model, eager only: no figure"
    )
    parser.add_argument("--no-save", action="store_true")
    given = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    facts, rows = machine(), list[list[str]]()
    for case in SMALL if given.small else MODELS:
        if given.only.lower() in case.name.lower():
            rows += rows_of(case, device, PEERS[: 1 if given.small else None], given.rounds)
            print(table(HEAD, rows[-2:]), flush=True)
    text = f"{description(facts)}\n\n{table(HEAD, rows)}\n"
    print(text)
    if not given.no_save and not given.small:
        directory = Path(__file__).resolve().parent / "results"
        save(directory, f"models-{device}-{facts['date']}", text, {"machine": facts, "rows": rows})


if __name__ == "__main__":
    main()
