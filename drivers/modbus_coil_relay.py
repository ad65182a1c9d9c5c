"""Relay boards with one Modbus coil per relay (Waveshare wiki “Modbus RTU Relay”, protocol V2 and V3).

Coils 0 to n are the relays (functions 1, 5, 15). Writing coil 0x0200 + n with a time in tenths of a second instead
of 0xFF00 closes relay n for that time: the board itself opens it again, even if the host dies. What a second such
command does to a running one is not documented; a board that ignored it would open the relay early, which is the
safe side and shows in the readback. Boards of other manufacturers may not support the timed command: set `flash:
false` for them, and the safety gate ends their pulses.
"""

from __future__ import annotations

import asyncio

from drivers.commands import Command, Guarantee, Switch, SwitchStatus
from drivers.device import ChannelConfig, Device, DeviceConfig, DeviceModel, Identity, Page, refuse
from drivers.errors import DeviceFault, Refused
from drivers.output import Output
from drivers.settings import FlagSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation
from drivers.transport.link import Link
from drivers.transport.modbus import MODBUS_READS, ModbusUnit, unit_number
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.3
FLASH_ON = 0x0200
FLASH_UNIT_S = 0.1
MAX_FLASH_UNITS = 0x7FFF
SHARED_S = 0.2
"""Maximum age of a coil reading that serves every relay's status (s)."""

FLASH = FlagSetting(key="flash", meaning="the board supports timed closing", default=True)


class ModbusCoilRelay(Device):
    """One board; `config.channels` names its relays "0" to "31"."""

    model = DeviceModel(
        id="modbus-coil-relay",
        vendor="Waveshare and others",
        name="Modbus RTU relay",
        kind="relay",
        transports=("serial", "tcp", "sim"),
        capabilities=("switch", "timed"),
        guarantee=Guarantee.DEVICE,
        manual="Waveshare wiki, Modbus RTU Relay, development protocol V2",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = MODBUS_READS
    settings = (FLASH,)
    page = Page(
        wiring="RS-485, two wires, or the board's own TCP module; 9600 8N1. A bus: other Modbus devices may share it.",
        address="Modbus address, 1 to 247 (default 1)",
        commands=(
            ("FC01 0x0000", "all coils: verification and status", "development protocol V2"),
            ("FC05 0x0000+n FF00/0000", "close and open relay n; echoed byte for byte", "development protocol V2"),
            (
                "FC05 0x0200+n t",
                "close relay n for t tenths of a second; the board opens it",
                "development protocol V2",
            ),
        ),
        traps=(
            "Boards of other manufacturers may not support the timed command: set `flash: false`, and the controller ends the"
            " pulses, to a tenth of a second or so, and the guard if the controller is gone.",
            "What a second timed command does to a running one is not documented; the readback shows it.",
            "The boards have no identity: any device with coils at this address is accepted.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.flash = FLASH.of(config.settings, config.name)
        self._conversation = Conversation(link, config.name, timeout_s=TIMEOUT_S)
        self.unit = ModbusUnit(self._conversation, unit_number(config.address, config.name))
        self._coils: list[bool] = []
        self._coils_at_s = -1.0
        self._changes = 0
        relays = [RelayChannel(self, number, channel) for number, channel in config.channels.items()]
        self._count = 8 * (1 + max((relay.number for relay in relays), default=0) // 8)
        self.actuators.update({relay.point: relay for relay in relays})
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        self.forget()
        await self.coil(0)
        return Identity(model=f"{self._count}-relay board")

    async def coil(self, number: int) -> bool:
        """Return whether the board reports relay `number` as closed; at most `SHARED_S` old."""
        loop = asyncio.get_running_loop()
        if not self._coils or loop.time() - self._coils_at_s > SHARED_S:
            changes, asked_s = self._changes, loop.time()
            coils = await self.unit.read_coils(0, self._count)
            if changes != self._changes:
                return coils[
                    number
                ]  # correct when it was requested, but a command was sent meanwhile, so it is not shared
            self._coils, self._coils_at_s = coils, asked_s
        return self._coils[number]

    def forget(self) -> None:
        """Invalidate what was read of the coils, or is being read: they change."""
        self._changes += 1
        self._coils = []


class RelayChannel(Output):
    """One relay. A `Switch(on, for_s)` is ended by the board where it can."""

    kind = "switch"
    unit = ""

    def __init__(self, board: ModbusCoilRelay, number: str, config: ChannelConfig) -> None:
        super().__init__(f"{board.config.name}.{config.point}", board.conversation)
        self.point = config.point
        known_only(config.settings, self.where, board.channel_settings)
        if not (number.isascii() and number.isdigit() and int(number) < 32):
            raise bad_setting(self.where, "channels", f"names relay “{number}”", 'use "0" to "31"')
        self.number = int(number)
        self.guarantee = Guarantee.DEVICE if board.flash else Guarantee.GUARD
        self._board = board

    def guarantee_for(self, command: Command) -> Guarantee:
        """Return the board's guarantee for a timed closure or opening; an untimed closure is only ended by the
        guard.
        """
        if isinstance(command, Switch) and command.on and command.for_s is None:
            return Guarantee.GUARD
        return self.guarantee

    async def obey(self, command: Command) -> None:
        """Execute a Switch command, timed by the board where it can."""
        match command:
            case Switch(on=False):
                await self.off()
            case Switch(for_s=for_s):
                await self._closed_for(for_s)
            case _:
                raise refuse(self, self.where, command)

    async def status(self) -> SwitchStatus:
        """Return whether the relay is closed, read from the board."""
        return SwitchStatus(await self._board.coil(self.number))

    async def _closed_for(self, for_s: float | None) -> None:
        tenths = None if for_s is None or not self._board.flash else for_s / FLASH_UNIT_S
        if tenths is not None and not 0.5 < tenths < MAX_FLASH_UNITS + 0.5:  # also refuses NaN
            raise Refused(
                f"{for_s:g} s is not a time this board can keep",
                where=self.where,
                cause="the lease in the rig file is too short or too long",
                action=f"choose {FLASH_UNIT_S:g} to {MAX_FLASH_UNITS * FLASH_UNIT_S:g} s",
            )
        was_on = await self._board.coil(self.number)  # if closed, its earlier time still runs when the command fails
        await self.on(self._close(None if tenths is None else round(tenths)), was_on=was_on)

    async def _close(self, tenths: int | None) -> None:
        self._board.forget()
        if tenths is None:
            await self._board.unit.write_coil(self.number, True)
        else:
            await self._board.unit.write_coil_value(FLASH_ON + self.number, tenths)

    async def rest(self) -> None:
        """Open the relay and verify it by readback."""
        self._board.forget()
        await self._board.unit.write_coil(self.number, False)
        self._board.forget()
        if await self._board.coil(self.number):
            raise DeviceFault(
                "the relay is still closed after it was opened",
                where=self.where,
                cause="the board is locked in another mode or its electronics failed",
                action="unplug what the relay switches",
            )
