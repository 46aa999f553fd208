"""What the printed report and the page both say in words."""

from __future__ import annotations

from fuser.explanation.model import Graph, Partition
from fuser.explanation.traffic import Traffic
from fuser.runtime.plans.plan import KernelStep, Plan
from fuser.segmenter import byte_count


def graph_words(graph: Graph) -> str:
    """What a graph is, and how much of a traced one is in partitions."""
    found = graph.coverage
    if found is None:
        return f"a FusionDefinition with {count(len(graph.partitions), 'plan')}"
    return (
        f"{found.covered} of {count(found.nodes, 'compute node')} ({found.percent:.1f} %) in "
        f"partitions; {count(found.products, 'product')} by torch"
    )


def traffic_words(traffic: Traffic) -> str:
    """Bytes moved beside what they are compared with."""
    return (
        f"moves {byte_count(traffic.moved)}, {times(traffic.moved, traffic.least)} the least there "
        f"is, {byte_count(traffic.least)}; each operation alone would move "
        f"{byte_count(traffic.alone)}, {times(traffic.alone, traffic.moved)} as much"
    )


def partition_words(part: Partition) -> str:
    """What runs a partition, in a line."""
    if part.plan is None:
        return "run by torch"
    words = [count(len(part.kernels), "kernel")]
    if part.plan.externs:
        words.append(count(len(part.plan.externs), "torch call"))
    if part.plan.aliases:
        words.append(f"{len(part.plan.aliases)} alias{'es' * (len(part.plan.aliases) > 1)}")
    return ", ".join(words)


def input_words(plan: Plan) -> str:
    """What a plan is made for: the tensors that come in, and how they lie."""
    memory = plan.segmented.memory
    tensors = [value for value in plan.segmented.fusion.inputs if value.is_tensor]
    words = [f"{v}: {v.type}, strides {list(memory[v].strides)}" for v in tensors]
    return "; ".join(words) or "no tensors"


def added_words(plan: Plan) -> str:
    """Which values that the plan names are not in the definition; nothing where all of them are."""
    first = plan.definition.fresh_id
    if plan.segmented.fusion.fresh_id == first:
        return ""
    return f"Values numbered {first} or more are made by passes: a kernel's source shows of what."


def launch_words(kernel: KernelStep) -> str:
    """How a kernel is started."""
    if kernel.kernel_source is None:
        return "torch runs its operations, one after the other"
    return str(kernel.kernel_source.launch)


def tidy(line: str) -> str:
    """A line of a plan's log without the padding of its first column."""
    return " ".join(line.split())


def times(many: int, few: int) -> str:
    """`2.50 x`."""
    return f"{many / few:.2f} x" if few else "-"


def count(number: int, name: str) -> str:
    """`2 kernels`."""
    return f"{number} {name}{'' if number == 1 else 's'}"
