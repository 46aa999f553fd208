"""Values that are others made wider, by name and on the spot."""

import pytest

from fuser import DataType
from fuser.schedule.code.widening import unwidened, widened_in
from fuser.schedule.tree.expressions import Call, Convert, Expression, Ref
from fuser.schedule.tree.statements import Let

HALF = Ref("T0", DataType.Half)
WIDE = Ref("T1", DataType.Float)
CODE = [
    Let("T1", DataType.Float, Convert(HALF, DataType.Float)),
    Let("T2", DataType.Half, Convert(WIDE, DataType.Half)),
    Let("T3", DataType.Float, Call("exp", (WIDE,), DataType.Float)),
    Let("T4", DataType.Double, Convert(WIDE, DataType.Double)),
    Let("T5", DataType.Float, Convert(Ref("i", DataType.Int), DataType.Float)),
]


def test_only_what_changes_no_number_and_is_computed_in_is_wider():
    assert widened_in(CODE) == {"T1": HALF}


@pytest.mark.parametrize(
    ("value", "was"),
    [
        (WIDE, HALF),
        (Convert(HALF, DataType.Float), HALF),
        (HALF, HALF),
        (Ref("T3", DataType.Float), Ref("T3", DataType.Float)),
        (Convert(WIDE, DataType.Half), Convert(WIDE, DataType.Half)),
    ],
    ids=str,
)
def test_a_value_is_what_it_was_before(value: Expression, was: Expression):
    assert unwidened(value, widened_in(CODE)) == was
