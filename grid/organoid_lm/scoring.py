"""The loss of a batch, and the scores of held-out windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from .model import UNKNOWN, OrganoidModel, Units
from .samples import WindowSamples

LOCATING = 1.0
"""Weight of the loss of the head that finds the stimulated electrode."""
ROWS = 256
LEAST = 1e-3
"""Smallest expected count of the board held-out-spikes."""


def loss_of(model: OrganoidModel, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the mean loss of a batch.

    It is the negative log-likelihood of the counts that follow (Poisson; nats an electrode, without the constant), and of
    the stimulated electrode where there was a pulse.
    """
    units = model.known(batch)
    expected = model.expected(units, batch["past"], batch["pulse"], batch["pulse_s"])
    real = batch["answer"].unflatten(1, (expected.shape[2], -1)).sum(dim=2).transpose(1, 2)
    each = (torch.exp(expected) - real * expected).sum(dim=2) * batch["present"]
    spikes = (each.sum(dim=1) / batch["present"].sum(dim=1)).mean()
    return spikes + LOCATING * _located(model, units, batch)


def _located(model: OrganoidModel, units: Units, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the cross-entropy of the stimulated electrode, summed over the trials, for each row of the batch."""
    is_trial = batch["pulse"][:, 0] != UNKNOWN
    rows = is_trial.nonzero().squeeze(1) if bool(is_trial.any()) else torch.zeros(1, dtype=torch.int64)
    chosen = Units(units.tokens[rows], batch["present"][rows], units.log_mean[rows])
    scores = model.located(chosen, batch["answer"][rows])
    scores = scores.masked_fill(~_candidates(batch)[rows], -1e9)
    loss = functional.cross_entropy(scores, batch["pulse"][rows, 0].clamp(min=0), reduction="none")
    return (loss * is_trial[rows]).sum() / len(is_trial)


def _candidates(batch: Mapping[str, Tensor]) -> Tensor:
    """Return which electrodes may have been stimulated; all that exist where none was."""
    return torch.where(batch["sites"].any(dim=1, keepdim=True), batch["sites"], batch["present"])


def scores_of(model: OrganoidModel, samples: WindowSamples) -> dict[str, float]:
    """Return the scores of windows; what no window asks for is left out.

    They are `loss`, `bits_per_spike` of spontaneous windows (above the mean rates of each recording), `accuracy` of trials.
    """
    was = model.training
    model.eval()
    with torch.no_grad():
        parts = [
            _part(model, samples, range(first, min(first + ROWS, len(samples))))
            for first in range(0, len(samples), ROWS)
        ]
    model.train(was)
    found = {"loss": sum(each.loss for each in parts) / len(samples)}
    of, expected, real = (np.concatenate([each[n] for each in parts]) for n in range(1, 4))
    if len(of):
        each_one = [bits_per_spike(expected[of == number], real[of == number]) for number in np.unique(of)]
        found["bits_per_spike"] = float(np.mean(each_one))
    right = np.concatenate([each.right for each in parts])
    if len(right):
        found["accuracy"] = float(right.mean())
    return found


class _Part(NamedTuple):
    """Figures of some windows.

    Of all: the sum of their losses. Of spontaneous ones: the recording, and the expected and real counts of what follows. Of
    trials: whether the electrode was found.
    """

    loss: float
    of: NDArray[np.int64]
    expected: NDArray[np.float64]
    real: NDArray[np.float64]
    right: NDArray[np.bool_]


def _part(model: OrganoidModel, samples: WindowSamples, indices: range) -> _Part:
    batch = samples.batch(indices)
    units = model.known(batch)
    is_trial = batch["pulse"][:, 0] != UNKNOWN
    free = ~is_trial
    expected = model.expected(units, batch["past"], batch["pulse"], batch["pulse_s"]).exp().sum(dim=2)
    expected = expected * batch["present"]
    scores = model.located(units, batch["answer"]).masked_fill(~_candidates(batch), -1e9)
    return _Part(
        float(loss_of(model, batch)) * len(indices),
        samples.recording_of[indices.start : indices.stop][free.numpy()],
        expected[free].double().numpy(),
        batch["answer"].sum(dim=1)[free].double().numpy(),
        (scores.argmax(dim=1) == batch["pulse"][:, 0])[is_trial].numpy(),
    )


def bits_per_spike(predicted: NDArray[np.float64], real: NDArray[np.float64]) -> float:
    """Return the Poisson log-likelihood of counts (rows, electrodes) above that of their mean, in bits a spike."""
    expected = np.maximum(predicted, LEAST)
    mean = np.maximum(real.mean(axis=0, keepdims=True), LEAST)
    gained = (real * np.log(expected / mean) - expected + mean).sum()
    return float(gained / max(float(real.sum()), 1.0) / math.log(2.0))
