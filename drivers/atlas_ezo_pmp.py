"""Atlas Scientific EZO-PMP, an embedded dosing pump (EZO-PMP data sheet, UART mode; firmware 1.06).

A dose is a volume (`D,ml`, at full speed) or a volume over a time (`D,ml,min`): the pump stops by itself and then
sends `*DONE,ml`. Its absolute total (`ATV,?`, steps of 0.01 mL) starts from zero at a power cycle.
"""

from __future__ import annotations

import asyncio
import math
import re

from drivers.atlas_uart import AtlasEzo
from drivers.commands import Command, Dispense, Guarantee, PumpStatus, Run, Stop
from drivers.device import Actuator, DeviceConfig, DeviceModel, Dosing, Page, on_or_off, refuse
from drivers.doses import DoseBook
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused
from drivers.flow_steps import FlowSteps
from drivers.settings import known_only
from drivers.transport.link import Link
from drivers.transport.replies import bad_reply

MIN_DOSE_UL = 500.0
TOTAL_STEP_UL = 10.0
FLOW_STEP_UL_MIN = 10.0
"""A continuous flow is sent in mL/min with two decimals."""
REVOLUTION_UL = 800.0
"""The data sheet has no volume per revolution: value of other heads with tubing of 3 mm bore (OMEGA FPU5 manual,
table 9-2).
"""
FULL_SPEED = 0.97
"""Share of the maximum flow from which a dose is given at full speed, untimed."""

_DISPENSED = re.compile(rb"\?D,(\*|-\*|-?\d{1,7}\.\d{1,3}),([01])", re.IGNORECASE)
_TOTAL = re.compile(rb"\?ATV,(\d{1,9}\.\d{1,3})", re.IGNORECASE)
_MAX_RATE = re.compile(rb"\?MAXRATE,(\d{1,5}(?:\.\d{1,3})?)", re.IGNORECASE)


