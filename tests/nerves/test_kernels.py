"""Filter and detector against a plain numpy and scipy reference, whatever the block size (N7, N8)."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from controller.nerves import kernels
from controller.nerves.kernels import ALL, Blank, SpikeDetector, biquads
from sim.neurons.array import SimulatedArray

RATE = 25_000.0
UV = 0.195
FRAMES = 14_000
ELECTRODES = 8
Found = list[tuple[int, int, float]]


def reference(samples: NDArray[np.int16], blanks: tuple[Blank, ...] = ()) -> Found:
    """The same detector, written in the simplest way: scipy's filter, then one frame after the other with numpy."""
    frames, electrodes = samples.shape
    x = samples.astype(np.float32) * np.float32(UV)
    deaf = np.zeros((frames, electrodes), bool)
    for blank in blanks:
        columns = slice(None) if blank.electrode == ALL else blank.electrode
        deaf[blank.first_frame : blank.end_frame, columns] = True
    for f in range(frames):
        held = x[f - 1] if f else np.zeros(electrodes, np.float32)
        x[f] = np.where(deaf[f], held, x[f])
    sos = np.array([[*row[:3], 1.0, *row[3:]] for row in biquads(RATE)], np.float32)
    y = scipy.signal.sosfilt(sos, x, axis=0)
    assert y.dtype == np.float32
    level = np.full(electrodes, kernels.NOISE_START_UV, np.float32)
    factor = np.float32(kernels.THRESHOLD_SIGMA / kernels.MEDIAN_TO_SIGMA)
    last = np.full(electrodes, -(10**9))
    below_before = np.zeros(electrodes, bool)
    settled_at = round(kernels.SETTLE_S * RATE)
    max_at_once = max(3, int(kernels.COINCIDENCE * electrodes))
    artefact_until = 0
    found: Found = []
    for f in range(frames):
        if f % kernels.NOISE_EVERY_FRAMES == 0:
            step = np.float32(kernels.NOISE_STEP if f >= settled_at else kernels.NOISE_STEP_SETTLING)
            moved = level * np.where(np.abs(y[f]) > level, np.float32(1) + step, np.float32(1) - step)
            level = np.where(deaf[f], level, moved)
        below = y[f] < -factor * level
        rested = f - last >= round(kernels.REFRACTORY_S * RATE)
        crossing = below & ~below_before & rested & ~deaf[f] & (f >= settled_at)
        below_before = below
        last[crossing] = f
        if crossing.sum() > max_at_once:
            artefact_until = f + round(kernels.ARTEFACT_S * RATE)
        if f >= artefact_until:
            found += [(f, int(c), float(y[f, c])) for c in np.flatnonzero(crossing)]
    return found


def detected(samples: NDArray[np.int16], sizes: list[int], blanks: tuple[Blank, ...] = ()) -> Found:
    detector = SpikeDetector(samples.shape[1], RATE, UV)
    detector.blank(blanks)
    found: Found = []
    position = 0
    turn = 0
    while position < len(samples):
        block = samples[position : position + sizes[turn % len(sizes)]]
        spikes = detector.process(block, position)
        found += list(zip(spikes.frames.tolist(), spikes.electrodes.tolist(), spikes.uv.tolist(), strict=True))
        position += len(block)
        turn += 1
    return found


@pytest.fixture(scope="module")
def samples() -> NDArray[np.int16]:
    """0.8 s of a lively array, with an artefact on every electrode and one on two of eight."""
    array = SimulatedArray(ELECTRODES, seed=3)
    array._burst_until = FRAMES  # a network burst from the first frame on: many spikes
    out = array.generate(FRAMES)
    out[9_000:9_004] -= 4_000
    out[12_000:12_004, :2] -= 4_000
    return out


@pytest.fixture(scope="module")
def expected(samples: NDArray[np.int16]) -> Found:
    return reference(samples)


def test_N7_reference_finds_many_spikes_and_no_artefact_common_to_all(expected: Found) -> None:
    assert len(expected) > 50
    assert not [spike for spike in expected if 9_000 <= spike[0] < 9_025]
    assert [spike for spike in expected if 12_000 <= spike[0] < 12_006]


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 3_000), min_size=1, max_size=12))
def test_N7_spikes_equal_the_reference_for_any_block_sizes(
    samples: NDArray[np.int16], expected: Found, sizes: list[int]
) -> None:
    assert detected(samples, sizes) == expected


@settings(max_examples=10, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 2_000), min_size=1, max_size=8),
    blanks=st.lists(
        st.builds(
            lambda electrode, first, length: Blank(electrode, first, first + length),
            st.integers(ALL, ELECTRODES - 1),
            st.integers(0, FRAMES - 1),
            st.integers(1, 400),
        ),
        max_size=12,
    ),
)
def test_N8_blanked_frames_give_no_spike_and_are_counted_for_any_block_sizes(
    samples: NDArray[np.int16], sizes: list[int], blanks: list[Blank]
) -> None:
    assert detected(samples, sizes, tuple(blanks)) == reference(samples, tuple(blanks))


def test_N8_blanked_frames_are_counted_by_electrode() -> None:
    detector = SpikeDetector(4, RATE, UV)
    detector.blank([Blank(ALL, 100, 150), Blank(2, 140, 200), Blank(1, 990, 1_010)])
    detector.process(np.zeros((1_000, 4), np.int16), 0)
    assert detector.blanked_frames.tolist() == [50, 60, 100, 50]
    detector.process(np.zeros((1_000, 4), np.int16), 1_000)
    assert detector.blanked_frames.tolist() == [50, 70, 100, 50]


def test_biquads_are_scipys_butterworth() -> None:
    high = scipy.signal.butter(2, kernels.HIGH_PASS_HZ, "highpass", fs=RATE, output="sos")[0]
    low = scipy.signal.butter(2, kernels.LOW_PASS_HZ, "lowpass", fs=RATE, output="sos")[0]
    actual = biquads(RATE)
    for row, expected in zip(actual, (high, low), strict=True):
        np.testing.assert_allclose(row, expected[[0, 1, 2, 4, 5]], rtol=1e-5, atol=1e-7)


def test_a_rate_too_slow_for_the_band_is_refused() -> None:
    with pytest.raises(ValueError, match="too slow"):
        biquads(5_000.0)


def test_noise_level_is_that_of_the_noise_and_not_of_the_spikes() -> None:
    rng = np.random.default_rng(5)
    sigma_uv = 12.0
    white = rng.normal(0.0, sigma_uv, (75_000, 4))
    for start in range(0, 75_000, 1_000):
        white[start : start + 8] -= 300.0
    detector = SpikeDetector(4, RATE, UV)
    detector.process(np.rint(white / UV).astype(np.int16), 0)
    w = np.fft.rfftfreq(8192, 1 / RATE)
    _, h = scipy.signal.sosfreqz([[*row[:3], 1.0, *row[3:]] for row in biquads(RATE)], w, fs=RATE)
    in_band = sigma_uv * np.sqrt(np.mean(np.abs(h) ** 2))
    np.testing.assert_allclose(detector.noise_uv, in_band, rtol=0.1)


def test_after_a_gap_the_filter_begins_again() -> None:
    """A jump over lost frames must not ring through the filter as a spike."""
    detector = SpikeDetector(2, RATE, UV)
    noise = np.random.default_rng(1).normal(0, 40, (10_000, 2)).astype(np.int16)
    detector.process(noise, 0)
    detector.restart(50_000)
    assert len(detector.process(noise + 3_000, 50_000)) == 0
