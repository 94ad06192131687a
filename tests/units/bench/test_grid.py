"""The cells of a suite: which there are, how their settings come together, what they are stored under."""

from dataclasses import replace

import pytest

from interlude.bench.grid import Choice, changed_settings, expand
from interlude.bench.suites import SCALES, load_suite, suite_names
from interlude.errors import UserError

PICKED = Choice(rows=["interlude"], columns=["digits@40"], seeds=[0])


def only(suite, **choice):
    """The one cell that a choice leaves."""
    (cell,) = expand(
        suite, Choice(**{"rows": ["interlude"], "columns": ["digits@40"], "seeds": [0], **choice})
    )
    return cell


def test_a_suite_is_the_product_of_rows_columns_and_seeds(suite_of):
    cells = expand(suite_of(rows=["supervised"]))
    assert [(cell.row, cell.column, cell.repetition) for cell in cells] == [
        ("supervised", "digits@40", 0),
        ("supervised", "digits@20", 0),
        ("supervised", "digits@40", 1),
        ("supervised", "digits@20", 1),
    ]


def test_a_repetition_changes_seed_and_fold_or_the_fold_alone(suite_of):
    both, fold = only(suite_of(), seeds=[1]), only(suite_of(repeat="fold"), seeds=[1])
    assert (both.config.seed, both.config.fold) == (1, 1)
    assert (fold.config.seed, fold.config.fold) == (0, 1)


def test_the_row_has_the_last_word_over_rules_column_and_recipe(suite_of):
    suite = suite_of(
        rows={"interlude": {"method.alpha": 0.3}},
        columns={"digits@40": {"config": "digits", "batch": 8, "method.alpha": 0.1}},
        rules=[
            {"methods": ["inter*"], "set": {"method.alpha": 0.2, "mu": 2}},
            {"rows": ["x"], "set": {"mu": 9}},
        ],
    )
    config = only(suite).config
    assert (config.method.alpha, config.mu, config.batch, config.labels) == (0.3, 2, 8, 40)
    assert config.augment.policy == "digits"


def test_a_rule_may_be_for_one_repetition(suite_of):
    suite = suite_of(rules=[{"seeds": [1], "set": {"steps": 7}}])
    assert (only(suite).config.steps, only(suite, seeds=[1]).config.steps) == (4, 7)


def test_paper_settings_of_a_method_come_from_the_list_of_commands():
    suite = load_suite("table1", "paper")
    (cell,) = expand(suite, Choice(["mixmatch"], ["cifar100@400"], [0]))
    assert cell.config.method.weight == 150
    assert cell.config.model.name == "wrn-28-8"
    assert cell.config.optimizer.weight_decay == 0.001


@pytest.mark.parametrize(("column", "weight"), [("cifar100@400", 0.01), ("cifar100@2500", 0.05)])
def test_fairness_weighs_less_with_400_labels_of_cifar100(column, weight):
    (cell,) = expand(load_suite("table1", "paper"), Choice(["freematch"], [column], [0]))
    assert cell.config.method.fairness_weight == weight


def test_all_labels_are_one_run_whatever_the_column():
    cells = expand(load_suite("table1", "paper"), Choice(["fully-supervised"], ["cifar10"], [0]))
    assert len(cells) == 3
    assert len({cell.id for cell in cells}) == 1


def test_the_hash_ignores_seed_machine_and_habits_but_not_settings(suite_of):
    cell = only(suite_of())
    config = cell.config

    def hash_of(**changes):
        return replace(cell, config=replace(config, **changes)).config_hash

    same = [{"seed": 5}, {"fold": 5}, {"threads": 3}, {"device": "cpu"}, {"eval_every": 3}, {"watch": "none"}]
    assert {hash_of(**change) for change in same} == {cell.config_hash}
    other = [{"steps": 5}, {"batch": 5}, {"precision": "bf16"}, {"method": replace(config.method, alpha=0.2)}]
    assert len({hash_of(**change) for change in [{}, *other]}) == 5


def test_where_weights_are_chosen_on_validation_the_times_of_looking_count(suite_of):
    cell = only(suite_of(settings={"select": "validation", "data.validation": 0.1}))
    assert "eval_every" in cell.settings
    assert "eval_every" not in only(suite_of()).settings


def test_settings_at_their_defaults_are_not_hashed(suite_of):
    """So an option that is added later, with a default that changes nothing, leaves old results valid."""
    settings = changed_settings(only(suite_of()).config)
    assert "method.alpha" not in settings
    assert settings["method.name"] == "interlude"
    assert settings["steps"] == 4


def test_cells_can_be_chosen_by_row_method_column_or_data(suite_of):
    suite = suite_of(rows={"mine": {"method": "interlude"}, "supervised": None})
    assert {cell.row for cell in expand(suite, Choice(rows=["interlude"]))} == {"mine"}
    assert {cell.column for cell in expand(suite, Choice(columns=["digits"]))} == {"digits@40", "digits@20"}
    assert {cell.column for cell in expand(suite, Choice(columns=["*@20"]))} == {"digits@20"}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(rows=["interlud"]), "did you mean 'interlude'"),
        (Choice(columns=["digit@40"]), "did you mean 'digits@40'"),
        (Choice(seeds=[7]), "unknown seed"),
    ],
)
def test_a_choice_that_picks_nothing_is_a_mistake(suite_of, choice, message):
    with pytest.raises(UserError, match=message):
        expand(suite_of(), choice)


def test_a_setting_that_the_configuration_refuses_names_its_place(suite_of):
    with pytest.raises(UserError, match=r"row 'interlude', column 'digits@40': .*alpha must be"):
        expand(suite_of(rows={"interlude": {"method.alpha": 0.7}}))


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", suite_names())
def test_every_cell_of_every_suite_resolves(name, scale):
    if scale == "mini" and name in ("table2", "heart2heart"):
        with pytest.raises(UserError, match="--scale paper only"):
            load_suite(name, scale)
        return
    suite = load_suite(name, scale)
    cells = expand(suite)
    assert {cell.repetition for cell in cells} == set(suite.seeds)
    assert all(cell.config.mu and cell.config.out is None for cell in cells)
