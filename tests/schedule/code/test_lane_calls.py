"""Functions of all lanes at once: which phase makes what, and that results are the oracle's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.pointwise import TABLE
from fuser.schedule.code.lane_calls import (
    ANY_WAY,
    LANE_FUNCTIONS,
    Alike,
    Work,
    made_alike,
    with_lane_calls,
    worth_phases,
)
from fuser.schedule.indices.index import Axis, Index, Variable
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Call, Convert, Literal, Ref
from fuser.schedule.tree.loop_tree import Loop, Node, Region
from fuser.schedule.tree.row_statements import Accumulate, Keep, Partial
from fuser.schedule.tree.statements import CONVERTED, CheckedIndex, LaneCall, Lanes, Let, Load
from tests.definitions import agrees
from tests.row_functions import layernorm, softmax

F = DataType.Float
LANE = Axis((0,), 64)


EACH_LANE = Loop(LANE, Binding.SIMD, ())


def phases(*code: Work) -> tuple[list[str], list[list[str] | str]]:
    """The arrays that are declared; what each phase makes, and the calls, as text."""
    arrays, nodes = with_lane_calls(code, 64, EACH_LANE)
    shown: list[list[str] | str] = []
    for node in nodes:
        match node:
            case Loop():
                shown.append([name_of(inside) for inside in node.body])
            case _:
                shown.append(str(node))
    assert all(array.count == 64 for array in arrays)
    return [array.name for array in arrays], shown


def name_of(node: Node) -> str:
    return f"to {node.partial.name}" if isinstance(node, Accumulate) else getattr(node, "name", "?")


def loaded(name: str, dtype: DataType = F, at: Index | None = None) -> Load:
    with FusionDefinition() as fd:
        fd.define_tensor(shape=[-1], contiguity=True, dtype=dtype)
    return Load(name, fd.fusion.inputs[0], at or Index(0, ((LANE, 1),)))


def call(name: str, op: str, *args: str, dtype: DataType = F) -> Let:
    return Let(name, dtype, Call(op, tuple(Ref(arg, F) for arg in args), dtype))


def filled(of: str) -> Let:
    return Let("out_lanes", F, Ref(of, F), in_lanes=True)


def test_code_without_such_functions_is_one_loop():
    code = (loaded("T0"), call("T1", "sqrt", "T0"), filled("T1"))
    assert with_lane_calls(code, 64, EACH_LANE) == ([], [replace(EACH_LANE, body=code)])


def test_what_only_follows_a_call_is_made_after_it():
    arrays, shown = phases(
        loaded("T0"),
        call("T1", "mul", "T0", "S0"),
        call("T2", "add", "T0", "S0"),
        call("T3", "erf", "T1"),
        call("T4", "mul", "T2", "T3"),
        filled("T4"),
    )
    assert arrays == ["T3_given", "T3_held"]
    first, called, last = shown
    assert first == ["T0", "T1", "T3_given"]
    assert called == str(LaneCall("T3_held", "T3", "erf", "T3_given", F))
    assert last == ["T0", "T2", "T3", "T4", "out_lanes"]


@pytest.mark.parametrize("dtype", [F, DataType.Double])
def test_floats_that_both_phases_need_are_held_and_what_memory_holds_is_read_again(dtype: DataType):
    arrays, shown = phases(
        loaded("T0", dtype),
        loaded("T5", dtype),
        call("T1", "sub", "T0", "T5", dtype=dtype),
        call("T2", "exp", "T1", dtype=dtype),
        call("T3", "mul", "T1", "T2", dtype=dtype),
        call("T4", "add", "T3", "T5", dtype=dtype),
        filled("T4"),
    )
    assert arrays == ["T1_held", "T2_given", "T2_held"]
    assert shown[0] == ["T0", "T5", "T1", "T1_held", "T2_given"]
    assert shown[2] == ["T5", "T1", "T2", "T3", "T4", "out_lanes"]


def test_truth_values_are_made_again():
    arrays, shown = phases(
        loaded("T0"),
        call("T1", "gt", "T0", "S0", dtype=DataType.Bool),
        Let("T2", F, Call("where", (Ref("T1", DataType.Bool), Ref("T0", F), Ref("S0", F)), F)),
        call("T3", "tanh", "T2"),
        Let("T4", F, Call("where", (Ref("T1", DataType.Bool), Ref("T3", F), Ref("S0", F)), F)),
        filled("T4"),
    )
    assert arrays == ["T3_given", "T3_held"]
    assert shown[2] == ["T0", "T1", "T3", "T4", "out_lanes"]


def test_calls_of_a_phase_stand_together_and_nested_ones_follow():
    arrays, shown = phases(
        loaded("T0"),
        call("T1", "exp", "T0"),
        call("T2", "erf", "T0"),
        call("T3", "add", "T1", "T2"),
        call("T4", "tanh", "T3"),
        call("T5", "mul", "T4", "T1"),
        filled("T5"),
    )
    assert arrays == ["T1_given", "T2_given", "T1_held", "T2_held", "T4_given", "T4_held"]
    loops = [phase for phase in shown if isinstance(phase, list)]
    calls = [phase for phase in shown if isinstance(phase, str)]
    assert [named.split("operation='")[1].split("'")[0] for named in calls] == [
        "exp",
        "erf",
        "tanh",
    ]
    assert loops[1] == ["T1", "T2", "T3", "T4_given"]
    assert loops[2] == ["T1", "T4", "T5", "out_lanes"]


def test_the_argument_may_be_an_expression():
    argument = Convert(Ref("T0", DataType.BFloat16), F)
    _, nodes = with_lane_calls(
        (loaded("T0", DataType.BFloat16), Let("T1", F, Call("exp", (argument,), F)), filled("T1")),
        64,
        EACH_LANE,
    )
    first = nodes[0]
    assert isinstance(first, Loop)
    assert first.body[-1] == Let("T1_given", F, argument, in_lanes=True)


def test_what_is_gathered_is_held():
    where = Index(0, ((Variable("T9", 64), 1),))
    arrays, shown = phases(
        Let("T9", DataType.Int, Ref("S1", DataType.Int)),
        loaded("T0", at=where),
        call("T1", "exp", "T0"),
        call("T2", "mul", "T1", "T0"),
        filled("T2"),
    )
    assert "T0_held" in arrays
    assert shown[2] == ["T0", "T1", "T2", "out_lanes"]


def test_code_that_reports_an_index_is_one_loop():
    checked = CheckedIndex("T9", Ref("S1", DataType.Int), 64, "gather", wraps=False)
    code = (checked, loaded("T0"), call("T1", "exp", "T0"), filled("T1"))
    assert with_lane_calls(code, 64, EACH_LANE) == ([], [replace(EACH_LANE, body=code)])


def test_doubles_are_called_with_where_there_is_a_function_for_them():
    wide = DataType.Double
    code = (loaded("T0", wide), call("T1", "tanh", "T0", dtype=wide))
    assert with_lane_calls(code, 64, EACH_LANE) == ([], [replace(EACH_LANE, body=code)])
    code = (loaded("T0", wide), call("T1", "exp", "T0", dtype=wide), filled("T1"))
    arrays, nodes = with_lane_calls(code, 64, EACH_LANE, narrow=True)
    assert arrays == [Lanes("T1_given", wide, 64), Lanes("T1_held", wide, 64)]
    assert nodes[1] == LaneCall("T1_held", "T1", "exp", "T1_given", wide)


def test_folds_are_joined_in_the_phase_that_knows_their_values():
    """Not at all before, nor again after."""
    columns = Partial("to_columns", F, F, "sum", 64, Literal(0.0, F))
    arrays, shown = phases(
        loaded("T0"),
        call("T1", "mul", "T0", "S0"),
        call("T2", "erf", "T1"),
        call("T3", "mul", "T1", "T2"),
        Keep("T3", F, (LANE,)),
        Accumulate(columns, Index(0, ((LANE, 1),)), Ref("T1", F)),
        Let("T1_sum", F, Call("add", (Ref("T1_sum", F), Ref("T1", F)), F), in_lanes=True),
        Let("T3_sum", F, Call("add", (Ref("T3_sum", F), Ref("T3", F)), F), in_lanes=True),
    )
    assert arrays == ["T1_held", "T2_given", "T2_held"]
    assert shown[0] == ["T0", "T1", "T1_held", "T2_given", "to to_columns", "T1_sum"]
    assert shown[2] == ["T1", "T2", "T3", "T3", "T3_sum"]


def test_what_is_kept_may_be_what_another_name_stands_for():
    _, shown = phases(
        loaded("T0"),
        loaded("T5", at=Index(64, ((LANE, 1),))),
        call("T1", "tanh", "T0"),
        Keep("T3", F, (LANE,), source=Ref("T5", F)),
        Keep("T4", F, (LANE,), source=Ref("T1", F)),
    )
    assert shown[0] == ["T0", "T5", "T1_given", "T3"]
    assert shown[2] == ["T1", "T4"]


def test_phases_are_worth_it_for_what_compilers_make_no_vectors_of():
    code = (loaded("T0"), call("T1", "exp", "T0"), call("T2", "tanh", "T1"))
    assert worth_phases(code, 64, ())
    assert not worth_phases(code, 64, {"T2"})
    assert not worth_phases(code[:2], 64, ())
    assert worth_phases((loaded("T0"), call("T1", "exp_nonpositive", "T0")), 64, ())


def converted(name: str, of: str, dtype: DataType, given: DataType = F) -> Let:
    return Let(name, dtype, Convert(Ref(of, given), dtype))


@pytest.mark.parametrize("dtype", [DataType.Int8, DataType.UInt8, DataType.Float8_e5m2])
def test_few_lanes_become_bytes_as_a_whole(dtype: DataType):
    code = (loaded("T0"), call("T1", "neg", "T0"), converted("T2", "T1", dtype))
    code = (*code, Keep("T2", dtype, (LANE,)))
    assert worth_phases(code, 32, ())
    arrays, nodes = with_lane_calls(code, 32, EACH_LANE)
    assert arrays == [Lanes("T2_given", F, 32), Lanes("T2_held", dtype, 32)]
    before, made, after = nodes
    assert made == LaneCall("T2_held", "T2", CONVERTED, "T2_given", dtype)
    for phase, names in ((before, ["T0", "T1", "T2_given"]), (after, ["T2", "T2"])):
        assert isinstance(phase, Loop)
        assert [name_of(node) for node in phase.body] == names


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ((converted("T1", "T0", DataType.Int8),), 64),
        ((converted("T1", "T0", DataType.Half),), 16),
        ((converted("T1", "T0", DataType.Bool),), 16),
        ((converted("T1", "T0", DataType.Int8, DataType.Int),), 16),
        ((converted("T1", "T0", DataType.Int8), converted("T2", "T1", F, DataType.Int8)), 16),
    ],
    ids=["enough for a vector", "16 bits", "truth values", "64 bits", "converted back"],
)
def test_other_conversions_are_made_lane_by_lane(code: tuple[Let, ...], count: int):
    code = (*code, filled(code[-1].name))
    assert not worth_phases(code, count, ())
    assert with_lane_calls(code, count, EACH_LANE) == ([], [replace(EACH_LANE, body=code)])


def test_a_name_is_made_both_ways_wherever_its_loops_are():
    (tanh_called,) = [
        n
        for n in with_lane_calls(
            (loaded("T0"), call("T1", "tanh", "T0"), filled("T1")), 64, EACH_LANE
        )[1]
        if isinstance(n, LaneCall)
    ]
    in_lane = Loop(LANE, Binding.SIMD, (call("T1", "tanh", "T0"), call("T2", "erf", "T0")))
    around = Loop(LANE, Binding.ROUNDS, (tanh_called,))
    in_turn = Alike(in_turn=frozenset({"T1"}))
    assert made_alike([around, in_lane], ANY_WAY) == in_turn
    assert made_alike([Region((), (around,), (in_lane,), threaded=False)], ANY_WAY) == in_turn
    assert made_alike([around], ANY_WAY) == ANY_WAY
    assert made_alike([in_lane], ANY_WAY) == ANY_WAY
    assert made_alike([], in_turn) == in_turn


def test_a_name_is_made_by_one_function():
    code = (loaded("T0"), call("T1", "exp", "T0"), filled("T1"))

    def nodes(alike: Alike) -> list[Node]:
        wide = with_lane_calls(code, 64, EACH_LANE, alike)
        narrow = with_lane_calls(code, 64, EACH_LANE, alike, narrow=True)
        return [*wide[1], *narrow[1]]

    assert [n.operation for n in nodes(ANY_WAY) if isinstance(n, LaneCall)] == ["exp", "exp_narrow"]
    wide = made_alike(nodes(ANY_WAY), ANY_WAY)
    assert wide == Alike(wide=frozenset({"T1"}))
    assert [n.operation for n in nodes(wide) if isinstance(n, LaneCall)] == ["exp", "exp"]
    assert made_alike(nodes(wide), wide) == wide


def test_arrays_are_declared_with_the_type_they_hold():
    arrays, _ = with_lane_calls(
        (loaded("T0"), call("T1", "exp", "T0"), filled("T1")), 32, EACH_LANE
    )
    assert arrays == [Lanes("T1_given", F, 32), Lanes("T1_held", F, 32)]


# -- results -------------------------------------------------------------------------------------

Define = Callable[[FusionDefinition, Handle], Handle]


def gelu(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 0.5 * (fd.ops.erf(x * math.sqrt(0.5)) + 1.0)


def gelu_slope(fd: FusionDefinition, x: Handle) -> Handle:
    cumulated = (fd.ops.erf(x * math.sqrt(0.5)) + 1.0) * 0.5
    return cumulated + x * fd.ops.exp(x * x * -0.5) * 0.3989422804


def masked(fd: FusionDefinition, x: Handle) -> Handle:
    keep = fd.ops.gt(x, -0.5)
    return fd.ops.where(keep, fd.ops.tanh(fd.ops.where(keep, x, 0.25)), x)


def nested(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.silu(fd.ops.tanh(x) + fd.ops.exp(-fd.ops.sigmoid(x))) * x


@pytest.mark.parametrize("define", [gelu, gelu_slope, masked, nested])
@pytest.mark.parametrize(
    "dtype", [DataType.Float, DataType.Double, DataType.BFloat16, DataType.Half]
)
@pytest.mark.parametrize("shape", [(1, 16), (3, 33), (9, 70), (5, 128), (2, 1000)])
def test_results_are_the_oracle_s(define: Define, dtype: DataType, shape: tuple[int, int]):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 4
    x[0, :6] = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-40])
    x = x.to(dtype.torch)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        wide = given if dtype in LANE_FUNCTIONS else fd.ops.cast(given, dtype=F)
        made = define(fd, wide)
        fd.add_output(made if dtype in LANE_FUNCTIONS else fd.ops.cast(made, dtype=dtype))
    agrees(fd, [x], "cpu")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for d, names in LANE_FUNCTIONS.items() for n in sorted(names & TABLE.keys())],
)
def test_every_function_is_called_for_all_lanes(name: str, dtype: DataType):
    x = torch.linspace(-12, 12, 1003, dtype=dtype.torch)
    with FusionDefinition() as fd:
        fd.add_output(getattr(fd.ops, name)(fd.from_pytorch(x)))
    (kernel,) = fd.plan([x], target="cpu").kernels
    assert f"[](auto x) {{ return {name}(x); }});" in kernel.source
    agrees(fd, [x], "cpu")


@pytest.mark.parametrize("name", ["erf", "exp", "sigmoid", "silu", "tanh"])
@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Half])
def test_results_of_16_bits_are_made_by_fewer_operations(name: str, dtype: DataType):
    x = torch.cat([torch.linspace(-12, 12, 1003), torch.tensor([math.inf, -math.inf, math.nan])])
    x = torch.cat([x, torch.logspace(-30, 4, 97), -torch.logspace(-30, 4, 97)]).to(dtype.torch)
    for wide_too in (False, True):
        with FusionDefinition() as fd:
            made = getattr(fd.ops, name)(fd.ops.cast(fd.from_pytorch(x), dtype=F))
            fd.add_output(fd.ops.cast(made, dtype=dtype))
            if wide_too:
                fd.add_output(made)
        (kernel,) = fd.plan([x], target="cpu").kernels
        function = name if wide_too else f"{name}_narrow"
        assert f"[](auto x) {{ return {function}(x); }});" in kernel.source
        agrees(fd, [x], "cpu")


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("erf", -1.0, 1.0), ("exp", 0.0, math.inf), ("sigmoid", 0.0, 1.0), ("tanh", -1.0, 1.0)],
)
def test_limits_are_exact(name: str, low: float, high: float):
    x = torch.tensor([math.inf, 3e38, 200.0]).repeat(16)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        for side in (given, -given):
            fd.add_output(getattr(fd.ops, name)(side))
    above, below = fd.execute([x], target="cpu")
    assert (above == high).all()
    assert (below == low).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_any_size_turn_as_far(name: str):
    small, large = torch.linspace(-40000, 40000, 1003), torch.logspace(-30, 38, 90)
    x = torch.cat([small, large, -large, torch.tensor([math.inf, -math.inf, math.nan, -0.0, 0.0])])
    with FusionDefinition() as fd:
        fd.add_output(getattr(fd.ops, name)(fd.from_pytorch(x)))
    (out,) = fd.execute([x], target="cpu")
    want = getattr(x.double(), name)().float()
    assert torch.allclose(out, want, rtol=2e-7, atol=1e-45, equal_nan=True)
    assert torch.equal(out.signbit()[-2:], want.signbit()[-2:])


def test_an_update_in_place_computes_no_point_twice():
    """The last chunk would be moved back, to values that are new."""
    x = torch.randn(1003)
    expected = torch.erf(x) + x
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        fd.add_output(fd.ops.erf(given) + given, alias_input=given)
    fd.execute([x], target="cpu")
    torch.testing.assert_close(x, expected)


def summed(fd: FusionDefinition, made: Handle) -> list[Handle]:
    return [fd.ops.sum(made, [1])]


def summed_both_ways(fd: FusionDefinition, made: Handle) -> list[Handle]:
    return [fd.ops.sum(made, [1]), fd.ops.sum(made, [0])]


def stored_and_largest(fd: FusionDefinition, made: Handle) -> list[Handle]:
    return [made, fd.ops.max(made, [1])]


def normalized(fd: FusionDefinition, made: Handle) -> list[Handle]:
    return [layernorm(fd, made)]


def softened(fd: FusionDefinition, made: Handle) -> list[Handle]:
    return [softmax(fd, made)]


Folded = Callable[[FusionDefinition, Handle], list[Handle]]


@pytest.mark.parametrize("define", [gelu_slope, masked, nested])
@pytest.mark.parametrize(
    "folded", [summed, summed_both_ways, stored_and_largest, normalized, softened]
)
@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Double, DataType.BFloat16])
@pytest.mark.parametrize("shape", [(7, 70), (40, 128), (200, 333), (3, 5000)])
def test_folds_of_what_is_called_are_the_oracle_s(
    define: Define, folded: Folded, dtype: DataType, shape: tuple[int, int]
):
    """Rows in batches and one by one; the last round of a row does some elements again."""
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 2).to(dtype.torch)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        wide = given if dtype in LANE_FUNCTIONS else fd.ops.cast(given, dtype=F)
        for made in folded(fd, define(fd, wide)):
            fd.add_output(made)
    agrees(fd, [x], "cpu")


@pytest.mark.parametrize("folded", [summed, summed_both_ways, normalized])
def test_folds_call_functions_for_all_lanes(folded: Folded):
    x = torch.randn(64, 768)
    with FusionDefinition() as fd:
        for made in folded(fd, gelu(fd, fd.from_pytorch(x))):
            fd.add_output(made)
    (kernel,) = fd.plan([x], target="cpu").kernels
    assert "return gelu(x); });" in kernel.source


@pytest.mark.parametrize("shape", [(64, 100), (4, 100_003)])
def test_folds_over_parts_of_a_row(shape: tuple[int, int]):
    x, y = torch.randn(shape), torch.randn(shape[0], 400)
    with FusionDefinition() as fd:
        both = fd.ops.cat([fd.from_pytorch(x), fd.ops.tanh(fd.from_pytorch(y))], 1)
        made = fd.ops.erf(both)
        fd.add_output(made - fd.ops.mean(made, [1], keepdim=True))
    agrees(fd, [x, y], "cpu")


def test_what_several_sweeps_make_is_made_alike():
    """Rows too long to be kept are made again, in a chunk: none may exceed the largest."""
    x = torch.randn(16, 300_000, generator=torch.Generator().manual_seed(0)) / 2
    for name in ("exp", "tanh"):
        with FusionDefinition() as fd:
            made = getattr(fd.ops, name)(fd.from_pytorch(x))
            largest = fd.ops.max(made, [1], keepdim=True)
            fd.add_output(fd.ops.sqrt(largest - made) + fd.ops.sin(made))
        (kernel,) = fd.plan([x], target="cpu").kernels
        assert "return sin(x); });" in kernel.source
        called = f"return {name}(x); }});" in kernel.source
        assert called == (name == "tanh")
        (out,) = agrees(fd, [x], "cpu")
        assert not out.isnan().any()


ROUGH: dict[str, Define] = {
    "floor": lambda fd, y: fd.ops.floor(y),
    "log": lambda fd, y: fd.ops.log(1.0 - y),
    "sqrt": lambda fd, y: fd.ops.sqrt(fd.ops.abs(1.0 - y * y)),
    "eq": lambda fd, y: fd.ops.where(fd.ops.eq(y, 1.0), 1.0, 0.0),
    "cast": lambda fd, y: fd.ops.cast(fd.ops.cast(y * 0.5, dtype=DataType.Int32), dtype=F),
}


@pytest.mark.parametrize("rough", ROUGH)
@pytest.mark.parametrize("name", ["erf", "exp", "sigmoid", "silu", "tanh"])
def test_steps_and_roots_of_what_is_stored_in_16_bits_are_of_32(name: str, rough: str):
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    with FusionDefinition() as fd:
        made = getattr(fd.ops, name)(fd.ops.cast(fd.from_pytorch(every), dtype=F))
        fd.add_output(fd.ops.cast(ROUGH[rough](fd, made), dtype=DataType.BFloat16))
    (kernel,) = fd.plan([every], target="cpu").kernels
    assert "_narrow(x)" not in kernel.source
    fd.execute([every], target="cpu")


@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Half])
def test_narrow_functions_are_exact_near_0(dtype: DataType):
    x = torch.cat([torch.logspace(-40, -9, 99), -torch.logspace(-40, -9, 99)]).to(dtype.torch)
    for name in ("exp", "sigmoid"):
        with FusionDefinition() as fd:
            made = getattr(fd.ops, name)(fd.ops.cast(fd.from_pytorch(x), dtype=F))
            least = 1.0 if name == "exp" else 0.5
            fd.add_output(fd.ops.cast((made - least) * 1e30, dtype=dtype))
        (kernel,) = fd.plan([x], target="cpu").kernels
        assert f"{name}_narrow(x)" in kernel.source
        assert (fd.execute([x], target="cpu")[0] == 0).all()
    with FusionDefinition() as fd:
        wide = fd.ops.cast(fd.from_pytorch(x), dtype=F)
        fd.add_output(fd.ops.cast((wide - fd.ops.tanh(wide)) * 1e30, dtype=dtype))
    assert (fd.execute([x], target="cpu")[0] == 0).all()


@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_what_is_stored_in_16_bits_is_narrow_unless_it_is_folded_too(name: str):
    x = torch.randn(16, 300_000).to(torch.bfloat16)
    for compared in (False, True):
        with FusionDefinition() as fd:
            wide = fd.ops.cast(fd.from_pytorch(x), dtype=F)
            made = getattr(fd.ops, name)(wide)
            largest = fd.ops.max(made if compared else wide, [1], keepdim=True)
            fd.add_output(fd.ops.cast(made - largest, dtype=DataType.BFloat16))
        (kernel,) = fd.plan([x], target="cpu").kernels
        assert (f"return {name}_narrow(x); }});" in kernel.source) == (not compared)
        (out,) = agrees(fd, [x], "cpu")
        assert not compared or (out == 0).any(1).all()


def test_names_to_be_made_in_turn_are_made_lane_by_lane():
    code = (loaded("T0"), call("T1", "exp", "T0"), call("T2", "tanh", "T1"), filled("T2"))
    arrays, _ = with_lane_calls(code, 64, EACH_LANE, Alike(in_turn=frozenset({"T1"})))
    assert [array.name for array in arrays] == ["T2_given", "T2_held"]


def test_chunks_shorter_than_vectors_call_in_each_lane():
    """Rows of 8 numbers, with gaps between them, are chunks of as many."""
    x, scale = torch.randn(200_000, 16, dtype=torch.float64)[:, :8], torch.tensor(-0.5)
    with FusionDefinition() as fd:
        given, factor = fd.from_pytorch(x), fd.from_pytorch(scale)
        fd.add_output(fd.ops.silu(factor) + given)
    agrees(fd, [x, scale], "cpu")
