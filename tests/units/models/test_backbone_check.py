"""check_backbone finds what is wrong with a backbone."""

import pytest
import torch
from torch import nn

from interlude.models import Backbone
from interlude.models.check import check_backbone


class Good(Backbone):
    """The least that works."""

    num_features = 4

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 4, 3)

    def forward(self, images, midway=None):
        maps = self.first(images)
        maps = maps if midway is None else midway(maps)
        return self.last(maps.relu()).mean((2, 3))


def test_a_good_backbone_passes_and_is_left_alone():
    backbone = Good().train()
    before = [x.clone() for x in backbone.parameters()]
    check_backbone(backbone)
    assert backbone.training
    assert all(torch.equal(x, y) for x, y in zip(before, backbone.parameters(), strict=True))
    assert all(x.grad is None for x in backbone.parameters())


class WrongWidth(Good):
    num_features = 3


class ForgetsMidway(Good):
    def forward(self, images, midway=None):
        return super().forward(images)


class CallsTwice(Good):
    def forward(self, images, midway=None):
        return super().forward(images, midway=midway and (lambda maps: midway(midway(maps))))


class RowsLast(Good):
    def forward(self, images, midway=None):
        def turned(maps):
            return midway(maps.movedim(0, -1)).movedim(-1, 0)

        return super().forward(images, midway=midway and turned)


class IgnoresMidway(Good):
    def forward(self, images, midway=None):
        def dropped(maps):
            midway(maps)
            return maps

        return super().forward(images, midway=midway and dropped)


class RoundsWithMidway(Good):
    def forward(self, images, midway=None):
        return super().forward(images, midway=midway and (lambda maps: midway(maps) + 1))


class FusesAlways(Good):
    def forward(self, images, midway=None):
        z = super().forward(images, midway=midway)
        return 0.9 * z + 0.1 * z.roll(-1, 0)


class Random(Good):
    def forward(self, images, midway=None):
        return super().forward(images, midway=midway) + 1e-6 * torch.rand(())


class Counts(Good):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, images, midway=None):
        self.calls += 1
        return super().forward(images, midway=midway)


class ReadsMemory(Good):
    def forward(self, images, midway=None):
        z = super().forward(images, midway=midway)
        return z + images.is_contiguous(memory_format=torch.channels_last)


class Idle(Good):
    def __init__(self):
        super().__init__()
        self.idle = nn.Parameter(torch.ones(2))


class CalledUntrained(Good):
    untrained = frozenset({"first.bias"})


class SomeLayers(Good):
    def layers(self):
        return {"first.weight": 0}


class StrangeToken(Good):
    def undecayed(self):
        return {"token"}


class CentersInTraining(Good):
    def forward(self, images, midway=None):
        z = super().forward(images, midway=midway)
        return z - z.mean(0) if self.training else z


class KeepsState(Good):
    def __init__(self):
        super().__init__()
        self.hidden = torch.zeros(4)

    def forward(self, images, midway=None):
        return super().forward(images, midway=midway) + self.hidden

    def __deepcopy__(self, memo):
        copy = type(self)()
        copy.load_state_dict(self.state_dict())
        copy.hidden = self.hidden + 1
        return copy


def test_a_backbone_that_says_it_mixes_rows_may_do_so():
    class Says(CentersInTraining):
        def mixes_rows(self):
            return True

    check_backbone(Says())


@pytest.mark.parametrize(
    ("backbone", "complaint"),
    [
        (WrongWidth, "not .rows, num_features. = .3, 3."),
        (ForgetsMidway, "called 0 times"),
        (CallsTwice, "called 2 times"),
        (RowsLast, "rows of the batch on the first axis"),
        (IgnoresMidway, "ignores what midway returns"),
        (RoundsWithMidway, "midway=identity changes the embedding"),
        (FusesAlways, "depends on its batch mates"),
        (Random, "differ|changes the embedding"),
        (Counts, "changed the buffers .'calls'."),
        (ReadsMemory, "channels-last"),
        (Idle, "no gradient reaches .'idle'."),
        (CalledUntrained, "gradient reaches `untrained` .'first.bias'."),
        (SomeLayers, "layers.. names some"),
        (StrangeToken, "undecayed.. has names"),
        (CentersInTraining, "in training .* depends on its batch mates, but mixes_rows"),
        (KeepsState, "does not hold all of the network"),
    ],
)
def test_a_broken_backbone_is_found_out(backbone, complaint):
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match=complaint):
        check_backbone(backbone())
