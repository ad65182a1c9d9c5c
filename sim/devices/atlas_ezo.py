"""Atlas Scientific EZO circuits over UART (EZO data sheets, UART mode): pH, oxygen, temperature, conductivity, ORP."""

from __future__ import annotations

import math
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import decimal
from sim.devices.bench_facts import BenchFacts
from sim.devices.ezo_uart import REFUSED, EzoUart
from sim.devices.port import PlantPort

ROOM_C = 25.0
SEA_LEVEL_KPA = 101.3
MV_PER_PH = -59.16
"""Of an ideal electrode at 25 °C."""


class EzoPh(EzoUart):
    """pH, three decimals, with calibration at a middle, a low and a high point."""

    model_id = "atlas-ezo-ph"
    bench = BenchFacts(similar=("EZO",))
    kind = "pH"
    firmware = "2.16"

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.temperature_c = ROOM_C
        self._point = f"{name}.ph"
        self._points: dict[str, tuple[float, float]] = {}
        self.slope = 1.0
        """Of the electrode against an ideal one: an old one has less."""
        self.zero_mv = 0.0
        """Of the electrode at pH 7."""

    def _raw(self) -> float:
        """Return what the circuit takes the electrode's voltage for without a calibration (pH)."""
        return 7.0 + (self.plant.sense(self._point) - 7.0) * self.slope + self.zero_mv / MV_PER_PH

    def _boot(self) -> None:
        self.temperature_c = ROOM_C
        super()._boot()

    def factory(self) -> None:
        """See :meth:`EzoUart.factory`."""
        super().factory()
        self._points.clear()

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the calibration."""
        points, self._points = self._points, {}

        def again() -> None:
            self._points = points

        return again

    def reading(self) -> str:
        """Return the calibrated pH."""
        return f"{min(14.0, max(0.0, self._calibrated(self._raw()))):.3f}"

    def _calibrated(self, raw: float) -> float:
        mid_raw, mid = self._points.get("mid", (7.0, 7.0))
        side = self._points.get("low" if raw < mid_raw else "high")
        slope = (side[1] - mid) / (side[0] - mid_raw) if side else 1.0
        return mid + (raw - mid_raw) * slope

    def _slope_percent(self, side: str) -> float:
        mid_raw, mid = self._points.get("mid", (7.0, 7.0))
        raw, value = self._points.get(side, (mid_raw + 1.0, mid + 1.0))
        return 100.0 * (raw - mid_raw) / (value - mid)

    def own_command(self, words: list[str]) -> list[str] | None:
        """See :meth:`EzoUart.own_command`."""
        match words:
            case ["t", "?"]:
                return [f"?T,{self.temperature_c:.2f}"]
            case ["t" | "rt" as verb, text] if (value := decimal(text)) is not None and -126 <= value <= 250:
                self.temperature_c = value
                return [self.reading()] if verb == "rt" else []
            case ["cal", "?"]:
                return [f"?CAL,{len(self._points)}"]
            case ["cal", "clear"]:
                self._points.clear()
                return []
            case ["cal", "mid" | "low" | "high" as place, text] if (value := decimal(text)) is not None:
                return self._calibrate(place, value)
            case ["slope", "?"]:
                mid_raw, mid = self._points.get("mid", (7.0, 7.0))
                offset_mv = (mid_raw - mid) * MV_PER_PH
                return [
                    f"?SLOPE,{self._slope_percent('low'):.1f},{self._slope_percent('high'):.1f},{offset_mv + 0.0:.2f}"
                ]
        return None

    def _calibrate(self, place: str, value: float) -> list[str]:
        """Calibrate a point. The middle comes first and discards the others; a point must differ enough from the middle."""
        raw = self._raw()
        if place == "mid":
            self._points = {"mid": (raw, value)}
            return []
        mid_raw, mid = self._points.get("mid", (7.0, 7.0))
        clear = raw < mid_raw - 0.5 and value < mid if place == "low" else raw > mid_raw + 0.5 and value > mid
        if not clear:
            return REFUSED
        self._points[place] = (raw, value)
        return []


class EzoDo(EzoUart):
    """Dissolved oxygen: mg/L by factory, % air saturation when it is switched on, or both."""

    model_id = "atlas-ezo-do"
    bench = BenchFacts(similar=("EZO",))
    kind = "DO"
    firmware = "2.14"

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.outputs = {"mg": True, "%": False}
        self.temperature_c = ROOM_C
        self.salinity_ppt = 0.0
        self.pressure_kpa = SEA_LEVEL_KPA
        self._salinity_text = "0,uS"
        self._point = f"{name}.oxygen"
        self._gain = 1.0
        self._zero_pct = 0.0
        self._calibrations = 0

    def _boot(self) -> None:
        self.temperature_c = ROOM_C
        super()._boot()

    def factory(self) -> None:
        """See :meth:`EzoUart.factory`."""
        super().factory()
        self.outputs = {"mg": True, "%": False}
        self._gain, self._zero_pct, self._calibrations = 1.0, 0.0, 0

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the calibration, and which outputs are on."""
        stored = self.outputs, self._gain, self._zero_pct, self._calibrations
        self.outputs, self._gain, self._zero_pct, self._calibrations = {"mg": True, "%": False}, 1.0, 0.0, 0

        def again() -> None:
            self.outputs, self._gain, self._zero_pct, self._calibrations = stored

        return again

    def reading(self) -> str:
        """Return the outputs that are on, mg/L first."""
        percent = max(0.0, (self.plant.sense(self._point) - self._zero_pct) * self._gain)
        mg_l = percent / 100.0 * saturation_mg_l(self.temperature_c, self.salinity_ppt, self.pressure_kpa)
        texts = {"mg": f"{mg_l:.2f}", "%": f"{percent:.1f}"}
        return ",".join(texts[name] for name, on in self.outputs.items() if on) or "no output"

    def own_command(self, words: list[str]) -> list[str] | None:
        """See :meth:`EzoUart.own_command`."""
        match words:
            case [name, "?"]:
                return self._ask(name)
            case ["o", "%" | "mg" as name, "0" | "1" as wanted]:
                self.outputs[name] = wanted == "1"
                return []
            case ["t" | "rt" as verb, text] if (value := decimal(text)) is not None and 0 <= value <= 60:
                self.temperature_c = value
                return [self.reading()] if verb == "rt" else []
            case ["s", *amount]:
                return self._set_salinity(amount)
            case ["p", text] if (value := decimal(text)) is not None and 10 <= value <= 200:
                self.pressure_kpa = value
                return []
            case ["cal", *how]:
                return self._calibrate(how)
        return None

    def _ask(self, name: str) -> list[str] | None:
        """Return the answer to a question; None when it is not a question."""
        answers = {
            "o": "?O" + "".join(f",{output}" for output in ("%", "mg") if self.outputs[output]),
            "t": f"?T,{self.temperature_c:.2f}",
            "s": f"?S,{self._salinity_text}",
            "p": f"?P,{self.pressure_kpa:.2f}",
            "cal": f"?CAL,{self._calibrations}",
        }
        return [answers[name]] if name in answers else None

    def _set_salinity(self, amount: list[str]) -> list[str] | None:
        """Take the salinity as conductivity (µS/cm), or in ppt."""
        value = decimal(amount[0]) if amount else None
        if value is None or value < 0:
            return None
        if len(amount) == 1:
            self.salinity_ppt = value / 1000.0 * 0.55  # seawater: 50 mS/cm is about 33 ppt at 25 °C
            self._salinity_text = f"{value:.0f},uS"
            return []
        if amount[1:] != ["ppt"] or value > 50:
            return None
        self.salinity_ppt = value
        self._salinity_text = f"{value:.2f},ppt"
        return []

    def _calibrate(self, how: list[str]) -> list[str] | None:
        match how:
            case []:
                return self._calibrate_in_air()
            case ["0"]:
                self._zero_pct = self.plant.sense(self._point)
                self._calibrations = 2 if self._calibrations else 1
            case ["clear"]:
                self._gain, self._zero_pct, self._calibrations = 1.0, 0.0, 0
            case _:
                return None
        return []

    def _calibrate_in_air(self) -> list[str]:
        raw = self.plant.sense(self._point) - self._zero_pct
        if raw < 20.0:
            return REFUSED
        self._gain = 100.0 / raw
        self._calibrations = max(1, self._calibrations)
        return []


