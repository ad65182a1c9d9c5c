"""Base classes of drivers: sensors that are read and actuators that take desired-state commands.

A driver is one plain class per device. It has no clock, no thread and no policy. It turns commands into the
manufacturer's bytes, and bytes into numbers in Choroid's internal units (µL, µL/min, mL/min for gas, °C, kPa, g, %
of air saturation, pH, s). Policy (limits, leases, interlocks) is in the safety gate, the only caller of
:meth:`Actuator.apply`.
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
from drivers.errors import BadReply, DeviceError, Refused, WrongDevice

if TYPE_CHECKING:
    from drivers.probe_health import ProbeHealth
    from drivers.results import ResultSource
    from drivers.settings import Setting
    from drivers.transport.conversation import Conversation
    from drivers.transport.link import Link
    from drivers.transport.url import LineSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dosing:
    """States the dosing accuracy of a pump model before it is calibrated on its rig; volumes in µL."""

    rel_sd: float = 0.10
    """Standard deviation of delivered over requested volume from one pump to the next: tubing, bore, head."""
    dose_sd_ul: float = 10.0
    """Standard deviation from dose to dose, independent of the dose: about the content of one roller pocket."""
    min_ul: float = 100.0
    """Smallest useful dose."""


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """Holds the catalogue entry of a driver, as `choroid device list` lists it."""

    id: str
    vendor: str
    name: str
    kind: Literal["pump", "sensor", "gas", "balance", "relay", "thermostat", "valve", "electrodes", "analyser"]
    transports: tuple[str, ...]
    capabilities: tuple[str, ...]
    guarantee: Guarantee
    manual: str
    verification: str = "verified against the manual and a simulator written independently of it"
    dosing: Dosing | None = None
    """Dosing accuracy of a pump; None stands for the default (:class:`Dosing`)."""


@dataclass(frozen=True, slots=True)
class Page:
    """Holds the text of a driver's documentation page in addition to its catalogue entry; docs/devices is generated from
    it.

    `commands` lists every command that the driver sends: as the manual writes it, its purpose, and the manual's
    section.
    """

    wiring: str
    address: str = ""
    """Meaning of `address` in the rig file with its default; empty where the model has none."""
    commands: tuple[tuple[str, str, str], ...] = ()
    traps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """Holds what a device reports of itself: model text, serial number and firmware, where it has them."""

    model: str
    serial: str = ""
    firmware: str = ""


@dataclass(frozen=True, slots=True)
class Recognition:
    """Recognises a model by a query at its line settings: no other model gives this reply, whose first group is shown to
    people.
    """

    request: bytes
    answer: re.Pattern[bytes]


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """Configures one channel of a device: the name of its point and its settings (numbers in internal units)."""

    point: str
    settings: Mapping[str, float | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """Configures a device as the rig file describes it. `name` is its name in the rig; its points are called `name.point`."""

    name: str
    address: str = ""
    settings: Mapping[str, float | str | bool] = field(default_factory=dict)
    channels: Mapping[str, ChannelConfig] = field(default_factory=dict)
    gas: str = ""
    """The gas that the rig file says is connected to a flow controller (air, co2, o2); empty where it says none."""


class Sensor(ABC):
    """Reads one point of a device, in a fixed unit. `quality` and `stable` describe the last value returned."""

    unit: str
    quality: Quality = Quality.GOOD
    stable: bool = True
    """Whether the value has come to rest, as the device says; True where a device does not say.

    A value in motion (the weight while a pump runs) is as true as one at rest: its quality is good.
    """

    @abstractmethod
    async def read(self) -> float:
        """Return a fresh value in `unit`.

        Raises:
            DeviceError: No value, or a doubtful one.
        """


class Actuator(ABC):
    """Commands one output of a device. Only the safety gate calls :meth:`apply`.

    `guarantee` belongs to its usual finite command; :meth:`guarantee_for` returns that of any command.
    """

    kind: Literal["pump", "switch", "level"]
    unit: str
    guarantee: Guarantee
    revolution_ul: float | None = None
    """Volume that the pump counts for one revolution of its head (µL); None where it is unknown."""

    def guarantee_for(self, command: Command) -> Guarantee:
        """Return what brings the output to rest if the host dies after a command.

        Args:
            command: Any command that the actuator supports.

        Returns:
            The guarantee; by default that of the usual finite command.
        """
        return self.guarantee

    def nearest(self, command: Command, max_value: float = math.inf) -> Command:
        """Return the possible command that is nearest to `command`; usually `command` itself.

        A pump with coarse speed steps refuses a flow between two steps. A caller that needs some flow, such as the
        gate for the circulation pump, calls this method first and then commands the result.

        Args:
            command: Requested command.
            max_value: Upper limit of the result, in the output's unit.

        Returns:
            The command to give instead.
        """
        return command

    @abstractmethod
    async def apply(self, command: Command) -> None:
        """Bring the output to the commanded state; applying the same command twice equals once (A4).

        If the call is cancelled after it has begun to turn the output on, the output is commanded off (A2).

        Args:
            command: The desired state.

        Raises:
            Refused: The actuator does not support this command, or only with another value (:meth:`nearest`).
            DeviceError: Any other failure.
        """

    @abstractmethod
    async def status(self) -> Status:
        """Return the status that the device reports."""


class Calibrator(ABC):
    """Sets a probe's own calibration. Only the safety gate calls :meth:`calibrate`. `low` and `high` are in `unit`."""

    unit: str
    low: float
    high: float

    @abstractmethod
    async def calibrate(self, command: Calibrate) -> None:
        """Set one calibration point.

        Args:
            command: The point, and what the probe measures there now, in `unit`.

        Raises:
            Refused: The probe does not accept this point.
            DeviceError: Any other failure.
        """

    @abstractmethod
    async def state(self) -> CalibrationStatus:
        """Return the calibration that the probe reports."""


