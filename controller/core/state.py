"""The state of the rig: readings, actuators, volumes, trips; one immutable snapshot a tick."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from controller.safety.terms import Trip
from drivers.commands import Command, Guarantee, Quality, Status


@dataclass(frozen=True, slots=True)
class Reading:
    """A value in `unit`, the time it was taken (loop s), and the time since when it has not changed (loop s)."""

    value: float
    unit: str
    quality: Quality
    at_s: float
    detail: str = ""
    same_since_s: float = 0.0
    stuck: bool = False
    """Whether its probe is stuck (:mod:`controller.readings.liveliness`); the quality is then stale."""
    last_good: Reading | None = None
    """The last good reading before this one; None if this one is good, or none ever was."""
    stable: bool = True
    """Whether the value has settled, according to its device (:attr:`drivers.device.Sensor.stable`)."""

    @property
    def good(self) -> Reading | None:
        """The newest good reading: this one, or the last before it. Only this may be acted on."""
        return self if self.quality is Quality.GOOD else self.last_good


@dataclass(frozen=True, slots=True)
class Volume:
    """An estimated volume (µL) and its standard deviation."""

    ul: float
    sd_ul: float


@dataclass(frozen=True, slots=True)
class ActuatorView:
    """One actuator: its status, the time it was read, the last command, and its basal state.

    `lease_until_s` is the end of a continuous command's lease; `fault` is why its status could not be read.
    """

    status: Status | None
    at_s: float
    commanded: Command | None
    basal: Command
    guarantee: Guarantee
    lease_until_s: float | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """The snapshot of one tick. A mapping in which nothing has changed is the same object as in the snapshot before."""

    at_s: float
    utc: str
    readings: Mapping[str, Reading]
    actuators: Mapping[str, ActuatorView]
    volumes: Mapping[str, Volume]
    trips: tuple[Trip, ...]
    links: Mapping[str, str]


class Judge(Protocol):
    """The part of :class:`controller.readings.plausibility.Plausibility` that the store uses."""

    def judge(
        self, point: str, value: float, unit: str, at_s: float, actuators: Mapping[str, ActuatorView]
    ) -> str | None:
        """Take in a reading. Return why it is suspect, or None if it is good."""

    def again(self, point: str) -> bool:
        """Return whether another reading soon would help."""

    def failed(self, point: str) -> None:
        """Record that a reading could not be taken."""


class StateStore:
    """Collects the data of sampling, gate and ledger; `state` is the snapshot of the last tick."""

    def __init__(
        self,
        flat: Callable[[str, float, float], str | None] | None = None,
        max_age_s: Mapping[str, float] = MappingProxyType({}),
        plausible: Judge | None = None,
    ) -> None:
        """Create an empty store.

        Args:
            flat: returns why a reading cannot be live, as :meth:`Liveliness.flat` does.
            max_age_s: maximum age of a reading by device (s).
            plausible: judges the plausibility of a value (I9).
        """
        self._plausible = plausible
        self._flat = flat
        self._max_age_s = max_age_s
        self._readings: dict[str, Reading] = {}
        self._news: dict[str, Reading] = {}
        self._actuators: dict[str, ActuatorView] = {}
        self._volumes: Mapping[str, Volume] = {}
        self._links: dict[str, str] = {}
        self._frozen_readings: Mapping[str, Reading] | None = None
        self._frozen_actuators: Mapping[str, ActuatorView] | None = None
        self._frozen_links: Mapping[str, str] | None = None
        """Copies for snapshots; None where something has changed since the last one."""
        self.changes = 0
        """Number of changes of a reading or of the view of an actuator so far."""
        self.state = State(0.0, "", {}, {}, {}, (), {})
        self.waiting = 0
        """Number of callers that wait for new readings: the rig is then sampled at its full rate."""

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Have the rig sampled at its full rate while the caller waits for readings."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    @property
    def readings(self) -> Mapping[str, Reading]:
        """The latest readings, between ticks too."""
        return self._readings

    @property
    def actuators(self) -> Mapping[str, ActuatorView]:
        """The latest views of the actuators, between ticks too."""
        return self._actuators

    def read(
        self,
        point: str,
        value: float,
        unit: str,
        quality: Quality,
        at_s: float,
        detail: str = "",
        *,
        stable: bool = True,
    ) -> bool:
        """Take in a reading. Return whether it should be read again soon to confirm it.

        An implausible value is suspect, whatever the device says. The store keeps since when the value has not changed (I2).
        """
        doubt = self._doubt(point, value, unit, at_s)
        stuck = self._flat(point, value, at_s) if self._flat is not None and doubt is None else None
        if stuck is not None:
            quality, detail = Quality.STALE, stuck
        elif doubt is not None and quality is Quality.GOOD:
            quality, detail = Quality.SUSPECT, doubt
        since_s, last_good = _history(self._readings.get(point), value, at_s)
        if quality is Quality.GOOD or stuck is not None:
            last_good = None
        reading = Reading(value, unit, quality, at_s, detail, since_s, stuck is not None, last_good, stable)
        self._readings[point] = self._news[point] = reading
        self._reading_changed()
        return doubt is not None and self._plausible is not None and self._plausible.again(point)

    def _doubt(self, point: str, value: float, unit: str, at_s: float) -> str | None:
        """Return why a value is not plausible, or None."""
        return None if self._plausible is None else self._plausible.judge(point, value, unit, at_s, self._actuators)

    def news(self) -> Mapping[str, Reading]:
        """Return the readings since the last call, the latest of each point."""
        news, self._news = self._news, {}
        return news

    def failed(self, point: str, unit: str, detail: str) -> None:
        """Record a failed read: the last good value stays with its time, marked as missing."""
        if self._plausible is not None:
            self._plausible.failed(point)
        before = self._readings.get(point)
        if before is None:
            self._readings[point] = Reading(float("nan"), unit, Quality.MISSING, float("-inf"), detail)
            self._reading_changed()
        elif before.quality is not Quality.MISSING or before.detail != detail:
            shown = before.good or before
            self._readings[point] = replace(
                shown, quality=Quality.MISSING, detail=detail, stuck=False, last_good=before.good
            )
            self._reading_changed()

    def age(self, now_s: float) -> None:
        """Mark readings that exceed the maximum age of their device as stale. Call it every few seconds."""
        for point, reading in self._readings.items():
            if reading.quality is Quality.STALE or reading.quality is Quality.MISSING:
                continue
            max_age_s = self._max_age_s.get(point.partition(".")[0])
            if max_age_s is not None and now_s - reading.at_s > max_age_s:
                detail = f"nothing has come for {now_s - reading.at_s:.0f} s"
                self._readings[point] = replace(reading, quality=Quality.STALE, detail=detail, last_good=reading.good)
                self._reading_changed()

    def _reading_changed(self) -> None:
        self.changes += 1
        self._frozen_readings = None

    def actuator(self, name: str, view: ActuatorView) -> None:
        """Store a view of an actuator."""
        self._actuators[name] = view
        self.changes += 1
        self._frozen_actuators = None

    def volumes(self, volumes: Mapping[str, Volume]) -> None:
        """Store the ledger's volumes, a mapping that changes no more."""
        self._volumes = volumes

    def link(self, name: str, state: str) -> None:
        """Store a link's state."""
        if self._links.get(name) != state:
            self._links[name] = state
            self._frozen_links = None

    def snapshot(self, at_s: float, utc: str, trips: tuple[Trip, ...]) -> State:
        """Freeze everything as the state of this tick."""
        readings, actuators, links = self._frozen_readings, self._frozen_actuators, self._frozen_links
        if readings is None:
            readings = self._frozen_readings = MappingProxyType(dict(self._readings))
        if actuators is None:
            actuators = self._frozen_actuators = MappingProxyType(dict(self._actuators))
        if links is None:
            links = self._frozen_links = MappingProxyType(dict(self._links))
        self.state = State(at_s, utc, readings, actuators, MappingProxyType(self._volumes), trips, links)
        return self.state


def _history(before: Reading | None, value: float, at_s: float) -> tuple[float, Reading | None]:
    """Return since when a new `value` has not changed (loop s), and the last good reading before it.

    A stuck probe's readings from before its detection are worth no more than those after it.
    """
    if before is None:
        return at_s, None
    good = before.good
    same = before if before.stuck else good
    return (same.same_since_s if same is not None and same.value == value else at_s), good
