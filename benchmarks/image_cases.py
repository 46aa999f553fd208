"""Functions of images and signals: windows, filters, colors and sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from function_cases import Function, normal


def largest_of_windows(image: torch.Tensor) -> torch.Tensor:
    """Dilation: the largest of the 3 by 3 around each pixel of [images, height, width]."""
    return image.unfold(1, 3, 1).unfold(2, 3, 1).amax((-1, -2))


def spread_of_windows(image: torch.Tensor) -> torch.Tensor:
    """The variance of the 5 by 5 around each pixel of [images, height, width]."""
    return image.unfold(1, 5, 1).unfold(2, 5, 1).var((-1, -2))


def corners(image: torch.Tensor) -> torch.Tensor:
    """Harris: where the slopes of the 5 by 5 around a pixel of [height, width] differ, if they do
    so nearly as much as anywhere."""
    across = image[1:-1, 2:] - image[1:-1, :-2]
    down = image[2:, 1:-1] - image[:-2, 1:-1]
    height, width = (size - 4 for size in across.shape)

    def around(slopes: torch.Tensor) -> torch.Tensor:
        parts = [slopes[i : i + height, j : j + width] for i in range(5) for j in range(5)]
        return sum(parts[1:], parts[0]) / 25

    a, b, c = around(across * across), around(down * down), around(across * down)
    response = a * b - c * c - 0.05 * (a + b) ** 2
    return torch.where(response > 0.01 * response.max(), response, 0.0)


def colored(light: torch.Tensor, blue: torch.Tensor, red: torch.Tensor) -> torch.Tensor:
    """RGB of YUV 4:2:0, bytes: [height, width, 3] of [height, width] and two of half the size."""

    def doubled(plane: torch.Tensor) -> torch.Tensor:
        return plane.float().repeat_interleave(2, 0).repeat_interleave(2, 1) - 128

    y, u, v = 1.164 * (light.float() - 16), doubled(blue), doubled(red)
    parts = [y + 1.596 * v, y - 0.392 * u - 0.813 * v, y + 2.017 * u]
    return torch.stack(parts, -1).clamp(0, 255)


def shrunk(image: torch.Tensor) -> torch.Tensor:
    """Images of 224 by 224, of mean 0 and variance 1."""
    small = F.interpolate(image, size=(224, 224), mode="bilinear", align_corners=False)
    return (small - 0.45) / 0.22


def enlarged(scores: torch.Tensor) -> torch.Tensor:
    """Segmentation: scores of classes, as large as the images that they were made of."""
    return F.interpolate(scores, scale_factor=8, mode="bilinear", align_corners=False)


def enlarged_last(image: torch.Tensor) -> torch.Tensor:
    """Decoders: [batch, height, width, channels], twice as large, with channels first."""
    return F.interpolate(image.permute(0, 3, 1, 2), scale_factor=2, mode="bilinear").relu()


def doubled_last(image: torch.Tensor) -> torch.Tensor:
    """Diffusion models: as those, of the nearest elements."""
    return F.interpolate(image.permute(0, 3, 1, 2), scale_factor=2, mode="nearest") * 2.0


def halved_volumes(volume: torch.Tensor) -> torch.Tensor:
    """The largest of 2 by 2 by 2 in [batch, channels, depth, height, width]."""
    return F.max_pool3d(volume, 2)


def largest_around(image: torch.Tensor) -> torch.Tensor:
    """YOLO's pyramids of pools: the largest of 13 by 13 around each element."""
    return torch.cat([image, F.max_pool2d(image, 13, 1, 6)], 1)


def blurred_halves(image: torch.Tensor) -> torch.Tensor:
    """Means of 3 by 3, half as many: where images of residual networks are halved."""
    return F.avg_pool2d(image.relu(), 3, 2, 1)


def far_apart(image: torch.Tensor) -> torch.Tensor:
    """Segmentation: the largest of 3 by 3 that are two apart."""
    return F.max_pool2d(image, 3, 1, 1, dilation=2)


def shrunk_to_nearest(image: torch.Tensor) -> torch.Tensor:
    """Images of 224 by 224 of their nearest pixels, of mean 0 and variance 1."""
    return (F.interpolate(image, size=(224, 224), mode="nearest") - 0.45) / 0.22


