"""A fit keeps to the views and the pool that its extraction reached, now and when it goes on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from interlude.data import Images, Split
from interlude.data.choose import choose_some
from interlude.data.split import Groups
from interlude.features import in_time
from interlude.features.extract import Extractor
from interlude.features.options import FeaturesConfig
from interlude.fitting.options import FitOptions
from interlude.fitting.request import Request
from interlude.fitting.vectors import extracted
from interlude.methods.fixmatch import FixMatch
from interlude.models import ModelConfig
from interlude.run import Run
from interlude.testing import toy_config, toy_split

POOL = 18
LABELED = [3, 1, 12]  # rows of the pool


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "vectors"))
    monkeypatch.setattr(in_time, "PORTION", 4)


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    (tmp_path / "run").mkdir()
    return Request(tmp_path, FitOptions(out=str(tmp_path / "run"), quiet=True))


def config(weak: int = 2, strong: int = 3):
    model = ModelConfig(name="cnn", frozen=True, head="linear")
    return replace(toy_config(FixMatch), model=model, features=FeaturesConfig(weak=weak, strong=strong))


def rows_of(split: Split) -> list[int]:
    return split.unlabeled.rows.tolist()


def split_with_rows() -> Split:
    """Labeled images that are in the pool too, as a folder has them."""
    split = toy_split()
    all_rows = torch.arange(POOL)
    images = Images(split.unlabeled.take(all_rows), split.unlabeled.labels_of())
    return replace(split, labeled=images.subset(torch.tensor(LABELED)), unlabeled=images.subset(all_rows))


def test_in_time_nothing_is_cut_and_nothing_told(request_) -> None:
    split = split_with_rows()
    cfg, same, told = extracted(request_, config(), split, lambda: 1e9)
    assert (cfg.fingerprint(), told) == (config().fingerprint(), [])
    assert same is split


def test_out_of_time_the_settings_say_what_is_left_and_a_person_hears_why(request_) -> None:
    cfg, _, (views, pool) = extracted(request_, config(), split_with_rows(), lambda: 0.0)
    assert (cfg.features.weak, cfg.features.strong, cfg.data.pool) == (1, 1, 3 + 4)
    assert (views.value, pool.value) == ("1 weak and 1 strong", "7 of 18")
    assert views.reason.startswith("1 of 2 weak and 2 of 3 strong views are left out to keep the budget")


def test_the_smaller_pool_is_the_one_that_the_settings_would_draw(request_) -> None:
    cfg, split, _ = extracted(request_, config(), split_with_rows(), lambda: 0.0)
    drawn = choose_some(torch.arange(POOL), cfg.data.pool, always=torch.tensor(LABELED), total=POOL)
    assert rows_of(split) == drawn.tolist() == list(split.record.pool)
    assert split.record.split_hash != split_with_rows().record.split_hash


def test_groups_go_with_the_images_of_the_smaller_pool(request_) -> None:
    whole = split_with_rows()
    numbers = torch.arange(POOL) * 10

    groups = Groups(numbers[LABELED], numbers)
    _, split, _ = extracted(request_, config(), replace(whole, groups=groups), lambda: 0.0)
    assert split.groups.unlabeled.tolist() == [10 * row for row in rows_of(split)]


def test_a_fit_that_goes_on_keeps_what_it_had_settled_on(request_, monkeypatch) -> None:
    first = extracted(request_, config(), split_with_rows(), lambda: 0.0)
    monkeypatch.setattr(Extractor, "_run", lambda *args: pytest.fail("extracted again"))
    again = extracted(request_, config(), split_with_rows(), lambda: 1e9)
    for cfg, split, told in (first, again):
        assert (cfg.features, cfg.data.pool) == (FeaturesConfig(weak=1, strong=1), 7)
        assert rows_of(split) == rows_of(first[1])
        assert told == first[2]


def test_a_fit_that_goes_on_without_its_cache_makes_the_same_vectors_again(
    request_, monkeypatch, tmp_path
) -> None:
    extracted(request_, config(), split_with_rows(), lambda: 0.0)
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "elsewhere"))
    cfg, split, _ = extracted(request_, config(), split_with_rows(), lambda: 0.0)
    run = Run(cfg, split, FixMatch)
    run.prepare()
    assert run.vectors.extractor.num_extracted == 0, "all were there"


def test_what_was_reached_is_written_down(request_) -> None:
    extracted(request_, config(), split_with_rows(), lambda: 0.0)
    assert json.loads((request_.out / "plan.json").read_text())["extracted"] == {
        "weak": 1,
        "strong": 1,
        "pool": 7,
    }


def test_the_runs_that_follow_extract_nothing_more(request_) -> None:
    cfg, split, _ = extracted(request_, config(), split_with_rows(), lambda: 0.0)
    run = Run(cfg, split, FixMatch)
    run.prepare()
    assert run.vectors.extractor.num_extracted == 0
