"""Reference side: the Wide ResNet of the authors' release and of USB, written by us from a description.

NCHW, LeakyReLU 0.1 in place, BatchNorm momentum 0.001, and the quirk that both share: in the first unit of
the later stages the normalised, activated input is computed and thrown away. The authors fuse neighbouring
rows before the last stage, by a copy, a concatenation, two products and a sum.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Unit(nn.Module):
    """A pre-activation residual unit."""

    def __init__(self, width_in: int, width_out: int, stride: int, *, activate_first: bool) -> None:
        super().__init__()
        self.activate_first, self.same = activate_first, width_in == width_out
        self.bn1 = nn.BatchNorm2d(width_in, momentum=0.001)
        self.relu1 = nn.LeakyReLU(0.1, inplace=True)
        self.conv1 = nn.Conv2d(width_in, width_out, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width_out, momentum=0.001)
        self.relu2 = nn.LeakyReLU(0.1, inplace=True)
        self.conv2 = nn.Conv2d(width_out, width_out, 3, 1, 1, bias=False)
        self.shortcut = None if self.same else nn.Conv2d(width_in, width_out, 1, stride, 0, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.same and self.activate_first:
            x = self.relu1(self.bn1(x))
        else:
            activated = self.relu1(self.bn1(x))
        inner = self.relu2(self.bn2(self.conv1(activated if self.same else x)))
        return torch.add(x if self.shortcut is None else self.shortcut(x), self.conv2(inner))


class WideResNet(nn.Module):
    """Depth 6n + 4; `fusion` is the share of the next row, None for a network that does not fuse."""

    def __init__(self, depth: int, factor: int, num_classes: int, *, fusion: float | None = None) -> None:
        super().__init__()
        widths, units = [16, 16 * factor, 32 * factor, 64 * factor], (depth - 4) // 6
        self.fusion = fusion
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.block1, self.block2, self.block3 = (
            nn.Sequential(
                Unit(widths[i], widths[i + 1], 1 if i == 0 else 2, activate_first=i == 0),
                *(Unit(widths[i + 1], widths[i + 1], 1, activate_first=i == 0) for _ in range(units - 1)),
            )
            for i in range(3)
        )
        self.bn1 = nn.BatchNorm2d(widths[3], momentum=0.001)
        self.relu = nn.LeakyReLU(0.1, inplace=True)
        self.fc = nn.Linear(widths[3], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="leaky_relu")

    def forward(self, images: Tensor) -> Tensor:
        x = self.block2(self.block1(self.conv1(images)))
        if self.fusion is not None:
            x = fuse(x, self.fusion)
        x = self.relu(self.bn1(self.block3(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).view(len(x), -1))


def fuse(x: Tensor, share: float) -> Tensor:
    """Every row with a share of the next, as the release computes it."""
    following = x.clone()
    following = torch.cat([following[1:], following[:1]])
    return (1 - share) * x + share * following
