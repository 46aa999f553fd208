"""The forms of `define_tensor`: which one a call is in, and the input that it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuser.errors import ArgumentError, ArgumentTypeError
from fuser.frontend.arguments import (
    boolean,
    data_type,
    integer,
    is_int,
    is_sequence,
    one_of,
    sequence,
)
from fuser.frontend.input_layouts import declared_layout, declared_shape, described
from fuser.ir.dtypes import DataType
from fuser.ir.types import DYNAMIC, Layout, TensorType

DEFAULTS: dict[str, object] = {"dtype": DataType.Float, "is_cpu": False, "static_sizes": False}
"""What is taken for arguments that are not None where they are left out."""

_OLDER = {"shape": "symbolic_sizes", "contiguity": "contiguous"}
_FORMS = {
    "shape": ("shape", "contiguity", "dtype", "is_cpu", "stride_order"),
    "sizes": ("sizes", "strides", "dtype", "static_sizes", "is_cpu"),
    "ndims": ("ndims", "dtype", "is_cpu"),
}
"""The positional arguments of each form, which the first one names."""

_BESIDE = {"ndims": ("contiguity", "stride_order")}
"""What a form takes by name only."""


def declared_tensor(positional: Sequence[object], named: Mapping[str, object]) -> TensorType:
    """The type of the input that `define_tensor(*positional, **named)` declares.

    Raises ArgumentError, ArgumentTypeError.
    """
    given = {name: value for name, value in named.items() if value is not DEFAULTS.get(name)}
    arguments = _read_once(_by_position(positional), given)
    form = _form(arguments)
    element = data_type("define_tensor", arguments.get("dtype", DEFAULTS["dtype"]), paired=True)
    is_cpu = boolean("define_tensor", "is_cpu", arguments.get("is_cpu", False))
    shape, layout = _shape_and_layout(form, arguments)
    if is_cpu and shape:
        expected = (
            "only a 0-dim tensor can be on the CPU beside others on a GPU; leave it out "
            "to run on CPU tensors"
        )
        raise ArgumentError("define_tensor", "is_cpu", True, expected)
    return TensorType(element, shape, layout, is_cpu)


def _by_position(given: Sequence[object]) -> dict[str, object]:
    """The positional arguments by name, which their types tell."""
    first, second = (*given, None, None)[:2]
    if is_int(first):
        names = _FORMS["ndims"]
    elif is_sequence(second) and any(map(is_int, sequence("define_tensor", "strides", second))):
        names = _FORMS["sizes"]
    else:
        names = _FORMS["shape"]
    if len(given) > len(names):
        expected = f"at most {', '.join(names)}"
        raise ArgumentTypeError("define_tensor", "positional arguments", len(given), expected)
    return dict(zip(names, given, strict=False))


def _read_once(by_position: dict[str, object], given: dict[str, object]) -> dict[str, object]:
    """The arguments by their newest names. Raises ArgumentError for one that is given twice."""
    arguments = dict(by_position)
    for name, value in given.items():
        if name in _OLDER.values():
            continue
        if name in by_position:
            expected = "give it once, by position or by name"
            raise ArgumentError("define_tensor", name, value, expected)
        arguments[name] = value
    for name, older in _OLDER.items():
        if older in given:
            spellings = {name: arguments.get(name), older: given[older]}
            arguments[name] = one_of("define_tensor", **spellings)
    return arguments


def _form(arguments: Mapping[str, object]) -> str:
    """The one form that all arguments are of, by its first. Raises ArgumentError."""
    forms = [name for name in _FORMS if arguments.get(name) is not None]
    if len(forms) != 1 or ("sizes" in forms) != (arguments.get("strides") is not None):
        got = [name for name in (*_FORMS, "strides") if arguments.get(name) is not None]
        expected = "give shape (and contiguity), or sizes and strides, or ndims"
        raise ArgumentError("define_tensor", "arguments", got, expected)
    (form,) = forms
    taken = (*_FORMS[form], *_BESIDE.get(form, ()))
    for name in sorted(arguments.keys() - taken):
        expected = f"it does not go with {form}, which goes with {', '.join(taken[1:])}"
        raise ArgumentError("define_tensor", name, arguments[name], expected)
    return form


def _shape_and_layout(form: str, arguments: Mapping[str, object]) -> tuple[tuple[int, ...], Layout]:
    """The shape and layout that the form gives. Raises ArgumentError."""
    if form == "sizes":
        static = boolean("define_tensor", "static_sizes", arguments.get("static_sizes", False))
        return described(arguments["sizes"], arguments["strides"], static_sizes=static)
    if form == "ndims":
        ndims = integer("define_tensor", "ndims", arguments["ndims"])
        if ndims < 0:
            raise ArgumentError("define_tensor", "ndims", ndims, "0 or more")
        shape = (DYNAMIC,) * ndims
    else:
        shape = declared_shape(arguments["shape"])
    contiguity = arguments.get("contiguity")
    order = arguments.get("stride_order")
    return shape, declared_layout(shape, False if contiguity is None else contiguity, order)
