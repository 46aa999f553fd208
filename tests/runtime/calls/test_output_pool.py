import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from fuser import DataType, FusionDefinition, debug
from fuser.errors import PoolSizeError
from fuser.runtime.calls import output_pool
from fuser.runtime.calls.output_pool import LEAST_BYTES, OutputPool, _Kept, capacity_bytes

BYTES = 4096


@pytest.fixture
def reread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment is read again, in the test and after it."""
    monkeypatch.delenv("FUSER_POOL_MIB", raising=False)
    debug.reload()
    yield
    monkeypatch.undo()
    debug.reload()


def take(pool: OutputPool, nbytes: int = BYTES) -> torch.Tensor:
    return pool.empty_strided((nbytes // 4,), (1,), torch.float32, nbytes)


def test_a_storage_that_nobody_holds_is_handed_out_again():
    pool = OutputPool()
    first = take(pool)
    address = first.data_ptr()
    del first
    assert take(pool).data_ptr() == address


@pytest.mark.parametrize("backwards", [False, True])
def test_of_many_in_use_none_is_looked_at_again_and_again(
    backwards: bool, monkeypatch: pytest.MonkeyPatch
):
    pool, looks = OutputPool(), list[int]()
    kept = [take(pool) for _ in range(100)]
    is_free = _Kept.is_free
    monkeypatch.setattr(_Kept, "is_free", lambda kept: looks.append(0) or is_free(kept))
    for _ in range(100):
        kept.pop(-1 if backwards else 0)
        kept.insert(0, take(pool))
    assert len(looks) < 400


def test_nothing_is_left_of_sizes_that_are_gone():
    pool = OutputPool(capacity=4 * BYTES)
    for number in range(20):
        take(pool, BYTES + 16 * number)
    assert len(pool._of_size) <= 4


def test_sizes_must_be_equal():
    pool = OutputPool()
    address = take(pool).data_ptr()
    assert take(pool, 2 * BYTES).data_ptr() != address


@pytest.mark.parametrize(
    "hold",
    [
        lambda tensor: tensor,
        lambda tensor: tensor[5:],
        lambda tensor: tensor.view(torch.int32),
        lambda tensor: tensor.detach(),
        lambda tensor: tensor.numpy(),
        lambda tensor: tensor.numpy()[3:],
        lambda tensor: memoryview(tensor.numpy()),
        np.from_dlpack,
        torch.utils.dlpack.to_dlpack,
        lambda tensor: tensor.untyped_storage(),
        lambda tensor: [lambda: tensor],
        lambda tensor: tensor.requires_grad_().exp(),
    ],
    ids=[
        "tensor", "slice", "view", "detached", "array", "array slice", "memoryview", "imported",
        "capsule", "storage", "closure", "graph",
    ],
)  # fmt: skip
def test_what_somebody_holds_is_never_handed_out(hold: Callable[[torch.Tensor], object]):
    pool = OutputPool()
    tensor = take(pool)
    address = tensor.data_ptr()
    held = hold(tensor)
    del tensor
    other = take(pool)
    assert other.data_ptr() != address
    del held
    assert take(pool).data_ptr() == address


def test_tensors_have_the_sizes_strides_and_dtype_asked_for():
    tensor = OutputPool().empty_strided((3, 4), (1, 3), torch.float64, 96)
    assert (tensor.shape, tensor.stride(), tensor.dtype) == ((3, 4), (1, 3), torch.float64)
    assert tensor.untyped_storage().nbytes() == 96


def test_a_storage_is_handed_out_in_other_forms():
    pool = OutputPool()
    address = take(pool).data_ptr()
    tensor = pool.empty_strided((32, 16), (1, 32), torch.float64, BYTES)
    assert tensor.data_ptr() == address
    assert (tensor.shape, tensor.stride(), tensor.dtype) == ((32, 16), (1, 32), torch.float64)


def test_nothing_of_a_tensor_is_left_to_the_next():
    pool = OutputPool()
    with torch.inference_mode():
        tensor = take(pool)
        address = tensor.data_ptr()
    tensor.requires_grad_().note = "a user's"  # pyright: ignore[reportAttributeAccessIssue]
    del tensor
    tensor = take(pool).add_(1).unsqueeze_(0)
    del tensor
    tensor = take(pool)
    assert tensor.data_ptr() == address
    assert (tensor.shape, tensor._version) == ((BYTES // 4,), 0)
    assert not tensor.requires_grad
    assert not tensor.is_inference()
    assert not hasattr(tensor, "note")
    assert tensor._base is None


def test_the_pool_holds_no_more_unused_bytes_than_its_capacity():
    pool = OutputPool(capacity=4 * BYTES)
    kept = [take(pool) for _ in range(10)]
    assert len({tensor.data_ptr() for tensor in kept}) == 10
    kept.clear()
    in_use = take(pool)
    assert pool.held_bytes() <= 4 * BYTES + in_use.nbytes


def test_the_least_recently_used_go_first():
    pool = OutputPool(capacity=3 * BYTES)
    first, second, third = (take(pool) for _ in range(3))
    recent = first.data_ptr()
    del first
    first = take(pool)  # used again, so `second` is now the oldest
    assert first.data_ptr() == recent
    fourth = take(pool)
    del first
    assert take(pool).data_ptr() == recent
    del second, third, fourth


@pytest.mark.parametrize("nbytes", [0, 100 * BYTES])
def test_a_storage_that_was_resized_is_forgotten(nbytes: int):
    pool = OutputPool(capacity=4 * BYTES)
    tensor = take(pool)
    tensor.untyped_storage().resize_(nbytes)
    del tensor
    kept = [take(pool) for _ in range(6)]
    assert all(tensor.untyped_storage().nbytes() == BYTES for tensor in kept)
    kept.clear()
    in_use = take(pool)
    assert pool.held_bytes() <= 4 * BYTES + in_use.nbytes


def test_what_is_larger_than_the_pool_is_not_kept_and_drives_nothing_out():
    pool = OutputPool(capacity=2 * BYTES)
    take(pool)
    take(pool, 8 * BYTES)
    assert pool.held_bytes() == BYTES


def test_clearing_forgets_storages_but_leaves_them_to_their_users():
    pool = OutputPool()
    tensor = take(pool).fill_(3)
    pool.clear()
    assert pool.held_bytes() == 0
    assert take(pool).data_ptr() != tensor.data_ptr()
    assert tensor.sum() == 3 * BYTES // 4


def test_where_there_is_no_room_what_nobody_uses_makes_some(monkeypatch: pytest.MonkeyPatch):
    pool, made = OutputPool(), torch.UntypedStorage
    unused, in_use = take(pool), take(pool)
    del unused

    def limited(nbytes: int) -> torch.UntypedStorage:
        if pool._held + nbytes > 3 * BYTES:
            raise RuntimeError("can't allocate memory")
        return made(nbytes)

    monkeypatch.setattr(torch, "UntypedStorage", limited)
    assert take(pool, 2 * BYTES).nbytes == 2 * BYTES
    assert pool.held_bytes() == 3 * BYTES
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        take(pool, 3 * BYTES)
    assert in_use.nbytes == BYTES


@pytest.mark.usefixtures("reread")
def test_the_process_says_how_much_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output_pool, "memory_limit", lambda: 2 << 30)
    assert capacity_bytes() == 256 << 20
    monkeypatch.setattr(output_pool, "memory_limit", lambda: 1 << 20)
    assert capacity_bytes() == LEAST_BYTES


@pytest.mark.usefixtures("reread")
@pytest.mark.parametrize(("mib", "kept"), [("0", 0), ("1", 1 << 20)])
def test_the_environment_says_how_much_is_kept(
    mib: str, kept: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FUSER_POOL_MIB", mib)
    debug.reload()
    pool = OutputPool()
    for _ in range(2):
        take(pool, 1 << 20)
    assert pool.held_bytes() == kept


@pytest.mark.parametrize("word", ["much", "-1", "1.5", "1G"])
@pytest.mark.usefixtures("reread")
def test_what_is_no_size_is_refused(word: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FUSER_POOL_MIB", word)
    debug.reload()
    with pytest.raises(PoolSizeError, match=f"FUSER_POOL_MIB is '{word}'; it is a whole number"):
        debug.pool_bytes()


def test_threads_never_share_a_storage():
    pool = OutputPool()
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            tensor = take(pool).fill_(number)
            if not bool((tensor == number).all()):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_large_outputs_of_an_execution_come_from_the_pool(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fuser.runtime.calls.executor.POOLED_BYTES", BYTES)
    output_pool.POOL.clear()
    x = torch.randn(BYTES)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor([-1], dtype=DataType.Float)))
    (first,) = fd.execute([x])
    (second,) = fd.execute([2 * x])
    torch.testing.assert_close(first, -x)
    torch.testing.assert_close(second, -2 * x)
    address = first.data_ptr()
    del first
    (third,) = fd.execute([x])
    assert third.data_ptr() == address
    output_pool.POOL.clear()
