"""The first training step of a model in a fresh process: prints two numbers of seconds.

    python benchmarks/first_step.py BERT fuser|inductor

First what the backend took for the graph pair: in the compilers that AOTAutograd calls and, of
fuser, processor time of planning in other threads and waiting for kernels where they are first
run. Then the whole first step, with tracing, which both do alike. `FUSER_CACHE_DIR` and
`TORCHINDUCTOR_CACHE_DIR` say whether there are kernels from earlier processes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from model_cases import MODELS, SMALL, train

from fuser.integrations import dynamo
from fuser.integrations.partitions import partition_call
from fuser.integrations.partitions.partition_call import PartitionCall
from fuser.pipeline import Executor


class Clock:
    """Adds up the seconds in functions that it wraps; one within another counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._inside = False

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            if self._inside:
                return function(*given, **named)
            self._inside, start = True, time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                self.seconds += time.perf_counter() - start
                self._inside = False

        return timed


def with_fuser(model: Any, inputs: Any) -> tuple[float, float]:
    compilers, aside = Clock(), list[float]()
    plan_aside = partition_call._compile  # pyright: ignore[reportPrivateUsage]

    def timed_aside(call: PartitionCall) -> None:
        start = time.thread_time()
        plan_aside(call)
        aside.append(time.thread_time() - start)

    partition_call._compile = timed_aside  # pyright: ignore[reportPrivateUsage]
    dynamo.compile_graph = compilers.around(dynamo.compile_graph)
    dynamo.rewrite_graph = compilers.around(dynamo.rewrite_graph)
    prepare = Executor._prepare  # pyright: ignore[reportPrivateUsage]
    Executor._prepare = compilers.around(prepare)  # pyright: ignore[reportPrivateUsage]
    run = torch.compile(model, backend="fuser")  # pyright: ignore[reportUnknownMemberType]
    start = time.perf_counter()
    train(model, run, inputs)
    whole = time.perf_counter() - start
    return compilers.seconds + sum(aside), whole


def with_inductor(model: Any, inputs: Any) -> tuple[float, float]:
    from torch._inductor.compile_fx import (  # noqa: PLC0415 - takes seconds, of inductor's
        compile_fx,
        compile_fx_inner,
    )

    compilers = Clock()

    def backend(graph: Any, examples: Any) -> Any:
        return compile_fx(graph, examples, inner_compile=compilers.around(compile_fx_inner))

    run = torch.compile(model, backend=backend)  # pyright: ignore[reportUnknownMemberType]
    start = time.perf_counter()
    train(model, run, inputs)
    return compilers.seconds, time.perf_counter() - start


CANDIDATES = {"fuser": with_fuser, "inductor": with_inductor}


def main() -> None:
    name, backend = sys.argv[1:]
    (case,) = (case for case in (*MODELS, SMALL) if case.name == name)
    model, inputs = case.build("cuda" if torch.cuda.is_available() else "cpu")
    train(model, model, inputs)  # torch's own start-up
    print(*CANDIDATES[backend](model, inputs))


if __name__ == "__main__":
    main()
