import torch

from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import (
    Fusion,
    Operation,
    Permute,
    Pointwise,
    Slice,
    Statement,
    StrideOrder,
    Value,
    View,
)
from fuser.ir.printer import print_fusion
from fuser.ir.verify import verify
from fuser.passes.rewrite import Emitter, rebuilt, rewrite
from tests.passes.rewriting import Draft, names, rewritten


def negated_twice(statement: Statement, emit: Emitter) -> Operation | Value | None:
    """exp(x) -> neg(neg(exp(x))): several statements for one."""
    op = statement.op
    if not isinstance(op, Pointwise) or op.op != "exp":
        return None
    inner = emit.add(Pointwise("exp", op.args))
    return emit.add(Pointwise("neg", (emit.add(Pointwise("neg", (inner,))),)))


def test_one_statement_becomes_several_numbered_above_all_others():
    # T1 = exp(T0)            T3 = exp(T0); T4 = neg(T3); T1 = neg(T4)
    # T2 = abs(T1)      ->    T2 = abs(T1)
    draft = Draft()
    x = draft.tensor(torch.randn(3, 4))
    y = draft.pointwise("exp", x)
    draft.out(draft.pointwise("abs", y))

    after = rewritten(lambda fusion: rewrite(fusion, negated_twice), draft)

    assert [s.out.id for s in after.statements] == [3, 4, 1, 2]
    assert names(after) == ["exp", "neg", "neg", "abs"]
    assert after.statements[2].out == y


def test_equal_operations_that_are_added_are_one():
    draft = Draft()
    x = draft.tensor(torch.randn(3))
    draft.out(draft.pointwise("exp", x), draft.pointwise("exp", x))

    after = rewritten(lambda fusion: rewrite(fusion, negated_twice), draft)

    assert [name for name in names(after) if name == "exp"] == ["exp"]


def test_what_an_output_is_replaced_by_gets_its_name():
    # T1 = exp(T0); T2 = set(T1)    ->    T2 = exp(T0)
    def unset(statement: Statement, emit: Emitter) -> Value | None:
        op = statement.op
        return op.args[0] if isinstance(op, Pointwise) and op.op == "set" else None

    draft = Draft()
    y = draft.pointwise("exp", draft.tensor(torch.randn(3)))
    z = draft.pointwise("set", y)
    draft.out(z, draft.pointwise("neg", y))

    after = rewritten(lambda fusion: rewrite(fusion, unset), draft)

    assert [str(s.out) for s in after.statements] == ["T2", "T3"]
    assert after.output_values[0] == z


def test_two_outputs_keep_their_names_though_a_third_is_one_of_them():
    draft = Draft()
    y = draft.pointwise("exp", draft.tensor(torch.randn(3)))
    draft.out(y, draft.pointwise("exp", y))
    fusion = draft.fusion
    unused = {fusion.output_values[1]: y}
    assert rebuilt(fusion, fusion.statements[:1], unused).output_values == (y, y)


def test_nothing_stays_of_a_change_that_is_not_made():
    def regret(statement: Statement, emit: Emitter) -> None:
        before = emit.producer(statement.out)
        added = emit.add(Pointwise("neg", (statement.out,)))
        assert before is None
        assert emit.producer(added) == Pointwise("neg", (statement.out,))

    draft = Draft()
    draft.out(draft.pointwise("exp", draft.tensor(torch.randn(3))))
    assert rewrite(draft.fusion, regret) == draft.fusion


def test_the_text_of_a_rewritten_fusion_is_in_the_order_of_its_statements():
    draft = Draft()
    y = draft.pointwise("exp", draft.tensor(torch.randn(3)))
    late = draft.tensor(torch.randn(3))
    draft.out(draft.pointwise("add", y, late))

    text = print_fusion(rewrite(draft.fusion, negated_twice))

    lines = [line.strip().split(" = ")[0] for line in text.splitlines()[1:-1]]
    assert lines == ["T0", "T2", "T4", "T5", "T1", "T3"]


