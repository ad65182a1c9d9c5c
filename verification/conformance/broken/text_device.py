"""A small device that speaks text, its sound driver and their bench: the ground on which text drivers are broken.

The device is a pump with a thermometer. Requests begin with its address and end with a carriage return:

====================  =======================  ==========================================
request               reply                    meaning
====================  =======================  ==========================================
``1ID``               ``1ID=TEXT1``            model
``1U=C``              ``1OK U=C``              temperatures in °C (or °F: ``F``)
``1T``                ``1T=+036.52``           temperature
``1GO +0500.0``       ``1OK GO +0500.0``       pump without end (µL/min)
``1DOSE 00250 0500``  ``1OK DOSE 00250 0500``  pump a volume (µL) at a flow (µL/min), then stop
``1STOP``             ``1OK STOP``             stop
``1ST``               ``1ST=1,+0500.0,0120.5`` running, flow (µL/min), moved since power came (µL)
``1SAVE``             ``1OK SAVE``             keep the settings in its memory
====================  =======================  ==========================================
"""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar

from drivers.commands import Command, Dispense, Guarantee, PumpStatus, Run, Stop
from drivers.conformance.bench import Bench, Sense
from drivers.conformance.far_end import FarEndTroubles, ScriptedEnd
from drivers.device import Actuator, Device, DeviceConfig, DeviceModel, Identity, Sensor, on_or_off, refuse
from drivers.doses import DoseBook
from drivers.errors import DeviceFault, LinkDown, Refused, WrongDevice
from drivers.settings import known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.replies import line_matching
from drivers.transport.url import LineSettings

MAX_UL_MIN = 5000.0
MAX_DOSE_UL = 50_000.0


class TextEnd:
    """The device."""

    def __init__(self, address: str, model: str = "TEXT1") -> None:
        self.address, self.model = address, model
        self.celsius = 0.0
        self.unit = "F"
        self.flow = 0.0
        self.moved_ul = self.since_s = self.powered_ul = 0.0
        self.saves = 0
        self._timer: asyncio.TimerHandle | None = None

    def end(self) -> ScriptedEnd:
        """Return the device as the far end of a bench."""
        return ScriptedEnd(
            self.answer,
            outputs=lambda: {"pump": self.flow},
            delivered=lambda: {"pump": self.move(self.flow)},
            measure=self._measure,
            troubles=FarEndTroubles(misset=self._misset),
            power_cycle=self._power_cycle,
            memory_writes=lambda: self.saves,
        )

    def answer(self, request: bytes) -> bytes | None:
        """Return the answer; nothing to a request for another address."""
        line = request.decode("latin-1").rstrip("\r")
        if not line.startswith(self.address):
            return None
        said = self._answer(line[len(self.address) :])
        return f"{self.address}{said}\r".encode()

    def move(self, flow: float) -> float:
        """Pump `flow` (µL/min) from now on; return the volume moved so far in both directions (µL)."""
        now_s = asyncio.get_running_loop().time()
        self.moved_ul += abs(self.flow) * (now_s - self.since_s) / 60.0
        if self._timer is not None and flow != self.flow:
            self._timer.cancel()
            self._timer = None
        self.flow, self.since_s = flow, now_s
        return self.moved_ul

    def _answer(self, line: str) -> str:
        if line == "ID":
            return f"ID={self.model}"
        if line == "T":
            return f"T={self.celsius if self.unit == 'C' else 1.8 * self.celsius + 32.0:+07.2f}"
        if line == "ST":
            moved_ul = self.move(self.flow) - self.powered_ul
            return f"ST={self.flow != 0.0:d},{self.flow:+07.1f},{moved_ul:06.1f}"
        return f"OK {line}" if self._obey(line) else "ERR"

    def _obey(self, line: str) -> bool:
        """Execute a command; return whether there is such a command."""
        if line in ("U=C", "U=F"):
            self.unit = line[-1]
        elif line == "STOP":
            self.move(0.0)
        elif line == "SAVE":
            self.saves += 1
        elif (match := re.fullmatch(r"GO ([+-]\d{4}\.\d)", line)) and abs(float(match[1])) <= MAX_UL_MIN:
            self.move(float(match[1]))
        elif (match := re.fullmatch(r"DOSE (\d{5}) (\d{4})", line)) and 0.0 < float(match[2]) <= MAX_UL_MIN:
            self._dose(float(match[1]), float(match[2]))
        else:
            return False
        return True

    def _dose(self, volume_ul: float, flow_ul_min: float) -> None:
        """Pump a volume. Doses add up: a dose that is commanded during another follows it."""
        now_s = asyncio.get_running_loop().time()
        begin_s = now_s if self._timer is None else max(now_s, self._timer.when())
        if self._timer is not None:
            self._timer.cancel()
        self.move(flow_ul_min)
        end_s = begin_s + 60.0 * volume_ul / flow_ul_min
        self._timer = asyncio.get_running_loop().call_at(end_s, self.move, 0.0)

    def _measure(self, point: str, value: float) -> None:
        self.celsius = value

    def _misset(self) -> bool:
        self.unit = "F"
        return True

    def _power_cycle(self) -> None:
        self.powered_ul = self.move(0.0)
        self.unit = "F"


