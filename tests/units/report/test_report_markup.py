"""Markup, words and scales: the small parts of the report."""

from itertools import pairwise

import pytest

from interlude.report.charts import Scale, difference_strip, thinned
from interlude.report.markup import Html, tag
from interlude.report.words import MINUS, amount, capital, duration, percent, plural, points, sureness


def test_text_is_escaped_and_markup_is_not():
    assert str(tag("p", "a < b & c", Html("<b>d</b>"))) == "<p>a &lt; b &amp; c<b>d</b></p>"


def test_an_attribute_cannot_be_left_by_a_quote():
    assert str(tag("img", alt='" onload="alert(1)')) == '<img alt="&quot; onload=&quot;alert(1)">'


def test_an_attribute_without_a_value_is_left_out():
    assert (
        str(tag("a", class_=None, hidden=False, open=True, stroke_width=2)) == '<a open stroke-width="2"></a>'
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (percent(91.24), "91.2 %"),
        (points(-0.84), f"{MINUS}0.8"),
        (points(6.1), "+6.1"),
        (sureness(0.9999), "> 99 %"),
        (sureness(0.31), "31 %"),
        (plural(1, "class"), "1 class"),
        (plural(2000, "class"), "2,000 classes"),
        (amount(0.00042), f"4.2e{MINUS}4"),
        (amount(12500), "12,500"),
        (duration(75), "1 min 15 s"),
        (duration(3725), "1 h 2 min"),
        (capital("they helped"), "They helped."),
        (capital(""), ""),
    ],
)
def test_figures_are_said_as_people_say_them(said, expected):
    assert said.replace("\u00a0", " ") == expected


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-2.9, 1.3), (62, 97.5), (0, 0.0037), (0, 124_000)])
def test_ticks_are_few_round_and_within_the_scale(low, high):
    ticks = Scale(low, high, 0, 100).ticks()
    assert 2 <= len(ticks) <= 6
    assert all(low <= tick <= high for tick in ticks)
    steps = {round((b - a) / high, 6) for a, b in pairwise(ticks)}
    assert len(steps) == 1
    assert all(float(f"{tick:.3g}") == tick for tick in ticks)


def test_a_scale_of_one_value_does_not_divide_by_nothing():
    assert Scale(5, 5, 0, 100)(5) == 0


def test_a_long_curve_is_thinned_to_means_and_keeps_its_end():
    curve = [(float(step), float(step % 2)) for step in range(10_000)]
    thin = thinned(curve)
    assert len(thin) <= 240
    assert thin[-1] == curve[-1]
    assert all(value == pytest.approx(0.5, abs=0.02) for _, value in thin[:-1]), "the mean of zeros and ones"


def test_a_short_curve_stays_as_it_is():
    assert thinned([(1, 2), (3, 4)]) == [(1, 2), (3, 4)]


def test_the_line_of_no_difference_lies_left_of_a_gain():
    drawn = str(difference_strip({"mean": 6.0, "low": 3.0, "high": 9.0}))
    zero = float(drawn.partition('class="zero"')[0].rpartition('x1="')[2].partition("%")[0])
    low = float(drawn.partition('class="whisker loud"')[2].partition('x1="')[2].partition("%")[0])
    dot = float(drawn.partition("<circle")[2].partition('cx="')[2].partition("%")[0])
    assert 0 < zero < low < dot < 100
    assert (dot - zero) == pytest.approx(2 * (low - zero), rel=0.01), "6 is twice as far from 0 as 3"
