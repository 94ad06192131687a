"""Meta Pseudo Labels (Pham et al., 2021), https://arxiv.org/abs/2003.10580.

A teacher labels the unlabeled images, a student learns from these labels alone, and the teacher is told how
much each of the student's steps lowered its loss on labeled images. Two updates a step; the student is the
model that is averaged and evaluated.

Symbols: T `teacher`, S `model`, y-hat `label`, h = old - new `gain`; lambda_u `weight` (UDA), reached after
`ramp` steps; wait and warm-up of the student's learning rate `wait` and `warmup`.

Where public code differs: the original trains the teacher towards its own soft prediction, whose gradient
p - p is zero: its feedback does nothing. The PyTorch port labels the student from the weak view and the
feedback from the strong one; here both use one label of the strong view. Both multiply by new - old (option
`sign`), though to first order `old - new = rate * <grad L_l, grad L_u>` is what should be rewarded. Both take
`old` from a batch with unlabeled rows and `new` from one without, which biases h through BatchNorm and
dropout; here both see x alone, without dropout. The final fine-tuning on labels is left out, as is dropout
before the head, and the student starts as a copy of the teacher.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.average import Average
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.norm import frozen_statistics
from interlude.parts.targets import one_hot

LONGEST = 0.2  # of the run: the most a phase may take where a run is shorter than the paper's


@register
class MPL(Method):
    """A student learns from a teacher's labels; the teacher learns from how much that helped."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        label: Literal["argmax", "sample"] = option(
            "argmax",
            "the teacher's label of a strong view: the likeliest, or drawn as it predicts",
        )
        sign: Literal["old-new", "new-old"] = option(
            "old-new", "what is rewarded: a fall of the student's labeled loss, or a rise (public code)"
        )
        baseline: Literal["none", "ema"] = option("none", "subtract a running mean from the gain")
        baseline_decay: float = option(0.99, "EMA factor of that mean", at_least=0, at_most=1)
        smoothing: float = option(
            0.15, "label smoothing, of labels and of the student's targets", at_least=0, below=1
        )
        weight: float = option(8.0, "weight of the teacher's consistency term, lambda_u", at_least=0)
        ramp: int = option(5000, "steps until that weight is reached, at most a fifth of the run", at_least=0)
        threshold: float = option(0.6, "confidence a sharpened prediction must have", at_least=0, at_most=1)
        temperature: float = option(0.7, "sharpening of the teacher's weak prediction", above=0)
        wait: int = option(
            3000, "steps in which the student stands still, at most a fifth of the run", at_least=0
        )
        warmup: int = option(
            5000, "steps in which its rate then grows, at most a fifth of the run", at_least=0
        )

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.teacher = copy.deepcopy(model)
        self.mean_gain = Average(torch.zeros(()), cfg.baseline_decay)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        teacher_x, teacher_weak, teacher_strong = self.teacher.together(x, u_weak, u_strong, targets=[u_weak])
        label = self.label_of(teacher_strong)
        q = probabilities(teacher_weak / self.cfg.temperature)
        mask = q.max(-1).values >= self.cfg.threshold

        before = self.labeled_loss(x, y)
        _, student_strong = self.model.together(x, u_strong)  # BatchNorm sees the labeled rows as well
        student = cross_entropy(student_strong, self.smooth(label, student_strong)).mean()
        yield Objective(student=student, rate=rise(clock, after=self.cfg.wait, over=self.cfg.warmup))

        gain = self.reward(before, self.labeled_loss(x, y))
        consistency = masked_mean(cross_entropy(teacher_strong, q), mask)
        yield Objective(
            supervised=self.supervised(teacher_x, self.smooth(y, teacher_x)),
            consistency=self.cfg.weight * rise(clock, over=self.cfg.ramp) * consistency,
            feedback=gain * cross_entropy(teacher_strong, label).mean(),
        ).log(mask=mask, gain=gain)

    def label_of(self, logits: Tensor) -> Tensor:
        """One hard label for each row."""
        q = probabilities(logits)
        if self.cfg.label == "argmax":
            return q.argmax(-1)
        return distributed.own(torch.multinomial(distributed.gather(q), 1).squeeze(-1))

    def labeled_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The student's loss on the labeled rows of all processes, as it was before or is after its step."""
        with torch.no_grad(), frozen_statistics(self.model), without_dropout(self.model):
            return distributed.mean(self.supervised(self.model(x), y))

    def smooth(self, target: Tensor, like: Tensor) -> Tensor:
        """A label, or a distribution, with a share of it spread over all classes."""
        target = one_hot(target, like) if target.ndim == 1 else target
        return target * (1 - self.cfg.smoothing) + self.cfg.smoothing / like.shape[-1]

    def reward(self, old: Tensor, new: Tensor) -> Tensor:
        """How much the student's step helped, by the sign and the baseline of this configuration."""
        gain = old - new if self.cfg.sign == "old-new" else new - old
        if self.cfg.baseline == "none":
            return gain
        return gain - self.mean_gain.update(gain)  # a mean with this step in it, as in public code


def rise(clock: Clock, *, after: int = 0, over: int) -> float:
    """0 for the first `after` steps, then linearly to 1 within `over`; in a short run both are shorter."""
    longest = LONGEST * clock.total
    since = clock.step - min(after, longest)
    if since < 0:
        return 0.0
    return min(1.0, since / min(over, longest)) if over else 1.0


@contextmanager
def without_dropout(network: nn.Module) -> Iterator[None]:
    """Inside the block only BatchNorm is in training mode: two passes of a batch differ by weights alone."""
    modes = {part: part.training for part in network.modules()}
    for part in modes:
        part.training = isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