class TextDriver(Device):
    """The sound driver. Broken ones override its methods and class attributes."""

    model = DeviceModel(
        id="broken-text",
        vendor="Choroid",
        name="a pump that speaks text",
        kind="pump",
        transports=("serial",),
        capabilities=("run", "dispense", "reverse", "read"),
        guarantee=Guarantee.DEVICE,
        manual="the docstring of its module",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    late_s: ClassVar[float] = 1.0
    fenced: ClassVar[bool] = True
    _temperature: ClassVar[re.Pattern[bytes]] = re.compile(rb"T=([+-]\d{3}\.\d{2})")
    _status: ClassVar[re.Pattern[bytes]] = re.compile(rb"ST=([01]),([+-]\d{4}\.\d),(\d{4,9}\.\d)")

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        fence = SyncQuery(self.frame(b"ID"), lambda: self.parser(re.compile(rb"ID=(\w{1,9})")))
        self._conversation = Conversation(
            link, config.name, timeout_s=0.3, barrier=fence if self.fenced else None, late_s=self.late_s
        )
        self.pump = TextPump(self)
        self.sensors["temperature"] = TextTemperature(self)
        self.actuators["pump"] = self.pump
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """See :class:`Device`."""
        return self._conversation

    def frame(self, request: bytes) -> bytes:
        """Return `request` as it is sent."""
        return self.config.address.encode() + request + b"\r"

    def parser(self, pattern: re.Pattern[bytes]) -> Parser[re.Match[bytes]]:
        """Return a parser of the complete answer line, from this address."""
        return line_matching(
            re.compile(re.escape(self.config.address.encode()) + pattern.pattern), b"\r", self.config.name
        )

    async def ask(self, request: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """Send a query and return the answer."""
        return await self._conversation.ask(self.frame(request), self.parser(pattern))

    async def command(self, request: bytes) -> None:
        """Send a command and verify the echo after OK."""
        answer = await self.ask(request, re.compile(rb"(OK " + re.escape(request) + rb"|ERR)"))
        if answer[1] == b"ERR":
            raise self.refusal(f"it refuses {request.decode()}")

    async def _identify(self) -> Identity:
        told = (await self.ask(b"ID", re.compile(rb"ID=(\w{1,9})")))[1]
        if told != b"TEXT1":
            raise WrongDevice(
                f"a {told.decode()} answers", where=self.config.name, cause="another device", action="check the link"
            )
        await self.prepare()
        return Identity(model="TEXT1")

    async def prepare(self) -> None:
        """Set what the device forgets without power."""
        await self.command(b"U=C")

    async def temperature(self) -> float:
        """Return the reading (°C)."""
        return float((await self.ask(b"T", self._temperature))[1])

    async def start(self, request: bytes) -> None:
        """Turn the pump on with `request`, or leave it off."""
        await on_or_off(self.command(request), self.pump.stop)

    def flow(self, flow_ul_min: float) -> bytes:
        """Return a flow as it is sent."""
        return b"%+07.1f" % flow_ul_min

    def refusal(self, what: str) -> Refused:
        """Return the error for an unsupported request."""
        return Refused(what, where=self.config.name, cause="out of its range", action="ask for what it can do")


class TextTemperature(Sensor):
    """The thermometer; it trusts its unit until the device restarts."""

    unit = "degC"

    def __init__(self, driver: TextDriver) -> None:
        self._driver = driver

    async def read(self) -> float:
        """See :class:`Sensor`."""
        return await self._driver.temperature()


class TextPump(Actuator):
    """The pump."""

    kind = "pump"
    unit = "uL/min"
    guarantee = Guarantee.DEVICE

    def __init__(self, driver: TextDriver) -> None:
        self.where = f"{driver.config.name}.pump"
        self.doses = DoseBook(self.where)
        self._driver = driver
        self._one_at_a_time = asyncio.Lock()

    def guarantee_for(self, command: Command) -> Guarantee:
        """See :class:`Actuator`."""
        return Guarantee.GUARD if isinstance(command, Run) else Guarantee.DEVICE

    async def apply(self, command: Command) -> None:
        """See :class:`Actuator`."""
        self._driver.conversation.require_verified()
        async with self._one_at_a_time:
            match command:
                case Stop() | Run(flow_ul_min=0.0):
                    await self.stop()
                case Run(flow_ul_min=flow) if 1.0 <= abs(flow) <= MAX_UL_MIN:
                    await self._driver.start(b"GO " + self._driver.flow(flow))
                case Dispense(volume_ul=volume, flow_ul_min=flow) if (
                    1.0 <= volume <= MAX_DOSE_UL and 10.0 <= flow <= MAX_UL_MIN
                ):
                    await self._dispense(command)
                case Run() | Dispense():
                    raise self._driver.refusal(f"it cannot do {command}")
                case _:
                    raise refuse(self, self.where, command)

    async def status(self) -> PumpStatus:
        """See :class:`Actuator`."""
        told = await self._driver.ask(b"ST", self._driver._status)
        return PumpStatus(told[1] == b"1", float(told[2]), float(told[3]), resolution_ul=0.1)

    async def stop(self) -> None:
        """Stop and verify it."""
        for last in (False, True):
            try:
                await self._driver.command(b"STOP")
                if (await self.status()).running:
                    raise DeviceFault("it still runs", where=self.where, cause="broken", action="switch it off")
                return
            except (LinkDown, Refused):
                raise
            except Exception:
                if last:
                    raise

    async def _dispense(self, dose: Dispense) -> None:
        if self.doses.given(dose.dose_id):
            return
        if (await self.status()).running:
            raise self._driver.refusal("it is still running")
        self.doses.begin(dose.dose_id)
        await self._driver.start(b"DOSE %05.0f %04.0f" % (dose.volume_ul, dose.flow_ul_min))
        self.doses.accept(dose.dose_id)


def text_bench(driver: type[TextDriver] = TextDriver) -> Bench:
    """Return the bench of the text device, for `driver`."""
    return Bench(
        driver=driver,
        far_end=lambda config: TextEnd(config.address).end(),
        config=DeviceConfig("text", "1"),
        other=DeviceConfig("text", "2"),
        senses={"temperature": Sense("degC", (36.5, 39.0, 0.0, -12.25, 85.0), within=0.006)},
        impostors={"TEXT2": lambda config: TextEnd(config.address, "TEXT2").end()},
    )
