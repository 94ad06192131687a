"""What is compared: a method that uses the unlabeled images, and models that see labels alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from interlude import methods

PROBE = "linear probe"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to train, by the settings of its method; the linear probe has none, as it takes no steps."""

    name: str
    kind: Literal["method", "control"]
    about: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_probe(self) -> bool:
        """Whether it is the logistic regression on vectors."""
        return self.name == PROBE


def candidates(method: Mapping[str, Any], *, pretrained: bool) -> list[Candidate]:
    """The method with these settings, then its controls."""
    name = str(method["name"])
    plain = {"name": methods.LABELS_ONLY}
    controls = [
        Candidate("labels only", "control", "the same network, trained on the labeled images alone", plain),
        Candidate(
            "labels only, strong views",
            "control",
            "the same, with the strong augmentation that the method sees",
            {**plain, "strong": True},
        ),
    ]
    if pretrained:
        about = "logistic regression on the vectors of the pretrained network"
        controls.append(Candidate(PROBE, "control", about))
    return [Candidate(name, "method", "labeled and unlabeled images", method), *controls]
