"""Take a model to a new organoid with minutes of its recording, and to a board."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .boards import ExpectedSpikes, StimulatedElectrode
from .fit import FitPlan, fit
from .model import OrganoidModel, hashes, welcomed
from .recordings import OrganoidRecording
from .samples import WindowSamples, windows

TUNED = FitPlan(steps=300, rows=64, rate=1e-3, warm=20, look=50)
"""How a trained model learns a new organoid."""


def tune(
    model: OrganoidModel,
    recording: OrganoidRecording,
    *,
    course: FitPlan = TUNED,
    seed: int = 1,
    embedded: bool = True,
    say: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Train a model on the recording of one organoid.

    Args:
        model: It is changed.
        recording: Of the organoid.
        course: How.
        seed: Of the order of windows.
        embedded: Whether it learns embeddings of the electrodes, which are of no use for organoids that no one has seen.
        say: As for :func:`.fit.fit`.
    """
    welcomed(model, recording.organoid, recording.electrodes)
    model.forgotten = 0.0 if embedded else 1.0
    fit(model, WindowSamples([recording], known=True), course, seed=seed, say=say)
    model.eval()


def middled(recording: OrganoidRecording) -> Tensor:
    """Return the places of the electrodes from the middle of the array (µm)."""
    return torch.from_numpy(recording.place_um - recording.place_um.mean(axis=0)).float()


def expecting(model: OrganoidModel, recording: OrganoidRecording, *, embedded: bool) -> ExpectedSpikes:
    """Return the model as `held-out-spikes` calls it."""
    return ExpectedSpikes(model, middled(recording), _embedded(model, recording) if embedded else None)


def locating(
    model: OrganoidModel, recording: OrganoidRecording, sites: list[int], *, embedded: bool
) -> StimulatedElectrode:
    """Return the model as `decode-stimulus` calls it, for the organoid of a recording."""
    figures = windows(recording).figures.mean(dim=0)
    own = _embedded(model, recording) if embedded else None
    return StimulatedElectrode(model, middled(recording), figures, torch.tensor(sites), own)


def _embedded(model: OrganoidModel, recording: OrganoidRecording) -> Tensor:
    return model.embedded(hashes(recording.organoid, recording.electrodes)).detach()
