"""What a rig knows of its tissue at one moment: the inputs of the estimate of viability."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from controller.core.clock import Clock
from controller.core.state import State
from controller.estimator.observations import ANALYTES
from controller.journal.journal import Journal
from controller.journal.terms import Entry
from controller.regulation.trust import trusted
from controller.rig.description import Rig
from controller.rig.families import points_of
from controller.rig.perfusion import circulating
from controller.rig.probes import chamber_temperature, loop_oxygen, loop_ph
from controller.steps.barrier import FilterRecord
from controller.tissue.record import MOVED, PLACED, REMOVED
from controller.vitals.image_signs import ImageSigns
from controller.vitals.ldh_signs import LdhSigns, last_told
from controller.vitals.medium_assays import MediumAssays
from controller.vitals.score_faults import ScoreFaults
from drivers.commands import PumpStatus
from nerves.summary import NervesSummary
from protocols.interval import Interval
from protocols.media_state import MediaState
from protocols.tissue.look import EVIDENCE, TISSUE, TissueLook
from protocols.tissue.sources import Knowing, KnownBy

PROBE_SET, TUBING = "calibration.set", "tubing.installed"
KINDS = (PROBE_SET, TUBING, PLACED, MOVED, REMOVED)


class Instruments:
    """Follows the rows of the journal that change the scale of a signal."""

    def __init__(self, rig: Rig, journal: Journal, *, oxygen: Sequence[str], pumps: Sequence[str]) -> None:
        """Begin; `oxygen` are the points and `pumps` the outputs from which oxygen uptake follows."""
        self._journal = journal
        self._oxygen = frozenset(oxygen) | frozenset(pumps)
        self._read_to = 0
        self._changed: dict[str, list[int]] = {name: [] for name in (*EVIDENCE, TISSUE)}
        """By signal the rows that changed its scale."""
        devices = sorted({point.partition(".")[0] for point in self._oxygen} & rig.devices.keys())
        described = {name: rig.devices[name].model_dump(mode="json", exclude={"every_s"}) for name in devices}
        nerves = None if rig.nerves is None else rig.nerves.model_dump(mode="json", exclude={"recording"})
        self._described = {"oxygen_uptake": _digest(described), "firing_hz": _digest(nerves)}

    def now(self) -> dict[str, str]:
        """Return a text for each signal that changes when its scale does."""
        for row in self._journal.entries(kinds=KINDS, after=self._read_to):
            self._read_to = row.seq
            if row.kind in (PROBE_SET, TUBING):
                signals: Sequence[str] = ("oxygen_uptake",) if self._concerns(row.body) else ()
            else:
                signals = (*EVIDENCE, TISSUE) if row.kind == PLACED else EVIDENCE
            for signal in signals:
                self._changed[signal].append(row.seq)
        return {name: _digest([self._described.get(name), rows]) for name, rows in self._changed.items()}

    def _concerns(self, body: Mapping[str, Any]) -> bool:
        return body.get("point") in self._oxygen or body.get("pump") in self._oxygen


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]


STALE_S = 120.0
UNCERTAINTY = {"temperature": 0.3, "oxygen": 2.0, "ph": 0.03}
"""Uncertainty of a probe, in its unit: of the order that makers state for a probe in use [P]."""
TISSUE_NOTE = "note.tissue"
MEDIUM = ("glucose_mm", "lactate_mm", "ammonia_mm", "osmolality_mosm")
MEDIUM_VALID_H = 48.0
"""Time (h) for which an assay of the medium counts as measured."""
READ_BY = {
    "temperature_c": "probe",
    "oxygen_pct": "probe",
    "ph": "probe",
    "oxygen_uptake": "probes",
    "firing_hz": "electrode array",
    "ldh": "finding of a person",
    "volume": "finding of a person",
}
"""What reads a field of a look, unless an assay or an image does."""
NEW_S = 3600.0
"""Maximum age (s) of a finding that becomes evidence: a restart must not count it twice."""
LOOK_UP_EVERY_S = 600.0
FINDINGS = ("ldh", "volume")
"""What a person may find of the tissue that becomes evidence."""
FINDING_REL_SD = 0.1
FIRING_REL_SD = 0.05
FLOW_SD = 0.05


def trusted_interval(state: State, point: str | None, quantity: str) -> Interval | None:
    """Return a probe's reading with its uncertainty; None if it is missing, doubtful or old."""
    value = None if point is None else trusted(state, point, STALE_S)
    if value is None:
        return None
    off = UNCERTAINTY[quantity]
    return Interval(value, value - off, value + off)


