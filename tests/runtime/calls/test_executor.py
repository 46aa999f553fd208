"""Running plans: every kind of input, every kind of output, from several threads."""

import threading
import warnings
import weakref

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import InputKindError
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.calls import torch_steps
from fuser.runtime.kernels.stats import stats
from tests.definitions import Define, close, defined
from tests.kernels_made import kernels_made

Given = torch.Tensor | float
TARGETS = ("cpu", "emulator")
both_targets = pytest.mark.parametrize("target", TARGETS)


def run(define: Define, *inputs: Given, target: str = "cpu") -> list[torch.Tensor]:
    """The outputs, checked against the oracle: numbers, dtypes, sizes, strides."""
    fd = defined(define, *inputs)
    results = fd.execute(list(inputs), target=target)
    expected = interpret(fd.fusion, inputs)
    close(results, expected)
    for got, want in zip(results, expected, strict=True):
        assert got.stride() == want.stride() or got.numel() <= 1
        assert not got.requires_grad
    return results


def exp(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.exp(x)]


INPUTS = {
    "contiguous": torch.randn(12, 20),
    "permuted": torch.randn(4, 6, 10).permute(2, 0, 1),
    "every second column": torch.randn(12, 40)[:, ::2],
    "rows with gaps": torch.randn(12, 25)[:, :20],
    "misaligned": torch.randn(241)[1:],
    "expanded": torch.randn(12, 1).expand(12, 20),
    "one number everywhere": torch.randn(()).expand(12, 20),
    "overlapping": torch.randn(30).as_strided((20, 10), (1, 1)),
    "zero size": torch.empty(0, 4),
    "zero size, permuted": torch.empty(3, 0, 4).permute(2, 0, 1),
    "zero dimensions": torch.tensor(1.5),
    "size one dimensions": torch.randn(1, 7, 1),
    "needs a gradient": torch.randn(8, requires_grad=True),
    "a parameter": torch.nn.Parameter(torch.randn(8)),
    "large": torch.randn(1 << 20),
}


@both_targets
@pytest.mark.parametrize("name", INPUTS)
def test_any_layout_of_an_input(name: str, target: str):
    if name == "large" and target == "emulator":
        pytest.skip("a million emulated threads take too long")
    run(exp, INPUTS[name].detach().mul(0.25) if name == "large" else INPUTS[name], target=target)


@pytest.mark.parametrize("name", INPUTS)
def test_views_of_any_layout(name: str):
    run(lambda fd, x: [fd.ops.neg(fd.ops.reshape(x, [-1])), x], INPUTS[name])


NUMBERS = [
    (DataType.Double, 0.1),
    (DataType.Float, 0.1),
    (DataType.Half, 0.1),
    (DataType.BFloat16, 0.1),
    (DataType.Int, -(2**63)),
    (DataType.Int32, 2**31 - 1),
    (DataType.Int16, -(2**15)),
    (DataType.Int8, -128),
    (DataType.UInt8, 255),
    (DataType.UInt64, 2**64 - 1),
    (DataType.Bool, True),
    (DataType.ComplexFloat, 1.5 - 2j),
    (DataType.ComplexDouble, 0.1 + 0.3j),
]


