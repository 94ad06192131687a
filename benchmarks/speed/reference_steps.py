"""Reference side: whole training steps of the authors' InterLUDE and of USB's FixMatch, written by us.

From descriptions of what they do: per-image Pillow augmentation in a data set of PIL images, batches by
collation, NCHW, plain SGD, an EMA that loops over tensors, numbers read out of tensors and lines printed at
every step. The loader has no workers: CPU time counts all processes' work anyway.
"""

import copy
import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from reference_network import WideResNet
from reference_pillow import AuthorsRandAugment, Pipeline, UsbRandAugment
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

DECAY, THRESHOLD, FUSION = 0.999, 0.95, 0.1
CLASSES = 10
MANY = 10**6


class PairedPictures(Dataset):
    """The authors' items: a labeled picture and `mu` unlabeled ones, each in its own weak and strong view."""

    def __init__(self, labeled: np.ndarray, unlabeled: np.ndarray, mu: int) -> None:
        self.labeled, self.unlabeled, self.mu = labeled, unlabeled, mu
        self.indices = list(range(len(unlabeled)))
        self.pipeline = Pipeline(labeled.shape[1], AuthorsRandAugment())

    def __len__(self) -> int:
        return len(self.labeled)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        x_weak, x_strong = self.pipeline(Image.fromarray(self.labeled[index]))
        chosen = random.sample(self.indices, self.mu)
        pairs = [self.pipeline(Image.fromarray(self.unlabeled[i])) for i in chosen]
        u_weak, u_strong = (torch.stack(views) for views in zip(*pairs, strict=True))
        return x_weak, x_strong, u_weak, u_strong, index % CLASSES


class UsbPictures(Dataset):
    """USB's items: a dictionary of views."""

    def __init__(self, pictures: np.ndarray, *, labeled: bool) -> None:
        self.pictures, self.labeled = pictures, labeled
        self.pipeline = Pipeline(pictures.shape[1], UsbRandAugment())

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> dict[str, Any]:
        picture = Image.fromarray(self.pictures[index])
        if self.labeled:
            return {"idx_lb": index, "x_lb": self.pipeline.weak(picture), "y_lb": index % CLASSES}
        weak, strong = self.pipeline(picture)
        return {"idx_ulb": index, "x_ulb_w": weak, "x_ulb_s": strong}


def forever(data: Dataset, batch: int) -> Iterator[Any]:
    """Batches without end."""
    sampler = RandomSampler(data, replacement=True, num_samples=batch * MANY)
    return iter(DataLoader(data, batch_size=batch, sampler=sampler, num_workers=0, drop_last=True))


def authors_ema(average: nn.Module, model: nn.Module) -> None:
    """A loop over the tensors of two state dicts: parameters averaged, buffers copied."""
    with torch.no_grad():
        new, old = model.state_dict(), average.state_dict()
        for name, _ in model.named_parameters():
            old[name].copy_(old[name] * DECAY + (1.0 - DECAY) * new[name].detach())
        for name, _ in model.named_buffers():
            old[name].copy_(new[name])


class UsbEma:
    """Averages in a dictionary, loaded into a second network after every step."""

    def __init__(self, model: nn.Module) -> None:
        self.average = copy.deepcopy(model)
        self.shadow = {name: value.data.clone() for name, value in model.named_parameters()}

    def update(self, model: nn.Module) -> None:
        for name, value in model.named_parameters():
            self.shadow[name] = ((1.0 - DECAY) * value.data + DECAY * self.shadow[name]).clone()
        self.average.load_state_dict(model.state_dict())
        self.average.load_state_dict(self.shadow, strict=False)


def sgd(model: nn.Module) -> tuple[torch.optim.Optimizer, Any]:
    """SGD with Nesterov momentum, no decay of norms and biases; the rate falls with a cosine."""
    plain = [value for name, value in model.named_parameters() if "bn" in name or "bias" in name]
    decayed = [value for name, value in model.named_parameters() if "bn" not in name and "bias" not in name]
    groups = [{"params": decayed, "weight_decay": 5e-4}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=0.03, momentum=0.9, nesterov=True)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: np.cos(7 * np.pi * step / (16 * MANY)))
    return optimizer, rate


