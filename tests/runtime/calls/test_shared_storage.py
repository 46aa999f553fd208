"""A storage that another process was given is never handed out again."""

from __future__ import annotations

import torch

from fuser.runtime.calls.output_pool import OutputPool

BYTES = 1 << 16


def _take(pool: OutputPool) -> torch.Tensor:
    return pool.empty_strided((BYTES // 4,), (1,), torch.float32, BYTES)


def test_memory_moved_to_another_process_stays_its_own() -> None:
    pool = OutputPool()
    given = _take(pool)
    given.share_memory_()
    seen_elsewhere = given.data_ptr()
    del given
    again = _take(pool)
    assert again.data_ptr() != seen_elsewhere


def test_storages_in_use_do_not_count_against_the_capacity() -> None:
    pool = OutputPool(capacity=2 * BYTES)
    live = [_take(pool) for _ in range(5)]
    freed = live.pop().data_ptr()
    assert _take(pool).data_ptr() == freed
