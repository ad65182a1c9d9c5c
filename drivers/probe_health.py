"""Health that a probe reports of itself: slope and zero offset of an electrode, a quality indicator, a cell constant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HealthItem:
    """One figure of health and the range in which the probe is fit for use."""

    name: str
    unit: str
    low: float
    high: float
    meaning: str
    action: str
    """What a person does about a figure outside the range."""

    def fault(self, value: float) -> str | None:
        """Return what is wrong with a value, with the next action; None if it is within the range."""
        if self.low <= value <= self.high:
            return None
        unit = f" {self.unit}" if self.unit else ""
        limits = f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"
        return f"its {self.meaning} is {value:.4g}{unit}, and {limits}{unit} is sound. Next: {self.action}"


class ProbeHealth(ABC):
    """Access to the health that a probe reports. `point` is the point that depends on it."""

    point: str
    items: tuple[HealthItem, ...]

    def point_of(self, device: str) -> str:
        """Return the full name of the point."""
        return f"{device}.{self.point}"

    @abstractmethod
    async def read(self) -> Mapping[str, float]:
        """Return the present figures by the names of `items`; one that this probe does not report is left out.

        Raises:
            DeviceError: The probe does not answer, or not so that it can be believed.
        """

    def faults(self, figures: Mapping[str, float]) -> tuple[str, ...]:
        """Return what is wrong with figures."""
        found = (item.fault(figures[item.name]) for item in self.items if item.name in figures)
        return tuple(each for each in found if each is not None)


ELECTRODE = "replace the electrode; clean it first if it is fouled, and calibrate it with fresh buffers"
SLOPE_LOW_PCT, SLOPE_HIGH_PCT = 85.0, 105.0
"""Slope of a pH electrode that is fit for use, in % of an ideal one (usual acceptance range of makers)."""
OFFSET_MV = 30.0
"""Largest zero offset of a pH electrode that is fit for use (mV), in either direction."""
PH_ITEMS = (
    HealthItem("slope_acid", "%", SLOPE_LOW_PCT, SLOPE_HIGH_PCT, "slope below pH 7", ELECTRODE),
    HealthItem("slope_base", "%", SLOPE_LOW_PCT, SLOPE_HIGH_PCT, "slope above pH 7", ELECTRODE),
    HealthItem("zero_offset", "mV", -OFFSET_MV, OFFSET_MV, "zero offset", ELECTRODE),
)
