"""Compare published good readings with what the probe really measured (I9).

A simulated probe remembers its recent measurements, before any transmission. A published good reading may differ
from them by :meth:`controller.readings.plausibility.PlausibleRange.error` at most. A larger error is a corrupted
reading that was accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.core.state import Reading, StateStore
from controller.readings.plausibility import PlausibleRange, bounds_of
from controller.rig.description import Rig
from drivers.commands import Quality
from sim.lab import SimulatedLab
from verification.campaign.findings import Findings

OWN_NUMBERS = frozenset(("stuck", "noise", "offset", "drift", "eeprom", "reboot", "power_cut"))
"""Faults under which a device sends another number than its probe has measured, or its probe jumps by itself."""
ON_ITS_WAY_S = 10.0
"""Maximum age of a measurement when it is received (s): circuits take up to a second, and a line may be late."""


@dataclass(slots=True)
class ReadingTally:
    """Number of readings of one model by their outcome."""

    read: int = 0
    good: int = 0
    suspect: int = 0
    failed: int = 0
    wrong: int = 0
    worst: str = ""

    @property
    def wrong_per_million(self) -> float:
        """Return the number of wrong readings per million published good ones."""
        return 1e6 * self.wrong / self.good if self.good else 0.0


class Readings:
    """Compares published readings with the plant's probes."""

    def __init__(self, rig: Rig, lab: SimulatedLab) -> None:
        self._lab = lab
        self._periods = {name: device.every_s for name, device in rig.devices.items()}
        self._bounds: Mapping[str, PlausibleRange] = bounds_of(rig)

    def wrong(self, point: str, reading: Reading) -> str | None:
        """Return how a published good reading differs from all its measurements, or None."""
        bounds = self._bounds.get(point)
        if reading.quality is not Quality.GOOD or bounds is None:
            return None
        measured = self._lab.plant.measured(point, reading.at_s - ON_ITS_WAY_S)
        allowed = bounds.error(self._periods[point.partition(".")[0]])
        if not measured or min(abs(reading.value - value) for value in measured) <= allowed:
            return None
        was = measured[-1]
        return f"{point} is published as {reading.value:g} {reading.unit} and was {was:g} (allowed: {allowed:.2g})"

    def update(self, readings: Mapping[str, Reading], findings: Findings, excused: frozenset[str]) -> None:
        """Check everything that is published now; `excused` are devices that really send another number."""
        for point, reading in readings.items():
            if point.partition(".")[0] not in excused and (why := self.wrong(point, reading)) is not None:
                findings.tell("no corrupted reading is good", point, f"{why} (I9)")


@dataclass
class Tap:
    """Counts, by model, the outcome of every reading that a controller receives. Attach it before the controller
    starts.
    """

    rig: Rig
    lab: SimulatedLab
    tallies: dict[str, ReadingTally] = field(default_factory=dict)

    def put_on(self, store: StateStore) -> None:
        """Attach this to `store`."""
        judge, read, failed = Readings(self.rig, self.lab), store.read, store.failed

        def received(
            point: str,
            value: float,
            unit: str,
            quality: Quality,
            at_s: float,
            detail: str = "",
            *,
            stable: bool = True,
        ) -> bool:
            again = read(point, value, unit, quality, at_s, detail, stable=stable)
            if (tally := self._tally(point)) is not None:
                reading = store.readings[point]
                tally.read += 1
                tally.good += reading.quality is Quality.GOOD
                tally.suspect += reading.quality is Quality.SUSPECT
                if (why := judge.wrong(point, reading)) is not None:
                    tally.wrong += 1
                    tally.worst = why
            return again

        def missed(point: str, unit: str, detail: str) -> None:
            failed(point, unit, detail)
            if (tally := self._tally(point)) is not None:
                tally.failed += 1

        store.read, store.failed = received, missed  # type: ignore[method-assign]

    def _tally(self, point: str) -> ReadingTally | None:
        device = self.rig.devices.get(point.partition(".")[0])
        return None if device is None else self.tallies.setdefault(device.model, ReadingTally())
