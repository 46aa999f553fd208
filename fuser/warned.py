"""Warnings that point to the line of the user's that led to them."""

from __future__ import annotations

import inspect
import os
import warnings

_PACKAGE = os.path.dirname(__file__) + os.sep


def warn_user(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the last line before the call came into this package."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
