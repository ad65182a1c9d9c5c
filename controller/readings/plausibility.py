"""Judge the plausibility of readings: the only place that marks a value as `good` or `suspect` (I9).

A value is good if it lies within the range of its device and its place, and within reach of the last good value: a change
of at most `grain` at once, and `per_s` for each second since. A value out of reach is a jump. It is suspect until further
readings agree with it; the device is read again at once. A value out of range is never good.

On a quiet line one more reading confirms a jump. A line that loses bytes can repeat an error: a few percent of all replies
lose the leading digit of a number. Refused replies and jumps that were not confirmed raise a score of the device, and each
point of it demands one more agreeing reading.

A good value is therefore wrong by at most `PlausibleRange.error` (docs/safety.md): corruption that looks like a change that
the rig can make cannot be distinguished from one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf, isfinite
from types import MappingProxyType

from controller.core.state import ActuatorView
from controller.rig.description import Rig
from controller.rig.families import TEMPERATURE, PointKind, max_flow_ul_min, points_of
from controller.rig.heating import heating_c_per_s
from controller.rig.organ_lines import organ_lines
from controller.rig.part import MAX_UL_MIN
from controller.safety.limits import GAUGE_KPA, PROBE_C
from drivers.commands import Level

OVER_RANGE = 1.28
"""A mass flow controller measures up to 128 % of its full scale (Alicat MC manual, data sheet)."""
OVERFILL = 1.25
"""Maximum mass of an overfilled vessel, relative to its capacity; medium weighs 1 g/mL within a percent."""
MARGIN = 1.2
"""Safety factor on every rate: calibrations and mixing are no more accurate."""
REACH_PERIODS, REACH_GRACE_S = 1.5, 2.0
"""Age after which a reading no longer bounds the next one (one missed reading); the next one is confirmed like a jump."""
MAX_TROUBLE = 4.0
"""Maximum score of a noisy line: a jump then needs five more agreeing readings."""
TROUBLE_DECAY = 0.95
"""Factor on the score at each good reading: some twenty of them make a line quiet again."""


@dataclass(frozen=True, slots=True)
class PlausibleRange:
    """Range of a point (`low` to `high`), and its maximum change: `grain` at once, and `per_s` (its unit a second).

    Readings that confirm a jump may differ by the share `ripple` of their value as well.
    """

    low: float
    high: float
    grain: float
    per_s: float
    ripple: float = 0.0

    def error(self, period_s: float) -> float:
        """Return the maximum error of a good reading due to its line, if it is read every `period_s`."""
        return self.grain + self.per_s * reach_s(period_s)


def reach_s(period_s: float) -> float:
    """Return how long (s) a good reading bounds the next one, if the device is read every `period_s`."""
    return REACH_PERIODS * period_s + REACH_GRACE_S


BY_UNIT: Mapping[str, PlausibleRange] = {
    # Under regulated gas pH moves by hundredths a minute. If the gas fails it moves faster and has to be confirmed.
    "pH": PlausibleRange(0.0, 14.0, 0.05, 0.01),
    # Air saturation: 478 % in pure oxygen. With a kLa of 0.02/s 30 % more of it in the gas moves it by 0.5 % a second.
    "%": PlausibleRange(0.0, 500.0, 3.0, 0.5),
    # Baths, rooms, and the temperatures of flow and pressure sensors; the skin has its own range.
    "degC": PlausibleRange(-20.0, 200.0, 0.3, 0.2),
    # A peristaltic pump pulsates, and starts and stops within a second. Against a blockage it pulsates by a tenth of a high
    # pressure from one reading to the next, and over-pressure must not stay unconfirmed for that.
    "kPa": PlausibleRange(*GAUGE_KPA, 3.0, 3.0, 0.15),
    "mV": PlausibleRange(-1020.0, 1020.0, 10.0, 5.0),
    "uS/cm": PlausibleRange(0.0, 500_000.0, 150.0, 10.0),
    # A dose of stock moves glucose by some mM within a minute, and is confirmed like a jump.
    "mM": PlausibleRange(-1.0, 100.0, 0.5, 0.05),
    "ppm": PlausibleRange(0.0, 1_000_000.0, 1000.0, 100.0),
}
"""By unit, where the rig gives no narrower range. Other units, such as a switch's, have no range."""
UNHEATED_C_PER_S = 0.05
"""Maximum rate of a thermometer in medium that no heater of the rig warms (°C/s). 1 mL of medium in its chamber (9 J/K)
in still air (10 W/(m²·K) over 6 cm²) cools by 0.03 °C/s at most when it comes from 37 °C into ice-cold air."""
DEFAULT_GAS_ML_MIN = 100.0
"""Gas flow of a controller of unknown full scale on a rig without a lung (mL/min)."""
POWER = PlausibleRange(-100.0, 100.0, 20.0, 100.0)
"""A thermostat's output (%): it reaches its limits within a second."""


