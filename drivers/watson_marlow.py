"""Watson-Marlow peristaltic pumps with the ASCII protocol: 323, 505Di, 520, 530, 620 and 720 (manuals 505Di p. 6,
323 p. 29, 620DuN p. 82, 720DuN p. 77, 530Du p. 40 "Historical basic protocol").

No command is acknowledged; only queries are answered. Each command is therefore followed by the status query `RS`,
and counts as executed when the status shows it. All series but the 323 dose a number of pulses of their own
tachometer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drivers.commands import Guarantee, PumpStatus
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page
from drivers.errors import BadReply, DeviceFault, NoReply, WrongDevice
from drivers.flow_steps import FlowSteps
from drivers.rotary_pump import DIRECTION, HostCount, RotaryPump
from drivers.settings import ChoiceSetting, NumberSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation
from drivers.transport.link import Link
from drivers.transport.replies import MAX_LINE_BYTES, bad_reply
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.6
COMMAND_GAP_S = 0.020
"""Minimum interval between two commands is 10 ms."""
BITS_A_BYTE = 11
LATENCY_S = 0.1
STARTED_S = 0.15
"""Maximum delay until a dose shows in the status before it is read once more (s)."""
MAX_PULSES = 99_999_999
PULSES = {"520": 10_982.0, "530": 10_982.0, "620": 10_982.0, "720": 10_982.0}
"""Tacho pulses per revolution of the head; the 505Di has 800 or 1280 by version, the 323 reports none."""
SERIES = ("323", "505", "520", "530", "620", "720")

_NUMBER = r"\d{1,6}(?:\.\d{1,4})?"
_WORD = r"[!-~]{1,16}"
_SHORT = re.compile(rf"({_WORD}) ({_NUMBER}) (CW|CCW) ([01])".encode())
_LONG = re.compile(
    rf"({_WORD}) ({_NUMBER}) ({_WORD}) ({_WORD}) ({_NUMBER}) (CW|CCW) P/N (\d{{1,2}}) (\d{{1,10}}) ([01])".encode()
)

SERIES_SETTING = ChoiceSetting(key="series", meaning="series of the pump", among=SERIES)
MAX_RPM = NumberSetting(
    key="max_rpm", meaning="the drive's maximum speed, from its rating plate", low=1.0, high=999.9, unit="rpm"
)
UL_PER_REV = NumberSetting(
    key="ul_per_rev",
    meaning="the measured volume of one revolution of the tubing",
    low=0.01,
    high=1e6,
    unit="µL",
    without="default: as the pump reports it; the 323 does not",
)
PULSES_PER_REV = NumberSetting(
    key="pulses_per_rev",
    meaning="the tacho pulses of one revolution (505Di: 800 at 350 rpm, 1280 at 220 rpm)",
    low=1.0,
    high=1e6,
    without="default 10982; 505Di: required",
)


@dataclass(frozen=True, slots=True)
class PumpReport:
    """Answer to `RS`. The 323 reports neither volume nor tacho."""

    type: str
    rpm: float
    clockwise: bool
    running: bool
    ml_per_rev: float | None = None
    pulses: int | None = None


class WatsonMarlow(Device):
    """One pump; its only point is `pump`."""

    model = DeviceModel(
        id="watson-marlow-ascii",
        vendor="Watson-Marlow",
        name="323, 505Di, 520, 530, 620, 720 (ASCII)",
        kind="pump",
        transports=("serial", "tcp", "sim"),
        capabilities=("run", "dispense", "total", "reverse"),
        guarantee=Guarantee.DEVICE,
        manual="505Di p. 6; 323; 620DuN p. 82; 720DuN p. 77; 530Du p. 40",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=2)
    queries = re.compile(rb"[0-9]{1,2}RS\r")
    settings = (SERIES_SETTING, MAX_RPM, UL_PER_REV, PULSES_PER_REV, DIRECTION)
    page = Page(
        wiring="RS-232, or RS-485 on the N versions with up to 16 pumps (32 on 720DuN). 9600, 8 bits, no parity, TWO stop"
        " bits, no handshake. The pump must stand in its RS-232 or remote mode.",
        address="the pump's number, 1 to 16 (720DuN: 32; default 1)",
        commands=(
            ("nRS", "status; follows every command, since none is acknowledged", "505Di p. 6"),
            ("nSPxxx.x", "speed, rpm (323: whole rpm)", "505Di p. 6"),
            ("nRR, nRL", "clockwise, counter-clockwise", "505Di p. 6"),
            ("nGO, nST", "start, stop", "505Di p. 6"),
            ("nDOx", "dose x tacho pulses, not on the 323", "720DuN p. 77"),
        ),
        traps=(
            "No command is acknowledged and no error is reported: a command has worked when the status shows it.",
            "The 323 cannot end a dose, nor count: this driver times and counts there. If the controller dies in a dose,"
            " a 323 continues until the guard process stops it.",
            "The 323 echoes what it receives (factory setting); the echo is recognised, no setting is needed.",
            "A 323 does not send its number: two on one line differ only by their echo. Give each its own line.",
            "Tacho pulses a revolution: 10982 in the 620 and 720 manuals, 10892 (probably a misprint) in the 530 manual:"
            " measure a dose once, and set pulses_per_rev if it is off by 0.8 %.",
            "The pump reports mL per revolution with two decimals: with narrow tubing measure it and set ul_per_rev.",
            "Whether a dose clears the tacho, and how the tacho wraps, is not documented. This driver never clears it.",
            "The dose is written without leading zeros; the manuals do not say whether they may be omitted.",
            "A speed is rounded to the pump's step (0.1 rpm, 323: 1 rpm): the status shows the resulting flow. A flow that"
            " this would change by more than 2 % is refused; a circulation pump gets the nearest step.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.series = _series(config)
        self.number = _number(config)
        self._conversation = Conversation(link, config.name, timeout_s=TIMEOUT_S)
        self._conversation.mirrors = True  # the 323 does
        self._conversation.anonymous = self.series == "323"
        self.pump: TachoPump | TimedPump = TimedPump(self) if self.series == "323" else TachoPump(self)
        self.actuators["pump"] = self.pump
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        report = await self.report()
        if not report.type.startswith(self.series):
            raise WrongDevice(
                f"“{report.type}” answers",
                where=self.config.name,
                cause="another pump has this number, or series in the rig file is another",
                action="check the pump's number and the series in the rig file",
            )
        self.pump.prepare(report)
        return Identity(model=report.type)

    async def report(self) -> PumpReport:
        """Send `RS`; return the pump's report."""
        return await self._conversation.ask(b"%dRS\r" % self.number, self._report)

    async def tell(self, command: bytes) -> None:
        """Send a command and wait until the next may follow. It is not acknowledged: read back its effect."""
        request = b"%d%s\r" % (self.number, command)
        sent_s = len(request) * BITS_A_BYTE / self.link.line.baud

        def echoed(buffer: bytearray) -> bool | None:
            if not buffer.startswith(request):
                if request.startswith(bytes(buffer)):
                    return None
                raise bad_reply(bytes(buffer), self.config.name, "an echo of the command, which is not answered")
            del buffer[: len(request)]
            return True

        try:
            await self._conversation.exchange(request, echoed, timeout_s=2 * sent_s + COMMAND_GAP_S)
        except NoReply:
            pass  # the normal case, unless the pump echoes
        except BadReply:
            self._conversation.doubt()
        except asyncio.CancelledError:
            self._conversation.doubt()
            raise

    def _report(self, buffer: bytearray) -> PumpReport | None:
        """Parse the status, which ends with `!`; echoes of requests may precede it, each ended by CR."""
        while (at := buffer.find(b"!")) >= 0:
            *echoes, text = (part.strip() for part in bytes(buffer[:at]).split(b"\r"))
            del buffer[: at + 1]
            report = self._short_report(echoes, text) if self.series == "323" else self._long_report(text)
            if report is not None:
                return report
        if len(buffer) > MAX_LINE_BYTES:
            raise bad_reply(bytes(buffer), self.config.name, "a status that ends with !")
        return None

    def _short_report(self, echoes: Sequence[bytes], text: bytes) -> PumpReport | None:
        """Return the report of series 323, whose text carries no pump number; None if it is not of this pump."""
        if echoes and echoes[-1] and echoes[-1] != b"%dRS" % self.number:
            return None  # the echo of a request to another pump: this is that pump's answer
        match = _SHORT.fullmatch(text)
        if match is None:
            return None
        return PumpReport(match[1].decode("ascii"), float(match[2]), match[3] == b"CW", match[4] == b"1")

    def _long_report(self, text: bytes) -> PumpReport | None:
        """Return the report of the other series; None if it is not of this pump."""
        match = _LONG.fullmatch(text)
        if match is None or int(match[7]) != self.number:
            return None
        return PumpReport(
            match[1].decode("ascii"),
            float(match[5]),
            match[6] == b"CW",
            match[9] == b"1",
            float(match[2]),
            int(match[8]),
        )


