"""Estimates before a run, and the time of steps: on made-up images, without data."""

import pytest
from made_up_lines import line

from interlude.bench import check, pace, walltime
from interlude.bench.estimate import report
from interlude.bench.grid import Choice, expand
from interlude.bench.suites import load_suite, suite_names
from interlude.bench.view import last_step
from interlude.errors import UserError


@pytest.fixture
def cells(suite_of):
    """One cell of labels alone and one of InterLUDE: 16 and 16 * 2 * (1 + 3) images a step, 4 steps."""
    suite = suite_of()
    return suite, expand(suite, Choice(columns=["digits@40"], seeds=[0]))


def test_the_images_of_a_step_are_counted_as_the_method_makes_them(cells):
    _, (labels_only, interlude) = cells
    assert pace.views_per_step("supervised", labels_only.config) == 16
    assert pace.views_per_step("interlude", interlude.config) == 16 * 2 * (1 + 3)


def test_made_up_images_are_like_those_of_the_data(suite_of):
    suite = suite_of(columns={"stl10@40": None})
    split = pace.made_up(expand(suite, Choice(rows=["interlude"], seeds=[0]))[0].config)
    assert split.labeled.pixels.shape[1:] == (3, 96, 96)
    assert split.num_classes == 10
    assert len(set(split.labeled.labels_of().tolist())) == 10


PLANNED = [(name, "paper") for name in suite_names() if name != "walltime"]
PLANNED += [(name, "mini") for name, _ in PLANNED if name not in ("table2", "heart2heart")]


@pytest.mark.parametrize(("name", "scale"), PLANNED)
def test_every_column_of_a_suite_can_be_planned(name, scale):
    """What a real run sets, a ViT's rates by layer say, must not stop the made-up run that counts images."""
    suite = load_suite(name, scale)
    cells = expand(suite, Choice(rows=[next(reversed(suite.rows))], seeds=suite.seeds[:1]))
    plan = pace.plan(cells, pace.Pacer(pilot=False))
    assert len(plan) == len(cells) > 0
    assert all(images > 0 and pace_of_cell.seconds > 0 for _, images, pace_of_cell in plan)


def test_every_data_set_of_the_suites_has_its_shape():
    for name in ("table1", "table2", "heart2heart", "contamination"):
        data = {c.settings["data"].partition("@")[0] for c in load_suite(name, "paper").columns.values()}
        assert data <= set(pace.tabulated()["images"])


def test_every_network_of_the_recipes_has_its_pace():
    networks = {
        "cnn",
        "wrn-28-2",
        "wrn-28-8",
        "wrn-37-2",
        "wrn-28-2-4stage",
        "vit-small-2-32",
        "vit-base-16-96",
    }
    assert networks <= set(pace.tabulated()["images_per_second"])


def test_a_pilot_measures_each_method_and_network_once(cells, monkeypatch):
    _, (labels_only, interlude) = cells
    calls = []
    monkeypatch.setattr(pace, "time_a_step", lambda config: calls.append(config.batch) or (0.5, 0.001))
    pacer = pace.Pacer(pilot=True)
    assert pacer.pace(interlude.config) == pace.Pace(pytest.approx(0.128), "measured")
    assert pacer.pace(interlude.config).how == "measured"
    assert calls == [4, 16], "first a small batch; the full one, because that was quick"
    pacer.spent = pace.BUDGET
    assert pacer.pace(labels_only.config) == pace.Pace(pytest.approx(0.016), "scaled")


def test_without_a_pilot_the_table_is_asked(cells, monkeypatch):
    _, (_, interlude) = cells
    monkeypatch.setattr(
        pace, "tabulated", lambda: {"images": {"digits": [1, 16, 10]}, "images_per_second": {"cnn": 64}}
    )
    assert pace.Pacer(pilot=False).pace(interlude.config) == pace.Pace(2.0, "tabulated")


