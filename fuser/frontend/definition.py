"""`FusionDefinition`: where a fusion is described, and run."""

from __future__ import annotations

from types import TracebackType
from typing import NoReturn, Self

from fuser.errors import UnknownMemberError
from fuser.frontend.arguments import one_of
from fuser.frontend.calls import explained, explained_calls
from fuser.frontend.class_form import define_later
from fuser.frontend.close_names import close_names
from fuser.frontend.code import CodeMembers
from fuser.frontend.declarations import Declarations
from fuser.frontend.fusion import Fusion, fusion_of_number
from fuser.frontend.handles import Handle
from fuser.frontend.left_out import MEMBERS
from fuser.frontend.ops import Operations
from fuser.frontend.recorder import Recorder
from fuser.frontend.run_members import RunMembers
from fuser.ir import nodes
from fuser.ir.pointwise import TABLE
from fuser.runtime.untraced import untraced_methods


@untraced_methods
@explained_calls()
class FusionDefinition(Declarations, RunMembers, CodeMembers):
    """Describes a fusion inside its `with` block; runs it afterwards.

    `FusionDefinition(fs)` fills the Fusion `fs`, which then runs it too; `FusionDefinition(id)` is
    for the Fusion of that number, as `id()` told it, while something holds it; `id=` is the same. A
    class made from this one may have a method `definition(self)`: it is called, as in a block, when
    the definition is first needed. `max_length` is accepted for older scripts; a definition may be
    of any length.
    """

    Operators = Operations
    """The class of `fd.ops`, which nvFuser's scripts ask for what there is."""

    def __init__(
        self,
        fusion: Fusion | int | None = None,
        max_length: int | None = None,
        *,
        id: int | None = None,
    ) -> None:
        if id is not None:
            number = one_of("FusionDefinition", fusion=fusion, id=id)
            fusion = fusion_of_number(number, "FusionDefinition")
        self._kind = "FusionDefinition" if fusion is None else "Fusion"
        self._slot = _fusion_of(fusion)
        Declarations.__init__(self, Recorder())
        self.ops = Operations(self._recorder)
        later = define_later(self)
        if later is not None:
            self._slot.define_by(later)

    __init__ = explained("FusionDefinition", __init__)

    def __enter__(self) -> Self:
        self._slot.begin(self._recorder, self._kind)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._slot.finish(error)

    @property
    def fusion(self) -> nodes.Fusion:
        """The inputs, statements and outputs written so far."""
        return self._slot.ir

    def __getattr__(self, name: str) -> NoReturn:
        """Raises UnknownMemberError, which is an AttributeError; it tells where operations are."""
        hint = f"; {MEMBERS[name]}" if name in MEMBERS else close_names(name, dir(self))
        if "_slot" not in vars(self):
            hint = f"; {type(self).__name__}.__init__ has to call super().__init__() first"
        if name in TABLE or hasattr(Operations, name):
            hint = f"; did you mean fd.ops.{name}?"
        raise UnknownMemberError(owner="FusionDefinition", name=name, hint=hint)

    def inputs(self) -> list[Handle]:
        """The tensors and scalars that `execute` takes, in order."""
        return self._slot.handles(self.fusion.inputs)

    def outputs(self) -> list[Handle]:
        """The tensors that are outputs, in order, those that are written into inputs too."""
        return self._slot.handles(self.fusion.output_values)

    def id(self) -> int:
        """The number of the Fusion it fills."""
        return self._slot.id()

    def validate_definition(self) -> tuple[bool, str | None]:
        """Whether it can be executed, and if not, why."""
        return self._slot.validate_definition()

    def check_finished(self, operation: str) -> None:
        """Raises the reason why it cannot be executed, to `operation`."""
        self._slot.finished(operation)

    def copy(self, source: FusionDefinition | Fusion) -> None:
        """Be defined as `source` is; see `clone`."""
        slot = source if isinstance(source, Fusion) else source._slot
        self.fill(slot.finished("clone"))

    def fill(self, fusion: nodes.Fusion) -> None:
        """Be defined as a fusion that is finished."""
        with self:
            self._recorder.copy(fusion)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles and copies have the definition, its class and what that has put into it; what it
        runs is planned again, where it runs."""
        fusion = self._slot.finished("pickle")
        ours = vars(FusionDefinition())
        theirs = {name: held for name, held in vars(self).items() if name not in ours}
        return _restored, (type(self), fusion), theirs

    def __repr__(self) -> str:
        return repr(self._slot)


def _restored(kind: type[FusionDefinition], fusion: nodes.Fusion) -> FusionDefinition:
    """A definition of a class that is finished as `fusion`; its own constructor is not called."""
    definition = kind.__new__(kind)
    FusionDefinition.__init__(definition)
    definition.fill(fusion)
    return definition


def _fusion_of(given: object) -> Fusion:
    """The Fusion to be filled, or that of a number. Raises ArgumentError, ArgumentTypeError."""
    if given is None:
        return Fusion()
    if isinstance(given, Fusion):
        return given
    return fusion_of_number(given, "FusionDefinition")
