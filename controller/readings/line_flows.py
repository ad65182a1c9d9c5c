"""Flow sensors in the lines of hearts: what they measure against what the pump reports.

A pump counts revolutions, not medium. While it runs and a sensor in its line shows another flow, the line is blocked, leaks,
draws air, or its tubing is worn out. A branch has the share of the flow that its resistance leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from controller.core.state import Reading, State
from controller.regulation.trust import trusted
from controller.rig.description import Rig
from controller.rig.families import AIR_IN_LINE
from controller.rig.flow_sensors import MEAN_OVER_S, expected_flows, in_lines
from drivers.commands import PumpStatus, Quality

SETTLED_S = 60.0
"""Minimum time of a steady command before the flow is judged (s)."""
STALE_S = 60.0
OFF_REL, BRANCH_OFF_REL = 0.3, 0.5
"""Permitted difference, as a share of the expected flow: calibration and wear of a pump; of a branch also its bore."""
MIN_UL_MIN = 20.0
"""Flows below it are not judged: sensors for millilitres per minute have such a noise."""
AIR = 0.5

Cause = tuple[str, str]


@dataclass(slots=True)
class _Sensor:
    """A flow sensor: the pump whose flow it should show, with its share of it, and the mean of what it shows."""

    point: str
    pump: str
    share: float
    mean_ul_min: float | None = None
    seen: Reading | None = None
    expected_ul_min: float = 0.0
    since_s: float = 0.0

    def update(self, state: State) -> str | None:
        """Take in the newest reading. Return what is wrong with the flow; None if nothing is, or if it is not known."""
        self._expect(state)
        reading = state.readings.get(self.point)
        if reading is not None and reading is not self.seen and reading.quality is Quality.GOOD:
            last_s = state.at_s if self.seen is None else self.seen.at_s
            weight = 1.0 - exp(-max(reading.at_s - last_s, 0.0) / MEAN_OVER_S)
            self.mean_ul_min = (
                reading.value
                if self.mean_ul_min is None
                else self.mean_ul_min + weight * (reading.value - self.mean_ul_min)
            )
            self.seen = reading
        if not self.known(state) or self.mean_ul_min is None:
            return None
        off_rel = OFF_REL if self.share >= 1.0 else BRANCH_OFF_REL
        if abs(self.mean_ul_min - self.expected_ul_min) <= off_rel * self.expected_ul_min:
            return None
        found, expected = self.mean_ul_min / 1000.0, self.expected_ul_min / 1000.0
        return f"{found:.3g} mL/min flow, and {expected:.3g} mL/min are expected of {self.pump}"

    def known(self, state: State) -> bool:
        """Return whether the flow can be judged: the pump has run steadily for a while, and the sensor is trusted."""
        settled = self.expected_ul_min >= MIN_UL_MIN and state.at_s - self.since_s >= SETTLED_S
        return settled and trusted(state, self.point, STALE_S) is not None

    def _expect(self, state: State) -> None:
        """Take in the flow that the pump reports; a change of a tenth begins a new time."""
        view = state.actuators.get(self.pump)
        status = None if view is None or view.fault else view.status
        running = isinstance(status, PumpStatus) and status.running
        flow_ul_min = self.share * status.flow_ul_min if running and isinstance(status, PumpStatus) else 0.0
        if abs(flow_ul_min - self.expected_ul_min) > 0.1 * self.expected_ul_min:
            self.since_s, self.mean_ul_min = state.at_s, None
        self.expected_ul_min = flow_ul_min


class LineFlows:
    """Watches the flow sensors of one rig."""

    def __init__(self, rig: Rig) -> None:
        self._sensors = [_Sensor(point, pump, share) for point, (pump, share) in expected_flows(rig).items()]
        self._air = list(in_lines(rig, AIR_IN_LINE))

    def update(self, state: State, causes: dict[Cause, str], unseen: list[Cause]) -> None:
        """Add what is wrong to `causes`, and what cannot be judged to `unseen`."""
        for sensor in self._sensors:
            why = sensor.update(state)
            if why is not None:
                causes["line_flow", sensor.point] = why
            elif not sensor.known(state):
                unseen.append(("line_flow", sensor.point))
        for point in self._air:
            value = trusted(state, point, STALE_S)
            if value is None:
                unseen.append(("air_in_line", point))
            elif value > AIR:
                causes["air_in_line", point] = "the sensor sees air instead of medium"
