"""False spikes of artefacts of many shapes and sizes on an array without neurons.

Each recording has 32 channels of white noise (8 µV, 3.5 µV in the detector's band) and 77 artefacts with another gain on each
channel. Nothing of the detector's rule is used to make them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves.detector import Detection, SpikeDetector
from verification.bench.ground_truth import RATE_HZ, UV_PER_UNIT

SHAPES = {
    "decay": "0.3 to 1.2 ms",
    "other_decay": "the decay of each channel is up to 20 % shorter or longer",
    "skewed": "sampled one channel after the other within a frame",
    "both_signs": "the gains have random signs",
    "step": "within 0.02 to 0.5 ms, then a decay of 20 ms",
    "pulse": "0.04 to 0.4 ms",
    "ringing": "0.5 to 3 kHz",
    "half": "a decay on half of the channels",
}
SIZES_UV = ((60.0, 200.0), (200.0, 500.0), (500.0, 3000.0))
CHANNELS, SECONDS, NOISE_UV = 32, 40, 8.0
PITCHES_UM = {"pitch_unknown": Detection().pitch_um, "pitch_200_um": 200.0}


def bench_artefacts() -> dict[str, Any]:
    """Return the false spikes for each artefact and channel, less those of the noise alone."""
    figures: dict[str, Any] = {}
    for pitch, pitch_um in PITCHES_UM.items():
        for sizes in SIZES_UV:
            for shape in SHAPES:
                with_them, count = _recording(shape, *sizes)
                without, _ = _recording("", *sizes)
                false = _found(with_them, pitch_um) - _found(without, pitch_um)
                figures[f"artefact_{shape}_{sizes[0]:g}_to_{sizes[1]:g}_uv_{pitch}"] = false / count / CHANNELS
    return figures


def _found(samples: NDArray[np.int16], pitch_um: float) -> int:
    detector = SpikeDetector(CHANNELS, RATE_HZ, UV_PER_UNIT, detection=Detection(pitch_um=pitch_um))
    return sum(len(detector.process(samples[at : at + 2_500], at)) for at in range(0, len(samples), 2_500))


def _recording(shape: str, low_uv: float, high_uv: float, seed: int = 7) -> tuple[NDArray[np.int16], int]:
    """Return samples with two artefacts a second (none of the shape “”), and their number."""
    rng = np.random.default_rng(seed)
    uv = rng.normal(0.0, NOISE_UV, (round(SECONDS * RATE_HZ), CHANNELS)).astype(np.float32)
    starts = np.rint((np.arange(1.5, SECONDS - 0.2, 0.5) + rng.uniform(0.0, 0.1)) * RATE_HZ).astype(int)
    for first in starts if shape else ():
        size_uv = rng.choice((-1.0, 1.0)) * np.exp(rng.uniform(np.log(low_uv), np.log(high_uv)))
        gains = size_uv * rng.uniform(0.5, 1.5, CHANNELS)
        if shape == "both_signs":
            gains *= rng.choice((-1.0, 1.0), CHANNELS)
        elif shape == "half":
            gains[CHANNELS // 2 :] = 0.0
        wave = _wave(shape, rng) * gains
        uv[first : first + len(wave)] += wave[: len(uv) - first]
    return np.rint(uv / UV_PER_UNIT).clip(-32_768, 32_767).astype(np.int16), len(starts)


def _wave(shape: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return an artefact of size 1 on each channel, shape (frames, channels)."""
    skew_ms = np.arange(CHANNELS) / CHANNELS * 1e3 / RATE_HZ if shape == "skewed" else np.zeros(CHANNELS)
    t_ms = np.arange(5_000)[:, None] / RATE_HZ * 1e3 - skew_ms
    after_ms, begun = np.maximum(t_ms, 0.0), t_ms >= 0.0
    tau_ms = rng.uniform(0.3, 1.2) * (rng.uniform(0.8, 1.2, CHANNELS) if shape == "other_decay" else 1.0)
    made: NDArray[np.float64]
    if shape == "step":
        rise_ms = np.exp(rng.uniform(np.log(0.02), np.log(0.5)))
        made = (1.0 - np.exp(-after_ms / rise_ms)) * np.exp(-after_ms / 20.0)
    elif shape == "pulse":
        made = (begun & (t_ms < rng.uniform(0.04, 0.4))).astype(np.float64)
    elif shape == "ringing":
        made = np.sin(2 * np.pi * rng.uniform(0.5, 3.0) * after_ms) * np.exp(-after_ms / tau_ms)
    else:
        made = begun * (np.exp(-after_ms / tau_ms) - 0.5 * np.exp(-after_ms / (2 * tau_ms)))
    return made
