"""The definition of "works here": checks that anyone can run on a new method, backbone or augmentation.

    from interlude.testing import check_method
    check_method(MyMethod)

Each check is a function of its own and says in its message what broke and why it matters.
"""

import io
import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from interlude import checkpoint
from interlude.augment.check import check_augmentation
from interlude.config import Config, EmaConfig, compose
from interlude.data import Images, Split, SplitRecord
from interlude.errors import NotFinite
from interlude.loop import fit
from interlude.method import Clock, Method
from interlude.models import ModelConfig
from interlude.models.check import check_backbone
from interlude.optimizer import OptimizerConfig
from interlude.run import Run

__all__ = ["check_augmentation", "check_backbone", "check_method", "toy_config", "toy_run", "toy_split"]

STEPS = 6
NUM_CLASSES = 3


def check_method(method: type[Method], **options: Any) -> None:
    """Assert everything that the loop, the checkpoint and an honest comparison ask of a method."""
    check_config_round_trips(method, **options)
    check_steps_are_finite(method, **options)
    check_every_term_reaches_a_weight(method, **options)
    check_state_is_in_the_state_dict(method, **options)
    check_resume_is_exact(method, **options)
    check_an_empty_mask_is_finite(method, **options)
    check_labels_of_unlabeled_images_are_not_read(method, **options)
    check_predictions_do_not_depend_on_batch_mates(method, **options)
    check_labels_can_come_first(method, **options)


def check_config_round_trips(method: type[Method], **options: Any) -> None:
    """What is written to `config.yaml` reads back as the same numbers."""
    config = method.Config(name=method.name, **options)
    again = method.Config(**yaml.safe_load(yaml.safe_dump(asdict(config))))
    assert config == again, f"{config} reads back from YAML as {again}"


def check_steps_are_finite(method: type[Method], **options: Any) -> None:
    """A few steps leave all weights finite and log finite numbers."""
    run = toy_run(method, **options)
    fit(run)
    assert_finite(run, f"after {STEPS} steps")


def check_every_term_reaches_a_weight(method: type[Method], **options: Any) -> None:
    """Each named term has a gradient on some parameter in some step: a term without one does nothing."""
    run = sharpened(toy_run(method, **options), by=30.0)
    reached: dict[str, bool] = {}
    for step in range(STEPS):
        for objective in run.method.step(run.batch(step), Clock(step, STEPS)):
            for name, term in objective.terms.items():
                reached[name] = reached.get(name, False) or moves_a_weight(term, run.method)
            run.optimizer.step(step, objective.loss, objective.rate)
        run.ema.update(run.method.model)
    dead = [name for name, alive in reached.items() if not alive]
    assert not dead, (
        f"no gradient of {dead} reached a weight in {STEPS} steps: dead terms, or a mask that never opens"
    )


def check_state_is_in_the_state_dict(method: type[Method], **options: Any) -> None:
    """Every tensor a method keeps is a parameter or a persistent buffer."""
    run = toy_run(method, **options)
    fit(run)
    saved = {value.data_ptr() for value in run.method.state_dict().values()}
    for name, module in run.method.named_modules():
        for key, tensor in loose_tensors(module):
            where = f"{name or 'the method'}.{key}"
            assert tensor.data_ptr() in saved, (
                f"{where} is a tensor outside the state dict: a resumed run would lose it"
            )


