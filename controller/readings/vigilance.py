"""Alarm causes from readings alone: devices that do not answer, stuck probes, pH out of range, a reversed heart, flows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf

from controller.core.state import ActuatorView, Reading, State
from controller.readings.line_flows import LineFlows
from controller.regulation.trust import trusted
from controller.rig.description import Rig
from controller.rig.probes import culture_ph
from controller.safety.limits import stale_s
from controller.safety.probe_rules import max_age_s
from drivers.commands import PumpStatus, Quality

PH_BEYOND = 0.3
"""Maximum deviation of pH from its set-point; the regulator normally holds it to some hundredths."""
PH_STALE_S = 60.0
SUCTION_KPA = -0.2
"""Suction limit: below the zero error of gauges (a twentieth of a kilopascal), above the suction of a basal flow."""
PRESSURE_STALE_S = 15.0
TURN_S = 2.0
"""Maximum time (s) that another device on the same link may delay a reading, time-outs included."""
EARLY_S = 1e-6
"""Margin (s) of a time at which something is looked for: the sum that predicts it is rounded."""


Cause = tuple[str, str]
"""Kind of alarm and its source."""


def oldest_answers(rig: Rig) -> dict[str, float]:
    """Return the maximum age (s) of the last answer of each device, beyond which it counts as lost without an error."""
    shared = Counter(spec.link for spec in rig.devices.values())
    return {name: max_age_s(max(spec.every_s, TURN_S * shared[spec.link])) for name, spec in rig.devices.items()}


class Vigilance:
    """Finds the causes in the readings of one rig, tick by tick.

    It keeps which points have no good reading, the earliest time at which a device could count as silent, and the earliest
    time at which a reading could be too old. All follow from the readings that are new; as long as there are none and no such
    time is reached, the causes are those of the last tick.
    """

    def __init__(self, rig: Rig) -> None:
        self._oldest = oldest_answers(rig)
        lung, hearts = rig.organs.lung, rig.organs.hearts.values()
        self._air = None if lung is None else lung.air
        self._air_stale_s = 0.0 if lung is None else stale_s(rig, lung.air)
        self._ph_targets = culture_ph(rig)
        self._gauges = [(heart.pressure, rig.lines[heart.line].pump or "") for heart in hearts if heart.pressure]
        """Each heart that has a gauge: the gauge and the pump."""
        self._line_flows = LineFlows(rig)
        self._known: dict[str, Reading] = {}
        self._views: dict[str, ActuatorView] = {}
        self._faulty: set[str] = set()
        """Points whose last reading is stuck or missing."""
        self._silent_from_s = -inf
        """No device counts as silent before this time (loop s)."""
        self._trusted_for_s = dict.fromkeys(self._ph_targets, PH_STALE_S)
        """By point whose age matters here: maximum age of its last good reading (s)."""
        self._trusted_for_s |= {gauge: PRESSURE_STALE_S for gauge, _ in self._gauges}
        if self._air is not None:
            self._trusted_for_s[self._air] = self._air_stale_s
        self._readings: Mapping[str, Reading] = {}
        self._actuators: Mapping[str, ActuatorView] = {}
        """The mappings of the last state: the same objects again are the same content."""
        self._found: tuple[dict[Cause, str], list[Cause]] = {}, []
        self._found_until_s = -inf
        """Until when (loop s) the causes found stay the same without a change."""

    def causes(self, state: State) -> tuple[dict[Cause, str], list[Cause]]:
        """Find the causes in the readings, in the form that :meth:`controller.alarms.states.Alarms.levels` takes.

        A cause without a trusted reading is unknown: medium that was sour when a cable was pulled has not recovered by that.

        Returns:
            Detail by (alarm kind, source); and the causes whose presence is unknown.
        """
        same = state.readings is self._readings and state.actuators is self._actuators
        if not (same and state.at_s < self._found_until_s):
            self._readings, self._actuators = state.readings, state.actuators
            self._found = self._look(state)
            self._found_until_s = min(self._silent_from_s, self._first_aged_s(state)) - EARLY_S
        return self._found

    def _look(self, state: State) -> tuple[dict[Cause, str], list[Cause]]:
        causes: dict[Cause, str] = {}
        unseen: list[Cause] = []
        self._take_in(state)
        if self._faulty:
            _look_for_faults(state, causes)
        if state.at_s >= self._silent_from_s:
            self._look_for_silence(state, causes)
        self._check_air(state, causes)
        self._check_ph(state, causes, unseen)
        for gauge, pump in self._gauges:
            _look_for_suction(gauge, pump, state, causes, unseen)
        self._line_flows.update(state, causes, unseen)
        return causes, unseen

    def _first_aged_s(self, state: State) -> float:
        """Return when the first reading that is trusted here will be too old; `-inf` if one is from the future."""
        first_s = inf
        for point, max_s in self._trusted_for_s.items():
            reading = state.readings.get(point)
            good = None if reading is None else reading.good
            if good is not None:
                age_s = state.at_s - good.at_s
                first_s = min(first_s, -inf if age_s < 0.0 else good.at_s + max_s if age_s <= max_s else inf)
        return first_s

    def _check_air(self, state: State, causes: dict[Cause, str]) -> None:
        """Detect a flow of air without a trusted reading."""
        if self._air is None:
            return
        air = state.readings.get(self._air)
        if air is not None and trusted(state, self._air, self._air_stale_s) is None:
            causes["air_lost", self._air] = f"it has no reading: {air.detail or 'stale'}"

    def _check_ph(self, state: State, causes: dict[Cause, str], unseen: list[Cause]) -> None:
        """Detect a pH of the medium that is far from its target."""
        for point, target in self._ph_targets.items():
            ph = trusted(state, point, PH_STALE_S)
            if ph is None:
                unseen.append(("acidity", point))
            elif abs(ph - target) > PH_BEYOND:
                causes["acidity", point] = f"pH {ph:.2f}, set-point {target:g}"

    def _take_in(self, state: State) -> None:
        """Note the readings and views that are new since the last tick."""
        known = self._known
        for point, reading in state.readings.items():
            if (before := known.get(point)) is not reading:
                known[point] = reading
                if reading.stuck or reading.quality is Quality.MISSING:
                    self._faulty.add(point)
                else:
                    self._faulty.discard(point)
                if before is None or reading.at_s < before.at_s:  # a newer answer only puts the time off
                    self._expect_answer(point, reading.at_s)
        for name, view in state.actuators.items():
            if (seen := self._views.get(name)) is not view:
                self._views[name] = view
                if seen is None or view.at_s < seen.at_s:
                    self._expect_answer(name, view.at_s)

    def _expect_answer(self, point: str, at_s: float) -> None:
        """Note when the device of `point` counts as silent if nothing newer than `at_s` comes."""
        max_s = self._oldest.get(point.partition(".")[0])
        if max_s is not None:
            self._silent_from_s = min(self._silent_from_s, at_s + max_s - EARLY_S)

    def _look_for_silence(self, state: State, causes: dict[Cause, str]) -> None:
        """Detect a hung link, which neither answers nor fails: its last readings look good and only age."""
        self._silent_from_s = inf
        for seen in (state.readings, state.actuators):
            for point, last in seen.items():
                device = point.partition(".")[0]
                max_s = self._oldest.get(device)  # the nerves are no device and are checked elsewhere
                if max_s is not None and state.at_s - last.at_s > max_s:
                    causes.setdefault(
                        ("device_lost", device),
                        f"{point} has not answered for more than {max_s:g} s, and no error came",
                    )
                self._expect_answer(point, last.at_s)


def _look_for_faults(state: State, causes: dict[Cause, str]) -> None:
    """Find stuck probes and devices that do not answer."""
    for point, reading in state.readings.items():
        if reading.stuck:
            causes["sensor_flat", point] = reading.detail
        elif reading.quality is Quality.MISSING:
            causes["device_lost", point.partition(".")[0]] = reading.detail


def _look_for_suction(gauge: str, pump: str, state: State, causes: dict[Cause, str], unseen: list[Cause]) -> None:
    """Detect a heart that reports forward rotation but sucks where it should press: it drains its chamber."""
    kpa, view = trusted(state, gauge, PRESSURE_STALE_S), state.actuators.get(pump)
    if kpa is None or view is None or not isinstance(view.status, PumpStatus):
        unseen.append(("heart_backwards", pump))
    elif view.status.running and kpa <= SUCTION_KPA:
        causes["heart_backwards", pump] = f"it runs, and its gauge shows {kpa:.2f} kPa: suction where it should press"
