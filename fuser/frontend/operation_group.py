"""The base of the classes that `fd.ops` is made of."""

from __future__ import annotations

from fuser.frontend.recorder import Recorder


class OperationGroup:
    """Methods named after operations, which append to one definition."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
