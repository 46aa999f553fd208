"""Very many random fusions beside the oracle.

    make fuzz                                          20,000 on the processor, 3,000 emulated,
                                                       and 1,000 programs under torch.compile
    python -m tests.fuzz --target cpu --count 500 --seed 7000
    python -m tests.fuzz --target emulator --replay 7012
    python -m tests.fuzz --target torch.compile        programs: `compiled_programs.py`

Every fusion follows from its seed alone, and seeds count up. They are run in batches, each by a
process of its own: a kernel that crashes or never ends is a failure like any other. Of a fusion
that fails, the smallest part that does is printed, as a script that repeats it. Seeds take turns in
how kernels are mapped to threads and memory, and in whether tensors are small.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.repro import form_of, repro_script
from fuser.ir.binding import check_inputs, check_updates
from fuser.ir.comparison import check_results
from fuser.ir.concretize import concretize_for, has_any_size
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Output, Value
from fuser.pipeline import Executor
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import ThreadOrder
from fuser.schedule import CpuParameters, CpuRowParameters, ProcessorParameters
from tests import compiled_programs, strategies
from tests.as_eager import (
    Made,
    check_apart,
    check_memory,
    check_zeros,
    copied,
    in_reverse,
    same_bits,
)
from tests.later_calls import later_calls
from tests.mapped_by import THREADED, THREADED_PAST_CACHE, map_by
from tests.random_values import EVERY_DTYPE, LARGE, SMALL, Scale
from tests.row_places import PLACES, placed
from tests.smaller import Inputs, smallest
from tests.strategies import (
    NORMALIZATIONS,
    POINTWISE,
    Definition,
    WriteStep,
    definitions,
    drawn,
)

COMPILED = "torch.compile"
COUNTS = {"cpu": 20_000, "emulator": 3_000, COMPILED: 1_000}
BATCH = 100
LEAST, MOST = 6, 30
"""How many operations are drawn; those that nothing fits are left out."""
BATCH_SECONDS = 1800
ONE_SCALE = 50
"""Seeds after each other that draw tensors of one scale."""

SMALL_ROWS = CpuRowParameters(
    ProcessorParameters(serial_work=0, vector=2),
    lanes=4,
    strip=6,
    short_strip=9,
    shortest_piece=8,
    line_bytes=8,
    tile_rows=3,
    tile_elements=4,
    smallest_tile=4,
    few_rows=8,
    block=4,
    long_run=2,
    kept_bytes=64,
    batch=4,
    batched_row=64,
    batched_work=0,
    work_of_byte=0.0,
    least_batches=1,
    online_bytes=16,
    online_block=6,
    whole_rows=2,
    most_columns=40,
    shortest_part=4,
    placed_in_lanes=0,
    indexed_in_lanes=0,
    most_scanned_columns=20,
    wide_line=6,
    fewest_lines=5,
    fewest_scanned_lines=3,
    scanned_bytes=48,
)
STREAMED_ROWS = CpuRowParameters(
    THREADED_PAST_CACHE, chunked_run=64, whole_row=0, placed_in_lanes=0
)
CPU_PARAMETERS: Sequence[tuple[CpuParameters, CpuRowParameters] | None] = (
    None,
    (CpuParameters(THREADED), SMALL_ROWS),
    (
        CpuParameters(THREADED_PAST_CACHE, stream_row_bytes=8, interleaved=1),
        STREAMED_ROWS,
    ),
)
EMULATED_PLACES = (None, *PLACES)


# -- fusions -------------------------------------------------------------------------------------


def every_step() -> tuple[WriteStep, ...]:
    """The steps of all families that `tests.strategies` names; arithmetic and rows more often."""
    families = (
        value
        for name, value in vars(strategies).items()
        if name.isupper() and isinstance(value, tuple) and all(map(callable, value))
    )
    return (
        *POINTWISE,
        *POINTWISE,
        *NORMALIZATIONS,
        *NORMALIZATIONS,
        *(step for family in families for step in family),
    )


TOO_MANY = 1 << 24
"""Elements of a tensor from which a fusion is left out: large tensors may be broadcast to each
other, and the oracle stores every one."""


def scale_of(seed: int) -> Scale:
    """How large the tensors of a seed are; of either scale there are all mappings."""
    return LARGE if seed // ONE_SCALE % 2 else SMALL


def definition_of(seed: int) -> Definition:
    """The random definition of a seed."""
    steps = every_step()
    scale = scale_of(seed)
    strategy = definitions(steps, EVERY_DTYPE, MOST, LEAST, scale, in_place=True, extremes=True)
    return drawn(strategy, seed)


@contextlib.contextmanager
def mapped(target: str, seed: int) -> Iterator[None]:
    """The parameters that kernels of this seed are mapped by."""
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        if target == "emulator":
            orders = list(ThreadOrder)
            patch.setattr(EmulatorBackend, "order", orders[seed % len(orders)])
            place = EMULATED_PLACES[seed % len(EMULATED_PLACES)]
            if place is not None:
                stack.enter_context(placed(place))
        elif chosen := CPU_PARAMETERS[seed % len(CPU_PARAMETERS)]:
            map_by(patch, *chosen)
        yield


# -- one fusion ----------------------------------------------------------------------------------


def check(target: str, seed: int) -> str:
    """Empty if the fusion of a seed gives the oracle's numbers; else what fails, as a script."""
    if target == COMPILED:
        return compiled_programs.check(seed)
    definition = definition_of(seed)
    with FusionDefinition() as fd:
        definition.build(fd)
    if _most_elements(concretize_for(fd.fusion, definition.inputs)) > TOO_MANY:
        return ""
    with mapped(target, seed):
        inputs, error = first_failure(fd.fusion, definition.inputs, target)
        if error is None:
            return ""

        def fails(fusion: Fusion, inputs: Inputs) -> bool:
            return type(failure(fusion, inputs, target)) is type(error)

        fusion, inputs = smallest(fd.fusion, inputs, fails)
        error = failure(fusion, inputs, target) or error
    forms = [form_of(given, numbers=True) for given in inputs]
    script = repro_script(fusion, forms, target=target, method="validate")
    return f"{script}\n# {type(error).__name__}: {error}\n"


