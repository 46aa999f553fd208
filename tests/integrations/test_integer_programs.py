"""Programs that compute with integers, closed and with open sizes: eager's numbers and gradients.

Places along texts and images, sampling, routing, packed texts, unpacked bits, graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere

Tensors = tuple[torch.Tensor, ...]
Program = Callable[..., "torch.Tensor | Tensors"]


def nucleus(logits: torch.Tensor) -> torch.Tensor:
    """The most probable words that have 0.9 of the probability."""
    sorted_logits, words = torch.sort(logits, descending=True, dim=-1)
    probabilities = F.softmax(sorted_logits, -1)
    before = torch.cumsum(probabilities, -1) - probabilities
    kept = F.softmax(sorted_logits.masked_fill(before > 0.9, -1e9), -1)
    return torch.zeros_like(logits).scatter(-1, words, kept)


def by_capacity(x: torch.Tensor, gate: torch.Tensor) -> Tensors:
    """Words go to the best of 4 experts, at most 10 to each."""
    words = x.flatten(0, 1)
    expert = torch.argmax(words @ gate, -1)
    chosen = F.one_hot(expert, 4)
    place = (torch.cumsum(chosen, 0) * chosen).sum(-1) - 1
    kept = (place < 10)[:, None]
    slot = expert * 10 + place.clamp(max=9)
    held = torch.zeros(40, words.shape[-1]).index_add(0, slot, words * kept)
    return held, held[slot] * kept


def by_experts(x: torch.Tensor, gate: torch.Tensor) -> Tensors:
    """Words in the order of their experts, and back."""
    expert = torch.argmax(x @ gate, -1).view(-1)
    order = torch.argsort(expert, stable=True)
    back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel()))
    count = (expert[:, None] == torch.arange(4)).sum(0)
    return x.flatten(0, 1)[order].sin()[back] * 2, count, torch.cumsum(count, 0)


def packed(starts: torch.Tensor, x: torch.Tensor) -> Tensors:
    """Texts one after the other: the place of each word in its own, and who sees whom."""
    words = torch.arange(x.shape[0])
    text = torch.searchsorted(starts, words, right=True) - 1
    place = words - starts[text]
    seen = (text[:, None] == text) & (place <= place[:, None])
    return x * torch.cos(place * 0.1)[:, None], seen


def in_buckets(scores: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """T5: a bias for each bucket of distances."""
    words = torch.arange(scores.shape[-1])
    back = words - words[:, None]
    distance = back.abs()
    far = 8 + (torch.log(distance.float() / 8) / torch.log(torch.tensor(16.0)) * 8).long()
    far = torch.min(far, torch.full_like(far, 15))
    bucket = (back > 0).long() * 16 + torch.where(distance < 8, distance, far)
    return (scores + bias[bucket].permute(2, 0, 1)).softmax(-1)


def in_windows(scores: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Swin: a bias for each difference of places in windows of 7 by 7."""
    sides = torch.meshgrid(torch.arange(7), torch.arange(7), indexing="ij")
    places = torch.stack(sides).flatten(1)
    apart = (places[:, :, None] - places[:, None]).permute(1, 2, 0) + 6
    number = apart[..., 0] * 13 + apart[..., 1]
    return scores + table[number.view(-1)].view(49, 49, -1).permute(2, 0, 1)


def masked_places(mask: torch.Tensor) -> torch.Tensor:
    place = mask.long().cumsum(-1) - 1
    return place.masked_fill(mask == 0, 1)


