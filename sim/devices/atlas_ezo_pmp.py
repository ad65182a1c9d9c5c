"""Atlas Scientific EZO-PMP dosing pump over UART (data sheet, UART mode; captures of firmware 1.06).

The pump doses by volume at full speed (`D,ml`), by volume over time (`D,ml,min`), at a constant rate for a time or
for ever (`DC,ml/min,min`), or continuously (`D,*`). It ends finite work by itself and then says `*DONE,<ml>`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import decimal
from sim.devices.bench_facts import BenchFacts
from sim.devices.ezo_uart import REFUSED, EzoUart
from sim.devices.port import PlantPort

FULL_SPEED_ML_MIN = 105.0
"""What `D,ml` and `D,*` run at."""
MAX_RATE_ML_MIN = 58.5
"""Maximum constant flow: the factory's answer to `DC,?`."""
MIN_DOSE_ML = 0.5
MIN_MOTOR_V = 9.0
LONGEST_DOSE_ML = 100_000.0


class AtlasEzoPmp(EzoUart):
    """The pump. Volumes are those of the pump's calibration, which does not change the motor's speed."""

    model_id = "atlas-ezo-pmp"
    bench = BenchFacts(similar=("EZO",), untold=frozenset({"direction", "flow"}))
    kind = "PMP"
    firmware = "1.06"
    measure_s = 0.020
    supply_v = 3.28

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.motor_v = 12.0
        """The motor's own supply; below 9 V nothing is dosed."""
        self.inverted = False
        self.paused = False
        self.total_ml = self.absolute_ml = 0.0
        self._point = f"{name}.pump"
        self._only_while_dosing = False
        self._by_volume = self._by_time = 1.0
        self._calibrations = 0
        self._at_start_ml = 0.0
        self._rate = 0.0
        """Signed, mL/min, as the pump believes; 0 while it stands."""
        self._motor = 0.0
        """Signed, mL/min, as the motor turns."""
        self._since_s = 0.0
        self._given_ml = 0.0
        self._left_ml: float | None = None
        self._last = "0.00"
        self._timed = False
        self._resume: tuple[float, float] = (0.0, 0.0)
        self._ending: asyncio.TimerHandle | None = None

    # --- power ------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        super()._boot()
        self._only_while_dosing = False
        if self._at_start_ml:
            self._dose_volume(self._at_start_ml, None)

    def _halt(self) -> None:
        super()._halt()
        self._stop()
        self.total_ml = self.absolute_ml = self._given_ml = 0.0
        self._last = "0.00"

    def sleep(self) -> None:
        """See :meth:`EzoUart.sleep`."""
        self._stop()
        super().sleep()

    def factory(self) -> None:
        """See :meth:`EzoUart.factory`."""
        super().factory()
        self._stop()
        self._by_volume = self._by_time = 1.0
        self._calibrations = 0
        self._at_start_ml = 0.0
        self.inverted = False

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the calibrations, the direction, the dose at start."""
        self._stop()
        stored = self._by_volume, self._by_time, self._calibrations, self._at_start_ml, self.inverted
        self._by_volume, self._by_time, self._calibrations, self._at_start_ml, self.inverted = 1.0, 1.0, 0, 0.0, False

        def again() -> None:
            self._stop()
            self._by_volume, self._by_time, self._calibrations, self._at_start_ml, self.inverted = stored

        return again

    # --- the motor --------------------------------------------------------------------------------------

    @property
    def dosing(self) -> bool:
        """Return whether the motor turns."""
        return self._rate != 0.0

    def _run(self, rate: float, motor: float) -> None:
        """Turn at the flow `motor` by the chart of the uncalibrated pump; `rate` is the flow by the pump's calibration."""
        self._rate, self._motor = rate, motor
        self._since_s = self.loop.time()
        self.plant.set_pump(self._point, (-motor if self.inverted else motor) * 1000.0)
        if self._left_ml is not None:
            self._ending = self.loop.call_later(self._left_ml / abs(rate) * 60.0, self._done)

    def _account(self) -> None:
        now = self.loop.time()
        moved = self._rate * (now - self._since_s) / 60.0
        self._since_s = now
        self._given_ml += abs(moved)
        self.total_ml += moved
        self.absolute_ml += abs(moved)
        if self._left_ml is not None:
            self._left_ml = max(0.0, self._left_ml - abs(moved))

    def _rest(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._rate:
            self._account()
            self._rate = self._motor = 0.0
            self.plant.set_pump(self._point, 0.0)

    def _stop(self) -> None:
        """Stop the motor and drop the rest of the dose."""
        self._rest()
        self._left_ml = None
        self.paused = False

    def _done(self) -> None:
        self._ending = None
        self._stop()
        self.say(f"*DONE,{self._given_ml:.2f}", after_s=0.0, unsolicited=True)

    def _begin(self, rate: float, motor: float, volume_ml: float | None, text: str) -> list[str]:
        self._stop()
        self._given_ml = 0.0
        self._left_ml = volume_ml
        self._last = text
        self._run(rate, motor)
        return []

    # --- talk -------------------------------------------------------------------------------------------

    def reading(self) -> str:
        """Return the volume of the present dose, or of the last one (mL)."""
        self._account()
        return f"{self._given_ml:.2f}"

    def reports_now(self) -> bool:
        """Return whether a report is due: with `C,*` only while the pump doses."""
        return self.dosing or not self._only_while_dosing

    def own_command(self, words: list[str]) -> list[str] | None:
        """See :meth:`EzoUart.own_command`."""
        if words[0] in ("d", "dc") and len(words) > 1 and words[1:] != ["?"]:
            return self._dose(words)
        if len(words) == 2 and words[1] == "?":
            return self._ask(words[0])
        if len(words) == 1:
            return self._act(words[0])
        match words:
            case ["c", wanted]:
                return self._set_report(wanted)
            case ["cal", text]:
                return self._calibration(text)
            case ["dstart", text]:
                return self._dose_at_start(text)
        return None

    def _ask(self, name: str) -> list[str] | None:
        """Return the answer to a question; None when it is not a question."""
        if name in ("tv", "atv"):
            self._account()
        answers = {
            "d": f"?D,{self._last},{int(self.dosing)}",
            "dc": f"?MAXRATE,{MAX_RATE_ML_MIN * self._by_time:.4g}",
            "p": f"?P,{int(self.paused)}",
            "tv": f"?TV,{self.total_ml:.2f}",
            "atv": f"?ATV,{self.absolute_ml:.2f}",
            "c": "?C,*" if self._only_while_dosing else f"?C,{int(self.period_s > 0)}",
            "pv": f"?PV,{self.motor_v:.2f}",
            "invert": f"?INVERT,{int(self.inverted)}",
            "cal": f"?CAL,{self._calibrations}",
            "dstart": f"?DSTART,{self._at_start_ml:.2f}",
        }
        return [answers[name]] if name in answers else None

    def _act(self, name: str) -> list[str] | None:
        """Carry out a command of one word; return None when it is not one."""
        match name:
            case "x":
                if self.obeys:
                    self._stop()
                return [f"*DONE,{self._given_ml:.2f}"]
            case "p":
                return self._toggle_pause()
            case "clear":
                self._account()
                self.total_ml = self.absolute_ml = 0.0
                return []
            case "invert":
                return self._invert()
        return None

    def _set_report(self, wanted: str) -> list[str]:
        if wanted not in ("0", "1", "*"):
            return REFUSED
        self._only_while_dosing = wanted == "*"
        self.report_every(0.0 if wanted == "0" else 1.0)
        return []

    def _calibration(self, text: str) -> list[str] | None:
        if text == "clear":
            self._by_volume = self._by_time = 1.0
            self._calibrations = 0
            return []
        value = decimal(text)
        return self._calibrate(value) if value is not None and value > 0 else None

    def _dose_at_start(self, text: str) -> list[str] | None:
        if text == "off":
            self._at_start_ml = 0.0
            return []
        value = decimal(text)
        if value is None:
            return None
        self._at_start_ml = value if abs(value) >= MIN_DOSE_ML else 0.0
        return []

    def _dose(self, words: list[str]) -> list[str]:
        if not self.obeys:
            return []
        if self.motor_v < MIN_MOTOR_V:
            return [f"*UV,PUMPPWR,{self.motor_v:.2f}", "*ER"]
        name, text, *rest = words
        if name == "d":
            return self._dose_once(text, rest)
        rate = decimal(text)
        if not rate or len(rest) != 1:
            return REFUSED
        if rest == ["*"]:
            return self._dose_rate(rate, None)
        minutes = decimal(rest[0])
        return self._dose_rate(rate, minutes) if minutes else REFUSED

    def _dose_once(self, text: str, rest: list[str]) -> list[str]:
        """Dose without end (`*`), a volume at full speed, or a volume in a time."""
        if text in ("*", "-*") and not rest:
            sign = -1.0 if text == "-*" else 1.0
            self._timed = False
            return self._begin(sign * FULL_SPEED_ML_MIN * self._by_volume, sign * FULL_SPEED_ML_MIN, None, text)
        volume = decimal(text)
        if volume is None or len(rest) > 1:
            return REFUSED
        if not rest:
            return self._dose_volume(volume, None)
        minutes = decimal(rest[0])
        return self._dose_volume(volume, minutes) if minutes else REFUSED

    def _dose_volume(self, volume: float, minutes: float | None) -> list[str]:
        size = abs(volume)
        if size > LONGEST_DOSE_ML or (minutes is not None and minutes < 0):
            return REFUSED
        if size < MIN_DOSE_ML:
            return ["*MINVOL", "*ER"]
        sign = 1.0 if volume > 0 else -1.0
        self._timed = minutes is not None
        if minutes is None:
            rate, motor = FULL_SPEED_ML_MIN * self._by_volume, FULL_SPEED_ML_MIN
        else:
            rate = size / minutes
            motor = rate / self._by_time
            if motor > FULL_SPEED_ML_MIN:
                return ["*TOOFAST", "*ER"]
        return self._begin(sign * rate, sign * motor, size, f"{volume:.2f}")

    def _dose_rate(self, rate: float, minutes: float | None) -> list[str]:
        if minutes is not None and minutes < 0:
            return REFUSED
        motor = rate / self._by_time
        if abs(motor) > MAX_RATE_ML_MIN:
            return ["*TOOFAST", "*ER"]
        self._timed = True
        return self._begin(rate, motor, None if minutes is None else abs(rate) * minutes, "*")

    def _toggle_pause(self) -> list[str]:
        if not self.obeys:
            return []
        if self.paused:
            self.paused = False
            self._run(*self._resume)
        elif self.dosing:
            self._resume = self._rate, self._motor
            self._rest()
            self.paused = True
        return []

    def _invert(self) -> list[str]:
        if not self.obeys:
            return []
        self.inverted = not self.inverted
        if self.dosing:
            self.plant.set_pump(self._point, (-self._motor if self.inverted else self._motor) * 1000.0)
        return []

    def _calibrate(self, measured_ml: float) -> list[str]:
        """Calibrate by the measured volume of the last dose: by volume after `D,ml`, by time after other commands."""
        if self.dosing or self._given_ml < MIN_DOSE_ML:
            return REFUSED
        factor = measured_ml / self._given_ml
        if self._timed:
            self._by_time *= factor
            self._calibrations |= 2
        else:
            self._by_volume *= factor
            self._calibrations |= 1
        return []