class _Pump(RotaryPump):
    """Common part of all series."""

    step_rpm = 0.1

    def __init__(self, device: WatsonMarlow, guarantee: Guarantee) -> None:
        super().__init__(f"{device.config.name}.pump", device.conversation, guarantee=guarantee)
        self._device = device
        settings, where = device.config.settings, device.config.name
        self._max_rpm = MAX_RPM.of(settings, where)
        self._forward = DIRECTION.of(settings, where) == "cw"
        self._continuous = False
        """Whether this process started the running flow, continuous."""
        self._target = (0.0, True)
        """Speed (rpm) and whether clockwise."""
        self._volume_ul = 0.0
        if UL_PER_REV.key in settings:
            self._take_revolution(UL_PER_REV.of(settings, where))

    def prepare(self, report: PumpReport) -> None:
        """Derive the volume per revolution and the flow range; part of verification."""
        settings, where = self._device.config.settings, self._device.config.name
        if UL_PER_REV.key in settings or not report.ml_per_rev:
            self._take_revolution(UL_PER_REV.of(settings, where))
        else:
            self._take_revolution(1000.0 * report.ml_per_rev)
        self._continuous = False

    def _take_revolution(self, ul: float) -> None:
        """Derive the flow range and its steps from the volume per revolution (µL)."""
        self._ul_per_rev = self.revolution_ul = ul
        self._min_flow_ul_min = self.step_rpm * self._ul_per_rev
        self._max_flow_ul_min = self._max_rpm * self._ul_per_rev
        self._steps = FlowSteps(self.step_rpm * self._ul_per_rev, self._max_flow_ul_min)

    async def _running(self) -> bool:
        return (await self._look()).running

    async def _look(self, *, commanded: bool = False) -> PumpReport:
        return await self._device.report()

    async def _halt(self) -> None:
        self._continuous = False
        await self._device.tell(b"ST")
        await self._look(commanded=True)

    async def _aim(self, flow_ul_min: float, volume_ul: float | None) -> None:
        self._continuous = False
        self._volume_ul = volume_ul or 0.0
        self._target = self._speed(flow_ul_min)
        await self._set(running=False)

    async def _retune(self, flow_ul_min: float) -> bool:
        rpm, clockwise = self._speed(flow_ul_min)
        if not self._continuous or clockwise != self._target[1]:
            return False
        self._target = rpm, clockwise
        await self._set(running=True)
        return True

    async def _set(self, *, running: bool) -> PumpReport:
        """Set speed and, at rest, direction; verify them by readback, with one retry."""
        rpm, clockwise = self._target
        for _ in range(2):
            await self._device.tell(b"SP%.*f" % (0 if self.step_rpm == 1.0 else 1, rpm))
            if not running:
                await self._device.tell(b"RR" if clockwise else b"RL")
            report = await self._look(commanded=True)
            if abs(report.rpm - rpm) < self.step_rpm / 2 and report.clockwise is clockwise:
                return report
        raise self._refusal(
            f"told {rpm:g} rpm {'clockwise' if clockwise else 'counter-clockwise'}, it shows {report.rpm:g} rpm"
            f" {'clockwise' if report.clockwise else 'counter-clockwise'}",
            "put the pump into its remote mode; check max_rpm in the rig file",
        )

    def _started(self, running: bool) -> None:
        if not running:
            raise DeviceFault(
                "it does not run after it was started",
                where=self.where,
                cause="the pump is in local mode, its head is open, or the line lost the command",
                action="look at its display; it was commanded off",
            )

    def _flow(self, report: PumpReport) -> float:
        if not report.running:
            return 0.0
        flow_ul_min = report.rpm * self._ul_per_rev
        return flow_ul_min if report.clockwise is self._forward else -flow_ul_min

    def _speed(self, flow_ul_min: float) -> tuple[float, bool]:
        steps = max(1, round(abs(flow_ul_min) / self._ul_per_rev / self.step_rpm))
        return steps * self.step_rpm, self._forward if flow_ul_min > 0 else not self._forward