class EzoRtd(EzoUart):
    """Temperature from a platinum probe, three decimals; °C by factory."""

    model_id = "atlas-ezo-rtd"
    bench = BenchFacts(similar=("EZO",))
    kind = "RTD"
    firmware = "2.10"

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.scale = "c"
        self._point = f"{name}.temperature"
        self._offset_c = 0.0
        self._calibrated = False

    def factory(self) -> None:
        """See :meth:`EzoUart.factory`."""
        super().factory()
        self.scale, self._offset_c, self._calibrated = "c", 0.0, False

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the calibration and the scale."""
        stored = self.scale, self._offset_c, self._calibrated
        self.scale, self._offset_c, self._calibrated = "c", 0.0, False

        def again() -> None:
            self.scale, self._offset_c, self._calibrated = stored

        return again

    def reading(self) -> str:
        """Return the temperature in the chosen scale."""
        celsius = self.plant.sense(self._point) + self._offset_c
        return f"{ {'c': celsius, 'k': celsius + 273.15, 'f': celsius * 1.8 + 32.0}[self.scale]:.3f}"

    def own_command(self, words: list[str]) -> list[str] | None:
        """See :meth:`EzoUart.own_command`."""
        match words:
            case ["s", "?"]:
                return [f"?S,{self.scale.upper()}"]
            case ["s", "c" | "k" | "f" as scale]:
                self.scale = scale
                return []
            case ["cal", "?"]:
                return [f"?CAL,{int(self._calibrated)}"]
            case ["cal", "clear"]:
                self._offset_c, self._calibrated = 0.0, False
                return []
            case ["cal", text] if (value := decimal(text)) is not None and -126 <= value <= 1254:
                self._offset_c, self._calibrated = value - self.plant.sense(self._point), True
                return []
        return None


class EzoEc(EzoUart):
    """Conductivity (µS/cm), and by factory total dissolved solids, salinity and specific gravity."""

    model_id = "atlas-ezo-ec"
    bench = BenchFacts(similar=("EZO",))
    kind = "EC"
    firmware = "2.15"

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.outputs = dict.fromkeys(("EC", "TDS", "S", "SG"), True)
        self.temperature_c = ROOM_C
        self.probe_k = 1.0
        self.stores = 0
        """Writes to the memory that outlives power."""
        self._point = f"{name}.conductivity"
        self._dry_us = 0.0
        self._gain = 1.0
        self._points: set[str] = set()

    def _boot(self) -> None:
        self.temperature_c = ROOM_C
        super()._boot()

    def factory(self) -> None:
        """See :meth:`EzoUart.factory`."""
        super().factory()
        self.outputs = dict.fromkeys(self.outputs, True)
        self.probe_k = 1.0
        self._forget_calibration()

    def _forget_calibration(self) -> None:
        self._dry_us, self._gain = 0.0, 1.0
        self._points.clear()

    def reading(self) -> str:
        """Return the outputs that are on, conductivity first."""
        us = self._compensated()
        ppt = us * 5.5e-4  # seawater: 50 mS/cm is about 33 ppt at 25 °C
        texts = {"EC": _us_text(us), "TDS": f"{us * 0.54:.0f}", "S": f"{ppt:.2f}", "SG": f"{1.0 + ppt * 7.6e-4:.3f}"}
        return ",".join(texts[name] for name, on in self.outputs.items() if on) or "no output"

    def _compensated(self) -> float:
        raw = (self.plant.sense(self._point) - self._dry_us) * self._gain * self.probe_k
        return max(0.0, raw / (1.0 + 0.02 * (self.temperature_c - ROOM_C)))

    def own_command(self, words: list[str]) -> list[str] | None:
        """See :meth:`EzoUart.own_command`."""
        match words:
            case [name, "?"]:
                return self._ask(name)
            case ["o", "ec" | "tds" | "s" | "sg" as name, "0" | "1" as wanted]:
                self.outputs[name.upper()] = wanted == "1"
                self.stores += 1
                return []
            case ["k", text] if (value := decimal(text)) is not None and 0.1 <= value <= 10:
                self.probe_k = value
                self.stores += 1
                return []
            case ["t" | "rt" as verb, text] if (value := decimal(text)) is not None and -126 <= value <= 250:
                self.temperature_c = value
                return [self.reading()] if verb == "rt" else []
            case ["cal", *how]:
                return self._calibration(how)
        return None

    def _ask(self, name: str) -> list[str] | None:
        """Return the answer to a question; None when it is not a question."""
        answers = {
            "o": "?,O" + "".join(f",{output}" for output, on in self.outputs.items() if on),
            "k": f"?K,{self.probe_k:.2f}",
            "t": f"?T,{self.temperature_c:.2f}",
            "cal": f"?CAL,{len(self._points)}",
        }
        return [answers[name]] if name in answers else None

    def _calibration(self, how: list[str]) -> list[str] | None:
        match how:
            case ["clear"]:
                self._forget_calibration()
                return []
            case ["dry"]:
                self._dry_us = self.plant.sense(self._point)
                self._points.add("dry")
                return []
            case [text] if (value := decimal(text)) is not None:
                return self._calibrate("one", value)
            case ["low" | "high" as place, text] if (value := decimal(text)) is not None:
                return self._calibrate(place, value)
        return None

    def _calibrate(self, place: str, wanted_us: float) -> list[str]:
        """Calibrate the gain at one point; refuse a gain far from the factory's."""
        self._gain, before = 1.0, self._gain
        now = self._compensated()
        if wanted_us <= 0.0 or not 0.4 <= now / wanted_us <= 2.5:
            self._gain = before
            return REFUSED
        self._gain = wanted_us / now
        self._points.add(place)
        return []


