import threading

import pytest

from fuser.runtime.kernels.stats import count, launch_counter, stats


def test_counters_only_grow():
    before = stats()
    count("plans_built")
    launch_counter(3)()
    after = stats()
    assert after["plans_built"] == before["plans_built"] + 1
    assert after["kernels_launched"] == before["kernels_launched"] + 3
    assert after["kernels_loaded_from_disk"] == before["kernels_loaded_from_disk"]


def test_what_is_returned_is_a_copy():
    stats()["plans_built"] = -1
    assert stats()["plans_built"] >= 0


def test_an_unknown_counter_is_a_mistake():
    with pytest.raises(KeyError):
        count("plans_bulit")


def test_no_count_is_lost_between_threads():
    before, launched = stats()["kernels_launched"], launch_counter(1)
    threads = [threading.Thread(target=lambda: [launched() for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stats()["kernels_launched"] == before + 4000