def bounds_of(rig: Rig) -> dict[str, PlausibleRange]:
    """Return the range of every point that the rig description knows."""
    found = {point: near for point, kind in points_of(rig).items() if (near := _near(rig, point, kind)) is not None}
    skin = rig.organs.skin
    for point, kind in points_of(rig).items():
        if skin is None and kind == TEMPERATURE and rig.devices[point.partition(".")[0]].at in rig.tissue:
            found[point] = PlausibleRange(*PROBE_C, 0.1, UNHEATED_C_PER_S)
    if skin is not None and skin.temperature in found:
        per_s = min(MARGIN * heating_c_per_s(rig), BY_UNIT["degC"].per_s)
        found[skin.temperature] = PlausibleRange(*PROBE_C, 0.1, per_s)
    return found


def _near(rig: Rig, point: str, kind: PointKind) -> PlausibleRange | None:
    spec, lung = rig.devices[point.partition(".")[0]], rig.organs.lung
    match kind.quantity:
        case "mass":
            return _mass(rig, spec.at)
        case "gas flow":
            scale = spec.settings.get("full_scale_ml_min")
            known = isinstance(scale, int | float) and not isinstance(scale, bool)
            full = (
                float(scale)
                if known and scale is not None
                else 10.0 * (DEFAULT_GAS_ML_MIN if lung is None else lung.total_ml_min)
            )
            # It holds its set-point; a command or a failing supply moves it, and both are jumps.
            return PlausibleRange(-0.05 * full, OVER_RANGE * full, max(0.1, 0.01 * full), 0.0)
        case "heating power":
            return POWER
    return BY_UNIT.get(kind.unit) if kind.kind == "sensor" else None


def _mass(rig: Rig, at: str | None) -> PlausibleRange:
    """Return the range of a balance (g): its vessel between empty and overfilled, changed by the lines that touch it."""
    vessel = rig.vessels.get(at or "")
    full_g = (max(each.capacity_ul for each in rig.vessels.values()) if vessel is None else vessel.capacity_ul) / 1e3
    fastest_ul_min = max(_changes_ul_min(rig, at), default=0.0)
    return PlausibleRange(-0.1 * full_g, OVERFILL * full_g, 0.05, MARGIN * fastest_ul_min / 1e3 / 60.0)


def _changes_ul_min(rig: Rig, vessel: str | None) -> Iterator[float]:
    """Yield the flows that may change the mass of a vessel (µL/min): those of organs, and of other pumps that touch it.

    A heart counts only where it touches the vessel. Without a named vessel it may be any of them.
    """
    organs = organ_lines(rig)
    for each in organs:
        line = rig.lines[each.line]
        if each.organ != "heart" or vessel in (line.from_, line.to):
            yield each.max_ul_min
    known = {each.line for each in organs}
    for name, line in rig.lines.items():
        if line.pump is not None and name not in known and vessel in (line.from_, line.to, None):
            yield min(max_flow_ul_min(rig, line.pump), MAX_UL_MIN)


@dataclass(slots=True)
class _Track:
    """Memory of one point."""

    bounds: PlausibleRange
    device: str
    memory_s: float
    """Age (s) after which a value no longer bounds the next one."""
    reach_s: float
    """Maximum time (s) of change that is permitted without confirmation: that of sampling at full rate."""
    value: float = 0.0
    at_s: float = -inf
    jump: float = 0.0
    jump_s: float = -inf
    agreed: int = 0
    """Number of consecutive readings that agree with `jump`; 0 without a jump."""


