"""Small models from transformers, with random weights, and made-up inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers")

WORDS = 96
Inputs = dict[str, torch.Tensor]


def text(batch: int = 2, length: int = 8) -> Inputs:
    ids = torch.randint(0, WORDS, (batch, length))
    return {"input_ids": ids, "labels": ids}


def images(batch: int = 2) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, 8, 8), "labels": torch.randint(0, 5, (batch,))}


def bert(**more: Any) -> nn.Module:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(
        vocab_size=WORDS, intermediate_size=32, max_position_embeddings=32, **sizes, **more
    )
    return transformers.BertForMaskedLM(config)


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        n_embd=16, n_layer=1, n_head=2, vocab_size=WORDS, n_positions=32, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def xlnet() -> nn.Module:
    config = transformers.XLNetConfig(
        d_model=16, n_layer=1, n_head=2, d_inner=32, vocab_size=WORDS, eos_token_id=0
    )
    return transformers.XLNetLMHeadModel(config)


_DECODER = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
    "vocab_size": WORDS,
    "max_position_embeddings": 32,
}


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_DECODER))


def qwen3() -> nn.Module:
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(head_dim=8, **_DECODER))


def t5() -> nn.Module:
    config = transformers.T5Config(
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        vocab_size=WORDS,
        decoder_start_token_id=0,
        dropout_rate=0.0,
    )
    return transformers.T5ForConditionalGeneration(config)


def vit() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=8,
        patch_size=4,
        num_labels=5,
    )
    return transformers.ViTForImageClassification(config)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Inputs]]] = {
    "bert": (bert, text),
    "gpt2": (gpt2, text),
    "xlnet": (xlnet, text),
    "llama": (llama, text),
    "qwen3": (qwen3, text),
    "t5": (t5, text),
    "vit": (vit, images),
}


def without_dropout(model: nn.Module) -> nn.Module:
    """The model in training, but without random numbers, which eager draws otherwise."""
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        for name in ("attention_dropout", "dropout_prob"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return model.train()


def step(
    model: nn.Module, run: Callable[..., Any], inputs: Inputs
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss and the gradients of one training step."""
    model.zero_grad()
    loss = run(**inputs).loss
    loss.backward()
    named = model.named_parameters()
    return loss.detach(), {n: p.grad.clone() for n, p in named if p.grad is not None}
