"""What the controller knows: readings, actuators, volumes, trips; one immutable snapshot a tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from controller.safety.terms import Trip
from drivers.commands import Command, Guarantee, Quality, Status


@dataclass(frozen=True, slots=True)
class Reading:
    """One value in `unit`, when it was taken (loop seconds), and since when it has been exactly the same."""

    value: float
    unit: str
    quality: Quality
    at_s: float
    detail: str = ""
    same_since_s: float = 0.0
    stuck: bool = False
    """Whether its probe answers, and always the same (:mod:`controller.readings.liveliness`); the quality is stale then."""
    last_good: Reading | None = None
    """The last good reading before this one; None where this one is good itself, or none ever was."""
    stable: bool = True
    """Whether the value has come to rest, as its device says (:attr:`drivers.device.Sensor.stable`)."""

    @property
    def good(self) -> Reading | None:
        """The newest good reading: this one, or the last before it. Nothing may be acted on but this."""
        return self if self.quality is Quality.GOOD else self.last_good


@dataclass(frozen=True, slots=True)
class Volume:
    """An estimated volume (µL) and its standard deviation."""

    ul: float
    sd_ul: float


@dataclass(frozen=True, slots=True)
class ActuatorView:
    """One actuator: what it says, when it was asked, what it was told last, what it falls back to.

    `lease_until_s` is when a continuous command runs out, `fault` why its status could not be read lately.
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
    """Everything at one tick."""

    at_s: float
    utc: str
    readings: Mapping[str, Reading]
    actuators: Mapping[str, ActuatorView]
    volumes: Mapping[str, Volume]
    trips: tuple[Trip, ...]
    links: Mapping[str, str]


class Judge(Protocol):
    """What the store needs of :class:`controller.readings.plausibility.Plausibility`."""

    def judge(
        self, point: str, value: float, unit: str, at_s: float, actuators: Mapping[str, ActuatorView]
    ) -> str | None:
        """Take in a reading of the moment; return why it is suspect, or None when it is good."""

    def again(self, point: str) -> bool:
        """Whether another reading soon would tell more."""

    def failed(self, point: str) -> None:
        """Note that a reading could not be taken."""


class StateStore:
    """Where sampling, gate and ledger put what they learn; `state` is the snapshot of the last tick."""

    def __init__(
        self,
        flat: Callable[[str, float, float], str | None] | None = None,
        oldest_s: Mapping[str, float] = MappingProxyType({}),
        plausible: Judge | None = None,
    ) -> None:
        """`flat(point, value, at_s)` says why a reading cannot be live, as :meth:`Liveliness.flat` does. `oldest_s`: by
        device, how old (s) a reading may be before it is stale. `plausible` decides what a value is worth (I9).
        """
        self._plausible = plausible
        self._flat = flat
        self._oldest_s = oldest_s
        self._readings: dict[str, Reading] = {}
        self._news: dict[str, Reading] = {}
        self._actuators: dict[str, ActuatorView] = {}
        self._volumes: dict[str, Volume] = {}
        self._links: dict[str, str] = {}
        self.state = State(0.0, "", {}, {}, {}, (), {})

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
        """Take in a reading; return whether it ought to be read again soon, because only that tells what it is worth.

        A value that is not plausible is suspect, whatever the device says of it. Remembers since when the value has not
        changed (I2, flat).
        """
        before = self._readings.get(point)
        again = stuck = None
        if self._plausible is not None:
            again = self._plausible.judge(point, value, unit, at_s, self._actuators)
            if again is not None and quality is Quality.GOOD:
                quality, detail = Quality.SUSPECT, again
        if self._flat is not None and again is None:
            stuck = self._flat(point, value, at_s)
            if stuck is not None:
                quality, detail = Quality.STALE, stuck
        # What a stuck probe has said before it was found to be stuck is worth no more than what it says now.
        good = None if before is None else before.good
        last_good = None if quality is Quality.GOOD or stuck is not None else good
        same = before if before is not None and before.stuck else good
        since_s = same.same_since_s if same is not None and same.value == value else at_s
        reading = Reading(value, unit, quality, at_s, detail, since_s, stuck is not None, last_good, stable)
        self._readings[point] = self._news[point] = reading
        return again is not None and self._plausible is not None and self._plausible.again(point)

    def news(self) -> Mapping[str, Reading]:
        """The readings that have come since this was asked last, the latest of each point."""
        news, self._news = self._news, {}
        return news

    def failed(self, point: str, unit: str, detail: str) -> None:
        """A reading could not be taken: the last good value stays with its old time, marked missing."""
        if self._plausible is not None:
            self._plausible.failed(point)
        before = self._readings.get(point)
        if before is None:
            self._readings[point] = Reading(float("nan"), unit, Quality.MISSING, float("-inf"), detail)
        elif before.quality is not Quality.MISSING or before.detail != detail:
            shown = before.good or before
            self._readings[point] = replace(
                shown, quality=Quality.MISSING, detail=detail, stuck=False, last_good=before.good
            )

    def age(self, now_s: float) -> None:
        """Mark as stale what has not been read for longer than its device may be silent; call every few seconds."""
        for point, reading in self._readings.items():
            if reading.quality is Quality.STALE or reading.quality is Quality.MISSING:
                continue
            oldest_s = self._oldest_s.get(point.partition(".")[0])
            if oldest_s is not None and now_s - reading.at_s > oldest_s:
                detail = f"nothing has come for {now_s - reading.at_s:.0f} s"
                self._readings[point] = replace(reading, quality=Quality.STALE, detail=detail, last_good=reading.good)

    def actuator(self, name: str, view: ActuatorView) -> None:
        """Take in a view of an actuator."""
        self._actuators[name] = view

    def volumes(self, volumes: Mapping[str, Volume]) -> None:
        """Take in the ledger's volumes."""
        self._volumes = dict(volumes)

    def link(self, name: str, state: str) -> None:
        """Take in a link's state."""
        self._links[name] = state

    def snapshot(self, at_s: float, utc: str, trips: tuple[Trip, ...]) -> State:
        """Freeze everything as the state of this tick."""
        self.state = State(
            at_s,
            utc,
            MappingProxyType(dict(self._readings)),
            MappingProxyType(dict(self._actuators)),
            MappingProxyType(dict(self._volumes)),
            trips,
            MappingProxyType(dict(self._links)),
        )
        return self.state
