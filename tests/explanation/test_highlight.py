"""Marked code has the same text, and marks what it is."""

from __future__ import annotations

import re
from html import unescape

import pytest
import torch

from fuser import FusionDefinition
from fuser.explanation.highlight import highlighted


def text_of(markup: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", markup))


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_the_text_of_a_kernel_is_unchanged(target: str) -> None:
    x = torch.randn(8, 8)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(fd.ops.exp(t), dims=[-1]))
    source = fd.plan([x], target=target).kernels[0].source
    assert text_of(highlighted(source)) == source
    assert text_of(highlighted(repr(fd))) == repr(fd)


@pytest.mark.parametrize(
    ("code", "kind", "marked"),
    [
        ("x = 1.5e-3f;", "number", ["1.5e-3f"]),
        ("a + 2; // 3 < 4 & if", "comment", ["// 3 < 4 & if"]),
        ("/* for\nif */ for", "comment", ["/* for\nif */"]),
        ("#pragma omp simd\nfor (int i", "directive", ["#pragma omp simd"]),
        ("#pragma omp simd\nfor (int i", "keyword", ["for"]),
        ('extern "C" void f', "string", ['"C"']),
        ("int64 n; printf", "type", ["int64"]),
    ],
)
def test_words_are_marked(code: str, kind: str, marked: list[str]) -> None:
    found = re.findall(rf'<span class="{kind}">(.*?)</span>', highlighted(code), re.DOTALL)
    assert list(map(text_of, found)) == marked