class Device(ABC):
    """Drives one device on one link. `sensors`, `actuators` and `calibrators` are keyed by point name."""

    model: ClassVar[DeviceModel]
    line: ClassVar[LineSettings]
    """Factory line settings; the link's text may override them."""
    page: ClassVar[Page | None] = None
    settings: ClassVar[tuple[Setting, ...]] = ()
    """Its settings in the rig file."""
    channel_settings: ClassVar[tuple[Setting, ...]] = ()
    """Settings of each of its channels."""
    queries: ClassVar[re.Pattern[bytes] | None] = None
    """Pattern of every request that changes nothing in the device; None where a driver does not declare it.

    A read-only link (`choroid device talk --read-only`) sends nothing else, and :meth:`verify` sets nothing there.
    """

    recognised_by: ClassVar[Recognition | None] = None
    """How `choroid device probe` recognises the model when no device has answered the questions of the probe itself."""
    unchecked: ClassVar[bool] = False
    """Whether its replies have no checksum. Its first serial number, with which each later one is compared, is read twice."""

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        self.link = link
        self.config = config
        self.sensors: dict[str, Sensor] = {}
        self.actuators: dict[str, Actuator] = {}
        self.calibrators: dict[str, Calibrator] = {}
        self.health: ProbeHealth | None = None
        """Health that the probe reports of itself; None for a device that reports none."""
        self.results: ResultSource | None = None
        """Results of samples, of an analyser; each is delivered once and is no reading."""
        self.identity: Identity | None = None
        """Identity of the verified device; kept while the line is lost."""
        self.answered: Identity | None = None
        """Identity of what has answered at the last verification, whether or not that was accepted."""
        self.caution = ""
        """What the driver cannot check and a person has stated; `choroid check` warns of it."""

    @property
    @abstractmethod
    def conversation(self) -> Conversation:
        """This driver's side of the link; `conversation.verified` tells whether commands are allowed (A6)."""

    async def verify(self) -> Identity:
        """Identify the device and correct its settings; runs after every (re)connection.

        No command is accepted before it has succeeded (A6). It never changes an output.

        Raises:
            WrongDevice: Another model answers, or another device than before (by its serial number).
        """
        with self.conversation.verifying():
            self.answered = None
            identity = self.answered = await self._identify()
            if self.unchecked and self.identity is None and identity.serial:
                self._require_read_twice(identity.serial, (await self._identify()).serial)
            self._require_same(identity)
            self.identity = identity
        return identity

    def _require_read_twice(self, first: str, second: str) -> None:
        """Raise :class:`BadReply` if two readings of one serial number differ."""
        if first != second:
            raise BadReply(
                f"serial number {second or 'unknown'} answers, and {first} a moment before",
                where=self.config.name,
                cause="noise on the line, or two devices at one address",
                action="nothing was taken from it and it is asked again; if it stays, look at the link's capture",
            )

    def _require_same(self, found: Identity) -> None:
        """Raise :class:`WrongDevice` if another serial number answers than before in this process."""
        before = "" if self.identity is None else self.identity.serial
        if before and found.serial != before:
            raise WrongDevice(
                f"serial number {found.serial or 'unknown'} answers, and it was {before}",
                where=self.config.name,
                cause="the line now leads to another rig, or the device was exchanged",
                action="check the address of the link; if the device was exchanged, restart the program",
            )

    @abstractmethod
    async def _identify(self) -> Identity:
        """Identify this device for :meth:`verify`."""

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
    """Await work to its end even if the caller is cancelled; raise the cancellation afterwards.

    Args:
        work: What must not be interrupted.

    Returns:
        The result of the work.

    Raises:
        CancelledError: The caller was cancelled meanwhile; the work has ended.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        if not task.cancelled():
            task.exception()  # retrieved; the cancellation takes precedence
        raise asyncio.CancelledError
    return task.result()


async def on_or_off(turn_on: Awaitable[T], turn_off: Callable[[], Coroutine[Any, Any, object]]) -> T:
    """Turn an output on; command it off if that fails or is cancelled (A2).

    Args:
        turn_on: The commands that turn it on. Whatever it raises is raised again after the output was commanded off.
        turn_off: Makes the commands that turn it off; they run to their end.

    Returns:
        The result of `turn_on`.
    """
    try:
        return await turn_on
    except BaseException as error:
        try:
            await run_to_end(turn_off())
        except asyncio.CancelledError:
            pass  # a second cancellation; the first one is raised below
        except DeviceError as second:
            error.add_note(f"and it could not be commanded off afterwards: {second}")
        raise


def refuse(actuator: Actuator, where: str, command: Command) -> Refused:
    """Return the error for a command that this kind of actuator does not support.

    Args:
        actuator: The actuator; the message names its kind.
        where: Name of the device, with its point.
        command: The command.

    Returns:
        The error to raise.
    """
    return Refused(
        f"a {actuator.kind} does not know {type(command).__name__}",
        where=where,
        cause="the command was meant for another kind of actuator",
        action="check which actuator the requester names",
    )
