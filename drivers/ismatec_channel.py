"""One channel of an Ismatec Reglo ICC (manual 14-036-E Rev. C §14–18).

A continuous flow runs in flow-rate mode (`M`), a dose in volume-at-rate mode (`O`): the pump itself stops when the volume
is delivered, whatever happens to the host. The pump's own state is read before a running channel is changed.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

from drivers.commands import Command, Dispense, Guarantee, PumpStatus, Run, Stop
from drivers.device import Actuator, ChannelConfig, on_or_off, refuse
from drivers.doses import DoseBook
from drivers.errors import BadReply, DeviceFault, NoReply, Refused
from drivers.flow_steps import FlowSteps
from drivers.ismatec_formats import (
    TUBING,
    TUBING_MM,
    parse_count,
    parse_flow_ul_min,
    parse_tubing_mm,
    parse_volume_1,
    time_2,
    tubing_2,
    volume_2,
    why_not_started,
)
from drivers.ismatec_wire import RegloIccWire
from drivers.rotary_pump import DIRECTION
from drivers.settings import bad_setting, known_only
from drivers.transport.replies import bad_reply

MIN_FLOW_UL_MIN = 0.1
MAX_RPM = 100.0
"""Speed at the maximum flow that the pump reports (`!`)."""
STEP_RPM = 0.01
"""Resolution of the speed (manual, command `S`)."""
MAX_DOSE_UL = 1e7
TOTAL_STEP_UL = 1000.0
"""The pump's own total (`xG`) counts whole millilitres."""
ECHO_TOLERANCE = 0.005
"""Maximum relative difference between a value and its echo: the pump rounds to what its motor can do."""
RECHECK_EVERY = 12
"""Polls between two readings of a resting channel's total: the pump's own keys may have been used."""
TIME_TOLERANCE = 0.02
"""A time that its unit would change by more than this share is refused."""
CHANNEL_TUBING = replace(TUBING, file_key="tubing")
CHANNEL_SETTINGS = (CHANNEL_TUBING, DIRECTION)

_FAULTS = {b"2": "overheated", b"3": "overcurrent"}


