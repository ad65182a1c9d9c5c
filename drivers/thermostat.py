"""Base class of thermostats: a set-point that stays within limits.

A thermostat at rest reports set-point 0, as a closed gas valve does. Set-points of 0 °C and below are therefore not
offered.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from drivers.commands import Command, Level, LevelStatus
from drivers.device import refuse
from drivers.errors import Refused
from drivers.output import Output
from drivers.settings import Given, NumberSetting, bad_setting
from drivers.transport.conversation import Conversation

LOW_C, HIGH_C = 25.0, 42.0
"""Default limits of set-points (°C): warm enough to be useful, cool enough not to harm a culture at once."""


def limit_settings(max_c: float) -> tuple[NumberSetting, NumberSetting]:
    """Return the settings of the lowest and the highest set-point, up to `max_c` (°C)."""
    low = NumberSetting(key="low_c", meaning="lowest set-point", low=1.0, high=max_c, default=LOW_C, unit="°C")
    return low, replace(low, key="high_c", meaning="highest set-point", default=HIGH_C)


def limits_of(
    settings: Given, where: str, limits: tuple[NumberSetting, NumberSetting], *, max_c: float | None = None
) -> tuple[float, float]:
    """Return the limits of every set-point (°C); `max_c` replaces the upper limit of both settings."""
    low, high = limits
    low_c = low.of(settings, where, high=max_c)
    high_c = replace(high, default=max(HIGH_C, low_c)).of(settings, where, high=max_c)
    if low_c > high_c:
        raise bad_setting(where, "low_c", f"is above high_c ({low_c:g} > {high_c:g})", "write the lower one in low_c")
    return low_c, high_c


class Thermostat(Output):
    """One regulated temperature. The device keeps regulating when the host dies: the guard brings it to rest."""

    kind = "level"
    unit = "degC"

    def __init__(self, where: str, conversation: Conversation, limits_c: tuple[float, float]) -> None:
        super().__init__(where, conversation)
        self.low_c, self.high_c = limits_c

    @abstractmethod
    async def setpoint_c(self) -> float:
        """Return the set-point that the device reports (°C); 0 at rest."""

    @abstractmethod
    async def measured_c(self) -> float:
        """Return the temperature that the device measures (°C)."""

    @abstractmethod
    async def start(self, value_c: float) -> None:
        """Regulate to `value_c` and verify it by readback; a setting that is already right is not written."""

    async def obey(self, command: Command) -> None:
        """Execute a Level command (°C; 0 for rest)."""
        if not isinstance(command, Level):
            raise refuse(self, self.where, command)
        value_c = command.value
        if value_c == 0.0:
            await self.off()
            return
        if not self.low_c <= value_c <= self.high_c:
            raise Refused(
                f"{value_c:g} degC is outside {self.low_c:g} to {self.high_c:g}",
                where=self.where,
                cause="the request is beyond the set-points that the rig file allows",
                action="ask for another temperature, or correct low_c and high_c in the rig file",
            )
        was_on = await self.setpoint_c() != 0.0
        await self.on(self.start(value_c), was_on=was_on)

    async def status(self) -> LevelStatus:
        """Return set-point (0 at rest) and measured temperature (°C) that the device reports."""
        return LevelStatus(setpoint=await self.setpoint_c(), measured=await self.measured_c())
