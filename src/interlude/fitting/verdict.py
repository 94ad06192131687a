"""Did the unlabeled images help? The paired comparison with the best labeled-only model, in one sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from interlude.intervals import Estimate, balanced_accuracy, paired_difference

Outcome = Literal["helped", "unclear", "not helped", "no estimate"]


@dataclass(frozen=True)
class HeldOut:
    """What the candidates said about labeled images they had not seen: shares of tries that were right."""

    labels: NDArray[np.int64]
    groups: NDArray[Any] | None
    right: Mapping[str, NDArray[np.float64]]

    def accuracy(self, name: str) -> Estimate:
        """The balanced accuracy of a candidate."""
        return balanced_accuracy(self.right[name], self.labels, self.groups)

    def difference(self, name: str, other: str) -> Estimate:
        """How much better a candidate is than another, on the same images."""
        return paired_difference(self.right[name], self.right[other], self.labels, self.groups)


@dataclass(frozen=True)
class Verdict:
    """The outcome, what it rests on, and which candidate is the one to keep."""

    outcome: Outcome
    sentence: str
    keep: str
    control: str | None = None
    difference: Estimate | None = None

    def to_json(self) -> dict[str, Any]:
        """As fit.json shows it."""
        difference = None if self.difference is None else self.difference.to_json()
        return {
            "outcome": self.outcome,
            "sentence": self.sentence,
            "kept": self.keep,
            "control": self.control,
            "difference": difference,
        }


def judge(held_out: HeldOut, method: str, controls: Sequence[str]) -> Verdict:
    """The verdict on `method` against the best of the controls, which was chosen on the very same images.

    That choice flatters the control a little, so the gain of the method is never overstated by it.
    """
    control = max(controls, key=lambda name: held_out.accuracy(name).mean)
    gain = held_out.difference(method, control)
    figures = f"{gain.mean:+.1f} points (95% interval {gain.low:.1f} to {gain.high:.1f}) over {control}"
    if gain.low > 0:
        return Verdict("helped", f"the unlabeled images helped: {figures}", method, control, gain)
    if gain.mean > 0:
        sentence = f"the unlabeled images may have helped, but these labels cannot prove it: {figures}"
        return Verdict("unclear", sentence, method, control, gain)
    sentence = f"the unlabeled images did not help here: {figures}; the labeled-only model is the one saved"
    return Verdict("not helped", sentence, control, control, gain)


def no_estimate(method: str, why: str) -> Verdict:
    """The verdict where nothing could be held out."""
    return Verdict("no estimate", f"no estimate possible: {why}", method)
