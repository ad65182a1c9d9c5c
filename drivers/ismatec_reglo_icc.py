"""Ismatec Reglo ICC, a peristaltic pump of four independent channels (manual 14-036-E Rev. C §14–18).

Each channel is one pump point. A continuous flow runs in flow-rate mode (`M`), a dose in volume-at-rate mode (`O`):
the pump itself stops when the volume is delivered, whatever happens to the host. A running channel is never
reconfigured blindly: the pump's own state is read before it is changed.
"""

from __future__ import annotations

import asyncio
import math
import re
from contextlib import suppress
from dataclasses import dataclass, replace

from drivers.commands import Command, Dispense, Guarantee, PumpStatus, Run, Stop
from drivers.device import (
    Actuator,
    ChannelConfig,
    Device,
    DeviceConfig,
    DeviceModel,
    Dosing,
    Identity,
    Page,
    on_or_off,
    refuse,
)
from drivers.doses import DoseBook
from drivers.errors import BadReply, DeviceFault, NoReply, Refused, WrongDevice
from drivers.flow_steps import FlowSteps
from drivers.ismatec_formats import (
    TIME_UNIT_S,
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
from drivers.rotary_pump import DIRECTION
from drivers.settings import (
    ChoiceSetting,
    FlagSetting,
    NumberSetting,
    bad_setting,
    known_only,
)
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.replies import bad_reply, take_line
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.6
LEAST_FLOW_UL_MIN = 0.1
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
"""Polls between two readings of a resting channel's total and a running one's settings: the pump's own keys may
have been used.
"""

TIME_TOLERANCE = 0.02
"""A time that its unit would change by more than this share is refused."""

_EVENT = re.compile(rb"\^X([1-4])\|([AB123])$")
_FAULTS = {b"2": "overheated", b"3": "overcurrent"}
_MODEL_TEXT = re.compile(rb"[A-Z][A-Za-z /-]{2,30} \d{3,4} \d{3,4}$")


@dataclass(frozen=True, slots=True)
class PumpWear:
    """Basis of tubing life: revolutions and running time (s) of a channel since its reset."""

    revolutions: int
    run_s: float


TIME_UNIT = NumberSetting(
    key="time_unit_s", meaning="unit of the pump's times", low=0.1, high=1.0, default=TIME_UNIT_S, unit="s"
)
ADDRESSING = ChoiceSetting(
    key="addressing",
    meaning="address channels, or the whole pump as one (several pumps in a chain)",
    among=("channels", "legacy"),
    default="channels",
)
DOSE_MODE = ChoiceSetting(
    key="dose_mode",
    meaning="dose as a volume at a flow (`O`), or as a volume over a time (`G`)",
    among=("rate", "time"),
    default="rate",
)
CHANNEL_TUBING = replace(TUBING, file_key="tubing")
EVENTS = FlagSetting(key="events", meaning="the pump reports overheating and overcurrent unsolicited", default=False)


class IsmatecRegloIcc(Device):
    """One Reglo ICC; `config.channels` names its channels "1" to "4"."""

    model = DeviceModel(
        id="ismatec-reglo-icc",
        vendor="Ismatec",
        name="Reglo ICC",
        kind="pump",
        transports=("serial", "tcp", "sim"),
        capabilities=("run", "dispense", "total", "reverse", "channels"),
        guarantee=Guarantee.DEVICE,
        manual="14-036-E Rev. C §14–18",
        # Tubing of small bore drifts by 5 to 15 %; a dose ends anywhere within one of eight roller pockets.
        dosing=Dosing(rel_sd=0.08, dose_sd_ul=10.0, min_ul=50.0),
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb"[0-9](?:[#+!E(VTUur]|x[!GE]|xv\d{4}[+-]\d\|\d{4}[+-]\d|xw\d{4}[+-]\d\|\d{6})\r")
    settings = (TIME_UNIT, ADDRESSING, DOSE_MODE, EVENTS)
    channel_settings = (CHANNEL_TUBING, DIRECTION)
    page = Page(
        wiring="USB (a serial port of its own) or RS-232, DB9; 9600 8N1, no flow control. Several pumps may share a line,"
        " each with its own pump address.",
        address="pump address, 1 to 8 (default 1)",
        commands=(
            ("a~1, a~0", "address channels one by one, or the pump as a whole", "§14–18"),
            ("0#", "model text: identification; barrier against late replies", "§14–18"),
            ("0xE0, 0xE1", "turn event messages off, or on", "§14–18"),
            ("0x!", "protocol version", "§14–18"),
            ("c+", "tubing diameter: read, and set only when it differs", "§14–18"),
            ("c!", "maximum flow with this tubing", "§14–18"),
            ("cM, cO", "mode: flow rate, or volume at rate", "§14–18"),
            ("cJ, cK", "direction clockwise, counter-clockwise", "§14–18"),
            ("cxM, cxD", "mode and direction, read from a running channel", "§14–18"),
            ("cf", "flow, with the pump's echo compared", "§14–18"),
            ("cv", "volume of a dose, with the pump's echo compared", "§14–18"),
            ("cG, cxT", "mode volume over time, and its time; read back", "§14–18"),
            ("cxR, cxU, cxW, cxY", "calibration: direction, volume, time, start; only by an operator's tool", "§14–18"),
            ("cxV, cxZ", "calibration: what was measured, or cancel", "§14–18"),
            ("cH, cI", "start, stop", "§14–18"),
            ("cE", "whether the channel runs", "§14–18"),
            ("cxe", "why it did not start", "§14–18"),
            ("cxG", "the channel's own total (whole mL)", "§14–18"),
            ("cxC, cxJ", "revolutions and running time, for the tubing's life", "§14–18"),
            ("cxv", "time for a volume (mL) at a flow, 0.1 s; only by `choroid talk`", "§16.2, 3.25"),
            ("cxw", "time for a volume (mL) at a speed, 0.1 s; only by `choroid talk`", "§16.2, 3.26"),
            ("cV, cVM, cVH", "run time, 0.1 s, min or h; only by `choroid talk`", "§16.2, 6.25–6.28"),
            ("cT, cTM, cTH", "pause time, 0.1 s, min or h; only by `choroid talk`", "§16.2, 6.36–6.39"),
            ("cU, cu", "roller steps of a dose, low and high word; only by `choroid talk`", "§16.2, 6.29–6.32"),
            ("cr", "volume of a roller step, nL; only by `choroid talk`", "§16.2, 6.33–6.34"),
        ),
        traps=(
            "A status is one character without an end, data is a line: which one comes depends on the command.",
            "The manual contradicts itself on the unit of times (0.1 s or 1 s); `time_unit_s` selects it.",
            "The pump clips a flow that its tubing cannot carry; its echo is compared, and a clipped value is refused.",
            "Some firmware reports 1.43 mm for tubing of 1.42 mm.",
            "In legacy addressing all channels turn together: name the one channel that carries tubing. Only then may"
            " several pumps share a line. Totals are those of the pump's first channel, as far as is documented.",
            "Pauses (`xI`) and the cyclic modes (`Q`, `P`, `N`) are not used: what the pump alone holds or repeats"
            " would be invisible to the controller.",
            "Events of a natural end are not needed (the state is polled); a commanded stop sends none.",
            "The manual prints the caret of event messages as 0x53; on the wire it is 0x5E.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.time_unit_s = TIME_UNIT.of(config.settings, config.name)
        self.doses_over_time = DOSE_MODE.of(config.settings, config.name) == "time"
        self.events = EVENTS.of(config.settings, config.name)
        self.legacy = _legacy(config)
        if self.legacy and self.events:
            raise bad_setting(
                config.name,
                "events",
                "is true with legacy addressing",
                "choose channels: an event names only a channel",
            )
        self._pump = _pump_address(config)
        self._whole = self._pump if self.legacy else b"0"
        """Address of commands to the pump rather than to a channel."""
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(self._whole + b"#\r", lambda: self._model_text),
            unsolicited=self._take_unsolicited if self.events else None,
        )
        self._conversation.anonymous = True
        self.channels = {
            channel.point: IsmatecChannel(self, number, channel, self._pump if self.legacy else number.encode())
            for number, channel in config.channels.items()
        }
        self.actuators.update(self.channels)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        if not self.link.read_only:
            await self.address_channels()
        text = await self._conversation.ask(self._whole + b"#\r", self._model_text)
        if not text.startswith("REGLO ICC"):
            raise WrongDevice(
                f"“{text}” answers",
                where=self.config.name,
                cause="another pump hangs on this link",
                action="check the link and the model in the rig file",
            )
        if not self.link.read_only:
            await self.set(self._whole + (b"xE1" if self.events else b"xE0"))
        protocol = parse_count(await self.get(self._whole + b"x!"), self.config.name)
        for channel in self.channels.values():
            await channel.prepare()
        words = text.split()
        return Identity(model="Reglo ICC", firmware=f"{words[2] if len(words) > 2 else ''} protocol {protocol}".strip())

    async def address_channels(self) -> None:
        """Select channel addressing (or whole-pump addressing), whatever was selected before.

        A pump that lost power for a moment silently forgets it; then a start meant for one channel would turn all
        of them. So this precedes each start.
        """
        await self.set(self._pump + (b"~0" if self.legacy else b"~1"))

    async def set(self, command: bytes) -> None:
        """Send a command that is answered by one character; raise :class:`Refused` unless it is `*`."""
        answer = await self.status_of(command)
        if answer != b"*":
            raise Refused(
                f"the pump answers {answer.decode()} to {command.decode()}",
                where=self.config.name,
                cause="it cannot do this in its present mode, or does not know the value",
                action="look at the pump's display; check tubing and flow in the rig file",
            )

    async def status_of(self, command: bytes) -> bytes:
        """Send a command that is answered by one of the characters `* # + -`."""
        return await self._conversation.ask(command + b"\r", self._one_character)

    async def get(self, command: bytes) -> bytes:
        """Send a query that is answered by a line, and return that line."""
        return await self._conversation.ask(command + b"\r", self._data_line)

    # --- parsers: a status is one character without an end, data is a line that ends with CR LF ----------------

    def _one_character(self, buffer: bytearray) -> bytes | None:
        if not self._skip_events(buffer):
            return None
        character = bytes(buffer[:1])
        if character not in (b"*", b"#", b"+", b"-"):
            raise bad_reply(bytes(buffer), self.config.name, "a status character (* # + -)")
        del buffer[:1]
        return character

    def _data_line(self, buffer: bytearray) -> bytes | None:
        if not self._skip_events(buffer):
            return None
        if buffer[:1] == b"#":
            del buffer[:1]
            raise Refused(
                "the pump does not know this query",
                where=self.config.name,
                cause="an older firmware, or channel addressing is off",
                action="update the pump's firmware (protocol 2 or later is needed)",
            )
        return take_line(buffer, b"\r\n", self.config.name)

    def _model_text(self, buffer: bytearray) -> str | None:
        """Return the reply to `#`, such as `REGLO ICC 0208 306`; skip older replies before it."""
        while (line := take_line(buffer, b"\r\n", self.config.name)) is not None:
            if match := _MODEL_TEXT.search(line):
                return match[0].decode("ascii")
            self._event(line)
        return None

    # --- events: lines that start with ^, sent unsolicited while they are enabled --------------------------------

    def _skip_events(self, buffer: bytearray) -> bool:
        """Process the events before the reply; return whether anything else has arrived."""
        while buffer[:1] == b"^":
            line = take_line(buffer, b"\r\n", self.config.name)
            if line is None:
                return False
            self._event(line)
        return bool(buffer)

    def _take_unsolicited(self, buffer: bytearray) -> None:
        """Process events that arrive without a request."""
        at = buffer.find(b"^")
        del buffer[: at if at >= 0 else len(buffer)]
        with suppress(BadReply):
            self._skip_events(buffer)

    def _event(self, line: bytes) -> None:
        if match := _EVENT.search(line):
            for channel in self.channels.values():
                channel.told(match[1], match[2])


class IsmatecChannel(Actuator):
    """One channel. `Run` is covered by its lease and the guard process; the pump itself ends a `Dispense`."""

    kind = "pump"
    unit = "uL/min"
    guarantee = Guarantee.DEVICE

    def __init__(self, pump: IsmatecRegloIcc, number: str, config: ChannelConfig, address: bytes) -> None:
        self.where = f"{pump.config.name}.{config.point}"
        if number not in ("1", "2", "3", "4"):
            raise bad_setting(self.where, "channels", f"names channel “{number}”", 'use "1" to "4"')
        known_only(config.settings, self.where, pump.channel_settings)
        self._pump = pump
        self._number = address
        """Address of its commands: its own number, or in legacy addressing the pump's."""
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
        self._geared()
        self._polls = 0
        self._was_running = True
        self._total_sure = False

    def _geared(self) -> None:
        """Derive the volume per revolution and the motor's steps from the maximum flow."""
        self.revolution_ul = self._max_flow_ul_min / MAX_RPM
        self._steps = FlowSteps(self.revolution_ul * STEP_RPM, self._max_flow_ul_min)

    async def apply(self, command: Command) -> None:
        """Execute Run, Dispense or Stop; see :meth:`drivers.device.Actuator.apply`."""
        self._pump.conversation.require_verified()
        # A stop must never be executed between the settings of a start and the start itself.
        async with self._one_at_a_time:
            if isinstance(command, Run | Dispense) and command.flow_ul_min != 0.0:
                await self._pump.address_channels()
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
        if running or not self._total_sure or recheck:
            await self._read_total(running)
        flows_set = self._flows_set
        if running and (recheck or not self._was_running):
            await self._read_flow()
        self._was_running = running
        self._polls = self._polls + 1 if flows_set == self._flows_set else 0
        return PumpStatus(running, self._flow_ul_min if running else 0.0, self._total_ul, TOTAL_STEP_UL)

    async def _read_total(self, running: bool) -> None:
        """Read the pump's total."""
        before_ul = self._total_ul
        self._total_ul = 1000.0 * parse_count(await self._get(b"xG"), self.where)
        # Any digit of it may have been garbled: at rest it is read until two readings in a row agree.
        self._total_sure = not running and self._total_ul == before_ul
        if self._total_ul == 0.0 < before_ul:
            # Only a loss of power sets it back: then the stored tubing applies again, not the one that was set.
            self._pump.conversation.restarted()

    async def _read_flow(self) -> None:
        """Read flow and direction of the running channel, unless another flow is set meanwhile."""
        flows_set = self._flows_set
        flow_ul_min = 1000.0 * parse_volume_1(await self._get(b"f"), self.where)
        flow_ul_min = flow_ul_min if await self._get(b"xD") == self._forward else -flow_ul_min
        if flows_set == self._flows_set:
            self._flow_ul_min = flow_ul_min

    async def wear(self) -> PumpWear:
        """Return revolutions and running time of this channel since its counters were reset (`xC`, `xJ`)."""
        revolutions = parse_count(await self._get(b"xC"), self.where)
        run_s = parse_count(await self._get(b"xJ"), self.where) * self._pump.time_unit_s
        return PumpWear(revolutions, run_s)

    def told(self, channel: bytes, cause: bytes) -> None:
        """Process the pump's report why a channel ended (`^X`)."""
        if channel == self._channel and cause in _FAULTS:
            self._fault = _FAULTS[cause]

    # --- calibration: for a tool at the bench with an operator; the controller never calls these ----------------

    async def calibrate(self, volume_ul: float, seconds: float) -> None:
        """Pump the nominal volume `volume_ul` (µL) in `seconds` (s); it stops by itself. Then weigh the result.

        Follow it with :meth:`calibrated` or :meth:`cancel_calibration`.

        Raises:
            Refused: The channel runs, or cannot pump so fast.
        """
        self._pump.conversation.require_verified()
        async with self._one_at_a_time:
            self._check_flow(volume_ul / seconds * 60.0)
            if await self._running():
                raise self._refusal("it is still running", "stop it first")
            await self._set(b"xR" + self._forward)
            await self._set_volume(b"xU", volume_ul)
            await self._set_time(b"xW", seconds)
            self._polls = 0
            await on_or_off(self._set(b"xY"), self._cancel_calibration)

    async def calibrated(self, measured_ul: float) -> float:
        """Enter the volume that :meth:`calibrate` really moved (µL); return the resulting maximum flow (µL/min)."""
        self._pump.conversation.require_verified()
        async with self._one_at_a_time:
            if await self._running():
                raise self._refusal("the calibration still runs", "wait until it has ended")
            target_ul = 1000.0 * parse_volume_1(await self._get(b"xU"), self.where)
            before_ul_min = self._max_flow_ul_min
            await self._set_volume(b"xV", measured_ul)
            self._max_flow_ul_min = parse_flow_ul_min(await self._get(b"!"), self.where)
            self._geared()
            expected_ul_min = before_ul_min * measured_ul / target_ul
            if abs(self._max_flow_ul_min - expected_ul_min) > 0.02 * expected_ul_min:
                raise self._refusal(
                    f"it now believes in {self._max_flow_ul_min:g} µL/min where {expected_ul_min:g} was to come",
                    "run a calibration first; if one was run, repeat it",
                )
            return self._max_flow_ul_min

    async def cancel_calibration(self) -> None:
        """Cancel a calibration that runs or waits for the measured volume."""
        self._pump.conversation.require_verified()
        async with self._one_at_a_time:
            await self._cancel_calibration()

    async def _cancel_calibration(self) -> None:
        await self._set(b"xZ")
        await self._stop()

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
                cause="somebody restarted it at the pump, or its electronics failed",
                action="switch the pump off by hand",
            )

    async def _run(self, flow_ul_min: float) -> None:
        self._check_flow(abs(flow_ul_min))
        if (coarse := self._steps.too_coarse(flow_ul_min)) is not None:
            raise self._refusal(*coarse)
        direction = self._forward if flow_ul_min > 0 else _opposite(self._forward)
        self._polls = 0
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
        if self._pump.doses_over_time:
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
        await self._set_time(b"xT", dose.volume_ul / dose.flow_ul_min * 60.0)
        if await self._pump.status_of(self._number + b"G") != b"*":
            raise self._refusal(*why_not_started(await self._get(b"xe")))

    async def _start(self, dose_id: str | None = None) -> None:
        self._fault = ""
        answer = await self._pump.status_of(self._number + b"H")
        if answer == b"*":
            return
        if answer not in (b"-", b"#"):  # one wrong bit turns * into +: it may turn
            self._pump.conversation.doubt()
            raise bad_reply(answer, self.where, "* (started), - or # (not started)")
        if dose_id is not None:
            self._doses.not_begun(dose_id)
        raise self._refusal(*why_not_started(await self._get(b"xe")))

    async def _set_volume(self, name: bytes, value_ul: float) -> None:
        """Set a flow (`f`) or a volume (`v`, `xU`, `xV`) and compare the pump's echo: it may have limited the
        value.
        """
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

    async def _set_time(self, name: bytes, seconds: float) -> None:
        """Set a time (`xT`, `xW`) and read it back."""
        unit_s = self._pump.time_unit_s
        units = round(seconds / unit_s)
        if abs(units * unit_s - seconds) > TIME_TOLERANCE * seconds:
            raise self._refusal(f"{seconds:g} s cannot be told in steps of {unit_s:g} s", "give more at a time")
        await self._set(name + time_2(seconds, unit_s))
        taken = parse_count(await self._get(name), self.where)
        if taken != units:
            raise self._refusal(
                f"the pump took {taken * unit_s:g} s instead of {seconds:g} s", "ask for a shorter time"
            )

    def _check_flow(self, flow_ul_min: float) -> None:
        if not LEAST_FLOW_UL_MIN <= flow_ul_min <= self._max_flow_ul_min:
            raise self._refusal(
                f"{flow_ul_min:g} µL/min cannot be pumped; the tubing carries {self._max_flow_ul_min:g}",
                "ask for less, or fit wider tubing and enter it in the rig file",
            )

    # --- requests -----------------------------------------------------------------------------------------

    async def _running(self) -> bool:
        answer = await self._pump.status_of(self._number + b"E")
        if answer not in (b"+", b"-"):
            raise bad_reply(answer, self.where, "+ (running) or - (stopped)")
        return answer == b"+"

    async def _set(self, command: bytes) -> None:
        await self._pump.set(self._number + command)

    async def _get(self, query: bytes) -> bytes:
        return await self._pump.get(self._number + query)

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


def _legacy(config: DeviceConfig) -> bool:
    legacy = ADDRESSING.of(config.settings, config.name) == "legacy"
    if legacy and len(config.channels) > 1:
        raise bad_setting(
            config.name,
            "addressing",
            "is legacy, which turns all channels together, but several are named",
            "name only the channel that carries tubing, or choose channels",
        )
    return legacy


def _pump_address(config: DeviceConfig) -> bytes:
    address = config.address or "1"
    if address not in tuple("12345678"):
        raise bad_setting(config.name, "address", f"is “{address}”", 'write the pump address, "1" to "8"')
    return address.encode()
