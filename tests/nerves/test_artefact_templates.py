"""Subtraction of stimulation artefacts: what it shows, and what stays blanked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from nerves.detections import StimulatedFrame
from nerves.detector import Detection, MuteCause, SpikeDetector
from nerves.governor import Request
from nerves.mutes import MuteLog
from tests.nerves.bench import PULSE, Bench
from verification.bench import evoked

RATE = 25_000
PULSES, EVERY, LENGTH_S = 14, 1_500, 400e-6
FIRST = 6_000
OTHERS = 60 + 20
"""Frame after the begin of a pulse from which on troughs are found with blanking, the memory of the filter included."""


@pytest.mark.needs_module("spikeinterface", "dev")
def test_N8_spikes_soon_after_a_pulse_are_found_and_the_artefact_is_none() -> None:
    truth = evoked.generate_evoked(8.0, seed=4, seconds=9.0)
    ways = {subtract: evoked.found_spikes(truth, subtract=subtract) for subtract in (False, True)}
    blank, subtract = (evoked.score_evoked(truth, *ways[each], from_s=5.0) for each in (False, True))
    assert blank["recall_1_to_2_ms"] == 0.0
    assert subtract["recall_1_to_2_ms"] > 0.3
    assert subtract["recall_2_to_3_ms"] > blank["recall_2_to_3_ms"] + 0.2
    assert subtract["missed_in_sight"] < 0.03
    assert subtract["false"] < 0.02
    frames, channels, hidden = evoked.found_spikes(truth, subtract=True, block=1_111)
    assert np.array_equal(frames, ways[True][0])
    assert np.array_equal(channels, ways[True][1])
    for frame, channel in np.argwhere(np.abs(truth.samples.astype(int)) >= 32_767):
        if truth.pulses[0] < frame:
            mine = (hidden["electrode"] == channel) | (hidden["electrode"] == -1)
            assert (mine & (hidden["first_frame"] <= frame) & (hidden["end_frame"] > frame)).any()


def recording(changed: str) -> tuple[NDArray[np.int16], list[StimulatedFrame]]:
    """Return noise on four channels with pulses on the first, the last of which is `changed`."""
    rng = np.random.default_rng(3)
    uv = rng.normal(0.0, 8.0, (FIRST + EVERY * (PULSES + 1), 4))
    t_ms = np.arange(700) / RATE * 1e3
    after = np.maximum(t_ms - 0.4, 0.0)
    spike = -120.0 * np.exp(-(((np.arange(40) - 20) / 4.0) ** 2))
    pulses = []
    for number in range(PULSES):
        frame = FIRST + number * EVERY
        last = number == PULSES - 1
        tau_ms = 0.6 if changed == "shape" and last else 1.3
        wave = np.where(t_ms < 0.4, -3_000.0, 500.0 * np.exp(-after / tau_ms))
        uv[frame : frame + len(wave)] += wave[:, None] * np.array([40.0, 1.0, -1.0, 0.5])
        if changed == "locked":
            uv[frame + 40 : frame + 80, 3] += spike  # 2 ms after the end of each pulse
        if changed == "flat" and last:
            uv[frame + 5 : frame + 40, 1] = 7_000.0
        pulses.append(StimulatedFrame(frame, ((0, LENGTH_S),), "one"))
        if changed == "overlapping" and last:
            uv[frame + 75 : frame + 75 + len(wave)] += wave[:, None] * np.array([1.0, 8.0, -0.7, 0.5])
            pulses.append(StimulatedFrame(frame + 75, ((1, LENGTH_S),), "other"))
    return np.rint(uv / 0.195).clip(-32_768, 32_767).astype(np.int16), pulses


def hidden_after(changed: str) -> tuple[list[int], SpikeDetector, int]:
    """Return for each channel the frame after the last pulse from which on nothing hides troughs; the detector; the number
    of spikes soon after that pulse.
    """
    samples, pulses = recording(changed)
    detector = SpikeDetector(4, RATE, 0.195, detection=Detection(subtract_artefacts=True))
    mutes = MuteLog(detector, 4)
    detector.stimulated(pulses)
    found, rows = [], []
    for first in range(0, len(samples), 25):
        found += detector.process(samples[first : first + 25], first).frames.tolist()
        rows.append(mutes.take(first, first + 25))
    last = FIRST + EVERY * (PULSES - 1)
    hidden = np.concatenate(rows)
    ends = [
        max(
            int(row["end_frame"]) - last
            for row in hidden
            if row["electrode"] in (channel, -1) and last < row["end_frame"] < last + 400
        )
        for channel in range(4)
    ]
    return ends, detector, sum(last < frame < last + 300 for frame in found)


def test_N8_a_known_artefact_hides_a_third_and_what_may_be_wrong_is_blanked_as_ever() -> None:
    (own, *others), detector, found = hidden_after("")
    assert own > OTHERS, "at a rail, and until the filter has forgotten it"
    assert max(others) < 55, "1.8 ms after the end of the pulse"
    assert found == 0
    counted = detector.muted_frames
    assert (
        counted.sum(axis=0) == counted[MuteCause.STIMULATION] + counted[MuteCause.START] + counted[MuteCause.RAIL]
    ).all()
    (_, *others), _, found = hidden_after("shape")
    assert others == [OTHERS] * 3
    assert found == 0
    (_, a, b, c), _, found = hidden_after("flat")
    assert a > OTHERS
    assert max(b, c) < 55
    assert found == 0
    (_, _, *others), _, found = hidden_after("overlapping")
    assert others == [75 + OTHERS] * 2
    assert found == 0


def test_N8_a_spike_that_comes_with_each_pulse_may_be_part_of_the_artefact_and_is_not_taken_for_silence() -> None:
    (_, a, b, locked), _, found = hidden_after("locked")
    assert max(a, b) < 55
    assert locked > 60, "its trough is at frame 60"
    assert found == 0


def test_long_pulses_and_more_kinds_than_there_is_memory_for_are_blanked() -> None:
    detector = SpikeDetector(1024, RATE, 0.195, detection=Detection(subtract_artefacts=True))
    long = detector.stimulated([StimulatedFrame(100, ((3, 3e-3),), "long")])
    assert [(each.electrode, each.end_frame) for each in long] == [(-1, 100 + 125), (3, 100 + 200)]
    kinds = [StimulatedFrame(1_000 + kind, ((kind, LENGTH_S),), kind) for kind in range(100)]
    held = [blank.end_frame - blank.first_frame for blank in detector.stimulated(kinds)]
    assert held.count(20) == 20, "places; the others wait together, and are blanked"
    assert held.count(60) == held.count(135) == 80


def test_N8_pulses_that_are_told_late_are_blanked_each_however_short_the_block() -> None:
    samples, _ = recording("")
    detector = SpikeDetector(4, RATE, 0.195, detection=Detection(subtract_artefacts=True))
    detector.process(samples[:5_990], 0)
    detector.stimulated([StimulatedFrame(5_980 + each, ((each, LENGTH_S),), each) for each in range(3)])
    detector.process(samples[5_990:5_991], 5_990)
    until, _ = detector.muted_until()
    assert (until[:3] > 5_980 + 135).all(), "each is the own channel of one: 5 ms and its length"


def test_the_engine_subtracts_if_the_rig_says_so(tmp_path: Path) -> None:
    lab = Bench(
        tmp_path / "l.db",
        electrodes=4,
        detection=Detection.of("50 Hz", "ground", 60.0, None, "linear-phase", "subtract"),
    )
    lab.run(0.3)
    lease = lab.lease(0)
    hidden = []
    for _ in range(14):
        before = lab.core._detector.unobserved_frames
        lab.ask(Request("agent", lease.id, (0,), PULSE, purpose="a test"))
        lab.run(0.06)
        hidden.append((lab.core._detector.unobserved_frames - before)[1:].min() / RATE * 1e3)
    assert min(hidden[:8]) > 2.8
    assert max(hidden[-4:]) < 2.8
    lab.core.close()
