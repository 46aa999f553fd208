"""What the steps of a plan share at run time."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fuser.ir.nodes import Number

Environment = list["torch.Tensor | Number | None"]
"""The inputs, then a slot for each buffer that the plan makes."""

Action = Callable[[Environment], None]
ReadTensor = Callable[[Environment], torch.Tensor]