def first_failure(fusion: Fusion, inputs: Inputs, target: str) -> tuple[Inputs, Exception | None]:
    """What is raised for these inputs, or for others that the oracle takes too, and for which."""
    executor = Executor(fusion)
    error = failure(fusion, inputs, target, executor)
    if error is None and has_any_size(fusion):
        for others in later_calls(inputs):
            if not _is_refused(fusion, others):
                error = failure(fusion, others, target, executor)
                if error is not None:
                    return others, error
    return inputs, error


def _is_refused(fusion: Fusion, inputs: Inputs) -> bool:
    """Whether inputs do not fit a fusion, or the oracle computes nothing of them."""
    state = torch.get_rng_state()
    try:
        check_inputs(fusion, inputs)
        concrete = concretize_for(fusion, inputs)
        check_updates(concrete, inputs)
        interpret(fusion, inputs)
    except (RuntimeError, ArithmeticError, LookupError, TypeError, ValueError):
        return True
    finally:
        torch.set_rng_state(state)
    return False


def _most_elements(fusion: Fusion) -> int:
    outs = (out for statement in fusion.statements for out in statement.outs)
    return max((out.elements for out in outs if out.is_tensor), default=0)


def failure(
    fusion: Fusion, inputs: Inputs, target: str, executor: Executor | None = None
) -> Exception | None:
    """What executing a fusion raises, or comparing what it gives: in a call, in the next with other
    numbers in memory that lies alike, and in one whose outputs are apart. Inputs stay as they are.
    """
    executor = executor or Executor(fusion)
    named = None if target == "cpu" else target
    run = functools.partial(executor.execute, target=named)
    try:
        results = _agreed(fusion, inputs, run)
        kept = copied(results)
        _agreed(fusion, in_reverse(inputs), run)
        for value, result, before in zip(_returned(fusion), results, kept, strict=True):
            assert isinstance(before, torch.Tensor)
            assert same_bits(result, before), f"{value} was changed by the next call"
        _agreed(fusion, inputs, run, apart=True)
    except (RuntimeError, AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as e:
        return e
    return None


def _returned(fusion: Fusion) -> list[Value]:
    return [output.value for output in fusion.outputs if output.alias_of is None]


def _agreed(
    fusion: Fusion, inputs: Inputs, run: Callable[..., list[torch.Tensor]], *, apart: bool = False
) -> list[torch.Tensor]:
    """What a call returns. Raises where that, or what it writes, is not what the oracle makes; the
    inputs are then as they were."""
    before = copied(inputs)
    state = torch.get_rng_state()
    try:
        all_returned = run(inputs, apart=apart)
        torch.set_rng_state(state)
        returned = iter(all_returned)
        results = [
            next(returned) if output.alias_of is None else _written(fusion, inputs, output)
            for output in fusion.outputs
        ]
        written = {output.alias_of for output in fusion.outputs}
        after = _with_written(fusion, inputs, before)
        for value, given, wanted in zip(fusion.inputs, inputs, after, strict=True):
            if isinstance(given, torch.Tensor):
                assert same_bits(given, wanted), f"{value} was changed"
        pure = dataclasses.replace(fusion, outputs=tuple(map(Output, fusion.output_values)))
        expected = interpret(pure, before)
        check_results(pure, before, results, expected)
        check_zeros(concretize_for(pure, before), results, expected)
        if apart:
            check_apart(Made(inputs, all_returned))
        elif written == {None}:
            check_memory(pure, Made(inputs, results), Made(before, expected))
        return all_returned
    finally:
        for given, old in zip(inputs, before, strict=True):
            if isinstance(given, torch.Tensor) and not same_bits(given, old):
                given.copy_(old)


def _with_written(fusion: Fusion, inputs: Inputs, before: Inputs) -> Inputs:
    """The inputs as they were, but for what was written: it is in all that share the memory."""
    after = copied(before)
    updated = [fusion.inputs.index(o.alias_of) for o in fusion.outputs if o.alias_of is not None]
    for at in updated:
        given, made = inputs[at], after[at]
        assert isinstance(given, torch.Tensor)
        assert isinstance(made, torch.Tensor)
        made.copy_(given)
    return after


def _written(fusion: Fusion, inputs: Inputs, output: Output) -> torch.Tensor:
    """The input that an output is written to."""
    assert output.alias_of is not None
    tensor = inputs[fusion.inputs.index(output.alias_of)]
    assert isinstance(tensor, torch.Tensor)
    return tensor


def replay(target: str, seeds: Sequence[int]) -> int:
    """Check some seeds in this process, and print what fails. How many did."""
    failed = 0
    for seed in seeds:
        print(f"# seed {seed}", flush=True)
        script = check(target, seed)
        if script:
            failed += 1
            print(f"# python -m tests.fuzz --target {target} --replay {seed}\n{script}", flush=True)
    return failed


# -- many fusions --------------------------------------------------------------------------------


def run_apart(target: str, seeds: range) -> str:
    """Check a batch in a process of its own. What failed there."""
    replaying = ["--target", target, "--replay", str(seeds.start), "--count", str(len(seeds))]
    environment = os.environ | {"OMP_WAIT_POLICY": "passive", "FUSER_VERIFY": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz", *replaying],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=BATCH_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += f"\nnot done in {BATCH_SECONDS} seconds"
    lines = out.splitlines()
    marks = [line for line in lines if line.startswith("# seed ")]
    found = "\n".join(line for line in lines if not line.startswith("# seed "))
    if process.returncode not in (0, 1):
        last = marks[-1] if marks else "# before the first seed"
        found += f"\n{last} of {target} ended the process ({process.returncode})\n{err}"
    return found


def fuzz(target: str, count: int, first: int, jobs: int) -> bool:
    """Check `count` seeds from `first` on, in batches. Whether all of them agree."""
    begin, done, bad = time.perf_counter(), 0, 0
    starts = range(first, first + count, BATCH)
    batches = [range(start, min(start + BATCH, first + count)) for start in starts]
    check_batch: Callable[[range], str] = lambda seeds: run_apart(target, seeds)  # noqa: E731
    with ThreadPoolExecutor(jobs) as pool:
        for seeds, found in zip(batches, pool.map(check_batch, batches), strict=True):
            done += len(seeds)
            if found:
                bad += 1
                print(f"\n{found}\n", flush=True)
            took = time.perf_counter() - begin
            failing = f"batches with failures: {bad}"
            print(f"{target}: {done} of {count} fusions in {took:.0f} s, {failing}", flush=True)
    return bad == 0


def _positive(given: str) -> int:
    if not given.isdecimal() or int(given) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {given}")
    return int(given)


def main(arguments: Sequence[str] | None = None) -> int:
    as_written = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--target", choices=list(COUNTS), help="by default all")
    parser.add_argument("--count", type=_positive, help="by default 20000, 3000 and 1000")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count(), help="batches at a time")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one, in this process")
    chosen = parser.parse_args(arguments)
    targets = list(COUNTS) if chosen.target is None else [chosen.target]
    if chosen.replay is not None:
        seeds = range(chosen.replay, chosen.replay + (chosen.count or 1))
        return int(sum(replay(target, seeds) for target in targets) > 0)
    results = [fuzz(t, chosen.count or COUNTS[t], chosen.seed, chosen.jobs) for t in targets]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
