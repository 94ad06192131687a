"""The calibration of one model: found from held-out images, kept in config.json, applied to new logits."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from interlude.calibration.conformal import highest_coverage, needed, set_threshold, sets
from interlude.calibration.temperature import fit_temperature
from interlude.errors import UserError

COVERAGE = 0.9
UNUSUAL = 0.99


class Verdicts(NamedTuple):
    """What is said of N images."""

    logits: Tensor  # (N, K), as the network gives them
    probabilities: Tensor  # (N, K), calibrated
    in_set: Tensor  # bool (N, K), the prediction sets
    ood: Tensor  # (N,), 0.97: more unusual than 97 % of the training images; NaN if not known
    abstain: Tensor  # bool (N,), whether a person had better look


@dataclass(frozen=True)
class Calibration:
    """How to read the logits of one model."""

    temperature: float = 1.0
    coverage: float = COVERAGE
    threshold: float | None = None  # probability for a class to be in the set; None: no coverage is promised
    images: int = 0  # held-out images it rests on
    groups: int | None = None  # and how many groups they are of, where they are grouped
    source: str = ""  # where the held-out images came from
    ood_limit: float = UNUSUAL  # an image that is more unusual is not judged

    @property
    def has_sets(self) -> bool:
        """Whether held-out images were there to make sets from, if only sets of all classes."""
        return self.images > 0

    def judge(self, logits: Tensor, ood: Tensor | None = None) -> Verdicts:
        """Everything that is said of images with these logits (N, K), given how unusual they are (N,)."""
        probabilities = torch.softmax(logits / self.temperature, -1)
        in_set = sets(probabilities, self.threshold)
        abstain = in_set.sum(-1) > 1 if self.has_sets else torch.zeros_like(in_set[:, 0])
        if ood is None:
            return Verdicts(logits, probabilities, in_set, torch.full_like(logits[:, 0], torch.nan), abstain)
        return Verdicts(logits, probabilities, in_set, ood, abstain | (ood > self.ood_limit))

    def promise(self) -> str:
        """What the sets promise, in a sentence."""
        count = self.images if self.groups is None else self.groups
        of = "held-out images" if self.groups is None else "held-out groups"
        if not self.has_sets:
            return "this model is not calibrated: probabilities are as the network gives them, without sets"
        if self.threshold is None:
            return (
                f"{count} {of} cannot promise a coverage of {self.coverage:.0%} (it takes "
                f"{needed(self.coverage)}, or ask for at most {highest_coverage(count):.0%}): "
                "sets hold all classes"
            )
        return f"sets hold the true class of {self.coverage:.0%} of such images ({count} {of}, {self.source})"

    def to_json(self) -> dict[str, Any]:
        """As it stands in config.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> Self | None:
        """What `to_json` wrote; None where nothing was."""
        if not values:
            return None
        try:
            made = cls(**values)
            usable = made.temperature > 0 and 0 < made.coverage < 1 and 0 <= made.ood_limit <= 1
            usable = usable and 0 <= (made.threshold or 0) <= 1 and min(made.images, made.groups or 0) >= 0
        except TypeError as error:
            raise UserError(f"the calibration in config.json is damaged: {error}; fit again") from error
        if not usable:
            raise UserError(
                "the calibration in config.json is damaged: its numbers are out of range; fit again"
            )
        return made


def calibrate(
    logits: Tensor,
    labels: Tensor,
    *,
    source: str,
    coverage: float = COVERAGE,
    groups: Sequence[object] | None = None,
) -> Calibration:
    """The calibration that logits (N, K) of held-out images with labels (N,) give.

    They must be of images that the network that made them did not learn from, such as those of the folds of a
    cross-validation.
    """
    if not 0 < coverage < 1:
        raise UserError(f"coverage must be between 0 and 1, got {coverage:g}")
    logits, labels = logits.detach().cpu().double(), labels.cpu()
    if not (len(labels) and torch.isfinite(logits).all()):
        raise UserError("calibration needs held-out images with finite logits")
    temperature = fit_temperature(logits, labels)
    probabilities = torch.softmax(logits / temperature, -1)
    return Calibration(
        temperature=temperature,
        coverage=coverage,
        threshold=set_threshold(probabilities, labels, coverage=coverage, groups=groups),
        images=len(labels),
        groups=None if groups is None else len(set(groups)),
        source=source,
    )
