"""Outputs that keep their commanded state (relays, valves, gas flows, set-points): order of execution of commands.

A driver defines how its output is brought to rest and which other commands it supports. This module ensures that
the writes of two commands never interleave, that rest is retried, and that an output which could not be turned on
properly ends at rest.
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
    """Executes the commands of one output in order. Unless its driver says otherwise, the device never ends it by itself:
    if the host dies, the guard does.
    """

    guarantee = Guarantee.GUARD

    def __init__(self, where: str, conversation: Conversation) -> None:
        self.where = where
        self.one_at_a_time = asyncio.Lock()
        """Held while a command is executed."""
        self._conversation = conversation

    @abstractmethod
    async def rest(self) -> None:
        """Bring the output to rest and verify it by readback."""

    @abstractmethod
    async def obey(self, command: Command) -> None:
        """Execute any command except Stop.

        Args:
            command: The command.

        Raises:
            Refused: The output does not support it: :func:`drivers.device.refuse`.
        """

    async def apply(self, command: Command) -> None:
        """Execute a command; see :meth:`drivers.device.Actuator.apply`.

        Args:
            command: The desired state; Stop calls :meth:`off`, any other :meth:`obey`.

        Raises:
            DeviceError: The device is not verified, or the command has failed.
        """
        self._conversation.require_verified()
        async with self.one_at_a_time:
            if isinstance(command, Stop):
                await self.off()
            else:
                await self.obey(command)

    async def off(self) -> None:
        """Bring the output to rest; retry once after a lost reply or a contradicting readback (rest is idempotent)."""
        try:
            await self.rest()
        except (NoReply, BadReply, DeviceFault):
            await self.rest()

    async def on(self, start: Awaitable[object], *, was_on: bool) -> None:
        """Turn the output on; if that fails half-way, bring it to rest (A2).

        Args:
            start: The commands that turn it on; what it raises is raised again.
            was_on: Whether the output was on before. It is then left as it is: the failed command did not turn it on,
                and the readback shows its state.
        """
        await (start if was_on else on_or_off(start, self.off))
