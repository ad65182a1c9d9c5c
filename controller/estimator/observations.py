"""What a rig shows of its medium between assays, in addition to pH and gas: on-line metabolites, and oxygen uptake."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.rig.description import Rig
from controller.rig.families import OXYGEN, points_of
from controller.rig.perfusion import fed_by
from controller.rig.probes import loop_oxygen
from drivers.commands import PumpStatus
from protocols.media_state import SENSED, SPECIES
from protocols.soft_sensor import Where

OLD_S = 120.0
"""Age of a reading (s) that no longer describes the medium; a transfer may have followed."""
AIR_SATURATED_MM = 0.209
"""Oxygen in medium at 100 % of air saturation, 37 °C (0.0105 mM/kPa)."""
PROBE_SD_PCT = 1.5
"""Error of the difference of two oxygen probes (% of air saturation)."""
FLOW_REL_SD = 0.1
MIN_LOST_PCT = 2.0
"""Loss of saturation in a chamber below which probes and leaks of gas, not tissue, make the difference."""
ANALYTES = {SPECIES[number].removesuffix("_mm"): SPECIES[number] for number in SENSED}


class Sensed(NamedTuple):
    """One reading of an on-line sensor: the vessel, the species, its value (mM), and the sensor's point."""

    where: Where
    species: str
    mm: float
    point: str


class Uptake(NamedTuple):
    """Oxygen that all tissue of the loop takes up, and its standard deviation (µmol/day)."""

    umol_d: float
    sd_umol_d: float


class Observations:
    """Reads from the latest readings of a rig; nothing that is stale, suspect or missing is used."""

    def __init__(self, rig: Rig, store: StateStore, clock: Clock, where: dict[str, Where]) -> None:
        """`where` maps vessels to the bodies of medium that are estimated."""
        self._store = store
        self._clock = clock
        self._places = {name: where[device.at] for name, device in rig.devices.items() if device.at in where}
        self._loop_oxygen = loop_oxygen(rig)
        self._outlets = tuple(_outlets(rig, self._loop_oxygen))

    def metabolites(self) -> list[Sensed]:
        """Return the reading of each on-line sensor: points named after an analyte, in mM."""
        found: list[Sensed] = []
        for point, reading in self._store.readings.items():
            device, _, name = point.partition(".")
            if name in ANALYTES and device in self._places and reading.unit == "mM":
                value = self._fresh(point)
                if value is not None:
                    found.append(Sensed(self._places[device], ANALYTES[name], value, point))
        return sorted(found)

    def oxygen_uptake(self) -> Uptake | None:
        """Return flow times the loss of oxygen between inlet and outlet, over all chambers; None unless all are seen."""
        inlet = None if self._loop_oxygen is None else self._fresh(self._loop_oxygen)
        if inlet is None or not self._outlets:
            return None
        umol_d = variance = 0.0
        for outlet, pump in self._outlets:
            seen, flow_ul_min = None if outlet is None else self._fresh(outlet), self._flow(pump)
            if seen is None or flow_ul_min is None or inlet - seen < MIN_LOST_PCT:
                return None
            per_pct = flow_ul_min * 1.44 * AIR_SATURATED_MM / 100.0
            umol_d += per_pct * (inlet - seen)
            variance += (per_pct * PROBE_SD_PCT) ** 2 + (FLOW_REL_SD * per_pct * (inlet - seen)) ** 2
        return Uptake(umol_d, math.sqrt(variance))

    def _fresh(self, point: str) -> float | None:
        newest = self._store.readings.get(point)
        reading = None if newest is None else newest.good
        if reading is None or not math.isfinite(reading.value):
            return None
        return reading.value if self._clock.now_s() - reading.at_s <= OLD_S else None

    def _flow(self, pump: str) -> float | None:
        view = self._store.actuators.get(pump)
        if view is None or not isinstance(view.status, PumpStatus) or not view.status.running:
            return None
        return view.status.flow_ul_min


def _outlets(rig: Rig, inlet: str | None) -> Iterator[tuple[str | None, str]]:
    """Yield for each heart with tissue the oxygen probe of its only chamber, and its pump.

    Without a probe, or where a heart feeds several chambers and the flow of each is unknown, the probe is None.
    """
    probes = {
        rig.devices[point.partition(".")[0]].at: point
        for point, kind in points_of(rig).items()
        if kind == OXYGEN and point != inlet
    }
    for heart in rig.organs.hearts.values():
        chambers = [chamber for chamber in fed_by(rig, heart) if chamber in rig.tissue]
        if chambers:
            yield probes.get(chambers[0]) if len(chambers) == 1 else None, rig.lines[heart.line].pump or ""
