"""What mass flow controllers have in common: the order in which a command is carried out.

A driver of one model fulfils the hooks. That a set-point stays within full scale, that closing is tried again, and that an
opening which fails ends closed is kept here.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod

from drivers.device import (
    Actuator,
    BadReply,
    Command,
    Guarantee,
    Level,
    LevelStatus,
    NoReply,
    Refused,
    Stop,
    on_or_off,
    refuse,
)
from drivers.transport.conversation import Conversation


class GasFlow(Actuator):
    """The set-point of one gas. Nothing in the device ends it: if the host dies, the guard sets the basal flow."""

    kind = "level"
    unit = "mL/min"
    guarantee = Guarantee.GUARD

    def __init__(self, where: str, conversation: Conversation) -> None:
        self.where = where
        self._conversation = conversation
        self._one_at_a_time = asyncio.Lock()

    @property
    @abstractmethod
    def full_scale_ml_min(self) -> float:
        """The greatest flow."""

    @abstractmethod
    async def status(self) -> LevelStatus:
        """Set-point and measured flow (mL/min), as the device says."""

    @abstractmethod
    async def is_open(self) -> bool:
        """Whether the device's set-point is above nothing."""

    @abstractmethod
    async def write(self, ml_min: float) -> None:
        """Set the flow, and see by the device's own word that it did."""

    async def apply(self, command: Command) -> None:
        """Level or Stop; see :meth:`drivers.device.Actuator.apply`."""
        self._conversation.require_verified()
        async with self._one_at_a_time:
            match command:
                case Stop():
                    await self._off()
                case Level(value=value):
                    await self._set(value)
                case _:
                    raise refuse(self, self.where, command)

    async def _set(self, ml_min: float) -> None:
        if not 0.0 <= ml_min <= self.full_scale_ml_min:
            raise Refused(
                f"{ml_min:g} mL/min is outside 0 to {self.full_scale_ml_min:g}",
                where=self.where,
                cause="the request is beyond the controller's full scale",
                action="ask for less, or correct full_scale_ml_min in the rig file",
            )
        was_open = await self.is_open()
        await on_or_off(self.write(ml_min), self._nothing if was_open else self._off)

    async def _off(self) -> None:
        try:
            await self.write(0.0)
        except (NoReply, BadReply):
            await self.write(0.0)

    async def _nothing(self) -> None:
        """Gas flowed before: the failed command has not turned it on; the readback tells what flows."""
