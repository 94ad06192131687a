"""Mean Teacher (Tarvainen & Valpola, 2017), https://arxiv.org/abs/1703.01780.

The student's prediction on one view must agree with that of a teacher on another view; the teacher's weights
are the running average of the student's.

Symbols: theta' `teacher`, alpha `decay`, f(x, theta') `q`, f(x, theta) `p`, w(t) is `weight` times the ramp.

Where public code differs: USB (to this day) reads the student's prediction from the teacher's output, so its
consistency is exactly 0 and moves nothing: its Mean Teacher, and every number copied from its tables, is the
supervised baseline. USB also swaps the averaged weights into the one network and back; here the teacher is a
network of its own. Weight 50 and the linear ramp are those of the FixMatch repository; the authors weigh 100
(CIFAR-10), ramp by exp(-5 (1 - t)^2) and apply the term to labeled rows too. As in their code the teacher
normalises by the batch; its running statistics are copies of the student's. Their alpha is at most
1 - 1 / (t + 1) in update t, so that the teacher begins as the plain mean of all weights so far
(`warmup=mean`); USB's is constant from the start (`warmup=none`). In a run as long as the paper's all this
is over before the ramp matters, but in a short one such a teacher is hardly better than the random weights it
began with. So the default is the rule by which the loop averages short runs, at most (1 + t) / (10 + t): the
mean of about the last ninth. What is evaluated is the loop's own average of the student.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.ema import Ema
from interlude.parts.losses import probabilities
from interlude.parts.norm import frozen_statistics


@register
class MeanTeacher(Method):
    """The prediction of a network agrees with that of its own running average on another view."""

    unlabeled = ("weak", "weak")
    mu: ClassVar[int] = 1

    @dataclass(frozen=True)
    class Config(Method.Config):
        weight: float = option(50.0, "weight of the consistency term after the ramp", at_least=0)
        ramp: float = option(
            0.4, "fraction of the run in which the weight rises from 0 to full", at_least=0, at_most=1
        )
        decay: float = option(0.999, "EMA factor alpha of the teacher", at_least=0, at_most=1)
        warmup: Literal["recent", "mean", "none"] = option(
            "recent",
            "bound on alpha in update t: recent = (1 + t) / (10 + t), about the last ninth of the updates; "
            "mean = 1 - 1 / (t + 1), the mean of all (authors); none = alpha from the start (USB)",
        )

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.teacher = Ema(model, cfg.decay, warmup=cfg.warmup == "recent")
        self.teacher.model.train()  # like the student, it normalises by the batch

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_teacher, u_student) = batch.x, batch.y, batch.u
        logits_x = self.model(x)
        with frozen_statistics(self):  # of both networks
            q = probabilities(self.teacher.model(u_teacher))
            p = self.model(u_student).softmax(-1)

        weight = self.cfg.weight * clock.ramp(self.cfg.ramp)
        yield Objective(
            supervised=self.supervised(logits_x, y),
            consistency=weight * (p - q).square().mean(),
        )
        if self.cfg.warmup == "mean":
            self.teacher.decay = min(self.cfg.decay, 1 - 1 / (clock.step + 2))
        self.teacher.update(self.model)
