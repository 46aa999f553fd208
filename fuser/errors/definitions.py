"""Mistakes in a definition, and in the inputs of its execution."""

from __future__ import annotations

from fuser.errors.base import FuserError

# -- inputs of an execution ----------------------------------------------------------------------


class InputCountError(FuserError):
    template = "the definition has {expected} input(s), but {got} were given; it takes {names}"


class InputKindError(FuserError, TypeError):
    template = "input {position} ({name}): expected {expected}, got {got}"


class InputDtypeError(FuserError):
    template = (
        "input {position} ({name}): expected dtype {expected}, got {got}; "
        "{remedy}, or define the input with that dtype"
    )


class InputRankError(FuserError):
    template = (
        "input {position} ({name}): expected {expected} dimension(s), got {got} (sizes {sizes})"
    )


class InputSizeError(FuserError):
    template = (
        "input {position} ({name}): dimension {dim} was defined with size {expected}, got {got} "
        "(sizes {sizes}); define it as -1 for any size"
    )


class InputDeviceError(FuserError):
    template = "input {position} ({name}): expected device {expected}, got {got}"


class InputContiguityError(FuserError):
    template = (
        "input {position} ({name}): defined with contiguity {contiguity} and stride order {order}, "
        "but sizes {sizes} have strides {strides}: dimension {dim} should have stride {expected}; "
        "pass a contiguous tensor, or define the dimension as not contiguous"
    )


class ScalarInputError(FuserError, TypeError):
    template = "input {position} ({name}): {value!r} does not fit the scalar type {expected}"


# -- definitions ---------------------------------------------------------------------------------


class UnknownOperationError(FuserError, AttributeError):
    template = "fd.ops has no operation {name!r}{hint}"


class UnknownMemberError(FuserError, AttributeError):
    template = "a {owner} has no {name!r}{hint}"


class UnknownDataTypeError(FuserError, AttributeError):
    template = "there is no DataType.{name}{hint}"


class UnknownNameError(FuserError, AttributeError):
    template = "module 'fuser' has no attribute {name!r}{hint}"


class _WrongArgumentError(FuserError):
    """Base of the two that most modules raise: types check what they are given."""

    def __init__(self, operation: str, argument: str, got: object, expected: str) -> None:
        super().__init__(operation=operation, argument=argument, got=got, expected=expected)


class ArgumentError(_WrongArgumentError):
    template = "{operation}: {argument} = {got!r}: {expected}"


class ArgumentTypeError(_WrongArgumentError, TypeError):
    template = "{operation}: {argument} must be {expected}, got {got}"


class CallError(FuserError, TypeError):
    template = "{operation}: {reason}; it is called as {operation}{signature}"


class ForeignValueError(FuserError):
    template = (
        "{operation}: {name} belongs to another definition; a definition uses its own values only"
    )


class OperandDtypeError(FuserError, TypeError):
    template = "{operation}: {reason} (operand dtypes: {got})"


class BroadcastError(FuserError):
    template = (
        "{operation}: operand sizes {left} and {right} do not agree at dimension {dim} from the "
        "end ({left_size} against {right_size}); sizes must be equal, or 1 to broadcast"
    )


class DimensionError(FuserError, IndexError):
    template = "{operation}: dimension {dim} is out of range for {operand} of {rank} dimension(s)"


class ViewSizeError(FuserError):
    template = (
        "{operation}: {operand} of sizes {original} has {elements} element(s), "
        "which do not fit the new shape {shape}"
    )


class TensorSizeError(FuserError):
    template = (
        "{operation}: {name} would have sizes {sizes}, which are {bytes} bytes; "
        "no more than 2**63 - 1 can be addressed"
    )


class OriginalShapeError(FuserError):
    template = "{operation}: original_shape is {got}, but {operand} has sizes {expected}"


class UndefinedOutputError(FuserError):
    template = (
        "add_output: {got} is not a value of this definition; "
        "pass what fd.ops or fd.define_tensor returned"
    )


class NoOutputError(FuserError, NotImplementedError):
    template = "the definition has no output; call fd.add_output before the block ends"


class EmptyDefinitionError(FuserError, NotImplementedError):
    template = (
        "nothing is defined; describe a fusion inside `with FusionDefinition(...) as fd:` first"
    )


class DefinitionClosedError(FuserError):
    template = (
        "{operation}: the definition's `with` block has ended; it can be executed, but not extended"
    )


class DefinitionOpenError(FuserError):
    template = "{operation}: the definition's `with` block is still open; leave it first"


class DefinitionNotOpenError(FuserError):
    template = (
        "{operation}: the definition has not begun; "
        "call it inside `with FusionDefinition(...) as fd:`"
    )


class DefinitionFailedError(FuserError):
    template = (
        "{operation}: the definition's `with` block was left by an error ({error}); "
        "make a new FusionDefinition to define it again"
    )


class RedefinitionError(FuserError):
    template = "the definition is already finished; make a new {kind} to define another"


class UnsupportedHookError(FuserError, NotImplementedError):
    template = "{kind} has a method {hook}, which fuser does not call: {reason}"


class ScalarOutputError(FuserError, TypeError):
    template = (
        "add_output: {name} is a scalar, and only tensors can be outputs; "
        "make one by fd.ops.full(shape=[], fill_value={name}, dtype={dtype})"
    )


class HandleTruthError(FuserError, TypeError):
    template = (
        "{name} has no value while the definition is written: it cannot be tested, looped over, "
        "indexed or made a number of Python's; use fd.ops.where, fd.ops.slice or fd.ops.select, "
        "and define_tensor with the sizes that are known"
    )


class HandleOperatorError(FuserError, TypeError):
    template = "{operator} is no operator on values of a definition; use {instead}"


class HandleInTorchError(FuserError, TypeError):
    template = (
        "torch's {function} takes no values of a definition, which have none of their own while it "
        "is written; operations on them are in fd.ops{hint}"
    )


class VerifyError(FuserError):
    template = "malformed fusion {stage}: {statement}: {reason}"


class AliasUpdateError(FuserError):
    template = "output {output} cannot be written into input {input}: {reason}"


class ScalarEvaluationError(FuserError):
    template = "{statement}: the scalar has no value: {reason}"
