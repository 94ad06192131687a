"""SimMatchV2 (Zheng et al., 2023), https://arxiv.org/abs/2308.06692.

Views are the nodes of a graph, their similarities its edges. The labels of the nearest labeled images flow
along edges into a target; and the strong view should agree with the teacher's weak view in its class, in
its edges to a bank of unlabeled images, and in the class that these edges give it.

Symbols: tau `threshold`, t `temperature`, alpha `flow`, lambda_nn `node_weight`, lambda_ee `edge_weight`,
lambda_ne `node_edge_weight`, p^w `q` (aligned), y-hat `target`, e `edges`, A `edges` inside `propagate`.

Where public code differs: the authors' (ImageNet only) starts the predictions of its unlabeled bank at 0,
so that the node-edge loss is log 0, and sets any loss that is no number to 0; here empty places of a bank
have no say. Theirs fails with fewer labels than neighbours, and with a bank of no whole number of batches;
it inverts a matrix, of similarities in half precision, where we solve in float32. Their teacher shuffles
batches between GPUs for BatchNorm; ours uses running statistics (their EMAN). No setting for CIFAR or
STL-10 was published: threshold and weights here are SimMatch's; for ImageNet they are 0.7 and 10, 10, 10
(1 % of the labels) or 10, 5, 5 (10 %).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.models.normalized import NormalizedClassifier
from interlude.options import option
from interlude.parts.average import Average
from interlude.parts.bank import NEVER, Projector, Ring, Slots, Teacher, embed
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.targets import align, one_hot

FLOOR = 1e-12  # inside the logarithm of a prediction made by edges


@register
class SimMatchV2(Method):
    """A teacher's targets for class, edges and class by edges, refined by the labels of near images."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        threshold: float = option(0.95, "confidence threshold tau (ImageNet: 0.7)", at_least=0, at_most=1)
        temperature: float = option(0.1, "of similarities of embeddings, t", above=0)
        flow: float = option(0.1, "how much of a label flows along an edge, alpha", at_least=0, below=1)
        num_neighbours: int = option(128, "labeled images in the graph of a target, if there are", at_least=1)
        node_weight: float = option(1.0, "weight of the node-node term, lambda_nn", at_least=0)
        edge_weight: float = option(1.0, "weight of the edge-edge term, lambda_ee", at_least=0)
        node_edge_weight: float = option(1.0, "weight of the node-edge term, lambda_ne", at_least=0)
        strong_views: int = option(1, "strong views of an unlabeled image (ImageNet: 5)", at_least=1)
        bank: int = option(
            81920,
            "unlabeled rows remembered, at most one per image (ImageNet: 256 batches of 320)",
            at_least=1,
        )
        width: int = option(128, "length of an embedding", at_least=1)
        feature_norm: bool = option(True, "LayerNorm before the heads, at prediction too")
        decay: float = option(0.999, "EMA factor of the teacher", at_least=0, at_most=1)
        decay_warmup: bool = option(True, "let the teacher follow faster at first, for short runs")
        prior_decay: float = option(0.9, "EMA factor of the mean prediction", at_least=0, at_most=1)

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, NormalizedClassifier.around(model) if cfg.feature_norm else model, task)
        self.unlabeled = ("weak", *("strong",) * cfg.strong_views)
        self.projector = Projector(model.num_features, cfg.width)
        self.teacher = Teacher(self.model, self.projector, cfg.decay, warmup=cfg.decay_warmup)
        self.labeled_bank = Slots(task.labels, cfg.width)
        self.bank = Ring(min(cfg.bank, task.num_unlabeled), cfg.width, task.num_classes)
        self.prior = Average(torch.full((task.num_classes,), 1 / task.num_classes), cfg.prior_decay)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, *u_strong) = batch.x, batch.y, batch.u
        (logits_x, *logits), (_, *z) = embed(self.model, self.projector, x, *u_strong)
        logits_strong, edges_strong = torch.cat(logits), self.edges(torch.cat(z))
        log_node = (edges_strong.softmax(-1) @ self.bank.q).clamp_min(FLOOR).log()

        (_, logits_weak), (z_x, z_weak) = self.teacher(x, u_weak)
        p = probabilities(logits_weak)
        q = align(p, self.prior.value, 1 / self.task.num_classes)
        mask = q.max(-1).values >= self.cfg.threshold
        target = self.propagate(q, z_weak)
        edges = self.edges(z_weak).softmax(-1)

        of = torch.arange(len(q), device=q.device).repeat(len(u_strong))  # whose target a strong row has
        yield Objective(
            supervised=self.supervised(logits_x, y),
            node_node=self.cfg.node_weight * masked_mean(cross_entropy(logits_strong, target[of]), mask[of]),
            edge_edge=self.cfg.edge_weight * cross_entropy(edges_strong, edges[of]).mean(),
            node_edge=self.cfg.node_edge_weight * cross_entropy(log_node, q[of]).mean(),
        ).log(mask=mask)

        self.prior.update(p.mean(0))
        self.labeled_bank.write(batch.rows_x, z_x)
        self.bank.push(z_weak, q)
        self.teacher.update(self.model, self.projector)

    def edges(self, z: Tensor) -> Tensor:
        """From embeddings to the bank of unlabeled rows, before their softmax."""
        return self.bank.similarity(z) / self.cfg.temperature

    @torch.no_grad()
    def propagate(self, q: Tensor, z: Tensor) -> Tensor:
        """`(1 - a) (I - a A)^-1 [q; labels]`, the row of the image itself (N, K).

        The graph holds the image and its nearest labeled ones; its edges A sum to 1 at each node. A labeled
        image not seen yet has no edges; while there is no other, `q` stays as it is.
        """
        bank, flow = self.labeled_bank, self.cfg.flow
        near = bank.similarity(z).topk(min(self.cfg.num_neighbours, len(bank.labels))).indices
        nodes = torch.cat([z[:, None], bank.z[near]], dim=1)
        labels = torch.cat([q[:, None], one_hot(bank.labels[near], q)], dim=1)
        itself = torch.eye(nodes.shape[1], device=z.device)
        unseen = F.pad(~bank.seen[near], (1, 0))[:, None]
        edges = (nodes @ nodes.mT / self.cfg.temperature).masked_fill(itself > 0, NEVER)
        edges = edges.masked_fill(unseen, 2 * NEVER).softmax(-1)
        received: Tensor = torch.linalg.solve(itself - flow * edges, labels)[:, 0]
        return (1 - flow) * received
