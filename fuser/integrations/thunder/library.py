"""The only importer of Lightning Thunder: the modules of it that are used.

Thunder 0.2.6 lists five methods of named tensors that torch 2.13 no longer has, and cannot be
imported without them; they stand in while it is, and are gone afterwards.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Generator
from typing import Any

import torch

_GONE = ("align_as", "align_to", "has_names", "refine_names", "rename")


def _stand_in(name: str) -> Callable[..., Any]:
    def method(*_: object) -> None:
        raise NotImplementedError(f"torch {torch.__version__} has no Tensor.{name}")

    method.__name__ = method.__qualname__ = name
    return method


@contextlib.contextmanager
def named_tensors() -> Generator[None]:
    """torch.Tensor with the methods that Thunder looks for."""
    missing = [name for name in _GONE if not hasattr(torch.Tensor, name)]
    for name in missing:
        setattr(torch.Tensor, name, _stand_in(name))
    try:
        yield
    finally:
        for name in missing:
            delattr(torch.Tensor, name)


def load(name: str) -> Any:
    """A module of Thunder. Raises ImportError, which says what to install, or that Thunder does not
    go with this torch."""
    try:
        with named_tensors():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "thunder":
            raise
        install = "Lightning Thunder is not installed: pip install 'fuser[thunder]'"
        raise ImportError(install, name="thunder") from error
    except (AttributeError, ImportError) as error:  # what it looks for in torch, and is not there
        beside = f"Lightning Thunder cannot be imported beside torch {torch.__version__}: {error}"
        raise ImportError(beside, name="thunder") from error


load("thunder")
extend = load("thunder.extend")
prims = load("thunder.core.prims")
proxies = load("thunder.core.proxies")
dtypes = load("thunder.core.dtypes")
devices = load("thunder.core.devices")
traces = load("thunder.core.trace")
compile_data = load("thunder.core.compile_data")
transforms = load("thunder.core.transform_common")
ltorch = load("thunder.torch")
