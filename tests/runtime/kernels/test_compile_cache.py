import os
import subprocess
import sys
import threading

import pytest

from fuser.runtime.kernels.compile_cache import CompileCache


def test_each_key_is_made_once():
    cache: CompileCache[str] = CompileCache()
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    for key in ("a", "b", "a"):
        assert cache.get(key, lambda key=key: make(key)) == key.upper()
    assert made == ["a", "b"]


def test_threads_that_ask_meanwhile_wait_for_the_one_that_makes():
    cache: CompileCache[object] = CompileCache()
    entered, release = threading.Event(), threading.Event()
    made: list[object] = []

    def make() -> object:
        entered.set()
        release.wait(10)
        made.append(object())
        return made[-1]

    results: list[object] = []
    threads = [
        threading.Thread(target=lambda: results.append(cache.get("a", make))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    assert entered.wait(10)
    release.set()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert all(result is made[0] for result in results)


def test_another_key_is_made_while_one_is_being_made():
    cache: CompileCache[int] = CompileCache()
    release = threading.Event()
    slow = threading.Thread(target=lambda: cache.get("slow", lambda: int(release.wait(10))))
    slow.start()
    assert cache.get("quick", lambda: 1) == 1
    release.set()
    slow.join()


FORKED = """
import os, sys, threading
from fuser.runtime.kernels.compile_cache import CompileCache

cache, entered, release = CompileCache(), threading.Event(), threading.Event()

def make():
    entered.set()
    release.wait(60)
    return "parent's"

thread = threading.Thread(target=lambda: cache.get("a", make))
cache.get("b", lambda: "made before")
thread.start()
entered.wait(60)
child = os.fork()
if child == 0:
    print(cache.get("a", lambda: "child's"), cache.get("b", lambda: "again"), flush=True)
    os._exit(0)
os.waitpid(child, 0)
release.set()
thread.join()
print(cache.get("a", lambda: "again"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_wait_for_what_its_parent_makes():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["child's made before", "parent's"], done.stderr


def test_a_failure_is_raised_and_tried_again():
    cache: CompileCache[int] = CompileCache()

    def fail() -> int:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cache.get("a", fail)
    assert cache.get("a", lambda: 3) == 3


def test_a_failure_reaches_those_who_waited_for_it():
    cache: CompileCache[int] = CompileCache()
    release, errors = threading.Event(), []

    def fail() -> int:
        release.wait(10)
        raise ValueError("no")

    def ask() -> None:
        try:
            cache.get("a", fail)
        except ValueError as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    release.set()
    for thread in threads:
        thread.join()
    assert len(errors) == 4


def test_the_oldest_go_where_there_are_too_many():
    cache: CompileCache[int] = CompileCache(capacity=2)
    for number in (1, 2, 1, 3):
        assert cache.get(number, lambda number=number: 10 * number) == 10 * number
    assert [cache.find(number) for number in (1, 2, 3)] == [None, 20, 30]