def as_transposed_twice(statement: Statement, emit: Emitter) -> Operation | Value | None:
    """copy(x) -> x.t().t(): the same elements, in the memory of x."""
    op = statement.op
    if not isinstance(op, Pointwise) or op.op != "set":
        return None
    return emit.add(Permute(emit.add(Permute(op.args[0], (1, 0))), (1, 0)))


def aliased(fusion: Fusion) -> Fusion:
    return rewrite(fusion, as_transposed_twice)


def laid_out(fusion: Fusion) -> Fusion:
    return rewrite(fusion, as_transposed_twice, may_copy=True)


def copy_of(given: torch.Tensor, *, declared: bool = True) -> tuple[Draft, Value]:
    draft = Draft()
    return draft, draft.pointwise("set", draft.tensor(given, declared=declared))


def test_an_output_does_not_become_memory_of_an_input():
    draft, y = copy_of(torch.randn(3, 4))
    draft.out(y)
    assert names(rewritten(aliased, draft)) == ["set"]
    assert names(rewritten(laid_out, draft)) == ["permute", "permute", "stride_order"]


def test_two_outputs_do_not_become_one_memory():
    draft = Draft()
    y = draft.pointwise("exp", draft.tensor(torch.randn(3, 4)))
    draft.out(y, draft.pointwise("set", y))
    assert names(rewritten(aliased, draft)) == ["exp", "set"]

    draft = Draft()
    y = draft.pointwise("exp", draft.tensor(torch.randn(3, 4)))
    draft.out(draft.pointwise("set", y))
    assert names(rewritten(aliased, draft)) == ["exp", "permute", "permute"]


def test_an_output_that_is_read_through_metadata_does_not_either():
    draft, y = copy_of(torch.randn(3, 4))
    draft.out(draft.add(View(y, (12,))))
    assert names(rewritten(aliased, draft)) == ["set", "reshape"]


def test_what_is_computed_on_shows_only_its_order():
    draft, y = copy_of(torch.randn(3, 4))
    draft.out(draft.pointwise("exp", y))
    assert names(rewritten(aliased, draft)) == ["permute", "permute", "exp"]


def test_an_order_that_is_not_known_is_not_relied_on():
    # A gap, or an expanded dimension: the copy may lie otherwise than its operand.
    draft, y = copy_of(torch.randn(3, 8)[:, ::2])
    draft.out(draft.pointwise("exp", y))
    assert names(rewritten(aliased, draft)) == ["set", "exp"]


def test_nothing_is_kept_that_no_output_shows():
    draft, y = copy_of(torch.randn(3, 8)[:, ::2], declared=False)
    order = draft.add(StrideOrder(y, (0, 1)))
    draft.out(draft.pointwise("exp", order))
    assert "set" not in names(rewritten(aliased, draft))


def test_outputs_and_inputs_keep_their_order_and_aliases():
    draft = Draft()
    x = draft.tensor(torch.randn(3, 4))
    y = draft.pointwise("exp", x)
    draft.builder.output(y, x)
    draft.out(y)

    after = rewrite(draft.fusion, negated_twice)
    verify(after, "after the rewrite")

    assert after.inputs == draft.fusion.inputs
    assert [(o.value, o.alias_of) for o in after.outputs] == [(y, x), (y, None)]


def test_a_slice_that_replaces_a_copy_is_laid_out_where_it_is_an_output():
    def sliced(statement: Statement, emit: Emitter) -> Operation | None:
        op = statement.op
        if not isinstance(op, Pointwise) or op.op != "where":
            return None
        return Slice(op.args[1], (0, 0), (3, 4), (1, 1))

    draft = Draft()
    x = draft.tensor(torch.randn(3, 4).t().contiguous().t())
    draft.out(
        draft.pointwise(
            "where", draft.number(True, DataType.Bool), x, draft.number(0.0, DataType.Float)
        )
    )

    after = rewrite(draft.fusion, sliced, may_copy=True)

    assert names(after) == ["slice", "stride_order"]
    assert after.statements[-1].op.order == (0, 1)
    assert interpret(after, draft.inputs)[0].stride() == (1, 3)
