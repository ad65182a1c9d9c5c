"""Flows of pumps whose speed has steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drivers.commands import FLOW_TOLERANCE


@dataclass(frozen=True, slots=True)
class FlowSteps:
    """Flows of a pump with speed steps of `step_ul_min`, up to `max_ul_min` (µL/min)."""

    step_ul_min: float
    max_ul_min: float

    def count(self, flow_ul_min: float) -> int:
        """Return the number of steps nearest to a flow of either sign; at least 1."""
        return max(1, round(abs(flow_ul_min) / self.step_ul_min))

    def near(self, flow_ul_min: float) -> tuple[float, ...]:
        """Return `flow_ul_min` itself if a step is near enough (:data:`FLOW_TOLERANCE`), or if it is beyond the
        maximum.

        Otherwise return the neighbouring flows that the pump can give (µL/min), of the same sign, the nearest
        first.
        """
        size = abs(flow_ul_min)
        if not 0.0 < size <= self.max_ul_min:
            return (flow_ul_min,)
        if abs(self.count(size) * self.step_ul_min - size) <= FLOW_TOLERANCE * size:
            return (flow_ul_min,)
        below = math.floor(size / self.step_ul_min)
        lowest, highest = 1, max(1, math.floor(self.max_ul_min / self.step_ul_min + 1e-9))
        flows = {min(max(count, lowest), highest) * self.step_ul_min for count in (below, below + 1)}
        return tuple(math.copysign(flow, flow_ul_min) for flow in sorted(flows, key=lambda flow: abs(flow - size)))

    def nearest(self, flow_ul_min: float, limit_ul_min: float = math.inf) -> float:
        """Return the nearest of :meth:`near` that is not above `limit_ul_min`; `flow_ul_min` itself if all are
        above.
        """
        return next((flow for flow in self.near(flow_ul_min) if abs(flow) <= limit_ul_min), flow_ul_min)

    def too_coarse(self, flow_ul_min: float) -> tuple[str, str] | None:
        """Return the problem and the action for a flow between two steps; None if the pump can give it."""
        flows = self.near(flow_ul_min)
        if flows == (flow_ul_min,):
            return None
        possible = " or ".join(f"{flow:g}" for flow in sorted(flows, key=abs))
        return (
            f"{flow_ul_min:g} µL/min lies between its steps; next to it there is {possible}",
            f"ask for {possible} µL/min, or fit narrower tubing",
        )
