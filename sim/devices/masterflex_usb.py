"""Masterflex drives of the USB generation, as the maker's own client (masterflex-serial 2.0.2) talks to them.

Address, command, CR; acknowledgements are `*`, `#` (invalid) or `~` (valid, but not in serial mode), values are lines.
The setting `bare` leaves the CR LF off the acknowledgements: the maker's client needs it, its text does not name it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import AsciiDevice
from sim.devices.bench_facts import BenchFacts
from sim.devices.ismatec_numbers import digits
from sim.devices.port import PlantPort
from sim.devices.pump_motor import PumpMotor
from sim.devices.wire import forgetting

MODEL = "MFLX-LS"
_TIME = re.compile(r"(\d{2})([0-5]\d)([0-5]\d)(\d)", re.ASCII)

_WIDTHS = {"R": 6, "S": 5, "V": 4, "VM": 3, "VH": 2, '"': 5, "RA": 2}
"""Settings by a count, with its maximum number of digits."""


class MasterflexUsb(AsciiDevice):
    """The drive. Settings: `ul_per_rev` (µL, of the fitted tubing), `max_rpm`, `bare`."""

    model_id = "masterflex-usb"
    bench = BenchFacts(settings={"ul_per_rev": 100.0, "max_rpm": 600.0}, similar=("numbered pumps",))
    baud = 115200
    think_s = 0.003

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.address = int(spec.address or "1")
        self.max_rpm = float(spec.settings.get("max_rpm", 600.0))
        self.bare = bool(spec.settings.get("bare", False))
        self.serial_mode = False
        self.rpm = self.max_rpm / 2
        self.clockwise = True
        self.timed = False
        self.on_s, self.off_s = 1.0, 1.0
        self.batches, self.done = 1, 0
        self.unit = 1
        self.memory_writes: int = 0
        self._cleared = 0.0
        self._pause: asyncio.TimerHandle | None = None
        self.motor = PumpMotor(
            ul_per_rev=float(spec.settings.get("ul_per_rev", 1000.0)),
            drive=lambda flow_ul_min: plant.set_pump(f"{name}.pump", flow_ul_min),
            loop=self.loop,
            ended=self._batch_done,
        )

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return str(self.address)

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.address = int(address)

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: address, speed, direction, times and batches."""
        return forgetting(
            self,
            {
                "address": 1,
                "rpm": self.max_rpm / 2,
                "clockwise": True,
                "timed": False,
                "on_s": 1.0,
                "off_s": 1.0,
                "batches": 1,
                "unit": 1,
            },
        )

    def _boot(self) -> None:
        self.forget_input()
        self.serial_mode = False

    def _halt(self) -> None:
        self._stop()
        self.motor.power_off()
        self._cleared = 0.0

    # --- motor ------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Return whether it pumps, or waits between two batches."""
        return self.motor.running or self._pause is not None

    def _start(self) -> None:
        if not self.running:
            self._turn()

    def _turn(self) -> None:
        self._pause = None
        rpm = self.rpm if self.clockwise else -self.rpm
        self.motor.turn(rpm, seconds=self.on_s if self.timed else None)

    def _stop(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self.motor.rest()

    def _batch_done(self) -> None:
        self.done += 1
        if self.batches == 0 or self.done < self.batches:
            self._pause = self.loop.call_later(self.off_s, self._turn)

    @property
    def turned(self) -> float:
        """Return the revolutions since the last reset."""
        return self.motor.revolutions - self._cleared

    # --- requests ---------------------------------------------------------------------------------------

    def bad_line(self) -> None:
        """Stay silent: no pump answers a request without address."""

    def command(self, text: str) -> None:
        """See :meth:`AsciiDevice.command`."""
        if match := re.fullmatch(r"@([1-8])", text, re.ASCII):
            self.address = int(match[1])
            self._acknowledge("*")
        elif text[0] == str(self.address) and len(text) > 1:
            request = text[1:]
            if request in ("RE1", "RE0"):
                self.serial_mode = request == "RE1"
                self._acknowledge("*")
            elif (value := self._value(request)) is not None:
                self._say(value) if self.serial_mode else self._acknowledge("~")
            elif not self._known(request):
                self._acknowledge("#")
            else:
                self._acknowledge("~" if not self.serial_mode else "*" if self._do(request) else "#")

    def _acknowledge(self, character: str) -> None:
        self.send(character.encode("ascii") + (b"" if self.bare else b"\r\n"))

    def _say(self, text: str) -> None:
        self.send(text.encode("ascii") + b"\r\n")

    def _value(self, request: str) -> str | None:
        """Return the answer to a question; None when it is not a question."""
        answers = {
            "RC": f"{self.address},{int(self.running)},{int(not self.clockwise)}",
            "R": f"{self.rpm:.2f}",
            "S": f"{100.0 * self.rpm / self.max_rpm:.1f}",
            "RB": f"{self.turned:.3f}",
            ":": f"{self.turned * self.motor.ul_per_rev / 1000.0:.3f} ml",
            "RA": f"{self.unit:02d}",
            "RV": _clock(self.on_s),
            "RT": _clock(self.off_s),
            "V": str(round(self.on_s * 10)),
            '"': f"{self.done}/{self.batches}",
            "#": f"{MODEL} 2",
            "(": "1.14",
            "E": "+" if self.running else "-",
        }
        return answers.get(request)

    def _known(self, request: str) -> bool:
        return re.fullmatch(r'[HIJKLNABW0*]|R"|(R[VTA]?|S|V[MH]?|")\d{2,7}', request, re.ASCII) is not None

    def _do(self, request: str) -> bool:
        """Carry out a command; return False when the pump refuses it."""
        if request in ("H", "I", "J", "K"):
            return self._move(request) if self.obeys else True
        match request:
            case "L" | "N":
                if self.running:
                    return False
                self.timed = request == "N"
            case "W":
                self._cleared = self.motor.revolutions
            case 'R"':
                self.done = 0
            case "*":
                self.memory_writes += 1
            case "A" | "B" | "0":
                pass
            case _:
                return self._set(request)
        return True

    def _move(self, request: str) -> bool:
        """Start, stop, or choose the direction."""
        if request == "H":
            self._start()
        elif request == "I":
            self._stop()
        elif self.running:
            return False
        else:
            self.clockwise = request == "J"
        return True

    def _set(self, request: str) -> bool:
        code = request.rstrip("0123456789")
        argument = request[len(code) :]
        if code in ("RV", "RT"):
            seconds = _seconds(argument)
            return seconds is not None and self._time("on_s" if code == "RV" else "off_s", seconds)
        count = digits(argument, _WIDTHS.get(code, 0))
        if code not in _WIDTHS or count is None:
            return False
        match code:
            case "R":
                return self._speed(count / 100.0)
            case "S":
                return self._speed(count / 1000.0 * self.max_rpm)
            case '"':
                self.batches = count
                return True
            case "RA":
                return self._set_unit(count)
        return self._time("on_s", {"V": count / 10.0, "VM": count * 60.0, "VH": count * 3600.0}[code])

    def _set_unit(self, unit: int) -> bool:
        if unit > 32:
            return False
        self.unit = unit
        return True

    def _time(self, name: str, seconds: float) -> bool:
        if self.running or seconds <= 0.0:
            return False
        setattr(self, name, seconds)
        return True

    def _speed(self, rpm: float) -> bool:
        if not 0.0 < rpm <= self.max_rpm:
            return False
        self.rpm = rpm
        self.motor.change(rpm if self.clockwise else -rpm)
        return True


def _clock(seconds: float) -> str:
    tenths = round(seconds * 10)
    return f"{tenths // 36_000:02d}:{tenths // 600 % 60:02d}:{tenths // 10 % 60:02d}.{tenths % 10}"


def _seconds(text: str) -> float | None:
    """Return a time such as 01:02:03.4 in seconds; None for anything else."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    h, m, s, t = (int(part) for part in match.groups())
    return h * 3600.0 + m * 60.0 + s + t / 10.0
