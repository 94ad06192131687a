"""Plots: every kind is drawn from lines alone; labels do not lie on each other."""

from dataclasses import replace
from itertools import pairwise

import pytest
from made_up_lines import line

from interlude.bench.plots import DRAWERS, mean_curve, write_plots
from interlude.bench.ranks_plot import cliques
from interlude.bench.style import spread_out, within
from interlude.bench.suites import load_suite
from interlude.errors import UserError

KINDS = list(DRAWERS)


def lines_for(suite):
    rows = [("supervised", {}), ("interlude", {}), *((f"alpha {a}", {"method.alpha": a}) for a in (0.1, 0.2))]
    return [
        line(row, column, seed, 5.0 + seed + len(row), variant=variant)
        for row, variant in rows
        for column in suite.columns
        for seed in (0, 1)
    ]


@pytest.fixture
def suite(suite_of):
    alpha = {"method": "interlude", "each": {"method.alpha": [0.1, 0.2]}}
    return suite_of(
        rows={"supervised": None, "interlude": None, "alpha": alpha}, plots=KINDS, highlight=["interlude"]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_as_png_and_svg(suite, tmp_path, kind):
    paths = write_plots(replace(suite, plots=(kind,)), lines_for(suite), tmp_path)
    assert [path.name for path in paths] == [f"tiny-mini-{kind}.png", f"tiny-mini-{kind}.svg"]
    assert all(path.stat().st_size > 3000 for path in paths)


def test_the_same_lines_give_the_same_files(suite_of, tmp_path):
    suite = suite_of(plots=["errors"])
    once = [path.read_bytes() for path in write_plots(suite, lines_for(suite), tmp_path / "a")]
    assert once == [path.read_bytes() for path in write_plots(suite, lines_for(suite), tmp_path / "b")]


def test_a_plot_names_its_rows(suite_of, tmp_path):
    suite = suite_of(plots=["errors"])
    svg = write_plots(suite, lines_for(suite), tmp_path)[1].read_text()
    assert ">supervised<" in svg
    assert ">interlude<" in svg


def test_what_has_nothing_to_show_is_left_out(suite_of, tmp_path):
    suite = suite_of(plots=["deltas", "options", "curves"])
    lines = [line("supervised", "digits@40", 0, 5.0, traces={}, curve=None)]
    assert write_plots(suite, lines, tmp_path) == []


def test_an_unknown_plot_is_told(suite_of, tmp_path):
    suite = suite_of(plots=["erors"])
    with pytest.raises(UserError, match="did you mean 'errors'"):
        write_plots(suite, lines_for(suite), tmp_path)


def test_walltime_is_drawn_too(tmp_path):
    suite = load_suite("walltime", "mini")
    lines = [
        {"row": row, "column": "cifar10", "ratio": ratio, "ratio_quartiles": [ratio, ratio]}
        for row, ratio in (("fixmatch", 1.0), ("interlude", 1.2))
    ]
    assert [path.name for path in write_plots(suite, lines, tmp_path)] == [
        "walltime-mini.png",
        "walltime-mini.svg",
    ]


@pytest.mark.parametrize("positions", [[0.0, 0.1, 0.2, 5.0], [1, 1, 1], [3, 2, 1], [0.0]])
def test_labels_are_moved_apart_in_their_order(positions):
    placed = spread_out(positions, 1.0)
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    gaps = [placed[later] - placed[earlier] for earlier, later in pairwise(order)]
    assert all(gap >= 1.0 - 1e-9 for gap in gaps)
    assert sum(placed) == pytest.approx(sum(positions)), (
        "they move as little as needed, around where they were"
    )


def test_labels_that_have_room_stay_where_they_are():
    assert spread_out([0.0, 2.0, 5.0], 1.0) == [0.0, 2.0, 5.0]


def test_labels_are_kept_inside_the_axis_if_they_fit():
    assert within([-1.0, 0.0], 0.0, 10.0) == [0.0, 1.0]
    assert within([9.5, 11.0], 0.0, 10.0) == [8.5, 10.0]
    assert within([-2.0, 12.0], 0.0, 10.0) == [-2.0, 12.0]


def test_bars_join_the_longest_runs_of_ranks_within_the_difference():
    assert cliques([1.0, 1.5, 3.0, 3.2], 1.6) == [(1.0, 1.5), (1.5, 3.0), (3.0, 3.2)]
    assert cliques([1.0, 2.0, 3.0], 0.5) == []
    assert cliques([1.0, 2.0, 3.0], 5) == [(1.0, 3.0)]


def test_curves_are_averaged_where_all_have_a_value():
    steps, means, lows, highs = mean_curve([([1, 2, 3], [None, 4.0, 2.0]), ([2, 3], [6.0, 4.0]), None])
    assert (steps, means, lows, highs) == ([2, 3], [5.0, 3.0], [4.0, 2.0], [6.0, 4.0])
