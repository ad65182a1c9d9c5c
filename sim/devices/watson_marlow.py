"""Watson-Marlow peristaltic pumps with the ASCII protocol (505Di p. 6, 323, 620DuN p. 82, 720DuN p. 77).

Commands are obeyed in silence; questions are answered by a text that ends with `!` (RS) or CR. What cannot be done is
ignored, without an answer too. The 323 echoes every byte that it receives unless configured otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import AsciiDevice, decimal
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.pump_motor import PumpMotor
from sim.devices.wire import forgetting

TYPES = {"323": "323Du", "505": "505Di", "520": "520Du", "530": "530Du", "620": "620Du", "720": "720Du"}
PULSES_PER_REV = {"505": 1280.0}
OTHERS_PULSES_PER_REV = 10_982.0

_REQUEST = re.compile(r"(\d{1,2}|#) ?([A-Z]{2}|W) ?(.*)", re.ASCII)
_DOSE = re.compile(r"(\d{1,8})(?:,(\d{1,4}))?", re.ASCII)

_MOVES = ("SP", "SI", "SD", "GO", "ST", "RR", "RL", "RC", "DO")
"""What moves the motor: what a pump that does not obey only acknowledges."""


class WatsonMarlow(AsciiDevice):
    """The pump. Settings: `series`, `ul_per_rev` (µL, of the fitted tubing), `max_rpm`, `pulses_per_rev`, `echo`."""

    model_id = "watson-marlow-ascii"
    bench = BenchFacts(settings={"series": "520", "max_rpm": 220.0, "ul_per_rev": 100.0}, similar=("addressed frames",))
    think_s = 0.005

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        settings = spec.settings
        series = settings.get("series", "520")
        self.series = series if isinstance(series, str) else f"{series:g}"
        self.number = int(spec.address or "1")
        self.max_rpm = float(settings.get("max_rpm", 220.0))
        self.echo = bool(settings.get("echo", self.series == "323"))
        self.pulses_per_rev = float(
            settings.get("pulses_per_rev", PULSES_PER_REV.get(self.series, OTHERS_PULSES_PER_REV))
        )
        self.local = False
        """In local mode the pump ignores all commands."""
        self.rpm = min(110.0, self.max_rpm)
        self.clockwise = True
        self.display = ""
        self.motor = PumpMotor(
            ul_per_rev=float(settings.get("ul_per_rev", 15_840.0)),
            drive=lambda flow_ul_min: plant.set_pump(f"{name}.pump", flow_ul_min),
            loop=self.loop,
        )
        self._cleared = 0.0

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return str(self.number)

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.number = int(address)

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: number, echo, speed and direction."""
        return forgetting(
            self,
            {
                "number": 1,
                "echo": self.series == "323",
                "rpm": min(110.0, self.max_rpm),
                "clockwise": True,
            },
        )

    def _boot(self) -> None:
        self.forget_input()

    def _halt(self) -> None:
        self.motor.power_off()
        self._cleared = 0.0

    @property
    def pulses(self) -> int:
        """Return the count of the tachometer."""
        return int((self.motor.revolutions - self._cleared) * self.pulses_per_rev + 1e-6)

    # --- line -------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """See :meth:`AsciiDevice.receive`; with echo on, every byte goes back first."""
        if self.echo and data:
            self.send(data, after_s=0.0)
        super().receive(data)

    def bad_line(self) -> None:
        """Ignore a bad line: the pump reports no errors."""

    def command(self, text: str) -> None:
        """See :meth:`AsciiDevice.command`."""
        match = _REQUEST.fullmatch(text)
        if match is None or self.local:
            return
        number, code, argument = match.groups()
        if number == "#":
            if code not in ("RS", "RT", "ZY"):
                self._do(code, argument)
        elif int(number) == self.number and not self._do(code, argument):
            self._tell(code)

    def _do(self, code: str, argument: str) -> bool:
        """Carry out a command; return False for any other text."""
        if code in _MOVES:
            if self.obeys:
                self._move(code, argument)
        elif code == "TC":
            self._cleared = self.motor.revolutions
        elif code in ("CA", "CH"):
            self.display = ""
        elif code[0] == "W":
            self.display = argument
        else:
            return False
        return True

    def _move(self, code: str, argument: str) -> None:
        """Change speed or direction, start, stop, or dose."""
        match code:
            case "SP":
                self._speed(decimal(argument))
            case "SI" | "SD":
                self._speed(self.rpm + (1 if code == "SI" else -1))
            case "GO":
                if not self.motor.running:
                    self.motor.turn(self._signed(self.rpm))
            case "ST":
                self.motor.rest()
            case "DO":
                self._dose(argument)
            case _:
                self.clockwise = not self.clockwise if code == "RC" else code == "RR"
                self.motor.change(self._signed(self.rpm))

    def _tell(self, code: str) -> None:
        running = int(self.motor.running)
        way = "CW" if self.clockwise else "CCW"
        match code:
            case "RS" if self.series == "323":
                self._say(f"{TYPES['323']} {self.rpm:.0f} {way} {running} !")
            case "RS":
                ml = self.motor.ul_per_rev / 1000.0
                self._say(
                    f"{TYPES[self.series]} {ml:.2f} {self.series}R 9.6MM {self.rpm:.1f} {way} P/N {self.number}"
                    f" {self.pulses} {running} !"
                )
            case "RT" if self.series != "323":
                self._say(str(self.pulses))
            case "ZY":
                self._say(str(running))

    def _say(self, text: str) -> None:
        self.send(text.encode("ascii") + b"\r")

    # --- motor ------------------------------------------------------------------------------------------

    def _speed(self, rpm: float | None) -> None:
        if rpm is None or not 0.0 < rpm <= self.max_rpm:
            return
        self.rpm = float(round(rpm)) if self.series == "323" else round(rpm, 1)
        self.motor.change(self._signed(self.rpm))

    def _dose(self, argument: str) -> None:
        match = _DOSE.fullmatch(argument)
        if match is None or self.series == "323" or self.motor.running or not int(match[1]):
            return
        self.motor.turn(self._signed(self.rpm), revolutions=int(match[1]) / self.pulses_per_rev)

    def _signed(self, rpm: float) -> float:
        return rpm if self.clockwise else -rpm
