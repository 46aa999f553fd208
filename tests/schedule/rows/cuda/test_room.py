"""Where a row is kept, by its length."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuser.schedule import CudaRowParameters
from fuser.schedule.rows.cuda.room import (
    Demand,
    Room,
    block_room,
    column_room,
    slot_room,
    warp_room,
)
from fuser.schedule.tree.row_statements import Place

OLD, NEW = CudaRowParameters.of("sm_80"), CudaRowParameters.of("sm_90")
MANY = 1 << 20


def room(
    elements: int,
    *sizes: int,
    given: CudaRowParameters = NEW,
    rows: int = MANY,
    dense: bool = True,
    costly: bool = False,
) -> Room | None:
    """Where a block or cluster keeps rows of so many elements, of tensors of these sizes."""
    lanes = 16 // min(sizes)
    demand = Demand(-(-elements // lanes), lanes, sizes)
    most = given.max_cluster
    return block_room(demand, rows, given, max_cluster=most, reserved=0, dense=dense, costly=costly)


@pytest.mark.parametrize(
    ("elements", "want"),
    [
        (768, Room(64, 1, Place.REGISTERS, 4)),
        (4096, Room(256, 1, Place.REGISTERS, 4)),
        (8192, Room(512, 1, Place.REGISTERS, 4)),
        (16384, Room(512, 2, Place.REGISTERS, 4)),
        (65536, Room(512, 8, Place.REGISTERS, 4)),
        (131072, Room(512, 8, Place.REGISTERS, 8)),
        (262144, Room(1024, 8, Place.SHARED, 8)),
        (600000, None),
    ],
)
def test_float32_rows_with_clusters(elements: int, want: Room | None):
    assert room(elements, 4) == want


@pytest.mark.parametrize(
    ("elements", "size", "want"),
    [
        (8192, 4, Room(256, 1, Place.REGISTERS, 8)),
        (32768, 4, Room(256, 4, Place.REGISTERS, 8)),
        (32768, 2, Room(256, 2, Place.REGISTERS, 8)),
        (131072, 2, Room(256, 8, Place.REGISTERS, 8)),
        (262144, 4, Room(1024, 8, Place.SHARED, 8)),
    ],
)
def test_threads_of_costly_rows_have_more_elements(elements: int, size: int, want: Room):
    assert room(elements, size, costly=True) == want


@pytest.mark.parametrize(
    ("elements", "want"),
    [
        (8192, Room(512, 1, Place.REGISTERS, 4)),
        (32768, Room(256, 4, Place.REGISTERS, 8)),  # blocks of a cluster keep none
    ],
)
def test_threads_that_keep_costly_values_have_no_more(elements: int, want: Room):
    demand = Demand(elements // 4, 4, (4,))
    most = NEW.max_cluster
    found = block_room(
        *(demand, MANY, NEW),
        max_cluster=most,
        reserved=0,
        dense=True,
        costly=True,
        keeps_values=True,
    )
    assert found == want


@pytest.mark.parametrize(
    ("sizes", "drawn", "want"),
    [
        ((4, 4, 4), 0, Room(512, 2, Place.REGISTERS, 1)),
        ((4, 4, 4), 4, Room(512, 1, Place.REGISTERS, 2)),
        ((2, 2, 2), 0, Room(512, 1, Place.REGISTERS, 1)),
        ((2, 2, 2), 2, Room(256, 1, Place.REGISTERS, 2)),
        ((4, 4), 4, Room(256, 1, Place.REGISTERS, 4)),
        ((4, 8), 8, Room(512, 1, Place.REGISTERS, 2)),  # 256 threads do not have the registers
        ((4,), 4, Room(256, 1, Place.REGISTERS, 4)),
    ],
)
def test_what_is_drawn_needs_no_threads_that_load_it(
    sizes: tuple[int, ...], drawn: int, want: Room
):
    """Rows of 4096: threads that have little to load spend their time on what each does once."""
    lanes = 16 // min(sizes)
    demand = Demand(4096 // lanes, lanes, sizes, drawn)
    most = NEW.max_cluster
    found = block_room(demand, MANY, NEW, max_cluster=most, reserved=0, dense=True, costly=False)
    assert found == want


@pytest.mark.parametrize(
    ("elements", "want"),
    [
        (16384, Room(512, 1, Place.REGISTERS, 8)),
        (32768, Room(1024, 1, Place.SHARED, 8)),
        (40000, Room(1024, 1, Place.SHARED, 10)),
        (65536, None),
    ],
)
def test_float32_rows_without_clusters(elements: int, want: Room | None):
    assert room(elements, 4, given=OLD) == want


def test_threads_that_need_registers_for_more_keep_less():
    assert room(131072, 4, dense=False) == Room(1024, 8, Place.REGISTERS, 4)
    assert room(131072, 4, 4) == Room(1024, 8, Place.SHARED, 4)


def test_half_the_bytes_take_half_the_threads():
    assert room(4096, 2) == Room(128, 1, Place.REGISTERS, 4)
    assert room(4096, 2, 2) == Room(256, 1, Place.REGISTERS, 2)


def test_few_rows_get_more_blocks():
    assert room(16384, 4, rows=MANY) == Room(512, 2, Place.REGISTERS, 4)
    assert room(16384, 4, rows=4) == Room(128, 8, Place.REGISTERS, 4)
    assert room(1024, 4, rows=4) == Room(64, 1, Place.REGISTERS, 4)


@pytest.mark.parametrize("exponent", range(6, 15))
def test_registers_depend_on_the_power_of_two_only(exponent: int):
    most = 1 << exponent
    lengths = (most // 2 + 4, most * 3 // 4, most)
    assert len({room(n, 4, given=OLD) for n in lengths}) == 1


def test_a_warp_keeps_what_registers_hold():
    assert warp_room(Demand(256, 4, (4,)), NEW) == Room(32, 1, Place.REGISTERS, 8)
    assert warp_room(Demand(256, 4, (4, 4)), NEW) is None
    assert warp_room(Demand(3, 4, (4,)), NEW) == Room(32, 1, Place.REGISTERS, 1)


def test_long_columns_have_more_threads():
    fewest = NEW.column_threads
    assert column_room(Demand(256, 1, (4,)), NEW, fewest) == Room(16, 1, Place.REGISTERS, 16)
    assert column_room(Demand(512, 1, (4,)), NEW, fewest) == Room(32, 1, Place.REGISTERS, 16)
    assert column_room(Demand(1024, 1, (4,)), NEW, fewest) == Room(32, 1, Place.SHARED, 32)
    assert column_room(Demand(4096, 1, (4,)), NEW, fewest) is None
    few = replace(NEW, column_rounds=8)
    assert column_room(Demand(256, 1, (4,)), few, fewest) == Room(32, 1, Place.REGISTERS, 8)


@pytest.mark.parametrize(
    ("demand", "slot_bytes", "want"),
    [
        (Demand(96, 8, (2, 2)), 64, Room(64, 1, Place.REGISTERS, 2)),  # layernorm of bfloat16
        (Demand(192, 4, (4, 4)), 32, Room(128, 1, Place.REGISTERS, 2)),  # of float32
        (Demand(96, 8, (2, 2)), 32, Room(64, 1, Place.REGISTERS, 2)),  # rmsnorm of bfloat16
        (Demand(384, 8, ()), 32, Room(256, 1, Place.REGISTERS, 2)),  # nothing kept but sums
        (Demand(3, 1, (4,)), 4, Room(32, 1, Place.REGISTERS, 1)),
        (Demand(2048, 4, (4, 4)), 32, Room(1024, 1, Place.REGISTERS, 2)),
        (Demand(2049, 4, (4, 4)), 32, None),
    ],
    ids=str,
)
def test_threads_have_registers_for_slots_beside_what_they_keep(
    demand: Demand, slot_bytes: int, want: Room | None
):
    assert slot_room(demand, slot_bytes, NEW, 48) == want


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
@pytest.mark.parametrize("given", [OLD, NEW], ids=["sm_80", "sm_90"])
def test_what_is_kept_fits_beside_all_that_a_kernel_declares(
    given: CudaRowParameters, cluster: int
):
    """To the byte: the device refuses a launch that takes more."""
    system = 1088 if given is NEW else 0  # in images for sm_90 and sm_100
    given = replace(given, kept_words=0, block_bytes=1, max_cluster=cluster)
    for vectors in range(1 << 10, 1 << 20, 1 << 10):
        found = block_room(
            *(Demand(vectors, 1, (2,)), MANY, given),
            max_cluster=cluster,
            reserved=0,
            dense=True,
        )
        if found is None:
            continue
        assert found.place is Place.SHARED
        warps = found.threads // 32
        mail = 8 * 2 * (1 + found.cluster * warps) if found.cluster > 1 else 0
        declared = system + 8 * warps + mail + 1
        assert declared + 2 * found.rounds * found.threads <= given.shared_bytes


def test_nothing_is_kept_where_nothing_may_be():
    none = replace(NEW, kept_words=0, shared_bytes=0)
    assert room(64, 4, given=none) is None
    assert warp_room(Demand(16, 4, (4,)), none) is None
    assert slot_room(Demand(16, 4, (4,)), 16, none, 48) is None
