"""Along which dimensions elements may differ: what is expanded is seen through its readers."""

from __future__ import annotations

import torch

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Expand,
    Full,
    Permute,
    Pointwise,
    Slice,
    Squeeze,
    StrideOrder,
    Value,
)
from fuser.ir.varying import varying_dims
from tests.passes.rewriting import Draft


def test_dimensions_along_which_elements_vary() -> None:
    draft = Draft()
    rows = draft.tensor(torch.zeros(5).long())
    repeated = draft.tensor(torch.zeros(5, 1).long().expand(5, 7))

    def varying(value: Value) -> set[int]:
        return set(varying_dims(draft.fusion)[value])

    column = draft.add(Broadcast(rows, (False, True)))
    wide = draft.add(Expand(column, (5, 7)))
    made = draft.pointwise("add", draft.add(Cast(wide, DataType.Int32)), repeated)
    assert varying(rows) == varying(column) == varying(wide) == varying(made) == {0}
    assert varying(repeated) == {0}
    assert varying(draft.add(Permute(wide, (1, 0)))) == {1}
    assert varying(draft.add(StrideOrder(wide, (0, 1)))) == {0}
    assert varying(draft.add(Slice(wide, (0, 2), (1, 7), (1, 1)))) == set()
    assert varying(draft.add(Squeeze(draft.add(Permute(column, (1, 0))), (0,)))) == {0}
    assert varying(draft.add(Pointwise("add", (wide, draft.range(7))))) == {0, 1}
    assert varying(draft.add(Full((5, 7), draft.number(1), DataType.Int))) == set()


def test_what_is_read_many_times_is_looked_at_once() -> None:
    draft = Draft()
    value = draft.tensor(torch.zeros(1, 4).expand(3, 4))
    for _ in range(2000):
        value = draft.add(Pointwise("mul", (value, value)))
    assert varying_dims(draft.fusion)[value] == {1}