class TachoPump(_Pump):
    """A series that doses by its own tacho and counts with it."""

    def __init__(self, device: WatsonMarlow) -> None:
        super().__init__(device, Guarantee.DEVICE)
        settings, where = device.config.settings, device.config.name
        self._pulses_per_rev = replace(PULSES_PER_REV, default=PULSES.get(device.series)).of(settings, where)
        self._pulses = 0
        self._pulses_before = 0

    async def status(self) -> PumpStatus:
        """Return running state, flow, and the tacho as a volume (µL, in steps of a pulse)."""
        report = await self._device.report()
        per_pulse_ul = self._ul_per_rev / self._pulses_per_rev
        return PumpStatus(report.running, self._flow(report), (report.pulses or 0) * per_pulse_ul, per_pulse_ul)

    async def _aim(self, flow_ul_min: float, volume_ul: float | None) -> None:
        per_pulse_ul = self._ul_per_rev / self._pulses_per_rev
        if volume_ul is not None:
            self._pulses = round(volume_ul / per_pulse_ul)
            self._check_dose(volume_ul, self._pulses * per_pulse_ul)
            if self._pulses > MAX_PULSES:
                raise self._refusal(f"{volume_ul:g} µL cannot be given at once", "give less at a time")
        await super()._aim(flow_ul_min, volume_ul)

    async def _set(self, *, running: bool) -> PumpReport:
        report = await super()._set(running=running)
        self._pulses_before = report.pulses or 0
        return report

    async def _go(self, dose: bool) -> None:
        await self._device.tell(b"DO%d" % self._pulses if dose else b"GO")
        started = await self._turned()
        if dose and not started:
            await asyncio.sleep(STARTED_S)
            started = await self._turned()
        self._started(started)
        self._continuous = not dose

    async def _turned(self) -> bool:
        """Return whether the pump runs, or has run: a small dose may be over before the status is read."""
        report = await self._device.report()
        return report.running or report.pulses != self._pulses_before


