"""Ismatec Reglo Digital and IPC, pumps with one motor (IPC manual 14-013 Rev. D pp. 36 to 41, Reglo Digital p. 31).

A request is the pump's address, a command and CR. Most are answered by one bare character, values by a line ended
CR LF. In overload every command but `-` is answered by `#`. The device's setting `variant` chooses the unit of speed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import AsciiDevice
from sim.devices.bench_facts import BenchFacts
from sim.devices.ismatec_numbers import CHART_ML_MIN, MAX_RPM, digits, from_volume_2, total_text, volume_1
from sim.devices.port import PlantPort
from sim.devices.pump_motor import PumpMotor
from sim.devices.wire import forgetting

DONE, NOT_DONE, NO, YES = b"*", b"#", b"-", b"+"
FACTORY_TUBING = 160
CHART = {**CHART_ML_MIN, FACTORY_TUBING: 14.3}
"""mL/min at full speed; the IPC manual's example has 1.6 mm tubing."""
DECIMALS = 2
LONGEST_DOSE = 5
WORD, MAX_BACK_STEPS = 65_536, 100
_MODES = ("L", "M", "N", "O", "]", "P", "Q", "G")
_COUNTS = {
    "[": (LONGEST_DOSE, "volume_ml", 10.0**-DECIMALS),
    '"': (4, "cycles", 1),
    "!": (4, "calibrated_ml_min", 0.01),
}
"""Settings by a count: its maximum number of digits, what it sets, and its unit."""