class TissueInputs:
    """Collects the inputs of a rig."""

    def __init__(
        self,
        rig: Rig,
        journal: Journal,
        clock: Clock,
        *,
        outlets: Mapping[str, Sequence[str]],
        faults: ScoreFaults,
    ) -> None:
        """Begin; `outlets` are the oxygen probes in chambers, with the pumps that feed each one's chamber."""
        self._rig = rig
        self._known = faults.interval
        self._kept = faults.kept
        self._journal = journal
        self._clock = clock
        self._temperature, self._loop_oxygen, self._loop_ph = chamber_temperature(rig), loop_oxygen(rig), loop_ph(rig)
        self._outlets = tuple(point for point in outlets if point != self._loop_oxygen)
        oxygen = [] if self._loop_oxygen is None else [self._loop_oxygen]
        pumps = [pump for each in outlets.values() for pump in each]
        self._sources = Instruments(rig, journal, oxygen=[*oxygen, *outlets], pumps=pumps)
        self.images = ImageSigns(rig, journal, clock)
        self.ldh = LdhSigns(journal, clock)
        self.assays = MediumAssays(journal, clock)
        self._sensors = _sensors(rig)
        self.instruments = self._instruments()
        """By signal a text that changes when its scale does."""
        self._barrier = FilterRecord(rig, journal)
        self._barrier_failed = False
        self._finding: Entry | None = None
        self._looked_up_s = float("-inf")
        self._undiluted: float | None = None
        """What was left of the medium at the last look."""
        self._told = {name: last_told(journal, f"note_{name}", unnamed=0) for name in FINDINGS}
        """The journal's row of the last finding of each kind that has become evidence."""

    def update(
        self,
        state: State,
        media: MediaState | None,
        nerves: NervesSummary | None,
        *,
        uptake: Interval | None,
        lactate_umol_d: Interval | None,
        undiluted: float | None,
    ) -> TissueLook:
        """Return what is known at this minute; `undiluted` as :attr:`controller.estimator.estimator.Estimator.undiluted`."""
        if state.at_s - self._looked_up_s >= LOOK_UP_EVERY_S:
            self._looked_up_s = state.at_s
            self._kept("tissue_records", self._look_up, None)
        known = self._known
        volume, ldh = known("volume", self._volume), known("ldh_assay", self._ldh)
        loop, outlet = trusted_interval(state, self._loop_oxygen, "oxygen"), self._outlet_oxygen(state)
        if loop is not None and outlet is not None and outlet.low > loop.high:
            outlet = loop  # the probes are exchanged, or one is wrong: the lower one counts
        medium: dict[str, Any] = (
            {} if media is None else {name: known(name, partial(media.interval, "loop", name)) for name in MEDIUM}
        )
        return TissueLook(
            temperature_c=trusted_interval(state, self._temperature, "temperature"),
            oxygen_pct=loop if outlet is None else outlet,
            oxygen_at_tissue=outlet is not None,
            flow_share=known("flow", lambda: self._flow_share(state)),
            ph=trusted_interval(state, self._loop_ph, "ph"),
            **medium,
            sterility_failed=self._barrier_failed,
            oxygen_uptake=uptake,
            lactate_umol_d=lactate_umol_d,
            firing_hz=known("firing", lambda: mean_firing(nerves, state.at_s)),
            ldh=ldh,
            volume=volume,
            renewed=self._renewed(undiluted),
        )

    def _renewed(self, undiluted: float | None) -> float:
        """Return the share of the medium that was replaced from bottles since the last look."""
        before, self._undiluted = self._undiluted, undiluted
        return 0.0 if not before or undiluted is None else min(max(1.0 - undiluted / before, 0.0), 1.0)

    def sources(self, state: State) -> dict[str, KnownBy]:
        """Return how each field of a look is measured, or what measured it last; those of the medium else are estimated."""
        found = {name: KnownBy(Knowing.MEASURED, by) for name, by in READ_BY.items()}
        found |= {name: self.assays.source(name, MEDIUM_VALID_H) for name in MEDIUM}
        found |= {name: KnownBy(Knowing.MEASURED, "sensor") for name in MEDIUM if self._sensed(state, name)}
        ldh_h = self.ldh.seen().age_h
        if ldh_h is not None:
            found["ldh"] = KnownBy(Knowing.MEASURED, "assay", ldh_h)
        if self.images.seen:
            found["volume"] = KnownBy(Knowing.MEASURED, "image", self.images.age_h)
        return found

    def _sensed(self, state: State, name: str) -> bool:
        """Return whether a sensor in the circulating medium reads a species now."""
        return any(trusted(state, point, STALE_S) is not None for point in self._sensors.get(name, ()))

    @property
    def told(self) -> dict[str, int]:
        """The last row of each kind of result that has become evidence; empty where there was none."""
        found = {"ldh": self.ldh.told} if self.ldh.assayed else {}
        found |= {"volume": self.images.told} if self.images.seen else {}
        return found | ({} if self._finding is None else {f"note_{name}": seq for name, seq in self._told.items()})

    def _look_up(self) -> None:
        """Read the journal for what changes every few hours, not every minute."""
        self._finding, self._barrier_failed = self._journal.last(TISSUE_NOTE), self._barrier.failed
        self.instruments = self._instruments()

    def _instruments(self) -> dict[str, str]:
        found = self._sources.now()
        volume = " ".join((found["volume"], *self.images.instrument))
        return found | {"volume": volume, "ldh": f"{found['ldh']} {self.ldh.method}"}

    def _volume(self) -> Interval | None:
        """Return the volume from images, or a person's on a rig without: the two have no common unit."""
        seen = self.images.volume()
        if seen is not None:
            self.instruments = self._instruments()
        return seen if self.images.instrument else self._new_finding("volume")

    def _ldh(self) -> Interval | None:
        """Return a new assay of LDH, or a person's finding on a rig without: the two have no common unit."""
        seen = self.ldh.value()
        if seen is not None:
            self.instruments = self._instruments()
        return seen if self.ldh.assayed else self._new_finding("ldh")

    def _outlet_oxygen(self, state: State) -> Interval | None:
        """Return the lowest oxygen at the outlet of a chamber."""
        seen = [trusted_interval(state, point, "oxygen") for point in self._outlets]
        return min((each for each in seen if each is not None), key=lambda each: each.value, default=None)

    def _flow_share(self, state: State) -> Interval | None:
        """Return the flow of all hearts over their nominal flow; None if a pump does not tell."""
        hearts = self._rig.organs.hearts.values()
        views = [state.actuators.get(self._rig.lines[heart.line].pump or "") for heart in hearts]
        statuses = [view.status for view in views if view is not None and isinstance(view.status, PumpStatus)]
        if not hearts or len(statuses) < len(hearts):
            return None
        flow = sum(abs(status.flow_ul_min) for status in statuses if status.running)
        return Interval.around(flow / sum(heart.flow_ul_min for heart in hearts), FLOW_SD, floor=0.0)

    def _new_finding(self, name: str) -> Interval | None:
        """Return a person's finding about the tissue (examples/protocols/look.yaml) if it is new."""
        row = self._finding
        if row is None or row.seq <= self._told[name]:
            return None
        self._told[name] = row.seq
        value = row.body.get(name)
        age_s = (self._clock.utc() - datetime.fromisoformat(row.utc)).total_seconds()
        if not isinstance(value, int | float) or value <= 0.0 or age_s > NEW_S:
            return None
        return Interval.around(value, FINDING_REL_SD * value)


def _sensors(rig: Rig) -> dict[str, list[str]]:
    """Return the points of the sensors in the circulating medium, by the field of a look that they read."""
    found: dict[str, list[str]] = {}
    for point in points_of(rig):
        device, _, name = point.partition(".")
        if name in ANALYTES and rig.devices[device].at in circulating(rig):
            found.setdefault(ANALYTES[name], []).append(point)
    return found


def firing_known(nerves: NervesSummary, now_s: float) -> bool:
    """Return whether a summary tells how the whole array fires now."""
    recent = now_s - nerves.at_s <= STALE_S
    return nerves.electrodes > 0 and nerves.sufficient and recent and math.isfinite(nerves.firing_rate_hz)


def mean_firing(nerves: NervesSummary | None, now_s: float) -> Interval | None:
    """Return the mean rate of the observed electrodes (Hz), the silent ones among them."""
    if nerves is None or not firing_known(nerves, now_s):
        return None
    rate = nerves.firing_rate_hz * nerves.active_electrodes / nerves.observed
    return Interval.around(rate, FIRING_REL_SD * rate, floor=0.0)
