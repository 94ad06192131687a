"""What fit chooses, and how it says why."""

from pathlib import Path

import pytest

from interlude.errors import UserError
from interlude.fitting import choose as choosing
from interlude.fitting.choose import Facts, choose
from interlude.fitting.options import FitOptions
from interlude.fitting.pretrained import Found

PHOTOS = Facts(side=200, grey=False)


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch):
    """Says whether the pretrained weights can be had."""

    def say(available: bool) -> None:
        found = Found(available, "the hub said so")
        monkeypatch.setattr(choosing, "find_weights", lambda model, file: found)

    say(True)
    return say


def values(plan) -> dict[str, str]:
    return {choice.name: choice.value for choice in plan.choices}


def test_a_pretrained_network_is_taken_where_it_can_be_had(weights) -> None:
    plan = choose(FitOptions(), PHOTOS)
    assert plan.lane == "features"
    assert plan.common["model"]["pretrained"] is True
    assert values(plan)["network"].startswith("timm:")


def test_without_weights_it_trains_from_scratch_and_says_what_would_be_better(weights) -> None:
    weights(False)
    plan = choose(FitOptions(), PHOTOS)
    assert plan.lane == "scratch"
    lane = next(choice for choice in plan.choices if choice.name == "lane")
    assert "would do better, but the hub said so" in lane.reason


def test_whoever_insists_on_a_network_hears_that_it_cannot_be_had(weights) -> None:
    weights(False)
    with pytest.raises(UserError, match="--weights FILE"):
        choose(FitOptions(lane="features"), PHOTOS)


def test_every_choice_has_a_reason(weights) -> None:
    for facts in (PHOTOS, Facts(28, True)):
        for choice in choose(FitOptions(), facts).choices:
            assert choice.reason, choice


def test_what_the_user_says_is_not_overruled(weights) -> None:
    plan = choose(FitOptions(lane="scratch", method="fixmatch", image_size=40, augment="digits"), PHOTOS)
    assert plan.method == {"name": "fixmatch"}
    assert plan.common["data"]["image_size"] == 40
    assert plan.common["augment"]["policy"] == "digits"


def test_grey_images_are_not_mirrored_from_scratch(weights) -> None:
    plan = choose(FitOptions(lane="scratch"), Facts(28, True))
    assert plan.common["augment"]["policy"] == "grayscale-medical"


@pytest.mark.parametrize(("side", "expected"), [(8, 16), (28, 24), (33, 32), (500, 64)])
def test_small_images_are_not_blown_up_and_large_ones_shrunk_from_scratch(side, expected, weights) -> None:
    assert choose(FitOptions(lane="scratch"), Facts(side, False)).common["data"]["image_size"] == expected


def test_a_file_of_weights_replaces_the_download(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    file.write_bytes(b"")
    model = choose(FitOptions(weights=str(file)), PHOTOS).common["model"]
    assert (model["weights"], model["pretrained"]) == (str(file), False)


def test_a_missing_file_of_weights_is_an_error() -> None:
    with pytest.raises(UserError, match="no file of weights"):
        choose(FitOptions(weights="nowhere.safetensors"), PHOTOS)


def test_a_network_that_is_not_known_is_refused_at_once(weights) -> None:
    with pytest.raises(UserError, match="unknown model 'cnm'; did you mean 'cnn'"):
        choose(FitOptions(lane="scratch", model="cnm"), PHOTOS)


@pytest.mark.parametrize(("lane", "page"), [("features", "laptop"), ("scratch", "quick")])
def test_the_reason_for_the_method_names_a_page_that_there_is(weights, lane, page) -> None:
    chosen = next(
        choice for choice in choose(FitOptions(lane=lane), PHOTOS).choices if choice.name == "method"
    )
    assert f"docs/{page}.md" in chosen.reason
    assert (Path(__file__).parents[3] / "docs" / f"{page}.md").is_file()
