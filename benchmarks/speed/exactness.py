"""How many values of our strong views differ from the authors' Pillow pipeline for given parameters."""

from typing import Any

import measure
import ours
import reference_pillow
import torch
from torch import Tensor

from interlude import augment
from interlude.augment import Draw

IMAGES = {32: 1024, 96: 256}


def rows() -> list[dict[str, Any]]:
    """The count of each back end, over both sizes."""
    conditions = " and ".join(f"{count} images of {size}x{size}" for size, count in IMAGES.items())
    return [
        measure.row(
            f"exact-{backend}", [float(differing(backend))], conditions=f"{conditions}, all operations"
        )
        for backend in ours.backends()
    ]


def differing(backend: str) -> int:
    """Values of network inputs that are not bit for bit those made of Pillow's bytes."""
    strong, total = augment.build()["strong"], 0
    for size, count in IMAGES.items():
        images = ours.pixels(count, size)
        draw = strong.draw(count, torch.Generator().manual_seed(size))
        wanted = augment.normalize(pillow_views(images, draw), reference_pillow.MEAN, reference_pillow.STD)
        got = augment.render(
            images, strong, draw, reference_pillow.MEAN, reference_pillow.STD, backend=backend
        )
        total += int((got != wanted).sum())
    return total


def pillow_views(images: Tensor, draw: Draw) -> Tensor:
    """Strong views by the reference, uint8 (N, 3, H, W), with the numbers of one of our draws."""
    size = images.shape[-1]
    operations = [operation.name for operation in augment.policies.natural().operations.operations]
    places = 2 * int(size * reference_pillow.PADDING) + 1
    views = [
        reference_pillow.replay(
            image.permute(1, 2, 0).numpy(),
            flip=bool(draw["flip"][row]),
            start=tuple((draw["crop"][row].double() * places).int().tolist()),
            steps=[
                (
                    operations[draw["operation"][row, slot]],
                    int(draw["level"][row, slot]),
                    int(draw["sign"][row, slot]),
                )
                for slot in draw["applied"][row].nonzero().flatten()
            ],
            centre=tuple((draw["centre"][row].double() * size).flip(0).tolist()),
        )
        for row, image in enumerate(images)
    ]
    return torch.stack([torch.from_numpy(view).permute(2, 0, 1) for view in views])


if __name__ == "__main__":
    measure.main(rows)
