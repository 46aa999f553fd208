"""Definitions of one structure become one."""

import pytest
import torch

from fuser import DataType, FusionDefinition, LRUCache, LruFusionCache, errors


def scaled(by: float, dtype: DataType = DataType.Float) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1], dtype=dtype) * by)
    return fd


def test_equal_definitions_become_one():
    make = LruFusionCache(max_fusions=8)(scaled)
    first = make(2.0)
    assert make(2.0) is first
    assert make(3.0) is not first
    assert make(2.0, dtype=DataType.Half) is not first
    assert first.execute([torch.ones(3)])[0].tolist() == [2.0, 2.0, 2.0]
    assert make.num_fusions() == 3
    assert make.stats() == {"num_fusions": 3, "max_fusions": 8, "hits": 1, "misses": 3}


def test_what_a_definition_holds_is_found_as_the_definition_is() -> None:
    cache, first = LRUCache(4), scaled(2.0)
    held = cache.cache_compile(first.fusion)
    assert held.execute([torch.ones(3)])[0].tolist() == [2.0, 2.0, 2.0]
    assert cache.cache_compile(first) is held
    with pytest.raises(errors.ArgumentTypeError, match="must be a FusionDefinition, got int"):
        cache.cache_compile(3)  # pyright: ignore[reportArgumentType]


def test_nans_are_equal_and_signed_zeros_are_not():
    cache = LRUCache(4)
    assert cache.cache_compile(scaled(float("nan"))) is cache.cache_compile(scaled(float("nan")))
    assert cache.cache_compile(scaled(0.0)) is not cache.cache_compile(scaled(-0.0))


def test_the_least_recently_used_goes_first():
    cache = LRUCache(2)
    two, three = cache.cache_compile(scaled(2.0)), cache.cache_compile(scaled(3.0))
    assert cache.cache_compile(scaled(2.0)) is two
    cache.cache_compile(scaled(4.0))
    assert cache.num_fusions() == 2
    assert cache.cache_compile(scaled(2.0)) is two
    assert cache.cache_compile(scaled(3.0)) is not three


def test_a_cache_of_nothing_is_refused():
    with pytest.raises(errors.ArgumentError, match="max_fusions"):
        LRUCache(0)


def test_a_decorator_without_parentheses_says_so():
    with pytest.raises(errors.ArgumentTypeError, match="with parentheses"):
        LruFusionCache(scaled)
    with pytest.raises(errors.ArgumentTypeError, match="whole number, got str"):
        LRUCache("a")
    with pytest.raises(errors.ArgumentError, match="LruFusionCache: max_fusions = 0"):
        LruFusionCache(0)


def test_what_is_no_finished_definition_is_refused() -> None:
    with pytest.raises(errors.ArgumentTypeError, match="must be a FusionDefinition, got int"):
        LruFusionCache()(lambda: 3)()  # pyright: ignore
    with pytest.raises(errors.EmptyDefinitionError):
        LruFusionCache()(FusionDefinition)()
    with FusionDefinition() as fd:
        fd.define_tensor(shape=[1])
    with pytest.raises(errors.NoOutputError):
        LRUCache().cache_compile(fd)