class AuthorsStep:
    """InterLUDE's step in the authors' release."""

    def __init__(self, labeled: np.ndarray, unlabeled: np.ndarray, *, batch: int, mu: int, net: Any) -> None:
        self.batch, self.mu = batch, mu
        self.batches = forever(PairedPictures(labeled, unlabeled, mu), batch)
        self.model = WideResNet(*net, CLASSES, fusion=FUSION).train()
        self.average = copy.deepcopy(self.model)
        self.optimizer, self.rate = sgd(self.model)
        self.log = open(os.devnull, "w")  # noqa: SIM115, PTH123

    def __call__(self) -> None:
        *views, y = next(self.batches)
        logits = self.model(self.interleave(views))
        loss, numbers = self.losses(logits, y)
        loss.backward()
        norms = [
            value.grad.detach().norm(2).item() for value in self.model.parameters() if value.grad is not None
        ]
        self.optimizer.step()
        self.rate.step()
        authors_ema(self.average, self.model)
        self.model.zero_grad()
        print({name: number.item() for name, number in numbers.items()}, sum(norms), file=self.log)

    def interleave(self, views: list[Tensor]) -> Tensor:
        """Group after group: labeled and unlabeled weak views, then the strong ones."""
        x_weak, x_strong, u_weak, u_strong = views
        rows = torch.cat([x_weak[:, None], u_weak, x_strong[:, None], u_strong], dim=1).flatten(0, 1)
        print(rows.shape, file=self.log)
        return rows

    def losses(self, logits: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The objective and the thirteen numbers that are read at every step."""
        groups = logits.view(self.batch, 2, 1 + self.mu, -1)
        x_weak, x_strong = groups[:, 0, 0], groups[:, 1, 0]
        u_weak, u_strong = groups[:, 0, 1:].flatten(0, 1), groups[:, 1, 1:].flatten(0, 1)
        supervised = F.cross_entropy(x_weak, y)
        confidence, label = u_weak.detach().softmax(-1).max(-1)
        mask = confidence.ge(THRESHOLD).float()
        print(mask.shape, file=self.log)
        unlabeled = (F.cross_entropy(u_strong, label, reduction="none") * mask).mean()
        delta_x = (x_weak.softmax(-1) - x_strong.softmax(-1)).detach()
        delta_u = (u_weak.softmax(-1) - u_strong.softmax(-1)).view(self.batch, self.mu, -1).mean(1)
        delta = F.mse_loss(delta_u, delta_x)
        loss = supervised + unlabeled + delta
        kept = {"mask": mask.mean(), "confidence": confidence.mean(), "kept": mask.sum()}
        terms = {"loss": loss, "supervised": supervised, "unlabeled": unlabeled, "delta": delta}
        changes = {"delta_x": delta_x.norm(dim=-1).mean(), "delta_u": delta_u.norm(dim=-1).mean()}
        right = {
            f"right_{i}": (view.argmax(-1) == y).float().mean() for i, view in enumerate((x_weak, x_strong))
        }
        scaled = {"weighted_unlabeled": 1.0 * unlabeled, "weighted_delta": 1.0 * delta}
        return loss, {**terms, **kept, **changes, **right, **scaled}


class UsbStep:
    """FixMatch's step in USB, one pass over the concatenated batch."""

    def __init__(self, labeled: np.ndarray, unlabeled: np.ndarray, *, batch: int, mu: int, net: Any) -> None:
        self.labeled = forever(UsbPictures(labeled, labeled=True), batch)
        self.unlabeled = forever(UsbPictures(unlabeled, labeled=False), batch * mu)
        self.model = WideResNet(*net, CLASSES).train()
        self.ema = UsbEma(self.model)
        self.optimizer, self.rate = sgd(self.model)

    def __call__(self) -> None:
        items = {**next(self.labeled), **next(self.unlabeled)}
        logits = self.model(torch.cat([items["x_lb"], items["x_ulb_w"], items["x_ulb_s"]]))
        logits_x = logits[: len(items["y_lb"])]
        logits_weak, logits_strong = logits[len(items["y_lb"]) :].chunk(2)
        supervised = F.cross_entropy(logits_x, items["y_lb"])
        confidence, label = logits_weak.detach().softmax(-1).max(-1)
        mask = confidence.ge(THRESHOLD).to(confidence.dtype)
        unlabeled = (F.cross_entropy(logits_strong, label, reduction="none") * mask).mean()
        loss = supervised + unlabeled
        self.read = [value.item() for value in (supervised, unlabeled, loss, mask.mean())]
        loss.backward()
        self.optimizer.step()
        self.rate.step()
        self.model.zero_grad()
        self.ema.update(self.model)
