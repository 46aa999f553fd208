"""Scripts that repeat an execution: the printed definition, and inputs that are planned alike.

What a plan depends on is kept: sizes, strides, dtype, device, alignment, every scalar, and which
tensors lie in memory of another one. Numbers of tensors are kept where asked for; else floats are
normally distributed, and integers as large as they were.
"""

from __future__ import annotations

import ast
import dataclasses
import platform
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fuser.frontend.version import VERSION
from fuser.ir.binding import is_strided
from fuser.ir.nodes import Fusion, python_number
from fuser.ir.printer import print_fusion, print_number
from fuser.runtime.calls.call import address, holds_numbers
from fuser.runtime.calls.overlaps import span_of

_IMPORTS = "import torch\n\nfrom fuser import DataType, FusionDefinition\n"
_DEFINED = "with FusionDefinition() as fd:\n    nvfuser_fusion(fd)\n"


_PAIRS = torch.float4_e2m1fn_x2
"""Of which torch makes none, but of their bytes."""


@dataclass(frozen=True, slots=True)
class TensorForm:
    """What is kept of a tensor. `lowest` and `highest` are of integers, and `ignored` is the only
    number below 0 among indices, if there is one; `offset` is in elements.

    `numbers` are those of the buffer, or of the tensor if it needs no other buffer. A tensor that
    lies `inside` another input has none: that one's position is kept, in whose buffer it lies.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: str
    offset: int
    lowest: int = 0
    highest: int = 1
    ignored: int | None = None
    numbers: str | None = None
    inside: int | None = None

    @property
    def is_dense(self) -> bool:
        """Whether torch makes such a tensor where it is asked for these sizes."""
        dense = torch.empty(self.sizes, device="meta").stride()
        return self.offset == 0 and self.strides == dense

    @property
    def elements(self) -> int:
        """How many a buffer has that it fits in, from the buffer's begin."""
        if 0 in self.sizes:
            return self.offset
        steps = zip(self.sizes, self.strides, strict=True)
        return self.offset + 1 + sum((size - 1) * stride for size, stride in steps)


Form = TensorForm | str | list["Form"]
"""A tensor's form, a number's text, or those of a vector."""


def forms_of(inputs: Sequence[object], *, numbers: bool = False) -> list[Form]:
    """What a script needs to know of inputs: of each one, and which lie in memory of another."""
    forms = [form_of(given, numbers=numbers) for given in inputs]
    for at, (outer, offset) in _inside_others(inputs).items():
        form, around = forms[at], forms[outer]
        assert isinstance(form, TensorForm)
        assert isinstance(around, TensorForm)
        begin = around.offset + offset
        forms[at] = dataclasses.replace(form, inside=outer, offset=begin, numbers=None)
    return forms


def _inside_others(inputs: Sequence[object]) -> dict[int, tuple[int, int]]:
    """By position, tensors that lie in the span of another of their storage and type: the longest
    one's position, and how many elements after it they begin."""
    sharing: dict[tuple[int, torch.dtype], dict[int, tuple[int, int]]] = {}
    for at, given in enumerate(inputs):
        if isinstance(given, torch.Tensor) and is_strided(given) and holds_numbers(given):
            storage = given.untyped_storage().data_ptr(), given.dtype
            sharing.setdefault(storage, {})[at] = span_of(given)
    found: dict[int, tuple[int, int]] = {}
    for (_, dtype), spans in sharing.items():
        longest = sorted(spans, key=lambda at: spans[at][0] - spans[at][1])
        for number, at in enumerate(longest):
            start, end = spans[at]
            around = (o for o in longest[:number] if spans[o][0] <= start < end <= spans[o][1])
            outer = next((o for o in around if o not in found), None)
            if outer is not None:
                found[at] = outer, (start - spans[outer][0]) // dtype.itemsize
    return found


def form_of(given: object, *, numbers: bool = False) -> Form:
    """What a script needs to know of an input, which need not be one that fits.

    With `numbers`, those of tensors are kept too.
    """
    if isinstance(given, torch.Tensor) and is_strided(given):
        form = _tensor_form(given)
        return _with_numbers(form, given) if numbers else form
    if isinstance(given, list | tuple):
        return [form_of(part, numbers=numbers) for part in given]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    number = python_number(given)
    return _literal(given) if number is None else print_number(number)


def _literal(given: object) -> str:
    """What a script can say of an input that is none: itself, or its text, which is none either."""
    try:
        ast.literal_eval(repr(given))
    except (ValueError, SyntaxError):
        return repr(repr(given))
    return repr(given)


def repro_script(
    fusion: Fusion,
    forms: Sequence[Form] | None,
    *,
    target: str | None = None,
    device: object = None,
    failure: str | None = None,
    method: str = "execute",
) -> str:
    """A script that defines `fusion` and, unless `forms` is None, executes it on such inputs.

    `failure` is the error that ended the definition early, if one did; `method` is what is called.
    """
    parts = [_versions(forms), _IMPORTS, f"\n{print_fusion(fusion)}", f"\n{_DEFINED}"]
    if failure is not None:
        parts.append(f"# The definition was left by {failure}\n")
    if forms is not None:
        place = device if device is None or isinstance(device, int) else str(device)
        options: dict[str, object] = {"target": target, "device": place}
        named = "".join(f", {name}={o!r}" for name, o in options.items() if o is not None)
        parts += [_inputs(forms), f"outputs = fd.{method}(inputs{named})\n"]
    return "\n".join(parts)


