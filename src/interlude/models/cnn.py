"""A small convolutional network that a laptop trains: 146 thousand weights, 10 MFLOP per 32x32 image."""

from torch import Tensor, nn

from interlude.models.classifier import Backbone, Midway
from interlude.models.layers import activated
from interlude.models.pooled import halved_convolution
from interlude.models.pooling import global_average
from interlude.models.registry import backbone

WIDTHS = (24, 32, 64, 64)
HALVED_FROM = 24  # pixels a side: the strokes of a 16-pixel digit do not survive a first step of two pixels


def conv(width_in: int, width_out: int, *, stride: int = 1) -> nn.Conv2d:
    layer = nn.Conv2d(width_in, width_out, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="leaky_relu")
    return layer


class Stage(nn.Module):
    """A convolution that changes the width, perhaps halves the map, and one more beside a shortcut."""

    def __init__(self, width_in: int, width_out: int, *, pools: bool) -> None:
        super().__init__()
        self.pools = pools
        self.conv1 = conv(width_in, width_out)
        self.norm1 = nn.BatchNorm2d(width_out)
        self.conv2 = conv(width_out, width_out)
        self.norm2 = nn.BatchNorm2d(width_out)

    def forward(self, x: Tensor) -> Tensor:
        # halved before the norm, which then has a quarter of the work
        x = halved_convolution(self.conv1, x) if self.pools else self.conv1(x)
        x = activated(self.norm1, x)
        return x + activated(self.norm2, self.conv2(x))


class SmallNet(Backbone):
    """A stem that halves all but tiny images, two stages that pool, one that does not, global average."""

    def __init__(self, *, channels: int, image_size: tuple[int, int]) -> None:
        super().__init__()
        stem, first, second, third = WIDTHS
        self.stem = conv(channels, stem, stride=2 if min(image_size) >= HALVED_FROM else 1)
        self.norm = nn.BatchNorm2d(stem)
        self.stages = nn.Sequential(Stage(stem, first, pools=True), Stage(first, second, pools=True))
        self.last = Stage(second, third, pools=False)
        self.num_features = third

    def forward(self, images: Tensor, midway: Midway | None = None) -> Tensor:
        x = self.stages(activated(self.norm, self.stem(images)))
        if midway is not None:
            x = midway(x)
        return global_average(self.last(x))


@backbone("cnn", "small and fast, for CPUs (146 thousand weights, 10 MFLOP at 32 px); the default")
def cnn(name: str, *, channels: int, image_size: tuple[int, int]) -> Backbone:
    """Takes images of any size."""
    return SmallNet(channels=channels, image_size=image_size)
