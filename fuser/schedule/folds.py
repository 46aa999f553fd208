"""Folds: reductions that join values two at a time."""

from __future__ import annotations

FOLDS = {
    "sum": "add",
    "prod": "mul",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}
"""For each reduction that is one fold, the pointwise operation that joins two parts of it."""
