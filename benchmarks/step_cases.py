"""Functions that read their neighbours, or go step by step: simulations, images and recurrences."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from function_cases import Drawn, Function, normal

DIRECTIONS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
SHARES = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)
WEIGHTS = (1, 4, 6, 4, 1)

# -- simulations ---------------------------------------------------------------------------------


def heat(u: torch.Tensor) -> torch.Tensor:
    """Five steps on a torus."""
    for _ in range(5):
        beside = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1)
        u = u + 0.1 * (beside - 4 * u)
    return u


def waves(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Four steps between walls."""
    for _ in range(4):
        p = F.pad(u, (1, 1, 1, 1))
        v = v + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)
        u = u + 0.1 * v
    return u


def life(cells: torch.Tensor) -> torch.Tensor:
    """Three generations."""
    for _ in range(3):
        count = sum(cells.roll(by, (0, 1)) for by in DIRECTIONS[1:])
        cells = ((count == 3) | ((count == 2) & (cells == 1))).to(cells.dtype)
    return cells


def lattice_boltzmann(f: torch.Tensor) -> torch.Tensor:
    """Two steps of nine directions."""
    for _ in range(2):
        f = torch.stack([f[n].roll(by, (0, 1)) for n, by in enumerate(DIRECTIONS)])
        density = f.sum(0)
        x, y = (sum(by[d] * f[n] for n, by in enumerate(DIRECTIONS)) / density for d in (0, 1))
        speed = x * x + y * y
        ahead = [by[0] * x + by[1] * y for by in DIRECTIONS]
        settled = [
            share * density * (1 + 3 * a + 4.5 * a * a - 1.5 * speed)
            for share, a in zip(SHARES, ahead, strict=True)
        ]
        f = f - 0.6 * (f - torch.stack(settled))
    return f


# -- images --------------------------------------------------------------------------------------


def unsharp_mask(image: torch.Tensor) -> torch.Tensor:
    height, width = image.shape[-2:]
    p = F.pad(image, (2, 2, 2, 2), mode="reflect")
    rows = torch.zeros_like(p[..., :width])
    for n, weight in enumerate(WEIGHTS):
        rows = rows + weight / 16 * p[..., n : n + width]
    blurred = torch.zeros_like(image)
    for n, weight in enumerate(WEIGHTS):
        blurred = blurred + weight / 16 * rows[..., n : n + height, :]
    return (image + 0.5 * (image - blurred)).clamp(0, 1)


def hue(image: torch.Tensor) -> torch.Tensor:
    """Hue, saturation and value of [images, 3, height, width]."""
    r, g, b = image.unbind(1)
    most, least = image.amax(1), image.amin(1)
    range_ = most - least
    apart = torch.where(range_ == 0, 1.0, range_)
    angle = torch.where(most == g, (b - r) / apart + 2, (r - g) / apart + 4)
    angle = torch.where(most == r, ((g - b) / apart) % 6, angle) / 6
    return torch.stack([angle, torch.where(most == 0, 0.0, range_ / most), most], 1)


