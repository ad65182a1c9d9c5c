"""Pumps whose speed goes in steps: which flows they can give."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drivers.commands import FLOW_TOLERANCE


@dataclass(frozen=True, slots=True)
class FlowSteps:
    """A pump that gives one step, two, three and so on: `step_ul_min` is one, `most_ul_min` bounds them (µL/min)."""

    step_ul_min: float
    most_ul_min: float

    def count(self, flow_ul_min: float) -> int:
        """The number of steps that is nearest to a flow of either sign; never none."""
        return max(1, round(abs(flow_ul_min) / self.step_ul_min))

    def near(self, flow_ul_min: float) -> tuple[float, ...]:
        """`flow_ul_min` alone when a step is as good as it (:data:`FLOW_TOLERANCE`), or when it is beyond the pump's most.

        Else the flows next to it that the pump can give, of the same sign, the nearest first.
        """
        size = abs(flow_ul_min)
        if not 0.0 < size <= self.most_ul_min:
            return (flow_ul_min,)
        if abs(self.count(size) * self.step_ul_min - size) <= FLOW_TOLERANCE * size:
            return (flow_ul_min,)
        below = math.floor(size / self.step_ul_min)
        least, most = 1, max(1, math.floor(self.most_ul_min / self.step_ul_min + 1e-9))
        flows = {min(max(count, least), most) * self.step_ul_min for count in (below, below + 1)}
        return tuple(math.copysign(flow, flow_ul_min) for flow in sorted(flows, key=lambda flow: abs(flow - size)))

    def nearest(self, flow_ul_min: float, most_ul_min: float = math.inf) -> float:
        """The nearest of :meth:`near` that is not above `most_ul_min`; if all are, `flow_ul_min` as it is."""
        return next((flow for flow in self.near(flow_ul_min) if abs(flow) <= most_ul_min), flow_ul_min)

    def too_coarse(self, flow_ul_min: float) -> tuple[str, str] | None:
        """What to say of a flow that the steps would change, and what to do about it; None when they do not."""
        flows = self.near(flow_ul_min)
        if flows == (flow_ul_min,):
            return None
        had = " or ".join(f"{flow:g}" for flow in sorted(flows, key=abs))
        return (
            f"{flow_ul_min:g} µL/min lies between its steps; next to it there is {had}",
            f"ask for {had} µL/min, or fit narrower tubing",
        )
