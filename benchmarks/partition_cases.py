"""Models whose partitions are timed: one layer of each kind, at real sizes, random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from model_cases import MODELS, Inputs, Model


class Case(Protocol):
    """A model in training, and a batch for it."""

    @property
    def name(self) -> str: ...

    def build(self, device: str) -> tuple[Any, Inputs]: ...


@dataclass(frozen=True, slots=True)
class ImageModel:
    """A configuration, by the class's name, and a batch of images of 224 by 224 pixels."""

    name: str
    kind: str
    config: Mapping[str, Any]
    batch: int
    size: int = 224
    labels: int = 1000

    def build(self, device: str) -> tuple[Any, Inputs]:
        """The model in training, and its inputs."""
        import transformers  # noqa: PLC0415 - of the dev extra only

        torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
        config_class = getattr(transformers, f"{self.kind.partition('For')[0]}Config")
        config = config_class(**self.config, image_size=self.size, num_labels=self.labels)
        model = getattr(transformers, self.kind)(config).to(device).train()
        pixels = torch.randn(self.batch, 3, self.size, self.size, device=device)
        labels = torch.randint(0, self.labels, (self.batch,), device=device)
        return model, {"pixel_values": pixels, "labels": labels}


_WIDE = {"hidden_size": 1024, "num_hidden_layers": 1, "intermediate_size": 2816}
_GROUPS = {"num_attention_heads": 16, "num_key_value_heads": 4}
_NEOX = {"hidden_size": 768, "num_hidden_layers": 1, "num_attention_heads": 12}
_STAGES = {"depths": [1, 1, 1, 1]}
_DEBERTA = {
    "num_hidden_layers": 1,
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
}
_GEMMA = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "attn_implementation": "eager",
}
_T5 = {"num_layers": 1, "d_ff": 2048, "decoder_start_token_id": 0}

PARTS: tuple[Case, ...] = (
    *(model for model in MODELS if not model.narrow),
    Model("GPT-NeoX", "GPTNeoXForCausalLM", {**_NEOX, "intermediate_size": 3072}, 8192, 4, 256),
    Model("T5", "T5ForConditionalGeneration", _T5, 8192, 4, 256),
    Model("Mistral", "MistralForCausalLM", {**_WIDE, **_GROUPS}, 8192, 2, 512),
    Model("DeBERTa", "DebertaV2ForMaskedLM", _DEBERTA, 8192, 4, 128),
    Model("Gemma 2", "Gemma2ForCausalLM", {**_WIDE, **_GEMMA}, 8192, 2, 512),
    Model(
        "Bloom", "BloomForCausalLM", {"hidden_size": 768, "n_layer": 1, "n_head": 12}, 8192, 4, 256
    ),
    Model("Phi", "PhiForCausalLM", {**_WIDE, "num_attention_heads": 16}, 8192, 2, 256),
    ImageModel("ViT", "ViTForImageClassification", {"num_hidden_layers": 1}, 8),
    ImageModel("Swin", "SwinForImageClassification", _STAGES, 4),
    ImageModel("ConvNeXt", "ConvNextForImageClassification", _STAGES, 4),
)
