"""Wide residual networks as the authors of InterLUDE released them (Zagoruyko and Komodakis, 2016)."""

import re
from itertools import pairwise

from torch import Tensor, nn

from interlude.errors import UserError
from interlude.models.classifier import Backbone, Midway
from interlude.models.layers import activated, branched
from interlude.models.pooling import global_average
from interlude.models.registry import backbone, family
from interlude.models.winograd import Convolution

NORM_MOMENTUM = 0.001


def conv(width_in: int, width_out: int, *, size: int = 3, stride: int = 1) -> nn.Conv2d:
    if size == 3 and stride == 1:
        layer: nn.Conv2d = Convolution(width_in, width_out)
    else:
        layer = nn.Conv2d(width_in, width_out, size, stride=stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="leaky_relu")
    return layer


def norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, momentum=NORM_MOMENTUM)


class Unit(nn.Module):
    """Two convolutions with pre-activation, beside a shortcut.

    `activated` matters where the width changes and says which branches see the normalised, activated input:
    "both" (first stage), "main" (the TensorFlow original) or "none" (what every PyTorch comparator does: the
    result of `norm1` is thrown away there, so we do not compute it, and its weights never move).
    """

    def __init__(self, width_in: int, width_out: int, *, stride: int, activated: str) -> None:
        super().__init__()
        self.activated = activated
        self.norm1 = norm(width_in)
        self.conv1 = conv(width_in, width_out, stride=stride)
        self.norm2 = norm(width_out)
        self.conv2 = conv(width_out, width_out)
        self.shortcut = None if width_in == width_out else conv(width_in, width_out, size=1)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        main: Tensor  # what is added is added in its place: no convolution needs its own result again
        if self.shortcut is None:
            main = self.conv2(self.conv1(x, norm=self.norm1), norm=self.norm2)
            return main.add_(x)
        if self.activated == "both":
            x = activated(self.norm1, x)
        x, beside = branched(x, self.stride)
        main = self.conv1(activated(self.norm1, x) if self.activated == "main" else x)
        main = self.conv2(main, norm=self.norm2)
        return main.add_(self.shortcut(beside))


class WideResNet(Backbone):
    """Stem, three or more stages of `units` units each, norm, activation, global average."""

    def __init__(
        self, *, channels: int, widths: list[int], strides: list[int], units: int, standard_preact: bool
    ) -> None:
        super().__init__()
        later = "main" if standard_preact else "none"
        self.stem = conv(channels, widths[0])
        self.stages = nn.ModuleList(
            _stage(width_in, width_out, stride=stride, units=units, activated="both" if i == 0 else later)
            for i, ((width_in, width_out), stride) in enumerate(zip(pairwise(widths), strides, strict=True))
        )
        self.norm = norm(widths[-1])
        self.num_features = widths[-1]
        self.untrained = frozenset(
            f"{name}.norm1.{part}"
            for name, unit in self.named_modules()
            if isinstance(unit, Unit) and unit.shortcut is not None and unit.activated == "none"
            for part in ("weight", "bias")
        )

    def forward(self, images: Tensor, midway: Midway | None = None) -> Tensor:
        x = self.stem(images)
        *earlier, last = self.stages
        for stage in earlier:
            x = stage(x)
        if midway is not None:
            x = midway(x)
        return global_average(activated(self.norm, last(x)))


def _stage(width_in: int, width_out: int, *, stride: int, units: int, activated: str) -> nn.Sequential:
    first = Unit(width_in, width_out, stride=stride, activated=activated)
    rest = [Unit(width_out, width_out, stride=1, activated=activated) for _ in range(units - 1)]
    return nn.Sequential(first, *rest)


@backbone("wrn-10-1", "the smallest Wide ResNet")
@backbone("wrn-16-1", "a small Wide ResNet")
@backbone("wrn-28-2", "Wide ResNet, the paper's network for CIFAR-10")
@backbone("wrn-28-8", "Wide ResNet, the paper's network for CIFAR-100")
@family(r"wrn-\d+-\d+", "wrn-D-K", "any Wide ResNet of depth D = 6n+4 and width factor K")
def wide_resnet(
    name: str, *, channels: int, image_size: tuple[int, int], standard_preact: bool = False
) -> Backbone:
    """The usual three stages, of widths 16K, 32K and 64K."""
    depth, factor = (int(number) for number in re.findall(r"\d+", name))
    if depth < 10 or (depth - 4) % 6 or factor < 1:
        raise UserError(
            f"unknown model {name!r}; in wrn-D-K the depth D is 6n+4 (10, 16, 22, 28, ...) and K >= 1"
        )
    return WideResNet(
        channels=channels,
        widths=[16, 16 * factor, 32 * factor, 64 * factor],
        strides=[1, 2, 2],
        units=(depth - 4) // 6,
        standard_preact=standard_preact,
    )


@backbone("wrn-37-2", "Wide ResNet of four stages, the paper's network for STL-10 (96 px)")
@backbone("wrn-28-2-4stage", "Wide ResNet of four stages, the paper's network for Heart2Heart (112 px)")
def wide_resnet_of_four_stages(
    name: str, *, channels: int, image_size: tuple[int, int], standard_preact: bool = False
) -> Backbone:
    """A fourth stage of width 256; the network for STL-10 also halves the map in the first."""
    return WideResNet(
        channels=channels,
        widths=[16, 32, 64, 128, 256],
        strides=[2 if name == "wrn-37-2" else 1, 2, 2, 2],
        units=4,
        standard_preact=standard_preact,
    )
