"""What devices that keep a temperature have in common: the order in which a command is carried out.

A driver of one model fulfils three hooks. That a set-point stays within its limits, that a stop is tried again, and that
a start which fails ends at rest is kept here. The status of a thermostat at rest says set-point 0, as that of a closed
gas valve does; set-points of 0 °C and below are therefore not offered.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping

from drivers.device import (
    Actuator,
    BadReply,
    Command,
    DeviceFault,
    Guarantee,
    Level,
    LevelStatus,
    NoReply,
    Refused,
    Stop,
    on_or_off,
    refuse,
)
from drivers.settings import bad_setting, number_of
from drivers.transport.conversation import Conversation

LOW_C, HIGH_C = 25.0, 42.0
"""Set-points allowed unless the rig file says otherwise: warm enough to be of use, cool enough to harm no culture at
once.
"""


def limits_of(settings: Mapping[str, float | str | bool], where: str, *, most_c: float) -> tuple[float, float]:
    """The settings `low_c` and `high_c` (°C): between them every set-point must lie."""
    low_c = number_of(settings, "low_c", where, default=LOW_C, low=1.0, high=most_c)
    high_c = number_of(settings, "high_c", where, default=max(HIGH_C, low_c), low=1.0, high=most_c)
    if low_c > high_c:
        raise bad_setting(where, "low_c", f"is above high_c ({low_c:g} > {high_c:g})", "write the lower one in low_c")
    return low_c, high_c


class Thermostat(Actuator):
    """One regulated temperature. Its device keeps regulating when the host dies: the guard brings it to rest."""

    kind = "level"
    unit = "degC"
    guarantee = Guarantee.GUARD

    def __init__(self, where: str, conversation: Conversation, limits_c: tuple[float, float]) -> None:
        self.where = where
        self.low_c, self.high_c = limits_c
        self.one_at_a_time = asyncio.Lock()
        """Held while a command is carried out."""
        self._conversation = conversation

    @abstractmethod
    async def setpoint_c(self) -> float:
        """What the device says it regulates to (°C); 0 when it is at rest."""

    @abstractmethod
    async def measured_c(self) -> float:
        """The temperature as the device measures it (°C)."""

    @abstractmethod
    async def start(self, value_c: float) -> None:
        """Regulate to `value_c`, and see by the device's own word that it does; nothing is written that stands."""

    @abstractmethod
    async def rest(self) -> None:
        """Stop regulating, and see by the device's own word that it did."""

    async def apply(self, command: Command) -> None:
        """Level or Stop; see :meth:`drivers.device.Actuator.apply`."""
        self._conversation.require_verified()
        async with self.one_at_a_time:
            match command:
                case Stop() | Level(value=0.0):
                    await self._off()
                case Level(value=value):
                    await self._set(value)
                case _:
                    raise refuse(self, self.where, command)

    async def status(self) -> LevelStatus:
        """Set-point (0 at rest) and measured temperature (°C), as the device says."""
        return LevelStatus(setpoint=await self.setpoint_c(), measured=await self.measured_c())

    async def _set(self, value_c: float) -> None:
        if not self.low_c <= value_c <= self.high_c:
            raise Refused(
                f"{value_c:g} degC is outside {self.low_c:g} to {self.high_c:g}",
                where=self.where,
                cause="the request is beyond the set-points that the rig file allows",
                action="ask for another temperature, or correct low_c and high_c in the rig file",
            )
        was_on = await self.setpoint_c() != 0.0
        await on_or_off(self.start(value_c), self._nothing if was_on else self._off)

    async def _off(self) -> None:
        try:
            await self.rest()
        except (NoReply, BadReply, DeviceFault):
            await self.rest()

    async def _nothing(self) -> None:
        """It regulated before: the failed command has not turned it on; the readback tells what it does."""
