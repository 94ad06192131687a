"""Lines of results in the shape of a table: what counts, what is chosen, what stands beside."""

import csv
import io
import statistics

import pytest
import scipy.stats
from made_up_lines import line

from interlude.bench.summary import summarize
from interlude.bench.tables import as_csv, latex, markdown, write_tables

ERRORS = {"supervised": [10.0, 12.0], "interlude": [5.0, 8.0]}


@pytest.fixture
def filled(suite_of):
    """A table of two rows in one column, two repetitions each."""
    lines = [
        line(row, "digits@40", seed, error)
        for row, errors in ERRORS.items()
        for seed, error in enumerate(errors)
    ]
    return summarize(suite_of(), lines)


def test_a_cell_is_the_mean_over_its_repetitions(filled):
    for row, errors in ERRORS.items():
        estimate = filled.estimate(row, "digits@40")
        assert estimate.mean == pytest.approx(sum(errors) / 2)
        assert estimate.std == pytest.approx(statistics.stdev(errors))
    assert filled.estimate("interlude", "digits@20") is None


def test_the_newest_line_of_a_repetition_counts(suite_of):
    summary = summarize(
        suite_of(), [line("interlude", "digits@40", 0, 9.0), line("interlude", "digits@40", 0, 7.0)]
    )
    assert summary.estimate("interlude", "digits@40").values == (7.0,)


def test_results_of_settings_that_have_changed_are_not_mixed_in(suite_of):
    old = line("interlude", "digits@40", 1, 9.0, config_hash="before")
    summary = summarize(suite_of(), [old, line("interlude", "digits@40", 0, 7.0)])
    assert summary.estimate("interlude", "digits@40").values == (7.0,)


def searched(suite_of, validation_errors):
    """A table in which alpha is searched; each value has the test error 10 * alpha."""
    suite = suite_of(rows={"chosen": {"method": "interlude", "search": {"method.alpha": [0.1, 0.2, 0.3]}}})
    lines = [
        line(
            "chosen",
            "digits@40",
            0,
            100 * alpha,
            variant={"method.alpha": alpha},
            validation={"balanced_error_last": error},
        )
        for alpha, error in validation_errors.items()
    ]
    return summarize(suite, lines)


def test_a_search_is_decided_on_validation_never_on_test(suite_of):
    summary = searched(suite_of, {0.1: 5.0, 0.2: 4.0, 0.3: 6.0})
    assert summary.estimate("chosen", "digits@40").values == (20.0,)
    assert "method.alpha = 0.2 chosen on validation among 3 of 3" in summary.notes[0]


def test_a_search_that_is_not_complete_says_so(suite_of):
    assert "among 2 of 3" in searched(suite_of, {0.1: 5.0, 0.3: 6.0}).notes[0]


def test_a_column_can_report_other_tests_and_figures(suite_of):
    reports = {"here": ["test", "balanced_error"], "there": ["other", "error"]}
    suite = suite_of(columns={"digits@40": {"reports": reports}})
    tests = {"test": {"error_last": 1, "balanced_error_last": 2}, "other": {"error_last": 3}}
    summary = summarize(suite, [line("interlude", "digits@40", 0, 1, tests=tests)])
    assert summary.columns == ("here", "there")
    assert summary.estimate("interlude", "here").mean == 2
    assert summary.estimate("interlude", "there").mean == 3


def test_weights_that_validation_selected_are_named_so(suite_of):
    tests = {"test": {"error_selected": 3.0}}
    summary = summarize(suite_of(), [line("interlude", "digits@40", 0, 1, tests=tests, error_selected=3.0)])
    assert summary.estimate("interlude", "digits@40").mean == 3.0
    assert "best on validation" in markdown(summary)


def test_a_row_is_compared_with_another_seed_by_seed(suite_of):
    lines = [
        line(row, "digits@40", seed, error)
        for row, errors in (ERRORS | {"interlude": [5.0, 8.0, 1.0]}).items()  # the third seed has no partner
        for seed, error in enumerate(errors)
    ]
    summary = summarize(suite_of(reference="supervised"), lines)
    difference = summary.difference("interlude", "digits@40")
    assert difference.values == (5.0 - 10.0, 8.0 - 12.0)
    margin = scipy.stats.t.interval(0.95, 1, scale=scipy.stats.sem(difference.values))[1]
    shown = f"-4.50 ({-4.5 - margin:+.2f} to {-4.5 + margin:+.2f})"
    assert f"| interlude | supervised | {shown} |" in markdown(summary)
    rows = {row["row"]: row for row in csv.DictReader(io.StringIO(as_csv(summary)))}
    assert (rows["interlude"]["against"], float(rows["interlude"]["difference"])) == ("supervised", -4.5)
    assert rows["supervised"]["against"] == ""


