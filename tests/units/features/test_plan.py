"""What a budget allows: input size and realisations, each with its reason."""

import pytest

from interlude.features.options import FeaturesConfig
from interlude.features.plan import FEWEST, MOST, SIZES, Pilot, Work, plan

POOL = Work(training=10_000, clean=20_000)


def planned(*, budget=8.0, pace=220.0, input_size=None, side=32, work=POOL, layer="the layer", **given):
    features = FeaturesConfig(budget=budget, **given)
    return plan(
        features, input_size, work=work, side=side, pilot=lambda size: Pilot(pace * (96 / size) ** 2, layer)
    )


def seconds(made, pace=220.0):
    vectors = POOL.vectors(made.features.weak, made.features.strong)
    return vectors / (pace * (96 / made.input_size) ** 2)


@pytest.mark.parametrize("budget", [5.0, 8.0, 20.0, 60.0])
def test_the_budget_is_kept_and_the_next_step_up_would_break_it(budget):
    made = planned(budget=budget)
    assert seconds(made) <= 60 * budget
    larger = [size for size in SIZES if made.input_size < size <= 128]
    if larger:
        least = POOL.vectors(*FEWEST) / (220.0 * (96 / larger[0]) ** 2)
        assert least > 60 * budget


def test_more_time_never_gives_less():
    plans = [planned(budget=minutes) for minutes in (1, 4, 8, 16, 64, 256)]
    sizes = [made.input_size for made in plans]
    assert sizes == sorted(sizes)
    assert (plans[-1].features.weak, plans[-1].features.strong) == MOST
    assert sizes[-1] == 128, "32 pixels are blown up four times at most"


def test_with_hardly_any_time_the_least_is_taken():
    made = planned(budget=0.01)
    assert (made.input_size, made.features.weak, made.features.strong) == (SIZES[0], *FEWEST)
    assert "the smallest size, though for none 0.01 minutes are enough" in made.reasons[0]


def test_what_is_given_is_kept():
    made = planned(weak=7, input_size=80)
    assert (made.features.weak, made.input_size) == (7, 80)
    assert planned(strong=3).features.strong == 3


def test_nothing_is_measured_where_nothing_is_open():
    def fail(size):
        raise AssertionError("measured")

    features = FeaturesConfig(weak=1, strong=1)
    made = plan(features, 96, work=POOL, side=32, pilot=fail)
    assert made == (features, 96, [])


def test_each_choice_is_one_line_with_its_reason():
    size, draws, layer = planned().reasons
    assert "220 images/s" in size
    assert "minutes" in draws
    assert layer == "the layer"
    assert "\n" not in size + draws + layer
    assert planned(input_size=96).reasons == [draws, layer]


def test_a_layer_that_is_given_needs_no_reason():
    assert len(planned(layer="").reasons) == 2


def test_large_images_are_not_shrunk_below_what_time_allows():
    assert planned(side=500, budget=1000).input_size == max(SIZES)
