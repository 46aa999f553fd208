"""Functions as models and training loops have them, for torch.compile: sizes, and what is computed.

What is differentiated are the tensors of floating point that a case draws, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

Drawn = tuple[torch.Tensor, ...]
Draw = Callable[[], Drawn]


@dataclass(frozen=True, slots=True)
class Function:
    """`compute` of what `draw` makes, in float32; `trained` if its gradients are measured too."""

    name: str
    compute: Callable[..., torch.Tensor]
    draw: Draw
    trained: bool = True


def normal(*sizes: tuple[int, ...]) -> Draw:
    return lambda: tuple(torch.randn(size) for size in sizes)


def indexed(most: int, places: tuple[int, ...], *sizes: tuple[int, ...]) -> Draw:
    """Indices below `most`, then tensors of `sizes`."""
    return lambda: (torch.randint(0, most, places), *normal(*sizes)())


# -- attention -----------------------------------------------------------------------------------


def window_bias(scores: torch.Tensor, table: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Swin: scores of windows and heads, and a bias for each distance in a window."""
    words = places.shape[0]
    bias = table[places.view(-1)].view(words, words, -1).permute(2, 0, 1)
    return (scores + bias[None]).softmax(-1)


def windows() -> Drawn:
    steps = torch.arange(7)
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="ij")).flatten(1)
    apart = (grid[:, :, None] - grid[:, None]).permute(1, 2, 0) + 6
    return *normal((256, 6, 49, 49), (169, 6))(), apart[..., 0] * 13 + apart[..., 1]


