"""Base class of mass flow controllers: a set-point between zero and full scale."""

from __future__ import annotations

import math
from abc import abstractmethod

from drivers.commands import Command, Level, LevelStatus
from drivers.device import refuse
from drivers.errors import Refused, WrongDevice
from drivers.output import Output

NAMES: dict[str, frozenset[str]] = {
    "air": frozenset({"AIR"}),
    "co2": frozenset({"CO2", "CARBON DIOXIDE", "CARBON-DIOXIDE"}),
    "o2": frozenset({"O2", "OXYGEN"}),
}
"""What controllers call each gas of the rig file."""


def wrong_gas(where: str, told: str, wanted: str, action: str) -> WrongDevice:
    """Return the error for a controller that is set to another gas than the rig file says.

    A thermal or laminar meter that is set to another gas gives another flow than it reports.
    """
    return WrongDevice(
        f"it is set to {told}, and the rig file says {wanted.upper() if wanted != 'air' else 'air'}",
        where=where,
        cause="another gas was selected in it, or two controllers are exchanged",
        action=action,
    )


def is_gas(told: str, wanted: str) -> bool:
    """Return whether a controller's name of its gas is the gas `wanted` of the rig file."""
    return told.strip().upper() in NAMES[wanted]


class GasFlow(Output):
    """Set-point of one gas. The device never ends it by itself: if the host dies, the guard sets the basal flow."""

    kind = "level"
    unit = "mL/min"

    @property
    @abstractmethod
    def full_scale_ml_min(self) -> float:
        """Full-scale flow."""

    @property
    @abstractmethod
    def step_ml_min(self) -> float:
        """Resolution of the set-point."""

    @abstractmethod
    async def status(self) -> LevelStatus:
        """Return set-point and measured flow (mL/min) that the device reports."""

    @abstractmethod
    async def is_open(self) -> bool:
        """Return whether the device's set-point is above zero."""

    @abstractmethod
    async def write(self, ml_min: float) -> None:
        """Set the flow and verify it by readback."""

    def nearest(self, command: Command, max_value: float = math.inf) -> Command:
        """Return full scale for a flow above it, and zero for one that rounds to zero.

        A lung that gets less oxygen than requested is better than one that gets none.
        """
        if isinstance(command, Level):
            ml_min = min(command.value, self.full_scale_ml_min, max_value)
            return Level(0.0 if 0.0 < ml_min <= self.step_ml_min / 2 else ml_min)
        return command

    async def rest(self) -> None:
        """Close the flow and verify it by readback."""
        await self.write(0.0)

    async def obey(self, command: Command) -> None:
        """Execute a Level command (mL/min)."""
        if not isinstance(command, Level):
            raise refuse(self, self.where, command)
        ml_min = command.value
        if not 0.0 <= ml_min <= self.full_scale_ml_min:
            raise Refused(
                f"{ml_min:g} mL/min is outside 0 to {self.full_scale_ml_min:g}",
                where=self.where,
                cause="the request is beyond the controller's full scale",
                action="ask for less, or correct full_scale_ml_min in the rig file",
            )
        if 0.0 < ml_min <= self.step_ml_min / 2:
            raise Refused(
                f"{ml_min:g} mL/min is less than its finest step ({self.step_ml_min:g}) can tell from none",
                where=self.where,
                cause="the controller's full scale is too large for so small a flow",
                action=f"ask for {self.step_ml_min:g} mL/min or more, or for 0; fit a smaller controller",
            )
        was_on = await self.is_open()
        await self.on(self.write(ml_min), was_on=was_on)
