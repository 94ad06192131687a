"""The linear probe: logistic regression on the vectors of a frozen network, as the head of that network."""

import numpy as np
import torch

from interlude.features.controls import fit_logistic
from interlude.models import evaluating
from interlude.run import Run


def fit_probe(run: Run) -> None:
    """Give the averaged model of a run with a linear head the weights of a regression on its labels."""
    network, labeled = run.ema.model, run.split.labeled
    with evaluating(network):
        scaled = torch.cat([network.features(vectors) for vectors in run.batches.clean(labeled)])
    # by accuracy each run would choose a strength of its own, and a calibration on some would not fit others
    fitted = fit_logistic(scaled.cpu().numpy(), labeled.labels_of().numpy(), "neg_log_loss")
    weight, bias = fitted.coef_, fitted.intercept_
    if len(weight) == 1:  # two classes: one row says how much the second is preferred
        weight, bias = np.concatenate([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
    with torch.no_grad():
        network.head.weight.copy_(torch.from_numpy(weight))
        network.head.bias.copy_(torch.from_numpy(bias))
    run.step = run.cfg.steps
