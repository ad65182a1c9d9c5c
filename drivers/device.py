"""What every driver is made of: points that can be read, actuators that take desired-state commands.

A driver is one plain class a device. It owns no clock, no thread and no policy: it turns commands into the
manufacturer's bytes and bytes into numbers in Choroid's inner units (µL, µL/min, mL/min for gas, °C, kPa, g,
% of air saturation, pH, s). Policy (limits, leases, interlocks) lives above, in the safety gate, which is the
only caller of :meth:`Actuator.apply`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from drivers.transport.link import Link


class Guarantee(StrEnum):
    """Who brings an actuator to rest if the host dies."""

    DEVICE = "device"
    """The device itself: a finite volume or a finite time was given to it."""
    GUARD = "guard"
    """The guard process, which opens the link and commands the basal state."""
    HOST = "host"
    """Only the controller; the weakest guarantee, and said so on every page."""


class Quality(StrEnum):
    """How far a reading may be trusted."""

    GOOD = "good"
    UNCERTAIN = "uncertain"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Run:
    """Pump continuously at `flow_ul_min` (µL/min, sign = direction). Idempotent."""

    flow_ul_min: float


@dataclass(frozen=True, slots=True)
class Dispense:
    """Deliver `volume_ul` (µL, > 0) at about `flow_ul_min` (µL/min), then stop by itself.

    `dose_id` names the dose: a driver that is given the same id twice delivers once (behaviour A4).
    """

    volume_ul: float
    flow_ul_min: float
    dose_id: str


@dataclass(frozen=True, slots=True)
class Switch:
    """Switch on or off; with `for_s` the device itself falls back to off after that many seconds."""

    on: bool
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """Bring a continuous output (a gas flow, mL/min) to `value`. Idempotent."""

    value: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Come to rest: a pump halts, a switch opens, a level goes to zero. Idempotent."""


Command = Run | Dispense | Switch | Level | Stop


@dataclass(frozen=True, slots=True)
class PumpStatus:
    """What a pump says of itself. `delivered_ul` is its own running total (µL), zeroed only by a power cycle."""

    running: bool
    flow_ul_min: float
    delivered_ul: float


@dataclass(frozen=True, slots=True)
class SwitchStatus:
    """What a switch says of itself."""

    on: bool


@dataclass(frozen=True, slots=True)
class LevelStatus:
    """What a continuous output says of itself: commanded set-point and measured value, in its own unit."""

    setpoint: float
    measured: float


Status = PumpStatus | SwitchStatus | LevelStatus


class DeviceError(Exception):
    """Something went wrong with a device: what happened, where, the likely cause and the next action."""

    def __init__(self, what: str, *, where: str, cause: str, action: str) -> None:
        super().__init__(f"{where}: {what}. Likely cause: {cause}. Next: {action}.")
        self.what = what
        self.where = where
        self.cause = cause
        self.action = action


class LinkDown(DeviceError):
    """The line itself is not open."""


class NoReply(DeviceError):
    """The line is open; the device did not answer in time."""


class BadReply(DeviceError):
    """Bytes came that are not a valid answer to what was asked; nothing was taken from them."""


class Refused(DeviceError):
    """The device answered that it will not do this."""


class WrongDevice(DeviceError):
    """Something else than the configured model answers on this address."""


class DeviceFault(DeviceError):
    """The device reports a fault of its own (motor overload, probe missing, low supply)."""


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """The catalogue entry of a driver: what `choroid devices` lists."""

    id: str
    vendor: str
    name: str
    kind: Literal["pump", "sensor", "gas", "balance", "relay", "electrodes"]
    transports: tuple[str, ...]
    capabilities: tuple[str, ...]
    guarantee: Guarantee
    manual: str
    verification: str = "verified against the manual and a simulator written apart from it"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answered: model text, serial number and firmware as far as the device tells them."""

    model: str
    serial: str = ""
    firmware: str = ""


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """One channel of a device: the name of its point and its own settings (plain numbers, inner units)."""

    point: str
    settings: Mapping[str, float | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """What the rig says of one device. `name` is its name in the rig; points are called `name.point`."""

    name: str
    address: str = ""
    settings: Mapping[str, float | str | bool] = field(default_factory=dict)
    channels: Mapping[str, ChannelConfig] = field(default_factory=dict)


class Sensor(ABC):
    """One readable point of a device, in a fixed unit."""

    unit: str

    @abstractmethod
    async def read(self) -> float:
        """Return a fresh value in `unit`; raise a :class:`DeviceError` rather than return a doubtful number."""


class Actuator(ABC):
    """One output of a device. Only the safety gate calls :meth:`apply`."""

    kind: Literal["pump", "switch", "level"]
    unit: str
    guarantee: Guarantee

    @abstractmethod
    async def apply(self, command: Command) -> None:
        """Bring the output to the commanded state; applying the same command twice equals once (A4).

        Raises :class:`Refused` for a command this actuator does not know, any :class:`DeviceError` otherwise.
        A cancelled call leaves the output commanded off if the command had begun to turn it on (A2).
        """

    @abstractmethod
    async def status(self) -> Status:
        """Read back what the device says it is doing."""


class Device(ABC):
    """One device on one link. `sensors` and `actuators` are keyed by point name."""

    model: ClassVar[DeviceModel]

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        self.link = link
        self.config = config
        self.sensors: dict[str, Sensor] = {}
        self.actuators: dict[str, Actuator] = {}

    @abstractmethod
    async def verify(self) -> Identity:
        """Ask who is there and bring the line settings into order; runs after every (re)connection.

        No command is accepted before it has succeeded (A6). Raises :class:`WrongDevice` if another model answers.
        It never changes an output.
        """

    async def close(self) -> None:
        """Turn outputs off (A3). The link is closed by its owner."""
        for actuator in self.actuators.values():
            await actuator.apply(Stop())
