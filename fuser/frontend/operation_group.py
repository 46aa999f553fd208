"""The base of the classes that `fd.ops` is made of."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

from fuser.errors import FuserError
from fuser.frontend.calls import explained
from fuser.frontend.recorder import Recorder
from fuser.runtime.untraced import untraced


class OperationGroup:
    """Methods named after operations, which append to one definition.

    Many are made of others. What they raise names the one that the user called, by the name it was
    called by; arguments that it does not take are a CallError.
    """

    def __init_subclass__(cls) -> None:
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, _naming(name, method))

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder


def _naming(name: str, method: Callable[..., object]) -> Callable[..., object]:
    call = explained(name, method)

    @untraced
    @functools.wraps(method)
    def named(*args: object, **options: object) -> object:
        try:
            return call(*args, **options)
        except FuserError as error:
            error.called(name)
            raise

    return named