def test_a_real_pilot_takes_time(cells):
    _, (labels_only, _) = cells
    seconds, per_image = pace.time_a_step(labels_only.config)
    assert seconds > 0
    assert per_image == pytest.approx(seconds / 16)


def test_a_dry_run_prints_cells_steps_images_and_hours(cells, monkeypatch):
    suite, found = cells
    monkeypatch.setattr(pace.Pacer, "pace", lambda self, config: pace.Pace(900.0, "measured"))
    text = report(suite, found, found, jobs=2, pilot=True)
    table = [row.split() for row in text.splitlines()]
    assert ["interlude", "1", "4", "5.12e+02", "1.00"] in table  # 4 steps of 128 images, 900 seconds each
    assert ["in", "all", "2", "8", "5.76e+02", "2.00"] in table
    assert "about 1.0 hours with 2 side by side" in text
    assert "pace of 2 cells: measured by a few steps on this machine" in text


def test_steps_are_timed_in_turns_and_compared_round_by_round(suite_of, monkeypatch):
    suite = suite_of(
        kind="walltime",
        reference="supervised",
        rounds=3,
        seeds=[0],
        columns={"digits@40": {"config": "digits"}},
    )
    turns = []
    step = walltime.Runner.step

    def counted(self):
        turns.append(self.cell.row)
        step(self)
        self.cpu[-1] = {"supervised": 1.0, "interlude": 4.0}[self.cell.row] * len(self.cpu)

    monkeypatch.setattr(walltime.Runner, "step", counted)
    lines = list(walltime.measure(suite, expand(suite), threads=1, device="cpu"))
    assert turns == ["supervised", "interlude"] * 3
    assert {found["row"]: found["ratio"] for found in lines} == {"supervised": 1.0, "interlude": 4.0}
    text = walltime.markdown(suite, lines)
    assert "| interlude | 4.00 | 4.00 to 4.00 | 8 | 128 |" in text
    assert text.index("| supervised") < text.index("| interlude")


def test_a_reference_that_is_left_out_is_told(suite_of):
    suite = suite_of(kind="walltime", reference="supervised", rounds=1, seeds=[0])
    cells = expand(suite, Choice(rows=["interlude"], columns=["digits@40"]))
    with pytest.raises(UserError, match="reference row 'supervised'"):
        list(walltime.measure(suite, cells, threads=1, device="cpu"))


STORED = line("interlude", "digits@40", 0, 5.0, split_hash="s", model_hash="m")


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"model_hash": "n"}, False),  # the same machine and version must give the same bits
        ({"model_hash": "n", "machine": "another"}, True),
        ({"model_hash": "n", "machine": "another", "error_last": 5.9}, True),
        ({"model_hash": "n", "machine": "another", "error_last": 6.1}, False),
        ({"model_hash": "n", "version": "2", "split_hash": "t"}, False),
    ],
)
def test_a_result_holds_if_split_and_error_do_and_bits_where_they_must(change, holds):
    assert check.compare(STORED, {**STORED, **change}).holds is holds


def test_it_is_told_what_has_changed_since():
    again = {**STORED, "machine": "another", "commit": "another"}
    assert check.compare(STORED, again).reasons[-1] == "weights: the same bits, another machine and commit"
    assert check.compare(STORED, STORED).reasons[-1] == "weights: the same bits, same machine and version"


def test_a_result_is_found_by_the_beginning_of_its_id():
    lines = [{"id": "abc-f0s0", "model_hash": ""}, {"id": "abd-f0s0", "model_hash": ""}]
    assert check.find_line(lines, "abc")["id"] == "abc-f0s0"
    with pytest.raises(UserError, match="ambiguous"):
        check.find_line(lines, "ab")
    with pytest.raises(UserError, match="no result"):
        check.find_line(lines, "x")


def test_the_step_of_a_running_cell_is_that_of_its_last_whole_line(tmp_path):
    assert last_step(tmp_path) == 0
    (tmp_path / "metrics.jsonl").write_text('{"step": 10}\n{"step": 20}\n{"step": 3')
    assert last_step(tmp_path) == 20
