"""A fusion compiler with nvFuser's Python front end.

with FusionDefinition() as fd:
    x = fd.from_pytorch(tensor)
    fd.add_output(fd.ops.sum(x * 2.0, dims=[-1]))
outputs = fd.execute([tensor])
"""

from fuser.errors import FuserError
from fuser.frontend.definition import Fusion, FusionDefinition
from fuser.frontend.lru_cache import LRUCache, LruFusionCache
from fuser.frontend.version import version
from fuser.ir.dtypes import DataType
from fuser.ir.types import compute_tensor_descriptor
from fuser.runtime.stats import stats

__version__ = version()

__all__ = [
    "DataType",
    "FuserError",
    "Fusion",
    "FusionDefinition",
    "LRUCache",
    "LruFusionCache",
    "__version__",
    "compute_tensor_descriptor",
    "stats",
    "version",
]
