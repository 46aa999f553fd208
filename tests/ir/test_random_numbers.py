"""Random numbers: known answers, another implementation, bounds, and torch's generator."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from fuser import errors
from fuser.ir import random_numbers
from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Constant, Fusion, GeneratorState, Random
from fuser.ir.philox import blocks, philox
from fuser.ir.random_numbers import draw_state

CPU = torch.device("cpu")
FLOATS = (DataType.Float, DataType.Double, DataType.Half, DataType.BFloat16)


def philox_of_integers(key: tuple[int, int], counter: list[int]) -> list[int]:
    """The paper's loop on Python's integers, rounds and key as it writes them."""
    low, high = key
    x = list(counter)
    for _ in range(10):
        first, second = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [
            (second >> 32) ^ x[1] ^ low,
            second % 2**32,
            (first >> 32) ^ x[3] ^ high,
            first % 2**32,
        ]
        low, high = (low + 0x9E3779B9) % 2**32, (high + 0xBB67AE85) % 2**32
    return x


KNOWN_ANSWERS = [
    ((0, 0), [0, 0, 0, 0], "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 2, [0xFFFFFFFF] * 4, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0xA4093822, 0x299F31D0),
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize(("key", "counter", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(
    key: tuple[int, int], counter: list[int], answer: str
) -> None:
    words = [int(word, 16) for word in answer.split()]
    x, y, z, w = (torch.tensor([word]) for word in counter)
    assert [int(word) for word in philox(key, (x, y, z, w))] == words
    assert philox_of_integers(key, counter) == words


@pytest.mark.parametrize("seed", [0, 7, -1, 2**63 - 1, -(2**63), 0x0123456789ABCDEF])
@pytest.mark.parametrize("offset", [0, 5, 2**40 + 3, -2])
def test_the_key_is_the_seed_and_the_counter_offset_and_block(seed: int, offset: int) -> None:
    words = torch.stack(blocks(seed, offset, 3, CPU), dim=1).tolist()
    key = seed % 2**32, (seed >> 32) % 2**32
    counter = [offset % 2**32, (offset >> 32) % 2**32]
    assert words == [philox_of_integers(key, [*counter, number, 0]) for number in range(3)]


def drawn(
    distribution: str,
    shape: tuple[int, ...],
    dtype: DataType = DataType.Float,
    parameters: tuple[float, float] = (0.0, 1.0),
    state: tuple[int, int] = (11, 3),
) -> torch.Tensor:
    (result,) = interpret(random_fusion(distribution, shape, dtype, parameters, state), [])
    assert result.dtype is dtype.torch
    assert result.shape == shape
    return result


def random_fusion(
    distribution: str,
    shape: tuple[int, ...],
    dtype: DataType,
    parameters: tuple[float, float],
    state: tuple[int, int] | None,
) -> Fusion:
    builder = FusionBuilder()
    given = [builder.add(Constant(number, DataType.Double))[0] for number in parameters]
    if state is None:
        seed, offset = builder.add(GeneratorState())
    else:
        seed, offset = (builder.add(Constant(word, DataType.Int))[0] for word in state)
    op = Random(distribution, shape, (given[0], given[1]), seed, offset, dtype)
    builder.output(*builder.add(op))
    return builder.fusion


def test_uniform_numbers_are_24_bits_of_the_words_in_order() -> None:
    words = [w for b in range(3) for w in philox_of_integers((11, 0), [3, 0, b, 0])]
    assert drawn("uniform", (2, 5)).flatten().tolist() == [w // 256 / 2**24 for w in words[:10]]


def test_uniform_doubles_are_53_bits_of_two_words() -> None:
    words = [w for b in range(2) for w in philox_of_integers((11, 0), [3, 0, b, 0])]
    pairs = [
        (high << 21 | low >> 11) / 2**53 for high, low in zip(words[::2], words[1::2], strict=True)
    ]
    assert drawn("uniform", (3,), DataType.Double).tolist() == pairs[:3]


@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Double])
def test_normal_numbers_are_box_and_mullers(dtype: DataType) -> None:
    numbers = drawn("normal", (8,), dtype).tolist()
    words = [w for b in range(4) for w in philox_of_integers((11, 0), [3, 0, b, 0])]
    if dtype is DataType.Double:
        words = [high << 32 | low for high, low in zip(words[::2], words[1::2], strict=True)]
    scale = 2.0 ** (64 if dtype is DataType.Double else 32)
    for pair in range(4):
        radius = math.sqrt(-2 * math.log(words[2 * pair] / scale))
        angle = 2 * math.pi * words[2 * pair + 1] / scale
        want = [radius * math.cos(angle), radius * math.sin(angle)]
        assert numbers[2 * pair : 2 * pair + 2] == pytest.approx(want, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_moments(dtype: DataType) -> None:
    uniform = drawn("uniform", (100_000,), dtype).double()
    assert abs(uniform.mean() - 0.5) < 0.004
    assert abs(uniform.var() - 1 / 12) < 0.002
    normal = drawn("normal", (100_000,), dtype, (2.0, 3.0)).double()
    assert abs(normal.mean() - 2) < 0.04
    assert abs(normal.std() - 3) < 0.03
    kurtosis = ((normal - 2) / 3).pow(4).mean()
    assert abs(kurtosis - 3) < 0.12


@pytest.mark.parametrize("parameters", [(0.0, 1.0), (1.0, 2.0), (-3.0, -2.9), (0.0, 1e-7)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_no_rounding_reaches_the_upper_bound(
    dtype: DataType, parameters: tuple[float, float]
) -> None:
    low, high = (torch.tensor(p).to(dtype.torch) for p in parameters)
    numbers = drawn("uniform", (1 << 17,), dtype, parameters)
    assert (numbers >= low).all()
    assert (numbers < high).all()


def test_equal_bounds_give_the_bound() -> None:
    assert torch.equal(drawn("uniform", (4,), parameters=(0.5, 0.5)), torch.full((4,), 0.5))


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_seed_and_offset_decide(distribution: str) -> None:
    same, again = drawn(distribution, (64,)), drawn(distribution, (4, 16)).flatten()
    assert torch.equal(same, again)
    for state in [(12, 3), (11, 4), (11 + 2**32, 3), (11, 3 + 2**32)]:
        assert not torch.isclose(same, drawn(distribution, (64,), state=state)).any()


def test_the_generator_decides_otherwise() -> None:
    fusion = random_fusion("uniform", (16,), DataType.Float, (0.0, 1.0), state=None)
    torch.manual_seed(1)
    first, second = interpret(fusion, [])[0], interpret(fusion, [])[0]
    torch.manual_seed(1)
    again = interpret(fusion, [])[0]
    assert torch.equal(first, again)
    assert not torch.isclose(first, second).any()


class FakeGenerator:
    """What is used of a CUDA device's generator."""

    def __init__(self, seed: int) -> None:
        self._seed, self.offset = seed, 8

    def initial_seed(self) -> int:
        return self._seed

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        self.offset = offset


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], FakeGenerator]:
    def make(seed: int, capturing: bool) -> FakeGenerator:
        generator = FakeGenerator(seed)
        monkeypatch.setattr(torch.cuda, "default_generators", (None, generator))
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
        return generator

    return make


def test_on_cuda_a_state_uses_up_a_block_of_words(
    fake_cuda: Callable[[int, bool], FakeGenerator],
) -> None:
    generator, device = fake_cuda(2**64 - 5, False), torch.device("cuda", 1)
    assert [draw_state(device), draw_state(device)] == [(-5, 2), (-5, 3)]
    assert generator.offset == 16


def test_no_state_is_drawn_while_a_graph_is_captured(
    fake_cuda: Callable[[int, bool], FakeGenerator],
) -> None:
    generator = fake_cuda(1, True)
    with pytest.raises(errors.GeneratorError, match="rng_seed and rng_offset"):
        draw_state(torch.device("cuda", 1))
    assert generator.offset == 8


def test_a_seed_that_is_first_drawn_in_inference_mode_is_drawn_elsewhere_later() -> None:
    random_numbers._seed.cache_clear()
    with torch.inference_mode():
        draw_state(CPU)
    torch.manual_seed(3)
    first = draw_state(CPU)
    torch.manual_seed(3)
    assert draw_state(CPU) == first
