"""What the controller knows: readings, actuators, volumes, trips; one immutable snapshot a tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from controller.safety.kernel import Trip
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
    """Whether its probe answers, and always the same (:mod:`controller.liveliness`); the quality is bad then."""


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


class StateStore:
    """Where sampling, gate and ledger put what they learn; `state` is the snapshot of the last tick."""

    def __init__(self, flat: Callable[[str, float, float], str | None] | None = None) -> None:
        """`flat(point, value, at_s)` says why a reading cannot be live, as :meth:`Liveliness.flat` does."""
        self._flat = flat
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

    def read(self, point: str, value: float, unit: str, quality: Quality, at_s: float, detail: str = "") -> None:
        """Take in a reading; remembers since when the value has not changed (I2, flat)."""
        before = self._readings.get(point)
        since_s = before.same_since_s if before is not None and before.value == value else at_s
        stuck = None if self._flat is None else self._flat(point, value, at_s)
        if stuck is not None:
            quality, detail = Quality.BAD, stuck
        reading = Reading(value, unit, quality, at_s, detail, since_s, stuck is not None)
        self._readings[point] = self._news[point] = reading

    def news(self) -> Mapping[str, Reading]:
        """The readings that have come since this was asked last, the latest of each point."""
        news, self._news = self._news, {}
        return news

    def failed(self, point: str, unit: str, detail: str) -> None:
        """A reading could not be taken: the old value stays with its old time, marked bad."""
        before = self._readings.get(point)
        if before is None:
            self._readings[point] = Reading(float("nan"), unit, Quality.BAD, float("-inf"), detail)
        elif before.quality is not Quality.BAD or before.detail != detail:
            self._readings[point] = replace(before, quality=Quality.BAD, detail=detail, stuck=False)

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
