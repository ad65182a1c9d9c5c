"""The common part of Atlas Scientific EZO circuits over UART: lines, response codes, sleep, continuous reports.

Sources: the EZO data sheets (UART mode, response codes) and captures of firmware 1.06 of the EZO-PMP. A request and
every line of an answer end with CR; data come first, then `*OK` where response codes are on. Case does not matter.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import AsciiDevice
from sim.devices.port import PlantPort
from sim.devices.wire import QUEUE_S

WAKE_S = 0.030
"""What arrives while a sleeping circuit wakes up is lost."""
BAUD_RATES = ("300", "1200", "2400", "9600", "19200", "38400", "57600", "115200")

REFUSED = ["*ER"]


class EzoUart(AsciiDevice):
    """Base of all EZO circuits. Subclasses implement :meth:`own_command` and :meth:`reading`."""

    kind = ""
    """The circuit's name in the answer to `i`."""
    firmware = ""
    supply_v = 5.038
    measure_s = 0.9
    """How long a single reading takes."""
    think_s = 0.020

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.response_codes = True
        self.period_s = 0.0
        """Seconds between continuous reports; 0 is off."""
        self.asleep = False
        self.label = ""
        self.locked = False
        self.restart_code = "P"
        self._reporting: asyncio.TimerHandle | None = None
        self._awake_s = 0.0
        self._measuring_s = 0.0

    # --- power ------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        self.asleep = False
        self._awake_s = self._measuring_s = 0.0
        self.forget_input()
        self.say("*RS", "*RE", unsolicited=True)
        self.report_every(1.0)

    def _halt(self) -> None:
        self.report_every(0.0)
        self.restart_code = "P"

    # --- talk -------------------------------------------------------------------------------------------

    def say(self, *lines: str, after_s: float | None = None, unsolicited: bool = False) -> None:
        """Send lines, each ended by CR."""
        text = "".join(f"{line}\r" for line in lines)
        self.send(text.encode("ascii"), after_s=after_s, unsolicited=unsolicited)

    def receive(self, data: bytes) -> None:
        """Receive bytes. Any byte wakes a sleeping circuit and is lost; a chunk may go on after the command to sleep."""
        while data:
            line_end = data.find(self.end) + 1 or len(data)
            piece, data = data[:line_end], data[line_end:]
            if self.asleep:
                self.asleep = False
                self._awake_s = self.loop.time() + WAKE_S
                self.say("*WA", after_s=WAKE_S, unsolicited=True)
            elif self.loop.time() >= self._awake_s:
                super().receive(piece)

    def bad_line(self) -> None:
        """See :meth:`AsciiDevice.bad_line`."""
        self.say("*ER")

    def command(self, text: str) -> None:
        """See :meth:`AsciiDevice.command`."""
        words = text.strip().lower().split(",")
        match words:
            case ["r"]:
                self._measure()
            case ["sleep"]:
                self.answer([])
                self.say("*SL")
                self.sleep()
            case ["factory"]:
                self.answer([])
                self.factory()
                self.restart_code = "S"
                self._boot()
            case ["name", label] if label != "?":
                self.answer(self._set_name(text.strip()[5:]))
            case _:
                reply = self.own_command(words)
                self.answer(self._common_command(words) if reply is None else reply)

    def _measure(self) -> None:
        """Measure one reading after the other; drop requests beyond the input buffer."""
        now = self.loop.time()
        begins_s = max(now, self._measuring_s)
        if begins_s < now + QUEUE_S:
            self._measuring_s = begins_s + self.measure_s
            self.answer([self.reading()], after_s=self._measuring_s - now)

    def answer(self, lines: list[str], *, after_s: float | None = None) -> None:
        """Send data lines and, where response codes are on, `*OK`; lines that end in a code of their own stay alone."""
        if self.response_codes and not (lines and lines[-1].startswith(("*ER", "*DONE"))):
            lines = [*lines, "*OK"]
        if lines:
            self.say(*lines, after_s=after_s)

    def sleep(self) -> None:
        """Stop everything until a byte arrives."""
        self.report_every(0.0)
        self.asleep = True

    # --- continuous reports -----------------------------------------------------------------------------

    def report_every(self, period_s: float) -> None:
        """Report every `period_s` seconds from now; 0 ends it."""
        if self._reporting is not None:
            self._reporting.cancel()
            self._reporting = None
        self.period_s = period_s
        if period_s:
            self._reporting = self.loop.call_later(period_s, self._report)

    def _report(self) -> None:
        if self.reports_now() and self.line is not None and self.line.clients:
            self.say(self.reading(), after_s=0.0, unsolicited=True)
        self._reporting = self.loop.call_later(self.period_s, self._report)

    def reports_now(self) -> bool:
        """Return whether a continuous report may be sent now."""
        return True

    # --- commands ---------------------------------------------------------------------------------------

    @abstractmethod
    def reading(self) -> str:
        """Return the reading as the circuit prints it."""

    @abstractmethod
    def own_command(self, words: list[str]) -> list[str] | None:
        """Return the answer to a command of this kind of circuit (lower case, split at commas); None for any other."""

    def factory(self) -> None:
        """Return to the factory's settings."""
        self.response_codes = True
        self.label = ""
        self.locked = False

    def _common_command(self, words: list[str]) -> list[str]:
        match words:
            case [name] | [name, "?"] if (answer := self._tell(name, "?" in words)) is not None:
                return [answer]
            case ["*ok", "0" | "1" as wanted]:
                self.response_codes = wanted == "1"
            case ["c", seconds] if seconds.isdecimal() and seconds.isascii() and int(seconds) <= 99:
                self.report_every(float(int(seconds)))
            case ["l", "0" | "1"] | ["find"]:
                pass
            case ["plock", "0" | "1" as wanted]:
                self.locked = wanted == "1"
            case ["baud", rate] if rate in BAUD_RATES and self.line is not None:
                self.line.set_baud(int(rate))
            case _:
                return REFUSED
        return []

    def _tell(self, name: str, asked: bool) -> str | None:
        """Return the answer to a question, with or without a question mark; None when it is not a question."""
        if not asked:
            return {
                "i": f"?I,{self.kind},{self.firmware}",
                "status": f"?STATUS,{self.restart_code},{self.supply_v:g}",
            }.get(name)
        return {
            "*ok": f"?*OK,{int(self.response_codes)}",
            "c": f"?C,{self.period_s:.0f}",
            "l": "?L,1",
            "name": f"?NAME,{self.label}",
            "plock": f"?PLOCK,{int(self.locked)}",
            "baud": f"?BAUD,{self.line.baud if self.line else self.baud}",
        }.get(name)

    def _set_name(self, label: str) -> list[str]:
        if len(label) > 16 or not label.replace("_", "").isalnum():
            return REFUSED
        self.label = label
        return []