def small_patches(image: torch.Tensor) -> torch.Tensor:
    """Diffusion transformers: patches of 4 by 4, [images, patches, pixels and channels]."""
    images, channels, height, width = image.shape
    tiled = image.view(images, channels, height // 4, 4, width // 4, 4)
    return tiled.permute(0, 2, 4, 3, 5, 1).reshape(images, -1, 16 * channels) * 2 - 1


def mixed_up(image: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Mixup: each image, and a little of another one."""
    return 0.7 * image + 0.3 * image[order]


def inferred(
    x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Batch norm at inference, of channels that are innermost in memory."""
    return F.batch_norm(x.permute(0, 3, 1, 2), mean, var.exp(), gain, bias).relu()


def similarity(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Of the structure of images [height, width, colors], by windows of 7 by 7."""
    one, other = (image.permute(2, 0, 1)[None] for image in (one, other))
    a, b = F.avg_pool2d(one, 7, 1), F.avg_pool2d(other, 7, 1)
    spread = F.avg_pool2d(one * one, 7, 1) - a * a + F.avg_pool2d(other * other, 7, 1) - b * b
    common = F.avg_pool2d(one * other, 7, 1) - a * b
    alike = (2 * a * b + 1e-4) * (2 * common + 9e-4)
    return (alike / ((a * a + b * b + 1e-4) * (spread + 9e-4))).mean()


def windowed(signal: torch.Tensor) -> torch.Tensor:
    """Overlapping frames of [signals, samples], each times a window."""
    return signal.unfold(-1, 64, 32) * torch.hann_window(64)


def filtered(signal: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """A filter of 31 taps along [signals, samples]."""
    samples = signal.shape[1] - 30
    parts = [taps[n] * signal[:, n : n + samples] for n in range(31)]
    return sum(parts[1:], parts[0])


def decaying(scores: torch.Tensor) -> torch.Tensor:
    """RetNet: scores [batch, heads, words, words], less of words that are further back."""
    words, heads = torch.arange(float(scores.shape[-1])), torch.arange(float(scores.shape[1]))
    back = words[:, None] - words
    kept = (1 - 2.0 ** (-5 - heads))[:, None, None] ** back.clamp(min=0)
    weighted = scores * torch.where(back >= 0, kept, 0.0)
    return weighted / weighted.sum(-1, keepdim=True).abs().clamp(min=1)


def frame() -> tuple[torch.Tensor, ...]:
    sizes = (512, 768), (256, 384), (256, 384)
    return tuple(torch.randint(0, 256, size, dtype=torch.uint8) for size in sizes)


IMAGES = (
    Function("largest of 3x3", largest_of_windows, normal((8, 300, 300)), trained=False),
    Function("variance of 5x5", spread_of_windows, normal((8, 300, 300)), trained=False),
    Function("corners", corners, normal((600, 600)), trained=False),
    Function("YUV to RGB", colored, frame, trained=False),
    Function("shrunk images", shrunk, normal((4, 3, 384, 384))),
    Function("31 taps", filtered, normal((64, 8192), (31,)), trained=False),
    Function("decay of words", decaying, normal((4, 4, 256, 256))),
    Function("enlarged images", enlarged, normal((2, 21, 64, 64))),
    Function("enlarged, last", enlarged_last, normal((4, 48, 48, 64))),
    Function("doubled, last", doubled_last, normal((4, 48, 48, 64))),
    Function("halved volumes", halved_volumes, normal((2, 16, 32, 64, 64))),
    Function("largest around", largest_around, normal((8, 64, 20, 20))),
    Function("blurred halves", blurred_halves, normal((16, 64, 56, 56))),
    Function("largest, dilated", far_apart, normal((8, 64, 56, 56)), trained=False),
    Function("shrunk to nearest", shrunk_to_nearest, normal((4, 3, 384, 384))),
    Function("small patches", small_patches, normal((8, 3, 224, 224))),
    Function("mixup", mixed_up, lambda: (torch.randn(32, 3, 112, 112), torch.randperm(32))),
    Function(
        "batch norm, inferred",
        inferred,
        normal((4, 56, 56, 64), (64,), (64,), (64,), (64,)),
        trained=False,
    ),
    Function("similarity", similarity, normal((256, 256, 3), (256, 256, 3))),
    Function("frames", windowed, normal((30, 20_000))),
)
