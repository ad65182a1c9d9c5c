"""The model: spikes and pulses as tokens, few latent tokens that look at them, and two heads.

An electrode is known by three things that add up: where it is, the figures of a minute of its activity
(:mod:`.statistics`), and an embedding of its own, learned from the recordings of its organoid. A new organoid has no
embedding yet; in training most rows do without it, so that the model serves such an organoid at once, and a few
minutes of recording are enough to learn the embedding.

Heads: the expected spikes of each electrode in the bins that follow (`expected`), and which electrode was stimulated, from
the spikes after the pulse (`located`). Both ask once for each electrode, so any array will do.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .blocks import Cross, FeedForward, Own, started
from .presets import SIZES, Size
from .statistics import FIGURES

BIN_S = 0.02
PAST_BINS = 20
PATCH_BINS = 5
"""Bins of one token."""
AHEAD_BINS = 5
"""Bins that are predicted."""
FINE_BINS = 10
"""Bins of 10 ms after a pulse, from which its electrode is found."""
PULSES = 2
"""Pulses that one window can tell of."""
HASHES = 2
"""Rows of the table that add up to the embedding of an electrode."""
UNKNOWN = -1
"""In place of a hash: this electrode has no embedding yet; in place of an electrode: no pulse."""
FORGOTTEN = 0.8
"""Share of the rows of a training batch that do without embeddings, unless `forgotten` of the model says otherwise."""
PERIODS_MM = (3.2, 1.6, 0.8, 0.4)
"""Wavelengths by which positions are given."""

Batch = Mapping[str, Tensor]


class Units(NamedTuple):
    """What is known of the electrodes: tokens (rows, electrodes, width), and which electrodes exist (None: all)."""

    tokens: Tensor
    present: Tensor | None
    log_mean: Tensor
    """Logarithm of the mean count of a bin, shape (rows, electrodes)."""


class OrganoidModel(nn.Module):
    """A model of many organoids. Tensors begin with rows (windows); `E` electrodes."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width, heads = size.width, size.heads
        self.size = size
        self.forgotten = FORGOTTEN
        self.table = nn.Embedding(size.slots, size.unit_width)
        self.of_table = nn.Linear(size.unit_width, width, bias=False)
        self.of_figures = nn.Linear(FIGURES, width)
        self.of_place = nn.Linear(4 * len(PERIODS_MM), width)
        self.unit = FeedForward(width)
        self.of_patch = nn.Linear(PATCH_BINS, width)
        self.of_fine = nn.Linear(FINE_BINS, width)
        self.of_pulse = nn.Linear(1, width)
        self.when = nn.Parameter(torch.zeros(PAST_BINS // PATCH_BINS, width))
        self.latents = nn.Parameter(torch.zeros(size.latents, width))
        self.gather = Cross(width, heads)
        self.blocks = nn.ModuleList(Own(width, heads) for _ in range(size.layers))
        self.of_history = nn.Linear(PAST_BINS, width)
        self.of_answer = nn.Linear(FINE_BINS, width)
        self.ask = Cross(width, heads)
        self.last = nn.LayerNorm(width)
        self.rates = nn.Linear(width, AHEAD_BINS)
        self.score = nn.Linear(width, 1)

    def units(self, figures: Tensor, place_um: Tensor, embedded: Tensor | None, present: Tensor | None = None) -> Units:
        """Return what is known of electrodes.

        Args:
            figures: Of their activity, shape (rows, E, `FIGURES`).
            place_um: Where they are from the middle of the array (µm), shape (rows, E, 2).
            embedded: Their embeddings, shape (rows, E, unit_width); None: no one has any.
            present: Which of them exist, shape (rows, E); None: all.
        """
        tokens = self.of_figures(figures) + self.of_place(_waves(place_um))
        if embedded is not None:
            tokens = tokens + self.of_table(embedded)
        return Units(self.unit(tokens), present, figures[..., 0])

    def embedded(self, rows: Tensor) -> Tensor:
        """Return embeddings of electrodes, shape (…, unit_width), from their hashes (:func:`hashes`), shape (…, `HASHES`)."""
        known = (rows != UNKNOWN).unsqueeze(-1)
        found: Tensor = (self.table(rows.clamp(min=0) % self.size.slots) * known).sum(dim=-2)
        return found

    def known(self, batch: Batch) -> Units:
        """Return what is known of the electrodes of a batch; in training, a share of the rows does without embeddings."""
        embedded = self.embedded(batch["units"])
        if self.training:
            kept = torch.rand(len(embedded), 1, 1, device=embedded.device) >= self.forgotten
            embedded = embedded * kept
        return self.units(batch["figures"], batch["place_um"], embedded, batch["present"])

    def expected(self, units: Units, past: Tensor, pulse: Tensor | None, pulse_s: Tensor | None) -> Tensor:
        """Return the logarithm of the expected count of each bin that follows, shape (rows, E, `AHEAD_BINS`).

        Args:
            units: The electrodes.
            past: Counts of the bins before, shape (rows, `PAST_BINS`, E).
            pulse: Electrodes of pulses, shape (rows, `PULSES`); None: there were none.
            pulse_s: When they are, from the end of `past` (s); same shape.
        """
        rows, _, electrodes = past.shape
        history = torch.sqrt(past).transpose(1, 2)
        patches = history.reshape(rows, electrodes, -1, PATCH_BINS)
        tokens = self.of_patch(patches) + units.tokens[:, :, None] + self.when
        tokens = tokens.reshape(rows, -1, self.size.width)
        there = None if units.present is None else units.present.repeat_interleave(patches.shape[2], dim=1)
        if pulse is not None and pulse_s is not None:
            at = pulse.clamp(min=0).unsqueeze(-1).expand(-1, -1, self.size.width)
            given = units.tokens.gather(1, at) + self.of_pulse(pulse_s.unsqueeze(-1) / (PAST_BINS * BIN_S))
            tokens = torch.cat([tokens, given], dim=1)
            if there is None:
                there = torch.ones(rows, electrodes * patches.shape[2], dtype=torch.bool, device=past.device)
            there = torch.cat([there, pulse != UNKNOWN], dim=1)
        asked = self._asked(tokens, there, units.tokens + self.of_history(history))
        found: Tensor = self.rates(asked)
        return found + units.log_mean.unsqueeze(-1)

    def located(self, units: Units, answer: Tensor) -> Tensor:
        """Return a score for each electrode, shape (rows, E): the highest was stimulated.

        Args:
            units: The electrodes.
            answer: Counts of bins of 10 ms from the pulse on, shape (rows, `FINE_BINS`, E).
        """
        seen = torch.sqrt(answer).transpose(1, 2)
        asked = self._asked(self.of_fine(seen) + units.tokens, units.present, units.tokens + self.of_answer(seen))
        found: Tensor = self.score(asked).squeeze(-1)
        return found

    def _asked(self, tokens: Tensor, there: Tensor | None, questions: Tensor) -> Tensor:
        latents = self.gather(self.latents.expand(len(tokens), -1, -1), tokens, there)
        for block in self.blocks:
            latents = block(latents)
        found: Tensor = self.last(self.ask(questions, latents))
        return found


def made(preset: str, seed: int) -> OrganoidModel:
    """Return a new model of a preset; embeddings and both heads begin at zero, so that it predicts the mean rates."""
    model = OrganoidModel(SIZES[preset])
    started(model, seed)
    for each in (model.table, model.rates, model.score):
        nn.init.zeros_(each.weight)
    return model


def welcomed(model: OrganoidModel, organoid: str, electrodes: int) -> None:
    """Begin the embeddings of an organoid at zero, whatever its rows of the table learned from others."""
    with torch.no_grad():
        model.table.weight[hashes(organoid, electrodes) % model.size.slots] = 0.0


def hashes(organoid: str, electrodes: int) -> Tensor:
    """Return the hashes of the electrodes of an organoid, shape (electrodes, `HASHES`); modulo the table, they name its rows.

    They follow from its name. So ranks that see different organoids need no common list, and a new organoid no new rows.
    """
    found = []
    for electrode in range(electrodes):
        digest = hashlib.sha256(f"{organoid}/{electrode}".encode()).digest()
        found.append([int.from_bytes(digest[8 * n : 8 * n + 8], "big") >> 2 for n in range(HASHES)])
    return torch.tensor(found)


def _waves(place_um: Tensor) -> Tensor:
    angles = torch.cat([place_um * (2.0 * math.pi / 1000.0 / period) for period in PERIODS_MM], dim=-1)
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1)
