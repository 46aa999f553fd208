"""Models of transformers at real hidden sizes, with random weights, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fuser.integrations import dynamo

Inputs = Mapping[str, torch.Tensor]
STEPS = ("training", "inference")


@dataclass(frozen=True, slots=True)
class Model:
    """A configuration, by the class's name, and the sizes of a batch of text. A step of a `narrow`
    one takes what its calls take, more than its arithmetic."""

    name: str
    kind: str
    config: Mapping[str, Any]
    words: int
    batch: int
    length: int
    narrow: bool = False

    def build(self, device: str) -> tuple[Any, Inputs]:
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
_NARROW = {"n_layer": 4, "n_embd": 64, "n_head": 4}
MODELS = (
    Model("BERT", "BertForMaskedLM", {"num_hidden_layers": 2}, 30522, 8, 128),
    Model("GPT-2", "GPT2LMHeadModel", {"n_layer": 2}, 50257, 4, 256),
    Model("XLNet", "XLNetLMHeadModel", _XLNET, 32000, 4, 128),
    Model("Llama", "LlamaForCausalLM", _LLAMA, 32000, 2, 256),
    Model("narrow GPT-2", "GPT2LMHeadModel", _NARROW, 100, 1, 16, narrow=True),
)
SMALL = Model("small", "GPT2LMHeadModel", {"n_layer": 1, "n_embd": 16, "n_head": 2}, 96, 2, 8)


def train(model: Any, run: Callable[..., Any], inputs: Inputs) -> None:
    """Forward and backward of `run`, `model` or compiled from it; gradients are dropped."""
    run(**inputs).loss.backward()
    for parameter in model.parameters():
        parameter.grad = None


def infer(run: Callable[..., Any], inputs: Inputs) -> None:
    with torch.no_grad():
        run(**inputs)


def call_of(step: str, model: Any, run: Callable[..., Any], inputs: Inputs) -> Callable[[], None]:
    """A step as a function of nothing; the model has to be in the mode that goes with it."""
    if step == "training":
        return lambda: train(model, run, inputs)
    return lambda: infer(run, inputs)


def coverage() -> tuple[float, int]:
    """Of the graphs compiled since the reports were cleared: which part of their compute nodes is
    in fuser's partitions, in percent, and how many partitions these are."""
    reports = dynamo.reports()
    nodes = sum(report.compute_nodes for report in reports)
    covered = 100 * sum(report.covered for report in reports) / max(nodes, 1)
    return covered, sum(len(report.partitions) for report in reports)


def compiled_by(backend: str, function: Any, *, dynamic: bool | None = None) -> Any:
    """The function itself for `eager`."""
    if backend == "eager":
        return function
    return torch.compile(function, backend=backend, dynamic=dynamic)  # pyright: ignore[reportUnknownMemberType]
