"""Ismatec Reglo Digital and IPC, peristaltic pumps with one motor (IPC manual 14-013 Rev. D pp. 36-41; Reglo
Digital operating manual p. 31; REGLO-CPF p. 36).

Both use one dialect and differ in how the speed is set: the Reglo Digital takes a flow (`f`), the IPC a percentage
of its maximum speed (`S`). A continuous flow runs in mode `M` or `L`, a dose in mode `O`: the pump itself stops
when the volume is delivered. Neither reports direction or mode; both are set before every start.
"""

from __future__ import annotations

import math
import re

from drivers.commands import Guarantee, PumpStatus
from drivers.device import Device, DeviceConfig, DeviceModel, Dosing, Identity, Page
from drivers.errors import DeviceFault, Refused, WrongDevice
from drivers.flow_steps import FlowSteps
from drivers.ismatec_formats import TUBING, TUBING_MM, parse_flow_ul_min, parse_volume_1, tubing_2, volume_2
from drivers.rotary_pump import DIRECTION, RotaryPump
from drivers.settings import ChoiceSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.replies import bad_reply, take_line
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.6
ECHO_TOLERANCE = 0.01
STEP_PERCENT = 0.1
MIN_FLOW_UL_MIN = 0.1
MAX_RPM, IPC_MAX_RPM = 100.0, 45.0
"""Motor speed at the maximum flow that the pump reports, by the manufacturers' data sheets."""
MAX_COUNTS = 99_999
"""A dose is five digits, with the decimals that `[` reports."""

_MODEL_TEXT = re.compile(rb"[A-Z][A-Za-z0-9 /-]{1,30} \d{3,4}")
_TUBING = re.compile(rb"(\d{1,2}\.\d{1,2}) mm")
_TOTAL = re.compile(rb" ?(\d{1,5})(?:\.(\d{1,4}))? ?(ul|ml|l)", re.IGNORECASE)
_PERCENT = re.compile(rb" ?(\d{1,3}(?:\.\d{1,2})?)")
_DECIMALS = re.compile(rb"[0-4]")
_UNIT_UL = {b"ul": 1.0, b"ml": 1000.0, b"l": 1_000_000.0}

VARIANT = ChoiceSetting(
    key="variant",
    meaning="how the speed is set, as a flow or in percent",
    among=("reglo-digital", "ipc"),
    default="reglo-digital",
)
MANTISSA = ChoiceSetting(
    key="mantissa",
    meaning="how a Reglo Digital reads the flow 1200-2, as 0.012 or as 12 mL/min",
    among=("decimal", "whole"),
    default="decimal",
)


