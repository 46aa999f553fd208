"""A kernel that reads where nothing is breaks its device for all that a process does later.

So a process of pytest-xdist ends after such a test, and another one goes on; without that plugin,
no test is run after it.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
import torch


def is_broken() -> bool:
    """Whether the device does nothing more for this process."""
    if not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test, and look at the device after one that needs it."""
    done = yield
    if item.get_closest_marker("gpu") is not None and is_broken():
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(1)  # what the test came to has been said
        item.session.shouldfail = f"{item.nodeid} broke the device"
    return done
