"""C++ for the CPU target: OpenMP over outer loops, `omp simd` over the innermost."""

from __future__ import annotations

from fuser.codegen.printer import KernelPrinter
from fuser.codegen.target import CPU
from fuser.schedule.loop_tree import Binding, Loop


class CpuPrinter(KernelPrinter):
    """`extern "C" void name(..., const bool threaded)`."""

    target = CPU

    def signature(self, parameters: str) -> str:
        return f'extern "C" void {self.nest.name}({parameters}, const bool threaded)'

    def loop(self, loop: Loop) -> None:
        outermost = loop.axis is self.nest.axes[0]
        if loop.binding is Binding.SIMD:
            self.out.line(
                "#pragma omp parallel for simd if (parallel : threaded)"
                if outermost
                else "#pragma omp simd"
            )
        elif outermost:
            depth = len(self.nest.axes) - 1
            collapse = f" collapse({depth})" if depth > 1 else ""
            self.out.line(f"#pragma omp parallel for{collapse} if (threaded)")
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        index = self.expressions.type(self.nest.index_dtype)
        with self.out.block(f"for ({index} {name} = 0; {name} < {extent}; ++{name})"):
            for node in loop.body:
                self.node(node)