class IsmatecRegloDigital(AsciiDevice):
    """The pump. `tubing_mm` in the rig is the fitted tubing and, without `set_tubing_mm`, also the set one."""

    model_id = "ismatec-reglo-digital"
    bench = BenchFacts(settings={"tubing_mm": 1.02}, similar=("Ismatec",), untold=frozenset({"direction"}))
    think_s = 0.004

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.address = int(spec.address or "1")
        self.percent = spec.settings.get("variant", "reglo-digital") == "ipc"
        self.count = 1000.0 if spec.settings.get("mantissa", "decimal") == "whole" else 1.0
        """The mantissa of a flow: 1.0 for m.mmm, as an ICC has it, 1000.0 for mmmm; open clients disagree."""
        fitted = round(float(spec.settings.get("tubing_mm", FACTORY_TUBING / 100)) * 100)
        if fitted not in CHART:
            raise ValueError(
                f"{name}: no tubing of {fitted / 100:.2f} mm fits this pump; choose one of the maker's sizes"
            )
        self.tubing = fitted
        self.calibrated_ml_min: float | None = None
        self.boot_s = float(spec.settings.get("boot_s", 0.0))
        """Time without reaction after power-on (s); about 5 s on a real Reglo Digital, 3 s on an IPC."""
        self._ready_s = 0.0
        self.overload = False
        self.mode = "L"
        self.clockwise = True
        self.speed = 0.5
        """Share of full speed."""
        self.volume_ml = 1.0
        self.run_s = self.pause_s = 1.0
        self.cycles = 0
        self.roller_steps = self.back_steps = 0
        self.memory_writes: int = 0
        """How often settings were written to the memory that wears."""
        self._total_before = 0.0
        self.motor = PumpMotor(
            ul_per_rev=CHART[fitted] / MAX_RPM * 1000.0,
            drive=lambda flow_ul_min: plant.set_pump(f"{name}.pump", flow_ul_min),
            loop=self.loop,
        )

    @property
    def max_flow_ml_min(self) -> float:
        """Return the flow at full speed by the pump's calibration (mL/min)."""
        return self.calibrated_ml_min or CHART[self.tubing]

    def block(self) -> None:
        """Block the head (a fault): the motor overloads."""
        self.motor.rest()
        self.overload = True

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return str(self.address)

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.address = int(address)

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: tubing, calibration, address, mode and what it was to do."""
        return forgetting(
            self,
            {
                "tubing": FACTORY_TUBING,
                "calibrated_ml_min": None,
                "address": 1,
                "mode": "L",
                "clockwise": True,
                "speed": 0.5,
                "volume_ml": 1.0,
            },
        )

    def _boot(self) -> None:
        self.forget_input()
        self._ready_s = self.loop.time() + self.boot_s
        self.overload = False

    def _halt(self) -> None:
        self.motor.power_off()
        self._total_before = 0.0

    # --- motor ------------------------------------------------------------------------------------------

    def _start(self) -> bytes:
        if self.motor.running:
            return DONE
        rpm = self.speed * MAX_RPM * (1 if self.clockwise else -1)
        if not rpm:
            return NO
        match self.mode:
            case "L" | "M":
                self.motor.turn(rpm)
            case "N":
                self.motor.turn(rpm, seconds=self.run_s)
            case "O" | "G":
                return self._start_volume(rpm)
            case _:
                return NOT_DONE
        return DONE

    def _start_volume(self, rpm: float) -> bytes:
        """Dispense the volume, at this speed (mode O) or within the time (mode G)."""
        if self.mode == "O":
            if not self.volume_ml:
                return NO
            self.motor.turn(rpm, revolutions=self.volume_ml / (self.max_flow_ml_min / MAX_RPM))
            return DONE
        needed = self.volume_ml / (self.run_s / 60.0) / self.max_flow_ml_min
        if not 0.001 <= needed <= 1.0:
            return NO
        self.motor.turn(needed * MAX_RPM * (1 if self.clockwise else -1), seconds=self.run_s)
        return DONE

    def _new_speed(self, share: float) -> bool:
        if not 0.0 < share <= 1.0:
            return False
        self.speed = share
        self.motor.change(share * MAX_RPM * (1 if self.motor.rpm > 0 else -1))
        return True

    def _total_ml(self) -> float:
        return self.motor.revolutions * self.max_flow_ml_min / MAX_RPM - self._total_before

    # --- requests ---------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """See :meth:`AsciiDevice.receive`; a pump that is still starting ignores everything."""
        if self.loop.time() >= self._ready_s:
            super().receive(data)

    def bad_line(self) -> None:
        """Stay silent: in a chain no pump answers a request without address."""

    def command(self, text: str) -> None:
        """See :meth:`AsciiDevice.command`."""
        if match := re.fullmatch(r"@([1-8])", text, re.ASCII):
            self.address = int(match[1])
            self.send(DONE)
        elif text[0] == str(self.address) and len(text) > 1:
            self.send(self._answer(text[1], text[2:]))

    def _answer(self, code: str, argument: str) -> bytes:
        if self.overload:
            if code == "-" and not argument:
                self.overload = False
                return DONE
            return NOT_DONE
        if argument:
            return self._setting(code, argument)
        if code in "HIJK":
            return self._motion(code) if self.obeys else DONE
        if code in _MODES:
            if self.motor.running and code != self.mode:
                return NOT_DONE
            self.mode = code
            return DONE
        return self._housekeeping(code)

    def _motion(self, code: str) -> bytes:
        """Start, stop, or choose the direction."""
        if code == "H":
            return self._start()
        if code == "I":
            self.motor.rest()
            return DONE
        if self.motor.running:
            return NOT_DONE
        self.clockwise = code == "J"
        return DONE

    def _housekeeping(self, code: str) -> bytes:
        match code:
            case "A" | "B" | "-":
                pass
            case "*":
                self.memory_writes += 1
            case "W":
                self._total_before += self._total_ml()
            case "0":
                self.speed, self.volume_ml, self.mode = 0.5, 1.0, "L"
            case _:
                return self._query(code)
        return DONE

    def _query(self, code: str) -> bytes:
        if code == "E":
            return YES if self.motor.running else NO
        if code == "C":
            return NO
        text = self._identity(code) or self._flow_text(code) or self._count_text(code)
        return NOT_DONE if text is None else text.encode("ascii") + b"\r\n"

    def _identity(self, code: str) -> str | None:
        match code:
            case "#":
                return "IPC 403" if self.percent else "REGLO DIGITAL 403"
            case "(":
                return "0403"
            case "+":
                return f"{self.tubing / 100:.1f} mm" if self.percent else f"{self.tubing / 100:.2f} mm"
        return None

    def _flow_text(self, code: str) -> str | None:
        match code:
            case "S":
                return f"{self.speed * 100:.1f}" if self.percent else f"{self.speed * MAX_RPM:.2f}"
            case "f" if not self.percent:
                return volume_1(self.speed * self.max_flow_ml_min / self.count)
            case "?":
                return f"{CHART[self.tubing]:.3g} ml/min"
            case "!":
                return f"{self.max_flow_ml_min:.4g} ml/min"
            case ":":
                return total_text(self._total_ml())
        return None

    def _count_text(self, code: str) -> str | None:
        match code:
            case "[":
                return str(DECIMALS)
            case "V":
                return str(round(self.run_s * 10.0))
            case "T":
                return str(round(self.pause_s * 10.0))
            case "U":
                return str(self.roller_steps)
            case "%":
                return str(self.back_steps)
            case '"':
                return str(self.cycles)
        return None

    def _setting(self, code: str, argument: str) -> bytes:
        """Carry out a command that sets a value; return its answer."""
        if code == "f" and not self.percent:
            return self._set_flow(argument)
        return DONE if self._set_value(code, argument) else NOT_DONE

    def _set_value(self, code: str, argument: str) -> bool:
        """Set what `code` names; return whether the argument was valid and the pump in a state to take it."""
        match code:
            case "S":
                return self._set_speed(argument)
            case "V" | "T":
                return self._set_time("run_s" if code == "V" else "pause_s", argument)
            case "U" | "%":
                return self._set_steps(code, argument)
            case "+":
                return self._set_tubing(digits(argument, 4))
            case "D":
                return len(argument) <= 6
            case _:
                return self._set_count(code, argument)

    def _set_flow(self, argument: str) -> bytes:
        """Set the speed that gives a flow (mL/min); answer with the flow that was set."""
        flow = from_volume_2(argument)
        if flow is None:
            return NOT_DONE
        self._new_speed(round(flow * self.count / self.max_flow_ml_min, 4))
        return self._query("f")

    def _set_count(self, code: str, argument: str) -> bool:
        if code not in _COUNTS:
            return False
        width, name, unit = _COUNTS[code]
        return self._set(digits(argument, width), name, unit)

    def _set_steps(self, code: str, argument: str) -> bool:
        if code == "U":
            steps = digits(argument, 4 if len(argument) == 4 else 5)
            return self._set(steps if steps is None or steps < WORD else None, "roller_steps", 1)
        steps = digits(argument, 4)
        return self._set(steps if steps is None or steps <= MAX_BACK_STEPS else None, "back_steps", 1)

    def _set_tubing(self, size: int | None) -> bool:
        if size is None or size not in CHART or self.motor.running:
            return False
        self.tubing, self.calibrated_ml_min = size, None
        return True

    def _set(self, count: int | None, name: str, unit: float) -> bool:
        if count is None or self.motor.running:
            return False
        setattr(self, name, count * unit)
        return True

    def _set_speed(self, argument: str) -> bool:
        if self.percent:
            tenths = digits(argument, 5)
            return tenths is not None and self._new_speed(tenths / 1000.0)
        hundredths = digits(argument, 6)
        return hundredths is not None and self._new_speed(hundredths / 100.0 / MAX_RPM)

    def _set_time(self, name: str, argument: str) -> bool:
        for prefix, unit_s, width in (("M", 60.0, 3), ("H", 3600.0, 3), ("", 0.1, 4)):
            if argument.startswith(prefix):
                return self._set(digits(argument[len(prefix) :], width), name, unit_s)
        return False
