"""A classifier that looks at prototypes of the classes before it decides."""

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from interlude.models.classifier import Backbone, Classifier, Midway
from interlude.models.dropout import RowDropout
from interlude.models.registry import classifier_kind

DROPOUT = 0.1


class Attention(nn.Module):
    """Embeddings (N, D) refined by what they find among prototypes (P, D); a head is D / num_heads wide."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.shape = (num_heads, max(1, width // num_heads))
        heads, narrow = self.shape
        self.embed = nn.Linear(width, heads * narrow)  # one map for embeddings and prototypes
        self.merge = nn.ModuleList(nn.Linear(2 * narrow, narrow) for _ in range(heads))
        self.out = nn.Linear(heads * narrow, width)
        self.dropout = RowDropout(DROPOUT, dim=1)

    def forward(self, z: Tensor, prototypes: Tensor, valid: Tensor) -> Tensor:
        """Only `valid` (P,) prototypes are looked at."""
        own, known = self._per_head(z), self._per_head(prototypes)
        scores = own @ known.transpose(1, 2) / math.sqrt(self.shape[1])
        # finite, so that the rows of a network that has no prototype yet are numbers
        scores = scores.masked_fill(~valid, torch.finfo(scores.dtype).min)
        found = torch.cat([self.dropout(scores.softmax(-1)) @ known, own], dim=-1)
        merged = [F.relu(merge(rows)) for merge, rows in zip(self.merge, found, strict=True)]
        refined: Tensor = F.relu(z + self.out(torch.cat(merged, dim=-1)))
        return refined

    def _per_head(self, rows: Tensor) -> Tensor:
        embedded: Tensor = self.embed(rows).unflatten(-1, self.shape)
        return embedded.transpose(0, 1)  # (heads, N, D / heads)


@classifier_kind("refined")
class RefinedClassifier(Classifier):
    """The head judges embeddings refined by attention over prototypes; without any, the embeddings."""

    prototypes: Tensor
    valid: Tensor

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        *,
        precision: str = "fp32",
        num_heads: int = 4,
        num_prototypes: int = 1,
    ) -> None:
        super().__init__(backbone, num_classes, precision=precision)
        self.attention = Attention(self.num_features, num_heads)
        self.register_buffer("prototypes", torch.zeros(num_prototypes, self.num_features))
        self.register_buffer("valid", torch.zeros(num_prototypes, dtype=torch.bool))

    def sizes(self) -> dict[str, int]:
        """How many heads, and for how many prototypes there is room."""
        return {"num_heads": self.attention.shape[0], "num_prototypes": len(self.prototypes)}

    @torch.no_grad()
    def set_prototypes(self, prototypes: Tensor) -> None:
        """From now on look at these (n, D), at most as many as there is room for."""
        self.prototypes.zero_()[: len(prototypes)] = prototypes
        self.valid.zero_()[: len(prototypes)] = True

    def refine(self, z: Tensor) -> Tensor:
        """Embeddings after a look at the prototypes, as they were if there are none."""
        refined = self._apply_part(self.attention, z, self.prototypes, self.valid)
        return torch.where(self.valid.any(), refined, z)

    def forward(self, images: Tensor, midway: Midway | None = None, at: str = "embedding") -> Tensor:
        """Logits (N, num_classes) of the refined embeddings."""
        return self.classify(self.refine(self.features(images, midway=midway, at=at)))


def prototypes_of(z: Tensor, count: int, seed: int) -> Tensor:
    """Of embeddings (n, D) of one class: their mean and `count - 1` centroids, or all of them if fewer."""
    if not len(z):
        return z
    return torch.cat([z.mean(0, keepdim=True), z if len(z) < count else centroids(z, count - 1, seed)])


def centroids(z: Tensor, count: int, seed: int) -> Tensor:
    """The means of the clusters that k-means finds among the directions of `z`; fewer if rows repeat."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # a training that diverged is reported by its loss: what is no number must not stop it here
    directions = F.normalize(z, dim=-1).nan_to_num().double().cpu().numpy()
    # so small a task is slowed by threads, and their sums come in any order
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that repeat
        clusters = torch.from_numpy(KMeans(count, n_init=1, random_state=seed).fit_predict(directions))
    return torch.stack([z[clusters.to(z.device) == cluster].mean(0) for cluster in clusters.unique()])
