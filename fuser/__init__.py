"""A fusion compiler with nvFuser's Python front end.

with FusionDefinition() as fd:
    x = fd.from_pytorch(tensor)
    fd.add_output(fd.ops.sum(x * 2.0, dims=[-1]))
outputs = fd.execute([tensor])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fuser import pytorch_utils
from fuser.errors import FuserError, UnknownNameError
from fuser.frontend.clone import clone
from fuser.frontend.close_names import close_names
from fuser.frontend.definition import FusionDefinition
from fuser.frontend.fusion import Fusion
from fuser.frontend.handles import Scalar, Tensor
from fuser.frontend.inspecting import (
    compute_contiguity,
    compute_tensor_descriptor,
    get_val_tolerances,
    translate_fusion,
)
from fuser.frontend.left_out import NAMES
from fuser.frontend.lru_cache import LRUCache, LruFusionCache
from fuser.frontend.profiler import PythonProfiler
from fuser.frontend.version import Version, version
from fuser.ir.dtypes import DataType
from fuser.runtime.kernels.stats import stats

if TYPE_CHECKING:
    from fuser.explanation import explain

__version__ = version()

TensorView = Tensor
"""nvfuser_direct's name of a tensor's handle."""

__all__ = [
    "DataType",
    "FuserError",
    "Fusion",
    "FusionDefinition",
    "LRUCache",
    "LruFusionCache",
    "PythonProfiler",
    "Scalar",
    "Tensor",
    "TensorView",
    "Version",
    "__version__",
    "clone",
    "compute_contiguity",
    "compute_tensor_descriptor",
    "explain",
    "get_val_tolerances",
    "pytorch_utils",
    "stats",
    "translate_fusion",
    "version",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    """`explain`, loaded when it is asked for: `import fuser` need not wait for torch's compiler."""
    if name == "explain":
        return importlib.import_module("fuser.explanation").explain
    hint = f"; {NAMES[name]}" if name in NAMES else close_names(name, __all__)
    raise UnknownNameError(name=name, hint=hint)
