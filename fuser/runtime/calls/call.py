"""What of a call's inputs a plan depends on: sizes, strides, types, where they lie."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fuser.errors import ArgumentError, InputKindError, TracingError
from fuser.ir.nodes import Fusion, Inputs, Number

Device = int | str | torch.device | None


def key_of(given: torch.Tensor | Number) -> object:
    """Everything about an input that what runs it depends on."""
    if isinstance(given, torch.Tensor):
        lazy = given.is_conj() or given.is_neg()
        at = address(given)
        aligned = _ALIGNMENTS[at & 15] if at else 0
        return given.shape, given.stride(), given.dtype, given.device, aligned, lazy
    if isinstance(given, Integral):  # of NumPy's, too; whether it fits is checked once for each
        return type(given), given < 0, _width(int(given))
    return type(given)


def plan_key_of(given: torch.Tensor | Number) -> object:
    """Everything about an input that its plan for a target depends on: not where it lies, nor
    whether it holds numbers."""
    if not isinstance(given, torch.Tensor):
        return key_of(given)
    lazy = given.is_conj() or given.is_neg()
    return given.shape, given.stride(), given.dtype, alignment(given), lazy


def check_memory(fusion: Fusion, inputs: Inputs) -> None:
    """Raises InputKindError where a tensor has no memory of its own for a kernel to read: meta and
    fake tensors, wrappers of others, tensors whose storage was freed."""
    for position, (value, given) in enumerate(zip(fusion.inputs, inputs, strict=True)):
        lack = _lack_of_memory(given) if isinstance(given, torch.Tensor) else None
        if lack is not None:
            raise InputKindError(
                position=position, name=value.name, expected="a tensor with memory", got=lack
            )


def _lack_of_memory(given: torch.Tensor) -> str | None:
    """What a tensor is that has no address to read; None where it has one, or no elements."""
    if not holds_numbers(given):
        kind = "meta tensor" if given.is_meta else "FakeTensor"
        return f"a {kind}, which holds no numbers; plan(inputs) takes it, execute does not"
    try:
        if given.data_ptr() != 0 or given.numel() == 0:
            return None
    except RuntimeError:
        return f"a {type(given).__name__} inside of a function transform, such as torch.vmap"
    if type(given) in (torch.Tensor, torch.nn.Parameter):
        return f"a {type(given).__name__} that has none, as where its storage was freed"
    return f"a {type(given).__name__} that has none of its own, as wrappers of other tensors"


def holds_numbers(tensor: torch.Tensor) -> bool:
    """Whether it is neither a meta tensor nor a fake, which are sizes and strides only."""
    return not (tensor.is_meta or isinstance(tensor, FakeTensor))


def address(tensor: torch.Tensor) -> int:
    """Where its first element lies; 0 where it has no memory. (Asked for it, a fake warns.)"""
    return 0 if isinstance(tensor, FakeTensor) else tensor.data_ptr()


_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack  # pyright: ignore[reportPrivateUsage]


def is_traced() -> bool:
    """Whether torch is in a mode that may record or replace its operations."""
    return _modes() > 0


def refuse_tracing() -> None:
    """Raises TracingError in modes that record or fake torch's operations: kernels are none."""
    keys = torch._C._TorchDispatchModeKey  # pyright: ignore[reportPrivateUsage]
    for key in (keys.FAKE, keys.PROXY, keys.FUNCTIONAL):
        mode = torch._C._get_dispatch_mode(key)  # pyright: ignore[reportPrivateUsage]
        if mode is not None:
            raise TracingError(operation="execute", mode=type(mode).__name__)


def _width(number: int) -> int:
    """The bits of the smallest of torch's integer types, or of a double's range, that a number
    fits; 0 for none."""
    bits = (~number if number < 0 else number).bit_length()
    return next((width for width in (7, 8, 15, 31, 63, 1023) if bits <= width), 0)


def alignment(tensor: torch.Tensor) -> int:
    """The largest power of two, up to 16, that divides the address."""
    return _ALIGNMENTS[address(tensor) & 15]


_ALIGNMENTS = (16, *(low & -low for low in range(1, 16)))
"""The alignment of an address by its last four bits."""


def device_of(inputs: Inputs, device: Device) -> torch.device:
    """Where to run: where the inputs are; where they are only numbers and 0-dim CPU tensors, on
    `device`, or else on the CPU.

    An int is the number of a CUDA device; "cuda" is the current one. Raises ArgumentError where
    `device` is no device, or not where the inputs are.
    """
    wanted = None if device is None else _read_device(device)
    tensors = [given for given in inputs if isinstance(given, torch.Tensor)]
    fixed = [t.device for t in tensors if t.dim() > 0 or t.device.type != "cpu"]
    if not fixed:
        return torch.device("cpu") if wanted is None else _with_number(wanted)
    if wanted is not None and not _is_part(fixed[0], wanted):
        expected = f"the inputs are on {fixed[0]}; leave it out, or move them"
        raise ArgumentError("execute", "device", str(wanted), expected)
    return fixed[0]


def _with_number(device: torch.device) -> torch.device:
    """A device; the current one, where it is any of its kind."""
    if str(device) != "cuda" or not torch.cuda.is_available():
        return device
    return torch.device("cuda", torch.cuda.current_device())


def _is_part(device: torch.device, wanted: torch.device) -> bool:
    """Whether a device is the wanted one, or of the wanted kind where no number is given."""
    return device.type == wanted.type and wanted.index in (None, device.index)


def _read_device(device: int | str | torch.device) -> torch.device:
    """A device. Raises ArgumentError; also for numbers from 128 on, which torch keeps in 8 bits, so
    that 256 would be the first device."""
    try:
        read = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError("execute", "device", device, "torch knows no such device") from error
    if device not in (read, read.index, str(read)):
        raise ArgumentError("execute", "device", device, "devices have numbers from 0 to 127")
    return read


def describe_input(given: torch.Tensor | Number) -> str:
    """A line for the `fusion_args` dump."""
    if not isinstance(given, torch.Tensor):
        return f"scalar {given!r}"
    sizes, strides = tuple(given.shape), given.stride()
    return f"tensor {given.dtype} sizes {sizes} strides {strides} device {given.device}"
