"""The code package of the release: what a training job of `organoid-lm` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from .model import FINE_BINS, HASHES, PAST_BINS, PULSES, UNKNOWN, OrganoidModel, made
from .presets import SIZES
from .samples import WindowSamples, samples_of
from .scoring import loss_of, scores_of
from .statistics import FIGURES

ELECTRODES = 16
"""Of the example."""


class OrganoidTask:
    """Model, data, loss and scores of `organoid-lm`."""

    presets: Mapping[str, Mapping[str, int | float]] = {name: asdict(size) for name, size in SIZES.items()}

    def model(self, preset: str, seed: int) -> OrganoidModel:
        """Return a new model; the seed draws its weights."""
        return made(preset, seed)

    def data(self, folders: Sequence[Path], split: str) -> WindowSamples:
        """Return the windows of the recordings of data folders; organoids of “train” are known by their embeddings.

        Raises:
            RecordingError: A folder has none, or one cannot be read.
        """
        return samples_of(folders, split)

    def loss(self, model: OrganoidModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the mean loss of a batch."""
        return loss_of(model, batch)

    def evaluate(self, model: OrganoidModel, samples: WindowSamples) -> dict[str, float]:
        """Return `loss`, `bits_per_spike` and `accuracy` of held-out windows."""
        return scores_of(model, samples)

    def example(self, preset: str, micro_batch: int, seed: int) -> dict[str, Tensor]:
        """Return a batch without data, half of it with pulses."""
        generator = torch.Generator().manual_seed(seed)
        shape = (micro_batch, ELECTRODES)
        pulse = torch.full((micro_batch, PULSES), UNKNOWN, dtype=torch.int64)
        pulse[::2, 0] = torch.randint(ELECTRODES, pulse[::2, 0].shape, generator=generator)
        rate = torch.full((1,), 0.15)
        return {
            "past": torch.poisson(rate.expand(micro_batch, PAST_BINS, ELECTRODES), generator=generator),
            "answer": torch.poisson(rate.expand(micro_batch, FINE_BINS, ELECTRODES), generator=generator),
            "pulse": pulse,
            "pulse_s": torch.zeros(micro_batch, PULSES),
            "present": torch.ones(shape, dtype=torch.bool),
            "sites": torch.ones(shape, dtype=torch.bool),
            "figures": torch.randn(*shape, FIGURES, generator=generator),
            "place_um": 200.0 * torch.randn(*shape, 2, generator=generator),
            "units": torch.randint(SIZES[preset].slots, (*shape, HASHES), generator=generator),
        }


TASK = OrganoidTask()
