import pytest
import torch

from fuser import FusionDefinition
from fuser.runtime.kernels.stats import stats
from fuser.runtime.plans.plan import AliasStep, ExternStep, KernelStep, Plan
from tests.kernels_made import kernels_made


def share_so_far(fd: FusionDefinition) -> None:
    """A kernel, a torch call, a kernel and an alias."""
    x = fd.define_tensor([-1, -1], contiguity=[True, True])
    y = fd.ops.exp(x)
    z = fd.ops.div(y, fd.ops.argsort(y, 1))
    fd.add_output(fd.ops.permute(z, [1, 0]))


def plan_for(target: str | None = None, device: str = "cpu") -> Plan:
    with FusionDefinition() as fd:
        share_so_far(fd)
    return fd.plan([torch.empty(64, 100, device=device)], target=target)


def test_steps_are_in_order_and_by_kind():
    plan = plan_for()
    assert [step.kind for step in plan.steps] == ["kernel", "extern", "kernel", "alias"]
    assert [type(step) for step in plan.steps] == [KernelStep, ExternStep, KernelStep, AliasStep]
    assert (len(plan.kernels), len(plan.externs), len(plan.aliases)) == (2, 1, 1)


def test_kernels_say_what_they_do():
    first, second = plan_for("cuda:sm_90").kernels
    assert first.operations == ("exp",)
    assert second.operations == ("div",)
    assert first.scheduler == "pointwise"
    assert (first.bytes_read, first.bytes_written) == (25600, 25600)
    assert second.bytes_read == 25600 + 51200
    assert "grid of 256" in first.mapping
    assert first.reason


def test_externs_and_aliases_say_what_they_do():
    plan = plan_for()
    (extern,), (alias,) = plan.externs, plan.aliases
    assert extern.operations == ("argsort",)
    assert (extern.bytes_read, extern.bytes_written) == (25600, 51200)
    assert alias.operations == ("permute",)
    assert (alias.bytes_read, alias.bytes_written) == (0, 0)
    assert plan.bytes_moved == sum(s.bytes_read + s.bytes_written for s in plan.steps)


@pytest.mark.parametrize("target", [None, "cpu", "emulator", "cuda:sm_80", "cuda:sm_100"])
def test_meta_tensors_are_planned_as_real_ones_are(target: str | None):
    real, meta = plan_for(target), plan_for(target, device="meta")
    assert str(real) == str(meta)
    assert [k.source for k in real.kernels] == [k.source for k in meta.kernels]


@pytest.mark.parametrize("target", ["cpu", "emulator", "cuda:sm_90"])
def test_what_is_planned_without_memory_is_not_planned_again(target: str):
    """Compiling ahead plans for meta tensors what is then called with those of a GPU."""
    with FusionDefinition() as fd:
        share_so_far(fd)
    ahead = fd.plan([torch.empty(64, 100, device="meta")], target=target)
    before = stats()["plans_built"]
    x = torch.randn(64, 100)
    assert fd.plan([x], target=target) is ahead
    if target != "cuda:sm_90":
        fd.execute([x], target=target)
    assert stats()["plans_built"] == before
    assert fd.plan([torch.randn(6401)[1:].view(64, 100)], target=target) is not ahead


def test_planning_runs_and_compiles_nothing():
    before, made = stats(), kernels_made()
    plan_for("cuda:sm_90", device="meta")
    after = stats()
    assert after["plans_built"] == before["plans_built"] + 1
    assert kernels_made() == made
    assert after["kernels_launched"] == before["kernels_launched"]


def test_kernels_can_be_compiled_without_running_them():
    for target in ("cpu", "cuda:sm_90"):
        resources = plan_for(target, device="meta").kernels[0].compile()
        assert resources.binary_size
        assert (resources.registers is None) == (target == "cpu")


def test_the_table_is_for_a_person():
    lines = str(plan_for()).splitlines()
    assert lines[0] == "plan for cpu"
    assert lines[1].split()[:3] == ["step", "kind", "scheduler"]
    assert lines[-1].startswith("total: 2 kernel(s), 1 alias(es), 1 torch call(s), ")
    assert all(len(line) <= 140 for line in lines)


def test_it_says_in_words_why_there_is_more_than_one_kernel():
    text = str(plan_for())
    _, _, answer = text.partition("why this is not one kernel:")
    assert "torch's T2=argsort has to run between them" in " ".join(answer.split())


def test_the_emulator_runs_the_text_that_the_device_gets():
    emulated, device = plan_for("emulator"), plan_for("cuda:sm_90")
    assert [k.source for k in emulated.kernels] == [k.source for k in device.kernels]


def test_a_plan_of_nothing_but_the_input_has_no_steps():
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([-1]))
    plan = fd.plan([torch.empty(4)])
    assert plan.steps == ()
    assert "0 kernel(s)" in str(plan)


def test_kernels_of_one_name_are_told_apart_by_their_steps():
    sizes = [(64, 100), (10,), (8, 4)]
    given = [torch.empty(size, device="meta") for size in sizes * 2]
    with FusionDefinition() as fd:
        weights, gradients = ([fd.from_pytorch(x) for x in given[:3]] for _ in range(2))
        for weight, gradient in zip(weights, gradients, strict=True):
            fd.add_output(weight - gradient * 0.1, alias_input=weight)
    plan = fd.plan(given, target="cpu")
    names = [kernel.name for kernel in plan.kernels]
    assert names == ["pointwise_mul_sub"] * 3
    assert [words.partition(":")[0] for words in plan.boundaries] == [
        "0 pointwise_mul_sub | 1 pointwise_mul_sub",
        "1 pointwise_mul_sub | 2 pointwise_mul_sub",
    ]
    assert all("a kernel stores over one domain" in kernel.reason for kernel in plan.kernels)
    assert plan.updates[1].endswith("in place, by pointwise_mul_sub, step 1")


def test_a_step_says_in_short_what_it_is_not_one_with():
    first, second = plan_for().kernels
    why = "torch's T2=argsort has to run between them"
    assert first.reason == f"T1 is read by argsort, which torch runs; not merged with step 2: {why}"
    assert first.ends == "T1 is read by argsort, which torch runs; not merged with step 2"
    assert second.ends == "T3 leaves through permute, metadata; not merged with step 0"


def test_the_total_says_what_no_step_moves():
    x = torch.empty(100, 100)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(t + fd.ops.permute(t, [1, 0]), alias_input=t)
    plan = fd.plan([x], target="cpu")
    assert str(plan).endswith("160.0 kB moved, 80.0 kB of that by copies into inputs")
    profile = fd.profile([x], target="cpu", runs=1)
    assert profile.bytes_copied == plan.bytes_copied == 80_000
    assert str(profile).endswith("copies into inputs, which are no steps, moved 80.0 kB more")


def test_the_total_says_what_is_read_again():
    x = torch.empty(256, 1 << 19, device="meta")
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        y = fd.ops.exp(t - fd.ops.max(t, [1], keepdim=True))
        fd.add_output(y / fd.ops.sum(y, [1], keepdim=True))
    plan = fd.plan([x], target="cuda:sm_90")
    assert plan.bytes_read_again == 2 * 4 * x.numel()
    assert str(plan).endswith("1.1 GB moved, and 1.1 GB read again")
