"""What outputs that stay as they were commanded have in common: the order in which a command is carried out.

Relays, valves, gas flows, set-points: a driver of one model says how its output is brought to rest and what else it
obeys. That no command comes between the writes of another, that rest is tried for again, and that what could not be
turned on properly ends at rest is kept here.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable

from drivers.commands import Command, Guarantee, Stop
from drivers.device import Actuator, on_or_off
from drivers.errors import BadReply, DeviceFault, NoReply
from drivers.transport.conversation import Conversation


class Output(Actuator):
    """One output. Unless its driver says otherwise nothing in the device ends it: if the host dies, the guard does."""

    guarantee = Guarantee.GUARD

    def __init__(self, where: str, conversation: Conversation) -> None:
        self.where = where
        self.one_at_a_time = asyncio.Lock()
        """Held while a command is carried out."""
        self._conversation = conversation

    @abstractmethod
    async def rest(self) -> None:
        """Bring it to rest, and see by the device's own word that it is there."""

    @abstractmethod
    async def obey(self, command: Command) -> None:
        """Carry out anything but a Stop; raises :func:`drivers.device.refuse`'s error for what it does not know."""

    async def apply(self, command: Command) -> None:
        """See :meth:`drivers.device.Actuator.apply`."""
        self._conversation.require_verified()
        async with self.one_at_a_time:
            if isinstance(command, Stop):
                await self.off()
            else:
                await self.obey(command)

    async def off(self) -> None:
        """To rest; once more if the reply was lost or told otherwise (being told twice to rest is harmless)."""
        try:
            await self.rest()
        except (NoReply, BadReply, DeviceFault):
            await self.rest()

    async def on(self, start: Awaitable[object], *, was_on: bool) -> None:
        """Await `start`; if it fails half-way the output ends at rest (A2).

        Unless it was on before: then the failed command has not turned it on, and the readback tells what stands.
        """
        await (start if was_on else on_or_off(start, self.off))
