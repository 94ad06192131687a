"""Named policies: which weak and strong views a kind of image can bear without changing its class."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from interlude.augment.cutout import Cutout
from interlude.augment.draw import Augmentation
from interlude.augment.geometry import FlipCrop, translate_x_whole, translate_y_whole
from interlude.augment.groups import Chain, Identity
from interlude.augment.randaugment import OPERATIONS, Operation, RandAugment
from interlude.augment.render import Backend
from interlude.errors import unknown
from interlude.options import Options, option


@dataclass(frozen=True)
class AugmentConfig(Options):
    """How images are augmented; an option left at None follows the policy."""

    policy: str = option(
        "natural",
        "kind of images: natural, usb, digits, grayscale-medical, or gentle before a frozen network",
    )
    flip: bool | None = option(None, "mirror left and right, or not (default: as the policy says)")
    operations: int | None = option(
        None, "random operations per strong view (default: as the policy says)", at_least=0
    )
    cutout: float | None = option(
        None,
        "largest side of the square painted over strong views, as a share of the width; 0 paints none "
        "(default: as the policy says)",
        at_least=0,
        at_most=1,
    )
    backend: Backend = option(
        "auto",
        "what makes the views: torch, numba (CPUs, extra: interlude-ssl[fast]) or the faster; same bits",
    )


@dataclass(frozen=True)
class Policy:
    """The parts of a policy: weak views are crops; strong ones are crops, then operations, then a cutout."""

    crop: FlipCrop = FlipCrop()
    operations: RandAugment = RandAugment()
    cutout: Cutout = Cutout()

    def views(self) -> dict[str, Augmentation]:
        """One augmentation for every view word a method may ask for."""
        return {
            "plain": Identity(),
            "flip": replace(self.crop, padding=0.0),
            "weak": self.crop,
            "strong": Chain(self.crop, self.operations, self.cutout),
        }

    def adjusted(self, config: AugmentConfig) -> "Policy":
        """This policy with the options that the user has set."""
        crop, operations, cutout = self.crop, self.operations, self.cutout
        if config.flip is not None:
            crop = replace(crop, flip=0.5 if config.flip else 0.0)
        if config.operations is not None:
            operations = replace(operations, count=config.operations)
        if config.cutout is not None:
            cutout = cutout.up_to(config.cutout)
        return Policy(crop, operations, cutout)


_policies: dict[str, Callable[[], Policy]] = {}


def policy(name: str) -> Callable[[Callable[[], Policy]], Callable[[], Policy]]:
    """Register the function below as the maker of the policy `name`."""

    def register(make: Callable[[], Policy]) -> Callable[[], Policy]:
        _policies[name] = make
        return make

    return register


def policy_names() -> tuple[str, ...]:
    """The names of all registered policies, sorted."""
    return tuple(sorted(_policies))


def describe() -> dict[str, str]:
    """A line about each policy."""
    return {name: (make.__doc__ or "").partition("\n")[0] for name, make in sorted(_policies.items())}


def build(config: AugmentConfig | None = None) -> dict[str, Augmentation]:
    """The augmentation of each view word: `plain`, `flip`, `weak`, `strong`."""
    config = config or AugmentConfig()
    if config.policy not in _policies:
        raise unknown("augmentation policy", config.policy, policy_names())
    return _policies[config.policy]().adjusted(config).views()


@policy("natural")
def natural() -> Policy:
    """Photographs, as in FixMatch and the authors' released code."""
    whole = {
        "TranslateX": OPERATIONS["TranslateX"]._replace(plan=translate_x_whole),
        "TranslateY": OPERATIONS["TranslateY"]._replace(plan=translate_y_whole),
    }
    return Policy(operations=RandAugment(tuple((OPERATIONS | whole).values())))


@policy("usb")
def usb() -> Policy:
    """Photographs, as in the USB benchmark: three operations always, any magnitude, a cutout of any size."""
    return Policy(
        operations=RandAugment(count=3, probability=1.0, continuous=True),
        cutout=Cutout(0.0, 0.5, fill=(125, 123, 114), whole_pixels=False),
    )


@policy("gentle")
def gentle() -> Policy:
    """Photographs before a frozen network: a crop and at most one mild operation, nothing painted over."""
    operations = (
        _within("Rotate", 3, 15),
        _within("ShearX", 0.03, 0.15),
        _within("ShearY", 0.03, 0.15),
        OPERATIONS["AutoContrast"],
        _within("Brightness", 0.6, 1.4),
        _within("Contrast", 0.6, 1.4),
        _within("Color", 0.3, 1.5),
        _within("Sharpness", 0.3, 1.7),
    )
    return Policy(operations=RandAugment(operations, count=1, continuous=True), cutout=Cutout(0.0, 0.0))


@policy("digits")
def digits() -> Policy:
    """Bright characters on black: nothing that mirrors them, turns a 6 into a 9, or inverts them."""
    operations = (
        _within("Rotate", 0, 25),
        _within("ShearX", 0, 0.3),
        _within("ShearY", 0, 0.2),
        _within("TranslateX", 0, 0.15),
        _within("TranslateY", 0, 0.15),
        _within("Brightness", 0.3, 1.3),
        _within("Contrast", 0.3, 1.3),
        OPERATIONS["Identity"],
        _within("Sharpness", 0.05, 1.5),
    )
    return Policy(
        crop=FlipCrop(flip=0.0, reflect=False),
        operations=RandAugment(operations, probability=0.8, continuous=True),
        cutout=Cutout(0.3, 0.3),
    )


@policy("grayscale-medical")
def grayscale_medical() -> Policy:
    """Scans: left stays left, shapes stay near their proportions, grey values keep their order."""
    operations = (
        _within("Rotate", 0, 15),
        _within("ShearX", 0, 0.1),
        _within("ShearY", 0, 0.1),
        _within("TranslateX", 0, 0.1),
        _within("TranslateY", 0, 0.1),
        OPERATIONS["AutoContrast"],
        _within("Brightness", 0.6, 1.4),
        _within("Contrast", 0.6, 1.4),
        OPERATIONS["Identity"],
        _within("Sharpness", 0.3, 1.7),
    )
    return Policy(
        crop=FlipCrop(flip=0.0),
        operations=RandAugment(operations, probability=0.8, continuous=True),
        cutout=Cutout(0.3, 0.3),
    )


def _within(name: str, low: float, high: float) -> Operation:
    return OPERATIONS[name]._replace(low=low, high=high)
