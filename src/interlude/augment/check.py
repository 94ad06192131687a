"""The public conformance test of augmentations: what the rest of the project relies on."""

import torch
from torch import Generator, Tensor

from interlude.augment.draw import Augmentation, Draw, take

SIZES = ((1, 16, 16), (3, 32, 32), (3, 17, 23), (1, 9, 5))  # channels, height, width


def check_augmentation(augmentation: Augmentation, images: Tensor | None = None) -> None:
    """Raise an AssertionError that says what is wrong, if anything is.

    Without `images` (uint8, (N, C, H, W)) the check makes its own: grey and colour, even and odd sizes.
    """
    for batch in [_noise(6, *size) for size in SIZES] if images is None else [images]:
        draw = _draw(augmentation, len(batch))
        _check_draw(augmentation, draw, len(batch))
        _check_output(augmentation, batch, draw)
        _check_rows_are_independent(augmentation, batch, draw)
        _check_sharing(augmentation, batch)
        _check_few_rows(augmentation, batch)


def _check_draw(augmentation: Augmentation, draw: Draw, n: int) -> None:
    for name, values in draw.items():
        assert len(values) == n, f"draw(n={n}) has {len(values)} rows of {name!r}: the first axis must be n"
        assert values.device.type == "cpu", f"{name!r} is drawn on {values.device}: draws are made on the CPU"
    again = _draw(augmentation, n)
    for name, values in draw.items():
        assert torch.equal(values, again[name]), (
            f"{name!r} differs between draws from equal generators: all chance must come from `generator`"
        )


def _check_output(augmentation: Augmentation, images: Tensor, draw: Draw) -> None:
    before, drawn = images.clone(), {name: values.clone() for name, values in draw.items()}
    views = augmentation.apply(images, draw)
    assert views.dtype == torch.uint8, f"apply gave {views.dtype} for uint8 images"
    assert views.shape == images.shape, f"apply gave shape {tuple(views.shape)} for {tuple(images.shape)}"
    assert views.device == images.device, f"apply moved images from {images.device} to {views.device}"
    assert torch.equal(images, before), "apply modified the images it was given"
    assert views.numel() == 0 or views.data_ptr() != images.data_ptr(), (
        "apply returned its input, not a new tensor"
    )
    for name, values in draw.items():
        assert torch.equal(values, drawn[name]), f"apply modified {name!r} of the draw it was given"
    again = augmentation.apply(images, draw)
    assert torch.equal(views, again), "equal draws gave different images: apply must use no chance of its own"


def _check_rows_are_independent(augmentation: Augmentation, images: Tensor, draw: Draw) -> None:
    views = augmentation.apply(images, draw)
    for rows in (torch.arange(len(images)).flip(0), torch.arange(0, len(images), 2)):
        here = rows.to(images.device)
        moved = augmentation.apply(images[here], take(draw, rows))
        assert torch.equal(moved, views[here]), (
            "an image's view changed with its place or its neighbours: row i may depend on row i alone"
        )
    for row in range(min(len(images), 4)):
        alone = augmentation.apply(images[row : row + 1], take(draw, torch.tensor([row])))
        assert torch.equal(alone[0], views[row]), f"row {row} alone differs from row {row} in the batch"


def _check_sharing(augmentation: Augmentation, images: Tensor) -> None:
    copies = images[:1].expand(8, -1, -1, -1).contiguous()
    group_of_row = torch.arange(8) // 4
    views = augmentation.apply(copies, take(_draw(augmentation, 2), group_of_row))
    for group in torch.split(views, 4):
        assert (group == group[:1]).all(), "copies of an image that share one realisation came out different"


def _check_few_rows(augmentation: Augmentation, images: Tensor) -> None:
    for n in (0, 1):
        views = augmentation.apply(images[:n], _draw(augmentation, n))
        assert views.shape == images[:n].shape, f"a batch of {n} images gave shape {tuple(views.shape)}"


def _draw(augmentation: Augmentation, n: int) -> Draw:
    return augmentation.draw(n, Generator().manual_seed(n))


def _noise(n: int, *size: int) -> Tensor:
    return torch.randint(256, (n, *size), generator=Generator().manual_seed(0), dtype=torch.uint8)
