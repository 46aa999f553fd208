import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from fuser.runtime.at_once import each_at_once

ASKED: ContextVar[str] = ContextVar("ASKED", default="nobody")


def test_results_are_in_order_and_made_together():
    together = threading.Barrier(2)

    def make(number: int) -> int:
        together.wait(10)
        return number * number

    assert each_at_once(make, [3, 2]) == [9, 4]


def test_a_single_one_is_made_by_who_asks():
    assert each_at_once(lambda _: threading.get_ident(), [1]) == [threading.get_ident()]
    assert each_at_once(lambda _: 1, []) == []


def test_calls_see_the_context_of_who_asks():
    token = ASKED.set("me")
    assert each_at_once(lambda _: ASKED.get(), range(3)) == ["me"] * 3
    ASKED.reset(token)


def test_where_no_thread_begins_they_are_made_by_who_asks(monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "_adjust_thread_count", refused)
    assert each_at_once(lambda _: threading.get_ident(), [1, 2]) == [threading.get_ident()] * 2


def test_what_a_call_raises_is_raised_once():
    made: list[int] = []

    def fail(number: int) -> None:
        made.append(number)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        each_at_once(fail, [1, 2])
    assert len(made) == len(set(made))