def bucket_bias(scores: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """T5: a bias for each bucket of distances."""
    length = scores.shape[-1]
    steps = torch.arange(length)
    apart = (steps[None] - steps[:, None]).abs()
    far = 8 + (torch.log(apart.clamp(min=1).float() / 8) / 2.772588722239781 * 8).long()
    bucket = torch.where(apart < 8, apart, far.clamp(max=15))
    return (scores + table[bucket].permute(2, 0, 1)).softmax(-1)


def causal_softmax(scores: torch.Tensor) -> torch.Tensor:
    length = scores.shape[-1]
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    return (scores * 0.125).masked_fill(later, float("-inf")).softmax(-1)


def capped_softmax(scores: torch.Tensor) -> torch.Tensor:
    """Gemma 2."""
    return (torch.tanh(scores / 50) * 50).softmax(-1)


def norm_and_rotate(
    x: torch.Tensor, scale: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """Qwen 3: queries [batch, length, heads, size] are normalized, then rotated."""
    x = (F.rms_norm(x, (x.shape[-1],)) * scale).transpose(1, 2)
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


def rotary_of_positions(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Halves of heads [batch, words, heads, 64], turned by angles that are made here."""
    rates = 10_000 ** (torch.arange(0, 64, 2) / -64)
    angles = (positions[:, None] * rates)[:, None]
    left, right = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)


def axial_rotary(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    pairs = x.view(*x.shape[:-1], -1, 2)
    first, second = pairs[..., 0], pairs[..., 1]
    cos, sin = angles.cos(), angles.sin()
    pair = (first * cos - second * sin, first * sin + second * cos)
    return torch.stack(pair, -1).flatten(-2)


# -- normalizations ------------------------------------------------------------------------------


def batch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True).relu()


def last_batch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Channels last in memory."""
    return batch_norm(x.permute(0, 3, 1, 2), weight, bias)


def group_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.silu(F.group_norm(x, 32, weight, bias))


def last_group_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Channels last in memory."""
    return group_norm(x.permute(0, 3, 1, 2), weight, bias)


def channel_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """ConvNeXt: over the channels of images, which come first."""
    mean = x.mean(1, keepdim=True)
    var = (x - mean).square().mean(1, keepdim=True)
    return (x - mean) * torch.rsqrt(var + 1e-6) * weight[:, None, None] + bias[:, None, None]


def instance_norm(x: torch.Tensor) -> torch.Tensor:
    return F.leaky_relu(F.instance_norm(x), 0.2)


def modulated_norm(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """DiT: of a batch, by what each of its images gives."""
    x = F.layer_norm(x, (x.shape[-1],))
    return x * (1 + scale[:, None]) + shift[:, None]


def scaled_residual(x: torch.Tensor, branch: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """ConvNeXt: a branch, channels last in memory, is scaled and added to images."""
    return x + (branch * scale).permute(0, 3, 1, 2)


def joined_norm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    joined = torch.cat((x, y), -1)
    return F.layer_norm(joined, (joined.shape[-1],))


def weight_norm(direction: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    return direction * (size / direction.square().sum(1, keepdim=True).sqrt())


def unit_norm(x: torch.Tensor) -> torch.Tensor:
    return F.normalize(x, dim=-1)


# -- pointwise blocks ----------------------------------------------------------------------------


def short_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (32,), weight, bias)


def short_softmax(scores: torch.Tensor) -> torch.Tensor:
    return scores.softmax(-1)


def swiglu(x: torch.Tensor) -> torch.Tensor:
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + bias)


def bias_tanh_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + bias, approximate="tanh")


def snake(x: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """BigVGAN: a periodic activation."""
    return x + torch.sin(x * alpha).square() / (alpha + 1e-9)


def geglu(x: torch.Tensor) -> torch.Tensor:
    value, gate = x.chunk(2, -1)
    return value * F.gelu(gate, approximate="tanh")


def time_embedding(steps: torch.Tensor) -> torch.Tensor:
    half = 128
    rates = torch.exp(-9.210340371976184 * torch.arange(half) / half)
    angles = steps[:, None] * rates[None]
    return torch.cat((angles.cos(), angles.sin()), -1)


def token_shift(x: torch.Tensor, mix: torch.Tensor) -> torch.Tensor:
    """RWKV."""
    before = F.pad(x, (0, 0, 1, -1))
    return x * mix + before * (1 - mix)


def short_convolution(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Mamba: four steps along the sequence, channels by themselves."""
    length = x.shape[1]
    padded = F.pad(x, (0, 0, 3, 0))
    parts = [padded[:, step : step + length] * weight[step] for step in range(4)]
    return F.silu(parts[0] + parts[1] + parts[2] + parts[3])


def skewed(scores: torch.Tensor) -> torch.Tensor:
    """Longformer: each row one element further to the right than the row before."""
    batch, rows, columns = scores.shape
    padded = F.pad(scores * 0.125, (0, rows + 1))
    flat = padded.view(batch, -1)[:, :-rows]
    return flat.view(batch, rows, columns + rows)[:, :, :-1].relu()


def relative_shift(scores: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Transformer-XL: each row one element further to the left than the row before."""
    batch, rows, columns = scores.shape
    padded = F.pad(scores + bias, (1, 0)).view(batch, columns + 1, rows)
    return padded[:, 1:].view(batch, rows, columns) * 0.125


def rolled_series(x: torch.Tensor) -> torch.Tensor:
    return x - torch.roll(x, 1000)


def softmax_of_columns(x: torch.Tensor) -> torch.Tensor:
    return F.softplus(x).softmax(0)


def maxout(x: torch.Tensor) -> torch.Tensor:
    return torch.amax(x.view(len(x), -1, 2), -1)


# -- images --------------------------------------------------------------------------------------


def patches(x: torch.Tensor) -> torch.Tensor:
    batch, channels, height, width = x.shape
    tiled = x.view(batch, channels, height // 16, 16, width // 16, 16)
    return tiled.permute(0, 2, 4, 3, 5, 1).reshape(batch, -1, 256 * channels) * 2 - 1


def shuffled(x: torch.Tensor) -> torch.Tensor:
    return F.pixel_shuffle(x, 2).clamp(0, 1)


def nearest(x: torch.Tensor) -> torch.Tensor:
    return F.silu(F.interpolate(x, scale_factor=2, mode="nearest"))


def bilinear(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False).relu()


def bicubic(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)


def max_pool(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, 2).relu()


def wide_max_pool(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, 3, 2, 1)


def average_pool(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(x.relu(), 2)


def norm_pool(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """As small convolutional networks have it."""
    return F.max_pool2d(batch_norm(x, weight, bias), 2)


def reflected(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (2, 2, 2, 2), mode="reflect") * 2


def mixed_by_pools(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """PoolFormer: the mean of neighbours, of images that are normalized before."""
    normal = F.group_norm(x, 1, weight, bias)
    return x + F.avg_pool2d(normal, 3, 1, 1, count_include_pad=False) - normal


def squeeze_excite(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x.mean((2, 3)) + gate)[:, :, None, None]


def pooled_silu(x: torch.Tensor) -> torch.Tensor:
    """EfficientNet's last layer."""
    return F.silu(x).mean((2, 3))


def rolled(x: torch.Tensor) -> torch.Tensor:
    """Swin: images [batch, height, width, channels] are shifted and cut into windows."""
    batch, height, width, channels = x.shape
    x = torch.roll(x, (-3, -3), (1, 2)).view(batch, height // 7, 7, width // 7, 7, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, channels) * 0.5


def total_variation(x: torch.Tensor) -> torch.Tensor:
    down, across = x[:, :, 1:] - x[:, :, :-1], x[..., 1:] - x[..., :-1]
    return down.abs().mean() + across.abs().mean()


# -- losses --------------------------------------------------------------------------------------


def label_smoothing(places: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, places, label_smoothing=0.1)


def binary_cross_entropy(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(logits, wanted)


def focal_loss(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    loss = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    return (loss * (1 - torch.exp(-loss)).square()).mean()


def distillation(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    soft = F.log_softmax(teacher / 2, -1)
    return F.kl_div(F.log_softmax(student / 2, -1), soft, reduction="batchmean", log_target=True)


def huber(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.smooth_l1_loss(x, y)


def contrastive(scores: torch.Tensor) -> torch.Tensor:
    """CLIP: of rows and of columns."""
    own = torch.arange(scores.shape[0])
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.t(), own)) / 2


def dice(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    chances = torch.sigmoid(logits)
    both = (chances * wanted).sum((2, 3))
    return 1 - (2 * both / (chances + wanted).sum((2, 3))).mean()


def soft_argmax(heat: torch.Tensor) -> torch.Tensor:
    batch, points, height, width = heat.shape
    chances = heat.flatten(2).softmax(-1).view(batch, points, height, width)
    down = (chances.sum(3) * torch.arange(height)).sum(-1)
    across = (chances.sum(2) * torch.arange(width)).sum(-1)
    return torch.stack((down, across), -1)


def entropy(logits: torch.Tensor) -> torch.Tensor:
    known = F.log_softmax(logits, -1)
    return -(known.exp() * known).sum(-1).mean()


# -- tables, distances, steps --------------------------------------------------------------------


def embedding_bag(places: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return F.embedding(places, table).mean(1)


def segment_sums(places: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(1000, x.shape[1]).index_add(0, places, x)


def largest_of_segments(places: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Pooling by the largest of each node's neighbours."""
    none = x.new_zeros(1000, x.shape[1])
    return none.scatter_reduce(0, places[:, None].expand_as(x), x, "amax", include_self=False)


def graph_attention(
    source: torch.Tensor, to: torch.Tensor, x: torch.Tensor, sent: torch.Tensor, taken: torch.Tensor
) -> torch.Tensor:
    """GAT: a softmax over the edges of each node, of all heads, and what they bring, added up."""
    nodes, heads, _ = x.shape
    score = F.leaky_relu((x * sent).sum(-1)[source] + (x * taken).sum(-1)[to], 0.2)
    at = to[:, None].expand_as(score)
    lowest = score.new_zeros(nodes, heads)
    largest = lowest.scatter_reduce(0, at, score.detach(), "amax", include_self=False)
    weight = (score - largest[to]).exp()
    total = torch.zeros_like(lowest).scatter_add(0, at, weight)
    weight = weight / (total[to] + 1e-16)
    return torch.zeros_like(x).index_add(0, to, x[source] * weight[..., None])


def edges(nodes: int, count: int) -> Draw:
    ends = ((count,), (count,))
    sizes = ((nodes, 8, 16), (8, 16), (8, 16))
    return lambda: (*(torch.randint(0, nodes, end) for end in ends), *normal(*sizes)())


def pair_distances(x: torch.Tensor) -> torch.Tensor:
    return (x[:, None] - x[None]).square().sum(-1).add(1e-6).sqrt()


def bodies(x: torch.Tensor) -> torch.Tensor:
    """Forces of points in space on each other."""
    apart = x[None] - x[:, None]
    near = (apart.square().sum(-1) + 0.01).rsqrt()
    return (apart * (near * near * near)[..., None]).sum(1)


def running_average(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]


def adamw(
    weight: torch.Tensor, gradient: torch.Tensor, mean: torch.Tensor, square: torch.Tensor
) -> torch.Tensor:
    mean = mean.lerp(gradient, 0.1)
    square = square * 0.999 + gradient * gradient * 0.001
    step = (mean / 0.1) / ((square.abs() / 0.001).sqrt() + 1e-8)
    return weight * (1 - 1e-5) - 1e-3 * step


FUNCTIONS = (
    Function("window bias + softmax", window_bias, windows),
    Function("bucket bias + softmax", bucket_bias, normal((4, 8, 512, 512), (16, 8))),
    Function("causal softmax", causal_softmax, normal((4, 12, 512, 512))),
    Function("capped softmax", capped_softmax, normal((4, 8, 512, 512))),
    Function(
        "norm, then rotary",
        norm_and_rotate,
        normal((4, 512, 16, 64), (64,), (512, 64), (512, 64)),
    ),
    Function(
        "rotary of positions",
        rotary_of_positions,
        lambda: (torch.randn(2, 512, 16, 64), torch.arange(512)),
    ),
    Function("rotary of pairs", axial_rotary, normal((4, 12, 512, 64), (512, 32))),
    Function("batch norm", batch_norm, normal((16, 128, 28, 28), (128,), (128,))),
    Function("batch norm, last", last_batch_norm, normal((16, 28, 28, 128), (128,), (128,))),
    Function("group norm", group_norm, normal((8, 128, 56, 56), (128,), (128,))),
    Function("group norm, last", last_group_norm, normal((8, 56, 56, 128), (128,), (128,))),
    Function("norm of channels", channel_norm, normal((8, 96, 56, 56), (96,), (96,))),
    Function("instance norm", instance_norm, normal((8, 64, 56, 56))),
    Function("modulated norm", modulated_norm, normal((16, 256, 768), (16, 768), (16, 768))),
    Function("scaled residual", scaled_residual, normal((8, 96, 56, 56), (8, 56, 56, 96), (96,))),
    Function("cat + layer norm", joined_norm, normal((4096, 512), (4096, 256))),
    Function("weight norm", weight_norm, normal((3072, 768), (3072, 1))),
    Function("unit vectors", unit_norm, normal((8192, 256))),
    Function("layer norm of 32", short_norm, normal((32_768, 32), (32,), (32,))),
    Function("softmax of 16", short_softmax, normal((65_536, 16))),
    Function("SwiGLU", swiglu, normal((2048, 4096))),
    Function("bias + GELU", bias_gelu, normal((8192, 768), (768,))),
    Function("bias + tanh GELU", bias_tanh_gelu, normal((8192, 768), (768,))),
    Function("snake", snake, normal((8192, 768), (768,))),
    Function("GeGLU", geglu, normal((2048, 4096))),
    Function("time embedding", time_embedding, lambda: (torch.rand(8192) * 1000,)),
    Function("token shift", token_shift, normal((8, 512, 768), (768,))),
    Function("short convolution", short_convolution, normal((8, 512, 768), (4, 768))),
    Function("skewed scores", skewed, normal((24, 512, 512))),
    Function("relative shift", relative_shift, normal((24, 512, 512), (512,))),
    Function("roll of a series", rolled_series, normal((4_000_000,))),
    Function("softmax of columns", softmax_of_columns, normal((2048, 1024))),
    Function("maxout", maxout, normal((4096, 1024))),
    Function("patches", patches, normal((16, 3, 224, 224))),
    Function("pixel shuffle", shuffled, normal((8, 64, 64, 64))),
    Function("nearest", nearest, normal((8, 64, 32, 32))),
    Function("bilinear", bilinear, normal((8, 64, 32, 32))),
    Function("bicubic", bicubic, normal((8, 64, 32, 32))),
    Function("max pool 2x2", max_pool, normal((16, 64, 56, 56))),
    Function("max pool 3x3", wide_max_pool, normal((16, 64, 56, 56))),
    Function("norm, pool", norm_pool, normal((16, 64, 56, 56), (64,), (64,))),
    Function("average pool", average_pool, normal((16, 64, 56, 56))),
    Function("reflected pad", reflected, normal((16, 32, 56, 56))),
    Function("mixed by pools", mixed_by_pools, normal((8, 64, 56, 56), (64,), (64,))),
    Function("squeeze, excite", squeeze_excite, normal((16, 128, 28, 28), (16, 128))),
    Function("silu, then pool", pooled_silu, normal((32, 64, 56, 56))),
    Function("windows of a roll", rolled, normal((16, 56, 56, 96))),
    Function("total variation", total_variation, normal((8, 3, 256, 256))),
    Function("label smoothing", label_smoothing, indexed(8192, (512,), (512, 8192))),
    Function(
        "binary cross entropy",
        binary_cross_entropy,
        lambda: (torch.randn(8192, 768), torch.rand(8192, 768)),
    ),
    Function("focal loss", focal_loss, lambda: (torch.randn(4096, 400), torch.rand(4096, 400))),
    Function("distillation", distillation, normal((512, 8192), (512, 8192))),
    Function("Huber loss", huber, normal((2048, 1024), (2048, 1024))),
    Function("contrastive loss", contrastive, normal((2048, 2048))),
    Function("dice loss", dice, lambda: (torch.randn(8, 4, 256, 256), torch.rand(8, 4, 256, 256))),
    Function("soft argmax", soft_argmax, normal((32, 17, 64, 64))),
    Function("entropy", entropy, normal((512, 8192))),
    Function("embedding bag", embedding_bag, indexed(10_000, (4096, 16), (10_000, 128))),
    Function("segment sums", segment_sums, indexed(1000, (50_000,), (50_000, 64))),
    Function("largest of segments", largest_of_segments, indexed(1000, (50_000,), (50_000, 64))),
    Function("graph attention", graph_attention, edges(5000, 50_000)),
    Function("distances of pairs", pair_distances, normal((512, 32))),
    Function("bodies", bodies, normal((1024, 3))),
    Function("running average", running_average, normal((8, 512, 256))),
    Function("AdamW", adamw, normal(*((4_000_000,),) * 4), trained=False),
)