class TimedPump(_Pump):
    """The 323, which only runs or stands: the driver times doses and counts volumes."""

    step_rpm = 1.0

    def __init__(self, device: WatsonMarlow) -> None:
        super().__init__(device, Guarantee.HOST)
        self._count = HostCount(LATENCY_S)

    def prepare(self, report: PumpReport) -> None:
        """See :meth:`_Pump.prepare`."""
        super().prepare(report)
        self._count.update(self._flow(report))

    async def status(self) -> PumpStatus:
        """Return running state and flow; the total is this driver's count (µL)."""
        report = await self._look()
        return PumpStatus(
            report.running, self._flow(report), self._count.total_ul, self._count.resolution_ul, host_counted=True
        )

    async def _look(self, *, commanded: bool = False) -> PumpReport:
        report = await self._device.report()
        self._count.update(self._flow(report), commanded=commanded)
        return report

    async def _go(self, dose: bool) -> None:
        await self._device.tell(b"GO")
        started_s = asyncio.get_running_loop().time()
        self._started((await self._look(commanded=True)).running)
        if dose:
            # The delay between a command and its effect is the same at the end, and cancels out.
            ran_s = asyncio.get_running_loop().time() - started_s
            self._end_after(max(0.0, self._volume_ul / (self._target[0] * self._ul_per_rev) * 60.0 - ran_s))
        self._continuous = not dose


def _series(config: DeviceConfig) -> str:
    given = dict(config.settings)
    series = given.get(SERIES_SETTING.key)
    if isinstance(series, (int, float)) and not isinstance(series, bool):
        given[SERIES_SETTING.key] = f"{series:g}"  # a rig file's 520 is a number
    return SERIES_SETTING.of(given, config.name)


def _number(config: DeviceConfig) -> int:
    text = config.address or "1"
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 32):
        raise bad_setting(config.name, "address", f"is “{text}”", "write the pump's number, 1 to 16 (720DuN: 32)")
    return int(text)
