"""Small modules whose movement is that of well-known ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class UNet(nn.Module):
    """Two levels, joined by skip connections, padded as the first implementations do."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)])
        self.middle = nn.Conv2d(32, 32, 3, padding=1)
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 32, 2, 2), nn.ConvTranspose2d(16, 16, 2, 2)])
        self.after = nn.ModuleList([nn.Conv2d(64, 16, 3, padding=1), nn.Conv2d(32, 16, 3, padding=1)])
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for conv in self.down:
            x = F.relu(conv(x))
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = F.relu(self.middle(x))
        for up, conv in zip(self.up, self.after, strict=True):
            x, other = up(x), kept.pop()
            gap = [other.shape[2] - x.shape[2], other.shape[3] - x.shape[3]]
            x = F.pad(x, [gap[1] // 2, gap[1] - gap[1] // 2, gap[0] // 2, gap[0] - gap[0] // 2])
            x = F.relu(conv(torch.cat([other, x], 1)))
        return self.last(x)


class PixelShuffle(nn.Module):
    """Super-resolution: space to depth, some layers, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(12, 32, 3, padding=1), nn.Conv2d(32, 12, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        y = x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, 4 * c, h // 2, w // 2)
        y = self.second(F.relu(self.first(y)))
        y = y.reshape(b, c, 2, 2, h // 2, w // 2).permute(0, 1, 4, 2, 5, 3).reshape(b, c, h, w)
        return y + x


class DetectionHead(nn.Module):
    """RetinaNet's: classes and boxes of several levels, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = nn.ModuleList(nn.Conv2d(n, 3 * 20, 3, padding=1) for n in (32, 64, 128))
        self.boxes = nn.ModuleList(nn.Conv2d(n, 3 * 4, 3, padding=1) for n in (32, 64, 128))

    def forward(self, *levels: Tensor) -> tuple[Tensor, Tensor]:
        found = []
        for heads, width in ((self.classes, 20), (self.boxes, 4)):
            parts = []
            for head, x in zip(heads, levels, strict=True):
                y = head(x)
                b, _, h, w = y.shape
                parts.append(y.view(b, -1, width, h, w).permute(0, 3, 4, 1, 2).reshape(b, -1, width))
            found.append(torch.cat(parts, 1))
        return found[0].sigmoid(), found[1]


class YoloHead(nn.Module):
    """YOLOv5's beginning, which takes every second pixel, and its end."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(12, 32, 3, padding=1), nn.Conv2d(32, 3 * 25, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
        y = self.last(F.silu(self.first(x)))
        b, _, h, w = y.shape
        y = y.view(b, 3, 25, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        place, size, rest = y.split((2, 2, 21), 4)
        return torch.cat([place * 2, (size * 2) ** 2, rest], 4).view(b, -1, 25)


class Mixer(nn.Module):
    """MLP-Mixer: patches, mixed along tokens and channels."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 8, 8)
        self.norms = nn.ModuleList(nn.LayerNorm(64) for _ in range(4))
        self.tokens = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
        self.channels = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        for k in range(2):
            x = x + F.gelu(self.tokens[k](self.norms[2 * k](x).transpose(1, 2))).transpose(1, 2)
            x = x + F.gelu(self.channels[k](self.norms[2 * k + 1](x)))
        return x.mean(1)


class ShuffleUnit(nn.Module):
    """ShuffleNet V2's: half of the channels pass, and both halves are shuffled."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1),
            nn.ReLU(),
            nn.Conv2d(half, half, 3, padding=1, groups=half),
            nn.Conv2d(half, half, 1),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, 1)
        y = torch.cat((first, self.branch(second)), 1)
        b, c, h, w = y.shape
        return y.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


class ShuffleNet(nn.Module):
    """Three units."""

    def __init__(self) -> None:
        super().__init__()
        self.units = nn.Sequential(*(ShuffleUnit(24) for _ in range(3)))
        self.last = nn.Conv2d(24, 32, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.units(x)).mean((2, 3))
