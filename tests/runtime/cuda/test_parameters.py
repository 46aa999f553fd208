"""A kernel's parameters in memory, as ctypes would lay each of them out."""

from __future__ import annotations

import ctypes
import struct
import threading

import pytest

from fuser.runtime.cuda.parameters import Parameters
from fuser.runtime.kernels.kernel import Complex64, Complex128

GIVEN: list[tuple[type, object]] = [
    (ctypes.c_void_p, 0x7F00_0000_1234_5670),
    (ctypes.c_bool, True),
    (ctypes.c_int64, -(1 << 62)),
    (ctypes.c_int32, -5),
    (ctypes.c_int16, -300),
    (ctypes.c_uint8, 200),
    (ctypes.c_float, 0.1),
    (ctypes.c_float, 1e300),
    (ctypes.c_double, 0.1),
    (Complex64, Complex64(1.5 - 2.0j)),
    (Complex128, Complex128(1.5 - 2.0j)),
    (ctypes.c_void_p, 0),
]


def read(address: int, types: list[type]) -> list[bytes]:
    """What the driver would copy."""
    places = (ctypes.c_void_p * len(types)).from_address(address)
    pairs = zip(places, types, strict=True)
    return [ctypes.string_at(place, ctypes.sizeof(each)) for place, each in pairs]


def test_each_number_is_as_ctypes_has_it() -> None:
    types = [each for each, _ in GIVEN]
    parameters = Parameters(types)
    address = parameters.write([number for _, number in GIVEN])
    expected = [bytes(n if isinstance(n, each) else each(n)) for each, n in GIVEN]
    assert read(address, types) == expected
    places = (ctypes.c_void_p * len(types)).from_address(address)
    assert all(place % 8 == 0 for place in places)


def test_they_are_written_where_the_last_ones_were() -> None:
    parameters = Parameters([ctypes.c_void_p, ctypes.c_int64])
    first = parameters.write((1, 2))
    assert parameters.write((3, 4)) == first
    assert read(first, [ctypes.c_int64] * 2) == [(n).to_bytes(8, "little") for n in (3, 4)]


def test_threads_do_not_write_into_each_others_memory() -> None:
    parameters = Parameters([ctypes.c_int64])
    here = parameters.write([1])
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(parameters.write([2])))
    thread.start()
    thread.join()
    assert found != [here]
    assert read(here, [ctypes.c_int64]) == [(1).to_bytes(8, "little")]


def test_a_kernel_may_have_none_and_not_fewer_than_it_has() -> None:
    Parameters([]).write([])
    with pytest.raises(struct.error):
        Parameters([ctypes.c_int64]).write([])
