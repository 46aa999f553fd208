"""What the steps of a plan share at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Environment = list[Any]
"""The inputs, then a slot for each buffer that the plan makes. Which slot has a tensor, a number or
nothing yet follows from the plan, and is not checked at a call."""

Action = Callable[[Environment], None]
ReadTensor = Callable[[Environment], torch.Tensor]
