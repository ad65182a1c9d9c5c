"""The steps of a fit: they end at each observation and transfer; temperature, gas and flow in each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from choroid.common.failure import UserError
from choroid.fitting.body_transfers import BodyTransfer
from choroid.fitting.observations import Observation
from choroid.fitting.series import DAY_S, F8, means
from controller.memory.history_reader import HistoryReader
from controller.rig.description import Rig
from controller.rig.perfusion import circulating
from controller.rig.probes import chamber_temperature, temperature_target_c
from sim.plant import gas
from sim.plant.circulating import InputColumn, MoveColumn

STEP_S = 7200.0
TOGETHER_S = 1800.0
"""Transfers within this count as one moment: the parts of a cycle that takes minutes."""
LONGEST_GAP_S = DAY_S
"""Without a reading of any input for longer than this, what the tissue lived in is not known."""
BRIDGED_S = 3 * 3600.0
"""A gap up to this is not worth a warning."""
CO2_FRACTION = 0.05
"""Of the gas, where nothing else is known."""


def laid_out(length_s: float, moved: Sequence[BodyTransfer], found: Sequence[Observation]) -> tuple[F8, F8, F8]:
    """Return steps that end at each observation and transfer, the transfers by step, and the step of each observation."""
    grid = np.arange(0.0, length_s, STEP_S)
    seen = np.unique([float(round(each.at_s)) for each in found])
    when = [_together(each.at_s, seen) for each in moved]
    marks = [*when, *seen]
    edges = np.unique(np.concatenate([grid, np.asarray(marks, dtype=np.float64), [length_s]]))
    edges = edges[(edges >= 0.0) & (edges <= length_s)]
    steps = np.zeros((len(edges) - 1, len(InputColumn)))
    steps[:, InputColumn.DT_S] = np.diff(edges)
    moves = np.array(
        [
            (np.searchsorted(edges, at_s), each.source, each.target, each.ul)
            for at_s, each in zip(when, moved, strict=True)
        ],
        dtype=np.float64,
    ).reshape(-1, len(MoveColumn))
    moves = moves[np.argsort(moves[:, MoveColumn.STEP], kind="stable")]
    place = np.array([np.searchsorted(edges, round(each.at_s)) - 1 for each in found], dtype=np.float64)
    return steps, moves, np.clip(place, 0, len(steps) - 1)


def _together(at_s: float, seen: F8) -> float:
    """Return the moment of a transfer: rounded, but on the same side of each observation."""
    rounded = round(at_s / TOGETHER_S) * TOGETHER_S
    before, after = seen[seen <= at_s], seen[seen > at_s]
    if len(before):
        rounded = max(rounded, float(before[-1]))
    return min(rounded, float(after[0]) - 1.0) if len(after) else rounded


class InputCourses:
    """The recorded courses of temperature, gas and flow over the steps; `assumed` says what was not recorded."""

    def __init__(self, rig: Rig, history: HistoryReader, steps: F8, begin: float) -> None:
        self.assumed: list[str] = []
        self._rig, self._history, self._steps, self._begin = rig, history, steps, begin
        ends = begin + np.cumsum(steps[:, InputColumn.DT_S])
        self._middle: F8 = ends - 0.5 * steps[:, InputColumn.DT_S]
        self._end = float(ends[-1])

    def fill(self) -> None:
        """Write them into the steps.

        Raises:
            UserError: One has a gap of more than :data:`LONGEST_GAP_S`.
        """
        rig, steps = self._rig, self._steps
        steps[:, InputColumn.TEMPERATURE_C] = self._course(
            chamber_temperature(rig), temperature_target_c(rig), "temperature, °C"
        )
        self._fill_gas()
        hearts = rig.organs.hearts.values()
        total = np.zeros(len(steps))
        for heart in hearts:
            pump = rig.lines[heart.line].pump
            total += self._course(f"{pump}.flow", heart.flow_ul_min, f"flow of {pump}, µL/min")
        steps[:, InputColumn.FLOW] = np.maximum(total, 0.0) / sum(heart.flow_ul_min for heart in hearts)

    def _fill_gas(self) -> None:
        rig, steps, lung = self._rig, self._steps, self._rig.organs.lung
        if lung is None:
            zone = rig.zones.get(rig.vessels[circulating(rig)[0]].zone or "")
            steps[:, InputColumn.O2_FRACTION] = gas.AIR_O2 if zone is None else zone.oxygen_pct / 100.0
            steps[:, InputColumn.CO2_FRACTION] = CO2_FRACTION if zone is None else zone.co2_pct / 100.0
            return
        co2_ml_min = CO2_FRACTION * lung.total_ml_min
        flows = [
            self._course(lung.air, lung.total_ml_min - co2_ml_min, "flow of air, mL/min"),
            self._course(lung.co2, co2_ml_min, "flow of CO2, mL/min"),
            self._course(lung.o2, 0.0, "flow of oxygen, mL/min"),
        ]
        for number, (air, co2, o2) in enumerate(zip(*flows, strict=True)):
            mixed = gas.mixed(max(air, 0.0), max(co2, 0.0), max(o2, 0.0)) or (gas.AIR_O2, gas.AIR_CO2)
            steps[number, InputColumn.O2_FRACTION], steps[number, InputColumn.CO2_FRACTION] = mixed

    def _course(self, point: str | None, default: float, what: str) -> F8:
        """Return one input in the middle of each step."""
        begin, end = self._begin, self._end
        times, values = (np.empty(0), np.empty(0)) if point is None else means(self._history, point, begin, end)
        if len(times) == 0:
            self.assumed.append(f"{what} was not recorded; {default:g} is assumed")
            return np.full(len(self._middle), default)
        gaps = np.diff(np.concatenate([[begin], times, [end]]))
        longest = float(gaps.max())
        if longest > LONGEST_GAP_S:
            after = datetime.fromtimestamp([begin, *times.tolist()][int(gaps.argmax())], UTC)
            raise UserError(
                f"{what} ({point}) has a gap of {longest / 3600:.0f} h after {after:%Y-%m-%d %H:%M} UTC; what the tissue"
                " lived in is not known. Likely cause: no controller ran. Next: choose a period without it by --from and --to"
            )
        if longest > BRIDGED_S:
            self.assumed.append(f"{what} has a gap of {longest / 3600:.0f} h, which is bridged by a straight line")
        filled: F8 = np.interp(self._middle, times, values)
        return filled
