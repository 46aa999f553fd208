"""Calls that do not fit: what is wrong with them, and how the function is called.

sum: got an unexpected keyword argument 'axes_'; it is called as
sum(arg, dims=None, keepdim=False, dtype=None)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

from fuser.errors import CallError, FuserError
from fuser.runtime.untraced import untraced

Class = TypeVar("Class", bound=type)
P = ParamSpec("P")
Result = TypeVar("Result")


class UnknownKeywordError(TypeError):
    """Raised by a method that takes names of older scripts, for a name that is none of them;
    `explained` makes a CallError of it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"got an unexpected keyword argument {name!r}")


_STOOD_ON = ("execute", "plan")
"""What other methods are made of; a definition has no operations of these names."""


def explained_calls(*, prefix: str = "", but: Collection[str] = ()) -> Callable[[Class], Class]:
    """Decorates a class: its public methods are `explained`, those called often are left out."""

    def decorate(cls: Class) -> Class:
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_") and name not in but:
                setattr(cls, name, explained(prefix + name, method))
        return cls

    return decorate


def explained(name: str, method: Callable[P, Result]) -> Callable[P, Result]:
    """A method that raises CallError where it is called with arguments that it does not take.

    Errors of what is given to an execution or a plan name it, too, and not what it stands on.
    """

    @untraced
    @functools.wraps(method)
    def called(*args: P.args, **named: P.kwargs) -> Result:
        try:
            return method(*args, **named)
        except FuserError as error:
            if error.fields.get("operation") in _STOOD_ON:
                error.called(name)
            raise
        except TypeError as error:
            reason = _misfit(method, args, named, error)
            if reason is None:
                raise
            shown = _shown(inspect.signature(method))
            raise CallError(operation=name, reason=reason, signature=shown) from None

    return called


def bound(
    name: str, signature: inspect.Signature, args: tuple[object, ...], named: dict[str, object]
) -> tuple[object, ...]:
    """Arguments in order. Raises CallError."""
    reason = _unfit(signature, args, named)
    if reason is not None:
        raise CallError(operation=name, reason=reason, signature=str(signature))
    return signature.bind(*args, **named).args


def _misfit(
    method: Callable[..., object],
    args: tuple[object, ...],
    named: dict[str, object],
    error: TypeError,
) -> str | None:
    """Why a method cannot be called so; None where an error came from within."""
    if isinstance(error, UnknownKeywordError):
        return str(error)
    return _unfit(inspect.signature(method), args, named)


def _unfit(
    signature: inspect.Signature, args: tuple[object, ...], named: dict[str, object]
) -> str | None:
    """What is wrong with arguments: a name that there is not, before what is missing for it."""
    known = signature.parameters
    if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        for name in named:
            if name not in known:
                return str(UnknownKeywordError(name))
    try:
        signature.bind(*args, **named)
    except TypeError as misfit:
        return str(misfit)
    return None


def _shown(signature: inspect.Signature) -> str:
    """A method's parameters as its user sees them: without types, and older names."""
    _, *own = signature.parameters.values()
    listed = [p.replace(annotation=p.empty) for p in own if p.kind is not p.VAR_KEYWORD]
    return str(inspect.Signature(listed))