def nibbles(packed_bytes: torch.Tensor, levels: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Numbers of 4 bits, each one of 16 levels."""
    halves = torch.stack([packed_bytes >> 4, packed_bytes & 15], -1).flatten(-2)
    return levels[halves.long()].view(-1, 64) * scale[:, None]


def morton(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The bits of both by turns."""

    def spread(number: torch.Tensor) -> torch.Tensor:
        for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
            number = (number | (number << shift)) & mask
        return number

    return spread(x) | (spread(y) << 1)


def hashed(places: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """The corners of the cell of each place, at the hash of their numbers."""
    scaled = places * 16
    corner = scaled.long()
    result = torch.zeros(places.shape[0], table.shape[1])
    for across in (0, 1):
        for down in (0, 1):
            number = (corner[:, 0] + across) ^ ((corner[:, 1] + down) * 2654435761)
            weight = (scaled - corner - torch.tensor([across, down])).abs().prod(-1)
            result = result + table[number % table.shape[0]] * weight[:, None]
    return result


def attended(x: torch.Tensor, source: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    """A graph: each node is the weighted mean of those with an edge to it."""
    energy = F.leaky_relu((x[source] * x[to]).sum(-1))
    largest = torch.full((10,), -1e9).scatter_reduce(0, to, energy, "amax")
    weight = (energy - largest[to]).exp()
    total = torch.zeros(10).index_add(0, to, weight)
    return torch.zeros_like(x).index_add(0, to, x[source] * (weight / total[to])[:, None])


def cached(cache: torch.Tensor, new: torch.Tensor, place: torch.Tensor) -> Tensors:
    updated = cache.clone()
    updated[:, :, place] = new
    return updated.sum(2), updated


def framed(signal: torch.Tensor) -> torch.Tensor:
    return signal.unfold(-1, 16, 8) * torch.hann_window(16)


def mixed(image: torch.Tensor, label: torch.Tensor, order: torch.Tensor) -> Tensors:
    one_hot = F.one_hot(label, 10)
    return 0.3 * image + 0.7 * image[order], 0.3 * one_hot + 0.7 * one_hot[order]


def circulant(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.shape[-1])
    return x[(places[:, None] - places) % x.shape[-1]]


def between_knots(x: torch.Tensor, knots: torch.Tensor, heights: torch.Tensor) -> torch.Tensor:
    above = torch.searchsorted(knots, x).clamp(1, knots.numel() - 1)
    left, right, low, high = knots[above - 1], knots[above], heights[above - 1], heights[above]
    return low + (x - left) / (right - left) * (high - low)


def _integers(most: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, most, shape).to(dtype)


def _programs() -> Mapping[str, tuple[Program, Callable[[], Tensors]]]:
    randn, rand = torch.randn, torch.rand
    made: dict[str, tuple[Program, Callable[[], Tensors]]] = {
        "nucleus": (nucleus, lambda: (randn(2, 101),)),
        "capacity": (by_capacity, lambda: (randn(2, 33, 16), randn(16, 4))),
        "experts": (by_experts, lambda: (randn(2, 33, 16), randn(16, 4))),
        "packed": (packed, lambda: (torch.tensor([0, 5, 17, 33]), randn(33, 16))),
        "buckets": (in_buckets, lambda: (randn(4, 33, 33), randn(32, 4))),
        "windows": (in_windows, lambda: (randn(5, 3, 49, 49), randn(169, 3))),
        "masked": (masked_places, lambda: (_integers(2, 2, 33),)),
        "nibbles": (
            nibbles,
            lambda: (_integers(256, 64, 32, dtype=torch.uint8), randn(16), randn(64)),
        ),
        "morton": (morton, lambda: (_integers(65_536, 1000), _integers(65_536, 1000))),
        "hashed": (hashed, lambda: (rand(500, 2), randn(512, 4))),
        "graph": (attended, lambda: (randn(10, 8), _integers(10, 60), _integers(10, 60))),
        "cached": (
            cached,
            lambda: (randn(2, 4, 33, 16), randn(2, 4, 3, 16), torch.tensor([4, 7, 9])),
        ),
        "framed": (framed, lambda: (randn(3, 200),)),
        "mixed": (mixed, lambda: (randn(16, 3, 8, 8), _integers(10, 16), torch.randperm(16))),
        "circulant": (circulant, lambda: (randn(12),)),
        "knots": (between_knots, lambda: (rand(100), torch.linspace(0, 1, 11), randn(11))),
    }
    return made


PROGRAMS = _programs()


def _tensors(results: Any) -> Iterator[torch.Tensor]:
    yield from (results,) if isinstance(results, torch.Tensor) else results


def _run(program: Program, given: Tensors) -> list[torch.Tensor]:
    """The results, and the gradients of what is given."""
    inputs = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in given]
    results = list(_tensors(program(*inputs)))
    differentiable = [result for result in results if result.requires_grad]
    trained = [x for x in inputs if x.requires_grad]
    gradients: list[torch.Tensor] = []
    if differentiable:
        weights = [torch.linspace(-1, 1, y.numel()).view(y.shape) for y in differentiable]
        found = torch.autograd.grad(differentiable, trained, weights, allow_unused=True)
        gradients = [torch.zeros(()) if each is None else each for each in found]
    return [*(result.detach() for result in results), *gradients]


@pytest.mark.parametrize("dynamic", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_eagers_numbers_and_gradients(name: str, dynamic: bool) -> None:
    torch.manual_seed(0)
    program, draw = PROGRAMS[name]
    given = draw()
    expected = _run(program, given)
    found = _run(torch.compile(program, backend="fuser", dynamic=dynamic), given)
    for one, other in zip(expected, found, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