def check_resume_is_exact(method: type[Method], **options: Any) -> None:
    """Half a run, saved, loaded into another one and finished, equals the whole run bit by bit."""
    whole = toy_run(method, **options)
    fit(whole)
    half = toy_run(method, **options)
    stop_after(half, STEPS // 2)
    file = io.BytesIO()
    torch.save(half.state(), file)
    file.seek(0)
    resumed = scrambled(toy_run(method, **options))
    resumed.load(torch.load(file, weights_only=True))
    fit(resumed)
    for part in ("method", "ema", "optimizer"):
        expected, got = whole.state()[part], resumed.state()[part]
        assert checkpoint.digest(expected) == checkpoint.digest(got), (
            f"the {part} of a resumed run differs{first_difference(expected, got)}"
        )


def check_an_empty_mask_is_finite(method: type[Method], **options: Any) -> None:
    """With predictions so flat that no row is confident, a step stays finite."""
    run = sharpened(toy_run(method, **options), by=0.0)
    stop_after(run, 1)
    assert_finite(run, "on a batch without a confident row")


def check_labels_of_unlabeled_images_are_not_read(method: type[Method], **options: Any) -> None:
    """Training does not change when the labels behind the unlabeled images are garbage."""
    honest, garbage = (
        toy_run(method, **options),
        toy_run(method, split=with_garbage_labels(toy_split()), **options),
    )
    fit(honest)
    fit(garbage)
    same = checkpoint.digest(honest.method.state_dict()) == checkpoint.digest(garbage.method.state_dict())
    assert same, "the labels of unlabeled images changed the result"


def check_predictions_do_not_depend_on_batch_mates(method: type[Method], **options: Any) -> None:
    """The averaged model gives an image the same logits alone and among others, in any order."""
    run = toy_run(method, **options)
    fit(run)
    images = next(run.batches.sweep(run.split.unlabeled, "plain"))[:6]
    with torch.no_grad():
        among = run.ema.model(images)
        alone = torch.cat([run.ema.model(image[None]) for image in images])
        turned = run.ema.model(images.flip(0)).flip(0)
    torch.testing.assert_close(
        among, alone, atol=1e-4, rtol=1e-4, msg=lambda m: f"a prediction depends on its batch: {m}"
    )
    torch.testing.assert_close(
        among, turned, atol=1e-4, rtol=1e-4, msg=lambda m: f"a prediction depends on order: {m}"
    )


def check_labels_can_come_first(method: type[Method], **options: Any) -> None:
    """A run may begin with steps on labeled images alone; the method then starts as if at step 0."""
    cfg = replace(toy_config(method, **options), labels_first=STEPS // 2)
    run = Run(cfg, toy_split(), method)
    fit(run)
    assert_finite(run, "after a start on labels alone")


def toy_split(*, num_labeled: int = 6, num_unlabeled: int = 18) -> Split:
    """Three kinds of small grey pictures, with noise: learnable in a few steps."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num_labeled + num_unlabeled + 9) % NUM_CLASSES
    patterns = torch.zeros(NUM_CLASSES, 1, 8, 8)
    patterns[0, :, :, 2:6], patterns[1, :, 2:6, :], patterns[2, :, 3:5, 3:5] = 200, 200, 250
    noise = torch.rand(len(labels), 1, 8, 8, generator=generator) * 50
    images = Images((patterns[labels] + noise).to(torch.uint8), labels)
    ends = [num_labeled, num_labeled + num_unlabeled, len(labels)]
    labeled, unlabeled, test = (
        images.subset(torch.arange(a, b)) for a, b in zip([0, *ends], ends, strict=False)
    )
    return Split(
        labeled=labeled,
        unlabeled=unlabeled,
        validation=None,
        tests={"test": test},
        num_classes=NUM_CLASSES,
        class_names=("columns", "rows", "dot"),
        class_weights=None,
        mean=(0.3,),
        std=(0.35,),
        record=SplitRecord(tuple(range(num_labeled))),
    )


def toy_config(method: type[Method], **options: Any) -> Config:
    """A small configuration with these options of the method."""
    return replace(
        compose(method)(),
        method=method.Config(name=method.name, **options),
        model=ModelConfig(name="cnn"),
        optimizer=OptimizerConfig(rate=0.02),
        ema=EmaConfig(decay=0.9, warmup=False),
        batch=4,
        mu=2,
        steps=STEPS,
        threads=1,
        device="cpu",
    )


def toy_run(method: type[Method], *, split: Split | None = None, **options: Any) -> Run:
    """A run of `method` on the toy pictures, ready for its first step."""
    return Run(toy_config(method, **options), split or toy_split(), method)


def stop_after(run: Run, steps: int) -> None:
    """Take the first steps of a run and leave it there."""

    class Enough(Exception):
        pass

    def count() -> None:
        if run.step == steps:
            raise Enough

    try:
        fit(run, count)
    except Enough:
        return


def sharpened(run: Run, *, by: float) -> Run:
    """The run with its classifier's weights multiplied: by 30, and it is sure of all; by 0, of nothing."""
    with torch.no_grad():
        run.method.model.head.weight.mul_(by)
    return run


def scrambled(run: Run) -> Run:
    """The run with noise in every floating-point tensor that a checkpoint must put right."""
    generator = torch.Generator().manual_seed(1)
    for tensor in [*run.method.state_dict().values(), *run.ema.state_dict().values()]:
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator))
    return run


def with_garbage_labels(split: Split) -> Split:
    """The same split with wrong labels behind its unlabeled images."""
    unlabeled = split.unlabeled
    rows = torch.arange(len(unlabeled))
    garbage = Images(unlabeled.take(rows), (unlabeled.labels_of() + 1) % split.num_classes)
    return replace(split, unlabeled=garbage)


def assert_finite(run: Run, when: str) -> None:
    """All that a run has logged and all that its method holds are finite numbers."""
    try:
        logged = run.meter.drain()
    except NotFinite as error:
        raise AssertionError(f"{when}: {error}") from error
    for name, value in logged.items():
        assert math.isfinite(value), f"{when}: '{name}' is {value}"
    for name, tensor in run.method.state_dict().items():
        assert tensor.isfinite().all(), f"{when}: '{name}' is not finite"


def moves_a_weight(term: Tensor, method: Method) -> bool:
    """Whether the gradient of `term` is not zero everywhere."""
    parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
    if not term.requires_grad:
        return False
    gradients = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
    return any(gradient is not None and bool(gradient.any()) for gradient in gradients)


def loose_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Tensors that a module holds, buffers among them, in attributes, lists, tuples and dicts."""
    for key, value in vars(module).items():
        if key not in ("_parameters", "_modules"):
            yield from (
                (key if key != "_buffers" else name, tensor) for name, tensor in tensors_in(value, key)
            )


def tensors_in(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor inside nested lists, tuples and dicts, with a name for it."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors_in(item, str(key))
    elif isinstance(value, list | tuple | set):
        for index, item in enumerate(value):
            yield from tensors_in(item, f"{name}[{index}]")


def first_difference(expected: Any, got: Any) -> str:
    """Where two nested states part, for a message."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in expected:
            if key not in got:
                return f": {key} is missing"
            if checkpoint.digest(expected[key]) != checkpoint.digest(got[key]):
                return f" at {key}{first_difference(expected[key], got[key])}"
    return ""
