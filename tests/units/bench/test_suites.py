"""Suites: files that come with the package, what they may say, and which mistakes are told."""

import pytest
import yaml

from interlude.bench.published import published, published_tables
from interlude.bench.suites import lines_of, load_suite, suite_names, suites_folder
from interlude.data import dataset_names
from interlude.errors import UserError
from interlude.method import method_names

NAMES = suite_names()


def test_the_suites_of_the_paper_are_there():
    wanted = "table1 table2 heart2heart ablation layouts sensitivity walltime released-vs-paper contamination"
    assert set(wanted.split()) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_names_methods_and_data_that_exist(name):
    suite = load_suite(name, "paper")
    known = set(method_names())
    assert {row.settings["method"] for row in suite.rows.values()} <= known
    assert {column.settings["data"].partition("@")[0] for column in suite.columns.values()} <= set(
        dataset_names()
    )
    for rule in suite.rules:
        assert {method for method in rule.methods if method != "*"} <= known


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_opens_with_its_command(name):
    assert f"interlude bench {name}" in (suites_folder() / f"{name}.yaml").read_text()


def test_every_published_figure_has_its_cell():
    """A row or column that a suite lacks would silently drop a figure of the paper."""
    covered = set()
    for name in NAMES:
        suite = load_suite(name, "paper")
        if suite.published:
            titles = {
                title for key, column in suite.columns.items() for title in (column.reports or {key: 0})
            }
            rows = {row.published or key for key, row in suite.rows.items()}
            covered |= {(suite.published, row, title) for row in rows for title in titles}
    for name in published_tables():
        table = published(name)
        wanted = {(name, row, column) for row in table.rows for column in table.columns}
        assert wanted <= covered, sorted(wanted - covered)[:5]


@pytest.mark.parametrize(("name", "count"), [("table1", 26), ("table2", 12), ("heart2heart", 11)])
def test_the_published_tables_are_whole(name, count):
    table = published(name)
    assert len(table.rows) == count
    assert all(len(figures) == len(table.columns) for figures in table.rows.values())


def test_published_figures_say_where_they_come_from():
    assert published("table1").figure("interlude", "cifar10@40") == (4.51, 0.01, "run by the paper's authors")
    assert "copied" in published("table2").source("fixmatch")
    assert "WRN-28-2" in published("table1").source("instant")
    assert published("table1").figure("mpl", "stl10@250") is None


def test_the_fusion_points_of_the_paper_are_both_in_table_1():
    rows = load_suite("table1", "paper").rows
    assert {row.settings.get("method.fusion_point") for row in rows.values()} == {None, "stage"}


def test_stl10_stands_with_and_without_the_test_images_in_its_pool():
    columns = load_suite("table1", "paper").columns.items()
    kept = {
        name: c.settings.get("data.keep_test_duplicates", False) for name, c in columns if "stl10" in name
    }
    assert sorted(kept.values()) == [False, False, True, True]


def test_a_scale_can_pick_rows_and_bring_its_own_columns(suite_of):
    mini = {"rows": ["interlude"], "columns": {"mnist@10": None}}
    suite = suite_of(scales={"mini": mini})
    assert list(suite.rows) == ["interlude"]
    assert suite.columns["mnist@10"].settings == {"data": "mnist@10"}
    assert list(suite_of(scale="paper").rows) == ["supervised", "interlude"]


def test_each_value_makes_a_row_of_its_own_and_a_search_makes_one(suite_of):
    rows = {
        "alpha": {"method": "interlude", "each": {"method.alpha": [0.1, 0.2]}},
        "chosen": {"method": "interlude", "search": {"method.alpha": [0.1, 0.2]}},
    }
    suite = suite_of(rows=rows)
    assert [name for name, _ in lines_of("alpha", suite.rows["alpha"])] == ["alpha 0.1", "alpha 0.2"]
    assert [name for name, _ in lines_of("chosen", suite.rows["chosen"])] == ["chosen", "chosen"]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"sedes": [0]}, "did you mean 'seeds'"),
        ({"kind": "trian"}, "did you mean 'train'"),
        ({"rules": [{"metods": ["x"], "set": {}}]}, "did you mean 'methods'"),
        ({"rows": {"interlude": 3}}, "must be a mapping"),
        ({"scales": {"mini": {"rows": ["interlud"]}}}, "did you mean 'interlude'"),
        ({"scales": {"minni": {}}}, "did you mean 'mini'"),
        ({"reference": "interlud"}, "did you mean 'interlude'"),
        ({"rows": {"fixmatch": None, "interlude": {"against": "fixmach"}}}, "did you mean 'fixmatch'"),
    ],
)
def test_a_mistake_in_a_suite_is_named(suite_of, tree, message):
    with pytest.raises(UserError, match=message):
        suite_of(**tree)


def test_a_suite_without_columns_is_refused(tmp_path):
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump({"title": "x", "rows": ["interlude"]}))
    with pytest.raises(UserError, match="needs a title, rows and columns"):
        load_suite(str(tmp_path / "bad.yaml"), "paper")


def test_a_suite_for_gpus_only_says_so():
    with pytest.raises(UserError, match="--scale paper only"):
        load_suite("table2", "mini")
    with pytest.raises(UserError, match="did you mean 'table1'"):
        load_suite("tabel1", "mini")
    with pytest.raises(UserError, match="did you mean 'mini'"):
        load_suite("table1", "minni")