class Plausibility:
    """Judges the points of one rig, one reading at a time. `dropped` counts the readings marked as suspect."""

    def __init__(self, rig: Rig, rest_s: Mapping[str, float] = MappingProxyType({})) -> None:
        """`rest_s` is the period at rest of each device (s). It prolongs the memory of a value, not the permitted change."""
        self._periods = {name: device.every_s for name, device in rig.devices.items()}
        self._rest_s = rest_s
        self._tracks: dict[str, _Track | None] = {
            point: self._new(point, bounds) for point, bounds in bounds_of(rig).items()
        }
        self._trouble = dict.fromkeys(rig.devices, 0.0)
        self.dropped = 0

    def judge(
        self, point: str, value: float, unit: str, at_s: float, actuators: Mapping[str, ActuatorView]
    ) -> str | None:
        """Take in a reading. Return why it is suspect, or None if it is good."""
        try:
            track = self._tracks[point]
        except KeyError:
            track = self._tracks[point] = self._by_unit(point, unit)
        if track is None:
            return None
        bounds, since_s = track.bounds, at_s - track.at_s
        if since_s <= track.memory_s and bounds.low <= value <= bounds.high:
            room = bounds.grain + bounds.per_s * min(since_s, track.reach_s)
            if -room <= value - track.value <= room:
                if track.agreed:
                    self._went_away(track)
                elif trouble := self._trouble[track.device]:
                    self._trouble[track.device] = trouble * TROUBLE_DECAY if trouble > 0.1 else 0.0
                track.value, track.at_s = value, at_s
                return None
        why = self._jump(track, point, value, unit, at_s, actuators)
        self.dropped += why is not None
        return why

    def again(self, point: str) -> bool:
        """Return whether another reading soon would help: a jump waits for confirmation."""
        track = self._tracks.get(point)
        return track is not None and track.agreed > 0

    def failed(self, point: str) -> None:
        """Record a refused or missing reply: the line is not quiet."""
        device = point.partition(".")[0]
        if device in self._trouble:
            self._trouble[device] = min(self._trouble[device] + 1.0, MAX_TROUBLE)

    # --- inside -----------------------------------------------------------------------------------------

    def _new(self, point: str, bounds: PlausibleRange) -> _Track:
        device = point.partition(".")[0]
        reach = reach_s(self._periods[device])
        return _Track(bounds, device, max(reach, reach_s(self._rest_s.get(device, 0.0))), reach)

    def _by_unit(self, point: str, unit: str) -> _Track | None:
        """Start the track of a point that the rig description does not know, such as one of a described Modbus device."""
        bounds = BY_UNIT.get(unit)
        return None if bounds is None or point.partition(".")[0] not in self._periods else self._new(point, bounds)

    def _went_away(self, track: _Track) -> None:
        track.agreed = 0
        self.failed(track.device)

    def _jump(
        self,
        track: _Track,
        point: str,
        value: float,
        unit: str,
        at_s: float,
        actuators: Mapping[str, ActuatorView],
    ) -> str | None:
        """Judge a value that is out of range, or out of reach of the last good one."""
        bounds = track.bounds
        if not (isfinite(value) and bounds.low <= value <= bounds.high):
            track.agreed = 0
            self.failed(track.device)
            return f"{value:g} {unit} is outside {bounds.low:g} to {bounds.high:g}: nothing here can be so"
        if track.agreed:
            room = (
                bounds.grain + bounds.per_s * (at_s - track.jump_s) + bounds.ripple * max(abs(value), abs(track.jump))
            )
            agrees = abs(value - track.jump) <= room
            if not agrees:
                self.failed(track.device)
            track.agreed = track.agreed + 1 if agrees else 1
        else:
            track.agreed = 1
        track.jump, track.jump_s = value, at_s
        needed = 2 + ceil(self._trouble[track.device])
        if track.agreed >= needed or self._commanded(point, value, bounds, actuators):
            track.agreed = 0
            track.value, track.at_s = value, at_s
            return None
        agreement = f"{track.agreed} of {needed} readings agree"
        if at_s - track.at_s > track.memory_s:
            return f"{value:g} {unit} is the first for a while: {agreement}"
        return f"a jump from {track.value:g} to {value:g} {unit} in {at_s - track.at_s:.1f} s: {agreement}"

    def _commanded(
        self, point: str, value: float, bounds: PlausibleRange, actuators: Mapping[str, ActuatorView]
    ) -> bool:
        """Return whether the value is the commanded one: a commanded step is no jump."""
        view = actuators.get(point)
        command = None if view is None else view.commanded
        return isinstance(command, Level) and abs(value - command.value) <= bounds.grain
