"""The spike detector against a plain reference for any block size, and on signals that misled the former one (N7, N8)."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nerves.detections import ALL, Blank, blanks_after
from nerves.detector import LOW_DELAY, Detection, ElectrodeState, MuteCause, SpikeDetector
from sim.neurons.array import SimulatedArray, spike_shape
from tests.nerves.reference_detector import Found, filtered, reference

RATE = 25_000.0
UV = 0.195
FRAMES = 14_000
ELECTRODES = 8


def detected(
    samples: NDArray[np.int16],
    sizes: list[int],
    blanks: tuple[Blank, ...] = (),
    *,
    detection: Detection | None = None,
) -> Found:
    detector = SpikeDetector(samples.shape[1], RATE, UV, detection=detection)
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


def units(uv: NDArray[np.floating]) -> NDArray[np.int16]:
    rounded: NDArray[np.int16] = np.rint(uv / UV).clip(-32_768, 32_767).astype(np.int16)
    return rounded


def spiking(uv: NDArray[np.float64], frames: list[int], size_uv: float, channel: int = 0) -> None:
    """Add spikes with their troughs at `frames`."""
    shape = spike_shape(1.0) * size_uv
    trough = int(shape.argmin())
    for frame in frames:
        uv[frame - trough : frame - trough + len(shape), channel] += shape


def noise(seconds: float, channels: int, sigma_uv: float = 10.0, seed: int = 5) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0.0, sigma_uv, (round(seconds * RATE), channels))


@pytest.fixture(scope="module")
def samples() -> NDArray[np.int16]:
    """0.56 s of a lively array, with an artefact on every electrode, one on two of eight, a flat and a clipped electrode."""
    array = SimulatedArray(ELECTRODES, seed=3)
    parts = [array.generate(FRAMES) for _ in range(40)]
    out = max(parts, key=lambda part: len(detected(part, [FRAMES])))  # with a network burst: many spikes
    out[9_000:9_004] -= 4_000
    out[12_000:12_004, :2] -= 4_000
    out[6_000:6_900, 3] = 77
    out[10_000:10_150, 4] = 32_767
    return out


@pytest.fixture(scope="module")
def expected(samples: NDArray[np.int16]) -> Found:
    return reference(samples, UV)


def test_N7_reference_finds_many_spikes_and_no_artefact_common_to_all(expected: Found) -> None:
    assert len(expected) > 50
    assert not [spike for spike in expected if 8_990 <= spike[0] < 9_025]
    assert [spike for spike in expected if 11_995 <= spike[0] < 12_006]
    assert not [spike for spike in expected if spike[1] == 3 and 6_000 <= spike[0] < 6_900]
    assert not [spike for spike in expected if spike[1] == 4 and 9_980 <= spike[0] < 10_200]


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 3_000), min_size=1, max_size=12))
def test_N7_spikes_equal_the_reference_for_any_block_sizes(
    samples: NDArray[np.int16], expected: Found, sizes: list[int]
) -> None:
    assert detected(samples, sizes) == expected


@settings(max_examples=8, deadline=None)
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
    found = detected(samples, sizes, tuple(blanks))
    assert found == reference(samples, UV, tuple(blanks))
    for blank in blanks:
        inside = [spike for spike in found if blank.first_frame <= spike[0] < blank.end_frame]
        assert [spike for spike in inside if blank.electrode in (ALL, spike[1])] == []


def test_a_block_of_another_array_and_a_copy_are_refused() -> None:
    detector = SpikeDetector(4, RATE, UV)
    with pytest.raises(ValueError, match="number of channels"):
        detector.process(np.zeros((25, 5), np.int16), 0)
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.deepcopy(detector)


def test_N8_blanked_frames_are_counted_by_electrode() -> None:
    detector = SpikeDetector(4, RATE, UV)
    detector.blank([Blank(ALL, 100, 150), Blank(2, 140, 200), Blank(1, 990, 1_010)])
    detector.process(np.zeros((1_000, 4), np.int16), 0)
    assert detector.blanked_frames.tolist() == [50, 60, 100, 50]
    detector.process(np.zeros((1_000, 4), np.int16), 1_000)
    assert detector.blanked_frames.tolist() == [50, 70, 100, 50]


def test_N7_the_common_reference_takes_away_what_all_channels_share_whatever_the_block_size() -> None:
    shared = np.random.default_rng(2).normal(0.0, 60.0, round(3 * RATE))
    uv = noise(3.0, 16) + shared[:, None]
    spiking(uv, list(range(10_000, 70_000, 1_000)), 90.0)
    found = {}
    for common in (False, True):
        detector = SpikeDetector(16, RATE, UV, detection=Detection(common_reference=common))
        whole = detector.process(units(uv), 0)
        found[common] = [f for f, c in zip(whole.frames.tolist(), whole.electrodes.tolist(), strict=True) if c == 0]
    assert len(found[False]) < 10
    assert 57 <= len(found[True]) <= 61
    pieces = SpikeDetector(16, RATE, UV, detection=Detection(common_reference=True))
    again = [pieces.process(units(uv[f : f + 333]), f) for f in range(0, len(uv), 333)]
    assert [f for one in again for f, c in zip(one.frames, one.electrodes, strict=True) if c == 0] == found[True]


@pytest.mark.parametrize("rate_hz", [10_000.0, 20_000.0, 25_000.0, 30_000.0, 50_000.0])
def test_the_filter_keeps_its_band_and_its_middle_at_every_sample_rate(rate_hz: float) -> None:
    frames = np.arange(round(2 * rate_hz))
    uv = np.random.default_rng(3).normal(0.0, 5.0, (len(frames), 1))
    at = list(range(round(0.5 * rate_hz), round(1.9 * rate_hz), round(0.02 * rate_hz)))
    for trough in at:
        uv[:, 0] -= 200.0 * np.exp(-0.5 * ((frames - trough) / (1.2e-4 * rate_hz)) ** 2)
    uv += 500.0 * np.sin(2 * np.pi * 15.0 * frames / rate_hz)[:, None]
    spikes = SpikeDetector(1, rate_hz, UV).process(units(uv), 0)
    assert len(spikes) == len(at)
    assert np.abs(spikes.frames - at).max() <= max(1, 4e-5 * rate_hz)


def test_a_rate_too_slow_for_the_band_is_refused() -> None:
    with pytest.raises(ValueError, match="too slow"):
        SpikeDetector(1, 5_000.0, UV)


def test_the_filter_is_a_band_pass_of_linear_phase() -> None:
    impulse = np.zeros((200, 1), np.int16)
    impulse[100] = 10_000
    response = filtered(impulse, UV)[100:131, 0]
    np.testing.assert_array_equal(response, response[::-1])
    _, gain = scipy.signal.freqz(response / response.max(), worN=[20, 50, 150, 1_000, 8_000], fs=RATE)
    level = 20 * np.log10(np.abs(gain) / np.abs(gain[3]))
    assert (level[[0, 1, 2]] < [-55, -40, -22]).all(), level
    assert level[4] < -15


def test_noise_level_is_that_of_the_noise_and_not_of_the_spikes() -> None:
    """Spikes take a quarter of the frames; the level stays within four per cent."""
    quiet, lively = noise(3.0, 4, 12.0), noise(3.0, 4, 12.0)
    for channel in range(4):
        spiking(lively, list(range(1_000, 74_000, 250)), 100.0, channel)
    levels = []
    for uv in (quiet, lively):
        detector = SpikeDetector(4, RATE, UV, detection=Detection(mains_hz=0.0))
        detector.process(units(uv), 0)
        levels.append(detector.noise_uv)
    in_band = filtered(units(quiet), UV).std()
    np.testing.assert_allclose(levels[0], in_band, rtol=0.05)
    np.testing.assert_allclose(levels[1], levels[0], rtol=0.04)


def test_noise_level_follows_a_step_within_a_fifth_of_a_second_with_few_false_spikes() -> None:
    uv = noise(6.0, 4)
    uv[50_000:100_000] *= 3.0
    detector = SpikeDetector(4, RATE, UV)
    before = detector.process(units(uv[:50_000]), 0)
    calm = detector.noise_uv.copy()
    loud = detector.process(units(uv[50_000:55_000]), 50_000)
    np.testing.assert_allclose(detector.noise_uv, 3.0 * calm, rtol=0.2)
    detector.process(units(uv[55_000:100_000]), 55_000)
    detector.process(units(uv[100_000:110_000]), 100_000)
    np.testing.assert_allclose(detector.noise_uv, calm, rtol=0.2)
    assert len(before) <= 2
    assert len(loud) <= 4 * 8


def test_after_a_gap_the_filter_begins_again() -> None:
    """A jump over lost frames must not ring through the filter as a spike."""
    detector = SpikeDetector(2, RATE, UV)
    frames = units(noise(0.4, 2, 8.0))
    detector.process(frames, 0)
    detector.restart(50_000)
    assert len(detector.process(frames + 3_000, 50_000)) == 0


def test_spikes_in_a_burst_are_all_found_and_each_once() -> None:
    """Two hundred a second for a second; before, the noise level rose with them and a third was found."""
    uv = noise(4.0, 2)
    troughs = list(range(50_000, 75_000, 125))
    spiking(uv, troughs, 75.0)
    spikes = SpikeDetector(2, RATE, UV).process(units(uv), 0)
    mine = spikes.frames[spikes.electrodes == 0]
    found = [int(np.abs(mine - trough).min()) <= 5 for trough in troughs]
    assert sum(found) >= 0.97 * len(troughs)
    assert len(mine) <= 1.02 * len(troughs)


@pytest.mark.parametrize("size_uv", [100.0, 300.0, 1_000.0])
def test_a_large_spike_counts_once_and_its_frame_is_that_of_the_trough(size_uv: float) -> None:
    uv = noise(3.0, 1)
    troughs = list(range(10_000, 70_000, 500))
    spiking(uv, troughs, size_uv)
    spikes = SpikeDetector(1, RATE, UV).process(units(uv), 0)
    assert abs(len(spikes) - len(troughs)) <= 1
    assert np.abs(spikes.frames[: len(troughs)] - troughs[: len(spikes)]).max() <= 3
    assert np.median(spikes.frames[: len(troughs)] - troughs[: len(spikes)]) == pytest.approx(0, abs=1)


@pytest.mark.parametrize("off_hz", [-0.2, 0.04, 0.1])
@pytest.mark.parametrize("mains_hz", [50.0, 60.0])
def test_mains_hum_with_harmonics_hides_no_spike_and_makes_none(mains_hz: float, off_hz: float) -> None:
    """1.2 mV near the nominal frequency, with harmonics of tens of µV.

    Before, one spike in ten was found. Later each cycle of the mains gave a false one for up to 16 s: what the comb had
    learned while the phase came closer was beyond its gate.
    """
    hz = mains_hz + off_hz
    uv = noise(8.0, 4)
    turns = 2 * np.pi * hz * np.arange(len(uv)) / RATE
    for harmonic, size in ((1, 1_200.0), (3, 120.0), (5, 60.0), (7, 40.0), (9, 25.0)):
        uv += size * np.sin(harmonic * turns + harmonic)[:, None]
    troughs = list(range(125_000, 199_000, 400))
    spiking(uv, troughs, 90.0)
    detector = SpikeDetector(4, RATE, UV, detection=Detection(mains_hz=mains_hz))
    spikes = detector.process(units(uv), 0)
    assert detector.mains_hz == pytest.approx(hz, abs=0.005)
    late = spikes.frames >= 124_000
    mine = spikes.frames[late & (spikes.electrodes == 0)]
    assert sum(int(np.abs(mine - trough).min()) <= 6 for trough in troughs) >= 0.97 * len(troughs)
    assert (late & (spikes.electrodes > 0)).sum() <= 3
    np.testing.assert_allclose(detector.noise_uv, filtered(units(noise(8.0, 4)), UV).std(), rtol=0.1)


def test_spikes_that_are_locked_to_the_mains_stay() -> None:
    """A stimulus every 20 ms evokes spikes at one phase of the mains; the comb must not learn them."""
    uv = noise(8.0, 2)
    troughs = list(range(25_000, 199_000, 500))
    spiking(uv, troughs, 120.0)
    spikes = SpikeDetector(2, RATE, UV).process(units(uv), 0)
    mine = spikes.frames[spikes.electrodes == 0]
    assert sum(int(np.abs(mine - trough).min()) <= 5 for trough in troughs) >= 0.99 * len(troughs)


def test_a_channel_that_was_flat_for_eighty_seconds_recovers_and_fires_nothing_false() -> None:
    """Before, the noise level fell to 1e-42, and the channel fired at 445 Hz for minutes."""
    detector = SpikeDetector(4, RATE, UV)
    live = units(noise(4.0, 4))
    detector.process(live, 0)
    flat = live.copy()
    flat[:, 1] = 12
    frame = len(live)
    for _ in range(20):
        assert len(detector.process(flat, frame)) <= 3
        frame += len(flat)
    assert detector.states.tolist() == [ElectrodeState.OK, ElectrodeState.DEAD, ElectrodeState.OK, ElectrodeState.OK]
    assert detector.noise_uv[1] >= 1.0
    unobserved = detector.unobserved_frames
    assert unobserved[1] - unobserved[0] == pytest.approx(80 * RATE, rel=0.01)
    back = detector.process(live, frame)
    assert detector.states[1] == ElectrodeState.OK
    assert (back.electrodes == 1).sum() <= 1
    np.testing.assert_allclose(detector.noise_uv[1], detector.noise_uv[0], rtol=0.1)


def test_a_flat_second_channel_does_not_fire_between_short_dropouts() -> None:
    uv = units(noise(10.0, 2))
    for start in range(10_000, 240_000, 5_000):
        uv[start : start + 2_500, 1] = 0
    spikes = SpikeDetector(2, RATE, UV).process(uv, 0)
    assert (spikes.electrodes == 1).sum() <= 2


def test_saturation_gives_no_false_spikes_and_is_named() -> None:
    """Before, 13 to 16 false spikes a second."""
    uv = noise(10.0, 2)
    t = np.arange(len(uv)) / RATE
    uv[:, 0] += 9_000.0 * np.exp(-(t % 0.5) / 0.02) * np.where((t % 1.0) < 0.5, 1.0, -1.0)
    samples = units(uv)
    assert (np.abs(samples[:, 0].astype(int)) >= 32_767).mean() > 0.01
    detector = SpikeDetector(2, RATE, UV)
    spikes = detector.process(samples, 0)
    assert (spikes.electrodes == 0).sum() <= 3
    assert detector.states.tolist() == [ElectrodeState.SATURATED, ElectrodeState.OK]
    detector.process(units(noise(1.2, 2, seed=6)), len(samples))
    assert detector.states.tolist() == [ElectrodeState.OK, ElectrodeState.OK]


def test_artefacts_on_all_channels_give_no_spikes_and_do_not_raise_the_noise_level() -> None:
    uv = noise(6.0, 16)
    calm = SpikeDetector(16, RATE, UV)
    false = len(calm.process(units(uv), 0))
    rng = np.random.default_rng(8)
    t = np.arange(500)
    for start in range(10_000, 149_000, 2_500):
        uv[start : start + 500] += np.outer(np.exp(-t / 30.0), rng.uniform(300.0, 3_000.0) * rng.uniform(0.5, 1.5, 16))
    detector = SpikeDetector(16, RATE, UV)
    assert len(detector.process(units(uv), 0)) <= false + 8
    assert detector.artefacts > 0
    np.testing.assert_allclose(detector.noise_uv, calm.noise_uv, rtol=0.1)


def volleys(share: float, size_uv: float = 90.0, seconds: float = 6.0) -> tuple[NDArray[np.float64], list[list[int]]]:
    """Return 32 channels of which a share fires within 0.2 ms (standard deviation) ten times a second, and the troughs."""
    uv, rng = noise(seconds, 32), np.random.default_rng(9)
    troughs: list[list[int]] = [[] for _ in range(32)]
    for middle in range(10_000, len(uv) - 1_000, 2_500):
        for channel in rng.permutation(32)[: round(share * 32)].tolist():
            troughs[channel].append(middle + round(rng.normal(0.0, 5.0)))
    for channel, own in enumerate(troughs):
        spiking(uv, own, size_uv, channel)
    return uv, troughs


def recall(uv: NDArray[np.float64], troughs: list[list[int]], detection: Detection | None = None) -> float:
    spikes = SpikeDetector(uv.shape[1], RATE, UV, detection=detection).process(units(uv), 0)
    found = 0
    for channel, own in enumerate(troughs):
        mine = spikes.frames[spikes.electrodes == channel]
        found += sum(bool(len(mine)) and int(np.abs(mine - trough).min()) <= 6 for trough in own)
    return found / sum(map(len, troughs))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("pitch_um", [15.0, 200.0])
def test_the_spikes_of_a_volley_are_no_artefact(share: float, pitch_um: float) -> None:
    """Before, a fifth was found with half of the channels, and 3 % with four fifths of them."""
    assert recall(*volleys(share), Detection(pitch_um=pitch_um)) >= 0.98


@pytest.mark.parametrize("size_uv", [80.0, 150.0, 400.0])
def test_a_neuron_that_is_seen_all_over_a_dense_array_is_no_artefact(size_uv: float) -> None:
    """4 × 8 electrodes 15 µm apart, a neuron 30 µm above them. Before, none of its spikes was found."""
    places = np.array([(15.0 * (k % 4), 15.0 * (k // 4)) for k in range(32)])
    far = np.sqrt(((places - places[13]) ** 2).sum(axis=1) + 30.0**2) - 30.0
    shape, uv = spike_shape(1.0), noise(6.0, 32)
    at, troughs = np.arange(len(shape)), list(range(10_000, 149_000, 500))
    for channel in range(32):  # at 0.3 mm/ms, a signal takes a sample for 12 µm
        seen = np.interp(at - far[channel] / 12.0, at, shape) * size_uv * np.exp(-far[channel] / 40.0)
        for trough in troughs:
            uv[trough - 15 : trough + 45, channel] += seen
    spikes = SpikeDetector(32, RATE, UV).process(units(uv), 0)
    assert len(np.unique(spikes.electrodes)) >= 16
    assert recall(uv, [troughs if channel == 13 else [] for channel in range(32)]) >= 0.98


@pytest.mark.parametrize("gains", ["of one sign", "of both signs"])
def test_one_wave_on_all_channels_is_an_artefact_and_its_time_is_counted(gains: str) -> None:
    """Steps, decays and short pulses of 0.3 to 3 mV, and amplifiers that sample their channels one after the other."""
    uv, rng = noise(8.0, 32), np.random.default_rng(4)
    t = np.arange(2_400)[:, None] - np.arange(32) / 32.0
    starts = range(30_000, 195_000, 2_500)
    for start in starts:
        tau, kind = rng.uniform(5.0, 30.0), start % 3
        wave = (np.exp(-np.maximum(t, 0.0) / tau), np.exp(-np.maximum(t, 0.0) / 300.0), t < tau)[kind] * (t >= 0.0)
        size_uv = np.exp(rng.uniform(np.log(300.0), np.log(3_000.0))) * rng.uniform(0.5, 1.5, 32)
        uv[start : start + 2_400] += wave * size_uv * (rng.choice([-1, 1], 32) if gains != "of one sign" else 1)
    detector = SpikeDetector(32, RATE, UV)
    calm = len(SpikeDetector(32, RATE, UV).process(units(noise(8.0, 32)), 0))
    spikes = detector.process(units(uv), 0)
    assert len(spikes) - calm <= 0.01 * 32 * len(starts)
    muted = detector.muted_frames[MuteCause.ARTEFACT]
    assert (muted >= 50 * len(starts) * 0.9).all()
    assert (muted <= 150 * len(starts)).all()
    assert detector.artefacts >= len(starts)


def test_an_artefact_on_all_live_channels_is_one_although_three_quarters_of_the_array_are_dead() -> None:
    uv, rng = noise(4.0, 64), np.random.default_rng(4)
    uv[:, 14:] = 0.0
    calm = len(SpikeDetector(64, RATE, UV).process(units(uv), 0))
    starts = range(30_000, 95_000, 2_500)
    for start in starts:
        uv[start : start + 500, :14] += np.outer(np.exp(-np.arange(500) / 30.0), -900.0 * rng.uniform(0.5, 1.5, 14))
    detector = SpikeDetector(64, RATE, UV)
    assert len(detector.process(units(uv), 0)) - calm <= 0.02 * 14 * len(starts)
    assert detector.artefacts >= len(starts)


def test_an_unannounced_pulse_is_an_artefact_although_each_channel_sees_less_of_it_with_distance() -> None:
    """As in a replay, or with a stimulator of its own: the electrode of the pulse is at a rail."""
    uv = noise(6.0, 16)
    calm = len(SpikeDetector(16, RATE, UV).process(units(uv), 0))
    gains = 2_500.0 / (1.0 + (np.hypot(np.arange(16) % 4, np.arange(16) // 4) * 200.0 / 60.0) ** 1.5)
    gains[0] = 20_000.0
    wave = np.r_[np.full(5, -1.0), np.full(5, 1.0), 0.7 * np.exp(-np.arange(200) / 20.0)]
    starts = range(30_000, 149_000, 5_000)
    for start in starts:
        uv[start : start + len(wave)] += np.outer(wave, gains)
    assert len(SpikeDetector(16, RATE, UV).process(units(uv), 0)) - calm <= 0.02 * 16 * len(starts)


def test_an_artefact_of_half_an_array_is_one_where_the_pitch_shows_that_no_neuron_reaches_so_far() -> None:
    uv, rng = noise(6.0, 32), np.random.default_rng(4)
    t = np.arange(500)
    for start in range(30_000, 149_000, 2_500):
        uv[start : start + 500, :16] += np.outer(
            np.exp(-t / 15.0), rng.uniform(-2_000.0, -500.0) * rng.uniform(0.5, 1.5, 16)
        )
    found = {
        pitch: len(SpikeDetector(32, RATE, UV, detection=Detection(pitch_um=pitch)).process(units(uv), 0))
        for pitch in (15.0, 200.0)
    }
    assert found[200.0] <= 20
    assert found[15.0] > 400  # as many channels as one neuron may reach there


def test_volleys_and_artefacts_give_the_same_spikes_for_any_block_sizes() -> None:
    uv, _ = volleys(0.8)
    uv[20_000:20_200] += np.outer(np.exp(-np.arange(200) / 20.0), np.linspace(800.0, 1_600.0, 32))
    samples = units(uv)
    whole = detected(samples, [len(samples)])
    assert len(whole) > 1_000
    for sizes in ([1], [25], [7, 300, 1, 99], [100], [101]):
        assert detected(samples, sizes) == whole


LOW = Detection(filter=LOW_DELAY)


def reported(uv: NDArray[np.float64], detection: Detection) -> list[tuple[int, int]]:
    """Return frame and delay (frames) of each spike of one channel, in blocks of one frame."""
    detector = SpikeDetector(uv.shape[1], RATE, UV, detection=detection)
    samples = units(uv)
    found = ((frame, detector.process(samples[frame : frame + 1], frame)) for frame in range(len(samples)))
    return [(int(spikes.frames[0]), frame - int(spikes.frames[0])) for frame, spikes in found if len(spikes)]


def test_the_filter_of_low_delay_reports_a_fifth_of_a_millisecond_after_the_trough() -> None:
    uv = noise(2.0, 1)
    troughs = list(range(10_000, 49_000, 1_000))
    spiking(uv, troughs, 120.0)
    for detection, latest in ((LOW, 5), (Detection(), 19)):
        found = reported(uv, detection)
        near = [delay for frame, delay in found if min(abs(frame - trough) for trough in troughs) <= 1]
        assert len(near) == len(troughs)
        assert set(near) == {SpikeDetector(1, RATE, UV, detection=detection).latency_frames}
        assert max(near) == latest
        assert len(found) - len(near) <= 1


def test_the_filter_of_low_delay_takes_volleys_for_spikes_and_common_waves_for_artefacts() -> None:
    uv, troughs = volleys(0.5)
    assert recall(uv, troughs, LOW) > 0.9
    uv = noise(3.0, 32)
    wave = np.exp(-np.arange(200) / 20.0)
    for first in range(10_000, 70_000, 2_500):
        uv[first : first + 200] -= np.outer(wave, np.linspace(200.0, 400.0, 32))
    spikes = SpikeDetector(32, RATE, UV, detection=LOW).process(units(uv), 0)
    assert len(spikes) < 32


def test_after_a_pulse_the_filter_of_low_delay_makes_no_echo_of_it() -> None:
    """A reflex would answer its own pulses."""
    array = SimulatedArray(32, 7)
    array._network.advance = lambda steps, conditions: (np.zeros(0, np.int32), np.zeros(0, np.int64))  # type: ignore[method-assign]
    detector = SpikeDetector(32, RATE, UV, detection=LOW)
    found: list[int] = []
    pulses = list(range(50_005, 150_000, 2_500))
    for first in range(0, 150_000, 25):
        if first + 5 in pulses:
            array.stimulate(12, first + 5, [(160.0, -2.0), (160.0, 2.0)])
            detector.blank(blanks_after(12, first + 5, 320e-6, RATE))
        found += detector.process(array.generate(25), first).frames.tolist()
    assert len([frame for frame in found if frame > pulses[0]]) <= 4


def test_the_filter_of_low_delay_gives_the_same_spikes_for_any_block_sizes() -> None:
    uv, _ = volleys(0.5, seconds=2.0)
    samples = units(uv)
    whole = detected(samples, [len(samples)], detection=LOW)
    assert len(whole) > 200
    for size in (1, 5, 25, 101):
        assert detected(samples, [size], detection=LOW) == whole


def test_muted_time_is_counted_by_its_cause() -> None:
    uv = noise(8.0, 8)
    uv[:, 1] = 12.0
    uv[50_000:150_000, 2] *= 8.0
    uv[60_000:62_500, 3] = 9_000.0
    detector = SpikeDetector(8, RATE, UV)
    detector.blank([Blank(4, 100_000, 101_000)])
    detector.process(units(uv), 0)
    muted = detector.muted_frames / RATE
    assert (muted[MuteCause.START] >= 0.19).all()  # a flat start is counted as flat
    assert muted[MuteCause.FLAT, 1] > 7.0
    assert 1.5 < muted[MuteCause.NOISE, 2] < 5.0
    assert muted[MuteCause.RAIL, 3] == pytest.approx(0.103, abs=0.002)
    assert muted[MuteCause.STIMULATION, 4] == pytest.approx(0.041, abs=0.001)
    np.testing.assert_allclose(muted.sum(axis=0), detector.unobserved_frames / RATE)
    assert muted[:, 0].sum() == muted[MuteCause.START, 0]


def test_a_channel_much_louder_than_the_array_is_muted_and_returns() -> None:
    uv = noise(12.0, 8)
    uv[50_000:175_000, 2] *= 8.0
    detector = SpikeDetector(8, RATE, UV)
    detector.process(units(uv[:50_000]), 0)
    assert detector.states[2] == ElectrodeState.OK
    detector.process(units(uv[50_000:125_000]), 50_000)
    assert detector.states[2] == ElectrodeState.NOISY
    unobserved = detector.unobserved_frames.copy()
    assert (detector.process(units(uv[125_000:175_000]), 125_000).electrodes == 2).sum() == 0
    assert (detector.unobserved_frames - unobserved)[2] == 50_000
    detector.process(units(uv[175_000:]), 175_000)
    assert detector.states[2] == ElectrodeState.OK


def test_a_channel_that_fires_faster_than_neurons_do_is_muted() -> None:
    uv = noise(6.0, 8)
    spiking(uv, list(range(30_000, 149_000, 60)), 150.0)
    detector = SpikeDetector(8, RATE, UV)
    detector.process(units(uv), 0)
    assert detector.states.tolist()[:2] == [ElectrodeState.NOISY, ElectrodeState.OK]


def test_the_rig_files_words_for_mains_and_reference() -> None:
    assert Detection.of("50 Hz", "ground") == Detection()
    assert Detection.of("60 Hz", "median") == Detection(60.0, True)
    assert Detection.of("none", "ground").mains_hz == 0.0
    assert Detection.of("50 Hz", "ground", 40.0, 200.0) == Detection(artefact_share=0.4, pitch_um=200.0)
    assert Detection.of("50 Hz", "ground", reflex_filter="low-delay") == Detection(reflex_filter=LOW_DELAY)
    with pytest.raises(ValueError, match="write 50 Hz or 60 Hz or none"):
        Detection.of("16.7 Hz", "ground")
