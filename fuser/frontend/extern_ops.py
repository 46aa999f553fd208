"""The operations torch runs. Numbers that choose what they do are Python literals or scalars."""

from __future__ import annotations

from collections.abc import Mapping

from fuser.errors import ArgumentError
from fuser.frontend.arguments import (
    boolean,
    check_zero_dim,
    data_type,
    extent,
    integer,
    number,
    option,
)
from fuser.frontend.handles import Handle, Scalar
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.dtypes import DataType
from fuser.ir.externs import TABLE
from fuser.ir.nodes import Extern, Value, python_number


class ExternOps(OperationGroup):
    """`fd.ops`: products, topk, argsort, embedding and attention, run by torch."""

    def matmul(self, arg1: Handle, arg2: Handle) -> Handle:
        """torch.matmul: [..., M, K] @ [..., K, N] -> [..., M, N], in the operands' dtype.

        Raises ArgumentError for sizes that cannot be multiplied, and OperandDtypeError for dtypes
        that differ.
        """
        return self._recorder.add("matmul", self._extern("matmul", {"arg1": arg1, "arg2": arg2}))

    def linear(self, arg1: Handle, arg2: Handle, bias: Handle | None = None) -> Handle:
        """arg1 @ arg2.T + bias: [..., K], [N, K] and [N] -> [..., N]; raises as `matmul` does."""
        args = {"arg1": arg1, "arg2": arg2, "bias": bias}
        return self._recorder.add("linear", self._extern("linear", args))

    def grouped_mm(
        self,
        mat1: Handle,
        mat2: Handle,
        offsets: Handle,
        scale1: Handle | None = None,
        scale2: Handle | None = None,
    ) -> Handle:
        """The products of groups; group g ends before row `offsets[g]` (Int32) of what is divided.

        [M, K] @ [G, K, N] -> [M, N] divides rows of `mat1`, [G, M, K] @ [K, N] -> [M, N] columns of
        `mat2`, and [M, K] @ [K, N] -> [G, M, N] the inner size. What is past the last group holds
        anything. Scales are not there: what divides rows would divide them too.
        """
        for name, scale in {"scale1": scale1, "scale2": scale2}.items():
            if scale is not None:
                expected = "expected None: scales of groups are not there; scale the operands"
                raise ArgumentError("grouped_mm", name, scale, expected)
        args = {"mat1": mat1, "mat2": mat2, "offsets": offsets}
        return self._recorder.add("grouped_mm", self._extern("grouped_mm", args))

    def scaled_mm(
        self,
        mat1: Handle,
        mat2: Handle,
        scale1: Handle,
        scale2: Handle,
        alpha: Handle | None = None,
        bias: Handle | None = None,
        beta: Handle | None = None,
        dtype: DataType = DataType.BFloat16,
        output_block_scale_size: int = 0,
        output_block_scale_dtype: DataType = DataType.BFloat16,
        output_gamma: bool = False,
    ) -> tuple[Handle, None, None]:
        """alpha scale1 scale2 (mat1 @ mat2) + beta bias, as `dtype`; scales broadcast to [M, N].

        The operands are 8-bit floats, of one type or two, or floats of one type. On a GPU with
        products of 8-bit floats (sm_89, sm_90 for scales of rows and columns) these are used.
        4-bit floats have a scale for each block of 16 along K, Float8_e4m3fn, and 8-bit floats may
        have one for each of 32, Float8_e8m0fnu: swizzled, as `nv_block_quantize` makes them.
        Scales of output blocks, their type and their gamma are not there: ArgumentError, if asked.
        """
        asked: dict[str, tuple[object, object]] = {
            "output_block_scale_size": (output_block_scale_size, 0),
            "output_block_scale_dtype": (output_block_scale_dtype, DataType.BFloat16),
            "output_gamma": (output_gamma, False),
        }
        for name, (wanted, usual) in asked.items():
            if wanted and wanted != usual:
                expected = f"expected {usual}: results of float8 blocks are not there"
                raise ArgumentError("scaled_mm", name, wanted, expected)
        args: dict[str, Handle | None] = {"mat1": mat1, "mat2": mat2}
        args |= {"scale1": scale1, "scale2": scale2}
        args |= {"alpha": alpha, "bias": bias, "beta": beta}
        op = self._extern("scaled_mm", args, (data_type("scaled_mm", dtype),))
        return self._recorder.add("scaled_mm", op), None, None

    def cutlass_nvfp4_grouped_mm(
        self,
        mat1: Handle,
        mat2: Handle,
        scale1: Handle,
        scale2: Handle,
        alpha: Handle,
        problem_sizes: Handle,
        expert_offsets: Handle,
        sf_offsets: Handle,
        dtype: DataType = DataType.BFloat16,
    ) -> Handle:
        """Products of groups of 4-bit floats: alpha[g] (mat1 of group g @ mat2[g]), as `dtype`.

        `mat1` [M, K] has the rows of group g from `expert_offsets[g]` on, `problem_sizes[g, 0]` of
        them; `mat2` is [G, K, N]. Scales are swizzled, of blocks of 16 along K: those of `mat1`
        from row `sf_offsets[g]` on, those of `mat2` [G, N, K / 16]. Rows of no group are 0.
        """
        args: dict[str, Handle] = {"mat1": mat1, "mat2": mat2, "scale1": scale1, "scale2": scale2}
        args |= {"alpha": alpha, "problem_sizes": problem_sizes}
        args |= {"expert_offsets": expert_offsets, "sf_offsets": sf_offsets}
        name = "cutlass_nvfp4_grouped_mm"
        op = self._extern(name, args, (data_type(name, dtype),))
        return self._recorder.add(name, op)

    def topk(
        self,
        arg: Handle,
        k: int | Handle,
        dim: int = -1,
        largest: bool = True,
        sorted: bool = False,
    ) -> tuple[Handle, Handle]:
        """The `k` largest (or smallest) elements along `dim`, and where they are, as Int."""
        value = self._recorder.tensor("topk", "arg", arg)
        options = (
            extent(self._recorder, "topk", "k", k),
            self._dim("topk", value, dim),
            boolean("topk", "largest", largest),
            boolean("topk", "sorted", sorted),
        )
        values, indices = self._recorder.add_all("topk", Extern("topk", (value,), options))
        return values, indices

    def argsort(
        self, arg: Handle, dim: int, descending: bool = False, stable: bool = False
    ) -> Handle:
        """The indices, as Int, that sort `arg` along `dim`; with `stable`, equals keep order."""
        value = self._recorder.tensor("argsort", "arg", arg)
        options = (
            self._dim("argsort", value, dim),
            boolean("argsort", "descending", descending),
            boolean("argsort", "stable", stable),
        )
        return self._recorder.add("argsort", Extern("argsort", (value,), options))

    def embedding_fwd(
        self,
        input: Handle,
        weight: Handle,
        padding_idx: int | Handle | None = None,
        max_norm: float | Handle | None = None,
        norm_type: float | Handle | None = None,
        scale_grad_by_freq: bool | Handle | None = None,
        sparse: bool | Handle | None = None,
    ) -> Handle:
        """The rows of `weight` at the Int or Int32 tensor `input`.

        With `max_norm`, rows whose `norm_type`-norm (2) is larger are scaled down to it in the
        result; torch changes them in `weight` too. The other options matter for gradients only.
        """
        name = "embedding_fwd"
        options = (
            option(self._recorder, integer, name, "padding_idx", padding_idx),
            option(self._recorder, number, name, "max_norm", max_norm),
            option(self._recorder, number, name, "norm_type", norm_type),
            option(self._recorder, boolean, name, "scale_grad_by_freq", scale_grad_by_freq),
            option(self._recorder, boolean, name, "sparse", sparse),
        )
        op = self._extern(name, {"input": input, "weight": weight}, options)
        return self._recorder.add(name, op)

    def sdpfa_fwd(
        self,
        query: Handle,
        key: Handle,
        value: Handle,
        bias: float | Handle | None = None,
        mask: bool | Handle | None = None,
        dropout_p: float | Handle | None = None,
        is_causal: bool | Handle | None = None,
        scale: float | Handle | None = None,
    ) -> tuple[Handle, Handle, Handle, Handle]:
        """Attention: (output, logsumexp, philox_seed, philox_offset); the last two are Int.

        query [*B, H, L, E], key and value [*B, H, S, E]. What broadcasts to [*B, H, L, S]: `bias`
        is added to the scores, `mask` (Bool) says which are kept. `scale` is by default E ** -0.5.
        Older scripts have no bias and mask: numbers in their places are dropout_p and is_causal,
        and the next one is scale. Where both are None, that one is dropout_p, as it is now.
        """
        name = "sdpfa_fwd"
        if _is_number(bias) or _is_number(mask):
            bias, mask, dropout_p, is_causal, scale = (
                *(None, None, bias),
                is_causal if mask is None else mask,
                dropout_p if scale is None else scale,
            )
        args = {"query": query, "key": key, "value": value, "bias": bias, "mask": mask}
        options = self._attention(name, dropout_p, is_causal, scale)
        results = self._recorder.add_all(name, self._extern(name, args, options))
        output, logsumexp, seed, offset = results
        return output, logsumexp, seed, offset

    def sdpfa_bwd(
        self,
        grad_output: Handle,
        query: Handle,
        key: Handle,
        value: Handle,
        output: Handle,
        logsumexp: Handle,
        dropout_p: float | Handle | None,
        is_causal: bool | Handle | None,
        philox_seed: Handle,
        philox_offset: Handle,
        scale: float | Handle | None = None,
    ) -> tuple[Handle, Handle, Handle]:
        """The gradients of query, key and value, of an `sdpfa_fwd` without bias and mask.

        philox_seed and philox_offset are Int, as `sdpfa_fwd` returns them, or UInt64.
        """
        name = "sdpfa_bwd"
        args = {"grad_output": grad_output, "query": query, "key": key, "value": value}
        args |= {"output": output, "logsumexp": logsumexp}
        args |= {"philox_seed": philox_seed, "philox_offset": philox_offset}
        options = self._attention(name, dropout_p, is_causal, scale)
        results = self._recorder.add_all(name, self._extern(name, args, options))
        query_, key_, value_ = results
        return query_, key_, value_

    def _dim(self, name: str, value: Value, given: object) -> int:
        """The dimension along which elements are ordered; a 0-dim tensor has one element."""
        if value.shape:
            return self._recorder.dim(name, value, given)
        check_zero_dim(name, value, [given])
        return 0

    def _attention(
        self, name: str, dropout_p: object, is_causal: object, scale: object
    ) -> tuple[object, object, object]:
        """The options of an attention and its gradient. None is no dropout, or not causal."""
        return (
            option(self._recorder, number, name, "dropout_p", dropout_p),
            option(self._recorder, boolean, name, "is_causal", is_causal),
            option(self._recorder, number, name, "scale", scale),
        )

    def _extern(
        self, name: str, given: Mapping[str, object], options: tuple[object, ...] = ()
    ) -> Extern:
        """The operation on tensors, of which only optional ones may be None."""
        absent = {argument for argument in TABLE[name].optional if given[argument] is None}
        args: list[Value | None] = [
            None
            if argument in absent
            else self._recorder.stored(name, argument, handle, _ALONG_K.get(argument))
            for argument, handle in given.items()
        ]
        while args and args[-1] is None:
            args.pop()
        return Extern(name, tuple(args), options)


_ALONG_K = {"mat1": -1, "mat2": -2}
"""Of what is multiplied, the dimension along which 4-bit floats lie in pairs."""


def _is_number(given: object) -> bool:
    """Whether it is a literal or a scalar."""
    return isinstance(given, Scalar) or python_number(given) is not None