def gamma(image: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    return image.clamp(1e-6).pow(exponent) * 1.02 - 0.01


def quantized(weight: torch.Tensor) -> torch.Tensor:
    """Bytes, by groups of 128."""
    groups = weight.view(-1, 128)
    scale = groups.abs().amax(-1, keepdim=True) / 127
    return (groups / scale).round().clamp(-128, 127).to(torch.int8)


def resized_volume(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2, mode="trilinear", align_corners=True).relu()


# -- recurrences ---------------------------------------------------------------------------------


def advantages(rewards: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Generalized advantages of 64 steps, the last first."""
    following = torch.cat([values[1:], torch.zeros_like(values[:1])])
    surprise = rewards + 0.99 * following - values
    total = torch.zeros_like(values[0])
    found: list[torch.Tensor] = []
    for step in reversed(surprise.unbind(0)):
        total = step + 0.95 * total
        found.append(total)
    return torch.stack(found[::-1])


def biquad(x: torch.Tensor) -> torch.Tensor:
    """A filter of second order over 64 samples of many channels."""
    x1 = x2 = y1 = y2 = torch.zeros_like(x[0])
    made: list[torch.Tensor] = []
    for x0 in x.unbind(0):
        y0 = 0.2 * x0 + 0.4 * x1 + 0.2 * x2 + 0.4 * y1 - 0.2 * y2
        x1, x2, y1, y2 = x0, x1, y0, y1
        made.append(y0)
    return torch.stack(made)


def runge_kutta(state: torch.Tensor) -> torch.Tensor:
    """Ten steps of Lorenz's equations."""

    def slope(s: torch.Tensor) -> torch.Tensor:
        x, y, z = s.unbind(-1)
        return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)

    for _ in range(10):
        first = slope(state)
        second = slope(state + 0.005 * first)
        third = slope(state + 0.005 * second)
        last = slope(state + 0.01 * third)
        state = state + 0.01 / 6 * (first + 2 * second + 2 * third + last)
    return state


def soft_warping(costs: torch.Tensor) -> torch.Tensor:
    """The soft cost of the cheapest way through [rows, columns, pairs]."""
    far = torch.full_like(costs[0, 0], 1e8)
    before = [torch.zeros_like(far), *[far] * costs.shape[1]]
    for row in costs.unbind(0):
        here = [far]
        for n, cost in enumerate(row.unbind(0)):
            ways = torch.stack([before[n], before[n + 1], here[n]])
            here.append(cost - (-ways).logsumexp(0))
        before = here
    return before[-1]


def selective_scan(
    rates: torch.Tensor, steps: torch.Tensor, entries: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """Mamba's states after each step, all of them in a logarithmic number of rounds: [steps,
    batch, channels, states] of rates [channels, states], steps and x [steps, batch, channels],
    entries [steps, batch, states]."""
    step = F.softplus(steps)
    kept = torch.exp(-rates.exp() * step[..., None])
    return _states(kept, (step * x)[..., None] * entries[:, :, None])[1]


def _states(kept: torch.Tensor, added: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`state = kept * state + added`, for an even number of steps or one: the odd ones by the
    half as many pairs of steps, the even ones from them."""
    if len(kept) == 1:
        return kept, added
    first, second = slice(0, None, 2), slice(1, None, 2)
    odd = _states(kept[first] * kept[second], kept[second] * added[first] + added[second])
    (odd_kept, odd_added), later = odd, slice(2, None, 2)
    even_kept = torch.cat([kept[:1], odd_kept[:-1] * kept[later]])
    even_added = torch.cat([added[:1], kept[later] * odd_added[:-1] + added[later]])
    both = torch.stack([even_kept, odd_kept], 1), torch.stack([even_added, odd_added], 1)
    return both[0].flatten(0, 1), both[1].flatten(0, 1)


# -- their list ----------------------------------------------------------------------------------


def uniform(*sizes: int) -> Drawn:
    return (torch.rand(sizes),)


STEPS = (
    Function("heat, 5 steps", heat, normal((512, 512))),
    Function("waves, 4 steps", waves, normal((512, 512), (512, 512))),
    Function("life, 3 steps", life, lambda: (torch.rand(512, 512).round(),), trained=False),
    Function(
        "lattice Boltzmann, 2 steps", lattice_boltzmann, lambda: (torch.rand(9, 256, 256) + 1,)
    ),
    Function("unsharp mask", unsharp_mask, lambda: uniform(8, 3, 256, 256)),
    Function("RGB to HSV", hue, lambda: uniform(8, 3, 256, 256), trained=False),
    Function("gamma", gamma, lambda: (*uniform(8, 3, 256, 256), torch.rand(3, 1, 1) + 0.5)),
    Function("bytes by groups", quantized, normal((4096, 1024)), trained=False),
    Function("trilinear", resized_volume, normal((2, 8, 16, 32, 32))),
    Function("advantages, 64 steps", advantages, normal((64, 4096), (64, 4096))),
    Function("biquad, 64 steps", biquad, normal((64, 4096))),
    Function(
        "selective scan, 16 steps",
        selective_scan,
        normal((256, 8), (16, 2, 256), (16, 2, 8), (16, 2, 256)),
    ),
    Function("Runge-Kutta, 10 steps", runge_kutta, normal((10_000, 3))),
    Function("soft warping 8 x 8", soft_warping, lambda: uniform(8, 8, 4096)),
)