def test_a_row_can_say_itself_what_it_is_compared_with(suite_of):
    rows = {"supervised": None, "fixmatch": None, "interlude": {"against": "fixmatch"}}
    summary = summarize(suite_of(reference="supervised", rows=rows), [])
    assert summary.against == {"fixmatch": "supervised", "interlude": "fixmatch"}


def test_values_of_a_row_can_be_compared_with_one_of_them(suite_of):
    rows = {"alpha": {"method": "interlude", "each": {"method.alpha": [0.1, 0.2]}}}
    summary = summarize(suite_of(reference="alpha 0.2", rows=rows), [])
    assert summary.against == {"alpha 0.1": "alpha 0.2"}


def test_without_a_row_to_compare_with_the_table_has_no_differences(filled):
    assert "## Differences" not in markdown(filled)


def test_few_columns_are_ranked_seed_by_seed_and_the_table_says_so(filled):
    ranking, about = filled.ranking()
    assert ranking.num_blocks == 2
    assert dict(zip(ranking.names, ranking.ranks, strict=True)) == {"supervised": 2.0, "interlude": 1.0}
    assert "not independent" in about


def test_rows_that_lack_a_result_are_not_ranked(suite_of):
    lines = [line("interlude", "digits@40", seed, 1.0) for seed in (0, 1)]
    assert summarize(suite_of(), lines).ranking()[0] is None


def test_markdown_shows_mean_spread_interval_and_the_best(filled):
    text = markdown(filled)
    assert "| interlude | **6.50** ± 2.12 (0.00 to 25.56) |" in text  # 12.706 * 2.1213 / sqrt 2 = 19.06
    assert "| supervised | 11.00 ± 1.41 (0.00 to 23.71) |" in text
    assert "4 runs" in text


def test_a_cell_that_lacks_repetitions_says_how_many_it_has(suite_of):
    text = markdown(summarize(suite_of(), [line("interlude", "digits@40", 0, 7.0)]))
    assert "**7.00** [1 of 2]" in text


def test_the_paper_stands_beside_our_figures_with_its_source(suite_of):
    suite = suite_of(published="table1", columns={"cifar10@40": None})
    summary = summarize(
        suite, [line("interlude", "cifar10@40", seed, error) for seed, error in enumerate((4.0, 5.0))]
    )
    text = markdown(summary)
    assert "| cifar10@40 | paper |" in text
    assert "| 4.51 ± 0.01 |" in text
    assert "run by the paper's authors" in text
    assert "77.18" in text, "a row without results of ours keeps its published figure"


def test_the_csv_has_every_number_and_reads_back(filled):
    rows = {row["row"]: row for row in csv.DictReader(io.StringIO(as_csv(filled)))}
    assert float(rows["interlude"]["mean"]) == 6.5
    assert float(rows["interlude"]["high95"]) == pytest.approx(6.5 + 12.7062 * 2.12132 / 2**0.5, abs=1e-3)
    assert rows["supervised"]["runs"] == "2"


def test_latex_is_a_booktabs_table_with_signs_escaped(suite_of):
    suite = suite_of(rows={"50 % & more_": {"method": "interlude"}})
    text = latex(summarize(suite, [line("50 % & more_", "digits@40", 0, 7.0)]))
    assert "50 \\% \\& more\\_ & \\textbf{7.00}" in text
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1
    assert all(text.count(rule) == 1 for rule in ("\\toprule", "\\midrule", "\\bottomrule"))


def test_fusion_at_evaluation_has_a_table_of_its_own(suite_of):
    fused = {"alone": 10.0, "stored": 12.0, "shuffled": 13.0, "sorted": 2.0}
    lines = [line(row, "digits@40", 0, 10.0, fused=fused) for row in ("interlude", "supervised")]
    text = markdown(summarize(suite_of(), lines))
    figures = "| digits@40 | 10.00 | 12.00 | 13.00 | 2.00 |"
    assert f"| supervised {figures}\n| interlude {figures}" in text, "rows stand in the order of the suite"


def test_all_three_forms_are_written(filled, tmp_path):
    assert [path.name for path in write_tables(filled, tmp_path)] == [
        "tiny-mini.md",
        "tiny-mini.csv",
        "tiny-mini.tex",
    ]
