"""What every driver is made of: points that can be read, actuators that take desired-state commands.

A driver is one plain class a device. It owns no clock, no thread and no policy: it turns commands into the
manufacturer's bytes and bytes into numbers in Choroid's inner units (µL, µL/min, mL/min for gas, °C, kPa, g,
% of air saturation, pH, s). Policy (limits, leases, interlocks) lives above, in the safety gate, which is the
only caller of :meth:`Actuator.apply`.
"""

from __future__ import annotations

import asyncio
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from drivers.commands import (
    Calibrate,
    CalibrationStatus,
    Command,
    Guarantee,
    Quality,
    Status,
    Stop,
)
from drivers.errors import DeviceError, Refused

if TYPE_CHECKING:
    from drivers.transport.conversation import Conversation
    from drivers.transport.link import Link
    from drivers.transport.url import LineSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dosing:
    """How well a pump model doses before anybody has calibrated it on its rig; volumes in µL."""

    rel_sd: float = 0.10
    """Standard deviation of delivered over asked from one pump to the next: tubing, bore, head."""
    dose_sd_ul: float = 10.0
    """Scatter from dose to dose, however small the dose: about one roller's pocket of liquid."""
    least_ul: float = 100.0
    """The least dose worth asking for."""


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """The catalogue entry of a driver: what `choroid devices` lists."""

    id: str
    vendor: str
    name: str
    kind: Literal["pump", "sensor", "gas", "balance", "relay", "thermostat", "valve", "electrodes"]
    transports: tuple[str, ...]
    capabilities: tuple[str, ...]
    guarantee: Guarantee
    manual: str
    verification: str = "verified against the manual and a simulator written apart from it"
    dosing: Dosing | None = None
    """Of a pump; None is the usual (:class:`Dosing`)."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a driver's documentation page tells beside its catalogue entry; docs/devices is generated from it.

    `commands` is every command that the driver sends: as the manual writes it, what for, and the manual's section.
    """

    wiring: str
    settings: tuple[tuple[str, str], ...] = ()
    """Key in the rig file, meaning with unit and default."""
    commands: tuple[tuple[str, str, str], ...] = ()
    traps: tuple[str, ...] = ()


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
    """One readable point of a device, in a fixed unit. `quality` and `stable` describe the last value returned."""

    unit: str
    quality: Quality = Quality.GOOD
    stable: bool = True
    """Whether the value has come to rest, as the device says; True where a device does not say.

    A value in motion (the weight while a pump runs) is as true as one at rest: its quality is good.
    """

    @abstractmethod
    async def read(self) -> float:
        """Return a fresh value in `unit`; raise a :class:`DeviceError` rather than a doubtful number."""


class Actuator(ABC):
    """One output of a device. Only the safety gate calls :meth:`apply`.

    `guarantee` is that of its usual finite command; :meth:`guarantee_for` tells it for each.
    """

    kind: Literal["pump", "switch", "level"]
    unit: str
    guarantee: Guarantee
    revolution_ul: float | None = None
    """What one turn of a pump's head moves by its own reckoning (µL); None where that is not known."""

    def guarantee_for(self, command: Command) -> Guarantee:
        """Who brings the output to rest if the host dies after `command`."""
        return self.guarantee

    def nearest(self, command: Command, most: float = math.inf) -> Command:
        """What this output can do that is nearest to `command`, by what is known of it now; mostly `command` itself.

        A pump whose speed goes in coarse steps refuses a flow between two of them. Who cannot do without a flow, such as
        the gate for the heart, asks here first, and then commands what can be had: a step of at most `most` (its unit).
        """
        return command

    @abstractmethod
    async def apply(self, command: Command) -> None:
        """Bring the output to the commanded state; applying the same command twice equals once (A4).

        Raises :class:`Refused` for a command that this actuator does not know or can only carry out as another one
        (:meth:`nearest`), any :class:`DeviceError` otherwise.
        A cancelled call leaves the output commanded off if the command had begun to turn it on (A2).
        """

    @abstractmethod
    async def status(self) -> Status:
        """Read back what the device says it is doing."""


class Calibrator(ABC):
    """How a probe's own calibration is set. Only the safety gate calls :meth:`calibrate`. `low` to `high`: in `unit`."""

    unit: str
    low: float
    high: float

    @abstractmethod
    async def calibrate(self, command: Calibrate) -> None:
        """Set one place; raises :class:`Refused` for one that the probe does not take, any :class:`DeviceError` otherwise."""

    @abstractmethod
    async def state(self) -> CalibrationStatus:
        """Read back what the probe says of its calibration."""


class Device(ABC):
    """One device on one link. `sensors`, `actuators` and `calibrators` are keyed by point name."""

    model: ClassVar[DeviceModel]
    line: ClassVar[LineSettings]
    """The factory's line settings; the link's text may say otherwise."""
    page: ClassVar[Page | None] = None
    queries: ClassVar[re.Pattern[bytes] | None] = None
    """The form of every request that changes nothing in the device; None where a driver does not declare it.

    On a link that only asks (`choroid talk --read-only`) nothing else is sent, and :meth:`verify` sets nothing.
    """

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        self.link = link
        self.config = config
        self.sensors: dict[str, Sensor] = {}
        self.actuators: dict[str, Actuator] = {}
        self.calibrators: dict[str, Calibrator] = {}
        self.identity: Identity | None = None

    @property
    @abstractmethod
    def conversation(self) -> Conversation:
        """This driver's side of the link; `conversation.verified` tells whether commands pass (A6)."""

    async def verify(self) -> Identity:
        """Ask who is there and bring the device's settings into order; runs after every (re)connection.

        No command is accepted before it has succeeded (A6). Raises :class:`WrongDevice` if another model
        answers. It never changes an output.
        """
        with self.conversation.verifying():
            self.identity = await self._identify()
        return self.identity

    @abstractmethod
    async def _identify(self) -> Identity:
        """What :meth:`verify` does on this device."""

    async def close(self) -> None:
        """Turn all outputs off (A3), even if one fails or the caller is cancelled; the link stays open."""
        if self.actuators:
            await run_to_end(self._all_off())

    async def _all_off(self) -> None:
        failures: list[DeviceError] = []
        for actuator in self.actuators.values():
            try:
                await actuator.apply(Stop())
            except DeviceError as error:
                failures.append(error)
        if failures:
            for other in failures[1:]:
                failures[0].add_note(str(other))
            raise failures[0]

    async def __aenter__(self) -> Self:
        await self.verify()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` whole even when the caller is cancelled meanwhile; that is passed on afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        if not task.cancelled():
            task.exception()  # seen: the cancellation matters more
        raise asyncio.CancelledError
    return task.result()


async def on_or_off(turn_on: Awaitable[T], turn_off: Callable[[], Coroutine[Any, Any, object]]) -> T:
    """Await `turn_on`; if it fails or is cancelled half-way, command off before passing that on (A2)."""
    try:
        return await turn_on
    except BaseException as error:
        try:
            await run_to_end(turn_off())
        except asyncio.CancelledError:
            pass  # a second cancellation; the first is on its way already
        except DeviceError as second:
            error.add_note(f"and it could not be commanded off afterwards: {second}")
        raise


def refuse(actuator: Actuator, where: str, command: Command) -> Refused:
    """The error for a command that this kind of actuator does not know."""
    return Refused(
        f"a {actuator.kind} does not know {type(command).__name__}",
        where=where,
        cause="the command was meant for another kind of actuator",
        action="check which actuator the requester names",
    )
