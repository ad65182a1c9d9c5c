"""Decode which electrode was stimulated from the spikes that followed.

One specimen, known to all; hidden is the order of the trials. One pulse goes to one of `classes` electrodes, and the
spikes of the next `bins` bins are given, without the blanked ones. The score is the balanced accuracy: the mean over
classes of the share of trials that were named correctly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grid.tasks.spikes import biphasic, counts, ridge, with_constant
from grid.tasks.task import BoardTask, Episode, Params, Policy, Scored, Values, array, received
from sim.neurons.spike_array import SpikeArray

REST_S = (0.15, 0.4)
"""Range of the pause between two trials."""
SETTLE_S = (1.0, 6.0)
TRAINING_SEEDS = (1, 2)
"""Public seeds on which the baselines are trained; hidden seeds are above 2**32."""
PENALTY = 10.0


def data(seed: int, params: Params) -> Values:
    """Return `spikes` (trials, bins, electrodes) and `stimulus` (trials,), the class of each trial."""
    rng = np.random.default_rng([seed, 0xDEC0])
    tissue = SpikeArray(params["electrodes"], params["specimen"])
    chosen = _sites(tissue, params["classes"])
    tissue.advance(float(rng.uniform(*SETTLE_S)))
    stimulus = rng.permutation(np.arange(params["trials"]) % params["classes"])
    pulse, bin_s, bins = biphasic(params["current_ua"]), params["bin_ms"] / 1000.0, params["bins"]
    spikes = np.zeros((params["trials"], bins, params["electrodes"]), np.float32)
    for trial, number in enumerate(stimulus):
        begin_s = tissue.now_s
        electrode, at_s = tissue.advance(bins * bin_s, [(0.0, chosen[number], pulse)])
        spikes[trial] = counts(
            electrode, at_s, begin_s=begin_s, bin_s=bin_s, bins=bins, electrodes=params["electrodes"]
        )
        tissue.advance(float(rng.uniform(*REST_S)))
    return {"spikes": spikes, "stimulus": stimulus.astype(np.float32)}


def _sites(tissue: SpikeArray, classes: int) -> list[int]:
    """Return the electrode of each class: spread over those that can be stimulated."""
    usable = tissue.usable()
    return [usable[each] for each in np.linspace(0, len(usable) - 1, classes).round().astype(int)]


def sites(params: Params) -> list[int]:
    """Return the electrode of each class of a board's specimen."""
    return _sites(SpikeArray(params["electrodes"], params["specimen"]), params["classes"])


def _episode(seed: int, control: str | None, params: Params) -> Episode:
    made = data(seed, params)
    action = yield {"spikes": controlled(made["spikes"], control, seed)}
    logits = received(action, "logits", (params["trials"], params["classes"]))
    shares = right_shares(logits, made["stimulus"])
    return Scored(float(np.mean(shares)), {"worst_class": min(shares), "trials": float(params["trials"])})


def right_shares(logits: NDArray[np.float64], stimulus: NDArray[np.float32]) -> list[float]:
    """Return for each class the share of its trials that were named rightly; their mean is the balanced accuracy."""
    right = logits.argmax(axis=1) == stimulus
    return [float(right[stimulus == each].mean()) for each in range(logits.shape[1])]


def controlled(spikes: NDArray[np.float32], control: str | None, seed: int) -> NDArray[np.float32]:
    """Return what a model sees in a control (None: the spikes)."""
    if control == "zero":
        return np.zeros_like(spikes)
    if control == "shuffled":
        return np.random.default_rng([seed, 0x5FF]).permuted(spikes, axis=2)
    return spikes


def _chance(seed: int, params: Params) -> Policy:
    shape = (params["trials"], params["classes"])
    return lambda _: {"logits": np.zeros(shape, np.float32)}


def _training(params: Params) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    sets = [data(seed, params) for seed in TRAINING_SEEDS]
    stimulus = np.concatenate([each["stimulus"] for each in sets]).astype(np.int64)
    return np.concatenate([each["spikes"] for each in sets]), stimulus


def _nearest_centroid(seed: int, params: Params) -> Policy:
    spikes, stimulus = _training(params)
    centroids = np.stack([spikes[stimulus == each].mean(axis=0) for each in range(params["classes"])])

    def policy(observation: Values) -> Values:
        apart = ((observation["spikes"][:, None] - centroids[None]) ** 2).sum(axis=(2, 3))
        return {"logits": array(-apart)}

    return policy


def _ridge(seed: int, params: Params) -> Policy:
    spikes, stimulus = _training(params)
    weights = ridge(spikes, np.eye(params["classes"])[stimulus], PENALTY)
    return lambda observation: {"logits": array(with_constant(observation["spikes"]) @ weights)}


DECODE = BoardTask(
    "decode-stimulus",
    _episode,
    ("zero", "shuffled"),
    {"chance": _chance, "nearest-centroid": _nearest_centroid, "ridge": _ridge},
    data,
)
