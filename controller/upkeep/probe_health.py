"""Health of the probes: read at the start, daily, after a lost link and after a calibration; judged, recorded, shown.

A worn electrode still reads right in the buffers that it was just calibrated in, and wrong between and after them. Its slope
and its zero offset tell that it is worn.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from controller.core.clock import Clock
from controller.core.state import State
from drivers.errors import DeviceError
from drivers.probe_health import ProbeHealth
from drivers.transport.link import LinkState

EVERY_S = 86_400.0
RETRY_S = 600.0
"""Time (s) to the next attempt after a probe did not answer."""
ROW = "probe.health"
WORN = "probe_worn"
LINKED = LinkState.VERIFIED.value
Start = Callable[[str, Coroutine[Any, Any, object]], None]


@dataclass(frozen=True, slots=True)
class ProbeRecord:
    """Holds the latest report of a probe on its own health."""

    at_utc: str
    figures: Mapping[str, float]
    faults: tuple[str, ...]


class ProbeHealthWatch:
    """Reads and judges the health of each probe of a rig that reports one, by device."""

    def __init__(
        self,
        probes: Mapping[str, ProbeHealth],
        links: Mapping[str, str],
        *,
        record: Callable[[str, Mapping[str, Any]], None],
        clock: Clock,
        start: Start,
    ) -> None:
        """Begin; the first reading is due at once.

        Args:
            probes: The probes, by device.
            links: The link of each device.
            record: Appends a row to the journal.
            clock: The clock.
            start: Starts a task.
        """
        self._probes = probes
        self._links = links
        self._record = record
        self._clock = clock
        self._start = start
        self._due_s = dict.fromkeys(probes, clock.now_s())
        self._linked = dict.fromkeys(probes, True)
        self._under_way: set[str] = set()
        self.last: dict[str, ProbeRecord] = {}
        """What each probe last reported, by device."""

    @property
    def causes(self) -> dict[tuple[str, str], str]:
        """The present causes of alarms: detail by (alarm kind, point)."""
        return {
            (WORN, self._probes[name].point_of(name)): "; ".join(last.faults)
            for name, last in self.last.items()
            if last.faults
        }

    def update(self, state: State) -> None:
        """Start the readings that are due. Called at each tick; does not wait."""
        for name in self._probes:
            linked = state.links.get(self._links[name]) == LINKED
            if linked and not self._linked[name]:
                # It may be another probe; a link that comes and goes does not have it asked each time.
                self._due_s[name] = max(state.at_s, self._due_s[name] - EVERY_S + RETRY_S)
            self._linked[name] = linked
            if linked and state.at_s >= self._due_s[name] and name not in self._under_way:
                self._due_s[name] = state.at_s + EVERY_S
                self._under_way.add(name)
                self._start(f"health of {name}", self._routine(name))

    async def examine(self, name: str) -> tuple[str, ...]:
        """Read the health of a device's probe now; record and return what is wrong. Nothing for one that reports none.

        Raises:
            DeviceError: The probe does not answer.
        """
        probe = self._probes.get(name)
        if probe is None:
            return ()
        figures = dict(await probe.read())
        faults = probe.faults(figures)
        self.last[name] = ProbeRecord(self._clock.utc_text(), figures, faults)
        self._record(ROW, {"device": name, "point": probe.point_of(name), "figures": figures, "faults": list(faults)})
        return faults

    def to_json(self) -> list[dict[str, Any]]:
        """Return the health of each probe, with the range of each figure."""
        return [self._view(name, probe) for name, probe in self._probes.items()]

    def _view(self, name: str, probe: ProbeHealth) -> dict[str, Any]:
        last = self.last.get(name)
        figures = {} if last is None else last.figures
        return {
            "point": probe.point_of(name),
            "at_utc": None if last is None else last.at_utc,
            "problem": "" if last is None else " ".join(f"{each[:1].upper()}{each[1:]}." for each in last.faults),
            "figures": [
                {
                    "name": item.name,
                    "meaning": item.meaning,
                    "unit": item.unit,
                    "value": figures.get(item.name),
                    "low": item.low,
                    "high": item.high,
                    "sound": item.name not in figures or item.fault(figures[item.name]) is None,
                }
                for item in probe.items
            ],
        }

    async def _routine(self, name: str) -> None:
        try:
            await self.examine(name)
        except DeviceError:  # the link is supervised elsewhere; what was known of the probe stays
            self._due_s[name] = self._clock.now_s() + RETRY_S
        finally:
            self._under_way.discard(name)
