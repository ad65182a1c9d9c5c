"""A Julabo circulator (operating manuals, interface commands): `in_…` is answered, `out_…` is not, both end CR.

Capitals do as well. What comes less than 250 ms after a command without an answer, or 10 ms after an answer, is lost
(“Important times for a command transmission”). `out_…` is obeyed in remote mode alone. On RS485 (device address given)
commands and answers begin with `Annn_`, and others' are met with silence.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import AsciiDevice, decimal
from sim.devices.bath import Bath
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import forgetting

AFTER_COMMAND_S, AFTER_ANSWER_S = 0.25, 0.01
"""How long it is busy with a command that it does not answer; after the last byte of an answer."""
FACTORY = {"06": 0.4, "07": 110.0, "08": 8.0}
"""Proportional band, integral and derivative time of its regulator."""
VERSION = "JULABO FP50-MH VERSION 1.0"
HIGH_LIMIT_C, LOW_LIMIT_C = 200.0, -50.0


class Julabo(AsciiDevice):
    """A bath that heats and cools; `remote` is the choice at the panel, `alarm` a condition such as "-01 …"."""

    model_id = "julabo"
    bench = BenchFacts(similar=("thermostats",))
    baud = 4800
    think_s = 0.015

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.bath = Bath(lambda course: plant.set_bath(f"{name}.setpoint", course))
        self.prefix = f"A{int(spec.address):03d}_" if spec.address else ""
        self.external = bool(spec.settings.get("external", False))
        self.remote = True
        self.alarm = ""
        self.running = False
        self.end_of_line = "\n"
        self.lost = 0
        """Commands that came too soon."""
        self.setpoints = [20.0, 20.0, 20.0]
        self.parameters = dict(FACTORY)
        self._busy_until_s = -1.0

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return str(int(self.prefix[1:4])) if self.prefix else None

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.prefix = f"A{int(address):03d}_"

    def forged(self, data: bytes, address: str) -> bytes | None:
        """See :meth:`WireDevice.forged`."""
        own = self.prefix.encode("ascii")
        return b"A%03d_" % int(address) + data[len(own) :] if own and data.startswith(own) else None

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: set-points and parameters, and that the line commands it."""
        return forgetting(
            self,
            {"setpoints": [20.0, 20.0, 20.0], "parameters": dict(FACTORY), "remote": False},
        )

    def _boot(self) -> None:
        self.forget_input()
        self.running = False
        self._busy_until_s = -1.0

    def _halt(self) -> None:
        self.running = False
        self._regulate()

    def _regulate(self) -> None:
        """Start or stop the regulation, and the circulation pump with it."""
        self.bath.regulate(self.setpoints[0] if self.running else None)
        self.bath.touch(self.running)

    def bad_line(self) -> None:
        """Ignore noise."""

    def _say(self, text: str) -> None:
        self.send(f"{self.prefix}{text}{self.end_of_line}".encode("ascii"))

    def _number(self, value: float) -> str:
        text = f"{value:.2f}"
        return text[:-1] if text.endswith("0") else text

    def command(self, text: str) -> None:
        """See :meth:`AsciiDevice.command`."""
        now_s = self.loop.time()
        too_soon = now_s < self._busy_until_s - 1e-9
        self._busy_until_s = max(self._busy_until_s, now_s + AFTER_COMMAND_S)
        if not text.upper().startswith(self.prefix):
            return
        if too_soon:
            self.lost += 1
            return
        name, _, value = text[len(self.prefix) :].strip().lower().partition(" ")
        if name.startswith("out_"):
            if self.remote and (number := decimal(value.strip())) is not None:
                self._obey(name, number)
        elif not value and (answer := self._answer(name)) is not None:
            self._say(answer)
            byte_s = self.line.byte_s if self.line is not None else 0.0
            spoken_s = self.think_s + byte_s * len(self.prefix + answer + self.end_of_line)
            self._busy_until_s = now_s + spoken_s + AFTER_ANSWER_S

    def _obey(self, name: str, number: float) -> None:
        if not self.obeys:
            return
        match name:
            case "out_sp_00" | "out_sp_01" | "out_sp_02":
                if LOW_LIMIT_C <= number <= HIGH_LIMIT_C:
                    self.setpoints[int(name[-1])] = round(number, 2)
            case "out_mode_05":
                self.running = number == 1 and not self.alarm
            case "out_par_06" | "out_par_07" | "out_par_08":
                self.parameters[name[-2:]] = number
        self._regulate()

    def fail(self, alarm: str) -> None:
        """Stop the regulation with `alarm` (a fault)."""
        self.alarm, self.running = alarm, False
        self._regulate()

    def _answer(self, name: str) -> str | None:
        if name == "version":
            return VERSION
        if name == "status":
            where = ("REMOTE" if self.remote else "MANUAL") + (" START" if self.running else " STOP")
            return self.alarm or f"{2 * self.remote + self.running:02d} {where}"
        if name == "in_mode_05":
            return str(int(self.running))
        if name == "in_pv_02" and not self.external:
            return "---.--"
        value = self._value(name)
        return None if value is None else self._number(value)

    def _value(self, name: str) -> float | None:
        """Return the value that a question asks for, in °C or %; None when it is not a question."""
        match name:
            case "in_pv_00":
                return self.bath.temperature_c
            case "in_pv_01":
                return self.bath.output(cools=True)
            case "in_pv_02":
                return self.bath.temperature_c - 0.3
            case "in_sp_00" | "in_sp_01" | "in_sp_02":
                return self.setpoints[int(name[-1])]
            case "in_sp_03":
                return HIGH_LIMIT_C
            case "in_sp_04":
                return LOW_LIMIT_C
            case "in_par_06" | "in_par_07" | "in_par_08":
                return self.parameters[name[-2:]]
        return None
