"""Locks of a child, where other threads of its parent held them when it was forked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

HELD = """
import contextlib, os, threading
import torch
import fuser
from fuser import FusionDefinition
from fuser.frontend.validating import _VALIDATING
from fuser.ir.random_numbers import _GENERATOR
from fuser.runtime.emulator.build import _launch_lock
from fuser.runtime.calls.output_pool import POOL, POOLED_BYTES
from fuser.runtime.kernels.disk_cache import disk_cache
from fuser.runtime.kernels.stats import _LOCK
from fuser.runtime.plans.watching import PLANS

x = torch.ones(POOLED_BYTES // 4)
with FusionDefinition() as fd:
    given = fd.define_tensor(shape=[-1])
    fd.add_output(given + fd.ops.uniform(0.0, 1.0, shape=[1]))
    fd.add_output(fd.ops.topk(given * 2.0, 2)[0])
cache = fuser.LRUCache()
cache.cache_compile(fd)
fd.execute([x])
held, ended = threading.Event(), threading.Event()

def hold():
    with contextlib.ExitStack() as stack:
        owners = (cache, POOL, PLANS, disk_cache())
        locks = [owner._lock for owner in owners] + [fd._slot._defining]
        for lock in (*locks, _VALIDATING, _GENERATOR, _launch_lock, _LOCK):
            stack.enter_context(lock)
        held.set()
        ended.wait(30)

thread = threading.Thread(target=hold)
thread.start()
held.wait(30)
if os.fork() == 0:
    torch.set_num_threads(1)
    assert POOL.held_bytes() == 0
    with PLANS.watching(lambda *_: None):
        assert fd.execute([x])[0].shape == x.shape
        fd.execute([x[:7]], target="emulator")
    cache.cache_compile(fd)
    disk_cache().load("key")
    print(fuser.stats()["plans_built"], fd._slot._defining.acquire(blocking=False), flush=True)
    os._exit(0)
os.wait()
ended.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_threads_of_its_parent():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HELD],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.stdout == "2 True\n", done.stderr