class IsmatecChannel(Actuator):
    """One channel. `Run` is covered by its lease and the guard process; the pump itself ends a `Dispense`."""

    kind = "pump"
    unit = "uL/min"
    guarantee = Guarantee.DEVICE

    def __init__(
        self, wire: RegloIccWire, number: str, config: ChannelConfig, *, time_unit_s: float, doses_over_time: bool
    ) -> None:
        """Check the settings of the channel; nothing is sent.

        Args:
            wire: The pump.
            number: The channel, "1" to "4".
            config: Its point and settings.
            time_unit_s: Unit of the pump's times (s).
            doses_over_time: Dose a volume over a time, instead of a volume at a flow.
        """
        self.where = f"{wire.where}.{config.point}"
        if number not in ("1", "2", "3", "4"):
            raise bad_setting(self.where, "channels", f"names channel “{number}”", 'use "1" to "4"')
        known_only(config.settings, self.where, CHANNEL_SETTINGS)
        self._wire = wire
        self._time_unit_s = time_unit_s
        self._doses_over_time = doses_over_time
        self._address = wire.channel_address(number)
        self._channel = number.encode()
        self._fault = ""
        self._forward = b"J" if DIRECTION.of(config.settings, self.where) == "cw" else b"K"
        self._tubing_mm = _tubing_mm(config, self.where)
        self._doses = DoseBook(self.where)
        self._max_flow_ul_min = 0.0
        self._steps = FlowSteps(1.0, 0.0)
        self._flow_ul_min = 0.0
        self._flows_set = 0
        """Incremented by every new flow: an earlier answer of the pump is out of date."""
        self._total_ul = 0.0
        self._was_running = True
        self._total_sure = False
        self._continuous = False
        """Whether the last start was that of a continuous flow."""
        self._total_due_s = 0.0
        """When a continuous flow has moved the total by one step since it was read (loop s)."""
        self._polls = 0
        self._one_at_a_time = asyncio.Lock()

    def guarantee_for(self, command: Command) -> Guarantee:
        """Return the pump's guarantee for a dose; a continuous flow is only ended by the guard."""
        return Guarantee.GUARD if isinstance(command, Run) else Guarantee.DEVICE

    def nearest(self, command: Command, max_value: float = math.inf) -> Command:
        """Return the nearest possible command; see :meth:`drivers.device.Actuator.nearest`. `max_value` in µL/min."""
        return Run(self._steps.nearest(command.flow_ul_min, max_value)) if isinstance(command, Run) else command

    async def prepare(self) -> None:
        """Set the tubing of the rig file and read the maximum flow; part of verification."""
        if self._tubing_mm is not None:
            set_mm = parse_tubing_mm(await self._get(b"+"), self.where)
            if abs(set_mm - self._tubing_mm) > 0.015:  # some firmware reports 1.43 for 1.42
                try:
                    await self._set(b"+" + tubing_2(self._tubing_mm))
                except Refused:
                    # It runs with the wrong tubing, so its flow differs from the reported one; the requester starts
                    # it again.
                    await self._stop()
                    await self._set(b"+" + tubing_2(self._tubing_mm))
        self._max_flow_ul_min = parse_flow_ul_min(await self._get(b"!"), self.where)
        self.revolution_ul = self._max_flow_ul_min / MAX_RPM
        self._steps = FlowSteps(self.revolution_ul * STEP_RPM, self._max_flow_ul_min)
        self._polls = 0
        self._was_running = True
        self._total_sure = False

    async def apply(self, command: Command) -> None:
        """Execute Run, Dispense or Stop; see :meth:`drivers.device.Actuator.apply`."""
        self._wire.conversation.require_verified()
        # A stop must never be executed between the settings of a start and the start itself.
        async with self._one_at_a_time:
            if isinstance(command, Run | Dispense) and command.flow_ul_min != 0.0:
                await self._wire.address_channels()
            match command:
                case Stop() | Run(flow_ul_min=0.0):
                    await self._stop()
                case Run():
                    await self._run(command.flow_ul_min)
                case Dispense():
                    await self._dispense(command)
                case _:
                    raise refuse(self, self.where, command)

    async def status(self) -> PumpStatus:
        """Return running state, flow (µL/min, signed), and the pump's own total (µL, in steps of 1 mL).

        Raises:
            DeviceFault: The pump has reported a fault since its last command (with `events` on).
        """
        if self._fault:
            raise DeviceFault(
                f"the pump has stopped this channel: {self._fault}",
                where=self.where,
                cause="the head is blocked or pressed too hard, or the pump stands too warm",
                action="look at the pump; any command to this channel clears the message",
            )
        running = await self._running()
        recheck = self._polls % RECHECK_EVERY == 0
        if recheck or self._total_moves(running):
            await self._read_total(running)
        flows_set = self._flows_set
        if running:
            await self._read_flow()
        self._was_running = running
        self._polls = self._polls + 1 if flows_set == self._flows_set else 0
        return PumpStatus(running, self._flow_ul_min if running else 0.0, self._total_ul, TOTAL_STEP_UL)

    def _total_moves(self, running: bool) -> bool:
        """Return whether the total may differ from the one that was read last."""
        if running and self._was_running and self._continuous:
            return asyncio.get_running_loop().time() >= self._total_due_s
        return running or not self._total_sure

    async def _read_total(self, running: bool) -> None:
        """Read the pump's total."""
        before_ul = self._total_ul
        self._total_due_s = asyncio.get_running_loop().time() + 60.0 * TOTAL_STEP_UL / max(
            abs(self._flow_ul_min), MIN_FLOW_UL_MIN
        )
        self._total_ul = 1000.0 * parse_count(await self._get(b"xG"), self.where)
        # Any digit of it may have been garbled: at rest it is read until two readings in a row agree.
        self._total_sure = not running and self._total_ul == before_ul
        if self._total_ul == 0.0 < before_ul:
            # Only a loss of power sets it back: then the stored tubing applies again, not the one that was set.
            self._wire.conversation.restarted()

    async def _read_flow(self) -> None:
        """Read flow and direction of the running channel, unless another flow is set meanwhile."""
        flows_set = self._flows_set
        flow_ul_min = 1000.0 * parse_volume_1(await self._get(b"f"), self.where)
        flow_ul_min = flow_ul_min if await self._get(b"xD") == self._forward else -flow_ul_min
        if flows_set == self._flows_set:
            self._flow_ul_min = flow_ul_min

    def take_event(self, channel: bytes, cause: bytes) -> None:
        """Process the pump's report why a channel ended (`^X`)."""
        if channel == self._channel and cause in _FAULTS:
            self._fault = _FAULTS[cause]

    # --- commands -----------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Stop and verify by readback; retry once if the reply was lost (stopping twice is harmless)."""
        try:
            await self._stop_once()
        except (NoReply, BadReply, DeviceFault):
            await self._stop_once()

    async def _stop_once(self) -> None:
        self._polls = 0
        self._fault = ""
        await self._set(b"I")
        if await self._running():
            raise DeviceFault(
                "the channel still runs after it was stopped",
                where=self.where,
                cause="it was restarted at the pump, or its electronics failed",
                action="switch the pump off by hand",
            )

    async def _run(self, flow_ul_min: float) -> None:
        self._check_flow(abs(flow_ul_min))
        if (coarse := self._steps.too_coarse(flow_ul_min)) is not None:
            raise self._refusal(*coarse)
        direction = self._forward if flow_ul_min > 0 else _opposite(self._forward)
        self._polls = 0
        self._continuous = True
        if await self._running():
            if await self._get(b"xM") == b"M" and await self._get(b"xD") == direction:
                await self._set_volume(b"f", flow_ul_min)  # it turns already: only the speed changes
                return
            await self._stop()
        await self._set(b"M")
        await self._set(direction)
        await self._set_volume(b"f", flow_ul_min)
        await on_or_off(self._start(), self._stop)

    async def _dispense(self, dose: Dispense) -> None:
        if self._doses.given(dose.dose_id):
            return
        self._check_flow(dose.flow_ul_min)
        if not 0 < dose.volume_ul <= MAX_DOSE_UL:
            raise self._refusal(
                f"{dose.volume_ul:g} µL cannot be given at once",
                f"give more than 0 and up to {MAX_DOSE_UL:g} µL",
            )
        if await self._running():
            raise self._refusal("it is still running", "stop it, or wait until the dose before has ended")
        self._polls = 0
        self._continuous = False
        if self._doses_over_time:
            await self._aim_over_time(dose)
        else:
            await self._set(b"O")
            await self._set(self._forward)
            await self._set_volume(b"f", dose.flow_ul_min)
            await self._set_volume(b"v", dose.volume_ul)
        self._doses.begin(dose.dose_id)
        await on_or_off(self._start(dose.dose_id), self._stop)
        self._doses.accept(dose.dose_id)

    async def _aim_over_time(self, dose: Dispense) -> None:
        """Prepare a dose in mode `G`, where the pump finds the speed itself; sent last, since volume and time must
        fit.
        """
        await self._set(self._forward)
        await self._set_volume(b"v", dose.volume_ul)
        await self._set_time(dose.volume_ul / dose.flow_ul_min * 60.0)
        if await self._wire.status_of(self._address + b"G") != b"*":
            raise self._refusal(*why_not_started(await self._get(b"xe")))

    async def _start(self, dose_id: str | None = None) -> None:
        self._fault = ""
        answer = await self._wire.status_of(self._address + b"H")
        if answer == b"*":
            return
        if answer not in (b"-", b"#"):  # one wrong bit turns * into +: it may turn
            self._wire.conversation.doubt()
            raise bad_reply(answer, self.where, "* (started), - or # (not started)")
        if dose_id is not None:
            self._doses.not_begun(dose_id)
        raise self._refusal(*why_not_started(await self._get(b"xe")))

    async def _set_volume(self, name: bytes, value_ul: float) -> None:
        """Set a flow (`f`) or a volume (`v`) and compare the pump's echo: it may have limited the value."""
        wanted_ml = abs(value_ul) / 1000.0
        echoed_ml = parse_volume_1(await self._get(name + volume_2(wanted_ml)), self.where)
        if abs(echoed_ml - wanted_ml) > ECHO_TOLERANCE * wanted_ml:
            unit = "µL/min" if name == b"f" else "µL"
            raise self._refusal(
                f"the pump took {1000 * echoed_ml:g} instead of {1000 * wanted_ml:g} {unit}",
                f"stay below the tubing's {self._max_flow_ul_min:g} µL/min, or fit wider tubing",
            )
        if name == b"f":
            self._flow_ul_min = value_ul
            self._flows_set += 1

    async def _set_time(self, seconds: float) -> None:
        """Set the time of a dose (`xT`) and read it back."""
        unit_s = self._time_unit_s
        units = round(seconds / unit_s)
        if abs(units * unit_s - seconds) > TIME_TOLERANCE * seconds:
            raise self._refusal(
                f"{seconds:g} s cannot be set in steps of {unit_s:g} s", "request a larger volume at a time"
            )
        await self._set(b"xT" + time_2(seconds, unit_s))
        taken = parse_count(await self._get(b"xT"), self.where)
        if taken != units:
            raise self._refusal(
                f"the pump took {taken * unit_s:g} s instead of {seconds:g} s", "ask for a shorter time"
            )

    def _check_flow(self, flow_ul_min: float) -> None:
        if not MIN_FLOW_UL_MIN <= flow_ul_min <= self._max_flow_ul_min:
            raise self._refusal(
                f"{flow_ul_min:g} µL/min cannot be pumped; the tubing carries {self._max_flow_ul_min:g}",
                "ask for less, or fit wider tubing and enter it in the rig file",
            )

    # --- requests -----------------------------------------------------------------------------------------

    async def _running(self) -> bool:
        answer = await self._wire.status_of(self._address + b"E")
        if answer not in (b"+", b"-"):
            raise bad_reply(answer, self.where, "+ (running) or - (stopped)")
        return answer == b"+"

    async def _set(self, command: bytes) -> None:
        await self._wire.set(self._address + command)

    async def _get(self, query: bytes) -> bytes:
        return await self._wire.get(self._address + query)

    def _refusal(self, what: str, action: str) -> Refused:
        return Refused(
            what, where=self.where, cause="the command does not fit the pump's state or tubing", action=action
        )


def _opposite(direction: bytes) -> bytes:
    return b"K" if direction == b"J" else b"J"


def _tubing_mm(config: ChannelConfig, where: str) -> float | None:
    wanted = CHANNEL_TUBING.optional(config.settings, where)
    if wanted is not None and all(abs(wanted - known) > 0.0051 for known in TUBING_MM):
        known_text = ", ".join(f"{known:.2f}" for known in TUBING_MM)
        raise bad_setting(
            where,
            CHANNEL_TUBING.file_key,
            f"is {wanted:g} mm, which the pump does not support",
            f"choose {known_text} mm",
        )
    return wanted