@both_targets
@pytest.mark.parametrize(("dtype", "number"), NUMBERS, ids=str)
def test_scalars_of_every_dtype(dtype: DataType, number: complex, target: str):
    with FusionDefinition() as fd:
        first, scalar, last = (fd.define_scalar(d) for d in (DataType.Int8, dtype, DataType.Float))
        fd.add_output(fd.ops.full([3], scalar, dtype))
        fd.add_output(fd.ops.full([3], first, DataType.Int))
        fd.add_output(fd.ops.full([3], last, DataType.Float))
    results = fd.execute([-7, number, 2.5], target=target)
    for got, want in zip(results, interpret(fd.fusion, [-7, number, 2.5]), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_one_tensor_given_twice_and_overlapping_ones():
    x = torch.randn(20)
    run(lambda fd, a, b: [fd.ops.add(a, b)], x, x)
    run(lambda fd, a, b: [fd.ops.mul(a, b)], x[:15], x[5:])


def test_inputs_are_left_as_they_were():
    x = torch.randn(12, 20)
    copy = x.clone()
    (alias, _) = run(lambda fd, a: [fd.ops.reshape(a, [240]), fd.ops.neg(a)], x)
    torch.testing.assert_close(x, copy, rtol=0, atol=0)
    assert alias.data_ptr() == x.data_ptr()


def test_an_input_handed_on_is_its_memory():
    x = torch.randn(241)[1:]
    (same, part) = run(lambda fd, a: [a, fd.ops.slice(a, [3], [9])], x)
    assert same.data_ptr() == x.data_ptr()
    assert part.data_ptr() == x.data_ptr() + 12


def test_outputs_that_are_views_of_each_other_share_memory():
    def build(fd: FusionDefinition, x: Handle) -> list[Handle]:
        y = fd.ops.exp(x)
        return [y, fd.ops.reshape(y, [48]), fd.ops.permute(y, [1, 0]), y]

    first, *others = run(build, torch.randn(6, 8))
    assert {other.data_ptr() for other in others} == {first.data_ptr()}


def apart(build: Define, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Outputs as `execute` gives them, but that none shares memory with anything."""
    fd = defined(build, *inputs)
    outputs, expected = fd.execute_apart(inputs), fd.execute(inputs)
    for output, want in zip(outputs, expected, strict=True):
        torch.testing.assert_close(output, want, rtol=0, atol=0)
        assert output.stride() == want.stride()
    places = [tensor.untyped_storage().data_ptr() for tensor in (*inputs, *outputs)]
    assert len(set(places)) == len(inputs) + len(outputs)
    return outputs


def test_outputs_apart_are_copies_of_what_is_shared():
    x, y = torch.randn(6, 8), torch.randn(6, 8).t()

    def build(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
        z = fd.ops.exp(x)
        views = [
            fd.ops.reshape(z, [48]),
            fd.ops.permute(z, [1, 0]),
            fd.ops.slice(x, [1, 0], [3, 8]),
        ]
        return [x, z, *views, z, y, fd.ops.neg(y)]

    apart(build, x, y)


def test_outputs_apart_of_what_torch_makes():
    def build(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
        product = fd.ops.matmul(x, y)
        return [product, fd.ops.permute(product, [1, 0]), product + 1.0, x]

    apart(build, torch.randn(6, 8), torch.randn(8, 5))


def test_outputs_apart_of_no_elements_are_tensors_of_their_own():
    def build(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [x, fd.ops.exp(x), fd.ops.neg(x), fd.ops.matmul(x, fd.ops.permute(x, [1, 0]))]

    x = torch.randn(0, 8)
    tensors = [x, *defined(build, x).execute_apart([x])]
    assert len(set(map(id, tensors))) == len(tensors)


def test_outputs_apart_without_a_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    monkeypatch.setattr("fuser.pipeline.warn_without_compiler", lambda: None)
    apart(lambda fd, x: [x, fd.ops.reshape(x, [48]), fd.ops.exp(x)], torch.randn(6, 8))


def test_memory_is_given_back_after_its_last_reader(monkeypatch: pytest.MonkeyPatch):
    """A result of torch is alive while it is read, and no more when the one after next is made."""
    made: list[weakref.ref[torch.Tensor]] = []
    alive: list[list[bool]] = []
    lay_out = torch_steps.laid_out

    def watched(result: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
        alive.append([held() is not None for held in made])
        made.append(weakref.ref(result))
        return lay_out(result, strides)

    def build(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
        for _ in range(4):
            x = fd.ops.relu(fd.ops.matmul(x, y))
        return [x]

    monkeypatch.setattr(torch_steps, "laid_out", watched)
    inputs = torch.randn(6, 6), torch.randn(6, 6)
    defined(build, *inputs).execute(inputs)
    assert alive == [[], [False], [False, False], [False, False, False]]


@pytest.mark.parametrize(
    "make",
    [
        lambda fd, t: [t * 2.0],
        lambda fd, t: [fd.ops.permute(t, [1, 0]) * 2.0],  # copied into the input when all is done
        lambda fd, t: [fd.ops.matmul(t, t)],
    ],
    ids=["in place", "turned", "by torch"],
)
def test_an_updated_input_and_outputs_apart(make: Define):
    x = torch.randn(6, 6)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        (made,) = make(fd, t)
        fd.add_output(made, alias_input=t)
        fd.add_output(made)
        fd.add_output(t)
    before = x.clone()
    results, expected = fd.execute_apart([x]), fd.execute([before])
    assert all(map(torch.equal, (x, *results), (before, *expected)))
    assert len({tensor.untyped_storage().data_ptr() for tensor in (x, *results)}) == 3


def test_only_a_view_of_a_result_is_handed_out():
    run(lambda fd, x: [fd.ops.permute(fd.ops.exp(x), [2, 0, 1])], torch.randn(3, 4, 5))
    run(lambda fd, x: [fd.ops.broadcast(fd.ops.exp(x), [False, True])], torch.randn(3))


def test_torch_runs_what_kernels_do_not():
    def softmax(fd: FusionDefinition, x: Handle) -> list[Handle]:
        shifted = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
        return [fd.ops.div(shifted, fd.ops.sum(shifted, [1], keepdim=True))]

    run(softmax, torch.randn(6, 8))


def test_a_number_of_another_python_type_makes_its_own_plan():
    fd = defined(lambda fd, x, s: [fd.ops.mul(x, s)], torch.randn(4), 2.0)
    x = torch.randn(4)
    for number in (2.0, 3, 0.5):
        torch.testing.assert_close(fd.execute([x, number])[0], x * number)


def test_other_sizes_compile_nothing():
    fd = defined(lambda fd, x: [fd.ops.permute(fd.ops.exp(x), [1, 0])], torch.randn(8, 8))
    fd.execute([torch.randn(8, 8)])
    before, made = stats(), kernels_made()
    for rows in (16, 7, 33):
        x = torch.randn(rows, 10)
        torch.testing.assert_close(fd.execute([x])[0], x.exp().t())
    after = stats()
    assert kernels_made() == made
    assert after["plans_built"] == before["plans_built"] + 3
    assert after["kernels_launched"] == before["kernels_launched"] + 3


def test_a_second_execution_plans_nothing():
    x = torch.randn(8, 6)
    fd = defined(exp, x)
    fd.execute([x])
    before = stats()
    fd.execute([torch.randn(8, 6)])
    assert stats()["plans_built"] == before["plans_built"]


def test_alignment_and_strides_are_part_of_what_a_plan_is_for():
    fd = defined(exp, torch.randn(30)[::2])
    buffer = torch.randn(64)
    for given in (buffer[:16], buffer[1:17], buffer[2:18], buffer[:32:2], buffer[1:33:2]):
        for target in TARGETS:
            torch.testing.assert_close(fd.execute([given], target=target)[0], given.exp())


def test_threads_may_execute_one_definition_and_several():
    errors: list[BaseException] = []
    definitions = [
        defined(lambda fd, x, n=n: [fd.ops.add(fd.ops.mul(x, float(n)), 1.0)], torch.randn(4))
        for n in range(3)
    ]

    def work(seed: int) -> None:
        try:
            for step in range(20):
                n = (seed + step) % 3
                x = torch.full((10 + step,), float(seed))
                (got,) = definitions[n].execute([x])
                torch.testing.assert_close(got, x * n + 1)
        except BaseException as error:
            errors.append(error)

    before = kernels_made()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert kernels_made() <= before + 3


def test_without_a_compiler_torch_runs_everything_with_one_warning(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    monkeypatch.setattr("fuser.runtime.cpu.toolchain._warned", threading.Event())
    x = torch.randn(8, 6)
    before = stats()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(lambda fd, x: [fd.ops.permute(fd.ops.exp(x), [1, 0]), x], x)
        run(exp, x)
    assert [str(w.message) for w in caught if "install g++" in str(w.message)] != []
    assert len(caught) == 1
    assert stats()["kernels_launched"] == before["kernels_launched"]


def test_meta_tensors_are_not_executed():
    with pytest.raises(InputKindError, match=r"input 0 .*a meta tensor.* plan\(inputs\) takes it"):
        defined(exp, torch.randn(8)).execute([torch.empty(8, device="meta")])