class EzoOrp(EzoUart):
    """Oxidation-reduction potential (mV), one decimal, with calibration at one point."""

    model_id = "atlas-ezo-orp"
    bench = BenchFacts(similar=("EZO",))
    kind = "ORP"
    firmware = "1.97"

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self._point = f"{name}.orp"
        self._offset_mv = 0.0
        self._calibrated = False

    def factory(self) -> None:
        """See :meth:`EzoUart.factory`."""
        super().factory()
        self._offset_mv, self._calibrated = 0.0, False

    def reading(self) -> str:
        """Return the potential, within the range of the circuit."""
        return f"{max(-1019.9, min(1019.9, self.plant.sense(self._point) + self._offset_mv)):.1f}"

    def own_command(self, words: list[str]) -> list[str] | None:
        """See :meth:`EzoUart.own_command`."""
        match words:
            case ["cal", "?"]:
                return [f"?CAL,{int(self._calibrated)}"]
            case ["cal", "clear"]:
                self._offset_mv, self._calibrated = 0.0, False
                return []
            case ["cal", text] if (value := decimal(text)) is not None and -1019.9 <= value <= 1019.9:
                self._offset_mv, self._calibrated = value - self.plant.sense(self._point), True
                return []
        return None


def _us_text(us_cm: float) -> str:
    """Return a conductivity with the digits that the circuit prints: four, and at most two decimals."""
    if us_cm < 1000.0:
        return f"{us_cm:.2f}" if us_cm < 100.0 else f"{us_cm:.1f}"
    step = 1.0 if us_cm < 1e4 else 10.0 if us_cm < 1e5 else 100.0
    return f"{round(us_cm / step) * step:.0f}"


def saturation_mg_l(temperature_c: float, salinity_ppt: float, pressure_kpa: float) -> float:
    """Return oxygen in water under humid air (mg/L): Benson and Krause 1984, at 1 atm, scaled by total pressure."""
    kelvin = temperature_c + 273.15
    fresh = (
        -139.34411 + 1.575701e5 / kelvin - 6.642308e7 / kelvin**2 + 1.243800e10 / kelvin**3 - 8.621949e11 / kelvin**4
    )
    salt = salinity_ppt * (0.017674 - 10.754 / kelvin + 2140.7 / kelvin**2)
    return math.exp(fresh - salt) * pressure_kpa / 101.325