def _versions(forms: Sequence[Form] | None) -> str:
    lines = [f"fuser {VERSION}, torch {torch.__version__}, Python {platform.python_version()}"]
    if torch.cuda.is_available():
        lines.append(f"CUDA {torch.version.cuda}: {torch.cuda.get_device_name()}")
    lines.append(f"{platform.system()} {platform.machine()}")
    if forms is None:
        lines.append("Without inputs: fd.repro_script_for(inputs) adds them.")
    return "".join(f"# {line}\n" for line in lines)


def _is_captured(tensor: torch.Tensor) -> bool:
    """Whether a CUDA graph is captured, which to look at the tensor's numbers would end."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _tensor_form(tensor: torch.Tensor) -> TensorForm:
    lowest, highest, ignored = 0, 1, None
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    is_seen = holds_numbers(tensor) and not _is_captured(tensor)
    if is_integer and tensor.dtype is not torch.bool and tensor.numel() and is_seen:
        is_ordered = tensor.dtype is not torch.uint64  # torch finds no extremes of these
        numbers = tensor.detach() if is_ordered else tensor.detach().double()
        lowest, highest = (int(bound) for bound in numbers.aminmax())
        if lowest < 0 <= highest and not ((lowest < numbers) & (numbers < 0)).any():
            ignored = lowest
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    device = str(tensor.device)
    return TensorForm(
        sizes, strides, tensor.dtype, device, _offset(tensor), lowest, highest, ignored
    )


def _with_numbers(form: TensorForm, tensor: torch.Tensor) -> TensorForm:
    """The form with the tensor's numbers, those before it in its storage left out."""
    if not holds_numbers(tensor) or 0 in form.sizes:
        return form
    offset = (address(tensor) & 15) // tensor.itemsize
    form = dataclasses.replace(form, offset=offset)
    if form.is_dense:
        return dataclasses.replace(form, numbers=_print(_numbers(tensor)))
    buffer = tensor.detach().as_strided((form.elements - offset,), (1,))
    return dataclasses.replace(form, numbers=_print([*[0] * offset, *_numbers(buffer)]))


def _numbers(tensor: torch.Tensor) -> list[object]:
    """Nested lists; a 0-dim tensor's number itself; of pairs of 4-bit floats, the bytes."""
    tensor = tensor.view(torch.uint8) if tensor.dtype is _PAIRS else tensor
    return tensor.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _print(numbers: object) -> str:
    if isinstance(numbers, list):
        return f"[{', '.join(map(_print, numbers))}]"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    assert isinstance(numbers, bool | int | float | complex)
    return print_number(numbers)


def _offset(tensor: torch.Tensor) -> int:
    """The offset, or another that gives the same alignment where the storage itself is unaligned;
    allocators align what a script makes."""
    offset = int(tensor.storage_offset())
    wanted = address(tensor) & 15
    if not holds_numbers(tensor) or (offset * tensor.itemsize) & 15 == wanted:
        return offset
    return wanted // tensor.itemsize


def _inputs(forms: Sequence[Form]) -> str:
    if not forms:
        return "inputs = []"
    inside = {
        at: form
        for at, form in enumerate(forms)
        if isinstance(form, TensorForm) and form.inside is not None
    }
    values = ("None" if at in inside else _value(form) for at, form in enumerate(forms))
    lines = ["inputs = [", *(f"    {value}," for value in values), "]"]
    for at, form in inside.items():
        lines.append(f"inputs[{at}] = inputs[{form.inside}]{_placed(form)}")
    return "\n".join(lines)


def _value(form: Form) -> str:
    match form:
        case TensorForm():
            return _tensor(form)
        case str():
            return form
        case list():
            return f"[{', '.join(map(_value, form))}]"


def _tensor(form: TensorForm) -> str:
    if form.is_dense:
        return _made(form, form.sizes)
    return f"{_made(form, (form.elements,))}{_placed(form)}"


def _placed(form: TensorForm) -> str:
    """A tensor in the buffer that stands before."""
    return f".as_strided({form.sizes}, {form.strides}, {form.offset})"


def _made(form: TensorForm, sizes: tuple[int, ...]) -> str:
    """A tensor of the form's numbers, or of random ones."""
    if form.dtype is _PAIRS:
        bits = dataclasses.replace(form, dtype=torch.uint8, lowest=0, highest=255)
        return f"{_made(bits, sizes)}.view({_PAIRS})"
    rest = f"dtype={form.dtype}, device={form.device!r}"
    if form.numbers is not None:
        return f"torch.tensor({form.numbers}, {rest})"
    if form.dtype.is_floating_point and form.dtype.itemsize == 1:  # torch draws no 8-bit floats
        return f"torch.randn({sizes}, device={form.device!r}).to({form.dtype})"
    if form.dtype.is_floating_point or form.dtype.is_complex:
        return f"torch.randn({sizes}, {rest})"
    above = min(form.highest + 1, 2**63 - 1)
    if form.ignored is not None:
        made = f"torch.randint(-1, {above}, {sizes}, {rest})"
        return f"(t := {made}).masked_fill_(t < 0, {form.ignored})"
    return f"torch.randint({min(form.lowest, above - 1)}, {above}, {sizes}, {rest})"
