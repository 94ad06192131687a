"""The reference sides of the speed benchmarks do the work that ours does; the table shows what was found."""

import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from interlude import augment, models
from interlude.models import ModelConfig

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "speed"))
import exactness
import measure
import ours
import reference_network
import reference_pillow
import reference_steps
import run as benchmarks
import table


def measured(name: str, *values: float) -> dict:
    return measure.row(name, values or (29.0, 31.4, 33.0), conditions="1 thread")


@pytest.mark.parametrize("size", [32, 96])
def test_the_reference_pipeline_makes_the_pixels_that_ours_makes(size):
    strong = augment.build()["strong"]
    images = ours.pixels(64, size)
    draw = strong.draw(64, torch.Generator().manual_seed(0))
    assert torch.equal(exactness.pillow_views(images, draw), strong.apply(images, draw))


@pytest.mark.parametrize("strong", [reference_pillow.AuthorsRandAugment(), reference_pillow.UsbRandAugment()])
def test_a_reference_pipeline_ends_with_a_normalised_batch(strong):
    pipeline = reference_pillow.Pipeline(32, strong)
    weak, strong_views = reference_pillow.views(ours.pictures(6, 32), range(6), pipeline)
    for views in (weak, strong_views):
        assert views.shape == (6, 3, 32, 32)
        assert views.dtype == torch.float32
        assert -2.2 < float(views.min()) < 0 < float(views.max()) < 2.3


@pytest.mark.parametrize(("depth", "factor"), [(10, 1), (28, 2)])
def test_the_reference_network_has_our_parameters_and_our_work(depth, factor):
    theirs = reference_network.WideResNet(depth, factor, 10)
    mine = models.build(
        ModelConfig(name=f"wrn-{depth}-{factor}"), num_classes=10, channels=3, image_size=(32, 32)
    )
    images = torch.rand(2, 3, 32, 32)
    assert sum(p.numel() for p in theirs.parameters()) == sum(p.numel() for p in mine.parameters())
    assert flops(theirs, images) == flops(mine, images)


def flops(network: torch.nn.Module, images: torch.Tensor) -> int:
    with FlopCounterMode(display=False) as counter:
        network(images).sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("make", [reference_steps.AuthorsStep, reference_steps.UsbStep])
def test_a_reference_step_moves_its_weights_and_their_average(make):
    step = make(ours.pictures(4, 32), ours.pictures(8, 32), batch=2, mu=2, net=(10, 1))
    average = getattr(step, "average", None) or step.ema.average
    before = [network.fc.weight.clone() for network in (step.model, average)]
    step()
    after = [network.fc.weight for network in (step.model, average)]
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert (after[1] - before[1]).norm() < 0.01 * (after[0] - before[0]).norm()


def test_the_authors_fusion_is_a_share_of_the_next_row():
    x = torch.rand(5, 2, 3, 3)
    torch.testing.assert_close(
        reference_network.fuse(x, 0.1), torch.stack([0.9 * x[i] + 0.1 * x[(i + 1) % 5] for i in range(5)])
    )


def test_the_table_says_which_targets_are_met():
    shown = table.render([measured("augment-32-torch"), measured("pool", 1.2, 1.3, 1.4)])
    _, _, first, second = shown.splitlines()
    assert first.endswith("| 34 x | >= 30 x | 31.4 x | 30.2 to 32.2 (3) | yes |")
    assert second.endswith("| 1.0 x | <= 1.1 x | 1.3 x | 1.25 to 1.35 (3) | no |")


def test_rows_without_a_target_stand_in_a_table_of_their_own():
    first, second = table.render([measured("ema-usb"), measured("augment-32-kornia")]).split("\n\n")
    assert "kornia" not in first
    assert second.splitlines()[2].endswith("| 8.2 x | 31.4 x | 30.2 to 32.2 (3) |")


def test_a_fresh_row_replaces_the_one_measured_before():
    before = [measured("ema-usb", 1.0), measured("augment-32-torch")]
    rows = table.merged(before, [measured("ema-usb", 2.0)])
    assert [row["row"] for row in rows] == ["augment-32-torch", "ema-usb"]
    assert rows[1]["median"] == 2.0


def test_without_results_the_table_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path / "speed.json")
    assert table.render(table.read()["rows"]) == "(nothing is measured yet)"


def test_results_are_read_as_they_were_written(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path / "results" / "speed.json")
    content = {"rows": [measured("pool")], **benchmarks.about()}
    benchmarks.write(content)
    assert table.read() == content


def test_every_row_of_the_results_is_known():
    assert {row["row"] for row in table.read()["rows"]} <= table.ROWS.keys()