class IsmatecRegloDigital(Device):
    """One Reglo Digital or IPC; its only point is `pump`."""

    model = DeviceModel(
        id="ismatec-reglo-digital",
        vendor="Ismatec",
        name="Reglo Digital, IPC",
        kind="pump",
        transports=("serial", "tcp", "sim"),
        capabilities=("run", "dispense", "total", "reverse"),
        guarantee=Guarantee.DEVICE,
        manual="IPC 14-013 Rev. D pp. 36–41; REGLO Digital p. 31; REGLO-CPF p. 36",
        dosing=Dosing(rel_sd=0.08, dose_sd_ul=10.0, min_ul=50.0),
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb"[0-9][#+!\[fE:(VTU]\r")
    settings = (VARIANT, TUBING, DIRECTION, MANTISSA)
    page = Page(
        wiring="RS-232, 9-pin socket RS232 IN; up to eight pumps are chained from OUT to IN, each with an address of its"
        " own set by `@`. 9600 8N1, no flow control; an IPC may also be set to 1200.",
        address="pump address, 1 to 8 (default 1)",
        commands=(
            ("a#", "identification; barrier", "14-013 pp. 36–41"),
            ("aI, aH, aE", "stop, start, does it run", "14-013 pp. 36–41"),
            ("aJ, aK", "direction, clockwise and counter-clockwise", "14-013 pp. 36–41"),
            ("aM, aL, aO", "modes: flow, speed, dose by volume", "14-013 pp. 36–41"),
            ("af, afmmmmse", "flow (Reglo Digital), mL/min; read again while it runs", "as open clients use it"),
            ("aS, aS00603", "speed (IPC), 60.3 % of the maximum; read again while it runs", "14-013 pp. 36–41"),
            ("a[, a[02500", "decimals of a dose, and the dose with that many", "14-013 pp. 36–41"),
            ("a+, a+0317", "tubing, 1/100 mm; written only when it differs, at rest", "14-013 pp. 36–41"),
            ("a!", "maximum flow with this tubing, as calibrated", "14-013 pp. 36–41"),
            ("a:", "total volume; never reset by this driver", "14-013 pp. 36–41"),
            ("a-", "end an overload, before a stop only", "REGLO-CPF p. 36"),
            ("aV, aVM, aVH", "time of a dose, 0.1 s, min or h; only by `choroid device talk`", "14-013 p. 39"),
            ("aT, aTM, aTH", "pause time, 0.1 s, min or h; only by `choroid device talk`", "14-013 p. 40"),
            ("aU", "roller steps of a dose; only by `choroid device talk`", "14-013 p. 39"),
        ),
        traps=(
            "In overload the pump answers every command with #: reported as a fault. A stop ends the overload (`-`) and"
            " stops at once after that; whether a pump starts by itself when the overload ends is not documented.",
            "Direction and mode cannot be read: a change at the keys goes unnoticed until the next start.",
            "`[` without an argument queries the decimals, with five digits it sets the dose: a lost digit would be another"
            " question, so the reply must be `*`.",
            "For about 5 s after power-on (IPC: 3 s) the pump does not answer.",
            "The speed of an IPC goes in steps of 0.1 % of its maximum. A flow that this would change by more than 2 % is"
            " refused; a circulation pump gets the nearest step.",
            "The total has four digits and becomes coarser as it grows; whether it counts backwards in reverse is"
            " not documented.",
            "The flow of a Reglo Digital (`f`) is known from open clients, not from its manual, and they disagree by a factor"
            " of a thousand: as the ICC documents it, 1200E-2 is 0.012 mL/min; one client in real use takes it for"
            " 12. Before tissue depends on it, set a flow, compare it with the pump's display, and set `mantissa`.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.address = _address(config)
        self.percent = VARIANT.of(config.settings, config.name) == "ipc"
        mantissa = MANTISSA.of(config.settings, config.name)
        self.count_ml_min = 1000.0 if mantissa == "whole" else 1.0
        """Factor between a flow and its text read as the ICC's manual defines it."""
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(self.address + b"#\r", lambda: self._model_text),
        )
        self._conversation.anonymous = True
        self.pump = DigitalPump(self)
        self.actuators["pump"] = self.pump
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        text = await self._conversation.ask(self.address + b"#\r", self._model_text)
        name, _, firmware = text.rpartition(" ")
        right = name.startswith("IPC") if self.percent else name.startswith("REGLO") and "ICC" not in name
        if not right:
            raise WrongDevice(
                f"“{text}” answers",
                where=self.config.name,
                cause="another pump hangs on this link, or variant in the rig file is the other one",
                action="check the link, the model and its variant in the rig file",
            )
        await self.pump.prepare()
        return Identity(model=name, firmware=firmware)

    async def set(self, command: bytes) -> None:
        """Send a command that is answered by one character; raise :class:`Refused` unless it is `*`."""
        answer = await self.status_of(command)
        if answer == b"#":
            raise Refused(
                f"the pump answers # to {command.decode()}",
                where=self.config.name,
                cause="it is overloaded (then it answers so to everything), or it does not know the value",
                action="look at its display; free the pump head and stop the pump, which ends the overload",
            )
        if answer != b"*":
            raise bad_reply(answer, self.config.name, f"* or # to {command.decode()}")

    async def status_of(self, command: bytes) -> bytes:
        """Send a command that is answered by one of the characters `* # + -`."""
        return await self._conversation.ask(self.address + command + b"\r", self._one_character)

    async def get(self, query: bytes) -> bytes:
        """Send a query that is answered by a line, and return that line."""
        return await self._conversation.ask(self.address + query + b"\r", self._data_line)

    async def match(self, query: bytes, pattern: re.Pattern[bytes], wanted: str) -> re.Match[bytes]:
        """Send `query` and return its answer, which must match `pattern` completely; else raise :class:`BadReply`."""
        line = await self.get(query)
        match = pattern.fullmatch(line)
        if match is None:
            self._conversation.doubt()
            raise bad_reply(line, self.config.name, wanted)
        return match

    # --- parsers: a status is one character without an end, data is a line that ends with CR LF ----------------

    def _one_character(self, buffer: bytearray) -> bytes | None:
        if not buffer:
            return None
        character = bytes(buffer[:1])
        if character not in (b"*", b"#", b"+", b"-") or len(buffer) > 1:
            raise bad_reply(bytes(buffer), self.config.name, "a status character (* # + -)")
        del buffer[:1]
        return character

    def _data_line(self, buffer: bytearray) -> bytes | None:
        if buffer[:1] == b"#":
            del buffer[:1]
            raise self.overloaded()
        return take_line(buffer, b"\r\n", self.config.name)

    def _model_text(self, buffer: bytearray) -> str | None:
        """Return the reply to `#`, such as `IPC 403`; skip older replies before it."""
        while (line := take_line(buffer, b"\r\n", self.config.name)) is not None:
            if match := _MODEL_TEXT.fullmatch(line.lstrip(b"*#+-")):
                return match[0].decode("ascii")
        return None

    def overloaded(self) -> DeviceFault:
        """Return the fault that # in answer to a query means."""
        return DeviceFault(
            "the pump answers # to a plain question: it is overloaded",
            where=self.config.name,
            cause="the pump head is blocked or the tubing bed is pressed too hard",
            action="free the pump head, then stop the pump: that ends the overload",
        )


class DigitalPump(RotaryPump):
    """The motor of a Reglo Digital or IPC."""

    def __init__(self, device: IsmatecRegloDigital) -> None:
        super().__init__(f"{device.config.name}.pump", device.conversation)
        self._device = device
        settings, where = device.config.settings, device.config.name
        ways = b"JK" if DIRECTION.of(settings, where) == "cw" else b"KJ"
        self._ahead, self._back = ways[:1], ways[1:]
        self._tubing_mm = _tubing_mm(device.config)
        self._decimals = 2
        self._flow_ul_min = 0.0
        self._flows_set = 0
        self._continuous = False
        """Whether this process started the running flow, continuous and in the direction of `_flow_ul_min`."""

    async def prepare(self) -> None:
        """Set the tubing of the rig file; read the maximum flow and the decimals of a dose. Part of verification."""
        if self._tubing_mm is not None:
            told = float((await self._device.match(b"+", _TUBING, "a tubing diameter such as 1.6 mm"))[1])
            if abs(told - self._tubing_mm) > 0.0501:  # some report one decimal
                try:
                    await self._device.set(b"+" + tubing_2(self._tubing_mm))
                except Refused:
                    # It runs with the wrong tubing, so its flow differs from the reported one; the requester starts
                    # it again.
                    await self._stop()
                    await self._device.set(b"+" + tubing_2(self._tubing_mm))
        self._max_flow_ul_min = parse_flow_ul_min((await self._device.get(b"!")).strip(), self.where)
        self.revolution_ul = self._max_flow_ul_min / (IPC_MAX_RPM if self._device.percent else MAX_RPM)
        self._min_flow_ul_min = MIN_FLOW_UL_MIN
        if self._device.percent:
            self._min_flow_ul_min = self._max_flow_ul_min * STEP_PERCENT / 100.0
            self._steps = FlowSteps(self._min_flow_ul_min, self._max_flow_ul_min)
        self._decimals = int((await self._device.match(b"[", _DECIMALS, "a number of decimals"))[0])
        self._continuous = False
        self._flow_ul_min = math.copysign(await self._flow(), self._flow_ul_min)

    async def status(self) -> PumpStatus:
        """Return running state, flow, and the pump's own total (µL, in steps of its format).

        The flow of a running pump is read each time, since another master may have changed it. The direction is that of
        the last start: the pump does not report it.
        """
        running = await self._running()
        if running:
            told = self._flows_set
            flow_ul_min = await self._flow()
            if told == self._flows_set:  # otherwise another flow was set meanwhile
                self._flow_ul_min = math.copysign(flow_ul_min, self._flow_ul_min)
        total = await self._device.match(b":", _TOTAL, "a volume such as 4.983 ml")
        unit_ul = _UNIT_UL[total[3].lower()]
        decimals = total[2] or b""
        total_ul = unit_ul * float(total[1] + b"." + (decimals or b"0"))
        return PumpStatus(running, self._flow_ul_min if running else 0.0, total_ul, unit_ul * 10.0 ** -len(decimals))

    # --- hooks ----------------------------------------------------------------------------------------------

    async def _running(self) -> bool:
        answer = await self._device.status_of(b"E")
        if answer == b"#":
            raise self._device.overloaded()
        if answer not in (b"+", b"-"):
            self._conversation.doubt()
            raise bad_reply(answer, self.where, "+ (running) or - (stopped)")
        return answer == b"+"

    async def _halt(self) -> None:
        self._continuous = False
        if await self._device.status_of(b"I") == b"#":
            await self._device.set(b"-")  # overloaded: it accepts nothing else
            await self._device.set(b"I")

    async def _aim(self, flow_ul_min: float, volume_ul: float | None) -> None:
        self._continuous = False
        if volume_ul is None:
            await self._device.set(b"L" if self._device.percent else b"M")
        else:
            counts = round(volume_ul / 1000.0 * 10**self._decimals)
            self._check_dose(volume_ul, counts * 1000.0 / 10**self._decimals)
            if counts > MAX_COUNTS:
                raise self._refusal(f"{volume_ul:g} µL cannot be given at once", "give less at a time")
            await self._device.set(b"O")
            await self._device.set(b"[%05d" % counts)
        await self._device.set(self._ahead if flow_ul_min > 0 else self._back)
        await self._set_flow(flow_ul_min)

    async def _go(self, dose: bool) -> None:
        answer = await self._device.status_of(b"H")
        if answer in (b"-", b"#"):
            raise self._refusal(
                f"it will not start (it answers {answer.decode()})", "look at the pump's display; free its head"
            )
        if answer != b"*":  # one wrong bit turns * into +: it may turn
            self._conversation.doubt()
            raise bad_reply(answer, self.where, "* (started), - or # (not started)")
        self._continuous = not dose

    async def _retune(self, flow_ul_min: float) -> bool:
        if not self._continuous or (flow_ul_min > 0) != (self._flow_ul_min > 0):
            return False
        await self._set_flow(flow_ul_min)
        return True

    # --- speed ----------------------------------------------------------------------------------------------

    async def _set_flow(self, flow_ul_min: float) -> None:
        """Set the speed and read it back: the pump rounds it, and may have limited it."""
        wanted = abs(flow_ul_min)
        if self._device.percent:
            tenths = max(1, round(1000.0 * wanted / self._max_flow_ul_min))
            await self._device.set(b"S%05d" % tenths)
            wanted = tenths / 1000.0 * self._max_flow_ul_min
        else:
            await self._device.get(b"f" + volume_2(wanted / 1000.0 / self._device.count_ml_min))
        taken = await self._flow()
        if abs(taken - wanted) > ECHO_TOLERANCE * wanted:
            raise self._refusal(
                f"the pump took {taken:g} instead of {wanted:g} µL/min",
                f"stay below the tubing's {self._max_flow_ul_min:g} µL/min, or fit wider tubing",
            )
        self._flow_ul_min = math.copysign(taken, flow_ul_min)
        self._flows_set += 1

    async def _flow(self) -> float:
        """Return the flow that is set (µL/min)."""
        if not self._device.percent:
            told_ml_min = parse_volume_1(await self._device.get(b"f"), self.where)
            return 1000.0 * told_ml_min * self._device.count_ml_min
        percent = float((await self._device.match(b"S", _PERCENT, "a speed such as 53.2"))[1])
        return percent / 100.0 * self._max_flow_ul_min


def _tubing_mm(config: DeviceConfig) -> float | None:
    wanted = TUBING.optional(config.settings, config.name)
    if wanted is not None and all(abs(wanted - known) > 0.0051 for known in TUBING_MM):
        sizes = ", ".join(f"{known:.2f}" for known in TUBING_MM)
        raise bad_setting(
            config.name, "tubing_mm", f"is {wanted:g} mm, which is no tubing of the maker's", f"choose {sizes} mm"
        )
    return wanted


def _address(config: DeviceConfig) -> bytes:
    address = config.address or "1"
    if address not in tuple("12345678"):
        raise bad_setting(config.name, "address", f"is “{address}”", 'write the pump address, "1" to "8"')
    return address.encode()
