"""Predict the spikes of an organoid that no model has seen.

Each hidden seed is another specimen. A model gets windows of its spontaneous activity and predicts how many spikes each
electrode has in the bins that follow. The score is the information of the predictions in bits per spike, compared with
the mean rate of each electrode over the whole episode (the Poisson likelihood that Neural Latents Benchmark uses). 0 is
as good as knowing the mean rates.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from grid.tasks.spikes import counts, ridge, with_constant
from grid.tasks.task import BoardTask, Episode, Params, Policy, Scored, Values, array, received
from sim.neurons.spike_array import SpikeArray

SETTLE_S = 5.0
TRAINING_SEEDS = (1, 2, 3, 4)
PENALTY = 300.0
MIN_COUNT = 1e-3
"""Smallest prediction that counts: a prediction of zero spikes would be infinitely wrong at the first spike."""


def data(seed: int, params: Params) -> Values:
    """Return `past` (windows, bins, electrodes) and `next` (windows, electrodes): the spikes of the bins that follow."""
    electrodes, bins, ahead = params["electrodes"], params["bins"], params["ahead"]
    tissue = SpikeArray(electrodes, seed)
    tissue.advance(SETTLE_S)
    bin_s, begin_s = params["bin_ms"] / 1000.0, tissue.now_s
    total = params["windows"] * (bins + ahead)
    electrode, at_s = tissue.advance(total * bin_s)
    train = counts(electrode, at_s, begin_s=begin_s, bin_s=bin_s, bins=total, electrodes=electrodes)
    windows = train.reshape(params["windows"], bins + ahead, electrodes)
    return {"past": windows[:, :bins].copy(), "next": windows[:, bins:].sum(axis=1)}


def bits_per_spike(predicted: NDArray[np.float64], real: NDArray[np.float32]) -> float:
    """Return the Poisson log-likelihood of the counts above that of the mean rates, in bits per spike."""
    expected = np.maximum(predicted, MIN_COUNT)
    mean = np.maximum(real.mean(axis=0, keepdims=True, dtype=np.float64), MIN_COUNT)
    gained = (real * np.log(expected / mean) - expected + mean).sum()
    return float(gained / max(float(real.sum()), 1.0) / math.log(2.0))


def _episode(seed: int, control: str | None, params: Params) -> Episode:
    made = data(seed, params)
    action = yield {"past": controlled(made["past"], control, seed)}
    predicted = received(action, "expected", (params["windows"], params["electrodes"]))
    spikes = float(made["next"].sum())
    return Scored(max(bits_per_spike(predicted, made["next"]), params["floor_bits"]), {"spikes": spikes})


def controlled(past: NDArray[np.float32], control: str | None, seed: int) -> NDArray[np.float32]:
    """Return what a model sees in a control (None: the windows)."""
    if control == "zero":
        return np.zeros_like(past)
    if control == "shuffled":
        return np.random.default_rng([seed, 0x5FF]).permuted(past, axis=0)
    return past


def _window_rate(seed: int, params: Params) -> Policy:
    """Predict that the rate of the window goes on."""
    share = params["ahead"] / params["bins"]
    return lambda observation: {"expected": array(observation["past"].sum(axis=1) * share + 0.02)}


def _array_rate(seed: int, params: Params) -> Policy:
    """Predict for each electrode its mean over all windows."""

    def policy(observation: Values) -> Values:
        mean = observation["past"].mean(axis=(0, 1)) * params["ahead"]
        return {"expected": array(np.tile(mean, (params["windows"], 1)))}

    return policy


def _features(past: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what the ridge regression sees of each electrode: the recent activity of itself and of the array."""
    recent, rows = past[:, -RECENT:], len(past)
    array_wide = np.repeat(recent.mean(axis=2)[:, :, None], past.shape[2], axis=2)
    own_mean = np.repeat(past.mean(axis=(0, 1))[None, None], rows, axis=0)
    scaled = array_wide[:, -1:] * own_mean
    found: NDArray[np.float32] = np.concatenate([recent, array_wide, own_mean, scaled], axis=1).transpose(0, 2, 1)
    return found.reshape(rows * past.shape[2], -1)


RECENT = 5


def _ridge(seed: int, params: Params) -> Policy:
    sets = [data(each, params) for each in TRAINING_SEEDS]
    inputs = np.concatenate([_features(each["past"]) for each in sets])
    targets = np.concatenate([each["next"].reshape(-1, 1) for each in sets]).astype(np.float64)
    weights = ridge(inputs, targets, PENALTY)

    def policy(observation: Values) -> Values:
        expected = with_constant(_features(observation["past"])) @ weights
        return {"expected": array(np.maximum(expected, 0.02).reshape(params["windows"], params["electrodes"]))}

    return policy


HELD_OUT = BoardTask(
    "held-out-spikes",
    _episode,
    ("zero", "shuffled"),
    {"window-rate": _window_rate, "array-rate": _array_rate, "ridge": _ridge},
    data,
)
