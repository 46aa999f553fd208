"""A part of a product of parameters in which all values meet that have to."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import pytest

from tests.covering import covering

ROOT = Path(__file__).parents[1]


def part(*parameters: range) -> list[tuple[int, ...]]:
    made = list(product(*parameters))
    return [made[number] for number in covering(made)]


@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (4, 4), (7, 1)], ids=str)
def test_of_two_parameters_every_value_is_there_about_equally_often(sizes: tuple[int, int]) -> None:
    kept = part(*map(range, sizes))
    assert len(kept) == max(sizes)
    for parameter, size in enumerate(sizes):
        often = Counter(values[parameter] for values in kept)
        assert set(often) == set(range(size))
        assert max(often.values()) - min(often.values()) <= 1


@pytest.mark.parametrize("sizes", [(2, 2, 2), (5, 4, 3), (2, 3, 4, 2), (2,) * 6], ids=str)
def test_of_more_every_pair_of_values_is_there(sizes: tuple[int, ...]) -> None:
    kept, every = part(*map(range, sizes)), list(product(*map(range, sizes)))
    pairs = [{pair for values in of for pair in _pairs(values)} for of in (kept, every)]
    assert pairs[0] == pairs[1]
    assert len(kept) < len(every)


def _pairs(values: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    return list(combinations(enumerate(values), 2))


def test_of_one_parameter_all_are_there() -> None:
    assert part(range(9)) == [(value,) for value in range(9)]


def test_values_need_not_meet_in_pairs() -> None:
    made = list(product(range(5), range(3), range(4)))
    kept = [made[number] for number in covering(made, pairs=False)]
    assert len(kept) == 5
    assert [len(set(values)) for values in zip(*kept, strict=True)] == [5, 3, 4]


def test_what_a_product_lacks_is_not_missed() -> None:
    triangle = [(a, b) for a in range(4) for b in range(a)]
    kept = [triangle[number] for number in covering(triangle)]
    assert {a for a, _ in kept} == {1, 2, 3}
    assert {b for _, b in kept} == {0, 1, 2}


def test_the_option_leaves_out_combinations_and_says_how_many(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "from tests.covering import more\n"
        "@pytest.mark.parametrize('a', range(3))\n"
        "@pytest.mark.parametrize(('b', 'c'), [(0, 1), (1, 0), (1, 1), (2, 2)])\n"
        "def test_product(a, b, c): pass\n"
        "@pytest.mark.alone\n"
        "@pytest.mark.parametrize('a', [0, *more(1, 2)])\n"
        "@pytest.mark.parametrize('b', [0, 1])\n"
        "@pytest.mark.parametrize('c', [0, 1])\n"
        "def test_apart(a, b, c): pass\n"
        "@pytest.mark.more\n"
        "def test_of_its_own(): pass\n"
        "def test_alone(): pass\n"
    )
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir")
    found = subprocess.run(
        (*command, str(tmp_path), "--covering", str(tmp_path)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert "7 passed, 19 deselected" in found, found
