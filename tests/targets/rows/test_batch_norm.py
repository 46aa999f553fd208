"""fd.ops.batch_norm beside torch's."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition, errors


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_it_is_torchs(target: str, training: bool, channels_last: bool, affine: bool) -> None:
    x = torch.randn(6, 5, 7, 3) * 2 + 1
    weight, bias, mean, var = torch.randn(5), torch.randn(5), torch.randn(5), torch.rand(5) + 0.5
    given = x.movedim(1, -1).contiguous() if channels_last else x
    with FusionDefinition() as fd:
        t, w, b, m, v = (fd.from_pytorch(held) for held in (given, weight, bias, mean, var))
        scales = (w, b) if affine else (None, None)
        for out in fd.ops.batch_norm(t, *scales, m, v, 0.2, 1e-3, training, channels_last):
            fd.add_output(out)
    ours = [mean.clone(), var.clone()]
    got, of_batch, inverse = fd.execute([given, weight, bias, *ours], target=target)
    scaled = (weight, bias) if affine else (None, None)
    want = torch.nn.functional.batch_norm(x, mean, var, *scaled, training, 0.2, 1e-3)
    got = got.movedim(-1, 1) if channels_last else got
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(ours, [mean, var])  # torch has updated its own
    if training:
        torch.testing.assert_close(of_batch, x.mean((0, 2, 3)))
        torch.testing.assert_close(inverse, (x.var((0, 2, 3), correction=0) + 1e-3).rsqrt())


def test_without_running_statistics_the_batchs_count() -> None:
    x = torch.randn(8, 4, dtype=torch.float64)
    with FusionDefinition() as fd:
        y, _, _ = fd.ops.batch_norm(fd.from_pytorch(x), training=False)
        fd.add_output(y)
    torch.testing.assert_close(
        fd.execute([x])[0], torch.nn.functional.batch_norm(x, None, None, training=True)
    )


def test_running_statistics_keep_their_type() -> None:
    x, mean, var = torch.randn(8, 4), torch.zeros(4).bfloat16(), torch.ones(4).bfloat16()
    with FusionDefinition() as fd:
        t, m, v = (fd.from_pytorch(held) for held in (x, mean, var))
        fd.add_output(fd.ops.batch_norm(t, None, None, m, v, training=True)[0])
    fd.execute([x, mean, var])
    assert mean.dtype is torch.bfloat16
    torch.testing.assert_close(mean.float(), x.mean(0) * 0.1, rtol=1e-2, atol=1e-3)


def test_mistakes_are_named() -> None:
    x = torch.randn(8, 4)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        m = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Float)
        with pytest.raises(errors.ArgumentError, match="running_mean and running_var, or neither"):
            fd.ops.batch_norm(t, None, None, m)
        with pytest.raises(errors.ArgumentError, match=r"running_mean.*expected an input"):
            fd.ops.batch_norm(t, None, None, m + 1.0, m)
        with pytest.raises(errors.ArgumentError, match="two or more dimensions"):
            fd.ops.batch_norm(m)
        fd.add_output(t * 2.0)


@pytest.mark.parametrize(
    "shape", [(4, 8, 5, 5), (32, 64, 7, 7), (2, 8, 7, 7), (5, 8, 5, 7), (2, 3, 1, 3)], ids=str
)
def test_channels_of_small_images_are_swept_once(shape: tuple[int, ...]) -> None:
    # A channel's pixels are one axis in each of its sweeps, though each sweep merged its own.
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        var, mean = fd.ops.var_mean(t, [0, 2, 3], correction=0, keepdim=True)
        fd.add_output((t - mean) * fd.ops.rsqrt(var + 1e-5))
        fd.add_output(var)
        powers = fd.ops.exp(t - fd.ops.max(t, [0, 2, 3], keepdim=True))
        fd.add_output(powers / fd.ops.sum(powers, [0, 2, 3], keepdim=True))
    fd.validate([x])
