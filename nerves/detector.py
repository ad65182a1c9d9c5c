"""Spike detection on a stream of frames, causal and independent of the block size (N7).

**Filter.** The mean of 1.24 ms is subtracted from a triangular mean of 0.36 ms around its middle. This band-pass (about
0.4 to 3 kHz) has linear phase, so a spike keeps its shape: a causal Butterworth filter of the same steepness turns up to
half of the trough into lobes. It is made of running sums of integers: exact, without memory beyond 1.24 ms, and nothing
rings after an artefact. It delays by 0.6 ms, for which the frames of spikes are corrected.

**Mains.** A comb learns the wave of the mains on each channel by its phase and subtracts it, with all harmonics. A
phase-locked loop on the mean of all channels follows the frequency.

**Noise level.** Power in windows of 8 ms, without the 1.6 ms after each crossing, in a slow average per channel. Spikes and
bursts do not raise it. It has a floor, follows a lasting step within 0.1 s, and begins again after a channel was flat.

**Spike.** The lowest value after a fresh crossing of −4.75 σ, when four samples (at 25 kHz) are not lower; at least 1 ms
after the one before, and within 2.5 ms at least a quarter of its size. Its frame is that of the trough at the electrode.

**Artefact.** When many channels are beyond their thresholds, and a trough is about to be reported, the last millisecond of
all live channels is compared with one wave that has another gain on each. An artefact is that wave, on most channels. Spikes
of a volley come at different times, and one neuron that many electrodes see arrives later and smaller with distance. What may
be either is taken for spikes; a known pitch of the array leaves less doubt.

**Muted.** Nothing is detected on a channel while it is blanked (N8; the filter receives the last good sample), at a rail,
flat or noisy, or within 2.2 ms after an artefact. The time is counted by channel and cause.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from nerves import kernels
from nerves.artefact_templates import ArtefactTemplates
from nerves.cards.contract import Frames
from nerves.cards.geometry import ArrayGeometry
from nerves.detections import Blank, Spikes, StimulatedFrame
from nerves.kernels import SETUP

REFRACTORY_S = 1e-3
SHADOW_S = 2.5e-3
EXCLUDE_S = 1.6e-3
RECOVER_S = 2e-3
ARTEFACT_S = 1e-3
SETTLE_S = 0.2
"""Time after a start or a gap (s) in which the noise level is found and nothing is detected."""

WINDOW_S = 8e-3
STATE_S = 1.0
"""Time (s) for which a channel is called saturated after it was at a rail."""

ARTEFACT_SHARE = 0.6
MIN_COINCIDENT = 4
"""An artefact reaches this share of the live channels with one wave; with at most four channels beyond their thresholds in
one frame, or half of this share, none is looked for."""

REACH_UM = 100.0
"""Distance at which a neuron is not seen any more."""

MIN_PITCH_UM = 15.0
"""Distance of neighbouring electrodes where none is known: that of the densest arrays."""

MIN_RATE_HZ = 10_000.0
RAIL_MARGIN = 8
"""Distance (units) from the largest sample that counts as the rail."""

MAINS_HZ = 50.0


@dataclass(frozen=True, slots=True)
class SpikeFilter:
    """Describes a filter by its lengths in seconds, and with it the band and the delay of a detector."""

    long_s: float
    """Length of the running mean that is subtracted; a symmetric filter delays by half of it."""
    short_s: float
    """Length of the running mean that is applied twice."""
    look_s: float
    """Time without a lower value that ends the search for a trough."""
    symmetric: bool = True
    """Whether the short means are in the middle of the long one, so that a spike keeps its shape; else they end with it."""


LINEAR_PHASE = SpikeFilter(1.24e-3, 0.2e-3, 0.16e-3)
LOW_DELAY = SpikeFilter(2.04e-3, 0.16e-3, 0.08e-3, symmetric=False)
"""For reflexes: reports a spike 0.2 ms after its trough instead of 0.76, and finds fewer small ones. Its long mean holds a
spike and the positive wave after it; a shorter one makes an echo of a large spike when the trough leaves it.
"""


class ElectrodeState(IntEnum):
    """Says whether spikes can be detected on a channel; they are only on one that is OK.

    A saturated channel is muted only while it is at a rail and 2 ms after; it keeps the name for a second.
    """

    OK = kernels.OK
    DEAD = kernels.DEAD
    NOISY = kernels.NOISY
    SATURATED = kernels.SATURATED
    BLANKED = kernels.BLANKED


class MuteCause(IntEnum):
    """Says why nothing is detected on a channel; of several causes, the one that lasts longest is counted."""

    STIMULATION = kernels.BY_STIMULATION
    ARTEFACT = kernels.BY_ARTEFACT
    RAIL = kernels.BY_RAIL
    FLAT = kernels.BY_FLAT
    NOISE = kernels.BY_NOISE
    START = kernels.BY_START


@dataclass(frozen=True, slots=True)
class Detection:
    """Configures the detector for a laboratory."""

    mains_hz: float = MAINS_HZ
    """Frequency of the mains, 50 or 60; 0 switches the comb off."""
    common_reference: bool = False
    """Whether the median of the live channels is subtracted from each; takes several times as long."""
    artefact_share: float = ARTEFACT_SHARE
    """Share of the live channels on which the same wave at the same time is an artefact."""
    pitch_um: float = MIN_PITCH_UM
    """Distance of neighbouring electrodes, which says how many of them one neuron may reach. What reaches more is an artefact
    from half of the share on, and with less doubt."""
    filter: SpikeFilter = LINEAR_PHASE
    """Filter of the detector."""
    subtract_artefacts: bool = False
    """Whether the artefact of a pulse is subtracted where its kind is known well, so that spikes soon after it are seen; else
    that time is blanked."""
    reflex_filter: SpikeFilter | None = None
    """Filter of a second detector, whose spikes reflexes see; None: they see those of the first."""

    @classmethod
    def of(
        cls,
        mains: str,
        reference: str,
        artefact_share_pct: float = 100.0 * ARTEFACT_SHARE,
        pitch_um: float | None = None,
        reflex_filter: str = "linear-phase",
        stimulation_artefacts: str = "blank",
        *,
        geometry: ArrayGeometry | None = None,
    ) -> Detection:
        """Return what the keys of a rig file mean: `mains`, `reference`, `artefact_share`, `pitch`, `reflex_filter` and
        `stimulation_artefacts`.

        Without a pitch that of the geometry is taken, if it is known.

        Raises:
            ValueError: One of the words is unknown.
        """
        grids, references = {"50 Hz": 50.0, "60 Hz": 60.0, "none": 0.0}, {"ground": False, "median": True}
        filters = {"linear-phase": None, "low-delay": LOW_DELAY}
        ways = {"blank": False, "subtract": True}
        asked = (mains, grids), (reference, references), (reflex_filter, filters), (stimulation_artefacts, ways)
        if any(word not in known for word, known in asked):
            raise ValueError(
                f"detection: mains “{mains}”, reference “{reference}”, reflex_filter “{reflex_filter}”, stimulation_artefacts"
                f" “{stimulation_artefacts}”; write {', and '.join(' or '.join(known) for _, known in asked)}"
            )
        if pitch_um is None and geometry is not None and math.isfinite(geometry.pitch_um):
            pitch_um = geometry.pitch_um
        return cls(
            grids[mains],
            references[reference],
            artefact_share_pct / 100.0,
            pitch_um or MIN_PITCH_UM,
            subtract_artefacts=ways[stimulation_artefacts],
            reflex_filter=filters[reflex_filter],
        )


def _odd(frames: float) -> int:
    return 2 * round((frames - 1) / 2) + 1


def _setup(
    channels: int, sample_rate_hz: float, uv_per_unit: float, rail: int, detection: Detection
) -> NDArray[np.void]:
    """Return the constants of the compiled functions.

    Raises:
        ValueError: The sample rate is too low for the band.
    """
    if sample_rate_hz < MIN_RATE_HZ:
        raise ValueError(
            f"{sample_rate_hz:g} Hz is too slow for spikes; sample at {MIN_RATE_HZ:g} Hz or more (20 kHz is usual)"
        )
    every = kernels.EVERY
    setup = np.zeros(1, SETUP)
    band = detection.filter
    long, short = _odd(band.long_s * sample_rate_hz), max(2, round(band.short_s * sample_rate_hz))
    setup["long"], setup["short"] = long, short
    setup["lag"] = long // 2 - (short - 1) if band.symmetric else 0  # then the long mean ends with the short ones
    setup["delay"] = setup["lag"] + short - 1
    setup["clear"] = long if band.symmetric else 2 * long  # what the long mean lets go of makes an echo
    for name, seconds in (
        ("look", band.look_s),
        ("refractory", REFRACTORY_S),
        ("shadow", SHADOW_S),
        ("exclude", EXCLUDE_S),
        ("recover", RECOVER_S),
        ("artefact", ARTEFACT_S),
        ("settle", SETTLE_S),
    ):
        setup[name] = max(1, round(seconds * sample_rate_hz))
    setup["past"] = every * math.ceil(0.75 * LINEAR_PHASE.long_s * sample_rate_hz / every)
    setup["window"] = every * round(WINDOW_S * sample_rate_hz / every)
    setup["second"] = every * round(sample_rate_hz / every)
    setup["rail"] = rail - RAIL_MARGIN
    setup["many"] = MIN_COINCIDENT
    setup["share"] = detection.artefact_share
    setup["reach"] = math.pi * (REACH_UM / detection.pitch_um) ** 2
    setup["rate_hz"], setup["mains_hz"], setup["uv"] = sample_rate_hz, detection.mains_hz, uv_per_unit
    setup["reference"] = detection.common_reference
    return setup


class SpikeDetector:
    """Filter and detector with their state, for one stream of frames.

    `process` takes blocks of any size; call `restart` at a gap in the stream. Memory is bounded by the largest block.
    """

    def __init__(
        self,
        electrodes: int,
        sample_rate_hz: float,
        uv_per_unit: float,
        *,
        first_frame: int = 0,
        rail: int = 32_767,
        detection: Detection | None = None,
    ) -> None:
        """Make a detector.

        Args:
            electrodes: Number of channels.
            sample_rate_hz: Frames a second.
            uv_per_unit: Microvolts of one unit of a sample.
            first_frame: Number of the first frame.
            rail: Largest sample that the converter gives.
            detection: Configuration; the usual one if left out.

        Raises:
            ValueError: The sample rate is too low.
        """
        self._electrodes = electrodes
        detection = detection or Detection()
        mains_hz = detection.mains_hz
        self._setups = _setup(electrodes, sample_rate_hz, uv_per_unit, rail, detection)
        setup = self._setups[0]
        self._history = int(setup["long"] + setup["look"] + 1)
        self._work = np.zeros((self._history + kernels.CHUNK, electrodes), np.int16)
        self._sums = np.zeros((kernels.SUMS, electrodes), np.int32)
        self._past = np.zeros((int(setup["past"]) // kernels.EVERY, electrodes), np.float32)
        self._tiles = np.zeros(-(-electrodes // kernels.TILE), np.int64)
        self._state_frames = round(STATE_S * sample_rate_hz)
        self._clock = np.full(kernels.CLOCKS, -1, np.int64)
        self._clock[kernels.ARTEFACTS :] = 0
        self._clock[kernels.ENOUGH] = max(MIN_COINCIDENT, math.floor(0.5 * detection.artefact_share * electrodes))
        self._clock[kernels.MANY] = self._clock[kernels.COMMON] = -(1 << 62)
        self._mains = np.zeros(kernels.MAINS)
        self._mains[kernels.HZ] = mains_hz
        bins = round(sample_rate_hz / mains_hz) if mains_hz > 0.0 else 1
        self._comb = np.zeros((bins, electrodes), np.float32)
        self._lanes = np.zeros((kernels.LANES, electrodes), np.float32)
        self._marks = np.zeros((kernels.MARKS, electrodes), np.int64)
        for name in (kernels.MUTE_UNTIL, kernels.BLANK_UNTIL):
            self._marks[name] = -1
        for name in (kernels.LAST, kernels.RAIL):
            self._marks[name] = -(1 << 62)
        self._blanked = np.zeros(electrodes, np.int64)
        self._counts = np.zeros((kernels.CAUSES, electrodes), np.int64)
        self._unobserved = np.zeros(electrodes, np.int64)
        self._next_frame = first_frame
        self._found = np.empty(0, kernels.FOUND)
        self._pending: list[Blank] = []
        delay, clear = int(setup["delay"]), int(setup["clear"])
        self._templates = (
            ArtefactTemplates(electrodes, sample_rate_hz, delay, clear) if detection.subtract_artefacts else None
        )
        self._state = np.zeros(kernels.STATE, np.int64)
        self._state[: kernels.SETUP_AT] = electrodes, bins, len(self._past)
        for entry, array in (
            (kernels.SETUP_AT, self._setups),
            (kernels.LANES_AT, self._lanes),
            (kernels.SUMS_AT, self._sums),
            (kernels.MARKS_AT, self._marks),
            (kernels.CLOCK_AT, self._clock),
            (kernels.MAINS_AT, self._mains),
            (kernels.COMB_AT, self._comb),
            (kernels.TILES_AT, self._tiles),
            (kernels.BLANKED_AT, self._blanked),
            (kernels.COUNTS_AT, self._counts),
            (kernels.UNOBSERVED_AT, self._unobserved),
            (kernels.PAST_AT, self._past),
            (kernels.WORK_AT, self._work),
        ):
            self._state[entry] = array.ctypes.data  # none of these arrays may be replaced
        self.latency_frames = int(setup["delay"] + setup["look"])
        """Frames from a trough to the frame in which it is reported."""
        self.restart(first_frame)

    @property
    def noise_uv(self) -> NDArray[np.float32]:
        """Noise level σ of each electrode in the filter's band (µV)."""
        sigma: NDArray[np.float32] = np.sqrt(self._lanes[kernels.LEVEL])
        return sigma

    @property
    def mains_hz(self) -> float:
        """Frequency of the mains as followed; the nominal one where there is none."""
        return float(self._mains[kernels.HZ])

    @property
    def blanked_frames(self) -> NDArray[np.int64]:
        """Frames blanked so far, by electrode (N8)."""
        return self._blanked

    @property
    def unobserved_frames(self) -> NDArray[np.int64]:
        """Frames so far in which no spike could be detected, by electrode: blanked or muted (the latter in steps of four)."""
        return self._unobserved.copy()

    @property
    def muted_frames(self) -> NDArray[np.int64]:
        """The same by :class:`MuteCause`, shape (causes, electrodes)."""
        counted = self._counts.copy()
        counted[kernels.BY_STIMULATION] += self._blanked
        return counted

    def muted_since(self, frame: int) -> bool:
        """Return whether a channel may have been muted at `frame` or later."""
        return bool(self._clock[kernels.HORIZON] > frame or self._clock[kernels.NOISY_COUNT] > 0)

    def muted_until(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return from which frame on troughs are found again on each channel, as known now, and the :class:`MuteCause`.

        A fresh crossing must come after the muting; it is at most `look` before the trough.
        """
        setup, noisy = self._setups[0], self._marks[kernels.IS_NOISY] > 0
        until = self._marks[kernels.MUTE_UNTIL] - int(setup["delay"]) + int(setup["look"])
        until[noisy] = np.maximum(until[noisy], self._next_frame + 1)
        return until, np.where(noisy, kernels.BY_NOISE, self._marks[kernels.WHY]).astype(np.uint8)

    @property
    def artefacts(self) -> int:
        """Number of crossings that were rejected as artefacts."""
        return int(self._clock[kernels.ARTEFACTS])

    @property
    def states(self) -> NDArray[np.int8]:
        """State of each channel as of the last frame, values of :class:`ElectrodeState`."""
        marks, now = self._marks, self._next_frame
        states = np.full(self._electrodes, ElectrodeState.OK, np.int8)
        states[marks[kernels.BLANK_UNTIL] >= now] = ElectrodeState.BLANKED
        states[marks[kernels.IS_NOISY] > 0] = ElectrodeState.NOISY
        states[now - marks[kernels.RAIL] < self._state_frames] = ElectrodeState.SATURATED
        states[marks[kernels.FLAT] >= kernels.DEAD_WINDOWS] = ElectrodeState.DEAD
        return states

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse copies: they would have the addresses of these arrays."""
        raise TypeError("a spike detector cannot be copied; create another one")

    def restart(self, frame: int) -> None:
        """Start again at `frame` after a gap: the sums and the noise levels belong to samples before it."""
        self._next_frame = frame
        for array in (self._work, self._sums, self._past, self._tiles):
            array[:] = 0
        self._sums[kernels.HOLD] = self._setups["long"][0] + self._setups["past"][0]
        self._clock[kernels.FILLED] = self._history
        if self._templates is not None:
            self._templates.restart()
        self._clock[kernels.SEARCHING] = 0
        self._clock[kernels.NEXT] = frame
        self._marks[kernels.CANDIDATE] = -1
        for name in (kernels.BELOW, kernels.SEEN, kernels.RUN):
            self._marks[name] = 0
        until = frame + int(self._setups["settle"][0])
        self._marks[kernels.WHY][self._marks[kernels.MUTE_UNTIL] < until] = kernels.BY_START
        np.maximum(self._marks[kernels.MUTE_UNTIL], until, out=self._marks[kernels.MUTE_UNTIL])
        self._clock[kernels.HORIZON] = max(self._clock[kernels.HORIZON], until)
        self._lanes[[kernels.POWER, kernels.MOVES, kernels.USED]] = 0.0
        self._lanes[kernels.THRESHOLD] = -np.inf
        self._lanes[kernels.GATE] = 0.0

    def blank(self, blanks: Sequence[Blank]) -> None:
        """Announce blanking. A blank takes effect from its first frame, or from the next processed frame."""
        self._pending.extend(blanks)

    def stimulated(self, pulses: Sequence[StimulatedFrame]) -> list[Blank]:
        """Announce pulses that were delivered: each is blanked, or its artefact subtracted, from its frame on.

        Args:
            pulses: The pulses.

        Returns:
            The stretches in which samples are held.
        """
        held, others = ([], pulses) if self._templates is None else self._templates.take(pulses)
        blanks = [blank for each in others for blank in each.blanks(float(self._setups[0]["rate_hz"]))]
        self._pending.extend(blanks)
        return [*held, *blanks]

    def process(self, samples: Frames, first_frame: int) -> Spikes:
        """Filter one block and return its spikes, as copies."""
        end = first_frame + len(samples)
        now = self._blanks_until(end) if self._pending else _NONE
        if samples.size > len(self._found):
            self._found = np.empty(samples.size, kernels.FOUND)
        number = kernels.detect(
            samples,
            first_frame,
            now,
            self._state,
            None if self._templates is None else self._templates.before(end),
            self._found,
        )
        self._next_frame = end
        if not number:
            return NO_SPIKES
        found = self._found[:number]
        return Spikes(found["frame"].copy(), found["electrode"].copy(), found["uv"].copy())

    def _blanks_until(self, end: int) -> NDArray[np.int64]:
        """Take the announced blanks that begin before frame `end`, in order: rows of electrode, first and end frame."""
        due = sorted((blank for blank in self._pending if blank.first_frame < end), key=lambda blank: blank.first_frame)
        self._pending = [blank for blank in self._pending if blank.first_frame >= end]
        if not due:
            return _NONE
        return np.array([(blank.electrode, blank.first_frame, blank.end_frame) for blank in due], np.int64)


_NONE = np.empty((0, 3), np.int64)
NO_SPIKES = Spikes(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


def warm_up(electrodes: int, detection: Detection | None = None) -> None:
    """Compile (or load from the cache) before the first real frame arrives."""
    SpikeDetector(electrodes, 25_000.0, 0.195, detection=detection).process(np.zeros((25, electrodes), np.int16), 0)
