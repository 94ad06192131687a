"""Did the unlabeled images help?"""

import numpy as np

from interlude.fitting.verdict import HeldOut, judge, no_estimate

LABELS = np.repeat(np.arange(4), 20)


def outcome(method: float, plain: float, strong: float) -> HeldOut:
    """Candidates right on the first images of each class, as many as the share says."""
    place = np.tile(np.arange(20), 4)
    right = {
        name: (place < 20 * share).astype(float)
        for name, share in {"method": method, "plain": plain, "strong": strong}.items()
    }
    return HeldOut(LABELS, None, right)


def test_a_clear_gain_over_the_best_control_helped() -> None:
    verdict = judge(outcome(0.9, 0.5, 0.6), "method", ["plain", "strong"])
    assert (verdict.outcome, verdict.keep, verdict.control) == ("helped", "method", "strong")
    assert "helped: +30.0 points (95% interval" in verdict.sentence


def test_a_gain_within_the_interval_is_called_unproven_and_kept() -> None:
    verdict = judge(outcome(0.65, 0.6, 0.5), "method", ["plain", "strong"])
    assert (verdict.outcome, verdict.keep) == ("unclear", "method")
    assert "cannot prove" in verdict.sentence


def test_without_a_gain_the_labeled_only_model_is_kept() -> None:
    verdict = judge(outcome(0.6, 0.5, 0.6), "method", ["plain", "strong"])
    assert (verdict.outcome, verdict.keep) == ("not helped", "strong")
    assert "the labeled-only model is the one saved" in verdict.sentence


def test_the_sentence_and_the_file_say_the_same() -> None:
    verdict = judge(outcome(0.9, 0.5, 0.6), "method", ["plain"])
    stored = verdict.to_json()
    assert stored["difference"]["mean"] == 40
    assert f"{stored['difference']['low']:.1f} to {stored['difference']['high']:.1f}" in verdict.sentence


def test_where_nothing_was_held_out_no_number_is_given() -> None:
    verdict = no_estimate("method", "one label a class")
    assert verdict.to_json()["difference"] is None
    assert verdict.sentence == "no estimate possible: one label a class"