class AtlasEzoPmp(AtlasEzo):
    """One dosing pump; its only point is `pump`."""

    model = DeviceModel(
        id="atlas-ezo-pmp",
        vendor="Atlas Scientific",
        name="EZO-PMP",
        kind="pump",
        transports=("serial", "tcp", "sim"),
        capabilities=("run", "dispense", "total"),
        guarantee=Guarantee.DEVICE,
        manual="EZO-PMP data sheet, UART mode",
        # ±1 % when calibrated, by the data sheet; twice that for tubing that has aged since.
        dosing=Dosing(rel_sd=0.02, dose_sd_ul=5.0, min_ul=MIN_DOSE_UL),
    )
    circuit = "PMP"
    page = Page(
        wiring="UART, 3.3 or 5 V (TX to RX, common ground) through a USB-serial adapter or an isolated carrier; 9600 8N1."
        " The motor has a supply of its own, 12 V.",
        commands=(
            ("C,0", "end the reports that every restart turns on", "UART mode"),
            ("i", "who answers, firmware; fences late replies", "UART mode"),
            ("*OK,1", "response codes on", "UART mode"),
            ("Status", "reason of the last restart, supply voltage", "UART mode"),
            ("DC,?", "maximum flow, which calibration changes", "UART mode"),
            ("DC,mL/min,*", "pump without end", "UART mode"),
            ("D,mL and D,mL,min", "a dose at full speed, or over a time", "UART mode"),
            ("D,?", "whether it runs, and the commanded volume", "UART mode"),
            (
                "ATV,?",
                "absolute total, either way, in steps of 0.01 mL: the only query to a pump at rest",
                "UART mode",
            ),
            ("X", "stop", "UART mode"),
        ),
        traps=(
            "`*DONE,mL` is sent unsolicited at the end of a dose, perhaps before another answer.",
            "Some firmware also answers `X` with `*OK`, some does not.",
            "Not calibrated, it is off by 8 to 17 % (measured on two units): `choroid device calibrate-pump`.",
            "Without its 12 V supply it answers `*UV,PUMPPWR`: a fault, and nothing is pumped.",
            "It does not report its flow; the commanded flow is shown.",
            "A continuous flow has steps of 10 µL/min: one that differs by more than 2 % from a step is refused;"
            " a circulation pump gets the nearest step.",
            "Its line has no checksum, and one flipped bit makes `D,?` a dose of 7 mL (`D,7`). A pump at rest is only asked"
            " its total, a dose is read back before it is trusted, and an uncommanded volume raises `stray_flow`."
            " Keep its cable short and away from motors.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.pump = DosingPump(self)
        self.actuators["pump"] = self.pump

    async def _settle_in(self) -> None:
        await self.pump.prepare()

    def _error(self, codes: list[bytes]) -> DeviceError:
        if b"*TOOFAST" in codes:
            return self._refusal("it cannot pump that fast", "ask for less flow, or calibrate it by volume and time")
        if b"*MINVOL" in codes:
            return self._refusal("the dose is below its least volume", f"give {MIN_DOSE_UL:g} µL or more")
        return super()._error(codes)

    def _refusal(self, what: str, action: str) -> Refused:
        return Refused(what, where=f"{self.config.name}.pump", cause="the command is outside its range", action=action)

    async def stop(self) -> None:
        """Send `X`: it answers `*DONE,ml`; some firmware adds `*OK`."""
        await self._conversation.ask(b"X\r", self.answer(ends=(b"*DONE", b"*OK")))
        self._conversation.doubt()  # an *OK may follow and must not end the next answer


class DosingPump(Actuator):
    """The pump of an EZO-PMP."""

    kind = "pump"
    unit = "uL/min"
    guarantee = Guarantee.DEVICE
    revolution_ul = REVOLUTION_UL

    def __init__(self, circuit: AtlasEzoPmp) -> None:
        self.where = f"{circuit.config.name}.pump"
        self._circuit = circuit
        self._doses = DoseBook(self.where)
        self._max_ul_min = 0.0
        self._steps = FlowSteps(FLOW_STEP_UL_MIN, 0.0)
        self._flow_ul_min: float | None = None
        self._total_ul = 0.0
        self._resting = False
        self._told = 0
        """Incremented by every command: an earlier answer is out of date."""
        self._one_at_a_time = asyncio.Lock()

    def guarantee_for(self, command: Command) -> Guarantee:
        """Return the guarantee: a dose ends by itself, a continuous flow does not (before twenty days)."""
        return Guarantee.GUARD if isinstance(command, Run) else Guarantee.DEVICE

    def nearest(self, command: Command, max_value: float = math.inf) -> Command:
        """Return the nearest possible command; see :meth:`drivers.device.Actuator.nearest`. `max_value` in µL/min."""
        return Run(self._steps.nearest(command.flow_ul_min, max_value)) if isinstance(command, Run) else command

    async def prepare(self) -> None:
        """Read the maximum flow, which calibration changes; part of verification."""
        self._max_ul_min = 1000.0 * float((await self._ask(b"DC,?", _MAX_RATE))[1])
        self._steps = FlowSteps(FLOW_STEP_UL_MIN, self._max_ul_min)
        self._resting = False

    async def apply(self, command: Command) -> None:
        """Execute Run, Dispense or Stop; see :meth:`drivers.device.Actuator.apply`."""
        self._circuit.conversation.require_verified()
        async with self._one_at_a_time:
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
        """Return the status that the pump reports; at rest with an unchanged total it is not asked whether it runs
        (see traps).

        The pump does not report its flow: it is the commanded one, or else its maximum.
        """
        told = self._told
        total_ul = 1000.0 * float((await self._ask(b"ATV,?", _TOTAL))[1])
        running = False
        if not self._resting or total_ul != self._total_ul:
            self._resting = False
            running = await self._running()
            if running:
                total_ul = 1000.0 * float((await self._ask(b"ATV,?", _TOTAL))[1])
        self._total_ul = total_ul
        self._resting = not running and told == self._told  # otherwise a command was sent while this was queried
        flow_ul_min = self._max_ul_min if self._flow_ul_min is None else self._flow_ul_min
        return PumpStatus(running, flow_ul_min if running else 0.0, self._total_ul, TOTAL_STEP_UL)

    async def _stop(self) -> None:
        try:
            await self._stop_once()
        except (NoReply, BadReply, DeviceFault):
            await self._stop_once()

    async def _stop_once(self) -> None:
        self._commanded()
        await self._circuit.stop()
        if await self._running():
            raise DeviceFault(
                "the pump still runs after it was stopped",
                where=self.where,
                cause="its electronics failed",
                action="switch its 12 V supply off by hand",
            )
        self._flow_ul_min = None

    async def _run(self, flow_ul_min: float) -> None:
        self._check_flow(abs(flow_ul_min))
        if (coarse := self._steps.too_coarse(flow_ul_min)) is not None:
            raise self._refusal(*coarse)
        told_ul_min = math.copysign(self._steps.count(flow_ul_min) * FLOW_STEP_UL_MIN, flow_ul_min)
        if await self._running():
            if self._flow_ul_min == told_ul_min:
                return
            await self._stop()
        await self._start(b"DC,%s,*" % _decimal(told_ul_min / 1000.0, 2), told_ul_min)

    async def _dispense(self, dose: Dispense) -> None:
        if self._doses.given(dose.dose_id):
            return
        self._check_flow(dose.flow_ul_min)
        if dose.volume_ul < MIN_DOSE_UL - TOTAL_STEP_UL / 2 or not math.isfinite(dose.volume_ul):
            raise self._refusal(
                f"{dose.volume_ul:g} µL is below its least dose",
                f"give {MIN_DOSE_UL:g} µL or more at a time",
            )
        if await self._running():
            raise self._refusal("it is still running", "stop it, or wait until the dose before has ended")
        command = b"D,%s" % _decimal(dose.volume_ul / 1000.0, 2)
        flow_ul_min = min(dose.flow_ul_min, self._max_ul_min)
        if dose.flow_ul_min < FULL_SPEED * self._max_ul_min:
            command += b",%s" % _decimal(dose.volume_ul / dose.flow_ul_min, 3)
        self._doses.begin(dose.dose_id)
        try:
            await self._start(command, flow_ul_min)
        except (Refused, DeviceFault):
            self._doses.not_begun(dose.dose_id)
            raise
        self._doses.accept(dose.dose_id)
        # From here on some volume may have moved: a dose that is stopped now is never given again under its id
        # (A4).
        await on_or_off(self._understood(dose.volume_ul / 1000.0), self._stop)

    async def _start(self, command: bytes, flow_ul_min: float) -> None:
        self._commanded()
        await on_or_off(self._circuit.command(command), self._stop)
        self._commanded()
        self._flow_ul_min = flow_ul_min

    def _commanded(self) -> None:
        """Invalidate earlier answers, and those under way, about whether the pump runs."""
        self._resting = False
        self._told += 1

    async def _understood(self, volume_ml: float) -> None:
        """Verify that the pump received a dose as it was sent."""
        echoed = (await self._ask(b"D,?", _DISPENSED))[1]
        if echoed.endswith(b"*") or abs(float(echoed) - volume_ml) > TOTAL_STEP_UL / 1000.0:
            raise DeviceFault(
                f"{volume_ml:.2f} mL were sent and {echoed.decode()} received; it is stopped",
                where=self.where,
                cause="a disturbed cable",
                action="see the ledger for what was moved; shorten or shield its cable",
            )

    def _check_flow(self, flow_ul_min: float) -> None:
        if not 0 < flow_ul_min <= self._max_ul_min:
            raise self._refusal(
                f"{flow_ul_min:g} µL/min cannot be pumped; it carries up to {self._max_ul_min:g}",
                "ask for less flow",
            )

    async def _running(self) -> bool:
        return (await self._ask(b"D,?", _DISPENSED))[2] == b"1"

    async def _ask(self, query: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        line = await self._circuit.query(query)
        match = pattern.fullmatch(line)
        if match is None:
            self._circuit.conversation.doubt()
            raise bad_reply(line, self.where, f"an answer to {query.decode()}")
        return match

    def _refusal(self, what: str, action: str) -> Refused:
        return Refused(what, where=self.where, cause="the command does not fit the pump or its state", action=action)


def _decimal(value: float, digits: int) -> bytes:
    """Return `value` with at most `digits` decimals and without trailing zeros: 5.00 is `5`, 0.50 is `0.5`."""
    text = f"{value:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).encode()
