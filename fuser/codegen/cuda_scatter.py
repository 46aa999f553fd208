"""CUDA C++ for scatters."""

from __future__ import annotations

from fuser.codegen.cuda_rows import CudaRowPrinter
from fuser.schedule.loop_tree import Store


class CudaScatterPrinter(CudaRowPrinter):
    """`extern "C" __global__ void name(...)`: stores that add are left to the memory."""

    def store(self, store: Store) -> None:
        if store.joins is None:
            super().store(store)
            return
        place = f"{store.tensor}_out + ({self.sizes.index(store.at, store.tensor.name)})"
        if store.lanes == 1:
            added = self.expressions.print(store.source, store.tensor.name)
            self.out.line(f"{self.expressions.use('add_to')}({place}, {added});")
            return
        assert self._sharing is not None
        lanes = self.lanes_of(store)
        if self._sharing.whole:
            self.out.line(f"{self.expressions.use('add_vector')}({lanes}, {place});")
        else:
            self.out.line(f"{self.expressions.use('add_part')}({lanes}, {place}, {self._valid()});")
